//! What a proxy logs: targets and formats (manual chapter 8.2).

use sluice_expr::logformat as formats;
use sluice_expr::place::Place;
use sluice_expr::{LogFormat, Purpose};
use std::sync::Arc;

use super::Resolver;
use super::accounts::Accounts;
use crate::line::Line;
use crate::model::{
    Balance, Caps, LogFormatKind, LogForward, LogProfile, LogTarget, Logging, Mode, PeerAddr,
    PortSpec, Proxy, Ring, RingServer,
};
use crate::raw::{RawLog, RawLogFormat, RawProxy, Settings};

pub(super) fn is_clf(s: &Settings) -> bool {
    matches!(
        s.log_format,
        Some(RawLogFormat::Http { clf: true, .. } | RawLogFormat::Tcp { clf: true, .. })
    )
}

pub(super) fn build(
    resolver: &mut Resolver<'_>,
    index: usize,
    s: &Settings,
    live: bool,
) -> Option<Logging> {
    let raw = &resolver.raw.proxies[index];
    let targets = targets(resolver, &s.logs);
    let used = live && raw.is_frontend();
    if used && targets.is_empty() && s.log_format.is_some() {
        resolver.warn_plain(
            raw,
            format!(
                "log format ignored for {} '{}' since it has no log address.",
                raw.kind(),
                raw.name
            ),
        );
    }
    let format = match used {
        true => traffic_format(resolver, index, s),
        false => None,
    };
    let compile = |resolver: &mut Resolver<'_>, written: &Option<crate::line::Written>, purpose| {
        let written = written.as_ref().filter(|_| used)?;
        resolver.format(written, index, Place::LOG, purpose)
    };
    Some(Logging {
        profiled: targets.iter().any(|t| t.profile.is_some()),
        targets,
        error_format: compile(resolver, &s.error_log_format, Purpose::Log),
        sd_format: compile(resolver, &s.log_format_sd, Purpose::LogSd),
        // A format that is never written stands in where an error was reported, or where no line is made.
        format: format.or_else(|| resolver.built_in("", &raw.line))?,
        tag: s.log_tag.clone(),
        steps: s.log_steps,
        at_start: s.log_format.is_none(),
    })
}

/// The line of a stream. `None` after an error was reported.
fn traffic_format(resolver: &mut Resolver<'_>, index: usize, s: &Settings) -> Option<LogFormat> {
    let raw = &resolver.raw.proxies[index];
    let http = raw.mode() == Mode::Http || super::consistency::may_become_http(raw);
    match &s.log_format {
        Some(RawLogFormat::Custom(written)) => {
            resolver.format(written, index, Place::LOG, Purpose::Log)
        }
        Some(RawLogFormat::Http { line, .. } | RawLogFormat::Https { line }) if !http => {
            fallback(resolver, raw, line);
            resolver.built_in(formats::TCPLOG, line)
        }
        Some(RawLogFormat::Http { clf: false, line }) => resolver.built_in(formats::HTTPLOG, line),
        Some(RawLogFormat::Http { clf: true, line }) => resolver.built_in(formats::CLF, line),
        Some(RawLogFormat::Https { line }) => {
            // No listener speaks TLS: what HAProxy writes of a clear connection. The fetches of TLS come with TLS.
            let text = format!("{} %[fc_err]/-/-/-/0 -/-/-", formats::HTTPLOG);
            resolver.built_in(&text, line)
        }
        Some(RawLogFormat::Tcp { clf: false, line }) => resolver.built_in(formats::TCPLOG, line),
        Some(RawLogFormat::Tcp { clf: true, line }) => resolver.built_in(formats::TCPLOG_CLF, line),
        None => {
            let text = match raw.mode() {
                Mode::Http => formats::CONNECT_HTTP,
                _ => formats::CONNECT_TCP,
            };
            resolver.built_in(text, &raw.line)
        }
    }
}

fn fallback(resolver: &mut Resolver<'_>, raw: &RawProxy, line: &Arc<Line>) {
    let message = format!(
        "'{}' not usable with {} '{}' (needs 'mode http'). Falling back to 'option tcplog'.",
        line.keyword(),
        raw.kind(),
        raw.name
    );
    resolver.warn(line, 0, message, None);
}

