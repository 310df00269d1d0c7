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

/// As Ctrl-C does, but for this process alone.
fn interrupt(child: &Child) {
    let pid = child.id().to_string();
    let status = Command::new("kill").args(["-INT", &pid]).status().unwrap();
    assert!(status.success());
}

fn names_in(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).unwrap().flatten();
    entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
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
    check(
        &["compare", "-p", "relay", "-o", "/proc/nowhere"],
        "cannot write into /proc/nowhere: no such file or directory",
    );
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
    interrupt(&child);
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
    assert_eq!(names_in(dir.path()), ["out"], "temporary files are left");
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
    let (last, seconds) = kinds.split_last().unwrap();
    assert_eq!(*last, "total");
    assert!(
        !seconds.is_empty() && seconds.iter().all(|kind| *kind == "second"),
        "{kinds:?}"
    );
    let total = &lines[seconds.len()];
    assert_eq!(total["errors"]["timeout"], 0);
    assert!(total["requests"].as_u64().unwrap() >= lines[0]["requests"].as_u64().unwrap());
    assert_eq!(total["latency_us"][7][0], 99.9999);
}

#[test]
fn an_interrupt_at_any_time_leaves_a_report_and_nothing_else() {
    // Phases differ in length from machine to machine: a range of delays meets starting, warming up, measuring, counting.
    for (args, page) in [
        (
            &["compare", "keepalive-64", "-d", "100ms", "-r", "3"][..],
            "compare.html",
        ),
        (&["limits", "--short", "-d", "100ms"][..], "limits.html"),
    ] {
        for delay_ms in [0, 400] {
            let dir = WorkDir::new().unwrap();
            let out = dir.path().join("out");
            let mut child = lab(args)
                .args(["-p", "relay", "-o", out.to_str().unwrap()])
                .env("TMPDIR", dir.path())
                .spawn()
                .unwrap();
            // The handler stands once the first thread or file is there; before that there is nothing to clean up.
            let until = Instant::now() + Duration::from_secs(20);
            while std::fs::read_dir(dir.path()).unwrap().next().is_none() {
                assert!(Instant::now() < until, "{args:?} does not begin");
                std::thread::sleep(Duration::from_millis(1));
            }
            std::thread::sleep(Duration::from_millis(delay_ms));
            interrupt(&child);
            let status = child.wait().unwrap();
            assert_eq!(status.code(), Some(0), "{args:?} after {delay_ms} ms");
            assert!(out.join(page).is_file(), "{args:?} after {delay_ms} ms");
            assert_eq!(names_in(dir.path()), ["out"], "temporary files are left");
            assert_eq!(processes_of(dir.path()), 0, "{args:?} after {delay_ms} ms");
        }
    }
}

#[test]
fn a_live_line_for_every_second() {
    let origin = sluice_lab::origin::Origin::start(&Default::default()).unwrap();
    let url = format!("http://{}/?s=64", origin.addr());
    let (code, stdout, stderr) = run(&["inject", &url, "-c", "2", "-t", "2", "-d", "2s"]);
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    let lines: Vec<&str> = stdout.lines().collect();
    let heads: Vec<&str> = lines[0].split_whitespace().collect();
    assert_eq!(
        heads,
        [
            "time", "open", "conn/s", "req/s", "bit/s", "p50", "p99", "errors"
        ]
    );
    // A machine that holds us up makes it more seconds, never fewer and none left out.
    let seconds: Vec<&str> = lines[1..]
        .iter()
        .map_while(|line| line.split_whitespace().next()?.strip_suffix('s'))
        .collect();
    let expect: Vec<String> = (1..=seconds.len()).map(|n| n.to_string()).collect();
    assert!(seconds.len() >= 2 && seconds == expect, "{stdout}");
    let closing = lines[1 + seconds.len()];
    assert!(
        closing.contains(" requests on 2 connections in "),
        "{stdout}"
    );
}

#[test]
fn the_usual_short_options_and_units_work() {
    let origin = sluice_lab::origin::Origin::start(&Default::default()).unwrap();
    let url = format!("http://{}/?s=1k", origin.addr());
    let total = |args: &[&str]| -> serde_json::Value {
        let args = [&["inject", &url, "--json"], args].concat();
        let (code, stdout, stderr) = run(&args);
        assert_eq!((code, stderr.as_str()), (Some(0), ""), "{args:?}");
        serde_json::from_str(stdout.lines().last().unwrap()).unwrap()
    };
    let all = total(&["-c", "4", "-t", "2", "-n", "1k"]);
    assert_eq!(
        (&all["requests"], &all["statuses"][1]),
        (&1000.into(), &1000.into())
    );
    let all = total(&[
        "--connections",
        "3",
        "-n",
        "60",
        "--requests-per-conn",
        "10",
    ]);
    assert_eq!(all["requests"], 60);
    let all = total(&["-c", "4", "-R", "0.2k", "-d", "500ms"]);
    let done = all["requests"].as_u64().unwrap() + all["unfinished"].as_u64().unwrap();
    // As many as were due until the end, which a busy machine may delay.
    let due = 200.0 * all["at_s"].as_f64().unwrap();
    assert!(
        (90.0..=due + 2.0).contains(&(done as f64)),
        "{done} of {due}"
    );
    let all = total(&[
        "-n",
        "20",
        "--soft-start",
        "10ms",
        "--think-time",
        "1ms",
        "-p",
        "2",
    ]);
    assert_eq!(all["requests"], 20);
    let all = total(&["-n", "5", "-X", "POST", "--body", "hello", "-H", "X-A: b"]);
    assert_eq!(all["requests"], 5);
}

