//! Making a connection to a server: source address, marks, socket options, PROXY protocol.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd};
use std::rc::Rc;

use sluice_config::model::{Options, PeerAddr, PortSpec, Server, Source, UseSrc};
use sluice_engine::passive::Seen;
use sluice_expr::env::{Addr, ConnInfo};
use socket2::{Domain, SockAddr, Socket, Type};
use tokio::io::Interest;
use tokio::net::{TcpStream, UnixStream};

use super::ServerConn;
use crate::net::{Timer, Transport, after_ms, namespace, socks4};
use crate::stream::Stream;

/// Why no connection came about.
#[derive(Debug)]
pub enum ConnectFail {
    Timeout,
    /// Refused, unreachable...
    Refused(io::Error),
    /// Our own fault: no descriptor, no port, no memory.
    Resource(io::Error),
    /// The client left meanwhile (`option abortonclose`).
    ClientGone,
}

/// Where a stream's connection is to go.
pub enum Target {
    Ip(SocketAddr),
    Unix(SockAddr, String),
}

/// The address of a server for this stream.
pub fn target(addr: &PeerAddr, s: &Stream) -> Option<Target> {
    let client_port = s.sess.client.dst.port();
    let port = |p: PortSpec| match p {
        PortSpec::FromClient => client_port,
        PortSpec::Fixed(p) => p,
        PortSpec::Offset(o) => (i32::from(client_port) + o) as u16,
    };
    match addr {
        PeerAddr::Ip { ip, port: p } if ip.is_unspecified() => {
            // 0.0.0.0: the address the client asked for
            let ip = s.sess.client.dst.ip().unwrap_or(*ip);
            Some(Target::Ip(SocketAddr::new(ip, port(*p))))
        }
        PeerAddr::Ip { ip, port: p } => Some(Target::Ip(SocketAddr::new(*ip, port(*p)))),
        PeerAddr::Unix(path) => Some(Target::Unix(SockAddr::unix(path).ok()?, path.clone())),
        PeerAddr::Abstract { name, zero_padded } => {
            let addr = crate::net::listen::abstract_addr(name, *zero_padded).ok()?;
            Some(Target::Unix(addr, format!("@{name}")))
        }
        PeerAddr::Unresolved { .. }
        | PeerAddr::Fd(_)
        | PeerAddr::Ring(_)
        | PeerAddr::Backend { .. } => None,
    }
}

/// Connects, within `timeout connect`.
pub async fn connect(
    s: &mut Stream,
    timer: &mut Timer,
    target: Target,
    server: Option<&Server>,
) -> Result<Box<ServerConn>, ConnectFail> {
    let timeout_ms = s.connect_timeout_ms();
    let connecting = async {
        match target {
            Target::Ip(addr) => tcp(s, addr, server).await,
            Target::Unix(addr, name) => unix(addr, name).await,
        }
    };
    let mut connecting = std::pin::pin!(connecting);
    let deadline = after_ms(timeout_ms);
    let (io, dst) = std::future::poll_fn(|cx| match connecting.as_mut().poll(cx) {
        std::task::Poll::Ready(r) => std::task::Poll::Ready(r),
        std::task::Poll::Pending => timer.poll(cx, deadline).map(|()| Err(ConnectFail::Timeout)),
    })
    .await
    .inspect_err(|fail| {
        // what we lack ourselves says nothing of the server
        if !matches!(fail, ConnectFail::Resource(_)) {
            s.observe(Seen::NotConnected);
        }
    })?;
    s.observe(Seen::Connected);
    let info = ConnInfo {
        dst: dst.clone(),
        real_dst: dst,
        http_major: 1,
        since_us: crate::clock::now().wall_us,
        ..ConnInfo::default()
    };
    let mut conn = Box::new(ServerConn {
        io,
        info: Rc::new(info),
        server: None,
        reused: false,
        input: None,
        requests: 0,
        acks_now: false,
        key: 0,
        private: false,
    });
    if let Some(how) = server
        .and_then(|srv| srv.send_proxy.as_ref())
        .filter(|how| how.wanted)
    {
        let header = crate::net::proxy_protocol::header(s, how);
        let sent = conn.io.write_all(&header, timer, timeout_ms).await;
        if let Err(fail) = sent {
            return Err(match fail {
                crate::net::Fail::Timeout => ConnectFail::Timeout,
                crate::net::Fail::Io(e) => ConnectFail::Refused(e),
            });
        }
    }
    Ok(conn)
}

type Made = (Transport, Addr);

async fn tcp(
    s: &Stream,
    server_addr: SocketAddr,
    server: Option<&Server>,
) -> Result<Made, ConnectFail> {
    let socks4 = server.and_then(|v| v.socks4);
    let addr = socks4.unwrap_or(server_addr);
    let namespace = server.and_then(|v| v.namespace.as_deref());
    let socket = namespace::within(namespace, || {
        let kind = Type::STREAM.nonblocking().cloexec();
        Socket::new(Domain::for_address(addr), kind, None)
    })
    .map_err(ConnectFail::Resource)?;
    prepare(s, &socket, addr, server).map_err(ConnectFail::Resource)?;
    match socket.connect(&addr.into()) {
        Ok(()) => {}
        Err(e) if e.raw_os_error() == Some(libc::EINPROGRESS) => {}
        Err(e) if matches!(e.raw_os_error(), Some(libc::EADDRNOTAVAIL | libc::EAGAIN)) => {
            return Err(ConnectFail::Resource(e));
        }
        Err(e) => return Err(ConnectFail::Refused(e)),
    }
    let mut stream = TcpStream::from_std(socket.into()).map_err(ConnectFail::Resource)?;
    let ready = stream
        .ready(Interest::WRITABLE | Interest::ERROR)
        .await
        .map_err(ConnectFail::Refused)?;
    if (ready.is_error() || ready.is_write_closed())
        && let Some(e) = stream.take_error().map_err(ConnectFail::Refused)?
    {
        return Err(ConnectFail::Refused(e));
    }
    if socks4.is_some() {
        let asking = Box::pin(socks4::ask(&mut stream, server_addr));
        match asking.await {
            // HAProxy waits for what an answer lacks until the time is over
            Err(e)
                if e.kind() == io::ErrorKind::UnexpectedEof && s.connect_timeout_ms().is_some() =>
            {
                std::future::pending().await
            }
            asked => asked.map_err(ConnectFail::Refused)?,
        }
    }
    Ok((Transport::from(stream), Addr::Ip(server_addr)))
}

