//! Character classes of HTTP/1 and the fast scans built on them.
//!
//! Owns the tables of RFC 9110 section 5.6.2 (token) and RFC 9112 section 3 (request target) as
//! HAProxy reads them, and the word-at-a-time scans of the parser's inner loops.

const TOKEN: u8 = 1;

const CLASSES: [u8; 256] = {
    let mut table = [0u8; 256];
    let mut i = 0;
    while i < 256 {
        let byte = i as u8;
        let symbol = matches!(
            byte,
            b'!' | b'#'
                | b'$'
                | b'%'
                | b'&'
                | b'\''
                | b'*'
                | b'+'
                | b'-'
                | b'.'
                | b'^'
                | b'_'
                | b'`'
                | b'|'
                | b'~'
        );
        if byte.is_ascii_alphanumeric() || symbol {
            table[i] |= TOKEN;
        }
        i += 1;
    }
    table
};

/// Whether `byte` may stand in a token: a method or a header name (RFC 9110 section 5.6.2).
#[inline]
pub const fn is_token_byte(byte: u8) -> bool {
    CLASSES[byte as usize] & TOKEN != 0
}

/// Whether `text` is a non-empty token.
pub fn is_token(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(|&b| is_token_byte(b))
}

/// A space or a tab.
#[inline]
pub const fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

/// Index of the first byte at or after `from` that is no token byte, or the length of `input`.
#[inline]
pub fn skip_token(input: &[u8], from: usize) -> usize {
    let rest = input.get(from..).unwrap_or_default();
    rest.iter()
        .position(|&b| !is_token_byte(b))
        .map_or(input.len(), |n| from + n)
}

/// Index of the first byte at or after `from` that cannot stand in a request target: a blank, a
/// control, `#` (a fragment is not sent), or a byte above 126.
#[inline]
pub fn skip_target(input: &[u8], from: usize) -> usize {
    skip_plain::<0x21, true>(input, from)
}

/// As `skip_target`, letting `#` and the bytes above 127 pass.
#[inline]
pub fn skip_target_relaxed(input: &[u8], from: usize) -> usize {
    skip_plain::<0x21, false>(input, from)
}

/// Index of the first control character (tab included) or DEL at or after `from`.
#[inline]
pub fn skip_text(input: &[u8], from: usize) -> usize {
    skip_plain::<0x20, false>(input, from)
}

/// Index of the first byte below `FLOOR` or equal to DEL, or when `STRICT` equal to `#` or above DEL,
/// eight bytes at a time.
///
/// The classical borrow trick: in `w - k*0x0101…` a byte's top bit rises when it was below `k`,
/// and `!w` drops the bytes that had it already. A borrow only disturbs bytes after a true hit,
/// so the lowest hit, the one taken, is exact.
#[inline(always)]
fn skip_plain<const FLOOR: u8, const STRICT: bool>(input: &[u8], from: usize) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const TOPS: u64 = 0x8080_8080_8080_8080;
    let mut at = from;
    let mut rest = input.get(from..).unwrap_or_default();
    while let Some((word, tail)) = rest.split_first_chunk::<8>() {
        let w = u64::from_le_bytes(*word);
        let zero_of = |v: u64| v.wrapping_sub(ONES) & !v;
        let mut hits = (w.wrapping_sub(ONES * FLOOR as u64) & !w) | zero_of(w ^ (ONES * 0x7f));
        if STRICT {
            hits |= w | zero_of(w ^ (ONES * b'#' as u64));
        }
        hits &= TOPS;
        if hits != 0 {
            return at + (hits.trailing_zeros() / 8) as usize;
        }
        at += 8;
        rest = tail;
    }
    let stops = |b: u8| b < FLOOR || b == 0x7f || (STRICT && (b == b'#' || b >= 0x80));
    rest.iter()
        .position(|&b| stops(b))
        .map_or(input.len(), |n| at + n)
}

/// `text` without leading and trailing spaces and tabs (OWS of RFC 9110 section 5.6.3).
#[inline]
pub fn trim(text: &[u8]) -> &[u8] {
    let start = text
        .iter()
        .position(|&b| !is_blank(b))
        .unwrap_or(text.len());
    let end = text
        .iter()
        .rposition(|&b| !is_blank(b))
        .map_or(start, |n| n + 1);
    text.get(start..end).unwrap_or_default()
}

/// The value of a hexadecimal digit.
#[inline]
pub const fn hex_value(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scans_agree_with_the_byte_by_byte_definition() {
        for stop in 0..=255u8 {
            for at in 0..20 {
                let mut text = vec![b'a'; 20];
                text[at] = stop;
                let target = if stop <= 0x20 || stop >= 0x7f || stop == b'#' {
                    at
                } else {
                    20
                };
                assert_eq!(skip_target(&text, 0), target, "target {stop:#x} at {at}");
                let plain = if stop < 0x20 || stop == 0x7f { at } else { 20 };
                assert_eq!(skip_text(&text, 0), plain, "text {stop:#x} at {at}");
            }
        }
    }

    #[test]
    fn trims_blanks_only() {
        assert_eq!(trim(b" \t a b\t "), b"a b");
        assert_eq!(trim(b" \t "), b"");
        assert_eq!(trim(b""), b"");
    }
}
