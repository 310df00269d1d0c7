//! The sweep of 2008 and 2009: hits per second and data rate over the object size.
//!
//! Each size is loaded for a minute, rates are read every second, the five best are dropped and the next twenty
//! averaged. One picture a series: hits in green, data rate in red, over a logarithmic axis of sizes.

mod variants;

use variants::{BASE, SHORT_SIZES, SIZES, SPLICE_SIZES};
pub use variants::{VARIANTS, Variant};

use super::published::{self, Beside};
use super::{Plan, cell, cpu_cells, gets, telling, try_measure};
use crate::compare::config::{Job, Splice};
use crate::compare::peer::Peer;
use crate::measure::{Sample, Tick};
use crate::report::canvas::Colour;
use crate::report::chart::{Chart, Series, Side};
use crate::report::{Report, Table};
use crate::stats::drop_best_average;
use crate::units::{show_count, show_size};
use anyhow::Result;
use serde_json::json;
use std::time::Duration;

/// The published method's figures: of the samples of a minute.
const DROP: usize = 5;
const KEEP: usize = 20;
/// Concurrent connections, and for objects from a mebibyte on: few enough for a second to see some arrive.
const CONNS: usize = 64;
const CONNS_LARGE: usize = 16;

/// A point of a series.
struct Point {
    size: u64,
    hits_per_s: f64,
    bits_per_s: f64,
    sample: Sample,
}

/// Runs the series that `names` tells (all when empty; the first two in the short form).
///
/// # Errors
/// An unknown name, or a stand that cannot be built.
pub fn run(plan: &Plan, names: &[String]) -> Result<Report> {
    let chosen: Vec<Variant> = match (names, plan.short) {
        ([], true) => VARIANTS[..2].to_vec(),
        ([], false) => VARIANTS.to_vec(),
        (names, _) => names.iter().map(find).collect::<Result<_>>()?,
    };
    let mut report = Report::new(
        "sweep",
        "Object size sweep",
        "Hits per second and data rate from the smallest objects to the largest, one connection per request. Every size is \
         loaded for a while, the best samples are dropped and the next ones averaged (5 and 20 of 60).",
    );
    let mut data = Vec::new();
    let mut base: Vec<(Peer, Vec<(u64, f64)>)> = Vec::new();
    for variant in chosen {
        for &peer in &plan.peers {
            if crate::sys::interrupted() {
                report.interrupted = true;
                break;
            }
            let points = series(plan, &mut report, variant, peer)?;
            if !points.is_empty() {
                data.push(json!({
                    "series": variant.name, "proxy": peer.name(),
                    "points": points.iter().map(|p| json!({
                        "size": p.size, "hits_per_s": p.hits_per_s, "bits_per_s": p.bits_per_s, "sample": &p.sample,
                    })).collect::<Vec<_>>(),
                }));
                show(&mut report, variant, peer, &points);
                if variant.name == VARIANTS[0].name {
                    let rates = points.iter().map(|p| (p.size, p.bits_per_s));
                    base.push((peer, rates.collect()));
                }
            }
        }
    }
    report.data = json!(data);
    for (peer, points) in &base {
        let most = points.iter().map(|point| point.1).fold(0.0, f64::max);
        report.headline(format!("{}: up to {}bit/s", peer.name(), show_count(most)));
    }
    beside(plan, &mut report, &base);
    Ok(report)
}

/// What HAProxy's sizing chapter says of data rates, and the same of the first series.
fn beside(plan: &Plan, report: &mut Report, base: &[(Peer, Vec<(u64, f64)>)]) {
    const LARGE: u64 = 256 << 10;
    const FULL: f64 = 10e9;
    let rates = |peer| base.iter().find(|b| b.0 == peer).map(|b| b.1.as_slice());
    let large = |peer| {
        let large = rates(peer)?.iter().filter(|(size, _)| *size >= LARGE);
        let most = large.map(|(_, rate)| *rate).fold(f64::NAN, f64::max);
        Some(cell(Some(most), |v| format!("{}bit/s", show_count(v))))
    };
    let full = |peer| {
        let first = rates(peer)?.iter().find(|(_, rate)| *rate >= FULL);
        Some(first.map_or_else(|| "none".to_owned(), |(size, _)| show_size(*size)))
    };
    let rows = [
        Beside::new(
            "data rate, objects of 256 kB and more",
            "20 Gbit/s",
            &plan.peers,
            large,
        ),
        Beside::new(
            "smallest object that fills 10 Gbit/s",
            "41 kB",
            &plan.peers,
            full,
        ),
    ];
    let missing = "The reports of 2008 and 2009 whose series these are were not at hand: no figure of theirs stands here.";
    published::sizing(report, &plan.peers, &rows, missing);
}

