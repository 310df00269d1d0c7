//! One client connection: sends the bytes it is given and finds the ends of the answers.
//!
//! ```text
//!   Connecting ──▶ idle ──begin()──▶ sending/receiving ──▶ Outcome::Done (n answers) ──▶ idle | closed
//! ```
//! Which request comes when is the worker's matter.

mod answer;

use super::counts::ErrorKind;
use super::mix::Request;
use crate::http::{self, Chunked, ResponseHead};
use crate::net::{self, Io};
use crate::poll::{ENDED, Flags};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::RecvFlags;

/// Read buffer of a thread.
pub const SCRATCH_BYTES: usize = 1 << 20;
/// What is asked for while a head is awaited: a small answer fits whole.
const HEAD_READ_BYTES: usize = 32 * 1024;
/// After an answer at least this long the next head is read alone, and its body thrown away by the kernel.
const LONG_BODY_BYTES: u64 = 64 * 1024;
const SHORT_READ_BYTES: usize = 2048;

/// Buffers and knowledge that a thread's connections share.
pub struct Context {
    pub scratch: Vec<u8>,
    /// The last response head and what it said: servers repeat themselves.
    last_head: (Vec<u8>, Option<ResponseHead>),
    /// Length of the last body.
    last_len: u64,
    pub check: bool,
    pub bytes_in: u64,
    pub bytes_out: u64,
    /// Why the last connection that could not be made could not.
    pub connect_error: Option<i32>,
}

impl Context {
    pub fn new(check: bool) -> Self {
        let scratch = vec![0; SCRATCH_BYTES];
        Self {
            scratch,
            last_head: (Vec::new(), None),
            last_len: 0,
            check,
            bytes_in: 0,
            bytes_out: 0,
            connect_error: None,
        }
    }

    fn response_head(&mut self, head: &[u8]) -> Result<ResponseHead, http::BadMessage> {
        if let (last, Some(known)) = &self.last_head
            && last == head
        {
            return Ok(*known);
        }
        let known = http::response_head(head)?;
        self.last_head.0.clear();
        self.last_head.0.extend_from_slice(head);
        self.last_head.1 = Some(known);
        Ok(known)
    }
}

/// Why a connection stopped moving.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// An event will come.
    Wait,
    /// The connection stands and nothing is asked of it.
    Ready,
    /// The answer (the last of a pipeline) is complete.
    Done(Answer),
    /// It failed.
    Failed(ErrorKind),
    /// The server ended an idle connection.
    Ended,
}

/// A complete answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// Status code.
    pub status: u16,
    /// Whether the connection can be used again.
    pub keep_alive: bool,
    /// Whether it was what the request asked for; always true when not checking.
    pub right: bool,
}

pub struct Conn {
    fd: OwnedFd,
    pub connected: bool,
    /// The request, and how often it was sent at once.
    request: Option<(u32, u32)>,
    /// Wire position in the request being sent.
    pos: u64,
    /// Answers outstanding.
    awaited: u32,
    rx: Rx,
    answer: Option<ResponseHead>,
    right: bool,
    body_len: u64,
    input: Vec<u8>,
    readable: bool,
    ended: bool,
}

#[derive(Debug)]
enum Rx {
    Head,
    Length(u64),
    Chunked(Chunked),
    UntilClose,
}

impl Conn {
    pub fn new(fd: OwnedFd, connected: bool) -> Self {
        Self {
            fd,
            connected,
            request: None,
            pos: 0,
            awaited: 0,
            rx: Rx::Head,
            answer: None,
            right: true,
            body_len: 0,
            input: Vec::new(),
            readable: false,
            ended: false,
        }
    }

    pub fn fd(&self) -> &OwnedFd {
        &self.fd
    }

    /// Whether the server has ended its direction, so that the connection is of no more use.
    pub fn ended(&self) -> bool {
        self.ended
    }

    /// Whether answers are outstanding.
    pub fn busy(&self) -> bool {
        self.awaited > 0
    }

    /// Begins to send a request `times` over; the connection must stand and be idle.
    pub fn begin(&mut self, request: u32, times: u32) {
        debug_assert!(self.connected && self.awaited == 0);
        self.request = Some((request, times));
        self.pos = 0;
        self.awaited = times;
    }

