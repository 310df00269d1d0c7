//! One virtual router at work: its machine, its socket, the interface it lives on, and what its trackers say.

use super::router_socket::{Endpoint, Heard, RouterSocket, is_v6};
use crate::config::model::{Config, SyncGroup, Track, VirtualAddress, VrrpInstance};
use crate::netlink::Link;
use crate::shell::routers::vmac::{self, Macvlan};
use crate::vrrp::machine::{Machine, Settings, State};
use crate::vrrp::packet::Advert;
use crate::vrrp::track::{Reading, Standing, Verdict, verdict};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::IpAddr;

/// What is counted of a router; the names are RFC 2787's where it has one.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Counts {
    pub adverts_sent: u64,
    pub adverts_received: u64,
    pub become_master: u64,
    pub release_master: u64,
    pub priority_zero_sent: u64,
    pub priority_zero_received: u64,
    pub send_errors: u64,
    pub ttl_errors: u64,
    pub unknown_peer: u64,
    /// The latest that a timer, an advert's or the master's, was served after it was due.
    pub timer_late_us_max: u64,
    /// By reason.
    pub malformed: BTreeMap<String, u64>,
    pub ignored: BTreeMap<String, u64>,
}

/// The latest word of every tracker, by kind and name.
#[derive(Debug, Default)]
pub struct Readings {
    pub scripts: HashMap<String, bool>,
    pub files: HashMap<String, i64>,
    pub processes: HashMap<String, bool>,
    pub bfds: HashMap<String, bool>,
}

pub struct Router {
    pub config: VrrpInstance,
    pub machine: Machine,
    pub socket: Option<RouterSocket>,
    pub counts: Counts,
    pub last_master: Option<IpAddr>,
    pub macvlans: Vec<Macvlan>,
    /// Its own trackers and interface allow it to run.
    pub able: bool,
    /// Its addresses are on this host.
    pub placed: bool,
    check_unicast_src: bool,
}

impl Router {
    /// `names` are those of other routers' macvlans, and get this one's.
    pub fn new(config: &VrrpInstance, all: &Config, names: &mut HashSet<String>) -> Router {
        let g = &all.globals;
        let settings = Settings {
            vrid: config.vrid.unwrap_or(0),
            version: config.version.unwrap_or(g.vrrp_version),
            priority: config.priority.unwrap_or(100),
            interval_us: config.advert_interval_us,
            start_as_master: config.state_master,
            preempt: config.preempt,
            preempt_delay_us: config.preempt_delay_us,
            down_timer_adverts: config.down_timer_adverts.unwrap_or(g.down_timer_adverts),
            garp: config.garp.unwrap_or(g.garp),
            lower_prio_no_advert: config
                .lower_prio_no_advert
                .unwrap_or(g.lower_prio_no_advert),
            higher_prio_send_advert: config
                .higher_prio_send_advert
                .unwrap_or(g.higher_prio_send_advert),
            check_addresses: !config.skip_check_adv_addr.unwrap_or(g.skip_check_adv_addr),
            addresses: config.addresses.iter().map(|a| a.ip).collect(),
            pass: config.authentication.as_ref().and_then(|a| a.pass),
        };
        Router {
            machine: Machine::new(settings),
            config: config.clone(),
            check_unicast_src: config.check_unicast_src.unwrap_or(g.check_unicast_src),
            socket: None,
            counts: Counts::default(),
            last_master: None,
            macvlans: vmac::macvlans(config, g, names),
            able: false,
            placed: false,
        }
    }

    /// All addresses, advertised first.
    pub fn addresses(&self) -> impl Iterator<Item = &VirtualAddress> {
        self.config.addresses.iter().chain(&self.config.excluded)
    }

