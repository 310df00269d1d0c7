//! The parsing context: what a keyword handler reports to and changes.

use std::net::IpAddr;
use std::ops::Range;
use std::sync::Arc;

use sluice_expr::pattern::Store;
use sluice_expr::place::Place;
use sluice_expr::{AclTable, Cond, Expr, ExprError, Loader, LogFormat, ParseCtx, Purpose};

use crate::diag::{Diagnostic, Excerpt, Severity};
use crate::environ::Environ;
use crate::files::BasePath;
use crate::line::Line;
use crate::model::{Caps, Global, Mode};
use crate::raw::{Raw, RawProxy};
use crate::registry::{LineWord, Sections, WordRun};

/// What the caller gives to [`crate::load`].
pub struct LoadOptions<'a> {
    /// The process's environment: what `"$X"` refers to.
    pub env: Vec<(String, String)>,
    /// How error files, pattern files and maps are read.
    pub loader: &'a dyn Loader,
    /// How a host name in an address becomes an address at start (`init-addr libc`).
    pub lookup: &'a dyn Fn(&str) -> Option<IpAddr>,
    /// The pattern and map lists of the process, kept across reloads.
    pub store: Arc<Store>,
    /// `-L`, or the host's name.
    pub localpeer: String,
    /// Running under a master process (`HAPROXY_MWORKER`).
    pub master_worker: bool,
    /// What `feature()` finds: names listed with a `+` by `-vv`.
    pub features: Vec<String>,
    /// What `enabled()` finds: `EPOLL`, `SPLICE`, ...
    pub enabled: Vec<String>,
    /// Name and version of the TLS library.
    pub tls_library: String,
    /// `-dD`: diagnostics of the lowest severity are wanted.
    pub diag: bool,
}

