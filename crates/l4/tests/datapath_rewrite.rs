//! Packets that are rewritten: NAT both ways, in fragments and in what ICMP errors quote, and the answer to a packet that a tunnel
//! would make too long. Packet by packet through BPF_PROG_TEST_RUN.

mod common;
#[path = "common/site.rs"]
mod site;

use common::*;
use site::{ip, *};
use sluice_l4::config::model::{Forwarding, Scheduler};
use sluice_l4::datapath::director::{Director, Server};
use std::net::IpAddr;

#[test]
fn nat_rewrites_both_ways_with_right_checksums() {
    privileged!();
    for protocol in [6, 17] {
        let mut s = service(
            Scheduler::RoundRobin,
            "10.0.0.100",
            vec![Server {
                port: 8080,
                ..server("10.0.0.11", Forwarding::Nat, 1)
            }],
        );
        s.name = "nat".into();
        let mut d = director(&[s]);
        let frame = if protocol == 6 {
            syn(1000)
        } else {
            udp("10.9.0.1", 1000, "10.0.0.100", 80)
        };
        let ran = run(&mut d, &frame);
        assert_eq!(ran.verdict, TX);
        let (client, rs, vip) = (ip("10.9.0.1"), ip("10.0.0.11"), ip("10.0.0.100"));
        let out = &ran.frame;
        assert_eq!(out[30..34], [10, 0, 0, 11]);
        assert_eq!(u16::from_be_bytes([out[36], out[37]]), 8080);
        assert_eq!(out[22], 63, "the time to live");
        assert_eq!(sum(&[&out[14..34]]), 0, "the header's checksum");
        assert_eq!(
            transport_sum(client, rs, protocol, &out[34..]),
            0,
            "the segment's checksum"
        );

        let answer = ethernet(&common::ip(
            rs,
            client,
            protocol,
            &segment(rs, client, protocol, 8080, 1000, SYN | ACK, b"ok"),
            0x4000,
            &[],
        ));
        let back = run(&mut d, &answer);
        assert_eq!(back.verdict, TX);
        assert_eq!(back.frame[..6], CLIENT_MAC);
        assert_eq!(back.frame[26..30], [10, 0, 0, 100]);
        assert_eq!(u16::from_be_bytes([back.frame[34], back.frame[35]]), 80);
        assert_eq!(sum(&[&back.frame[14..34]]), 0);
        assert_eq!(transport_sum(vip, client, protocol, &back.frame[34..]), 0);
    }
}

#[test]
fn nat_works_over_ipv6() {
    privileged!();
    let mut d = director(&[service(
        Scheduler::RoundRobin,
        "fd00::100",
        vec![server("fd00::11", Forwarding::Nat, 1)],
    )]);
    let ran = run(&mut d, &tcp("fd00::9", 1000, "fd00::100", 80, SYN));
    assert_eq!(ran.verdict, TX);
    assert_eq!(
        transport_sum(ip("fd00::9"), ip("fd00::11"), 6, &ran.frame[54..]),
        0
    );
}

/// One server behind NAT at port 8080.
fn behind_nat(vip: &str, address: &str) -> Director {
    let servers = vec![Server {
        port: 8080,
        ..server(address, Forwarding::Nat, 1)
    }];
    director(&[service(Scheduler::RoundRobin, vip, servers)])
}

fn port_at(frame: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([frame[at], frame[at + 1]])
}

#[test]
fn fragments_go_through_nat_both_ways() {
    privileged!();
    let mut d = behind_nat("10.0.0.100", "10.0.0.11");
    let (client, rs, vip) = (ip("10.9.0.1"), ip("10.0.0.11"), ip("10.0.0.100"));
    // One datagram of 64 bytes in two fragments: the checksum is that of the whole.
    let play = |d: &mut Director, from: IpAddr, to: IpAddr, ports: (u16, u16), now_from, now_to| {
        let whole = segment(from, to, 17, ports.0, ports.1, 0, &[7; 56]);
        let first = ethernet(&common::ip(from, to, 17, &whole[..32], 0x2000, &[]));
        let later = ethernet(&common::ip(from, to, 17, &whole[32..], 0x0004, &[]));
        let frames = [run(d, &first), run(d, &later)];
        let mut joined = Vec::new();
        for ran in &frames {
            assert_eq!(ran.verdict, TX, "{:?}", d.programs.counters());
            assert_eq!(sum(&[&ran.frame[14..34]]), 0, "the header's checksum");
            assert_eq!(ran.frame[22], 63);
            joined.extend(&ran.frame[34..]);
        }
        assert_eq!(
            transport_sum(now_from, now_to, 17, &joined),
            0,
            "the datagram's checksum"
        );
        (port_at(&joined, 0), port_at(&joined, 2))
    };
    assert_eq!(
        play(&mut d, client, vip, (1000, 80), client, rs),
        (1000, 8080)
    );
    assert_eq!(
        play(&mut d, rs, client, (8080, 1000), vip, client),
        (80, 1000)
    );
}

