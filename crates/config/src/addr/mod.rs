//! Addresses as they are written (manual 11 of 3.x, `bind` and `server` of chapter 5): prefixes, ports, ranges, names.

mod parts;
mod words;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::Range;

use crate::model::{ListenAddr, PeerAddr, PortSpec};
use parts::{Family, Port, family_of, parse_host, parse_port, split_port};

/// Most listening addresses one word may name: every port of one address, or some of several.
const LISTENERS_MAX: usize = 65_536;

/// What is wrong with an address, and where in its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddrFault {
    pub span: Range<usize>,
    pub message: String,
    pub hint: Option<String>,
    /// The form exists, Sluice does not speak it yet: the part that brings it.
    pub later: Option<&'static str>,
}

impl AddrFault {
    fn new(message: impl Into<String>) -> Self {
        AddrFault {
            span: 0..0,
            message: message.into(),
            hint: None,
            later: None,
        }
    }
    fn at(mut self, span: Range<usize>) -> Self {
        self.span = span;
        self
    }
    fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
    fn later(mut self, part: &'static str) -> Self {
        self.later = Some(part);
        self
    }
}

/// What an address may be where it stands.
#[derive(Debug, Clone, Copy, Default)]
pub struct AddrRules {
    /// A fixed port has to be given.
    pub port_required: bool,
    /// A port may be given.
    pub port_allowed: bool,
    /// `:+N` and `:-N` are fine.
    pub offset_allowed: bool,
    /// `fd@N` is fine.
    pub fd_allowed: bool,
    /// Datagrams rather than streams (`udp@` is fine, `tcp@` is not).
    pub datagram: bool,
}

impl AddrRules {
    /// A server: the port may be left out, or relative to the client's.
    pub const SERVER: AddrRules = AddrRules {
        port_required: false,
        port_allowed: true,
        offset_allowed: true,
        fd_allowed: false,
        datagram: false,
    };
    /// `dispatch`, `check addr` and the like: a port is needed.
    pub const FIXED: AddrRules = AddrRules {
        port_required: true,
        port_allowed: true,
        offset_allowed: false,
        fd_allowed: false,
        datagram: false,
    };
    /// An address whose port is optional and never relative.
    pub const OPTIONAL_PORT: AddrRules = AddrRules {
        port_required: false,
        port_allowed: true,
        offset_allowed: false,
        fd_allowed: false,
        datagram: false,
    };
    /// A log target.
    pub const LOG: AddrRules = AddrRules {
        port_required: false,
        port_allowed: true,
        offset_allowed: false,
        fd_allowed: true,
        datagram: true,
    };
}

/// Reads one address or a comma separated list of what a `bind` line listens on; port ranges become one address a port.
pub fn parse_listen(
    text: &str,
    unix_prefix: Option<&str>,
    lookup: &dyn Fn(&str) -> Option<IpAddr>,
) -> Result<Vec<ListenAddr>, AddrFault> {
    parse_bound(text, unix_prefix, lookup, false)
}

/// The same for either kind of socket.
pub(crate) fn parse_bound(
    text: &str,
    unix_prefix: Option<&str>,
    lookup: &dyn Fn(&str) -> Option<IpAddr>,
    datagram: bool,
) -> Result<Vec<ListenAddr>, AddrFault> {
    let mut found = Vec::new();
    let mut at = 0;
    for part in text.split(',') {
        let one = parse_listen_one(part, unix_prefix, lookup, datagram, &mut found);
        one.map_err(|fault| {
            let span = match fault.span.is_empty() {
                true => at..at + part.len(),
                false => fault.span.start + at..fault.span.end + at,
            };
            fault.at(span)
        })?;
        at += part.len() + 1;
    }
    Ok(found)
}

