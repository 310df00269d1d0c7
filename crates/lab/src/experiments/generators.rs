//! The generator judged as it judges others: its CPU per request beside `wrk`'s and `h2load`'s, the same rates, and what either shows of
//! a server that stands still for a moment.
//!
//! Here the generators are the processes under test, pinned where a proxy would be; the origin counts the requests.

use super::{Place, Plan, cell, telling};
use crate::host;
use crate::process::{Process, WorkDir, find_program};
use crate::report::{Report, Table};
use crate::stand::Stand;
use crate::stats::{bootstrap_median, median, paired_ratios};
use crate::units::{parse_size, parse_time, show_count, show_ns, show_size};
use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::process::Command;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Path and connections of each comparison.
const WORKS: [(&str, usize); 5] = [
    // A server that takes its time sets the rate: here all must reach the same.
    ("/?s=64&t=5", 64),
    ("/?s=64", 64),
    ("/?s=64", 500),
    ("/?s=16k", 64),
    ("/?s=1m", 16),
];

/// A generator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tool {
    Inject,
    Wrk,
    /// nghttp2's, which speaks HTTP/1 too; it tells no percentiles.
    H2load,
}

impl Tool {
    fn name(self) -> &'static str {
        match self {
            Self::Inject => "inject",
            Self::Wrk => "wrk",
            Self::H2load => "h2load",
        }
    }

    /// The command for so many seconds of a closed loop, or of an open one at `rate`.
    fn command(
        self,
        target: SocketAddr,
        path: &str,
        conns: usize,
        seconds: u64,
        rate: Option<f64>,
    ) -> Result<Command> {
        let url = format!("http://{target}{path}");
        let mut command = match self {
            Self::Inject => {
                let mut command = Command::new(std::env::current_exe()?);
                command.args(["inject", "--quiet", "-t", "1"]);
                command
            }
            Self::Wrk => {
                let mut command =
                    Command::new(find_program("wrk").context("wrk is not installed")?);
                command.args(["--latency", "-t", "1"]);
                command
            }
            Self::H2load => {
                let program = find_program("h2load").context("h2load is not installed")?;
                let mut command = Command::new(program);
                command.args(["--h1", "-t", "1", "-c", &conns.to_string()]);
                command.args(["-D", &seconds.to_string(), &url]);
                return Ok(command);
            }
        };
        command.args(["-c", &conns.to_string(), "-d", &format!("{seconds}s"), &url]);
        if let Some(rate) = rate {
            command.args(["-R", &rate.to_string()]);
        }
        Ok(command)
    }
}

/// What a generator cost and reached.
struct Cost {
    us_per_request: f64,
    requests_per_s: f64,
}

