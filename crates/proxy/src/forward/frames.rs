//! Log messages in a stream of bytes (RFC 6587): each behind its length in octets, or each a line.

/// What stands first in the bytes.
#[derive(Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// A message, and how many bytes it took.
    Message(&'a [u8], usize),
    /// Only a part of one.
    Partial,
    /// None: where the next message begins is not known any more.
    Broken,
}

/// Digits that a length may have.
const LENGTH_DIGITS: usize = 10;

/// Looks for the next message. `lines_only`: it is a line, whatever it begins with. `most`: bytes a message may have.
pub fn next(bytes: &[u8], lines_only: bool, most: usize) -> Frame<'_> {
    match bytes.first() {
        None => Frame::Partial,
        Some(b'1'..=b'9') if !lines_only => counted(bytes, most),
        Some(b'<') => line(bytes, most),
        Some(_) if lines_only => line(bytes, most),
        Some(_) => Frame::Broken,
    }
}

fn counted(bytes: &[u8], most: usize) -> Frame<'_> {
    let Some(digits) = bytes.iter().position(|b| !b.is_ascii_digit()) else {
        return match bytes.len() <= LENGTH_DIGITS {
            true => Frame::Partial,
            false => Frame::Broken,
        };
    };
    let length = std::str::from_utf8(&bytes[..digits]);
    let length = length.ok().and_then(|text| text.parse::<usize>().ok());
    let Some(length) = length.filter(|n| *n <= most && bytes[digits] == b' ') else {
        return Frame::Broken;
    };
    let end = digits + 1 + length;
    match bytes.get(digits + 1..end) {
        Some(message) => Frame::Message(message, end),
        None => Frame::Partial,
    }
}

fn line(bytes: &[u8], most: usize) -> Frame<'_> {
    match bytes.iter().position(|b| *b == b'\n') {
        Some(end) => {
            let message = &bytes[..end];
            Frame::Message(message.strip_suffix(b"\r").unwrap_or(message), end + 1)
        }
        None if bytes.len() >= most => Frame::Broken,
        None => Frame::Partial,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_found() {
        let check = |bytes: &str, lines_only, expect| {
            assert_eq!(next(bytes.as_bytes(), lines_only, 16), expect, "{bytes}");
        };
        check("", false, Frame::Partial);
        check("7 <13>abc7 ", false, Frame::Message(b"<13>abc", 9));
        check("7 <13>ab", false, Frame::Partial);
        check("123", false, Frame::Partial);
        check("12345678901", false, Frame::Broken);
        check("17 x", false, Frame::Broken);
        check("7<13>abc", false, Frame::Broken);
        check("0 x", false, Frame::Broken);
        check("x\n", false, Frame::Broken);
        check("<13>a\r\n<", false, Frame::Message(b"<13>a", 7));
        check("<13>a", false, Frame::Partial);
        check("<13>abcdefghijklmnop", false, Frame::Broken);
        check("7 x\n", true, Frame::Message(b"7 x", 4));
        check("\n", true, Frame::Message(b"", 1));
    }
}
