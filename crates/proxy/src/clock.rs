//! The clock, read here and nowhere else on the data path.
//!
//! Reading it costs more than most of what happens between two readings, so a session reads it once each time it is
//! woken ([`read`]) and everything that happens until it sleeps again bears that time ([`now`]), as an event loop does it.
//! Whoever is not a session's task reads it anew.

use std::cell::Cell;
use std::time::Duration;

use rustix::time::{ClockId, Timespec, clock_gettime};
use sluice_expr::env::Now;
use tokio::time::Instant;

/// Further ahead than any process runs.
const FAR_US: u64 = 1_000_000_000_000_000;

/// How long the distance between wall and monotonic clock is believed: a step of the wall clock shows within this.
const OFFSET_US: u64 = 100_000;

thread_local! {
    static NOW: Cell<Now> = const { Cell::new(Now { wall_us: 0, mono_us: 0 }) };
    /// Monotonic time of the last reading of the wall clock.
    static WALL_READ: Cell<u64> = const { Cell::new(0) };
    /// A moment on our clock and on the runtime's. Ours first: timers may fire a little late, never early.
    static EPOCH: (u64, Instant) = (micros(ClockId::Monotonic), Instant::now());
}

/// Reads the clock.
pub fn read() -> Now {
    let mono_us = micros(ClockId::Monotonic);
    let last = NOW.get();
    let wall_us = if last.mono_us == 0 || mono_us - WALL_READ.get() > OFFSET_US {
        WALL_READ.set(mono_us);
        micros(ClockId::Realtime) as i64
    } else {
        last.wall_us + (mono_us - last.mono_us) as i64
    };
    let now = Now { wall_us, mono_us };
    NOW.set(now);
    now
}

/// The time this session was woken.
pub fn now() -> Now {
    NOW.get()
}

/// As [`now`]: monotonic microseconds.
pub fn now_us() -> u64 {
    NOW.get().mono_us
}

/// Monotonic milliseconds, read anew.
pub fn mono_ms() -> u64 {
    read().mono_us / 1000
}

/// Processor time of the whole process, microseconds.
pub fn cpu_us() -> u64 {
    micros(ClockId::ProcessCPUTime)
}

/// Processor time of this thread, microseconds.
pub fn thread_cpu_us() -> u64 {
    micros(ClockId::ThreadCPUTime)
}

/// The runtime's name for a moment of ours, at most some thirty years ahead.
pub fn instant(mono_us: u64) -> Instant {
    EPOCH.with(|(us, instant)| {
        *instant + Duration::from_micros(mono_us.saturating_sub(*us).min(FAR_US))
    })
}

fn micros(clock: ClockId) -> u64 {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(clock);
    tv_sec as u64 * 1_000_000 + tv_nsec as u64 / 1000
}
