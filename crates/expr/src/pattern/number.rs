//! Integer patterns: numbers, ranges and the comparison operators of ACLs; versions like `3.1` (manual 7.1.2).

use std::ops::RangeInclusive;

/// The numbers a pattern stands for.
pub type Range = RangeInclusive<i64>;

/// How a list of integers is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Notation {
    /// `5`, `5:7`, `5:`, `:7`
    Plain,
    /// `3.1`: major and minor, compared as one number of 16 bits each (`req.ssl_ver`).
    Dotted,
}

/// The range behind a pattern. A `-` separates the bounds as a `:` does: `-5` is "at most 5", and a negative bound can
/// only follow a separator.
pub fn parse(text: &str, notation: Notation) -> Result<Range, String> {
    let one = |s: &str| match notation {
        Notation::Plain => integer(s),
        Notation::Dotted => version(s),
    };
    let not_a_range = || format!("'{text}' is not a valid number range");
    let Some(at) = text.find([':', '-']) else {
        let n = one(text).ok_or_else(|| match notation {
            Notation::Plain => format!("'{text}' is not a number"),
            Notation::Dotted => format!("'{text}' is not a version number such as 3.1"),
        })?;
        return Ok(n..=n);
    };
    let (low, high) = (&text[..at], &text[at + 1..]);
    if low.is_empty() && high.is_empty() {
        return Err(not_a_range());
    }
    let bound = |s: &str, open: i64| match s {
        "" => Some(open),
        s => one(s),
    };
    let low = bound(low, i64::MIN).ok_or_else(not_a_range)?;
    let high = bound(high, i64::MAX).ok_or_else(not_a_range)?;
    if low > high {
        return Err(not_a_range());
    }
    Ok(low..=high)
}

/// An optional sign and digits, nothing else.
fn integer(s: &str) -> Option<i64> {
    let digits = s.strip_prefix(['+', '-']).unwrap_or(s);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    s.parse().ok()
}

/// `major[.minor]`, each below 65536.
fn version(s: &str) -> Option<i64> {
    let (major, minor) = s.split_once('.').unwrap_or((s, "0"));
    let part = |s: &str| integer(s).filter(|n| (0..65536).contains(n) && !s.starts_with('+'));
    Some(part(major)? << 16 | part(minor)?)
}

/// A comparison operator before the patterns of an ACL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    Eq,
    Ge,
    Gt,
    Le,
    Lt,
}

impl Operator {
    pub fn parse(word: &str) -> Option<Operator> {
        Some(match word {
            "eq" => Operator::Eq,
            "ge" => Operator::Ge,
            "gt" => Operator::Gt,
            "le" => Operator::Le,
            "lt" => Operator::Lt,
            _ => return None,
        })
    }

    /// Rewrites `pattern` into the range this operator makes of it (`lt 5` is `:4`), which is also how `show acl`
    /// names it. A pattern that is a range already stays as it is.
    pub fn apply(self, pattern: &str, notation: Notation) -> Result<String, String> {
        if self == Operator::Eq || pattern.contains([':', '-']) {
            return Ok(pattern.to_owned());
        }
        let range = parse(pattern, notation)?;
        let n = *range.start();
        let write = |n: i64| match notation {
            Notation::Plain => n.to_string(),
            Notation::Dotted => format!("{}.{}", n >> 16, n & 0xffff),
        };
        let nothing = || format!("no number is '{}' {pattern}", self.name());
        Ok(match self {
            Operator::Eq => write(n),
            Operator::Ge => format!("{}:", write(n)),
            Operator::Gt => format!("{}:", write(n.checked_add(1).ok_or_else(nothing)?)),
            Operator::Le => format!(":{}", write(n)),
            Operator::Lt => format!(":{}", write(n.checked_sub(1).ok_or_else(nothing)?)),
        })
    }

    pub fn name(self) -> &'static str {
        match self {
            Operator::Eq => "eq",
            Operator::Ge => "ge",
            Operator::Gt => "gt",
            Operator::Le => "le",
            Operator::Lt => "lt",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: Range) {
        assert_eq!(parse(text, Notation::Plain), Ok(expect), "{text}");
    }

    #[test]
    fn ranges() {
        check("5", 5..=5);
        check("+5", 5..=5);
        check("5:7", 5..=7);
        check("5-7", 5..=7);
        check("5:", 5..=i64::MAX);
        check(":7", i64::MIN..=7);
        check(":-1", i64::MIN..=-1);
        check("-5", i64::MIN..=5);
        check("5:5", 5..=5);
        for bad in [
            "",
            ":",
            "-",
            "7:3",
            "a",
            "5:a",
            "1:2:3",
            "5 ",
            "0x5",
            "99999999999999999999",
        ] {
            assert!(parse(bad, Notation::Plain).is_err(), "{bad}");
        }
    }

    #[test]
    fn versions() {
        let check = |text: &str, expect| assert_eq!(parse(text, Notation::Dotted), Ok(expect));
        check("3", 0x30000..=0x30000);
        check("3:3.1", 0x30000..=0x30001);
        check("3.1:", 0x30001..=i64::MAX);
        assert!(parse("3.1.2", Notation::Dotted).is_err());
        assert!(parse("3.65536", Notation::Dotted).is_err());
    }

    #[test]
    fn operators_become_ranges() {
        let check = |op: &str, pattern: &str, expect: &str| {
            let op = Operator::parse(op).unwrap();
            assert_eq!(op.apply(pattern, Notation::Plain).as_deref(), Ok(expect));
        };
        check("eq", "5", "5");
        check("ge", "5", "5:");
        check("gt", "5", "6:");
        check("le", "5", ":5");
        check("lt", "5", ":4");
        check("lt", "0", ":-1");
        // As they are: a range, and what only looks like a negative number.
        check("gt", "5:7", "5:7");
        check("lt", "-5", "-5");
        assert!(
            Operator::Gt
                .apply("9223372036854775807", Notation::Plain)
                .is_err()
        );
        assert_eq!(
            Operator::Lt.apply("3.1", Notation::Dotted).as_deref(),
            Ok(":3.0")
        );
    }
}
