//! `integrity`, `bench` and `compare` on the command line.

use crate::compare;
use crate::compare::config::{Job, Splice};
use crate::compare::peer::{self, Peer, Programs};
use crate::compare::scenario::{self, SCENARIOS};
use crate::host::CpuList;
use crate::integrity;
use crate::measure::Span;
use crate::net::parse_addr;
use crate::origin::{self, Origin};
use crate::process::{WorkDir, free_port};
use crate::stand::split_cpus;
use crate::units::{parse_count, parse_size, parse_time};
use anyhow::Result;
use clap::Args;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Where the programs are.
#[derive(Debug, Clone, Args)]
pub struct ProgramArgs {
    /// Sluice's binary (default: beside this program)
    #[arg(long, value_name = "PATH")]
    sluice: Option<PathBuf>,
    /// HAProxy's binary (default: in PATH)
    #[arg(long, value_name = "PATH")]
    haproxy: Option<PathBuf>,
    /// nginx's binary (default: in PATH)
    #[arg(long, value_name = "PATH")]
    nginx: Option<PathBuf>,
}

impl From<ProgramArgs> for Programs {
    fn from(args: ProgramArgs) -> Self {
        Self {
            sluice: args.sluice,
            haproxy: args.haproxy,
            nginx: args.nginx,
        }
    }
}

#[derive(Debug, Args)]
pub struct IntegrityArgs {
    /// Address of a proxy in front of a sluice-lab origin; without it, proxies are started (see --run)
    #[arg(long, value_name = "ADDR", value_parser = parse_addr)]
    proxy: Option<SocketAddr>,
    /// Proxy (sluice, haproxy, nginx, relay) to start with an origin behind it: HTTP and TCP mode, with and without splice
    #[arg(
        long,
        value_enum,
        value_name = "PEER",
        hide_possible_values = true,
        default_value = "sluice",
        conflicts_with = "proxy"
    )]
    run: Peer,
    #[command(flatten)]
    programs: ProgramArgs,
    /// Objects
    #[arg(short, long, value_name = "N", default_value = "10k", value_parser = parse_count)]
    n: u64,
    /// Largest object
    #[arg(long, value_name = "SIZE", default_value = "100m", value_parser = parse_size)]
    max_size: u64,
    /// Largest total (of each run)
    #[arg(long, value_name = "SIZE", default_value = "5g", value_parser = parse_size)]
    max_total: u64,
    /// Concurrent connections
    #[arg(short = 'c', long, value_name = "N", default_value_t = 8)]
    conns: usize,
    /// Seed of sizes and contents
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// The form for a test suite: 400 objects up to 8 MiB, 256 MiB in all
    #[arg(long)]
    short: bool,
}

