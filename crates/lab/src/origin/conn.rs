//! One connection to the origin.
//!
//! ```text
//!             head complete            body complete           wait over             all sent
//!   Head ───────────────────▶ Body ───────────────────▶ Wait ────────────▶ Send ───────────────▶ Head | closed
//! ```
//! `Body` and `Wait` are passed through at once when there is nothing to read or to wait for. Bytes of a
//! pipelined request stay in `input` until the answer before it has left.

mod send;
mod shared;
mod upload;

use send::Sent;
pub use shared::{Context, Shared};
use upload::{Left, Upload};

use super::plan::{self, Answer, OnBody, Plan};
use crate::http::{self, Chunked, Framing};
use crate::net::{self, Io};
use crate::poll::{ENDED, Flags};
use rustix::fd::OwnedFd;
use rustix::net::RecvFlags;
use std::rc::Rc;
use std::time::Instant;

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
        if !plan.query.busy.is_zero() {
            let until = Instant::now() + plan.query.busy;
            while Instant::now() < until {
                std::hint::spin_loop();
            }
        }
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
}
