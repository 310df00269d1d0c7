//! From a request head to what will be answered: the origin's query language.
//!
//! `/0` is 204, `/upload` takes a body and tells what came, `/echo` returns it, anything else is an object, or a
//! file when there is a folder. The query string shapes the answer; see [`QUERY_HELP`], which `--help` prints.
//! Leaves out all I/O but looking up a file.

mod object;
mod query;

use object::Object;
pub use query::{QUERY_HELP, Query};

use crate::body::Body;
use crate::http::{Framing, RequestHead};

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

/// What was found for a path.
#[derive(Debug)]
pub enum Found {
    /// A file and its length.
    File(std::fs::File, u64),
    /// Nothing of that name below the folder.
    Missing,
    /// There is no folder of files.
    NoRoot,
}

/// Reads a request and decides. `file` opens a path below the static folder.
pub fn plan(
    head: &RequestHead<'_>,
    raw: &[u8],
    server: Option<u16>,
    file: impl FnOnce(&[u8]) -> Found,
) -> Plan {
    let target = strip_authority(head.target);
    let mut halves = target.splitn(2, |&c| c == b'?');
    let (path, query) = (
        halves.next().unwrap_or_default(),
        halves.next().unwrap_or_default(),
    );
    let asks_nothing = query.is_empty();
    let (query, unreadable) = match Query::read(query) {
        Ok(query) => (query, None),
        Err(reason) => (Query::default(), Some(format!("{reason}\n"))),
    };
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
        _ if let Some(reason) = &unreadable => {
            plan.answer = object.text(400, reason.as_bytes());
        }
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
                Found::File(file, len) => object.file(file, len),
                Found::Missing if asks_nothing && path != b"/" => {
                    object.text(404, b"no such file\n")
                }
                Found::Missing | Found::NoRoot => object.object(),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http;

    fn answer(request: &str) -> String {
        let raw = request.as_bytes();
        let plan = plan(&http::request_head(raw).unwrap(), raw, None, |_| {
            Found::NoRoot
        });
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
            "/?s=9&c=text",
            "HTTP/1.1 200 OK\r\nContent-Length: 9\r\nCache-Control: no-store\r\nContent-Type: text/html",
        );
        check(
            "/?s=1x",
            "HTTP/1.1 400 Bad Request\r\nContent-Length: 55\r\nCache-Control: no-store",
        );
    }

    #[test]
    fn a_small_object_is_one_buffer() {
        let got = answer("GET /?s=600&c=text HTTP/1.1\r\n\r\n");
        assert_eq!(got.split_once("\r\n\r\n").unwrap().1.len(), 600);
        assert!(!answer("HEAD /?s=600 HTTP/1.1\r\n\r\n").contains("<p>"));
    }
}
