//! System calls that need `unsafe`, each behind a safe function. Nothing else in the crate may.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

use sluice_expr::env::{Addr, TcpInfo};

use crate::net::Transport;

/// Our own address on a connection that somebody else owns, `Addr::None` if it is gone.
pub fn local_addr(fd: RawFd) -> Addr {
    // SAFETY: the descriptor is used for this call only, and its owner (the stream's connection) outlives it.
    let fd = unsafe { BorrowedFd::borrow_raw(fd) };
    let name = socket2::SockRef::from(&fd).local_addr();
    let ip = name.ok().and_then(|name| name.as_socket());
    ip.map_or(Addr::None, Addr::Ip)
}

/// What a socket is bound and connected to.
pub struct SocketEnds {
    pub local: Option<std::net::SocketAddr>,
    pub peer: Option<std::net::SocketAddr>,
    pub is_unix: bool,
    pub listens: bool,
}

/// Looks at a descriptor that somebody else owns; `None` when it is no socket.
pub fn socket_ends(fd: RawFd) -> Option<SocketEnds> {
    // SAFETY: the number is used for these calls only, which ask and change nothing; on one that is closed they fail.
    let fd = unsafe { BorrowedFd::borrow_raw(fd) };
    let socket = socket2::SockRef::from(&fd);
    let local = socket.local_addr().ok()?;
    Some(SocketEnds {
        is_unix: local.is_unix(),
        local: local.as_socket(),
        peer: socket.peer_addr().ok().and_then(|a| a.as_socket()),
        listens: rustix::net::sockopt::socket_acceptconn(fd).unwrap_or(false),
    })
}

/// `TCP_INFO` of a socket, `None` for one that is not TCP or gone.
pub fn tcp_info(fd: RawFd) -> Option<TcpInfo> {
    // SAFETY: `tcp_info` is a plain C struct of integers, for which all-zero is a value.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut len = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: the pointer and length describe `info`, which outlives the call; the kernel writes at most `len` bytes and
    // a stale descriptor only makes it fail.
    let rc = unsafe {
        libc::getsockopt(
            fd,
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut info).cast(),
            &mut len,
        )
    };
    (rc == 0).then(|| TcpInfo {
        rtt_us: info.tcpi_rtt.into(),
        rttvar_us: info.tcpi_rttvar.into(),
        unacked: info.tcpi_unacked.into(),
        sacked: info.tcpi_sacked.into(),
        lost: info.tcpi_lost.into(),
        retrans: info.tcpi_retrans.into(),
        fackets: info.tcpi_fackets.into(),
        reordering: info.tcpi_reordering.into(),
    })
}

