//! One proxy of the model, from what its section says and what its `defaults` said before.

use std::sync::Arc;

use sluice_expr::place::Place;
use sluice_expr::{Cond, Purpose};

use super::accounts::{self, Accounts};
use super::names::{find, id};
use super::{Resolver, consistency, logging, oddities, servers};
use crate::line::Written;
use crate::model::*;
use crate::raw::{CheckOption, RawAction, RawEmailAlert, RawError, RawProxy, RawRule, Settings};

/// Makes a proxy. Faults are reported; what stands in for a faulty part (or that there is no proxy at all) does not
/// matter, because the model is not given out then.
pub(super) fn build(
    resolver: &mut Resolver<'_>,
    accounts: &Accounts,
    index: usize,
    puid: u32,
) -> Option<Proxy> {
    let raw = &resolver.raw.proxies[index];
    let mut settings = raw.settings.clone();
    let live = !settings.disabled;
    if live {
        consistency::before(resolver, raw, &settings);
    }
    let default_backend = match live {
        true => default_backend(resolver, raw, &settings),
        false => None,
    };
    let use_backends = match live {
        true => use_backends(resolver, index),
        false => Vec::new(),
    };
    let use_servers = match live {
        true => use_servers(resolver, index),
        false => Vec::new(),
    };
    let servers = servers::build(resolver, index);
    let mut rules = Rules::collect(resolver, raw);
    if live {
        consistency::without_http(resolver, raw, &mut settings, &mut rules);
    }
    let errors = errors(resolver, &settings.errors);
    let email_alert = email_alert(resolver, settings.email.as_ref());
    let log = logging::build(resolver, index, &settings, live)?;
    let unique_id_format = settings
        .unique_id_format
        .as_ref()
        .filter(|_| raw.is_frontend() && live);
    let unique_id_format = unique_id_format
        .and_then(|w| resolver.format(w, index, Place::FE_HTTP_REQ, Purpose::UniqueId));
    if live {
        oddities::check(resolver, raw, &settings);
        consistency::after(resolver, raw, &settings);
        external_check(resolver, &settings);
    }
    let mut binds = raw.binds.clone();
    for (bind, line) in binds.iter_mut().zip(&raw.bind_lines) {
        accounts::bind(resolver, accounts, line, bind);
    }
    let cookie_max = resolver.raw.global.tune.http_cookielen;
    let capture_cookie = raw.capture_cookie.clone().map(|c| CookieCapture {
        len: c.len.min(cookie_max),
        ..c
    });
    let timeouts = timeouts(&settings.timeouts);
    let clf = logging::is_clf(&settings);
    let options = options(&settings);
    let check = crate::proxy::build_check(&settings.check);
    let s = settings;
    let unbalanced =
        s.balance.is_none() && (raw.dispatch.is_some() || s.options.contains(Options::TRANSPARENT));
    Some(Proxy {
        id: id(index),
        name: raw.name.clone(),
        puid,
        caps: raw.caps,
        mode: raw.mode(),
        defaults_name: raw
            .defaults
            .map(|d| resolver.defaults[d].name.to_string())
            .filter(|n| !n.is_empty()),
        description: raw.description.clone(),
        disabled: s.disabled,
        origin: raw.line.origin(),
        binds,
        maxconn: s.maxconn,
        backlog: s.backlog,
        rate_limit_sessions: s.rate_limit_sessions,
        default_backend,
        use_backends,
        monitor_uri: s.monitor_uri,
        monitor_fail: raw.monitor_fail.clone(),
        captures_req: raw.captures_req.clone(),
        captures_res: raw.captures_res.clone(),
        capture_cookie,
        unique_id_format,
        unique_id_header: s.unique_id_header,
        log,
        clf,
        options,
        conn_mode: s.conn_mode.unwrap_or_default(),
        timeouts,
        forwardfor: s.forwardfor,
        originalto: s.originalto,
        forwarded: s.forwarded,
        errors,
        stats: s.stats.map(Arc::new),
        stats_admin: raw.stats_admin.clone(),
        stats_http_request: rules.stats,
        tcp_request_connection: rules.tcp_connection,
        tcp_request_session: rules.tcp_session,
        tcp_request_content: rules.tcp_content,
        tcp_response_content: rules.tcp_response,
        http_request: rules.http_request,
        http_response: rules.http_response,
        http_after_response: rules.http_after_response,
        tcp_req_inspect_delay_ms: inherited(resolver, raw, |p| p.tcp_req_inspect_delay_ms),
        tcp_res_inspect_delay_ms: inherited(resolver, raw, |p| p.tcp_res_inspect_delay_ms),
        bwlims: raw.bwlims.clone(),
        servers,
        balance: s.balance.unwrap_or(Balance::RoundRobin),
        hash_type: HashType {
            balance_factor: s.hash_balance_factor,
            ..s.hash_type
        },
        retries: s.retries.unwrap_or(RETRIES_DEFAULT),
        retry_on: s.retry_on.unwrap_or(RetryOn::CONN_FAILURE),
        redispatch: s.redispatch,
        http_reuse: s.http_reuse.unwrap_or_default(),
        fullconn: s.fullconn,
        max_keep_alive_queue: s.max_keep_alive_queue,
        cookie: s.cookie,
        dynamic_cookie_key: s.dynamic_cookie_key,
        persist_rules: raw.persist_rules.clone(),
        unpublished: raw.unpublished,
        force_be_switch: raw.force_be_switch.clone(),
        use_servers,
        source: s.source,
        check,
        dispatch: raw.dispatch.clone(),
        unbalanced,
        http_send_name_header: s.http_send_name_header,
        email_alert,
        server_state: s.server_state,
        server_state_file: s.server_state_file,
        persist_rdp_cookie: s.persist_rdp_cookie,
        clitcpka: s.clitcpka,
        srvtcpka: s.srvtcpka,
        hash_balance_factor: s.hash_balance_factor,
    })
}

