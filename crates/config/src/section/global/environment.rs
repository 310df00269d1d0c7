//! Environment variables and process-wide variables: `setenv` and its relatives, `set-var`.

use std::sync::Arc;

use sluice_expr::Purpose;
use sluice_expr::place::Place;
use sluice_expr::vars::{Scope, VarRef};

use crate::cx::Cx;
use crate::line::Line;
use crate::model::SetVarSource;
use crate::registry::{Keyword, Sections, kw};

const G: Sections = Sections::GLOBAL;

#[rustfmt::skip]
pub(super) static KEYWORDS: &[Keyword] = &[
    kw("setenv", G, "<name> <value>", "sets an environment variable for the lines that follow", |cx, line| {
        if let Some((name, value)) = name_and_value(cx, line) { cx.environ.set(&name, &value); }
    }),
    kw("presetenv", G, "<name> <value>", "sets an environment variable that is not set yet", |cx, line| {
        if let Some((name, value)) = name_and_value(cx, line) { cx.environ.preset(&name, &value); }
    }),
    kw("unsetenv", G, "<name>...", "removes environment variables", |cx, line| {
        if line.arg(0).is_empty() {
            cx.error_at(line, line.keyword_len, "'unsetenv' expects at least one variable name.");
        }
        for name in line.texts(line.keyword_len) {
            cx.environ.unset(name);
        }
    }),
    kw("resetenv", G, "[<name>...]", "removes all environment variables but these", |cx, line| {
        cx.environ.reset(&line.texts(line.keyword_len));
    }),
    kw("set-var", G, "<proc.name> <expr>", "sets a process-wide variable at start", set_var),
    kw("set-var-fmt", G, "<proc.name> <fmt>", "sets a process-wide variable from a log-format at start", set_var),
];

fn name_and_value(cx: &mut Cx<'_>, line: &Arc<Line>) -> Option<(String, String)> {
    let at = line.keyword_len;
    // An empty value is a value.
    if line.arg(0).is_empty() || !line.has(at + 1) {
        cx.error_at(
            line,
            at,
            format!("'{}' expects a name and a value.", line.keyword()),
        );
        return None;
    }
    cx.no_more(line, at + 2)
        .then(|| (line.arg(0).to_owned(), line.arg(1).to_owned()))
}

fn set_var(cx: &mut Cx<'_>, line: &Arc<Line>) {
    let at = line.keyword_len;
    let keyword = line.keyword();
    if line.arg(0).is_empty() || line.arg(1).is_empty() {
        let what = match keyword.as_str() {
            "set-var" => "a sample expression",
            _ => "a format string",
        };
        cx.error_at(
            line,
            line.words.len(),
            format!(
                "'{keyword}' requires a process-wide variable name ('proc.<name>') and {what}."
            ),
        );
        return;
    }
    let var = match VarRef::parse(line.arg(0)) {
        Ok(var) => var,
        Err(e) => return cx.expr_error(line, at, e),
    };
    if var.scope != Scope::Proc {
        cx.error_at(
            line,
            at,
            format!(
                "'{keyword}': cannot set variable '{}', only scope 'proc' is permitted in the global section.",
                line.arg(0)
            ),
        );
        return;
    }
    let source = match keyword.as_str() {
        "set-var" => cx
            .expr_words(line, at + 1, Place::CFG)
            .map(|(expr, taken)| (SetVarSource::Expr(expr), taken)),
        _ => cx
            .log_format(line, at + 1, Place::CFG, Purpose::Argument)
            .map(|format| (SetVarSource::Format(format), 1)),
    };
    if let Some((source, taken)) = source
        && cx.no_more(line, at + 1 + taken)
    {
        cx.global().set_vars.push((var, source));
    }
}
