//! `sluice-lab compare` and `bench`: the same work through several proxies, in turns, on the same CPUs.
//!
//! One worker of the proxy on its own CPU, load and origin on the others; every proxy is started once per scenario,
//! then measured in interleaved rounds (A B C A B C ...), each with a warm-up, so that what changes on the machine over
//! time changes for all. What a round measures is in [`round`], what is made of the rounds in [`outcome`].

pub mod config;
pub mod outcome;
pub mod peer;
pub mod picture;
pub mod report;
pub mod round;
pub mod scenario;

use crate::experiments::limits;
use crate::host::CpuList;
use crate::measure::Span;
use crate::stand::{self, Stand};
use anyhow::{Context, Result, bail};
use config::{Act, Job};
use outcome::{Measured, Outcome};
use peer::{Peer, Programs};
use scenario::{Kind, Measure, Scenario};

/// How to compare.
#[derive(Debug, Clone)]
pub struct Options {
    /// What to run.
    pub scenarios: Vec<Scenario>,
    /// Whom to compare; each scenario takes those of them that can do its job.
    pub peers: Vec<Peer>,
    /// Where the programs are.
    pub programs: Programs,
    /// Interleaved rounds.
    pub rounds: usize,
    /// A round's measure.
    pub span: Span,
    /// CPUs of the proxy.
    pub proxy_cpus: CpuList,
    /// CPUs of load and origin.
    pub load_cpus: CpuList,
    /// The peer that the others are compared with.
    pub baseline: Peer,
    /// Count system calls in a pass after the rounds.
    pub count_syscalls: bool,
    /// MTU on the client's and the origin's side: then client, proxy and origin are hosts of their own.
    pub mtu: Option<(u32, u32)>,
    /// Count packets in a pass after the rounds, on hosts of their own.
    pub count_packets: bool,
}

/// Runs all scenarios. `progress` is told what happens; an interrupt ends the run with what there is.
///
/// # Errors
/// When the origin cannot listen: one clear line. A proxy that fails is noted in the outcome, and the others go on.
pub fn run(options: &Options, mut progress: impl FnMut(&str)) -> Result<Outcome> {
    let mut outcome = Outcome::new(options);
    for scenario in &options.scenarios {
        if crate::sys::interrupted() {
            break;
        }
        let peers: Vec<Peer> = options
            .peers
            .iter()
            .copied()
            .filter(|p| scenario.peers.contains(p))
            .collect();
        progress(&format!("{}: {}", scenario.name, scenario.title));
        match one(options, scenario, &peers, &mut progress) {
            Ok(measured) => outcome.scenarios.push(measured),
            // What a signal broke is no failure.
            Err(_) if crate::sys::interrupted() => {}
            Err(error) => return Err(error.context(format!("scenario {}", scenario.name))),
        }
    }
    outcome.interrupted = crate::sys::interrupted();
    Ok(outcome)
}

fn one(
    options: &Options,
    scenario: &Scenario,
    peers: &[Peer],
    progress: &mut impl FnMut(&str),
) -> Result<Measured> {
    let stand = Stand::new(&stand::Options {
        proxy_cpus: options.proxy_cpus.clone(),
        load_cpus: options.load_cpus.clone(),
        mtu: options.mtu,
        ..stand::Options::new(options.programs.clone())
    })?;
    let mut measured = Measured::new(scenario, peers, &options.programs);
    if scenario.kind == Kind::Rules {
        config::write_map(&stand.dir().join("sites.map"), scenario::MAP_ENTRIES)?;
    }
    match scenario.measure {
        Measure::IdleMemory => memory_rounds(options, &stand, scenario, &mut measured, progress),
        Measure::Cpu => {
            cpu_rounds(options, &stand, scenario, &mut measured, progress);
            if options.count_packets {
                packets(stand, scenario, &mut measured, progress);
            }
        }
    }
    Ok(measured)
}

/// Packets are counted on cables: where the rounds ran on the loopback, three hosts are built for this pass.
fn packets(
    stand: Stand,
    scenario: &Scenario,
    measured: &mut Measured,
    progress: &mut impl FnMut(&str),
) {
    const MTU: (u32, u32) = (1500, 1500);
    const BYTES_MAX: u64 = 64 << 20;
    let count = || -> Result<()> {
        let stand = match stand.hosts {
            Some(_) => stand,
            None => Stand::new(&stand::Options {
                mtu: Some(MTU),
                ..stand.options.clone()
            })?,
        };
        if scenario.kind == Kind::Rules {
            config::write_map(&stand.dir().join("sites.map"), scenario::MAP_ENTRIES)?;
        }
        let requests = (BYTES_MAX / scenario.size().max(1)).clamp(20, 1000);
        let peers: Vec<Peer> = measured.peers.iter().map(|p| p.peer).collect();
        for peer in peers {
            if crate::sys::interrupted() || measured.failed(peer) {
                continue;
            }
            let proxy = stand.start(peer, &job(&stand, scenario)?)?;
            measured.count_packets(
                peer,
                stand.packets(round::load(scenario, &proxy)?, requests)?,
            );
        }
        Ok(())
    };
    if let Err(error) = count()
        && !crate::sys::interrupted()
    {
        progress(&format!("  packets not counted: {error:#}"));
    }
}

