//! One timer a session: phases move its deadline, and only an earlier one touches the runtime's timer wheel.
//!
//! A request passes several timeouts (client, connect, server, keep-alive); arming and disarming each would cost more
//! than parsing the request. Here a later deadline costs nothing: the armed timer fires early and is set again.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::time::{Sleep, sleep_until};

use crate::clock;

/// A deadline in monotonic microseconds, or none: waits forever.
pub type Deadline = Option<u64>;

/// The deadline that lies `timeout_ms` ahead.
pub fn after_ms(timeout_ms: Option<u64>) -> Deadline {
    since(clock::now_us(), timeout_ms)
}

/// The deadline that lies `timeout_ms` after `start_us`.
pub fn since(start_us: u64, timeout_ms: Option<u64>) -> Deadline {
    timeout_ms.map(|ms| start_us.saturating_add(ms.saturating_mul(1000)))
}

/// The earlier of two deadlines.
pub fn earlier(a: Deadline, b: Deadline) -> Deadline {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (one, other) => one.or(other),
    }
}

/// A lazily armed timer of one task.
#[derive(Default)]
pub struct Timer {
    sleep: Option<Pin<Box<Sleep>>>,
    /// When `sleep` fires, µs; the task is registered with it until then.
    armed_us: u64,
}

impl Timer {
    /// Ready when `deadline` has passed. Always to be polled by the same task, which is woken then.
    pub fn poll(&mut self, cx: &mut Context<'_>, deadline: Deadline) -> Poll<()> {
        let Some(deadline) = deadline else {
            return Poll::Pending;
        };
        let now = clock::now_us();
        if now < self.armed_us && self.armed_us <= deadline {
            // the armed timer comes first, and has not come yet
            return Poll::Pending;
        }
        if now >= deadline {
            return Poll::Ready(());
        }
        self.arm(cx, deadline)
    }

    #[cold]
    fn arm(&mut self, cx: &mut Context<'_>, deadline: u64) -> Poll<()> {
        let at = clock::instant(deadline);
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(sleep_until(at)));
        if self.armed_us != deadline {
            sleep.as_mut().reset(at);
        }
        self.armed_us = deadline;
        sleep.as_mut().poll(cx)
    }

    /// Waits until `deadline`.
    pub async fn until(&mut self, deadline: Deadline) {
        std::future::poll_fn(|cx| self.poll(cx, deadline)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Waits as a session does: the clock is read at each wake-up. Gives the time at the end.
    async fn wait(timer: &mut Timer, deadline: u64) -> u64 {
        std::future::poll_fn(|cx| {
            clock::read();
            timer.poll(cx, Some(deadline))
        })
        .await;
        clock::read().mono_us
    }

    #[tokio::test]
    async fn one_timer_serves_deadlines_in_any_order() {
        let mut timer = Timer::default();
        let start = clock::read().mono_us;
        // armed for the first; the second is earlier, the third later than what is armed, the last is past already
        for ms in [30, 10, 40, 60, 5] {
            let deadline = start + ms * 1000;
            assert!(wait(&mut timer, deadline).await >= deadline);
        }
    }

    #[tokio::test]
    async fn an_armed_timer_that_comes_first_still_wakes() {
        let mut timer = Timer::default();
        let start = clock::read().mono_us;
        let early = start + 10_000;
        let armed = std::future::poll_fn(|cx| {
            clock::read();
            std::task::Poll::Ready(timer.poll(cx, Some(early)).is_pending())
        });
        assert!(armed.await, "nobody waits 10 ms for a first poll");
        // the armed one fires before this deadline and has to be set again for it
        let late = start + 30_000;
        assert!(wait(&mut timer, late).await >= late);
    }
}
