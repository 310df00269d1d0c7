//! Flows from a twin: all of them when the connection begins, then what changed, in records of 64 bytes over TCP.
//!
//! A director serves its table with `--sync` and pulls its twin's with `--sync-peer`. It pulls before its virtual routers
//! start, so that it knows the connections before it may become master; and it goes on pulling, so that it knows them
//! when the twin dies.
//!
//! Record: flow key as in the datapath (40), server address (16), port (2, network order), state (1), family of the server
//! (1), age in milliseconds (4, network order). A record of zeros ends the bulk.

use crate::datapath::Director;
use crate::datapath::layout::{FLOW_KEY, FlowEntry, FlowKey, address_bytes, family};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};

const RECORD: usize = 64;
const GREETING: &[u8; 8] = b"SL4FLOW1";
/// Time between two looks for changes; a table that takes long to walk is walked more rarely.
const PERIOD: Duration = Duration::from_secs(1);
/// A twin that takes no bytes, or sends none (it sends an empty round at least every period), is gone.
const SILENCE: Duration = Duration::from_secs(30);
/// Time the first pull may take before the routers start without it.
pub const FIRST_PULL: Duration = Duration::from_secs(5);
/// Twins served at once.
const TWINS_MAX: usize = 4;
/// Records applied at once.
const BATCH: usize = 1024;

/// What the tasks ask of the table's owner.
pub enum Ask {
    /// Records of the flows seen or changed since a time (nanoseconds of CLOCK_MONOTONIC).
    Changed(u64, oneshot::Sender<Vec<u8>>),
    Apply(Vec<[u8; RECORD]>),
    /// The twin's whole table has been read.
    Pulled,
}

/// The records of all flows seen since `since_ns`.
pub fn changed(director: &Director, since_ns: u64, now_ns: u64) -> Vec<u8> {
    let servers = director.servers_by_slot();
    let mut out = Vec::new();
    for (key, flow) in director
        .programs
        .flows()
        .filter(|(_, f)| f.seen_ns >= since_ns)
    {
        let Some((ip, port, generation)) = servers.get(&flow.server) else {
            continue;
        };
        if *generation != flow.generation {
            continue;
        }
        let age_ms =
            u32::try_from(now_ns.saturating_sub(flow.seen_ns) / 1_000_000).unwrap_or(u32::MAX);
        out.extend(key.bytes());
        out.extend(address_bytes(*ip));
        out.extend(port.to_be_bytes());
        out.extend([flow.state, family(*ip)]);
        out.extend(age_ms.to_be_bytes());
    }
    out
}

/// Takes records over: those of virtual servers and servers that are known here, unless our own flow is younger.
pub fn apply(director: &mut Director, records: &[[u8; RECORD]], now_ns: u64) -> usize {
    let mut taken = 0;
    for record in records {
        let Some((key, ip, port, state, age_ms)) = read(record) else {
            continue;
        };
        let seen_ns = now_ns.saturating_sub(u64::from(age_ms) * 1_000_000);
        let Some((service, server, generation)) = director.place_of(&key, ip, port) else {
            continue;
        };
        let younger =
            matches!(director.programs.flow(&key), Ok(Some(own)) if own.seen_ns >= seen_ns);
        if younger {
            continue;
        }
        let flow = FlowEntry {
            seen_ns,
            server,
            service,
            generation,
            state,
        };
        if director.programs.set_flow(&key, &flow).is_ok() {
            taken += 1;
        }
    }
    taken
}

fn read(record: &[u8; RECORD]) -> Option<(FlowKey, IpAddr, u16, u8, u32)> {
    let key = FlowKey::read(&record[..FLOW_KEY].try_into().ok()?);
    let address: [u8; 16] = record[40..56].try_into().ok()?;
    let (state, family) = (record[58], record[59]);
    if !(1..=5).contains(&state) {
        return None;
    }
    let ip = match family {
        4 => IpAddr::from([address[0], address[1], address[2], address[3]]),
        6 => IpAddr::from(address),
        _ => return None,
    };
    Some((
        key,
        ip,
        u16::from_be_bytes([record[56], record[57]]),
        state,
        u32::from_be_bytes([record[60], record[61], record[62], record[63]]),
    ))
}

