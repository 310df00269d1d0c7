//! The statistics fields: one item each, in the CSV's order. The CSV, the typed and JSON outputs, the HTML page and
//! Prometheus are all made from this table.

use std::sync::PoisonError;
use std::sync::atomic::Ordering::Relaxed;

use sluice_config::model::{Balance, ListenAddr, Mode, PeerAddr, PortSpec, Proxy};
use sluice_engine::health::{CheckStatus, Health};
use sluice_engine::state::{ListenerState, OpState, Probing, WEIGHT_SCALE, admin};
use sluice_engine::{ProxyState, Runtime, ServerState};

/// What a row of the statistics is about.
#[derive(Clone, Copy)]
pub enum Row<'a> {
    Frontend(&'a Proxy, &'a ProxyState),
    Listener(&'a Proxy, &'a ListenerState),
    Server(&'a Proxy, &'a ProxyState, &'a ServerState),
    Backend(&'a Proxy, &'a ProxyState),
}

/// What a field's function needs beside the row.
#[derive(Clone, Copy)]
pub struct At<'a> {
    pub rt: &'a Runtime,
    pub now_ms: u64,
}

/// A field's value.
#[derive(Debug, Clone, PartialEq)]
pub enum V {
    Str(String),
    U32(u32),
    S32(i32),
    U64(u64),
}

/// What kind of thing a field is (management guide 9.3, `show stat typed`): origin, nature, scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tags(pub &'static str);

/// One field.
pub struct Field {
    pub name: &'static str,
    pub tags: Tags,
    pub get: fn(&Row<'_>, &At<'_>) -> Option<V>,
}

/// All rows in the order of the CSV, honouring nothing but the configuration.
pub fn rows(rt: &Runtime) -> Vec<Row<'_>> {
    let mut out = Vec::new();
    for (conf, state) in rt.model.proxies.iter().zip(&rt.proxies) {
        if conf.disabled {
            continue;
        }
        if conf.is_frontend() {
            out.push(Row::Frontend(conf, state));
            if conf
                .options
                .contains(sluice_config::model::Options::SOCKET_STATS)
            {
                out.extend(state.listeners.iter().map(|l| Row::Listener(conf, l)));
            }
        }
        if conf.is_backend() {
            out.extend(state.servers.iter().map(|s| Row::Server(conf, state, s)));
            out.push(Row::Backend(conf, state));
        }
    }
    out
}

impl<'a> Row<'a> {
    pub fn proxy(&self) -> &'a Proxy {
        match self {
            Row::Frontend(p, _)
            | Row::Listener(p, _)
            | Row::Server(p, _, _)
            | Row::Backend(p, _) => p,
        }
    }
    /// 0 frontend, 1 backend, 2 server, 3 listener.
    pub fn kind(&self) -> u32 {
        match self {
            Row::Frontend(..) => 0,
            Row::Backend(..) => 1,
            Row::Server(..) => 2,
            Row::Listener(..) => 3,
        }
    }
    pub fn sid(&self) -> u32 {
        match self {
            Row::Server(_, _, s) => s.conf.id,
            Row::Listener(_, l) => l.id,
            _ => 0,
        }
    }
    pub fn name(&self) -> String {
        match self {
            Row::Frontend(..) => "FRONTEND".into(),
            Row::Backend(..) => "BACKEND".into(),
            Row::Server(_, _, s) => s.name.to_string(),
            Row::Listener(_, l) => l
                .name
                .as_ref()
                .map_or_else(|| format!("sock-{}", l.id), ToString::to_string),
        }
    }
    /// What a server or backend counts.
    fn serving(&self) -> Option<&'a sluice_engine::counters::ServingCounters> {
        match self {
            Row::Server(_, _, s) => Some(&s.counters),
            Row::Backend(_, p) => Some(&p.be),
            _ => None,
        }
    }
    fn frontend(&self) -> Option<&'a sluice_engine::counters::FrontendCounters> {
        match self {
            Row::Frontend(_, p) => Some(&p.fe),
            _ => None,
        }
    }
    fn listener(&self) -> Option<&'a sluice_engine::counters::ListenerCounters> {
        match self {
            Row::Listener(_, l) => Some(&l.counters),
            _ => None,
        }
    }
    fn server(&self) -> Option<&'a ServerState> {
        match self {
            Row::Server(_, _, s) => Some(s),
            _ => None,
        }
    }
    fn backend(&self) -> Option<&'a ProxyState> {
        match self {
            Row::Backend(_, p) => Some(p),
            _ => None,
        }
    }
    fn http(&self) -> bool {
        self.proxy().mode == Mode::Http
    }
}

