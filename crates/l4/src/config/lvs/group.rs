//! `virtual_server_group`: addresses, ranges and networks that share their servers.

use crate::config::diagnostic::Severity;
use crate::config::keyword::{Args, Context};
use crate::config::model::*;
use crate::config::tree::Node;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What is done about marks.
pub(super) const MARKS: &str = "this program forwards before packets are marked: it reads the rules of iptables (mangle, PREROUTING) and nftables (prerouting) that set the \
     mark, and serves the addresses, protocols and ports they name; a rule that asks for more is told of at the start and does nothing";

/// `virtual_server_group NAME { ... }`: a list, one entry a line.
pub fn group(cx: &mut Context<'_>, node: &Node) {
    let mut a = Args { node, at: 1, cx };
    let Some(name) = a.text("a name") else { return };
    let mut group = VirtualServerGroup {
        name,
        entries: Vec::new(),
    };
    for entry in a.block() {
        let mut e = Args {
            node: entry,
            at: 0,
            cx: a.cx,
        };
        let Some(word) = e.optional() else { continue };
        if word.text == "fwmark" {
            if let Some(mark) = e.number_u32(0..=u32::MAX) {
                group.entries.push(GroupEntry::Fwmark(mark));
                e.cx.report(Severity::Warning, Some(word.place()), MARKS);
            }
            continue;
        }
        let (first, last) = match address_range(&word.text) {
            Ok(range) => range,
            Err(why) => {
                e.error_at(word, why);
                continue;
            }
        };
        let port = match e.peek() {
            Some(_) => e.number_u32(0..=65535).unwrap_or(0) as u16,
            None => 0,
        };
        group.entries.push(GroupEntry::Range(first, last, port));
    }
    a.cx.config.groups.push(group);
}

/// `A`, `A-LAST` (last octet or group, or a whole address) or `A/PREFIX`.
pub fn address_range(text: &str) -> Result<(IpAddr, IpAddr), String> {
    let bad = || format!("'{text}' is not an address, a range or a network");
    if let Some((base, prefix)) = text.split_once('/') {
        let ip: IpAddr = base.parse().map_err(|_| bad())?;
        let width = if ip.is_ipv4() { 32 } else { 128 };
        let prefix: u32 = prefix
            .parse()
            .ok()
            .filter(|p| *p <= width)
            .ok_or_else(bad)?;
        if width - prefix > 16 {
            return Err(format!("'{text}' is more than 65536 addresses"));
        }
        return Ok(match ip {
            IpAddr::V4(v4) => {
                let mask = u32::MAX.checked_shl(32 - prefix).unwrap_or(0);
                let low = u32::from(v4) & mask;
                (
                    Ipv4Addr::from(low).into(),
                    Ipv4Addr::from(low | !mask).into(),
                )
            }
            IpAddr::V6(v6) => {
                let mask = u128::MAX.checked_shl(128 - prefix).unwrap_or(0);
                let low = u128::from(v6) & mask;
                (
                    Ipv6Addr::from(low).into(),
                    Ipv6Addr::from(low | !mask).into(),
                )
            }
        });
    }
    let Some((first, last)) = text.split_once('-') else {
        let ip = text.parse().map_err(|_| bad())?;
        return Ok((ip, ip));
    };
    let first: IpAddr = first.parse().map_err(|_| bad())?;
    let last: IpAddr = match (first, last.parse::<IpAddr>()) {
        (_, Ok(ip)) => ip,
        (IpAddr::V4(v4), Err(_)) => {
            let octet: u8 = last.parse().map_err(|_| bad())?;
            let [a, b, c, _] = v4.octets();
            Ipv4Addr::new(a, b, c, octet).into()
        }
        (IpAddr::V6(v6), Err(_)) => {
            let group = u16::from_str_radix(last, 16).map_err(|_| bad())?;
            let mut segments = v6.segments();
            segments[7] = group;
            Ipv6Addr::from(segments).into()
        }
    };
    let size = match (first, last) {
        (IpAddr::V4(a), IpAddr::V4(b)) => {
            u128::from(u32::from(b)).checked_sub(u128::from(u32::from(a)))
        }
        (IpAddr::V6(a), IpAddr::V6(b)) => u128::from(b).checked_sub(u128::from(a)),
        _ => None,
    };
    match size {
        Some(n) if n < 65536 => Ok((first, last)),
        Some(_) => Err(format!("'{text}' is more than 65536 addresses")),
        None => Err(format!("'{text}' ends before it begins")),
    }
}

#[cfg(test)]
mod tests {
    use crate::config::{NoHost, Severity, accepted, parse, runnable};

    #[test]
    fn a_mark_is_taken_with_a_word_on_it() {
        let text = "virtual_server fwmark 1 {\n lb_algo rr\n lb_kind DR\n real_server 10.0.0.3 {\n }\n}\nvirtual_server_group G {\n 10.1.0.0/24 80\n fwmark 2\n}\n";
        let (config, found) = parse(&NoHost, "t", text, "");
        assert!(accepted(&found) && runnable(&found), "{found:?}");
        let said = found.iter().filter(|d| d.severity == Severity::Warning);
        assert_eq!(said.filter(|d| d.message.contains("iptables")).count(), 2);
        assert_eq!(config.marks_used(), [1, 2]);
    }
}
