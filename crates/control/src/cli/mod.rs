//! The runtime command line (management guide, chapter 9.3): one table of commands, from which help, completion of
//! wrong words and `-dKcli` are made.
//!
//! `show` reads, `inside` looks at the process itself, `server` and `process` change servers, frontends and the process, `sessions` lists and ends sessions, `lists` changes maps and ACLs; `later`
//! names what is still to come.

mod dynamic;
mod inside;
mod later;
mod lists;
mod process;
mod server;
mod sessions;
mod show;

pub use dynamic::{Wait, waited};
pub use later::{LATER, LaterCommand};
pub use show::{EventFlags, followed};

use sluice_config::model::{CliLevel, SeverityOutput};
use sluice_engine::Runtime;
use sluice_expr::env::Now;
use sluice_expr::{ProxyId, ServerId};

use crate::inside::{DescriptorRow, WorkerRow};
use crate::sessions::SessionRow;

/// One connection's state.
#[derive(Debug, Clone)]
pub struct Session {
    pub level: CliLevel,
    /// `prompt` was asked for: the connection stays open after a command.
    pub prompt: bool,
    /// `set timeout cli`, in seconds.
    pub timeout_s: Option<u64>,
    pub severity: SeverityOutput,
    /// `expert-mode on`, `experimental-mode on`.
    pub expert: bool,
    pub experimental: bool,
}

impl Session {
    pub fn new(level: CliLevel, severity: SeverityOutput) -> Self {
        Session {
            level,
            prompt: false,
            timeout_s: None,
            severity,
            expert: false,
            experimental: false,
        }
    }
    /// What is shown before each command in interactive mode.
    pub fn prompt_text(&self) -> &'static str {
        "\n> "
    }
}

/// What commands need of the shell that runs them.
pub trait Host {
    fn runtime(&self) -> &Runtime;
    fn now(&self) -> Now;
    /// Lines of a ring, oldest first.
    fn ring(&self, name: &str) -> Option<Vec<Vec<u8>>>;
    /// The sessions that have a stream now.
    fn sessions(&self) -> Vec<SessionRow>;
    /// What each worker is doing, in their order.
    fn workers(&self) -> Vec<WorkerRow>;
    /// The process's descriptors.
    fn descriptors(&self) -> Vec<DescriptorRow>;
    /// The object files the process consists of, a line each (`show libs`).
    fn libraries(&self) -> String;
    /// Ends a session; false when there is none of that number.
    fn shutdown_session(&self, id: u64) -> bool;
    /// Closes a frontend's listening sockets for good.
    fn shutdown_frontend(&self, id: ProxyId);
    /// A server was added: its checks can begin when they are enabled.
    fn server_added(&self, id: ServerId);
    /// Closes the connections to a server that are kept for later requests.
    fn close_idle(&self, id: ServerId);
    /// What the start had to say.
    fn startup_logs(&self) -> &str;
    /// A moment as logs write it, in local time.
    fn date(&self, wall_us: i64) -> String;
    /// The last malformed messages (`show errors`), written out.
    fn errors(&self) -> String;
    /// A process-wide variable's value as text.
    fn proc_var(&self, name: &str) -> Option<String>;
    fn set_proc_var(&self, name: &str, value: Option<&str>) -> bool;
}

/// What one command gives.
pub struct Answer {
    /// Without the empty line that ends it.
    pub text: String,
    /// The connection closes after it (`quit`).
    pub close: bool,
    /// It was `prompt`: what follows is the prompt alone.
    pub prompted: bool,
}

/// What a command's function is given.
pub struct Call<'a> {
    /// The words behind the command's own.
    pub args: &'a [&'a str],
    /// Lines behind `<<`.
    pub payload: &'a str,
    pub host: &'a dyn Host,
    pub session: &'a mut Session,
}

impl<'a> Call<'a> {
    /// An argument, empty when it was not given.
    fn arg(&self, at: usize) -> &'a str {
        self.args.get(at).copied().unwrap_or("")
    }
    fn rt(&self) -> &'a Runtime {
        self.host.runtime()
    }
    fn now_ms(&self) -> u64 {
        self.host.now().mono_us / 1000
    }
    /// A message with its severity in front, when the session wants to see it.
    fn say(&self, level: usize, text: &str) -> String {
        say(self.session.severity, level, text)
    }
    fn error(&self, text: &str) -> String {
        self.say(ERROR, text)
    }
    fn warning(&self, text: &str) -> String {
        self.say(WARNING, text)
    }
    fn info(&self, text: &str) -> String {
        self.say(INFO, text)
    }
}

const ERROR: usize = 3;
const WARNING: usize = 4;
const NOTICE: usize = 5;
const INFO: usize = 6;

