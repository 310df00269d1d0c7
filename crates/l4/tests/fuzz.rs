//! What nobody would send or write: thousands of spoiled packets through the datapath by BPF_PROG_TEST_RUN, and spoiled
//! configurations through the reader. Nothing crashes, nothing is lost without being counted, nothing is refused without a reason.
//! (Spoiled adverts: `src/vrrp/packet.rs`, and here through a router's counters.)

mod common;
#[path = "common/lab.rs"]
mod lab;
#[path = "common/site.rs"]
mod site;

use common::*;
use lab::{Kind, Lab};
use proptest::prelude::*;
use proptest::test_runner::{Config as Runs, TestRng, TestRunner};
use site::{DROP, PASS, REDIRECT, TX, director, server, service, three};
use sluice_l4::config::model::{Forwarding, Scheduler};
use sluice_l4::config::{NoHost, accepted, parse, runnable};
use std::time::Duration;

/// A generator of random bits that is the same in every run.
fn rng() -> TestRng {
    TestRunner::deterministic().new_rng()
}

fn below(rng: &mut TestRng, n: usize) -> usize {
    (rng.next_u64() % n.max(1) as u64) as usize
}

/// Good frames of every kind the datapath knows.
fn frames() -> Vec<Vec<u8>> {
    let addr = |text: &str| site::ip(text);
    let mut all = Vec::new();
    for vip in ["10.0.0.100", "10.0.0.101", "10.0.0.102", "10.0.0.99"] {
        for flags in [SYN, ACK, FIN | ACK, RST] {
            all.push(tcp("10.9.0.1", 4000, vip, 80, flags));
        }
        all.push(udp("10.9.0.1", 53, vip, 80));
        let (c, v) = (addr("10.9.0.1"), addr(vip));
        let segment = segment(c, v, 6, 9, 80, ACK, &[7; 64]);
        for fragment in [0x2000, 0x2003, 0x0003] {
            all.push(ethernet(&common::ip(c, v, 6, &segment, fragment, &[])));
        }
        all.push(ethernet(&common::ip(c, v, 6, &segment, 0, &[1, 1, 1, 0])));
        // An ICMP error that quotes a packet of a server's.
        let mut icmp = vec![3, 4, 0, 0, 0, 0, 5, 0];
        icmp.extend(common::ip(v, c, 6, &segment[..8], 0, &[]));
        all.push(ethernet(&common::ip(addr("10.7.0.1"), v, 1, &icmp, 0, &[])));
        let echo = [8, 0, 0, 0, 0, 1, 0, 1];
        all.push(ethernet(&common::ip(c, v, 1, &echo, 0, &[])));
    }
    for vip in ["fd00::100", "fd00::102"] {
        all.push(tcp("fd00:9::1", 4000, vip, 80, SYN));
        all.push(udp("fd00:9::1", 4000, vip, 80));
        let (c, v) = (addr("fd00:9::1"), addr(vip));
        let segment = segment(c, v, 6, 9, 80, SYN, &[]);
        for (header, first) in [(44u8, [6, 0, 0, 1]), (0, [6, 0, 1, 4]), (60, [6, 0, 1, 4])] {
            let mut body = first.to_vec();
            body.extend([0, 0, 0, 9]);
            body.extend(&segment);
            all.push(ethernet(&common::ip(c, v, header, &body, 0, &[])));
        }
    }
    // Tunnelled.
    let inner = &tcp("10.9.0.1", 4000, "10.0.0.100", 80, SYN)[14..];
    let (a, b) = (addr("10.0.0.2"), addr("10.0.0.11"));
    all.push(ethernet(&common::ip(a, b, 4, inner, 0, &[])));
    all
}

/// Changes, cuts or lengthens.
fn spoil(frame: &mut Vec<u8>, rng: &mut TestRng) {
    for _ in 0..1 + below(rng, 4) {
        match below(rng, 8) {
            0 => frame.truncate(14 + below(rng, frame.len().saturating_sub(13))),
            1 => frame.extend((0..below(rng, 80)).map(|n| n as u8)),
            // Version, header length, protocol and the like are bytes of few values.
            2 => {
                let at = [14, 16, 17, 20, 21, 23, 34, 46, 47][below(rng, 9)];
                if let Some(byte) = frame.get_mut(at) {
                    *byte = rng.next_u32() as u8;
                }
            }
            _ => {
                let at = below(rng, frame.len());
                if let Some(byte) = frame.get_mut(at) {
                    *byte = rng.next_u32() as u8;
                }
            }
        }
    }
    // BPF_PROG_TEST_RUN takes no frame without an Ethernet header.
    frame.resize(frame.len().max(14), 0);
}

