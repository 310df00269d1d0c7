//! `origin`, `inject` and `relay` on the command line.

use crate::host::{self, CpuList};
use crate::inject::live::Show;
use crate::inject::mix::{Mix, Spec};
use crate::net::parse_addr;
use crate::units::{parse_size, parse_time};
use crate::{inject, origin, relay};
use anyhow::{Context, Result, bail};
use clap::Args;
use std::net::{IpAddr, SocketAddr};
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
    #[arg(short, long, default_value = "127.0.0.1:8000", value_parser = parse_addr)]
    listen: SocketAddr,
    /// Listeners on that many consecutive ports
    #[arg(short, long, default_value_t = 1)]
    servers: u16,
    /// Threads, each with all the listeners
    #[arg(short, long, default_value_t = 1)]
    threads: usize,
    /// CPUs that the threads are pinned to, such as 0,2-3
    #[arg(short, long)]
    cpus: Option<CpuList>,
    /// Folder of static files
    #[arg(short, long)]
    root: Option<PathBuf>,
    /// Add an X-Server header with the port that the request came to
    #[arg(long)]
    name: bool,
    /// Stop after this time (default: at Ctrl-C)
    #[arg(short, long, value_parser = parse_time)]
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
        let last = origin.addrs.last().copied().unwrap_or(self.listen);
        match self.servers {
            0 | 1 => println!("origin listening on {}", origin.addr()),
            _ => println!("origin listening on {} to {last}", origin.addr()),
        }
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

#[derive(Debug, Args)]
pub struct InjectArgs {
    /// URL to load, such as http://127.0.0.1:8000/?s=64
    url: String,
    /// Concurrent connections
    #[arg(short = 'c', long, default_value_t = 1)]
    conns: usize,
    /// Threads
    #[arg(short = 't', long, default_value_t = 1)]
    threads: usize,
    /// CPUs that the threads are pinned to, such as 0,2-3
    #[arg(long)]
    cpus: Option<CpuList>,
    /// Open loop: that many requests per second, whatever the answers do
    #[arg(short = 'R', long)]
    rate: Option<f64>,
    /// Stop after this time (10s unless -n is given)
    #[arg(short, long, value_parser = parse_time)]
    duration: Option<Duration>,
    /// Stop after that many requests
    #[arg(short = 'n', long)]
    requests: Option<u64>,
    /// Requests per connection (1: one connection per request); default: keep-alive for ever
    #[arg(short = 'r', long)]
    per_conn: Option<u64>,
    /// Requests sent at once before their answers are awaited
    #[arg(short = 'p', long, default_value_t = 1)]
    pipeline: usize,
    /// Pause between an answer and the next request on a connection
    #[arg(long, default_value = "0", value_parser = parse_time)]
    think: Duration,
    /// Start the connections evenly over this time
    #[arg(long, default_value = "0", value_parser = parse_time)]
    ramp: Duration,
    /// Give up a request after this time
    #[arg(long, default_value = "10s", value_parser = parse_time)]
    timeout: Duration,
    /// Local addresses to connect from, such as 127.0.1.1-127.0.1.50
    #[arg(long, value_parser = sources)]
    sources: Option<Sources>,
    /// Method
    #[arg(short = 'X', long, default_value = "GET")]
    method: String,
    /// One more header field, 'Name: value'; may be repeated
    #[arg(short = 'H', long = "header")]
    headers: Vec<String>,
    /// Send a body of this size (verifiable: see the origin's /upload?seed=N)
    #[arg(long)]
    body_size: Option<String>,
    /// Seed of the body
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Send the body chunked
    #[arg(long)]
    chunked: bool,
    /// Requests from a file of JSON lines with weight, method, path, headers, body, body_size, seed, chunked
    #[arg(long)]
    mix: Option<PathBuf>,
    /// Compare every body with what the request's s= and seed= ask for; wrong ones are errors
    #[arg(long)]
    check: bool,
    /// End connections with a reset
    #[arg(long)]
    reset: bool,
    /// Keep every connection open and idle after its -r requests
    #[arg(long, requires = "per_conn", requires = "duration")]
    hold: bool,
    /// JSON lines instead of text
    #[arg(long, conflicts_with = "quiet")]
    json: bool,
    /// Only the closing table
    #[arg(short, long)]
    quiet: bool,
}

/// A list that clap takes for one value.
#[derive(Debug, Clone)]
pub struct Sources(Vec<IpAddr>);

fn sources(text: &str) -> Result<Sources, String> {
    inject::parse_sources(text).map(Sources)
}

