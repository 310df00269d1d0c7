//! Route netlink, as much of it as a director needs: links, addresses, routes, neighbours. RFC 3549, rtnetlink(7).
//!
//! A socket for questions, which waits for each answer, and one for events. Addresses are added so that they vanish with
//! nothing else: each has its own prefix length and no side effects.

use crate::config::model::{Route, RouteKind, VirtualAddress};
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
const REQUEST: u16 = 1;
const ACK: u16 = 4;
const DUMP: u16 = 0x300;
const CREATE: u16 = 0x400;
const REPLACE: u16 = 0x100;
const EXCLUSIVE: u16 = 0x200;
const IFF_UP: u32 = 1;
const IFF_RUNNING: u32 = 0x40;
const HEADER: usize = 16;

/// A network interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    pub index: u32,
    pub name: String,
    /// Administratively up, and with a carrier.
    pub up: bool,
    pub mac: [u8; 6],
    pub mtu: u32,
    /// "veth", "macvlan" ... where the kernel says.
    pub kind: String,
    /// The XDP program attached, by the kernel's number.
    pub xdp: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Neighbour {
    pub ifindex: u32,
    pub ip: IpAddr,
    pub mac: [u8; 6],
}

/// Where packets to an address go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hop {
    pub ifindex: u32,
    pub gateway: Option<IpAddr>,
    pub source: Option<IpAddr>,
    /// The address is this machine's.
    pub local: bool,
}

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

/// A socket that hears of links, addresses and neighbours as they change.
pub struct Monitor {
    socket: OwnedFd,
}

