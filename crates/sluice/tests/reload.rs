//! A new process takes over from the old one: the very sockets with `-x`, shared ports without, and no client notices.
//! With haproxy on the machine, either program also takes over from the other.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const SLUICE: &str = env!("CARGO_BIN_EXE_sluice");

/// How long anything may take before the test gives up.
const PATIENCE: Duration = Duration::from_secs(20);

/// A configuration with a directory and a port of its own.
struct Site {
    dir: PathBuf,
    addr: SocketAddr,
}

impl Site {
    fn new(name: &str) -> Site {
        let dir = std::env::temp_dir().join(format!("sluice-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a directory");
        // the port is free again as soon as this listener is dropped
        let addr = TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr());
        let site = Site {
            dir,
            addr: addr.expect("a port"),
        };
        site.configure("");
        site
    }
    fn configure(&self, extra: &str) {
        let text = format!(
            "global\n  stats socket {} level admin expose-fd listeners\n  nbthread 2\n{extra}\
             defaults\n  mode http\n  timeout client 5s\n  timeout server 5s\n  timeout connect 1s\n\
             frontend f\n  bind {}\n  http-request return status 200 content-type text/plain string ok\n",
            self.socket().display(),
            self.addr
        );
        std::fs::write(self.config(), text).expect("a configuration");
    }
    fn socket(&self) -> PathBuf {
        self.dir.join("s.sock")
    }
    fn config(&self) -> PathBuf {
        self.dir.join("cfg")
    }
    fn start(&self, program: &str, more: &[&str]) -> Process {
        let child = Command::new(program)
            .args(["-f", &self.config().to_string_lossy()])
            .args(more)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Process(child.expect("the program starts"))
    }
    /// The answer of a command on the stats socket.
    fn command(&self, line: &str) -> String {
        ask(&self.socket(), line).unwrap_or_default()
    }
    /// The process that answers on the stats socket.
    fn pid(&self) -> Option<u32> {
        let info = self.command("show info");
        info.lines()
            .find_map(|l| l.strip_prefix("Pid: "))
            .and_then(|p| p.parse().ok())
    }
    fn wait_for_pid(&self, what: &str, wanted: impl Fn(u32) -> bool) -> u32 {
        let mut found = 0;
        wait_until(what, || {
            found = self.pid().unwrap_or(0);
            found != 0 && wanted(found)
        });
        found
    }
    /// The kernel's numbers of the sockets that listen at the address.
    fn inodes(&self) -> Vec<String> {
        let local = format!(
            "{:08X}:{:04X}",
            u32::from_le_bytes([127, 0, 0, 1]),
            self.addr.port()
        );
        let table = std::fs::read_to_string("/proc/net/tcp").expect("/proc");
        let rows = table
            .lines()
            .map(|l| l.split_whitespace().collect::<Vec<_>>());
        let mut found: Vec<String> = rows
            .filter(|w| w.len() > 9 && w[1] == local && w[3] == "0A")
            .map(|w| w[9].to_owned())
            .collect();
        found.sort();
        found
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// A process that does not outlive its test.
struct Process(Child);

impl Process {
    fn pid(&self) -> u32 {
        self.0.id()
    }
    fn wait(&mut self) -> i32 {
        let mut code = None;
        wait_until("the end of the process", || {
            code = self.0.try_wait().expect("a child");
            code.is_some()
        });
        use std::os::unix::process::ExitStatusExt;
        code.map_or(-1, |c| c.code().unwrap_or(-c.signal().unwrap_or(0)))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        signal(self.pid(), "TERM");
        let until = Instant::now() + Duration::from_secs(2);
        while Instant::now() < until && matches!(self.0.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn signal(pid: u32, name: &str) {
    let _ = Command::new("kill")
        .args([&format!("-{name}"), &pid.to_string()])
        .stderr(Stdio::null())
        .status();
}

fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < until, "{what} did not happen");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn ask(socket: &Path, line: &str) -> std::io::Result<String> {
    let mut io = UnixStream::connect(socket)?;
    io.set_read_timeout(Some(PATIENCE))?;
    io.write_all(format!("{line}\n").as_bytes())?;
    let mut text = String::new();
    io.read_to_string(&mut text)?;
    Ok(text)
}

fn get(addr: SocketAddr) -> std::io::Result<String> {
    let mut io = TcpStream::connect(addr)?;
    io.set_read_timeout(Some(Duration::from_secs(5)))?;
    io.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")?;
    let mut text = String::new();
    io.read_to_string(&mut text)?;
    Ok(text)
}

/// Asks without pause from several threads while `act` runs: no request may fail. Gives what `act` gives.
fn under_load<R>(addr: SocketAddr, act: impl FnOnce() -> R) -> R {
    let (stop, answered) = (AtomicBool::new(false), AtomicUsize::new(0));
    let failures = std::sync::Mutex::new(Vec::new());
    let out = std::thread::scope(|s| {
        for _ in 0..6 {
            s.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    match get(addr) {
                        Ok(text) if text.starts_with("HTTP/1.1 200") => {
                            answered.fetch_add(1, Ordering::Relaxed);
                        }
                        other => failures.lock().expect("a lock").push(format!("{other:?}")),
                    }
                }
            });
        }
        let _stop = StopOnDrop(&stop);
        act()
    });
    let failures = failures.into_inner().expect("a lock");
    assert!(
        failures.is_empty(),
        "{} failures: {:?}",
        failures.len(),
        failures.first()
    );
    assert!(answered.into_inner() > 20);
    out
}

struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The old process is one program, the new one another; the sockets stay the same.
fn hand_over(name: &str, old: &str, new: &str) {
    let site = Site::new(name);
    if new != SLUICE {
        // haproxy goes on with one socket; who waits in another when it is closed may be reset
        site.configure("  nbthread 1\n");
    }
    let mut first = site.start(old, &["-db"]);
    site.wait_for_pid("the start of the old process", |_| true);
    let before = site.inodes();
    let second = under_load(site.addr, || {
        let (socket, pid) = (site.socket(), first.pid().to_string());
        let second = site.start(new, &["-db", "-x", &socket.to_string_lossy(), "-sf", &pid]);
        site.wait_for_pid("the answer of the new process", |p| p == second.pid());
        assert_eq!(first.wait(), 0, "the old process leaves by itself");
        second
    });
    let after = site.inodes();
    let kept = before.iter().filter(|i| after.contains(i)).count();
    assert!(kept == before.len(), "{before:?} {after:?}");
    drop(second);
}

fn haproxy() -> Option<&'static str> {
    let found = Command::new("haproxy")
        .arg("-v")
        .stdout(Stdio::null())
        .status();
    if found.is_err() {
        eprintln!("SKIPPED: haproxy is not installed");
    }
    found.is_ok().then_some("haproxy")
}

