//! A connection's transport and the few operations the data path has on it.
//!
//! An enum, so that TLS joins as another variant without the stream noticing. Reads go through tokio's `poll_read`,
//! which takes a short read as "drained" and spares the read that would say EAGAIN.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

use super::buf::{Buf, BufPool};
use super::timer::{Deadline, Timer};

/// A byte stream to a client or server.
pub enum Transport {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// Why an operation on a connection ended without its result.
#[derive(Debug)]
pub enum Fail {
    Timeout,
    Io(io::Error),
}

impl From<io::Error> for Fail {
    fn from(e: io::Error) -> Self {
        Fail::Io(e)
    }
}

impl Transport {
    pub fn poll_read(&mut self, cx: &mut Context<'_>, room: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut buf = ReadBuf::new(room);
        let polled = match self {
            Transport::Tcp(s) => Pin::new(s).poll_read(cx, &mut buf),
            Transport::Unix(s) => Pin::new(s).poll_read(cx, &mut buf),
        };
        polled.map_ok(|()| buf.filled().len())
    }

    pub fn poll_write(&mut self, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        match self {
            Transport::Tcp(s) => Pin::new(s).poll_write(cx, data),
            Transport::Unix(s) => Pin::new(s).poll_write(cx, data),
        }
    }

    /// Head and body in one system call.
    pub fn poll_write_two(
        &mut self,
        cx: &mut Context<'_>,
        head: &[u8],
        body: &[u8],
    ) -> Poll<io::Result<usize>> {
        let slices = [io::IoSlice::new(head), io::IoSlice::new(body)];
        match self {
            Transport::Tcp(s) => Pin::new(s).poll_write_vectored(cx, &slices),
            Transport::Unix(s) => Pin::new(s).poll_write_vectored(cx, &slices),
        }
    }

    pub fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Transport::Tcp(s) => s.poll_read_ready(cx),
            Transport::Unix(s) => s.poll_read_ready(cx),
        }
    }

    pub fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Transport::Tcp(s) => s.poll_write_ready(cx),
            Transport::Unix(s) => s.poll_write_ready(cx),
        }
    }

    /// Runs a system call on the descriptor; `WouldBlock` makes the runtime wait for `interest` anew.
    pub fn try_io<R>(
        &self,
        interest: Interest,
        call: impl FnOnce() -> io::Result<R>,
    ) -> io::Result<R> {
        match self {
            Transport::Tcp(s) => s.try_io(interest, call),
            Transport::Unix(s) => s.try_io(interest, call),
        }
    }

    /// Reads without waiting. Costs no system call while the runtime knows of nothing to read.
    pub fn try_read(&self, room: &mut [u8]) -> io::Result<usize> {
        match self {
            Transport::Tcp(s) => s.try_read(room),
            Transport::Unix(s) => s.try_read(room),
        }
    }

    /// Ends our direction; the peer reads end of stream after what was written.
    pub fn shutdown_write(&self) {
        // a peer that is gone already needs no farewell
        let _ = socket2::SockRef::from(self).shutdown(std::net::Shutdown::Write);
    }

    /// Makes the close that follows a reset, without TIME_WAIT.
    pub fn reset_on_close(&self) {
        // fails only on a socket that is gone already
        let _ = socket2::SockRef::from(self).set_linger(Some(std::time::Duration::ZERO));
    }

    pub fn is_tcp(&self) -> bool {
        matches!(self, Transport::Tcp(_))
    }

    /// Waits for bytes and reads once into a lent buffer. `None` at the end of the stream.
    pub async fn read(
        &mut self,
        pool: &Rc<BufPool>,
        timer: &mut Timer,
        deadline: Deadline,
    ) -> Result<Option<Buf>, Fail> {
        std::future::poll_fn(|cx| {
            let mut buf = pool.lend();
            match self.poll_read(cx, buf.room()) {
                Poll::Ready(Ok(0)) => Poll::Ready(Ok(None)),
                Poll::Ready(Ok(n)) => {
                    buf.filled(n);
                    Poll::Ready(Ok(Some(buf)))
                }
                Poll::Ready(Err(e)) => Poll::Ready(Err(Fail::Io(e))),
                Poll::Pending => timer.poll(cx, deadline).map(|()| Err(Fail::Timeout)),
            }
        })
        .await
    }

    /// Writes everything, waiting where it must. The deadline counts from each progress.
    pub async fn write_all(
        &mut self,
        mut data: &[u8],
        timer: &mut Timer,
        timeout_ms: Option<u64>,
    ) -> Result<(), Fail> {
        let mut deadline = None;
        while !data.is_empty() {
            let n = std::future::poll_fn(|cx| match self.poll_write(cx, data) {
                Poll::Ready(r) => Poll::Ready(r.map_err(Fail::Io)),
                Poll::Pending => {
                    let at = *deadline.get_or_insert_with(|| super::timer::after_ms(timeout_ms));
                    timer.poll(cx, at).map(|()| Err(Fail::Timeout))
                }
            })
            .await?;
            deadline = None;
            data = &data[n..];
        }
        Ok(())
    }

    /// Writes a head and the first bytes of its body, in one call where the socket takes them.
    pub async fn write_two(
        &mut self,
        head: &[u8],
        body: &[u8],
        timer: &mut Timer,
        timeout_ms: Option<u64>,
    ) -> Result<(), Fail> {
        if body.is_empty() {
            return self.write_all(head, timer, timeout_ms).await;
        }
        let deadline = std::cell::Cell::new(None);
        let n = std::future::poll_fn(|cx| match self.poll_write_two(cx, head, body) {
            Poll::Ready(r) => Poll::Ready(r.map_err(Fail::Io)),
            Poll::Pending => {
                let at = deadline
                    .get()
                    .unwrap_or_else(|| super::timer::after_ms(timeout_ms));
                deadline.set(Some(at));
                timer.poll(cx, at).map(|()| Err(Fail::Timeout))
            }
        })
        .await?;
        if n < head.len() {
            self.write_all(&head[n..], timer, timeout_ms).await?;
            return self.write_all(body, timer, timeout_ms).await;
        }
        self.write_all(&body[n - head.len()..], timer, timeout_ms)
            .await
    }
}

impl AsFd for Transport {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Transport::Tcp(s) => s.as_fd(),
            Transport::Unix(s) => s.as_fd(),
        }
    }
}

impl AsRawFd for Transport {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}
