//! One timer a session: phases move its deadline, and only an earlier one touches the runtime's timer wheel.
//!
//! A request passes several timeouts (client, connect, server, keep-alive); arming and disarming each would cost more
//! than parsing the request. Here a later deadline costs nothing: the armed timer fires early and is set again.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

/// A deadline, or none: waits forever.
pub type Deadline = Option<Instant>;

/// The deadline that lies `timeout_ms` ahead.
pub fn after_ms(timeout_ms: Option<u64>) -> Deadline {
    timeout_ms.map(|ms| Instant::now() + Duration::from_millis(ms))
}

/// The earlier of two deadlines.
pub fn earlier(a: Deadline, b: Deadline) -> Deadline {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (one, other) => one.or(other),
    }
}

/// A lazily armed timer.
#[derive(Default)]
pub struct Timer {
    sleep: Option<Pin<Box<Sleep>>>,
}

impl Timer {
    /// Ready when `deadline` has passed.
    pub fn poll(&mut self, cx: &mut Context<'_>, deadline: Deadline) -> Poll<()> {
        let Some(deadline) = deadline else {
            return Poll::Pending;
        };
        let sleep = self
            .sleep
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
        if deadline < sleep.deadline() {
            sleep.as_mut().reset(deadline);
        }
        while sleep.as_mut().poll(cx).is_ready() {
            if Instant::now() >= deadline {
                return Poll::Ready(());
            }
            sleep.as_mut().reset(deadline);
        }
        Poll::Pending
    }

    /// Waits until `deadline`.
    pub async fn until(&mut self, deadline: Deadline) {
        std::future::poll_fn(|cx| self.poll(cx, deadline)).await;
    }
}
