//! Answers the proxy makes itself: `return`, `deny`, `tarpit`, `http-error`, and the error pages `errorfile`,
//! `errorfiles`, `errorloc*`.

use std::sync::Arc;

use sluice_expr::LogFormat;

use crate::cx::Cx;
use crate::line::{Line, Written};
use crate::model::{Action, ErrorReply, Reply, ReplyContent};
use crate::raw::{LateAction, RawAction, RawError, RawProxy};
use crate::registry::{Keyword, Sections, kw};

use super::action::header::header_name;
use super::rules::{RuleSet, RuleWords, ready};
use super::{format, text_format};
use crate::resolve::Resolver;

#[rustfmt::skip]
pub(crate) static KEYWORDS: &[Keyword] = &[
    kw("errorfile", Sections::ALL_PROXIES, "<code> <file>", "answer an error with a file's content", errorfile),
    kw("errorfiles", Sections::ALL_PROXIES, "<name> [<code> ...]", "answer errors as an `http-errors` section says", errorfiles),
    kw("errorloc", Sections::ALL_PROXIES, "<code> <url>", "answer an error with a redirect (302)", |cx, line| {
        errorloc(cx, line, 302)
    }),
    kw("errorloc302", Sections::ALL_PROXIES, "<code> <url>", "answer an error with a redirect that keeps the method", |cx, line| {
        errorloc(cx, line, 302)
    }),
    kw("errorloc303", Sections::ALL_PROXIES, "<code> <url>", "answer an error with a redirect that becomes a GET", |cx, line| {
        errorloc(cx, line, 303)
    }),
    kw(
        "http-error",
        Sections::ALL_PROXIES,
        "status <code> [ content-type <type> ] [ { default-errorfiles | errorfile <file> | errorfiles <name> | file <file> | lf-file <file> | string <text> | lf-string <fmt> } ] [ hdr <name> <fmt> ]*",
        "answer an error with a response of one's own",
        http_error,
    )
    .bytes(),
];

/// Status codes the proxy has a response for, and for which another may be given.
pub(crate) const ERROR_CODES: [u16; 20] = [
    200, 400, 401, 403, 404, 405, 407, 408, 410, 413, 421, 422, 425, 429, 500, 501, 502, 503, 504,
    505,
];

/// Largest error file or fixed body: what HAProxy's buffer would take with room to spare, so that a wrong path (a disk
/// image) is a message and not gigabytes of memory.
const BODY_MAX: usize = 16 << 20;

/// A status code out of [`ERROR_CODES`].
pub(crate) fn error_code(cx: &mut Cx<'_>, line: &Line, word: usize) -> Option<u16> {
    let text = cx.need(line, word, "a status code")?;
    let code = text.parse().ok().filter(|c| ERROR_CODES.contains(c));
    if code.is_none() {
        let known: Vec<String> = ERROR_CODES.iter().map(u16::to_string).collect();
        cx.error(
            line,
            word,
            0..0,
            format!("'{}' : status code '{text}' not handled", line.keyword()),
            Some(format!("the proxy itself answers {}", known.join(", "))),
        );
    }
    code
}

/// A file that is read now, with a bound on its size.
fn file(cx: &mut Cx<'_>, line: &Line, word: usize) -> Option<Arc<[u8]>> {
    let path = cx.need(line, word, "a file name")?;
    match cx.load_file(path) {
        Ok(bytes) if bytes.len() > BODY_MAX => {
            cx.error_at(line, word, format!("file '{path}' is larger than 16 MiB"));
            None
        }
        Ok(bytes) => Some(bytes.into()),
        Err(why) => {
            cx.error(
                line,
                word,
                0..0,
                format!("'{}' : error opening file '{path}'", line.keyword()),
                Some(why),
            );
            None
        }
    }
}

