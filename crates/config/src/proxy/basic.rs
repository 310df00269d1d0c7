//! Plain settings of a proxy: mode, limits, names, retries, what is said once and stored.

use std::sync::Arc;

use crate::addr::AddrRules;
use crate::cx::Cx;
use crate::line::Line;
use crate::model::{HttpReuse, KeepAlive, Mode, Options, RetryOn, ServerStateSource};
use crate::registry::{Keyword, Sections, kw};

use super::{choice, list};
use crate::diag::suggest;

const INT_MAX: u32 = i32::MAX as u32;

#[rustfmt::skip]
pub(crate) static KEYWORDS: &[Keyword] = &[
    kw("mode", Sections::ALL_PROXIES, "{ tcp | http | log }", "the protocol the proxy speaks", mode),
    kw("maxconn", Sections::DFL, "<conns>", "most concurrent connections of the frontend", |cx, line| {
        if let Some(n) = only_uint(cx, line) {
            cx.proxy().settings.maxconn = n;
        }
    })
    .ignored(),
    kw("backlog", Sections::DFL, "<conns>", "connections the kernel may hold before they are accepted", |cx, line| {
        if let Some(n) = only_uint(cx, line) {
            cx.proxy().settings.backlog = Some(n);
        }
    })
    .ignored(),
    kw("fullconn", Sections::DLB, "<conns>", "backend connections at which servers get their whole `maxconn`", |cx, line| {
        if let Some(n) = only_uint(cx, line) {
            cx.proxy().settings.fullconn = n;
        }
    })
    .ignored(),
    kw("retries", Sections::DLB, "<value>", "connection attempts after the first has failed", |cx, line| {
        if let Some(n) = only_uint(cx, line) {
            cx.proxy().settings.retries = Some(n);
        }
    })
    .ignored(),
    kw(
        "retry-on",
        Sections::DLB,
        "<event> ...",
        "failures after which a request may be sent again",
        retry_on,
    ),
    kw("rate-limit sessions", Sections::DFL, "<rate>", "most new sessions a second", |cx, line| {
        if let Some(n) = only_uint(cx, line) {
            if cx.proxy().settings.rate_limit_sessions != 0 {
                cx.warn(line, 0, "overwriting rate-limit sessions which was already specified", None);
            }
            cx.proxy().settings.rate_limit_sessions = n;
        }
    })
    .ignored(),
    kw("max-keep-alive-queue", Sections::DLB, "<value>", "server queue length from which keeping a connection no longer keeps the server", |cx, line| {
        let word = line.keyword_len;
        if let Some(n) = cx.int(line, word, -1..=i64::from(INT_MAX))
            && cx.no_more(line, word + 1)
        {
            cx.proxy().settings.max_keep_alive_queue = Some(n);
        }
    })
    .ignored(),
    kw("http-reuse", Sections::DLB, "{ never | safe | aggressive | always }", "how idle server connections are shared between clients", http_reuse)
        .ignored(),
    kw("http-send-name-header", Sections::DLB, "<header>", "header that carries the server's name to it", |cx, line| {
        if let Some(name) = only_word(cx, line, "a header name") {
            cx.proxy().settings.http_send_name_header = Some(name);
        }
    })
    .ignored(),
    kw("dynamic-cookie-key", Sections::DLB, "<string>", "secret that dynamic cookies are made with", |cx, line| {
        if let Some(key) = only_word(cx, line, "a secret key") {
            cx.proxy().settings.dynamic_cookie_key = Some(key);
        }
    })
    .ignored(),
    kw("description", Sections::FLB, "<string>", "text shown beside the proxy on the statistics page", description),
    kw("disabled", Sections::ALL_PROXIES, "", "the proxy is checked but not started", |cx, line| {
        if cx.no_more(line, line.keyword_len) {
            cx.proxy().settings.disabled = true;
        }
    }),
    kw("enabled", Sections::ALL_PROXIES, "", "undoes an inherited `disabled`", |cx, line| {
        if cx.no_more(line, line.keyword_len) {
            cx.proxy().settings.disabled = false;
        }
    }),
    kw("id", Sections::FLB, "<value>", "the proxy's number in statistics and commands", id),
    kw("dispatch", Sections::LB, "<address>:<port>", "the one place connections go to, without servers", dispatch).ignored(),
    kw("transparent", Sections::DLB, "", "connect to the client's original destination (`option transparent`)", |cx, line| {
        if cx.no_more(line, line.keyword_len) {
            cx.proxy().settings.set_option(Options::TRANSPARENT, line);
        }
    })
    .ignored(),
    kw("persist rdp-cookie*", Sections::DLB, "[(<name>)]", "stay with the server an RDP cookie names", persist_rdp).ignored(),
    kw("load-server-state-from-file", Sections::DLB, "{ global | local | none }", "which state file server states are taken from at start", |cx, line| {
        let among = [
            ("global", ServerStateSource::Global),
            ("local", ServerStateSource::Local),
            ("none", ServerStateSource::None),
        ];
        if let Some(source) = choice(cx, line, line.keyword_len, &among) {
            cx.proxy().settings.server_state = source;
        }
    })
    .ignored(),
    kw("server-state-file-name", Sections::DLB, "[ { use-backend-name | <file> } ]", "the file of `load-server-state-from-file local`", |cx, line| {
        let name = line.arg(0).to_owned();
        // No name, or `use-backend-name`: the backend's own name.
        let own = matches!(name.as_str(), "" | "use-backend-name");
        if cx.no_more(line, line.keyword_len + 1) {
            cx.proxy().settings.server_state_file = (!own).then_some(name);
        }
    })
    .ignored(),
    kw("clitcpka-cnt", Sections::DFL, "<count>", "unanswered keep-alive probes before a client connection is dropped", |cx, line| {
        keepalive_count(cx, line, |s| &mut s.clitcpka);
    })
    .ignored(),
    kw("clitcpka-idle", Sections::DFL, "<delay>", "silence of a client connection before the first keep-alive probe", |cx, line| {
        keepalive_time(cx, line, |s| &mut s.clitcpka.idle_s);
    })
    .ignored(),
    kw("clitcpka-intvl", Sections::DFL, "<delay>", "time between keep-alive probes to the client", |cx, line| {
        keepalive_time(cx, line, |s| &mut s.clitcpka.interval_s);
    })
    .ignored(),
    kw("srvtcpka-cnt", Sections::DLB, "<count>", "unanswered keep-alive probes before a server connection is dropped", |cx, line| {
        keepalive_count(cx, line, |s| &mut s.srvtcpka);
    })
    .ignored(),
    kw("srvtcpka-idle", Sections::DLB, "<delay>", "silence of a server connection before the first keep-alive probe", |cx, line| {
        keepalive_time(cx, line, |s| &mut s.srvtcpka.idle_s);
    })
    .ignored(),
    kw("srvtcpka-intvl", Sections::DLB, "<delay>", "time between keep-alive probes to the server", |cx, line| {
        keepalive_time(cx, line, |s| &mut s.srvtcpka.interval_s);
    })
    .ignored(),
];

