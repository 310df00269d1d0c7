//! The header section of a head: reads lines into `Headers` and notices those that matter here.

use crate::chars::{is_blank, skip_text, skip_token};
use crate::error::{ErrorKind, ParseError};
use crate::framing::Coding;
use crate::headers::{Headers, Line, defuse, name_bit, tag_of};
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
        if scan.step == Step::LineStart && !scan.pending {
            usual_lines(input, scan, limits, headers, noticed)?;
        }
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
                    continue;
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

/// Reads the lines that look as nearly all do, `name: value CRLF` whole and not continued, without a
/// detour over the steps; stops before the first that does not. What it reads, the steps would read
/// the same.
#[inline]
fn usual_lines(
    input: &[u8],
    scan: &mut HeadScan,
    limits: &Limits,
    headers: &mut Headers,
    noticed: &mut Noticed,
) -> Result<(), ParseError> {
    while let Some(line) = usual_line(input, scan.pos) {
        store(input, line, scan, limits, headers, noticed)?;
        scan.pos = line.value.1 + 2;
    }
    Ok(())
}

#[inline]
fn usual_line(input: &[u8], start: usize) -> Option<Found> {
    let name_end = skip_token(input, start);
    let value_start = name_end + 2;
    let separator = input.get(name_end..)?.first_chunk::<3>()?;
    if name_end == start || separator[..2] != *b": " || is_blank(separator[2]) {
        return None;
    }
    let value_end = skip_text(input, value_start);
    let &[b'\r', b'\n', next] = input.get(value_end..)?.first_chunk::<3>()? else {
        return None;
    };
    if is_blank(next) || (value_end > value_start && is_blank(*input.get(value_end - 1)?)) {
        return None;
    }
    Some(Found {
        name: (start, name_end),
        value: (value_start, value_end),
        canonical: true,
    })
}

/// A header line as it was found: first and past-the-end byte of name and value.
#[derive(Clone, Copy)]
struct Found {
    name: (usize, usize),
    value: (usize, usize),
    canonical: bool,
}

/// Puts the pending header line where it belongs. `scan.pos` is the byte after it.
fn commit(
    input: &[u8],
    scan: &mut HeadScan,
    limits: &Limits,
    headers: &mut Headers,
    noticed: &mut Noticed,
) -> Result<(), ParseError> {
    let (name, value) = (scan.name, scan.value);
    let canonical = !scan.folded
        && value.0 == name.1 + 2
        && input.get(name.1 + 1) == Some(&b' ')
        && scan.pos == value.1 + 2
        && input.get(value.1) == Some(&b'\r');
    noticed.folded |= scan.folded;
    scan.pending = false;
    scan.folded = false;
    let line = Found {
        name,
        value,
        canonical,
    };
    if canonical || !noticed.folded {
        return store(input, line, scan, limits, headers, noticed);
    }
    // Line ends inside a value are blanks to whoever reads it.
    let mut joined = input.get(..value.1).unwrap_or_default().to_vec();
    defuse(joined.get_mut(value.0..).unwrap_or_default());
    store(&joined, line, scan, limits, headers, noticed)
}

#[inline(always)]
fn store(
    input: &[u8],
    line: Found,
    scan: &mut HeadScan,
    limits: &Limits,
    headers: &mut Headers,
    noticed: &mut Noticed,
) -> Result<(), ParseError> {
    if headers.lines.len() + 1 >= limits.headers_max {
        return Err(ParseError::new(ErrorKind::TooManyHeaders, line.name.0));
    }
    let name = input.get(line.name.0..line.name.1).unwrap_or_default();
    let tag = tag_of(name);
    let bit = name_bit(tag);
    headers.names |= bit;
    headers.lines.push(Line {
        name: (line.name.0 - scan.fields) as u32,
        name_len: name.len() as u32,
        value: (line.value.0 - scan.fields) as u32,
        value_len: (line.value.1 - line.value.0) as u32,
        tag,
        canonical: line.canonical,
    });
    if NOTICED & bit == 0 {
        return Ok(());
    }
    let value = input.get(line.value.0..line.value.1).unwrap_or_default();
    notice(name, value, &mut scan.coding, noticed)
        .map_err(|kind| ParseError::new(kind, line.value.0))
}

/// The bits of the names that `notice` knows: they rule out most others before any text is compared.
const NOTICED: u64 = {
    let names: [&[u8]; 8] = [
        b"te",
        b"host",
        b"expect",
        b"upgrade",
        b"connection",
        b"content-length",
        b"transfer-encoding",
        b"sec-websocket-key",
    ];
    let mut bits = 0;
    let mut i = 0;
    while i < names.len() {
        bits |= name_bit(tag_of(names[i]));
        i += 1;
    }
    bits
};

/// Notes the headers that decide framing and the connection's fate. Apart from the loop over the
/// lines, which is the faster for being small.
#[inline(never)]
fn notice(
    name: &[u8],
    value: &[u8],
    coding: &mut Coding,
    noticed: &mut Noticed,
) -> Result<(), ErrorKind> {
    let is = |known: &[u8]| name.eq_ignore_ascii_case(known);
    match name.len() {
        2 if is(b"te") => noticed.te = true,
        4 if is(b"host") => noticed.hosts = noticed.hosts.saturating_add(1),
        6 if is(b"expect") => {
            noticed.expect_continue |= value.eq_ignore_ascii_case(b"100-continue")
        }
        7 if is(b"upgrade") => {
            let mut protocols = list_items(value);
            noticed.upgrade = true;
            noticed.websocket |= protocols.any(|item| item.eq_ignore_ascii_case(b"websocket"));
        }
        10 if is(b"connection") && value.eq_ignore_ascii_case(b"keep-alive") => {
            noticed.keep_alive = true
        }
        10 if is(b"connection") => {
            for token in list_items(value) {
                noticed.close |= token.eq_ignore_ascii_case(b"close");
                noticed.keep_alive |= token.eq_ignore_ascii_case(b"keep-alive");
                noticed.connection_upgrade |= token.eq_ignore_ascii_case(b"upgrade");
            }
        }
        14 if is(b"content-length") => coding
            .content_length(value)
            .map_err(|()| ErrorKind::ContentLength)?,
        17 if is(b"transfer-encoding") => coding
            .transfer_encoding(value)
            .map_err(|()| ErrorKind::TransferEncoding)?,
        17 if is(b"sec-websocket-key") => noticed.websocket_key = true,
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
        let Headers { buf, lines, .. } = headers;
        for line in lines.iter().filter(|l| !l.canonical) {
            let start = line.value as usize;
            defuse(
                buf.get_mut(start..start + line.value_len as usize)
                    .unwrap_or_default(),
            );
        }
    }
}
