//! `json_query`: one value out of a JSON text by its path. The text is scanned once, without building anything, as far as
//! the value: what follows it need not be there (a body cut short).
//!
//! The grammar is that of HAProxy's parser, mjson, where it is laxer than RFC 8259: a comma may come before a closing
//! bracket, numbers are what `strtod(3)` makes of their beginning. One thing differs on purpose: a path that misses
//! inside an array element gives nothing, where HAProxy goes on into the elements that follow.

use std::borrow::Cow;

use crate::args::Arg;
use crate::conv::BadArg;
use crate::conv::operand::{on_bytes, prepared, set_prepared, str_arg};
use crate::env::Env;
use crate::value::{Fetched, Sample, Value};

converters! {
    "json_query" (Str; Str) Str -> Any, json_query, prepare |args, _| prepare_query(args)
        => "The value at a JSON path like `$.a.b[2]` (`\\.` for a dot in a name): strings unescaped, numbers as text or, with \
            `int`, as integers, booleans, arrays as they stand.";
}

/// A compiled query.
#[derive(Debug, Clone)]
pub struct Query {
    path: Vec<Segment>,
    as_int: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Segment {
    Key(Vec<u8>),
    Index(usize),
}

/// Nesting beyond which a text is refused, as in mjson.
const DEPTH_MAX: usize = 20;

/// Integers beyond this cannot be exact in other implementations of JSON (RFC 8259 section 6).
const INT_MAX: i64 = (1 << 53) - 1;

/// Compiles the path in argument 0 and the output type in argument 1.
pub fn prepare_query(args: &mut Vec<Arg>) -> Result<(), BadArg> {
    let path = parse_path(str_arg(args, 0)).map_err(|e| BadArg::new(0, e))?;
    let as_int = match str_arg(args, 1) {
        b"" => false,
        b"int" => true,
        _ => return Err(BadArg::new(1, "the only output type is `int`")),
    };
    set_prepared(args, 0, Query { path, as_int });
    Ok(())
}

fn parse_path(text: &[u8]) -> Result<Vec<Segment>, &'static str> {
    let mut rest = match text {
        [] => return Err("the JSON path is empty"),
        [b'$', rest @ ..] => rest,
        _ => return Err("a JSON path begins with `$`"),
    };
    let mut path = Vec::new();
    while let [first, tail @ ..] = rest {
        match first {
            b'.' => {
                let mut key = Vec::new();
                rest = tail;
                while let [c, tail @ ..] = rest {
                    match (c, tail) {
                        (b'.' | b'[', _) => break,
                        (b'\\', [escaped, tail @ ..]) => {
                            key.push(*escaped);
                            rest = tail;
                        }
                        _ => {
                            key.push(*c);
                            rest = tail;
                        }
                    }
                }
                path.push(Segment::Key(key));
            }
            b'[' => {
                let close = tail
                    .iter()
                    .position(|c| *c == b']')
                    .ok_or("a `]` is missing in the JSON path")?;
                let index = std::str::from_utf8(&tail[..close])
                    .ok()
                    .and_then(|digits| digits.parse().ok())
                    .ok_or("an index in a JSON path is a number, like `[0]`; names follow a dot")?;
                path.push(Segment::Index(index));
                rest = &tail[close + 1..];
            }
            _ => return Err("after `$`, a JSON path goes on with `.name` or `[number]`"),
        }
    }
    Ok(path)
}

fn json_query<'a>(args: &'a [Arg], sample: Sample<'a>, _: &'a dyn Env) -> Fetched<'a> {
    on_bytes(sample, |s| prepared::<Query>(args, 0)?.run(&s))
}

