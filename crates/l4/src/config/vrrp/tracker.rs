//! What is tracked (`vrrp_script`, `track_file`, `vrrp_track_process`), and the lines that refer to it.

use crate::config::keyword::{Args, Context, Keyword, block, split_command, works};
use crate::config::model::*;
use crate::config::tree::{Node, Word};

pub(super) enum Tracked {
    Interface,
    Script,
    File,
    Process,
    Bfd,
}

/// Lines of a `track_*` block: NAME [weight N [reverse|noreverse]].
pub(super) fn tracks(list: &mut Vec<Track>, a: &mut Args<'_, '_>, what: Tracked) {
    for node in a.block() {
        let mut e = Args {
            node,
            at: 0,
            cx: a.cx,
        };
        let Some(word) = e.optional() else { continue };
        let known = match what {
            Tracked::Interface => {
                e.cx.interface(word);
                true
            }
            Tracked::Bfd => bfd(list, &mut e, word),
            // Scripts, files and processes may be defined later in the file: resolved at the end.
            Tracked::Script | Tracked::File | Tracked::Process => true,
        };
        let mut track = Track {
            name: word.text.clone(),
            weight: None,
            reverse: false,
        };
        let limit = if matches!(what, Tracked::Interface | Tracked::Script | Tracked::Bfd) {
            253
        } else {
            254
        };
        while let Some(option) = e.optional() {
            match option.text.as_str() {
                "weight" => track.weight = e.number(-limit..=limit).map(|n| n as i32),
                "reverse" => track.reverse = true,
                "noreverse" | "no_reverse" => track.reverse = false,
                _ => e.error_at(
                    option,
                    format!("'{}' is neither weight nor reverse", option.text),
                ),
            }
        }
        if known {
            list.push(track);
        }
    }
}

/// A session is known before it is referred to, and once.
fn bfd(list: &[Track], e: &mut Args<'_, '_>, word: &Word) -> bool {
    let mut bfds = e.cx.config.bfds.iter();
    if !bfds.any(|b| b.name == word.text && b.for_vrrp()) {
        let what = format!(
            "no bfd_instance {} for VRRP is defined before this line",
            word.text
        );
        e.error_at(word, what);
        return false;
    }
    if list.iter().any(|t| t.name == word.text) {
        e.dubious_at(word, format!("{} is tracked twice", word.text));
        return false;
    }
    true
}

pub static SCRIPT: &[Keyword<TrackedScript>] = &[
    works(
        "script",
        "PROGRAM",
        "the program and its arguments",
        |s, a| {
            let Some(word) = a.word("a program") else {
                return;
            };
            let mut argv = split_command(&word.text);
            if !word.quoted {
                argv.extend(std::iter::from_fn(|| a.optional().map(|w| w.text.clone())));
            }
            let user = s.script.take().and_then(|s| s.user);
            s.script = Some(Script { argv, user });
        },
    ),
    works("interval", "SECONDS", "time between runs", |s, a| {
        let word = a.keyword();
        let Some(n) = a.number_u32(0..=4294) else {
            return;
        };
        if n == 0 {
            a.dubious_at(word, "interval must be greater than 0");
        }
        s.interval_us = u64::from(n.max(1)) * SECOND_US;
    }),
    works("timeout", "SECONDS", "time a run may take", |s, a| {
        let word = a.keyword();
        let Some(n) = a.number_u32(0..=4294) else {
            return;
        };
        if n == 0 {
            a.dubious_at(word, "timeout must be greater than 0");
        }
        s.timeout_us = Some(u64::from(n.max(1)) * SECOND_US);
    }),
    works(
        "weight",
        "-253..253 [reverse]",
        "added to the priority",
        |s, a| {
            s.weight = a.number(-253..=253).unwrap_or(0) as i32;
            s.reverse = reverse(a);
        },
    ),
    works(
        "rise",
        "COUNT",
        "successes until it counts as up",
        |s, a| s.rise = a.number_u32(1..=2_147_483_647).unwrap_or(1),
    ),
    works(
        "fall",
        "COUNT",
        "failures until it counts as down",
        |s, a| s.fall = a.number_u32(1..=2_147_483_647).unwrap_or(1),
    ),
    works("user", "USER [GROUP]", "who runs the program", |s, a| {
        let Some(user) = a.text("a user") else { return };
        let user = Some(ScriptUser {
            user,
            group: a.optional().map(|g| g.text.clone()),
        });
        match &mut s.script {
            Some(script) => script.user = user,
            None => {
                s.script = Some(Script {
                    argv: Vec::new(),
                    user,
                })
            }
        }
    }),
    works("init_fail", "", "starts as failed", |s, _| {
        s.init_fail = true
    }),
];

fn reverse(a: &mut Args<'_, '_>) -> bool {
    let found = a.peek().is_some_and(|w| w.text == "reverse");
    if found {
        a.optional();
    }
    found
}

