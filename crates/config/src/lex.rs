//! From a line of text to words: quoting, escapes, comments and environment variables (manual chapters 2.2 and 2.3).

use std::ops::Range;

use crate::environ::Environ;
use crate::line::Word;

/// Most words a line may have, as in HAProxy (MAX_LINE_ARGS).
pub const WORDS_MAX: usize = 64;

/// Longest line, after the variables were expanded. HAProxy grows its buffer with the line; this only keeps a
/// configuration that is no text (or expands a huge variable again and again) from taking all memory.
pub const LINE_MAX: usize = 1 << 20;

/// What is wrong with a line's text, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LexFault {
    pub span: Range<usize>,
    pub message: String,
    pub hint: Option<&'static str>,
}

impl LexFault {
    fn new(span: Range<usize>, message: impl Into<String>) -> Self {
        LexFault {
            span,
            message: message.into(),
            hint: None,
        }
    }
    fn hint(mut self, hint: &'static str) -> Self {
        self.hint = Some(hint);
        self
    }
}

/// Cuts a line (without its line feed) into words.
pub fn lex(source: &str, environ: &Environ) -> Result<Vec<Word>, LexFault> {
    let mut lexer = Lexer {
        source,
        bytes: source.as_bytes(),
        at: 0,
        environ,
        words: Vec::new(),
        word: None,
        written: 0,
    };
    lexer.run()?;
    Ok(lexer.words)
}

/// A word that is being read.
struct Open {
    bytes: Vec<u8>,
    columns: Vec<u32>,
    start: usize,
    /// A blank of `${X[*]}` ended it, at this column: what comes next begins another word.
    cut: Option<usize>,
}

struct Lexer<'a> {
    source: &'a str,
    bytes: &'a [u8],
    at: usize,
    environ: &'a Environ,
    words: Vec<Word>,
    word: Option<Open>,
    /// Bytes produced so far, against [`LINE_MAX`].
    written: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Quote {
    None,
    /// Where the quote was opened.
    Weak(usize),
    Strong(usize),
}

