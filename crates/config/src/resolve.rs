//! The resolve pass: names become ids, settings become the model.

use crate::cx::about;
use crate::diag::Severity;
use crate::line::Line;
use crate::raw::Raw;

/// What a late action may ask: every section, and where to report.
pub struct Resolver<'a> {
    pub raw: &'a Raw,
    pub diagnostics: &'a mut Vec<crate::diag::Diagnostic>,
}

impl Resolver<'_> {
    /// Reports an error about a word.
    pub fn error(&mut self, line: &Line, word: usize, message: impl Into<String>, hint: Option<String>) {
        self.diagnostics.push(about(Severity::Alert, line, word, 0..0, message, hint));
    }

    /// Reports a warning about a word.
    pub fn warn(&mut self, line: &Line, word: usize, message: impl Into<String>, hint: Option<String>) {
        self.diagnostics.push(about(Severity::Warning, line, word, 0..0, message, hint));
    }
}
