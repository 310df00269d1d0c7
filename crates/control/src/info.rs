//! `show info`: one item a line, with its tags for the typed form.

use std::fmt::Write;
use std::sync::atomic::Ordering::Relaxed;

use sluice_expr::env::Now;

use crate::dump::{tags_json, value_json};
use crate::fields::V;
use sluice_engine::Runtime;

/// One line of `show info`.
pub struct Info {
    pub name: &'static str,
    pub tags: &'static str,
    pub desc: &'static str,
    pub get: fn(&Runtime, &Now) -> V,
}

fn s(x: impl Into<String>) -> V {
    V::Str(x.into())
}

fn uptime(rt: &Runtime, now: &Now) -> u64 {
    now.mono_us.saturating_sub(rt.started.mono_us) / 1_000_000
}

macro_rules! infos {
    ($($name:literal $tags:literal $desc:literal |$rt:ident, $now:ident| $body:expr;)*) => {
        &[$(Info { name: $name, tags: $tags, desc: $desc, get: |$rt, $now| { let _ = ($rt, $now); $body } }),*]
    };
}

/// The version tools see: the language's, then ours.
pub const VERSION: &str = concat!("3.5.0-sluice-", env!("CARGO_PKG_VERSION"));

/// All lines, in order.
pub const INFOS: &[Info] = infos! {
    "Name" "POS" "Product name" |rt, now| s("HAProxy");
    "Version" "POS" "Product version" |rt, now| s(VERSION);
    "Release_date" "POS" "Date of latest source code update" |rt, now| s("2026/11/21");
    "Nbthread" "CGS" "Number of started threads" |rt, now| V::U32(rt.workers);
    "Nbproc" "CGS" "Number of started worker processes" |rt, now| V::U32(1);
    "Process_num" "KGP" "Relative worker process number" |rt, now| V::U32(1);
    "Pid" "SGP" "This worker process identifier" |rt, now| V::U32(rt.pid);
    "Uptime" "MDP" "How long ago this worker process was started" |rt, now| { let u = uptime(rt, now); s(format!("{}d {}h{:02}m{:02}s", u / 86400, u / 3600 % 24, u / 60 % 60, u % 60)) };
    "Uptime_sec" "MDP" "How long ago this worker process was started (seconds)" |rt, now| V::U32(uptime(rt, now) as u32);
    "Memmax_MB" "CLP" "Memory limit (-m), 0 = unlimited" |rt, now| V::U32(0);
    "PoolAlloc_MB" "MGP" "Memory allocated in pools (MB)" |rt, now| V::U32(0);
    "PoolUsed_MB" "MGP" "Memory used in pools (MB)" |rt, now| V::U32(0);
    "PoolFailed" "MCP" "Failed pool allocations" |rt, now| V::U32(0);
    "Ulimit-n" "CLP" "Limit of open file descriptors" |rt, now| V::U32(rt.max_fds as u32);
    "Maxsock" "CLP" "Limit of sockets" |rt, now| V::U32(rt.max_fds as u32);
    "Maxconn" "CLP" "Limit of concurrent connections" |rt, now| V::U32(rt.maxconn.load(Relaxed));
    "Hard_maxconn" "CLP" "Limit of concurrent connections at start" |rt, now| V::U32(rt.maxconn_at_start);
    "CurrConns" "MGP" "Connections now" |rt, now| V::U32(rt.counters.conns.now());
    "CumConns" "MCP" "Connections since the start" |rt, now| V::U32(rt.counters.conn_total.value() as u32);
    "CumReq" "MCP" "Requests since the start" |rt, now| V::U32(rt.counters.req_total.value() as u32);
    "MaxSslConns" "MMP" "Limit of TLS connections" |rt, now| V::U32(0);
    "CurrSslConns" "MGP" "TLS connections now" |rt, now| V::U32(0);
    "CumSslConns" "MCP" "TLS connections since the start" |rt, now| V::U32(0);
    "Maxpipes" "CLP" "Limit of pipes for splicing" |rt, now| V::U32(rt.maxpipes);
    "PipesUsed" "MGP" "Pipes in use" |rt, now| V::U32(rt.counters.pipes_used.now());
    "PipesFree" "MGP" "Pipes kept for use" |rt, now| V::U32(rt.counters.pipes_free.value() as u32);
    "ConnRate" "MRP" "Connections in the last second" |rt, now| V::U32(rt.counters.conn_rate.per_second(now.mono_us / 1000));
    "ConnRateLimit" "CLP" "Limit of connections per second" |rt, now| V::U32(rt.limits.conn_rate.load(Relaxed));
    "MaxConnRate" "MMP" "Most connections in a second" |rt, now| V::U32(rt.counters.conn_rate.max());
    "SessRate" "MRP" "Sessions in the last second" |rt, now| V::U32(rt.counters.sess_rate.per_second(now.mono_us / 1000));
    "SessRateLimit" "CLP" "Limit of sessions per second" |rt, now| V::U32(rt.limits.sess_rate.load(Relaxed));
    "MaxSessRate" "MRP" "Most sessions in a second" |rt, now| V::U32(rt.counters.sess_rate.max());
    "SslRate" "MRP" "TLS connections in the last second" |rt, now| V::U32(0);
    "SslRateLimit" "CLP" "Limit of TLS connections per second" |rt, now| V::U32(0);
    "MaxSslRate" "MMP" "Most TLS connections in a second" |rt, now| V::U32(0);
    "SslFrontendKeyRate" "MGP" "TLS keys computed for clients in the last second" |rt, now| V::U32(0);
    "SslFrontendMaxKeyRate" "MMP" "Most TLS keys computed for clients in a second" |rt, now| V::U32(0);
    "SslFrontendSessionReuse_pct" "MGP" "TLS sessions resumed by clients, percent" |rt, now| V::U32(0);
    "SslBackendKeyRate" "MRP" "TLS keys computed for servers in the last second" |rt, now| V::U32(0);
    "SslBackendMaxKeyRate" "MMP" "Most TLS keys computed for servers in a second" |rt, now| V::U32(0);
    "SslCacheLookups" "MCP" "TLS session look-ups" |rt, now| V::U32(0);
    "SslCacheMisses" "MCP" "TLS session look-ups that found nothing" |rt, now| V::U32(0);
    "CompressBpsIn" "MRP" "Bytes per second given to compression" |rt, now| V::U32(0);
    "CompressBpsOut" "MRP" "Bytes per second made by compression" |rt, now| V::U32(0);
    "CompressBpsRateLim" "CLP" "Limit of bytes per second made by compression" |rt, now| V::U32(0);
    // of the builds with zlib alone, which keep their places
    "ZlibMemUsage" "MGP" "Memory used by zlib" |rt, now| s("");
    "MaxZlibMemUsage" "CLP" "Limit of the memory used by zlib" |rt, now| s("");
    "Tasks" "MGP" "Tasks of the event loops, as of the last second" |rt, now| V::U32(rt.counters.tasks.value() as u32);
    "Run_queue" "MGP" "Tasks ready to run" |rt, now| V::U32(0);
    "Idle_pct" "MaP" "Time spent waiting, percent" |rt, now| V::U32(rt.counters.idle_pct.value() as u32);
    "node" "COS" "Node name" |rt, now| s(rt.model.global.node.as_deref().unwrap_or(&rt.hostname));
    "description" "COS" "Node description" |rt, now| s(rt.model.global.description.as_deref().unwrap_or(""));
    "Stopping" "MGP" "1 while stopping" |rt, now| V::U32(rt.is_stopping().into());
    "Jobs" "MGP" "Connections and listeners" |rt, now| V::U32(rt.counters.conns.now() + listeners(rt));
    "Unstoppable Jobs" "MGP" "Jobs a soft stop does not wait for" |rt, now| V::U32(0);
    "Listeners" "MGP" "Listening addresses" |rt, now| V::U32(listeners(rt));
    "ActivePeers" "MGP" "Peers that are tried" |rt, now| V::U32(0);
    "ConnectedPeers" "MGP" "Peers that are connected" |rt, now| V::U32(0);
    "DroppedLogs" "MGP" "Log messages nobody took" |rt, now| V::U32(rt.counters.dropped_logs.value() as u32);
    "BusyPolling" "MGP" "1 with busy polling" |rt, now| V::U32(rt.model.global.busy_polling.into());
    "FailedResolutions" "MGP" "Names that could not be resolved" |rt, now| V::U32(rt.counters.failed_resolutions.value() as u32);
    "TotalBytesOut" "MGP" "Bytes sent to clients since the start" |rt, now| V::U64(rt.counters.bytes_out.value());
    "TotalSplicdedBytesOut" "MGP" "Bytes spliced since the start" |rt, now| V::U64(rt.counters.spliced_bytes.value());
    "BytesOutRate" "MRP" "Bytes per second sent to clients" |rt, now| V::U64(rt.counters.bytes_out_rate.per_second(now.mono_us / 1000).into());
    "DebugCommandsIssued" "MGP" "Debug commands since the start" |rt, now| V::U32(0);
    "CumRecvLogs" "MCP" "Log messages received since the start" |rt, now| V::U32(0);
    "Build info" "POS" "Build" |rt, now| s(VERSION);
    "Memmax_bytes" "CLP" "Memory limit (-m), bytes" |rt, now| V::U32(0);
    "PoolAlloc_bytes" "MGP" "Memory allocated in pools" |rt, now| V::U64(0);
    "PoolUsed_bytes" "MGP" "Memory used in pools" |rt, now| V::U64(0);
    "Start_time_sec" "MDP" "When this process started" |rt, now| V::U32((rt.started.wall_us / 1_000_000) as u32);
    "Tainted" "SGP" "Things done that void guarantees" |rt, now| s("0");
    "TotalWarnings" "MCP" "Warnings since the start" |rt, now| V::U32(0);
    "MaxconnReached" "MCP" "Times accepting paused because a limit was reached" |rt, now| V::U32(rt.counters.accept_pauses.value() as u32);
};