impl Query {
    /// The value found in a JSON text, as the converter's result.
    pub fn run(&self, text: &[u8]) -> Option<Value<'static>> {
        let mut scan = Scan {
            text,
            at: 0,
            depth: 0,
        };
        for segment in &self.path {
            scan.enter(segment)?;
        }
        scan.blanks();
        let start = scan.at;
        match *scan.text.get(start)? {
            b'"' => {
                scan.string()?;
                let out = unescape(&text[start + 1..scan.at - 1])?;
                Some(Value::Str(Cow::Owned(out)))
            }
            b't' => scan.word(b"true").map(|()| Value::Bool(true)),
            b'f' => scan.word(b"false").map(|()| Value::Bool(false)),
            b'-' | b'0'..=b'9' if self.as_int => {
                let number = strtoll(&text[start..]);
                (-INT_MAX..=INT_MAX)
                    .contains(&number)
                    .then_some(Value::Sint(number))
            }
            b'-' | b'0'..=b'9' => {
                let number = number_len(&text[start..]);
                let number = std::str::from_utf8(&text[start..start + number]).ok()?;
                // What is no number by itself (`-`) counts as zero.
                let number = number.trim_end_matches('.').parse().unwrap_or(0.0);
                Some(Value::Str(Cow::Owned(format_g(number).into_bytes())))
            }
            b'[' => {
                scan.value()?;
                Some(Value::Str(Cow::Owned(text[start..scan.at].to_vec())))
            }
            _ => None,
        }
    }
}

/// A position in a JSON text.
struct Scan<'t> {
    text: &'t [u8],
    at: usize,
    depth: usize,
}

impl Scan<'_> {
    fn blanks(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.text.get(self.at) {
            self.at += 1;
        }
    }

    /// Passes this byte, after blanks; `None` when another one is there.
    fn take(&mut self, byte: u8) -> Option<()> {
        self.blanks();
        (self.text.get(self.at) == Some(&byte)).then(|| self.at += 1)
    }

    fn open(&mut self, byte: u8) -> Option<()> {
        self.take(byte)?;
        self.depth += 1;
        (self.depth <= DEPTH_MAX).then_some(())
    }

    /// Goes to the beginning of the value that the segment names in the value here.
    fn enter(&mut self, segment: &Segment) -> Option<()> {
        match segment {
            Segment::Key(key) => {
                self.open(b'{')?;
                loop {
                    self.blanks();
                    let start = self.at;
                    self.string()?;
                    let found = &self.text[start + 1..self.at - 1] == key.as_slice();
                    self.take(b':')?;
                    if found {
                        return Some(());
                    }
                    self.value()?;
                    self.take(b',')?;
                }
            }
            Segment::Index(index) => {
                self.open(b'[')?;
                for _ in 0..*index {
                    self.value()?;
                    self.take(b',')?;
                }
                Some(())
            }
        }
    }

    fn string(&mut self) -> Option<()> {
        self.take(b'"')?;
        loop {
            match *self.text.get(self.at)? {
                b'"' => break,
                0 => return None,
                b'\\'
                    if self
                        .text
                        .get(self.at + 1)
                        .is_some_and(|c| escaped(*c).is_some()) =>
                {
                    self.at += 2
                }
                _ => self.at += 1,
            }
        }
        self.at += 1;
        Some(())
    }

    fn word(&mut self, word: &[u8]) -> Option<()> {
        self.text[self.at..]
            .starts_with(word)
            .then(|| self.at += word.len())
    }

    /// Passes one whole value. Not recursive: the brackets that are open are bits of a stack.
    fn value(&mut self) -> Option<()> {
        let outer = self.depth;
        let mut in_object: u32 = 0;
        loop {
            self.blanks();
            match *self.text.get(self.at)? {
                c @ (b'{' | b'[') => {
                    self.open(c)?;
                    in_object = in_object << 1 | u32::from(c == b'{');
                    if !self.closes(in_object) {
                        self.key_if(in_object)?;
                        continue;
                    }
                }
                b'"' => self.string()?,
                b't' => self.word(b"true")?,
                b'f' => self.word(b"false")?,
                b'n' => self.word(b"null")?,
                b'-' | b'0'..=b'9' => self.at += number_len(&self.text[self.at..]),
                _ => return None,
            }
            // After a value: close what ends here, then go on with the next value of what is still open.
            loop {
                if self.depth == outer {
                    return Some(());
                }
                if self.closes(in_object) {
                    self.at += 1;
                    self.depth -= 1;
                    in_object >>= 1;
                    continue;
                }
                self.take(b',')?;
                if !self.closes(in_object) {
                    self.key_if(in_object)?;
                    break;
                }
            }
        }
    }

    /// Whether the innermost bracket closes here.
    fn closes(&mut self, in_object: u32) -> bool {
        self.blanks();
        let bracket = if in_object & 1 == 1 { b'}' } else { b']' };
        self.text.get(self.at) == Some(&bracket)
    }

    /// Passes the name and colon that stand before a value in an object.
    fn key_if(&mut self, in_object: u32) -> Option<()> {
        if in_object & 1 == 0 {
            return Some(());
        }
        self.string()?;
        self.take(b':')
    }
}

