//! Diagnostics: HAProxy's first line, then the source line with carets under what is meant, then a hint.

use std::fmt::{self, Write as _};
use std::ops::Range;
use std::sync::Arc;

use crate::model::Origin;

/// How grave it is. Only an alert stops the start (and a warning under `zero-warning`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Shown with `-dD` only.
    Diag,
    Notice,
    Warning,
    Alert,
}

impl Severity {
    /// The tag with the padding HAProxy gives it.
    pub fn tag(self) -> &'static str {
        match self {
            Severity::Diag => "[DIAG]     ",
            Severity::Notice => "[NOTICE]   ",
            Severity::Warning => "[WARNING]  ",
            Severity::Alert => "[ALERT]    ",
        }
    }

    fn colour(self) -> &'static str {
        match self {
            Severity::Diag | Severity::Notice => "\x1b[36m",
            Severity::Warning => "\x1b[33m",
            Severity::Alert => "\x1b[31m",
        }
    }
}

/// The part of the source a diagnostic points at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Excerpt {
    /// The whole line as written.
    pub source: Arc<str>,
    /// Byte range in it.
    pub span: Range<usize>,
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    pub severity: Severity,
    /// `None` for what concerns no line.
    pub origin: Option<Origin>,
    /// What HAProxy prints after `parsing [file:line] : ` (or after `config : ` without an origin).
    pub message: String,
    pub excerpt: Option<Excerpt>,
    /// Why, or what to write instead.
    pub hint: Option<String>,
}

/// How diagnostics are shown.
#[derive(Debug, Clone, Copy, Default)]
pub struct RenderOptions {
    pub pid: u32,
    /// ANSI colours; the caller knows whether it writes to a terminal.
    pub colour: bool,
    /// HAProxy's single lines, without excerpt and hint.
    pub terse: bool,
}

impl Diagnostic {
    /// The first line, without the severity's tag.
    pub fn headline(&self) -> String {
        match &self.origin {
            Some(at) => format!("parsing [{}:{}] : {}", at.file, at.line, self.message),
            None => self.message.clone(),
        }
    }

    /// The whole diagnostic, each line ended by a line feed.
    pub fn render(&self, opts: RenderOptions) -> String {
        let mut out = String::new();
        // Writing to a String cannot fail.
        let _ = self.render_to(&mut out, opts);
        out
    }

    fn render_to(&self, out: &mut String, opts: RenderOptions) -> fmt::Result {
        let (on, bold, off) = match opts.colour {
            true => (self.severity.colour(), "\x1b[1m", "\x1b[0m"),
            false => ("", "", ""),
        };
        writeln!(
            out,
            "{on}{}{off}({}) : config : {bold}{}{off}",
            self.severity.tag(),
            opts.pid,
            self.headline()
        )?;
        if opts.terse {
            return Ok(());
        }
        let number = self.origin.as_ref().map_or(0, |at| at.line);
        let gutter = number.to_string().len().max(3);
        if let Some(excerpt) = &self.excerpt {
            let (text, start, len) = window(&excerpt.source, excerpt.span.clone());
            writeln!(out, " {number:>gutter$} | {text}")?;
            writeln!(
                out,
                " {:>gutter$} | {}{on}{}{off}",
                "",
                " ".repeat(start),
                "^".repeat(len)
            )?;
        }
        if let Some(hint) = &self.hint {
            for (n, line) in wrap(hint).iter().enumerate() {
                let mark = if n == 0 { "=" } else { " " };
                writeln!(out, " {:>gutter$} {mark} {line}", "")?;
            }
        }
        Ok(())
    }
}

/// Columns of a hint's lines.
const HINT_COLUMNS: usize = 110;

/// Breaks a long hint (a list of keywords) at its blanks.
fn wrap(hint: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for line in hint.lines() {
        let mut current = String::new();
        for word in line.split(' ') {
            if !current.is_empty() && current.len() + 1 + word.len() > HINT_COLUMNS {
                lines.push(std::mem::take(&mut current));
            }
            if !current.is_empty() {
                current.push(' ');
            }
            current.push_str(word);
        }
        lines.push(current);
    }
    lines
}

