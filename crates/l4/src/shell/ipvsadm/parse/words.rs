//! ipvsadm's words: its options and commands, what belongs to which, and a command line cut into them.

use super::Refused;

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Argument {
    None,
    Needed,
    Optional,
}

/// Letter, long name, the name that messages use, its argument. Long names without a letter have a capital one of their own.
pub(super) const OPTIONS: [(char, &str, &str, Argument); 21] = [
    ('t', "tcp-service", "service-address", Argument::Needed),
    ('u', "udp-service", "service-address", Argument::Needed),
    ('K', "sctp-service", "service-address", Argument::Needed),
    ('f', "fwmark-service", "service-address", Argument::Needed),
    ('s', "scheduler", "scheduler", Argument::Needed),
    ('b', "sched-flags", "sched-flags", Argument::Needed),
    ('p', "persistent", "persistent", Argument::Optional),
    ('M', "netmask", "netmask", Argument::Needed),
    ('o', "ops", "ops", Argument::None),
    ('r', "real-server", "real-server", Argument::Needed),
    ('g', "gatewaying", "forwarding-method", Argument::None),
    ('i', "ipip", "forwarding-method", Argument::None),
    ('m', "masquerading", "forwarding-method", Argument::None),
    ('w', "weight", "weight", Argument::Needed),
    ('x', "u-threshold", "u-threshold", Argument::Needed),
    ('y', "l-threshold", "l-threshold", Argument::Needed),
    ('n', "numeric", "numeric", Argument::None),
    ('c', "connection", "connection", Argument::None),
    ('T', "stats", "stats", Argument::None),
    ('H', "thresholds", "thresholds", Argument::None),
    ('6', "ipv6", "ipv6", Argument::None),
];

/// Letter, long name, the name that messages use, letters of the options it must have and may have.
pub(super) const COMMANDS: [(char, &str, &str, &str, &str); 12] = [
    ('A', "add-service", "add-service", "t", "sbpMo6"),
    ('E', "edit-service", "edit-service", "t", "sbpMo6"),
    ('D', "delete-service", "delete-service", "t", "6"),
    ('C', "clear", "flush", "", ""),
    ('L', "list", "list", "", "tncTH6"),
    ('l', "list", "list", "", "tncTH6"),
    ('a', "add-server", "add-server", "tr", "gwxy6"),
    ('e', "edit-server", "edit-server", "tr", "gwxy6"),
    ('d', "delete-server", "delete-server", "tr", "6"),
    ('S', "save", "save", "", "n"),
    ('R', "restore", "restore", "", ""),
    ('Z', "zero", "zero", "", "t6"),
];

pub(super) fn wrong<T>(words: impl Into<String>) -> Result<T, Refused> {
    Err(Refused {
        words: words.into(),
        status: 2,
    })
}

pub(super) fn try_help<T>() -> Result<T, Refused> {
    Err(Refused {
        words: "Try `ipvsadm -h' or 'ipvsadm --help' for more information.".into(),
        status: 255,
    })
}

/// What `-h` says.
pub(in crate::shell::ipvsadm) fn usage() -> String {
    let mut out = String::from(
        "sluice-l4 ipvsadm: the verbs of ipvsadm(8), at the director of --socket\n\ncommands, which come first, and their options:\n",
    );
    for (letter, long, _, must, may) in COMMANDS.iter().filter(|c| c.0 != 'l') {
        let written = |letters: &str| -> Vec<String> {
            let options = letters
                .chars()
                .filter_map(|l| OPTIONS.iter().find(|o| o.0 == l));
            options
                .map(|(letter, long, name, argument)| {
                    let short = if letter.is_ascii_uppercase() && *letter != 'M' {
                        format!("--{long}")
                    } else {
                        format!("-{letter}")
                    };
                    // Of three letters of one name, the first stands for all.
                    let short = match (*letter, *name) {
                        ('t', _) => "-t|-u|--sctp-service".to_string(),
                        ('g', _) => "-g|-i|-m".to_string(),
                        _ => short,
                    };
                    match argument {
                        Argument::None => short,
                        Argument::Needed => format!("{short} {}", name.to_uppercase()),
                        Argument::Optional => format!("{short} [SECONDS]"),
                    }
                })
                .collect()
        };
        let may: Vec<String> = written(may).iter().map(|o| format!("[{o}]")).collect();
        let line = [written(must), may].concat().join(" ");
        out.push_str(&format!("  -{letter}, --{long} {line}\n"));
    }
    out.push_str("-R reads such lines from the standard input. Firewall marks (-f) are not there; see docs/l4.md.\n");
    out
}

/// Letters of one name stand for each other: -t, -u; -g, -i, -m.
pub(super) fn name_of(letter: char) -> &'static str {
    OPTIONS
        .iter()
        .find(|o| o.0 == letter)
        .map_or("", |(_, _, name, _)| name)
}

/// Splits `-Ln`, `-w3`, `--weight=3` and `-w 3` into letters and their arguments.
pub(super) fn split(args: &[String]) -> Result<Vec<(char, Option<String>)>, Refused> {
    let mut found: Vec<(char, Option<String>)> = Vec::new();
    let mut rest = args.iter().peekable();
    while let Some(arg) = rest.next() {
        let mut letters: Vec<(char, Argument)> = Vec::new();
        let mut attached = None;
        if let Some(long) = arg.strip_prefix("--") {
            let (long, value) = long
                .split_once('=')
                .map_or((long, None), |(l, v)| (l, Some(v.to_string())));
            attached = value;
            let option = OPTIONS.iter().find(|o| o.1 == long).map(|o| (o.0, o.3));
            let command = || {
                let c = COMMANDS.iter().find(|c| c.1 == long)?;
                Some((c.0, Argument::None))
            };
            let wanted = if found.is_empty() { command() } else { option };
            match wanted {
                Some(found) => letters.push(found),
                None if found.is_empty() => return try_help(),
                None => return wrong(format!("invalid option `{arg}'")),
            }
        } else {
            let Some(text) = arg.strip_prefix('-').filter(|t| !t.is_empty()) else {
                return wrong(format!("unexpected argument {arg}"));
            };
            let mut chars = text.chars();
            while let Some(c) = chars.next() {
                let first = found.is_empty() && letters.is_empty();
                let command = COMMANDS.iter().any(|k| k.0 == c);
                let option = OPTIONS
                    .iter()
                    .find(|o| o.0 == c && !matches!(c, 'K' | 'T' | 'H'));
                match option {
                    _ if first && command => letters.push((c, Argument::None)),
                    _ if first => return try_help(),
                    Some((_, _, _, argument)) => {
                        letters.push((c, *argument));
                        if *argument != Argument::None {
                            let value: String = chars.by_ref().collect();
                            attached = Some(value).filter(|v| !v.is_empty());
                        }
                    }
                    None => return wrong(format!("invalid option `-{c}'")),
                }
            }
        }
        for (letter, argument) in letters {
            let value = match argument {
                Argument::None => None,
                _ if attached.is_some() => attached.take(),
                Argument::Optional => rest.next_if(|n| !n.starts_with('-')).cloned(),
                Argument::Needed => match rest.next() {
                    Some(v) => Some(v.clone()),
                    None => return wrong(format!("option {arg} needs an argument")),
                },
            };
            found.push((letter, value));
        }
    }
    Ok(found)
}
