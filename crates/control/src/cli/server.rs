//! Commands that change servers. What a change does is decided in `sluice_engine::admin`; here are the words.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use sluice_config::model::{CliLevel, PeerAddr, PortSpec};
use sluice_engine::admin::{AdminState, Told};
use sluice_engine::state::{Probing, admin};
use sluice_engine::{Runtime, ServerState};
use sluice_expr::ServerId;

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
        run: |c| with_server(c, |c, s| weight(c, s, c.arg(1))),
    },
    Command {
        words: &["get", "weight"],
        args: "<bk>/<srv>",
        help: "report a server's current weight",
        level: CliLevel::User,
        run: |c| with_server(c, get_weight),
    },
    Command {
        words: &["enable", "server"],
        args: "(DEPRECATED)",
        help: "enable a disabled server (use 'set server' instead)",
        level: CliLevel::Admin,
        run: |c| {
            with_server(c, |c, s| {
                // only the maintenance ends: a drain stays
                c.rt().end_maintenance(s.id, c.now_ms());
                String::new()
            })
        },
    },
    Command {
        words: &["disable", "server"],
        args: "(DEPRECATED)",
        help: "disable a server for maintenance (use 'set server' instead)",
        level: CliLevel::Admin,
        run: |c| with_server(c, |c, s| state(c, s, "maint")),
    },
    Command {
        words: &["enable", "health"],
        args: "",
        help: "enable health checks",
        level: CliLevel::Admin,
        run: |c| with_server(c, |c, s| checks(c, s, true)),
    },
    Command {
        words: &["disable", "health"],
        args: "",
        help: "disable health checks",
        level: CliLevel::Admin,
        run: |c| with_server(c, |c, s| checks(c, s, false)),
    },
    Command {
        words: &["enable", "agent"],
        args: "",
        help: "enable agent checks",
        level: CliLevel::Admin,
        run: |c| with_server(c, |c, s| agent_checks(c, s, true)),
    },
    Command {
        words: &["disable", "agent"],
        args: "",
        help: "disable agent checks",
        level: CliLevel::Admin,
        run: |c| with_server(c, |c, s| agent_checks(c, s, false)),
    },
    Command {
        words: &["set", "maxconn", "server"],
        args: "<bk>/<srv>",
        help: "change a server's maxconn setting",
        level: CliLevel::Admin,
        run: |c| with_server(c, maxconn),
    },
    Command {
        words: &["shutdown", "sessions", "server"],
        args: "<bk>/<srv>",
        help: "kill sessions on a server",
        level: CliLevel::Admin,
        run: |c| {
            with_server(c, |c, s| {
                c.rt().shutdown_sessions(s.id, b'K');
                String::new()
            })
        },
    },
];

/// The server a `<bk>/<srv>` argument names, by names or by `#<id>`.
pub(super) fn find(c: &Call<'_>) -> Result<ServerId, &'static str> {
    const NEEDED: &str = "Require 'backend/server'.\n";
    let (backend, server) = c.arg(0).split_once('/').ok_or(NEEDED)?;
    if backend.is_empty() || server.is_empty() {
        return Err(NEEDED);
    }
    let rt = c.rt();
    let number = |name: &str| name.strip_prefix('#').and_then(|n| n.parse::<u32>().ok());
    let p = rt
        .model
        .proxies
        .iter()
        .filter(|p| p.is_backend())
        .find(|p| *p.name == *backend || number(backend) == Some(p.puid))
        .ok_or("No such backend.\n")?;
    let s = rt
        .proxy(p.id)
        .servers
        .iter()
        .find(|s| *s.name == *server || number(server) == Some(s.conf.id))
        .ok_or("No such server.\n")?;
    Ok(s.id)
}

fn with_server(c: &mut Call<'_>, act: fn(&Call<'_>, &Arc<ServerState>) -> String) -> String {
    match find(c) {
        Ok(id) => {
            let rt: &Runtime = c.host.runtime();
            act(c, rt.server(id))
        }
        Err(e) => c.error(e),
    }
}

const USAGE: &str = "usage: set server <backend>/<server> addr | agent | agent-addr | agent-port | agent-send | check-addr | check-port | fqdn | health | ssl | state | weight\n";

