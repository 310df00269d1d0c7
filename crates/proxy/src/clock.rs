//! The clock, read here and nowhere else on the data path.

use std::time::{SystemTime, UNIX_EPOCH};

use sluice_expr::env::Now;

/// Wall and monotonic clock, as they are now.
pub fn now() -> Now {
    let wall_us = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| d.as_micros() as i64);
    Now {
        wall_us,
        mono_us: mono_us(),
    }
}

/// Monotonic microseconds.
pub fn mono_us() -> u64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    t.tv_sec as u64 * 1_000_000 + t.tv_nsec as u64 / 1000
}

/// Processor time of the whole process, microseconds.
pub fn cpu_us() -> u64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    t.tv_sec as u64 * 1_000_000 + t.tv_nsec as u64 / 1000
}

/// Monotonic milliseconds.
pub fn mono_ms() -> u64 {
    mono_us() / 1000
}
