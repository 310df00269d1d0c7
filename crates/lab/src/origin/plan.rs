//! From a request head to what will be answered: the origin's query language.
//!
//! `/0` is 204, `/upload` takes a body and tells what came, `/echo` returns it, anything else is an object, or a
//! file when there is a folder. The query string shapes the answer; see [`QUERY_HELP`], which `--help` prints.
//! Leaves out all I/O but looking up a file.

use crate::body::{Body, Content};
use crate::http::{Framing, RequestHead};
use crate::units::{number_of_bytes, size_of_bytes};
use std::fmt::Write as _;

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
/// Objects up to this size are answered from one buffer in one send.
pub const INLINE_BYTES_MAX: u64 = 16 * 1024;
/// Default piece of a slow body.
const PIECE_BYTES: u64 = 1024;
/// The longest wait one request may ask for: an origin is no place to park connections for ever.
const WAIT_MS_MAX: u64 = 3_600_000;

/// What to do with one request.
#[derive(Debug)]
pub struct Plan {
    /// How the request's body ends.
    pub request: Framing,
    /// Whether to send `100 Continue` first.
    pub send_continue: bool,
    /// What to do with the request's body.
    pub body: OnBody,
    /// The answer; made after the body for [`OnBody::Verify`] and [`OnBody::Echo`].
    pub answer: Answer,
    /// The settings that shape answers made later.
    pub query: Query,
    /// Whether the connection ends after the answer.
    pub close: bool,
    /// The request was HEAD.
    pub head_only: bool,
}

/// What to do with a request body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnBody {
    /// Read and forget it.
    Skip,
    /// Compare it with the seeded object, or only count it.
    Verify(Option<u64>),
    /// Keep it for the answer.
    Echo,
}

/// A response: bytes ready to send, then content made on the way.
#[derive(Debug, Default)]
pub struct Answer {
    /// The head, and the body too when it is small.
    pub start: Vec<u8>,
    /// What follows.
    pub rest: Rest,
}

/// The part of a response that is not in the first buffer.
#[derive(Debug, Default)]
pub enum Rest {
    /// Nothing.
    #[default]
    None,
    /// Made piece by piece.
    Made(Body),
    /// So many bytes of the shared block of incompressible content, over and over.
    Block(u64, By),
    /// A file.
    File(std::fs::File, u64),
}

impl Rest {
    /// Bytes on the wire.
    #[must_use]
    pub fn wire_len(&self) -> u64 {
        match self {
            Self::None => 0,
            Self::Made(body) => body.wire_len(),
            Self::Block(len, _) | Self::File(_, len) => *len,
        }
    }
}

/// How the block's bytes get into the socket.
///
/// On the loopback the receiver sees the sender's pages. Copied bytes lie in pages of 32 KiB, as a network card's with
/// large receive buffers would; referenced ones in pages of 4 KiB, which costs a splicing proxy eight times the pipe
/// slots. The origin is cheaper by reference, the copy is what most servers do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// `send`.
    Copy,
    /// `sendfile` from a memory file.
    Reference,
}

