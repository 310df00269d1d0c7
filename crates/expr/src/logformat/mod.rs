//! The log-format language (manual chapter 8.2.6): text, tags and expressions compiled into one writer. It serves the
//! logs and every `fmt` argument of actions.
//!
//! [`parse`] makes items of a text, [`value`] looks a tag up in a stream, [`text`] and [`structured`] write it.

mod date;
mod flags;
mod formats;
mod parse;
mod structured;
mod tag;
mod text;
mod value;
mod write;

use std::fmt;
use std::sync::Arc;

pub use formats::{
    CLF, CONNECT_HTTP, CONNECT_TCP, ERROR, ERROR_UNNAMED, HTTP_JSON, HTTPLOG, HTTPSLOG, TCP_JSON,
    TCPLOG, TCPLOG_CLF,
};
pub use tag::{Stage, TAGS, Tag, TagDef};

use crate::compile::{Expr, Names, ParseCtx};
use crate::env::{Env, Nowhere};
use crate::error::ExprError;
use flags::Flags;

/// Where a format is used, which decides how it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// `log-format`, `error-log-format`: spaces merge, an absent value is `-`.
    Log,
    /// `log-format-sd`: the same, for the structured data of RFC 5424.
    LogSd,
    /// `unique-id-format`: spaces merge, an absent value is nothing, control characters of samples become `%XX`.
    UniqueId,
    /// The argument of an HTTP action or of `return ... lf-string`: spaces stay, an absent value is nothing, control
    /// characters of samples become `%XX`.
    Argument,
    /// `set-var-fmt`, `use_backend` and other arguments that do not go into an HTTP message: samples as they are.
    Text,
}

impl Purpose {
    fn merges_spaces(self) -> bool {
        matches!(self, Purpose::Log | Purpose::LogSd | Purpose::UniqueId)
    }

    fn shows_absence(self) -> bool {
        matches!(self, Purpose::Log | Purpose::LogSd)
    }

    fn encodes_http(self) -> bool {
        matches!(self, Purpose::UniqueId | Purpose::Argument)
    }

    fn is_log(self) -> bool {
        matches!(self, Purpose::Log | Purpose::LogSd)
    }
}

/// The type a named item is given with `%(name:type)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cast {
    Str,
    Sint,
    Bool,
}

impl Cast {
    fn parse(word: &str) -> Option<Cast> {
        Some(match word {
            "str" => Cast::Str,
            "sint" => Cast::Sint,
            "bool" => Cast::Bool,
            _ => return None,
        })
    }
}

/// One part of a format.
struct Item {
    what: What,
    flags: Flags,
    /// `%(name)`, which few have.
    name: Option<Box<Name>>,
    cast: Option<Cast>,
}

/// An item's name, and ready to be written as a key of JSON: it has no character that needs an escape.
struct Name {
    text: Box<str>,
    json: Box<[u8]>,
}

impl Name {
    fn new(text: &str) -> Self {
        Name {
            text: text.into(),
            json: format!("\"{text}\": ").into_bytes().into(),
        }
    }
}

enum What {
    /// A range of the format's texts.
    Text {
        start: u32,
        end: u32,
    },
    /// A space, unless one has just been written.
    Space,
    Tag(Tag),
    Expr(Box<Expr>),
}

/// A compiled format. Cheap to clone.
#[derive(Clone)]
pub struct LogFormat {
    inner: Arc<Inner>,
}

struct Inner {
    source: Box<str>,
    purpose: Purpose,
    items: Vec<Item>,
    texts: Vec<u8>,
    global: Flags,
    stage: Stage,
    constant: Option<Vec<u8>>,
    warnings: Vec<ExprError>,
}

impl LogFormat {
    /// Compiles a text. For a log, the one word `json` stands for every field of `httplog` (or `tcplog`) by name.
    ///
    /// Errors point into the text: unknown tags and flags, faults of expressions, parentheses that are not closed.
    pub fn parse(text: &str, ctx: &ParseCtx<'_>, purpose: Purpose) -> Result<LogFormat, ExprError> {
        let source = text;
        let text = match text {
            "json" if purpose.is_log() && ctx.http => HTTP_JSON,
            "json" if purpose.is_log() => TCP_JSON,
            _ => text,
        };
        let parsed = parse::parse(text, ctx, purpose)?;
        let is_structured = parsed.global.json || parsed.global.cbor;
        if is_structured && !parsed.items.iter().any(|i| i.name.is_some()) {
            return Err(ExprError::new(
                "this format has no named item, so nothing would be written",
            )
            .hint(
                "a format that is JSON or CBOR as a whole writes items with names: `%(client)ci`",
            ));
        }
        let fixed = |i: &Item| matches!(i.what, What::Text { .. } | What::Space);
        let is_constant = !is_structured && parsed.items.iter().all(fixed);
        let mut inner = Inner {
            source: source.into(),
            purpose,
            items: parsed.items,
            texts: parsed.texts,
            global: parsed.global,
            stage: parsed.stage,
            constant: None,
            warnings: parsed.warnings,
        };
        if is_constant {
            let mut out = Vec::new();
            inner.write(&Nowhere::default(), &mut out);
            inner.constant = Some(out);
        }
        Ok(LogFormat {
            inner: Arc::new(inner),
        })
    }

    /// Appends one line (or string).
    #[inline]
    pub fn write(&self, env: &dyn Env, out: &mut Vec<u8>) {
        match &self.inner.constant {
            Some(text) => out.extend_from_slice(text),
            None => self.inner.write(env, out),
        }
    }

    /// The text when it is always the same, so that constants cost nothing.
    pub fn as_constant(&self) -> Option<&[u8]> {
        self.inner.constant.as_deref()
    }

    pub fn is_constant(&self) -> bool {
        self.inner.constant.is_some()
    }

    /// From when on everything in it is known: a line is written then, or at once with `option logasap`.
    pub fn stage(&self) -> Stage {
        self.inner.stage
    }

    /// Whether it contains something only known once the stream has ended (`%Tt`, `%B`, variables...).
    pub fn needs_end(&self) -> bool {
        self.inner.stage == Stage::Close
    }

    /// Whether it looks at the response, so that it cannot be written before one is there.
    pub fn needs_response(&self) -> bool {
        self.inner.stage >= Stage::Response
    }

    /// What deserves a warning: a lone percent sign.
    pub fn warnings(&self) -> &[ExprError] {
        &self.inner.warnings
    }

    /// Whether a line is one JSON object.
    pub fn is_json(&self) -> bool {
        self.inner.global.json
    }

    /// The text as written.
    pub fn as_str(&self) -> &str {
        &self.inner.source
    }

    /// The expressions in it.
    pub fn exprs(&self) -> impl Iterator<Item = &Expr> {
        self.inner.items.iter().filter_map(|i| match &i.what {
            What::Expr(e) => Some(&**e),
            _ => None,
        })
    }

    /// Binds the names used by its expressions.
    pub fn resolve(&self, names: &dyn Names) -> Vec<ExprError> {
        self.exprs().flat_map(|e| e.resolve(names)).collect()
    }
}

impl fmt::Debug for LogFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "LogFormat({:?}, {:?})",
            self.inner.source, self.inner.purpose
        )
    }
}

#[cfg(test)]
mod tests;
