//! The processes under test: started pinned, watched, measured, and stopped whatever happens.
//!
//! Owns child processes and what `/proc` tells about them. CPU time is the scheduler's own count in nanoseconds
//! (`schedstat`), over all threads and children of the process.

mod places;

pub use places::{WorkDir, find_program, free_port};

use crate::host::CpuList;
use crate::sys;
use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process_group};
use std::fs::{self, File};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How long a proxy may take from its start to its first accepted connection.
const READY_TIMEOUT: Duration = Duration::from_secs(10);
/// How long it may take to stop before it is killed.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);

/// A running process; dropping it stops it and all it started.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: std::process::Child,
    /// Where its output goes.
    log: PathBuf,
    /// The command as one would type it.
    pub command: String,
}

impl Process {
    /// Starts `command` on `cpus`, its output going to a file in `dir`.
    ///
    /// # Errors
    /// When it cannot be started, with its name.
    pub fn start(name: &str, mut command: Command, cpus: &CpuList, dir: &Path) -> Result<Self> {
        let log = dir.join(format!("{name}.log"));
        let output =
            File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        let text = shown(&command);
        command
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output);
        sys::bind_child_life(&mut command);
        // A child inherits the affinity of the thread that starts it, from its first instruction on.
        let before = CpuList::allowed();
        cpus.pin()?;
        let child = command.spawn();
        before.pin()?;
        let child = child.with_context(|| format!("cannot start {name} ({text})"))?;
        Ok(Self {
            name: name.to_owned(),
            child,
            log,
            command: text,
        })
    }

    /// Waits until `addr` takes connections.
    ///
    /// # Errors
    /// When the process ends first (with the last words it printed) or takes too long.
    pub fn wait_ready(&mut self, addr: SocketAddr) -> Result<()> {
        let until = Instant::now() + READY_TIMEOUT;
        loop {
            self.check_alive()?;
            if TcpStream::connect_timeout(&addr, Duration::from_millis(200)).is_ok() {
                return Ok(());
            }
            if Instant::now() > until {
                bail!(
                    "{} does not answer on {addr}: {}",
                    self.name,
                    self.last_words()
                );
            }
            anyhow::ensure!(crate::host::sleep(Duration::from_millis(20)), "interrupted");
        }
    }

    /// # Errors
    /// When the process has ended, with the last words it printed.
    pub fn check_alive(&mut self) -> Result<()> {
        if let Some(status) = self.child.try_wait()? {
            bail!("{} ended ({status}): {}", self.name, self.last_words());
        }
        Ok(())
    }

    /// Waits for it to end by itself.
    ///
    /// # Errors
    /// When it takes longer than `timeout`, or ends with a failure.
    pub fn wait_end(&mut self, timeout: Duration) -> Result<()> {
        let until = Instant::now() + timeout;
        loop {
            match self.child.try_wait()? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => bail!("{} ended ({status}): {}", self.name, self.last_words()),
                None if Instant::now() > until => bail!("{} does not end", self.name),
                None => {
                    anyhow::ensure!(crate::host::sleep(Duration::from_millis(20)), "interrupted")
                }
            }
        }
    }

    /// The last line of output that says something.
    fn last_words(&self) -> String {
        let text = fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let telling = |line: &&str| !line.trim().is_empty();
        let alert = text
            .lines()
            .find(|line| line.contains("ALERT") || line.contains("[emerg]"));
        alert
            .or(text.lines().rfind(telling))
            .unwrap_or("it printed nothing")
            .trim()
            .to_owned()
    }

    /// Everything it printed.
    #[must_use]
    pub fn output(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// The process and all below it.
    #[must_use]
    pub fn pids(&self) -> Vec<u32> {
        let mut found = vec![self.child.id()];
        let mut at = 0;
        while let Some(&pid) = found.get(at) {
            for task in tasks(pid) {
                let children = fs::read_to_string(task.join("children")).unwrap_or_default();
                found.extend(
                    children
                        .split_whitespace()
                        .filter_map(|pid| pid.parse::<u32>().ok()),
                );
            }
            at += 1;
        }
        found
    }

    /// CPU time used until now.
    #[must_use]
    pub fn cpu(&self) -> CpuTime {
        self.pids()
            .into_iter()
            .fold(CpuTime::default(), |mut sum, pid| {
                for task in tasks(pid) {
                    let text = fs::read_to_string(task.join("schedstat")).unwrap_or_default();
                    sum.total_ns += text
                        .split(' ')
                        .next()
                        .and_then(|n| n.parse::<u64>().ok())
                        .unwrap_or(0);
                }
                let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
                // The command name may hold blanks and parentheses: fields are counted from its end.
                let fields: Vec<&str> = stat
                    .rsplit(')')
                    .next()
                    .unwrap_or("")
                    .split_whitespace()
                    .collect();
                let field = |n: usize| {
                    fields
                        .get(n)
                        .and_then(|v| v.parse::<u64>().ok())
                        .unwrap_or(0)
                };
                sum.user_ticks += field(11);
                sum.system_ticks += field(12);
                sum
            })
    }

    /// Resident memory.
    #[must_use]
    pub fn resident_bytes(&self) -> u64 {
        self.pids().into_iter().map(resident_bytes).sum()
    }

    /// Stops it: politely, then not.
    pub fn stop(&mut self) {
        let Some(group) = Pid::from_raw(self.child.id() as i32) else {
            return;
        };
        let _ = rustix::process::kill_process(group, Signal::TERM);
        let until = Instant::now() + STOP_TIMEOUT;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        // The group is ours alone (it was made for this child): what is left of it is only what it started.
        let _ = kill_process_group(group, Signal::KILL);
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.stop();
    }
}

