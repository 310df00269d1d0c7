//! The resolve pass: names become ids, settings become the model.

use crate::raw::Raw;

/// What a late action may ask: every section, and where to report.
pub struct Resolver<'a> {
    pub raw: &'a Raw,
    pub diagnostics: &'a mut Vec<crate::diag::Diagnostic>,
}
