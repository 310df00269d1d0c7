//! ipvsadm(8) for fingers and scripts that know it: listings column for column, and every editing verb, answered with its words and exit
//! statuses. [`parse`] reads the command line. Left out: firewall marks, IPVS's synchronization daemon, `--set`, `--pe`, `--rate`.

use super::control::{self, Request};
use serde_json::Value;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

mod parse;

pub use parse::parse;

#[derive(Debug, PartialEq, Eq)]
pub enum Verb {
    /// `-L`: servers and their connections; of one virtual server, if named.
    List {
        service: Option<String>,
    },
    /// `-L --stats`: what went through them.
    Stats,
    /// `-L --thresholds`: how many connections servers may have.
    Thresholds,
    /// `-L -c`: every connection.
    Connections,
    /// `-S`: as lines that `-R` reads.
    Save,
    /// `-R`: every line of the standard input is a command line.
    Restore,
    Change(Request),
}

/// Why not, and the exit status: 2 for a command line that is wrong, 255 for what the director refuses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    pub words: String,
    pub status: u8,
}

/// Does what a command line says, at the director of this socket; gives what is to be printed.
pub fn carry_out(args: &[String], socket: &Path) -> Result<String, Refused> {
    let (args, elsewhere) = without_socket(args);
    if let [only] = args.as_slice()
        && matches!(only.as_str(), "-h" | "--help")
    {
        return Ok(parse::usage());
    }
    let socket = elsewhere.as_deref().unwrap_or(socket);
    match parse(&args)? {
        Verb::Restore => {
            for line in std::io::stdin().lines() {
                let line = line.map_err(refused)?;
                let args: Vec<String> = line.split_whitespace().map(String::from).collect();
                if !args.is_empty() {
                    one(parse(&args)?, socket)?;
                }
            }
            Ok(String::new())
        }
        verb => one(verb, socket),
    }
}

/// `--socket PATH` may stand among ipvsadm's own words too.
fn without_socket(args: &[String]) -> (Vec<String>, Option<PathBuf>) {
    let (mut rest, mut socket) = (Vec::new(), None);
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.strip_prefix("--socket") {
            Some("") => socket = args.next().map(PathBuf::from),
            Some(path) if path.starts_with('=') => socket = Some(PathBuf::from(&path[1..])),
            _ => rest.push(arg.clone()),
        }
    }
    (rest, socket)
}

fn refused(e: impl std::fmt::Display) -> Refused {
    Refused {
        words: format!("{e:#}"),
        status: 255,
    }
}

fn one(verb: Verb, socket: &Path) -> Result<String, Refused> {
    let ask = |request| control::ask(socket, &request).map_err(refused);
    Ok(match verb {
        Verb::List { service: None } => list(&ask(Request::Show)?),
        Verb::List {
            service: Some(service),
        } => list_one(&ask(Request::Show)?, &service).ok_or(Refused {
            words: "No such service".into(),
            status: 1,
        })?,
        Verb::Stats => stats(&ask(Request::Show)?),
        Verb::Thresholds => thresholds(&ask(Request::Show)?),
        Verb::Save => save(&ask(Request::Show)?),
        Verb::Connections => connections(&ask(Request::Flows { limit: usize::MAX })?),
        // Inside a restore it would read what is being read.
        Verb::Restore => String::new(),
        Verb::Change(request) => {
            ask(request)?;
            String::new()
        }
    })
}

const VERSION: &str = "IP Virtual Server version 1.2.1 (size=1048576)\n";

fn text(v: &Value, k: &str) -> String {
    match v.get(k) {
        Some(Value::String(s)) => s.clone(),
        Some(other) => other.to_string(),
        None => String::new(),
    }
}

fn items<'a>(v: &'a Value, k: &str) -> impl Iterator<Item = &'a Value> {
    v.get(k).and_then(Value::as_array).into_iter().flatten()
}

/// Every address of every virtual server, by itself as IPVS has it, with its servers that are up.
fn services(show: &Value) -> impl Iterator<Item = (&Value, &str, Vec<(&Value, String)>)> {
    items(show, "virtual_servers").flat_map(|vs| {
        items(vs, "addresses").map(move |address| {
            let up = items(vs, "servers").filter(|s| s.get("up") == Some(&Value::Bool(true)));
            let servers = up.map(|s| {
                let ip = text(s, "address");
                let port = text(s, "port");
                let v6 = ip.contains(':');
                (
                    s,
                    if v6 {
                        format!("[{ip}]:{port}")
                    } else {
                        format!("{ip}:{port}")
                    },
                )
            });
            (vs, address.as_str().unwrap_or_default(), servers.collect())
        })
    })
}

const LIST_HEAD: &str = "Prot LocalAddress:Port Scheduler Flags\n  -> RemoteAddress:Port           Forward Weight ActiveConn InActConn\n";

