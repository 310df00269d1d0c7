//! Commands that look: `show ...` and `get ...` of servers.

use std::fmt::Write;
use std::sync::PoisonError;
use std::sync::atomic::Ordering::Relaxed;

use sluice_config::model::{CliLevel, PeerAddr, PortSpec};
use sluice_engine::health::CheckStatus;
use sluice_engine::state::{Probing, admin};
use sluice_engine::{ProxyState, ServerState};

use super::{Call, Command};
use crate::dump::{self, Wanted};
use crate::fields::At;
use crate::info;

pub const COMMANDS: &[Command] = &[
    Command {
        words: &["show", "info"],
        args: "[desc|json|typed|float]*",
        help: "report information about the running process",
        level: CliLevel::User,
        run: show_info,
    },
    Command {
        words: &["show", "stat"],
        args: "[desc|json|no-maint|typed|up]*",
        help: "report counters for each proxy and server",
        level: CliLevel::User,
        run: show_stat,
    },
    Command {
        words: &["show", "schema", "json"],
        args: "",
        help: "report schema used for stats",
        level: CliLevel::User,
        run: |_| SCHEMA.to_string(),
    },
    Command {
        words: &["show", "backend"],
        args: "",
        help: "list backends in the current running config",
        level: CliLevel::User,
        run: show_backend,
    },
    Command {
        words: &["show", "servers", "state"],
        args: "[<backend>]",
        help: "dump volatile server information (all or for a single backend)",
        level: CliLevel::User,
        run: servers_state,
    },
    Command {
        words: &["show", "servers", "conn"],
        args: "[<backend>]",
        help: "dump server connections status (all or for a single backend)",
        level: CliLevel::User,
        run: servers_conn,
    },
    Command {
        words: &["show", "errors"],
        args: "[<px>] [request|response]",
        help: "report last request and/or response errors for each proxy",
        level: CliLevel::Operator,
        run: |c| c.host.errors(),
    },
    Command {
        words: &["show", "env"],
        args: "[var]",
        help: "dump environment variables known to the process",
        level: CliLevel::Operator,
        run: show_env,
    },
    Command {
        words: &["show", "events"],
        args: "[<sink>] [-w] [-n]",
        help: "show event sink state",
        level: CliLevel::Operator,
        run: show_events,
    },
    Command {
        words: &["show", "version"],
        args: "",
        help: "show version of the current process",
        level: CliLevel::User,
        run: |c| c.info(&format!("{}\n", info::VERSION)),
    },
    Command {
        words: &["show", "startup-logs"],
        args: "",
        help: "report logs emitted during HAProxy startup",
        level: CliLevel::Operator,
        run: |c| match c.host.startup_logs() {
            "" => "\n".into(),
            logs => logs.into(),
        },
    },
    Command {
        words: &["show", "cli", "sockets"],
        args: "",
        help: "dump list of cli sockets",
        level: CliLevel::Operator,
        run: cli_sockets,
    },
    Command {
        words: &["get", "var"],
        args: "<name>",
        help: "retrieve contents of a process-wide variable",
        level: CliLevel::User,
        run: get_var,
    },
];

fn at<'a>(c: &'a Call<'_>) -> At<'a> {
    At {
        rt: c.host.runtime(),
        now_ms: c.host.now().mono_us / 1000,
    }
}

fn show_info(c: &mut Call<'_>) -> String {
    let (rt, now) = (c.host.runtime(), c.host.now());
    if c.args.contains(&"json") {
        info::json(rt, &now)
    } else if c.args.contains(&"typed") {
        info::typed(rt, &now)
    } else {
        info::plain(rt, &now, c.args.contains(&"desc"))
    }
}

