//! What the process's threads and descriptors are doing, as the shell finds out for `show activity`, `show threads`,
//! `show tasks`, `show pools` and `show fd`. HAProxy's names are kept where Sluice counts the same thing; what it has no
//! notion of (run queues, polling masks, pools with a cache each) is left out, not made up.

use std::fmt::Write;
use std::net::SocketAddr;

use sluice_expr::ServerId;

/// One worker, as it was when it was asked.
#[derive(Debug, Clone, Default)]
pub struct WorkerRow {
    /// From 0.
    pub id: u32,
    /// The thread's number in the kernel.
    pub thread: i32,
    /// What its tasks are for, and how many there are of each.
    pub tasks: Vec<(&'static str, usize)>,
    /// All tasks, those above included.
    pub alive: usize,
    /// Times it waited for events.
    pub loops: u64,
    /// Wall and processor time it worked.
    pub busy_us: u64,
    pub cpu_us: u64,
    /// Connections it accepted, streams it ran.
    pub accepted: u64,
    pub streams: u64,
    /// Idle server connections it took from other workers.
    pub taken_over: u64,
    pub stocks: Vec<Stock>,
    /// Idle server connections it keeps.
    pub idle: Vec<IdleRow>,
}

/// Idle connections to one server.
#[derive(Debug, Clone, Copy)]
pub struct IdleRow {
    pub server: ServerId,
    /// Of them, those that carried more than one request.
    pub reused: u32,
}

/// Things of one size that a worker keeps for the next user.
#[derive(Debug, Clone, Copy)]
pub struct Stock {
    pub name: &'static str,
    pub size: usize,
    /// In use, and waiting to be.
    pub used: usize,
    pub kept: usize,
}

/// One descriptor of the process.
#[derive(Debug, Clone, Default)]
pub struct DescriptorRow {
    pub number: i32,
    /// What the kernel calls it: `socket:[1234]`, `anon_inode:[eventpoll]`, a path.
    pub target: String,
    /// Both addresses of an internet socket.
    pub local: Option<SocketAddr>,
    pub peer: Option<SocketAddr>,
    /// A Unix socket.
    pub is_unix: bool,
    pub listens: bool,
    /// The frontend, or `GLOBAL` for a command socket.
    pub frontend: Option<String>,
    /// `backend/server` of a server connection.
    pub server: Option<String>,
    /// A server connection that waits for its next request.
    pub is_idle: bool,
    /// The worker that has it.
    pub worker: Option<u32>,
}

impl DescriptorRow {
    /// A line of `show fd`.
    pub fn line(&self) -> String {
        let mut out = format!("{:>7} :", self.number);
        match self.worker {
            Some(w) => _ = write!(out, " tmask={:#x}", 1_u128 << w.min(127)),
            None => _ = write!(out, " tmask=0"),
        }
        let _ = write!(out, " target={}", self.target);
        if self.listens {
            out.push_str(" l.st=RDY");
        }
        if self.server.is_some() || self.frontend.is_some() && !self.listens {
            let _ = write!(out, " back={}", u8::from(self.server.is_some()));
        }
        match (&self.local, self.is_unix) {
            (Some(local), _) => {
                let family = if local.is_ipv4() { "ipv4" } else { "ipv6" };
                let _ = write!(out, " fam={family} lport={}", local.port());
            }
            (None, true) => out.push_str(" fam=unix"),
            (None, false) => {}
        }
        if let Some(peer) = &self.peer {
            let _ = write!(out, " rport={}", peer.port());
        }
        if let Some(fe) = &self.frontend {
            let _ = write!(out, " fe={fe}");
        }
        if let Some(sv) = &self.server {
            let _ = write!(out, " sv={sv}");
            if self.is_idle {
                out.push_str(" idle");
            }
        }
        out.push('\n');
        out
    }
}

/// `show activity`: a line each, the sum first, then each worker's part.
pub fn activity(rows: &[WorkerRow], date: &str) -> String {
    let mut out = format!("thread_id: 0 (1..{})\ndate_now: {date}\n", rows.len());
    let mut line = |name: &str, of: fn(&WorkerRow) -> u64| {
        let sum: u64 = rows.iter().map(of).sum();
        let _ = write!(out, "{name}: {sum} [");
        rows.iter().for_each(|r| _ = write!(out, " {}", of(r)));
        out.push_str(" ]\n");
    };
    line("loops", |r| r.loops);
    line("tasks", |r| r.alive as u64);
    line("stream_calls", |r| r.streams);
    line("busy_ms_tot", |r| r.busy_us / 1000);
    line("cpust_ms_tot", |r| r.cpu_us / 1000);
    line("accepted", |r| r.accepted);
    line("fd_takeover", |r| r.taken_over);
    out
}

/// `show threads`.
pub fn threads(rows: &[WorkerRow]) -> String {
    let mut out = String::new();
    for r in rows {
        let _ = write!(
            out,
            "  Thread {:<2}: id={} tasks={} loops={}\n             cpu_ns: now={} busy={}\n",
            r.id + 1,
            r.thread,
            r.alive,
            r.loops,
            r.cpu_us * 1000,
            r.busy_us * 1000,
        );
        for (name, n) in &r.tasks {
            let _ = writeln!(out, "             {name}: {n}");
        }
    }
    out
}

/// `show tasks`: the tasks that exist by what they are for, the most numerous first.
pub fn tasks(rows: &[WorkerRow]) -> String {
    let all: usize = rows.iter().map(|r| r.alive).sum();
    let mut kinds: Vec<(&str, usize)> = Vec::new();
    for (name, n) in rows.iter().flat_map(|r| &r.tasks) {
        match kinds.iter_mut().find(|(known, _)| known == name) {
            Some((_, sum)) => *sum += n,
            None => kinds.push((name, *n)),
        }
    }
    let told: usize = kinds.iter().map(|(_, n)| n).sum();
    kinds.push(("other", all.saturating_sub(told)));
    kinds.retain(|(_, n)| *n > 0);
    kinds.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
    let mut out = format!("Tasks: {all} ({} threads)\n", rows.len());
    out.push_str("  function                     places     %\n");
    for (name, n) in kinds {
        let percent = 100.0 * n as f64 / all.max(1) as f64;
        let _ = writeln!(out, "  {name:<28}{n:>7}  {percent:>5.1}");
    }
    out
}

/// `show pools`: the sums over all workers.
pub fn pools(rows: &[WorkerRow]) -> String {
    let mut sums: Vec<(Stock, usize)> = Vec::new();
    for s in rows.iter().flat_map(|r| &r.stocks) {
        match sums.iter_mut().find(|(known, _)| known.name == s.name) {
            Some((sum, users)) => {
                (sum.used, sum.kept, *users) = (sum.used + s.used, sum.kept + s.kept, *users + 1);
            }
            None => sums.push((*s, 1)),
        }
    }
    let mut out = "Dumping pools usage.\n".to_owned();
    // what is kept for the next user counts as used
    let (mut used, mut kept) = (0, 0);
    for (s, users) in &sums {
        let n = s.used + s.kept;
        let _ = writeln!(
            out,
            "  - Pool {} ({} bytes) : {n} allocated ({} bytes), {n} used (~{} by thread caches), {users} users",
            s.name,
            s.size,
            n * s.size,
            s.kept
        );
        used += n * s.size;
        kept += s.kept * s.size;
    }
    let _ = writeln!(
        out,
        "Total: {} pools, {used} bytes allocated, {used} used (~{kept} by thread caches).",
        sums.len()
    );
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<WorkerRow> {
        let row = |id, sessions, used| WorkerRow {
            id,
            thread: 40 + id as i32,
            tasks: vec![("session", sessions), ("listener", 1)],
            alive: sessions + 3,
            loops: 10,
            stocks: vec![Stock {
                name: "buffer",
                size: 100,
                used,
                kept: 1,
            }],
            ..WorkerRow::default()
        };
        vec![row(0, 1, 0), row(1, 6, 2)]
    }

    #[test]
    fn each_worker_has_its_part() {
        let text = activity(&rows(), "1.5");
        assert!(
            text.starts_with("thread_id: 0 (1..2)\ndate_now: 1.5\n"),
            "{text}"
        );
        assert!(text.contains("\nloops: 20 [ 10 10 ]\n"), "{text}");
        assert!(text.contains("\ntasks: 13 [ 4 9 ]\n"), "{text}");
        assert!(threads(&rows()).contains("  Thread 2 : id=41 tasks=9 loops=10\n"));
    }

    #[test]
    fn tasks_are_told_by_what_they_are_for() {
        let text = tasks(&rows());
        let names: Vec<_> = text
            .lines()
            .skip(2)
            .filter_map(|l| l.split_whitespace().next())
            .collect();
        assert_eq!(names, ["session", "other", "listener"], "{text}");
    }

    #[test]
    fn stocks_are_added_up() {
        let text = pools(&rows());
        assert!(text.contains("Pool buffer (100 bytes) : 4 allocated (400 bytes), 4 used (~2 by thread caches), 2 users"), "{text}");
        assert!(
            text.contains("Total: 1 pools, 400 bytes allocated, 400 used (~200 by thread caches).")
        );
    }

    #[test]
    fn descriptors_say_whose_they_are() {
        let fd = DescriptorRow {
            number: 9,
            target: "socket:[1]".into(),
            local: "127.0.0.1:80".parse().ok(),
            peer: "127.0.0.1:9".parse().ok(),
            server: Some("b/s".into()),
            is_idle: true,
            worker: Some(1),
            ..DescriptorRow::default()
        };
        assert_eq!(
            fd.line(),
            "      9 : tmask=0x2 target=socket:[1] back=1 fam=ipv4 lport=80 rport=9 sv=b/s idle\n"
        );
    }
}
