//! Health checks: one task a checked server, on the main thread, off the data path.
//!
//! This file is the schedule of one server; `probe` runs one check (`external` a program), `verdict` and `protocol` are
//! what an `expect` says of an answer, `words` how failures are told, `change` makes a server go up or down.

mod agent;
pub mod change;
mod external;
mod mail;
mod probe;
mod protocol;
mod spop;
mod verdict;
mod words;

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use sluice_config::model::{CheckKind, OnError, Options, Proxy};
use sluice_engine::health::{Change, CheckResult, Health};
use sluice_engine::{ProxyState, ServerState};
use sluice_expr::ServerId;
use std::future::Future;
use std::sync::PoisonError;
use std::task::Poll;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::logs::{LogSender, Rings};
use crate::worker::Shared;

/// One server and what its checks need.
pub struct Checked {
    pub shared: Arc<Shared>,
    pub logs: Rc<LogSender>,
    pub proxy: Arc<Proxy>,
    pub backend: Arc<ProxyState>,
    pub server: Arc<ServerState>,
}

/// Starts the checks of all servers that want some. Call it inside a `LocalSet`.
pub fn spawn_all(shared: &Arc<Shared>, rings: &Arc<Rings>) {
    let rt = &shared.runtime;
    let logs = Rc::new(LogSender::new(rt.clone(), rings.clone()));
    tokio::task::spawn_local(change::tell_news(shared.clone(), logs.clone()));
    let mut places = Places::new(rt);
    for (p, proxy) in rt.model.proxies.iter().enumerate() {
        let backend = &rt.proxies[p];
        let checked: Vec<_> = backend
            .servers
            .iter()
            .filter(|s| s.conf.check.enabled && s.conf.track.is_none())
            .collect();
        for server in checked {
            let c = Rc::new(Checked {
                shared: shared.clone(),
                logs: logs.clone(),
                proxy: proxy.clone(),
                backend: backend.clone(),
                server: server.clone(),
            });
            let first = places.next(c.server.conf.check.inter_ms);
            tokio::task::spawn_local(schedule(c.clone(), first));
        }
        let asked = backend.servers.iter().filter(|s| s.conf.agent.enabled);
        for server in asked {
            let c = Checked {
                shared: shared.clone(),
                logs: logs.clone(),
                proxy: proxy.clone(),
                backend: backend.clone(),
                server: server.clone(),
            };
            let first = places.next(agent::inter_ms(&c.server.conf));
            tokio::task::spawn_local(agent::schedule(Rc::new(c), first));
        }
        for server in backend.servers.iter().filter(|s| s.conf.slowstart_ms > 0) {
            tokio::task::spawn_local(change::warm_up(backend.clone(), server.clone()));
        }
    }
}

/// Starts what a server added while it runs wants: its checks and its agent's, which wait until they are enabled. Call it
/// inside the same `LocalSet`.
pub fn spawn_added(shared: &Arc<Shared>, rings: &Arc<Rings>, id: ServerId) {
    let rt = &shared.runtime;
    let c = Rc::new(Checked {
        shared: shared.clone(),
        logs: Rc::new(LogSender::new(rt.clone(), rings.clone())),
        proxy: rt.model.proxy(id.backend).clone(),
        backend: rt.proxy(id.backend).clone(),
        server: rt.server(id).clone(),
    });
    let conf = &c.server.conf;
    if conf.check.enabled && conf.track.is_none() {
        tokio::task::spawn_local(schedule(c.clone(), Duration::ZERO));
    }
    if conf.agent.enabled {
        tokio::task::spawn_local(agent::schedule(c.clone(), Duration::ZERO));
    }
    if conf.slowstart_ms > 0 {
        tokio::task::spawn_local(change::warm_up(c.backend.clone(), c.server.clone()));
    }
}

/// When the first checks are made: spread over an interval, one behind the other through the whole configuration, so that
/// neither we nor a host have a thousand of them at once.
struct Places {
    /// The shortest interval of all.
    shortest_ms: u64,
    many: u64,
    next: u64,
    /// `max-spread-checks`
    within_ms: Option<u64>,
}

impl Places {
    fn new(rt: &sluice_engine::Runtime) -> Self {
        let servers = rt.proxies.iter().flat_map(|p| &p.servers);
        let intervals: Vec<u64> = servers
            .flat_map(|s| {
                let (check, agent) = (&s.conf.check, &s.conf.agent);
                let checked = check.enabled && s.conf.track.is_none();
                [
                    checked.then_some(check.inter_ms),
                    agent.enabled.then_some(agent::inter_ms(&s.conf)),
                ]
            })
            .flatten()
            .collect();
        Places {
            shortest_ms: intervals.iter().copied().min().unwrap_or(0),
            many: intervals.len().max(1) as u64,
            next: 0,
            within_ms: rt.model.global.max_spread_checks_ms,
        }
    }

    /// How long the next one, which has this interval, waits.
    fn next(&mut self, inter_ms: u64) -> Duration {
        let over_ms = self.shortest_ms.max(inter_ms);
        let over_ms = over_ms.min(self.within_ms.unwrap_or(u64::MAX));
        let place = self.next;
        self.next += 1;
        Duration::from_millis(over_ms * place / self.many)
    }
}

