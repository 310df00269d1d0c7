//! ACLs and what they decide outside of the rule sets: `use_backend`, `use-server`, `monitor`, persistence exceptions.

use std::sync::Arc;

use sluice_expr::Cond;
use sluice_expr::place::Place;

use crate::cx::Cx;
use crate::line::{Line, Written};
use crate::model::PersistRule;
use crate::raw::{RawUseBackend, RawUseServer};
use crate::registry::{Keyword, Sections, kw};

use super::rules::{Rank, RuleSet, rules_allowed, warn_misplaced};

#[rustfmt::skip]
pub(crate) static KEYWORDS: &[Keyword] = &[
    kw("acl", Sections::ALL_PROXIES, "<name> <criterion> [flags] [operator] <value> ...", "declare an access list, or add to it", acl),
    kw("default_backend", Sections::DFL, "<backend>", "where traffic goes that no `use_backend` took", default_backend).ignored(),
    kw("use_backend", Sections::FL, "<backend> [ { if | unless } <condition> ]", "send traffic to a backend", use_backend).ignored(),
    kw("be-unpublished", Sections::LB, "", "no content switching leads to it until it is published by command", |cx, line| {
        if cx.no_more(line, line.keyword_len) { cx.proxy().unpublished = true; }
    }).ignored(),
    kw("force-be-switch", Sections::FL, "{ if | unless } <condition>", "let content switching lead to backends that are not published", |cx, line| {
        if let Some(cond) = condition(cx, line, line.keyword_len, Place::FE_USE_BACKEND) { cx.proxy().force_be_switch.push(cond); }
    }).ignored(),
    kw("use-server", Sections::LB, "<server> { if | unless } <condition>", "send traffic to a server", use_server).ignored(),
    kw("monitor fail", Sections::FL, "{ if | unless } <condition>", "when `monitor-uri` answers that all is not well", monitor_fail).ignored(),
    kw("monitor-uri", Sections::DFL, "<uri>", "a URI that the proxy answers itself, for monitors", monitor_uri).ignored(),
    kw("force-persist", Sections::LB, "{ if | unless } <condition>", "follow the cookie even to a server that is down", |cx, line| persist(cx, line, true)).ignored(),
    kw("ignore-persist", Sections::LB, "{ if | unless } <condition>", "do not follow the cookie", |cx, line| persist(cx, line, false)).ignored(),
];

fn acl(cx: &mut Cx<'_>, line: &Arc<Line>) {
    let word = line.keyword_len;
    if !rules_allowed(cx, line)
        || cx
            .need(line, word, "a name, a criterion and values")
            .is_none()
    {
        return;
    }
    if cx.name(line, word, "a name").is_none() {
        return;
    }
    // What uses the ACL decides what it may look at. The table lends itself to the fetch `acl()`, so it is taken out of
    // the proxy while it grows.
    let mut acls = std::mem::take(&mut cx.proxy().acls);
    cx.with_ctx(line, word, Place::all(), |ctx, _| {
        acls.declare(&line.texts(word), ctx)
    });
    cx.proxy().acl_lines.push(line.clone());
    for warning in acls.take_warnings() {
        cx.expr_warning(line, word, warning);
    }
    cx.proxy().acls = acls;
}

fn default_backend(cx: &mut Cx<'_>, line: &Arc<Line>) {
    let word = line.keyword_len;
    if cx.need(line, word, "a backend's name").is_some() && cx.no_more(line, word + 1) {
        cx.proxy().settings.default_backend = Some(Written::new(line, word));
    }
}

fn use_backend(cx: &mut Cx<'_>, line: &Arc<Line>) {
    let word = line.keyword_len;
    if cx.need(line, word, "a backend's name").is_none() {
        return;
    }
    warn_misplaced(cx, line, Rank::UseBackend);
    let Some(cond) = cx.cond(line, word + 1, Place::FE_USE_BACKEND) else {
        return;
    };
    let target = Written::new(line, word);
    cx.proxy().use_backends.push(RawUseBackend { target, cond });
}

fn use_server(cx: &mut Cx<'_>, line: &Arc<Line>) {
    let word = line.keyword_len;
    if cx.need(line, word, "a server's name").is_none() {
        return;
    }
    let Some(cond) = condition(cx, line, word + 1, Place::BE_SET_SERVER) else {
        return;
    };
    let target = Written::new(line, word);
    let cond = Some(cond);
    cx.proxy().use_servers.push(RawUseServer { target, cond });
}

/// A condition that has to be there.
fn condition(cx: &mut Cx<'_>, line: &Arc<Line>, word: usize, place: Place) -> Option<Cond> {
    if !line.has(word) {
        let message = format!(
            "'{}' requires either 'if' or 'unless' followed by a condition",
            line.keyword()
        );
        cx.error_at(line, word, message);
        return None;
    }
    cx.cond(line, word, place)?
}

fn monitor_fail(cx: &mut Cx<'_>, line: &Arc<Line>) {
    warn_misplaced(cx, line, Rank::Monitor);
    let place = RuleSet::HttpRequest.place(cx.proxy().caps);
    if let Some(cond) = condition(cx, line, line.keyword_len, place) {
        cx.proxy().monitor_fail.push(cond);
    }
}

fn monitor_uri(cx: &mut Cx<'_>, line: &Arc<Line>) {
    let word = line.keyword_len;
    if let Some(uri) = cx.need(line, word, "a URI") {
        let uri = uri.to_owned();
        if cx.no_more(line, word + 1) {
            cx.proxy().settings.monitor_uri = Some(uri);
        }
    }
}

fn persist(cx: &mut Cx<'_>, line: &Arc<Line>, force: bool) {
    // The cookie is looked at when the backend has the request, before a server is chosen.
    let place = Place::BE_HTTP_REQ;
    if let Some(cond) = condition(cx, line, line.keyword_len, place) {
        cx.proxy().persist_rules.push(PersistRule { force, cond });
    }
}
