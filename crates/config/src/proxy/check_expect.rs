//! `http-check expect` and `tcp-check expect`.

use std::sync::Arc;

use sluice_expr::place::Place;

use crate::cx::Cx;
use crate::line::Line;
use crate::model::{CheckExpect, CheckMatch, NameMatch};

use super::check::{comment_word, constant_text};
use super::{choice, expr, format, hex_bytes, list, regex};
use crate::diag::suggest;

impl CheckExpect {
    /// An expectation with nothing but its match.
    pub fn plain(matcher: CheckMatch) -> Self {
        CheckExpect {
            negate: false,
            matcher,
            min_recv: None,
            ok_status: None,
            error_status: None,
            tout_status: None,
            on_success: None,
            on_error: None,
            status_code: None,
        }
    }
}

/// Status words a result may be given.
const OK_STATUS: [&str; 4] = ["L7OK", "L7OKC", "L6OK", "L4OK"];
const ERROR_STATUS: [&str; 4] = ["L4CON", "L6RSP", "L7RSP", "L7STS"];
const TIMEOUT_STATUS: [&str; 3] = ["L7TOUT", "L6TOUT", "L4TOUT"];

const TCP_WORDS: [&str; 6] = [
    "string",
    "rstring",
    "binary",
    "rbinary",
    "string-lf",
    "binary-lf",
];
const HTTP_WORDS: [&str; 7] = [
    "status",
    "rstatus",
    "hdr",
    "fhdr",
    "string",
    "rstring",
    "string-lf",
];
const OPTION_WORDS: [&str; 8] = [
    "min-recv",
    "comment",
    "ok-status",
    "error-status",
    "tout-status",
    "on-success",
    "on-error",
    "status-code",
];

/// Reads the words after `expect`: options in any order around one match.
pub(super) fn expect(
    cx: &mut Cx<'_>,
    line: &Arc<Line>,
    http: bool,
) -> Option<(Option<String>, CheckExpect)> {
    let mut at = line.keyword_len;
    let mut said = CheckExpect::plain(CheckMatch::Prefix(Vec::new()));
    let (mut comment, mut found) = (None, false);
    while line.has(at) {
        let name = line.word(at);
        match name {
            "comment" => {
                comment = Some(comment_word(cx, line, &mut at)?);
                continue;
            }
            "min-recv" => {
                let most = i64::from(i32::MAX);
                said.min_recv = cx
                    .int(line, at + 1, -1..=most)
                    .map(|n| i32::try_from(n).ok())?;
            }
            "ok-status" => said.ok_status = Some(status_word(cx, line, at + 1, &OK_STATUS)?),
            "error-status" => {
                said.error_status = Some(status_word(cx, line, at + 1, &ERROR_STATUS)?)
            }
            "tout-status" => {
                said.tout_status = Some(status_word(cx, line, at + 1, &TIMEOUT_STATUS)?)
            }
            "on-success" => said.on_success = Some(format(cx, line, at + 1, Place::CHECK)?),
            "on-error" => said.on_error = Some(format(cx, line, at + 1, Place::CHECK)?),
            "status-code" => {
                at += 1;
                said.status_code = Some(expr(cx, line, &mut at, Place::CHECK)?);
                continue;
            }
            _ if found => {
                cx.error_at(
                    line,
                    at,
                    format!(
                        "'{}' : only one pattern is expected (got '{name}' too)",
                        line.keyword()
                    ),
                );
                return None;
            }
            _ => {
                said.negate = name == "!" || name.starts_with('!');
                if name == "!" {
                    at += 1;
                }
                let word = line.word(at).trim_start_matches('!').to_owned();
                at += 1;
                said.matcher = matcher(cx, line, &mut at, &word, http)?;
                found = true;
                continue;
            }
        }
        at += 2;
    }
    if !found {
        cx.error_at(
            line,
            at,
            format!(
                "'{}' expects at least a match and its pattern",
                line.keyword()
            ),
        );
        return None;
    }
    Some((comment, said))
}

