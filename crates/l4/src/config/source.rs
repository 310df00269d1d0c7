//! Lines of a configuration after everything that is not grammar: comments, includes, `@ID` conditions, `$VARS`,
//! `~SEQ` and `~LST` (keepalived.conf(5), ADVANCED CONFIGURATION).
//!
//! Files come through a trait, so that tests and fuzzers need no disk. Every expansion has a limit.

use super::diagnostic::{Diagnostic, Place, Severity};
use std::collections::HashMap;
use std::sync::Arc;

/// Where configuration text comes from, and the few facts about the machine that `keepalived -t` looks at.
pub trait Host {
    /// The text of a file, or why not.
    fn read(&self, path: &str) -> Result<String, String>;
    /// Files matching a shell pattern, sorted; a plain name that exists matches itself.
    fn glob(&self, pattern: &str) -> Vec<String>;
    /// Whether a network interface of that name exists; `None` when it cannot be known.
    fn interface_exists(&self, name: &str) -> Option<bool>;
    /// Whether a script exists and may be executed; `None` when it cannot be known.
    fn executable_exists(&self, path: &str) -> Option<bool>;
}

/// A host with no files and no opinion: for texts that stand alone.
pub struct NoHost;

impl Host for NoHost {
    fn read(&self, path: &str) -> Result<String, String> {
        Err(format!("{path}: no files here"))
    }
    fn glob(&self, _: &str) -> Vec<String> {
        Vec::new()
    }
    fn interface_exists(&self, _: &str) -> Option<bool> {
        None
    }
    fn executable_exists(&self, _: &str) -> Option<bool> {
        None
    }
}

/// One line, ready to be cut into words.
#[derive(Debug, Clone)]
pub struct Line {
    pub file: Arc<str>,
    pub number: u32,
    pub text: Arc<str>,
}

impl Line {
    pub fn place(&self, column: usize, length: usize) -> Place {
        Place {
            file: self.file.clone(),
            line: self.number,
            text: self.text.clone(),
            column,
            length,
        }
    }
}

/// Deepest chain of includes: a loop is stopped here. keepalived has no limit and runs out of files.
const INCLUDE_DEPTH_MAX: usize = 16;
/// Most lines one configuration may grow to by `~SEQ` and `~LST`: the manual's own example makes 65 024 instances of 14 lines.
const LINES_MAX: usize = 4_000_000;
/// Deepest nesting of parameters within parameters.
const EXPANSION_DEPTH_MAX: usize = 64;
/// Longest line after substitution.
const LINE_LENGTH_MAX: usize = 1 << 20;

/// Reads `text` (of the file `name`) into lines. `config_id` is what `@ID` is compared with.
pub fn lines(
    host: &dyn Host,
    name: &str,
    text: &str,
    config_id: &str,
) -> (Vec<Line>, Vec<Diagnostic>) {
    let mut reader = Reader {
        host,
        config_id,
        params: HashMap::new(),
        out: Vec::new(),
        diagnostics: Vec::new(),
        full: false,
    };
    reader.file(name, text, 0);
    (reader.out, reader.diagnostics)
}

struct Reader<'a> {
    host: &'a dyn Host,
    config_id: &'a str,
    params: HashMap<String, String>,
    out: Vec<Line>,
    diagnostics: Vec<Diagnostic>,
    full: bool,
}

