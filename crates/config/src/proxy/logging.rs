//! `log` and what its lines look like: formats, tags, unique ids.

use std::sync::Arc;

use crate::cx::Cx;
use crate::line::{Line, Prefix, Written};
use crate::model::{LogStep, LogSteps};
use crate::raw::{RawLog, RawLogFormat, Settings};
use crate::registry::{Keyword, Sections, kw, later};

use super::list;
use crate::diag::suggest;

#[rustfmt::skip]
pub(crate) static KEYWORDS: &[Keyword] = &[
    kw("log", Sections::ALL_PROXIES, "{ global | <address> [ len <length> ] [ format <format> ] [ sample <ranges>:<size> ] <facility> [ <level> [ <minlevel> ]] }", "where log lines go", log).no(),
    kw("log-format", Sections::DFL, "<fmt>", "the log line", |cx, line| {
        one_format(cx, line, |s, w| s.log_format = Some(RawLogFormat::Custom(w)));
    })
    .ignored(),
    kw("log-format-sd", Sections::DFL, "<fmt>", "the structured data of RFC 5424 log lines", |cx, line| {
        one_format(cx, line, |s, w| s.log_format_sd = Some(w));
    })
    .ignored(),
    kw("error-log-format", Sections::DFL, "<fmt>", "the log line of connections that failed early", |cx, line| {
        one_format(cx, line, |s, w| s.error_log_format = Some(w));
    })
    .ignored(),
    kw("log-tag", Sections::ALL_PROXIES, "<string>", "the program's name in log lines", |cx, line| {
        let word = line.keyword_len;
        if let Some(tag) = cx.need(line, word, "a tag") {
            let tag = tag.to_owned();
            if cx.no_more(line, word + 1) {
                cx.proxy().settings.log_tag = Some(tag);
            }
        }
    }),
    kw("log-steps", Sections::DFL, "{ any | all | <step>,[...] }", "when log lines are written", log_steps).ignored(),
    kw("unique-id-format", Sections::DFL, "<fmt>", "how each request's unique id is made", |cx, line| {
        one_format(cx, line, |s, w| s.unique_id_format = Some(w));
    })
    .ignored(),
    kw("unique-id-header", Sections::DFL, "<name>", "header that carries the unique id", |cx, line| {
        let word = line.keyword_len;
        if let Some(name) = super::action::header::header_name(cx, line, word)
            && cx.no_more(line, word + 1)
        {
            cx.proxy().settings.unique_id_header = Some(name);
        }
    })
    .ignored(),
    later("log-stderr", Sections::ALL_PROXIES, "log forwarding").doc("...", "log to the standard error"),
];

fn log(cx: &mut Cx<'_>, line: &Arc<Line>) {
    let word = line.keyword_len;
    if line.prefix != Prefix::None {
        if cx.no_more(line, word) {
            cx.proxy().settings.logs.clear();
        }
        return;
    }
    let entry = if line.word(word) == "global" {
        if !cx.no_more(line, word + 1) {
            return;
        }
        RawLog::Global(line.clone())
    } else {
        match cx.log_target(line, word) {
            Some(target) => RawLog::Target(target, line.clone()),
            None => return,
        }
    };
    cx.proxy().settings.logs.push(entry);
}

/// A format that is one word; it is compiled where it is used.
fn one_format(cx: &mut Cx<'_>, line: &Arc<Line>, store: fn(&mut Settings, Written)) {
    let word = line.keyword_len;
    if cx.need(line, word, "a format").is_none() {
        return;
    }
    if line.has(word + 1) {
        let message = format!(
            "'{}' expects only one argument, don't forget to escape spaces!",
            line.keyword()
        );
        return cx.error(
            line,
            word + 1,
            0..0,
            message,
            Some("put the whole format in double quotes".into()),
        );
    }
    store(&mut cx.proxy().settings, Written::new(line, word));
}

fn log_steps(cx: &mut Cx<'_>, line: &Arc<Line>) {
    let word = line.keyword_len;
    let Some(text) = cx.need(line, word, "a list of steps") else {
        return;
    };
    let text = text.to_owned();
    let mut steps = LogSteps::empty();
    for step in text.split(',') {
        let known = LogStep::ALL.iter().find(|(_, name, _)| *name == step);
        let known = known.and_then(|(step, ..)| LogSteps::of(*step));
        match (step, known) {
            ("all" | "any", _) => steps = LogSteps::all(),
            (_, Some(step)) => steps |= step,
            ("error", _) => cx.warn(
                line,
                word,
                "'log-steps' : 'error' has no effect",
                Some("connections that fail early are logged whatever the steps are".into()),
            ),
            (other, None) => {
                let names = ["accept", "request", "connect", "response", "close"];
                let hint = match suggest(other, names) {
                    Some(near) => format!("did you mean '{near}'?"),
                    None => format!("it takes 'all' or {}", list(&names)),
                };
                return cx.error(
                    line,
                    word,
                    0..0,
                    format!("'log-steps' : unknown step '{other}'"),
                    Some(hint),
                );
            }
        }
    }
    if cx.no_more(line, word + 1) {
        cx.proxy().settings.log_steps = Some(steps);
    }
}