/// The only argument, a whole number.
fn only_uint(cx: &mut Cx<'_>, line: &Line) -> Option<u32> {
    let word = line.keyword_len;
    let n = cx.uint(line, word, 0..=INT_MAX)?;
    cx.no_more(line, word + 1).then_some(n)
}

/// The only argument, any word.
fn only_word(cx: &mut Cx<'_>, line: &Line, what: &str) -> Option<String> {
    let word = line.keyword_len;
    let text = cx.need(line, word, what)?.to_owned();
    cx.no_more(line, word + 1).then_some(text)
}

fn mode(cx: &mut Cx<'_>, line: &Arc<Line>) {
    let word = line.keyword_len;
    let mode = match line.word(word) {
        "tcp" => Mode::Tcp,
        "http" => Mode::Http,
        "health" => {
            return cx.error(
                line,
                word,
                0..0,
                "'mode health' does not exist any more",
                Some("write `mode http` and `http-request return status 200`".into()),
            );
        }
        "log" if cx.section() == Sections::BACKEND || cx.proxy().is_defaults() => Mode::Log,
        "log" => {
            let message = "'mode log' is for backends only";
            let hint = "messages come in by a `log-forward` section";
            return cx.error(line, word, 0..0, message, Some(hint.into()));
        }
        "spop" => return cx.not_yet(line, word, "mode spop", "SPOE"),
        "haterm" => return cx.not_yet(line, word, "mode haterm", "the HTTP terminator"),
        "" => return cx.error_at(line, word, "'mode' expects 'tcp' or 'http'"),
        other => {
            let hint = suggest(other, ["tcp", "http"]).map(|m| format!("did you mean '{m}'?"));
            return cx.error(
                line,
                word,
                0..0,
                format!("unknown proxy mode '{other}'."),
                hint,
            );
        }
    };
    if cx.no_more(line, word + 1) {
        cx.proxy().settings.mode = Some(mode);
    }
}

