//! Measurements, not tests: `make l4-bench`. Each prints medians of interleaved rounds.

mod common;
#[path = "common/lab.rs"]
mod lab;

use common::*;
use lab::ip;
use sluice_l4::config::model::{Forwarding, Protocol, Scheduler};
use sluice_l4::datapath::director::{Director, Egress, Server, Service, Vip};
use sluice_l4::datapath::layout::Settings;
use sluice_l4::datapath::programs::{Mode, Programs, Sizes};
use std::net::IpAddr;
use std::time::{Duration, Instant};

fn addr(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn service(
    name: &str,
    vip: &str,
    scheduler: Scheduler,
    forwarding: Forwarding,
    one_packet: bool,
) -> Service {
    let servers = (11..=13)
        .map(|n| Server {
            ip: addr(&format!("10.0.0.{n}")),
            port: 80,
            forwarding,
            weight: 1,
            conns_max: 0,
        })
        .collect();
    Service {
        name: name.into(),
        vips: vec![Vip {
            ip: addr(vip),
            port: 80,
            protocol: Protocol::Tcp,
        }],
        scheduler,
        hash_port: true,
        hash_fallback: false,
        one_packet,
        persistence: None,
        servers,
    }
}

fn director(sizes: Sizes, ifindex: u32) -> Director {
    let mut d = Director::new(sizes, Settings::default()).unwrap();
    for n in 11..=13 {
        d.set_egress(
            addr(&format!("10.0.0.{n}")),
            Some(Egress {
                ifindex,
                next_hop: [2, 0, 0, 1, 0, n],
                own_mac: DIRECTOR_MAC,
                source: addr("10.0.0.2"),
            }),
        )
        .unwrap();
    }
    d
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[test]
#[ignore = "a measurement"]
fn nanoseconds_per_packet() {
    privileged!();
    let mut d = director(Sizes::default(), 1);
    d.apply(&[
        service(
            "flows",
            "10.1.0.1",
            Scheduler::Maglev,
            Forwarding::DirectRouting,
            false,
        ),
        service(
            "no flows",
            "10.1.0.2",
            Scheduler::Maglev,
            Forwarding::DirectRouting,
            true,
        ),
        service(
            "tunnel",
            "10.1.0.3",
            Scheduler::Maglev,
            Forwarding::Tunnel,
            false,
        ),
    ])
    .unwrap();
    const ROUNDS: usize = 15;
    const REPEAT: u32 = 500_000;
    let frame = |vip: &str| tcp("10.9.0.1", 1000, vip, 80, ACK);
    let cases = [
        ("empty program", "pass", frame("10.1.0.1")),
        ("not a virtual address", "director", frame("10.1.0.9")),
        ("DR without flow table", "director", frame("10.1.0.2")),
        ("DR with flow table", "director", frame("10.1.0.1")),
    ];
    let mut results = vec![Vec::new(); cases.len()];
    for _ in 0..ROUNDS {
        for (i, (_, program, frame)) in cases.iter().enumerate() {
            results[i].push(
                d.programs
                    .test_run(program, frame, REPEAT)
                    .unwrap()
                    .duration
                    .as_nanos() as f64,
            );
        }
    }
    println!("nanoseconds per packet, median of {ROUNDS} interleaved rounds of {REPEAT}:");
    for ((name, _, _), values) in cases.iter().zip(&results) {
        println!("  {name:<24} {:6.0}", median(values.clone()));
    }
    // A tunnelled packet is another packet afterwards: single runs, each with its own overhead, less that of the empty program.
    let (mut empty, mut tunnel, mut direct) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..3000 {
        empty.push(
            d.programs
                .test_run("pass", &frame("10.1.0.3"), 1)
                .unwrap()
                .duration
                .as_nanos() as f64,
        );
        direct.push(
            d.programs
                .test_run("director", &frame("10.1.0.1"), 1)
                .unwrap()
                .duration
                .as_nanos() as f64,
        );
        tunnel.push(
            d.programs
                .test_run("director", &frame("10.1.0.3"), 1)
                .unwrap()
                .duration
                .as_nanos() as f64,
        );
    }
    let floor = median(empty);
    println!(
        "single cold runs over the empty program's {floor:.0}: DR {:+.0}, TUN {:+.0}",
        median(direct) - floor,
        median(tunnel) - floor
    );
}

/// Namespaces: g (generator) - d (director) - s (server), veths between them.
struct Path {
    name: String,
}

impl Path {
    fn new() -> Path {
        let name = format!("l4b-{}", std::process::id());
        let path = Path { name };
        for n in ["g", "d", "s"] {
            ip(&format!("netns add {}", path.ns(n)));
        }
        let (g, d, s) = (path.ns("g"), path.ns("d"), path.ns("s"));
        ip(&format!(
            "-n {d} link add dg type veth peer name gd netns {g}"
        ));
        ip(&format!(
            "-n {d} link add ds type veth peer name sd netns {s}"
        ));
        for (ns, link) in [(&g, "gd"), (&d, "dg"), (&d, "ds"), (&s, "sd")] {
            ip(&format!("-n {ns} link set {link} up"));
        }
        path
    }
    fn ns(&self, n: &str) -> String {
        format!("{}-{n}", self.name)
    }
    fn enter(&self, n: &str) {
        let file = std::fs::File::open(format!("/run/netns/{}", self.ns(n))).unwrap();
        rustix::thread::move_into_link_name_space(
            std::os::fd::AsFd::as_fd(&file),
            Some(rustix::thread::LinkNameSpaceType::Network),
        )
        .unwrap();
    }
    fn index(&self, link: &str) -> u32 {
        sluice_l4::netlink::Netlink::open()
            .unwrap()
            .link(link)
            .unwrap()
            .unwrap()
            .index
    }
}

impl Drop for Path {
    fn drop(&mut self) {
        for n in ["g", "d", "s"] {
            let _ = std::process::Command::new("ip")
                .args(["netns", "del", &self.ns(n)])
                .status();
        }
    }
}

/// Sends for about `time`; frames per second.
fn send(generator: &mut Programs, ifindex: u32, frame: &[u8], time: Duration) -> f64 {
    let mut context = vec![0; 24];
    context[4..8].copy_from_slice(&(frame.len() as u32).to_ne_bytes());
    context[12..16].copy_from_slice(&ifindex.to_ne_bytes());
    let began = Instant::now();
    let mut sent = 0u64;
    while began.elapsed() < time {
        generator
            .live_frames("generate", frame, &context, 100_000)
            .unwrap();
        sent += 100_000;
    }
    sent as f64 / began.elapsed().as_secs_f64()
}

/// All in one thread, so on one core: generator, director and receiver share it.
#[test]
#[ignore = "a measurement"]
fn packets_per_second_beside_nftables() {
    privileged!();
    let path = Path::new();
    path.enter("s");
    let mut sink = Programs::load(Sizes::small()).unwrap();
    sink.attach("drop", "sd", Mode::Driver).unwrap();
    path.enter("g");
    let gd = path.index("gd");
    let mut generator = Programs::load(Sizes::small()).unwrap();
    generator.attach("pass", "gd", Mode::Driver).unwrap();
    generator.set_generator(1 << 10).unwrap();
    path.enter("d");
    let ds = path.index("ds");
    let mut d = director(Sizes::default(), ds);
    d.apply(&[
        service(
            "flows",
            "10.1.0.1",
            Scheduler::Maglev,
            Forwarding::DirectRouting,
            false,
        ),
        service(
            "no flows",
            "10.1.0.2",
            Scheduler::Maglev,
            Forwarding::DirectRouting,
            true,
        ),
    ])
    .unwrap();
    let mut plain = Programs::load(Sizes::small()).unwrap();
    // ds needs a program before it takes redirected frames.
    let mut far = Programs::load(Sizes::small()).unwrap();
    far.attach("pass", "ds", Mode::Driver).unwrap();
    let rules = |vip: &str, rule: &str| {
        format!(
            "table netdev l4 {{\n chain balance {{\n type filter hook ingress device dg priority 0; policy accept;\n ip daddr {vip} tcp dport 80 {rule}\n }}\n}}\n"
        )
    };
    let map = "map { 0 : 02:00:00:01:00:0b, 1 : 02:00:00:01:00:0c, 2 : 02:00:00:01:00:0d }";
    let hash = rules(
        "10.1.0.1",
        &format!(
            "ether saddr set 02:00:00:00:00:02 ether daddr set jhash ip saddr . tcp sport mod 3 {map} fwd to ds"
        ),
    );
    let nft = |rules: Option<&str>| {
        let _ = std::process::Command::new("nft")
            .args(["delete", "table", "netdev", "l4"])
            .stderr(std::process::Stdio::null())
            .status();
        if let Some(rules) = rules {
            let out = std::process::Command::new("nft")
                .arg(rules)
                .output()
                .expect("nft runs");
            assert!(
                out.status.success(),
                "{}",
                String::from_utf8_lossy(&out.stderr)
            );
        }
    };
    let frame = |vip: &str| tcp("10.9.0.1", 1000, vip, 80, ACK);
    let names = [
        "generator into a drop",
        "Sluice DR, flow table",
        "Sluice DR, no flow table",
        "nftables, hash and forward",
    ];
    let mut rates = vec![Vec::new(); names.len()];
    let time = Duration::from_millis(1500);
    for _ in 0..7 {
        for (i, _) in names.iter().enumerate() {
            match i {
                0 => plain.attach("drop", "dg", Mode::Driver).unwrap(),
                1 | 2 => d.programs.attach("director", "dg", Mode::Driver).unwrap(),
                _ => {
                    plain.attach("pass", "dg", Mode::Driver).unwrap();
                    nft(Some(&hash));
                }
            }
            let vip = if i == 2 { "10.1.0.2" } else { "10.1.0.1" };
            let before = sink.counter("seen");
            path.enter("g");
            let began = Instant::now();
            let sent = send(&mut generator, gd, &frame(vip), time);
            let rate = if i == 0 {
                sent
            } else {
                (sink.counter("seen") - before) as f64 / began.elapsed().as_secs_f64()
            };
            path.enter("d");
            rates[i].push(rate);
            nft(None);
        }
    }
    let floor = 1e9 / median(rates[0].clone());
    println!(
        "packets that arrive per second on one core (generator, director and receiver share it), median of 7 rounds:"
    );
    for (name, values) in names.iter().zip(&rates) {
        let rate = median(values.clone());
        println!(
            "  {name:<28} {:6.2} Mpps  {:5.0} ns a packet, {:5.0} ns beyond the generator",
            rate / 1e6,
            1e9 / rate,
            1e9 / rate - floor
        );
    }
}

/// New connections for a minute into a table of a million flows that is full after the first seconds: what the datapath
/// itself can take, without a network around it.
#[test]
#[ignore = "a measurement"]
fn new_connections_with_a_million_flows() {
    privileged!();
    let seconds: u64 = std::env::var("SECONDS_TO_RUN")
        .ok()
        .and_then(|s| s.parse().ok())
        .unwrap_or(60);
    let mut d = director(Sizes::default(), 1);
    d.apply(&[service(
        "flows",
        "10.1.0.1",
        Scheduler::RoundRobin,
        Forwarding::DirectRouting,
        false,
    )])
    .unwrap();
    d.programs.set_generator(1 << 30).unwrap();
    let frame = tcp("10.9.0.1", 1000, "10.1.0.1", 80, SYN);
    const BATCH: u32 = 50_000;
    let began = Instant::now();
    let (mut rates, mut total) = (Vec::new(), 0u64);
    while began.elapsed() < Duration::from_secs(seconds) {
        let ran = d.programs.test_run("direct_new", &frame, BATCH).unwrap();
        assert_eq!(ran.verdict, 3);
        total += u64::from(BATCH);
        // The first million fills the table.
        if total > 1 << 20 {
            rates.push(1e9 / ran.duration.as_nanos().max(1) as f64);
        }
    }
    assert_eq!(d.programs.counter("new_flow"), total);
    rates.sort_by(f64::total_cmp);
    let at = |share: f64| rates[(rates.len() as f64 * share) as usize] / 1e3;
    println!(
        "new connections per second and core into a full table ({} flows), batches of {BATCH}, {:.0} million in all: median {:.0} thousand, slowest hundredth {:.0} thousand, slowest batch {:.0} thousand",
        d.programs.flows().count(),
        total as f64 / 1e6,
        at(0.5),
        at(0.01),
        at(0.0)
    );
}
