//! The reader: files into lines, conditional blocks, sections, and each line to its keyword.

use std::sync::Arc;

use crate::condition::{Blocks, directive};
use crate::cx::{Current, Cx, about, about_keyword, section_name};
use crate::diag::{Severity, suggest};
use crate::lex::lex;
use crate::line::{Line, Prefix, Word};
use crate::registry::{Keyword, Lookup, Run, Sections, lookup};

/// One file as read by the caller.
#[derive(Debug, Clone)]
pub struct SourceFile {
    /// As it is named in messages.
    pub name: String,
    pub text: Vec<u8>,
}

/// Reads one file into the context.
pub(crate) fn read_file(cx: &mut Cx<'_>, file: &SourceFile) {
    // A file cannot go on with the section of the one before.
    leave_section(cx);
    let name: Arc<str> = file.name.as_str().into();
    let mut rest = file.text.as_slice();
    let mut number = 0;
    let mut blocks = Blocks::default();
    while !rest.is_empty() {
        number += 1;
        let end = rest.iter().position(|b| *b == b'\n');
        let (bytes, next) = match end {
            Some(at) => (&rest[..at], &rest[at + 1..]),
            None => (rest, &rest[rest.len()..]),
        };
        rest = next;
        let text = String::from_utf8_lossy(bytes);
        let source = text.trim_end_matches('\r');
        cx.environ.at(&name, number);
        let line = Line {
            file: name.clone(),
            number,
            source: source.into(),
            ..Line::default()
        };
        if end.is_none() {
            missing_line_feed(cx, &line);
        }
        match text.find('\0') {
            Some(at) => stray_nul(cx, line, at),
            None => read_line(cx, &mut blocks, line),
        }
    }
    blocks.finish(cx);
}

fn missing_line_feed(cx: &mut Cx<'_>, line: &Line) {
    cx.diagnostics.push(about(
        Severity::Warning,
        line,
        usize::MAX,
        0..0,
        format!(
            "Missing LF on last line, file might have been truncated at position {}.",
            line.source.len() + 1
        ),
        Some("end the last line with a line feed: a later HAProxy refuses the file".into()),
    ));
}

fn stray_nul(cx: &mut Cx<'_>, mut line: Line, at: usize) {
    line.words = vec![Word {
        span: at..at + 1,
        ..Word::default()
    }];
    let message = format!("Stray NUL character at position {}.", at + 1);
    cx.error(
        &line,
        0,
        0..0,
        message,
        Some("the file is damaged, or is no text".into()),
    );
}

fn read_line(cx: &mut Cx<'_>, blocks: &mut Blocks, mut line: Line) {
    match lex(&line.source, &cx.environ) {
        Ok(words) => line.words = words,
        Err(fault) => {
            line.words = vec![Word {
                span: fault.span,
                ..Word::default()
            }];
            cx.error(&line, 0, 0..0, fault.message, fault.hint.map(str::to_owned));
            return;
        }
    }
    if line.words.is_empty() || directive(cx, blocks, &mut line) || !blocks.active() {
        return;
    }
    dispatch(cx, line);
}

/// Leaves the current section.
pub(crate) fn leave_section(cx: &mut Cx<'_>) {
    cx.current = Current::Nowhere;
    cx.section = Sections::empty();
    cx.section_name.clear();
    cx.environ.section.clear();
}

/// Gives a line to its section header or keyword.
pub(crate) fn dispatch(cx: &mut Cx<'_>, mut line: Line) {
    let first = line.word(0);
    if let Some(section) = crate::section::SECTIONS.iter().find(|s| s.name == first) {
        leave_section(cx);
        line.keyword_len = 1;
        cx.section = section.kind;
        let line = Arc::new(line);
        (section.open)(cx, &line);
        cx.environ.section = match cx.section_name.is_empty() {
            true => section.name.to_owned(),
            false => cx.section_name.clone(),
        };
        return;
    }
    if matches!(cx.current, Current::Duplicate | Current::Later) {
        return;
    }
    if cx.current == Current::Nowhere {
        // After a header that was refused there is nothing sensible to say about its lines.
        if cx.section.is_empty() {
            // a keyword that is known elsewhere is no section's name with a typo
            let known = crate::registry::keywords()
                .filter(|k| k.name.split(' ').next() == Some(first))
                .max_by_key(|k| k.sections.intersects(Sections::ALL_PROXIES));
            let names = crate::section::SECTIONS.iter().map(|s| s.name);
            let maybe = suggest(first, names)
                .filter(|_| known.is_none())
                .map_or(String::new(), |n| format!(" Did you mean '{n}' maybe ?"));
            let hint = known.map(|k| format!("'{first}' belongs to {}", section_list(k.sections)));
            let message = format!("unknown keyword '{first}' out of section.{maybe}");
            cx.error(&line, 0, 0..0, message, hint);
        }
        return;
    }
    line.prefix = match first {
        "no" => Prefix::No,
        "default" => Prefix::Default,
        _ => Prefix::None,
    };
    if line.prefix != Prefix::None {
        line.words.remove(0);
    }
    run_line(cx, line);
}

fn run_line(cx: &mut Cx<'_>, mut line: Line) {
    let texts = line.texts(0);
    if texts.is_empty() {
        let prefix = match line.prefix {
            Prefix::No => "no",
            _ => "default",
        };
        cx.error_at(&line, 0, format!("'{prefix}' expects a keyword after it."));
        return;
    }
    match lookup(cx.section, &texts) {
        Lookup::Found(keyword) => {
            line.keyword_len = keyword.word_count();
            run_keyword(cx, keyword, &Arc::new(line));
        }
        Lookup::Partial { known, next } => {
            line.keyword_len = known;
            partial(cx, &line, known, &next);
        }
        Lookup::Ignored(keyword) => {
            line.keyword_len = keyword.word_count();
            ignored(cx, &line, keyword);
        }
        Lookup::Unknown { elsewhere } => unknown(cx, &line, elsewhere),
    }
}

