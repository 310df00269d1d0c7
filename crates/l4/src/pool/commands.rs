//! What commands change of a virtual server, and what of it outlives a reload: as with IPVS and keepalived, a reload applies the
//! difference between the file as it was and as it is. What the file says as before stays as commands left it; what it says
//! anew is as the file says.

use super::{Member, Pool, name_of};
use crate::config::model::{Config, Forwarding, GroupEntry, Scheduler, VirtualKey, VirtualServer};
use crate::datapath::director::Vip;
use std::net::IpAddr;

/// How a virtual server treats its connections: the file's word, or that of `ipvsadm -A` or `-E`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Terms {
    pub scheduler: Scheduler,
    pub persistence_timeout_s: Option<u32>,
    /// Prefix length that clients are grouped by.
    pub persistence_prefix: Option<u8>,
    pub hash_port: bool,
    pub hash_fallback: bool,
    pub one_packet: bool,
}

impl Terms {
    pub fn of(vs: &VirtualServer) -> Terms {
        Terms {
            scheduler: vs.scheduler.unwrap_or(Scheduler::WeightedLeastConnection),
            persistence_timeout_s: vs.persistence_timeout_s,
            persistence_prefix: vs.persistence_prefix,
            hash_port: vs.hash_port,
            hash_fallback: vs.hash_fallback,
            one_packet: vs.one_packet,
        }
    }

    /// Scheduler flags as ipvsadm writes them: `sh-fallback`, `sh-port`.
    pub fn flags(&self) -> Vec<String> {
        let name = self.scheduler.name();
        [(self.hash_fallback, "fallback"), (self.hash_port, "port")]
            .iter()
            .filter(|(set, _)| *set)
            .map(|(_, flag)| format!("{name}-{flag}"))
            .collect()
    }
}

/// What a file says of a server that commands may say otherwise.
fn said(vs: &VirtualServer, ip: IpAddr, port: u16) -> Option<(u32, Forwarding, [u32; 2])> {
    let rs = vs
        .real_servers
        .iter()
        .find(|r| (r.address, r.port) == (ip, port))?;
    let forwarding = rs.forwarding.or(vs.forwarding).unwrap_or(Forwarding::Nat);
    let limits = [rs.conns_max, rs.conns_min];
    Some((rs.weight.unwrap_or(vs.weight), forwarding, limits))
}

impl Pool {
    /// A virtual server that a command adds: no file knows it, nobody checks its servers.
    pub fn by_command(vip: Vip, terms: Terms) -> Pool {
        let mut vs = VirtualServer::new(VirtualKey::Address(vip.ip, vip.port));
        vs.protocol = Some(vip.protocol);
        Pool::of_command(&vs, &Config::default(), terms)
    }

    /// The same for what a firewall mark stands for.
    pub fn by_command_for_mark(mark: u32, config: &Config, terms: Terms) -> Pool {
        Pool::of_command(&VirtualServer::new(VirtualKey::Fwmark(mark)), config, terms)
    }

    fn of_command(vs: &VirtualServer, config: &Config, terms: Terms) -> Pool {
        let mut pool = Pool::new(vs, config);
        pool.terms = terms;
        pool.by_command = true;
        pool
    }

    /// The addresses that it is known by: what a mark stands for may be another's too.
    pub fn addresses(&self) -> &[Vip] {
        match self.mark() {
            Some(_) => &[],
            None => &self.vips,
        }
    }

    pub fn mark(&self) -> Option<u32> {
        match self.config.key {
            VirtualKey::Fwmark(mark) => Some(mark),
            _ => None,
        }
    }

    /// Takes a server out for good: a reload of a file that says of it what it said brings it not back.
    pub fn delete(&mut self, ip: IpAddr, port: u16) -> bool {
        let before = self.members.len();
        self.members.retain(|m| (m.ip, m.port) != (ip, port));
        let deleted = self.members.len() != before;
        if deleted && !self.deleted.contains(&(ip, port)) {
            self.deleted.push((ip, port));
        }
        deleted
    }

