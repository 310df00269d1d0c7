//! The lab's own HTTP/1: just enough to find where a message ends, as cheaply as can be.
//!
//! Deliberately not `sluice-http`: the judge shares no code with the judged. It trusts neither end (every number
//! is checked, every length bounded) but leaves out all that an origin or a load generator has no use for.
//! RFC 9112 sections 2 (message), 6 (body length) and 7.1 (chunked).

mod chunked;

pub use chunked::Chunked;
use memchr::{memchr, memmem};

/// A head longer than this is refused: twice the default buffer of any proxy under test.
pub const HEAD_BYTES_MAX: usize = 64 * 1024;

/// How the end of a message body is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// So many bytes; zero when there is no body.
    Length(u64),
    /// Chunked transfer coding.
    Chunked,
    /// Until the connection ends (responses only).
    Close,
}

/// What a request head says, as far as the origin cares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestHead<'a> {
    /// Method as sent.
    pub method: &'a [u8],
    /// Request target as sent.
    pub target: &'a [u8],
    /// Body framing.
    pub framing: Framing,
    /// Whether another request may follow.
    pub keep_alive: bool,
    /// `Expect: 100-continue` was sent.
    pub expect_continue: bool,
}

/// What a response head says, as far as the client cares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResponseHead {
    /// Status code.
    pub status: u16,
    /// Body framing as the head tells it (a reply to HEAD has no body all the same).
    pub framing: Framing,
    /// Whether another response may follow.
    pub keep_alive: bool,
}

/// A message that breaks the rules this module needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadMessage {
    /// First line is not one of HTTP/1.
    #[error("malformed start line")]
    StartLine,
    /// Content-Length is no number, or two differ.
    #[error("malformed content-length")]
    Length,
    /// A chunk-size line is malformed.
    #[error("malformed chunk")]
    Chunk,
    /// The head is longer than [`HEAD_BYTES_MAX`].
    #[error("head too long")]
    TooLong,
}

/// Length of the head at the start of `data` including its empty line, or `None` while incomplete.
#[must_use]
pub fn head_len(data: &[u8]) -> Option<usize> {
    memmem::find(data, b"\r\n\r\n").map(|at| at + 4)
}

/// Reads a complete request head (as delimited by [`head_len`]).
///
/// # Errors
/// [`BadMessage`] for a bad request line or length.
pub fn request_head(head: &[u8]) -> Result<RequestHead<'_>, BadMessage> {
    let (line, fields) = split_line(head).ok_or(BadMessage::StartLine)?;
    let method_end = memchr(b' ', line).ok_or(BadMessage::StartLine)?;
    let (method, rest) = (&line[..method_end], &line[method_end + 1..]);
    let target_end = memchr(b' ', rest).ok_or(BadMessage::StartLine)?;
    let (target, version) = (&rest[..target_end], &rest[target_end + 1..]);
    let fields = read_fields(fields, is_11(version)?)?;
    Ok(RequestHead {
        method,
        target,
        framing: fields.framing.unwrap_or(Framing::Length(0)),
        keep_alive: fields.keep_alive,
        expect_continue: fields.expect_continue,
    })
}

/// Reads a complete response head (as delimited by [`head_len`]).
///
/// # Errors
/// [`BadMessage`] for a bad status line or length.
pub fn response_head(head: &[u8]) -> Result<ResponseHead, BadMessage> {
    let (line, fields) = split_line(head).ok_or(BadMessage::StartLine)?;
    let version = line.get(..8).ok_or(BadMessage::StartLine)?;
    let digits = line.get(9..12).ok_or(BadMessage::StartLine)?;
    let status = crate::units::number_of_bytes(digits).ok_or(BadMessage::StartLine)? as u16;
    let fields = read_fields(fields, is_11(version)?)?;
    let framing = match status {
        100..200 | 204 | 304 => Framing::Length(0),
        _ => fields.framing.unwrap_or(Framing::Close),
    };
    let keep_alive = fields.keep_alive && framing != Framing::Close;
    Ok(ResponseHead {
        status,
        framing,
        keep_alive,
    })
}

fn is_11(version: &[u8]) -> Result<bool, BadMessage> {
    match version {
        b"HTTP/1.1" => Ok(true),
        b"HTTP/1.0" => Ok(false),
        _ => Err(BadMessage::StartLine),
    }
}

