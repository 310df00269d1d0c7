//! One connection to the origin.
//!
//! ```text
//!             head complete            body complete           wait over             all sent
//!   Head ───────────────────▶ Body ───────────────────▶ Wait ────────────▶ Send ───────────────▶ Head | closed
//! ```
//! `Body` and `Wait` are passed through at once when there is nothing to read or to wait for. Bytes of a
//! pipelined request stay in `input` until the answer before it has left.

use super::plan::{self, Answer, By, OnBody, Plan, Rest};
use crate::http::{self, Chunked, Framing};
use crate::net::{self, Io};
use crate::pattern;
use crate::poll::{ENDED, Flags};
use rustix::fd::OwnedFd;
use rustix::net::RecvFlags;
use std::collections::HashMap;
use std::os::fd::AsFd;
use std::path::{Component, Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

/// Read buffer of a thread: more than a socket gives at once under load.
const SCRATCH_BYTES: usize = 256 * 1024;
/// The incompressible content that large objects repeat.
const BLOCK_BYTES: u64 = 4 << 20;
/// Copied at once: stays in the second-level cache.
const COPY_BYTES_MAX: u64 = 256 * 1024;
/// How much `/echo` keeps of a body.
const ECHO_BYTES_MAX: usize = 16 << 20;
/// How many distinct request heads a thread remembers the answers of.
const PLANS_MAX: usize = 64;

/// What all threads read from.
#[derive(Debug)]
pub struct Shared {
    block: Vec<u8>,
    /// The same bytes as a memory file, for `sendfile`.
    block_file: OwnedFd,
    root: Option<PathBuf>,
}

impl Shared {
    /// Makes the content block.
    ///
    /// # Errors
    /// When the kernel gives no memory file.
    pub fn new(root: Option<PathBuf>) -> std::io::Result<Self> {
        let block_file =
            rustix::fs::memfd_create("origin-content", rustix::fs::MemfdFlags::CLOEXEC)?;
        let mut block = vec![0; BLOCK_BYTES as usize];
        pattern::fill(0, 0, &mut block);
        std::io::Write::write_all(&mut std::fs::File::from(block_file.try_clone()?), &block)?;
        Ok(Self {
            block,
            block_file,
            root,
        })
    }

    fn open(&self, path: &[u8]) -> Option<(std::fs::File, u64)> {
        let root = self.root.as_ref()?;
        let path = Path::new(std::str::from_utf8(path).ok()?.trim_start_matches('/'));
        if !path
            .components()
            .all(|part| matches!(part, Component::Normal(_)))
        {
            return None;
        }
        let file = std::fs::File::open(root.join(path)).ok()?;
        let meta = file.metadata().ok()?;
        meta.is_file().then_some((file, meta.len()))
    }
}

/// What a thread's connections share.
pub struct Context {
    shared: Arc<Shared>,
    scratch: Vec<u8>,
    plans: HashMap<Vec<u8>, Rc<Plan>>,
    last: Option<(Vec<u8>, Option<u16>, Rc<Plan>)>,
    /// Requests answered since the thread last took this.
    pub requests: u64,
    /// Requests refused since the thread last took this.
    pub bad: u64,
}

impl Context {
    pub fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            scratch: vec![0; SCRATCH_BYTES],
            plans: HashMap::new(),
            last: None,
            requests: 0,
            bad: 0,
        }
    }

    /// The plan for a request head. Load generators repeat themselves: a head that equals the last one, or one
    /// that was seen lately, is not parsed again.
    fn plan(&mut self, head: &[u8], server: Option<u16>) -> Result<Rc<Plan>, http::BadMessage> {
        if let Some((last, name, plan)) = &self.last
            && last == head
            && *name == server
        {
            return Ok(Rc::clone(plan));
        }
        let known = if server.is_none() {
            self.plans.get(head)
        } else {
            None
        };
        let plan = match known {
            Some(plan) => Rc::clone(plan),
            None => {
                let shared = &self.shared;
                let plan = Rc::new(plan::plan(
                    &http::request_head(head)?,
                    head,
                    server,
                    |path| shared.open(path),
                ));
                if self.plans.len() >= PLANS_MAX {
                    self.plans.clear();
                }
                if server.is_none() {
                    self.plans.insert(head.to_vec(), Rc::clone(&plan));
                }
                plan
            }
        };
        self.last = Some((head.to_vec(), server, Rc::clone(&plan)));
        Ok(plan)
    }
}