/// `rr`, `sh (sh-port) persistent 60 mask 255.255.255.0`, `wlc ops`.
fn scheduling(vs: &Value, address: &str) -> String {
    let mut out = text(vs, "scheduler");
    let flags = flags(vs);
    if !flags.is_empty() {
        let _ = write!(out, " ({flags})");
    }
    if let Some(s) = vs.get("persistence_s").and_then(Value::as_u64) {
        let _ = write!(out, " persistent {s}");
        if let Some(mask) = mask(vs, address) {
            let _ = write!(out, " mask {mask}");
        }
    }
    if vs.get("one_packet") == Some(&Value::Bool(true)) {
        out += " ops";
    }
    out
}

fn flags(vs: &Value) -> String {
    let all: Vec<&str> = items(vs, "flags").filter_map(Value::as_str).collect();
    all.join(",")
}

/// The clients' mask where it is not the whole address: dotted, for IPv6 a length.
fn mask(vs: &Value, address: &str) -> Option<String> {
    let prefix = u32::try_from(vs.get("persistence_prefix")?.as_u64()?).ok()?;
    if address.starts_with('[') {
        return (prefix < 128).then(|| prefix.to_string());
    }
    let bits = u32::MAX
        .checked_shl(32u32.checked_sub(prefix)?)
        .unwrap_or(0);
    (prefix < 32).then(|| std::net::Ipv4Addr::from(bits).to_string())
}

fn entry(out: &mut String, vs: &Value, address: &str, servers: &[(&Value, String)]) {
    let (protocol, scheduling) = (text(vs, "protocol"), scheduling(vs, address));
    let _ = writeln!(out, "{protocol:<4} {address} {scheduling}");
    for (s, shown) in servers {
        let _ = writeln!(
            out,
            "  -> {shown:<28} {:<7} {:<6} {:<10} {:<10}",
            text(s, "forwarding"),
            text(s, "weight"),
            text(s, "active"),
            text(s, "inactive")
        );
    }
}

/// `ipvsadm -L -n`, column for column.
pub fn list(show: &Value) -> String {
    let mut out = VERSION.to_string() + LIST_HEAD;
    for (vs, address, servers) in services(show) {
        entry(&mut out, vs, address, &servers);
    }
    out
}

/// `ipvsadm -L -n -t ADDRESS:PORT`; the name is `tcp ADDRESS:PORT`.
pub fn list_one(show: &Value, name: &str) -> Option<String> {
    let wanted = |vs: &Value, address: &str| {
        format!("{} {address}", text(vs, "protocol").to_ascii_lowercase()) == name
    };
    let (vs, address, servers) = services(show).find(|(vs, a, _)| wanted(vs, a))?;
    let mut out = LIST_HEAD.to_string();
    entry(&mut out, vs, address, &servers);
    Some(out)
}

/// `ipvsadm -L -n --thresholds`; there is no lower one here.
pub fn thresholds(show: &Value) -> String {
    let mut out = VERSION.to_string()
        + "Prot LocalAddress:Port            Uthreshold Lthreshold ActiveConn InActConn \n  -> RemoteAddress:Port\n";
    for (vs, address, servers) in services(show) {
        let scheduling = scheduling(vs, address);
        let _ = writeln!(out, "{:<4} {address} {scheduling}", text(vs, "protocol"));
        for (s, shown) in servers {
            let _ = writeln!(
                out,
                "  -> {shown:<28} {:<10} {:<10} {:<10} {:<10}",
                text(s, "conns_max"),
                0,
                text(s, "active"),
                text(s, "inactive")
            );
        }
    }
    out
}

/// `ipvsadm -L -n --stats`; what goes out is not seen with DR and TUN, and is 0.
pub fn stats(show: &Value) -> String {
    let mut out = VERSION.to_string()
        + "Prot LocalAddress:Port               Conns   InPkts  OutPkts  InBytes OutBytes\n  -> RemoteAddress:Port\n";
    let numbers = |v: &Value| {
        format!(
            "{:>8} {:>8} {:>8} {:>8} {:>8}",
            text(v, "connections"),
            text(v, "packets"),
            0,
            text(v, "bytes"),
            0
        )
    };
    for (vs, address, servers) in services(show) {
        let _ = writeln!(
            out,
            "{:<4} {address:<28} {}",
            text(vs, "protocol"),
            numbers(vs)
        );
        for (s, shown) in servers {
            let _ = writeln!(out, "  -> {shown:<28} {}", numbers(s));
        }
    }
    out
}

