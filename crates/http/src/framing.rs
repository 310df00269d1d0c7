//! How long a message's body is, and the headers that say so.
//!
//! The order of RFC 9112 section 6.3: what the status or method forbids, then Transfer-Encoding,
//! then Content-Length, then the end of the connection. Whatever spelling came in, what is left in
//! the head says it once and plainly.

use crate::chars::trim;
use crate::chunk::decimal_digits;
use crate::error::ErrorKind;
use crate::headers::Headers;
use crate::lists::list_items;
use crate::message::Request;
use crate::method::{Method, Version};
use crate::response::Response;
use crate::scan::Limits;

/// How the end of a message's body is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Framing {
    /// There is no body.
    #[default]
    None,
    /// This many bytes.
    Length(u64),
    /// Chunks (RFC 9112 section 7.1), then trailers.
    Chunked,
    /// All bytes until the peer closes (responses only).
    UntilClose,
    /// No longer HTTP: bytes both ways until either side closes (CONNECT, 101).
    Tunnel,
}

impl Framing {
    /// Whether bytes of a body can follow the head.
    pub fn has_body(self) -> bool {
        !matches!(self, Framing::None | Framing::Length(0))
    }

    /// Whether the connection can carry another message after this one.
    pub fn is_delimited(self) -> bool {
        !matches!(self, Framing::UntilClose | Framing::Tunnel)
    }
}

/// What the Content-Length and Transfer-Encoding headers of one head said so far.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Coding {
    pub length: Option<u64>,
    /// The length was not written once in plain decimal: repeated, listed, or with leading zeros.
    odd_length: bool,
    pub transfer_encoding: bool,
    /// A Transfer-Encoding other than one `chunked` alone was listed.
    other: bool,
    /// `chunked` was listed; after it, nothing may follow.
    pub chunked: bool,
    /// `chunked` was not written alone: empty list items around it.
    odd_encoding: bool,
}

impl Coding {
    /// Takes one Content-Length value: digits only, or a list of the same number (RFC 9112
    /// section 6.3 rule 5). Nothing signed, empty, overflowing or differing.
    pub fn content_length(&mut self, value: &[u8]) -> Result<(), ()> {
        for item in value.split(|&b| b == b',').map(trim) {
            let number = decimal(item).ok_or(())?;
            self.odd_length |=
                self.length.is_some() || (item.len() > 1 && item.first() == Some(&b'0'));
            if self.length.is_some_and(|known| known != number) {
                return Err(());
            }
            self.length = Some(number);
        }
        Ok(())
    }

    /// Takes one Transfer-Encoding value. `chunked` may be listed once and only at the end
    /// (RFC 9112 section 6.1); empty items after it are harmless and forgotten.
    pub fn transfer_encoding(&mut self, value: &[u8]) -> Result<(), ()> {
        self.transfer_encoding = true;
        for item in list_items(value) {
            if item.is_empty() && self.chunked {
                self.odd_encoding = true;
            } else if self.chunked {
                return Err(());
            } else if item.eq_ignore_ascii_case(b"chunked") {
                self.chunked = true;
            } else {
                self.other = true;
            }
        }
        Ok(())
    }

    /// Only `chunked` alone is understood: HAProxy's answers to the rest.
    fn check(&self) -> Result<(), ErrorKind> {
        match (self.transfer_encoding, self.chunked, self.other) {
            (false, ..) | (true, true, false) => Ok(()),
            (true, true, true) => Err(ErrorKind::TransferEncodingUnknown),
            (true, false, _) => Err(ErrorKind::TransferEncoding),
        }
    }

    /// Leaves one header that says the length or the coding, in plain form. Both: the length is a lie
    /// or a trap, and only the chunks are forwarded (RFC 9112 section 6.1).
    fn tidy(&self, headers: &mut Headers) {
        if self.transfer_encoding && self.length.is_some() {
            headers.remove(b"content-length");
        } else if let Some(length) = self.length.filter(|_| self.odd_length) {
            headers.set(b"Content-Length", decimal_digits(length, &mut [0; 20]));
        }
        if self.odd_encoding {
            headers.set(b"Transfer-Encoding", b"chunked");
        }
    }
}

/// RFC 9112 section 6.3 for requests.
#[inline]
pub(crate) fn frame_request(
    coding: &Coding,
    limits: &Limits,
    out: &mut Request,
) -> Result<(), ErrorKind> {
    if coding.length.is_none() && !coding.transfer_encoding {
        out.framing = if out.method == Method::Connect {
            Framing::Tunnel
        } else {
            Framing::None
        };
        return Ok(());
    }
    coding.check()?;
    coding.tidy(&mut out.headers);
    out.noticed.chunked = coding.chunked;
    out.noticed.doubtful_framing =
        coding.chunked && (coding.length.is_some() || out.version < Version::HTTP_11);
    out.framing = match coding.length {
        _ if coding.chunked => Framing::Chunked,
        Some(length) => Framing::Length(length),
        None => Framing::None,
    };
    if out.method == Method::Connect {
        // Section 6.3 has no body for CONNECT: what follows is the tunnel's, so nothing may claim it.
        out.headers.remove(b"content-length");
        out.headers.remove(b"transfer-encoding");
        out.framing = Framing::Tunnel;
    }
    let bodyless = matches!(out.method, Method::Get | Method::Head | Method::Delete);
    if bodyless
        && out.version < Version::HTTP_11
        && out.framing.has_body()
        && !limits.payload_any_method
    {
        return Err(ErrorKind::Payload);
    }
    Ok(())
}

/// RFC 9112 section 6.3 for responses.
pub(crate) fn frame_response(
    coding: &Coding,
    request_method: Method,
    out: &mut Response,
) -> Result<(), ErrorKind> {
    coding.check()?;
    coding.tidy(&mut out.headers);
    out.noticed.chunked = coding.chunked;
    out.noticed.doubtful_framing =
        coding.chunked && (coding.length.is_some() || out.version < Version::HTTP_11);
    let tunnel = request_method == Method::Connect && (200..300).contains(&out.status);
    // RFC 9110 sections 8.6 and 6.6.1 forbid both headers where no body can be: a client that
    // believed them would take the next response for this one's body.
    // Those of a 2xx to CONNECT mean nothing to the client and are passed on, as HAProxy does.
    if matches!(out.status, 100..=199 | 204) {
        out.headers.remove(b"content-length");
        out.headers.remove(b"transfer-encoding");
    }
    out.framing = match out.status {
        101 => Framing::Tunnel,
        _ if tunnel => Framing::Tunnel,
        100..=199 | 204 | 304 => Framing::None,
        _ if request_method == Method::Head => Framing::None,
        _ if coding.chunked => Framing::Chunked,
        _ => coding.length.map_or(Framing::UntilClose, Framing::Length),
    };
    Ok(())
}

/// Reads an unsigned decimal number: digits only, no overflow.
pub(crate) fn decimal(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0u64, |sum, &b| {
        let digit = b.is_ascii_digit().then(|| u64::from(b - b'0'))?;
        sum.checked_mul(10)?.checked_add(digit)
    })
}
