//! Sizes, durations, rates: as people type them on the command line and as reports print them.
//!
//! Owns the suffixes (`k m g` are powers of 1024, as in HAProxy's `tune.*` sizes; `us ms s m h` for
//! times). Leaves out everything about what the numbers mean.

use std::time::Duration;

/// Parses `SIZE` with an optional `k`, `m` or `g` suffix (powers of 1024) into bytes.
///
/// # Errors
/// A sentence naming the text when it is no number, has an unknown suffix or exceeds 64 bits.
pub fn parse_size(text: &str) -> Result<u64, String> {
    size_of_bytes(text.as_bytes()).ok_or_else(|| {
        format!("'{text}' is not a size: give a number with an optional k, m or g suffix")
    })
}

/// Parses a count or rate: a number, with a fraction if need be, and an optional `k`, `m` or `g` (thousands, millions,
/// billions: what is counted comes in tens, unlike bytes).
///
/// # Errors
/// A sentence naming the text when it is no positive number.
pub fn parse_rate(text: &str) -> Result<f64, String> {
    let (digits, factor) = match text.char_indices().next_back() {
        Some((at, 'k' | 'K')) => (&text[..at], 1e3),
        Some((at, 'm' | 'M')) => (&text[..at], 1e6),
        Some((at, 'g' | 'G')) => (&text[..at], 1e9),
        _ => (text, 1.0),
    };
    let plain = digits.bytes().all(|c| c.is_ascii_digit() || c == b'.');
    let number = digits.parse::<f64>().ok().filter(|n| plain && *n > 0.0);
    number
        .map(|n| n * factor)
        .ok_or_else(|| format!("'{text}' is not a number above 0, such as 500, 10k or 1.5m"))
}

/// [`parse_rate`] for what comes in whole pieces.
///
/// # Errors
/// As [`parse_rate`], and when it is no whole number.
pub fn parse_count(text: &str) -> Result<u64, String> {
    let number = parse_rate(text)?;
    if number.fract() != 0.0 || number >= u64::MAX as f64 {
        return Err(format!("'{text}' is not a whole number"));
    }
    Ok(number as u64)
}

/// [`parse_size`] for bytes that came in a query string.
#[must_use]
pub fn size_of_bytes(text: &[u8]) -> Option<u64> {
    let (digits, shift) = match text.split_last()? {
        (b'k' | b'K', rest) => (rest, 10),
        (b'm' | b'M', rest) => (rest, 20),
        (b'g' | b'G', rest) => (rest, 30),
        _ => (text, 0),
    };
    number_of_bytes(digits)?.checked_mul(1u64 << shift)
}

/// A plain decimal number without sign.
#[must_use]
pub fn number_of_bytes(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |total, &digit| {
        let value = digit.wrapping_sub(b'0');
        if value > 9 {
            return None;
        }
        total.checked_mul(10)?.checked_add(u64::from(value))
    })
}

/// Parses a time: `250us`, `10ms`, `5s`, `2m`, `1h`; a bare number is seconds and may have a fraction.
///
/// # Errors
/// A sentence naming the text when it is no time.
pub fn parse_time(text: &str) -> Result<Duration, String> {
    let bad = || format!("'{text}' is not a time: give a number with us, ms, s, m or h");
    let split = text
        .find(|c: char| c.is_ascii_alphabetic())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let number: f64 = number.parse().map_err(|_| bad())?;
    let unit_s = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err(bad()),
    };
    Duration::try_from_secs_f64(number * unit_s).map_err(|_| bad())
}

/// Bytes with a binary suffix, three significant digits: `64 B`, `16 KiB`, `1.5 MiB`.
#[must_use]
pub fn show_size(bytes: u64) -> String {
    let mut value = bytes as f64;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if value < 1024.0 {
            let decimals = usize::from(value.fract() != 0.0 && value < 100.0);
            return format!("{value:.decimals$} {unit}");
        }
        value /= 1024.0;
    }
    format!("{value:.1} TiB")
}

/// A count or rate with a decimal suffix and three digits: `950`, `12.3k`, `4.56M`.
#[must_use]
pub fn show_count(value: f64) -> String {
    let (scaled, suffix) = match value.abs() {
        v if v < 1e4 => return format!("{value:.0}"),
        v if v < 1e6 => (value / 1e3, "k"),
        v if v < 1e9 => (value / 1e6, "M"),
        _ => (value / 1e9, "G"),
    };
    let decimals = match scaled.abs() {
        v if v < 10.0 => 2,
        v if v < 100.0 => 1,
        _ => 0,
    };
    format!("{scaled:.decimals$}{suffix}")
}

/// A time in nanoseconds with the unit that leaves one to three digits before the point.
#[must_use]
pub fn show_ns(ns: u64) -> String {
    match ns {
        0..1_000 => format!("{ns}ns"),
        1_000..1_000_000 => format!("{:.1}us", ns as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.2}ms", ns as f64 / 1e6),
        _ => format!("{:.2}s", ns as f64 / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        let check =
            |text: &str, expect: Option<u64>| assert_eq!(parse_size(text).ok(), expect, "{text}");
        check("0", Some(0));
        check("16k", Some(16384));
        check("1M", Some(1 << 20));
        check("4g", Some(4 << 30));
        check("", None);
        check("k", None);
        check("-1", None);
        check("12x", None);
        check("99999999999999999999", None);
        check("99999999999g", None);
    }

    #[test]
    fn counts() {
        let check = |text: &str, expect: Option<u64>| {
            assert_eq!(parse_count(text).ok(), expect, "{text}");
        };
        check("500", Some(500));
        check("10k", Some(10_000));
        check("1.5M", Some(1_500_000));
        check("2g", Some(2_000_000_000));
        check("1.5", None);
        check("0", None);
        check("-1", None);
        check("inf", None);
        check("k", None);
        check("", None);
        check("10kk", None);
        assert_eq!(parse_rate("0.5"), Ok(0.5));
    }

    #[test]
    fn times() {
        let check = |text: &str, ms: Option<f64>| {
            assert_eq!(
                parse_time(text).ok().map(|d| d.as_secs_f64() * 1e3),
                ms,
                "{text}"
            );
        };
        check("10ms", Some(10.0));
        check("1.5", Some(1500.0));
        check("2m", Some(120_000.0));
        check("-1s", None);
        check("5 parsecs", None);
    }

    #[test]
    fn shown() {
        assert_eq!(show_size(64), "64 B");
        assert_eq!(show_size(16384), "16 KiB");
        assert_eq!(show_size(1536 * 1024), "1.5 MiB");
        assert_eq!(show_count(9_500.0), "9500");
        assert_eq!(show_count(12_345.0), "12.3k");
        assert_eq!(show_count(4.0e8), "400M");
        assert_eq!(show_count(4_560_000.0), "4.56M");
        assert_eq!(show_ns(1_500), "1.5us");
        assert_eq!(show_ns(2_340_000), "2.34ms");
    }
}
