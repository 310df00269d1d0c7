//! The command line of ipvsadm(8): one command, which comes first, and the options that it may have. What is refused here is refused
//! with ipvsadm's words and its status 2; what the director refuses comes back with 255, see [`super::Refused`].

use super::{Refused, Verb};
use crate::shell::control::{Request, ServiceTerms};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// What `-p` alone means, seconds.
const PERSISTENT_S: u32 = 360;
/// Longest timeout, seconds: 31 days.
const TIMEOUT_MAX_S: u32 = 86400 * 31;
/// Greatest weight.
const WEIGHT_MAX: u32 = 65535;
const DEFAULT_SCHEDULER: &str = "wlc";

#[derive(Clone, Copy, PartialEq)]
enum Argument {
    None,
    Needed,
    Optional,
}

/// Letter, long name, the name that messages use, its argument. Long names without a letter have a capital one of their own.
const OPTIONS: [(char, &str, &str, Argument); 21] = [
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
const COMMANDS: [(char, &str, &str, &str, &str); 12] = [
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

fn wrong<T>(words: impl Into<String>) -> Result<T, Refused> {
    Err(Refused {
        words: words.into(),
        status: 2,
    })
}

fn try_help<T>() -> Result<T, Refused> {
    Err(Refused {
        words: "Try `ipvsadm -h' or 'ipvsadm --help' for more information.".into(),
        status: 255,
    })
}

/// What `-h` says.
pub(super) fn usage() -> String {
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
fn name_of(letter: char) -> &'static str {
    OPTIONS
        .iter()
        .find(|o| o.0 == letter)
        .map_or("", |(_, _, name, _)| name)
}

/// Splits `-Ln`, `-w3`, `--weight=3` and `-w 3` into letters and their arguments.
fn split(args: &[String]) -> Result<Vec<(char, Option<String>)>, Refused> {
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

/// The options of one command line.
struct Options(Vec<(char, Option<String>)>);

impl Options {
    fn has(&self, letter: char) -> bool {
        self.0.iter().any(|(l, _)| *l == letter)
    }

    fn value(&self, letter: char) -> Option<&str> {
        let (_, v) = self.0.iter().find(|(l, _)| *l == letter)?;
        v.as_deref()
    }

    fn number(&self, letter: char, max: u32, or: u32, what: &str) -> Result<u32, Refused> {
        let Some(text) = self.value(letter) else {
            return Ok(or);
        };
        match text.parse() {
            Ok(n) if n <= max => Ok(n),
            _ => wrong(format!("illegal {what} specified")),
        }
    }

    /// Protocol and address of the virtual server.
    fn service(&self) -> Result<Option<(&'static str, SocketAddr)>, Refused> {
        if self.has('f') {
            return wrong(
                "firewall marks are not seen: XDP looks at packets before anything could mark them",
            );
        }
        for (letter, protocol) in [('t', "tcp"), ('u', "udp"), ('K', "sctp")] {
            if let Some(text) = self.value(letter) {
                return match address(text) {
                    Some((ip, port)) => {
                        Ok(Some((protocol, SocketAddr::new(ip, port.unwrap_or(0)))))
                    }
                    None => wrong("illegal virtual server address[:port] specified"),
                };
            }
        }
        Ok(None)
    }

    fn terms(&self, address: SocketAddr) -> Result<ServiceTerms, Refused> {
        let scheduler = self.value('s').unwrap_or(DEFAULT_SCHEDULER).to_string();
        let flags: Vec<String> = match self.value('b') {
            Some(text) => text.split(',').map(String::from).collect(),
            None => Vec::new(),
        };
        for flag in &flags {
            match flag.split_once('-') {
                Some((of, "port" | "fallback")) if matches!(of, "sh" | "mh") => {
                    if of != scheduler {
                        return wrong(format!("incompatible scheduler flag `{flag}'"));
                    }
                }
                _ => return wrong(format!("invalid scheduler flag `{flag}'")),
            }
        }
        let persistence_s = match (self.has('p'), self.value('p')) {
            (false, _) => None,
            (true, None) => Some(PERSISTENT_S),
            (true, Some(text)) => match text.parse() {
                Ok(s) if (1..=TIMEOUT_MAX_S).contains(&s) => Some(s),
                _ => return wrong(format!("invalid timeout value `{text}' specified")),
            },
        };
        let persistence_prefix = match self.value('M') {
            None => None,
            Some(text) if address.is_ipv6() => match text.parse::<u8>() {
                Ok(n) if (1..=128).contains(&n) => Some(n),
                _ => return wrong("illegal ipv6 netmask specified"),
            },
            Some(text) => match text.parse::<Ipv4Addr>().map(u32::from) {
                Ok(mask) if mask.leading_ones() == mask.count_ones() && mask != 0 => {
                    Some(mask.leading_ones() as u8)
                }
                _ => return wrong("illegal virtual server persistent mask specified"),
            },
        };
        if address.port() == 0 && persistence_s.is_none() {
            return wrong("Zero port specified for non-persistent service");
        }
        if self.has('o') && !self.has('u') {
            return wrong("One-Packet Scheduling is only for UDP virtual services");
        }
        Ok(ServiceTerms {
            scheduler,
            persistence_s,
            persistence_prefix,
            hash_port: flags.iter().any(|f| f.ends_with("-port")),
            hash_fallback: flags.iter().any(|f| f.ends_with("-fallback")),
            one_packet: self.has('o'),
        })
    }
}

/// `ADDRESS`, `ADDRESS:PORT`, `[ADDRESS]:PORT`.
fn address(text: &str) -> Option<(IpAddr, Option<u16>)> {
    if let Ok(whole) = text.parse::<SocketAddr>() {
        return Some((whole.ip(), Some(whole.port())));
    }
    let bare = text
        .strip_prefix('[')
        .and_then(|t| t.strip_suffix(']'))
        .unwrap_or(text);
    Some((bare.parse().ok()?, None))
}

/// Reads a command line as ipvsadm would; none at all lists.
pub fn parse(args: &[String]) -> Result<Verb, Refused> {
    let mut found = split(args)?.into_iter();
    let Some((first, _)) = found.next() else {
        return Ok(Verb::List { service: None });
    };
    let Some((letter, _, command, must, may)) = COMMANDS.iter().find(|c| c.0 == first) else {
        return try_help();
    };
    let options = Options(found.collect());
    for (at, (letter, _)) in options.0.iter().enumerate() {
        let name = name_of(*letter);
        if options.0.iter().take(at).any(|(l, _)| name_of(*l) == name) {
            return wrong(format!("multiple '{name}' options specified"));
        }
        if !must.chars().chain(may.chars()).any(|l| name_of(l) == name) {
            return wrong(format!(
                "Illegal '{name}' option with the '{command}' command"
            ));
        }
    }
    for name in must.chars().map(name_of) {
        if !options.0.iter().any(|(l, _)| name_of(*l) == name) {
            return wrong(format!(
                "You need to supply the '{name}' option for the '{command}' command"
            ));
        }
    }
    let service = options.service()?;
    let named = service.map(|(protocol, address)| format!("{protocol} {address}"));
    let virtual_server = named.clone().unwrap_or_default();
    let request = match letter {
        'L' | 'l' if options.has('c') => return Ok(Verb::Connections),
        'L' | 'l' if options.has('T') => return Ok(Verb::Stats),
        'L' | 'l' if options.has('H') => return Ok(Verb::Thresholds),
        'L' | 'l' => return Ok(Verb::List { service: named }),
        'S' => return Ok(Verb::Save),
        'R' => return Ok(Verb::Restore),
        'C' => Request::Clear,
        'Z' => Request::Zero {
            virtual_server: named,
        },
        'D' => Request::DeleteService { virtual_server },
        'A' | 'E' => {
            let Some((_, address)) = service else {
                return try_help();
            };
            let terms = options.terms(address)?;
            match letter {
                'A' => Request::AddService {
                    virtual_server,
                    terms,
                },
                _ => Request::EditService {
                    virtual_server,
                    terms,
                },
            }
        }
        _ => {
            let Some((_, service)) = service else {
                return try_help();
            };
            return server(*letter, &options, virtual_server, service).map(Verb::Change);
        }
    };
    Ok(Verb::Change(request))
}

/// -a, -e and -d. Without a method servers are reached by direct routing, as ipvsadm has it.
fn server(
    letter: char,
    options: &Options,
    virtual_server: String,
    service: SocketAddr,
) -> Result<Request, Refused> {
    let Some((ip, port)) = options.value('r').and_then(address) else {
        return wrong("illegal real server address[:port] specified");
    };
    let port = port.unwrap_or(service.port());
    if letter == 'd' {
        return Ok(Request::Delete {
            virtual_server,
            ip,
            port,
        });
    }
    let forwarding = match () {
        () if options.has('i') => "TUN",
        () if options.has('m') => "NAT",
        () => "DR",
    };
    if ip.is_ipv6() != service.is_ipv6() && forwarding != "TUN" {
        return wrong("Different address family is allowed only for tunneling servers");
    }
    // Nothing is rewritten on the way to these: the port stays the service's.
    let port = if forwarding == "NAT" {
        port
    } else {
        service.port()
    };
    let weight = options.number('w', WEIGHT_MAX, 1, "weight")?;
    let conns_max = options.number('x', u32::MAX, 0, "u_threshold")?;
    if options.number('y', u32::MAX, 0, "l_threshold")? != 0 {
        return wrong(
            "-y is not supported: a full server gets connections again as soon as one ends",
        );
    }
    let forwarding = Some(forwarding.to_string());
    Ok(match letter {
        'a' => Request::Add {
            virtual_server,
            ip,
            port,
            weight,
            forwarding,
            conns_max,
        },
        _ => Request::EditServer {
            virtual_server,
            ip,
            port,
            weight,
            forwarding,
            conns_max,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Verb, Refused> {
        let args: Vec<String> = line.split_whitespace().map(String::from).collect();
        parse(&args)
    }

    fn check(line: &str, expect: Request) {
        assert_eq!(read(line), Ok(Verb::Change(expect)), "{line}");
    }

    #[test]
    fn fingers_are_understood() {
        let list = |service: Option<&str>| Verb::List {
            service: service.map(String::from),
        };
        for (line, expect) in [
            ("", list(None)),
            ("-L -n", list(None)),
            ("-ln", list(None)),
            ("-L -n -t 10.0.0.1:80", list(Some("tcp 10.0.0.1:80"))),
            ("-L -n --stats", Verb::Stats),
            ("-Lnc", Verb::Connections),
            ("-L -c -n", Verb::Connections),
            ("--list --thresholds", Verb::Thresholds),
            ("-S -n", Verb::Save),
            ("-R", Verb::Restore),
            ("-C", Verb::Change(Request::Clear)),
            (
                "-Z",
                Verb::Change(Request::Zero {
                    virtual_server: None,
                }),
            ),
        ] {
            assert_eq!(read(line), Ok(expect), "{line}");
        }
    }

    #[test]
    fn services_have_ipvsadm_s_defaults() {
        let terms = ServiceTerms {
            scheduler: "wlc".into(),
            ..ServiceTerms::default()
        };
        check(
            "-A -t 10.0.0.1:80",
            Request::AddService {
                virtual_server: "tcp 10.0.0.1:80".into(),
                terms: terms.clone(),
            },
        );
        check(
            "-E -u [fd00::1]:53 -p -M 64 -s sh -b sh-port,sh-fallback -o",
            Request::EditService {
                virtual_server: "udp [fd00::1]:53".into(),
                terms: ServiceTerms {
                    scheduler: "sh".into(),
                    persistence_s: Some(360),
                    persistence_prefix: Some(64),
                    hash_port: true,
                    hash_fallback: true,
                    one_packet: true,
                },
            },
        );
        check(
            "--add-service --tcp-service=10.0.0.1:80 -p60 -M 255.255.255.0",
            Request::AddService {
                virtual_server: "tcp 10.0.0.1:80".into(),
                terms: ServiceTerms {
                    persistence_s: Some(60),
                    persistence_prefix: Some(24),
                    ..terms
                },
            },
        );
    }

    #[test]
    fn servers_have_ipvsadm_s_defaults() {
        let (virtual_server, ip) = ("tcp 10.0.0.1:80".to_string(), "10.0.0.2".parse().unwrap());
        let add = |port, weight, forwarding: &str, conns_max| Request::Add {
            virtual_server: virtual_server.clone(),
            ip,
            port,
            weight,
            forwarding: Some(forwarding.into()),
            conns_max,
        };
        let service = "-a -t 10.0.0.1:80";
        check(&format!("{service} -r 10.0.0.2"), add(80, 1, "DR", 0));
        // Nothing is rewritten: the port is the service's.
        check(
            &format!("{service} -r 10.0.0.2:81 -g -w 3"),
            add(80, 3, "DR", 0),
        );
        check(
            &format!("{service} -r 10.0.0.2:81 -m -x 10 -y 0"),
            add(81, 1, "NAT", 10),
        );
        check(
            "-e -t 10.0.0.1:80 -r 10.0.0.2:80 -i -w0",
            Request::EditServer {
                virtual_server: virtual_server.clone(),
                ip,
                port: 80,
                weight: 0,
                forwarding: Some("TUN".into()),
                conns_max: 0,
            },
        );
        check(
            "-d -t 10.0.0.1:80 -r 10.0.0.2:80",
            Request::Delete {
                virtual_server: virtual_server.clone(),
                ip,
                port: 80,
            },
        );
    }

    /// The words and statuses were read off ipvsadm 1.31 beside a kernel's IPVS.
    #[test]
    fn what_is_wrong_is_refused_with_ipvsadm_s_words() {
        let help = "Try `ipvsadm -h' or 'ipvsadm --help' for more information.";
        for (line, words, status) in [
            (
                "-A",
                "You need to supply the 'service-address' option for the 'add-service' command",
                2,
            ),
            (
                "-a -t 10.0.0.1:80",
                "You need to supply the 'real-server' option for the 'add-server' command",
                2,
            ),
            (
                "-A -t nonsense:80",
                "illegal virtual server address[:port] specified",
                2,
            ),
            (
                "-A -t 10.1.0.2",
                "Zero port specified for non-persistent service",
                2,
            ),
            (
                "-A -t 10.1.0.5:80 -p 0",
                "invalid timeout value `0' specified",
                2,
            ),
            (
                "-A -t 10.1.0.6:80 -b sh-port",
                "incompatible scheduler flag `sh-port'",
                2,
            ),
            (
                "-A -t 10.1.0.6:80 -r 10.0.0.2:80",
                "Illegal 'real-server' option with the 'add-service' command",
                2,
            ),
            ("-A -D -t 10.1.0.6:80", "invalid option `-D'", 2),
            (
                "-A -t 10.1.0.6:80 -u 10.1.0.6:80",
                "multiple 'service-address' options specified",
                2,
            ),
            (
                "-a -t 10.1.0.1:80 -r 10.0.0.2 -g -m",
                "multiple 'forwarding-method' options specified",
                2,
            ),
            (
                "-a -t 10.1.0.1:80 -r 10.0.0.2 -s rr",
                "Illegal 'scheduler' option with the 'add-server' command",
                2,
            ),
            (
                "-A -t 10.1.0.7:80 -o",
                "One-Packet Scheduling is only for UDP virtual services",
                2,
            ),
            (
                "-a -t 10.1.0.1:80 -r 10.0.0.6:80 -x x",
                "illegal u_threshold specified",
                2,
            ),
            (
                "-a -t 10.1.0.1:80 -r 10.0.0.6:80 -w 65536",
                "illegal weight specified",
                2,
            ),
            (
                "-a -t 10.1.0.1:80 -r [fd00::2]:80",
                "Different address family is allowed only for tunneling servers",
                2,
            ),
            (
                "-C -t 10.1.0.1:80",
                "Illegal 'service-address' option with the 'flush' command",
                2,
            ),
            ("-w 3", help, 255),
            ("-X", help, 255),
            ("-r 10.0.0.2:80 -e -t 10.1.0.1:80 -w 0", help, 255),
        ] {
            let expect = Refused {
                words: words.into(),
                status,
            };
            assert_eq!(read(line), Err(expect), "{line}");
        }
        for line in ["-A -f 1", "-a -t 10.0.0.1:80 -r 10.0.0.2 -y 5"] {
            assert_eq!(read(line).unwrap_err().status, 2, "{line}");
        }
    }
}
