//! `cpu-set`: the process keeps to the CPUs that it leaves, and has a worker for each.

mod support;

use support::daemon::{Daemon, SLUICE};

fn allowed(pid: u32) -> String {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("a process");
    let line = status
        .lines()
        .find_map(|l| l.strip_prefix("Cpus_allowed_list:"));
    line.expect("the kernel tells").trim().to_owned()
}

fn run(cpu_set: &str) -> Result<Daemon, String> {
    let text = format!(
        "global\n stats socket DIR/sock level admin\n {cpu_set}\ndefaults\n mode http\n timeout client 1s\nfrontend f\n bind unix@DIR/f\n"
    );
    Daemon::started(SLUICE, Daemon::fresh_dir(), &text, "f")
}

#[test]
fn the_process_keeps_to_its_cpus() {
    let ours = allowed(std::process::id());
    let first = ours.split([',', '-']).next().expect("a CPU").to_owned();
    let daemon = run(&format!("cpu-set only-cpu {first}")).expect("it starts");
    assert_eq!(allowed(daemon.pid()), first);
    assert!(daemon.ask("show info").contains("\nNbthread: 1\n"));

    let daemon = run("cpu-policy first-usable-node").expect("it starts");
    assert!(!allowed(daemon.pid()).is_empty());

    let said = run("cpu-set drop-cpu 0-1023")
        .err()
        .expect("it does not start");
    assert!(
        said.contains("cpu-set : no CPU is left to run on"),
        "{said}"
    );
}
