//! When a thread does what: the ramp, the schedule of the open loop, pauses, and the timer that wakes it.

use super::{SECOND_NS, State, Worker};
use anyhow::Result;
use rustix::time::{Itimerspec, TimerfdTimerFlags, Timespec};
use std::time::Duration;

impl Worker {
    /// Starts what is due: new connections of the ramp, paused ones, scheduled requests.
    pub(super) fn schedule(&mut self, now_ns: u64) -> Result<()> {
        while self.active < self.slots.len() && now_ns >= self.ramp_ns(self.active) {
            self.active += 1;
            self.next(self.active - 1, now_ns)?;
        }
        while let Some(token) = self.timers.due(now_ns) {
            let index = token as usize;
            if !matches!(self.slots[index].state, State::Paused(at) if at <= now_ns) {
                continue;
            }
            if self.interval_ns.is_some() {
                self.slots[index].state = State::Idle;
                self.idle.push_back(index);
            } else {
                self.start(index, now_ns)?;
            }
        }
        while let Some(due_ns) = self.due_ns()
            && due_ns <= now_ns
            && self.budget > 0
            && let Some(index) = self.idle.pop_front()
        {
            self.due += 1;
            self.start(index, due_ns)?;
        }
        if self.interval_ns.is_some() && self.budget == 0 {
            while let Some(index) = self.idle.pop_front() {
                self.finish(index);
            }
        }
        Ok(())
    }

    /// When slot `index` of this thread begins.
    pub(super) fn ramp_ns(&self, index: usize) -> u64 {
        let all = self.slots.len().max(1) as f64;
        (self.options.ramp.as_nanos() as f64 * index as f64 / all) as u64
    }

    /// When the next request of the open loop is due. Threads take turns.
    pub(super) fn due_ns(&self) -> Option<u64> {
        let interval = self.interval_ns?;
        let offset = interval * self.share.index as f64 / self.share.of as f64;
        Some((self.due as f64 * interval + offset) as u64)
    }

    pub(super) fn next_wake_ns(&self) -> u64 {
        let ramp = if self.active < self.slots.len() {
            self.ramp_ns(self.active)
        } else {
            u64::MAX
        };
        let due = match self.due_ns() {
            Some(at) if !self.idle.is_empty() => at,
            _ => u64::MAX,
        };
        ramp.min(due).min(self.timers.next_ns().unwrap_or(u64::MAX))
    }

    /// Coarse waits use epoll's milliseconds; fine ones a timer, so that a schedule is kept to microseconds.
    pub(super) fn arm(&mut self, wake_ns: u64) -> Result<Option<Duration>> {
        let now_ns = self.now_ns();
        let left = wake_ns.saturating_sub(now_ns);
        if self.interval_ns.is_none() && self.options.think.is_zero() || left == 0 {
            return Ok(Some(Duration::from_nanos(left)));
        }
        let value = Timespec {
            tv_sec: (left / SECOND_NS) as i64,
            tv_nsec: (left % SECOND_NS) as i64,
        };
        let once = Itimerspec {
            it_interval: Timespec::default(),
            it_value: value,
        };
        rustix::time::timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &once)?;
        Ok(Some(Duration::from_secs(1)))
    }
}
