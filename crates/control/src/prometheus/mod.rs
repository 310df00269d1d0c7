//! The Prometheus exporter: the statistics fields under HAProxy's metric names.
//!
//! A field becomes `haproxy_<frontend|listener|backend|server>_<metric>`; the table says which fields are metrics of
//! which rows, under which name, and of which type.

mod table;

use std::fmt::Write;
use std::sync::atomic::Ordering::Relaxed;

use sluice_engine::health::CheckStatus;
use sluice_engine::state::{ListenerState, OpState, admin};
use sluice_engine::{Runtime, ServerState};
use sluice_expr::env::Now;

use crate::fields::{At, FIELDS, Row, V, health, probed, rows, status};
use crate::info::INFOS;
use crate::page::Page;
use table::{METRICS, PROCESS};

/// A number that does not exist, as Prometheus writes it.
const NO_NUMBER: &str = "NaN";

/// States of frontends and backends as labels of `_status`.
const PROXY_STATES: [&str; 2] = ["DOWN", "UP"];
/// States of listeners.
const LISTENER_STATES: [&str; 3] = ["WAITING", "OPEN", "FULL"];
/// States of servers.
const SERVER_STATES: [&str; 5] = ["DOWN", "UP", "MAINT", "DRAIN", "NOLB"];
/// Outcomes of checks as labels of `_check_status`.
const CHECK_STATES: [CheckStatus; 16] = [
    CheckStatus::Observed,
    CheckStatus::SockErr,
    CheckStatus::L4Ok,
    CheckStatus::L4Timeout,
    CheckStatus::L4Con,
    CheckStatus::L6Ok,
    CheckStatus::L6Timeout,
    CheckStatus::L6Resp,
    CheckStatus::L7Timeout,
    CheckStatus::L7Resp,
    CheckStatus::L7Ok,
    CheckStatus::L7OkCond,
    CheckStatus::L7Status,
    CheckStatus::ProcErr,
    CheckStatus::ProcTimeout,
    CheckStatus::ProcOk,
];

/// What a query asks for: `scope=SCOPE` (`*` all, empty none), `metrics=NAME,...` (`-NAME` but this one), `no-maint`.
struct Wanted {
    scopes: Vec<String>,
    only: Vec<String>,
    without: Vec<String>,
    no_maint: bool,
}

const SCOPES: [&str; 5] = ["global", "frontend", "listener", "backend", "server"];

impl Wanted {
    /// Nothing when it names a scope that does not exist.
    fn parse(query: &[u8]) -> Option<Wanted> {
        let mut wanted = Wanted {
            scopes: Vec::new(),
            only: Vec::new(),
            without: Vec::new(),
            no_maint: false,
        };
        let mut scoped = false;
        for parameter in query.split(|b| *b == b'&') {
            let parameter = String::from_utf8_lossy(parameter);
            let (name, value) = parameter.split_once('=').unwrap_or((&parameter, ""));
            match (name, value) {
                ("scope", "") => (scoped, wanted.scopes) = (true, Vec::new()),
                ("scope", "*") => scoped = false,
                ("scope", scope) if SCOPES.contains(&scope) || scope == "sticktable" => {
                    scoped = true;
                    wanted.scopes.push(scope.to_owned());
                }
                ("scope", _) => return None,
                ("metrics", names) => {
                    for name in names.split(',') {
                        match name.strip_prefix('-') {
                            Some(name) => wanted.without.push(name.to_owned()),
                            None => wanted.only.push(name.to_owned()),
                        }
                    }
                }
                ("no-maint", _) => wanted.no_maint = true,
                _ => {}
            }
        }
        if !scoped {
            wanted.scopes = SCOPES.map(str::to_owned).to_vec();
        }
        Some(wanted)
    }

    fn scope(&self, scope: &str) -> bool {
        self.scopes.iter().any(|s| s == scope)
    }

    fn metric(&self, name: &str) -> bool {
        let named = |list: &[String]| list.iter().any(|n| n == name || n == "*");
        (self.only.is_empty() || named(&self.only)) && !named(&self.without)
    }
}

/// The page under construction.
struct Out<'a> {
    text: String,
    wanted: &'a Wanted,
}

impl Out<'_> {
    /// One metric with its lines: labels and value of each. One without lines is left out.
    fn family(&mut self, name: &str, kind: &str, help: &str, lines: Vec<(String, String)>) {
        if lines.is_empty() || !self.wanted.metric(name) {
            return;
        }
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for (labels, value) in lines {
            let _ = match labels.is_empty() {
                true => writeln!(self.text, "{name} {value}"),
                false => writeln!(self.text, "{name}{{{labels}}} {value}"),
            };
        }
    }
}

