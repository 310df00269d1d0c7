//! Servers of `ring` sections (manual 3.9): log servers over TCP that get a ring's messages in order, each framed as
//! RFC 6587 says. One that is away is connected to again and gets what the ring still has.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use sluice_config::model::RingServer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Notify;

use crate::logs::Rings;
use crate::net::peer::{self, Duplex};

/// Pause before another attempt to connect.
const AGAIN: Duration = Duration::from_secs(1);

/// Time to connect, and for messages to be taken, where the section does not say.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Starts what sends to the servers of all rings. Call it inside the main thread's event loop.
pub fn spawn_all(model: &sluice_config::model::Model, rings: &Arc<Rings>) {
    for ring in &model.rings {
        for server in &ring.servers {
            let Some(arrived) = rings.arrivals(&ring.name) else {
                continue;
            };
            let ms = |ms: Option<u64>| ms.map_or(TIMEOUT, Duration::from_millis);
            let to = Sender {
                rings: rings.clone(),
                arrived,
                ring: ring.name.clone(),
                server: server.clone(),
                connect: ms(ring.timeout_connect_ms),
                write: ms(ring.timeout_server_ms),
            };
            tokio::task::spawn_local(to.run());
        }
    }
}

struct Sender {
    rings: Arc<Rings>,
    /// Told of new messages.
    arrived: Arc<Notify>,
    ring: String,
    server: RingServer,
    connect: Duration,
    write: Duration,
}

impl Sender {
    /// For as long as the process lives.
    async fn run(self) {
        let mut seen = 0;
        loop {
            // what failed is tried again
            if let Ok(io) = within(self.connect, peer::connect(&self.server.addr)).await {
                let _ = self.send_all(io, &mut seen).await;
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// Sends what is there and what comes, until the server leaves or takes no more.
    async fn send_all(&self, mut io: impl Duplex, seen: &mut u64) -> io::Result<()> {
        let mut answer = [0; 512];
        loop {
            let mut more = std::pin::pin!(self.arrived.notified());
            more.as_mut().enable();
            let Some((lines, count)) = self.rings.since(&self.ring, *seen) else {
                return Ok(());
            };
            if lines.is_empty() {
                tokio::select! {
                    () = more => {}
                    // a log server says nothing; its end is what is read
                    read = io.read(&mut answer) => if read? == 0 { return Ok(()) },
                }
                continue;
            }
            let mut out = Vec::new();
            for line in &lines {
                frame(line, self.server.octet_count, &mut out);
            }
            within(self.write, io.write_all(&out)).await?;
            *seen = count;
        }
    }
}

async fn within<T>(time: Duration, act: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    match tokio::time::timeout(time, act).await {
        Ok(done) => done,
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    }
}

/// RFC 6587: a message behind its length, or in front of a line's end.
fn frame(line: &[u8], octet_count: bool, out: &mut Vec<u8>) {
    let message = line.strip_suffix(b"\n").unwrap_or(line);
    if octet_count {
        out.extend_from_slice(format!("{} ", message.len()).as_bytes());
        out.extend_from_slice(message);
    } else {
        out.extend_from_slice(message);
        out.push(b'\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_framed() {
        for (octet_count, expect) in [(true, "5 <6>ab"), (false, "<6>ab\n")] {
            let mut out = Vec::new();
            frame(b"<6>ab\n", octet_count, &mut out);
            assert_eq!(String::from_utf8_lossy(&out), expect);
        }
    }
}
