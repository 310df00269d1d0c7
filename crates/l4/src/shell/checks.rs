//! The checkers at work: one task a probe, on one runtime. Virtual servers that ask the same of the same server share it.

use super::bfd::Bfds;
use super::scripts::default_user;
use crate::check::probe::{Weight, probe};
use crate::check::reach::next_beat;
use crate::check::state::{CheckState, Schedule, schedule};
use crate::config::model::{
    Checker, CheckerKind, Config, GroupEntry, RealServer, VirtualKey, VirtualServer,
};
use crate::netlink::Netlink;
use crate::pool::name_of;
use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// What makes two checks the same.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct ProbeKey {
    checker: Checker,
    target: SocketAddr,
    schedule: Schedule,
    alpha: bool,
    /// ha_suspend: it rests while none of these addresses is on this machine; empty: never.
    only_with: Vec<IpAddr>,
}

/// Who wants to know: virtual server and server.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Subject {
    pub virtual_server: String,
    pub ip: IpAddr,
    pub port: u16,
}

/// A probe's result where it matters.
#[derive(Debug, Clone)]
pub struct Report {
    id: u64,
    pub up: bool,
    /// What misc_dynamic or a file says of the weight.
    pub weight: Option<Weight>,
    pub why: Option<String>,
}

struct Running {
    task: JoinHandle<()>,
    key: ProbeKey,
    up: bool,
    subjects: Vec<Subject>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// All probes, found by what they ask, by their number, and by whom they are for: a report costs the same however many
/// there are.
pub struct Checks {
    running: HashMap<u64, Running>,
    by_key: HashMap<ProbeKey, u64>,
    by_subject: HashMap<Subject, Vec<u64>>,
    reports: UnboundedSender<Report>,
    next_id: u64,
    /// Some check rests while an address is elsewhere.
    some_rest: bool,
    /// This machine's addresses, looked at only then.
    addresses: watch::Sender<HashSet<IpAddr>>,
}

impl Checks {
    pub fn new(reports: UnboundedSender<Report>) -> Self {
        Checks {
            running: HashMap::new(),
            by_key: HashMap::new(),
            by_subject: HashMap::new(),
            reports,
            next_id: 0,
            some_rest: false,
            addresses: watch::Sender::default(),
        }
    }

    /// Runs exactly the checks of this configuration; those that stay the same are not disturbed.
    pub fn apply(&mut self, config: &Config, bfds: &Bfds) {
        let mut wanted: HashMap<ProbeKey, Vec<Subject>> = HashMap::new();
        for vs in &config.virtual_servers {
            let name = name_of(vs);
            for rs in &vs.real_servers {
                for checker in &rs.checkers {
                    let subject = Subject {
                        virtual_server: name.clone(),
                        ip: rs.address,
                        port: rs.port,
                    };
                    wanted
                        .entry(key(vs, rs, checker, config))
                        .or_default()
                        .push(subject);
                }
            }
        }
        self.some_rest = wanted.keys().any(|k| !k.only_with.is_empty());
        self.running.retain(|_, r| wanted.contains_key(&r.key));
        self.by_key.retain(|k, _| wanted.contains_key(k));
        self.by_subject.clear();
        for (key, subjects) in wanted {
            let id = match self.by_key.get(&key) {
                Some(id) => *id,
                None => self.begin(key, bfds),
            };
            for s in &subjects {
                self.by_subject.entry(s.clone()).or_default().push(id);
            }
            if let Some(running) = self.running.get_mut(&id) {
                running.subjects = subjects;
            }
        }
    }

    fn begin(&mut self, key: ProbeKey, bfds: &Bfds) -> u64 {
        self.next_id += 1;
        let id = self.next_id;
        let reports = self.reports.clone();
        let session = match &key.checker.kind {
            CheckerKind::Bfd { name } => bfds.follow(name),
            _ => None,
        };
        let task = match session {
            Some(session) => tokio::spawn(follow(id, session, reports)),
            None => tokio::spawn(work(id, key.clone(), reports, self.addresses.subscribe())),
        };
        self.by_key.insert(key.clone(), id);
        let running = Running {
            task,
            up: !key.alpha,
            key,
            subjects: Vec::new(),
        };
        self.running.insert(id, running);
        id
    }

    /// Wakes and rests what asked for it by ha_suspend.
    pub fn look_at_addresses(&self) {
        if !self.some_rest {
            return;
        }
        let found = Netlink::open().and_then(|mut n| n.addresses());
        // What cannot be looked at is taken to be as it was.
        if let Ok(found) = found {
            let now: HashSet<IpAddr> = found.into_iter().map(|(_, ip, _)| ip).collect();
            self.addresses.send_if_modified(|known| {
                let other = *known != now;
                *known = now;
                other
            });
        }
    }

    pub fn count(&self) -> usize {
        self.running.len()
    }

    /// A server's standing over all its checks; none where nothing checks it.
    pub fn standing(&self, subject: &Subject) -> Option<bool> {
        let ids = self.by_subject.get(subject)?;
        Some(
            ids.iter()
                .all(|id| self.running.get(id).is_none_or(|r| r.up)),
        )
    }

