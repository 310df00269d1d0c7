//! The shape of a keyword: one item with its name, arguments, help, status and action; and the cursor an action reads
//! its arguments through. The tables themselves live beside the block they describe.

use super::diagnostic::{Diagnostic, Place, Severity, nearest};
use super::model::{Config, Script, ScriptUser};
use super::source::Host;
use super::tree::{Node, Word};
use std::collections::HashSet;
use std::net::IpAddr;
use std::ops::RangeInclusive;

/// Whether a keyword does here what it does in keepalived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    Works,
    /// Read, and of no consequence in this program, for the reason given: a warning.
    NoEffect(&'static str),
    /// Stops `run`, for the reason given.
    NotYet(&'static str),
}

/// One keyword of the block that fills in a `T`.
pub struct Keyword<T: 'static> {
    pub name: &'static str,
    /// Arguments as the manual writes them.
    pub args: &'static str,
    pub status: Status,
    pub help: &'static str,
    pub apply: fn(&mut T, &mut Args<'_, '_>),
}

pub const fn works<T>(
    name: &'static str,
    args: &'static str,
    help: &'static str,
    apply: fn(&mut T, &mut Args<'_, '_>),
) -> Keyword<T> {
    Keyword {
        name,
        args,
        status: Status::Works,
        help,
        apply,
    }
}

/// A keyword whose effect does not exist here; its arguments are read over.
pub const fn no_effect<T>(name: &'static str, args: &'static str, why: &'static str) -> Keyword<T> {
    Keyword {
        name,
        args,
        status: Status::NoEffect(why),
        help: why,
        apply: |_, a| a.skip(),
    }
}

/// A keyword that waits to be written.
pub const fn not_yet<T>(name: &'static str, args: &'static str, why: &'static str) -> Keyword<T> {
    Keyword {
        name,
        args,
        status: Status::NotYet(why),
        help: why,
        apply: |_, a| a.skip(),
    }
}

/// The same keyword, with a warning that part of what it means is not here.
pub const fn warns<T>(mut keyword: Keyword<T>, why: &'static str) -> Keyword<T> {
    keyword.status = Status::NoEffect(why);
    keyword
}

/// What every action may look at and add to.
pub struct Context<'h> {
    pub host: &'h dyn Host,
    pub diagnostics: Vec<Diagnostic>,
    /// Things already defined, for references that must come after (`track_file` in `FILE_CHECK`).
    pub config: Config,
    /// Who the scripts that were seen run as; none is whoever `script_user` says.
    pub script_users: Vec<Option<String>>,
    /// Interfaces that were told to be missing.
    pub missing_interfaces: HashSet<String>,
    /// The `SSL` block was there.
    pub ssl_seen: bool,
    /// What the next policy rule without a preference gets, as in keepalived.
    pub next_rule_priority: u32,
}

impl Context<'_> {
    pub fn report(&mut self, severity: Severity, place: Option<Place>, message: impl Into<String>) {
        self.diagnostics
            .push(Diagnostic::new(severity, place, message));
    }
    pub fn error(&mut self, place: Option<Place>, message: impl Into<String>) {
        self.report(Severity::Error, place, message);
    }
    pub fn interface(&mut self, word: &Word) {
        let missing = self.host.interface_exists(&word.text) == Some(false);
        // Once a name is enough: hundreds of addresses may be on it.
        if missing && self.missing_interfaces.insert(word.text.clone()) {
            self.report(
                Severity::Dubious,
                Some(word.place()),
                format!("interface {} does not exist on this machine", word.text),
            );
        }
    }
}

/// Reads the statements of one block into `target`.
pub fn block<T>(
    nodes: &[Node],
    table: &'static [Keyword<T>],
    target: &mut T,
    cx: &mut Context<'_>,
    whose: &str,
) {
    for node in nodes {
        statement(node, table, target, cx, whose);
    }
}

