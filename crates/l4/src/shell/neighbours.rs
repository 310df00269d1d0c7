//! Next hops of real servers: asked of the kernel's routes and neighbour table, kept warm, handed to the datapath.

use crate::datapath::director::{Director, Egress};
use crate::netlink::{Link, Neighbour, Netlink};
use std::collections::HashMap;
use std::io;
use std::net::IpAddr;

/// How often neighbours are looked at; the kernel's own entries turn stale after about half a minute.
pub const REFRESH_S: u64 = 5;

pub struct Neighbours {
    netlink: Netlink,
    /// Addresses that could not be resolved, so that it is said once.
    missing: HashMap<IpAddr, ()>,
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
            missing: HashMap::new(),
            rounds: 0,
        })
    }

    /// Resolves every server of the director. Unknown ones are asked for and found in a later round.
    pub fn refresh(&mut self, director: &mut Director) -> anyhow::Result<Found> {
        let links = self.netlink.links()?;
        let known = self.netlink.neighbours()?;
        let table: HashMap<(u32, IpAddr), Neighbour> =
            known.into_iter().map(|n| ((n.ifindex, n.ip), n)).collect();
        // Each fourth round makes sure of those that are known, too.
        let warm = self.rounds.is_multiple_of(4);
        self.rounds += 1;
        let mut found = Found::default();
        for ip in director.server_addresses() {
            match self.egress(ip, &links, &table, warm) {
                Some(egress) => {
                    director.set_egress(ip, Some(egress))?;
                    if self.missing.remove(&ip).is_some() {
                        found.resolved.push(ip);
                    }
                }
                None => {
                    found.unresolved += 1;
                    // A next hop that was known is used on until the kernel knows better: entries pass through states
                    // in which they are not usable for a moment.
                    if director.egress(ip).is_none() && self.missing.insert(ip, ()).is_none() {
                        found.lost.push(ip);
                    }
                }
            }
        }
        Ok(found)
    }

    fn egress(
        &mut self,
        ip: IpAddr,
        links: &[Link],
        table: &HashMap<(u32, IpAddr), Neighbour>,
        warm: bool,
    ) -> Option<Egress> {
        let hop = self.netlink.route_to(ip).ok()?;
        let link = links.iter().find(|l| l.index == hop.ifindex)?;
        if hop.local {
            return None;
        }
        let next = hop.gateway.unwrap_or(ip);
        let neighbour = table.get(&(hop.ifindex, next));
        if neighbour.is_none() || warm {
            // Asking twice does no harm, and a link that is down answers when it is up.
            let _ = self.netlink.probe_neighbour(hop.ifindex, next);
        }
        Some(Egress {
            ifindex: hop.ifindex,
            next_hop: neighbour?.mac,
            own_mac: link.mac,
            source: hop.source?,
        })
    }
}
