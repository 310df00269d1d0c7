//! `balance`, `hash-type` and what goes with them.

use std::sync::Arc;

use sluice_expr::place::Place;

use crate::cx::Cx;
use crate::diag::suggest;
use crate::line::Line;
use crate::model::{Balance, HashFunction, HashType};
use crate::registry::{Keyword, Sections, kw};

use super::{choice, expr, list};

#[rustfmt::skip]
pub(crate) static KEYWORDS: &[Keyword] = &[
    kw(
        "balance",
        Sections::DLB,
        "<algorithm> [ <arguments> ]",
        "how the backend chooses a server",
        balance,
    )
    .ignored(),
    kw(
        "hash-type",
        Sections::DLB,
        "{ map-based | consistent } [ { sdbm | djb2 | wt6 | crc32 | none } [ avalanche ] ]",
        "how a hash becomes a server",
        hash_type,
    )
    .ignored(),
    kw(
        "hash-balance-factor",
        Sections::DLB,
        "<percentage>",
        "most load a server may have of the average, with consistent hashing",
        hash_balance_factor,
    )
    .ignored(),
    kw(
        "hash-preserve-affinity",
        Sections::DLB,
        "{ always | maxconn | maxqueue }",
        "what becomes of a request whose hashed server is full",
        hash_preserve_affinity,
    )
    .ignored(),
];

/// Algorithm names, for messages.
const ALGORITHMS: [&str; 13] = [
    "roundrobin",
    "static-rr",
    "leastconn",
    "first",
    "random",
    "source",
    "uri",
    "url_param",
    "hdr(name)",
    "rdp-cookie(name)",
    "hash",
    "sticky",
    "log-hash",
];

/// What the expression of `balance log-hash` begins with: whoever evaluates it has one variable only.
const LOG_MESSAGE: &str = "var(proc.log_message)";

fn balance(cx: &mut Cx<'_>, line: &Arc<Line>) {
    let mut at = line.keyword_len;
    let Some(algorithm) = algorithm(cx, line, &mut at) else {
        return;
    };
    if !cx.no_more(line, at) {
        return;
    }
    let settings = &mut cx.proxy().settings;
    settings.balance = Some(algorithm);
    settings.balance_line = Some(line.clone());
}

fn algorithm(cx: &mut Cx<'_>, line: &Arc<Line>, at: &mut usize) -> Option<Balance> {
    let word = *at;
    // Nothing after `balance` means round robin, as it always did.
    let text = line.word(word);
    let (name, argument) = match text.split_once('(') {
        Some((name, rest)) => match rest.strip_suffix(')') {
            Some(argument) => (name, Some(argument)),
            None => {
                let message = format!("missing closing parenthesis in 'balance {text}'");
                cx.error(line, word, name.len()..text.len(), message, None);
                return None;
            }
        },
        None => (text, None),
    };
    *at += 1;
    if argument.is_some() && !matches!(name, "random" | "hdr" | "rdp-cookie") {
        return unknown(cx, line, word);
    }
    Some(match name {
        "" | "roundrobin" => Balance::RoundRobin,
        "static-rr" => Balance::StaticRr,
        "leastconn" => Balance::LeastConn,
        "first" => Balance::First,
        "random" => Balance::Random {
            draws: draws(cx, line, word, argument)?,
        },
        "source" => Balance::Source,
        "uri" => uri(cx, line, at)?,
        "url_param" => url_param(cx, line, at)?,
        "hdr" => {
            let name = argument.unwrap_or("");
            if name.is_empty() {
                cx.error_at(
                    line,
                    word,
                    "balance hdr requires a header name, as in `balance hdr(Host)`",
                );
                return None;
            }
            let use_domain_only = line.word(*at) == "use_domain_only";
            if !use_domain_only && line.has(*at) {
                let message = format!(
                    "balance hdr({name}) only accepts 'use_domain_only' modifier (got '{}').",
                    line.word(*at)
                );
                cx.error_at(line, *at, message);
                return None;
            }
            *at += usize::from(use_domain_only);
            Balance::Header {
                name: name.to_owned(),
                use_domain_only,
            }
        }
        "rdp-cookie" => match argument.unwrap_or("mstshash") {
            "" => {
                cx.error_at(line, word, "balance rdp-cookie : missing cookie name");
                return None;
            }
            name => Balance::RdpCookie {
                name: name.to_owned(),
            },
        },
        "hash" => Balance::Hash(expr(cx, line, at, Place::BE_SET_SERVER)?),
        "sticky" | "log-sticky" => Balance::Sticky,
        "log-hash" => {
            let converters = line.word(*at);
            *at += usize::from(!converters.is_empty());
            let text = match converters {
                "" => LOG_MESSAGE.to_owned(),
                converters => format!("{LOG_MESSAGE},{converters}"),
            };
            let parse = |ctx: &sluice_expr::ParseCtx<'_>, _: &_| {
                // what is wrong is wrong with the converters
                sluice_expr::Expr::parse(&text, ctx).map_err(|e| e.at(0..0))
            };
            Balance::LogHash(cx.with_ctx(line, *at - 1, Place::CFG, parse)?)
        }
        _ => return unknown(cx, line, word),
    })
}

