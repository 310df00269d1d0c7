//! Actions on the stream and its connections: variables, captures, timeouts, marks, addresses, priorities, pauses.

use std::sync::Arc;

use sluice_expr::env::Side;
use sluice_expr::vars::{SetIf, VarRef};
use sluice_expr::{Expr, ExprError, Purpose};

use crate::cx::{Cx, PARENT_SCOPES};
use crate::line::Line;
use crate::model::{
    Action, Capture, LogStep, NumberSource, PauseSource, TimeoutKind, TimeoutSource,
};
use crate::proxy::rules::{RuleSet, RuleWords, ready};
use crate::proxy::{choice, expr};
use crate::raw::{LateAction, RawAction, RawProxy};
use crate::values::{TimeUnit, parse_time_ms};

actions! {
    "set-var*" in [conn sess content tcpres req res after] "(<var>[,<cond>...]) <expr>" "set a variable to a sample"
        => set_var;
    "set-var-fmt*" in [conn sess content tcpres req res after] "(<var>[,<cond>...]) <fmt>" "set a variable to a text"
        => set_var_fmt;
    "unset-var*" in [conn sess content tcpres req res after] "(<var>)" "forget a variable"
        => unset_var;
    "capture" in [content req res after] "<sample> { len <length> | id <index> }" "keep a sample for the log"
        => capture;
    "set-log-level" in [content tcpres req res after] "{ <level> | silent }" "change the level the stream is logged at"
        => set_log_level;
    "do-log" in [conn sess content tcpres req res after] "[ profile <name> ]" "write a log line now"
        => do_log;
    "set-nice" in [content tcpres req res] "<nice>" "change the stream's share of the CPU"
        => set_nice;
    "set-mark" in [conn sess content tcpres req res] "<mark>" "mark the packets to the client (older name of `set-fc-mark`)"
        => |cx, line, words| mark(cx, line, words, Side::Client);
    "set-fc-mark" in [conn sess content tcpres req res] "{ <mark> | <expr> }" "mark the packets to the client"
        => |cx, line, words| mark(cx, line, words, Side::Client);
    "set-bc-mark" in [content req] "{ <mark> | <expr> }" "mark the packets to the server"
        => |cx, line, words| mark(cx, line, words, Side::Server);
    "set-tos" in [conn sess content tcpres req res] "<tos>" "set the TOS or traffic class of packets to the client (older name of `set-fc-tos`)"
        => |cx, line, words| tos(cx, line, words, Side::Client);
    "set-fc-tos" in [conn sess content tcpres req res] "{ <tos> | <expr> }" "set the TOS or traffic class of packets to the client"
        => |cx, line, words| tos(cx, line, words, Side::Client);
    "set-bc-tos" in [content req] "{ <tos> | <expr> }" "set the TOS or traffic class of packets to the server"
        => |cx, line, words| tos(cx, line, words, Side::Server);
    "set-src" in [conn sess content req] "<expr>" "change the client's address"
        => |cx, line, words| ready(Action::SetSrc(sample(cx, line, words)?));
    "set-src-port" in [conn sess content req] "<expr>" "change the client's port"
        => |cx, line, words| ready(Action::SetSrcPort(sample(cx, line, words)?));
    "set-dst" in [conn sess content req] "<expr>" "change the destination address"
        => |cx, line, words| ready(Action::SetDst(sample(cx, line, words)?));
    "set-dst-port" in [conn sess content req] "<expr>" "change the destination port"
        => |cx, line, words| ready(Action::SetDstPort(sample(cx, line, words)?));
    "set-timeout" in [req res] "{ client | connect | queue | server | tarpit | tunnel } { <delay> | <expr> }" "change a timeout of this stream"
        => set_timeout;
    "set-priority-class" in [content req] "<expr>" "class of the request in queues; lower goes first"
        => |cx, line, words| ready(Action::SetPriorityClass(sample(cx, line, words)?));
    "set-priority-offset" in [content req] "<expr>" "milliseconds by which the request seems to have waited less"
        => |cx, line, words| ready(Action::SetPriorityOffset(sample(cx, line, words)?));
    "set-retries" in [content req] "<expr>" "change the number of connection retries"
        => |cx, line, words| ready(Action::SetRetries(sample(cx, line, words)?));
    "set-bandwidth-limit" in [content tcpres req res] "<name> [ limit { <expr> | <size> } ] [ period { <expr> | <time> } ]" "put a `filter bwlim-*` to work"
        => set_bandwidth_limit;
    "pause" in [req res] "{ <timeout> | <expr> }" "wait before going on"
        => pause;
    "wait-for-body" in [req res] "time <time> [ at-least <bytes> ]" "wait for the body to arrive"
        => wait_for_body;
    "wait-for-handshake" in [req] "" "wait for the TLS handshake when early data came before it"
        => |_, _, _| ready(Action::WaitForHandshake);
    "disable-l7-retry" in [req] "" "never send this request a second time"
        => |_, _, _| ready(Action::DisableL7Retry);
    "strict-mode" in [req res after] "{ on | off }" "whether a rewrite that fails is an error"
        => |cx, line, words| {
            let on = cx.on_off(line, words.at)?;
            words.at += 1;
            ready(Action::StrictMode(on))
        };
}

