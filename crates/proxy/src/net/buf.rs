//! Buffers lent by the worker: a connection that waits owns none, one that has bytes in hand borrows one.
//!
//! A buffer is larger than the usual `tune.bufsize` (which limits heads) because a large read saves system calls on bodies.
//! One with a longer head in it is made larger, and does not go back to the stock.

use std::cell::RefCell;
use std::rc::Rc;

/// Bytes read at once: 64 KiB is where the kernel's copy stops getting cheaper per byte and still fits a core's L2.
pub const READ_SIZE: usize = 64 * 1024;

/// Room before the bytes that are read, for a message's head that grew: head and body are then one piece for the kernel.
const HEADROOM: usize = 256;

/// Buffers kept for the next reader; beyond these they go back to the allocator.
const KEPT: usize = 64;

/// A worker's stock of buffers.
#[derive(Default)]
pub struct BufPool {
    free: RefCell<Vec<Box<[u8]>>>,
}

impl BufPool {
    /// How many wait to be lent.
    pub fn kept(&self) -> usize {
        self.free.borrow().len()
    }

    /// Keeps what is no longer used, unless there is enough of it or it has not the usual size.
    fn take_back(&self, bytes: Box<[u8]>) {
        let mut free = self.free.borrow_mut();
        if free.len() < KEPT && bytes.len() == HEADROOM + READ_SIZE {
            free.push(bytes);
        }
    }

    /// Lends an empty buffer.
    pub fn lend(self: &Rc<Self>) -> Buf {
        let bytes = self
            .free
            .borrow_mut()
            .pop()
            .unwrap_or_else(|| vec![0; HEADROOM + READ_SIZE].into_boxed_slice());
        Buf {
            bytes,
            start: HEADROOM,
            end: HEADROOM,
            pool: self.clone(),
        }
    }
}

/// A lent buffer with the unread bytes `start..end`. Goes back when dropped.
pub struct Buf {
    bytes: Box<[u8]>,
    start: usize,
    end: usize,
    pool: Rc<BufPool>,
}

impl Buf {
    /// The unread bytes.
    pub fn data(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }
    pub fn len(&self) -> usize {
        self.end - self.start
    }
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }
    /// Room behind the unread bytes.
    pub fn room(&mut self) -> &mut [u8] {
        &mut self.bytes[self.end..]
    }
    /// `n` bytes were written into [`Buf::room`].
    pub fn filled(&mut self, n: usize) {
        debug_assert!(self.end + n <= self.bytes.len());
        self.end += n;
    }
    /// `n` unread bytes were used up.
    pub fn consume(&mut self, n: usize) {
        debug_assert!(n <= self.len());
        self.start += n;
        if self.start == self.end {
            self.start = HEADROOM;
            self.end = HEADROOM;
        }
    }
    /// Puts `head` right before the unread bytes, where there is room for it.
    pub fn prepend(&mut self, head: &[u8]) -> bool {
        let Some(start) = self.start.checked_sub(head.len()) else {
            return false;
        };
        self.bytes[start..self.start].copy_from_slice(head);
        self.start = start;
        true
    }
    /// Forgets unread bytes beyond the first `n`.
    pub fn truncate(&mut self, n: usize) {
        self.end = self.end.min(self.start + n);
    }
    /// Moves the unread bytes to the front, so that [`Buf::room`] is as large as it can be.
    pub fn compact(&mut self) {
        if self.start > HEADROOM {
            self.bytes.copy_within(self.start..self.end, HEADROOM);
            self.end -= self.start - HEADROOM;
            self.start = HEADROOM;
        }
    }
    /// Makes [`Buf::room`] as large as it can be, and the buffer itself larger when it is full with less than `most` bytes
    /// (heads may be as long as `tune.bufsize` says).
    pub fn make_room(&mut self, most: usize) {
        self.compact();
        if self.end == self.bytes.len() && self.len() < most {
            let mut larger = vec![0; HEADROOM + most].into_boxed_slice();
            larger[..self.end].copy_from_slice(&self.bytes[..self.end]);
            self.bytes = larger;
        }
    }
    /// Keeps the unread bytes alone: what waits long for more must not hold a whole buffer. [`Buf::make_room`] before the
    /// next read.
    pub fn shrink(&mut self) {
        const SPARE: usize = 1024;
        let used = HEADROOM + self.len();
        if self.bytes.len() <= used + SPARE {
            return;
        }
        let mut small = vec![0; used].into_boxed_slice();
        small[HEADROOM..].copy_from_slice(self.data());
        let large = std::mem::replace(&mut self.bytes, small);
        (self.start, self.end) = (HEADROOM, used);
        self.pool.take_back(large);
    }
    /// Appends as much of `src` as fits and returns how much that was.
    pub fn extend(&mut self, src: &[u8]) -> usize {
        let n = src.len().min(self.bytes.len() - self.end);
        self.bytes[self.end..self.end + n].copy_from_slice(&src[..n]);
        self.end += n;
        n
    }
}

impl Drop for Buf {
    fn drop(&mut self) {
        self.pool.take_back(std::mem::take(&mut self.bytes));
    }
}
