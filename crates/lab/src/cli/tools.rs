//! `origin` and `relay` on the command line.

use crate::host::{self, CpuList};
use crate::net::parse_addr;
use crate::units::{parse_size, parse_time};
use crate::{origin, relay};
use anyhow::Result;
use clap::Args;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Runs until a signal or until the time is over.
fn run_until(duration: Option<Duration>) {
    let _ = host::sleep(duration.unwrap_or(Duration::from_secs(u64::from(u32::MAX))));
}

#[derive(Debug, Args)]
#[command(after_help = origin::QUERY_HELP)]
pub struct OriginArgs {
    /// First listening address (ADDR:PORT, :PORT or PORT)
    #[arg(short, long, value_name = "ADDR", default_value = "127.0.0.1:8000", value_parser = parse_addr)]
    listen: SocketAddr,
    /// Listeners on that many consecutive ports
    #[arg(short, long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    servers: u16,
    /// Threads, each with all the listeners
    #[arg(short, long, value_name = "N", default_value_t = 1)]
    threads: usize,
    /// CPUs that the threads are pinned to, such as 0,2-3
    #[arg(short, long, value_name = "LIST")]
    cpus: Option<CpuList>,
    /// Folder of static files
    #[arg(short, long, value_name = "FOLDER")]
    root: Option<PathBuf>,
    /// Add an X-Server header with the port that the request came to
    #[arg(long)]
    name: bool,
    /// Stop after this time (default: at Ctrl-C)
    #[arg(short, long, value_name = "TIME", value_parser = parse_time)]
    duration: Option<Duration>,
}

impl OriginArgs {
    pub fn run(self) -> Result<ExitCode> {
        let options = origin::Options {
            listen: self.listen,
            servers: self.servers,
            threads: self.threads,
            cpus: self.cpus.unwrap_or_default(),
            root: self.root,
            anonymous: !self.name,
        };
        let origin = origin::Origin::start(&options)?;
        println!("origin listening on {}", addresses(&origin.addrs));
        run_until(self.duration);
        let counters = origin.counters();
        let read = |n: &std::sync::atomic::AtomicU64| n.load(Ordering::Relaxed);
        println!(
            "{} requests on {} connections, {} refused",
            read(&counters.requests),
            read(&counters.conns),
            read(&counters.bad)
        );
        Ok(ExitCode::SUCCESS)
    }
}

/// `A`, `A to B` for consecutive ports, or each of them.
fn addresses(addrs: &[SocketAddr]) -> String {
    let consecutive = addrs
        .windows(2)
        .all(|pair| pair[0].port().checked_add(1) == Some(pair[1].port()));
    match addrs {
        [first, .., last] if consecutive => format!("{first} to {last}"),
        _ => addrs
            .iter()
            .map(SocketAddr::to_string)
            .collect::<Vec<_>>()
            .join(", "),
    }
}

#[derive(Debug, Args)]
pub struct RelayArgs {
    /// Listening address (ADDR:PORT, :PORT or PORT)
    #[arg(short, long, value_name = "ADDR", default_value = "127.0.0.1:8001", value_parser = parse_addr)]
    listen: SocketAddr,
    /// Servers (ADDR:PORT or PORT), taken in turn
    #[arg(required = true, value_name = "ADDR", value_parser = parse_addr)]
    to: Vec<SocketAddr>,
    /// Threads
    #[arg(short, long, value_name = "N", default_value_t = 1)]
    threads: usize,
    /// CPUs that the threads are pinned to, such as 0,2-3
    #[arg(short, long, value_name = "LIST")]
    cpus: Option<CpuList>,
    /// Splice through pipes instead of copying
    #[arg(short, long)]
    splice: bool,
    /// Size of the copy buffer or of a pipe
    #[arg(short, long, value_name = "SIZE", default_value = "64k", value_parser = parse_size)]
    buffer: u64,
    /// Stop after this time (default: at Ctrl-C)
    #[arg(short, long, value_name = "TIME", value_parser = parse_time)]
    duration: Option<Duration>,
}

impl RelayArgs {
    pub fn run(self) -> Result<ExitCode> {
        let relay = relay::Relay::start(&relay::Options {
            listen: self.listen,
            to: self.to,
            threads: self.threads,
            cpus: self.cpus.unwrap_or_default(),
            splice: self.splice,
            buffer_bytes: usize::try_from(self.buffer)
                .unwrap_or(usize::MAX)
                .min(1 << 30),
        })?;
        println!("relay listening on {}", relay.addr);
        run_until(self.duration);
        Ok(ExitCode::SUCCESS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_in_words() {
        let check = |ports: &[u16], expect: &str| {
            let addrs: Vec<_> = ports
                .iter()
                .map(|&p| SocketAddr::from(([127, 0, 0, 1], p)))
                .collect();
            assert_eq!(addresses(&addrs), expect);
        };
        check(&[8000], "127.0.0.1:8000");
        check(&[8000, 8001, 8002], "127.0.0.1:8000 to 127.0.0.1:8002");
        check(&[8000, 9000], "127.0.0.1:8000, 127.0.0.1:9000");
    }
}