/// Runs both, or only `inject` where wrk is missing.
///
/// # Errors
/// When the stand cannot be built or a generator fails.
pub fn run(plan: &Plan) -> Result<Report> {
    let mut report = Report::new(
        "generators",
        "The generator beside others",
        "CPU time of the load generator per request, generator and origin on a CPU each, in interleaved rounds; and what each \
         tells of a server that stands still for half a second.",
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
    // Generators and origin are all there is: no proxy, no cables.
    let plan = &Plan {
        place: Place::Loopback,
        ..plan.clone()
    };
    let mut data = Vec::new();
    costs(plan, &tools, &mut report, &mut data)?;
    stall(plan, &tools, &mut report, &mut data)?;
    report.data = Value::Array(data);
    Ok(report)
}

fn costs(plan: &Plan, tools: &[Tool], report: &mut Report, data: &mut Vec<Value>) -> Result<()> {
    let rounds = if plan.short { 3 } else { 9 };
    let stand = plan.stand(None)?;
    let mut table = Table::new(&[
        "work",
        "generator",
        "us/req",
        "beside wrk",
        "",
        "req/s",
        "beside wrk",
        "",
    ]);
    for (path, conns) in WORKS {
        telling(&format!("generators: {path}, {conns} connections"));
        let mut series: Vec<(Tool, Vec<Cost>)> =
            tools.iter().map(|&tool| (tool, Vec::new())).collect();
        for _ in 0..rounds {
            for (tool, costs) in &mut series {
                if crate::sys::interrupted() {
                    report.interrupted = true;
                    return Ok(());
                }
                costs.push(one(plan, &stand, *tool, path, conns)?);
            }
        }
        let us = |of: &[Cost]| {
            of.iter()
                .map(|cost| cost.us_per_request)
                .collect::<Vec<_>>()
        };
        let rates = |of: &[Cost]| {
            of.iter()
                .map(|cost| cost.requests_per_s)
                .collect::<Vec<_>>()
        };
        let wrk = series.iter().find(|(tool, _)| *tool == Tool::Wrk);
        let beside = |tool: Tool, mine: &[f64], theirs: Option<Vec<f64>>| {
            let ratio = theirs
                .filter(|_| tool != Tool::Wrk)
                .and_then(|theirs| bootstrap_median(&paired_ratios(mine, &theirs)));
            let note = ratio.map_or("", |r| {
                if r.covers(1.0) {
                    "no difference shown"
                } else {
                    ""
                }
            });
            let text = ratio.map(|r| format!("{:.3} [{:.3}, {:.3}]", r.median, r.low, r.high));
            [text.unwrap_or_else(|| "-".to_owned()), note.to_owned()]
        };
        for (tool, costs) in &series {
            let [cost_ratio, cost_note] = beside(*tool, &us(costs), wrk.map(|w| us(&w.1)));
            let [rate_ratio, rate_note] = beside(*tool, &rates(costs), wrk.map(|w| rates(&w.1)));
            let cost = cell(median(&us(costs)), |v| format!("{v:.2}"));
            telling(&format!("  {:8} {cost} us/req", tool.name()));
            table.row([
                work(path, conns),
                tool.name().to_owned(),
                cost,
                cost_ratio,
                cost_note,
                cell(median(&rates(costs)), show_count),
                rate_ratio,
                rate_note,
            ]);
            data.push(json!({
                "path": path, "conns": conns, "generator": tool.name(),
                "us_per_request": us(costs), "requests_per_s": rates(costs),
            }));
        }
    }
    report.heading("CPU of the generator per request");
    report.table(table);
    Ok(())
}

/// `64 B after 5 ms, 64 connections`.
fn work(path: &str, conns: usize) -> String {
    let query = path.split_once('?').map_or("", |(_, query)| query);
    let of = |name: &str| query.split('&').find_map(|pair| pair.strip_prefix(name));
    let size = of("s=").and_then(|size| parse_size(size).ok()).unwrap_or(0);
    let wait = of("t=").map_or_else(String::new, |ms| format!(" after {ms} ms"));
    format!("{}{wait}, {conns} connections", show_size(size))
}

fn one(plan: &Plan, stand: &Stand, tool: Tool, path: &str, conns: usize) -> Result<Cost> {
    const WARM_UP: Duration = Duration::from_millis(300);
    let span = plan
        .span(Duration::from_secs(2), Duration::from_millis(500))
        .duration;
    let dir = WorkDir::new()?;
    let command = tool.command(stand.origin.addr(), path, conns, 2 + span.as_secs(), None)?;
    let mut process = Process::start(tool.name(), command, &stand.options.proxy_cpus, dir.path())?;
    let served = || stand.origin.counters().requests.load(Ordering::Relaxed);
    let _ = host::sleep(WARM_UP);
    let before = (Instant::now(), served(), process.cpu());
    let _ = host::sleep(span);
    let after = (Instant::now(), served(), process.cpu());
    process.check_alive()?;
    let requests = (after.1 - before.1) as f64;
    Ok(Cost {
        us_per_request: after.2.since(before.2).total_ns as f64 / 1e3 / requests,
        requests_per_s: requests / (after.0 - before.0).as_secs_f64(),
    })
}

/// An origin of its own is stopped (SIGSTOP) for half a second of three.
fn stall(plan: &Plan, tools: &[Tool], report: &mut Report, data: &mut Vec<Value>) -> Result<()> {
    const RATE: f64 = 2000.0;
    let mut table = Table::new(&["generator", "p50", "p75", "p90", "p99"]);
    let modes = tools
        .iter()
        .filter(|&&tool| tool != Tool::H2load)
        .map(|&tool| (tool, None))
        .chain([(Tool::Inject, Some(RATE))]);
    for (tool, rate) in modes {
        if crate::sys::interrupted() {
            report.interrupted = true;
            return Ok(());
        }
        let name = match rate {
            Some(rate) => format!("{} open loop, {} req/s", tool.name(), show_count(rate)),
            None => format!("{} closed loop", tool.name()),
        };
        telling(&format!("generators: a stall, {name}"));
        let latencies = stalled(plan, tool, rate)?;
        let shown = latencies.map(|ns| ns.map_or("-".to_owned(), show_ns));
        table.row(std::iter::once(name.clone()).chain(shown));
        data.push(json!({"stall": name, "latency_ns": latencies}));
    }
    report.heading("A server that stands still for 0.5 s of 3 s");
    report.text(
        "A closed loop sends nothing while it waits: the stall is one slow answer per connection among thousands of fast ones. \
         The open loop counts every request that was due meanwhile.",
    );
    report.table(table);
    Ok(())
}

fn stalled(plan: &Plan, tool: Tool, rate: Option<f64>) -> Result<[Option<u64>; 4]> {
    const SECONDS: u64 = 3;
    let dir = WorkDir::new()?;
    let target = SocketAddr::from(([127, 0, 0, 1], crate::process::free_port()?));
    let mut origin = Command::new(std::env::current_exe()?);
    origin.args(["origin", "--listen", &target.to_string()]);
    let mut origin = Process::start("origin", origin, &plan.load_cpus, dir.path())?;
    origin.wait_ready(target)?;
    let command = tool.command(target, "/?s=64", 8, SECONDS, rate)?;
    let mut process = Process::start(tool.name(), command, &plan.proxy_cpus, dir.path())?;
    let _ = host::sleep(Duration::from_secs(1));
    let pid = origin
        .pids()
        .first()
        .and_then(|&pid| Pid::from_raw(pid as i32))
        .context("the origin has no process")?;
    kill_process(pid, Signal::STOP)?;
    let _ = host::sleep(Duration::from_millis(500));
    kill_process(pid, Signal::CONT)?;
    process.wait_end(Duration::from_secs(SECONDS + 5))?;
    Ok(latencies(&process.output()))
}

/// Percentiles 50, 75, 90, 99 out of either tool's report, in nanoseconds.
fn latencies(output: &str) -> [Option<u64>; 4] {
    let words: Vec<&str> = output.split_whitespace().collect();
    [50, 75, 90, 99].map(|p| {
        let is_it = |word: &&str| *word == format!("{p}%") || *word == format!("p{p}");
        let value = words.get(words.iter().position(is_it)? + 1)?;
        parse_latency(value)
    })
}

/// `1.23ms` as both tools write it; `ns` is below what a command line's times know.
fn parse_latency(text: &str) -> Option<u64> {
    match text.strip_suffix("ns") {
        Some(ns) => ns.parse().ok(),
        None => parse_time(text).ok().map(|time| time.as_nanos() as u64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn works_in_words() {
        assert_eq!(work("/?s=64&t=5", 8), "64 B after 5 ms, 8 connections");
        assert_eq!(work("/?s=16k", 64), "16 KiB, 64 connections");
    }

    #[test]
    fn both_reports_are_read() {
        let wrk = "  Latency Distribution\n     50%    1.17ms\n     75%    1.29ms\n     90%    1.44ms\n     99%  500.00us\n";
        assert_eq!(
            latencies(wrk),
            [
                Some(1_170_000),
                Some(1_290_000),
                Some(1_440_000),
                Some(500_000)
            ]
        );
        let inject = "latency: p50 727.6us p75 840ns p90 1.50s p99 2.13ms p99.9 8ms\n";
        assert_eq!(
            latencies(inject),
            [
                Some(727_600),
                Some(840),
                Some(1_500_000_000),
                Some(2_130_000)
            ]
        );
        assert_eq!(latencies("nothing"), [None; 4]);
    }
}
