//! The entries of a list as text, by number: what `show map` shows and what the indexes point to.
//!
//! Entries lie packed in immutable chunks of 64, each replaced as a whole, so that readers need no lock and a change
//! copies a few kilobytes at most. Numbers grow and are never used again: they are the order of the entries.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwapOption;

const CHUNK: u32 = 64;

/// Segment `s` has `2^s` chunks, so that the directory grows without moving and 26 of them hold 2^32 entries.
const SEGMENTS: usize = 26;

type Segment = Box<[ArcSwapOption<Chunk>]>;

pub(super) struct Elements {
    segments: [OnceLock<Segment>; SEGMENTS],
    next: AtomicU32,
    live: AtomicUsize,
}

/// Up to 64 entries: their texts one after the other, and where each key and value ends.
#[derive(Clone, Default)]
struct Chunk {
    live: u64,
    ends: Box<[(u32, u32)]>,
    text: Box<[u8]>,
}

impl Chunk {
    fn entry(&self, i: usize) -> Option<(&[u8], &[u8])> {
        if self.live >> i & 1 == 0 {
            return None;
        }
        let start = match i {
            0 => 0,
            _ => self.ends.get(i - 1)?.1 as usize,
        };
        let (key_end, value_end) = *self.ends.get(i)?;
        let key = self.text.get(start..key_end as usize)?;
        let value = self.text.get(key_end as usize..value_end as usize)?;
        Some((key, value))
    }
}

/// Collects entries into a chunk.
#[derive(Default)]
struct Builder {
    live: u64,
    ends: Vec<(u32, u32)>,
    text: Vec<u8>,
}

impl Builder {
    fn push(&mut self, entry: Option<(&[u8], &[u8])>) {
        if let Some((key, value)) = entry {
            self.live |= 1 << self.ends.len();
            self.text.extend_from_slice(key);
            let key_end = self.text.len() as u32;
            self.text.extend_from_slice(value);
            self.ends.push((key_end, self.text.len() as u32));
        } else {
            let end = self.text.len() as u32;
            self.ends.push((end, end));
        }
    }

    fn build(&mut self) -> Chunk {
        let chunk = Chunk {
            live: self.live,
            ends: self.ends.as_slice().into(),
            text: self.text.as_slice().into(),
        };
        self.live = 0;
        self.ends.clear();
        self.text.clear();
        chunk
    }
}

/// Where a chunk is: its segment and its place there.
fn place(id: u32) -> (usize, usize, usize) {
    let chunk = u64::from(id / CHUNK) + 1;
    let segment = chunk.ilog2();
    let at = chunk - (1 << segment);
    (segment as usize, at as usize, (id % CHUNK) as usize)
}

/// The longest key and value together that an entry may have.
pub(super) const TEXT_MAX: usize = 1 << 20;

/// Numbers used up that are not worth a copy of the list.
const WORN_SLACK: usize = if cfg!(test) { 0 } else { 1 << 16 };

impl Elements {
    pub(super) fn new() -> Self {
        Elements {
            segments: [const { OnceLock::new() }; SEGMENTS],
            next: AtomicU32::new(0),
            live: AtomicUsize::new(0),
        }
    }

