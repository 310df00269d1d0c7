//! The experiments on the command line, one by one and all together.

use super::judge::{HostArgs, ProgramArgs};
use crate::compare::peer::{Peer, Programs};
use crate::compare::{self, scenario};
use crate::doctor;
use crate::experiments::{self, Place, Plan};
use crate::host::CpuList;
use crate::measure::Span;
use crate::report::{Report, html, machine};
use crate::stand::split_cpus;
use crate::units::parse_time;
use anyhow::{Context, Result};
use clap::Args;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// What all experiments take.
#[derive(Debug, Clone, Args)]
pub struct PlanArgs {
    /// Proxies to measure: sluice, haproxy, nginx, relay (the floor); default: all that are installed
    #[arg(short, long, value_enum, hide_possible_values = true, hide_default_value = true, value_delimiter = ',', default_values_t = Peer::ALL)]
    peers: Vec<Peer>,
    #[command(flatten)]
    programs: ProgramArgs,
    /// Length of each measure (default: the experiment's own)
    #[arg(short, long, value_name = "TIME", value_parser = parse_time)]
    duration: Option<Duration>,
    /// CPUs of the proxy (default: the first)
    #[arg(long, value_name = "LIST")]
    proxy_cpus: Option<CpuList>,
    /// CPUs of load and origin (default: all but the first)
    #[arg(long, value_name = "LIST")]
    load_cpus: Option<CpuList>,
    /// Few points, short measures
    #[arg(long)]
    short: bool,
    /// Everything on the loopback, also what wants cables between hosts
    #[arg(long, conflicts_with_all = ["netns", "mtu"])]
    loopback: bool,
    #[command(flatten)]
    hosts: HostArgs,
    /// Folder for pages, pictures and data
    #[arg(short, long, value_name = "FOLDER", default_value = "target/lab")]
    out: PathBuf,
}

#[derive(Debug, Args)]
#[command(after_help = series_help())]
pub struct SweepArgs {
    /// Series to run (see below; default: all, with --short the first two)
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    series: Vec<String>,
    #[command(flatten)]
    plan: PlanArgs,
}

fn series_help() -> String {
    let lines = experiments::sweep::VARIANTS.iter();
    let lines: Vec<_> = lines
        .map(|v| format!("  {:<14} {}", v.name, v.title))
        .collect();
    format!("Series:\n{}", lines.join("\n"))
}

#[derive(Debug, Args)]
#[command(
    after_help = "Leaves NAME.html, NAME.json (every sample), NAME.md and its pictures (SVG, PNG) in the folder; 'all' adds index.html and results.md.\n\
                        Exit status: 0 when everything was measured (after Ctrl-C too), 1 when something failed (the page says what), 2 for wrong arguments."
)]
pub struct ExperimentArgs {
    #[command(flatten)]
    plan: PlanArgs,
}

impl PlanArgs {
    fn plan(&self) -> Result<Plan> {
        crate::report::prepare(&self.out)?;
        let programs = Programs::from(self.programs.clone());
        let peers = compare::available(&self.peers, &programs, |reason| {
            eprintln!("left out: {reason}")
        })?;
        let (first, rest) = split_cpus();
        Ok(Plan {
            peers,
            programs,
            proxy_cpus: self.proxy_cpus.clone().unwrap_or(first),
            load_cpus: self.load_cpus.clone().unwrap_or(rest),
            duration: self.duration,
            short: self.short,
            place: match (self.loopback, self.hosts.mtu()) {
                (true, _) => Place::Loopback,
                (false, Some(_)) => Place::Hosts(self.hosts.mtu),
                (false, None) => Place::AsWanted,
            },
        })
    }

    fn finish(&self, report: &Report) -> Result<ExitCode> {
        print!("{}", report.terminal());
        println!("written: {}", report.write(&self.out)?.display());
        Ok(super::verdict(report.failed))
    }
}

impl SweepArgs {
    pub fn run(self) -> Result<ExitCode> {
        self.plan
            .finish(&experiments::sweep::run(&self.plan.plan()?, &self.series)?)
    }
}

/// What makes a report of a plan.
type Experiment = fn(&Plan) -> Result<Report>;

impl ExperimentArgs {
    pub fn run(self, experiment: Experiment) -> Result<ExitCode> {
        self.plan.finish(&experiment(&self.plan.plan()?)?)
    }

