//! A table of three real servers for the measurements.

// each test program uses a part of it
#![allow(dead_code)]

use super::common::DIRECTOR_MAC;
use sluice_l4::config::model::{Forwarding, Protocol, Scheduler};
use sluice_l4::datapath::director::{Director, Egress, Server, Service, Vip};
use sluice_l4::datapath::layout::Settings;
use sluice_l4::datapath::programs::Sizes;
use std::net::IpAddr;

fn addr(text: &str) -> IpAddr {
    text.parse().unwrap()
}

pub fn service(
    name: &str,
    vip: &str,
    scheduler: Scheduler,
    forwarding: Forwarding,
    one_packet: bool,
) -> Service {
    let servers = (11..=13)
        .map(|n| Server {
            ip: addr(&format!("10.0.0.{n}")),
            port: 80,
            forwarding,
            weight: 1,
            conns_max: 0,
            conns_min: 0,
        })
        .collect();
    Service {
        name: name.into(),
        vips: vec![Vip {
            ip: addr(vip),
            port: 80,
            protocol: Protocol::Tcp,
        }],
        scheduler,
        hash_port: true,
        hash_fallback: false,
        one_packet,
        persistence: None,
        servers,
    }
}

pub fn director(sizes: Sizes, ifindex: u32) -> Director {
    let mut d = Director::new(sizes, Settings::default()).unwrap();
    for n in 11..=13 {
        d.set_egress(
            addr(&format!("10.0.0.{n}")),
            Some(Egress {
                ifindex,
                next_hop: [2, 0, 0, 1, 0, n],
                own_mac: DIRECTOR_MAC,
                source: addr("10.0.0.2"),
                mtu: 1500,
                local: false,
            }),
        )
        .unwrap();
    }
    d
}

pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
