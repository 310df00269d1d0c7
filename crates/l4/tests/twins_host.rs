//! What a virtual router puts into its host beside addresses, as real keepalived does: policy rules, and a firewall for
//! addresses that accept nothing. Each scenario is played by both programs. Needs root, ip(8), ping(8) and keepalived.

mod common;
#[path = "common/lab.rs"]
mod lab;

use lab::{Kind, Lab};
use rustix::process::Signal;
use std::time::Duration;

const VIP: &str = "10.0.0.100";

fn instance(priority: u8, more: &str) -> String {
    format!(
        "vrrp_instance VI {{\n state BACKUP\n interface eth1\n virtual_router_id 51\n priority {priority}\n version 3\n advert_int 0.1\n {more}\n \
         virtual_ipaddress {{\n {VIP}/24\n }}\n virtual_ipaddress_excluded {{\n fd00::100/64\n fe80::100/64\n }}\n}}\n"
    )
}

#[test]
fn rules_come_and_go_with_the_office() {
    if lab::is_missing(&["ping"]) {
        return;
    }
    let more = "virtual_rules {\n from 10.0.0.0/24 table 100 priority 77\n not to 10.9.0.0/16 iif eth1 tos 0x10 fwmark 24/12 lookup 101 order 78\n \
                from fd00::/64 prohibit preference 79\n from all ipproto udp dport 53-54 goto 32766 priority 80\n }";
    let mut listed = Vec::new();
    for kind in [Kind::Sluice, Kind::Keepalived] {
        let mut lab = Lab::new(2);
        lab.start("b", kind, &instance(100, more));
        lab.wait("b is master", Duration::from_secs(5), |lab| {
            lab.has("b", VIP)
        });
        let rules = |lab: &Lab| lab.run("b", "ip rule; ip -6 rule");
        lab.wait("the rules", Duration::from_secs(2), |lab| {
            rules(lab).contains("80:")
        });
        listed.push(rules(&lab));
        lab.start("a", Kind::Keepalived, &instance(200, ""));
        lab.wait("the rules are gone", Duration::from_secs(5), |lab| {
            !["77:", "78:", "79:", "80:"]
                .iter()
                .any(|rule| rules(lab).contains(rule))
        });
    }
    assert_eq!(listed[0], listed[1], "what keepalived sets");
}

#[test]
fn addresses_that_accept_nothing_answer_nothing() {
    if lab::is_missing(&["ping"]) {
        return;
    }
    for kind in [Kind::Sluice, Kind::Keepalived] {
        for (more, accepts) in [("", true), ("no_accept", false), ("strict_mode on", false)] {
            let mut lab = Lab::new(3);
            lab.start("a", kind, &instance(100, more));
            lab.wait("a is master", Duration::from_secs(5), |lab| {
                lab.has("a", VIP) && lab.has("a", "fd00::100")
            });
            let answers = |lab: &Lab, address: &str| {
                let said = lab.run("c", &format!("ping -c 1 -W 1 {address}; echo $?"));
                said.trim_end().ends_with('0')
            };
            // Its own addresses answer, so there is a way; and neighbours are discovered in any case.
            lab.wait("the host answers", Duration::from_secs(5), |lab| {
                answers(lab, "10.0.0.1") && answers(lab, "fd00::1")
            });
            for address in [VIP, "fd00::100", "fe80::100%eth1"] {
                let what = format!("{kind:?} {more} {address}: answers {accepts}");
                lab.wait(&what, Duration::from_secs(8), |lab| {
                    answers(lab, address) == accepts
                });
            }
            if !accepts {
                let what = format!("{kind:?}: fd00::100 is discovered");
                lab.wait(&what, Duration::from_secs(8), |lab| {
                    answers(lab, "fd00::100");
                    let known = lab.run("c", "ip -6 neigh show fd00::100");
                    known.contains("lladdr")
                });
            }
            lab.terminate("a");
            lab.ended("a");
            let left = lab.run("a", "nft list tables 2>&1 || true");
            assert!(!left.contains("table"), "{kind:?}: {left}");
        }
    }
}

#[test]
fn a_killed_process_s_firewall_goes_at_the_next_start() {
    if lab::is_missing(&["ping"]) {
        return;
    }
    let mut lab = Lab::new(2);
    lab.start("a", Kind::Sluice, &instance(100, "no_accept"));
    lab.wait("a is master", Duration::from_secs(5), |lab| {
        lab.has("a", VIP)
    });
    let pings = |lab: &Lab| lab.run("b", &format!("ping -c 1 -W 1 {VIP} >/dev/null; echo $?"));
    lab.wait("the firewall stands", Duration::from_secs(8), |lab| {
        pings(lab) == "1\n"
    });
    lab.kill("a");
    assert_eq!(pings(&lab), "1\n", "as the address, the firewall stays");
    lab.start("a", Kind::Sluice, &instance(100, ""));
    lab.wait("it answers", Duration::from_secs(10), |lab| {
        pings(lab) == "0\n"
    });
}

