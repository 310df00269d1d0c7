//! Connections of checks: made as the checker says, cheaply where there are thousands.

use super::probe::{fail, no_answer};
use crate::config::model::Checker;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Mutex;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// A socket bound and marked as the checker says.
pub(super) fn socket(
    checker: &Checker,
    to: SocketAddr,
    kind: Type,
    protocol: Option<Protocol>,
) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(to), kind.nonblocking(), protocol)?;
    if let Some(name) = &checker.bind_interface {
        socket.bind_device(Some(name.as_bytes()))?;
    }
    if let Some(mark) = checker.fwmark {
        socket.set_mark(mark)?;
    }
    if checker.bind_ip.is_some() || checker.bind_port.is_some() {
        let any = if to.is_ipv4() {
            IpAddr::from([0; 4])
        } else {
            IpAddr::from([0; 16])
        };
        socket.set_reuse_address(true)?;
        socket.bind(&SockAddr::from(SocketAddr::new(
            checker.bind_ip.unwrap_or(any),
            checker.bind_port.unwrap_or(0),
        )))?;
    }
    Ok(socket)
}

pub(super) async fn connect(checker: &Checker, to: SocketAddr) -> Result<TcpStream, String> {
    let socket = socket(checker, to, Type::STREAM, None).map_err(fail("socket"))?;
    let socket = tokio::net::TcpSocket::from_std_stream(socket.into());
    let stream = socket.connect(to).await.map_err(fail("connect"))?;
    // Closing with a reset leaves no TIME_WAIT behind for the thousands of probes that follow.
    let _ = socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO));
    Ok(stream)
}

/// Connects and no more. Ten thousand of these shall cost little: the answer to a SYN is usually there at the next beat, so the
/// socket is looked at once before the runtime is asked to watch it; and then it serves the next check.
pub(super) async fn reach(
    checker: &Checker,
    to: SocketAddr,
    limit: Duration,
) -> Result<(), String> {
    let plain = checker.bind_interface.is_none()
        && checker.fwmark.is_none()
        && checker.bind_ip.is_none()
        && checker.bind_port.is_none();
    let spare = plain.then(|| SPARE.take(to)).flatten();
    let socket = match spare {
        Some(s) => s,
        None => socket(checker, to, Type::STREAM, None).map_err(fail("socket"))?,
    };
    match socket.connect(&SockAddr::from(to)) {
        Err(e) if e.raw_os_error() != Some(libc::EINPROGRESS) => {
            return Err(format!("connect: {e}"));
        }
        _ => {}
    }
    tokio::time::sleep_until(next_beat(Duration::ZERO)).await;
    let mut events = [PollFd::new(&socket, PollFlags::OUT)];
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let decided = poll(&mut events, Some(&now)).is_ok_and(|n| n > 0);
    let failed = events[0]
        .revents()
        .intersects(PollFlags::ERR | PollFlags::HUP);
    if decided && !failed {
        // Disconnecting resets, as the linger below does.
        if plain && rustix::net::connect_unspec(&socket).is_ok() {
            SPARE.put(to, socket);
        } else {
            let _ = socket.set_linger(Some(Duration::ZERO));
        }
        return Ok(());
    }
    if !decided {
        // Closing with a reset leaves no TIME_WAIT behind for the thousands of probes that follow.
        let _ = socket.set_linger(Some(Duration::ZERO));
        let stream = TcpStream::from_std(socket.into()).map_err(fail("socket"))?;
        match timeout(limit, stream.writable()).await {
            Ok(ready) => ready.map_err(fail("connect"))?,
            Err(_) => return Err(no_answer(limit)),
        }
        let error = stream.take_error().map_err(fail("connect"))?;
        return error.map_or(Ok(()), |e| Err(format!("connect: {e}")));
    }
    match socket.take_error().map_err(fail("connect"))? {
        Some(e) => Err(format!("connect: {e}")),
        None => Ok(()),
    }
}

/// Sockets that were connected and are so no more: half of what a check costs the kernel is making and closing them.
struct Spare([Mutex<Vec<Socket>>; 2]);

static SPARE: Spare = Spare([Mutex::new(Vec::new()), Mutex::new(Vec::new())]);
/// As many as are under way between two beats, at ten thousand servers every five seconds, twice.
const SPARE_MAX: usize = 64;

impl Spare {
    fn of(&self, to: SocketAddr) -> Option<std::sync::MutexGuard<'_, Vec<Socket>>> {
        self.0[usize::from(to.is_ipv6())].lock().ok()
    }
    fn take(&self, to: SocketAddr) -> Option<Socket> {
        self.of(to)?.pop()
    }
    fn put(&self, to: SocketAddr, socket: Socket) {
        if let Some(mut list) = self.of(to).filter(|l| l.len() < SPARE_MAX) {
            list.push(socket);
        }
    }
}

/// Checks begin, and short waits end, in time with each other: one awakening for all that are due.
const BEAT_MS: u64 = 25;

/// The first beat after `wait`.
pub fn next_beat(wait: Duration) -> tokio::time::Instant {
    static FIRST: std::sync::OnceLock<tokio::time::Instant> = std::sync::OnceLock::new();
    let first = *FIRST.get_or_init(tokio::time::Instant::now);
    let end = tokio::time::Instant::now() + wait;
    // Short intervals are meant as they are.
    if !wait.is_zero() && wait < Duration::from_millis(8 * BEAT_MS) {
        return end;
    }
    let at = end.duration_since(first);
    let beats = at.as_millis() as u64 / BEAT_MS + 1;
    first + Duration::from_millis(beats * BEAT_MS)
}
