//! Rule sets: where a rule belongs, what it can see there, and what HAProxy warns about its position.
//!
//! The actions are in [`super::action`]; each has one registry item for every rule set that accepts it.

use std::sync::Arc;

use sluice_expr::place::Place;

use crate::cx::Cx;
use crate::line::Line;
use crate::model::{Action, Caps};
use crate::raw::{RawAction, RawProxy, RawRule};
use crate::registry::{Keyword, Sections, kw};
use crate::values::TimeUnit;

#[rustfmt::skip]
pub(crate) static KEYWORDS: &[Keyword] = &[
    kw("tcp-request inspect-delay", Sections::ALL_PROXIES, "<delay>", "how long `tcp-request content` rules wait for data", |cx, line| {
        inspect_delay(cx, line, |p| &mut p.tcp_req_inspect_delay_ms);
    }),
    kw("tcp-response inspect-delay", Sections::DLB, "<delay>", "how long `tcp-response content` rules wait for data", |cx, line| {
        inspect_delay(cx, line, |p| &mut p.tcp_res_inspect_delay_ms);
    }),
];

/// The lists of rules a connection, request or response goes through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RuleSet {
    TcpConnection,
    TcpSession,
    TcpContent,
    TcpResponse,
    HttpRequest,
    HttpResponse,
    HttpAfterResponse,
    Stats,
    /// `redirect` lines.
    Redirect,
    /// `block` lines.
    Block,
}

impl RuleSet {
    /// The rule set a line belongs to, by its first words.
    pub(crate) fn of(line: &Line) -> RuleSet {
        match (line.word(0), line.word(1)) {
            ("tcp-request", "connection") => RuleSet::TcpConnection,
            ("tcp-request", "session") => RuleSet::TcpSession,
            ("tcp-request", _) => RuleSet::TcpContent,
            ("tcp-response", _) => RuleSet::TcpResponse,
            ("http-response", _) => RuleSet::HttpResponse,
            ("http-after-response", _) => RuleSet::HttpAfterResponse,
            ("stats", _) => RuleSet::Stats,
            ("redirect", _) => RuleSet::Redirect,
            ("block", _) => RuleSet::Block,
            _ => RuleSet::HttpRequest,
        }
    }

    /// What expressions see there.
    pub(crate) fn place(self, caps: Caps) -> Place {
        let (frontend, backend) = match self {
            RuleSet::TcpConnection => return Place::FE_CONNECTION,
            RuleSet::TcpSession => return Place::FE_SESSION,
            RuleSet::TcpContent => (Place::FE_REQ_CONTENT, Place::BE_REQ_CONTENT),
            RuleSet::TcpResponse => (Place::empty(), Place::BE_RES_CONTENT),
            RuleSet::HttpRequest | RuleSet::Redirect | RuleSet::Block | RuleSet::Stats => {
                (Place::FE_HTTP_REQ, Place::BE_HTTP_REQ)
            }
            RuleSet::HttpResponse | RuleSet::HttpAfterResponse => {
                (Place::FE_HTTP_RES, Place::BE_HTTP_RES)
            }
        };
        // A defaults section serves both sides.
        let both = caps.contains(Caps::DEFAULTS);
        let mut place = Place::empty();
        if both || caps.contains(Caps::FRONTEND) {
            place |= frontend;
        }
        if both || caps.contains(Caps::BACKEND) {
            place |= backend;
        }
        place
    }

    /// Whether its rules run on responses.
    pub(crate) fn is_response(self) -> bool {
        matches!(
            self,
            RuleSet::TcpResponse | RuleSet::HttpResponse | RuleSet::HttpAfterResponse
        )
    }

    /// `http-request`, `http-response`, `http-after-response`.
    fn is_http(self) -> bool {
        matches!(
            self,
            RuleSet::HttpRequest | RuleSet::HttpResponse | RuleSet::HttpAfterResponse
        )
    }

    fn list(self, proxy: &mut RawProxy) -> &mut Vec<RawRule> {
        match self {
            RuleSet::TcpConnection => &mut proxy.tcp_request_connection,
            RuleSet::TcpSession => &mut proxy.tcp_request_session,
            RuleSet::TcpContent => &mut proxy.tcp_request_content,
            RuleSet::TcpResponse => &mut proxy.tcp_response_content,
            RuleSet::HttpRequest => &mut proxy.http_request,
            RuleSet::HttpResponse => &mut proxy.http_response,
            RuleSet::HttpAfterResponse => &mut proxy.http_after_response,
            RuleSet::Stats => &mut proxy.stats_http_request,
            RuleSet::Redirect => &mut proxy.redirects,
            RuleSet::Block => &mut proxy.block,
        }
    }
}

/// A rule being read: the next word, and what its expressions may look at.
pub(crate) struct RuleWords {
    pub set: RuleSet,
    pub place: Place,
    pub at: usize,
}

