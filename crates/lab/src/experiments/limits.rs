//! Limits: many connections, idle connections, and slow readers beside fast ones.

mod crowd;

use super::published::{self, Beside};
use super::{Plan, cell, colour, gets, table_of_peers, telling, try_measure};
use crate::compare::peer::{Peer, Running};
use crate::host;
use crate::inject;
use crate::measure::{Sample, Span};
use crate::report::Report;
use crate::report::chart::{Chart, Series, Side};
use crate::stand::Stand;
use crate::units::{show_count, show_ns, show_size};
use anyhow::{Result, ensure};
use crowd::{Crowd, SLOW};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const CONNS: [usize; 5] = [1, 8, 64, 500, 2000];
const IDLE: [usize; 4] = [100, 1000, 2500, 5000];
const SHORT_IDLE: [usize; 2] = [1000, 5000];
/// Fast clients beside the slow ones.
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
    for part in [conns, idle, slow] {
        if crate::sys::interrupted() {
            report.interrupted = true;
            break;
        }
        part(plan, &stand, &mut report, &mut data);
    }
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
        if crate::sys::interrupted() {
            break;
        }
        telling(&format!("limits: {conns} connections"));
        let (mut row, mut rate_row) = (vec![conns.to_string()], vec![conns.to_string()]);
        for (peer, points) in &mut lines {
            let sample = try_measure(
                report,
                stand,
                *peer,
                "keep-alive",
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
    for (peer, points) in &lines {
        if let Some((_, cost)) = points.last() {
            report.headline(format!(
                "{}: {cost:.1} us per request at 2000 connections",
                peer.name()
            ));
        }
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
    let mut grown: Vec<Vec<(usize, f64)>> = vec![Vec::new(); plan.peers.len()];
    for &conns in counts {
        telling(&format!("limits: {conns} idle connections"));
        let mut row = vec![conns.to_string()];
        for (&peer, grown) in plan.peers.iter().zip(&mut grown) {
            let sample = try_measure(
                report,
                stand,
                peer,
                "keep-alive",
                |_| {},
                |proxy| idle_memory(stand, proxy, conns),
            );
            row.push(cell(sample.as_ref().map(|s| s.cost), |v| {
                format!("{v:.0} B")
            }));
            if let Some(sample) = sample {
                grown.push((conns, sample.cost * conns as f64));
                data.push(json!({"aspect": "idle", "proxy": peer.name(), "conns": conns, "sample": sample}));
            }
        }
        table.row(row);
    }
    let mut each_more = vec![format!(
        "each more, {} to {}",
        counts[0],
        counts[counts.len() - 1]
    )];
    each_more.extend(
        grown
            .iter()
            .map(|grown| cell(slope(grown), |v| format!("{v:.0} B"))),
    );
    table.row(each_more);
    report.heading(
        "Resident memory per idle keep-alive connection (client's and server's side together)",
    );
    report.table(table);
    let series = |(peer, grown): (&Peer, &Vec<(usize, f64)>)| Series {
        name: peer.name().to_owned(),
        colour: colour(*peer),
        side: Side::Left,
        points: grown
            .iter()
            .map(|&(conns, bytes)| (conns as f64, bytes))
            .collect(),
    };
    report.chart(
        "idle",
        Chart {
            title: "Memory that idle connections add".to_owned(),
            x_label: "idle connections".to_owned(),
            x_log: false,
            x_show: |v| format!("{v:.0}"),
            left_label: "resident".to_owned(),
            right_label: None,
            y_show: |v| format!("{:.1} MB", v / 1e6),
            series: plan.peers.iter().zip(&grown).map(series).collect(),
        },
    );
    report.text(
        "A heap on huge pages grows by 2 MiB at a time, and the busiest moment of the connections' one request each leaves its buffers behind: \
         divided by few connections, these are most of the figure. The last row is what a connection costs beyond that.",
    );
    if let Some(last) = grown
        .iter()
        .zip(&plan.peers)
        .find(|(_, peer)| **peer == Peer::Sluice)
        && let Some(bytes) = slope(last.0)
    {
        report.headline(format!(
            "sluice: {bytes:.0} B of memory for each more idle connection"
        ));
    }
}

/// Bytes that each connection beyond the first count's added, given connections and bytes in all: what grows once,
/// whatever the count, is in both and cancels out.
fn slope(grown: &[(usize, f64)]) -> Option<f64> {
    let (first, last) = (grown.first()?, grown.last()?);
    (last.0 > first.0).then(|| (last.1 - first.1) / (last.0 - first.0) as f64)
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
        "p50 alone",
        "p50 beside the crowd",
        "p99 alone",
        "p99 beside the crowd",
        "req/s alone",
        "req/s beside the crowd",
        "memory of a slow one",
    ]);
    for &peer in &plan.peers {
        telling(&format!("limits: slow readers, {}", peer.name()));
        let mut alone = None;
        let beside = try_measure(
            report,
            stand,
            peer,
            "keep-alive",
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
            show_ns(beside.latency_ns[0]),
            show_ns(alone.latency_ns[2]),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_each_further_connection_costs() {
        assert_eq!(
            slope(&[(1000, 5e6), (2500, 6e6), (5000, 9e6)]),
            Some(1000.0)
        );
        assert_eq!(slope(&[(1000, 5e6)]), None);
        assert_eq!(slope(&[]), None);
    }
}
