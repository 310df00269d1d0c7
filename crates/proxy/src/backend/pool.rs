//! Idle server connections of one worker, kept for the next request (`http-reuse`, `pool-*`).

use std::cell::RefCell;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::Ordering::Relaxed;

use sluice_engine::Runtime;
use sluice_engine::servers::Slots;
use sluice_expr::{ProxyId, ServerId};

use super::ServerConn;
use crate::clock;
use crate::worker::Worker;

/// One server's idle connections. Boxed as streams have them: they come and go without being copied.
type Kept = Vec<Box<ServerConn>>;

/// All servers' idle connections on this worker.
pub struct Pools {
    /// By proxy, then server.
    by_server: Vec<Slots<RefCell<Kept>>>,
}

impl Pools {
    pub fn new(runtime: &Runtime) -> Self {
        let by_server = runtime
            .proxies
            .iter()
            .map(|p| Slots::new(p.servers.iter().map(|_| RefCell::default()).collect()))
            .collect();
        Pools { by_server }
    }

    fn pool(&self, id: ServerId) -> Option<&RefCell<Kept>> {
        self.by_server
            .get(id.backend.0 as usize)?
            .get_or_init(id.index as usize, RefCell::default)
    }

    /// The connection used last that is still alive (warm caches, and the others may age) and has the same `key`.
    /// `proven`: only one that was reused before.
    pub fn take(
        &self,
        w: &Worker,
        id: ServerId,
        key: u64,
        proven: bool,
    ) -> Option<Box<ServerConn>> {
        let pool = self.pool(id)?;
        loop {
            let mut conn = {
                let mut pool = pool.borrow_mut();
                let at = pool
                    .iter()
                    .rposition(|c| c.key == key && (!proven || c.reused))?;
                pool.remove(at)
            };
            w.runtime().server(id).idle.add(w.id, -1);
            if is_alive(&conn) {
                conn.mark_reused();
                return Some(conn);
            }
        }
    }

    /// Keeps a connection for the next request, if the server's `pool-max-conn` allows; gives back one it does not keep.
    pub fn keep(&self, w: &Worker, conn: Box<ServerConn>) -> Option<Box<ServerConn>> {
        let Some((id, pool)) = conn.server.and_then(|id| Some((id, self.pool(id)?))) else {
            return Some(conn);
        };
        let server = w.runtime().server(id);
        let full = server
            .conf
            .pool_max_conn
            .is_some_and(|max| max >= 0 && i64::from(server.idle.total()) >= max);
        let reused_enough = server
            .conf
            .max_reuse
            .is_some_and(|max| max >= 0 && conn.requests > max as u64);
        let short = w.runtime().counters.fd_shortage.load(Relaxed) > 0;
        // `pool-purge-delay 0`: nothing is kept
        let never = server.conf.pool_purge_delay_ms == 0;
        // one is always worth it, more are where as many are used at once
        let used = server.counters.sessions.now();
        let wanted = server.idle.wants_one(used, server.conf.pool_low_conn);
        let spare = !wanted && !pool.borrow().is_empty();
        if full || never || spare || reused_enough || short || w.is_stopping() {
            return Some(conn);
        }
        server.idle.add(w.id, 1);
        pool.borrow_mut().push(conn);
        None
    }

    /// Closes what the servers closed, and what traffic does not need any more. Called every second.
    pub fn sweep(&self, w: &Worker) {
        let now_us = clock::read().mono_us;
        let shortage = fd_shortage(w.runtime());
        w.runtime().counters.fd_shortage.store(shortage, Relaxed);
        for (p, servers) in self.by_server.iter().enumerate() {
            for (i, pool) in servers.iter() {
                let mut pool = pool.borrow_mut();
                if pool.is_empty() {
                    continue;
                }
                let server = &w.runtime().proxies[p].servers[i];
                let before = pool.len();
                pool.retain(|c| is_alive(c));
                // the oldest first, and each worker its share
                let used = server.counters.sessions.now();
                let delay_ms = server.conf.pool_purge_delay_ms;
                let excess = server.idle.excess(used, now_us / 1000, delay_ms);
                let excess = excess.saturating_sub(server.conf.pool_low_conn) as usize;
                let share = (excess * before).div_ceil(server.idle.total().max(1) as usize);
                let at = pool.len().min(share);
                pool.drain(..at);
                if shortage > 1 {
                    let half = pool.len().div_ceil(2);
                    pool.drain(..half);
                }
                server.idle.add(w.id, pool.len() as i32 - before as i32);
            }
        }
    }

    /// What is kept for each server, and its descriptors.
    pub fn kept(&self) -> impl Iterator<Item = (ServerId, Vec<(RawFd, bool)>)> {
        let servers = self.by_server.iter().zip(0..);
        servers.flat_map(|(servers, p)| {
            servers.iter().map(move |(i, pool)| {
                let id = ServerId {
                    backend: ProxyId(p),
                    index: i as u32,
                };
                let pool = pool.borrow();
                let conns = pool.iter().map(|c| (c.io.as_raw_fd(), c.reused));
                (id, conns.collect())
            })
        })
    }

    /// Closes all idle connections to a server that went down, or all at the stop.
    pub fn clear(&self, w: &Worker, only: Option<ServerId>) {
        for (p, servers) in self.by_server.iter().enumerate() {
            for (i, pool) in servers.iter() {
                let server = &w.runtime().proxies[p].servers[i];
                if only.is_none_or(|id| id == server.id) {
                    let mut pool = pool.borrow_mut();
                    server.idle.add(w.id, -(pool.len() as i32));
                    pool.clear();
                }
            }
        }
    }
}

/// Compares the descriptors of connections with `tune.pool-low-fd-ratio` and `tune.pool-high-fd-ratio`. A client's
/// connection counts for two.
fn fd_shortage(rt: &Runtime) -> u8 {
    let idle = |s: &std::sync::Arc<sluice_engine::ServerState>| u64::from(s.idle.total());
    let idle: u64 = rt.proxies.iter().flat_map(|p| &p.servers).map(idle).sum();
    let used = (u64::from(rt.counters.conns.now()) * 2 + idle) * 100;
    let tune = &rt.model.global.tune;
    let above = |ratio: u32| used > u64::from(ratio) * rt.max_fds;
    match (
        above(tune.pool_low_fd_ratio),
        above(tune.pool_high_fd_ratio),
    ) {
        (_, true) => 2,
        (true, _) => 1,
        _ => 0,
    }
}

/// Nothing to read: neither a close nor an answer nobody asked for. Costs no system call while the runtime knows of no
/// event.
pub fn is_alive(c: &ServerConn) -> bool {
    let mut byte = [0];
    matches!(c.io.try_read(&mut byte), Err(e) if e.kind() == std::io::ErrorKind::WouldBlock)
}
