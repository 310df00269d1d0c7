//! Keywords of proxies that other parts of Sluice bring.

use crate::registry::{Keyword, Sections, harmless, kw, later};
use std::sync::Arc;

use crate::cx::Cx;
use crate::line::Line;
use crate::model::BandwidthLimit;
use crate::values::TimeUnit;

const ALL: Sections = Sections::ALL_PROXIES;
const FLB: Sections = Sections::FLB;
const DLB: Sections = Sections::DLB;

#[rustfmt::skip]
pub(crate) static KEYWORDS: &[Keyword] = &[
    kw("filter bwlim-in", FLB, "<name> default-limit <size> default-period <time> [ min-size <size> ]", "limit what clients send", |cx, line| bwlim(cx, line, true)),
    kw("filter bwlim-out", FLB, "<name> default-limit <size> default-period <time> [ min-size <size> ]", "limit what clients receive", |cx, line| bwlim(cx, line, false)),
    later("filter cache", FLB, "the cache").doc("<name>", "keep responses in a cache"),
    later("filter comp-req", FLB, "compression").doc("", "compress requests"),
    later("filter comp-res", FLB, "compression").doc("", "compress responses"),
    later("filter compression", FLB, "compression").doc("", "compress"),
    later("filter fcgi-app", FLB, "FastCGI").doc("<name>", "speak FastCGI to servers"),
    later("filter opentracing", FLB, "tracing").doc("[ id <id> ] config <file>", "trace with OpenTracing"),
    later("filter spoe", FLB, "SPOE").doc("[ engine <name> ] config <file>", "let agents take part"),
    later("filter trace", FLB, "tracing").doc("[ name <name> ] [ random-forwarding ] [ hexdump ]", "show what passes through filters"),
    later("filter-sequence", FLB, "compression").doc("{ request | response } <filter>,...", "the order of filters"),
    later("compression", ALL, "compression").doc("{ algo | type | direction | minsize-req | minsize-res | offload } ...", "compress bodies"),
    harmless("guid", FLB, "it names the proxy in statistics files, which are not implemented by Sluice yet").doc("<string>", "name the proxy across processes"),
    later("quic-initial", Sections::DFL, "HTTP/3").doc("<action> [ { if | unless } <condition> ]", "rules on the first packet of QUIC connections"),
    later("ssl-f-use", Sections::FL, "TLS").doc("<option> ...", "choose the certificates of listeners"),
    later("stick match", Sections::LB, "stick tables").doc("<pattern> [ table <table> ] [ { if | unless } <condition> ]", "follow a key to its server"),
    later("stick on", Sections::LB, "stick tables").doc("<pattern> [ table <table> ] [ { if | unless } <condition> ]", "follow a key to its server, and remember it"),
    later("stick store-request", Sections::LB, "stick tables").doc("<pattern> [ table <table> ] [ { if | unless } <condition> ]", "remember a key of the request"),
    later("stick store-response", Sections::LB, "stick tables").doc("<pattern> [ table <table> ] [ { if | unless } <condition> ]", "remember a key of the response"),
    later("stick-table", FLB, "stick tables").doc("type <type> size <size> [ expire <delay> ] [ store <data>,... ] ...", "a table of keys"),
    later("use-fcgi-app", Sections::LB, "FastCGI").doc("<name>", "speak FastCGI to servers"),
    later("declare healthcheck", DLB, "named health checks").doc("<name>", "a named health check"),
];

/// `filter bwlim-in|bwlim-out NAME default-limit SIZE default-period TIME [min-size SIZE]`. The forms that count per key
/// (`limit ... key ... table`) share a stick table.
fn bwlim(cx: &mut Cx<'_>, line: &Arc<Line>, inbound: bool) {
    let mut at = line.keyword_len;
    let Some(name) = cx.need(line, at, "a name").map(str::to_owned) else {
        return;
    };
    at += 1;
    let (mut limit, mut period, mut min_size) = (None, None, 0);
    while line.has(at) {
        let read = match line.word(at) {
            "default-limit" => cx.size(line, at + 1).map(|n| limit = Some(n)),
            "default-period" => cx
                .time_ms(line, at + 1, TimeUnit::Ms)
                .map(|n| period = Some(n)),
            "min-size" => {
                cx.no_effect(
                    line,
                    at,
                    "how much is written at once does not depend on the limit",
                );
                cx.size(line, at + 1).map(|n| min_size = n)
            }
            "limit" | "key" | "table" => {
                return cx.not_yet(line, at, &line.keyword(), "stick tables");
            }
            other => {
                let message = format!("'{}' : unknown word '{other}'", line.keyword());
                let hint = "it takes 'default-limit', 'default-period' and 'min-size'".into();
                return cx.error(line, at, 0..0, message, Some(hint));
            }
        };
        if read.is_none() {
            return;
        }
        at += 2;
    }
    let (Some(limit_bytes), Some(period_ms)) = (limit, period) else {
        let message = format!(
            "'{}' expects 'default-limit <size>' and 'default-period <time>'",
            line.keyword()
        );
        return cx.error_at(line, at, message);
    };
    if period_ms == 0 || limit_bytes == 0 {
        return cx.error_at(
            line,
            line.keyword_len,
            format!("'{}' : limit and period must not be 0", line.keyword()),
        );
    }
    if cx.proxy().bwlims.iter().any(|f| f.name == name) {
        let message = format!("'{}' : another filter is called '{name}'", line.keyword());
        return cx.error_at(line, line.keyword_len, message);
    }
    let filter = BandwidthLimit {
        name,
        inbound,
        limit_bytes,
        period_ms,
        min_size,
    };
    cx.proxy().bwlims.push(Arc::new(filter));
}