    /// Fills a new list.
    pub(super) fn collect<'a>(entries: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Self {
        let all = Elements::new();
        let mut builder = Builder::default();
        let mut next = 0u32;
        let mut last = 0;
        for (key, value) in entries {
            last = next;
            builder.push(Some((key, value)));
            next += 1;
            if next.is_multiple_of(CHUNK) {
                all.slot(last).store(Some(Arc::new(builder.build())));
            }
        }
        if !builder.ends.is_empty() {
            all.slot(last).store(Some(Arc::new(builder.build())));
        }
        all.next.store(next, Ordering::Release);
        all.live.store(next as usize, Ordering::Relaxed);
        all
    }

    /// Entries there are now.
    pub(super) fn len(&self) -> usize {
        self.live.load(Ordering::Relaxed)
    }

    /// One more than the largest number given out.
    pub(super) fn end(&self) -> u32 {
        self.next.load(Ordering::Acquire)
    }

    /// Whether so many entries came and went that the numbers should begin anew.
    pub(super) fn is_worn(&self) -> bool {
        let end = self.end();
        end as usize / 16 > self.len() + WORN_SLACK || end > u32::MAX - 1024
    }

    /// Bytes it takes beyond the texts.
    pub(super) fn memory(&self) -> usize {
        let chunks = self.end().div_ceil(CHUNK) as usize;
        let chunk = size_of::<Chunk>() + 2 * size_of::<usize>() + size_of::<u64>();
        chunks * (chunk + CHUNK as usize * size_of::<(u32, u32)>())
    }

    fn slot(&self, id: u32) -> &ArcSwapOption<Chunk> {
        let (segment, at, _) = place(id);
        let new = || {
            (0..1usize << segment)
                .map(|_| ArcSwapOption::empty())
                .collect()
        };
        &self.segments[segment].get_or_init(new)[at]
    }

    /// Gives an entry to `f`; `None` when it is gone.
    #[inline]
    pub(super) fn with<R>(&self, id: u32, f: impl FnOnce(&[u8], &[u8]) -> R) -> Option<R> {
        let (segment, at, i) = place(id);
        let slot = self.segments.get(segment)?.get()?.get(at)?;
        let chunk = slot.load();
        let (key, value) = chunk.as_ref()?.entry(i)?;
        Some(f(key, value))
    }

    pub(super) fn is_live(&self, id: u32) -> bool {
        self.with(id, |_, _| ()).is_some()
    }

    /// Goes through the entries from number `from` on until `f` says no; gives where to go on.
    pub(super) fn visit(
        &self,
        from: u32,
        mut f: impl FnMut(u32, &[u8], &[u8]) -> bool,
    ) -> Option<u32> {
        let end = self.end();
        let mut id = from;
        while id < end {
            let chunk = self.slot(id).load_full();
            let stop = (id / CHUNK + 1).saturating_mul(CHUNK).min(end);
            if let Some(chunk) = chunk {
                for id in id..stop {
                    if let Some((key, value)) = chunk.entry((id % CHUNK) as usize)
                        && !f(id, key, value)
                    {
                        return Some(id + 1);
                    }
                }
            }
            id = stop;
        }
        None
    }

    // What follows changes entries: callers take turns (the list's writer lock).

    /// Appends an entry; `None` when the numbers are used up.
    pub(super) fn push(&self, key: &[u8], value: &[u8]) -> Option<u32> {
        let id = self.end();
        let next = id.checked_add(1)?;
        self.edit(id, |_| Some((key.to_vec(), value.to_vec())));
        self.next.store(next, Ordering::Release);
        self.live.fetch_add(1, Ordering::Relaxed);
        Some(id)
    }

    pub(super) fn set(&self, id: u32, value: &[u8]) {
        self.edit(id, |old| old.map(|(key, _)| (key.to_vec(), value.to_vec())));
    }

    pub(super) fn remove(&self, id: u32) {
        if self.is_live(id) {
            self.edit(id, |_| None);
            self.live.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn edit(
        &self,
        id: u32,
        change: impl FnOnce(Option<(&[u8], &[u8])>) -> Option<(Vec<u8>, Vec<u8>)>,
    ) {
        let slot = self.slot(id);
        let old = slot.load_full().unwrap_or_default();
        let at = (id % CHUNK) as usize;
        let new = change(old.entry(at));
        let mut builder = Builder::default();
        for i in 0..old.ends.len().max(at + 1) {
            match &new {
                Some((key, value)) if i == at => builder.push(Some((key, value))),
                None if i == at => builder.push(None),
                _ => builder.push(old.entry(i)),
            }
        }
        let chunk = builder.build();
        // A chunk that will never hold anything again costs only its pointer.
        let is_over = chunk.live == 0 && chunk.ends.len() == CHUNK as usize;
        slot.store((!is_over).then(|| Arc::new(chunk)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dump(all: &Elements) -> Vec<(u32, String)> {
        let mut seen = Vec::new();
        all.visit(0, |id, k, v| {
            let (k, v) = (String::from_utf8_lossy(k), String::from_utf8_lossy(v));
            seen.push((id, format!("{k}={v}")));
            true
        });
        seen
    }

    #[test]
    fn entries_keep_their_numbers() {
        let texts: Vec<String> = (0..200).map(|i| format!("k{i}")).collect();
        let all = Elements::collect(texts.iter().map(|t| (t.as_bytes(), &b"v"[..])));
        assert_eq!((all.len(), all.end()), (200, 200));
        for i in 0..100u32 {
            all.remove(i * 2);
        }
        all.remove(0);
        all.set(1, b"changed");
        assert_eq!(all.push(b"new", b""), Some(200));
        assert_eq!(all.len(), 101);
        let seen = dump(&all);
        assert_eq!(seen.len(), 101);
        assert_eq!(seen[0], (1, "k1=changed".into()));
        assert_eq!(seen[1], (3, "k3=v".into()));
        assert_eq!(seen[100], (200, "new=".into()));
        assert!(!all.is_live(64));
        assert!(!all.is_live(100_000));
    }

    #[test]
    fn a_visit_can_be_continued() {
        let all = Elements::new();
        for i in 0..10u8 {
            all.push(&[i], b"");
        }
        let mut seen = Vec::new();
        let mut from = Some(0);
        while let Some(start) = from {
            let mut room = 3;
            from = all.visit(start, |id, _, _| {
                seen.push(id);
                room -= 1;
                room > 0
            });
        }
        assert_eq!(seen, (0..10).collect::<Vec<_>>());
    }
}
