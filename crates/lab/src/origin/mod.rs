//! `sluice-lab origin`: the server behind the proxies under test.
//!
//! Owns listeners and threads. What a request asks for is read by [`plan`], a connection's life is in
//! [`conn`]. Each thread has its own listeners (`SO_REUSEPORT`) and shares nothing with the others but
//! the content that all responses are made of.

mod conn;
mod plan;

pub use plan::QUERY_HELP;

use crate::host::{CpuList, Stop};
use crate::net;
use crate::poll::{Events, Flags, Poll, Slots, TOKENS_RESERVED, Timers};
use anyhow::{Context, Result};
use conn::{Conn, Fate, Shared};
use rustix::fd::OwnedFd;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What to serve and where.
#[derive(Debug, Clone)]
pub struct Options {
    /// The first listening address; port 0 lets the kernel choose.
    pub listen: SocketAddr,
    /// How many listeners on consecutive ports.
    pub servers: u16,
    /// Threads, each with all the listeners.
    pub threads: usize,
    /// CPUs that the threads are spread over; empty: not pinned.
    pub cpus: CpuList,
    /// Folder of static files.
    pub root: Option<PathBuf>,
    /// When true, no response carries the `Server` line that names the port it came from.
    pub anonymous: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            servers: 1,
            threads: 1,
            cpus: CpuList::default(),
            root: None,
            anonymous: true,
        }
    }
}

/// A running origin. Dropping it stops it.
#[derive(Debug)]
pub struct Origin {
    /// The address of each server.
    pub addrs: Vec<SocketAddr>,
    counters: Arc<Counters>,
    stop: Stop,
    threads: Vec<JoinHandle<()>>,
}

/// What the origin has seen, over all threads.
#[derive(Debug, Default)]
pub struct Counters {
    /// Connections taken.
    pub conns: AtomicU64,
    /// Responses begun.
    pub requests: AtomicU64,
    /// Requests that could not be understood.
    pub bad: AtomicU64,
}

impl Origin {
    /// Starts the threads; every listener is open when this returns.
    ///
    /// # Errors
    /// An address in use or a CPU that does not exist, named.
    pub fn start(options: &Options) -> Result<Self> {
        options.cpus.check()?;
        let port = options.listen.port();
        anyhow::ensure!(
            port == 0
                || port
                    .checked_add(options.servers.saturating_sub(1))
                    .is_some(),
            "{} servers from port {port} on: the last port is 65535",
            options.servers
        );
        if let Some(root) = &options.root {
            anyhow::ensure!(root.is_dir(), "there is no folder {}", root.display());
        }
        let stop = Stop::new()?;
        let counters = Arc::<Counters>::default();
        let shared = Arc::new(
            Shared::new(options.root.clone()).context("cannot prepare the origin's content")?,
        );
        let mut addrs = Vec::new();
        let mut threads = Vec::new();
        for index in 0..options.threads.max(1) {
            let mut listeners = Vec::new();
            for server in 0..options.servers.max(1) {
                let wanted = addrs.get(usize::from(server)).copied();
                let addr = wanted.unwrap_or(net::nth_port(options.listen, server));
                if wanted.is_none() {
                    net::check_free(addr)?;
                }
                let listener = net::listen(addr, true)?;
                if wanted.is_none() {
                    addrs.push(net::local_addr(&listener)?);
                }
                listeners.push(listener);
            }
            let cpu = options.cpus.nth(index);
            let names: Vec<_> = addrs
                .iter()
                .map(|a| {
                    if options.anonymous {
                        None
                    } else {
                        Some(a.port())
                    }
                })
                .collect();
            let (shared, counters, stop) =
                (Arc::clone(&shared), Arc::clone(&counters), stop.clone());
            let run = move || {
                crate::host::pin(cpu)?;
                Thread::new(listeners, names, shared, counters, stop)?.run()
            };
            threads.push(
                std::thread::Builder::new()
                    .name(format!("origin-{index}"))
                    .spawn(move || {
                        if let Err(error) = run() {
                            eprintln!("origin: {error:#}");
                        }
                    })?,
            );
        }
        Ok(Self {
            addrs,
            counters,
            stop,
            threads,
        })
    }

