//! What routers want of the host, as jobs for the thread that does it ([`super::place`]).

use super::Work;
use super::place::{Job, Placement, STATIC};
use crate::netlink::firewall::Closed;
use crate::shell::router::Router;
use std::collections::BTreeSet;
use std::sync::Arc;

impl Work {
    /// What must be there before a router can run: its macvlans; and what must not: addresses left by a killed process.
    pub(super) fn prepare(&mut self, i: usize) {
        self.make_macvlans(i);
        self.addresses(i, false);
    }

    fn placement(&self, r: &Router) -> Arc<Placement> {
        let g = &self.config.globals;
        let device = |a| r.device_of(a, &g.default_interface).to_string();
        let refresh = r.config.garp_extra.or(g.garp_extra);
        let refresh = refresh.filter(|e| e.interval_us > 0).map(|extra| {
            let own = |name: &str| {
                Some(name) == r.config.interface.as_deref()
                    || r.macvlans.iter().any(|m| m.own && m.name == name)
            };
            let all = |name: &str| extra.all || r.macvlans.iter().any(|m| m.name == name);
            let names = r.addresses().map(device);
            (
                extra.interval_us,
                names.filter(|n| !own(n) && all(n)).collect(),
            )
        });
        Arc::new(Placement {
            owner: r.config.name.clone(),
            addresses: r.addresses().map(|a| (a.clone(), device(a))).collect(),
            routes: r.config.routes.clone(),
            rules: r.config.rules.clone(),
            pace_us: [g.garp_interval_us, g.gna_interval_us],
            refresh,
        })
    }

    /// Puts addresses, routes and rules in place, or takes them away.
    pub(super) fn addresses(&mut self, i: usize, add: bool) {
        self.routers[i].placed = add;
        let placement = self.placement(&self.routers[i]);
        if add {
            self.close_addresses();
            self.place.send(Job::Put(placement));
        } else {
            self.place.send(Job::Take(placement));
            self.close_addresses();
        }
    }

    /// Drops packets to the addresses that are here and accept nothing, and only those.
    fn close_addresses(&mut self) {
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
        let firewall = self.config.globals.firewall.clone();
        self.place.send(Job::Close(firewall, closed.clone()));
        self.closed = closed;
    }

    /// Announces every address `repeat` times.
    pub(super) fn announce(&mut self, i: usize, repeat: u32) {
        let placement = self.placement(&self.routers[i]);
        self.place.send(Job::Announce(placement, repeat));
    }

    /// Puts in place what the file's static blocks say; what they no longer say goes first, what stays is not touched.
    pub(super) fn put_static(&mut self) {
        let config = &self.config;
        let default = &config.globals.default_interface;
        let device = |a: &crate::config::model::VirtualAddress| {
            a.device.clone().unwrap_or_else(|| default.clone())
        };
        let wanted = Placement {
            owner: STATIC.into(),
            addresses: config
                .static_addresses
                .iter()
                .map(|a| (a.clone(), device(a)))
                .collect(),
            routes: config.static_routes.clone(),
            rules: config.static_rules.clone(),
            ..Placement::default()
        };
        if *self.fixed == wanted {
            return;
        }
        let old = &self.fixed;
        let gone = Placement {
            owner: STATIC.into(),
            addresses: missing(&old.addresses, &wanted.addresses),
            routes: missing(&old.routes, &wanted.routes),
            rules: missing(&old.rules, &wanted.rules),
            ..Placement::default()
        };
        self.place.send(Job::Take(Arc::new(gone)));
        self.fixed = Arc::new(wanted);
        self.place.send(Job::Put(self.fixed.clone()));
    }
}

/// Those of `old` that are not in `new`.
fn missing<T: Clone + PartialEq>(old: &[T], new: &[T]) -> Vec<T> {
    old.iter().filter(|o| !new.contains(o)).cloned().collect()
}
