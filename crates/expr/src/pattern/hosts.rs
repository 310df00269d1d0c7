//! Patterns of `-m ip` that are read only when a configuration is loaded: host names, and what `inet_aton(3)` reads
//! (manual chapter 7.1.6).

use super::method::Match;
use super::network;
use super::view::{self, Hosts, Kind};
use crate::compile::Loader;

/// Checks a pattern; with a `resolver` host names are good too, and their networks are noted.
pub(super) fn check_resolving(
    kind: Kind,
    key: &[u8],
    hosts: &mut Hosts,
    resolver: Option<&dyn Loader>,
) -> Result<(), String> {
    let refused = match view::check(kind, key, hosts) {
        Ok(_) => return Ok(()),
        Err(e) => e,
    };
    let (Match::Ip, Some(resolver), Ok(text)) = (kind.method, resolver, std::str::from_utf8(key))
    else {
        return Err(refused);
    };
    let (host, mask) = match text.split_once('/') {
        Some((host, mask)) => (host, Some(mask)),
        None => (text, None),
    };
    if let Some(addr) = network::inet_aton(host) {
        let network = network::of_host(addr.into(), mask).map_err(|_| refused)?;
        hosts.insert(key.to_vec(), network);
        return Ok(());
    }
    let is_name = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_');
    let named = host.bytes().any(|b| b.is_ascii_alphabetic()) && host.bytes().all(is_name);
    if !named {
        return Err(refused);
    }
    let addr = resolver
        .resolve(host)
        .map_err(|why| format!("{refused}, and as a host name it is not known: {why}"))?;
    let network = network::of_host(addr, mask).map_err(|_| refused)?;
    hosts.insert(key.to_vec(), network);
    Ok(())
}
