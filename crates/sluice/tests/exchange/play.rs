//! A proxy with a frontend and a backend for each case, and a case played through it.

use std::net::{TcpListener, UdpSocket};
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::case::{Case, File, Step};
use super::peers::{Conn, Origin};
use super::text::tidy_log;
use crate::support::daemon::{Daemon, READY};

/// The longest an outcome that is known is waited for.
const PATIENCE: Duration = Duration::from_secs(4);

/// How long nothing more must happen once it is there.
const SETTLED: Duration = Duration::from_millis(60);

pub struct Proxy {
    _daemon: Daemon,
    peers: Vec<Peers>,
}

/// What one case talks to. One at a time.
struct Peers {
    port: u16,
    origin: TcpListener,
    log: UdpSocket,
    turn: Mutex<()>,
}

impl Proxy {
    pub fn start(program: &Path, file: &File) -> Proxy {
        let mut said = String::new();
        for _ in 0..4 {
            match Proxy::try_start(program, file) {
                Ok(proxy) => return proxy,
                Err(why) => said = why,
            }
        }
        panic!("{program:?} does not start:\n{said}")
    }

    fn try_start(program: &Path, file: &File) -> Result<Proxy, String> {
        let dir = Daemon::fresh_dir();
        let page = "HTTP/1.1 503 Sorry\r\nContent-Type: text/x\r\nX-File: 1\r\nContent-Length: 4\r\n\r\nout\n";
        std::fs::write(dir.join("503.http"), page).expect("an error page");
        let local = || TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = |l: &TcpListener| l.local_addr().expect("an address").port();
        let mut text = String::from("global\n nbthread 1\n");
        file.global
            .iter()
            .for_each(|l| text.push_str(&format!(" {l}\n")));
        text.push_str("defaults all\n mode http\n option httplog\n");
        text.push_str(" timeout connect 1s\n timeout client 1s\n timeout server 1s\n");
        file.defaults
            .iter()
            .for_each(|l| text.push_str(&format!(" {l}\n")));
        for section in &file.sections {
            text.push_str(&format!("{}\n", section.replace("\\n", "\n")));
        }
        let (mut peers, mut held) = (Vec::new(), Vec::new());
        for case in &file.cases {
            let front = local();
            let these = Peers {
                port: port(&front),
                origin: local(),
                log: UdpSocket::bind("127.0.0.1:0").expect("a port"),
                turn: Mutex::default(),
            };
            let log = these.log.local_addr().expect("an address").to_string();
            let places = [
                ("ORIGIN", format!("127.0.0.1:{}", port(&these.origin))),
                // a port below 1024 that nothing has
                ("DEAD", "127.0.0.1:1".to_string()),
                ("LOGADDR", log),
            ];
            let configuration = configuration(case, these.port);
            let fill = |text: String, (from, to): &(&str, String)| text.replace(from, to);
            text.push_str(&places.iter().fold(configuration, fill));
            peers.push(these);
            held.push(front);
        }
        drop(held);
        let daemon = Daemon::started(program, dir, &(text + READY), "ready")?;
        Ok(Proxy {
            _daemon: daemon,
            peers,
        })
    }

    /// Plays a case and gives its outcome. When the outcome is known this is over as soon as it is there.
    pub fn play(&self, i: usize, case: &Case, known: Option<&Vec<String>>) -> Vec<String> {
        let peers = &self.peers[i];
        let _turn = peers.turn.lock().expect("not poisoned");
        let mut logs = Vec::new();
        read_logs(&peers.log, &mut logs);
        logs.clear();
        let origin = Origin::start(&peers.origin, &case.servers);
        let mut conns = vec![Conn::open(peers.port)];
        let mut current = 0;
        for step in &case.client {
            match step {
                Step::New => {
                    conns.push(Conn::open(peers.port));
                    current = conns.len() - 1;
                }
                Step::Use(n) => current = n - 1,
                step => conns[current].step(step),
            }
        }
        let outcome = |conns: &[Conn], logs: &[String]| {
            let clients = conns.iter().map(|c| format!("client {}", c.describe()));
            let servers = origin.describe().into_iter().map(|s| format!("server {s}"));
            let logs = logs.iter().map(|l| format!("log {l}"));
            clients.chain(servers).chain(logs).collect::<Vec<String>>()
        };
        let quiet = Duration::from_millis(case.quiet_ms);
        let clients_done = |conns: &[Conn]| {
            let want = known
                .into_iter()
                .flatten()
                .filter(|l| l.starts_with("client "));
            let got = conns.iter().map(|c| format!("client {}", c.describe()));
            known.is_some() && want.eq(got.collect::<Vec<_>>().iter())
        };
        // an open connection must stay so for as long as was waited when the outcome was recorded
        let must_stay = known.is_none() || conns.len() > 1;
        let patience = if known.is_some() { PATIENCE } else { quiet };
        let mut last = Instant::now();
        let start = last;
        while last.elapsed() < patience && start.elapsed() < PATIENCE {
            for conn in &mut conns {
                if conn.read(Duration::from_millis(5)) {
                    last = Instant::now();
                }
            }
            if !must_stay && clients_done(&conns) || start.elapsed() > quiet && clients_done(&conns)
            {
                break;
            }
        }
        let until = Instant::now() + quiet.min(Duration::from_millis(300));
        while Instant::now() < until {
            read_logs(&peers.log, &mut logs);
            if known.is_some_and(|k| *k == outcome(&conns, &logs)) {
                break;
            }
        }
        let settle = Instant::now() + SETTLED;
        while Instant::now() < settle {
            conns.iter_mut().for_each(|c| {
                c.read(Duration::from_millis(5));
            });
            read_logs(&peers.log, &mut logs);
        }
        let seen = outcome(&conns, &[]);
        // what is only logged when the client has left
        conns.clear();
        let until = Instant::now() + if known.is_some() { PATIENCE } else { quiet };
        let mut all;
        loop {
            all = seen.clone();
            all.extend(logs.iter().map(|l| format!("log {l}")));
            if known.is_some_and(|k| *k == all) || Instant::now() > until {
                return all;
            }
            read_logs(&peers.log, &mut logs);
        }
    }
}

fn read_logs(socket: &UdpSocket, into: &mut Vec<String>) {
    let mut line = [0; 65536];
    let wait = Some(Duration::from_millis(10));
    socket.set_read_timeout(wait).expect("an option");
    while let Ok(n) = socket.recv(&mut line) {
        into.push(tidy_log(&line[..n]));
    }
}

/// The sections of one case.
fn configuration(case: &Case, port: u16) -> String {
    let Case {
        name, bind, from, ..
    } = case;
    let mut text = String::new();
    for section in &case.section {
        text.push_str(&section.replace("\\n", "\n"));
        text.push('\n');
    }
    text.push_str(&format!(
        "frontend {name} from {from}\n bind 127.0.0.1:{port} {bind}\n"
    ));
    if !case.conf.iter().any(|l| l == "no log") {
        text.push_str(" log LOGADDR len 8192 local0\n");
    }
    case.conf
        .iter()
        .for_each(|l| text.push_str(&format!(" {l}\n")));
    text.push_str(&format!(
        " default_backend b_{name}\nbackend b_{name} from {from}\n"
    ));
    case.back
        .iter()
        .for_each(|l| text.push_str(&format!(" {l}\n")));
    if !case.back.iter().any(|l| l.starts_with("server ")) {
        text.push_str(&format!(" server s1 ORIGIN {}\n", case.server));
    }
    text
}
