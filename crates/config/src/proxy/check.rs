//! `http-check` and `tcp-check` lines, and how they become the steps of a check.
//!
//! What `expect` matches is in [`super::check_expect`], the fixed protocol checks are in [`super::check_proto`].

use std::sync::Arc;

use sluice_expr::place::Place;
use sluice_expr::{Expr, LogFormat};

use crate::addr::AddrRules;
use crate::cx::Cx;
use crate::line::Line;
use crate::model::{
    CheckAction, CheckExpect, CheckKind, CheckMatch, CheckRules, CheckStep, ExternalCheck,
    PeerAddr, PortSpec,
};
use crate::raw::{CheckOption, HttpSend, RawCheck, RawCheckAction, RawCheckStep};
use crate::registry::{Keyword, Sections, kw};

use super::action::header::header_name;
use super::action::stream::{inside, parse_variable};
use super::check_expect::expect;
use super::{expr, format, hex_bytes, text_format};

const DLB: Sections = Sections::DLB;

#[rustfmt::skip]
pub(crate) static KEYWORDS: &[Keyword] = &[
    kw("http-check comment", DLB, "<string>", "name the next step of the check in reports", comment).ignored(),
    kw("http-check connect", DLB, "[default] [port <expr>] [addr <ip>] [send-proxy] [via-socks4] [linger] [comment <msg>]", "open a connection", connect).ignored(),
    kw("http-check disable-on-404", DLB, "", "a 404 takes the server out of new sessions", |cx, line| {
        if cx.no_more(line, line.keyword_len) {
            cx.proxy().settings.check.disable_on_404 = true;
        }
    })
    .ignored(),
    kw("http-check send-state", DLB, "", "tell servers what state they are in", |cx, line| {
        if cx.no_more(line, line.keyword_len) {
            cx.proxy().settings.check.send_state = true;
        }
    })
    .ignored(),
    kw("http-check expect", DLB, "[<option>]* [!] <match> <pattern>", "what the response has to be", http_expect).bytes().ignored(),
    kw("http-check send", DLB, "[meth <method>] [{ uri <uri> | uri-lf <fmt> }] [ver <version>] [hdr <name> <fmt>]* [{ body <string> | body-lf <fmt> }] [comment <msg>]", "the request to send", http_send).bytes().ignored(),
    kw("http-check set-var*", DLB, "(<var>[,<cond>...]) <expr>", "set a variable of the check", set_var).ignored(),
    kw("http-check set-var-fmt*", DLB, "(<var>[,<cond>...]) <fmt>", "set a variable of the check to a text", set_var_fmt).ignored(),
    kw("http-check unset-var*", DLB, "(<var>)", "forget a variable of the check", unset_var).ignored(),
    kw("tcp-check comment", DLB, "<string>", "name the next step of the check in reports", comment).ignored(),
    kw("tcp-check connect", DLB, "[default] [port <expr>] [addr <ip>] [send-proxy] [via-socks4] [linger] [comment <msg>]", "open a connection", connect).ignored(),
    kw("tcp-check expect", DLB, "[<option>]* [!] <match> <pattern>", "what has to be received", tcp_expect).bytes().ignored(),
    kw("tcp-check send", DLB, "<data> [comment <msg>]", "bytes to send", |cx, line| {
        tcp_send(cx, line, |cx, line, word| {
            cx.need(line, word, "the data to send")?;
            Some(CheckAction::Send(line.words.get(word)?.bytes().to_vec()))
        });
    })
    .bytes()
    .ignored(),
    kw("tcp-check send-lf", DLB, "<fmt> [comment <msg>]", "bytes to send, from a log-format", |cx, line| {
        tcp_send(cx, line, |cx, line, word| {
            let format = format(cx, line, word, Place::CHECK)?;
            Some(CheckAction::SendFormat { format, binary: false })
        });
    })
    .ignored(),
    kw("tcp-check send-binary", DLB, "<hexstring> [comment <msg>]", "bytes to send, in hexadecimal", |cx, line| {
        tcp_send(cx, line, |cx, line, word| Some(CheckAction::Send(hex_bytes(cx, line, word)?)));
    })
    .ignored(),
    kw("tcp-check send-binary-lf", DLB, "<hexfmt> [comment <msg>]", "bytes to send, from a log-format in hexadecimal", |cx, line| {
        tcp_send(cx, line, |cx, line, word| {
            let format = format(cx, line, word, Place::CHECK)?;
            Some(CheckAction::SendFormat { format, binary: true })
        });
    })
    .ignored(),
    kw("tcp-check set-var*", DLB, "(<var>[,<cond>...]) <expr>", "set a variable of the check", set_var).ignored(),
    kw("tcp-check set-var-fmt*", DLB, "(<var>[,<cond>...]) <fmt>", "set a variable of the check to a text", set_var_fmt).ignored(),
    kw("tcp-check unset-var*", DLB, "(<var>)", "forget a variable of the check", unset_var).ignored(),
    kw("external-check command", DLB, "<command>", "the program that checks servers", |cx, line| {
        if cx.need(line, 2, "a program").is_some() && cx.no_more(line, 3) {
            cx.proxy().settings.check.command = Some(line.word(2).to_owned());
        }
    })
    .ignored(),
    kw("external-check path", DLB, "<path>", "the PATH of the program that checks servers", |cx, line| {
        if cx.need(line, 2, "a list of directories").is_some() && cx.no_more(line, 3) {
            cx.proxy().settings.check.path = Some(line.word(2).to_owned());
        }
    })
    .ignored(),
];

