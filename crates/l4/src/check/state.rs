//! The state of one check: results in, standing and the time of the next probe out.
//!
//! ```text
//!            retry failures in a row
//!   Up  ---------------------------->  Down
//!    ^                                  |
//!    \---------------------------------/
//!               one success
//! ```
//!
//! Source: keepalived.conf(5), retry and delay_before_retry. Times are microseconds.

use crate::config::model::{CheckerKind, SECOND_US, Timing};

/// A check's timing with all defaults filled in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Schedule {
    pub delay_loop_us: u64,
    pub timeout_us: u64,
    /// Probes made again after a failure before the server is down.
    pub retry: u32,
    pub delay_before_retry_us: u64,
    /// Most random delay before the first probe.
    pub warmup_us: u64,
}

/// The manual's defaults, which differ by checker.
pub fn schedule(kind: &CheckerKind, timing: Timing) -> Schedule {
    let delay_loop_us = timing.delay_loop_us.unwrap_or(60 * SECOND_US);
    let (retry, before_retry) = match kind {
        CheckerKind::Dns { .. } => (3, delay_loop_us),
        CheckerKind::Misc(_) => (0, SECOND_US),
        CheckerKind::Http(_) => (1, 3 * SECOND_US),
        _ => (1, SECOND_US),
    };
    if let CheckerKind::File(_) = kind {
        // Looked at like the tracked files of VRRP; nothing to wait for, nothing to try again.
        return Schedule {
            delay_loop_us: SECOND_US / 4,
            timeout_us: SECOND_US,
            retry: 0,
            delay_before_retry_us: 0,
            warmup_us: 0,
        };
    }
    let timeout_us = match kind {
        // A program has until its next turn unless it is told otherwise.
        CheckerKind::Misc(m) => m.timeout_us.unwrap_or(delay_loop_us),
        _ => timing.connect_timeout_us.unwrap_or(5 * SECOND_US),
    };
    Schedule {
        delay_loop_us,
        timeout_us,
        retry: timing.retry.unwrap_or(retry),
        delay_before_retry_us: timing.delay_before_retry_us.unwrap_or(before_retry),
        warmup_us: timing.warmup_us.unwrap_or(delay_loop_us),
    }
}

/// One check's standing.
#[derive(Debug, Clone)]
pub struct CheckState {
    up: bool,
    failures: u32,
}

/// What a result leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Next {
    /// The new standing, if it changed.
    pub changed: Option<bool>,
    pub wait_us: u64,
}

impl CheckState {
    /// `alpha` starts down: nothing is known until a probe succeeds.
    pub fn new(alpha: bool) -> Self {
        CheckState {
            up: !alpha,
            failures: 0,
        }
    }
    pub fn up(&self) -> bool {
        self.up
    }

    pub fn result(&mut self, success: bool, schedule: &Schedule) -> Next {
        if success {
            self.failures = 0;
            let changed = (!self.up).then_some(true);
            self.up = true;
            return Next {
                changed,
                wait_us: schedule.delay_loop_us,
            };
        }
        if !self.up {
            return Next {
                changed: None,
                wait_us: schedule.delay_loop_us,
            };
        }
        self.failures += 1;
        if self.failures <= schedule.retry {
            return Next {
                changed: None,
                wait_us: schedule.delay_before_retry_us,
            };
        }
        self.failures = 0;
        self.up = false;
        Next {
            changed: Some(false),
            wait_us: schedule.delay_loop_us,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEDULE: Schedule = Schedule {
        delay_loop_us: 5,
        timeout_us: 9,
        retry: 2,
        delay_before_retry_us: 1,
        warmup_us: 0,
    };

    /// Runs results (+ and -) through a state: U, D or . for each, and the wait.
    fn check(alpha: bool, results: &str, expect: &str) {
        let mut state = CheckState::new(alpha);
        let got: Vec<String> = results
            .chars()
            .map(|c| {
                let next = state.result(c == '+', &SCHEDULE);
                let mark = match next.changed {
                    Some(true) => 'U',
                    Some(false) => 'D',
                    None => '.',
                };
                format!("{mark}{}", next.wait_us)
            })
            .collect();
        assert_eq!(got.join(" "), expect);
    }

    #[test]
    fn retries_come_before_the_fall() {
        check(false, "+---", ".5 .1 .1 D5");
        check(false, "--+---", ".1 .1 .5 .1 .1 D5");
    }

    #[test]
    fn one_success_raises() {
        check(false, "---+", ".1 .1 D5 U5");
        check(true, "--+", ".5 .5 U5");
    }

    #[test]
    fn defaults_depend_on_the_checker() {
        let s = schedule(&CheckerKind::Tcp, Timing::default());
        assert_eq!(
            (
                s.retry,
                s.delay_before_retry_us,
                s.delay_loop_us,
                s.timeout_us
            ),
            (1, SECOND_US, 60 * SECOND_US, 5 * SECOND_US)
        );
        let dns = CheckerKind::Dns {
            record: 6,
            name: ".".into(),
        };
        let s = schedule(
            &dns,
            Timing {
                delay_loop_us: Some(7),
                ..Timing::default()
            },
        );
        assert_eq!((s.retry, s.delay_before_retry_us), (3, 7));
    }
}