/// Log servers over TCP get their messages through a ring each: in order, and while they are away.
pub(super) fn server_rings(proxies: &[Proxy]) -> Vec<Ring> {
    let backends = proxies
        .iter()
        .filter(|p| p.mode == Mode::Log && !p.disabled);
    let servers = backends.flat_map(|p| p.servers.iter().map(move |s| (p, s)));
    servers
        .filter(|(_, s)| !s.datagrams)
        .map(|(p, s)| {
            let base = crate::section::unnamed_ring();
            Ring {
                name: s.log_ring(&p.name),
                size_bytes: s.log_bufsize.map_or(base.size_bytes, u64::from),
                // each target has cut its lines
                max_len: u32::MAX,
                servers: vec![RingServer {
                    name: s.name.to_string(),
                    addr: s.addr.clone(),
                    octet_count: s.octet_count,
                }],
                timeout_connect_ms: p.timeouts.connect_ms,
                timeout_server_ms: p.timeouts.server_ms,
                ..base
            }
        })
        .collect()
}

/// What a log backend cannot have.
pub(super) fn check_backend(resolver: &mut Resolver<'_>, raw: &RawProxy, proxy: &Proxy) {
    let log = proxy.mode == Mode::Log;
    let of_logs = matches!(proxy.balance, Balance::Sticky | Balance::LogHash(_));
    let either = matches!(proxy.balance, Balance::RoundRobin | Balance::Random { .. });
    if of_logs && !log || log && !of_logs && !either {
        let line = raw.settings.balance_line.as_ref().unwrap_or(&raw.line);
        let (message, hint) = match log {
            true => (
                "this algorithm is not for log backends",
                "they have roundrobin, random, sticky and log-hash",
            ),
            false => (
                "this algorithm is for log backends only",
                "write `mode log` in the backend",
            ),
        };
        resolver.error(line, 1, format!("'balance' : {message}"), Some(hint.into()));
    }
    for (server, written) in proxy.servers.iter().zip(&raw.servers) {
        if server.datagrams && !log {
            let message = format!(
                "'server {}' : datagrams are for log backends only",
                server.name
            );
            let hint = "write `mode log` in the backend".to_owned();
            resolver.error(&written.line, 2, message, Some(hint));
        }
        for (at, word) in written.line.words.iter().enumerate().skip(3) {
            if !log && matches!(word.text.as_str(), "log-proto" | "log-bufsize") {
                let message = format!("'{}' has no effect in this backend", word.text);
                let hint = "it is for the servers of backends in mode log".to_owned();
                resolver.warn(&written.line, at, message, Some(hint));
            }
        }
        if log
            && !matches!(
                server.addr,
                PeerAddr::Ip {
                    port: PortSpec::Fixed(_),
                    ..
                } | PeerAddr::Unix(_)
            )
        {
            let message = format!(
                "'server {}' : a log server needs an address and a port",
                server.name
            );
            resolver.error(&written.line, 2, message, None);
        }
    }
    if !log {
        return;
    }
    if raw.is_frontend() {
        let message = format!(
            "{} '{}' cannot be in mode log, which is for backends.",
            raw.kind(),
            raw.name
        );
        resolver.error(&raw.line, 1, message, None);
    }
    let lists = [
        &raw.tcp_request_content,
        &raw.tcp_response_content,
        &raw.http_request,
        &raw.http_response,
    ];
    for rule in lists
        .into_iter()
        .chain([&raw.http_after_response])
        .flatten()
    {
        resolver.warn(
            &rule.line,
            0,
            format!(
                "'{}' ignored because backend '{}' is in mode log.",
                rule.line.keyword(),
                raw.name
            ),
            None,
        );
    }
}

