//! What HAProxy finds strange about a proxy as a whole, in its words.

use std::collections::HashSet;

use super::Resolver;
use super::proxy::Rules;
use crate::model::{Action, Balance, Caps, Mode, Options};
use crate::raw::{RawAction, RawProxy, Settings};

/// Whether a TCP proxy can turn into an HTTP one: its HTTP rules then have a use.
pub(super) fn may_become_http(raw: &RawProxy) -> bool {
    raw.tcp_request_content
        .iter()
        .any(|r| matches!(r.action, RawAction::Ready(Action::SwitchModeHttp)))
}

/// First findings: a frontend nobody can reach.
pub(super) fn before(resolver: &mut Resolver<'_>, raw: &RawProxy, _s: &Settings) {
    if raw.is_frontend() && !raw.seen.contains("bind") {
        resolver.warn_plain(
            raw,
            format!(
                "{} '{}' has no 'bind' directive. Please declare it as a backend if this was intended.",
                raw.kind(),
                raw.name
            ),
        );
    }
}

/// Takes away what needs HTTP from a proxy that does not speak it, with a warning each.
pub(super) fn without_http(
    resolver: &mut Resolver<'_>,
    raw: &RawProxy,
    s: &mut Settings,
    rules: &mut Rules,
) {
    if raw.mode() == Mode::Http {
        return;
    }
    let kind = raw.kind();
    let name = raw.name.clone();
    let ignored =
        |what: &str| format!("{what} ignored for {kind} '{name}' as it requires HTTP mode.");
    let rules_ignored = |what: &str| {
        format!("'{what}' rules ignored for {kind} '{name}' as they require HTTP mode.")
    };
    let mut warn = |message: String| resolver.warn_plain(raw, message);
    if s.monitor_uri.take().is_some() {
        warn(format!(
            "monitor-uri will be ignored for {kind} '{name}' (needs 'mode http')."
        ));
    }
    if raw.is_backend() && s.cookie.take().is_some() {
        warn(format!(
            "cookie will be ignored for {kind} '{name}' (needs 'mode http')."
        ));
    }
    let layer7 = |b: &Balance| {
        matches!(
            b,
            Balance::Uri { .. } | Balance::UrlParam { .. } | Balance::Header { .. }
        )
    };
    if raw.is_backend() && s.balance.as_ref().is_some_and(layer7) {
        warn(format!(
            "Layer 7 hash not possible for {kind} '{name}' (needs 'mode http'). Falling back to round robin."
        ));
        s.balance = Some(Balance::RoundRobin);
    }
    if may_become_http(raw) {
        // Only a `listen` has servers of its own that such a connection could never reach.
        let both = raw.is_frontend() && raw.is_backend();
        if both && s.default_backend.is_none() && raw.use_backends.is_empty() {
            warn(format!(
                "Proxy '{name}' : 'switch-mode http' configured for a tcp {kind} with no backend. Incoming connections \
                 upgraded to HTTP cannot be routed to TCP servers"
            ));
        }
        return;
    }
    let page = s.stats.take().is_some() || !raw.stats_admin.is_empty();
    if page || !rules.stats.is_empty() {
        warn(ignored("'stats' statement"));
    }
    // those of `defaults` are meant for whom they suit
    let own = [
        (raw.http_request.len() + raw.block.len(), "http-request"),
        (raw.http_response.len(), "http-response"),
        (raw.http_after_response.len(), "http-after-response"),
        (raw.redirects.len(), "redirect"),
    ];
    for (_, what) in own.iter().filter(|(rules, _)| *rules > 0) {
        warn(rules_ignored(what));
    }
    rules.http_request.clear();
    rules.http_response.clear();
    rules.http_after_response.clear();
    rules.stats.clear();
    if s.forwardfor.take().is_some() {
        warn(ignored("'option forwardfor'"));
    }
    if s.originalto.take().is_some() {
        warn(ignored("'option originalto'"));
    }
    if s.forwarded.take().is_some() {
        warn(ignored("'option forwarded'"));
    }
    http_options(resolver, raw, s);
    let mut warn = |message: String| resolver.warn_plain(raw, message);
    for server in raw
        .servers
        .iter()
        .filter(|srv| srv.server.cookie.is_some() && raw.is_backend())
    {
        warn(format!(
            "{kind} '{name}' : ignoring cookie for server '{}' as HTTP mode is disabled.",
            server.server.name
        ));
    }
}

