//! MISC_CHECK, which asks a program, and FILE_CHECK, which reads a number.

use crate::config::keyword::{Keyword, no_effect, split_command, works};
use crate::config::lvs::{DELAY_MAX_S, MICROSECOND};
use crate::config::model::*;

pub static MISC: &[Keyword<Checker>] = with_pace!(
    works(
        "misc_path",
        "PROGRAM",
        "the program and its arguments",
        |c, a| {
            let Some(word) = a.word("a program") else {
                return;
            };
            let mut argv = split_command(&word.text);
            if !word.quoted {
                argv.extend(std::iter::from_fn(|| a.optional().map(|w| w.text.clone())));
            }
            if let CheckerKind::Misc(m) = &mut c.kind {
                m.argv = argv;
            }
        },
    ),
    works(
        "misc_timeout",
        "SECONDS",
        "time the program may take",
        |c, a| {
            let t = a.seconds(MICROSECOND..=4294.0);
            if let CheckerKind::Misc(m) = &mut c.kind {
                m.timeout_us = t;
            }
        },
    ),
    works(
        "misc_dynamic",
        "",
        "the exit status sets the weight",
        |c, _| {
            if let CheckerKind::Misc(m) = &mut c.kind {
                m.dynamic = true;
            }
        },
    ),
    works("user", "USER [GROUP]", "who runs the program", |c, a| {
        let Some(user) = a.text("a user") else { return };
        let group = a.optional().map(|g| g.text.clone());
        if let CheckerKind::Misc(m) = &mut c.kind {
            m.user = Some((user, group));
        }
    }),
);

pub static FILE: &[Keyword<Checker>] = &[
    works(
        "track_file",
        "NAME",
        "the track_file block to watch",
        |c, a| {
            let Some(word) = a.word("a track_file's name") else {
                return;
            };
            if !a.cx.config.track_files.iter().any(|f| f.name == word.text) {
                return a.error_at(
                    word,
                    format!("no track_file {} is defined before this line", word.text),
                );
            }
            if let CheckerKind::File(f) = &mut c.kind {
                f.track_file = word.text.clone();
            }
        },
    ),
    works(
        "weight",
        "WEIGHT [reverse]",
        "factor for the value read",
        |c, a| {
            let n = a.number(-2_147_483_647..=2_147_483_647);
            let reversed = a.peek().is_some_and(|w| w.text == "reverse");
            if reversed {
                a.optional();
            }
            if let (CheckerKind::File(f), Some(n)) = (&mut c.kind, n) {
                f.weight = n as i32;
                f.reverse = reversed;
                f.own_weight = true;
            }
        },
    ),
    no_effect(
        "dynamic",
        "",
        "with a weight other than 0 the value is always added to the server's weight",
    ),
];
