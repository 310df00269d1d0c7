//! What `inject` shows: a line per second for people, JSON lines for machines, and the closing table.

use super::counts::{Counts, Line, PERCENTILES, Report};
use super::{Load, Options, Second};
use crate::units::{show_count, show_ns};
use anyhow::{Result, bail};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::collections::BTreeMap;
use std::time::Duration;

/// How the run is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Show {
    /// A line per second, a progress bar when there is a terminal, a table at the end.
    People,
    /// One JSON object a line on standard output.
    Json,
    /// Only the closing table.
    Quiet,
}

/// Runs a load to its end, showing it.
///
/// # Errors
/// As [`Load::start`] and [`Load::wait`].
pub fn run(options: &Options, show: Show) -> Result<Report> {
    let load = Load::start(options)?;
    let bar = progress_bar(options, show);
    let mut seconds = Seconds::new(options.threads.min(options.conns));
    if show == Show::People {
        println!(
            "{:>5} {:>6} {:>8} {:>9} {:>10} {:>9} {:>9} {:>9}",
            "time", "open", "conn/s", "req/s", "bit/s", "p50", "p99", "errors"
        );
    }
    let report = load.wait(|load| {
        let elapsed = load.started.elapsed();
        match (options.duration, options.requests_max) {
            (Some(_), _) => bar.set_position(elapsed.as_millis() as u64),
            (None, Some(_)) => bar.set_position(load.totals().requests),
            (None, None) => {}
        }
        for sample in load.samples() {
            for (at, counts) in seconds.add(sample) {
                let line = Line::new("second", &counts, at, Duration::from_secs(1));
                match show {
                    Show::People => bar.suspend(|| println!("{}", second_text(&line, &counts))),
                    Show::Json => print_json(&line),
                    Show::Quiet => {}
                }
            }
        }
    })?;
    bar.finish_and_clear();
    match show {
        Show::Json => print_json(&report.line()),
        // Of nothing there is nothing to tell but the reason, which follows.
        Show::People | Show::Quiet if report.counts.conns == 0 && report.reason().is_some() => {}
        Show::People | Show::Quiet => print!("{}", closing_text(&report)),
    }
    check_answered(options, &report)?;
    Ok(report)
}

/// A server that was never there, or is no more, is told in one line, not left to be read from a table.
fn check_answered(options: &Options, report: &Report) -> Result<()> {
    let Some(reason) = report.reason().filter(|_| !crate::sys::interrupted()) else {
        return Ok(());
    };
    if report.counts.requests == 0 {
        bail!("no answer from {}: {reason}", options.target);
    }
    if report.counts.gone {
        bail!("{} stopped answering: {reason}", options.target);
    }
    Ok(())
}

fn print_json(line: &Line) {
    if let Ok(text) = serde_json::to_string(line) {
        println!("{text}");
    }
}

fn progress_bar(options: &Options, show: Show) -> ProgressBar {
    let total = match (options.duration, options.requests_max) {
        (Some(duration), _) => duration.as_millis() as u64,
        (None, Some(requests)) => requests,
        (None, None) => 0,
    };
    if show != Show::People || total == 0 {
        return ProgressBar::hidden();
    }
    // Drawn on standard error, and only when that is a terminal.
    let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template("[{bar:40}] {percent}% {eta} left") {
        bar.set_style(style.progress_chars("=> "));
    }
    bar
}

/// Joins the threads' seconds. A thread may end before the others, or leave out seconds when it was held up.
struct Seconds {
    /// The last second that each thread has told.
    reached: Vec<u64>,
    /// Those that not all threads have told yet.
    open: BTreeMap<u64, Counts>,
    /// The last one that was given out.
    given: u64,
}

impl Seconds {
    fn new(threads: usize) -> Self {
        Self {
            reached: vec![0; threads],
            open: BTreeMap::new(),
            given: 0,
        }
    }

