//! Lines of `virtual_routes` and `static_routes`: the language of ip-route(8), as far as keepalived 2.2.7 reads it.

use super::address::{network, scope, table, unsupported};
use super::keyword::Args;
use super::model::*;
use super::tree::Word;

/// What keepalived's own routes are marked with.
pub const PROTOCOL_KEEPALIVED: u8 = 18;

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

/// Words that take a number, and the kernel's number (RTAX) of what they set.
static METRICS: &[(&str, u16)] = &[
    ("mtu", 2),
    ("window", 3),
    ("rtt", 4),
    ("rttvar", 5),
    ("ssthresh", 6),
    ("cwnd", 7),
    ("advmss", 8),
    ("reordering", 9),
    ("hoplimit", 10),
    ("initcwnd", 11),
    ("rto_min", 13),
    ("initrwnd", 14),
    ("quickack", 15),
];

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
        protocol: None,
        tos: 0,
        metrics: Vec::new(),
        locked: 0,
        congestion: None,
        preference: None,
        expires_s: None,
        hops: Vec::new(),
        no_track: false,
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
            "via" | "gw" => route.gateway = Some(gateway(e)?),
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
            "no_track" => route.no_track = true,
            "tos" | "dsfield" => route.tos = e.number_u8(0..=255)?,
            "protocol" => route.protocol = Some(protocol(e)?),
            "congctl" => route.congestion = e.text("a congestion control"),
            "pref" => route.preference = Some(preference(e)?),
            "expires" => route.expires_s = e.number_u32(0..=u32::MAX),
            "nexthop" => {
                hops(&mut route, e)?;
                break;
            }
            "realms" | "features" | "vrf" | "or" | "encap" | "fastopen_no_cookie"
            | "ttl-propagate" | "append" | "track_group" => {
                unsupported(e, word);
                e.skip();
            }
            "default" | "default6" if !seen => seen = true,
            name if METRICS.iter().any(|(n, _)| *n == name) => metric(&mut route, e, word)?,
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
    let mut gateways = route.hops.iter().filter_map(|h| h.gateway);
    route.ipv6 |= route
        .gateway
        .or(gateways.next())
        .is_some_and(|g| g.is_ipv6());
    if !seen && route.destination.is_none() {
        let place = e.node.place();
        e.cx.error(place, "a route needs a destination, or the word default");
        return None;
    }
    judge(&mut route, e);
    Some(route)
}

/// What keepalived, which watches its routes, complains of.
fn judge(route: &mut Route, e: &mut Args<'_, '_>) {
    let Some(word) = e.node.words.first() else {
        return;
    };
    if route.no_track {
        return;
    }
    if route.device.is_none() {
        e.dubious_at(
            word,
            "keepalived cannot watch a route without an interface: say dev, or no_track",
        );
    }
    if route.protocol.is_some_and(|p| p != PROTOCOL_KEEPALIVED) {
        e.dubious_at(
            word,
            "keepalived watches routes of its own protocol only and sets that: say no_track to have another",
        );
        route.protocol = None;
    }
}

fn gateway(e: &mut Args<'_, '_>) -> Option<std::net::IpAddr> {
    if e.peek()
        .is_some_and(|w| w.text == "inet" || w.text == "inet6")
    {
        e.optional();
    }
    e.address()
}

/// `NAME [lock] NUMBER`; times are milliseconds, or seconds with an `s`.
fn metric(route: &mut Route, e: &mut Args<'_, '_>, word: &Word) -> Option<()> {
    let (name, number) = METRICS.iter().find(|(n, _)| *n == word.text)?;
    if e.peek().is_some_and(|w| w.text == "lock") {
        e.optional();
        route.locked |= 1 << number;
    }
    let value = e.word("a number")?;
    let text = value.text.as_str();
    let time = matches!(*name, "rtt" | "rttvar" | "rto_min");
    let parsed = match (time, text.strip_suffix("ms"), text.strip_suffix('s')) {
        (true, Some(ms), _) => ms.parse().ok(),
        (true, None, Some(s)) => s.parse::<u32>().ok().and_then(|s| s.checked_mul(1000)),
        _ => text.parse::<u32>().ok(),
    };
    // The kernel keeps these with three and two bits behind the point.
    let scale = match *name {
        "rtt" => 8,
        "rttvar" => 4,
        _ => 1,
    };
    match parsed.and_then(|n: u32| n.checked_mul(scale)) {
        Some(n) => route.metrics.push((*number, n)),
        None => {
            e.error_at(value, format!("'{text}' is no number for {name}"));
            return None;
        }
    }
    Some(())
}