fn run_keyword(cx: &mut Cx<'_>, keyword: &'static Keyword, line: &Arc<Line>) {
    let name = line.keyword();
    if line.prefix != Prefix::None && !keyword.negatable {
        cx.error(
            line,
            0,
            0..0,
            format!("negation/default is not supported for '{name}'"),
            Some("'no' and 'default' go with options and with keywords that are switches".into()),
        );
        return;
    }
    if !keyword.binary
        && let Some(at) = line.words.iter().position(|w| w.raw.is_some())
    {
        cx.error(
            line,
            at,
            0..0,
            format!("'{name}' : the argument is no UTF-8 text"),
            Some("save the file in UTF-8".into()),
        );
        return;
    }
    let finding = |severity, message: String, hint: String| {
        about_keyword(severity, line, message, Some(hint))
    };
    let found = match keyword.run {
        Run::Do(run) => return run(cx, line),
        // What is not there is off already.
        Run::Later(_) if line.prefix != Prefix::None => return,
        Run::Later(part) => finding(
            Severity::Alert,
            format!("'{name}' is not implemented by Sluice yet"),
            format!("it comes with: {part}"),
        ),
        Run::Obsolete { instead, .. } => finding(
            Severity::Warning,
            format!("keyword '{name}' is obsolete"),
            instead.to_owned(),
        ),
        Run::Harmless(why) | Run::NoEffect { why, .. } => finding(
            Severity::Warning,
            format!("'{name}' has no effect in Sluice"),
            why.to_owned(),
        ),
        Run::Refused(why) => finding(
            Severity::Alert,
            format!("'{name}' is not supported any more"),
            why.to_owned(),
        ),
    };
    cx.diagnostics.push(found);
    if let Run::Obsolete { run: Some(run), .. } | Run::NoEffect { run, .. } = keyword.run {
        run(cx, line);
    }
}

/// A keyword of the side this proxy has not: HAProxy warns and goes on.
fn ignored(cx: &mut Cx<'_>, line: &Line, keyword: &'static Keyword) {
    let lacks = match cx.section == Sections::BACKEND {
        true => "frontend",
        false => "backend",
    };
    let hint = match keyword.name {
        "maxconn" => "for a backend, write 'fullconn', or 'maxconn' on its servers".to_owned(),
        "fullconn" => "for a frontend, write 'maxconn'".to_owned(),
        _ => format!(
            "'{}' belongs to {}",
            keyword.name,
            section_list(keyword.sections)
        ),
    };
    let message = format!(
        "'{}' ignored because {} has no {lacks} capability.",
        line.keyword(),
        cx.whereabouts()
    );
    cx.warn(line, 0, message, Some(hint));
}

/// `timeout foo`: the keyword is known, what follows is not.
fn partial(cx: &mut Cx<'_>, line: &Line, known: usize, next: &[&'static str]) {
    let name = line.texts(0)[..known].join(" ");
    let got = line.word(known);
    let shown: Vec<String> = next
        .iter()
        .map(|n| match n.strip_suffix('*') {
            Some(stem) => format!("'{stem}(...)'"),
            None => format!("'{n}'"),
        })
        .collect();
    let among = match shown.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
        None => String::new(),
    };
    let stem = got.split('(').next().unwrap_or(got);
    let near = suggest(stem, next.iter().map(|n| n.trim_end_matches('*')));
    let (message, hint) = match (got, near) {
        ("", _) => (
            format!("'{name}' expects a word after it"),
            Some(format!("one of {among}")),
        ),
        (got, Some(near)) => (
            format!(
                "unknown {} '{got}'; did you mean '{near}' maybe ?",
                kind_of(&name)
            ),
            None,
        ),
        (got, None) => (
            format!("unknown {} '{got}'", kind_of(&name)),
            Some(format!("'{name}' takes {among}")),
        ),
    };
    cx.error(line, known, 0..0, message, hint);
}

/// How the words after a keyword are called.
fn kind_of(name: &str) -> String {
    match name {
        "option" => "option".to_owned(),
        other => format!("'{other}' keyword"),
    }
}

fn unknown(cx: &mut Cx<'_>, line: &Line, elsewhere: Option<&'static Keyword>) {
    let word = line.word(0);
    let kind = section_name(cx.section);
    let (maybe, hint) = match elsewhere {
        Some(keyword) => (
            String::new(),
            Some(format!(
                "'{}' belongs to {}",
                keyword.name,
                section_list(keyword.sections)
            )),
        ),
        None => {
            let sections = crate::section::SECTIONS.iter().map(|s| s.name);
            let near = suggest(
                word,
                crate::registry::first_words(cx.section)
                    .into_iter()
                    .chain(sections),
            );
            (
                near.map_or(String::new(), |n| format!("; did you mean '{n}' maybe ?")),
                None,
            )
        }
    };
    cx.error(
        line,
        0,
        0..0,
        format!("unknown keyword '{word}' in '{kind}' section{maybe}"),
        hint,
    );
}

/// "the 'frontend' and 'listen' sections".
fn section_list(sections: Sections) -> String {
    let names: Vec<String> = sections
        .iter()
        .map(section_name)
        .filter(|n| !n.is_empty())
        .map(|n| format!("'{n}'"))
        .collect();
    match names.split_last() {
        Some((last, [])) => format!("the {last} section"),
        Some((last, others)) => format!("the {} and {last} sections", others.join(", ")),
        None => String::new(),
    }
}
