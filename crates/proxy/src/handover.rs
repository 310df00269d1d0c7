//! Listening sockets that pass from one process to the next over a command socket (management guide 9.3 `_getsocks`,
//! flag `-x`): the wire format is HAProxy's, so that either program can take the other's.
//!
//! The taker sends the command's line. The giver answers the number of sockets (a native 32-bit integer), then messages
//! of up to [`BATCH`] descriptors (SCM_RIGHTS), whose bytes are for each socket: length and name of its namespace, length
//! and name of its interface, four zero bytes. After each message that is not the last, the taker says how many it has.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use sluice_config::model::{Bind, ListenAddr};
use sluice_expr::ProxyId;
use socket2::{SockAddr, SockRef, Socket, Type};

use crate::net::listen::{self, Bound};

/// Descriptors in one message: one less than what Linux takes (SCM_MAX_FD is 253).
const BATCH: usize = 252;

/// How long one step of the exchange may take.
const PATIENCE: Duration = Duration::from_secs(1);

/// Most sockets that are believed: a process has no more descriptors than this.
const SOCKETS_MAX: u32 = 1 << 20;

/// Most bytes that describe one socket: two names, their lengths, and four zero bytes.
const NAMES_MAX: usize = 255 + 255 + 2 + 4;

/// A socket to give.
pub struct Offered {
    pub fd: OwnedFd,
    /// Whose it is; none for a command socket.
    pub frontend: Option<ProxyId>,
    pub interface: Option<String>,
    pub namespace: Option<String>,
}

impl Offered {
    /// The same with another descriptor.
    pub fn try_clone(&self) -> io::Result<Offered> {
        Ok(Offered {
            fd: self.fd.try_clone()?,
            frontend: self.frontend,
            interface: self.interface.clone(),
            namespace: self.namespace.clone(),
        })
    }
}

/// Gives all sockets to the process behind `to`. It blocks: not for a thread that serves traffic.
pub fn give(to: &UnixStream, offered: &[Offered]) -> io::Result<()> {
    to.set_nonblocking(false)?;
    to.set_read_timeout(Some(PATIENCE))?;
    to.set_write_timeout(Some(PATIENCE))?;
    if offered.is_empty() {
        return Ok(());
    }
    let count = (offered.len() as u32).to_ne_bytes();
    send(to, &count, &[])?;
    let mut batches = offered.chunks(BATCH).peekable();
    while let Some(batch) = batches.next() {
        let mut text = Vec::new();
        for o in batch {
            for name in [&o.namespace, &o.interface] {
                let name = name.as_deref().unwrap_or("").as_bytes();
                text.push(name.len().min(255) as u8);
                text.extend_from_slice(&name[..name.len().min(255)]);
            }
            text.extend_from_slice(&[0; 4]);
        }
        let fds: Vec<BorrowedFd<'_>> = batch.iter().map(|o| o.fd.as_fd()).collect();
        send(to, &text, &fds)?;
        if batches.peek().is_some() {
            let mut ack = [0; 4];
            if rustix::net::recv(to, &mut ack, RecvFlags::empty())?.0 == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
    Ok(())
}

/// Sends bytes with descriptors.
pub fn send(to: impl AsFd, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut room = vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(BATCH))];
    let mut control = SendAncillaryBuffer::new(&mut room);
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let sent = sendmsg(
        to,
        &[IoSlice::new(bytes)],
        &mut control,
        SendFlags::NOSIGNAL,
    )?;
    match sent == bytes.len() {
        true => Ok(()),
        false => Err(io::ErrorKind::WriteZero.into()),
    }
}

/// Receives bytes with descriptors: how many bytes, 0 at the end.
pub fn receive(
    from: impl AsFd,
    bytes: &mut [u8],
    fds: &mut Vec<OwnedFd>,
    flags: RecvFlags,
) -> io::Result<usize> {
    let mut room = vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(BATCH))];
    let mut control = RecvAncillaryBuffer::new(&mut room);
    let got = recvmsg(
        from,
        &mut [IoSliceMut::new(bytes)],
        &mut control,
        flags | RecvFlags::CMSG_CLOEXEC,
    )?;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = message {
            fds.extend(received);
        }
    }
    Ok(got.bytes)
}

/// Sockets taken from the old process that no `bind` line has claimed yet.
#[derive(Default)]
pub struct Inherited {
    sockets: Vec<(Socket, String)>,
}

impl Inherited {
    /// Asks the process behind a connection to its command socket for its listeners.
    pub fn ask(old: &UnixStream) -> io::Result<Inherited> {
        old.set_read_timeout(Some(PATIENCE))?;
        old.set_write_timeout(Some(PATIENCE))?;
        send(old, b"_getsocks\n", &[])?;
        let mut count = [0; 4];
        if rustix::net::recv(old, &mut count, RecvFlags::WAITALL)?.0 < count.len() {
            return Err(io::Error::other("it gives no listeners to others"));
        }
        let count = u32::from_ne_bytes(count);
        if count > SOCKETS_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let (mut fds, mut text) = (Vec::new(), Vec::new());
        let mut chunk = vec![0; BATCH * NAMES_MAX];
        while fds.len() < count as usize {
            let got = receive(old, &mut chunk, &mut fds, RecvFlags::empty())?;
            if got == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            text.extend_from_slice(&chunk[..got]);
            let so_far = (fds.len() as u32).to_ne_bytes();
            if fds.len() < count as usize {
                send(old, &so_far, &[])?;
            }
        }
        let names = interfaces(&text, fds.len()).ok_or(io::ErrorKind::InvalidData)?;
        let sockets = fds.into_iter().map(Socket::from).zip(names);
        Ok(Inherited {
            sockets: sockets.collect(),
        })
    }