fn show_stat(c: &mut Call<'_>) -> String {
    let mut w = Wanted::default();
    // `[{<iid>|<proxy>} <type> <sid>]`: all three or none, a negative number for any
    if !c.arg(2).is_empty() {
        let number = |at: usize| c.arg(at).parse::<i64>().unwrap_or(0);
        w.proxy = match c.arg(0).parse::<i64>() {
            Ok(iid) => u32::try_from(iid).ok(),
            Err(_) => match c.rt().model.proxies.iter().find(|p| *p.name == *c.arg(0)) {
                Some(p) => Some(p.puid),
                None => return c.error("No such proxy.\n"),
            },
        };
        w.kinds = u32::try_from(number(1)).ok();
        w.sid = u32::try_from(number(2)).ok();
    }
    w.up = c.args.contains(&"up");
    w.no_maint = c.args.contains(&"no-maint");
    let at = at(c);
    if c.args.contains(&"json") {
        dump::json(&at, w)
    } else if c.args.contains(&"typed") {
        dump::typed(&at, w)
    } else {
        dump::csv(&at, w)
    }
}

fn show_backend(c: &mut Call<'_>) -> String {
    let mut out = "# name\n".to_string();
    for p in c
        .host
        .runtime()
        .model
        .proxies
        .iter()
        .filter(|p| p.is_backend() && !p.disabled)
    {
        let _ = writeln!(out, "{}", p.name);
    }
    out
}

/// The proxies a `[<backend>]` argument means.
fn backends<'a>(c: &'a Call<'_>) -> Result<Vec<(u32, &'a ProxyState)>, String> {
    let rt = c.host.runtime();
    let all = rt
        .model
        .proxies
        .iter()
        .zip(&rt.proxies)
        .filter(|(p, _)| p.is_backend() && !p.disabled);
    match c.args.first() {
        None => Ok(all.map(|(p, s)| (p.puid, &**s)).collect()),
        Some(name) => match all.into_iter().find(|(p, _)| *p.name == **name) {
            Some((p, s)) => Ok(vec![(p.puid, s)]),
            None => Err(c.error("Can't find backend.\n")),
        },
    }
}

fn addr_and_port(s: &ServerState) -> (String, u16) {
    match &**s.addr.load() {
        PeerAddr::Ip { ip, port } => {
            let port = if let PortSpec::Fixed(p) = port { *p } else { 0 };
            (ip.to_string(), port)
        }
        PeerAddr::Unix(path) => (format!("unix@{path}"), 0),
        PeerAddr::Abstract { name, .. } => (format!("abns@{name}"), 0),
        _ => ("-".into(), 0),
    }
}

fn servers_state(c: &mut Call<'_>) -> String {
    let list = match backends(c) {
        Ok(l) => l,
        Err(e) => return e,
    };
    let now_ms = c.host.now().mono_us / 1000;
    let mut out = "1\n# be_id be_name srv_id srv_name srv_addr srv_op_state srv_admin_state srv_uweight srv_iweight srv_time_since_last_change srv_check_status srv_check_result srv_check_health srv_check_state srv_agent_state bk_f_forced_id srv_f_forced_id srv_fqdn srv_port srvrecord srv_use_ssl srv_check_port srv_check_addr srv_agent_addr srv_agent_port\n".to_string();
    for (puid, p) in list {
        for s in &p.servers {
            let (addr, port) = addr_and_port(s);
            let h = s.health.lock().unwrap_or_else(PoisonError::into_inner);
            let since = now_ms.saturating_sub(s.last_change_ms.load(Relaxed)) / 1000;
            let result = match h.last.status {
                _ if s.check_probe.running.load(Relaxed) => 0,
                CheckStatus::Unknown | CheckStatus::Init => 0,
                CheckStatus::L7OkCond => 4,
                s if s.passed() => 3,
                _ => 2,
            };
            let maint = s.admin() & admin::MAINT != 0;
            let check_state = probe_state(s.conf.check.enabled, pauses(s), &s.check_probe);
            let agent_state = match probe_state(s.conf.agent.enabled, false, &s.agent_probe) {
                0 => 0,
                on => on | AGENT,
            };
            let fqdn = s
                .conf
                .hostname
                .as_deref()
                .filter(|h| h.parse::<std::net::IpAddr>().is_err())
                .unwrap_or("-");
            let _ = writeln!(
                out,
                "{puid} {} {} {} {addr} {} {} {} {} {since} {} {result} {} {check_state} {agent_state} 0 0 {fqdn} {port} - 0 {} {} {} {}",
                p.name,
                s.conf.id,
                s.name,
                if maint { 0 } else { s.op() as u8 },
                s.admin(),
                s.user_weight.load(Relaxed),
                s.conf.weight,
                h.last.status.number(),
                h.counter,
                asked_port(s.conf.check.port, &s.check_probe),
                asked_addr(s.conf.check.addr.as_ref().and_then(ip_of), &s.check_probe),
                asked_addr(
                    s.conf
                        .agent
                        .addr
                        .or(s.conf.check.addr.as_ref().and_then(ip_of)),
                    &s.agent_probe
                ),
                asked_port(s.conf.agent.port.or(s.conf.check.port), &s.agent_probe),
            );
        }
    }
    out
}

