//! What a connection of the generator does next: another request, a pause, a new connection, or nothing more.

use super::{RETRY_NS, State, Worker};
use crate::inject::conn::{Answer, Conn};
use crate::inject::counts::ErrorKind;
use crate::net;
use crate::poll::Flags;
use anyhow::{Context as _, Result};

impl Worker {
    /// After an answer; true when the connection has more to do at once.
    pub(super) fn on_done(&mut self, index: usize, answer: Answer, now_ns: u64) -> Result<bool> {
        let slot = &mut self.slots[index];
        let used_up = self
            .options
            .requests_per_conn
            .is_some_and(|max| slot.sent >= max);
        if answer.keep_alive && used_up && self.options.hold {
            slot.state = State::Held;
            return Ok(false);
        }
        if !answer.keep_alive && !self.options.reset {
            // The server closes first, as it said it would: its end of the connection keeps the TIME_WAIT.
            slot.state = State::Draining;
            return Ok(true);
        }
        if used_up || !answer.keep_alive {
            self.close(index);
        }
        if self.options.think.is_zero()
            && self.interval_ns.is_none()
            && self.slots[index].conn.is_some()
        {
            if self.budget == 0 {
                self.finish(index);
                return Ok(false);
            }
            let slot = &mut self.slots[index];
            slot.start_ns = now_ns;
            if slot.conn.as_ref().is_some_and(|conn| !conn.ended()) {
                self.begin(index);
            }
            return Ok(true);
        }
        self.next(index, now_ns)?;
        Ok(false)
    }

    /// A slot has nothing under way: what now?
    pub(super) fn next(&mut self, index: usize, now_ns: u64) -> Result<()> {
        if self.budget == 0 {
            self.finish(index);
        } else if self.interval_ns.is_some() {
            self.slots[index].state = State::Idle;
            self.idle.push_back(index);
        } else if self.options.think.is_zero()
            || self.slots[index].sent == 0 && self.slots[index].generation == 0
        {
            return self.start(index, now_ns);
        } else {
            self.pause(index, now_ns + self.options.think.as_nanos() as u64);
        }
        Ok(())
    }

    pub(super) fn pause(&mut self, index: usize, until_ns: u64) {
        self.slots[index].state = State::Paused(until_ns);
        self.timers.add(until_ns, index as u64);
    }

    pub(super) fn finish(&mut self, index: usize) {
        self.close(index);
        self.slots[index].state = State::Finished;
        self.finished += 1;
    }

    pub(super) fn close(&mut self, index: usize) {
        if let Some(conn) = self.slots[index].conn.take() {
            if self.options.reset {
                crate::sys::reset_on_close(conn.fd());
            }
            self.open -= 1;
        }
        self.slots[index].sent = 0;
    }

    /// Begins a request that counts from `start_ns`, connecting first when needed.
    pub(super) fn start(&mut self, index: usize, start_ns: u64) -> Result<()> {
        if self.budget == 0 {
            self.finish(index);
            return Ok(());
        }
        let slot = &mut self.slots[index];
        slot.start_ns = start_ns;
        slot.state = State::Busy;
        if slot.conn.is_some() {
            return self.drive(index, Flags::empty());
        }
        slot.generation = (slot.generation + 1) & 0x7FFF_FFFF;
        let token = u64::from(slot.generation) << 32 | index as u64;
        match net::connect(self.options.target, slot.source) {
            Ok((fd, connected)) => {
                self.poll.add(&fd, token)?;
                slot.conn = Some(Conn::new(fd, connected));
                self.open += 1;
                if connected {
                    self.second.conns += 1;
                    return self.drive(index, Flags::empty());
                }
            }
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::MFILE.raw_os_error()) => {
                return Err(error)
                    .context("too many connections for this process: raise 'ulimit -n'");
            }
            Err(error) => {
                self.context.connect_error = error.raw_os_error();
                self.second.errors.count(ErrorKind::Connect);
                let now_ns = self.now_ns();
                self.pause(index, now_ns + RETRY_NS);
            }
        }
        Ok(())
    }

    pub(super) fn begin(&mut self, index: usize) {
        if self.budget == 0 {
            // Used up by others while this one was connecting.
            self.finish(index);
            return;
        }
        let slot = &mut self.slots[index];
        let Some(conn) = slot.conn.as_mut() else {
            return;
        };
        let left = self
            .options
            .requests_per_conn
            .map_or(u64::MAX, |max| max.saturating_sub(slot.sent).max(1));
        let times = (self.options.pipeline as u64).min(left).min(self.budget);
        conn.begin(self.options.mix.nth(self.begun), times as u32);
        slot.sent += times;
        self.begun += times;
        self.budget = self.budget.saturating_sub(times);
    }
}
