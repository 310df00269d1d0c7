//! `sluice-lab inject`: the load generator.
//!
//! Owns the options, the threads and the merging of what they saw. One thread's loop is in [`worker`], one
//! connection in [`conn`], what is sent in [`mix`], what is counted in [`counts`], and what is shown while it
//! runs in [`live`]. In the closed loop each connection sends its next request as soon as the answer is there; in
//! the open loop requests are due at fixed times whatever the answers do, and latency counts from the due time, so
//! that a stall shows in every request that it delayed (no coordinated omission).

mod conn;
pub mod counts;
pub mod live;
pub mod mix;
mod worker;

use crate::host::{CpuList, Stop};
use anyhow::{Context, Result, bail};
use counts::{Counts, Report};
use mix::Mix;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What to send, where, how fast, for how long.
#[derive(Debug, Clone)]
pub struct Options {
    /// Whom to load.
    pub target: SocketAddr,
    /// Requests.
    pub mix: Arc<Mix>,
    /// Concurrent connections, over all threads.
    pub conns: usize,
    /// Threads.
    pub threads: usize,
    /// CPUs that the threads are spread over; empty: not pinned.
    pub cpus: CpuList,
    /// Requests per second in the open loop; `None` for the closed loop.
    pub rate: Option<f64>,
    /// Requests per connection; `None`: as many as the server allows.
    pub requests_per_conn: Option<u64>,
    /// Requests sent at once before their answers are awaited.
    pub pipeline: usize,
    /// Pause on a connection between an answer and the next request.
    pub think: Duration,
    /// Time over which the connections start, evenly.
    pub ramp: Duration,
    /// When to stop; `None`: when the requests are used up or [`Load::stop`] is called.
    pub duration: Option<Duration>,
    /// Total requests; `None`: no bound.
    pub requests_max: Option<u64>,
    /// A request unanswered for so long is an error.
    pub timeout: Duration,
    /// Local addresses that connections start from, in turn; empty: the system chooses.
    pub sources: Vec<IpAddr>,
    /// Compares every body with what the request asked for.
    pub check: bool,
    /// Ends connections with a reset, leaving no TIME_WAIT behind.
    pub reset: bool,
    /// Each connection sends its requests once and then stays open, idle.
    pub hold: bool,
    /// A connection that the server ends instead of answering counts as answered (with no status): for servers whose
    /// job is to refuse.
    pub refusal_expected: bool,
}

impl Options {
    /// Closed loop, one connection, one thread, until stopped.
    #[must_use]
    pub fn new(target: SocketAddr, mix: Mix) -> Self {
        Self {
            target,
            mix: Arc::new(mix),
            conns: 1,
            threads: 1,
            cpus: CpuList::default(),
            rate: None,
            requests_per_conn: None,
            pipeline: 1,
            think: Duration::ZERO,
            ramp: Duration::ZERO,
            duration: None,
            requests_max: None,
            timeout: Duration::from_secs(10),
            sources: Vec::new(),
            check: false,
            reset: false,
            hold: false,
            refusal_expected: false,
        }
    }

    fn validate(&self) -> Result<()> {
        if self.conns == 0 || self.threads == 0 || self.pipeline == 0 {
            bail!("connections, threads and pipeline depth must be at least 1");
        }
        if self
            .rate
            .is_some_and(|rate| !rate.is_finite() || rate <= 0.0)
        {
            bail!("the rate must be a positive number of requests per second");
        }
        if self.rate.is_some() && self.pipeline > 1 {
            bail!("pipelining is for the closed loop: at a fixed rate requests are due one by one");
        }
        if self.requests_per_conn == Some(0) {
            bail!("a connection must send at least one request");
        }
        Ok(())
    }
}

/// A running load. Dropping it stops it.
#[derive(Debug)]
pub struct Load {
    stop: Stop,
    threads: Vec<JoinHandle<Result<Counts>>>,
    done: Vec<Arc<Progress>>,
    samples: Receiver<Second>,
    started: Instant,
    /// Connections that stay, so that they can be waited for.
    staying: u64,
}