impl IntegrityArgs {
    pub fn run(self) -> Result<ExitCode> {
        let runs = match self.proxy {
            Some(addr) => vec![("proxy", self.transfer(addr)?)],
            None => self.started()?,
        };
        let mut wrong = 0;
        for (name, found) in &runs {
            for line in &found.wrong {
                println!("{name}: {line}");
            }
            println!("{name}: {}", found.summary());
            wrong += found.wrong_count + u64::from(found.interrupted);
        }
        Ok(if wrong == 0 {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }

    /// All four ways through a proxy of our own.
    fn started(&self) -> Result<Vec<(&'static str, integrity::Findings)>> {
        let programs = Programs::from(self.programs.clone());
        let origin = Origin::start(&origin::Options::default())?;
        let mut runs = Vec::new();
        for (name, tcp, splice) in [
            ("http", false, Splice::Off),
            ("http splice", false, Splice::Always),
            ("tcp", true, Splice::Off),
            ("tcp splice", true, Splice::Always),
        ] {
            if crate::sys::interrupted() {
                break;
            }
            let dir = WorkDir::new()?;
            let listen = SocketAddr::from(([127, 0, 0, 1], free_port()?));
            let job = Job {
                tcp,
                splice,
                ..Job::new(listen, origin.addrs.clone())
            };
            let mut running =
                peer::start(self.run, &programs, &job, &CpuList::default(), dir.path())?;
            runs.push((name, self.transfer(running.addr)?));
            running.process.check_alive()?;
        }
        Ok(runs)
    }

    fn transfer(&self, target: SocketAddr) -> Result<integrity::Findings> {
        let mut options = integrity::Options {
            target,
            count: self.n,
            size_max: self.max_size,
            total_max: self.max_total,
            conns: self.conns,
            seed: self.seed,
            stall: integrity::STALL_TIMEOUT,
        };
        if self.short {
            (options.count, options.size_max, options.total_max) = (400, 8 << 20, 256 << 20);
        }
        let bar = indicatif::ProgressBar::new(options.count);
        let found = integrity::run(&options, |done| bar.set_position(done))?;
        bar.finish_and_clear();
        Ok(found)
    }
}

/// Where client, proxy and origin live.
#[derive(Debug, Clone, Args)]
pub struct HostArgs {
    /// Client, proxy and origin as hosts of their own in network namespaces joined by veth pairs (needs root)
    #[arg(long)]
    netns: bool,
    /// MTU of the cables, CLIENT or CLIENT,ORIGIN; asks for --netns
    #[arg(long, value_parser = mtu_pair)]
    pub mtu: Option<(u32, u32)>,
}

impl HostArgs {
    /// MTU on either side, when hosts of their own are asked for.
    pub fn mtu(&self) -> Option<(u32, u32)> {
        self.mtu.or(self.netns.then_some((1500, 1500)))
    }
}

fn mtu_pair(text: &str) -> Result<(u32, u32), String> {
    let (client, origin) = text.split_once(',').unwrap_or((text, text));
    let one = |text: &str| {
        let mtu = text.parse().ok().filter(|mtu| (576..=65_535).contains(mtu));
        mtu.ok_or_else(|| format!("'{text}' is not an MTU: give 576 to 65535"))
    };
    Ok((one(client)?, one(origin)?))
}

#[derive(Debug, Args)]
#[command(after_help = scenario_help())]
pub struct CompareArgs {
    /// Scenarios to run (see below; default: all that have targets)
    #[arg(value_name = "SCENARIO")]
    scenarios: Vec<String>,
    /// Proxies to compare: sluice, haproxy, nginx, relay (the floor); default: all that are installed
    #[arg(short, long, value_enum, hide_possible_values = true, hide_default_value = true, value_delimiter = ',', default_values_t = Peer::ALL)]
    peers: Vec<Peer>,
    /// The proxy that ratios are against
    #[arg(
        short,
        long,
        value_enum,
        value_name = "PEER",
        hide_possible_values = true,
        default_value = "haproxy"
    )]
    baseline: Peer,
    #[command(flatten)]
    programs: ProgramArgs,
    /// Interleaved rounds
    #[arg(short, long, value_name = "N", default_value_t = 11)]
    rounds: usize,
    /// Length of a round's measure
    #[arg(short, long, value_name = "TIME", default_value = "2s", value_parser = parse_time)]
    duration: Duration,
    /// Unmeasured load before it
    #[arg(short, long, value_name = "TIME", default_value = "500ms", value_parser = parse_time)]
    warm_up: Duration,
    /// CPUs of the proxy (default: the first)
    #[arg(long, value_name = "LIST")]
    proxy_cpus: Option<CpuList>,
    /// CPUs of load and origin (default: all but the first)
    #[arg(long, value_name = "LIST")]
    load_cpus: Option<CpuList>,
    /// 3 rounds of 0.3 s: shows that it works, says little
    #[arg(long)]
    short: bool,
    /// Folder for the page and the JSON file
    #[arg(short, long, value_name = "FOLDER", default_value = "target/lab")]
    out: PathBuf,
    /// Do not count system calls
    #[arg(long)]
    no_syscalls: bool,
    /// Do not count packets (which needs root)
    #[arg(long)]
    no_packets: bool,
    #[command(flatten)]
    hosts: HostArgs,
    /// Say less while it runs
    #[arg(short, long)]
    quiet: bool,
}

fn scenario_help() -> String {
    let lines: Vec<_> = SCENARIOS
        .iter()
        .map(|s| format!("  {:<16} {}", s.name, s.title))
        .collect();
    format!(
        "Scenarios:\n{}\n\nLeaves compare.html (tables, plots, configurations, machine, commands), compare.json (every round), compare.md and the \
         pictures in the folder.\nExit status: 0 when every proxy was measured (after Ctrl-C too), 1 when one failed, 2 for wrong arguments.",
        lines.join("\n")
    )
}

impl CompareArgs {
    pub fn run(self) -> Result<ExitCode> {
        crate::report::prepare(&self.out)?;
        let programs = Programs::from(self.programs);
        let peers = compare::available(&self.peers, &programs, |reason| {
            eprintln!("left out: {reason}")
        })?;
        let (first, rest) = split_cpus();
        let mut options = compare::Options {
            scenarios: scenario::select(&self.scenarios).map_err(anyhow::Error::msg)?,
            peers,
            programs,
            rounds: self.rounds,
            span: Span::new(self.warm_up, self.duration),
            proxy_cpus: self.proxy_cpus.unwrap_or(first),
            load_cpus: self.load_cpus.unwrap_or(rest),
            baseline: self.baseline,
            count_syscalls: !self.no_syscalls,
            mtu: self.hosts.mtu(),
            count_packets: !self.no_packets,
        };
        if self.short {
            options.rounds = 3;
            options.span = Span::new(Duration::from_millis(100), Duration::from_millis(300));
        }
        let quiet = self.quiet;
        let outcome = compare::run(&options, |line| {
            if !quiet {
                eprintln!("{line}");
            }
        })?;
        let report = compare::report::report(&outcome, "compare")?;
        print!("{}", report.terminal());
        let page = report.write(&self.out)?;
        println!("written: {} and its .json", page.display());
        Ok(super::verdict(report.failed))
    }
}
