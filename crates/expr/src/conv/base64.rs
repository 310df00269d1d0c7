//! Base64 and base64url, with HAProxy's exact leniency on what it decodes: no whitespace, padding required for the
//! first and unknown to the second.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};

use crate::conv::operand::on_bytes;
use crate::value::{Fetched, Sample, Value};

converters! {
    "base64" () Bin -> Str, |_, s, _| on_bytes(s, |s| Some(text(STANDARD.encode(s)))) => "Encodes in base64.";
    "ub64enc" () Bin -> Str, |_, s, _| on_bytes(s, |s| Some(text(URL_SAFE_NO_PAD.encode(s))))
        => "Encodes in base64url, without padding.";
    "b64dec" () Str -> Bin, |_, s, _| decoded(s, decode) => "Decodes base64; nothing when it is invalid.";
    "ub64dec" () Str -> Bin, |_, s, _| decoded(s, decode_url)
        => "Decodes base64url without padding; nothing when it is invalid.";
}

fn text(s: String) -> Value<'static> {
    Value::Str(Cow::Owned(s.into_bytes()))
}

fn decoded(sample: Sample<'_>, decode: fn(&[u8]) -> Option<Vec<u8>>) -> Fetched<'_> {
    on_bytes(sample, |s| Some(Value::Bin(Cow::Owned(decode(&s)?))))
}

/// The value of a character of the standard alphabet.
fn digit(c: u8) -> Option<u32> {
    Some(u32::from(match c {
        b'A'..=b'Z' => c - b'A',
        b'a'..=b'z' => c - b'a' + 26,
        b'0'..=b'9' => c - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    }))
}

/// The value of a character of the URL alphabet. HAProxy takes `=` for 63 there, so padding decodes to garbage rather
/// than failing; scripts that strip what follows depend on it.
fn digit_url(c: u8) -> Option<u32> {
    match c {
        b'-' => Some(62),
        b'_' | b'=' => Some(63),
        b'+' | b'/' => None,
        c => digit(c),
    }
}

/// Base64 with padding.
pub fn encode(bytes: &[u8]) -> Vec<u8> {
    STANDARD.encode(bytes).into_bytes()
}

/// Base64 in whole groups of four. Padding may end any group, not only the last, and is at most three characters.
pub fn decode(text: &[u8]) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(4) {
        return None;
    }
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    for group in text.chunks_exact(4) {
        let used = group.iter().position(|c| *c == b'=').unwrap_or(4);
        if used == 0 || group[used..].iter().any(|c| *c != b'=') {
            return None;
        }
        let mut bits = 0;
        for c in &group[..used] {
            bits = bits << 6 | digit(*c)?;
        }
        bits <<= 6 * (4 - used);
        out.extend_from_slice(&bits.to_be_bytes()[1..used]);
    }
    Some(out)
}

/// Base64url; any length but one character too many.
pub fn decode_url(text: &[u8]) -> Option<Vec<u8>> {
    if text.len() % 4 == 1 {
        return None;
    }
    let mut out = Vec::with_capacity(text.len().div_ceil(4) * 3);
    for group in text.chunks(4) {
        let mut bits = 0;
        for c in group {
            bits = bits << 6 | digit_url(*c)?;
        }
        bits <<= 6 * (4 - group.len());
        out.extend_from_slice(&bits.to_be_bytes()[1..group.len()]);
    }
    Some(out)
}

/// Base64url without padding, for tests that make tokens.
#[cfg(test)]
pub fn encode_url(bytes: &[u8]) -> String {
    use ::base64::Engine;
    ::base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{decode, decode_url};
    use crate::conv::testing::check_all;

    #[test]
    fn encodes() {
        check_all(&[
            ("str(abc),base64", Some("YWJj")),
            ("str(ab),base64", Some("YWI=")),
            ("str(a),base64", Some("YQ==")),
            ("str(),base64", Some("")),
            ("bin(fbff),base64", Some("+/8=")),
            ("bin(fbff),ub64enc", Some("-_8")),
            ("str(a),ub64enc", Some("YQ")),
            ("str(),ub64enc", Some("")),
            ("int(258),base64", Some("AAAAAAAAAQI=")),
            ("ipv4(192.0.2.1),base64", Some("wAACAQ==")),
        ]);
    }

    #[test]
    fn decodes() {
        check_all(&[
            ("str(YWJj),b64dec", Some("abc")),
            ("str(YWI=),b64dec", Some("ab")),
            ("str(YQ==),b64dec", Some("a")),
            ("str(YR==),b64dec", Some("a")),
            ("str(YQ==YQ==),b64dec", Some("aa")),
            ("str(Y===),b64dec", Some("")),
            ("str(),b64dec", Some("")),
            ("str(-_-_),ub64dec,hex", Some("FBFFBF")),
            ("str(YWI),ub64dec", Some("ab")),
            ("str(YQ),ub64dec", Some("a")),
            ("str(YWI=),ub64dec", Some("ab?")),
            ("str(YQ==),ub64dec,hex", Some("610FFF")),
            ("str(==),ub64dec,hex", Some("FF")),
            ("str(),ub64dec", Some("")),
        ]);
    }

    #[test]
    fn gives_nothing_for_what_is_not_base64() {
        check_all(&[
            ("str(YWI),b64dec", None),
            ("str(YQ=),b64dec", None),
            ("str(YWJjZ),b64dec", None),
            ("str(YW Jj),b64dec", None),
            ("str(YW-_),b64dec", None),
            ("str(====),b64dec", None),
            ("str(YWJj====),b64dec", None),
            ("str(YW=I),b64dec", None),
            ("str(Y),ub64dec", None),
            ("str(YWJjZ),ub64dec", None),
            ("str(YW+/),ub64dec", None),
        ]);
    }

    proptest! {
        #[test]
        fn what_is_encoded_decodes(bytes: Vec<u8>) {
            use base64::Engine;
            use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
            prop_assert_eq!(decode(STANDARD.encode(&bytes).as_bytes()), Some(bytes.clone()));
            prop_assert_eq!(decode_url(URL_SAFE_NO_PAD.encode(&bytes).as_bytes()), Some(bytes));
        }

        #[test]
        fn anything_may_be_decoded(bytes: Vec<u8>) {
            let _ = (decode(&bytes), decode_url(&bytes));
        }
    }
}
