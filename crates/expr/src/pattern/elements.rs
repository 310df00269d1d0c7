//! The entries of a list as text, by position: what `show map` shows and what the indexes point to.
//!
//! Entries lie packed in immutable chunks of about 2 kB, each replaced as a whole, so that readers need no lock, a
//! change copies little, and an entry is found with two memory accesses. Positions grow and are not used again: their
//! order is that of the entries.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwapOption;

/// Bytes of entries in a chunk: with its head and the counts of its `Arc` it takes 2 kB.
const CHUNK: usize = 2000;

/// Entries begin at multiples of this.
const STEP: usize = 4;

/// Positions a chunk has: the lower bits of a position are the place in it.
const PLACES: u32 = 512;

/// Segment `s` has `2^s` chunks, so that the directory grows without moving.
const SEGMENTS: usize = 23;

/// The longest pattern and value together that an entry may have.
pub(super) const TEXT_MAX: usize = 1 << 20;

/// Positions used up that are not worth a copy of the list.
const WORN_SLACK: usize = if cfg!(test) { 0 } else { 1 << 20 };

type Segment = Box<[ArcSwapOption<Chunk>]>;

pub(super) struct Elements {
    segments: [OnceLock<Segment>; SEGMENTS],
    /// Where the next entry goes.
    end: AtomicU32,
    live: AtomicUsize,
    /// Entries were removed: from then on, indexes may know numbers of entries that are gone.
    has_removed: AtomicUsize,
}

#[derive(Clone)]
struct Chunk {
    /// Bytes in use.
    used: u16,
    live: u16,
    /// Entries whose text is not in `bytes`: too long, or changed to another length.
    elsewhere: Vec<Long>,
    bytes: [u8; CHUNK],
}

/// The place of an entry in its chunk, its pattern and its value.
type Long = (u16, Arc<[u8]>, Arc<[u8]>);

/// Four bytes before each entry.
#[derive(Clone, Copy)]
struct Head {
    flags: u8,
    key_len: u8,
    value_len: u16,
}

const LIVE: u8 = 1;
const ELSEWHERE: u8 = 2;

impl Head {
    fn read(bytes: &[u8]) -> Option<Head> {
        let &[flags, key_len, low, high] = bytes.first_chunk()?;
        Some(Head {
            flags,
            key_len,
            value_len: u16::from_le_bytes([low, high]),
        })
    }

    fn write(self) -> [u8; STEP] {
        let [low, high] = self.value_len.to_le_bytes();
        [self.flags, self.key_len, low, high]
    }

    /// Bytes the entry takes, this head included.
    fn stride(self) -> usize {
        let text = usize::from(self.key_len) + usize::from(self.value_len);
        STEP + text.next_multiple_of(STEP)
    }
}

impl Chunk {
    fn new() -> Self {
        Chunk {
            used: 0,
            live: 0,
            elsewhere: Vec::new(),
            bytes: [0; CHUNK],
        }
    }

    fn entry(&self, at: usize) -> Option<(&[u8], &[u8])> {
        let bytes = self.bytes.get(at..)?;
        let head = Head::read(bytes)?;
        if head.flags & LIVE == 0 {
            return None;
        }
        if head.flags & ELSEWHERE != 0 {
            let (_, key, value) = self.elsewhere.iter().find(|e| usize::from(e.0) == at)?;
            return Some((key, value));
        }
        let key_end = STEP + usize::from(head.key_len);
        let value_end = key_end + usize::from(head.value_len);
        Some((bytes.get(STEP..key_end)?, bytes.get(key_end..value_end)?))
    }

    /// Appends an entry; gives its place, `None` when it does not fit.
    fn push(&mut self, key: &[u8], value: &[u8]) -> Option<usize> {
        let at = usize::from(self.used);
        let inline = key.len() <= usize::from(u8::MAX) && key.len() + value.len() <= CHUNK / 4;
        let head = Head {
            flags: if inline { LIVE } else { LIVE | ELSEWHERE },
            key_len: if inline { key.len() as u8 } else { 0 },
            value_len: if inline { value.len() as u16 } else { 0 },
        };
        let end = at + head.stride();
        let room = self.bytes.get_mut(at..end)?;
        let (front, text) = room.split_at_mut(STEP);
        front.copy_from_slice(&head.write());
        if inline {
            text[..key.len()].copy_from_slice(key);
            text[key.len()..key.len() + value.len()].copy_from_slice(value);
        } else {
            self.elsewhere.push((at as u16, key.into(), value.into()));
        }
        self.used = end as u16;
        self.live += 1;
        Some(at)
    }

    fn set(&mut self, at: usize, value: &[u8]) {
        let Some(key) = self.entry(at).map(|(key, _)| Arc::from(key)) else {
            return;
        };
        let Some(mut head) = Head::read(&self.bytes[at..]) else {
            return;
        };
        if head.flags & ELSEWHERE != 0 {
            self.elsewhere.retain(|e| usize::from(e.0) != at);
        } else if usize::from(head.value_len) == value.len() {
            let from = at + STEP + usize::from(head.key_len);
            self.bytes[from..from + value.len()].copy_from_slice(value);
            return;
        }
        head.flags |= ELSEWHERE;
        self.bytes[at..at + STEP].copy_from_slice(&head.write());
        self.elsewhere.push((at as u16, key, value.into()));
    }

