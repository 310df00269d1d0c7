//! The master process (`-W`, `-Ws`, `master-worker`; management guide chapter 3 and 9.4): starts a worker process that
//! reads the configuration and serves, and replaces it on SIGHUP or SIGUSR2 without refusing a client.
//!
//! ```text
//!            reload: new worker with -x                says READY: the others get SIGUSR1
//! Starting ----------------------------> (beside the Current one) ----------------------> Current -> Leaving -> gone
//!    | ends before READY: the Current one stays
//! ```
//!
//! The master reads no configuration after the start and serves no traffic: what a reload brings, a new program file
//! included, is the new worker's. `cli` is the command line of `-S`, `workers` the list of processes.

mod cli;
mod workers;

use std::cell::RefCell;
use std::process::ExitCode;
use std::rc::Rc;

use sluice_config::model::StatsSocket;
use sluice_proxy::net::listen::Bound;
use sluice_proxy::terminal;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{Notify, mpsc, oneshot};

use crate::flags::Flags;
use crate::notify;
use workers::{Stage, Workers};

pub use workers::Launch;

const SIGHUP: i32 = 1;
const SIGINT: i32 = 2;
const SIGUSR1: i32 = 10;
const SIGUSR2: i32 = 12;
const SIGTERM: i32 = 15;
const SIGCHLD: i32 = 17;
const SIGTTIN: i32 = 21;
const SIGTTOU: i32 = 22;

/// Ends that are no failure: asked for by SIGINT and SIGTERM.
const ASKED_FOR: [i32; 2] = [128 + SIGINT, 128 + SIGTERM];

/// The master's command socket, bound.
pub struct CommandLine {
    pub bound: Bound,
    pub socket: StatsSocket,
}

/// What tasks tell the master.
enum Event {
    /// The worker with that number serves, or never will (its end is seen by SIGCHLD).
    Ready(i32, crate::link::Ready),
    /// `reload` on the command line, or `hard-reload`; the answer is whether it succeeded.
    Reload(oneshot::Sender<bool>, Hurry),
}

/// How old workers leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hurry {
    /// With the last session.
    Soft,
    /// At once.
    Hard,
}

/// What the command line looks at.
struct Master {
    workers: RefCell<Workers>,
    events: mpsc::UnboundedSender<Event>,
    quiet: bool,
    systemd: bool,
    socket_name: RefCell<String>,
    /// Who waits for the outcome of the reload that goes on, and of the one after it.
    asked: RefCell<Vec<oneshot::Sender<bool>>>,
    asked_next: RefCell<Vec<oneshot::Sender<bool>>>,
    /// Another reload was asked for while one went on.
    again: Notify,
}

/// Runs until all workers are gone. `launch` says how a worker is started; `serves` is called once, when the first one
/// serves.
pub fn run(
    flags: &Flags,
    launch: Launch,
    command_line: Option<CommandLine>,
    serves: impl FnOnce() -> anyhow::Result<()>,
) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, async {
        let (events, heard) = mpsc::unbounded_channel();
        let master = Rc::new(Master {
            workers: RefCell::new(Workers::new(launch)),
            events,
            quiet: flags.quiet,
            systemd: flags.notify_systemd,
            socket_name: RefCell::default(),
            asked: RefCell::default(),
            asked_next: RefCell::default(),
            again: Notify::new(),
        });
        if let Some(c) = command_line {
            let name = c.socket.addrs.first().map(sluice_proxy::bind::describe);
            master.socket_name.replace(name.unwrap_or_default());
            tokio::task::spawn_local(cli::serve(master.clone(), c));
        }
        supervise(&master, heard, serves).await
    })
}

async fn supervise(
    master: &Rc<Master>,
    mut heard: mpsc::UnboundedReceiver<Event>,
    serves: impl FnOnce() -> anyhow::Result<()>,
) -> anyhow::Result<ExitCode> {
    let on = |number| -> anyhow::Result<Signal> { Ok(signal(SignalKind::from_raw(number))?) };
    let (mut hup, mut usr2, mut child) = (on(SIGHUP)?, on(SIGUSR2)?, on(SIGCHLD)?);
    let (mut term, mut int, mut usr1) = (on(SIGTERM)?, on(SIGINT)?, on(SIGUSR1)?);
    let (mut ttin, mut ttou) = (on(SIGTTIN)?, on(SIGTTOU)?);
    let mut serves = Some(serves);
    master.start_worker()?;
    loop {
        tokio::select! {
            _ = hup.recv() => master.reload(),
            _ = usr2.recv() => master.reload(),
            _ = term.recv() => master.leave(SIGTERM),
            _ = int.recv() => master.leave(SIGINT),
            _ = usr1.recv() => master.leave(SIGUSR1),
            _ = ttin.recv() => master.workers.borrow().signal_all(SIGTTIN),
            _ = ttou.recv() => master.workers.borrow().signal_all(SIGTTOU),
            () = master.again.notified() => master.reload(),
            Some(event) = heard.recv() => match event {
                Event::Ready(pid, ready) => {
                    master.serves(pid, ready);
                    if let Some(first) = serves.take() {
                        first()?;
                    }
                }
                Event::Reload(answer, hurry) => {
                    master.workers.borrow_mut().hurry = hurry;
                    master.asked_next.borrow_mut().push(answer);
                    master.reload();
                }
            },
            _ = child.recv() => {
                if let Some(code) = master.bury() {
                    return Ok(code);
                }
            }
        }
    }
}

