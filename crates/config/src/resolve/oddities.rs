//! What does not fit together in one proxy: words without their protocol, servers that cannot be checked, rules that
//! wait for nothing.

use sluice_expr::Expr;
use sluice_expr::place::Place;

use super::Resolver;
use crate::model::{
    Action, CheckAction, CheckKind, Mode, Options, PeerAddr, PortSpec, RetryOn, ServerStateSource,
    UseSrc,
};
use crate::raw::{RawAction, RawProxy, RawServer, Settings};

pub(super) fn check(resolver: &mut Resolver<'_>, raw: &RawProxy, s: &Settings) {
    let http = raw.mode() == Mode::Http;
    if !http {
        without_http(resolver, raw, s);
    }
    if raw.is_backend() {
        servers(resolver, raw, s);
        balanced_and_not(resolver, raw, s);
        if raw.is_frontend() && !raw.servers.is_empty() && s.default_backend.is_some() {
            let message = format!(
                "In proxy '{}', the 'default_backend' rule always has precedence over the servers, which will never be \
                 used.",
                raw.name
            );
            resolver.warn_plain(raw, message);
        }
        if s.server_state == ServerStateSource::Global
            && resolver.raw.global.server_state_file.is_none()
        {
            let message = format!(
                "backend '{}' configured to load server state file from global section 'server-state-file' directive. \
                 Unfortunately, 'server-state-file' is not set!",
                raw.name
            );
            resolver.warn_plain(raw, message);
        }
    }
    if raw.is_frontend() && s.log_format_sd.is_some() && s.logs.is_empty() && s.log_format.is_none()
    {
        let message = format!(
            "log format ignored for {} '{}' since it has no log address.",
            raw.kind(),
            raw.name
        );
        resolver.warn_plain(raw, message);
    }
    captures_in_a_hurry(resolver, raw);
}

fn without_http(resolver: &mut Resolver<'_>, raw: &RawProxy, s: &Settings) {
    if raw.capture_cookie.is_some() {
        let message = format!(
            "'capture' statement ignored for {} '{}' as it requires HTTP mode.",
            raw.kind(),
            raw.name
        );
        resolver.warn_plain(raw, message);
    }
    if let Some(UseSrc::Header { name, .. }) = s.source.as_ref().and_then(|s| s.usesrc.as_ref()) {
        let message = format!(
            "{} '{}' : ignoring use of header {name} as source IP in non-HTTP mode.",
            raw.kind(),
            raw.name
        );
        resolver.warn_plain(raw, message);
    }
    for (bind, line) in raw.binds.iter().zip(&raw.bind_lines) {
        if bind.proto.as_deref() == Some("h1") {
            let message = format!(
                "{} '{}' : MUX protocol 'h1' is not usable in mode tcp",
                raw.kind(),
                raw.name
            );
            resolver.error(line, line.keyword_len, message, None);
        }
    }
    for server in raw.servers.iter().filter(|_| raw.is_backend()) {
        let RawServer { server, line, .. } = server;
        if server.proto.as_deref() == Some("h1") {
            let message = format!(
                "{} '{}' : MUX protocol 'h1' is not usable for server '{}' in mode tcp",
                raw.kind(),
                raw.name,
                server.name
            );
            resolver.error(line, line.keyword_len, message, None);
        }
        if server.redir.is_some() {
            let message = format!(
                "{} '{}' : server cannot have cookie or redirect prefix in non-HTTP mode.",
                raw.kind(),
                raw.name
            );
            resolver.error(line, line.keyword_len, message, None);
        }
    }
}

fn servers(resolver: &mut Resolver<'_>, raw: &RawProxy, s: &Settings) {
    let port_by_rules = check_names_port(s);
    // Without these a connection that failed with its data in the SYN is lost.
    let needed = RetryOn::CONN_FAILURE | RetryOn::EMPTY_RESPONSE | RetryOn::RESPONSE_TIMEOUT;
    let retries = s.retry_on.unwrap_or(RetryOn::CONN_FAILURE).contains(needed);
    for RawServer { server, line, .. } in &raw.servers {
        let portless = match &server.addr {
            PeerAddr::Ip { port, .. } | PeerAddr::Unresolved { port, .. } => {
                !matches!(port, PortSpec::Fixed(_))
            }
            _ => false,
        };
        if server.check.enabled && portless && server.check.port.is_none() && !port_by_rules {
            let message = format!(
                "{} '{}': server '{}' has neither service port nor check port nor tcp_check rule 'connect' with port \
                 information.",
                raw.kind(),
                raw.name,
                server.name
            );
            resolver.error(
                line,
                line.keyword_len,
                message,
                Some("write `port <port>` after `check`".into()),
            );
        }
        if server.tfo && !retries {
            let message = format!(
                "'server {}/{}' : server has tfo activated, the backend should be configured with at least \
                 'conn-failure', 'empty-response' and 'response-timeout' or we wouldn't be able to retry the connection \
                 on failure.",
                raw.name, server.name
            );
            resolver.warn(
                line,
                line.keyword_len,
                message,
                Some("write them after `retry-on`".into()),
            );
        }
    }
}

/// `dispatch` and `option transparent` say where connections go, and so does `balance`.
fn balanced_and_not(resolver: &mut Resolver<'_>, raw: &RawProxy, s: &Settings) {
    if s.balance.is_none() {
        return;
    }
    let (kind, name) = (raw.kind(), &raw.name);
    if s.options.contains(Options::TRANSPARENT) {
        let message = format!("{kind} '{name}' cannot use both transparent and balance mode.");
        resolver.error_plain(raw, message);
    } else if raw.dispatch.is_some() {
        let message =
            format!("dispatch address of {kind} '{name}' will be ignored in balance mode.");
        resolver.warn_plain(raw, message);
    }
}

/// Whether every connection of the check's rules says its own port.
fn check_names_port(s: &Settings) -> bool {
    let CheckKind::Rules(rules) = crate::proxy::build_check(&s.check) else {
        return false;
    };
    let mut connects = rules
        .steps
        .iter()
        .filter_map(|step| match &step.action {
            CheckAction::Connect { port, .. } => Some(port.is_some()),
            _ => None,
        })
        .peekable();
    connects.peek().is_some() && connects.all(|named| named)
}

/// `tcp-request content capture` of something in the data, with no time given for data to come.
fn captures_in_a_hurry(resolver: &mut Resolver<'_>, raw: &RawProxy) {
    let waits = raw.tcp_req_inspect_delay_ms.is_some()
        || raw
            .defaults
            .is_some_and(|d| resolver.defaults[d].tcp_req_inspect_delay_ms.is_some());
    if waits || raw.mode() == Mode::Http {
        return;
    }
    let in_data = |expr: &Expr| {
        !expr
            .places()
            .intersects(Place::FE_CONNECTION | Place::FE_SESSION)
    };
    for rule in &raw.tcp_request_content {
        let RawAction::Ready(Action::Capture { expr, .. }) = &rule.action else {
            continue;
        };
        if in_data(expr) {
            let message = format!(
                "{} '{}' : a 'tcp-request capture' rule explicitly depending on request contents without any \
                 'tcp-request inspect-delay' setting. This means that this rule will randomly find its contents.",
                raw.kind(),
                raw.name
            );
            resolver.warn(
                &rule.line,
                0,
                message,
                Some("write `tcp-request inspect-delay 5s`".into()),
            );
        }
    }
}
