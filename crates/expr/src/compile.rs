//! From text to a checked, compiled expression: `fetch(args),conv(args),...`.

use std::ops::Range;
use std::sync::Arc;

use crate::acl::AclTable;
use crate::arglist::{self, ArgList};
use crate::args::Arg;
use crate::conv::{self, BadArg, ConvDef};
use crate::env::Env;
use crate::error::ExprError;
use crate::fetch::{self, Cursor, FetchDef};
use crate::pattern::Store;
use crate::place::Place;
pub use crate::resolve::Names;
use crate::suggest;
use crate::value::{Absent, Fetched, Type, castable};

/// How files reach the language: pattern files, map files, error files. The proxy reads the disk, tests and fuzzers
/// give texts.
pub trait Loader {
    /// The file's bytes; the error is a sentence for the user.
    fn load(&self, path: &str) -> Result<Vec<u8>, String>;
    /// An environment variable as the configuration sees it (`setenv` included). `env()` is sampled when it is parsed.
    fn env(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }
    /// The address of a host name in a list of addresses, asked for when the list is loaded and never later. The error
    /// says why there is none.
    fn resolve(&self, host: &str) -> Result<std::net::IpAddr, String> {
        Err(format!("'{host}' is not looked up here"))
    }
}

/// What the parser needs to know about where it is.
#[derive(Clone, Copy)]
pub struct ParseCtx<'a> {
    /// The checkpoint(s) the expression will run at. Several bits: it must be valid at one of them at least.
    pub place: Place,
    pub loader: &'a dyn Loader,
    /// The process's pattern and map stores, shared by name between expressions and across reloads.
    pub store: &'a Store,
    /// File and line, kept for messages and for anonymous pattern lists.
    pub file: &'a str,
    pub line: u32,
    /// Mode http: fetches that need HTTP are welcome.
    pub http: bool,
    /// The ACLs declared so far, for the fetch `acl`. Without them it refuses every name.
    pub acls: Option<&'a AclTable>,
}

/// One converter of a compiled chain, with the cast its input needs.
#[derive(Clone)]
pub struct Step {
    pub def: &'static ConvDef,
    pub args: Arc<[Arg]>,
    pub cast: Option<Type>,
}

/// A compiled expression. Cheap to clone.
#[derive(Clone)]
pub struct Expr {
    pub fetch: &'static FetchDef,
    pub args: Arc<[Arg]>,
    pub steps: Arc<[Step]>,
    /// The type of the result.
    pub out: Type,
    /// The text as written.
    pub text: Arc<str>,
}

impl std::fmt::Debug for Expr {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Expr({}: {})", self.text, self.out.name())
    }
}

impl Expr {
    /// Parses a text that is one expression and nothing else.
    ///
    /// Errors point into the text: an unknown name, an argument that does not fit, a converter that cannot take what
    /// comes before it, a fetch that is not valid at `ctx.place`.
    pub fn parse(text: &str, ctx: &ParseCtx<'_>) -> Result<Expr, ExprError> {
        let (expr, end) = Expr::parse_prefix(text, ctx)?;
        if end < text.len() {
            let rest = &text[end..];
            return Err(
                ExprError::new(format!("'{rest}' does not belong to the expression"))
                    .at(end..text.len())
                    .hint("a converter follows after a comma"),
            );
        }
        Ok(expr)
    }

    /// Parses the expression `text` begins with and says where it ends, for a text that goes on with something else
    /// (the `]` of a log-format).
    pub fn parse_prefix(text: &str, ctx: &ParseCtx<'_>) -> Result<(Expr, usize), ExprError> {
        let name = word_at(text, 0);
        let def = fetch_named(text, name.clone())?;
        if let Some((reason, hint)) = def.places.refusal(ctx.place) {
            let error = ExprError::new(format!(
                "`{}` is not valid in {}: {reason}",
                def.name,
                describe_all(ctx.place)
            ))
            .at(name);
            return Err(match hint {
                Some(hint) => error.hint(hint),
                None => error,
            });
        }
        let ArgList {
            mut args,
            spans,
            mut end,
        } = arglist::read(text, name.end, name.clone(), def.args)?;
        if let fetch::Run::Later(part) = def.run {
            return Err(later(def.name, part, name));
        }
        if let Some(prepare) = def.prepare {
            prepare(&mut args, ctx).map_err(|bad| bad_arg(bad, def.name, &spans, &name))?;
        }
        let mut out = def.out;
        let mut before = def.name;
        let mut steps = Vec::new();
        while text.as_bytes().get(end) == Some(&b',') {
            // Empty steps are skipped: `str(a),,upper`.
            let at = end + text[end..].bytes().take_while(|&b| b == b',').count();
            let name = word_at(text, at);
            let step;
            (step, end) = Step::parse(text, name, before, out, ctx)?;
            before = step.def.name;
            if step.def.out != Type::Same {
                out = step.def.out;
            }
            steps.push(step);
        }
        let expr = Expr {
            fetch: def,
            args: args.into(),
            steps: steps.into(),
            out,
            text: text[..end].into(),
        };
        Ok((expr, end))
    }

