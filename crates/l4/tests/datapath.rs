//! The XDP program packet by packet, through BPF_PROG_TEST_RUN. Needs root and a build with clang.

mod common;
#[path = "common/site.rs"]
mod site;

use common::*;
use proptest::prelude::*;
use site::{ip, *};
use sluice_l4::config::model::{Forwarding, Scheduler};
use sluice_l4::datapath::director::{Egress, Service};
use sluice_l4::datapath::layout::{FlowKey, Settings};

#[test]
fn what_is_not_a_vip_passes_untouched() {
    privileged!();
    let mut d = director(&[service(
        Scheduler::RoundRobin,
        "10.0.0.100",
        three(Forwarding::DirectRouting, [1; 3]),
    )]);
    for frame in [
        tcp("10.9.0.1", 1000, "10.0.0.101", 80, SYN),
        tcp("10.9.0.1", 1000, "10.0.0.100", 81, SYN),
        ethernet(&common::ip(
            ip("10.9.0.1"),
            ip("10.0.0.100"),
            1,
            &[8, 0, 0xf7, 0xff, 0, 0, 0, 0],
            0,
            &[],
        )),
        vec![0xff; 60],
    ] {
        let ran = run(&mut d, &frame);
        assert_eq!((ran.verdict, &ran.frame), (PASS, &frame));
    }
}

#[test]
fn direct_routing_changes_the_macs_and_nothing_else() {
    privileged!();
    let mut d = director(&[service(
        Scheduler::RoundRobin,
        "10.0.0.100",
        three(Forwarding::DirectRouting, [1; 3]),
    )]);
    let frame = syn(1000);
    let ran = run(&mut d, &frame);
    assert_eq!(ran.verdict, TX);
    assert_eq!(ran.frame[..6], [2, 0, 0, 1, 0, 13]);
    assert_eq!(ran.frame[6..12], DIRECTOR_MAC);
    assert_eq!(ran.frame[12..], frame[12..]);
}

#[test]
fn another_interface_is_a_redirect() {
    privileged!();
    let mut d = director(&[service(
        Scheduler::RoundRobin,
        "10.0.0.100",
        three(Forwarding::DirectRouting, [1; 3]),
    )]);
    for n in 11..=13 {
        d.set_egress(
            ip(&format!("10.0.0.{n}")),
            Some(Egress {
                ifindex: 77,
                ..egress(n, false)
            }),
        )
        .unwrap();
    }
    assert_eq!(run(&mut d, &syn(1)).verdict, REDIRECT);
}

#[test]
fn a_flow_stays_when_the_ring_changes() {
    privileged!();
    let mut s = service(
        Scheduler::RoundRobin,
        "10.0.0.100",
        three(Forwarding::DirectRouting, [1; 3]),
    );
    let mut d = director(std::slice::from_ref(&s));
    goes_to(&mut d, &syn(1));
    let before = goes_to(&mut d, &syn(2));
    assert_eq!(before, 12);
    // The server drains and two others come.
    s.servers[1].weight = 0;
    s.servers
        .push(server("10.0.0.14", Forwarding::DirectRouting, 5));
    s.servers
        .push(server("10.0.0.15", Forwarding::DirectRouting, 5));
    assert_eq!(d.apply(std::slice::from_ref(&s)).unwrap(), 1);
    assert_eq!(goes_to(&mut d, &ack(2)), 12);
    let new: Vec<u8> = (10..18).map(|p| goes_to(&mut d, &syn(p))).collect();
    assert!(!new.contains(&12), "{new:?}");
    // Applying the same again writes nothing.
    assert_eq!(d.apply(&[s]).unwrap(), 0);
}

#[test]
fn a_removed_server_s_flows_go_elsewhere() {
    privileged!();
    let mut s = service(
        Scheduler::RoundRobin,
        "10.0.0.100",
        three(Forwarding::DirectRouting, [1; 3]),
    );
    let mut d = director(std::slice::from_ref(&s));
    assert_eq!(goes_to(&mut d, &syn(1)), 13);
    s.servers.remove(2);
    d.apply(std::slice::from_ref(&s)).unwrap();
    assert_ne!(goes_to(&mut d, &ack(1)), 13);
    assert_eq!(d.programs.counter("stale"), 1);
    // Its slot goes to another server; old flows must not follow.
    s.servers
        .push(server("10.0.0.14", Forwarding::DirectRouting, 1));
    d.apply(&[s]).unwrap();
}

