//! The same configuration and the same bytes, played against Sluice and Debian's haproxy: status lines, headers, bodies
//! and the fate of the connection must be the same, but for the differences listed in `INTENDED` with their reasons.
//!
//! Without `haproxy` on the machine the test says so and passes nothing.

mod support;

use std::path::Path;

use support::daemon::{Daemon, READY, SLUICE, free_port};
use support::find;
use support::http::{Origin, exchange};

/// The frontends, each with its rules; `{addr}` is filled in, `{origin}` is the server behind them.
const CONFIG: &str = include_str!("differential.cfg");

/// Name of the frontend, what is sent.
const EXCHANGES: &[(&str, &[u8])] = &[
    ("plain", b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("plain", b"GET / HTTP/1.0\r\n\r\n"),
    ("plain", b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"),
    ("plain", b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"),
    ("plain", b"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("plain", b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello"),
    ("plain", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"),
    ("plain", b"GET /a HTTP/1.1\r\nHost: a\r\n\r\nGET /b HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("plain", b"GET http://a/x HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("plain", b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("plain", b"\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"),
    // what must be refused
    ("plain", b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx"),
    ("plain", b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\nx"),
    ("plain", b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: \r\n\r\n"),
    ("plain", b"GET / HTTP/1.1\r\nHost : a\r\n\r\n"),
    ("plain", b"GET / HTTP/1.1\r\nHost: a\r\nX\r\n\r\n"),
    ("plain", b"GET / HTTP/1.1\r\nHost: a\r\n: x\r\n\r\n"),
    ("plain", b"GET / HTTP/1.1\r\nHost: a\r\nX: a\0b\r\n\r\n"),
    ("plain", b"GE(T / HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("plain", b"GET /\x01 HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("plain", b"GET / HTTP/2.0\r\nHost: a\r\n\r\n"),
    ("plain", b"GET / HTTX/1.1\r\nHost: a\r\n\r\n"),
    ("plain", b"GET /\r\n\r\n"),
    ("plain", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n"),
    ("plain", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"),
    ("plain", b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"),
    ("plain", b"GET http://b/x HTTP/1.1\r\nHost: a\r\n\r\n"),
    // rules
    ("rules", b"GET /deny HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("rules", b"GET /deny429 HTTP/1.1\r\nHost: a\r\n\r\nGET /deny HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("rules", b"GET /return HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("rules", b"HEAD /return HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("rules", b"GET /errorfile HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("rules", b"GET /loc?q=1 HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("rules", b"GET /prefix?q=1 HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("rules", b"GET /dropq?q=1 HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("rules", b"GET /slash?q=1 HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("rules", b"GET /scheme?q=1 HTTP/1.1\r\nHost: www.example.com:81\r\n\r\n"),
    ("rules", b"GET /cookie HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("rules", b"GET /auth HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("rules", b"GET /auth HTTP/1.1\r\nHost: a\r\nAuthorization: Basic am9lOnB3\r\n\r\n"),
    ("rules", b"GET /hdrs HTTP/1.1\r\nHost: a\r\nX-A: 1, 2\r\nX-A: 3\r\nX-Del: 9\r\nX-Rep: foo bar\r\nX-Val: a, b, c\r\n\r\n"),
    ("rules", b"GET /path/old?x=1 HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("rules", b"GET /a//b/./c/../d?b=2&a=1 HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("rules", b"POST /deny HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello"),
    ("rules", b"GET /reject HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("rules", b"GET /monitor HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("forward", b"GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 10.0.0.1\r\n\r\n"),
    ("close", b"GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("srvclose", b"GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("down", b"GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("cookies", b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("cookies", b"GET / HTTP/1.1\r\nHost: a\r\nCookie: a=1; SRV=one; b=2\r\n\r\n"),
    ("cookies", b"GET / HTTP/1.1\r\nHost: a\r\nCookie: SRV=other\r\n\r\n"),
    // servers that misbehave
    ("plain", b"GET /origin/junk HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("plain", b"GET /origin/close HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("plain", b"GET /origin/cut HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("plain", b"GET /origin/silent HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("plain", b"GET /origin/nolen HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("plain", b"GET /origin/nolen HTTP/1.0\r\n\r\n"),
    ("plain", b"GET /origin/chunked HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("plain", b"GET /origin/chunked HTTP/1.0\r\n\r\n"),
    ("plain", b"GET /origin/204 HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("plain", b"GET /origin/304 HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("plain", b"GET /origin/twolen HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("plain", b"GET /origin/100 HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("plain", b"GET /origin/space HTTP/1.1\r\nHost: a\r\n\r\n"),
];

/// Exchanges whose outcome differs on purpose.
const INTENDED: &[(&[u8], &str)] = &[
    (
        b"GET / HTTP/1.1\r\nHost: a\r\nX: a\0b\r\n\r\n",
        "2.6 forwards a NUL in a header's value, later versions and RFC 9110 refuse it",
    ),
    (
        b"GET /errorfile HTTP/1.1\r\nHost: a\r\n\r\n",
        "an errorfile without Content-Length gets one, so that the connection can stay",
    ),
    (
        b"GET /origin/chunked HTTP/1.0\r\n\r\n",
        "chunks are not for HTTP/1.0 (RFC 9112 section 6.1): the framing is taken off",
    ),
];

/// How often an exchange is played before a difference is believed.
const TRIES: usize = 3;

#[test]
fn sluice_answers_as_haproxy_does() {
    let Some(haproxy) = find("haproxy") else {
        eprintln!("haproxy is not installed: the differential test is skipped");
        return;
    };
    let origin = Origin::start();
    let theirs = Proxy::start(&haproxy, &origin);
    let ours = Proxy::start(Path::new(SLUICE), &origin);
    let compare = |(frontend, bytes): &(&str, &[u8])| {
        // that a connection stays open shows in time only: on a busy machine either side may look so
        let (mut want, mut got) = (String::new(), String::new());
        for _ in 0..TRIES {
            (want, got) = (theirs.play(frontend, bytes), ours.play(frontend, bytes));
            if want == got {
                break;
            }
        }
        (want != got).then(|| {
            format!(
                "{frontend}: {}\n--- haproxy\n{want}\n--- sluice\n{got}\n",
                bytes.escape_ascii()
            )
        })
    };
    let todo: Vec<_> = EXCHANGES
        .iter()
        .filter(|(_, bytes)| !INTENDED.iter().any(|(b, _)| b == bytes))
        .collect();
    // most of the time is spent waiting to see that a connection stays open: several at once
    let wrong: Vec<String> = std::thread::scope(|scope| {
        let parts: Vec<_> = todo
            .chunks(8)
            .map(|part| scope.spawn(|| part.iter().filter_map(|e| compare(e)).collect::<Vec<_>>()))
            .collect();
        parts.into_iter().flat_map(|p| p.join().unwrap()).collect()
    });
    assert!(
        wrong.is_empty(),
        "{} of {} exchanges differ\n\n{}",
        wrong.len(),
        EXCHANGES.len(),
        wrong.join("\n")
    );
}

/// A proxy on ports of its own.
struct Proxy {
    _daemon: Daemon,
    ports: Vec<(String, u16)>,
}

impl Proxy {
    fn start(program: &Path, origin: &Origin) -> Proxy {
        let dir = Daemon::fresh_dir();
        std::fs::write(
            dir.join("503.http"),
            "HTTP/1.1 503 Nope\r\nContent-Type: text/x\r\nX-File: 1\r\n\r\nout\n",
        )
        .unwrap();
        let mut text = CONFIG
            .replace("{origin}", &format!("127.0.0.1:{}", origin.port))
            .replace("{dir}", "DIR");
        let mut ports = Vec::new();
        while let Some(at) = text.find("{addr:") {
            let end = at + text[at..].find('}').unwrap();
            let name = text[at + 6..end].to_string();
            let port = free_port();
            text.replace_range(at..=end, &format!("127.0.0.1:{port}"));
            ports.push((name, port));
        }
        let daemon = Daemon::started(program, dir, &(text + READY), "ready");
        let _daemon = daemon.unwrap_or_else(|said| panic!("{program:?} does not start: {said}"));
        Proxy { _daemon, ports }
    }

    /// Sends the bytes and describes what came back.
    fn play(&self, frontend: &str, bytes: &[u8]) -> String {
        let port = self.ports.iter().find(|(n, _)| n == frontend).unwrap().1;
        exchange(port, bytes)
    }
}
