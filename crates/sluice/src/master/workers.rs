//! The worker processes of a master: started, counted, signalled, reaped.

use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::rc::Rc;
use std::time::Instant;

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Pid, WaitOptions, waitpid};
use sluice_config::model::CliLevel;
use sluice_proxy::sys;

use super::Hurry;
use crate::flags;
use crate::link::{self, Link, Ready};

/// How a worker is started.
pub struct Launch {
    /// The program's file; a new one at its place is what the next worker runs.
    pub program: PathBuf,
    /// The master's own arguments, its name first.
    pub args: Vec<String>,
}

/// Where a worker is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    Starting,
    Current,
    Leaving,
}

/// One worker process.
pub struct Worker {
    pub pid: i32,
    pub stage: Stage,
    pub link: Rc<Link>,
    pub started: Instant,
    pub reloads: u32,
}

/// All of them.
pub struct Workers {
    launch: Launch,
    list: Vec<Worker>,
    settings: Ready,
    pub started: Instant,
    pub reloads: u32,
    pub failed: u32,
    /// The master was told to leave: no worker is started any more.
    pub leaving: bool,
    pub pending: bool,
    pub exit_code: u8,
    /// Of the present reload.
    pub hurry: Hurry,
}

impl Workers {
    pub fn new(launch: Launch) -> Self {
        Workers {
            launch,
            list: Vec::new(),
            settings: Ready::default(),
            started: Instant::now(),
            reloads: 0,
            failed: 0,
            leaving: false,
            pending: false,
            exit_code: 0,
            hurry: Hurry::Soft,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
    pub fn iter(&self) -> impl Iterator<Item = &Worker> {
        self.list.iter()
    }
    pub fn has(&self, stage: Stage) -> bool {
        self.list.iter().any(|w| w.stage == stage)
    }
    pub fn current(&self) -> Option<&Worker> {
        self.list.iter().find(|w| w.stage == Stage::Current)
    }
    /// The worker of `@1`: the current one, or the one that may become it.
    pub fn first(&self) -> Option<&Worker> {
        let starting = || self.list.iter().find(|w| w.stage == Stage::Starting);
        self.current().or_else(starting)
    }
    /// `no-exit-on-failure`: the master outlives its workers.
    pub fn stays(&self) -> bool {
        self.settings.no_exit_on_failure
    }

    /// Starts a worker; it takes the listeners of the current one, when there is one.
    pub fn start(&mut self) -> io::Result<(i32, Rc<Link>)> {
        let (own, other) = link::pair()?;
        let own = Rc::new(own);
        let first = self.list.is_empty();
        let args = self.launch.args.get(1..).unwrap_or_default();
        let mut command = Command::new(&self.launch.program);
        command
            .arg0(self.launch.args.first().map_or("sluice", String::as_str))
            .args(flags::worker_args(args, first))
            .arg("--worker")
            .arg(other.as_raw_fd().to_string());
        // the new process inherits these two, and they are closed here when this function ends
        fcntl_setfd(&other, FdFlags::empty())?;
        let old = self.current().map(|w| w.link.connect(CliLevel::Admin));
        let old = old.transpose().ok().flatten();
        if let Some(old) = &old {
            fcntl_setfd(old, FdFlags::empty())?;
            command.arg("-x").arg(format!("fd@{}", old.as_raw_fd()));
        }
        let child = command.spawn()?;
        let pid = child.id() as i32;
        self.list.push(Worker {
            pid,
            stage: Stage::Starting,
            link: own.clone(),
            started: Instant::now(),
            reloads: 0,
        });
        Ok((pid, own))
    }

    pub fn count_reload(&mut self) {
        self.reloads += 1;
        self.list.iter_mut().for_each(|w| w.reloads += 1);
    }

    /// A worker serves: those before it leave, and those that have stayed through too many reloads are ended.
    pub fn serves(&mut self, pid: i32, ready: Ready) {
        self.settings = ready;
        let farewell = match std::mem::replace(&mut self.hurry, Hurry::Soft) {
            Hurry::Soft => super::SIGUSR1,
            Hurry::Hard => super::SIGTERM,
        };
        for w in &mut self.list {
            if w.pid == pid {
                w.stage = Stage::Current;
                continue;
            }
            let too_old = ready.max_reloads.is_some_and(|max| w.reloads > max);
            if w.stage == Stage::Current {
                w.stage = Stage::Leaving;
                sys::signal(w.pid, farewell);
            }
            if too_old {
                sys::signal(w.pid, super::SIGTERM);
            }
        }
    }

    pub fn signal_all(&self, number: i32) {
        self.list.iter().for_each(|w| sys::signal(w.pid, number));
    }

    /// The workers that ended since the last look, with their status in the shell's manner (128 + signal).
    pub fn reap(&mut self) -> Vec<(Worker, i32)> {
        let mut ended = Vec::new();
        let mut k = 0;
        while k < self.list.len() {
            let pid = Pid::from_raw(self.list[k].pid);
            let status = match waitpid(pid, WaitOptions::NOHANG) {
                Ok(Some((_, status))) => status
                    .exit_status()
                    .or(status.terminating_signal().map(|s| 128 + s)),
                Ok(None) => None,
                // nobody's child any more
                Err(_) => Some(1),
            };
            match status {
                Some(status) => ended.push((self.list.remove(k), status)),
                None => k += 1,
            }
        }
        ended
    }
}

/// A status in words, as HAProxy's messages have them.
pub fn status_text(status: i32) -> &'static str {
    match status {
        0..=128 => "Exit",
        129 => "Hangup",
        130 => "Interrupt",
        132 => "Illegal instruction",
        134 => "Aborted",
        135 => "Bus error",
        136 => "Floating point exception",
        137 => "Killed",
        139 => "Segmentation fault",
        143 => "Terminated",
        _ => "Unknown signal",
    }
}
