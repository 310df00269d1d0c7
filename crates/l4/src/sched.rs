//! Schedulers that can be laid out beforehand: a ring of server indices that the datapath walks (by a counter) or looks
//! up (by a hash).
//!
//! IPVS walks its servers from the one that was added last to the first, and so does everything here but Maglev: index 0 is
//! the last server of the configuration. `tests/ipvs.rs` plays the same packets to both and compares.
//!
//! What depends on the connections of the moment (lc, wlc, sed, nq, ovf, lblc, lblcr) is chosen by the datapath itself
//! from the same list of servers; [`choose`] is the model its tests compare it with. Where a round goes on after a change
//! is in [`turns`].

use crate::config::model::Scheduler;

pub mod turns;

/// How the datapath uses a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pick {
    /// The next entry for each new connection.
    Counter,
    /// mh: the entry at the hash of the client's and the virtual address.
    Maglev,
    /// sh: the slot of the client's address.
    SourceSlot,
    /// dh: the slot of the virtual address.
    DestinationSlot,
    /// twos: the less loaded of two entries drawn at random.
    TwoChoices,
    /// The least loaded of the ring's servers by this measure.
    Load(Load),
}

/// What is compared between servers; connections weigh 256 when active and 1 when not, as in IPVS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Load {
    /// lc: connections.
    Connections,
    /// wlc: connections by weight.
    Weighted,
    /// sed: (active + 1) by weight.
    Expected,
    /// nq: an idle server at once, else sed.
    NeverQueue,
    /// ovf: the heaviest that has no more active connections than its weight.
    Overflow,
    /// lblc: a virtual address stays with its server until that is overloaded; then as wlc.
    Local,
    /// lblcr: as lblc, but the virtual address gets another server beside the overloaded one.
    LocalReplicated,
}

/// How a scheduler is carried out.
pub fn pick(scheduler: Scheduler) -> Pick {
    match scheduler {
        Scheduler::RoundRobin | Scheduler::WeightedRoundRobin | Scheduler::FailOver => {
            Pick::Counter
        }
        Scheduler::SourceHash => Pick::SourceSlot,
        Scheduler::DestinationHash => Pick::DestinationSlot,
        Scheduler::Maglev => Pick::Maglev,
        Scheduler::TwoChoices => Pick::TwoChoices,
        Scheduler::LeastConnection => Pick::Load(Load::Connections),
        Scheduler::WeightedLeastConnection => Pick::Load(Load::Weighted),
        Scheduler::LocalityLeastConnection => Pick::Load(Load::Local),
        Scheduler::LocalityLeastConnectionReplicated => Pick::Load(Load::LocalReplicated),
        Scheduler::ShortestExpectedDelay => Pick::Load(Load::Expected),
        Scheduler::NeverQueue => Pick::Load(Load::NeverQueue),
        Scheduler::Overflow => Pick::Load(Load::Overflow),
    }
}

/// Longest ring of a weighted round robin: with larger sums of weights the ring approximates them.
pub const RING_MAX: usize = 4096;
/// Slots of the sh and dh tables (IPVS: 256).
pub const HASH_SLOTS: usize = 256;

/// The order of turns of weighted round robin, one full cycle. IPVS's algorithm: the current weight falls by the greatest
/// common divisor, and whoever has at least that much gets a turn.
pub fn weighted_round_robin(weights: &[u32]) -> Vec<u32> {
    levels(weights).into_iter().flatten().collect()
}

/// The rounds of one full cycle, the highest level first: who has a turn in each.
fn levels(weights: &[u32]) -> Vec<Vec<u32>> {
    let gcd = divisor(weights);
    let Some(max) = weights.iter().max().filter(|m| **m > 0) else {
        return Vec::new();
    };
    let total: u64 = weights.iter().map(|w| u64::from(*w / gcd)).sum();
    // Weights too large for a ring are scaled, none below one turn.
    let scale = |w: u32| -> u32 {
        let units = w / gcd;
        if total <= RING_MAX as u64 || units == 0 {
            return units;
        }
        ((u64::from(units) * (RING_MAX as u64 / 2) / total) as u32).max(1)
    };
    let in_round = |level: u32| {
        (0..weights.len() as u32)
            .filter(|i| scale(weights[*i as usize]) >= level)
            .collect()
    };
    (1..=scale(*max)).rev().map(in_round).collect()
}

