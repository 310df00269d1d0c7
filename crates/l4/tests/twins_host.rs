//! What a virtual router puts into its host beside addresses, as real keepalived does: policy rules, and a firewall for
//! addresses that accept nothing. Each scenario is played by both programs. Needs root, ip(8), ping(8) and keepalived.

mod common;
#[path = "common/lab.rs"]
mod lab;

use lab::{Kind, Lab};
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
                assert_eq!(answers(&lab, address), accepts, "{kind:?} {more} {address}");
            }
            if !accepts {
                assert!(
                    lab.run("c", "ip -6 neigh show fd00::100")
                        .contains("lladdr"),
                    "{kind:?}"
                );
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
    lab.kill("a");
    let pings = |lab: &Lab| lab.run("b", &format!("ping -c 1 -W 1 {VIP} >/dev/null; echo $?"));
    assert_eq!(pings(&lab), "1\n", "as the address, the firewall stays");
    lab.start("a", Kind::Sluice, &instance(100, ""));
    lab.wait("it answers", Duration::from_secs(10), |lab| {
        pings(lab) == "0\n"
    });
}
