//! A request head: method, target, version, headers, and what they say of body and connection.

use std::ops::Range;

use crate::framing::Framing;
use crate::headers::Headers;
use crate::method::{Method, Version};
use crate::uri;

/// What the parser noticed in the headers on its way, so that nobody searches for it again.
///
/// These describe the head as it came in; rules that change headers later do not change them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Noticed {
    /// `Connection: close`.
    pub close: bool,
    /// `Connection: keep-alive`.
    pub keep_alive: bool,
    /// `Connection: upgrade`.
    pub connection_upgrade: bool,
    /// An `Upgrade` header.
    pub upgrade: bool,
    /// `Upgrade` lists `websocket`.
    pub websocket: bool,
    /// A `Sec-WebSocket-Key` header.
    pub websocket_key: bool,
    /// A `TE` header. It is reduced to `trailers`, the only coding passed through.
    pub te: bool,
    /// `Expect: 100-continue`.
    pub expect_continue: bool,
    /// `Transfer-Encoding` ends in `chunked`.
    pub chunked: bool,
    /// Content-Length came along with Transfer-Encoding (and was removed), or Transfer-Encoding came
    /// in HTTP/1.0: the connection must not be used again (RFC 9112 section 6.1).
    pub doubtful_framing: bool,
    /// A header was continued over several lines; it was joined with blanks.
    pub folded: bool,
    /// Number of Host headers.
    pub hosts: u8,
}

impl Noticed {
    /// Whether both `Connection: upgrade` and `Upgrade` were there.
    pub fn wants_upgrade(self) -> bool {
        self.connection_upgrade && self.upgrade
    }

    /// Whether the sender lets the connection live on after this message (RFC 9112 section 9.3).
    pub fn persistent(self, version: Version) -> bool {
        !self.close && !self.doubtful_framing && (self.keep_alive || version >= Version::HTTP_11)
    }
}

/// A request head. Reuse it: `clear` keeps its memory.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// Known by number; the text is `method_str`. Change it with `set_method`.
    pub method: Method,
    pub version: Version,
    pub headers: Headers,
    pub framing: Framing,
    pub noticed: Noticed,
    /// Method, target, and the protocol's name and version when it is an odd one, side by side.
    line: Vec<u8>,
    method_len: usize,
    target_end: usize,
}

impl Request {
    pub fn new() -> Request {
        Request::default()
    }

    /// A request made here: `method`, `target`, HTTP/1.1, no headers, no body.
    pub fn with_line(method: impl AsRef<[u8]>, target: impl AsRef<[u8]>) -> Request {
        let mut request = Request::default();
        request.set_line(method.as_ref(), target.as_ref(), b"");
        request
    }

    /// Forgets the message, keeps the memory.
    pub fn clear(&mut self) {
        self.headers.clear();
        self.line.clear();
        self.method_len = 0;
        self.target_end = 0;
        self.method = Method::default();
        self.version = Version::default();
        self.framing = Framing::default();
        self.noticed = Noticed::default();
    }

    pub(crate) fn set_line(&mut self, method: &[u8], target: &[u8], protocol: &[u8]) {
        self.method = Method::from_bytes(method);
        self.method_len = method.len();
        self.target_end = method.len() + target.len();
        self.line.clear();
        self.line.extend_from_slice(method);
        self.line.extend_from_slice(target);
        self.line.extend_from_slice(protocol);
    }

    /// The method as it is written.
    pub fn method_str(&self) -> &[u8] {
        self.line.get(..self.method_len).unwrap_or_default()
    }

    /// The request target as it is written: origin, absolute, authority or asterisk form.
    pub fn target(&self) -> &[u8] {
        self.line
            .get(self.method_len..self.target_end)
            .unwrap_or_default()
    }

    /// The path without query, as the manual's `path`; `None` when the target has none.
    pub fn path(&self) -> Option<&[u8]> {
        uri::path_and_query(self.target()).map(|pq| uri::split_query(pq).0)
    }

    /// What follows the first question mark, empty when there is none, as the manual's `query`.
    pub fn query(&self) -> &[u8] {
        uri::split_query(self.target()).1.unwrap_or_default()
    }

    /// Path and query together, as the manual's `pathq`.
    pub fn path_and_query(&self) -> Option<&[u8]> {
        uri::path_and_query(self.target())
    }

    /// The scheme of an absolute target.
    pub fn scheme(&self) -> Option<&[u8]> {
        uri::scheme(self.target())
    }

    /// The authority of an absolute target, or the target of a CONNECT.
    pub fn authority(&self) -> Option<&[u8]> {
        if self.method == Method::Connect {
            Some(self.target())
        } else {
            uri::authority(self.target())
        }
    }

