//! `log-forward` sections (manual chapter 3.10): each worker takes messages from sockets of its own, as datagrams or over
//! connections, and sends them to the section's targets as it sends its own lines.

mod frames;
pub mod message;

use std::io;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use sluice_config::model::{Bind, ListenAddr, LogForward, LogHost, Model};
use socket2::Socket;
use tokio::net::{UdpSocket, UnixDatagram};

use crate::accept;
use crate::net::listen::{self, Bound};
use crate::worker::Worker;
use frames::Frame;
use message::Message;

/// A socket of a section, not yet given to a worker.
pub struct Ready {
    /// Index among the model's sections.
    section: usize,
    socket: Socketed,
    /// The section's connections on all workers, and those of the `bind` line.
    conns: [(Arc<AtomicU32>, u32); 2],
}

enum Socketed {
    Stream(Bound),
    Datagrams { socket: Socket, is_unix: bool },
}

/// One address of a section, to be bound.
pub struct Place<'a> {
    pub section: usize,
    pub forward: &'a LogForward,
    pub bind: &'a Bind,
    pub addr: &'a ListenAddr,
    pub datagrams: bool,
    conns: [(Arc<AtomicU32>, u32); 2],
}

/// Every address of every section.
pub fn places(model: &Model) -> Vec<Place<'_>> {
    let mut found = Vec::new();
    for (section, forward) in model.log_forwards.iter().enumerate() {
        let conns: Arc<AtomicU32> = Arc::default();
        let streams = forward.binds.iter().map(|b| (b, false));
        for (bind, datagrams) in streams.chain(forward.datagrams.iter().map(|b| (b, true))) {
            let own: Arc<AtomicU32> = Arc::default();
            found.extend(bind.addrs.iter().map(|addr| Place {
                section,
                forward,
                bind,
                addr,
                datagrams,
                conns: [
                    (conns.clone(), forward.maxconn),
                    (own.clone(), bind.maxconn),
                ],
            }));
        }
    }
    found
}

impl Place<'_> {
    /// A socket for each of `n` workers, as far as the kernel shares the address; `first` makes the first one, and may
    /// wait for the address.
    pub fn sockets(
        &self,
        n: usize,
        model: &Model,
        first: impl FnOnce(&dyn Fn() -> io::Result<Ready>) -> io::Result<Ready>,
    ) -> io::Result<Vec<Ready>> {
        let share = matches!(self.addr, ListenAddr::Tcp(_)) && !model.global.noreuseport;
        let one = || self.bind(share, model);
        let mut out = vec![first(&one)?];
        while out.len() < n && share {
            out.push(one()?);
        }
        Ok(out)
    }

    fn bind(&self, share: bool, model: &Model) -> io::Result<Ready> {
        let terms = listen::Terms {
            backlog: self.forward.backlog,
            maxconn: self.forward.maxconn,
            smart_accept: false,
            keep_alive: None,
        };
        let socket = match self.datagrams {
            true => Socketed::Datagrams {
                socket: listen::bind_datagrams(self.bind, self.addr)?,
                is_unix: !matches!(self.addr, ListenAddr::Tcp(_)),
            },
            false => {
                let tune = &model.global.tune;
                Socketed::Stream(listen::bind(&terms, self.bind, self.addr, share, tune)?)
            }
        };
        Ok(Ready {
            section: self.section,
            socket,
            conns: self.conns.clone(),
        })
    }
}

/// Takes messages until the soft stop begins.
pub async fn run(w: Rc<Worker>, ready: Ready) -> io::Result<()> {
    match ready.socket {
        Socketed::Datagrams { socket, is_unix } => {
            let from = match is_unix {
                true => Datagrams::Unix(UnixDatagram::from_std(
                    std::os::fd::OwnedFd::from(socket).into(),
                )?),
                false => Datagrams::Udp(UdpSocket::from_std(socket.into())?),
            };
            datagrams(&w, ready.section, &from).await
        }
        Socketed::Stream(bound) => connections(&w, ready.section, bound, ready.conns).await,
    }
}

enum Datagrams {
    Udp(UdpSocket),
    Unix(UnixDatagram),
}

impl Datagrams {
    async fn readable(&self) -> io::Result<()> {
        match self {
            Datagrams::Udp(s) => s.readable().await,
            Datagrams::Unix(s) => s.readable().await,
        }
    }

    fn receive(&self, buf: &mut [u8]) -> io::Result<(usize, Option<IpAddr>)> {
        match self {
            Datagrams::Udp(s) => s.try_recv_from(buf).map(|(n, from)| (n, Some(from.ip()))),
            Datagrams::Unix(s) => s.try_recv(buf).map(|n| (n, None)),
        }
    }
}

/// Datagrams taken before others get their turn.
const BURST: usize = 64;

