//! Reading heads: `parse_request` and `parse_response`, resumable at any byte.
//!
//! One pass, leftmost fault first: cutting the input differently never changes the result. The
//! lines themselves are read in `start_line` and `fields`; what they mean together is settled in
//! `framing` and `authority`.

use crate::authority::settle_host;
use crate::error::{ErrorKind, ParseError};
use crate::fields::{scan_fields, take_bytes};
use crate::framing::{frame_request, frame_response};
use crate::message::Request;
use crate::method::Method;
use crate::response::Response;
use crate::scan::{HeadScan, Limits, Parsed};
use crate::start_line::{Line, request_line, status_line};

/// Reads a request head from the start of `input`.
///
/// `input` must begin with the bytes of the previous calls made with the same `scan`. `out` is
/// meaningful only after `Complete`. An input that reaches `limits.head_max` without the head being
/// complete is refused, so the caller's buffer bounds memory.
pub fn parse_request(
    input: &[u8],
    scan: &mut HeadScan,
    limits: &Limits,
    out: &mut Request,
) -> Result<Parsed, ParseError> {
    if scan.pos == 0 {
        out.clear();
    }
    let head = input.get(..limits.head_max).unwrap_or(input);
    let result = request_head(head, scan, limits, out);
    conclude(result, head.len(), scan, limits)
}

/// Reads a response head from the start of `input`, as `parse_request` does. `request_method` is the
/// method of the request being answered: it decides whether a body follows.
///
/// Interim responses (`Response::is_interim`) come out like others, without body: call again for
/// the next. A 101 comes out as `Framing::Tunnel` whether or not an upgrade was asked for; the
/// caller, who knows the request, refuses one that was not.
pub fn parse_response(
    input: &[u8],
    scan: &mut HeadScan,
    limits: &Limits,
    request_method: Method,
    out: &mut Response,
) -> Result<Parsed, ParseError> {
    if scan.pos == 0 {
        out.clear();
    }
    let head = input.get(..limits.head_max).unwrap_or(input);
    let result = response_head(head, scan, limits, request_method, out);
    conclude(result, head.len(), scan, limits)
}

#[inline]
fn conclude(
    result: Result<Option<usize>, ParseError>,
    len: usize,
    scan: &mut HeadScan,
    limits: &Limits,
) -> Result<Parsed, ParseError> {
    match result {
        Ok(Some(consumed)) => {
            scan.reset();
            Ok(Parsed::Complete { consumed })
        }
        Ok(None) if len < limits.head_max => Ok(Parsed::Partial),
        Ok(None) => {
            scan.reset();
            Err(ParseError::new(ErrorKind::TooLarge, len))
        }
        Err(fault) => {
            scan.reset();
            Err(fault)
        }
    }
}

fn request_head(
    input: &[u8],
    scan: &mut HeadScan,
    limits: &Limits,
    out: &mut Request,
) -> Result<Option<usize>, ParseError> {
    let mut end = None;
    if scan.fields == 0 {
        match request_line(input, scan, limits, out)? {
            Line::Partial => return Ok(None),
            Line::Read => {}
            Line::Whole => end = Some(scan.pos),
        }
    }
    if end.is_none() {
        end = scan_fields(input, scan, limits, &mut out.headers, &mut out.noticed)?;
    }
    let Some(end) = end else { return Ok(None) };
    take_bytes(
        input.get(scan.fields..end).unwrap_or_default(),
        &mut out.headers,
        out.noticed.folded,
    );
    let fault = |kind| ParseError::new(kind, scan.part[1].0);
    settle_host(out, limits).map_err(fault)?;
    frame_request(&scan.coding, limits, out).map_err(fault)?;
    if out.noticed.te || out.noticed.upgrade {
        settle_hop_by_hop(out).map_err(fault)?;
    }
    Ok(Some(end))
}

/// Headers that speak of this connection only (RFC 9110 sections 7.8 and 10.1.4): a server is asked
/// for no coding but trailers, and for an upgrade only by a request without body, for both want
/// the bytes that follow.
#[cold]
fn settle_hop_by_hop(out: &mut Request) -> Result<(), ErrorKind> {
    if out.noticed.te {
        let wants_trailers = out
            .headers
            .values(b"te")
            .any(|v| v.eq_ignore_ascii_case(b"trailers"));
        let plain = wants_trailers && out.headers.get(b"te").is_some_and(|v| v.len() == 8);
        if !plain || out.headers.count(b"te") > 1 {
            out.headers.remove(b"te");
            if wants_trailers {
                out.headers.add(b"TE", b"trailers");
            }
        }
    }
    if out.noticed.wants_upgrade() {
        if out.noticed.websocket && !out.noticed.websocket_key {
            return Err(ErrorKind::WebsocketKey);
        }
        if out.framing.has_body() {
            out.headers.remove(b"upgrade");
            out.noticed.upgrade = false;
        }
    }
    Ok(())
}

fn response_head(
    input: &[u8],
    scan: &mut HeadScan,
    limits: &Limits,
    request_method: Method,
    out: &mut Response,
) -> Result<Option<usize>, ParseError> {
    if scan.fields == 0 && status_line(input, scan, limits, out)? == Line::Partial {
        return Ok(None);
    }
    let Some(end) = scan_fields(input, scan, limits, &mut out.headers, &mut out.noticed)? else {
        return Ok(None);
    };
    take_bytes(
        input.get(scan.fields..end).unwrap_or_default(),
        &mut out.headers,
        out.noticed.folded,
    );
    frame_response(&scan.coding, request_method, out)
        .map_err(|kind| ParseError::new(kind, scan.fields))?;
    Ok(Some(end))
}

/// Whether a connection starts with HTTP/2's preface (RFC 9113 section 3.4): `None` while the bytes
/// so far could still become it.
pub fn is_http2_preface(input: &[u8]) -> Option<bool> {
    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    if input.len() >= PREFACE.len() {
        Some(input.starts_with(PREFACE))
    } else if PREFACE.starts_with(input) {
        None
    } else {
        Some(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_preface_of_http2_is_told_as_soon_as_it_can_be() {
        assert_eq!(is_http2_preface(b""), None);
        assert_eq!(is_http2_preface(b"P"), None);
        assert_eq!(is_http2_preface(b"PO"), Some(false));
        assert_eq!(is_http2_preface(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r"), None);
        assert_eq!(
            is_http2_preface(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0"),
            Some(true)
        );
        assert_eq!(
            is_http2_preface(b"PRI * HTTP/2.0\r\nHost: a\r\n\r\n..."),
            Some(false)
        );
    }
}