#[test]
fn the_new_process_takes_the_old_ones_sockets() {
    hand_over("own", SLUICE, SLUICE);
}

#[test]
fn sluice_takes_over_from_haproxy() {
    if let Some(haproxy) = haproxy() {
        hand_over("from", haproxy, SLUICE);
    }
}

#[test]
fn haproxy_takes_over_from_sluice() {
    if let Some(haproxy) = haproxy() {
        hand_over("to", SLUICE, haproxy);
    }
}

#[test]
fn without_the_old_sockets_the_ports_are_shared() {
    let site = Site::new("shared");
    let mut first = site.start(SLUICE, &["-db"]);
    site.wait_for_pid("the start", |_| true);
    let before = site.inodes();
    let second = site.start(SLUICE, &["-db", "-sf", &first.pid().to_string()]);
    site.wait_for_pid("the answer of the new process", |p| p == second.pid());
    assert_eq!(first.wait(), 0);
    let after = site.inodes();
    assert!(after.len() == 2 && !after.iter().any(|i| before.contains(i)));
    assert!(get(site.addr).expect("an answer").ends_with("ok"));
}

/// Where ports cannot be shared, the old process is asked to pause, and goes on when the new one cannot start.
#[test]
fn a_paused_process_goes_on() {
    let site = Site::new("paused");
    site.configure("  noreuseport\n");
    let first = site.start(SLUICE, &["-db"]);
    site.wait_for_pid("the start", |_| true);
    signal(first.pid(), "TTOU");
    wait_until("the pause", || TcpStream::connect(site.addr).is_err());
    signal(first.pid(), "TTIN");
    wait_until("the end of the pause", || get(site.addr).is_ok());
    let mut second = site.start(SLUICE, &["-db", "-sf", &first.pid().to_string()]);
    site.wait_for_pid("the answer of the new process", |p| p == second.pid());
    drop(first);
    assert!(get(site.addr).expect("an answer").ends_with("ok"));
    signal(second.pid(), "USR1");
    assert_eq!(second.wait(), 0);
}

#[test]
fn one_who_gives_no_listeners_stops_the_start() {
    let site = Site::new("none");
    let mut alone = site.start(SLUICE, &["-db", "-x", "/nonexistent/socket"]);
    assert_eq!(alone.wait(), 1);
}

/// A master process with its pidfile and command socket.
struct Mastered {
    site: Site,
    process: Process,
}

