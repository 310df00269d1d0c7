//! Firewall marks: what the host's rules would mark, read from the rules. XDP forwards before a packet meets them, so a
//! `virtual_server fwmark` is served as the addresses, protocols and ports that they name. Pure: [`iptables`] and [`nftables`] read what
//! iptables-save(8) and nft(8) print, the shell runs these.
//!
//! A rule that sets a mark and asks anything but the destination is not guessed at: it is told as a doubt, and its mark does without.

use crate::config::model::Protocol;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

mod iptables;
mod nftables;

/// Where a packet is going, as the datapath looks it up: a port of 0 is every port that has no entry of its own.
pub type Target = (IpAddr, u16, Protocol);

/// The most that all rules may name together.
const TARGETS_MAX: usize = 32768;

/// What is marked, and what could not be read.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Marks {
    /// With whether a later rule can change it.
    targets: BTreeMap<(IpAddr, u8, u16), (u32, bool)>,
    /// Rules that set marks and are not understood, with the reason.
    pub doubts: Vec<String>,
}

const PROTOCOLS: [Protocol; 3] = [Protocol::Tcp, Protocol::Udp, Protocol::Sctp];

fn protocol_named(name: &str) -> Option<Protocol> {
    let same = |p: &Protocol| p.name().eq_ignore_ascii_case(name) || p.number().to_string() == name;
    PROTOCOLS.into_iter().find(same)
}

/// What one rule says, as far as it has been read.
#[derive(Debug, Default)]
struct Rule {
    /// First and last, both included.
    destinations: Vec<(IpAddr, IpAddr)>,
    protocols: Vec<Protocol>,
    ports: Vec<(u16, u16)>,
    mark: Option<u32>,
    /// No later rule of the chain sees the packet.
    last: bool,
    /// Why it cannot be followed.
    doubt: Option<String>,
}

impl Rule {
    fn doubt(&mut self, why: impl Into<String>) {
        self.doubt.get_or_insert(why.into());
    }

    fn destination(&mut self, text: &str) {
        match network(text) {
            Some(range) => self.destinations.push(range),
            None => self.doubt(format!("'{text}' is no address or network")),
        }
    }

    /// `80`, `80:90`, `80-90`.
    fn port(&mut self, text: &str) {
        let (first, last) = text.split_once([':', '-']).unwrap_or((text, text));
        match (first.parse(), last.parse()) {
            (Ok(first), Ok(last)) if first <= last => self.ports.push((first, last)),
            _ => self.doubt(format!("'{text}' is no port")),
        }
    }

    fn protocol(&mut self, name: &str) {
        match protocol_named(name) {
            Some(p) => self.protocols.push(p),
            // What is marked there, ICMP for instance, is no connection's.
            None => self.doubt(format!("protocol '{name}'")),
        }
    }
}

impl Marks {
    /// What this mark stands for.
    pub fn targets(&self, mark: u32) -> Vec<Target> {
        let ours = self.targets.iter().filter(|(_, (m, _))| *m == mark);
        ours.filter_map(|((ip, number, port), _)| {
            let protocol = PROTOCOLS.into_iter().find(|p| p.number() == *number)?;
            Some((*ip, *port, protocol))
        })
        .collect()
    }

    /// Takes a rule after those before it; `text` is what it is told as.
    fn add(&mut self, rule: &Rule, text: &str) {
        let doubt = match (rule.mark, &rule.doubt) {
            (None, _) => return,
            (_, Some(why)) => Some(why.clone()),
            _ if rule.destinations.is_empty() => Some("it names no destination".to_string()),
            _ if !rule.ports.is_empty() && rule.protocols.is_empty() => {
                Some("it names ports and no protocol".to_string())
            }
            _ => None,
        };
        if let Some(why) = doubt {
            self.doubts.push(format!("{}: {why}", text.trim()));
            return;
        }
        let every = [(0, 0)];
        let ports = match rule.ports.as_slice() {
            [] => &every,
            some => some,
        };
        let protocols = match rule.protocols.as_slice() {
            [] => &PROTOCOLS,
            some => some,
        };
        let addresses: u128 = rule.destinations.iter().map(|r| size(*r)).sum();
        let ports_in_all: u128 = ports.iter().map(|(a, b)| u128::from(b - a) + 1).sum();
        let more = addresses
            .saturating_mul(ports_in_all)
            .saturating_mul(protocols.len() as u128);
        if more.saturating_add(self.targets.len() as u128) > TARGETS_MAX as u128 {
            self.doubts.push(format!(
                "{}: more than {TARGETS_MAX} addresses and ports",
                text.trim()
            ));
            return;
        }
        let addresses = rule.destinations.iter().copied().flat_map(range);
        for ip in addresses {
            for protocol in protocols {
                for port in ports.iter().flat_map(|(a, b)| *a..=*b) {
                    self.set((ip, protocol.number(), port), rule);
                }
            }
        }
    }

