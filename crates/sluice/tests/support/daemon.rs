//! A proxy process with a directory of its own: the configuration, what it said on stderr, its sockets. Both are gone when
//! it is dropped.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The longest a proxy may take to start or to answer a command, on a machine that has other things to do.
const PATIENCE: Duration = Duration::from_secs(60);

/// Between two looks at something that is waited for.
const LOOK: Duration = Duration::from_millis(5);

/// The binary under test.
pub const SLUICE: &str = env!("CARGO_BIN_EXE_sluice");

/// A frontend that `started` may wait for: it listens when all the others do, and nobody else connects to it.
pub const READY: &str =
    "\ndefaults\n  mode http\n  timeout client 1s\nfrontend ready\n  bind unix@DIR/ready\n";

pub struct Daemon {
    child: Child,
    pub dir: PathBuf,
}

impl Daemon {
    /// A directory that nobody else has, for the files a configuration names.
    pub fn fresh_dir() -> PathBuf {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let n = NUMBER.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("sluice-test-{}-{n}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a directory");
        dir
    }

    /// Runs `program -db` on a configuration, in which `DIR` stands for the directory.
    pub fn run(program: impl AsRef<Path>, dir: PathBuf, configuration: &str) -> Daemon {
        let file = dir.join("cfg");
        let text = configuration.replace("DIR", dir.to_str().expect("a path"));
        std::fs::write(&file, text).expect("the configuration");
        let said = std::fs::File::create(dir.join("said")).expect("a file");
        let child = Command::new(program.as_ref())
            .arg("-db")
            .arg("-f")
            .arg(&file)
            .env("SLUICE_TABLE", "a value")
            .stdout(Stdio::null())
            .stderr(said)
            .spawn()
            .expect("the program starts");
        Daemon { child, dir }
    }

    /// Runs it until somebody listens on the socket of this name in the directory. `Err`: what it said instead.
    pub fn started(
        program: impl AsRef<Path>,
        dir: PathBuf,
        configuration: &str,
        socket: &str,
    ) -> Result<Daemon, String> {
        let mut daemon = Daemon::run(program, dir, configuration);
        let until = Instant::now() + PATIENCE;
        while UnixStream::connect(daemon.dir.join(socket)).is_err() {
            if daemon.has_ended() || Instant::now() > until {
                return Err(daemon.said());
            }
            std::thread::sleep(LOOK);
        }
        Ok(daemon)
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().is_ok_and(|status| status.is_some())
    }

    /// What it wrote to stderr.
    pub fn said(&self) -> String {
        std::fs::read_to_string(self.dir.join("said")).unwrap_or_default()
    }

    /// What its `stats socket DIR/sock` answers to a command.
    pub fn ask(&self, command: &str) -> String {
        let until = Instant::now() + PATIENCE;
        // it may listen a moment later than the frontends do
        let mut io = loop {
            match UnixStream::connect(self.dir.join("sock")) {
                Ok(io) => break io,
                Err(e) => assert!(Instant::now() < until, "no command socket: {e}"),
            }
            std::thread::sleep(LOOK);
        };
        io.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        io.write_all(format!("{command}\n").as_bytes())
            .expect("the command is sent");
        let mut out = String::new();
        let _ = io.read_to_string(&mut out);
        out
    }

    /// Waits until a condition holds.
    pub fn until(&self, what: &str, mut holds: impl FnMut(&Daemon) -> bool) {
        let until = Instant::now() + PATIENCE;
        while !holds(self) {
            assert!(Instant::now() < until, "{what}: {}", self.said());
            std::thread::sleep(LOOK);
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if !std::thread::panicking() {
            let _ = std::fs::remove_dir_all(&self.dir);
        }
    }
}

/// A port that was free a moment ago.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").port()
}
