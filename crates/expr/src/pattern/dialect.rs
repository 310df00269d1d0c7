//! Which PCRE patterns mean the same to the `regex` crate, and how to write them for it.
//!
//! Syntax that only PCRE has makes the other engine's parser fail, which is how most of it is found. This module
//! handles what both accept and read differently. One difference stays: `$` is the very end of the data here, while
//! PCRE also accepts it before a final line feed.

/// The pattern as the linear engine must read it; `None` when it needs PCRE.
pub(super) fn for_linear_engine(pattern: &str) -> Option<String> {
    let bytes = pattern.as_bytes();
    let mut out = String::with_capacity(pattern.len() + 8);
    let mut i = 0;
    while i < bytes.len() {
        match bytes[i] {
            b'\\' => match bytes.get(i + 1) {
                // Word boundaries there, plain characters in PCRE.
                Some(c @ (b'<' | b'>')) => {
                    out.push(char::from(*c));
                    i += 2;
                }
                // `\v` is any vertical space in PCRE, `\u` and `\U` are errors there, `\b{` is a new syntax here.
                Some(b'v' | b'u' | b'U' | b'p' | b'P') => return None,
                Some(b'b' | b'B') if bytes.get(i + 2) == Some(&b'{') => return None,
                Some(_) => {
                    let escaped = pattern[i + 1..].chars().next()?;
                    out.push('\\');
                    out.push(escaped);
                    i += 1 + escaped.len_utf8();
                }
                None => return None,
            },
            b'[' => i = class(pattern, i, &mut out)?,
            // Recursion in PCRE, CRLF mode here; and verbs.
            b'(' if bytes[i..].starts_with(b"(?R)") || bytes[i..].starts_with(b"(*") => {
                return None;
            }
            // A literal in the PCRE2 that HAProxy is built with.
            b'{' if bytes.get(i + 1) == Some(&b',') => {
                out.push_str("\\{");
                i += 1;
            }
            _ => {
                let c = pattern[i..].chars().next()?;
                out.push(c);
                i += c.len_utf8();
            }
        }
    }
    Some(out)
}

/// Copies the class that begins at `start`; gives where it ends. Nested classes and set operations do not exist in
/// PCRE: what looks like them is literal.
fn class(pattern: &str, start: usize, out: &mut String) -> Option<usize> {
    let bytes = pattern.as_bytes();
    let mut i = start + 1;
    out.push('[');
    if bytes.get(i) == Some(&b'^') {
        out.push('^');
        i += 1;
    }
    if bytes.get(i) == Some(&b']') {
        out.push_str("\\]");
        i += 1;
    }
    loop {
        match *bytes.get(i)? {
            b']' => {
                out.push(']');
                return Some(i + 1);
            }
            b'[' => match bytes.get(i + 1) {
                Some(b':') => {
                    let end = i + pattern[i..].find(":]")? + 2;
                    out.push_str(&pattern[i..end]);
                    i = end;
                }
                Some(b'.' | b'=') => return None,
                _ => {
                    out.push_str("\\[");
                    i += 1;
                }
            },
            c @ (b'&' | b'~') => {
                out.push('\\');
                out.push(char::from(c));
                i += 1;
            }
            b'-' if bytes.get(i + 1) == Some(&b'-') => {
                // A range to or from a dash: rare enough to leave to the engine it was written for.
                return None;
            }
            b'\\' => {
                let escaped = pattern[i + 1..].chars().next()?;
                if matches!(escaped, 'v' | 'u' | 'U' | 'p' | 'P' | 'b' | '<' | '>') {
                    return None;
                }
                out.push('\\');
                out.push(escaped);
                i += 1 + escaped.len_utf8();
            }
            _ => {
                let c = pattern[i..].chars().next()?;
                if !c.is_ascii() {
                    // Bytes in PCRE, a code point here.
                    return None;
                }
                out.push(c);
                i += 1;
            }
        }
    }
}
