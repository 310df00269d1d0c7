//! `log-forward` sections: what comes in as datagrams and over connections goes out in each target's format. Played on
//! haproxy 2.6 too where it is installed.

mod support;

use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::time::{Duration, Instant};

use support::daemon::{Daemon, SLUICE};
use support::programs;

const PATIENCE: Duration = Duration::from_secs(20);

/// A log server, and the port it is at.
fn server() -> (UdpSocket, u16) {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let port = socket.local_addr().expect("bound").port();
    (socket, port)
}

/// The next message of a server, with times of today replaced.
fn next(server: &UdpSocket) -> String {
    let mut buf = [0; 4096];
    let n = server
        .recv(&mut buf)
        .unwrap_or_else(|e| panic!("no message within {PATIENCE:?}: {e}"));
    without_now(&String::from_utf8_lossy(&buf[..n]))
}

/// The clock's own times, which no message of these tests has: `NOW`.
fn without_now(text: &str) -> String {
    if text.contains("10:11:12") {
        return text.to_owned();
    }
    let digits: String = text
        .chars()
        .map(|c| if c.is_ascii_digit() { '9' } else { c })
        .collect();
    let iso = digits.find("9999-99-99T99:99:99.999999+");
    let bsd = digits.find(":99:99 ").and_then(|at| at.checked_sub(9));
    match (iso, bsd) {
        (Some(at), _) => format!("{}NOW{}", &text[..at], &text[at + 32..]),
        (None, Some(at)) => format!("{}NOW{}", &text[..at], &text[at + 15..]),
        _ => text.to_owned(),
    }
}

/// A port that is free for datagrams and for connections.
fn free_port() -> u16 {
    let found = (0..100).find_map(|_| {
        let (socket, port) = server();
        let listener = std::net::TcpListener::bind(("127.0.0.1", port)).ok()?;
        drop((socket, listener));
        Some(port)
    });
    found.expect("a port")
}

/// Programs to play with: ours, and haproxy where it is installed.
struct Played {
    servers: Vec<UdpSocket>,
    port: u16,
    daemon: Daemon,
}

/// Runs a section; `TARGETn` are log servers, `PORT` is where it takes messages. Returns when messages pass.
fn play(program: &str, section: &str, targets: usize) -> Played {
    let (servers, ports): (Vec<_>, Vec<_>) = (0..targets).map(|_| server()).unzip();
    let port = free_port();
    let mut text = format!("global\n nbthread 1\nlog-forward lf\n{section}\n")
        .replace("PORT", &port.to_string());
    for (i, port) in ports.iter().enumerate() {
        text = text.replace(&format!("TARGET{i} "), &format!("127.0.0.1:{port} "));
    }
    let daemon = Daemon::run(program, Daemon::fresh_dir(), &text);
    // each server hears of it, and of nothing before
    let until = Instant::now() + PATIENCE;
    let probe = UdpSocket::bind("127.0.0.1:0").expect("a port");
    for server in &servers {
        server
            .set_read_timeout(Some(Duration::from_millis(50)))
            .expect("a timeout");
        let mut buf = [0; 64];
        while server.recv(&mut buf).is_err() {
            assert!(
                Instant::now() < until,
                "{program} passes no message of\n{text}"
            );
            // nobody may listen yet
            let _ = probe.send_to(b"<0>probe", ("127.0.0.1", port));
        }
    }
    let _ = probe.send_to(b"<0>begin", ("127.0.0.1", port));
    for server in &servers {
        server.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        while !next(server).ends_with("begin\n") {}
    }
    Played {
        servers,
        port,
        daemon,
    }
}

