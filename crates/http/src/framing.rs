//! How long a message's body is, and the headers that say so.
//!
//! The order of RFC 9112 section 6.3: what the status or method forbids, then Transfer-Encoding,
//! then Content-Length, then the end of the connection.

use crate::chars::trim;
use crate::lists::list_items;

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
    pub transfer_encoding: bool,
    /// The last coding listed is `chunked`.
    pub chunked_last: bool,
}

impl Coding {
    /// Takes one Content-Length value: digits only, or a list of the same number (RFC 9112
    /// section 6.3 rule 5). Nothing signed, empty, overflowing or differing.
    pub fn content_length(&mut self, value: &[u8]) -> Result<(), ()> {
        for item in value.split(|&b| b == b',') {
            let number = decimal(trim(item)).ok_or(())?;
            if self.length.is_some_and(|known| known != number) {
                return Err(());
            }
            self.length = Some(number);
        }
        Ok(())
    }

    /// Takes one Transfer-Encoding value. `chunked` may be listed once and only at the end
    /// (RFC 9112 section 6.1).
    pub fn transfer_encoding(&mut self, value: &[u8]) -> Result<(), ()> {
        self.transfer_encoding = true;
        for item in list_items(value) {
            if self.chunked_last {
                return Err(());
            }
            self.chunked_last = item.eq_ignore_ascii_case(b"chunked");
        }
        Ok(())
    }
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