/// A whole HTTP response out of a file. An empty one means: close without an answer.
pub(crate) fn error_file(cx: &mut Cx<'_>, line: &Line, word: usize) -> Option<Arc<[u8]>> {
    let raw = file(cx, line, word)?;
    let first = raw.split(|b| *b == b'\n').next().unwrap_or_default();
    let status = first
        .strip_prefix(b"HTTP/1.")
        .and_then(|rest| rest.get(1..5))
        .is_some_and(|rest| rest[0] == b' ' && rest[1..].iter().all(u8::is_ascii_digit));
    let ended = raw.windows(2).any(|w| w == b"\n\n") || raw.windows(4).any(|w| w == b"\r\n\r\n");
    if raw.is_empty() || (status && ended) {
        return Some(raw);
    }
    let why = match status {
        false => "it does not begin with a status line such as `HTTP/1.0 503 Service Unavailable`",
        true => "no empty line ends its headers",
    };
    cx.error(
        line,
        word,
        0..0,
        format!(
            "'{}' : '{}' is not an HTTP response",
            line.keyword(),
            line.word(word)
        ),
        Some(format!(
            "{why}; write headers, an empty line, then the page"
        )),
    );
    None
}

fn errorfile(cx: &mut Cx<'_>, line: &Arc<Line>) {
    let word = line.keyword_len;
    let Some(status) = error_code(cx, line, word) else {
        return;
    };
    let Some(raw) = error_file(cx, line, word + 1) else {
        return;
    };
    if cx.no_more(line, word + 2) {
        let reply = ErrorReply::Raw(raw);
        cx.proxy()
            .settings
            .errors
            .push(RawError::One { status, reply });
    }
}

fn errorfiles(cx: &mut Cx<'_>, line: &Arc<Line>) {
    let word = line.keyword_len;
    if cx
        .need(line, word, "the name of an 'http-errors' section")
        .is_none()
    {
        return;
    }
    let mut codes = Vec::new();
    for at in word + 1..line.words.len() {
        match error_code(cx, line, at) {
            Some(code) => codes.push(code),
            None => return,
        }
    }
    let name = Written::new(line, word);
    cx.proxy()
        .settings
        .errors
        .push(RawError::Section { name, codes });
}

fn errorloc(cx: &mut Cx<'_>, line: &Arc<Line>, code: u16) {
    let word = line.keyword_len;
    let Some(status) = error_code(cx, line, word) else {
        return;
    };
    let Some(url) = cx.need(line, word + 1, "a URL") else {
        return;
    };
    let url = url.to_owned();
    if cx.no_more(line, word + 2) {
        let reply = ErrorReply::Location { code, url };
        cx.proxy()
            .settings
            .errors
            .push(RawError::One { status, reply });
    }
}

/// Where a reply's content comes from, before names are known.
enum Content {
    Ready(ReplyContent),
    /// `errorfiles NAME`: the word.
    Section(usize),
}

/// A reply as written.
struct Draft {
    status: u16,
    /// `deny_status` was written: without content it means the proxy's own page.
    status_only: bool,
    content: Option<(String, Content)>,
    content_type: Option<String>,
    headers: Vec<(String, LogFormat)>,
    bare: bool,
}

/// Reads the words of a reply up to a condition or the line's end.
fn draft(cx: &mut Cx<'_>, line: &Arc<Line>, words: &mut RuleWords, status: u16) -> Option<Draft> {
    let mut draft = Draft {
        status,
        status_only: false,
        content: None,
        content_type: None,
        headers: Vec::new(),
        bare: true,
    };
    while line.has(words.at) {
        let at = words.at;
        let name = line.word(at).to_owned();
        let content = match name.as_str() {
            "status" | "deny_status" => {
                let text = cx.need(line, at + 1, "a status code")?;
                let code = text.parse().ok().filter(|c| (200..=599).contains(c));
                let Some(code) = code else {
                    cx.error_at(
                        line,
                        at + 1,
                        format!("'{}' : unexpected status code '{text}'", line.keyword()),
                    );
                    return None;
                };
                draft.status = code;
                draft.status_only = name == "deny_status";
                draft.bare &= draft.status_only;
                words.at += 2;
                continue;
            }
            "content-type" => {
                draft.content_type = Some(cx.need(line, at + 1, "a media type")?.to_owned());
                draft.bare = false;
                words.at += 2;
                continue;
            }
            "hdr" => {
                let header = header_name(cx, line, at + 1)?;
                let value = format(cx, line, at + 2, words.place)?;
                draft.headers.push((header, value));
                draft.bare = false;
                words.at += 3;
                continue;
            }
            "default-errorfiles" | "errorfile" | "errorfiles" | "file" | "lf-file" | "string"
            | "lf-string" => {
                if let Some((before, _)) = &draft.content {
                    let message = format!(
                        "'{}' : unexpected '{name}', '{before}' was already given",
                        line.keyword()
                    );
                    cx.error_at(line, at, message);
                    return None;
                }
                content(cx, line, words, &name)?
            }
            _ => break,
        };
        draft.bare = false;
        draft.content = Some((name, content));
    }
    check(cx, line, &draft, words.at).then_some(draft)
}