/// Columns shown of a line: a longer one is cut around its span.
const COLUMNS_MAX: usize = 160;

/// The printable part of a source line around a span, the caret's column in it, and how many carets to draw.
fn window(source: &str, span: Range<usize>) -> (String, usize, usize) {
    // One column a character: tabs become one space, control characters a middle dot, so that carets line up.
    let mut columns: Vec<char> = Vec::new();
    let (mut start, mut end) = (None, None);
    for (at, c) in source.char_indices() {
        if at >= span.start && start.is_none() {
            start = Some(columns.len());
        }
        if at >= span.end && end.is_none() {
            end = Some(columns.len());
        }
        columns.push(match c {
            '\t' => ' ',
            c if c.is_control() => '\u{b7}',
            c => c,
        });
    }
    let start = start.unwrap_or(columns.len());
    let end = end.unwrap_or(columns.len()).max(start + 1);
    let indent = columns.iter().take_while(|c| **c == ' ').count().min(start);
    let from = match end > indent + COLUMNS_MAX {
        true => start.saturating_sub(COLUMNS_MAX / 3).max(indent),
        false => indent,
    };
    let to = columns.len().min(from + COLUMNS_MAX);
    let mut text = String::from("    ");
    let mut shift = 4;
    if from > indent {
        text.push_str("... ");
        shift += 4;
    }
    text.extend(&columns[from..to]);
    if to < columns.len() {
        text.push_str(" ...");
    }
    let start = start.min(to);
    let len = end.min(to.max(start + 1)) - start;
    (text, start - from + shift, len.max(1))
}

/// The name in `among` that a misspelt word most likely meant.
pub fn suggest<'a>(word: &str, among: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = match word.chars().count() {
        0 => return None,
        1..=2 => 1,
        3..=5 => 2,
        n => n / 3,
    };
    among
        .into_iter()
        .map(
            |name| match name.starts_with(word) && word.chars().count() >= 3 {
                // What was only begun is near, however much is missing.
                true => (1, name),
                false => (distance(word, name), name),
            },
        )
        .filter(|(d, name)| *d <= limit && *d < name.chars().count())
        .min_by_key(|(d, _)| *d)
        .map(|(_, name)| name)
}

/// Edits (insert, delete, replace, swap of neighbours) between two words; long garbage is not compared.
fn distance(a: &str, b: &str) -> usize {
    const LONGEST: usize = 64;
    let (a, b): (Vec<char>, Vec<char>) = (
        a.chars().take(LONGEST + 1).collect(),
        b.chars().take(LONGEST + 1).collect(),
    );
    if a.len() > LONGEST || b.len() > LONGEST {
        return usize::MAX;
    }
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let same = a[i - 1] == b[j - 1];
            let mut best = (above[j - 1] + usize::from(!same))
                .min(above[j] + 1)
                .min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(before[j - 2] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut above, row);
    }
    above[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggestions_are_near() {
        let check = |word, expect| {
            let names = ["maxconn", "maxpipes", "bind", "balance", "backlog"];
            assert_eq!(suggest(word, names), expect, "{word}");
        };
        check("maxconnn", Some("maxconn"));
        check("bnid", Some("bind"));
        check("blance", Some("balance"));
        check("foo", None);
        check("", None);
        check(&"x".repeat(10_000), None);
    }

    #[test]
    fn carets_stand_under_the_word() {
        let d = Diagnostic {
            severity: Severity::Alert,
            origin: Some(Origin {
                file: "a.cfg".into(),
                line: 7,
            }),
            message: "unknown keyword 'bnid' in 'frontend' section".into(),
            excerpt: Some(Excerpt {
                source: "\tbnid \u{e9}:80".into(),
                span: 6..8,
            }),
            hint: Some("reason".into()),
        };
        let shown = d.render(RenderOptions {
            pid: 1,
            ..Default::default()
        });
        assert_eq!(
            shown,
            "[ALERT]    (1) : config : parsing [a.cfg:7] : unknown keyword 'bnid' in 'frontend' section\n\
             \x20  7 |     bnid \u{e9}:80\n\
             \x20    |          ^\n\
             \x20    = reason\n"
        );
    }
}