/// Checks one server for as long as it is there.
async fn schedule(c: Rc<Checked>, first: Duration) {
    tokio::time::sleep(first).await;
    while !c.server.is_deleted() {
        if c.server.admin() & sluice_engine::state::admin::MAINT == 0
            && !c.server.check_probe.paused.load(Relaxed)
            && !c.shared.runtime.is_stopping()
        {
            let turn = turn(&c).await;
            c.server.check_probe.running.store(true, Relaxed);
            let result = one(&c).await;
            drop(turn);
            c.server.check_probe.running.store(false, Relaxed);
            take_in(&c, |h| h.on_result(result));
        }
        // counted from the end of the last one
        pause(&c, Instant::now() + interval(&c)).await;
    }
}

thread_local! {
    /// Checks that may run at once (`tune.max-checks-per-thread`); all run on one thread.
    static TURNS: std::cell::OnceCell<Option<Arc<Semaphore>>> = const { std::cell::OnceCell::new() };
}

/// Waits until one more check may run.
async fn turn(c: &Checked) -> Option<OwnedSemaphorePermit> {
    let most = c.shared.runtime.model.global.tune.max_checks_per_thread;
    let turns = TURNS.with(|t| {
        let limit = || (most > 0).then(|| Arc::new(Semaphore::new(most as usize)));
        t.get_or_init(limit).clone()
    });
    turns?.acquire_owned().await.ok()
}

/// Waits for the next check, and meanwhile acts on errors in traffic: with `fastinter` they bring the check forward.
async fn pause(c: &Checked, mut until: Instant) {
    let params = &c.server.conf.check;
    loop {
        let mut sleep = std::pin::pin!(tokio::time::sleep_until(until));
        let alarm = std::future::poll_fn(|cx| {
            if let Poll::Ready(info) = c.server.passive.poll_alarm(cx, params) {
                return Poll::Ready(Some(info));
            }
            sleep.as_mut().poll(cx).map(|()| None)
        });
        let Some(info) = alarm.await else { return };
        if params.on_error != OnError::FastInter {
            take_in(c, |h| h.on_alarm(params.on_error, info));
        }
        if let Some(fast) = params.fastinter_ms {
            until = until.min(Instant::now() + Duration::from_millis(fast));
        }
    }
}

/// Runs one check, within its time.
async fn one(c: &Checked) -> CheckResult {
    let started = Instant::now();
    let mut result = match &c.proxy.check {
        CheckKind::Tcp => probe::tcp(c).await,
        CheckKind::Rules(rules) => probe::rules(c, rules).await,
        CheckKind::External(check) => external::run(c, check).await,
    };
    result.info = words::limited(result.info);
    result.duration_ms = started.elapsed().as_millis() as u64;
    result
}

/// Lets the health machine see a result and acts on what changed.
fn take_in(c: &Checked, step: impl FnOnce(&mut Health) -> Change) {
    let (changed, before, after) = {
        let mut h = c
            .server
            .health
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let before = (h.last.status, h.is_up(), h.counter);
        let changed = step(&mut h);
        (changed, before, h.clone())
    };
    // only failures that took something from the server's health count (`chkfail`)
    if !after.last.status.passed() && before.2 > 0 {
        c.server
            .failed_checks
            .fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }
    if c.proxy.options.contains(Options::LOG_HEALTH_CHECKS)
        && (before.0 != after.last.status || before.2 != after.counter)
    {
        change::log_check(c, "Health", &after);
    }
    match changed {
        Change::None => change::leave_drain(c, &after),
        // a server whose agent says it is down waits for its agent
        Change::WentUp if !agent_is_up(c) => {}
        Change::WentUp => change::went_up(c, &after),
        Change::WentDown => change::went_down(c, &after),
        Change::Stopping => change::went_stopping(c, &after),
    }
}

fn agent_is_up(c: &Checked) -> bool {
    let agent = c.server.agent_health.lock();
    agent.unwrap_or_else(PoisonError::into_inner).is_up()
}

/// Time between two checks: `inter`, `fastinter` while in between, `downinter` while down.
fn interval(c: &Checked) -> Duration {
    let p = &c.server.conf.check;
    let h = c
        .server
        .health
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    let settled_up = h.counter == h.rise + h.fall - 1;
    let ms = if h.counter == 0 {
        p.downinter_ms.unwrap_or(p.inter_ms)
    } else if settled_up {
        p.inter_ms
    } else {
        p.fastinter_ms.unwrap_or(p.inter_ms)
    };
    let spread = u64::from(c.shared.runtime.model.global.spread_checks_percent);
    // as much sooner as later
    let most = ms * spread / 100;
    let jitter = match most {
        0 => 0,
        _ => random() % (2 * most + 1),
    };
    Duration::from_millis(ms - most.min(ms) + jitter)
}

/// A number that nobody expects, for `spread-checks`.
fn random() -> u64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    RandomState::new().build_hasher().finish()
}