fn content(
    cx: &mut Cx<'_>,
    line: &Arc<Line>,
    words: &mut RuleWords,
    name: &str,
) -> Option<Content> {
    let at = words.at + 1;
    words.at += 2;
    Some(Content::Ready(match name {
        "default-errorfiles" => {
            words.at -= 1;
            ReplyContent::Default
        }
        "errorfile" => ReplyContent::Raw(error_file(cx, line, at)?),
        "errorfiles" => {
            cx.need(line, at, "the name of an 'http-errors' section")?;
            return Some(Content::Section(at));
        }
        "file" => ReplyContent::Bytes(file(cx, line, at)?),
        "string" => {
            cx.need(line, at, "a text")?;
            ReplyContent::Bytes(line.words.get(at)?.bytes().into())
        }
        "lf-file" => {
            let bytes = file(cx, line, at)?;
            let Ok(text) = std::str::from_utf8(&bytes) else {
                cx.error_at(
                    line,
                    at,
                    format!("file '{}' is no UTF-8 text", line.word(at)),
                );
                return None;
            };
            ReplyContent::Format(text_format(cx, line, at, text, words.place)?)
        }
        _ => ReplyContent::Format(format(cx, line, at, words.place)?),
    }))
}

/// Says what does not fit together; false after an error.
fn check(cx: &mut Cx<'_>, line: &Line, draft: &Draft, at: usize) -> bool {
    let last = at.saturating_sub(1);
    let kind = draft.content.as_ref().map_or("", |(name, _)| name.as_str());
    let keyword = line.keyword();
    match kind {
        "file" | "lf-file" | "string" | "lf-string" => {
            if matches!(draft.status, 204 | 304) {
                cx.error_at(
                    line,
                    last,
                    format!(
                        "'{keyword}' : no body expected for {} responses",
                        draft.status
                    ),
                );
                return false;
            }
            if draft.content_type.is_none() {
                cx.error(
                    line,
                    last,
                    0..0,
                    format!("'{keyword}' : a content type must be given with a payload"),
                    Some("write `content-type text/plain`, or what the payload is".into()),
                );
                return false;
            }
        }
        "errorfile" | "errorfiles" | "default-errorfiles" => {
            let what = match (draft.content_type.is_some(), draft.headers.is_empty()) {
                (true, _) => "content-type",
                (false, false) => "hdr",
                (false, true) => "",
            };
            if !what.is_empty() {
                let message = format!(
                    "'{keyword}' : '{what}' has no effect on a response from an error file"
                );
                cx.warn(
                    line,
                    last,
                    message,
                    Some("write what is to be sent into the file".into()),
                );
            }
        }
        _ => {
            if let Some(media) = &draft.content_type {
                cx.warn(
                    line,
                    last,
                    format!("'{keyword}' : content-type '{media}' has no effect without a payload"),
                    None,
                );
            }
        }
    }
    let own_page = draft.status_only && draft.bare || kind == "default-errorfiles";
    if own_page && !ERROR_CODES.contains(&draft.status) {
        cx.error(
            line,
            last,
            0..0,
            format!(
                "'{keyword}' : the proxy has no page for status code '{}'",
                draft.status
            ),
            Some("give one with `content-type` and `string` or `file`".into()),
        );
        return false;
    }
    true
}

fn reply_of(draft: &Draft, content: ReplyContent) -> Arc<Reply> {
    Arc::new(Reply {
        status: draft.status,
        content,
        content_type: draft.content_type.clone(),
        headers: draft.headers.clone(),
    })
}

type MakeAction = fn(Arc<Reply>) -> Action;

/// The action around a reply, now or, with `errorfiles NAME`, when all sections are known.
fn action(line: &Arc<Line>, draft: Draft, make: MakeAction) -> Option<RawAction> {
    let word = match &draft.content {
        None => {
            // `deny` or `deny deny_status N` alone: the proxy's own page. `return` alone, or a status: no body.
            let own_page = draft.bare && (draft.status_only || draft.status != 200);
            let content = match own_page {
                true => ReplyContent::Default,
                false => ReplyContent::Empty,
            };
            return ready(make(reply_of(&draft, content)));
        }
        Some((_, Content::Ready(content))) => {
            return ready(make(reply_of(&draft, content.clone())));
        }
        Some((_, Content::Section(word))) => *word,
    };
    let name = Written::new(line, word);
    let late: Arc<LateAction> = Arc::new(move |resolver, _: &RawProxy| {
        let content = section_reply(resolver, &name, draft.status)?;
        Some(make(reply_of(&draft, content)))
    });
    Some(RawAction::Late(late))
}

