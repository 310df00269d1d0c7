//! Frames for the datapath tests, made byte by byte.
// each test program uses a part of it
#![allow(dead_code)]

use std::net::IpAddr;

pub const CLIENT_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
pub const DIRECTOR_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];

pub const SYN: u8 = 2;
pub const ACK: u8 = 16;
pub const FIN: u8 = 1;
pub const RST: u8 = 4;

/// Why privileged tests cannot run here, if they cannot.
pub fn reason_to_skip() -> Option<&'static str> {
    if !rustix::process::geteuid().is_root() {
        return Some("not root");
    }
    if !sluice_l4::datapath::Programs::built() {
        return Some("built without clang");
    }
    None
}

/// Returns from the test, saying why, where it cannot run.
#[macro_export]
macro_rules! privileged {
    () => {
        if let Some(why) = common::reason_to_skip() {
            eprintln!("skipped: {why}");
            return;
        }
    };
}

pub fn sum(parts: &[&[u8]]) -> u16 {
    let mut sum = sluice_l4::vrrp::packet::Sum::default();
    for p in parts {
        sum.add(p);
    }
    sum.finish()
}

pub fn octets(ip: IpAddr) -> Vec<u8> {
    match ip {
        IpAddr::V4(v) => v.octets().to_vec(),
        IpAddr::V6(v) => v.octets().to_vec(),
    }
}

/// An IP packet with a right header checksum; `fragment` is the whole flags-and-offset field, `options` IPv4 options.
pub fn ip(
    source: IpAddr,
    destination: IpAddr,
    protocol: u8,
    payload: &[u8],
    fragment: u16,
    options: &[u8],
) -> Vec<u8> {
    if source.is_ipv6() {
        let mut h = vec![0x60, 0, 0, 0];
        h.extend((payload.len() as u16).to_be_bytes());
        h.extend([protocol, 64]);
        h.extend(octets(source));
        h.extend(octets(destination));
        h.extend(payload);
        return h;
    }
    let length = 20 + options.len();
    let mut h = vec![0x40 | (length / 4) as u8, 0];
    h.extend(((length + payload.len()) as u16).to_be_bytes());
    h.extend([0x12, 0x34]);
    h.extend(fragment.to_be_bytes());
    h.extend([64, protocol, 0, 0]);
    h.extend(octets(source));
    h.extend(octets(destination));
    h.extend(options);
    let check = sum(&[&h]);
    h[10..12].copy_from_slice(&check.to_be_bytes());
    h.extend(payload);
    h
}

pub fn ethernet(packet: &[u8]) -> Vec<u8> {
    let mut f = DIRECTOR_MAC.to_vec();
    f.extend(CLIENT_MAC);
    f.extend(if packet[0] >> 4 == 6 {
        [0x86, 0xdd]
    } else {
        [8, 0]
    });
    f.extend(packet);
    f
}

/// A transport segment with a right checksum.
pub fn segment(
    source: IpAddr,
    destination: IpAddr,
    protocol: u8,
    source_port: u16,
    port: u16,
    flags: u8,
    data: &[u8],
) -> Vec<u8> {
    let mut s = Vec::new();
    s.extend(source_port.to_be_bytes());
    s.extend(port.to_be_bytes());
    let at = if protocol == 6 {
        s.extend([0, 0, 0, 1, 0, 0, 0, 2, 0x50, flags, 0x20, 0, 0, 0, 0, 0]);
        16
    } else {
        s.extend(((8 + data.len()) as u16).to_be_bytes());
        s.extend([0, 0]);
        6
    };
    s.extend(data);
    let check = transport_sum(source, destination, protocol, &s);
    s[at..at + 2].copy_from_slice(&check.to_be_bytes());
    s
}

/// 0 if the checksum in the segment is right.
pub fn transport_sum(source: IpAddr, destination: IpAddr, protocol: u8, segment: &[u8]) -> u16 {
    let length = segment.len() as u16;
    sum(&[
        &octets(source),
        &octets(destination),
        &[0, protocol],
        &length.to_be_bytes(),
        segment,
    ])
}

pub fn tcp(client: &str, client_port: u16, vip: &str, port: u16, flags: u8) -> Vec<u8> {
    let (s, d): (IpAddr, IpAddr) = (client.parse().unwrap(), vip.parse().unwrap());
    ethernet(&ip(
        s,
        d,
        6,
        &segment(s, d, 6, client_port, port, flags, b"hello"),
        0x4000,
        &[],
    ))
}

pub fn udp(client: &str, client_port: u16, vip: &str, port: u16) -> Vec<u8> {
    let (s, d): (IpAddr, IpAddr) = (client.parse().unwrap(), vip.parse().unwrap());
    ethernet(&ip(
        s,
        d,
        17,
        &segment(s, d, 17, client_port, port, 0, b"hello!"),
        0x4000,
        &[],
    ))
}
