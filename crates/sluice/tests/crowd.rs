//! Many clients of one worker at once: each gets its own answers, also when others leave while they wait for their turn.

mod support;

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use support::daemon::{Daemon, SLUICE};
use support::http::Origin;

/// More than a worker admits without asking, and many turns of what it begins at once.
const CLIENTS: usize = 400;

fn request(io: &mut UnixStream, client: usize, round: usize) {
    write!(io, "GET /{client}/{round} HTTP/1.1\r\nHost: x\r\n\r\n").expect("sent");
}

/// Reads one response, the origin's echo of the request's head, and gives it.
fn response(io: &mut UnixStream) -> String {
    let mut bytes = Vec::new();
    let mut room = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&bytes);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|l| {
                l.to_ascii_lowercase()
                    .strip_prefix("content-length:")?
                    .trim()
                    .parse()
                    .ok()
            });
            if body.len() >= length.expect("a length") {
                return text.into_owned();
            }
        }
        let n = io.read(&mut room).expect("an answer in time");
        assert!(n > 0, "closed after {text:?}");
        bytes.extend_from_slice(&room[..n]);
    }
}

#[test]
fn each_of_many_clients_gets_its_own_answers() {
    let origin = Origin::start();
    let dir = Daemon::fresh_dir();
    let text = format!(
        "global\n nbthread 1\n stats socket DIR/sock\n\
         defaults\n mode http\n timeout client 60s\n timeout server 60s\n timeout connect 60s\n\
         listen l\n bind unix@DIR/l\n server s 127.0.0.1:{}\n",
        origin.port
    );
    let proxy = Daemon::started(SLUICE, dir, &text, "l").expect("it starts");
    let connect = |_| {
        let io = UnixStream::connect(proxy.dir.join("l")).expect("a connection");
        io.set_read_timeout(Some(Duration::from_secs(60)))
            .expect("a timeout");
        io
    };
    let mut clients: Vec<_> = (0..CLIENTS).map(connect).collect();
    for round in 0..4 {
        for (client, io) in clients.iter_mut().enumerate() {
            request(io, client, round);
        }
        // a few leave without their answers
        for io in clients.iter_mut().skip(round).step_by(50) {
            *io = connect(0);
        }
        let left = |client: usize| client >= round && (client - round).is_multiple_of(50);
        for (client, io) in clients.iter_mut().enumerate() {
            if left(client) {
                request(io, client, round);
            }
            let answer = response(io);
            assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
            assert!(answer.contains(&format!("/{client}/{round} ")), "{answer}");
        }
    }
    drop(clients);
    proxy.until("all sessions end", |p| {
        p.ask("show info").contains("\nCurrConns: 0\n")
    });
}