fn status_word(
    cx: &mut Cx<'_>,
    line: &Line,
    word: usize,
    among: &[&'static str],
) -> Option<String> {
    let pairs: Vec<(&'static str, &'static str)> = among.iter().map(|n| (*n, *n)).collect();
    choice(cx, line, word, &pairs).map(str::to_owned)
}

/// Reads the pattern of a match whose name stands before `at`.
fn matcher(
    cx: &mut Cx<'_>,
    line: &Arc<Line>,
    at: &mut usize,
    name: &str,
    http: bool,
) -> Option<CheckMatch> {
    let known: &[&str] = if http { &HTTP_WORDS } else { &TCP_WORDS };
    let word = *at;
    if !known.contains(&name) {
        let all: Vec<&str> = known.iter().chain(&OPTION_WORDS).copied().collect();
        let hint = match suggest(name, all.iter().copied()) {
            Some(near) => format!("did you mean '{near}'?"),
            None => format!("it takes {}", list(&all)),
        };
        let message = format!("'{}' : unknown match '{name}'", line.keyword());
        cx.error(line, word - 1, 0..0, message, Some(hint));
        return None;
    }
    if matches!(name, "hdr" | "fhdr") {
        return header(cx, line, at, name == "fhdr");
    }
    *at += 1;
    cx.need(line, word, &format!("a pattern after '{name}'"))?;
    Some(match name {
        "string" => CheckMatch::String(line.words.get(word)?.bytes().to_vec()),
        "rstring" => CheckMatch::Regex(regex(cx, line, word, false)?),
        "binary" => CheckMatch::Binary(hex_bytes(cx, line, word)?),
        // The regex sees the received bytes written in hexadecimal; its case does not matter.
        "rbinary" => CheckMatch::BinaryRegex(regex(cx, line, word, true)?),
        "string-lf" => CheckMatch::StringFormat(format(cx, line, word, Place::CHECK)?),
        "binary-lf" => CheckMatch::BinaryFormat(format(cx, line, word, Place::CHECK)?),
        "status" => CheckMatch::Status(statuses(cx, line, word)?),
        _ => CheckMatch::StatusRegex(regex(cx, line, word, false)?),
    })
}

/// `200-399,404`
fn statuses(cx: &mut Cx<'_>, line: &Line, word: usize) -> Option<Vec<(u16, u16)>> {
    let text = line.word(word);
    let mut ranges = Vec::new();
    let mut from = 0;
    for part in text.split(',') {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        let number = |t: &str| match t.bytes().all(|b| b.is_ascii_digit()) {
            true => t.parse::<u16>().ok(),
            false => None,
        };
        match (number(low), number(high)) {
            (Some(low), Some(high)) if low <= high => ranges.push((low, high)),
            _ => {
                cx.error(
                    line,
                    word,
                    from..from + part.len(),
                    format!("'{}' : invalid status codes '{part}'", line.keyword()),
                    Some("write codes and ranges such as 200-399,404".into()),
                );
                return None;
            }
        }
        from += part.len() + 1;
    }
    Some(ranges)
}

/// `hdr { name | name-lf } [-m METHOD] NAME [ { value | value-lf } [-m METHOD] VALUE ]`
fn header(cx: &mut Cx<'_>, line: &Arc<Line>, at: &mut usize, full: bool) -> Option<CheckMatch> {
    let name = match line.word(*at) {
        "name" => name_match(cx, line, at, false)?,
        "name-lf" => name_match(cx, line, at, true)?,
        got => {
            let message = format!(
                "'{}' expects 'name' or 'name-lf' after 'hdr' (got '{got}')",
                line.keyword()
            );
            cx.error_at(line, *at, message);
            return None;
        }
    };
    let value = match line.word(*at) {
        "value" => Some(name_match(cx, line, at, false)?),
        "value-lf" => Some(name_match(cx, line, at, true)?),
        _ => None,
    };
    Some(CheckMatch::Header { name, value, full })
}

#[derive(Clone, Copy, PartialEq)]
enum Method {
    Str,
    Beg,
    End,
    Sub,
    Reg,
}

fn name_match(
    cx: &mut Cx<'_>,
    line: &Arc<Line>,
    at: &mut usize,
    is_format: bool,
) -> Option<NameMatch> {
    *at += 1;
    let mut method = Method::Str;
    if line.word(*at) == "-m" {
        let among = [
            ("str", Method::Str),
            ("beg", Method::Beg),
            ("end", Method::End),
            ("sub", Method::Sub),
            ("reg", Method::Reg),
        ];
        method = choice(cx, line, *at + 1, &among)?;
        *at += 2;
    }
    let word = *at;
    let text = cx.need(line, word, "a pattern")?;
    *at += 1;
    if method == Method::Reg {
        if is_format {
            cx.error_at(line, word, "a regular expression cannot be a log-format");
            return None;
        }
        return Some(NameMatch::Regex(regex(cx, line, word, false)?));
    }
    let pattern = match is_format {
        true => format(cx, line, word, Place::CHECK)?,
        false => constant_text(cx, line, word, text)?,
    };
    Some(match method {
        Method::Beg => NameMatch::Prefix(pattern),
        Method::End => NameMatch::Suffix(pattern),
        Method::Sub => NameMatch::Sub(pattern),
        Method::Str | Method::Reg => NameMatch::Exact(pattern),
    })
}