impl<'a> LoadOptions<'a> {
    /// An empty environment, a fresh pattern store, no features. Set the fields that are known better.
    pub fn new(loader: &'a dyn Loader, lookup: &'a dyn Fn(&str) -> Option<IpAddr>) -> Self {
        LoadOptions {
            env: Vec::new(),
            loader,
            lookup,
            store: Arc::default(),
            localpeer: "localhost".into(),
            master_worker: false,
            features: Vec::new(),
            enabled: Vec::new(),
            tls_library: String::new(),
            diag: false,
        }
    }
}

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

    // ---- expressions ----

    /// Gives the expression engine a line: calls `parse` with what it has to know, and reports its fault under the word
    /// it means (`first` is the index of the first word it was given).
    pub fn with_ctx<T>(
        &mut self,
        line: &Line,
        first: usize,
        place: Place,
        parse: impl FnOnce(&ParseCtx<'_>, &AclTable) -> Result<T, ExprError>,
    ) -> Option<T> {
        let proxy = match self.current {
            Current::Proxy(i) => self.raw.proxies.get(i),
            Current::Defaults(i) => self.defaults.get(i),
            _ => None,
        };
        let none = AclTable::default();
        let acls = proxy.map_or(&none, |p| &p.acls);
        let loader = CfgLoader {
            files: self.opts.loader,
            base: &self.base_path,
            environ: &self.environ,
        };
        let ctx = ParseCtx {
            place,
            loader: &loader,
            store: &self.opts.store,
            file: &line.file,
            line: line.number,
            http: proxy.is_some_and(|p| p.mode() == Mode::Http),
            acls: Some(acls),
        };
        match parse(&ctx, acls) {
            Ok(parsed) => Some(parsed),
            Err(e) => {
                self.expr_error(line, first, e);
                None
            }
        }
    }

    /// The files and the environment as they are after the last line.
    pub(crate) fn loader(&self) -> crate::resolve::ResolveLoader<'a> {
        crate::resolve::ResolveLoader {
            files: self.opts.loader,
            base: self.base_path.clone(),
            config: self.environ.file.clone(),
            environ: self.environ.clone(),
        }
    }

    /// Parses a sample expression that is one word.
    pub fn expr(&mut self, line: &Arc<Line>, word: usize, place: Place) -> Option<Expr> {
        let expr = self.with_ctx(line, word, place, |ctx, _| {
            Expr::parse(line.word(word), ctx)
        })?;
        self.bind_later(Pending::Expr(expr.clone()), line, word);
        Some(expr)
    }

    /// Parses an expression whose converters may stand in words of their own; also gives how many words it took.
    pub fn expr_words(
        &mut self,
        line: &Arc<Line>,
        word: usize,
        place: Place,
    ) -> Option<(Expr, usize)> {
        let (expr, taken) = self.with_ctx(line, word, place, |ctx, _| {
            Expr::parse_words(&line.texts(word), ctx)
        })?;
        self.bind_later(Pending::Expr(expr.clone()), line, word);
        Some((expr, taken))
    }

    /// Parses a log-format that is one word.
    pub fn log_format(
        &mut self,
        line: &Arc<Line>,
        word: usize,
        place: Place,
        purpose: Purpose,
    ) -> Option<LogFormat> {
        let format = self.with_ctx(line, word, place, |ctx, _| {
            LogFormat::parse(line.word(word), ctx, purpose)
        })?;
        self.bind_later(Pending::Format(format.clone()), line, word);
        Some(format)
    }

    /// Parses what follows a rule: nothing, or `if|unless COND` up to the line's end. The outer `None`: an error was
    /// reported.
    pub fn cond(&mut self, line: &Arc<Line>, word: usize, place: Place) -> Option<Option<Cond>> {
        if !line.has(word) {
            return Some(None);
        }
        if !matches!(line.word(word), "if" | "unless") {
            self.error(
                line,
                word,
                0..0,
                format!(
                    "'{}' : expects 'if' or 'unless' followed by a condition, but got '{}'",
                    line.keyword(),
                    line.word(word)
                ),
                None,
            );
            return None;
        }
        let cond = self.with_ctx(line, word, place, |ctx, acls| {
            Cond::parse(&line.texts(word), acls, ctx)
        })?;
        for warning in cond.warnings() {
            self.expr_warning(line, word, warning.clone());
        }
        if let Some(conflict) = cond.conflict(place, place.describe()) {
            self.warn(line, word, conflict, None);
        }
        self.bind_later(Pending::Cond(cond.clone()), line, word);
        Some(Some(cond))
    }

    /// Remembers an expression whose names are bound by the resolve pass. Clones share what is bound.
    pub(crate) fn bind_later(&mut self, what: Pending, line: &Arc<Line>, word: usize) {
        let proxy = match self.current {
            Current::Proxy(i) => Some(i),
            _ => None,
        };
        self.pending.push(PendingAt {
            what,
            line: line.clone(),
            word,
            proxy,
        });
    }

    // ---- words of bind and server lines ----

    /// Reads the words from an index on by a table. False after an error was reported.
    pub fn line_words<T>(
        &mut self,
        line: &Arc<Line>,
        from: usize,
        tables: &[&'static [LineWord<T>]],
        into: &mut T,
    ) -> bool {
        let mut at = from;
        let mut good = true;
        while line.has(at) {
            let text = line.word(at);
            let Some(item) = tables
                .iter()
                .flat_map(|table| table.iter())
                .find(|w| crate::registry::word_matches(w.name, text))
            else {
                let near = crate::diag::suggest(
                    text,
                    tables.iter().flat_map(|t| t.iter()).map(|w| w.name),
                );
                let maybe = near.map_or(String::new(), |n| format!("; did you mean '{n}' maybe ?"));
                self.error(
                    line,
                    at,
                    0..0,
                    format!("'{}' : unknown keyword '{text}'{maybe}", line.keyword()),
                    None,
                );
                return false;
            };
            match item.run {
                WordRun::Do(run) => match run(self, line, at, into) {
                    Some(taken) => at += taken.max(1),
                    None => return false,
                },
                WordRun::Obsolete { instead, run } => {
                    self.warn(
                        line,
                        at,
                        format!("'{text}' is obsolete"),
                        Some(instead.to_owned()),
                    );
                    match run(self, line, at, into) {
                        Some(taken) => at += taken.max(1),
                        None => return false,
                    }
                }
                WordRun::Later(part) => {
                    self.not_yet(line, at, text, part);
                    good = false;
                    at += 1 + item.args.split_whitespace().count();
                }
                WordRun::Refused(why) => {
                    self.error(
                        line,
                        at,
                        0..0,
                        format!("'{text}' is not supported"),
                        Some(why.to_owned()),
                    );
                    good = false;
                    at += 1 + item.args.split_whitespace().count();
                }
            }
        }
        good
    }

    /// Reports a keyword or value that another part brings.
    pub fn not_yet(&mut self, line: &Line, word: usize, name: &str, part: &str) {
        self.error(
            line,
            word,
            0..0,
            format!("'{name}' is not implemented by Sluice yet"),
            Some(format!("it comes with: {part}")),
        );
    }
}

/// The caller's files with the environment as `setenv` left it.
struct CfgLoader<'a> {
    files: &'a dyn Loader,
    base: &'a BasePath,
    environ: &'a Environ,
}

impl Loader for CfgLoader<'_> {
    fn load(&self, path: &str) -> Result<Vec<u8>, String> {
        let path = self.base.join(&self.environ.file, path);
        named(self.files.load(&path), &path)
    }
    fn env(&self, name: &str) -> Option<String> {
        self.environ.var(name).map(str::to_owned)
    }
}

/// Puts a file's name into what is said about it.
pub(crate) fn named(read: Result<Vec<u8>, String>, path: &str) -> Result<Vec<u8>, String> {
    read.map_err(|why| match why.contains(path) {
        true => why,
        false => format!("cannot read '{path}': {why}"),
    })
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
