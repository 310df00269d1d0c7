//! Sockets as all the tools want them: nonblocking, no Nagle, no signal on a broken pipe.

use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::io;
use std::net::{IpAddr, SocketAddr};

/// Pending connections a listener may hold; the kernel cuts it to `net.core.somaxconn`.
const BACKLOG: i32 = 65_535;

/// A nonblocking listener that shares its port with the other threads' (`SO_REUSEPORT`) when `shared`.
///
/// # Errors
/// Names the address, as in `cannot listen on 127.0.0.1:80: permission denied`.
pub fn listen(addr: SocketAddr, shared: bool) -> io::Result<OwnedFd> {
    let open = || {
        let socket = Socket::new(
            Domain::for_address(addr),
            Type::STREAM.nonblocking().cloexec(),
            Some(Protocol::TCP),
        )?;
        socket.set_reuse_address(true)?;
        socket.set_reuse_port(shared)?;
        socket.set_tcp_nodelay(true)?;
        socket.bind(&addr.into())?;
        socket.listen(BACKLOG)?;
        Ok(socket.into())
    };
    open().map_err(|error: io::Error| {
        let why = match error.kind() {
            io::ErrorKind::AddrInUse => {
                format!(
                    "the port is in use ('ss -ltnp sport = :{}' tells by whom)",
                    addr.port()
                )
            }
            _ => plain_words(&error),
        };
        io::Error::new(error.kind(), format!("cannot listen on {addr}: {why}"))
    })
}

/// Whether a shared listener would be alone: `SO_REUSEPORT` takes a port that another program of this user shares too,
/// and half of the connections would silently go there.
///
/// # Errors
/// As [`listen`], when somebody listens there already.
pub fn check_free(addr: SocketAddr) -> io::Result<()> {
    listen(addr, false).map(drop)
}

/// What went wrong, without the number: `connection refused`.
#[must_use]
pub fn plain_words(error: &io::Error) -> String {
    let text = error.to_string();
    let words = text.split(" (os error").next().unwrap_or_default();
    words.to_lowercase()
}

/// The address a listener really has (its port may have been chosen by the kernel).
///
/// # Errors
/// As `getsockname`.
pub fn local_addr(fd: &OwnedFd) -> io::Result<SocketAddr> {
    let addr = rustix::net::getsockname(fd)?;
    SocketAddr::try_from(addr).map_err(|_| io::Error::other("not an internet socket"))
}

/// Takes one connection from a listener; `None` when there is none now.
///
/// # Errors
/// As `accept4`, except that a connection which ended before it was taken is skipped.
pub fn accept(listener: &OwnedFd) -> io::Result<Option<OwnedFd>> {
    use rustix::net::SocketFlags;
    loop {
        match rustix::net::accept_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
            Ok(fd) => return Ok(Some(fd)),
            Err(Errno::AGAIN) => return Ok(None),
            Err(Errno::INTR | Errno::CONNABORTED) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Begins to connect. The flag tells whether the connection stands already (usual on the loopback).
///
/// # Errors
/// As `socket`, `bind` and `connect`.
pub fn connect(to: SocketAddr, from: Option<IpAddr>) -> io::Result<(OwnedFd, bool)> {
    let socket = Socket::new(
        Domain::for_address(to),
        Type::STREAM.nonblocking().cloexec(),
        Some(Protocol::TCP),
    )?;
    socket.set_tcp_nodelay(true)?;
    if let Some(ip) = from {
        // The port is chosen at connect time, when the four-tuple is known: otherwise 28 000 connections use
        // up an address whatever they are connected to.
        crate::sys::bind_address_no_port(&socket)?;
        socket.bind(&SockAddr::from(SocketAddr::new(ip, 0)))?;
    }
    match socket.connect(&SockAddr::from(to)) {
        Ok(()) => Ok((socket.into(), true)),
        Err(error) if error.raw_os_error() == Some(Errno::INPROGRESS.raw_os_error()) => {
            Ok((socket.into(), false))
        }
        Err(error) => Err(error),
    }
}

/// How a nonblocking transfer went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Io {
    /// So many bytes moved.
    Bytes(usize),
    /// The peer ended its direction.
    End,
    /// Nothing now.
    Blocked,
    /// The connection is gone.
    Failed(Errno),
}

/// Receives into `buf`.
pub fn recv(fd: &OwnedFd, buf: &mut [u8], flags: RecvFlags) -> Io {
    loop {
        return match rustix::net::recv(fd, &mut *buf, flags) {
            Ok((_, 0)) => Io::End,
            Ok((_, len)) => Io::Bytes(len),
            Err(Errno::AGAIN) => Io::Blocked,
            Err(Errno::INTR) => continue,
            Err(error) => Io::Failed(error),
        };
    }
}

/// Sends `data`; with `more` the kernel waits for what follows before it cuts a short segment.
pub fn send(fd: &OwnedFd, data: &[u8], more: bool) -> Io {
    let flags = if more {
        SendFlags::NOSIGNAL | SendFlags::MORE
    } else {
        SendFlags::NOSIGNAL
    };
    loop {
        return match rustix::net::send(fd, data, flags) {
            Ok(len) => Io::Bytes(len),
            Err(Errno::AGAIN) => Io::Blocked,
            Err(Errno::INTR) => continue,
            Err(error) => Io::Failed(error),
        };
    }
}

/// Ends our direction of the connection.
pub fn shutdown_write(fd: &OwnedFd) {
    let _ = rustix::net::shutdown(fd, rustix::net::Shutdown::Write);
}

/// Parses `ADDR:PORT`, `:PORT` (all addresses) or `PORT` (loopback).
///
/// # Errors
/// A sentence naming the text.
pub fn parse_addr(text: &str) -> Result<SocketAddr, String> {
    let full = match text.strip_prefix(':') {
        Some(port) => format!("0.0.0.0:{port}"),
        None if text.bytes().all(|c| c.is_ascii_digit()) => format!("127.0.0.1:{text}"),
        None => text.to_owned(),
    };
    full.parse()
        .map_err(|_| format!("'{text}' is not an address: give ADDR:PORT, :PORT or PORT"))
}

/// `addr` with its port `n` higher; port 0 stays 0.
#[must_use]
pub fn nth_port(addr: SocketAddr, n: u16) -> SocketAddr {
    let port = if addr.port() == 0 {
        0
    } else {
        addr.port().saturating_add(n)
    };
    SocketAddr::new(addr.ip(), port)
}
