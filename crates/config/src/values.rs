//! Values a keyword takes: integers, times, sizes, switches. Each reports under its word and gives `None` when wrong.

use std::ops::RangeInclusive;

use crate::cx::Cx;
use crate::line::Line;
use crate::registry::Sections;

/// The unit a bare number has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeUnit {
    Us,
    Ms,
    S,
}

/// Longest time a timer can hold: 2^31-1 ms, about 24.8 days, as in HAProxy.
pub const TIME_MAX_MS: u64 = i32::MAX as u64;

/// Why a time or size is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ValueFault {
    Empty,
    /// Byte offset of the first wrong character.
    Char(usize, char),
    Overflow,
    /// Not zero, but rounds to it.
    Underflow,
}

/// Reads a time (manual chapter 2.5: `us ms s m h d`) in microseconds.
pub fn parse_time_us(text: &str, unit: TimeUnit) -> Result<u64, ValueFault> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    if digits == 0 {
        return Err(match text.chars().next() {
            Some(c) => ValueFault::Char(0, c),
            None => ValueFault::Empty,
        });
    }
    let number: u64 = text[..digits].parse().map_err(|_| ValueFault::Overflow)?;
    let (unit_us, unit_len): (u64, usize) = match &text.as_bytes()[digits..] {
        [] => match unit {
            TimeUnit::Us => (1, 0),
            TimeUnit::Ms => (1_000, 0),
            TimeUnit::S => (1_000_000, 0),
        },
        [b'u', b's', ..] => (1, 2),
        [b'm', b's', ..] => (1_000, 2),
        [b's', ..] => (1_000_000, 1),
        [b'm', ..] => (60_000_000, 1),
        [b'h', ..] => (3_600_000_000, 1),
        [b'd', ..] => (86_400_000_000, 1),
        _ => (1, 0),
    };
    match text[digits + unit_len..].chars().next() {
        Some(c) => Err(ValueFault::Char(digits + unit_len, c)),
        None => number.checked_mul(unit_us).ok_or(ValueFault::Overflow),
    }
}

/// Reads a time in milliseconds, rounded up.
pub fn parse_time_ms(text: &str, unit: TimeUnit) -> Result<u64, ValueFault> {
    let us = parse_time_us(text, unit)?;
    let ms = us.div_ceil(1_000);
    match us {
        1..1_000 => Err(ValueFault::Underflow),
        _ if ms > TIME_MAX_MS => Err(ValueFault::Overflow),
        _ => Ok(ms),
    }
}

/// Reads a size in bytes: a number with an optional `k`, `m` or `g`.
pub fn parse_size(text: &str) -> Result<u64, ValueFault> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    if digits == 0 {
        return Err(match text.chars().next() {
            Some(c) => ValueFault::Char(0, c),
            None => ValueFault::Empty,
        });
    }
    let number: u64 = text[..digits].parse().map_err(|_| ValueFault::Overflow)?;
    let (shift, unit_len) = match text.as_bytes().get(digits) {
        Some(b'k' | b'K') => (10, 1),
        Some(b'm' | b'M') => (20, 1),
        Some(b'g' | b'G') => (30, 1),
        _ => (0, 0),
    };
    match text[digits + unit_len..].chars().next() {
        Some(c) => Err(ValueFault::Char(digits + unit_len, c)),
        None => number.checked_mul(1 << shift).ok_or(ValueFault::Overflow),
    }
}