impl InjectArgs {
    pub fn run(self) -> Result<ExitCode> {
        let options = self.options()?;
        let show = match (self.json, self.quiet) {
            (true, _) => Show::Json,
            (_, true) => Show::Quiet,
            _ => Show::People,
        };
        let report = inject::live::run(&options, show)?;
        let failed = report.counts.requests == 0 || self.check && report.counts.errors.total() > 0;
        Ok(if failed {
            ExitCode::FAILURE
        } else {
            ExitCode::SUCCESS
        })
    }

    fn options(&self) -> Result<inject::Options> {
        let (host, path) = split_url(&self.url)?;
        let target = resolve(&host)?;
        // A server is asked to close only when the connection's one request is its last.
        let close = self.per_conn == Some(1) && !self.hold;
        let mix = match &self.mix {
            Some(file) => {
                let text = std::fs::read_to_string(file)
                    .with_context(|| format!("cannot read {}", file.display()))?;
                Mix::from_lines(&text, &host, close)?
            }
            None => Mix::single(&self.spec(&path)?, &host, close)?,
        };
        let mut options = inject::Options::new(target, mix);
        options.conns = self.conns;
        options.threads = self.threads;
        options.cpus = self.cpus.clone().unwrap_or_default();
        options.rate = self.rate;
        options.requests_per_conn = self.per_conn;
        options.pipeline = self.pipeline;
        options.think = self.think;
        options.ramp = self.ramp;
        options.duration = match (self.duration, self.requests) {
            (None, None) => Some(Duration::from_secs(10)),
            (given, _) => given,
        };
        options.requests_max = self.requests;
        options.timeout = self.timeout;
        options.sources = self.sources.clone().map(|s| s.0).unwrap_or_default();
        options.check = self.check;
        options.reset = self.reset;
        options.hold = self.hold;
        Ok(options)
    }

    fn spec(&self, path: &str) -> Result<Spec> {
        let mut spec = Spec::get(path);
        spec.method.clone_from(&self.method);
        spec.body_size.clone_from(&self.body_size);
        spec.seed = self.seed;
        spec.chunked = self.chunked;
        for header in &self.headers {
            let Some((name, value)) = header.split_once(':') else {
                bail!("'{header}' is not 'Name: value'")
            };
            spec.headers
                .insert(name.trim().to_owned(), value.trim().to_owned());
        }
        Ok(spec)
    }
}

/// Host with port, and path with query.
fn split_url(url: &str) -> Result<(String, String)> {
    if url.starts_with("https://") {
        bail!("TLS is not spoken by this injector yet: give an http:// URL");
    }
    let rest = url.strip_prefix("http://").unwrap_or(url);
    let split = rest.find(['/', '?']).unwrap_or(rest.len());
    let (host, path) = rest.split_at(split);
    if host.is_empty() {
        bail!("'{url}' names no host");
    }
    let path = if path.starts_with('/') {
        path.to_owned()
    } else {
        format!("/{path}")
    };
    Ok((host.to_owned(), path))
}

fn resolve(host: &str) -> Result<SocketAddr> {
    use std::net::ToSocketAddrs;
    let with_port = if host.parse::<IpAddr>().is_ok() || !host.contains(':') {
        format!("{host}:80")
    } else {
        host.into()
    };
    let found = with_port
        .to_socket_addrs()
        .with_context(|| format!("cannot resolve {host}"))?
        .next();
    found.with_context(|| format!("{host} has no address"))
}

#[derive(Debug, Args)]
pub struct RelayArgs {
    /// Listening address (ADDR:PORT, :PORT or PORT)
    #[arg(short, long, default_value = "127.0.0.1:8001", value_parser = parse_addr)]
    listen: SocketAddr,
    /// Servers, taken in turn
    #[arg(required = true, value_parser = parse_addr)]
    to: Vec<SocketAddr>,
    /// Threads
    #[arg(short, long, default_value_t = 1)]
    threads: usize,
    /// CPUs that the threads are pinned to, such as 0,2-3
    #[arg(short, long)]
    cpus: Option<CpuList>,
    /// Splice through pipes instead of copying
    #[arg(short, long)]
    splice: bool,
    /// Size of the copy buffer or of a pipe
    #[arg(short, long, default_value = "64k", value_parser = parse_size)]
    buffer: u64,
    /// Stop after this time (default: at Ctrl-C)
    #[arg(short, long, value_parser = parse_time)]
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
    fn urls() {
        let check = |url: &str, host: &str, path: &str| {
            assert_eq!(split_url(url).unwrap(), (host.to_owned(), path.to_owned()));
        };
        check("http://127.0.0.1:8000/?s=64", "127.0.0.1:8000", "/?s=64");
        check("127.0.0.1:8000", "127.0.0.1:8000", "/");
        check("localhost?s=1", "localhost", "/?s=1");
        assert!(split_url("https://x/").is_err());
        assert!(split_url("http:///x").is_err());
    }
}
