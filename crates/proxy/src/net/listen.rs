//! Listening sockets: made, inherited, and what they tell of a connection.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;

use sluice_config::model::{Bind, KeepAlive, ListenAddr, Mode, Options, Proxy, Tune, UnixPerms};
use sluice_expr::env::Addr;
use socket2::{Domain, SockAddr, Socket, Type};

use super::namespace;
use super::transport::{self, Transport};

/// A socket that listens, not yet given to a runtime.
pub enum Bound {
    Tcp(std::net::TcpListener),
    Unix(std::os::unix::net::UnixListener),
}

impl Bound {
    pub fn try_clone(&self) -> io::Result<Bound> {
        Ok(match self {
            Bound::Tcp(l) => Bound::Tcp(l.try_clone()?),
            Bound::Unix(l) => Bound::Unix(l.try_clone()?),
        })
    }
    /// A second descriptor of the socket, to be given to another process or to pause it.
    pub fn descriptor(&self) -> io::Result<OwnedFd> {
        match self {
            Bound::Tcp(l) => l.as_fd().try_clone_to_owned(),
            Bound::Unix(l) => l.as_fd().try_clone_to_owned(),
        }
    }
}

/// Backlog when neither `backlog` nor `maxconn` says otherwise; the kernel caps it at `somaxconn`.
const BACKLOG: u32 = 4096;

/// What the section of a `bind` line says of its listening sockets.
pub struct Terms {
    pub backlog: Option<u32>,
    pub maxconn: u32,
    /// What clients send first is acknowledged by the answer.
    pub smart_accept: bool,
    pub keep_alive: Option<KeepAlive>,
}

impl From<&Proxy> for Terms {
    fn from(p: &Proxy) -> Terms {
        // as in HAProxy, HTTP frontends have it unless the file says `no`
        let unasked = p.mode == Mode::Http && !p.options.contains(Options::NO_TCP_SMART_ACCEPT);
        Terms {
            backlog: p.backlog,
            maxconn: p.maxconn,
            smart_accept: unasked || p.options.contains(Options::TCP_SMART_ACCEPT),
            keep_alive: p.options.contains(Options::CLITCPKA).then_some(p.clitcpka),
        }
    }
}

/// Makes the listening socket of one address of a `bind` line. `own_queue`: with SO_REUSEPORT, so that each worker can
/// have one.
pub fn bind(
    p: &Terms,
    b: &Bind,
    addr: &ListenAddr,
    own_queue: bool,
    tune: &Tune,
) -> io::Result<Bound> {
    let backlog = backlog(p, b);
    match addr {
        ListenAddr::Tcp(a) => namespace::within(b.namespace.as_deref(), || {
            tcp(p, b, *a, own_queue, backlog, tune)
        }),
        ListenAddr::Unix(path) => unix(path, &b.perms, backlog),
        ListenAddr::Abstract { name, zero_padded } => abstract_socket(name, *zero_padded, backlog),
        ListenAddr::Fd(fd) => inherited(*fd, backlog),
    }
}

/// Makes the listening socket of a `stats socket` line.
pub fn bind_command(addr: &ListenAddr, perms: &UnixPerms) -> io::Result<Bound> {
    const COMMAND_BACKLOG: i32 = 128;
    match addr {
        ListenAddr::Unix(path) => unix(path, perms, COMMAND_BACKLOG),
        ListenAddr::Abstract { name, zero_padded } => {
            abstract_socket(name, *zero_padded, COMMAND_BACKLOG)
        }
        ListenAddr::Fd(fd) => inherited(*fd, COMMAND_BACKLOG),
        ListenAddr::Tcp(a) => {
            let socket = Socket::new(
                Domain::for_address(*a),
                Type::STREAM.nonblocking().cloexec(),
                None,
            )?;
            socket.set_reuse_address(true)?;
            socket.bind(&(*a).into())?;
            socket.listen(COMMAND_BACKLOG)?;
            Ok(Bound::Tcp(socket.into()))
        }
    }
}

/// Makes the socket of one address of a `dgram-bind` line. A port is shared, so that each worker can have a socket.
pub fn bind_datagrams(b: &Bind, addr: &ListenAddr) -> io::Result<Socket> {
    match addr {
        ListenAddr::Tcp(a) => namespace::within(b.namespace.as_deref(), || {
            let kind = Type::DGRAM.nonblocking().cloexec();
            let socket = Socket::new(Domain::for_address(*a), kind, None)?;
            socket.set_reuse_address(true)?;
            socket.set_reuse_port(true)?;
            if a.is_ipv6() && b.v6only {
                socket.set_only_v6(true)?;
            }
            if b.transparent {
                crate::sys::set_int(&socket, libc::SOL_IP, libc::IP_TRANSPARENT, 1)?;
            }
            if let Some(interface) = &b.interface {
                socket.bind_device(Some(interface.as_bytes()))?;
            }
            socket.bind(&(*a).into())?;
            Ok(socket)
        }),
        ListenAddr::Unix(path) => named_socket(path, &b.perms, Type::DGRAM),
        ListenAddr::Abstract { name, zero_padded } => {
            let kind = Type::DGRAM.nonblocking().cloexec();
            let socket = Socket::new(Domain::UNIX, kind, None)?;
            socket.bind(&abstract_addr(name, *zero_padded)?)?;
            Ok(socket)
        }
        ListenAddr::Fd(_) => Err(io::ErrorKind::Unsupported.into()),
    }
}

