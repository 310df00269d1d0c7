//! `tune.*` (manual chapter 3.2): those Sluice obeys. What another part brings and what Sluice needs no such setting for are in
//! [`super::later`].

use std::sync::Arc;

use super::{first_time, only_uint};
use crate::cx::Cx;
use crate::line::Line;
use crate::model::{Shards, Tune};
use crate::registry::{Keyword, Sections, harmless, kw, obsolete};

const G: Sections = Sections::GLOBAL;
const MAX: u32 = i32::MAX as u32;

/// Smallest buffer that still holds a request's first line and some headers.
const BUFSIZE_MIN: u32 = 1024;
/// Largest buffer: beyond it a mistyped unit is more likely than a wish.
const BUFSIZE_MAX: u32 = 256 << 20;

#[rustfmt::skip]
pub(super) static KEYWORDS: &[Keyword] = &[
    kw("tune.bufsize", G, "<size>", "bytes of a request's or response's head, and of one read", |cx, line| {
        let Some(n) = only_size(cx, line, BUFSIZE_MIN, BUFSIZE_MAX) else { return };
        // HAProxy rounds up to 16 on 64-bit machines.
        cx.global().tune.bufsize = n.next_multiple_of(16);
    }),
    kw("tune.maxrewrite", G, "<size>", "room kept for added headers", |cx, line| {
        if let Some(n) = only_size(cx, line, 0, BUFSIZE_MAX) { cx.global().tune.maxrewrite = n; }
    }),
    kw("tune.maxaccept", G, "<number>", "most connections accepted in a row; -1: no limit", maxaccept),
    kw("tune.pipesize", G, "<size>", "capacity asked for pipes", |cx, line| {
        if let Some(n) = only_size(cx, line, 0, MAX) { cx.global().tune.pipesize = (n > 0).then_some(n); }
    }),
    kw("tune.http.maxhdr", G, "<number>", "most headers of a message", |cx, line| {
        if let Some(n) = only_uint(cx, line, 1, 32767) { cx.global().tune.http_maxhdr = n as usize; }
    }),
    kw("tune.http.cookielen", G, "<number>", "longest captured cookie", |cx, line| {
        if let Some(n) = only_uint(cx, line, 0, MAX - 1) { cx.global().tune.http_cookielen = n as usize; }
    }),
    kw("tune.http.logurilen", G, "<number>", "longest URI in logs", |cx, line| {
        if let Some(n) = only_uint(cx, line, 1, MAX) { cx.global().tune.http_logurilen = n as usize; }
    }),
    harmless("tune.idletimer", G, "no buffer size depends on how long a stream was idle")
        .doc("<time>", "idle time after which a stream is thought idle"),
    kw("tune.rcvbuf.client", G, "<size>", "receive buffer of client connections", |cx, line| buffer(cx, line, |t| &mut t.rcvbuf_client)),
    kw("tune.rcvbuf.server", G, "<size>", "receive buffer of server connections", |cx, line| buffer(cx, line, |t| &mut t.rcvbuf_server)),
    kw("tune.sndbuf.client", G, "<size>", "send buffer of client connections", |cx, line| buffer(cx, line, |t| &mut t.sndbuf_client)),
    kw("tune.sndbuf.server", G, "<size>", "send buffer of server connections", |cx, line| buffer(cx, line, |t| &mut t.sndbuf_server)),
    kw("tune.notsent-lowat.client", G, "<size>", "unsent bytes above which a client connection is not writable", |cx, line| buffer(cx, line, |t| &mut t.notsent_lowat_client)),
    kw("tune.notsent-lowat.server", G, "<size>", "unsent bytes above which a server connection is not writable", |cx, line| buffer(cx, line, |t| &mut t.notsent_lowat_server)),
    kw("tune.cli.max-payload-size", G, "<size>", "longest payload of a runtime command", |cx, line| {
        if let Some(n) = only_size(cx, line, 0, MAX) { cx.global().tune.cli_payload_max = Some(n); }
    }),
    kw("tune.listener.default-shards", G, "{ <number> | by-process | by-thread | by-group }", "how many sockets share an address, where `shards` does not say", |cx, line| {
        let word = line.keyword_len;
        let shards = match line.word(word) {
            // all threads are of one process and one group
            "by-process" | "by-group" => Shards::ByGroup,
            "by-thread" => Shards::ByThread,
            _ => match cx.uint(line, word, 1..=1_000) { Some(n) => Shards::Count(n), None => return },
        };
        if cx.no_more(line, word + 1) { cx.global().tune.default_shards = shards; }
    }),
    kw("tune.pool-high-fd-ratio", G, "<percent>", "file descriptors in use above which idle server connections are closed", |cx, line| {
        if let Some(n) = only_uint(cx, line, 0, 100) { cx.global().tune.pool_high_fd_ratio = n; }
    }),
    kw("tune.pool-low-fd-ratio", G, "<percent>", "file descriptors in use above which no server connection is kept idle", |cx, line| {
        if let Some(n) = only_uint(cx, line, 0, 100) { cx.global().tune.pool_low_fd_ratio = n; }
    }),
    kw("tune.vars.global-max-size", G, "<size>", "bytes all variables may take", |cx, line| vars(cx, line, |t| &mut t.vars_global_max)),
    kw("tune.vars.proc-max-size", G, "<size>", "bytes the process's variables may take", |cx, line| vars(cx, line, |t| &mut t.vars_proc_max)),
    kw("tune.vars.sess-max-size", G, "<size>", "bytes a session's variables may take", |cx, line| vars(cx, line, |t| &mut t.vars_sess_max)),
    kw("tune.vars.txn-max-size", G, "<size>", "bytes a transaction's variables may take", |cx, line| vars(cx, line, |t| &mut t.vars_txn_max)),
    kw("tune.vars.reqres-max-size", G, "<size>", "bytes a request's or response's variables may take", |cx, line| vars(cx, line, |t| &mut t.vars_reqres_max)),
    kw("tune.vars.check-max-size", G, "<size>", "bytes a health check's variables may take", |cx, line| vars(cx, line, |t| &mut t.vars_check_max)),
    harmless("tune.pattern.cache-size", G, "lookups are indexed and need no cache")
        .doc("<number>", "entries of the cache of slow pattern lookups"),
    kw("tune.idle-pool.shared", G, "{ on | off }", "workers take idle server connections from each other", |cx, line| {
        if let Some(on) = cx.on_off(line, 1) { cx.global().tune.idle_pool_shared = on; }
    }),
    kw("tune.max-checks-per-thread", G, "<number>", "most health checks a worker runs at once; 0: no limit", |cx, line| {
        if let Some(n) = only_uint(cx, line, 0, MAX) { cx.global().tune.max_checks_per_thread = n; }
    }),
    obsolete("tune.chksize", G, "remove it: a check reads as much as its rules need", Some(|cx, line| {
        only_uint(cx, line, 0, MAX);
    })),
];