/// Reads an integer as C's `atol` users write them: an optional sign and digits, nothing else.
pub fn parse_int(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

/// What a value belongs to, for messages: the keyword, or the word before the value where that names it (`weight`).
fn subject(line: &Line, word: usize) -> String {
    let keyword = line.keyword();
    match word > line.keyword_len {
        true => format!("'{keyword}' : '{}'", line.word(word - 1)),
        false => format!("'{keyword}'"),
    }
}

/// Keywords that HAProxy lets anything follow: files that it accepts start here too, with a warning.
const TAKES_ANYTHING_BEHIND: [&str; 24] = [
    "balance",
    "capture cookie",
    "clitcpka-cnt",
    "clitcpka-idle",
    "clitcpka-intvl",
    "declare capture request",
    "declare capture response",
    "dynamic-cookie-key",
    "errorfile",
    "errorloc",
    "errorloc302",
    "errorloc303",
    "hash-balance-factor",
    "hash-type",
    "http-send-name-header",
    "log-tag",
    "max-keep-alive-queue",
    "option redispatch",
    "rate-limit sessions",
    "srvtcpka-cnt",
    "srvtcpka-idle",
    "srvtcpka-intvl",
    "tcp-request inspect-delay",
    "unique-id-header",
];

impl Cx<'_> {
    /// The word must be there; `what` says what it would be ("an address").
    pub fn need<'l>(&mut self, line: &'l Line, word: usize, what: &str) -> Option<&'l str> {
        match line.word(word) {
            "" => {
                self.error_at(
                    line,
                    word,
                    format!("'{}' expects {what} as argument.", line.keyword()),
                );
                None
            }
            text => Some(text),
        }
    }

    /// Nothing may follow: complains about the first word from `word` on.
    pub fn no_more(&mut self, line: &Line, word: usize) -> bool {
        if !line.has(word) {
            return true;
        }
        let keyword = line.keyword();
        let in_proxy = self.section().intersects(Sections::ALL_PROXIES);
        if in_proxy && TAKES_ANYTHING_BEHIND.contains(&keyword.as_str()) {
            let message = format!("'{keyword}' ignores the argument '{}'.", line.word(word));
            self.warn(line, word, message, Some("take it out".into()));
            return true;
        }
        self.error_at(
            line,
            word,
            format!(
                "'{}' cannot handle unexpected argument '{}'.",
                line.keyword(),
                line.word(word)
            ),
        );
        false
    }

    /// An integer within bounds.
    pub fn int(&mut self, line: &Line, word: usize, bounds: RangeInclusive<i64>) -> Option<i64> {
        let (low, high) = (*bounds.start(), *bounds.end());
        let text = line.word(word);
        match parse_int(text) {
            Some(n) if bounds.contains(&n) => Some(n),
            found => {
                let got = match (text, found) {
                    ("", _) => "nothing was given".to_owned(),
                    (text, Some(_)) => format!("'{text}' is out of range"),
                    (text, None) => format!("'{text}' is not an integer"),
                };
                let range = match (low, high) {
                    (i64::MIN, i64::MAX) => "an integer".to_owned(),
                    (0, h) if h >= i64::from(i32::MAX) => "a non-negative integer".to_owned(),
                    (1, h) if h >= i64::from(i32::MAX) => "a positive integer".to_owned(),
                    (low, high) => format!("an integer between {low} and {high}"),
                };
                self.error(
                    line,
                    word,
                    0..0,
                    format!("{} expects {range} as argument.", subject(line, word)),
                    Some(got),
                );
                None
            }
        }
    }

    /// Like [`Cx::int`] for a `u32` (upper bound at most `u32::MAX`).
    pub fn uint(&mut self, line: &Line, word: usize, bounds: RangeInclusive<u32>) -> Option<u32> {
        self.int(
            line,
            word,
            i64::from(*bounds.start())..=i64::from(*bounds.end()),
        )
        .and_then(|n| u32::try_from(n).ok())
    }

    /// A time in milliseconds; a bare number has the given unit.
    pub fn time_ms(&mut self, line: &Line, word: usize, unit: TimeUnit) -> Option<u64> {
        let text = line.word(word);
        match parse_time_ms(text, unit) {
            Ok(ms) => Some(ms),
            Err(fault) => {
                self.value_fault(line, word, fault, "a time such as 500ms, 10s, 5m, 1h or 1d");
                None
            }
        }
    }

    /// A time in whole seconds (rounded up); a bare number is in seconds.
    pub fn time_s(&mut self, line: &Line, word: usize) -> Option<u32> {
        match parse_time_us(line.word(word), TimeUnit::S) {
            Ok(us) => match u32::try_from(us.div_ceil(1_000_000)) {
                Ok(s) => Some(s),
                Err(_) => {
                    self.value_fault(line, word, ValueFault::Overflow, "a time");
                    None
                }
            },
            Err(fault) => {
                self.value_fault(line, word, fault, "a time such as 30s, 5m, 1h or 1d");
                None
            }
        }
    }

    /// A size in bytes.
    pub fn size(&mut self, line: &Line, word: usize) -> Option<u64> {
        match parse_size(line.word(word)) {
            Ok(n) => Some(n),
            Err(fault) => {
                self.value_fault(
                    line,
                    word,
                    fault,
                    "a size in bytes such as 16384, 16k or 1m",
                );
                None
            }
        }
    }

    /// `on` or `off`.
    pub fn on_off(&mut self, line: &Line, word: usize) -> Option<bool> {
        match line.word(word) {
            "on" => Some(true),
            "off" => Some(false),
            other => {
                self.error_at(
                    line,
                    word,
                    format!(
                        "'{}' expects either 'on' or 'off' but got '{other}'.",
                        line.keyword()
                    ),
                );
                None
            }
        }
    }

    fn value_fault(&mut self, line: &Line, word: usize, fault: ValueFault, what: &str) {
        let name = subject(line, word);
        let text = line.word(word);
        let (span, message) = match fault {
            ValueFault::Empty => (0..0, format!("{name} expects {what} as argument.")),
            ValueFault::Char(at, c) => (
                at..at + c.len_utf8(),
                format!("unexpected character '{c}' in {name}"),
            ),
            ValueFault::Overflow => (0..0, format!("overflow in argument '{text}' to {name}")),
            ValueFault::Underflow => (
                0..0,
                format!(
                    "timer underflow in argument '{text}' to {name} (minimum non-null value is 1 ms)"
                ),
            ),
        };
        self.error(line, word, span, message, Some(format!("expected {what}")));
    }

    /// A name of letters, digits and `-_.:`; complains about the first other character.
    pub fn name(&mut self, line: &Line, word: usize, what: &str) -> Option<String> {
        let text = self.need(line, word, what)?;
        match text.char_indices().find(|(_, c)| !is_name_char(*c)) {
            None => Some(text.to_owned()),
            Some((at, c)) => {
                self.error(
                    line,
                    word,
                    at..at + c.len_utf8(),
                    format!(
                        "character '{c}' is not permitted in '{}' name '{text}'.",
                        line.keyword()
                    ),
                    Some("a name is made of letters, digits, '-', '_', '.' and ':'".into()),
                );
                None
            }
        }
    }
}

/// Characters allowed in the name of a proxy, server or list.
pub fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        let check = |text, expect| assert_eq!(parse_time_ms(text, TimeUnit::Ms), expect, "{text}");
        check("0", Ok(0));
        check("10", Ok(10));
        check("10s", Ok(10_000));
        check("1500us", Ok(2));
        check("1us", Err(ValueFault::Underflow));
        check("24d", Ok(24 * 86_400_000));
        check("25d", Err(ValueFault::Overflow));
        check("99999999999999999999", Err(ValueFault::Overflow));
        check("10z", Err(ValueFault::Char(2, 'z')));
        check("10msx", Err(ValueFault::Char(4, 'x')));
        check("10\u{e9}", Err(ValueFault::Char(2, '\u{e9}')));
        check("", Err(ValueFault::Empty));
        assert_eq!(parse_time_ms("3", TimeUnit::S), Ok(3_000));
    }

    #[test]
    fn sizes_have_units() {
        assert_eq!(parse_size("16k"), Ok(16384));
        assert_eq!(parse_size("1g"), Ok(1 << 30));
        assert_eq!(parse_size("17179869184g"), Err(ValueFault::Overflow));
        assert_eq!(parse_size("5x"), Err(ValueFault::Char(1, 'x')));
    }
}