/// Both programs put the same there, and take it away at the end.
#[test]
fn static_addresses_routes_and_rules_are_there_while_the_program_is() {
    if lab::is_missing(&["ping"]) {
        return;
    }
    let fixed = |more: &str| {
        format!(
            "global_defs {{\n default_interface eth1\n}}\nstatic_ipaddress {{\n 10.3.0.1/24 dev eth1\n 10.3.1.1/24\n 10.4.0.1/32 peer 10.4.0.2 dev eth1\n {more}\n}}\n\
             static_routes {{\n 10.99.0.0/16 via 10.3.0.9 dev eth1 mtu lock 1400 initcwnd 20\n 10.98.0.0/16 via 10.3.0.9 dev eth1 protocol static no_track\n \
             10.97.0.0/16 no_track nexthop via 10.3.0.8 dev eth1 nexthop via 10.3.0.9 dev eth1 weight 3\n blackhole 10.96.0.0/16 no_track\n}}\nstatic_rules {{\n from 10.3.0.0/24 table 100 priority 44\n}}\n"
        )
    };
    let seen = |lab: &Lab| {
        let addresses = lab.run(
            "a",
            "ip -4 -o addr show dev eth1 | sed 's/.*inet //; s/ scope.*//'",
        );
        let routes = lab.run("a", "ip route show");
        [addresses, routes, lab.run("a", "ip rule")].join("\n")
    };
    let mut views = Vec::new();
    for kind in [Kind::Sluice, Kind::Keepalived] {
        let mut lab = Lab::new(1);
        let before = seen(&lab);
        lab.start("a", kind, &(fixed("") + &instance(100, "")));
        lab.wait("it is master", Duration::from_secs(8), |lab| {
            lab.has("a", VIP)
        });
        views.push(seen(&lab));
        if kind == Kind::Sluice {
            std::fs::write(
                lab.path("a.conf"),
                fixed("10.3.7.1/24 dev eth1").replace("10.3.1.1/24", "") + &instance(100, ""),
            )
            .unwrap();
            lab.signal_all("a", Signal::HUP);
            lab.wait("only the new one is there", Duration::from_secs(8), |lab| {
                lab.has("a", "10.3.7.1") && !lab.has("a", "10.3.1.1")
            });
            assert!(lab.has("a", "10.3.0.1") && lab.has("a", VIP));
            assert_eq!(lab.show("a")["routers"][0]["counts"]["become_master"], 1);
        }
        lab.terminate("a");
        lab.ended("a");
        // keepalived leaves the address that has a peer.
        if kind == Kind::Sluice {
            assert_eq!(seen(&lab), before, "it leaves something");
        }
    }
    assert!(views[0].contains("10.4.0.1 peer 10.4.0.2"), "{}", views[0]);
    assert_eq!(views[0], views[1]);
}

/// Interfaces of a host but its addresses' devices aside: what macvlans there are, over what, with which MAC and addresses.
fn macvlans(lab: &Lab, host: &str) -> String {
    let command = "ip -o link | grep '@' | grep 'vrrp' | sed 's/^[0-9]*: //; s/:.*ether / /; s/ brd.*//' | sort; \
                   ip -o addr | grep ' vrrp' | grep -v 'inet6 fe80' | awk '{print $2, $4}' | sort";
    lab.run(host, command)
}

#[test]
fn addresses_elsewhere_are_on_macvlans_there() {
    if lab::is_missing(&["ping"]) {
        return;
    }
    let config = |priority: u8| {
        let more = "use_vmac\n use_vmac_addr\n garp_extra_if 1\n virtual_ipaddress_excluded {\n 10.0.2.100/24 dev eth2\n fd00::7/64\n fd00::8/64 dev eth2\n }";
        instance(priority, more)
    };
    let mut views = Vec::new();
    for roles in [
        (Kind::Sluice, Kind::Keepalived),
        (Kind::Keepalived, Kind::Sluice),
    ] {
        let mut lab = Lab::new(2);
        for host in ["a", "b"] {
            lab::ip(&format!(
                "-n {} link add eth2 type veth peer name eth3",
                lab.ns(host)
            ));
            lab::ip(&format!("-n {} link set eth2 up", lab.ns(host)));
            lab::ip(&format!("-n {} link set eth3 up", lab.ns(host)));
        }
        lab.start("a", roles.0, &config(150));
        lab.start("b", roles.1, &config(100));
        lab.master("a", VIP, 10);
        lab.wait("all addresses", Duration::from_secs(3), |lab| {
            lab.has("a", "fd00::8")
        });
        views.push(macvlans(&lab, "a"));
        lab.terminate("a");
        lab.master("b", VIP, 5);
        lab.ended("a");
        assert_eq!(macvlans(&lab, "a"), "");
    }
    assert!(
        views[0].contains("vrrp6.51@eth1 00:00:5e:00:02:33"),
        "{}",
        views[0]
    );
    assert_eq!(views[0], views[1]);
}

