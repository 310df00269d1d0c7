//! `sluice-lab integrity`: many transfers through a proxy, every byte verified.
//!
//! Sizes are drawn evenly on a log scale; directions and framings take turns. Downloads are compared here, uploads by
//! the origin, which says what came. Plain blocking sockets: this is about truth, not speed.

mod client;

use crate::stats::Random;
use anyhow::Result;
use client::Client;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What to transfer.
#[derive(Debug, Clone)]
pub struct Options {
    /// The proxy (or the origin itself).
    pub target: SocketAddr,
    /// Objects.
    pub count: u64,
    /// Largest object.
    pub size_max: u64,
    /// Total of all objects: larger draws are cut so that it holds.
    pub total_max: u64,
    /// Concurrent connections.
    pub conns: usize,
    /// Seed of the draw; the same seed makes the same transfers.
    pub seed: u64,
    /// A transfer that does not move for so long has failed.
    pub stall: Duration,
}

/// No proxy may sit still for longer than this in the middle of a transfer.
pub const STALL_TIMEOUT: Duration = Duration::from_secs(30);

/// One transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transfer {
    /// Number, and seed of the content.
    pub seed: u64,
    /// Bytes.
    pub size: u64,
    /// Towards the origin.
    pub upload: bool,
    /// Chunked instead of length-delimited.
    pub chunked: bool,
}

impl Transfer {
    /// The request that makes it, to try it again by hand.
    #[must_use]
    pub fn shown(&self) -> String {
        let framing = if self.chunked { "chunked" } else { "length" };
        let way = if self.upload { "upload" } else { "download" };
        format!("{way} {} bytes seed {} {framing}", self.size, self.seed)
    }
}

/// What was found.
#[derive(Debug)]
pub struct Findings {
    /// Transfers done right.
    pub right: u64,
    /// Bytes verified.
    pub bytes: u64,
    /// The first few that went wrong.
    pub wrong: Vec<String>,
    /// How many went wrong.
    pub wrong_count: u64,
    /// Time taken.
    pub elapsed: Duration,
    /// Stopped by a signal before the end.
    pub interrupted: bool,
}

impl Findings {
    /// In one line.
    #[must_use]
    pub fn summary(&self) -> String {
        let rate = self.bytes as f64 / self.elapsed.as_secs_f64().max(1e-9) / 1e6;
        let note = if self.interrupted {
            " (interrupted)"
        } else {
            ""
        };
        format!(
            "{} transfers right, {} wrong, {} bytes verified in {:.1} s ({rate:.0} MB/s){note}",
            self.right,
            self.wrong_count,
            self.bytes,
            self.elapsed.as_secs_f64()
        )
    }
}

/// The transfers of a run, in order: each kind once empty, each kind once as large as may be, then as drawn.
#[must_use]
pub fn draw(options: &Options) -> Vec<Transfer> {
    let mut random = Random(options.seed);
    let mut sizes: Vec<u64> = (0..options.count)
        .map(|n| match n / KINDS {
            0 => 0,
            // A small total leaves room for others beside the four largest.
            1 => options.size_max.min(options.total_max / 8),
            _ => log_uniform(&mut random, options.size_max),
        })
        .collect();
    fit(&mut sizes, options.total_max, &mut random);
    let transfer = |(n, size)| Transfer {
        seed: options.seed.wrapping_add(n),
        size,
        upload: n % 2 == 1,
        chunked: n / 2 % 2 == 1,
    };
    (0..).zip(sizes).map(transfer).collect()
}

/// Two directions, two framings.
const KINDS: u64 = 4;

/// Evenly in `ln(size + 1)`, so that empty and tiny objects come as often as the others of their scale.
fn log_uniform(random: &mut Random, max: u64) -> u64 {
    let log_max = ((max + 1) as f64).ln();
    (((random.unit() * log_max).exp() - 1.0).round() as u64).min(max)
}

/// Redraws some of the larger sizes, each below what it was, until all fit: the small keep their number, the large
/// get rarer, and none is cut to fit.
fn fit(sizes: &mut [u64], total_max: u64, random: &mut Random) {
    let fixed = (2 * KINDS as usize).min(sizes.len());
    let mut total: u64 = sizes.iter().sum();
    let fair = total_max / (sizes.len() as u64).max(1);
    while total > total_max && sizes[fixed..].iter().any(|&size| size > fair) {
        let index = fixed + random.below(sizes.len() - fixed);
        let size = sizes[index];
        if size > fair {
            sizes[index] = log_uniform(random, size);
            total -= size - sizes[index];
        }
    }
}