/// Each message, and what targets without a format and with rfc3164, rfc5424, timed and local get.
const DATAGRAMS: &[(&str, [&str; 5])] = &[
    (
        "<13>Nov  1 10:11:12 host app[123]: text",
        [
            "<13>Nov  1 10:11:12 host app[123]: text",
            "<13>Nov  1 10:11:12 host app[123]: text",
            "<13>1 YEAR-11-01T10:11:12-00:00 host app 123 - - text",
            "<5>YEAR-11-01T10:11:12-00:00 text",
            "<13>Nov  1 10:11:12 app[123]: text",
        ],
    ),
    (
        "<165>1 2022-11-01T10:11:12.5+02:00 host app - m [a@1 b=\"c d\" e=\"\\]x\"][z@2] text",
        [
            "<165>1 2022-11-01T10:11:12.5+02:00 host app - m [a@1 b=\"c d\" e=\"\\]x\"][z@2] text",
            "<165>Nov  1 10:11:12 host app: text",
            "<165>1 2022-11-01T10:11:12.5+02:00 host app - m [a@1 b=\"c d\" e=\"\\]x\"][z@2] text",
            "<5>2022-11-01T10:11:12.5+02:00 text",
            "<165>Nov  1 10:11:12 app: text",
        ],
    ),
    (
        "no priority",
        [
            "no priority",
            "<152>NOW localhost no priority",
            "<152>1 NOW - - - - - no priority",
            "<0>NOW no priority",
            "<152>NOW no priority",
        ],
    ),
    (
        "<13>only one",
        [
            "<13>only one",
            "<13>NOW localhost only one",
            "<13>1 NOW - - - - - only one",
            "<5>NOW only one",
            "<13>NOW only one",
        ],
    ),
    (
        "<13>1 - - a p m - no host",
        [
            "<13>NOW a[p]: no host",
            "<13>NOW localhost a[p]: no host",
            "<13>1 - - a p m - no host",
            "<5>NOW no host",
            "<13>NOW a[p]: no host",
        ],
    ),
    (
        "<13>1 - - - - - - bare\n\0",
        [
            "<13>bare",
            "<13>NOW localhost bare",
            "<13>1 - - - - - - bare",
            "<5>NOW bare",
            "<13>NOW bare",
        ],
    ),
    (
        "<13>Nov  1 10:11:12 host app[1 2]: no tag",
        [
            "<13>Nov  1 10:11:12 host app[1 2]: no tag",
            "<13>Nov  1 10:11:12 host app[1 2]: no tag",
            "<13>1 YEAR-11-01T10:11:12-00:00 host - - - - app[1 2]: no tag",
            "<5>YEAR-11-01T10:11:12-00:00 app[1 2]: no tag",
            "<13>Nov  1 10:11:12 app[1 2]: no tag",
        ],
    ),
    (
        "<999>far too much",
        [
            "<999>far too much",
            "<999>NOW localhost far too much",
            "<999>1 NOW - - - - - far too much",
            "<7>NOW far too much",
            "<999>NOW far too much",
        ],
    ),
];

#[test]
fn datagrams_are_sent_on_in_each_format() {
    for program in programs() {
        let section = " dgram-bind 127.0.0.1:PORT\n log TARGET0 local3\n log TARGET1 format rfc3164 local3\n \
                       log TARGET2 format rfc5424 local3\n log TARGET3 format timed local3\n log TARGET4 format local local3";
        let played = play(&program, section, 5);
        let sender = UdpSocket::bind("127.0.0.1:0").expect("a port");
        for (message, expect) in DATAGRAMS {
            sender
                .send_to(message.as_bytes(), ("127.0.0.1", played.port))
                .expect("sent");
            for (server, expect) in played.servers.iter().zip(expect) {
                let got = next(server);
                // messages of RFC 3164 have no year
                let got = match expect.split_once("YEAR") {
                    Some((before, _)) => format!("{before}YEAR{}", &got[before.len() + 4..]),
                    None => got,
                };
                assert_eq!(got, format!("{expect}\n"), "{program}: {message}");
            }
        }
    }
}

#[test]
fn levels_lengths_and_samples_choose() {
    for program in programs() {
        let section = " dgram-bind 127.0.0.1:PORT\n log TARGET0 local3 err\n log TARGET1 len 80 local3 debug warning";
        let played = play(&program, section, 2);
        let sender = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let long = format!("<6>{}", "x".repeat(100));
        for message in ["<4>warning", "<3>error", &long] {
            sender
                .send_to(message.as_bytes(), ("127.0.0.1", played.port))
                .expect("sent");
        }
        assert_eq!(next(&played.servers[0]), "<3>error\n", "{program}");
        assert_eq!(next(&played.servers[1]), "<4>warning\n", "{program}");
        assert_eq!(next(&played.servers[1]), "<4>error\n", "{program}");
        assert_eq!(
            next(&played.servers[1]),
            format!("{}\n", &long[..80]),
            "{program}"
        );
    }
}

