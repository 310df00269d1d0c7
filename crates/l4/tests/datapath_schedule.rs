//! Which server a connection is given: every scheduler, limits, persistence, and this machine as one of the servers. Packet by packet
//! through BPF_PROG_TEST_RUN.

mod common;
#[path = "common/site.rs"]
mod site;

use common::*;
use site::{ip, *};
use sluice_l4::config::model::{Forwarding, Scheduler};
use sluice_l4::datapath::director::{Director, Egress};

/// The servers of so many connections, each established before the next one comes.
fn established(d: &mut Director, connections: u16) -> Vec<u8> {
    let one = |port| {
        let to = goes_to(d, &syn(port));
        goes_to(d, &ack(port));
        to
    };
    (1000..1000 + connections).map(one).collect()
}

#[test]
fn round_robin_takes_turns_and_flows_stay() {
    privileged!();
    let mut d = director(&[service(
        Scheduler::RoundRobin,
        "10.0.0.100",
        three(Forwarding::DirectRouting, [1; 3]),
    )]);
    let turns: Vec<u8> = (0..6).map(|p| goes_to(&mut d, &syn(1000 + p))).collect();
    // As IPVS, from the server that was added last.
    assert_eq!(turns, [13, 12, 11, 13, 12, 11]);
    let stays: Vec<u8> = (0..6).map(|p| goes_to(&mut d, &ack(1000 + p))).collect();
    assert_eq!(stays, turns);
}

#[test]
fn weighted_round_robin_gives_shares() {
    privileged!();
    let mut d = director(&[service(
        Scheduler::WeightedRoundRobin,
        "10.0.0.100",
        three(Forwarding::DirectRouting, [4, 3, 2]),
    )]);
    let turns: Vec<u8> = (0..9).map(|p| goes_to(&mut d, &syn(1000 + p))).collect();
    // A cycle from the lowest level, where adding the servers one by one leaves IPVS.
    assert_eq!(turns, [13, 12, 11, 11, 12, 11, 13, 12, 11]);
}

#[test]
fn source_hash_knows_the_client_and_maglev_the_directors() {
    privileged!();
    for scheduler in [Scheduler::SourceHash, Scheduler::Maglev] {
        let s = service(
            scheduler,
            "10.0.0.100",
            three(Forwarding::DirectRouting, [1; 3]),
        );
        let mut reversed = s.clone();
        reversed.servers.reverse();
        let mut first = director(&[s]);
        let mut second = director(&[reversed]);
        let mut seen = [0; 3];
        for host in 1..=60 {
            let client = format!("10.9.0.{host}");
            let to = goes_to(&mut first, &tcp(&client, 1000, "10.0.0.100", 80, SYN));
            assert_eq!(
                goes_to(&mut first, &tcp(&client, 2000, "10.0.0.100", 80, SYN)),
                to,
                "the port is no matter"
            );
            if scheduler == Scheduler::Maglev {
                // Another director that never saw the SYN, with its servers in another order.
                assert_eq!(
                    goes_to(&mut second, &tcp(&client, 1000, "10.0.0.100", 80, ACK)),
                    to
                );
            }
            seen[usize::from(to - 11)] += 1;
        }
        assert!(seen.iter().all(|n| *n > 5), "{seen:?}");
    }
}

#[test]
fn least_connection_counts_connections() {
    privileged!();
    let mut d = director(&[service(
        Scheduler::WeightedLeastConnection,
        "10.0.0.100",
        three(Forwarding::DirectRouting, [1, 2, 1]),
    )]);
    let mut got = [0; 3];
    for to in established(&mut d, 40) {
        got[usize::from(to - 11)] += 1;
    }
    assert_eq!(got, [10, 20, 10]);
    // Connections that end make room: all those of the second server.
    for port in 0..40 {
        if goes_to(&mut d, &ack(1000 + port)) == 12 {
            goes_to(
                &mut d,
                &tcp("10.9.0.1", 1000 + port, "10.0.0.100", 80, FIN | ACK),
            );
        }
    }
    let counts = d.server_counts("web", ip("10.0.0.12"), 80);
    assert_eq!((counts.active, counts.inactive), (0, 20));
    assert_eq!(goes_to(&mut d, &syn(5000)), 12);
}

