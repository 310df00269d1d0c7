//! `option NAME`: the switches, and the options that take arguments.
//!
//! Which log format and which health check an option asks for is kept in [`crate::raw`]; here is only the grammar.

use std::net::IpAddr;
use std::sync::Arc;

use sluice_expr::place::Place;

use crate::cx::Cx;
use crate::line::{Line, Prefix};
use crate::model::{ConnMode, ForwardFor, Forwarded, ForwardedValue, Options};
use crate::raw::RawLogFormat;
use crate::registry::{Handler, Keyword, Sections, harmless, kw, obsolete, refused};

use super::{check_proto, choice};

/// A plain switch.
const fn switch(
    name: &'static str,
    sections: Sections,
    help: &'static str,
    run: Handler,
) -> Keyword {
    kw(name, sections, "", help, run).no().ignored()
}

const DFL: Sections = Sections::DFL;
const DLB: Sections = Sections::DLB;
const ALL: Sections = Sections::ALL_PROXIES;

#[rustfmt::skip]
pub(crate) static KEYWORDS: &[Keyword] = &[
    switch("option abortonclose", ALL, "drop queued requests of clients that have gone", |cx, line| {
        flag(cx, line, Options::ABORTONCLOSE)
    }),
    switch("option accept-unsafe-violations-in-http-request", DFL, "let odd but unambiguous requests pass", |cx, line| {
        flag(cx, line, Options::ACCEPT_INVALID_HTTP_REQUEST)
    }),
    switch("option accept-invalid-http-request", DFL, "older name of `accept-unsafe-violations-in-http-request`", |cx, line| {
        flag(cx, line, Options::ACCEPT_INVALID_HTTP_REQUEST)
    }),
    switch("option accept-unsafe-violations-in-http-response", DLB, "let odd but unambiguous responses pass", |cx, line| {
        flag(cx, line, Options::ACCEPT_INVALID_HTTP_RESPONSE)
    }),
    switch("option accept-invalid-http-response", DLB, "older name of `accept-unsafe-violations-in-http-response`", |cx, line| {
        flag(cx, line, Options::ACCEPT_INVALID_HTTP_RESPONSE)
    }),
    switch("option allbackups", DLB, "use every backup server at once, not only the first", |cx, line| {
        flag(cx, line, Options::ALLBACKUPS)
    }),
    switch("option checkcache", DLB, "refuse responses that a cache would keep with their cookies", |cx, line| {
        flag(cx, line, Options::CHECKCACHE)
    }),
    switch("option clitcpka", DFL, "TCP keep-alive towards clients", |cx, line| {
        flag(cx, line, Options::CLITCPKA)
    }),
    switch("option contstats", DFL, "count bytes while they flow, not when the stream ends", |cx, line| {
        flag(cx, line, Options::CONTSTATS)
    }),
    harmless("option disable-h2-upgrade", DFL, "no HTTP/2 preface is upgraded").no().ignored(),
    switch("option dontlog-normal", DFL, "log only what went wrong", |cx, line| {
        flag(cx, line, Options::DONTLOG_NORMAL)
    }),
    switch("option dontlognull", DFL, "do not log connections that sent nothing", |cx, line| {
        flag(cx, line, Options::DONTLOGNULL)
    }),
    switch("option h1-case-adjust-bogus-client", DFL, "write header names for clients as `h1-case-adjust` says", |cx, line| {
        flag(cx, line, Options::H1_CASE_ADJUST_BOGUS_CLIENT)
    })
    .ignored(),
    switch("option h1-case-adjust-bogus-server", DLB, "write header names for servers as `h1-case-adjust` says", |cx, line| {
        flag(cx, line, Options::H1_CASE_ADJUST_BOGUS_SERVER)
    })
    .ignored(),
    switch("option http-buffer-request", ALL, "wait for the body, or a full buffer, before going on", |cx, line| {
        flag(cx, line, Options::HTTP_BUFFER_REQUEST)
    }),
    switch("option http-drop-request-trailers", DLB, "servers get no trailers", |cx, line| {
        flag(cx, line, Options::HTTP_DROP_REQUEST_TRAILERS)
    }),
    switch("option http-drop-response-trailers", DFL, "clients get no trailers", |cx, line| {
        flag(cx, line, Options::HTTP_DROP_RESPONSE_TRAILERS)
    }),
    switch("option http-ignore-probes", DFL, "close without a word when a connection ends before its request", |cx, line| {
        flag(cx, line, Options::HTTP_IGNORE_PROBES)
    }),
    switch("option http-no-delay", ALL, "hold nothing back: every write leaves at once, always", |cx, line| {
        flag(cx, line, Options::HTTP_NO_DELAY)
    }),
    switch("option http-pretend-keepalive", DLB, "do not tell servers that the connection will be closed", |cx, line| {
        flag(cx, line, Options::HTTP_PRETEND_KEEPALIVE)
    }),
    switch("option http-use-proxy-header", DFL, "heed `Proxy-Connection` where `Connection` is meant", |cx, line| {
        flag(cx, line, Options::HTTP_USE_PROXY_HEADER)
    }),
    switch("option idle-close-on-response", DFL, "at a soft stop, close idle connections only after one more response", |cx, line| {
        flag(cx, line, Options::IDLE_CLOSE_ON_RESPONSE)
    }),
    switch("option independent-streams", ALL, "one direction's traffic does not refresh the other's timeout", |cx, line| {
        flag(cx, line, Options::INDEPENDENT_STREAMS)
    }),
    switch("option log-health-checks", DLB, "log every change of a check's result", |cx, line| {
        flag(cx, line, Options::LOG_HEALTH_CHECKS)
    }),
    switch("option log-separate-errors", DFL, "log what went wrong at level `err`", |cx, line| {
        flag(cx, line, Options::LOG_SEPARATE_ERRORS)
    }),
    switch("option logasap", DFL, "log when the response begins, not when it ends", |cx, line| {
        flag(cx, line, Options::LOGASAP)
    }),
    switch("option nolinger", ALL, "drop unsent data when closing", |cx, line| {
        flag(cx, line, Options::NOLINGER)
    }),
    switch("option persist", DLB, "follow a persistence cookie even to a server that is down", |cx, line| {
        flag(cx, line, Options::PERSIST)
    }),
    switch("option prefer-last-server", DLB, "stay on the server connection of the last request where possible", |cx, line| {
        flag(cx, line, Options::PREFER_LAST_SERVER)
    }),
    switch("option socket-stats", DFL, "statistics for each listening socket", |cx, line| {
        flag(cx, line, Options::SOCKET_STATS)
    }),
    switch("option splice-auto", ALL, "splice(2) where it looks worth it, both ways", |cx, line| {
        splice(cx, line, Options::SPLICE_AUTO)
    }),
    switch("option splice-request", ALL, "splice(2) from clients to servers", |cx, line| {
        splice(cx, line, Options::SPLICE_REQUEST)
    }),
    switch("option splice-response", ALL, "splice(2) from servers to clients", |cx, line| {
        splice(cx, line, Options::SPLICE_RESPONSE)
    }),
    switch("option srvtcpka", DLB, "TCP keep-alive towards servers", |cx, line| {
        flag(cx, line, Options::SRVTCPKA)
    }),
    switch("option tcp-smart-accept", DFL, "acknowledge the client's data with the response", |cx, line| {
        flag(cx, line, Options::TCP_SMART_ACCEPT);
        remember_no(cx, line, Options::NO_TCP_SMART_ACCEPT);
    }),
    switch("option tcp-smart-connect", DLB, "let the first data acknowledge a server's handshake", |cx, line| {
        flag(cx, line, Options::TCP_SMART_CONNECT)
    }),
    switch("option transparent", DLB, "connect to the client's original destination", |cx, line| {
        flag(cx, line, Options::TRANSPARENT)
    }),
    kw("option tcpka", ALL, "", "TCP keep-alive towards both sides", |cx, line| {
        flag(cx, line, Options::CLITCPKA | Options::SRVTCPKA)
    }),
    switch("option http-keep-alive", ALL, "keep connections of both sides open between requests", |cx, line| {
        conn_mode(cx, line, ConnMode::KeepAlive)
    }),
    switch("option http-server-close", ALL, "close the server's connection after each response", |cx, line| {
        conn_mode(cx, line, ConnMode::ServerClose)
    }),
    switch("option httpclose", ALL, "close both connections after each response", |cx, line| {
        conn_mode(cx, line, ConnMode::Close)
    }),
    kw(
        "option http-restrict-req-hdr-names",
        ALL,
        "{ preserve | delete | reject }",
        "what becomes of request headers whose names have unusual characters",
        restrict_names,
    ),
    kw("option redispatch", DLB, "[<interval>]", "let retries go to another server", redispatch)
        .no()
        .ignored(),
    kw(
        "option forwardfor",
        ALL,
        "[ except <network> ] [ header <name> ] [ if-none ]",
        "tell servers the client's address in `X-Forwarded-For`",
        forwardfor,
    ),
    kw(
        "option originalto",
        ALL,
        "[ except <network> ] [ header <name> ]",
        "tell servers the original destination in `X-Original-To`",
        originalto,
    ),
    kw(
        "option forwarded",
        ALL,
        "[ proto ] [ host | host-expr <expr> ] [ by | by-expr <expr> ] [ by_port | by_port-expr <expr> ] [ for | for-expr <expr> ] [ for_port | for_port-expr <expr> ]",
        "tell servers about the client in `Forwarded` (RFC 7239)",
        forwarded,
    )
    .no(),
    kw("option httplog", DFL, "[ clf ]", "log HTTP requests", |cx, line| {
        let clf = match line.arg(0) {
            "" => false,
            "clf" => true,
            other => {
                return cx.error_at(
                    line,
                    line.keyword_len,
                    format!("'option httplog' only takes 'clf' (got '{other}')"),
                );
            }
        };
        log_option(cx, line, usize::from(clf), RawLogFormat::Http { clf, line: line.clone() });
    })
    .ignored(),
    kw("option httpslog", DFL, "", "log HTTP requests with the state of TLS", |cx, line| {
        log_option(cx, line, 0, RawLogFormat::Https { line: line.clone() });
    })
    .ignored(),
    kw("option tcplog", DFL, "[ clf ]", "log connections", |cx, line| {
        let clf = line.arg(0) == "clf";
        log_option(cx, line, usize::from(clf), RawLogFormat::Tcp { clf, line: line.clone() });
    })
    .ignored(),
    kw("option httpchk", DLB, "[ [<method>] <uri> [<version>] ]", "check servers with an HTTP request", check_proto::httpchk).bytes().ignored(),
    kw("option tcp-check", DLB, "", "check servers with the steps of `tcp-check`", check_proto::tcp_check).ignored(),
    kw("option ssl-hello-chk", DLB, "", "check that servers answer a TLS hello", check_proto::ssl_hello).ignored(),
    kw("option smtpchk", DLB, "[ { HELO | EHLO } <domain> ]", "check servers with an SMTP greeting", check_proto::smtp).ignored(),
    kw("option mysql-check", DLB, "[ user <username> [ { post-41 | pre-41 } ] ]", "check servers with a MySQL handshake", check_proto::mysql).ignored(),
    kw("option pgsql-check", DLB, "user <username>", "check servers with a PostgreSQL startup message", check_proto::pgsql).ignored(),
    kw("option redis-check", DLB, "", "check servers with a Redis PING", check_proto::redis).ignored(),
    kw("option ldap-check", DLB, "", "check servers with an LDAPv3 bind", check_proto::ldap).ignored(),
    kw("option spop-check", DLB, "", "check SPOE agents with a SPOP hello", check_proto::spop).ignored(),
    kw("option external-check", DLB, "", "check servers with a program", check_proto::external).ignored(),
    harmless("option http-use-htx", ALL, "remove it: there is only one way to represent HTTP messages").no(),
    refused("option forceclose", ALL, "remove it, or write `option httpclose` where connections really must be closed"),
    refused("option http-tunnel", ALL, "remove it: keep-alive does the same"),
    obsolete("option independant-streams", ALL, "write `option independent-streams`", Some(independent)).no(),
    obsolete("option tcpsplice", ALL, "write `option splice-auto`", Some(tcpsplice)).no(),
    refused("option http_proxy", ALL, "write `http-request set-dst` and `http-request set-uri` rules, or `option transparent`"),
];

