//! One measurement: a load on one proxy for a while, and what both sides saw.

use crate::compare::peer::Running;
use crate::host::{self, CpuList};
use crate::inject::{Load, Totals};
use crate::process::CpuTime;
use anyhow::{Result, bail};
use serde::Serialize;
use std::time::{Duration, Instant};

/// How long to measure.
#[derive(Debug, Clone, Copy)]
pub struct Span {
    /// Unmeasured load before.
    pub warm_up: Duration,
    /// The measure.
    pub duration: Duration,
    /// Length of a tick: rates are also kept tick by tick.
    pub tick: Duration,
}

impl Span {
    /// A measure with a tick a second, or ten ticks when it is short.
    #[must_use]
    pub fn new(warm_up: Duration, duration: Duration) -> Self {
        Self {
            warm_up,
            duration,
            tick: (duration / 10).min(Duration::from_secs(1)),
        }
    }
}

/// The percentiles of [`Sample::latency_ns`].
pub const LATENCY_PERCENTILES: [f64; 4] = [50.0, 90.0, 99.0, 99.9];

/// What one measurement saw.
#[derive(Debug, Clone, Serialize)]
pub struct Sample {
    /// Microseconds of the proxy's CPU per request; for memory scenarios bytes per connection.
    pub cost: f64,
    /// Share of it in user space; not a number when too short to tell.
    pub user_share: f64,
    /// How busy the proxy was: CPU seconds per second.
    pub busy: f64,
    /// Requests per second.
    pub requests_per_s: f64,
    /// New connections per second.
    pub conns_per_s: f64,
    /// Bits per second received by the client.
    pub bits_per_s: f64,
    /// Latencies at [`LATENCY_PERCENTILES`] in nanoseconds.
    pub latency_ns: [u64; 4],
    /// Failures.
    pub errors: u64,
    /// Resident memory at the end.
    pub resident_bytes: u64,
    /// Rates tick by tick.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ticks: Vec<Tick>,
    /// Share of the proxy's CPUs: user, system (with interrupts), idle.
    pub cpu_shares: [f64; 3],
}

/// Rates during a tick.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Tick {
    /// Requests per second.
    pub requests_per_s: f64,
    /// Bits per second received by the client.
    pub bits_per_s: f64,
}

impl Sample {
    /// Nothing but a cost: where only memory was measured.
    #[must_use]
    pub fn of_cost(cost: f64) -> Self {
        Self {
            cost,
            user_share: f64::NAN,
            busy: f64::NAN,
            requests_per_s: f64::NAN,
            conns_per_s: f64::NAN,
            bits_per_s: f64::NAN,
            latency_ns: [0; 4],
            errors: 0,
            resident_bytes: 0,
            ticks: Vec::new(),
            cpu_shares: [f64::NAN; 3],
        }
    }
}

/// Lets a running load warm up, measures it, and stops it.
///
/// # Errors
/// When the proxy died or answered nothing at all.
pub fn measure(load: Load, proxy: &mut Running, cpus: &CpuList, span: Span) -> Result<Sample> {
    settle(&load);
    let _ = host::sleep(span.warm_up);
    let cpu_before = HostCpu::read(cpus);
    let before = Reading::take(&load, proxy);
    let mut ticks = Vec::new();
    let mut last = (before.at, before.done);
    while before.at.elapsed() + span.tick / 2 < span.duration {
        let left = span.duration.saturating_sub(before.at.elapsed());
        let going = host::sleep(left.min(span.tick));
        let now = (Instant::now(), load.totals());
        ticks.push(Tick::between(last, now));
        last = now;
        if !going {
            break;
        }
    }
    let after = Reading::take(&load, proxy);
    let cpu_shares = HostCpu::read(cpus).since(&cpu_before);
    let resident_bytes = proxy.process.resident_bytes();
    let report = load.stop()?;
    proxy.process.check_alive()?;
    let span_s = (after.at - before.at).as_secs_f64();
    let done = after.done.requests - before.done.requests;
    if done == 0 && crate::sys::interrupted() {
        bail!("interrupted");
    }
    if after.done.requests == 0 && after.done.bytes == 0 {
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
        latency_ns: LATENCY_PERCENTILES.map(at),
        errors: after.done.errors,
        resident_bytes,
        ticks,
        cpu_shares,
    })
}

/// Opening thousands of connections takes its time, which is no part of what they cost once they stand.
fn settle(load: &Load) {
    const TIMEOUT: Duration = Duration::from_secs(15);
    let until = Instant::now() + TIMEOUT;
    while !load.settled() && Instant::now() < until && host::sleep(Duration::from_millis(5)) {}
}

impl Tick {
    fn between((from, before): (Instant, Totals), (to, after): (Instant, Totals)) -> Self {
        let span_s = (to - from).as_secs_f64().max(1e-9);
        Self {
            requests_per_s: (after.requests - before.requests) as f64 / span_s,
            bits_per_s: 8.0 * (after.bytes - before.bytes) as f64 / span_s,
        }
    }
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

/// Ticks of some CPUs: user, system, idle.
#[derive(Debug, Default, PartialEq, Eq)]
struct HostCpu([u64; 3]);

impl HostCpu {
    fn read(cpus: &CpuList) -> Self {
        Self::parse(
            &std::fs::read_to_string("/proc/stat").unwrap_or_default(),
            cpus,
        )
    }

    fn parse(text: &str, cpus: &CpuList) -> Self {
        let mut sum = [0; 3];
        for line in text.lines() {
            let mut fields = line.split_whitespace();
            let cpu = fields
                .next()
                .and_then(|name| name.strip_prefix("cpu")?.parse::<usize>().ok());
            if !cpu.is_some_and(|cpu| cpus.0.contains(&cpu)) {
                continue;
            }
            // user nice system idle iowait irq softirq steal: proc(5)
            let ticks: Vec<u64> = fields.filter_map(|n| n.parse().ok()).collect();
            let of = |places: &[usize]| places.iter().filter_map(|&n| ticks.get(n)).sum::<u64>();
            for (sum, ticks) in sum
                .iter_mut()
                .zip([of(&[0, 1]), of(&[2, 5, 6]), of(&[3, 4])])
            {
                *sum += ticks;
            }
        }
        Self(sum)
    }

    fn since(&self, before: &Self) -> [f64; 3] {
        let mut spent = [0.0; 3];
        for (spent, (now, then)) in spent.iter_mut().zip(self.0.iter().zip(before.0)) {
            *spent = now.saturating_sub(then) as f64;
        }
        let total: f64 = spent.iter().sum();
        spent.map(|ticks| ticks / total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_the_chosen_cpus() {
        let cpus = CpuList(vec![1]);
        let text = |user, system, idle| {
            format!("cpu  9 9 9 9\ncpu0 9 9 9 9 9 9 9 0\ncpu1 {user} 0 {system} {idle} 0 0 0 0\n")
        };
        let before = HostCpu::parse(&text(100, 50, 10), &cpus);
        let after = HostCpu::parse(&text(120, 110, 30), &cpus);
        assert_eq!(after.since(&before), [0.2, 0.6, 0.2]);
    }
}
