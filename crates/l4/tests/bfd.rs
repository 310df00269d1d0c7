//! BFD with real keepalived at the other end, in namespaces, in both roles. Needs root, ip(8) and keepalived.

mod common;
#[path = "common/lab.rs"]
mod lab;

use lab::{Kind, Lab, in_time};
use rustix::process::Signal;
use std::time::Duration;

const VIP: &str = "10.0.0.100";

const ROLES: [(Kind, Kind); 2] = [
    (Kind::Sluice, Kind::Keepalived),
    (Kind::Keepalived, Kind::Sluice),
];

fn session(neighbour: &str, more: &str) -> String {
    format!(
        "bfd_instance B {{\n neighbor_ip {neighbour}\n min_rx 100\n min_tx 100\n multiplier 3\n {more}\n}}\n"
    )
}

/// An instance that tracks the session; the second host's is of another router, so that both may be masters.
fn tracking(host: u8, track: &str) -> String {
    format!(
        "vrrp_instance VI {{\n interface eth1\n virtual_router_id {}\n priority 100\n version 3\n advert_int 0.1\n \
         virtual_ipaddress {{\n 10.0.0.{}/24\n }}\n track_bfd {{\n {track}\n }}\n}}\n",
        50 + host,
        99 + host
    )
}

#[test]
fn a_tracked_session_is_a_fault_until_it_is_up_and_when_it_is_lost() {
    if lab::is_missing(&[]) {
        return;
    }
    for roles in ROLES {
        let more = ["", "ttl 64\n max_hops 0", "passive"];
        let more = more
            .iter()
            .take(if roles.0 == Kind::Sluice { 3 } else { 1 });
        for more in more.copied() {
            let mut lab = Lab::new(2);
            // One of two may wait for the other.
            let other = if more == "passive" { "" } else { more };
            lab.start(
                "a",
                roles.0,
                &(session("10.0.0.2", more) + &tracking(1, "B")),
            );
            lab.wait("it runs", Duration::from_secs(8), |lab| match roles.0 {
                Kind::Sluice => lab.log("a").contains("running: "),
                Kind::Keepalived => lab.log("a").contains("entering FAULT state"),
            });
            assert!(!lab.has("a", VIP), "{:?} is in fault", roles.0);
            lab.start(
                "b",
                roles.1,
                &(session("10.0.0.1", other) + &tracking(2, "B")),
            );
            lab.wait("both sessions are up", Duration::from_secs(8), |lab| {
                lab.has("a", VIP) && lab.has("b", "10.0.0.101")
            });
            if more.is_empty() {
                lab.settles("they stay up", Duration::from_secs(2), |lab| {
                    lab.has("a", VIP) && lab.has("b", "10.0.0.101")
                });
            }
            lab.partition("b", true);
            lab.wait("both are in fault", Duration::from_secs(3), |lab| {
                !lab.has("a", VIP) && !lab.has("b", "10.0.0.101")
            });
            lab.partition("b", false);
            lab.wait("both come back", Duration::from_secs(8), |lab| {
                lab.has("a", VIP) && lab.has("b", "10.0.0.101")
            });
        }
    }
}

#[test]
fn a_killed_neighbour_is_missed_after_its_detection_time() {
    if lab::is_missing(&[]) {
        return;
    }
    for roles in ROLES {
        let what = format!("{:?} misses {:?}", roles.1, roles.0);
        // Three times 100 ms, and what the instance needs to leave.
        in_time(&what, Duration::from_millis(450), || {
            let mut lab = Lab::new(2);
            lab.start("a", roles.0, &(session("10.0.0.2", "") + &tracking(1, "B")));
            lab.start("b", roles.1, &(session("10.0.0.1", "") + &tracking(2, "B")));
            lab.wait("b is master", Duration::from_secs(8), |lab| {
                lab.has("b", "10.0.0.101")
            });
            lab.settles("b stays master", Duration::from_millis(500), |lab| {
                lab.has("b", "10.0.0.101")
            });
            lab.kill("a");
            lab.wait("b is in fault", Duration::from_secs(3), |lab| {
                !lab.has("b", "10.0.0.101")
            })
        });
    }
}