#[test]
fn wrong_arguments_are_one_line_and_status_2() {
    for (args, expect) in [
        (
            &["inject"][..],
            "the following required arguments were not provided: <URL>",
        ),
        (
            &["inject", "u", "-c", "many"],
            "'many' is not a number above 0",
        ),
        (&["inject", "u", "-R", "0"], "'0' is not a number above 0"),
        (&["inject", "u", "-d", "soon"], "'soon' is not a time"),
        (&["relay", "nowhere"], "'nowhere' is not an address"),
        (
            &["origin", "-s", "0"],
            "invalid value '0' for '--servers <N>'",
        ),
        (
            &["compare", "-p", "apache"],
            "invalid value 'apache' for '--peers <PEERS>'",
        ),
        (&["compare", "--mtu", "9"], "'9' is not an MTU"),
        (&["bogus"], "unrecognized subcommand 'bogus'"),
    ] {
        let (code, stdout, stderr) = run(args);
        assert_eq!((code, stdout.as_str()), (Some(2), ""), "{args:?}");
        assert!(
            stderr.starts_with("sluice-lab: ") && stderr.contains(expect),
            "{stderr}"
        );
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
    }
}

#[test]
fn every_command_has_its_help() {
    let (code, stdout, _) = run(&["--help"]);
    assert_eq!(code, Some(0));
    let listed = stdout
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1);
    let names: Vec<String> = listed
        .map_while(|line| line.split_whitespace().next().map(str::to_owned))
        .collect();
    assert!(names.len() >= 14, "{stdout}");
    for name in names.iter().filter(|name| *name != "help") {
        let (code, stdout, stderr) = run(&[name, "--help"]);
        assert_eq!((code, stderr.as_str()), (Some(0), ""), "{name}");
        assert!(
            stdout.contains("Usage: sluice-lab ") && stdout.contains("--help"),
            "{stdout}"
        );
        assert!(
            stdout.lines().all(|line| line.chars().count() <= 180),
            "{stdout}"
        );
    }
}

#[test]
fn the_doctor_looks_and_touches_nothing() {
    let (code, stdout, stderr) = run(&["doctor"]);
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    for word in [
        "tcp_rmem",
        "tcp_wmem",
        "ip_local_port_range",
        "somaxconn",
        "file-max",
        "nr_open",
        "ulimit",
        "conntrack",
        "irqbalance",
        "IRQ",
        "RSS",
        "governor",
        "huge pages",
        "NUMA",
        "LRO",
        "GRO",
        "MTU",
    ] {
        assert!(stdout.contains(word), "{word} is missing:\n{stdout}");
    }
    let (code, json, _) = run(&["doctor", "--json"]);
    assert_eq!(code, Some(0));
    for line in json.lines() {
        let point: serde_json::Value = serde_json::from_str(line).unwrap();
        for field in ["name", "found", "wanted", "why"] {
            assert!(
                point[field].as_str().is_some_and(|text| !text.is_empty()),
                "{line}"
            );
        }
    }
    let (_, again, _) = run(&["doctor", "--json"]);
    assert_eq!(json.lines().count(), again.lines().count());
}

#[test]
fn the_relay_relays_and_ends_in_time() {
    let origin = sluice_lab::origin::Origin::start(&Default::default()).unwrap();
    for way in [&["-b", "16k"][..], &["--splice"]] {
        let to = origin.addr().to_string();
        let listen = format!("127.0.0.1:{}", sluice_lab::process::free_port().unwrap());
        let mut relay = lab(&["relay", "-l", &listen, "-d", "60s", &to])
            .args(way)
            .spawn()
            .unwrap();
        let until = Instant::now() + Duration::from_secs(20);
        while std::net::TcpStream::connect(&listen).is_err() {
            assert!(Instant::now() < until, "the relay does not start");
            std::thread::yield_now();
        }
        let url = format!("http://{listen}/?s=300k&seed=5");
        let (code, stdout, stderr) = run(&["inject", &url, "-c", "4", "-n", "40", "--check", "-q"]);
        assert_eq!((code, stderr.as_str()), (Some(0), ""), "{stdout}");
        interrupt(&relay);
        assert_eq!(relay.wait().unwrap().code(), Some(0));
    }
}