fn set_server(c: &mut Call<'_>) -> String {
    with_server(c, |c, s| match c.arg(1) {
        "state" => state(c, s, c.arg(2)),
        "weight" => weight(c, s, c.arg(2)),
        "addr" => address(c, s),
        "health" => health(c, s, c.arg(2)),
        "agent" => agent(c, s, c.arg(2)),
        "agent-addr" => probe_addr(c, s, "agent-addr", s.conf.agent.enabled, &s.agent_probe),
        "agent-port" => probe_port(c, s, "agent-port", s.conf.agent.enabled, &s.agent_probe),
        "agent-send" => agent_send(c, s),
        "check-addr" => probe_addr(c, s, "check-addr", s.conf.check.enabled, &s.check_probe),
        "check-port" => probe_port(c, s, "check-port", s.conf.check.enabled, &s.check_probe),
        "fqdn" if c.arg(2).is_empty() => c.error("set server <b>/<s> fqdn requires a FQDN.\n"),
        "fqdn" => c.error("set server <b>/<s> fqdn failed because no resolution is configured.\n"),
        "ssl" => c.error(
            "'set server <srv> ssl' cannot be set.  default-server should define ssl settings\n",
        ),
        _ => c.error(USAGE),
    })
}

/// `ready`, `drain`, `maint`.
fn state(c: &Call<'_>, s: &ServerState, to: &str) -> String {
    let to = match to {
        "ready" => AdminState::Ready,
        "drain" => AdminState::Drain,
        "maint" => AdminState::Maint,
        _ => return c.error("'set server <srv> state' expects 'ready', 'drain' and 'maint'.\n"),
    };
    c.rt().set_admin(s.id, to, c.now_ms());
    String::new()
}

/// A number 0..256, or a percentage of the configured weight.
fn weight(c: &Call<'_>, s: &ServerState, text: &str) -> String {
    match c.rt().set_weight(s.id, text, c.now_ms()) {
        Ok(()) => String::new(),
        Err(e) => c.error(&e.to_string()),
    }
}

fn get_weight(_: &Call<'_>, s: &Arc<ServerState>) -> String {
    let now = s.user_weight.load(Relaxed);
    format!("{now} (initial {})\n", s.conf.weight)
}

fn health(c: &Call<'_>, s: &ServerState, to: &str) -> String {
    if s.conf.track.is_some() {
        return c.error("cannot change health on a tracking server.\n");
    }
    let to = match to {
        "up" => Told::Up,
        "stopping" => Told::Stopping,
        "down" => Told::Down,
        _ => return c.error("'set server <srv> health' expects 'up', 'stopping', or 'down'.\n"),
    };
    c.rt().set_health(s.id, to, c.now_ms());
    String::new()
}

const NO_AGENT: &str = "agent checks are not enabled on this server.\n";

fn agent(c: &Call<'_>, s: &ServerState, to: &str) -> String {
    if !s.conf.agent.enabled || s.agent_probe.paused.load(Relaxed) {
        return c.error(NO_AGENT);
    }
    let up = match to {
        "up" => true,
        "down" => false,
        _ => return c.error("'set server <srv> agent' expects 'up' or 'down'.\n"),
    };
    c.rt().set_agent(s.id, up, c.now_ms());
    String::new()
}

fn agent_send(c: &Call<'_>, s: &ServerState) -> String {
    if !s.conf.agent.enabled {
        return c.error(NO_AGENT);
    }
    s.agent_send.store(Some(Arc::new(c.arg(2).to_owned())));
    String::new()
}

/// `check-addr`, `agent-addr`: an address, and a port perhaps.
fn probe_addr(c: &Call<'_>, s: &ServerState, what: &str, enabled: bool, probe: &Probing) -> String {
    if c.arg(2).is_empty() {
        return c.error(&format!(
            "set server <b>/<s> {what} requires an address and optionally a port.\n"
        ));
    }
    if !enabled {
        return c.error(not_asked(what));
    }
    let Ok(ip) = c.arg(2).parse::<IpAddr>() else {
        return c.error("invalid addr format");
    };
    if c.arg(3) == "port" {
        let said = probe_port_of(c, c.arg(4), probe);
        if !said.is_empty() {
            return said;
        }
    }
    let _ = s;
    probe.addr.store(Some(Arc::new(ip)));
    String::new()
}