/// What becomes of the connection after it was driven.
pub enum Fate {
    /// An event will come.
    Wait,
    /// A timer is wanted.
    WaitUntil(u64),
    /// It is over.
    Close,
}

pub struct Conn {
    fd: OwnedFd,
    server: Option<u16>,
    state: State,
    /// Received and not yet understood.
    input: Vec<u8>,
    /// Bytes of `input` that are known not to hold a whole head.
    scanned: usize,
    /// The socket may hold more.
    readable: bool,
    /// The peer ended, so the end must be read even after a short read.
    ended: bool,
}

enum State {
    Head,
    Body(Box<Upload>),
    Send {
        plan: Rc<Plan>,
        made: Option<Answer>,
        pos: u64,
        wait_until_ns: Option<u64>,
        waited: bool,
    },
}

/// A request body being read.
struct Upload {
    plan: Rc<Plan>,
    left: Left,
    count: u64,
    wrong_at: Option<u64>,
    kept: Vec<u8>,
}

enum Left {
    Bytes(u64),
    Chunked(Chunked),
}

impl Upload {
    fn take(&mut self, data: &[u8]) {
        match self.plan.body {
            OnBody::Verify(Some(seed)) if self.wrong_at.is_none() => {
                self.wrong_at =
                    pattern::mismatch(seed, self.count, data).map(|at| self.count + at as u64);
            }
            OnBody::Echo => {
                let room = ECHO_BYTES_MAX
                    .saturating_sub(self.kept.len())
                    .min(data.len());
                self.kept.extend_from_slice(&data[..room]);
            }
            _ => {}
        }
        self.count += data.len() as u64;
    }

    /// Bytes of `data` that belong to the body, and whether it is complete.
    fn feed(&mut self, data: &[u8]) -> Result<(usize, bool), http::BadMessage> {
        match std::mem::replace(&mut self.left, Left::Bytes(0)) {
            Left::Bytes(left) => {
                let len = usize::try_from(left).unwrap_or(usize::MAX).min(data.len());
                self.take(&data[..len]);
                self.left = Left::Bytes(left - len as u64);
                Ok((len, left == len as u64))
            }
            Left::Chunked(mut decoder) => {
                let result = decoder.feed(data, |piece| self.take(piece));
                self.left = Left::Chunked(decoder);
                result
            }
        }
    }

    fn answer(&self, server: Option<u16>) -> Option<Answer> {
        match (self.plan.body, self.wrong_at) {
            (OnBody::Skip, _) => None,
            (OnBody::Echo, _) => Some(plan::after_body(&self.plan, server, 200, &self.kept)),
            (OnBody::Verify(_), None) => Some(plan::after_body(
                &self.plan,
                server,
                200,
                format!("ok {}\n", self.count).as_bytes(),
            )),
            (OnBody::Verify(_), Some(at)) => {
                let text = format!("mismatch {} at {at}\n", self.count);
                Some(plan::after_body(&self.plan, server, 422, text.as_bytes()))
            }
        }
    }
}

impl Conn {
    pub fn new(fd: OwnedFd, server: Option<u16>) -> Self {
        Self {
            fd,
            server,
            state: State::Head,
            input: Vec::new(),
            scanned: 0,
            readable: false,
            ended: false,
        }
    }

