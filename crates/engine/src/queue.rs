//! Requests that wait for a free connection slot: a queue a server and one a backend (manual 5.2 `maxconn`, `timeout
//! queue`), ordered by priority class, then by time.
//!
//! The lock is taken only while a server is saturated; the length is an atomic that everyone else reads. Whoever gives
//! a slot back hands it to the first waiter: the slot is never free in between, so nobody can overtake.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering::Acquire, Ordering::Release};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;

/// A queue of waiting streams.
#[derive(Debug, Default)]
pub struct Queue {
    len: AtomicU32,
    waiters: Mutex<Waiters>,
}

#[derive(Debug, Default)]
struct Waiters {
    by_key: BTreeMap<Key, Arc<Slot>>,
    next_seq: u64,
}

/// Priority class first (lower is sooner), then the arrival time shifted by the priority offset, then arrival order.
type Key = (i32, i64, u64);

/// Where a waiter is told that it may go on.
#[derive(Debug)]
struct Slot {
    /// Server index + 1 once granted, 0 while waiting.
    granted: AtomicI64,
    waker: Mutex<Option<Waker>>,
}

/// A place in a queue. Give it back with [`Queue::leave`] when it is no longer wanted.
#[derive(Debug)]
pub struct Ticket {
    key: Key,
    slot: Arc<Slot>,
    /// How many were before it when it came.
    pub ahead: u32,
}

impl Queue {
    pub fn len(&self) -> u32 {
        self.len.load(Acquire)
    }
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes a place behind those of the same or a better priority.
    pub fn join(&self, class: i32, offset_ms: i32, now_ms: u64) -> Ticket {
        let mut w = self.waiters.lock().unwrap_or_else(PoisonError::into_inner);
        w.next_seq += 1;
        let key = (class, now_ms as i64 + i64::from(offset_ms), w.next_seq);
        let slot = Arc::new(Slot {
            granted: AtomicI64::new(0),
            waker: Mutex::new(None),
        });
        let ahead = w.by_key.range(..key).count() as u32;
        w.by_key.insert(key, slot.clone());
        self.len.store(w.by_key.len() as u32, Release);
        Ticket { key, slot, ahead }
    }

    /// Hands a slot of server `index` to the first waiter, if there is one.
    pub fn grant(&self, index: u32) -> bool {
        if self.is_empty() {
            return false;
        }
        let slot = {
            let mut w = self.waiters.lock().unwrap_or_else(PoisonError::into_inner);
            let Some((_, slot)) = w.by_key.pop_first() else {
                return false;
            };
            self.len.store(w.by_key.len() as u32, Release);
            slot
        };
        slot.granted.store(i64::from(index) + 1, Release);
        let waker = slot
            .waker
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(waker) = waker {
            waker.wake();
        }
        true
    }

    /// Gives a place up. The server index when a slot had been granted meanwhile: the caller owns it now.
    pub fn leave(&self, ticket: &Ticket) -> Option<u32> {
        let mut w = self.waiters.lock().unwrap_or_else(PoisonError::into_inner);
        if w.by_key.remove(&ticket.key).is_some() {
            self.len.store(w.by_key.len() as u32, Release);
            return None;
        }
        drop(w);
        ticket.granted()
    }

    /// The key of the first waiter, to compare the queues of a server and of its backend.
    pub fn first(&self) -> Option<(i32, i64)> {
        if self.is_empty() {
            return None;
        }
        let w = self.waiters.lock().unwrap_or_else(PoisonError::into_inner);
        w.by_key.keys().next().map(|k| (k.0, k.1))
    }

    /// Wakes everyone without granting anything: they look at the world again (a server went down, soft stop).
    pub fn wake_all(&self) {
        let w = self.waiters.lock().unwrap_or_else(PoisonError::into_inner);
        for slot in w.by_key.values() {
            if let Some(waker) = slot
                .waker
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take()
            {
                waker.wake();
            }
        }
    }
}

impl Ticket {
    /// The server whose slot was granted, once it was.
    pub fn granted(&self) -> Option<u32> {
        match self.slot.granted.load(Acquire) {
            0 => None,
            n => Some((n - 1) as u32),
        }
    }
    /// Asks to be woken when something is granted. Check [`Ticket::granted`] after this, not before.
    pub fn register(&self, waker: &Waker) {
        let mut slot = self
            .slot
            .waker
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        match &mut *slot {
            Some(w) if w.will_wake(waker) => {}
            other => *other = Some(waker.clone()),
        }
    }
}
