//! `h1-case-adjust`: how header names are written for peers that want them so (manual 3.1).

use std::sync::Arc;

use super::only_text;
use crate::cx::Cx;
use crate::line::Line;
use crate::registry::{Keyword, Sections, kw};

const G: Sections = Sections::GLOBAL;

#[rustfmt::skip]
pub(super) static KEYWORDS: &[Keyword] = &[
    kw("h1-case-adjust", G, "<from> <to>", "how a header name is written for bogus peers", one),
    kw("h1-case-adjust-file", G, "<hdrs-file>", "a file of `h1-case-adjust` pairs", file),
];

fn one(cx: &mut Cx<'_>, line: &Arc<Line>) {
    let word = line.keyword_len;
    if cx.need(line, word, "a name in lower case").is_none()
        || cx
            .need(line, word + 1, "the same name as it is to be written")
            .is_none()
        || !cx.no_more(line, word + 2)
    {
        return;
    }
    if let Err(why) = add(cx, line.word(word), line.word(word + 1)) {
        cx.error_at(line, word, format!("'{}' : {why}", line.keyword()));
    }
}

/// The file may only be read once all lines are: the last one counts.
fn file(cx: &mut Cx<'_>, line: &Arc<Line>) {
    let word = line.keyword_len;
    let Some(path) = only_text(cx, line, "a file") else {
        return;
    };
    let text = match cx.load_file(&path) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(why) => return cx.error_at(line, word, format!("'{}' : {why}", line.keyword())),
    };
    let from_file = std::mem::take(&mut cx.global().h1_case_from_file);
    for name in from_file {
        cx.global().h1_case_adjust.remove(&name);
    }
    for (n, row) in text.lines().enumerate() {
        let row = row.trim();
        if row.is_empty() || row.starts_with('#') {
            continue;
        }
        let mut names = row.split_ascii_whitespace();
        let added = match (names.next(), names.next(), names.next()) {
            (Some(from), Some(to), None) => add(cx, from, to).map(|()| from.to_owned()),
            _ => Err("two names are expected".to_owned()),
        };
        match added {
            Ok(name) => cx.global().h1_case_from_file.push(name),
            Err(why) => {
                let message = format!("'{}' : {path}:{} : {why}", line.keyword(), n + 1);
                return cx.error_at(line, word, message);
            }
        }
    }
}

fn add(cx: &mut Cx<'_>, from: &str, to: &str) -> Result<(), String> {
    if !from.eq_ignore_ascii_case(to) {
        return Err(format!(
            "'{from}' and '{to}' must not differ but in their case"
        ));
    }
    if from.chars().any(|c| c.is_ascii_uppercase()) {
        return Err(format!("'{from}' must be in lower case"));
    }
    let map = &mut cx.global().h1_case_adjust;
    match map.insert(from.to_owned(), to.to_owned()) {
        None => Ok(()),
        Some(_) => Err(format!("duplicate entry '{from}'")),
    }
}
