//! The header section of a head: reads lines into `Headers` and notices those that matter here.

use crate::chars::{is_blank, skip_text, skip_token};
use crate::error::{ErrorKind, ParseError};
use crate::headers::{Headers, Line, defuse, tag_of};
use crate::lists::list_items;
use crate::message::Noticed;
use crate::scan::{HeadScan, Limits, Step};

/// Scans header lines from `scan.pos`. `Some(end)` when the empty line was read, `None` when bytes
/// are missing. On the way each complete line is put in `headers` and its meaning in `noticed`.
#[inline]
pub(crate) fn scan_fields(
    input: &[u8],
    scan: &mut HeadScan,
    limits: &Limits,
    headers: &mut Headers,
    noticed: &mut Noticed,
) -> Result<Option<usize>, ParseError> {
    loop {
        let Some(&byte) = input.get(scan.pos) else {
            return Ok(None);
        };
        match scan.step {
            Step::Name => {
                let end = skip_token(input, scan.pos);
                scan.pos = end;
                match input.get(end) {
                    None => return Ok(None),
                    Some(b':') if end == scan.name.0 => {
                        return Err(ParseError::new(ErrorKind::EmptyHeaderName, end));
                    }
                    Some(b':') => {
                        scan.name.1 = end;
                        scan.pos = end + 1;
                        scan.step = Step::ValueStart;
                    }
                    // A name may hold other characters when the configuration says so, never blanks
                    // or line ends: those are how a header is hidden from the next parser.
                    Some(&b) if limits.accept_invalid && b > b' ' && b != 0x7f => {
                        scan.pos = end + 1
                    }
                    Some(_) => return Err(ParseError::new(ErrorKind::HeaderName, end)),
                }
            }
            Step::ValueStart => {
                if is_blank(byte) {
                    scan.pos += 1;
                } else {
                    scan.value = (scan.pos, scan.pos);
                    scan.step = Step::Value;
                }
            }
            Step::Value => {
                let end = skip_text(input, scan.pos);
                scan.pos = end;
                match input.get(end) {
                    None => return Ok(None),
                    Some(b'\r') => {
                        end_value(input, scan);
                        scan.pos = end + 1;
                        scan.step = Step::ValueLf;
                    }
                    Some(b'\n') => {
                        end_value(input, scan);
                        scan.pos = end + 1;
                        scan.step = Step::LineStart;
                    }
                    // RFC 9110 section 5.5: NUL is dangerous. Other controls are kept as HAProxy does.
                    Some(0) => return Err(ParseError::new(ErrorKind::HeaderValue, end)),
                    Some(_) => scan.pos = end + 1,
                }
            }
            Step::ValueLf => {
                if byte != b'\n' {
                    return Err(ParseError::new(ErrorKind::BareCr, scan.pos));
                }
                scan.pos += 1;
                scan.step = Step::LineStart;
            }
            Step::LineStart => {
                if is_blank(byte) && scan.pending {
                    scan.folded = true;
                    scan.pos += 1;
                    scan.step = if scan.value.0 == scan.value.1 {
                        Step::ValueStart
                    } else {
                        Step::Value
                    };
                    continue;
                }
                if scan.pending {
                    commit(input, scan, limits, headers, noticed)?;
                }
                match byte {
                    b'\r' => {
                        scan.pos += 1;
                        scan.step = Step::LastLf;
                    }
                    b'\n' => return Ok(Some(scan.pos + 1)),
                    _ => {
                        scan.name = (scan.pos, scan.pos);
                        scan.step = Step::Name;
                    }
                }
            }
            Step::LastLf => {
                if byte != b'\n' {
                    return Err(ParseError::new(ErrorKind::BareCr, scan.pos));
                }
                return Ok(Some(scan.pos + 1));
            }
            // The start line's steps never reach this function.
            _ => return Err(ParseError::new(ErrorKind::Start, scan.pos)),
        }
    }
}

/// The value ends before `scan.pos`, without its trailing blanks.
#[inline]
fn end_value(input: &[u8], scan: &mut HeadScan) {
    let mut end = scan.pos;
    while end > scan.value.0 && input.get(end - 1).is_some_and(|&b| is_blank(b)) {
        end -= 1;
    }
    // An empty continuation line leaves the blanks and line ends before it at the end.
    if scan.folded {
        while end > scan.value.0
            && input
                .get(end - 1)
                .is_some_and(|&b| is_blank(b) || matches!(b, b'\r' | b'\n'))
        {
            end -= 1;
        }
    }
    scan.value.1 = end;
    scan.pending = true;
}

