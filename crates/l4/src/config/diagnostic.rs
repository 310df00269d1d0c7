//! What the reader of a keepalived.conf is told: a line, a caret, a reason.
//!
//! Four severities, because two questions are asked of a file. `check` answers what `keepalived -t` answers (is this a
//! configuration without complaint?), `run` answers whether this program can do what the file says.

use std::fmt;
use std::sync::Arc;

/// How bad a finding is, and for whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Worth knowing; neither `check` nor `run` minds.
    Warning,
    /// `keepalived -t` is content and this program cannot do it (mostly: not yet): `check` accepts and says so, `run` refuses.
    Unsupported,
    /// `keepalived -t` complains, a running keepalived goes on: `check` rejects, `run` says it and goes on.
    Dubious,
    /// Wrong: both refuse.
    Error,
}

/// Where a finding points: a stretch of one line as the parser saw it, after parameters were replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub file: Arc<str>,
    /// 1-based.
    pub line: u32,
    /// The text of the line after substitution.
    pub text: Arc<str>,
    /// Byte offset and length within `text`.
    pub column: usize,
    pub length: usize,
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    pub severity: Severity,
    pub message: String,
    pub place: Option<Place>,
}

impl Diagnostic {
    pub fn new(severity: Severity, place: Option<Place>, message: impl Into<String>) -> Self {
        Diagnostic {
            severity,
            message: message.into(),
            place,
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Severity::Warning => "warning",
            Severity::Unsupported => "cannot run",
            Severity::Dubious => "complaint",
            Severity::Error => "error",
        })
    }
}

impl fmt::Display for Diagnostic {
    /// `file:line:column: severity: reason`, then the line and the caret under it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(place) = &self.place else {
            return write!(f, "{}: {}", self.severity, self.message);
        };
        let before: String = place.text.chars().take_while_bytes(place.column).collect();
        let column = before.chars().count() + 1;
        writeln!(
            f,
            "{}:{}:{}: {}: {}",
            place.file, place.line, column, self.severity, self.message
        )?;
        writeln!(f, "    {}", place.text.replace('\t', " "))?;
        let width = place
            .text
            .get(place.column..place.column + place.length)
            .map_or(1, |s| s.chars().count())
            .max(1);
        write!(
            f,
            "    {}{}",
            " ".repeat(column - 1),
            "^".repeat(width.min(80))
        )
    }
}

/// Characters of a string up to a byte offset, never splitting one.
trait TakeBytes: Iterator<Item = char> + Sized {
    fn take_while_bytes(self, bytes: usize) -> TakeWhileBytes<Self> {
        TakeWhileBytes {
            inner: self,
            left: bytes,
        }
    }
}
impl<I: Iterator<Item = char>> TakeBytes for I {}

struct TakeWhileBytes<I> {
    inner: I,
    left: usize,
}

impl<I: Iterator<Item = char>> Iterator for TakeWhileBytes<I> {
    type Item = char;
    fn next(&mut self) -> Option<char> {
        if self.left == 0 {
            return None;
        }
        let c = self.inner.next()?;
        self.left = self.left.saturating_sub(c.len_utf8());
        Some(c)
    }
}

/// The nearest of `names` to `word`, for "did you mean"; none if nothing is near.
pub fn nearest<'a>(word: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let limit = 1 + word.len() / 4;
    names
        .map(|name| (distance(word, name), name))
        .filter(|(d, _)| *d <= limit)
        .min_by_key(|(d, _)| *d)
        .map(|(_, name)| name)
}

/// Levenshtein distance, in bytes: keywords are ASCII.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = i;
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
        for (j, y) in b.bytes().enumerate() {
            let left = row[j];
            let up = row[j + 1];
            row[j + 1] = (diagonal + usize::from(x != y)).min(left + 1).min(up + 1);
            diagonal = up;
        }
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_caret_stands_under_the_word() {
        let d = Diagnostic::new(
            Severity::Error,
            Some(Place {
                file: "a.conf".into(),
                line: 3,
                text: "  prio 300".into(),
                column: 7,
                length: 3,
            }),
            "too much",
        );
        assert_eq!(
            d.to_string(),
            "a.conf:3:8: error: too much\n      prio 300\n           ^^^"
        );
    }

    #[test]
    fn a_typo_finds_its_keyword() {
        let names = ["delay_loop", "lb_algo", "lb_kind"];
        assert_eq!(
            nearest("delay_lop", names.iter().copied()),
            Some("delay_loop")
        );
        assert_eq!(nearest("frobnicate", names.iter().copied()), None);
    }
}
