//! `bfd_instance`.

use super::diagnostic::Severity;
use super::keyword::{Args, Context, Keyword, block, works};
use super::model::*;
use super::tree::Node;

/// keepalived's longest interval, in milliseconds.
const INTERVAL_MAX_MS: f64 = 4_294_967.0;

pub static BFD_INSTANCE: &[Keyword<Bfd>] = &[
    works("neighbor_ip", "ADDRESS", "who is watched", |b, a| {
        b.neighbour = a.address();
    }),
    works("neighbour_ip", "ADDRESS", "who is watched", |b, a| {
        b.neighbour = a.address();
    }),
    works("source_ip", "ADDRESS", "our address", |b, a| {
        b.source = a.address();
    }),
    works(
        "min_rx",
        "MILLISECONDS",
        "fastest interval that is taken",
        |b, a| interval(a, 1.0, &mut b.min_rx_us),
    ),
    works(
        "min_tx",
        "MILLISECONDS",
        "fastest interval that is sent",
        |b, a| interval(a, 1.0, &mut b.min_tx_us),
    ),
    works(
        "idle_tx",
        "MILLISECONDS",
        "interval of a session that is not up",
        |b, a| interval(a, 1000.0, &mut b.idle_tx_us),
    ),
    works(
        "multiplier",
        "1-255",
        "packets missed before the neighbour is gone",
        |b, a| b.multiplier = a.number_u8(1..=255).unwrap_or(5),
    ),
    works("passive", "", "the neighbour speaks first", |b, _| {
        b.passive = true
    }),
    works("ttl", "1-255", "time to live of packets", |b, a| {
        b.ttl = a.number_u8(1..=255)
    }),
    works("hoplimit", "1-255", "hop limit of packets", |b, a| {
        b.ttl = a.number_u8(1..=255)
    }),
    works(
        "max_hops",
        "0-255",
        "routers that a packet heard may have passed; 255: any number",
        |b, a| {
            let word = a.peek();
            let Some(n) = a.number(-1..=255) else { return };
            match (u8::try_from(n), word) {
                (Ok(n), _) => b.max_hops = n,
                (Err(_), Some(word)) => a.cx.report(
                    Severity::Unsupported,
                    Some(word.place()),
                    "with fewer than 0 hops nobody would be heard",
                ),
                _ => {}
            }
        },
    ),
    works(
        "weight",
        "-253..253 [reverse]",
        "added to the priority of instances that track it",
        |b, a| {
            b.weight = a.number(-253..=253).unwrap_or(0) as i32;
            if a.peek().is_some_and(|w| w.text == "reverse") {
                a.optional();
                b.reverse = true;
            }
        },
    ),
    works("vrrp", "", "only for track_bfd", |b, _| b.vrrp_said = true),
    works("checker", "", "only for BFD_CHECK", |b, _| {
        b.checker_said = true
    }),
];

fn interval(a: &mut Args<'_, '_>, least_ms: f64, into: &mut u32) {
    let Some(word) = a.word("a time in milliseconds") else {
        return;
    };
    match word.text.parse::<f64>() {
        Ok(ms) if (least_ms..=INTERVAL_MAX_MS).contains(&ms) => {
            *into = (ms * 1000.0).round().min(f64::from(u32::MAX)) as u32;
        }
        _ => a.error_at(
            word,
            format!(
                "'{}' is not a number of milliseconds between {least_ms} and {INTERVAL_MAX_MS}",
                word.text
            ),
        ),
    }
}

