//! `sluice-lab compare` and `bench`: the same work through several proxies, in turns, on the same CPUs.
//!
//! One worker of the proxy on its own CPU, load and origin on the others; every proxy is started once per scenario,
//! then measured in interleaved rounds (A B C A B C ...), each with a warm-up, so that what changes on the machine over
//! time changes for all. What a round measures is in [`round`], what is made of the rounds in [`outcome`].

pub mod config;
pub mod outcome;
pub mod peer;
pub mod round;
pub mod scenario;
pub mod table;

use crate::host::{CpuList, Stop};
use crate::origin::{self, Origin};
use crate::process::{WorkDir, free_port};
use anyhow::{Context, Result, bail};
use outcome::{Measured, Outcome};
use peer::{Peer, Programs, Running};
use scenario::{Measure, Scenario};
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::time::Duration;

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
    /// Unmeasured load before each round's measure.
    pub warm_up: Duration,
    /// Length of a round's measure.
    pub duration: Duration,
    /// CPUs of the proxy.
    pub proxy_cpus: CpuList,
    /// CPUs of load and origin.
    pub load_cpus: CpuList,
    /// The peer that the others are compared with.
    pub baseline: Peer,
}

impl Options {
    /// The usual split of the CPUs: the first for the proxy, the rest for the load.
    #[must_use]
    pub fn split_cpus() -> (CpuList, CpuList) {
        let mut all = CpuList::allowed().0;
        if all.len() < 2 {
            return (CpuList(all.clone()), CpuList(all));
        }
        let rest = all.split_off(1);
        (CpuList(all), CpuList(rest))
    }
}

/// Runs all scenarios. `progress` is told what happens; an interrupt ends the run with what there is.
///
/// # Errors
/// When a peer is missing or fails to start, or the origin cannot listen: one clear line.
pub fn run(options: &Options, mut progress: impl FnMut(&str)) -> Result<Outcome> {
    options.load_cpus.pin()?;
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
        let measured = one(options, scenario, &peers, &mut progress)
            .with_context(|| format!("scenario {}", scenario.name))?;
        outcome.scenarios.push(measured);
    }
    Ok(outcome)
}

/// What stands around the proxies while a scenario runs.
struct Stage<'a> {
    options: &'a Options,
    scenario: &'a Scenario,
    dir: WorkDir,
    origin: Origin,
    log: LogSink,
}

impl<'a> Stage<'a> {
    fn new(options: &'a Options, scenario: &'a Scenario) -> Result<Self> {
        let dir = WorkDir::new()?;
        if scenario.kind == scenario::Kind::Rules {
            config::write_map(&dir.path().join("sites.map"), scenario::MAP_ENTRIES)?;
        }
        let origin = Origin::start(&origin::Options {
            cpus: options.load_cpus.clone(),
            ..origin::Options::default()
        })?;
        Ok(Self {
            options,
            scenario,
            dir,
            origin,
            log: LogSink::start()?,
        })
    }

    fn start(&self, peer: Peer) -> Result<Running> {
        let listen = SocketAddr::from(([127, 0, 0, 1], free_port()?));
        let job = self.scenario.job(
            listen,
            self.origin.addrs.clone(),
            self.dir.path(),
            self.log.addr,
        );
        // Each peer in a folder of its own: several run at once.
        let dir = self.dir.path().join(peer.name());
        std::fs::create_dir_all(&dir)?;
        peer::start(
            peer,
            &self.options.programs,
            &job,
            &self.options.proxy_cpus,
            &dir,
        )
    }
}

fn one(
    options: &Options,
    scenario: &Scenario,
    peers: &[Peer],
    progress: &mut impl FnMut(&str),
) -> Result<Measured> {
    let stage = Stage::new(options, scenario)?;
    let mut measured = Measured::new(scenario, peers, &options.programs);
    if scenario.measure == Measure::IdleMemory {
        // Memory that was once used is seldom given back: every round needs a fresh process.
        for round in 0..options.rounds.min(3) {
            for &peer in peers {
                let mut running = stage.start(peer)?;
                measured.note(&running);
                let sample = round::idle_memory(options, scenario, &mut running)?;
                progress(&format!(
                    "  round {} {:8} {}",
                    round + 1,
                    peer.name(),
                    sample.brief(scenario)
                ));
                measured.add(peer, sample);
            }
        }
        return Ok(measured);
    }
    let mut running = Vec::new();
    for &peer in peers {
        let mut proxy = stage.start(peer)?;
        round::check_work(scenario, &proxy)
            .with_context(|| format!("{} does not do the work", peer.name()))?;
        proxy.process.check_alive()?;
        measured.note(&proxy);
        running.push(proxy);
    }
    for round in 0..options.rounds {
        for proxy in &mut running {
            if crate::sys::interrupted() {
                return Ok(measured);
            }
            let sample = round::cpu(options, scenario, proxy)?;
            progress(&format!(
                "  round {} {:8} {}",
                round + 1,
                proxy.peer.name(),
                sample.brief(scenario)
            ));
            measured.add(proxy.peer, sample);
        }
    }
    Ok(measured)
}

/// Takes log datagrams and throws them away.
struct LogSink {
    addr: SocketAddr,
    stop: Stop,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl LogSink {
    fn start() -> Result<Self> {
        let socket = UdpSocket::bind("127.0.0.1:0").context("no port for the log")?;
        socket.set_read_timeout(Some(Duration::from_millis(100)))?;
        let (addr, stop) = (socket.local_addr()?, Stop::new()?);
        let seen = stop.clone();
        let thread = std::thread::Builder::new()
            .name("log-sink".to_owned())
            .spawn(move || {
                let mut line = [0; 4096];
                while !seen.is_set() {
                    let _ = socket.recv(&mut line);
                }
            })?;
        Ok(Self {
            addr,
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for LogSink {
    fn drop(&mut self) {
        self.stop.set();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Which of the wanted peers are there; those that are not are named with the reason.
///
/// # Errors
/// When none is left, or one that was asked for by path is missing.
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

/// Writes `text` beside others of the same run.
///
/// # Errors
/// When the file cannot be written, with its name.
pub fn write_file(file: &Path, text: &str) -> Result<()> {
    if let Some(dir) = file.parent() {
        std::fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    }
    std::fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
}
