//! Bandwidth limits of a pump (`filter bwlim-in`, `filter bwlim-out`, `set-bandwidth-limit`).

use std::task::{Context, Poll};

use crate::clock;
use crate::net::Timer;

/// `set-bandwidth-limit`: so many bytes a period, the strictest of several.
pub struct Limiter {
    /// Bytes and period (ms) of each.
    limits: Vec<(u64, u64)>,
    since_us: u64,
    taken: u64,
    timer: Timer,
}

impl Limiter {
    pub fn new(limits: Vec<(u64, u64)>) -> Self {
        Limiter {
            limits,
            since_us: clock::now_us(),
            taken: 0,
            timer: Timer::default(),
        }
    }

    pub fn took(&mut self, n: usize) {
        self.taken += n as u64;
    }

    /// Ready when the bytes taken so far have earned their time.
    pub fn poll_wait(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let due_ms = self
            .limits
            .iter()
            .map(|(bytes, period)| self.taken.saturating_mul(*period) / (*bytes).max(1))
            .max();
        let due = crate::net::since(self.since_us, Some(due_ms.unwrap_or(0)));
        self.timer.poll(cx, due)
    }
}