/// Answers a scrape; `query` is what stands behind `?` (`scope=global&scope=server&no-maint`).
pub fn page(runtime: &Runtime, query: &[u8], now_ms: u64) -> Page {
    let Some(wanted) = Wanted::parse(query) else {
        return Page {
            status: 400,
            content_type: "text/plain",
            headers: Vec::new(),
            body: b"unknown scope\n".to_vec(),
        };
    };
    let mut out = Out {
        text: String::new(),
        wanted: &wanted,
    };
    if wanted.scope("global") {
        process(&mut out, runtime, now_ms);
    }
    let at = At {
        rt: runtime,
        now_ms,
    };
    let all = rows(runtime);
    for scope in ["frontend", "listener", "backend", "server"] {
        if !wanted.scope(scope) {
            continue;
        }
        let mine: Vec<&Row<'_>> = all
            .iter()
            .filter(|r| scope_of(r) == scope && !(wanted.no_maint && in_maintenance(r)))
            .collect();
        states(&mut out, scope, &mine);
        responses(&mut out, scope, &mine, &at);
        for (field, name, kind, help) in METRICS {
            metric(&mut out, scope, (field, name, kind, help), &mine, &at);
        }
    }
    Page {
        status: 200,
        content_type: "text/plain; version=0.0.4",
        headers: Vec::new(),
        body: out.text.into_bytes(),
    }
}

fn scope_of(r: &Row<'_>) -> &'static str {
    match r {
        Row::Frontend(..) => "frontend",
        Row::Listener(..) => "listener",
        Row::Backend(..) => "backend",
        Row::Server(..) => "server",
    }
}

fn in_maintenance(r: &Row<'_>) -> bool {
    matches!(r, Row::Server(_, _, s) if s.admin() & admin::MAINT != 0)
}

fn process(out: &mut Out<'_>, rt: &Runtime, now_ms: u64) {
    let now = Now {
        wall_us: 0,
        mono_us: now_ms * 1000,
    };
    for (info, metric, kind) in PROCESS {
        if let Some(i) = INFOS.iter().find(|i| i.name == *info) {
            let name = format!("haproxy_process_{metric}");
            let value = (i.get)(rt, &now).to_string();
            let value = if value.is_empty() {
                NO_NUMBER.into()
            } else {
                value
            };
            out.family(&name, kind, i.desc, vec![(String::new(), value)]);
        }
    }
    let version = format!("version=\"{}\"", crate::info::VERSION);
    out.family(
        "haproxy_process_build_info",
        "gauge",
        "Build info",
        vec![(version, "1".into())],
    );
}

/// `proxy="x"`, with the server's or listener's name.
fn labels(r: &Row<'_>) -> String {
    let proxy = label(&r.proxy().name);
    match r {
        Row::Server(..) => format!("proxy=\"{proxy}\",server=\"{}\"", label(&r.name())),
        Row::Listener(..) => format!("proxy=\"{proxy}\",listener=\"{}\"", label(&r.name())),
        _ => format!("proxy=\"{proxy}\""),
    }
}

fn label(s: &str) -> String {
    s.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

/// A line for each state, of which `now` is the one that holds.
fn of_states<'s>(
    r: &Row<'_>,
    states: impl IntoIterator<Item = &'s str>,
    count: impl Fn(&str) -> usize,
) -> Vec<(String, String)> {
    let labels = labels(r);
    states
        .into_iter()
        .map(|state| {
            let value = count(state).to_string();
            (format!("{labels},state=\"{state}\""), value)
        })
        .collect()
}

/// The state of a server, in one word of `SERVER_STATES`.
fn server_state(s: &ServerState) -> &'static str {
    match (s.admin(), s.op()) {
        (flags, _) if flags & admin::MAINT != 0 => "MAINT",
        (_, OpState::Stopped) => "DOWN",
        (_, OpState::Stopping) => "NOLB",
        (flags, _) if flags & admin::DRAIN != 0 => "DRAIN",
        _ => "UP",
    }
}

/// The state of a listener, in one word of `LISTENER_STATES`.
fn listener_state(l: &ListenerState) -> &'static str {
    let limit = l.maxconn.load(Relaxed);
    match limit > 0 && l.counters.conns.now() >= limit {
        true => "FULL",
        false => "OPEN",
    }
}

/// What the last health check said; nothing where there are none.
fn check_state(s: &ServerState) -> Option<&'static str> {
    probed(s).then(|| health(s, |h| h.last.status.code()))
}

