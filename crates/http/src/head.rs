//! Reading heads: `parse_request` and `parse_response`, resumable at any byte.
//!
//! Owns the start lines and the decision how the body is framed; the header lines are in `fields`.
//! One pass, leftmost fault first: cutting the input differently never changes the result.

use crate::chars::{is_blank, is_token_byte, skip_target, skip_text, skip_token};
use crate::error::{ErrorKind, ParseError};
use crate::fields::{scan_fields, take_bytes};
use crate::framing::Framing;
use crate::message::Request;
use crate::method::{Method, Version};
use crate::response::Response;
use crate::scan::{HeadScan, Limits, Parsed, Step};
use crate::uri;

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
    conclude(result, head.len() >= limits.head_max, head.len(), scan)
}

/// Reads a response head from the start of `input`, as `parse_request` does. `request_method` is the
/// method of the request being answered: it decides whether a body follows.
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
    conclude(result, head.len() >= limits.head_max, head.len(), scan)
}

fn conclude(
    result: Result<Option<usize>, ParseError>,
    full: bool,
    len: usize,
    scan: &mut HeadScan,
) -> Result<Parsed, ParseError> {
    match result {
        Ok(None) if !full => return Ok(Parsed::Partial),
        _ => scan.reset(),
    }
    match result? {
        Some(consumed) => Ok(Parsed::Complete { consumed }),
        None => Err(ParseError::new(ErrorKind::TooLarge, len)),
    }
}

