//! `log-profile NAME`: what the lines of a log target are at each step of a stream (HAProxy 3.1). A target has one by
//! `log ... profile NAME`, a `do-log` rule by `profile NAME`.

use std::sync::Arc;

use sluice_expr::Purpose;
use sluice_expr::place::Place;

use crate::cx::{Current, Cx};
use crate::diag::suggest;
use crate::line::Line;
use crate::model::{LogOverride, LogProfile, LogStep};
use crate::registry::{Keyword, Sections, kw};

const P: Sections = Sections::LOG_PROFILE;

#[rustfmt::skip]
pub(super) static KEYWORDS: &[Keyword] = &[
    kw("log-tag", P, "<string>", "the program's name in these lines", |cx, line| {
        let Some(tag) = cx.need(line, 1, "a tag").map(str::to_owned) else { return };
        if cx.no_more(line, 2) && let Some(profile) = profile(cx) { profile.tag = Some(tag); }
    }),
    kw("on", P, "{ any | <step> } [ drop ] [ format <fmt> ] [ sd <fmt> ]", "the line of a step, instead of the proxy's", on),
];

pub(super) fn open(cx: &mut Cx<'_>, line: &Arc<Line>) {
    if line.word(1).is_empty() {
        return cx.error_at(line, 1, "missing name for log-profile section.");
    }
    let Some(name) = cx.name(line, 1, "a name") else {
        return;
    };
    if !cx.no_more(line, 2) {
        return;
    }
    if let Some((_, other)) = cx.raw.log_profiles.iter().find(|(p, _)| p.name == name) {
        let at = other.origin();
        let message = format!(
            "log-profile '{name}' has the same name as another log-profile (declared at {}:{}).",
            at.file, at.line
        );
        return cx.error_at(line, 1, message);
    }
    cx.section_name.clone_from(&name);
    let section = LogProfile {
        name,
        ..LogProfile::default()
    };
    cx.raw.log_profiles.push((section, line.clone()));
    cx.current = Current::LogProfile(cx.raw.log_profiles.len() - 1);
}

fn profile<'c>(cx: &'c mut Cx<'_>) -> Option<&'c mut LogProfile> {
    match cx.current {
        Current::LogProfile(i) => cx.raw.log_profiles.get_mut(i).map(|(p, _)| p),
        _ => None,
    }
}

/// `on STEP`: a line that names the step again takes the place of the one before.
fn on(cx: &mut Cx<'_>, line: &Arc<Line>) {
    let Some(name) = cx.need(line, 1, "a step") else {
        return;
    };
    let step = LogStep::ALL.iter().find(|(_, known, _)| *known == name);
    if step.is_none() && name != "any" {
        let names = LogStep::ALL.map(|(_, name, _)| name);
        let hint = match suggest(name, names) {
            Some(near) => format!("did you mean '{near}'?"),
            None => format!("it is 'any' or {}", crate::proxy::list(&names)),
        };
        let message = format!("'on' : unknown step '{name}'");
        return cx.error(line, 1, 0..0, message, Some(hint));
    }
    let mut say = LogOverride::default();
    let mut at = 2;
    while line.has(at) {
        let format = |cx: &mut Cx<'_>, purpose| {
            cx.need(line, at + 1, "a format")?;
            cx.log_format(line, at + 1, Place::LOG, purpose)
        };
        match line.word(at) {
            "drop" => {
                say.drop = true;
                at += 1;
                continue;
            }
            "format" => say.format = format(cx, Purpose::Log),
            "sd" => say.sd = format(cx, Purpose::LogSd),
            other => {
                let message = format!("'on' : unknown word '{other}'");
                let hint = "it takes 'drop', 'format <fmt>' and 'sd <fmt>'".to_owned();
                return cx.error(line, at, 0..0, message, Some(hint));
            }
        }
        at += 2;
    }
    let Some(profile) = profile(cx) else { return };
    match step {
        None => profile.any = Some(say),
        Some((step, ..)) => {
            profile.steps.retain(|(known, _)| known != step);
            profile.steps.push((*step, say));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::model::LogStep;
    use crate::testing::{messages, read};

    #[test]
    fn the_last_line_of_a_step_counts() {
        let (raw, found) = read(
            "log-profile p\n log-tag t\n on any drop\n on close drop\n on close format %ST sd %ci\n",
        );
        assert!(found.is_empty(), "{found:?}");
        let (profile, _) = &raw.log_profiles[0];
        let close = profile.at(LogStep::Close).expect("said of close");
        assert!(!close.drop && close.format.is_some() && close.sd.is_some());
        assert!(profile.at(LogStep::HttpReq).is_some_and(|say| say.drop));
        assert_eq!(profile.tag.as_deref(), Some("t"));
    }

    #[test]
    fn faults_are_told() {
        let check = |line: &str, expect: &str| {
            let found = messages(&format!("log-profile p\n{line}\n"));
            assert_eq!(found, [format!("A2: {expect}")], "{line}");
        };
        check("on clsoe drop", "'on' : unknown step 'clsoe'");
        check("on close drpo", "'on' : unknown word 'drpo'");
        check(
            "log-profile p",
            "log-profile 'p' has the same name as another log-profile (declared at t.cfg:1).",
        );
    }
}
