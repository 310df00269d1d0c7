//! One virtual server's servers: which are up, whether the quorum is there, what the datapath shall hold. Pure.
//!
//! Source: keepalived.conf(5), quorum, hysteresis, sorry_server, inhibit_on_failure, weight, alpha.

use crate::check::probe::Weight;
use crate::config::model::{Config, Forwarding, GroupEntry, Protocol, VirtualKey, VirtualServer};
use crate::datapath::director::{Server, Service, Vip};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub mod commands;

pub use commands::Terms;

/// The largest weight a server can have.
const WEIGHT_MAX: i64 = 65535;

/// A server and what is known of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Member {
    pub ip: IpAddr,
    pub port: u16,
    pub forwarding: Forwarding,
    /// As configured, or as a command or checker set it.
    pub weight: u32,
    pub conns_max: u32,
    pub conns_min: u32,
    pub inhibit: bool,
    pub up: bool,
    /// Added by a command, not by the file: a reload leaves it.
    pub by_command: bool,
    /// The weight was set by a command.
    pub weight_by_command: bool,
}

/// What changed, for scripts, fifo and log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    ServerUp(IpAddr, u16),
    ServerDown(IpAddr, u16),
    QuorumGained,
    QuorumLost,
    /// Every server is down and there is no sorry server: the table stays as it was.
    LastTableKept,
}

#[derive(Debug, Clone)]
pub struct Pool {
    pub config: VirtualServer,
    pub name: String,
    pub vips: Vec<Vip>,
    pub members: Vec<Member>,
    /// How connections are treated, now.
    pub terms: Terms,
    /// Added by a command, not by the file.
    pub by_command: bool,
    /// The file's servers that commands took out.
    deleted: Vec<(IpAddr, u16)>,
    /// The addresses as the file has them; a command may have taken some out of `vips`.
    file_vips: Vec<Vip>,
    quorum: bool,
    /// What the datapath was last told.
    last: Option<Service>,
}

/// The name a virtual server is known by in commands and lists: `TCP 10.0.0.1:80`, or the group's name.
pub fn name_of(vs: &VirtualServer) -> String {
    let protocol = vs.protocol.unwrap_or(Protocol::Udp).name();
    match &vs.key {
        VirtualKey::Address(IpAddr::V4(ip), port) => format!("{protocol} {ip}:{port}"),
        VirtualKey::Address(IpAddr::V6(ip), port) => format!("{protocol} [{ip}]:{port}"),
        VirtualKey::Fwmark(mark) => format!("FWM {mark}"),
        VirtualKey::Group(name) => format!("{protocol} group {name}"),
    }
}

/// All addresses of a virtual server.
pub fn vips_of(vs: &VirtualServer, config: &Config) -> Vec<Vip> {
    let protocol = vs.protocol.unwrap_or(Protocol::Udp);
    let one = |ip, port| Vip { ip, port, protocol };
    match &vs.key {
        VirtualKey::Address(ip, port) => vec![one(*ip, *port)],
        VirtualKey::Fwmark(mark) => {
            // As in IPVS it is of one address family, its servers'.
            let v6 = vs.real_servers.first().map(|r| r.address.is_ipv6());
            let mut all = marked(config, *mark);
            all.retain(|v| v6.is_none_or(|v6| v.ip.is_ipv6() == v6));
            all
        }
        VirtualKey::Group(name) => {
            let groups = config.groups.iter().filter(|g| g.name == *name);
            let entries = groups.flat_map(|g| &g.entries);
            entries
                .flat_map(|e| match e {
                    GroupEntry::Range(first, last, port) => {
                        let all = range(*first, *last).into_iter();
                        all.map(|ip| one(ip, *port)).collect()
                    }
                    GroupEntry::Fwmark(mark) => marked(config, *mark),
                })
                .collect()
        }
    }
}

fn marked(config: &Config, mark: u32) -> Vec<Vip> {
    let targets = config.marks.targets(mark).into_iter();
    targets
        .map(|(ip, port, protocol)| Vip { ip, port, protocol })
        .collect()
}

fn range(first: IpAddr, last: IpAddr) -> Vec<IpAddr> {
    match (first, last) {
        (IpAddr::V4(a), IpAddr::V4(b)) => (u32::from(a)..=u32::from(b))
            .map(|n| Ipv4Addr::from(n).into())
            .collect(),
        (IpAddr::V6(a), IpAddr::V6(b)) => (u128::from(a)..=u128::from(b))
            .take(65536)
            .map(|n| Ipv6Addr::from(n).into())
            .collect(),
        _ => Vec::new(),
    }
}

impl Pool {
    pub fn new(vs: &VirtualServer, config: &Config) -> Pool {
        let forwarding = vs.forwarding.unwrap_or(Forwarding::Nat);
        let members: Vec<Member> = vs
            .real_servers
            .iter()
            .map(|rs| Member {
                ip: rs.address,
                port: rs.port,
                forwarding: rs.forwarding.unwrap_or(forwarding),
                weight: rs.weight.unwrap_or(vs.weight),
                conns_max: rs.conns_max,
                conns_min: rs.conns_min,
                inhibit: rs.inhibit_on_failure.unwrap_or(vs.inhibit_on_failure),
                // Alpha: down until a check says otherwise; without checks there is nothing to wait for.
                up: rs.checkers.is_empty()
                    || !(rs.alpha.unwrap_or(vs.alpha)
                        || rs.checkers.iter().any(|c| c.alpha == Some(true))),
                by_command: false,
                weight_by_command: false,
            })
            .collect();
        let mut pool = Pool {
            config: vs.clone(),
            name: name_of(vs),
            file_vips: vips_of(vs, config),
            vips: vips_of(vs, config),
            members,
            terms: Terms::of(vs),
            by_command: false,
            deleted: Vec::new(),
            quorum: false,
            last: None,
        };
        pool.quorum = pool.weight_up() >= u64::from(vs.quorum);
        pool
    }

