//! URI normalizers: the pure half of `http-request normalize-uri` (manual chapter 4.2).
//!
//! Each takes a whole request target and gives it back changed; scheme and authority never change,
//! and a target without a path (`*`, an authority) stays as it is. Results were compared with those
//! of HAProxy 2.6 (`tests/normalize.rs`).

use thiserror::Error;

use crate::chars::hex_value;
use crate::uri::path_and_query;

/// A percent sign that no two hexadecimal digits follow, met in strict mode: answered with 400.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("invalid percent escape in the request target")]
pub struct InvalidEscape;

/// Writes `#` as `%23`.
pub fn fragment_encode(target: &[u8]) -> Vec<u8> {
    rewrite(target, |rest, out| {
        for &byte in rest {
            match byte {
                b'#' => out.extend_from_slice(b"%23"),
                other => out.push(other),
            }
        }
    })
}

/// Removes the first `#` and what follows (RFC 3986 section 3.5).
pub fn fragment_strip(target: &[u8]) -> Vec<u8> {
    rewrite(target, |rest, out| {
        let end = memchr::memchr(b'#', rest).unwrap_or(rest.len());
        out.extend_from_slice(rest.get(..end).unwrap_or_default());
    })
}

/// Makes one slash of several in the path.
pub fn path_merge_slashes(target: &[u8]) -> Vec<u8> {
    rewrite_path(target, |path, out| {
        let mut after_slash = false;
        for &byte in path {
            let slash = byte == b'/';
            if !(slash && after_slash) {
                out.push(byte);
            }
            after_slash = slash;
        }
    })
}

/// Removes the path's segments `.` (RFC 3986 section 5.2.4).
pub fn path_strip_dot(target: &[u8]) -> Vec<u8> {
    rewrite_path(target, |path, out| {
        let mut segments = segments(path).peekable();
        while let Some(segment) = segments.next() {
            let last = segments.peek().is_none();
            match segment {
                b"." if last => out.push(b'/'),
                b"." => {}
                _ => {
                    out.push(b'/');
                    out.extend_from_slice(segment);
                }
            }
        }
    })
}

/// Takes each segment `..` of the path away together with the one before it. A `..` that has none
/// before it stays, or with `full` goes too.
pub fn path_strip_dotdot(target: &[u8], full: bool) -> Vec<u8> {
    rewrite_path(target, |path, out| {
        let mut kept: Vec<&[u8]> = Vec::new();
        let mut ends_in_directory = false;
        for segment in segments(path) {
            let leads_nowhere = kept.last().is_none_or(|&top| top == b"..");
            ends_in_directory = segment == b"..";
            if segment != b".." || (leads_nowhere && !full) {
                kept.push(segment);
            } else if !leads_nowhere {
                kept.pop();
            }
        }
        for segment in &kept {
            out.push(b'/');
            out.extend_from_slice(segment);
        }
        // The parent is a directory: `/a/b/..` is `/a/`, and as HAProxy has it `/..` is `/../`.
        if ends_in_directory {
            out.push(b'/');
        }
    })
}

/// Decodes the escapes of letters, digits, `-`, `.`, `_` and `~` (RFC 3986 section 6.2.2.2).
pub fn percent_decode_unreserved(target: &[u8], strict: bool) -> Result<Vec<u8>, InvalidEscape> {
    rewrite_escapes(target, strict, |high, low, value, out| {
        if value.is_ascii_alphanumeric() || matches!(value, b'-' | b'.' | b'_' | b'~') {
            out.push(value);
        } else {
            out.extend_from_slice(&[b'%', high, low]);
        }
    })
}

/// Writes the hexadecimal digits of escapes in upper case (RFC 3986 section 6.2.2.1).
pub fn percent_to_uppercase(target: &[u8], strict: bool) -> Result<Vec<u8>, InvalidEscape> {
    rewrite_escapes(target, strict, |high, low, _, out| {
        out.extend_from_slice(&[b'%', high.to_ascii_uppercase(), low.to_ascii_uppercase()]);
    })
}

/// Sorts the query's parameters by name, shorter names first, equal names in their order.
pub fn query_sort_by_name(target: &[u8]) -> Vec<u8> {
    rewrite(target, |rest, out| {
        let Some(mark) = memchr::memchr(b'?', rest) else {
            return out.extend_from_slice(rest);
        };
        let (path, query) = rest.split_at(mark + 1);
        // A separator at the end separates nothing and goes.
        let query = query.strip_suffix(b"&").unwrap_or(query);
        let mut parameters: Vec<&[u8]> = query.split(|&b| b == b'&').collect();
        let name = |parameter: &&[u8]| {
            let end = memchr::memchr(b'=', parameter).unwrap_or(parameter.len());
            parameter.get(..end).unwrap_or_default().to_vec()
        };
        parameters.sort_by_cached_key(name);
        out.extend_from_slice(path);
        out.extend_from_slice(&parameters.join(&b'&'));
    })
}

/// Lets `edit` write the path and query anew.
fn rewrite(target: &[u8], edit: impl FnOnce(&[u8], &mut Vec<u8>)) -> Vec<u8> {
    let rest = path_and_query(target).unwrap_or_default();
    let mut out = Vec::with_capacity(target.len() + 8);
    out.extend_from_slice(target.strip_suffix(rest).unwrap_or_default());
    edit(rest, &mut out);
    out
}

/// Lets `edit` write the path anew, which starts with a slash when there is one.
fn rewrite_path(target: &[u8], edit: impl FnOnce(&[u8], &mut Vec<u8>)) -> Vec<u8> {
    rewrite(target, |rest, out| {
        let end = memchr::memchr(b'?', rest).unwrap_or(rest.len());
        let (path, query) = rest.split_at(end);
        if !path.is_empty() {
            edit(path, out);
        }
        out.extend_from_slice(query);
    })
}

/// Lets `escape` write each valid escape anew: its two digits and the byte they stand for.
fn rewrite_escapes(
    target: &[u8],
    strict: bool,
    escape: impl Fn(u8, u8, u8, &mut Vec<u8>),
) -> Result<Vec<u8>, InvalidEscape> {
    let mut broken = false;
    let out = rewrite(target, |rest, out| {
        let mut rest = rest;
        while let Some((&byte, tail)) = rest.split_first() {
            rest = tail;
            if byte != b'%' {
                out.push(byte);
                continue;
            }
            let digits = tail.first_chunk::<2>();
            let value =
                digits.and_then(|&[high, low]| Some(hex_value(high)? << 4 | hex_value(low)?));
            match (digits, value) {
                (Some(&[high, low]), Some(value)) => {
                    escape(high, low, value, out);
                    rest = tail.get(2..).unwrap_or_default();
                }
                _ => {
                    broken = true;
                    out.push(b'%');
                }
            }
        }
    });
    if broken && strict {
        Err(InvalidEscape)
    } else {
        Ok(out)
    }
}

/// The segments of a path: what stands after each slash.
fn segments(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.strip_prefix(b"/")
        .unwrap_or(path)
        .split(|&b| b == b'/')
}
