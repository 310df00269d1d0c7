//! A proxy that runs all cases, and the clients that ask it.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::cases::{Action, Answers, Case, Request, Step};
use super::origin::{HOLD, Origins, Shared};

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
    timeout queue 5s
";

pub struct Proxy {
    child: Child,
    dir: PathBuf,
    /// The agents' ports by case, then server.
    agents: Vec<Vec<u16>>,
    shared: Arc<Shared>,
    tag: usize,
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
        let dir = std::env::temp_dir().join(format!("sluice-balance-{}-{tag}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
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
        let file = dir.join("cfg");
        std::fs::write(&file, text.replace("DIR", dir.to_str().unwrap())).unwrap();
        let log = std::fs::File::create(dir.join("log")).unwrap();
        let child = Command::new(program)
            .arg("-db")
            .arg("-f")
            .arg(&file)
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut proxy = Proxy {
            child,
            dir,
            agents,
            shared: origins.shared.clone(),
            tag,
        };
        let until = Instant::now() + PATIENCE;
        // the command socket is there from the start, the last of the listeners when all are
        let last = proxy.dir.join(format!("c{}", cases.len() - 1));
        for socket in [proxy.dir.join("sock"), last] {
            while UnixStream::connect(&socket).is_err() {
                let gone = proxy.child.try_wait().unwrap().is_some();
                let log = || std::fs::read_to_string(proxy.dir.join("log")).unwrap_or_default();
                assert!(!gone && Instant::now() < until, "{program:?}: {}", log());
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        proxy
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
        let mut held: Vec<Option<Held>> = Vec::new();
        let steps = case.steps.iter();
        steps
            .map(|step| (step.line, self.step(at, step, &mut held)))
            .collect()
    }

    fn step(&self, at: usize, step: &Step, held: &mut Vec<Option<Held>>) -> String {
        let each = 0..step.times;
        match &step.action {
            Action::Ask(r) => each
                .map(|n| {
                    let (mut io, server) = self.ask(at, r, n, None);
                    let _ = io.read_to_end(&mut Vec::new());
                    self.settle(at, held);
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
                    let name = format!("{}-{at}-{}", self.tag, held.len());
                    let (io, server) = self.ask(at, r, n, Some(&name));
                    held.push(Some(Held { io, name }));
                    server
                })
                .collect(),
            Action::Free(which) => {
                for (k, slot) in held.iter_mut().enumerate() {
                    if !which.is_empty() && !which.contains(&k) {
                        continue;
                    }
                    if let Some(mut one) = slot.take() {
                        self.shared.let_go(&one.name);
                        let _ = one.io.read_to_end(&mut Vec::new());
                    }
                }
                self.settle(at, held);
                String::new()
            }
            Action::Command { text, late } => {
                let text = text.replace("BE", &format!("c{at}"));
                let until = Instant::now()
                    + if step.expect.is_some() {
                        PATIENCE
                    } else {
                        SETTLE
                    };
                loop {
                    let answer = self.command(&text).trim().replace(&format!("c{at}"), "BE");
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
        let mut io = UnixStream::connect(self.dir.join(format!("c{at}"))).unwrap();
        io.set_read_timeout(Some(PATIENCE)).unwrap();
        io.write_all(text.as_bytes()).unwrap();
        let mut head = Vec::new();
        let mut byte = [0];
        while !head.ends_with(b"\r\n\r\n") {
            match io.read(&mut byte) {
                Ok(1) => head.push(byte[0]),
                _ => break,
            }
        }
        let head = String::from_utf8_lossy(&head).to_ascii_lowercase();
        let server = head.lines().find_map(|l| l.strip_prefix("x-server: "));
        let status = || head.split(' ').nth(1).unwrap_or("nothing");
        let who = match server {
            Some(number) => number.to_owned(),
            None => format!("({})", status()),
        };
        (io, who)
    }

    /// Waits until the backend counts no sessions but those held.
    fn settle(&self, at: usize, held: &[Option<Held>]) {
        const SCUR: usize = 4;
        let open = held.iter().flatten().count();
        let until = Instant::now() + PATIENCE;
        loop {
            let stat = self.command(&format!("show stat c{at} 2 -1"));
            let row = stat.lines().find(|l| l.contains(",BACKEND,"));
            let now = row.and_then(|l| l.split(',').nth(SCUR)?.parse().ok());
            if now == Some(open) {
                return;
            }
            assert!(Instant::now() < until, "{open} sessions are held: {stat}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn command(&self, text: &str) -> String {
        let mut io = UnixStream::connect(self.dir.join("sock")).unwrap();
        io.set_read_timeout(Some(PATIENCE)).unwrap();
        io.write_all(format!("{text}\n").as_bytes()).unwrap();
        let mut out = String::new();
        let _ = io.read_to_string(&mut out);
        out
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}
