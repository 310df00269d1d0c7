//! The running process: one record a proxy, server and listener, at the same indices as in the model.
//!
//! Everything here may be touched by any worker: atomics on the request path, a lock only where a command or a health
//! check changes something (and readers see it through an atomic or a snapshot).

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed};

use arc_swap::{ArcSwap, ArcSwapOption};
use sluice_config::model::{self, Model, PeerAddr};
use sluice_expr::env::Now;
use sluice_expr::{ProxyId, ServerId};

use crate::balance::Balancer;
use crate::cookies::DynamicCookies;
use crate::counters::{FrontendCounters, ListenerCounters, ProcessCounters, ServingCounters};
use crate::health::Health;
use crate::idle::IdleConns;
use crate::news::News;
use crate::passive::Passive;
use crate::queue::Queue;
use crate::servers::Servers;
use crate::shutdown::Shutdowns;

/// The whole running process.
pub struct Runtime {
    pub model: Arc<Model>,
    pub proxies: Vec<Arc<ProxyState>>,
    pub counters: ProcessCounters,
    pub started: Now,
    /// Soft stop has begun.
    pub stopping: AtomicBool,
    pub workers: u32,
    pub pid: u32,
    pub hostname: Arc<str>,
    /// Effective limits, after the machine's were looked at.
    pub maxconn: AtomicU32,
    pub maxconn_at_start: u32,
    pub limits: RateLimits,
    pub shutdowns: Shutdowns,
    pub news: News,
    pub max_fds: u64,
    pub maxpipes: u32,
    /// Global numbers for `%rt` and for streams.
    pub next_request: AtomicU64,
}

impl Runtime {
    pub fn proxy(&self, id: ProxyId) -> &Arc<ProxyState> {
        &self.proxies[id.0 as usize]
    }
    pub fn server(&self, id: ServerId) -> &Arc<ServerState> {
        &self.proxies[id.backend.0 as usize].servers[id.index as usize]
    }
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Relaxed)
    }
}

/// `maxconnrate` and `maxsessrate`, as `set rate-limit` changes them; 0 for none.
#[derive(Debug, Default)]
pub struct RateLimits {
    pub conn_rate: AtomicU32,
    pub sess_rate: AtomicU32,
}

/// A proxy at run time.
pub struct ProxyState {
    pub id: ProxyId,
    pub name: Arc<str>,
    pub fe: FrontendCounters,
    pub be: ServingCounters,
    pub servers: Servers,
    pub listeners: Vec<Arc<ListenerState>>,
    pub balancer: Balancer,
    pub dynamic_cookies: DynamicCookies,
    pub queue: Queue,
    /// `fullconn`, or a tenth of what its frontends may bring.
    pub fullconn: u32,
    /// Current frontend `maxconn` (`set maxconn frontend`), 0: none.
    pub fe_maxconn: AtomicU32,
    /// `enable`/`disable frontend`, `shutdown frontend`.
    pub disabled: AtomicBool,
    /// `publish`/`unpublish backend`.
    pub unpublished: AtomicBool,
    pub stopped: AtomicBool,
    /// Monotonic ms of the last up/down change of the backend, for `lastchg`, and the sums of its downs.
    pub last_change_ms: AtomicU64,
    pub down_ms: AtomicU64,
    pub down_count: AtomicU64,
    /// No server is usable.
    pub down: AtomicBool,
}

/// One listening address.
pub struct ListenerState {
    pub id: u32,
    pub name: Option<Arc<str>>,
    pub addr: model::ListenAddr,
    pub counters: ListenerCounters,
    pub maxconn: AtomicU32,
}

/// Administrative states, or-ed (HAProxy's SRV_ADMF_*).
pub mod admin {
    /// Maintenance by command.
    pub const FORCED_MAINT: u8 = 0x01;
    /// Maintenance inherited from a tracked server.
    pub const INHERITED_MAINT: u8 = 0x02;
    /// Maintenance by the configuration (`disabled`).
    pub const CONFIG_MAINT: u8 = 0x04;
    /// Drain by command.
    pub const FORCED_DRAIN: u8 = 0x08;
    /// Drain inherited from a tracked server.
    pub const INHERITED_DRAIN: u8 = 0x10;
    /// Maintenance because a name has no address.
    pub const RESOLUTION_MAINT: u8 = 0x20;
    /// `CONFIG_MAINT` only tells where `FORCED_MAINT` came from.
    pub const MAINT: u8 = FORCED_MAINT | INHERITED_MAINT | RESOLUTION_MAINT;
    pub const DRAIN: u8 = FORCED_DRAIN | INHERITED_DRAIN;
}

