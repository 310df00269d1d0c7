//! Conditional blocks: `.if`, `.elif`, `.else`, `.endif` with their conditions (manual chapter 2.4), and the messages
//! `.notice`, `.warning`, `.alert`, `.diag`.

use std::ops::Range;

use crate::cx::Cx;
use crate::diag::Severity;
use crate::environ::Environ;
use crate::line::{Line, Word};

/// The version of HAProxy's language Sluice speaks: what `version_atleast` compares with, and HAPROXY_VERSION.
pub const LANGUAGE_VERSION: &str = "3.5.0";

/// Deepest nesting of `.if` blocks and of parentheses in a condition.
const NESTED_MAX: usize = 1024;
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

/// One predicate of manual chapter 2.4.
pub struct Predicate {
    pub name: &'static str,
    /// Names of its arguments.
    pub args: &'static [&'static str],
    pub help: &'static str,
    test: fn(&Facts<'_>, &str, &str) -> bool,
}

/// Every predicate.
pub static PREDICATES: &[Predicate] = &[
    Predicate {
        name: "defined",
        args: &["name"],
        help: "an environment variable of this name exists",
        test: |facts, name, _| facts.environ.var(name).is_some(),
    },
    Predicate {
        name: "feature",
        args: &["name"],
        help: "the feature is listed with a '+' by -vv",
        test: |facts, name, _| facts.features.iter().any(|f| f == name),
    },
    Predicate {
        name: "streq",
        args: &["str1", "str2"],
        help: "the strings are equal",
        test: |_, a, b| a == b,
    },
    Predicate {
        name: "strneq",
        args: &["str1", "str2"],
        help: "the strings differ",
        test: |_, a, b| a != b,
    },
    Predicate {
        name: "strstr",
        args: &["str", "sub"],
        help: "the second string is found in the first",
        test: |_, a, b| a.contains(b),
    },
    Predicate {
        name: "version_atleast",
        args: &["version"],
        help: "the language is at least that of this version",
        test: |_, version, _| version_key(LANGUAGE_VERSION) >= version_key(version),
    },
    Predicate {
        name: "version_before",
        args: &["version"],
        help: "the language is older than that of this version",
        test: |_, version, _| version_key(LANGUAGE_VERSION) < version_key(version),
    },
    // Sluice is linked with no OpenSSL and no AWS-LC in OpenSSL's clothes: their versions are never reached, nor old.
    Predicate {
        name: "openssl_version_atleast",
        args: &["version"],
        help: "never true: the TLS library is no OpenSSL",
        test: |_, _, _| false,
    },
    Predicate {
        name: "openssl_version_before",
        args: &["version"],
        help: "never true: the TLS library is no OpenSSL",
        test: |_, _, _| false,
    },
    Predicate {
        name: "awslc_api_atleast",
        args: &["version"],
        help: "never true: the TLS library is not used through AWS-LC's OpenSSL API",
        test: |_, _, _| false,
    },
    Predicate {
        name: "awslc_api_before",
        args: &["version"],
        help: "never true: the TLS library is not used through AWS-LC's OpenSSL API",
        test: |_, _, _| false,
    },
    Predicate {
        name: "ssllib_name_startswith",
        args: &["name"],
        help: "the TLS library's name begins so",
        test: |facts, name, _| facts.tls_library.starts_with(name),
    },
    Predicate {
        name: "enabled",
        args: &["name"],
        help: "the option (EPOLL, SPLICE, REUSEPORT, ...) is in use",
        test: |facts, name, _| facts.enabled.iter().any(|f| f == name),
    },
];

/// A version as numbers that compare: `2.4-dev19` is before `2.4`. Missing parts are zero, other text is ignored.
fn version_key(version: &str) -> [u64; 5] {
    let (numbers, suffix) = match version.split_once('-') {
        Some((numbers, suffix)) => (numbers, suffix),
        None => (version, ""),
    };
    let number = |text: &str| {
        let digits: String = text.chars().take_while(char::is_ascii_digit).collect();
        digits.parse::<u64>().unwrap_or(0)
    };
    let mut parts = numbers.split('.').map(number);
    let mut next = || parts.next().unwrap_or(0);
    let (major, minor, patch) = (next(), next(), next());
    let (stage, count) = match suffix {
        s if s.starts_with("dev") => (0, number(&s[3..])),
        s if s.starts_with("rc") => (1, number(&s[2..])),
        _ => (2, 0),
    };
    [major, minor, patch, stage, count]
}

/// One open `.if`.
struct Block {
    line: Line,
    /// A branch of it was taken already, or nothing in it may be.
    done: bool,
    /// Its lines are read now.
    active: bool,
    in_else: bool,
}

/// The nesting of conditional blocks in one file.
#[derive(Default)]
pub(crate) struct Blocks(Vec<Block>);

impl Blocks {
    /// Whether lines are read here.
    pub fn active(&self) -> bool {
        self.0.last().is_none_or(|b| b.active)
    }

    /// Complains about blocks that were left open.
    pub fn finish(self, cx: &mut Cx<'_>) {
        for block in self.0 {
            cx.error(
                &block.line,
                0,
                0..0,
                "non-terminated '.if' block.",
                Some("close it with '.endif'".into()),
            );
        }
    }
}

