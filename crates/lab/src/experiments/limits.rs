//! Limits: many connections, idle connections, and slow readers beside fast ones.

use super::published::{self, Beside};
use super::{Plan, cell, colour, gets, table_of_peers, telling, try_measure};
use crate::compare::peer::{Peer, Running};
use crate::host::{self, Stop};
use crate::inject;
use crate::measure::{Sample, Span};
use crate::net::{self, Io};
use crate::report::Report;
use crate::report::chart::{Chart, Series, Side};
use crate::stand::Stand;
use crate::units::{show_count, show_ns, show_size};
use anyhow::{Context, Result, ensure};
use rustix::fd::OwnedFd;
use rustix::net::RecvFlags;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

const CONNS: [usize; 5] = [1, 8, 64, 500, 2000];
const IDLE: [usize; 4] = [100, 1000, 2500, 5000];
const SHORT_IDLE: [usize; 2] = [500, 2000];
/// Slow readers, and the fast ones beside them.
const SLOW: usize = 200;
const FAST: usize = 16;

/// Runs all three.
///
/// # Errors
/// When the stand cannot be built.
pub fn run(plan: &Plan) -> Result<Report> {
    let mut report = Report::new(
        "limits",
        "Limits",
        "A 64-byte object over 1 to 2 000 kept connections; what an idle connection costs in memory; and what fast clients \
         feel of a crowd that reads a kilobyte now and then.",
    );
    let stand = plan.stand(None)?;
    let mut data = Vec::new();
    conns(plan, &stand, &mut report, &mut data);
    idle(plan, &stand, &mut report, &mut data);
    slow(plan, &stand, &mut report, &mut data);
    let most = data.iter().filter(|d| d["aspect"] == "idle");
    let idle: Vec<_> = most.cloned().collect();
    let held = |peer: Peer| {
        let last = idle.iter().rfind(|d| d["proxy"] == peer.name())?;
        Some(cell(
            last["sample"]["cost"].as_f64().map(|cost| 1e9 / cost),
            show_count,
        ))
    };
    let rows = [Beside::new(
        "connections that 1 GB holds (published: busy, the system's buffers too; here: idle, the process alone)",
        "20000",
        &plan.peers,
        held,
    )];
    let missing = "Of connections beyond that and of slow readers nothing published was at hand.";
    published::sizing(&mut report, &plan.peers, &rows, missing);
    report.data = Value::Array(data);
    Ok(report)
}

fn conns(plan: &Plan, stand: &Stand, report: &mut Report, data: &mut Vec<Value>) {
    let span = plan.span(Duration::from_secs(10), Duration::from_millis(600));
    let mut table = table_of_peers("connections", &plan.peers);
    let mut rates = table.clone();
    let mut lines: Vec<(Peer, Vec<(f64, f64)>)> =
        plan.peers.iter().map(|&p| (p, Vec::new())).collect();
    for conns in CONNS {
        telling(&format!("limits: {conns} connections"));
        let (mut row, mut rate_row) = (vec![conns.to_string()], vec![conns.to_string()]);
        for (peer, points) in &mut lines {
            let sample = try_measure(
                report,
                stand,
                *peer,
                |_| {},
                |proxy| {
                    let load = gets(proxy, "/?s=64", conns, false)?;
                    stand.measure(proxy, load, span)
                },
            );
            row.push(cell(sample.as_ref().map(|s| s.cost), |v| format!("{v:.2}")));
            rate_row.push(cell(sample.as_ref().map(|s| s.requests_per_s), show_count));
            if let Some(sample) = sample {
                points.push((conns as f64, sample.cost));
                data.push(json!({"aspect": "connections", "proxy": peer.name(), "conns": conns, "sample": sample}));
            }
        }
        table.row(row);
        rates.row(rate_row);
    }
    report.heading("64 B over kept connections: microseconds of the proxy's CPU per request");
    report.table(table);
    let series = |(peer, points): &(Peer, Vec<(f64, f64)>)| Series {
        name: peer.name().to_owned(),
        colour: colour(*peer),
        side: Side::Left,
        points: points.clone(),
    };
    report.chart(
        "connections",
        Chart {
            title: "CPU per request over connections".to_owned(),
            x_label: "connections".to_owned(),
            x_log: true,
            x_show: |v| format!("{v:.0}"),
            left_label: "us per request".to_owned(),
            right_label: None,
            y_show: |v| format!("{v:.0}"),
            series: lines.iter().map(series).collect(),
        },
    );
    report.heading("64 B over kept connections: requests per second");
    report.table(rates);
}

fn idle(plan: &Plan, stand: &Stand, report: &mut Report, data: &mut Vec<Value>) {
    let counts: &[usize] = if plan.short { &SHORT_IDLE } else { &IDLE };
    let mut table = table_of_peers("idle connections", &plan.peers);
    for &conns in counts {
        telling(&format!("limits: {conns} idle connections"));
        let mut row = vec![conns.to_string()];
        for &peer in &plan.peers {
            let sample = try_measure(
                report,
                stand,
                peer,
                |_| {},
                |proxy| idle_memory(stand, proxy, conns),
            );
            row.push(cell(sample.as_ref().map(|s| s.cost), |v| {
                format!("{v:.0} B")
            }));
            if let Some(sample) = sample {
                data.push(json!({"aspect": "idle", "proxy": peer.name(), "conns": conns, "sample": sample}));
            }
        }
        table.row(row);
    }
    report.heading(
        "resident memory per idle keep-alive connection (client's and server's side together)",
    );
    report.table(table);
}

