//! Parts of a request target (RFC 9112 section 3.2, RFC 3986), as HAProxy's `path`, `query`,
//! `url_ip` … see them. Slices of the input; nothing is decoded unless said.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::chars::hex_value;

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
    match memchr::memchr(b'?', text) {
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

/// The address of an absolute target whose host is one (`url_ip`).
pub fn url_ip(target: &[u8]) -> Option<IpAddr> {
    let (host, _) = split_host_port(authority(target)?);
    parse_ip(host)
}

/// The port of an absolute target, or its scheme's default (`url_port`).
pub fn url_port(target: &[u8]) -> Option<u16> {
    let (_, port) = split_host_port(authority(target)?);
    match port {
        Some(text) => u16::try_from(crate::framing::decimal(text)?).ok(),
        None if scheme(target)?.eq_ignore_ascii_case(b"https") => Some(443),
        None => Some(80),
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

/// Decodes percent escapes (`url_dec`); `plus` turns `+` into a space. `None` for a broken escape.
pub fn percent_decode(text: &[u8], plus: bool) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.iter();
    while let Some(&byte) = bytes.next() {
        out.push(match byte {
            b'+' if plus => b' ',
            b'%' => {
                let (high, low) = (bytes.next()?, bytes.next()?);
                hex_value(*high)? << 4 | hex_value(*low)?
            }
            other => other,
        });
    }
    Some(out)
}