/// An ICMP error of type 3 (IPv4) or 1 (IPv6) that quotes a packet.
fn icmp_error(from: IpAddr, to: IpAddr, quoted: &[u8]) -> Vec<u8> {
    let mut icmp = vec![if from.is_ipv4() { 3 } else { 1 }, 3, 0, 0, 0, 0, 0, 0];
    icmp.extend(&quoted[..if from.is_ipv4() { 28 } else { 48 }]);
    let check = if from.is_ipv4() {
        sum(&[&icmp])
    } else {
        transport_sum(from, to, 58, &icmp)
    };
    icmp[2..4].copy_from_slice(&check.to_be_bytes());
    ethernet(&common::ip(
        from,
        to,
        if from.is_ipv4() { 1 } else { 58 },
        &icmp,
        0,
        &[],
    ))
}

fn check_error(ran: &sluice_l4::datapath::programs::Ran, from: IpAddr, to: IpAddr) -> Vec<u8> {
    assert_eq!(ran.verdict, TX);
    let f = &ran.frame;
    if from.is_ipv4() {
        assert_eq!(sum(&[&f[14..34]]), 0, "the header's checksum");
        assert_eq!(sum(&[&f[34..]]), 0, "the error's checksum");
        assert_eq!(sum(&[&f[42..62]]), 0, "the quoted header's checksum");
        assert_eq!((octets4(&f[26..30]), octets4(&f[30..34])), (from, to));
        return f[42..].to_vec();
    }
    assert_eq!(
        transport_sum(from, to, 58, &f[54..]),
        0,
        "the error's checksum"
    );
    f[62..].to_vec()
}

fn octets4(bytes: &[u8]) -> IpAddr {
    IpAddr::from(<[u8; 4]>::try_from(bytes).unwrap())
}

#[test]
fn icmp_errors_go_through_nat_both_ways() {
    privileged!();
    let mut d = behind_nat("10.0.0.100", "10.0.0.11");
    let (client, rs, vip, router) = (
        ip("10.9.0.1"),
        ip("10.0.0.11"),
        ip("10.0.0.100"),
        ip("10.8.0.1"),
    );
    run(&mut d, &udp("10.9.0.1", 1000, "10.0.0.100", 80));
    // The client's port is closed: its host quotes what it got, from the virtual address.
    let quoted = common::ip(
        vip,
        client,
        17,
        &segment(vip, client, 17, 80, 1000, 0, b"ok"),
        0,
        &[],
    );
    for from in [client, router] {
        let ran = run(&mut d, &icmp_error(from, vip, &quoted));
        let inner = check_error(&ran, from, rs);
        assert_eq!((octets4(&inner[12..16]), port_at(&inner, 20)), (rs, 8080));
        assert_eq!(
            (octets4(&inner[16..20]), port_at(&inner, 22)),
            (client, 1000)
        );
    }
    // The server's port is closed: it quotes what it got, which was to itself. A router on the way keeps its own name.
    let quoted = common::ip(
        client,
        rs,
        17,
        &segment(client, rs, 17, 1000, 8080, 0, b"hi"),
        0,
        &[],
    );
    for (from, shown) in [(rs, vip), (router, router)] {
        let ran = run(&mut d, &icmp_error(from, client, &quoted));
        let inner = check_error(&ran, shown, client);
        assert_eq!((octets4(&inner[16..20]), port_at(&inner, 22)), (vip, 80));
        assert_eq!(
            (octets4(&inner[12..16]), port_at(&inner, 20)),
            (client, 1000)
        );
        assert_eq!(ran.frame[..6], CLIENT_MAC);
    }
}