fn sample(cx: &mut Cx<'_>, line: &Arc<Line>, words: &mut RuleWords) -> Option<Expr> {
    expr(cx, line, &mut words.at, words.place)
}

/// What stands in the parentheses of a word; `what` says what is missing when there are none.
pub(crate) fn inside(cx: &mut Cx<'_>, line: &Line, word: usize, what: &str) -> Option<String> {
    let inner = crate::proxy::basic::paren_argument(cx, line, word).ok()?;
    match inner {
        Some(inner) if !inner.is_empty() => Some(inner),
        _ => {
            cx.error_at(line, word, format!("'{}' expects {what}", line.keyword()));
            None
        }
    }
}

/// `name(txn.x)` or `name(txn.x,ifset,...)`.
fn variable(cx: &mut Cx<'_>, line: &Line) -> Option<(VarRef, Vec<SetIf>)> {
    let word = line.keyword_len - 1;
    let inner = inside(cx, line, word, "a variable, as in `set-var(txn.name)`")?;
    parse_variable(cx, line, word, &inner)
}

/// Reads a variable's name and its conditions out of a parenthesis.
pub(crate) fn parse_variable(
    cx: &mut Cx<'_>,
    line: &Line,
    word: usize,
    inner: &str,
) -> Option<(VarRef, Vec<SetIf>)> {
    let (name, conds) = match inner.split_once(',') {
        Some((name, conds)) => (name, Some(conds)),
        None => (inner, None),
    };
    let from = line.word(word).find('(').map_or(0, |at| at + 1);
    let var = match VarRef::parse(name) {
        Ok(var) => var,
        Err(e) => {
            let span = match e.span.is_empty() {
                true => from..from + name.len(),
                false => e.span.start + from..e.span.end + from,
            };
            cx.expr_error(line, word, e.at(span));
            return None;
        }
    };
    if var.scope.is_parents() {
        let warning = ExprError::new(format!("variable '{name}' cannot be set"))
            .at(from..from + name.len())
            .hint(PARENT_SCOPES);
        cx.expr_warning(line, word, warning);
    }
    let mut known = Vec::new();
    let mut at = from + name.len() + 1;
    for cond in conds.iter().flat_map(|conds| conds.split(',')) {
        let Some(set_if) = SetIf::parse(cond) else {
            let hint = match crate::diag::suggest(cond, VAR_CONDS) {
                Some(near) => format!("did you mean '{near}'?"),
                None => format!("it is {}", crate::proxy::list(&VAR_CONDS)),
            };
            let message = format!("'{}' : unknown condition '{cond}'", line.keyword());
            cx.error(line, word, at..at + cond.len(), message, Some(hint));
            return None;
        };
        known.push(set_if);
        at += cond.len() + 1;
    }
    Some((var, known))
}

/// The conditions of `set-var(name,cond...)`, for messages.
const VAR_CONDS: [&str; 8] = [
    "ifexists",
    "ifnotexists",
    "ifempty",
    "ifnotempty",
    "ifset",
    "ifnotset",
    "ifgt",
    "iflt",
];

fn set_var(cx: &mut Cx<'_>, line: &Arc<Line>, words: &mut RuleWords) -> Option<RawAction> {
    let (var, conds) = variable(cx, line)?;
    let expr = sample(cx, line, words)?;
    ready(Action::SetVar { var, expr, conds })
}

