//! Integer patterns: `-m int` and, over lengths, `-m len`. The first entry of the list that holds the number wins.
//!
//! Single numbers are found by hash. Ranges are cut into disjoint segments that know their first range ([`Steps`]).
//! Ranges added since are tried one by one until there are enough of them for a layer of segments of their own, and a
//! layer that has grown to a part of the one before becomes one with it: adding one range to a million costs
//! microseconds, and few layers are asked.

use std::sync::Arc;

use arc_swap::ArcSwap;

use super::elements::Elements;
use super::number::{self, Notation};
use super::steps::Steps;
use super::table::{Asked, Hashed, hash};

/// Ranges that are tried one by one before they become a layer.
const RECENT_MAX: usize = if cfg!(test) { 3 } else { 64 };

/// A layer becomes one with the layer before when that has no more than so many times its ranges.
const LAYER_RATIO: usize = 4;

/// Ranges whose highest number is kept together, to be skipped together.
const BLOCK: usize = if cfg!(test) { 2 } else { 64 };

/// Up to here, numbers are kept with the ranges and tried one by one: the patterns written in ACLs are few.
const FEW: usize = if cfg!(test) { 2 } else { 8 };

pub(super) struct NumberIndex {
    notation: Notation,
    state: ArcSwap<State>,
}

#[derive(Clone, Default)]
struct State {
    single: Hashed,
    /// Each holds fewer ranges than the one before, and later ones.
    layers: Vec<Arc<Segments>>,
    /// In the order of the list.
    recent: Vec<Range>,
}

/// The first number, the last, and the entry's number.
type Range = (i64, i64, u32);

#[derive(Default)]
struct Segments {
    /// Where another range is the first there is: its number, [`NONE`] where there is none.
    firsts: Steps,
    /// All ranges by their first number, to fall back to when the first one of the list has been deleted.
    lows: Box<[i64]>,
    highs: Box<[i64]>,
    ids: Box<[u32]>,
    /// The highest number in each [`BLOCK`] of these.
    tops: Box<[i64]>,
}

const NONE: u32 = u32::MAX;

impl NumberIndex {
    pub(super) fn build(notation: Notation, all: &Elements) -> Self {
        NumberIndex {
            notation,
            state: ArcSwap::from_pointee(State::build(notation, all, 0)),
        }
    }

    pub(super) fn add(&self, id: u32, key: &[u8], all: &Elements) {
        let Some(range) = range_of(key, self.notation) else {
            return;
        };
        let state = self.state.load();
        let (low, high) = range;
        let next = if state.is_few() && state.recent.len() < FEW {
            let mut next = State::clone(&state);
            next.recent.push((low, high, id));
            Some(next)
        } else if low == high {
            state
                .single
                .with(hash(&low.to_le_bytes()), id)
                .map(|single| State {
                    single,
                    ..State::clone(&state)
                })
        } else {
            let mut next = State::clone(&state);
            next.recent.push((low, high, id));
            if next.recent.len() > RECENT_MAX {
                next.settle(all);
            }
            Some(next)
        };
        let next = next.unwrap_or_else(|| State::build(self.notation, all, all.len()));
        self.state.store(next.into());
    }

    pub(super) fn rebuild(&self, all: &Elements) {
        self.state.store(State::build(self.notation, all, 0).into());
    }

    pub(super) fn find(&self, n: i64, all: &Elements) -> Option<u32> {
        let state = self.state.load();
        let mut best = None;
        state.single.each(hash(&n.to_le_bytes()), |id| {
            let is_it = |key: &[u8]| range_of(key, self.notation) == Some((n, n));
            if best.is_none_or(|b| id < b) && all.with(id, |key, _| is_it(key)) == Some(true) {
                best = Some(id);
            }
        });
        // what a layer holds goes before what later ones hold
        let old = state.layers.iter().find_map(|layer| layer.find(n, all));
        let range = old.or_else(|| {
            let mut recent = state.recent.iter();
            recent
                .find(|(low, high, id)| (*low..=*high).contains(&n) && all.is_live(*id))
                .map(|(_, _, id)| *id)
        });
        range.into_iter().chain(best).min()
    }

    pub(super) fn memory(&self) -> usize {
        let state = self.state.load();
        let layers: usize = state.layers.iter().map(|layer| layer.memory()).sum();
        state.single.memory() + layers + state.recent.capacity() * size_of::<Range>()
    }
}

impl State {
    /// Whether all there is stands in `recent`.
    fn is_few(&self) -> bool {
        self.single.is_empty() && self.layers.is_empty()
    }

