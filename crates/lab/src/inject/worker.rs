//! One load thread: decides which connection sends what when, and keeps the books.
//!
//! ```text
//!           ramp                request begun             answer                     open loop
//!   Off ───────────▶ start ───────────────────▶ Busy ───────────────▶ next ──────────────────────────▶ Idle ──due──▶ start
//!                      ▲                          │ failure             │ think time, retry
//!                      └────────── Paused ◀───────┴─────────────────────┤
//!                                                                       └▶ Draining (server closes) | Held | Finished
//! ```

mod books;
mod next;
mod pace;

use super::conn::{Answer, Conn, Context, Outcome};
use super::counts::{Counts, ErrorKind};
use super::{Options, Progress, Second};
use crate::host::Stop;
use crate::poll::{Events, Flags, Poll, TOKENS_RESERVED, Timers};
use anyhow::{Context as _, Result};
use books::record;
use rustix::fd::OwnedFd;
use rustix::time::{TimerfdClockId, TimerfdFlags};
use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Instant;

/// Pause before a failed connection is tried again: a dead target must not make the generator spin.
const RETRY_NS: u64 = 50_000_000;
const SECOND_NS: u64 = 1_000_000_000;
/// All connections are looked at for their timeout: not more often than this.
const EXPIRE_NS_MIN: u64 = 10_000_000;
const STOP_TOKEN: u64 = u64::MAX;
const TIMER_TOKEN: u64 = TOKENS_RESERVED;

/// Which part of the work is this thread's.
#[derive(Debug, Clone, Copy)]
pub struct Share {
    pub index: usize,
    pub of: usize,
}

impl Share {
    fn part(self, total: u64) -> u64 {
        let (index, of) = (self.index as u64, self.of as u64);
        total / of + u64::from(index < total % of)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Off,
    Paused(u64),
    Busy,
    Idle,
    Draining,
    Held,
    Finished,
}

struct Slot {
    conn: Option<Conn>,
    generation: u32,
    state: State,
    /// Requests begun on this connection.
    sent: u64,
    /// When the present request began or was due.
    start_ns: u64,
    source: Option<IpAddr>,
}

pub struct Worker {
    options: Options,
    share: Share,
    stop: Stop,
    progress: Arc<Progress>,
    samples: Sender<Second>,
    started: Instant,
    poll: Poll,
    timer: OwnedFd,
    timers: Timers,
    slots: Vec<Slot>,
    idle: VecDeque<usize>,
    context: Context,
    second: Counts,
    total: Counts,
    /// Requests still to begin.
    budget: u64,
    /// Requests begun: the position in the mix.
    begun: u64,
    /// Slots switched on so far.
    active: usize,
    finished: usize,
    open: u64,
    /// Nanoseconds between due times, and the number of the next one.
    interval_ns: Option<f64>,
    due: u64,
    /// The end of the last second with an answer.
    answered_ns: u64,
    /// Something failed in the last second that was closed.
    failed_before: bool,
}

impl Worker {
    pub fn new(
        options: Options,
        share: Share,
        started: Instant,
        stop: Stop,
        progress: Arc<Progress>,
        samples: Sender<Second>,
    ) -> Result<Self> {
        let poll = Poll::new()?;
        poll.add_level(stop.fd(), STOP_TOKEN)?;
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = rustix::time::timerfd_create(TimerfdClockId::Monotonic, flags)?;
        poll.add(&timer, TIMER_TOKEN)?;
        let conns = share.part(options.conns as u64) as usize;
        let source = |n: usize| {
            let sources = &options.sources;
            if sources.is_empty() {
                None
            } else {
                Some(sources[(n * share.of + share.index) % sources.len()])
            }
        };
        let slots = (0..conns)
            .map(|n| Slot {
                conn: None,
                generation: 0,
                state: State::Off,
                sent: 0,
                start_ns: 0,
                source: source(n),
            })
            .collect();
        let budget = options
            .requests_max
            .map_or(u64::MAX, |total| share.part(total));
        let interval_ns = options.rate.map(|rate| 1e9 * share.of as f64 / rate);
        let context = Context::new(options.check);
        Ok(Self {
            options,
            share,
            stop,
            progress,
            samples,
            started,
            poll,
            timer,
            timers: Timers::default(),
            slots,
            idle: VecDeque::new(),
            context,
            second: Counts::default(),
            total: Counts::default(),
            budget,
            begun: 0,
            active: 0,
            finished: 0,
            open: 0,
            interval_ns,
            due: 0,
            answered_ns: 0,
            failed_before: false,
        })
    }

