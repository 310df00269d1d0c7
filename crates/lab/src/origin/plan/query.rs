//! The query string that shapes an answer.

use crate::units::{number_of_bytes, size_of_bytes};

/// The query language, for `--help`.
pub const QUERY_HELP: &str = "\
Paths: / with --name tells who answers; /0 gives 204; POST /upload verifies and counts a body; /echo returns the request body; /head returns the
request head as the origin saw it; any other path is an object (or a file below --root, when it exists there).
Query: s=SIZE object size (k m g)    status=CODE          t=MS wait before answering
       seed=N verifiable content     c=random|text        chunked[=SIZE] chunked, SIZE bytes a chunk (4k)
       sendfile zero-copy from page cache (files always are)
       nolen no length: ends by close   close close after it   cache=SECONDS Cache-Control: max-age (else no-store)
       slow=MS with piece=SIZE (1k): sends that much, then waits that long, and so on
       h=Name:Value one more response header (percent-encoded)
Upload answers 'ok COUNT' with 200, or 'mismatch COUNT at OFFSET' with 422 when seed=N is given and the bytes differ.";

/// Default chunk size of `chunked`.
const CHUNK_BYTES: u32 = 4096;
/// Default piece of a slow body.
const PIECE_BYTES: u64 = 1024;
/// The longest wait one request may ask for: an origin is no place to park connections for ever.
const WAIT_MS_MAX: u64 = 3_600_000;

/// The query string, read.
#[derive(Debug, Default, Clone)]
pub struct Query {
    pub(super) size: Option<u64>,
    pub(super) seed: Option<u64>,
    pub(super) text: bool,
    pub(super) status: Option<u16>,
    pub(super) chunk: Option<u32>,
    pub(super) no_length: bool,
    pub(super) close: bool,
    pub(super) sendfile: bool,
    pub(super) cache_s: Option<u64>,
    pub(super) header: Option<(Vec<u8>, Vec<u8>)>,
    /// Wait before the answer.
    pub wait_ms: u64,
    /// Bytes per piece and pause after each.
    pub slow: Option<(u64, u64)>,
}

impl Query {
    /// Reads `a=b&c`; what it does not know it leaves alone, as servers do.
    #[must_use]
    pub fn read(query: &[u8]) -> Self {
        let mut out = Self::default();
        let mut piece = PIECE_BYTES;
        let mut pause_ms = None;
        for pair in query.split(|&c| c == b'&').filter(|p| !p.is_empty()) {
            let mut halves = pair.splitn(2, |&c| c == b'=');
            let (name, value) = (
                halves.next().unwrap_or_default(),
                halves.next().unwrap_or_default(),
            );
            match name {
                b"s" => out.size = size_of_bytes(value),
                b"seed" => out.seed = number_of_bytes(value),
                b"c" => out.text = value == b"text",
                b"status" => {
                    out.status = number_of_bytes(value)
                        .filter(|v| (200..=999).contains(v))
                        .map(|v| v as u16)
                }
                b"chunked" => {
                    let size = size_of_bytes(value)
                        .and_then(|v| u32::try_from(v).ok())
                        .filter(|&v| v > 0);
                    out.chunk = Some(size.unwrap_or(CHUNK_BYTES));
                }
                b"nolen" => out.no_length = true,
                b"close" => out.close = true,
                b"sendfile" => out.sendfile = true,
                b"cache" => out.cache_s = number_of_bytes(value),
                b"t" => out.wait_ms = number_of_bytes(value).unwrap_or(0).min(WAIT_MS_MAX),
                b"slow" => pause_ms = number_of_bytes(value).map(|v| v.min(WAIT_MS_MAX)),
                b"piece" => {
                    piece = size_of_bytes(value)
                        .filter(|&v| v > 0)
                        .unwrap_or(PIECE_BYTES)
                }
                b"h" => out.header = read_header(value),
                _ => {}
            }
        }
        out.slow = pause_ms.map(|pause| (piece, pause));
        out
    }
}

/// `Name:Value`, percent-decoded; refused when it would break the head.
fn read_header(value: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let mut text = Vec::new();
    let mut rest = value;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte == b'%'
            && let Some(hex) = rest.get(..2).and_then(|h| std::str::from_utf8(h).ok())
            && let Ok(decoded) = u8::from_str_radix(hex, 16)
        {
            text.push(decoded);
            rest = &rest[2..];
        } else {
            text.push(byte);
        }
    }
    let colon = text.iter().position(|&c| c == b':')?;
    let clean = !text.iter().any(|c| matches!(c, b'\r' | b'\n' | 0));
    clean.then(|| (text[..colon].to_vec(), text[colon + 1..].to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_needs_a_pause() {
        assert_eq!(Query::read(b"piece=2k").slow, None);
        assert_eq!(Query::read(b"slow=10").slow, Some((1024, 10)));
        assert_eq!(Query::read(b"slow=10&piece=2k").slow, Some((2048, 10)));
    }
}