/// Reads an action's arguments, up to the condition.
pub(crate) type ActionParser = fn(&mut Cx<'_>, &Arc<Line>, &mut RuleWords) -> Option<RawAction>;

/// Reads one rule and appends it to its rule set.
pub(crate) fn rule(cx: &mut Cx<'_>, line: &Arc<Line>, parse: ActionParser) {
    if !rules_allowed(cx, line) {
        return;
    }
    let set = RuleSet::of(line);
    warn_misplaced(cx, line, rank(set));
    let mut words = RuleWords {
        set,
        place: set.place(cx.proxy().caps),
        at: line.keyword_len,
    };
    let Some(action) = parse(cx, line, &mut words) else {
        return;
    };
    let Some(cond) = cx.cond(line, words.at, words.place) else {
        return;
    };
    let last = set.list(cx.proxy()).last();
    if set.is_http() && last.is_some_and(|r| r.cond.is_none() && ends_processing(&r.action)) {
        let message = format!(
            "previous '{}' action is final and has no condition attached, further entries are NOOP.",
            line.word(0)
        );
        cx.warn(
            line,
            0,
            message,
            Some("rules run until one ends them: give the one above a condition".into()),
        );
    }
    let rule = RawRule {
        cond,
        action,
        line: line.clone(),
    };
    set.list(cx.proxy()).push(rule);
}

/// Whether nothing behind a rule with this action has its turn. Those that drop the connection are not looked at by HAProxy.
fn ends_processing(action: &RawAction) -> bool {
    let RawAction::Ready(action) = action else {
        return false;
    };
    matches!(
        action,
        Action::Allow
            | Action::Deny(_)
            | Action::Tarpit(_)
            | Action::Return(_)
            | Action::Redirect(_)
            | Action::Auth { .. }
            | Action::UseService(_)
    )
}

/// An action that needs nothing more.
pub(crate) fn ready(action: Action) -> Option<RawAction> {
    Some(RawAction::Ready(action))
}

/// Rules and ACLs may stand in a `defaults` section only when it has a name.
pub(crate) fn rules_allowed(cx: &mut Cx<'_>, line: &Line) -> bool {
    let proxy = cx.proxy();
    if !proxy.is_defaults() || !proxy.name.is_empty() {
        return true;
    }
    let first = line.word(0).to_owned();
    cx.error(
        line,
        0,
        0..0,
        format!("'{first}' is not allowed in an anonymous 'defaults' section"),
        Some("give the section a name, and write `from <name>` on those that use it".into()),
    );
    false
}

/// The order in which the kinds of rules run, for the warning about rules written too late.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    TcpConnection,
    TcpSession,
    TcpContent,
    Monitor,
    HttpRequest,
    Redirect,
    UseBackend,
    UseServer,
    /// Rules of the response: their order against the others does not matter.
    Free,
}

fn rank(set: RuleSet) -> Rank {
    match set {
        RuleSet::TcpConnection => Rank::TcpConnection,
        RuleSet::TcpSession => Rank::TcpSession,
        RuleSet::TcpContent => Rank::TcpContent,
        RuleSet::HttpRequest | RuleSet::Block => Rank::HttpRequest,
        RuleSet::Redirect => Rank::Redirect,
        RuleSet::TcpResponse
        | RuleSet::HttpResponse
        | RuleSet::HttpAfterResponse
        | RuleSet::Stats => Rank::Free,
    }
}

/// Warns when rules that run later were written before this one.
pub(super) fn warn_misplaced(cx: &mut Cx<'_>, line: &Line, own: Rank) {
    let proxy = cx.proxy();
    let before = [
        (
            Rank::TcpSession,
            "a 'tcp-request session'",
            proxy.tcp_request_session.is_empty(),
        ),
        (
            Rank::TcpContent,
            "a 'tcp-request content'",
            proxy.tcp_request_content.is_empty(),
        ),
        (
            Rank::Monitor,
            "a 'monitor fail'",
            proxy.monitor_fail.is_empty(),
        ),
        (
            Rank::HttpRequest,
            "an 'http-request'",
            proxy.http_request.is_empty(),
        ),
        (Rank::Redirect, "a 'redirect'", proxy.redirects.is_empty()),
        (
            Rank::UseBackend,
            "a 'use_backend'",
            proxy.use_backends.is_empty(),
        ),
        (
            Rank::UseServer,
            "a 'use-server'",
            proxy.use_servers.is_empty(),
        ),
    ];
    let Some((_, kind, _)) = before
        .into_iter()
        .find(|(rank, _, empty)| own < *rank && own != Rank::Free && !empty)
    else {
        return;
    };
    let this = match own {
        Rank::TcpConnection | Rank::TcpSession | Rank::TcpContent => "tcp-request",
        _ => line.word(0),
    };
    cx.warn(
        line,
        0,
        format!("a '{this}' rule placed after {kind} rule will still be processed before."),
        Some("write rules in the order they run".into()),
    );
}

fn inspect_delay(cx: &mut Cx<'_>, line: &Arc<Line>, slot: fn(&mut RawProxy) -> &mut Option<u64>) {
    let word = line.keyword_len;
    if !rules_allowed(cx, line) || cx.need(line, word, "a delay").is_none() {
        return;
    }
    if let Some(ms) = cx.time_ms(line, word, TimeUnit::Ms)
        && cx.no_more(line, word + 1)
    {
        if slot(cx.proxy()).is_some() {
            let name = line.keyword();
            let message = format!(
                "ignoring {name} (was already defined) in {}",
                cx.whereabouts()
            );
            let hint = "the first one counts: take one of them out".into();
            return cx.warn(line, 0, message, Some(hint));
        }
        *slot(cx.proxy()) = (ms > 0).then_some(ms);
    }
}
