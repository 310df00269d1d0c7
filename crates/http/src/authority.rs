//! One request, one host: the Host headers and the target must name the same place.
//!
//! Two names for one request is how a cache or a filter is made to look at one site and the server
//! at another, so what disagrees is refused, and what agrees is reduced to one form
//! (RFC 9112 section 3.2, RFC 9110 sections 4.2.3 and 7.2).

use crate::error::ErrorKind;
use crate::headers::Slot;
use crate::message::Request;
use crate::method::Method;
use crate::scan::Limits;
use crate::uri;

/// Checks the host and removes what repeats it: further Host headers with the same value, a default
/// port in an absolute target and in the Host header that goes with it.
#[inline]
pub(crate) fn settle_host(out: &mut Request, limits: &Limits) -> Result<(), ErrorKind> {
    if out.noticed.hosts > 1 {
        merge_hosts(out)?;
    }
    if out.target().first() == Some(&b'/') && out.method != Method::Connect {
        return Ok(());
    }
    match settle_authority(out) {
        Err(_) if limits.accept_invalid => Ok(()),
        result => result,
    }
}

fn merge_hosts(out: &mut Request) -> Result<(), ErrorKind> {
    let first = out.host().unwrap_or_default();
    if out
        .headers
        .all(b"host")
        .any(|other| !other.eq_ignore_ascii_case(first))
    {
        return Err(ErrorKind::Host);
    }
    let repeated: Vec<Slot> = out.headers.slots(b"host").skip(1).collect();
    for slot in repeated {
        out.headers.remove_slot(slot);
    }
    out.noticed.hosts = 1;
    Ok(())
}

/// For targets other than a path.
fn settle_authority(out: &mut Request) -> Result<(), ErrorKind> {
    let target = out.target();
    if out.method == Method::Connect {
        return settle_connect(out);
    }
    if target.first() == Some(&b'*') {
        return Ok(());
    }
    let host = out.host();
    let Some(scheme) = uri::scheme(target) else {
        return if host.is_none_or(|h| h.eq_ignore_ascii_case(target)) {
            Ok(())
        } else {
            Err(ErrorKind::HostMismatch)
        };
    };
    let authority = uri::authority(target).unwrap_or_default();
    // `http://a?q` has no path for the next parser to agree on where the authority ends.
    if authority.is_empty()
        || (uri::path_and_query(target).is_none()
            && target.len() > scheme.len() + 3 + authority.len())
    {
        return Err(ErrorKind::TargetForm);
    }
    let (name, port) = uri::split_host_port(authority);
    let users = authority.iter().filter(|&&b| b == b'@').count();
    if users > 1 || !is_host(name) || !port.unwrap_or_default().iter().all(u8::is_ascii_digit) {
        return Err(ErrorKind::TargetForm);
    }
    let default = uri::default_port(scheme);
    let redundant = port.is_some_and(|p| p.is_empty() || Some(p) == default);
    if let Some(host) = host {
        let (host_name, host_port) = split_port(host);
        let same_port = match host_port.filter(|p| !p.is_empty() && Some(*p) != default) {
            None => port.is_none() || redundant,
            other => other == port,
        };
        if !host_name.eq_ignore_ascii_case(name) || !same_port {
            return Err(ErrorKind::HostMismatch);
        }
    }
    if redundant {
        let cut = port.map_or(0, |p| p.len() + 1);
        let end = scheme.len() + 3 + authority.len();
        out.cut_target(end - cut..end);
        drop_host_port(out);
    }
    Ok(())
}

/// `CONNECT name:port`, with `name` or `name:port` in Host; the port may be left out there when it is
/// the one of a scheme.
fn settle_connect(out: &mut Request) -> Result<(), ErrorKind> {
    let target = out.target();
    let (name, port) = split_port(target);
    let valid = port.is_some_and(|p| crate::framing::decimal(p).is_some_and(|n| n <= 65535));
    if !valid || !is_host(name) {
        return Err(ErrorKind::TargetForm);
    }
    let Some(host) = out.host() else {
        return Ok(());
    };
    let known = matches!(port, Some(b"80" | b"443"));
    let same = host.eq_ignore_ascii_case(target) || (known && host.eq_ignore_ascii_case(name));
    if !same {
        return Err(ErrorKind::HostMismatch);
    }
    if known {
        drop_host_port(out);
    }
    Ok(())
}

/// A name, an IPv4 address, or an IPv6 address in brackets: nothing that another parser could cut
/// elsewhere (RFC 3986 section 3.2.2).
fn is_host(name: &[u8]) -> bool {
    let inner = name
        .strip_prefix(b"[")
        .and_then(|rest| rest.strip_suffix(b"]"));
    let bytes = inner.unwrap_or(name);
    let cuts = |b: u8| matches!(b, b'/' | b'?' | b'#' | b'@' | b'[' | b']');
    !bytes.is_empty()
        && !bytes
            .iter()
            .any(|&b| cuts(b) || (b == b':' && inner.is_none()))
}

fn drop_host_port(out: &mut Request) {
    let (name, port) = split_port(out.host().unwrap_or_default());
    if port.is_none() {
        return;
    }
    let name = name.to_vec();
    if let Some(slot) = out.headers.first_slot(b"host") {
        out.headers.replace_value(slot, name);
    }
}

/// As `uri::split_host_port`, for places where a user part has no business and stays visible.
fn split_port(text: &[u8]) -> (&[u8], Option<&[u8]>) {
    if text.contains(&b'@') {
        (text, None)
    } else {
        uri::split_host_port(text)
    }
}