/// Appends a step to the list its keyword belongs to. The first line of a section replaces what it inherited.
fn push(cx: &mut Cx<'_>, line: &Arc<Line>, comment: Option<String>, action: RawCheckAction) {
    let family = line.word(0).to_owned();
    let proxy = cx.proxy();
    let first = proxy.seen.insert(family.clone());
    let check = &mut proxy.settings.check;
    let steps = match family.as_str() {
        "http-check" => &mut check.http,
        _ => &mut check.tcp,
    };
    if first {
        steps.clear();
    }
    if let Some(fault) = misplaced(&family, steps, &action) {
        let number = steps.len() + 1;
        return cx.error_at(
            line,
            1,
            format!(
                "'{}' : unable to add this rule at step {number} ({fault})",
                line.keyword()
            ),
        );
    }
    steps.push(RawCheckStep {
        comment,
        action,
        line: line.clone(),
    });
}

/// Whether a step speaks to the server, and how.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Talk {
    Connect,
    Send,
    Expect,
}

fn talk(action: &RawCheckAction) -> Option<Talk> {
    match action {
        RawCheckAction::Send(_) => Some(Talk::Send),
        RawCheckAction::Comment => None,
        RawCheckAction::Ready(action) => match action {
            CheckAction::Connect { .. } => Some(Talk::Connect),
            CheckAction::Send(_)
            | CheckAction::SendFormat { .. }
            | CheckAction::SendHttp { .. } => Some(Talk::Send),
            CheckAction::Expect(_) => Some(Talk::Expect),
            CheckAction::SetVar { .. }
            | CheckAction::SetVarFormat { .. }
            | CheckAction::UnsetVar(_) => None,
        },
    }
}

/// What is wrong with a step after those before it. HTTP takes turns; TCP may do as it likes once it is connected.
fn misplaced(
    family: &str,
    before: &[RawCheckStep],
    action: &RawCheckAction,
) -> Option<&'static str> {
    let own = talk(action)?;
    let last = before.iter().rev().find_map(|s| talk(&s.action));
    let connected = before
        .iter()
        .any(|s| talk(&s.action) == Some(Talk::Connect));
    if own == Talk::Connect && last.is_some() && !connected {
        return Some("when there is a 'connect' step, the first step must be one");
    }
    if family != "http-check" {
        return None;
    }
    match (own, last) {
        (Talk::Send, Some(Talk::Send | Talk::Expect)) => Some("missing connect rule"),
        (Talk::Expect, Some(Talk::Connect)) => Some("missing send rule"),
        (Talk::Connect, Some(Talk::Connect | Talk::Send)) => Some("missing expect rule"),
        _ => None,
    }
}

fn comment(cx: &mut Cx<'_>, line: &Arc<Line>) {
    let word = line.keyword_len;
    let Some(text) = cx.need(line, word, "a text") else {
        return;
    };
    let text = text.to_owned();
    if cx.no_more(line, word + 1) {
        push(cx, line, Some(text), RawCheckAction::Comment);
    }
}

/// `comment <msg>` at an index; moves past it.
pub(super) fn comment_word(cx: &mut Cx<'_>, line: &Line, at: &mut usize) -> Option<String> {
    let text = cx.need(line, *at + 1, "a text after 'comment'")?.to_owned();
    *at += 2;
    Some(text)
}

fn connect(cx: &mut Cx<'_>, line: &Arc<Line>) {
    if let Some((comment, action)) = connect_words(cx, line) {
        push(cx, line, comment, RawCheckAction::Ready(action));
    }
}

