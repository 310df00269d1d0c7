//! One round with one proxy: load it, and read what it cost.

use super::Options;
use super::config::REDIRECT_TO;
use super::peer::Running;
use super::scenario::{Kind, Measure, Scenario};
use crate::host;
use crate::inject::mix::{Mix, Spec};
use crate::inject::{self, Load, Totals};
use crate::process::CpuTime;
use crate::units::{show_count, show_ns, show_size};
use anyhow::{Context, Result, bail, ensure};
use serde::Serialize;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// What one round saw.
#[derive(Debug, Clone, Serialize)]
pub struct Sample {
    /// The scenario's figure: microseconds of CPU per request, or bytes per connection.
    pub cost: f64,
    /// Share of it in user space; not a number when too short to tell.
    pub user_share: f64,
    /// How busy the proxy's CPU was, 0 to 1 (times workers).
    pub busy: f64,
    /// Requests per second.
    pub requests_per_s: f64,
    /// New connections per second.
    pub conns_per_s: f64,
    /// Bits per second received by the client.
    pub bits_per_s: f64,
    /// Latency percentiles 50, 90, 99, 99.9 in nanoseconds.
    pub latency_ns: [u64; 4],
    /// Failures.
    pub errors: u64,
    /// Resident memory at the end.
    pub resident_bytes: u64,
}

impl Sample {
    /// In one line.
    #[must_use]
    pub fn brief(&self, scenario: &Scenario) -> String {
        let errors = if self.errors > 0 {
            format!(", {} errors", self.errors)
        } else {
            String::new()
        };
        if scenario.measure == Measure::IdleMemory {
            return format!(
                "{:.0} B a connection, {} resident{errors}",
                self.cost,
                show_size(self.resident_bytes)
            );
        }
        format!(
            "{:.2} {} (user {:.0} %, busy {:.0} %), {} req/s, {}bit/s, p50 {} p99 {}{errors}",
            self.cost,
            scenario.unit(),
            self.user_share * 100.0,
            self.busy * 100.0,
            show_count(self.requests_per_s),
            show_count(self.bits_per_s),
            show_ns(self.latency_ns[0]),
            show_ns(self.latency_ns[2]),
        )
    }
}

/// The load that a scenario puts on a proxy.
///
/// # Errors
/// When the scenario's request is malformed.
pub fn load(options: &Options, scenario: &Scenario, proxy: &Running) -> Result<inject::Options> {
    let mut spec = Spec::get(scenario.path);
    spec.headers.insert("Accept".to_owned(), "*/*".to_owned());
    let host = scenario
        .host
        .map_or_else(|| proxy.addr.to_string(), str::to_owned);
    let close = scenario.kind == Kind::Close;
    let mut load = inject::Options::new(proxy.addr, Mix::single(&spec, &host, close)?);
    load.conns = scenario.conns;
    load.threads = options.load_cpus.0.len().max(1);
    load.cpus = options.load_cpus.clone();
    load.requests_per_conn = close.then_some(1);
    Ok(load)
}

/// Measures CPU time per request over `options.duration`.
///
/// # Errors
/// When the proxy died or answered nothing.
pub fn cpu(options: &Options, scenario: &Scenario, proxy: &mut Running) -> Result<Sample> {
    let load = Load::start(&load(options, scenario, proxy)?)?;
    let _ = host::sleep(options.warm_up);
    let before = Reading::take(&load, proxy);
    let _ = host::sleep(options.duration);
    let after = Reading::take(&load, proxy);
    let resident_bytes = proxy.process.resident_bytes();
    let report = load.stop()?;
    proxy.process.check_alive()?;
    let span_s = (after.at - before.at).as_secs_f64();
    let done = after.done.requests - before.done.requests;
    if done == 0 && !crate::sys::interrupted() {
        bail!(
            "{} answered nothing in {span_s:.1} s ({} errors)",
            proxy.peer.name(),
            after.done.errors
        );
    }
    let cpu = after.cpu.since(before.cpu);
    let per_s = |n: u64| n as f64 / span_s;
    let at = |p| report.counts.latency.value_at_percentile(p);
    Ok(Sample {
        cost: cpu.total_ns as f64 / 1e3 / done as f64,
        user_share: cpu.user_share(),
        busy: cpu.total_ns as f64 / 1e9 / span_s,
        requests_per_s: per_s(done),
        conns_per_s: per_s(after.done.conns - before.done.conns),
        bits_per_s: per_s(8 * (after.done.bytes - before.done.bytes)),
        latency_ns: [at(50.0), at(90.0), at(99.0), at(99.9)],
        errors: after.done.errors,
        resident_bytes,
    })
}