    /// Goes as far as it can. `on_answer` is told of every answer but the last, which is the outcome.
    pub fn drive(
        &mut self,
        context: &mut Context,
        requests: &[Request],
        flags: Flags,
        mut on_answer: impl FnMut(Answer),
    ) -> Outcome {
        self.readable |= flags.intersects(Flags::IN | ENDED);
        self.ended |= flags.intersects(ENDED);
        if !self.connected {
            match self.finish_connect(context, flags) {
                Outcome::Ready => {}
                other => return other,
            }
        }
        let Some((index, times)) = self.request else {
            return self.idle();
        };
        let Some(request) = requests.get(index as usize) else {
            return Outcome::Wait;
        };
        if let Some(outcome) = self.send(context, request, times) {
            return outcome;
        }
        loop {
            match self.receive(context, request) {
                Some(Outcome::Done(answer)) => {
                    self.awaited -= 1;
                    if self.awaited == 0 {
                        self.request = None;
                        return Outcome::Done(answer);
                    }
                    if !answer.keep_alive {
                        return Outcome::Failed(ErrorKind::Ended);
                    }
                    on_answer(answer);
                }
                Some(other) => return other,
                None => return Outcome::Wait,
            }
        }
    }

    fn finish_connect(&mut self, context: &mut Context, flags: Flags) -> Outcome {
        if flags.is_empty() {
            return Outcome::Wait;
        }
        match rustix::net::sockopt::socket_error(&self.fd) {
            Ok(Ok(())) if flags.intersects(Flags::OUT) => {
                self.connected = true;
                Outcome::Ready
            }
            Ok(Ok(())) if !flags.intersects(ENDED) => Outcome::Wait,
            // Taken and reset at once: the connection stood.
            Ok(Err(Errno::CONNRESET | Errno::PIPE)) => {
                self.connected = true;
                Outcome::Failed(ErrorKind::Reset)
            }
            Ok(Err(errno)) | Err(errno) => {
                context.connect_error = Some(errno.raw_os_error());
                Outcome::Failed(ErrorKind::Connect)
            }
            Ok(Ok(())) => Outcome::Failed(ErrorKind::Connect),
        }
    }

    fn idle(&mut self) -> Outcome {
        if !self.readable {
            return Outcome::Ready;
        }
        let mut one = [0u8; 1];
        match net::recv(&self.fd, &mut one, RecvFlags::empty()) {
            Io::Blocked => {
                self.readable = false;
                Outcome::Ready
            }
            // Bytes that nobody asked for leave the connection in an unknown state.
            Io::Bytes(_) => Outcome::Failed(ErrorKind::Malformed),
            Io::End | Io::Failed(_) => Outcome::Ended,
        }
    }

    /// Sends what is left; `None` when there is nothing more to send now.
    fn send(&mut self, context: &mut Context, request: &Request, times: u32) -> Option<Outcome> {
        let each = request.wire_len();
        let total = each * u64::from(times);
        while self.pos < total {
            let at = self.pos % each;
            let result = if times > 1 && request.rest.is_none() {
                // A pipeline leaves in one write.
                let mut batch = Vec::with_capacity((total - self.pos) as usize);
                batch.extend_from_slice(&request.start[at as usize..]);
                while (batch.len() as u64) < total - self.pos {
                    batch.extend_from_slice(&request.start);
                }
                net::send(&self.fd, &batch, false)
            } else if at < request.start.len() as u64 {
                net::send(
                    &self.fd,
                    &request.start[at as usize..],
                    request.rest.is_some(),
                )
            } else {
                let body = request.rest?;
                let room = HEAD_READ_BYTES.min(context.scratch.len());
                let len = body.fill(
                    at - request.start.len() as u64,
                    &mut context.scratch[..room],
                );
                net::send(&self.fd, &context.scratch[..len], false)
            };
            match result {
                Io::Bytes(len) => {
                    self.pos += len as u64;
                    context.bytes_out += len as u64;
                }
                // An answer may come before the request is all sent.
                Io::Blocked => return None,
                // So it may after the server stopped reading: look for it.
                Io::End | Io::Failed(_) => {
                    self.readable = true;
                    self.ended = true;
                    return None;
                }
            }
        }
        None
    }
}
