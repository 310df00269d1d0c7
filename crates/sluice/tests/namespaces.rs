//! Sockets in other network namespaces, and signed segments: where the machine and its rights allow them; otherwise the
//! test says so and passes nothing.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(20);

fn ip(args: &[&str]) -> bool {
    let run = Command::new("ip").args(args).stderr(Stdio::null()).status();
    run.is_ok_and(|status| status.success())
}

/// A network namespace that goes away again.
struct Namespace(String);

impl Namespace {
    fn make() -> Option<Namespace> {
        let name = format!("sluice-{}", std::process::id());
        let made = ip(&["netns", "add", &name]).then_some(Namespace(name))?;
        ip(&["netns", "exec", &made.0, "ip", "link", "set", "lo", "up"]).then_some(made)
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        ip(&["netns", "del", &self.0]);
    }
}

struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        // it may be gone already
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("bound").port()
}

fn body(port: u16) -> String {
    let mut io = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    io.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    io.write_all(b"GET / HTTP/1.0\r\n\r\n").expect("sent");
    let mut answer = String::new();
    io.read_to_string(&mut answer).expect("an answer");
    answer
        .rsplit("\r\n\r\n")
        .next()
        .unwrap_or_default()
        .to_owned()
}

#[test]
fn sockets_are_made_where_their_lines_say() {
    let Some(namespace) = Namespace::make() else {
        eprintln!("network namespaces cannot be made here: the test is skipped");
        return;
    };
    let (name, dir) = (&namespace.0, std::env::temp_dir());
    let (both, there, signed, signing) = (port(), port(), port(), port());
    let cli = dir.join(format!("{name}.sock"));
    let config = dir.join(format!("{name}.cfg"));
    let answer = "http-request return status 200 content-type text/plain string";
    let text = format!(
        "global\n nbthread 1\n stats socket {}\n\
         defaults\n mode http\n timeout client 9s\n timeout server 9s\n timeout connect 9s\n\
         frontend inside\n bind 127.0.0.1:{both} namespace {name}\n {answer} inside\n\
         frontend outside\n bind 127.0.0.1:{both}\n {answer} outside\n\
         listen there\n bind 127.0.0.1:{there}\n server s 127.0.0.1:{both} namespace {name}\n\
         frontend signed\n bind 127.0.0.1:{signed} tcp-md5sig key\n {answer} signed\n\
         listen signing\n bind 127.0.0.1:{signing}\n server s 127.0.0.1:{signed} tcp-md5sig key\n",
        cli.display()
    );
    std::fs::write(&config, text).expect("a configuration");
    let child = Command::new(env!("CARGO_BIN_EXE_sluice"))
        .args(["-db", "-f"])
        .arg(&config)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut child = Ended(child);
    let until = Instant::now() + PATIENCE;
    while UnixStream::connect(&cli).is_err() {
        if child.0.try_wait().expect("its state").is_some() {
            let mut said = String::new();
            let err = child.0.stderr.take();
            err.map(|mut e| e.read_to_string(&mut said));
            assert!(said.contains(&format!("[127.0.0.1:{signed}]")), "{said}");
            eprintln!("this kernel signs no segments: the test is skipped\n{said}");
            return;
        }
        assert!(Instant::now() < until, "it does not listen");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(body(both), "outside");
    assert_eq!(body(there), "inside");
    assert_eq!(body(signing), "signed");
    let _ = std::fs::remove_file(config);
}
