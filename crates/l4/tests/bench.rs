//! Measurements, not tests: `make l4-bench`. Each prints medians of interleaved rounds.

mod common;
#[path = "common/table.rs"]
mod table;

use common::*;
use sluice_l4::config::model::{Forwarding, Scheduler};
use sluice_l4::datapath::director::Director;
use sluice_l4::datapath::programs::Sizes;
use std::time::{Duration, Instant};
use table::{director, median, service};

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
        ("TUN with flow table", "tunnel_again", frame("10.1.0.3")),
    ];
    let mut results = vec![Vec::new(); cases.len()];
    for _ in 0..ROUNDS {
        for (i, (_, program, frame)) in cases.iter().enumerate() {
            let ran = d.programs.test_run(program, frame, REPEAT).unwrap();
            // XDP_TX: directed; XDP_PASS: the first two.
            assert_eq!(ran.verdict, if i < 2 { 2 } else { 3 });
            results[i].push(ran.duration.as_nanos() as f64);
        }
    }
    assert_eq!(d.programs.counter("no_room"), 0);
    println!("nanoseconds per packet, median of {ROUNDS} interleaved rounds of {REPEAT}:");
    for ((name, _, _), values) in cases.iter().zip(&results) {
        println!("  {name:<24} {:6.0}", median(values.clone()));
    }
    println!(
        "TUN: the time to take the outer header off again is in it, since the next run needs the packet as it came"
    );
}

/// What this thread has run so far (schedstat's first number): waiting for a processor is not in it.
fn thread_ns() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split(' ').next().unwrap().parse().unwrap()
}

/// What the hypervisor gave to others, and everything but idleness, of all processors: hundredths of a second.
fn stolen_and_busy() -> (f64, f64) {
    let text = std::fs::read_to_string("/proc/stat").unwrap();
    let line = text.lines().next().unwrap();
    let n: Vec<f64> = line
        .split_whitespace()
        .skip(1)
        .map(|w| w.parse().unwrap())
        .collect();
    (n[7], n[..8].iter().sum::<f64>() - n[3] - n[4])
}

/// Percentiles of what batches took, in nanoseconds a packet.
fn spread(name: &str, mut ns: Vec<f64>) {
    ns.sort_by(f64::total_cmp);
    let at = |share: f64| ns[((ns.len() - 1) as f64 * share) as usize];
    let median = at(0.5);
    let relative: Vec<String> = [0.01, 0.99, 0.999, 1.0]
        .iter()
        .map(|s| format!("{:.2}", at(*s) / median))
        .collect();
    println!(
        "  {name:<44} median {median:6.0} ns ({:5.0} thousand a second); 1st, 99th, 99.9th percentile and slowest batch: {} of it",
        1e6 / median,
        relative.join(", ")
    );
}

/// New connections for a minute into a table of a million flows that is full after the first seconds: what the datapath
/// itself can take, without a network around it. The control is the empty program in the same minute, in batches that take
/// about as long: what it loses is the machine's to answer for. A batch counts once by the clock and once by what this thread
/// ran in it.
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
    const CONTROL: u32 = 1_500_000;
    let run = |d: &mut Director, program: &'static str, repeat: u32| {
        let (began, before) = (Instant::now(), thread_ns());
        d.programs.test_run(program, &frame, repeat).unwrap();
        let ran = thread_ns() - before;
        let clock = began.elapsed().as_nanos() as f64;
        (clock / f64::from(repeat), ran / f64::from(repeat))
    };
    // The generator counts by itself on each processor: on another one its clients would come again.
    let mut one = rustix::thread::CpuSet::new();
    one.set(0);
    rustix::thread::sched_setaffinity(None, &one).unwrap();
    let mut total = 0u64;
    // The first million fills the table.
    while total <= 1 << 20 {
        run(&mut d, "direct_new", BATCH);
        total += u64::from(BATCH);
    }
    let (stolen, busy) = stolen_and_busy();
    let (began, own) = (Instant::now(), thread_ns());
    let mut ours = (Vec::new(), Vec::new());
    let mut control = (Vec::new(), Vec::new());
    while began.elapsed() < Duration::from_secs(seconds) {
        let (clock, ran) = run(&mut d, "direct_new", BATCH);
        ours.0.push(clock);
        ours.1.push(ran);
        total += u64::from(BATCH);
        let (clock, ran) = run(&mut d, "pass", CONTROL);
        control.0.push(clock);
        control.1.push(ran);
    }
    assert_eq!(d.programs.counter("new_flow"), total);
    let (stolen, busy) = {
        let now = stolen_and_busy();
        (now.0 - stolen, now.1 - busy)
    };
    let (own, elapsed) = (thread_ns() - own, began.elapsed());
    println!(
        "new connections into a full table of {} flows for {elapsed:.0?}, {:.0} million in all; meanwhile {:.1} s were stolen and others ran {:.1} s",
        d.programs.flows().count(),
        total as f64 / 1e6,
        stolen / 100.0,
        (busy - stolen) / 100.0 - own / 1e9
    );
    spread("new connection, by the clock", ours.0);
    spread("empty program, by the clock", control.0);
    spread("new connection, of this thread's time", ours.1);
    spread("empty program, of this thread's time", control.1);
    let walk = Instant::now();
    let alive = d.sweep(0).unwrap();
    println!("walking {alive} flows takes {:?}", walk.elapsed());
}
