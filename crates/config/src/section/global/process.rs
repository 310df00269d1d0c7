//! The process: identity, privileges, daemon, stop (manual chapter 3.1).

use std::sync::Arc;

use super::{first_time, only_text, only_time_ms, only_uint, switch};
use crate::cx::Cx;
use crate::files::BasePath;
use crate::line::Line;
use crate::model::{Global, UnixPerms};
use crate::registry::{Keyword, Sections, harmless, kw};

const G: Sections = Sections::GLOBAL;

#[rustfmt::skip]
pub(super) static KEYWORDS: &[Keyword] = &[
    kw("chroot", G, "<jail dir>", "directory the process locks itself into before it drops its privileges", |cx, line| {
        let Some(dir) = only_text(cx, line, "a directory") else { return };
        if first_time(cx, line, cx.raw.global.chroot.is_some()) {
            cx.global().chroot = Some(dir);
        }
    }),
    kw("daemon", G, "", "goes to the background (like -D)", |cx, line| {
        if let Some(on) = switch(cx, line, false) { cx.global().daemon = on; }
    }),
    kw("external-check", G, "", "health checks may start programs (`option external-check`)", |cx, line| {
        if let Some(on) = switch(cx, line, false) { cx.global().external_check = on; }
    }),
    kw("master-worker", G, "[no-exit-on-failure]", "a master process supervises the worker process (like -W)", master_worker),
    kw("mworker-max-reloads", G, "<number>", "reloads an old worker process may live through", |cx, line| {
        if let Some(n) = only_uint(cx, line, 0, i32::MAX as u32) { cx.global().mworker_max_reloads = Some(n); }
    }),
    kw("pidfile", G, "<file>", "file the process ids are written to (like -p)", |cx, line| {
        let Some(file) = only_text(cx, line, "a file name") else { return };
        if first_time(cx, line, cx.raw.global.pidfile.is_some()) {
            cx.global().pidfile = Some(file);
        }
    }),
    kw("harden.reject-privileged-ports.tcp", G, "{ on | off }", "refuses clients whose port is below 1024", |cx, line| {
        if let Some(on) = cx.on_off(line, line.keyword_len) { cx.global().rejects_privileged_ports = on; }
    }),
    kw("prealloc-fd", G, "", "has the kernel make room for all descriptors at the start", |cx, line| {
        if cx.no_more(line, line.keyword_len) { cx.global().prealloc_fd = true; }
    }),
    kw("setcap", G, "<name>[,<name>...]", "rights that are kept when the user is changed", setcap),
    kw("tune.renice.runtime", G, "<-20..19>", "the process's nice value while it serves", |cx, line| nice(cx, line, |g| &mut g.renice_runtime)),
    kw("tune.renice.startup", G, "<-20..19>", "the process's nice value while it starts", |cx, line| nice(cx, line, |g| &mut g.renice_startup)),
    kw("quiet", G, "", "shows no message at start (like -q)", |cx, line| {
        if let Some(on) = switch(cx, line, false) { cx.global().quiet = on; }
    }),
    kw("zero-warning", G, "", "refuses to start after a warning (like -dW)", |cx, line| {
        if let Some(on) = switch(cx, line, false) { cx.global().zero_warning = on; }
    }),
    kw("user", G, "<user name>", "user the process runs as", |cx, line| {
        let Some(name) = only_text(cx, line, "a user name") else { return };
        let already = cx.raw.global.user.is_some() || cx.raw.global.uid.is_some();
        if first_time(cx, line, already) { cx.global().user = Some(name); cx.raw.account_lines.push(line.clone()); }
    }),
    kw("group", G, "<group name>", "group the process runs as", |cx, line| {
        let Some(name) = only_text(cx, line, "a group name") else { return };
        let already = cx.raw.global.group.is_some() || cx.raw.global.gid.is_some();
        if first_time(cx, line, already) { cx.global().group = Some(name); cx.raw.account_lines.push(line.clone()); }
    }),
    kw("uid", G, "<number>", "user id the process runs as", |cx, line| {
        let Some(id) = only_uint(cx, line, 0, u32::MAX) else { return };
        let already = cx.raw.global.user.is_some() || cx.raw.global.uid.is_some();
        if first_time(cx, line, already) { cx.global().uid = Some(id); }
    }),
    kw("gid", G, "<number>", "group id the process runs as", |cx, line| {
        let Some(id) = only_uint(cx, line, 0, u32::MAX) else { return };
        let already = cx.raw.global.group.is_some() || cx.raw.global.gid.is_some();
        if first_time(cx, line, already) { cx.global().gid = Some(id); }
    }),
    kw("node", G, "<name>", "name of this instance", node),
    kw("description", G, "<text>", "text that describes this instance", |cx, line| {
        if let Some(text) = all_words(cx, line) { cx.global().description = Some(text); }
    }),
    kw("localpeer", G, "<name>", "this instance's name among its peers (like -L)", |cx, line| {
        let Some(name) = only_text(cx, line, "a name") else { return };
        cx.environ.set("HAPROXY_LOCALPEER", &name);
        cx.global().localpeer = Some(name);
    }),
    kw("hard-stop-after", G, "<time>", "longest time a soft stop may take", |cx, line| {
        if let Some(ms) = only_time_ms(cx, line) { cx.global().hard_stop_after_ms = Some(ms); }
    }),
    kw("grace", G, "<time>", "delay between the signal and the soft stop", |cx, line| {
        if let Some(ms) = only_time_ms(cx, line) { cx.global().grace_ms = Some(ms); }
    }),
    kw("close-spread-time", G, "{ <time> | infinite }", "window the closing of idle connections is spread over at a soft stop", close_spread_time),
    kw("unix-bind", G, "[prefix <prefix>] [mode <mode>] [user <user>] [uid <uid>] [group <group>] [gid <gid>]", "settings common to all listening Unix sockets", unix_bind),
    kw("default-path", G, "{ current | config | parent | origin <path> }", "where relative file names start from", default_path),
    kw("server-state-base", G, "<directory>", "directory server state files are looked for in", |cx, line| {
        let Some(dir) = only_text(cx, line, "a directory") else { return };
        if first_time(cx, line, cx.raw.global.server_state_base.is_some()) {
            cx.global().server_state_base = Some(dir);
        }
    }),
    kw("server-state-file", G, "<file>", "file the states of servers are read from at start", |cx, line| {
        let Some(file) = only_text(cx, line, "a file name") else { return };
        if first_time(cx, line, cx.raw.global.server_state_file.is_some()) {
            cx.global().server_state_file = Some(file);
        }
    }),
    harmless("insecure-fork-wanted", G, "Sluice forbids itself nothing that this would allow")
        .doc("", "the process may start others while it runs").no(),
    harmless("insecure-setuid-wanted", G, "Sluice starts no other program, and forbids itself nothing that this would allow")
        .doc("", "programs it starts may be setuid").no(),
    kw("expose-experimental-directives", G, "", "lets keywords be used that are marked experimental", |cx, line| {
        cx.no_more(line, line.keyword_len);
    }),
    kw("expose-deprecated-directives", G, "", "lets keywords be used that are marked deprecated", |cx, line| {
        cx.no_more(line, line.keyword_len);
    }),
    harmless("set-dumpable", G, "Sluice leaves the process's dumpable state alone; use prctl(1) or the service manager's setting")
        .doc("", "keep the process able to leave a core").no(),
];