/// What is written on a connection, what comes of it, and whether the connection is closed.
const STREAMS: &[(&str, &[&str], bool)] = &[
    (
        "<13>one\r\n<13>two\n<13>not ended",
        &["<13>one", "<13>two"],
        false,
    ),
    (
        "7 <13>abc7 <13>def<13>line\n",
        &["<13>abc", "<13>def", "<13>line"],
        false,
    ),
    ("7 <13>ab\n7 <13>cde", &["<13>ab", "<13>cde"], false),
    ("5 hello<13>x\n", &["hello", "<13>x"], false),
    ("6 <13>ab\n<13>after a stray line feed\n", &["<13>ab"], true),
    ("0 <13>x\n", &[], true),
    ("no length, no priority\n", &[], true),
    ("99999 <13>too long", &[], true),
];

#[test]
fn connections_carry_both_framings() {
    for program in programs() {
        let section = " dgram-bind 127.0.0.1:PORT\n bind 127.0.0.1:PORT\n timeout client 30s\n log TARGET0 local3";
        let played = play(&program, section, 1);
        let mut open = Vec::new();
        for (bytes, expect, closes) in STREAMS {
            let mut io = TcpStream::connect(("127.0.0.1", played.port)).expect("it listens");
            io.set_read_timeout(Some(PATIENCE)).expect("a timeout");
            io.write_all(bytes.as_bytes()).expect("written");
            for expect in *expect {
                assert_eq!(
                    next(&played.servers[0]),
                    format!("{expect}\n"),
                    "{program}: {bytes:?}"
                );
            }
            if *closes {
                let end = io.read(&mut [0; 16]);
                assert!(!matches!(end, Ok(1..)), "{program}: {bytes:?}: {end:?}");
                // one that is closed for what was left in it is reset
                let reset = std::io::ErrorKind::ConnectionReset;
                assert!(
                    end.is_ok() || end.is_err_and(|e| e.kind() == reset),
                    "{program}: {bytes:?}"
                );
                continue;
            }
            open.push(io);
        }
    }
}

/// What HAProxy has had since 2.9 to 3.3: options, Unix sockets, targets that are connected to.
#[test]
fn later_options_are_obeyed() {
    let log_server = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = log_server.local_addr().expect("bound").port();
    let section = format!(
        " dgram-bind 127.0.0.1:PORT\n dgram-bind uxdg@DIR/dgram\n bind unix@DIR/stream\n option assume-rfc6587-ntf\n option host append\n \
         log TARGET0 format rfc3164 local3\n log tcp@127.0.0.1:{port} format raw local0"
    );
    let played = play(SLUICE, &section, 1);
    let mut io = std::os::unix::net::UnixStream::connect(played.daemon.dir.join("stream"))
        .expect("it listens");
    io.write_all(b"7 is no length\n").expect("written");
    assert_eq!(
        next(&played.servers[0]),
        "<152>NOW localhost 7 is no length\n"
    );

    let unix = UnixDatagram::unbound().expect("a socket");
    unix.send_to(
        b"<13>Nov  1 10:11:12 h a: x",
        played.daemon.dir.join("dgram"),
    )
    .expect("sent");
    assert_eq!(next(&played.servers[0]), "<13>Nov  1 10:11:12 h a: x\n");

    let sender = UdpSocket::bind("127.0.0.1:0").expect("a port");
    sender
        .send_to(
            b"<13>1 2022-11-01T10:11:12Z h a - - - last",
            ("127.0.0.1", played.port),
        )
        .expect("sent");
    assert_eq!(
        next(&played.servers[0]),
        "<13>Nov  1 10:11:12 h,127.0.0.1 a: last\n"
    );

    let (mut io, _) = log_server.accept().expect("the proxy comes");
    io.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let mut text = String::new();
    while !text.ends_with("\n7 is no length\nx\nlast\n") {
        let mut buf = [0; 256];
        let n = io.read(&mut buf).expect("more");
        assert!(n > 0, "{text}");
        text.push_str(&String::from_utf8_lossy(&buf[..n]));
    }

    let section =
        " dgram-bind 127.0.0.1:PORT\n option dont-parse-log\n log TARGET0 format raw local3";
    let played = play(SLUICE, section, 1);
    sender
        .send_to(
            b"<13>Nov  1 10:11:12 h a: as it is",
            ("127.0.0.1", played.port),
        )
        .expect("sent");
    assert_eq!(
        next(&played.servers[0]),
        "<13>Nov  1 10:11:12 h a: as it is\n"
    );
}
