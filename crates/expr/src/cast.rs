//! Casts between sample types (manual chapter 7.3), as HAProxy's matrix has them.
//!
//! A cast never copies what it can keep: a string taken as bytes stays the string it was, so that
//! `str(abc),bytes(0,2)` prints `ab` and not its hexadecimal form.

use std::borrow::Cow;
use std::net::{Ipv4Addr, Ipv6Addr};

use sluice_http::Method;

use crate::text::{known_method, until_nul};
use crate::value::{Type, Value};

/// Whether a value known to be of type `from` when the configuration loads may be used where `to` is expected. The
/// cast itself can still fail for a given value (a string that is no number).
pub fn castable(from: Type, to: Type) -> bool {
    use Type::*;
    match (from, to) {
        (_, Any | Same) | (Any | Same, _) => true,
        (Bool, Bool | Sint | Str | Bin) => true,
        (Sint, Bool | Sint | Addr | Ipv4 | Ipv6 | Str | Bin) => true,
        // Known only when it runs: whatever one of the two families can become.
        (Addr | Ipv4, Sint | Addr | Ipv4 | Ipv6 | Str | Bin) => true,
        (Ipv6, Addr | Ipv4 | Ipv6 | Str | Bin) => true,
        (Str, _) => true,
        (Bin, Str | Bin | Meth) => true,
        (Meth, Str | Bin | Meth) => true,
        _ => false,
    }
}

impl<'a> Value<'a> {
    /// Casts the value to `to`; `None` when this value has no such form.
    ///
    /// `Any`, `Same` and, for an address, `Addr` keep the value. A string asked for as binary stays a [`Value::Str`]
    /// (and the reverse of a converter's result is not undone): use [`Value::bytes`] to read either.
    pub fn cast(self, to: Type) -> Option<Value<'a>> {
        use Type::*;
        Some(match (self, to) {
            (v, Any | Same) => v,
            (v @ Value::Bool(_), Bool) => v,
            (Value::Bool(b), Sint) => Value::Sint(i64::from(b)),
            (Value::Bool(b), Bin) => Value::Bin(Cow::Owned(i64::from(b).to_be_bytes().to_vec())),
            (Value::Bool(b), Str) => Value::Str(Cow::Borrowed(if b { b"1" } else { b"0" })),

            (v @ Value::Sint(_), Sint) => v,
            (Value::Sint(i), Bool) => Value::Bool(i != 0),
            (Value::Sint(i), Addr | Ipv4) => Value::Ipv4(Ipv4Addr::from_bits(i as u32)),
            (Value::Sint(i), Ipv6) => Value::Ipv6(Ipv4Addr::from_bits(i as u32).to_ipv6_mapped()),
            (Value::Sint(i), Bin) => Value::Bin(Cow::Owned(i.to_be_bytes().to_vec())),

            (v @ Value::Ipv4(_), Addr | Ipv4) => v,
            (Value::Ipv4(a), Sint) => Value::Sint(i64::from(a.to_bits())),
            (Value::Ipv4(a), Ipv6) => Value::Ipv6(a.to_ipv6_mapped()),
            (Value::Ipv4(a), Bin) => Value::Bin(Cow::Owned(a.octets().to_vec())),

            (v @ Value::Ipv6(_), Addr | Ipv6) => v,
            (Value::Ipv6(a), Ipv4) => Value::Ipv4(ipv6_to_ipv4(a)?),
            (Value::Ipv6(a), Bin) => Value::Bin(Cow::Owned(a.octets().to_vec())),

            (v @ Value::Str(_), Str | Bin) => v,
            (Value::Str(s), Sint) => Value::Sint(leading_int(&s)?),
            (Value::Str(s), Bool) => Value::Bool(leading_int(&s)? != 0),
            (Value::Str(s), Ipv4) => Value::Ipv4(leading_ipv4(&s)?.0),
            (Value::Str(s), Ipv6) => Value::Ipv6(parse_ipv6(&s)?),
            (Value::Str(s), Addr) => match leading_ipv4(&s) {
                Some((a, _)) => Value::Ipv4(a),
                None => Value::Ipv6(parse_ipv6(&s)?),
            },
            (Value::Str(s) | Value::Bin(s), Meth) => Value::Meth(Method::from_bytes(&s), s),

            (v @ Value::Bin(_), Bin) => v,
            (v @ Value::Meth(..), Meth) => v,
            (Value::Meth(m, other), Str | Bin) => match known_method(m) {
                Some(name) => Value::Str(Cow::Borrowed(name)),
                None => Value::Str(other),
            },
            (Value::Bin(Cow::Borrowed(s)), Str) => Value::Str(Cow::Borrowed(until_nul(s))),
            (Value::Bin(Cow::Owned(mut s)), Str) => {
                s.truncate(until_nul(&s).len());
                Value::Str(Cow::Owned(s))
            }
            (v @ (Value::Sint(_) | Value::Ipv4(_) | Value::Ipv6(_)), Str) => {
                let mut text = Vec::new();
                v.write_text(&mut text);
                Value::Str(Cow::Owned(text))
            }
            _ => return None,
        })
    }
}

