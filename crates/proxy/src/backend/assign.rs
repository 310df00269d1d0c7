//! Giving a stream its server: persistence, balancing, and the queues when servers are full.

use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};

use sluice_config::model::{Options, ServerTarget};
use sluice_engine::balance::Ask;
use sluice_engine::queue::{Grant, Queue, Ticket};
use sluice_engine::{ProxyState, ServerState};
use sluice_expr::ServerId;
use tokio::io::Interest;

use super::{Slot, hash};
use crate::net::{Transport, after_ms};
use crate::session::Client;
use crate::stream::Stream;
use crate::worker::Worker;

/// Why a stream got no server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoServer {
    /// None is up (or has a weight).
    NoneUsable,
    /// `timeout queue` passed.
    QueueTimeout,
    /// The server's queue is full and nothing else may be tried.
    QueueFull,
    /// The client left while it waited.
    ClientGone,
}

/// What the attempts of one stream remember.
#[derive(Debug, Default)]
pub struct Attempts {
    /// The server persistence or `use-server` asks for.
    pub wanted: Option<u32>,
    /// It must be that one, up or not (`force-persist`).
    pub forced: bool,
    /// The server that failed just now.
    pub avoid: Option<u32>,
    /// A whole exchange is being repeated, not only a connection attempt.
    pub again: bool,
}

/// Gives the stream a server and one of its slots, waiting in a queue if it must.
pub async fn assign(
    s: &mut Stream,
    client: &mut Client,
    attempts: &Attempts,
) -> Result<Slot, NoServer> {
    let w = s.w.clone();
    let id = s.info.backend;
    let state = w.runtime().proxy(id);
    if let Some(i) = attempts.wanted {
        let server = &state.servers[i as usize];
        if server.accepts_persistent() || attempts.forced {
            if server.take_slot(state.be.sessions.now(), state.fullconn) {
                return Ok(chosen(s, &w, server));
            }
            let max = server.conf.maxqueue;
            if max == 0 || server.queue.len() < max {
                return Box::pin(wait(s, client, &w, attempts, Some(i))).await;
            }
            if !s.backend().options.contains(Options::PERSIST) && s.backend().redispatch == 0 {
                return Err(NoServer::QueueFull);
            }
        }
    }
    let hash = if state.balancer.wants_hash() {
        hash::of(s)
    } else {
        None
    };
    for _ in 0..=state.servers.places() {
        let ask = Ask {
            hash,
            avoid: attempts.avoid,
            random: w.random(),
            backend_sessions: state.be.sessions.now(),
            fullconn: state.fullconn,
        };
        let index =
            preferred(s, state, attempts).or_else(|| state.balancer.choose(&state.servers, &ask));
        let Some(i) = index else { break };
        let server = &state.servers[i as usize];
        if server.take_slot(state.be.sessions.now(), ask.fullconn) {
            return Ok(chosen(s, &w, server));
        }
        if hash.is_some() {
            // the key belongs to this server: it waits there or nowhere
            let max = server.conf.maxqueue;
            if max > 0 && server.queue.len() >= max {
                return Err(NoServer::QueueFull);
            }
            return Box::pin(wait(s, client, &w, attempts, Some(i))).await;
        }
    }
    if state.usable_servers() == 0 {
        return Err(NoServer::NoneUsable);
    }
    Box::pin(wait(s, client, &w, attempts, None)).await
}

/// `option prefer-last-server` and authenticated connections: the server that served this client before, if it is usable
/// and not full.
fn preferred(s: &Stream, state: &ProxyState, attempts: &Attempts) -> Option<u32> {
    if !s.sess.prefers_last && !s.backend().options.contains(Options::PREFER_LAST_SERVER) {
        return None;
    }
    let last = s
        .sess
        .last_server
        .filter(|l| l.backend == s.info.backend && attempts.avoid != Some(l.index))?;
    state
        .servers
        .get(last.index as usize)
        .filter(|v| v.is_usable() && !too_many_wait(s, v))
        .map(|v| v.id.index)
}

/// `max-keep-alive-queue`: with that many in the queue of a full server, its client goes elsewhere.
fn too_many_wait(s: &Stream, server: &ServerState) -> bool {
    let most = s
        .backend()
        .max_keep_alive_queue
        .and_then(|n| u32::try_from(n).ok());
    let full = || {
        let limit = server.dynamic_maxconn(s.be_state().be.sessions.now(), s.be_state().fullconn);
        limit > 0 && server.served.load(Relaxed) >= limit
    };
    most.is_some_and(|most| full() && server.queue.len() >= most)
}

fn chosen(s: &mut Stream, w: &Rc<Worker>, server: &ServerState) -> Slot {
    s.info.server = Some(server.id);
    Slot::own(w, server.id)
}

/// Waits for a slot of one server, or of any of the backend.
async fn wait(
    s: &mut Stream,
    client: &mut Client,
    w: &Rc<Worker>,
    attempts: &Attempts,
    index: Option<u32>,
) -> Result<Slot, NoServer> {
    let state = w.runtime().proxy(s.info.backend);
    let (queue, counters) = match index {
        Some(i) => (
            &state.servers[i as usize].queue,
            &state.servers[i as usize].counters,
        ),
        None => (&state.queue, &state.be),
    };
    let ticket = queue.join(
        s.info.prio_class,
        s.info.prio_offset,
        crate::clock::now_us() / 1000,
        attempts.forced,
    );
    counters.queued.enter();
    match index {
        // the place itself counts as one passed
        Some(_) => s.info.srv_queue += ticket.ahead + 1,
        None => s.info.backend_queue += ticket.ahead + 1,
    }
    let place = Place {
        w,
        state,
        queue,
        ticket,
        settled: false,
    };
    // a slot may have become free between the look and the joining
    state.kick();
    let outcome = wait_in(s, client, place, index, attempts.forced).await;
    counters.queued.leave();
    match outcome? {
        Grant::Server(server) => {
            s.tick();
            Ok(chosen(s, w, &state.servers[server as usize]))
        }
        Grant::Away => {
            let elsewhere = Attempts {
                wanted: None,
                ..*attempts
            };
            Box::pin(assign(s, client, &elsewhere)).await
        }
    }
}

