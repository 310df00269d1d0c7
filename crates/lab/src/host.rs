//! This process on this host: CPUs it pins threads to, descriptors it may open, the way it is told to stop.

use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::OwnedFd;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Asks threads to stop: a flag, and a descriptor that wakes every epoll it is registered in.
#[derive(Debug, Clone)]
pub struct Stop(Arc<(AtomicBool, OwnedFd)>);

impl Stop {
    /// A flag that is not set.
    ///
    /// # Errors
    /// When the process is out of descriptors.
    pub fn new() -> std::io::Result<Self> {
        Ok(Self(Arc::new((
            AtomicBool::new(false),
            eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
        ))))
    }

    /// Asks to stop.
    pub fn set(&self) {
        self.0.0.store(true, Ordering::SeqCst);
        let _ = rustix::io::write(&self.0.1, &1u64.to_ne_bytes());
    }

    /// Whether to stop.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.0.0.load(Ordering::Relaxed)
    }

    /// Becomes readable for good when the flag is set.
    #[must_use]
    pub fn fd(&self) -> &OwnedFd {
        &self.0.1
    }
}

/// Sleeps until `until` or a signal; false when interrupted.
#[must_use]
pub fn sleep_until(until: Instant) -> bool {
    loop {
        if crate::sys::interrupted() {
            return false;
        }
        let now = Instant::now();
        if now >= until {
            return true;
        }
        std::thread::sleep((until - now).min(Duration::from_millis(50)));
    }
}

/// [`sleep_until`] for a time from now.
#[must_use]
pub fn sleep(time: Duration) -> bool {
    sleep_until(Instant::now() + time)
}

/// A list of CPUs such as `0,2-3`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CpuList(pub Vec<usize>);

impl std::str::FromStr for CpuList {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("'{text}' is not a list of CPUs such as 0,2-3");
        let mut cpus = Vec::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last): (usize, usize) = (
                first.parse().map_err(|_| bad())?,
                last.parse().map_err(|_| bad())?,
            );
            if first > last || last >= CpuSet::MAX_CPU {
                return Err(bad());
            }
            cpus.extend(first..=last);
        }
        Ok(Self(cpus))
    }
}

impl std::fmt::Display for CpuList {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let list: Vec<_> = self.0.iter().map(usize::to_string).collect();
        f.write_str(&list.join(","))
    }
}

impl CpuList {
    /// The CPUs this process was started on. First asked before any thread is pinned, it stays what it was then.
    #[must_use]
    pub fn of_process() -> Self {
        static AT_START: OnceLock<CpuList> = OnceLock::new();
        AT_START.get_or_init(Self::allowed).clone()
    }

    /// The CPUs this thread may run on.
    #[must_use]
    pub fn allowed() -> Self {
        let set = sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
        Self(
            (0..CpuSet::MAX_CPU)
                .filter(|&cpu| set.is_set(cpu))
                .collect(),
        )
    }

    /// The CPU of thread `n`; none for an empty list.
    #[must_use]
    pub fn nth(&self, n: usize) -> Option<usize> {
        if self.0.is_empty() {
            None
        } else {
            Some(self.0[n % self.0.len()])
        }
    }

    /// # Errors
    /// Names the CPUs that this process may not run on, or that do not exist.
    pub fn check(&self) -> std::io::Result<()> {
        let mine = Self::of_process();
        let wrong: Vec<usize> = self
            .0
            .iter()
            .copied()
            .filter(|cpu| !mine.0.contains(cpu))
            .collect();
        if wrong.is_empty() {
            return Ok(());
        }
        Err(std::io::Error::other(format!(
            "cannot run on CPU {}: there are {mine}",
            Self(wrong)
        )))
    }

    /// Keeps the calling thread, and the processes it starts, on these CPUs. An empty list changes nothing.
    ///
    /// # Errors
    /// When none of the CPUs exists.
    pub fn pin(&self) -> std::io::Result<()> {
        if self.0.is_empty() {
            return Ok(());
        }
        let mut set = CpuSet::new();
        for &cpu in &self.0 {
            set.set(cpu);
        }
        sched_setaffinity(None, &set).map_err(|error| {
            std::io::Error::new(error.kind(), format!("cannot run on CPU {self}: {error}"))
        })
    }
}

/// Keeps the calling thread on one CPU, if one is given.
///
/// # Errors
/// When the CPU does not exist.
pub fn pin(cpu: Option<usize>) -> std::io::Result<()> {
    CpuList(cpu.into_iter().collect()).pin()
}

/// Raises the limit of open descriptors as far as this user may; returns the limit now in force.
pub fn raise_fd_limit() -> u64 {
    let now = getrlimit(Resource::Nofile);
    let wanted = Rlimit {
        current: now.maximum,
        maximum: now.maximum,
    };
    if now.current != now.maximum && setrlimit(Resource::Nofile, wanted).is_err() {
        return now.current.unwrap_or(u64::MAX);
    }
    now.maximum.unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_lists() {
        let check = |text: &str, expect: Option<&[usize]>| {
            assert_eq!(
                text.parse::<CpuList>().ok().map(|l| l.0).as_deref(),
                expect,
                "{text}"
            );
        };
        check("0", Some(&[0]));
        check("0,2-4", Some(&[0, 2, 3, 4]));
        check("3-1", None);
        check("x", None);
        check("99999", None);
    }
}
