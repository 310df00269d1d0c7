//! An index from hashes to entry numbers: one byte of tag and four of number an entry, exactly sized when a list is
//! loaded. The texts stay in [`Elements`](super::elements::Elements); callers compare them.
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

/// The table is as full as this before it is built again: 3/4, which keeps probes short.
const fn capacity_for(entries: usize) -> usize {
    entries + entries / 3 + 8
}

#[derive(Clone, Default)]
struct Table {
    tags: Box<[u8]>,
    ids: Box<[u32]>,
    used: usize,
}

impl Table {
    fn with_room_for(entries: usize) -> Self {
        let slots = capacity_for(entries);
        Table {
            tags: vec![0; slots].into(),
            ids: vec![0; slots].into(),
            used: 0,
        }
    }

    fn has_room(&self) -> bool {
        capacity_for(self.used + 1) <= self.tags.len()
    }

    /// Where a hash belongs (by its upper bits) and its mark there (by its lower bits; 0 is an empty slot).
    #[inline]
    fn home(&self, hash: u64) -> (usize, u8) {
        let slot = (u128::from(hash) * self.tags.len() as u128) >> 64;
        (slot as usize, (hash % 255) as u8 + 1)
    }

    fn insert(&mut self, hash: u64, id: u32) {
        let (mut slot, tag) = self.home(hash);
        while self.tags[slot] != 0 {
            slot += 1;
            if slot == self.tags.len() {
                slot = 0;
            }
        }
        self.tags[slot] = tag;
        self.ids[slot] = id;
        self.used += 1;
    }

    #[inline]
    fn each(&self, hash: u64, f: &mut impl FnMut(u32)) {
        if self.used == 0 {
            return;
        }
        let (mut slot, tag) = self.home(hash);
        // There is always an empty slot.
        loop {
            match self.tags[slot] {
                0 => return,
                t if t == tag => f(self.ids[slot]),
                _ => {}
            }
            slot += 1;
            if slot == self.tags.len() {
                slot = 0;
            }
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
    pub(super) fn build(entries: usize, fill: impl FnOnce(&mut dyn FnMut(u64, u32))) -> Self {
        let mut table = Table::with_room_for(entries);
        let mut rest = Vec::new();
        fill(&mut |hash, id| {
            if table.has_room() || table.used < entries {
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

    /// This state and one entry more; `None` when it must be built again with more room.
    pub(super) fn with(&self, hash: u64, id: u32) -> Option<Hashed> {
        let mut next = self.clone();
        let at = next.recent.partition_point(|e| *e < (hash, id));
        next.recent.insert(at, (hash, id));
        if next.recent.len() < RECENT_MAX {
            return Some(next);
        }
        if capacity_for(next.base.used + next.recent.len()) > next.base.tags.len() {
            return None;
        }
        let mut table = Table::clone(&next.base);
        for (hash, id) in next.recent.drain(..) {
            table.insert(hash, id);
        }
        next.base = Arc::new(table);
        Some(next)
    }

    /// Bytes it keeps.
    pub(super) fn memory(&self) -> usize {
        self.base.tags.len() * 5 + self.recent.capacity() * 16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_went_in_is_found() {
        let mut index = Hashed::build(1000, |insert| {
            for id in 0..1000u32 {
                insert(hash(&id.to_le_bytes()), id);
            }
        });
        let mut rebuilt = 0;
        for id in 1000..5000u32 {
            let h = hash(&id.to_le_bytes());
            index = index.with(h, id).unwrap_or_else(|| {
                rebuilt += 1;
                Hashed::build(2 * id as usize, |insert| {
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
        let index = Hashed::build(4, |insert| (0..20).for_each(|id| insert(7, id)));
        let mut seen = Vec::new();
        index.each(7, |id| seen.push(id));
        seen.sort_unstable();
        assert_eq!(seen, (0..20).collect::<Vec<_>>());
    }

    #[test]
    fn an_entry_costs_less_than_eight_bytes() {
        let n = 100_000;
        let index = Hashed::build(n, |insert| {
            (0..n as u32).for_each(|id| insert(hash(&id.to_le_bytes()), id));
        });
        assert!(index.memory() / n < 8, "{}", index.memory());
    }
}