fn independent(cx: &mut Cx<'_>, line: &Arc<Line>) {
    flag(cx, line, Options::INDEPENDENT_STREAMS);
}

fn tcpsplice(cx: &mut Cx<'_>, line: &Arc<Line>) {
    splice(cx, line, Options::SPLICE_AUTO);
}

/// Sets, clears or forgets a switch.
fn flag(cx: &mut Cx<'_>, line: &Arc<Line>, option: Options) {
    if !cx.no_more(line, line.keyword_len) {
        return;
    }
    let settings = &mut cx.proxy().settings;
    match line.prefix {
        Prefix::None => settings.set_option(option, line),
        Prefix::No => settings.unset_option(option, line),
        Prefix::Default => settings.forget_option(option),
    }
}

/// `no option splice-...` also turns off the splicing Sluice does unasked.
fn splice(cx: &mut Cx<'_>, line: &Arc<Line>, option: Options) {
    flag(cx, line, option);
    remember_no(cx, line, Options::NO_SPLICE);
}

/// For what is on unasked: that the file says `no`.
fn remember_no(cx: &mut Cx<'_>, line: &Arc<Line>, no: Options) {
    let settings = &mut cx.proxy().settings;
    match line.prefix {
        Prefix::No => settings.set_option(no, line),
        Prefix::None | Prefix::Default => settings.forget_option(no),
    }
}

