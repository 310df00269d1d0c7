//! The BFD thread: all sessions, their timers and sockets, in one loop that does nothing else, since a neighbour that hears
//! nothing for three times ten milliseconds gives us up.
//!
//! What a session says is there for everyone in a [`watch`] channel: VRRP's trackers and BFD_CHECK follow it.

use super::routers::now_us;
use crate::bfd::packet::{LENGTH, Packet, State};
use crate::bfd::session::{Outcome, Session, Settings};
use crate::config::model::{Bfd, Config};
use crate::sys;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use tokio::sync::watch;

/// RFC 5881 section 4: single hop; keepalived uses it for several hops too.
const PORT: u16 = 3784;
/// And packets come from one of these.
const SOURCE_PORTS: std::ops::RangeInclusive<u16> = 49152..=65535;
/// Packets read in a row, so that a flood of them cannot keep ours from leaving.
const READ_MAX: usize = 64;

/// A session for `show`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct View {
    pub name: String,
    pub neighbour: Option<IpAddr>,
    pub state: &'static str,
    pub remote_state: &'static str,
    pub diagnostic: u8,
    pub detection_ms: u64,
    pub counts: Counts,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    pub sent: u64,
    pub received: u64,
    pub send_errors: u64,
    /// Not for a session, malformed, or from too far away.
    pub discarded: u64,
    pub went_up: u64,
    pub went_down: u64,
}

/// A session as it is wanted, and who is told of it.
type Followed = (Bfd, watch::Sender<bool>);

/// What thread and owner share.
struct Shared {
    /// The sessions, and how often they have been set.
    wanted: Mutex<(u64, Vec<Followed>)>,
    views: Mutex<Vec<View>>,
}

