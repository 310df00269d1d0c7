//! Lines of `virtual_rules`: the language of ip-rule(8), as far as keepalived 2.2.7 reads it.

use super::address::{network, table};
use super::diagnostic::Severity;
use super::keyword::Args;
use super::model::*;
use super::tree::Word;
use std::net::IpAddr;

/// Reads each line of the block as a rule.
pub fn rules(list: &mut Vec<Rule>, a: &mut Args<'_, '_>) {
    for node in a.block() {
        let mut e = Args {
            node,
            at: 0,
            cx: a.cx,
        };
        if let Some(rule) = rule(&mut e) {
            list.push(rule);
        }
    }
}

/// What of a rule has been read.
#[derive(Default)]
struct Parts {
    ipv6: bool,
    not: bool,
    from: Option<(IpAddr, u8)>,
    to: Option<(IpAddr, u8)>,
    priority: Option<u32>,
    input: Option<String>,
    output: Option<String>,
    mark: Option<(u32, u32)>,
    tos: u8,
    protocol: Option<u8>,
    source_ports: Option<(u16, u16)>,
    destination_ports: Option<(u16, u16)>,
    suppress_prefix: Option<u32>,
    action: Option<RuleAction>,
}

fn rule(e: &mut Args<'_, '_>) -> Option<Rule> {
    let mut p = Parts::default();
    while let Some(word) = e.optional() {
        part(&mut p, e, word)?;
    }
    let keyword = e.keyword();
    if let (Some((from, _)), Some((to, _))) = (p.from, p.to)
        && from.is_ipv4() != to.is_ipv4()
    {
        e.error_at(keyword, "a rule for both IPv4 and IPv6");
        return None;
    }
    let Some(action) = p.action else {
        e.error_at(
            keyword,
            "a rule needs an action: table N, goto N, nop, blackhole, unreachable or prohibit",
        );
        return None;
    };
    let v6 = |network: Option<(IpAddr, u8)>| network.is_some_and(|(ip, _)| ip.is_ipv6());
    let priority = p.priority.unwrap_or_else(|| {
        let next = e.cx.next_rule_priority;
        e.cx.next_rule_priority = next.saturating_sub(1);
        e.dubious_at(
            keyword,
            format!("a rule without preference gets {next}, which may not be where it belongs"),
        );
        next
    });
    Some(Rule {
        ipv6: p.ipv6 || v6(p.from) || v6(p.to),
        not: p.not,
        from: p.from.filter(|(_, prefix)| *prefix > 0),
        to: p.to.filter(|(_, prefix)| *prefix > 0),
        priority,
        input: p.input,
        output: p.output,
        mark: p.mark,
        tos: p.tos,
        protocol: p.protocol,
        source_ports: p.source_ports,
        destination_ports: p.destination_ports,
        suppress_prefix: p.suppress_prefix,
        action,
    })
}

/// One option; None where the rule is spoiled.
fn part(p: &mut Parts, e: &mut Args<'_, '_>, word: &Word) -> Option<()> {
    let action = match word.text.as_str() {
        "inet6" => {
            e.dubious_at(
                word,
                "keepalived passes over the word after inet6: let a network tell the family",
            );
            p.ipv6 = true;
            return Some(());
        }
        "inet" | "no_track" => return Some(()),
        "not" => {
            p.not = true;
            return Some(());
        }
        "from" => {
            p.from = prefix(e)?;
            return Some(());
        }
        "to" => {
            p.to = prefix(e)?;
            return Some(());
        }
        "priority" | "preference" | "order" => {
            p.priority = Some(e.number_u32(0..=u32::MAX)?);
            return Some(());
        }
        "iif" | "dev" => {
            p.input = Some(e.interface()?);
            return Some(());
        }
        "oif" => {
            p.output = Some(e.interface()?);
            return Some(());
        }
        "tos" | "dsfield" => {
            p.tos = type_of_service(e)?;
            return Some(());
        }
        "fwmark" => {
            p.mark = Some(mark(e)?);
            return Some(());
        }
        "ipproto" => {
            p.protocol = Some(protocol(e)?);
            return Some(());
        }
        "sport" => {
            p.source_ports = Some(ports(e)?);
            return Some(());
        }
        "dport" => {
            p.destination_ports = Some(ports(e)?);
            return Some(());
        }
        "suppress_prefixlength" | "suppress_prefixlen" => {
            p.suppress_prefix = Some(e.number_u32(0..=128)?);
            return Some(());
        }
        // Only the word itself follows it.
        "type" => return Some(()),
        "table" | "lookup" => RuleAction::Lookup(table(e)?),
        "goto" => RuleAction::Goto(e.number_u32(1..=u32::MAX)?),
        "nop" => RuleAction::Nop,
        "blackhole" => RuleAction::Blackhole,
        "unreachable" => RuleAction::Unreachable,
        "prohibit" => RuleAction::Prohibit,
        "realms" | "uidrange" | "l3mdev" | "tun_id" | "protocol" | "suppress_ifgroup"
        | "track_group" => {
            e.cx.report(
                Severity::Unsupported,
                Some(word.place()),
                format!("{} is not supported in a rule", word.text),
            );
            e.skip();
            return None;
        }
        text => {
            e.error_at(word, format!("'{text}' is no part of a rule"));
            return None;
        }
    };
    if p.action.replace(action).is_some() {
        e.error_at(word, "a rule has one action only");
        return None;
    }
    Some(())
}

