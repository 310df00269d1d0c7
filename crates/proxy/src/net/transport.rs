//! A connection's transport and the few operations the data path has on it.
//!
//! The socket is an enum, so that TLS joins as another variant without the stream noticing. Reads go through tokio's `poll_read`,
//! which takes a short read as "drained" and spares the read that would say EAGAIN.

use std::cell::Cell;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

use super::buf::{Buf, BufPool};
use super::outbox;
use super::timer::{Deadline, Timer};

/// A byte stream to a client or server.
pub struct Transport {
    socket: Socket,
    /// The outbox's turn in which a message for this connection leaves, 0 when all have left.
    posted: Cell<u64>,
}

pub enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// A socket that is in no event loop.
pub enum Detached {
    Tcp(std::net::TcpStream),
    Unix(std::os::unix::net::UnixStream),
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

impl From<Socket> for Transport {
    fn from(socket: Socket) -> Self {
        Transport {
            socket,
            posted: Cell::new(0),
        }
    }
}

impl From<TcpStream> for Transport {
    fn from(socket: TcpStream) -> Self {
        Socket::Tcp(socket).into()
    }
}

impl From<UnixStream> for Transport {
    fn from(socket: UnixStream) -> Self {
        Socket::Unix(socket).into()
    }
}

impl Transport {
    /// Takes the socket out of this worker's event loop, for another's.
    pub fn detach(self) -> io::Result<Detached> {
        if self.posted.get() != 0 && !outbox::has_left(self.as_raw_fd(), self.posted.get()) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let fd = self.as_fd().try_clone_to_owned()?;
        Ok(match self.socket {
            Socket::Tcp(_) => Detached::Tcp(fd.into()),
            Socket::Unix(_) => Detached::Unix(fd.into()),
        })
    }

    /// Takes a socket into this worker's event loop.
    pub fn attach(socket: Detached) -> io::Result<Self> {
        Ok(match socket {
            Detached::Tcp(s) => TcpStream::from_std(s)?.into(),
            Detached::Unix(s) => UnixStream::from_std(s)?.into(),
        })
    }

    pub fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Has a small whole message sent at the end of this worker's turn, together with others, and leaves `data` empty.
    /// False: it is too large, or the peer has sent something (its end, perhaps) that is to be seen first; write it.
    pub fn post(&mut self, cx: &mut Context<'_>, data: &mut Vec<u8>) -> bool {
        if data.len() > outbox::SMALL || !self.may_post(cx) {
            return false;
        }
        match outbox::post(self.as_raw_fd(), data) {
            Some(turn) => {
                self.posted.set(turn);
                true
            }
            None => false,
        }
    }

    /// As [`Transport::post`] for bytes that stay where they are.
    pub fn post_copy(&mut self, cx: &mut Context<'_>, parts: &[&[u8]]) -> bool {
        if parts.iter().map(|p| p.len()).sum::<usize>() > outbox::SMALL || !self.may_post(cx) {
            return false;
        }
        let mut sheet = outbox::sheet();
        parts.iter().for_each(|p| sheet.extend_from_slice(p));
        self.post(cx, &mut sheet)
    }

    fn may_post(&self, cx: &mut Context<'_>) -> bool {
        let posted = self.posted.get();
        (posted == 0 || outbox::has_left(self.as_raw_fd(), posted))
            && self.poll_read_ready(cx).is_pending()
    }

    /// Ready when nothing that was posted is still on its way to the socket.
    fn poll_left(&self, cx: &mut Context<'_>) -> Poll<()> {
        if self.posted.get() != 0 {
            ready!(outbox::poll_left(cx, self.as_raw_fd()));
            self.posted.set(0);
        }
        Poll::Ready(())
    }

    pub fn poll_read(&mut self, cx: &mut Context<'_>, room: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut buf = ReadBuf::new(room);
        let polled = match &mut self.socket {
            Socket::Tcp(s) => Pin::new(s).poll_read(cx, &mut buf),
            Socket::Unix(s) => Pin::new(s).poll_read(cx, &mut buf),
        };
        polled.map_ok(|()| buf.filled().len())
    }

