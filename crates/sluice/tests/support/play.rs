//! A proxy that answers a table: each case is a frontend of its own, on ports of its own, and its rows are rules that
//! put their values into variables, from where they come back in one body or one log line.

use std::fmt::Write as _;
use std::io::{ErrorKind, Read, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::time::Duration;

use super::daemon::Daemon;
use super::table::{Answers, Case, Expect, Item, Row, Table};

/// Between the values of a body or a log line.
const BAR: &str = "|||";

/// The longest a proxy may take to start or to answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// The longest a log line may take.
const LOG_PATIENCE: Duration = Duration::from_secs(30);

pub struct Proxy {
    _daemon: Daemon,
    /// The port and the log socket of each case.
    peers: Vec<(u16, UdpSocket)>,
    is_sluice: bool,
}

impl Proxy {
    /// A proxy that listens. A port that was free a moment ago may be taken by the time it is bound: then others are
    /// tried.
    pub fn start(program: &Path, table: &Table, is_sluice: bool) -> Proxy {
        const TRIES: usize = 4;
        let mut said = String::new();
        for _ in 0..TRIES {
            match Proxy::try_start(program, table, is_sluice) {
                Ok(proxy) => return proxy,
                Err(why) => said = why,
            }
            if !said.to_lowercase().contains("bind") {
                break;
            }
        }
        panic!("{program:?} does not start:\n{said}")
    }

    fn try_start(program: &Path, table: &Table, is_sluice: bool) -> Result<Proxy, String> {
        let dir = Daemon::fresh_dir();
        for (name, content) in &table.files {
            std::fs::write(dir.join(name), content).expect("a file");
        }
        let mut ports = Ports::default();
        let (text, peers) = configuration(table, is_sluice, &mut ports);
        drop(ports);
        match Daemon::started(program, dir.clone(), &text, "ready") {
            Ok(daemon) => Ok(Proxy {
                _daemon: daemon,
                peers,
                is_sluice,
            }),
            Err(said) => {
                let accused = text
                    .lines()
                    .enumerate()
                    .filter(|(n, _)| said.contains(&format!("cfg:{}]", n + 1)));
                let accused: String = accused.map(|(n, l)| format!("{:4} {l}\n", n + 1)).collect();
                Err(format!("{said}\n{accused}configuration: {dir:?}"))
            }
        }
    }

    /// Plays each case once, in order.
    pub fn play_all(&self, table: &Table) -> Answers {
        let mut all = Answers::new();
        for (case, (port, log)) in table.cases.iter().zip(&self.peers) {
            let said = self.play(case, *port, log);
            let rows: Vec<&Row> = case.rows().filter(|row| self.plays(row)).collect();
            let parts = if case.is_raw() {
                vec![said.clone()]
            } else {
                split(&said)
            };
            if parts.len() != rows.len() {
                // not an answer of ours: the rows show what came instead
                let instead = [b"instead: ", &said[..]].concat();
                all.extend(rows.iter().map(|row| (row.line, Some(instead.clone()))));
                continue;
            }
            for (row, part) in rows.iter().zip(parts) {
                let answer = if case.logs_directly() {
                    Some(part)
                } else {
                    decode(&part)
                };
                all.insert(row.line, answer);
            }
        }
        all
    }

    fn plays(&self, row: &Row) -> bool {
        self.is_sluice || !matches!(row.expect, Expect::SluiceAlone(_))
    }

    /// Sends the case's request and takes the answers' text: from the body, or from the log.
    fn play(&self, case: &Case, port: u16, log: &UdpSocket) -> Vec<u8> {
        let mut io = TcpStream::connect(("127.0.0.1", port)).expect("a connection");
        io.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        io.write_all(&case.request).expect("the request is sent");
        let body = if case.place == "content" {
            io.shutdown(Shutdown::Write).expect("the end is sent");
            Vec::new()
        } else {
            read_body(&mut io)
        };
        if !case.answers_in_log() {
            return body;
        }
        if case.place != "content" {
            let _ = io.shutdown(Shutdown::Both);
        }
        let mut line = vec![0; 65536];
        let Ok(n) = log.recv(&mut line) else {
            return b"nothing is logged".to_vec();
        };
        line.truncate(n);
        while line.last() == Some(&b'\n') {
            line.pop();
        }
        line
    }
}

/// The configuration of a table, with the port and the log socket of each case.
fn configuration(
    table: &Table,
    is_sluice: bool,
    ports: &mut Ports,
) -> (String, Vec<(u16, UdpSocket)>) {
    let mut text = String::from("global\n");
    for line in &table.global {
        writeln!(text, "  {line}").expect("text");
    }
    text +=
        "defaults\n  mode http\n  timeout client 5s\n  timeout server 5s\n  timeout connect 5s\n";
    for section in &table.sections {
        text += &section.replace("\\n", "\n  ");
        text.push('\n');
    }
    let mut peers = Vec::new();
    for case in &table.cases {
        let log = UdpSocket::bind("127.0.0.1:0").expect("a log socket");
        log.set_read_timeout(Some(LOG_PATIENCE)).expect("a timeout");
        let log_port = log.local_addr().expect("bound").port();
        let origin = case.response.as_ref().map(|answer| origin(answer.clone()));
        let port = ports.one();
        text += &sections(case, is_sluice, port, log_port, origin);
        peers.push((port, log));
    }
    text += "frontend ready\n  bind unix@DIR/ready\n";
    (text, peers)
}

impl Case {
    /// The rows are part of the log format and come back as they were logged.
    fn logs_directly(&self) -> bool {
        self.place.ends_with("log")
    }
    /// Its one row is the whole line.
    fn is_raw(&self) -> bool {
        self.place == "raw-log"
    }
    fn answers_in_log(&self) -> bool {
        self.logs_directly() || matches!(self.place.as_str(), "content" | "tcp-response")
    }
}

/// The frontend of a case, and its backend when it has a server.
fn sections(case: &Case, is_sluice: bool, port: u16, log_port: u16, origin: Option<u16>) -> String {
    let name = &case.name;
    let tcp = matches!(case.place.as_str(), "content" | "tcp-response" | "tcp-log");
    let mut front = format!("frontend {name}\n  bind 127.0.0.1:{port} {}\n", case.bind);
    let mut back = format!("backend b_{name}\n");
    if tcp {
        front += "  mode tcp\n";
        back += "  mode tcp\n";
        // the rows see everything that was sent: its sender ends its direction behind it, which ends the wait
        // (but for once in a few hundred times with haproxy 2.6, which then sits the delay out)
        let wait = |rules: &str| {
            format!(
                "  {rules} inspect-delay 2s\n  {rules} content set-var(txn.waited) bool(true) if WAIT_END\n"
            )
        };
        match case.place.as_str() {
            "content" => front += &wait("tcp-request"),
            "tcp-response" => back += &wait("tcp-response"),
            _ => {}
        }
    }
    let logs_its_own_way = case.conf.iter().any(|line| line.contains("LOGADDR"));
    if case.answers_in_log() && !logs_its_own_way {
        front += &format!("  log 127.0.0.1:{log_port} len 65000 format raw local0\n");
    }
    for line in &case.conf {
        let line = line.replace("LOGADDR", &format!("127.0.0.1:{log_port}"));
        front += &format!("  {line}\n");
    }
    for line in &case.back {
        back += &format!("  {line}\n");
    }
    let (rules, rules_are_back, end) = match case.place.as_str() {
        "http-request" => ("http-request", false, "http-request"),
        "backend" => ("http-request", true, "http-request"),
        "http-response" => ("http-response", true, "http-response"),
        "front-response" => ("http-response", false, "http-response"),
        "connection" => ("tcp-request connection", false, "http-request"),
        "session" => ("tcp-request session", false, "http-request"),
        "content" => ("tcp-request content", false, "tcp-request content"),
        "tcp-response" => ("tcp-response content", true, "tcp-response content"),
        "http-log" | "tcp-log" | "raw-log" => ("", false, ""),
        other => panic!("{name}: no place `{other}`"),
    };
    let scope = if rules.ends_with("connection") || rules.ends_with("session") {
        "sess"
    } else {
        "txn"
    };
    let mut lines = String::new();
    let mut answers = String::new();
    let mut format = Vec::new();
    for item in &case.items {
        let row = match item {
            Item::Line(line, only_sluice) => {
                if is_sluice || !only_sluice {
                    lines += &format!("  {line}\n");
                }
                continue;
            }
            Item::Row(row) => row,
        };
        if !is_sluice && matches!(row.expect, Expect::SluiceAlone(_)) {
            continue;
        }
        if case.logs_directly() {
            format.push(match row.text.strip_prefix("fmt ") {
                Some(format) => format.to_string(),
                None if case.is_raw() => row.text.clone(),
                None => format!("%[{}]", row.text),
            });
            continue;
        }
        let var = format!("{scope}.r{}", row.line);
        let text = &row.text;
        lines += &match text.split_once(' ') {
            Some(("if" | "unless", _)) => format!("  {rules} set-var({var}) str(yes) {text}\n"),
            Some(("fmt", format)) => {
                format!("  {rules} set-var-fmt({var}) {}\n", in_quotes(format))
            }
            _ => format!("  {rules} set-var({var}) {}\n", in_quotes(text)),
        };
        // every part of the answer is one argument: no blank may be in it
        answers += &format!(
            "  {end} set-var-fmt(txn.o) \"%[var(txn.o)]%[var({var}),length]:%[var({var}),hex]:%[var({var}),url_enc]{BAR}\"\n"
        );
    }
    let reply = format!("{lines}{answers}");
    let goes_elsewhere = case.conf.iter().any(|line| line.starts_with("use_backend"));
    let reply = match case.place.as_str() {
        "http-log" | "raw-log" if origin.is_none() && !goes_elsewhere => {
            "  http-request return status 200\n".into()
        }
        "http-log" | "raw-log" | "tcp-log" => lines,
        "content" => format!("{reply}  tcp-request content reject\n"),
        "tcp-response" => reply,
        _ => format!(
            "{reply}  {end} return status 200 content-type text/plain lf-string %[var(txn.o)]\n"
        ),
    };
    if case.is_raw() {
        // `default`: the format is what the case's own lines say
        if let Some(format) = format.first().filter(|f| *f != "default") {
            front += &format!("  log-format {}\n", in_quotes(format));
        }
    } else if case.logs_directly() {
        front += &format!("  log-format {}\n", in_quotes(&(format.join(BAR) + BAR)));
    } else if case.answers_in_log() {
        front += "  log-format %[var(txn.o)]%B\n";
    }
    if rules_are_back {
        back += &reply
    } else {
        front += &reply
    }
    match origin {
        Some(port) => {
            front += &format!("  default_backend b_{name}\n");
            back += &format!("  server s1 127.0.0.1:{port}\n");
            front + &back
        }
        None if rules_are_back => front + &format!("  default_backend b_{name}\n") + &back,
        None => front,
    }
}

fn in_quotes(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

fn split(said: &[u8]) -> Vec<Vec<u8>> {
    let mut parts = Vec::new();
    let mut rest = said;
    while let Some(at) = rest.windows(BAR.len()).position(|w| w == BAR.as_bytes()) {
        parts.push(rest[..at].to_vec());
        rest = &rest[at + BAR.len()..];
    }
    parts
}

/// `length:hexadecimal:text`: the bytes for strings, the text for what is printed otherwise, nothing for nothing.
fn decode(part: &[u8]) -> Option<Vec<u8>> {
    let part = String::from_utf8_lossy(part);
    let mut fields = part.splitn(3, ':');
    let (length, hex, text) = (fields.next()?, fields.next()?, fields.next()?);
    // a variable that is not set has no length
    let length: usize = length.parse().ok()?;
    let bytes: Vec<u8> = (0..hex.len() / 2)
        .map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).expect("hexadecimal"))
        .collect();
    let text = super::table::unescape(&text.replace('\\', "\\\\").replace('%', "\\x"));
    let shown = String::from_utf8_lossy(&text).into_owned();
    let is_number = shown.parse::<i64>().is_ok_and(|n| bytes == n.to_be_bytes());
    let is_ipv6 = shown
        .parse::<std::net::Ipv6Addr>()
        .is_ok_and(|ip| bytes == ip.octets());
    // haproxy's text of bytes ends at a NUL
    let is_cut = bytes.get(text.len()) == Some(&0) && bytes.starts_with(&text);
    let is_bytes = is_cut || bytes.len() == length;
    Some(if is_bytes && !is_number && !is_ipv6 {
        bytes
    } else {
        text
    })
}

