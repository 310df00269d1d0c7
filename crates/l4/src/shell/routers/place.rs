//! What a router puts into its host and takes away again: macvlan, addresses, routes, rules, the firewall of addresses that
//! accept nothing, announcements.

use super::{Work, now_us};
use crate::announce;
use crate::netlink::Netlink;
use crate::netlink::firewall::{self, Closed};
use crate::sys;
use std::collections::{BTreeSet, HashMap};

impl Work {
    /// What must be there before a router can run: its macvlan; and what must not: addresses left by a killed process.
    pub(super) fn prepare(&mut self, i: usize) {
        let router = &self.routers[i];
        if let (Some(name), Some(base)) = (router.vmac.clone(), router.config.interface.clone()) {
            let mac = router.virtual_mac();
            if let Some(link) = self.links.iter().find(|l| l.name == base) {
                let made = self.netlink.add_macvlan(link.index, &name, mac);
                if let Err(e) = made {
                    self.say(format!("cannot make the macvlan {name} over {base}: {e}"));
                }
                vmac_settings(&name, &base);
                self.links = self.netlink.links().unwrap_or_default();
            }
        }
        self.addresses(i, false);
    }

    /// Puts addresses, routes and rules in place, or takes them away in the opposite order.
    pub(super) fn addresses(&mut self, i: usize, add: bool) {
        self.routers[i].placed = add;
        if add {
            self.close_addresses();
        }
        let default = self.config.globals.default_interface.clone();
        let index: HashMap<&str, u32> = self
            .links
            .iter()
            .map(|l| (l.name.as_str(), l.index))
            .collect();
        let router = &self.routers[i];
        let mut failures = Vec::new();
        let routes = |netlink: &mut Netlink, failures: &mut Vec<String>| {
            for route in &router.config.routes {
                let device = route.device.as_deref().and_then(|d| index.get(d)).copied();
                let result = if add {
                    netlink.add_route(route, device)
                } else {
                    netlink.remove_route(route, device)
                };
                if let Err(e) = result {
                    failures.push(format!(
                        "({}) route {:?}: {e}",
                        router.config.name, route.destination
                    ));
                }
            }
        };
        let rules = |netlink: &mut Netlink, failures: &mut Vec<String>| {
            for rule in &router.config.rules {
                let result = match add {
                    true => netlink.add_rule(rule),
                    false => netlink.remove_rule(rule),
                };
                if let Err(e) = result {
                    let name = &router.config.name;
                    failures.push(format!("({name}) rule {}: {e}", rule.priority));
                }
            }
        };
        if !add {
            rules(&mut self.netlink, &mut failures);
            // Routes may refer to addresses that were never there: their absence is no news.
            routes(&mut self.netlink, &mut Vec::new());
        }
        for address in router.addresses() {
            let device = router.device_of(address, &default);
            let Some(ifindex) = index.get(device) else {
                failures.push(format!(
                    "({}) {}: no interface {device}",
                    router.config.name, address.ip
                ));
                continue;
            };
            let result = if add {
                self.netlink.add_address(*ifindex, address)
            } else {
                self.netlink.remove_address(*ifindex, address)
            };
            if let Err(e) = result {
                failures.push(format!(
                    "({}) {} on {device}: {e}",
                    router.config.name, address.ip
                ));
            }
        }
        if add {
            routes(&mut self.netlink, &mut failures);
            rules(&mut self.netlink, &mut failures);
        }
        if !add {
            self.close_addresses();
        }
        for failure in failures {
            self.say(failure);
        }
    }

    /// Drops packets to the addresses that are here and accept nothing, and only those.
    pub(super) fn close_addresses(&mut self) {
        let default = &self.config.globals.default_interface;
        let closed: BTreeSet<Closed> = self
            .routers
            .iter()
            .filter(|r| r.placed && r.config.accept == Some(false))
            .flat_map(|r| {
                let device = |a| r.device_of(a, default).to_string();
                r.addresses().map(move |a| (a.ip, device(a)))
            })
            .collect();
        if closed == self.closed {
            return;
        }
        if let Err(e) = firewall::replace(&self.config.globals.firewall, &closed) {
            self.say(format!("no_accept: the firewall cannot be set: {e}"));
        }
        self.closed = closed;
    }

    /// Announces every address `repeat` times, paced by vrrp_garp_interval and vrrp_gna_interval.
    pub(super) fn announce(&mut self, i: usize, repeat: u32) {
        let g = &self.config.globals;
        let router = &self.routers[i];
        let mut at = now_us();
        for _ in 0..repeat {
            for address in router.addresses() {
                let device = router.device_of(address, &g.default_interface);
                let Some(link) = self.links.iter().find(|l| l.name == device) else {
                    continue;
                };
                let interval = if address.ip.is_ipv6() {
                    g.gna_interval_us
                } else {
                    g.garp_interval_us
                };
                let frame = announce::frame(link.mac, address.ip);
                if interval == 0 {
                    let _ = sys::send_frame(&self.frames, link.index, &frame);
                } else {
                    self.announcements.push_back((at, link.index, frame));
                    at += interval;
                }
            }
        }
    }
}

/// ARP for the virtual addresses is answered by the macvlan alone.
fn vmac_settings(vmac: &str, base: &str) {
    let set = |interface: &str, key: &str, value: &str| {
        // Best effort: doctor tells what is not as it should be.
        let _ = std::fs::write(format!("/proc/sys/net/ipv4/conf/{interface}/{key}"), value);
    };
    set(vmac, "accept_local", "1");
    set(vmac, "rp_filter", "0");
    set(vmac, "arp_ignore", "1");
    set(base, "arp_ignore", "1");
    set(base, "arp_filter", "1");
}