fn only_size(cx: &mut Cx<'_>, line: &Arc<Line>, low: u32, high: u32) -> Option<usize> {
    let at = line.keyword_len;
    let n = cx.size(line, at)?;
    if !(u64::from(low)..=u64::from(high)).contains(&n) {
        cx.error_at(
            line,
            at,
            format!(
                "'{}' expects a size between {low} and {high} as argument.",
                line.keyword()
            ),
        );
        return None;
    }
    cx.no_more(line, at + 1).then_some(n as usize)
}

fn maxaccept(cx: &mut Cx<'_>, line: &Arc<Line>) {
    let at = line.keyword_len;
    let Some(n) = cx.int(line, at, -1..=i64::from(MAX)) else {
        return;
    };
    if !cx.no_more(line, at + 1) || !first_time(cx, line, cx.raw.global.tune.maxaccept.is_some()) {
        return;
    }
    // 0 means the default, -1 no limit.
    cx.global().tune.maxaccept = match n {
        0 => None,
        n => Some(u32::try_from(n).unwrap_or(u32::MAX)),
    };
}

/// A kernel buffer's size; 0 leaves it to the kernel.
fn buffer(cx: &mut Cx<'_>, line: &Arc<Line>, field: fn(&mut Tune) -> &mut Option<usize>) {
    let Some(n) = only_size(cx, line, 0, MAX) else {
        return;
    };
    let already = field(&mut cx.global().tune).is_some();
    if first_time(cx, line, already) {
        *field(&mut cx.global().tune) = (n > 0).then_some(n);
    }
}

fn vars(cx: &mut Cx<'_>, line: &Arc<Line>, field: fn(&mut Tune) -> &mut usize) {
    if let Some(n) = only_size(cx, line, 0, MAX) {
        *field(&mut cx.global().tune) = n;
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{messages, read};

    #[test]
    fn sizes_reach_the_model() {
        let (raw, diagnostics) = read(
            "global\ntune.bufsize 16385\ntune.pipesize 524288\ntune.maxaccept -1\ntune.vars.txn-max-size 1m\n\
             tune.rcvbuf.client 0\n",
        );
        assert!(diagnostics.is_empty(), "{diagnostics:?}");
        let tune = raw.global.tune;
        assert_eq!(tune.bufsize, 16400);
        assert_eq!(
            (tune.pipesize, tune.maxaccept),
            (Some(524_288), Some(u32::MAX))
        );
        assert_eq!((tune.vars_txn_max, tune.rcvbuf_client), (1 << 20, None));
    }

    #[test]
    fn wrong_values_are_refused() {
        let check =
            |text: &str, expect: &str| assert_eq!(messages(&format!("global\n{text}\n")), [expect]);
        check(
            "tune.idletimer 5",
            "W2: 'tune.idletimer' has no effect in Sluice",
        );
        check(
            "tune.http.maxhdr 0",
            "A2: 'tune.http.maxhdr' expects an integer between 1 and 32767 as argument.",
        );
        check(
            "tune.bufsize 10",
            "A2: 'tune.bufsize' expects a size between 1024 and 268435456 as argument.",
        );
        check(
            "tune.bufsize 16384 3",
            "A2: 'tune.bufsize' cannot handle unexpected argument '3'.",
        );
        check(
            "tune.foo",
            "A2: unknown keyword 'tune.foo' in 'global' section",
        );
        check(
            "tune.bufsise 16384",
            "A2: unknown keyword 'tune.bufsise' in 'global' section; did you mean 'tune.bufsize' maybe ?",
        );
    }
}
