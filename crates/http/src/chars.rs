//! Character classes of HTTP/1 and the fast scans built on them.
//!
//! Owns the classes of RFC 9110 section 5.6.2 (token) and RFC 9112 section 3 (request target) as
//! HAProxy reads them, and the scans that the parser's inner loops are.

const TOKEN: [bool; 256] = {
    let mut table = [false; 256];
    let mut i = 0;
    while i < 256 {
        let byte = i as u8;
        table[i] = byte.is_ascii_alphanumeric()
            || matches!(byte, b'!' | b'#'..=b'\'' | b'*' | b'+' | b'-' | b'.' | b'^'..=b'`' | b'|' | b'~');
        i += 1;
    }
    table
};

/// Whether `byte` may stand in a token: a method or a header name (RFC 9110 section 5.6.2).
#[inline]
pub const fn is_token_byte(byte: u8) -> bool {
    TOKEN[byte as usize]
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
    skip_until(input, from, |b| !(0x21..=0x7e).contains(&b) | (b == b'#'))
}

/// As `skip_target`, letting `#` and the bytes above 127 pass.
#[inline]
pub fn skip_target_relaxed(input: &[u8], from: usize) -> usize {
    skip_until(input, from, |b| (b < 0x21) | (b == 0x7f))
}

/// Index of the first control character (tab included) or DEL at or after `from`.
#[inline]
pub fn skip_text(input: &[u8], from: usize) -> usize {
    skip_until(input, from, |b| (b < 0x20) | (b == 0x7f))
}

/// Index of the first byte at or after `from` for which `stop` holds, or the length of `input`.
///
/// `stop` has to be branchless arithmetic: over an array of sixteen the compiler makes vector
/// instructions of it, on every processor, without a line of unsafe code. Half the cost of a head
/// is in here.
#[inline(always)]
fn skip_until(input: &[u8], from: usize, stop: impl Fn(u8) -> bool) -> usize {
    let mut at = from;
    let mut rest = input.get(from..).unwrap_or_default();
    while let Some((block, tail)) = rest.split_first_chunk::<16>() {
        if block.iter().fold(false, |found, &b| found | stop(b)) {
            let marks: [u8; 16] = block.map(|b| if stop(b) { 0xff } else { 0 });
            return at + (u128::from_le_bytes(marks).trailing_zeros() / 8) as usize;
        }
        at += 16;
        rest = tail;
    }
    rest.iter()
        .position(|&b| stop(b))
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

/// Index of the first byte that is one of two. Most texts of a message are short: eight bytes at a time are done before
/// a vector search has begun.
#[inline]
pub fn find_either(a: u8, b: u8, text: &[u8]) -> Option<usize> {
    const SHORT: usize = 64;
    const EACH: u64 = 0x0101_0101_0101_0101;
    if text.len() > SHORT {
        return memchr::memchr2(a, b, text);
    }
    // the high bit of the first byte that is zero, perhaps of some behind it
    let zeros = |x: u64| x.wrapping_sub(EACH) & !x & (EACH << 7);
    let found = |word: &[u8; 8]| {
        let word = u64::from_le_bytes(*word);
        let hits = zeros(word ^ (EACH * u64::from(a))) | zeros(word ^ (EACH * u64::from(b)));
        (hits != 0).then(|| hits.trailing_zeros() as usize / 8)
    };
    for (i, word) in text.as_chunks::<8>().0.iter().enumerate() {
        if let Some(at) = found(word) {
            return Some(i * 8 + at);
        }
    }
    match text.last_chunk::<8>() {
        // some of these were looked at before
        Some(last) => found(last).map(|at| text.len() - 8 + at),
        None => text.iter().position(|c| *c == a || *c == b),
    }
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
            for at in 0..40 {
                let mut text = vec![b'a'; 40];
                text[at] = stop;
                let target = if stop <= 0x20 || stop >= 0x7f || stop == b'#' {
                    at
                } else {
                    40
                };
                assert_eq!(skip_target(&text, 0), target, "target {stop:#x} at {at}");
                let plain = if stop < 0x20 || stop == 0x7f { at } else { 40 };
                assert_eq!(skip_text(&text, 0), plain, "text {stop:#x} at {at}");
            }
        }
    }

    #[test]
    fn either_of_two_bytes_is_found_first() {
        for len in 0..80 {
            for at in 0..=len {
                // what lies around a hit must not be taken for one
                let mut text = vec![b'-'; len];
                if let Some(byte) = text.get_mut(at) {
                    *byte = b',';
                }
                if let Some(byte) = text.get_mut(at + 1) {
                    *byte = b'"';
                }
                let want = (at < len).then_some(at);
                assert_eq!(find_either(b',', b'"', &text), want, "{at} of {len}");
                assert_eq!(find_either(b'"', b',', &text), want, "{at} of {len}");
            }
        }
    }

    #[test]
    fn tokens_are_those_of_the_rfc() {
        let symbols = b"!#$%&'*+-.^_`|~";
        for byte in 0..=255u8 {
            let token = byte.is_ascii_alphanumeric() || symbols.contains(&byte);
            assert_eq!(is_token_byte(byte), token, "{byte:#x}");
            assert_eq!(is_token(&[b'a', byte]), token);
            assert_eq!(
                skip_token(&[b'a', byte, b':'], 0),
                if token { 2 } else { 1 }
            );
        }
        assert!(!is_token(b""));
    }

    #[test]
    fn trims_blanks_only() {
        assert_eq!(trim(b" \t a b\t "), b"a b");
        assert_eq!(trim(b" \t "), b"");
        assert_eq!(trim(b""), b"");
    }
}