/// Events of `retry-on`, with the status codes that a server's answer may have.
const RETRY_EVENTS: &[(&str, RetryOn)] = &[
    ("conn-failure", RetryOn::CONN_FAILURE),
    ("empty-response", RetryOn::EMPTY_RESPONSE),
    ("junk-response", RetryOn::JUNK_RESPONSE),
    ("response-timeout", RetryOn::RESPONSE_TIMEOUT),
    ("0rtt-rejected", RetryOn::ZERO_RTT_REJECTED),
    ("401", RetryOn::S401),
    ("403", RetryOn::S403),
    ("404", RetryOn::S404),
    ("408", RetryOn::S408),
    ("421", RetryOn::S421),
    ("425", RetryOn::S425),
    ("429", RetryOn::S429),
    ("500", RetryOn::S500),
    ("501", RetryOn::S501),
    ("502", RetryOn::S502),
    ("503", RetryOn::S503),
    ("504", RetryOn::S504),
];

fn retry_on(cx: &mut Cx<'_>, line: &Arc<Line>) {
    let from = line.keyword_len;
    if cx.need(line, from, "at least one event").is_none() {
        return;
    }
    let mut events = RetryOn::empty();
    for word in from..line.words.len() {
        let text = line.word(word);
        if let Some((_, event)) = RETRY_EVENTS.iter().find(|(name, _)| *name == text) {
            events |= *event;
            continue;
        }
        match text {
            "none" if line.words.len() == from + 1 => {}
            "none" => return cx.error_at(line, word, "'retry-on' takes 'none' only alone"),
            // What can be known to have had no effect, as the manual lists it.
            "all-retryable-errors" => {
                events |= RetryOn::CONN_FAILURE
                    | RetryOn::EMPTY_RESPONSE
                    | RetryOn::JUNK_RESPONSE
                    | RetryOn::RESPONSE_TIMEOUT
                    | RetryOn::ZERO_RTT_REJECTED
                    | RetryOn::S500
                    | RetryOn::S502
                    | RetryOn::S503
                    | RetryOn::S504;
            }
            other => {
                let mut names: Vec<&str> = vec!["none", "all-retryable-errors"];
                names.extend(RETRY_EVENTS.iter().map(|(name, _)| *name));
                let hint = match suggest(other, names.iter().copied()) {
                    Some(near) => format!("did you mean '{near}'?"),
                    None => format!("it takes {}", list(&names)),
                };
                return cx.error(
                    line,
                    word,
                    0..0,
                    format!("'retry-on': unknown keyword '{other}'"),
                    Some(hint),
                );
            }
        }
    }
    cx.proxy().settings.retry_on = Some(events);
}