    /// Notes a report; gives the servers it is about with their standing over all their checks.
    pub fn note(&mut self, report: &Report) -> Vec<(Subject, bool)> {
        let Some(running) = self.running.get_mut(&report.id) else {
            return Vec::new();
        };
        running.up = report.up;
        let subjects = running.subjects.clone();
        subjects
            .into_iter()
            .map(|s| {
                let up = self.standing(&s).unwrap_or(true);
                (s, up)
            })
            .collect()
    }
}

fn key(vs: &VirtualServer, rs: &RealServer, checker: &Checker, config: &Config) -> ProbeKey {
    let timing = checker.timing().or(rs.timing).or(vs.timing);
    let mut checker = checker.clone();
    checker.log_all_failures |= config.globals.log_all_failures;
    if let CheckerKind::Misc(misc) = &mut checker.kind {
        misc.secure = config.globals.script_security;
        misc.user = misc
            .user
            .take()
            .or_else(|| default_user(config).map(|u| (u.user, u.group)));
    }
    if let CheckerKind::File(check) = &mut checker.kind
        && let Some(file) = config
            .track_files
            .iter()
            .find(|f| f.name == check.track_file)
    {
        check.path.clone_from(&file.path);
        if !check.own_weight {
            (check.weight, check.reverse) = (file.weight, file.reverse);
        }
    }
    if let CheckerKind::Http(http) = &mut checker.kind {
        http.virtualhost = http
            .virtualhost
            .take()
            .or_else(|| rs.virtualhost.clone())
            .or_else(|| vs.virtualhost.clone());
    }
    ProbeKey {
        schedule: schedule(&checker.kind, timing),
        target: SocketAddr::new(rs.address, rs.port),
        alpha: checker.alpha.or(rs.alpha).unwrap_or(vs.alpha),
        only_with: match vs.ha_suspend {
            true => addresses_of(vs, config),
            false => Vec::new(),
        },
        checker,
    }
}

/// The addresses of a virtual server; of a range, the first.
fn addresses_of(vs: &VirtualServer, config: &Config) -> Vec<IpAddr> {
    match &vs.key {
        VirtualKey::Address(ip, _) => vec![*ip],
        VirtualKey::Fwmark(mark) => marked(config, *mark),
        VirtualKey::Group(name) => config
            .groups
            .iter()
            .filter(|g| g.name == *name)
            .flat_map(|g| &g.entries)
            .flat_map(|e| match e {
                GroupEntry::Range(first, _, _) => vec![*first],
                GroupEntry::Fwmark(mark) => marked(config, *mark),
            })
            .collect(),
    }
}

fn marked(config: &Config, mark: u32) -> Vec<IpAddr> {
    let targets = config.marks.targets(mark);
    targets.into_iter().map(|(ip, _, _)| ip).collect()
}

/// Probes for ever.
async fn work(
    id: u64,
    key: ProbeKey,
    reports: UnboundedSender<Report>,
    mut addresses: watch::Receiver<HashSet<IpAddr>>,
) {
    let us = Duration::from_micros;
    // Scattered by a hash of the target, so that thousands of first probes do not leave at once.
    let warmup = match key.alpha {
        true => 0,
        false => key.schedule.warmup_us.min(key.schedule.delay_loop_us),
    };
    if warmup > 0 {
        tokio::time::sleep(us(scatter(&key.target) % warmup)).await;
    }
    let mut state = CheckState::new(key.alpha);
    let mut weight = None;
    loop {
        if !key.only_with.is_empty() {
            let here = |all: &HashSet<IpAddr>| key.only_with.iter().any(|ip| all.contains(ip));
            if addresses.wait_for(here).await.is_err() {
                return;
            }
        }
        let outcome = probe(&key.checker, key.target, us(key.schedule.timeout_us)).await;
        let next = state.result(outcome.is_ok(), &key.schedule);
        let new_weight = outcome.as_ref().ok().copied().flatten();
        if next.changed.is_some()
            || (new_weight.is_some() && new_weight != weight)
            || (key.checker.log_all_failures && outcome.is_err())
        {
            weight = new_weight;
            let report = Report {
                id,
                up: state.up(),
                weight,
                why: outcome.err(),
            };
            if reports.send(report).is_err() {
                return;
            }
        }
        tokio::time::sleep_until(next_beat(us(next.wait_us))).await;
    }
}

/// BFD_CHECK: a server is up while the session is.
async fn follow(id: u64, mut session: watch::Receiver<bool>, reports: UnboundedSender<Report>) {
    loop {
        let up = *session.borrow_and_update();
        let why = (!up).then(|| "its BFD session is not up".to_string());
        let report = Report {
            id,
            up,
            weight: None,
            why,
        };
        if reports.send(report).is_err() || session.changed().await.is_err() {
            return;
        }
    }
}

fn scatter(target: &SocketAddr) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut h = DefaultHasher::new();
    (target, std::process::id()).hash(&mut h);
    h.finish()
}