/// Puts the pending header line where it belongs. `scan.pos` is the byte after it.
#[inline]
fn commit(
    input: &[u8],
    scan: &mut HeadScan,
    limits: &Limits,
    headers: &mut Headers,
    noticed: &mut Noticed,
) -> Result<(), ParseError> {
    if headers.lines.len() + 1 >= limits.headers_max {
        return Err(ParseError::new(ErrorKind::TooManyHeaders, scan.name.0));
    }
    let name = input.get(scan.name.0..scan.name.1).unwrap_or_default();
    let value = input.get(scan.value.0..scan.value.1).unwrap_or_default();
    let canonical = !scan.folded
        && scan.value.0 == scan.name.1 + 2
        && input.get(scan.name.1 + 1) == Some(&b' ')
        && scan.pos == scan.value.1 + 2
        && input.get(scan.value.1) == Some(&b'\r');
    headers.lines.push(Line {
        name: (scan.name.0 - scan.fields) as u32,
        name_len: name.len() as u32,
        value: (scan.value.0 - scan.fields) as u32,
        value_len: value.len() as u32,
        tag: tag_of(name),
        canonical,
    });
    noticed.folded |= scan.folded;
    scan.pending = false;
    scan.folded = false;
    if canonical || !noticed.folded {
        return notice(name, value, scan, noticed);
    }
    // Line ends inside a value are blanks to whoever reads it.
    let mut joined = value.to_vec();
    defuse(&mut joined);
    notice(name, &joined, scan, noticed)
}

/// Notes the headers that decide framing and the connection's fate. The length of a name rules out
/// nearly all others before any text is compared.
#[inline]
fn notice(
    name: &[u8],
    value: &[u8],
    scan: &mut HeadScan,
    noticed: &mut Noticed,
) -> Result<(), ParseError> {
    let fault = |kind| ParseError::new(kind, scan.value.0);
    match name.len() {
        2 if name.eq_ignore_ascii_case(b"te") => noticed.te = true,
        4 if name.eq_ignore_ascii_case(b"host") => noticed.hosts = noticed.hosts.saturating_add(1),
        6 if name.eq_ignore_ascii_case(b"expect") => {
            noticed.expect_continue |= value.eq_ignore_ascii_case(b"100-continue");
        }
        7 if name.eq_ignore_ascii_case(b"upgrade") => {
            noticed.upgrade = true;
            noticed.websocket |=
                list_items(value).any(|item| item.eq_ignore_ascii_case(b"websocket"));
        }
        10 if name.eq_ignore_ascii_case(b"connection") => {
            for token in list_items(value) {
                noticed.close |= token.eq_ignore_ascii_case(b"close");
                noticed.keep_alive |= token.eq_ignore_ascii_case(b"keep-alive");
                noticed.connection_upgrade |= token.eq_ignore_ascii_case(b"upgrade");
            }
        }
        14 if name.eq_ignore_ascii_case(b"content-length") => {
            scan.coding
                .content_length(value)
                .map_err(|()| fault(ErrorKind::ContentLength))?;
        }
        17 if name.eq_ignore_ascii_case(b"transfer-encoding") => {
            scan.coding
                .transfer_encoding(value)
                .map_err(|()| fault(ErrorKind::TransferEncoding))?;
        }
        17 if name.eq_ignore_ascii_case(b"sec-websocket-key") => noticed.websocket_key = true,
        _ => {}
    }
    Ok(())
}

/// Takes over the bytes of the header section once it is complete; folded lines become one.
#[inline]
pub(crate) fn take_bytes(section: &[u8], headers: &mut Headers, folded: bool) {
    headers.buf.clear();
    headers.buf.extend_from_slice(section);
    if folded {
        let Headers { buf, lines } = headers;
        for line in lines.iter().filter(|l| !l.canonical) {
            let start = line.value as usize;
            defuse(
                buf.get_mut(start..start + line.value_len as usize)
                    .unwrap_or_default(),
            );
        }
    }
}
