//! What comes and goes with the office: addresses by the hundred, macvlans, scripts, groups, live connections.

use super::*;

#[test]
fn two_hundred_addresses_move() {
    two_hundred(|p, list| simple(p, &format!("virtual_ipaddress_excluded {{\n{list} }}")));
}

#[test]
fn two_hundred_advertised_addresses_move() {
    two_hundred(|p, list| instance("VI", 51, p, &format!("{VIP}/24\n{list}"), ""));
}

fn two_hundred(config: impl Fn(u8, &str) -> String) {
    if lab::is_missing(&[]) {
        return;
    }
    let list: String = (1..=200).map(|n| format!(" 10.128.0.{n}/32\n")).collect();
    for roles in ROLES {
        let mut lab = Lab::new(2);
        lab.start("a", roles.0, &config(150, &list));
        lab.start("b", roles.1, &config(100, &list));
        lab.master("a", VIP, 15);
        lab.wait("all addresses", Duration::from_secs(3), |lab| {
            lab.has("a", "10.128.0.200")
        });
        // While the master announces them all, five times and five times again, its adverts keep their time.
        lab.settles("a stays master", Duration::from_millis(1500), |lab| {
            lab.has("a", VIP) && !lab.has("b", VIP)
        });
        lab.terminate("a");
        lab.wait("all addresses move", Duration::from_secs(4), |lab| {
            lab.has("b", "10.128.0.1") && lab.has("b", "10.128.0.200")
        });
    }
}

#[test]
fn a_sync_group_moves_together() {
    if lab::is_missing(&[]) {
        return;
    }
    let config = |priority, more: &str| {
        format!(
            "vrrp_sync_group G {{\n group {{\n V1\n V2\n }}\n {more}\n}}\n{}{}",
            instance("V1", 61, priority, "10.0.0.101/24", ""),
            instance("V2", 62, priority, "10.0.0.102/24", "")
        )
    };
    for roles in ROLES {
        let mut lab = Lab::new(2);
        let file = lab.path("group.track");
        std::fs::write(&file, "0").unwrap();
        let track = format!("track_file f {{\n file {file}\n weight 0\n}}\n");
        lab.start(
            "a",
            roles.0,
            &(track + &config(150, "track_file {\n f weight 0\n }")),
        );
        lab.start("b", roles.1, &config(100, ""));
        lab.master("a", "10.0.0.101", 10);
        lab.master("a", "10.0.0.102", 5);
        std::fs::write(&file, "1").unwrap();
        lab.master("b", "10.0.0.101", 5);
        lab.master("b", "10.0.0.102", 5);
    }
}

#[test]
fn what_a_killed_process_left_is_cleaned_at_the_next_start() {
    if lab::is_missing(&[]) {
        return;
    }
    let mut lab = Lab::new(2);
    lab.start(
        "a",
        Kind::Sluice,
        &simple(
            100,
            "virtual_routes {\n 10.77.0.0/16 via 10.0.0.9 dev eth1\n }",
        ),
    );
    lab.master("a", VIP, 5);
    lab.wait("the route", Duration::from_secs(1), |lab| {
        lab.run("a", "ip route").contains("10.77.0.0/16")
    });
    lab.kill("a");
    assert!(lab.has("a", VIP));
    lab.start("b", Kind::Keepalived, &simple(200, "state MASTER"));
    lab.wait("b is master", Duration::from_secs(5), |lab| {
        lab.has("b", VIP)
    });
    lab.start(
        "a",
        Kind::Sluice,
        &simple(
            100,
            "virtual_routes {\n 10.77.0.0/16 via 10.0.0.9 dev eth1\n }",
        ),
    );
    lab.master("b", VIP, 3);
    lab.wait("the route is gone", Duration::from_secs(8), |lab| {
        !lab.run("a", "ip route").contains("10.77.0.0/16")
    });
}

