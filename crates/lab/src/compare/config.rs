//! The same job in each proxy's own words.
//!
//! Equivalent means: the same connections are kept or closed on either side, the same sizes of buffers, no access log
//! unless the job asks for one, one worker unless it asks for more. Nothing is tuned beyond what the job names.

mod nginx;

pub use nginx::nginx;

use anyhow::Result;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// What a proxy is to do.
#[derive(Debug, Clone)]
pub struct Job {
    /// Where to listen.
    pub listen: SocketAddr,
    /// Servers, taken in turn.
    pub servers: Vec<SocketAddr>,
    /// Forward bytes, not requests.
    pub tcp: bool,
    /// Move bodies with `splice(2)` where the proxy can.
    pub splice: Splice,
    /// Pipe size for it; `None`: the proxy's default.
    pub pipe_bytes: Option<u64>,
    /// End both connections after each exchange.
    pub close: bool,
    /// What is done with the request.
    pub act: Act,
    /// Worker threads or processes.
    pub workers: usize,
    /// Buffer size; `None`: the proxy's default (16 KiB for all).
    pub buffer_bytes: Option<u64>,
    /// Connections that it must be able to hold.
    pub conns_max: usize,
}

/// Whether bodies are spliced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Splice {
    /// As the proxy does by itself: HAProxy copies, Sluice splices large bodies.
    Default,
    /// Copied (`nosplice`).
    Off,
    /// When the proxy finds that it pays (`option splice-auto`).
    Auto,
    /// Always (`option splice-request`, `option splice-response`).
    Always,
}

/// What is done with a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// Forward it.
    Forward,
    /// Answer with a redirect, asking no server.
    Redirect,
    /// Reset the connection before a byte is read.
    Reject,
    /// Redirect when fewer servers are alive than there were ever configured: `nbsrv` is looked at, and it is so.
    RedirectIfDown,
    /// Forward after 20 ACLs, 10 header rules, a lookup in a large map and with a JSON log line.
    Rules {
        /// The map file.
        map: PathBuf,
        /// Where the log datagrams go.
        log: SocketAddr,
    },
}

impl Job {
    /// Plain HTTP forwarding with keep-alive on both sides.
    #[must_use]
    pub fn new(listen: SocketAddr, servers: Vec<SocketAddr>) -> Self {
        Self {
            listen,
            servers,
            tcp: false,
            splice: Splice::Default,
            pipe_bytes: None,
            close: false,
            act: Act::Forward,
            workers: 1,
            buffer_bytes: None,
            conns_max: 6000,
        }
    }
}

/// Where redirects point; nobody goes there.
pub const REDIRECT_TO: &str = "http://backup.example/";

/// The job as a haproxy.cfg, for HAProxy and for Sluice.
#[must_use]
pub fn haproxy(job: &Job) -> String {
    let mut text = String::new();
    let mut put = |line: &str| {
        text.push_str(line);
        text.push('\n');
    };
    put("global");
    put(&format!("    nbthread {}", job.workers));
    put(&format!("    maxconn {}", job.conns_max));
    if let Some(bytes) = job.buffer_bytes {
        put(&format!("    tune.bufsize {bytes}"));
    }
    if job.splice == Splice::Off {
        put("    nosplice");
    }
    if let Some(bytes) = job.pipe_bytes {
        put(&format!("    tune.pipesize {bytes}"));
    }
    if let Act::Rules { log, .. } = &job.act {
        put(&format!("    log {log} local0"));
    }
    put("defaults");
    put(if job.tcp {
        "    mode tcp"
    } else {
        "    mode http"
    });
    for timeout in ["connect 5s", "client 60s", "server 60s"] {
        put(&format!("    timeout {timeout}"));
    }
    if job.close && !job.tcp {
        put("    option httpclose");
    }
    match job.splice {
        Splice::Default | Splice::Off => {}
        Splice::Auto => put("    option splice-auto"),
        Splice::Always => {
            put("    option splice-request");
            put("    option splice-response");
        }
    }
    put("frontend in");
    put(&format!("    bind {}", job.listen));
    match &job.act {
        Act::Forward => {}
        Act::Redirect => put(&format!("    redirect location {REDIRECT_TO}")),
        Act::Reject => put("    tcp-request connection reject"),
        Act::RedirectIfDown => {
            put(&format!(
                "    acl service_down nbsrv(out) lt {}",
                job.servers.len() + 1
            ));
            put(&format!(
                "    redirect prefix {REDIRECT_TO} if service_down"
            ));
        }
        Act::Rules { map, .. } => rules(&mut put, map),
    }
    put("    default_backend out");
    put("backend out");
    if job.servers.len() > 1 {
        put("    balance roundrobin");
    }
    for (index, server) in job.servers.iter().enumerate() {
        put(&format!("    server s{index} {server}"));
    }
    text
}

