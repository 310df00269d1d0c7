//! Regular expressions over bytes, and the `\1` templates that use what they captured.
//!
//! Patterns are written for PCRE, HAProxy's engine. Most mean the same to the `regex` crate, which is linear in its
//! input and runs them; the others (look-around, back-references, atomic groups...) fall back to PCRE2.
//! [`dialect`](super::dialect) tells them apart.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use super::dialect;

/// Groups a template can name: `\0` (the whole match) to `\9`.
pub const GROUPS: usize = 10;

/// A compiled regular expression. Cheap to clone.
#[derive(Clone)]
pub struct Regex {
    engine: Engine,
    source: Arc<str>,
    ignore_case: bool,
}

#[derive(Clone)]
enum Engine {
    Linear(regex::bytes::Regex),
    Pcre(Arc<pcre2::bytes::Regex>),
}

/// What one match captured. Make one and use it again: it keeps its buffers.
#[derive(Default)]
pub struct Captures {
    groups: [Option<(usize, usize)>; GROUPS],
    /// Scratch of the engine that used it last.
    scratch: Scratch,
}

#[derive(Default)]
enum Scratch {
    #[default]
    None,
    Linear(Arc<str>, regex::bytes::CaptureLocations),
    Pcre(Arc<str>, pcre2::bytes::CaptureLocations),
}

impl Captures {
    pub fn new() -> Self {
        Captures::default()
    }

    /// The bytes a group took part with; `None` when it did not.
    pub fn group(&self, index: usize) -> Option<Range<usize>> {
        let (start, end) = (*self.groups.get(index)?)?;
        Some(start..end)
    }
}

impl Regex {
    /// Compiles a pattern; the error is one line that says what is wrong with it.
    pub fn new(pattern: &str, ignore_case: bool) -> Result<Regex, String> {
        let source: Arc<str> = pattern.into();
        if let Some(translated) = dialect::for_linear_engine(pattern) {
            let built = regex::bytes::RegexBuilder::new(&translated)
                .unicode(false)
                .case_insensitive(ignore_case)
                .build();
            if let Ok(regex) = built {
                return Ok(Regex {
                    engine: Engine::Linear(regex),
                    source,
                    ignore_case,
                });
            }
        }
        let pcre = pcre2::bytes::RegexBuilder::new()
            .caseless(ignore_case)
            .jit_if_available(true)
            .build(pattern)
            .map_err(|e| {
                let at = e
                    .offset()
                    .map_or(String::new(), |o| format!(" at offset {o}"));
                let why = e.to_string();
                let why = why.rsplit(": ").next().unwrap_or(&why);
                format!("regex '{pattern}' is invalid: {why}{at}")
            })?;
        Ok(Regex {
            engine: Engine::Pcre(Arc::new(pcre)),
            source,
            ignore_case,
        })
    }

    /// The pattern as written.
    pub fn as_str(&self) -> &str {
        &self.source
    }

    pub fn ignores_case(&self) -> bool {
        self.ignore_case
    }

    /// Whether it runs on the engine whose time is linear in its input.
    pub fn is_linear(&self) -> bool {
        matches!(self.engine, Engine::Linear(_))
    }

    pub fn is_match(&self, text: &[u8]) -> bool {
        match &self.engine {
            Engine::Linear(r) => r.is_match(text),
            // PCRE2 gives up on patterns that backtrack too much: no match, as for HAProxy.
            Engine::Pcre(r) => r.is_match(text).unwrap_or(false),
        }
    }

    /// Where the first match from an offset on is; see [`Regex::captures_at`].
    pub fn find_at(&self, text: &[u8], start: usize) -> Option<Range<usize>> {
        if start > text.len() {
            return None;
        }
        match &self.engine {
            Engine::Linear(r) => r.find_at(text, start).map(|m| m.range()),
            Engine::Pcre(r) => r.find_at(text, start).ok()?.map(|m| m.start()..m.end()),
        }
    }

    /// Finds the first match and notes its groups; false, and nothing captured, when there is none.
    pub fn captures(&self, text: &[u8], into: &mut Captures) -> bool {
        self.captures_at(text, 0, into)
    }

    /// The same from an offset on; what stands before it is seen by look-behind and is no beginning of the text.
    pub fn captures_at(&self, text: &[u8], start: usize, into: &mut Captures) -> bool {
        if start > text.len() {
            return false;
        }
        into.groups = [None; GROUPS];
        match &self.engine {
            Engine::Linear(r) => {
                let locs = match &mut into.scratch {
                    Scratch::Linear(of, locs) if Arc::ptr_eq(of, &self.source) => locs,
                    other => {
                        *other = Scratch::Linear(self.source.clone(), r.capture_locations());
                        let Scratch::Linear(_, locs) = other else {
                            return false;
                        };
                        locs
                    }
                };
                if r.captures_read_at(locs, text, start).is_none() {
                    return false;
                }
                for (i, group) in into.groups.iter_mut().enumerate() {
                    *group = locs.get(i);
                }
            }
            Engine::Pcre(r) => {
                let locs = match &mut into.scratch {
                    Scratch::Pcre(of, locs) if Arc::ptr_eq(of, &self.source) => locs,
                    other => {
                        *other = Scratch::Pcre(self.source.clone(), r.capture_locations());
                        let Scratch::Pcre(_, locs) = other else {
                            return false;
                        };
                        locs
                    }
                };
                if !matches!(r.captures_read_at(locs, text, start), Ok(Some(_))) {
                    return false;
                }
                for (i, group) in into.groups.iter_mut().enumerate() {
                    *group = locs.get(i);
                }
            }
        }
        true
    }
}

