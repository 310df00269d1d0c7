//! Idle server connections: workers take them from each other, and no more are kept than are used at once.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How long anything may take before the test gives up.
const PATIENCE: Duration = Duration::from_secs(20);

/// An origin that counts its connections and answers every request on them.
fn origin() -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let addr = listener.local_addr().expect("bound");
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    std::thread::spawn(move || {
        for io in listener.incoming().map_while(Result::ok) {
            counted.fetch_add(1, Ordering::Relaxed);
            std::thread::spawn(move || answer(io));
        }
    });
    (addr, count)
}

fn answer(io: TcpStream) {
    let mut lines = BufReader::new(&io).lines();
    while let Some(Ok(line)) = lines.next() {
        if line.is_empty()
            && (&io)
                .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
                .is_err()
        {
            return;
        }
    }
}

struct Proxy {
    child: Child,
    dir: PathBuf,
}

impl Proxy {
    fn start(server: SocketAddr, reuse: &str, global: &str) -> Proxy {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let n = NUMBER.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("sluice-reuse-{}-{n}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a directory");
        let at = dir.display();
        let text = format!(
            "global\n nbthread 2\n stats socket {at}/cli level admin\n {global}\n\
             defaults\n mode http\n timeout client 9s\n timeout server 9s\n timeout connect 9s\n http-reuse {reuse}\n\
             listen l\n bind unix@{at}/l\n server s {server}\n"
        );
        std::fs::write(dir.join("cfg"), text).expect("a configuration");
        let child = Command::new(env!("CARGO_BIN_EXE_sluice"))
            .args(["-db", "-f"])
            .arg(dir.join("cfg"))
            .stdout(Stdio::null())
            .spawn()
            .expect("the program starts");
        let proxy = Proxy { child, dir };
        let until = Instant::now() + PATIENCE;
        while ["l", "cli"]
            .iter()
            .any(|socket| UnixStream::connect(proxy.dir.join(socket)).is_err())
        {
            assert!(Instant::now() < until, "it does not listen");
            std::thread::sleep(Duration::from_millis(5));
        }
        proxy
    }

    /// One request on a connection of its own.
    fn ask(&self) {
        let mut io = UnixStream::connect(self.dir.join("l")).expect("a connection");
        io.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        io.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            .expect("sent");
        let mut answer = String::new();
        io.read_to_string(&mut answer).expect("an answer");
        assert!(answer.ends_with("ok"), "{answer}");
    }

    fn command(&self, command: &str) -> String {
        let mut io = UnixStream::connect(self.dir.join("cli")).expect("a connection");
        io.write_all(format!("{command}\n").as_bytes())
            .expect("sent");
        let mut answer = String::new();
        io.read_to_string(&mut answer).expect("an answer");
        answer
    }

    /// The first number of a line of `show activity`, and each worker's.
    fn activity(&self, name: &str) -> (u64, Vec<u64>) {
        let text = self.command("show activity");
        let line = text
            .lines()
            .find_map(|l| l.strip_prefix(name)?.strip_prefix(": "));
        let mut numbers = line
            .unwrap_or_else(|| panic!("{text}"))
            .split(' ')
            .filter_map(|w| w.parse().ok());
        (numbers.next().expect("a sum"), numbers.collect())
    }

    /// Asks until both workers had several connections.
    fn ask_both_workers(&self) {
        let until = Instant::now() + PATIENCE;
        while self.activity("accepted").1.iter().any(|n| *n < 5) {
            assert!(Instant::now() < until, "one worker gets nothing");
            self.ask();
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // it may be gone already
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

#[test]
fn workers_share_idle_connections() {
    let (addr, connections) = origin();
    let proxy = Proxy::start(addr, "always", "");
    proxy.ask_both_workers();
    let (taken, _) = proxy.activity("fd_takeover");
    let made = connections.load(Ordering::Relaxed);
    assert!(taken > 0, "{made} connections were made");
    // a worker that took too long to answer is not waited for
    assert!(made <= 3, "{made} connections, {taken} taken over");
}

#[test]
fn sharing_can_be_turned_off() {
    let (addr, connections) = origin();
    let proxy = Proxy::start(addr, "always", "tune.idle-pool.shared off");
    proxy.ask_both_workers();
    assert_eq!(proxy.activity("fd_takeover").0, 0);
    assert_eq!(connections.load(Ordering::Relaxed), 2);
}

/// First requests make connections of their own with `safe`: those that nobody needs are not hoarded.
#[test]
fn no_more_are_kept_than_are_needed() {
    let (addr, connections) = origin();
    let proxy = Proxy::start(addr, "safe", "");
    proxy.ask_both_workers();
    // the connections that only looked whether it listens asked for nothing
    assert!(connections.load(Ordering::Relaxed) >= 5);
    let table = proxy.command("show servers conn");
    let row = table
        .lines()
        .find(|l| l.starts_with("l/s "))
        .expect("the server");
    let columns: Vec<&str> = row.split(' ').collect();
    assert_eq!(columns.len(), 15, "{table}");
    let idle: u32 = columns[12].parse().expect("a number");
    assert!(idle <= 3, "{table}");
}
