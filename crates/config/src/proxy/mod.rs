//! Keywords of the proxy sections: `defaults`, `frontend`, `listen`, `backend` (manual chapters 4 and 5). One file a
//! topic, each with its table of keywords above the handlers.

mod action;
mod balance;
mod basic;
mod bind;
mod capture;
mod check;
mod check_expect;
mod check_proto;
mod cookie;
mod email;
mod later;
mod logging;
mod obsolete;
mod options;
mod redirect;
mod reply;
mod rules;
mod server;
mod server_check;
mod source;
mod stats;
mod switching;
mod timeouts;

pub(crate) use bind::lone_bind;
pub(crate) use check::{build as build_check, unused_rules as unused_check_rules};
pub(crate) use reply::{error_code, error_file};

use std::sync::Arc;

use sluice_expr::pattern::Regex;
use sluice_expr::place::Place;
use sluice_expr::{Expr, LogFormat, Purpose};

use crate::cx::{Cx, Pending};
use crate::diag::suggest;
use crate::line::Line;
use crate::model::Bind;
use crate::raw::RawServer;
use crate::registry::{Keyword, LineWord};

/// The words of `bind` lines.
pub(crate) fn bind_words() -> &'static [LineWord<Bind>] {
    bind::WORDS
}

/// The words of `server` lines.
pub(crate) fn server_words() -> [&'static [LineWord<RawServer>]; 2] {
    [server::WORDS, server_check::WORDS]
}

/// The tables, in the order of the documentation.
pub(crate) static TABLES: &[&[Keyword]] = &[
    basic::KEYWORDS,
    timeouts::KEYWORDS,
    options::KEYWORDS,
    bind::KEYWORDS,
    switching::KEYWORDS,
    capture::KEYWORDS,
    logging::KEYWORDS,
    email::KEYWORDS,
    stats::KEYWORDS,
    reply::KEYWORDS,
    rules::KEYWORDS,
    action::verdict::KEYWORDS,
    action::header::KEYWORDS,
    action::uri::KEYWORDS,
    action::stream::KEYWORDS,
    action::store::KEYWORDS,
    action::later::KEYWORDS,
    redirect::KEYWORDS,
    balance::KEYWORDS,
    cookie::KEYWORDS,
    server::KEYWORDS,
    source::KEYWORDS,
    check::KEYWORDS,
    later::KEYWORDS,
    obsolete::KEYWORDS,
];

/// Warns when this section has said the same keyword before; what was inherited may be changed in silence.
fn once(cx: &mut Cx<'_>, line: &Arc<Line>) {
    let keyword = line.keyword();
    let proxy = cx.proxy();
    if proxy.is_defaults() || proxy.seen.insert(keyword.clone()) {
        return;
    }
    cx.warn(
        line,
        0,
        format!("overwriting '{keyword}' which was already specified"),
        Some("the last one wins; remove the others".into()),
    );
}

/// The value of the word at an index out of a fixed choice.
pub(crate) fn choice<T: Copy>(
    cx: &mut Cx<'_>,
    line: &Line,
    word: usize,
    among: &[(&'static str, T)],
) -> Option<T> {
    let text = line.word(word);
    if let Some((_, value)) = among.iter().find(|(name, _)| *name == text) {
        return Some(*value);
    }
    let names: Vec<&str> = among.iter().map(|(name, _)| *name).collect();
    let hint = suggest(text, names.iter().copied()).map(|near| format!("did you mean '{near}'?"));
    let got = match text {
        "" => String::new(),
        _ => format!(" (got '{text}')"),
    };
    cx.error(
        line,
        word,
        0..0,
        format!("'{}' expects {}{got}", context(line, word), list(&names)),
        hint,
    );
    None
}

/// "'a', 'b' or 'c'".
pub(crate) fn list(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|n| format!("'{n}'")).collect();
    match quoted.split_last() {
        None => String::new(),
        Some((only, [])) => only.clone(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
    }
}

/// The keyword, and the word before `word` when that is an argument's name.
fn context(line: &Line, word: usize) -> String {
    match word > line.keyword_len {
        true => format!("{} ... {}", line.keyword(), line.word(word - 1)),
        false => line.keyword(),
    }
}

/// A log-format that is the argument of an action.
fn format(cx: &mut Cx<'_>, line: &Arc<Line>, word: usize, place: Place) -> Option<LogFormat> {
    if !line.has(word) {
        cx.need(line, word, "a log-format")?;
    }
    cx.log_format(line, word, place, Purpose::Argument)
}

/// A log-format whose text is not a word as it stands (a file's content, a part of a word); `word` is what faults are
/// shown at.
fn text_format(
    cx: &mut Cx<'_>,
    line: &Arc<Line>,
    word: usize,
    text: &str,
    place: Place,
) -> Option<LogFormat> {
    let format = cx.with_ctx(line, word, place, |ctx, _| {
        LogFormat::parse(text, ctx, Purpose::Argument).map_err(|mut e| {
            // Offsets into another text than the word's say nothing about the source.
            e.span = 0..0;
            e
        })
    })?;
    for warning in format.warnings() {
        cx.expr_warning(line, word, warning.clone().at(0..0));
    }
    cx.bind_later(Pending::Format(format.clone()), line, word);
    Some(format)
}

/// A sample expression that may go on over several words (`src lower` is `src,lower`); moves past it.
fn expr(cx: &mut Cx<'_>, line: &Arc<Line>, at: &mut usize, place: Place) -> Option<Expr> {
    cx.need(line, *at, "a sample expression")?;
    let (expr, taken) = cx.expr_words(line, *at, place)?;
    *at += taken;
    Some(expr)
}

/// A regular expression that is one word.
fn regex(cx: &mut Cx<'_>, line: &Line, word: usize, ignore_case: bool) -> Option<Arc<Regex>> {
    let text = cx.need(line, word, "a regular expression")?;
    match Regex::new(text, ignore_case) {
        Ok(regex) => Some(Arc::new(regex)),
        Err(message) => {
            cx.error_at(line, word, message);
            None
        }
    }
}

/// Bytes written as pairs of hexadecimal digits.
fn hex_bytes(cx: &mut Cx<'_>, line: &Line, word: usize) -> Option<Vec<u8>> {
    let text = cx.need(line, word, "hexadecimal digits")?;
    if let Some((at, c)) = text.char_indices().find(|(_, c)| !c.is_ascii_hexdigit()) {
        cx.error(
            line,
            word,
            at..at + c.len_utf8(),
            format!("'{c}' is not a hexadecimal digit"),
            None,
        );
        return None;
    }
    if text.len() % 2 != 0 {
        cx.error(
            line,
            word,
            text.len() - 1..text.len(),
            format!("an even number of hexadecimal digits is expected in '{text}'"),
            Some("two digits make one byte".into()),
        );
        return None;
    }
    let digits: Vec<u8> = text
        .chars()
        .filter_map(|c| c.to_digit(16))
        .filter_map(|d| u8::try_from(d).ok())
        .collect();
    Some(
        digits
            .chunks_exact(2)
            .map(|pair| (pair[0] << 4) | pair[1])
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::list;

    #[test]
    fn choices_read_like_a_sentence() {
        assert_eq!(list(&["a"]), "'a'");
        assert_eq!(list(&["a", "b", "c"]), "'a', 'b' or 'c'");
    }
}