    pub fn run(mut self) -> Result<Counts> {
        let mut events = Events::default();
        let end_ns = self
            .options
            .duration
            .map_or(u64::MAX, |d| d.as_nanos() as u64);
        let mut tick_ns = SECOND_NS;
        let expire_each_ns =
            (self.options.timeout.as_nanos() as u64 / 4).clamp(EXPIRE_NS_MIN, SECOND_NS);
        let mut expire_ns = expire_each_ns;
        loop {
            let now_ns = self.now_ns();
            if now_ns >= expire_ns {
                self.expire(now_ns);
                expire_ns = now_ns + expire_each_ns;
            }
            // Before the end: the last second is told too.
            if now_ns >= tick_ns {
                self.tick(now_ns);
                tick_ns = (now_ns / SECOND_NS + 1) * SECOND_NS;
            }
            if self.stop.is_set() || now_ns >= end_ns || self.finished == self.slots.len() {
                break;
            }
            self.schedule(now_ns)?;
            let wake_ns = self.next_wake_ns().min(tick_ns).min(expire_ns).min(end_ns);
            let timeout = self.arm(wake_ns)?;
            self.poll
                .wait(&mut events, timeout)
                .context("cannot wait for events")?;
            for (token, flags) in events.iter() {
                if token < TOKENS_RESERVED {
                    self.on_event(token, flags)?;
                }
            }
            self.publish();
        }
        self.close_books();
        Ok(self.total)
    }

    fn now_ns(&self) -> u64 {
        self.started.elapsed().as_nanos() as u64
    }

    fn on_event(&mut self, token: u64, flags: Flags) -> Result<()> {
        let index = token as u32 as usize;
        match self.slots.get(index) {
            Some(slot) if u64::from(slot.generation) == token >> 32 => self.drive(index, flags),
            _ => Ok(()),
        }
    }

    fn drive(&mut self, index: usize, mut flags: Flags) -> Result<()> {
        loop {
            let slot = &mut self.slots[index];
            let Some(conn) = slot.conn.as_mut() else {
                return Ok(());
            };
            let was_connected = conn.connected;
            let second = &mut self.second;
            let start_ns = slot.start_ns;
            let started = self.started;
            let outcome = conn.drive(
                &mut self.context,
                &self.options.mix.requests,
                flags,
                |answer| {
                    record(
                        second,
                        answer,
                        (started.elapsed().as_nanos() as u64).saturating_sub(start_ns),
                    );
                },
            );
            flags = Flags::empty();
            if !was_connected && conn.connected {
                self.second.conns += 1;
            }
            match outcome {
                Outcome::Ready if slot.state == State::Busy && !conn.busy() => self.begin(index),
                Outcome::Wait | Outcome::Ready => return Ok(()),
                Outcome::Done(answer) => {
                    let now_ns = self.now_ns();
                    record(&mut self.second, answer, now_ns.saturating_sub(start_ns));
                    if !self.on_done(index, answer, now_ns)? {
                        return Ok(());
                    }
                }
                Outcome::Failed(ErrorKind::Reset | ErrorKind::Ended)
                    if self.options.refusal_expected && slot.state == State::Busy =>
                {
                    let now_ns = self.now_ns();
                    let refused = Answer {
                        status: 0,
                        keep_alive: false,
                        right: true,
                    };
                    record(&mut self.second, refused, now_ns.saturating_sub(start_ns));
                    self.close(index);
                    return self.next(index, now_ns);
                }
                Outcome::Failed(kind) => {
                    let draining = slot.state == State::Draining;
                    if !draining {
                        self.second.errors.count(kind);
                    }
                    self.close(index);
                    let now_ns = self.now_ns();
                    if draining {
                        return self.next(index, now_ns);
                    }
                    self.pause(index, now_ns + RETRY_NS);
                    return Ok(());
                }
                Outcome::Ended => {
                    let state = slot.state;
                    self.close(index);
                    match state {
                        State::Draining => return self.next(index, self.now_ns()),
                        State::Held => self.second.errors.count(ErrorKind::Ended),
                        State::Busy => return self.start(index, start_ns),
                        // The server's keep-alive was over while nothing was asked: the next request connects.
                        _ => {}
                    }
                    return Ok(());
                }
            }
        }
    }
}