/// The query string, read.
#[derive(Debug, Default, Clone)]
pub struct Query {
    size: Option<u64>,
    seed: Option<u64>,
    text: bool,
    status: Option<u16>,
    chunk: Option<u32>,
    no_length: bool,
    close: bool,
    sendfile: bool,
    cache_s: Option<u64>,
    header: Option<(Vec<u8>, Vec<u8>)>,
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

/// Reads a request and decides. `file` opens a path below the static folder.
pub fn plan(
    head: &RequestHead<'_>,
    raw: &[u8],
    server: Option<u16>,
    file: impl FnOnce(&[u8]) -> Option<(std::fs::File, u64)>,
) -> Plan {
    let target = strip_authority(head.target);
    let mut halves = target.splitn(2, |&c| c == b'?');
    let (path, query) = (
        halves.next().unwrap_or_default(),
        halves.next().unwrap_or_default(),
    );
    let asks_nothing = query.is_empty();
    let query = Query::read(query);
    let close = !head.keep_alive || query.close || query.no_length;
    let mut plan = Plan {
        request: head.framing,
        send_continue: head.expect_continue && head.framing != Framing::Length(0),
        body: OnBody::Skip,
        answer: Answer::default(),
        close,
        head_only: head.method == b"HEAD",
        query,
    };
    let object = Object {
        query: &plan.query,
        close,
        head_only: plan.head_only,
        server,
    };
    match path {
        b"/upload" => plan.body = OnBody::Verify(plan.query.seed),
        b"/echo" => plan.body = OnBody::Echo,
        b"/head" => plan.answer = object.text(200, raw),
        b"/0" => plan.answer = object.empty(204),
        // somebody is looking: with --name the start page says who answers, and what came through the proxy
        b"/" if asks_nothing && let Some(port) = server => {
            plan.answer = object.text(200, &greeting(port, raw));
        }
        _ => {
            plan.answer = match file(path) {
                Some((file, len)) => object.file(file, len),
                None => object.object(),
            }
        }
    }
    plan
}

fn greeting(port: u16, raw: &[u8]) -> Vec<u8> {
    let mut text = format!("The server on port {port} answers. It received:\n\n").into_bytes();
    text.extend_from_slice(raw);
    text
}

/// The answer after a request body was read.
pub fn after_body(plan: &Plan, server: Option<u16>, status: u16, text: &[u8]) -> Answer {
    Object {
        query: &plan.query,
        close: plan.close,
        head_only: plan.head_only,
        server,
    }
    .text(status, text)
}

/// A bare answer to something that is no request.
pub fn bad_request() -> Answer {
    let start =
        b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".to_vec();
    Answer {
        start,
        rest: Rest::None,
    }
}

/// Proxies may send the absolute form; the authority is of no interest here.
fn strip_authority(target: &[u8]) -> &[u8] {
    match target.strip_prefix(b"http://") {
        Some(rest) => rest
            .iter()
            .position(|&c| c == b'/')
            .map_or(b"/", |at| &rest[at..]),
        None => target,
    }
}

struct Object<'a> {
    query: &'a Query,
    close: bool,
    head_only: bool,
    server: Option<u16>,
}