impl Monitor {
    /// Links only.
    pub fn links() -> io::Result<Self> {
        Ok(Monitor { socket: open(1)? })
    }
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
    /// Reads over what has come; true if anything has (or was lost).
    pub fn drain(&self) -> bool {
        let mut buffer = vec![0; 65536];
        let mut any = false;
        loop {
            match recv(&self.socket, &mut buffer[..], RecvFlags::DONTWAIT) {
                Ok(_) => any = true,
                Err(rustix::io::Errno::NOBUFS) => any = true,
                Err(_) => return any,
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

    pub fn links(&mut self) -> io::Result<Vec<Link>> {
        let answer = self.ask(RTM_GETLINK, DUMP, &[0; 16])?;
        Ok(answer.iter().filter_map(|(_, body)| link(body)).collect())
    }

    pub fn link(&mut self, name: &str) -> io::Result<Option<Link>> {
        Ok(self.links()?.into_iter().find(|l| l.name == name))
    }

    /// Interface, address and prefix length of every address.
    pub fn addresses(&mut self) -> io::Result<Vec<(u32, IpAddr, u8)>> {
        let answer = self.ask(RTM_GETADDR, DUMP, &[0; 8])?;
        let mut all = Vec::new();
        for (_, body) in &answer {
            let attrs = body.get(8..).unwrap_or_default();
            // IFA_LOCAL where there is one (a peer address is IFA_ADDRESS), else IFA_ADDRESS.
            let find = |wanted| {
                attributes(attrs)
                    .find(|(k, _)| *k == wanted)
                    .and_then(|(_, v)| address(v))
            };
            if let Some(ip) = find(2).or_else(|| find(1)) {
                all.push((number32(body, 4), ip, body.get(1).copied().unwrap_or(0)));
            }
        }
        Ok(all)
    }

    fn address_message(ifindex: u32, a: &VirtualAddress) -> Vec<u8> {
        const IFA_F_NODAD: u32 = 2;
        const IFA_F_NOPREFIXROUTE: u32 = 0x200;
        let mut body = vec![family(a.ip), a.prefix, 0, a.scope];
        body.extend(ifindex.to_ne_bytes());
        let mut m = Message(body).ip(2, a.ip).ip(1, a.ip);
        if let Some(brd) = a.broadcast {
            m = m.ip(4, brd.into());
        }
        if let Some(label) = &a.label {
            m = m.attribute(3, &[label.as_bytes(), &[0]].concat());
        }
        let mut flags = 0;
        // A virtual address moves here from elsewhere: waiting for duplicate detection would only delay it.
        if a.no_dad || a.ip.is_ipv6() {
            flags |= IFA_F_NODAD;
        }
        if a.no_prefix_route {
            flags |= IFA_F_NOPREFIXROUTE;
        }
        m = m.number(8, flags);
        if a.ip.is_ipv6() && a.prefix == 128 {
            // Preferred lifetime 0 (the address is never chosen as a source), valid for ever.
            let mut info = 0u32.to_ne_bytes().to_vec();
            info.extend(u32::MAX.to_ne_bytes());
            info.extend([0; 8]);
            m = m.attribute(6, &info);
        }
        m.0
    }

    /// Adds an address; one that is there already is no error.
    pub fn add_address(&mut self, ifindex: u32, a: &VirtualAddress) -> io::Result<()> {
        let result = self.ask(
            RTM_NEWADDR,
            ACK | CREATE | EXCLUSIVE,
            &Self::address_message(ifindex, a),
        );
        tolerate(result, libc::EEXIST)
    }

    /// Removes an address; one that is gone already is no error.
    pub fn remove_address(&mut self, ifindex: u32, a: &VirtualAddress) -> io::Result<()> {
        let result = self.ask(RTM_DELADDR, ACK, &Self::address_message(ifindex, a));
        tolerate(result, libc::EADDRNOTAVAIL)
    }

    fn route_message(r: &Route, ifindex: Option<u32>) -> Vec<u8> {
        // The protocol number keepalived registered in /etc/iproute2/rt_protos, so that operators know it.
        const PROTOCOL_KEEPALIVED: u8 = 18;
        let kind = match r.kind {
            RouteKind::Unicast => 1,
            RouteKind::Blackhole => 6,
            RouteKind::Unreachable => 7,
            RouteKind::Prohibit => 8,
        };
        let v6 = r.ipv6;
        let scope = r
            .scope
            .unwrap_or(if v6 || r.gateway.is_some() || kind != 1 {
                0
            } else {
                253
            });
        let prefix = r.destination.map_or(0, |(_, p)| p);
        let table = r.table.unwrap_or(254);
        let flags: u32 = if r.on_link { 4 } else { 0 };
        let mut body = vec![
            if v6 {
                libc::AF_INET6 as u8
            } else {
                libc::AF_INET as u8
            },
            prefix,
            0,
            0,
        ];
        body.extend([table.min(255) as u8, PROTOCOL_KEEPALIVED, scope, kind]);
        body.extend(flags.to_ne_bytes());
        let mut m = Message(body).number(15, table);
        if let Some((ip, _)) = r.destination {
            m = m.ip(1, ip);
        }
        if let Some(ip) = r.gateway {
            m = m.ip(5, ip);
        }
        if let Some(ip) = r.source {
            m = m.ip(7, ip);
        }
        if let Some(i) = ifindex {
            m = m.number(4, i);
        }
        if let Some(metric) = r.metric {
            m = m.number(6, metric);
        }
        m.0
    }

    pub fn add_route(&mut self, r: &Route, ifindex: Option<u32>) -> io::Result<()> {
        let result = self.ask(
            RTM_NEWROUTE,
            ACK | CREATE | REPLACE,
            &Self::route_message(r, ifindex),
        );
        tolerate(result, libc::EEXIST)
    }

    pub fn remove_route(&mut self, r: &Route, ifindex: Option<u32>) -> io::Result<()> {
        let result = self.ask(RTM_DELROUTE, ACK, &Self::route_message(r, ifindex));
        tolerate(result, libc::ESRCH)
    }

    /// The way to an address.
    pub fn route_to(&mut self, ip: IpAddr) -> io::Result<Hop> {
        let width = if ip.is_ipv4() { 32 } else { 128 };
        let mut body = vec![family(ip), width, 0, 0, 0, 0, 0, 0];
        body.extend([0; 4]);
        let answer = self.ask(RTM_GETROUTE, 0, &Message(body).ip(1, ip).0)?;
        let (_, body) = answer
            .first()
            .ok_or_else(|| io::Error::other("no answer"))?;
        let mut hop = Hop {
            ifindex: 0,
            gateway: None,
            source: None,
            local: body.get(7) == Some(&2),
        };
        for (kind, value) in attributes(body.get(12..).unwrap_or_default()) {
            match kind {
                4 => hop.ifindex = number32(value, 0),
                5 => hop.gateway = address(value),
                7 => hop.source = address(value),
                // RTA_VIA: family, then address.
                18 => hop.gateway = value.get(2..).and_then(address),
                _ => {}
            }
        }
        Ok(hop)
    }

    /// Neighbours whose MAC is known.
    pub fn neighbours(&mut self) -> io::Result<Vec<Neighbour>> {
        const NUD_USABLE: u16 = 0x02 | 0x04 | 0x08 | 0x10 | 0x80;
        let answer = self.ask(RTM_GETNEIGH, DUMP, &[0; 12])?;
        let mut all = Vec::new();
        for (kind, body) in &answer {
            if *kind != RTM_NEWNEIGH || number16(body, 8) & NUD_USABLE == 0 {
                continue;
            }
            let (mut ip, mut mac) = (None, None);
            for (kind, value) in attributes(body.get(12..).unwrap_or_default()) {
                match kind {
                    1 => ip = address(value),
                    2 => mac = <[u8; 6]>::try_from(value).ok(),
                    _ => {}
                }
            }
            if let (Some(ip), Some(mac)) = (ip, mac) {
                all.push(Neighbour {
                    ifindex: number32(body, 4),
                    ip,
                    mac,
                });
            }
        }
        Ok(all)
    }

    /// Asks the kernel to resolve a neighbour (or to make sure of it), as if a packet were sent there.
    pub fn probe_neighbour(&mut self, ifindex: u32, ip: IpAddr) -> io::Result<()> {
        const NTF_USE: u8 = 1;
        let mut body = vec![family(ip), 0, 0, 0];
        body.extend(ifindex.to_ne_bytes());
        body.extend([0, 0, NTF_USE, 0]);
        self.ask(RTM_NEWNEIGH, ACK | CREATE, &Message(body).ip(1, ip).0)
            .map(drop)
    }

    /// Makes a private macvlan over `base` and sets it up.
    pub fn add_macvlan(&mut self, base: u32, name: &str, mac: [u8; 6]) -> io::Result<()> {
        const MACVLAN_MODE_PRIVATE: u32 = 1;
        let mut body = vec![0; 8];
        body.extend(IFF_UP.to_ne_bytes());
        body.extend(IFF_UP.to_ne_bytes());
        let data = Message::default().number(1, MACVLAN_MODE_PRIVATE).0;
        let info = Message::default()
            .attribute(1, b"macvlan\0")
            .attribute(2, &data)
            .0;
        let m = Message(body)
            .attribute(3, &[name.as_bytes(), &[0]].concat())
            .number(5, base)
            .attribute(1, &mac)
            .attribute(18, &info);
        let result = self.ask(RTM_NEWLINK, ACK | CREATE | EXCLUSIVE, &m.0);
        tolerate(result, libc::EEXIST)
    }

    /// Attaches an XDP program to an interface (in the driver or, if `generic`, in the stack), or detaches what is there.
    ///
    /// Attached like this, and not by a BPF link, a program outlives its process: after a crash packets are forwarded by
    /// the last tables, as IPVS would, until the next start replaces the program.
    pub fn set_xdp(
        &mut self,
        ifindex: u32,
        program: Option<BorrowedFd<'_>>,
        generic: bool,
    ) -> io::Result<()> {
        use std::os::fd::AsRawFd;
        const IFLA_XDP_NESTED: u16 = 43 | 0x8000;
        let fd = program.map_or(-1, |p| p.as_raw_fd());
        let flags: u32 = if generic { 2 } else { 4 };
        let mut body = vec![0; 4];
        body.extend(ifindex.to_ne_bytes());
        body.extend([0; 8]);
        let xdp = Message::default()
            .attribute(1, &fd.to_ne_bytes())
            .number(3, flags)
            .0;
        self.ask(
            RTM_SETLINK,
            ACK,
            &Message(body).attribute(IFLA_XDP_NESTED, &xdp).0,
        )
        .map(drop)
    }

    pub fn remove_link(&mut self, index: u32) -> io::Result<()> {
        let mut body = vec![0; 4];
        body.extend(index.to_ne_bytes());
        body.extend([0; 8]);
        self.ask(RTM_DELLINK, ACK, &body).map(drop)
    }
}

fn tolerate<T>(result: io::Result<T>, code: i32) -> io::Result<()> {
    match result {
        Err(e) if e.raw_os_error() == Some(code) => Ok(()),
        other => other.map(drop),
    }
}

fn link(body: &[u8]) -> Option<Link> {
    let flags = number32(body, 8);
    let mut link = Link {
        index: number32(body, 4),
        name: String::new(),
        up: flags & IFF_UP != 0 && flags & IFF_RUNNING != 0,
        mac: [0; 6],
        mtu: 0,
        kind: String::new(),
        xdp: None,
    };
    for (kind, value) in attributes(body.get(16..)?) {
        match kind {
            1 => link.mac = value.try_into().unwrap_or_default(),
            3 => {
                link.name = String::from_utf8_lossy(value)
                    .trim_end_matches('\0')
                    .to_string()
            }
            4 => link.mtu = number32(value, 0),
            // IFLA_XDP: IFLA_XDP_PROG_ID where there is one.
            43 => {
                link.xdp = attributes(value)
                    .find(|(k, _)| *k == 4)
                    .map(|(_, v)| number32(v, 0))
            }
            18 => {
                if let Some((_, kind)) = attributes(value).find(|(k, _)| *k == 1) {
                    link.kind = String::from_utf8_lossy(kind)
                        .trim_end_matches('\0')
                        .to_string();
                }
            }
            _ => {}
        }
    }
    Some(link)
}

#[cfg(test)]
mod tests {
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