    /// Goes as far as it can.
    pub fn drive(&mut self, context: &mut Context, flags: Flags, now_ns: u64) -> Fate {
        self.readable |= flags.intersects(Flags::IN | ENDED);
        self.ended |= flags.intersects(ENDED);
        loop {
            if matches!(self.state, State::Send { .. }) {
                match self.send(context, now_ns) {
                    Sent::All if self.closing() => return Fate::Close,
                    Sent::All => self.state = State::Head,
                    Sent::Blocked => return Fate::Wait,
                    Sent::Paused(at_ns) => return Fate::WaitUntil(at_ns),
                    Sent::Gone => return Fate::Close,
                }
            }
            if self.input.len() > self.scanned {
                let input = std::mem::take(&mut self.input);
                let used = self.consume(context, &input);
                self.keep(&input[used..], input.len() > http::HEAD_BYTES_MAX, context);
                continue;
            }
            if !self.readable {
                return Fate::Wait;
            }
            // The scratch buffer leaves the context while its bytes are looked at.
            let mut scratch = std::mem::take(&mut context.scratch);
            let got = net::recv(&self.fd, &mut scratch, RecvFlags::empty());
            if let Io::Bytes(len) = got {
                self.readable = len == scratch.len() || self.ended;
                if self.input.is_empty() {
                    let used = self.consume(context, &scratch[..len]);
                    self.keep(&scratch[used..len], false, context);
                } else {
                    self.input.extend_from_slice(&scratch[..len]);
                    self.scanned = 0;
                }
            }
            context.scratch = scratch;
            match got {
                Io::Bytes(_) => {}
                Io::Blocked => {
                    self.readable = false;
                    return Fate::Wait;
                }
                Io::End | Io::Failed(_) => return Fate::Close,
            }
        }
    }

    /// Puts aside what no complete head was found in, or what belongs to a later request.
    fn keep(&mut self, rest: &[u8], too_long: bool, context: &mut Context) {
        self.input.clear();
        self.input.extend_from_slice(rest);
        self.scanned = if matches!(self.state, State::Head) {
            rest.len()
        } else {
            0
        };
        if too_long && matches!(self.state, State::Head) && rest.len() > http::HEAD_BYTES_MAX {
            self.refuse(context);
        }
    }

    /// Takes request bytes until an answer is due; returns how many it took.
    fn consume(&mut self, context: &mut Context, data: &[u8]) -> usize {
        let mut used = 0;
        while used < data.len() {
            match &mut self.state {
                State::Head => {
                    let Some(len) = http::head_len(&data[used..]) else {
                        break;
                    };
                    let plan = context.plan(&data[used..used + len], self.server);
                    used += len;
                    match plan {
                        Ok(plan) => self.begin(plan),
                        Err(_) => {
                            self.refuse(context);
                            return data.len();
                        }
                    }
                    context.requests += 1;
                }
                State::Body(upload) => match upload.feed(&data[used..]) {
                    Ok((len, done)) => {
                        used += len;
                        if done {
                            let (plan, made) =
                                (Rc::clone(&upload.plan), upload.answer(self.server));
                            self.state = State::Send {
                                plan,
                                made,
                                pos: 0,
                                wait_until_ns: None,
                                waited: false,
                            };
                        }
                    }
                    Err(_) => {
                        self.refuse(context);
                        return data.len();
                    }
                },
                State::Send { .. } => break,
            }
        }
        used
    }

    fn begin(&mut self, plan: Rc<Plan>) {
        let left = match plan.request {
            Framing::Chunked => Left::Chunked(Chunked::default()),
            Framing::Length(len) => Left::Bytes(len),
            Framing::Close => Left::Bytes(0),
        };
        if plan.send_continue {
            let _ = net::send(&self.fd, b"HTTP/1.1 100 Continue\r\n\r\n", false);
        }
        let upload = Upload {
            plan,
            left,
            count: 0,
            wrong_at: None,
            kept: Vec::new(),
        };
        self.state = if matches!(upload.left, Left::Bytes(0)) {
            let made = upload.answer(self.server);
            State::Send {
                plan: upload.plan,
                made,
                pos: 0,
                wait_until_ns: None,
                waited: false,
            }
        } else {
            State::Body(Box::new(upload))
        };
    }

