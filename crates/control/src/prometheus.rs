//! The Prometheus exporter: the statistics fields under HAProxy's metric names.
//!
//! A field becomes `haproxy_<frontend|listener|backend|server>_<metric>`; the table says which fields are metrics of
//! which rows, under which name, and of which type.

use std::fmt::Write;

use sluice_engine::Runtime;
use sluice_expr::env::Now;

use crate::fields::{At, FIELDS, Row, V, rows, status};
use crate::info::INFOS;
use crate::page::Page;

/// Field, metric name without prefix, type, help.
const METRICS: &[(&str, &str, &str, &str)] = &[
    (
        "qcur",
        "current_queue",
        "gauge",
        "Number of current queued connections.",
    ),
    (
        "qmax",
        "max_queue",
        "gauge",
        "Highest value of queued connections encountered since process started",
    ),
    (
        "scur",
        "current_sessions",
        "gauge",
        "Number of current sessions on the frontend, backend or server",
    ),
    (
        "smax",
        "max_sessions",
        "gauge",
        "Highest value of current sessions encountered since process started",
    ),
    (
        "slim",
        "limit_sessions",
        "gauge",
        "Frontend/listener/server's maxconn, backend's fullconn",
    ),
    (
        "stot",
        "sessions_total",
        "counter",
        "Total number of sessions since process started",
    ),
    (
        "bin",
        "bytes_in_total",
        "counter",
        "Total number of request bytes since process started",
    ),
    (
        "bout",
        "bytes_out_total",
        "counter",
        "Total number of response bytes since process started",
    ),
    (
        "dreq",
        "requests_denied_total",
        "counter",
        "Total number of denied requests since process started",
    ),
    (
        "dresp",
        "responses_denied_total",
        "counter",
        "Total number of denied responses since process started",
    ),
    (
        "ereq",
        "request_errors_total",
        "counter",
        "Total number of invalid requests since process started",
    ),
    (
        "econ",
        "connection_errors_total",
        "counter",
        "Total number of failed connections to server since the worker process started",
    ),
    (
        "eresp",
        "response_errors_total",
        "counter",
        "Total number of invalid responses since the worker process started",
    ),
    (
        "wretr",
        "retry_warnings_total",
        "counter",
        "Total number of server connection retries since the worker process started",
    ),
    (
        "wredis",
        "redispatch_warnings_total",
        "counter",
        "Total number of server redispatches due to connection failures since the worker process started",
    ),
    (
        "weight",
        "weight",
        "gauge",
        "Server's effective weight, or sum of active servers' effective weights for a backend",
    ),
    (
        "act",
        "active_servers",
        "gauge",
        "Total number of active UP servers with a non-zero weight",
    ),
    (
        "bck",
        "backup_servers",
        "gauge",
        "Total number of backup UP servers with a non-zero weight",
    ),
    (
        "chkfail",
        "check_failures_total",
        "counter",
        "Total number of failed individual health checks per server/backend, since the worker process started",
    ),
    (
        "chkdown",
        "check_up_down_total",
        "counter",
        "Total number of failed checks causing UP to DOWN server transitions, per server/backend, since the worker process started",
    ),
    (
        "lastchg",
        "check_last_change_seconds",
        "gauge",
        "How long ago the last server state changed, in seconds",
    ),
    (
        "downtime",
        "downtime_seconds_total",
        "counter",
        "Total time spent in DOWN state, for server or backend",
    ),
    (
        "qlimit",
        "queue_limit",
        "gauge",
        "Limit on the number of connections in queue, for servers only (maxqueue argument)",
    ),
    (
        "throttle",
        "current_throttle",
        "gauge",
        "Throttling ratio applied to a server's maxconn and weight during the slowstart period (0 to 100%)",
    ),
    (
        "lbtot",
        "loadbalanced_total",
        "counter",
        "Total number of requests routed by load balancing since the worker process started (ignores queue pop and stickiness)",
    ),
    (
        "rate",
        "current_session_rate",
        "gauge",
        "Total number of sessions processed by this object over the last second (sessions for listeners/frontends, requests for backends/servers)",
    ),
    (
        "rate_lim",
        "limit_session_rate",
        "gauge",
        "Limit on the number of sessions accepted in a second (frontend only, 'rate-limit sessions' setting)",
    ),
    (
        "rate_max",
        "max_session_rate",
        "gauge",
        "Highest value of sessions per second observed since the worker process started",
    ),
    (
        "check_code",
        "check_code",
        "gauge",
        "layer5-7 code, if available of the last health check.",
    ),
    (
        "check_duration",
        "check_duration_seconds",
        "gauge",
        "Total duration of the latest server health check, in seconds.",
    ),
    (
        "req_rate",
        "http_requests_rate_current",
        "gauge",
        "Number of HTTP requests processed over the last second on this object",
    ),
    (
        "req_rate_max",
        "http_requests_rate_max",
        "gauge",
        "Highest value of http requests observed since the worker process started",
    ),
    (
        "req_tot",
        "http_requests_total",
        "counter",
        "Total number of HTTP requests processed by this object since the worker process started",
    ),
    (
        "cli_abrt",
        "client_aborts_total",
        "counter",
        "Total number of requests or connections aborted by the client since the worker process started",
    ),
    (
        "srv_abrt",
        "server_aborts_total",
        "counter",
        "Total number of requests or connections aborted by the server since the worker process started",
    ),
    (
        "comp_in",
        "http_comp_bytes_in_total",
        "counter",
        "Total number of bytes submitted to the HTTP compressor for this object since the worker process started",
    ),
    (
        "comp_out",
        "http_comp_bytes_out_total",
        "counter",
        "Total number of bytes emitted by the HTTP compressor for this object since the worker process started",
    ),
    (
        "comp_byp",
        "http_comp_bytes_bypassed_total",
        "counter",
        "Total number of bytes that bypassed HTTP compression for this object since the worker process started",
    ),
    (
        "comp_rsp",
        "http_comp_responses_total",
        "counter",
        "Total number of HTTP responses that were compressed for this object since the worker process started",
    ),
    (
        "lastsess",
        "last_session_seconds",
        "gauge",
        "How long ago some traffic was seen on this object on this worker process, in seconds",
    ),
    (
        "qtime",
        "queue_time_average_seconds",
        "gauge",
        "Avg. queue time for last 1024 successful connections.",
    ),
    (
        "ctime",
        "connect_time_average_seconds",
        "gauge",
        "Avg. connect time for last 1024 successful connections.",
    ),
    (
        "rtime",
        "response_time_average_seconds",
        "gauge",
        "Avg. response time for last 1024 successful connections.",
    ),
    (
        "ttime",
        "total_time_average_seconds",
        "gauge",
        "Avg. total time for last 1024 successful connections.",
    ),
    (
        "qtime_max",
        "max_queue_time_seconds",
        "gauge",
        "Maximum observed time spent in the queue",
    ),
    (
        "ctime_max",
        "max_connect_time_seconds",
        "gauge",
        "Maximum observed time spent waiting for a connection to complete",
    ),
    (
        "rtime_max",
        "max_response_time_seconds",
        "gauge",
        "Maximum observed time spent waiting for a server response",
    ),
    (
        "ttime_max",
        "max_total_time_seconds",
        "gauge",
        "Maximum observed total request+response time (request+queue+connect+response+processing)",
    ),
    (
        "conn_rate",
        "connections_rate_current",
        "gauge",
        "Number of new connections accepted over the last second on the frontend for this worker process",
    ),
    (
        "conn_rate_max",
        "connections_rate_max",
        "gauge",
        "Highest value of connections per second observed since the worker process started",
    ),
    (
        "conn_tot",
        "connections_total",
        "counter",
        "Total number of new connections accepted on this frontend since the worker process started",
    ),
    (
        "intercepted",
        "intercepted_requests_total",
        "counter",
        "Total number of HTTP requests intercepted on the frontend (redirects/stats/services) since the worker process started",
    ),
    (
        "dcon",
        "denied_connections_total",
        "counter",
        "Total number of incoming connections blocked on a listener/frontend by a tcp-request connection rule since the worker process started",
    ),
    (
        "dses",
        "denied_sessions_total",
        "counter",
        "Total number of incoming sessions blocked on a listener/frontend by a tcp-request connection rule since the worker process started",
    ),
    (
        "wrew",
        "failed_header_rewriting_total",
        "counter",
        "Total number of failed HTTP header rewrites since the worker process started",
    ),
    (
        "connect",
        "connection_attempts_total",
        "counter",
        "Total number of outgoing connection attempts on this backend/server since the worker process started",
    ),
    (
        "reuse",
        "connection_reuses_total",
        "counter",
        "Total number of reused connection on this backend/server since the worker process started",
    ),
    (
        "cache_lookups",
        "http_cache_lookups_total",
        "counter",
        "Total number of HTTP requests looked up in the cache on this frontend/backend since the worker process started",
    ),
    (
        "cache_hits",
        "http_cache_hits_total",
        "counter",
        "Total number of HTTP requests not found in the cache on this frontend/backend since the worker process started",
    ),
    (
        "srv_icur",
        "idle_connections_current",
        "gauge",
        "Current number of idle connections available for reuse on this server",
    ),
    (
        "src_ilim",
        "idle_connections_limit",
        "gauge",
        "Limit on the number of available idle connections on this server (server 'pool_max_conn' directive)",
    ),
    (
        "eint",
        "internal_errors_total",
        "counter",
        "Total number of internal errors since process started",
    ),
    (
        "used_conn_cur",
        "used_connections_current",
        "gauge",
        "Current number of connections in use",
    ),
    (
        "need_conn_est",
        "need_connections_current",
        "gauge",
        "Estimated needed number of connections",
    ),
    (
        "uweight",
        "uweight",
        "gauge",
        "Server's user weight, or sum of active servers' user weights for a backend",
    ),
];

