//! Servers behind a SOCKS4 proxy: traffic, PROXY headers and checks. Played on haproxy 2.6 too where it is installed.

mod support;

use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use support::daemon::Daemon;
use support::programs;

const PATIENCE: Duration = Duration::from_secs(20);

/// What a proxy is asked for 10.1.2.3:80.
const ASKED: &[u8] = b"\x04\x01\x00\x50\x0a\x01\x02\x03HAProxy\x00";

/// A SOCKS4 proxy that answers in pieces, and then is the server; it tells what it was asked, and what the server got.
fn proxy(answer: &'static [&'static [u8]]) -> (u16, Receiver<(Vec<u8>, String)>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("bound").port();
    let (tell, told) = channel();
    std::thread::spawn(move || {
        for io in listener.incoming().flatten() {
            let tell = tell.clone();
            std::thread::spawn(move || serve(io, answer, &tell));
        }
    });
    (port, told)
}

fn serve(mut io: std::net::TcpStream, answer: &[&[u8]], tell: &Sender<(Vec<u8>, String)>) {
    io.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let mut asked = vec![0; ASKED.len()];
    if io.read_exact(&mut asked).is_err() {
        return;
    }
    for piece in answer {
        io.write_all(piece).expect("answered");
        // so that the pieces arrive one by one; together they would do as well
        std::thread::sleep(Duration::from_millis(5));
    }
    let mut got = Vec::new();
    let mut buf = [0; 4096];
    while !got.ends_with(b"\r\n\r\n") {
        match io.read(&mut buf) {
            Ok(n) if n > 0 => got.extend_from_slice(&buf[..n]),
            _ => break,
        }
    }
    if !got.is_empty() {
        let _ = io.write_all(b"HTTP/1.0 200 OK\r\n\r\nthrough");
    }
    // nobody may listen any more
    let _ = tell.send((asked, String::from_utf8_lossy(&got).into_owned()));
}

fn ask(daemon: &Daemon, socket: &str) -> String {
    let mut io = UnixStream::connect(daemon.dir.join(socket)).expect("it listens");
    io.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    io.write_all(b"GET / HTTP/1.0\r\n\r\n").expect("asked");
    let mut text = String::new();
    io.read_to_string(&mut text).expect("an answer");
    text
}

const DEFAULTS: &str = "global\n nbthread 1\n stats socket DIR/sock level admin\ndefaults\n mode http\n retries 1\n timeout connect 9s\n timeout client 19s\n timeout server 19s\n";

#[test]
fn requests_go_through() {
    for program in programs() {
        let (port, told) = proxy(&[b"\x00", b"\x5a\x01\x02\x03\x04", b"\x05\x06"]);
        let text = format!(
            "{DEFAULTS}listen plain\n bind unix@DIR/plain\n server s 10.1.2.3:80 socks4 127.0.0.1:{port}\n\
             listen header\n bind unix@DIR/header\n server s 10.1.2.3:80 socks4 127.0.0.1:{port} send-proxy\n"
        );
        let daemon =
            Daemon::started(&program, Daemon::fresh_dir(), &text, "header").expect("it starts");
        for (socket, begins) in [
            ("plain", "GET / HTTP/1.0\r\n"),
            ("header", "PROXY UNKNOWN\r\nGET / "),
        ] {
            assert!(
                ask(&daemon, socket).ends_with("\r\n\r\nthrough"),
                "{program} {socket}"
            );
            let (asked, got) = told.recv_timeout(PATIENCE).expect("it was asked");
            assert_eq!(asked, ASKED, "{program} {socket}");
            assert!(got.starts_with(begins), "{program} {socket}: {got}");
        }
    }
}

#[test]
fn a_refusal_is_a_failed_connection() {
    for program in programs() {
        let log = UdpSocket::bind("127.0.0.1:0").expect("a port");
        log.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let (port, told) = proxy(&[b"\x00\x5b\x00\x00\x00\x00\x00\x00"]);
        let text = format!(
            "{DEFAULTS}listen l\n bind unix@DIR/l\n log 127.0.0.1:{} format raw local0\n option httplog\n server s 10.1.2.3:80 socks4 127.0.0.1:{port}\n",
            log.local_addr().expect("bound").port()
        );
        let daemon = Daemon::started(&program, Daemon::fresh_dir(), &text, "l").expect("it starts");
        assert!(ask(&daemon, "l").starts_with("HTTP/1.1 503 "), "{program}");
        for _ in 0..2 {
            let (asked, got) = told.recv_timeout(PATIENCE).expect("it was asked");
            assert_eq!((asked.as_slice(), got.as_str()), (ASKED, ""), "{program}");
        }
        let line = (0..).find_map(|_| {
            let mut buf = [0; 1024];
            let n = log.recv(&mut buf).expect("a line");
            let text = String::from_utf8_lossy(&buf[..n]).into_owned();
            text.contains("l/s ").then_some(text)
        });
        let line = line.expect("a line");
        assert!(
            line.contains(" 503 ") && line.contains(" SC-- ") && line.contains("/1 0/0 "),
            "{program}: {line}"
        );
    }
}

#[test]
fn checks_go_through_where_they_are_told_to() {
    for program in programs() {
        let (grants, told) = proxy(&[b"\x00\x5a\x00\x00\x00\x00\x00\x00"]);
        let (refuses, _refused) = proxy(&[b"\x00\x5b\x00\x00\x00\x00\x00\x00"]);
        let listens = TcpListener::bind("127.0.0.1:0").expect("a port");
        let here = listens.local_addr().expect("bound");
        let text = format!(
            "{DEFAULTS}listen l\n bind unix@DIR/l\n default-server inter 100ms rise 1 fall 1 check\n\
             server through 10.1.2.3:80 socks4 127.0.0.1:{grants} check-via-socks4\n\
             server refused 10.1.2.3:80 socks4 127.0.0.1:{refuses} check-via-socks4\n\
             server beside {here} socks4 127.0.0.1:{refuses}\n\
             listen steps\n bind unix@DIR/steps\n option tcp-check\n tcp-check connect via-socks4\n default-server inter 100ms rise 1 fall 1 check\n\
             server step 10.1.2.3:80 socks4 127.0.0.1:{refuses}\n"
        );
        let daemon =
            Daemon::started(&program, Daemon::fresh_dir(), &text, "steps").expect("it starts");
        let (asked, _) = told.recv_timeout(PATIENCE).expect("it is checked");
        assert_eq!(asked, ASKED, "{program}");
        // the last two say what `beside` would be if it went through its proxy
        for (name, status) in [
            ("through", "L4OK"),
            ("beside", "L4OK"),
            ("refused", "SOCKERR"),
            ("step", "SOCKERR"),
        ] {
            daemon.until(&format!("{program}: {name} is {status}"), |d| {
                let stat = d.ask("show stat");
                let row = stat.lines().find(|l| l.split(',').nth(1) == Some(name));
                row.is_some_and(|l| l.split(',').any(|field| field == status))
            });
        }
    }
}