/// A network; `all`, `any` and `default` are every address.
#[allow(
    clippy::option_option,
    reason = "the outer one is a fault that was told, the inner one every address"
)]
fn prefix(e: &mut Args<'_, '_>) -> Option<Option<(IpAddr, u8)>> {
    let word = e.word("a network")?;
    if matches!(word.text.as_str(), "all" | "any" | "default") {
        return Some(None);
    }
    let found = network(&word.text);
    if found.is_none() {
        e.error_at(word, format!("'{}' is not a network", word.text));
    }
    found.map(Some)
}

fn number(text: &str) -> Option<u32> {
    match text.strip_prefix("0x") {
        Some(hex) => u32::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

fn type_of_service(e: &mut Args<'_, '_>) -> Option<u8> {
    let word = e.word("a type of service")?;
    let value = number(&word.text).and_then(|n| u8::try_from(n).ok());
    if value.is_none() {
        e.error_at(word, format!("'{}' is no type of service", word.text));
    }
    value
}

/// `MARK[/MASK]`.
fn mark(e: &mut Args<'_, '_>) -> Option<(u32, u32)> {
    let word = e.word("a mark")?;
    let (mark, mask) = match word.text.split_once('/') {
        Some((mark, mask)) => (number(mark), number(mask)),
        None => (number(&word.text), Some(u32::MAX)),
    };
    let found = mark.zip(mask);
    if found.is_none() {
        e.error_at(word, format!("'{}' is no firewall mark", word.text));
    }
    found
}

fn protocol(e: &mut Args<'_, '_>) -> Option<u8> {
    let word = e.word("a protocol")?;
    let found = match word.text.to_ascii_lowercase().as_str() {
        "icmp" => Some(1),
        "tcp" => Some(6),
        "udp" => Some(17),
        "ipv6-icmp" => Some(58),
        "sctp" => Some(132),
        number => number.parse().ok(),
    };
    if found.is_none() {
        e.error_at(word, format!("protocol '{}' is unknown", word.text));
    }
    found
}

/// `FIRST-LAST`.
fn ports(e: &mut Args<'_, '_>) -> Option<(u16, u16)> {
    let word = e.word("a range of ports")?;
    let both = word.text.split_once('-');
    let found = both
        .and_then(|(first, last)| first.parse().ok().zip(last.parse().ok()))
        .filter(|(first, last)| *first > 0 && first <= last);
    if found.is_none() {
        e.error_at(
            word,
            format!("'{}' is no range of ports FIRST-LAST", word.text),
        );
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{NoHost, parse};

    fn read(line: &str) -> (Vec<Rule>, Vec<(Severity, String)>) {
        let text = format!(
            "vrrp_instance V {{\n interface eth0\n virtual_router_id 9\n virtual_ipaddress {{\n 10.0.0.1\n }}\n virtual_rules {{\n {line}\n }}\n}}\n"
        );
        let (config, found) = parse(&NoHost, "t", &text, "");
        let found = found.into_iter().map(|d| (d.severity, d.message));
        (config.instances[0].rules.clone(), found.collect())
    }

    fn one(line: &str) -> Rule {
        let (rules, found) = read(line);
        assert!(found.is_empty(), "{line}: {found:?}");
        rules.into_iter().next().expect("a rule")
    }

    #[test]
    fn rules_are_read() {
        let r = one("from 10.0.0.0/24 to 10.9.0.0/16 lookup 100 priority 77");
        assert_eq!(r.from, Some(("10.0.0.0".parse().unwrap(), 24)));
        assert_eq!(r.action, RuleAction::Lookup(100));
        assert_eq!((r.priority, r.ipv6), (77, false));
        let r = one(
            "not from fd00::/64 iif lo tos 0x10 fwmark 0x18/12 type blackhole order 5 no_track",
        );
        assert_eq!(
            (r.ipv6, r.not, r.tos, r.mark),
            (true, true, 16, Some((24, 12)))
        );
        assert_eq!(r.action, RuleAction::Blackhole);
        let r = one("from all ipproto udp sport 1-9 dport 53-53 table main preference 1");
        assert_eq!((r.from, r.protocol), (None, Some(17)));
        assert_eq!(r.destination_ports, Some((53, 53)));
        assert_eq!(r.action, RuleAction::Lookup(254));
        assert_eq!(one("goto 40 priority 3").action, RuleAction::Goto(40));
    }

    #[test]
    fn a_rule_without_preference_gets_the_next() {
        let (rules, found) = read("to 10.0.0.0/24 table 1\n to 10.0.1.0/24 table 1");
        let priorities: Vec<u32> = rules.iter().map(|r| r.priority).collect();
        assert_eq!(priorities, [16384, 16383]);
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].0, Severity::Dubious);
    }

    #[test]
    fn mistakes_are_told() {
        for (line, part) in [
            ("from 10.0.0.0/24 priority 4", "action"),
            ("from 10.0.0.0/33 table 1 priority 4", "network"),
            ("from fd00::/64 to 10.0.0.0/8 table 7 priority 5", "both"),
            ("table 1 blackhole priority 5", "one action"),
            ("table 1 priority 5 bogus", "bogus"),
            ("table 1 dport 53 priority 5", "range"),
            ("table 1 fwmark x priority 5", "mark"),
            ("table small priority 5", "small"),
        ] {
            let (rules, found) = read(line);
            assert!(rules.is_empty(), "{line}");
            assert!(
                matches!(&found[..], [(Severity::Error, m)] if m.contains(part)),
                "{line}: {found:?}"
            );
        }
        let (_, found) = read("from 10.0.0.0/8 realms 3 table 7 priority 5");
        assert_eq!(found[0].0, Severity::Unsupported);
    }
}