/// Takes over a descriptor that the process was started with.
pub fn adopt(fd: RawFd) -> io::Result<socket2::Socket> {
    // SAFETY: F_GETFD only asks whether the number is an open descriptor.
    if unsafe { libc::fcntl(fd, libc::F_GETFD) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is open and was given to us by the configuration, so nothing else in the process owns it;
    // a duplicate is taken, which stays valid whatever happens to the number itself.
    let borrowed = unsafe { std::os::fd::BorrowedFd::borrow_raw(fd) };
    Ok(borrowed.try_clone_to_owned()?.into())
}

/// Takes a descriptor over that the process was started with; nothing else may use the number.
pub fn take_over(fd: RawFd) -> io::Result<std::os::fd::OwnedFd> {
    // SAFETY: F_GETFD only asks whether the number is an open descriptor.
    if unsafe { libc::fcntl(fd, libc::F_GETFD) } < 0 {
        return Err(io::Error::last_os_error());
    }
    use std::os::fd::FromRawFd;
    // SAFETY: the descriptor is open, and by the caller's word nothing else owns it.
    let fd = unsafe { std::os::fd::OwnedFd::from_raw_fd(fd) };
    rustix::io::fcntl_setfd(&fd, rustix::io::FdFlags::CLOEXEC)?;
    Ok(fd)
}

/// Writes to a descriptor the process was started with.
pub fn write_fd(fd: RawFd, data: &[u8]) -> io::Result<()> {
    // SAFETY: the pointer and length describe `data`, which the kernel only reads; a bad descriptor makes the call fail.
    let n = unsafe { libc::write(fd, data.as_ptr().cast(), data.len()) };
    if n < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// Sends without waiting; gives how much the socket took.
pub fn send(to: RawFd, data: &[u8]) -> io::Result<usize> {
    // SAFETY: the pointer and length describe `data`, which the kernel only reads; a bad descriptor makes the call fail.
    let n = unsafe {
        libc::send(
            to,
            data.as_ptr().cast(),
            data.len(),
            libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL,
        )
    };
    usize::try_from(n).map_err(|_| io::Error::last_os_error())
}

/// Datagrams that one call of [`send_datagrams`] takes.
const DATAGRAMS: usize = 32;

/// Sends datagrams on a connected socket without waiting: they lie side by side in `text`, the first from `start` on,
/// and end at `ends`. Gives how many were sent, at least one; the error is the first one's.
pub fn send_datagrams(
    to: RawFd,
    text: &[u8],
    mut start: usize,
    ends: impl Iterator<Item = usize>,
) -> io::Result<usize> {
    let mut parts = [libc::iovec {
        iov_base: std::ptr::null_mut(),
        iov_len: 0,
    }; DATAGRAMS];
    let mut n = 0;
    for (part, end) in parts.iter_mut().zip(ends) {
        let datagram = text.get(start..end).unwrap_or_default();
        part.iov_base = datagram.as_ptr().cast_mut().cast();
        part.iov_len = datagram.len();
        start = end;
        n += 1;
    }
    // SAFETY: `mmsghdr` is a plain C struct of integers and pointers, for which all-zero is a value.
    let mut messages: [libc::mmsghdr; DATAGRAMS] = unsafe { std::mem::zeroed() };
    for (message, part) in messages.iter_mut().zip(&mut parts).take(n) {
        message.msg_hdr.msg_iov = part;
        message.msg_hdr.msg_iovlen = 1;
    }
    // SAFETY: the first `n` messages point to as many parts, which describe slices of `text`; all of them outlive the
    // call, which only reads the text. A bad descriptor makes it fail.
    let sent = unsafe {
        libc::sendmmsg(
            to,
            messages.as_mut_ptr(),
            n as libc::c_uint,
            libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL,
        )
    };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// Another descriptor of an open file that somebody else owns.
pub fn duplicate(fd: RawFd) -> io::Result<std::os::fd::OwnedFd> {
    // SAFETY: the number is used for this call only; on one that is closed it fails.
    unsafe { BorrowedFd::borrow_raw(fd) }.try_clone_to_owned()
}

/// Looks at received bytes without taking them.
pub fn peek(io: &Transport, room: &mut [u8]) -> io::Result<usize> {
    // SAFETY: the pointer and length describe `room`, which the kernel writes to during the call only.
    let n = unsafe {
        libc::recv(
            io.as_raw_fd(),
            room.as_mut_ptr().cast(),
            room.len(),
            libc::MSG_PEEK | libc::MSG_DONTWAIT,
        )
    };
    usize::try_from(n).map_err(|_| io::Error::last_os_error())
}

/// Sets one integer socket option.
pub fn set_int(fd: &impl AsRawFd, level: i32, name: i32, value: i32) -> io::Result<()> {
    // SAFETY: the pointer and length describe `value`, which outlives the call; the kernel only reads it.
    let rc = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            size_of::<i32>() as libc::socklen_t,
        )
    };
    if rc == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// The kernel's `struct tcp_md5sig`.
#[repr(C)]
struct Md5Sig {
    addr: libc::sockaddr_storage,
    flags: u8,
    prefix_len: u8,
    key_len: u16,
    interface: i32,
    key: [u8; 80],
}

/// Has segments to and from a peer signed with a key (RFC 2385); with `prefix_len` those of a whole network.
pub fn sign(
    fd: &impl AsRawFd,
    peer: std::net::SocketAddr,
    prefix_len: Option<u8>,
    key: &str,
) -> io::Result<()> {
    const TCP_MD5SIG: i32 = 14;
    const TCP_MD5SIG_EXT: i32 = 32;
    const FLAG_PREFIX: u8 = 1;
    let addr = socket2::SockAddr::from(std::net::SocketAddr::new(peer.ip(), 0));
    // SAFETY: `tcp_md5sig` is a plain C struct of integers, for which all-zero is a value.
    let mut sig: Md5Sig = unsafe { std::mem::zeroed() };
    let key = key.as_bytes();
    let Some(room) = sig.key.get_mut(..key.len()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    room.copy_from_slice(key);
    sig.key_len = key.len() as u16;
    // SAFETY: a `SockAddr` is a `sockaddr_storage` of which the first `len` bytes are used; both are as large.
    sig.addr = unsafe { std::ptr::read(addr.as_ptr().cast()) };
    if let Some(len) = prefix_len {
        (sig.flags, sig.prefix_len) = (FLAG_PREFIX, len);
    }
    let name = match prefix_len {
        Some(_) => TCP_MD5SIG_EXT,
        None => TCP_MD5SIG,
    };
    // SAFETY: the pointer and length describe `sig`, which outlives the call; the kernel only reads it.
    let rc = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::IPPROTO_TCP,
            name,
            (&raw const sig).cast(),
            size_of::<Md5Sig>() as libc::socklen_t,
        )
    };
    match rc {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// [`sign`] for all peers of a listening socket.
pub fn sign_all(fd: &impl AsRawFd, is_ipv6: bool, key: &str) -> io::Result<()> {
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
    let any = |ip: IpAddr| sign(fd, SocketAddr::new(ip, 0), Some(0), key);
    match is_ipv6 {
        true => any(Ipv6Addr::UNSPECIFIED.into()),
        false => any(Ipv4Addr::UNSPECIFIED.into()),
    }
}

/// Sets the packet mark of a socket (`SO_MARK`); needs CAP_NET_ADMIN, without it nothing happens.
pub fn set_mark(fd: RawFd, mark: u32) {
    let _ = set_int(&fd, libc::SOL_SOCKET, libc::SO_MARK, mark as i32);
}

/// Sets the type of service or traffic class of a socket.
pub fn set_tos(fd: RawFd, tos: u32) {
    // one of both fails, depending on the address family
    let _ = set_int(&fd, libc::IPPROTO_IP, libc::IP_TOS, tos as i32);
    let _ = set_int(&fd, libc::IPPROTO_IPV6, libc::IPV6_TCLASS, tos as i32);
}

/// Leaves the client without an answer (`silent-drop`): queued data is dropped by TCP_REPAIR where the process may use
/// it; otherwise the reset that the close sends gets a TTL too short to arrive.
pub fn silent_drop(io: &Transport, rst_ttl: Option<u8>) {
    if !io.is_tcp() {
        return;
    }
    const TCP_REPAIR: i32 = 19;
    // what came is acknowledged: a client that sends it again would be told by the kernel that nobody is there
    let _ = set_int(io, libc::IPPROTO_TCP, libc::TCP_QUICKACK, 1);
    if rst_ttl.is_none() && set_int(io, libc::IPPROTO_TCP, TCP_REPAIR, 1).is_ok() {
        return;
    }
    let ttl = i32::from(rst_ttl.unwrap_or(1));
    // one of both fails, depending on the address family
    let _ = set_int(io, libc::IPPROTO_IP, libc::IP_TTL, ttl);
    let _ = set_int(io, libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS, ttl);
    io.reset_on_close();
}

#[link(name = "crypt")]
unsafe extern "C" {
    fn crypt(phrase: *const libc::c_char, setting: *const libc::c_char) -> *mut libc::c_char;
}

/// Whether `password` has the hash that crypt(3) wrote.
pub fn crypt_matches(password: &[u8], hash: &str) -> bool {
    // crypt(3) answers in static memory: one caller at a time
    static ONE_AT_A_TIME: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let (Ok(password), Ok(setting)) = (CString::new(password), CString::new(hash)) else {
        return false;
    };
    let _turn = ONE_AT_A_TIME
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    // SAFETY: both are NUL-terminated and outlive the call; no other thread is in crypt(3) while `_turn` is held.
    let out = unsafe { crypt(password.as_ptr(), setting.as_ptr()) };
    if out.is_null() {
        return false;
    }
    // SAFETY: not null, so it points to a NUL-terminated string that stays until the next call, which `_turn` delays.
    unsafe { CStr::from_ptr(out) }.to_bytes() == hash.as_bytes()
}

/// Seconds east of UTC and the abbreviation of the local time zone at a moment.
pub fn local_zone(at_sec: i64) -> (i32, String) {
    let t: libc::time_t = at_sec;
    // SAFETY: `tm` is a plain C struct for which all-zero is a value.
    let mut tm: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are valid for the call.
    if unsafe { libc::localtime_r(&t, &mut tm) }.is_null() || tm.tm_zone.is_null() {
        return (0, "UTC".into());
    }
    // SAFETY: `tm_zone` points into the C library's zone tables, which live as long as the process.
    let name = unsafe { CStr::from_ptr(tm.tm_zone) }
        .to_string_lossy()
        .into_owned();
    (tm.tm_gmtoff as i32, name)
}

/// Most worker threads: HAProxy's MAX_THREADS.
pub const WORKERS_MAX: u32 = 64;

/// CPUs this process may run on.
pub fn available_cpus() -> u32 {
    std::thread::available_parallelism().map_or(1, |n| n.get() as u32)
}

/// The first address of a host name, as the C library finds it.
pub fn lookup_host(name: &str) -> Option<std::net::IpAddr> {
    use std::net::ToSocketAddrs;
    (name, 0).to_socket_addrs().ok()?.next().map(|a| a.ip())
}

/// Which side of a fork this is.
#[derive(Debug)]
pub enum Forked {
    /// The child has said that it serves, or is gone without.
    Parent {
        serves: bool,
    },
    Child(Parent),
}

/// The process that started this one and waits for its word.
#[derive(Debug)]
pub struct Parent(std::fs::File);

impl Parent {
    /// Lets it end with success.
    pub fn tell_ready(mut self) {
        // a parent that was killed meanwhile wants no answer
        let _ = io::Write::write_all(&mut self.0, b"R");
    }
}

/// Goes to the background: the child goes on in a session of its own, without a terminal; the parent stays until the
/// child serves. Call it before any thread is started.
pub fn daemonize() -> io::Result<Forked> {
    let (heard, said) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    // SAFETY: no other thread runs yet, so the child inherits consistent memory.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            drop(heard);
            rustix::process::setsid()?;
            let null = std::fs::OpenOptions::new()
                .read(true)
                .write(true)
                .open("/dev/null")?;
            rustix::stdio::dup2_stdin(&null)?;
            rustix::stdio::dup2_stdout(&null)?;
            rustix::stdio::dup2_stderr(&null)?;
            Ok(Forked::Child(Parent(said.into())))
        }
        _ => {
            drop(said);
            let mut word = [0];
            let got = io::Read::read(&mut std::fs::File::from(heard), &mut word)?;
            Ok(Forked::Parent { serves: got > 0 })
        }
    }
}

/// Shuts both directions of a socket that another task owns: its reads end, its writes fail.
pub fn shut(fd: RawFd) {
    // SAFETY: shutdown(2) touches no memory of ours; on a number that is no socket any more it fails.
    unsafe { libc::shutdown(fd, libc::SHUT_RDWR) };
}

/// Sends a signal to a process. A process that is gone already is no fault.
pub fn signal(pid: i32, number: i32) {
    // SAFETY: kill(2) touches no memory of ours.
    unsafe { libc::kill(pid, number) };
}

/// Limits the address space (`-m`).
pub fn limit_memory(bytes: u64) -> io::Result<()> {
    let limit = rustix::process::Rlimit {
        current: Some(bytes),
        maximum: Some(bytes),
    };
    Ok(rustix::process::setrlimit(
        rustix::process::Resource::As,
        limit,
    )?)
}

/// Keeps these capabilities and no other. No other thread runs yet, so that all will have them.
fn keep_capabilities(numbers: &[u8]) -> io::Result<()> {
    use rustix::thread::{CapabilitySet, CapabilitySets};
    let bits = numbers.iter().fold(0, |bits, n| bits | 1_u64 << n);
    let kept = CapabilitySet::from_bits_retain(bits);
    let sets = CapabilitySets {
        effective: kept,
        permitted: kept,
        inheritable: CapabilitySet::empty(),
    };
    Ok(rustix::thread::set_capabilities(None, sets)?)
}

/// `chroot`, then the group, then the user: in the order in which each is still allowed.
pub fn drop_privileges(
    chroot: Option<&str>,
    gid: Option<u32>,
    uid: Option<u32>,
    capabilities: &[u8],
) -> io::Result<()> {
    if let Some(dir) = chroot {
        rustix::process::chroot(dir)?;
        std::env::set_current_dir("/")?;
    }
    let done = |rc: i32| {
        if rc == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    };
    if let Some(gid) = gid.filter(|g| *g != 0) {
        // SAFETY: an empty list needs no memory; the C library applies both calls to all threads.
        unsafe {
            libc::setgroups(0, std::ptr::null());
            done(libc::setgid(gid))?;
        }
    }
    if let Some(uid) = uid.filter(|u| *u != 0) {
        if !capabilities.is_empty() {
            rustix::thread::set_keep_capabilities(true)?;
        }
        // SAFETY: setuid(2) touches no memory of ours.
        done(unsafe { libc::setuid(uid) })?;
        if !capabilities.is_empty() {
            keep_capabilities(capabilities)?;
        }
    }
    Ok(())
}