/// The three connection modes exclude each other: the last one said wins, and `no` takes back only its own.
fn conn_mode(cx: &mut Cx<'_>, line: &Arc<Line>, mode: ConnMode) {
    if !cx.no_more(line, line.keyword_len) {
        return;
    }
    let said = &mut cx.proxy().settings.conn_mode;
    match line.prefix {
        Prefix::None => *said = Some(mode),
        Prefix::No | Prefix::Default if *said == Some(mode) => *said = None,
        Prefix::No | Prefix::Default => {}
    }
}

fn restrict_names(cx: &mut Cx<'_>, line: &Arc<Line>) {
    let among = [
        ("preserve", Options::HTTP_RESTRICT_REQ_HDR_NAMES_PRESERVE),
        ("delete", Options::HTTP_RESTRICT_REQ_HDR_NAMES_DELETE),
        ("reject", Options::HTTP_RESTRICT_REQ_HDR_NAMES_REJECT),
    ];
    let word = line.keyword_len;
    let Some(policy) = choice(cx, line, word, &among) else {
        return;
    };
    if !cx.no_more(line, word + 1) {
        return;
    }
    let settings = &mut cx.proxy().settings;
    for (_, other) in among {
        settings.forget_option(other);
    }
    settings.set_option(policy, line);
}

