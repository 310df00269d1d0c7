//! The last malformed request and response of each proxy, for `show errors`.

use std::sync::{Mutex, PoisonError};

use sluice_expr::ProxyId;
use sluice_expr::env::ConnInfo;
use sluice_http::ParseError;

use crate::stream::Stream;

/// Bytes of a malformed message that are kept.
const KEPT_MAX: usize = 16384;

/// One malformed message.
#[derive(Debug, Clone)]
pub struct Malformed {
    /// Since the start of the process.
    pub number: u64,
    pub proxy: ProxyId,
    /// Frontend's name when this is a response.
    pub is_request: bool,
    pub wall_us: i64,
    pub src: String,
    /// Where and what.
    pub at: usize,
    pub kind: &'static str,
    pub bytes: Vec<u8>,
}

static LAST: Mutex<(u64, Vec<Malformed>)> = Mutex::new((0, Vec::new()));

/// The last malformed messages, one a proxy and direction.
pub fn last() -> Vec<Malformed> {
    LAST.lock()
        .unwrap_or_else(PoisonError::into_inner)
        .1
        .clone()
}

/// What `show errors` prints.
pub fn show(rt: &sluice_engine::Runtime) -> String {
    use std::fmt::Write;
    let kept = last();
    let mut out = format!(
        "Total events captured on [{}] : {}\n",
        crate::logs::log_date(crate::clock::read().wall_us),
        kept.iter().map(|m| m.number).max().unwrap_or(0)
    );
    for m in &kept {
        let side = if m.is_request { "frontend" } else { "backend" };
        // writing to a String cannot fail
        let _ = writeln!(
            out,
            "\n[{}] {side} {} (#{}): invalid {}",
            crate::logs::log_date(m.wall_us),
            rt.proxy(m.proxy).name,
            m.proxy.0,
            if m.is_request { "request" } else { "response" }
        );
        let _ = writeln!(
            out,
            "  src {}, event #{}, {}\n  buffer {} bytes, error at position {}:\n",
            m.src,
            m.number,
            m.kind,
            m.bytes.len(),
            m.at
        );
        for (start, line) in lines(&m.bytes) {
            let _ = writeln!(out, "  {start:05} {}", line.escape_ascii());
        }
    }
    out
}

/// The lines of a message with their offsets.
fn lines(bytes: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let mut at = 0;
    bytes.split_inclusive(|b| *b == b'\n').map(move |l| {
        let start = at;
        at += l.len();
        (start, l)
    })
}

pub fn remember_request(proxy: ProxyId, client: &ConnInfo, bytes: &[u8], e: ParseError) {
    remember(proxy, true, client, bytes, e);
}

pub fn remember_response(s: &Stream, bytes: &[u8], e: ParseError) {
    remember(s.info.backend, false, &s.sess.client, bytes, e);
}

fn remember(proxy: ProxyId, is_request: bool, client: &ConnInfo, bytes: &[u8], e: ParseError) {
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    let (count, kept) = &mut *last;
    *count += 1;
    let src = match &client.src {
        sluice_expr::env::Addr::Ip(a) => a.to_string(),
        sluice_expr::env::Addr::Unix(p) => p.to_string(),
        sluice_expr::env::Addr::None => "?".into(),
    };
    kept.retain(|m| (m.proxy, m.is_request) != (proxy, is_request));
    kept.push(Malformed {
        number: *count,
        proxy,
        is_request,
        wall_us: crate::clock::read().wall_us,
        src,
        at: e.at,
        kind: e.kind.name(),
        bytes: bytes[..bytes.len().min(KEPT_MAX)].to_vec(),
    });
}
