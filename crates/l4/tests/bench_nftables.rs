//! Packets per second and core beside nftables: `make l4-bench`. A measurement, no test.
//!
//! ```text
//! core 0: generator (live frames) -> gd        core 0: sd -> drop, counted
//!                                     |                 ^
//! core 1, alone:                     dg -> director -> ds
//! ```
//!
//! The director's receiving side is a NAPI thread (`threaded`) pinned to core 1, and nothing else of the path runs there;
//! what that thread has run (its schedstat, in nanoseconds) divided by the packets that it has directed is the cost of a packet,
//! and its inverse what a core of directing can carry. Generator and receiver are not in it, and a packet that the far end's full
//! queue loses has been directed all the same (for nftables `ds` counts those as dropped). Whatever the thread does
//! belongs to it on both sides: taking frames from the queue, for nftables making the sk_buff that it needs, the hook, and
//! putting frames into the next queue.

mod common;
#[path = "common/lab.rs"]
mod lab;
#[path = "common/table.rs"]
mod table;

use common::*;
use lab::ip;
use sluice_l4::config::model::{Forwarding, Scheduler};
use sluice_l4::datapath::programs::{Mode, Programs, Sizes};
use std::time::{Duration, Instant};
use table::{director, median, service};

/// Namespaces: g (generator) - d (director) - s (server), veths between them.
struct Path {
    name: String,
}

