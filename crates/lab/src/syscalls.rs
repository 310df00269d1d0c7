//! How many system calls a process makes: the kernel's own tracepoint, counted by perf events.
//!
//! The tracepoint makes every call a little dearer, so counting is a pass of its own, never part of a measure of CPU
//! time. Which calls they are is not told; `strace -c` is, when it is installed, and much dearer still.

use crate::process::Process;
use crate::sys;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::fs;
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Counts from its start on.
#[derive(Debug)]
pub struct Counter {
    threads: Vec<OwnedFd>,
}

impl Counter {
    /// Attaches to all threads of a process and its children.
    ///
    /// # Errors
    /// When the kernel has no such tracepoint or does not let this user count it.
    pub fn start(process: &Process) -> Result<Self> {
        let id = tracepoint_id()?;
        let mut threads = Vec::new();
        for pid in process.pids() {
            for task in fs::read_dir(format!("/proc/{pid}/task"))?.flatten() {
                let tid = task.file_name().to_string_lossy().parse()?;
                threads
                    .push(sys::tracepoint_counter(id, tid).context("cannot count system calls")?);
            }
        }
        Ok(Self { threads })
    }

    /// Calls since the start.
    ///
    /// # Errors
    /// When a counter cannot be read.
    pub fn total(&self) -> Result<u64> {
        self.threads.iter().try_fold(0, |sum, fd| {
            let mut value = [0; 8];
            rustix::io::read(fd, &mut value)?;
            Ok(sum + u64::from_ne_bytes(value))
        })
    }
}

fn tracepoint_id() -> Result<u64> {
    const FILE: &str = "/sys/kernel/tracing/events/raw_syscalls/sys_enter/id";
    let read = || {
        fs::read_to_string(FILE)
            .ok()
            .and_then(|text| text.trim().parse().ok())
    };
    if let Some(id) = read() {
        return Ok(id);
    }
    let mounted = std::thread::spawn(move || sys::mount_tracing_privately().map(|()| read()));
    let id = mounted
        .join()
        .map_err(|_| anyhow::anyhow!("the mounting thread failed"))?;
    id.context("cannot look into the kernel's tracing folder")?
        .context("the kernel cannot trace system calls")
}

/// Calls by name, counted by `strace` for a while.
///
/// # Errors
/// When strace is missing or may not attach.
pub fn by_name(process: &Process, time: Duration) -> Result<BTreeMap<String, u64>> {
    let program = crate::process::find_program("strace").context("strace is not installed")?;
    let mut command = Command::new(program);
    command.args(["-f", "-c", "-qq"]);
    for pid in process.pids() {
        command.args(["-p", &pid.to_string()]);
    }
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let child = sys::bind_child_life(&mut command)
        .spawn()
        .context("cannot start strace")?;
    let _ = crate::host::sleep(time);
    if let Some(pid) = rustix::process::Pid::from_raw(child.id() as i32) {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::INT);
    }
    let output = child.wait_with_output()?;
    Ok(parse_strace(&String::from_utf8_lossy(&output.stderr)))
}

/// Reads `strace -c`: `% time, seconds, usecs/call, calls, [errors,] syscall`.
fn parse_strace(text: &str) -> BTreeMap<String, u64> {
    let calls = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let calls = fields.get(3)?.parse().ok()?;
        let name = *fields.last()?;
        (name != "total" && fields.len() >= 5).then(|| (name.to_owned(), calls))
    };
    text.lines().filter_map(calls).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::CpuList;
    use crate::process::WorkDir;

    #[test]
    fn strace_tables() {
        let text = "% time     seconds  usecs/call     calls    errors syscall\n\
                    ------ ----------- ----------- --------- --------- ----------------\n \
                    60.00    0.000300           1       300           splice\n \
                    40.00    0.000200           2       100        50 recvfrom\n\
                    ------ ----------- ----------- --------- --------- ----------------\n\
                    100.00    0.000500                   400        50 total\n";
        let calls = parse_strace(text);
        assert_eq!(calls.get("splice"), Some(&300));
        assert_eq!(calls.get("recvfrom"), Some(&100));
        assert_eq!(calls.len(), 2);
    }

    #[test]
    fn a_busy_process_is_counted() {
        let dir = WorkDir::new().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "while :; do cd /; done"]);
        let process = Process::start("sh", command, &CpuList::default(), dir.path()).unwrap();
        let counter = match Counter::start(&process) {
            Ok(counter) => counter,
            Err(error) => return eprintln!("skipped: {error:#}"),
        };
        let until = std::time::Instant::now() + Duration::from_secs(10);
        while counter.total().unwrap() < 100 {
            assert!(std::time::Instant::now() < until, "{:?}", counter.total());
            std::thread::yield_now();
        }
    }
}