fn nice(cx: &mut Cx<'_>, line: &Arc<Line>, slot: fn(&mut Global) -> &mut Option<i32>) {
    let Some(n) = cx.int(line, line.keyword_len, -20..=19) else {
        return;
    };
    if cx.no_more(line, line.keyword_len + 1) {
        *slot(cx.global()) = i32::try_from(n).ok();
    }
}

/// The capabilities that mean something for a proxy, with the kernel's numbers (capabilities(7)).
const CAPABILITIES: [(&str, u8); 4] = [
    ("cap_net_bind_service", 10),
    ("cap_net_admin", 12),
    ("cap_net_raw", 13),
    ("cap_sys_admin", 21),
];

fn setcap(cx: &mut Cx<'_>, line: &Arc<Line>) {
    let word = line.keyword_len;
    let Some(names) = only_text(cx, line, "capabilities") else {
        return;
    };
    for name in names.split(',') {
        match CAPABILITIES.iter().find(|(n, _)| *n == name) {
            Some((_, number)) => cx.global().capabilities.push(*number),
            None => {
                let hint = CAPABILITIES.map(|(n, _)| n).join(", ");
                let message = format!("'setcap' : unsupported capability '{name}'");
                return cx.error(
                    line,
                    word,
                    0..0,
                    message,
                    Some(format!("it is one of {hint}")),
                );
            }
        }
    }
}

