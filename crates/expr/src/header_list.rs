//! Lists of headers in binary: what `req.hdrs_bin` and `res.hdrs_bin` give and the `*-headers-bin` actions take. The
//! lengths are SPOE's (HAProxy's `doc/SPOE.txt`, section 3.1: variable-length integers).

use sluice_http::{Headers, is_token};

/// All lines: names and values each behind their length, an empty pair at the end. Names are in lower case.
pub fn encode(headers: &Headers) -> Vec<u8> {
    let mut out = Vec::with_capacity(headers.wire_len() + 2);
    for (name, value) in headers.iter() {
        put_length(&mut out, name.len());
        out.extend(name.iter().map(u8::to_ascii_lowercase));
        put_length(&mut out, value.len());
        out.extend_from_slice(value);
    }
    out.extend_from_slice(&[0, 0]);
    out
}

/// The names and values of a list, the empty pair at its end may be missing. `None` when it is cut, or when a name or
/// a value could not be sent in a header line: such a list is never used in part.
pub fn pairs(list: &[u8]) -> Option<Vec<(&[u8], &[u8])>> {
    let mut out = Vec::new();
    let mut rest = list;
    while !rest.is_empty() {
        let name = take(&mut rest)?;
        if name.is_empty() {
            return (rest.is_empty() || rest == [0]).then_some(out);
        }
        let value = take(&mut rest)?;
        if !is_token(name) || value.iter().any(|b| matches!(b, b'\r' | b'\n' | 0)) {
            return None;
        }
        out.push((name, value));
    }
    Some(out)
}

/// The names of a list to delete: one of pairs as above, or one of names alone, each behind its length, with or without
/// an empty one at the end.
pub fn names(list: &[u8]) -> Option<Vec<&[u8]>> {
    if list.ends_with(&[0, 0])
        && let Some(pairs) = pairs(list)
    {
        return Some(pairs.into_iter().map(|(name, _)| name).collect());
    }
    let mut out = Vec::new();
    let mut rest = list;
    while !rest.is_empty() {
        let name = take(&mut rest)?;
        if name.is_empty() {
            return rest.is_empty().then_some(out);
        }
        out.push(is_token(name).then_some(name)?);
    }
    Some(out)
}

/// A length: one byte below 240, then four bits in the first and seven in each that follows.
fn put_length(out: &mut Vec<u8>, length: usize) {
    if length < 240 {
        out.push(length as u8);
        return;
    }
    out.push(length as u8 | 240);
    let mut rest = (length - 240) >> 4;
    while rest >= 128 {
        out.push(rest as u8 | 128);
        rest = (rest - 128) >> 7;
    }
    out.push(rest as u8);
}

/// Takes a length and as many bytes off the front.
fn take<'l>(list: &mut &'l [u8]) -> Option<&'l [u8]> {
    let (&first, mut rest) = list.split_first()?;
    let mut length = usize::from(first);
    if first >= 240 {
        // more bits than a message has bytes are a list that is cut anyway
        for shift in [4, 11, 18, 25] {
            let (&next, tail) = rest.split_first()?;
            rest = tail;
            length += usize::from(next) << shift;
            if next < 128 {
                break;
            }
        }
    }
    let (taken, rest) = rest.split_at_checked(length)?;
    *list = rest;
    Some(taken)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lengths_grow_with_the_number() {
        let check = |n: usize, want: &[u8]| {
            let mut out = Vec::new();
            put_length(&mut out, n);
            assert_eq!(out, want, "{n}");
        };
        check(0, &[0]);
        check(239, &[239]);
        check(240, &[240, 0]);
        check(2287, &[255, 127]);
        check(2288, &[240, 128, 0]);
    }

    #[test]
    fn what_could_not_be_sent_is_no_list() {
        let refused = |list: &[u8]| assert_eq!(pairs(list), None, "{}", list.escape_ascii());
        refused(b"\x03ab");
        refused(b"\x02ab");
        refused(b"\x03a b\x01v\0\0");
        refused(b"\x01a\x03v\r\n\0\0");
        refused(b"\x01a\x02v\0\0\0");
        refused(b"\x01a\x01v\0\x01x");
        refused(b"\xff\xff\xff\xff\xff\xff");
        assert_eq!(pairs(b""), Some(vec![]));
        assert_eq!(pairs(b"\0\0"), Some(vec![]));
        assert_eq!(pairs(b"\x01a\0"), Some(vec![(&b"a"[..], &b""[..])]));
    }

    #[test]
    fn names_come_with_or_without_values() {
        let check = |list: &[u8], want: Option<&[&[u8]]>| {
            assert_eq!(names(list).as_deref(), want, "{}", list.escape_ascii());
        };
        check(b"\x01a\x02v1\x01b\x00\0\0", Some(&[b"a", b"b"]));
        check(b"\x01a\x02bc\0", Some(&[b"a", b"bc"]));
        check(b"\x01a\x02bc", Some(&[b"a", b"bc"]));
        check(b"\x01a\x02b", None);
        check(b"\x02a:", None);
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(lines in proptest::collection::vec(("[a-z][a-z-]{0,300}", "[ -~]{0,3000}"), 0..6)) {
            let mut headers = Headers::new();
            lines.iter().for_each(|(n, v)| headers.add(n, v));
            let list = encode(&headers);
            let want: Vec<(&[u8], &[u8])> = headers.iter().collect();
            prop_assert_eq!(pairs(&list).unwrap(), want);
            let named: Vec<&[u8]> = headers.iter().map(|(n, _)| n).collect();
            prop_assert_eq!(names(&list).unwrap(), named);
        }

        #[test]
        fn any_bytes_are_judged(list in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = (pairs(&list), names(&list));
        }
    }
}