impl Master {
    fn say(&self, severity: &str, text: &str) {
        if !self.quiet || severity == "ALERT" {
            terminal::say(severity, text);
        }
    }

    fn tell_systemd(&self, text: &str) {
        if self.systemd {
            notify::send(text);
        }
    }

    fn start_worker(self: &Rc<Self>) -> std::io::Result<()> {
        let (pid, link) = self.workers.borrow_mut().start()?;
        self.say("NOTICE", &format!("New worker ({pid}) forked"));
        let events = self.events.clone();
        tokio::task::spawn_local(async move {
            if let Some(ready) = link.ready().await {
                // the master that would hear it is this process
                let _ = events.send(Event::Ready(pid, ready));
            }
        });
        Ok(())
    }

    /// SIGHUP, SIGUSR2, `reload`. One at a time: a second request waits for the end of the first.
    fn reload(self: &Rc<Self>) {
        if self.workers.borrow().has(Stage::Starting) {
            self.workers.borrow_mut().pending = true;
            return;
        }
        self.asked
            .borrow_mut()
            .append(&mut self.asked_next.borrow_mut());
        if self.workers.borrow().leaving {
            self.asked.borrow_mut().clear();
            return;
        }
        self.say("NOTICE", "Reloading HAProxy");
        let now_us = sluice_proxy::clock::read().mono_us;
        self.tell_systemd(&format!(
            "RELOADING=1\nMONOTONIC_USEC={now_us}\nSTATUS=Reloading Configuration.\n"
        ));
        self.workers.borrow_mut().count_reload();
        if let Err(e) = self.start_worker() {
            self.say(
                "ALERT",
                &format!("cannot start a worker : {}", crate::files::reason(&e)),
            );
            self.reload_failed();
        }
    }

    /// The new worker serves: the others leave.
    fn serves(&self, pid: i32, ready: crate::link::Ready) {
        self.say("NOTICE", "Loading success.");
        let mut workers = self.workers.borrow_mut();
        workers.serves(pid, ready);
        self.tell_systemd(&format!(
            "READY=1\nMAINPID={}\nSTATUS=Ready.\n",
            std::process::id()
        ));
        for answer in self.asked.take() {
            // who asked may have left
            let _ = answer.send(true);
        }
        if std::mem::take(&mut workers.pending) {
            self.again.notify_one();
        }
    }

    fn reload_failed(&self) {
        self.say("WARNING", "Loading failure!");
        let mut workers = self.workers.borrow_mut();
        workers.failed += 1;
        self.tell_systemd(&format!(
            "READY=1\nMAINPID={}\nSTATUS=Reload failed!\n",
            std::process::id()
        ));
        for answer in self.asked.take() {
            let _ = answer.send(false);
        }
        if std::mem::take(&mut workers.pending) {
            self.again.notify_one();
        }
    }

    /// SIGTERM, SIGINT, SIGUSR1: the same for all workers; the master leaves after them.
    fn leave(&self, number: i32) {
        self.say("WARNING", "Exiting Master process...");
        self.tell_systemd("STOPPING=1\n");
        let mut workers = self.workers.borrow_mut();
        workers.leaving = true;
        workers.signal_all(number);
    }

    /// Looks which workers ended. The master's exit status once none is left.
    fn bury(&self) -> Option<ExitCode> {
        let ended = self.workers.borrow_mut().reap();
        for (worker, status) in ended {
            let kind = match worker.stage {
                Stage::Leaving => "Former",
                Stage::Current | Stage::Starting => "Current",
            };
            let severity = match (worker.stage, status) {
                (Stage::Current, 1..) => "ALERT",
                _ => "WARNING",
            };
            if worker.stage != Stage::Starting {
                let text = format!(
                    "{kind} worker ({}) exited with code {status} ({})",
                    worker.pid,
                    workers::status_text(status)
                );
                self.say(severity, &text);
            }
            match worker.stage {
                Stage::Leaving => {}
                Stage::Starting if self.workers.borrow().has(Stage::Current) => {
                    self.reload_failed();
                }
                stage => self.fell(status, stage == Stage::Current),
            }
        }
        let workers = self.workers.borrow();
        if !workers.is_empty() || (workers.stays() && !workers.leaving) {
            return None;
        }
        let code = workers.exit_code;
        self.say(
            "WARNING",
            &format!("All workers exited. Exiting... ({code})"),
        );
        Some(ExitCode::from(code))
    }

    /// The worker that served, or the first one, is gone.
    fn fell(&self, status: i32, served: bool) {
        let mut workers = self.workers.borrow_mut();
        if status != 0 && status != ASKED_FOR[1] && workers.exit_code == 0 {
            workers.exit_code = status.clamp(0, 255) as u8;
        }
        if status != 0 && !ASKED_FOR.contains(&status) && !workers.stays() && served {
            self.say(
                "ALERT",
                "exit-on-failure: killing every processes with SIGTERM",
            );
            workers.leaving = true;
            workers.signal_all(SIGTERM);
        }
    }
}