/// What a thread tells while it runs; alone on its cache line.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Progress {
    /// Answers received.
    pub requests: AtomicU64,
    /// Connections established.
    pub conns: AtomicU64,
    /// Bytes received.
    pub bytes: AtomicU64,
    /// Failures of any kind.
    pub errors: AtomicU64,
    /// When the thread came to its end, in nanoseconds after the start.
    pub ended_ns: AtomicU64,
}

/// A second of one thread, or its end.
#[derive(Debug)]
pub struct Second {
    /// Which thread, from 0.
    pub thread: usize,
    /// Which second ended, from 1; nothing more comes after `u64::MAX`. A thread that was held up leaves some out.
    pub number: u64,
    /// What it counted since its last one.
    pub counts: Counts,
}

/// A reading of [`Progress`] over all threads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Answers received.
    pub requests: u64,
    /// Connections established.
    pub conns: u64,
    /// Bytes received.
    pub bytes: u64,
    /// Failures of any kind.
    pub errors: u64,
}

impl Load {
    /// Starts the threads.
    ///
    /// # Errors
    /// Options that contradict each other; a CPU that does not exist.
    pub fn start(options: &Options) -> Result<Self> {
        options.validate()?;
        options.cpus.check()?;
        let stop = Stop::new()?;
        let (sender, samples) = channel();
        let started = Instant::now();
        let threads_n = options.threads.min(options.conns);
        let (mut threads, mut done) = (Vec::new(), Vec::new());
        for index in 0..threads_n {
            let progress = Arc::<Progress>::default();
            done.push(Arc::clone(&progress));
            let share = worker::Share {
                index,
                of: threads_n,
            };
            threads.push(spawn(
                options.clone(),
                share,
                started,
                stop.clone(),
                progress,
                sender.clone(),
            )?);
        }
        let staying = if options.requests_per_conn.is_none() {
            options.conns as u64
        } else {
            0
        };
        Ok(Self {
            stop,
            threads,
            done,
            samples,
            started,
            staying,
        })
    }

    /// What was done until now.
    #[must_use]
    pub fn totals(&self) -> Totals {
        self.done.iter().fold(Totals::default(), |sum, p| Totals {
            requests: sum.requests + p.requests.load(Ordering::Relaxed),
            conns: sum.conns + p.conns.load(Ordering::Relaxed),
            bytes: sum.bytes + p.bytes.load(Ordering::Relaxed),
            errors: sum.errors + p.errors.load(Ordering::Relaxed),
        })
    }

    /// Whether every connection that is to stay stands, and as many requests as there are connections are answered.
    #[must_use]
    pub fn settled(&self) -> bool {
        let totals = self.totals();
        totals.conns >= self.staying && totals.requests >= self.staying
    }