/// The number a text begins with: a sign, then digits up to the first other byte (none read as 0), saturating. An
/// empty text is no number.
pub fn leading_int(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [] => return None,
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    let mut n: i64 = 0;
    for digit in digits.iter().take_while(|b| b.is_ascii_digit()) {
        let digit = i64::from(digit - b'0');
        n = n.saturating_mul(10);
        n = if negative {
            n.saturating_sub(digit)
        } else {
            n.saturating_add(digit)
        };
    }
    Some(n)
}

/// The dotted quad a text begins with, and what follows it: anything but another digit or dot (`1.2.3.4:80`). Numbers
/// may have leading zeros, which do not make them octal.
pub fn leading_ipv4(text: &[u8]) -> Option<(Ipv4Addr, &[u8])> {
    let mut octets = [0u8; 4];
    let mut rest = text;
    for (i, octet) in octets.iter_mut().enumerate() {
        if i > 0 {
            rest = rest.strip_prefix(b".")?;
        }
        let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
        let (number, after) = rest.split_at(digits);
        let mut sum: Option<u8> = (digits > 0).then_some(0);
        for digit in number {
            sum = sum?.checked_mul(10)?.checked_add(digit - b'0');
        }
        *octet = sum?;
        rest = after;
    }
    (!rest.starts_with(b".")).then_some((Ipv4Addr::from(octets), rest))
}

