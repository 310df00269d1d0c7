//! Virtual servers and servers added, changed and taken out by commands while the director runs. Refusals have ipvsadm's words.

use super::{Work, open_director};
use crate::config::model::{Config, Forwarding, Protocol, Scheduler};
use crate::datapath::director::Vip;
use crate::pool::commands::unchanged;
use crate::pool::{Member, Pool, Terms, name_of, vips_of};
use crate::shell::checks::Subject;
use crate::shell::control::{Answer, Request, ServiceTerms};
use crate::shell::marks;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

const NO_SERVICE: &str = "No such service";
const SERVICE_UNDEFINED: &str = "Service not defined";
const SERVICE_EXISTS: &str = "Service already exists";
const NO_SCHEDULER: &str = "Scheduler or persistence engine not found";
const NO_SERVER: &str = "No such destination";
const SERVER_EXISTS: &str = "Destination already exists";
const INVALID: &str = "Invalid operation.  Possibly wrong module version, address not unicast, ...";

/// `tcp 10.0.0.1:80`, of any case.
fn vip_of(name: &str) -> Option<Vip> {
    let (protocol, address) = name.split_once(' ')?;
    let protocol = [Protocol::Tcp, Protocol::Udp, Protocol::Sctp]
        .into_iter()
        .find(|p| p.name().eq_ignore_ascii_case(protocol))?;
    let address: SocketAddr = address.parse().ok()?;
    Some(Vip {
        ip: address.ip(),
        port: address.port(),
        protocol,
    })
}

/// `fwm 7`
fn mark_of(name: &str) -> Option<u32> {
    let (kind, mark) = name.split_once(' ')?;
    kind.eq_ignore_ascii_case("fwm")
        .then(|| mark.parse().ok())
        .flatten()
}

fn forwarding_of(name: &str) -> Result<Forwarding, String> {
    match name {
        "NAT" => Ok(Forwarding::Nat),
        "DR" => Ok(Forwarding::DirectRouting),
        "TUN" => Ok(Forwarding::Tunnel),
        other => Err(format!("forwarding '{other}' is none of NAT, DR, TUN")),
    }
}

fn terms_of(asked: &ServiceTerms) -> Result<Terms, String> {
    Ok(Terms {
        scheduler: Scheduler::from_name(&asked.scheduler).ok_or(NO_SCHEDULER)?,
        persistence_timeout_s: asked.persistence_s,
        persistence_prefix: asked.persistence_prefix,
        hash_port: asked.hash_port,
        hash_fallback: asked.hash_fallback,
        one_packet: asked.one_packet,
    })
}

/// A mark stands for what the host's rules name now.
fn marked_anew(mut pool: Pool, config: &Config) -> Pool {
    if pool.mark().is_some() {
        pool.vips = vips_of(&pool.config, config);
    }
    pool
}

/// A server can be one host's address only.
fn host(ip: std::net::IpAddr) -> Result<(), String> {
    match ip.is_multicast() || ip.is_unspecified() {
        true => Err(INVALID.into()),
        false => Ok(()),
    }
}

/// As the kernel's IPVS answers.
fn limits(conns_max: u32, conns_min: u32) -> Result<(), String> {
    match conns_min > conns_max {
        true => Err("Numerical result out of range".into()),
        false => Ok(()),
    }
}

