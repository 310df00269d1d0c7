//! An index from hashes to entry numbers: a cache line holds twelve numbers and their tags, and the table is exactly
//! sized when a list is loaded. The texts stay in [`Elements`](super::elements::Elements); callers compare them.
//!
//! Readers use an immutable table and a short sorted list of what came since; that list is merged when it is full, so
//! that one change costs a copy of a few kilobytes and readers never wait.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, LazyLock};

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Keeps those who choose keys from choosing collisions.
static SEED: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one(0u8));

#[inline]
pub(super) fn hash(bytes: &[u8]) -> u64 {
    xxh3_64_with_seed(bytes, *SEED)
}

#[inline]
pub(super) fn seed() -> u64 {
    *SEED
}

/// Entries added since the table was built that are kept beside it.
const RECENT_MAX: usize = if cfg!(test) { 4 } else { 512 };

/// Slots of a bucket: with their tags they fill a cache line.
const SLOTS: usize = 12;

/// Entries a bucket has on average in a full table: few buckets overflow then.
const FILL: usize = 9;

/// A cache line of the table.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Bucket {
    /// A mark for each slot, 0 when it is empty.
    tags: [u8; SLOTS],
    /// Entries that belong here went on to the next bucket.
    overflows: bool,
    ids: [u32; SLOTS],
}

const EMPTY: Bucket = Bucket {
    tags: [0; SLOTS],
    overflows: false,
    ids: [0; SLOTS],
};

/// How a table is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    /// Once a sample.
    Once,
    /// For many parts of a sample, most of which are not there: a bit for each hash, eight for each entry, answers
    /// most of these from a memory small enough for the caches.
    Often,
}

#[derive(Clone, Default)]
struct Table {
    buckets: Box<[Bucket]>,
    /// Empty when the table is asked once.
    filter: Box<[u64]>,
    used: usize,
}

impl Table {
    fn with_room_for(entries: usize, asked: Asked) -> Self {
        let buckets = entries / FILL + 1;
        let words = match asked {
            Asked::Once => 0,
            Asked::Often => (buckets * FILL).div_ceil(8),
        };
        Table {
            buckets: vec![EMPTY; buckets].into(),
            filter: vec![0; words].into(),
            used: 0,
        }
    }

    /// The word and bit of a hash in the filter, by other bits than those that find the bucket.
    #[inline]
    fn bit(&self, hash: u64) -> (usize, u64) {
        let bits = self.filter.len() as u128 * 64;
        let at = ((u128::from(hash.rotate_left(32)) * bits) >> 64) as usize;
        (at / 64, 1 << (at % 64))
    }

    fn has_room_for(&self, more: usize) -> bool {
        (self.used + more) / FILL < self.buckets.len()
    }

    /// Where a hash belongs (by its upper bits) and its mark there (by its lower bits).
    #[inline]
    fn home(&self, hash: u64) -> (usize, u8) {
        let bucket = (u128::from(hash) * self.buckets.len() as u128) >> 64;
        (bucket as usize, (hash % 255) as u8 + 1)
    }

    /// Takes an entry; there must be room.
    fn insert(&mut self, hash: u64, id: u32) {
        debug_assert!(self.has_room_for(1));
        let (word, bit) = self.bit(hash);
        if let Some(word) = self.filter.get_mut(word) {
            *word |= bit;
        }
        let (mut at, tag) = self.home(hash);
        loop {
            let bucket = &mut self.buckets[at];
            if let Some(slot) = bucket.tags.iter().position(|t| *t == 0) {
                bucket.tags[slot] = tag;
                bucket.ids[slot] = id;
                self.used += 1;
                return;
            }
            bucket.overflows = true;
            at = if at + 1 < self.buckets.len() {
                at + 1
            } else {
                0
            };
        }
    }

    /// Whether the filter does not rule the hash out.
    #[inline]
    fn may_have(&self, hash: u64) -> bool {
        let (word, bit) = self.bit(hash);
        self.filter.get(word).is_none_or(|w| w & bit != 0)
    }

    #[inline]
    fn each(&self, hash: u64, f: &mut impl FnMut(u32)) {
        if self.used == 0 || !self.may_have(hash) {
            return;
        }
        let (mut at, tag) = self.home(hash);
        for _ in 0..self.buckets.len() {
            let bucket = &self.buckets[at];
            for (slot, id) in bucket.tags.iter().zip(&bucket.ids) {
                if *slot == tag {
                    f(*id);
                }
            }
            if !bucket.overflows {
                return;
            }
            at = if at + 1 < self.buckets.len() {
                at + 1
            } else {
                0
            };
        }
    }
}

