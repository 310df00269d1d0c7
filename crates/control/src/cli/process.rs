//! Commands that change frontends and the process.

use std::sync::atomic::Ordering::Relaxed;

use sluice_config::model::CliLevel;
use sluice_engine::ProxyState;

use super::{Call, Command, NOTICE};

pub const COMMANDS: &[Command] = &[
    Command {
        words: &["set", "maxconn", "frontend"],
        args: "<frontend> <value>",
        help: "change a frontend's maxconn setting",
        level: CliLevel::Admin,
        run: maxconn_frontend,
    },
    Command {
        words: &["set", "maxconn", "global"],
        args: "<value>",
        help: "change the per-process maxconn setting",
        level: CliLevel::Admin,
        run: maxconn_global,
    },
    Command {
        words: &["set", "rate-limit"],
        args: "<setting> <value>",
        help: "change a rate limiting value",
        level: CliLevel::Admin,
        run: rate_limit,
    },
    Command {
        words: &["enable", "frontend"],
        args: "<frontend>",
        help: "re-enable specific frontend",
        level: CliLevel::Admin,
        run: |c| match frontend(c) {
            Ok(p) if p.stopped.load(Relaxed) => {
                c.error("Frontend was previously shut down, cannot enable.\n")
            }
            Ok(p) if !p.disabled.swap(false, Relaxed) => {
                c.say(NOTICE, "All sockets are already enabled.\n")
            }
            Ok(_) => String::new(),
            Err(e) => c.error(e),
        },
    },
    Command {
        words: &["disable", "frontend"],
        args: "<frontend>",
        help: "temporarily disable specific frontend",
        level: CliLevel::Admin,
        run: |c| match frontend(c) {
            Ok(p) if p.stopped.load(Relaxed) => {
                c.error("Frontend was previously shut down, cannot disable.\n")
            }
            Ok(p) if p.disabled.swap(true, Relaxed) => {
                c.say(NOTICE, "All sockets are already disabled.\n")
            }
            Ok(_) => String::new(),
            Err(e) => c.error(e),
        },
    },
    Command {
        words: &["publish", "backend"],
        args: "<bk>",
        help: "let content switching choose a backend",
        level: CliLevel::Admin,
        run: |c| publish(c, true),
    },
    Command {
        words: &["unpublish", "backend"],
        args: "<bk>",
        help: "let content switching pass a backend by",
        level: CliLevel::Admin,
        run: |c| publish(c, false),
    },
    Command {
        words: &["enable", "dynamic-cookie", "backend"],
        args: "<bk>",
        help: "enable dynamic cookies on a specific backend",
        level: CliLevel::Admin,
        run: |c| cookies(c, |p| p.dynamic_cookies.turn(true)),
    },
    Command {
        words: &["disable", "dynamic-cookie", "backend"],
        args: "<bk>",
        help: "disable dynamic cookies on a specific backend",
        level: CliLevel::Admin,
        run: |c| cookies(c, |p| p.dynamic_cookies.turn(false)),
    },
    Command {
        words: &["set", "dynamic-cookie-key", "backend"],
        args: "<bk> <k>",
        help: "change a backend secret key for dynamic cookies",
        level: CliLevel::Admin,
        run: |c| match c.arg(1) {
            "" if backend(c).is_ok() => c.error("String value expected.\n"),
            key => cookies(c, |p| p.dynamic_cookies.set_key(key)),
        },
    },
    Command {
        words: &["clear", "counters"],
        args: "[all]",
        help: "clear max statistics counters (or all counters)",
        level: CliLevel::Operator,
        run: clear_counters,
    },
    Command {
        words: &["set", "var"],
        args: "<name> <expression>",
        help: "set variable from an expression",
        level: CliLevel::Admin,
        run: set_var,
    },
];

/// The frontend an argument names.
pub(super) fn frontend<'a>(c: &Call<'a>) -> Result<&'a ProxyState, &'static str> {
    if c.arg(0).is_empty() {
        return Err("A frontend name is expected.\n");
    }
    let rt = c.host.runtime();
    let p = rt
        .model
        .proxies
        .iter()
        .find(|p| p.is_frontend() && *p.name == *c.arg(0));
    p.map(|p| &**rt.proxy(p.id)).ok_or("No such frontend.\n")
}

/// The backend an argument names.
fn backend<'a>(c: &Call<'a>) -> Result<&'a ProxyState, &'static str> {
    if c.arg(0).is_empty() {
        return Err("A backend name is expected.\n");
    }
    let rt = c.host.runtime();
    let p = rt
        .model
        .proxies
        .iter()
        .find(|p| p.is_backend() && *p.name == *c.arg(0));
    p.map(|p| &**rt.proxy(p.id)).ok_or("No such backend.\n")
}