fn set_var_fmt(cx: &mut Cx<'_>, line: &Arc<Line>, words: &mut RuleWords) -> Option<RawAction> {
    let (var, conds) = variable(cx, line)?;
    if !line.has(words.at) {
        cx.need(line, words.at, "a log-format")?;
    }
    // A variable is not part of a message: samples go into it as they are.
    let format = cx.log_format(line, words.at, words.place, Purpose::Text)?;
    words.at += 1;
    ready(Action::SetVarFormat { var, format, conds })
}

fn unset_var(cx: &mut Cx<'_>, line: &Arc<Line>, _: &mut RuleWords) -> Option<RawAction> {
    let (var, _) = variable(cx, line)?;
    ready(Action::UnsetVar(var))
}

/// `capture <sample> len N` makes a slot of its own; `id N` uses one that was declared.
fn capture(cx: &mut Cx<'_>, line: &Arc<Line>, words: &mut RuleWords) -> Option<RawAction> {
    let expr = sample(cx, line, words)?;
    let word = words.at;
    let response = words.set.is_response();
    match line.word(word) {
        // Slots made by rules are those of requests only.
        "len" if !response => {
            let len = cx.uint(line, word + 1, 1..=65_535)? as usize;
            words.at += 2;
            let proxy = cx.proxy();
            if proxy.is_defaults() || !proxy.is_frontend() {
                let why = "'capture ... len' needs a proxy with frontend capability";
                cx.error(
                    line,
                    word,
                    0..0,
                    why,
                    Some(
                        "declare the slot in the frontend with `declare capture` and write `id`"
                            .into(),
                    ),
                );
                return None;
            }
            proxy.captures_req.push(Capture { header: None, len });
            let slot = proxy.captures_req.len() - 1;
            ready(Action::Capture { expr, slot, len })
        }
        "id" if words.set != RuleSet::TcpContent => {
            let slot = cx.uint(line, word + 1, 0..=65_535)? as usize;
            words.at += 2;
            let at = word + 1;
            let line = line.clone();
            let late: Arc<LateAction> = Arc::new(move |resolver, proxy: &RawProxy| {
                let slots = match response {
                    true => &proxy.captures_res,
                    false => &proxy.captures_req,
                };
                // A backend does not know its frontends: the slot's own length counts then.
                let len = slots.get(slot).map_or(0, |c| c.len);
                if proxy.is_frontend() && len == 0 {
                    resolver.error(
                        &line,
                        at,
                        format!(
                            "unable to find capture id '{slot}' referenced by '{}'",
                            line.keyword()
                        ),
                        Some("declare it with `declare capture` or `capture ... header`".into()),
                    );
                    return None;
                }
                Some(Action::Capture {
                    expr: expr.clone(),
                    slot,
                    len,
                })
            });
            Some(RawAction::Late(late))
        }
        got => {
            let expects = match (response, words.set) {
                (true, _) => "'id <index>'",
                (false, RuleSet::TcpContent) => "'len <length>'",
                (false, _) => "'len <length>' or 'id <index>'",
            };
            let message = format!(
                "'{}' expects {expects} after the sample (got '{got}')",
                line.keyword()
            );
            cx.error_at(line, word, message);
            None
        }
    }
}

/// Syslog levels by name, most urgent first.
pub(crate) const LEVELS: [(&str, u8); 8] = [
    ("emerg", 0),
    ("alert", 1),
    ("crit", 2),
    ("err", 3),
    ("warning", 4),
    ("notice", 5),
    ("info", 6),
    ("debug", 7),
];

fn set_log_level(cx: &mut Cx<'_>, line: &Arc<Line>, words: &mut RuleWords) -> Option<RawAction> {
    let mut among: Vec<(&str, Option<u8>)> = LEVELS.iter().map(|(n, l)| (*n, Some(*l))).collect();
    among.push(("silent", None));
    let level = choice(cx, line, words.at, &among)?;
    words.at += 1;
    ready(Action::SetLogLevel(level))
}