impl Work {
    /// Carries out what changes virtual servers or servers.
    pub(super) fn obey(&mut self, request: Request) -> Answer {
        match request {
            Request::Weight {
                virtual_server,
                ip,
                port,
                weight,
            } => self.change(&virtual_server, SERVICE_UNDEFINED, |pool| {
                let m = pool.member(ip, port).ok_or(NO_SERVER)?;
                m.weight = weight;
                m.weight_by_command = true;
                Ok(())
            }),
            Request::EditServer {
                virtual_server,
                ip,
                port,
                weight,
                forwarding,
                conns_max,
                conns_min,
            } => self.change(&virtual_server, SERVICE_UNDEFINED, |pool| {
                let m = pool.member(ip, port).ok_or(NO_SERVER)?;
                limits(conns_max, conns_min)?;
                if let Some(name) = forwarding {
                    m.forwarding = forwarding_of(&name)?;
                }
                (m.weight, m.weight_by_command) = (weight, true);
                (m.conns_max, m.conns_min) = (conns_max, conns_min);
                Ok(())
            }),
            Request::Add {
                virtual_server,
                ip,
                port,
                weight,
                forwarding,
                conns_max,
                conns_min,
            } => {
                self.change(&virtual_server, SERVICE_UNDEFINED, |pool| {
                    host(ip)?;
                    limits(conns_max, conns_min)?;
                    if pool.member(ip, port).is_some() {
                        return Err(SERVER_EXISTS.into());
                    }
                    let forwarding = match forwarding {
                        None => pool.config.forwarding.unwrap_or(Forwarding::Nat),
                        Some(name) => forwarding_of(&name)?,
                    };
                    pool.members.push(Member {
                        ip,
                        port,
                        forwarding,
                        weight,
                        conns_max,
                        conns_min,
                        inhibit: false,
                        up: true,
                        by_command: true,
                        weight_by_command: true,
                    });
                    Ok(())
                })?;
                self.heed_checks();
                self.told()
            }
            Request::Delete {
                virtual_server,
                ip,
                port,
            } => self.change(&virtual_server, SERVICE_UNDEFINED, |pool| {
                match pool.delete(ip, port) {
                    true => Ok(()),
                    false => Err(NO_SERVER.into()),
                }
            }),
            Request::AddService {
                virtual_server,
                terms,
            } => self.add_service(&virtual_server, &terms),
            Request::EditService {
                virtual_server,
                terms,
            } => {
                let terms = terms_of(&terms);
                self.change(&virtual_server, NO_SERVICE, |pool| {
                    pool.terms = terms?;
                    Ok(())
                })
            }
            Request::DeleteService { virtual_server } => self.delete_service(&virtual_server),
            Request::Clear => {
                let all = std::mem::take(&mut self.pools);
                self.deleted
                    .extend(all.into_values().filter(|p| !p.by_command).map(|p| p.name));
                self.told()
            }
            Request::Zero { virtual_server } => {
                let name = match virtual_server {
                    None => None,
                    Some(name) => Some(self.key(&name).ok_or(NO_SERVICE)?),
                };
                if let Some(director) = &mut self.director {
                    director
                        .zero(name.as_deref())
                        .map_err(|e| format!("{e:#}"))?;
                }
                Ok(json!("done"))
            }
            Request::Timeouts {
                tcp_s,
                tcp_fin_s,
                udp_s,
            } => {
                for (to, s) in self.timeouts_s.iter_mut().zip([tcp_s, tcp_fin_s, udp_s]) {
                    *to = Some(s).filter(|s| *s > 0).or(*to);
                }
                let settings = self.settings();
                if let Some(director) = &mut self.director {
                    director
                        .set_settings(settings)
                        .map_err(|e| format!("{e:#}"))?;
                }
                Ok(json!("done"))
            }
            Request::Show
            | Request::Flows { .. }
            | Request::PersistentConnections
            | Request::Reload => Ok(json!("done")),
        }
    }

    /// The pool that a command names: by its name, or by any of its addresses.
    fn key(&self, name: &str) -> Option<String> {
        let wanted = name.to_ascii_lowercase();
        let matches = |p: &Pool| {
            let name = p.name.to_ascii_lowercase();
            name == wanted
                || name.split_once(' ').is_some_and(|(_, key)| key == wanted)
                || p.addresses().iter().any(|v| {
                    let plain = SocketAddr::new(v.ip, v.port).to_string();
                    plain == wanted
                        || format!("{} {plain}", v.protocol.name().to_ascii_lowercase()) == wanted
                })
        };
        let found = self.pools.values().find(|p| matches(p))?;
        Some(found.name.clone())
    }

    fn change(
        &mut self,
        name: &str,
        missing: &str,
        change: impl FnOnce(&mut Pool) -> Result<(), String>,
    ) -> Answer {
        let key = self.key(name).ok_or(missing)?;
        let pool = self.pools.get_mut(&key).ok_or(missing)?;
        change(pool)?;
        if let Some(e) = pool.judge_quorum() {
            self.event(&key, &e);
        }
        self.told()
    }

