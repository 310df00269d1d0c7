//! Patterns anywhere inside a sample: `-m sub`. The first one of the list wins.
//!
//! A few patterns are searched one by one; many by a rolling hash (Rabin and Karp) over the sample, once for each
//! length that occurs among them, so that the cost does not depend on their number.

use arc_swap::ArcSwap;
use memchr::memmem::Finder;

use super::elements::Elements;
use super::table::{Asked, Hashed, seed};
use super::text_index::Scratch;

/// Up to here, searching one by one is the faster way.
const FEW: usize = if cfg!(test) { 3 } else { 16 };

pub(super) struct SubstringIndex {
    ignore_case: bool,
    state: ArcSwap<State>,
}

enum State {
    Few(Vec<(u32, Finder<'static>)>),
    Many { hashed: Hashed, lens: Vec<u32> },
}

impl SubstringIndex {
    pub(super) fn build(ignore_case: bool, all: &Elements) -> Self {
        SubstringIndex {
            ignore_case,
            state: ArcSwap::from_pointee(State::build(ignore_case, all, all.len())),
        }
    }

    pub(super) fn add(&self, id: u32, key: &[u8], all: &Elements) {
        let state = self.state.load();
        let mut scratch = Scratch::new();
        let bytes = fold(key, self.ignore_case, &mut scratch);
        let next = match &**state {
            State::Few(list) if list.len() < FEW => {
                let mut list = list.clone();
                list.push((id, Finder::new(bytes).into_owned()));
                State::Few(list)
            }
            State::Many { hashed, lens } => {
                let mut lens = lens.clone();
                note_len(&mut lens, bytes.len());
                match hashed.with(finish(rolled(bytes), bytes.len()), id) {
                    Some(hashed) => State::Many { hashed, lens },
                    None => State::build(self.ignore_case, all, all.len() * 2),
                }
            }
            State::Few(_) => State::build(self.ignore_case, all, all.len() * 2),
        };
        self.state.store(next.into());
    }

    pub(super) fn rebuild(&self, all: &Elements) {
        let state = State::build(self.ignore_case, all, all.len());
        self.state.store(state.into());
    }

    pub(super) fn find(&self, sample: &[u8], all: &Elements) -> Option<u32> {
        let state = self.state.load();
        let mut scratch = Scratch::new();
        let sample = fold(sample, self.ignore_case, &mut scratch);
        match &**state {
            State::Few(list) => list
                .iter()
                .find(|(id, finder)| finder.find(sample).is_some() && all.is_live(*id))
                .map(|(id, _)| *id),
            State::Many { hashed, lens } => {
                let mut best = None;
                for len in lens.iter().map(|l| *l as usize) {
                    each_window(sample, len, |window, h| {
                        hashed.each(h, |id| {
                            let better = best.is_none_or(|b| id < b);
                            let equal = |key: &[u8]| match self.ignore_case {
                                true => key.eq_ignore_ascii_case(window),
                                false => key == window,
                            };
                            if better && all.with(id, |key, _| equal(key)) == Some(true) {
                                best = Some(id);
                            }
                        });
                    });
                }
                best
            }
        }
    }

    pub(super) fn memory(&self) -> usize {
        match &**self.state.load() {
            State::Few(list) => list.iter().map(|(_, f)| f.needle().len() + 64).sum(),
            State::Many { hashed, lens } => hashed.memory() + lens.len() * 4,
        }
    }
}

impl State {
    fn build(ignore_case: bool, all: &Elements, room: usize) -> Self {
        let mut scratch = Scratch::new();
        if all.len() <= FEW {
            let mut list = Vec::with_capacity(all.len());
            all.visit(0, |id, key, _| {
                scratch.clear();
                let bytes = fold(key, ignore_case, &mut scratch);
                list.push((id, Finder::new(bytes).into_owned()));
                true
            });
            return State::Few(list);
        }
        let mut lens = Vec::new();
        let hashed = Hashed::build(room, Asked::Often, |insert| {
            all.visit(0, |id, key, _| {
                scratch.clear();
                let bytes = fold(key, ignore_case, &mut scratch);
                note_len(&mut lens, bytes.len());
                insert(finish(rolled(bytes), bytes.len()), id);
                true
            });
        });
        State::Many { hashed, lens }
    }
}

/// The base of the polynomial: odd and not known outside.
fn base() -> u64 {
    seed() | 1
}

fn rolled(bytes: &[u8]) -> u64 {
    let base = base();
    bytes.iter().fold(0, |h: u64, b| {
        h.wrapping_mul(base).wrapping_add(u64::from(*b) + 1)
    })
}

/// Spreads a polynomial over all bits; the length keeps those of different sizes apart.
fn finish(h: u64, len: usize) -> u64 {
    let product = u128::from(h ^ seed()) * u128::from(0x9e37_79b9_7f4a_7c15 ^ (len as u64) << 1);
    (product >> 64) as u64 ^ product as u64
}

fn each_window(sample: &[u8], len: usize, mut f: impl FnMut(&[u8], u64)) {
    if len > sample.len() {
        return;
    }
    let base = base();
    let drop = (1..len).fold(1u64, |p, _| p.wrapping_mul(base));
    let mut h = rolled(&sample[..len]);
    f(&sample[..len], finish(h, len));
    if len == 0 {
        return;
    }
    for end in len..sample.len() {
        let (out, new) = (u64::from(sample[end - len]) + 1, u64::from(sample[end]) + 1);
        h = h
            .wrapping_sub(out.wrapping_mul(drop))
            .wrapping_mul(base)
            .wrapping_add(new);
        f(&sample[end + 1 - len..=end], finish(h, len));
    }
}

fn note_len(lens: &mut Vec<u32>, len: usize) {
    if let Err(at) = lens.binary_search(&(len as u32)) {
        lens.insert(at, len as u32);
    }
}

fn fold<'s>(s: &'s [u8], ignore_case: bool, scratch: &'s mut Scratch) -> &'s [u8] {
    if !ignore_case {
        return s;
    }
    scratch.extend(s.iter().map(u8::to_ascii_lowercase));
    scratch
}