fn publish(c: &Call<'_>, on: bool) -> String {
    match backend(c) {
        Ok(p) => {
            p.unpublished.store(!on, Relaxed);
            c.say(
                NOTICE,
                if on {
                    "Backend published.\n"
                } else {
                    "Backend unpublished.\n"
                },
            )
        }
        Err(e) => c.error(e),
    }
}

/// Changes a backend's dynamic cookies.
fn cookies(c: &Call<'_>, act: impl FnOnce(&ProxyState)) -> String {
    match backend(c) {
        Ok(p) => {
            act(p);
            p.refresh_cookies();
            String::new()
        }
        Err(e) => c.error(e),
    }
}

/// A number as atoi(3) reads it: 0 for what is none.
fn atoi(text: &str) -> i64 {
    let end = text
        .char_indices()
        .find(|(i, c)| !(c.is_ascii_digit() || (*i == 0 && matches!(c, '-' | '+'))))
        .map_or(text.len(), |(i, _)| i);
    text[..end].parse().unwrap_or(0)
}

fn maxconn_frontend(c: &mut Call<'_>) -> String {
    let p = match frontend(c) {
        Ok(p) => p,
        Err(e) => return c.error(e),
    };
    if c.arg(1).is_empty() {
        return c.error("Integer value expected.\n");
    }
    match u32::try_from(atoi(c.arg(1))) {
        Ok(n) => {
            p.fe_maxconn.store(n, Relaxed);
            String::new()
        }
        Err(_) => c.error("Value out of range.\n"),
    }
}

fn maxconn_global(c: &mut Call<'_>) -> String {
    if c.arg(0).is_empty() {
        return c.error("Expects an integer value.\n");
    }
    let rt = c.host.runtime();
    let at_start = rt.maxconn_at_start;
    match u32::try_from(atoi(c.arg(0)).max(0)) {
        Ok(n) if n <= at_start => {
            rt.maxconn.store(if n == 0 { at_start } else { n }, Relaxed);
            String::new()
        }
        _ => c.error("Value out of range.\n"),
    }
}

const RATE_LIMITS: &str = "'set rate-limit' only supports :
   - 'connections global' to set the per-process maximum connection rate
   - 'sessions global' to set the per-process maximum session rate
   - 'ssl-sessions global' to set the per-process maximum SSL session rate
   - 'http-compression global' to set the per-process maximum compression speed in kB/s
";

fn rate_limit(c: &mut Call<'_>) -> String {
    let rt = c.host.runtime();
    let slot = match (c.arg(0), c.arg(1)) {
        ("connections", "global") => &rt.limits.conn_rate,
        ("sessions", "global") => &rt.limits.sess_rate,
        ("ssl-sessions" | "http-compression", "global") => {
            return c.error("This rate limit is not implemented by Sluice yet.\n");
        }
        _ => return c.error(RATE_LIMITS),
    };
    if c.arg(2).is_empty() {
        return c.error("Expects an integer value.\n");
    }
    match u32::try_from(atoi(c.arg(2))) {
        Ok(n) => {
            slot.store(n, Relaxed);
            String::new()
        }
        Err(_) => c.error("Value out of range.\n"),
    }
}

fn clear_counters(c: &mut Call<'_>) -> String {
    let all = c.arg(0) == "all";
    if all && c.session.level < CliLevel::Admin {
        return c.error("Permission denied\n");
    }
    let rt = c.host.runtime();
    for p in &rt.proxies {
        p.fe.clear(all);
        p.be.clear(all);
        p.servers.iter().for_each(|s| s.counters.clear(all));
    }
    rt.counters.conn_rate.reset_max();
    rt.counters.sess_rate.reset_max();
    String::new()
}

fn set_var(c: &mut Call<'_>) -> String {
    if !c.session.experimental {
        return c.error("This command is restricted to experimental mode only.\n");
    }
    let (name, value) = (c.arg(0), c.arg(1));
    if name.is_empty() || value.is_empty() {
        return c.error("Missing variable name or value.\n");
    }
    let inside = |kind: &str| value.strip_prefix(kind).and_then(|v| v.strip_suffix(')'));
    match inside("str(").or_else(|| inside("int(")) {
        Some(v) if c.host.set_proc_var(name, Some(v)) => String::new(),
        Some(_) => c.error("Failed to set the variable.\n"),
        None => c.error("Only str() and int() are taken here; other expressions are not implemented by Sluice yet.\n"),
    }
}
