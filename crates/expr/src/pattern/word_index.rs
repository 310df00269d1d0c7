//! Patterns between delimiters: `-m dir` (`/` and `?`) and `-m dom` (`/`, `?`, `.` and `:`).
//!
//! A pattern is compared without the delimiters around it; those inside it count. The first one of the list wins.

use arc_swap::ArcSwap;

use super::elements::Elements;
use super::table::{Asked, Hashed, hash};
use super::text_index::Scratch;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Delims {
    Dir,
    Dom,
}

impl Delims {
    #[inline]
    pub(super) fn has(self, c: u8) -> bool {
        match self {
            Delims::Dir => matches!(c, b'/' | b'?'),
            Delims::Dom => matches!(c, b'/' | b'?' | b'.' | b':'),
        }
    }

    pub(super) fn strip(self, mut s: &[u8]) -> &[u8] {
        while let [first, rest @ ..] = s
            && self.has(*first)
        {
            s = rest;
        }
        while let [rest @ .., last] = s
            && self.has(*last)
        {
            s = rest;
        }
        s
    }

    /// How many words, separated by delimiters, a stripped text has.
    fn words(self, s: &[u8]) -> usize {
        let ends = |i: usize| s.get(i + 1).is_none_or(|n| self.has(*n));
        (0..s.len()).filter(|&i| !self.has(s[i]) && ends(i)).count()
    }
}

pub(super) struct WordIndex {
    delims: Delims,
    ignore_case: bool,
    state: ArcSwap<State>,
}

struct State {
    hashed: Hashed,
    /// The most words a pattern has: no longer piece of a sample is looked up.
    words_max: usize,
    /// The lengths that patterns have, [`length_bit`] each: few pieces of a sample need to be looked up.
    lengths: u64,
}

/// A bit for each length, the last for all longer ones.
fn length_bit(len: usize) -> u64 {
    1 << len.min(63)
}

impl WordIndex {
    pub(super) fn build(delims: Delims, ignore_case: bool, all: &Elements) -> Self {
        WordIndex {
            delims,
            ignore_case,
            state: ArcSwap::from_pointee(State::build(delims, ignore_case, all, all.len())),
        }
    }

    pub(super) fn add(&self, id: u32, key: &[u8], all: &Elements) {
        let state = self.state.load();
        let mut scratch = Scratch::new();
        let bytes = fold(self.delims.strip(key), self.ignore_case, &mut scratch);
        let next = match state.hashed.with(hash(bytes), id) {
            Some(hashed) => State {
                hashed,
                words_max: state.words_max.max(self.delims.words(bytes)),
                lengths: state.lengths | length_bit(bytes.len()),
            },
            None => State::build(self.delims, self.ignore_case, all, all.len() * 2),
        };
        self.state.store(next.into());
    }

    pub(super) fn rebuild(&self, all: &Elements) {
        let state = State::build(self.delims, self.ignore_case, all, all.len());
        self.state.store(state.into());
    }

    pub(super) fn find(&self, sample: &[u8], all: &Elements) -> Option<u32> {
        let state = self.state.load();
        let mut scratch = Scratch::new();
        let sample = fold(sample, self.ignore_case, &mut scratch);
        let delims = self.delims;
        let mut best: Option<u32> = None;
        let begins = |i: usize| !delims.has(sample[i]) && (i == 0 || delims.has(sample[i - 1]));
        for start in (0..sample.len()).filter(|&i| begins(i)) {
            let mut words = 0;
            for end in start + 1..=sample.len() {
                let is_end = sample.get(end).is_none_or(|c| delims.has(*c));
                if !is_end || delims.has(sample[end - 1]) {
                    continue;
                }
                let piece = &sample[start..end];
                if state.lengths & length_bit(piece.len()) != 0 {
                    state.hashed.each(hash(piece), |id| {
                        let better = best.is_none_or(|b| id < b);
                        let equal = |key: &[u8]| match self.ignore_case {
                            true => delims.strip(key).eq_ignore_ascii_case(piece),
                            false => delims.strip(key) == piece,
                        };
                        if better && all.with(id, |key, _| equal(key)) == Some(true) {
                            best = Some(id);
                        }
                    });
                }
                words += 1;
                if words >= state.words_max {
                    break;
                }
            }
        }
        best
    }

    pub(super) fn memory(&self) -> usize {
        self.state.load().hashed.memory()
    }
}

impl State {
    fn build(delims: Delims, ignore_case: bool, all: &Elements, room: usize) -> Self {
        let mut words_max = 0;
        let mut lengths = 0;
        let hashed = Hashed::build(room, Asked::Often, |insert| {
            all.visit(0, |id, key, _| {
                let mut scratch = Scratch::new();
                let bytes = fold(delims.strip(key), ignore_case, &mut scratch);
                insert(hash(bytes), id);
                words_max = words_max.max(delims.words(bytes));
                lengths |= length_bit(bytes.len());
                true
            });
        });
        State {
            hashed,
            words_max,
            lengths,
        }
    }
}

fn fold<'s>(s: &'s [u8], ignore_case: bool, scratch: &'s mut Scratch) -> &'s [u8] {
    if !ignore_case {
        return s;
    }
    scratch.extend(s.iter().map(u8::to_ascii_lowercase));
    scratch
}
