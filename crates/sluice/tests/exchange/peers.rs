//! The peers of the proxy: a client with several connections, and a server, each following its script.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::case::Step;
use super::text::tidy;

/// The longest a step of a script waits.
const PATIENCE: Duration = Duration::from_secs(3);

/// One connection of the client: what it got and how it ended.
pub struct Conn {
    io: Option<TcpStream>,
    got: Vec<u8>,
    fate: &'static str,
    looked: usize,
}

impl Conn {
    pub fn open(port: u16) -> Conn {
        let io = TcpStream::connect(("127.0.0.1", port)).expect("the proxy listens");
        io.set_nodelay(true).expect("an option");
        Conn {
            io: Some(io),
            got: Vec::new(),
            fate: "open",
            looked: 0,
        }
    }

    /// Reads for at most so long; false when nothing came.
    pub fn read(&mut self, most: Duration) -> bool {
        let Some(io) = self.io.as_mut().filter(|_| self.fate == "open") else {
            return false;
        };
        io.set_read_timeout(Some(most.max(Duration::from_millis(1))))
            .expect("an option");
        let mut chunk = [0; 65536];
        match io.read(&mut chunk) {
            Ok(0) => self.fate = "closed",
            Ok(n) => {
                self.got.extend_from_slice(&chunk[..n]);
                return true;
            }
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            // after an answer a client cannot tell a close from a reset that came for what it sent meanwhile
            Err(_) if !self.got.is_empty() => self.fate = "closed",
            Err(_) => self.fate = "reset",
        }
        false
    }

    fn read_until(&mut self, enough: impl Fn(&Conn) -> bool) {
        let until = Instant::now() + PATIENCE;
        while !enough(self) && self.fate == "open" && Instant::now() < until {
            self.read(Duration::from_millis(20));
        }
    }

    pub fn describe(&self) -> String {
        format!("{}<{}>", tidy(&self.got), self.fate)
    }

    /// Follows one step that concerns this connection.
    pub fn step(&mut self, step: &Step) {
        match step {
            Step::Send(bytes) => {
                if let Some(io) = &mut self.io {
                    let _ = io.write_all(bytes);
                }
            }
            Step::WaitMs(ms) => std::thread::sleep(Duration::from_millis(*ms)),
            Step::Head => {
                let looked = self.looked;
                let end = |c: &Conn| c.got[looked..].windows(4).position(|w| w == b"\r\n\r\n");
                self.read_until(|c| end(c).is_some());
                self.looked += end(self).map_or(0, |at| at + 4);
            }
            Step::Any => {
                let before = self.got.len();
                self.read_until(|c| c.got.len() > before);
            }
            Step::Peek => {
                while self.read(Duration::from_millis(20)) {}
                let mark = format!("{{{}}}", self.fate);
                self.got.extend_from_slice(mark.as_bytes());
            }
            Step::Shut => {
                if let Some(io) = &self.io {
                    let _ = io.shutdown(Shutdown::Write);
                }
            }
            Step::Close => {
                self.io = None;
                self.fate = "left";
            }
            Step::Reset => {
                if let Some(io) = self.io.take() {
                    reset(io);
                }
                self.fate = "left";
            }
            Step::New | Step::Use(_) | Step::Request | Step::All => {
                panic!("no step of a client: {step:?}")
            }
        }
    }
}

/// Closes with a reset.
fn reset(io: TcpStream) {
    let linger = socket2::SockRef::from(&io).set_linger(Some(Duration::ZERO));
    linger.expect("an option");
}

/// What a server got, connection by connection, in pieces.
pub type Got = Arc<Mutex<Vec<Vec<String>>>>;

/// A server that lives until its listener is shut: it follows the scripts, without one it answers everything.
pub struct Origin {
    pub got: Got,
    conns: Arc<Mutex<Vec<TcpStream>>>,
    listener: TcpListener,
}

