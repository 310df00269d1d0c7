//! Commands that change servers, frontends and the process.

use std::sync::atomic::Ordering::Relaxed;

use sluice_config::model::{CliLevel, PeerAddr, PortSpec};
use sluice_engine::state::{OpState, WEIGHT_SCALE, admin};
use sluice_engine::{ProxyState, ServerState};

use super::{Call, Command};

pub const COMMANDS: &[Command] = &[
    Command {
        words: &["set", "server"],
        args: "<bk>/<srv> [opts]",
        help: "change a server's state, weight, address or ssl",
        level: CliLevel::Admin,
        run: set_server,
    },
    Command {
        words: &["set", "weight"],
        args: "<bk>/<srv>  (DEPRECATED)",
        help: "change a server's weight (use 'set server' instead)",
        level: CliLevel::Admin,
        run: set_weight,
    },
    Command {
        words: &["enable", "server"],
        args: "(DEPRECATED)",
        help: "enable a disabled server (use 'set server' instead)",
        level: CliLevel::Admin,
        run: |c| with_server(c, |c, p, s| state(c, p, s, "ready")),
    },
    Command {
        words: &["disable", "server"],
        args: "(DEPRECATED)",
        help: "disable a server for maintenance (use 'set server' instead)",
        level: CliLevel::Admin,
        run: |c| with_server(c, |c, p, s| state(c, p, s, "maint")),
    },
    Command {
        words: &["set", "maxconn", "server"],
        args: "<bk>/<srv> <value>",
        help: "change a server's maxconn setting",
        level: CliLevel::Admin,
        run: maxconn_server,
    },
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
        words: &["enable", "frontend"],
        args: "<frontend>",
        help: "re-enable specific frontend",
        level: CliLevel::Admin,
        run: |c| frontend(c, |p| p.disabled.store(false, Relaxed)),
    },
    Command {
        words: &["disable", "frontend"],
        args: "<frontend>",
        help: "temporarily disable specific frontend",
        level: CliLevel::Admin,
        run: |c| frontend(c, |p| p.disabled.store(true, Relaxed)),
    },
    Command {
        words: &["shutdown", "sessions", "server"],
        args: "<bk>/<srv>",
        help: "kill sessions on a server",
        level: CliLevel::Admin,
        run: |c| {
            with_server(c, |_, _, s| {
                s.shutdown_epoch.fetch_add(1, Relaxed);
                String::new()
            })
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

/// The server a `<bk>/<srv>` argument names.
pub fn find<'a>(c: &'a Call<'_>) -> Result<(&'a ProxyState, &'a ServerState), String> {
    let Some(name) = c.args.first() else {
        return Err("Require 'backend/server'.\n".into());
    };
    let (backend, server) = name.split_once('/').ok_or("Require 'backend/server'.\n")?;
    let rt = c.host.runtime();
    let is_backend =
        |p: &&std::sync::Arc<ProxyState>| *p.name == *backend && rt.model.proxy(p.id).is_backend();
    let p = rt
        .proxies
        .iter()
        .find(is_backend)
        .ok_or("No such backend.\n")?;
    let s = p
        .servers
        .iter()
        .find(|s| *s.name == *server)
        .ok_or("No such server.\n")?;
    Ok((p, s))
}

fn with_server(
    c: &mut Call<'_>,
    act: fn(&Call<'_>, &ProxyState, &ServerState) -> String,
) -> String {
    match find(c) {
        Ok((p, s)) => act(c, p, s),
        Err(e) => e,
    }
}

fn set_server(c: &mut Call<'_>) -> String {
    let (p, s) = match find(c) {
        Ok(found) => found,
        Err(e) => return e,
    };
    match c.args.get(1..).unwrap_or_default() {
        ["state", to @ ..] => state(c, p, s, to.first().unwrap_or(&"")),
        ["weight", to @ ..] => weight(c, p, s, to.first().unwrap_or(&"")),
        ["addr", addr, rest @ ..] => address(s, addr, rest),
        ["health", to @ ..] => health(c, p, s, to.first().unwrap_or(&"")),
        ["check-port", port, ..] => match port.parse::<u16>() {
            Ok(_) if !s.conf.check.enabled => "Health checks are not enabled on this server.\n".into(),
            Ok(_) => "Changing the port of checks is not implemented by Sluice yet.\n".into(),
            Err(_) => "Invalid port.\n".into(),
        },
        [what @ ("agent" | "agent-addr" | "agent-port" | "agent-send" | "check-addr" | "fqdn" | "ssl"), ..] => {
            format!("'set server {what}' is not implemented by Sluice yet.\n")
        }
        _ => "usage: set server <backend>/<server> addr | agent | agent-addr | agent-port | agent-send | check-addr | check-port | fqdn | health | ssl | state | weight\n".into(),
    }
}

/// `ready`, `drain`, `maint`.
fn state(c: &Call<'_>, p: &ProxyState, s: &ServerState, to: &str) -> String {
    match to {
        "ready" => s.change_admin(
            0,
            admin::FORCED_MAINT | admin::FORCED_DRAIN | admin::CONFIG_MAINT,
        ),
        "drain" => s.change_admin(
            admin::FORCED_DRAIN,
            admin::FORCED_MAINT | admin::CONFIG_MAINT,
        ),
        "maint" => {
            s.change_admin(admin::FORCED_MAINT, 0);
            s.queue.wake_all();
        }
        _ => return "'set server <srv> state' expects 'ready', 'drain' and 'maint'.\n".into(),
    }
    changed(c, p, s);
    String::new()
}

/// After a change of state or weight: balancing, followers, waiting requests.
fn changed(c: &Call<'_>, p: &ProxyState, s: &ServerState) {
    p.state_changed();
    let rt = c.host.runtime();
    let own = format!("{}/{}", p.name, s.name);
    for q in &rt.proxies {
        for t in q.servers.iter().filter(|t| {
            t.conf
                .track
                .as_ref()
                .is_some_and(|n| *n == own || (q.id == p.id && **n == *s.name))
        }) {
            let (maint, drain) = (s.admin() & admin::MAINT != 0, s.admin() & admin::DRAIN != 0);
            let flags = |on: bool, flag: u8| if on { (flag, 0) } else { (0, flag) };
            let (m, d) = (
                flags(maint, admin::INHERITED_MAINT),
                flags(drain, admin::INHERITED_DRAIN),
            );
            t.change_admin(m.0 | d.0, m.1 | d.1);
            q.state_changed();
            c.host.kick(q.id);
        }
    }
    c.host.kick(p.id);
    if p.usable_servers() == 0 {
        p.queue.wake_all();
    }
}

fn set_weight(c: &mut Call<'_>) -> String {
    match find(c) {
        Ok((p, s)) => weight(c, p, s, c.args.get(1).unwrap_or(&"")),
        Err(e) => e,
    }
}

/// A number 0..256, or a percentage of the configured weight.
fn weight(c: &Call<'_>, p: &ProxyState, s: &ServerState, text: &str) -> String {
    let new = match text.strip_suffix('%') {
        Some(percent) => percent
            .parse::<u32>()
            .ok()
            .map(|n| (n * s.conf.weight).div_ceil(100)),
        None => text.parse::<u32>().ok(),
    };
    let Some(new) = new else {
        return "Require <weight> or <weight%>.\n".into();
    };
    if new > 256 {
        return "Absolute weight can only be between 0 and 256 inclusive.\n".into();
    }
    s.user_weight.store(new, Relaxed);
    s.effective_weight.store(new * WEIGHT_SCALE, Relaxed);
    changed(c, p, s);
    String::new()
}

fn address(s: &ServerState, addr: &str, rest: &[&str]) -> String {
    let port = match rest {
        ["port", port, ..] => match port.parse::<u16>() {
            Ok(p) => Some(p),
            Err(_) => return "Invalid port.\n".into(),
        },
        _ => None,
    };
    let before = s.addr.load_full();
    let (old_ip, old_port) = match &*before {
        PeerAddr::Ip { ip, port } => (Some(*ip), *port),
        PeerAddr::Unresolved { port, .. } => (None, *port),
        _ => return "This server's address cannot be changed.\n".into(),
    };
    let Ok(ip) = addr.parse::<std::net::IpAddr>() else {
        return format!("Invalid addr format: '{addr}'.\n");
    };
    let new_port = port.map_or(old_port, PortSpec::Fixed);
    s.addr
        .store(std::sync::Arc::new(PeerAddr::Ip { ip, port: new_port }));
    s.change_admin(0, admin::RESOLUTION_MAINT);
    let mut said = Vec::new();
    match old_ip {
        Some(old) if old == ip => said.push("no need to change the addr".to_string()),
        Some(old) => said.push(format!("IP changed from '{old}' to '{ip}'")),
        None => said.push(format!("IP changed from '-' to '{ip}'")),
    }
    if let Some(p) = port {
        match old_port {
            PortSpec::Fixed(old) if old == p => said.push("no need to change the port".into()),
            PortSpec::Fixed(old) => said.push(format!("port changed from '{old}' to '{p}'")),
            _ => said.push(format!("port changed to '{p}'")),
        }
    }
    format!("{} by 'stats socket command'\n", said.join(", "))
}

fn health(c: &Call<'_>, p: &ProxyState, s: &ServerState, to: &str) -> String {
    if s.conf.track.is_some() {
        return "cannot change health on a tracking server.\n".into();
    }
    {
        let mut h = s
            .health
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        h.counter = match to {
            "up" | "stopping" => h.rise + h.fall - 1,
            "down" => 0,
            _ => return "'set server <srv> health' expects 'up', 'stopping', or 'down'.\n".into(),
        };
    }
    s.set_op(match to {
        "up" => OpState::Running,
        "stopping" => OpState::Stopping,
        _ => OpState::Stopped,
    });
    changed(c, p, s);
    String::new()
}

fn number(text: Option<&&str>) -> Option<u32> {
    text.and_then(|t| t.parse().ok())
}

fn maxconn_server(c: &mut Call<'_>) -> String {
    let (p, s) = match find(c) {
        Ok(found) => found,
        Err(e) => return e,
    };
    let Some(n) = number(c.args.get(1)) else {
        return "Integer value expected.\n".into();
    };
    s.maxconn.store(n, Relaxed);
    if s.conf.minconn == s.conf.maxconn {
        s.minconn.store(n, Relaxed);
    }
    c.host.kick(p.id);
    String::new()
}

/// The frontend an argument names, given to `act`.
fn frontend(c: &mut Call<'_>, act: impl FnOnce(&ProxyState)) -> String {
    let Some(name) = c.args.first() else {
        return "A frontend name is expected.\n".into();
    };
    let rt = c.host.runtime();
    match rt
        .proxies
        .iter()
        .find(|p| *p.name == **name && rt.model.proxy(p.id).is_frontend())
    {
        Some(p) => {
            act(p);
            String::new()
        }
        None => "No such frontend.\n".into(),
    }
}

fn maxconn_frontend(c: &mut Call<'_>) -> String {
    let Some(n) = number(c.args.get(1)) else {
        return "Integer value expected.\n".into();
    };
    frontend(c, |p| p.fe_maxconn.store(n, Relaxed))
}

fn maxconn_global(c: &mut Call<'_>) -> String {
    match number(c.args.first()) {
        Some(0) => {
            let rt = c.host.runtime();
            rt.maxconn.store(
                rt.model.global.maxconn.unwrap_or(rt.maxconn.load(Relaxed)),
                Relaxed,
            );
            String::new()
        }
        Some(n) => {
            c.host.runtime().maxconn.store(n, Relaxed);
            String::new()
        }
        None => "Expects an integer value.\n".into(),
    }
}

fn clear_counters(c: &mut Call<'_>) -> String {
    let all = c.args.first() == Some(&"all");
    if all && c.session.level < CliLevel::Admin {
        return "Permission denied\n".into();
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
    let (Some(name), Some(value)) = (c.args.first(), c.args.get(1)) else {
        return "Missing variable name or value.\n".into();
    };
    let text = value
        .strip_prefix("str(")
        .and_then(|v| v.strip_suffix(')'))
        .or_else(|| value.strip_prefix("int(").and_then(|v| v.strip_suffix(')')));
    match text {
        Some(v) if c.host.set_proc_var(name, Some(v)) => String::new(),
        Some(_) => "Failed to set the variable.\n".into(),
        None => "Only str() and int() are taken here; other expressions are not implemented by Sluice yet.\n".into(),
    }
}
