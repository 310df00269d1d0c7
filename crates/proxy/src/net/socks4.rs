//! The client's part of SOCKS version 4: a connection to a proxy becomes one to a server.

use std::io;
use std::net::{SocketAddr, SocketAddrV4};

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::peer::Duplex;

/// CONNECT, and the one answer that is no refusal.
const CONNECT: u8 = 1;
const GRANTED: u8 = 90;

/// HAProxy's words for a refusal.
pub const DENIED: &str = "SOCKS4 Proxy deny the request";

/// Asks the proxy at the other end for a connection. It must not have said anything before, and what follows its answer is
/// the server's. The caller bounds the time.
pub async fn ask(io: &mut impl Duplex, server: SocketAddr) -> io::Result<()> {
    io.write_all(&request(server)?).await?;
    let mut answer = [0; 8];
    io.read_exact(&mut answer).await?;
    match answer[1] {
        GRANTED => Ok(()),
        _ => Err(io::Error::new(io::ErrorKind::ConnectionRefused, DENIED)),
    }
}

/// What is asked; the protocol knows IPv4 only. The user is HAProxy's, which proxies may have rules for.
fn request(server: SocketAddr) -> io::Result<Vec<u8>> {
    let v4 = match server.ip().to_canonical() {
        std::net::IpAddr::V4(ip) => SocketAddrV4::new(ip, server.port()),
        std::net::IpAddr::V6(_) => return Err(io::ErrorKind::AddrNotAvailable.into()),
    };
    let mut out = vec![4, CONNECT];
    out.extend_from_slice(&v4.port().to_be_bytes());
    out.extend_from_slice(&v4.ip().octets());
    out.extend_from_slice(b"HAProxy\0");
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As haproxy 2.6 wrote it.
    #[test]
    fn it_asks_as_haproxy_does() {
        let asked = request(SocketAddr::from(([10, 1, 2, 3], 80))).expect("IPv4");
        assert_eq!(asked, b"\x04\x01\x00P\n\x01\x02\x03HAProxy\x00");
        assert!(request("[::1]:80".parse().expect("an address")).is_err());
    }
}
