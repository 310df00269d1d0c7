//! A line of configuration after the lexer: its words, and where each byte of each word came from, so that a message
//! can put carets under what it means.

use std::ops::Range;
use std::sync::Arc;

use crate::model::Origin;

/// One word of a line, unquoted and expanded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Word {
    /// The word as UTF-8. Bytes made by `\xNN` that are no UTF-8 appear as U+FFFD here; [`Word::bytes`] has them.
    pub text: String,
    /// The exact bytes, only when they are not UTF-8.
    pub raw: Option<Vec<u8>>,
    /// Byte range of the word in the line's source, quotes included.
    pub span: Range<usize>,
    /// Source offset of each byte of `text` (for a variable's value: that of its `$`).
    pub columns: Vec<u32>,
}

impl Word {
    /// A word that was not read from a file.
    pub fn plain(text: &str) -> Self {
        Word {
            text: text.to_owned(),
            raw: None,
            span: 0..text.len(),
            columns: (0..text.len() as u32).collect(),
        }
    }

    /// The exact bytes of the word.
    pub fn bytes(&self) -> &[u8] {
        self.raw.as_deref().unwrap_or(self.text.as_bytes())
    }

    /// Where a byte range of `text` stands in the source. An empty range means the whole word.
    pub fn source_span(&self, span: Range<usize>) -> Range<usize> {
        if span.start >= span.end {
            return self.span.clone();
        }
        let column = |i: usize| self.columns.get(i).map(|c| *c as usize);
        let start = column(span.start).unwrap_or(self.span.start);
        let end = column(span.end - 1).map_or(self.span.end, |c| c + 1);
        start..end.max(start + 1)
    }
}

/// `no` or `default` before a keyword.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Prefix {
    #[default]
    None,
    No,
    Default,
}

/// A line of words. The prefix `no`/`default` is already taken off `words`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Line {
    pub file: Arc<str>,
    /// From 1.
    pub number: u32,
    /// The line as written, without its line feed.
    pub source: Arc<str>,
    pub words: Vec<Word>,
    pub prefix: Prefix,
    /// How many of the words are the keyword's name: the index of the first argument.
    pub keyword_len: usize,
}

impl Line {
    /// The word at an index of `words`, "" when there is none.
    pub fn word(&self, index: usize) -> &str {
        self.words.get(index).map_or("", |w| w.text.as_str())
    }

    /// The nth argument after the keyword, "" when there is none.
    pub fn arg(&self, n: usize) -> &str {
        self.word(self.keyword_len + n)
    }

    /// Whether a word was written there (it may be an empty one, `""`).
    pub fn has(&self, index: usize) -> bool {
        index < self.words.len()
    }

    /// The words from an index on.
    pub fn texts(&self, from: usize) -> Vec<&str> {
        self.words
            .iter()
            .skip(from)
            .map(|w| w.text.as_str())
            .collect()
    }

    /// The keyword's words, joined by spaces.
    pub fn keyword(&self) -> String {
        let texts: Vec<&str> = self
            .words
            .iter()
            .take(self.keyword_len.max(1))
            .map(|w| w.text.as_str())
            .collect();
        texts.join(" ")
    }

    /// Where the line stands, for the model.
    pub fn origin(&self) -> Origin {
        Origin {
            file: self.file.clone(),
            line: self.number,
        }
    }
}

/// A word kept together with its line, to be understood when everything has been read: a backend's name, a log-format
/// of a `defaults` section.
#[derive(Debug, Clone)]
pub struct Written {
    pub line: Arc<Line>,
    pub word: usize,
}

impl Written {
    pub fn new(line: &Arc<Line>, word: usize) -> Self {
        Written {
            line: line.clone(),
            word,
        }
    }

    pub fn text(&self) -> &str {
        self.line.word(self.word)
    }

    pub fn origin(&self) -> Origin {
        self.line.origin()
    }
}