fn do_log(cx: &mut Cx<'_>, line: &Arc<Line>, words: &mut RuleWords) -> Option<RawAction> {
    let step = match words.set {
        RuleSet::TcpConnection => LogStep::TcpReqConn,
        RuleSet::TcpSession => LogStep::TcpReqSess,
        RuleSet::TcpContent => LogStep::TcpReqCont,
        RuleSet::TcpResponse => LogStep::TcpResCont,
        RuleSet::HttpResponse => LogStep::HttpRes,
        RuleSet::HttpAfterResponse => LogStep::HttpAfterRes,
        _ => LogStep::HttpReq,
    };
    if line.word(words.at) != "profile" {
        return ready(Action::DoLog {
            step,
            profile: None,
        });
    }
    let word = words.at + 1;
    let name = cx.need(line, word, "a log-profile's name")?.to_owned();
    words.at += 2;
    let line = line.clone();
    let late: Arc<LateAction> = Arc::new(move |resolver, _: &RawProxy| {
        let profile = Some(crate::resolve::profile(resolver, &name, &line, word)?);
        Some(Action::DoLog { step, profile })
    });
    Some(RawAction::Late(late))
}

fn set_nice(cx: &mut Cx<'_>, line: &Arc<Line>, words: &mut RuleWords) -> Option<RawAction> {
    // Out of range values are brought into it, as the manual says.
    let nice = cx.int(line, words.at, i64::from(i32::MIN)..=i64::from(i32::MAX))?;
    words.at += 1;
    let nice = i32::try_from(nice.clamp(-1024, 1024)).unwrap_or(0);
    cx.no_effect(
        line,
        line.keyword_len - 1,
        "streams of one worker take their turns alike",
    );
    ready(Action::SetNice(nice))
}

fn mark(cx: &mut Cx<'_>, line: &Arc<Line>, words: &mut RuleWords, side: Side) -> Option<RawAction> {
    let value = number(
        cx,
        line,
        words,
        u32::MAX,
        line.word(line.keyword_len - 1) != "set-mark",
    )?;
    ready(Action::SetMark { side, value })
}

fn tos(cx: &mut Cx<'_>, line: &Arc<Line>, words: &mut RuleWords, side: Side) -> Option<RawAction> {
    let value = number(
        cx,
        line,
        words,
        255,
        line.word(line.keyword_len - 1) != "set-tos",
    )?;
    ready(Action::SetTos { side, value })
}

/// A number, decimal or `0x`, or (where `takes_expr`) an expression.
fn number(
    cx: &mut Cx<'_>,
    line: &Arc<Line>,
    words: &mut RuleWords,
    max: u32,
    takes_expr: bool,
) -> Option<NumberSource> {
    let text = cx.need(line, words.at, "an integer, decimal or with '0x'")?;
    let parsed = match text.strip_prefix("0x").or(text.strip_prefix("0X")) {
        Some(hex) => u32::from_str_radix(hex, 16),
        None => text.parse::<u32>(),
    };
    match parsed {
        Ok(n) if n <= max => {
            words.at += 1;
            Some(NumberSource::Const(n))
        }
        Ok(_) => {
            cx.error_at(line, words.at, format!("'{text}' is more than {max}"));
            None
        }
        Err(_) if takes_expr && !text.starts_with(|c: char| c.is_ascii_digit()) => {
            sample(cx, line, words).map(NumberSource::Expr)
        }
        Err(_) => {
            cx.error_at(
                line,
                words.at,
                format!(
                    "'{}' expects an integer, decimal or with '0x' (got '{text}')",
                    line.keyword()
                ),
            );
            None
        }
    }
}

fn set_timeout(cx: &mut Cx<'_>, line: &Arc<Line>, words: &mut RuleWords) -> Option<RawAction> {
    let among = [
        ("client", TimeoutKind::Client),
        ("connect", TimeoutKind::Connect),
        ("queue", TimeoutKind::Queue),
        ("server", TimeoutKind::Server),
        ("tarpit", TimeoutKind::Tarpit),
        ("tunnel", TimeoutKind::Tunnel),
    ];
    let which = choice(cx, line, words.at, &among)?;
    let proxy = cx.proxy();
    let (has, side) = match which {
        TimeoutKind::Client => (proxy.is_frontend(), "frontend"),
        TimeoutKind::Tarpit => (true, ""),
        _ => (proxy.is_backend(), "backend"),
    };
    if !has && !proxy.is_defaults() {
        cx.error_at(
            line,
            words.at,
            format!("'{}' : this proxy has no {side} capability", line.keyword()),
        );
        return None;
    }
    words.at += 1;
    let text = cx.need(line, words.at, "a delay or a sample expression")?;
    let value = match parse_time_ms(text, TimeUnit::Ms) {
        Ok(ms) => {
            words.at += 1;
            TimeoutSource::ConstMs(ms)
        }
        Err(_) if text.starts_with(|c: char| c.is_ascii_digit()) => {
            cx.time_ms(line, words.at, TimeUnit::Ms)?;
            return None;
        }
        Err(_) => TimeoutSource::Expr(sample(cx, line, words)?),
    };
    ready(Action::SetTimeout { which, value })
}

