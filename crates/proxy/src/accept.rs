//! Accepting connections on a worker: limits first, then a session of its own.
//!
//! A listener pauses when the process's, the frontend's or its own `maxconn` is reached, when descriptors run out, or
//! when a rate limit is; the kernel's backlog holds the clients meanwhile.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use sluice_expr::env::Addr;
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::Notify;

use crate::clock;
use crate::net::Transport;
use crate::net::listen::Bound;
use crate::session::{self, Listener};
use crate::worker::Worker;

/// Pause after the process ran out of descriptors or memory.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(100);

/// Longest wait for a limit to free up: other workers free slots without telling this one.
const LIMIT_PAUSE: Duration = Duration::from_millis(10);

/// Connections taken in one go before others get their turn (`tune.maxaccept`).
const MAX_ACCEPT: u32 = 64;

thread_local! {
    /// Told when a session of this worker ended.
    static FREED: RefCell<Rc<Notify>> = RefCell::default();
}

/// A session ended: a paused listener of this worker may go on.
pub fn slot_freed(_w: &Worker, _l: &Listener) {
    FREED.with_borrow(|n| n.notify_waiters());
}

enum Socket {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// Accepts until the task is cancelled (soft stop drops it, which closes the socket).
pub async fn run(w: Rc<Worker>, l: Rc<Listener>, bound: Bound) -> io::Result<()> {
    let socket = match bound {
        Bound::Tcp(s) => Socket::Tcp(TcpListener::from_std(s)?),
        Bound::Unix(s) => Socket::Unix(UnixListener::from_std(s)?),
    };
    let burst = w.model().global.tune.maxaccept.unwrap_or(MAX_ACCEPT);
    let mut taken = 0;
    loop {
        wait_for_room(&w, &l).await;
        match accept(&socket).await {
            Ok((io, peer)) => {
                let rt = w.runtime();
                rt.counters.conns.enter();
                rt.counters.conn_total.inc();
                let now_ms = clock::mono_ms();
                rt.counters.conn_rate.hit(now_ms);
                l.state.fe.conns.enter();
                l.state.fe.conn_total.inc();
                l.state.fe.conn_rate.hit(now_ms);
                l.listener.counters.conns.enter();
                l.listener.counters.conn_total.inc();
                tokio::task::spawn_local(session::run(w.clone(), l.clone(), io, peer));
                taken += 1;
                if taken >= burst {
                    taken = 0;
                    tokio::task::yield_now().await;
                }
            }
            Err(e) if is_exhausted(&e) => {
                w.runtime().counters.accept_failures.inc();
                w.runtime().counters.accept_pauses.inc();
                tokio::time::sleep(EXHAUSTED_PAUSE).await;
            }
            // the client left before we came
            Err(_) => w.runtime().counters.accept_failures.inc(),
        }
    }
}

async fn accept(socket: &Socket) -> io::Result<(Transport, Addr)> {
    match socket {
        Socket::Tcp(s) => {
            let (io, peer) = s.accept().await?;
            let peer = std::net::SocketAddr::new(peer.ip().to_canonical(), peer.port());
            Ok((Transport::Tcp(io), Addr::Ip(peer)))
        }
        Socket::Unix(s) => {
            let (io, _) = s.accept().await?;
            Ok((Transport::Unix(io), Addr::Unix("unix".into())))
        }
    }
}

fn is_exhausted(e: &io::Error) -> bool {
    matches!(
        e.raw_os_error(),
        Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM)
    )
}

/// Waits until all limits allow one more connection.
async fn wait_for_room(w: &Worker, l: &Listener) {
    let mut paused = false;
    while !has_room(w, l) {
        if !paused {
            w.runtime().counters.accept_pauses.inc();
            paused = true;
        }
        let freed = FREED.with_borrow(Rc::clone);
        let _ = tokio::time::timeout(LIMIT_PAUSE, freed.notified()).await;
    }
}

fn has_room(w: &Worker, l: &Listener) -> bool {
    let rt = w.runtime();
    let now_ms = clock::mono_ms();
    let below = |n: u32, limit: u32| limit == 0 || n < limit;
    let g = &rt.model.global;
    below(rt.counters.conns.now(), rt.maxconn.load(Relaxed))
        && below(l.state.fe.conns.now(), l.state.fe_maxconn.load(Relaxed))
        && below(
            l.listener.counters.conns.now(),
            l.listener.maxconn.load(Relaxed),
        )
        && below(
            rate(&rt.counters.conn_rate, now_ms, g.maxconnrate),
            g.maxconnrate,
        )
        && below(
            rate(&rt.counters.sess_rate, now_ms, g.maxsessrate),
            g.maxsessrate,
        )
        && below(
            rate(&l.state.fe.sess_rate, now_ms, l.proxy.rate_limit_sessions),
            l.proxy.rate_limit_sessions,
        )
        && !l.state.disabled.load(Relaxed)
}

/// A rate is looked at only where it is limited.
fn rate(r: &sluice_engine::Rate, now_ms: u64, limit: u32) -> u32 {
    if limit == 0 { 0 } else { r.per_second(now_ms) }
}
