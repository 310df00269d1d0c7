//! The command: clear words when something is missing, and nothing left behind.

use sluice_lab::process::WorkDir;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

fn lab(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sluice-lab"));
    command
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn run(args: &[&str]) -> (Option<i32>, String, String) {
    let Output {
        status,
        stdout,
        stderr,
    } = lab(args).output().unwrap();
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    (status.code(), text(&stdout), text(&stderr))
}

/// Processes whose command line names `dir`.
fn processes_of(dir: &Path) -> usize {
    let name = dir.to_string_lossy().into_owned();
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = entries.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines
        .filter(|line| String::from_utf8_lossy(line).contains(&name))
        .count()
}

#[test]
fn a_proxy_that_cannot_start_is_one_clear_line() {
    let dir = WorkDir::new().unwrap();
    let fake = dir.path().join("haproxy");
    std::fs::write(
        &fake,
        "#!/bin/sh\necho 'noise'; echo '[ALERT] the stars are wrong' >&2; exit 1\n",
    )
    .unwrap();
    let status = Command::new("chmod")
        .args(["+x", fake.to_str().unwrap()])
        .status()
        .unwrap();
    assert!(status.success());
    let (fake, out) = (fake.to_str().unwrap(), dir.path().to_str().unwrap());
    let (code, stdout, stderr) = run(&[
        "compare",
        "keepalive-64",
        "--short",
        "-p",
        "haproxy",
        "--haproxy",
        fake,
        "-o",
        out,
    ]);
    assert_eq!(code, Some(1));
    let line = "haproxy ended (exit status: 1): [ALERT] the stars are wrong";
    assert!(
        stderr.contains(line) && stdout.contains(line),
        "{stderr}{stdout}"
    );
}

#[test]
fn what_is_missing_is_named() {
    let check = |args: &[&str], expect: &str| {
        let (code, _, stderr) = run(args);
        assert_eq!(code, Some(1), "{args:?}");
        assert!(stderr.contains(expect), "{stderr}");
    };
    check(
        &["compare", "-p", "sluice", "--sluice", "/nowhere"],
        "there is no sluice at /nowhere",
    );
    check(
        &["compare", "nope", "-p", "relay"],
        "there is no scenario 'nope'",
    );
    check(
        &["sweep", "--series", "nope", "-p", "relay"],
        "there is no series 'nope'",
    );
    check(&["inject", "https://127.0.0.1/"], "TLS is not spoken");
    check(
        &["inject", "127.0.0.1:1", "--mix", "/nowhere"],
        "cannot read /nowhere",
    );
    check(&["relay", "1", "--cpus", "900"], "cannot run on CPU 900");
}

#[test]
fn a_port_in_use_is_one_clear_line() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = taken.local_addr().unwrap().to_string();
    let check = |args: &[&str]| {
        let (code, _, stderr) = run(args);
        let line = format!("sluice-lab: cannot listen on {addr}: the port is in use");
        assert_eq!(code, Some(1), "{args:?}");
        assert!(
            stderr.starts_with(&line) && stderr.lines().count() == 1,
            "{stderr}"
        );
    };
    check(&["origin", "-l", &addr]);
    check(&["relay", "-l", &addr, "127.0.0.1:1"]);
    drop(taken);
    // Another origin shares its port with its own threads only, though the kernel would let us in.
    let _origin = sluice_lab::origin::Origin::start(&sluice_lab::origin::Options {
        listen: addr.parse().unwrap(),
        ..Default::default()
    })
    .unwrap();
    check(&["origin", "-l", &addr]);
}

#[test]
fn a_server_that_is_not_there_or_dies_is_one_clear_line() {
    let port = sluice_lab::process::free_port().unwrap();
    let (addr, url) = (
        format!("127.0.0.1:{port}"),
        format!("http://127.0.0.1:{port}/"),
    );
    let (code, _, stderr) = run(&["inject", &url, "-d", "300ms"]);
    let line = format!("sluice-lab: no answer from {addr}: connection refused\n");
    assert_eq!((code, stderr), (Some(1), line));
    let (code, _, stderr) = run(&["inject", &url, "-n", "5", "--timeout", "1s"]);
    assert_eq!(
        code,
        Some(1),
        "requests without a server come to an end: {stderr}"
    );
    let mut origin = lab(&["origin", "-l", &addr, "-d", "900ms"])
        .spawn()
        .unwrap();
    let until = Instant::now() + Duration::from_secs(10);
    while std::net::TcpStream::connect(&addr).is_err() {
        assert!(Instant::now() < until, "the origin does not start");
        std::thread::yield_now();
    }
    let (code, _, stderr) = run(&["inject", &url, "-d", "2s"]);
    let line = format!("sluice-lab: {addr} stopped answering: connection refused\n");
    assert_eq!((code, stderr), (Some(1), line));
    assert!(origin.wait().unwrap().success());
}