/// The character behind a backslash and this letter.
fn escaped(c: u8) -> Option<u8> {
    Some(match c {
        b'b' => 8,
        b'f' => 12,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'\\' | b'"' => c,
        _ => return None,
    })
}

/// As mjson: `\u` only up to `\u00ff`, as one byte; no `\/`.
fn unescape(s: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(s.len());
    let mut rest = s;
    while let [c, tail @ ..] = rest {
        rest = tail;
        match (c, tail) {
            (b'\\', [b'u', b'0', b'0', high, low, tail @ ..]) => {
                out.push(loose_digit(*high) << 4 | loose_digit(*low));
                rest = tail;
            }
            (b'\\', [letter, tail @ ..]) => {
                out.push(escaped(*letter)?);
                rest = tail;
            }
            _ => out.push(*c),
        }
    }
    Some(out)
}

/// A hexadecimal digit; what is none counts as mjson counts it.
fn loose_digit(c: u8) -> u8 {
    match c {
        b'0'..=b'9' => c - b'0',
        b'A'..=b'F' => c - b'7',
        _ => c.wrapping_sub(b'W'),
    }
}

/// How much of the text a number takes: sign, digits, fraction, exponent.
fn number_len(text: &[u8]) -> usize {
    let digits = |from: usize| {
        text[from..]
            .iter()
            .take_while(|c| c.is_ascii_digit())
            .count()
    };
    let mut at = usize::from(text.first() == Some(&b'-'));
    let whole = digits(at);
    if whole == 0 {
        return at;
    }
    at += whole;
    if text.get(at) == Some(&b'.') {
        at += 1 + digits(at + 1);
    }
    if let Some(b'e' | b'E') = text.get(at) {
        let sign = usize::from(matches!(text.get(at + 1), Some(b'+' | b'-')));
        let exponent = digits(at + 1 + sign);
        if exponent > 0 {
            at += 1 + sign + exponent;
        }
    }
    at
}

/// `strtoll(3)` with base 0: decimal, `0x` hexadecimal or `0` octal up to the first other character, saturating.
fn strtoll(text: &[u8]) -> i64 {
    let (negative, text) = match text {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, text),
    };
    let (base, text) = match text {
        [b'0', b'x' | b'X', rest @ ..] if rest.first().is_some_and(u8::is_ascii_hexdigit) => {
            (16, rest)
        }
        [b'0', rest @ ..] => (8, rest),
        _ => (10, text),
    };
    let mut value: i64 = 0;
    for digit in text.iter().map_while(|c| char::from(*c).to_digit(base)) {
        value = value.saturating_mul(i64::from(base));
        value = if negative {
            value.saturating_sub(i64::from(digit))
        } else {
            value.saturating_add(i64::from(digit))
        };
    }
    value
}

