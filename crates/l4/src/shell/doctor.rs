//! `sluice-l4 doctor`: looks at an interface and says what would stop packets, each with what to do about it.

use crate::datapath::{Mode, Programs, Sizes};
use crate::netlink::{Link, Netlink};
use anyhow::{Context, Result};
use std::fmt;

/// One thing looked at.
pub struct Finding {
    /// Packets would not get through.
    pub stops: bool,
    pub good: bool,
    pub text: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = match (self.good, self.stops) {
            (true, _) => "ok      ",
            (false, true) => "STOPS   ",
            (false, false) => "look at ",
        };
        write!(f, "{mark}{}", self.text)
    }
}

fn good(text: impl Into<String>) -> Finding {
    Finding {
        stops: false,
        good: true,
        text: text.into(),
    }
}
fn bad(stops: bool, text: impl Into<String>) -> Finding {
    Finding {
        stops,
        good: false,
        text: text.into(),
    }
}

fn sysctl(path: &str) -> Option<i64> {
    std::fs::read_to_string(format!("/proc/sys/net/{path}"))
        .ok()?
        .trim()
        .parse()
        .ok()
}

pub fn look(interface: &str) -> Result<Vec<Finding>> {
    let mut netlink = Netlink::open()?;
    let link = netlink
        .link(interface)?
        .with_context(|| format!("no interface {interface}"))?;
    let mut out = vec![link_state(&link)];
    out.extend(xdp(&link));
    out.push(mtu(&link));
    out.extend(sysctls(interface));
    out.extend(addresses(&mut netlink, &link)?);
    Ok(out)
}

fn link_state(link: &Link) -> Finding {
    if link.up {
        good(format!("{} is up", link.name))
    } else {
        bad(true, format!("{} is down or has no carrier", link.name))
    }
}

/// Whether XDP attaches, tried in earnest and undone at once.
fn xdp(link: &Link) -> Vec<Finding> {
    if let Some(id) = link.xdp {
        return vec![good(format!("XDP program {id} is attached"))];
    }
    let mut programs = match Programs::load(Sizes::small()) {
        Ok(p) => p,
        Err(e) => return vec![bad(true, e.to_string())],
    };
    let mut out = Vec::new();
    let driver = programs.attach("pass", &link.name, Mode::Driver);
    match driver {
        Ok(_) if link.kind == "veth" => {
            out.push(bad(false, "veth: frames sent back by driver XDP vanish unless the other end has an XDP program too; generic mode needs none"));
        }
        Ok(_) => out.push(good("the driver runs XDP")),
        Err(e) => match programs.attach("pass", &link.name, Mode::Generic) {
            Ok(_) => out.push(bad(
                false,
                format!("the driver does not run XDP ({e}); generic mode works, slower"),
            )),
            Err(e) => out.push(bad(
                true,
                format!("XDP does not attach (is another program there?): {e}"),
            )),
        },
    }
    out
}

fn mtu(link: &Link) -> Finding {
    match link.mtu {
        0..1500 => bad(
            false,
            format!(
                "MTU {}: full-size packets of clients will not pass",
                link.mtu
            ),
        ),
        1500..1520 => bad(
            false,
            format!(
                "MTU {}: enough for DR and NAT; tunnels add 20 bytes (IPv6 40), so lower the servers' MSS or raise the MTU",
                link.mtu
            ),
        ),
        n => good(format!("MTU {n} leaves room for tunnels")),
    }
}

fn sysctls(interface: &str) -> Vec<Finding> {
    let conf = |key: &str| {
        sysctl(&format!("ipv4/conf/{interface}/{key}"))
            .unwrap_or(0)
            .max(sysctl(&format!("ipv4/conf/all/{key}")).unwrap_or(0))
    };
    let mut out = Vec::new();
    out.push(match conf("rp_filter") {
        1 => bad(false, "rp_filter is strict: on a real server behind a tunnel the unwrapped packets are dropped; set it to 0 or 2 there"),
        n => good(format!("rp_filter is {n}")),
    });
    out.push(match (conf("arp_ignore"), conf("arp_announce")) {
        (1.., 2) => good("arp_ignore and arp_announce suit a real server"),
        (i, a) => bad(false, format!("arp_ignore {i}, arp_announce {a}: a real server with the virtual address on lo must have 1 and 2, or it answers for it")),
    });
    out
}

fn addresses(netlink: &mut Netlink, link: &Link) -> Result<Vec<Finding>> {
    let own: Vec<String> = netlink
        .addresses()?
        .iter()
        .filter(|(i, _, _)| *i == link.index)
        .map(|(_, ip, p)| format!("{ip}/{p}"))
        .collect();
    let neighbours = netlink
        .neighbours()?
        .iter()
        .filter(|n| n.ifindex == link.index)
        .count();
    let first = if own.is_empty() {
        bad(
            true,
            format!(
                "{} has no address: adverts and tunnels need a source",
                link.name
            ),
        )
    } else {
        good(format!("{} has {}", link.name, own.join(", ")))
    };
    Ok(vec![
        first,
        good(format!("{neighbours} neighbours are known")),
    ])
}
