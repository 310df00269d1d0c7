//! Limits of the process: connections, file descriptors, rates, checks (manual chapters 3.1 and 3.2).

use std::sync::Arc;

use super::{first_time, only_time_ms, only_uint, switch};
use crate::cx::Cx;
use crate::line::Line;
use crate::model::Global;
use crate::registry::{Keyword, Sections, kw};

const G: Sections = Sections::GLOBAL;
const MAX: u32 = i32::MAX as u32;

#[rustfmt::skip]
pub(super) static KEYWORDS: &[Keyword] = &[
    kw("maxconn", G, "<number>", "most concurrent connections of the process (like -n)", |cx, line| {
        let Some(n) = only_uint(cx, line, 0, MAX) else { return };
        // As in HAProxy, 0 is the same as not given.
        if first_time(cx, line, cx.raw.global.maxconn.is_some()) { cx.global().maxconn = (n > 0).then_some(n); }
    }),
    kw("maxconnrate", G, "<number>", "most new connections a second", |cx, line| rate(cx, line, |g| &mut g.maxconnrate)),
    kw("maxsessrate", G, "<number>", "most new sessions a second", |cx, line| rate(cx, line, |g| &mut g.maxsessrate)),
    kw("maxpipes", G, "<number>", "most pipes for splicing", |cx, line| {
        let Some(n) = only_uint(cx, line, 0, MAX) else { return };
        if first_time(cx, line, cx.raw.global.maxpipes.is_some()) { cx.global().maxpipes = Some(n); }
    }),
    kw("ulimit-n", G, "<number>", "most file descriptors of the process", |cx, line| {
        let Some(n) = only_uint(cx, line, 0, u32::MAX) else { return };
        if first_time(cx, line, cx.raw.global.ulimit_n.is_some()) { cx.global().ulimit_n = Some(n.into()); }
    }),
    kw("fd-hard-limit", G, "<number>", "upper bound of what file descriptors are asked for", |cx, line| {
        let Some(n) = only_uint(cx, line, 0, u32::MAX) else { return };
        if first_time(cx, line, cx.raw.global.fd_hard_limit.is_some()) { cx.global().fd_hard_limit = Some(n.into()); }
    }),
    kw("strict-limits", G, "", "refuses to start when the limits cannot be raised", |cx, line| {
        if let Some(on) = switch(cx, line, true) { cx.global().strict_limits = on; }
    }).no(),
    kw("spread-checks", G, "<0..50, in percent>", "randomness of the interval between health checks", |cx, line| {
        if let Some(n) = only_uint(cx, line, 0, 50) { cx.global().spread_checks_percent = n; }
    }),
    kw("max-spread-checks", G, "<time>", "most the first checks are spread over", |cx, line| {
        if let Some(ms) = only_time_ms(cx, line) { cx.global().max_spread_checks_ms = Some(ms); }
    }),
    kw("nosplice", G, "", "splices nothing (like -dS)", |cx, line| {
        if let Some(on) = switch(cx, line, false) { cx.global().nosplice = on; }
    }),
    kw("noreuseport", G, "", "uses no SO_REUSEPORT (like -dR)", |cx, line| {
        if let Some(on) = switch(cx, line, false) { cx.global().noreuseport = on; }
    }),
    kw("busy-polling", G, "", "workers never sleep while they wait for events", |cx, line| {
        if let Some(on) = switch(cx, line, false) { cx.global().busy_polling = on; }
    }).no(),
    kw("h1-accept-payload-with-any-method", G, "", "accepts HTTP/1.0 GET, HEAD and DELETE requests with a body", |cx, line| {
        if cx.no_more(line, line.keyword_len) { cx.global().h1_accept_payload_with_any_method = true; }
    }),
    kw("h1-do-not-close-on-insecure-transfer-encoding", G, "", "keeps HTTP/1 connections after messages with a doubtful Transfer-Encoding", |cx, line| {
        if cx.no_more(line, line.keyword_len) { cx.global().h1_keeps_insecure_encoding = true; }
    }),
    kw("http-err-codes", G, "[+-]<range>[,...]", "statuses counted as HTTP errors of the client", |cx, line| codes(cx, line, true)).no_effect("only the counters of stick tables tell them apart, which are not implemented by Sluice yet"),
    kw("http-fail-codes", G, "[+-]<range>[,...]", "statuses counted as failures of the server", |cx, line| codes(cx, line, false)).no_effect("only the counters of stick tables tell them apart, which are not implemented by Sluice yet"),
];

fn rate(cx: &mut Cx<'_>, line: &Arc<Line>, field: fn(&mut Global) -> &mut u32) {
    let Some(n) = only_uint(cx, line, 0, MAX) else {
        return;
    };
    let already = *field(cx.global()) != 0;
    if first_time(cx, line, already) {
        *field(cx.global()) = n;
    }
}

/// Status ranges: `400-499,-401`. A list that begins without a sign replaces the default.
fn codes(cx: &mut Cx<'_>, line: &Arc<Line>, errors: bool) {
    let global = cx.global();
    let (slot, default) = match errors {
        true => (global.http_err_codes.take(), vec![(400, 499)]),
        false => (global.http_fail_codes.take(), vec![(500, 500), (502, 599)]),
    };
    let mut set = [false; 600];
    for (low, high) in slot.unwrap_or(default) {
        (low..=high).for_each(|c| set[usize::from(c)] = true);
    }
    if line.arg(0).is_empty() {
        cx.error_at(
            line,
            line.keyword_len,
            format!("'{}' expects status codes as argument.", line.keyword()),
        );
        return;
    }
    for at in line.keyword_len..line.words.len() {
        let mut start = 0;
        for part in line.word(at).split(',') {
            let span = start..start + part.len();
            start += part.len() + 1;
            let Some((sign, low, high)) = code_range(part) else {
                cx.error(
                    line,
                    at,
                    span,
                    format!(
                        "'{}' : '{part}' is no range of status codes",
                        line.keyword()
                    ),
                    Some("write codes from 100 to 599 as 404, 400-499, +429 or -401".into()),
                );
                return;
            };
            if sign.is_none() {
                set = [false; 600];
            }
            (low..=high).for_each(|c| set[usize::from(c)] = sign != Some('-'));
        }
    }
    let mut ranges: Vec<(u16, u16)> = Vec::new();
    for code in (100..600u16).filter(|c| set[usize::from(*c)]) {
        match ranges.last_mut() {
            Some((_, high)) if *high + 1 == code => *high = code,
            _ => ranges.push((code, code)),
        }
    }
    match errors {
        true => cx.global().http_err_codes = Some(ranges),
        false => cx.global().http_fail_codes = Some(ranges),
    }
}

fn code_range(text: &str) -> Option<(Option<char>, u16, u16)> {
    let sign = text.chars().next().filter(|c| matches!(c, '+' | '-'));
    let rest = &text[sign.map_or(0, char::len_utf8)..];
    let (low, high) = rest.split_once('-').unwrap_or((rest, rest));
    let (low, high) = (low.parse().ok()?, high.parse().ok()?);
    ((100..600).contains(&low) && (low..600).contains(&high)).then_some((sign, low, high))
}