    /// Parses the expression `words` begin with, where converters may stand in words of their own
    /// (`stick on src,ipmask(24)` or `src ipmask(24)`), and says how many words it took.
    pub fn parse_words(words: &[&str], ctx: &ParseCtx<'_>) -> Result<(Expr, usize), ExprError> {
        let first = words.first().copied().unwrap_or_default();
        let mut expr = Expr::parse(first.trim_end_matches(','), ctx)?;
        let mut taken = 1;
        for &word in &words[1.min(words.len())..] {
            let begins = word.trim_start_matches(',');
            if conv::find(&begins[word_at(begins, 0)]).is_none() {
                break;
            }
            let joined = format!("{},{}", expr.text, begins.trim_end_matches(','));
            let shift = joined.len() - begins.trim_end_matches(',').len();
            expr = Expr::parse(&joined, ctx).map_err(|e| {
                let span = e.span.start.saturating_sub(shift)..e.span.end.saturating_sub(shift);
                e.in_word(taken).at(span)
            })?;
            taken += 1;
        }
        Ok((expr, taken))
    }

    /// The sample; of a fetch that has several occurrences, the one the manual says (mostly the last).
    pub fn eval<'a>(&'a self, env: &'a dyn Env) -> Fetched<'a> {
        let mut cursor = Cursor::ONCE;
        self.eval_next(env, &mut cursor)
    }

    /// The next occurrence, for ACLs, which try them all: begin with `Cursor::default()` and go on while
    /// `not_last` is set.
    pub fn eval_next<'a>(&'a self, env: &'a dyn Env, cursor: &mut Cursor) -> Fetched<'a> {
        let fetch::Run::Fn(run) = self.fetch.run else {
            return Err(Absent::Never);
        };
        let mut sample = run(&self.args, env, cursor)?;
        for step in self.steps.iter() {
            let conv::Run::Fn(run) = step.def.run else {
                return Err(Absent::Never);
            };
            if let Some(to) = step.cast {
                sample.value = sample.value.cast(to).ok_or(Absent::Never)?;
            }
            let (may_change, not_last) = (sample.may_change, sample.not_last);
            sample = run(&step.args, sample, env)?;
            sample.may_change |= may_change;
            sample.not_last |= not_last;
        }
        Ok(sample)
    }

    /// The fetch's function, when there is nothing but the fetch.
    #[inline]
    pub(crate) fn plain(&self) -> Option<fetch::FetchFn> {
        match self.fetch.run {
            fetch::Run::Fn(run) if self.steps.is_empty() => Some(run),
            _ => None,
        }
    }

    /// The sample cast to `to`; [`Absent::Never`] when it has no such form.
    pub fn eval_as<'a>(&'a self, env: &'a dyn Env, to: Type) -> Fetched<'a> {
        let mut sample = self.eval(env)?;
        sample.value = sample.value.cast(to).ok_or(Absent::Never)?;
        Ok(sample)
    }

    /// Where the expression is valid: its fetch decides.
    pub fn places(&self) -> Place {
        self.fetch.places
    }

    /// Whether it reads the request while it is there (headers or bytes), so that it can wait for it.
    pub fn needs_request(&self) -> bool {
        Place::MESSAGE.contains(self.places()) && self.places().intersects(Place::ANY_REQ)
    }

    /// Whether it reads the response, or facts that exist only once there is one.
    pub fn needs_response(&self) -> bool {
        !self.places().intersects(Place::ANY_REQ) && self.places().intersects(Place::ANY_RES)
    }
}

