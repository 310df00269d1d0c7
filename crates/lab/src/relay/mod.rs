//! `sluice-lab relay`: the floor. The least a TCP proxy can do on this kernel, as a limit for comparisons.
//!
//! Two loops over edge-triggered epoll: one copies through a buffer that a thread's connections share, the other
//! splices through pipes. Neither looks at the bytes. Owns threads and pairs of connections; the two ways to
//! move bytes are in [`pump`].

mod pump;

use crate::host::{CpuList, Stop};
use crate::net;
use crate::poll::{ENDED, Events, Flags, Poll, Slots, TOKENS_RESERVED};
use anyhow::{Context as _, Result};
use pump::{Moved, Pipes, Pump};
use rustix::fd::OwnedFd;
use std::net::SocketAddr;
use std::thread::JoinHandle;

/// Where to listen and where to relay to.
#[derive(Debug, Clone)]
pub struct Options {
    /// Listening address; port 0 lets the kernel choose.
    pub listen: SocketAddr,
    /// Servers, taken in turn.
    pub to: Vec<SocketAddr>,
    /// Threads.
    pub threads: usize,
    /// CPUs that the threads are spread over; empty: not pinned.
    pub cpus: CpuList,
    /// Splice through pipes instead of copying.
    pub splice: bool,
    /// Size of the copy buffer, or of a pipe.
    pub buffer_bytes: usize,
}

/// A running relay. Dropping it stops it.
#[derive(Debug)]
pub struct Relay {
    /// Where it listens.
    pub addr: SocketAddr,
    stop: Stop,
    threads: Vec<JoinHandle<()>>,
}

impl Relay {
    /// Starts the threads; the listener is open when this returns.
    ///
    /// # Errors
    /// An address in use or a CPU that does not exist, named; no server given.
    pub fn start(options: &Options) -> Result<Self> {
        anyhow::ensure!(
            !options.to.is_empty(),
            "the relay needs at least one server"
        );
        options.cpus.check()?;
        let stop = Stop::new()?;
        let mut addr = options.listen;
        net::check_free(addr)?;
        let mut threads = Vec::new();
        for index in 0..options.threads.max(1) {
            let listener = net::listen(addr, true)?;
            addr = net::local_addr(&listener)?;
            let mut thread = Thread::new(listener, options, stop.clone())?;
            let cpu = options.cpus.nth(index);
            threads.push(
                std::thread::Builder::new()
                    .name(format!("relay-{index}"))
                    .spawn(move || {
                        if let Err(error) = crate::host::pin(cpu)
                            .map_err(Into::into)
                            .and_then(|()| thread.run())
                        {
                            eprintln!("relay: {error:#}");
                        }
                    })?,
            );
        }
        Ok(Self {
            addr,
            stop,
            threads,
        })
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop.set();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

const STOP_TOKEN: u64 = u64::MAX;
const LISTEN_TOKEN: u64 = TOKENS_RESERVED;
/// The token's bit that tells the server's side from the client's (below the generation).
const SERVER_SIDE: u64 = 1 << 31;

/// A client's connection and the server's it is relayed to.
struct Pair {
    client: Side,
    server: Side,
    up: Pump,
    down: Pump,
}

struct Side {
    fd: OwnedFd,
    readable: bool,
    ended: bool,
    connected: bool,
}

impl Side {
    fn new(fd: OwnedFd, connected: bool) -> Self {
        Self {
            fd,
            readable: false,
            ended: false,
            connected,
        }
    }

    fn note(&mut self, flags: Flags) {
        self.readable |= flags.intersects(Flags::IN | ENDED);
        self.ended |= flags.intersects(ENDED);
        self.connected |= flags.intersects(Flags::OUT);
    }
}

struct Thread {
    listener: OwnedFd,
    to: Vec<SocketAddr>,
    turn: usize,
    poll: Poll,
    pairs: Slots<Pair>,
    scratch: Vec<u8>,
    pipes: Pipes,
    splice: bool,
    stop: Stop,
}

impl Thread {
    fn new(listener: OwnedFd, options: &Options, stop: Stop) -> Result<Self> {
        let poll = Poll::new()?;
        poll.add_level(stop.fd(), STOP_TOKEN)?;
        poll.add_level(&listener, LISTEN_TOKEN)?;
        Ok(Self {
            listener,
            to: options.to.clone(),
            turn: 0,
            poll,
            pairs: Slots::default(),
            scratch: vec![0; options.buffer_bytes.max(1)],
            pipes: Pipes::new(options.buffer_bytes),
            splice: options.splice,
            stop,
        })
    }

    fn run(&mut self) -> Result<()> {
        let mut events = Events::default();
        while !self.stop.is_set() {
            self.poll
                .wait(&mut events, None)
                .context("cannot wait for events")?;
            for (token, flags) in events.iter() {
                match token {
                    STOP_TOKEN => {}
                    LISTEN_TOKEN => self.accept(),
                    _ => self.drive(token, flags),
                }
            }
        }
        Ok(())
    }

    fn accept(&mut self) {
        const ACCEPT_MAX: usize = 64;
        for _ in 0..ACCEPT_MAX {
            let client = match net::accept(&self.listener) {
                Ok(Some(fd)) => fd,
                Ok(None) => return,
                Err(_) => {
                    std::thread::sleep(std::time::Duration::from_millis(1));
                    return;
                }
            };
            let _ = rustix::net::sockopt::set_tcp_nodelay(&client, true);
            let to = self.to[self.turn % self.to.len()];
            self.turn = self.turn.wrapping_add(1);
            let Ok((server, connected)) = net::connect(to, None) else {
                continue;
            };
            let poll = &self.poll;
            let added = self.pairs.insert_with(|token| {
                poll.add(&client, token)?;
                poll.add(&server, token | SERVER_SIDE)?;
                Ok::<_, std::io::Error>(Pair {
                    client: Side::new(client, true),
                    server: Side::new(server, connected),
                    up: Pump::default(),
                    down: Pump::default(),
                })
            });
            if let Ok(token) = added {
                self.drive(token, Flags::IN);
            }
        }
    }

    fn drive(&mut self, token: u64, flags: Flags) {
        let key = token & !SERVER_SIDE;
        let Some(pair) = self.pairs.find(key) else {
            return;
        };
        let from_server = token & SERVER_SIDE != 0;
        if from_server {
            pair.server.note(flags)
        } else {
            pair.client.note(flags)
        }
        if !pair.server.connected {
            if pair.server.ended {
                self.pairs.remove(key);
            }
            return;
        }
        let Pair {
            client,
            server,
            up,
            down,
        } = pair;
        let moved = if self.splice {
            [
                up.splice(client, server, &mut self.pipes),
                down.splice(server, client, &mut self.pipes),
            ]
        } else {
            [
                up.copy(client, server, &mut self.scratch),
                down.copy(server, client, &mut self.scratch),
            ]
        };
        let over = moved.iter().all(|m| *m == Moved::Finished) || moved.contains(&Moved::Broken);
        if over && let Some(pair) = self.pairs.remove(key) {
            self.pipes.give_back(pair.up);
            self.pipes.give_back(pair.down);
        }
    }
}
