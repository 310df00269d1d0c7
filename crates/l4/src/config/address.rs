//! Lines of `virtual_ipaddress`, `static_ipaddress`, `virtual_routes` and `static_routes`: the language of ip(8).

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
                address.peer =
                    network(&value.text).filter(|(ip, _)| ip.is_ipv4() == address.ip.is_ipv4());
                if address.peer.is_none() {
                    e.error_at(
                        value,
                        format!("'{}' is not an address of that family", value.text),
                    );
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

fn unsupported(e: &mut Args<'_, '_>, word: &Word) {
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
fn scope(name: &str) -> Option<u8> {
    match name {
        "global" => Some(0),
        "site" => Some(200),
        "link" => Some(253),
        "host" => Some(254),
        "nowhere" => Some(255),
        number => number.parse().ok(),
    }
}

/// Reads each line of the block as a route.
pub fn routes(list: &mut Vec<Route>, a: &mut Args<'_, '_>) {
    for node in a.block() {
        let mut e = Args {
            node,
            at: 0,
            cx: a.cx,
        };
        if let Some(route) = route(&mut e) {
            list.push(route);
        }
    }
}

fn route(e: &mut Args<'_, '_>) -> Option<Route> {
    let mut route = Route {
        destination: None,
        ipv6: false,
        kind: RouteKind::Unicast,
        gateway: None,
        source: None,
        device: None,
        table: None,
        metric: None,
        scope: None,
        on_link: false,
    };
    let mut seen = false;
    while let Some(word) = e.optional() {
        match word.text.as_str() {
            "blackhole" => route.kind = RouteKind::Blackhole,
            "unreachable" => route.kind = RouteKind::Unreachable,
            "prohibit" => route.kind = RouteKind::Prohibit,
            "unicast" => {}
            "inet6" => route.ipv6 = true,
            "inet" => {}
            "to" => {}
            "via" | "gw" => {
                if e.peek()
                    .is_some_and(|w| w.text == "inet" || w.text == "inet6")
                {
                    e.optional();
                }
                route.gateway = Some(e.address()?);
            }
            "src" => route.source = Some(e.address()?),
            "dev" | "oif" => route.device = Some(e.interface()?),
            "table" => route.table = Some(table(e)?),
            "metric" | "priority" | "preference" => route.metric = e.number_u32(0..=u32::MAX),
            "scope" => {
                let value = e.word("a scope")?;
                route.scope = scope(&value.text);
                if route.scope.is_none() {
                    e.error_at(value, format!("scope '{}' is unknown", value.text));
                }
            }
            "onlink" => route.on_link = true,
            "no_track" => {}
            "tos" | "protocol" | "mtu" | "hoplimit" | "advmss" | "rtt" | "rttvar"
            | "reordering" | "window" | "cwnd" | "ssthresh" | "realms" | "rto_min" | "initcwnd"
            | "initrwnd" | "features" | "vrf" | "weight" | "nexthop" | "or" | "encap"
            | "expires" | "congctl" | "quickack" | "pref" | "fastopen_no_cookie"
            | "ttl-propagate" | "append" | "track_group" => {
                unsupported(e, word);
                e.skip();
            }
            "default" | "default6" if !seen => seen = true,
            text => match network(text) {
                Some((ip, prefix)) if !seen => {
                    seen = true;
                    route.ipv6 = ip.is_ipv6();
                    if prefix != 0 {
                        route.destination = Some((ip, prefix));
                    }
                }
                _ => {
                    e.error_at(word, format!("'{text}' is no part of a route"));
                    return None;
                }
            },
        }
    }
    if let Some(gateway) = route.gateway {
        route.ipv6 |= gateway.is_ipv6();
    }
    if !seen && route.destination.is_none() {
        let place = e.node.place();
        e.cx.error(place, "a route needs a destination, or the word default");
        return None;
    }
    Some(route)
}
