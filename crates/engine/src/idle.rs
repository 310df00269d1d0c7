//! How many idle connections to a server the workers keep, and how many are worth keeping. Each worker counts its own;
//! the sum is only asked for where it is limited or shown.
//!
//! As many are kept as traffic was seen to use at once. What was seen is forgotten by halves, every `pool-purge-delay`
//! (manual 5.2).

use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering::Relaxed};

/// Idle connections to one server, by worker.
#[derive(Debug)]
pub struct IdleConns {
    by_worker: Box<[AtomicI32]>,
    /// Connections that are thought to be needed at once.
    needed: AtomicU32,
    /// Most that were used at once since the last purge.
    most: AtomicU32,
    /// When the next purge is due, monotonic ms.
    due_ms: AtomicU64,
}

impl IdleConns {
    pub fn new(workers: u32) -> Self {
        IdleConns {
            by_worker: (0..workers.max(1)).map(|_| AtomicI32::new(0)).collect(),
            needed: AtomicU32::new(0),
            most: AtomicU32::new(0),
            due_ms: AtomicU64::new(0),
        }
    }

    /// The worker has `n` more, or fewer.
    pub fn add(&self, worker: u32, n: i32) {
        if let Some(own) = self.by_worker.get(worker as usize) {
            own.fetch_add(n, Relaxed);
        }
    }

    /// Those of one worker.
    pub fn at(&self, worker: u32) -> u32 {
        self.by_worker
            .get(worker as usize)
            .map_or(0, |n| n.load(Relaxed).max(0) as u32)
    }

    /// Those of all workers.
    pub fn total(&self) -> u32 {
        self.by_worker
            .iter()
            .map(|n| n.load(Relaxed).max(0) as u32)
            .sum()
    }

    /// `used` connections carry a stream now: whether one of them, which becomes idle, is worth keeping besides `low`
    /// others.
    pub fn wants_one(&self, used: u32, low: u32) -> bool {
        raise(&self.most, used);
        let needed = raise(&self.needed, used);
        self.total() <= needed - used + low
    }

    /// Connections needed at once, as far as is known.
    pub fn needed(&self) -> u32 {
        self.needed.load(Relaxed)
    }

    /// Most that were used at once since the last purge.
    pub fn most(&self) -> u32 {
        self.most.load(Relaxed)
    }

    /// How many connections there are too many, `used` of them in use. Once every `delay_ms` it forgets by half what was
    /// needed before.
    pub fn excess(&self, used: u32, now_ms: u64, delay_ms: u64) -> u32 {
        let due = self.due_ms.load(Relaxed);
        let next = now_ms.saturating_add(delay_ms.max(1));
        let mine = now_ms >= due
            && self
                .due_ms
                .compare_exchange(due, next, Relaxed, Relaxed)
                .is_ok();
        if mine && due > 0 {
            let most = self.most.swap(used, Relaxed).max(used);
            let half = (self.needed.load(Relaxed) + most) / 2;
            self.needed.store(half.max(most), Relaxed);
        }
        let all = used + self.total();
        all.saturating_sub(self.needed().max(self.most()))
    }

    /// The next worker behind this one that keeps some.
    pub fn holder_after(&self, worker: u32) -> Option<u32> {
        let n = self.by_worker.len() as u32;
        (1..n)
            .map(|step| (worker + step) % n)
            .find(|w| self.at(*w) > 0)
    }
}

/// Raises a number to at least `n`, and gives what it is then.
fn raise(at: &AtomicU32, n: u32) -> u32 {
    let before = at.load(Relaxed);
    match before < n {
        true => at.fetch_max(n, Relaxed).max(n),
        false => before,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_are_kept_as_were_used_at_once() {
        let idle = IdleConns::new(1);
        // one at a time, a new one each: the first is kept, and then one more
        assert!(idle.wants_one(1, 0));
        idle.add(0, 1);
        assert!(!idle.wants_one(1, 0));
        assert!(idle.wants_one(1, 1), "pool-low-conn 1");
        // ten at once: all of them may stay when they become idle
        idle.add(0, -1);
        for used in (1..=10).rev() {
            assert!(idle.wants_one(used, 0), "{used}");
            idle.add(0, 1);
        }
    }

    #[test]
    fn what_is_not_used_is_given_up_by_halves() {
        let idle = IdleConns::new(1);
        idle.wants_one(16, 0);
        idle.add(0, 16);
        assert_eq!(idle.excess(0, 1000, 5000), 0);
        let excess: Vec<u32> = (1..=7)
            .map(|i| {
                let n = idle.excess(0, 1000 + 5000 * i, 5000);
                idle.add(0, -(n as i32));
                n
            })
            .collect();
        // the first purge finds what was used before it
        assert_eq!(excess, [0, 8, 4, 2, 1, 1, 0]);
        assert_eq!(idle.excess(0, 1500, 5000), 0);
    }

    #[test]
    fn another_worker_that_keeps_some_is_found() {
        let idle = IdleConns::new(4);
        idle.add(1, 2);
        idle.add(3, 1);
        assert_eq!((idle.total(), idle.at(1), idle.at(9)), (3, 2, 0));
        assert_eq!(idle.holder_after(1), Some(3));
        assert_eq!(idle.holder_after(3), Some(1));
        idle.add(1, -2);
        assert_eq!(idle.holder_after(3), None);
    }
}