fn connect_words(cx: &mut Cx<'_>, line: &Arc<Line>) -> Option<(Option<String>, CheckAction)> {
    let mut at = line.keyword_len;
    let mut via_socks4 = false;
    let (mut comment, mut port, mut addr, mut send_proxy, mut linger) =
        (None, None, None, false, false);
    while line.has(at) {
        match line.word(at) {
            "comment" => {
                comment = Some(comment_word(cx, line, &mut at)?);
                continue;
            }
            // The server's own settings, which is what counts here anyway.
            "default" => {}
            "port" => {
                at += 1;
                port = Some(port_expr(cx, line, &mut at)?);
                continue;
            }
            "addr" => {
                let rules = AddrRules::OPTIONAL_PORT;
                let given = cx.peer_addr(line, at + 1, rules)?;
                if let PeerAddr::Ip {
                    port: PortSpec::Fixed(n),
                    ..
                } = given
                {
                    port = Some(int(cx, line, at + 1, n)?);
                }
                addr = Some(given);
                at += 1;
            }
            "send-proxy" => send_proxy = true,
            "linger" => linger = true,
            "proto" => match line.word(at + 1) {
                "h1" => at += 1,
                "h2" | "fcgi" | "quic" => {
                    cx.not_yet(
                        line,
                        at + 1,
                        &format!("proto {}", line.word(at + 1)),
                        "HTTP/2",
                    );
                    return None;
                }
                other => {
                    cx.error_at(
                        line,
                        at + 1,
                        format!("'{}' : unknown protocol '{other}'", line.keyword()),
                    );
                    return None;
                }
            },
            name @ ("ssl" | "sni" | "alpn") => {
                cx.not_yet(line, at, name, "TLS");
                return None;
            }
            "via-socks4" => via_socks4 = true,
            other => {
                let words = [
                    "comment",
                    "port",
                    "addr",
                    "send-proxy",
                    "ssl",
                    "sni",
                    "alpn",
                    "proto",
                    "via-socks4",
                    "linger",
                    "default",
                ];
                let hint = match crate::diag::suggest(other, words) {
                    Some(near) => format!("did you mean '{near}'?"),
                    None => format!("it takes {}", super::list(&words)),
                };
                cx.error(
                    line,
                    at,
                    0..0,
                    format!("'{}' : unknown word '{other}'", line.keyword()),
                    Some(hint),
                );
                return None;
            }
        }
        at += 1;
    }
    let action = CheckAction::Connect {
        port,
        addr,
        send_proxy,
        via_socks4,
        linger,
    };
    Some((comment, action))
}

/// A port number or an expression that gives one.
fn port_expr(cx: &mut Cx<'_>, line: &Arc<Line>, at: &mut usize) -> Option<Expr> {
    if line.word(*at).starts_with(|c: char| c.is_ascii_digit()) {
        let port = cx.uint(line, *at, 1..=65_535)?;
        let made = int(cx, line, *at, port)?;
        *at += 1;
        return Some(made);
    }
    expr(cx, line, at, Place::CHECK)
}

/// `int(N)` as an expression.
fn int(cx: &mut Cx<'_>, line: &Line, word: usize, n: impl Into<u32>) -> Option<Expr> {
    let text = format!("int({})", n.into());
    cx.with_ctx(line, word, Place::CHECK, |ctx, _| Expr::parse(&text, ctx))
}

