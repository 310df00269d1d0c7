//! Connections of the process itself to servers that the configuration names by address: log servers, mail servers.

use std::io;

use sluice_config::model::{PeerAddr, PortSpec};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

/// Bytes both ways.
pub trait Duplex: AsyncRead + AsyncWrite + Unpin {}

impl<T: AsyncRead + AsyncWrite + Unpin> Duplex for T {}

/// A connection over TCP or a Unix socket. An address without a port of its own is none to connect to.
pub async fn connect(addr: &PeerAddr) -> io::Result<Box<dyn Duplex>> {
    Ok(match addr {
        PeerAddr::Ip {
            ip,
            port: PortSpec::Fixed(port),
        } => Box::new(TcpStream::connect((*ip, *port)).await?),
        PeerAddr::Unix(path) => Box::new(UnixStream::connect(path).await?),
        _ => return Err(io::ErrorKind::AddrNotAvailable.into()),
    })
}
