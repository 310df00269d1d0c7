//! `mailers NAME`: mail servers (manual chapter 3.6).

use std::sync::Arc;

use crate::addr::AddrRules;
use crate::cx::{Current, Cx};
use crate::line::Line;
use crate::model::Mailers;
use crate::registry::{Keyword, Sections, kw};
use crate::values::TimeUnit;

const M: Sections = Sections::MAILERS;

const TIMEOUT_DEFAULT_MS: u64 = 10_000;

#[rustfmt::skip]
pub(super) static KEYWORDS: &[Keyword] = &[
    kw("mailer", M, "<name> <address>:<port>", "a mail server", mailer),
    kw("timeout mail", M, "<time>", "how long one mail may take", |cx, line| {
        let Some(ms) = cx.time_ms(line, line.keyword_len, TimeUnit::Ms) else { return };
        if ms == 0 {
            return cx.error_at(line, line.keyword_len, "'timeout mail' : the time must not be 0");
        }
        if cx.no_more(line, line.keyword_len + 1) && let Some(mailers) = mailers(cx) { mailers.timeout_ms = ms; }
    }),
];

pub(super) fn open(cx: &mut Cx<'_>, line: &Arc<Line>) {
    if line.word(1).is_empty() {
        return cx.error_at(line, 1, "missing name for mailers section.");
    }
    let Some(name) = cx.name(line, 1, "a name") else {
        return;
    };
    if !cx.no_more(line, 2) {
        return;
    }
    if let Some((_, other)) = cx.raw.mailers.iter().find(|(m, _)| m.name == name) {
        let at = other.origin();
        let message = format!(
            "mailers '{name}' has same name as another mailers (declared at {}:{}).",
            at.file, at.line
        );
        return cx.error_at(line, 1, message);
    }
    cx.section_name.clone_from(&name);
    let section = Mailers {
        name,
        servers: Vec::new(),
        timeout_ms: TIMEOUT_DEFAULT_MS,
    };
    cx.raw.mailers.push((section, line.clone()));
    cx.current = Current::Mailers(cx.raw.mailers.len() - 1);
}

fn mailers<'c>(cx: &'c mut Cx<'_>) -> Option<&'c mut Mailers> {
    match cx.current {
        Current::Mailers(i) => cx.raw.mailers.get_mut(i).map(|(m, _)| m),
        _ => None,
    }
}

fn mailer(cx: &mut Cx<'_>, line: &Arc<Line>) {
    if line.word(2).is_empty() {
        return cx.error_at(
            line,
            1,
            "'mailer' expects <name> and <addr>[:<port>] as arguments.",
        );
    }
    let name = line.word(1).to_owned();
    let Some(addr) = cx.peer_addr(line, 2, AddrRules::FIXED) else {
        return;
    };
    if cx.no_more(line, 3)
        && let Some(section) = mailers(cx)
    {
        section.servers.push((name, addr));
    }
}