fn job(stand: &Stand, scenario: &Scenario) -> Result<Job> {
    let mut job = stand.job()?;
    scenario.shape(&mut job);
    if scenario.kind == Kind::Rules {
        job.act = Act::Rules {
            map: stand.dir().join("sites.map"),
            log: stand.log(),
        };
    }
    Ok(job)
}

/// Memory that was once used is seldom given back: every round needs a fresh process.
fn memory_rounds(
    options: &Options,
    stand: &Stand,
    scenario: &Scenario,
    measured: &mut Measured,
    progress: &mut impl FnMut(&str),
) {
    const ROUNDS_MAX: usize = 3;
    let peers: Vec<Peer> = measured.peers.iter().map(|p| p.peer).collect();
    for round in 0..options.rounds.min(ROUNDS_MAX) {
        for &peer in &peers {
            if crate::sys::interrupted() {
                return;
            }
            let sample = job(stand, scenario).and_then(|job| {
                let mut running = stand.start(peer, &job)?;
                measured.note(&running);
                limits::idle_memory(stand, &mut running, scenario.conns)
            });
            told(round, peer, sample, scenario, measured, progress);
        }
    }
}

fn cpu_rounds(
    options: &Options,
    stand: &Stand,
    scenario: &Scenario,
    measured: &mut Measured,
    progress: &mut impl FnMut(&str),
) {
    let peers: Vec<Peer> = measured.peers.iter().map(|p| p.peer).collect();
    let mut running = Vec::new();
    for peer in peers {
        let started = job(stand, scenario).and_then(|job| {
            let mut proxy = stand.start(peer, &job)?;
            stand
                .at_client(|| round::check_work(scenario, &proxy))
                .context("it does not do the work")?;
            proxy.process.check_alive()?;
            Ok(proxy)
        });
        match started {
            Ok(proxy) => {
                measured.note(&proxy);
                running.push(proxy);
            }
            Err(_) if crate::sys::interrupted() => return,
            Err(error) => {
                progress(&format!("  {:8} failed: {error:#}", peer.name()));
                measured.fail(peer, &error);
            }
        }
    }
    for round in 0..options.rounds {
        for proxy in &mut running {
            if crate::sys::interrupted() {
                return;
            }
            let sample = round::load(scenario, proxy)
                .and_then(|load| stand.measure(proxy, load, options.span));
            told(round, proxy.peer, sample, scenario, measured, progress);
        }
        running.retain(|proxy| !measured.failed(proxy.peer));
    }
    for proxy in running.iter().filter(|_| options.count_syscalls) {
        if crate::sys::interrupted() {
            return;
        }
        match round::syscalls(stand, scenario, proxy) {
            Ok(per_request) => measured.count_syscalls(proxy.peer, per_request),
            Err(_) if crate::sys::interrupted() => return,
            Err(error) => progress(&format!("  system calls not counted: {error:#}")),
        }
    }
}

/// Keeps and shows what a round gave, or why it gave nothing.
fn told(
    round: usize,
    peer: Peer,
    sample: Result<crate::measure::Sample>,
    scenario: &Scenario,
    measured: &mut Measured,
    progress: &mut impl FnMut(&str),
) {
    match sample {
        Ok(sample) => {
            progress(&format!(
                "  round {} {:8} {}",
                round + 1,
                peer.name(),
                round::brief(&sample, scenario)
            ));
            measured.add(peer, sample);
        }
        Err(_) if crate::sys::interrupted() => {}
        Err(error) => {
            progress(&format!(
                "  round {} {:8} failed: {error:#}",
                round + 1,
                peer.name()
            ));
            measured.fail(peer, &error);
        }
    }
}

/// Which of the wanted peers are there; those that are not are named with the reason.
///
/// # Errors
/// When none is left.
pub fn available(
    wanted: &[Peer],
    programs: &Programs,
    mut missing: impl FnMut(String),
) -> Result<Vec<Peer>> {
    let mut there = Vec::new();
    for &peer in wanted {
        match programs.find(peer) {
            Ok(_) => there.push(peer),
            Err(error) => missing(format!("{error:#}")),
        }
    }
    if there.is_empty() {
        bail!("there is no proxy to measure");
    }
    Ok(there)
}
