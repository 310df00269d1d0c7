//! The sockets of one virtual router: adverts out, adverts in.

use crate::config::model::VrrpInstance;
use crate::sys;
use crate::vrrp::packet::PROTOCOL;
use rustix::net::{RecvFlags, SocketAddrAny};
use socket2::{Domain, InterfaceIndexOrAddress, Protocol, SockAddr, Socket, Type};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV6};
use std::os::fd::{AsFd, BorrowedFd};

/// The only time to live an advert may arrive with, since routers lower it (RFC 9568 section 5.1.1.3).
const TTL: u32 = 255;

/// Where a router speaks.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// Device to bind to; none with unicast and no interface.
    pub device: Option<(String, u32)>,
    /// Our address.
    pub source: IpAddr,
    /// The group, or the peers.
    pub destinations: Vec<IpAddr>,
    pub multicast: bool,
    pub unicast_ttl: u8,
}

pub struct RouterSocket {
    pub endpoint: Endpoint,
    sender: Socket,
    receiver: Socket,
}

/// A datagram as it came.
pub struct Heard<'a> {
    pub source: IpAddr,
    pub destination: IpAddr,
    /// None where the kernel has checked it already.
    pub ttl: Option<u8>,
    pub message: &'a [u8],
}

impl RouterSocket {
    pub fn open(endpoint: Endpoint) -> io::Result<Self> {
        let v6 = endpoint.source.is_ipv6();
        let domain = if v6 { Domain::IPV6 } else { Domain::IPV4 };
        let make = || -> io::Result<Socket> {
            let socket = Socket::new(domain, Type::RAW, Some(Protocol::from(i32::from(PROTOCOL))))?;
            if let Some((name, _)) = &endpoint.device {
                socket.bind_device(Some(name.as_bytes()))?;
            }
            Ok(socket)
        };
        let sender = make()?;
        let scope = endpoint.device.as_ref().map_or(0, |(_, i)| *i);
        let source = socket_address(endpoint.source, scope);
        sender.bind(&source)?;
        // It only sends: what would be queued on it is not wanted.
        sender.set_recv_buffer_size(0)?;
        sender.shutdown(std::net::Shutdown::Read).or_else(|e| {
            if e.kind() == io::ErrorKind::NotConnected {
                Ok(())
            } else {
                Err(e)
            }
        })?;
        let unicast_ttl = u32::from(endpoint.unicast_ttl);
        if v6 {
            sender.set_multicast_hops_v6(TTL)?;
            sender.set_unicast_hops_v6(unicast_ttl)?;
            sender.set_multicast_loop_v6(false)?;
        } else {
            sender.set_multicast_ttl_v4(TTL)?;
            sender.set_ttl_v4(unicast_ttl)?;
            sender.set_multicast_loop_v4(false)?;
            // Network control, as keepalived marks its adverts.
            sender.set_tos_v4(0xc0)?;
        }
        let receiver = make()?;
        receiver.set_nonblocking(true)?;
        if endpoint.multicast {
            match endpoint.destinations.first() {
                Some(IpAddr::V4(group)) => {
                    receiver.join_multicast_v4_n(group, &InterfaceIndexOrAddress::Index(scope))?;
                    receiver.set_multicast_all_v4(false)?;
                }
                Some(IpAddr::V6(group)) => {
                    receiver.join_multicast_v6(group, scope)?;
                    sender.set_multicast_if_v6(scope)?;
                    sys::set_hop_limit_min(&receiver, TTL as i32)?;
                }
                None => {}
            }
        } else {
            receiver.bind(&source)?;
        }
        Ok(RouterSocket {
            endpoint,
            sender,
            receiver,
        })
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.receiver.as_fd()
    }

    pub fn send(&self, destination: IpAddr, message: &[u8]) -> io::Result<()> {
        let scope = self.endpoint.device.as_ref().map_or(0, |(_, i)| *i);
        self.sender
            .send_to(message, &socket_address(destination, scope))
            .map(drop)
    }

    /// The next datagram, if there is one.
    pub fn receive<'b>(&self, buffer: &'b mut [u8]) -> Option<Heard<'b>> {
        let (length, _, from) =
            rustix::net::recvfrom(&self.receiver, &mut *buffer, RecvFlags::DONTWAIT).ok()?;
        let source = from
            .and_then(|f: SocketAddrAny| SocketAddr::try_from(f).ok())?
            .ip();
        let bytes = buffer.get(..length)?;
        if source.is_ipv6() {
            let destination = match self.endpoint.destinations.first() {
                Some(group) if self.endpoint.multicast => *group,
                _ => self.endpoint.source,
            };
            return Some(Heard {
                source,
                destination,
                ttl: None,
                message: bytes,
            });
        }
        // IPv4 raw sockets give the header too.
        let header = usize::from(bytes.first()? & 0xf) * 4;
        let destination = Ipv4Addr::from(<[u8; 4]>::try_from(bytes.get(16..20)?).ok()?);
        Some(Heard {
            source,
            destination: destination.into(),
            ttl: bytes.get(8).copied(),
            message: bytes.get(header..)?,
        })
    }
}

fn socket_address(ip: IpAddr, scope: u32) -> SockAddr {
    match ip {
        IpAddr::V4(_) => SockAddr::from(SocketAddr::new(ip, 0)),
        IpAddr::V6(v6) => SockAddr::from(SocketAddrV6::new(v6, 0, 0, scope)),
    }
}

/// Whether an instance speaks IPv6.
pub fn is_v6(i: &VrrpInstance) -> bool {
    i.addresses
        .first()
        .or(i.excluded.first())
        .is_some_and(|a| a.ip.is_ipv6())
}