/// Opens `conns` connections that each make one request, and reads what they added to the proxy's memory.
///
/// # Errors
/// When they do not all stand in time, or the proxy dies.
pub fn idle_memory(stand: &Stand, proxy: &mut Running, conns: usize) -> Result<Sample> {
    const OPEN_TIMEOUT: Duration = Duration::from_secs(30);
    const SETTLE: Duration = Duration::from_millis(500);
    let base = gets(proxy, "/?s=64", conns, false)?;
    // What a first request allocates once is no cost of a connection.
    let few = inject::Options {
        conns: 16,
        requests_max: Some(1000),
        ..base.clone()
    };
    stand.load(few)?.wait(|_| {})?;
    let _ = host::sleep(SETTLE / 2);
    let before = proxy.process.resident_bytes();
    let ramp = Duration::from_secs(1);
    let load = stand.load(inject::Options {
        requests_per_conn: Some(1),
        hold: true,
        ramp,
        ..base
    })?;
    let until = Instant::now() + OPEN_TIMEOUT;
    while load.totals().requests < conns as u64 {
        let totals = load.totals();
        ensure!(
            Instant::now() < until,
            "only {} connections stand ({} errors)",
            totals.requests,
            totals.errors
        );
        proxy.process.check_alive()?;
        ensure!(host::sleep(Duration::from_millis(50)), "interrupted");
    }
    let _ = host::sleep(SETTLE);
    let after = proxy.process.resident_bytes();
    let totals = load.totals();
    load.stop()?;
    let cost = after.saturating_sub(before) as f64 / conns as f64;
    Ok(Sample {
        errors: totals.errors,
        resident_bytes: after,
        ..Sample::of_cost(cost)
    })
}

fn slow(plan: &Plan, stand: &Stand, report: &mut Report, data: &mut Vec<Value>) {
    let span = plan.span(Duration::from_secs(10), Duration::from_millis(800));
    let mut table = crate::report::Table::new(&[
        "proxy",
        "alone p50",
        "p99",
        "beside the crowd p50",
        "p99",
        "req/s alone",
        "beside",
        "memory a slow one",
    ]);
    for &peer in &plan.peers {
        telling(&format!("limits: slow readers, {}", peer.name()));
        let mut alone = None;
        let beside = try_measure(
            report,
            stand,
            peer,
            |_| {},
            |proxy| {
                alone = Some(fast(stand, proxy, span)?);
                let before = proxy.process.resident_bytes();
                let crowd = stand.at_client(|| Crowd::start(proxy.addr))?;
                let _ = host::sleep(Duration::from_millis(500));
                let mut sample = fast(stand, proxy, span)?;
                sample.resident_bytes = proxy.process.resident_bytes().saturating_sub(before);
                drop(crowd);
                Ok(sample)
            },
        );
        let (Some(alone), Some(beside)) = (alone, beside) else {
            continue;
        };
        table.row([
            peer.name().to_owned(),
            show_ns(alone.latency_ns[0]),
            show_ns(alone.latency_ns[2]),
            show_ns(beside.latency_ns[0]),
            show_ns(beside.latency_ns[2]),
            show_count(alone.requests_per_s),
            show_count(beside.requests_per_s),
            show_size(beside.resident_bytes / SLOW as u64),
        ]);
        data.push(json!({"aspect": "slow readers", "proxy": peer.name(), "alone": alone, "beside": beside}));
    }
    report.heading(&format!(
        "{FAST} fast connections beside {SLOW} that read 1 KiB of a 1 MiB object every 50 ms"
    ));
    report.table(table);
}

fn fast(stand: &Stand, proxy: &mut Running, span: Span) -> Result<Sample> {
    let load = gets(proxy, "/?s=64", FAST, false)?;
    stand.measure(proxy, load, span)
}

/// Clients that ask for much and read little.
struct Crowd {
    stop: Stop,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Crowd {
    fn start(target: SocketAddr) -> Result<Self> {
        const PAUSE: Duration = Duration::from_millis(50);
        let mut conns = Vec::new();
        for _ in 0..SLOW {
            conns.push(slow_reader(target)?);
        }
        let stop = Stop::new()?;
        let seen = stop.clone();
        let thread = std::thread::Builder::new()
            .name("slow-readers".to_owned())
            .spawn(move || {
                let mut buffer = [0; 1024];
                while !seen.is_set() {
                    for conn in &conns {
                        let _ = net::recv(conn, &mut buffer, RecvFlags::empty());
                    }
                    std::thread::sleep(PAUSE);
                }
            })?;
        Ok(Self {
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        self.stop.set();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A connection with a small window that has asked for a mebibyte.
fn slow_reader(target: SocketAddr) -> Result<OwnedFd> {
    const WINDOW_BYTES: usize = 4096;
    const TRIES: usize = 100;
    let (fd, _) = net::connect(target, None)?;
    let _ = rustix::net::sockopt::set_socket_recv_buffer_size(&fd, WINDOW_BYTES);
    for _ in 0..TRIES {
        match net::send(&fd, b"GET /?s=1m HTTP/1.1\r\nHost: slow\r\n\r\n", false) {
            Io::Bytes(_) => return Ok(fd),
            Io::Blocked => std::thread::sleep(Duration::from_millis(5)),
            Io::End | Io::Failed(_) => break,
        }
    }
    None.context("a slow reader could not connect")
}
