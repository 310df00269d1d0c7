//! Interleaved rounds of the generators against the same target: rates, and CPU time per request.

use super::tool::{Order, Tool};
use crate::compare::config::Job;
use crate::compare::peer::{self, Peer, Running};
use crate::experiments::{Plan, telling};
use crate::host;
use crate::process::{Process, WorkDir};
use crate::report::Report;
use crate::stand::Stand;
use crate::stats::{Interval, bootstrap_median, median, paired_ratios};
use anyhow::{Result, ensure};
use serde::Serialize;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Who answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Target {
    /// The lab's origin, on a CPU of its own.
    Origin,
    /// HAProxy and that origin behind it, on the same CPU.
    Haproxy,
}

/// What is asked of the target.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Work {
    /// In words.
    pub title: &'static str,
    /// Who answers.
    pub target: Target,
    /// Path with query.
    pub path: &'static str,
    /// Concurrent connections.
    pub conns: usize,
    /// Whether the target is so much slower than any generator that it sets the rate.
    pub paced: bool,
}

/// All works. Where the target sets the pace every generator must reach the same rate; where it does not, the rate is
/// the generator's own.
pub const WORKS: [Work; 7] = [
    Work {
        title: "64 B after 20 ms, 64 connections",
        target: Target::Origin,
        path: "/?s=64&t=20",
        conns: 64,
        paced: true,
    },
    Work {
        title: "64 B after 500 us of computing, 64 connections",
        target: Target::Origin,
        path: "/?s=64&busy=500us",
        conns: 64,
        paced: true,
    },
    Work {
        title: "64 B after 200 us of computing, through haproxy, 64 connections",
        target: Target::Haproxy,
        path: "/?s=64&busy=200us",
        conns: 64,
        paced: true,
    },
    Work {
        title: "64 B, 64 connections",
        target: Target::Origin,
        path: "/?s=64",
        conns: 64,
        paced: false,
    },
    Work {
        title: "64 B, 500 connections",
        target: Target::Origin,
        path: "/?s=64",
        conns: 500,
        paced: false,
    },
    Work {
        title: "16 KiB, 64 connections",
        target: Target::Origin,
        path: "/?s=16k",
        conns: 64,
        paced: false,
    },
    Work {
        title: "1 MiB, 16 connections",
        target: Target::Origin,
        path: "/?s=1m",
        conns: 16,
        paced: false,
    },
];

/// One generator's rounds at a work.
#[derive(Debug, Clone, Serialize)]
pub struct Series {
    /// Which.
    pub tool: Tool,
    /// CPU microseconds of the generator per request.
    pub us_per_request: Vec<f64>,
    /// Requests per second.
    pub requests_per_s: Vec<f64>,
}

/// All generators at a work.
#[derive(Debug, Clone, Serialize)]
pub struct Measured {
    /// What was asked.
    pub work: Work,
    /// By generator.
    pub series: Vec<Series>,
}

/// One of the two figures of [`Series`].
pub type Figure = fn(&Series) -> &[f64];

/// CPU per request.
pub fn cost(series: &Series) -> &[f64] {
    &series.us_per_request
}

/// Requests per second.
pub fn rate(series: &Series) -> &[f64] {
    &series.requests_per_s
}

impl Measured {
    /// A generator's rounds.
    pub fn of(&self, tool: Tool) -> Option<&Series> {
        self.series
            .iter()
            .find(|s| s.tool == tool && !s.requests_per_s.is_empty())
    }

    /// A figure of one generator over another's, round by round.
    pub fn ratios(&self, one: Tool, other: Tool, figure: Figure) -> Option<Vec<f64>> {
        let (one, other) = (figure(self.of(one)?), figure(self.of(other)?));
        Some(paired_ratios(one, other))
    }

    /// The median of these with its interval.
    pub fn ratio(&self, one: Tool, other: Tool, figure: Figure) -> Option<Interval> {
        bootstrap_median(&self.ratios(one, other, figure)?)
    }
}

/// Runs a work; what fails is noted in the report, an interrupt ends it with the rounds there are.
pub fn measure(
    plan: &Plan,
    stand: &Stand,
    work: Work,
    tools: &[Tool],
    report: &mut Report,
) -> Measured {
    let rounds = if plan.short { 5 } else { 9 };
    let empty = |&tool: &Tool| Series {
        tool,
        us_per_request: Vec::new(),
        requests_per_s: Vec::new(),
    };
    let mut measured = Measured {
        work,
        series: tools.iter().map(empty).collect(),
    };
    telling(&format!("generators: {}", work.title));
    let between = match work.target {
        Target::Origin => Ok(None),
        Target::Haproxy => between(stand).map(Some),
    };
    let run = between.and_then(|between| {
        let target = between
            .as_ref()
            .map_or(stand.origin.addr(), |proxy| proxy.addr);
        for _ in 0..rounds {
            for series in &mut measured.series {
                if crate::sys::interrupted() {
                    report.interrupted = true;
                    return Ok(());
                }
                let (us, rate) = one(plan, stand, series.tool, work, target)?;
                series.us_per_request.push(us);
                series.requests_per_s.push(rate);
            }
        }
        Ok(())
    });
    if let Err(error) = run {
        let text = format!("{}: {error:#}", work.title);
        telling(&format!("  {text}"));
        report.fail(text);
    }
    for series in &measured.series {
        if let Some((us, rate)) = median(cost(series)).zip(median(rate(series))) {
            telling(&format!(
                "  {:8} {us:.2} us/req, {rate:.0} req/s",
                series.tool.name()
            ));
        }
    }
    measured
}

/// HAProxy where the origin is.
fn between(stand: &Stand) -> Result<Running> {
    let job: Job = stand.job()?;
    let dir = stand.dir().join("between");
    std::fs::create_dir_all(&dir)?;
    peer::start(
        Peer::Haproxy,
        &stand.options.programs,
        &job,
        &stand.options.load_cpus,
        &dir,
    )
}

/// CPU per request and rate of one round. The origin counts the requests, for all generators alike.
fn one(
    plan: &Plan,
    stand: &Stand,
    tool: Tool,
    work: Work,
    target: SocketAddr,
) -> Result<(f64, f64)> {
    const WARM_UP: Duration = Duration::from_millis(200);
    let span = plan
        .span(Duration::from_secs(2), Duration::from_millis(400))
        .duration;
    let dir = WorkDir::new()?;
    let command = tool.command(Order {
        target,
        path: work.path,
        conns: work.conns,
        // It is stopped before.
        seconds: 2 + span.as_secs(),
        rate: None,
    })?;
    let mut process = Process::start(tool.name(), command, &stand.options.proxy_cpus, dir.path())?;
    let served = || stand.origin.counters().requests.load(Ordering::Relaxed);
    let _ = host::sleep(WARM_UP);
    let before = (Instant::now(), served(), process.cpu());
    let _ = host::sleep(span);
    let after = (Instant::now(), served(), process.cpu());
    process.check_alive()?;
    let requests = (after.1 - before.1) as f64;
    ensure!(
        requests > 0.0 || crate::sys::interrupted(),
        "{} had no answer",
        tool.name()
    );
    Ok((
        after.2.since(before.2).total_ns as f64 / 1e3 / requests,
        requests / (after.0 - before.0).as_secs_f64(),
    ))
}
