//! The servers of a backend: those of the configuration, and those that `add server` adds while it runs.
//!
//! A table that only grows: places are never given away again, so that an index and a reference stay good without a lock
//! or a count. A server that was deleted keeps its place and is not seen any more.

use std::ops::Index;
use std::sync::atomic::{AtomicU32, Ordering::Acquire, Ordering::Release};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::state::ServerState;

/// Places of the first chunk behind the configured ones; each further chunk has twice as many.
const FIRST_CHUNK: usize = 16;
/// That makes a million servers added in a backend's life.
const CHUNKS: usize = 16;

/// A table of which the first places are filled from the start, and others one by one.
pub struct Slots<T> {
    first: Vec<T>,
    chunks: [OnceLock<Box<[OnceLock<T>]>>; CHUNKS],
}

impl<T> Slots<T> {
    pub fn new(first: Vec<T>) -> Self {
        Slots {
            first,
            chunks: [const { OnceLock::new() }; CHUNKS],
        }
    }

    #[inline]
    pub fn get(&self, index: usize) -> Option<&T> {
        match self.first.get(index) {
            Some(item) => Some(item),
            None => {
                let (chunk, at) = place(index - self.first.len())?;
                self.chunks[chunk].get()?.get(at)?.get()
            }
        }
    }

    /// What is at a place, made if nothing is there yet; `None` beyond the end of the table.
    pub fn get_or_init(&self, index: usize, make: impl FnOnce() -> T) -> Option<&T> {
        if let Some(item) = self.first.get(index) {
            return Some(item);
        }
        let (chunk, at) = place(index - self.first.len())?;
        let room = || (0..FIRST_CHUNK << chunk).map(|_| OnceLock::new()).collect();
        let slot = self.chunks[chunk].get_or_init(room).get(at)?;
        Some(slot.get_or_init(make))
    }

    /// All filled places, with their indices.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &T)> {
        let chunks = self.chunks.iter().map_while(|c| c.get());
        let added = chunks.flat_map(|c| c.iter());
        let behind = (self.first.len()..).zip(added);
        let added = behind.filter_map(|(i, slot)| Some((i, slot.get()?)));
        self.first.iter().enumerate().chain(added)
    }
}

/// Chunk and place in it of the `n`th place behind the first ones.
fn place(n: usize) -> Option<(usize, usize)> {
    let chunk = (n / FIRST_CHUNK + 1).ilog2() as usize;
    let begin = FIRST_CHUNK * ((1 << chunk) - 1);
    (chunk < CHUNKS).then_some((chunk, n - begin))
}

/// The servers of a backend, by index.
pub struct Servers {
    slots: Slots<Arc<ServerState>>,
    /// Places given so far.
    end: AtomicU32,
    adding: Mutex<()>,
}

impl Servers {
    pub fn new(first: Vec<Arc<ServerState>>) -> Self {
        Servers {
            end: AtomicU32::new(first.len() as u32),
            slots: Slots::new(first),
            adding: Mutex::new(()),
        }
    }

    pub fn get(&self, index: usize) -> Option<&Arc<ServerState>> {
        self.slots.get(index).filter(|s| !s.is_deleted())
    }

    /// Those that are not deleted, in the order they came.
    pub fn iter(&self) -> Iter<'_> {
        Iter {
            servers: self,
            next: 0,
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.iter().count()
    }
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }

    /// Places given so far, those of deleted servers included.
    pub fn places(&self) -> usize {
        self.end.load(Acquire) as usize
    }

    /// Adds a server that is made for its index; `None` when the table is full.
    pub(crate) fn add(&self, make: impl FnOnce(u32) -> ServerState) -> Option<&Arc<ServerState>> {
        let _alone = self.adding.lock().unwrap_or_else(PoisonError::into_inner);
        let index = self.end.load(Acquire);
        let server = self
            .slots
            .get_or_init(index as usize, || Arc::new(make(index)))?;
        self.end.store(index + 1, Release);
        Some(server)
    }
}

/// An index comes from a server that is or was there.
impl Index<usize> for Servers {
    type Output = Arc<ServerState>;
    #[inline]
    fn index(&self, index: usize) -> &Self::Output {
        match self.slots.get(index) {
            Some(server) => server,
            None => panic!("no server was ever at {index}"),
        }
    }
}

/// See [`Servers::iter`].
#[derive(Clone)]
pub struct Iter<'a> {
    servers: &'a Servers,
    next: u32,
}

impl<'a> Iterator for Iter<'a> {
    type Item = &'a Arc<ServerState>;
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if self.next >= self.servers.end.load(Acquire) {
                return None;
            }
            self.next += 1;
            if let Some(server) = self.servers.get(self.next as usize - 1) {
                return Some(server);
            }
        }
    }
}

impl<'a> IntoIterator for &'a Servers {
    type Item = &'a Arc<ServerState>;
    type IntoIter = Iter<'a>;
    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_follow_each_other() {
        let mut expect = (0, 0);
        for n in 0..10_000 {
            let (chunk, at) = place(n).expect("room");
            assert_eq!((chunk, at), expect, "{n}");
            expect = match at + 1 == FIRST_CHUNK << chunk {
                true => (chunk + 1, 0),
                false => (chunk, at + 1),
            };
        }
        assert_eq!(place(usize::MAX / 2), None);
    }

    #[test]
    fn slots_are_filled_once() {
        let slots = Slots::new(vec![10, 11]);
        assert_eq!((slots.get(1), slots.get(2)), (Some(&11), None));
        assert_eq!(slots.get_or_init(40, || 40), Some(&40));
        assert_eq!(slots.get_or_init(40, || 41), Some(&40));
        assert_eq!(slots.get_or_init(0, || 41), Some(&10));
        assert_eq!(slots.get_or_init(3, || 3), Some(&3));
        let all: Vec<_> = slots.iter().collect();
        assert_eq!(all, [(0, &10), (1, &11), (3, &3), (40, &40)]);
    }
}