type SendWords = fn(&mut Cx<'_>, &Arc<Line>, usize) -> Option<CheckAction>;

fn tcp_send(cx: &mut Cx<'_>, line: &Arc<Line>, read: SendWords) {
    let mut at = line.keyword_len;
    let Some(action) = read(cx, line, at) else {
        return;
    };
    at += 1;
    let mut said = None;
    if line.word(at) == "comment" {
        said = match comment_word(cx, line, &mut at) {
            None => return,
            text => text,
        };
    }
    if cx.no_more(line, at) {
        push(cx, line, said, RawCheckAction::Ready(action));
    }
}

fn http_send(cx: &mut Cx<'_>, line: &Arc<Line>) {
    if let Some((comment, send)) = http_send_words(cx, line) {
        push(cx, line, comment, RawCheckAction::Send(send));
    }
}

fn http_send_words(cx: &mut Cx<'_>, line: &Arc<Line>) -> Option<(Option<String>, HttpSend)> {
    let mut at = line.keyword_len;
    let mut send = HttpSend::default();
    let mut said = None;
    while line.has(at) {
        let name = line.word(at);
        match name {
            "comment" => {
                said = Some(comment_word(cx, line, &mut at)?);
                continue;
            }
            "meth" => send.method = Some(bytes_of(cx, line, at + 1, "a method after 'meth'")?),
            "ver" => send.version = Some(bytes_of(cx, line, at + 1, "a version after 'ver'")?),
            "uri" => send.uri = Some(constant(cx, line, at + 1, "a URI after 'uri'")?),
            "uri-lf" => send.uri = Some(format(cx, line, at + 1, Place::CHECK)?),
            "body" => send.body = Some(constant(cx, line, at + 1, "a text after 'body'")?),
            "body-lf" => send.body = Some(format(cx, line, at + 1, Place::CHECK)?),
            "hdr" => {
                let header = header_name(cx, line, at + 1)?;
                send.headers
                    .push((header, format(cx, line, at + 2, Place::CHECK)?));
                at += 1;
            }
            other => {
                let words = [
                    "comment", "meth", "uri", "uri-lf", "ver", "hdr", "body", "body-lf",
                ];
                let hint = match crate::diag::suggest(other, words) {
                    Some(near) => format!("did you mean '{near}'?"),
                    None => format!("it takes {}", super::list(&words)),
                };
                cx.error(
                    line,
                    at,
                    0..0,
                    format!("'http-check send' : unknown word '{other}'"),
                    Some(hint),
                );
                return None;
            }
        }
        at += 2;
    }
    Some((said, send))
}

fn bytes_of(cx: &mut Cx<'_>, line: &Line, word: usize, what: &str) -> Option<Vec<u8>> {
    cx.need(line, word, what)?;
    Some(line.words.get(word)?.bytes().to_vec())
}

/// A text taken as it stands, in the form of a log-format.
fn constant(cx: &mut Cx<'_>, line: &Arc<Line>, word: usize, what: &str) -> Option<LogFormat> {
    let text = cx.need(line, word, what)?;
    constant_text(cx, line, word, text)
}

/// The same for a text that is not a whole word.
pub(super) fn constant_text(
    cx: &mut Cx<'_>,
    line: &Arc<Line>,
    word: usize,
    text: &str,
) -> Option<LogFormat> {
    text_format(cx, line, word, &text.replace('%', "%%"), Place::CHECK)
}

fn http_expect(cx: &mut Cx<'_>, line: &Arc<Line>) {
    if let Some((comment, action)) = expect(cx, line, true) {
        push(
            cx,
            line,
            comment,
            RawCheckAction::Ready(CheckAction::Expect(action)),
        );
    }
}

fn tcp_expect(cx: &mut Cx<'_>, line: &Arc<Line>) {
    if let Some((comment, action)) = expect(cx, line, false) {
        push(
            cx,
            line,
            comment,
            RawCheckAction::Ready(CheckAction::Expect(action)),
        );
    }
}

fn set_var(cx: &mut Cx<'_>, line: &Arc<Line>) {
    let mut at = line.keyword_len;
    let Some(inner) = inside(cx, line, at - 1, "a variable, as in `set-var(check.name)`") else {
        return;
    };
    if let Some((var, _)) = parse_variable(cx, line, at - 1, &inner)
        && let Some(expr) = expr(cx, line, &mut at, Place::CHECK)
        && cx.no_more(line, at)
    {
        push(
            cx,
            line,
            None,
            RawCheckAction::Ready(CheckAction::SetVar { var, expr }),
        );
    }
}

fn set_var_fmt(cx: &mut Cx<'_>, line: &Arc<Line>) {
    let at = line.keyword_len;
    let Some(inner) = inside(
        cx,
        line,
        at - 1,
        "a variable, as in `set-var-fmt(check.name)`",
    ) else {
        return;
    };
    if let Some((var, _)) = parse_variable(cx, line, at - 1, &inner)
        && let Some(format) = format(cx, line, at, Place::CHECK)
        && cx.no_more(line, at + 1)
    {
        push(
            cx,
            line,
            None,
            RawCheckAction::Ready(CheckAction::SetVarFormat { var, format }),
        );
    }
}

fn unset_var(cx: &mut Cx<'_>, line: &Arc<Line>) {
    let at = line.keyword_len;
    let Some(inner) = inside(
        cx,
        line,
        at - 1,
        "a variable, as in `unset-var(check.name)`",
    ) else {
        return;
    };
    if let Some((var, _)) = parse_variable(cx, line, at - 1, &inner)
        && cx.no_more(line, at)
    {
        push(
            cx,
            line,
            None,
            RawCheckAction::Ready(CheckAction::UnsetVar(var)),
        );
    }
}

/// The first line of rules that no option puts to use, for a warning.
pub(crate) fn unused_rules(raw: &RawCheck) -> Option<(&Arc<Line>, &'static str)> {
    let option = raw.option.as_ref().map(|(option, _)| option);
    if !matches!(option, Some(CheckOption::Http { .. }))
        && let Some(step) = raw.http.first()
    {
        return Some((&step.line, "option httpchk"));
    }
    if !matches!(option, Some(CheckOption::Tcp))
        && let Some(step) = raw.tcp.first()
    {
        return Some((&step.line, "option tcp-check"));
    }
    None
}

/// What a backend's servers are asked, from what was written.
pub(crate) fn build(raw: &RawCheck) -> CheckKind {
    let rules = match raw.option.as_ref().map(|(option, _)| option) {
        None => return CheckKind::Tcp,
        Some(CheckOption::Tcp) => CheckRules {
            http: false,
            proto: "TCP",
            steps: number(&raw.tcp, |_| None),
            disable_on_404: false,
            send_state: false,
        },
        Some(CheckOption::Fixed(rules)) => return CheckKind::Rules(rules.clone()),
        Some(CheckOption::External) => {
            return CheckKind::External(Arc::new(ExternalCheck {
                command: raw.command.clone().unwrap_or_default(),
                path: raw.path.clone(),
            }));
        }
        Some(CheckOption::Http { first, slash }) => CheckRules {
            http: true,
            proto: "HTTP",
            steps: http_steps(&raw.http, first, slash),
            disable_on_404: raw.disable_on_404,
            send_state: raw.send_state,
        },
    };
    CheckKind::Rules(Arc::new(rules))
}

/// Adds the request of `option httpchk` when no line sends one, and the usual expectation when none is written. The first
/// request takes over what it does not say itself from the option.
fn http_steps(written: &[RawCheckStep], option: &HttpSend, slash: &LogFormat) -> Vec<CheckStep> {
    let mut first = Some(option);
    let nothing = HttpSend::default();
    let mut steps = number(written, |send| {
        Some(request(first.take().unwrap_or(&nothing), send, slash))
    });
    let place = |steps: &[CheckStep]| {
        steps
            .iter()
            .position(|s| matches!(s.action, CheckAction::Expect(_)))
            .unwrap_or(steps.len())
    };
    let unnumbered = |action| CheckStep {
        comment: None,
        number: 0,
        action,
    };
    if first.is_some() {
        let at = place(&steps);
        steps.insert(at, unnumbered(request(option, &nothing, slash)));
    }
    if place(&steps) == steps.len() {
        let expect = CheckExpect::plain(CheckMatch::Status(vec![(200, 399)]));
        steps.push(unnumbered(CheckAction::Expect(expect)));
    }
    for (n, step) in (1..).zip(&mut steps) {
        step.number = n;
    }
    steps
}

/// The steps as written, numbered; a `comment` line names the step after it. `request` makes the HTTP requests.
fn number(
    written: &[RawCheckStep],
    mut request: impl FnMut(&HttpSend) -> Option<CheckAction>,
) -> Vec<CheckStep> {
    let (mut steps, mut comment) = (Vec::new(), None);
    // comment lines count among the steps, as in HAProxy's reports
    for (n, step) in (1..).zip(written) {
        let action = match &step.action {
            RawCheckAction::Comment => {
                comment.clone_from(&step.comment);
                continue;
            }
            RawCheckAction::Ready(action) => Some(action.clone()),
            RawCheckAction::Send(send) => request(send),
        };
        let Some(action) = action else {
            continue;
        };
        steps.push(CheckStep {
            comment: step.comment.clone().or_else(|| comment.take()),
            number: n,
            action,
        });
    }
    steps
}

/// A request: what `own` says, or else `option`; `OPTIONS / HTTP/1.0` where neither does. Headers and body are never
/// mixed from both.
fn request(option: &HttpSend, own: &HttpSend, slash: &LogFormat) -> CheckAction {
    let bare = own.headers.is_empty() && own.body.is_none();
    let content = if bare { option } else { own };
    let either = |own: &Option<Vec<u8>>, option: &Option<Vec<u8>>, or: &[u8]| {
        own.as_ref()
            .or(option.as_ref())
            .map_or(or.to_vec(), Vec::clone)
    };
    CheckAction::SendHttp {
        method: either(&own.method, &option.method, b"OPTIONS"),
        uri: own
            .uri
            .as_ref()
            .or(option.uri.as_ref())
            .unwrap_or(slash)
            .clone(),
        version: either(&own.version, &option.version, b"HTTP/1.0"),
        headers: content.headers.clone(),
        body: content.body.clone(),
    }
}