    /// Puts another authority into an absolute target; any other target stays.
    pub fn set_authority(&mut self, authority: &[u8]) {
        let target = self.target();
        let Some(old) = uri::authority(target) else {
            return;
        };
        const SLASHES: &[u8] = b"://";
        let Some(at) = target.windows(SLASHES.len()).position(|w| w == SLASHES) else {
            return;
        };
        let at = at + SLASHES.len();
        let (scheme, rest) = (&target[..at], &target[at + old.len()..]);
        let new = [scheme, authority, rest].concat();
        self.set_target(new);
    }

    /// The first Host header.
    pub fn host(&self) -> Option<&[u8]> {
        self.headers.get(b"host")
    }

    /// Whether the client lets the connection live on after this request.
    pub fn persistent(&self) -> bool {
        self.noticed.persistent(self.version)
    }

    pub fn set_method(&mut self, method: impl AsRef<[u8]>) {
        let method = method.as_ref();
        self.splice(0..self.method_len, method);
        self.method_len = method.len();
        self.method = Method::from_bytes(method);
    }

    pub fn set_target(&mut self, target: impl AsRef<[u8]>) {
        self.splice(self.method_len..self.target_end, target.as_ref());
    }

    /// Replaces the path, keeps scheme, authority and query (`http-request set-path`).
    pub fn set_path(&mut self, path: impl AsRef<[u8]>) {
        let path_place = match self.target() {
            // `OPTIONS *`: the asterisk stands where a path would
            b"*" => self.method_len..self.target_end,
            _ => self.path_place(),
        };
        self.splice(path_place, path.as_ref());
    }

    /// Replaces the query, keeps the rest (`http-request set-query`): an empty one removes the
    /// question mark too.
    pub fn set_query(&mut self, query: impl AsRef<[u8]>) {
        let query = query.as_ref();
        let path_end = self.path_place().end;
        if query.is_empty() {
            self.splice(path_end..self.target_end, b"");
        } else if self.line.get(path_end) == Some(&b'?') && path_end < self.target_end {
            self.splice(path_end + 1..self.target_end, query);
        } else {
            self.splice(path_end..path_end, b"?");
            self.splice(path_end + 1..self.target_end, query);
        }
    }

    /// Replaces path and query, keeps scheme and authority (`http-request set-pathq`).
    pub fn set_path_and_query(&mut self, path_and_query: impl AsRef<[u8]>) {
        let start = self.path_place().start;
        self.splice(start..self.target_end, path_and_query.as_ref());
    }

    /// Cuts a piece out of the target.
    pub(crate) fn cut_target(&mut self, piece: Range<usize>) {
        let start = self.method_len + piece.start;
        self.splice(start..(self.method_len + piece.end).max(start), b"");
    }

    /// Replaces a piece of the line, given as offsets in it, that starts and ends before the
    /// protocol's name. Line ends and NUL become spaces as in header values; a target with a space in
    /// it is then refused by the next parser instead of being taken for two requests.
    fn splice(&mut self, piece: Range<usize>, new: &[u8]) {
        let piece = piece.start.min(self.target_end)..piece.end.min(self.target_end);
        self.target_end = self.target_end - piece.len() + new.len();
        let clean = new.iter().map(|&b| {
            if matches!(b, b'\r' | b'\n' | 0) {
                b' '
            } else {
                b
            }
        });
        self.line.splice(piece, clean);
    }

    /// Where the path lies in `line`. A target without a path gets it before its query.
    fn path_place(&self) -> Range<usize> {
        let target = self.target();
        let (before_query, _) = uri::split_query(target);
        let path_len = self.path().map_or(0, <[u8]>::len);
        let start = match uri::path_and_query(target) {
            Some(rest) => self.target_end - rest.len(),
            None => self.method_len + before_query.len(),
        };
        start..start + path_len
    }

    /// Appends the head in HTTP/1 form, empty line included. The version is what `version` says, as
    /// HAProxy keeps it, so that a server does not send chunks to a client of HTTP/1.0; a chunked
    /// request is always 1.1, for in 1.0 its body would be taken for something else.
    pub fn write_to(&self, out: &mut Vec<u8>) {
        out.reserve(self.line.len() + self.headers.buf.len() + 16);
        out.extend_from_slice(self.method_str());
        out.push(b' ');
        out.extend_from_slice(self.target());
        out.push(b' ');
        let protocol = self.line.get(self.target_end..).unwrap_or_default();
        write_version(protocol, self.version, self.framing, out);
        out.extend_from_slice(b"\r\n");
        self.headers.write_to(out);
        out.extend_from_slice(b"\r\n");
    }
}

/// Appends the protocol's name and version: `odd` when it is not empty, else HTTP and the number.
pub(crate) fn write_version(odd: &[u8], version: Version, framing: Framing, out: &mut Vec<u8>) {
    if version >= Version::HTTP_11 || framing == Framing::Chunked {
        out.extend_from_slice(b"HTTP/1.1");
    } else if odd.is_empty() {
        let digits = [b'0' + version.major % 10, b'.', b'0' + version.minor % 10];
        out.extend_from_slice(b"HTTP/");
        out.extend_from_slice(&digits);
    } else {
        out.extend_from_slice(odd);
    }
}