impl Reader<'_> {
    fn file(&mut self, name: &str, text: &str, depth: usize) {
        let file: Arc<str> = name.into();
        let directory = name.rsplit_once('/').map_or(".", |(d, _)| d).to_string();
        self.params.insert("_PWD".into(), directory.clone());
        self.params
            .insert("_INSTANCE".into(), self.config_id.to_string());
        // A definition that goes on over several lines, and the line it started on.
        let mut definition: Option<(String, String, u32)> = None;
        for (index, raw) in text.lines().enumerate() {
            let number = index as u32 + 1;
            let clean = without_comment(raw).trim_end();
            if let Some((param, mut value, start)) = definition.take() {
                let (part, more) = continued(clean.trim_start());
                value.push_str(part.trim_end());
                value.push('\n');
                if more {
                    definition = Some((param, value, start));
                } else {
                    self.params.insert(param, value);
                }
                continue;
            }
            let trimmed = clean.trim_start();
            if trimmed.is_empty() {
                continue;
            }
            if let Some(pattern) = include(trimmed) {
                self.include(&file, number, raw, trimmed, pattern, &directory, depth);
                self.params.insert("_PWD".into(), directory.clone());
                continue;
            }
            if let Some(line) = condition(trimmed, self.config_id) {
                let (line, more) = continued(line);
                match param_definition(line) {
                    Some((param, value)) if more && value.trim().is_empty() => {
                        definition = Some((param.to_string(), String::new(), number));
                    }
                    Some((param, value)) => {
                        self.params.insert(param.to_string(), value.to_string());
                    }
                    None => {
                        // Untouched lines keep their indentation, so that the caret stands where the file has it.
                        let text = if std::ptr::eq(line, trimmed) {
                            clean
                        } else {
                            line
                        };
                        self.line(&file, number, text, 0);
                    }
                }
            }
        }
        if let Some((param, value, _)) = definition {
            self.params.insert(param, value);
        }
    }

    /// One logical line: expanded until nothing is left to expand.
    fn line(&mut self, file: &Arc<str>, number: u32, text: &str, depth: usize) {
        let trimmed = text.trim();
        if trimmed.is_empty() || self.full {
            return;
        }
        if depth > EXPANSION_DEPTH_MAX || text.len() > LINE_LENGTH_MAX {
            self.error(file, number, text, "parameters expand without end");
            return;
        }
        if depth > 0 {
            let Some(line) = condition(trimmed, self.config_id) else {
                return;
            };
            if let Some((param, value)) = param_definition(line) {
                self.params.insert(param.to_string(), value.to_string());
                return;
            }
            if !std::ptr::eq(line, trimmed) {
                return self.line(file, number, line, depth + 1);
            }
        }
        if trimmed.starts_with("~SEQ") || trimmed.starts_with("~LST") {
            return self.repeat(file, number, trimmed, depth);
        }
        if let Some(replaced) = substitute(text, &self.params) {
            let replaced = replaced.as_str();
            if replaced.contains('\n') {
                for part in replaced.lines() {
                    self.line(file, number, part, depth + 1);
                }
                return;
            }
            return self.line(file, number, replaced, depth + 1);
        }
        if self.out.len() >= LINES_MAX {
            self.full = true;
            self.error(
                file,
                number,
                text,
                "the configuration grows beyond 4000000 lines",
            );
            return;
        }
        self.out.push(Line {
            file: file.clone(),
            number,
            text: literals(text).into(),
        });
    }

    /// `~SEQ(var, start, step, end) rest` and `~LST(var, a, b) rest`.
    fn repeat(&mut self, file: &Arc<str>, number: u32, text: &str, depth: usize) {
        let Some((head, rest)) = repetition(text) else {
            self.error(file, number, text, "a ~SEQ or ~LST that does not read as ~SEQ(var, [start, [step,]] end) or ~LST(var, value ...)");
            return;
        };
        for values in head {
            let mut line = rest.to_string();
            let saved: Vec<_> = values
                .iter()
                .map(|(k, v)| (k.clone(), self.params.insert(k.clone(), v.clone())))
                .collect();
            // Replace the loop variable first: definitions inside may be reused with another value.
            if let Some(replaced) = substitute_only(&line, &values) {
                line = replaced;
            }
            self.line(file, number, &line, depth + 1);
            for (k, old) in saved {
                match old {
                    Some(v) => self.params.insert(k, v),
                    None => self.params.remove(&k),
                };
            }
            if self.full {
                return;
            }
        }
    }

    #[allow(clippy::too_many_arguments)]
    fn include(
        &mut self,
        file: &Arc<str>,
        number: u32,
        raw: &str,
        directive: &str,
        pattern: &str,
        directory: &str,
        depth: usize,
    ) {
        if depth >= INCLUDE_DEPTH_MAX {
            return self.error(file, number, raw, "includes nest deeper than 16 files");
        }
        let full = if pattern.starts_with('/') {
            pattern.to_string()
        } else {
            format!("{directory}/{pattern}")
        };
        let found = self.host.glob(&full);
        let strict = directive.starts_with("includea")
            || directive.starts_with("includer")
            || directive.starts_with("includem")
            || directive.starts_with("includew");
        if found.is_empty() {
            let severity = if strict {
                Severity::Error
            } else {
                Severity::Warning
            };
            self.report(
                severity,
                file,
                number,
                raw,
                &format!("no file matches {pattern}"),
            );
        }
        for name in found {
            match self.host.read(&name) {
                Ok(text) => self.file(&name, &text, depth + 1),
                Err(why) => {
                    let severity = if strict {
                        Severity::Error
                    } else {
                        Severity::Warning
                    };
                    self.report(severity, file, number, raw, &why);
                }
            }
        }
    }

    fn error(&mut self, file: &Arc<str>, number: u32, text: &str, message: &str) {
        self.report(Severity::Error, file, number, text, message);
    }

    fn report(
        &mut self,
        severity: Severity,
        file: &Arc<str>,
        number: u32,
        text: &str,
        message: &str,
    ) {
        let text: String = text.chars().take(400).collect();
        let line = Line {
            file: file.clone(),
            number,
            text: text.as_str().into(),
        };
        let indent = text.len() - text.trim_start().len();
        let place = line.place(indent, text.trim().len());
        self.diagnostics
            .push(Diagnostic::new(severity, Some(place), message));
    }
}