#[test]
fn an_ipv6_router_on_macvlans_has_the_base_s_link_local_address() {
    if lab::is_missing(&["ping"]) {
        return;
    }
    for roles in [
        (Kind::Sluice, Kind::Keepalived),
        (Kind::Keepalived, Kind::Sluice),
    ] {
        let config = |priority: u8| {
            format!(
                "vrrp_instance VI {{\n interface eth1\n virtual_router_id 51\n priority {priority}\n advert_int 0.1\n use_vmac\n \
                 virtual_ipaddress {{\n fe80::100/64\n fd00::100/64\n }}\n}}\n"
            )
        };
        let mut lab = Lab::new(3);
        lab.start("a", roles.0, &config(150));
        lab.start("b", roles.1, &config(100));
        lab.master("a", "fd00::100", 10);
        let answers = |lab: &Lab| {
            lab.run("c", "ping -c 1 -W 1 fd00::100")
                .contains(" 1 received")
        };
        lab.wait("it answers", Duration::from_secs(5), answers);
        lab.kill("a");
        lab.wait("b takes over", Duration::from_secs(3), |lab| {
            lab.has("b", "fd00::100")
        });
        lab.wait("it answers", Duration::from_secs(5), answers);
    }
}

#[test]
fn an_address_that_somebody_removes_comes_back() {
    if lab::is_missing(&["ping"]) {
        return;
    }
    for kind in [Kind::Sluice, Kind::Keepalived] {
        let mut lab = Lab::new(1);
        lab.start("a", kind, &instance(100, ""));
        lab.wait("it is master", Duration::from_secs(8), |lab| {
            lab.has("a", VIP)
        });
        lab::ip(&format!("-n {} addr del {VIP}/24 dev eth1", lab.ns("a")));
        lab.wait("it is back", Duration::from_secs(8), |lab| {
            lab.has("a", VIP)
        });
    }
}

#[test]
fn an_instance_waits_for_the_address_it_speaks_from() {
    if lab::is_missing(&["ping"]) {
        return;
    }
    let mut lab = Lab::new(1);
    lab::ip(&format!("-n {} addr flush dev eth1", lab.ns("a")));
    lab.start(
        "a",
        Kind::Sluice,
        &instance(100, "track_src_ip\n mcast_src_ip 10.0.0.1"),
    );
    lab.wait("it runs", Duration::from_secs(8), |lab| {
        lab.log("a").contains("running: ")
    });
    let in_fault = |lab: &Lab| lab.show("a")["routers"][0]["state"] == "FAULT";
    lab.wait("it is in fault", Duration::from_secs(8), in_fault);
    lab::ip(&format!("-n {} addr add 10.0.0.1/24 dev eth1", lab.ns("a")));
    lab.wait("it is master", Duration::from_secs(8), |lab| {
        lab.has("a", VIP)
    });
    lab::ip(&format!("-n {} addr del 10.0.0.1/24 dev eth1", lab.ns("a")));
    lab.wait("it is in fault again", Duration::from_secs(8), in_fault);
}

/// Listens on port 2525 of its host and writes what it is told, with the envelope, into a file.
const MAIL_SERVER: &str = r#"
import socket, sys
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(("127.0.0.1", 2525)); s.listen(8)
while True:
    c, _ = s.accept(); f = c.makefile("rwb"); data = False
    f.write(b"220 here\r\n"); f.flush()
    for line in f:
        open(sys.argv[1], "ab").write(line)
        word = line.strip().upper()
        if data and word != b".":
            continue
        data = word == b"DATA"
        f.write(b"354 go on\r\n" if data else b"250 well\r\n"); f.flush()
        if word == b"QUIT":
            break
    c.close()
"#;

