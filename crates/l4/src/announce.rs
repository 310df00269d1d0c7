//! Gratuitous ARP (RFC 5227 section 3) and unsolicited neighbour advertisements (RFC 4861 section 7.2.6) as frames.

use crate::vrrp::packet::Sum;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The frame that tells the link where an address now is.
pub fn frame(mac: [u8; 6], address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(ip) => gratuitous_arp(mac, ip),
        IpAddr::V6(ip) => neighbour_advertisement(mac, ip),
    }
}

fn gratuitous_arp(mac: [u8; 6], ip: Ipv4Addr) -> Vec<u8> {
    let mut f = vec![0xff; 6];
    f.extend(mac);
    // Ethernet type ARP; Ethernet, IPv4, 6 and 4 bytes, request: sender and target are the same address.
    f.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
    f.extend(mac);
    f.extend(ip.octets());
    f.extend([0xff; 6]);
    f.extend(ip.octets());
    f
}

fn neighbour_advertisement(mac: [u8; 6], ip: Ipv6Addr) -> Vec<u8> {
    let all_nodes = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
    // Type 136; flags: router and override; target; option 2, the target's link-layer address.
    let mut icmp = vec![136, 0, 0, 0, 0xa0, 0, 0, 0];
    icmp.extend(ip.octets());
    icmp.extend([2, 1]);
    icmp.extend(mac);
    let length = icmp.len() as u16;
    let mut sum = Sum::default();
    sum.add(&ip.octets());
    sum.add(&all_nodes.octets());
    sum.add(&length.to_be_bytes());
    sum.add(&[0, 58]);
    sum.add(&icmp);
    icmp[2..4].copy_from_slice(&sum.finish().to_be_bytes());
    let mut f = vec![0x33, 0x33, 0, 0, 0, 1];
    f.extend(mac);
    f.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
    f.extend(length.to_be_bytes());
    f.extend([58, 255]);
    f.extend(ip.octets());
    f.extend(all_nodes.octets());
    f.extend(icmp);
    f
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAC: [u8; 6] = [0, 0, 0x5e, 0, 1, 51];

    #[test]
    fn an_arp_names_the_address_twice() {
        let f = frame(MAC, IpAddr::from([10, 0, 0, 1]));
        assert_eq!(f.len(), 42);
        assert_eq!(f[28..32], [10, 0, 0, 1]);
        assert_eq!(f[38..42], [10, 0, 0, 1]);
        assert_eq!(f[22..28], MAC);
    }

    #[test]
    fn an_advertisement_has_a_right_checksum() {
        let ip: Ipv6Addr = "fd00::1".parse().unwrap();
        let f = frame(MAC, IpAddr::V6(ip));
        let mut sum = Sum::default();
        sum.add(&f[22..54]);
        sum.add(&[0, 32, 0, 58]);
        sum.add(&f[54..]);
        assert_eq!(sum.finish(), 0);
    }
}
