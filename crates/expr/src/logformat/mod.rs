//! The log-format language (manual chapter 8.2.6): text, tags and expressions compiled into one writer.

use crate::compile::{Names, ParseCtx};
use crate::env::Env;
use crate::error::ExprError;

/// Where a format is used, which decides how it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// `log-format` and its kin: tags, an absent value is `-`, spaces merge, control characters are escaped.
    Log,
    /// `log-format-sd`: structured data of RFC 5424.
    LogSd,
    /// The argument of an action or of `return ... lf-string`: bytes as they are, an absent value is nothing.
    Argument,
}

/// The formats that have a name (`option httplog`...), as texts of the same language.
pub const HTTPLOG: &str = "%ci:%cp [%tr] %ft %b/%s %TR/%Tw/%Tc/%Tr/%Ta %ST %B %CC %CS %tsc %ac/%fc/%bc/%sc/%rc %sq/%bq %hr %hs %{+Q}r";
pub const TCPLOG: &str = "%ci:%cp [%t] %ft %b/%s %Tw/%Tc/%Tt %B %ts %ac/%fc/%bc/%sc/%rc %sq/%bq";

/// A compiled format. Cheap to clone.
#[derive(Debug, Clone)]
pub struct LogFormat {}

impl LogFormat {
    pub fn parse(
        _text: &str,
        _ctx: &ParseCtx<'_>,
        _purpose: Purpose,
    ) -> Result<LogFormat, ExprError> {
        Err(ExprError::new("log-format is being built"))
    }

    /// Appends one line (or string).
    pub fn write(&self, _env: &dyn Env, _out: &mut Vec<u8>) {}

    /// The text when it is always the same, so that constants cost nothing.
    pub fn as_constant(&self) -> Option<&[u8]> {
        None
    }

    pub fn is_constant(&self) -> bool {
        self.as_constant().is_some()
    }

    /// Whether it contains something only known once the stream has ended (`%Tt`, `%B`...): without `option logasap`
    /// the line waits for it.
    pub fn needs_end(&self) -> bool {
        false
    }

    /// Whether it looks at the response, so that it cannot be written before one is there.
    pub fn needs_response(&self) -> bool {
        false
    }

    /// Binds the names used by its expressions.
    pub fn resolve(&self, _names: &dyn Names) -> Vec<ExprError> {
        Vec::new()
    }
}