fn say(severity: SeverityOutput, level: usize, text: &str) -> String {
    const NAMES: [&str; 8] = [
        "emerg", "alert", "crit", "err", "warning", "notice", "info", "debug",
    ];
    match severity {
        SeverityOutput::None => text.to_owned(),
        SeverityOutput::Number => format!("[{level}]: {text}"),
        SeverityOutput::String => format!("[{}]: {text}", NAMES[level.min(7)]),
    }
}

/// One command.
pub struct Command {
    pub words: &'static [&'static str],
    /// How `help` shows its arguments.
    pub args: &'static str,
    pub help: &'static str,
    pub level: CliLevel,
    pub run: fn(&mut Call<'_>) -> String,
}

/// Every command, in the order of `help`.
pub fn commands() -> impl Iterator<Item = &'static Command> {
    let mut all: Vec<&'static Command> = show::COMMANDS
        .iter()
        .chain(server::COMMANDS)
        .chain(dynamic::COMMANDS)
        .chain(process::COMMANDS)
        .chain(inside::COMMANDS)
        .chain(sessions::COMMANDS)
        .chain(lists::COMMANDS)
        .chain(SESSION)
        .collect();
    all.sort_by_key(|c| c.words.join(" "));
    all.into_iter()
}

/// Commands about the session itself.
const SESSION: &[Command] = &[
    Command {
        words: &["operator"],
        args: "",
        help: "lower the level of the current CLI session to operator",
        level: CliLevel::User,
        run: |c| lower(c, CliLevel::Operator),
    },
    Command {
        words: &["user"],
        args: "",
        help: "lower the level of the current CLI session to user",
        level: CliLevel::User,
        run: |c| lower(c, CliLevel::User),
    },
    Command {
        words: &["set", "timeout"],
        args: "[cli] <delay>",
        help: "change a timeout setting",
        level: CliLevel::User,
        run: set_timeout,
    },
    Command {
        words: &["set", "severity-output"],
        args: "[none|number|string]",
        help: "set presence of severity level in feedback information",
        level: CliLevel::User,
        run: set_severity,
    },
    Command {
        words: &["show", "cli", "level"],
        args: "",
        help: "display the level of the current CLI session",
        level: CliLevel::User,
        run: |c| c.info(&format!("{}\n", level_name(c.session.level))),
    },
    Command {
        words: &["expert-mode"],
        args: "[on|off]",
        help: "enable expert mode",
        level: CliLevel::Admin,
        run: |c| mode(c, "expert-mode", |s| &mut s.expert),
    },
    Command {
        words: &["experimental-mode"],
        args: "[on|off]",
        help: "enable experimental mode",
        level: CliLevel::Admin,
        run: |c| mode(c, "experimental-mode", |s| &mut s.experimental),
    },
];

fn lower(c: &mut Call<'_>, to: CliLevel) -> String {
    c.session.level = c.session.level.min(to);
    String::new()
}

/// `set timeout cli <delay>`: in seconds unless a unit is given.
fn set_timeout(c: &mut Call<'_>) -> String {
    if c.arg(0) != "cli" {
        return c.error("'set timeout' only supports 'cli'.\n");
    }
    let text = c.arg(1);
    if text.is_empty() {
        return c.error("Expects an integer value.\n");
    }
    let digits = text
        .find(|ch: char| !ch.is_ascii_digit())
        .unwrap_or(text.len());
    let factor = match &text[digits..] {
        "" | "s" => Some(1),
        "m" => Some(60),
        "h" => Some(3600),
        "d" => Some(86400),
        _ => None,
    };
    let seconds = text[..digits].parse::<u64>().ok().zip(factor);
    match seconds.map(|(n, factor)| n.saturating_mul(factor)) {
        None | Some(0) => c.error("Invalid timeout value.\n"),
        seconds => {
            c.session.timeout_s = seconds;
            String::new()
        }
    }
}

fn mode(c: &mut Call<'_>, name: &str, field: fn(&mut Session) -> &mut bool) -> String {
    match c.arg(0) {
        "on" => *field(c.session) = true,
        "off" => *field(c.session) = false,
        _ => {
            let state = if *field(c.session) { "ON" } else { "OFF" };
            return c.info(&format!("{name} is {state}\n"));
        }
    }
    String::new()
}

fn set_severity(c: &mut Call<'_>) -> String {
    c.session.severity = match c.arg(0) {
        "none" => SeverityOutput::None,
        "number" => SeverityOutput::Number,
        "string" => SeverityOutput::String,
        _ => {
            return c.error("one of 'none', 'number', 'string' is a required argument\n");
        }
    };
    String::new()
}

