//! Parts of a request target (RFC 9112 section 3.2, RFC 3986), as HAProxy's `path`, `query` …
//! see them. Slices of the input; nothing is decoded.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::chars::find_either;

/// Path and query of a target: from the first slash that is not part of `scheme://authority`.
/// `None` when there is none (`*`, an authority, `http://host?x`).
pub fn path_and_query(target: &[u8]) -> Option<&[u8]> {
    if target.first() == Some(&b'/') {
        return Some(target);
    }
    let after = after_scheme(target)?;
    let slash = after
        .iter()
        .position(|&b| matches!(b, b'/' | b'?' | b'#'))?;
    let rest = after.get(slash..)?;
    (rest.first() == Some(&b'/')).then_some(rest)
}

/// Splits at the first question mark: what is before, and what is after if there was one.
pub fn split_query(text: &[u8]) -> (&[u8], Option<&[u8]>) {
    match find_either(b'?', b'?', text) {
        Some(at) => (text.get(..at).unwrap_or_default(), text.get(at + 1..)),
        None => (text, None),
    }
}

/// The scheme of an absolute target, without `://`.
pub fn scheme(target: &[u8]) -> Option<&[u8]> {
    let after = after_scheme(target)?;
    target.get(..target.len() - after.len() - 3)
}

/// The authority of an absolute target: between `://` and the path, query or end.
pub fn authority(target: &[u8]) -> Option<&[u8]> {
    let after = after_scheme(target)?;
    let end = after
        .iter()
        .position(|&b| matches!(b, b'/' | b'?' | b'#'))
        .unwrap_or(after.len());
    after.get(..end)
}

fn after_scheme(target: &[u8]) -> Option<&[u8]> {
    let colon = target
        .iter()
        .position(|&b| !(b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.')))?;
    let starts_well = target.first().is_some_and(u8::is_ascii_alphabetic);
    target
        .get(colon..)?
        .strip_prefix(b"://")
        .filter(|_| starts_well)
}

/// Splits `host[:port]`, with or without `user@`, into host and port text. The brackets of an IPv6
/// address stay with the host.
pub fn split_host_port(authority: &[u8]) -> (&[u8], Option<&[u8]>) {
    let host_port = match memchr::memrchr(b'@', authority) {
        Some(at) => authority.get(at + 1..).unwrap_or_default(),
        None => authority,
    };
    match memchr::memrchr(b':', host_port) {
        Some(at) if !host_port.get(at..).is_some_and(|t| t.contains(&b']')) => (
            host_port.get(..at).unwrap_or_default(),
            host_port.get(at + 1..),
        ),
        _ => (host_port, None),
    }
}

/// The port a scheme implies, in text.
pub fn default_port(scheme: &[u8]) -> Option<&'static [u8]> {
    if scheme.eq_ignore_ascii_case(b"http") {
        Some(b"80")
    } else if scheme.eq_ignore_ascii_case(b"https") {
        Some(b"443")
    } else {
        None
    }
}

/// Reads an IPv4 address, or an IPv6 address with or without brackets.
pub fn parse_ip(host: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(host).ok()?;
    if let Ok(v4) = text.parse::<Ipv4Addr>() {
        return Some(IpAddr::V4(v4));
    }
    let inner = text
        .strip_prefix('[')
        .and_then(|t| t.strip_suffix(']'))
        .unwrap_or(text);
    inner.parse::<Ipv6Addr>().ok().map(IpAddr::V6)
}