/// An interval of 1 redispatches at every retry, of -1 (or none) at the last one only.
fn redispatch(cx: &mut Cx<'_>, line: &Arc<Line>) {
    let word = line.keyword_len;
    let interval = match (line.prefix, line.has(word)) {
        (Prefix::No | Prefix::Default, _) => 0,
        (Prefix::None, false) => -1,
        (Prefix::None, true) => {
            match cx.int(line, word, i64::from(i32::MIN)..=i64::from(i32::MAX)) {
                Some(n) => i32::try_from(n).unwrap_or(-1),
                None => return,
            }
        }
    };
    if cx.no_more(line, word + 1) {
        cx.proxy().settings.redispatch = interval;
    }
}

fn forwardfor(cx: &mut Cx<'_>, line: &Arc<Line>) {
    if let Some(said) = forward_words(cx, line, "X-Forwarded-For", true) {
        cx.proxy().settings.forwardfor = Some(said);
    }
}

fn originalto(cx: &mut Cx<'_>, line: &Arc<Line>) {
    if let Some(said) = forward_words(cx, line, "X-Original-To", false) {
        cx.proxy().settings.originalto = Some(said);
    }
}

fn forward_words(
    cx: &mut Cx<'_>,
    line: &Line,
    header: &str,
    takes_if_none: bool,
) -> Option<ForwardFor> {
    let mut said = ForwardFor {
        header: header.to_owned(),
        except: None,
        if_none: false,
    };
    let mut at = line.keyword_len;
    while line.has(at) {
        match line.word(at) {
            "except" => {
                said.except = Some(network(cx, line, at + 1)?);
                at += 2;
            }
            "header" => {
                said.header = cx
                    .need(line, at + 1, "a header name after 'header'")?
                    .to_owned();
                at += 2;
            }
            "if-none" if takes_if_none => {
                said.if_none = true;
                at += 1;
            }
            other => {
                let words = match takes_if_none {
                    true => "'except', 'header' and 'if-none'",
                    false => "'except' and 'header'",
                };
                cx.error_at(
                    line,
                    at,
                    format!("'{}' only takes {words} (got '{other}')", line.keyword()),
                );
                return None;
            }
        }
    }
    Some(said)
}

