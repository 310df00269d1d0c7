//! `log-forward NAME`: log messages that come in and are sent on (manual chapter 3.10).

use std::sync::Arc;

use crate::cx::{Current, Cx};
use crate::line::{Line, Prefix};
use crate::model::{Bind, ListenAddr, LogForward, LogHost};
use crate::proxy::choice;
use crate::raw::{RawLog, RawLogForward};
use crate::registry::{Keyword, Sections, kw};
use crate::values::TimeUnit;

const F: Sections = Sections::LOG_FORWARD;

/// As in HAProxy: senders over TCP are few.
const MAXCONN_DEFAULT: u32 = 10;

#[rustfmt::skip]
pub(super) static KEYWORDS: &[Keyword] = &[
    kw("backlog", F, "<conns>", "connections the kernel may hold", |cx, line| {
        let Some(n) = cx.uint(line, 1, 0..=i32::MAX as u32) else { return };
        if cx.no_more(line, 2) && let Some(f) = forward(cx) { f.backlog = Some(n); }
    }),
    kw("bind", F, "<address>[,...] [ <word> ... ]", "an address that takes messages over connections", |cx, line| {
        if let Some(bind) = stream_bind(cx, line) && let Some(f) = forward(cx) { f.binds.push(bind); }
    }),
    kw("dgram-bind", F, "<address>[,...] [ <word> ... ]", "an address that takes messages as datagrams", |cx, line| {
        if let Some(bind) = datagram_bind(cx, line) && let Some(f) = forward(cx) { f.datagrams.push(bind); }
    }),
    kw("log", F, "{ global | <address> [ len <length> ] [ format <format> ] [ sample <ranges>:<size> ] <facility> [ <level> [ <minlevel> ]] }", "where messages are sent", log).no(),
    kw("maxconn", F, "<conns>", "most connections at once, 10 unless said", |cx, line| {
        let Some(n) = cx.uint(line, 1, 0..=i32::MAX as u32) else { return };
        if cx.no_more(line, 2) && let Some(f) = forward(cx) { f.maxconn = n; }
    }),
    kw("timeout client", F, "<timeout>", "how long a connection may say nothing", |cx, line| {
        let Some(ms) = cx.time_ms(line, 2, TimeUnit::Ms) else { return };
        if cx.no_more(line, 3) && let Some(f) = forward(cx) { f.timeout_client_ms = Some(ms).filter(|ms| *ms > 0); }
    }),
    kw("option assume-rfc6587-ntf", F, "", "messages on a connection end with their lines, whatever they begin with", |cx, line| {
        switch(cx, line, |f| &mut f.lines_only);
    }).no(),
    kw("option dont-parse-log", F, "", "messages are sent on as they are", |cx, line| switch(cx, line, |f| &mut f.unparsed)).no(),
    kw("option host", F, "{ append | fill | keep | replace }", "what becomes of a message's host name", |cx, line| {
        let among = [("append", LogHost::Append), ("fill", LogHost::Fill), ("keep", LogHost::Keep), ("replace", LogHost::Replace)];
        let Some(host) = choice(cx, line, 2, &among) else { return };
        if cx.no_more(line, 3) && let Some(f) = forward(cx) { f.host = host; }
    }),
];

pub(super) fn open(cx: &mut Cx<'_>, line: &Arc<Line>) {
    if line.word(1).is_empty() {
        return cx.error_at(line, 1, "missing name for log-forward section.");
    }
    let Some(name) = cx.name(line, 1, "a name") else {
        return;
    };
    if !cx.no_more(line, 2) {
        return;
    }
    let proxy = cx.raw.proxies.iter().find(|p| *p.name == *name);
    let taken = match (proxy, named(cx, &name)) {
        (Some(p), _) => Some((format!("{} '{name}'", p.kind()), p.line.origin())),
        (_, Some(line)) => Some(("another log-forward section".to_owned(), line.origin())),
        _ => None,
    };
    if let Some((what, at)) = taken {
        let message = format!(
            "log-forward section '{name}' has the same name as {what} declared at {}:{}.",
            at.file, at.line
        );
        return cx.error_at(line, 1, message);
    }
    cx.section_name.clone_from(&name);
    cx.raw.log_forwards.push(RawLogForward {
        forward: LogForward {
            name,
            datagrams: Vec::new(),
            binds: Vec::new(),
            targets: Vec::new(),
            maxconn: MAXCONN_DEFAULT,
            backlog: None,
            timeout_client_ms: None,
            lines_only: false,
            unparsed: false,
            host: LogHost::default(),
        },
        logs: Vec::new(),
        line: line.clone(),
    });
    cx.current = Current::LogForward(cx.raw.log_forwards.len() - 1);
}

/// The header of the section of this name.
pub(super) fn named<'c>(cx: &'c Cx<'_>, name: &str) -> Option<&'c Arc<Line>> {
    let sections = &cx.raw.log_forwards;
    let found = sections.iter().find(|f| f.forward.name == name);
    found.map(|f| &f.line)
}