/// As HAProxy's CONN_RETRIES.
const RETRIES_DEFAULT: u32 = 3;

/// The switches that are on. `no option splice-*` also turns off the splicing Sluice does on its own.
fn options(s: &Settings) -> Options {
    let splice = Options::SPLICE_AUTO | Options::SPLICE_REQUEST | Options::SPLICE_RESPONSE;
    let mut options = s.options;
    if s.no_options.intersects(splice) && !s.options.intersects(splice) {
        options.insert(Options::NO_SPLICE);
    }
    options
}

/// Timeouts with those others stand in for (manual, `timeout http-keep-alive`, `queue`, `tarpit`).
fn timeouts(t: &Timeouts) -> Timeouts {
    Timeouts {
        http_keep_alive_ms: t.http_keep_alive_ms.or(t.http_request_ms).or(t.client_ms),
        queue_ms: t.queue_ms.or(t.connect_ms),
        tarpit_ms: t.tarpit_ms.or(t.connect_ms),
        ..*t
    }
}

/// A value that is no setting but that rules of the `defaults` section bring along.
fn inherited<T>(
    resolver: &Resolver<'_>,
    raw: &RawProxy,
    of: fn(&RawProxy) -> Option<T>,
) -> Option<T> {
    of(raw).or_else(|| raw.defaults.and_then(|d| of(&resolver.defaults[d])))
}

/// The rule sets of a proxy: those of its `defaults` section run first.
pub(super) struct Rules {
    pub stats: Vec<Rule>,
    pub tcp_connection: Vec<Rule>,
    pub tcp_session: Vec<Rule>,
    pub tcp_content: Vec<Rule>,
    pub tcp_response: Vec<Rule>,
    /// `block` lines, then `http-request`, then `redirect`.
    pub http_request: Vec<Rule>,
    pub http_response: Vec<Rule>,
    pub http_after_response: Vec<Rule>,
}

impl Rules {
    fn collect(resolver: &mut Resolver<'_>, raw: &RawProxy) -> Rules {
        let section = raw.defaults.map(|d| &resolver.defaults[d]);
        let mut all = |lists: &[&[RawRule]]| -> Vec<Rule> {
            lists
                .iter()
                .flat_map(|l| l.iter())
                .filter_map(|r| rule(resolver, raw, r))
                .collect()
        };
        let of = |list: for<'p> fn(&'p RawProxy) -> &'p Vec<RawRule>| -> [&[RawRule]; 2] {
            [section.map_or(&[], |s| list(s)), list(raw)]
        };
        let [before, own] = of(|p| &p.http_request);
        Rules {
            stats: all(&[&raw.stats_http_request]),
            tcp_connection: all(&of(|p| &p.tcp_request_connection)),
            tcp_session: all(&of(|p| &p.tcp_request_session)),
            tcp_content: all(&of(|p| &p.tcp_request_content)),
            tcp_response: all(&of(|p| &p.tcp_response_content)),
            http_request: all(&[&raw.block, before, own, &raw.redirects]),
            http_response: all(&of(|p| &p.http_response)),
            http_after_response: all(&of(|p| &p.http_after_response)),
        }
    }
}