/// Switches that mean nothing to TCP, by their names.
const HTTP_OPTIONS: [(Options, &str); 13] = [
    (
        Options::ACCEPT_INVALID_HTTP_REQUEST,
        "accept-invalid-http-request",
    ),
    (
        Options::ACCEPT_INVALID_HTTP_RESPONSE,
        "accept-invalid-http-response",
    ),
    (Options::CHECKCACHE, "checkcache"),
    (Options::DISABLE_H2_UPGRADE, "disable-h2-upgrade"),
    (Options::HTTP_BUFFER_REQUEST, "http-buffer-request"),
    (
        Options::HTTP_DROP_REQUEST_TRAILERS,
        "http-drop-request-trailers",
    ),
    (
        Options::HTTP_DROP_RESPONSE_TRAILERS,
        "http-drop-response-trailers",
    ),
    (Options::HTTP_IGNORE_PROBES, "http-ignore-probes"),
    (Options::HTTP_NO_DELAY, "http-no-delay"),
    (Options::HTTP_PRETEND_KEEPALIVE, "http-pretend-keepalive"),
    (Options::HTTP_USE_PROXY_HEADER, "http-use-proxy-header"),
    (Options::IDLE_CLOSE_ON_RESPONSE, "idle-close-on-response"),
    (Options::PREFER_LAST_SERVER, "prefer-last-server"),
];

/// Of them those that mean something to one side only: the other may inherit them.
const FRONT_OPTIONS: Options = Options::ACCEPT_INVALID_HTTP_REQUEST
    .union(Options::DISABLE_H2_UPGRADE)
    .union(Options::HTTP_IGNORE_PROBES)
    .union(Options::HTTP_USE_PROXY_HEADER)
    .union(Options::IDLE_CLOSE_ON_RESPONSE);
const BACK_OPTIONS: Options = Options::ACCEPT_INVALID_HTTP_RESPONSE
    .union(Options::CHECKCACHE)
    .union(Options::HTTP_PRETEND_KEEPALIVE)
    .union(Options::PREFER_LAST_SERVER);

fn http_options(resolver: &mut Resolver<'_>, raw: &RawProxy, s: &mut Settings) {
    for (option, name) in HTTP_OPTIONS {
        if !s.options.contains(option) {
            continue;
        }
        s.options.remove(option);
        let side = match option {
            o if FRONT_OPTIONS.contains(o) => Caps::FRONTEND,
            o if BACK_OPTIONS.contains(o) => Caps::BACKEND,
            _ => raw.caps,
        };
        if !raw.caps.intersects(side) {
            continue;
        }
        let message = format!(
            "'option {name}' ignored for {} '{}' as it requires HTTP mode.",
            raw.kind(),
            raw.name
        );
        match s.option_lines.get(&option.bits()) {
            Some(line) => resolver.warn(line, 0, message, None),
            None => resolver.warn_plain(raw, message),
        }
    }
}

/// What may be meant, and is looked at with `-dD` only.
fn suspicious(resolver: &mut Resolver<'_>, raw: &RawProxy) {
    let mut cookies: HashSet<&str> = HashSet::new();
    for server in &raw.servers {
        let name = format!("'server {}/{}'", raw.name, server.server.name);
        if server.server.weight == 0 {
            let message = format!(
                "{name} : configured with weight of 0 will never be selected by load balancing algorithms"
            );
            resolver.diag(&server.line, message);
        }
        let cookie = server.server.cookie.as_deref();
        if let Some(cookie) = cookie.filter(|_| !server.server.backup)
            && !cookies.insert(cookie)
        {
            let message = format!(
                "{name} : same cookie value is set for a previous non-backup server in the same backend, it may break \
                 connection persistence"
            );
            resolver.diag(&server.line, message);
        }
    }
}

/// Last findings: checks that nobody runs, timeouts that are missing.
pub(super) fn after(resolver: &mut Resolver<'_>, raw: &RawProxy, s: &Settings) {
    suspicious(resolver, raw);
    if raw.is_backend()
        && let Some((line, option)) = crate::proxy::unused_check_rules(&s.check)
    {
        let word = match option {
            "option httpchk" => "http-check",
            _ => "tcp-check",
        };
        let message = format!(
            "{} '{}' uses {word} rules without '{option}', so the rules are ignored.",
            raw.kind(),
            raw.name
        );
        resolver.warn(line, 0, message, None);
    }
    let some = |t: Option<u64>| t.is_some_and(|ms| ms > 0);
    let client = raw.caps.contains(Caps::FRONTEND) && !some(s.timeouts.client_ms);
    let server = raw.caps.contains(Caps::BACKEND)
        && !raw.servers.is_empty()
        && raw.mode() != Mode::Log
        && !(some(s.timeouts.connect_ms) && some(s.timeouts.server_ms));
    if client || server {
        resolver.warn_plain(
            raw,
            format!(
                "missing timeouts for {} '{}'.\n\
                 \x20  | While not properly invalid, you will certainly encounter various problems\n\
                 \x20  | with such a configuration. To fix this, please ensure that all following\n\
                 \x20  | timeouts are set to a non-zero value: 'client', 'connect', 'server'.",
                raw.kind(),
                raw.name
            ),
        );
    }
}
