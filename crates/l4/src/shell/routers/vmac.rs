//! The macvlans of a virtual router: which there are, what they are called, and how they are made.
//!
//! `use_vmac` gives the instance one on its own interface; `use_vmac_addr`, or `use_vmac` at an address, one on every other
//! interface (and for the other address family) that an address is on. Names are keepalived's, so that either program finds
//! what the other left: `vrrp.VRID`, `vrrp6.VRID` for IPv6, and where that is taken `vrrp1.VRID`, `vrrp2.VRID` ...

use super::Work;
use super::place::Job;
use crate::config::model::{Globals, VirtualAddress, VrrpInstance};
use crate::shell::router_socket::is_v6;
use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Arc;

/// A macvlan with the virtual router's MAC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Macvlan {
    pub name: String,
    pub base: String,
    pub v6: bool,
    pub mac: [u8; 6],
    /// It carries the adverts too.
    pub own: bool,
}

/// RFC 9568 section 7.3.
fn virtual_mac(v6: bool, vrid: u8) -> [u8; 6] {
    [0, 0, 0x5e, 0, if v6 { 2 } else { 1 }, vrid]
}

/// The macvlans of an instance; `taken` are the names of others, and grows by these.
pub fn macvlans(i: &VrrpInstance, g: &Globals, taken: &mut HashSet<String>) -> Vec<Macvlan> {
    let vrid = i.vrid.unwrap_or(0);
    let mut list: Vec<Macvlan> = Vec::new();
    let mut name = |prefix: &str, v6: bool| {
        let family = if v6 { "6" } else { "" };
        let others = (1u32..).map(|n| format!("{prefix}{n}.{vrid}"));
        let mut names = std::iter::once(format!("{prefix}{family}.{vrid}")).chain(others);
        // One of them is free: `taken` is finite.
        names.find(|n| taken.insert(n.clone())).unwrap_or_default()
    };
    let prefix = g.vmac_prefix.as_deref().unwrap_or("vrrp");
    let v6 = is_v6(i);
    if let (Some(vmac), Some(base)) = (&i.vmac, &i.interface) {
        list.push(Macvlan {
            name: match &vmac.name {
                Some(given) => given.clone(),
                None => name(prefix, v6),
            },
            base: base.clone(),
            v6,
            mac: vmac.mac.unwrap_or(virtual_mac(v6, vrid)),
            own: true,
        });
    }
    let prefix = g.vmac_addr_prefix.as_deref().unwrap_or(prefix);
    for a in i.addresses.iter().chain(&i.excluded) {
        let Some((base, v6)) = other_base(i, a) else {
            continue;
        };
        if list.iter().any(|m| !m.own && m.base == base && m.v6 == v6) {
            continue;
        }
        list.push(Macvlan {
            name: name(prefix, v6),
            base: base.into(),
            v6,
            mac: virtual_mac(v6, vrid),
            own: false,
        });
    }
    list
}

/// The interface and family of the macvlan that an address asks for, where that is not the instance's own.
fn other_base<'a>(i: &'a VrrpInstance, a: &'a VirtualAddress) -> Option<(&'a str, bool)> {
    let v6 = a.ip.is_ipv6();
    let base = a.device.as_deref().or(i.interface.as_deref())?;
    let elsewhere = Some(base) != i.interface.as_deref() || v6 != is_v6(i);
    let wanted = (i.vmac_addr && elsewhere) || (a.use_vmac && (elsewhere || i.vmac.is_none()));
    wanted.then_some((base, v6))
}

/// The interface an address goes on.
pub fn device_of<'a>(
    i: &'a VrrpInstance,
    macvlans: &'a [Macvlan],
    a: &'a VirtualAddress,
    default: &'a str,
) -> &'a str {
    if let Some((base, v6)) = other_base(i, a) {
        let found = macvlans
            .iter()
            .find(|m| !m.own && m.base == base && m.v6 == v6);
        return found.map_or(base, |m| m.name.as_str());
    }
    let base = a.device.as_deref().or(i.interface.as_deref());
    let own = macvlans.iter().find(|m| m.own);
    match (base, own) {
        // keepalived leaves an address of the other family on the interface itself.
        (Some(base), Some(own)) if base == own.base && a.ip.is_ipv6() == own.v6 => &own.name,
        (Some(base), _) => base,
        (None, _) => default,
    }
}

impl Work {
    /// Makes the macvlans of a router, where they are not there as they should be.
    pub(super) fn make_macvlans(&mut self, i: usize) {
        let macvlans = self.routers[i].macvlans.clone();
        if macvlans.is_empty() {
            return;
        }
        for m in &macvlans {
            let Some(base) = self.links.iter().find(|l| l.name == m.base).cloned() else {
                continue;
            };
            // What a killed process left may have served another instance.
            let stale = self.links.iter().find(|l| {
                l.name == m.name
                    && l.kind == "macvlan"
                    && (l.mac != m.mac || l.base != Some(base.index))
            });
            if let Some(link) = stale {
                let _ = self.netlink.remove_link(link.index);
            }
            if let Err(e) = self.netlink.add_macvlan(base.index, &m.name, m.mac) {
                self.say(format!(
                    "cannot make the macvlan {} over {}: {e}",
                    m.name, m.base
                ));
            }
            settings(m);
        }
        self.links = Arc::new(self.netlink.links().unwrap_or_default());
        self.place.send(Job::Links(self.links.clone()));
        for m in macvlans.iter().filter(|m| m.v6) {
            self.link_local(m);
        }
    }

