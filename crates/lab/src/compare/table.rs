//! A comparison as text for the terminal.

use super::outcome::{Measured, Outcome};
use super::peer::Peer;
use crate::stats::{Interval, median};
use crate::units::{show_count, show_ns, show_size};
use std::fmt::Write as _;

/// The whole comparison: a block a scenario, then the targets.
#[must_use]
pub fn text(outcome: &Outcome) -> String {
    let mut out = String::new();
    for measured in &outcome.scenarios {
        scenario(&mut out, measured, outcome.baseline);
    }
    targets(&mut out, outcome);
    out
}

fn scenario(out: &mut String, measured: &Measured, baseline: Peer) {
    // Writing to a String cannot fail.
    let _ = writeln!(out, "\n{} ({})", measured.title, measured.name);
    let _ = writeln!(
        out,
        "  {:<8} {:>10} {:>5} {:>5} {:>9} {:>9} {:>9} {:>9} {:>10}  ratio to {}",
        "",
        measured.unit,
        "user",
        "busy",
        "req/s",
        "bit/s",
        "p50",
        "p99",
        "resident",
        baseline.name()
    );
    for rounds in measured.peers.iter().filter(|p| !p.samples.is_empty()) {
        let middle = |of: &dyn Fn(&super::round::Sample) -> f64| {
            median(&rounds.series(of)).unwrap_or(f64::NAN)
        };
        let share = |value: f64| {
            if value.is_nan() {
                "-".to_owned()
            } else {
                format!("{:.0}%", value * 100.0)
            }
        };
        let count = |value: f64| {
            if value.is_nan() {
                "-".to_owned()
            } else {
                show_count(value)
            }
        };
        let ratio = match measured.ratio(rounds.peer, baseline) {
            _ if rounds.peer == baseline => "1".to_owned(),
            Some(interval) => ratio_text(&interval),
            None => "-".to_owned(),
        };
        let errors: u64 = rounds.samples.iter().map(|s| s.errors).sum();
        let errors = if errors > 0 {
            format!("  {errors} errors")
        } else {
            String::new()
        };
        let _ = writeln!(
            out,
            "  {:<8} {:>10.2} {:>5} {:>5} {:>9} {:>9} {:>9} {:>9} {:>10}  {ratio}{errors}",
            rounds.peer.name(),
            middle(&|s| s.cost),
            share(middle(&|s| s.user_share)),
            share(middle(&|s| s.busy)),
            count(middle(&|s| s.requests_per_s)),
            count(middle(&|s| s.bits_per_s)),
            show_ns(middle(&|s| s.latency_ns[0] as f64) as u64),
            show_ns(middle(&|s| s.latency_ns[2] as f64) as u64),
            show_size(middle(&|s| s.resident_bytes as f64) as u64),
        );
    }
}

/// A ratio with its interval, in words when it shows nothing.
#[must_use]
pub fn ratio_text(interval: &Interval) -> String {
    let numbers = format!(
        "{:.3} [{:.3}, {:.3}]",
        interval.median, interval.low, interval.high
    );
    if interval.covers(1.0) {
        format!("{numbers} no difference shown")
    } else {
        numbers
    }
}

fn targets(out: &mut String, outcome: &Outcome) {
    let (reached, judged) = outcome.score();
    if judged == 0 {
        return;
    }
    let _ = writeln!(
        out,
        "\n{:<14} {:<34} {:>26}",
        "scenario", "target", "measured"
    );
    for measured in &outcome.scenarios {
        for verdict in measured.verdicts() {
            let Interval { median, low, high } = verdict.measured;
            let digits = if median >= 100.0 { 0 } else { 3 };
            let numbers = format!("{median:.digits$} [{low:.digits$}, {high:.digits$}]");
            let word = match (verdict.reached, verdict.sure) {
                (true, true) => "reached",
                (true, false) => "reached, not surely",
                (false, true) => "NOT reached",
                (false, false) => "not reached, not surely",
            };
            let _ = writeln!(
                out,
                "{:<14} {:<34} {numbers:>26}  {word}",
                measured.name, verdict.target
            );
        }
    }
    let _ = writeln!(out, "{reached} of {judged} targets reached");
}