impl Step {
    /// Parses the converter whose name lies at `name`, applied to what `before` gives, which is of type `input`.
    fn parse(
        text: &str,
        name: Range<usize>,
        before: &str,
        input: Type,
        ctx: &ParseCtx<'_>,
    ) -> Result<(Step, usize), ExprError> {
        let title = &text[name.clone()];
        if title.is_empty() {
            return Err(ExprError::new("a converter is missing after the comma")
                .at(name.start.saturating_sub(1)..name.start));
        }
        let Some(def) = conv::find(title) else {
            let known = conv::all().iter().map(|d| d.name);
            let error = ExprError::new(format!("unknown converter `{title}`")).at(name);
            return Err(match suggest::nearest(title, known) {
                Some(near) => error.hint(format!("did you mean `{near}`?")),
                None if fetch::find(title).is_some() => error.hint(format!(
                    "`{title}` is a fetch: an expression has one, at its start"
                )),
                None => error,
            });
        };
        if !castable(input, def.input) {
            return Err(ExprError::new(format!(
                "`{title}` takes {}, but `{before}` gives {}",
                def.input.describe(),
                input.describe()
            ))
            .at(name)
            .hint(format!(
                "{} goes into {}",
                input.describe(),
                backquoted(takers(input))
            )));
        }
        let ArgList {
            mut args,
            spans,
            end,
        } = arglist::read(text, name.end, name.clone(), def.args)?;
        if let conv::Run::Later(part) = def.run {
            return Err(later(def.name, part, name));
        }
        if let Some(prepare) = def.prepare {
            prepare(&mut args, ctx).map_err(|bad| bad_arg(bad, def.name, &spans, &name))?;
        }
        let cast = (!matches!(def.input, Type::Any | Type::Same)).then_some(def.input);
        let step = Step {
            def,
            args: args.into(),
            cast,
        };
        Ok((step, end))
    }
}

/// The range of the name that starts at `at`.
fn word_at(text: &str, at: usize) -> Range<usize> {
    let len = text[at..]
        .bytes()
        .take_while(|b| b.is_ascii_alphanumeric() || b"._-+:".contains(b))
        .count();
    at..at + len
}

fn fetch_named(text: &str, name: Range<usize>) -> Result<&'static FetchDef, ExprError> {
    let title = &text[name.clone()];
    if let Some(def) = fetch::find(title) {
        return Ok(def);
    }
    if title.is_empty() {
        let first = text.chars().next().map_or(0, char::len_utf8);
        return Err(ExprError::new("a sample fetch is missing").at(0..first));
    }
    let known = fetch::all().iter().map(|d| d.name);
    let error = ExprError::new(format!("unknown sample fetch `{title}`")).at(name);
    Err(match suggest::nearest(title, known) {
        Some(near) => error.hint(format!("did you mean `{near}`?")),
        None if conv::find(title).is_some() => error.hint(format!(
            "`{title}` is a converter: it follows a fetch after a comma"
        )),
        None => error,
    })
}

/// All the places of a set, for a message; the two sides of one rule are named once.
fn describe_all(places: Place) -> String {
    let mut names: Vec<&str> = Vec::new();
    for place in places.iter() {
        if !names.contains(&place.describe()) {
            names.push(place.describe());
        }
    }
    names.join(" or ")
}

fn later(name: &str, part: &str, span: Range<usize>) -> ExprError {
    ExprError::new(format!("`{name}` is not implemented by Sluice yet"))
        .at(span)
        .hint(format!("it comes with: {part}"))
}

/// Converters that one may have meant, by what they are given.
fn takers(input: Type) -> &'static [&'static str] {
    match input {
        Type::Bool => &["not", "iif"],
        Type::Sint => &["add", "utime"],
        Type::Ipv4 | Type::Ipv6 | Type::Addr => &["ipmask", "map_ip"],
        Type::Bin => &["hex", "base64", "bytes"],
        Type::Str | Type::Meth | Type::Any | Type::Same => &["lower", "field", "map"],
    }
}

fn backquoted(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|n| format!("`{n}`")).collect();
    quoted.join(" or ")
}

fn bad_arg(bad: BadArg, name: &str, spans: &[Range<usize>], whole: &Range<usize>) -> ExprError {
    let span = spans
        .get(bad.index)
        .filter(|s| !s.is_empty())
        .unwrap_or(whole);
    let error = ExprError::new(format!("`{name}`: {}", bad.message)).at(span.clone());
    match bad.hint {
        Some(hint) => error.hint(hint),
        None => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_suggested_takes_the_type() {
        for input in [
            Type::Bool,
            Type::Sint,
            Type::Ipv4,
            Type::Ipv6,
            Type::Bin,
            Type::Str,
            Type::Meth,
        ] {
            for name in takers(input) {
                let def = conv::find(name).unwrap_or_else(|| panic!("{name} exists"));
                assert!(castable(input, def.input), "{name} takes {input:?}");
            }
        }
    }
}
