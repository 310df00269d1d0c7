//! The Prometheus exporter beside Debian's haproxy: what dashboards and alarms made for HAProxy ask for is there, under
//! the same name, of the same type, with the same labels, and asked for in the same way.
//!
//! Without `haproxy` on the machine the test says so and passes nothing.

mod support;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use support::daemon::{Daemon, SLUICE, free_port};
use support::find;

const CONFIG: &str = "\
global
    nbthread 1
    stats socket unix@DIR/sock level admin
defaults
    mode http
    timeout client 5s
    timeout server 5s
    timeout connect 1s
frontend ready
    bind unix@DIR/ready
frontend fe
    bind 127.0.0.1:PORT
    http-request use-service prometheus-exporter if { path /metrics }
    http-request return status 204 if { path /none }
    default_backend be
listen counted
    bind unix@DIR/counted name door
    option socket-stats
    server one 127.0.0.1:1 maxconn 5 maxqueue 9 pool-max-conn 3
    server two 127.0.0.1:1 minconn 2
backend be
    server down 127.0.0.1:1 check inter 1h fall 1
    server off 127.0.0.1:1 disabled
    server up 127.0.0.1:1 weight 7 backup
    server drained 127.0.0.1:1 weight 0
";

/// Values that do not depend on the machine, the time, or what else each counts of itself.
const EXACT: &[&str] = &[
    "haproxy_server_status{",
    "haproxy_server_check_status{",
    "haproxy_server_check_code{",
    "haproxy_server_weight{",
    "haproxy_server_limit_sessions{",
    "haproxy_server_queue_limit{",
    "haproxy_server_idle_connections_limit{",
    "haproxy_server_current_throttle{",
    "haproxy_backend_status{",
    "haproxy_backend_agg_",
    "haproxy_backend_active_servers{",
    "haproxy_backend_backup_servers{",
    "haproxy_backend_http_responses_total{",
    "haproxy_frontend_status{",
    "haproxy_frontend_http_responses_total{proxy=\"fe\",code=\"1xx\"}",
    "haproxy_frontend_http_responses_total{proxy=\"fe\",code=\"4xx\"}",
    "haproxy_process_max_zlib_memory",
];

/// Queries, each with the beginning of the names that answer it.
const QUERIES: &[&str] = &[
    "",
    "?scope=global",
    "?scope=frontend",
    "?scope=frontend&scope=server",
    "?scope=server&no-maint",
    "?scope=*",
    "?scope=",
    "?scope=listener",
    "?anything=else",
];

#[test]
fn metrics_are_haproxys() {
    let Some(haproxy) = find("haproxy") else {
        eprintln!("haproxy is not installed: the exporter's test is skipped");
        return;
    };
    let (theirs, ours) = (Proxy::start(&haproxy), Proxy::start(SLUICE));
    let mut wrong = String::new();
    for query in QUERIES {
        let (want, got) = (theirs.metrics(query), ours.metrics(query));
        for (name, line) in &want {
            match got.get(name) {
                None => wrong += &format!("{query}: {name} is not there\n"),
                Some(other)
                    if line != other
                        && (name.starts_with('#') || EXACT.iter().any(|e| name.starts_with(e))) =>
                {
                    wrong += &format!("{query}: {name} is {other}, haproxy's {line}\n");
                }
                Some(_) => {}
            }
        }
        // what only we have is of the same things
        let things = |lines: &BTreeMap<String, String>| -> Vec<String> {
            let mut things: Vec<String> = lines.keys().filter_map(|k| thing(k)).collect();
            things.sort();
            things.dedup();
            things
        };
        if things(&want) != things(&got) {
            wrong += &format!("{query}: {:?}, haproxy {:?}\n", things(&got), things(&want));
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    for proxy in [&theirs, &ours] {
        let answer = proxy.ask("/metrics?scope=nonsense");
        assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    }
}

/// Single metrics can be asked for, or left out (3.0).
#[test]
fn metrics_are_chosen() {
    let ours = Proxy::start(SLUICE);
    let families = |query: &str| -> Vec<String> {
        let lines = ours.metrics(query).into_keys();
        lines.filter(|k| k.starts_with('#')).collect()
    };
    assert_eq!(
        families("?metrics=haproxy_server_status,haproxy_backend_status"),
        ["# haproxy_backend_status", "# haproxy_server_status"]
    );
    let all = families("").len();
    assert_eq!(families("?metrics=-haproxy_server_status").len(), all - 1);
    assert_eq!(
        families("?metrics=*,-haproxy_process_nbproc").len(),
        all - 1
    );
}

struct Proxy {
    port: u16,
    // ends with this
    _daemon: Daemon,
}

impl Proxy {
    /// One whose first check has failed.
    fn start(program: impl AsRef<Path>) -> Proxy {
        let port = free_port();
        let conf = CONFIG.replace("PORT", &port.to_string());
        let daemon = Daemon::started(program, Daemon::fresh_dir(), &conf, "ready");
        let daemon = daemon.unwrap_or_else(|said| panic!("it does not start: {said}"));
        daemon.until("it does not check", |d| {
            d.ask("show stat be 4 1").contains("L4CON")
        });
        Proxy {
            port,
            _daemon: daemon,
        }
    }

    fn ask(&self, target: &str) -> String {
        let mut io = TcpStream::connect(("127.0.0.1", self.port)).expect("a connection");
        io.set_read_timeout(Some(Duration::from_secs(60)))
            .expect("a timeout");
        let request = format!("GET {target} HTTP/1.0\r\n\r\n");
        io.write_all(request.as_bytes()).expect("it is sent");
        let mut answer = String::new();
        io.read_to_string(&mut answer).expect("an answer");
        answer
    }

    /// Every line by its name and labels, and every type as `# NAME`.
    fn metrics(&self, query: &str) -> BTreeMap<String, String> {
        let page = self.ask(&format!("/metrics{query}"));
        let (head, body) = page.split_once("\r\n\r\n").unwrap_or((&page, ""));
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
        assert!(head.to_lowercase().contains("text/plain; version=0.0.4"));
        let mut lines = BTreeMap::new();
        // haproxy sends chunks even here: their sizes stand between the lines
        let made = |l: &&str| l.starts_with("# TYPE") || l.starts_with("haproxy_");
        for line in body.lines().filter(made) {
            let (name, value) = line.rsplit_once(' ').unwrap_or((line, ""));
            let name = name.replace("# TYPE ", "# ");
            // the version's own
            if !name.starts_with("haproxy_process_build_info{") {
                lines.insert(name, value.to_owned());
            }
        }
        lines
    }
}

/// Of what a line is: the proxy and server among its labels.
fn thing(line: &str) -> Option<String> {
    let (_, labels) = line.split_once('{')?;
    let of = |l: &&str| {
        ["proxy=", "server=", "listener="]
            .iter()
            .any(|n| l.starts_with(n))
    };
    let labels: Vec<&str> = labels.trim_end_matches('}').split(',').filter(of).collect();
    Some(labels.join(","))
}
