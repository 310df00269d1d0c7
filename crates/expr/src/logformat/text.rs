//! How bytes are written: numbers, quoting, and the escapes of logs (manual chapter 8.6), of structured data (RFC 5424
//! section 6.3.3) and of HTTP header values.
pub(super) use crate::text::write_number as number;

/// Characters that are written as `#XX` in a log besides those that cannot be printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Map {
    /// Request lines: `"` and `#`.
    Url,
    /// Captured headers: `"`, `#`, `{`, `|` and `}`.
    Header,
}

impl Map {
    const fn has(self, c: u8) -> bool {
        match c {
            b'"' | b'#' => true,
            b'{' | b'|' | b'}' => matches!(self, Map::Header),
            _ => c < 32 || c >= 127,
        }
    }

    /// The same for all characters, for texts to be looked through quickly.
    fn table(self) -> &'static [bool; 256] {
        const fn of(map: Map) -> [bool; 256] {
            let mut table = [false; 256];
            let mut c = 0;
            while c < 256 {
                table[c] = map.has(c as u8);
                c += 1;
            }
            table
        }
        static URL: [bool; 256] = of(Map::Url);
        static HEADER: [bool; 256] = of(Map::Header);
        match self {
            Map::Url => &URL,
            Map::Header => &HEADER,
        }
    }
}

/// What RFC 5424 escapes in structured data.
fn needs_backslash(c: u8) -> bool {
    matches!(c, b'"' | b'\\' | b']')
}

const HEX: &[u8; 16] = b"0123456789ABCDEF";

pub(super) fn hex_byte(out: &mut Vec<u8>, c: u8) {
    out.push(HEX[usize::from(c >> 4)]);
    out.push(HEX[usize::from(c & 15)]);
}

/// Upper case hexadecimal of at least `width` digits.
pub(super) fn hex_number(out: &mut Vec<u8>, n: u64, width: usize) {
    let digits = (64 - n.leading_zeros() as usize).div_ceil(4).max(width);
    for i in (0..digits).rev() {
        let nibble = n.checked_shr(4 * i as u32).unwrap_or(0) & 15;
        out.push(HEX[nibble as usize]);
    }
}

/// Text of a log: nothing from a NUL on, which ends a line for every receiver of logs.
pub(super) fn until_nul(s: &[u8]) -> &[u8] {
    match memchr::memchr(0, s) {
        Some(at) => &s[..at],
        None => s,
    }
}

/// As it is, or with backslashes (`+E`).
pub(super) fn plain(out: &mut Vec<u8>, s: &[u8], escape: bool) {
    if !escape {
        out.extend_from_slice(s);
        return;
    }
    for &c in s {
        if needs_backslash(c) {
            out.push(b'\\');
        }
        out.push(c);
    }
}

/// With `#XX` for what could disturb a log.
pub(super) fn mapped(out: &mut Vec<u8>, mut s: &[u8], map: Map, escape: bool) {
    let table = map.table();
    // what needs nothing is copied as a whole, and is mostly all there is
    while let Some(at) = s.iter().position(|c| table[usize::from(*c)]) {
        plain(out, &s[..at], escape);
        out.push(b'#');
        hex_byte(out, s[at]);
        s = &s[at + 1..];
    }
    plain(out, s, escape);
}

/// With `%XX` for what a header value must not contain: control characters but the tab (RFC 9110 section 5.5).
pub(super) fn http(out: &mut Vec<u8>, s: &[u8], escape: bool) {
    for &c in s {
        if matches!(c, 0..=8 | 10..=31 | 127) {
            out.push(b'%');
            hex_byte(out, c);
        } else {
            if escape && needs_backslash(c) {
                out.push(b'\\');
            }
            out.push(c);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(f: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        f(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn numbers() {
        for n in [0, 1, -1, 10, 255, i64::MAX, i64::MIN] {
            assert_eq!(text(|out| number(out, n)), n.to_string());
        }
        assert_eq!(text(|out| hex_number(out, 0x0c31, 4)), "0C31");
        assert_eq!(text(|out| hex_number(out, 0, 4)), "0000");
        assert_eq!(text(|out| hex_number(out, 0x17b, 2)), "17B");
        assert_eq!(text(|out| hex_number(out, u64::MAX, 4)), "FFFFFFFFFFFFFFFF");
    }

    #[test]
    fn escapes() {
        let s = "ex|a{}#\"\\]\té".as_bytes();
        assert_eq!(
            text(|out| mapped(out, s, Map::Header, false)),
            r"ex#7Ca#7B#7D#23#22\]#09#C3#A9"
        );
        assert_eq!(
            text(|out| mapped(out, s, Map::Url, true)),
            r"ex|a{}#23#22\\\]#09#C3#A9"
        );
        assert_eq!(
            text(|out| http(out, b"a\"]\t\x01\x7f", false)),
            "a\"]\t%01%7F"
        );
        assert_eq!(text(|out| plain(out, b"a\"]\\", true)), r#"a\"\]\\"#);
        assert_eq!(until_nul(b"ab\0c"), b"ab");
    }
}
