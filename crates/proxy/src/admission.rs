//! Admission: how many requests a worker begins in one turn of its event loop.
//!
//! When more clients have sent a request than that, responses that are on their way back go first and the rest of the
//! requests begin in the turns that follow, in the order they came. Nothing waits while there is nothing else to do; but
//! what is begun is small enough to stay in the caches until its response comes.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::task::{Context, Poll, Waker};

/// Requests begun in one turn.
const A_TURN: usize = 16;

/// A worker with fewer sessions admits everything: all of it stays in the caches anyway.
const MANY: usize = 128;

/// A request's place in the order of those that wait.
#[derive(Clone, Copy)]
pub struct Ticket(u64);

/// A worker's.
#[derive(Default)]
pub struct Admission {
    /// Requests that may still begin in this turn.
    left: Cell<usize>,
    waiting: RefCell<VecDeque<Waker>>,
    /// Tickets given, and up to which of them requests may begin.
    given: Cell<u64>,
    admitted: Cell<u64>,
    /// The task that begins the turns; without one everything is admitted.
    porter: RefCell<Option<Waker>>,
}

impl Admission {
    /// Whether a worker with so many sessions asks before it begins a request.
    pub fn concerns(sessions: usize) -> bool {
        sessions > MANY
    }

    /// Ready when the request may begin. `ticket` is the request's own, none at first.
    pub fn poll(&self, cx: &mut Context<'_>, ticket: &mut Option<Ticket>) -> Poll<()> {
        if let Some(Ticket(n)) = *ticket {
            return match n < self.admitted.get() {
                true => Poll::Ready(()),
                false => Poll::Pending,
            };
        }
        let left = self.left.get();
        if left > 0 {
            self.left.set(left - 1);
            return Poll::Ready(());
        }
        let porter = self.porter.borrow();
        let Some(porter) = &*porter else {
            return Poll::Ready(());
        };
        let mut waiting = self.waiting.borrow_mut();
        if waiting.is_empty() {
            porter.wake_by_ref();
        }
        waiting.push_back(cx.waker().clone());
        *ticket = Some(Ticket(self.given.get()));
        self.given.set(self.given.get() + 1);
        Poll::Pending
    }

    /// Begins a turn, with those that wait longest. False when nobody did.
    fn turn(&self) -> bool {
        let mut waiting = self.waiting.borrow_mut();
        let n = waiting.len().min(A_TURN);
        self.admitted.set(self.admitted.get() + n as u64);
        for waker in waiting.drain(..n) {
            waker.wake();
        }
        self.left.set(A_TURN - n);
        n > 0
    }

    /// Nobody waits at the end of a turn: as many requests may begin in the next.
    pub fn end_of_turn(&self) {
        if self.waiting.borrow().is_empty() {
            self.left.set(A_TURN);
        }
    }

    /// Begins turns while somebody waits. Never ends.
    pub async fn run(&self) {
        loop {
            let mut called = false;
            poll_fn(|cx| {
                if self.porter.borrow().is_none() {
                    self.porter.replace(Some(cx.waker().clone()));
                    self.left.set(A_TURN);
                }
                match std::mem::replace(&mut called, true) {
                    true => Poll::Ready(()),
                    false => Poll::Pending,
                }
            })
            .await;
            loop {
                // responses that came meanwhile go first
                tokio::task::yield_now().await;
                if !self.turn() {
                    break;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::rc::Rc;
    use tokio::task::{LocalSet, spawn_local, yield_now};

    /// Requests that are there at once, and how many had begun each time another task had its turn.
    async fn begun(requests: usize, with_porter: bool) -> (Vec<usize>, Vec<usize>) {
        let work = async {
            let admission = Rc::new(Admission::default());
            let order = Rc::new(RefCell::new(Vec::new()));
            if with_porter {
                let admission = admission.clone();
                spawn_local(async move { admission.run().await });
                yield_now().await;
            }
            for n in 0..requests {
                let (admission, order) = (admission.clone(), order.clone());
                spawn_local(async move {
                    let mut ticket = None;
                    poll_fn(|cx| admission.poll(cx, &mut ticket)).await;
                    order.borrow_mut().push(n);
                });
            }
            let mut seen = Vec::new();
            while order.borrow().len() < requests {
                yield_now().await;
                seen.push(order.borrow().len());
            }
            (order.take(), seen)
        };
        let limit = std::time::Duration::from_secs(20);
        let local = LocalSet::new();
        tokio::time::timeout(limit, local.run_until(work))
            .await
            .expect("all begin")
    }

    #[tokio::test(flavor = "current_thread")]
    async fn what_exceeds_a_turn_begins_later_in_the_order_it_came() {
        let (order, seen) = begun(5 * A_TURN, true).await;
        assert_eq!(order, (0..5 * A_TURN).collect::<Vec<_>>());
        assert_eq!(seen[0], A_TURN);
        assert!(
            seen.windows(2).all(|w| w[1] - w[0] <= 2 * A_TURN),
            "{seen:?}"
        );
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_turn_s_worth_begins_at_once() {
        assert_eq!(begun(A_TURN, true).await.1, [A_TURN]);
    }

    #[tokio::test(flavor = "current_thread")]
    async fn without_a_porter_nobody_waits() {
        assert_eq!(begun(3 * A_TURN, false).await.1, [3 * A_TURN]);
    }

    #[test]
    fn a_worker_with_few_sessions_does_not_ask() {
        assert!(!Admission::concerns(MANY));
        assert!(Admission::concerns(MANY + 1));
    }
}