pub fn level_name(l: CliLevel) -> &'static str {
    match l {
        CliLevel::User => "user",
        CliLevel::Operator => "operator",
        CliLevel::Admin => "admin",
    }
}

/// The answer to a command the level does not allow.
const PERMISSION: &str = "Permission denied\n";

/// Runs one command (what stands between two `;`).
pub fn execute(command: &str, session: &mut Session, host: &dyn Host) -> Answer {
    let (line, payload) = match command.split_once("<<") {
        Some((line, rest)) => (line, payload_of(rest)),
        None => (command, ""),
    };
    let words = split_words(line);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let answer = |text: String| Answer {
        text,
        close: false,
        prompted: false,
    };
    match words.first() {
        None => return answer(String::new()),
        Some(&"prompt") => {
            session.prompt = !session.prompt;
            return Answer {
                prompted: true,
                ..answer(String::new())
            };
        }
        Some(&"quit") => {
            return Answer {
                text: String::new(),
                close: true,
                prompted: false,
            };
        }
        Some(&"help") => return answer(help(&words[1..], session.level)),
        _ => {}
    }
    let best = commands()
        .filter(|c| words.starts_with(c.words))
        .max_by_key(|c| c.words.len());
    match best {
        Some(c) if c.level > session.level => answer(say(session.severity, ERROR, PERMISSION)),
        Some(c) => {
            let mut call = Call {
                args: &words[c.words.len()..],
                payload,
                host,
                session,
            };
            answer((c.run)(&mut call))
        }
        None => answer(match later::find(&words) {
            Some((name, _)) if let Some(text) = later::nothing(name, &words) => text.to_owned(),
            Some((name, part)) => {
                format!("'{name}' is not implemented by Sluice yet: it comes with {part}.\n")
            }
            None => say(session.severity, INFO, &unknown(&words, session.level)),
        }),
    }
}

/// `help [words]`.
fn help(words: &[&str], level: CliLevel) -> String {
    let matching: Vec<_> = commands()
        .filter(|c| c.level <= level && words.iter().zip(c.words).all(|(a, b)| b.starts_with(a)))
        .collect();
    let shown: Vec<_> = if matching.is_empty() {
        commands().filter(|c| c.level <= level).collect()
    } else {
        matching
    };
    let mut out = "The following commands are valid at this level:\n".to_string();
    for c in shown {
        out.push_str(&help_line(c));
    }
    out.push_str(BUILT_IN_HELP);
    out
}

fn help_line(c: &Command) -> String {
    let left = format!("{} {}", c.words.join(" "), c.args);
    let left = left.trim_end();
    match left.len() {
        ..40 => format!("  {left:<40}: {}\n", c.help),
        _ => format!("  {left}: {}\n", c.help),
    }
}

/// What to say to words that are no command: those that begin alike, or look alike.
fn unknown(words: &[&str], level: CliLevel) -> String {
    const MOST: usize = 5;
    let allowed = || commands().filter(|c| c.level <= level);
    let known = (1..=words.len())
        .rev()
        .find(|k| allowed().any(|c| c.words.starts_with(&words[..*k])));
    let near: Vec<&Command> = match known {
        Some(k) => allowed()
            .filter(|c| c.words.starts_with(&words[..k]))
            .collect(),
        None => {
            let given = words.join(" ");
            let mut all: Vec<_> = allowed()
                .map(|c| (distance(&given, &c.words.join(" ")), c))
                .collect();
            all.sort_by_key(|(d, _)| *d);
            let mut near: Vec<_> = all.into_iter().take(MOST).map(|(_, c)| c).collect();
            near.sort_by_key(|c| c.words.join(" "));
            near
        }
    };
    let mut out =
        "Unknown command, but maybe one of the following ones is a better match:\n".to_string();
    for c in near {
        out.push_str(&help_line(c));
    }
    out.push_str(BUILT_IN_HELP);
    out
}

/// How many characters must change to make one text the other (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, cb) in b.iter().enumerate() {
            let changed = diagonal + usize::from(ca != *cb);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

/// The lines of `help` about commands that are answered before the table is looked into.
const BUILT_IN_HELP: &str =
    "  help [<command>]                        : list matching or all commands
  prompt                                  : toggle interactive mode with prompt
  quit                                    : disconnect
";

/// The words of a command; `\` takes the next character as it is.
fn split_words(line: &str) -> Vec<String> {
    let mut out = Vec::new();
    let mut word = String::new();
    let mut chars = line.chars();
    let mut open = false;
    while let Some(c) = chars.next() {
        match c {
            '\\' => {
                word.extend(chars.next());
                open = true;
            }
            ' ' | '\t' | '\r' | '\n' => {
                if open {
                    out.push(std::mem::take(&mut word));
                }
                open = false;
            }
            c => {
                word.push(c);
                open = true;
            }
        }
    }
    if open {
        out.push(word);
    }
    out
}

