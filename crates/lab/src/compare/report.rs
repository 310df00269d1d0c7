//! A comparison as a report: tables a scenario, the targets, the configurations.

use super::outcome::{Measured, Outcome, PeerRounds};
use super::peer::Peer;
use super::picture;
use crate::experiments::published::{self, Beside};
use crate::experiments::{cell, per_cpu_second};
use crate::measure::Sample;
use crate::report::{Report, Table};
use crate::stats::{Interval, median};
use crate::units::{show_count, show_ns, show_size};
use anyhow::Result;

/// The whole comparison.
///
/// # Errors
/// When the data cannot be written as JSON.
pub fn report(outcome: &Outcome, name: &str) -> Result<Report> {
    let place = match outcome.mtu {
        Some((client, origin)) => {
            format!("three hosts joined by cables, MTU {client} and {origin}")
        }
        None => "the loopback".to_owned(),
    };
    let lead = format!(
        "CPU time of the proxy process per request, one worker on CPU {}, load and origin on CPU {}, over {place}: {} interleaved \
         rounds of {:.1} s after a warm-up. Ratios are medians of the ratios within rounds, with the 95 % bootstrap interval.",
        outcome.cpus[0], outcome.cpus[1], outcome.rounds, outcome.seconds
    );
    let mut report = Report::new(name, "What a request costs", &lead);
    report.interrupted = outcome.interrupted;
    report.data = serde_json::to_value(outcome)?;
    if let Some(bars) = picture::overview(outcome) {
        report.chart("overview", bars);
    }
    if let Some(table) = targets(outcome) {
        let (reached, judged) = outcome.score();
        report.headline(format!("{reached} of {judged} targets reached"));
        report.heading(&format!("Targets: {reached} of {judged} reached"));
        report.table(table);
    }
    beside(outcome, &mut report);
    for measured in &outcome.scenarios {
        report.heading(&format!("{} ({})", measured.title, measured.name));
        report.table(costs(measured, outcome.baseline));
        if let Some(table) = service(measured) {
            report.table(table);
        }
        if measured.peers.iter().any(|p| !p.samples.is_empty()) {
            report.chart(&format!("{}-cost", measured.name), picture::costs(measured));
            let latency = picture::latency(measured);
            if let Some(latency) = latency {
                report.chart(&format!("{}-latency", measured.name), latency);
            }
            if outcome.rounds > 1 {
                report.chart(
                    &format!("{}-rounds", measured.name),
                    picture::rounds(measured),
                );
            }
        }
        for (peer, reason) in &measured.failures {
            report.fail(format!("{} failed: {reason}", peer.name()));
        }
        for rounds in &measured.peers {
            let text = format!(
                "# {}\n# {}\n{}",
                rounds.version, rounds.command, rounds.config
            );
            report.code(
                &format!("{}: how {} was run", measured.name, rounds.peer.name()),
                &text,
            );
        }
    }
    Ok(report)
}

/// What else is at hand of the same work.
const QUIET: &str = "For a quiet machine this project's task gives (haproxy 2.6, nginx, relay; microseconds): 64 B over 64 connections 16, 15.6, 10; over 500 \
connections 25, 21, 12; 16 KiB 26, 22, 14; a connection for each request 34, 32 (without the relay). Comparisons of these proxies by others were not at hand: no figure of theirs stands here.";

/// What HAProxy's sizing chapter says of the same work.
fn beside(outcome: &Outcome, report: &mut Report) {
    let of = |name: &str, peer| {
        let measured = outcome.scenarios.iter().find(|m| m.name == name)?;
        measured.of(peer)
    };
    let cost = |name: &str, peer| of(name, peer)?.cost();
    let rate = |name: &'static str| move |peer| Some(per_cpu_second(cost(name, peer)?));
    let user = |name: &'static str| {
        move |peer| {
            Some(middle(
                of(name, peer)?,
                |s| s.user_share,
                |v| format!("{:.0} %", v * 100.0),
            ))
        }
    };
    let times = |peer| {
        let times = cost("close", peer)? / cost("keepalive-64", peer)?;
        Some(format!("{times:.1}"))
    };
    let peers = Peer::ALL;
    let rows = [
        Beside::new(
            "keep-alive requests, per second of one CPU",
            "243000",
            &peers,
            rate("keepalive-64"),
        ),
        Beside::new(
            "HTTP connections, per second of one CPU",
            "82000",
            &peers,
            rate("close"),
        ),
        Beside::new(
            "share of user space, keep-alive",
            "30 %",
            &peers,
            user("keepalive-64"),
        ),
        Beside::new("share of user space, close", "15 %", &peers, user("close")),
        Beside::new("close costs so many times keep-alive", "3", &peers, times),
    ];
    if rows.iter().any(|row| !row.here.is_empty()) {
        published::sizing(report, &peers, &rows, QUIET);
    }
}

