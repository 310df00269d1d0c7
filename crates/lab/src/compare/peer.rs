//! The proxies under comparison, and how each is started for the same job.
//!
//! Owns who they are, where their programs are found and the process of each; what they are told to do is in
//! [`super::config`]. Sluice is one of them, run with the very file that HAProxy gets.

use super::config::{self, Job};
use crate::host::CpuList;
use crate::process::{Process, find_program};
use anyhow::{Context, Result, bail};
use serde::Serialize;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A proxy that can be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Peer {
    /// Ours.
    Sluice,
    /// HAProxy.
    Haproxy,
    /// nginx.
    Nginx,
    /// The lab's own relay: the least that any proxy can cost.
    Relay,
}

impl Peer {
    /// All of them, in the order of the tables.
    pub const ALL: [Self; 4] = [Self::Sluice, Self::Haproxy, Self::Nginx, Self::Relay];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Sluice => "sluice",
            Self::Haproxy => "haproxy",
            Self::Nginx => "nginx",
            Self::Relay => "relay",
        }
    }
}

/// Where the programs are.
#[derive(Debug, Clone, Default)]
pub struct Programs {
    /// Sluice, when not beside this program.
    pub sluice: Option<PathBuf>,
    /// HAProxy, when not in the path.
    pub haproxy: Option<PathBuf>,
    /// nginx, when not in the path.
    pub nginx: Option<PathBuf>,
}

impl Programs {
    /// The program of a peer.
    ///
    /// # Errors
    /// When it is not there; says how to get it.
    pub fn find(&self, peer: Peer) -> Result<PathBuf> {
        let own = std::env::current_exe().context("cannot tell where this program is")?;
        let (given, found, advice) = match peer {
            Peer::Relay => return Ok(own),
            Peer::Sluice => {
                let beside = own.with_file_name("sluice");
                (
                    &self.sluice,
                    beside.is_file().then_some(beside),
                    "build it, or give --sluice PATH",
                )
            }
            Peer::Haproxy => (
                &self.haproxy,
                find_program("haproxy"),
                "install it, or give --haproxy PATH",
            ),
            Peer::Nginx => (
                &self.nginx,
                find_program("nginx"),
                "install nginx-core, or give --nginx PATH",
            ),
        };
        match (given, found) {
            (Some(path), _) if path.is_file() => Ok(path.clone()),
            (Some(path), _) => bail!("there is no {} at {}", peer.name(), path.display()),
            (None, Some(path)) => Ok(path),
            (None, None) => bail!("{} was not found: {advice}", peer.name()),
        }
    }

    /// What the program says it is.
    #[must_use]
    pub fn version(&self, peer: Peer) -> String {
        let Ok(program) = self.find(peer) else {
            return "not found".to_owned();
        };
        if peer == Peer::Relay {
            return format!("sluice-lab {}", env!("CARGO_PKG_VERSION"));
        }
        let Ok(output) = Command::new(program).arg("-v").output() else {
            return "unknown".to_owned();
        };
        let text = if output.stdout.is_empty() {
            output.stderr
        } else {
            output.stdout
        };
        String::from_utf8_lossy(&text)
            .lines()
            .next()
            .unwrap_or("unknown")
            .trim()
            .to_owned()
    }
}

/// A started proxy.
#[derive(Debug)]
pub struct Running {
    /// Who it is.
    pub peer: Peer,
    /// Where it takes connections.
    pub addr: SocketAddr,
    /// Its process.
    pub process: Process,
    /// Its configuration; empty for the relay, whose command says it all.
    pub config: String,
}

/// Starts a peer for a job, in `dir`, on `cpus`, and waits until it takes connections.
///
/// # Errors
/// One clear line: the program is missing, or ended with these words, or does not answer.
pub fn start(
    peer: Peer,
    programs: &Programs,
    job: &Job,
    cpus: &CpuList,
    dir: &Path,
) -> Result<Running> {
    let program = programs.find(peer)?;
    let file = dir.join(format!("{}.conf", peer.name()));
    let write = |text: &str| {
        std::fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))
    };
    let mut command = Command::new(program);
    let config = match peer {
        Peer::Sluice | Peer::Haproxy => {
            let text = config::haproxy(job);
            write(&text)?;
            command.arg("-db").arg("-f").arg(&file);
            text
        }
        Peer::Nginx => {
            let text = config::nginx(job, dir)?;
            write(&text)?;
            command
                .arg("-p")
                .arg(dir)
                .arg("-e")
                .arg(dir.join("nginx-error.log"))
                .arg("-c")
                .arg(&file);
            text
        }
        Peer::Relay => {
            command.args(config::relay_args(job));
            String::new()
        }
    };
    let mut process = Process::start(peer.name(), command, cpus, dir)?;
    process.wait_ready(job.listen)?;
    Ok(Running {
        peer,
        addr: job.listen,
        process,
        config,
    })
}
