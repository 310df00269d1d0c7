//! A response head: status, reason, headers, and what they say of body and connection.

use crate::framing::Framing;
use crate::headers::{Headers, defuse};
use crate::message::{Noticed, write_version};
use crate::method::Version;
use crate::status::reason;

/// A response head. Reuse it: `clear` keeps its memory.
#[derive(Debug, Clone, Default)]
pub struct Response {
    pub version: Version,
    /// 100 to 999.
    pub status: u16,
    pub headers: Headers,
    pub framing: Framing,
    pub noticed: Noticed,
    reason: Vec<u8>,
    /// The protocol's name and version when it is an odd one.
    protocol: Vec<u8>,
}

impl Response {
    pub fn new() -> Response {
        Response::default()
    }

    /// A response made here: `status` with its standard reason, HTTP/1.1, no headers, no body.
    pub fn with_status(status: u16) -> Response {
        let mut response = Response::default();
        response.set_status(status, None);
        response
    }

    /// Forgets the message, keeps the memory.
    pub fn clear(&mut self) {
        self.headers.clear();
        self.reason.clear();
        self.protocol.clear();
        self.version = Version::default();
        self.status = 0;
        self.framing = Framing::default();
        self.noticed = Noticed::default();
    }

    /// The reason phrase as it is written.
    pub fn reason(&self) -> &[u8] {
        &self.reason
    }

    pub(crate) fn set_reason(&mut self, text: &[u8]) {
        self.reason.clear();
        self.reason.extend_from_slice(text);
    }

    pub(crate) fn set_protocol(&mut self, text: &[u8]) {
        self.protocol.clear();
        self.protocol.extend_from_slice(text);
    }

    /// Changes status and reason; without one the standard reason of the new status is taken
    /// (`http-response set-status`).
    pub fn set_status(&mut self, status: u16, text: Option<&[u8]>) {
        self.status = status;
        self.set_reason(text.unwrap_or_else(|| reason(status).as_bytes()));
        defuse(&mut self.reason);
    }

    /// Whether this is an interim response that another will follow (RFC 9110 section 15.2).
    /// 101 is final: the protocol changes.
    pub fn is_interim(&self) -> bool {
        (100..200).contains(&self.status) && self.status != 101
    }

    /// Whether the server lets the connection live on after this response.
    pub fn persistent(&self) -> bool {
        self.framing.is_delimited() && self.noticed.persistent(self.version)
    }

    /// Appends the head in HTTP/1 form, empty line included. The version is what `version` says, but
    /// 1.1 when the body is chunked.
    pub fn write_to(&self, out: &mut Vec<u8>) {
        out.reserve(self.reason.len() + self.headers.buf.len() + 32);
        write_version(&self.protocol, self.version, self.framing, out);
        out.push(b' ');
        let status = self.status.clamp(100, 999);
        out.extend_from_slice(
            &[status / 100, status / 10 % 10, status % 10].map(|d| b'0' + d as u8),
        );
        out.push(b' ');
        out.extend_from_slice(&self.reason);
        out.extend_from_slice(b"\r\n");
        self.headers.write_to(out);
        out.extend_from_slice(b"\r\n");
    }
}
