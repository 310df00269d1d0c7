//! Fields as JSON values and CBOR items (`+json`, `+cbor`).

use super::text::hex_byte;

/// A field's value for machines.
#[derive(Debug, Clone, Copy)]
pub(super) enum Data<'d> {
    Null,
    Bool(bool),
    Number(i64),
    Text(&'d [u8]),
    Bytes(&'d [u8]),
    List(&'d [Option<Vec<u8>>]),
}

/// Appends a JSON value. Bytes that are not UTF-8 are written as the code points of the same number, so that the
/// result is always JSON.
pub(super) fn json(out: &mut Vec<u8>, data: Data<'_>) {
    match data {
        Data::Null => out.extend_from_slice(b"null"),
        Data::Bool(b) => out.extend_from_slice(if b { b"true" } else { b"false" }),
        Data::Number(n) => super::text::number(out, n),
        Data::Text(s) | Data::Bytes(s) => json_string(out, s),
        Data::List(list) => {
            out.push(b'[');
            for (i, item) in list.iter().enumerate() {
                if i > 0 {
                    out.extend_from_slice(b", ");
                }
                json(out, item.as_deref().map_or(Data::Null, Data::Text));
            }
            out.push(b']');
        }
    }
}

fn json_string(out: &mut Vec<u8>, s: &[u8]) {
    out.push(b'"');
    // Most texts need no escape, which is found out faster than it is done.
    if s.iter()
        .all(|c| matches!(c, b' '..=b'~') && !matches!(c, b'"' | b'\\'))
    {
        out.extend_from_slice(s);
        out.push(b'"');
        return;
    }
    for chunk in s.utf8_chunks() {
        for &c in chunk.valid().as_bytes() {
            match c {
                b'"' | b'\\' => out.extend_from_slice(&[b'\\', c]),
                b'\n' => out.extend_from_slice(b"\\n"),
                b'\r' => out.extend_from_slice(b"\\r"),
                b'\t' => out.extend_from_slice(b"\\t"),
                0..=31 | 127 => escape(out, c),
                _ => out.push(c),
            }
        }
        for &c in chunk.invalid() {
            escape(out, c);
        }
    }
    out.push(b'"');
}

fn escape(out: &mut Vec<u8>, c: u8) {
    out.extend_from_slice(b"\\u00");
    hex_byte(out, c);
}

/// Major types of RFC 8949 section 3.1.
const UNSIGNED: u8 = 0;
const NEGATIVE: u8 = 1;
const BYTES: u8 = 2;
const TEXT: u8 = 3;
const ARRAY: u8 = 4;

/// A map whose length is not told, and what ends it.
pub(super) const MAP_OPEN: u8 = 0xbf;
pub(super) const MAP_CLOSE: u8 = 0xff;

/// Appends a CBOR item as bytes.
pub(super) fn cbor(out: &mut Vec<u8>, data: Data<'_>) {
    match data {
        Data::Null => out.push(0xf6),
        Data::Bool(b) => out.push(0xf4 | u8::from(b)),
        Data::Number(n) if n < 0 => head(out, NEGATIVE, !n as u64),
        Data::Number(n) => head(out, UNSIGNED, n as u64),
        // A text string must be UTF-8; what is not stays bytes.
        Data::Text(s) if std::str::from_utf8(s).is_ok() => {
            head(out, TEXT, s.len() as u64);
            out.extend_from_slice(s);
        }
        Data::Text(s) | Data::Bytes(s) => {
            head(out, BYTES, s.len() as u64);
            out.extend_from_slice(s);
        }
        Data::List(list) => {
            head(out, ARRAY, list.len() as u64);
            for item in list {
                cbor(out, item.as_deref().map_or(Data::Null, Data::Text));
            }
        }
    }
}

fn head(out: &mut Vec<u8>, major: u8, n: u64) {
    let bytes = n.to_be_bytes();
    let major = major << 5;
    match n {
        0..24 => out.push(major | n as u8),
        24..0x100 => out.extend_from_slice(&[major | 24, bytes[7]]),
        0x100..0x1_0000 => {
            out.push(major | 25);
            out.extend_from_slice(&bytes[6..]);
        }
        0x1_0000..0x1_0000_0000 => {
            out.push(major | 26);
            out.extend_from_slice(&bytes[4..]);
        }
        _ => {
            out.push(major | 27);
            out.extend_from_slice(&bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_values() {
        let check = |data, expect: &str| {
            let mut out = Vec::new();
            json(&mut out, data);
            assert_eq!(String::from_utf8(out).unwrap(), expect);
        };
        check(Data::Null, "null");
        check(Data::Bool(true), "true");
        check(Data::Number(-5), "-5");
        check(
            Data::Text(b"a\"b\\\n\x01\x7f\xff\xc3\xa9"),
            r#""a\"b\\\n\u0001\u007F\u00FFé""#,
        );
        check(Data::List(&[Some(b"a".to_vec()), None]), r#"["a", null]"#);
    }

    /// Examples of RFC 8949 appendix A.
    #[test]
    fn cbor_items() {
        let check = |data, expect: &[u8]| {
            let mut out = Vec::new();
            cbor(&mut out, data);
            assert_eq!(out, expect);
        };
        check(Data::Number(0), &[0x00]);
        check(Data::Number(23), &[0x17]);
        check(Data::Number(24), &[0x18, 0x18]);
        check(Data::Number(1000), &[0x19, 0x03, 0xe8]);
        check(Data::Number(1_000_000), &[0x1a, 0x00, 0x0f, 0x42, 0x40]);
        check(
            Data::Number(1_000_000_000_000),
            &[0x1b, 0, 0, 0, 0xe8, 0xd4, 0xa5, 0x10, 0],
        );
        check(Data::Number(-1), &[0x20]);
        check(Data::Number(-1000), &[0x39, 0x03, 0xe7]);
        check(Data::Bool(false), &[0xf4]);
        check(Data::Null, &[0xf6]);
        check(Data::Text(b"IETF"), &[0x64, 0x49, 0x45, 0x54, 0x46]);
        check(Data::Bytes(&[1, 2, 3, 4]), &[0x44, 1, 2, 3, 4]);
        check(Data::Text(&[0xff]), &[0x41, 0xff]);
        check(Data::List(&[None, None]), &[0x82, 0xf6, 0xf6]);
    }
}