#[test]
fn no_server_drops_and_counts() {
    privileged!();
    let mut d = director(&[service(
        Scheduler::RoundRobin,
        "10.0.0.100",
        three(Forwarding::DirectRouting, [0; 3]),
    )]);
    assert_eq!(run(&mut d, &syn(1)).verdict, DROP);
    assert_eq!(d.programs.counter("no_server"), 1);
    let mut d = director(&[service(
        Scheduler::RoundRobin,
        "10.0.0.100",
        vec![server("10.0.0.99", Forwarding::DirectRouting, 1)],
    )]);
    assert_eq!(run(&mut d, &syn(1)).verdict, DROP);
    assert_eq!(d.programs.counter("no_next_hop"), 1);
}

#[test]
fn a_service_that_goes_is_no_vip_any_more() {
    privileged!();
    let mut d = director(&[service(
        Scheduler::RoundRobin,
        "10.0.0.100",
        three(Forwarding::DirectRouting, [1; 3]),
    )]);
    d.apply(&[]).unwrap();
    assert_eq!(run(&mut d, &syn(1)).verdict, PASS);
}

fn check_outer4(frame: &[u8], inner: &[u8], protocol: u8) {
    let outer = &frame[14..34];
    assert_eq!(frame.len(), inner.len() + 20);
    assert_eq!(frame[12..14], [8, 0]);
    assert_eq!(sum(&[outer]), 0, "the outer checksum");
    assert_eq!(outer[9], protocol);
    assert_eq!(outer[12..16], [10, 0, 0, 2]);
    assert_eq!(outer[16..20], [10, 0, 0, 11]);
    assert_eq!(
        u16::from_be_bytes([outer[2], outer[3]]) as usize,
        frame.len() - 14
    );
    assert_eq!(frame[34..], inner[14..]);
}

#[test]
fn a_tunnel_adds_twenty_right_bytes() {
    privileged!();
    let mut d = director(&[service(
        Scheduler::RoundRobin,
        "10.0.0.100",
        vec![server("10.0.0.11", Forwarding::Tunnel, 1)],
    )]);
    let frame = syn(1000);
    let ran = run(&mut d, &frame);
    assert_eq!(ran.verdict, TX);
    check_outer4(&ran.frame, &frame, 4);
}

#[test]
fn an_ipv6_vip_may_go_through_an_ipv4_tunnel() {
    privileged!();
    let mut d = director(&[service(
        Scheduler::RoundRobin,
        "fd00::100",
        vec![server("10.0.0.11", Forwarding::Tunnel, 1)],
    )]);
    let frame = tcp("fd00::9", 1000, "fd00::100", 80, SYN);
    let ran = run(&mut d, &frame);
    check_outer4(&ran.frame, &frame, 41);
}

#[test]
fn an_ipv6_tunnel_adds_forty_bytes() {
    privileged!();
    let mut d = director(&[service(
        Scheduler::RoundRobin,
        "fd00::100",
        vec![server("fd00::11", Forwarding::Tunnel, 1)],
    )]);
    let frame = tcp("fd00::9", 1000, "fd00::100", 80, SYN);
    let ran = run(&mut d, &frame);
    assert_eq!(ran.verdict, TX);
    assert_eq!(ran.frame.len(), frame.len() + 40);
    assert_eq!(ran.frame[14] >> 4, 6);
    assert_eq!(
        u16::from_be_bytes([ran.frame[18], ran.frame[19]]) as usize,
        frame.len() - 14
    );
    assert_eq!(ran.frame[20], 41);
    assert_eq!(ran.frame[54..], frame[14..]);
}

#[test]
fn decap_undoes_a_tunnel() {
    privileged!();
    let mut d = director(&[service(
        Scheduler::RoundRobin,
        "10.0.0.100",
        vec![server("10.0.0.11", Forwarding::Tunnel, 1)],
    )]);
    let frame = syn(1000);
    let tunnelled = run(&mut d, &frame).frame;
    // Not one of our tunnel ends yet.
    assert_eq!(
        d.programs.test_run("decap", &tunnelled, 1).unwrap().frame,
        tunnelled
    );
    d.programs.set_tunnel_end(ip("10.0.0.11")).unwrap();
    let ran = d.programs.test_run("decap", &tunnelled, 1).unwrap();
    assert_eq!(ran.verdict, PASS);
    assert_eq!(ran.frame[12..], frame[12..]);
}