/// Options, marks and the source address, before connecting.
fn prepare(s: &Stream, socket: &Socket, to: SocketAddr, server: Option<&Server>) -> io::Result<()> {
    socket.set_tcp_nodelay(true)?;
    let be = s.backend();
    if s.is_http || be.options.contains(Options::TCP_SMART_CONNECT) {
        // The handshake's last ACK leaves with the first data, one packet less. It also delays the ACKs of what comes
        // back: see `Transport::ack_now`.
        crate::sys::set_int(socket, libc::IPPROTO_TCP, libc::TCP_QUICKACK, 0)?;
    }
    if be.options.contains(Options::SRVTCPKA) {
        crate::net::listen::keep_alive(socket, be.srvtcpka)?;
    }
    let tune = &s.w.model().global.tune;
    if let Some(n) = tune.rcvbuf_server {
        socket.set_recv_buffer_size(n)?;
    }
    if let Some(n) = tune.sndbuf_server {
        socket.set_send_buffer_size(n)?;
    }
    if let Some(n) = tune.notsent_lowat_server {
        crate::sys::set_int(socket, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, n as i32)?;
    }
    if let Some(key) = server.and_then(|v| v.tcp_md5sig.as_ref()) {
        crate::sys::sign(socket, to, None, key)?;
    }
    if let Some(cc) = server.and_then(|v| v.cc.as_ref()) {
        socket.set_tcp_congestion(cc.as_bytes())?;
    }
    if let Some(ms) = server.and_then(|v| v.tcp_ut_ms) {
        socket.set_tcp_user_timeout(Some(std::time::Duration::from_millis(ms)))?;
    }
    if let Some(mark) = s.set.server_mark {
        crate::sys::set_mark(socket.as_raw_fd(), mark);
    }
    if let Some(tos) = s.set.server_tos {
        crate::sys::set_tos(socket.as_raw_fd(), tos);
    }
    match server
        .and_then(|v| v.source.as_ref())
        .or(be.source.as_ref())
    {
        Some(source) => bind_source(s, socket, to, source),
        None => Ok(()),
    }
}

fn bind_source(s: &Stream, socket: &Socket, to: SocketAddr, source: &Source) -> io::Result<()> {
    if let Some(interface) = &source.interface {
        socket.bind_device(Some(interface.as_bytes()))?;
    }
    let foreign = match &source.usesrc {
        None => None,
        Some(UseSrc::Client) => match &s.sess.client.src {
            Addr::Ip(a) => Some(*a),
            _ => None,
        },
        Some(UseSrc::ClientIp) => s.sess.client.src.ip().map(|ip| SocketAddr::new(ip, 0)),
        Some(UseSrc::Addr(a)) => Some(*a),
        Some(UseSrc::Header { name, occurrence }) => s
            .req
            .headers
            .nth_value(name.as_bytes(), *occurrence)
            .and_then(sluice_http::uri::parse_ip)
            .map(|ip| SocketAddr::new(ip, 0)),
    };
    if let Some(addr) = foreign {
        crate::sys::set_int(socket, libc::SOL_IP, libc::IP_TRANSPARENT, 1)?;
        return socket.bind(&addr.into());
    }
    let Some(ip) = source.ip else { return Ok(()) };
    if ip.is_ipv4() != to.is_ipv4() {
        return Ok(());
    }
    bind_port(s, socket, ip, source.ports)
}

/// Binds to an address, and within a port range to the first port that is free.
fn bind_port(s: &Stream, socket: &Socket, ip: IpAddr, ports: Option<(u16, u16)>) -> io::Result<()> {
    let Some((low, high)) = ports else {
        // let the kernel choose the port at connect, when it knows the peer: far more connections fit
        const IP_BIND_ADDRESS_NO_PORT: i32 = 24;
        let _ = crate::sys::set_int(socket, libc::SOL_IP, IP_BIND_ADDRESS_NO_PORT, 1);
        return socket.bind(&SocketAddr::new(ip, 0).into());
    };
    socket.set_reuse_address(true)?;
    let span = u64::from(high - low) + 1;
    let first = s.w.random() % span;
    for k in 0..span {
        let port = low + ((first + k) % span) as u16;
        match socket.bind(&SocketAddr::new(ip, port).into()) {
            Err(e) if e.kind() == io::ErrorKind::AddrInUse => {}
            done => return done,
        }
    }
    Err(io::ErrorKind::AddrInUse.into())
}

async fn unix(addr: SockAddr, name: String) -> Result<Made, ConnectFail> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM.nonblocking().cloexec(), None)
        .map_err(ConnectFail::Resource)?;
    match socket.connect(&addr) {
        Ok(()) => {}
        Err(e) if e.raw_os_error() == Some(libc::EINPROGRESS) => {}
        Err(e) => return Err(ConnectFail::Refused(e)),
    }
    let stream =
        UnixStream::from_std(OwnedFd::from(socket).into()).map_err(ConnectFail::Resource)?;
    Ok((Transport::from(stream), Addr::Unix(name.into())))
}
