//! Sessions that are to end although nothing is wrong with them (`shutdown sessions`, `on-marked-down shutdown-sessions`):
//! whoever decides it raises an epoch, and every worker looks which of its sessions are older.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

/// Raised for all workers at once.
#[derive(Debug, Default)]
pub struct Shutdowns {
    epoch: AtomicU64,
    /// One place a worker.
    wakers: Mutex<Vec<Option<Waker>>>,
}

impl Shutdowns {
    /// Tells all workers to look.
    pub fn raise(&self) {
        // the lock orders this with a worker's look: it sees the epoch, or its waker is here
        let mut wakers = self.wakers.lock().unwrap_or_else(PoisonError::into_inner);
        self.epoch.fetch_add(1, Relaxed);
        wakers
            .iter_mut()
            .filter_map(Option::take)
            .for_each(Waker::wake);
    }

    /// Waits until the epoch is another than the one the worker saw last.
    pub fn poll_raised(&self, worker: usize, seen: &mut u64, cx: &mut Context<'_>) -> Poll<()> {
        let mut wakers = self.wakers.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.epoch.load(Relaxed);
        if now != *seen {
            *seen = now;
            return Poll::Ready(());
        }
        if wakers.len() <= worker {
            wakers.resize(worker + 1, None);
        }
        wakers[worker] = Some(cx.waker().clone());
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_worker_sees_each_change_once() {
        let s = Shutdowns::default();
        let mut cx = Context::from_waker(Waker::noop());
        let mut seen = [0, 0];
        assert!(s.poll_raised(1, &mut seen[1], &mut cx).is_pending());
        s.raise();
        for (worker, seen) in seen.iter_mut().enumerate() {
            assert!(s.poll_raised(worker, seen, &mut cx).is_ready());
            assert!(s.poll_raised(worker, seen, &mut cx).is_pending());
        }
    }
}