    /// The interface an address goes on.
    pub fn device_of<'a>(&'a self, a: &'a VirtualAddress, default: &'a str) -> &'a str {
        vmac::device_of(&self.config, &self.macvlans, a, default)
    }

    /// The macvlan that its adverts go through.
    fn own_macvlan(&self) -> Option<&str> {
        let own = self.macvlans.iter().find(|m| m.own);
        own.map(|m| m.name.as_str())
    }

    /// Where to speak, if the interface has an address to speak from.
    pub fn endpoint(
        &self,
        links: &[Link],
        addresses: &[(u32, IpAddr, u8)],
        all: &Config,
    ) -> Option<Endpoint> {
        let v6 = is_v6(&self.config);
        let base = match &self.config.interface {
            Some(name) => Some(links.iter().find(|l| l.name == *name)?),
            None => None,
        };
        let ours = |ip: &IpAddr| self.addresses().any(|a| a.ip == *ip);
        let source = match (self.config.source_ip, base) {
            (Some(ip), _) => ip,
            (None, Some(link)) => addresses
                .iter()
                .filter(|(i, ip, _)| *i == link.index && ip.is_ipv6() == v6 && !ours(ip))
                .map(|(_, ip, _)| *ip)
                .find(|ip| match ip {
                    IpAddr::V4(_) => true,
                    IpAddr::V6(ip) => ip.is_unicast_link_local(),
                })?,
            (None, None) => {
                let known = |ip: &IpAddr| addresses.iter().any(|(_, a, _)| a == ip);
                addresses
                    .iter()
                    .map(|(_, ip, _)| *ip)
                    .find(|ip| ip.is_ipv6() == v6 && !ip.is_loopback() && known(ip))?
            }
        };
        let multicast = self.config.unicast_peers.is_empty();
        let destinations = if multicast {
            let group = if v6 {
                IpAddr::V6(all.globals.mcast_group6)
            } else {
                IpAddr::V4(all.globals.mcast_group4)
            };
            vec![self.config.mcast_destination.unwrap_or(group)]
        } else {
            self.config
                .unicast_peers
                .iter()
                .map(|p| p.address)
                .collect()
        };
        // Adverts go through the macvlan, so that switches learn the virtual MAC, unless told otherwise.
        let device = match self.own_macvlan() {
            Some(name) if !self.config.vmac_xmit_base => links.iter().find(|l| l.name == name),
            _ => base,
        };
        Some(Endpoint {
            device: device.map(|l| (l.name.clone(), l.index)),
            source,
            destinations,
            multicast,
            unicast_ttl: self.config.unicast_ttl.unwrap_or(255),
        })
    }

    /// What the interface and all trackers say.
    pub fn verdict(
        &self,
        links: &[Link],
        readings: &Readings,
        group: Option<&SyncGroup>,
        all: &Config,
    ) -> Verdict {
        let up = |name: &str| links.iter().any(|l| l.name == name && l.up);
        let mut standings = Vec::new();
        if let Some(name) = self
            .config
            .interface
            .as_deref()
            .filter(|_| self.config.track_primary)
        {
            standings.push(Standing {
                weight: 0,
                reverse: false,
                reading: reading(up(name)),
            });
        }
        for tracks in [Some(&self.config.tracks), group.map(|g| &g.tracks)]
            .into_iter()
            .flatten()
        {
            standings.extend(
                tracks
                    .interfaces
                    .iter()
                    .map(|t| standing(t, 0, false, reading(up(&t.name)))),
            );
            for t in &tracks.scripts {
                let Some(s) = all.scripts.iter().find(|s| s.name == t.name) else {
                    continue;
                };
                let ok = readings
                    .scripts
                    .get(&t.name)
                    .copied()
                    .unwrap_or(!s.init_fail);
                standings.push(standing(t, s.weight, s.reverse, reading(ok)));
            }
            for t in &tracks.files {
                let Some(f) = all.track_files.iter().find(|f| f.name == t.name) else {
                    continue;
                };
                let value = readings.files.get(&t.name).copied().unwrap_or(0);
                standings.push(standing(t, f.weight, f.reverse, Reading::Value(value)));
            }
            for t in &tracks.processes {
                let Some(p) = all.track_processes.iter().find(|p| p.name == t.name) else {
                    continue;
                };
                let ok = readings.processes.get(&t.name).copied().unwrap_or(true);
                standings.push(standing(t, p.weight, p.reverse, reading(ok)));
            }
            for t in &tracks.bfds {
                let Some(b) = all.bfds.iter().find(|b| b.name == t.name) else {
                    continue;
                };
                // As in keepalived it is down until it is heard to be up.
                let up = readings.bfds.get(&t.name).copied().unwrap_or(false);
                standings.push(standing(t, b.weight, b.reverse, reading(up)));
            }
        }
        verdict(self.machine.settings.priority, &standings)
    }

    /// Why an advert is none of ours or not to be believed, before the machine sees it.
    pub fn admissible(&mut self, heard: &Heard<'_>) -> bool {
        let Some(socket) = &self.socket else {
            return false;
        };
        let multicast = socket.endpoint.multicast;
        if multicast != heard.destination.is_multicast() {
            return false;
        }
        if multicast {
            if heard.ttl.is_some_and(|t| t != 255) {
                self.counts.ttl_errors += 1;
                return false;
            }
            return true;
        }
        let peer = self
            .config
            .unicast_peers
            .iter()
            .find(|p| p.address == heard.source);
        let checks = self
            .config
            .unicast_peers
            .iter()
            .any(|p| p.ttl_min.is_some() || p.ttl_max.is_some());
        if peer.is_none() && (self.check_unicast_src || checks) {
            self.counts.unknown_peer += 1;
            return false;
        }
        if let (Some(p), Some(ttl)) = (peer, heard.ttl)
            && (p.ttl_min.is_some_and(|m| ttl < m) || p.ttl_max.is_some_and(|m| ttl > m))
        {
            self.counts.ttl_errors += 1;
            return false;
        }
        true
    }

    pub fn count_received(&mut self, advert: &Advert, source: IpAddr) {
        self.counts.adverts_received += 1;
        if advert.priority == 0 {
            self.counts.priority_zero_received += 1;
        }
        if self.machine.state() != State::Master {
            self.last_master = Some(source);
        }
    }
}

fn reading(up: bool) -> Reading {
    if up { Reading::Up } else { Reading::Down }
}

fn standing(t: &Track, weight: i32, reverse: bool, reading: Reading) -> Standing {
    Standing {
        weight: t.weight.unwrap_or(weight),
        reverse: t.reverse != reverse,
        reading,
    }
}