pub fn script(cx: &mut Context<'_>, node: &Node) {
    let mut a = Args { node, at: 1, cx };
    let Some(word) = a.word("a name") else { return };
    let mut s = TrackedScript {
        name: word.text.clone(),
        script: None,
        interval_us: SECOND_US,
        timeout_us: None,
        weight: 0,
        reverse: false,
        rise: 1,
        fall: 1,
        init_fail: false,
        missing: false,
    };
    block(a.block(), SCRIPT, &mut s, a.cx, "vrrp_script");
    let Some(script) = s.script.as_ref().filter(|s| !s.argv.is_empty()) else {
        return a.error_at(word, format!("vrrp_script {} has no script", word.text));
    };
    let exists = script
        .argv
        .first()
        .and_then(|p| a.cx.host.executable_exists(p));
    s.missing = exists == Some(false);
    let user = script.user.as_ref().map(|u| u.user.as_str());
    a.check_executable(word, &script.argv, user);
    a.cx.config.scripts.push(s);
}

pub static TRACK_FILE: &[Keyword<TrackFile>] = &[
    works("file", "PATH", "the file to watch", |f, a| {
        f.path = a.text("a path").unwrap_or_default()
    }),
    works(
        "weight",
        "WEIGHT [reverse]",
        "factor for the number read",
        |f, a| {
            let word = a.keyword();
            let weight = a.number(-2_147_483_647..=2_147_483_647).unwrap_or(1) as i32;
            let reversed = reverse(a);
            if f.own_weight {
                a.dubious_at(word, "a second weight is passed over");
            } else {
                (f.weight, f.reverse, f.own_weight) = (weight, reversed, true);
            }
            if let Some(extra) = a.optional() {
                a.dubious_at(extra, format!("'{}' is no option of a weight", extra.text));
                a.skip();
            }
        },
    ),
    works(
        "init_file",
        "[VALUE] [overwrite]",
        "write the file at the start",
        |f, a| {
            let mut init = (0, false);
            while let Some(word) = a.peek() {
                if word.text == "overwrite" {
                    init.1 = true;
                    a.optional();
                } else {
                    init.0 = a.number(-2_147_483_648..=2_147_483_648).unwrap_or(0);
                }
            }
            f.init = Some(init);
        },
    ),
];

pub fn track_file(cx: &mut Context<'_>, node: &Node) {
    let mut a = Args { node, at: 1, cx };
    let Some(word) = a.word("a name") else { return };
    let mut f = TrackFile {
        name: word.text.clone(),
        path: String::new(),
        weight: 1,
        reverse: false,
        own_weight: false,
        init: None,
    };
    block(a.block(), TRACK_FILE, &mut f, a.cx, "track_file");
    if f.path.is_empty() {
        return a.error_at(word, format!("track_file {} has no file", word.text));
    }
    a.cx.config.track_files.push(f);
}

pub static TRACK_PROCESS: &[Keyword<TrackProcess>] = &[
    works("process", "NAME [PARAMETER ...]", "the program", |p, a| {
        p.command = std::iter::from_fn(|| a.optional().map(|w| w.text.clone())).collect();
        if p.command.is_empty() {
            a.word("a program name");
        }
    }),
    works(
        "param_match",
        "initial|partial",
        "how parameters are compared",
        |p, a| {
            let Some(word) = a.word("initial or partial") else {
                return;
            };
            p.param_match = match word.text.as_str() {
                "initial" => ParamMatch::Initial,
                "partial" => ParamMatch::Partial,
                _ => {
                    return a.error_at(
                        word,
                        format!("'{}' is neither initial nor partial", word.text),
                    );
                }
            };
        },
    ),
    works(
        "weight",
        "-254..254 [reverse]",
        "added to the priority",
        |p, a| {
            p.weight = a.number(-254..=254).unwrap_or(1) as i32;
            p.reverse = reverse(a);
        },
    ),
    works("quorum", "COUNT", "fewest processes", |p, a| {
        p.quorum = a.number_u32(1..=65535).unwrap_or(1)
    }),
    works("quorum_max", "COUNT", "most processes", |p, a| {
        p.quorum_max = a.number_u32(0..=65535).unwrap_or(65535)
    }),
    works(
        "fork_delay",
        "SECONDS",
        "wait before it counts as up",
        |p, a| p.fork_delay_us = a.seconds(0.000_001..=3600.0).unwrap_or(0),
    ),
    works(
        "terminate_delay",
        "SECONDS",
        "wait before it counts as down",
        |p, a| p.terminate_delay_us = a.seconds(0.000_001..=3600.0).unwrap_or(0),
    ),
    works("delay", "SECONDS", "both delays", |p, a| {
        p.fork_delay_us = a.seconds(0.000_001..=3600.0).unwrap_or(0);
        p.terminate_delay_us = p.fork_delay_us;
    }),
    works(
        "full_command",
        "",
        "compare the whole command line",
        |p, _| p.full_command = true,
    ),
];

pub fn track_process(cx: &mut Context<'_>, node: &Node) {
    let mut a = Args { node, at: 1, cx };
    let Some(word) = a.word("a name") else { return };
    let mut p = TrackProcess {
        name: word.text.clone(),
        command: Vec::new(),
        param_match: ParamMatch::Any,
        weight: 1,
        reverse: false,
        quorum: 1,
        quorum_max: 65535,
        fork_delay_us: 0,
        terminate_delay_us: 0,
        full_command: false,
    };
    block(a.block(), TRACK_PROCESS, &mut p, a.cx, "vrrp_track_process");
    if p.command.is_empty() {
        return a.error_at(
            word,
            format!("vrrp_track_process {} has no process", word.text),
        );
    }
    if p.param_match == ParamMatch::Any && p.command.len() > 1 {
        p.param_match = ParamMatch::Exact;
    }
    a.cx.config.track_processes.push(p);
}