    /// Whether all threads came to their end by themselves.
    #[must_use]
    pub fn finished(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished)
    }

    /// The threads' seconds that arrived since this was last called.
    pub fn samples(&self) -> impl Iterator<Item = Second> + '_ {
        self.samples.try_iter()
    }

    /// Stops and gives the result. Waits for nothing but the threads' present turn.
    ///
    /// # Errors
    /// What a thread failed with, such as no descriptors left.
    pub fn stop(mut self) -> Result<Report> {
        self.stop.set();
        self.join()
    }

    /// Waits for the end (duration or number of requests), then gives the result. A signal ends it early.
    ///
    /// # Errors
    /// As [`Load::stop`].
    pub fn wait(mut self, mut each_tick: impl FnMut(&Self)) -> Result<Report> {
        while !self.finished() && !crate::sys::interrupted() {
            std::thread::sleep(Duration::from_millis(20));
            each_tick(&self);
        }
        // The last second came while nobody looked.
        each_tick(&self);
        self.stop.set();
        self.join()
    }

    fn join(&mut self) -> Result<Report> {
        let mut total = Counts::default();
        for thread in self.threads.drain(..) {
            let counts = thread
                .join()
                .map_err(|_| anyhow::anyhow!("a load thread panicked"))??;
            total.add(&counts);
        }
        let ended = self
            .done
            .iter()
            .map(|done| done.ended_ns.load(Ordering::Relaxed));
        Ok(Report {
            elapsed: Duration::from_nanos(ended.max().unwrap_or(0)),
            counts: total,
        })
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.set();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn spawn(
    options: Options,
    share: worker::Share,
    started: Instant,
    stop: Stop,
    progress: Arc<Progress>,
    samples: Sender<Second>,
) -> Result<JoinHandle<Result<Counts>>> {
    let cpu = options.cpus.nth(share.index);
    let name = format!("inject-{}", share.index);
    let run = move || {
        crate::host::pin(cpu)?;
        let done = Arc::clone(&progress);
        let result = worker::Worker::new(options, share, started, stop, progress, samples)?.run();
        done.ended_ns
            .store(started.elapsed().as_nanos() as u64, Ordering::Relaxed);
        result
    };
    std::thread::Builder::new()
        .name(name)
        .spawn(run)
        .context("cannot start a load thread")
}

/// Addresses from a list such as `127.0.1.1-127.0.1.50,127.0.2.1,127.0.3.0/24` (ranges and networks of IPv4; of a
/// network its first and last address are left out when it has more than two).
///
/// # Errors
/// A sentence naming the part that is wrong.
pub fn parse_sources(text: &str) -> Result<Vec<IpAddr>, String> {
    const SOURCES_MAX: u32 = 65_536;
    let mut sources = Vec::new();
    for part in text.split(',') {
        let bad = || format!("'{part}' is not an address, or a range or network of IPv4 addresses");
        let ipv4 = |text: &str| text.parse::<Ipv4Addr>().map(u32::from).map_err(|_| bad());
        let (first, last) = if let Some((first, last)) = part.split_once('-') {
            (ipv4(first)?, ipv4(last)?)
        } else if let Some((base, bits)) = part.split_once('/') {
            let bits: u32 = bits
                .parse()
                .ok()
                .filter(|bits| (1..=32).contains(bits))
                .ok_or_else(bad)?;
            let hosts = u32::MAX.checked_shr(bits).unwrap_or(0);
            let first = ipv4(base)? & !hosts;
            let edge = u32::from(hosts > 1);
            (first + edge, first + hosts - edge)
        } else {
            sources.push(part.parse().map_err(|_| bad())?);
            continue;
        };
        if first > last || last - first >= SOURCES_MAX {
            return Err(bad());
        }
        sources.extend((first..=last).map(|ip| IpAddr::from(Ipv4Addr::from(ip))));
    }
    Ok(sources)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_sources() {
        let check = |text: &str, expect: Option<(usize, &str, &str)>| {
            let found = parse_sources(text).ok();
            let shown = found.as_ref().map(|list| {
                (
                    list.len(),
                    list[0].to_string(),
                    list[list.len() - 1].to_string(),
                )
            });
            let expect = expect.map(|(n, first, last)| (n, first.to_owned(), last.to_owned()));
            assert_eq!(shown, expect, "{text}");
        };
        check("127.0.1.1", Some((1, "127.0.1.1", "127.0.1.1")));
        check(
            "127.0.1.1-127.0.1.50",
            Some((50, "127.0.1.1", "127.0.1.50")),
        );
        check("127.0.1.0/26,::1", Some((63, "127.0.1.1", "::1")));
        check("127.0.1.7/32", Some((1, "127.0.1.7", "127.0.1.7")));
        check("127.0.1.6/31", Some((2, "127.0.1.6", "127.0.1.7")));
        check("127.0.1.9-127.0.1.1", None);
        check("127.0.1.0/0", None);
        check("127.0.1.0/33", None);
        check("10.0.0.0/8", None);
        check("nobody", None);
    }
}