/// `printf(3)`'s `%g`: six significant digits, the shorter of the plain and the exponent form.
pub fn format_g(number: f64) -> String {
    if !number.is_finite() {
        return number.to_string().to_lowercase();
    }
    let scientific = format!("{number:.5e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..6).contains(&exponent) {
        let decimals = usize::try_from(5 - exponent).unwrap_or(0);
        return trim_zeros(&format!("{number:.decimals$}")).to_string();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", trim_zeros(mantissa), exponent.abs())
}

fn trim_zeros(number: &str) -> &str {
    if number.contains('.') {
        number.trim_end_matches('0').trim_end_matches('.')
    } else {
        number
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::format_g;
    use crate::conv::testing::{World, check_header, check_header_new, check_refused};

    #[test]
    fn as_haproxy_answers() {
        check_header(&[
            (b"{\"a\":1}", "hdr,json_query('$.a')", Some(b"1")),
            (b"{\"a\":1.5}", "hdr,json_query('$.a')", Some(b"1.5")),
            (b"{\"a\":1e3}", "hdr,json_query('$.a')", Some(b"1000")),
            (b"{\"a\":1e30}", "hdr,json_query('$.a')", Some(b"1e+30")),
            (
                b"{\"a\":-0.00001}",
                "hdr,json_query('$.a')",
                Some(b"-1e-05"),
            ),
            (
                b"{\"a\":123456789}",
                "hdr,json_query('$.a')",
                Some(b"1.23457e+08"),
            ),
            (
                b"{\"a\":1234567}",
                "hdr,json_query('$.a')",
                Some(b"1.23457e+06"),
            ),
            (b"{\"a\":100000}", "hdr,json_query('$.a')", Some(b"100000")),
            (b"{\"a\":1000000}", "hdr,json_query('$.a')", Some(b"1e+06")),
            (b"{\"a\":0.1}", "hdr,json_query('$.a')", Some(b"0.1")),
            (b"{\"a\":-0}", "hdr,json_query('$.a')", Some(b"-0")),
            (
                b"{\"a\":3.14159265358979}",
                "hdr,json_query('$.a')",
                Some(b"3.14159"),
            ),
            (b"{\"a\":1.5}", "hdr,json_query('$.a','int')", Some(b"1")),
            (
                b"{\"a\":123456789012345678901234567890}",
                "hdr,json_query('$.a','int')",
                None,
            ),
            (
                b"{\"a\":\"12\"}",
                "hdr,json_query('$.a','int')",
                Some(b"12"),
            ),
            (
                b"{\"a\":\"abc\"}",
                "hdr,json_query('$.a','int')",
                Some(b"abc"),
            ),
            (b"{\"a\":0x1F}", "hdr,json_query('$.a','int')", Some(b"31")),
            (b"{\"a\":017}", "hdr,json_query('$.a','int')", Some(b"15")),
            (b"{\"a\":true}", "hdr,json_query('$.a','int')", Some(b"1")),
            (b"{\"a\":-5}", "hdr,json_query('$.a','int')", Some(b"-5")),
            (b"{\"a\":\"x\"}", "hdr,json_query('$.a')", Some(b"x")),
            (b"{\"a\":\"\"}", "hdr,json_query('$.a')", Some(b"")),
            (
                b"{\"a\":\"x\\ny\\u0041\\t\\\"\\\\\\/\"}",
                "hdr,json_query('$.a')",
                None,
            ),
            (
                b"{\"a\":\"\\u00e9\"}",
                "hdr,json_query('$.a')",
                Some(b"\xe9"),
            ),
            (b"{\"a\":\"\\u20ac\"}", "hdr,json_query('$.a')", None),
            (b"{\"a\":\"\\x41\"}", "hdr,json_query('$.a')", None),
            (b"{\"a\":\"\xe9\"}", "hdr,json_query('$.a')", Some(b"\xe9")),
            (b"{\"a\":true}", "hdr,json_query('$.a')", Some(b"1")),
            (b"{\"a\":false}", "hdr,json_query('$.a')", Some(b"0")),
            (b"{\"a\":null}", "hdr,json_query('$.a')", None),
            (b"{\"a\":{\"b\":1}}", "hdr,json_query('$.a')", None),
            (b"{\"a\":{\"b\":1}}", "hdr,json_query('$.a.b')", Some(b"1")),
            (b"{\"a\":[1,2]}", "hdr,json_query('$.a[1]')", Some(b"2")),
            (b"{\"a\":[1,2]}", "hdr,json_query('$.a[2]')", None),
            (
                b"{\"a\":[{\"b\":7},2]}",
                "hdr,json_query('$.a[0].b')",
                Some(b"7"),
            ),
            (b"[5,6]", "hdr,json_query('$[1]')", Some(b"6")),
            (b"\"s\"", "hdr,json_query('$')", Some(b"s")),
            (b"{\"a\":1}", "hdr,json_query('$')", None),
            (
                b"{\"my.key\":\"v\"}",
                "hdr,json_query('$.my\\\\.key')",
                None,
            ),
            (
                b"{\"my.key\":\"v\"}",
                "hdr,json_query('$.my\\.key')",
                Some(b"v"),
            ),
            (b"{\"b\":1}", "hdr,json_query('$.a')", None),
            (b"{\"a\":1", "hdr,json_query('$.a')", Some(b"1")),
            (b"{\"a\":1,", "hdr,json_query('$.a')", Some(b"1")),
            (b"{\"a\":\"x", "hdr,json_query('$.a')", None),
            (b"{\"a\":", "hdr,json_query('$.a')", None),
            (b"", "hdr,json_query('$.a')", None),
            (b"{\"a\":1,\"a\":2}", "hdr,json_query('$.a')", Some(b"1")),
            (b"{ \"a\" : 1 }", "hdr,json_query('$.a')", Some(b"1")),
            (
                b"{\"x\":{\"a\":5},\"a\":6}",
                "hdr,json_query('$.a')",
                Some(b"6"),
            ),
            (
                b"{\"x\":[{\"a\":5}],\"a\":6}",
                "hdr,json_query('$.a')",
                Some(b"6"),
            ),
            (b"{\"a\":1x,\"b\":6}", "hdr,json_query('$.b')", None),
            (b"{\"a\":tru,\"b\":6}", "hdr,json_query('$.b')", None),
            (b"{a:1,\"b\":6}", "hdr,json_query('$.b')", None),
            (b"{\"a\":1 \"b\":6}", "hdr,json_query('$.b')", None),
            (b"{\"a\":1,,\"b\":6}", "hdr,json_query('$.b')", None),
            (b"{'a':1,\"b\":6}", "hdr,json_query('$.b')", None),
            (b"{\"a\":1}", "hdr,json_query('$.a.')", None),
            (b"{\"a\":1}", "hdr,json_query('$.')", None),
            (b"{\"a\":1}", "hdr,json_query('$..a')", None),
            (b"{\"a\":1}", "hdr,json_query('$.*')", None),
            (b"{\"a\":1,\"ab\":2}", "hdr,json_query('$.ab')", Some(b"2")),
            (b"{\"ab\":1,\"a\":2}", "hdr,json_query('$.a')", Some(b"2")),
            (
                b"{\"a\":[0,1,2,3,4,5,6,7,8,9,\"ten\"]}",
                "hdr,json_query('$.a[10]')",
                Some(b"ten"),
            ),
            (
                b"{\"a\":[0,[3]]}",
                "hdr,json_query('$.a[1][0]')",
                Some(b"3"),
            ),
            (b"{\"a\":+1}", "hdr,json_query('$.a')", None),
            (b"{\"a\":.5}", "hdr,json_query('$.a')", None),
            (b"{\"a\":1.}", "hdr,json_query('$.a')", Some(b"1")),
            (b"{\"a\":-}", "hdr,json_query('$.a')", Some(b"0")),
            (b"{\"a\":1e}", "hdr,json_query('$.a')", Some(b"1")),
            (b"{\"a\":1e+2}", "hdr,json_query('$.a')", Some(b"100")),
            (b"{\"a\":1E2}", "hdr,json_query('$.a')", Some(b"100")),
            (b"{\"a\":NaN}", "hdr,json_query('$.a')", None),
            (b"x{\"a\":1}", "hdr,json_query('$.a')", None),
            (b"{\"a\":1}x", "hdr,json_query('$.a')", Some(b"1")),
            (
                b"{\"a\":\"x\"} garbage",
                "hdr,json_query('$.a')",
                Some(b"x"),
            ),
            (b"{\"\\u0061\":1}", "hdr,json_query('$.a')", None),
            (b"{\"a\\\"b\":1}", "hdr,json_query('$.a\"b')", None),
            (b"{\"a\":1}", "hdr,json_query('$.a','')", Some(b"1")),
            (
                b"{\"a\":\"x\\ny\\u0041\\t\\\"\\\\z\\b\\f\\r\"}",
                "hdr,json_query('$.a')",
                Some(b"x\nyA\t\"\\z\x08\x0c\r"),
            ),
            (b"{\"a\":\"x\\/y\"}", "hdr,json_query('$.a')", None),
            (
                b"{\"a\":\"x\\u0000y\"}",
                "hdr,json_query('$.a')",
                Some(b"x\x00y"),
            ),
            (
                b"{\"a\":\"x\\u00e9y\\u20acz\"}",
                "hdr,json_query('$.a')",
                None,
            ),
            (
                b"{\"a\":\"x\\u00ey\"}",
                "hdr,json_query('$.a')",
                Some(b"x\xe2"),
            ),
            (b"{\"a\":\"x\\u00\"}", "hdr,json_query('$.a')", None),
            (
                b"{\"a\":\"x\\ud83d\\ude00y\"}",
                "hdr,json_query('$.a')",
                None,
            ),
            (b"{\"a\":\"x\\q\"}", "hdr,json_query('$.a')", None),
            (
                b"{\"a\":\"aaa\\\\\"}",
                "hdr,json_query('$.a')",
                Some(b"aaa\\"),
            ),
            (
                b"{\"a\":123456789012345678901234567890}",
                "hdr,json_query('$.a')",
                Some(b"1.23457e+29"),
            ),
            (
                b"{\"a\":9007199254740992}",
                "hdr,json_query('$.a','int')",
                None,
            ),
            (
                b"{\"a\":9007199254740991}",
                "hdr,json_query('$.a','int')",
                Some(b"9007199254740991"),
            ),
            (
                b"{\"a\":-9007199254740992}",
                "hdr,json_query('$.a','int')",
                None,
            ),
            (
                b"{\"a\":-9007199254740991}",
                "hdr,json_query('$.a','int')",
                Some(b"-9007199254740991"),
            ),
            (b"{\"a\":1e3}", "hdr,json_query('$.a','int')", Some(b"1")),
            (
                b"{\"a\":\"12x\"}",
                "hdr,json_query('$.a','int')",
                Some(b"12x"),
            ),
            (
                b"{\"a\":0.000123456789}",
                "hdr,json_query('$.a')",
                Some(b"0.000123457"),
            ),
            (
                b"{\"a\":0.0000123456789}",
                "hdr,json_query('$.a')",
                Some(b"1.23457e-05"),
            ),
            (b"{\"a\":999999.5}", "hdr,json_query('$.a')", Some(b"1e+06")),
            (
                b"{\"a\":999999.4}",
                "hdr,json_query('$.a')",
                Some(b"999999"),
            ),
            (b"{\"a\":2.5e5}", "hdr,json_query('$.a')", Some(b"250000")),
            (b"{\"a\":1e400}", "hdr,json_query('$.a')", Some(b"inf")),
            (
                b"{\"a\":1,\"b\":[1,\"b\",{\"c\":1}],\"a\":[2]}",
                "hdr,json_query('$.b[2].c')",
                Some(b"1"),
            ),
            (
                b"{\"a\":1,\"b\":[1,\"b\",{\"c\":1}],\"a\":[2]}",
                "hdr,json_query('$.b[2]')",
                None,
            ),
            (
                b"{\"a\":1,\"b\":[1,\"b\",{\"c\":1}],\"a\":[2]}",
                "hdr,json_query('$.b[01]')",
                Some(b"b"),
            ),
            (
                b"{\"a\":1,\"b\":[1,\"b\",{\"c\":1}],\"a\":[2]}",
                "hdr,json_query('$.b[9]')",
                None,
            ),
            (b"[[1,2],3]", "hdr,json_query('$[0][1]')", Some(b"2")),
            (
                b"{\"x\":\"}\",\"a\":1}",
                "hdr,json_query('$.a')",
                Some(b"1"),
            ),
            (
                b"{\"x\":\"a\\\"\",\"a\":1}",
                "hdr,json_query('$.a')",
                Some(b"1"),
            ),
            (
                b"{\"a\":[1,[2,{\"b\":\"]\"}]],\"c\":1}",
                "hdr,json_query('$.c')",
                Some(b"1"),
            ),
            (
                b"{\"a\":{\"b\":{\"c\":{\"d\":\"deep\"}}}}",
                "hdr,json_query('$.a.b.c.d')",
                Some(b"deep"),
            ),
            (b"{\"b\":tru,\"a\":1}", "hdr,json_query('$.a')", None),
            (b"true1", "hdr,json_query('$')", Some(b"1")),
            (b"{\"a\":- 5}", "hdr,json_query('$.a')", Some(b"0")),
            (b"{\"x\":[1,],\"a\":5}", "hdr,json_query('$.a')", Some(b"5")),
            (
                b"{\"x\":{\"b\":1,},\"a\":5}",
                "hdr,json_query('$.a')",
                Some(b"5"),
            ),
            (b"{\"x\":[],\"a\":5}", "hdr,json_query('$.a')", Some(b"5")),
            (b"{\"x\":{},\"a\":5}", "hdr,json_query('$.a')", Some(b"5")),
            (b"{\"x\":[1 2],\"a\":5}", "hdr,json_query('$.a')", None),
            (b"{\"x\":[1},\"a\":5}", "hdr,json_query('$.a')", None),
            (b"{\"x\":[,1],\"a\":5}", "hdr,json_query('$.a')", None),
            (b"{\"x\":{,},\"a\":5}", "hdr,json_query('$.a')", None),
            (b"{,\"a\":5}", "hdr,json_query('$.a')", None),
            (b"{\"x\" \"y\",\"a\":5}", "hdr,json_query('$.a')", None),
            (b"{\"x\"::1,\"a\":5}", "hdr,json_query('$.a')", None),
            (
                b"{\"x\":\"\\q\",\"a\":5}",
                "hdr,json_query('$.a')",
                Some(b"5"),
            ),
            (b"{\"x\":1}{\"a\":5}", "hdr,json_query('$.a')", None),
            (
                b"{\"a\":{\"b\":1},\"a\":{\"c\":2}}",
                "hdr,json_query('$.a')",
                None,
            ),
            (
                b"{\"a\":{\"b\":1},\"a\":{\"c\":2}}",
                "hdr,json_query('$.a.c')",
                None,
            ),
            (
                b"{\"a\":1,\"a\":{\"c\":2}}",
                "hdr,json_query('$.a.c')",
                None,
            ),
            (b"{\"a\":1,\"c\":[7]}", "hdr,json_query('$.a[0]')", None),
            (b"{\"a\":{\"x\":[7]}}", "hdr,json_query('$.a[0]')", None),
            (b"{\"a\":[{\"x\":7}]}", "hdr,json_query('$.a.x')", None),
            (b"{\"a\":[{\"x\":7}]}", "hdr,json_query('$.x')", None),
            (b"[1,{\"a\":8}]", "hdr,json_query('$[1].a')", Some(b"8")),
            (
                b"[{\"a\":1},{\"a\":8},{\"a\":9}]",
                "hdr,json_query('$[1].a')",
                Some(b"8"),
            ),
            (b"{\"a\":[[1]]}", "hdr,json_query('$.a[10]')", None),
            (b"{\"a\":\"x\"}", "hdr,json_query('$.a[0]')", None),
            (
                b"{\"a\":[{\"c\":1,\"b\":2}]}",
                "hdr,json_query('$.a[0].b')",
                Some(b"2"),
            ),
            (
                b"{\"a\":[5,{\"c\":[1,2],\"b\":2}]}",
                "hdr,json_query('$.a[1].b')",
                Some(b"2"),
            ),
            (
                b"{\"a\":[[1,2],[3,4],9]}",
                "hdr,json_query('$.a[2]')",
                Some(b"9"),
            ),
            (
                b"{\"a\":[{\"x\":1,\"y\":2},9]}",
                "hdr,json_query('$.a[1]')",
                Some(b"9"),
            ),
            (
                b"{\"a\":{\"b\":{\"x\":1}},\"x\":2}",
                "hdr,json_query('$.x')",
                Some(b"2"),
            ),
            (
                b"{\"x\":[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]],\"a\":5}",
                "hdr,json_query('$.a')",
                Some(b"5"),
            ),
            (
                b"{\"x\":[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]],\"a\":5}",
                "hdr,json_query('$.a')",
                Some(b"5"),
            ),
            (
                b"{\"x\":[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]],\"a\":5}",
                "hdr,json_query('$.a')",
                None,
            ),
            (
                b"{\"x\":[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]],\"a\":5}",
                "hdr,json_query('$.a')",
                None,
            ),
            (
                b"{\"x\":[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]],\"a\":5}",
                "hdr,json_query('$.a')",
                None,
            ),
            (b"\x00{\"a\":1}", "hdr,json_query('$.a')", None),
            (b"{\"a\" :\t\"x\"}", "hdr,json_query('$.a')", Some(b"x")),
            (
                b"{\"a\":\"\x01\x1f\"}",
                "hdr,json_query('$.a')",
                Some(b"\x01\x1f"),
            ),
            (b"{\"\":1}", "hdr,json_query('$.')", Some(b"1")),
            (b"-5", "hdr,json_query('$')", Some(b"-5")),
            (b"1 2", "hdr,json_query('$')", Some(b"1")),
            (b"", "hdr,json_query('$')", None),
            (b"tru", "hdr,json_query('$')", None),
            (b"{\"a\":tru}", "hdr,json_query('$.a')", None),
            (b"{\"a\":0x}", "hdr,json_query('$.a','int')", Some(b"0")),
            (b"{\"a\":08}", "hdr,json_query('$.a','int')", Some(b"0")),
            (
                b"{\"a\":-0x10}",
                "hdr,json_query('$.a','int')",
                Some(b"-16"),
            ),
            (b"{\"a\":-}", "hdr,json_query('$.a','int')", Some(b"0")),
            (b"{\"a\":12", "hdr,json_query('$.a','int')", Some(b"12")),
        ]);
    }

    /// HAProxy 2.6 gives nothing for arrays; 3.x gives their text.
    #[test]
    fn arrays_are_given_as_they_stand() {
        check_header_new(&[
            (
                b"{\"a\":[1, \"b\" ,{\"c\":1}]}",
                "hdr,json_query('$.a')",
                Some(b"[1, \"b\" ,{\"c\":1}]"),
            ),
            (b"{\"a\":[]}", "hdr,json_query('$.a')", Some(b"[]")),
            (b"[[1,2],3]", "hdr,json_query('$[0]')", Some(b"[1,2]")),
            (b"[5,6]", "hdr,json_query('$')", Some(b"[5,6]")),
            (b"{\"a\":[1,2", "hdr,json_query('$.a')", None),
        ]);
    }

    /// HAProxy 2.6 answers 9 and 8 here.
    #[test]
    fn a_miss_in_an_element_does_not_go_on_to_the_next() {
        check_header_new(&[
            (
                b"[{\"a\":1},{\"b\":8},{\"a\":9}]",
                "hdr,json_query('$[1].a')",
                None,
            ),
            (b"[{\"a\":1},{\"b\":8}]", "hdr,json_query('$[0].b')", None),
        ]);
    }

    #[test]
    fn bad_paths_are_refused() {
        check_refused(&[
            ("str(a),json_query('')", "empty"),
            ("str(a),json_query('$.a','str')", "`int`"),
        ]);
        for path in ["a", "$a", ".a", "$[x]", "$[]", "$[-1]", "$[0", "$[\"a\"]"] {
            let expr = format!("str(a),json_query('{path}')");
            assert!(World::new(b"").run(&expr).is_err(), "{path}");
        }
    }

    proptest! {
        #[test]
        fn numbers_print_as_percent_g_reads_them(number: f64) {
            prop_assume!(number.is_finite());
            let text = format_g(number);
            let read: f64 = text.parse().unwrap();
            prop_assert!((read - number).abs() <= number.abs() * 1e-5, "{number} {text}");
        }

        #[test]
        fn any_text_may_be_queried(text in "[\\[\\]{}\",:a0-9.tfn\\\\u -]{0,60}", path in r"\$(\.a|\[[0-3]\]){0,3}") {
            let world = World::new(text.as_bytes());
            let _ = world.run(&format!("hdr,json_query({path})")).unwrap();
        }

        /// What serde_json writes is found again.
        #[test]
        fn members_are_found(before: Vec<u8>, wanted in "[a-z0-9 ]{0,20}") {
            let text = serde_json::json!({"x": before, "y": {"z": [1, {"w": wanted}]}, "w": 1}).to_string();
            let got = World::new(text.as_bytes()).run("hdr,json_query('$.y.z[1].w')").unwrap();
            prop_assert_eq!(got, Some(wanted.into_bytes()));
        }
    }
}
