//! Words and blocks: the shape of a keepalived.conf before any keyword is known.
//!
//! A statement is a line; braces outside quotes end one wherever they stand, which is why `real_server A 80 { weight 1 }`
//! may be written on one line. An opening brace may also stand on a line of its own.

use super::diagnostic::{Diagnostic, Place, Severity};
use super::source::Line;
use std::sync::Arc;

/// One word with its place in the line.
#[derive(Debug, Clone)]
pub struct Word {
    pub text: String,
    pub quoted: bool,
    pub line: Arc<Line>,
    pub column: usize,
    pub length: usize,
}

impl Word {
    pub fn place(&self) -> Place {
        self.line.place(self.column, self.length)
    }
}

/// A statement: its words (never none) and its block, if braces follow.
#[derive(Debug, Clone)]
pub struct Node {
    pub words: Vec<Word>,
    pub block: Option<Vec<Node>>,
}

impl Node {
    /// The first word.
    pub fn keyword(&self) -> &str {
        self.words.first().map_or("", |w| &w.text)
    }

    /// All words from the `from`-th on, joined by blanks: a script line, a route.
    pub fn rest(&self, from: usize) -> String {
        let words: Vec<&str> = self
            .words
            .iter()
            .skip(from)
            .map(|w| w.text.as_str())
            .collect();
        words.join(" ")
    }

    pub fn place(&self) -> Option<Place> {
        self.words.first().map(Word::place)
    }
}

/// Deepest nesting: the language itself needs four.
const DEPTH_MAX: usize = 32;

enum Token {
    Word(Word),
    Open(Place),
    Close(Place),
    End,
}

/// Builds the tree; braces that do not match are errors.
pub fn build(lines: Vec<Line>) -> (Vec<Node>, Vec<Diagnostic>) {
    let mut diagnostics = Vec::new();
    // The statements of each open block, the outermost first; `open` remembers where each block began.
    let mut levels: Vec<Vec<Node>> = vec![Vec::new()];
    let mut open: Vec<Place> = Vec::new();
    let mut words: Vec<Word> = Vec::new();
    for line in lines {
        for token in tokens(&Arc::new(line), &mut diagnostics) {
            match token {
                Token::Word(word) => words.push(word),
                Token::End => flush(&mut levels, &mut words),
                Token::Open(place) => {
                    flush(&mut levels, &mut words);
                    let owner = levels.last().and_then(|l| l.last());
                    let unexpected = owner.is_none_or(|n| n.block.is_some());
                    if unexpected || open.len() >= DEPTH_MAX {
                        diagnostics.push(Diagnostic::new(
                            Severity::Error,
                            Some(place.clone()),
                            "'{' without a keyword before it",
                        ));
                    }
                    open.push(place);
                    levels.push(Vec::new());
                }
                Token::Close(place) => {
                    flush(&mut levels, &mut words);
                    if open.pop().is_none() {
                        diagnostics.push(Diagnostic::new(
                            Severity::Error,
                            Some(place),
                            "'}' closes nothing",
                        ));
                        continue;
                    }
                    close(&mut levels);
                }
            }
        }
    }
    flush(&mut levels, &mut words);
    while let Some(place) = open.pop() {
        diagnostics.push(Diagnostic::new(
            Severity::Error,
            Some(place),
            "this '{' is never closed",
        ));
        close(&mut levels);
    }
    (levels.pop().unwrap_or_default(), diagnostics)
}

fn flush(levels: &mut [Vec<Node>], words: &mut Vec<Word>) {
    if words.is_empty() {
        return;
    }
    if let Some(level) = levels.last_mut() {
        level.push(Node {
            words: std::mem::take(words),
            block: None,
        });
    }
}

/// Ends the innermost block and hands it to the statement before it.
fn close(levels: &mut Vec<Vec<Node>>) {
    let Some(block) = levels.pop() else { return };
    if let Some(owner) = levels.last_mut().and_then(|l| l.last_mut()) {
        owner.block.get_or_insert_with(Vec::new).extend(block);
    }
}

