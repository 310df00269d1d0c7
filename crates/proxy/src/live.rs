//! The sessions of a worker, as `show sess` lists and `shutdown session` ends them. The worker alone touches the list; the
//! main thread asks it (`start::Workers::ask`).

use std::cell::{Cell, RefCell};
use std::os::fd::RawFd;

use sluice_config::model::{Mode, Proxy};
use sluice_control::sessions::SessionRow;
use sluice_engine::Runtime;
use sluice_expr::env::Addr;
use sluice_expr::{ProxyId, ServerId};

use crate::{clock, sys};

/// One session.
struct Live {
    id: u64,
    since_us: i64,
    since_mono_us: u64,
    src: Addr,
    dst: Addr,
    frontend: ProxyId,
    is_http: bool,
    listener: u32,
    client_fd: RawFd,
    /// Streams so far, and whether one runs now.
    streams: u64,
    busy: bool,
    backend: Option<ProxyId>,
    server: Option<ServerId>,
    server_fd: Option<RawFd>,
    /// The server's epoch when the stream went there: a newer one ends it.
    epoch: u64,
    /// The log's character for who ended it (`K`, `D`, `U`), 0 for nobody.
    killed: u8,
}

/// All sessions of one worker.
#[derive(Default)]
pub struct Sessions {
    list: RefCell<slab::Slab<Live>>,
    count: Cell<u64>,
    streams: Cell<u64>,
}

/// The descriptors of a session: the client's with its frontend, the server's with its server.
pub type Ends = (RawFd, ProxyId, Option<(RawFd, ServerId)>);

/// A session's place in the list.
pub type Key = usize;

/// Bits of a session's number that tell its worker.
const WORKER_SHIFT: u32 = 48;

impl Sessions {
    /// A connection was accepted.
    pub fn enter(
        &self,
        worker: u32,
        ends: (Addr, Addr),
        frontend: &Proxy,
        listener: u32,
        client_fd: RawFd,
    ) -> Key {
        let now = clock::now();
        self.count.set(self.count.get() + 1);
        self.list.borrow_mut().insert(Live {
            id: u64::from(worker + 1) << WORKER_SHIFT | self.count.get(),
            since_us: now.wall_us,
            since_mono_us: now.mono_us,
            src: ends.0,
            dst: ends.1,
            frontend: frontend.id,
            is_http: frontend.mode == Mode::Http,
            listener,
            client_fd,
            streams: 0,
            busy: false,
            backend: None,
            server: None,
            server_fd: None,
            epoch: 0,
            killed: 0,
        })
    }

    pub fn leave(&self, key: Key) {
        self.list.borrow_mut().try_remove(key);
    }

    fn change(&self, key: Option<Key>, act: impl FnOnce(&mut Live)) {
        if let Some(live) = key.and_then(|k| self.list.borrow_mut().get_mut(k).map(act)) {
            live
        }
    }

    /// A stream begins.
    pub fn begin(&self, key: Option<Key>) {
        self.streams.set(self.streams.get() + 1);
        self.change(key, |l| {
            l.streams += 1;
            l.busy = true;
        });
    }

    /// The stream has a backend.
    pub fn on_backend(&self, key: Option<Key>, id: ProxyId) {
        self.change(key, |l| l.backend = Some(id));
    }

    /// The stream is on a server's connection.
    pub fn on_server(&self, key: Option<Key>, id: ServerId, epoch: u64, fd: Option<RawFd>) {
        self.change(key, |l| {
            (l.server, l.epoch, l.server_fd) = (Some(id), epoch, fd);
        });
    }

    /// The server's connection is no longer the stream's.
    pub fn off_server(&self, key: Option<Key>) {
        self.change(key, |l| l.server_fd = None);
    }

    /// The stream is over. Who ended it, when somebody did.
    pub fn end(&self, key: Option<Key>) -> Option<u8> {
        let mut killed = 0;
        self.change(key, |l| {
            (l.busy, l.backend, l.server, l.server_fd) = (false, None, None, None);
            killed = l.killed;
        });
        Some(killed).filter(|k| *k != 0)
    }

    /// Ends a session: its sockets are shut, and its stream finds out. An HTTP client may get its 502.
    fn kill(live: &mut Live, cause: u8) {
        live.killed = cause;
        if let Some(fd) = live.server_fd {
            sys::shut(fd);
        }
        if live.server_fd.is_none() || !live.is_http {
            sys::shut(live.client_fd);
        }
    }

    /// Ends all sessions that have a stream.
    pub fn shutdown_all(&self) {
        let mut list = self.list.borrow_mut();
        let busy = list.iter_mut().filter(|(_, l)| l.busy);
        busy.for_each(|(_, l)| Self::kill(l, b'K'));
    }

    /// Ends the session with that number.
    pub fn shutdown(&self, id: u64) -> bool {
        let mut list = self.list.borrow_mut();
        let found = list.iter_mut().find(|(_, l)| l.id == id && l.busy);
        found.map(|(_, l)| Self::kill(l, b'K')).is_some()
    }

    /// Ends the sessions on servers whose sessions are to end.
    pub fn shutdown_stale(&self, rt: &Runtime) {
        for (_, live) in self.list.borrow_mut().iter_mut() {
            let Some(id) = live.server else { continue };
            let server = rt.server(id);
            let (epoch, cause) = server.shutdown();
            if epoch > live.epoch {
                Self::kill(live, cause);
            }
        }
    }

    /// Sessions and streams there have been.
    pub fn counted(&self) -> (u64, u64) {
        (self.count.get(), self.streams.get())
    }

    /// Streams that run now.
    pub fn busy(&self) -> usize {
        self.list.borrow().iter().filter(|(_, l)| l.busy).count()
    }

    /// The descriptors of the sessions.
    pub fn descriptors(&self) -> Vec<Ends> {
        let list = self.list.borrow();
        let ends = |l: &Live| (l.client_fd, l.frontend, l.server_fd.zip(l.server));
        list.iter().map(|(_, l)| ends(l)).collect()
    }

    /// The sessions that have a stream now.
    pub fn rows(&self, rt: &Runtime, worker: u32) -> Vec<SessionRow> {
        let now_us = clock::read().mono_us;
        let list = self.list.borrow();
        let rows = list.iter().filter(|(_, l)| l.busy).map(|(_, l)| {
            let conf = |id: ProxyId| rt.model.proxy(id);
            let text = |a: &Addr| match a {
                Addr::Ip(a) => a.to_string(),
                _ => format!("unix:{}", l.listener),
            };
            SessionRow {
                id: l.id,
                worker,
                proto: match &l.src {
                    Addr::Ip(a) if a.is_ipv4() => "tcpv4",
                    Addr::Ip(_) => "tcpv6",
                    _ => "unix_stream",
                },
                src: text(&l.src),
                dst: text(&l.dst),
                since_us: l.since_us,
                age_ms: now_us.saturating_sub(l.since_mono_us) / 1000,
                streams: l.streams,
                frontend: conf(l.frontend).clone(),
                listener: l.listener,
                backend: l.backend.map(|id| conf(id).clone()),
                server: l.server.map(|id| rt.server(id).clone()),
                client_fd: l.client_fd,
                server_fd: l.server_fd,
            }
        });
        rows.collect()
    }
}