#[test]
fn spoiled_packets_are_passed_directed_or_counted() {
    privileged!();
    let web = |name: &str, vip: &str, servers| {
        let mut s = service(Scheduler::RoundRobin, vip, servers);
        s.name = name.into();
        s
    };
    let nat = three(Forwarding::Nat, [1, 1, 1]);
    let mut d = director(&[
        web(
            "dr",
            "10.0.0.100",
            three(Forwarding::DirectRouting, [1, 1, 1]),
        ),
        web("tun", "10.0.0.101", three(Forwarding::Tunnel, [1, 1, 1])),
        web("nat", "10.0.0.102", nat),
        web(
            "dr6",
            "fd00::100",
            vec![server("fd00::11", Forwarding::DirectRouting, 1)],
        ),
        web(
            "nat6",
            "fd00::102",
            vec![server("fd00::12", Forwarding::Nat, 1)],
        ),
    ]);
    d.programs
        .set_tunnel_end(site::ip("10.0.0.11"))
        .expect("a tunnel's end");
    let good = frames();
    let mut rng = rng();
    // Why a frame is not sent on; each frame that is dropped counts in one of them.
    const REASONS: [&str; 7] = [
        "no_server",
        "no_next_hop",
        "malformed",
        "fragment_lost",
        "no_room",
        "ttl",
        "too_long",
    ];
    let dropped = |d: &sluice_l4::datapath::Director| -> u64 {
        REASONS.iter().map(|r| d.programs.counter(r)).sum()
    };
    let mut verdicts = [0u32; 5];
    for round in 0..5_000 {
        let mut frame = good[below(&mut rng, good.len())].clone();
        if round >= good.len() {
            spoil(&mut frame, &mut rng);
        }
        let before = (d.programs.counter("seen"), dropped(&d));
        let ran = site::run(&mut d, &frame);
        assert!(
            [DROP, PASS, TX, REDIRECT].contains(&ran.verdict),
            "verdict {} for {frame:02x?}",
            ran.verdict
        );
        verdicts[ran.verdict as usize] += 1;
        assert_eq!(d.programs.counter("seen"), before.0 + 1, "{frame:02x?}");
        if ran.verdict == DROP {
            assert_eq!(dropped(&d), before.1 + 1, "uncounted: {frame:02x?}");
        }
        let ran = d.programs.test_run("decap", &frame, 1).unwrap();
        assert!([DROP, PASS].contains(&ran.verdict), "{frame:02x?}");
    }
    eprintln!("dropped, passed, sent: {:?}", &verdicts[1..]);
    assert!(
        verdicts.iter().skip(1).take(3).all(|n| *n > 5),
        "{verdicts:?}"
    );
}

/// Pieces of the language, for configurations that nobody wrote.
fn corpus() -> Vec<&'static str> {
    include_str!("keepalived.corpus")
        .split("=== ")
        .filter_map(|c| Some(c.split_once('\n')?.1))
        .collect()
}

proptest! {
    #![proptest_config(Runs::with_cases(400))]

    #[test]
    fn spoiled_configurations_are_read_or_refused_with_a_reason(
        picks in prop::collection::vec(any::<prop::sample::Index>(), 1..4),
        cuts in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0..6u8), 0..8),
    ) {
        let cases = corpus();
        let text: String = picks.iter().map(|p| *p.get(&cases)).collect();
        let mut lines: Vec<String> = text.lines().map(String::from).collect();
        for (at, other, how) in cuts {
            if lines.is_empty() {
                break;
            }
            let (at, other) = (at.index(lines.len()), other.index(lines.len()));
            match how {
                0 => drop(lines.remove(at)),
                1 => lines.swap(at, other),
                2 => lines.insert(at, lines[other].clone()),
                3 => lines[at] = lines[at].chars().rev().collect(),
                4 => lines[at] = format!("{} {}", lines[at], lines[other]),
                _ => lines[at] = lines[at].split_whitespace().next().unwrap_or("").into(),
            }
        }
        let text = lines.join("\n");
        let (_, found) = parse(&NoHost, "t", &text, "");
        prop_assert!(found.iter().all(|d| !d.message.is_empty()));
        if !accepted(&found) || !runnable(&found) {
            prop_assert!(!found.is_empty());
        }
    }
}

#[test]
fn spoiled_adverts_are_counted_and_change_nothing() {
    if lab::is_missing(&["python3"]) {
        return;
    }
    let mut lab = Lab::new(2);
    let config = "vrrp_instance VI {\n interface eth1\n virtual_router_id 51\n priority 100\n version 3\n advert_int 0.1\n virtual_ipaddress {\n 10.0.0.100/24\n }\n}\n";
    lab.start("a", Kind::Sluice, config);
    lab.master("a", "10.0.0.100", 10);
    let sent = 50;
    // Messages for this router with anything behind the first two bytes.
    let script = format!(
        "import os, random, socket, sys; random.seed(int(sys.argv[1]))\ns = socket.socket(socket.AF_INET, socket.SOCK_RAW, 112)\n\
         s.setsockopt(0, 33, 255); s.setsockopt(0, 32, socket.inet_aton('10.0.0.2'))\n\
         for n in range({sent}): s.sendto(bytes([0x31, 51]) + bytes(random.randrange(256) for _ in range(random.randrange(60))), ('224.0.0.18', 0))\n"
    );
    let file = lab.path("adverts.py");
    std::fs::write(&file, script).unwrap();
    let counts = |lab: &Lab| lab.show("a")["routers"][0]["counts"].clone();
    let counted = |counts: &serde_json::Value| -> u64 {
        let of = |map: &serde_json::Value| -> u64 {
            let values = map.as_object().into_iter().flat_map(|m| m.values());
            values.filter_map(serde_json::Value::as_u64).sum()
        };
        of(&counts["malformed"]) + counts["adverts_received"].as_u64().unwrap_or(0)
    };
    // Not all at once: a socket's buffer ends somewhere.
    for round in 1..=10 {
        lab.run("b", &format!("python3 {file} {round}"));
        lab.wait("all are counted", Duration::from_secs(8), |lab| {
            counted(&counts(lab)) == round * sent
        });
    }
    let counts = counts(&lab);
    assert!(
        counts["malformed"].as_object().is_some_and(|m| m.len() > 1),
        "{counts}"
    );
    assert_eq!(counts["release_master"], 0, "{counts}");
    assert!(lab.has("a", "10.0.0.100"));
}