/// A dotted quad and nothing else.
pub fn parse_ipv4(text: &[u8]) -> Option<Ipv4Addr> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// An IPv6 address without brackets or scope.
pub fn parse_ipv6(text: &[u8]) -> Option<Ipv6Addr> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// The IPv4 address inside an IPv4-mapped (`::ffff:a.b.c.d`) one.
fn ipv6_to_ipv4(a: Ipv6Addr) -> Option<Ipv4Addr> {
    a.to_ipv4_mapped()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(value: Value<'_>) -> String {
        let mut out = Vec::new();
        value.write_text(&mut out);
        String::from_utf8_lossy(&out).into_owned()
    }

    fn string(s: &str) -> Value<'_> {
        Value::Str(Cow::Borrowed(s.as_bytes()))
    }

    fn bin(b: &[u8]) -> Value<'_> {
        Value::Bin(Cow::Borrowed(b))
    }

    fn ip(s: &str) -> Value<'static> {
        match s.parse().expect("an address") {
            std::net::IpAddr::V4(a) => Value::Ipv4(a),
            std::net::IpAddr::V6(a) => Value::Ipv6(a),
        }
    }

    fn meth(s: &str) -> Value<'_> {
        Value::Meth(
            Method::from_bytes(s.as_bytes()),
            Cow::Borrowed(s.as_bytes()),
        )
    }

    /// What HAProxy 2.6 stored in stick tables of each type for a tracked expression.
    #[test]
    fn casts_are_haproxys() {
        let check = |from: Value<'static>, to: Type, want: Option<Value<'static>>| {
            assert_eq!(from.clone().cast(to), want, "{from:?} to {to:?}");
        };
        check(ip("::ffff:1.2.3.4"), Type::Ipv4, Some(ip("1.2.3.4")));
        for other in [
            "::1.2.3.4",
            "::1",
            "2002:102:304::",
            "64:ff9b::1.2.3.4",
            "::",
        ] {
            check(ip(other), Type::Ipv4, None);
        }
        check(Value::Sint(16_909_060), Type::Ipv4, Some(ip("1.2.3.4")));
        check(Value::Sint(-1), Type::Addr, Some(ip("255.255.255.255")));
        check(Value::Sint(1), Type::Ipv6, Some(ip("::ffff:0.0.0.1")));
        check(string("1.2.3.4"), Type::Ipv4, Some(ip("1.2.3.4")));
        check(string("1.2.3.4"), Type::Ipv6, None);
        check(string("::1"), Type::Ipv6, Some(ip("::1")));
        check(string("::1"), Type::Addr, Some(ip("::1")));
        check(string("[::1]"), Type::Ipv6, None);
        check(ip("1.2.3.4"), Type::Ipv6, Some(ip("::ffff:1.2.3.4")));
        check(ip("1.2.3.4"), Type::Sint, Some(Value::Sint(16_909_060)));
        check(string("12x"), Type::Sint, Some(Value::Sint(12)));
        check(string(""), Type::Sint, None);
        check(string("0"), Type::Bool, Some(Value::Bool(false)));
        check(Value::Bool(true), Type::Sint, Some(Value::Sint(1)));
        check(Value::Bool(false), Type::Str, Some(string("0")));
        check(Value::Sint(-5), Type::Str, Some(string("-5")));
        check(
            Value::Sint(-5),
            Type::Bin,
            Some(bin(b"\xff\xff\xff\xff\xff\xff\xff\xfb")),
        );
        check(
            Value::Bool(true),
            Type::Bin,
            Some(bin(b"\0\0\0\0\0\0\0\x01")),
        );
        check(ip("1.2.3.4"), Type::Bin, Some(bin(b"\x01\x02\x03\x04")));
        check(bin(b"A\0BC"), Type::Str, Some(string("A")));
        check(string("abc"), Type::Bin, Some(string("abc")));
        check(meth("GET"), Type::Str, Some(string("GET")));
        check(meth("foo"), Type::Bin, Some(string("foo")));
        check(string("PUT"), Type::Meth, Some(meth("PUT")));
        check(bin(b"\x01\x02\x03\x04"), Type::Ipv4, None);
        check(meth("GET"), Type::Sint, None);
        check(ip("::1"), Type::Sint, None);
        check(Value::Bool(true), Type::Addr, None);
    }

    #[test]
    fn a_text_may_begin_with_an_ipv4_address() {
        let check = |text: &str, want: Option<(&str, &str)>| {
            let want = want.map(|(a, rest)| (a.parse().expect("an address"), rest.as_bytes()));
            assert_eq!(leading_ipv4(text.as_bytes()), want, "{text}");
        };
        check("1.2.3.4", Some(("1.2.3.4", "")));
        check("1.2.3.4x", Some(("1.2.3.4", "x")));
        check("1.2.3.4:80", Some(("1.2.3.4", ":80")));
        check("1.2.3.4 ", Some(("1.2.3.4", " ")));
        check("01.2.3.04", Some(("1.2.3.4", "")));
        check("1.2.3.4::", Some(("1.2.3.4", "::")));
        for other in [
            "1.2.3",
            "1.2.3.",
            "1.2.3.4.5",
            "1.2.3.4.",
            "1.2.3.256",
            "1..2.3",
            " 1.2.3.4",
            "1.2.3x",
            "",
        ] {
            check(other, None);
        }
    }

    #[test]
    fn the_matrix_promises_what_casts_keep() {
        let samples = [
            Value::Bool(true),
            Value::Sint(1),
            ip("1.2.3.4"),
            ip("::ffff:1.2.3.4"),
            string("1"),
            bin(b"x"),
            meth("GET"),
        ];
        let types = [
            Type::Any,
            Type::Bool,
            Type::Sint,
            Type::Addr,
            Type::Ipv4,
            Type::Ipv6,
            Type::Str,
            Type::Bin,
            Type::Meth,
        ];
        for value in samples {
            for to in types {
                let promised = castable(value.type_of(), to);
                let kept = value.clone().cast(to).is_some();
                // Only of a string does it depend on the value.
                let depends = matches!(
                    (value.type_of(), to),
                    (Type::Str, Type::Addr | Type::Ipv4 | Type::Ipv6)
                );
                assert!(
                    promised == kept || depends && promised,
                    "{value:?} to {to:?}"
                );
            }
        }
    }

    proptest! {
        /// Against big integers: the digits a text begins with, held to 64 bits.
        #[test]
        fn leading_integers_saturate(sign in "[-+]?", digits in "[0-9]{0,25}", rest in "([^0-9].*)?") {
            let text = format!("{sign}{digits}{rest}");
            let magnitude: f64 = digits.parse().unwrap_or(0.0);
            let exact: i128 = digits.parse().unwrap_or(0);
            let exact = if sign == "-" { -exact } else { exact };
            // A text that begins with its sign in `rest` is read with it.
            prop_assume!(!(sign.is_empty() && digits.is_empty()));
            let want = exact.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
            prop_assert!(magnitude < 1e26);
            prop_assert_eq!(leading_int(text.as_bytes()), Some(want));
        }

        #[test]
        fn integers_come_back_from_their_text(n: i64) {
            let shown = text(Value::Sint(n));
            prop_assert_eq!(string(&shown).cast(Type::Sint), Some(Value::Sint(n)));
        }

        #[test]
        fn addresses_come_back_from_their_text(four: u32, six: u128) {
            let (four, six) = (Value::Ipv4(four.into()), Value::Ipv6(six.into()));
            let (shown_four, shown_six) = (text(four.clone()), text(six.clone()));
            prop_assert_eq!(string(&shown_four).cast(Type::Addr), Some(four));
            prop_assert_eq!(string(&shown_six).cast(Type::Ipv6), Some(six));
        }

        #[test]
        fn ipv4_survives_ipv6_and_integers(n: u32) {
            let a = Value::Ipv4(n.into());
            prop_assert_eq!(a.clone().cast(Type::Ipv6).and_then(|v| v.cast(Type::Ipv4)), Some(a.clone()));
            prop_assert_eq!(a.clone().cast(Type::Sint), Some(Value::Sint(n.into())));
            prop_assert_eq!(Value::Sint(n.into()).cast(Type::Ipv4), Some(a));
        }

        #[test]
        fn leading_addresses_agree_with_std(text in "[0-9]{1,3}(\\.[0-9]{1,3}){2,4}") {
            let octets: Vec<&str> = text.split('.').collect();
            let parsed: Option<Vec<u8>> = octets.iter().map(|o| o.parse().ok()).collect();
            let want = parsed.and_then(|o| <[u8; 4]>::try_from(o).ok()).map(Ipv4Addr::from);
            prop_assert_eq!(leading_ipv4(text.as_bytes()).map(|(a, _)| a), want);
        }

        #[test]
        fn no_cast_changes_a_type_it_does_not_promise(bytes: Vec<u8>, n: i64) {
            for value in [Value::Str(bytes.clone().into()), Value::Bin(bytes.clone().into()), Value::Sint(n)] {
                for to in [Type::Bool, Type::Sint, Type::Addr, Type::Ipv4, Type::Ipv6, Type::Str, Type::Bin, Type::Meth] {
                    if value.clone().cast(to).is_some() {
                        prop_assert!(castable(value.type_of(), to));
                    }
                }
            }
        }
    }
}