/// `ipvsadm -L -c -n`, of the answer to [`Request::Flows`].
pub fn connections(flows: &Value) -> String {
    let mut out = String::from(
        "IPVS connection entries\npro expire state       source             virtual            destination\n",
    );
    for flow in flows.as_array().into_iter().flatten() {
        let protocol = match flow.get("protocol").and_then(Value::as_u64) {
            Some(6) => "TCP",
            Some(17) => "UDP",
            Some(132) => "SCTP",
            _ => "IP",
        };
        let left = flow.get("expires_s").and_then(Value::as_u64).unwrap_or(0);
        let _ = writeln!(
            out,
            "{protocol:<3} {:02}:{:02}  {:<11} {:<18} {:<18} {}",
            left / 60,
            left % 60,
            text(flow, "state"),
            text(flow, "client"),
            text(flow, "virtual"),
            text(flow, "server")
        );
    }
    out
}

/// `ipvsadm -S -n`.
pub fn save(show: &Value) -> String {
    let mut out = String::new();
    for (vs, address, servers) in services(show) {
        let kind = match text(vs, "protocol").as_str() {
            "UDP" => "-u",
            "SCTP" => "--sctp-service",
            _ => "-t",
        };
        let _ = write!(out, "-A {kind} {address} -s {}", text(vs, "scheduler"));
        if let Some(s) = vs.get("persistence_s").and_then(Value::as_u64) {
            let _ = write!(out, " -p {s}");
            if let Some(mask) = mask(vs, address) {
                let _ = write!(out, " -M {mask}");
            }
        }
        let flags = flags(vs);
        if !flags.is_empty() {
            let _ = write!(out, " -b {flags}");
        }
        let ops = vs.get("one_packet") == Some(&Value::Bool(true));
        out += if ops { " -o\n" } else { "\n" };
        for (s, shown) in servers {
            let method = match text(s, "forwarding").as_str() {
                "Route" => "-g",
                "Tunnel" => "-i",
                _ => "-m",
            };
            let _ = writeln!(
                out,
                "-a {kind} {address} -r {shown} {method} -w {}",
                text(s, "weight")
            );
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_saved_can_be_read_back() {
        let show = serde_json::json!({"virtual_servers": [{
            "protocol": "TCP", "addresses": ["10.0.0.1:80"], "scheduler": "wlc", "persistence_s": 50, "connections": 3, "packets": 9, "bytes": 500,
            "servers": [
                {"address": "10.0.0.2", "port": 80, "forwarding": "Route", "weight": 4, "up": true, "connections": 3, "packets": 9, "bytes": 500},
                {"address": "10.0.0.3", "port": 80, "forwarding": "Masq", "weight": 1, "up": false},
            ],
        }]});
        assert_eq!(
            save(&show),
            "-A -t 10.0.0.1:80 -s wlc -p 50\n-a -t 10.0.0.1:80 -r 10.0.0.2:80 -g -w 4\n"
        );
        let stats = stats(&show);
        assert!(
            stats.ends_with(
                "  -> 10.0.0.2:80                         3        9        0      500        0\n"
            ),
            "{stats}"
        );
    }

    #[test]
    fn what_a_service_says_is_listed_and_saved() {
        let show = serde_json::json!({"virtual_servers": [
            {"protocol": "TCP", "addresses": ["10.1.0.4:80"], "scheduler": "sh", "flags": ["sh-fallback", "sh-port"],
             "persistence_s": 60, "persistence_prefix": 24, "servers": []},
            {"protocol": "UDP", "addresses": ["10.1.0.7:80"], "scheduler": "wlc", "one_packet": true, "servers": []},
            {"protocol": "TCP", "addresses": ["[fd00::1]:80"], "scheduler": "wlc", "persistence_s": 50, "persistence_prefix": 64, "servers": []},
        ]});
        // As ipvsadm 1.31 prints them.
        assert!(list(&show).ends_with(
            "TCP  10.1.0.4:80 sh (sh-fallback,sh-port) persistent 60 mask 255.255.255.0\nUDP  10.1.0.7:80 wlc ops\nTCP  [fd00::1]:80 wlc persistent 50 mask 64\n"
        ));
        let saved = save(&show);
        assert_eq!(
            saved,
            "-A -t 10.1.0.4:80 -s sh -p 60 -M 255.255.255.0 -b sh-fallback,sh-port\n-A -u 10.1.0.7:80 -s wlc -o\n-A -t [fd00::1]:80 -s wlc -p 50 -M 64\n"
        );
        for line in saved.lines() {
            let args: Vec<String> = line.split(' ').map(String::from).collect();
            assert!(parse(&args).is_ok(), "{line}");
        }
        let one = list_one(&show, "udp 10.1.0.7:80").unwrap();
        assert!(
            one.ends_with("InActConn\nUDP  10.1.0.7:80 wlc ops\n"),
            "{one}"
        );
        assert_eq!(list_one(&show, "tcp 10.1.0.7:80"), None);
    }
}