fn rule(resolver: &mut Resolver<'_>, raw: &RawProxy, rule: &RawRule) -> Option<Rule> {
    let action = match &rule.action {
        RawAction::Ready(action) => action.clone(),
        RawAction::Late(make) => make(resolver, raw)?,
    };
    Some(Rule {
        cond: rule.cond.clone(),
        action,
        origin: rule.line.origin(),
    })
}

fn default_backend(
    resolver: &mut Resolver<'_>,
    raw: &RawProxy,
    s: &Settings,
) -> Option<sluice_expr::ProxyId> {
    let written = s.default_backend.as_ref().filter(|_| raw.is_frontend())?;
    let target = backend(resolver, raw, written, "default_backend")?;
    if std::ptr::eq(&resolver.raw.proxies[target], raw) {
        let message = format!(
            "Proxy '{}': loop detected for default_backend: '{}'.",
            raw.name,
            written.text()
        );
        resolver.error(&written.line, written.word, message, None);
        return None;
    }
    compatible(resolver, raw, target, written, "as its default backend").then(|| id(target))
}

/// The backend a word names.
fn backend(
    resolver: &mut Resolver<'_>,
    raw: &RawProxy,
    written: &Written,
    keyword: &str,
) -> Option<usize> {
    let name = written.text();
    if let Some(found) = find(resolver.raw, name, Caps::BACKEND) {
        return Some(found);
    }
    let frontend = find(resolver.raw, name, Caps::FRONTEND);
    let names = resolver
        .raw
        .proxies
        .iter()
        .filter(|p| p.is_backend())
        .map(|p| &*p.name);
    let hint = match (frontend, crate::diag::suggest(name, names)) {
        (Some(_), _) => Some(format!("'{name}' is a frontend, not a backend")),
        (None, Some(near)) => Some(format!("did you mean '{near}'?")),
        (None, None) => None,
    };
    let message = format!(
        "Proxy '{}': unable to find required {keyword}: '{name}'.",
        raw.name
    );
    resolver.error(&written.line, written.word, message, hint);
    None
}

/// An HTTP frontend cannot hand its requests to a TCP backend; the other way round the connection is upgraded.
fn compatible(
    resolver: &mut Resolver<'_>,
    raw: &RawProxy,
    target: usize,
    written: &Written,
    how: &str,
) -> bool {
    let target = &resolver.raw.proxies[target];
    let same =
        raw.mode() == target.mode() || (raw.mode(), target.mode()) == (Mode::Tcp, Mode::Http);
    if same || target.settings.disabled {
        return true;
    }
    let (from, to) = (raw.line.origin(), target.line.origin());
    let message = format!(
        "{} {} '{}' ({}:{}) tries to use incompatible {} {} '{}' ({}:{}) {how} (see 'mode').",
        raw.mode().name(),
        raw.kind(),
        raw.name,
        from.file,
        from.line,
        target.mode().name(),
        target.kind(),
        target.name,
        to.file,
        to.line
    );
    resolver.error(&written.line, written.word, message, None);
    false
}

fn use_backends(resolver: &mut Resolver<'_>, index: usize) -> Vec<UseBackend> {
    let raw = &resolver.raw.proxies[index];
    let mut found = Vec::new();
    for rule in &raw.use_backends {
        let target = match rule.target.text().contains('%') {
            true => resolver
                .format(
                    &rule.target,
                    index,
                    Place::FE_USE_BACKEND,
                    Purpose::Argument,
                )
                .map(BackendTarget::Dynamic),
            false => backend(resolver, raw, &rule.target, "use_backend")
                .filter(|t| compatible(resolver, raw, *t, &rule.target, "in a 'use_backend' rule"))
                .map(|t| BackendTarget::Static(id(t))),
        };
        if let Some(target) = target {
            found.push(UseBackend {
                target,
                cond: rule.cond.clone(),
                origin: rule.target.origin(),
            });
        }
    }
    found
}

