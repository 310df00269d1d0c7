//! Backends that content switching passes by (`be-unpublished`, `unpublish backend`, `force-be-switch`; HAProxy 3.3), and
//! connections that are only used again under the same name (`pool-conn-name`).

mod support;

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use support::daemon::{Daemon, SLUICE};

const PATIENCE: Duration = Duration::from_secs(20);

const DEFAULTS: &str = "global\n nbthread 1\n stats socket DIR/sock level admin\ndefaults\n mode http\n timeout connect 9s\n timeout client 19s\n timeout server 19s\n";

/// The status and the body of the answer to a request on a connection of its own.
fn ask(daemon: &Daemon, socket: &str, path: &str, headers: &str) -> String {
    let mut io = UnixStream::connect(daemon.dir.join(socket)).expect("it listens");
    io.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    write!(
        io,
        "GET {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n{headers}\r\n"
    )
    .expect("asked");
    let mut text = String::new();
    io.read_to_string(&mut text).expect("an answer");
    let status = text.split(' ').nth(1).unwrap_or_default();
    let body = text.split("\r\n\r\n").nth(1).unwrap_or_default();
    match status {
        "200" => body.to_owned(),
        other => other.to_owned(),
    }
}

#[test]
fn unpublished_backends_are_passed_by() {
    let text = format!(
        "{DEFAULTS}frontend f\n bind unix@DIR/f\n force-be-switch if {{ req.hdr(x) force }}\n use_backend a if {{ path /a }}\n use_backend %[path,field(2,/)] if {{ path_beg /a /u }}\n \
         default_backend c\nfrontend g\n bind unix@DIR/g\n default_backend u\n\
         backend a\n http-request return string a content-type text/plain\n\
         backend c\n http-request return string c content-type text/plain\n\
         backend u\n be-unpublished\n http-request return string u content-type text/plain\n"
    );
    let daemon = Daemon::started(SLUICE, Daemon::fresh_dir(), &text, "g").expect("it starts");
    let check = |socket: &str, path: &str, headers: &str, expect: &str| {
        assert_eq!(
            ask(&daemon, socket, path, headers),
            expect,
            "{socket} {path} {headers}"
        );
    };
    check("f", "/a", "", "a");
    check("f", "/u", "", "c");
    check("f", "/u", "X: force\r\n", "u");
    // nothing is left for this frontend
    check("g", "/", "", "503");

    assert_eq!(daemon.ask("publish backend u").trim(), "Backend published.");
    assert_eq!(
        daemon.ask("unpublish backend a").trim(),
        "Backend unpublished."
    );
    check("f", "/a", "", "c");
    check("f", "/a", "X: force\r\n", "a");
    check("f", "/u", "", "u");
    check("g", "/", "", "u");
    assert_eq!(daemon.ask("publish backend f").trim(), "No such backend.");
}

#[test]
fn connections_are_used_again_under_their_name() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let addr = listener.local_addr().expect("bound");
    std::thread::spawn(move || {
        for (n, io) in listener.incoming().map_while(Result::ok).enumerate() {
            std::thread::spawn(move || {
                let mut lines = std::io::BufRead::lines(std::io::BufReader::new(&io));
                while let Some(Ok(line)) = lines.next() {
                    let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n{n}");
                    if line.is_empty() && (&io).write_all(answer.as_bytes()).is_err() {
                        return;
                    }
                }
            });
        }
    });
    let text = format!(
        "{DEFAULTS}listen l\n bind unix@DIR/l\n http-reuse always\n server s {addr} pool-low-conn 9 pool-conn-name req.hdr(x)\n"
    );
    // the first of all listeners is the one that is waited for, so that no other connection is made
    let daemon = Daemon::started(SLUICE, Daemon::fresh_dir(), &text, "sock").expect("it starts");
    daemon.until("it listens", |d| d.dir.join("l").exists());
    let name = |x: &str| ask(&daemon, "l", "/", &format!("X: {x}\r\n"));
    let (a, b) = (name("a"), name("b"));
    assert_ne!(a, b);
    for _ in 0..3 {
        assert_eq!((name("a"), name("b")), (a.clone(), b.clone()));
    }
    assert_ne!(ask(&daemon, "l", "/", ""), a);
}
