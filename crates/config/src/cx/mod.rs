//! The parsing context: what a keyword handler reports to and changes.

mod expressions;
mod words;

pub(crate) use expressions::PARENT_SCOPES;

use std::ops::Range;
use std::sync::Arc;

use sluice_expr::{Cond, Expr, ExprError, LogFormat};

use crate::LoadOptions;
use crate::diag::{Diagnostic, Excerpt, Severity};
use crate::environ::Environ;
use crate::files::BasePath;
use crate::line::Line;
use crate::model::{Caps, Global};
use crate::raw::{Raw, RawProxy};
use crate::registry::Sections;

/// An expression whose names are bound once every section is known.
pub(crate) enum Pending {
    Expr(Expr),
    Cond(Cond),
    Format(LogFormat),
}

/// A [`Pending`] with where it was written and in which proxy.
pub(crate) struct PendingAt {
    pub what: Pending,
    pub line: Arc<Line>,
    pub word: usize,
    /// Index into `raw.proxies`; `None` in `global` and in `defaults`.
    pub proxy: Option<usize>,
}

/// Where the parser is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Current {
    /// Before the first section, or in one that was refused: its lines are not understood, nor complained about.
    #[default]
    Nowhere,
    Global,
    /// Index into `raw.proxies` or, for `defaults`, into `defaults`.
    Proxy(usize),
    Defaults(usize),
    Userlist(usize),
    Ring(usize),
    HttpErrors(usize),
    Mailers(usize),
    LogProfile(usize),
    LogForward(usize),
    /// A section that repeats another and is not read.
    Duplicate,
    /// A section of another part: refused at its header, its lines are checked for being known only.
    Later,
}

/// The first sections that began with a `defaults` section, by its name (`from`) and because it was the last.
#[derive(Debug, Clone, Default)]
pub(crate) struct DefaultsUse {
    pub explicit: Option<Arc<Line>>,
    pub implicit: Option<Arc<Line>>,
}

/// Parsing context.
pub struct Cx<'a> {
    pub opts: &'a LoadOptions<'a>,
    pub diagnostics: Vec<Diagnostic>,
    pub environ: Environ,
    pub raw: Raw,
    pub(crate) defaults: Vec<RawProxy>,
    /// Who used each of `defaults`, in step with it.
    pub(crate) defaults_used: Vec<DefaultsUse>,
    /// `default-path`
    pub(crate) base_path: BasePath,
    pub(crate) current: Current,
    /// The section's kind, one bit; empty before the first.
    pub(crate) section: Sections,
    pub(crate) section_name: String,
    pub(crate) pending: Vec<PendingAt>,
}

impl<'a> Cx<'a> {
    pub(crate) fn new(opts: &'a LoadOptions<'a>) -> Self {
        Cx {
            opts,
            diagnostics: Vec::new(),
            environ: Environ::new(&opts.env),
            raw: Raw::default(),
            defaults: Vec::new(),
            defaults_used: Vec::new(),
            base_path: BasePath::default(),
            current: Current::Nowhere,
            section: Sections::empty(),
            section_name: String::new(),
            pending: Vec::new(),
        }
    }

    /// The section's kind, one bit.
    pub fn section(&self) -> Sections {
        self.section
    }

    /// The global section.
    pub fn global(&mut self) -> &mut Global {
        &mut self.raw.global
    }

    /// The proxy or `defaults` section under construction. Only keywords of those sections may ask.
    pub fn proxy(&mut self) -> &mut RawProxy {
        match self.current {
            Current::Proxy(i) => &mut self.raw.proxies[i],
            Current::Defaults(i) => &mut self.defaults[i],
            _ => unreachable!(
                "a proxy keyword ran outside of a proxy section: the registry's sections are wrong"
            ),
        }
    }

    // ---- reporting ----

