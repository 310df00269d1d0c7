//! Exact, prefix and suffix lookups of texts: `-m str`, `beg`, `end`, and `bin` over the bytes its digits stand for.
//!
//! Prefixes and suffixes are looked up by hash, once for each length that occurs among the patterns.

use arc_swap::ArcSwap;
use smallvec::SmallVec;

use super::elements::Elements;
use super::table::{Asked, Hashed, hash};

/// Which part of the sample must equal the pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Whole,
    /// The longest pattern wins.
    Prefix,
    /// The first pattern of the list wins.
    Suffix,
}

/// How a pattern's text becomes the bytes to compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    AsIs,
    IgnoreCase,
    Hex,
}

pub(super) type Scratch = SmallVec<[u8; 256]>;

impl Form {
    /// The bytes a pattern stands for.
    pub(super) fn of_key<'k>(self, key: &'k [u8], scratch: &'k mut Scratch) -> &'k [u8] {
        match self {
            Form::AsIs => return key,
            Form::IgnoreCase => scratch.extend(key.iter().map(u8::to_ascii_lowercase)),
            Form::Hex => scratch.extend(
                key.as_chunks()
                    .0
                    .iter()
                    .map(|[h, l]| digit(*h) << 4 | digit(*l)),
            ),
        }
        scratch
    }

    fn of_sample<'k>(self, sample: &'k [u8], scratch: &'k mut Scratch) -> &'k [u8] {
        match self {
            Form::AsIs | Form::Hex => sample,
            Form::IgnoreCase => {
                scratch.extend(sample.iter().map(u8::to_ascii_lowercase));
                scratch
            }
        }
    }

    fn len(self, key: &[u8]) -> usize {
        match self {
            Form::Hex => key.len() / 2,
            _ => key.len(),
        }
    }

    /// Whether the pattern stands for these bytes (which are in lower case already when case is ignored).
    fn equals(self, key: &[u8], bytes: &[u8]) -> bool {
        match self {
            Form::AsIs => key == bytes,
            Form::IgnoreCase => key.eq_ignore_ascii_case(bytes),
            Form::Hex => {
                key.len() == bytes.len() * 2
                    && key
                        .as_chunks()
                        .0
                        .iter()
                        .zip(bytes)
                        .all(|([h, l], b)| digit(*h) << 4 | digit(*l) == *b)
            }
        }
    }
}

fn digit(c: u8) -> u8 {
    (c as char).to_digit(16).unwrap_or(0) as u8
}

/// Refuses what is not an even number of hexadecimal digits.
pub(super) fn check_hex(key: &str) -> Result<(), String> {
    if key.is_empty() || !key.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err(format!("'{key}' is not a hexadecimal string"));
    }
    if !key.len().is_multiple_of(2) {
        return Err(format!(
            "'{key}' has an odd number of hexadecimal digits: each byte takes two"
        ));
    }
    Ok(())
}

pub(super) struct TextIndex {
    part: Part,
    form: Form,
    state: ArcSwap<State>,
}

/// Up to here, comparing one by one is the faster way: the patterns written in ACLs are few.
const FEW: usize = if cfg!(test) { 3 } else { 8 };

enum State {
    /// The bytes to compare, in lower case already when case is ignored.
    Few(Vec<(u32, Box<[u8]>)>),
    Many {
        hashed: Hashed,
        /// The lengths that occur, longest first. Unused for whole texts.
        lens: Vec<u32>,
    },
}

impl TextIndex {
    pub(super) fn build(part: Part, form: Form, all: &Elements) -> Self {
        TextIndex {
            part,
            form,
            state: ArcSwap::from_pointee(State::build(part, form, all, all.len())),
        }
    }

    /// Adds an entry that `all` already has.
    pub(super) fn add(&self, id: u32, key: &[u8], all: &Elements) {
        let state = self.state.load();
        let mut scratch = Scratch::new();
        let bytes = self.form.of_key(key, &mut scratch);
        let next = match &**state {
            State::Few(few) if few.len() < FEW => {
                let mut few = few.clone();
                few.push((id, bytes.into()));
                State::Few(few)
            }
            State::Many { hashed, lens } if let Some(hashed) = hashed.with(hash(bytes), id) => {
                let mut lens = lens.clone();
                note_len(self.part, &mut lens, bytes.len());
                State::Many { hashed, lens }
            }
            // Room for as many again, so that growing costs little for each entry.
            _ => State::build(self.part, self.form, all, all.len() * 2),
        };
        self.state.store(next.into());
    }

