//! Next hops of real servers: asked of the kernel's routes and neighbour table, kept warm, handed to the datapath.

use crate::datapath::director::{Director, Egress};
use crate::netlink::{Hop, Link, Netlink};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::io;
use std::net::IpAddr;

/// How often neighbours are looked at; the kernel's own entries turn stale after about half a minute.
pub const REFRESH_S: u64 = 5;

/// Most next hops asked for in one round: the kernel's table holds 1024 by default, and questions are broadcasts.
const PROBES_MAX: usize = 512;
/// Rounds that a route is believed before it is looked up again.
const ROUTE_ROUNDS: u64 = 6;

pub struct Neighbours {
    netlink: Netlink,
    routes: HashMap<IpAddr, (Hop, u64)>,
    /// Addresses that could not be resolved, so that it is said once.
    missing: HashSet<IpAddr>,
    rounds: u64,
}

/// What a round found.
#[derive(Debug, Default)]
pub struct Found {
    pub lost: Vec<IpAddr>,
    pub resolved: Vec<IpAddr>,
    pub unresolved: usize,
}

impl Neighbours {
    pub fn open() -> io::Result<Self> {
        Ok(Neighbours {
            netlink: Netlink::open()?,
            routes: HashMap::new(),
            missing: HashSet::new(),
            rounds: 0,
        })
    }

    /// Resolves every server of the director. Unknown ones are asked for and found in a later round.
    pub fn refresh(&mut self, director: &mut Director) -> anyhow::Result<Found> {
        self.rounds += 1;
        let servers = director.server_addresses();
        self.resolve(director, servers)
    }

    /// Resolves the servers that came since the last round: a reload of thousands waits for no more.
    pub fn resolve_new(&mut self, director: &mut Director) -> anyhow::Result<Found> {
        let mut servers = director.server_addresses();
        servers.retain(|ip| director.egress(*ip).is_none());
        self.resolve(director, servers)
    }

    fn resolve(&mut self, director: &mut Director, servers: Vec<IpAddr>) -> anyhow::Result<Found> {
        let links: HashMap<u32, Link> = self
            .netlink
            .links()?
            .into_iter()
            .map(|l| (l.index, l))
            .collect();
        let table: HashMap<(u32, IpAddr), [u8; 6]> = self
            .netlink
            .neighbours()?
            .into_iter()
            .map(|n| ((n.ifindex, n.ip), n.mac))
            .collect();
        // Each fourth round makes sure of those that are known, too.
        let warm = self.rounds % 4 == 1;
        let mut ask: BTreeSet<(u32, IpAddr)> = BTreeSet::new();
        let mut egresses = HashMap::new();
        let mut found = Found::default();
        for ip in servers {
            let egress = self.route(ip).and_then(|hop| {
                if hop.local {
                    return Some(Egress {
                        ifindex: hop.ifindex,
                        next_hop: [0; 6],
                        own_mac: [0; 6],
                        source: ip,
                        mtu: 0,
                        local: true,
                    });
                }
                let link = links.get(&hop.ifindex)?;
                let next = hop.gateway.unwrap_or(ip);
                let mac = table.get(&(hop.ifindex, next));
                if mac.is_none() || warm {
                    ask.insert((hop.ifindex, next));
                }
                Some(Egress {
                    ifindex: hop.ifindex,
                    next_hop: *mac?,
                    own_mac: link.mac,
                    source: hop.source?,
                    mtu: link.mtu,
                    local: false,
                })
            });
            match egress {
                Some(egress) => {
                    if self.missing.remove(&ip) {
                        found.resolved.push(ip);
                    }
                    egresses.insert(ip, egress);
                }
                None => {
                    found.unresolved += 1;
                    // A next hop that was known is used on until the kernel knows better: entries pass through states
                    // in which they are not usable for a moment.
                    if director.egress(ip).is_none() && self.missing.insert(ip) {
                        found.lost.push(ip);
                    }
                }
            }
        }
        director.set_egresses(egresses)?;
        // Another part of them each round, where there are too many.
        let skip = if ask.len() > PROBES_MAX {
            (self.rounds as usize * PROBES_MAX) % ask.len()
        } else {
            0
        };
        for (ifindex, next) in ask.iter().skip(skip).take(PROBES_MAX) {
            // Asking twice does no harm, and a link that is down answers when it is up.
            let _ = self.netlink.probe_neighbour(*ifindex, *next);
        }
        Ok(found)
    }

    /// The route to a server, from the kernel or from memory.
    fn route(&mut self, ip: IpAddr) -> Option<Hop> {
        let known = self
            .routes
            .get(&ip)
            .filter(|(_, round)| self.rounds < round + ROUTE_ROUNDS);
        match known {
            Some((hop, _)) => Some(*hop),
            None => {
                let hop = self.netlink.route_to(ip).ok()?;
                self.routes.insert(ip, (hop, self.rounds));
                Some(hop)
            }
        }
    }
}
