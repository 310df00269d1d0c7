//! The same configuration and the same bytes, played against Sluice and Debian's haproxy: status lines, headers, bodies
//! and the fate of the connection must be the same, but for the differences listed in `INTENDED` with their reasons.
//!
//! Without `haproxy` on the machine the test says so and passes nothing.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

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
    let sluice = PathBuf::from(env!("CARGO_BIN_EXE_sluice"));
    let origin = Origin::start();
    let theirs = Proxy::start(&haproxy, &origin);
    let ours = Proxy::start(&sluice, &origin);
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

fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
    path.split(':')
        .map(|d| Path::new(d).join(program))
        .find(|p| p.is_file())
}

/// A proxy on ports of its own.
struct Proxy {
    child: Child,
    ports: Vec<(String, u16)>,
    dir: PathBuf,
}

impl Proxy {
    fn start(program: &Path, origin: &Origin) -> Proxy {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let n = NUMBER.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("sluice-diff-{}-{n}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(
            dir.join("503.http"),
            "HTTP/1.1 503 Nope\r\nContent-Type: text/x\r\nX-File: 1\r\n\r\nout\n",
        )
        .unwrap();
        let mut text = CONFIG
            .replace("{origin}", &format!("127.0.0.1:{}", origin.port))
            .replace("{dir}", dir.to_str().unwrap());
        let mut ports = Vec::new();
        while let Some(at) = text.find("{addr:") {
            let end = at + text[at..].find('}').unwrap();
            let name = text[at + 6..end].to_string();
            let port = free_port();
            text.replace_range(at..=end, &format!("127.0.0.1:{port}"));
            ports.push((name, port));
        }
        let file = dir.join("cfg");
        std::fs::write(&file, text).unwrap();
        let log = std::fs::File::create(dir.join("log")).unwrap();
        let child = Command::new(program)
            .arg("-db")
            .arg("-f")
            .arg(&file)
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        let p = Proxy { child, ports, dir };
        let until = Instant::now() + Duration::from_secs(10);
        for (_, port) in &p.ports {
            while TcpStream::connect(("127.0.0.1", *port)).is_err() {
                let log = || std::fs::read_to_string(p.dir.join("log")).unwrap_or_default();
                assert!(
                    Instant::now() < until,
                    "{program:?} does not listen: {}",
                    log()
                );
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        p
    }

    /// Sends the bytes and describes what came back.
    fn play(&self, frontend: &str, bytes: &[u8]) -> String {
        let port = self.ports.iter().find(|(n, _)| n == frontend).unwrap().1;
        let mut io = TcpStream::connect(("127.0.0.1", port)).unwrap();
        io.set_read_timeout(Some(Duration::from_millis(700)))
            .unwrap();
        io.write_all(bytes).unwrap();
        let mut got = Vec::new();
        let mut chunk = [0; 65536];
        let fate = loop {
            match io.read(&mut chunk) {
                Ok(0) => break "closed",
                Ok(n) => got.extend_from_slice(&chunk[..n]),
                Err(e)
                    if matches!(
                        e.kind(),
                        std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut
                    ) =>
                {
                    break "open";
                }
                Err(_) => break "reset",
            }
        };
        // a close and a reset after the answer look the same to a client that has it
        let fate = if fate == "reset" && !got.is_empty() {
            "closed"
        } else {
            fate
        };
        format!("{}[{fate}]", describe(&got))
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}

/// Heads with their headers in lower case and sorted, bodies as they are.
fn describe(mut bytes: &[u8]) -> String {
    let mut out = String::new();
    while let Some(end) = bytes.windows(4).position(|w| w == b"\r\n\r\n") {
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let mut lines = head.split("\r\n");
        out.push_str(lines.next().unwrap_or_default());
        out.push('\n');
        let mut headers: Vec<String> = lines
            .map(|l| {
                l.split_once(':').map_or(l.to_string(), |(n, v)| {
                    format!("{}:{}", n.to_ascii_lowercase(), v.trim())
                })
            })
            .collect();
        headers.sort();
        let length = headers
            .iter()
            .find_map(|h| h.strip_prefix("content-length:")?.parse::<usize>().ok());
        for h in headers {
            out.push_str(&h);
            out.push('\n');
        }
        bytes = &bytes[end + 4..];
        let body = length.unwrap_or(0).min(bytes.len());
        // an answer to HEAD is followed by the next head, not by the body it announces
        let body = if bytes.starts_with(b"HTTP/1.") {
            0
        } else {
            body
        };
        out.push_str(&format!("{}\n", bytes[..body].escape_ascii()));
        bytes = &bytes[body..];
    }
    out.push_str(&bytes.escape_ascii().to_string());
    out
}

/// The server behind the proxies: echoes the request's head, or misbehaves as the path asks.
struct Origin {
    port: u16,
}

impl Origin {
    fn start() -> Origin {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            for io in listener.incoming().flatten() {
                std::thread::spawn(move || serve(io));
            }
        });
        Origin { port }
    }
}

fn serve(mut io: TcpStream) {
    let mut buf = Vec::new();
    let mut chunk = [0; 65536];
    loop {
        let end = loop {
            if let Some(at) = buf.windows(4).position(|w| w == b"\r\n\r\n") {
                break at + 4;
            }
            match io.read(&mut chunk) {
                Ok(n) if n > 0 => buf.extend_from_slice(&chunk[..n]),
                _ => return,
            }
        };
        let head: Vec<u8> = buf.drain(..end).collect();
        let text = String::from_utf8_lossy(&head).to_ascii_lowercase();
        let length = text
            .split("\r\n")
            .find_map(|l| {
                l.strip_prefix("content-length:")?
                    .trim()
                    .parse::<usize>()
                    .ok()
            })
            .unwrap_or(0);
        let chunked = text.contains("transfer-encoding: chunked");
        while buf.len() < length || (chunked && !buf.ends_with(b"0\r\n\r\n")) {
            match io.read(&mut chunk) {
                Ok(n) if n > 0 => buf.extend_from_slice(&chunk[..n]),
                _ => return,
            }
        }
        let body: Vec<u8> = if chunked {
            std::mem::take(&mut buf)
        } else {
            buf.drain(..length).collect()
        };
        let path = text.split(' ').nth(1).unwrap_or("").to_string();
        let fixed: Option<&[u8]> = match path.as_str() {
            "/origin/junk" => Some(b"hello\r\n\r\n"),
            "/origin/close" => Some(b""),
            "/origin/cut" => Some(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc"),
            "/origin/nolen" => Some(b"HTTP/1.1 200 OK\r\n\r\nabc"),
            "/origin/twolen" => {
                Some(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab")
            }
            "/origin/space" => Some(b"HTTP/1.1 200 OK\r\nX : 1\r\nContent-Length: 0\r\n\r\n"),
            _ => None,
        };
        if let Some(answer) = fixed {
            let _ = io.write_all(answer);
            return;
        }
        let answer: Vec<u8> = match path.as_str() {
            "/origin/silent" => {
                // longer than the proxies' `timeout server`
                let _ = io.read(&mut chunk);
                return;
            }
            "/origin/chunked" => {
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
                    .to_vec()
            }
            "/origin/204" => b"HTTP/1.1 204 No Content\r\n\r\n".to_vec(),
            "/origin/304" => b"HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n\r\n".to_vec(),
            "/origin/100" => {
                b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
                    .to_vec()
            }
            _ => {
                let mut lines: Vec<String> =
                    text.trim_end().split("\r\n").map(String::from).collect();
                lines[1..].sort();
                // addresses and ports differ between the two proxies
                let seen = lines.join("|")
                    + "|"
                    + &String::from_utf8_lossy(&body).escape_debug().to_string();
                let set_cookie = if path.starts_with("/setcookie") {
                    "Set-Cookie: app=1\r\n"
                } else {
                    ""
                };
                let mut a = format!(
                    "HTTP/1.1 200 OK\r\n{set_cookie}Content-Length: {}\r\n\r\n",
                    seen.len()
                )
                .into_bytes();
                if !text.starts_with("head") {
                    a.extend_from_slice(seen.as_bytes());
                }
                a
            }
        };
        if io.write_all(&answer).is_err() || text.contains("connection: close") {
            return;
        }
    }
}