async fn wait_in(
    s: &mut Stream,
    client: &mut Client,
    mut place: Place<'_>,
    index: Option<u32>,
    forced: bool,
) -> Result<Grant, NoServer> {
    let deadline = after_ms(s.queue_timeout_ms());
    let abort_on_close = s.backend().options.contains(Options::ABORTONCLOSE);
    let outcome = std::future::poll_fn(|cx| {
        place.ticket.register(cx.waker());
        if let Some(grant) = place.ticket.granted() {
            return Poll::Ready(Ok(grant));
        }
        let hopeless = match index {
            Some(i) => !place.state.servers[i as usize].accepts_persistent(),
            None => place.state.usable_servers() == 0,
        };
        if hopeless && !forced {
            return Poll::Ready(Err(NoServer::NoneUsable));
        }
        if abort_on_close && client_gone(&client.io, &mut client.read_closed, cx) {
            return Poll::Ready(Err(NoServer::ClientGone));
        }
        client
            .timer
            .poll(cx, deadline)
            .map(|()| Err(NoServer::QueueTimeout))
    })
    .await;
    place.settled = outcome.is_ok();
    outcome
}

/// Whether the client closed its direction (`option abortonclose`). Early bytes of a next request stop the looking.
pub fn client_gone(io: &Transport, read_closed: &mut bool, cx: &mut Context<'_>) -> bool {
    while !*read_closed {
        if io.poll_read_ready(cx).is_pending() {
            return false;
        }
        let mut byte = [0];
        match io.try_io(Interest::READABLE, || crate::sys::peek(io, &mut byte)) {
            Ok(0) => *read_closed = true,
            Ok(_) => return false,
            Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(_) => *read_closed = true,
        }
    }
    true
}

/// Waits for something, with `watch` only as long as the client is there: `None` when it left.
pub async fn while_there<T>(
    watch: bool,
    io: &Transport,
    read_closed: &mut bool,
    wait: impl Future<Output = T>,
) -> Option<T> {
    let mut wait = std::pin::pin!(wait);
    std::future::poll_fn(|cx| match wait.as_mut().poll(cx) {
        Poll::Ready(done) => Poll::Ready(Some(done)),
        Poll::Pending if watch && client_gone(io, read_closed, cx) => Poll::Ready(None),
        Poll::Pending => Poll::Pending,
    })
    .await
}

/// A place in a queue that is given up when the stream stops waiting, however it does.
struct Place<'a> {
    w: &'a Rc<Worker>,
    state: &'a ProxyState,
    queue: &'a Queue,
    ticket: Ticket,
    settled: bool,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if self.settled {
            return;
        }
        // granted in the same moment: pass the slot on
        if let Some(Grant::Server(server)) = self.queue.leave(&self.ticket) {
            release(self.w, self.state.servers[server as usize].id);
        }
    }
}

/// Gives a slot back: to the first waiter of the server's or the backend's queue, whoever is due first.
pub fn release(w: &Worker, id: ServerId) {
    let state = w.runtime().proxy(id.backend);
    let server = &state.servers[id.index as usize];
    if server.queue.is_empty() && state.queue.is_empty() {
        server.served.fetch_sub(1, Relaxed);
        state.balancer.gave_back(server);
        // whoever joined in this moment looked before the slot was free
        if server.queue.is_empty() && state.queue.is_empty() {
            return;
        }
        return state.kick();
    }
    // a backup serves the backend's queue only while balancing uses it
    let used = state.balancer.uses(id.index);
    if used || !server.queue.is_empty() {
        let (own, any) = (server.queue.first(), state.queue.first());
        let granted = match (own, any) {
            (None, None) => false,
            (Some(a), Some(b)) if used && b < a => {
                state.queue.grant(id.index) || server.queue.grant(id.index)
            }
            (Some(_), _) => server.queue.grant(id.index) || (used && state.queue.grant(id.index)),
            (None, Some(_)) => used && state.queue.grant(id.index),
        };
        if granted {
            return;
        }
    }
    server.served.fetch_sub(1, Relaxed);
    state.balancer.gave_back(server);
    if !server.queue.is_empty() || !state.queue.is_empty() {
        state.kick();
    }
}

/// `use-server` rules: the first that holds and whose server may take the stream.
pub fn use_server(s: &Stream) -> Option<u32> {
    let be = s.backend();
    be.use_servers.iter().find_map(|rule| {
        if rule.cond.as_ref().is_some_and(|c| !c.eval_final(s)) {
            return None;
        }
        let index = match &rule.target {
            ServerTarget::Static(i) => *i,
            ServerTarget::Dynamic(f) => {
                crate::view::server_named(s.runtime(), be.id, &s.render(f))?.index
            }
        };
        s.be_state()
            .servers
            .get(index as usize)
            .filter(|v| v.accepts_persistent())
            .map(|_| index)
    })
}
