//! Routes and policy rules of the master, and the way to an address.

use super::*;
use crate::config::model::{Route, RouteKind, Rule, RuleAction};
use crate::config::route::PROTOCOL_KEEPALIVED;

/// The number of an interface, if there is one of that name.
pub type Index<'a> = &'a dyn Fn(&str) -> Option<u32>;

/// Where packets to an address go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hop {
    pub ifindex: u32,
    pub gateway: Option<IpAddr>,
    pub source: Option<IpAddr>,
    /// The address is this machine's.
    pub local: bool,
}

impl Netlink {
    fn route_message(r: &Route, index: Index<'_>) -> Vec<u8> {
        let kind = match r.kind {
            RouteKind::Unicast => 1,
            RouteKind::Blackhole => 6,
            RouteKind::Unreachable => 7,
            RouteKind::Prohibit => 8,
        };
        let v6 = r.ipv6;
        let scope = r.scope.unwrap_or(
            if v6 || r.gateway.is_some() || !r.hops.is_empty() || kind != 1 {
                0
            } else {
                253
            },
        );
        let prefix = r.destination.map_or(0, |(_, p)| p);
        let table = r.table.unwrap_or(254);
        let flags: u32 = if r.on_link { 4 } else { 0 };
        let mut body = vec![
            if v6 {
                libc::AF_INET6 as u8
            } else {
                libc::AF_INET as u8
            },
            prefix,
            0,
            r.tos,
        ];
        let protocol = r.protocol.unwrap_or(PROTOCOL_KEEPALIVED);
        body.extend([table.min(255) as u8, protocol, scope, kind]);
        body.extend(flags.to_ne_bytes());
        let mut m = Message(body).number(15, table);
        if let Some((ip, _)) = r.destination {
            m = m.ip(1, ip);
        }
        if let Some(ip) = r.gateway {
            m = m.ip(5, ip);
        }
        if let Some(ip) = r.source {
            m = m.ip(7, ip);
        }
        if let Some(i) = r.device.as_deref().and_then(index) {
            m = m.number(4, i);
        }
        if let Some(metric) = r.metric {
            m = m.number(6, metric);
        }
        if let Some(preference) = r.preference {
            m = m.attribute(20, &[preference]);
        }
        if let Some(expires_s) = r.expires_s {
            m = m.number(23, expires_s);
        }
        let metrics = Self::metrics(r);
        if !metrics.is_empty() {
            m = m.attribute(8, &metrics);
        }
        if !r.hops.is_empty() {
            m = m.attribute(9, &Self::hops(r, index));
        }
        m.0
    }

    /// RTA_METRICS.
    fn metrics(r: &Route) -> Vec<u8> {
        let mut m = Message::default();
        if r.locked != 0 {
            m = m.number(1, r.locked);
        }
        for (kind, value) in &r.metrics {
            m = m.number(*kind, *value);
        }
        if let Some(name) = &r.congestion {
            m = m.attribute(16, &[name.as_bytes(), &[0]].concat());
        }
        m.0
    }

    /// RTA_MULTIPATH: a struct rtnexthop each, with its gateway.
    fn hops(r: &Route, index: Index<'_>) -> Vec<u8> {
        const RTNH_F_ONLINK: u8 = 4;
        let mut out = Vec::new();
        for hop in &r.hops {
            let gateway = match hop.gateway {
                Some(ip) => Message::default().ip(5, ip).0,
                None => Vec::new(),
            };
            let device = hop.device.as_deref().and_then(index).unwrap_or(0);
            out.extend((8 + gateway.len() as u16).to_ne_bytes());
            let flags = if hop.on_link { RTNH_F_ONLINK } else { 0 };
            out.extend([
                flags,
                u8::try_from(hop.weight.saturating_sub(1)).unwrap_or(255),
            ]);
            out.extend(device.to_ne_bytes());
            out.extend(gateway);
        }
        out
    }

    pub fn add_route(&mut self, r: &Route, index: Index<'_>) -> io::Result<()> {
        let result = self.ask(
            RTM_NEWROUTE,
            ACK | CREATE | REPLACE,
            &Self::route_message(r, index),
        );
        tolerate(result, libc::EEXIST)
    }