fn master_worker(cx: &mut Cx<'_>, line: &Arc<Line>) {
    match line.arg(0) {
        "" => {}
        "no-exit-on-failure" => {
            if !cx.no_more(line, line.keyword_len + 1) {
                return;
            }
        }
        _ => {
            cx.error_at(
                line,
                line.keyword_len,
                "'master-worker' only supports 'no-exit-on-failure' option.",
            );
            return;
        }
    }
    cx.global().master_worker = true;
    cx.global().no_exit_on_failure = line.has(line.keyword_len);
}

fn node(cx: &mut Cx<'_>, line: &Arc<Line>) {
    let Some(name) = only_text(cx, line, "a name") else {
        return;
    };
    let wrong = |c: char| !c.is_ascii_alphanumeric() && !matches!(c, '.' | '-' | '_');
    if let Some(at) = name.find(wrong) {
        cx.error(
            line,
            line.keyword_len,
            at..at + 1,
            "'node' requires valid node name - non-empty string with digits(0-9), letters(A-Z, a-z), dot(.), hyphen(-) or \
             underscode(_).",
            None,
        );
        return;
    }
    cx.global().node = Some(name);
}

/// All arguments as one text.
fn all_words(cx: &mut Cx<'_>, line: &Arc<Line>) -> Option<String> {
    if line.arg(0).is_empty() {
        cx.error_at(
            line,
            line.keyword_len,
            format!("'{}' expects a string argument.", line.keyword()),
        );
        return None;
    }
    Some(line.texts(line.keyword_len).join(" "))
}

fn close_spread_time(cx: &mut Cx<'_>, line: &Arc<Line>) {
    if line.arg(0) == "infinite" {
        if cx.no_more(line, line.keyword_len + 1) {
            cx.global().close_spread_time_ms = Some(u64::MAX);
        }
        return;
    }
    if let Some(ms) = only_time_ms(cx, line) {
        cx.global().close_spread_time_ms = Some(ms);
    }
}

fn unix_bind(cx: &mut Cx<'_>, line: &Arc<Line>) {
    let mut perms = UnixPerms::default();
    let mut prefix = None;
    let mut at = line.keyword_len;
    while line.has(at) {
        let name = line.word(at);
        if !matches!(name, "prefix" | "mode" | "user" | "uid" | "group" | "gid") {
            cx.error_at(
                line,
                at,
                "'unix-bind' only supports the 'prefix', 'mode', 'uid', 'gid', 'user' and 'group' options.",
            );
            return;
        }
        let Some(value) = cx.need(line, at + 1, "a value for each option") else {
            return;
        };
        match name {
            "prefix" => prefix = Some(value.to_owned()),
            "user" => perms.user = Some(value.to_owned()),
            "group" => perms.group = Some(value.to_owned()),
            "mode" => match u32::from_str_radix(value, 8) {
                Ok(mode) if mode <= 0o7777 => perms.mode = Some(mode),
                _ => {
                    cx.error_at(line, at + 1, format!("'{value}' is not an octal file mode"));
                    return;
                }
            },
            id => {
                let Some(n) = cx.uint(line, at + 1, 0..=u32::MAX) else {
                    return;
                };
                match id {
                    "uid" => perms.uid = Some(n),
                    _ => perms.gid = Some(n),
                }
            }
        }
        at += 2;
    }
    cx.raw.account_lines.push(line.clone());
    let global = cx.global();
    global.unix_bind = perms;
    global.unix_bind_prefix = prefix.or(global.unix_bind_prefix.take());
}

fn default_path(cx: &mut Cx<'_>, line: &Arc<Line>) {
    let base = match line.arg(0) {
        "current" => BasePath::Current,
        "config" => BasePath::Config,
        "parent" => BasePath::Parent,
        "origin" => {
            let Some(dir) = cx.need(line, line.keyword_len + 1, "a directory after 'origin'")
            else {
                return;
            };
            BasePath::Origin(dir.to_owned())
        }
        other => {
            cx.error_at(
                line,
                line.keyword_len,
                format!(
                    "unsupported default-path mode '{other}' for 'default-path', supported modes include 'current', \
                     'config', 'parent', and 'origin'."
                ),
            );
            return;
        }
    };
    let taken = 1 + usize::from(matches!(base, BasePath::Origin(_)));
    if cx.no_more(line, line.keyword_len + taken) {
        cx.base_path = base;
    }
}