fn statement<T>(
    node: &Node,
    table: &'static [Keyword<T>],
    target: &mut T,
    cx: &mut Context<'_>,
    whose: &str,
) {
    let mut at = 0;
    while at < node.words.len() {
        let Some(word) = node.words.get(at) else {
            return;
        };
        let Some(keyword) = table.iter().find(|k| k.name == word.text) else {
            let hint = match nearest(&word.text, table.iter().map(|k| k.name)) {
                Some(name) => format!("; did you mean {name}?"),
                None => String::new(),
            };
            cx.error(
                Some(word.place()),
                format!("unknown keyword '{}' in {whose}{hint}", word.text),
            );
            return;
        };
        match keyword.status {
            Status::Works => {}
            Status::NoEffect(why) => cx.report(
                Severity::Warning,
                Some(word.place()),
                format!("{} has no effect here: {why}", keyword.name),
            ),
            Status::NotYet(why) => cx.report(
                Severity::Unsupported,
                Some(word.place()),
                format!("{} is not supported yet: {why}", keyword.name),
            ),
        }
        let mut args = Args {
            node,
            at: at + 1,
            cx,
        };
        // What has no effect is read over; keepalived reads it.
        let needs = !keyword.args.is_empty() && !keyword.args.starts_with(['[', '{']);
        if needs && keyword.status != Status::Works && args.peek().is_none() {
            args.dubious_at(word, format!("{} needs {}", keyword.name, keyword.args));
        }
        (keyword.apply)(target, &mut args);
        let read = args.at;
        let Some(extra) = node.words.get(read) else {
            return;
        };
        if table.iter().any(|k| k.name == extra.text) {
            cx.report(
                Severity::Warning,
                Some(extra.place()),
                format!(
                    "keepalived ignores what follows on this line; here {} is read",
                    extra.text
                ),
            );
            at = read;
            continue;
        }
        cx.report(
            Severity::Unsupported,
            Some(extra.place()),
            format!(
                "nothing reads '{}' after {} (keepalived ignores it)",
                extra.text, keyword.name
            ),
        );
        return;
    }
}

/// The arguments of one statement, read from left to right.
pub struct Args<'a, 'h> {
    pub node: &'a Node,
    pub at: usize,
    pub cx: &'a mut Context<'h>,
}