impl Path {
    fn new() -> Path {
        let path = Path {
            name: format!("sl5b-{}", std::process::id()),
        };
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
    fn run(&self, n: &str, script: &str) {
        let out = std::process::Command::new("ip")
            .args(["netns", "exec", &self.ns(n), "sh", "-c", script])
            .output()
            .unwrap();
        assert!(out.status.success(), "{script}: {out:?}");
    }
}

impl Path {
    /// What the stack has handed to an interface of d, whether or not the other end took it.
    fn handed(&self, link: &str) -> u64 {
        let text = ip(&format!("-n {} -s -j link show {link}", self.ns("d")));
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        let of = |key: &str| value[0]["stats64"]["tx"][key].as_u64().unwrap_or(0);
        of("packets") + of("dropped")
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

fn pin(pid: Option<i32>, core: usize) {
    let mut set = rustix::thread::CpuSet::new();
    set.set(core);
    rustix::thread::sched_setaffinity(pid.and_then(rustix::process::Pid::from_raw), &set).unwrap();
}

/// Pins a NAPI thread and lets it go before everything else there: neither the generator nor the machine's other work may
/// keep a queue waiting until it overflows.
fn reserve(pid: i32, core: usize) {
    pin(Some(pid), core);
    let done = std::process::Command::new("chrt")
        .args(["-f", "-p", "10", &pid.to_string()])
        .status();
    assert!(done.is_ok_and(|s| s.success()), "chrt fails");
}

/// The NAPI threads of an interface (numbered anew whenever a program is attached).
fn napi_threads(interface: &str) -> Vec<i32> {
    let prefix = format!("napi/{interface}-");
    std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|e| e.ok()?.file_name().to_str()?.parse::<i32>().ok())
        .filter(|pid| {
            std::fs::read_to_string(format!("/proc/{pid}/comm"))
                .is_ok_and(|c| c.starts_with(&prefix))
        })
        .collect()
}

/// Nanoseconds a thread has run.
fn ran_ns(pid: i32) -> u64 {
    std::fs::read_to_string(format!("/proc/{pid}/schedstat"))
        .unwrap()
        .split_whitespace()
        .next()
        .unwrap()
        .parse()
        .unwrap()
}

/// Sends for about `time`; frames sent.
fn send(generator: &mut Programs, ifindex: u32, frame: &[u8], time: Duration) -> u64 {
    let mut context = vec![0; 24];
    context[4..8].copy_from_slice(&(frame.len() as u32).to_ne_bytes());
    context[12..16].copy_from_slice(&ifindex.to_ne_bytes());
    let began = Instant::now();
    let mut sent = 0u64;
    while began.elapsed() < time {
        generator
            .live_frames("generate", frame, &context, 50_000)
            .unwrap();
        sent += 50_000;
    }
    sent
}

fn nft(rules: Option<&str>) {
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
}

/// The cheapest balancing nftables has: at ingress of the device, no connection tracking, a hash into a map of MACs.
const RULES: &str = "table netdev l4 {\n chain balance {\n type filter hook ingress device dg priority 0; policy accept;\n \
    ip daddr 10.1.0.1 tcp dport 80 ether saddr set 02:00:00:00:00:02 ether daddr set jhash ip saddr . tcp sport mod 3 \
    map { 0 : 02:00:00:01:00:0b, 1 : 02:00:00:01:00:0c, 2 : 02:00:00:01:00:0d } fwd to ds\n }\n}\n";

#[test]
#[ignore = "a measurement"]
fn packets_per_second_and_core_beside_nftables() {
    privileged!();
    if aya::util::nr_cpus().unwrap_or(1) < 2 {
        eprintln!("skipped: two cores are needed");
        return;
    }
    pin(None, 0);
    let path = Path::new();
    path.enter("s");
    let mut sink = Programs::load(Sizes::small()).unwrap();
    sink.attach("drop", "sd", Mode::Driver).unwrap();
    path.run("s", "echo 1 > /sys/class/net/sd/threaded");
    path.enter("g");
    let gd = path.index("gd");
    let mut generator = Programs::load(Sizes::small()).unwrap();
    generator.attach("pass", "gd", Mode::Driver).unwrap();
    generator.set_generator(1 << 10).unwrap();
    path.enter("d");
    let ds = path.index("ds");
    let mut d = director(Sizes::default(), ds);
    let direct = |name, vip, one_packet| {
        service(
            name,
            vip,
            Scheduler::Maglev,
            Forwarding::DirectRouting,
            one_packet,
        )
    };
    d.apply(&[
        direct("flows", "10.1.0.1", false),
        direct("no flows", "10.1.0.2", true),
    ])
    .unwrap();
    let mut plain = Programs::load(Sizes::small()).unwrap();
    // ds needs a program before it takes redirected frames.
    let mut far = Programs::load(Sizes::small()).unwrap();
    far.attach("pass", "ds", Mode::Driver).unwrap();
    for pid in napi_threads("sd") {
        reserve(pid, 0);
    }
    let frame = |vip: &str| tcp("10.9.0.1", 1000, vip, 80, ACK);
    let names = [
        "taken and dropped (floor)",
        "Sluice DR, flow table",
        "Sluice DR, no flow table",
        "nftables, GRO off",
        "nftables, GRO on",
    ];
    // Nanoseconds of the thread a packet that it directed, and packets that arrive a second.
    let mut costs = vec![Vec::new(); names.len()];
    let mut rates = vec![Vec::new(); names.len()];
    let mut losses = vec![Vec::new(); names.len()];
    let time = Duration::from_millis(1200);
    for _ in 0..7 {
        for i in 0..names.len() {
            match i {
                0 => plain.attach("drop", "dg", Mode::Driver).unwrap(),
                1 | 2 => d.programs.attach("director", "dg", Mode::Driver).unwrap(),
                _ => plain.attach("pass", "dg", Mode::Driver).unwrap(),
            }
            let gro = if i == 4 { "on" } else { "off" };
            path.run(
                "d",
                &format!("ethtool -K dg gro {gro}; echo 1 > /sys/class/net/dg/threaded"),
            );
            if i > 2 {
                nft(Some(RULES));
            }
            let threads = napi_threads("dg");
            assert!(!threads.is_empty(), "dg has no NAPI thread");
            for pid in &threads {
                reserve(*pid, 1);
            }
            let vip = if i == 2 { "10.1.0.2" } else { "10.1.0.1" };
            let arrived = |plain: &Programs| {
                if i == 0 {
                    plain.counter("seen")
                } else {
                    sink.counter("seen")
                }
            };
            // What the director's thread has been through.
            let directed = |plain: &Programs, d: &sluice_l4::datapath::Director| match i {
                0 => plain.counter("seen"),
                1 | 2 => d.programs.counter("forwarded"),
                _ => path.handed("ds"),
            };
            let before = (arrived(&plain), directed(&plain, &d));
            let ran: u64 = threads.iter().map(|p| ran_ns(*p)).sum();
            path.enter("g");
            let began = Instant::now();
            let sent = send(&mut generator, gd, &frame(vip), time);
            path.enter("d");
            // What is queued still arrives.
            std::thread::sleep(Duration::from_millis(20));
            let took = began.elapsed().as_secs_f64();
            let ran = threads.iter().map(|p| ran_ns(*p)).sum::<u64>() - ran;
            let through = (directed(&plain, &d) - before.1) as f64;
            let packets = (arrived(&plain) - before.0) as f64;
            costs[i].push(ran as f64 / through);
            rates[i].push(packets / took);
            losses[i].push(1.0 - packets / sent as f64);
            nft(None);
        }
    }
    println!("director's thread alone on its core, median of 7 interleaved rounds:");
    println!(
        "{:<28} {:>12} {:>14} {:>14} {:>8}",
        "", "ns a packet", "Mpps a core", "arrived Mpps", "lost"
    );
    for (i, name) in names.iter().enumerate() {
        let cost = median(costs[i].clone());
        println!(
            "{name:<28} {cost:>12.0} {:>14.2} {:>14.2} {:>7.1}%",
            1e3 / cost,
            median(rates[i].clone()) / 1e6,
            median(losses[i].clone()) * 100.0
        );
    }
    let best = median(costs[3].clone()).min(median(costs[4].clone()));
    for i in [1, 2] {
        println!(
            "{}: {:.1} times nftables' packets per second and core",
            names[i],
            best / median(costs[i].clone())
        );
    }
}
