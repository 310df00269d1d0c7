//! Telling systemd (sd_notify(3)): a datagram to the socket it names.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Sends lines of `NAME=value` to the service manager, if there is one.
pub fn send(text: &str) {
    let Ok(path) = std::env::var("NOTIFY_SOCKET") else {
        return;
    };
    let Ok(socket) = UnixDatagram::unbound() else {
        return;
    };
    // nobody to tell when it fails: the service manager is the one that would be told
    let _ = match path.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name)
            .and_then(|a| socket.send_to_addr(text.as_bytes(), &a)),
        None => socket.send_to(text.as_bytes(), path),
    };
}