fn parse_listen_one(
    text: &str,
    unix_prefix: Option<&str>,
    lookup: &dyn Fn(&str) -> Option<IpAddr>,
    datagram: bool,
    found: &mut Vec<ListenAddr>,
) -> Result<(), AddrFault> {
    let (family, rest_at) = family_of(text, datagram)?;
    let rest = &text[rest_at..];
    match family {
        Family::Unix => {
            if rest.is_empty() {
                return Err(AddrFault::new("the path of the Unix socket is missing"));
            }
            found.push(ListenAddr::Unix(format!(
                "{}{rest}",
                unix_prefix.unwrap_or("")
            )));
            return Ok(());
        }
        Family::Abstract { zero_padded } => {
            found.push(ListenAddr::Abstract {
                name: rest.to_owned(),
                zero_padded,
            });
            return Ok(());
        }
        Family::Fd => {
            found.push(ListenAddr::Fd(parse_fd(rest, text)?));
            return Ok(());
        }
        Family::Any | Family::V4 | Family::V6 => {}
    }
    let (host, port) = split_port(rest);
    let (low, high) = match parse_port(port.map(|(p, at)| (p, at + rest_at)), text)? {
        Port::Range(low, high) => (low, high),
        Port::Offset(_) => {
            return Err(AddrFault::new(format!(
                "port offset not allowed here in '{text}'"
            )));
        }
        Port::Missing => {
            return Err(
                AddrFault::new(format!("missing port specification in '{text}'"))
                    .hint("write ADDRESS:PORT, or :PORT for every IPv4 address"),
            );
        }
    };
    if low == 0 {
        return Err(
            AddrFault::new(format!("invalid port '0' specified in '{text}'"))
                .hint("a listening port is a number from 1 to 65535"),
        );
    }
    let ip = match parse_host(host, family)? {
        None if family == Family::V6 => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        None => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        Some(Ok(ip)) => ip,
        Some(Err(name)) => lookup(&name)
            .filter(|ip| match family {
                Family::V4 => ip.is_ipv4(),
                Family::V6 => ip.is_ipv6(),
                _ => true,
            })
            .ok_or_else(|| AddrFault::new(format!("invalid address: '{name}' in '{text}'")))?,
    };
    if found.len() + usize::from(high - low) >= LISTENERS_MAX {
        return Err(AddrFault::new("too many listening addresses in one line"));
    }
    found.extend((low..=high).map(|port| ListenAddr::Tcp(SocketAddr::new(ip, port))));
    Ok(())
}

fn parse_fd(rest: &str, whole: &str) -> Result<i32, AddrFault> {
    match rest.parse::<i32>() {
        Ok(n) if n >= 0 => Ok(n),
        _ => Err(AddrFault::new(format!(
            "file descriptor '{rest}' is not an integer in '{whole}'"
        ))),
    }
}