/// Twenty ACLs of the common kinds, ten rules that use two each, the map, the log.
fn rules(put: &mut impl FnMut(&str), map: &Path) {
    let acls = [
        "src 10.0.0.0/8 192.168.0.0/16",
        "path_beg /static /images /css",
        "path_end .png .jpg .gif",
        "hdr(host) -i www.example.com",
        "hdr_dom(host) -i example.org",
        "method POST",
        "hdr(user-agent) -m sub -i bot",
        "hdr_cnt(cookie) gt 1",
        "path_reg ^/api/v[0-9]+/",
        "url_param(s) -m found",
        "dst_port 443",
        "req.hdr(accept) -m sub json",
        "path /health",
        "hdr_len(host) gt 64",
        "path_sub ../",
        "hdr(x-forwarded-proto) https",
        "method GET HEAD",
        "req.ver 1.1",
        "hdr(content-type) -m beg text/",
        "src 127.0.0.0/8",
    ];
    for (index, acl) in acls.iter().enumerate() {
        put(&format!("    acl a{index} {acl}"));
    }
    put(&format!(
        "    http-request set-header X-Site %[req.hdr(host),lower,map_str({},none)]",
        map.display()
    ));
    for index in 0..9 {
        let (one, two) = (2 * index, 2 * index + 1);
        put(&format!(
            "    http-request set-header X-Rule-{index} v{index} if a{one} or !a{two}"
        ));
    }
    put("    http-request deny if a18 !a19");
    put("    log global");
    let fields = [
        ("client", "%ci"),
        ("port", "%cp"),
        ("frontend", "%f"),
        ("backend", "%b"),
        ("server", "%s"),
        ("status", "%ST"),
        ("bytes", "%B"),
        ("term", "%ts"),
        ("t_request", "%TR"),
        ("t_total", "%Ta"),
        ("method", "%HM"),
        ("path", "%HP"),
    ];
    let body: Vec<_> = fields
        .iter()
        .map(|(name, tag)| format!("\\\"{name}\\\":\\\"{tag}\\\""))
        .collect();
    put(&format!("    log-format \"{{{}}}\"", body.join(",")));
}

/// The job as arguments of the relay.
#[must_use]
pub fn relay_args(job: &Job) -> Vec<String> {
    let mut args = vec![
        "relay".to_owned(),
        "--listen".to_owned(),
        job.listen.to_string(),
    ];
    args.extend(["--threads".to_owned(), job.workers.to_string()]);
    if matches!(job.splice, Splice::Auto | Splice::Always) {
        args.push("--splice".to_owned());
        let pipe_bytes = job.pipe_bytes.unwrap_or(64 << 10);
        args.extend(["--buffer".to_owned(), pipe_bytes.to_string()]);
    }
    args.extend(job.servers.iter().map(SocketAddr::to_string));
    args
}

/// Writes the map of the rules job: `entries` host names, one of which the load asks for.
///
/// # Errors
/// When the file cannot be written.
pub fn write_map(file: &Path, entries: usize) -> Result<()> {
    let mut text = String::with_capacity(entries * 40);
    for index in 0..entries {
        let _ = writeln!(text, "host{index:06}.example.com site{}", index % 977);
    }
    Ok(std::fs::write(file, text)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job() -> Job {
        let addr = |port| SocketAddr::from(([127, 0, 0, 1], port));
        Job::new(addr(80), vec![addr(8000), addr(8001)])
    }

    #[test]
    fn haproxy_words() {
        let job = Job {
            splice: Splice::Auto,
            close: true,
            act: Act::Redirect,
            pipe_bytes: Some(524_288),
            ..job()
        };
        let text = haproxy(&job);
        for line in [
            "    nbthread 1",
            "    tune.pipesize 524288",
            "    option httpclose",
            "    option splice-auto",
            "    redirect location http://backup.example/",
            "    server s1 127.0.0.1:8001",
        ] {
            assert!(text.lines().any(|l| l == line), "no '{line}' in\n{text}");
        }
    }

    #[test]
    fn the_rules_job_has_what_it_claims() {
        let log = SocketAddr::from(([127, 0, 0, 1], 514));
        let text = haproxy(&Job {
            act: Act::Rules {
                map: "/m".into(),
                log,
            },
            ..job()
        });
        let count = |start: &str| text.lines().filter(|l| l.trim().starts_with(start)).count();
        assert_eq!(
            (
                count("acl "),
                count("http-request set-header"),
                count("log-format")
            ),
            (20, 10, 1)
        );
    }

    #[test]
    fn nginx_keeps_or_closes_as_told() {
        let dir = Path::new("/d");
        assert!(nginx(&job(), dir).unwrap().contains("keepalive 6000;"));
        assert!(
            nginx(
                &Job {
                    close: true,
                    ..job()
                },
                dir
            )
            .unwrap()
            .contains("keepalive_timeout 0;")
        );
        let log = SocketAddr::from(([127, 0, 0, 1], 514));
        let act = Act::Rules {
            map: "/m".into(),
            log,
        };
        assert!(nginx(&Job { act, ..job() }, dir).is_err());
    }
}
