//! Commands on sessions: `show sess`, `shutdown session`, `shutdown frontend`.

use std::sync::atomic::Ordering::Relaxed;

use sluice_config::model::CliLevel;

use super::{Call, Command, NOTICE};

pub const COMMANDS: &[Command] = &[
    Command {
        words: &["show", "sess"],
        args: "[id]",
        help: "report the list of current sessions or dump this exact session",
        level: CliLevel::Operator,
        run: show,
    },
    Command {
        words: &["shutdown", "session"],
        args: "[id]",
        help: "kill a specific session",
        level: CliLevel::Admin,
        run: shutdown,
    },
    Command {
        words: &["shutdown", "frontend"],
        args: "<frontend>",
        help: "stop a specific frontend",
        level: CliLevel::Admin,
        run: shutdown_frontend,
    },
];

fn number(text: &str) -> Option<u64> {
    let hex = text.strip_prefix("0x").unwrap_or(text);
    u64::from_str_radix(hex, 16).ok()
}

fn show(c: &mut Call<'_>) -> String {
    let mut rows = c.host.sessions();
    rows.sort_by_key(|r| r.since_us);
    let date = |us: i64| c.host.date(us);
    match c.arg(0) {
        "all" => rows.iter().map(|r| r.all(&date(r.since_us))).collect(),
        one if one.starts_with("0x") => match rows.iter().find(|r| Some(r.id) == number(one)) {
            Some(r) => r.all(&date(r.since_us)),
            None => "Session not found.\n".into(),
        },
        _ => rows.iter().map(|r| r.line()).collect(),
    }
}

fn shutdown(c: &mut Call<'_>) -> String {
    if c.arg(0).is_empty() {
        return c.error("Session pointer expected (use 'show sess').\n");
    }
    match number(c.arg(0)).is_some_and(|id| c.host.shutdown_session(id)) {
        true => String::new(),
        false => c.error("No such session (use 'show sess').\n"),
    }
}

fn shutdown_frontend(c: &mut Call<'_>) -> String {
    let p = match super::process::frontend(c) {
        Ok(p) => p,
        Err(e) => return c.error(e),
    };
    if p.stopped.swap(true, Relaxed) {
        return c.say(NOTICE, "Frontend was already shut down.\n");
    }
    c.host.shutdown_frontend(p.id);
    String::new()
}