/// The handle; dropping it ends the sessions, and tells the neighbours.
pub struct Bfds {
    shared: Arc<Shared>,
    followed: HashMap<String, Followed>,
    wake: UnixStream,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Bfds {
    fn drop(&mut self) {
        self.end();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Bfds {
    /// No sessions yet; the thread starts with the first.
    pub fn new() -> io::Result<Bfds> {
        let (wake, _) = UnixStream::pair()?;
        Ok(Bfds {
            shared: Arc::new(Shared {
                wanted: Mutex::default(),
                views: Mutex::default(),
            }),
            followed: HashMap::new(),
            wake,
            thread: None,
        })
    }

    /// Runs exactly the sessions of this configuration; those that stay the same are not disturbed.
    pub fn apply(&mut self, config: &Config) -> io::Result<()> {
        self.followed
            .retain(|name, _| config.bfds.iter().any(|b| b.name == *name));
        for bfd in &config.bfds {
            // Who follows a session goes on with the one of the same name.
            let entry = self.followed.entry(bfd.name.clone());
            let followed = entry.or_insert_with(|| (bfd.clone(), watch::Sender::new(false)));
            followed.0.clone_from(bfd);
        }
        let mut wanted: Vec<_> = self.followed.values().cloned().collect();
        wanted.sort_by(|a, b| a.0.name.cmp(&b.0.name));
        {
            let mut shared = lock(&self.shared.wanted);
            *shared = (shared.0 + 1, wanted);
        }
        if self.thread.is_none() && !self.followed.is_empty() {
            let (wake, woken) = UnixStream::pair()?;
            woken.set_nonblocking(true)?;
            wake.set_nonblocking(true)?;
            self.wake = wake;
            let shared = self.shared.clone();
            let thread = std::thread::Builder::new().name("bfd".into());
            self.thread = Some(thread.spawn(move || Work::new(shared, woken).run())?);
        }
        let _ = (&self.wake).write(&[1]);
        Ok(())
    }

    /// Follows a session: whether it is up. None where there is no such session.
    pub fn follow(&self, name: &str) -> Option<watch::Receiver<bool>> {
        Some(self.followed.get(name)?.1.subscribe())
    }

    pub fn show(&self) -> Vec<View> {
        lock(&self.shared.views).clone()
    }

    fn end(&mut self) {
        // The thread ends when its other end of the pipe is closed.
        let _ = self.wake.shutdown(std::net::Shutdown::Both);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// One session at work.
struct Peer {
    bfd: Bfd,
    session: Session,
    /// None until our address is there.
    socket: Option<Socket>,
    up: watch::Sender<bool>,
    counts: Counts,
}

struct Work {
    shared: Arc<Shared>,
    woken: UnixStream,
    generation: u64,
    peers: Vec<Peer>,
    /// One for IPv4, one for IPv6.
    receivers: Vec<Socket>,
    next_discriminator: u32,
}

fn receiver(v6: bool) -> io::Result<Socket> {
    let (domain, any) = match v6 {
        true => (Domain::IPV6, IpAddr::from([0; 16])),
        false => (Domain::IPV4, IpAddr::from([0; 4])),
    };
    let socket = Socket::new(domain, Type::DGRAM.nonblocking(), Some(Protocol::UDP))?;
    if v6 {
        socket.set_only_v6(true)?;
    }
    sys::tell_hops(&socket, v6)?;
    socket.bind(&SockAddr::from(SocketAddr::new(any, PORT)))?;
    Ok(socket)
}

/// The socket that a session sends with, on a port of its own.
fn sender(bfd: &Bfd, neighbour: IpAddr, first: u16) -> io::Result<Socket> {
    let to = SocketAddr::new(neighbour, PORT);
    let socket = Socket::new(Domain::for_address(to), Type::DGRAM.nonblocking(), None)?;
    let hops = u32::from(bfd.hops_sent());
    let any = match neighbour.is_ipv6() {
        true => {
            socket.set_unicast_hops_v6(hops)?;
            IpAddr::from([0; 16])
        }
        false => {
            socket.set_ttl_v4(hops)?;
            // Network control.
            socket.set_tos_v4(0xc0)?;
            IpAddr::from([0; 4])
        }
    };
    let from = bfd.source.unwrap_or(any);
    let count = u32::from(SOURCE_PORTS.end() - SOURCE_PORTS.start()) + 1;
    let mut last = io::Error::other("no free source port");
    for n in 0..count {
        let port = *SOURCE_PORTS.start() + ((u32::from(first) + n) % count) as u16;
        match socket.bind(&SockAddr::from(SocketAddr::new(from, port))) {
            Ok(()) => {
                socket.connect(&SockAddr::from(to))?;
                return Ok(socket);
            }
            Err(e) if e.kind() == io::ErrorKind::AddrInUse => last = e,
            Err(e) => return Err(e),
        }
    }
    Err(last)
}

impl Work {
    fn new(shared: Arc<Shared>, woken: UnixStream) -> Work {
        // Another one after each start, so that packets of an earlier life are known as such.
        let seed = now_us() ^ u64::from(std::process::id()) << 20;
        Work {
            shared,
            woken,
            generation: 0,
            peers: Vec::new(),
            receivers: Vec::new(),
            next_discriminator: (seed ^ seed >> 32) as u32,
        }
    }

    fn run(mut self) {
        loop {
            self.take_wanted();
            self.timers();
            self.tell();
            self.wait();
            self.receive();
            let mut bytes = [0; 64];
            loop {
                match self.woken.read(&mut bytes) {
                    Ok(0) => return self.farewell(),
                    Ok(_) => {}
                    Err(_) => break,
                }
            }
        }
    }

    fn farewell(mut self) {
        for peer in &mut self.peers {
            peer.end();
        }
    }

    /// The sessions as the configuration wants them.
    fn take_wanted(&mut self) {
        let (generation, wanted) = lock(&self.shared.wanted).clone();
        if generation == self.generation {
            return;
        }
        self.generation = generation;
        self.peers.retain_mut(|peer| {
            let stays = wanted.iter().any(|(bfd, _)| *bfd == peer.bfd);
            if !stays {
                peer.end();
            }
            stays
        });
        for (bfd, up) in wanted {
            if self.peers.iter().any(|p| p.bfd == bfd) {
                continue;
            }
            self.next_discriminator = self.next_discriminator.wrapping_add(0x9e37_79b9) | 1;
            let settings = Settings {
                discriminator: self.next_discriminator,
                min_tx_us: bfd.min_tx_us,
                min_rx_us: bfd.min_rx_us,
                idle_tx_us: bfd.idle_tx_us,
                multiplier: bfd.multiplier,
                passive: bfd.passive,
            };
            self.peers.push(Peer {
                session: Session::new(settings, now_us()),
                bfd,
                socket: None,
                up,
                counts: Counts::default(),
            });
        }
        for v6 in [false, true] {
            let of_family = |p: &Peer| p.bfd.neighbour.is_some_and(|n| n.is_ipv6() == v6);
            let domain = if v6 { Domain::IPV6 } else { Domain::IPV4 };
            let there = self
                .receivers
                .iter()
                .any(|r| r.domain().is_ok_and(|d| d == domain));
            if there || !self.peers.iter().any(of_family) {
                continue;
            }
            match receiver(v6) {
                Ok(socket) => self.receivers.push(socket),
                Err(e) => println!("BFD cannot listen on port {PORT}: {e}"),
            }
        }
    }

    fn timers(&mut self) {
        for peer in &mut self.peers {
            let now = now_us();
            if peer.session.next_timer().is_some_and(|at| at <= now) {
                let outcome = peer.session.timer(now);
                peer.act(outcome);
            }
        }
    }

    /// What `show` gives.
    fn tell(&self) {
        let views = self.peers.iter().map(|p| View {
            name: p.bfd.name.clone(),
            neighbour: p.bfd.neighbour,
            state: p.session.state().name(),
            remote_state: p.session.remote_state().name(),
            diagnostic: p.session.diagnostic() as u8,
            detection_ms: p.session.detection_us() / 1000,
            counts: p.counts.clone(),
        });
        *lock(&self.shared.views) = views.collect();
    }

    fn wait(&self) {
        let next = self
            .peers
            .iter()
            .filter_map(|p| p.session.next_timer())
            .min();
        let timeout = next.map(|at| {
            let left = at.saturating_sub(now_us());
            Timespec {
                tv_sec: (left / 1_000_000) as i64,
                tv_nsec: (left % 1_000_000 * 1000) as i64,
            }
        });
        let mut fds = vec![PollFd::new(&self.woken, PollFlags::IN)];
        fds.extend(
            self.receivers
                .iter()
                .map(|r| PollFd::from_borrowed_fd(r.as_fd(), PollFlags::IN)),
        );
        // An interruption is as good as a wake-up.
        let _ = poll(&mut fds, timeout.as_ref());
    }

    fn receive(&mut self) {
        let mut buffer = [0; 256];
        for receiver in &self.receivers {
            for _ in 0..READ_MAX {
                let Ok((length, source, hops)) = sys::receive_with_hops(receiver, &mut buffer)
                else {
                    break;
                };
                let source = source.to_canonical();
                let bytes = buffer.get(..length).unwrap_or_default();
                let of_source = self
                    .peers
                    .iter_mut()
                    .find(|p| p.bfd.neighbour == Some(source));
                let Some(peer) = of_source else { continue };
                let near = hops.is_none_or(|hops| hops >= peer.bfd.hops_min());
                match Packet::decode(bytes) {
                    // What is for an earlier session of ours is for none.
                    Ok(packet)
                        if near
                            && (packet.yours == 0
                                || packet.yours == peer.session.settings.discriminator) =>
                    {
                        peer.counts.received += 1;
                        let outcome = peer.session.packet_came(&packet, now_us());
                        peer.act(outcome);
                    }
                    _ => peer.counts.discarded += 1,
                }
            }
        }
    }
}

impl Peer {
    fn act(&mut self, outcome: Outcome) {
        if let Some(state) = outcome.changed {
            println!("BFD {}: {}", self.bfd.name, state.name());
            let up = state == State::Up;
            match up {
                true => self.counts.went_up += 1,
                false if *self.up.borrow() => self.counts.went_down += 1,
                false => {}
            }
            self.up
                .send_if_modified(|was| std::mem::replace(was, up) != up);
        }
        if let Some(packet) = outcome.send {
            self.send(&packet);
        }
    }

    fn send(&mut self, packet: &Packet) {
        if self.socket.is_none() {
            let first = self.session.settings.discriminator as u16;
            self.socket = self
                .bfd
                .neighbour
                .and_then(|n| sender(&self.bfd, n, first).ok());
        }
        let bytes: [u8; LENGTH] = packet.encode();
        match self.socket.as_ref().map(|s| s.send(&bytes)) {
            Some(Ok(_)) => self.counts.sent += 1,
            // Nobody listens there yet.
            Some(Err(e)) if e.kind() == io::ErrorKind::ConnectionRefused => self.counts.sent += 1,
            _ => {
                self.counts.send_errors += 1;
                self.socket = None;
            }
        }
    }

    fn end(&mut self) {
        let packet = self.session.end();
        self.send(&packet);
        self.up
            .send_if_modified(|was| std::mem::replace(was, false));
    }
}