fn http_reuse(cx: &mut Cx<'_>, line: &Arc<Line>) {
    let among = [
        ("never", HttpReuse::Never),
        ("safe", HttpReuse::Safe),
        ("aggressive", HttpReuse::Aggressive),
        ("always", HttpReuse::Always),
    ];
    let word = line.keyword_len;
    if let Some(reuse) = choice(cx, line, word, &among)
        && cx.no_more(line, word + 1)
    {
        cx.proxy().settings.http_reuse = Some(reuse);
    }
}

fn description(cx: &mut Cx<'_>, line: &Arc<Line>) {
    let word = line.keyword_len;
    if cx.need(line, word, "a text").is_some() {
        cx.proxy().description = Some(line.texts(word).join(" "));
    }
}

fn id(cx: &mut Cx<'_>, line: &Arc<Line>) {
    let word = line.keyword_len;
    let Some(id) = cx.uint(line, word, 1..=INT_MAX) else {
        return;
    };
    if !cx.no_more(line, word + 1) {
        return;
    }
    let taken = cx
        .raw
        .proxies
        .iter()
        .find(|p| p.id == Some(id))
        .map(|p| (p.name.clone(), p.line.number));
    match taken {
        Some((name, at)) => cx.error_at(
            line,
            word,
            format!("custom id {id} is already used by '{name}' (declared at line {at})"),
        ),
        None => cx.proxy().id = Some(id),
    }
}

fn dispatch(cx: &mut Cx<'_>, line: &Arc<Line>) {
    let word = line.keyword_len;
    if let Some(addr) = cx.peer_addr(line, word, AddrRules::FIXED)
        && cx.no_more(line, word + 1)
    {
        cx.proxy().dispatch = Some(addr);
    }
}

/// `persist rdp-cookie` or `persist rdp-cookie(name)`; the cookie is `msts` when none is named.
fn persist_rdp(cx: &mut Cx<'_>, line: &Arc<Line>) {
    let word = line.keyword_len - 1;
    let name = match paren_argument(cx, line, word) {
        Ok(name) => name.unwrap_or_else(|| "msts".to_owned()),
        Err(()) => return,
    };
    if name.is_empty() {
        return cx.error_at(
            line,
            word,
            "'persist rdp-cookie(name)' requires a cookie name",
        );
    }
    if cx.no_more(line, line.keyword_len) {
        cx.proxy().settings.persist_rdp_cookie = Some(name);
    }
}

/// What stands in the parentheses of `name(argument)`; `None` without parentheses, `Err` after a fault was reported.
pub(super) fn paren_argument(
    cx: &mut Cx<'_>,
    line: &Line,
    word: usize,
) -> Result<Option<String>, ()> {
    let text = line.word(word);
    let Some((name, rest)) = text.split_once('(') else {
        return Ok(None);
    };
    match rest.strip_suffix(')') {
        Some(inner) => Ok(Some(inner.to_owned())),
        None => {
            cx.error(
                line,
                word,
                name.len()..text.len(),
                format!("missing closing parenthesis in '{text}'"),
                None,
            );
            Err(())
        }
    }
}

type KeepAliveOf = fn(&mut crate::raw::Settings) -> &mut KeepAlive;
type SecondsOf = fn(&mut crate::raw::Settings) -> &mut Option<u32>;

fn keepalive_count(cx: &mut Cx<'_>, line: &Line, of: KeepAliveOf) {
    // The kernel keeps the count in seven bits.
    let word = line.keyword_len;
    if let Some(n) = cx.uint(line, word, 1..=127)
        && cx.no_more(line, word + 1)
    {
        of(&mut cx.proxy().settings).count = Some(n);
    }
}

fn keepalive_time(cx: &mut Cx<'_>, line: &Line, of: SecondsOf) {
    let word = line.keyword_len;
    if cx.need(line, word, "a delay").is_none() {
        return;
    }
    if let Some(s) = cx.time_s(line, word)
        && cx.no_more(line, word + 1)
    {
        *of(&mut cx.proxy().settings) = Some(s);
    }
}