#[test]
fn ipv6_is_routed_directly_too() {
    privileged!();
    let mut d = director(&[service(
        Scheduler::RoundRobin,
        "fd00::100",
        vec![server("fd00::11", Forwarding::DirectRouting, 1)],
    )]);
    assert_eq!(
        goes_to(&mut d, &tcp("fd00::9", 1000, "fd00::100", 80, SYN)),
        11
    );
    assert_eq!(goes_to(&mut d, &udp("fd00::9", 1000, "fd00::100", 80)), 11);
}

#[test]
fn a_new_syn_is_scheduled_afresh_a_repeated_one_is_not() {
    privileged!();
    let mut d = director(&[service(
        Scheduler::RoundRobin,
        "10.0.0.100",
        three(Forwarding::DirectRouting, [1; 3]),
    )]);
    let first = goes_to(&mut d, &syn(1));
    assert_eq!(goes_to(&mut d, &syn(1)), first, "a repeated SYN");
    assert_eq!(goes_to(&mut d, &ack(1)), first);
    assert_ne!(goes_to(&mut d, &syn(1)), first, "the port is used again");
}

#[test]
fn flow_states_follow_the_client() {
    privileged!();
    let mut d = director(&[service(
        Scheduler::RoundRobin,
        "10.0.0.100",
        three(Forwarding::DirectRouting, [1; 3]),
    )]);
    let key = FlowKey {
        client: ip("10.9.0.1"),
        client_port: 7,
        vip: ip("10.0.0.100"),
        vip_port: 80,
        protocol: 6,
    };
    let mut states = Vec::new();
    for flags in [SYN, ACK, ACK, FIN | ACK, ACK, RST] {
        run(&mut d, &tcp("10.9.0.1", 7, "10.0.0.100", 80, flags));
        states.push(d.programs.flow(&key).unwrap().unwrap().state);
    }
    assert_eq!(states, [1, 2, 2, 3, 3, 4]);
}

#[test]
fn flows_expire_by_state() {
    privileged!();
    let mut d = director(&[service(
        Scheduler::RoundRobin,
        "10.0.0.100",
        three(Forwarding::DirectRouting, [1; 3]),
    )]);
    for port in 1..=4 {
        run(&mut d, &syn(port));
    }
    let key = |p| FlowKey {
        client: ip("10.9.0.1"),
        client_port: p,
        vip: ip("10.0.0.100"),
        vip_port: 80,
        protocol: 6,
    };
    let mut flow = d.programs.flow(&key(1)).unwrap().unwrap();
    let now = flow.seen_ns;
    // Seen last 61 seconds ago: past SYN_RECV's 60.
    flow.seen_ns = now.saturating_sub(61_000_000_000);
    d.programs.set_flow(&key(1), &flow).unwrap();
    assert_eq!(d.sweep(now).unwrap(), 3);
    assert_eq!(d.programs.flow(&key(1)).unwrap(), None);
    let total: u32 = (11..=13)
        .map(|n| {
            d.server_counts("web", ip(&format!("10.0.0.{n}")), 80)
                .active
        })
        .sum();
    assert_eq!(total, 3);
}

#[test]
fn a_flood_is_served_without_being_kept() {
    privileged!();
    let mut d = director(&[service(
        Scheduler::RoundRobin,
        "10.0.0.100",
        three(Forwarding::DirectRouting, [1; 3]),
    )]);
    d.set_settings(Settings {
        new_flows_max: 5,
        ..Settings::default()
    })
    .unwrap();
    for port in 0..60 {
        let to = goes_to(&mut d, &syn(1000 + port));
        // Kept or not, the next packet goes the same way.
        assert_eq!(goes_to(&mut d, &ack(1000 + port)), to);
    }
    // One core may have changed between runs, and the second too: some flows are kept, most are not.
    assert!(
        d.programs.flows().count() < 40,
        "{}",
        d.programs.flows().count()
    );
    assert!(d.programs.counter("flood") > 0);
}

#[test]
fn fragments_follow_the_first() {
    privileged!();
    let mut d = director(&[service(
        Scheduler::RoundRobin,
        "10.0.0.100",
        three(Forwarding::DirectRouting, [1; 3]),
    )]);
    let (c, v) = (ip("10.9.0.1"), ip("10.0.0.100"));
    let first = ethernet(&common::ip(
        c,
        v,
        17,
        &segment(c, v, 17, 5, 80, 0, &[7; 32]),
        0x2000,
        &[],
    ));
    let later = ethernet(&common::ip(c, v, 17, &[7; 40], 0x0005, &[]));
    let to = goes_to(&mut d, &first);
    assert_eq!(goes_to(&mut d, &later), to);
    let stray = ethernet(&common::ip(c, ip("10.0.0.99"), 17, &[7; 40], 0x0005, &[]));
    assert_eq!(run(&mut d, &stray).verdict, PASS);
}

