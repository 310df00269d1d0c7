//! `http-errors NAME`: error pages that proxies refer to by `errorfiles NAME` (manual chapter 3.8).

use std::sync::Arc;

use crate::cx::{Current, Cx};
use crate::line::Line;
use crate::model::{ErrorReplies, ErrorReply};
use crate::proxy::{error_code, error_file};
use crate::raw::HttpErrors;
use crate::registry::{Keyword, Sections, kw};

#[rustfmt::skip]
pub(super) static KEYWORDS: &[Keyword] = &[
    kw("errorfile", Sections::HTTP_ERRORS, "<code> <file>", "a whole response, for the errors of this status", errorfile),
];

pub(super) fn open(cx: &mut Cx<'_>, line: &Arc<Line>) {
    if line.word(1).is_empty() {
        return cx.error_at(line, 1, "missing name for http-errors section.");
    }
    let Some(name) = cx.name(line, 1, "a name") else {
        return;
    };
    if !cx.no_more(line, 2) {
        return;
    }
    if let Some(other) = cx.raw.http_errors.iter().find(|h| h.name == name) {
        let at = other.line.origin();
        let message = format!(
            "http-errors section '{name}' already exists (declared at {}:{}).",
            at.file, at.line
        );
        return cx.error_at(line, 1, message);
    }
    cx.section_name.clone_from(&name);
    cx.raw.http_errors.push(HttpErrors {
        name,
        line: line.clone(),
        errors: ErrorReplies::default(),
    });
    cx.current = Current::HttpErrors(cx.raw.http_errors.len() - 1);
}

fn errorfile(cx: &mut Cx<'_>, line: &Arc<Line>) {
    let Current::HttpErrors(section) = cx.current else {
        return;
    };
    let Some(status) = error_code(cx, line, 1) else {
        return;
    };
    let Some(raw) = error_file(cx, line, 2) else {
        return;
    };
    if !cx.no_more(line, 3) {
        return;
    }
    let by_status = &mut cx.raw.http_errors[section].errors.by_status;
    by_status.retain(|(s, _)| *s != status);
    by_status.push((status, ErrorReply::Raw(raw)));
}
