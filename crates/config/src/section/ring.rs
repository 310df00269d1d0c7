//! `ring NAME`: a memory buffer for logs (manual chapter 3.9).

use std::sync::Arc;

use crate::addr::AddrRules;
use crate::cx::{Current, Cx};
use crate::line::Line;
use crate::model::{LogFormatKind, Ring, RingServer};
use crate::registry::{Keyword, Sections, kw, later};
use crate::values::TimeUnit;

const R: Sections = Sections::RING;

/// As HAProxy: a buffer of `tune.bufsize` unless said otherwise, and lines as long as a log's.
const SIZE_DEFAULT: u64 = 16384;
const MAX_LEN_DEFAULT: u32 = 1024;
/// A ring is memory that is always taken.
const SIZE_MAX: u64 = 2 << 30;

#[rustfmt::skip]
pub(super) static KEYWORDS: &[Keyword] = &[
    kw("description", R, "<text>", "shown by `show events`", |cx, line| {
        match line.arg(0) {
            "" => cx.error_at(line, 1, "missing ring description text."),
            _ => { let text = line.texts(1).join(" "); if let Some(ring) = ring(cx) { ring.description = Some(text); } }
        }
    }),
    kw("size", R, "<size>", "bytes of the buffer", size),
    kw("maxlen", R, "<length>", "longest message, cut beyond", |cx, line| {
        let Some(n) = cx.uint(line, 1, 1..=i32::MAX as u32) else { return };
        if cx.no_more(line, 2) && let Some(ring) = ring(cx) { ring.max_len = n; }
    }),
    kw("format", R, "<format>", "envelope of the messages", |cx, line| {
        match LogFormatKind::parse(line.arg(0)) {
            Some(format) => if cx.no_more(line, 2) && let Some(ring) = ring(cx) { ring.format = format; },
            None => cx.error(line, 1, 0..0, format!("unknown format '{}'.", line.arg(0)),
                Some("one of local, rfc3164, rfc5424, priority, short, timed, iso and raw".into())),
        }
    }),
    kw("server", R, "<name> <address> [log-proto { legacy | octet-count }]", "a log server over TCP that gets the messages", server),
    kw("timeout connect", R, "<timeout>", "how long a connection to a log server may take", |cx, line| timeout(cx, line, |r| &mut r.timeout_connect_ms)),
    kw("timeout server", R, "<timeout>", "how long a log server may take nothing", |cx, line| timeout(cx, line, |r| &mut r.timeout_server_ms)),
    later("backing-file", R, "rings kept in files"),
];

pub(super) fn open(cx: &mut Cx<'_>, line: &Arc<Line>) {
    if line.word(1).is_empty() {
        return cx.error_at(line, 1, "missing ring name.");
    }
    let Some(name) = cx.name(line, 1, "a name") else {
        return;
    };
    if !cx.no_more(line, 2) {
        return;
    }
    if cx.raw.rings.iter().any(|(r, _)| r.name == name) {
        return cx.error_at(line, 1, format!("sink named '{name}' already exists."));
    }
    cx.section_name.clone_from(&name);
    let ring = Ring { name, ..unnamed() };
    cx.raw.rings.push((ring, line.clone()));
    cx.current = Current::Ring(cx.raw.rings.len() - 1);
}

/// A ring of which nothing was said.
pub(crate) fn unnamed() -> Ring {
    Ring {
        name: String::new(),
        description: None,
        size_bytes: SIZE_DEFAULT,
        max_len: MAX_LEN_DEFAULT,
        format: LogFormatKind::Unspecified,
        servers: Vec::new(),
        timeout_connect_ms: None,
        timeout_server_ms: None,
    }
}

fn ring<'c>(cx: &'c mut Cx<'_>) -> Option<&'c mut Ring> {
    match cx.current {
        Current::Ring(i) => cx.raw.rings.get_mut(i).map(|(ring, _)| ring),
        _ => None,
    }
}

fn timeout(cx: &mut Cx<'_>, line: &Arc<Line>, slot: fn(&mut Ring) -> &mut Option<u64>) {
    let word = line.keyword_len;
    let Some(ms) = cx.time_ms(line, word, TimeUnit::Ms) else {
        return;
    };
    if cx.no_more(line, word + 1)
        && let Some(ring) = ring(cx)
    {
        *slot(ring) = Some(ms);
    }
}

fn server(cx: &mut Cx<'_>, line: &Arc<Line>) {
    if line.word(2).is_empty() {
        return cx.error_at(
            line,
            1,
            "'server' expects <name> and <addr>[:<port>] as arguments.",
        );
    }
    let name = line.word(1).to_owned();
    let Some(addr) = cx.peer_addr(line, 2, AddrRules::FIXED) else {
        return;
    };
    let octet_count = match (line.word(3), line.word(4)) {
        ("", _) | ("log-proto", "legacy") => false,
        ("log-proto", "octet-count") => true,
        ("log-proto", other) => {
            let message =
                format!("'log-proto' expects one of 'legacy' and 'octet-count' but got '{other}'");
            return cx.error_at(line, 4, message);
        }
        (other, _) => return cx.not_yet(line, 3, other, "other words of log servers"),
    };
    if cx.no_more(line, 5)
        && let Some(ring) = ring(cx)
    {
        ring.servers.push(RingServer {
            name,
            addr,
            octet_count,
        });
    }
}

fn size(cx: &mut Cx<'_>, line: &Arc<Line>) {
    let Some(bytes) = cx.size(line, 1) else {
        return;
    };
    if bytes == 0 || bytes > SIZE_MAX {
        return cx.error_at(
            line,
            1,
            format!("invalid size '{}' for new sink buffer.", line.arg(0)),
        );
    }
    if !cx.no_more(line, 2) {
        return;
    }
    let Some(ring) = ring(cx) else { return };
    if bytes < ring.size_bytes {
        let message = format!(
            "ignoring new size '{bytes}' that is smaller than current size '{}' for ring '{}'.",
            ring.size_bytes, ring.name
        );
        return cx.warn(line, 1, message, None);
    }
    ring.size_bytes = bytes;
}