impl Mastered {
    fn start(name: &str, extra: &str, more: &[&str]) -> Mastered {
        let site = Site::new(name);
        site.configure(extra);
        let (pidfile, socket) = (site.dir.join("pid"), site.dir.join("m.sock"));
        let (pidfile, socket) = (pidfile.to_string_lossy(), socket.to_string_lossy());
        let args = [&["-W", "-p", &pidfile, "-S", &socket], more].concat();
        let process = site.start(SLUICE, &args);
        let site_pid = |_| site.dir.join("pid").exists();
        site.wait_for_pid("the start of the worker", site_pid);
        let written = std::fs::read_to_string(site.dir.join("pid")).expect("a pidfile");
        assert_eq!(written.trim(), process.pid().to_string());
        Mastered { site, process }
    }
    fn command(&self, line: &str) -> String {
        ask(&self.site.dir.join("m.sock"), line).unwrap_or_default()
    }
    /// The worker that serves, by its own word.
    fn current(&self) -> u32 {
        let info = self.command("@1 show info");
        let pid = info.lines().find_map(|l| l.strip_prefix("Pid: "));
        pid.and_then(|p| p.parse().ok()).unwrap_or(0)
    }
    /// Process, kind and reloads of each line of `show proc`.
    fn processes(&self) -> Vec<String> {
        let text = self.command("show proc");
        let rows = text
            .lines()
            .filter(|l| !l.starts_with('#') && !l.is_empty());
        rows.map(|l| {
            l.split("  ")
                .filter(|w| !w.is_empty())
                .take(3)
                .map(str::trim)
                .collect::<Vec<_>>()
                .join(" ")
        })
        .collect()
    }
}

#[test]
fn a_master_replaces_its_worker_under_load() {
    let m = Mastered::start("master", "", &[]);
    let (first, before) = (m.current(), m.site.inodes());
    under_load(m.site.addr, || {
        signal(m.process.pid(), "USR2");
        wait_until("a new worker", || {
            m.processes().len() == 2 && m.current() != first
        });
        let second = m.current();
        assert_eq!(m.command("reload"), "Success=1\n\n");
        let third = m.current();
        assert!(third != second && third != first);
        wait_until("the end of the old workers", || m.processes().len() == 2);
        let master = m.process.pid();
        assert_eq!(
            m.processes(),
            [
                format!("{master} master 2 [failed: 0]"),
                format!("{third} worker 0")
            ]
        );
        m.site
            .wait_for_pid("the new worker at the socket", |p| p == third);
    });
    assert_eq!(m.site.inodes(), before);
}

#[test]
fn a_configuration_that_cannot_be_loaded_leaves_the_worker_alone() {
    let m = Mastered::start("broken", "", &[]);
    let worker = m.current();
    m.site.configure("  bogus\n");
    assert_eq!(m.command("reload"), "Success=0\n\n");
    assert!(get(m.site.addr).expect("an answer").ends_with("ok"));
    let master = m.process.pid();
    let expect = [
        format!("{master} master 1 [failed: 1]"),
        format!("{worker} worker 1"),
    ];
    assert_eq!(m.processes(), expect);
}

#[test]
fn a_master_leaves_as_it_is_told() {
    for (name, code) in [("TERM", 0), ("INT", 130), ("USR1", 0)] {
        let mut m = Mastered::start(&format!("leave-{name}"), "", &[]);
        signal(m.process.pid(), name);
        assert_eq!(m.process.wait(), code, "{name}");
        assert!(get(m.site.addr).is_err(), "{name}: nobody serves any more");
    }
}

#[test]
fn a_worker_that_falls_takes_its_master_along_unless_it_is_to_stay() {
    let mut m = Mastered::start("fall", "", &[]);
    signal(m.current(), "KILL");
    assert_eq!(m.process.wait(), 137);

    let m = Mastered::start("stay", "  master-worker no-exit-on-failure\n", &[]);
    let worker = m.current();
    signal(worker, "KILL");
    wait_until("the end of the worker", || m.processes().len() == 1);
    assert_eq!(m.command("reload"), "Success=1\n\n");
    m.site.wait_for_pid("a new worker", |p| p != worker);
}

#[test]
fn a_worker_does_not_outlive_its_master() {
    let mut m = Mastered::start("orphan", "", &[]);
    signal(m.process.pid(), "KILL");
    assert_eq!(m.process.wait(), -9);
    wait_until("the end of the worker", || get(m.site.addr).is_err());
}

