//! Measurements, not tests: `make l4-bench`. Each prints medians of interleaved rounds.

mod common;
#[path = "common/table.rs"]
mod table;

use common::*;
use sluice_l4::config::model::{Forwarding, Scheduler};
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
    let walk = Instant::now();
    let alive = d.sweep(0).unwrap();
    println!("walking {alive} flows takes {:?}", walk.elapsed());
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