    /// Takes a thread's second; gives those that are complete now, in order.
    fn add(&mut self, second: Second) -> Vec<(Duration, Counts)> {
        if let Some(reached) = self.reached.get_mut(second.thread) {
            *reached = second.number;
        }
        if second.number != u64::MAX {
            let sum = self.open.entry(second.number).or_default();
            sum.add(&second.counts);
        }
        let least = self.reached.iter().copied().min().unwrap_or(0);
        let last = self.open.keys().next_back().copied().unwrap_or(0);
        let mut complete = Vec::new();
        while self.given < least.min(last) {
            self.given += 1;
            let counts = self.open.remove(&self.given).unwrap_or_default();
            complete.push((Duration::from_secs(self.given), counts));
        }
        complete
    }
}

fn second_text(line: &Line, counts: &Counts) -> String {
    let at = |p| latency_text(counts, p);
    format!(
        "{:>4.0}s {:>6} {:>8} {:>9} {:>10} {:>9} {:>9} {:>9}",
        line.at_s,
        line.open,
        show_count(line.conns_per_s),
        show_count(line.requests_per_s),
        show_count(line.bits_per_s),
        at(50.0),
        at(99.0),
        errors_text(counts)
    )
}

/// A percentile, or that there is none.
fn latency_text(counts: &Counts, percentile: f64) -> String {
    match counts.latency.is_empty() {
        true => "-".to_owned(),
        false => show_ns(counts.latency.value_at_percentile(percentile)),
    }
}

fn errors_text(counts: &Counts) -> String {
    let e = counts.errors;
    let kinds = [
        ("connect", e.connect),
        ("reset", e.reset),
        ("ended", e.ended),
        ("malformed", e.malformed),
        ("timeout", e.timeout),
        ("wrong", e.wrong),
    ];
    let some: Vec<_> = kinds
        .iter()
        .filter(|(_, n)| *n > 0)
        .map(|(name, n)| format!("{name}:{n}"))
        .collect();
    if some.is_empty() {
        "0".to_owned()
    } else {
        some.join(",")
    }
}

/// The closing table.
#[must_use]
pub fn closing_text(report: &Report) -> String {
    let (counts, line) = (&report.counts, report.line());
    let mut text = format!(
        "{} requests on {} connections in {:.2} s: {} req/s, {} conn/s, {}bit/s\n",
        counts.requests,
        counts.conns,
        report.elapsed.as_secs_f64(),
        show_count(line.requests_per_s),
        show_count(line.conns_per_s),
        show_count(line.bits_per_s),
    );
    let [_, ones, twos, threes, fours, fives] = counts.statuses;
    text += &format!(
        "status: 1xx {ones}, 2xx {twos}, 3xx {threes}, 4xx {fours}, 5xx {fives}; errors: {}",
        errors_text(counts)
    );
    if counts.unfinished > 0 {
        text += &format!("; unfinished at the end: {}", counts.unfinished);
    }
    text += "\nlatency:";
    for p in PERCENTILES {
        text += &format!(" p{p} {}", latency_text(counts, p));
    }
    text += &format!(" max {}\n", latency_text(counts, 100.0));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_joined() {
        let mut seconds = Seconds::new(2);
        let mut told = |thread, number, requests| {
            let counts = Counts {
                requests,
                ..Counts::default()
            };
            let second = Second {
                thread,
                number,
                counts,
            };
            let complete = seconds.add(second).into_iter();
            complete
                .map(|(at, counts)| (at.as_secs(), counts.requests))
                .collect::<Vec<_>>()
        };
        assert_eq!(told(0, 1, 5), []);
        assert_eq!(told(0, 2, 5), [], "the other has not told its first");
        assert_eq!(told(1, 1, 7), [(1, 12)]);
        // The other was held up: its third holds what it did since.
        assert_eq!(told(1, 3, 9), [(2, 5)]);
        assert_eq!(
            told(0, u64::MAX, 0),
            [(3, 9)],
            "one that ended is not waited for"
        );
        assert_eq!(told(1, 4, 1), [(4, 1)]);
        assert_eq!(told(1, u64::MAX, 0), []);
    }
}
