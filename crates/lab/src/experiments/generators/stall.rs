//! A server that stands still for a moment, and what each generator tells of it.

use super::tool::{Latencies, Order, PERCENTILES, Tool};
use crate::experiments::{Plan, telling};
use crate::host;
use crate::process::{Process, WorkDir};
use crate::report::Report;
use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};
use serde::Serialize;
use std::net::SocketAddr;
use std::process::Command;
use std::time::{Duration, Instant};

/// Requests per second of the open loop.
pub const RATE: f64 = 2000.0;
/// Length of a run, and of the stall in it.
pub const RUN: Duration = Duration::from_secs(3);
/// How long the server stands still.
pub const STALL: Duration = Duration::from_millis(500);

/// What one generator told.
#[derive(Debug, Clone, Serialize)]
pub struct Told {
    /// Who.
    pub tool: Tool,
    /// Requests per second of the open loop; none for the closed.
    pub rate: Option<f64>,
    /// How long the server stood still, as seen from here.
    pub stall_ns: u64,
    /// What it told.
    pub latencies: Latencies,
}

impl Told {
    /// `inject, open loop at 2000 req/s`.
    pub fn who(&self) -> String {
        match self.rate {
            Some(rate) => format!("{}, open loop at {rate} req/s", self.tool.name()),
            None => format!("{}, closed loop", self.tool.name()),
        }
    }
}

/// What requests due at even times would have to say of a stall, all other answers taking no time: a share of them,
/// stall over run, waits for between all of it and nothing.
pub fn arithmetic(stall: Duration, run: Duration) -> Latencies {
    let share = stall.as_secs_f64() / run.as_secs_f64();
    let at = |q: f64| (stall.as_nanos() as f64 * (1.0 - (1.0 - q) / share).max(0.0)) as u64;
    Latencies {
        mean: Some((stall.as_nanos() as f64 * share / 2.0) as u64),
        at: PERCENTILES.map(|p| Some(at(p / 100.0))),
        max: Some(stall.as_nanos() as u64),
    }
}

/// Stalls a server under each generator's closed loop, and under the open one.
pub fn run(plan: &Plan, tools: &[Tool], report: &mut Report) -> Vec<Told> {
    let modes = tools
        .iter()
        .map(|&tool| (tool, None))
        .chain([(Tool::Inject, Some(RATE))]);
    let mut all = Vec::new();
    for (tool, rate) in modes {
        if crate::sys::interrupted() {
            report.interrupted = true;
            break;
        }
        let mut told = Told {
            tool,
            rate,
            stall_ns: 0,
            latencies: Latencies::default(),
        };
        telling(&format!("generators: a stall, {}", told.who()));
        match stalled(plan, tool, rate) {
            Ok((stall, latencies)) => {
                (told.stall_ns, told.latencies) = (stall.as_nanos() as u64, latencies);
                all.push(told);
            }
            Err(_) if crate::sys::interrupted() => report.interrupted = true,
            Err(error) => report.fail(format!("The stall, {}: {error:#}", told.who())),
        }
    }
    all
}

/// An origin of its own is stopped (SIGSTOP) in the middle of the run.
fn stalled(plan: &Plan, tool: Tool, rate: Option<f64>) -> Result<(Duration, Latencies)> {
    let dir = WorkDir::new()?;
    let target = SocketAddr::from(([127, 0, 0, 1], crate::process::free_port()?));
    let mut origin = Command::new(std::env::current_exe()?);
    origin.args(["origin", "--listen", &target.to_string()]);
    let mut origin = Process::start("origin", origin, &plan.load_cpus, dir.path())?;
    origin.wait_ready(target)?;
    let command = tool.command(Order {
        target,
        path: "/?s=64",
        conns: 8,
        seconds: RUN.as_secs(),
        rate,
    })?;
    let mut process = Process::start(tool.name(), command, &plan.proxy_cpus, dir.path())?;
    let _ = host::sleep(RUN / 3);
    let pid = origin
        .pids()
        .first()
        .and_then(|&pid| Pid::from_raw(pid as i32))
        .context("the origin has no process")?;
    kill_process(pid, Signal::STOP)?;
    let from = Instant::now();
    let _ = host::sleep(STALL);
    kill_process(pid, Signal::CONT)?;
    let stall = from.elapsed();
    process.wait_end(RUN + Duration::from_secs(5))?;
    Ok((stall, Latencies::read(tool, &process.output())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sixth_of_the_requests_waits() {
        let told = arithmetic(Duration::from_millis(500), Duration::from_secs(3));
        let ms = |ns: Option<u64>| ns.map(|ns| (ns as f64 / 1e6).round() as u64);
        assert_eq!(told.at.map(ms), [Some(0), Some(200), Some(470)]);
        assert_eq!((ms(told.mean), ms(told.max)), (Some(42), Some(500)));
    }
}
