//! The running process as expressions and health checks ask for it: gauges and names.

use std::sync::atomic::Ordering::Relaxed;

use sluice_config::model::{Password, User};
use sluice_engine::state::admin;
use sluice_engine::{ProxyState, Runtime, ServerState};
use sluice_expr::env::{Gauge, NameOf, ProxyId, ServerId};

/// The number behind a gauge.
pub fn gauge(rt: &Runtime, what: Gauge, now_ms: u64) -> Option<i64> {
    let proxy = |id: ProxyId| rt.proxies.get(id.0 as usize);
    let server = |id: ServerId| proxy(id.backend)?.servers.get(id.index as usize);
    let conf = |id: ProxyId| rt.model.proxies.get(id.0 as usize);
    Some(match what {
        Gauge::ActConn => rt.counters.conns.now().into(),
        Gauge::Stopping => rt.is_stopping().into(),
        Gauge::UptimeSec => (now_ms.saturating_sub(rt.started.mono_us / 1000) / 1000) as i64,
        Gauge::ThreadId => 0,
        Gauge::BufferSize => i64::try_from(rt.model.global.tune.bufsize).ok()?,
        Gauge::NbThread => rt.workers.into(),
        Gauge::Pid => rt.pid.into(),
        Gauge::NbSrv(p) => proxy(p)?.usable_servers().into(),
        Gauge::ServerCount(p) => proxy(p)?.servers.len() as i64,
        Gauge::BeConn(p) => proxy(p)?.be.sessions.now().into(),
        Gauge::BeConnFree(p) => conn_free(proxy(p)?),
        Gauge::BeSessRate(p) => proxy(p)?.be.sess_rate.per_second(now_ms).into(),
        Gauge::BeServerTimeoutMs(p) => conf(p)?.timeouts.server_ms.unwrap_or(0) as i64,
        Gauge::BeTunnelTimeoutMs(p) => conf(p)?.timeouts.tunnel_ms.unwrap_or(0) as i64,
        Gauge::BeConnectTimeoutMs(p) => conf(p)?.timeouts.connect_ms.unwrap_or(0) as i64,
        Gauge::BeQueueTimeoutMs(p) => {
            let t = &conf(p)?.timeouts;
            t.queue_ms.or(t.connect_ms).unwrap_or(0) as i64
        }
        Gauge::BeTarpitTimeoutMs(p) | Gauge::FeTarpitTimeoutMs(p) => {
            let t = &conf(p)?.timeouts;
            t.tarpit_ms.or(t.connect_ms).unwrap_or(0) as i64
        }
        Gauge::BeMaxRetries(p) => conf(p)?.retries.into(),
        // there are no groups: all threads are in the first
        Gauge::ThreadGroup => 1,
        Gauge::Queue(p) => queued(proxy(p)?).into(),
        Gauge::AvgQueue(p) => {
            let p = proxy(p)?;
            match p.usable_servers() {
                0 => i64::from(queued(p)) * i64::from(p.servers.len() as u32).max(1),
                n => queued(p).div_ceil(n).into(),
            }
        }
        Gauge::ConnSlots(p) => conn_slots(proxy(p)?),
        Gauge::FeConn(p) => proxy(p)?.fe.conns.now().into(),
        Gauge::FeReqRate(p) => proxy(p)?.fe.req_rate.per_second(now_ms).into(),
        Gauge::FeSessRate(p) => proxy(p)?.fe.sess_rate.per_second(now_ms).into(),
        Gauge::FeClientTimeoutMs(p) => conf(p)?.timeouts.client_ms.unwrap_or(0) as i64,
        Gauge::PuId(p) => conf(p)?.puid.into(),
        Gauge::SrvConn(s) => server(s)?.counters.sessions.now().into(),
        Gauge::SrvConnFree(s) => {
            let s = server(s)?;
            crate::stream::env::free_conns(s.maxconn.load(Relaxed), &s.served)
        }
        Gauge::SrvIsUp(s) => {
            let s = server(s)?;
            (s.admin() & admin::MAINT == 0 && s.accepts_persistent()).into()
        }
        Gauge::SrvQueue(s) => server(s)?.queue.len().into(),
        Gauge::SrvSessRate(s) => server(s)?.counters.sess_rate.per_second(now_ms).into(),
        Gauge::SrvWeight(s) => {
            let scale = sluice_engine::state::WEIGHT_SCALE;
            server(s)?
                .effective_weight
                .load(Relaxed)
                .div_ceil(scale)
                .into()
        }
        Gauge::SrvInitialWeight(s) => server(s)?.conf.weight.into(),
        Gauge::SrvUserWeight(s) => server(s)?.user_weight.load(Relaxed).into(),
        Gauge::SrvId(s) => server(s)?.conf.id.into(),
        #[allow(unreachable_patterns)]
        _ => return None,
    })
}

