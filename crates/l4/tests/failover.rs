//! Failover times beside keepalived's: `make l4-failover`. Two directors on a switch, a third host that watches the wire.
//!
//! Every configuration is played by a pair of keepalived and by a pair of sluice-l4, in turns, and the master is killed (or told
//! to stop) so long after an advert as the other program's was in the same round: the moments are spread over the interval,
//! and both see the same ones. Over is when the watcher hears the other's first gratuitous ARP: from then on packets go there.

mod common;
#[path = "common/lab.rs"]
mod lab;
#[path = "common/wire.rs"]
mod wire;

use lab::{Kind, Lab};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use wire::{Seen, Wire};

const VIP: &str = "10.0.0.100";

#[derive(Clone, Copy, PartialEq)]
enum End {
    Kill,
    Terminate,
}

struct Case {
    name: &'static str,
    version: u8,
    interval_ms: u64,
    priority: u8,
    end: End,
}

/// Times of one change of office, in milliseconds.
struct Change {
    /// From the signal to the first gratuitous ARP of the other.
    signal_ms: f64,
    /// From the master's last advert (of any priority but 0) to that.
    advert_ms: f64,
}

fn config(case: &Case, priority: u8) -> String {
    format!(
        "global_defs {{\n vrrp_rt_priority 20\n}}\nvrrp_instance VI {{\n state BACKUP\n interface eth1\n virtual_router_id 51\n priority {priority}\n version {}\n advert_int {}\n \
         virtual_ipaddress {{\n {VIP}/24\n }}\n}}\n",
        case.version,
        case.interval_ms as f64 / 1000.0
    )
}

fn play(case: &Case, kind: Kind, phase: Duration) -> Change {
    let mut lab = Lab::new(3);
    let wire = Wire::open(&lab.ns("c"));
    let mac = lab.mac("b");
    lab.start("a", kind, &config(case, case.priority + 50));
    lab.start("b", kind, &config(case, case.priority));
    lab.master("a", VIP, 20);
    // The backup has heard it: two adverts more.
    let limit = Duration::from_millis(3 * case.interval_ms + 1000);
    let advert = |wire: &Wire| {
        wire.wait(
            limit,
            |s| matches!(s, Seen::Advert { host: 1, priority } if *priority > 0),
        )
        .expect("the master's adverts are heard")
    };
    advert(&wire);
    let last = advert(&wire);
    std::thread::sleep((last + phase).saturating_duration_since(Instant::now()));
    let signal = Instant::now();
    match case.end {
        End::Kill => lab.kill("a"),
        End::Terminate => lab.terminate("a"),
    }
    let over = wire
        .wait(limit * 3, |s| *s == Seen::Announced { mac, address: 100 })
        .expect("the other takes over");
    Change {
        signal_ms: over.duration_since(signal).as_secs_f64() * 1e3,
        advert_ms: over.duration_since(last).as_secs_f64() * 1e3,
    }
}

/// How late a thread of ours was woken at worst while work was done, on either of two processors.
fn lateness<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let done = Arc::new(AtomicBool::new(false));
    let watchers: Vec<_> = (0..2)
        .map(|core| {
            let done = done.clone();
            std::thread::spawn(move || {
                let _ = sluice_l4::sys::set_realtime(20);
                let mut set = rustix::thread::CpuSet::new();
                set.set(core);
                // A machine of one processor has no second.
                let _ = rustix::thread::sched_setaffinity(None, &set);
                let (nap, mut worst) = (Duration::from_millis(2), Duration::ZERO);
                while !done.load(Ordering::Relaxed) {
                    let began = Instant::now();
                    std::thread::sleep(nap);
                    worst = worst.max(began.elapsed().saturating_sub(nap));
                }
                worst
            })
        })
        .collect();
    let result = work();
    done.store(true, Ordering::Relaxed);
    let worst = watchers.into_iter().map(|w| w.join().expect("it watches"));
    (result, worst.max().unwrap_or_default())
}

/// A round counts if the machine kept up during it; if it never does, the last one has to.
fn attentive(work: impl Fn() -> Change) -> Change {
    const LATE: Duration = Duration::from_millis(8);
    for _ in 0..12 {
        let (change, late) = lateness(&work);
        if late < LATE {
            return change;
        }
    }
    eprintln!("a round counts though the machine was not quiet");
    work()
}

fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn worst(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}

#[test]
#[ignore = "a measurement"]
fn failover_beside_keepalived() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: not root");
        return;
    }
    // Both programs' VRRP runs before everything else, and so does who looks at the clock: other work on the machine is not
    // what is measured.
    sluice_l4::sys::set_realtime(30).expect("root may");
    let rounds: u32 = std::env::var("ROUNDS")
        .ok()
        .and_then(|r| r.parse().ok())
        .unwrap_or(7);
    let case = |name, version, interval_ms, priority, end| Case {
        name,
        version,
        interval_ms,
        priority,
        end,
    };
    let cases = [
        case("v2 1 s, kill -9", 2, 1000, 100, End::Kill),
        case("v2 1 s, SIGTERM", 2, 1000, 100, End::Terminate),
        case("v3 1 s, kill -9", 3, 1000, 100, End::Kill),
        case("v3 100 ms, kill -9", 3, 100, 100, End::Kill),
        case("v3 100 ms, SIGTERM", 3, 100, 100, End::Terminate),
        case("v3 100 ms, kill -9, priority 200", 3, 100, 200, End::Kill),
        case(
            "v3 100 ms, SIGTERM, priority 200",
            3,
            100,
            200,
            End::Terminate,
        ),
        case("v3 10 ms, kill -9", 3, 10, 100, End::Kill),
    ];
    // CASE: only those whose name contains it.
    let wanted = std::env::var("CASE").unwrap_or_default();
    let cases = cases.iter().filter(|c| c.name.contains(&wanted));
    println!(
        "milliseconds until the other host announces the address; {rounds} rounds in turns, median (worst)"
    );
    println!(
        "{:<34} {:>20} {:>20}   {:>20} {:>20}",
        "", "Sluice, signal", "keepalived, signal", "Sluice, last advert", "keepalived, l. advert"
    );
    for case in cases {
        let mut times = [(Vec::new(), Vec::new()), (Vec::new(), Vec::new())];
        for round in 0..rounds {
            // The middle of each part of the interval.
            let phase = Duration::from_millis(case.interval_ms) * (2 * round + 1) / (2 * rounds);
            let mut kinds = [(0, Kind::Sluice), (1, Kind::Keepalived)];
            if round % 2 == 1 {
                kinds.reverse();
            }
            for (i, kind) in kinds {
                let change = attentive(|| play(case, kind, phase));
                times[i].0.push(change.signal_ms);
                times[i].1.push(change.advert_ms);
            }
        }
        let cell = |v: &[f64]| format!("{:.0} ({:.0})", median(v), worst(v));
        println!(
            "{:<34} {:>20} {:>20}   {:>20} {:>20}",
            case.name,
            cell(&times[0].0),
            cell(&times[1].0),
            cell(&times[0].1),
            cell(&times[1].1)
        );
    }
}
