//! Products of the registry: HAProxy's `-dKcfg` listing, the coverage of names, the tokens of `-dC`.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::SourceFile;
use crate::environ::Environ;
use crate::lex::lex;
use crate::proxy::{bind_words, server_words};
use crate::registry::{Keyword, LineWord, Run, Sections, WordRun, keywords};

/// What becomes of a name the registry knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    Working,
    /// Known, and refused until the named part is there.
    Later(&'static str),
    /// Does what it did, with a warning that says what to write instead.
    Obsolete,
    /// Needs nothing here, with a warning that says why.
    Harmless,
    /// Refused, as by HAProxy.
    Refused,
}

impl From<&Run> for Status {
    fn from(run: &Run) -> Status {
        match run {
            Run::Do(_) => Status::Working,
            Run::Later(part) => Status::Later(part),
            Run::Obsolete { .. } => Status::Obsolete,
            Run::Harmless(_) | Run::NoEffect { .. } => Status::Harmless,
            Run::Refused(_) => Status::Refused,
        }
    }
}

impl<T> From<&WordRun<T>> for Status {
    fn from(run: &WordRun<T>) -> Status {
        match run {
            WordRun::Do(_) => Status::Working,
            WordRun::Later(part) => Status::Later(part),
            WordRun::Obsolete { .. } => Status::Obsolete,
            WordRun::Refused(_) => Status::Refused,
        }
    }
}

/// Rule sets whose actions HAProxy lists one by one.
const RULE_SETS: [&str; 7] = [
    "tcp-request connection",
    "tcp-request session",
    "tcp-request content",
    "tcp-response content",
    "http-request",
    "http-response",
    "http-after-response",
];

/// Options that need HTTP, as HAProxy marks them.
const HTTP_OPTIONS: [&str; 16] = [
    "accept-invalid-http-request",
    "accept-invalid-http-response",
    "accept-unsafe-violations-in-http-request",
    "accept-unsafe-violations-in-http-response",
    "checkcache",
    "disable-h2-upgrade",
    "http-buffer-request",
    "http-drop-request-trailers",
    "http-drop-response-trailers",
    "http-ignore-probes",
    "http-no-delay",
    "http-pretend-keepalive",
    "http-use-proxy-header",
    "idle-close-on-response",
    "prefer-last-server",
    "http-restrict-req-hdr-names",
];

/// What a line of a `crt-list` file may set for its certificate; such files are read by the TLS part.
const CRT_LIST_WORDS: [&str; 18] = [
    "allow-0rtt",
    "alpn +1",
    "ca-file +1",
    "ca-verify-file +1",
    "ciphers +1",
    "ciphersuites +1",
    "client-sigalgs +1",
    "crl-file +1",
    "curves +1",
    "ecdhe +1",
    "ktls +1",
    "no-alpn",
    "no-ca-names",
    "npn +1",
    "sigalgs +1",
    "ssl-max-ver +1",
    "ssl-min-ver +1",
    "verify +1",
];

/// Everything the registry knows, as HAProxy's `-dKcfg` prints its own: a block a section, a line a keyword.
pub fn dump_cfg() -> String {
    let mut out = String::from("# List of registered configuration keywords:\n");
    for (name, _) in coverage() {
        let _ = writeln!(out, "{name}");
    }
    out
}

/// The list `-dKflt` prints, heading included: the names behind `filter`.
pub fn dump_flt() -> String {
    let mut out = String::from("# List of registered filter names:\n");
    for (name, _) in filters() {
        let tag = match name {
            "bwlim-in" | "bwlim-out" => "BWLIM",
            "comp-req" | "comp-res" | "compression" => "COMP",
            "fcgi-app" => "FCGI",
            "opentracing" => "OT",
            name => &name.to_uppercase(),
        };
        let _ = writeln!(out, "{name} [{tag}]");
    }
    out
}

