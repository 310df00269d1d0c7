//! Netlink, as much of it as a director needs: links, addresses, routes and rules, neighbours, and the firewall's rules for
//! addresses that accept nothing. RFC 3549, rtnetlink(7).
//!
//! A socket for questions, which waits for each answer, and one for events.

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recv, send, socket_with,
};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
pub const RTM_NEWLINK: u16 = 16;
pub const RTM_DELLINK: u16 = 17;
const RTM_GETLINK: u16 = 18;
const RTM_SETLINK: u16 = 19;
const RTM_NEWADDR: u16 = 20;
const RTM_DELADDR: u16 = 21;
const RTM_GETADDR: u16 = 22;
const RTM_NEWROUTE: u16 = 24;
const RTM_DELROUTE: u16 = 25;
const RTM_GETROUTE: u16 = 26;
const RTM_NEWNEIGH: u16 = 28;
const RTM_GETNEIGH: u16 = 30;
const RTM_NEWRULE: u16 = 32;
const RTM_DELRULE: u16 = 33;
const REQUEST: u16 = 1;
const ACK: u16 = 4;
const DUMP: u16 = 0x300;
const CREATE: u16 = 0x400;
const REPLACE: u16 = 0x100;
const EXCLUSIVE: u16 = 0x200;
const IFF_UP: u32 = 1;
const IFF_RUNNING: u32 = 0x40;
const HEADER: usize = 16;

mod addresses;
pub mod firewall;
mod links;
mod neighbours;
mod routes;

pub use links::Link;
pub use neighbours::Neighbour;
pub use routes::{Hop, Index};

pub struct Netlink {
    socket: OwnedFd,
    sequence: u32,
    /// Kept between questions: thousands of routes are asked for one by one.
    buffer: Vec<u8>,
}

/// Longest datagram of an answer.
const ANSWER_MAX: usize = 1 << 18;

/// Attributes under construction.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn attribute(mut self, kind: u16, value: &[u8]) -> Self {
        self.0.extend((4 + value.len() as u16).to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }
    fn ip(self, kind: u16, ip: IpAddr) -> Self {
        match ip {
            IpAddr::V4(v) => self.attribute(kind, &v.octets()),
            IpAddr::V6(v) => self.attribute(kind, &v.octets()),
        }
    }
    fn number(self, kind: u16, value: u32) -> Self {
        self.attribute(kind, &value.to_ne_bytes())
    }
}

fn number16(bytes: &[u8], at: usize) -> u16 {
    bytes
        .get(at..at + 2)
        .and_then(|b| b.try_into().ok())
        .map_or(0, u16::from_ne_bytes)
}
fn number32(bytes: &[u8], at: usize) -> u32 {
    bytes
        .get(at..at + 4)
        .and_then(|b| b.try_into().ok())
        .map_or(0, u32::from_ne_bytes)
}

/// Kind and value of each attribute.
fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(number16(bytes, 0));
        let value = bytes.get(4..length)?;
        let kind = number16(bytes, 2) & 0x3fff;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

/// Type and body of each message in a datagram.
pub fn messages(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = number32(bytes, 0) as usize;
        let body = bytes.get(HEADER..length)?;
        let kind = number16(bytes, 4);
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, body))
    })
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => <[u8; 4]>::try_from(bytes)
            .ok()
            .map(|b| Ipv4Addr::from(b).into()),
        16 => <[u8; 16]>::try_from(bytes)
            .ok()
            .map(|b| Ipv6Addr::from(b).into()),
        _ => None,
    }
}

fn family(ip: IpAddr) -> u8 {
    if ip.is_ipv4() {
        libc::AF_INET as u8
    } else {
        libc::AF_INET6 as u8
    }
}

fn open(groups: u32) -> io::Result<OwnedFd> {
    let socket = socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        None,
    )?;
    bind(&socket, &SocketAddrNetlink::new(0, groups))?;
    Ok(socket)
}

/// A socket that hears of links and addresses as they change.
pub struct Monitor {
    socket: OwnedFd,
}

/// What has changed since it was looked at last.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Changes {
    pub links: bool,
    pub addresses_new: bool,
    pub addresses_gone: bool,
}

/// RTMGRP_LINK, and RTMGRP_IPV4_IFADDR with RTMGRP_IPV6_IFADDR.
const GROUP_LINKS: u32 = 1;
const GROUP_ADDRESSES: u32 = 0x110;