/// The line up to a `#` or `!` that stands outside quotes.
fn without_comment(line: &str) -> &str {
    let mut quote = None;
    let mut escaped = false;
    for (at, c) in line.char_indices() {
        if escaped {
            escaped = false;
            continue;
        }
        match (quote, c) {
            (_, '\\') if at + 1 < line.len() => escaped = true,
            (None, '#' | '!') => return &line[..at],
            (None, '"' | '\'') => quote = Some(c),
            (Some(q), c) if q == c => quote = None,
            _ => {}
        }
    }
    line
}

/// The line without a trailing backslash, and whether it had one.
fn continued(line: &str) -> (&str, bool) {
    match line.strip_suffix('\\') {
        Some(rest) => (rest, true),
        None => (line, false),
    }
}

fn include(line: &str) -> Option<&str> {
    let (word, rest) = line.split_once([' ', '\t'])?;
    matches!(
        word,
        "include" | "includer" | "includem" | "includew" | "includeb" | "includea"
    )
    .then(|| rest.trim().trim_matches('"'))
}

/// Resolves a leading `@ID` or `@^ID`: the rest of the line if it applies, the line itself if it has no condition.
fn condition<'a>(line: &'a str, config_id: &str) -> Option<&'a str> {
    let Some(tail) = line.strip_prefix('@') else {
        return Some(line);
    };
    let (negative, tail) = match tail.strip_prefix('^') {
        Some(t) => (true, t),
        None => (false, tail),
    };
    let (id, rest) = tail.split_once([' ', '\t']).unwrap_or((tail, ""));
    ((id == config_id) != negative).then(|| rest.trim_start())
}

/// `$NAME=VALUE`.
fn param_definition(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.strip_prefix('$')?.split_once('=')?;
    is_name(name).then_some((name, value))
}