/// Operational state (HAProxy's SRV_ST_*).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum OpState {
    Stopped = 0,
    /// Warming up (`slowstart`).
    Starting = 1,
    Running = 2,
    /// Refuses new sessions, still takes persistent ones (`http-check disable-on-404`).
    Stopping = 3,
}

/// A server at run time.
pub struct ServerState {
    pub id: ServerId,
    pub name: Arc<str>,
    pub conf: Arc<model::Server>,
    /// Added by command (`add server`).
    pub is_dynamic: bool,
    deleted: AtomicBool,
    /// `leastconn`'s clock when its load changed last.
    pub(crate) load_changed_at: AtomicU64,
    pub counters: ServingCounters,
    /// Streams that hold one of the `maxconn` slots.
    pub served: AtomicU32,
    /// Requests waiting for this very server.
    pub queue: Queue,
    pub maxconn: AtomicU32,
    pub minconn: AtomicU32,
    /// Weight by configuration or command (0..256), and as it is in effect now (slow start, drain): `EWGHT_RANGE` scale.
    pub user_weight: AtomicU32,
    pub effective_weight: AtomicU32,
    admin: AtomicU8,
    op: AtomicU8,
    /// The value of the persistence cookie that names it.
    pub cookie: ArcSwapOption<String>,
    /// Where it is now (`set server addr`, DNS).
    pub addr: ArcSwap<PeerAddr>,
    pub health: Mutex<Health>,
    /// What the agent says, as a health of its own: the server is up when both are.
    pub agent_health: Mutex<Health>,
    /// Where checks and the agent are asked, and whether they are, as commands changed it.
    pub check_probe: Probing,
    pub agent_probe: Probing,
    /// `set server ... agent-send`
    pub agent_send: ArcSwapOption<String>,
    /// What traffic shows of its health (`observe`).
    pub passive: Passive,
    /// Copies of what the hot path and views want without the lock.
    pub last_change_ms: AtomicU64,
    pub down_ms: AtomicU64,
    pub down_count: AtomicU64,
    pub failed_checks: AtomicU64,
    /// Idle server connections kept by all workers.
    pub idle: IdleConns,
    /// Bumped when sessions on it must end (`on-marked-down shutdown-sessions`, `shutdown sessions server`).
    pub shutdown_epoch: AtomicU64,
    /// Why: the character of the log's termination state.
    pub shutdown_cause: AtomicU8,
}

/// What commands can change of how a server is asked.
#[derive(Debug, Default)]
pub struct Probing {
    /// `disable health`, `disable agent`.
    pub paused: AtomicBool,
    /// One is under way.
    pub running: AtomicBool,
    pub addr: ArcSwapOption<IpAddr>,
    /// 0: as configured.
    pub port: AtomicU16,
}

/// Weight steps an effective weight has for each configured one, so that slow start can go in fractions.
pub const WEIGHT_SCALE: u32 = 16;

