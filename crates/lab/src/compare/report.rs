//! A comparison as a report: tables a scenario, the targets, the configurations.

use super::outcome::{Measured, Outcome, PeerRounds};
use super::peer::Peer;
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
    let lead = format!(
        "CPU time of the proxy process per request, one worker on CPU {}, load and origin on CPU {}: {} interleaved rounds \
         of {:.1} s after a warm-up. Ratios are medians of the ratios within rounds, with the 95 % bootstrap interval.",
        outcome.cpus[0], outcome.cpus[1], outcome.rounds, outcome.seconds
    );
    let mut report = Report::new(name, "What a request costs", &lead);
    report.interrupted = outcome.interrupted;
    report.data = serde_json::to_value(outcome)?;
    if let Some(table) = targets(outcome) {
        let (reached, judged) = outcome.score();
        report.heading(&format!("Targets: {reached} of {judged} reached"));
        report.table(table);
    }
    for measured in &outcome.scenarios {
        report.heading(&format!("{} ({})", measured.title, measured.name));
        report.table(scenario(measured, outcome.baseline));
        for (peer, reason) in &measured.failures {
            report.text(format!("{} failed: {reason}", peer.name()));
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

fn scenario(measured: &Measured, baseline: Peer) -> Table {
    let ratio = format!("ratio to {}", baseline.name());
    let mut table = Table::new(&[
        "proxy",
        measured.unit,
        "user",
        "busy",
        "req/s",
        "conn/s",
        "bit/s",
        "p50",
        "p99",
        "resident",
        "calls/req",
        &ratio,
        "",
    ]);
    for rounds in measured.peers.iter().filter(|p| !p.samples.is_empty()) {
        table.row(row(rounds, measured, baseline));
    }
    table
}

fn row(rounds: &PeerRounds, measured: &Measured, baseline: Peer) -> Vec<String> {
    let middle = |of: &dyn Fn(&Sample) -> f64| median(&rounds.series(of)).unwrap_or(f64::NAN);
    let known = |value: f64, show: &dyn Fn(f64) -> String| {
        if value.is_finite() {
            show(value)
        } else {
            "-".to_owned()
        }
    };
    let share = |value: f64| known(value, &|v| format!("{:.0}%", v * 100.0));
    let time = |n: usize| match middle(&|s| s.latency_ns[n] as f64) {
        0.0 => "-".to_owned(),
        ns => show_ns(ns as u64),
    };
    let (ratio, note) = match measured.ratio(rounds.peer, baseline) {
        _ if rounds.peer == baseline => ("1".to_owned(), ""),
        Some(interval) => (
            ratio_text(&interval),
            if interval.covers(1.0) {
                "no difference shown"
            } else {
                ""
            },
        ),
        None => ("-".to_owned(), ""),
    };
    let errors: u64 = rounds.samples.iter().map(|s| s.errors).sum();
    let note = if errors > 0 {
        format!("{errors} errors {note}")
    } else {
        note.to_owned()
    };
    vec![
        rounds.peer.name().to_owned(),
        known(middle(&|s| s.cost), &|v| format!("{v:.2}")),
        share(middle(&|s| s.user_share)),
        share(middle(&|s| s.busy)),
        known(middle(&|s| s.requests_per_s), &show_count),
        known(middle(&|s| s.conns_per_s), &show_count),
        known(middle(&|s| s.bits_per_s), &show_count),
        time(0),
        time(2),
        show_size(middle(&|s| s.resident_bytes as f64) as u64),
        rounds
            .syscalls_per_request
            .map_or("-".to_owned(), |calls| format!("{calls:.2}")),
        ratio,
        note,
    ]
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