fn pause(cx: &mut Cx<'_>, line: &Arc<Line>, words: &mut RuleWords) -> Option<RawAction> {
    let text = cx.need(line, words.at, "a delay or a sample expression")?;
    let source = match text.starts_with(|c: char| c.is_ascii_digit()) {
        true => {
            let ms = cx.time_ms(line, words.at, TimeUnit::Ms)?;
            words.at += 1;
            PauseSource::ConstMs(ms)
        }
        false => PauseSource::Expr(sample(cx, line, words)?),
    };
    ready(Action::Pause(source))
}

fn wait_for_body(cx: &mut Cx<'_>, line: &Arc<Line>, words: &mut RuleWords) -> Option<RawAction> {
    let (mut time_ms, mut at_least) = (None, 0);
    loop {
        match line.word(words.at) {
            "time" => time_ms = Some(cx.time_ms(line, words.at + 1, TimeUnit::Ms)?),
            "at-least" => at_least = cx.size(line, words.at + 1)?,
            _ => break,
        }
        words.at += 2;
    }
    let Some(time_ms) = time_ms else {
        cx.error_at(
            line,
            words.at,
            format!(
                "'{}' expects 'time <time> [ at-least <bytes> ]'",
                line.keyword()
            ),
        );
        return None;
    };
    // nothing said, or 0, is all of it
    let at_least = match at_least {
        0 => u64::MAX,
        bytes => bytes,
    };
    ready(Action::WaitForBody { time_ms, at_least })
}

fn set_bandwidth_limit(
    cx: &mut Cx<'_>,
    line: &Arc<Line>,
    words: &mut RuleWords,
) -> Option<RawAction> {
    let at = words.at;
    let name = cx
        .need(line, at, "the name of a `filter bwlim-in` or `bwlim-out`")?
        .to_owned();
    words.at += 1;
    let (mut limit, mut period) = (None, None);
    loop {
        match line.word(words.at) {
            "limit" => {
                words.at += 1;
                limit = Some(size_or_time(cx, line, words, false)?);
            }
            "period" => {
                words.at += 1;
                period = Some(size_or_time(cx, line, words, true)?);
            }
            _ => break,
        }
    }
    let line = line.clone();
    let late: Arc<LateAction> = Arc::new(move |resolver, proxy: &RawProxy| {
        let filter = proxy.bwlims.iter().find(|f| f.name == name);
        let Some(filter) = filter else {
            let near = crate::diag::suggest(&name, proxy.bwlims.iter().map(|f| f.name.as_str()))
                .map(|near| format!("did you mean '{near}'?"));
            resolver.error(
                &line,
                at,
                format!(
                    "'{}' : no 'filter bwlim-in' or 'filter bwlim-out' is called '{name}' here",
                    line.keyword()
                ),
                near,
            );
            return None;
        };
        Some(Action::SetBandwidthLimit {
            filter: filter.clone(),
            limit: limit.clone(),
            period: period.clone(),
        })
    });
    Some(RawAction::Late(late))
}

/// A literal becomes an `int()` expression, so that the data path has one case.
fn size_or_time(
    cx: &mut Cx<'_>,
    line: &Arc<Line>,
    words: &mut RuleWords,
    time: bool,
) -> Option<Expr> {
    let text = cx.need(line, words.at, "a value")?;
    if !text.starts_with(|c: char| c.is_ascii_digit()) {
        return sample(cx, line, words);
    }
    let number = match time {
        true => cx.time_ms(line, words.at, TimeUnit::Ms)?,
        false => cx.size(line, words.at)?,
    };
    let literal = format!("int({number})");
    let expr = cx.with_ctx(line, words.at, words.place, |ctx, _| {
        Expr::parse(&literal, ctx)
    })?;
    words.at += 1;
    Some(expr)
}
