//! `sluice-l4 run`: everything together. One runtime for checks, commands and tables; VRRP has its own thread.

use super::bfd::Bfds;
use super::checks::{Checks, Report};
use super::control::{self, Asked};
use super::mail::Mailer;
use super::marks;
use super::neighbours::{Found, Neighbours, REFRESH_S};
use super::routers::{Command, Notice, Options, Routers, now_us};
use super::scripts::{self, FifoReaders, Trackers};
use super::sync;
use crate::config::model::Config;
use crate::config::{self, Severity};
use crate::datapath::layout::Settings;
use crate::datapath::{Director, Mode, Sizes};
use crate::host::Machine as Host;
use crate::marks::Marks;
use crate::netlink::Netlink;
use crate::pool::{Event, Pool};
use crate::vrrp::machine::State;
use crate::vrrp::packet::ChecksumForm;
use anyhow::{Context, Result, bail};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

/// What the command line says.
#[derive(Debug, Clone)]
pub struct RunOptions {
    pub file: String,
    pub config_id: String,
    /// Empty: those that the configuration names.
    pub interfaces: Vec<String>,
    /// None: generic on veth and bridges, else the driver's, else generic.
    pub mode: Option<Mode>,
    pub socket: PathBuf,
    /// The flow table holds 2 to this power.
    pub conn_tab_bits: u32,
    pub new_flows_max: u32,
    pub checksum: ChecksumForm,
    pub metrics: Option<std::net::SocketAddr>,
    /// Serve our flows to a twin here.
    pub sync: Option<std::net::SocketAddr>,
    /// Pull a twin's flows from there.
    pub sync_peer: Option<std::net::SocketAddr>,
}

/// Reports of checks taken together, before something else has its turn.
const REPORTS_MAX: usize = 4096;

/// Reads and judges the configuration; says what is wrong on stderr.
fn read(options: &RunOptions) -> Result<Arc<Config>> {
    let text = std::fs::read_to_string(&options.file)
        .with_context(|| format!("cannot read {}", options.file))?;
    let (mut config, diagnostics) = config::parse(&Host, &options.file, &text, &options.config_id);
    let stops = |s: Severity| matches!(s, Severity::Error | Severity::Unsupported);
    for d in diagnostics.iter().filter(|d| !stops(d.severity)) {
        eprintln!("{d}");
    }
    if !config::runnable(&diagnostics) {
        // Part of the error, so that whoever asked for a reload sees it too.
        let why: Vec<String> = diagnostics
            .iter()
            .filter(|d| stops(d.severity))
            .map(ToString::to_string)
            .collect();
        bail!("{} cannot run:\n{}", options.file, why.join("\n"));
    }
    if config.globals.lvs_sync && options.sync.is_none() && options.sync_peer.is_none() {
        bail!(
            "{} cannot run: lvs_sync_daemon wants a twin to know the connections: name it by --sync ADDRESS:PORT (of this machine) and \
             --sync-peer ADDRESS:PORT (of the twin), or take the line out",
            options.file
        );
    }
    if !config.marks_used().is_empty() {
        config.marks = marks::of_this_host();
    }
    Ok(Arc::new(config))
}

pub fn run(options: RunOptions) -> Result<()> {
    let config = read(&options)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, serve(options, config))
}

mod answers;
mod commands;
mod events;
mod marking;
mod table;
mod twin;

use table::{open_director, settings};

struct Work {
    options: RunOptions,
    config: Arc<Config>,
    pools: BTreeMap<String, Pool>,
    /// The file's virtual servers that commands took out.
    deleted: BTreeSet<String>,
    director: Option<Director>,
    neighbours: Neighbours,
    checks: Checks,
    bfds: Bfds,
    routers: Rc<Routers>,
    trackers: Trackers,
    mailer: Mailer,
    fifo_readers: FifoReaders,
    attached: Vec<String>,
    states: BTreeMap<String, State>,
    flows: usize,
    /// Timeouts that a command has set, in the order of [`TIMEOUTS_SET`].
    timeouts_s: [Option<u32>; 3],
    /// What has been said of marks.
    said_of_marks: BTreeSet<String>,
}

/// The states whose timeouts can be set: established, after FIN, UDP.
const TIMEOUTS_SET: [usize; 3] = [2, 3, 5];