fn listeners(rt: &Runtime) -> u32 {
    rt.proxies.iter().map(|p| p.listeners.len() as u32).sum()
}

/// What has no value is not shown: the description where the configuration has none.
fn is_missing(i: &Info, v: &V) -> bool {
    matches!(i.name, "description" | "ZlibMemUsage" | "MaxZlibMemUsage")
        && *v == V::Str(String::new())
}

/// `show info`, with `desc`.
pub fn plain(rt: &Runtime, now: &Now, desc: bool) -> String {
    let mut out = String::new();
    for i in INFOS {
        let v = (i.get)(rt, now);
        if is_missing(i, &v) {
            continue;
        }
        let _ = match desc {
            true => writeln!(out, "{}: {v}:\"{}\"", i.name, i.desc),
            false => writeln!(out, "{}: {v}", i.name),
        };
    }
    out
}

/// `show info typed`.
pub fn typed(rt: &Runtime, now: &Now) -> String {
    let mut out = String::new();
    for (pos, i) in INFOS.iter().enumerate() {
        let v = (i.get)(rt, now);
        if is_missing(i, &v) {
            continue;
        }
        let _ = writeln!(out, "{pos}.{}.1:{}:{}:{v}", i.name, i.tags, v.type_name());
    }
    out
}

/// `show info json`.
pub fn json(rt: &Runtime, now: &Now) -> String {
    let items: Vec<String> = INFOS
        .iter()
        .enumerate()
        .map(|(pos, i)| (pos, i, (i.get)(rt, now)))
        .filter(|(_, i, v)| !is_missing(i, v))
        .map(|(pos, i, v)| {
            format!(
                "{{\"field\":{{\"pos\":{pos},\"name\":\"{}\"}},\"processNum\":1,{},{}}}",
                i.name,
                tags_json(i.tags),
                value_json(&v)
            )
        })
        .collect();
    format!("[{}]\n", items.join(","))
}