    fn set(&mut self, target: (IpAddr, u8, u16), rule: &Rule) {
        let Some(mark) = rule.mark else { return };
        let (ip, number, port) = target;
        let at_all = self.targets.get(&(ip, number, 0)).copied();
        if at_all.is_some_and(|(_, fixed)| fixed) {
            return;
        }
        if port == 0 {
            // The last rule that matches counts: those for single ports that came before are overruled.
            self.targets
                .retain(|(i, n, _), (_, fixed)| *fixed || (*i, *n) != (ip, number));
        }
        let entry = self.targets.entry(target).or_insert((mark, rule.last));
        if !entry.1 {
            *entry = (mark, rule.last);
        }
    }
}

/// First and last address of `10.0.0.1`, `10.0.0.0/28`, `10.0.0.0/255.255.255.240`, `10.0.0.1-10.0.0.9`.
fn network(text: &str) -> Option<(IpAddr, IpAddr)> {
    if let Some((first, last)) = text.split_once('-') {
        let (first, last) = (first.parse().ok()?, last.parse().ok()?);
        return (first <= last).then_some((first, last));
    }
    let (address, prefix) = text.split_once('/').unwrap_or((text, ""));
    let bits = |all: u32| match prefix {
        "" => Some(all),
        dotted if dotted.contains('.') => {
            let mask = u32::from(dotted.parse::<Ipv4Addr>().ok()?);
            (mask.leading_ones() == mask.count_ones()).then(|| mask.leading_ones())
        }
        number => number.parse().ok().filter(|n| *n <= all),
    };
    match address.parse().ok()? {
        IpAddr::V4(ip) => {
            let rest = u32::MAX.checked_shr(bits(32)?).unwrap_or(0);
            let first = u32::from(ip) & !rest;
            let pair = [first, first | rest].map(|n| IpAddr::from(Ipv4Addr::from(n)));
            Some((pair[0], pair[1]))
        }
        IpAddr::V6(ip) => {
            let rest = u128::MAX.checked_shr(bits(128)?).unwrap_or(0);
            let first = u128::from(ip) & !rest;
            let pair = [first, first | rest].map(|n| IpAddr::from(Ipv6Addr::from(n)));
            Some((pair[0], pair[1]))
        }
    }
}

fn number(ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V4(ip) => u32::from(ip).into(),
        IpAddr::V6(ip) => ip.into(),
    }
}

fn size((first, last): (IpAddr, IpAddr)) -> u128 {
    (number(last).saturating_sub(number(first))).saturating_add(1)
}

/// What has been seen to be small.
fn range((first, last): (IpAddr, IpAddr)) -> Vec<IpAddr> {
    let all = number(first)..=number(last);
    match first.is_ipv4() {
        true => all.map(|n| Ipv4Addr::from(n as u32).into()).collect(),
        false => all.map(|n| Ipv6Addr::from(n).into()).collect(),
    }
}

/// A mark as rules write it: `1`, `0x1`, `0x1/0xffffffff`.
fn mark(text: &str) -> Option<u32> {
    let (value, mask) = text.split_once('/').unwrap_or((text, "0xffffffff"));
    let number = |t: &str| match t.strip_prefix("0x") {
        Some(hex) => u32::from_str_radix(hex, 16).ok(),
        None => t.parse().ok(),
    };
    // Part of a mark depends on what it was before.
    (number(mask)? == u32::MAX).then(|| number(value)).flatten()
}

#[cfg(test)]
mod tests;
