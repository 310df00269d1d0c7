//! `stats ...` lines of proxies: the statistics page.

use std::sync::Arc;

use sluice_expr::place::Place;

use crate::cx::Cx;
use crate::line::Line;
use crate::model::{Caps, Stats};
use crate::registry::{Keyword, Sections, kw};

use super::rules::RuleSet;

const ALL: Sections = Sections::ALL_PROXIES;

#[rustfmt::skip]
pub(crate) static KEYWORDS: &[Keyword] = &[
    kw("stats enable", ALL, "", "serve the statistics page", |cx, line| {
        if cx.no_more(line, line.keyword_len) {
            page(cx);
        }
    }),
    kw("stats uri", ALL, "<prefix>", "where the page is", |cx, line| {
        if let Some(uri) = cx.need(line, line.keyword_len, "a URI prefix") {
            uri.clone_into(&mut page(cx).uri);
        }
    }),
    kw("stats realm", ALL, "<realm>", "realm shown when a password is asked for", |cx, line| {
        if let Some(realm) = cx.need(line, line.keyword_len, "a realm") {
            realm.clone_into(&mut page(cx).realm);
        }
    }),
    kw("stats auth", ALL, "<user>:<password>", "who may see the page", auth),
    kw("stats refresh", ALL, "<delay>", "how often the page reloads itself", |cx, line| {
        if let Some(s) = cx.time_s(line, line.keyword_len) {
            page(cx).refresh_s = Some(s);
        }
    }),
    kw("stats hide-version", ALL, "", "do not show the version", |cx, _| page(cx).hide_version = true),
    kw("stats show-version", ALL, "", "show the version", |cx, _| page(cx).hide_version = false),
    kw("stats show-legends", ALL, "", "show more details in tool tips", |cx, _| page(cx).show_legends = true),
    kw("stats show-modules", ALL, "", "show statistics of modules", |cx, _| page(cx).show_modules = true).no_effect("there are no modules with statistics of their own"),
    kw("stats show-node", ALL, "[<name>]", "show a name of this machine", |cx, line| {
        page(cx).show_node = Some(line.arg(0).to_owned());
    }),
    kw("stats show-desc", ALL, "[<text>]", "show a text", |cx, line| {
        page(cx).show_desc = Some(line.texts(line.keyword_len).join(" "));
    }),
    kw("stats scope", ALL, "{ <proxy> | . }", "show only this proxy", |cx, line| {
        if let Some(name) = cx.need(line, line.keyword_len, "a proxy's name") {
            page(cx).scope.push(name.to_owned());
        }
    }),
    kw("stats admin", Sections::FLB, "{ if | unless } <condition>", "who may change servers on the page", admin),
];

/// The page under construction; the first `stats` line of a section makes it.
fn page<'c>(cx: &'c mut Cx<'_>) -> &'c mut Stats {
    cx.proxy().settings.stats.get_or_insert_default()
}

fn auth(cx: &mut Cx<'_>, line: &Arc<Line>) {
    let Some(account) = cx.need(line, line.keyword_len, "a user:password account") else {
        return;
    };
    let (user, password) = account.split_once(':').unwrap_or((account, ""));
    let account = (user.to_owned(), password.to_owned());
    let stats = page(cx);
    if stats.auth.iter().any(|(known, _)| *known == account.0) {
        let message = format!("uri auth: ignoring duplicated user '{user}'.");
        return cx.warn(line, line.keyword_len, message, None);
    }
    stats.auth.push(account);
}

fn admin(cx: &mut Cx<'_>, line: &Arc<Line>) {
    let word = line.keyword_len;
    if !line.has(word) {
        return cx.error_at(
            line,
            word,
            "'stats admin' requires either 'if' or 'unless' followed by a condition",
        );
    }
    let caps: Caps = cx.proxy().caps;
    let place: Place = RuleSet::Stats.place(caps);
    let Some(Some(cond)) = cx.cond(line, word, place) else {
        return;
    };
    page(cx);
    cx.proxy().stats_admin.push(cond);
}