impl fmt::Debug for Regex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Regex")
            .field("source", &self.source)
            .field("ignore_case", &self.ignore_case)
            .field("linear", &self.is_linear())
            .finish()
    }
}

/// Writes a replacement: `\0` to `\9` stand for the groups captured in `text`, `\xHH` for a byte, and `\` before
/// anything else for that character. A group that took no part stands for nothing.
pub fn expand(template: &[u8], text: &[u8], captures: &Captures, out: &mut Vec<u8>) {
    let mut rest = template;
    while let Some(at) = memchr::memchr(b'\\', rest) {
        out.extend_from_slice(&rest[..at]);
        rest = match &rest[at + 1..] {
            [] => return,
            [d @ b'0'..=b'9', tail @ ..] => {
                if let Some(bytes) = captures
                    .group(usize::from(d - b'0'))
                    .and_then(|range| text.get(range))
                {
                    out.extend_from_slice(bytes);
                }
                tail
            }
            [b'x', tail @ ..] => match tail {
                [high, low, tail @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                    out.push(hex(*high) << 4 | hex(*low));
                    tail
                }
                _ => return,
            },
            [other, tail @ ..] => {
                out.push(*other);
                tail
            }
        };
    }
    out.extend_from_slice(rest);
}

/// Says what is wrong with a replacement before it is used: a lone `\` at its end, `\x` without two digits, or a
/// group beyond `\9` that cannot be meant.
pub fn check_template(template: &[u8]) -> Result<(), String> {
    let mut rest = template;
    while let Some(at) = memchr::memchr(b'\\', rest) {
        rest = match &rest[at + 1..] {
            [] => return Err("replacement ends with a lone '\\'; write '\\\\' for one".to_owned()),
            [b'x', tail @ ..] => match tail {
                [h, l, tail @ ..] if h.is_ascii_hexdigit() && l.is_ascii_hexdigit() => tail,
                _ => return Err("'\\x' in a replacement needs two hexadecimal digits".to_owned()),
            },
            [_, tail @ ..] => tail,
        };
    }
    Ok(())
}

fn hex(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        b'a'..=b'f' => digit - b'a' + 10,
        _ => digit.wrapping_sub(b'A').wrapping_add(10) & 15,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replace(pattern: &str, text: &str, template: &str) -> Option<String> {
        let regex = Regex::new(pattern, false).unwrap();
        let mut captures = Captures::new();
        if !regex.captures(text.as_bytes(), &mut captures) {
            return None;
        }
        let mut out = Vec::new();
        expand(template.as_bytes(), text.as_bytes(), &captures, &mut out);
        Some(String::from_utf8(out).unwrap())
    }

    #[test]
    fn templates() {
        let check = |pattern, text, template, expect: &str| {
            assert_eq!(
                replace(pattern, text, template).as_deref(),
                Some(expect),
                "{pattern}"
            );
        };
        check("^/(.*)/(.*)$", "/a/b", r"/\2/\1", "/b/a");
        check("b+", "abbc", r"<\0>", "<bb>");
        check("(a)|(b)", "b", r"[\1][\2][\3]", "[][b][]");
        check("a", "a", r"\\\x41\.\9", r"\A.");
        // Ten groups at most, one digit each.
        check(
            "(a)(b)(c)(d)(e)(f)(g)(h)(i)(j)",
            "abcdefghij",
            r"\9\10",
            "ia0",
        );
        // Look-ahead: the other engine.
        check("a(?=b)(.)", "xab", r"\1", "b");
        assert_eq!(replace("a", "b", "x"), None);
    }

    #[test]
    fn broken_templates_are_told() {
        assert!(check_template(br"\1\\\x4a").is_ok());
        assert!(check_template(b"a\\").unwrap_err().contains("lone"));
        assert!(check_template(br"\x4").unwrap_err().contains("two hexa"));
        // Expanding one anyway is harmless.
        let mut out = Vec::new();
        expand(br"a\x4", b"", &Captures::new(), &mut out);
        assert_eq!(out, b"a");
    }

    #[test]
    fn bytes_are_bytes() {
        let any = Regex::new("^.$", false).unwrap();
        assert!(any.is_match(b"\xff"));
        assert!(any.is_linear());
        assert!(Regex::new("^é$", true).unwrap().is_match("é".as_bytes()));
        assert!(Regex::new("^FOO", true).unwrap().is_match(b"foobar"));
        assert!(!Regex::new("^FOO", false).unwrap().is_match(b"foobar"));
    }

    #[test]
    fn a_bad_one_says_what_is_wrong() {
        let e = Regex::new("(abc", false).unwrap_err();
        assert_eq!(
            e,
            "regex '(abc' is invalid: missing closing parenthesis at offset 4"
        );
    }

    #[test]
    fn buffers_move_between_expressions() {
        let (a, b) = (
            Regex::new("(x)", false).unwrap(),
            Regex::new("(?=y)(y)(z)", false).unwrap(),
        );
        let mut captures = Captures::new();
        for _ in 0..3 {
            assert!(a.captures(b"..x", &mut captures));
            assert_eq!(captures.group(1), Some(2..3));
            assert_eq!(captures.group(2), None);
            assert!(b.captures(b".yz", &mut captures));
            assert_eq!(captures.group(2), Some(2..3));
            assert!(!a.captures(b"none", &mut captures));
            assert_eq!(captures.group(0), None);
        }
    }
}