/// What it cost.
fn costs(measured: &Measured, baseline: Peer) -> Table {
    let ratio = format!("ratio to {}", baseline.name());
    let mut table = Table::new(&[
        "proxy",
        measured.unit,
        "user",
        "system",
        "busy",
        "resident",
        "calls/req",
        "packets to client",
        "to origin",
        &ratio,
        "",
    ]);
    for rounds in measured.peers.iter().filter(|p| !p.samples.is_empty()) {
        let two = |v: f64| format!("{v:.2}");
        let one = |v: f64| format!("{v:.1}");
        let (ratio, note) = match measured.ratio(rounds.peer, baseline) {
            _ if rounds.peer == baseline => ("1".to_owned(), ""),
            Some(ratio) if ratio.covers(1.0) => (ratio_text(&ratio), "no difference shown"),
            Some(ratio) => (ratio_text(&ratio), ""),
            None => ("-".to_owned(), ""),
        };
        table.row([
            rounds.peer.name().to_owned(),
            middle(rounds, |s| s.cost, two),
            middle(rounds, |s| s.cost * s.user_share, two),
            middle(rounds, |s| s.cost * (1.0 - s.user_share), two),
            middle(rounds, |s| s.busy, |v| format!("{:.0}%", v * 100.0)),
            middle(rounds, |s| s.resident_bytes as f64, |v| show_size(v as u64)),
            cell(rounds.syscalls_per_request, two),
            cell(rounds.packets.map(|p| p.client), one),
            cell(rounds.packets.map(|p| p.origin), one),
            ratio,
            note.to_owned(),
        ]);
    }
    table
}

/// What the client saw; `None` where it only held connections.
fn service(measured: &Measured) -> Option<Table> {
    let mut table = Table::new(&[
        "proxy", "req/s", "conn/s", "bit/s", "p50", "p90", "p99", "p99.9", "errors",
    ]);
    let seen = |rounds: &&PeerRounds| rounds.samples.iter().any(|s| s.requests_per_s > 0.0);
    for rounds in measured.peers.iter().filter(seen) {
        let time = |n: usize| middle(rounds, |s| s.latency_ns[n] as f64, |ns| show_ns(ns as u64));
        let errors: u64 = rounds.samples.iter().map(|s| s.errors).sum();
        table.row([
            rounds.peer.name().to_owned(),
            middle(rounds, |s| s.requests_per_s, show_count),
            middle(rounds, |s| s.conns_per_s, show_count),
            middle(rounds, |s| s.bits_per_s, show_count),
            time(0),
            time(1),
            time(2),
            time(3),
            errors.to_string(),
        ]);
    }
    (!table.rows.is_empty()).then_some(table)
}

/// A cell with the median over the rounds.
fn middle(
    rounds: &PeerRounds,
    of: impl Fn(&Sample) -> f64,
    show: impl Fn(f64) -> String,
) -> String {
    cell(median(&rounds.series(of)), show)
}

fn ratio_text(interval: &Interval) -> String {
    let digits = if interval.median >= 100.0 { 0 } else { 3 };
    format!(
        "{:.digits$} [{:.digits$}, {:.digits$}]",
        interval.median, interval.low, interval.high
    )
}

fn targets(outcome: &Outcome) -> Option<Table> {
    let mut table = Table::new(&["scenario", "target", "measured", "verdict"]);
    for measured in &outcome.scenarios {
        for verdict in measured.verdicts() {
            let word = match (verdict.reached, verdict.sure) {
                (true, true) => "reached",
                (true, false) => "reached, not surely",
                (false, true) => "NOT reached",
                (false, false) => "not reached, not surely",
            };
            table.row([
                measured.name.to_owned(),
                verdict.target.clone(),
                ratio_text(&verdict.measured),
                word.to_owned(),
            ]);
        }
    }
    if table.rows.is_empty() {
        None
    } else {
        Some(table)
    }
}
