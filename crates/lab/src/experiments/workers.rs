//! The cookbook of 2019: what more workers bring, for connections, requests, throughput and latency.

use super::{Plan, cell, colour, gets, published, telling, try_measure};
use crate::compare::config::Job;
use crate::compare::peer::{Peer, Running};
use crate::host::CpuList;
use crate::inject;
use crate::measure::Sample;
use crate::report::chart::{Chart, Series, Side};
use crate::report::{Report, Table};
use crate::units::{show_count, show_ns};
use anyhow::Result;
use serde_json::{Value, json};
use std::time::Duration;

const CONNS: usize = 128;
/// Sizes of the throughput table.
const SIZES: [&str; 9] = [
    "400", "1k", "10k", "32k", "64k", "100k", "128k", "256k", "1m",
];
const MISSING: &str = "HAProxy 2.4 with 64 cores of an ARM Graviton2 forwarded 2 million HTTPS requests per second and 100 Gbit/s \
(intro.txt of HAProxy 2.6, chapter 3.6): TLS and a machine of another size, so nothing here stands beside it. The cookbook of 2019 \
with its 40 workers was not at hand: no figure of it stands here.";
const SHORT_SIZES: [&str; 3] = ["1k", "32k", "1m"];

/// What is looked at.
struct Aspect {
    title: String,
    /// Column and axis label.
    unit: &'static str,
    path: String,
    close: bool,
    /// Requests per second in the open loop.
    rate: Option<f64>,
    value: fn(&Sample) -> f64,
    show: fn(f64) -> String,
    /// So that a gain is always more than 1.
    less_is_better: bool,
}

fn aspects(plan: &Plan) -> Vec<Aspect> {
    let base = |title: &str, unit, path: &str, value, show| Aspect {
        title: title.to_owned(),
        unit,
        path: path.to_owned(),
        close: false,
        rate: None,
        value,
        show,
        less_is_better: false,
    };
    let rate = if plan.short { 2_000.0 } else { 10_000.0 };
    let latency = format!("Latency (p99) at {} requests per second", show_count(rate));
    let mut all = vec![
        Aspect {
            close: true,
            ..base(
                "Connections per second, 204 each",
                "conn/s",
                "/0",
                |s| s.conns_per_s,
                show_count,
            )
        },
        base(
            "Requests per second, 1 KiB",
            "req/s",
            "/?s=1k",
            |s| s.requests_per_s,
            show_count,
        ),
        Aspect {
            rate: Some(rate),
            less_is_better: true,
            ..base(
                &latency,
                "p99",
                "/?s=1k",
                |s| s.latency_ns[2] as f64,
                |ns| show_ns(ns as u64),
            )
        },
    ];
    let sizes: &[&str] = if plan.short { &SHORT_SIZES } else { &SIZES };
    all.extend(sizes.iter().map(|size| {
        let title = format!("Throughput, objects of {size}");
        base(
            &title,
            "bit/s",
            &format!("/?s={size}"),
            |s| s.bits_per_s,
            show_count,
        )
    }));
    all
}