/// The response an `http-errors` section has for a status; the proxy's own (with a warning) where it has none.
fn section_reply(resolver: &mut Resolver<'_>, name: &Written, status: u16) -> Option<ReplyContent> {
    let found = resolver
        .raw
        .http_errors
        .iter()
        .find(|s| s.name == name.text());
    let Some(section) = found else {
        let names: Vec<&str> = resolver
            .raw
            .http_errors
            .iter()
            .map(|s| s.name.as_str())
            .collect();
        let hint =
            crate::diag::suggest(name.text(), names).map(|near| format!("did you mean '{near}'?"));
        let message = format!("unknown http-errors section '{}'", name.text());
        resolver.error(&name.line, name.word, message, hint);
        return None;
    };
    match section
        .errors
        .by_status
        .iter()
        .find(|(code, _)| *code == status)
    {
        Some((_, ErrorReply::Raw(raw))) => Some(ReplyContent::Raw(raw.clone())),
        Some((_, ErrorReply::Reply(reply))) => Some(reply.content.clone()),
        Some((_, ErrorReply::Location { .. })) | None => {
            let message = format!(
                "status '{status}' is not declared in http-errors section '{}'",
                name.text()
            );
            resolver.warn(&name.line, name.word, message, None);
            // as in HAProxy: the status alone, not the proxy's own page
            Some(ReplyContent::Empty)
        }
    }
}

/// `return`: 200 and no body unless told otherwise.
pub(super) fn return_(
    cx: &mut Cx<'_>,
    line: &Arc<Line>,
    words: &mut RuleWords,
) -> Option<RawAction> {
    let draft = draft(cx, line, words, 200)?;
    action(line, draft, Action::Return)
}

/// `deny`: 403 to requests, 502 in place of responses.
pub(super) fn deny(cx: &mut Cx<'_>, line: &Arc<Line>, words: &mut RuleWords) -> Option<RawAction> {
    let status = match words.set {
        RuleSet::HttpResponse => 502,
        _ => 403,
    };
    let draft = draft(cx, line, words, status)?;
    action(line, draft, Action::Deny)
}

pub(super) fn tarpit(
    cx: &mut Cx<'_>,
    line: &Arc<Line>,
    words: &mut RuleWords,
) -> Option<RawAction> {
    let draft = draft(cx, line, words, 500)?;
    action(line, draft, Action::Tarpit)
}

fn http_error(cx: &mut Cx<'_>, line: &Arc<Line>) {
    let set = RuleSet::HttpResponse;
    let mut words = RuleWords {
        set,
        place: RuleSet::HttpRequest.place(cx.proxy().caps) | set.place(cx.proxy().caps),
        at: line.keyword_len,
    };
    let Some(draft) = draft(cx, line, &mut words, 0) else {
        return;
    };
    if !cx.no_more(line, words.at) {
        return;
    }
    let status = draft.status;
    if status == 0 {
        return cx.error_at(line, words.at, "'http-error' expects 'status <code>'");
    }
    if !ERROR_CODES.contains(&status) {
        return cx.error_at(
            line,
            line.keyword_len + 1,
            format!("'http-error' : status code '{status}' not handled"),
        );
    }
    let entry = match &draft.content {
        Some((_, Content::Section(word))) => RawError::Section {
            name: Written::new(line, *word),
            codes: vec![status],
        },
        Some((_, Content::Ready(ReplyContent::Raw(raw)))) => RawError::One {
            status,
            reply: ErrorReply::Raw(raw.clone()),
        },
        Some((_, Content::Ready(content))) => RawError::One {
            status,
            reply: ErrorReply::Reply(reply_of(&draft, content.clone())),
        },
        None => RawError::One {
            status,
            reply: ErrorReply::Reply(reply_of(&draft, ReplyContent::Empty)),
        },
    };
    cx.proxy().settings.errors.push(entry);
}