/// A number, or a name of /etc/iproute2/rt_protos.
fn protocol(e: &mut Args<'_, '_>) -> Option<u8> {
    let word = e.word("a routing protocol")?;
    let found = match word.text.as_str() {
        "redirect" => Some(1),
        "kernel" => Some(2),
        "boot" => Some(3),
        "static" => Some(4),
        "ra" => Some(9),
        "zebra" => Some(11),
        "bird" => Some(12),
        "dhcp" => Some(16),
        "keepalived" => Some(PROTOCOL_KEEPALIVED),
        "bgp" => Some(186),
        "ospf" => Some(188),
        number => number.parse().ok(),
    };
    if found.is_none() {
        e.error_at(word, format!("protocol '{}' is unknown", word.text));
    }
    found
}

/// RFC 4191's, as the kernel has it.
fn preference(e: &mut Args<'_, '_>) -> Option<u8> {
    let word = e.word("low, medium or high")?;
    let found = match word.text.as_str() {
        "medium" => Some(0),
        "high" => Some(1),
        "low" => Some(3),
        _ => None,
    };
    if found.is_none() {
        e.error_at(
            word,
            format!("'{}' is none of low, medium, high", word.text),
        );
    }
    found
}

/// All that follows the first `nexthop`.
fn hops(route: &mut Route, e: &mut Args<'_, '_>) -> Option<()> {
    let first = || NextHop {
        weight: 1,
        ..NextHop::default()
    };
    let mut hop = first();
    while let Some(word) = e.optional() {
        match word.text.as_str() {
            "via" => hop.gateway = Some(gateway(e)?),
            "dev" => hop.device = Some(e.interface()?),
            "weight" => hop.weight = e.number_u32(1..=256)?,
            "onlink" => hop.on_link = true,
            "nexthop" => route.hops.push(std::mem::replace(&mut hop, first())),
            text => {
                e.error_at(word, format!("'{text}' is no part of a next hop"));
                return None;
            }
        }
    }
    route.hops.push(hop);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{NoHost, Severity, parse};

    fn read(line: &str) -> (Vec<Route>, Vec<(Severity, String)>) {
        let (config, found) = parse(
            &NoHost,
            "t",
            &format!("static_routes {{\n {line}\n}}\n"),
            "",
        );
        let found = found.into_iter().map(|d| (d.severity, d.message));
        (config.static_routes, found.collect())
    }

    fn one(line: &str) -> Route {
        let (routes, found) = read(line);
        assert!(found.is_empty(), "{line}: {found:?}");
        routes.into_iter().next().expect("a route")
    }

    #[test]
    fn routes_are_read() {
        let r = one("10.1.0.0/16 via 10.0.0.9 dev eth0 mtu lock 1400 rtt 10ms rto_min 2s tos 8");
        assert_eq!(
            (r.metrics, r.locked, r.tos),
            (vec![(2, 1400), (4, 80), (13, 2000)], 4, 8)
        );
        let r = one("default via fd00::1 dev eth0 no_track protocol static pref high expires 60");
        assert_eq!(
            (r.ipv6, r.protocol, r.preference, r.expires_s),
            (true, Some(4), Some(1), Some(60))
        );
        let r = one(
            "10.1.0.0/16 no_track nexthop via 10.0.0.1 dev eth0 nexthop via 10.0.0.2 dev eth1 weight 2 onlink",
        );
        assert_eq!((r.hops.len(), r.hops[0].weight), (2, 1));
        assert!(r.hops[1].on_link && r.hops[1].weight == 2);
    }

    #[test]
    fn mistakes_are_told() {
        for (line, severity, part) in [
            ("10.1.0.0/16 via 10.0.0.9", Severity::Dubious, "no_track"),
            (
                "10.1.0.0/16 dev eth0 protocol static",
                Severity::Dubious,
                "watches",
            ),
            (
                "10.1.0.0/16 dev eth0 protocol what",
                Severity::Error,
                "unknown",
            ),
            ("10.1.0.0/16 dev eth0 mtu big", Severity::Error, "mtu"),
            ("via 10.0.0.9 dev eth0", Severity::Error, "destination"),
            (
                "10.1.0.0/16 dev eth0 realms 3",
                Severity::Unsupported,
                "realms",
            ),
            (
                "10.1.0.0/16 no_track nexthop wrong",
                Severity::Error,
                "next hop",
            ),
        ] {
            let (_, found) = read(line);
            assert!(
                matches!(&found[..], [(s, m)] if *s == severity && m.contains(part)),
                "{line}: {found:?}"
            );
        }
    }
}
