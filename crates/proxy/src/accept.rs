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

/// A listening socket in the event loop.
pub(crate) enum Socket {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Socket {
    pub(crate) fn of(bound: Bound) -> io::Result<Socket> {
        Ok(match bound {
            Bound::Tcp(s) => Socket::Tcp(TcpListener::from_std(s)?),
            Bound::Unix(s) => Socket::Unix(UnixListener::from_std(s)?),
        })
    }
}

/// Most connections taken out of a queue when a soft stop begins.
const LAST_TAKEN: u32 = 4096;

/// Accepts until the soft stop begins. Then the clients that the kernel let in already are served too, and the socket
/// is closed.
pub async fn run(w: Rc<Worker>, l: Rc<Listener>, bound: Bound) -> io::Result<()> {
    let mut socket = Socket::of(bound)?;
    let burst = w.model().global.tune.maxaccept.unwrap_or(MAX_ACCEPT);
    let mut taken = 0;
    let mut stopped = std::pin::pin!(w.stopped.notified());
    while !w.is_stopping() {
        wait_for_room(&w, &l).await;
        let accepted = tokio::select! {
            biased;
            accepted = accept(&socket) => accepted,
            () = &mut stopped => break,
        };
        match accepted {
            Ok((io, peer)) => {
                begin(&w, &l, io, peer);
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
            Err(e) if is_paused(&e) => socket = resumed(&w, &l, socket).await?,
            // the client left before we came
            Err(_) => w.runtime().counters.accept_failures.inc(),
        }
    }
    take_the_last(&w, &l, socket)
}

/// Does not listen any more: another process was given the address for a while.
fn is_paused(e: &io::Error) -> bool {
    e.raw_os_error() == Some(libc::EINVAL)
}

/// Waits until the socket listens again. It is polled anew then, for the event loop remembers that it was shut.
async fn resumed(w: &Rc<Worker>, l: &Rc<Listener>, socket: Socket) -> io::Result<Socket> {
    let socket = match socket {
        Socket::Tcp(s) => s.into_std()?,
        unix => return Ok(unix),
    };
    loop {
        tokio::time::sleep(LIMIT_PAUSE).await;
        match socket.accept() {
            Err(e) if is_paused(&e) && !w.is_stopping() => {}
            Err(_) => return Ok(Socket::Tcp(TcpListener::from_std(socket)?)),
            Ok((io, peer)) => {
                io.set_nonblocking(true)?;
                let io = Transport::from(tokio::net::TcpStream::from_std(io)?);
                begin(w, l, io, tcp_peer(peer));
                return Ok(Socket::Tcp(TcpListener::from_std(socket)?));
            }
        }
    }
}

/// Ports that only privileged programs may use: a client there may be a server that was made to answer.
const PRIVILEGED_PORTS: std::ops::Range<u16> = 1..1024;

/// Counts a connection and starts its session.
fn begin(w: &Rc<Worker>, l: &Rc<Listener>, io: Transport, peer: Addr) {
    let rt = w.runtime();
    if w.model().global.rejects_privileged_ports && PRIVILEGED_PORTS.contains(&peer.port()) {
        return;
    }
    w.sessions.set(w.sessions.get() + 1);
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
}

/// Empties the kernel's queue before the socket is closed, which would reset those who wait in it.
fn take_the_last(w: &Rc<Worker>, l: &Rc<Listener>, socket: Socket) -> io::Result<()> {
    let mut next: Box<dyn FnMut() -> io::Result<(Transport, Addr)>> = match socket {
        Socket::Tcp(s) => {
            let s = s.into_std()?;
            Box::new(move || {
                let (io, peer) = s.accept()?;
                io.set_nonblocking(true)?;
                Ok((
                    Transport::from(tokio::net::TcpStream::from_std(io)?),
                    tcp_peer(peer),
                ))
            })
        }
        Socket::Unix(s) => {
            let s = s.into_std()?;
            Box::new(move || {
                let (io, _) = s.accept()?;
                io.set_nonblocking(true)?;
                let io = tokio::net::UnixStream::from_std(io)?;
                Ok((Transport::from(io), Addr::Unix("unix".into())))
            })
        }
    };
    for _ in 0..LAST_TAKEN {
        if !has_room(w, l) {
            break;
        }
        let Ok((io, peer)) = next() else { break };
        begin(w, l, io, peer);
    }
    Ok(())
}

fn tcp_peer(peer: std::net::SocketAddr) -> Addr {
    Addr::Ip(std::net::SocketAddr::new(
        peer.ip().to_canonical(),
        peer.port(),
    ))
}

pub(crate) async fn accept(socket: &Socket) -> io::Result<(Transport, Addr)> {
    match socket {
        Socket::Tcp(s) => {
            let (io, peer) = s.accept().await?;
            Ok((Transport::from(io), tcp_peer(peer)))
        }
        Socket::Unix(s) => {
            let (io, _) = s.accept().await?;
            Ok((Transport::from(io), Addr::Unix("unix".into())))
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
    while !has_room(w, l) && !w.is_stopping() {
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
    let conn_rate = rt.limits.conn_rate.load(Relaxed);
    let sess_rate = rt.limits.sess_rate.load(Relaxed);
    below(rt.counters.conns.now(), rt.maxconn.load(Relaxed))
        && below(l.state.fe.conns.now(), l.state.fe_maxconn.load(Relaxed))
        && below(
            l.listener.counters.conns.now(),
            l.listener.maxconn.load(Relaxed),
        )
        && below(rate(&rt.counters.conn_rate, now_ms, conn_rate), conn_rate)
        && below(rate(&rt.counters.sess_rate, now_ms, sess_rate), sess_rate)
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