/// Runs a line that begins with a dot. True when it was a directive (known or not).
pub(crate) fn directive(cx: &mut Cx<'_>, blocks: &mut Blocks, line: &mut Line) -> bool {
    let name = line.word(0).to_owned();
    if !name.starts_with('.') {
        return false;
    }
    line.keyword_len = 1;
    let argument_allowed = matches!(
        name.as_str(),
        ".if" | ".elif" | ".notice" | ".warning" | ".alert" | ".diag"
    );
    let known = argument_allowed || matches!(name.as_str(), ".else" | ".endif");
    if !known {
        if blocks.active() {
            cx.error_at(line, 0, format!("unknown directive '{name}'."));
        }
        return true;
    }
    if !argument_allowed && line.has(1) {
        cx.error_at(
            line,
            1,
            format!("Unexpected argument '{}' for '{name}'.", line.word(1)),
        );
    }
    match name.as_str() {
        ".if" => open(cx, blocks, line),
        ".elif" | ".else" => alternative(cx, blocks, line, &name),
        ".endif" => {
            if blocks.0.pop().is_none() {
                cx.error_at(line, 0, "lone '.endif' with no matching '.if'.");
            }
        }
        _ if blocks.active() => message(cx, line, &name),
        _ => {}
    }
    true
}

fn open(cx: &mut Cx<'_>, blocks: &mut Blocks, line: &mut Line) {
    let outer = blocks.active();
    let active = outer && condition(cx, line);
    if blocks.0.len() >= NESTED_MAX {
        cx.error_at(
            line,
            0,
            format!("too many nested '.if', limit: {NESTED_MAX}"),
        );
    }
    blocks.0.push(Block {
        line: line.clone(),
        done: active || !outer,
        active,
        in_else: false,
    });
}

fn alternative(cx: &mut Cx<'_>, blocks: &mut Blocks, line: &mut Line, name: &str) {
    let Some(block) = blocks.0.last_mut() else {
        cx.error_at(line, 0, format!("lone '{name}' with no matching '.if'."));
        return;
    };
    if block.in_else {
        cx.error_at(line, 0, format!("'{name}' after '.else' is not permitted."));
        block.active = false;
        return;
    }
    block.in_else = name == ".else";
    block.active = !block.done && (block.in_else || condition(cx, line));
    block.done |= block.active;
}

/// The words after `.if` or `.elif`, as one text.
fn condition(cx: &mut Cx<'_>, line: &mut Line) -> bool {
    let joined = join(&line.words[1..]);
    line.words.truncate(1);
    line.words.push(joined);
    let facts = Facts {
        environ: &cx.environ,
        features: &cx.opts.features,
        enabled: &cx.opts.enabled,
        tls_library: &cx.opts.tls_library,
    };
    match eval_condition(line.word(1), &facts) {
        Ok(value) => value,
        Err(fault) => {
            let message = format!("{} in '{}'", fault.message, line.word(0));
            cx.error(line, 1, fault.span, message, fault.hint);
            false
        }
    }
}

fn join(words: &[Word]) -> Word {
    let mut joined = Word::default();
    if let (Some(first), Some(last)) = (words.first(), words.last()) {
        joined.span = first.span.start..last.span.end;
    }
    for (n, word) in words.iter().enumerate() {
        if n > 0 {
            joined.text.push(' ');
            joined.columns.push(word.span.start as u32);
        }
        joined.text.push_str(&word.text);
        joined.columns.extend(&word.columns);
    }
    joined
}

fn message(cx: &mut Cx<'_>, line: &Line, name: &str) {
    if line.has(2) {
        cx.error(
            line,
            2,
            0..0,
            format!("Unexpected argument '{}' for '{name}'.", line.word(2)),
            Some("use quotes if the message should contain spaces".into()),
        );
        return;
    }
    let severity = match name {
        ".diag" => Severity::Diag,
        ".notice" => Severity::Notice,
        ".warning" => Severity::Warning,
        _ => Severity::Alert,
    };
    let text = format!("'{}'.", line.word(1));
    cx.report(severity, line, 1, 0..0, text, None);
    if let Some(last) = cx.diagnostics.last_mut() {
        // The message is the source itself: no excerpt.
        last.excerpt = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::messages;

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

    #[test]
    fn blocks_nest() {
        let check = |text: &str, expect: &[&str]| assert_eq!(messages(text), expect, "{text}");
        check(
            ".if 0\n.foo\n.if bad\n.notice a\n.endif\n.elif 1\n.notice b\n.elif bad\n.else\n.notice c\n.endif\n.notice d\n",
            &["N7: 'b'.", "N12: 'd'."],
        );
        check(
            ".if 1\n.else\n.else\n.endif\n",
            &["A3: '.else' after '.else' is not permitted."],
        );
        check(".endif\n", &["A1: lone '.endif' with no matching '.if'."]);
        check(".if 1\n\n", &["A1: non-terminated '.if' block."]);
        check(".foo\n", &["A1: unknown directive '.foo'."]);
        check(
            ".notice a b\n",
            &["A1: Unexpected argument 'b' for '.notice'."],
        );
        check(
            "global\n.warning \"${.FILE}:${.LINE}:${.SECTION}\"\nfrontend x\n.alert \"${.SECTION}\"\n",
            &["W2: 't.cfg:2:global'.", "A4: 'x'."],
        );
    }
}
