//! The origin as clients see it, byte by byte.

use sluice_lab::origin::{self, Origin};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

fn origin() -> Origin {
    Origin::start(&origin::Options::default()).unwrap()
}

/// Sends the bytes, ends that direction, and gives all that comes back.
fn exchange(origin: &Origin, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(origin.addr()).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(10)))
        .unwrap();
    stream.write_all(request).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

fn check(request: &str, expect: &str) {
    let answer = exchange(&origin(), request.as_bytes());
    assert_eq!(answer, expect, "{request:?}");
}

const OK: &str = "HTTP/1.1 200 OK\r\n";
const END: &str = "Cache-Control: no-store\r\nConnection: close\r\n\r\n";
/// Of a compressible object, which has a type.
const TEXT_END: &str =
    "Cache-Control: no-store\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n";

#[test]
fn plain_answers() {
    check(
        "GET /0 HTTP/1.0\r\n\r\n",
        &format!("HTTP/1.1 204 No Content\r\n{END}"),
    );
    check(
        "GET /?s=3&c=text&chunked=2 HTTP/1.0\r\n\r\n",
        &format!("{OK}Transfer-Encoding: chunked\r\n{TEXT_END}2\r\n<p\r\n1\r\n>\r\n0\r\n\r\n"),
    );
    check(
        "GET /?s=3&c=text&nolen HTTP/1.1\r\n\r\n",
        &format!("{OK}{TEXT_END}<p>"),
    );
    check(
        "HEAD /?s=3 HTTP/1.0\r\n\r\n",
        &format!("{OK}Content-Length: 3\r\n{END}"),
    );
    check(
        "GET /head HTTP/1.0\r\nA: b\r\n\r\n",
        &format!("{OK}Content-Length: 28\r\n{END}GET /head HTTP/1.0\r\nA: b\r\n\r\n"),
    );
}

#[test]
fn bodies_are_counted_verified_and_echoed() {
    check(
        "POST /upload HTTP/1.0\r\nContent-Length: 5\r\n\r\nhello",
        &format!("{OK}Content-Length: 5\r\n{END}ok 5\n"),
    );
    check(
        "POST /echo HTTP/1.1\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
        &format!("{OK}Content-Length: 5\r\n{END}abcde"),
    );
    check(
        "POST /upload?seed=1 HTTP/1.0\r\nContent-Length: 5\r\n\r\nhello",
        &format!(
            "HTTP/1.1 422 Unprocessable Content\r\nContent-Length: 16\r\n{END}mismatch 5 at 0\n"
        ),
    );
    // An object with a body is answered after the body was read.
    check(
        "POST /?s=1&c=text HTTP/1.0\r\nContent-Length: 5\r\n\r\nhello",
        &format!("{OK}Content-Length: 1\r\n{TEXT_END}<"),
    );
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let one = |n| format!("GET /?s={n}&c=text HTTP/1.1\r\n\r\n");
    let last = "GET /?s=1&c=text HTTP/1.0\r\n\r\n".to_owned();
    let answer = exchange(&origin(), [one(2), one(3), last].concat().as_bytes());
    let lengths: Vec<_> = answer
        .lines()
        .filter_map(|line| line.strip_prefix("Content-Length: "))
        .collect();
    assert_eq!(lengths, ["2", "3", "1"]);
}

#[test]
fn a_request_in_single_bytes_is_one_request() {
    let origin = origin();
    let mut stream = TcpStream::connect(origin.addr()).unwrap();
    stream.set_nodelay(true).unwrap();
    for byte in b"POST /upload HTTP/1.1\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi" {
        stream.write_all(&[*byte]).unwrap();
    }
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.ends_with("\r\n\r\nok 2\n"), "{answer}");
}

#[test]
fn expectations_are_met_first() {
    let origin = origin();
    let mut stream = TcpStream::connect(origin.addr()).unwrap();
    stream
        .write_all(b"POST /upload HTTP/1.0\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n")
        .unwrap();
    let mut interim = [0; 25];
    stream.read_exact(&mut interim).unwrap();
    assert_eq!(&interim, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(b"hi").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.ends_with("ok 2\n"), "{answer}");
}

#[test]
fn waiting_and_slow_answers_take_their_time() {
    let origin = origin();
    let started = Instant::now();
    exchange(&origin, b"GET /?s=10&t=150 HTTP/1.0\r\n\r\n");
    assert!(started.elapsed() >= Duration::from_millis(150));
    let started = Instant::now();
    // The head and 1 KiB leave in pieces of 256 bytes, 40 ms apart: at least four pauses.
    let answer = exchange(
        &origin,
        b"GET /?s=1k&c=text&slow=40&piece=256 HTTP/1.0\r\n\r\n",
    );
    assert!(
        started.elapsed() >= Duration::from_millis(160),
        "{:?}",
        started.elapsed()
    );
    assert_eq!(answer.split_once("\r\n\r\n").unwrap().1.len(), 1024);
}

