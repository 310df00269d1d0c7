//! A director with three real servers for the datapath tests, and frames run through it.

// each test program uses a part of it
#![allow(dead_code)]

use super::common::{ACK, DIRECTOR_MAC, SYN, tcp};
use sluice_l4::config::model::{Forwarding, Protocol, Scheduler};
use sluice_l4::datapath::director::{Director, Egress, Server, Service, Vip};
use sluice_l4::datapath::layout::Settings;
use sluice_l4::datapath::programs::{Ran, Sizes};
use std::net::IpAddr;

pub const DROP: u32 = 1;
pub const PASS: u32 = 2;
pub const TX: u32 = 3;
pub const REDIRECT: u32 = 4;
/// Test runs come in on the loopback interface.
pub const LOOPBACK: u32 = 1;

pub fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

pub fn server(address: &str, forwarding: Forwarding, weight: u32) -> Server {
    Server {
        ip: ip(address),
        port: 80,
        forwarding,
        weight,
        conns_max: 0,
        conns_min: 0,
    }
}

pub fn service(scheduler: Scheduler, vip: &str, servers: Vec<Server>) -> Service {
    Service {
        name: "web".into(),
        vips: vec![
            Vip {
                ip: ip(vip),
                port: 80,
                protocol: Protocol::Tcp,
            },
            Vip {
                ip: ip(vip),
                port: 80,
                protocol: Protocol::Udp,
            },
        ],
        scheduler,
        hash_port: false,
        hash_fallback: false,
        one_packet: false,
        persistence: None,
        servers,
    }
}

pub fn egress(n: u8, v6: bool) -> Egress {
    let source = if v6 { "fd00::2" } else { "10.0.0.2" };
    Egress {
        ifindex: LOOPBACK,
        next_hop: [2, 0, 0, 1, 0, n],
        own_mac: DIRECTOR_MAC,
        source: ip(source),
        mtu: 1500,
        local: false,
    }
}

/// Three servers 10.0.0.11 to .13 whose next hops end in 11 to 13.
pub fn three(forwarding: Forwarding, weights: [u32; 3]) -> Vec<Server> {
    (0..3)
        .map(|i| server(&format!("10.0.0.{}", 11 + i), forwarding, weights[i]))
        .collect()
}

pub fn director(services: &[Service]) -> Director {
    let mut d = Director::new(Sizes::small(), Settings::default()).expect("the programs load");
    for n in 11..=20 {
        d.set_egress(ip(&format!("10.0.0.{n}")), Some(egress(n, false)))
            .unwrap();
        d.set_egress(ip(&format!("fd00::{n}")), Some(egress(n, true)))
            .unwrap();
    }
    d.apply(services).unwrap();
    d
}

pub fn run(d: &mut Director, frame: &[u8]) -> Ran {
    d.programs.test_run("director", frame, 1).unwrap()
}

/// The last byte of the next hop: which server got it.
pub fn goes_to(d: &mut Director, frame: &[u8]) -> u8 {
    let ran = run(d, frame);
    assert_eq!(ran.verdict, TX, "{:?}", d.programs.counters());
    ran.frame[5]
}

pub fn syn(port: u16) -> Vec<u8> {
    tcp("10.9.0.1", port, "10.0.0.100", 80, SYN)
}
pub fn ack(port: u16) -> Vec<u8> {
    tcp("10.9.0.1", port, "10.0.0.100", 80, ACK)
}