/// The longest text behind `<<` that ends a payload.
const PAYLOAD_END_MAX: usize = 7;

/// What ends the payload that a line announces: `<<` is followed by an empty line, `<<END` by one that says `END`.
fn payload_end(line: &[u8]) -> Option<&[u8]> {
    let word = line.rsplit(|b| b.is_ascii_whitespace()).next()?;
    let at = word.windows(2).position(|w| w == b"<<")?;
    word.get(at + 2..)
        .filter(|end| end.len() <= PAYLOAD_END_MAX)
}

/// The payload of what follows `<<`: not the text that ends it.
fn payload_of(rest: &str) -> &str {
    let (end, lines) = rest.split_once('\n').unwrap_or((rest, ""));
    let lines = lines.trim_end_matches(['\r', '\n']);
    match end.trim() {
        "" => lines,
        end => lines.strip_suffix(end).unwrap_or(lines),
    }
}

/// How many bytes of `input` the first complete line takes, its payload included. `None`: more must come.
pub fn complete_line(input: &[u8]) -> Option<usize> {
    let first = input.iter().position(|b| *b == b'\n')? + 1;
    let Some(end) = payload_end(input[..first].trim_ascii_end()) else {
        return Some(first);
    };
    let mut at = first;
    loop {
        let next = at + input[at..].iter().position(|b| *b == b'\n')? + 1;
        if input[at..next].trim_ascii() == end {
            return Some(next);
        }
        at = next;
    }
}

/// Splits a line at `;` that are not escaped. A payload belongs to the last command.
pub fn split_line(line: &str) -> Vec<String> {
    let (commands, payload) = match line.find("<<") {
        Some(at) => line.split_at(at),
        None => (line, ""),
    };
    let mut out = vec![String::new()];
    let mut chars = commands.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => {
                if let Some(last) = out.last_mut() {
                    last.push(c);
                    last.extend(chars.next());
                }
            }
            ';' => out.push(String::new()),
            c => {
                if let Some(last) = out.last_mut() {
                    last.push(c);
                }
            }
        }
    }
    if let Some(last) = out.last_mut() {
        last.push_str(payload);
    }
    out
}

/// Commands that are answered before the table is looked into.
const BUILT_IN: [&str; 3] = ["help", "prompt", "quit"];

/// Asks for the listening sockets (`-x`): no text, so the shell answers it, on Unix sockets only.
pub const LISTENERS: &str = "_getsocks";

/// The list `-dKcli` prints, heading included: what works and what comes later.
pub fn dump_cli() -> String {
    let mut lines: Vec<String> = commands().map(|c| c.words.join(" ")).collect();
    lines.extend(BUILT_IN.map(String::from));
    lines.push(LISTENERS.to_owned());
    for line in &mut lines {
        line.push_str(" [WORKER] \n");
    }
    lines.extend(
        later::MASTERS
            .iter()
            .map(|name| format!("{name} [MASTER] \n")),
    );
    lines.extend(LATER.iter().map(|(name, part)| match *part {
        later::MASTER => format!("{name} [MASTER] \n"),
        _ => format!("{name} [WORKER] \n"),
    }));
    lines.sort_unstable();
    let mut out = "# List of registered CLI keywords:\n".to_string();
    out.extend(lines);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_payloads_and_words() {
        assert_eq!(complete_line(b"show info\nx"), Some(10));
        assert_eq!(complete_line(b"add map m <<\nk v\n"), None);
        assert_eq!(complete_line(b"add map m <<\nk v\n\nnext"), Some(18));
        assert_eq!(complete_line(b"add map m <<END\nk v\n\n"), None);
        assert_eq!(
            complete_line(b"add map m <<END\nk v\n\nEND\nnext"),
            Some(25)
        );
        assert_eq!(payload_of("END\nk v\n\nEND\n"), "k v\n\n");
        assert_eq!(payload_of("\nk v\n\n"), "k v");
        assert_eq!(split_line("a;b\\;c; d"), ["a", "b\\;c", " d"]);
        assert_eq!(
            split_words("set map x a\\ b c"),
            ["set", "map", "x", "a b", "c"]
        );
    }

    #[test]
    fn every_command_is_there_once() {
        let mut names: Vec<_> = commands().map(|c| c.words.join(" ")).collect();
        let all = names.len();
        names.dedup();
        assert_eq!(names.len(), all);
    }
}