/// CPU time of a process and its children.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CpuTime {
    /// User and system together, by the scheduler's clock.
    pub total_ns: u64,
    /// User time in clock ticks: coarse, good only for the share.
    pub user_ticks: u64,
    /// System time in clock ticks.
    pub system_ticks: u64,
}

impl CpuTime {
    /// Time used since an earlier reading.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            total_ns: self.total_ns.saturating_sub(earlier.total_ns),
            user_ticks: self.user_ticks.saturating_sub(earlier.user_ticks),
            system_ticks: self.system_ticks.saturating_sub(earlier.system_ticks),
        }
    }

    /// Share of user time, 0 to 1; not a number when no tick passed.
    #[must_use]
    pub fn user_share(self) -> f64 {
        self.user_ticks as f64 / (self.user_ticks + self.system_ticks) as f64
    }
}

fn tasks(pid: u32) -> Vec<PathBuf> {
    let entries = fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten();
    entries.flatten().map(|entry| entry.path()).collect()
}

fn resident_bytes(pid: u32) -> u64 {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let line = rollup.lines().find_map(|line| line.strip_prefix("Rss:"));
    line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok())
        .unwrap_or(0)
        * 1024
}

/// The command as one would type it.
#[must_use]
pub fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words
        .map(|word| word.to_string_lossy().into_owned())
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_measured_and_stopped_with_its_children() {
        let dir = WorkDir::new().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 60 & while :; do :; done"]);
        let mut process = Process::start("sh", command, &CpuList::default(), dir.path()).unwrap();
        let until = Instant::now() + Duration::from_secs(10);
        while (process.pids().len() < 2 || process.cpu().total_ns == 0) && Instant::now() < until {
            std::thread::yield_now();
        }
        let pids = process.pids();
        assert_eq!(pids.len(), 2);
        assert!(process.cpu().total_ns > 0);
        assert!(process.resident_bytes() > 0);
        process.stop();
        // Nobody reaps the grandchild here but init, so a zombie counts as gone.
        let gone = |pid: &u32| !Path::new(&format!("/proc/{pid}/exe")).exists();
        while !pids.iter().all(gone) && Instant::now() < until {
            std::thread::yield_now();
        }
        assert!(pids.iter().all(gone));
    }

    #[test]
    fn a_process_that_fails_says_why() {
        let dir = WorkDir::new().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "echo '[ALERT] the reason'; echo bye; exit 3"]);
        let mut process = Process::start("sh", command, &CpuList::default(), dir.path()).unwrap();
        let error = process
            .wait_ready(SocketAddr::from(([127, 0, 0, 1], 1)))
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("[ALERT] the reason") && error.contains("exit status: 3"),
            "{error}"
        );
    }
}
