//! The verbs of ipvsadm(8) that fingers and scripts know: `-L` (with `-n`, `--stats`, `-c`), `-S`, `-a`, `-e`, `-d`. Virtual servers
//! themselves come from the file.

use super::control::Request;
use serde_json::Value;
use std::fmt::Write as _;
use std::net::SocketAddr;

#[derive(Debug, PartialEq, Eq)]
pub enum Verb {
    /// `-L`: servers and their connections.
    List,
    /// `-L --stats`: what went through them.
    Stats,
    /// `-L -c`: every connection.
    Connections,
    /// `-S`: as lines that `ipvsadm -R` would read.
    Save,
    Change(Request),
}

/// Reads a command line as ipvsadm would.
pub fn parse(args: &[String]) -> Result<Verb, String> {
    let mut verb = None;
    let (mut service, mut server, mut weight, mut forwarding) = (None, None, 1, None);
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        let mut value = |what: &str| rest.next().ok_or_else(|| format!("{arg} needs {what}"));
        match arg.as_str() {
            "-L" | "-l" | "--list" | "-Ln" | "-ln" => verb = verb.or(Some('L')),
            "-Lc" | "-lc" | "-Lcn" | "-lcn" | "-Lnc" | "-lnc" | "-c" | "--connection" => {
                verb = Some('c')
            }
            "--stats" => verb = Some('s'),
            "-S" | "--save" | "-Sn" => verb = Some('S'),
            "-n" | "--numeric" => {}
            "-a" | "--add-server" => verb = Some('a'),
            "-e" | "--edit-server" => verb = Some('e'),
            "-d" | "--delete-server" => verb = Some('d'),
            "-t" | "--tcp-service" => service = Some(format!("tcp {}", value("ADDRESS:PORT")?)),
            "-u" | "--udp-service" => service = Some(format!("udp {}", value("ADDRESS:PORT")?)),
            "-r" | "--real-server" => {
                let text = value("ADDRESS:PORT")?;
                server = Some(
                    text.parse::<SocketAddr>()
                        .map_err(|_| format!("'{text}' is not ADDRESS:PORT"))?,
                );
            }
            "-w" | "--weight" => {
                let text = value("a weight")?;
                weight = text
                    .parse()
                    .map_err(|_| format!("'{text}' is not a weight"))?;
            }
            "-g" | "--gatewaying" => forwarding = Some("DR".to_string()),
            "-i" | "--ipip" => forwarding = Some("TUN".to_string()),
            "-m" | "--masquerading" => forwarding = Some("NAT".to_string()),
            "-A" | "-E" | "-D" | "-C" | "-R" | "-Z" => {
                return Err(format!(
                    "{arg}: virtual servers come from the configuration; change the file and reload"
                ));
            }
            other => return Err(format!("{other} is not supported")),
        }
    }
    match verb {
        Some('L') => return Ok(Verb::List),
        Some('s') => return Ok(Verb::Stats),
        Some('c') => return Ok(Verb::Connections),
        Some('S') => return Ok(Verb::Save),
        _ => {}
    }
    let verb = verb.ok_or("one of -L, -S, -a, -e, -d is needed")?;
    let virtual_server = service.ok_or("-t or -u ADDRESS:PORT is needed")?;
    let server = server.ok_or("-r ADDRESS:PORT is needed")?;
    let (ip, port) = (server.ip(), server.port());
    Ok(Verb::Change(match verb {
        'a' => Request::Add {
            virtual_server,
            ip,
            port,
            weight,
            forwarding,
        },
        'e' => Request::Weight {
            virtual_server,
            ip,
            port,
            weight,
        },
        _ => Request::Delete {
            virtual_server,
            ip,
            port,
        },
    }))
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

/// `ipvsadm -L -n`, column for column.
pub fn list(show: &Value) -> String {
    let mut out = VERSION.to_string()
        + "Prot LocalAddress:Port Scheduler Flags\n  -> RemoteAddress:Port           Forward Weight ActiveConn InActConn\n";
    for (vs, address, servers) in services(show) {
        let persistent = match vs.get("persistence_s").and_then(Value::as_u64) {
            Some(s) => format!(" persistent {s}"),
            None => String::new(),
        };
        let (protocol, scheduler) = (text(vs, "protocol"), text(vs, "scheduler"));
        let _ = writeln!(out, "{protocol:<4} {address} {scheduler}{persistent}");
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
        let persistent = match vs.get("persistence_s").and_then(Value::as_u64) {
            Some(s) => format!(" -p {s}"),
            None => String::new(),
        };
        let _ = writeln!(
            out,
            "-A {kind} {address} -s {}{persistent}",
            text(vs, "scheduler")
        );
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

    fn check(line: &str, expect: Result<Verb, &str>) {
        let args: Vec<String> = line.split(' ').map(String::from).collect();
        match (parse(&args), expect) {
            (Err(e), Err(part)) => assert!(e.contains(part), "{e}"),
            (got, expect) => assert_eq!(got, expect.map_err(String::from)),
        }
    }

    #[test]
    fn fingers_are_understood() {
        check("-L -n", Ok(Verb::List));
        check("-Ln", Ok(Verb::List));
        check("-L -n --stats", Ok(Verb::Stats));
        check("-Lnc", Ok(Verb::Connections));
        check("-L -c -n", Ok(Verb::Connections));
        check("-S -n", Ok(Verb::Save));
        let (virtual_server, ip) = ("tcp 10.0.0.1:80".to_string(), "10.0.0.2".parse().unwrap());
        check(
            "-e -t 10.0.0.1:80 -r 10.0.0.2:80 -w 0",
            Ok(Verb::Change(Request::Weight {
                virtual_server: virtual_server.clone(),
                ip,
                port: 80,
                weight: 0,
            })),
        );
        check(
            "-d -t 10.0.0.1:80 -r 10.0.0.2:80",
            Ok(Verb::Change(Request::Delete {
                virtual_server: virtual_server.clone(),
                ip,
                port: 80,
            })),
        );
        check(
            "-a -t 10.0.0.1:80 -r 10.0.0.2:80 -g",
            Ok(Verb::Change(Request::Add {
                virtual_server,
                ip,
                port: 80,
                weight: 1,
                forwarding: Some("DR".into()),
            })),
        );
        check("-C", Err("configuration"));
        check("-a -t 10.0.0.1:80", Err("-r"));
    }

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
}
