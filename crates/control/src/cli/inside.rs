//! Commands that look at the process itself: `show activity`, `threads`, `tasks`, `pools`, `profiling`, `fd`, `libs`; and
//! `echo`.

use sluice_config::model::CliLevel;

use super::{Call, Command};
use crate::inside;

pub const COMMANDS: &[Command] = &[
    Command {
        words: &["echo"],
        args: "[text]",
        help: "print text to the output",
        level: CliLevel::User,
        run: |c| c.info(&format!("{}\n", c.args.join(" "))),
    },
    Command {
        words: &["show", "activity"],
        args: "",
        help: "show per-thread activity stats (for support/developers)",
        level: CliLevel::Operator,
        run: |c| {
            let wall_us = c.host.now().wall_us;
            let date = format!("{}.{:06}", wall_us / 1_000_000, wall_us % 1_000_000);
            inside::activity(&c.host.workers(), &date)
        },
    },
    Command {
        words: &["show", "threads"],
        args: "",
        help: "show some threads debugging information",
        level: CliLevel::Operator,
        run: |c| inside::threads(&c.host.workers()),
    },
    Command {
        words: &["show", "tasks"],
        args: "",
        help: "show running tasks",
        level: CliLevel::Operator,
        run: |c| inside::tasks(&c.host.workers()),
    },
    Command {
        words: &["show", "pools"],
        args: "",
        help: "report information about the memory pools usage",
        level: CliLevel::User,
        run: |c| inside::pools(&c.host.workers()),
    },
    Command {
        words: &["show", "profiling"],
        args: "",
        help: "show profiling state",
        level: CliLevel::User,
        run: |_| PROFILING.into(),
    },
    Command {
        words: &["show", "fd"],
        args: "[num]",
        help: "dump list of file descriptors in use or a specific one",
        level: CliLevel::Operator,
        run: descriptors,
    },
    Command {
        words: &["show", "libs"],
        args: "",
        help: "show loaded object files and libraries",
        level: CliLevel::Operator,
        run: |c| c.host.libraries(),
    },
];

const PROFILING: &str = "\
Per-task CPU profiling              : off           # Sluice has none: see perf(1)
Memory usage profiling              : off           # Sluice has none: see heaptrack(1)
";

fn descriptors(c: &mut Call<'_>) -> String {
    let only = c.arg(0).parse::<i32>().ok();
    let mut rows = c.host.descriptors();
    rows.sort_by_key(|r| r.number);
    rows.iter()
        .filter(|r| only.is_none_or(|n| n == r.number))
        .map(|r| r.line())
        .collect()
}
