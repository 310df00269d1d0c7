//! The format of pattern files and map files (manual chapter 7.1, `-f` and `-M`; chapter 7.3.1, `map`).
//!
//! A line is an entry. Spaces and tabs before it are skipped, empty lines and those that begin with `#` in the first
//! column are no entries. In a map the pattern ends at the first space or tab and the rest is its value.

use crate::compile::ParseCtx;

/// Whether the lines have values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Columns {
    Pattern,
    PatternAndValue,
}

/// What to do about a pattern file or map that does not load, when it is the file itself that is missing.
pub fn file_hint(path: &str, ctx: &ParseCtx<'_>) -> Option<&'static str> {
    let missing = ctx.loader.load(path).is_err();
    missing.then_some("it is read when the configuration is; an empty file is a list of nothing")
}

/// The entries of a file, in order: `(pattern, value)`.
pub(super) fn entries(text: &[u8], columns: Columns) -> impl Iterator<Item = (&[u8], &[u8])> {
    text.split(|b| matches!(b, b'\n' | b'\r'))
        .filter_map(move |line| entry(line, columns))
}

/// The number of the line, counted from 1, that has this pattern.
pub(super) fn line_of(text: &[u8], columns: Columns, pattern: &[u8]) -> Option<usize> {
    let has = |line: &[u8]| entry(line, columns).is_some_and(|(p, _)| p == pattern);
    let at = text
        .split(|b| *b == b'\n')
        .position(|line| has(line.strip_suffix(b"\r").unwrap_or(line)))?;
    Some(at + 1)
}

fn entry(line: &[u8], columns: Columns) -> Option<(&[u8], &[u8])> {
    if line.first() == Some(&b'#') {
        return None;
    }
    let line = skip_blanks(line);
    if line.is_empty() {
        return None;
    }
    match columns {
        Columns::Pattern => Some((line, b"")),
        Columns::PatternAndValue => {
            let end = line.iter().position(is_blank).unwrap_or(line.len());
            let (pattern, rest) = line.split_at(end);
            let mut value = skip_blanks(rest);
            while let [head @ .., last] = value
                && is_blank(last)
            {
                value = head;
            }
            Some((pattern, value))
        }
    }
}

fn is_blank(b: &u8) -> bool {
    matches!(b, b' ' | b'\t')
}

fn skip_blanks(line: &[u8]) -> &[u8] {
    let from = line.iter().position(|b| !is_blank(b)).unwrap_or(line.len());
    &line[from..]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, columns: Columns, expect: &[(&str, &str)]) {
        let got: Vec<(&str, &str)> = entries(text.as_bytes(), columns)
            .map(|(k, v)| {
                let s = |b| std::str::from_utf8(b).unwrap();
                (s(k), s(v))
            })
            .collect();
        assert_eq!(got, expect, "{text:?}");
    }

    #[test]
    fn lists_and_maps() {
        // As `show acl` and `show map` of haproxy 2.6 give them back.
        let list = "#c\nfoo bar\n  lead\ntrail  \n\n\t\n #x\r\nfoo bar\n";
        check(
            list,
            Columns::Pattern,
            &[
                ("foo bar", ""),
                ("lead", ""),
                ("trail  ", ""),
                ("#x", ""),
                ("foo bar", ""),
            ],
        );
        let map = "#c\n  a b c \n\nkey value with  spaces \nkey2\tv2\nnoval\n #hash v\r\nlast one";
        check(
            map,
            Columns::PatternAndValue,
            &[
                ("a", "b c"),
                ("key", "value with  spaces"),
                ("key2", "v2"),
                ("noval", ""),
                ("#hash", "v"),
                ("last", "one"),
            ],
        );
        assert_eq!(
            line_of(map.as_bytes(), Columns::PatternAndValue, b"#hash"),
            Some(7)
        );
    }
}
