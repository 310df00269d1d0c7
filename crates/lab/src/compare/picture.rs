//! A comparison in pictures: all scenarios against the baseline, and for each its cost, its rounds and its latency.

use super::outcome::{Measured, Outcome, PeerRounds};
use super::peer::Peer;
use crate::experiments::colour;
use crate::measure::{LATENCY_PERCENTILES, Sample};
use crate::report::bars::{Bar, Bars};
use crate::report::chart::{Chart, Series, Side};
use crate::stats::{bootstrap_median, median};
use crate::units::show_ns;

/// Every scenario's ratios to the baseline, with their intervals; `None` without a baseline to compare with.
#[must_use]
pub fn overview(outcome: &Outcome) -> Option<Bars> {
    let groups: Vec<(String, Vec<Bar>)> = outcome
        .scenarios
        .iter()
        .map(|measured| {
            (
                measured.title.to_owned(),
                ratios(measured, outcome.baseline),
            )
        })
        .filter(|(_, bars)| !bars.is_empty())
        .collect();
    (!groups.is_empty()).then(|| Bars {
        title: format!("cost beside {} (less is better)", outcome.baseline.name()),
        label: format!("cost of one unit of work, {} = 1", outcome.baseline.name()),
        show: |v| format!("{v:.2}"),
        mark: Some(1.0),
        groups,
    })
}

fn ratios(measured: &Measured, baseline: Peer) -> Vec<Bar> {
    let others = measured.peers.iter().filter(|p| p.peer != baseline);
    others
        .filter_map(|rounds| {
            let ratio = measured.ratio(rounds.peer, baseline)?;
            Some(Bar {
                name: rounds.peer.name().to_owned(),
                colour: colour(rounds.peer),
                value: ratio.median,
                part: None,
                interval: Some((ratio.low, ratio.high)),
            })
        })
        .collect()
}

/// What a unit costs in each proxy, the share of user space in the full colour.
#[must_use]
pub fn costs(measured: &Measured) -> Bars {
    let bar = |rounds: &PeerRounds| {
        let interval = bootstrap_median(&rounds.series(|s| s.cost))?;
        let user = median(&rounds.series(|s| s.cost * s.user_share));
        Some(Bar {
            name: rounds.peer.name().to_owned(),
            colour: colour(rounds.peer),
            value: interval.median,
            part: user.filter(|user| user.is_finite()),
            interval: Some((interval.low, interval.high)),
        })
    };
    let split = match measured.unit {
        "bytes/conn" => "",
        _ => " (strong colour: user space; pale: system)",
    };
    Bars {
        title: format!("{}: {}{split}", measured.title, measured.unit),
        label: format!("{}, with the 95 % interval of the median", measured.unit),
        show: |v| match v {
            v if v >= 100.0 => format!("{v:.0}"),
            v => format!("{v:.1}"),
        },
        mark: None,
        groups: vec![(
            String::new(),
            measured.peers.iter().filter_map(bar).collect(),
        )],
    }
}

/// The cost round by round: drift of the machine shows as lines that move together.
#[must_use]
pub fn rounds(measured: &Measured) -> Chart {
    let points = |rounds: &PeerRounds| {
        let costs = rounds.samples.iter().enumerate();
        costs.map(|(n, s)| ((n + 1) as f64, s.cost)).collect()
    };
    chart(
        measured,
        "round by round",
        "round",
        measured.unit,
        points,
        |v| format!("{v:.0}"),
    )
}

/// Median of each latency percentile over the rounds; `None` where latency was not measured.
#[must_use]
pub fn latency(measured: &Measured) -> Option<Chart> {
    let points = |rounds: &PeerRounds| {
        let of = |n: usize| {
            let at = move |s: &Sample| s.latency_ns[n] as f64;
            median(&rounds.series(at)).unwrap_or(f64::NAN)
        };
        (0..LATENCY_PERCENTILES.len())
            .map(|n| (n as f64, of(n)))
            .collect()
    };
    let mut chart = chart(
        measured,
        "latency seen by the client",
        "percentile",
        "time",
        points,
        |ns| show_ns(ns as u64),
    );
    chart.x_show = |n| {
        let percentile = LATENCY_PERCENTILES.get(n as usize);
        percentile.map_or_else(String::new, |p| format!("p{p}"))
    };
    let seen = |s: &Series| s.points.iter().any(|(_, ns)| *ns > 0.0);
    chart.series.iter().any(seen).then_some(chart)
}

fn chart(
    measured: &Measured,
    what: &str,
    x_label: &str,
    left_label: &str,
    points: impl Fn(&PeerRounds) -> Vec<(f64, f64)>,
    y_show: fn(f64) -> String,
) -> Chart {
    let series = measured.peers.iter().filter(|p| !p.samples.is_empty());
    Chart {
        title: format!("{}, {what}", measured.title),
        x_label: x_label.to_owned(),
        x_log: false,
        x_show: |v| format!("{v:.0}"),
        left_label: left_label.to_owned(),
        right_label: None,
        y_show,
        series: series
            .map(|rounds| Series {
                name: rounds.peer.name().to_owned(),
                colour: colour(rounds.peer),
                side: Side::Left,
                points: points(rounds),
            })
            .collect(),
    }
}
