//! Choosing a server (manual 4.2 `balance`). Rotation is a table made when weights or states change and a cursor shared
//! by all workers; the others look at the servers' atomics.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use arc_swap::ArcSwap;
use sluice_config::model::{self, Balance};

use crate::state::ServerState;

/// What is known of the request when a server is asked for.
#[derive(Debug, Clone, Copy, Default)]
pub struct Ask {
    /// The hash of the key, for the hashing algorithms; `None` when the request has no such key.
    pub hash: Option<u32>,
    /// Server that just failed: taken only when there is no other.
    pub avoid: Option<u32>,
    pub random: u64,
    /// Sessions of the backend and its `fullconn`, for `minconn`.
    pub backend_sessions: u32,
    pub fullconn: u32,
}

/// A backend's way of choosing.
pub struct Balancer {
    kind: Kind,
    table: ArcSwap<Table>,
    cursor: AtomicU64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Rotate,
    LeastConn,
    First,
    Random { draws: u32 },
    Hash,
}

/// The servers to use now, and their order of turns.
#[derive(Debug, Default)]
struct Table {
    usable: Vec<u32>,
    turns: Vec<u32>,
}

impl Balancer {
    pub fn new(p: &model::Proxy) -> Self {
        let kind = match &p.balance {
            Balance::RoundRobin | Balance::StaticRr => Kind::Rotate,
            Balance::LeastConn => Kind::LeastConn,
            Balance::First => Kind::First,
            Balance::Random { draws } => Kind::Random { draws: *draws },
            _ => Kind::Hash,
        };
        Balancer {
            kind,
            table: ArcSwap::default(),
            cursor: AtomicU64::new(0),
        }
    }

    /// Whether [`Ask::hash`] is looked at.
    pub fn wants_hash(&self) -> bool {
        self.kind == Kind::Hash
    }

    /// Looks at the servers anew.
    pub fn rebuild(&self, servers: &[Arc<ServerState>]) {
        let pick = |backup| -> Vec<u32> {
            (0..servers.len() as u32)
                .filter(|&i| {
                    servers[i as usize].conf.backup == backup && servers[i as usize].is_usable()
                })
                .collect()
        };
        let mut usable = pick(false);
        if usable.is_empty() {
            usable = pick(true);
        }
        let mut turns: Vec<(u64, u32)> = Vec::new();
        for &i in &usable {
            let w = u64::from(servers[i as usize].effective_weight.load(Relaxed));
            turns.extend((0..w).map(|k| ((2 * k + 1) * (1 << 32) / (2 * w), i)));
        }
        turns.sort();
        self.table.store(Arc::new(Table {
            usable,
            turns: turns.into_iter().map(|t| t.1).collect(),
        }));
    }

    /// The server for a request, or `None` when none is usable or all are full.
    pub fn choose(&self, servers: &[Arc<ServerState>], ask: &Ask) -> Option<u32> {
        let table = self.table.load();
        let n = table.turns.len();
        if n == 0 {
            return None;
        }
        let free = |i: u32| {
            let s = &servers[i as usize];
            let limit = s.dynamic_maxconn(ask.backend_sessions, ask.fullconn);
            limit == 0 || (s.queue.is_empty() && s.served.load(Relaxed) < limit)
        };
        match self.kind {
            Kind::Rotate => {
                let start = self.cursor.fetch_add(1, Relaxed) as usize;
                let mut second = None;
                for k in 0..n {
                    let i = table.turns[(start + k) % n];
                    if free(i) {
                        if ask.avoid != Some(i) {
                            return Some(i);
                        }
                        second = second.or(Some(i));
                    }
                }
                second
            }
            Kind::First => table.usable.iter().copied().find(|&i| free(i)),
            Kind::LeastConn => {
                table
                    .usable
                    .iter()
                    .copied()
                    .filter(|&i| free(i))
                    .min_by(|&a, &b| {
                        let load = |i: u32| {
                            let s = &servers[i as usize];
                            let w = u64::from(s.effective_weight.load(Relaxed).max(1));
                            (
                                u64::from(ask.avoid == Some(i)),
                                (u64::from(s.served.load(Relaxed)) + u64::from(s.queue.len()) + 1)
                                    * 65536
                                    / w,
                            )
                        };
                        load(a).cmp(&load(b))
                    })
            }
            Kind::Random { draws } => {
                let mut seed = ask.random;
                (0..draws.max(1))
                    .map(|_| {
                        seed = seed
                            .wrapping_mul(6364136223846793005)
                            .wrapping_add(1442695040888963407);
                        table.turns[(seed >> 33) as usize % n]
                    })
                    .filter(|&i| free(i))
                    .min_by_key(|&i| servers[i as usize].served.load(Relaxed))
            }
            Kind::Hash => match ask.hash {
                Some(h) => Some(table.turns[h as usize % n]),
                None => Some(table.turns[self.cursor.fetch_add(1, Relaxed) as usize % n]),
            },
        }
    }
}

/// Hash functions of `hash-type`.
pub mod hash {
    use std::net::IpAddr;

    use sluice_config::model::{HashFunction, HashType};

    /// The hash of a key under `hash-type`.
    pub fn of_bytes(key: &[u8], kind: HashType) -> u32 {
        let h = match kind.function {
            HashFunction::Sdbm => key.iter().fold(0u32, |h, &b| {
                u32::from(b)
                    .wrapping_add(h << 6)
                    .wrapping_add(h << 16)
                    .wrapping_sub(h)
            }),
            HashFunction::Djb2 => key.iter().fold(5381u32, |h, &b| {
                (h << 5).wrapping_add(h).wrapping_add(u32::from(b))
            }),
            HashFunction::Wt6 | HashFunction::Crc32 | HashFunction::None => 0,
        };
        if kind.avalanche { avalanche(h) } else { h }
    }

    /// The hash of an address: its bits folded, unless `hash-type` asks for mixing.
    pub fn of_ip(ip: IpAddr, kind: HashType) -> u32 {
        let h = match ip {
            IpAddr::V4(a) => u32::from(a),
            IpAddr::V6(a) => a
                .octets()
                .chunks_exact(4)
                .fold(0, |h, c| h ^ u32::from_be_bytes([c[0], c[1], c[2], c[3]])),
        };
        if kind.avalanche { avalanche(h) } else { h }
    }

    /// Bob Jenkins' full avalanche of a 32-bit integer.
    pub fn avalanche(mut a: u32) -> u32 {
        a = a.wrapping_add(0x7ed55d16).wrapping_add(a << 12);
        a = (a ^ 0xc761c23c) ^ (a >> 19);
        a = a.wrapping_add(0x165667b1).wrapping_add(a << 5);
        a = a.wrapping_add(0xd3a2646c) ^ (a << 9);
        a = a.wrapping_add(0xfd7046c5).wrapping_add(a << 3);
        (a ^ 0xb55a4f09) ^ (a >> 16)
    }
}