#[test]
fn icmp_errors_go_through_nat_over_ipv6() {
    privileged!();
    let mut d = behind_nat("fd00::100", "fd00::11");
    let (client, rs, vip) = (ip("fd00::9"), ip("fd00::11"), ip("fd00::100"));
    run(&mut d, &udp("fd00::9", 1000, "fd00::100", 80));
    let quoted = common::ip(
        vip,
        client,
        17,
        &segment(vip, client, 17, 80, 1000, 0, b"ok"),
        0,
        &[],
    );
    let inner = check_error(&run(&mut d, &icmp_error(client, vip, &quoted)), client, rs);
    assert_eq!(
        (inner[8..24].to_vec(), port_at(&inner, 40)),
        (octets(rs), 8080)
    );
    let quoted = common::ip(
        client,
        rs,
        17,
        &segment(client, rs, 17, 1000, 8080, 0, b"hi"),
        0,
        &[],
    );
    let inner = check_error(&run(&mut d, &icmp_error(rs, client, &quoted)), vip, client);
    assert_eq!(
        (inner[24..40].to_vec(), port_at(&inner, 42)),
        (octets(vip), 80)
    );
}

#[test]
fn sctp_goes_through_nat_where_the_port_stays() {
    privileged!();
    let mut s = service(
        Scheduler::RoundRobin,
        "10.0.0.100",
        vec![server("10.0.0.11", Forwarding::Nat, 1)],
    );
    s.vips[0].protocol = sluice_l4::config::model::Protocol::Sctp;
    let mut d = director(&[s]);
    let mut init = vec![0x03, 0xe8, 0, 80, 0, 0, 0, 0, 1, 2, 3, 4];
    init.extend([1, 0, 0, 4]);
    let frame = ethernet(&common::ip(
        ip("10.9.0.1"),
        ip("10.0.0.100"),
        132,
        &init,
        0x4000,
        &[],
    ));
    let ran = run(&mut d, &frame);
    assert_eq!(ran.verdict, TX);
    assert_eq!(octets4(&ran.frame[30..34]), ip("10.0.0.11"));
    assert_eq!(
        ran.frame[34..],
        frame[34..],
        "its checksum covers no addresses"
    );
}

#[test]
fn a_packet_too_long_for_its_tunnel_is_answered() {
    privileged!();
    let mut d = director(&[service(
        Scheduler::RoundRobin,
        "10.0.0.100",
        vec![server("10.0.0.11", Forwarding::Tunnel, 1)],
    )]);
    let (client, vip) = (ip("10.9.0.1"), ip("10.0.0.100"));
    let of = |length: usize| {
        let data = vec![7; length - 40];
        ethernet(&common::ip(
            client,
            vip,
            6,
            &segment(client, vip, 6, 5, 80, ACK, &data),
            0x4000,
            &[],
        ))
    };
    // 1500 less the outer header of 20.
    assert_eq!(run(&mut d, &of(1480)).frame.len(), 14 + 1500);
    let frame = of(1481);
    let ran = run(&mut d, &frame);
    assert_eq!(ran.verdict, TX);
    let f = &ran.frame;
    assert_eq!((&f[..6], &f[6..12]), (&CLIENT_MAC[..], &DIRECTOR_MAC[..]));
    assert_eq!((octets4(&f[26..30]), octets4(&f[30..34])), (vip, client));
    assert_eq!(sum(&[&f[14..34]]), 0);
    assert_eq!(sum(&[&f[34..]]), 0);
    assert_eq!((&f[34..36], port_at(f, 40)), (&[3, 4][..], 1480));
    assert_eq!(f[42..], frame[14..42], "the header and 8 bytes");
    assert_eq!(d.programs.counter("too_long"), 1);
}

#[test]
fn a_packet_too_long_for_its_tunnel_is_answered_over_ipv6() {
    privileged!();
    let mut d = director(&[service(
        Scheduler::RoundRobin,
        "fd00::100",
        vec![server("fd00::11", Forwarding::Tunnel, 1)],
    )]);
    let (client, vip) = (ip("fd00::9"), ip("fd00::100"));
    let frame = ethernet(&common::ip(
        client,
        vip,
        6,
        &segment(client, vip, 6, 5, 80, ACK, &[7; 1401]),
        0,
        &[],
    ));
    let ran = run(&mut d, &frame);
    assert_eq!(ran.verdict, TX);
    let f = &ran.frame;
    assert_eq!(
        (f[22..38].to_vec(), f[38..54].to_vec()),
        (octets(vip), octets(client))
    );
    assert_eq!(transport_sum(vip, client, 58, &f[54..]), 0);
    assert_eq!(
        (f[54], f[58..62].to_vec()),
        (2, 1460u32.to_be_bytes().to_vec())
    );
    assert_eq!(f[62..], frame[14..62]);
}
