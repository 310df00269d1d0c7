//! Lines of a configuration after everything that is not grammar: comments, includes, `@ID` conditions, `$VARS`,
//! `~SEQ` and `~LST` (keepalived.conf(5), ADVANCED CONFIGURATION).
//!
//! Files come through a trait, so that tests and fuzzers need no disk. Every expansion has a limit.

use super::diagnostic::{Diagnostic, Place, Severity};
use std::collections::HashMap;
use std::sync::Arc;

mod repeat;
mod words;

use repeat::*;
use words::*;

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
    /// Whether there is such a user; `None` when it cannot be known.
    fn user_exists(&self, _name: &str) -> Option<bool> {
        None
    }
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
