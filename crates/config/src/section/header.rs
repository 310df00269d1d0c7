//! Section headers: `global`, `defaults NAME from OTHER`, `frontend NAME`, ...

use std::sync::Arc;

use super::Section;
use crate::cx::{Current, Cx, caps_of};
use crate::line::Line;
use crate::raw::{RawProxy, Settings};
use crate::registry::Sections;

pub(super) static SECTIONS: &[Section] = &[
    Section {
        name: "global",
        kind: Sections::GLOBAL,
        args: "",
        help: "process-wide settings",
        open: open_global,
    },
    Section {
        name: "defaults",
        kind: Sections::DEFAULTS,
        args: "[<name>] [from <defaults>]",
        help: "settings the sections after it begin with",
        open: open_proxy,
    },
    Section {
        name: "frontend",
        kind: Sections::FRONTEND,
        args: "<name> [from <defaults>]",
        help: "accepts connections",
        open: open_proxy,
    },
    Section {
        name: "listen",
        kind: Sections::LISTEN,
        args: "<name> [from <defaults>]",
        help: "a frontend and a backend in one",
        open: open_proxy,
    },
    Section {
        name: "backend",
        kind: Sections::BACKEND,
        args: "<name> [from <defaults>]",
        help: "a set of servers",
        open: open_proxy,
    },
];

fn open_global(cx: &mut Cx<'_>, _line: &Arc<Line>) {
    cx.current = Current::Global;
}

fn open_proxy(cx: &mut Cx<'_>, line: &Arc<Line>) {
    let caps = caps_of(cx.section);
    let settings = cx
        .defaults
        .last()
        .map_or_else(Settings::default, |d| d.settings.clone());
    let proxy = RawProxy::new(line.word(1), caps, line, settings);
    line.word(1).clone_into(&mut cx.section_name);
    if cx.section == Sections::DEFAULTS {
        cx.defaults.push(proxy);
        cx.current = Current::Defaults(cx.defaults.len() - 1);
    } else {
        cx.raw.proxies.push(proxy);
        cx.current = Current::Proxy(cx.raw.proxies.len() - 1);
    }
}
