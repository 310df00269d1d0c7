//! Choosing a server (manual 4.2 `balance`, `hash-type`). One file a family: [`rotate`] takes turns, [`load`] looks at
//! what the servers carry, [`ring`] hashes consistently, [`hash`] makes numbers of keys.
//!
//! What depends on weights and states only is a table made when they change; a request reads it and touches atomics.
//! Which key is hashed is the proxy's business, as are queues.

pub mod hash;
mod load;
mod ring;
mod rotate;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use arc_swap::ArcSwap;
use sluice_config::model::{self, Balance, Options};

use crate::servers::Servers;
use crate::state::ServerState;
use ring::Ring;

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
    /// `option allbackups`
    all_backups: bool,
    /// `hash-balance-factor` in percent, 0 when off.
    balance_factor: u32,
    table: ArcSwap<Table>,
    /// The place of the next turn; for `leastconn` a clock that goes on with each change of a server's load.
    cursor: AtomicU64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    RoundRobin,
    StaticRr,
    LeastConn,
    First,
    Random { draws: u32 },
    MapHash,
    RingHash,
    Sticky,
}

/// The servers to use now, and what the algorithm made of them.
#[derive(Debug, Default)]
struct Table {
    /// In the order of the configuration, or of their ids for `first`.
    usable: Vec<u32>,
    /// Their effective weights, at the same places, and the sum.
    weights: Vec<u32>,
    total: u64,
    /// The order of turns, and the map of `hash-type map-based`.
    turns: Vec<u32>,
    /// The points of `hash-type consistent`.
    ring: Ring,
}

impl Balancer {
    pub fn new(p: &model::Proxy) -> Self {
        let kind = match &p.balance {
            Balance::RoundRobin => Kind::RoundRobin,
            Balance::StaticRr => Kind::StaticRr,
            Balance::LeastConn => Kind::LeastConn,
            Balance::First => Kind::First,
            Balance::Random { draws } => Kind::Random {
                draws: (*draws).max(1),
            },
            Balance::Sticky => Kind::Sticky,
            _ if p.hash_type.consistent => Kind::RingHash,
            _ => Kind::MapHash,
        };
        Balancer {
            kind,
            all_backups: p.options.contains(Options::ALLBACKUPS),
            balance_factor: p.hash_type.balance_factor,
            table: ArcSwap::default(),
            cursor: AtomicU64::new(0),
        }
    }

    /// Whether [`Ask::hash`] is looked at.
    pub fn wants_hash(&self) -> bool {
        matches!(self.kind, Kind::MapHash | Kind::RingHash)
    }

    /// Whether weights cannot change while it runs, but for 0 and back.
    pub fn is_static(&self) -> bool {
        matches!(self.kind, Kind::StaticRr | Kind::MapHash | Kind::First)
    }

    /// Whether servers cannot come and go.
    pub fn is_fixed(&self) -> bool {
        matches!(self.kind, Kind::StaticRr | Kind::MapHash)
    }

    /// How many servers balancing uses now: the active ones, or the backups that replace them.
    pub fn usable(&self) -> u32 {
        self.table.load().usable.len() as u32
    }

    /// Whether balancing uses that server now. A backup is usable, yet not used, while an active server is.
    pub fn uses(&self, index: u32) -> bool {
        self.table.load().usable.contains(&index)
    }

    /// A server has one request less.
    #[inline]
    pub fn gave_back(&self, server: &ServerState) {
        if self.kind == Kind::LeastConn {
            self.load_changed(server);
        }
    }

    fn load_changed(&self, server: &ServerState) {
        let now = self.cursor.fetch_add(1, Relaxed) + 1;
        server.load_changed_at.store(now, Relaxed);
    }

    /// Looks at the servers anew.
    pub fn rebuild(&self, servers: &Servers) {
        let mut usable = self.in_use(servers);
        if self.kind == Kind::First {
            usable.sort_by_key(|&i| servers[i as usize].conf.id);
        }
        let weights: Vec<u32> = usable
            .iter()
            .map(|&i| servers[i as usize].effective_weight.load(Relaxed))
            .collect();
        let turns = match self.kind {
            Kind::RoundRobin => rotate::smooth_turns(&usable, &weights),
            Kind::StaticRr | Kind::MapHash => rotate::static_map(servers, &usable),
            _ => Vec::new(),
        };
        let ring = match self.kind {
            Kind::RingHash => Ring::new(servers, &usable, &weights),
            _ => Ring::default(),
        };
        if self.kind == Kind::LeastConn {
            // who comes, or with another weight, is behind its equals
            let before = self.table.load();
            let known = |i: u32, w: u32| {
                let mut pairs = before.usable.iter().zip(&before.weights);
                before.usable.is_empty() || pairs.any(|(a, b)| (*a, *b) == (i, w))
            };
            let new = usable
                .iter()
                .zip(&weights)
                .filter(|(i, w)| !known(**i, **w));
            new.for_each(|(i, _)| self.load_changed(&servers[*i as usize]));
        }
        self.table.store(Arc::new(Table {
            total: weights.iter().map(|&w| u64::from(w)).sum(),
            usable,
            weights,
            turns,
            ring,
        }));
    }

    /// The active servers; without any the backups, of which the first alone unless `option allbackups`.
    fn in_use(&self, servers: &Servers) -> Vec<u32> {
        let pick = |backup| -> Vec<u32> {
            let able = servers
                .iter()
                .filter(|s| s.conf.backup == backup && s.is_usable());
            able.map(|s| s.id.index).collect()
        };
        let mut usable = pick(false);
        if usable.is_empty() {
            usable = pick(true);
            if !self.all_backups {
                usable.truncate(1);
            }
        }
        usable
    }

    /// The server for a request, or `None` when none is usable or all are full. The server a hash belongs to is given
    /// full or not: the request waits there.
    pub fn choose(&self, servers: &Servers, ask: &Ask) -> Option<u32> {
        let table = self.table.load();
        let cx = Choice {
            servers,
            ask,
            table: &table,
        };
        match (self.kind, ask.hash) {
            (Kind::MapHash, Some(hash)) => {
                let n = table.turns.len() as u64;
                table
                    .turns
                    .get(u64::from(hash).checked_rem(n)? as usize)
                    .copied()
            }
            (Kind::RingHash, Some(hash)) => cx.on_ring(hash, self.balance_factor),
            (Kind::RingHash, None) => {
                rotate::take_turn(&cx, &self.cursor, table.ring.len(), |k| table.ring.owner(k))
            }
            (Kind::RoundRobin | Kind::StaticRr | Kind::MapHash, _) => {
                rotate::take_turn(&cx, &self.cursor, table.turns.len(), |k| table.turns[k])
            }
            (Kind::LeastConn, _) => {
                let i = cx.least_loaded()?;
                self.load_changed(cx.server(i));
                Some(i)
            }
            (Kind::First, _) => cx.first_free(),
            (Kind::Sticky, _) => cx.kept(&self.cursor),
            (Kind::Random { draws }, _) => cx.drawn(draws),
        }
    }
}

/// One request's choice: what the families look at.
struct Choice<'a> {
    servers: &'a Servers,
    ask: &'a Ask,
    table: &'a Table,
}

impl Choice<'_> {
    fn server(&self, index: u32) -> &ServerState {
        &self.servers[index as usize]
    }
    /// Whether the server takes one more at once, before those that wait for it.
    fn is_free(&self, index: u32) -> bool {
        let s = self.server(index);
        let limit = s.dynamic_maxconn(self.ask.backend_sessions, self.ask.fullconn);
        limit == 0 || (s.queue.is_empty() && s.served.load(Relaxed) < limit)
    }
}