fn abstract_socket(name: &str, zero_padded: bool, backlog: i32) -> io::Result<Bound> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM.nonblocking().cloexec(), None)?;
    socket.bind(&abstract_addr(name, zero_padded)?)?;
    socket.listen(backlog)?;
    Ok(Bound::Unix(OwnedFd::from(socket).into()))
}

fn tcp(
    p: &Terms,
    b: &Bind,
    addr: SocketAddr,
    own_queue: bool,
    backlog: i32,
    tune: &Tune,
) -> io::Result<Bound> {
    let socket = Socket::new(
        Domain::for_address(addr),
        Type::STREAM.nonblocking().cloexec(),
        None,
    )?;
    socket.set_reuse_address(true)?;
    if own_queue {
        socket.set_reuse_port(true)?;
    }
    // neither word: the system's own default (net.ipv6.bindv6only)
    if addr.is_ipv6() && (b.v4v6 || b.v6only) {
        socket.set_only_v6(b.v6only)?;
    }
    tcp_options(&socket, p, b, (addr, backlog), tune)?;
    socket.bind(&addr.into())?;
    socket.listen(backlog)?;
    smart_accept(&socket, p)?;
    Ok(Bound::Tcp(socket.into()))
}

/// Makes a listening socket of the old process ours: it gets this configuration's options and backlog.
pub fn adopt(
    socket: Socket,
    p: &Terms,
    b: &Bind,
    addr: &ListenAddr,
    tune: &Tune,
) -> io::Result<Bound> {
    let backlog = backlog(p, b);
    let tcp = match addr {
        ListenAddr::Tcp(a) => Some(*a),
        _ => None,
    };
    let is_tcp = tcp.is_some();
    socket.set_nonblocking(true)?;
    socket.set_cloexec(true)?;
    if let Some(addr) = tcp {
        tcp_options(&socket, p, b, (addr, backlog), tune)?;
    }
    socket.listen(backlog)?;
    if is_tcp {
        smart_accept(&socket, p)?;
    }
    Ok(bound(socket, is_tcp))
}

/// `option tcp-smart-accept`. To be called on a socket that listens: listening forgets it.
fn smart_accept(socket: &Socket, p: &Terms) -> io::Result<()> {
    if p.smart_accept {
        crate::sys::set_int(socket, libc::IPPROTO_TCP, libc::TCP_QUICKACK, 0)?;
    }
    Ok(())
}

/// Stops listening without giving the socket up, so that another process may bind the address. Sockets of other kinds
/// than TCP go on: theirs can be replaced.
pub fn pause(fd: &impl AsFd) {
    let socket = socket2::SockRef::from(fd);
    if socket.local_addr().is_ok_and(|a| a.as_socket().is_some()) {
        // one that is paused already is no fault
        let _ = socket.shutdown(std::net::Shutdown::Read);
    }
}

/// Listens again after a pause.
pub fn resume(fd: &impl AsFd) {
    let socket = socket2::SockRef::from(fd);
    if socket.local_addr().is_ok_and(|a| a.as_socket().is_some()) {
        // the address may be another's by now
        let _ = socket.listen(BACKLOG as i32);
    }
}

/// A listening socket as what it is.
pub fn bound(socket: Socket, is_tcp: bool) -> Bound {
    match is_tcp {
        true => Bound::Tcp(socket.into()),
        false => Bound::Unix(OwnedFd::from(socket).into()),
    }
}

fn backlog(p: &Terms, b: &Bind) -> i32 {
    b.backlog.or(p.backlog).unwrap_or(BACKLOG.max(p.maxconn)) as i32
}

