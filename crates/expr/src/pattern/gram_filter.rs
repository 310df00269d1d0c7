//! Whether any of many texts may begin at a place of a sample, told by its next few bytes.
//!
//! A search for a million texts anywhere in a sample must say no at nearly every byte, and each no costs a look at
//! memory. Here it is one look a byte, whatever the lengths of the texts: texts are put into classes by length, each
//! class keeps bits for the first bytes (as many as all its texts have, eight at most) of each of them, and both bits
//! of a place lie in one word.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::table::seed;

/// Bits for each text, when it is full.
const BITS: usize = 16;

/// Room a new class has at least.
const ROOM: usize = 64;

/// The texts of a class begin with this many bytes that are looked at: they have this length or, in the last classes,
/// one up to the next.
const GRAMS: [usize; 5] = [1, 2, 3, 4, 8];

/// The class of texts of a length, which must not be 0.
fn class_of(len: usize) -> usize {
    GRAMS.iter().rposition(|gram| *gram <= len).unwrap_or(0)
}

/// Texts of similar length.
#[derive(Clone)]
struct Class {
    gram: usize,
    /// The lengths that occur, shortest first.
    lens: Vec<u32>,
    /// Shared with the states before: more bits in it only mean more looks.
    bits: Arc<Bits>,
}

struct Bits {
    words: Box<[AtomicU64]>,
    used: AtomicUsize,
}

/// See the module.
#[derive(Clone, Default)]
pub(super) struct GramFilter {
    classes: Vec<Class>,
    /// There is a text without a byte.
    has_empty: bool,
}

impl GramFilter {
    /// A filter with room for `more` times as many texts as `lens` says there are.
    pub(super) fn with_room(lens: impl Iterator<Item = usize>, more: usize) -> Self {
        let mut counts = [0; GRAMS.len()];
        lens.filter(|len| *len > 0)
            .for_each(|len| counts[class_of(len)] += 1);
        let classes = GRAMS.iter().zip(counts).filter(|(_, count)| *count > 0);
        let class = |(gram, count): (&usize, usize)| Class::new(*gram, count * more);
        GramFilter {
            classes: classes.map(class).collect(),
            has_empty: false,
        }
    }

    /// Learns a text; false when there is no room for it.
    pub(super) fn add(&mut self, text: &[u8]) -> bool {
        if text.is_empty() {
            self.has_empty = true;
            return true;
        }
        let gram = GRAMS[class_of(text.len())];
        let class = match self.classes.iter_mut().find(|c| c.gram == gram) {
            Some(class) => class,
            None => {
                self.classes.push(Class::new(gram, 0));
                let last = self.classes.len() - 1;
                &mut self.classes[last]
            }
        };
        class.add(text)
    }

    /// Gives the places of `sample` to `f` where one of the texts may begin: what follows there, and the lengths of the
    /// texts in question, shortest first. Some are too long for what follows; no place comes twice with a length.
    #[inline]
    pub(super) fn each<'s>(&self, sample: &'s [u8], mut f: impl FnMut(&'s [u8], &[u32])) {
        if self.has_empty {
            f(&[], &[0]);
        }
        for class in &self.classes {
            class.each(sample, &mut f);
        }
    }

    pub(super) fn memory(&self) -> usize {
        self.classes.iter().map(|c| c.bits.words.len() * 8).sum()
    }
}

impl Class {
    fn new(gram: usize, room: usize) -> Self {
        let words = room.max(ROOM).div_ceil(64 / BITS);
        Class {
            gram,
            lens: Vec::new(),
            bits: Arc::new(Bits {
                words: (0..words).map(|_| AtomicU64::new(0)).collect(),
                used: AtomicUsize::new(0),
            }),
        }
    }