/// The `log-forward` sections with their targets.
pub(super) fn forwards(resolver: &mut Resolver<'_>, accounts: &Accounts) -> Vec<LogForward> {
    let raw = resolver.raw;
    let mut out = Vec::new();
    for section in &raw.log_forwards {
        let targets = targets(resolver, &section.logs);
        let mut forward = LogForward {
            targets,
            ..section.forward.clone()
        };
        for bind in forward.binds.iter_mut().chain(&mut forward.datagrams) {
            super::accounts::bind(resolver, accounts, &section.line, bind);
        }
        out.push(forward);
    }
    out
}

fn targets(resolver: &mut Resolver<'_>, logs: &[RawLog]) -> Vec<LogTarget> {
    let mut targets = Vec::new();
    for log in logs {
        match log {
            RawLog::Global(_) => {
                targets.extend(resolver.raw.global.logs.iter().map(|t| LogTarget {
                    from_global: true,
                    ..bound(resolver, t.clone())
                }));
            }
            RawLog::Target(target, line) => {
                check_target(resolver, target, line);
                targets.push(bound(resolver, target.clone()));
            }
        }
    }
    targets
}

/// A target with what it names. One that is a ring has the ring's format, unless its line says another, and keeps to the
/// ring's length.
pub(super) fn bound(resolver: &Resolver<'_>, mut target: LogTarget) -> LogTarget {
    if let Some(named) = &mut target.profile
        && let Some(profile) = resolver.log_profiles.iter().find(|p| *p == named)
    {
        *named = profile.clone();
    }
    if let PeerAddr::Backend { name, id } = &mut target.addr
        && let Some(index) = super::names::find(resolver.raw, name, Caps::BACKEND)
    {
        *id = super::names::id(index);
    }
    if let PeerAddr::Ring(name) = &target.addr
        && let Some((ring, _)) = resolver.raw.rings.iter().find(|(r, _)| r.name == *name)
    {
        if target.format == LogFormatKind::Unspecified {
            target.format = ring.format;
        }
        target.max_len = target.max_len.min(ring.max_len as usize);
    }
    target
}

/// A log-profile by its name; an error at the word that names it where there is none.
pub(crate) fn profile(
    resolver: &mut Resolver<'_>,
    name: &str,
    line: &Line,
    word: usize,
) -> Option<Arc<LogProfile>> {
    let known = &resolver.log_profiles;
    if let Some(found) = known.iter().find(|p| p.name == name) {
        return Some(found.clone());
    }
    let near = crate::diag::suggest(name, known.iter().map(|p| p.name.as_str()))
        .map(|n| format!("did you mean '{n}'?"));
    let message = format!("'{}' : unknown log-profile '{name}'", line.keyword());
    resolver.error(line, word, message, near);
    None
}

/// A ring or profile that is named must exist.
pub(super) fn check_target(resolver: &mut Resolver<'_>, target: &LogTarget, line: &Arc<Line>) {
    if let Some(named) = &target.profile {
        let word = line.words.iter().position(|w| w.text == "profile");
        profile(resolver, &named.name, line, word.map_or(0, |at| at + 1));
    }
    if let PeerAddr::Backend { name, .. } = &target.addr {
        let proxies = &resolver.raw.proxies;
        let found = super::names::find(resolver.raw, name, Caps::BACKEND);
        let logs = |p: &&RawProxy| p.is_backend() && p.mode() == Mode::Log;
        let message = match found.map(|i| proxies[i].mode()) {
            Some(Mode::Log) => return,
            Some(_) => format!("log : backend '{name}' is not in mode log"),
            None => format!("log : unable to find backend '{name}'"),
        };
        let names = proxies.iter().filter(logs).map(|p| &*p.name);
        let near = crate::diag::suggest(name, names).map(|n| format!("did you mean '{n}'?"));
        return resolver.error(line, line.keyword_len, message, near);
    }
    let PeerAddr::Ring(name) = &target.addr else {
        return;
    };
    let rings = &resolver.raw.rings;
    if rings.iter().any(|(ring, _)| ring.name == *name) {
        return;
    }
    let near = crate::diag::suggest(name, rings.iter().map(|(r, _)| r.name.as_str()))
        .map(|n| format!("did you mean '{n}'?"));
    let message = format!("log : unable to find ring '{name}'");
    resolver.error(line, line.keyword_len, message, near);
}
