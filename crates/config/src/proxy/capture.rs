//! `capture ...` and `declare capture`: what the log keeps of headers and cookies.

use std::sync::Arc;

use crate::cx::Cx;
use crate::line::Line;
use crate::model::{Capture, CookieCapture};
use crate::raw::RawProxy;
use crate::registry::{Keyword, Sections, kw};

#[rustfmt::skip]
pub(crate) static KEYWORDS: &[Keyword] = &[
    kw("capture cookie", Sections::FL, "<name> len <length>", "keep a cookie of request and response for the log", cookie)
        .ignored(),
    kw("capture request header", Sections::FL, "<name> len <length>", "keep a request header for the log", |cx, line| {
        header(cx, line, |p| &mut p.captures_req);
    })
    .ignored(),
    kw("capture response header", Sections::FL, "<name> len <length>", "keep a response header for the log", |cx, line| {
        header(cx, line, |p| &mut p.captures_res);
    })
    .ignored(),
    kw("declare capture request", Sections::FL, "len <length>", "make a slot that request rules may fill", |cx, line| {
        declare(cx, line, |p| &mut p.captures_req);
    }),
    kw("declare capture response", Sections::FL, "len <length>", "make a slot that response rules may fill", |cx, line| {
        declare(cx, line, |p| &mut p.captures_res);
    }),
];

type Slots = fn(&mut RawProxy) -> &mut Vec<Capture>;

/// `len N` as the last words of a line. More than a log line can hold is no use.
fn len(cx: &mut Cx<'_>, line: &Line, at: usize) -> Option<usize> {
    if line.word(at) != "len" {
        cx.error_at(
            line,
            at,
            format!("'{}' expects 'len <length>'", line.keyword()),
        );
        return None;
    }
    let len = cx.uint(line, at + 1, 1..=65_535)?;
    cx.no_more(line, at + 2).then_some(len as usize)
}

fn cookie(cx: &mut Cx<'_>, line: &Arc<Line>) {
    let word = line.keyword_len;
    let Some(name) = cx.need(line, word, "a cookie's name") else {
        return;
    };
    let name = name.to_owned();
    if let Some(len) = len(cx, line, word + 1) {
        // A name that ends in `=` is the whole name, any other a prefix of names.
        let exact = name.strip_suffix('=').map(str::to_owned);
        cx.proxy().capture_cookie = Some(CookieCapture {
            prefix: exact.is_none(),
            name: exact.unwrap_or(name),
            len,
        });
    }
}

fn header(cx: &mut Cx<'_>, line: &Arc<Line>, slots: Slots) {
    let word = line.keyword_len;
    let Some(name) = super::action::header::header_name(cx, line, word) else {
        return;
    };
    if let Some(len) = len(cx, line, word + 1) {
        let header = Some(name);
        slots(cx.proxy()).push(Capture { header, len });
    }
}

fn declare(cx: &mut Cx<'_>, line: &Arc<Line>, slots: Slots) {
    if let Some(len) = len(cx, line, line.keyword_len) {
        slots(cx.proxy()).push(Capture { header: None, len });
    }
}
