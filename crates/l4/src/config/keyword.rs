//! The shape of a keyword: one item with its name, arguments, help, status and action. [`Args`] is the cursor an action reads its
//! arguments through. The tables themselves live beside the block they describe.

use super::diagnostic::{Diagnostic, Place, Severity, nearest};
use super::model::{Config, Script, ScriptUser};
use super::source::Host;
use super::tree::{Node, Word};
use std::collections::HashSet;
use std::net::IpAddr;
use std::ops::RangeInclusive;

mod args;

pub use args::{Args, split_command};

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
