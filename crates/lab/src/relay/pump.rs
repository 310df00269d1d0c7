//! One direction of a relayed connection, moved by copying or by splicing.

use super::Side;
use crate::net::{self, Io};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::RecvFlags;
use rustix::pipe::{PipeFlags, SpliceFlags};

/// What one direction has not delivered yet.
#[derive(Default)]
pub struct Pump {
    /// Copy loop: bytes that the receiver did not take at once.
    pending: Vec<u8>,
    /// Splice loop: the pipe, while bytes are in it.
    pipe: Option<Pipe>,
    finished: bool,
}

/// A pipe and how many bytes are in it.
pub struct Pipe {
    read: OwnedFd,
    write: OwnedFd,
    held: usize,
}

/// How a direction stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moved {
    /// Waits for an event.
    Waiting,
    /// The sender ended, everything is delivered, and the receiver was told.
    Finished,
    /// The connection is gone.
    Broken,
}

/// Empty pipes of a thread: an idle connection owns none.
pub struct Pipes {
    free: Vec<Pipe>,
    bytes: usize,
}

/// Pipes kept for later; more than this were needed only in a burst.
const PIPES_MAX: usize = 512;

impl Pipes {
    pub fn new(bytes: usize) -> Self {
        Self {
            free: Vec::new(),
            bytes,
        }
    }

    fn take(&mut self) -> Option<Pipe> {
        if let Some(pipe) = self.free.pop() {
            return Some(pipe);
        }
        let (read, write) =
            rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).ok()?;
        // The kernel may refuse a large pipe; the default one works too, only with more calls.
        let _ = rustix::pipe::fcntl_setpipe_size(&write, self.bytes);
        Some(Pipe {
            read,
            write,
            held: 0,
        })
    }

    fn put(&mut self, pipe: Pipe) {
        if pipe.held == 0 && self.free.len() < PIPES_MAX {
            self.free.push(pipe);
        }
    }

    pub fn give_back(&mut self, pump: Pump) {
        if let Some(pipe) = pump.pipe {
            self.put(pipe);
        }
    }
}

impl Pump {
    /// Moves bytes through the thread's buffer.
    pub fn copy(&mut self, from: &mut Side, to: &Side, scratch: &mut [u8]) -> Moved {
        if self.finished {
            return Moved::Finished;
        }
        while !self.pending.is_empty() {
            match net::send(&to.fd, &self.pending, false) {
                Io::Bytes(len) => drop(self.pending.drain(..len)),
                Io::Blocked => return Moved::Waiting,
                Io::End | Io::Failed(_) => return Moved::Broken,
            }
        }
        while from.readable {
            let len = match net::recv(&from.fd, scratch, RecvFlags::empty()) {
                Io::Bytes(len) => len,
                Io::Blocked => {
                    from.readable = false;
                    return Moved::Waiting;
                }
                Io::End => return self.finish(to),
                Io::Failed(_) => return Moved::Broken,
            };
            // A short read emptied the socket: asking again would only tell so.
            from.readable = len == scratch.len() || from.ended;
            let mut data = &scratch[..len];
            while !data.is_empty() {
                match net::send(&to.fd, data, false) {
                    Io::Bytes(len) => data = &data[len..],
                    Io::Blocked => {
                        self.pending.extend_from_slice(data);
                        return Moved::Waiting;
                    }
                    Io::End | Io::Failed(_) => return Moved::Broken,
                }
            }
        }
        Moved::Waiting
    }

    /// Moves bytes through a pipe, without copying them.
    pub fn splice(&mut self, from: &mut Side, to: &Side, pipes: &mut Pipes) -> Moved {
        const ONCE: usize = 1 << 30;
        let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
        if self.finished {
            return Moved::Finished;
        }
        loop {
            if let Some(pipe) = &mut self.pipe {
                while pipe.held > 0 {
                    match rustix::pipe::splice(&pipe.read, None, &to.fd, None, pipe.held, flags) {
                        Ok(len) => pipe.held -= len,
                        Err(Errno::AGAIN) => return Moved::Waiting,
                        Err(Errno::INTR) => {}
                        Err(_) => return Moved::Broken,
                    }
                }
            }
            if !from.readable {
                if let Some(pipe) = self.pipe.take() {
                    pipes.put(pipe);
                }
                return Moved::Waiting;
            }
            if self.pipe.is_none() {
                self.pipe = pipes.take();
            }
            let Some(pipe) = &mut self.pipe else {
                return Moved::Broken;
            };
            match rustix::pipe::splice(&from.fd, None, &pipe.write, None, ONCE, flags) {
                Ok(0) => {
                    if let Some(pipe) = self.pipe.take() {
                        pipes.put(pipe);
                    }
                    return self.finish(to);
                }
                Ok(len) => pipe.held = len,
                Err(Errno::AGAIN) => from.readable = false,
                Err(Errno::INTR) => {}
                Err(_) => return Moved::Broken,
            }
        }
    }

    fn finish(&mut self, to: &Side) -> Moved {
        net::shutdown_write(&to.fd);
        self.finished = true;
        Moved::Finished
    }
}
