//! The string form of values, as a log-format without flags prints them.

use std::net::{Ipv4Addr, Ipv6Addr};

use sluice_http::Method;

use crate::value::Value;

impl Value<'_> {
    /// Appends the string form, as a log-format without flags prints it: booleans as `0` and `1`, binary as it
    /// is up to its first NUL, addresses as `inet_ntop(3)` writes them.
    pub fn write_text(&self, out: &mut Vec<u8>) {
        match self {
            Value::Bool(b) => out.push(if *b { b'1' } else { b'0' }),
            Value::Sint(i) => write_number(out, *i),
            Value::Ipv4(a) => write_ipv4(out, *a),
            Value::Ipv6(a) => write_ipv6(out, *a),
            Value::Str(s) => out.extend_from_slice(s),
            Value::Bin(s) => out.extend_from_slice(until_nul(s)),
            Value::Meth(m, other) => out.extend_from_slice(method_text(*m, other)),
        }
    }
}

/// The fixed text of a method; `None` for one that carries its own.
pub(crate) fn known_method(m: Method) -> Option<&'static [u8]> {
    match m {
        Method::Other => None,
        known => Some(known.as_str().as_bytes()),
    }
}

pub(crate) fn method_text(m: Method, other: &[u8]) -> &[u8] {
    known_method(m).unwrap_or(other)
}

/// A decimal number.
pub(crate) fn write_number(out: &mut Vec<u8>, n: i64) {
    if let Ok(small @ 0..10) = u8::try_from(n) {
        return out.push(b'0' + small);
    }
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    let mut rest = n.unsigned_abs();
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if n < 0 {
        at -= 1;
        digits[at] = b'-';
    }
    out.extend_from_slice(&digits[at..]);
}

/// Dotted quad.
pub(crate) fn write_ipv4(out: &mut Vec<u8>, a: Ipv4Addr) {
    // made at the front of what is appended at once
    let mut text = [b'.'; 16];
    let mut at = 0;
    for octet in a.octets() {
        let digits = [octet / 100, octet / 10 % 10, octet % 10].map(|d| b'0' + d);
        let skipped = usize::from(octet < 100) + usize::from(octet < 10);
        for digit in &digits[skipped..] {
            text[at] = *digit;
            at += 1;
        }
        at += 1;
    }
    out.extend_from_slice(&text[..at - 1]);
}

fn write_display(out: &mut Vec<u8>, it: impl std::fmt::Display) {
    use std::io::Write;
    // Writing to a Vec cannot fail.
    let _ = write!(out, "{it}");
}

/// `inet_ntop(3)` writes IPv4-compatible addresses (`::192.0.2.1`) with a dotted quad, which Rust does not.
pub(crate) fn write_ipv6(out: &mut Vec<u8>, a: Ipv6Addr) {
    match a.segments() {
        [0, 0, 0, 0, 0, 0, high, low] if high != 0 => {
            let v4 = Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low));
            write_display(out, format_args!("::{v4}"));
        }
        _ => write_display(out, a),
    }
}

/// What a binary value shows as text: its bytes up to the first NUL.
pub(crate) fn until_nul(s: &[u8]) -> &[u8] {
    memchr::memchr(0, s).map_or(s, |end| &s[..end])
}

/// Upper case hexadecimal, two digits a byte.
pub fn write_hex(out: &mut Vec<u8>, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    out.reserve(bytes.len() * 2);
    for b in bytes {
        out.push(DIGITS[usize::from(b >> 4)]);
        out.push(DIGITS[usize::from(b & 15)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(value: Value<'_>) -> String {
        let mut out = Vec::new();
        value.write_text(&mut out);
        String::from_utf8_lossy(&out).into_owned()
    }

    #[test]
    fn addresses_are_written_as_inet_ntop_does() {
        for (address, want) in [
            ("::1.2.3.4", "::1.2.3.4"),
            ("::ffff:1.2.3.4", "::ffff:1.2.3.4"),
            ("::1", "::1"),
            ("::", "::"),
            ("::1:0", "::0.1.0.0"),
            ("1:0:0:2:0:0:0:3", "1:0:0:2::3"),
            ("1:0:2:3:4:5:6:7", "1:0:2:3:4:5:6:7"),
        ] {
            assert_eq!(
                text(Value::Ipv6(address.parse().expect("an address"))),
                want
            );
        }
    }

    #[test]
    fn every_type_has_a_text() {
        assert_eq!(text(Value::Bool(true)), "1");
        assert_eq!(text(Value::Sint(i64::MIN)), "-9223372036854775808");
        assert_eq!(text(Value::Ipv4([192, 0, 2, 1].into())), "192.0.2.1");
        assert_eq!(text(Value::Bin(b"A\0B"[..].into())), "A");
        assert_eq!(text(Value::Meth(Method::Get, b"GET"[..].into())), "GET");
        assert_eq!(
            text(Value::Meth(Method::Other, b"patch"[..].into())),
            "patch"
        );
    }

    #[test]
    fn hexadecimal_is_in_upper_case() {
        let mut out = Vec::new();
        write_hex(&mut out, b"\x00\xfe\x1a");
        assert_eq!(out, b"00FE1A");
    }
}