fn request_head(
    input: &[u8],
    scan: &mut HeadScan,
    limits: &Limits,
    out: &mut Request,
) -> Result<Option<usize>, ParseError> {
    if scan.fields == 0 && !request_line(input, scan, limits, out)? {
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
    let (target_start, target_end) = scan.part[1];
    check_host(out, limits).map_err(|kind| ParseError::new(kind, target_start))?;
    frame_request(scan, limits, out).map_err(|kind| ParseError::new(kind, target_end))?;
    Ok(Some(end))
}

/// Reads the request line into `out`; false when bytes are missing.
fn request_line(
    input: &[u8],
    scan: &mut HeadScan,
    limits: &Limits,
    out: &mut Request,
) -> Result<bool, ParseError> {
    loop {
        let Some(&byte) = input.get(scan.pos) else {
            return Ok(false);
        };
        match scan.step {
            Step::Before if is_token_byte(byte) => {
                scan.start = scan.pos;
                scan.part[0].0 = scan.pos;
                scan.step = Step::Method;
            }
            // RFC 9112 section 2.2: empty lines before a request are skipped.
            Step::Before => {
                scan.step = match byte {
                    b'\n' => Step::Before,
                    b'\r' => Step::BeforeLf,
                    _ => return Err(ParseError::new(ErrorKind::Start, scan.pos)),
                };
                scan.pos += 1;
            }
            Step::BeforeLf => {
                if byte != b'\n' {
                    return Err(ParseError::new(ErrorKind::BareCr, scan.pos));
                }
                scan.pos += 1;
                scan.step = Step::Before;
            }
            Step::Method => {
                scan.pos = skip_token(input, scan.pos);
                match input.get(scan.pos) {
                    None => return Ok(false),
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
                // Bytes above 127 pass the fast scan, so the strict look at them comes after it.
                let from = scan.pos;
                let end = skip_target(input, from);
                if !limits.accept_invalid {
                    let raw = input.get(from..end).unwrap_or_default();
                    if let Some(n) = raw.iter().position(|&b| b >= 0x80) {
                        return Err(ParseError::new(ErrorKind::Target, from + n));
                    }
                }
                scan.pos = end;
                match input.get(end) {
                    None => return Ok(false),
                    Some(&b) if is_blank(b) && end > scan.part[1].0 => {
                        scan.part[1].1 = end;
                        scan.pos += 1;
                        scan.step = Step::VersionStart;
                    }
                    Some(_) => return Err(ParseError::new(ErrorKind::Target, end)),
                }
            }
            Step::VersionStart if is_blank(byte) => scan.pos += 1,
            Step::VersionStart => {
                scan.part[2].0 = scan.pos;
                scan.step = Step::Version;
            }
            Step::Version => {
                if is_version_byte(byte) {
                    scan.pos += 1;
                    continue;
                }
                scan.part[2].1 = scan.pos;
                if !matches!(byte, b'\r' | b'\n') {
                    return Err(ParseError::new(ErrorKind::Version, scan.pos));
                }
                let text = input.get(scan.part[2].0..scan.pos).unwrap_or_default();
                out.version =
                    version(text).ok_or(ParseError::new(ErrorKind::Version, scan.part[2].0))?;
                scan.pos += 1;
                if byte == b'\n' {
                    return Ok(finish_request_line(input, scan, out));
                }
                scan.step = Step::StartLineLf;
            }
            Step::StartLineLf => {
                if byte != b'\n' {
                    return Err(ParseError::new(ErrorKind::BareCr, scan.pos));
                }
                scan.pos += 1;
                return Ok(finish_request_line(input, scan, out));
            }
            _ => return Err(ParseError::new(ErrorKind::Start, scan.pos)),
        }
    }
}

fn finish_request_line(input: &[u8], scan: &mut HeadScan, out: &mut Request) -> bool {
    let part = |(start, end): (usize, usize)| input.get(start..end).unwrap_or_default();
    out.set_line(part(scan.part[0]), part(scan.part[1]));
    scan.fields = scan.pos;
    scan.step = Step::LineStart;
    true
}

#[inline]
fn is_version_byte(byte: u8) -> bool {
    byte.is_ascii_uppercase() || byte.is_ascii_digit() || matches!(byte, b'/' | b'.')
}

/// HTTP/1 of any minor version; a higher one is spoken as 1.1 (RFC 9110 section 2.5).
fn version(text: &[u8]) -> Option<Version> {
    let version = Version::from_bytes(text)?;
    (version.major == 1).then_some(if version.minor == 0 {
        version
    } else {
        Version::HTTP_11
    })
}

/// One host: several Host headers must agree, and agree with an absolute target's authority.
fn check_host(out: &Request, limits: &Limits) -> Result<(), ErrorKind> {
    if out.noticed.hosts > 1 {
        let mut hosts = out.headers.all(b"host");
        let first = hosts.next().unwrap_or_default();
        if hosts.any(|other| !other.eq_ignore_ascii_case(first)) {
            return Err(ErrorKind::Host);
        }
    }
    if limits.accept_invalid || out.target().first() == Some(&b'/') {
        return Ok(());
    }
    let (Some(authority), Some(host)) = (out.authority(), out.headers.get(b"host")) else {
        return Ok(());
    };
    if uri::same_authority(out.scheme(), authority, host) {
        Ok(())
    } else {
        Err(ErrorKind::HostMismatch)
    }
}

/// RFC 9112 section 6.3 for requests.
fn frame_request(scan: &HeadScan, limits: &Limits, out: &mut Request) -> Result<(), ErrorKind> {
    let coding = scan.coding;
    out.noticed.chunked = coding.chunked_last;
    if out.method == Method::Connect {
        out.framing = Framing::Tunnel;
        return Ok(());
    }
    out.framing = if coding.transfer_encoding {
        if !coding.chunked_last {
            return Err(ErrorKind::TransferEncodingUnknown);
        }
        // Section 6.1: the length is a lie or a trap; only the chunks are forwarded.
        if coding.length.is_some() {
            out.headers.remove(b"content-length");
            out.noticed.both_framings = true;
        }
        Framing::Chunked
    } else {
        coding.length.map_or(Framing::None, Framing::Length)
    };
    single_length(out.framing, &mut out.headers);
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

/// Leaves one Content-Length line with one number, whatever agreeing repetition came in.
fn single_length(framing: Framing, headers: &mut crate::headers::Headers) {
    let Framing::Length(length) = framing else {
        return;
    };
    let mut lines = headers.all(b"content-length");
    let repeated = lines.next().is_some_and(|v| v.contains(&b',')) || lines.next().is_some();
    drop(lines);
    if repeated {
        let mut digits = [0u8; 20];
        headers.set(
            b"content-length",
            crate::chunk::decimal_digits(length, &mut digits),
        );
    }
}

fn response_head(
    input: &[u8],
    scan: &mut HeadScan,
    limits: &Limits,
    request_method: Method,
    out: &mut Response,
) -> Result<Option<usize>, ParseError> {
    if scan.fields == 0 && !status_line(input, scan, limits, out)? {
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
    frame_response(scan, request_method, out);
    Ok(Some(end))
}

/// Reads the status line into `out`; false when bytes are missing.
fn status_line(
    input: &[u8],
    scan: &mut HeadScan,
    limits: &Limits,
    out: &mut Response,
) -> Result<bool, ParseError> {
    loop {
        let Some(&byte) = input.get(scan.pos) else {
            return Ok(false);
        };
        match scan.step {
            Step::Before => {
                scan.part[0].0 = scan.pos;
                scan.step = Step::Version;
            }
            Step::Version => {
                if is_version_byte(byte) && scan.pos - scan.part[0].0 < 8 {
                    scan.pos += 1;
                    continue;
                }
                let text = input.get(scan.part[0].0..scan.pos).unwrap_or_default();
                if !is_blank(byte) {
                    return Err(ParseError::new(ErrorKind::Version, scan.pos));
                }
                out.version =
                    version(text).ok_or(ParseError::new(ErrorKind::Version, scan.part[0].0))?;
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
                if digits != 3
                    || text.first() == Some(&b'0')
                    || !(is_blank(byte) || matches!(byte, b'\r' | b'\n'))
                {
                    return Err(ParseError::new(ErrorKind::Status, scan.pos));
                }
                out.status = text
                    .iter()
                    .fold(0, |sum, &b| sum * 10 + u16::from(b - b'0'));
                scan.pos += usize::from(is_blank(byte));
                scan.part[2].0 = scan.pos;
                scan.step = Step::Reason;
            }
            Step::Reason => {
                let end = skip_text(input, scan.pos);
                scan.pos = end;
                match input.get(end) {
                    None => return Ok(false),
                    Some(b'\t') => scan.pos += 1,
                    Some(b'\r') => {
                        scan.part[2].1 = end;
                        scan.pos += 1;
                        scan.step = Step::StartLineLf;
                    }
                    Some(b'\n') => {
                        scan.part[2].1 = end;
                        scan.pos += 1;
                        return Ok(finish_status_line(input, scan, out));
                    }
                    Some(&b) if limits.accept_invalid && b != 0 => scan.pos += 1,
                    Some(_) => return Err(ParseError::new(ErrorKind::Reason, end)),
                }
            }
            Step::StartLineLf => {
                if byte != b'\n' {
                    return Err(ParseError::new(ErrorKind::BareCr, scan.pos));
                }
                scan.pos += 1;
                return Ok(finish_status_line(input, scan, out));
            }
            _ => return Err(ParseError::new(ErrorKind::Start, scan.pos)),
        }
    }
}

fn finish_status_line(input: &[u8], scan: &mut HeadScan, out: &mut Response) -> bool {
    let (start, end) = scan.part[2];
    out.set_reason(input.get(start..end).unwrap_or_default());
    scan.fields = scan.pos;
    scan.step = Step::LineStart;
    true
}

/// RFC 9112 section 6.3 for responses.
fn frame_response(scan: &HeadScan, request_method: Method, out: &mut Response) {
    let coding = scan.coding;
    out.noticed.chunked = coding.chunked_last;
    if coding.transfer_encoding && coding.length.is_some() {
        out.headers.remove(b"content-length");
        out.noticed.both_framings = true;
    }
    out.framing = match out.status {
        101 => Framing::Tunnel,
        200..=299 if request_method == Method::Connect => Framing::Tunnel,
        100..=199 | 204 | 304 => Framing::None,
        _ if request_method == Method::Head => Framing::None,
        _ if coding.chunked_last => Framing::Chunked,
        _ if coding.transfer_encoding => Framing::UntilClose,
        _ => coding.length.map_or(Framing::UntilClose, Framing::Length),
    };
    single_length(
        coding.length.map_or(Framing::None, Framing::Length),
        &mut out.headers,
    );
}