/// Runs all transfers.
///
/// # Errors
/// Only when threads cannot be started; what goes wrong in a transfer is a finding.
pub fn run(options: &Options, progress: impl Fn(u64) + Sync) -> Result<Findings> {
    const SHOWN_MAX: usize = 10;
    let transfers = draw(options);
    let (next, right, bytes, wrong_count) = (
        AtomicU64::new(0),
        AtomicU64::new(0),
        AtomicU64::new(0),
        AtomicU64::new(0),
    );
    let wrong = Mutex::new(Vec::new());
    let started = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..options.conns.max(1) {
            scope.spawn(|| {
                let mut client = Client::new(options);
                while let Some(transfer) =
                    transfers.get(next.fetch_add(1, Ordering::Relaxed) as usize)
                {
                    if crate::sys::interrupted() {
                        return;
                    }
                    match client.transfer(transfer) {
                        Ok(()) => {
                            bytes.fetch_add(transfer.size, Ordering::Relaxed);
                            progress(right.fetch_add(1, Ordering::Relaxed) + 1);
                        }
                        Err(error) => {
                            client.stream = None;
                            wrong_count.fetch_add(1, Ordering::Relaxed);
                            let mut wrong = wrong
                                .lock()
                                .unwrap_or_else(std::sync::PoisonError::into_inner);
                            if wrong.len() < SHOWN_MAX {
                                wrong.push(format!("{}: {error:#}", transfer.shown()));
                            }
                        }
                    }
                }
            });
        }
    });
    Ok(Findings {
        right: right.into_inner(),
        bytes: bytes.into_inner(),
        wrong: wrong
            .into_inner()
            .unwrap_or_else(std::sync::PoisonError::into_inner),
        wrong_count: wrong_count.into_inner(),
        elapsed: started.elapsed(),
        interrupted: crate::sys::interrupted(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::origin::{self, Origin};
    use crate::relay::{self, Relay};
    use std::io::{Read, Write};
    use std::net::TcpStream;

    fn options(target: SocketAddr) -> Options {
        Options {
            target,
            count: 200,
            size_max: 2 << 20,
            total_max: 64 << 20,
            conns: 4,
            seed: 1,
            stall: Duration::from_secs(2),
        }
    }

    #[test]
    fn sizes_spread_over_the_decades_and_keep_the_bounds() {
        let options = Options {
            count: 4000,
            size_max: 100 << 20,
            total_max: 4 << 30,
            ..options(SocketAddr::from(([0; 4], 0)))
        };
        let sizes: Vec<u64> = draw(&options).iter().map(|t| t.size).collect();
        assert!(sizes.iter().sum::<u64>() <= options.total_max);
        assert!(sizes.contains(&0) && sizes.contains(&(100 << 20)));
        for decade in 0..6u32 {
            let (low, high) = (10u64.pow(decade), 10u64.pow(decade + 1));
            let n = sizes.iter().filter(|&&s| low <= s && s < high).count();
            assert!(
                n > 200,
                "only {n} of {} sizes in {low}..{high}",
                sizes.len()
            );
        }
    }

    #[test]
    fn everything_arrives_through_both_relays() {
        let origin = Origin::start(&origin::Options::default()).unwrap();
        for splice in [false, true] {
            let relay = Relay::start(&relay::Options {
                listen: SocketAddr::from(([127, 0, 0, 1], 0)),
                to: vec![origin.addr()],
                threads: 1,
                cpus: Default::default(),
                splice,
                buffer_bytes: 16 * 1024,
            })
            .unwrap();
            let found = run(&options(relay.addr), |_| {}).unwrap();
            assert_eq!(
                (found.right, found.wrong_count),
                (200, 0),
                "{:?}",
                found.wrong
            );
        }
    }

    #[test]
    fn a_corrupting_proxy_is_found() {
        let origin = Origin::start(&origin::Options::default()).unwrap();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let target = listener.local_addr().unwrap();
        let to = origin.addr();
        // Flips the last byte of every second piece from the server, once past the head.
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let server = TcpStream::connect(to).unwrap();
                let (mut up_in, mut up_out) =
                    (client.try_clone().unwrap(), server.try_clone().unwrap());
                std::thread::spawn(move || std::io::copy(&mut up_in, &mut up_out));
                std::thread::spawn(move || {
                    let (mut server, mut client) = (server, client);
                    let mut buffer = vec![0; 1 << 16];
                    while let Ok(len @ 1..) = server.read(&mut buffer) {
                        if len > 10_000 {
                            buffer[len - 1] ^= 1;
                        }
                        if client.write_all(&buffer[..len]).is_err() {
                            return;
                        }
                    }
                });
            }
        });
        let found = run(
            &Options {
                count: 40,
                ..options(target)
            },
            |_| {},
        )
        .unwrap();
        assert!(found.wrong_count > 0);
        assert!(
            found.wrong.iter().any(|w| w.contains("is wrong")),
            "{:?}",
            found.wrong
        );
    }
}