/// The names behind `filter` with what becomes of each.
pub fn filters() -> Vec<(&'static str, Status)> {
    let mut found: Vec<(&'static str, Status)> = keywords()
        .filter_map(|k| Some((k.name.strip_prefix("filter ")?, Status::from(&k.run))))
        .collect();
    found.sort_unstable_by_key(|(name, _)| *name);
    found
}

/// The lines of [`dump_cfg`] with what becomes of each; section names stand without a status.
pub fn coverage() -> Vec<(String, Option<Status>)> {
    let mut lines = Vec::new();
    let block = |title: &str, lines: &mut Vec<(String, Option<Status>)>| {
        lines.push((title.to_owned(), None));
    };
    block("global", &mut lines);
    plain(Sections::GLOBAL, &mut lines);
    block("listen", &mut lines);
    plain(Sections::ALL_PROXIES, &mut lines);
    words("bind <addr>", &[bind_words()], &mut lines);
    words("server <name> <addr>", &server_words(), &mut lines);
    options(&mut lines);
    for set in RULE_SETS {
        actions(set, &mut lines);
    }
    for (title, section) in [("userlist", Sections::USERLIST), ("peers", Sections::PEERS)] {
        block(title, &mut lines);
        plain(section, &mut lines);
    }
    block("crt-list", &mut lines);
    for word in CRT_LIST_WORDS {
        lines.push((format!("\t{word}"), Some(Status::Later("TLS"))));
    }
    for (title, section) in [
        ("crt-store", Sections::CRT_STORE),
        ("traces", Sections::TRACES),
        ("acme", Sections::ACME),
    ] {
        block(title, &mut lines);
        plain(section, &mut lines);
    }
    lines
}

/// The set an action belongs to, when the keyword is one.
fn rule_set(keyword: &Keyword) -> Option<(&'static str, &'static str)> {
    RULE_SETS.iter().find_map(|set| {
        let rest = keyword.name.strip_prefix(set)?.strip_prefix(' ')?;
        Some((*set, rest))
    })
}

/// The first words of a section's keywords. One word may begin several keywords: it works when one of them does.
fn plain(section: Sections, lines: &mut Vec<(String, Option<Status>)>) {
    let here = || {
        keywords().filter(|k| {
            let option = k.name.starts_with("option ") && section == Sections::ALL_PROXIES;
            k.sections.intersects(section) && !option
        })
    };
    let first = |k: &Keyword| k.name.split(' ').next().unwrap_or(k.name).to_owned();
    let names: BTreeSet<String> = here().map(first).collect();
    for name in names {
        let mut found: Vec<Status> = here()
            .filter(|k| first(k) == name)
            .map(|k| Status::from(&k.run))
            .collect();
        found.sort_by_key(|s| *s != Status::Working);
        lines.push((format!("\t{name}"), found.first().copied()));
    }
}

fn words<T>(line: &str, tables: &[&[LineWord<T>]], lines: &mut Vec<(String, Option<Status>)>) {
    let mut found: Vec<(String, Option<Status>)> = Vec::new();
    for word in tables.iter().flat_map(|t| t.iter()) {
        let status = Status::from(&word.run);
        // HAProxy sorts the words of TLS into a group of their own on `bind` lines.
        let group = match (line, status) {
            ("bind <addr>", Status::Later("TLS")) if word.name != "ssl" => "ssl ",
            _ => "",
        };
        let args = match word.args.split_whitespace().count() {
            0 => String::new(),
            _ if word.name == "source" => " +-1".to_owned(),
            _ => " +1".to_owned(),
        };
        let name = word.name.trim_end_matches('*');
        found.push((format!("\t{line} {group}{name}{args}"), Some(status)));
    }
    found.sort_by(|a, b| (a.0.contains(" ssl "), &a.0).cmp(&(b.0.contains(" ssl "), &b.0)));
    lines.extend(found);
}

fn options(lines: &mut Vec<(String, Option<Status>)>) {
    let mut found: Vec<(String, Option<Status>)> = Vec::new();
    for keyword in keywords() {
        let name = match keyword.name.strip_prefix("option ") {
            Some(name) if keyword.sections.intersects(Sections::ALL_PROXIES) => name,
            _ => continue,
        };
        let mut sides = String::from("[");
        for (side, there) in [
            (" FE", keyword.sections.contains(Sections::FRONTEND)),
            (" BE", keyword.sections.contains(Sections::BACKEND)),
            (" HTTP", HTTP_OPTIONS.contains(&name)),
        ] {
            if there {
                sides.push_str(side);
            }
        }
        found.push((
            format!("\toption {name} {sides} ]"),
            Some(Status::from(&keyword.run)),
        ));
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    lines.extend(found);
}

fn actions(set: &str, lines: &mut Vec<(String, Option<Status>)>) {
    let mut found: Vec<(String, Option<Status>)> = keywords()
        .filter_map(|k| Some((rule_set(k)?, k)))
        .filter(|((its, _), _)| *its == set)
        .map(|((_, action), k)| (format!("\t{set} {action}"), Some(Status::from(&k.run))))
        .collect();
    found.sort_by(|a, b| a.0.cmp(&b.0));
    lines.extend(found);
}

/// The keyword table of `docs/configuration.md`: a heading a section, a row a keyword.
pub fn keyword_table() -> String {
    let mut out = String::new();
    for (title, section) in [
        ("global", Sections::GLOBAL),
        ("defaults, frontend, listen, backend", Sections::ALL_PROXIES),
        ("userlist", Sections::USERLIST),
        ("http-errors", Sections::HTTP_ERRORS),
        ("ring", Sections::RING),
        ("log-forward", Sections::LOG_FORWARD),
        ("log-profile", Sections::LOG_PROFILE),
        ("mailers", Sections::MAILERS),
    ] {
        let proxies = section == Sections::ALL_PROXIES;
        let sides = if proxies { " D F L B |" } else { "" };
        let line = if proxies { "---|" } else { "" };
        let _ = writeln!(
            out,
            "\n### {title}\n\n| Keyword |{sides} What it does |\n|---|{line}---|"
        );
        let mut rows: Vec<&Keyword> = keywords()
            .filter(|k| k.sections.intersects(section))
            .collect();
        rows.sort_by_key(|k| k.name);
        for k in rows {
            let sides = match proxies {
                true => format!(" {} |", columns(k.sections)),
                false => String::new(),
            };
            let what = row_text(Status::from(&k.run), k.help, &k.run);
            let _ = writeln!(out, "| {} |{sides} {what} |", code(k.name, k.args));
        }
    }
    words_table("Words of `bind` lines", &[bind_words()], &mut out);
    words_table("Words of `server` lines", &server_words(), &mut out);
    out
}

/// Defaults, frontend, listen, backend: a letter where the keyword is valid.
fn columns(sections: Sections) -> String {
    let letters = [
        (Sections::DEFAULTS, 'D'),
        (Sections::FRONTEND, 'F'),
        (Sections::LISTEN, 'L'),
        (Sections::BACKEND, 'B'),
    ];
    let shown: Vec<String> = letters
        .iter()
        .map(|(s, letter)| if sections.contains(*s) { *letter } else { '-' }.to_string())
        .collect();
    shown.join(" ")
}

/// A keyword and its arguments as code, safe inside of a table.
fn code(name: &str, args: &str) -> String {
    let name = name.trim_end_matches('*');
    let text = match args {
        "" => name.to_owned(),
        args => format!("{name} {args}"),
    };
    format!("`{}`", text.replace('|', "\\|"))
}

fn row_text(status: Status, help: &str, run: &Run) -> String {
    match (status, run) {
        (Status::Later(part), _) => format!("*later: {part}*"),
        (_, Run::Obsolete { instead, .. }) => {
            format!("*obsolete:* {}", instead.replace('|', "\\|"))
        }
        (_, Run::Harmless(why) | Run::NoEffect { why, .. }) => {
            format!("*no effect:* {}", why.replace('|', "\\|"))
        }
        (_, Run::Refused(why)) => format!("*refused:* {}", why.replace('|', "\\|")),
        _ => help.replace('|', "\\|"),
    }
}

fn words_table<T>(title: &str, tables: &[&[LineWord<T>]], out: &mut String) {
    let _ = writeln!(out, "\n### {title}\n\n| Word | What it does |\n|---|---|");
    let mut rows: Vec<&LineWord<T>> = tables.iter().flat_map(|t| t.iter()).collect();
    rows.sort_by_key(|w| w.name);
    for w in rows {
        let what = match &w.run {
            WordRun::Do(_) => w.help.to_owned(),
            WordRun::Later(part) => format!("*later: {part}*"),
            WordRun::Obsolete { instead, .. } => format!("*obsolete:* {instead}"),
            WordRun::Refused(why) => format!("*refused:* {why}"),
        };
        let what = what.replace('|', "\\|");
        let _ = writeln!(out, "| {} | {what} |", code(w.name, w.args));
    }
}

/// `-dC`: the words of each line after quotes and variables were resolved, without comments, the keywords of a section
/// indented under it. Words are quoted again where they need it.
pub fn dump_config_tokens(files: &[SourceFile], env: &[(String, String)]) -> String {
    let environ = Environ::new(env);
    let mut out = String::new();
    for file in files {
        let _ = writeln!(out, "# {}", file.name);
        for line in String::from_utf8_lossy(&file.text).lines() {
            let Ok(words) = lex(line.trim_end_matches('\r'), &environ) else {
                // What cannot be read is shown as it is.
                let _ = writeln!(out, "{line}");
                continue;
            };
            let Some(first) = words.first() else { continue };
            let opens = crate::section::SECTIONS
                .iter()
                .any(|s| s.name == first.text);
            let texts: Vec<String> = words.iter().map(|w| quote(&w.text)).collect();
            let indent = if opens { "\n" } else { "\t" };
            let _ = writeln!(out, "{indent}{}", texts.join(" "));
        }
    }
    out
}

/// A word as the lexer reads it back.
fn quote(word: &str) -> String {
    let plain =
        |c: char| !c.is_whitespace() && !c.is_control() && !matches!(c, '#' | '\\' | '"' | '\'');
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    let mut out = String::from("\"");
    for c in word.chars() {
        match c {
            '"' | '\\' | '$' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_ascii_control() => {
                let _ = write!(out, "\\x{:02x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_read_back() {
        let text = "global # c\n  description \"a  b\" 'x$y' \"${V}\" \\x01\n\n";
        let file = SourceFile {
            name: "t.cfg".into(),
            text: text.into(),
        };
        let env = [("V".to_owned(), "v w".to_owned())];
        let shown = dump_config_tokens(&[file], &env);
        assert_eq!(
            shown,
            "# t.cfg\n\nglobal\n\tdescription \"a  b\" x$y \"v w\" \"\\x01\"\n"
        );
    }

    #[test]
    fn quoting_is_the_lexers_inverse() {
        let environ = Environ::default();
        for word in [
            "",
            "a",
            "a b",
            "#",
            "\"'\\",
            "$X",
            "${X}",
            "\t\n\r\u{1}",
            "\u{e9}",
        ] {
            let words = lex(&quote(word), &environ).unwrap();
            assert_eq!(words.len(), 1, "{word:?}");
            assert_eq!(words[0].text, word);
        }
    }
}
