//! Start lines: the request line and the status line, read byte by byte where the scan stands.
//!
//! Blanks between the parts may be several, as HAProxy takes them; what is written is always one
//! space, so nothing ambiguous is forwarded.

use crate::chars::{
    is_blank, is_token_byte, skip_target, skip_target_relaxed, skip_text, skip_token,
};
use crate::error::{ErrorKind, ParseError};
use crate::message::Request;
use crate::method::Version;
use crate::response::Response;
use crate::scan::{HeadScan, Limits, Step};

/// What a start line brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Line {
    /// Bytes are missing.
    Partial,
    /// The header section follows.
    Read,
    /// A request line without version: the head ends here (HTTP/0.9).
    Whole,
}

/// Empty lines before a message are skipped (RFC 9112 section 2.2). True once another byte is seen.
fn skip_empty_lines(byte: u8, scan: &mut HeadScan) -> Result<bool, ParseError> {
    scan.step = match (scan.step, byte) {
        (_, b'\n') => Step::Before,
        (Step::BeforeLf, _) => return Err(ParseError::new(ErrorKind::BareCr, scan.pos)),
        (_, b'\r') => Step::BeforeLf,
        _ => {
            scan.start = scan.pos;
            return Ok(true);
        }
    };
    scan.pos += 1;
    Ok(false)
}

/// Reads the request line into `out`.
pub(crate) fn request_line(
    input: &[u8],
    scan: &mut HeadScan,
    limits: &Limits,
    out: &mut Request,
) -> Result<Line, ParseError> {
    if scan.step == Step::Before && usual_request_line(input, scan, limits, out) {
        return Ok(Line::Read);
    }
    loop {
        let Some(&byte) = input.get(scan.pos) else {
            return Ok(Line::Partial);
        };
        match scan.step {
            Step::Before | Step::BeforeLf => {
                if !skip_empty_lines(byte, scan)? {
                    continue;
                }
                if !is_token_byte(byte) {
                    return Err(ParseError::new(ErrorKind::Start, scan.pos));
                }
                scan.part[0].0 = scan.pos;
                scan.step = Step::Method;
            }
            Step::Method => {
                scan.pos = skip_token(input, scan.pos);
                match input.get(scan.pos) {
                    None => return Ok(Line::Partial),
                    Some(&b) if is_blank(b) => {
                        scan.part[0].1 = scan.pos;
                        scan.pos += 1;
                        scan.step = Step::TargetStart;
                    }
                    Some(_) => return Err(ParseError::new(ErrorKind::Method, scan.pos)),
                }
            }
            Step::TargetStart if is_blank(byte) => scan.pos += 1,
            Step::TargetStart => {
                scan.part[1].0 = scan.pos;
                scan.step = Step::Target;
            }
            Step::Target => {
                scan.pos = if limits.accept_invalid {
                    skip_target_relaxed(input, scan.pos)
                } else {
                    skip_target(input, scan.pos)
                };
                let end = scan.pos;
                match input.get(end) {
                    None => return Ok(Line::Partial),
                    Some(&b) if is_blank(b) => {
                        scan.part[1].1 = end;
                        scan.pos += 1;
                        scan.step = Step::VersionStart;
                    }
                    Some(b'\r' | b'\n') if limits.accept_invalid && end > scan.part[1].0 => {
                        scan.part[1].1 = end;
                        scan.step = Step::Version;
                    }
                    Some(_) => return Err(ParseError::new(ErrorKind::Target, end)),
                }
            }
            Step::VersionStart if is_blank(byte) => scan.pos += 1,
            Step::VersionStart => {
                scan.part[2].0 = scan.pos;
                scan.step = Step::Version;
            }
            Step::Version if is_version_byte(byte) => scan.pos += 1,
            Step::Version => {
                if !matches!(byte, b'\r' | b'\n') {
                    return Err(ParseError::new(ErrorKind::Version, scan.pos));
                }
                if scan.part[2].0 == 0 {
                    scan.part[2].0 = scan.pos;
                }
                scan.part[2].1 = scan.pos;
                scan.step = Step::StartLineLf;
                scan.pos += usize::from(byte == b'\r');
            }
            Step::StartLineLf => {
                if byte != b'\n' {
                    return Err(ParseError::new(ErrorKind::BareCr, scan.pos));
                }
                scan.pos += 1;
                return take_request_line(input, scan, limits, out);
            }
            _ => return Err(ParseError::new(ErrorKind::Start, scan.pos)),
        }
    }
}