/// One immutable state of an index.
#[derive(Clone, Default)]
pub(super) struct Hashed {
    base: Arc<Table>,
    /// `(hash, number)`, sorted.
    recent: Vec<(u64, u32)>,
}

impl Hashed {
    /// An index with room for `entries`, filled by `fill`, which is given a way to insert.
    pub(super) fn build(
        entries: usize,
        asked: Asked,
        fill: impl FnOnce(&mut dyn FnMut(u64, u32)),
    ) -> Self {
        let mut table = Table::with_room_for(entries, asked);
        let mut rest = Vec::new();
        fill(&mut |hash, id| {
            if table.has_room_for(1) {
                table.insert(hash, id);
            } else {
                rest.push((hash, id));
            }
        });
        rest.sort_unstable();
        Hashed {
            base: Arc::new(table),
            recent: rest,
        }
    }

    /// The numbers whose hash may be this one, in no order; deleted entries among them.
    #[inline]
    pub(super) fn each(&self, hash: u64, mut f: impl FnMut(u32)) {
        self.base.each(hash, &mut f);
        if !self.recent.is_empty() {
            let from = self.recent.partition_point(|(h, _)| *h < hash);
            let same = self.recent[from..].iter().take_while(|(h, _)| *h == hash);
            for (_, id) in same {
                f(*id);
            }
        }
    }

    /// Puts those of the hashes that may be there to the front and says how many they are, without a branch for each:
    /// the memory they are looked for in is waited for once.
    #[inline]
    pub(super) fn sift(&self, hashes: &mut [u64]) -> usize {
        if !self.recent.is_empty() {
            return hashes.len();
        }
        let mut kept = 0;
        for at in 0..hashes.len() {
            let hash = hashes[at];
            hashes[kept] = hash;
            kept += usize::from(self.base.may_have(hash));
        }
        kept
    }

    /// This state and one entry more; `None` when it must be built again with more room.
    pub(super) fn with(&self, hash: u64, id: u32) -> Option<Hashed> {
        let mut next = self.clone();
        let at = next.recent.partition_point(|e| *e < (hash, id));
        next.recent.insert(at, (hash, id));
        if next.recent.len() < RECENT_MAX {
            return Some(next);
        }
        if !next.base.has_room_for(next.recent.len()) {
            return None;
        }
        let mut table = Table::clone(&next.base);
        for (hash, id) in next.recent.drain(..) {
            table.insert(hash, id);
        }
        next.base = Arc::new(table);
        Some(next)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.base.used == 0 && self.recent.is_empty()
    }

    /// Bytes it keeps.
    pub(super) fn memory(&self) -> usize {
        self.base.buckets.len() * size_of::<Bucket>()
            + self.base.filter.len() * 8
            + self.recent.capacity() * 16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_went_in_is_found() {
        let mut index = Hashed::build(1000, Asked::Often, |insert| {
            for id in 0..1000u32 {
                insert(hash(&id.to_le_bytes()), id);
            }
        });
        let mut rebuilt = 0;
        for id in 1000..5000u32 {
            let h = hash(&id.to_le_bytes());
            index = index.with(h, id).unwrap_or_else(|| {
                rebuilt += 1;
                Hashed::build(2 * id as usize, Asked::Often, |insert| {
                    (0..=id).for_each(|id| insert(hash(&id.to_le_bytes()), id));
                })
            });
        }
        assert!((1..5).contains(&rebuilt), "{rebuilt}");
        for id in 0..5000u32 {
            let mut found = false;
            index.each(hash(&id.to_le_bytes()), |got| found |= got == id);
            assert!(found, "{id}");
        }
    }

    #[test]
    fn equal_hashes_live_together() {
        let index = Hashed::build(4, Asked::Once, |insert| {
            (0..20).for_each(|id| insert(7, id))
        });
        let mut seen = Vec::new();
        index.each(7, |id| seen.push(id));
        seen.sort_unstable();
        assert_eq!(seen, (0..20).collect::<Vec<_>>());
    }

    #[test]
    fn an_entry_costs_less_than_eight_bytes() {
        let n = 100_000;
        let index = Hashed::build(n, Asked::Once, |insert| {
            (0..n as u32).for_each(|id| insert(hash(&id.to_le_bytes()), id));
        });
        assert!(index.memory() / n < 8, "{}", index.memory());
    }
}
