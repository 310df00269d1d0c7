//! The parts of an address: prefix, host, port.

use std::net::IpAddr;

use super::AddrFault;

/// The family a prefix asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    Any,
    V4,
    V6,
    Unix,
    Abstract { zero_padded: bool },
    Fd,
}

/// Splits a prefix such as `ipv4@` off. The rest starts at the returned offset.
pub(super) fn family_of(text: &str, datagram: bool) -> Result<(Family, usize), AddrFault> {
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
pub(super) fn split_port(text: &str) -> (&str, Option<(&str, usize)>) {
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
pub(super) enum Port {
    Missing,
    Range(u16, u16),
    Offset(i32),
}

pub(super) fn parse_port(port: Option<(&str, usize)>, whole: &str) -> Result<Port, AddrFault> {
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
pub(super) fn parse_host(
    host: &str,
    family: Family,
) -> Result<Option<Result<IpAddr, String>>, AddrFault> {
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