    /// Takes over what another generation of the same virtual server knew: standings, and what commands changed.
    pub fn inherit(&mut self, old: &Pool) {
        if Terms::of(&self.config) == Terms::of(&old.config) {
            self.terms.clone_from(&old.terms);
        }
        if self.file_vips == old.file_vips {
            self.vips.clone_from(&old.vips);
        }
        let config = &self.config;
        let unchanged = |m: &Member| {
            let was = said(&old.config, m.ip, m.port);
            was.is_some() && was == said(config, m.ip, m.port)
        };
        self.deleted = old.deleted.clone();
        self.deleted.retain(|(ip, port)| {
            let was = said(&old.config, *ip, *port);
            was.is_some() && was == said(config, *ip, *port)
        });
        self.members
            .retain(|m| !self.deleted.contains(&(m.ip, m.port)));
        for member in &mut self.members {
            let key = (member.ip, member.port);
            if let Some(o) = old.members.iter().find(|o| (o.ip, o.port) == key) {
                member.up = o.up;
                if o.weight_by_command && unchanged(member) {
                    member.weight = o.weight;
                    member.forwarding = o.forwarding;
                    member.conns_max = o.conns_max;
                    member.conns_min = o.conns_min;
                    member.weight_by_command = true;
                }
            }
        }
        for added in old.members.iter().filter(|o| o.by_command) {
            let key = (added.ip, added.port);
            if !self.members.iter().any(|m| (m.ip, m.port) == key) {
                self.members.push(added.clone());
            }
        }
        self.quorum = old.quorum;
        self.last.clone_from(&old.last);
    }
}

/// Both files say the same of this virtual server.
pub fn unchanged(vs: &VirtualServer, before: &Config, now: &Config) -> bool {
    let name = name_of(vs);
    let was = before.virtual_servers.iter().find(|o| name_of(o) == name);
    // What the host's rules mark is not the file's.
    let group = |config: &Config| -> Vec<GroupEntry> {
        let VirtualKey::Group(name) = &vs.key else {
            return Vec::new();
        };
        let named = config.groups.iter().filter(|g| g.name == *name);
        named.flat_map(|g| g.entries.clone()).collect()
    };
    was == Some(vs) && group(before) == group(now)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{NoHost, parse};

    fn ip(n: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, n])
    }

    fn pool(scheduler: &str, weights: [u32; 2]) -> Pool {
        let servers: String = weights
            .iter()
            .zip(11..)
            .map(|(w, n)| format!(" real_server 10.0.0.{n} 80 {{\n weight {w}\n }}\n"))
            .collect();
        let text = format!(
            "virtual_server 10.0.0.1 80 {{\n lb_algo {scheduler}\n lb_kind DR\n protocol TCP\n{servers}}}\n"
        );
        let (config, d) = parse(&NoHost, "t", &text, "");
        assert!(d.is_empty(), "{d:?}");
        Pool::new(&config.virtual_servers[0], &config)
    }

    /// Scheduler, servers and weights, as `rr 11:2 12:3`.
    fn check(pool: &mut Pool, expect: &str) {
        let service = pool.service();
        let mut got = service.scheduler.name().to_string();
        for s in &service.servers {
            let address = s.ip.to_string();
            let last = address.rsplit('.').next().unwrap();
            got += &format!(" {last}:{}", s.weight);
        }
        assert_eq!(got, expect);
    }

    /// What commands made of a pool, after a reload of this file.
    fn reloaded(mut new: Pool, expect: &str) {
        let mut old = pool("rr", [2, 3]);
        old.terms.scheduler = Scheduler::Maglev;
        assert!(old.delete(ip(11), 80));
        let m = old.member(ip(12), 80).unwrap();
        (m.weight, m.weight_by_command) = (7, true);
        check(&mut old, "mh 12:7");
        new.inherit(&old);
        check(&mut new, expect);
    }

    #[test]
    fn a_reload_applies_what_the_file_says_anew() {
        reloaded(pool("rr", [2, 3]), "mh 12:7");
        reloaded(pool("wrr", [2, 3]), "wrr 12:7");
        reloaded(pool("rr", [4, 3]), "mh 11:4 12:7");
        reloaded(pool("rr", [2, 5]), "mh 12:5");
    }

    #[test]
    fn what_is_not_there_cannot_be_deleted() {
        let mut p = pool("rr", [2, 3]);
        assert!(p.delete(ip(11), 80));
        assert!(!p.delete(ip(11), 80));
        check(&mut p, "rr 12:3");
    }
}
