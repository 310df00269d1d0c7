//! How much of a CPU the process and its threads used of late, for `cpu_usage_*`.
//!
//! Nothing is measured until somebody asks: the CPU clocks are read then, and a second later at the earliest again.

use std::cell::Cell;
use std::sync::{Mutex, PoisonError};

use rustix::time::{ClockId, Timespec, clock_gettime};

/// The shortest time a percentage is worked out over.
const WINDOW_US: i64 = 1_000_000;

/// What was measured last.
#[derive(Debug, Clone, Copy)]
struct Measured {
    wall_us: i64,
    cpu_us: i64,
    percent: i64,
}

impl Measured {
    const NEVER: Measured = Measured {
        wall_us: i64::MIN,
        cpu_us: 0,
        percent: 0,
    };

    /// Brought up to date. The first look has nothing to compare with and says 0.
    fn now(self, wall_us: i64, cpu_us: i64) -> Measured {
        if self.wall_us == i64::MIN {
            return Measured {
                wall_us,
                cpu_us,
                percent: 0,
            };
        }
        let passed = wall_us - self.wall_us;
        if passed < WINDOW_US {
            return self;
        }
        let percent = (cpu_us - self.cpu_us).max(0) * 100 / passed;
        Measured {
            wall_us,
            cpu_us,
            percent,
        }
    }
}

static PROCESS: Mutex<Measured> = Mutex::new(Measured::NEVER);

thread_local! {
    static THREAD: Cell<Measured> = const { Cell::new(Measured::NEVER) };
}

/// Percent of one CPU the process used: 200 when two were busy. One group holds all threads, so it is the group's too.
pub fn of_process() -> i64 {
    let mut measured = PROCESS.lock().unwrap_or_else(PoisonError::into_inner);
    *measured = measured.now(read(ClockId::Monotonic), read(ClockId::ProcessCPUTime));
    measured.percent
}

/// Percent of a CPU the calling thread used.
pub fn of_thread() -> i64 {
    THREAD.with(|cell| {
        let measured = cell
            .get()
            .now(read(ClockId::Monotonic), read(ClockId::ThreadCPUTime));
        cell.set(measured);
        measured.percent
    })
}

fn read(clock: ClockId) -> i64 {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(clock);
    tv_sec * 1_000_000 + tv_nsec / 1000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentage_is_of_the_time_since_the_last_one() {
        let first = Measured::NEVER.now(5_000_000, 700_000);
        assert_eq!(first.percent, 0);
        // too soon
        assert_eq!(first.now(5_500_000, 1_000_000).percent, 0);
        let second = first.now(7_000_000, 1_700_000);
        assert_eq!(second.percent, 50);
        assert_eq!(second.now(8_000_000, 3_700_000).percent, 200);
    }

    #[test]
    fn the_clocks_run() {
        let before = read(ClockId::ThreadCPUTime);
        let mut sum = 0u64;
        while read(ClockId::ThreadCPUTime) == before {
            sum = std::hint::black_box(sum + 1);
        }
        assert!(of_process() >= 0 && of_thread() >= 0);
    }
}
