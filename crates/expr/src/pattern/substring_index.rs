//! Patterns anywhere inside a sample: `-m sub`. The first one of the list wins.
//!
//! A few patterns are searched one by one. Of many, a filter tells at which places of the sample one may begin
//! ([`GramFilter`]); what stands there is looked up by its hash, once for each length that occurs.

use arc_swap::ArcSwap;
use memchr::memmem::Finder;

use super::elements::Elements;
use super::gram_filter::GramFilter;
use super::table::{Asked, Hashed, hash};
use super::text_index::Scratch;

/// Up to here, searching one by one is the faster way.
const FEW: usize = if cfg!(test) { 3 } else { 16 };

/// Lengths that are looked for together.
const AT_ONCE: usize = 8;

pub(super) struct SubstringIndex {
    ignore_case: bool,
    state: ArcSwap<State>,
}

enum State {
    Few(Vec<(u32, Finder<'static>)>),
    Many { hashed: Hashed, grams: GramFilter },
}

impl SubstringIndex {
    pub(super) fn build(ignore_case: bool, all: &Elements) -> Self {
        SubstringIndex {
            ignore_case,
            state: ArcSwap::from_pointee(State::build(ignore_case, all, 1)),
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
            State::Many { hashed, grams } => {
                let mut grams = grams.clone();
                match hashed.with(hash(bytes), id).filter(|_| grams.add(bytes)) {
                    Some(hashed) => State::Many { hashed, grams },
                    None => State::build(self.ignore_case, all, 2),
                }
            }
            State::Few(_) => State::build(self.ignore_case, all, 2),
        };
        self.state.store(next.into());
    }

    pub(super) fn rebuild(&self, all: &Elements) {
        let state = State::build(self.ignore_case, all, 1);
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
            State::Many { hashed, grams } => {
                let mut best = None;
                grams.each(sample, |rest, lens| {
                    for lens in lens.chunks(AT_ONCE) {
                        let mut hashes = [0; AT_ONCE];
                        let mut parts = 0;
                        let fitting = lens.iter().map_while(|len| rest.get(..*len as usize));
                        for (slot, part) in hashes.iter_mut().zip(fitting) {
                            *slot = hash(part);
                            parts += 1;
                        }
                        let kept = hashed.sift(&mut hashes[..parts]);
                        for wanted in &hashes[..kept] {
                            hashed.each(*wanted, |id| {
                                let better = best.is_none_or(|b| id < b);
                                let begins = |key: &[u8]| self.begins(rest, key);
                                if better && all.with(id, |key, _| begins(key)) == Some(true) {
                                    best = Some(id);
                                }
                            });
                        }
                    }
                });
                best
            }
        }
    }

    /// Whether a pattern stands where `rest` begins (in lower case already when case is ignored).
    fn begins(&self, rest: &[u8], key: &[u8]) -> bool {
        rest.get(..key.len())
            .is_some_and(|part| match self.ignore_case {
                true => key.eq_ignore_ascii_case(part),
                false => key == part,
            })
    }

    pub(super) fn memory(&self) -> usize {
        match &**self.state.load() {
            State::Few(list) => list.iter().map(|(_, f)| f.needle().len() + 64).sum(),
            State::Many { hashed, grams } => hashed.memory() + grams.memory(),
        }
    }
}

impl State {
    /// With room for `more` times as many.
    fn build(ignore_case: bool, all: &Elements, more: usize) -> Self {
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
        let mut lens = Vec::with_capacity(all.len());
        all.visit(0, |_, key, _| {
            lens.push(key.len());
            true
        });
        let mut grams = GramFilter::with_room(lens.into_iter(), more);
        let hashed = Hashed::build(all.len() * more, Asked::Often, |insert| {
            all.visit(0, |id, key, _| {
                scratch.clear();
                let bytes = fold(key, ignore_case, &mut scratch);
                // what finds no room makes others less sure
                grams.add(bytes);
                insert(hash(bytes), id);
                true
            });
        });
        State::Many { hashed, grams }
    }
}

fn fold<'s>(s: &'s [u8], ignore_case: bool, scratch: &'s mut Scratch) -> &'s [u8] {
    if !ignore_case {
        return s;
    }
    scratch.extend(s.iter().map(u8::to_ascii_lowercase));
    scratch
}
