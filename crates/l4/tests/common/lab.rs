//! Network namespaces on one switch, and the programs that run in them. Everything goes when the lab goes.

// each test program uses a part of it
#![allow(dead_code)]

use std::net::IpAddr;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

static NUMBER: AtomicU32 = AtomicU32::new(0);

/// Whether root's rights, keepalived, ip(8) or one of `others` are missing here; says so.
#[allow(dead_code, reason = "not every test that is built with the lab asks")]
pub fn is_missing(others: &[&str]) -> bool {
    let runs = |program: &str, arg: &str| {
        std::process::Command::new(program)
            .arg(arg)
            .output()
            .is_ok()
    };
    let missing = !rustix::process::geteuid().is_root()
        || !runs("keepalived", "--version")
        || !runs("ip", "-V")
        || !others.iter().all(|program| runs(program, "-V"));
    if missing {
        eprintln!("skipped: not root, or one of keepalived, ip and {others:?} is missing");
    }
    missing
}

pub struct Lab {
    name: String,
    hosts: Vec<String>,
    programs: Vec<Program>,
}

pub struct Program {
    pub host: String,
    pub kind: Kind,
    child: Child,
    pub log: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Sluice,
    Keepalived,
}

/// Runs ip(8); a failure is the test's.
pub fn ip(args: &str) -> String {
    let output = Command::new("ip")
        .args(args.split_whitespace())
        .output()
        .expect("ip runs");
    assert!(
        output.status.success(),
        "ip {args}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A limit for a waiting loop that does not pass while the machine, busy with others' work, lets nobody run: of each turn
/// of the loop only so much counts as a turn takes on a machine that keeps up.
pub struct Patience {
    left: Duration,
    turn: Instant,
    /// In any case, but for a machine that stood still altogether.
    end: Duration,
}

impl Patience {
    const TURN_MAX: Duration = Duration::from_millis(25);

    pub fn new(limit: Duration) -> Patience {
        let turn = Instant::now();
        Patience {
            left: limit,
            turn,
            end: 6 * limit,
        }
    }

    pub fn ends(&mut self) -> bool {
        let now = Instant::now();
        let turn = now.duration_since(self.turn);
        self.turn = now;
        self.left = self.left.saturating_sub(turn.min(Self::TURN_MAX));
        self.end = self.end.saturating_sub(turn.min(40 * Self::TURN_MAX));
        self.left.is_zero() || self.end.is_zero()
    }
}

/// A time that a protocol promises is kept if it is kept once: a busy machine may spoil some attempts, not all.
pub fn in_time(what: &str, limit: Duration, attempt: impl Fn() -> Duration) {
    once(&format!("{what}: within {limit:?}"), || {
        let time = attempt();
        eprintln!("{what}: {time:?}");
        time < limit
    });
}

/// What a busy machine may spoil has five attempts. An attempt during which the machine let a thread of ours wait for its turn
/// says nothing about the programs: where all five were such, nothing is judged.
pub fn once(what: &str, attempt: impl Fn() -> bool) {
    let mut judged = false;
    for _ in 0..5 {
        let (good, late) = lateness(&attempt);
        if good {
            return;
        }
        eprintln!("{what}: not this time; the machine was late by {late:?}");
        judged |= late < LATE;
    }
    assert!(!judged, "not once in five attempts: {what}");
    eprintln!("not judged, this machine is too busy: {what}");
}

/// A thread that asks to be woken is woken within this time on a machine that keeps up.
const LATE: Duration = Duration::from_millis(20);

/// How late a thread was woken at worst while work was done.
fn lateness<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let done = AtomicBool::new(false);
    let watch = || {
        let (nap, mut worst) = (Duration::from_millis(2), Duration::ZERO);
        while !done.load(Ordering::Relaxed) {
            let began = Instant::now();
            std::thread::sleep(nap);
            worst = worst.max(began.elapsed().saturating_sub(nap));
        }
        worst
    };
    std::thread::scope(|scope| {
        let watcher = scope.spawn(watch);
        // Also where the work panics: the scope waits for the watcher.
        let ends = OnDrop(|| done.store(true, Ordering::Relaxed));
        let result = work();
        drop(ends);
        (result, watcher.join().expect("it watches"))
    })
}

struct OnDrop<F: Fn()>(F);

impl<F: Fn()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// No condition is given up earlier, whatever its test expects: how long something took is for `in_time` to judge.
const WAIT_MIN: Duration = Duration::from_secs(20);

impl Lab {
    /// A switch and hosts 1, 2 ... called a, b ... with `eth1` at 10.0.0.N/24 and fd00::N/64.
    pub fn new(hosts: usize) -> Lab {
        let name = format!(
            "sl5-{}-{}",
            std::process::id(),
            NUMBER.fetch_add(1, Ordering::Relaxed)
        );
        let switch = format!("{name}-sw");
        ip(&format!("netns add {switch}"));
        let mut lab = Lab {
            name,
            hosts: Vec::new(),
            programs: Vec::new(),
        };
        ip(&format!(
            "-n {switch} link add name sw0 type bridge forward_delay 0 mcast_snooping 0"
        ));
        ip(&format!("-n {switch} link set sw0 up"));
        for n in 1..=hosts {
            let host = char::from(b'a' + n as u8 - 1).to_string();
            let ns = lab.ns(&host);
            ip(&format!("netns add {ns}"));
            lab.hosts.push(host.clone());
            ip(&format!("-n {ns} link set lo up"));
            ip(&format!(
                "-n {ns} link add eth1 type veth peer name p-{host} netns {switch}"
            ));
            ip(&format!("-n {switch} link set p-{host} master sw0 up"));
            ip(&format!("-n {ns} link set eth1 up"));
            ip(&format!("-n {ns} addr add 10.0.0.{n}/24 dev eth1"));
            ip(&format!("-n {ns} addr add fd00::{n}/64 dev eth1 nodad"));
            ip(&format!("-n {ns} addr add fe80::{n}/64 dev eth1 nodad"));
        }
        lab
    }

    pub fn ns(&self, host: &str) -> String {
        format!("{}-{host}", self.name)
    }

    /// The MAC of a host's eth1.
    pub fn mac(&self, host: &str) -> [u8; 6] {
        let link = ip(&format!("-n {} -o link show eth1", self.ns(host)));
        let text = link.split_once("link/ether ").expect("an Ethernet").1;
        let bytes: Vec<u8> = text[..17]
            .split(':')
            .map(|b| u8::from_str_radix(b, 16).expect("a MAC"))
            .collect();
        bytes.try_into().expect("six bytes")
    }

    pub fn path(&self, file: &str) -> String {
        std::env::temp_dir()
            .join(format!("{}-{file}", self.name))
            .display()
            .to_string()
    }

    /// Takes a host's cable out, or puts it back.
    pub fn cable(&self, host: &str, there: bool) {
        let state = if there { "up" } else { "down" };
        ip(&format!("-n {}-sw link set p-{host} {state}", self.name));
    }

    /// Keeps the link but lets nothing through.
    pub fn partition(&self, host: &str, parted: bool) {
        let to = if parted { "nomaster" } else { "master sw0" };
        ip(&format!("-n {}-sw link set p-{host} {to}", self.name));
    }

    pub fn start(&mut self, host: &str, kind: Kind, config: &str) {
        self.start_with(host, kind, config, &[]);
    }

    pub fn start_with(&mut self, host: &str, kind: Kind, config: &str, more: &[&str]) {
        let file = self.path(&format!("{host}.conf"));
        std::fs::write(&file, config).unwrap();
        let log = self.path(&format!("{host}.log"));
        let out = std::fs::File::create(&log).unwrap();
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.ns(host)]);
        // As a director should be run: before the other work of its machine. Both programs alike.
        command.args(["nice", "-n", "-15"]);
        match kind {
            Kind::Sluice => {
                command.arg(env!("CARGO_BIN_EXE_sluice-l4")).args([
                    "run",
                    "-f",
                    &file,
                    "--conn-tab-bits",
                    "12",
                    "--socket",
                    &self.path(&format!("{host}.sock")),
                ]);
            }
            Kind::Keepalived => {
                let pid = |what: &str| self.path(&format!("{host}.{what}.pid"));
                command.args([
                    "keepalived",
                    // No -D: a line for each of hundreds of gratuitous ARPs keeps it from its adverts for seconds.
                    "-n",
                    "-l",
                    "-P",
                    "-p",
                    &pid("main"),
                    "-r",
                    &pid("vrrp"),
                    "-b",
                    &pid("bfd"),
                    "-f",
                    &file,
                ]);
            }
        }
        let child = command
            .args(more)
            .stdin(Stdio::null())
            .stdout(out.try_clone().unwrap())
            .stderr(out)
            .spawn()
            .expect("ip netns exec runs");
        self.programs.push(Program {
            host: host.into(),
            kind,
            child,
            log,
        });
    }

    fn program(&self, host: &str) -> &Program {
        self.programs
            .iter()
            .find(|p| p.host == host)
            .expect("a program runs there")
    }

    pub fn pid(&self, host: &str) -> u32 {
        self.program(host).child.id()
    }

    pub fn log(&self, host: &str) -> String {
        std::fs::read_to_string(&self.program(host).log).unwrap_or_default()
    }

    /// Children of a process, from /proc.
    fn children(pid: u32) -> Vec<u32> {
        let list =
            std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        list.split_whitespace()
            .filter_map(|p| p.parse().ok())
            .collect()
    }

    fn signal(pid: u32, signal: rustix::process::Signal) {
        if let Some(pid) = rustix::process::Pid::from_raw(pid as i32) {
            let _ = rustix::process::kill_process(pid, signal);
        }
    }

    /// Sends a signal to the program and its children.
    pub fn signal_all(&self, host: &str, signal: rustix::process::Signal) {
        let pid = self.program(host).child.id();
        for child in Self::children(pid) {
            Self::signal(child, signal);
        }
        Self::signal(pid, signal);
    }

    /// kill -9 of everything, so that nobody can say farewell.
    pub fn kill(&mut self, host: &str) {
        let at = self
            .programs
            .iter()
            .position(|p| p.host == host)
            .expect("a program runs there");
        let mut program = self.programs.remove(at);
        // The parent must neither restart its child nor, dying first, make it end in good order.
        Self::signal(program.child.id(), rustix::process::Signal::STOP);
        for child in Self::children(program.child.id()) {
            Self::signal(child, rustix::process::Signal::KILL);
        }
        Self::signal(program.child.id(), rustix::process::Signal::KILL);
        let _ = program.child.wait();
    }

    /// SIGTERM; gives what it left running for `wait` at most.
    pub fn terminate(&mut self, host: &str) {
        let at = self
            .programs
            .iter()
            .position(|p| p.host == host)
            .expect("a program runs there");
        Self::signal(self.programs[at].child.id(), rustix::process::Signal::TERM);
    }

    /// Waits until the program has ended.
    pub fn ended(&mut self, host: &str) {
        let at = self
            .programs
            .iter()
            .position(|p| p.host == host)
            .expect("a program runs there");
        let mut program = self.programs.remove(at);
        let _ = program.child.wait();
    }

    pub fn has(&self, host: &str, address: &str) -> bool {
        let wanted: IpAddr = address.parse().unwrap();
        let list = ip(&format!("-n {} -o addr show", self.ns(host)));
        list.split_whitespace()
            .filter_map(|w| w.split('/').next()?.parse::<IpAddr>().ok())
            .any(|a| a == wanted)
    }

    /// Waits for a condition; on failure the logs are told.
    pub fn wait(&self, what: &str, limit: Duration, condition: impl Fn(&Lab) -> bool) -> Duration {
        let began = Instant::now();
        let mut patience = Patience::new(limit.max(WAIT_MIN));
        while !condition(self) {
            if patience.ends() {
                for p in &self.programs {
                    eprintln!("--- {} {:?}\n{}", p.host, p.kind, self.log(&p.host));
                }
                panic!("not within {:?}: {what}", limit.max(WAIT_MIN));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        began.elapsed()
    }

    /// Waits until one host has the address and the others do not.
    pub fn master(&self, host: &str, address: &str, seconds: u64) -> Duration {
        self.wait(
            &format!("{host} is master of {address}"),
            Duration::from_secs(seconds),
            |lab| {
                lab.has(host, address)
                    && lab
                        .programs
                        .iter()
                        .filter(|p| p.host != host)
                        .all(|p| !lab.has(&p.host, address))
            },
        )
    }

    /// Waits for a state of affairs that lasts this long without a break.
    pub fn settles(&self, what: &str, time: Duration, condition: impl Fn(&Lab) -> bool) {
        let lasts = |lab: &Lab| {
            let began = Instant::now();
            while began.elapsed() < time {
                if !condition(lab) {
                    return false;
                }
                std::thread::sleep(Duration::from_millis(2));
            }
            true
        };
        self.wait(what, time + Duration::from_secs(30), lasts);
    }

    /// Whether nothing changes for this long; if it does, the logs are told.
    pub fn stays(&self, what: &str, time: Duration, condition: impl Fn(&Lab) -> bool) -> bool {
        let began = Instant::now();
        while began.elapsed() < time {
            if !condition(self) {
                eprintln!("does not stay: {what}");
                for p in &self.programs {
                    eprintln!("--- {} {:?}\n{}", p.host, p.kind, self.log(&p.host));
                }
                return false;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        true
    }

    /// What the host's sluice-l4 says of itself.
    pub fn show(&self, host: &str) -> serde_json::Value {
        let socket = std::path::PathBuf::from(self.path(&format!("{host}.sock")));
        sluice_l4::shell::control::ask(&socket, &sluice_l4::shell::control::Request::Show)
            .expect("it answers")
    }

    /// Runs a command inside a host and gives its output.
    pub fn run(&self, host: &str, command: &str) -> String {
        let output = Command::new("ip")
            .args(["netns", "exec", &self.ns(host), "sh", "-c", command])
            .output()
            .expect("ip netns exec runs");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Starts a helper inside a host; it is killed with the lab.
    pub fn helper(&mut self, host: &str, command: &str) {
        let log = self.path(&format!("{host}.helper.log"));
        let out = std::fs::File::create(&log).unwrap();
        let script = format!("exec {command}");
        let child = Command::new("ip")
            .args(["netns", "exec", &self.ns(host), "sh", "-c", &script])
            .stdin(Stdio::null())
            .stdout(out.try_clone().unwrap())
            .stderr(out)
            .spawn()
            .unwrap();
        self.programs.push(Program {
            host: format!("{host}-helper"),
            kind: Kind::Sluice,
            child,
            log,
        });
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        for program in &mut self.programs {
            // As in kill: it would start its children again.
            Self::signal(program.child.id(), rustix::process::Signal::STOP);
            for child in Self::children(program.child.id()) {
                Self::signal(child, rustix::process::Signal::CONT);
                Self::signal(child, rustix::process::Signal::KILL);
            }
            let _ = program.child.kill();
            let _ = program.child.wait();
        }
        for host in self.hosts.iter().map(String::as_str).chain(["sw"]) {
            let _ = Command::new("ip")
                .args(["netns", "del", &self.ns(host)])
                .status();
        }
        if let Ok(entries) = std::fs::read_dir(std::env::temp_dir()) {
            let prefix = format!("{}-", self.name);
            for entry in entries
                .flatten()
                .filter(|e| e.file_name().to_string_lossy().starts_with(&prefix))
            {
                let _ = std::fs::remove_file(entry.path());
            }
        }
    }
}