impl<'a> Args<'a, '_> {
    pub fn keyword(&self) -> &'a Word {
        self.node
            .words
            .get(self.at - 1)
            .unwrap_or(&self.node.words[0])
    }

    /// The block in braces; empty, with an error, if there is none.
    pub fn block(&mut self) -> &'a [Node] {
        match &self.node.block {
            Some(b) => b,
            None => {
                let word = self.keyword();
                self.cx.error(
                    Some(word.place()),
                    format!("{} needs a block in braces", word.text),
                );
                &[]
            }
        }
    }

    pub fn peek(&self) -> Option<&'a Word> {
        self.node.words.get(self.at)
    }

    /// The next word if there is one.
    pub fn optional(&mut self) -> Option<&'a Word> {
        let word = self.node.words.get(self.at)?;
        self.at += 1;
        Some(word)
    }

    /// The next word; its absence is an error.
    pub fn word(&mut self, what: &str) -> Option<&'a Word> {
        let found = self.optional();
        if found.is_none() {
            let keyword = self.node.words.last().or(self.node.words.first());
            let place = keyword.map(Word::place);
            let name = self.node.keyword().to_string();
            self.cx.error(place, format!("{name} needs {what}"));
        }
        found
    }

    pub fn text(&mut self, what: &str) -> Option<String> {
        self.word(what).map(|w| w.text.clone())
    }

    /// Reads over everything that is left, block included.
    pub fn skip(&mut self) {
        self.at = self.node.words.len();
    }

    pub fn error_at(&mut self, word: &Word, message: impl Into<String>) {
        self.cx.error(Some(word.place()), message);
    }

    pub fn dubious_at(&mut self, word: &Word, message: impl Into<String>) {
        self.cx
            .report(Severity::Dubious, Some(word.place()), message);
    }

    /// A whole number in a range.
    pub fn number(&mut self, range: RangeInclusive<i64>) -> Option<i64> {
        let word = self.word("a number")?;
        match word.text.parse::<i64>() {
            Ok(n) if range.contains(&n) => Some(n),
            Ok(_) => {
                self.error_at(
                    word,
                    format!(
                        "{} must lie between {} and {}",
                        self.node.keyword(),
                        range.start(),
                        range.end()
                    ),
                );
                None
            }
            Err(_) => {
                self.error_at(word, format!("'{}' is not a whole number", word.text));
                None
            }
        }
    }

    pub fn number_u32(&mut self, range: RangeInclusive<u32>) -> Option<u32> {
        let n = self.number(i64::from(*range.start())..=i64::from(*range.end()))?;
        u32::try_from(n).ok()
    }

    pub fn number_u8(&mut self, range: RangeInclusive<u8>) -> Option<u8> {
        let n = self.number(i64::from(*range.start())..=i64::from(*range.end()))?;
        u8::try_from(n).ok()
    }

    pub fn port(&mut self) -> Option<u16> {
        self.number(1..=65535).and_then(|n| u16::try_from(n).ok())
    }

    /// Seconds with decimals, in microseconds.
    pub fn seconds(&mut self, range: RangeInclusive<f64>) -> Option<u64> {
        let word = self.word("a time in seconds")?;
        match word.text.parse::<f64>() {
            Ok(s) if range.contains(&s) => Some((s * 1e6).round() as u64),
            Ok(_) => {
                self.error_at(
                    word,
                    format!(
                        "{} must lie between {} and {} seconds",
                        self.node.keyword(),
                        range.start(),
                        range.end()
                    ),
                );
                None
            }
            Err(_) => {
                self.error_at(word, format!("'{}' is not a number of seconds", word.text));
                None
            }
        }
    }

    /// on, off, true, false, yes, no; nothing means on.
    pub fn boolean(&mut self) -> Option<bool> {
        let Some(word) = self.peek() else {
            return Some(true);
        };
        match word.text.as_str() {
            "on" | "true" | "yes" => {
                self.at += 1;
                Some(true)
            }
            "off" | "false" | "no" => {
                self.at += 1;
                Some(false)
            }
            _ => {
                self.at += 1;
                self.error_at(
                    word,
                    format!("'{}' is none of on, off, true, false, yes, no", word.text),
                );
                None
            }
        }
    }

    pub fn address(&mut self) -> Option<IpAddr> {
        let word = self.word("an address")?;
        match word.text.parse() {
            Ok(ip) => Some(ip),
            Err(_) => {
                self.error_at(word, format!("'{}' is not an IP address", word.text));
                None
            }
        }
    }

    pub fn interface(&mut self) -> Option<String> {
        let word = self.word("an interface name")?;
        if word.text.len() > 15 {
            self.error_at(
                word,
                format!(
                    "interface name '{}' is longer than 15 characters",
                    word.text
                ),
            );
            return None;
        }
        self.cx.interface(word);
        Some(word.text.clone())
    }

    /// A script: one word, quoted if it has arguments, then user and group.
    pub fn script(&mut self) -> Option<Script> {
        let word = self.peek();
        let script = self.reader()?;
        let user = script.user.as_ref().map(|u| u.user.as_str());
        self.check_executable(word?, &script.argv, user);
        Some(script)
    }

    /// A fifo's reader: a script that runs only if there is something to tell (see `resolve`).
    pub fn reader(&mut self) -> Option<Script> {
        let word = self.word("a program")?;
        let argv = split_command(&word.text);
        let user = self.optional().map(|u| ScriptUser {
            user: u.text.clone(),
            group: self.optional().map(|g| g.text.clone()),
        });
        if argv.is_empty() {
            self.error_at(word, "the program's name is empty");
            return None;
        }
        Some(Script { argv, user })
    }

    /// keepalived looks whether a script is there, and complains about one that runs as root unguarded.
    pub fn check_executable(&mut self, word: &Word, argv: &[String], user: Option<&str>) {
        let Some(program) = argv.first() else { return };
        match self.cx.host.executable_exists(program) {
            Some(true) => self.cx.script_users.push(user.map(Into::into)),
            Some(false) => self.cx.report(
                Severity::Warning,
                Some(word.place()),
                format!("{program} does not exist or may not be executed"),
            ),
            _ => {}
        }
    }
}

/// Cuts a command at blanks; single quotes keep blanks (the words come without double quotes already).
pub fn split_command(text: &str) -> Vec<String> {
    let mut argv = Vec::new();
    let mut word = String::new();
    let mut open = false;
    let mut started = false;
    for c in text.chars() {
        match c {
            '\'' => {
                open = !open;
                started = true;
            }
            c if c.is_whitespace() && !open => {
                if started {
                    argv.push(std::mem::take(&mut word));
                }
                started = false;
            }
            c => {
                word.push(c);
                started = true;
            }
        }
    }
    if started {
        argv.push(word);
    }
    argv
}