/// Reads a request line that looks as nearly all do, `METHOD target HTTP/1.1 CRLF` whole, without a
/// detour over the steps; leaves anything else to them, untouched. What it reads, the steps would
/// read the same.
#[inline]
fn usual_request_line(
    input: &[u8],
    scan: &mut HeadScan,
    limits: &Limits,
    out: &mut Request,
) -> bool {
    const REST: &[u8; 11] = b" HTTP/1.1\r\n";
    let start = scan.pos;
    let method_end = skip_token(input, start);
    let target = method_end + 1;
    let target_end = if limits.accept_invalid {
        skip_target_relaxed(input, target)
    } else {
        skip_target(input, target)
    };
    let rest = input.get(target_end..).unwrap_or_default();
    let usual = method_end > start
        && target_end > target
        && input.get(method_end) == Some(&b' ')
        && rest.first_chunk() == Some(REST);
    if usual {
        scan.start = start;
        scan.part[1] = (target, target_end);
        scan.pos = target_end + REST.len();
        scan.fields = scan.pos;
        scan.step = Step::LineStart;
        let part = |from: usize, to: usize| input.get(from..to).unwrap_or_default();
        out.version = Version::HTTP_11;
        out.set_line(part(start, method_end), part(target, target_end), b"");
    }
    usual
}

fn take_request_line(
    input: &[u8],
    scan: &mut HeadScan,
    limits: &Limits,
    out: &mut Request,
) -> Result<Line, ParseError> {
    let part = |(start, end): (usize, usize)| input.get(start..end).unwrap_or_default();
    let (method, target, version) = (part(scan.part[0]), part(scan.part[1]), part(scan.part[2]));
    let fault = ParseError::new(ErrorKind::Version, scan.part[2].0);
    scan.fields = scan.pos;
    scan.step = Step::LineStart;
    if version.is_empty() {
        // Only GET exists in HTTP/0.9, and nothing of it has headers; it goes on as HTTP/1.0.
        if !limits.accept_invalid || method != b"GET" {
            return Err(fault);
        }
        out.set_line(method, target, b"");
        out.version = Version::HTTP_10;
        return Ok(Line::Whole);
    }
    let named_http = version.starts_with(b"HTTP/");
    let (number, text) =
        read_version(version, named_http || limits.accept_invalid, limits).ok_or(fault)?;
    // The connection preface of HTTP/2 is no request of HTTP/1 (RFC 9113 section 3.4).
    if method == b"PRI" && version == b"HTTP/2.0" {
        return Err(fault);
    }
    out.set_line(method, target, text);
    out.version = number;
    Ok(Line::Read)
}

#[inline]
fn is_version_byte(byte: u8) -> bool {
    byte.is_ascii_uppercase() || byte.is_ascii_digit() || matches!(byte, b'/' | b'.')
}

/// The version a start line says, and its text when it must be written back as it is.
///
/// `NAME/D.D` with a four-letter name; everything from 1.1 on is spoken as 1.1 (and known by its own number), what is
/// below keeps its number. The relaxed form takes any word and treats it as 1.0.
fn read_version<'a>(
    text: &'a [u8],
    name_allowed: bool,
    limits: &Limits,
) -> Option<(Version, &'a [u8])> {
    let relaxed = limits.accept_invalid.then_some((Version::HTTP_10, text));
    let [
        _,
        _,
        _,
        _,
        b'/',
        major @ b'0'..=b'9',
        b'.',
        minor @ b'0'..=b'9',
    ] = *text
    else {
        return relaxed;
    };
    if !name_allowed {
        return None;
    }
    let version = Version {
        major: major - b'0',
        minor: minor - b'0',
    };
    let plain = version >= Version::HTTP_11 || text.starts_with(b"HTTP");
    Some((version, if plain { b"" } else { text }))
}

