//! The servers behind both proxies: each says its number, at once or when it is let go; beside each an agent.

use std::collections::{HashMap, HashSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// The most servers a case may have.
pub const SERVERS: usize = 8;

/// The request header that names an answer to be held back.
pub const HOLD: &str = "x-hold";

pub struct Origins {
    pub ports: Vec<u16>,
    pub shared: Arc<Shared>,
}

/// What the test changes while it plays.
#[derive(Default)]
pub struct Shared {
    let_go: Mutex<HashSet<String>>,
    changed: Condvar,
    heard: Condvar,
    /// Requests served so far: the order of the answers.
    served: AtomicU64,
    /// By agent port.
    agents: Mutex<HashMap<u16, Agent>>,
}

#[derive(Default)]
struct Agent {
    says: String,
    asked: u32,
}

impl Shared {
    /// Finishes the answer held under a name.
    pub fn let_go(&self, name: &str) {
        self.let_go.lock().unwrap().insert(name.to_owned());
        self.changed.notify_all();
    }
    /// Lets an agent say something, and waits until it was heard: the second time it is asked, the first answer was
    /// taken in.
    pub fn tell(&self, port: u16, says: &str, patience: Duration) {
        const HEARD: u32 = 2;
        let says = says.to_owned();
        let mut agents = self.agents.lock().unwrap();
        agents.insert(port, Agent { says, asked: 0 });
        let until = Instant::now() + patience;
        while agents[&port].asked < HEARD {
            assert!(Instant::now() < until, "nobody asks the agent");
            agents = self.heard.wait_timeout(agents, patience).unwrap().0;
        }
    }

    fn ask(&self, port: u16) -> String {
        let mut agents = self.agents.lock().unwrap();
        let agent = agents.entry(port).or_default();
        agent.asked += 1;
        self.heard.notify_all();
        agent.says.clone()
    }
}

impl Origins {
    pub fn start() -> Origins {
        let shared = Arc::new(Shared::default());
        let ports = (0..SERVERS)
            .map(|number| {
                let shared = shared.clone();
                listen(move |io| {
                    let _ = serve(io, number, &shared);
                })
            })
            .collect();
        Origins { ports, shared }
    }

    /// A new agent that says nothing of note.
    pub fn agent(&self) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = self.shared.clone();
        spawn(listener, move |mut io| {
            let _ = writeln!(io, "{}", shared.ask(port));
        });
        port
    }
}

fn listen(serve: impl Fn(TcpStream) + Clone + Send + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    spawn(listener, serve);
    port
}

fn spawn(listener: TcpListener, serve: impl Fn(TcpStream) + Clone + Send + 'static) {
    std::thread::spawn(move || {
        for io in listener.incoming().flatten() {
            let serve = serve.clone();
            std::thread::spawn(move || serve(io));
        }
    });
}

fn serve(mut io: TcpStream, number: usize, shared: &Shared) -> std::io::Result<()> {
    let mut reader = BufReader::new(io.try_clone()?);
    loop {
        let (mut length, mut hold) = (0u64, None);
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(());
        }
        loop {
            line.clear();
            reader.read_line(&mut line)?;
            let Some((name, value)) = line.trim_end().split_once(':') else {
                break;
            };
            match name.to_ascii_lowercase().as_str() {
                "content-length" => length = value.trim().parse().unwrap_or(0),
                HOLD => hold = Some(value.trim().to_owned()),
                _ => {}
            }
        }
        std::io::copy(&mut (&mut reader).take(length), &mut std::io::sink())?;
        let order = shared.served.fetch_add(1, Ordering::SeqCst);
        let head = format!(
            "HTTP/1.1 200 OK\r\nX-Server: {number}\r\nX-Order: {order}\r\nContent-Length: 1\r\n\r\n"
        );
        let Some(name) = hold else {
            io.write_all(format!("{head}.").as_bytes())?;
            continue;
        };
        io.write_all(head.as_bytes())?;
        {
            let mut free = shared.let_go.lock().unwrap();
            while !free.contains(&name) {
                free = shared.changed.wait(free).unwrap();
            }
        }
        io.write_all(b".")?;
    }
}
