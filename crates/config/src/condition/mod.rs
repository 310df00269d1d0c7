//! Conditions, as `.if` and `-cc` evaluate them (manual chapter 2.4). The directives are in [`blocks`].

mod blocks;
mod predicates;

pub(crate) use blocks::{Blocks, directive};
pub use predicates::{PREDICATES, Predicate};

use std::ops::Range;

use crate::environ::Environ;

/// The version of HAProxy's language Sluice speaks: what `version_atleast` compares with, and HAPROXY_VERSION.
pub const LANGUAGE_VERSION: &str = "3.5.0";

/// Deepest nesting of parentheses in a condition.
const PARENTHESES_MAX: usize = 64;

/// What conditions may ask about the process.
pub struct Facts<'a> {
    pub environ: &'a Environ,
    /// Names from the feature list that are built in.
    pub features: &'a [String],
    /// Names that `enabled()` finds.
    pub enabled: &'a [String],
    /// Name and version of the TLS library, for `ssllib_name_startswith`.
    pub tls_library: &'a str,
}

/// What is wrong with a condition, and where in its text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ConditionFault {
    pub message: String,
    pub span: Range<usize>,
    pub hint: Option<String>,
}

/// Evaluates a condition. The whole text is checked, also the part that the outcome does not depend on.
pub fn eval_condition(text: &str, facts: &Facts<'_>) -> Result<bool, ConditionFault> {
    let mut parser = Parser {
        text,
        at: 0,
        facts,
        depth: 0,
    };
    parser.skip_blanks();
    if parser.at == text.len() {
        return Ok(false);
    }
    let value = parser.any()?;
    parser.skip_blanks();
    match text[parser.at..].chars().next() {
        None => Ok(value),
        Some(c) => Err(parser.fault(
            parser.at..parser.at + c.len_utf8(),
            format!("unexpected character '{c}' at the end of conditional expression '{text}'"),
        )),
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    facts: &'a Facts<'a>,
    depth: usize,
}

impl Parser<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn skip_blanks(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start_matches([' ', '\t']).len();
    }

    fn fault(&self, span: Range<usize>, message: String) -> ConditionFault {
        ConditionFault {
            message,
            span,
            hint: None,
        }
    }

    /// `A || B || ...`
    fn any(&mut self) -> Result<bool, ConditionFault> {
        let mut value = self.all()?;
        loop {
            self.skip_blanks();
            if !self.rest().starts_with("||") {
                return Ok(value);
            }
            self.at += 2;
            value |= self.all()?;
        }
    }

    /// `A && B && ...`
    fn all(&mut self) -> Result<bool, ConditionFault> {
        let mut value = self.term()?;
        loop {
            self.skip_blanks();
            if !self.rest().starts_with("&&") {
                return Ok(value);
            }
            self.at += 2;
            value &= self.term()?;
        }
    }

    /// An integer, a predicate or a condition in parentheses, with any number of `!` before it.
    fn term(&mut self) -> Result<bool, ConditionFault> {
        self.skip_blanks();
        let start = self.at;
        let mut negate = false;
        while self.rest().starts_with('!') {
            negate = !negate;
            self.at += 1;
            self.skip_blanks();
        }
        let value = self.plain(start)?;
        Ok(value != negate)
    }

    fn plain(&mut self, start: usize) -> Result<bool, ConditionFault> {
        if self.rest().starts_with('(') {
            return self.parentheses();
        }
        let sign = usize::from(self.rest().starts_with(['-', '+']));
        let digits = self.rest().as_bytes()[sign..]
            .iter()
            .take_while(|b| b.is_ascii_digit())
            .count();
        if digits > 0 {
            let zero = self.rest().as_bytes()[sign..sign + digits]
                .iter()
                .all(|b| *b == b'0');
            self.at += sign + digits;
            return Ok(!zero);
        }
        let name_at = self.at;
        let name_len = self
            .rest()
            .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .unwrap_or(self.rest().len());
        let name = &self.text[name_at..name_at + name_len];
        let Some(predicate) = PREDICATES.iter().find(|p| p.name == name) else {
            let near = crate::diag::suggest(name, PREDICATES.iter().map(|p| p.name));
            let mut fault = self.fault(
                start
                    ..(name_at + name_len)
                        .max(start + 1)
                        .min(self.text.len().max(start)),
                format!(
                    "unparsable conditional expression '{}'",
                    &self.text[start..]
                ),
            );
            fault.hint = Some(match near {
                Some(near) => format!("did you mean '{near}'?"),
                None => format!(
                    "a condition is made of integers, parentheses, '!', '&&', '||' and of the predicates {}",
                    PREDICATES
                        .iter()
                        .map(|p| p.name)
                        .collect::<Vec<_>>()
                        .join(", ")
                ),
            });
            return Err(fault);
        };
        self.at += name_len;
        let args = match self.rest().starts_with('(') {
            true => self.arguments(predicate)?,
            false => Vec::new(),
        };
        if args.len() < predicate.args.len() && !(args.is_empty() && predicate.args.len() == 1) {
            return Err(self.fault(
                name_at..self.at,
                format!(
                    "missing arguments (got {}/{}), type 'string' expected in argument {} of predicate '{name}' used in \
                     conditional expression",
                    args.len(),
                    predicate.args.len(),
                    args.len(),
                ),
            ));
        }
        let arg = |n: usize| args.get(n).map_or("", String::as_str);
        Ok((predicate.test)(self.facts, arg(0), arg(1)))
    }

    fn parentheses(&mut self) -> Result<bool, ConditionFault> {
        let open = self.at;
        self.depth += 1;
        if self.depth > PARENTHESES_MAX {
            return Err(self.fault(
                open..open + 1,
                "too many nested parentheses in conditional expression".to_owned(),
            ));
        }
        self.at += 1;
        let value = self.any()?;
        self.skip_blanks();
        if !self.rest().starts_with(')') {
            return Err(self.fault(
                open..open + 1,
                format!(
                    "expected ')' after conditional expression '{}'",
                    &self.text[open..]
                ),
            ));
        }
        self.at += 1;
        self.depth -= 1;
        Ok(value)
    }

    /// `(a,"b c",d)`: quotes and backslashes as on a line, but no variables.
    fn arguments(&mut self, predicate: &Predicate) -> Result<Vec<String>, ConditionFault> {
        let open = self.at;
        let mut args = vec![String::new()];
        let mut quote = None;
        let mut chars = self.text[open + 1..].char_indices().peekable();
        while let Some((i, c)) = chars.next() {
            let here = open + 1 + i;
            let last = args.len() - 1;
            match (c, quote) {
                ('"' | '\'', None) => quote = Some(c),
                (c, Some(q)) if c == q => quote = None,
                ('\\', None | Some('"')) => match chars.peek() {
                    Some((_, next @ (' ' | ',' | ')' | '(' | '\\' | '"' | '\''))) => {
                        args[last].push(*next);
                        chars.next();
                    }
                    _ => args[last].push('\\'),
                },
                (',', None) if args.len() < predicate.args.len() => args.push(String::new()),
                (',', None) => {
                    return Err(self.fault(
                        here..here + 1,
                        format!(
                            "expected ')' before '{}' in argument {} of predicate '{}' used in conditional expression",
                            &self.text[here..],
                            args.len(),
                            predicate.name
                        ),
                    ));
                }
                (')', None) => {
                    self.at = here + 1;
                    return Ok(args);
                }
                (c, _) => args[last].push(c),
            }
        }
        Err(self.fault(
            open..self.text.len(),
            format!(
                "expected ')' in argument {} of predicate '{}' used in conditional expression",
                args.len(),
                predicate.name
            ),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn eval(text: &str) -> Result<bool, ConditionFault> {
        let environ = Environ::new(&[("X".into(), "a b".into())]);
        let facts = Facts {
            environ: &environ,
            features: &["THREAD".into()],
            enabled: &["EPOLL".into()],
            tls_library: "rustls 0.23",
        };
        eval_condition(text, &facts)
    }

    /// Values as haproxy 2.6 has them, but for the predicates it does not know.
    #[test]
    fn conditions_have_values() {
        let check = |text: &str, expect: bool| assert_eq!(eval(text), Ok(expect), "{text}");
        check("", false);
        check("0", false);
        check("-1", true);
        check("1 && 1", true);
        check("1 && 0 || 1 && 1", true);
        check("! 0", true);
        check("!!1", true);
        check("!(1 && 0)", true);
        check("defined", false);
        check("defined(X) && !defined(Y)", true);
        check("streq(a, a)", false);
        check("streq(a b,a b)", true);
        check("streq(\"a,\",'a,')", true);
        check("strneq(a,b)", true);
        check("strstr(abc,b)", true);
        check("feature(THREAD) && !feature(OPENSSL)", true);
        check("enabled(EPOLL)", true);
        check("version_atleast(2.4-dev19) && !version_before(2.4)", true);
        check("version_before(99.1)", true);
        check("version_atleast(3.5-dev1) && version_before(3.5.1)", true);
        check("ssllib_name_startswith(rustls)", true);
    }

    #[test]
    fn faults_stand_where_haproxy_finds_them() {
        let check = |text: &str, at: usize, message: &str| {
            let fault = eval(text).unwrap_err();
            assert_eq!(
                (fault.span.start + 1, fault.message.as_str()),
                (at, message),
                "{text}"
            );
        };
        check("foo", 1, "unparsable conditional expression 'foo'");
        check(
            "1 2",
            3,
            "unexpected character '2' at the end of conditional expression '1 2'",
        );
        check(
            "1 & 1",
            3,
            "unexpected character '&' at the end of conditional expression '1 & 1'",
        );
        check("(1", 1, "expected ')' after conditional expression '(1'");
        check("0 && foo", 6, "unparsable conditional expression 'foo'");
        check("!", 1, "unparsable conditional expression '!'");
        check(
            "defined(X,Y)",
            10,
            "expected ')' before ',Y)' in argument 1 of predicate 'defined' used in conditional expression",
        );
        assert!(eval(&"(".repeat(100_000)).is_err());
    }
}