/// Serves our flows to twins; if the twin is known, to it only.
pub async fn serve(
    address: SocketAddr,
    peer: Option<IpAddr>,
    asks: mpsc::UnboundedSender<Ask>,
) -> std::io::Result<()> {
    let listener = TcpListener::bind(address).await?;
    let room = std::sync::Arc::new(tokio::sync::Semaphore::new(TWINS_MAX));
    tokio::spawn(async move {
        while let Ok((stream, from)) = listener.accept().await {
            if peer.is_some_and(|p| p != from.ip()) {
                continue;
            }
            let Ok(place) = room.clone().try_acquire_owned() else {
                continue;
            };
            let asks = asks.clone();
            tokio::spawn(async move {
                let _ = feed(stream, asks).await;
                drop(place);
            });
        }
    });
    Ok(())
}

async fn feed(mut stream: TcpStream, asks: mpsc::UnboundedSender<Ask>) -> std::io::Result<()> {
    let mut since = 0;
    stream.write_all(GREETING).await?;
    loop {
        let began = tokio::time::Instant::now();
        let now = super::routers::now_us() * 1000;
        let (sender, receiver) = oneshot::channel();
        if asks.send(Ask::Changed(since, sender)).is_err() {
            return Ok(());
        }
        let Ok(mut records) = receiver.await else {
            return Ok(());
        };
        records.extend([0; RECORD]);
        let took = began.elapsed();
        tokio::time::timeout(SILENCE, stream.write_all(&records))
            .await
            .map_err(std::io::Error::other)??;
        // The datapath notes a flow's time once a second at most: look two seconds further back.
        since = now.saturating_sub(2_000_000_000);
        tokio::time::sleep(PERIOD.max(took * 10)).await;
    }
}

/// Pulls a twin's flows for ever, connecting again whenever that ends.
pub async fn pull(peer: SocketAddr, asks: mpsc::UnboundedSender<Ask>) {
    loop {
        let ended = pull_once(peer, &asks).await;
        if asks.is_closed() {
            return;
        }
        if let Err(e) = ended
            && e.kind() != std::io::ErrorKind::ConnectionRefused
        {
            println!("flows of {peer}: {e}");
        }
        tokio::time::sleep(PERIOD).await;
    }
}

async fn pull_once(peer: SocketAddr, asks: &mpsc::UnboundedSender<Ask>) -> std::io::Result<()> {
    let stream = tokio::time::timeout(Duration::from_secs(2), TcpStream::connect(peer))
        .await
        .map_err(std::io::Error::other)??;
    let mut stream = BufReader::with_capacity(1 << 16, stream);
    let mut greeting = [0; 8];
    tokio::time::timeout(SILENCE, stream.read_exact(&mut greeting))
        .await
        .map_err(std::io::Error::other)??;
    if &greeting != GREETING {
        return Err(std::io::Error::other("not a sluice-l4 of this version"));
    }
    let mut batch = Vec::with_capacity(BATCH);
    loop {
        let mut record = [0; RECORD];
        tokio::time::timeout(SILENCE, stream.read_exact(&mut record))
            .await
            .map_err(std::io::Error::other)??;
        let end = record == [0; RECORD];
        if !end {
            batch.push(record);
        }
        if end || batch.len() == BATCH {
            let _ = asks.send(Ask::Apply(std::mem::take(&mut batch)));
        }
        if end {
            let _ = asks.send(Ask::Pulled);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_record_panics(bytes in prop::collection::vec(any::<u8>(), RECORD)) {
            let record: [u8; RECORD] = bytes.try_into().unwrap();
            let _ = read(&record);
        }
    }
}