/// The greatest common divisor of the weights that are not 0; 0 if there are none.
fn divisor(weights: &[u32]) -> u32 {
    weights.iter().fold(0, |g, w| gcd(*w, g))
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// rr: every server with a weight, in the order of the configuration.
pub fn round_robin(weights: &[u32]) -> Vec<u32> {
    (0..weights.len() as u32)
        .filter(|i| weights[*i as usize] > 0)
        .collect()
}

/// fo: the heaviest server alone (the first of equals).
pub fn fail_over(weights: &[u32]) -> Vec<u32> {
    let mut best: Option<u32> = None;
    for i in 0..weights.len() as u32 {
        if weights[i as usize] > best.map_or(0, |b| weights[b as usize]) {
            best = Some(i);
        }
    }
    best.into_iter().collect()
}

/// sh and dh: each server fills as many neighbouring slots as its weight (dh: one), round and round. A server that drains
/// keeps a slot, so that the others' clients stay where they are; the datapath passes it over.
pub fn hash_slots(weights: &[u32], weighted: bool) -> Vec<u32> {
    let slots = |weight: u32| match weighted {
        true => weight.clamp(1, HASH_SLOTS as u32) as usize,
        false => 1,
    };
    (0..weights.len() as u32)
        .cycle()
        .flat_map(|i| {
            let weight = weights.get(i as usize).copied().unwrap_or(0);
            std::iter::repeat_n(i, slots(weight))
        })
        .take(if weights.is_empty() { 0 } else { HASH_SLOTS })
        .collect()
}

/// A server's load at one moment.
#[derive(Debug, Clone, Copy, Default)]
pub struct State {
    pub weight: u32,
    pub active: u32,
    pub inactive: u32,
}

/// The server a load scheduler gives the next connection, if any has weight. The first of equals wins.
pub fn choose(load: Load, servers: &[State]) -> Option<usize> {
    let usable = || servers.iter().enumerate().filter(|(_, s)| s.weight > 0);
    let connections = |s: &State| u64::from(s.active) * 256 + u64::from(s.inactive);
    match load {
        Load::Connections => usable().min_by_key(|(_, s)| connections(s)).map(|(i, _)| i),
        // Where the virtual address was before is the datapath's to know.
        Load::Weighted | Load::Local | Load::LocalReplicated => least(usable(), connections),
        Load::Expected => least(usable(), |s| u64::from(s.active) + 1),
        Load::NeverQueue => usable()
            .find(|(_, s)| s.active == 0)
            .map(|(i, _)| i)
            .or_else(|| least(usable(), |s| u64::from(s.active) + 1)),
        Load::Overflow => {
            let mut best: Option<(usize, u32)> = None;
            for (i, s) in usable().filter(|(_, s)| s.active <= s.weight) {
                if best.is_none_or(|(_, w)| s.weight > w) {
                    best = Some((i, s.weight));
                }
            }
            best.map(|(i, _)| i)
        }
    }
}

/// The least `measure / weight`, compared by cross multiplication as IPVS does.
fn least<'a>(
    servers: impl Iterator<Item = (usize, &'a State)>,
    measure: impl Fn(&State) -> u64,
) -> Option<usize> {
    let mut best: Option<(usize, u64, u64)> = None;
    for (i, s) in servers {
        let load = measure(s);
        let weight = u64::from(s.weight);
        if best.is_none_or(|(_, l, w)| load * w < l * weight) {
            best = Some((i, load, weight));
        }
    }
    best.map(|(i, _, _)| i)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn letters(ring: &[u32]) -> String {
        ring.iter().map(|i| char::from(b'A' + *i as u8)).collect()
    }

    #[test]
    fn wrr_gives_the_order_of_the_lvs_documentation() {
        // "If there are three real servers A, B and C with weights 4, 3, 2, a sequence will be AABABCABC."
        assert_eq!(letters(&weighted_round_robin(&[4, 3, 2])), "AABABCABC");
        assert_eq!(letters(&weighted_round_robin(&[2, 2, 2])), "ABC");
        assert_eq!(letters(&weighted_round_robin(&[1, 0, 3])), "CCAC");
        assert_eq!(letters(&weighted_round_robin(&[0, 0])), "");
    }

    #[test]
    fn rr_skips_what_drains() {
        assert_eq!(letters(&round_robin(&[1, 0, 9])), "AC");
    }

    #[test]
    fn fo_takes_the_heaviest() {
        assert_eq!(letters(&fail_over(&[1, 7, 7])), "B");
        assert_eq!(letters(&fail_over(&[0])), "");
    }

    #[test]
    fn hash_tables_are_full() {
        let t = hash_slots(&[1, 2, 0], true);
        assert_eq!(t.len(), HASH_SLOTS);
        assert_eq!(letters(&t[..6]), "ABBCAB");
        assert_eq!(letters(&hash_slots(&[1, 2, 0], false)[..6]), "ABCABC");
        assert!(hash_slots(&[], true).is_empty());
    }

    fn check(load: Load, servers: &[(u32, u32, u32)], expect: Option<usize>) {
        let states: Vec<State> = servers
            .iter()
            .map(|&(weight, active, inactive)| State {
                weight,
                active,
                inactive,
            })
            .collect();
        assert_eq!(choose(load, &states), expect);
    }

    #[test]
    fn loads_are_compared_as_ipvs_does() {
        check(
            Load::Connections,
            &[(1, 2, 0), (1, 1, 255), (1, 2, 1)],
            Some(1),
        );
        check(Load::Weighted, &[(1, 1, 0), (4, 3, 0)], Some(1));
        check(Load::Expected, &[(1, 0, 0), (3, 1, 0)], Some(1));
        check(Load::NeverQueue, &[(3, 1, 0), (1, 0, 9)], Some(1));
        check(Load::Overflow, &[(2, 2, 0), (5, 5, 0), (9, 10, 0)], Some(1));
        check(Load::Overflow, &[(1, 2, 0)], None);
        check(Load::Weighted, &[(0, 0, 0)], None);
    }

    proptest! {
        #[test]
        fn wrr_shares_are_the_weights(weights in prop::collection::vec(0u32..20, 1..8)) {
            let ring = weighted_round_robin(&weights);
            let sum: u32 = weights.iter().sum();
            for (i, w) in weights.iter().enumerate() {
                let turns = ring.iter().filter(|r| **r == i as u32).count() as u32;
                prop_assert_eq!(u64::from(turns) * u64::from(sum), u64::from(*w) * ring.len() as u64);
            }
        }
        #[test]
        fn rings_are_bounded(weights in prop::collection::vec(any::<u32>(), 1..8)) {
            prop_assert!(weighted_round_robin(&weights).len() <= RING_MAX + 8);
        }
    }
}
