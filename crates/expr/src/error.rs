//! What is wrong with an expression, and where in its text, so that the configuration can put a caret under it.

use std::ops::Range;

/// A fault found while an expression, ACL, pattern or log-format was parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ExprError {
    /// Lower case, no full stop, naming the thing.
    pub message: String,
    /// Which word of the parsed words is meant (0 when one text was parsed).
    pub word: usize,
    /// Byte range inside that word; empty means the whole word.
    pub span: Range<usize>,
    /// What would fit there ("did you mean 'hdr'?", "a `tcp-request connection` rule sees no request yet").
    pub hint: Option<String>,
}

impl ExprError {
    /// A fault that concerns the whole first word.
    pub fn new(message: impl Into<String>) -> Self {
        ExprError {
            message: message.into(),
            word: 0,
            span: 0..0,
            hint: None,
        }
    }

    /// Narrows the fault to a byte range of its word.
    pub fn at(mut self, span: Range<usize>) -> Self {
        self.span = span;
        self
    }

    /// Moves the fault to another word.
    pub fn in_word(mut self, word: usize) -> Self {
        self.word = word;
        self
    }

    /// Adds what to do about it.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}