#[test]
fn systemd_is_told() {
    let dir = Site::new("notify");
    let path = dir.dir.join("notify.sock");
    let told = std::os::unix::net::UnixDatagram::bind(&path).expect("a socket");
    told.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let child = Command::new(SLUICE)
        .args(["-Ws", "-f", &dir.config().to_string_lossy()])
        .env("NOTIFY_SOCKET", &path)
        .stderr(Stdio::null())
        .spawn();
    let master = Process(child.expect("it starts"));
    let next = || {
        let mut text = [0; 512];
        let n = told.recv(&mut text).expect("a message");
        String::from_utf8_lossy(&text[..n]).into_owned()
    };
    let ready = format!("READY=1\nMAINPID={}\nSTATUS=Ready.\n", master.pid());
    assert_eq!(next(), ready);
    signal(master.pid(), "HUP");
    assert!(next().starts_with("RELOADING=1\n"));
    assert_eq!(next(), ready);
}

#[test]
fn the_one_who_starts_a_daemon_waits_for_it() {
    let site = Site::new("daemon");
    let pidfile = site.dir.join("pid");
    for more in [&[][..], &["-W"]] {
        let path = pidfile.to_string_lossy();
        let args = [&["-D", "-p", &path], more].concat();
        let mut started = site.start(SLUICE, &args);
        assert_eq!(started.wait(), 0);
        let pid: u32 = std::fs::read_to_string(&pidfile)
            .ok()
            .and_then(|p| p.trim().parse().ok())
            .expect("a pidfile");
        assert!(get(site.addr).expect("an answer").ends_with("ok"));
        signal(pid, "TERM");
        wait_until("the end of the daemon", || get(site.addr).is_err());
    }
}

#[test]
fn a_session_is_ended_by_its_number() {
    let server = TcpListener::bind("127.0.0.1:0").expect("a port");
    let site = Site::new("session");
    let text = format!(
        "global\n  stats socket {} level admin\ndefaults\n  mode tcp\n  timeout client 20s\n  timeout server 20s\n  \
         timeout connect 1s\nlisten f\n  bind {}\n  server s {}\n",
        site.socket().display(),
        site.addr,
        server.local_addr().expect("an address")
    );
    std::fs::write(site.config(), text).expect("a configuration");
    let _process = site.start(SLUICE, &["-db"]);
    site.wait_for_pid("the start", |_| true);
    let mut client = TcpStream::connect(site.addr).expect("a connection");
    client.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let (mut far, _) = server.accept().expect("the other end");
    far.write_all(b"hello").expect("bytes are taken");
    let mut hello = [0; 5];
    client.read_exact(&mut hello).expect("bytes arrive");

    let list = site.command("show sess");
    let (id, rest) = list.split_once(':').expect("a session");
    assert!(rest.contains(" fe=f be=f srv=s "), "{list}");
    let all = site.command(&format!("show sess {id}"));
    assert!(all.contains("  server=s (id=1) addr=127.0.0.1:"), "{all}");
    assert_eq!(site.command(&format!("shutdown session {id}")), "\n");
    assert_eq!(client.read(&mut hello).unwrap_or(0), 0);
    wait_until("the end of the session", || {
        site.command("show sess") == "\n"
    });
}

#[test]
fn server_states_come_back_from_their_file() {
    let site = Site::new("states");
    let state = site.dir.join("state");
    let text = format!(
        "global\n  stats socket {} level admin\n  server-state-file {}\n\
         defaults\n  mode http\n  load-server-state-from-file global\n  timeout client 5s\n  timeout server 5s\n  \
         timeout connect 1s\nfrontend f\n  bind {}\nbackend b\n  server s1 127.0.0.1:1 weight 10\n  \
         server s2 127.0.0.1:2 disabled\n  server s3 127.0.0.1:3 track s4\n  \
         server s4 127.0.0.1:4 check inter 1h\n",
        site.socket().display(),
        state.display(),
        site.addr
    );
    std::fs::write(site.config(), text).expect("a configuration");
    // without the time since the change and what checks found
    let states = || -> Vec<String> {
        let text = site.command("show servers state b");
        let rows = text.lines().skip(2).filter(|l| !l.is_empty());
        rows.map(|l| l.split(' ').skip(3).take(6).collect::<Vec<_>>().join(" "))
            .collect()
    };
    let first = site.start(SLUICE, &["-db"]);
    site.wait_for_pid("the start", |_| true);
    for command in [
        "set server b/s1 weight 7",
        "set server b/s1 state drain",
        "enable server b/s2",
        "disable server b/s4",
    ] {
        assert_eq!(site.command(command), "\n", "{command}");
    }
    let before = states();
    let flags = |row: usize| before[row].split(' ').nth(3).expect("a column").to_owned();
    assert_eq!([0, 1, 2, 3].map(flags), ["8", "4", "2", "1"], "{before:?}");
    std::fs::write(&state, site.command("show servers state")).expect("a file");
    drop(first);
    let second = site.start(SLUICE, &["-db"]);
    site.wait_for_pid("the second start", |p| p == second.pid());
    assert_eq!(states(), before);
}