impl Lexer<'_> {
    fn run(&mut self) -> Result<(), LexFault> {
        let mut quote = Quote::None;
        while let Some(&byte) = self.bytes.get(self.at) {
            match (byte, quote) {
                (b' ' | b'\t', Quote::None) => {
                    self.end_word(self.at)?;
                    self.at += 1;
                }
                // Carriage returns before the line feed were cut off by the reader; one inside ends the line, as does
                // a comment.
                (b'#' | b'\r', Quote::None) => break,
                (b'"', Quote::None) => quote = self.quote(Quote::Weak(self.at)),
                (b'"', Quote::Weak(_)) | (b'\'', Quote::Strong(_)) => {
                    quote = Quote::None;
                    self.at += 1;
                }
                (b'\'', Quote::None) => quote = self.quote(Quote::Strong(self.at)),
                (b'\\', Quote::None | Quote::Weak(_)) => self.escape(quote)?,
                (b'$', Quote::Weak(_)) => self.variable()?,
                _ => self.push(byte, self.at, 1)?,
            }
        }
        match quote {
            Quote::None => self.end_word(self.at),
            Quote::Weak(at) | Quote::Strong(at) => Err(LexFault::new(
                at..at + 1,
                format!("unmatched quote at position {}:", at + 1),
            )
            .hint("close the quote on the same line, or write a backslash before it")),
        }
    }

    fn quote(&mut self, quote: Quote) -> Quote {
        self.open();
        self.at += 1;
        quote
    }

    fn open(&mut self) -> &mut Open {
        let start = self.at;
        self.word.get_or_insert_with(|| Open {
            bytes: Vec::new(),
            columns: Vec::new(),
            start,
            cut: None,
        })
    }

    /// Adds a byte to the word and moves over what it was written as.
    fn push(&mut self, byte: u8, column: usize, taken: usize) -> Result<(), LexFault> {
        self.written += 1;
        if self.written > LINE_MAX {
            return Err(LexFault::new(
                column..column + 1,
                format!("line too long, limit: {LINE_MAX}"),
            ));
        }
        if let Some(end) = self.word.as_ref().and_then(|w| w.cut) {
            self.end_word(end)?;
        }
        let word = self.open();
        word.bytes.push(byte);
        word.columns.push(column as u32);
        self.at += taken;
        Ok(())
    }

    fn end_word(&mut self, end: usize) -> Result<(), LexFault> {
        let Some(open) = self.word.take() else {
            return Ok(());
        };
        if self.words.len() >= WORDS_MAX {
            return Err(LexFault::new(
                open.start..end,
                format!(
                    "too many words, truncating after word {WORDS_MAX}, position {}",
                    open.start + 1
                ),
            ));
        }
        let (text, raw) = match String::from_utf8(open.bytes) {
            Ok(text) => (text, None),
            Err(e) => {
                let bytes = e.into_bytes();
                (String::from_utf8_lossy(&bytes).into_owned(), Some(bytes))
            }
        };
        self.words.push(Word {
            text,
            raw,
            span: open.start..end,
            columns: open.columns,
        });
        Ok(())
    }

    /// A backslash outside of strong quotes. Before anything it does not know it stands for itself.
    fn escape(&mut self, quote: Quote) -> Result<(), LexFault> {
        let start = self.at;
        let (byte, taken) = match self.bytes.get(start + 1) {
            Some(&b @ (b' ' | b'\t' | b'\\' | b'#' | b'\'' | b'"')) => (b, 2),
            Some(b'$') if quote != Quote::None => (b'$', 2),
            Some(b'n') => (b'\n', 2),
            Some(b'r') => (b'\r', 2),
            Some(b't') => (b'\t', 2),
            Some(b'x') => {
                let digit =
                    |at: usize| self.bytes.get(at).and_then(|b| char::from(*b).to_digit(16));
                match (digit(start + 2), digit(start + 3)) {
                    (Some(high), Some(low)) => ((high * 16 + low) as u8, 4),
                    _ => {
                        let end = self.bytes.len().min(start + 4);
                        return Err(LexFault::new(
                            start..end,
                            format!(
                                "truncated or invalid hexadecimal sequence at position {}:",
                                start + 1
                            ),
                        )
                        .hint("write two hexadecimal digits, as in \\x0a"));
                    }
                }
            }
            _ => (b'\\', 1),
        };
        self.push(byte, start, taken)
    }

    /// `$X`, `${X}`, `${X-default}`, `${X[*]}`, within weak quotes only.
    fn variable(&mut self) -> Result<(), LexFault> {
        let dollar = self.at;
        let braced = self.bytes.get(dollar + 1) == Some(&b'{');
        let name_at = dollar + 1 + usize::from(braced);
        let first = self.bytes.get(name_at).copied().unwrap_or(0);
        if !first.is_ascii_alphabetic() && first != b'_' && first != b'.' {
            return Err(LexFault::new(
                dollar..self.bytes.len().min(name_at + 1),
                format!(
                    "forbidden first char in environment variable name at position {}:",
                    name_at + 1
                ),
            )
            .hint("write \\$ for a dollar sign inside of double quotes"));
        }
        let name_len = 1 + self.bytes[name_at + 1..]
            .iter()
            .take_while(|b| b.is_ascii_alphanumeric() || **b == b'_')
            .count();
        let mut end = name_at + name_len;
        let value = self.environ.var(&self.source[name_at..end]);
        let mut default = None;
        let mut several = false;
        if braced {
            let unmatched = |end: usize| {
                LexFault::new(
                    dollar..end,
                    format!(
                        "unmatched brace in environment variable name at position {}:",
                        name_at + 1
                    ),
                )
                .hint("a variable is written ${NAME}, ${NAME-default} or ${NAME[*]}")
            };
            if self.bytes[end..].starts_with(b"[*]") {
                several = true;
                end += 3;
            }
            if self.bytes.get(end) == Some(&b'-') {
                let Some(len) = self.bytes[end + 1..].iter().position(|b| *b == b'}') else {
                    return Err(unmatched(self.bytes.len()));
                };
                default = Some(end + 1..end + 1 + len);
                end += 1 + len;
            }
            if self.bytes.get(end) != Some(&b'}') {
                return Err(unmatched(self.bytes.len().min(end.max(name_at + name_len))));
            }
            end += 1;
        }
        let value = match (value, default) {
            (Some(value), _) => value.to_owned(),
            (None, Some(range)) => self.source.get(range).unwrap_or("").to_owned(),
            (None, None) => String::new(),
        };
        self.open();
        for byte in value.bytes() {
            match (several, byte) {
                (true, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c) => {
                    let word = self.open();
                    // Leading blanks cut nothing off.
                    word.cut = (!word.bytes.is_empty()).then_some(end);
                }
                _ => self.push(byte, dollar, 0)?,
            }
        }
        self.at = end;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environ() -> Environ {
        let vars = [("H", "/root"), ("L", " a b  c "), ("E", "")];
        Environ::new(&vars.map(|(k, v)| (k.to_owned(), v.to_owned())))
    }

    fn words(text: &str) -> Vec<String> {
        let words = lex(text, &environ()).unwrap_or_else(|e| panic!("{text}: {e:?}"));
        words.into_iter().map(|w| w.text).collect()
    }

    fn check(text: &str, expect: &[&str]) {
        assert_eq!(words(text), expect, "{text}");
    }

    /// Each line was given to haproxy 2.6 as `.notice`, which prints its word.
    #[test]
    fn words_are_what_haproxy_reads() {
        check(r"a\ b", &["a b"]);
        check(r#""a\ b\qc\$d\x41""#, &[r"a b\qc$dA"]);
        check(r"a\qb\$c\x41d", &[r"a\qb\$cAd"]);
        check(r"'a\b$c'", &[r"a\b$c"]);
        check("$H", &["$H"]);
        check(r#""$H""#, &["/root"]);
        check(r#""${H}x" "$H-x""#, &["/rootx", "/root-x"]);
        check(r#""${NO-dflt}x" "${NO}x" "${E-y}""#, &["dfltx", "x", ""]);
        check(r#"ab#cd"#, &["ab"]);
        check(r#"a\#b "a#b""#, &["a#b", "a#b"]);
        check(r"foo\", &[r"foo\"]);
        check(r"foo\ ", &["foo "]);
        check(r#""" x"#, &["", "x"]);
        check("\ta  b\t", &["a", "b"]);
    }

    #[test]
    fn lists_become_words() {
        check(r#""${L[*]}""#, &["a", "b", "c"]);
        check(r#""x${L[*]}y""#, &["x", "a", "b", "c", "y"]);
        check(r#""${E[*]}" z"#, &["", "z"]);
        check(r#""${L[*]}${L[*]}""#, &["a", "b", "c", "a", "b", "c"]);
    }

    #[test]
    fn faults_are_located() {
        let check = |text: &str, message: &str, span: Range<usize>| {
            let fault = lex(text, &environ()).unwrap_err();
            assert_eq!(
                (fault.message.as_str(), fault.span),
                (message, span),
                "{text}"
            );
        };
        check("a \"unt", "unmatched quote at position 3:", 2..3);
        check(
            r#"a "${H""#,
            "unmatched brace in environment variable name at position 6:",
            3..6,
        );
        check(
            r#"a "$1""#,
            "forbidden first char in environment variable name at position 5:",
            3..5,
        );
        check(
            r#"a "\x4""#,
            "truncated or invalid hexadecimal sequence at position 4:",
            3..7,
        );
        let many = "w ".repeat(65);
        check(
            &many,
            "too many words, truncating after word 64, position 129",
            128..129,
        );
    }

    #[test]
    fn columns_lead_back_to_the_source() {
        let words = lex(r#"a "x\x41${H}y""#, &environ()).unwrap();
        assert_eq!(words[1].text, "xA/rooty");
        assert_eq!(words[1].span, 2..14);
        // The escape, the variable, the last letter.
        assert_eq!(words[1].source_span(1..2), 4..5);
        assert_eq!(words[1].source_span(2..7), 8..9);
        assert_eq!(words[1].source_span(7..8), 12..13);
    }
}
