//! HAProxy's configuration language: text in, a typed [`model::Model`] and diagnostics out.
//!
//! Nothing is opened here: files come through [`sluice_expr::Loader`]. Parsing never stops at the first error.
//!
//! The way of a line: [`read`] cuts files into lines, [`lex`] lines into words, [`registry`] finds the keyword's item, its
//! handler reports to [`cx::Cx`] and fills [`raw`]; when all is read, [`resolve`] binds names and makes the model.

pub mod addr;
pub mod condition;
pub mod cx;
pub mod diag;
pub mod dump;
pub mod environ;
pub mod files;
pub mod lex;
pub mod line;
mod log_target;
pub mod model;
mod one_server;
mod options;
mod predefined;
pub mod proxy;
pub mod raw;
pub mod read;
pub mod registry;
pub mod resolve;
pub mod section;
pub mod values;

pub use condition::{Facts, eval_condition};
pub use cx::Cx;
pub use diag::{Diagnostic, RenderOptions, Severity};
pub use one_server::{OneServer, parse_server};
pub use options::LoadOptions;
pub use read::SourceFile;

use model::Model;

/// What loading gave.
pub struct Loaded {
    /// `None` when an alert says why.
    pub model: Option<Model>,
    pub diagnostics: Vec<Diagnostic>,
}

/// Reads a whole configuration.
pub fn load(files: &[SourceFile], opts: &LoadOptions<'_>) -> Loaded {
    let mut cx = Cx::new(opts);
    predefined::set(&mut cx.environ, files, opts);
    for file in files {
        let before = cx.diagnostics.len();
        read::read_file(&mut cx, file);
        if cx.diagnostics[before..]
            .iter()
            .any(|d| d.severity == Severity::Alert)
        {
            let message = format!("Error(s) found in configuration file : {}", file.name);
            cx.report_plain(Severity::Alert, message);
        }
    }
    let mut loaded = resolve::resolve(cx);
    if loaded.model.is_none() {
        loaded.diagnostics.push(Diagnostic {
            severity: Severity::Alert,
            origin: None,
            message: "Fatal errors found in configuration.".into(),
            excerpt: None,
            hint: None,
        });
    }
    if !opts.diag {
        loaded.diagnostics.retain(|d| d.severity > Severity::Diag);
    }
    loaded
}

/// Reads a command line socket as `-S` writes it: `ADDRESS[,WORD[,VALUE]...]`, with the words of a `bind` line.
pub fn parse_cli_socket(
    text: &str,
    opts: &LoadOptions<'_>,
) -> Result<model::StatsSocket, Vec<Diagnostic>> {
    let mut cx = Cx::new(opts);
    let words = text.split(',').collect::<Vec<_>>().join(" ");
    let text = format!("global\n    stats socket {words}\n");
    let file = SourceFile {
        name: "-S".into(),
        text: text.into_bytes(),
    };
    read::read_file(&mut cx, &file);
    let wrong = cx.diagnostics.iter().any(|d| d.severity == Severity::Alert);
    match cx.raw.global.stats_sockets.pop() {
        Some(socket) if !wrong => Ok(socket),
        _ => Err(cx.diagnostics),
    }
}

#[cfg(test)]
pub(crate) mod testing;
