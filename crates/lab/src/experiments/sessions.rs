//! The sessions of 2009: how fast connections are set up and torn down, step by step.
//!
//! A reject before a byte is read, a request parsed and answered with a redirect (kept and closed), a small object
//! forwarded. On three hosts the packets of a session are counted on the cables.

use super::published::{self, Beside};
use super::{Plan, cell, gets, per_cpu_second, telling, try_measure};
use crate::compare::config::{Act, Job};
use crate::compare::peer::{Peer, Running};
use crate::measure::{Sample, Span};
use crate::report::{Report, Table};
use crate::stand::Stand;
use crate::units::{show_count, show_ns};
use anyhow::Result;
use serde_json::json;
use std::time::Duration;

const CONNS: usize = 64;
/// Sessions whose packets are counted.
const SESSIONS: u64 = 1000;

/// One step.
struct Step {
    name: &'static str,
    title: &'static str,
    act: Act,
    close: bool,
    /// The peers that can do it.
    relay: bool,
}

fn steps() -> [Step; 4] {
    let step = |name, title, act, close| Step {
        name,
        title,
        act,
        close,
        relay: false,
    };
    [
        step("reject", "TCP-level reject", Act::Reject, true),
        step(
            "redirect",
            "Parse, redirect by nbsrv, keep-alive",
            Act::RedirectIfDown,
            false,
        ),
        step(
            "redirect-close",
            "Accept, parse, redirect, close",
            Act::RedirectIfDown,
            true,
        ),
        Step {
            relay: true,
            ..step(
                "forward",
                "Forward a 64-byte object, close",
                Act::Forward,
                true,
            )
        },
    ]
}

/// Runs all steps.
///
/// # Errors
/// When the stand cannot be built.
pub fn run(plan: &Plan) -> Result<Report> {
    let mut report = Report::new(
        "sessions",
        "Sessions",
        "Rates of set-up and teardown: a TCP-level reject, a parsed request answered with a redirect, the same with a \
         connection each, and a 64-byte object forwarded. Packets per session are counted on the cables.",
    );
    let span = plan.span(Duration::from_secs(10), Duration::from_millis(700));
    let mut data = Vec::new();
    let mut costs = Vec::new();
    for step in steps() {
        if crate::sys::interrupted() {
            report.interrupted = true;
            break;
        }
        let stand = plan.stand(Some((1500, 1500)))?;
        let mut table = Table::new(&[
            "proxy",
            "sessions/s",
            "us/session",
            "user",
            "p50",
            "p99",
            "packets to client",
            "packets to origin",
            "errors",
        ]);
        telling(&format!("sessions {}", step.name));
        for &peer in plan
            .peers
            .iter()
            .filter(|&&peer| step.relay || peer != Peer::Relay)
        {
            let mut packets = None;
            let shape = |job: &mut Job| {
                job.act = step.act.clone();
                job.close = step.close;
            };
            let measured = try_measure(&mut report, &stand, peer, step.title, shape, |proxy| {
                packets = stand.packets(load(proxy, &step)?, SESSIONS)?;
                one(&stand, proxy, &step, span)
            });
            let Some(sample) = measured else { continue };
            telling(&format!(
                "  {:8} {} sessions/s, {:.1} us",
                peer.name(),
                show_count(sample.requests_per_s),
                sample.cost
            ));
            let per_session = |n: Option<f64>| cell(n, |v| format!("{v:.1}"));
            table.row([
                peer.name().to_owned(),
                show_count(sample.requests_per_s),
                format!("{:.2}", sample.cost),
                cell(Some(sample.user_share * 100.0), |v| format!("{v:.0}%")),
                show_ns(sample.latency_ns[0]),
                show_ns(sample.latency_ns[2]),
                per_session(packets.map(|p| p.client)),
                per_session(packets.map(|p| p.origin)),
                sample.errors.to_string(),
            ]);
            costs.push((step.name, peer, sample.cost));
            data.push(json!({"step": step.name, "proxy": peer.name(), "sample": sample, "packets": packets}));
        }
        report.heading(step.title);
        report.table(table);
    }
    report.data = json!(data);
    for (name, title) in [("reject", "rejected"), ("forward", "forwarded")] {
        let all = costs.iter().filter(|c| c.0 == name);
        let list: Vec<_> = all
            .map(|(_, peer, cost)| format!("{} {cost:.1}", peer.name()))
            .collect();
        if !list.is_empty() {
            report.headline(format!("us a connection {title}: {}", list.join(", ")));
        }
    }
    let of = |name: &'static str| {
        let costs = &costs;
        move |peer| {
            let cost = costs.iter().find(|c| c.0 == name && c.1 == peer)?.2;
            Some(per_cpu_second(cost))
        }
    };
    let rows = [
        Beside::new(
            "TCP connections rejected, per second of one CPU",
            "300000",
            &plan.peers,
            of("reject"),
        ),
        Beside::new(
            "HTTP connections forwarded, per second of one CPU",
            "82000",
            &plan.peers,
            of("forward"),
        ),
    ];
    published::sizing(&mut report, &plan.peers, &rows, MISSING);
    Ok(report)
}

const MISSING: &str = "The report of 2009 whose steps these are was not at hand: no figure of it stands here. Of the IPVS study \
nothing is at hand but what this project's task for sluice-l4 quotes: 40 000 new connections per second with its default table, 380 000 tuned, \
with dips. That is a packet director, which ends no connection, on a machine unknown: nothing here can stand beside it.";

fn load(proxy: &Running, step: &Step) -> Result<crate::inject::Options> {
    let mut load = gets(proxy, "/?s=64", CONNS, step.close)?;
    load.refusal_expected = step.act == Act::Reject;
    Ok(load)
}

fn one(stand: &Stand, proxy: &mut Running, step: &Step, span: Span) -> Result<Sample> {
    stand.measure(proxy, load(proxy, step)?, span)
}
