//! One test of an ACL: `criterion [flags] [operator] [values...]` parsed, checked and evaluated.

use super::Tri;
use super::keyword::{self, AclKeyword};
use crate::args::Arg;
use crate::compile::{Expr, ParseCtx};
use crate::env::Env;
use crate::error::ExprError;
use crate::fetch::Cursor;
use crate::pattern::{Columns, Kind, Match, Matcher, Notation, Operator, file_hint, search};
use crate::place::Place;
use crate::resolve::Names;
use crate::suggest;
use crate::value::{Absent, Fetched, castable};

/// A criterion and the patterns it is compared with.
#[derive(Debug)]
pub(super) struct Test {
    pub(super) expr: Expr,
    /// The criterion as written, for messages.
    pub(super) keyword: String,
    matcher: Matcher,
}

impl Test {
    /// Binds the names in the expression; groups among the patterns must exist too.
    pub(super) fn resolve(&self, names: &dyn Names) -> Vec<ExprError> {
        let mut faults = self.expr.resolve(names);
        let list = match self.expr.args.first() {
            Some(Arg::Userlist(list)) if self.expr.fetch.name == "http_auth_group" => list.id(),
            _ => None,
        };
        let Some(userlist) = list else {
            return faults;
        };
        for patterns in self.matcher.lists() {
            patterns.visit(None, 0, &mut |_, key, _| {
                let group = String::from_utf8_lossy(key);
                if !names.has_group(userlist, &group) {
                    let message = format!("`http_auth_group`: no group is called '{group}'");
                    faults.push(
                        ExprError::new(message).hint("declare it with `group` in the userlist"),
                    );
                }
                true
            });
        }
        faults
    }

    /// Parses the words of one test. Errors count words from the criterion (0).
    pub(super) fn parse(
        words: &[&str],
        ctx: &ParseCtx<'_>,
        warnings: &mut Vec<ExprError>,
    ) -> Result<Test, ExprError> {
        Parser::new(words, ctx, warnings)?.run()
    }

    /// Tries all occurrences of the sample until one matches.
    pub(super) fn eval<'a>(&'a self, env: &'a dyn Env, is_final: bool) -> Tri {
        match self.expr.plain() {
            Some(fetch) => self.eval_by(is_final, |cursor| fetch(&self.expr.args, env, cursor)),
            None => self.eval_by(is_final, |cursor| self.expr.eval_next(env, cursor)),
        }
    }

    #[inline]
    fn eval_by<'a>(
        &'a self,
        is_final: bool,
        mut next: impl FnMut(&mut Cursor) -> Fetched<'a>,
    ) -> Tri {
        let mut cursor = Cursor::default();
        let unknown = if is_final { Tri::Fail } else { Tri::Miss };
        loop {
            match next(&mut cursor) {
                Err(Absent::Never) => return Tri::Fail,
                Err(Absent::NotYet) => return unknown,
                Ok(sample) if self.matcher.matches(&sample.value) => return Tri::Pass,
                Ok(sample) if sample.not_last => {}
                Ok(sample) if sample.may_change => return unknown,
                Ok(_) => return Tri::Fail,
            }
        }
    }

    pub(super) fn places(&self) -> Place {
        self.expr.places()
    }
}

struct Parser<'p> {
    words: &'p [&'p str],
    ctx: &'p ParseCtx<'p>,
    warnings: &'p mut Vec<ExprError>,
    expr: Expr,
    keyword: &'p str,
    method: Option<Match>,
    notation: Notation,
    /// The word that is read next.
    at: usize,
    ignore_case: bool,
    resolve: bool,
    columns: Columns,
    id: Option<u32>,
    files: Vec<(usize, Columns, bool, bool)>,
}