impl Monitor {
    pub fn addresses() -> io::Result<Self> {
        let socket = open(GROUP_ADDRESSES)?;
        Ok(Monitor { socket })
    }
    pub fn links_and_addresses() -> io::Result<Self> {
        let socket = open(GROUP_LINKS | GROUP_ADDRESSES)?;
        Ok(Monitor { socket })
    }
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
    /// Reads over what has come. What was lost may have been anything.
    pub fn drain(&self) -> Changes {
        let mut buffer = [0; 16384];
        let mut changes = Changes::default();
        loop {
            match recv(&self.socket, &mut buffer[..], RecvFlags::DONTWAIT) {
                Ok((length, _)) => {
                    for (kind, _) in messages(buffer.get(..length).unwrap_or_default()) {
                        match kind {
                            RTM_NEWADDR => changes.addresses_new = true,
                            RTM_DELADDR => changes.addresses_gone = true,
                            _ => changes.links = true,
                        }
                    }
                }
                Err(rustix::io::Errno::NOBUFS) => {
                    changes = Changes {
                        links: true,
                        addresses_new: true,
                        addresses_gone: true,
                    }
                }
                Err(_) => return changes,
            }
        }
    }
}

impl Netlink {
    pub fn open() -> io::Result<Self> {
        let socket = open(0)?;
        rustix::net::sockopt::set_socket_timeout(
            &socket,
            rustix::net::sockopt::Timeout::Recv,
            Some(std::time::Duration::from_secs(5)),
        )?;
        Ok(Netlink {
            socket,
            sequence: 0,
            buffer: Vec::new(),
        })
    }

    /// Sends a request and gathers the answer; a kernel error is an error.
    fn ask(&mut self, kind: u16, flags: u16, body: &[u8]) -> io::Result<Vec<(u16, Vec<u8>)>> {
        self.sequence += 1;
        let mut out = ((HEADER + body.len()) as u32).to_ne_bytes().to_vec();
        out.extend(kind.to_ne_bytes());
        out.extend((flags | REQUEST).to_ne_bytes());
        out.extend(self.sequence.to_ne_bytes());
        out.extend([0; 4]);
        out.extend(body);
        send(&self.socket, &out, SendFlags::empty())?;
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.resize(ANSWER_MAX, 0);
        let answer = self.gather(flags, &mut buffer);
        self.buffer = buffer;
        answer
    }

    fn gather(&mut self, flags: u16, buffer: &mut [u8]) -> io::Result<Vec<(u16, Vec<u8>)>> {
        let mut answer = Vec::new();
        loop {
            let (length, _) = recv(&self.socket, &mut *buffer, RecvFlags::empty())?;
            let datagram = buffer.get(..length).unwrap_or_default();
            if number32(datagram, 8) != self.sequence {
                // The rest of an answer that an earlier question gave up on.
                continue;
            }
            for (kind, body) in messages(datagram) {
                match kind {
                    NLMSG_ERROR => {
                        let code = number32(body, 0) as i32;
                        return if code == 0 {
                            Ok(answer)
                        } else {
                            Err(io::Error::from_raw_os_error(-code))
                        };
                    }
                    NLMSG_DONE => return Ok(answer),
                    _ => answer.push((kind, body.to_vec())),
                }
            }
            if flags & (DUMP | ACK) == 0 {
                return Ok(answer);
            }
        }
    }
}

fn tolerate<T>(result: io::Result<T>, code: i32) -> io::Result<()> {
    match result {
        Err(e) if e.raw_os_error() == Some(code) => Ok(()),
        other => other.map(drop),
    }
}

#[cfg(test)]
mod tests {
    use super::links::link;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_loopback_is_found() {
        let mut n = Netlink::open().unwrap();
        let lo = n.link("lo").unwrap().expect("every machine has lo");
        let addresses = n.addresses().unwrap();
        if lo.up {
            assert!(
                addresses.contains(&(lo.index, IpAddr::from([127, 0, 0, 1]), 8)),
                "{addresses:?}"
            );
            let hop = n.route_to(IpAddr::from([127, 0, 0, 1])).unwrap();
            assert!(hop.local);
            assert_eq!(hop.ifindex, lo.index);
        }
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            for (_, body) in messages(&bytes) {
                link(body);
                attributes(body).count();
            }
        }
    }
}
