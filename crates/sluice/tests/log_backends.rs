//! Backends in mode log: lines are balanced among log servers over UDP and TCP (HAProxy has them since 3.0).

mod support;

use std::collections::HashMap;
use std::io::Read;
use std::net::{TcpListener, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::time::{Duration, Instant};

use support::daemon::{Daemon, SLUICE};

const PATIENCE: Duration = Duration::from_secs(20);

fn server() -> (UdpSocket, u16) {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    socket.set_nonblocking(true).expect("does not wait");
    let port = socket.local_addr().expect("bound").port();
    (socket, port)
}

/// Runs backends that are sent what comes to the socket `in`, and a way to send to it. `SERVERn` are log servers.
fn play(backends: &str, servers: usize) -> (Daemon, UnixDatagram, Vec<UdpSocket>) {
    let (sockets, ports): (Vec<_>, Vec<_>) = (0..servers).map(|_| server()).unzip();
    let mut text = format!(
        "global\n nbthread 1\n stats socket DIR/sock level admin\n\
         log-forward lf\n dgram-bind DIR/in\n log backend@b format raw local0\n{backends}\n"
    );
    for (i, port) in ports.iter().enumerate() {
        text = text.replace(&format!("SERVER{i}"), &format!("127.0.0.1:{port}"));
    }
    let daemon = Daemon::started(SLUICE, Daemon::fresh_dir(), &text, "sock").expect("it starts");
    let sender = UnixDatagram::unbound().expect("a socket");
    sender.connect(daemon.dir.join("in")).expect("it listens");
    (daemon, sender, sockets)
}

/// The next messages, each with the server that got it, in the order they are seen.
fn next(servers: &[UdpSocket], n: usize) -> Vec<(usize, String)> {
    let until = Instant::now() + PATIENCE;
    let mut found = Vec::new();
    while found.len() < n {
        assert!(Instant::now() < until, "{found:?} of {n}");
        for (i, server) in servers.iter().enumerate() {
            let mut buf = [0; 256];
            if let Ok(len) = server.recv(&mut buf) {
                found.push((
                    i,
                    String::from_utf8_lossy(&buf[..len]).trim_end().to_owned(),
                ));
            }
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    found
}

#[test]
fn servers_take_turns() {
    let backend =
        "backend b\n mode log\n balance roundrobin\n server s0 udp@SERVER0\n server s1 udp@SERVER1";
    let (_daemon, sender, servers) = play(backend, 2);
    for text in ["1", "2", "3", "4"] {
        sender.send(text.as_bytes()).expect("sent");
    }
    let mut found = next(&servers, 4);
    found.sort();
    let expect = [(0, "1"), (0, "3"), (1, "2"), (1, "4")];
    assert_eq!(found, expect.map(|(i, text)| (i, text.to_owned())));
}

#[test]
fn one_server_is_kept_while_it_is_up() {
    let backend =
        "backend b\n mode log\n balance sticky\n server s0 udp@SERVER0\n server s1 udp@SERVER1";
    let (daemon, sender, servers) = play(backend, 2);
    let check = |expect: usize| {
        for text in ["x", "y"] {
            sender.send(text.as_bytes()).expect("sent");
            assert_eq!(next(&servers, 1), [(expect, text.to_owned())]);
        }
    };
    check(0);
    daemon.ask("set server b/s0 state maint");
    check(1);
    daemon.ask("set server b/s0 state ready");
    check(1);
    daemon.ask("set server b/s1 state maint");
    check(0);
    daemon.ask("set server b/s0 state maint");
    // nobody takes it
    sender.send(b"lost").expect("sent");
    daemon.until("it is counted", |d| info(d, "DroppedLogs") > 0);
    daemon.ask("set server b/s1 state ready");
    check(1);
}

/// A number of `show info`.
fn info(daemon: &Daemon, name: &str) -> u64 {
    let info = daemon.ask("show info");
    let line = info
        .lines()
        .find_map(|l| l.strip_prefix(name)?.strip_prefix(": "));
    line.and_then(|n| n.parse().ok())
        .unwrap_or_else(|| panic!("no {name}"))
}

#[test]
fn messages_of_a_key_stay_together() {
    let backend = "backend b\n mode log\n balance log-hash field(2,;),lower\n server s0 udp@SERVER0\n server s1 udp@SERVER1\n server s2 udp@SERVER2";
    let (_daemon, sender, servers) = play(backend, 3);
    for round in 0..4 {
        for key in [
            "alpha", "beta", "gamma", "delta", "epsilon", "ALPHA", "zeta", "eta",
        ] {
            sender
                .send(format!("{round};{key}").as_bytes())
                .expect("sent");
        }
    }
    let mut owners: HashMap<String, usize> = HashMap::new();
    for (server, text) in next(&servers, 32) {
        let key = text.split(';').nth(1).expect("a key").to_lowercase();
        assert_eq!(*owners.entry(key).or_insert(server), server, "{text}");
    }
    let used: std::collections::HashSet<_> = owners.values().collect();
    assert!(used.len() > 1, "{owners:?}");
}

#[test]
fn servers_over_tcp_get_every_message_in_order() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("bound").port();
    let backend = format!(
        "backend b\n mode log\n timeout connect 5s\n timeout server 5s\n server s0 127.0.0.1:{port} log-proto octet-count log-bufsize 32k"
    );
    let (_daemon, sender, _) = play(&backend, 0);
    for text in ["one", "two", "three"] {
        sender.send(text.as_bytes()).expect("sent");
    }
    let (mut io, _) = listener.accept().expect("the proxy comes");
    io.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let mut got = [0; 17];
    io.read_exact(&mut got).expect("the messages");
    assert_eq!(String::from_utf8_lossy(&got), "3 one3 two5 three");
}

#[test]
fn what_log_backends_are_not_is_told() {
    let check = |text: &str, expect: &str| {
        let dir = Daemon::fresh_dir();
        let file = dir.join("cfg");
        std::fs::write(&file, text).expect("a configuration");
        let run = std::process::Command::new(SLUICE)
            .arg("-c")
            .arg("-f")
            .arg(&file)
            .output();
        let said = String::from_utf8_lossy(&run.expect("it runs").stderr).into_owned();
        assert!(said.contains(expect), "{text}\n{said}");
        let _ = std::fs::remove_dir_all(dir);
    };
    let log = |name: &str| {
        format!(
            "frontend f\n bind :1\n mode tcp\n timeout client 1s\n log backend@{name} local0\nbackend b\n mode log\nbackend t\n mode tcp\n timeout connect 1s\n timeout server 1s\n"
        )
    };
    check(&log("x"), "log : unable to find backend 'x'");
    check(&log("t"), "log : backend 't' is not in mode log");
    check("frontend f\n mode log\n", "'mode log' is for backends only");
    check(
        "backend b\n mode log\n balance leastconn\n",
        "this algorithm is not for log backends",
    );
    check(
        "backend b\n mode tcp\n balance sticky\n",
        "this algorithm is for log backends only",
    );
    check(
        "backend b\n mode tcp\n server s udp@127.0.0.1:1\n",
        "are for log backends only",
    );
    check(
        "backend b\n mode log\n server s 127.0.0.1\n",
        "a log server needs an address and a port",
    );
    check("backend b\n mode log\n balance log-hash nosuch\n", "nosuch");
    check(
        "defaults\n mode log\nfrontend f\n bind :1\n",
        "frontend 'f' cannot be in mode log",
    );
}