#[test]
fn alerts_are_mailed_with_keepalived_s_subjects() {
    if lab::is_missing(&["ping", "python3"]) {
        return;
    }
    let mut told = Vec::new();
    for kind in [Kind::Sluice, Kind::Keepalived] {
        let mut lab = Lab::new(1);
        let (program, box_) = (lab.path("mail.py"), lab.path("mail.box"));
        std::fs::write(&program, MAIL_SERVER).unwrap();
        lab.helper("a", &format!("python3 {program} {box_}"));
        lab.wait("it listens", Duration::from_secs(8), |lab| {
            lab.run("a", "ss -Hltn || netstat -ltn").contains(":2525")
        });
        let globals = "global_defs {\n router_id lb\n smtp_server 127.0.0.1 2525\n smtp_helo_name helo.example\n \
                       notification_email_from lb@example.com\n notification_email {\n one@example.com\n two@example.com\n }\n}\n";
        lab.start(
            "a",
            kind,
            &(globals.to_string() + &instance(100, "smtp_alert")),
        );
        let mails = |_: &Lab| {
            let text = std::fs::read_to_string(&box_).unwrap_or_default();
            let kept = ["HELO", "MAIL", "RCPT", "Subject", "From", "To:"];
            let lines = text
                .lines()
                .filter(|l| kept.iter().any(|k| l.starts_with(k)));
            lines.map(|l| l.trim_end().to_string()).collect::<Vec<_>>()
        };
        lab.wait(
            "it is master, and says so",
            Duration::from_secs(10),
            |lab| mails(lab).iter().any(|l| l.contains("MASTER")),
        );
        lab.cable("a", false);
        lab.wait(
            "it is in fault, and says so",
            Duration::from_secs(10),
            |lab| mails(lab).iter().any(|l| l.contains("FAULT")),
        );
        let subjects = mails(&lab).into_iter().filter(|l| l.starts_with("Subject"));
        let mut subjects: Vec<String> = subjects.collect();
        subjects.sort();
        let envelope = |word: &str| mails(&lab).into_iter().find(|l| l.starts_with(word));
        told.push((
            subjects,
            envelope("HELO"),
            envelope("MAIL"),
            envelope("RCPT"),
            envelope("From"),
        ));
    }
    assert_eq!(told[0], told[1]);
}

#[test]
fn scripts_stand_at_the_start_the_end_and_the_fifo() {
    if lab::is_missing(&["ping"]) {
        return;
    }
    for kind in [Kind::Sluice, Kind::Keepalived] {
        let mut lab = Lab::new(1);
        let script = |lab: &Lab, name: &str, text: &str| {
            let path = lab.path(name);
            std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            std::fs::set_permissions(&path, mode).unwrap();
            path
        };
        let out = lab.path("said");
        let reader = script(
            &lab,
            "reader.sh",
            &format!("while read line; do echo \"$1 $line\" >> {out}; done < \"$2\""),
        );
        let once = script(&lab, "once.sh", &format!("echo \"$1\" >> {out}"));
        let fifo = lab.path("fifo");
        let globals = format!(
            "global_defs {{\n script_user root\n startup_script \"{once} begins\"\n shutdown_script \"{once} ends\"\n \
             vrrp_notify_fifo {fifo}\n vrrp_notify_fifo_script \"{reader} heard\"\n}}\n"
        );
        lab.start("a", kind, &(globals + &instance(100, "")));
        let said = |_: &Lab| std::fs::read_to_string(&out).unwrap_or_default();
        let heard = "heard INSTANCE \"VI\" MASTER 100\n";
        lab.wait("the fifo is read", Duration::from_secs(8), |lab| {
            said(lab).contains(heard)
        });
        assert!(
            said(&lab).starts_with("begins\n"),
            "{kind:?}: {}",
            said(&lab)
        );
        lab.terminate("a");
        lab.ended("a");
        // What reads the fifo has its own time, and may be the last to write.
        let ends = said(&lab);
        assert!(ends.lines().any(|l| l == "ends"), "{kind:?}: {ends}");
    }
}

#[test]
fn usr1_writes_the_state_and_ends_nothing() {
    if lab::is_missing(&["ping"]) {
        return;
    }
    let mut lab = Lab::new(1);
    lab.start("a", Kind::Sluice, &instance(100, ""));
    lab.wait("it is master", Duration::from_secs(8), |lab| {
        lab.has("a", VIP)
    });
    for signal in [Signal::USR1, Signal::USR2] {
        lab.signal_all("a", signal);
    }
    lab.wait("it is written twice", Duration::from_secs(5), |lab| {
        lab.log("a").matches("this host").count() == 2
    });
    assert_eq!(lab.show("a")["routers"][0]["state"], "MASTER");
}

#[test]
fn an_ipv6_address_comes_back_with_its_link() {
    if lab::is_missing(&["ping"]) {
        return;
    }
    let mut lab = Lab::new(1);
    lab.start("a", Kind::Sluice, &instance(100, "dont_track_primary"));
    let has = |lab: &Lab| lab.has("a", "fd00::100");
    lab.wait("it is master", Duration::from_secs(8), has);
    let eth1 = |state: &str| lab::ip(&format!("-n {} link set eth1 {state}", lab.ns("a")));
    for _ in 0..3 {
        eth1("down");
        // The kernel takes it before `ip` ends; it waits for the link.
        lab.wait("it is gone", Duration::from_secs(8), |lab| !has(lab));
        eth1("up");
        lab.wait("it is back", Duration::from_secs(8), has);
    }
    assert_eq!(lab.show("a")["routers"][0]["state"], "MASTER");
}