/// States of a server, frontend or backend as labels of `_status`.
const STATES: [&str; 6] = ["DOWN", "UP", "MAINT", "DRAIN", "NOLB", "no check"];

/// Process metrics: line of `show info`, metric name, type.
const PROCESS: &[(&str, &str, &str)] = &[
    ("Nbthread", "nbthread", "gauge"),
    ("Nbproc", "nbproc", "gauge"),
    ("Process_num", "relative_process_id", "gauge"),
    ("Uptime_sec", "uptime_seconds", "gauge"),
    ("Start_time_sec", "start_time_seconds", "gauge"),
    ("Ulimit-n", "max_fds", "gauge"),
    ("Maxsock", "max_sockets", "gauge"),
    ("Maxconn", "max_connections", "gauge"),
    ("Hard_maxconn", "hard_max_connections", "gauge"),
    ("CurrConns", "current_connections", "gauge"),
    ("CumConns", "connections_total", "counter"),
    ("CumReq", "requests_total", "counter"),
    ("Maxpipes", "max_pipes", "gauge"),
    ("PipesUsed", "pipes_used_total", "counter"),
    ("PipesFree", "pipes_free_total", "counter"),
    ("ConnRate", "current_connection_rate", "gauge"),
    ("ConnRateLimit", "limit_connection_rate", "gauge"),
    ("MaxConnRate", "max_connection_rate", "gauge"),
    ("SessRate", "current_session_rate", "gauge"),
    ("SessRateLimit", "limit_session_rate", "gauge"),
    ("MaxSessRate", "max_session_rate", "gauge"),
    ("Tasks", "current_tasks", "gauge"),
    ("Run_queue", "current_run_queue", "gauge"),
    ("Idle_pct", "idle_time_percent", "gauge"),
    ("Stopping", "stopping", "gauge"),
    ("Jobs", "jobs", "gauge"),
    ("Listeners", "listeners", "gauge"),
    ("DroppedLogs", "dropped_logs_total", "counter"),
    ("BusyPolling", "busy_polling_enabled", "gauge"),
    ("FailedResolutions", "failed_resolutions", "counter"),
    ("TotalBytesOut", "bytes_out_total", "counter"),
    (
        "TotalSplicdedBytesOut",
        "spliced_bytes_out_total",
        "counter",
    ),
    ("BytesOutRate", "bytes_out_rate", "gauge"),
];