fn section<'c>(cx: &'c mut Cx<'_>) -> Option<&'c mut RawLogForward> {
    match cx.current {
        Current::LogForward(i) => cx.raw.log_forwards.get_mut(i),
        _ => None,
    }
}

fn forward<'c>(cx: &'c mut Cx<'_>) -> Option<&'c mut LogForward> {
    section(cx).map(|s| &mut s.forward)
}

fn switch(cx: &mut Cx<'_>, line: &Arc<Line>, slot: fn(&mut LogForward) -> &mut bool) {
    let on = line.prefix == Prefix::None;
    if cx.no_more(line, line.keyword_len)
        && let Some(f) = forward(cx)
    {
        *slot(f) = on;
    }
}

fn log(cx: &mut Cx<'_>, line: &Arc<Line>) {
    let log = match (line.prefix, line.word(1)) {
        (Prefix::None, "global") if cx.no_more(line, 2) => RawLog::Global(line.clone()),
        (Prefix::None, "global") => return,
        (Prefix::None, _) => match cx.log_target(line, 1) {
            Some(target) => RawLog::Target(target, line.clone()),
            None => return,
        },
        _ => {
            if cx.no_more(line, 1)
                && let Some(s) = section(cx)
            {
                s.logs.clear();
            }
            return;
        }
    };
    if let Some(s) = section(cx) {
        s.logs.push(log);
    }
}

fn stream_bind(cx: &mut Cx<'_>, line: &Arc<Line>) -> Option<Bind> {
    let bind = crate::proxy::lone_bind(cx, line, 1, false)?;
    for (at, word) in line.words.iter().enumerate().skip(2) {
        if matches!(&*word.text, "accept-proxy" | "accept-netscaler-cip") {
            cx.not_yet(line, at, &word.text, "PROXY headers before log messages");
            return None;
        }
    }
    Some(bind)
}

/// The words of a `bind` line that mean something for datagrams; the others have no effect, as in HAProxy.
const DATAGRAM_WORDS: [&str; 13] = [
    "gid",
    "group",
    "id",
    "interface",
    "mode",
    "name",
    "namespace",
    "shards",
    "thread",
    "transparent",
    "uid",
    "user",
    "v6only",
];

fn datagram_bind(cx: &mut Cx<'_>, line: &Arc<Line>) -> Option<Bind> {
    let bind = crate::proxy::lone_bind(cx, line, 1, true)?;
    if bind.addrs.iter().any(|a| matches!(a, ListenAddr::Fd(_))) {
        cx.not_yet(line, 1, "fd@", "inherited datagram sockets");
        return None;
    }
    let known = crate::proxy::bind_words();
    for (at, word) in line.words.iter().enumerate().skip(2) {
        let text = &*word.text;
        if known.iter().any(|w| w.name == text) && !DATAGRAM_WORDS.contains(&text) {
            cx.no_effect(line, at, "datagrams make no connections");
        }
    }
    Some(bind)
}

#[cfg(test)]
mod tests {
    use crate::model::LogHost;
    use crate::testing::{messages, read};

    #[test]
    fn a_section_is_read() {
        let (raw, found) = read(
            "log-forward l\n dgram-bind udp@127.0.0.1:1,/tmp/s\n bind :2\n log global\n log ring@buf0 local0\n maxconn 3\n \
             option host append\n option dont-parse-log\n no option dont-parse-log\n option assume-rfc6587-ntf\n timeout client 3s\n",
        );
        assert!(found.is_empty(), "{found:?}");
        let section = &raw.log_forwards[0];
        let f = &section.forward;
        assert_eq!(f.datagrams[0].addrs.len(), 2);
        assert_eq!((f.binds.len(), section.logs.len()), (1, 2));
        assert_eq!((f.maxconn, f.timeout_client_ms), (3, Some(3_000)));
        assert_eq!(
            (f.host, f.unparsed, f.lines_only),
            (LogHost::Append, false, true)
        );
    }

    #[test]
    fn faults_are_told() {
        let check = |text: &str, expect: &str| assert_eq!(messages(text), [expect], "{text}");
        check(
            "log-forward l\n dgram-bind tcp@127.0.0.1:1\n",
            "A2: 'dgram-bind' : stream-type address 'tcp@127.0.0.1:1' is not acceptable here",
        );
        check(
            "log-forward l\n dgram-bind 127.0.0.1:1 mss 500\n",
            "W2: 'mss' has no effect in Sluice",
        );
        check(
            "log-forward l\nfrontend l\n",
            "A2: frontend 'l' has the same name as log forward section 'l' declared at t.cfg:1.",
        );
        check(
            "log-forward l\nlog-forward l\n",
            "A2: log-forward section 'l' has the same name as another log-forward section declared at t.cfg:1.",
        );
    }
}