/// Bits of `srv_check_state` and `srv_agent_state` (management guide 9.3 `show servers state`).
const RUNNING: u8 = 0x01;
const CONFIGURED: u8 = 0x02;
const ENABLED: u8 = 0x04;
const PAUSED: u8 = 0x08;
const AGENT: u8 = 0x10;

/// Whether maintenance keeps a server from being checked; one that was added is not checked until that is enabled.
fn pauses(s: &ServerState) -> bool {
    let waits = s.is_dynamic && s.check_probe.paused.load(Relaxed);
    s.admin() & admin::CONFIG_MAINT != 0
        || (s.admin() & admin::MAINT != 0 && s.conf.check.enabled && !waits)
}

fn probe_state(configured: bool, maint: bool, probe: &Probing) -> u8 {
    let pause = if maint { PAUSED } else { 0 };
    let running = if probe.running.load(Relaxed) {
        RUNNING
    } else {
        0
    };
    match (configured, probe.paused.load(Relaxed)) {
        (false, _) => pause,
        (true, true) => CONFIGURED | pause | running,
        (true, false) => CONFIGURED | ENABLED | pause | running,
    }
}

fn ip_of(addr: &PeerAddr) -> Option<std::net::IpAddr> {
    match addr {
        PeerAddr::Ip { ip, .. } => Some(*ip),
        _ => None,
    }
}

fn asked_addr(configured: Option<std::net::IpAddr>, probe: &Probing) -> String {
    let addr = probe.addr.load_full().map(|ip| *ip).or(configured);
    addr.map_or("-".into(), |ip| ip.to_string())
}

fn asked_port(configured: Option<u16>, probe: &Probing) -> u16 {
    match probe.port.load(Relaxed) {
        0 => configured.unwrap_or(0),
        port => port,
    }
}

fn servers_conn(c: &mut Call<'_>) -> String {
    let list = match backends(c) {
        Ok(l) => l,
        Err(e) => return e,
    };
    let mut out = format!(
        "# bkname/svname bkid/svid addr port - purge_delay used_cur used_max need_est unsafe_nb safe_nb idle_lim idle_cur idle_per_thr[{}]\n",
        c.rt().workers
    );
    let workers = c.host.workers();
    for (puid, p) in list {
        for s in &p.servers {
            let (addr, port) = addr_and_port(s);
            let idle = s.idle.total();
            // those that carried a second request are known to survive being kept
            let kept = workers.iter().flat_map(|w| &w.idle);
            let safe: u32 = kept.filter(|k| k.server == s.id).map(|k| k.reused).sum();
            let _ = write!(
                out,
                "{}/{} {puid}/{} {addr} {port} - {} {} {} {} {} {safe} {} {idle}",
                p.name,
                s.name,
                s.conf.id,
                s.conf.pool_purge_delay_ms,
                s.counters.sessions.now(),
                s.idle.most().max(s.counters.sessions.now()),
                s.idle.needed(),
                idle.saturating_sub(safe),
                s.conf.pool_max_conn.unwrap_or(-1),
            );
            (0..c.rt().workers).for_each(|w| _ = write!(out, " {}", s.idle.at(w)));
            out.push('\n');
        }
    }
    out
}

fn show_env(c: &mut Call<'_>) -> String {
    // as the configuration left it: with `HAPROXY_LOCALPEER` and its like, and what `setenv` made of it
    let env = &c.rt().model.global.env;
    match c.args.first() {
        Some(name) => match env.iter().find(|(k, _)| k == name) {
            Some((_, v)) => format!("{name}={v}\n"),
            None => c.error("Variable not found\n"),
        },
        None => env.iter().map(|(k, v)| format!("{k}={v}\n")).collect(),
    }
}

