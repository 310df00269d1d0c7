//! The command line of ipvsadm(8): one command, which comes first, and the options that it may have. What is refused here is refused
//! with ipvsadm's words and its status 2; what the director refuses comes back with 255, see [`super::Refused`].

use super::{Refused, Style, Verb, View, names};
use crate::shell::control::{Request, ServiceTerms};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs};

mod words;

use words::{COMMANDS, SET, name_of, split, try_help, wrong};
pub(super) use words::{VERSION, usage};

/// What `-p` alone means, seconds.
const PERSISTENT_S: u32 = 360;
/// Longest timeout, seconds: 31 days.
const TIMEOUT_MAX_S: u32 = 86400 * 31;
/// Greatest weight.
const WEIGHT_MAX: u32 = 65535;
const DEFAULT_SCHEDULER: &str = "wlc";

/// A virtual server as it is named to the director, and its address; of a mark, any of its family.
struct Named {
    name: String,
    address: SocketAddr,
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
    fn service(&self) -> Result<Option<Named>, Refused> {
        if let Some(text) = self.value('f') {
            let any = match self.has('6') {
                true => IpAddr::from([0; 16]),
                false => IpAddr::from([0; 4]),
            };
            return match text.parse::<u32>() {
                Ok(mark) if mark > 0 => Ok(Some(Named {
                    name: format!("fwm {mark}"),
                    address: SocketAddr::new(any, 0),
                })),
                _ => wrong(format!("invalid fwmark value `{text}' specified")),
            };
        }
        for (letter, protocol) in [('t', "tcp"), ('u', "udp"), ('K', "sctp")] {
            if let Some(text) = self.value(letter) {
                return match address(text, protocol) {
                    Some((ip, port)) => {
                        let address = SocketAddr::new(ip, port.unwrap_or(0));
                        Ok(Some(Named {
                            name: format!("{protocol} {address}"),
                            address,
                        }))
                    }
                    None => wrong("illegal virtual server address[:port] specified"),
                };
            }
        }
        Ok(None)
    }

    fn style(&self) -> Style {
        let views = [
            ('T', View::Stats),
            ('V', View::Rate),
            ('H', View::Thresholds),
            ('Q', View::PersistentConnections),
            ('I', View::TunnelInfo),
        ];
        let view = views.into_iter().find(|(letter, _)| self.has(*letter));
        Style {
            view: view.map_or(View::Plain, |(_, view)| view),
            numeric: self.has('n'),
            exact: self.has('E'),
            unsorted: self.has('N'),
        }
    }

    fn terms(&self, address: SocketAddr) -> Result<ServiceTerms, Refused> {
        let scheduler = self.value('s').unwrap_or(DEFAULT_SCHEDULER).to_string();
        let flags: Vec<String> = match self.value('b') {
            Some(text) => text.split(',').map(String::from).collect(),
            None => Vec::new(),
        };
        for flag in &flags {
            match flag.split_once('-') {
                // What they are called in the kernel.
                Some(("flag", "1" | "2")) if matches!(scheduler.as_str(), "sh" | "mh") => {}
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
        if address.port() == 0 && persistence_s.is_none() && !self.has('f') {
            return wrong("Zero port specified for non-persistent service");
        }
        if self.has('o') && !self.has('u') && !self.has('f') {
            return wrong("One-Packet Scheduling is only for UDP virtual services");
        }
        Ok(ServiceTerms {
            scheduler,
            persistence_s,
            persistence_prefix,
            hash_port: flags.iter().any(|f| f.ends_with("-port") || f == "flag-2"),
            hash_fallback: flags
                .iter()
                .any(|f| f.ends_with("-fallback") || f == "flag-1"),
            one_packet: self.has('o'),
        })
    }
}

/// `HOST`, `HOST:PORT`, `[HOST]:PORT`, ports by number or name.
fn address(text: &str, protocol: &str) -> Option<(IpAddr, Option<u16>)> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once("]:")?;
            (host, Some(port))
        }
        None if text.parse::<IpAddr>().is_ok() => (text, None),
        None => text
            .split_once(':')
            .map_or((text, None), |(host, port)| (host, Some(port))),
    };
    let port = match port {
        None => None,
        Some(number) if number.starts_with(|c: char| c.is_ascii_digit()) => {
            Some(number.parse().ok()?)
        }
        Some(name) => Some(names::port(name, protocol)?),
    };
    let ip = match host.parse() {
        Ok(ip) => ip,
        // As ipvsadm: a name server may be asked.
        Err(_) => {
            let mut all = (host, 0).to_socket_addrs().ok()?;
            all.find(SocketAddr::is_ipv4)?.ip()
        }
    };
    Some((ip, port))
}