    pub fn poll_write(&mut self, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.poll_left(cx));
        match &mut self.socket {
            Socket::Tcp(s) => Pin::new(s).poll_write(cx, data),
            Socket::Unix(s) => Pin::new(s).poll_write(cx, data),
        }
    }

    /// Head and body in one system call.
    pub fn poll_write_two(
        &mut self,
        cx: &mut Context<'_>,
        head: &[u8],
        body: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_left(cx));
        let slices = [io::IoSlice::new(head), io::IoSlice::new(body)];
        match &mut self.socket {
            Socket::Tcp(s) => Pin::new(s).poll_write_vectored(cx, &slices),
            Socket::Unix(s) => Pin::new(s).poll_write_vectored(cx, &slices),
        }
    }

    pub fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &self.socket {
            Socket::Tcp(s) => s.poll_read_ready(cx),
            Socket::Unix(s) => s.poll_read_ready(cx),
        }
    }

    pub fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_left(cx));
        match &self.socket {
            Socket::Tcp(s) => s.poll_write_ready(cx),
            Socket::Unix(s) => s.poll_write_ready(cx),
        }
    }

    /// Runs a system call on the descriptor; `WouldBlock` makes the runtime wait for `interest` anew.
    pub fn try_io<R>(
        &self,
        interest: Interest,
        call: impl FnOnce() -> io::Result<R>,
    ) -> io::Result<R> {
        match &self.socket {
            Socket::Tcp(s) => s.try_io(interest, call),
            Socket::Unix(s) => s.try_io(interest, call),
        }
    }

    /// Reads without waiting. Costs no system call while the runtime knows of nothing to read.
    pub fn try_read(&self, room: &mut [u8]) -> io::Result<usize> {
        match &self.socket {
            Socket::Tcp(s) => s.try_read(room),
            Socket::Unix(s) => s.try_read(room),
        }
    }

    /// Acknowledges at once what came in on a connection that was made to delay that: a server with Nagle's algorithm
    /// that writes head and body apart would wait 40 ms between the two.
    pub fn ack_now(&self) {
        // not TCP, or gone: nobody waits
        let _ = crate::sys::set_int(self, libc::IPPROTO_TCP, libc::TCP_QUICKACK, 1);
    }

    /// Ends our direction; the peer reads end of stream after what was written.
    pub fn shutdown_write(&self) {
        let shut = || {
            // a peer that is gone already needs no farewell
            let _ = socket2::SockRef::from(self).shutdown(std::net::Shutdown::Write);
        };
        match self.posted.get() {
            0 => shut(),
            _ => outbox::shut_after(self.as_raw_fd(), shut),
        }
    }

    /// Makes the close that follows a reset, without TIME_WAIT.
    pub fn reset_on_close(&self) {
        if self.posted.take() != 0 {
            outbox::forget(self.as_raw_fd());
        }
        // fails only on a socket that is gone already
        let _ = socket2::SockRef::from(self).set_linger(Some(std::time::Duration::ZERO));
    }

    /// The peer reset the connection.
    pub fn is_reset(&self) -> bool {
        socket2::SockRef::from(self).peer_addr().is_err()
    }

    pub fn is_tcp(&self) -> bool {
        matches!(self.socket, Socket::Tcp(_))
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

    /// Writes a head and the first bytes of its body, in one call where the socket takes them; a small message is posted.
    pub async fn write_two(
        &mut self,
        head: &[u8],
        body: &[u8],
        timer: &mut Timer,
        timeout_ms: Option<u64>,
    ) -> Result<(), Fail> {
        let posted = std::future::poll_fn(|cx| Poll::Ready(self.post_copy(cx, &[head, body])));
        if posted.await {
            return Ok(());
        }
        if body.is_empty() {
            return self.write_all(head, timer, timeout_ms).await;
        }
        let deadline = Cell::new(None);
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

impl Drop for Transport {
    fn drop(&mut self) {
        if self.posted.get() != 0 {
            outbox::leave(self.as_raw_fd());
        }
    }
}

impl AsFd for Transport {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.socket {
            Socket::Tcp(s) => s.as_fd(),
            Socket::Unix(s) => s.as_fd(),
        }
    }
}

impl AsRawFd for Transport {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}