    /// A server that comes back is down if its checks, which went on, say so.
    pub(super) fn heed_checks(&mut self) {
        for (name, pool) in &mut self.pools {
            for m in &mut pool.members {
                let subject = Subject {
                    virtual_server: name.clone(),
                    ip: m.ip,
                    port: m.port,
                };
                m.up &= self.checks.standing(&subject).unwrap_or(true);
            }
            pool.judge_quorum();
        }
    }

    /// The datapath learns of it at once.
    fn told(&mut self) -> Answer {
        self.apply().map_err(|e| format!("{e:#}"))?;
        self.resolve_new();
        Ok(json!("done"))
    }

    fn add_service(&mut self, name: &str, terms: &ServiceTerms) -> Answer {
        if let Some(mark) = mark_of(name) {
            if self.key(name).is_some() {
                return Err(SERVICE_EXISTS.into());
            }
            let terms = terms_of(terms)?;
            if self.config.marks_used().is_empty() {
                self.take_marks(marks::of_this_host())
                    .map_err(|e| format!("{e:#}"))?;
            }
            let pool = Pool::by_command_for_mark(mark, &self.config, terms);
            return self.add_pool(pool);
        }
        let vip = vip_of(name).ok_or(INVALID)?;
        if self.pools.values().any(|p| p.addresses().contains(&vip)) {
            return Err(SERVICE_EXISTS.into());
        }
        self.add_pool(Pool::by_command(vip, terms_of(terms)?))
    }

    fn add_pool(&mut self, pool: Pool) -> Answer {
        if self.director.is_none() {
            let opened = open_director(&self.options, self.settings());
            self.director = Some(opened.map_err(|e| format!("{e:#}"))?);
            self.attach().map_err(|e| format!("{e:#}"))?;
        }
        self.pools.insert(pool.name.clone(), pool);
        self.tell_of_marks();
        self.told()
    }

    fn delete_service(&mut self, name: &str) -> Answer {
        let key = self.key(name).ok_or(NO_SERVICE)?;
        let pool = self.pools.get_mut(&key).ok_or(NO_SERVICE)?;
        // One address of a group, or the whole.
        pool.vips.retain(|v| vip_of(name) != Some(*v));
        if pool.vips.is_empty() || pool.mark().is_some() {
            let by_command = pool.by_command;
            self.pools.remove(&key);
            if !by_command {
                self.deleted.insert(key);
            }
        }
        self.told()
    }

    /// Pools of a configuration that is loaded, with what is known of them and what commands made of them.
    pub(super) fn take_pools(&mut self, config: &Config) {
        let mut pools = BTreeMap::new();
        let mut deleted = BTreeSet::new();
        for vs in &config.virtual_servers {
            let name = name_of(vs);
            let old = self.pools.remove(&name);
            let same = || unchanged(vs, &self.config, config);
            let kept = match old {
                Some(old) if old.by_command && same() => Some(marked_anew(old, config)),
                None if self.deleted.contains(&name) && same() => {
                    deleted.insert(name);
                    continue;
                }
                Some(old) => {
                    let mut pool = Pool::new(vs, config);
                    pool.inherit(&old);
                    pool.judge_quorum();
                    Some(pool)
                }
                None => None,
            };
            if kept.as_ref().is_some_and(|p| p.by_command) && self.deleted.contains(&name) {
                deleted.insert(name.clone());
            }
            pools.insert(name, kept.unwrap_or_else(|| Pool::new(vs, config)));
        }
        // What the file says of an address stands above an earlier command.
        let taken: BTreeSet<String> = pools
            .values()
            .flat_map(|p| p.addresses().iter().map(|v| format!("{v:?}")))
            .collect();
        let left = std::mem::take(&mut self.pools);
        for (name, pool) in left.into_iter().filter(|(_, p)| p.by_command) {
            let pool = marked_anew(pool, config);
            match pool
                .addresses()
                .iter()
                .any(|v| taken.contains(&format!("{v:?}")))
            {
                true => println!("{name}: now the file's"),
                false => drop(pools.insert(name, pool)),
            }
        }
        self.pools = pools;
        self.deleted = deleted;
    }
}
