//! Section headers: `global`, `defaults NAME from OTHER`, `frontend NAME`, ...

use std::sync::Arc;

use super::{Section, http_errors, log_forward, log_profile, mailers, ring, userlist};
use crate::cx::{Current, Cx, caps_of, section_name};
use crate::diag::Severity;
use crate::line::{Line, Word};
use crate::model::Caps;
use crate::raw::{RawProxy, Settings};
use crate::registry::Sections;

const fn section(
    name: &'static str,
    kind: Sections,
    args: &'static str,
    help: &'static str,
    open: fn(&mut Cx<'_>, &Arc<Line>),
) -> Section {
    Section {
        name,
        kind,
        args,
        help,
        later: None,
        open,
    }
}

const fn later(name: &'static str, kind: Sections, part: &'static str) -> Section {
    Section {
        name,
        kind,
        args: "",
        help: "",
        later: Some(part),
        open: open_later,
    }
}

#[rustfmt::skip]
pub(super) static SECTIONS: &[Section] = &[
    section("global", Sections::GLOBAL, "", "process-wide settings", open_global),
    section("defaults", Sections::DEFAULTS, "[<name>] [from <defaults>]", "settings the sections after it begin with", open_proxy),
    section("frontend", Sections::FRONTEND, "<name> [from <defaults>]", "accepts connections", open_proxy),
    section("listen", Sections::LISTEN, "<name> [from <defaults>]", "a frontend and a backend in one", open_proxy),
    section("backend", Sections::BACKEND, "<name> [from <defaults>]", "a set of servers", open_proxy),
    section("userlist", Sections::USERLIST, "<name>", "users and passwords", userlist::open),
    section("http-errors", Sections::HTTP_ERRORS, "<name>", "error pages that proxies refer to", http_errors::open),
    section("ring", Sections::RING, "<name>", "a memory buffer for logs", ring::open),
    section("mailers", Sections::MAILERS, "<name>", "mail servers that are told of changes", mailers::open),
    section("log-forward", Sections::LOG_FORWARD, "<name>", "log messages that come in and are sent on", log_forward::open),
    section("log-profile", Sections::LOG_PROFILE, "<name>", "what lines are at which step of a stream", log_profile::open),
    later("peers", Sections::PEERS, "peers"),
    later("resolvers", Sections::RESOLVERS, "DNS resolvers"),
    later("program", Sections::PROGRAM, "programs run by the master process"),
    later("cache", Sections::CACHE, "the HTTP cache"),
    later("fcgi-app", Sections::FCGI_APP, "FastCGI"),
    later("crt-store", Sections::CRT_STORE, "TLS"),
    later("traces", Sections::TRACES, "traces"),
    later("acme", Sections::ACME, "ACME"),
    later("healthcheck", Sections::HEALTHCHECK, "named health checks"),
];

fn open_global(cx: &mut Cx<'_>, line: &Arc<Line>) {
    cx.no_more(line, 1);
    if !(cx.raw.proxies.is_empty() && cx.defaults.is_empty()) {
        cx.report(
            Severity::Diag,
            line,
            0,
            0..0,
            "global section detected after a non-global one, the prevalence of their statements is unspecified",
            None,
        );
    }
    cx.current = Current::Global;
}

fn open_later(cx: &mut Cx<'_>, line: &Arc<Line>) {
    let found = super::SECTIONS.iter().find(|s| s.kind == cx.section);
    if let Some(Section {
        name,
        later: Some(part),
        ..
    }) = found
    {
        cx.not_yet(line, 0, name, part);
    }
    line.word(1).clone_into(&mut cx.section_name);
    cx.current = Current::Later;
}

fn open_proxy(cx: &mut Cx<'_>, line: &Arc<Line>) {
    let kind = cx.section;
    let caps = caps_of(kind);
    let what = section_name(kind);
    let unnamed = kind == Sections::DEFAULTS && matches!(line.word(1), "" | "from");
    if !unnamed && line.word(1).is_empty() {
        return cx.error(
            line,
            1,
            0..0,
            format!("'{what}' expects an <id> argument"),
            Some("give the section a name".into()),
        );
    }
    // As HAProxy: the name of a defaults section is only checked when something refers to it.
    let mut good = kind == Sections::DEFAULTS || cx.name(line, 1, "a name").is_some();
    let name = match unnamed {
        true => "",
        false => line.word(1),
    };
    let at = 1 + usize::from(!unnamed);
    let mut from = None;
    let mut rest = at;
    if line.word(at) == "from" && line.has(at + 1) {
        from = Some(at + 1);
        rest = at + 2;
    }
    name.clone_into(&mut cx.section_name);
    let parent = match from {
        Some(word) => {
            let found = named_defaults(cx, line, word, what, name);
            good &= found.is_some();
            if let Some(i) = found {
                cx.defaults_used[i]
                    .explicit
                    .get_or_insert_with(|| line.clone());
            }
            found
        }
        None if kind == Sections::DEFAULTS => None,
        None => {
            let last = cx.defaults.len().checked_sub(1);
            if let Some(i) = last {
                cx.defaults_used[i]
                    .implicit
                    .get_or_insert_with(|| line.clone());
            }
            last
        }
    };
    let settings = parent.map_or_else(Settings::default, |i| cx.defaults[i].settings.clone());
    let mut proxy = RawProxy::new(name, caps, line, settings);
    proxy.defaults = parent;
    if kind == Sections::DEFAULTS {
        cx.defaults.push(proxy);
        cx.defaults_used.push(Default::default());
        cx.current = Current::Defaults(cx.defaults.len() - 1);
    } else {
        good &= unique_name(cx, line, name, caps);
        cx.current = Current::Proxy(cx.raw.add_proxy(proxy));
    }
    if good && line.has(rest) {
        more_words(cx, line, rest);
    }
}

/// The `defaults` section a header refers to by name.
fn named_defaults(
    cx: &mut Cx<'_>,
    line: &Arc<Line>,
    word: usize,
    what: &str,
    name: &str,
) -> Option<usize> {
    let wanted = line.word(word);
    let found: Vec<usize> = (0..cx.defaults.len())
        .filter(|i| *cx.defaults[*i].name == *wanted)
        .collect();
    match found.as_slice() {
        [one] => Some(*one),
        [] => {
            let near = crate::diag::suggest(wanted, cx.defaults.iter().map(|d| &*d.name));
            let hint = near.map(|n| format!("did you mean '{n}'?"));
            cx.error(
                line,
                word,
                0..0,
                format!("defaults section '{wanted}' not found for {what} '{name}'."),
                hint,
            );
            None
        }
        [first, second, ..] => {
            let place = |i: usize| {
                let at = cx.defaults[i].line.origin();
                format!("{}:{}", at.file, at.line)
            };
            let message = format!(
                "ambiguous defaults section name '{wanted}' referenced by {what} '{name}' exists at least at {} and {}.",
                place(*first),
                place(*second)
            );
            cx.error_at(line, word, message);
            None
        }
    }
}

/// Two proxies with a capability in common cannot share a name.
fn unique_name(cx: &mut Cx<'_>, line: &Arc<Line>, name: &str, caps: Caps) -> bool {
    if let Some(other) = log_forward::named(cx, name) {
        let at = other.origin();
        let message = format!(
            "{} '{name}' has the same name as log forward section '{name}' declared at {}:{}.",
            caps_name(caps),
            at.file,
            at.line
        );
        cx.error_at(line, 1, message);
        return false;
    }
    let Some(other) = cx.raw.proxy_with_any(name, caps) else {
        return true;
    };
    let other = &cx.raw.proxies[other];
    let at = other.line.origin();
    let message = format!(
        "{} '{name}' has the same name as {} '{name}' declared at {}:{}.",
        caps_name(caps),
        caps_name(other.caps),
        at.file,
        at.line
    );
    // HAProxy only looks among frontends when the new proxy is one: `listen x` after `backend x` passes.
    if caps == Caps::LISTEN && other.caps == Caps::BACKEND {
        let hint = "names refer to the first; give each backend a name of its own";
        cx.warn(line, 1, message, Some(hint.to_owned()));
        return true;
    }
    cx.error_at(line, 1, message);
    false
}

/// What HAProxy calls a proxy with these capabilities.
pub(crate) fn caps_name(caps: Caps) -> &'static str {
    match caps {
        Caps::FRONTEND => "frontend",
        Caps::BACKEND => "backend",
        Caps::LISTEN => "proxy",
        _ => "defaults",
    }
}

/// `listen NAME ADDR:PORT`: what HAProxy 1.x wrote for a `bind` line.
fn more_words(cx: &mut Cx<'_>, line: &Arc<Line>, at: usize) {
    let frontend = cx.section == Sections::FRONTEND || cx.section == Sections::LISTEN;
    if !frontend || line.has(at + 1) || line.word(at) == "from" {
        cx.no_more(line, at);
        return;
    }
    cx.warn(
        line,
        at,
        "please use the 'bind' keyword for listening addresses.",
        Some(format!(
            "write '    bind {}' on a line of its own",
            line.word(at)
        )),
    );
    let bind = Word {
        text: "bind".into(),
        ..Word::plain("bind")
    };
    let mut obsolete = Line::clone(line);
    obsolete.words = vec![bind, line.words[at].clone()];
    crate::read::dispatch(cx, obsolete);
}
