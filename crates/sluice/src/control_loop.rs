//! The main thread's loop: signals, and the end.

use std::os::fd::OwnedFd;
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use sluice_engine::Runtime;
use sluice_proxy::clock;
use sluice_proxy::handover::Offered;
use sluice_proxy::logs::Rings;
use sluice_proxy::net::listen;
use sluice_proxy::start::{Phase, Workers};
use sluice_proxy::terminal;
use sluice_proxy::worker::Shared;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::AbortHandle;

use crate::command_socket::{self, CommandSocket, Shell};
use crate::flags::Flags;
use crate::link::{Link, Ready};

/// Another process asks for the addresses for a while, and gives them back.
const SIGTTIN: i32 = 21;
const SIGTTOU: i32 = 22;

/// What the main thread has besides the workers.
pub struct Doors {
    pub sockets: Vec<CommandSocket>,
    /// All listening sockets, as they can be given away.
    pub offered: Vec<Offered>,
    /// The wire to the master process.
    pub master: Option<OwnedFd>,
    pub startup_logs: String,
}

/// Runs until the process is to end.
pub fn run(
    flags: &Flags,
    shared: Arc<Shared>,
    rings: Arc<Rings>,
    workers: Workers,
    doors: Doors,
) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build_local(tokio::runtime::LocalOptions::default())?;
    let shell = Rc::new(Shell::new(
        shared.clone(),
        rings.clone(),
        workers.asker(),
        doors.offered,
        doors.startup_logs,
    ));
    let code = runtime.block_on(async {
        let accepting = doors
            .sockets
            .into_iter()
            .map(|s| {
                tokio::task::spawn_local(command_socket::serve(shell.clone(), s)).abort_handle()
            })
            .collect();
        if let Some(link) = doors.master {
            let g = &shared.runtime.model.global;
            let link = Link::new(link)?;
            link.tell_ready(Ready {
                no_exit_on_failure: g.no_exit_on_failure,
                max_reloads: g.mworker_max_reloads,
            })?;
            tokio::task::spawn_local(link.serve(shell.clone()));
        }
        sluice_proxy::checks::spawn_all(&shared, &rings);
        sluice_proxy::ring_servers::spawn_all(&shared.runtime.model, &rings);
        anyhow::Ok(until_stopped(flags, &shell, &workers, accepting).await)
    })?;
    drop(runtime);
    let panicked = workers.join();
    Ok(if panicked { ExitCode::FAILURE } else { code })
}

/// SIGUSR1 begins the soft stop. SIGINT and SIGTERM end the process by their default action, as HAProxy's do.
async fn until_stopped(
    flags: &Flags,
    shell: &Shell,
    workers: &Workers,
    doors: Vec<AbortHandle>,
) -> ExitCode {
    let shared = &shell.shared;
    let (Ok(mut usr1), Ok(mut hup), Ok(mut ttou), Ok(mut ttin)) = (
        signal(SignalKind::user_defined1()),
        signal(SignalKind::hangup()),
        signal(SignalKind::from_raw(SIGTTOU)),
        signal(SignalKind::from_raw(SIGTTIN)),
    ) else {
        return ExitCode::FAILURE;
    };
    let mut poll = tokio::time::interval(Duration::from_millis(200));
    let mut load = Load::default();
    let mut tasks = sluice_proxy::inside::Tasks::default();
    loop {
        tokio::select! {
            _ = usr1.recv() => break,
            _ = hup.recv() => dump_status(&shared.runtime),
            _ = ttou.recv() => {
                shell.offered.borrow().iter().for_each(|o| listen::pause(&o.fd));
                tell_frontends(shared, "Paused");
            }
            _ = ttin.recv() => {
                shell.offered.borrow().iter().for_each(|o| listen::resume(&o.fd));
                tell_frontends(shared, "Resumed");
            }
            _ = poll.tick() => {
                load.look(&shared.runtime);
                tasks.look(&shared.runtime);
                if workers.alive() == 0 {
                    return ExitCode::FAILURE;
                }
            }
        }
    }
    if let Some(ms) = shared.runtime.model.global.grace_ms {
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }
    shared.runtime.stopping.store(true, Relaxed);
    // these would keep the sockets open, and a new process may serve the command sockets by now
    shell.offered.take();
    doors.iter().for_each(AbortHandle::abort);
    workers.tell(Phase::Drain);
    for p in &shared.runtime.proxies {
        let counted = format!(
            "(cumulated conns: FE: {}, BE: {})",
            p.fe.conn_total.value(),
            p.be.sess_total.value()
        );
        if !flags.quiet {
            terminal::say("WARNING", &format!("Proxy {} stopped {counted}.", p.name));
        }
    }
    let hard_stop = shared
        .runtime
        .model
        .global
        .hard_stop_after_ms
        .map(Duration::from_millis);
    let started = tokio::time::Instant::now();
    while workers.alive() > 0 {
        if hard_stop.is_some_and(|limit| started.elapsed() >= limit) {
            terminal::say(
                "WARNING",
                "soft-stop running for too long, performing a hard-stop.",
            );
            workers.tell(Phase::Quit);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    ExitCode::SUCCESS
}

fn tell_frontends(shared: &Shared, done: &str) {
    let rt = &shared.runtime;
    for p in rt
        .model
        .proxies
        .iter()
        .filter(|p| p.is_frontend() && !p.disabled)
    {
        let kind = if p.is_backend() { "listen" } else { "frontend" };
        terminal::say("WARNING", &format!("{done} {kind} {}.", p.name));
    }
}

/// How busy the process was, for `Idle_pct`.
#[derive(Default)]
struct Load {
    wall_us: u64,
    cpu_us: u64,
}

impl Load {
    /// Once a second, compares processor time with what the workers could have used.
    fn look(&mut self, rt: &Runtime) {
        let wall_us = clock::read().mono_us;
        let passed = wall_us.saturating_sub(self.wall_us);
        if passed < 1_000_000 {
            return;
        }
        let cpu_us = clock::cpu_us();
        let could = passed * u64::from(rt.workers);
        let busy = (cpu_us.saturating_sub(self.cpu_us) * 100 / could.max(1)).min(100);
        rt.counters.idle_pct.set(100 - busy);
        (self.wall_us, self.cpu_us) = (wall_us, cpu_us);
    }
}

/// SIGHUP: the state of every server, to the terminal.
fn dump_status(rt: &Runtime) {
    for p in &rt.proxies {
        for s in &p.servers {
            let state = if s.accepts_persistent() { "UP" } else { "DOWN" };
            let text = format!("SIGHUP: Server {}/{} is {state}.", p.name, s.name);
            terminal::say("WARNING", &text);
        }
    }
}
