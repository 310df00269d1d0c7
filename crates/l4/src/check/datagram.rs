//! Checks by datagram: DNS_CHECK, UDP_CHECK and PING_CHECK.

use super::probe::fail;
use super::reach::socket;
use crate::config::model::{Checker, UdpCheck};
use socket2::{Protocol, SockAddr, Type};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use tokio::net::UdpSocket;
use tokio::time::timeout;

fn udp(checker: &Checker, to: SocketAddr) -> Result<UdpSocket, String> {
    let make = || -> io::Result<UdpSocket> {
        let socket = socket(checker, to, Type::DGRAM, None)?;
        socket.connect(&SockAddr::from(to))?;
        UdpSocket::from_std(socket.into())
    };
    make().map_err(fail("socket"))
}

/// RFC 1035: a question; any answer to it without an error will do.
pub(super) async fn dns(
    checker: &Checker,
    to: SocketAddr,
    record: u16,
    name: &str,
) -> Result<(), String> {
    let socket = udp(checker, to)?;
    let id = socket.local_addr().map_or(0x5ca1, |a| a.port());
    let mut query = id.to_be_bytes().to_vec();
    query.extend([1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    for label in name.split('.').filter(|l| !l.is_empty()) {
        query.push(label.len() as u8);
        query.extend(label.as_bytes());
    }
    query.push(0);
    query.extend(record.to_be_bytes());
    query.extend([0, 1]);
    socket.send(&query).await.map_err(fail("send"))?;
    let mut answer = [0; 1500];
    loop {
        let n = socket.recv(&mut answer).await.map_err(fail("receive"))?;
        let [a, b, flags, more, ..] = answer;
        // Strays and echoes are not our answer.
        if n < 12 || [a, b] != id.to_be_bytes() || flags & 0x80 == 0 {
            continue;
        }
        return match more & 0xf {
            0 => Ok(()),
            code => Err(format!("response code {code}")),
        };
    }
}

pub(super) async fn datagram(
    checker: &Checker,
    to: SocketAddr,
    check: &UdpCheck,
    limit: Duration,
) -> Result<(), String> {
    let socket = udp(checker, to)?;
    let payload = check
        .payload
        .clone()
        .unwrap_or_else(|| b"sluice-l4 health check".to_vec());
    socket.send(&payload).await.map_err(fail("send"))?;
    let mut answer = vec![0; 65536];
    match timeout(limit, socket.recv(&mut answer)).await {
        Err(_) if check.require_reply => Err("no reply".into()),
        Err(_) => Ok(()),
        // An ICMP error comes back as one of the socket.
        Ok(Err(e)) => Err(format!("receive: {e}")),
        Ok(Ok(n)) if check.require_reply => {
            if n < usize::from(check.reply_min) || n > usize::from(check.reply_max) {
                return Err(format!("a reply of {n} bytes"));
            }
            let same = check
                .reply
                .iter()
                .zip(&answer[..n])
                .all(|((value, mask), byte)| value & mask == byte & mask);
            if same {
                Ok(())
            } else {
                Err("the reply differs".into())
            }
        }
        Ok(Ok(_)) => Ok(()),
    }
}

pub(super) async fn ping(checker: &Checker, to: IpAddr) -> Result<(), String> {
    let v4 = to.is_ipv4();
    let protocol = if v4 {
        Protocol::ICMPV4
    } else {
        Protocol::ICMPV6
    };
    let address = SocketAddr::new(to, 0);
    let socket = socket(checker, address, Type::RAW, Some(protocol)).map_err(fail("socket"))?;
    socket
        .connect(&SockAddr::from(address))
        .map_err(fail("connect"))?;
    // A connected raw socket is read like a datagram socket.
    let socket = UdpSocket::from_std(socket.into()).map_err(fail("socket"))?;
    // Our process and this probe: replies to others come to this socket too.
    let id = (std::process::id() as u16) ^ (std::ptr::from_ref(checker) as usize >> 4) as u16;
    let mut echo = vec![if v4 { 8 } else { 128 }, 0, 0, 0];
    echo.extend(id.to_be_bytes());
    echo.extend([0, 1]);
    echo.extend(b"sluice-l4");
    if v4 {
        let mut sum = crate::vrrp::packet::Sum::default();
        sum.add(&echo);
        echo[2..4].copy_from_slice(&sum.finish().to_be_bytes());
    }
    socket.send(&echo).await.map_err(fail("send"))?;
    let mut buffer = [0; 1500];
    loop {
        let n = socket.recv(&mut buffer).await.map_err(fail("receive"))?;
        let packet = buffer.get(..n).unwrap_or_default();
        let header = if v4 {
            usize::from(packet.first().copied().unwrap_or(0) & 0xf) * 4
        } else {
            0
        };
        let icmp = packet.get(header..).unwrap_or_default();
        let [kind, _, _, _, a, b, ..] = icmp else {
            continue;
        };
        if *kind == (if v4 { 0 } else { 129 }) && [*a, *b] == id.to_be_bytes() {
            return Ok(());
        }
    }
}
