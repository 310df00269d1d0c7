//! Addresses as they are written (manual 11 of 3.x, `bind` and `server` of chapter 5): prefixes, ports, ranges, names.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::Range;

use crate::cx::Cx;
use crate::environ::Environ;
use crate::line::Line;
use crate::model::{ListenAddr, PeerAddr, PortSpec};

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

/// The family a prefix asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    Any,
    V4,
    V6,
    Unix,
    Abstract { zero_padded: bool },
    Fd,
}

/// Splits a prefix such as `ipv4@` off. The rest starts at the returned offset.
fn family_of(text: &str, datagram: bool) -> Result<(Family, usize), AddrFault> {
    if let Some((prefix, _)) = text.split_once('@') {
        let rest = prefix.len() + 1;
        let inner = prefix
            .strip_prefix("stream+")
            .or(prefix.strip_prefix("dgram+"))
            .unwrap_or(prefix);
        let family = match inner {
            "ipv4" => Family::V4,
            "ipv6" => Family::V6,
            "unix" => Family::Unix,
            "abns" => Family::Abstract { zero_padded: true },
            "abnsz" => Family::Abstract { zero_padded: false },
            "fd" => Family::Fd,
            "tcp" | "udp" => Family::Any,
            "tcp4" | "udp4" => Family::V4,
            "tcp6" | "udp6" => Family::V6,
            "uxst" | "uxdg" => Family::Unix,
            "quic4" | "quic6" => {
                return Err(AddrFault::new(format!("'{inner}@'"))
                    .at(0..rest)
                    .later("HTTP/3"));
            }
            "mptcp" | "mptcp4" | "mptcp6" => {
                return Err(AddrFault::new(format!("'{inner}@'"))
                    .at(0..rest)
                    .later("multipath TCP"));
            }
            "sockpair" | "rhttp" => {
                return Err(AddrFault::new(format!("'{inner}@'"))
                    .at(0..rest)
                    .later("the master process and reverse HTTP"));
            }
            // As in HAProxy: an unknown prefix is part of a host name, which then cannot be resolved.
            _ => return Ok((Family::Any, 0)),
        };
        let stream_only =
            matches!(inner, "tcp" | "tcp4" | "tcp6" | "uxst") || prefix.starts_with("stream+");
        let datagram_only =
            matches!(inner, "udp" | "udp4" | "udp6" | "uxdg") || prefix.starts_with("dgram+");
        if datagram && stream_only {
            return Err(AddrFault::new(format!(
                "stream-type address '{text}' is not acceptable here"
            ))
            .at(0..rest));
        }
        if !datagram && datagram_only {
            return Err(AddrFault::new(format!(
                "dgram-type address '{text}' is not acceptable here"
            ))
            .at(0..rest));
        }
        return Ok((family, rest));
    }
    match text.starts_with('/') {
        true => Ok((Family::Unix, 0)),
        false => Ok((Family::Any, 0)),
    }
}

/// The host part and the port part of `host:port`; the port begins at the returned offset.
fn split_port(text: &str) -> (&str, Option<(&str, usize)>) {
    // In brackets, or a bare IPv6 address without a port: the colons belong to the address.
    if let Some(inner) = text.strip_prefix('[')
        && let Some((host, rest)) = inner.split_once(']')
    {
        return match rest.strip_prefix(':') {
            Some(port) => (host, Some((port, text.len() - port.len()))),
            None => (host, None),
        };
    }
    match text.rsplit_once(':') {
        Some((host, port)) => (host, Some((port, text.len() - port.len()))),
        None => (text, None),
    }
}

/// The port part of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Port {
    Missing,
    Range(u16, u16),
    Offset(i32),
}

fn parse_port(port: Option<(&str, usize)>, whole: &str) -> Result<Port, AddrFault> {
    let Some((text, at)) = port else {
        return Ok(Port::Missing);
    };
    let wrong = |part: &str, from: usize| {
        AddrFault::new(format!("invalid port '{part}' specified in '{whole}'"))
            .at(from..from + part.len())
            .hint("a port is a number from 0 to 65535")
    };
    if text.is_empty() {
        return Ok(Port::Missing);
    }
    let number = |part: &str, from: usize| {
        let digits = !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        match (digits, part.parse::<u16>()) {
            (true, Ok(n)) => Ok(n),
            _ => Err(wrong(part, from)),
        }
    };
    if let Some(rest) = text.strip_prefix(['+', '-']) {
        let n = i32::from(number(rest, at + 1)?);
        return Ok(Port::Offset(if text.starts_with('-') { -n } else { n }));
    }
    match text.split_once('-') {
        Some((low, high)) => {
            let (a, b) = (number(low, at)?, number(high, at + low.len() + 1)?);
            match a <= b {
                true => Ok(Port::Range(a, b)),
                false => Err(wrong(text, at).hint("the range is empty")),
            }
        }
        None => number(text, at).map(|n| Port::Range(n, n)),
    }
}

