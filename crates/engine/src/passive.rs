//! `observe layer4|layer7` (manual 5.2): what traffic shows of a server's health. Streams tell of each outcome; too many
//! bad ones in a row raise an alarm, which the task that checks the server takes and acts upon.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use sluice_config::model::{CheckParams, Observe};

/// What a stream saw of its server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Seen {
    Connected,
    NotConnected,
    GoodStatus,
    WrongStatus,
    BadResponse,
    Timeout,
    Closed,
}

impl Seen {
    /// Of a response's status: 501 and 505 are the client's doing.
    pub fn status(status: u16) -> Self {
        match status {
            100..=499 | 501 | 505 => Seen::GoodStatus,
            _ => Seen::WrongStatus,
        }
    }
    /// Whether it is an error for that kind of observation; `None` when it says nothing.
    fn is_error(self, observe: Observe) -> Option<bool> {
        match (self, observe) {
            (Seen::NotConnected, _) => Some(true),
            (Seen::Connected, Observe::Layer4) => Some(false),
            (Seen::Connected, Observe::Layer7) | (_, Observe::Layer4) => None,
            (Seen::GoodStatus, Observe::Layer7) => Some(false),
            (_, Observe::Layer7) => Some(true),
        }
    }
    /// In words, for `last_chk` and logs.
    fn description(self) -> &'static str {
        match self {
            Seen::Connected => "L4 successful connection",
            Seen::NotConnected => "L4 unsuccessful connection",
            Seen::GoodStatus => "Correct http response",
            Seen::WrongStatus => "Wrong http response",
            Seen::BadResponse => "Invalid http response",
            Seen::Timeout => "Read timeout (http)",
            Seen::Closed => "Close from server (http)",
        }
    }
    fn from_code(code: u8) -> Self {
        let bad = [
            Seen::NotConnected,
            Seen::WrongStatus,
            Seen::BadResponse,
            Seen::Timeout,
        ];
        let found = bad.into_iter().find(|s| *s as u8 == code);
        found.unwrap_or(Seen::Closed)
    }
}

/// The errors of one server's traffic.
#[derive(Debug, Default)]
pub struct Passive {
    in_row: AtomicU32,
    /// The error that raised the alarm.
    last: AtomicU8,
    raised: AtomicBool,
    /// Alarms so far (`hanafail`).
    pub alarms: AtomicU64,
    waker: Mutex<Option<Waker>>,
}

impl Passive {
    /// Takes an outcome in. Only servers that are checked are observed, for the checks bring them back.
    pub fn note(&self, seen: Seen, p: &CheckParams) {
        let Some(observe) = p.observe.filter(|_| p.enabled) else {
            return;
        };
        match seen.is_error(observe) {
            None => {}
            Some(false) => self.in_row.store(0, Relaxed),
            Some(true) => {
                let limit = p.error_limit.max(1);
                let before = self.in_row.fetch_update(Relaxed, Relaxed, |n| {
                    Some(if n + 1 >= limit { 0 } else { n + 1 })
                });
                if before.is_ok_and(|n| n + 1 >= limit) {
                    self.raise(seen);
                }
            }
        }
    }

    fn raise(&self, seen: Seen) {
        self.last.store(seen as u8, Relaxed);
        self.alarms.fetch_add(1, Relaxed);
        // the lock orders this with the waiting task's look: it sees the flag, or its waker is here
        let mut waker = self.waker.lock().unwrap_or_else(PoisonError::into_inner);
        self.raised.store(true, Relaxed);
        if let Some(w) = waker.take() {
            w.wake();
        }
    }

    /// Waits for an alarm; the reason in words. Alarms raised before it is taken are one.
    pub fn poll_alarm(&self, cx: &mut Context<'_>, p: &CheckParams) -> Poll<String> {
        let mut waker = self.waker.lock().unwrap_or_else(PoisonError::into_inner);
        if self.raised.swap(false, Relaxed) {
            let last = Seen::from_code(self.last.load(Relaxed)).description();
            let limit = p.error_limit.max(1);
            return Poll::Ready(format!(
                "Detected {limit} consecutive errors, last one was: {last}"
            ));
        }
        *waker = Some(cx.waker().clone());
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alarms(observe: Observe, seen: &[Seen]) -> u64 {
        let params = CheckParams {
            enabled: true,
            observe: Some(observe),
            error_limit: 3,
            ..CheckParams::default()
        };
        let passive = Passive::default();
        for s in seen {
            passive.note(*s, &params);
        }
        passive.alarms.load(Relaxed)
    }

    #[test]
    fn errors_in_a_row_raise_an_alarm_each_time_the_limit_is_reached() {
        use Seen::*;
        let bad = NotConnected;
        assert_eq!(alarms(Observe::Layer4, &[bad, bad]), 0);
        assert_eq!(alarms(Observe::Layer4, &[bad; 7]), 2);
        assert_eq!(alarms(Observe::Layer4, &[bad, bad, Connected, bad]), 0);
        assert_eq!(alarms(Observe::Layer4, &[WrongStatus; 9]), 0);
        assert_eq!(alarms(Observe::Layer7, &[WrongStatus, Timeout, Closed]), 1);
        // at layer 7 a connection alone proves nothing
        assert_eq!(
            alarms(Observe::Layer7, &[bad, Connected, bad, Connected, bad]),
            1
        );
        assert_eq!(alarms(Observe::Layer7, &[bad, bad, GoodStatus, bad]), 0);
    }

    #[test]
    fn what_the_client_asks_for_is_not_the_servers_error() {
        for (status, expect) in [
            (200, Seen::GoodStatus),
            (404, Seen::GoodStatus),
            (501, Seen::GoodStatus),
            (505, Seen::GoodStatus),
            (500, Seen::WrongStatus),
            (503, Seen::WrongStatus),
        ] {
            assert_eq!(Seen::status(status), expect, "{status}");
        }
    }

    #[test]
    fn an_alarm_is_taken_once_and_says_why() {
        let params = CheckParams {
            enabled: true,
            observe: Some(Observe::Layer7),
            error_limit: 1,
            ..CheckParams::default()
        };
        let passive = Passive::default();
        let mut cx = Context::from_waker(Waker::noop());
        assert!(passive.poll_alarm(&mut cx, &params).is_pending());
        passive.note(Seen::Closed, &params);
        let said = "Detected 1 consecutive errors, last one was: Close from server (http)";
        assert_eq!(
            passive.poll_alarm(&mut cx, &params),
            Poll::Ready(said.into())
        );
        assert!(passive.poll_alarm(&mut cx, &params).is_pending());
    }
}