/// `bfd_instance NAME { ... }`.
pub fn bfd_instance(cx: &mut Context<'_>, node: &Node) {
    let mut a = Args { node, at: 1, cx };
    let Some(word) = a.word("a name") else { return };
    if a.cx.config.bfds.iter().any(|b| b.name == word.text) {
        return a.error_at(word, format!("bfd_instance {} is here twice", word.text));
    }
    let mut bfd = Bfd {
        name: word.text.clone(),
        neighbour: None,
        source: None,
        min_rx_us: 10_000,
        min_tx_us: 10_000,
        idle_tx_us: 1_000_000,
        multiplier: 5,
        passive: false,
        ttl: None,
        max_hops: 0,
        weight: 0,
        reverse: false,
        vrrp_said: false,
        checker_said: false,
    };
    block(a.block(), BFD_INSTANCE, &mut bfd, a.cx, "bfd_instance");
    let Some(neighbour) = bfd.neighbour else {
        return a.error_at(
            word,
            format!("bfd_instance {} has no neighbor_ip", word.text),
        );
    };
    if a.cx
        .config
        .bfds
        .iter()
        .any(|b| b.neighbour == bfd.neighbour)
    {
        return a.error_at(
            word,
            format!("another bfd_instance has the neighbour {neighbour}"),
        );
    }
    if bfd
        .source
        .is_some_and(|s| s.is_ipv4() != neighbour.is_ipv4())
    {
        return a.error_at(
            word,
            format!("source_ip and the neighbour {neighbour} are of different address families"),
        );
    }
    a.cx.config.bfds.push(bfd);
}

#[cfg(test)]
mod tests {
    use crate::config::model::Bfd;
    use crate::config::{NoHost, Severity, parse};

    fn read(lines: &str) -> (Vec<Bfd>, Vec<(Severity, String)>) {
        let text = format!("bfd_instance B {{\n{lines}\n}}\n");
        let (config, found) = parse(&NoHost, "t", &text, "");
        let found = found.into_iter().map(|d| (d.severity, d.message));
        (config.bfds, found.collect())
    }

    #[test]
    fn an_instance_is_read() {
        let (bfds, found) = read(
            "neighbor_ip 10.0.0.2\nsource_ip 10.0.0.1\nmin_rx 3.312\nmin_tx 100\nidle_tx 2000\nmultiplier 3\npassive\nttl 200\nmax_hops 3\nweight -10 reverse\nchecker",
        );
        assert!(found.is_empty(), "{found:?}");
        let b = &bfds[0];
        assert_eq!((b.min_rx_us, b.min_tx_us), (3312, 100_000));
        assert_eq!((b.idle_tx_us, b.multiplier), (2_000_000, 3));
        assert_eq!((b.weight, b.reverse, b.passive), (-10, true, true));
        assert!(!b.for_vrrp() && b.for_checkers());
        let (bfds, _) = read("neighbor_ip fd00::2");
        assert_eq!((bfds[0].min_rx_us, bfds[0].multiplier), (10_000, 5));
        assert!(bfds[0].for_vrrp() && bfds[0].for_checkers());
        assert_eq!(bfds[0].hops_sent(), 64);
    }

    #[test]
    fn mistakes_are_told() {
        for (lines, part) in [
            ("min_rx 10", "no neighbor_ip"),
            ("neighbor_ip x", "not an IP address"),
            ("neighbor_ip 10.0.0.2\nmin_tx 0.5", "milliseconds"),
            ("neighbor_ip 10.0.0.2\nidle_tx 999.5", "milliseconds"),
            ("neighbor_ip 10.0.0.2\nmultiplier 0", "between 1 and 255"),
            ("neighbor_ip 10.0.0.2\nsource_ip fd00::1", "families"),
            (
                "neighbor_ip 10.0.0.2\n}\nbfd_instance B {\nneighbor_ip 10.0.0.3",
                "twice",
            ),
            (
                "neighbor_ip 10.0.0.2\n}\nbfd_instance C {\nneighbor_ip 10.0.0.2",
                "another",
            ),
        ] {
            let (_, found) = read(lines);
            assert!(
                found
                    .iter()
                    .any(|(s, m)| *s == Severity::Error && m.contains(part)),
                "{lines}: {found:?}"
            );
        }
    }
}
