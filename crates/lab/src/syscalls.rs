//! How many system calls a process makes: the kernel's own tracepoints, counted by perf events.
//!
//! A tracepoint makes every call a little dearer, so counting is a pass of its own, never part of a measure of CPU
//! time. Counts and requests are read at the same moments: unlike with `strace`, nothing is slowed down before the one
//! and after the other.

use crate::process::Process;
use crate::sys;
use anyhow::{Context, Result};
use std::fs;
use std::os::fd::OwnedFd;

/// The tracepoint of all system calls.
pub const ALL: &str = "raw_syscalls/sys_enter";

/// Counts one or more tracepoints from its start on.
#[derive(Debug)]
pub struct Counter {
    /// For each tracepoint the counters of all threads.
    points: Vec<Vec<OwnedFd>>,
}

impl Counter {
    /// Attaches to all threads of a process and its children. A point is named as in the kernel's `events` folder.
    ///
    /// # Errors
    /// When the kernel has no such tracepoint or does not let this user count it.
    pub fn start(process: &Process, points: &[&str]) -> Result<Self> {
        let ids = tracepoint_ids(points)?;
        let mut tids = Vec::new();
        for pid in process.pids() {
            for task in fs::read_dir(format!("/proc/{pid}/task"))?.flatten() {
                tids.push(task.file_name().to_string_lossy().parse()?);
            }
        }
        let count = |&id: &u64| {
            let open =
                |&tid: &i32| sys::tracepoint_counter(id, tid).context("cannot count system calls");
            tids.iter().map(open).collect()
        };
        Ok(Self {
            points: ids.iter().map(count).collect::<Result<_>>()?,
        })
    }

    /// Calls since the start, a figure for each tracepoint.
    ///
    /// # Errors
    /// When a counter cannot be read.
    pub fn totals(&self) -> Result<Vec<u64>> {
        let total = |threads: &Vec<OwnedFd>| {
            threads.iter().try_fold(0, |sum, fd| {
                let mut value = [0; 8];
                rustix::io::read(fd, &mut value)?;
                Ok(sum + u64::from_ne_bytes(value))
            })
        };
        self.points.iter().map(total).collect()
    }
}

fn tracepoint_ids(points: &[&str]) -> Result<Vec<u64>> {
    const EVENTS: &str = "/sys/kernel/tracing/events";
    let names: Vec<String> = points.iter().map(|&point| point.to_owned()).collect();
    let read = move || -> Option<Vec<u64>> {
        let id = |name: &String| {
            fs::read_to_string(format!("{EVENTS}/{name}/id"))
                .ok()?
                .trim()
                .parse()
                .ok()
        };
        names.iter().map(id).collect()
    };
    if let Some(ids) = read() {
        return Ok(ids);
    }
    let mounted = std::thread::spawn(move || sys::mount_tracing_privately().map(|()| read()));
    let ids = mounted
        .join()
        .map_err(|_| anyhow::anyhow!("the mounting thread failed"))?;
    ids.context("cannot look into the kernel's tracing folder")?
        .context("the kernel cannot trace these system calls")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::CpuList;
    use crate::process::WorkDir;
    use std::process::Command;
    use std::time::{Duration, Instant};

    #[test]
    fn a_busy_process_is_counted() {
        let dir = WorkDir::new().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "while :; do cd /; done"]);
        let process = Process::start("sh", command, &CpuList::default(), dir.path()).unwrap();
        let counter = match Counter::start(
            &process,
            &[ALL, "syscalls/sys_enter_chdir", "syscalls/sys_enter_splice"],
        ) {
            Ok(counter) => counter,
            Err(error) => return eprintln!("skipped: {error:#}"),
        };
        let until = Instant::now() + Duration::from_secs(10);
        loop {
            let totals = counter.totals().unwrap();
            assert_eq!(totals[2], 0, "a shell splices nothing");
            if totals[0] > 100 && totals[1] > 100 {
                return;
            }
            assert!(Instant::now() < until, "{totals:?}");
            std::thread::yield_now();
        }
    }
}