fn is_name(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// Replaces each known `$NAME` (before white space or the end) and `${NAME}`; `None` when nothing was replaced.
fn substitute(text: &str, params: &HashMap<String, String>) -> Option<String> {
    replace_with(text, |name| params.get(name).map(String::as_str))
}

fn substitute_only(text: &str, values: &[(String, String)]) -> Option<String> {
    replace_with(text, |name| {
        values
            .iter()
            .find(|(k, _)| k == name)
            .map(|(_, v)| v.as_str())
    })
}

fn replace_with<'v>(text: &str, value: impl Fn(&str) -> Option<&'v str>) -> Option<String> {
    let mut out = String::new();
    let mut rest = text;
    let mut replaced = false;
    while let Some(at) = rest.find('$') {
        let (before, dollar) = rest.split_at(at);
        out.push_str(before);
        let tail = dollar.get(1..).unwrap_or("");
        let (name, after) = match tail.strip_prefix('{') {
            Some(inner) => match inner.split_once('}') {
                Some((name, after)) => (name, after),
                None => ("", tail),
            },
            None => {
                let end = tail
                    .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
                    .unwrap_or(tail.len());
                let after = tail.get(end..).unwrap_or("");
                match after.chars().next() {
                    Some(c) if !c.is_whitespace() => ("", tail),
                    _ => (tail.get(..end).unwrap_or(""), after),
                }
            }
        };
        match value(name).filter(|_| !name.is_empty()) {
            Some(v) => {
                out.push_str(v.trim_end_matches('\n'));
                replaced = true;
                rest = after;
            }
            None => {
                out.push('$');
                rest = tail;
            }
        }
        if out.len() > LINE_LENGTH_MAX {
            break;
        }
    }
    out.push_str(rest);
    replaced.then_some(out)
}

/// `${_HASH}`, `${_BANG}` and `${_RANDOM [MIN [MAX]]}`: after comments are gone, so that they are text.
fn literals(text: &str) -> String {
    if !text.contains("${_") {
        return text.to_string();
    }
    text.replace("${_HASH}", "#").replace("${_BANG}", "!")
}

type Rounds = Vec<Vec<(String, String)>>;

/// Cuts `~SEQ(...) rest` into the rounds of values and the rest.
fn repetition(text: &str) -> Option<(Rounds, &str)> {
    let (kind, tail) = if let Some(t) = text.strip_prefix("~SEQx") {
        ('x', t)
    } else if let Some(t) = text.strip_prefix("~SEQ") {
        ('d', t)
    } else {
        ('l', text.strip_prefix("~LST")?)
    };
    let (inside, rest) = tail.trim_start().strip_prefix('(')?.split_once(')')?;
    if kind == 'l' {
        return Some((list_rounds(inside)?, rest.trim_start()));
    }
    let fields: Vec<&str> = inside.split(',').map(str::trim).collect();
    let (name, numbers) = fields.split_first()?;
    let numbers: Vec<i64> = numbers.iter().map(|n| number(n)).collect::<Option<_>>()?;
    let (start, step, end) = match numbers.as_slice() {
        [end] => (
            if *end < 0 { -1 } else { 1 },
            if *end < 0 { -1 } else { 1 },
            *end,
        ),
        [start, end] => (*start, if end < start { -1 } else { 1 }, *end),
        [start, step, end] => (*start, *step, *end),
        _ => return None,
    };
    if step == 0 || !is_name(name) {
        return None;
    }
    let mut rounds = Vec::new();
    let mut value = start;
    while (step > 0 && value <= end) || (step < 0 && value >= end) {
        if rounds.len() >= LINES_MAX {
            return None;
        }
        let shown = match kind {
            'x' => format!("{value:x}"),
            _ => value.to_string(),
        };
        rounds.push(vec![(name.to_string(), shown)]);
        value = value.checked_add(step)?;
    }
    Some((rounds, rest.trim_start()))
}