async fn datagrams(w: &Rc<Worker>, section: usize, from: &Datagrams) -> io::Result<()> {
    let forward = &w.model().log_forwards[section];
    let mut buf = vec![0; most(w)];
    let mut stopped = std::pin::pin!(w.stopped.notified());
    let mut stopping = false;
    while !stopping {
        stopping = w.is_stopping();
        if !stopping {
            tokio::select! {
                biased;
                ready = from.readable() => ready?,
                // what is in the socket by now is taken
                () = &mut stopped => stopping = true,
            }
        }
        for _ in 0..BURST {
            match from.receive(&mut buf) {
                Ok((n, sender)) => take(w, forward, &buf[..n], sender),
                Err(_) => break,
            }
        }
        tokio::task::yield_now().await;
    }
    Ok(())
}

/// Pause between looks at a limit that is reached.
const LIMIT_PAUSE: Duration = Duration::from_millis(10);

async fn connections(
    w: &Rc<Worker>,
    section: usize,
    bound: Bound,
    conns: [(Arc<AtomicU32>, u32); 2],
) -> io::Result<()> {
    let socket = accept::Socket::of(bound)?;
    let mut stopped = std::pin::pin!(w.stopped.notified());
    while !w.is_stopping() {
        let counters = &w.runtime().counters;
        let room = |(now, most): &(Arc<AtomicU32>, u32)| *most == 0 || now.load(Relaxed) < *most;
        let process = w.runtime().maxconn.load(Relaxed);
        if !conns.iter().all(room) || process > 0 && counters.conns.now() >= process {
            tokio::time::sleep(LIMIT_PAUSE).await;
            continue;
        }
        let accepted = tokio::select! {
            biased;
            accepted = accept::accept(&socket) => accepted,
            () = &mut stopped => break,
        };
        let Ok((io, peer)) = accepted else {
            counters.accept_failures.inc();
            tokio::time::sleep(LIMIT_PAUSE).await;
            continue;
        };
        let counted = Counted::new(w, &conns);
        let w = w.clone();
        tokio::task::spawn_local(async move {
            let sender = match &peer {
                sluice_expr::env::Addr::Ip(addr) => Some(addr.ip()),
                _ => None,
            };
            stream(&w, section, io, sender).await;
            drop(counted);
        });
    }
    Ok(())
}

/// A connection that counts.
struct Counted {
    w: Rc<Worker>,
    conns: [Arc<AtomicU32>; 2],
}

impl Counted {
    fn new(w: &Rc<Worker>, conns: &[(Arc<AtomicU32>, u32); 2]) -> Self {
        w.sessions.set(w.sessions.get() + 1);
        w.runtime().counters.conns.enter();
        w.runtime().counters.conn_total.inc();
        let conns = conns.clone().map(|(now, _)| now);
        conns.iter().for_each(|now| _ = now.fetch_add(1, Relaxed));
        Counted {
            w: w.clone(),
            conns,
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.w.sessions.set(self.w.sessions.get().saturating_sub(1));
        self.w.runtime().counters.conns.leave();
        self.conns
            .iter()
            .for_each(|now| _ = now.fetch_sub(1, Relaxed));
    }
}

/// The messages of one connection, until it ends, says nothing for too long, or says what is no message.
async fn stream(
    w: &Rc<Worker>,
    section: usize,
    mut io: crate::net::Transport,
    sender: Option<IpAddr>,
) {
    let forward = &w.model().log_forwards[section];
    let most = most(w);
    let mut held = Vec::new();
    let mut room = vec![0; most];
    loop {
        let mut at = 0;
        loop {
            match frames::next(&held[at..], forward.lines_only, most) {
                Frame::Message(message, taken) => {
                    take(w, forward, message, sender);
                    at += taken;
                }
                Frame::Partial => break,
                Frame::Broken => return,
            }
        }
        held.drain(..at);
        let reading = std::future::poll_fn(|cx| io.poll_read(cx, &mut room));
        let read = match forward.timeout_client_ms {
            Some(ms) => match tokio::time::timeout(Duration::from_millis(ms), reading).await {
                Ok(read) => read,
                Err(_) => return,
            },
            None => reading.await,
        };
        match read {
            Ok(n) if n > 0 => held.extend_from_slice(&room[..n]),
            _ => return,
        }
        tokio::task::yield_now().await;
    }
}

/// Bytes a message may have.
fn most(w: &Worker) -> usize {
    w.model().global.tune.bufsize
}

fn take(w: &Worker, forward: &LogForward, mut bytes: &[u8], sender: Option<IpAddr>) {
    while let [rest @ .., b'\n' | 0] = bytes {
        bytes = rest;
    }
    let message = match forward.unparsed {
        true => Message::unparsed(bytes),
        false => Message::parse(bytes),
    };
    let sender = match (forward.host, sender) {
        (LogHost::Keep, _) | (_, None) => String::new(),
        (_, Some(ip)) => ip.to_canonical().to_string(),
    };
    w.logs.forward(forward, &message, &sender);
}