/// Reads a command line as ipvsadm would; none at all lists.
pub fn parse(args: &[String]) -> Result<Verb, Refused> {
    let mut found = split(args)?.into_iter();
    let Some((first, _)) = found.next() else {
        return Ok(Verb::List {
            service: None,
            style: Style::default(),
        });
    };
    let Some((letter, _, command, must, may)) = COMMANDS.iter().find(|c| c.0 == first) else {
        return try_help();
    };
    let options = Options(found.collect());
    if *letter == SET {
        return timeouts(&options).map(Verb::Change);
    }
    for (at, (letter, _)) in options.0.iter().enumerate() {
        if *letter == '6' && !options.0.iter().take(at).any(|(l, _)| *l == 'f') {
            return wrong("-6 used before -f\n");
        }
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
    if matches!(letter, 'L' | 'l') {
        conflicts(&options)?;
    }
    if options.has('P') {
        return Err(Refused {
            words: "Scheduler or persistence engine not found".into(),
            status: 255,
        });
    }
    let service = options.service()?;
    let named = service.as_ref().map(|s| s.name.clone());
    let virtual_server = named.clone().unwrap_or_default();
    let request = match letter {
        'L' | 'l' if options.has('c') => return Ok(Verb::Connections(options.style())),
        'L' | 'l' if options.has('O') => return Ok(Verb::Timeouts),
        'L' | 'l' if options.has('D') => return Ok(Verb::Daemons),
        'L' | 'l' => {
            return Ok(Verb::List {
                service: named,
                style: options.style(),
            });
        }
        'S' => return Ok(Verb::Save(options.style())),
        'v' => return Ok(Verb::Version),
        'h' => return Ok(Verb::Help),
        c if c.is_control() => {
            return Err(Refused {
                words:
                    "there is no such daemon: a twin has the flows by run's --sync and --sync-peer"
                        .into(),
                status: 255,
            });
        }
        'R' => return Ok(Verb::Restore),
        'C' => Request::Clear,
        'Z' => Request::Zero {
            virtual_server: named,
        },
        'D' => Request::DeleteService { virtual_server },
        'A' | 'E' => {
            let Some(service) = service else {
                return try_help();
            };
            let terms = options.terms(service.address)?;
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
            let Some(service) = service else {
                return try_help();
            };
            return server(*letter, &options, virtual_server, service.address).map(Verb::Change);
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
    // What a mark gathers may be of any protocol.
    let protocol = match virtual_server.split(' ').next() {
        Some("udp") => "udp",
        Some("sctp") => "sctp",
        _ => "tcp",
    };
    let server = options.value('r').and_then(|text| address(text, protocol));
    let Some((ip, port)) = server else {
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
    tunnel(options)?;
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
    let conns_min = options.number('y', u32::MAX, 0, "l_threshold")?;
    let forwarding = Some(forwarding.to_string());
    Ok(match letter {
        'a' => Request::Add {
            virtual_server,
            ip,
            port,
            weight,
            forwarding,
            conns_max,
            conns_min,
        },
        _ => Request::EditServer {
            virtual_server,
            ip,
            port,
            weight,
            forwarding,
            conns_max,
            conns_min,
        },
    })
}

/// Only IPIP has no further terms; the others are not there.
fn tunnel(options: &Options) -> Result<(), Refused> {
    let more = options.0.iter().find(|(l, _)| matches!(l, 'Y' | '2'..='5'));
    let Some((letter, kind)) = more else {
        return Ok(());
    };
    if !options.has('i') {
        return wrong("Tunnel options conflict with forward method");
    }
    match (letter, kind.as_deref()) {
        ('Y', Some("ipip")) => Ok(()),
        ('Y', Some("gue" | "gre")) | ('2'..='5', _) => {
            wrong("tunnels are IPIP only: say --tun-type ipip, or nothing")
        }
        _ => wrong("illegal tunnel type specified"),
    }
}

/// `--set TCP TCPFIN UDP`, seconds; 0 leaves one as it is.
fn timeouts(options: &Options) -> Result<Request, Refused> {
    let mut seconds = [0; 3];
    if let Some((letter, _)) = options.0.iter().find(|(l, _)| *l != SET) {
        return wrong(format!(
            "Illegal '{}' option with the 'set' command",
            name_of(*letter)
        ));
    }
    let given: Vec<&str> = options.0.iter().filter_map(|(_, v)| v.as_deref()).collect();
    if given.len() != seconds.len() {
        return wrong("--set option requires 3 timeout values");
    }
    for (to, text) in seconds.iter_mut().zip(given) {
        *to = match text.parse() {
            Ok(s) if s <= TIMEOUT_MAX_S => s,
            _ => return wrong(format!("invalid timeout value `{text}' specified")),
        };
    }
    let [tcp_s, tcp_fin_s, udp_s] = seconds;
    Ok(Request::Timeouts {
        tcp_s,
        tcp_fin_s,
        udp_s,
    })
}

/// What a listing cannot be at once.
fn conflicts(options: &Options) -> Result<(), Refused> {
    const APART: [(char, char); 6] = [
        ('t', 'c'),
        ('O', 't'),
        ('D', 't'),
        ('O', 'c'),
        ('D', 'c'),
        ('D', 'O'),
    ];
    let has = |letter| {
        let name = name_of(letter);
        options.0.iter().any(|(l, _)| name_of(*l) == name)
    };
    for (one, other) in APART {
        if has(one) && has(other) {
            return wrong(format!(
                "The option '{}' conflicts with the '{}' option in the 'list' command",
                name_of(one),
                name_of(other)
            ));
        }
    }
    let numbers = ['T', 'V', 'H'].into_iter().any(has);
    if numbers && ['c', 'O', 'D'].into_iter().any(has)
        || has('Q') && ['O', 'D'].into_iter().any(has)
    {
        return wrong("options conflicts in the list command");
    }
    Ok(())
}

#[cfg(test)]
mod tests;