fn number(text: &str) -> Option<i64> {
    match text.strip_prefix("0x") {
        Some(hex) => i64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

/// `VAR, a, b` or `{V1, V2}, {a, b}, {c, d}`.
fn list_rounds(inside: &str) -> Option<Rounds> {
    let mut groups: Vec<Vec<String>> = Vec::new();
    let mut rest = inside.trim();
    while !rest.is_empty() {
        let (group, after) = match rest.strip_prefix('{') {
            Some(inner) => {
                let (group, after) = inner.split_once('}')?;
                (
                    group.split(',').map(|s| s.trim().to_string()).collect(),
                    after,
                )
            }
            None => {
                let (one, after) = rest.split_once(',').unwrap_or((rest, ""));
                let after = if after.is_empty() { "" } else { after };
                (vec![one.trim().to_string()], after)
            }
        };
        groups.push(group);
        rest = after.trim_start().trim_start_matches(',').trim_start();
    }
    let (names, values) = groups.split_first()?;
    values
        .iter()
        .map(|v| {
            (v.len() == names.len()).then(|| names.iter().cloned().zip(v.iter().cloned()).collect())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(text: &str, id: &str, expect: &[&str]) {
        let (lines, diagnostics) = lines(&NoHost, "t.conf", text, id);
        let got: Vec<String> = lines.iter().map(|l| l.text.trim().to_string()).collect();
        assert_eq!(got, expect, "{diagnostics:?}");
        assert!(diagnostics.is_empty(), "{diagnostics:?}");
    }

    #[test]
    fn comments_end_lines_but_not_inside_quotes() {
        check("a # b\n! c\nd \"e # f\" ! g\n", "", &["a", "d \"e # f\""]);
    }

    #[test]
    fn conditions_choose_lines() {
        check("@main a\n@^main b\n@other c\n", "main", &["a"]);
        check("@main a\n@^main b\n", "x", &["b"]);
    }

    #[test]
    fn parameters_are_replaced_when_used() {
        check(
            "$BASE=10.2.${SUB}\n$SUB=0\n${BASE}.100/32\n$SUB=10\n${BASE}.100/32\npriority $UNKNOWN\n",
            "",
            &["10.2.0.100/32", "10.2.10.100/32", "priority $UNKNOWN"],
        );
    }

    #[test]
    fn a_condition_may_come_out_of_a_parameter() {
        check("$IF=@main\n$IF priority 240\n", "main", &["priority 240"]);
        check("$IF=@main\n$IF priority 240\n", "x", &[]);
    }

    #[test]
    fn definitions_span_lines_and_are_reused() {
        check(
            "$I= \\\nvrrp_instance V${N} { \\\n@high priority 9 \\\n@low priority 3 \\\n}\n$N=0\n$I\n$N=1\n$I\n",
            "low",
            &[
                "vrrp_instance V0 {",
                "priority 3",
                "}",
                "vrrp_instance V1 {",
                "priority 3",
                "}",
            ],
        );
    }

    #[test]
    fn sequences_and_lists_multiply_lines() {
        check(
            "~SEQ(S, 0, 2) ip 10.0.${S}.1\n",
            "",
            &["ip 10.0.0.1", "ip 10.0.1.1", "ip 10.0.2.1"],
        );
        check("~SEQx(S, 0x90, 0x10, 0xa0) ${S}:1\n", "", &["90:1", "a0:1"]);
        check(
            "~LST({A, B}, {10,1},{20,4}) ~SEQ(C,2) ${A}.${B}.${C}\n",
            "",
            &["10.1.1", "10.1.2", "20.4.1", "20.4.2"],
        );
        check("~LST(Y, 8,9) a.$Y\n", "", &["a.8", "a.9"]);
    }

    #[test]
    fn endless_parameters_end() {
        let (_, d) = lines(&NoHost, "t", "$A=${A} x\n$A\n", "");
        assert!(d[0].message.contains("without end"), "{d:?}");
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[ -~\n]{0,200}") {
            let _ = lines(&NoHost, "t", &text, "id");
        }
        #[test]
        fn no_template_panics(text in "[$A={}~SEQLSTx(),0-9@^\\\\\n \"#]{0,60}") {
            let _ = lines(&NoHost, "t", &text, "id");
        }
    }
}
