//! The verbs of ipvsadm(8) that fingers know: `-L -n`, `-a`, `-e`, `-d`. Virtual servers themselves come from the file.

use super::control::Request;
use serde_json::Value;
use std::fmt::Write as _;
use std::net::SocketAddr;

#[derive(Debug, PartialEq, Eq)]
pub enum Verb {
    List,
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
            "-L" | "-l" | "--list" | "-Ln" | "-ln" => verb = Some('L'),
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
            "-A" | "-E" | "-D" | "-C" | "-R" | "-S" | "-Z" => {
                return Err(format!(
                    "{arg}: virtual servers come from the configuration; change the file and reload"
                ));
            }
            other => return Err(format!("{other} is not supported")),
        }
    }
    if verb == Some('L') {
        return Ok(Verb::List);
    }
    let verb = verb.ok_or("one of -L, -a, -e, -d is needed")?;
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

/// `ipvsadm -L -n`, column for column.
pub fn list(show: &Value) -> String {
    let mut out = String::from(
        "IP Virtual Server version 1.2.1 (size=1048576)\nProt LocalAddress:Port Scheduler Flags\n  -> RemoteAddress:Port           Forward Weight ActiveConn InActConn\n",
    );
    let get = |v: &Value, k: &str| match v.get(k) {
        Some(Value::String(s)) => s.clone(),
        Some(other) => other.to_string(),
        None => String::new(),
    };
    for vs in show
        .get("virtual_servers")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        for address in vs
            .get("addresses")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            let persistent = match vs.get("persistence_s").and_then(Value::as_u64) {
                Some(s) => format!(" persistent {s}"),
                None => String::new(),
            };
            let _ = writeln!(
                out,
                "{:<4} {} {}{persistent}",
                get(vs, "protocol"),
                address.as_str().unwrap_or_default(),
                get(vs, "scheduler")
            );
            for s in vs
                .get("servers")
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .filter(|s| s.get("up") == Some(&Value::Bool(true)))
            {
                let ip = get(s, "address");
                let shown = if ip.contains(':') {
                    format!("[{ip}]:{}", get(s, "port"))
                } else {
                    format!("{ip}:{}", get(s, "port"))
                };
                let _ = writeln!(
                    out,
                    "  -> {shown:<28} {:<7} {:<6} {:<10} {:<10}",
                    get(s, "forwarding"),
                    get(s, "weight"),
                    get(s, "active"),
                    get(s, "inactive")
                );
            }
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
}