fn u32v(n: u32) -> Option<V> {
    Some(V::U32(n))
}
fn u64v(n: u64) -> Option<V> {
    Some(V::U64(n))
}
fn strv(s: impl Into<String>) -> Option<V> {
    Some(V::Str(s.into()))
}

/// Health checks run, or would if the server was not in maintenance.
fn is_checked(s: &ServerState) -> bool {
    s.conf.check.enabled && !s.check_probe.paused.load(Relaxed)
}

/// Its last check still says something.
pub fn probed(s: &ServerState) -> bool {
    is_checked(s) && s.admin() & admin::MAINT == 0
}

/// The server of a row, if its last check still says something.
fn probe<'a>(r: &Row<'a>) -> Option<&'a ServerState> {
    r.server().filter(|s| probed(s))
}

/// Its agent is asked.
fn is_asked(s: &ServerState) -> bool {
    s.conf.agent.enabled && !s.agent_probe.paused.load(Relaxed)
}

/// The server of a row, if its agent is asked.
fn asked<'a>(r: &Row<'a>) -> Option<&'a ServerState> {
    r.server().filter(|s| is_asked(s))
}

/// Something of the health its agent says it has.
fn agent<T>(s: &ServerState, get: impl FnOnce(&Health) -> T) -> T {
    get(&s
        .agent_health
        .lock()
        .unwrap_or_else(PoisonError::into_inner))
}

/// A check's status, starred while the next one is under way.
fn running(probe: &Probing, code: &str) -> String {
    match probe.running.load(Relaxed) {
        true => format!("* {code}"),
        false => code.to_owned(),
    }
}

/// The status column.
pub fn status(r: &Row<'_>) -> String {
    match r {
        Row::Frontend(_, p) if p.stopped.load(Relaxed) => "STOP".into(),
        Row::Frontend(_, p) if p.disabled.load(Relaxed) => "PAUSED".into(),
        Row::Frontend(..) | Row::Listener(..) => "OPEN".into(),
        Row::Backend(_, p) if p.servers.is_empty() || p.usable_servers() > 0 => "UP".into(),
        Row::Backend(..) => "DOWN".into(),
        Row::Server(_, _, s) => server_status(s),
    }
}

fn server_status(s: &ServerState) -> String {
    let flags = s.admin();
    if flags & admin::RESOLUTION_MAINT != 0
        && flags & (admin::FORCED_MAINT | admin::CONFIG_MAINT) == 0
    {
        return "MAINT (resolution)".into();
    }
    if flags & admin::INHERITED_MAINT != 0
        && flags & (admin::FORCED_MAINT | admin::CONFIG_MAINT) == 0
    {
        return format!("MAINT (via {})", s.conf.track.as_deref().unwrap_or(""));
    }
    if flags & admin::MAINT != 0 {
        return "MAINT".into();
    }
    let checked = is_checked(s) || s.conf.track.is_some();
    let h = s.health.lock().unwrap_or_else(PoisonError::into_inner);
    let partial = |n: u32, of: u32| format!(" {n}/{of}");
    match s.op() {
        OpState::Stopped if s.conf.agent.enabled && !agent(s, Health::is_up) => {
            "DOWN (agent)".into()
        }
        OpState::Stopped if s.conf.check.enabled && h.counter > 0 => {
            format!("DOWN{}", partial(h.counter, h.rise))
        }
        OpState::Stopped => "DOWN".into(),
        OpState::Stopping => "NOLB".into(),
        _ if flags & admin::DRAIN != 0 && is_asked(s) => "DRAIN (agent)".into(),
        _ if flags & admin::DRAIN != 0 => "DRAIN".into(),
        _ if !checked => "no check".into(),
        // on the way down, or not yet found to be well
        _ if s.conf.check.enabled && (h.rise..h.rise + h.fall - 1).contains(&h.counter) => {
            format!("UP{}", partial(h.counter + 1 - h.rise, h.fall))
        }
        _ => "UP".into(),
    }
}

