//! ipvsadm's words: its options and commands, what belongs to which, and a command line cut into them.

use super::Refused;

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Argument {
    None,
    Needed,
    Optional,
}

/// Letter, long name, the name that messages use, its argument. Long names without a letter have a capital one (or a digit) of their own.
pub(super) const OPTIONS: [(char, &str, &str, Argument); 32] = [
    ('t', "tcp-service", "service-address", Argument::Needed),
    ('u', "udp-service", "service-address", Argument::Needed),
    ('K', "sctp-service", "service-address", Argument::Needed),
    ('f', "fwmark-service", "service-address", Argument::Needed),
    ('s', "scheduler", "scheduler", Argument::Needed),
    ('b', "sched-flags", "sched-flags", Argument::Needed),
    ('p', "persistent", "persistent", Argument::Optional),
    ('M', "netmask", "netmask", Argument::Needed),
    ('P', "pe", "pe", Argument::Needed),
    ('o', "ops", "ops", Argument::None),
    ('r', "real-server", "real-server", Argument::Needed),
    ('g', "gatewaying", "forwarding-method", Argument::None),
    ('i', "ipip", "forwarding-method", Argument::None),
    ('m', "masquerading", "forwarding-method", Argument::None),
    ('Y', "tun-type", "tun-type", Argument::Needed),
    ('2', "tun-port", "tun-port", Argument::Needed),
    ('3', "tun-nocsum", "tun-nocsum", Argument::None),
    ('4', "tun-csum", "tun-csum", Argument::None),
    ('5', "tun-remcsum", "tun-remcsum", Argument::None),
    ('w', "weight", "weight", Argument::Needed),
    ('x', "u-threshold", "u-threshold", Argument::Needed),
    ('y', "l-threshold", "l-threshold", Argument::Needed),
    ('n', "numeric", "numeric", Argument::None),
    ('c', "connection", "connection", Argument::None),
    ('O', "timeout", "timeout", Argument::None),
    ('D', "daemon", "daemon", Argument::None),
    ('T', "stats", "stats", Argument::None),
    ('V', "rate", "rate", Argument::None),
    ('H', "thresholds", "thresholds", Argument::None),
    ('Q', "persistent-conn", "persistent-conn", Argument::None),
    ('I', "tun-info", "tun-info", Argument::None),
    ('6', "ipv6", "ipv6", Argument::None),
];

/// Options that every listing and saving takes.
const ORDER: [(char, &str, &str, Argument); 3] = [
    ('E', "exact", "exact", Argument::None),
    ('N', "nosort", "nosort", Argument::None),
    ('S', "sort", "sort", Argument::None),
];

/// Letters that are no option's on a command line.
const LONG_ONLY: &str = "KPY2345ODTVHQIENS";

/// Letter, long name, the name that messages use, letters of the options it must have and may have. The last have no letter of their own.
pub(super) const COMMANDS: [(char, &str, &str, &str, &str); 17] = [
    ('A', "add-service", "add-service", "t", "sbpMoP6"),
    ('E', "edit-service", "edit-service", "t", "sbpMoP6"),
    ('D', "delete-service", "delete-service", "t", "6"),
    ('C', "clear", "flush", "", ""),
    ('L', "list", "list", "", "tncODTVHQI6ENS"),
    ('l', "list", "list", "", "tncODTVHQI6ENS"),
    ('a', "add-server", "add-server", "tr", "gwxyY23456"),
    ('e', "edit-server", "edit-server", "tr", "gwxyY23456"),
    ('d', "delete-server", "delete-server", "tr", "6"),
    ('S', "save", "save", "", "nENS"),
    ('R', "restore", "restore", "", ""),
    ('Z', "zero", "zero", "", "t6"),
    ('v', "version", "version", "", ""),
    ('h', "help", "help", "", ""),
    (SET, "set", "set", "", ""),
    ('\u{2}', "start-daemon", "start-daemon", "", ""),
    ('\u{3}', "stop-daemon", "stop-daemon", "", ""),
];

/// `--set`
pub(super) const SET: char = '\u{1}';

/// What `-v` says.
pub(in crate::shell::ipvsadm) const VERSION: &str =
    "ipvsadm v1.31 2019/12/24 (sluice-l4, compatible with IPVS v1.2.1)\n";