    /// The sockets that listen at an address; they belong to the caller now.
    pub fn claim(&mut self, addr: &ListenAddr, bind: Option<&Bind>) -> Vec<Socket> {
        let interface = bind.and_then(|b| b.interface.as_deref()).unwrap_or("");
        let namespace = bind.and_then(|b| b.namespace.as_deref()).unwrap_or("");
        let wanted = place(namespace, interface);
        let mut claimed = Vec::new();
        let mut k = 0;
        while k < self.sockets.len() {
            let (socket, on) = &self.sockets[k];
            if *on == wanted && listens_at(socket, addr) {
                claimed.push(self.sockets.swap_remove(k).0);
            } else {
                k += 1;
            }
        }
        claimed
    }

    /// A command socket at that address.
    pub fn claim_command(&mut self, addr: &ListenAddr) -> Option<Bound> {
        let socket = self.claim(addr, None).pop()?;
        socket.set_nonblocking(true).ok()?;
        Some(listen::bound(socket, matches!(addr, ListenAddr::Tcp(_))))
    }
}

/// A namespace and an interface as one name: a slash is in neither.
fn place(namespace: &str, interface: &str) -> String {
    match namespace {
        "" => interface.to_owned(),
        _ => format!("{namespace}/{interface}"),
    }
}

/// The namespaces' and interfaces' names of `n` sockets' descriptions.
fn interfaces(mut text: &[u8], n: usize) -> Option<Vec<String>> {
    fn name<'a>(text: &mut &'a [u8]) -> Option<&'a [u8]> {
        let (len, rest) = text.split_first()?;
        let (name, rest) = rest.split_at_checked(usize::from(*len))?;
        *text = rest;
        Some(name)
    }
    let mut out = Vec::new();
    for _ in 0..n {
        let namespace = String::from_utf8_lossy(name(&mut text)?);
        let interface = String::from_utf8_lossy(name(&mut text)?);
        out.push(place(&namespace, &interface));
        text = text.get(4..)?;
    }
    Some(out)
}

fn listens_at(socket: &Socket, addr: &ListenAddr) -> bool {
    let (Ok(Type::STREAM), Ok(at)) = (SockRef::from(socket).r#type(), socket.local_addr()) else {
        return false;
    };
    match addr {
        ListenAddr::Tcp(a) => at.as_socket() == Some(*a),
        ListenAddr::Unix(path) => at
            .as_pathname()
            .and_then(|p| p.to_str())
            .is_some_and(|p| same_path(p, path)),
        ListenAddr::Abstract { name, zero_padded } => {
            let bytes = |a: &SockAddr| a.as_abstract_namespace().map(<[u8]>::to_vec);
            listen::abstract_addr(name, *zero_padded)
                .is_ok_and(|a| bytes(&a).is_some() && bytes(&a) == bytes(&at))
        }
        ListenAddr::Fd(_) => false,
    }
}

/// A socket was bound as `path.<pid>.tmp` and renamed; the kernel still knows it by the first name.
fn same_path(bound: &str, path: &str) -> bool {
    let Some(rest) = bound.strip_prefix(path) else {
        return false;
    };
    let pid = rest.strip_prefix('.').and_then(|r| r.strip_suffix(".tmp"));
    rest.is_empty() || pid.is_some_and(|p| p.bytes().all(|b| b.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn offered(fd: impl Into<OwnedFd>, interface: Option<&str>) -> Offered {
        Offered {
            fd: fd.into(),
            frontend: None,
            interface: interface.map(String::from),
            namespace: None,
        }
    }

    #[test]
    fn sockets_arrive_in_several_messages_and_are_claimed_by_address() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = ListenAddr::Tcp(listener.local_addr().unwrap());
        let many = 2 * BATCH + 3;
        let mut offers: Vec<Offered> = (1..many)
            .map(|_| offered(listener.try_clone().unwrap(), None))
            .collect();
        offers.push(offered(listener, Some("lo")));
        let (old, new) = UnixStream::pair().unwrap();
        let giver = std::thread::spawn(move || {
            let mut line = [0; 10];
            rustix::net::recv(&old, &mut line, RecvFlags::WAITALL).unwrap();
            assert_eq!(&line, b"_getsocks\n");
            give(&old, &offers).unwrap();
        });
        let mut taken = Inherited::ask(&new).unwrap();
        giver.join().unwrap();
        assert_eq!(taken.sockets.len(), many);
        let elsewhere = ListenAddr::Tcp("127.0.0.2:1".parse().unwrap());
        assert!(taken.claim(&elsewhere, None).is_empty());
        assert_eq!(taken.claim(&addr, None).len(), many - 1);
        assert!(taken.claim(&addr, None).is_empty());
        assert_eq!(taken.sockets[0].1, "lo");
    }

    #[test]
    fn one_who_gives_nothing_is_an_error() {
        let (old, new) = UnixStream::pair().unwrap();
        drop(old);
        assert!(Inherited::ask(&new).is_err());
    }

    #[test]
    fn paths_are_compared_without_the_temporary_suffix() {
        for (bound, path, same) in [
            ("/run/a", "/run/a", true),
            ("/run/a.123.tmp", "/run/a", true),
            ("/run/a.b.tmp", "/run/a", false),
            ("/run/ab", "/run/a", false),
        ] {
            assert_eq!(same_path(bound, path), same, "{bound}");
        }
    }

    #[test]
    fn descriptions_that_end_early_are_refused() {
        assert_eq!(
            interfaces(&[0, 2, b'l', b'o', 0, 0, 0, 0], 1),
            Some(vec!["lo".to_string()])
        );
        assert_eq!(interfaces(&[0, 9, b'l', b'o', 0, 0, 0, 0], 1), None);
        assert_eq!(interfaces(&[0, 0, 0, 0], 1), None);
    }
}
