//! One round with one proxy: what is sent, and the measures that are not CPU time.

use super::config::REDIRECT_TO;
use super::peer::Running;
use super::scenario::{Kind, Measure, Scenario};
use crate::host;
use crate::inject;
use crate::inject::mix::{Mix, Spec};
use crate::measure::Sample;
use crate::stand::Stand;
use crate::syscalls::{ALL, Counter};
use crate::units::{show_count, show_ns, show_size};
use anyhow::{Context, Result, ensure};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// A sample in one line.
#[must_use]
pub fn brief(sample: &Sample, scenario: &Scenario) -> String {
    let errors = if sample.errors > 0 {
        format!(", {} errors", sample.errors)
    } else {
        String::new()
    };
    if scenario.measure == Measure::IdleMemory {
        return format!(
            "{:.0} B a connection, {} resident{errors}",
            sample.cost,
            show_size(sample.resident_bytes)
        );
    }
    format!(
        "{:.2} {} (user {:.0} %, busy {:.0} %), {} req/s, {}bit/s, p50 {} p99 {}{errors}",
        sample.cost,
        scenario.unit(),
        sample.user_share * 100.0,
        sample.busy * 100.0,
        show_count(sample.requests_per_s),
        show_count(sample.bits_per_s),
        show_ns(sample.latency_ns[0]),
        show_ns(sample.latency_ns[2]),
    )
}

/// The load that a scenario puts on a proxy.
///
/// # Errors
/// When the scenario's request is malformed.
pub fn load(scenario: &Scenario, proxy: &Running) -> Result<inject::Options> {
    let mut spec = Spec::get(scenario.path);
    spec.headers.insert("Accept".to_owned(), "*/*".to_owned());
    let host = scenario
        .host
        .map_or_else(|| proxy.addr.to_string(), str::to_owned);
    let close = scenario.kind == Kind::Close;
    let mut load = inject::Options::new(proxy.addr, Mix::single(&spec, &host, close)?);
    load.conns = scenario.conns;
    load.requests_per_conn = close.then_some(1);
    Ok(load)
}

/// System calls per request, counted over half a second.
///
/// # Errors
/// When the kernel does not let them be counted.
pub fn syscalls(stand: &Stand, scenario: &Scenario, proxy: &Running) -> Result<f64> {
    const TIME: Duration = Duration::from_millis(500);
    let running = stand.load(load(scenario, proxy)?)?;
    let _ = host::sleep(TIME / 5);
    let counter = Counter::start(&proxy.process, &[ALL])?;
    let before = (running.totals().requests, counter.totals()?[0]);
    let _ = host::sleep(TIME);
    let after = (running.totals().requests, counter.totals()?[0]);
    drop(counter);
    running.stop()?;
    Ok((after.1 - before.1) as f64 / (after.0 - before.0) as f64)
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
    let asked = scenario.size();
    let got = (answer.len() - head_len) as u64;
    ensure!(got == asked, "{got} bytes came instead of {asked}");
    Ok(())
}
