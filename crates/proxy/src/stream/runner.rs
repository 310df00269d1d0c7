//! Runners: the futures that carry requests, kept for the next one.
//!
//! A request's future holds a kilobyte and more of states that exclude each other. Made anew for each request it is copied
//! whole into memory that was not used lately. Kept, the one that ended last carries the next request while the caches
//! still hold it, and an idle connection owns none.

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

use super::http::{Fate, one_stream};
use crate::session::{Client, Listener, SessionData};
use crate::worker::Worker;

/// Runners kept for the next request.
const KEPT: usize = 1024;

/// A request to carry: a session's parts, handed over while it runs.
pub struct Job {
    pub l: Rc<Listener>,
    pub client: Box<Client>,
    pub sess: Box<SessionData>,
    /// The connection's first.
    pub first: bool,
}

/// A request's end: what was handed over, and what becomes of the client's connection.
pub struct Done {
    pub client: Box<Client>,
    pub sess: Box<SessionData>,
    pub fate: Fate,
}

type Runner = Pin<Box<dyn Future<Output = Infallible>>>;

/// A worker's runners. Jobs and ends change hands within one poll, so one place for each will do.
#[derive(Default)]
pub struct Runners {
    free: RefCell<Vec<Runner>>,
    job: Cell<Option<Job>>,
    done: Cell<Option<Done>>,
}

impl Runners {
    /// Runners kept for the next request, and the bytes of one.
    pub fn kept(&self) -> (usize, usize) {
        let free = self.free.borrow();
        (free.len(), free.last().map_or(0, |r| size_of_val(&**r)))
    }
}

/// Carries one request.
pub async fn carry(w: &Rc<Worker>, job: Job) -> Done {
    let runners = &w.runners;
    let free = runners.free.borrow_mut().pop();
    let mut runner = free.unwrap_or_else(|| Box::pin(run(w.clone())));
    // taken by the runner's first poll, before anything else of this worker runs
    runners.job.set(Some(job));
    let done = poll_fn(|cx| {
        let Poll::Pending = runner.as_mut().poll(cx);
        runners.done.take().map_or(Poll::Pending, Poll::Ready)
    })
    .await;
    let mut free = runners.free.borrow_mut();
    if free.len() < KEPT {
        free.push(runner);
    }
    done
}

async fn run(w: Rc<Worker>) -> Infallible {
    loop {
        let job = poll_fn(|_| w.runners.job.take().map_or(Poll::Pending, Poll::Ready));
        let Job {
            l,
            mut client,
            sess,
            first,
        } = job.await;
        let (sess, fate) = one_stream(&w, &l, &mut client, sess, first).await;
        drop(l);
        w.runners.done.set(Some(Done { client, sess, fate }));
    }
}
