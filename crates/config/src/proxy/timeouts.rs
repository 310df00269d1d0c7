//! `timeout NAME DELAY` and the forms it had before 1.4.
//!
//! Owns which side of a proxy each timeout belongs to. What a missing timeout means is the data path's business; that
//! a proxy lacks one it ought to have is said by the resolve pass.

use std::sync::Arc;

use crate::cx::Cx;
use crate::line::Line;
use crate::model::Timeouts;
use crate::registry::{Keyword, Sections, kw, obsolete};
use crate::values::TimeUnit;

use super::once;

type Slot = fn(&mut Timeouts) -> &mut Option<u64>;

#[rustfmt::skip]
pub(crate) static KEYWORDS: &[Keyword] = &[
    kw("timeout check", Sections::DLB, "<delay>", "how long a health check may take once it is connected", |cx, line| {
        set(cx, line, |t| &mut t.check_ms)
    })
    .ignored(),
    kw("timeout client", Sections::DFL, "<delay>", "longest silence of the client", |cx, line| {
        set(cx, line, |t| &mut t.client_ms)
    })
    .ignored(),
    kw("timeout client-fin", Sections::DFL, "<delay>", "longest silence of a client that has closed its side", |cx, line| {
        set(cx, line, |t| &mut t.client_fin_ms)
    })
    .ignored(),
    kw("timeout client-hs", Sections::DFL, "<delay>", "how long the client's handshakes may take", |cx, line| {
        set(cx, line, |t| &mut t.client_hs_ms)
    })
    .ignored(),
    kw("timeout connect", Sections::DLB, "<delay>", "how long a connection to a server may take", |cx, line| {
        set(cx, line, |t| &mut t.connect_ms)
    })
    .ignored(),
    kw("timeout http-keep-alive", Sections::ALL_PROXIES, "<delay>", "how long an idle client connection waits for its next request", |cx, line| {
        set(cx, line, |t| &mut t.http_keep_alive_ms)
    }),
    kw("timeout http-request", Sections::ALL_PROXIES, "<delay>", "how long a complete request head may take", |cx, line| {
        set(cx, line, |t| &mut t.http_request_ms)
    }),
    kw("timeout queue", Sections::DLB, "<delay>", "how long a request may wait for a server", |cx, line| {
        set(cx, line, |t| &mut t.queue_ms)
    })
    .ignored(),
    kw("timeout server", Sections::DLB, "<delay>", "longest silence of the server", |cx, line| {
        set(cx, line, |t| &mut t.server_ms)
    })
    .ignored(),
    kw("timeout server-fin", Sections::DLB, "<delay>", "longest silence of a server that has closed its side", |cx, line| {
        set(cx, line, |t| &mut t.server_fin_ms)
    })
    .ignored(),
    kw("timeout tarpit", Sections::ALL_PROXIES, "<delay>", "how long `http-request tarpit` holds a client", |cx, line| {
        set(cx, line, |t| &mut t.tarpit_ms)
    }),
    kw("timeout tunnel", Sections::DLB, "<delay>", "longest silence of both sides of a tunnel", |cx, line| {
        set(cx, line, |t| &mut t.tunnel_ms)
    })
    .ignored(),
    obsolete("clitimeout", Sections::DFL, "write `timeout client <delay>`", Some(client)),
    obsolete("contimeout", Sections::DLB, "write `timeout connect <delay>`", Some(connect)),
    obsolete("srvtimeout", Sections::DLB, "write `timeout server <delay>`", Some(server)),
    obsolete("timeout clitimeout", Sections::DFL, "write `timeout client <delay>`", Some(client)),
    obsolete("timeout contimeout", Sections::DLB, "write `timeout connect <delay>`", Some(connect)),
    obsolete("timeout srvtimeout", Sections::DLB, "write `timeout server <delay>`", Some(server)),
];

fn client(cx: &mut Cx<'_>, line: &Arc<Line>) {
    set(cx, line, |t| &mut t.client_ms);
}

fn connect(cx: &mut Cx<'_>, line: &Arc<Line>) {
    set(cx, line, |t| &mut t.connect_ms);
}

fn server(cx: &mut Cx<'_>, line: &Arc<Line>) {
    set(cx, line, |t| &mut t.server_ms);
}

fn set(cx: &mut Cx<'_>, line: &Arc<Line>, slot: Slot) {
    let word = line.keyword_len;
    if cx.need(line, word, "a delay").is_none() {
        return;
    }
    let Some(ms) = cx.time_ms(line, word, TimeUnit::Ms) else {
        return;
    };
    if !cx.no_more(line, word + 1) {
        return;
    }
    once(cx, line);
    // A timeout of 0 is no timeout.
    *slot(&mut cx.proxy().settings.timeouts) = (ms > 0).then_some(ms);
}