/// What a listening socket has beside its address. Accepted connections inherit most of it: one call for all.
fn tcp_options(
    socket: &Socket,
    p: &Terms,
    b: &Bind,
    (addr, backlog): (SocketAddr, i32),
    tune: &Tune,
) -> io::Result<()> {
    if b.transparent {
        crate::sys::set_int(socket, libc::SOL_IP, libc::IP_TRANSPARENT, 1)?;
    }
    if let Some(interface) = &b.interface {
        socket.bind_device(Some(interface.as_bytes()))?;
    }
    if let Some(mss) = b.mss.filter(|m| *m > 0) {
        crate::sys::set_int(socket, libc::IPPROTO_TCP, libc::TCP_MAXSEG, mss)?;
    }
    if b.defer_accept {
        crate::sys::set_int(socket, libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT, 1)?;
    }
    if b.tfo {
        crate::sys::set_int(socket, libc::IPPROTO_TCP, libc::TCP_FASTOPEN, backlog)?;
    }
    if let Some(key) = &b.tcp_md5sig {
        crate::sys::sign_all(socket, addr.is_ipv6(), key)?;
    }
    if let Some(cc) = &b.cc {
        socket.set_tcp_congestion(cc.as_bytes())?;
    }
    if let Some(ms) = b.tcp_ut_ms {
        socket.set_tcp_user_timeout(Some(std::time::Duration::from_millis(ms)))?;
    }
    socket.set_tcp_nodelay(true)?;
    if let Some(k) = p.keep_alive {
        keep_alive(socket, k)?;
    }
    if let Some(n) = tune.rcvbuf_client {
        socket.set_recv_buffer_size(n)?;
    }
    if let Some(n) = tune.sndbuf_client {
        socket.set_send_buffer_size(n)?;
    }
    if let Some(n) = tune.notsent_lowat_client {
        crate::sys::set_int(socket, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, n as i32)?;
    }
    Ok(())
}

/// Turns TCP keep-alive on, with what was set of its times.
pub fn keep_alive(socket: &Socket, k: KeepAlive) -> io::Result<()> {
    socket.set_keepalive(true)?;
    let secs = |s: u32| std::time::Duration::from_secs(s.into());
    let mut times = socket2::TcpKeepalive::new();
    if let Some(s) = k.idle_s {
        times = times.with_time(secs(s));
    }
    if let Some(s) = k.interval_s {
        times = times.with_interval(secs(s));
    }
    if let Some(n) = k.count {
        times = times.with_retries(n);
    }
    socket.set_tcp_keepalive(&times)
}

fn unix(path: &str, perms: &UnixPerms, backlog: i32) -> io::Result<Bound> {
    let socket = named_socket(path, perms, Type::STREAM)?;
    socket.listen(backlog)?;
    Ok(Bound::Unix(OwnedFd::from(socket).into()))
}

fn named_socket(path: &str, perms: &UnixPerms, kind: Type) -> io::Result<Socket> {
    // bound under another name first and renamed, so that the old process's socket is replaced in one step
    let temporary = format!("{path}.{}.tmp", std::process::id());
    let _ = std::fs::remove_file(&temporary);
    let socket = Socket::new(Domain::UNIX, kind.nonblocking().cloexec(), None)?;
    socket.bind(&SockAddr::unix(&temporary)?)?;
    let renamed = set_perms(&temporary, perms).and_then(|()| std::fs::rename(&temporary, path));
    if let Err(e) = renamed {
        let _ = std::fs::remove_file(&temporary);
        return Err(e);
    }
    Ok(socket)
}

/// Owner and mode of a socket's file.
pub fn set_perms(path: &str, perms: &UnixPerms) -> io::Result<()> {
    use std::os::unix::fs::{PermissionsExt, chown};
    if let Some(mode) = perms.mode {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?;
    }
    if perms.uid.is_some() || perms.gid.is_some() {
        chown(path, perms.uid, perms.gid)?;
    }
    Ok(())
}

/// An abstract socket's address; `zero_padded` names fill the whole `sun_path`, as HAProxy's `abns@` does.
pub fn abstract_addr(name: &str, zero_padded: bool) -> io::Result<SockAddr> {
    const SUN_PATH: usize = 108;
    let mut path = vec![0u8];
    path.extend_from_slice(name.as_bytes());
    if path.len() > SUN_PATH {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    if zero_padded {
        path.resize(SUN_PATH, 0);
    }
    SockAddr::unix(std::ffi::OsStr::from_bytes(&path))
}

/// Takes over `fd@N`.
fn inherited(fd: RawFd, backlog: i32) -> io::Result<Bound> {
    let socket = crate::sys::adopt(fd)?;
    socket.set_nonblocking(true)?;
    socket.set_cloexec(true)?;
    let is_tcp = socket.local_addr()?.as_socket().is_some();
    socket.listen(backlog)?;
    Ok(bound(socket, is_tcp))
}

/// The address the client asked for: the connection's own, the listener's for Unix sockets.
///
/// The kernel is asked only where the listener's address leaves it open: `transparent` ones are given other addresses.
pub fn local_addr(io: &Transport, listener: &ListenAddr, transparent: bool) -> Addr {
    match io.socket() {
        transport::Socket::Tcp(s) => match listener {
            ListenAddr::Tcp(a) if !a.ip().is_unspecified() && !transparent => Addr::Ip(*a),
            _ => s.local_addr().map_or(Addr::None, Addr::Ip),
        },
        transport::Socket::Unix(_) => match listener {
            ListenAddr::Unix(path) => Addr::Unix(path.as_str().into()),
            ListenAddr::Abstract { name, .. } => Addr::Unix(format!("@{name}").into()),
            _ => Addr::Unix("unix".into()),
        },
    }
}