    /// `more` is room for single numbers to come.
    fn build(notation: Notation, all: &Elements, more: usize) -> Self {
        let mut ranges = Vec::new();
        let mut singles = Vec::new();
        all.visit(0, |id, key, _| {
            match range_of(key, notation) {
                Some((low, high)) if low == high => singles.push((low, id)),
                Some((low, high)) => ranges.push((low, high, id)),
                None => {}
            }
            true
        });
        if singles.len() + ranges.len() <= FEW {
            let numbers = singles.iter().map(|(n, id)| (*n, *n, *id));
            ranges.extend(numbers);
            ranges.sort_unstable_by_key(|(_, _, id)| *id);
            return State {
                recent: ranges,
                ..State::default()
            };
        }
        let single = Hashed::build(singles.len() + more, Asked::Once, |insert| {
            singles
                .iter()
                .for_each(|(n, id)| insert(hash(&n.to_le_bytes()), *id));
        });
        let layers = match ranges.is_empty() {
            true => Vec::new(),
            false => vec![Arc::new(Segments::build(ranges))],
        };
        State {
            single,
            layers,
            recent: Vec::new(),
        }
    }

    /// Makes a layer of the recent ranges and of the layers that are not much bigger.
    fn settle(&mut self, all: &Elements) {
        let mut ranges = std::mem::take(&mut self.recent);
        while let Some(layer) = self.layers.pop() {
            if layer.ids.len() > LAYER_RATIO * ranges.len() {
                self.layers.push(layer);
                break;
            }
            ranges.extend(layer.ranges());
        }
        ranges.retain(|(_, _, id)| all.is_live(*id));
        if !ranges.is_empty() {
            self.layers.push(Arc::new(Segments::build(ranges)));
        }
    }
}

impl Segments {
    /// Takes ranges in any order.
    fn build(mut ranges: Vec<Range>) -> Self {
        // Sweep over the points where a range begins or has ended, keeping the open ones in order.
        let mut points: Vec<(i64, bool, u32)> = Vec::with_capacity(ranges.len() * 2);
        for (low, high, id) in &ranges {
            points.push((*low, true, *id));
            if let Some(after) = high.checked_add(1) {
                points.push((after, false, *id));
            }
        }
        points.sort_unstable();
        let mut open = std::collections::BTreeSet::new();
        let mut firsts: Vec<(i64, u32)> = Vec::new();
        let mut i = 0;
        while i < points.len() {
            let at = points[i].0;
            while let Some((n, begins, id)) = points.get(i).copied()
                && n == at
            {
                if begins {
                    open.insert(id);
                } else {
                    open.remove(&id);
                }
                i += 1;
            }
            let now = open.first().copied().unwrap_or(NONE);
            if firsts.last().is_none_or(|(_, before)| *before != now) {
                firsts.push((at, now));
            }
        }
        drop(points);
        ranges.sort_unstable();
        let top = |block: &[Range]| block.iter().map(|(_, high, _)| *high).max();
        Segments {
            firsts: Steps::new(&firsts),
            tops: ranges.chunks(BLOCK).filter_map(top).collect(),
            lows: ranges.iter().map(|(low, _, _)| *low).collect(),
            highs: ranges.iter().map(|(_, high, _)| *high).collect(),
            ids: ranges.iter().map(|(_, _, id)| *id).collect(),
        }
    }

    fn find(&self, n: i64, all: &Elements) -> Option<u32> {
        let id = self.firsts.at_or_below(n)?;
        if id == NONE || all.is_live(id) {
            return (id != NONE).then_some(id);
        }
        self.first_living(n, all)
    }

    /// The first living range of the list that holds `n`, of all that do.
    fn first_living(&self, n: i64, all: &Elements) -> Option<u32> {
        let begun = self.lows.partition_point(|low| *low <= n);
        let reaching = self.tops.iter().enumerate().filter(|(_, top)| **top >= n);
        let blocks = reaching.map(|(block, _)| block * BLOCK..((block + 1) * BLOCK).min(begun));
        let holding = blocks
            .take_while(|block| block.start < begun)
            .flatten()
            .filter(|at| self.highs.get(*at).is_some_and(|high| *high >= n));
        let ids = holding.filter_map(|at| self.ids.get(at).copied());
        ids.filter(|id| all.is_live(*id)).min()
    }

    fn ranges(&self) -> impl Iterator<Item = Range> {
        let bounds = self.lows.iter().zip(&self.highs).zip(&self.ids);
        bounds.map(|((low, high), id)| (*low, *high, *id))
    }

    fn memory(&self) -> usize {
        self.firsts.memory() + self.ids.len() * 20 + self.tops.len() * 8
    }
}

fn range_of(key: &[u8], notation: Notation) -> Option<(i64, i64)> {
    let range = number::parse(std::str::from_utf8(key).ok()?, notation).ok()?;
    Some((*range.start(), *range.end()))
}