/// An address as the statistics show it.
pub fn peer_text(a: &PeerAddr) -> String {
    match a {
        PeerAddr::Ip { ip, port } => {
            let port = match port {
                PortSpec::Fixed(p) => p.to_string(),
                PortSpec::FromClient => "0".into(),
                PortSpec::Offset(o) => format!("{o:+}"),
            };
            if ip.is_ipv4() {
                format!("{ip}:{port}")
            } else {
                format!("[{ip}]:{port}")
            }
        }
        PeerAddr::Unix(_) => "unix".into(),
        PeerAddr::Abstract { .. } => "unix".into(),
        PeerAddr::Unresolved { .. } => String::new(),
        PeerAddr::Fd(n) => format!("fd@{n}"),
        PeerAddr::Ring(n) => format!("ring@{n}"),
        PeerAddr::Backend { name, .. } => format!("backend@{name}"),
    }
}

fn listen_text(a: &ListenAddr) -> String {
    match a {
        ListenAddr::Tcp(a) => a.to_string(),
        ListenAddr::Unix(_) | ListenAddr::Abstract { .. } => "unix".into(),
        ListenAddr::Fd(n) => format!("fd@{n}"),
    }
}

/// The `algo` column.
pub fn algorithm(b: &Balance) -> &'static str {
    match b {
        Balance::RoundRobin => "roundrobin",
        Balance::StaticRr => "static-rr",
        Balance::LeastConn => "leastconn",
        Balance::First => "first",
        Balance::Random { .. } => "random",
        Balance::Source => "source",
        Balance::Uri { .. } => "uri",
        Balance::UrlParam { .. } => "url_param",
        Balance::Header { .. } => "hdr",
        Balance::RdpCookie { .. } => "rdp-cookie",
        Balance::Hash(_) => "hash",
        Balance::Sticky => "sticky",
        Balance::LogHash(_) => "log-hash",
    }
}

/// Runs `f` on a server's health.
pub fn health<R>(s: &ServerState, f: impl FnOnce(&sluice_engine::health::Health) -> R) -> R {
    f(&s.health.lock().unwrap_or_else(PoisonError::into_inner))
}

fn active(p: &ProxyState, backup: bool) -> u32 {
    p.servers
        .iter()
        .filter(|s| s.conf.backup == backup && s.is_usable())
        .count() as u32
}

fn weight(s: &ServerState) -> u32 {
    s.effective_weight.load(Relaxed).div_ceil(WEIGHT_SCALE)
}

/// Monotonic milliseconds of a change as seconds ago.
fn ago(at: &At<'_>, ms: u64) -> u32 {
    (at.now_ms.saturating_sub(ms) / 1000) as u32
}

macro_rules! fields {
    ($($name:literal $tags:literal |$r:ident, $at:ident| $body:expr;)*) => {
        &[$(Field { name: $name, tags: Tags($tags), get: |$r, $at| { let _ = ($r, $at); $body } }),*]
    };
}

