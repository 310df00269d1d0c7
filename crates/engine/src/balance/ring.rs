//! `hash-type consistent`: each server owns as many points of the circle of 32-bit numbers as its effective weight, and a
//! key belongs to the point nearest to its hash. A server that leaves takes its points away and nobody else's keys move.

use std::net::IpAddr;
use std::sync::atomic::Ordering::Relaxed;

use sluice_config::model::{HashKey, PeerAddr, PortSpec};
use xxhash_rust::xxh32::xxh32;

use super::Choice;
use super::hash::avalanche;
use crate::servers::Servers;
use crate::state::ServerState;

/// Points kept for one id: the most an effective weight can be, 256 steps of 16.
const POINTS_PER_ID: u32 = 4096;

/// The points in order: where, and which server's.
#[derive(Debug, Default)]
pub(super) struct Ring {
    points: Vec<(u32, u32)>,
}

impl Ring {
    pub(super) fn new(servers: &Servers, usable: &[u32], weights: &[u32]) -> Self {
        let mut points = Vec::with_capacity(weights.iter().map(|&w| w as usize).sum());
        for (&i, &weight) in usable.iter().zip(weights) {
            let base = base(&servers[i as usize]);
            points.extend((0..weight).map(|k| (avalanche(base.wrapping_add(k)), i)));
        }
        // stable: of two servers at one point the first of the configuration comes first
        points.sort_by_key(|p| p.0);
        Ring { points }
    }
    pub(super) fn len(&self) -> usize {
        self.points.len()
    }
    pub(super) fn owner(&self, at: usize) -> u32 {
        self.points[at].1
    }
    /// The place of the point nearest to a hash, the lower of two as near; `None` of an empty ring.
    fn nearest(&self, hash: u32) -> Option<usize> {
        let n = self.points.len();
        let above = self.points.partition_point(|p| p.0 < hash).checked_rem(n)?;
        let below = (above + n - 1) % n;
        let down = hash.wrapping_sub(self.points[below].0);
        let up = self.points[above].0.wrapping_sub(hash);
        Some(if down <= up { below } else { above })
    }
}

/// Where a server's points are computed from (`hash-key`): its id, or its address so that any proxy with the same servers
/// agrees whatever their order. A server that has no IP address goes by its id.
fn base(s: &ServerState) -> u32 {
    let by_id = s.conf.id.wrapping_mul(POINTS_PER_ID);
    let addr = s.addr.load();
    let PeerAddr::Ip { ip, port } = &**addr else {
        return by_id;
    };
    let seed = match s.conf.hash_key {
        HashKey::Id => return by_id,
        HashKey::Addr => 0,
        HashKey::AddrPort => match port {
            PortSpec::Fixed(p) => avalanche(u32::from(*p)),
            PortSpec::FromClient | PortSpec::Offset(_) => avalanche(0),
        },
    };
    match ip {
        IpAddr::V4(a) => avalanche(seed.wrapping_add(u32::from_le_bytes(a.octets()))),
        IpAddr::V6(a) => xxh32(&a.octets(), seed),
    }
}

impl Choice<'_> {
    /// The server a hash belongs to; the next ones on the ring when it is to be avoided or has more than its share of
    /// the load (`hash-balance-factor`, percent of the average).
    pub(super) fn on_ring(&self, hash: u32, balance_factor: u32) -> Option<u32> {
        let ring = &self.table.ring;
        let n = ring.len();
        let at = ring.nearest(hash)?;
        let mut refused: Option<u32> = None;
        for k in 0..n {
            let i = ring.owner((at + k) % n);
            if refused == Some(i) {
                continue;
            }
            let over = balance_factor > 0 && !self.is_within(i, balance_factor);
            if self.ask.avoid != Some(i) && !over {
                return Some(i);
            }
            refused = Some(i);
        }
        Some(ring.owner(at))
    }

    /// Whether a server carries less than its part of the slots: all requests with this one, times the factor, dealt
    /// out by weight in whole numbers, at least one each.
    fn is_within(&self, index: u32, factor: u32) -> bool {
        let t = self.table;
        let served = |i: u32| u64::from(self.server(i).served.load(Relaxed));
        let all: u64 = t.usable.iter().map(|&i| served(i)).sum();
        let slots = ((all + 1) * u64::from(factor)).div_ceil(100);
        let (whole, rest) = (slots / t.total.max(1), slots % t.total.max(1));
        let mut before = 0;
        for (&i, &w) in t.usable.iter().zip(&t.weights) {
            let w = u64::from(w);
            if i == index {
                let own = w * whole + (before + w) * rest / t.total - before * rest / t.total;
                return served(i) < own.max(1);
            }
            before += w;
        }
        false
    }
}