    fn remove(&mut self, at: usize) {
        if let Some(flags) = self.bytes.get_mut(at) {
            *flags = 0;
            self.elsewhere.retain(|e| usize::from(e.0) != at);
            self.live -= 1;
        }
    }
}

/// Where a position lies: its segment, its chunk there and its byte in that.
fn place(id: u32) -> (usize, usize, usize) {
    let chunk = id / PLACES + 1;
    let segment = chunk.ilog2();
    let at = chunk - (1 << segment);
    (segment as usize, at as usize, (id % PLACES) as usize * STEP)
}

/// The position of a byte of chunk number `chunk`.
fn position(chunk: u32, at: usize) -> u32 {
    chunk * PLACES + (at / STEP) as u32
}

impl Elements {
    pub(super) fn new() -> Self {
        Elements {
            segments: [const { OnceLock::new() }; SEGMENTS],
            end: AtomicU32::new(0),
            live: AtomicUsize::new(0),
            has_removed: AtomicUsize::new(0),
        }
    }

    /// Fills a new list.
    pub(super) fn collect<'a>(entries: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Self {
        let all = Elements::new();
        let mut chunk = Chunk::new();
        let mut number = 0;
        let mut live = 0;
        for (key, value) in entries {
            if chunk.push(key, value).is_none() {
                let full = std::mem::replace(&mut chunk, Chunk::new());
                all.slot(number).store(Some(Arc::new(full)));
                number += 1;
                chunk.push(key, value);
            }
            live += 1;
        }
        let end = position(number, chunk.used.into());
        if chunk.used > 0 {
            all.slot(number).store(Some(Arc::new(chunk)));
        }
        all.end.store(end, Ordering::Release);
        all.live.store(live, Ordering::Relaxed);
        all
    }

    /// Entries there are now.
    pub(super) fn len(&self) -> usize {
        self.live.load(Ordering::Relaxed)
    }

    /// Whether so many entries came and went that the positions should begin anew.
    pub(super) fn is_worn(&self) -> bool {
        let end = self.end.load(Ordering::Relaxed);
        end as usize / 256 > self.len() + WORN_SLACK || end > u32::MAX - 4 * PLACES
    }

    /// Bytes it takes beyond the texts.
    pub(super) fn memory(&self) -> usize {
        let chunks = (self.end.load(Ordering::Relaxed) / PLACES + 1) as usize;
        let mut texts = 0;
        self.visit(0, |_, key, value| {
            texts += key.len() + value.len();
            true
        });
        let each = size_of::<Chunk>() + 2 * size_of::<usize>() + size_of::<usize>();
        (chunks * each).saturating_sub(texts)
    }

    fn slot(&self, chunk: u32) -> &ArcSwapOption<Chunk> {
        let (segment, at, _) = place(chunk * PLACES);
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
        let (segment, chunk, at) = place(id);
        let slot = self.segments.get(segment)?.get()?.get(chunk)?;
        let chunk = slot.load();
        let (key, value) = chunk.as_ref()?.entry(at)?;
        Some(f(key, value))
    }

    /// Whether an entry that was there once still is.
    #[inline]
    pub(super) fn is_live(&self, id: u32) -> bool {
        self.has_removed.load(Ordering::Acquire) == 0 || self.with(id, |_, _| ()).is_some()
    }

    /// Goes through the entries from position `from` on until `f` says no; gives where to go on.
    pub(super) fn visit(
        &self,
        from: u32,
        mut f: impl FnMut(u32, &[u8], &[u8]) -> bool,
    ) -> Option<u32> {
        let end = self.end.load(Ordering::Acquire);
        let (mut number, mut start) = (from / PLACES, (from % PLACES) as usize * STEP);
        while position(number, 0) < end {
            let chunk = self.slot(number).load_full();
            if let Some(chunk) = chunk {
                let mut at = 0;
                while at < usize::from(chunk.used) {
                    let Some(head) = Head::read(&chunk.bytes[at..]) else {
                        break;
                    };
                    if at >= start
                        && let Some((key, value)) = chunk.entry(at)
                        && !f(position(number, at), key, value)
                    {
                        return Some(position(number, at) + 1);
                    }
                    at += head.stride();
                }
            }
            number += 1;
            start = 0;
        }
        None
    }

    // What follows changes entries: callers take turns (the list's writer lock).

    /// Appends an entry; `None` when the positions are used up.
    pub(super) fn push(&self, key: &[u8], value: &[u8]) -> Option<u32> {
        let end = self.end.load(Ordering::Relaxed);
        let mut number = end / PLACES;
        let last = self.slot(number).load_full();
        let mut chunk = last.map_or_else(Chunk::new, Arc::unwrap_or_clone);
        let at = match chunk.push(key, value) {
            Some(at) => at,
            None => {
                if chunk.live == 0 {
                    self.slot(number).store(None);
                }
                number = number.checked_add(1).filter(|n| *n < u32::MAX / PLACES)?;
                chunk = Chunk::new();
                chunk.push(key, value)?
            }
        };
        let next = position(number, chunk.used.into());
        self.slot(number).store(Some(Arc::new(chunk)));
        self.end.store(next, Ordering::Release);
        self.live.fetch_add(1, Ordering::Relaxed);
        Some(position(number, at))
    }

    pub(super) fn set(&self, id: u32, value: &[u8]) {
        self.edit(id, |chunk, at| chunk.set(at, value));
    }

    pub(super) fn remove(&self, id: u32) {
        if self.with(id, |_, _| ()).is_some() {
            self.has_removed.store(1, Ordering::Release);
            self.edit(id, Chunk::remove);
            self.live.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn edit(&self, id: u32, change: impl FnOnce(&mut Chunk, usize)) {
        let slot = self.slot(id / PLACES);
        let Some(mut chunk) = slot.load_full().map(Arc::unwrap_or_clone) else {
            return;
        };
        change(&mut chunk, (id % PLACES) as usize * STEP);
        // A chunk that nothing is in and nothing will be added to costs only its pointer; see also `push`.
        let is_last = id / PLACES == self.end.load(Ordering::Relaxed) / PLACES;
        let is_over = chunk.live == 0 && !is_last;
        slot.store((!is_over).then(|| Arc::new(chunk)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dump(all: &Elements) -> Vec<String> {
        let mut seen = Vec::new();
        let mut last = None;
        all.visit(0, |id, k, v| {
            assert!(last < Some(id), "in order");
            last = Some(id);
            assert_eq!(all.with(id, |k, _| k.to_vec()).as_deref(), Some(k));
            let (k, v) = (String::from_utf8_lossy(k), String::from_utf8_lossy(v));
            seen.push(format!("{k}={v}"));
            true
        });
        seen
    }

    fn ids(all: &Elements) -> Vec<u32> {
        let mut ids = Vec::new();
        all.visit(0, |id, _, _| {
            ids.push(id);
            true
        });
        ids
    }

    #[test]
    fn entries_keep_their_positions() {
        let texts: Vec<String> = (0..2000).map(|i| format!("k{i}")).collect();
        let all = Elements::collect(texts.iter().map(|t| (t.as_bytes(), &b"v"[..])));
        assert_eq!(all.len(), 2000);
        let before = ids(&all);
        assert_eq!(before.len(), 2000);
        for id in before.iter().step_by(2) {
            all.remove(*id);
        }
        all.remove(before[0]);
        all.set(before[1], b"c");
        all.set(before[3], b"much longer");
        all.set(before[3], b"and once more");
        let last = all.push(b"new", b"").unwrap();
        assert!(last > *before.last().unwrap());
        assert_eq!(all.len(), 1001);
        let seen = dump(&all);
        assert_eq!(seen.len(), 1001);
        assert_eq!(seen[..3], ["k1=c", "k3=and once more", "k5=v"]);
        assert_eq!(seen[1000], "new=");
        assert!(!all.is_live(before[64]));
        assert!(all.is_live(before[65]));
    }

    #[test]
    fn texts_of_any_length() {
        let all = Elements::new();
        let lens = [
            0, 1, 3, 4, 255, 256, 257, 499, 500, 501, 1999, 2000, 2001, 100_000,
        ];
        for len in lens {
            let text = "x".repeat(len);
            all.push(text.as_bytes(), b"").unwrap();
            all.push(b"", text.as_bytes()).unwrap();
        }
        let seen: Vec<usize> = dump(&all).iter().map(|s| s.len() - 1).collect();
        let want: Vec<usize> = lens.into_iter().flat_map(|l| [l, l]).collect();
        assert_eq!(seen, want);
        let again: Vec<String> = dump(&all);
        let pairs: Vec<(&str, &str)> = again.iter().filter_map(|s| s.split_once('=')).collect();
        let copy = Elements::collect(pairs.iter().map(|(k, v)| (k.as_bytes(), v.as_bytes())));
        assert_eq!(dump(&copy), again);
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
            from = all.visit(start, |_, k, _| {
                seen.extend_from_slice(k);
                room -= 1;
                room > 0
            });
        }
        assert_eq!(seen, (0..10).collect::<Vec<_>>());
    }

    #[test]
    fn room_that_is_empty_is_given_back() {
        let all = Elements::new();
        for round in 0..50_000u32 {
            let id = all.push(&round.to_le_bytes(), b"v").unwrap();
            all.remove(id);
        }
        assert_eq!(all.len(), 0);
        let kept = all.segments.iter().filter_map(OnceLock::get).flatten();
        assert!(kept.filter(|c| c.load().is_some()).count() <= 1);
    }
}
