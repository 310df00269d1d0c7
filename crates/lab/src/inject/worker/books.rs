//! What a thread counts: for others while it runs, second by second, and in the end.

use super::{SECOND_NS, State, Worker};
use crate::inject::Second;
use crate::inject::conn::Answer;
use crate::inject::counts::{Counts, ErrorKind};
use std::sync::atomic::Ordering;

impl Worker {
    pub(super) fn publish(&self) {
        let (done, second) = (&self.progress, &self.second);
        done.requests
            .store(self.total.requests + second.requests, Ordering::Relaxed);
        done.conns
            .store(self.total.conns + second.conns, Ordering::Relaxed);
        done.bytes.store(
            self.total.bytes_in + self.context.bytes_in,
            Ordering::Relaxed,
        );
        done.errors.store(
            self.total.errors.total() + second.errors.total(),
            Ordering::Relaxed,
        );
    }

    /// Gives up what takes too long.
    pub(super) fn expire(&mut self, now_ns: u64) {
        let timeout_ns = self.options.timeout.as_nanos() as u64;
        for index in 0..self.slots.len() {
            let slot = &self.slots[index];
            let Some(conn) = &slot.conn else { continue };
            let waiting = slot.state == State::Busy && (conn.busy() || !conn.connected);
            let stuck = waiting || slot.state == State::Draining;
            if stuck && now_ns.saturating_sub(slot.start_ns) > timeout_ns {
                if waiting {
                    self.second.errors.count(ErrorKind::Timeout);
                    self.second
                        .latency
                        .saturating_record(now_ns.saturating_sub(slot.start_ns));
                }
                self.close(index);
                self.pause(index, now_ns);
            }
        }
    }

    /// Once a second: hand over the counts.
    pub(super) fn tick(&mut self, now_ns: u64) {
        let timeout_ns = self.options.timeout.as_nanos() as u64;
        if self.second.requests > 0 {
            self.answered_ns = now_ns;
        }
        // Without a given time the end of a dead server's requests would never come.
        let silent_ns = now_ns.saturating_sub(self.answered_ns);
        if self.options.duration.is_none()
            && self.options.requests_max.is_some()
            && self.second.errors.total() > 0
            && silent_ns > timeout_ns
        {
            self.stop.set();
            return;
        }
        self.turn_page();
        let mut sample = std::mem::take(&mut self.second);
        self.failed_before = sample.errors.total() > 0;
        self.total.add(&sample);
        sample.open = self.open;
        self.tell(now_ns / SECOND_NS, sample);
    }

    /// Nobody may be listening; then it is only part of the total.
    fn tell(&self, number: u64, counts: Counts) {
        let _ = self.samples.send(Second {
            thread: self.share.index,
            number,
            counts,
        });
    }

    fn turn_page(&mut self) {
        self.second.bytes_in = std::mem::take(&mut self.context.bytes_in);
        self.second.bytes_out = std::mem::take(&mut self.context.bytes_out);
        self.second.connect_error = self.context.connect_error.take();
    }

    /// What was due or under way at the end took at least until now: leaving it out would hide a stall.
    pub(super) fn close_books(&mut self) {
        let now_ns = self.now_ns();
        if self.interval_ns.is_some() && self.budget > 0 {
            for slot in &self.slots {
                if slot.state == State::Busy {
                    self.second.unfinished += 1;
                    self.second
                        .latency
                        .saturating_record(now_ns.saturating_sub(slot.start_ns));
                }
            }
            while let Some(due_ns) = self.due_ns().filter(|&due| due < now_ns) {
                self.second.unfinished += 1;
                self.second.latency.saturating_record(now_ns - due_ns);
                self.due += 1;
            }
        }
        self.turn_page();
        let unfinished = self.finished < self.slots.len();
        // The end may come right after the last second was closed.
        let failing = self.second.errors.total() > 0 || self.failed_before;
        self.second.gone = unfinished && self.open == 0 && failing;
        self.total.add(&self.second);
        self.total.open = self.open;
        // What came after the last full second is only in the total.
        self.tell(u64::MAX, Counts::default());
    }
}

/// Counts an answer.
pub(super) fn record(counts: &mut Counts, answer: Answer, latency_ns: u64) {
    counts.requests += 1;
    let class = usize::from(answer.status / 100);
    counts.statuses[if class < 6 { class } else { 0 }] += 1;
    counts.latency.saturating_record(latency_ns);
    if !answer.right {
        counts.errors.count(ErrorKind::Wrong);
    }
}
