//! The answers: heads with the framing that was asked for, and bodies or what they are made of.

use super::{Answer, By, Query, Rest};
use crate::body::{Body, Content};
use crate::http::Framing;
use std::fmt::Write as _;

/// Objects up to this size are answered from one buffer in one send.
pub const INLINE_BYTES_MAX: u64 = 16 * 1024;

/// What shapes an answer.
pub(super) struct Object<'a> {
    pub(super) query: &'a Query,
    pub(super) close: bool,
    pub(super) head_only: bool,
    pub(super) server: Option<u16>,
}

impl Object<'_> {
    pub(super) fn object(&self) -> Answer {
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

    pub(super) fn file(&self, file: std::fs::File, len: u64) -> Answer {
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

    pub(super) fn text(&self, status: u16, text: &[u8]) -> Answer {
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

    pub(super) fn empty(&self, status: u16) -> Answer {
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
        // Proxies compress only what has a type that they were told of.
        if self.query.text {
            head.push_str("Content-Type: text/html\r\n");
        }
        if let Some(port) = self.server {
            let _ = write!(head, "X-Server: {port}\r\n");
        }
        if self.close {
            head.push_str("Connection: close\r\n");
        }
        let mut head = head.into_bytes();
        for (name, value) in &self.query.headers {
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
        400 => "Bad Request",
        404 => "Not Found",
        422 => "Unprocessable Content",
        500 => "Internal Server Error",
        503 => "Service Unavailable",
        _ => "Status",
    }
}