struct Fields {
    framing: Option<Framing>,
    keep_alive: bool,
    expect_continue: bool,
}

fn read_fields(mut rest: &[u8], is_11: bool) -> Result<Fields, BadMessage> {
    let mut fields = Fields {
        framing: None,
        keep_alive: is_11,
        expect_continue: false,
    };
    while let Some((line, after)) = split_line(rest) {
        rest = after;
        // Only names that begin with c, t or e are of interest: most lines cost one comparison.
        match line.first().map(|c| c | 0x20) {
            Some(b'c') => {
                if let Some(value) = value_of(line, b"content-length:") {
                    let length = crate::units::number_of_bytes(value).ok_or(BadMessage::Length)?;
                    match fields.framing {
                        Some(Framing::Length(other)) if other != length => {
                            return Err(BadMessage::Length);
                        }
                        Some(Framing::Chunked) => {}
                        _ => fields.framing = Some(Framing::Length(length)),
                    }
                } else if let Some(value) = value_of(line, b"connection:") {
                    fields.keep_alive = match value {
                        v if has_token(v, b"close") => false,
                        v if has_token(v, b"keep-alive") => true,
                        _ => fields.keep_alive,
                    };
                }
            }
            Some(b't') => {
                if let Some(value) = value_of(line, b"transfer-encoding:")
                    && has_token(value, b"chunked")
                {
                    fields.framing = Some(Framing::Chunked);
                }
            }
            Some(b'e') => {
                if let Some(value) = value_of(line, b"expect:") {
                    fields.expect_continue = has_token(value, b"100-continue");
                }
            }
            _ => {}
        }
    }
    Ok(fields)
}

/// The value of `line` if it is the field `name` (lower case, with its colon), without the blanks around it.
fn value_of<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let (start, value) = line.split_at_checked(name.len())?;
    start.eq_ignore_ascii_case(name).then(|| value.trim_ascii())
}

fn has_token(value: &[u8], token: &[u8]) -> bool {
    value
        .split(|&c| c == b',')
        .any(|part| part.trim_ascii().eq_ignore_ascii_case(token))
}

fn split_line(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = memchr(b'\n', data)?;
    let line = &data[..end];
    Some((line.strip_suffix(b"\r").unwrap_or(line), &data[end + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests() {
        let check = |text: &str, expect: Result<(Framing, bool), BadMessage>| {
            let head = request_head(text.as_bytes()).map(|h| (h.framing, h.keep_alive));
            assert_eq!(head, expect, "{text:?}");
        };
        check(
            "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
            Ok((Framing::Length(0), true)),
        );
        check("GET / HTTP/1.0\r\n\r\n", Ok((Framing::Length(0), false)));
        check(
            "GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n",
            Ok((Framing::Length(0), true)),
        );
        check(
            "POST /u HTTP/1.1\r\ncontent-LENGTH: 12 \r\n\r\n",
            Ok((Framing::Length(12), true)),
        );
        check(
            "POST /u HTTP/1.1\r\nTransfer-Encoding: chunked\r\nConnection: x, close\r\n\r\n",
            Ok((Framing::Chunked, false)),
        );
        check(
            "POST /u HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
            Err(BadMessage::Length),
        );
        check(
            "POST /u HTTP/1.1\r\nContent-Length: +1\r\n\r\n",
            Err(BadMessage::Length),
        );
        check("GET /\r\n\r\n", Err(BadMessage::StartLine));
        check("GET / HTTP/3\r\n\r\n", Err(BadMessage::StartLine));
    }

    #[test]
    fn responses() {
        let check = |text: &str, expect: Result<(u16, Framing, bool), BadMessage>| {
            let head = response_head(text.as_bytes()).map(|h| (h.status, h.framing, h.keep_alive));
            assert_eq!(head, expect, "{text:?}");
        };
        check(
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
            Ok((200, Framing::Length(5), true)),
        );
        check("HTTP/1.1 200\r\n\r\n", Ok((200, Framing::Close, false)));
        check(
            "HTTP/1.1 204 No Content\r\n\r\n",
            Ok((204, Framing::Length(0), true)),
        );
        check(
            "HTTP/1.0 302 Found\r\nContent-length: 0\r\n\r\n",
            Ok((302, Framing::Length(0), false)),
        );
        check("SSH-2.0-OpenSSH\r\n\r\n", Err(BadMessage::StartLine));
    }
}