    /// Every experiment, and the page that leads to them.
    pub fn run_all(self) -> Result<ExitCode> {
        let plan = self.plan.plan()?;
        let started = Instant::now();
        let experiments: [(&str, Experiment); 7] = [
            ("compare", bench),
            ("sweep", |plan| experiments::sweep::run(plan, &[])),
            ("sessions", experiments::sessions::run),
            ("splice", experiments::splice::run),
            ("workers", experiments::workers::run),
            ("limits", experiments::limits::run),
            ("generators", experiments::generators::run),
        ];
        let mut reports = Vec::new();
        for (name, experiment) in experiments {
            if crate::sys::interrupted() {
                break;
            }
            // One that fails leaves a page that says why; the others go on.
            let report = experiment(&plan).unwrap_or_else(|error| {
                eprintln!("{name}: {error:#}");
                let mut report = Report::new(name, name, "");
                report.fail(format!("This experiment failed: {error:#}"));
                report
            });
            report.write(&self.plan.out)?;
            reports.push(report);
        }
        for report in &reports {
            print!("\n{}", report.terminal());
        }
        let put = |name: &str, text: String| {
            let file = self.plan.out.join(name);
            std::fs::write(&file, text)
                .with_context(|| format!("cannot write {}", file.display()))
                .map(|()| file)
        };
        put("results.md", markdown(&plan, &reports))?;
        let index = put("index.html", html::index(&reports))?;
        println!(
            "\nwritten after {:.0} s: {}",
            started.elapsed().as_secs_f64(),
            index.display()
        );
        Ok(super::verdict(reports.iter().any(|report| report.failed)))
    }
}

/// All reports as one Markdown text, with the machine and the versions: what docs/performance.md is made from.
fn markdown(plan: &Plan, reports: &[Report]) -> String {
    let mut text = String::from("# Results\n\n");
    for (name, value) in machine::describe() {
        text.push_str(&format!("- {name}: {value}\n"));
    }
    for &peer in &plan.peers {
        text.push_str(&format!(
            "- {}: {}\n",
            peer.name(),
            plan.programs.version(peer)
        ));
    }
    let command: Vec<_> = std::env::args().collect();
    text.push_str(&format!("- command: `{}`\n", command.join(" ")));
    for report in reports {
        text.push('\n');
        text.push_str(&report.markdown());
    }
    text
}

#[derive(Debug, Args)]
#[command(
    after_help = "Changes nothing without --apply. Exit status: 0 whatever is found; 1 when --apply could not write a setting; 2 for wrong arguments."
)]
pub struct DoctorArgs {
    /// Set what is one value in one file (until the next boot); the rest is left to you
    #[arg(long)]
    apply: bool,
    /// A JSON object for each point instead of text: name, found, wanted, ok (null: does not apply here), set, why
    #[arg(long)]
    json: bool,
}

impl DoctorArgs {
    pub fn run(self) -> Result<ExitCode> {
        let findings = doctor::examine(&doctor::Host::default());
        if self.json {
            print!("{}", doctor::json(&findings));
        } else {
            print!("{}", doctor::text(&findings));
        }
        let mut failed = false;
        for done in self
            .apply
            .then(|| doctor::apply(&findings))
            .into_iter()
            .flatten()
        {
            failed |= done.is_err();
            match done {
                Ok(line) if self.json => eprintln!("{line}"),
                Ok(line) => println!("{line}"),
                Err(line) => eprintln!("sluice-lab: {line}"),
            }
        }
        Ok(if failed {
            ExitCode::FAILURE
        } else {
            ExitCode::SUCCESS
        })
    }
}

/// The targets' scenarios, as one of the experiments.
fn bench(plan: &Plan) -> Result<Report> {
    let (rounds, warm_up_ms, duration_ms) = if plan.short {
        (3, 150, 400)
    } else {
        (11, 500, 2000)
    };
    let options = compare::Options {
        scenarios: scenario::select(&[]).map_err(anyhow::Error::msg)?,
        peers: plan.peers.clone(),
        programs: plan.programs.clone(),
        rounds,
        span: Span::new(
            Duration::from_millis(warm_up_ms),
            Duration::from_millis(duration_ms),
        ),
        proxy_cpus: plan.proxy_cpus.clone(),
        load_cpus: plan.load_cpus.clone(),
        baseline: Peer::Haproxy,
        count_syscalls: true,
        mtu: None,
        count_packets: plan.place != Place::Loopback,
    };
    compare::report::report(&compare::run(&options, experiments::telling)?, "compare")
}
