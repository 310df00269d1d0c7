//! Changes of servers that operators are told of, from whoever made them to the one task that writes them down.

use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use sluice_expr::ServerId;

/// What happened to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    EntersMaint,
    /// It was down before.
    EntersMaintDown,
    LeavesMaint,
    EntersDrain,
    LeavesDrain,
    /// As the server it tracks, or as a command said.
    WentUp,
    WentDown,
    Stops,
    /// Only its weight became zero, and it was the last of its backend.
    LeftLast,
}

/// One change; `via` names the tracked server it comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    pub server: ServerId,
    pub event: Event,
    pub via: Option<ServerId>,
    /// Active and backup servers of the backend that balancing could use right after it.
    pub usable: (usize, usize),
    /// Requests that waited for it and were sent to others.
    pub requeued: u32,
}

/// Changes not written down yet.
#[derive(Debug, Default)]
pub struct News(Mutex<Pending>);

#[derive(Debug, Default)]
struct Pending {
    changes: Vec<Change>,
    reader: Option<Waker>,
}

/// Most changes that wait: more than a busy loop of commands makes before the reader comes.
const WAITING_MAX: usize = 4096;

impl News {
    pub fn add(&self, change: Change) {
        let mut pending = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if pending.changes.len() < WAITING_MAX {
            pending.changes.push(change);
        }
        if let Some(reader) = pending.reader.take() {
            reader.wake();
        }
    }

    /// Waits for changes, in their order.
    pub fn poll(&self, cx: &mut Context<'_>) -> Poll<Vec<Change>> {
        let mut pending = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if pending.changes.is_empty() {
            pending.reader = Some(cx.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(std::mem::take(&mut pending.changes))
    }
}
