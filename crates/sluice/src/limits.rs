//! Limits of the process: file descriptors and the connections they allow (manual 3.2 `maxconn`, `ulimit-n`).

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use sluice_config::model::Model;

/// Connections when neither the configuration nor the descriptor limit says otherwise.
const MAXCONN_UNLIMITED: u64 = 1 << 20;

/// Descriptors beside those of connections: listeners, checks, logs, event loops.
const SPARE_FDS: u64 = 64;

/// What the process may use.
pub struct Limits {
    pub maxconn: u32,
    pub max_fds: u64,
    pub maxpipes: u32,
    /// What is not as the configuration wants it: with `strict-limits` the start ends here.
    pub shortages: Vec<String>,
}

/// Settles `maxconn` and the descriptor limit, raising the latter as far as is allowed.
pub fn settle(model: &Model, flag_maxconn: Option<u32>, workers: u32) -> Limits {
    let g = &model.global;
    let listeners: u64 = model
        .proxies
        .iter()
        .flat_map(|p| &p.binds)
        .map(|b| b.addrs.len() as u64)
        .sum();
    let spare = SPARE_FDS + listeners * u64::from(workers) + u64::from(workers) * 8;
    let wanted = flag_maxconn.or(g.maxconn).filter(|n| *n > 0);
    let now = getrlimit(Resource::Nofile);
    let (soft, hard) = (
        now.current.unwrap_or(u64::MAX),
        now.maximum.unwrap_or(u64::MAX),
    );
    let ceiling = g.fd_hard_limit.map_or(hard, |l| l.min(hard));
    // two descriptors a connection, and pipes for those that splice
    let needed = wanted.map(|n| u64::from(n) * 2 + u64::from(n) / 4 * 2 + spare);
    let target = g
        .ulimit_n
        .or(needed)
        .unwrap_or(soft.max(ceiling.min(1 << 20)))
        .max(soft.min(ceiling));
    let max_fds = raise(soft, hard, target).min(ceiling.max(soft.min(ceiling)));
    let by_fds = ((max_fds.saturating_sub(spare)) / 2).clamp(1, MAXCONN_UNLIMITED) as u32;
    let maxconn = wanted.unwrap_or(by_fds);
    let maxsock = u64::from(maxconn) * 2 + spare;
    let short = maxconn > by_fds && wanted.is_some();
    let asked = g.ulimit_n.or(short.then_some(maxsock));
    let mut shortages = Vec::new();
    if let Some(asked) = asked.filter(|n| *n > max_fds) {
        shortages.push(format!(
            "Cannot raise FD limit to {asked}, limit is {max_fds}."
        ));
    }
    if short {
        shortages.push(format!(
            "FD limit ({max_fds}) too low for maxconn={maxconn}/maxsock={maxsock}. Please raise 'ulimit-n' to {maxsock} or more to avoid any trouble."
        ));
    }
    if g.prealloc_fd {
        prealloc(max_fds);
    }
    let maxpipes = g.maxpipes.unwrap_or((maxconn / 4).max(16));
    Limits {
        maxconn,
        max_fds,
        maxpipes,
        shortages,
    }
}

/// Raises the soft limit towards `target` and says what it is then.
fn raise(soft: u64, hard: u64, target: u64) -> u64 {
    if target <= soft {
        return soft;
    }
    let maximum = target.max(hard);
    for (current, maximum) in [(target, maximum), (target.min(hard), hard)] {
        let limit = Rlimit {
            current: Some(current),
            maximum: Some(maximum).filter(|m| *m != u64::MAX),
        };
        if setrlimit(Resource::Nofile, limit).is_ok() {
            return current;
        }
    }
    soft
}

/// Has the kernel make its table of our descriptors as large as it may become, now and not under load.
fn prealloc(max_fds: u64) {
    let last = i32::try_from(max_fds.saturating_sub(1)).unwrap_or(i32::MAX);
    // it is closed again at once; without room for it the table grows later
    let _ = rustix::io::fcntl_dupfd_cloexec(std::io::stderr(), last);
}