#[test]
fn an_ipv6_session_moves_a_priority() {
    if lab::is_missing(&[]) {
        return;
    }
    for roles in ROLES {
        let mut lab = Lab::new(3);
        // The third host is the higher router while the session is down.
        let weighted =
            tracking(1, "B weight 50").replace("virtual_router_id 51", "virtual_router_id 77");
        let third = tracking(1, "").replace("virtual_router_id 51", "virtual_router_id 77");
        let third = third
            .replace("track_bfd {\n \n }\n", "")
            .replace("priority 100", "priority 120");
        lab.start(
            "a",
            roles.0,
            &(session("fd00::2", "source_ip fd00::1") + &weighted),
        );
        lab.start("c", Kind::Keepalived, &third);
        lab.wait("c is master", Duration::from_secs(8), |lab| {
            lab.has("c", VIP) && !lab.has("a", VIP)
        });
        lab.start(
            "b",
            roles.1,
            &(session("fd00::1", "source_ip fd00::2") + &tracking(2, "B")),
        );
        lab.wait("a is master", Duration::from_secs(8), |lab| {
            lab.has("a", VIP) && !lab.has("c", VIP)
        });
        lab.signal_all("b", Signal::STOP);
        lab.wait("c is master again", Duration::from_secs(5), |lab| {
            lab.has("c", VIP) && !lab.has("a", VIP)
        });
        lab.signal_all("b", Signal::CONT);
    }
}

#[test]
fn a_packet_from_afar_is_not_heard() {
    if lab::is_missing(&[]) {
        return;
    }
    let mut lab = Lab::new(2);
    lab.start(
        "a",
        Kind::Sluice,
        &(session("10.0.0.2", "") + &tracking(1, "B")),
    );
    lab.start(
        "b",
        Kind::Keepalived,
        &(session("10.0.0.1", "ttl 254") + &tracking(2, "B")),
    );
    let shown = |lab: &Lab| lab.show("a")["bfd"][0].clone();
    lab.wait("it runs", Duration::from_secs(10), |lab| {
        lab.log("a").contains("running: ")
    });
    lab.wait("packets are discarded", Duration::from_secs(5), |lab| {
        shown(lab)["counts"]["discarded"]
            .as_u64()
            .is_some_and(|n| n > 2)
    });
    assert_eq!(shown(&lab)["state"], "Down");
    assert_eq!(shown(&lab)["counts"]["received"], 0);
}

#[test]
fn a_checked_server_is_up_while_its_session_is_and_a_reload_disturbs_nothing() {
    privileged!();
    if lab::is_missing(&[]) {
        return;
    }
    let mut lab = Lab::new(2);
    let config = |weight: u32| {
        // Detection after 10 s: a busy machine's pauses are no silence.
        let slow = session("10.0.0.2", "")
            .replace(" 100", " 1000")
            .replace("multiplier 3", "multiplier 10");
        format!(
            "{slow}virtual_server {VIP} 80 {{\n lb_algo rr\n lb_kind DR\n protocol TCP\n real_server 10.0.0.2 80 {{\n weight {weight}\n BFD_CHECK {{\n name B\n }}\n }}\n}}\n"
        )
    };
    lab.start_with("a", Kind::Sluice, &config(1), &["--interface", "eth1"]);
    let server = |lab: &Lab| lab.show("a")["virtual_servers"][0]["servers"][0].clone();
    lab.wait("it runs", Duration::from_secs(10), |lab| {
        lab.log("a").contains("running: ")
    });
    lab.wait("the server is down", Duration::from_secs(3), |lab| {
        server(lab)["up"] == false
    });
    lab.start(
        "b",
        Kind::Keepalived,
        &(session("10.0.0.1", "")
            .replace(" 100", " 1000")
            .replace("multiplier 3", "multiplier 10")
            + &tracking(2, "B")),
    );
    lab.wait("the server is up", Duration::from_secs(8), |lab| {
        server(lab)["up"] == true
    });
    std::fs::write(lab.path("a.conf"), config(7)).unwrap();
    lab.signal_all("a", Signal::HUP);
    lab.wait("it has reloaded", Duration::from_secs(8), |lab| {
        server(lab)["weight"] == 7
    });
    assert_eq!(server(&lab)["up"], true);
    assert_eq!(lab.show("a")["bfd"][0]["counts"]["went_down"], 0);
    // One that ends in good order says so; a session that stays down needs no detection time.
    lab.kill("b");
    lab.wait("the server is down", Duration::from_secs(3), |lab| {
        server(lab)["up"] == false
    });
}
