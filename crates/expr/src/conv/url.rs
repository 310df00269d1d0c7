//! Percent encoding (RFC 3986 section 2.1) as the manual's `url_enc` and `url_dec` do it.

use std::borrow::Cow;

use crate::args::Arg;
use crate::conv::BadArg;
use crate::conv::operand::{int_arg, on_bytes, slice_cow, str_arg};
use crate::value::Value;

converters! {
    "url_enc" (Str) Str -> Str, |_, s, _| on_bytes(s, |s| Some(Value::Str(encode(s)))), prepare |args, _| check_encode(args)
        => "Percent-encodes for use in a query string; the argument may say `query`.";
    "url_dec" (; Sint) Str -> Str, |args, s, _| on_bytes(s, |s| decode(s, int_arg(args, 0).unwrap_or(0) != 0))
        => "Decodes percent signs, and `+` as a space after the `?` or, with an argument of 1, everywhere; nothing when \
            a percent sign is not followed by two digits.";
}

fn check_encode(args: &[Arg]) -> Result<(), BadArg> {
    match str_arg(args, 0) {
        b"" | b"query" => Ok(()),
        _ => Err(BadArg::new(0, "the only type of encoding is `query`")),
    }
}

/// What stays as it is: RFC 3986's unreserved characters.
fn is_plain(c: u8) -> bool {
    c.is_ascii_alphanumeric() || b"-._~".contains(&c)
}

fn encode(s: Cow<'_, [u8]>) -> Cow<'_, [u8]> {
    let plain = s.iter().filter(|c| is_plain(**c)).count();
    if plain == s.len() {
        return s;
    }
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let mut out = Vec::with_capacity(plain + (s.len() - plain) * 3);
    for c in s.iter() {
        if is_plain(*c) {
            out.push(*c);
        } else {
            out.extend([
                b'%',
                DIGITS[usize::from(c >> 4)],
                DIGITS[usize::from(c & 15)],
            ]);
        }
    }
    Cow::Owned(out)
}

/// Decodes in place, in the copy if there must be one.
fn decode(s: Cow<'_, [u8]>, is_form: bool) -> Option<Value<'_>> {
    if memchr::memchr2(b'%', b'+', &s).is_none() {
        return Some(Value::Str(s));
    }
    let mut s = s.into_owned();
    let mut plus_is_space = is_form;
    let (mut read, mut write) = (0, 0);
    while let Some(c) = s.get(read).copied() {
        read += 1;
        let c = match c {
            b'+' if plus_is_space => b' ',
            b'%' => {
                let high = char::from(*s.get(read)?).to_digit(16)?;
                let low = char::from(*s.get(read + 1)?).to_digit(16)?;
                read += 2;
                (high << 4 | low) as u8
            }
            b'?' => {
                plus_is_space = true;
                b'?'
            }
            c => c,
        };
        s[write] = c;
        write += 1;
    }
    Some(Value::Str(slice_cow(Cow::Owned(s), 0..write)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::conv::testing::{World, check_all, check_header, check_refused};

    #[test]
    fn encodes() {
        check_all(&[
            ("str(abc),url_enc", Some("abc")),
            ("str(abc),url_enc(query)", Some("abc")),
            ("str(abc),url_enc()", Some("abc")),
            ("str(),url_enc", Some("")),
        ]);
        check_header(&[
            (
                b"a/b?c&d=e+f~g,h'i\"\\",
                "hdr,url_enc",
                Some(b"a%2Fb%3Fc%26d%3De%2Bf~g%2Ch%27i%22%5C"),
            ),
            (b"\x01\x7f\xff", "hdr,url_enc", Some(b"%01%7F%FF")),
            (
                b"-._~!*();:@$[]{}|^`<>#",
                "hdr,url_enc",
                Some(b"-._~%21%2A%28%29%3B%3A%40%24%5B%5D%7B%7D%7C%5E%60%3C%3E%23"),
            ),
        ]);
        check_refused(&[("str(abc),url_enc(path)", "query")]);
    }

    #[test]
    fn decodes() {
        check_all(&[
            ("str(a%20b+c?x+y%20),url_dec", Some("a b+c?x y ")),
            ("str(a+b),url_dec(1)", Some("a b")),
            ("str(a+b),url_dec(0)", Some("a+b")),
            ("str(a+b%3fc+d),url_dec", Some("a+b?c+d")),
            ("str(%E2%82%ac),url_dec,hex", Some("E282AC")),
            ("str(),url_dec", Some("")),
            ("str(a%00b),url_dec,hex", Some("610062")),
            ("str(a%0Db),url_dec,cut_crlf", Some("a")),
            ("str(a%0A%0D),url_dec,cut_crlf", Some("a")),
            ("str(%41%zz),url_dec", None),
            ("str(a%4),url_dec", None),
            ("str(a%),url_dec", None),
        ]);
    }

    proptest! {
        #[test]
        fn what_is_encoded_decodes(bytes: Vec<u8>) {
            let world = World::new(&bytes);
            prop_assert_eq!(world.run("hdr,url_enc,url_dec").unwrap(), Some(bytes.clone()));
            let encoded = world.run("hdr,url_enc").unwrap().unwrap();
            prop_assert!(encoded.iter().all(|c| c.is_ascii_graphic()));
        }
    }
}