/// Measures what `scenario.conns` idle keep-alive connections add to the proxy's resident memory.
///
/// # Errors
/// When not all connections could be opened and answered in time.
pub fn idle_memory(options: &Options, scenario: &Scenario, proxy: &mut Running) -> Result<Sample> {
    const OPEN_TIMEOUT: Duration = Duration::from_secs(30);
    let base = load(options, scenario, proxy)?;
    // What a first request allocates once is no cost of a connection.
    let few = inject::Options {
        conns: 16,
        requests_max: Some(1000),
        ..base.clone()
    };
    Load::start(&few)?.wait(|_| {})?;
    let _ = host::sleep(Duration::from_millis(200));
    let before = proxy.process.resident_bytes();
    let held = inject::Options {
        requests_per_conn: Some(1),
        hold: true,
        ramp: Duration::from_secs(1),
        ..base
    };
    let load = Load::start(&held)?;
    let until = Instant::now() + OPEN_TIMEOUT;
    while load.totals().requests < scenario.conns as u64 {
        let totals = load.totals();
        ensure!(
            Instant::now() < until,
            "only {} connections stand ({} errors)",
            totals.requests,
            totals.errors
        );
        proxy.process.check_alive()?;
        ensure!(host::sleep(Duration::from_millis(50)), "interrupted");
    }
    let _ = host::sleep(options.duration);
    let after = proxy.process.resident_bytes();
    let totals = load.totals();
    let report = load.stop()?;
    let at = |p| report.counts.latency.value_at_percentile(p);
    Ok(Sample {
        cost: after.saturating_sub(before) as f64 / scenario.conns as f64,
        user_share: f64::NAN,
        busy: f64::NAN,
        requests_per_s: f64::NAN,
        conns_per_s: f64::NAN,
        bits_per_s: f64::NAN,
        latency_ns: [at(50.0), at(90.0), at(99.0), at(99.9)],
        errors: totals.errors,
        resident_bytes: after,
    })
}

struct Reading {
    at: Instant,
    done: Totals,
    cpu: CpuTime,
}

impl Reading {
    fn take(load: &Load, proxy: &Running) -> Self {
        Self {
            at: Instant::now(),
            done: load.totals(),
            cpu: proxy.process.cpu(),
        }
    }
}

/// Sends one request and looks at the answer: a proxy that answers 503 fast is no fast proxy.
///
/// # Errors
/// Says what came instead.
pub fn check_work(scenario: &Scenario, proxy: &Running) -> Result<()> {
    let mut stream = TcpStream::connect(proxy.addr)?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let host = scenario.host.unwrap_or("check");
    write!(
        stream,
        "GET {} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n",
        scenario.path
    )?;
    let mut answer = Vec::new();
    stream
        .read_to_end(&mut answer)
        .context("no complete answer")?;
    let head_len = crate::http::head_len(&answer).context("the answer has no head")?;
    let head = String::from_utf8_lossy(&answer[..head_len]);
    let first = head.lines().next().unwrap_or_default();
    if scenario.kind == Kind::Redirect {
        ensure!(
            first.contains(" 302 ") && head.contains(REDIRECT_TO),
            "no redirect but '{first}'"
        );
        return Ok(());
    }
    ensure!(first.contains(" 200 "), "the answer is '{first}'");
    let asked = scenario
        .path
        .split_once("s=")
        .map_or(Ok(0), |(_, size)| crate::units::parse_size(size));
    let asked = asked.map_err(anyhow::Error::msg)?;
    let got = (answer.len() - head_len) as u64;
    ensure!(got == asked, "{got} bytes came instead of {asked}");
    Ok(())
}