/// The body of an HTTP answer, or everything until the end.
fn read_body(io: &mut TcpStream) -> Vec<u8> {
    let mut got = Vec::new();
    let mut chunk = [0; 65536];
    loop {
        if let Some(at) = got.windows(4).position(|w| w == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&got[..at]).to_ascii_lowercase();
            let length = head
                .split("content-length:")
                .nth(1)
                .and_then(|l| l.lines().next()?.trim().parse::<usize>().ok());
            if let Some(length) = length.filter(|l| got.len() >= at + 4 + l) {
                return got[at + 4..at + 4 + length].to_vec();
            }
        }
        match io.read(&mut chunk) {
            Ok(0) => return got,
            Ok(n) => got.extend_from_slice(&chunk[..n]),
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(_) => return got,
        }
    }
}

/// Free ports, held until the proxy is started so that none is given out twice.
#[derive(Default)]
struct Ports(Vec<TcpListener>);

impl Ports {
    fn one(&mut self) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("bound").port();
        self.0.push(listener);
        port
    }
}

/// A server that takes something, gives this answer and closes.
fn origin(answer: Vec<u8>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("bound").port();
    std::thread::spawn(move || {
        for mut io in listener.incoming().flatten() {
            let answer = answer.clone();
            std::thread::spawn(move || {
                let _ = io.set_read_timeout(Some(PATIENCE));
                let mut chunk = [0; 65536];
                if matches!(io.read(&mut chunk), Ok(n) if n > 0) {
                    let _ = io.write_all(&answer);
                    let _ = io.shutdown(Shutdown::Write);
                    while matches!(io.read(&mut chunk), Ok(n) if n > 0) {}
                }
            });
        }
    });
    port
}