    /// Neighbour discovery, and adverts, need a link-local address: the base's, as keepalived does, since one made of the
    /// virtual MAC would be the twin's too. It is deprecated, so that nothing else chooses it.
    fn link_local(&mut self, m: &Macvlan) {
        let index = |name: &str| self.links.iter().find(|l| l.name == name).map(|l| l.index);
        let (Some(base), Some(own)) = (index(&m.base), index(&m.name)) else {
            return;
        };
        let addresses = self.netlink.addresses().unwrap_or_default();
        let mut locals =
            addresses
                .iter()
                .filter(|(i, _, _)| *i == base)
                .filter_map(|(_, ip, _)| match ip {
                    IpAddr::V6(v6) if v6.is_unicast_link_local() => Some(*ip),
                    _ => None,
                });
        let ours = |ip: &IpAddr| {
            self.routers
                .iter()
                .any(|r| r.addresses().any(|a| a.ip == *ip))
        };
        let Some(ip) = locals.find(|ip| !ours(ip)) else {
            return;
        };
        let address = VirtualAddress {
            preferred_s: Some(0),
            no_dad: true,
            scope: 253,
            ..VirtualAddress::new(ip, 64)
        };
        if let Err(e) = self.netlink.add_address(own, &address) {
            self.say(format!("{ip} on {}: {e}", m.name));
        }
    }
}

/// ARP for the virtual addresses is answered by the macvlan alone.
fn settings(m: &Macvlan) {
    let set = |interface: &str, key: &str, value: &str| {
        // Best effort: doctor tells what is not as it should be.
        let _ = std::fs::write(format!("/proc/sys/net/ipv4/conf/{interface}/{key}"), value);
    };
    set(&m.name, "accept_local", "1");
    set(&m.name, "rp_filter", "0");
    set(&m.name, "arp_ignore", "1");
    set(&m.base, "arp_ignore", "1");
    set(&m.base, "arp_filter", "1");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{NoHost, parse};

    /// Interface of each address, and what each macvlan is over.
    fn check(body: &str, devices: &[&str], made: &[(&str, &str)]) {
        let text = format!(
            "vrrp_instance V {{\n interface eth0\n virtual_router_id 51\n version 3\n {body}\n}}\n"
        );
        let (config, found) = parse(&NoHost, "t", &text, "");
        assert!(found.is_empty(), "{found:?}");
        let i = &config.instances[0];
        let mut taken = HashSet::new();
        let macvlans = macvlans(i, &config.globals, &mut taken);
        let got: Vec<_> = i
            .addresses
            .iter()
            .chain(&i.excluded)
            .map(|a| device_of(i, &macvlans, a, "lo"))
            .collect();
        assert_eq!(got, devices);
        let got: Vec<_> = macvlans
            .iter()
            .map(|m| (m.name.as_str(), m.base.as_str()))
            .collect();
        assert_eq!(got, made);
    }

    const ADDRESSES: &str = "virtual_ipaddress {\n 10.0.0.100/24\n 10.0.0.101/24 dev eth0\n 10.0.1.100/24 dev eth1\n }\n \
        virtual_ipaddress_excluded {\n 10.0.2.100/24 dev eth2\n fd00::7/64\n fd00::8/64 dev eth1\n }";

    // As keepalived 2.2.7 does with the same lines.
    #[test]
    fn names_and_places_are_keepalived_s() {
        check(
            ADDRESSES,
            &["eth0", "eth0", "eth1", "eth2", "eth0", "eth1"],
            &[],
        );
        check(
            &format!("use_vmac\n{ADDRESSES}"),
            &["vrrp.51", "vrrp.51", "eth1", "eth2", "eth0", "eth1"],
            &[("vrrp.51", "eth0")],
        );
        check(
            &format!("use_vmac\n use_vmac_addr\n{ADDRESSES}"),
            &[
                "vrrp.51", "vrrp.51", "vrrp1.51", "vrrp2.51", "vrrp6.51", "vrrp3.51",
            ],
            &[
                ("vrrp.51", "eth0"),
                ("vrrp1.51", "eth1"),
                ("vrrp2.51", "eth2"),
                ("vrrp6.51", "eth0"),
                ("vrrp3.51", "eth1"),
            ],
        );
        check(
            &format!("use_vmac_addr\n{ADDRESSES}"),
            &[
                "eth0", "eth0", "vrrp.51", "vrrp1.51", "vrrp6.51", "vrrp2.51",
            ],
            &[
                ("vrrp.51", "eth1"),
                ("vrrp1.51", "eth2"),
                ("vrrp6.51", "eth0"),
                ("vrrp2.51", "eth1"),
            ],
        );
        check(
            "use_vmac\n virtual_ipaddress {\n 10.0.0.100/24\n 10.0.1.101/24 dev eth1 use_vmac\n }\n \
             virtual_ipaddress_excluded {\n 10.0.2.100/24 dev eth2\n fd00::8/64 use_vmac\n }",
            &["vrrp.51", "vrrp1.51", "eth2", "vrrp6.51"],
            &[
                ("vrrp.51", "eth0"),
                ("vrrp1.51", "eth1"),
                ("vrrp6.51", "eth0"),
            ],
        );
    }
}