#[test]
fn ip_options_are_forwarded() {
    privileged!();
    let mut d = director(&[service(
        Scheduler::RoundRobin,
        "10.0.0.100",
        three(Forwarding::DirectRouting, [1; 3]),
    )]);
    let (c, v) = (ip("10.9.0.1"), ip("10.0.0.100"));
    let frame = ethernet(&common::ip(
        c,
        v,
        6,
        &segment(c, v, 6, 5, 80, SYN, b""),
        0x4000,
        &[1, 1, 1, 0],
    ));
    assert_eq!(goes_to(&mut d, &frame), 13);
}

#[test]
fn icmp_errors_follow_the_flow_they_quote() {
    privileged!();
    let mut d = director(&[service(
        Scheduler::RoundRobin,
        "10.0.0.100",
        three(Forwarding::DirectRouting, [1; 3]),
    )]);
    goes_to(&mut d, &syn(1));
    let to = goes_to(&mut d, &syn(2));
    let (c, v) = (ip("10.9.0.1"), ip("10.0.0.100"));
    // A router could not deliver what the server sent to the client.
    let quoted = common::ip(v, c, 6, &segment(v, c, 6, 80, 2, ACK, b""), 0x4000, &[]);
    let mut icmp = vec![3, 4, 0, 0, 0, 0, 5, 0];
    icmp.extend(&quoted[..28]);
    let check = sum(&[&icmp]);
    icmp[2..4].copy_from_slice(&check.to_be_bytes());
    let error = ethernet(&common::ip(ip("10.8.0.1"), v, 1, &icmp, 0, &[]));
    assert_eq!(goes_to(&mut d, &error), to);
    let mut other = icmp.clone();
    other[28 + 3] = 99;
    let unknown = ethernet(&common::ip(ip("10.8.0.1"), v, 1, &other, 0, &[]));
    assert_eq!(run(&mut d, &unknown).verdict, PASS);
}

#[test]
fn counts_are_kept_per_server_and_service() {
    privileged!();
    let mut d = director(&[service(
        Scheduler::RoundRobin,
        "10.0.0.100",
        three(Forwarding::DirectRouting, [1; 3]),
    )]);
    for port in 1..=3 {
        goes_to(&mut d, &syn(port));
        goes_to(&mut d, &ack(port));
    }
    let service = d.service_tally("web");
    assert_eq!(
        (service.connections, service.packets, service.bytes),
        (3, 6, 6 * 45)
    );
    let server = d.server_counts("web", ip("10.0.0.11"), 80).tally;
    assert_eq!((server.connections, server.packets), (1, 2));
}

#[test]
fn no_frame_upsets_the_program() {
    privileged!();
    let mut services = vec![service(
        Scheduler::RoundRobin,
        "10.0.0.100",
        three(Forwarding::Tunnel, [1; 3]),
    )];
    services.push(Service {
        name: "six".into(),
        ..service(
            Scheduler::Maglev,
            "fd00::100",
            vec![server("fd00::11", Forwarding::Nat, 1)],
        )
    });
    let d = std::cell::RefCell::new(director(&services));
    let good = [
        syn(9),
        udp("10.9.0.1", 9, "10.0.0.100", 80),
        tcp("fd00::9", 9, "fd00::100", 80, SYN),
    ];
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases: 3000,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let strategy = (
        0..3usize,
        prop::collection::vec((0usize..70, any::<u8>()), 0..6),
        14usize..90,
    );
    runner
        .run(&strategy, |(which, changes, length)| {
            let mut frame = good[which].clone();
            for (at, value) in changes {
                if let Some(byte) = frame.get_mut(at) {
                    *byte = value;
                }
            }
            frame.truncate(length);
            let ran = d
                .borrow_mut()
                .programs
                .test_run("director", &frame, 1)
                .unwrap();
            prop_assert!((DROP..=REDIRECT).contains(&ran.verdict));
            let _ = d
                .borrow_mut()
                .programs
                .test_run("decap", &frame, 1)
                .unwrap();
            Ok(())
        })
        .unwrap();
}