/// Reads the status line into `out`.
pub(crate) fn status_line(
    input: &[u8],
    scan: &mut HeadScan,
    limits: &Limits,
    out: &mut Response,
) -> Result<Line, ParseError> {
    if scan.step == Step::Before && usual_status_line(input, scan, out) {
        return Ok(Line::Read);
    }
    loop {
        let Some(&byte) = input.get(scan.pos) else {
            return Ok(Line::Partial);
        };
        match scan.step {
            Step::Before | Step::BeforeLf => {
                if skip_empty_lines(byte, scan)? {
                    scan.part[0].0 = scan.pos;
                    scan.step = Step::Version;
                }
            }
            Step::Version if is_version_byte(byte) => scan.pos += 1,
            Step::Version => {
                let text = input.get(scan.part[0].0..scan.pos).unwrap_or_default();
                if !is_blank(byte) || text.is_empty() {
                    return Err(ParseError::new(ErrorKind::Version, scan.pos));
                }
                let fault = ParseError::new(ErrorKind::Version, scan.part[0].0);
                let (number, text) = read_version(text, true, limits).ok_or(fault)?;
                out.version = number;
                out.set_protocol(text);
                scan.pos += 1;
                scan.step = Step::CodeStart;
            }
            Step::CodeStart if is_blank(byte) => scan.pos += 1,
            Step::CodeStart => {
                scan.part[1].0 = scan.pos;
                scan.step = Step::Code;
            }
            Step::Code => {
                let digits = scan.pos - scan.part[1].0;
                if byte.is_ascii_digit() && digits < 3 {
                    scan.pos += 1;
                    continue;
                }
                let text = input.get(scan.part[1].0..scan.pos).unwrap_or_default();
                let ends = is_blank(byte) || matches!(byte, b'\r' | b'\n');
                if digits != 3 || text.first() == Some(&b'0') || !ends {
                    return Err(ParseError::new(ErrorKind::Status, scan.pos));
                }
                out.status = text
                    .iter()
                    .fold(0, |sum, &b| sum * 10 + u16::from(b - b'0'));
                scan.step = Step::ReasonStart;
            }
            Step::ReasonStart if is_blank(byte) => scan.pos += 1,
            Step::ReasonStart => {
                scan.part[2].0 = scan.pos;
                scan.step = Step::Reason;
            }
            Step::Reason => {
                scan.pos = skip_text(input, scan.pos);
                match input.get(scan.pos) {
                    None => return Ok(Line::Partial),
                    Some(&end @ (b'\r' | b'\n')) => {
                        scan.part[2].1 = scan.pos;
                        scan.step = Step::StartLineLf;
                        scan.pos += usize::from(end == b'\r');
                    }
                    Some(0) => return Err(ParseError::new(ErrorKind::Reason, scan.pos)),
                    Some(_) => scan.pos += 1,
                }
            }
            Step::StartLineLf => {
                if byte != b'\n' {
                    return Err(ParseError::new(ErrorKind::BareCr, scan.pos));
                }
                scan.pos += 1;
                let (start, end) = scan.part[2];
                out.set_reason(input.get(start..end).unwrap_or_default());
                scan.fields = scan.pos;
                scan.step = Step::LineStart;
                return Ok(Line::Read);
            }
            _ => return Err(ParseError::new(ErrorKind::Start, scan.pos)),
        }
    }
}

/// Reads a status line that looks as nearly all do, `HTTP/1.1 DDD reason CRLF` whole, as
/// `usual_request_line` does for requests.
#[inline]
fn usual_status_line(input: &[u8], scan: &mut HeadScan, out: &mut Response) -> bool {
    const START: &[u8] = b"HTTP/1.1 ";
    let rest = input.get(scan.pos..).unwrap_or_default();
    let Some(
        &[
            a @ b'1'..=b'9',
            b @ b'0'..=b'9',
            c @ b'0'..=b'9',
            b' ',
            next,
        ],
    ) = rest.strip_prefix(START).and_then(|r| r.first_chunk())
    else {
        return false;
    };
    let reason = scan.pos + START.len() + 4;
    let end = skip_text(input, reason);
    let whole = input.get(end..).is_some_and(|r| r.starts_with(b"\r\n"));
    if !whole || is_blank(next) {
        return false;
    }
    let digit = |d: u8| u16::from(d - b'0');
    out.version = Version::HTTP_11;
    out.status = digit(a) * 100 + digit(b) * 10 + digit(c);
    out.set_reason(input.get(reason..end).unwrap_or_default());
    scan.start = scan.pos;
    scan.pos = end + 2;
    scan.fields = scan.pos;
    scan.step = Step::LineStart;
    true
}