impl Object<'_> {
    fn object(&self) -> Answer {
        let status = self.query.status.unwrap_or(200);
        if matches!(status, 204 | 304) {
            return self.empty(status);
        }
        let len = self.query.size.unwrap_or(0);
        let content = match (self.query.seed, self.query.text) {
            (Some(seed), _) => Content::Seeded(seed),
            (None, true) => Content::Text,
            (None, false) => Content::Seeded(0),
        };
        let body = Body {
            content,
            len,
            chunk: self.query.chunk,
        };
        let mut start = self.head(status, self.framing(len));
        if self.head_only {
            return Answer {
                start,
                rest: Rest::None,
            };
        }
        let wire_len = body.wire_len();
        if wire_len <= INLINE_BYTES_MAX && self.query.slow.is_none() {
            let head_len = start.len();
            start.resize(head_len + wire_len as usize, 0);
            body.fill(0, &mut start[head_len..]);
            return Answer {
                start,
                rest: Rest::None,
            };
        }
        let how = if self.query.sendfile {
            By::Reference
        } else {
            By::Copy
        };
        let plain = self.query.seed.is_none() && !self.query.text && self.query.chunk.is_none();
        Answer {
            start,
            rest: if plain {
                Rest::Block(len, how)
            } else {
                Rest::Made(body)
            },
        }
    }

    fn file(&self, file: std::fs::File, len: u64) -> Answer {
        let start = self.head(self.query.status.unwrap_or(200), Framing::Length(len));
        Answer {
            start,
            rest: if self.head_only {
                Rest::None
            } else {
                Rest::File(file, len)
            },
        }
    }

    fn text(&self, status: u16, text: &[u8]) -> Answer {
        let mut start = self.head(
            self.query.status.unwrap_or(status),
            Framing::Length(text.len() as u64),
        );
        if !self.head_only {
            start.extend_from_slice(text);
        }
        Answer {
            start,
            rest: Rest::None,
        }
    }

    fn empty(&self, status: u16) -> Answer {
        Answer {
            start: self.head(status, Framing::Close),
            rest: Rest::None,
        }
    }

    fn framing(&self, len: u64) -> Framing {
        match (self.query.chunk, self.query.no_length) {
            (Some(_), _) => Framing::Chunked,
            (None, true) => Framing::Close,
            (None, false) => Framing::Length(len),
        }
    }

    fn head(&self, status: u16, framing: Framing) -> Vec<u8> {
        let mut head = String::with_capacity(160);
        // Writing to a String cannot fail.
        let _ = write!(head, "HTTP/1.1 {status} {}\r\n", reason(status));
        let _ = match framing {
            Framing::Length(len) => write!(head, "Content-Length: {len}\r\n"),
            Framing::Chunked => write!(head, "Transfer-Encoding: chunked\r\n"),
            Framing::Close => Ok(()),
        };
        let _ = match self.query.cache_s {
            Some(age_s) => write!(head, "Cache-Control: max-age={age_s}\r\n"),
            None => write!(head, "Cache-Control: no-store\r\n"),
        };
        if let Some(port) = self.server {
            let _ = write!(head, "X-Server: {port}\r\n");
        }
        if self.close {
            head.push_str("Connection: close\r\n");
        }
        let mut head = head.into_bytes();
        if let Some((name, value)) = &self.query.header {
            for part in [name, &b": "[..], value, b"\r\n"] {
                head.extend_from_slice(part);
            }
        }
        head.extend_from_slice(b"\r\n");
        head
    }
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        204 => "No Content",
        301 => "Moved Permanently",
        302 => "Found",
        304 => "Not Modified",
        404 => "Not Found",
        422 => "Unprocessable Content",
        500 => "Internal Server Error",
        503 => "Service Unavailable",
        _ => "Status",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http;

    fn answer(request: &str) -> String {
        let raw = request.as_bytes();
        let plan = plan(&http::request_head(raw).unwrap(), raw, None, |_| None);
        String::from_utf8_lossy(&plan.answer.start).into_owned()
    }

    #[test]
    fn heads() {
        let check = |target: &str, expect: &str| {
            let got = answer(&format!("GET {target} HTTP/1.1\r\n\r\n"));
            assert_eq!(got.split("\r\n\r\n").next().unwrap(), expect, "{target}");
        };
        check(
            "/",
            "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nCache-Control: no-store",
        );
        check("/0", "HTTP/1.1 204 No Content\r\nCache-Control: no-store");
        check(
            "/?s=1m",
            "HTTP/1.1 200 OK\r\nContent-Length: 1048576\r\nCache-Control: no-store",
        );
        check(
            "/x?status=503&close",
            "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nCache-Control: no-store\r\nConnection: close",
        );
        check(
            "http://a/?cache=5",
            "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nCache-Control: max-age=5",
        );
        check(
            "/?chunked=1k&s=9",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nCache-Control: no-store",
        );
        check(
            "/?h=A%3Ab%20c",
            "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nCache-Control: no-store\r\nA: b c",
        );
        check(
            "/?h=A:b%0d%0aX:y",
            "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nCache-Control: no-store",
        );
    }

    #[test]
    fn a_small_object_is_one_buffer() {
        let got = answer("GET /?s=600&c=text HTTP/1.1\r\n\r\n");
        assert_eq!(got.split_once("\r\n\r\n").unwrap().1.len(), 600);
        assert!(!answer("HEAD /?s=600 HTTP/1.1\r\n\r\n").contains("<p>"));
    }

    #[test]
    fn slow_needs_a_pause() {
        assert_eq!(Query::read(b"piece=2k").slow, None);
        assert_eq!(Query::read(b"slow=10").slow, Some((1024, 10)));
        assert_eq!(Query::read(b"slow=10&piece=2k").slow, Some((2048, 10)));
    }
}