impl ServerState {
    pub fn is_deleted(&self) -> bool {
        self.deleted.load(Relaxed)
    }
    /// From now on nobody sees it (`del server`).
    pub(crate) fn delete(&self) {
        self.deleted.store(true, Relaxed);
    }
    pub fn admin(&self) -> u8 {
        self.admin.load(Relaxed)
    }
    pub fn op(&self) -> OpState {
        match self.op.load(Relaxed) {
            0 => OpState::Stopped,
            1 => OpState::Starting,
            2 => OpState::Running,
            _ => OpState::Stopping,
        }
    }
    /// Sets and clears administrative flags; the caller recomputes the balancer ([`ProxyState::state_changed`]).
    pub fn change_admin(&self, set: u8, clear: u8) {
        let _ = self
            .admin
            .fetch_update(Relaxed, Relaxed, |f| Some((f & !clear) | set));
    }
    /// Sets the operational state; the caller recomputes the balancer.
    pub fn set_op(&self, op: OpState) {
        self.op.store(op as u8, Relaxed);
    }
    /// May take new streams that balancing sends.
    pub fn is_usable(&self) -> bool {
        self.is_willing() && self.effective_weight.load(Relaxed) > 0
    }
    /// Up and not in maintenance nor draining: may be used by balancing if it has a weight.
    pub fn is_willing(&self) -> bool {
        self.admin() & (admin::MAINT | admin::DRAIN) == 0
            && matches!(self.op(), OpState::Running | OpState::Starting)
    }
    /// May still take streams by persistence or `use-server`.
    pub fn accepts_persistent(&self) -> bool {
        self.admin() & admin::MAINT == 0 && self.op() != OpState::Stopped
    }
    /// The weight that belongs to its state at a time: the whole one, or under `slowstart` the part of those
    /// [`WEIGHT_SCALE`] steps that the time since it came allows, at least one.
    fn weight_at(&self, now_ms: u64) -> u32 {
        let scale = u64::from(WEIGHT_SCALE);
        let passed = now_ms.saturating_sub(self.last_change_ms.load(Relaxed));
        let steps = match self.op() {
            OpState::Starting if passed < self.conf.slowstart_ms => {
                scale * passed / self.conf.slowstart_ms + 1
            }
            _ => scale,
        };
        self.user_weight.load(Relaxed) * steps.min(scale) as u32
    }
    /// The state of a server that comes: it warms up if `slowstart` says so.
    pub fn coming(&self) -> OpState {
        match self.conf.slowstart_ms {
            0 => OpState::Running,
            _ => OpState::Starting,
        }
    }
    /// Connections it may have at once under the backend's present load: `minconn`..`maxconn` (manual 5.2 `minconn`).
    pub fn dynamic_maxconn(&self, backend_sessions: u32, fullconn: u32) -> u32 {
        let (max, min) = (self.maxconn.load(Relaxed), self.minconn.load(Relaxed));
        if min == 0 || max == 0 || min >= max || fullconn == 0 || backend_sessions >= fullconn {
            return max;
        }
        let scaled = u64::from(max) * u64::from(backend_sessions) / u64::from(fullconn);
        (scaled as u32).max(min)
    }
}

impl ProxyState {
    /// Servers balancing uses now: the active ones, or the backups that replace them when no active one is left.
    pub fn usable_servers(&self) -> u32 {
        self.balancer.usable()
    }
    /// Brings a server's weight in effect up to date: after its state or weight changed, and while it warms up. Whether
    /// there was something to change. Algorithms whose weights are fixed know no slow start.
    pub fn weigh(&self, s: &ServerState, now_ms: u64) -> bool {
        let passed = now_ms.saturating_sub(s.last_change_ms.load(Relaxed));
        if s.op() == OpState::Starting && passed >= s.conf.slowstart_ms {
            s.set_op(OpState::Running);
        }
        let weight = match self.balancer.is_static() {
            true => s.user_weight.load(Relaxed) * WEIGHT_SCALE,
            false => s.weight_at(now_ms),
        };
        s.effective_weight.swap(weight, Relaxed) != weight
    }
    /// Tells the balancer that a server's weight or state changed.
    pub fn state_changed(&self) {
        self.balancer.rebuild(&self.servers);
    }
}

/// Builds the running state for a model.
pub fn build(model: Arc<Model>, start: StartInfo) -> Runtime {
    let proxies = model
        .proxies
        .iter()
        .map(|p| {
            let fullconn = fullconn(&model, p, start.maxconn);
            Arc::new(proxy_state(p, fullconn, start.now, start.workers))
        })
        .collect::<Vec<_>>();
    for p in &proxies {
        p.state_changed();
        p.refresh_cookies();
    }
    Runtime {
        proxies,
        counters: ProcessCounters::default(),
        started: start.now,
        stopping: AtomicBool::new(false),
        workers: start.workers,
        pid: start.pid,
        hostname: start.hostname,
        maxconn: AtomicU32::new(start.maxconn),
        maxconn_at_start: start.maxconn,
        shutdowns: Shutdowns::default(),
        news: News::default(),
        limits: RateLimits {
            conn_rate: AtomicU32::new(model.global.maxconnrate),
            sess_rate: AtomicU32::new(model.global.maxsessrate),
        },
        max_fds: start.max_fds,
        maxpipes: start.maxpipes,
        next_request: AtomicU64::new(0),
        model,
    }
}

/// What the shell found out about the machine and the process before it builds the state.
pub struct StartInfo {
    pub now: Now,
    pub workers: u32,
    pub pid: u32,
    pub hostname: Arc<str>,
    pub maxconn: u32,
    pub max_fds: u64,
    pub maxpipes: u32,
}