    fn refuse(&mut self, context: &mut Context) {
        context.bad += 1;
        let plan = Rc::new(Plan {
            request: Framing::Length(0),
            send_continue: false,
            body: OnBody::Skip,
            answer: plan::bad_request(),
            query: plan::Query::default(),
            close: true,
            head_only: false,
        });
        self.input.clear();
        self.state = State::Send {
            plan,
            made: None,
            pos: 0,
            wait_until_ns: None,
            waited: false,
        };
    }

    fn closing(&self) -> bool {
        matches!(&self.state, State::Send { plan, .. } if plan.close)
    }

    fn send(&mut self, context: &mut Context, now_ns: u64) -> Sent {
        let State::Send {
            plan,
            made,
            pos,
            wait_until_ns,
            waited,
        } = &mut self.state
        else {
            return Sent::All;
        };
        if let Some(at_ns) = *wait_until_ns {
            if now_ns < at_ns {
                return Sent::Paused(at_ns);
            }
            *wait_until_ns = None;
        } else if plan.query.wait_ms > 0 && !*waited {
            let at_ns = now_ns + plan.query.wait_ms * 1_000_000;
            (*wait_until_ns, *waited) = (Some(at_ns), true);
            return Sent::Paused(at_ns);
        }
        let answer = made.as_ref().unwrap_or(&plan.answer);
        let (start_len, total) = (
            answer.start.len() as u64,
            answer.start.len() as u64 + answer.rest.wire_len(),
        );
        let until = plan
            .query
            .slow
            .map_or(total, |(piece, _)| total.min(*pos + piece));
        while *pos < until {
            let result = if *pos < start_len {
                let end = until.min(start_len) as usize;
                net::send(
                    &self.fd,
                    &answer.start[*pos as usize..end],
                    until > start_len,
                )
            } else {
                send_rest(
                    &self.fd,
                    &answer.rest,
                    *pos - start_len,
                    until - *pos,
                    context,
                )
            };
            match result {
                Io::Bytes(len) => *pos += len as u64,
                Io::Blocked => return Sent::Blocked,
                Io::End | Io::Failed(_) => return Sent::Gone,
            }
        }
        match plan.query.slow {
            Some((_, pause_ms)) if *pos < total => {
                let at_ns = now_ns + pause_ms * 1_000_000;
                *wait_until_ns = Some(at_ns);
                Sent::Paused(at_ns)
            }
            _ => Sent::All,
        }
    }
}

enum Sent {
    All,
    Blocked,
    Paused(u64),
    Gone,
}

fn send_rest(fd: &OwnedFd, rest: &Rest, pos: u64, len_max: u64, context: &mut Context) -> Io {
    match rest {
        Rest::None => Io::Failed(rustix::io::Errno::INVAL),
        Rest::Made(body) => {
            let room = usize::try_from(len_max)
                .unwrap_or(usize::MAX)
                .min(context.scratch.len());
            let len = body.fill(pos, &mut context.scratch[..room]);
            net::send(fd, &context.scratch[..len], false)
        }
        Rest::Block(_, how) => {
            let at = pos % BLOCK_BYTES;
            let len = len_max.min(BLOCK_BYTES - at);
            match how {
                By::Reference => send_file(fd, &context.shared.block_file, at, len),
                By::Copy => {
                    let len = len.min(COPY_BYTES_MAX);
                    net::send(
                        fd,
                        &context.shared.block[at as usize..(at + len) as usize],
                        false,
                    )
                }
            }
        }
        Rest::File(file, _) => send_file(fd, file, pos, len_max),
    }
}

/// `sendfile` moves page references, not bytes: content costs the origin nearly nothing.
fn send_file(fd: &OwnedFd, file: &impl AsFd, at: u64, len: u64) -> Io {
    let mut offset = at;
    let len = usize::try_from(len).unwrap_or(usize::MAX);
    loop {
        return match rustix::fs::sendfile(fd, file, Some(&mut offset), len) {
            Ok(0) => Io::End,
            Ok(len) => Io::Bytes(len),
            Err(rustix::io::Errno::AGAIN) => Io::Blocked,
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => Io::Failed(error),
        };
    }
}