/// Answers a scrape; `query` is what stands behind `?` (`scope=global&scope=server&no-maint`).
pub fn page(runtime: &Runtime, query: &[u8], now_ms: u64) -> Page {
    let query = String::from_utf8_lossy(query).into_owned();
    let mut scopes: Vec<&str> = query
        .split('&')
        .filter_map(|p| p.strip_prefix("scope="))
        .flat_map(|s| s.split(','))
        .collect();
    if scopes.is_empty() || scopes.contains(&"*") {
        scopes = vec!["global", "frontend", "listener", "backend", "server"];
    }
    let no_maint = query.split('&').any(|p| p == "no-maint");
    let mut out = String::new();
    if scopes.contains(&"global") {
        process(&mut out, runtime, now_ms);
    }
    let at = At {
        rt: runtime,
        now_ms,
    };
    let all = rows(runtime);
    for scope in ["frontend", "listener", "backend", "server"] {
        if !scopes.contains(&scope) {
            continue;
        }
        let mine: Vec<&Row<'_>> = all
            .iter()
            .filter(|r| scope_of(r) == scope && !(no_maint && status(r).starts_with("MAINT")))
            .collect();
        states(&mut out, scope, &mine);
        responses(&mut out, scope, &mine, &at);
        for (field, name, kind, help) in METRICS {
            metric(&mut out, scope, field, name, kind, help, &mine, &at);
        }
    }
    Page {
        status: 200,
        content_type: "text/plain; version=0.0.4",
        headers: Vec::new(),
        body: out.into_bytes(),
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

fn head(out: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn process(out: &mut String, rt: &Runtime, now_ms: u64) {
    let now = Now {
        wall_us: 0,
        mono_us: now_ms * 1000,
    };
    for (info, metric, kind) in PROCESS {
        if let Some(i) = INFOS.iter().find(|i| i.name == *info) {
            let name = format!("haproxy_process_{metric}");
            head(out, &name, kind, i.desc);
            let _ = writeln!(out, "{name} {}", (i.get)(rt, &now));
        }
    }
    head(out, "haproxy_process_build_info", "gauge", "Build info");
    let _ = writeln!(
        out,
        "haproxy_process_build_info{{version=\"{}\"}} 1",
        crate::info::VERSION
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

fn states(out: &mut String, scope: &str, mine: &[&Row<'_>]) {
    if mine.is_empty() {
        return;
    }
    let name = format!("haproxy_{scope}_status");
    head(
        out,
        &name,
        "gauge",
        "Current status of the service, per state label value.",
    );
    for r in mine {
        let now = status(r);
        let names: &[&str] = match scope {
            "frontend" | "listener" => &["DOWN", "UP"],
            "backend" => &["DOWN", "UP"],
            _ => &STATES,
        };
        let now = match now.as_str() {
            "OPEN" => "UP",
            "STOP" | "PAUSED" => "DOWN",
            s if s.starts_with("MAINT") => "MAINT",
            s if s.starts_with("UP") => "UP",
            s if s.starts_with("DOWN") => "DOWN",
            s => s,
        };
        for state in names {
            let _ = writeln!(
                out,
                "{name}{{{},state=\"{state}\"}} {}",
                labels(r),
                u8::from(*state == now)
            );
        }
    }
}

fn responses(out: &mut String, scope: &str, mine: &[&Row<'_>], at: &At<'_>) {
    const CODES: [(&str, &str); 6] = [
        ("1xx", "hrsp_1xx"),
        ("2xx", "hrsp_2xx"),
        ("3xx", "hrsp_3xx"),
        ("4xx", "hrsp_4xx"),
        ("5xx", "hrsp_5xx"),
        ("other", "hrsp_other"),
    ];
    let name = format!("haproxy_{scope}_http_responses_total");
    let mut lines = String::new();
    for r in mine {
        for (code, field) in CODES {
            if let Some(v) = value(r, at, field) {
                let _ = writeln!(lines, "{name}{{{},code=\"{code}\"}} {v}", labels(r));
            }
        }
    }
    if !lines.is_empty() {
        head(
            out,
            &name,
            "counter",
            "Total number of HTTP responses with each status class returned by this object",
        );
        out.push_str(&lines);
    }
}

fn value(r: &Row<'_>, at: &At<'_>, field: &str) -> Option<V> {
    FIELDS
        .iter()
        .find(|f| f.name == field)
        .and_then(|f| (f.get)(r, at))
}

#[allow(clippy::too_many_arguments)]
fn metric(
    out: &mut String,
    scope: &str,
    field: &str,
    name: &str,
    kind: &str,
    help: &str,
    mine: &[&Row<'_>],
    at: &At<'_>,
) {
    let Some(f) = FIELDS.iter().find(|f| f.name == field) else {
        return;
    };
    let name = format!("haproxy_{scope}_{name}");
    let mut lines = String::new();
    for r in mine {
        // the CSV's columns for servers that say "is it active" are of no use as numbers of servers
        if scope == "server" && matches!(field, "act" | "bck") {
            continue;
        }
        let Some(v) = (f.get)(r, at) else { continue };
        let text = match v {
            // the CSV has milliseconds, Prometheus wants seconds
            V::U32(n) if is_ms(field) => format!("{}", f64::from(n) / 1000.0),
            V::U64(n) if is_ms(field) => format!("{}", n as f64 / 1000.0),
            v => v.to_string(),
        };
        let _ = writeln!(lines, "{name}{{{}}} {text}", labels(r));
    }
    if !lines.is_empty() {
        head(out, &name, kind, help);
        out.push_str(&lines);
    }
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
