//! What many fetches share: results, arguments, the message at hand, iteration, HAProxy's ways to read numbers.

use sluice_http::{Headers, Request, Response};

use super::Cursor;
use crate::args::Arg;
use crate::env::{Dir, Env};
use crate::value::{Absent, Fetched, Sample, Value};

pub(super) fn never<'a>() -> Fetched<'a> {
    Err(Absent::Never)
}

pub(super) fn int<'a>(value: Option<i64>) -> Fetched<'a> {
    value.map(Sample::int).ok_or(Absent::Never)
}

pub(super) fn truth<'a>(value: Option<bool>) -> Fetched<'a> {
    value.map(Sample::bool).ok_or(Absent::Never)
}

pub(super) fn text<'a>(value: Option<&'a [u8]>) -> Fetched<'a> {
    value.map(Sample::str).ok_or(Absent::Never)
}

/// A sample that may have further occurrences behind it.
pub(super) fn more(value: Value<'_>, not_last: bool) -> Sample<'_> {
    Sample {
        value,
        may_change: false,
        not_last,
    }
}

/// The request's head, or why it is not there.
pub(super) fn request(env: &dyn Env) -> Result<&Request, Absent> {
    match env.request() {
        Some(request) => Ok(request),
        None if env.request_is_final() => Err(Absent::Never),
        None => Err(Absent::NotYet),
    }
}

/// The response's head, or why it is not there.
pub(super) fn response(env: &dyn Env) -> Result<&Response, Absent> {
    match env.response() {
        Some(response) => Ok(response),
        None if env.response_is_final() => Err(Absent::Never),
        None => Err(Absent::NotYet),
    }
}

/// The headers of the message that passes by.
pub(super) fn headers_at_hand(env: &dyn Env) -> Result<&Headers, Absent> {
    match env.direction() {
        Dir::Request => request(env).map(|r| &r.headers),
        Dir::Response => response(env).map(|r| &r.headers),
    }
}

/// What `read` makes of the bytes in a channel; what it lacks will never come when they are all.
pub(super) fn content<'a>(
    env: &'a dyn Env,
    dir: Dir,
    read: impl FnOnce(&'a [u8]) -> Fetched<'a>,
) -> Fetched<'a> {
    let content = env.content(dir).ok_or(Absent::Never)?;
    match read(content.bytes) {
        Err(Absent::NotYet) if content.is_final => Err(Absent::Never),
        fetched => fetched,
    }
}

/// The bytes a text of hexadecimal digits stands for.
pub(super) fn from_hex(text: &[u8]) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) {
        return None;
    }
    let digit = |b: &u8| char::from(*b).to_digit(16);
    text.chunks_exact(2)
        .map(|pair| Some((digit(&pair[0])? * 16 + digit(&pair[1])?) as u8))
        .collect()
}

/// Goes on where `cursor` stands among `lines`: `split` cuts the next thing off what it gets and says what is left
/// of it, if anything; it gives nothing when there is no other.
pub(super) fn resume<'a, T>(
    lines: impl Iterator<Item = &'a [u8]>,
    cursor: &mut Cursor,
    split: impl Fn(&'a [u8]) -> Option<(T, Option<&'a [u8]>)>,
) -> Option<T> {
    let [line, offset, ..] = cursor.0.map(|n| n as usize);
    for (nth, text) in lines.enumerate().skip(line) {
        let from = if nth == line { offset } else { 0 };
        let Some((found, rest)) = split(text.get(from..).unwrap_or_default()) else {
            continue;
        };
        (cursor.0[0], cursor.0[1]) = match rest {
            Some(rest) => (nth as u32, (text.len() - rest.len()) as u32),
            None => (nth as u32 + 1, 0),
        };
        return Some(found);
    }
    None
}

/// The number in a header, cookie or parameter as HAProxy reads it for the `_val` fetches: 32 bits that wrap, up to
/// the first character above `9`; one below `0` counts as the negative digit its code is.
pub(super) fn loose_int(text: &[u8]) -> i64 {
    let (sign, digits) = match text.strip_prefix(b"-") {
        Some(rest) => (-1, rest),
        None => (1, text),
    };
    let mut n: i32 = 0;
    for &b in digits {
        let digit = i32::from(b) - i32::from(b'0');
        if digit > 9 {
            break;
        }
        n = n.wrapping_mul(10).wrapping_add(digit.wrapping_mul(sign));
    }
    i64::from(n)
}

/// The argument as text, `None` when it was left out.
pub(super) fn arg_str(args: &[Arg], i: usize) -> Option<&[u8]> {
    match args.get(i) {
        Some(Arg::Str(s)) => Some(s),
        _ => None,
    }
}

/// The argument as a number, `None` when it was left out.
pub(super) fn arg_int(args: &[Arg], i: usize) -> Option<i64> {
    match args.get(i) {
        Some(Arg::Sint(n)) => Some(*n),
        _ => None,
    }
}
