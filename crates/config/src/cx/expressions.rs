//! Expressions on a line: parsed with what is known there, their faults shown under the word they mean, their names
//! remembered for the resolve pass.

use std::sync::Arc;

use sluice_expr::place::Place;
use sluice_expr::{AclTable, Cond, Expr, ExprError, LogFormat, ParseCtx, Purpose};

use super::{Current, Cx, Pending, PendingAt};
use crate::files::Files;
use crate::line::Line;
use crate::model::Mode;

impl<'a> Cx<'a> {
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
        let loader = Files::borrowed(self.opts.loader, &self.base_path, &self.environ);
        let ctx = ParseCtx {
            place,
            loader: &loader,
            store: &self.opts.store,
            file: &line.file,
            line: line.number,
            // a profile serves proxies of any mode
            http: match self.current {
                Current::LogProfile(_) => true,
                _ => proxy.is_some_and(|p| p.mode() == Mode::Http),
            },
            acls: Some(acls),
        };
        match parse(&ctx, acls) {
            Ok(parsed) => {
                let fetches = ["req.body", "res.body", "internal.htx"];
                if line
                    .words
                    .iter()
                    .any(|w| fetches.iter().any(|f| w.text.contains(f)))
                {
                    self.raw.global.looks_at_bodies = true;
                }
                Some(parsed)
            }
            Err(e) => {
                self.expr_error(line, first, e);
                None
            }
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
        for warning in format.warnings() {
            self.expr_warning(line, word, warning.clone());
        }
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
        self.note_parent_scopes(line, word, matches!(what, Pending::Cond(_)));
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

    /// Warns of variables that can never be there: those of the stream that made this one as a sub-request.
    fn note_parent_scopes(&mut self, line: &Line, word: usize, to_the_end: bool) {
        let last = match to_the_end {
            true => line.words.len(),
            false => (word + 1).min(line.words.len()),
        };
        for at in word..last {
            if let Some(span) = parent_variable(line.word(at)) {
                let name = &line.word(at)[span.clone()];
                let warning = ExprError::new(format!("variable '{name}' is never set"))
                    .at(span.clone())
                    .hint(PARENT_SCOPES);
                self.expr_warning(line, at, warning);
            }
        }
    }
}

/// What the scopes `psess`, `ptxn`, `preq` and `pres` are for.
pub(crate) const PARENT_SCOPES: &str =
    "it is the variable of the stream that made this one as a sub-request, and Sluice makes none";

/// Where a variable of a parent stream is named in a word.
fn parent_variable(word: &str) -> Option<std::ops::Range<usize>> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.');
    let mut start = 0;
    for name in word.split(|c| !is_part(c)) {
        let scope = name.split_once('.').map(|(scope, _)| scope);
        if matches!(scope, Some("psess" | "ptxn" | "preq" | "pres")) {
            return Some(start..start + name.len());
        }
        // what parts names is ASCII or several bytes long
        start += name.len();
        start += word[start..].chars().next().map_or(0, char::len_utf8);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::parent_variable;

    #[test]
    fn variables_of_parents_are_found() {
        assert_eq!(parent_variable("%[é,var(ptxn.a.b),lower]"), Some(9..17));
        assert_eq!(parent_variable("var(psess.x)"), Some(4..11));
        assert_eq!(parent_variable("var(txn.ptxn.x)"), None);
        assert_eq!(parent_variable("var(txn.a)"), None);
    }
}