impl Origin {
    pub fn start(listener: &TcpListener, scripts: &[Vec<Step>]) -> Origin {
        let listener = listener.try_clone().expect("a listener");
        let origin = Origin {
            got: Got::default(),
            conns: Arc::default(),
            listener: listener.try_clone().expect("a listener"),
        };
        let (got, conns, scripts) = (origin.got.clone(), origin.conns.clone(), scripts.to_vec());
        listener.set_nonblocking(true).expect("an option");
        let ended = Arc::downgrade(&origin.conns);
        std::thread::spawn(move || {
            // the case is over when only this thread knows of the connections
            while ended.strong_count() > 1 {
                let Ok((io, _)) = listener.accept() else {
                    std::thread::sleep(Duration::from_millis(1));
                    continue;
                };
                io.set_nonblocking(false).expect("an option");
                let n = {
                    let mut got = got.lock().expect("not poisoned");
                    got.push(Vec::new());
                    got.len() - 1
                };
                conns
                    .lock()
                    .expect("not poisoned")
                    .push(io.try_clone().expect("a socket"));
                let script = scripts[n.min(scripts.len() - 1)].clone();
                let got = got.clone();
                std::thread::spawn(move || {
                    serve(io, script, &|piece| {
                        got.lock().expect("not poisoned")[n].push(piece)
                    })
                });
            }
        });
        origin
    }

    pub fn describe(&self) -> Vec<String> {
        let got = self.got.lock().expect("not poisoned");
        got.iter().map(|pieces| pieces.join(" ")).collect()
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        let _ = self.listener.set_nonblocking(true);
        for io in self.conns.lock().expect("not poisoned").iter() {
            let _ = io.shutdown(Shutdown::Both);
        }
    }
}

/// What a server answers that has no script.
const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

fn serve(mut io: TcpStream, script: Vec<Step>, note: &dyn Fn(String)) {
    let _ = io.set_nodelay(true);
    let always = script.is_empty();
    let usual = [Step::Request, Step::Send(OK.to_vec())];
    let steps = if always { usual.to_vec() } else { script };
    let mut buf = Vec::new();
    loop {
        for step in &steps {
            match step {
                Step::Send(bytes) => {
                    if io.write_all(bytes).is_err() {
                        return;
                    }
                }
                Step::WaitMs(ms) => std::thread::sleep(Duration::from_millis(*ms)),
                Step::Head | Step::Request | Step::Any => {
                    let body = *step == Step::Request;
                    let end = loop {
                        let at = match step {
                            Step::Any => Some(buf.len()).filter(|n| *n > 0),
                            _ => message_end(&buf, body),
                        };
                        if let Some(at) = at {
                            break at;
                        }
                        if !more(&mut io, &mut buf) {
                            return note_end(&buf, note);
                        }
                    };
                    note(tidy(&buf[..end]));
                    buf.drain(..end);
                }
                Step::All => while more(&mut io, &mut buf) {},
                Step::Shut => {
                    let _ = io.shutdown(Shutdown::Write);
                }
                Step::Close => {
                    let _ = io.shutdown(Shutdown::Write);
                    drop(io);
                    return note("<closed>".to_string());
                }
                Step::Reset => {
                    reset(io);
                    return note("<reset>".to_string());
                }
                _ => panic!("no step of a server: {step:?}"),
            }
        }
        if !always {
            while more(&mut io, &mut buf) {}
            return note_end(&buf, note);
        }
    }
}

fn more(io: &mut TcpStream, buf: &mut Vec<u8>) -> bool {
    let mut chunk = [0; 65536];
    match io.read(&mut chunk) {
        Ok(n) if n > 0 => {
            buf.extend_from_slice(&chunk[..n]);
            true
        }
        _ => false,
    }
}

/// Notes what came before the end. That an idle connection ended says nothing: proxies keep them for as long as they like.
fn note_end(buf: &[u8], note: &dyn Fn(String)) {
    if !buf.is_empty() {
        note(format!("{}<end>", tidy(buf)));
    }
}

/// Where the first message in the buffer ends: its head, with `body` what it announces behind it too.
fn message_end(buf: &[u8], body: bool) -> Option<usize> {
    let head = buf.windows(4).position(|w| w == b"\r\n\r\n")? + 4;
    if !body {
        return Some(head);
    }
    let text = String::from_utf8_lossy(&buf[..head]).to_ascii_lowercase();
    let value = |name: &str| {
        let line = text.lines().find_map(|l| l.strip_prefix(name));
        line.map(|v| v.trim().to_string())
    };
    if value("transfer-encoding:").is_some_and(|v| v.ends_with("chunked")) {
        let last = |w: &[u8]| w.starts_with(b"\n0");
        let body = &buf[head - 1..];
        let at = body.windows(2).position(last)?;
        let end = body[at..].windows(4).position(|w| w == b"\r\n\r\n")?;
        return Some(head - 1 + at + end + 4);
    }
    let length: usize = value("content-length:")
        .and_then(|v| v.parse().ok())
        .unwrap_or(0);
    (buf.len() >= head + length).then_some(head + length)
}