/// Requests waiting in a backend and for its servers.
pub fn queued(p: &ProxyState) -> u32 {
    p.queue.len() + p.servers.iter().map(|s| s.queue.len()).sum::<u32>()
}

fn usable(p: &ProxyState) -> impl Iterator<Item = &ServerState> {
    let backups = !p.servers.iter().any(|s| !s.conf.backup && s.is_usable());
    p.servers
        .iter()
        .map(|s| &**s)
        .filter(move |s| s.is_usable() && s.conf.backup == backups)
}

/// `be_conn_free`: connections the usable servers still take; -1 when one has no limit.
fn conn_free(p: &ProxyState) -> i64 {
    let mut free = 0;
    for s in usable(p) {
        match s.maxconn.load(Relaxed) {
            0 => return -1,
            max => free += i64::from(max.saturating_sub(s.served.load(Relaxed))),
        }
    }
    free
}

/// `connslots`: connections and queue places the servers still take; -1 when one has no limit.
fn conn_slots(p: &ProxyState) -> i64 {
    let mut slots = 0;
    for s in p.servers.iter().filter(|s| s.accepts_persistent()) {
        let (maxconn, maxqueue) = (s.maxconn.load(Relaxed), s.conf.maxqueue);
        if maxconn == 0 || maxqueue == 0 {
            return -1;
        }
        let taken = s.served.load(Relaxed) + s.queue.len();
        slots += i64::from(maxconn + maxqueue) - i64::from(taken);
    }
    slots.max(0)
}

/// The name behind a question.
pub fn name(rt: &Runtime, of: NameOf) -> Option<&str> {
    match of {
        NameOf::Proxy(p) => rt.proxies.get(p.0 as usize).map(|p| &*p.name),
        NameOf::Defaults(p) => rt.model.proxies.get(p.0 as usize)?.defaults_name.as_deref(),
        NameOf::Server(s) => rt
            .proxies
            .get(s.backend.0 as usize)?
            .servers
            .get(s.index as usize)
            .map(|s| &*s.name),
        NameOf::DefaultBackend(p) => {
            let backend = rt.model.proxies.get(p.0 as usize)?.default_backend?;
            rt.proxies.get(backend.0 as usize).map(|p| &*p.name)
        }
        NameOf::Hostname => Some(&rt.hostname),
        NameOf::Node => Some(rt.model.global.node.as_deref().unwrap_or(&rt.hostname)),
        #[allow(unreachable_patterns)]
        _ => None,
    }
}

pub fn backend_named(rt: &Runtime, name: &[u8]) -> Option<ProxyId> {
    rt.model
        .proxies
        .iter()
        .find(|p| p.is_backend() && p.name.as_bytes() == name)
        .map(|p| p.id)
}

pub fn frontend_named(rt: &Runtime, name: &[u8]) -> Option<ProxyId> {
    rt.model
        .proxies
        .iter()
        .find(|p| p.is_frontend() && p.name.as_bytes() == name)
        .map(|p| p.id)
}

pub fn server_named(rt: &Runtime, backend: ProxyId, name: &[u8]) -> Option<ServerId> {
    let servers = &rt.proxies.get(backend.0 as usize)?.servers;
    servers
        .iter()
        .find(|s| s.name.as_bytes() == name)
        .map(|s| s.id)
}

fn user<'a>(rt: &'a Runtime, userlist: u32, name: &[u8]) -> Option<&'a User> {
    rt.model
        .userlists
        .get(userlist as usize)?
        .users
        .iter()
        .find(|u| u.name.as_bytes() == name)
}

/// Whether the password is the user's. A user without a password matches none.
pub fn check_password(rt: &Runtime, userlist: u32, name: &[u8], password: &[u8]) -> bool {
    match user(rt, userlist, name).and_then(|u| u.password.as_ref()) {
        Some(Password::Plain(p)) => p.as_bytes() == password,
        Some(Password::Crypt(hash)) => crate::sys::crypt_matches(password, hash),
        None => false,
    }
}

pub fn groups_of<'a>(rt: &'a Runtime, userlist: u32, name: &[u8]) -> Option<&'a [String]> {
    user(rt, userlist, name).map(|u| &*u.groups)
}
