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
    /// [`WAITING`], [`AWAY`], or the index of the server whose slot was granted.
    granted: AtomicI64,
    /// It wants this server and no other: it is not sent away.
    stays: bool,
    waker: Mutex<Option<Waker>>,
}

const WAITING: i64 = -1;
const AWAY: i64 = -2;

/// What a waiter is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grant {
    /// A slot of that server is the waiter's.
    Server(u32),
    /// The server takes no more: look for another.
    Away,
}

impl Slot {
    fn tell(&self, what: i64) {
        self.granted.store(what, Release);
        self.wake();
    }
    fn wake(&self) {
        let waker = self
            .waker
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
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

    /// Takes a place behind those of the same or a better priority. Who `stays` cannot be sent away.
    pub fn join(&self, class: i32, offset_ms: i32, now_ms: u64, stays: bool) -> Ticket {
        let mut w = self.waiters.lock().unwrap_or_else(PoisonError::into_inner);
        w.next_seq += 1;
        let key = (class, now_ms as i64 + i64::from(offset_ms), w.next_seq);
        let slot = Arc::new(Slot {
            granted: AtomicI64::new(WAITING),
            stays,
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
        slot.tell(i64::from(index));
        true
    }

    /// Empties the queue but for those who stay: each looks for another server. How many there were.
    pub fn send_away(&self) -> u32 {
        let mut w = self.waiters.lock().unwrap_or_else(PoisonError::into_inner);
        let before = w.by_key.len();
        w.by_key.retain(|_, slot| {
            if !slot.stays {
                slot.tell(AWAY);
            }
            slot.stays
        });
        self.len.store(w.by_key.len() as u32, Release);
        (before - w.by_key.len()) as u32
    }

    /// Gives a place up. What was granted meanwhile, if something was: a slot is the caller's now.
    pub fn leave(&self, ticket: &Ticket) -> Option<Grant> {
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
        w.by_key.values().for_each(|slot| slot.wake());
    }
}

impl Ticket {
    /// What the waiter was told, once it was.
    pub fn granted(&self) -> Option<Grant> {
        match self.slot.granted.load(Acquire) {
            WAITING => None,
            AWAY => Some(Grant::Away),
            index => Some(Grant::Server(index as u32)),
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    use std::task::Wake;

    use proptest::prelude::*;

    use super::*;

    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    #[test]
    fn class_comes_before_time_and_time_before_arrival() {
        let q = Queue::default();
        let late = q.join(0, 0, 20, false);
        let early = q.join(0, 0, 10, false);
        let hurried = q.join(0, -15, 20, false);
        let urgent = q.join(-1, 0, 30, false);
        assert_eq!(
            (late.ahead, early.ahead, hurried.ahead, urgent.ahead),
            (0, 0, 0, 0)
        );
        assert_eq!(q.join(0, 0, 20, false).ahead, 4);
        for t in [&urgent, &hurried, &early, &late] {
            assert!(t.granted().is_none());
            assert!(q.grant(3));
            assert_eq!(t.granted(), Some(Grant::Server(3)));
        }
    }

    #[test]
    fn one_who_leaves_too_late_owns_the_slot() {
        let q = Queue::default();
        let t = q.join(0, 0, 0, false);
        assert!(q.grant(5));
        assert_eq!(q.leave(&t), Some(Grant::Server(5)));
        assert!(!q.grant(5), "nobody waits any more");
    }

    #[test]
    fn who_is_sent_away_looks_elsewhere_and_who_stays_waits() {
        let q = Queue::default();
        let (other, same) = (q.join(0, 0, 0, false), q.join(0, 0, 0, true));
        q.send_away();
        assert_eq!(
            (other.granted(), same.granted(), q.len()),
            (Some(Grant::Away), None, 1)
        );
        assert_eq!(q.leave(&other), Some(Grant::Away));
        assert!(q.grant(2));
        assert_eq!(same.granted(), Some(Grant::Server(2)));
    }

    #[test]
    fn a_grant_wakes_its_waiter_and_nobody_else() {
        let q = Queue::default();
        let wakes: Vec<_> = (0..2)
            .map(|_| Arc::new(Count(AtomicUsize::new(0))))
            .collect();
        let tickets: Vec<_> = wakes
            .iter()
            .map(|w| {
                let t = q.join(0, 0, 0, false);
                t.register(&w.clone().into());
                t
            })
            .collect();
        q.grant(0);
        assert_eq!(wakes[0].0.load(Relaxed), 1);
        assert_eq!(wakes[1].0.load(Relaxed), 0);
        q.wake_all();
        assert_eq!(wakes[1].0.load(Relaxed), 1);
        assert!(tickets[1].granted().is_none());
    }

    #[test]
    fn slots_are_neither_lost_nor_doubled_between_threads() {
        let (q, kept) = (Queue::default(), AtomicUsize::new(0));
        let mut given = 0;
        std::thread::scope(|s| {
            for n in 0..4u64 {
                let (q, kept) = (&q, &kept);
                s.spawn(move || {
                    for k in 0..200 {
                        let t = q.join((n % 2) as i32, 0, k, false);
                        if q.leave(&t).is_some() {
                            kept.fetch_add(1, Relaxed);
                        }
                    }
                });
            }
            for _ in 0..2000 {
                given += usize::from(q.grant(1));
            }
        });
        assert_eq!((kept.load(Relaxed), q.len()), (given, 0));
    }

    #[derive(Debug, Clone)]
    enum Step {
        Join(i32, i32),
        Grant,
        Leave(prop::sample::Index),
    }

    proptest! {
        #[test]
        fn behaves_like_a_sorted_list(steps in proptest::collection::vec(prop_oneof![
            3 => (-2..3i32, -5..5i32).prop_map(|(c, o)| Step::Join(c, o)),
            2 => Just(Step::Grant),
            1 => any::<prop::sample::Index>().prop_map(Step::Leave),
        ], 0..60)) {
            let q = Queue::default();
            let mut tickets: Vec<Ticket> = Vec::new();
            // (class, due, ticket), and whom each was granted
            let mut waiting: Vec<(i32, i64, usize)> = Vec::new();
            let mut granted: Vec<Option<Grant>> = Vec::new();
            for (now, step) in steps.into_iter().enumerate() {
                match step {
                    Step::Join(class, offset) => {
                        tickets.push(q.join(class, offset, now as u64, false));
                        waiting.push((class, now as i64 + i64::from(offset), granted.len()));
                        granted.push(None);
                        waiting.sort();
                    }
                    Step::Grant => {
                        prop_assert_eq!(q.grant(now as u32), !waiting.is_empty());
                        if !waiting.is_empty() {
                            granted[waiting.remove(0).2] = Some(Grant::Server(now as u32));
                        }
                    }
                    Step::Leave(which) if !tickets.is_empty() => {
                        let k = which.index(tickets.len());
                        prop_assert_eq!(q.leave(&tickets[k]), granted[k]);
                        waiting.retain(|w| w.2 != k);
                    }
                    Step::Leave(_) => {}
                }
                prop_assert_eq!(q.len() as usize, waiting.len());
                prop_assert_eq!(q.first(), waiting.first().map(|w| (w.0, w.1)));
                for (t, g) in tickets.iter().zip(&granted) {
                    prop_assert_eq!(t.granted(), *g);
                }
            }
        }
    }
}
