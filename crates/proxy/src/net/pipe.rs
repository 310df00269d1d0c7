//! Pipes for splice(2): pooled by the worker, counted by the process (`maxpipes`), made as large as `tune.pipesize` or
//! what the kernel lets a user have.

use std::cell::RefCell;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;

use rustix::pipe::{PipeFlags, SpliceFlags};
use sluice_engine::Runtime;

use super::transport::Transport;

/// Pipes kept for the next transfer.
const KEPT: usize = 32;

/// A pipe's size when `tune.pipesize` is not given: 1 MiB is what an unprivileged user may have by default
/// (`/proc/sys/fs/pipe-max-size`) and is where a bulk transfer stops gaining.
const DEFAULT_SIZE: usize = 1 << 20;

/// A worker's stock of empty pipes.
pub struct PipePool {
    free: RefCell<Vec<(OwnedFd, OwnedFd)>>,
    size: usize,
    runtime: Arc<Runtime>,
}

impl PipePool {
    pub fn new(size: Option<usize>, runtime: Arc<Runtime>) -> Rc<Self> {
        Rc::new(PipePool {
            free: RefCell::default(),
            size: size.unwrap_or(DEFAULT_SIZE),
            runtime,
        })
    }

    /// Lends an empty pipe; `None` when the process's limit is reached or none can be made.
    pub fn lend(self: &Rc<Self>) -> Option<Pipe> {
        if !self
            .runtime
            .counters
            .pipes_used
            .try_enter(self.runtime.maxpipes)
        {
            return None;
        }
        let ends = self.free.borrow_mut().pop().or_else(|| self.make().ok());
        let Some((read, write)) = ends else {
            self.runtime.counters.pipes_used.leave();
            return None;
        };
        Some(Pipe {
            read: Some(read),
            write: Some(write),
            held: 0,
            pool: self.clone(),
        })
    }

    fn make(&self) -> io::Result<(OwnedFd, OwnedFd)> {
        let (read, write) = rustix::pipe::pipe_with(PipeFlags::NONBLOCK | PipeFlags::CLOEXEC)?;
        // a smaller pipe still works: the kernel refuses sizes above its limit for unprivileged users
        let _ = rustix::pipe::fcntl_setpipe_size(&write, self.size);
        Ok((read, write))
    }
}

/// A lent pipe. It goes back to the stock only when it is empty.
pub struct Pipe {
    read: Option<OwnedFd>,
    write: Option<OwnedFd>,
    held: usize,
    pool: Rc<PipePool>,
}

impl Pipe {
    /// Bytes inside.
    pub fn held(&self) -> usize {
        self.held
    }

    /// Moves up to `most` bytes from a socket into the pipe. 0 at the end of the stream.
    pub fn fill(&mut self, from: &Transport, most: usize) -> io::Result<usize> {
        let to = self.write.as_ref().ok_or(io::ErrorKind::BrokenPipe)?;
        let n = rustix::pipe::splice(
            from.as_fd(),
            None,
            to.as_fd(),
            None,
            most,
            SpliceFlags::MOVE | SpliceFlags::NONBLOCK,
        )?;
        self.held += n;
        Ok(n)
    }

    /// Moves what is inside to a socket.
    pub fn drain(&mut self, to: &Transport, more: bool) -> io::Result<usize> {
        let from = self.read.as_ref().ok_or(io::ErrorKind::BrokenPipe)?;
        let mut flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
        if more {
            flags |= SpliceFlags::MORE;
        }
        let n = rustix::pipe::splice(from.as_fd(), None, to.as_fd(), None, self.held, flags)?;
        self.held -= n;
        Ok(n)
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        self.pool.runtime.counters.pipes_used.leave();
        let mut free = self.pool.free.borrow_mut();
        if self.held == 0
            && free.len() < KEPT
            && let (Some(r), Some(w)) = (self.read.take(), self.write.take())
        {
            free.push((r, w));
        }
    }
}