    /// Reports an error about a byte range of a word (an empty range: the whole word; no such word: the line's end).
    pub fn error(
        &mut self,
        line: &Line,
        word: usize,
        span: Range<usize>,
        message: impl Into<String>,
        hint: Option<String>,
    ) {
        self.report(Severity::Alert, line, word, span, message, hint);
    }

    /// An error about a whole word.
    pub fn error_at(&mut self, line: &Line, word: usize, message: impl Into<String>) {
        self.report(Severity::Alert, line, word, 0..0, message, None);
    }

    /// A warning about a whole word.
    pub fn warn(
        &mut self,
        line: &Line,
        word: usize,
        message: impl Into<String>,
        hint: Option<String>,
    ) {
        self.report(Severity::Warning, line, word, 0..0, message, hint);
    }

    pub fn report(
        &mut self,
        severity: Severity,
        line: &Line,
        word: usize,
        span: Range<usize>,
        message: impl Into<String>,
        hint: Option<String>,
    ) {
        self.diagnostics
            .push(about(severity, line, word, span, message, hint));
    }

    /// A finding that belongs to no line.
    pub fn report_plain(&mut self, severity: Severity, message: impl Into<String>) {
        self.diagnostics.push(Diagnostic {
            severity,
            origin: None,
            message: message.into(),
            excerpt: None,
            hint: None,
        });
    }

    /// Reports a fault of the expression engine; `first` is the index of the first word it was given.
    pub fn expr_error(&mut self, line: &Line, first: usize, error: ExprError) {
        self.error(
            line,
            first + error.word,
            error.span,
            format!(
                "error detected in {} : {}",
                self.whereabouts(),
                error.message
            ),
            error.hint,
        );
    }

    /// The same for what deserves a warning only.
    pub fn expr_warning(&mut self, line: &Line, first: usize, warning: ExprError) {
        self.report(
            Severity::Warning,
            line,
            first + warning.word,
            warning.span,
            warning.message,
            warning.hint,
        );
    }

    /// "frontend 'web'", "section 'global'".
    pub fn whereabouts(&self) -> String {
        let kind = section_name(self.section);
        match self.section_name.is_empty() {
            true => format!("section '{kind}'"),
            false => format!("{kind} '{}'", self.section_name),
        }
    }
}

/// Makes a diagnostic about a keyword, which may be several words.
pub(crate) fn about_keyword(
    severity: Severity,
    line: &Line,
    message: impl Into<String>,
    hint: Option<String>,
) -> Diagnostic {
    let mut finding = about(severity, line, 0, 0..0, message, hint);
    let last = line.words.get(line.keyword_len.max(1) - 1);
    if let (Some(excerpt), Some(last)) = (&mut finding.excerpt, last) {
        excerpt.span.end = last.span.end.max(excerpt.span.end);
    }
    finding
}

/// Makes a diagnostic about a word of a line.
pub(crate) fn about(
    severity: Severity,
    line: &Line,
    word: usize,
    span: Range<usize>,
    message: impl Into<String>,
    hint: Option<String>,
) -> Diagnostic {
    let end = line.source.len();
    let span = match line.words.get(word) {
        Some(w) => w.source_span(span),
        None => end..end,
    };
    Diagnostic {
        severity,
        origin: Some(line.origin()),
        message: message.into(),
        excerpt: Some(Excerpt {
            source: line.source.clone(),
            span,
        }),
        hint,
    }
}

/// The word that opens a section of this kind.
pub fn section_name(section: Sections) -> &'static str {
    crate::section::SECTIONS
        .iter()
        .find(|s| s.kind == section)
        .map_or("", |s| s.name)
}

/// The capabilities that go with a section's kind.
pub(crate) fn caps_of(section: Sections) -> Caps {
    match section {
        Sections::FRONTEND => Caps::FRONTEND,
        Sections::BACKEND => Caps::BACKEND,
        Sections::LISTEN => Caps::LISTEN,
        _ => Caps::DEFAULTS,
    }
}
