//! Lines of `virtual_ipaddress` and `static_ipaddress`: the language of ip-address(8).

use super::diagnostic::Severity;
use super::keyword::Args;
use super::model::*;
use super::tree::Word;
use std::net::IpAddr;

/// Reads each line of the block as an address.
pub fn addresses(list: &mut Vec<VirtualAddress>, a: &mut Args<'_, '_>) {
    for node in a.block() {
        let mut e = Args {
            node,
            at: 0,
            cx: a.cx,
        };
        let Some(word) = e.optional() else { continue };
        let Some((ip, prefix)) = network(&word.text) else {
            e.error_at(word, format!("'{}' is not an address", word.text));
            continue;
        };
        let mut address = VirtualAddress::new(ip, prefix);
        options(&mut address, &mut e);
        list.push(address);
    }
}

fn options(address: &mut VirtualAddress, e: &mut Args<'_, '_>) {
    while let Some(word) = e.optional() {
        match word.text.as_str() {
            "dev" => address.device = e.interface(),
            "label" => address.label = e.text("a label"),
            "brd" | "broadcast" => {
                let Some(value) = e.word("an address") else {
                    return;
                };
                address.broadcast = match (value.text.as_str(), address.ip) {
                    ("-", _) => None,
                    ("+", IpAddr::V4(ip)) => {
                        let host = u32::MAX.checked_shr(u32::from(address.prefix)).unwrap_or(0);
                        Some((u32::from(ip) | host).into())
                    }
                    (text, _) => match text.parse() {
                        Ok(b) => Some(b),
                        Err(_) => {
                            e.error_at(value, format!("'{text}' is not an IPv4 address"));
                            None
                        }
                    },
                };
            }
            "scope" => {
                let Some(value) = e.word("a scope") else {
                    return;
                };
                match scope(&value.text) {
                    // The kernel derives IPv6's from the address.
                    Some(s) if s != 0 && address.ip.is_ipv6() => {
                        e.dubious_at(value, "an IPv6 address tells its scope itself");
                    }
                    Some(s) => address.scope = s,
                    None => e.error_at(value, format!("scope '{}' is unknown", value.text)),
                }
            }
            "no_track" => address.no_track = true,
            "-nodad" | "nodad" => address.no_dad = true,
            "noprefixroute" => address.no_prefix_route = true,
            "peer" => {
                let Some(value) = e.word("an address") else {
                    return;
                };
                let peer = network(&value.text);
                address.peer = peer.filter(|(ip, _)| ip.is_ipv4() == address.ip.is_ipv4());
                if address.peer.is_none() {
                    let message = format!("'{}' is not an address of that family", value.text);
                    e.error_at(value, message);
                } else if value.text.contains('/') {
                    e.dubious_at(value, "keepalived reads no prefix length here");
                }
            }
            "preferred_lft" => {
                let Some(value) = e.word("seconds, or forever") else {
                    return;
                };
                address.preferred_s = match value.text.as_str() {
                    "forever" => Some(u32::MAX),
                    text => text.parse().ok(),
                };
                if address.preferred_s.is_none() {
                    e.error_at(value, format!("'{}' is no number of seconds", value.text));
                }
            }
            "track_group" => {
                unsupported(e, word);
                e.optional();
            }
            "home" => address.flags |= IFA_F_HOMEADDRESS,
            "mngtmpaddr" => address.flags |= IFA_F_MANAGETEMPADDR,
            "autojoin" => address.flags |= IFA_F_MCAUTOJOIN,
            "use_vmac" => address.use_vmac = true,
            _ => e.error_at(word, format!("'{}' is no option of an address", word.text)),
        }
    }
}

// The kernel's if_addr.h.
const IFA_F_HOMEADDRESS: u32 = 0x10;
const IFA_F_MANAGETEMPADDR: u32 = 0x100;
const IFA_F_MCAUTOJOIN: u32 = 0x400;

pub fn unsupported(e: &mut Args<'_, '_>, word: &Word) {
    e.cx.report(
        Severity::Unsupported,
        Some(word.place()),
        format!("{} is not supported yet", word.text),
    );
}

/// `ADDRESS[/PREFIX]`; without a prefix, a host.
pub fn network(text: &str) -> Option<(IpAddr, u8)> {
    let (ip, prefix) = match text.split_once('/') {
        Some((ip, prefix)) => (ip, Some(prefix)),
        None => (text, None),
    };
    let ip: IpAddr = ip.parse().ok()?;
    let width = if ip.is_ipv4() { 32 } else { 128 };
    let prefix = match prefix {
        Some(p) => p.parse().ok().filter(|p| *p <= width)?,
        None => width,
    };
    Some((ip, prefix))
}

/// A routing table: a number, or a name of iproute2's.
pub fn table(e: &mut Args<'_, '_>) -> Option<u32> {
    let word = e.word("a routing table")?;
    let name = word.text.as_str();
    let named = || {
        ["/etc/iproute2/rt_tables", "/usr/share/iproute2/rt_tables"]
            .into_iter()
            .filter_map(|path| e.cx.host.read(path).ok())
            .find_map(|text| {
                text.lines().find_map(|line| {
                    let mut words = line.split_whitespace();
                    let number: u32 = words.next()?.parse().ok()?;
                    (words.next()? == name).then_some(number)
                })
            })
    };
    let found = match name {
        "main" => Some(254),
        "local" => Some(255),
        "default" => Some(253),
        number => number.parse().ok().or_else(named),
    };
    if found.is_none() {
        e.error_at(
            word,
            format!("routing table '{name}' is neither a number nor in rt_tables"),
        );
    }
    found
}

/// Names of /etc/iproute2/rt_scopes, and numbers.
pub fn scope(name: &str) -> Option<u8> {
    match name {
        "global" => Some(0),
        "site" => Some(200),
        "link" => Some(253),
        "host" => Some(254),
        "nowhere" => Some(255),
        number => number.parse().ok(),
    }
}