    /// The first server's address.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addrs
            .first()
            .copied()
            .unwrap_or(SocketAddr::from(([0; 4], 0)))
    }

    /// Totals so far.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.stop.set();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

const STOP_TOKEN: u64 = u64::MAX;

struct Thread {
    poll: Poll,
    listeners: Vec<(OwnedFd, Option<u16>)>,
    conns: Slots<Conn>,
    timers: Timers,
    context: conn::Context,
    counters: Arc<Counters>,
    stop: Stop,
    /// Times are nanoseconds since this.
    epoch: Instant,
}

impl Thread {
    fn new(
        listeners: Vec<OwnedFd>,
        names: Vec<Option<u16>>,
        shared: Arc<Shared>,
        counters: Arc<Counters>,
        stop: Stop,
    ) -> Result<Self> {
        let poll = Poll::new()?;
        poll.add_level(stop.fd(), STOP_TOKEN)?;
        for (index, listener) in listeners.iter().enumerate() {
            poll.add_level(listener, TOKENS_RESERVED + index as u64)?;
        }
        Ok(Self {
            poll,
            listeners: listeners.into_iter().zip(names).collect(),
            conns: Slots::default(),
            timers: Timers::default(),
            context: conn::Context::new(shared),
            counters,
            stop,
            epoch: Instant::now(),
        })
    }

    fn run(&mut self) -> Result<()> {
        let mut events = Events::default();
        while !self.stop.is_set() {
            let timeout = self
                .timers
                .next_ns()
                .map(|at| Duration::from_nanos(at.saturating_sub(self.now_ns())));
            self.poll
                .wait(&mut events, timeout)
                .context("cannot wait for events")?;
            for (token, flags) in events.iter() {
                match token {
                    STOP_TOKEN => {}
                    TOKENS_RESERVED.. => self.accept((token - TOKENS_RESERVED) as usize),
                    _ => self.drive(token, flags),
                }
            }
            while let Some(now) = self.timers.next_ns().map(|_| self.now_ns())
                && let Some(token) = self.timers.due(now)
            {
                self.drive(token, Flags::empty());
            }
            self.counters.requests.fetch_add(
                std::mem::take(&mut self.context.requests),
                Ordering::Relaxed,
            );
            self.counters
                .bad
                .fetch_add(std::mem::take(&mut self.context.bad), Ordering::Relaxed);
        }
        Ok(())
    }

    fn now_ns(&self) -> u64 {
        self.epoch.elapsed().as_nanos() as u64
    }

    /// Takes what waits on one listener. Out of descriptors: the rest waits until a connection ends.
    fn accept(&mut self, index: usize) {
        // A bound per event keeps one busy listener from starving the connections that exist.
        const ACCEPT_MAX: usize = 64;
        for _ in 0..ACCEPT_MAX {
            let Some((listener, name)) = self.listeners.get(index) else {
                return;
            };
            let fd = match net::accept(listener) {
                Ok(Some(fd)) => fd,
                Ok(None) => return,
                Err(_) => {
                    // EMFILE and its like: a level-triggered listener would spin; a pause lets others finish.
                    std::thread::sleep(Duration::from_millis(1));
                    return;
                }
            };
            let _ = rustix::net::sockopt::set_tcp_nodelay(&fd, true);
            let name = *name;
            let poll = &self.poll;
            let added = self.conns.insert_with(|token| {
                poll.add(&fd, token)?;
                Ok::<_, std::io::Error>(Conn::new(fd, name))
            });
            self.counters.conns.fetch_add(1, Ordering::Relaxed);
            // A request that came with the connection is answered without another turn of the loop.
            if let Ok(token) = added {
                self.drive(token, Flags::IN);
            }
        }
    }

    fn drive(&mut self, token: u64, flags: Flags) {
        let now_ns = self.epoch.elapsed().as_nanos() as u64;
        let Some(conn) = self.conns.find(token) else {
            return;
        };
        match conn.drive(&mut self.context, flags, now_ns) {
            Fate::Wait => {}
            Fate::WaitUntil(at_ns) => self.timers.add(at_ns, token),
            Fate::Close => drop(self.conns.remove(token)),
        }
    }
}