/// An address or a name. `None`: any address.
fn parse_host(host: &str, family: Family) -> Result<Option<Result<IpAddr, String>>, AddrFault> {
    if host.is_empty() || host == "*" {
        return Ok(None);
    }
    let host = host
        .strip_prefix('[')
        .and_then(|h| h.strip_suffix(']'))
        .unwrap_or(host);
    match (host.parse::<IpAddr>(), family) {
        (Ok(IpAddr::V6(_)), Family::V4) | (Ok(IpAddr::V4(_)), Family::V6) => Err(AddrFault::new(
            format!("'{host}' is not an address of the family that was asked for"),
        )),
        (Ok(ip), _) => Ok(Some(Ok(ip))),
        (Err(_), _) => Ok(Some(Err(host.to_owned()))),
    }
}

/// Reads one address or a comma separated list of what a `bind` line listens on; port ranges become one address a port.
pub fn parse_listen(
    text: &str,
    unix_prefix: Option<&str>,
    lookup: &dyn Fn(&str) -> Option<IpAddr>,
) -> Result<Vec<ListenAddr>, AddrFault> {
    let mut found = Vec::new();
    let mut at = 0;
    for part in text.split(',') {
        parse_listen_one(part, unix_prefix, lookup, &mut found).map_err(|fault| {
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
    found: &mut Vec<ListenAddr>,
) -> Result<(), AddrFault> {
    let (family, rest_at) = family_of(text, false)?;
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

impl Cx<'_> {
    /// The addresses of a `bind` or `stats socket` line; `${X}` is expanded even outside of quotes, as HAProxy does
    /// in addresses.
    pub fn listen_addrs(&mut self, line: &Line, word: usize) -> Option<Vec<ListenAddr>> {
        let text = self.need(line, word, "an address")?;
        let text = expand(&self.environ, text);
        let prefix = self.raw.global.unix_bind_prefix.clone();
        match parse_listen(&text, prefix.as_deref(), self.opts.lookup) {
            Ok(addrs) => Some(addrs),
            Err(fault) => {
                self.addr_fault(line, word, &text, fault);
                None
            }
        }
    }

    /// An address that is connected or sent to.
    pub fn peer_addr(&mut self, line: &Line, word: usize, rules: AddrRules) -> Option<PeerAddr> {
        let lookup = self.opts.lookup;
        self.peer_addr_with(line, word, rules, lookup)
    }

    /// The same without looking names up (`init-addr none`).
    pub fn peer_addr_unresolved(
        &mut self,
        line: &Line,
        word: usize,
        rules: AddrRules,
    ) -> Option<PeerAddr> {
        self.peer_addr_with(line, word, rules, &|_| None)
    }

    fn peer_addr_with(
        &mut self,
        line: &Line,
        word: usize,
        rules: AddrRules,
        lookup: &dyn Fn(&str) -> Option<IpAddr>,
    ) -> Option<PeerAddr> {
        let text = self.need(line, word, "an address")?;
        let text = expand(&self.environ, text);
        match parse_peer(&text, rules, lookup) {
            Ok(addr) => Some(addr),
            Err(fault) => {
                self.addr_fault(line, word, &text, fault);
                None
            }
        }
    }

    fn addr_fault(&mut self, line: &Line, word: usize, text: &str, fault: AddrFault) {
        // Offsets into an expanded text say nothing about the source.
        let span = match text == line.word(word) {
            true => fault.span,
            false => 0..0,
        };
        let (message, hint) = match fault.later {
            Some(part) => (
                format!(
                    "'{}' : {} is not implemented by Sluice yet",
                    line.keyword(),
                    fault.message
                ),
                Some(format!("it comes with: {part}")),
            ),
            None => (
                format!("'{}' : {}", line.keyword(), fault.message),
                fault.hint,
            ),
        };
        self.error(line, word, span, message, hint);
    }
}

/// Expands `$X` and `${X}` in a word that was not quoted.
pub(crate) fn expand(environ: &Environ, text: &str) -> String {
    if !text.contains('$') {
        return text.to_owned();
    }
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let (braced, inner) = match rest.strip_prefix('{') {
            Some(inner) => (true, inner),
            None => (false, rest),
        };
        let len = inner
            .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .unwrap_or(inner.len());
        let (name, after) = inner.split_at(len);
        out.push_str(environ.var(name).unwrap_or(""));
        rest = match braced {
            true => after.strip_prefix('}').unwrap_or(after),
            false => after,
        };
    }
    out.push_str(rest);
    out
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
