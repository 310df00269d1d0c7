//! What a line is before it is words: comment, continuation, include, condition, parameters.

use super::LINE_LENGTH_MAX;
use std::collections::HashMap;

/// The line up to a `#` or `!` that stands outside quotes.
pub(super) fn without_comment(line: &str) -> &str {
    let mut quote = None;
    let mut escaped = false;
    for (at, c) in line.char_indices() {
        if escaped {
            escaped = false;
            continue;
        }
        match (quote, c) {
            (_, '\\') if at + 1 < line.len() => escaped = true,
            (None, '#' | '!') => return &line[..at],
            (None, '"' | '\'') => quote = Some(c),
            (Some(q), c) if q == c => quote = None,
            _ => {}
        }
    }
    line
}

/// The line without a trailing backslash, and whether it had one.
pub(super) fn continued(line: &str) -> (&str, bool) {
    match line.strip_suffix('\\') {
        Some(rest) => (rest, true),
        None => (line, false),
    }
}

pub(super) fn include(line: &str) -> Option<&str> {
    let (word, rest) = line.split_once([' ', '\t'])?;
    matches!(
        word,
        "include" | "includer" | "includem" | "includew" | "includeb" | "includea"
    )
    .then(|| rest.trim().trim_matches('"'))
}

/// Resolves a leading `@ID` or `@^ID`: the rest of the line if it applies, the line itself if it has no condition.
pub(super) fn condition<'a>(line: &'a str, config_id: &str) -> Option<&'a str> {
    let Some(tail) = line.strip_prefix('@') else {
        return Some(line);
    };
    let (negative, tail) = match tail.strip_prefix('^') {
        Some(t) => (true, t),
        None => (false, tail),
    };
    let (id, rest) = tail.split_once([' ', '\t']).unwrap_or((tail, ""));
    ((id == config_id) != negative).then(|| rest.trim_start())
}

/// `$NAME=VALUE`.
pub(super) fn param_definition(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.strip_prefix('$')?.split_once('=')?;
    is_name(name).then_some((name, value))
}

pub(super) fn is_name(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// Replaces each known `$NAME` (before white space or the end) and `${NAME}`; `None` when nothing was replaced.
pub(super) fn substitute(text: &str, params: &HashMap<String, String>) -> Option<String> {
    replace_with(text, |name| params.get(name).map(String::as_str))
}

pub(super) fn substitute_only(text: &str, values: &[(String, String)]) -> Option<String> {
    replace_with(text, |name| {
        values
            .iter()
            .find(|(k, _)| k == name)
            .map(|(_, v)| v.as_str())
    })
}

pub(super) fn replace_with<'v>(
    text: &str,
    value: impl Fn(&str) -> Option<&'v str>,
) -> Option<String> {
    let mut out = String::new();
    let mut rest = text;
    let mut replaced = false;
    while let Some(at) = rest.find('$') {
        let (before, dollar) = rest.split_at(at);
        out.push_str(before);
        let tail = dollar.get(1..).unwrap_or("");
        let (name, after) = match tail.strip_prefix('{') {
            Some(inner) => match inner.split_once('}') {
                Some((name, after)) => (name, after),
                None => ("", tail),
            },
            None => {
                let end = tail
                    .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
                    .unwrap_or(tail.len());
                let after = tail.get(end..).unwrap_or("");
                match after.chars().next() {
                    Some(c) if !c.is_whitespace() => ("", tail),
                    _ => (tail.get(..end).unwrap_or(""), after),
                }
            }
        };
        match value(name).filter(|_| !name.is_empty()) {
            Some(v) => {
                out.push_str(v.trim_end_matches('\n'));
                replaced = true;
                rest = after;
            }
            None => {
                out.push('$');
                rest = tail;
            }
        }
        if out.len() > LINE_LENGTH_MAX {
            break;
        }
    }
    out.push_str(rest);
    replaced.then_some(out)
}

/// `${_HASH}`, `${_BANG}` and `${_RANDOM [MIN [MAX]]}`: after comments are gone, so that they are text.
pub(super) fn literals(text: &str) -> String {
    if !text.contains("${_") {
        return text.to_string();
    }
    text.replace("${_HASH}", "#").replace("${_BANG}", "!")
}