/// Reads one address that is connected or sent to. A host name that `lookup` does not know becomes
/// [`PeerAddr::Unresolved`]; the caller decides whether that is fine.
pub fn parse_peer(
    text: &str,
    rules: AddrRules,
    lookup: &dyn Fn(&str) -> Option<IpAddr>,
) -> Result<PeerAddr, AddrFault> {
    if text.is_empty() {
        return Err(AddrFault::new("an address is missing"));
    }
    let (family, rest_at) = family_of(text, rules.datagram)?;
    let rest = &text[rest_at..];
    match family {
        Family::Unix if rest.is_empty() => {
            return Err(AddrFault::new("the path of the Unix socket is missing"));
        }
        Family::Unix => return Ok(PeerAddr::Unix(rest.to_owned())),
        Family::Abstract { zero_padded } => {
            return Ok(PeerAddr::Abstract {
                name: rest.to_owned(),
                zero_padded,
            });
        }
        Family::Fd if rules.fd_allowed => return Ok(PeerAddr::Fd(parse_fd(rest, text)?)),
        Family::Fd => {
            return Err(AddrFault::new(format!(
                "file descriptors are not accepted here, in '{text}'"
            )));
        }
        Family::Any | Family::V4 | Family::V6 => {}
    }
    // A bare IPv6 address has colons of its own; as HAProxy does, the last one is taken for the port's unless the
    // address is in brackets, so `::1` alone is not what it seems.
    let (host, port) = split_port(rest);
    let port = match parse_port(port.map(|(p, at)| (p, at + rest_at)), text)? {
        Port::Missing if rules.port_required => {
            return Err(
                AddrFault::new(format!("missing port specification in '{text}'"))
                    .hint("write ADDRESS:PORT"),
            );
        }
        Port::Missing => PortSpec::FromClient,
        _ if !rules.port_allowed => {
            return Err(AddrFault::new(format!(
                "port specification not permitted here in '{text}'"
            )));
        }
        Port::Offset(n) if rules.offset_allowed => PortSpec::Offset(n),
        Port::Offset(_) => {
            return Err(AddrFault::new(format!(
                "port offset not allowed here in '{text}'"
            )));
        }
        Port::Range(low, high) if low == high => match (low, rules.port_required) {
            (0, true) => {
                return Err(AddrFault::new(format!(
                    "invalid port '0' specified in '{text}'"
                )));
            }
            (0, false) => PortSpec::FromClient,
            (port, _) => PortSpec::Fixed(port),
        },
        Port::Range(..) => {
            return Err(AddrFault::new(format!(
                "port range not allowed here in '{text}'"
            )));
        }
    };
    Ok(match parse_host(host, family)? {
        None if family == Family::V6 => PeerAddr::Ip {
            ip: IpAddr::V6(Ipv6Addr::UNSPECIFIED),
            port,
        },
        None => PeerAddr::Ip {
            ip: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            port,
        },
        Some(Ok(ip)) => PeerAddr::Ip { ip, port },
        Some(Err(host)) => match lookup(&host) {
            Some(ip) => PeerAddr::Ip { ip, port },
            None => PeerAddr::Unresolved { host, port },
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listen(text: &str) -> Result<Vec<ListenAddr>, String> {
        parse_listen(text, None, &|_| None).map_err(|f| f.message)
    }

    fn tcp(text: &str) -> ListenAddr {
        ListenAddr::Tcp(text.parse().unwrap())
    }

    #[test]
    fn listening_addresses() {
        let check =
            |text: &str, expect: &[ListenAddr]| assert_eq!(listen(text).unwrap(), expect, "{text}");
        check(":80", &[tcp("0.0.0.0:80")]);
        check("*:80", &[tcp("0.0.0.0:80")]);
        check("ipv6@:80", &[tcp("[::]:80")]);
        check(":::80", &[tcp("[::]:80")]);
        check("[::1]:80", &[tcp("[::1]:80")]);
        check(
            "ipv4@127.0.0.1:80-82",
            &[
                tcp("127.0.0.1:80"),
                tcp("127.0.0.1:81"),
                tcp("127.0.0.1:82"),
            ],
        );
        check(
            "127.0.0.1:80,127.0.0.2:81",
            &[tcp("127.0.0.1:80"), tcp("127.0.0.2:81")],
        );
        check("/run/x.sock", &[ListenAddr::Unix("/run/x.sock".into())]);
        check("unix@x.sock", &[ListenAddr::Unix("x.sock".into())]);
        check("fd@7", &[ListenAddr::Fd(7)]);
        check(
            "abns@x",
            &[ListenAddr::Abstract {
                name: "x".into(),
                zero_padded: true,
            }],
        );
    }

    #[test]
    fn faults_name_the_part() {
        let check =
            |text: &str, expect: &str| assert_eq!(listen(text).unwrap_err(), expect, "{text}");
        check("foo", "missing port specification in 'foo'");
        check(":99999", "invalid port '99999' specified in ':99999'");
        check(":90-80", "invalid port '90-80' specified in ':90-80'");
        check("nohost:80", "invalid address: 'nohost' in 'nohost:80'");
        check(
            "udp@:80",
            "dgram-type address 'udp@:80' is not acceptable here",
        );
        assert_eq!(
            parse_listen(":80,:x", None, &|_| None).unwrap_err().span,
            5..6
        );
    }

    #[test]
    fn server_addresses() {
        let peer = |text| parse_peer(text, AddrRules::SERVER, &|_| None).unwrap();
        let ip = |ip: &str, port| PeerAddr::Ip {
            ip: ip.parse().unwrap(),
            port,
        };
        assert_eq!(peer("1.2.3.4"), ip("1.2.3.4", PortSpec::FromClient));
        assert_eq!(peer("1.2.3.4:"), ip("1.2.3.4", PortSpec::FromClient));
        assert_eq!(peer("1.2.3.4:+10"), ip("1.2.3.4", PortSpec::Offset(10)));
        assert_eq!(peer("::1:80"), ip("::1", PortSpec::Fixed(80)));
        assert_eq!(
            peer("db.example:80"),
            PeerAddr::Unresolved {
                host: "db.example".into(),
                port: PortSpec::Fixed(80)
            }
        );
    }
}