fn states(out: &mut Out<'_>, scope: &str, mine: &[&Row<'_>]) {
    const HELP: &str = "1 for the state it is in, 0 for the others";
    const SUM: &str = "Number of servers of the backend in each state";
    let checks = CHECK_STATES.map(CheckStatus::code);
    let (mut now, mut check, mut servers, mut outcomes) = (vec![], vec![], vec![], vec![]);
    for r in mine {
        match r {
            Row::Server(_, _, s) => {
                let of = server_state(s);
                now.extend(of_states(r, SERVER_STATES, |state| (state == of).into()));
                if let Some(of) = check_state(s) {
                    check.extend(of_states(r, checks, |state| (state == of).into()));
                }
            }
            Row::Backend(_, p) => {
                let of = status(r);
                now.extend(of_states(r, PROXY_STATES, |state| (state == of).into()));
                let count = |get: &dyn Fn(&ServerState) -> bool| {
                    p.servers.iter().filter(|s| get(s)).count()
                };
                servers.extend(of_states(r, SERVER_STATES, |state| {
                    count(&|s| server_state(s) == state)
                }));
                outcomes.extend(of_states(r, checks, |state| {
                    count(&|s| check_state(s) == Some(state))
                }));
            }
            Row::Listener(_, l) => {
                let of = listener_state(l);
                now.extend(of_states(r, LISTENER_STATES, |state| (state == of).into()));
            }
            Row::Frontend(..) => {
                let of = if status(r) == "OPEN" { "UP" } else { "DOWN" };
                now.extend(of_states(r, PROXY_STATES, |state| (state == of).into()));
            }
        }
    }
    out.family(&format!("haproxy_{scope}_status"), "gauge", HELP, now);
    out.family("haproxy_server_check_status", "gauge", HELP, check);
    // the second has the older name, which dashboards know
    for name in ["agg_server_status", "agg_server_check_status"] {
        let name = format!("haproxy_backend_{name}");
        out.family(&name, "gauge", SUM, servers.clone());
    }
    out.family(
        "haproxy_backend_agg_check_status",
        "gauge",
        "Number of servers of the backend by the outcome of their last check",
        outcomes,
    );
}

fn responses(out: &mut Out<'_>, scope: &str, mine: &[&Row<'_>], at: &At<'_>) {
    const CODES: [(&str, &str); 6] = [
        ("1xx", "hrsp_1xx"),
        ("2xx", "hrsp_2xx"),
        ("3xx", "hrsp_3xx"),
        ("4xx", "hrsp_4xx"),
        ("5xx", "hrsp_5xx"),
        ("other", "hrsp_other"),
    ];
    let mut lines = Vec::new();
    for r in mine {
        for (code, field) in CODES {
            if let Some(v) = value(r, at, field) {
                lines.push((format!("{},code=\"{code}\"", labels(r)), v.to_string()));
            }
        }
    }
    out.family(
        &format!("haproxy_{scope}_http_responses_total"),
        "counter",
        "Total number of HTTP responses with each status class returned by this object",
        lines,
    );
}

fn value(r: &Row<'_>, at: &At<'_>, field: &str) -> Option<V> {
    FIELDS
        .iter()
        .find(|f| f.name == field)
        .and_then(|f| (f.get)(r, at))
}

fn metric(
    out: &mut Out<'_>,
    scope: &str,
    (field, name, kind, help): (&str, &str, &str, &str),
    mine: &[&Row<'_>],
    at: &At<'_>,
) {
    // the CSV's columns for servers that say "is it active" are of no use as numbers of servers
    if scope == "server" && matches!(field, "act" | "bck") {
        return;
    }
    let mut lines = Vec::new();
    for r in mine {
        let text = match value(r, at, field) {
            // the CSV has milliseconds, Prometheus wants seconds
            Some(V::U32(n)) if is_ms(field) => format!("{:.6}", f64::from(n) / 1000.0),
            Some(V::U64(n)) if is_ms(field) => format!("{:.6}", n as f64 / 1000.0),
            Some(v) => v.to_string(),
            // a check without a number of its own
            None if field == "check_code" && matches!(r, Row::Server(_, _, s) if probed(s)) => {
                "0".into()
            }
            // a limit that is not set
            None if scope == "server" && is_limit(field) => NO_NUMBER.into(),
            // no check, no failure
            None if scope == "server" && is_of_checks(field) => "0".into(),
            None => continue,
        };
        lines.push((labels(r), text));
    }
    out.family(&format!("haproxy_{scope}_{name}"), kind, help, lines);
}

fn is_of_checks(field: &str) -> bool {
    matches!(field, "chkfail" | "chkdown" | "downtime")
}

fn is_limit(field: &str) -> bool {
    matches!(field, "slim" | "qlimit" | "throttle" | "src_ilim")
}

fn is_ms(field: &str) -> bool {
    matches!(
        field,
        "qtime"
            | "ctime"
            | "rtime"
            | "ttime"
            | "qtime_max"
            | "ctime_max"
            | "rtime_max"
            | "ttime_max"
            | "check_duration"
    )
}
