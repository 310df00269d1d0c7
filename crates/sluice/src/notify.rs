//! Telling systemd (sd_notify(3)): a datagram to the socket it names.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// The service is ready.
pub fn ready() {
    send(&format!("READY=1\nMAINPID={}\n", std::process::id()));
}

/// The service is stopping.
pub fn stopping() {
    send("STOPPING=1\n");
}

fn send(text: &str) {
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
