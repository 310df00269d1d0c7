//! The command line of ipvsadm(8): one command, which comes first, and the options that it may have. What is refused here is refused
//! with ipvsadm's words and its status 2; what the director refuses comes back with 255, see [`super::Refused`].

use super::{Refused, Verb};
use crate::shell::control::{Request, ServiceTerms};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

mod words;

pub(super) use words::usage;
use words::{COMMANDS, name_of, split, try_help, wrong};

/// What `-p` alone means, seconds.
const PERSISTENT_S: u32 = 360;
/// Longest timeout, seconds: 31 days.
const TIMEOUT_MAX_S: u32 = 86400 * 31;
/// Greatest weight.
const WEIGHT_MAX: u32 = 65535;
const DEFAULT_SCHEDULER: &str = "wlc";

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
mod tests;