/// Every field, in the CSV's order.
pub const FIELDS: &[Field] = fields! {
    "pxname" "KNS" |r, at| strv(&*r.proxy().name);
    "svname" "KNS" |r, at| strv(r.name());
    "qcur" "MGP" |r, at| match r { Row::Server(_, _, s) => u32v(s.queue.len()), Row::Backend(_, p) => u32v(p.queue.len()), _ => None };
    "qmax" "MMP" |r, at| r.serving().and_then(|c| u32v(c.queued.max()));
    "scur" "MGP" |r, at| r.serving().map(|c| c.sessions.now()).or(r.frontend().map(|c| c.conns.now())).or(r.listener().map(|c| c.conns.now())).map(V::U32);
    "smax" "MMP" |r, at| r.serving().map(|c| c.sessions.max()).or(r.frontend().map(|c| c.conns.max())).or(r.listener().map(|c| c.conns.max())).map(V::U32);
    "slim" "CLP" |r, at| match r {
        Row::Frontend(_, p) => u32v(match p.fe_maxconn.load(Relaxed) { 0 => at.rt.maxconn.load(Relaxed), n => n }),
        Row::Listener(_, l) => u32v(l.maxconn.load(Relaxed)),
        Row::Server(_, _, s) => match s.maxconn.load(Relaxed) { 0 => None, n => u32v(n) },
        Row::Backend(_, p) => u32v(p.fullconn),
    };
    "stot" "MCP" |r, at| r.serving().map(|c| c.sess_total.value()).or(r.frontend().map(|c| c.sess_total.value())).or(r.listener().map(|c| c.sess_total.value())).map(V::U64);
    "bin" "MCP" |r, at| r.serving().map(|c| c.bytes_in.value()).or(r.frontend().map(|c| c.bytes_in.value())).or(r.listener().map(|c| c.bytes_in.value())).map(V::U64);
    "bout" "MCP" |r, at| r.serving().map(|c| c.bytes_out.value()).or(r.frontend().map(|c| c.bytes_out.value())).or(r.listener().map(|c| c.bytes_out.value())).map(V::U64);
    "dreq" "MCP" |r, at| match r { Row::Server(..) => None, _ => r.serving().map(|c| c.denied_req.value()).or(r.frontend().map(|c| c.denied_req.value())).or(r.listener().map(|c| c.denied_req.value())).map(V::U64) };
    "dresp" "MCP" |r, at| r.serving().map(|c| c.denied_resp.value()).or(r.frontend().map(|c| c.denied_resp.value())).or(r.listener().map(|c| c.denied_resp.value())).map(V::U64);
    "ereq" "MCP" |r, at| r.frontend().map(|c| c.failed_req.value()).or(r.listener().map(|c| c.failed_req.value())).map(V::U64);
    "econ" "MCP" |r, at| r.serving().and_then(|c| u64v(c.failed_conns.value()));
    "eresp" "MCP" |r, at| r.serving().and_then(|c| u64v(c.failed_resp.value()));
    "wretr" "MCP" |r, at| r.serving().and_then(|c| u64v(c.retries.value()));
    "wredis" "MCP" |r, at| r.serving().and_then(|c| u64v(c.redispatches.value()));
    "status" "SGP" |r, at| strv(status(r));
    "weight" "MaP" |r, at| match r {
        Row::Server(_, _, s) => u32v(weight(s)),
        Row::Backend(_, p) => u32v(p.servers.iter().filter(|s| s.is_usable() && (!s.conf.backup || active(p, false) == 0)).map(|s| weight(s)).sum()),
        _ => None,
    };
    "act" "SGP" |r, at| match r { Row::Server(_, _, s) => u32v((!s.conf.backup).into()), Row::Backend(_, p) => u32v(active(p, false)), _ => None };
    "bck" "SGP" |r, at| match r { Row::Server(_, _, s) => u32v(s.conf.backup.into()), Row::Backend(_, p) => u32v(active(p, true)), _ => None };
    "chkfail" "MCP" |r, at| r.server().filter(|s| is_checked(s)).and_then(|s| u64v(s.failed_checks.load(Relaxed)));
    "chkdown" "MCP" |r, at| match r { Row::Server(_, _, s) if is_checked(s) => u64v(s.down_count.load(Relaxed)), Row::Backend(_, p) => u64v(p.down_count.load(Relaxed)), _ => None };
    "lastchg" "MAP" |r, at| match r { Row::Server(_, _, s) => u32v(ago(at, s.last_change_ms.load(Relaxed))), Row::Backend(_, p) => u32v(ago(at, p.last_change_ms.load(Relaxed))), _ => None };
    "downtime" "MCP" |r, at| match r {
        Row::Server(_, _, s) if is_checked(s) => {
            let now = if s.op() == OpState::Stopped { at.now_ms.saturating_sub(s.last_change_ms.load(Relaxed)) } else { 0 };
            u32v(((s.down_ms.load(Relaxed) + now) / 1000) as u32)
        }
        Row::Backend(_, p) => {
            let now = if p.down.load(Relaxed) { at.now_ms.saturating_sub(p.last_change_ms.load(Relaxed)) } else { 0 };
            u32v(((p.down_ms.load(Relaxed) + now) / 1000) as u32)
        }
        _ => None,
    };
    "qlimit" "CLS" |r, at| r.server().and_then(|s| match s.conf.maxqueue { 0 => None, n => u32v(n) });
    "pid" "KGP" |r, at| u32v(1);
    "iid" "KGS" |r, at| u32v(r.proxy().puid);
    "sid" "KGS" |r, at| u32v(r.sid());
    "throttle" "AaP" |r, at| r.server().filter(|s| s.conf.slowstart_ms > 0 && s.op() == OpState::Starting).and_then(|s| u32v((s.effective_weight.load(Relaxed) * 100).div_ceil((s.user_weight.load(Relaxed) * WEIGHT_SCALE).max(1))));
    "lbtot" "MCP" |r, at| r.serving().and_then(|c| u64v(c.lb_total.value()));
    "tracked" "CNS" |r, at| r.server().and_then(|s| s.conf.track.as_ref()).and_then(strv);
    "type" "CGS" |r, at| u32v(r.kind());
    "rate" "MRP" |r, at| r.serving().map(|c| c.sess_rate.per_second(at.now_ms)).or(r.frontend().map(|c| c.sess_rate.per_second(at.now_ms))).map(V::U32);
    "rate_lim" "CLP" |r, at| match r { Row::Frontend(p, _) => u32v(p.rate_limit_sessions), _ => None };
    "rate_max" "MMP" |r, at| r.serving().map(|c| c.sess_rate.max()).or(r.frontend().map(|c| c.sess_rate.max())).map(V::U32);
    "check_status" "MOP" |r, at| probe(r).and_then(|s| strv(running(&s.check_probe, health(s, |h| h.last.status.code()))));
    "check_code" "MOP" |r, at| probe(r).and_then(|s| match health(s, |h| (h.last.status.has_code(), h.last.code)) { (true, n) => u32v(n), _ => None });
    "check_duration" "MDP" |r, at| probe(r).and_then(|s| match health(s, |h| (h.last.status, h.last.duration_ms)) { (CheckStatus::Unknown | CheckStatus::Init, _) => None, (_, ms) => u64v(ms) });
    "hrsp_1xx" "MCP" |r, at| class(r, 1);
    "hrsp_2xx" "MCP" |r, at| class(r, 2);
    "hrsp_3xx" "MCP" |r, at| class(r, 3);
    "hrsp_4xx" "MCP" |r, at| class(r, 4);
    "hrsp_5xx" "MCP" |r, at| class(r, 5);
    "hrsp_other" "MCP" |r, at| class(r, 0);
    "hanafail" "MCP" |r, at| r.server().filter(|s| s.conf.check.observe.is_some()).and_then(|s| u64v(s.passive.alarms.load(Relaxed)));
    "req_rate" "MRP" |r, at| r.frontend().filter(|_| r.http()).and_then(|c| u32v(c.req_rate.per_second(at.now_ms)));
    "req_rate_max" "MMP" |r, at| r.frontend().filter(|_| r.http()).and_then(|c| u32v(c.req_rate.max()));
    "req_tot" "MCP" |r, at| if !r.http() { None } else { r.serving().map(|c| c.req_total.value()).or(r.frontend().map(|c| c.req_total.value())).map(V::U64) };
    "cli_abrt" "MCP" |r, at| r.serving().and_then(|c| u64v(c.client_aborts.value()));
    "srv_abrt" "MCP" |r, at| r.serving().and_then(|c| u64v(c.server_aborts.value()));
    "comp_in" "MCP" |r, at| compression(r);
    "comp_out" "MCP" |r, at| compression(r);
    "comp_byp" "MCP" |r, at| compression(r);
    "comp_rsp" "MCP" |r, at| compression(r);
    "lastsess" "MAP" |r, at| r.serving().map(|c| V::S32(match c.last_session_ms.value() { 0 => -1, ms => ago(at, ms) as i32 }));
    "last_chk" "MOP" |r, at| probe(r).filter(|s| !s.check_probe.running.load(Relaxed)).and_then(|s| strv(health(s, |h| h.last.info.clone())));
    "last_agt" "SOP" |r, at| asked(r).and_then(|s| strv(agent(s, |h| h.last.info.clone())));
    "qtime" "MaP" |r, at| mean(r, |c| &c.queue_time);
    "ctime" "MaP" |r, at| mean(r, |c| &c.connect_time);
    "rtime" "MaP" |r, at| mean(r, |c| &c.response_time);
    "ttime" "MaP" |r, at| mean(r, |c| &c.total_time);
    "agent_status" "SOP" |r, at| asked(r).and_then(|s| strv(running(&s.agent_probe, agent(s, |h| h.last.status.code()))));
    "agent_code" "MOP" |r, at| asked(r).filter(|s| agent(s, |h| h.last.status.has_code())).and_then(|s| u32v(agent(s, |h| h.last.code)));
    "agent_duration" "MDP" |r, at| asked(r).and_then(|s| u64v(agent(s, |h| h.last.duration_ms)));
    "check_desc" "SOP" |r, at| probe(r).and_then(|s| strv(health(s, |h| h.last.status.description())));
    "agent_desc" "SOP" |r, at| asked(r).and_then(|s| strv(agent(s, |h| h.last.status.description())));
    "check_rise" "CGS" |r, at| probe(r).and_then(|s| u32v(health(s, |h| h.rise)));
    "check_fall" "CGS" |r, at| probe(r).and_then(|s| u32v(health(s, |h| h.fall)));
    "check_health" "CGS" |r, at| probe(r).and_then(|s| u32v(health(s, |h| h.counter)));
    "agent_rise" "CLP" |r, at| asked(r).and_then(|s| u32v(agent(s, |h| h.rise)));
    "agent_fall" "CLP" |r, at| asked(r).and_then(|s| u32v(agent(s, |h| h.fall)));
    "agent_health" "SGP" |r, at| asked(r).and_then(|s| u32v(agent(s, |h| h.counter)));
    "addr" "CGS" |r, at| match r { Row::Server(_, _, s) => strv(peer_text(&s.addr.load())), Row::Listener(_, l) => strv(listen_text(&l.addr)), _ => None };
    "cookie" "CNS" |r, at| match r { Row::Server(_, _, s) => s.cookie.load_full().and_then(|c| strv(c.as_str())), Row::Backend(p, _) => p.cookie.as_ref().and_then(|c| strv(&c.name)), _ => None };
    "mode" "CGS" |r, at| strv(r.proxy().mode.name());
    "algo" "CGS" |r, at| r.backend().and_then(|_| strv(algorithm(&r.proxy().balance)));
    "conn_rate" "MRP" |r, at| r.frontend().and_then(|c| u32v(c.conn_rate.per_second(at.now_ms)));
    "conn_rate_max" "MMP" |r, at| r.frontend().and_then(|c| u32v(c.conn_rate.max()));
    "conn_tot" "MCP" |r, at| r.frontend().and_then(|c| u64v(c.conn_total.value()));
    "intercepted" "MCP" |r, at| r.frontend().filter(|_| r.http()).and_then(|c| u64v(c.intercepted.value()));
    "dcon" "MCP" |r, at| r.frontend().map(|c| c.denied_conn.value()).or(r.listener().map(|c| c.denied_conn.value())).map(V::U64);
    "dses" "MCP" |r, at| r.frontend().map(|c| c.denied_sess.value()).or(r.listener().map(|c| c.denied_sess.value())).map(V::U64);
    "wrew" "MCP" |r, at| r.serving().map(|c| c.failed_rewrites.value()).or(r.frontend().map(|c| c.failed_rewrites.value())).or(r.listener().map(|c| c.failed_rewrites.value())).map(V::U64);
    "connect" "MCP" |r, at| r.serving().and_then(|c| u64v(c.connects.value()));
    "reuse" "MCP" |r, at| r.serving().and_then(|c| u64v(c.reuses.value()));
    "cache_lookups" "MCP" |r, at| match r { Row::Frontend(..) | Row::Backend(..) if r.http() => u64v(0), _ => None };
    "cache_hits" "MCP" |r, at| match r { Row::Frontend(..) | Row::Backend(..) if r.http() => u64v(0), _ => None };
    "srv_icur" "MGP" |r, at| r.server().and_then(|s| u32v(s.idle.total()));
    "src_ilim" "CLP" |r, at| r.server().and_then(|s| s.conf.pool_max_conn).filter(|n| *n >= 0).map(|n| V::U32(n as u32));
    "qtime_max" "MMP" |r, at| r.serving().and_then(|c| u32v(c.queue_time.max()));
    "ctime_max" "MMP" |r, at| r.serving().and_then(|c| u32v(c.connect_time.max()));
    "rtime_max" "MMP" |r, at| r.serving().and_then(|c| u32v(c.response_time.max()));
    "ttime_max" "MMP" |r, at| r.serving().and_then(|c| u32v(c.total_time.max()));
    "eint" "MCP" |r, at| r.serving().map(|c| c.internal_errors.value()).or(r.frontend().map(|c| c.internal_errors.value())).or(r.listener().map(|c| c.internal_errors.value())).map(V::U64);
    "idle_conn_cur" "MGP" |r, at| r.server().and_then(|s| u32v(s.idle.total()));
    "safe_conn_cur" "MGP" |r, at| r.server().and_then(|_| u32v(0));
    "used_conn_cur" "MGP" |r, at| r.server().and_then(|s| u32v(s.counters.sessions.now()));
    "need_conn_est" "MGP" |r, at| r.server().and_then(|s| u32v(s.idle.needed()));
    "uweight" "MaP" |r, at| match r {
        Row::Server(_, _, s) => u32v(s.user_weight.load(Relaxed)),
        Row::Backend(_, p) => u32v(p.servers.iter().filter(|s| s.is_usable() && (!s.conf.backup || active(p, false) == 0)).map(|s| s.user_weight.load(Relaxed)).sum()),
        _ => None,
    };
    "agg_server_status" "MGP" |r, at| r.backend().and_then(|_| u32v(0));
    "agg_server_check_status" "MGP" |r, at| r.backend().and_then(|_| u32v(0));
    "agg_check_status" "MGP" |r, at| r.backend().and_then(|_| u32v(0));
    "srid" "KGS" |r, at| r.server().and_then(|s| u32v(s.conf.id));
    "sess_other" "MCP" |r, at| r.frontend().and_then(|c| u64v(c.other_sess.value()));
    "h1sess" "MCP" |r, at| r.frontend().and_then(|c| u64v(c.h1_sess.value()));
    "h2sess" "MCP" |r, at| r.frontend().and_then(|c| u64v(c.h2_sess.value()));
    "h3sess" "MCP" |r, at| r.frontend().and_then(|c| u64v(c.h3_sess.value()));
    "req_other" "MCP" |r, at| r.frontend().and_then(|c| u64v(c.other_req.value()));
    "h1req" "MCP" |r, at| r.frontend().and_then(|c| u64v(c.h1_req.value()));
    "h2req" "MCP" |r, at| r.frontend().and_then(|c| u64v(c.h2_req.value()));
    "h3req" "MCP" |r, at| r.frontend().and_then(|c| u64v(c.h3_req.value()));
    "proto" "CNS" |r, at| match r { Row::Listener(_, l) => strv(match l.addr { ListenAddr::Tcp(a) if a.is_ipv6() => "tcpv6", ListenAddr::Tcp(_) => "tcpv4", _ => "unix_stream" }), _ => None };
    "priv_idle_cur" "MGP" |r, at| r.server().and_then(|_| u32v(0));
    "req_in" "MCP" |r, at| r.serving().map(|c| c.bytes_in.value()).or(r.frontend().map(|c| c.bytes_in.value())).map(V::U64);
    "req_out" "MCP" |r, at| r.serving().map(|c| c.bytes_in.value()).or(r.frontend().map(|c| c.bytes_in.value())).map(V::U64);
    "res_in" "MCP" |r, at| r.serving().map(|c| c.bytes_out.value()).or(r.frontend().map(|c| c.bytes_out.value())).map(V::U64);
    "res_out" "MCP" |r, at| r.serving().map(|c| c.bytes_out.value()).or(r.frontend().map(|c| c.bytes_out.value())).map(V::U64);
    "-" "CNS" |r, at| strv("-");
};

fn class(r: &Row<'_>, class: usize) -> Option<V> {
    if !r.http() {
        return None;
    }
    let c = r
        .serving()
        .map(|c| &c.responses)
        .or(r.frontend().map(|c| &c.responses))?;
    u64v(c.class(class))
}

fn compression(r: &Row<'_>) -> Option<V> {
    match r {
        Row::Frontend(..) | Row::Backend(..) => u64v(0),
        _ => None,
    }
}

fn mean(
    r: &Row<'_>,
    pick: fn(&sluice_engine::counters::ServingCounters) -> &sluice_engine::counters::Mean,
) -> Option<V> {
    let c = r.serving()?;
    u32v(pick(c).mean(c.sess_total.value()) as u32)
}

impl std::fmt::Display for V {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            V::Str(s) => f.write_str(s),
            V::U32(n) => n.fmt(f),
            V::S32(n) => n.fmt(f),
            V::U64(n) => n.fmt(f),
        }
    }
}

impl V {
    /// The type's name in typed and JSON output.
    pub fn type_name(&self) -> &'static str {
        match self {
            V::Str(_) => "str",
            V::U32(_) => "u32",
            V::S32(_) => "s32",
            V::U64(_) => "u64",
        }
    }
}
