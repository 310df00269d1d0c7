//! The sweep of 2008 and 2009: hits per second and data rate over the object size.
//!
//! Each size is loaded for a minute, rates are read every second, the five best are dropped and the next twenty
//! averaged. One picture a series: hits in green, data rate in red, over a logarithmic axis of sizes.

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

/// The twenty sizes from 64 bytes to 100 MB.
const SIZES: [u64; 20] = [
    64,
    256,
    512,
    1 << 10,
    2 << 10,
    4 << 10,
    8 << 10,
    16 << 10,
    32 << 10,
    64 << 10,
    128 << 10,
    256 << 10,
    512 << 10,
    1 << 20,
    2 << 20,
    5 << 20,
    10 << 20,
    20 << 20,
    50 << 20,
    100 << 20,
];
/// The nineteen of the splice series, to 10 MB.
const SPLICE_SIZES: [u64; 19] = [
    64,
    128,
    256,
    512,
    1 << 10,
    2 << 10,
    4 << 10,
    8 << 10,
    16 << 10,
    32 << 10,
    64 << 10,
    128 << 10,
    256 << 10,
    512 << 10,
    1 << 20,
    2 << 20,
    4 << 20,
    8 << 20,
    10 << 20,
];
const SHORT_SIZES: [u64; 6] = [64, 1 << 10, 8 << 10, 64 << 10, 1 << 20, 10 << 20];
/// The published method's figures: of the samples of a minute.
const DROP: usize = 5;
const KEEP: usize = 20;
/// Concurrent connections.
const CONNS: usize = 64;

/// One series.
#[derive(Debug, Clone, Copy)]
pub struct Variant {
    /// Name on the command line and of the pictures.
    pub name: &'static str,
    /// What is special about it.
    pub title: &'static str,
    buffer_bytes: u64,
    workers: usize,
    splice: bool,
    /// MTU on the client's and the origin's side.
    mtu: (u32, u32),
}

const BASE: Variant = Variant {
    name: "",
    title: "",
    buffer_bytes: 16 << 10,
    workers: 1,
    splice: false,
    mtu: (1500, 1500),
};

/// All series; the first two make up the short form.
pub const VARIANTS: &[Variant] = &[
    Variant {
        name: "buffers-16k",
        title: "buffers of 16 kB, one worker",
        ..BASE
    },
    Variant {
        name: "splice",
        title: "splice, one worker",
        splice: true,
        ..BASE
    },
    Variant {
        name: "buffers-8k",
        title: "buffers of 8 kB",
        buffer_bytes: 8 << 10,
        ..BASE
    },
    Variant {
        name: "buffers-63k",
        title: "buffers of 63 kB",
        buffer_bytes: 63 << 10,
        ..BASE
    },
    Variant {
        name: "workers-2",
        title: "two workers",
        workers: 2,
        ..BASE
    },
    Variant {
        name: "mtu-9000-1500",
        title: "MTU 9000 at the client, 1500 at the origin",
        mtu: (9000, 1500),
        ..BASE
    },
    Variant {
        name: "mtu-1500-9000",
        title: "MTU 1500 at the client, 9000 at the origin",
        mtu: (1500, 9000),
        ..BASE
    },
    Variant {
        name: "mtu-9000",
        title: "MTU 9000 on both sides",
        mtu: (9000, 9000),
        ..BASE
    },
    Variant {
        name: "splice-9000",
        title: "splice, MTU 9000 on both sides",
        splice: true,
        mtu: (9000, 9000),
        ..BASE
    },
];

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
            }
        }
    }
    report.data = json!(data);
    Ok(report)
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
    let span = plan.span(Duration::from_secs(60), Duration::from_millis(1000));
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
        let measured = try_measure(report, &stand, peer, shape, |proxy| {
            let load = gets(proxy, &path, CONNS, true)?;
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