fn use_servers(resolver: &mut Resolver<'_>, index: usize) -> Vec<UseServer> {
    let raw = &resolver.raw.proxies[index];
    let mut found = Vec::new();
    for rule in &raw.use_servers {
        let name = rule.target.text();
        let cond: Option<Cond> = rule.cond.clone();
        let target = match name.contains('%') {
            true => resolver
                .format(&rule.target, index, Place::BE_SET_SERVER, Purpose::Argument)
                .map(ServerTarget::Dynamic),
            false => servers::position(raw, name)
                .map(|i| ServerTarget::Static(i as u32))
                .or_else(|| {
                    let near = servers::near(raw, name);
                    let message = format!(
                        "{} '{}' : unable to find server '{name}' referenced in a 'use-server' rule.",
                        raw.kind(),
                        raw.name
                    );
                    resolver.error(&rule.target.line, rule.target.word, message, near);
                    None
                }),
        };
        if let Some(target) = target {
            found.push(UseServer {
                target,
                cond,
                origin: rule.target.origin(),
            });
        }
    }
    found
}

/// `option external-check` needs a program and the permission to start one.
fn external_check(resolver: &mut Resolver<'_>, s: &Settings) {
    let Some((CheckOption::External, line)) = &s.check.option else {
        return;
    };
    let line = line.clone();
    if !resolver.raw.global.external_check {
        let message = "'option external-check' requires 'external-check' in the 'global' section";
        resolver.error(&line, 0, message, None);
    } else if s.check.command.is_none() {
        let message = "'option external-check' requires 'external-check command'";
        resolver.error(&line, 0, message, None);
    }
}

/// Error replies by status; later lines replace earlier ones.
/// Mails are sent where sender, receiver and mail servers are known.
fn email_alert(
    resolver: &mut Resolver<'_>,
    written: Option<&RawEmailAlert>,
) -> Option<Arc<EmailAlert>> {
    let written = written?;
    let (Some(section), Some(from), Some(to)) = (&written.mailers, &written.from, &written.to)
    else {
        let line = written.line.as_ref()?;
        let message = "'email-alert' will be ignored: each of 'email-alert from', 'email-alert mailers' and 'email-alert \
                       to' has to be there";
        resolver.warn(line, 0, message, None);
        return None;
    };
    let Some(mailers) = resolver
        .mailers
        .iter()
        .find(|m| m.name == section.text())
        .cloned()
    else {
        let names = resolver.mailers.iter().map(|m| m.name.as_str());
        let near =
            crate::diag::suggest(section.text(), names).map(|n| format!("did you mean '{n}'?"));
        let message = format!("unable to find mailers '{}'.", section.text());
        resolver.error(&section.line, section.word, message, near);
        return None;
    };
    const LEVEL_ALERT: u8 = 1;
    Some(Arc::new(EmailAlert {
        mailers,
        from: from.clone(),
        to: to.clone(),
        level: written.level.unwrap_or(LEVEL_ALERT),
        myhostname: written.myhostname.clone(),
    }))
}

fn errors(resolver: &mut Resolver<'_>, written: &[RawError]) -> ErrorReplies {
    let mut by_status: Vec<(u16, ErrorReply)> = Vec::new();
    let mut set = |status: u16, reply: ErrorReply| {
        by_status.retain(|(s, _)| *s != status);
        by_status.push((status, reply));
    };
    for error in written {
        match error {
            RawError::One { status, reply } => set(*status, reply.clone()),
            RawError::Section { name, codes } => {
                let raw = resolver.raw;
                let Some(section) = raw.http_errors.iter().find(|h| h.name == name.text()) else {
                    let names = raw.http_errors.iter().map(|h| h.name.as_str());
                    let near = crate::diag::suggest(name.text(), names)
                        .map(|n| format!("did you mean '{n}'?"));
                    let message =
                        format!("unable to find the http-errors section '{}'.", name.text());
                    resolver.error(&name.line, name.word, message, near);
                    continue;
                };
                let all = &section.errors.by_status;
                for (status, reply) in all
                    .iter()
                    .filter(|(s, _)| codes.is_empty() || codes.contains(s))
                {
                    set(*status, reply.clone());
                }
                for code in codes.iter().filter(|c| !all.iter().any(|(s, _)| s == *c)) {
                    let message = format!(
                        "status code '{code}' is not declared in the http-errors section '{}'.",
                        section.name
                    );
                    resolver.warn(&name.line, name.word, message, None);
                }
            }
        }
    }
    ErrorReplies { by_status }
}
