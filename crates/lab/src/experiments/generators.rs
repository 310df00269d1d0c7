//! The generator judged as it judges others: its CPU per request beside `wrk`'s and `h2load`'s, the same rates where the target sets
//! the pace, and what each shows of a server that stands still for a moment. The verdict stands first.
//!
//! Here the generators are the processes under test, pinned where a proxy would be; the origin counts the requests.

mod rounds;
mod stall;
mod tool;
mod verdict;

use super::{Place, Plan, cell};
use crate::host::CpuList;
use crate::process::find_program;
use crate::report::{Block, Report, Table};
use crate::stats::{Interval, bootstrap_median};
use crate::units::{show_count, show_ns};
use anyhow::Result;
use rounds::{Measured, WORKS, cost, rate};
use serde_json::json;
use stall::Told;
use std::time::Duration;
use tool::Tool;
use verdict::{NO_DIFFERENCE, Verdict, likeness};

/// Runs all generators that are installed.
///
/// # Errors
/// When the stand cannot be built.
pub fn run(plan: &Plan) -> Result<Report> {
    let mut report = Report::new(
        "generators",
        "The generator beside others",
        "The judge, judged: inject, wrk and h2load with one thread on one CPU, the target on another, in interleaved rounds. \
         The rates they reach, the CPU time they take per request, and what each tells of a server that stands still for half a second.",
    );
    let mut tools = vec![Tool::Inject];
    for tool in [Tool::Wrk, Tool::H2load] {
        match find_program(tool.name()) {
            Some(_) => tools.push(tool),
            None => report.text(format!(
                "{} is not installed: it was left out.",
                tool.name()
            )),
        }
    }
    // Generators and target are all there is: a CPU each, no cables.
    let first = |cpus: &CpuList| CpuList(cpus.0.iter().take(1).copied().collect());
    let plan = &Plan {
        place: Place::Loopback,
        proxy_cpus: first(&plan.proxy_cpus),
        load_cpus: first(&plan.load_cpus),
        ..plan.clone()
    };
    let stand = plan.stand(None)?;
    let mut measured = Vec::new();
    for work in WORKS {
        if crate::sys::interrupted() {
            report.interrupted = true;
            break;
        }
        measured.push(rounds::measure(plan, &stand, work, &tools, &mut report));
    }
    let told = stall::run(plan, &tools, &mut report);
    // What failed was noted as it happened; the verdict stands before it.
    let notes = std::mem::take(&mut report.blocks);
    report.heading("Verdict");
    let verdict = [
        Verdict::cheaper(&measured),
        Verdict::same_rates(&measured),
        Verdict::stall(&told),
    ];
    let mut table = Table::new(&["claim", "verdict", "by what"]).of_words();
    for verdict in &verdict {
        table.row([
            verdict.claim.to_owned(),
            verdict.word().to_owned(),
            verdict.why.clone(),
        ]);
        report.headline(format!("{}: {}", verdict.claim, verdict.word()));
    }
    report.table(table);
    report.blocks.extend(
        notes
            .into_iter()
            .filter(|note| matches!(note, Block::Text(_))),
    );
    rates(&measured, &mut report);
    costs(&measured, &mut report);
    stalls(&told, &mut report);
    report.text("Nothing published was at hand that compares these generators: no figure of others stands here.");
    report.data = json!({"works": measured, "stall": told});
    Ok(report)
}

fn ratio_text(ratio: &Interval) -> String {
    format!("{:.3} [{:.3}, {:.3}]", ratio.median, ratio.low, ratio.high)
}

/// A median with its interval.
fn with_interval(samples: &[f64], show: fn(f64) -> String) -> String {
    bootstrap_median(samples).map_or_else(
        || "-".to_owned(),
        |i| format!("{} [{}, {}]", show(i.median), show(i.low), show(i.high)),
    )
}

fn rates(measured: &[Measured], report: &mut Report) {
    report.heading("Rates where the target sets the pace");
    report.text("The target is several times slower than any generator, so that all must reach the same rate. Medians with their 95 % intervals.");
    let mut table = Table::new(&["target", "generator", "req/s", "beside inject", ""]);
    for m in measured.iter().filter(|m| m.work.paced) {
        for series in &m.series {
            let ratio = m
                .ratio(series.tool, Tool::Inject, rate)
                .filter(|_| series.tool != Tool::Inject);
            table.row([
                m.work.title.to_owned(),
                series.tool.name().to_owned(),
                with_interval(rate(series), show_count),
                ratio.as_ref().map_or("-".to_owned(), ratio_text),
                ratio.as_ref().map_or("", likeness).to_owned(),
            ]);
        }
    }
    report.table(table);
}

fn costs(measured: &[Measured], report: &mut Report) {
    report.heading("CPU of the generator per request");
    report.text("Microseconds of CPU time, user and system, of the generator's process. Where the target does not set the pace, the rate is the generator's own.");
    let mut table = Table::new(&["work", "generator", "us/req", "beside wrk", "", "req/s"]);
    for m in measured {
        for series in &m.series {
            let ratio = m
                .ratio(series.tool, Tool::Wrk, cost)
                .filter(|_| series.tool != Tool::Wrk);
            let note = match &ratio {
                Some(ratio) if ratio.covers(1.0) => NO_DIFFERENCE,
                Some(ratio) if ratio.median < 1.0 => "less",
                Some(_) => "more",
                None => "",
            };
            table.row([
                m.work.title.to_owned(),
                series.tool.name().to_owned(),
                with_interval(cost(series), |v| format!("{v:.2}")),
                ratio.as_ref().map_or("-".to_owned(), ratio_text),
                note.to_owned(),
                cell(crate::stats::median(rate(series)), show_count),
            ]);
        }
    }
    report.table(table);
}

fn stalls(told: &[Told], report: &mut Report) {
    report.heading("A server that stands still for 0.5 s of 3 s");
    report.text(
        "The origin is stopped (SIGSTOP) for half a second. A closed loop sends nothing while it waits: the stall is one slow answer \
         for each of 8 connections among thousands of fast ones. The open loop counts every request that was due meanwhile. wrk fills in \
         samples that it believes to have missed, so its upper percentiles tell of the stall though nobody was asked; h2load tells no percentiles.",
    );
    let mut table = Table::new(&["generator", "mean", "p50", "p90", "p99", "longest"]);
    let mut row = |who: String, told: &tool::Latencies| {
        let cells = [told.mean, told.at[0], told.at[1], told.at[2], told.max];
        table.row(std::iter::once(who).chain(cells.map(|ns| ns.map_or("-".to_owned(), show_ns))));
    };
    let stall = told
        .iter()
        .find(|told| told.rate.is_some())
        .map_or(stall::STALL, |told| Duration::from_nanos(told.stall_ns));
    row(
        "by arithmetic: requests due at even times".to_owned(),
        &stall::arithmetic(stall, stall::RUN),
    );
    for told in told {
        row(told.who(), &told.latencies);
    }
    report.table(table);
}