fn probe_port(c: &Call<'_>, _: &ServerState, what: &str, enabled: bool, probe: &Probing) -> String {
    if c.arg(2).is_empty() {
        return c.error(&format!("set server <b>/<s> {what} requires a port.\n"));
    }
    if !enabled {
        return c.error(not_asked(what));
    }
    probe_port_of(c, c.arg(2), probe)
}

fn not_asked(what: &str) -> &'static str {
    match what.starts_with("agent") {
        true => "agent checks are not enabled on this server",
        false => "health checks are not enabled on this server",
    }
}

fn probe_port_of(c: &Call<'_>, text: &str, probe: &Probing) -> String {
    match text.parse::<i64>() {
        Err(_) => c.error("provided port is not an integer"),
        Ok(port) => match u16::try_from(port) {
            Ok(port @ 1..) => {
                probe.port.store(port, Relaxed);
                String::new()
            }
            _ => c.error("provided port is invalid"),
        },
    }
}

/// `addr <ip> [port <port>]`
fn address(c: &Call<'_>, s: &ServerState) -> String {
    const BY: &str = "by 'stats socket command'\n";
    if c.arg(2).is_empty() {
        return c.error("set server <b>/<s> addr requires an address and optionally a port.\n");
    }
    let Ok(ip) = c.arg(2).parse::<IpAddr>() else {
        return c.warning(&format!("Invalid addr '{}' {BY}", c.arg(2)));
    };
    let before = s.addr.load_full();
    let (old_ip, old_port) = match &*before {
        PeerAddr::Ip { ip, port } => (Some(*ip), *port),
        PeerAddr::Unresolved { port, .. } => (None, *port),
        _ => return c.warning(&format!("Invalid addr '{}' {BY}", c.arg(2))),
    };
    let mut said = Vec::new();
    match old_ip {
        Some(old) if old == ip => said.push("no need to change the addr".to_string()),
        Some(old) => said.push(format!("IP changed from '{old}' to '{ip}'")),
        None => said.push(format!("IP changed from '-' to '{ip}'")),
    }
    let mut new_port = old_port;
    if c.arg(3) == "port" {
        let text = c.arg(4);
        let number = text.trim_start_matches('+').parse::<i64>().ok();
        match number.map(|n| (n, text.starts_with(['+', '-']))) {
            None => said.push(format!("problem converting port '{text}' to an int")),
            Some((_, true)) if s.conf.check.port.is_none() => {
                said.push("can't change <port> to port map because it is incompatible with current health check port configuration (use 'port' statement from the 'server' directive.".into());
            }
            Some((n, true)) => {
                new_port = PortSpec::Offset(n as i32);
                said.push(format!("port changed to '{text}'"));
            }
            Some((n, false)) => {
                let port = n as u16;
                new_port = PortSpec::Fixed(port);
                said.push(match old_port {
                    PortSpec::Fixed(old) if old == port => "no need to change the port".into(),
                    PortSpec::Fixed(old) => format!("port changed from '{old}' to '{port}'"),
                    _ => format!("port changed to '{port}'"),
                });
            }
        }
    }
    s.addr.store(Arc::new(PeerAddr::Ip { ip, port: new_port }));
    c.rt().proxy(s.id.backend).refresh_cookies();
    if s.admin() & admin::RESOLUTION_MAINT != 0 {
        c.rt().resolved(s.id, c.now_ms());
    }
    c.warning(&format!("{} {BY}", said.join(", ")))
}

fn checks(c: &Call<'_>, s: &ServerState, on: bool) -> String {
    if !s.conf.check.enabled {
        return match on {
            true => c.error("Health check was not configured on this server, cannot enable.\n"),
            false => String::new(),
        };
    }
    s.check_probe.paused.store(!on, Relaxed);
    String::new()
}

fn agent_checks(c: &Call<'_>, s: &ServerState, on: bool) -> String {
    if !s.conf.agent.enabled {
        return match on {
            true => c.error("Agent was not configured on this server, cannot enable.\n"),
            false => String::new(),
        };
    }
    s.agent_probe.paused.store(!on, Relaxed);
    String::new()
}

fn maxconn(c: &Call<'_>, s: &Arc<ServerState>) -> String {
    match c.rt().set_maxconn_text(s.id, c.arg(1)) {
        Ok(()) => String::new(),
        Err(e) => c.error(&e.to_string()),
    }
}