fn option(letter: char) -> Option<&'static (char, &'static str, &'static str, Argument)> {
    OPTIONS.iter().chain(&ORDER).find(|o| o.0 == letter)
}

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
    let mut out = VERSION.to_string();
    out.push_str("The verbs of ipvsadm(8), at the director of --socket.\n\nCommands, which come first, and their options:\n");
    for (letter, long, _, must, may) in COMMANDS.iter().filter(|c| c.0 != 'l') {
        let written = |letters: &str| -> Vec<String> {
            letters
                .chars()
                .filter_map(option)
                .map(|(letter, long, name, argument)| {
                    // Of three letters of one name, the first stands for all.
                    let short = match *letter {
                        't' => "-t|-u|--sctp-service|-f".to_string(),
                        'g' => "-g|-i|-m".to_string(),
                        l if LONG_ONLY.contains(l) => format!("--{long}"),
                        l => format!("-{l}"),
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
        let short = match letter.is_control() {
            true => String::new(),
            false => format!("-{letter}, "),
        };
        let line = match *letter {
            SET => "TCP TCPFIN UDP",
            _ => &line,
        };
        out.push_str(format!("  {short}--{long} {line}").trim_end());
        out.push('\n');
    }
    out.push_str(
        "-R reads such lines from the standard input. There is no daemon; see docs/l4.md.\n",
    );
    out
}

/// Letters of one name stand for each other: -t, -u; -g, -i, -m.
pub(super) fn name_of(letter: char) -> &'static str {
    option(letter).map_or("", |(_, _, name, _)| name)
}

/// ipvsadm's library knows neither the option nor the lack of an argument.
fn popt<T>(arg: &str, what: &str) -> Result<T, Refused> {
    Err(Refused {
        words: format!("{arg}: {what}"),
        status: 255,
    })
}

type Found = Vec<(char, Option<String>)>;

/// Splits `-Ln`, `-w3`, `--weight=3` and `-w 3` into letters and their arguments. The words after `--set` are its arguments.
pub(super) fn split(args: &[String]) -> Result<Found, Refused> {
    let mut found: Found = Vec::new();
    let mut rest = args.iter().peekable();
    while let Some(arg) = rest.next() {
        if !arg.starts_with('-') || arg == "-" {
            if found.first().is_some_and(|f| f.0 == SET) && found.len() < 4 {
                found.push((SET, Some(arg.clone())));
                continue;
            }
            // What they are given is not looked at.
            if found
                .first()
                .is_some_and(|f| matches!(f.0, 'h' | 'v' | '\u{2}' | '\u{3}'))
            {
                continue;
            }
            return wrong(format!("unexpected argument {arg}"));
        }
        let (letters, mut attached) = match arg.strip_prefix("--") {
            Some(long) => long_option(arg, long, found.is_empty())?,
            None => short_options(arg, found.is_empty())?,
        };
        for (letter, argument) in letters {
            let value = match argument {
                Argument::None => None,
                _ if attached.is_some() => attached.take(),
                Argument::Optional => rest.next_if(|n| !n.starts_with('-')).cloned(),
                Argument::Needed => match rest.next() {
                    Some(v) => Some(v.clone()),
                    None => return popt(arg, "missing argument"),
                },
            };
            found.push((letter, value));
        }
    }
    Ok(found)
}

type Letters = (Vec<(char, Argument)>, Option<String>);

fn long_option(arg: &str, long: &str, first: bool) -> Result<Letters, Refused> {
    let (long, value) = long
        .split_once('=')
        .map_or((long, None), |(l, v)| (l, Some(v.to_string())));
    let command = COMMANDS.iter().find(|c| c.1 == long).map(|c| c.0);
    let option = OPTIONS.iter().chain(&ORDER).find(|o| o.1 == long);
    match (command, option) {
        (Some(letter), _) if first => Ok((vec![(letter, Argument::None)], value)),
        (None, None) => popt(arg, "unknown option"),
        _ if first => try_help(),
        (Some(letter), _) if letter.is_control() => wrong(format!("invalid option `{arg}'")),
        (Some(letter), _) => wrong(format!("invalid option `-{letter}'")),
        (None, Some(o)) => Ok((vec![(o.0, o.3)], value)),
    }
}

fn short_options(arg: &str, mut first: bool) -> Result<Letters, Refused> {
    let mut letters = Vec::new();
    let mut chars = arg.chars().skip(1);
    while let Some(c) = chars.next() {
        let command = COMMANDS.iter().any(|k| k.0 == c && !c.is_control());
        let known = option(c).filter(|o| !LONG_ONLY.contains(o.0));
        match known {
            _ if first && command => letters.push((c, Argument::None)),
            None if command => return wrong(format!("invalid option `-{c}'")),
            None => return popt(&format!("-{c}"), "unknown option"),
            Some(_) if first => return try_help(),
            Some(o) => {
                letters.push((c, o.3));
                if o.3 != Argument::None {
                    let value: String = chars.by_ref().collect();
                    return Ok((letters, Some(value).filter(|v| !v.is_empty())));
                }
            }
        }
        first = false;
    }
    Ok((letters, None))
}