fn show_events(c: &mut Call<'_>) -> String {
    let Some(name) = c.args.first() else {
        let mut out =
            "Supported events sinks are listed below. Add -w(wait), -n(new). Any key to stop\n"
                .to_string();
        let mut sink = |name: &str, kind: &str, text: &str| {
            let _ = writeln!(out, "    {name:<11}: type={kind}, 0 dropped, {text}");
        };
        sink("stdout", "fd", "standard output (fd#1)");
        sink("stderr", "fd", "standard output (fd#2)");
        sink("buf0", "buffer", "in-memory ring buffer");
        for r in &c.host.runtime().model.rings {
            sink(&r.name, "buffer", r.description.as_deref().unwrap_or(""));
        }
        return out;
    };
    if *name == "stdout" || *name == "stderr" {
        return c.error("Nothing to report for this sink");
    }
    let Some(flags) = event_flags(&c.args[1..]) else {
        return c.error("unknown option");
    };
    match c.host.ring(name) {
        Some(_) if flags.only_new => String::new(),
        Some(lines) => lines
            .iter()
            .map(|l| String::from_utf8_lossy(l).into_owned())
            .collect(),
        None => c.error("No such event sink"),
    }
}

/// `-w` and `-n` of `show events`.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct EventFlags {
    /// Goes on with what comes, until the client says something.
    pub wait: bool,
    /// Begins at the end of the ring.
    pub only_new: bool,
}

fn event_flags(args: &[&str]) -> Option<EventFlags> {
    let mut flags = EventFlags::default();
    for arg in args {
        match *arg {
            "-w" => flags.wait = true,
            "-n" => flags.only_new = true,
            "-wn" | "-nw" => {
                flags = EventFlags {
                    wait: true,
                    only_new: true,
                };
            }
            _ => return None,
        }
    }
    Some(flags)
}

/// The ring that a command asks to follow (`show events <sink> -w`), for the shell that has the connection.
pub fn followed(command: &str, level: CliLevel) -> Option<(&str, EventFlags)> {
    let mut words = command.split_whitespace();
    if (words.next(), words.next()) != (Some("show"), Some("events")) || level < CliLevel::Operator
    {
        return None;
    }
    let name = words.next()?;
    let rest: Vec<&str> = words.collect();
    let flags = event_flags(&rest).filter(|f| f.wait)?;
    Some((name, flags))
}

fn cli_sockets(c: &mut Call<'_>) -> String {
    let mut out = "# socket lvl processes\n".to_string();
    for s in &c.host.runtime().model.global.stats_sockets {
        for a in &s.addrs {
            let _ = writeln!(out, "{} {} all", socket_name(a), super::level_name(s.level));
        }
    }
    out
}

fn socket_name(a: &sluice_config::model::ListenAddr) -> String {
    use sluice_config::model::ListenAddr as L;
    match a {
        L::Tcp(a) => a.to_string(),
        L::Unix(p) => format!("unix@{p}"),
        L::Abstract { name, .. } => format!("abns@{name}"),
        L::Fd(n) => format!("sockpair@{n}"),
    }
}

fn get_var(c: &mut Call<'_>) -> String {
    let Some(name) = c.args.first() else {
        return c.error("Missing process-wide variable identifier.\n");
    };
    match c.host.proc_var(name) {
        Some(v) => format!("{name}: type={v}"),
        None => c.error("Variable not found.\n"),
    }
}

/// `show schema json`: the shape of the two JSON outputs.
const SCHEMA: &str = concat!(
    "{\"$schema\":\"http://json-schema.org/draft-04/schema#\",\"oneOf\":[",
    "{\"title\":\"Info\",\"type\":\"array\",\"items\":{\"title\":\"InfoItem\",\"type\":\"object\",\"required\":[\"field\",\"processNum\",\"tags\",\"value\"]}},",
    "{\"title\":\"Stat\",\"type\":\"array\",\"items\":{\"title\":\"StatItem\",\"type\":\"array\",\"items\":{\"type\":\"object\",\"required\":[\"objType\",\"proxyId\",\"id\",\"field\",\"processNum\",\"tags\",\"value\"]}}}",
    "]}\n"
);
