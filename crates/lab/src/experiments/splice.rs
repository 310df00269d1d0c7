//! The splicing study of 2012: TCP mode with and without `splice(2)`, and which calls moved the bytes.

use super::{Plan, cell, gets, published, telling, try_measure};
use crate::compare::config::{Job, Splice};
use crate::compare::peer::Peer;
use crate::compare::peer::Running;
use crate::host;
use crate::report::{Report, Table};
use crate::stand::Stand;
use crate::syscalls::Counter;
use crate::units::{show_count, show_size};
use anyhow::Result;
use serde_json::json;
use std::time::Duration;

const SIZES: [u64; 4] = [64, 1 << 10, 8 << 10, LARGEST];
const LARGEST: u64 = 1 << 20;
const CONNS: usize = 32;

/// Without splice, and with pipes of two sizes.
const WAYS: [(&str, Option<u64>); 3] = [
    ("recv/send", None),
    ("splice 64k", Some(64 << 10)),
    ("splice 512k", Some(512 << 10)),
];

/// Runs all sizes and ways.
///
/// # Errors
/// When the stand cannot be built.
pub fn run(plan: &Plan) -> Result<Report> {
    let mut report = Report::new(
        "splice",
        "Splicing",
        "TCP mode over kept connections, with and without splice, pipes of 64 and 512 kB, and the calls that moved the bytes \
         (counted by the kernel in a pass of its own).",
    );
    let span = plan.span(Duration::from_secs(10), Duration::from_millis(400));
    let mut data = Vec::new();
    // nginx has no splice in its stream module: its bytes are always copied.
    let ways = |peer: Peer| {
        if peer == Peer::Nginx {
            &WAYS[..1]
        } else {
            &WAYS[..]
        }
    };
    let stand = plan.stand(None)?;
    let mut large: Vec<(Peer, &str, f64)> = Vec::new();
    for size in SIZES {
        if crate::sys::interrupted() {
            report.interrupted = true;
            break;
        }
        let mut table = Table::new(&[
            "proxy",
            "way",
            "req/s",
            "bit/s",
            "us/req",
            "user",
            "splice/req",
            "recv/req",
            "send/req",
            "errors",
        ]);
        telling(&format!("splice {}", show_size(size)));
        for &peer in &plan.peers {
            for &(way, pipe_bytes) in ways(peer) {
                let mut calls = None;
                let shape = |job: &mut Job| {
                    job.tcp = true;
                    job.splice = if pipe_bytes.is_some() {
                        Splice::Always
                    } else {
                        Splice::Off
                    };
                    job.pipe_bytes = pipe_bytes;
                };
                let path = format!("/?s={size}");
                let measured = try_measure(&mut report, &stand, peer, way, shape, |proxy| {
                    let sample = stand.measure(proxy, gets(proxy, &path, CONNS, false)?, span)?;
                    calls = count_calls(&stand, proxy, &path)
                        .map_err(|error| telling(&format!("  {error:#}")))
                        .ok();
                    Ok(sample)
                });
                let Some(sample) = measured else { continue };
                telling(&format!(
                    "  {:8} {way:11} {:>8.1} us, {}bit/s",
                    peer.name(),
                    sample.cost,
                    show_count(sample.bits_per_s)
                ));
                if size == LARGEST {
                    large.push((peer, way, sample.cost));
                }
                let two = |v: f64| format!("{v:.2}");
                let of = |n: usize| cell(calls.map(|calls| calls[n]), two);
                table.row([
                    peer.name().to_owned(),
                    way.to_owned(),
                    show_count(sample.requests_per_s),
                    show_count(sample.bits_per_s),
                    format!("{:.2}", sample.cost),
                    cell(Some(sample.user_share * 100.0), |v| format!("{v:.0}%")),
                    of(0),
                    of(1),
                    of(2),
                    sample.errors.to_string(),
                ]);
                data.push(json!({"size": size, "proxy": peer.name(), "way": way, "sample": sample, "calls": calls}));
            }
        }
        report.heading(&format!("{} objects", show_size(size)));
        report.table(table);
    }
    report.data = json!(data);
    for &peer in &plan.peers {
        let cost = |wanted: usize| {
            large
                .iter()
                .find(|c| c.0 == peer && c.1 == WAYS[wanted].0)
                .map(|c| c.2)
        };
        if let Some((copied, spliced)) = cost(0).zip(cost(2)) {
            report.headline(format!(
                "{}: 1 MiB costs {copied:.0} us copied, {spliced:.0} us spliced through 512 kB",
                peer.name()
            ));
        }
    }
    let missing = "The study of 2012 was not at hand, and HAProxy's documentation gives no figure for splicing.";
    published::sizing(&mut report, &plan.peers, &[], missing);
    Ok(report)
}

/// The calls that move bytes: splice, then those that receive, then those that send.
const CALLS: [&[&str]; 3] = [
    &["splice"],
    &["recvfrom", "recvmsg", "read", "readv"],
    &["sendto", "sendmsg", "write", "writev"],
];

/// Calls per request, by the groups of [`CALLS`].
fn count_calls(stand: &Stand, proxy: &Running, path: &str) -> Result<[f64; 3]> {
    const TIME: Duration = Duration::from_millis(300);
    let points: Vec<String> = CALLS
        .iter()
        .flat_map(|group| {
            group
                .iter()
                .map(|name| format!("syscalls/sys_enter_{name}"))
        })
        .collect();
    let points: Vec<&str> = points.iter().map(String::as_str).collect();
    let load = stand.load(gets(proxy, path, CONNS, false)?)?;
    let _ = host::sleep(TIME / 4);
    let counter = Counter::start(&proxy.process, &points)?;
    let before = (load.totals().requests, counter.totals()?);
    let _ = host::sleep(TIME);
    let after = (load.totals().requests, counter.totals()?);
    drop(counter);
    load.stop()?;
    let requests = (after.0 - before.0).max(1) as f64;
    let mut each = after
        .1
        .iter()
        .zip(&before.1)
        .map(|(after, before)| (after - before) as f64 / requests);
    Ok(CALLS.map(|group| each.by_ref().take(group.len()).sum::<f64>() + 0.0))
}