/// `10.0.0.0/8`, `10.0.0.0/255.0.0.0`, `::1` or `fe80::/10`.
fn network(cx: &mut Cx<'_>, line: &Line, word: usize) -> Option<(IpAddr, u8)> {
    let text = cx.need(line, word, "a network after 'except'")?;
    if let Some(network) = parse_network(text) {
        return Some(network);
    }
    cx.error(
        line,
        word,
        0..0,
        format!(
            "'{}' expects <address>[/mask] after 'except' (got '{text}')",
            line.keyword()
        ),
        Some("for example 127.0.0.0/8 or fe80::/10".into()),
    );
    None
}

fn parse_network(text: &str) -> Option<(IpAddr, u8)> {
    let (addr, mask) = match text.split_once('/') {
        Some((addr, mask)) => (addr, Some(mask)),
        None => (text, None),
    };
    let ip: IpAddr = addr.parse().ok()?;
    let longest = if ip.is_ipv4() { 32 } else { 128 };
    let Some(mask) = mask else {
        return Some((ip, longest));
    };
    if let Ok(bits) = mask.parse::<u8>() {
        return (bits <= longest).then_some((ip, bits));
    }
    let dotted: std::net::Ipv4Addr = mask.parse().ok().filter(|_| ip.is_ipv4())?;
    let bits = u32::from(dotted);
    let ones = bits.leading_ones();
    // Only masks that are a prefix mean a network.
    let prefix = bits.checked_shl(ones).unwrap_or(0) == 0;
    prefix.then_some((ip, u8::try_from(ones).ok()?))
}

fn forwarded(cx: &mut Cx<'_>, line: &Arc<Line>) {
    if line.prefix != Prefix::None {
        cx.proxy().settings.forwarded = None;
        return;
    }
    let mut said = Forwarded::default();
    let mut at = line.keyword_len;
    // Without words: the protocol and the client's address.
    if !line.has(at) {
        said.proto = true;
        said.for_ = Some(ForwardedValue::Auto);
    }
    while line.has(at) {
        let text = line.word(at).to_owned();
        if text == "proto" {
            said.proto = true;
            at += 1;
            continue;
        }
        let slot = match text.trim_end_matches("-expr") {
            "host" => &mut said.host,
            "by" => &mut said.by,
            "by_port" => &mut said.by_port,
            "for" => &mut said.for_,
            "for_port" => &mut said.for_port,
            _ => {
                let hint = crate::diag::suggest(
                    &text,
                    [
                        "proto",
                        "host",
                        "host-expr",
                        "by",
                        "by-expr",
                        "by_port",
                        "by_port-expr",
                        "for",
                        "for-expr",
                        "for_port",
                        "for_port-expr",
                    ],
                )
                .map(|near| format!("did you mean '{near}'?"));
                return cx.error(
                    line,
                    at,
                    0..0,
                    format!("'option forwarded' : unknown word '{text}'"),
                    hint,
                );
            }
        };
        at += 1;
        *slot = Some(match text.ends_with("-expr") {
            false => ForwardedValue::Auto,
            true => match super::expr(cx, line, &mut at, Place::BE_HTTP_REQ) {
                Some(expr) => ForwardedValue::Expr(expr),
                None => return,
            },
        });
    }
    cx.proxy().settings.forwarded = Some(said);
}

fn log_option(cx: &mut Cx<'_>, line: &Arc<Line>, words: usize, format: RawLogFormat) {
    if cx.no_more(line, line.keyword_len + words) {
        cx.proxy().settings.log_format = Some(format);
    }
}

#[cfg(test)]
mod tests {
    use super::parse_network;

    #[test]
    fn networks() {
        let check = |text: &str, expect: Option<(&str, u8)>| {
            let expect = expect.map(|(ip, bits)| (ip.parse().unwrap(), bits));
            assert_eq!(parse_network(text), expect, "{text}");
        };
        check("127.0.0.0/8", Some(("127.0.0.0", 8)));
        check("127.0.0.1", Some(("127.0.0.1", 32)));
        check("10.0.0.0/255.0.0.0", Some(("10.0.0.0", 8)));
        check("10.0.0.0/255.0.255.0", None);
        check("10.0.0.0/0.0.0.0", Some(("10.0.0.0", 0)));
        check("::1", Some(("::1", 128)));
        check("fe80::/10", Some(("fe80::", 10)));
        check("fe80::/255.0.0.0", None);
        check("10.0.0.0/33", None);
        check("x/8", None);
    }
}
