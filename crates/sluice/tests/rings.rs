//! Log servers of `ring` sections: what is logged into a ring comes to them over TCP, also when they were away.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(20);

struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        // it may be gone already
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn accept(listener: &TcpListener) -> BufReader<TcpStream> {
    let (io, _) = listener.accept().expect("the proxy comes");
    io.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    BufReader::new(io)
}

#[test]
fn messages_come_framed_and_again() {
    let listener = || TcpListener::bind("127.0.0.1:0").expect("a port");
    let (plain, counted) = (listener(), listener());
    let port = |l: &TcpListener| l.local_addr().expect("bound").port();
    let dir = std::env::temp_dir().join(format!("sluice-rings-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a directory");
    let at = dir.display();
    let text = format!(
        "global\n nbthread 2\n\
         ring one\n format rfc3164\n size 32764\n server a 127.0.0.1:{}\n\
         ring two\n format raw\n size 32764\n server b 127.0.0.1:{} log-proto octet-count\n\
         defaults\n mode http\n timeout client 9s\n timeout server 9s\n timeout connect 9s\n\
         frontend f\n bind unix@{at}/f\n log ring@one local0\n log ring@two local0\n log-format %HU\n http-request return\n",
        port(&plain),
        port(&counted)
    );
    std::fs::write(dir.join("cfg"), text).expect("a configuration");
    let child = Command::new(env!("CARGO_BIN_EXE_sluice"))
        .args(["-db", "-f"])
        .arg(dir.join("cfg"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let _child = Ended(child.expect("the program starts"));
    let ask = |path: &str| {
        let until = Instant::now() + PATIENCE;
        let mut io = loop {
            match UnixStream::connect(dir.join("f")) {
                Ok(io) => break io,
                Err(e) => assert!(Instant::now() < until, "{e}"),
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        let request = format!("GET /{path} HTTP/1.0\r\n\r\n");
        io.write_all(request.as_bytes()).expect("sent");
        io.read_to_end(&mut Vec::new()).expect("an answer");
    };
    ask("1");
    let mut first = accept(&plain);
    let mut line = String::new();
    first.read_line(&mut line).expect("a message");
    assert!(
        line.starts_with("<134>") && line.ends_with(": /1\n"),
        "{line}"
    );

    let mut other = accept(&counted);
    let mut message = [0; 4];
    other.read_exact(&mut message).expect("a message");
    assert_eq!(&message, b"2 /1");

    // the one that left is found again, and the other goes on meanwhile
    drop(first);
    ask("two");
    other.read_exact(&mut message).expect("a message");
    assert_eq!(&message, b"4 /t");
    // what was written into the closed connection may be lost; what comes later is not
    let mut again = accept(&plain);
    ask("3");
    let mut line = String::new();
    while !line.ends_with(": /3\n") {
        line.clear();
        let n = again.read_line(&mut line).expect("a message");
        assert!(n > 0, "it left");
    }
    let _ = std::fs::remove_dir_all(&dir);
}
