//! Addresses as they are written: `ipv4@`, `ipv6@`, `unix@`, `abns@`, `fd@`, ports and port ranges.

use std::net::{IpAddr, SocketAddr};

/// One place to listen on. A port range or a list in the text has become several of these.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListenAddr {
    Tcp(SocketAddr),
    /// `unix@path` or an absolute path, prefixed by `unix-bind prefix`.
    Unix(String),
    /// `abns@name`: abstract namespace, without the leading NUL. `zero_padded`: false for `abnsz@`.
    Abstract {
        name: String,
        zero_padded: bool,
    },
    /// `fd@N`, inherited.
    Fd(i32),
}

/// Where a server, log target or check is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PeerAddr {
    Ip {
        ip: IpAddr,
        port: PortSpec,
    },
    Unix(String),
    Abstract {
        name: String,
        zero_padded: bool,
    },
    /// A name that has no address yet (`init-addr none`): the server is in maintenance until a command or DNS gives one.
    Unresolved {
        host: String,
        port: PortSpec,
    },
    /// `fd@N` (logs only), `stdout`/`stderr` are 1 and 2.
    Fd(i32),
    /// `ring@NAME` (logs only).
    Ring(String),
    /// `backend@NAME` (logs only): a server of that log backend.
    Backend {
        name: String,
        id: sluice_expr::ProxyId,
    },
}

/// The port of a server address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PortSpec {
    /// No port was given: that of the client's connection is used.
    FromClient,
    Fixed(u16),
    /// `:+N` / `:-N`: the client's destination port plus an offset.
    Offset(i32),
}