#[test]
fn notify_scripts_and_fifo_get_keepalived_s_arguments() {
    if lab::is_missing(&[]) {
        return;
    }
    for kind in [Kind::Sluice, Kind::Keepalived] {
        let mut lab = Lab::new(1);
        let out = lab.path("notified");
        let script = lab.path("notify.sh");
        std::fs::write(&script, format!("#!/bin/sh\necho \"$@\" >> {out}\n")).unwrap();
        std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .unwrap();
        let globals = "global_defs {\n script_user root\n}\n";
        lab.start(
            "a",
            kind,
            &(globals.to_string() + &simple(100, &format!("notify \"{script} extra\""))),
        );
        lab.master("a", VIP, 5);
        let what = format!("{kind:?} tells both changes in {out}");
        lab.wait(&what, Duration::from_secs(8), |_| {
            let text = std::fs::read_to_string(&out).unwrap_or_default();
            // Two processes: the machine may let the second write first.
            let mut lines: Vec<&str> = text.lines().collect();
            lines.sort_unstable();
            lines
                == [
                    "extra INSTANCE VI BACKUP 100",
                    "extra INSTANCE VI MASTER 100",
                ]
        });
    }
}

#[test]
fn a_macvlan_carries_the_virtual_mac() {
    if lab::is_missing(&[]) {
        return;
    }
    for roles in ROLES {
        let mut lab = pair(roles, "use_vmac");
        let mac = "00:00:5e:00:01:33";
        assert!(
            lab.run("a", "ip link").contains(mac),
            "{}",
            lab.run("a", "ip link")
        );
        lab.kill("a");
        lab.wait("b takes over", Duration::from_secs(3), |lab| {
            lab.has("b", VIP)
        });
        assert!(
            lab.run("b", "ip -o addr")
                .lines()
                .any(|l| l.contains("vrrp") && l.contains(VIP))
        );
    }
}

/// Hosts a and b route for the client c to an address behind d, and the virtual address is c's gateway: a connection that
/// never ends runs through whoever is master.
#[test]
fn rolling_from_keepalived_to_sluice_and_back_with_live_tcp() {
    if lab::is_missing(&[]) {
        return;
    }
    // TCP's own retransmission waits at least 200 ms after a loss.
    let limit = Duration::from_millis(1500);
    in_time("the longest pause", limit, || {
        let mut lab = Lab::new(4);
        for router in ["a", "b"] {
            lab.run(router, "sysctl -qw net.ipv4.ip_forward=1 net.ipv4.conf.all.send_redirects=0 net.ipv4.conf.eth1.send_redirects=0 net.ipv4.conf.all.rp_filter=0");
            lab::ip(&format!(
                "-n {} route add 10.50.0.1 via 10.0.0.4",
                lab.ns(router)
            ));
        }
        lab.run("c", "sysctl -qw net.ipv4.conf.all.accept_redirects=0");
        lab::ip(&format!("-n {} route add 10.50.0.1 via {VIP}", lab.ns("c")));
        lab::ip(&format!("-n {} addr add 10.50.0.1/32 dev lo", lab.ns("d")));
        lab.start("a", Kind::Keepalived, &simple(150, ""));
        lab.start("b", Kind::Keepalived, &simple(100, ""));
        lab.master("a", VIP, 10);
        let pulse = pulse::Pulse::start(&lab.ns("c"), &lab.ns("d"), "10.50.0.1:80");
        let swap = |lab: &mut Lab, host: &str, other: &str, kind, priority| {
            lab.terminate(host);
            lab.ended(host);
            lab.wait("the other serves", Duration::from_secs(3), |lab| {
                lab.has(other, VIP)
            });
            lab.start(host, kind, &simple(priority, ""));
            pulse.beats(20);
        };
        swap(&mut lab, "b", "a", Kind::Sluice, 100);
        swap(&mut lab, "a", "b", Kind::Sluice, 150);
        lab.master("a", VIP, 5);
        swap(&mut lab, "b", "a", Kind::Keepalived, 100);
        swap(&mut lab, "a", "b", Kind::Keepalived, 150);
        lab.master("a", VIP, 5);
        pulse.beats(20);
        let (beats, longest) = pulse.end();
        eprintln!("one connection, {beats} echoes");
        longest
    });
}