#[test]
fn never_queue_and_overflow_choose_as_ipvs() {
    privileged!();
    let mut d = director(&[service(
        Scheduler::NeverQueue,
        "10.0.0.100",
        three(Forwarding::DirectRouting, [9, 1, 1]),
    )]);
    assert_eq!(established(&mut d, 4), [13, 12, 11, 11]);
    let mut d = director(&[service(
        Scheduler::Overflow,
        "10.0.0.100",
        three(Forwarding::DirectRouting, [1, 3, 2]),
    )]);
    assert_eq!(established(&mut d, 6), [12, 12, 12, 12, 13, 13]);
}

#[test]
fn of_two_that_are_drawn_the_less_loaded_has_it() {
    privileged!();
    let weights = [1, 2, 3];
    let mut d = director(&[service(
        Scheduler::TwoChoices,
        "10.0.0.100",
        three(Forwarding::DirectRouting, weights),
    )]);
    let mut taken = [0u32; 3];
    for port in 0..600 {
        taken[usize::from(goes_to(&mut d, &syn(1000 + port)) - 11)] += 1;
    }
    // Loads by weight stay together (100, 200, 300): two draws know of each other's load, one would scatter by tens.
    for (taken, weight) in taken.iter().zip(weights) {
        assert!(taken.abs_diff(100 * weight) <= 10, "{taken:?}");
    }
    // The heaviest is drained and comes back with the most connections: it has a new one only if both draws are its.
    let mut d = director(&[service(
        Scheduler::TwoChoices,
        "10.0.0.100",
        three(Forwarding::DirectRouting, [0, 0, 1]),
    )]);
    for port in 0..300 {
        assert_eq!(goes_to(&mut d, &syn(1000 + port)), 13);
    }
    d.apply(&[service(
        Scheduler::TwoChoices,
        "10.0.0.100",
        three(Forwarding::DirectRouting, [1, 1, 1]),
    )])
    .unwrap();
    let again = (0..300).filter(|p| goes_to(&mut d, &syn(2000 + p)) == 13);
    // A ninth of 300, by chance: 33, and with a likelihood of one in millions not within 5 to 70.
    let again = again.count();
    assert!((5..70).contains(&again), "{again}");
}

#[test]
fn a_full_server_is_passed_over() {
    privileged!();
    let mut servers = three(Forwarding::DirectRouting, [1; 3]);
    servers[0].conns_max = 1;
    let mut d = director(&[service(Scheduler::RoundRobin, "10.0.0.100", servers)]);
    let turns: Vec<u8> = (0..6).map(|p| goes_to(&mut d, &syn(p + 1))).collect();
    assert_eq!(turns.iter().filter(|t| **t == 11).count(), 1, "{turns:?}");
}

#[test]
fn persistence_keeps_a_network_together() {
    privileged!();
    let mut s = service(
        Scheduler::RoundRobin,
        "10.0.0.100",
        three(Forwarding::DirectRouting, [1; 3]),
    );
    s.persistence = Some((50, 24));
    let mut d = director(&[s]);
    let first = goes_to(&mut d, &tcp("10.9.1.1", 1, "10.0.0.100", 80, SYN));
    let neighbour = goes_to(&mut d, &tcp("10.9.1.200", 2, "10.0.0.100", 80, SYN));
    let stranger = goes_to(&mut d, &tcp("10.9.2.1", 3, "10.0.0.100", 80, SYN));
    assert_eq!(first, neighbour);
    assert_ne!(first, stranger);
}

