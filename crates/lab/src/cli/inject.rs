//! `inject` on the command line.

use crate::host::CpuList;
use crate::inject::mix::{Mix, Spec};
use crate::inject::{self, live::Show};
use crate::units::{parse_count, parse_rate, parse_time};
use anyhow::{Context, Result, bail};
use clap::Args;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// What the options do not say.
const HELP: &str = "\
TIME is a number with us, ms, s, m or h (seconds without). N and RATE take k, m, g = thousands, millions, billions; SIZE takes k, m, g = powers of 1024.

Closed loop (no -R): each connection asks as soon as it has its answer. Open loop (-R): requests are due at fixed times whether or not the server
answers; latency counts from the due time, and what is still due at the end counts with its age (unfinished), so that a stall shows in every
request it delayed.

A line of --mix: {\"weight\":3,\"method\":\"POST\",\"path\":\"/upload?seed=1\",\"headers\":{\"X-A\":\"b\"},\"body_size\":\"64k\",\"seed\":1,\"chunked\":true}
All but path may be left out; \"body\" is a text instead of body_size. Requests come in turn, each as often as its weight says.

--json prints an object a second (\"kind\":\"second\") and one of the whole run (\"kind\":\"total\"):
  at_s                          seconds since the start
  open, conns, requests         connections open; connections made and answers received in that span
  conns_per_s, requests_per_s, bits_per_s (received)
  bytes_in, bytes_out           heads included
  statuses                      answers with 1xx, 2xx, 3xx, 4xx, 5xx
  errors                        {connect, reset, ended, malformed, timeout, wrong}
  unfinished                    requests due or under way at the end (open loop)
  latency_mean_us, latency_max_us, latency_us: [[percentile, microseconds], ...] for 50, 75, 90, 99, 99.9, 99.99, 99.999, 99.9999

Exit status: 0 when there were answers (of any status; after Ctrl-C too), 1 when there were none, the server went away, or --check found an error, 2 for wrong arguments.";

#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct InjectArgs {
    /// URL to load, such as http://127.0.0.1:8000/?s=64
    url: String,
    /// Concurrent connections, such as 64 or 2k
    #[arg(short = 'c', long, visible_alias = "connections", value_name = "N", default_value = "1", value_parser = count)]
    conns: usize,
    /// Threads
    #[arg(short = 't', long, value_name = "N", default_value = "1", value_parser = count)]
    threads: usize,
    /// CPUs that the threads are pinned to, such as 0,2-3
    #[arg(long, value_name = "LIST")]
    cpus: Option<CpuList>,
    /// Open loop: that many requests per second (such as 500 or 10k), whatever the answers do
    #[arg(short = 'R', long, value_name = "RATE", value_parser = parse_rate)]
    rate: Option<f64>,
    /// Stop after this time (10s unless -n is given)
    #[arg(short, long, value_name = "TIME", value_parser = parse_time)]
    duration: Option<Duration>,
    /// Stop after that many requests, such as 1000 or 1m
    #[arg(short = 'n', long, value_name = "N", value_parser = parse_count)]
    requests: Option<u64>,
    /// Requests per connection (1: one connection per request); default: keep-alive for ever
    #[arg(short = 'r', long, visible_alias = "requests-per-conn", value_name = "N", value_parser = parse_count)]
    per_conn: Option<u64>,
    /// Requests sent at once before their answers are awaited
    #[arg(short = 'p', long, value_name = "N", default_value = "1", value_parser = count)]
    pipeline: usize,
    /// Pause between an answer and the next request on a connection
    #[arg(long, visible_alias = "think-time", value_name = "TIME", default_value = "0", value_parser = parse_time)]
    think: Duration,
    /// Soft start: the connections begin evenly over this time
    #[arg(long, visible_alias = "soft-start", value_name = "TIME", default_value = "0", value_parser = parse_time)]
    ramp: Duration,
    /// Give up a request after this time
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_time)]
    timeout: Duration,
    /// Local addresses to connect from in turn, such as 127.0.1.1-127.0.1.50 or 127.0.1.0/26
    #[arg(long, visible_alias = "source", value_name = "LIST", value_parser = sources)]
    sources: Option<Sources>,
    /// Method
    #[arg(short = 'X', long, default_value = "GET")]
    method: String,
    /// One more header field, 'Name: value'; may be repeated
    #[arg(short = 'H', long = "header", value_name = "FIELD")]
    headers: Vec<String>,
    /// Send this text as the body
    #[arg(long, value_name = "TEXT", conflicts_with = "body_size")]
    body: Option<String>,
    /// Send a body of this size (verifiable: see the origin's /upload?seed=N)
    #[arg(long, value_name = "SIZE")]
    body_size: Option<String>,
    /// Seed of the body
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Send the body chunked
    #[arg(long)]
    chunked: bool,
    /// Requests from a file of JSON lines (see below); the URL then only names the server
    #[arg(long, value_name = "FILE")]
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

/// A count of things in memory.
fn count(text: &str) -> Result<usize, String> {
    parse_count(text).map(|n| usize::try_from(n).unwrap_or(usize::MAX))
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
        spec.body.clone_from(&self.body);
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

/// The address of a host with or without port. Of several (`localhost` is often two) the first that takes connections.
fn resolve(host: &str) -> Result<SocketAddr> {
    use std::net::{TcpStream, ToSocketAddrs};
    const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);
    let found: Vec<SocketAddr> = with_port(host)
        .to_socket_addrs()
        .with_context(|| format!("cannot resolve {host}"))?
        .collect();
    let takes = |addr: &&SocketAddr| TcpStream::connect_timeout(addr, ANSWER_TIMEOUT).is_ok();
    let chosen = match found.as_slice() {
        [_, _, ..] => found.iter().find(takes).or(found.first()),
        few => few.first(),
    };
    chosen
        .copied()
        .with_context(|| format!("{host} has no address"))
}

/// A host with its port, which is 80 unless given.
fn with_port(host: &str) -> String {
    match host.parse::<std::net::Ipv6Addr>() {
        Ok(ip) => format!("[{ip}]:80"),
        Err(_) if host.ends_with(']') || !host.contains(':') => format!("{host}:80"),
        Err(_) => host.to_owned(),
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

    #[test]
    fn ports() {
        let check = |host: &str, expect: &str| assert_eq!(with_port(host), expect);
        check("h", "h:80");
        check("h:8000", "h:8000");
        check("127.0.0.1", "127.0.0.1:80");
        check("[::1]", "[::1]:80");
        check("[::1]:8000", "[::1]:8000");
        check("::1", "[::1]:80");
    }
}
