//! A proxy that runs all cases, and the clients that ask it.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::cases::{Action, Answers, Case, Request, Step};
use super::origin::{HOLD, Origins, Shared};
use crate::support::daemon::Daemon;

/// The longest anything may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long a late answer is waited for while answers are being recorded.
const SETTLE: Duration = Duration::from_millis(1500);

const HEAD: &str = "\
global
    nbthread 1
    stats socket unix@DIR/sock level admin
defaults
    mode http
    timeout client 10s
    timeout server 10s
    timeout connect 2s
    timeout queue 2s
";

pub struct Proxy {
    daemon: Daemon,
    /// The servers' ports.
    ports: Vec<u16>,
    /// The agents' ports by case, then server.
    agents: Vec<Vec<u16>>,
    shared: Arc<Shared>,
    tag: usize,
}

/// What a case has under way.
#[derive(Default)]
struct Open {
    held: Vec<Option<Held>>,
    /// Clients that wait for a server, or were told meanwhile.
    waiting: Vec<Option<UnixStream>>,
    /// What a step waited for did not come.
    late: bool,
}

/// A request whose answer is not finished.
struct Held {
    io: UnixStream,
    name: String,
}

impl Proxy {
    pub fn start(program: &Path, cases: &[Case], origins: &Origins) -> Proxy {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let tag = NUMBER.fetch_add(1, Ordering::Relaxed);
        let mut text = HEAD.to_owned();
        let mut agents = Vec::new();
        for (k, case) in cases.iter().enumerate() {
            text += &format!("listen c{k}\n    bind unix@DIR/c{k} accept-proxy\n");
            for line in &case.conf {
                text += &format!("    {line}\n");
            }
            let mut own = Vec::new();
            for (i, settings) in case.servers.iter().enumerate() {
                let agent = match settings.contains("AGENT") {
                    true => origins.agent(),
                    false => 0,
                };
                let settings = settings.replace("AGENT", &agent.to_string());
                let port = origins.ports[i];
                text += &format!("    server s{i} 127.0.0.1:{port} {settings}\n");
                own.push(agent);
            }
            agents.push(own);
        }
        // the last of the listeners is there when all are
        let last = format!("c{}", cases.len() - 1);
        let daemon = Daemon::started(program, Daemon::fresh_dir(), &text, &last);
        Proxy {
            daemon: daemon.unwrap_or_else(|said| panic!("{program:?}: {said}")),
            ports: origins.ports.clone(),
            agents,
            shared: origins.shared.clone(),
            tag,
        }
    }

    pub fn play_all(&self, cases: &[Case]) -> Answers {
        let play = |part: &[(usize, &Case)]| -> Answers {
            part.iter().flat_map(|(k, c)| self.play(*k, c)).collect()
        };
        let all: Vec<_> = cases.iter().enumerate().collect();
        std::thread::scope(|scope| {
            let parts: Vec<_> = all
                .chunks(all.len().div_ceil(4).max(1))
                .map(|part| scope.spawn(move || play(part)))
                .collect();
            parts.into_iter().flat_map(|p| p.join().unwrap()).collect()
        })
    }

    fn play(&self, at: usize, case: &Case) -> Answers {
        let mut open = Open::default();
        let steps = case.steps.iter();
        steps
            .map(|step| {
                let answer = self.step(at, step, &mut open);
                let late = std::mem::take(&mut open.late);
                (step.line, answer + if late { " (in vain)" } else { "" })
            })
            .collect()
    }

    fn step(&self, at: usize, step: &Step, open: &mut Open) -> String {
        let each = 0..step.times;
        match &step.action {
            Action::Ask(r) => each
                .map(|n| {
                    let (mut io, server) = self.ask(at, r, n, None);
                    let _ = io.read_to_end(&mut Vec::new());
                    self.settle(at, open);
                    server
                })
                .collect(),
            Action::Share(r) | Action::Tally(r) => {
                let mut counts = [0u32; super::origin::SERVERS];
                for n in each {
                    let (mut io, server) = self.ask(at, r, n, None);
                    let _ = io.read_to_end(&mut Vec::new());
                    if let Some(count) = server.parse().ok().and_then(|k: usize| counts.get_mut(k))
                    {
                        *count += 1;
                    }
                }
                counts.map(|c| c.to_string()).join(" ")
            }
            Action::Hold(r) => each
                .map(|n| {
                    let name = format!("{}-{at}-{}", self.tag, open.held.len());
                    let (io, server) = self.ask(at, r, n, Some(&name));
                    open.held.push(Some(Held { io, name }));
                    server
                })
                .collect(),
            Action::Queue(r) => {
                for n in each {
                    let before = self.backend(at, STOT);
                    let io = self.send(at, r, n, None);
                    open.waiting.push(Some(io));
                    open.late |= !until(|| self.backend(at, STOT) > before);
                }
                self.queues(at, step)
            }
            Action::Leave(which) => {
                open.waiting[*which] = None;
                self.queues(at, step)
            }
            Action::Done | Action::Order => {
                let mut ends = Vec::new();
                for (k, io) in open.waiting.drain(..).enumerate() {
                    let Some(mut io) = io else { continue };
                    let head = read_head(&mut io);
                    let _ = io.read_to_end(&mut Vec::new());
                    let order = header(&head, "x-order").and_then(|n| n.parse::<u64>().ok());
                    ends.push((order.unwrap_or(u64::MAX), k, who(&head)));
                }
                self.settle(at, open);
                if let Action::Done = step.action {
                    let told = ends.iter().map(|(_, k, who)| format!("{k}:{who}"));
                    return told.collect::<Vec<_>>().join(" ");
                }
                ends.sort();
                let told = ends.iter().map(|(_, k, _)| k.to_string());
                told.collect::<Vec<_>>().join(" ")
            }
            Action::Free(which) => {
                for (k, slot) in open.held.iter_mut().enumerate() {
                    if !which.is_empty() && !which.contains(&k) {
                        continue;
                    }
                    if let Some(mut one) = slot.take() {
                        self.shared.let_go(&one.name);
                        let _ = one.io.read_to_end(&mut Vec::new());
                    }
                }
                self.settle(at, open);
                String::new()
            }
            Action::Command { text, late } => {
                let text = text.replace("BE", &format!("c{at}"));
                let text = (0..self.ports.len()).fold(text, |text, n| {
                    text.replace(&format!("PORT{n}"), &self.ports[n].to_string())
                });
                let until = Instant::now()
                    + if step.expect.is_some() {
                        PATIENCE
                    } else {
                        SETTLE
                    };
                loop {
                    let answer = self
                        .daemon
                        .ask(&text)
                        .trim()
                        .replace(&format!("c{at}"), "BE");
                    let done = step.expect.as_ref() == Some(&answer);
                    if !*late || done || Instant::now() > until {
                        return answer;
                    }
                    std::thread::sleep(Duration::from_millis(10));
                }
            }
            Action::Agent { server, says } => {
                self.shared.tell(self.agents[at][*server], says, PATIENCE);
                String::new()
            }
        }
    }