fn unknown(cx: &mut Cx<'_>, line: &Line, word: usize) -> Option<Balance> {
    let text = line.word(word);
    let stem = text.split('(').next().unwrap_or(text);
    let names = ALGORITHMS.iter().map(|n| n.split('(').next().unwrap_or(n));
    let hint = match suggest(stem, names) {
        Some(near) => format!("did you mean '{near}'?"),
        None => format!("it is one of {}", list(&ALGORITHMS)),
    };
    let message = format!("unknown load balancing algorithm '{text}'");
    cx.error(line, word, 0..0, message, Some(hint));
    None
}

fn draws(cx: &mut Cx<'_>, line: &Line, word: usize, argument: Option<&str>) -> Option<u32> {
    let Some(text) = argument else {
        return Some(2);
    };
    match text.parse::<u32>() {
        Ok(n) if n > 0 => Some(n),
        _ => {
            let message =
                format!("balance random : '{text}' is not a number of draws of at least 1");
            cx.error_at(line, word, message);
            None
        }
    }
}

fn uri(cx: &mut Cx<'_>, line: &Line, at: &mut usize) -> Option<Balance> {
    let (mut len, mut depth, mut whole, mut path_only) = (None, None, false, false);
    while line.has(*at) {
        let positive = 1..=i32::MAX as u32;
        match line.word(*at) {
            "len" => {
                len = Some(cx.uint(line, *at + 1, positive)?);
                *at += 2;
            }
            "depth" => {
                // The first slash is always there: depth counts those after it.
                depth = Some(cx.uint(line, *at + 1, positive)?);
                *at += 2;
            }
            "whole" => {
                whole = true;
                *at += 1;
            }
            "path-only" => {
                path_only = true;
                *at += 1;
            }
            other => {
                let message = format!(
                    "balance uri takes 'len', 'depth', 'path-only' and 'whole' (got '{other}')"
                );
                cx.error_at(line, *at, message);
                return None;
            }
        }
    }
    Some(Balance::Uri {
        len,
        depth,
        whole,
        path_only,
    })
}

fn url_param(cx: &mut Cx<'_>, line: &Line, at: &mut usize) -> Option<Balance> {
    let name = cx
        .need(line, *at, "the parameter's name after 'url_param'")?
        .to_owned();
    *at += 1;
    let mut check_post = None;
    if line.word(*at) == "check_post" {
        *at += 1;
        // The longest wait of old versions has no effect any more, and still may be written.
        check_post = Some(48);
        if line.has(*at) {
            check_post = Some(cx.uint(line, *at, 0..=i32::MAX as u32)?);
            *at += 1;
        }
    }
    Some(Balance::UrlParam { name, check_post })
}

fn hash_type(cx: &mut Cx<'_>, line: &Arc<Line>) {
    let mut at = line.keyword_len;
    let Some(consistent) = choice(cx, line, at, &[("consistent", true), ("map-based", false)])
    else {
        return;
    };
    at += 1;
    // sdbm, with avalanche for consistent hashing, where nothing else is said.
    let (mut function, mut avalanche) = (HashFunction::Sdbm, consistent);
    if line.has(at) {
        let among = [
            ("sdbm", HashFunction::Sdbm),
            ("djb2", HashFunction::Djb2),
            ("wt6", HashFunction::Wt6),
            ("crc32", HashFunction::Crc32),
            ("none", HashFunction::None),
        ];
        match choice(cx, line, at, &among) {
            Some(named) => function = named,
            None => return,
        }
        avalanche = false;
        at += 1;
    }
    if line.has(at) {
        if choice(cx, line, at, &[("avalanche", ())]).is_none() {
            return;
        }
        avalanche = true;
        at += 1;
    }
    if cx.no_more(line, at) {
        let kept = cx.proxy().settings.hash_type.balance_factor;
        cx.proxy().settings.hash_type = HashType {
            consistent,
            function,
            avalanche,
            balance_factor: kept,
        };
    }
}

fn hash_balance_factor(cx: &mut Cx<'_>, line: &Arc<Line>) {
    let word = line.keyword_len;
    let Some(percent) = cx.uint(line, word, 0..=i32::MAX as u32) else {
        return;
    };
    if (1..=100).contains(&percent) {
        return cx.error(
            line,
            word,
            0..0,
            "'hash-balance-factor' must be 0 or greater than 100",
            Some("it is a percentage of the average load; 0 turns it off".into()),
        );
    }
    if cx.no_more(line, word + 1) {
        let settings = &mut cx.proxy().settings;
        settings.hash_balance_factor = percent;
        settings.hash_type.balance_factor = percent;
    }
}

fn hash_preserve_affinity(cx: &mut Cx<'_>, line: &Arc<Line>) {
    let word = line.keyword_len;
    let among = [("always", true), ("maxconn", false), ("maxqueue", false)];
    match choice(cx, line, word, &among) {
        // What Sluice and HAProxy do unasked.
        Some(true) => {
            cx.no_more(line, word + 1);
        }
        Some(false) => {
            let name = format!("hash-preserve-affinity {}", line.word(word));
            cx.not_yet(line, word, &name, "affinity of consistent hashing");
        }
        None => {}
    }
}