impl<'p> Parser<'p> {
    fn new(
        words: &'p [&'p str],
        ctx: &'p ParseCtx<'p>,
        warnings: &'p mut Vec<ExprError>,
    ) -> Result<Self, ExprError> {
        let Some(&criterion) = words.first().filter(|w| !w.is_empty()) else {
            return Err(ExprError::new("an ACL needs a criterion")
                .hint("a sample fetch such as `path` or an ACL keyword such as `path_beg`"));
        };
        let (expr, keyword) = criterion_of(criterion, ctx)?;
        // A converter changes what is compared: the keyword's own method no longer applies.
        let keyword_applies = keyword.filter(|_| expr.steps.is_empty());
        let (method, notation) = match keyword_applies {
            Some(k) => (Some(k.method), k.notation),
            None => (Match::default_for(expr.out), Notation::Plain),
        };
        if words.len() == 1 && method.is_some_and(Match::takes_patterns) {
            warnings.push(
                ExprError::new(format!(
                    "no pattern to match `{criterion}` against, so this ACL will never match"
                ))
                .hint(
                    "use '-m found' to test for existence, '-m bool' for a number other than 0, or add '--' if \
                     this is meant",
                ),
            );
        }
        Ok(Parser {
            words,
            ctx,
            warnings,
            expr,
            keyword: criterion,
            method,
            notation,
            at: 1,
            ignore_case: false,
            resolve: true,
            columns: Columns::Pattern,
            id: None,
            files: Vec::new(),
        })
    }

    fn run(mut self) -> Result<Test, ExprError> {
        self.flags()?;
        let Some(method) = self.method else {
            return Err(self.needs_method());
        };
        let mut lists = Vec::with_capacity(self.files.len() + 1);
        for (word, columns, ignore_case, resolve) in &self.files {
            let name = self.words[*word];
            let kind = self.kind(method, *ignore_case);
            let load = || {
                let list = self.ctx.store.load_acl_file(name, *columns, self.ctx)?;
                search(&list, kind, name, *columns, *resolve, self.ctx)?;
                Ok(list)
            };
            let list = load().map_err(|e: String| {
                let error = ExprError::new(e).in_word(*word);
                match file_hint(name, self.ctx) {
                    Some(hint) => error.hint(hint),
                    None => error,
                }
            })?;
            lists.push((list, kind));
        }
        lists.push(self.patterns(method)?);
        Ok(Test {
            expr: self.expr,
            keyword: self.keyword.to_owned(),
            matcher: Matcher::new(method, lists),
        })
    }

    fn kind(&self, method: Match, ignore_case: bool) -> Kind {
        Kind {
            method,
            ignore_case,
            notation: self.notation,
        }
    }

    fn needs_method(&self) -> ExprError {
        ExprError::new(format!(
            "`{}` gives {}, which has no matching method of its own",
            self.expr.text,
            self.expr.out.describe()
        ))
        .hint("say how to compare it with '-m': found, bin, str, sub, reg, len...")
    }

    /// Reads the words that begin with `-`.
    fn flags(&mut self) -> Result<(), ExprError> {
        while let Some(&word) = self.words.get(self.at)
            && word.starts_with('-')
        {
            match word {
                "-i" => self.ignore_case = true,
                "-n" => self.resolve = false,
                "-M" => self.columns = Columns::PatternAndValue,
                "-u" => {
                    let id = self.argument("a number")?;
                    self.id = Some(id.parse().map_err(|_| {
                        ExprError::new(format!("the argument of -u must be a number, not '{id}'"))
                            .in_word(self.at)
                    })?);
                }
                "-f" => {
                    if self.method.is_none() {
                        return Err(self.needs_method().in_word(self.at));
                    }
                    self.argument("a file")?;
                    self.files
                        .push((self.at, self.columns, self.ignore_case, self.resolve));
                }
                "-m" => self.match_method()?,
                "--" => {
                    self.at += 1;
                    return Ok(());
                }
                _ if dashed_operator(word).is_some() => return Ok(()),
                _ => {
                    return Err(ExprError::new(format!("'{word}' is not a flag of ACLs"))
                        .in_word(self.at)
                        .hint("the flags are -i, -f, -m, -n, -M, -u; put '--' before patterns that begin with '-'"));
                }
            }
            self.at += 1;
        }
        Ok(())
    }

    /// Steps to the word after the current one.
    fn argument(&mut self, what: &str) -> Result<&'p str, ExprError> {
        let flag = self.words[self.at];
        match self.words.get(self.at + 1) {
            Some(&word) if !word.is_empty() => {
                self.at += 1;
                Ok(word)
            }
            _ => Err(ExprError::new(format!("'{flag}' needs {what} after it")).in_word(self.at)),
        }
    }

    fn match_method(&mut self) -> Result<(), ExprError> {
        if !self.files.is_empty() {
            return Err(
                ExprError::new("'-m' must come before the files and patterns it is for")
                    .in_word(self.at),
            );
        }
        let name = self.argument("a matching method")?;
        let Some(method) = Match::parse(name) else {
            let error =
                ExprError::new(format!("unknown matching method '{name}'")).in_word(self.at);
            let known = Match::ALL.map(Match::name);
            return Err(match suggest::nearest(name, known.into_iter()) {
                Some(near) => error.hint(format!("did you mean '{near}'?")),
                None => error.hint(format!("the methods are {}", known.join(", "))),
            });
        };
        if method != Match::Found && !castable(self.expr.out, method.expects()) {
            return Err(ExprError::new(format!(
                "matching method '{name}' cannot be used with `{}`, which gives {}",
                self.expr.text,
                self.expr.out.describe()
            ))
            .in_word(self.at));
        }
        self.method = Some(method);
        Ok(())
    }

    /// The patterns written here, as the last list: an empty one takes what `add acl` brings.
    fn patterns(
        &mut self,
        method: Match,
    ) -> Result<(std::sync::Arc<crate::pattern::List>, Kind), ExprError> {
        let kind = self.kind(method, self.ignore_case);
        let first = self.at;
        let rest = self.words.get(first..).unwrap_or_default();
        let end = rest.iter().position(|w| w.is_empty());
        if let Some(end) = end {
            self.warnings.push(
                ExprError::new("an empty word ends the patterns of an ACL")
                    .in_word(first + end)
                    .hint("use '-m len 0' to match an empty value"),
            );
        }
        let rest = &rest[..end.unwrap_or(rest.len())];
        let takes_operators = matches!(method, Match::Int | Match::Len);
        let mut operator = Operator::Eq;
        let mut texts = Vec::with_capacity(rest.len());
        let mut origin = Vec::with_capacity(rest.len());
        for (i, &word) in rest.iter().enumerate() {
            if takes_operators && let Some(op) = Operator::parse(word) {
                operator = op;
                continue;
            }
            if takes_operators && let Some((op, name)) = dashed_operator(word) {
                self.warnings.push(
                    ExprError::new(format!("'{word}' is an operator with a dash"))
                        .in_word(first + i)
                        .hint(format!("write '{name}'")),
                );
                operator = op;
                continue;
            }
            let text = match takes_operators {
                true => operator
                    .apply(word, self.notation)
                    .map_err(|e| ExprError::new(e).in_word(first + i))?,
                false => word.to_owned(),
            };
            if takes_operators && word.starts_with('-') {
                self.warnings.push(
                    ExprError::new(format!(
                        "'{word}' is the range of all numbers up to {}, not a negative number",
                        &word[1..]
                    ))
                    .in_word(first + i)
                    .hint("write ':-5' for -5 and less"),
                );
            }
            texts.push(text);
            origin.push(first + i);
        }
        let keyword = self.expr_name();
        let list = self
            .ctx
            .store
            .inline(keyword, self.id, &texts, self.ctx)
            .map_err(ExprError::new)?;
        let resolver = self.resolve.then_some(self.ctx.loader);
        list.searched_by(kind, resolver).map_err(|(key, why)| {
            let at = texts.iter().position(|t| t.as_bytes() == key);
            let word = at.and_then(|at| origin.get(at)).copied();
            let error = ExprError::new(why).in_word(word.unwrap_or(first));
            match method {
                Match::Reg => {
                    error.hint("a backslash before a special character matches it as it is")
                }
                _ => error,
            }
        })?;
        Ok((list, kind))
    }

    /// The criterion's name without its arguments, as `show acl` prints it.
    fn expr_name(&self) -> &'p str {
        let end = self.keyword.find(['(', ',']).unwrap_or(self.keyword.len());
        &self.keyword[..end]
    }
}

