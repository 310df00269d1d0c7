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
mod tests;