    /// Sends a request and reads the answer's head: the server's number, or the status of a proxy's own answer.
    fn ask(&self, at: usize, r: &Request, n: u32, hold: Option<&str>) -> (UnixStream, String) {
        let mut io = self.send(at, r, n, hold);
        let head = read_head(&mut io);
        (io, who(&head))
    }

    fn send(&self, at: usize, r: &Request, n: u32, hold: Option<&str>) -> UnixStream {
        let fill = |text: &str| text.replace("{n}", &n.to_string());
        let from = fill(&r.from);
        let (family, to) = match from.contains(':') {
            true => ("TCP6", "::1"),
            false => ("TCP4", "127.0.0.1"),
        };
        let mut text = format!("PROXY {family} {from} {to} 1000 80\r\n");
        text += &format!(
            "{} {} HTTP/1.1\r\nConnection: close\r\n",
            r.method,
            fill(&r.uri)
        );
        let headers = r.headers.iter().map(|h| fill(h));
        headers.for_each(|h| text += &format!("{h}\r\n"));
        if !r.headers.iter().any(|h| h.starts_with("Host:")) {
            text += "Host: h\r\n";
        }
        if let Some(name) = hold {
            text += &format!("{HOLD}: {name}\r\n");
        }
        let body = fill(&r.body);
        if !body.is_empty() {
            text += &format!("Content-Length: {}\r\n", body.len());
        }
        text += &format!("\r\n{body}");
        let mut io = UnixStream::connect(self.daemon.dir.join(format!("c{at}"))).unwrap();
        io.set_read_timeout(Some(PATIENCE)).unwrap();
        io.write_all(text.as_bytes()).unwrap();
        io
    }

    /// How many wait for each server, and for any, as soon as it is what is expected.
    fn queues(&self, at: usize, step: &Step) -> String {
        const QCUR: usize = 2;
        let most = if step.expect.is_some() {
            SETTLE / 4
        } else {
            SETTLE / 30
        };
        let until = Instant::now() + most;
        loop {
            let stat = self.daemon.ask(&format!("show stat c{at} 6 -1"));
            let rows = stat.lines().skip(1).filter(|l| !l.is_empty());
            let told = rows.map(|l| {
                let mut columns = l.split(',').skip(1);
                let (name, queued) = (columns.next(), columns.nth(QCUR - 2));
                format!("{}:{}", name.unwrap_or("?"), queued.unwrap_or("?"))
            });
            let told: Vec<_> = told.filter(|row| !row.ends_with(":0")).collect();
            let told = told.join(" ");
            if step.expect.as_ref() == Some(&told) || Instant::now() > until {
                return told;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits until the backend counts no sessions but those held, and perhaps those waiting.
    fn settle(&self, at: usize, open: &mut Open) {
        let held = open.held.iter().flatten().count();
        let most = held + open.waiting.iter().flatten().count();
        open.late |= !until(|| (held..=most).contains(&self.backend(at, SCUR)));
    }

    /// A number of the backend's row.
    fn backend(&self, at: usize, column: usize) -> usize {
        let stat = self.daemon.ask(&format!("show stat c{at} 2 -1"));
        let row = stat.lines().find(|l| l.contains(",BACKEND,"));
        let number = row.and_then(|l| l.split(',').nth(column)?.parse().ok());
        number.unwrap_or_else(|| panic!("no backend in {stat}"))
    }
}

/// Columns of the statistics.
const SCUR: usize = 4;
const STOT: usize = 7;

/// Whether something came true within [`PATIENCE`].
fn until(mut holds: impl FnMut() -> bool) -> bool {
    let last = Instant::now() + PATIENCE;
    while !holds() {
        if Instant::now() > last {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    true
}

/// A response's head, in lower case.
fn read_head(io: &mut UnixStream) -> String {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        match io.read(&mut byte) {
            Ok(1) => head.push(byte[0]),
            _ => break,
        }
    }
    String::from_utf8_lossy(&head).to_ascii_lowercase()
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines()
        .find_map(|l| l.strip_prefix(name)?.strip_prefix(": "))
}

fn who(head: &str) -> String {
    match header(head, "x-server") {
        Some(number) => number.to_owned(),
        None => format!("({})", head.split(' ').nth(1).unwrap_or("nothing")),
    }
}