    /// Drops what deleted entries left behind.
    pub(super) fn rebuild(&self, all: &Elements) {
        let state = State::build(self.part, self.form, all, all.len());
        self.state.store(state.into());
    }

    /// The number of the entry that matches.
    pub(super) fn find(&self, sample: &[u8], all: &Elements) -> Option<u32> {
        match &**self.state.load() {
            State::Few(few) => self.find_few(few, sample, all),
            State::Many { hashed, lens } => self.find_many(hashed, lens, sample, all),
        }
    }

    fn find_few(&self, few: &[(u32, Box<[u8]>)], sample: &[u8], all: &Elements) -> Option<u32> {
        let matches = |key: &[u8]| {
            let part = match self.part {
                Part::Whole => Some(sample),
                Part::Prefix => sample.get(..key.len()),
                Part::Suffix => sample
                    .len()
                    .checked_sub(key.len())
                    .and_then(|from| sample.get(from..)),
            };
            part.is_some_and(|part| match self.form {
                Form::IgnoreCase => part.eq_ignore_ascii_case(key),
                Form::AsIs | Form::Hex => part == key,
            })
        };
        let mut hits = few
            .iter()
            .filter(|(id, key)| matches(key) && all.is_live(*id));
        let hit = match self.part {
            // Of equal ones the first: `max_by_key` would give the last.
            Part::Prefix => hits.reduce(|a, b| if b.1.len() > a.1.len() { b } else { a }),
            Part::Whole | Part::Suffix => hits.next(),
        };
        hit.map(|(id, _)| *id)
    }

    fn find_many(
        &self,
        hashed: &Hashed,
        lens: &[u32],
        sample: &[u8],
        all: &Elements,
    ) -> Option<u32> {
        let mut scratch = Scratch::new();
        let sample = self.form.of_sample(sample, &mut scratch);
        let look = |bytes: &[u8]| {
            let mut best = None;
            hashed.each(hash(bytes), |id| {
                let better = best.is_none_or(|b| id < b);
                if better && all.with(id, |key, _| self.form.equals(key, bytes)) == Some(true) {
                    best = Some(id);
                }
            });
            best
        };
        let fitting = || {
            let lens = lens.iter().map(|l| *l as usize);
            lens.filter(|l| *l <= sample.len())
        };
        match self.part {
            Part::Whole => look(sample),
            Part::Prefix => fitting().find_map(|len| look(&sample[..len])),
            Part::Suffix => fitting()
                .filter_map(|len| look(&sample[sample.len() - len..]))
                .min(),
        }
    }

    /// The numbers of all entries with exactly this text (of an index of whole texts as they are).
    pub(super) fn all_equal(&self, text: &[u8], all: &Elements) -> Vec<u32> {
        debug_assert_eq!((self.part, self.form), (Part::Whole, Form::AsIs));
        let mut ids = Vec::new();
        let mut note = |id| {
            if all.with(id, |key, _| key == text) == Some(true) {
                ids.push(id);
            }
        };
        match &**self.state.load() {
            State::Few(few) => few.iter().for_each(|(id, _)| note(*id)),
            State::Many { hashed, .. } => hashed.each(hash(text), note),
        }
        ids.sort_unstable();
        ids
    }

    pub(super) fn memory(&self) -> usize {
        match &**self.state.load() {
            State::Few(few) => few.iter().map(|(_, key)| key.len() + 40).sum(),
            State::Many { hashed, lens } => hashed.memory() + lens.len() * 4,
        }
    }
}

impl State {
    fn build(part: Part, form: Form, all: &Elements, room: usize) -> Self {
        if all.len() <= FEW {
            let mut few = Vec::with_capacity(all.len());
            all.visit(0, |id, key, _| {
                let mut scratch = Scratch::new();
                few.push((id, form.of_key(key, &mut scratch).into()));
                true
            });
            return State::Few(few);
        }
        let mut lens = Vec::new();
        let asked = match part {
            Part::Whole => Asked::Once,
            Part::Prefix | Part::Suffix => Asked::Often,
        };
        let hashed = Hashed::build(room, asked, |insert| {
            all.visit(0, |id, key, _| {
                let mut scratch = Scratch::new();
                let bytes = form.of_key(key, &mut scratch);
                insert(hash(bytes), id);
                note_len(part, &mut lens, form.len(key));
                true
            });
        });
        State::Many { hashed, lens }
    }
}

fn note_len(part: Part, lens: &mut Vec<u32>, len: usize) {
    let len = len as u32;
    if part != Part::Whole
        && let Err(at) = lens.binary_search_by(|l| len.cmp(l))
    {
        lens.insert(at, len);
    }
}
