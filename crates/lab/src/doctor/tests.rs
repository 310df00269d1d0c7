//! Hosts made of files, and what is found on them.

use super::*;
use crate::process::WorkDir;

fn host(files: &[(&str, &str)]) -> (WorkDir, Host) {
    let dir = WorkDir::new().unwrap();
    for (path, text) in files {
        let file = dir.path().join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }
    let host = Host::at(dir.path());
    (dir, host)
}

fn finding(host: &Host, name: &str) -> Finding {
    examine(host)
        .into_iter()
        .find(|(check, _)| check.name.starts_with(name))
        .unwrap()
        .1
}

#[test]
fn a_small_setting_is_named_with_its_command() {
    let (_dir, host) = host(&[("proc/sys/net/core/somaxconn", "4096\n")]);
    let found = finding(&host, "accept queue");
    assert_eq!((found.ok, found.found.as_str()), (Some(false), "4096"));
    assert_eq!(found.command, "sysctl -w net.core.somaxconn='65535'");
}

#[test]
fn findings_of_made_hosts() {
    let check = |files: &[(&str, &str)], name: &str, ok: Option<bool>| {
        let (_dir, host) = host(files);
        let found = finding(&host, name);
        assert_eq!(found.ok, ok, "{name}: {found:?}");
    };
    let ports = "proc/sys/net/ipv4/ip_local_port_range";
    check(&[(ports, "32768\t60999\n")], "port range", Some(false));
    check(&[(ports, "1024\t65535\n")], "port range", Some(true));
    check(
        &[("proc/sys/net/ipv4/tcp_rmem", "4096 131072 33554432")],
        "receive buffers",
        Some(true),
    );
    check(&[], "receive buffers", None);
    check(&[], "connection tracking", Some(true));
    check(
        &[("proc/sys/net/netfilter/nf_conntrack_max", "65536")],
        "connection tracking",
        Some(false),
    );
    check(
        &[("proc/12/comm", "irqbalance\n")],
        "irqbalance",
        Some(false),
    );
    check(&[("proc/12/comm", "bash\n")], "irqbalance", Some(true));
    let cpu = |n| format!("sys/devices/system/cpu/cpu{n}/cpufreq/scaling_governor");
    check(
        &[(&cpu(0), "performance"), (&cpu(1), "powersave")],
        "CPU governor",
        Some(false),
    );
    check(
        &[(
            "sys/kernel/mm/transparent_hugepage/enabled",
            "always madvise [never]",
        )],
        "huge pages",
        Some(false),
    );
    let limits = |n| {
        format!(
            "Limit  Soft  Hard  Units\nMax open files            1024                 {n}              files\n"
        )
    };
    check(
        &[("proc/self/limits", &limits("20000"))],
        "ulimit -n",
        Some(false),
    );
    check(
        &[("proc/self/limits", &limits("1048576"))],
        "ulimit -n",
        Some(true),
    );
    let card = [
        ("sys/class/net/eth0/device/x", ""),
        ("sys/class/net/eth0/mtu", "1500"),
        ("sys/class/net/lo/mtu", "65536"),
    ];
    check(&card, "MTU", Some(false));
}

#[test]
fn every_point_says_found_wanted_and_why() {
    let (_dir, host) = host(&[("proc/sys/net/core/somaxconn", "65535")]);
    let text = text(&examine(&host));
    for check in CHECKS {
        assert!(text.contains(&format!("{}: ", check.name)), "{text}");
        assert!(text.contains(&format!("why: {}", check.why)), "{text}");
    }
    assert_eq!(text.matches("; wanted: ").count(), CHECKS.len());
    let ok = "ok      accept queue (somaxconn): 65535; wanted: >= 65535\n";
    assert!(text.contains(ok), "{text}");
    assert!(text.contains("set: sysctl -w net.core.somaxconn='65535'"));
}

#[test]
fn applying_writes_only_what_is_wrong() {
    let (_dir, host) = host(&[
        ("proc/sys/net/core/somaxconn", "128"),
        ("proc/sys/net/core/netdev_max_backlog", "20000"),
        ("proc/12/comm", "irqbalance\n"),
    ]);
    let said = apply(&examine(&host));
    assert_eq!(host.read("proc/sys/net/core/somaxconn").unwrap(), "65535");
    assert_eq!(
        host.read("proc/sys/net/core/netdev_max_backlog").unwrap(),
        "20000"
    );
    assert!(
        said.iter()
            .flatten()
            .any(|line| line.contains("left to you: systemctl stop irqbalance")),
        "{said:?}"
    );
}

#[test]
fn what_cannot_be_written_is_an_error() {
    let (_dir, host) = host(&[("proc/sys/net/core/somaxconn", "128")]);
    let findings = examine(&host);
    let file = host.root.join("proc/sys/net/core/somaxconn");
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    let said = apply(&findings);
    assert!(
        said.iter().any(|line| line
            .as_ref()
            .is_err_and(|line| line.contains("cannot write"))),
        "{said:?}"
    );
}

#[test]
fn json_has_a_line_for_each_point() {
    let (_dir, host) = host(&[("proc/sys/net/core/somaxconn", "128")]);
    let text = json(&examine(&host));
    let lines: Vec<serde_json::Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), CHECKS.len());
    let queue = lines.iter().find(|line| line["found"] == "128").unwrap();
    assert_eq!(
        (&queue["ok"], &queue["wanted"]),
        (&false.into(), &">= 65535".into())
    );
}