#[test]
fn nonsense_is_refused_and_the_others_go_on() {
    let origin = origin();
    for nonsense in [
        &b"\x16\x03\x01\x00\xff\r\n\r\n"[..],
        b"GET / HTTP/9\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
    ] {
        assert!(exchange(&origin, nonsense).starts_with("HTTP/1.1 400 "));
    }
    // An endless head is cut off, by an answer or by a reset.
    let mut stream = TcpStream::connect(origin.addr()).unwrap();
    let line = [b'a'; 4096];
    let refused = (0..1000).any(|_| stream.write_all(&line).is_err());
    assert!(refused || stream.read(&mut [0; 16]).is_ok_and(|n| n > 0));
    let _ = stream.shutdown(Shutdown::Both);
    assert!(exchange(&origin, b"GET /0 HTTP/1.0\r\n\r\n").starts_with("HTTP/1.1 204 "));
}

#[test]
fn files_are_served_from_below_the_root_only() {
    let dir = sluice_lab::process::WorkDir::new().unwrap();
    let root = dir.path().join("root");
    std::fs::create_dir(&root).unwrap();
    std::fs::write(root.join("a.txt"), vec![b'x'; 100_000]).unwrap();
    std::fs::write(dir.path().join("secret"), "secret").unwrap();
    let origin = Origin::start(&origin::Options {
        root: Some(root),
        ..origin::Options::default()
    })
    .unwrap();
    let body = |path: &str| {
        let answer = exchange(&origin, format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes());
        answer.split_once("\r\n\r\n").unwrap().1.to_owned()
    };
    assert_eq!(body("/a.txt").len(), 100_000);
    assert_eq!(body("/../secret"), "no such file\n");
    assert_eq!(body("/nothing?s=2&c=text"), "<p");
    assert_eq!(body("/nothing"), "no such file\n");
}

#[test]
fn many_servers_name_themselves() {
    let options = origin::Options {
        servers: 3,
        threads: 2,
        anonymous: false,
        ..origin::Options::default()
    };
    let origin = Origin::start(&options).unwrap();
    assert_eq!(origin.addrs.len(), 3);
    for addr in &origin.addrs {
        let mut stream = TcpStream::connect(addr).unwrap();
        stream.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(
            answer.contains(&format!("X-Server: {}\r\n", addr.port())),
            "{answer}"
        );
    }
}

#[test]
fn a_port_in_use_is_named() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = taken.local_addr().unwrap();
    let error = Origin::start(&origin::Options {
        listen,
        ..origin::Options::default()
    })
    .unwrap_err();
    let text = format!("{error:#}");
    let start = format!("cannot listen on {listen}: the port is in use");
    assert!(text.starts_with(&start), "{text}");
}

#[test]
fn what_cannot_be_read_is_refused_with_the_reason() {
    let answer = exchange(&origin(), b"GET /?s=12x HTTP/1.0\r\n\r\n");
    assert!(
        answer.starts_with("HTTP/1.1 400 Bad Request\r\n"),
        "{answer}"
    );
    assert!(
        answer.ends_with("'s=12x' cannot be read: give a size such as 64, 16k, 1m\n"),
        "{answer}"
    );
}

#[test]
fn switches_headers_and_types() {
    check(
        "GET /?status=404&cache=60&h=A:b&h=C:d%20e HTTP/1.0\r\n\r\n",
        "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nCache-Control: max-age=60\r\nConnection: close\r\nA: b\r\nC: d e\r\n\r\n",
    );
    check(
        "GET /?s=2&c=text&close=0&chunked=0 HTTP/1.0\r\n\r\n",
        &format!("{OK}Content-Length: 2\r\n{TEXT_END}<p"),
    );
    // The letters of httpterm.
    check(
        "GET /?r=503&k=1&c=1 HTTP/1.0\r\n\r\n",
        "HTTP/1.1 503 Service Unavailable\r\nTransfer-Encoding: chunked\r\nCache-Control: max-age=3600\r\nConnection: close\r\n\r\n0\r\n\r\n",
    );
}

#[test]
fn computing_takes_its_time() {
    let origin = origin();
    let started = Instant::now();
    exchange(&origin, b"GET /?busy=120ms HTTP/1.0\r\n\r\n");
    assert!(started.elapsed() >= Duration::from_millis(120));
}

#[test]
fn forty_servers_on_consecutive_ports() {
    const SERVERS: u16 = 40;
    // A block of free ports is found by trying.
    let block = (0..100u16).find_map(|n| {
        let listen = ([127, 0, 0, 1], 30_000 + n * SERVERS).into();
        let options = origin::Options {
            listen,
            servers: SERVERS,
            ..origin::Options::default()
        };
        Origin::start(&options).ok()
    });
    let origin = block.expect("no block of 40 free ports");
    let first = origin.addr().port();
    let ports: Vec<u16> = origin.addrs.iter().map(|addr| addr.port()).collect();
    assert_eq!(ports, (first..first + SERVERS).collect::<Vec<_>>());
    for addr in &origin.addrs {
        let mut stream = TcpStream::connect(addr).unwrap();
        stream.write_all(b"GET /0 HTTP/1.0\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 204 "), "{answer}");
    }
}

#[test]
fn impossible_options_are_named() {
    let check = |options: origin::Options, expect: &str| {
        let error = Origin::start(&options).unwrap_err();
        assert_eq!(format!("{error:#}"), expect);
    };
    check(
        origin::Options {
            listen: ([127, 0, 0, 1], 65_530).into(),
            servers: 40,
            ..origin::Options::default()
        },
        "40 servers from port 65530 on: the last port is 65535",
    );
    check(
        origin::Options {
            root: Some("/nowhere".into()),
            ..origin::Options::default()
        },
        "there is no folder /nowhere",
    );
}