/// Cuts a line. Quotes group and are removed; a backslash escapes inside and outside of them.
fn tokens(line: &Arc<Line>, diagnostics: &mut Vec<Diagnostic>) -> Vec<Token> {
    let mut out = Vec::new();
    let mut text = String::new();
    let mut start: Option<usize> = None;
    let mut was_quoted = false;
    let mut quote: Option<(char, usize)> = None;
    let mut chars = line.text.char_indices().peekable();
    let finish = |out: &mut Vec<Token>,
                  text: &mut String,
                  start: &mut Option<usize>,
                  quoted: &mut bool,
                  end: usize| {
        if let Some(from) = start.take() {
            out.push(Token::Word(Word {
                text: std::mem::take(text),
                quoted: std::mem::take(quoted),
                line: line.clone(),
                column: from,
                length: end - from,
            }));
        }
    };
    while let Some((at, c)) = chars.next() {
        if let Some((q, _)) = quote {
            match c {
                _ if c == q => quote = None,
                '\\' => match chars.next() {
                    Some((_, n)) if n == q || n == '\\' => text.push(n),
                    Some((_, n)) => {
                        text.push('\\');
                        text.push(n);
                    }
                    None => text.push('\\'),
                },
                _ => text.push(c),
            }
            continue;
        }
        match c {
            c if c.is_whitespace() => finish(&mut out, &mut text, &mut start, &mut was_quoted, at),
            '"' | '\'' => {
                start.get_or_insert(at);
                was_quoted = true;
                quote = Some((c, at));
            }
            '{' | '}' => {
                finish(&mut out, &mut text, &mut start, &mut was_quoted, at);
                let place = line.place(at, 1);
                out.push(if c == '{' {
                    Token::Open(place)
                } else {
                    Token::Close(place)
                });
            }
            _ => {
                start.get_or_insert(at);
                text.push(c);
            }
        }
    }
    finish(
        &mut out,
        &mut text,
        &mut start,
        &mut was_quoted,
        line.text.len(),
    );
    if let Some((_, at)) = quote {
        diagnostics.push(Diagnostic::new(
            Severity::Error,
            Some(line.place(at, line.text.len() - at)),
            "this quote is never closed",
        ));
    }
    out.push(Token::End);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::source::{NoHost, lines};
    use proptest::prelude::*;

    /// The tree written back on one line, words quoted only when they hold blanks.
    fn show(nodes: &[Node]) -> String {
        nodes
            .iter()
            .map(|n| {
                let words: Vec<String> = n
                    .words
                    .iter()
                    .map(|w| {
                        if w.text.contains(' ') {
                            format!("<{}>", w.text)
                        } else {
                            w.text.clone()
                        }
                    })
                    .collect();
                match &n.block {
                    Some(b) => format!("{}[{}]", words.join(" "), show(b)),
                    None => words.join(" "),
                }
            })
            .collect::<Vec<_>>()
            .join("; ")
    }

    fn check(text: &str, expect: &str, errors: usize) {
        let (tree, d) = build(lines(&NoHost, "t", text, "").0);
        assert_eq!(show(&tree), expect);
        assert_eq!(d.len(), errors, "{d:?}");
    }

    #[test]
    fn braces_may_stand_anywhere() {
        check("a b {\n c\n}\n", "a b[c]", 0);
        check("a b\n{\n c\n}\n", "a b[c]", 0);
        check("a b{ c }\nd\n", "a b[c]; d", 0);
        check("a {}\n", "a[]", 0);
        check("a { b { c } d { e } }\n", "a[b[c]; d[e]]", 0);
    }

    #[test]
    fn braces_must_match() {
        check("a {\n b\n", "a[b]", 1);
        check("a\n}\nb\n", "a; b", 1);
        check("{\n a\n}\n", "", 1);
    }

    #[test]
    fn quotes_keep_blanks_and_braces() {
        check("n \"/bin/x a { b\"\n", "n </bin/x a { b>", 0);
        check("abcd\" efg h \"mnop\n", "<abcd efg h mnop>", 0);
        check("a 'it \"is\"'\n", "a <it \"is\">", 0);
        check("a \"b\n", "a b", 1);
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[ab{}\"'\\\\\n ]{0,80}") {
            let _ = build(lines(&NoHost, "t", &text, "").0);
        }
    }
}