fn find(name: &String) -> Result<Variant> {
    VARIANTS
        .iter()
        .copied()
        .find(|v| v.name == name)
        .ok_or_else(|| {
            let known: Vec<_> = VARIANTS.iter().map(|v| v.name).collect();
            anyhow::anyhow!(
                "there is no series '{name}'; there are {}",
                known.join(", ")
            )
        })
}

fn series(plan: &Plan, report: &mut Report, variant: Variant, peer: Peer) -> Result<Vec<Point>> {
    let stand = plan.stand(Some(variant.mtu))?;
    if stand.hosts.is_none() && variant.mtu != BASE.mtu {
        let text = format!(
            "{} was left out: it needs hosts of their own",
            variant.title
        );
        telling(&text);
        report.text(text);
        return Ok(Vec::new());
    }
    let sizes: &[u64] = match (plan.short, variant.splice) {
        (true, _) => &SHORT_SIZES,
        (false, true) => &SPLICE_SIZES,
        (false, false) => &SIZES,
    };
    let span = plan.span(Duration::from_secs(60), Duration::from_millis(700));
    let shape = |job: &mut Job| {
        job.close = true;
        job.buffer_bytes = Some(variant.buffer_bytes);
        job.workers = variant.workers;
        job.splice = if variant.splice {
            Splice::Always
        } else {
            Splice::Off
        };
    };
    let mut points = Vec::new();
    telling(&format!("sweep {} {}", variant.name, peer.name()));
    for &size in sizes {
        let path = format!("/?s={size}");
        let measured = try_measure(report, &stand, peer, variant.title, shape, |proxy| {
            let conns = if size < 1 << 20 { CONNS } else { CONNS_LARGE };
            let load = gets(proxy, &path, conns, true)?;
            stand.measure(proxy, load, span)
        });
        let Some(sample) = measured else { break };
        let average = |of: fn(&Tick) -> f64| {
            drop_best_average(&sample.ticks.iter().map(of).collect::<Vec<_>>(), DROP, KEEP)
                .unwrap_or(f64::NAN)
        };
        let point = Point {
            size,
            hits_per_s: average(|t| t.requests_per_s),
            bits_per_s: average(|t| t.bits_per_s),
            sample,
        };
        telling(&format!(
            "  {:>9} {:>8} hits/s {:>8}bit/s",
            show_size(size),
            show_count(point.hits_per_s),
            show_count(point.bits_per_s)
        ));
        points.push(point);
    }
    Ok(points)
}

fn show(report: &mut Report, variant: Variant, peer: Peer, points: &[Point]) {
    report.heading(&format!("{}: {}", peer.name(), variant.title));
    let series = |name: &str, colour, side, of: fn(&Point) -> f64| Series {
        name: name.to_owned(),
        colour,
        side,
        points: points.iter().map(|p| (p.size as f64, of(p))).collect(),
    };
    report.chart(
        &format!("{}-{}", variant.name, peer.name()),
        Chart {
            title: format!("{}, {}", peer.name(), variant.title),
            x_label: "object size".to_owned(),
            x_log: true,
            x_show: |v| show_size(v as u64),
            left_label: "hits/s".to_owned(),
            right_label: Some("bit/s".to_owned()),
            y_show: show_count,
            series: vec![
                series("hits per second", Colour::Green, Side::Left, |p| {
                    p.hits_per_s
                }),
                series("data rate", Colour::Red, Side::Right, |p| p.bits_per_s),
            ],
        },
    );
    let mut table = Table::new(&[
        "size", "hits/s", "bit/s", "us/hit", "us", "sy", "id", "errors",
    ]);
    for point in points {
        let [us, sy, id] = cpu_cells(&point.sample);
        table.row([
            show_size(point.size),
            cell(Some(point.hits_per_s), show_count),
            cell(Some(point.bits_per_s), show_count),
            cell(Some(point.sample.cost), |v| format!("{v:.1}")),
            us,
            sy,
            id,
            point.sample.errors.to_string(),
        ]);
    }
    report.table(table);
}