/// Parses the first word: an ACL keyword stands for its fetch. Spans of errors are those of the word as written.
fn criterion_of(
    word: &str,
    ctx: &ParseCtx<'_>,
) -> Result<(Expr, Option<&'static AclKeyword>), ExprError> {
    let end = word.find(['(', ',', ' ']).unwrap_or(word.len());
    let name = &word[..end];
    // ACLs may be used anywhere: where they make no sense is told when a condition uses them.
    let anywhere = ParseCtx {
        place: Place::empty(),
        ..*ctx
    };
    match keyword::find(name) {
        None => {
            let expr = Expr::parse(word, &anywhere).map_err(|e| suggest_keyword(e, name))?;
            Ok((expr, None))
        }
        Some(k) => {
            let text = format!("{}{}", k.fetch, &word[end..]);
            let shift = |at: usize| match at {
                at if at <= k.fetch.len() => at.min(end),
                at => at - k.fetch.len() + end,
            };
            let expr = Expr::parse(&text, &anywhere).map_err(|e| {
                let whole = e.span == (0..k.fetch.len());
                let span = if whole {
                    0..end
                } else {
                    shift(e.span.start)..shift(e.span.end)
                };
                e.at(span)
            })?;
            Ok((expr, Some(k)))
        }
    }
}

/// A name that is no fetch may be near to an ACL keyword instead.
fn suggest_keyword(error: ExprError, name: &str) -> ExprError {
    let unknown = error.span == (0..name.len()) && error.hint.is_none();
    let near = suggest::nearest(name, keyword::KEYWORDS.iter().map(|k| k.name));
    match near {
        Some(near) if unknown => error.hint(format!("did you mean `{near}`?")),
        _ => error,
    }
}

/// `-lt` and its kin, as published configurations of 2009 write operators.
fn dashed_operator(word: &str) -> Option<(Operator, &str)> {
    let name = word.strip_prefix('-')?;
    Operator::parse(name).map(|op| (op, name))
}