/// Runs from one worker to as many as there are CPUs.
///
/// # Errors
/// When the stand cannot be built.
pub fn run(plan: &Plan) -> Result<Report> {
    let cpus = CpuList::of_process().0.len().max(1);
    let steps: Vec<usize> = (0..)
        .map(|n| 1 << n)
        .take_while(|&n| n < cpus)
        .chain([cpus])
        .collect();
    let mut report = Report::new(
        "workers",
        "Workers",
        "The same proxy with one worker and more. Load and origin use the machine's CPUs too: a worker that shares its CPU with \
         them gains less than one on a machine of its own, for all proxies alike. A gain of more than 1 is better, of latency too. Every proxy does as it does by itself: Sluice \
         splices large bodies, the others copy.",
    );
    // With more workers than CPUs set apart for them, everybody shares all.
    let all = Plan {
        proxy_cpus: CpuList::of_process(),
        load_cpus: CpuList::of_process(),
        ..plan.clone()
    };
    let stand = all.stand(None)?;
    let span = plan.span(Duration::from_secs(10), Duration::from_millis(500));
    let mut data = Vec::new();
    for aspect in aspects(plan) {
        if crate::sys::interrupted() {
            report.interrupted = true;
            break;
        }
        telling(&format!("workers: {}", aspect.title));
        let mut rows = Vec::new();
        for &peer in &plan.peers {
            let mut points = Vec::new();
            for &workers in &steps {
                let shape = |job: &mut Job| {
                    job.workers = workers;
                    job.close = aspect.close;
                };
                let close = if aspect.close { ", closing" } else { "" };
                let what = format!("{workers} worker{}{close}", plural(workers));
                let measured = try_measure(&mut report, &stand, peer, &what, shape, |proxy| {
                    let load = load(proxy, &aspect)?;
                    stand.measure(proxy, load, span)
                });
                let Some(sample) = measured else { break };
                telling(&format!(
                    "  {:8} {workers} workers {}",
                    peer.name(),
                    (aspect.show)((aspect.value)(&sample))
                ));
                data.push(json!({"aspect": aspect.title, "proxy": peer.name(), "workers": workers, "sample": sample}));
                points.push((workers, (aspect.value)(&sample)));
            }
            rows.push((peer, points));
        }
        show(&mut report, &aspect, &steps, &rows);
        if aspect.path == "/?s=1k" && aspect.unit == "req/s" {
            headline(&mut report, &rows);
        }
    }
    report.data = Value::Array(data);
    published::sizing(&mut report, &plan.peers, &[], MISSING);
    Ok(report)
}

/// What the most workers bring each proxy.
fn headline(report: &mut Report, rows: &[(Peer, Vec<(usize, f64)>)]) {
    for (peer, points) in rows {
        if let (Some(one), Some(most)) = (points.first(), points.last())
            && most.0 > one.0
        {
            report.headline(format!(
                "{}: {} req/s of 1 KiB with {} worker{}, {} with one",
                peer.name(),
                show_count(most.1),
                most.0,
                plural(most.0),
                show_count(one.1)
            ));
        }
    }
}

fn plural(n: usize) -> &'static str {
    if n == 1 { "" } else { "s" }
}

fn load(proxy: &Running, aspect: &Aspect) -> Result<inject::Options> {
    Ok(inject::Options {
        rate: aspect.rate,
        ..gets(proxy, &aspect.path, CONNS, aspect.close)?
    })
}

fn show(report: &mut Report, aspect: &Aspect, steps: &[usize], rows: &[(Peer, Vec<(usize, f64)>)]) {
    let mut heads = vec!["proxy".to_owned()];
    for &workers in steps {
        heads.push(format!("{workers} worker{}", plural(workers)));
        if workers > 1 {
            heads.push("gain".to_owned());
        }
    }
    let mut table = Table {
        heads,
        ..Table::default()
    };
    for (peer, points) in rows {
        let at = |workers| points.iter().find(|p| p.0 == workers).map(|p| p.1);
        let mut row = vec![peer.name().to_owned()];
        for &workers in steps {
            row.push(cell(at(workers), aspect.show));
            if workers > 1 {
                let gain = at(workers)
                    .zip(at(1))
                    .map(|(now, one)| match aspect.less_is_better {
                        true => one / now,
                        false => now / one,
                    });
                row.push(cell(gain, |gain| format!("{gain:.2}x")));
            }
        }
        table.row(row);
    }
    report.heading(&aspect.title);
    report.table(table);
    let series = rows.iter().map(|(peer, points)| Series {
        name: peer.name().to_owned(),
        colour: colour(*peer),
        side: Side::Left,
        points: points
            .iter()
            .map(|&(workers, value)| (workers as f64, value))
            .collect(),
    });
    let name: String = aspect
        .title
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .collect();
    report.chart(
        &name,
        Chart {
            title: aspect.title.clone(),
            x_label: "workers".to_owned(),
            x_log: false,
            x_show: |v| format!("{v:.0}"),
            left_label: aspect.unit.to_owned(),
            right_label: None,
            y_show: aspect.show,
            series: series.collect(),
        },
    );
}
