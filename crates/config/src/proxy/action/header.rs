//! Actions on headers and on the status line.

use std::sync::Arc;

use sluice_expr::Expr;
use sluice_expr::pattern::Regex;
use sluice_http::HeaderLine;

use crate::cx::{Cx, Pending};
use crate::line::Line;
use crate::model::{Action, HeaderListEdit, HeaderMatch};
use crate::proxy::rules::{RuleWords, ready};
use crate::proxy::{choice, expr, format, regex};
use crate::raw::RawAction;

actions! {
    "add-header" in [req res after] "<name> <fmt>" "add a header line"
        => |cx, line, words| {
            let (name, value) = name_format(cx, line, words)?;
            let line = constant_line(&name, &value);
            ready(Action::AddHeader { name, value, line })
        };
    "set-header" in [req res after] "<name> <fmt>" "add a header line in place of those of that name"
        => |cx, line, words| {
            let (name, value) = name_format(cx, line, words)?;
            let line = constant_line(&name, &value);
            ready(Action::SetHeader { name, value, line })
        };
    "early-hint" in [req] "<name> <fmt>" "send a header to the client in a 103 response"
        => |cx, line, words| {
            let (name, value) = name_format(cx, line, words)?;
            ready(Action::EarlyHint { name, value })
        };
    "del-header" in [req res after] "<name> [ -m { str | beg | end | sub | reg } ]" "remove the header lines of that name"
        => del_header;
    "replace-header" in [req res after] "<name> <regex> <fmt>" "replace what matches in each whole line of that name"
        => |cx, line, words| {
            let (name, regex, replace) = name_regex_format(cx, line, words)?;
            ready(Action::ReplaceHeader { name, regex, replace })
        };
    "replace-value" in [req res after] "<name> <regex> <fmt>" "replace what matches in each comma separated value of that name"
        => |cx, line, words| {
            let (name, regex, replace) = name_regex_format(cx, line, words)?;
            ready(Action::ReplaceValue { name, regex, replace })
        };
    "add-headers-bin" in [req res after] "<expr> [ prefix <fmt> ]" "add the headers of a binary list like that of `req.hdrs_bin`"
        => |cx, line, words| header_list(cx, line, words, HeaderListEdit::Add);
    "set-headers-bin" in [req res after] "<expr> [ prefix <fmt> ]" "add the headers of a binary list in place of those of their names"
        => |cx, line, words| header_list(cx, line, words, HeaderListEdit::Set);
    "del-headers-bin" in [req res after] "<expr> [ prefix <fmt> ]" "remove the headers whose names are in a binary list, with or without values"
        => |cx, line, words| header_list(cx, line, words, HeaderListEdit::Del);
    "set-status" in [res after] "<code> [ reason <text> ]" "change the response's status"
        => set_status;
}

fn constant_line(name: &str, value: &sluice_expr::LogFormat) -> Option<HeaderLine> {
    HeaderLine::new(name, value.as_constant()?)
}

fn name_format(
    cx: &mut Cx<'_>,
    line: &Arc<Line>,
    words: &mut RuleWords,
) -> Option<(String, sluice_expr::LogFormat)> {
    let name = header_name(cx, line, words.at)?;
    let value = format(cx, line, words.at + 1, words.place)?;
    words.at += 2;
    Some((name, value))
}

type NameRegexFormat = (String, Arc<Regex>, sluice_expr::LogFormat);

fn name_regex_format(
    cx: &mut Cx<'_>,
    line: &Arc<Line>,
    words: &mut RuleWords,
) -> Option<NameRegexFormat> {
    let name = header_name(cx, line, words.at)?;
    let regex = regex(cx, line, words.at + 1, false)?;
    let replace = format(cx, line, words.at + 2, words.place)?;
    words.at += 3;
    Some((name, regex, replace))
}

/// A header name. HAProxy sends whatever is written; what no recipient could read is refused here.
pub(crate) fn header_name(cx: &mut Cx<'_>, line: &Line, word: usize) -> Option<String> {
    let name = cx.need(line, word, "a header name")?;
    let wrong = |c: char| c.is_control() || c == ' ' || c == ':' || !c.is_ascii();
    // HTTP/2's pseudo-headers begin with a colon; nothing else may hold one.
    if let Some((at, c)) = name.char_indices().find(|(_, c)| wrong(*c)) {
        cx.error(
            line,
            word,
            at..at + c.len_utf8(),
            format!(
                "character '{}' is not permitted in header name '{name}'",
                c.escape_debug()
            ),
            None,
        );
        return None;
    }
    Some(name.to_owned())
}

#[derive(Clone, Copy)]
enum Method {
    Str,
    Beg,
    End,
    Sub,
    Reg,
}

fn del_header(cx: &mut Cx<'_>, line: &Arc<Line>, words: &mut RuleWords) -> Option<RawAction> {
    let word = words.at;
    words.at += 1;
    let mut method = Method::Str;
    if line.word(words.at) == "-m" {
        let among = [
            ("str", Method::Str),
            ("beg", Method::Beg),
            ("end", Method::End),
            ("sub", Method::Sub),
            ("reg", Method::Reg),
        ];
        method = choice(cx, line, words.at + 1, &among)?;
        words.at += 2;
    }
    let name = cx.need(line, word, "a header name")?.to_owned();
    ready(Action::DelHeader(match method {
        Method::Str => HeaderMatch::Exact(header_name(cx, line, word)?),
        Method::Beg => HeaderMatch::Prefix(name),
        Method::End => HeaderMatch::Suffix(name),
        Method::Sub => HeaderMatch::Sub(name),
        // Names are compared without case.
        Method::Reg => HeaderMatch::Regex(regex(cx, line, word, true)?),
    }))
}

/// The sample stands as it is or, as in a format, in `%[...]`: a format's text could not hold binary.
fn header_list(
    cx: &mut Cx<'_>,
    line: &Arc<Line>,
    words: &mut RuleWords,
    edit: HeaderListEdit,
) -> Option<RawAction> {
    let inner = line
        .word(words.at)
        .strip_prefix("%[")
        .and_then(|rest| rest.strip_suffix(']'));
    let list = match inner {
        Some(inner) => {
            let list = cx.with_ctx(line, words.at, words.place, |ctx, _| {
                Expr::parse(inner, ctx).map_err(|mut e| {
                    e.span = e.span.start + 2..e.span.end + 2;
                    e
                })
            })?;
            cx.bind_later(Pending::Expr(list.clone()), line, words.at);
            words.at += 1;
            list
        }
        None => expr(cx, line, &mut words.at, words.place)?,
    };
    let mut prefix = None;
    if line.word(words.at) == "prefix" {
        prefix = Some(format(cx, line, words.at + 1, words.place)?);
        words.at += 2;
    }
    ready(Action::HeaderList { edit, list, prefix })
}

fn set_status(cx: &mut Cx<'_>, line: &Arc<Line>, words: &mut RuleWords) -> Option<RawAction> {
    let code = cx.uint(line, words.at, 100..=999)?;
    words.at += 1;
    let mut reason = None;
    if line.word(words.at) == "reason" {
        reason = Some(
            cx.need(line, words.at + 1, "a text after 'reason'")?
                .to_owned(),
        );
        words.at += 2;
    }
    ready(Action::SetStatus {
        code: u16::try_from(code).unwrap_or(999),
        reason,
    })
}
