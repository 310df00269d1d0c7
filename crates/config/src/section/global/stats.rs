//! `stats socket`, `stats timeout`, `stats maxconn`: the runtime command line's door.

use std::sync::Arc;

use super::{only_time_ms, only_uint};
use crate::cx::Cx;
use crate::line::Line;
use crate::model::{SeverityOutput, StatsSocket};
use crate::registry::{Keyword, Sections, kw, obsolete};

const G: Sections = Sections::GLOBAL;

#[rustfmt::skip]
pub(super) static KEYWORDS: &[Keyword] = &[
    kw("stats socket", G, "{ <address:port> | <path> } [<bind options>...]", "socket of the runtime command line", socket),
    kw("stats timeout", G, "<time>", "how long a command line may stay idle", |cx, line| {
        match only_time_ms(cx, line) {
            Some(0) => cx.error_at(line, line.keyword_len, "'stats timeout' expects a positive value"),
            Some(ms) => cx.global().stats_timeout_ms = ms,
            None => {}
        }
    }),
    kw("stats maxconn", G, "<number>", "most concurrent command lines", |cx, line| {
        if let Some(n) = only_uint(cx, line, 1, i32::MAX as u32) { cx.global().stats_maxconn = n; }
    }),
    obsolete("stats bind-process", G, "remove it: there is one process", Some(|cx, line| {
        if line.arg(0).is_empty() {
            cx.error_at(line, line.keyword_len, "'stats bind-process' expects a process number");
        }
    })),
];

fn socket(cx: &mut Cx<'_>, line: &Arc<Line>) {
    let at = line.keyword_len;
    if line.arg(0).is_empty() {
        cx.error_at(
            line,
            at,
            "'stats socket' in global section expects an address or a path to a UNIX socket",
        );
        return;
    }
    let Some((words, expose_fd_listeners, severity_output)) = own_words(cx, line) else {
        return;
    };
    let Some(bind) = crate::proxy::lone_bind(cx, &words, at, false) else {
        return;
    };
    cx.raw.account_lines.push(line.clone());
    cx.global().stats_sockets.push(StatsSocket {
        addrs: bind.addrs,
        level: bind.level.unwrap_or_default(),
        expose_fd_listeners,
        perms: bind.perms,
        severity_output,
        origin: line.origin(),
    });
}

/// Takes the words that only a `stats socket` line knows off the line.
fn own_words(cx: &mut Cx<'_>, line: &Arc<Line>) -> Option<(Arc<Line>, bool, SeverityOutput)> {
    let mut rest = Line::clone(line);
    let mut expose_fd = false;
    let mut severity = SeverityOutput::None;
    let mut at = line.keyword_len + 1;
    while rest.has(at) {
        let value = rest.word(at + 1);
        match rest.word(at) {
            "expose-fd" if value == "listeners" => {
                expose_fd = true;
            }
            "expose-fd" => {
                cx.error_at(&rest, at + 1, "'expose-fd' only supports 'listeners'");
                return None;
            }
            "severity-output" => {
                severity = match value {
                    "none" => SeverityOutput::None,
                    "number" => SeverityOutput::Number,
                    "string" => SeverityOutput::String,
                    other => {
                        let message = format!(
                            "'severity-output' only supports 'none', 'number' and 'string' (got '{other}')"
                        );
                        cx.error_at(&rest, at + 1, message);
                        return None;
                    }
                }
            }
            _ => {
                at += 1;
                continue;
            }
        }
        rest.words.drain(at..at + 2);
    }
    Some((Arc::new(rest), expose_fd, severity))
}