    pub fn member(&mut self, ip: IpAddr, port: u16) -> Option<&mut Member> {
        self.members
            .iter_mut()
            .find(|m| (m.ip, m.port) == (ip, port))
    }

    /// A checker says what a server weighs; a weight set by a command stands above that.
    pub fn set_weight(&mut self, ip: IpAddr, port: u16, weight: Weight) {
        let configured = self
            .config
            .real_servers
            .iter()
            .find(|r| (r.address, r.port) == (ip, port))
            .and_then(|r| r.weight)
            .unwrap_or(self.config.weight);
        let weight = match weight {
            Weight::Is(w) => w,
            Weight::Adds(n) => (i64::from(configured) + n).clamp(0, WEIGHT_MAX) as u32,
        };
        if let Some(m) = self.member(ip, port).filter(|m| !m.weight_by_command) {
            m.weight = weight;
        }
    }

    fn weight_up(&self) -> u64 {
        self.members
            .iter()
            .filter(|m| m.up)
            .map(|m| u64::from(m.weight))
            .sum()
    }

    pub fn has_quorum(&self) -> bool {
        self.quorum
    }

    /// A server's checks (all of them together) say it is up or down.
    pub fn set_up(&mut self, ip: IpAddr, port: u16, up: bool) -> Vec<Event> {
        let mut events = Vec::new();
        match self.member(ip, port) {
            Some(m) if m.up != up => m.up = up,
            _ => return events,
        }
        events.push(if up {
            Event::ServerUp(ip, port)
        } else {
            Event::ServerDown(ip, port)
        });
        events.extend(self.judge_quorum());
        if !up && self.config.sorry_server.is_none() && !self.members.iter().any(|m| m.up) {
            events.push(Event::LastTableKept);
        }
        events
    }

    /// Gained at quorum + hysteresis, lost below quorum - hysteresis.
    pub fn judge_quorum(&mut self) -> Option<Event> {
        let weight = self.weight_up();
        let (quorum, hysteresis) = (
            u64::from(self.config.quorum),
            u64::from(self.config.hysteresis),
        );
        if !self.quorum && weight >= quorum + hysteresis {
            self.quorum = true;
            return Some(Event::QuorumGained);
        }
        if self.quorum && weight < quorum.saturating_sub(hysteresis).max(1) {
            self.quorum = false;
            return Some(Event::QuorumLost);
        }
        None
    }

    /// What the datapath shall hold now.
    pub fn service(&mut self) -> Service {
        let mut servers: Vec<Server> = self
            .members
            .iter()
            .filter(|m| m.up || m.inhibit)
            .map(|m| Server {
                ip: m.ip,
                port: m.port,
                forwarding: m.forwarding,
                weight: if m.up { m.weight } else { 0 },
                conns_max: m.conns_max,
                conns_min: m.conns_min,
            })
            .collect();
        let any_up = self.members.iter().any(|m| m.up);
        match self.config.sorry_server {
            Some((ip, port)) if !self.quorum => {
                let port = if port == 0 {
                    self.vips.first().map_or(0, |v| v.port)
                } else {
                    port
                };
                let forwarding = self
                    .config
                    .sorry_forwarding
                    .or(self.config.forwarding)
                    .unwrap_or(Forwarding::Nat);
                servers = vec![Server {
                    ip,
                    port,
                    forwarding,
                    weight: 1,
                    conns_max: 0,
                    conns_min: 0,
                }];
            }
            Some((ip, port)) if self.config.sorry_inhibit => {
                let forwarding = self
                    .config
                    .sorry_forwarding
                    .or(self.config.forwarding)
                    .unwrap_or(Forwarding::Nat);
                servers.push(Server {
                    ip,
                    port,
                    forwarding,
                    weight: 0,
                    conns_max: 0,
                    conns_min: 0,
                });
            }
            None if !any_up && !self.members.is_empty() => {
                // All servers failing at once is more often the checker's network than the servers: serve on as before.
                if let Some(last) = &self.last {
                    return last.clone();
                }
            }
            _ => {}
        }
        let service = Service {
            name: self.name.clone(),
            vips: self.vips.clone(),
            scheduler: self.terms.scheduler,
            hash_port: self.terms.hash_port,
            hash_fallback: self.terms.hash_fallback,
            one_packet: self.terms.one_packet && self.config.protocol == Some(Protocol::Udp),
            persistence: self.terms.persistence_timeout_s.map(|t| {
                let all = if self.vips.first().is_some_and(|v| v.ip.is_ipv6()) {
                    128
                } else {
                    32
                };
                (t, self.terms.persistence_prefix.unwrap_or(all))
            }),
            servers,
        };
        self.last = Some(service.clone());
        service
    }
}

#[cfg(test)]
mod tests;