async fn serve(options: RunOptions, config: Arc<Config>) -> Result<()> {
    let (report_sender, mut reports) = mpsc::unbounded_channel::<Report>();
    let (notice_sender, mut notices) = mpsc::unbounded_channel::<Notice>();
    let (request_sender, mut requests) = mpsc::unbounded_channel::<Asked>();
    let _socket = control::listen(&options.socket, request_sender.clone())
        .with_context(|| format!("cannot listen on {}", options.socket.display()))?;
    if let Some(address) = options.metrics {
        super::metrics::listen(address, request_sender).await?;
    }
    let (marks_sender, mut marks) = mpsc::unbounded_channel::<Marks>();
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hangup = signal(SignalKind::hangup())?;
    // keepalived writes files on these; who sends them to us shall not end the program.
    let mut data = signal(SignalKind::user_defined1())?;
    let mut counts = signal(SignalKind::user_defined2())?;
    scripts::run_once(&config.globals.startup, &config).await;
    scripts::make_fifos(&config);
    let director = match config.virtual_servers.is_empty() {
        true => None,
        false => Some(open_director(&options, settings(&options, &config))?),
    };
    // VRRP last: whoever becomes master must be able to forward.
    let mut work = Work {
        neighbours: Neighbours::open()?,
        pools: BTreeMap::new(),
        deleted: BTreeSet::new(),
        checks: Checks::new(report_sender),
        bfds: Bfds::new()?,
        attached: Vec::new(),
        director,
        states: BTreeMap::new(),
        flows: 0,
        timeouts_s: [None; 3],
        said_of_marks: BTreeSet::new(),
        trackers: Trackers::none(),
        mailer: Mailer::start(),
        fifo_readers: FifoReaders::start(&config),
        routers: Rc::new(Routers::start(
            Arc::new(Config::default()),
            Options::default(),
            |_| (),
        )?),
        config: config.clone(),
        options,
    };
    work.attach()?;
    work.load(config.clone())?;
    let (ask_sender, mut asks) = mpsc::unbounded_channel::<sync::Ask>();
    if let Some(address) = work.options.sync {
        let peer = work.options.sync_peer.map(|p| p.ip());
        sync::serve(address, peer, ask_sender.clone())
            .await
            .with_context(|| format!("cannot serve flows on {address}"))?;
    }
    if let Some(peer) = work.options.sync_peer {
        tokio::spawn(sync::pull(peer, ask_sender.clone()));
        work.first_pull(&mut asks).await;
    }
    let checksum = work.options.checksum;
    work.routers = Rc::new(Routers::start(
        config.clone(),
        Options { checksum },
        move |n| drop(notice_sender.send(n)),
    )?);
    work.trackers = Trackers::start(&config, &work.routers, &work.bfds);
    println!(
        "running: {} virtual servers, {} checks, {} virtual routers",
        work.pools.len(),
        work.checks.count(),
        config.instances.len()
    );

    let mut refresh = tokio::time::interval(Duration::from_millis(500));
    let mut sweep = tokio::time::interval(Duration::from_secs(5));
    sweep.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut rounds = 0;
    loop {
        tokio::select! {
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
            _ = hangup.recv() => if let Err(e) = work.reload() {
                println!("not reloaded: {e:#}");
            },
            _ = data.recv() => work.log_state(),
            _ = counts.recv() => work.log_state(),
            Some(report) = reports.recv() => {
                // A network that goes takes thousands of servers at once: one change of the table for all of them.
                let mut changed = work.report(&report);
                for _ in 0..REPORTS_MAX {
                    let Ok(report) = reports.try_recv() else { break };
                    changed.extend(work.report(&report));
                }
                work.apply_some(&changed);
            }
            Some(notice) = notices.recv() => work.notice(&notice),
            Some(ask) = asks.recv() => drop(work.synchronize(ask)),
            Some((request, reply)) = requests.recv() => {
                let answer = work.answer(request);
                let _ = reply.send(answer);
            }
            _ = refresh.tick() => {
                rounds += 1;
                work.checks.look_at_addresses();
                // Quick while something is unresolved, at leisure afterwards.
                if rounds < 10 || rounds % (REFRESH_S * 2) == 0 {
                    work.refresh();
                }
            }
            _ = sweep.tick() => {
                work.sweep();
                work.ask_for_marks(&marks_sender);
            }
            Some(marks) = marks.recv() => if let Err(e) = work.take_marks(marks) {
                println!("the marks could not be applied: {e:#}");
            },
        }
    }
    println!("stopping");
    let config = work.config.clone();
    work.end(&mut notices);
    scripts::run_once(&config.globals.shutdown, &config).await;
    Ok(())
}

impl Work {
    fn reload(&mut self) -> Result<()> {
        let began = now_us();
        let config = read(&self.options)?;
        if self.director.is_none() && !config.virtual_servers.is_empty() {
            self.director = Some(open_director(
                &self.options,
                settings(&self.options, &config),
            )?);
        }
        if config.globals != self.config.globals {
            scripts::make_fifos(&config);
            self.fifo_readers = FifoReaders::start(&config);
        }
        self.load(config.clone())?;
        self.attach()?;
        self.routers.send(Command::Reload(config.clone()));
        self.trackers = Trackers::start(&config, &self.routers, &self.bfds);
        println!(
            "reloaded in {} ms: {} virtual servers, {} checks",
            (now_us() - began) / 1000,
            self.pools.len(),
            self.checks.count()
        );
        Ok(())
    }

    /// Gives the virtual servers that a report changes.
    fn report(&mut self, report: &Report) -> BTreeSet<String> {
        let mut changed = BTreeSet::new();
        for (subject, up) in self.checks.note(report) {
            let Some(pool) = self.pools.get_mut(&subject.virtual_server) else {
                continue;
            };
            if let Some(weight) = report.weight {
                pool.set_weight(subject.ip, subject.port, weight);
            }
            if let Some(why) = &report.why {
                println!(
                    "{} {}:{}: {why}",
                    subject.virtual_server, subject.ip, subject.port
                );
            }
            let events = pool.set_up(subject.ip, subject.port, up);
            let name = subject.virtual_server.clone();
            for event in events {
                self.event(&name, &event);
            }
            changed.insert(name);
        }
        changed
    }

    /// The peers first, then the scripts; programs and maps go with the process.
    fn end(mut self, notices: &mut mpsc::UnboundedReceiver<Notice>) {
        self.trackers = Trackers::none();
        self.routers.stop();
        while let Ok(notice) = notices.try_recv() {
            self.notice(&notice);
        }
        if !self.config.virtual_servers.iter().any(|v| v.omega) {
            return;
        }
        let names: Vec<String> = self
            .pools
            .values()
            .filter(|p| p.config.omega)
            .map(|p| p.name.clone())
            .collect();
        for name in names {
            let servers: Vec<_> = self.pools[&name]
                .members
                .iter()
                .filter(|m| m.up)
                .map(|m| (m.ip, m.port))
                .collect();
            for (ip, port) in servers {
                self.event(&name, &Event::ServerDown(ip, port));
            }
            self.event(&name, &Event::QuorumLost);
        }
    }
}