    fn add(&mut self, text: &[u8]) -> bool {
        let len = text.len() as u32;
        if let Err(at) = self.lens.binary_search(&len) {
            self.lens.insert(at, len);
        }
        let words = &*self.bits.words;
        let first = text.get(..self.gram).unwrap_or_default();
        let (at, bits) = place(number(first) ^ seed(), words.len());
        if let Some(word) = words.get(at) {
            word.fetch_or(bits, Ordering::Release);
        }
        // twice as many still are told apart well enough
        let most = 2 * words.len() * (64 / BITS);
        self.bits.used.fetch_add(1, Ordering::Relaxed) < most
    }

    #[inline]
    fn each<'s>(&self, sample: &'s [u8], f: &mut impl FnMut(&'s [u8], &[u32])) {
        match self.gram {
            1 => self.scan::<1>(sample, f),
            2 => self.scan::<2>(sample, f),
            3 => self.scan::<3>(sample, f),
            4 => self.scan::<4>(sample, f),
            _ => self.scan::<8>(sample, f),
        }
    }

    fn scan<'s, const N: usize>(&self, sample: &'s [u8], f: &mut impl FnMut(&'s [u8], &[u32])) {
        let (words, seed) = (&*self.bits.words, seed());
        for (start, gram) in sample.array_windows::<N>().enumerate() {
            let (at, bits) = place(number(gram) ^ seed, words.len());
            let word = words.get(at).map_or(0, |w| w.load(Ordering::Acquire));
            if word & bits == bits {
                f(sample.get(start..).unwrap_or_default(), &self.lens);
            }
        }
    }
}

/// The bytes as one number.
#[inline]
fn number(bytes: &[u8]) -> u64 {
    let mut all = [0; 8];
    let len = bytes.len().min(8);
    all[..len].copy_from_slice(&bytes[..len]);
    u64::from_le_bytes(all)
}

/// The word of a gram among so many, and its two bits there.
#[inline]
fn place(gram: u64, words: usize) -> (usize, u64) {
    let product = u128::from(gram) * u128::from(0x9e37_79b9_7f4a_7c15_u64);
    let mixed = (product >> 64) as u64 ^ product as u64;
    let at = (u128::from(mixed) * words as u128) >> 64;
    (at as usize, 1 << (mixed & 63) | 1 << (mixed >> 6 & 63))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn parts<'s>(filter: &GramFilter, sample: &'s [u8]) -> Vec<&'s [u8]> {
        let mut seen = Vec::new();
        filter.each(sample, |rest, lens| {
            seen.extend(lens.iter().map_while(|len| rest.get(..*len as usize)));
        });
        seen
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]
        /// No text that is there is missed, and nothing comes twice.
        #[test]
        fn every_text_is_told(
            first in proptest::collection::vec("[ab]{0,12}", 0..20),
            later in proptest::collection::vec("[ab]{0,12}", 0..20),
            sample in "[ab]{0,30}",
        ) {
            let mut filter = GramFilter::with_room(first.iter().map(String::len), 1);
            let texts: Vec<&[u8]> = first.iter().chain(&later).map(String::as_bytes).collect();
            texts.iter().for_each(|t| { filter.add(t); });
            let sample = sample.as_bytes();
            let told = parts(&filter, sample);
            let places: BTreeSet<(usize, usize)> =
                told.iter().map(|p| (p.as_ptr() as usize, p.len())).collect();
            prop_assert_eq!(places.len(), told.len());
            for text in texts {
                let is_in = text.is_empty() || sample.windows(text.len()).any(|w| w == text);
                prop_assert!(!is_in || told.contains(&text));
            }
        }
    }

    #[test]
    fn few_places_are_told_in_vain() {
        let texts: Vec<String> = (0..20_000u64)
            .map(|n| format!("{:x}", seed() ^ n << 40))
            .collect();
        let mut filter = GramFilter::with_room(texts.iter().map(String::len), 1);
        assert!(texts.iter().all(|t| filter.add(t.as_bytes())));
        let others = (0..20_000u64).map(|n| format!("{n:08}-"));
        let told: usize = others.map(|s| parts(&filter, s.as_bytes()).len()).sum();
        assert!(told < 20_000 / 4, "{told}");
    }
}
