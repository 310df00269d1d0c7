//! `redirect` lines and `http-request|http-response redirect` rules.

use std::sync::Arc;

use sluice_expr::LogFormat;

use crate::cx::Cx;
use crate::line::Line;
use crate::model::{Action, Redirect, RedirectKind};
use crate::raw::RawAction;
use crate::registry::{Keyword, Sections, kw};

use super::rules::{RuleSet, RuleWords, ready, rule};
use super::{list, text_format};
use crate::diag::suggest;

#[rustfmt::skip]
pub(crate) static KEYWORDS: &[Keyword] = &[kw(
    "redirect",
    Sections::FLB,
    "{ location <url> | prefix <prefix> | scheme <scheme> } [ code <code> ] [ <option> ]* [ { if | unless } <condition> ]",
    "send the client elsewhere, after all `http-request` rules",
    |cx, line| rule(cx, line, redirect_action),
)];

const CODES: [u16; 5] = [301, 302, 303, 307, 308];

/// Words that may stand in a redirect.
const WORDS: [&str; 11] = [
    "location",
    "prefix",
    "scheme",
    "code",
    "set-cookie",
    "set-cookie-fmt",
    "clear-cookie",
    "drop-query",
    "append-slash",
    "ignore-empty",
    "keep-query",
];

type Kind = fn(LogFormat) -> RedirectKind;

pub(super) fn redirect_action(
    cx: &mut Cx<'_>,
    line: &Arc<Line>,
    words: &mut RuleWords,
) -> Option<RawAction> {
    let mut target: Option<(usize, Kind)> = None;
    let mut redirect = Redirect {
        kind: RedirectKind::Location(constant(cx, line, words, "/")?),
        code: 302,
        drop_query: false,
        append_slash: false,
        ignore_empty: false,
        keep_query: false,
        set_cookie: None,
    };
    while line.has(words.at) {
        let at = words.at;
        let name = line.word(at);
        if matches!(name, "if" | "unless") {
            break;
        }
        words.at += 1;
        if matches!(
            name,
            "location"
                | "prefix"
                | "scheme"
                | "code"
                | "set-cookie"
                | "set-cookie-fmt"
                | "clear-cookie"
        ) {
            cx.need(line, at + 1, &format!("an argument after '{name}'"))?;
            words.at += 1;
        }
        match name {
            "location" => target = Some((at + 1, RedirectKind::Location)),
            "prefix" => target = Some((at + 1, RedirectKind::Prefix)),
            "scheme" => target = Some((at + 1, RedirectKind::Scheme)),
            "code" => redirect.code = code(cx, line, at + 1)?,
            // As HAProxy writes them, so that what is in browsers goes on working.
            "set-cookie" => {
                let text = format!("{}; path=/;", line.word(at + 1));
                redirect.set_cookie = Some(constant(cx, line, words, &text)?);
            }
            "set-cookie-fmt" => {
                let text = format!("{}; path=/;", line.word(at + 1));
                redirect.set_cookie = Some(text_format(cx, line, at + 1, &text, words.place)?);
            }
            "clear-cookie" => {
                let text = format!("{}; path=/; Max-Age=0;", line.word(at + 1));
                redirect.set_cookie = Some(constant(cx, line, words, &text)?);
            }
            "drop-query" => redirect.drop_query = true,
            "append-slash" => redirect.append_slash = true,
            "ignore-empty" => redirect.ignore_empty = true,
            "keep-query" => redirect.keep_query = true,
            other => {
                let hint = match suggest(other, WORDS) {
                    Some(near) => format!("did you mean '{near}'?"),
                    None => format!("it takes {}", list(&WORDS)),
                };
                cx.error(
                    line,
                    at,
                    0..0,
                    format!("'{}' : unknown word '{other}'", line.keyword()),
                    Some(hint),
                );
                return None;
            }
        }
    }
    let Some((word, kind)) = target else {
        cx.error_at(
            line,
            words.at,
            format!(
                "'{}' expects 'location', 'prefix' or 'scheme'",
                line.keyword()
            ),
        );
        return None;
    };
    let text = line.word(word).to_owned();
    // A response's own path is not known any more.
    if words.set == RuleSet::HttpResponse && line.word(word - 1) != "location" {
        cx.error_at(
            line,
            word - 1,
            format!("'{}' takes only 'location' in a response", line.keyword()),
        );
        return None;
    }
    // A `redirect` line takes its target as it stands; only the rules take log-formats.
    let format = match words.set {
        RuleSet::Redirect => constant(cx, line, words, &text)?,
        _ => text_format(cx, line, word, &text, words.place)?,
    };
    redirect.kind = kind(format);
    ready(Action::Redirect(Arc::new(redirect)))
}

fn constant(cx: &mut Cx<'_>, line: &Arc<Line>, words: &RuleWords, text: &str) -> Option<LogFormat> {
    text_format(cx, line, words.at, &text.replace('%', "%%"), words.place)
}

fn code(cx: &mut Cx<'_>, line: &Line, word: usize) -> Option<u16> {
    let text = line.word(word);
    let code = text.parse().ok().filter(|c| CODES.contains(c));
    if code.is_none() {
        cx.error(
            line,
            word,
            0..0,
            format!("'code': unsupported HTTP code '{text}'"),
            Some("a redirect is 301, 302, 303, 307 or 308".into()),
        );
    }
    code
}