/// The sessions at which a backend is full: `fullconn`, or a tenth of the `maxconn` of all frontends that name it.
fn fullconn(model: &Model, backend: &model::Proxy, maxconn: u32) -> u32 {
    if backend.fullconn > 0 {
        return backend.fullconn;
    }
    let leads_there = |f: &&Arc<model::Proxy>| {
        f.is_frontend()
            && (f.id == backend.id
                || f.default_backend == Some(backend.id)
                || f.use_backends.iter().any(
                    |u| matches!(u.target, model::BackendTarget::Static(id) if id == backend.id),
                ))
    };
    let frontends = model.proxies.iter().filter(leads_there);
    let most = frontends.map(|f| u64::from(if f.maxconn > 0 { f.maxconn } else { maxconn }));
    u32::try_from(most.sum::<u64>().div_ceil(10).max(1)).unwrap_or(u32::MAX)
}

fn proxy_state(p: &model::Proxy, fullconn: u32, now: Now, workers: u32) -> ProxyState {
    let now_ms = now.mono_us / 1000;
    let servers: Vec<_> = p
        .servers
        .iter()
        .enumerate()
        .map(|(i, s)| Arc::new(server_state((p.id, i as u32), s, now_ms, workers, false)))
        .collect();
    let mut next_id = 0;
    let listeners = p
        .binds
        .iter()
        .flat_map(|b| b.addrs.iter().map(move |a| (b, a)))
        .map(|(b, a)| {
            next_id = b.id.unwrap_or(next_id + 1);
            Arc::new(ListenerState {
                id: next_id,
                name: b.name.clone(),
                addr: a.clone(),
                counters: ListenerCounters::default(),
                maxconn: AtomicU32::new(b.maxconn),
            })
        })
        .collect();
    ProxyState {
        id: p.id,
        name: p.name.clone(),
        fe: FrontendCounters::default(),
        be: ServingCounters::default(),
        balancer: Balancer::new(p),
        dynamic_cookies: DynamicCookies::new(p),
        queue: Queue::default(),
        servers: Servers::new(servers),
        listeners,
        fullconn,
        fe_maxconn: AtomicU32::new(p.maxconn),
        disabled: AtomicBool::new(p.disabled),
        unpublished: AtomicBool::new(p.unpublished),
        stopped: AtomicBool::new(false),
        last_change_ms: AtomicU64::new(now_ms),
        down_ms: AtomicU64::new(0),
        down_count: AtomicU64::new(0),
        down: AtomicBool::new(false),
    }
}

/// A server as it is at the start, or when it is added: then in maintenance, unless `enabled` is written.
pub(crate) fn server_state(
    (backend, index): (ProxyId, u32),
    s: &Arc<model::Server>,
    now_ms: u64,
    workers: u32,
    is_dynamic: bool,
) -> ServerState {
    let mut flags = match s.disabled {
        true => admin::CONFIG_MAINT | admin::FORCED_MAINT,
        false => 0,
    };
    if matches!(s.addr, PeerAddr::Unresolved { .. }) {
        flags |= admin::RESOLUTION_MAINT;
    }
    let mut health = Health::new(&s.check);
    if flags & admin::MAINT != 0 || is_dynamic {
        health.counter = 0;
    }
    let op = match s.check.begins_down() {
        true => OpState::Stopped,
        false => OpState::Running,
    };
    ServerState {
        id: ServerId { backend, index },
        name: s.name.clone(),
        counters: ServingCounters::default(),
        served: AtomicU32::new(0),
        queue: Queue::default(),
        maxconn: AtomicU32::new(s.maxconn.max(s.minconn)),
        minconn: AtomicU32::new(s.minconn),
        user_weight: AtomicU32::new(s.weight),
        effective_weight: AtomicU32::new(s.weight * WEIGHT_SCALE),
        admin: AtomicU8::new(flags),
        op: AtomicU8::new(op as u8),
        cookie: ArcSwapOption::empty(),
        addr: ArcSwap::from_pointee(s.addr.clone()),
        health: Mutex::new(health),
        agent_health: Mutex::new(Health::of_agent(&s.agent)),
        check_probe: Probing::default(),
        agent_probe: Probing::default(),
        agent_send: ArcSwapOption::empty(),
        passive: Passive::default(),
        last_change_ms: AtomicU64::new(now_ms),
        down_ms: AtomicU64::new(0),
        down_count: AtomicU64::new(0),
        failed_checks: AtomicU64::new(0),
        idle: IdleConns::new(workers),
        shutdown_epoch: AtomicU64::new(0),
        shutdown_cause: AtomicU8::new(0),
        is_dynamic,
        deleted: AtomicBool::new(false),
        load_changed_at: AtomicU64::new(0),
        conf: s.clone(),
    }
}
