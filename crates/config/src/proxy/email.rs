//! `email-alert ...`: who gets mails about the servers of a proxy.

use std::sync::Arc;

use crate::cx::Cx;
use crate::line::{Line, Written};
use crate::log_target::LEVELS;
use crate::raw::RawEmailAlert;
use crate::registry::{Keyword, Sections, kw};

const ALL: Sections = Sections::ALL_PROXIES;

#[rustfmt::skip]
pub(crate) static KEYWORDS: &[Keyword] = &[
    kw("email-alert from", ALL, "<emailaddr>", "who mails about servers come from", |cx, line| text(cx, line, |e| &mut e.from)),
    kw("email-alert level", ALL, "<level>", "least urgent level of messages that are mailed", level),
    kw("email-alert mailers", ALL, "<mailersect>", "mail servers that get mails about servers", |cx, line| {
        let word = line.keyword_len;
        if cx.need(line, word, "a name").is_some() && cx.no_more(line, word + 1) {
            let email = alert(cx);
            email.mailers = Some(Written::new(line, word));
            email.line = Some(line.clone());
        }
    }),
    kw("email-alert myhostname", ALL, "<hostname>", "what mail servers are told this machine is called", |cx, line| text(cx, line, |e| &mut e.myhostname)),
    kw("email-alert to", ALL, "<emailaddr>", "who gets mails about servers", |cx, line| text(cx, line, |e| &mut e.to)),
];

fn alert<'c>(cx: &'c mut Cx<'_>) -> &'c mut RawEmailAlert {
    cx.proxy().settings.email.get_or_insert_default()
}

fn text(cx: &mut Cx<'_>, line: &Arc<Line>, slot: fn(&mut RawEmailAlert) -> &mut Option<String>) {
    let word = line.keyword_len;
    let Some(value) = cx.need(line, word, "a value").map(str::to_owned) else {
        return;
    };
    // it becomes a line of its own in a conversation
    if value.chars().any(char::is_control) {
        return cx.error_at(
            line,
            word,
            format!("'{}' : a line break cannot be sent", line.keyword()),
        );
    }
    if cx.no_more(line, word + 1) {
        let email = alert(cx);
        *slot(email) = Some(value);
        email.line = Some(line.clone());
    }
}

fn level(cx: &mut Cx<'_>, line: &Arc<Line>) {
    let word = line.keyword_len;
    let Some(level) = cx.log_name(line, word, "log level", &LEVELS) else {
        return;
    };
    if cx.no_more(line, word + 1) {
        let email = alert(cx);
        email.level = Some(level);
        email.line = Some(line.clone());
    }
}