    pub fn remove_route(&mut self, r: &Route, index: Index<'_>) -> io::Result<()> {
        let result = self.ask(RTM_DELROUTE, ACK, &Self::route_message(r, index));
        tolerate(result, libc::ESRCH)
    }

    /// The way to an address.
    pub fn route_to(&mut self, ip: IpAddr) -> io::Result<Hop> {
        let width = if ip.is_ipv4() { 32 } else { 128 };
        let mut body = vec![family(ip), width, 0, 0, 0, 0, 0, 0];
        body.extend([0; 4]);
        let answer = self.ask(RTM_GETROUTE, 0, &Message(body).ip(1, ip).0)?;
        let (_, body) = answer
            .first()
            .ok_or_else(|| io::Error::other("no answer"))?;
        let mut hop = Hop {
            ifindex: 0,
            gateway: None,
            source: None,
            local: body.get(7) == Some(&2),
        };
        for (kind, value) in attributes(body.get(12..).unwrap_or_default()) {
            match kind {
                4 => hop.ifindex = number32(value, 0),
                5 => hop.gateway = address(value),
                7 => hop.source = address(value),
                // RTA_VIA: family, then address.
                18 => hop.gateway = value.get(2..).and_then(address),
                _ => {}
            }
        }
        Ok(hop)
    }

    fn rule_message(r: &Rule) -> Vec<u8> {
        let action = match r.action {
            RuleAction::Lookup(_) => 1,
            RuleAction::Goto(_) => 2,
            RuleAction::Nop => 3,
            RuleAction::Blackhole => 6,
            RuleAction::Unreachable => 7,
            RuleAction::Prohibit => 8,
        };
        let table = match r.action {
            RuleAction::Lookup(table) => table,
            _ => 0,
        };
        let width = |network: Option<(IpAddr, u8)>| network.map_or(0, |(_, prefix)| prefix);
        let family = if r.ipv6 {
            libc::AF_INET6
        } else {
            libc::AF_INET
        } as u8;
        let mut body = vec![family, width(r.to), width(r.from), r.tos];
        body.extend([u8::try_from(table).unwrap_or(0), 0, 0, action]);
        let inverted: u32 = if r.not { 2 } else { 0 };
        body.extend(inverted.to_ne_bytes());
        let mut m = Message(body)
            .number(6, r.priority)
            .attribute(21, &[PROTOCOL_KEEPALIVED]);
        if table != 0 {
            m = m.number(15, table);
        }
        if let RuleAction::Goto(to) = r.action {
            m = m.number(4, to);
        }
        for (kind, network) in [(1, r.to), (2, r.from)] {
            if let Some((ip, _)) = network {
                m = m.ip(kind, ip);
            }
        }
        for (kind, interface) in [(3, &r.input), (17, &r.output)] {
            if let Some(name) = interface {
                m = m.attribute(kind, &[name.as_bytes(), &[0]].concat());
            }
        }
        if let Some((mark, mask)) = r.mark {
            m = m.number(10, mark).number(16, mask);
        }
        if let Some(length) = r.suppress_prefix {
            m = m.number(14, length);
        }
        if let Some(protocol) = r.protocol {
            m = m.attribute(22, &[protocol]);
        }
        for (kind, ports) in [(23, r.source_ports), (24, r.destination_ports)] {
            if let Some((first, last)) = ports {
                let both = [first.to_ne_bytes(), last.to_ne_bytes()].concat();
                m = m.attribute(kind, &both);
            }
        }
        m.0
    }

    /// Adds a policy rule; one that is there already is no error.
    pub fn add_rule(&mut self, r: &Rule) -> io::Result<()> {
        let flags = ACK | CREATE | EXCLUSIVE;
        let result = self.ask(RTM_NEWRULE, flags, &Self::rule_message(r));
        tolerate(result, libc::EEXIST)
    }

    /// Removes a policy rule; one that is gone already is no error.
    pub fn remove_rule(&mut self, r: &Rule) -> io::Result<()> {
        let result = self.ask(RTM_DELRULE, ACK, &Self::rule_message(r));
        tolerate(result, libc::ENOENT)
    }
}