#[test]
fn a_full_server_waits_until_it_has_few_enough() {
    privileged!();
    // Of 8: three quarters are 6, unless the file says otherwise.
    for (conns_min, again_below) in [(0, 6), (3, 3), (8, 8)] {
        let mut servers = three(Forwarding::DirectRouting, [1; 3]);
        (servers[0].conns_max, servers[0].conns_min) = (8, conns_min);
        servers[1].weight = 0;
        let mut d = director(&[service(Scheduler::LeastConnection, "10.0.0.100", servers)]);
        let mut ports = 1..;
        let mut next = |d: &mut Director| goes_to(d, &syn(ports.next().unwrap()));
        let both: Vec<u8> = (0..40).map(|_| next(&mut d)).collect();
        assert_eq!(both.iter().filter(|s| **s == 11).count(), 8, "{both:?}");
        let slot = |d: &Director, server: u32| d.server_at(server).map(|(_, ip, _)| ip);
        let mut left = 8;
        loop {
            let ours = |d: &Director| {
                let mut flows = d.programs.flows();
                flows.find(|(_, f)| slot(d, f.server) == Some(ip("10.0.0.11")))
            };
            let (key, flow) = ours(&d).expect("one is left");
            d.programs.remove_flow(&key).unwrap();
            left -= 1;
            d.sweep(flow.seen_ns).unwrap();
            // The other one has more connections all the time.
            let got = next(&mut d);
            assert_eq!(got == 11, left < again_below, "{conns_min}: {left}");
            if got == 11 {
                break;
            }
        }
    }
}

#[test]
fn what_this_machine_serves_itself_passes_as_it_is() {
    privileged!();
    let here = Egress {
        ifindex: LOOPBACK,
        next_hop: [0; 6],
        own_mac: [0; 6],
        source: ip("10.0.0.13"),
        mtu: 0,
        local: true,
    };
    for (forwarding, port, verdict) in [
        (Forwarding::DirectRouting, 80, PASS),
        (Forwarding::Tunnel, 80, PASS),
        (Forwarding::Nat, 80, PASS),
        // Nothing would translate the answer back.
        (Forwarding::Nat, 8080, DROP),
    ] {
        let mut servers = three(forwarding, [1, 1, 0]);
        (servers[1].weight, servers[2].weight) = (0, 1);
        servers[2].port = port;
        let mut d = director(&[service(Scheduler::RoundRobin, "10.0.0.100", servers)]);
        d.set_egress(ip("10.0.0.13"), Some(here)).unwrap();
        for (frame, other) in [(syn(1), false), (syn(2), true), (ack(1), false)] {
            let ran = run(&mut d, &frame);
            match other {
                true => assert_eq!(ran.frame[5], 11),
                false => assert_eq!(
                    (ran.verdict, ran.frame == frame),
                    (verdict, true),
                    "{forwarding:?} {port}"
                ),
            }
        }
        assert_eq!(d.programs.counter("local"), u64::from(verdict == PASS) * 2);
        // It may be another machine again.
        d.set_egress(ip("10.0.0.13"), Some(egress(13, false)))
            .unwrap();
        assert_eq!(goes_to(&mut d, &ack(1)), 13);
    }
}

#[test]
fn persistence_can_be_counted_by_server() {
    privileged!();
    let mut s = service(
        Scheduler::RoundRobin,
        "10.0.0.100",
        three(Forwarding::DirectRouting, [1; 3]),
    );
    s.persistence = Some((50, 24));
    let mut d = director(&[s]);
    for net in 1..=6 {
        goes_to(
            &mut d,
            &tcp(&format!("10.9.{net}.1"), 1, "10.0.0.100", 80, SYN),
        );
    }
    let (_, flow) = d.programs.flows().next().unwrap();
    let held = d.persistent(flow.seen_ns);
    for n in 11..=13 {
        let there = ("web", ip(&format!("10.0.0.{n}")), 80);
        assert_eq!(held.iter().filter(|h| **h == there).count(), 2, "{held:?}");
    }
    assert!(d.persistent(flow.seen_ns + 60_000_000_000).is_empty());
}