#[test]
fn the_relay_passes_a_comparison_and_leaves_a_page() {
    let dir = WorkDir::new().unwrap();
    let out = dir.path().to_str().unwrap();
    let (code, stdout, stderr) = run(&[
        "compare",
        "keepalive-64",
        "close",
        "tcp",
        "--short",
        "-p",
        "relay",
        "-b",
        "relay",
        "-o",
        out,
    ]);
    assert_eq!(code, Some(0), "{stderr}");
    // A table of costs and one of what the client saw, for each scenario.
    assert_eq!(stdout.matches("\nrelay ").count(), 6, "{stdout}");
    let data: serde_json::Value =
        serde_json::from_slice(&std::fs::read(dir.path().join("compare.json")).unwrap()).unwrap();
    let cost = data["scenarios"][0]["peers"][0]["samples"][0]["cost"]
        .as_f64()
        .unwrap();
    assert!(cost > 0.5 && cost < 5000.0, "{cost} us a request");
    let page = std::fs::read_to_string(dir.path().join("compare.html")).unwrap();
    assert!(page.matches("<svg").count() >= 6 && page.contains("how relay was run"));
}

#[test]
fn an_interrupted_run_writes_its_report_and_leaves_nothing() {
    interrupted(&[]);
}

#[test]
fn an_interrupted_run_on_three_hosts_leaves_no_host() {
    match sluice_lab::netns::Topology::new(1500, 1500) {
        Ok(_) => interrupted(&["--mtu", "9000,1500"]),
        Err(error) => eprintln!("skipped: {error:#}"),
    }
}

/// Processes that live in the network namespace with this name.
fn in_namespace(name: &Path) -> usize {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let names = entries.filter_map(|entry| std::fs::read_link(entry.path().join("ns/net")).ok());
    names.filter(|other| other == name).count()
}

fn interrupted(more: &[&str]) {
    let dir = WorkDir::new().unwrap();
    let out = dir.path().join("out");
    // Its temporary folder is ours, so that what it starts can be told from others' processes.
    let mut child: Child = lab(&[
        "compare",
        "keepalive-64",
        "-p",
        "relay",
        "-d",
        "20s",
        "-r",
        "50",
        "-o",
        out.to_str().unwrap(),
    ])
    .args(more)
    .env("TMPDIR", dir.path())
    .spawn()
    .unwrap();
    let until = Instant::now() + Duration::from_secs(20);
    let relay_of = |pid: u32| {
        std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default()
    };
    while relay_of(child.id()).trim().is_empty() {
        assert!(Instant::now() < until, "no relay was started");
        std::thread::sleep(Duration::from_millis(20));
    }
    let relay: u32 = relay_of(child.id())
        .split_whitespace()
        .next()
        .unwrap()
        .parse()
        .unwrap();
    let home = std::fs::read_link("/proc/self/ns/net").unwrap();
    let host = std::fs::read_link(format!("/proc/{relay}/ns/net")).unwrap();
    assert_eq!(host == home, more.is_empty());
    std::thread::sleep(Duration::from_millis(300));
    let status = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status()
        .unwrap();
    assert!(status.success());
    let status = child.wait().unwrap();
    assert!(status.success(), "{status}");
    assert!(
        !Path::new(&format!("/proc/{relay}")).exists(),
        "the relay lives on"
    );
    assert!(
        more.is_empty() || in_namespace(&host) == 0,
        "the proxy's host lives on"
    );
    let page = std::fs::read_to_string(out.join("compare.html")).unwrap();
    assert!(page.contains("The run was interrupted"));
    let left: Vec<_> = std::fs::read_dir(dir.path())
        .unwrap()
        .flatten()
        .map(|entry| entry.file_name())
        .collect();
    assert_eq!(left, ["out"], "temporary files are left");
    assert_eq!(processes_of(dir.path()), 0);
}

#[test]
fn json_lines_are_json() {
    let origin = sluice_lab::origin::Origin::start(&Default::default()).unwrap();
    let url = format!("http://{}/?s=64", origin.addr());
    let (code, stdout, _) = run(&["inject", &url, "-c", "4", "-d", "1200ms", "--json"]);
    assert_eq!(code, Some(0));
    let lines: Vec<serde_json::Value> = stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let kinds: Vec<_> = lines
        .iter()
        .map(|line| line["kind"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["second", "total"]);
    assert_eq!(lines[1]["errors"]["timeout"], 0);
    assert!(lines[1]["requests"].as_u64().unwrap() >= lines[0]["requests"].as_u64().unwrap());
    assert_eq!(lines[1]["latency_us"][7][0], 99.9999);
}
