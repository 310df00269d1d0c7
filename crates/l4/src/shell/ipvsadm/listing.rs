//! Listings as ipvsadm 1.31 prints them, byte for byte, of what the director shows. Left out: how it is asked.

use super::names::Names;
use super::{Style, View};
use serde_json::Value;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};

/// One address of a virtual server, by itself as IPVS has it, with its servers that are up.
#[derive(Debug)]
pub struct Service<'a> {
    vs: &'a Value,
    /// A firewall mark in place of an address.
    mark: Option<u64>,
    pub protocol: String,
    pub address: SocketAddr,
    /// As it is written.
    shown: String,
    flow: Flow,
    servers: Vec<Server<'a>>,
}

#[derive(Debug)]
struct Server<'a> {
    s: &'a Value,
    address: SocketAddr,
    shown: String,
    flow: Flow,
    /// Clients that persistence holds there.
    persistent: u64,
}

/// What went through: in all, or in a second.
#[derive(Debug, Clone, Copy, Default)]
struct Flow {
    connections: u64,
    packets: u64,
    bytes: u64,
}

impl Flow {
    fn of(v: &Value) -> Flow {
        Flow {
            connections: number(v, "connections"),
            packets: number(v, "packets"),
            bytes: number(v, "bytes"),
        }
    }

    /// What came since; counts that began anew meanwhile came from 0.
    fn since(self, before: Flow) -> Flow {
        let since = |now: u64, then: u64| now.checked_sub(then).unwrap_or(now);
        Flow {
            connections: since(self.connections, before.connections),
            packets: since(self.packets, before.packets),
            bytes: since(self.bytes, before.bytes),
        }
    }
}

fn text(v: &Value, k: &str) -> String {
    match v.get(k) {
        Some(Value::String(s)) => s.clone(),
        Some(other) => other.to_string(),
        None => String::new(),
    }
}

fn number(v: &Value, k: &str) -> u64 {
    v.get(k).and_then(Value::as_u64).unwrap_or(0)
}

fn items<'a>(v: &'a Value, k: &str) -> impl Iterator<Item = &'a Value> {
    v.get(k).and_then(Value::as_array).into_iter().flatten()
}

fn server_address(s: &Value) -> Option<SocketAddr> {
    let ip: IpAddr = s.get("address")?.as_str()?.parse().ok()?;
    Some(SocketAddr::new(ip, u16::try_from(number(s, "port")).ok()?))
}

/// All that is listed, in the order of the style; with `before` (an earlier answer) what goes through is what came since.
pub fn services<'a>(show: &'a Value, before: Option<&Value>, style: Style) -> Vec<Service<'a>> {
    let names = Names::of_this_machine(style.numeric);
    let earlier = before.map(flows_by_name).unwrap_or_default();
    let flow = |name: String, v: &Value| match before {
        Some(_) => Flow::of(v).since(earlier.get(&name).copied().unwrap_or_default()),
        None => Flow::of(v),
    };
    let mut all = Vec::new();
    for vs in items(show, "virtual_servers") {
        let name = text(vs, "name");
        let mark = vs.get("fwmark").and_then(Value::as_u64);
        let protocol = match mark {
            Some(_) => "FWM".to_string(),
            None => text(vs, "protocol"),
        };
        let addresses: Vec<SocketAddr> = match mark {
            // Of one family, as its servers are.
            Some(_) => {
                let first = items(vs, "servers").find_map(server_address);
                let any = first.map_or(IpAddr::from([0; 4]), |a| match a {
                    SocketAddr::V4(_) => IpAddr::from([0; 4]),
                    SocketAddr::V6(_) => IpAddr::from([0; 16]),
                });
                vec![SocketAddr::new(any, 0)]
            }
            None => items(vs, "addresses")
                .filter_map(|a| a.as_str()?.parse().ok())
                .collect(),
        };
        for address in addresses {
            let up = items(vs, "servers").filter(|s| s.get("up") == Some(&Value::Bool(true)));
            let servers = up.filter_map(|s| {
                let at = server_address(s)?;
                Some(Server {
                    s,
                    address: at,
                    shown: names.address(at.ip(), at.port(), &protocol),
                    flow: flow(format!("{name} {at}"), s),
                    persistent: show
                        .get("persistent")
                        .map_or(0, |p| number(p, &format!("{name} {at}"))),
                })
            });
            let mut servers: Vec<Server<'_>> = servers.collect();
            match style.unsorted {
                true => servers.reverse(),
                false => servers.sort_by_key(|s| s.address),
            }
            all.push(Service {
                vs,
                address,
                shown: match (mark, address.is_ipv6()) {
                    (Some(mark), false) => mark.to_string(),
                    (Some(mark), true) => format!("{mark} IPv6"),
                    (None, _) => names.address(address.ip(), address.port(), &protocol),
                },
                mark,
                flow: flow(name.clone(), vs),
                servers,
                protocol: protocol.clone(),
            });
        }
    }
    if !style.unsorted {
        // TCP (6), UDP (17), SCTP (132): its names happen not to be in that order.
        let rank = |p: &str| ["TCP", "UDP", "SCTP"].iter().position(|n| *n == p);
        all.sort_by_key(|s| {
            let rank = rank(&s.protocol);
            (s.mark, s.address.is_ipv6(), rank, s.address)
        });
    }
    all
}

fn flows_by_name(show: &Value) -> HashMap<String, Flow> {
    let mut all = HashMap::new();
    for vs in items(show, "virtual_servers") {
        let name = text(vs, "name");
        for s in items(vs, "servers") {
            if let Some(at) = server_address(s) {
                all.insert(format!("{name} {at}"), Flow::of(s));
            }
        }
        all.insert(name, Flow::of(vs));
    }
    all
}

/// What the director can remember: the heading has it.
pub fn size(show: &Value) -> u64 {
    number(show, "flows_max")
}

fn head(view: View) -> &'static str {
    match view {
        View::Plain => {
            "Prot LocalAddress:Port Scheduler Flags\n  -> RemoteAddress:Port           Forward Weight ActiveConn InActConn\n"
        }
        View::TunnelInfo => {
            "Prot LocalAddress:Port Scheduler Flags\n  -> RemoteAddress:Port           Forward TunnelInfo    Weight ActiveConn InActConn\n"
        }
        View::Stats => {
            "Prot LocalAddress:Port               Conns   InPkts  OutPkts  InBytes OutBytes\n  -> RemoteAddress:Port\n"
        }
        View::Rate => {
            "Prot LocalAddress:Port                 CPS    InPPS   OutPPS    InBPS   OutBPS\n  -> RemoteAddress:Port\n"
        }
        View::Thresholds => {
            "Prot LocalAddress:Port            Uthreshold Lthreshold ActiveConn InActConn \n  -> RemoteAddress:Port\n"
        }
        View::PersistentConnections => {
            "Prot LocalAddress:Port            Weight    PersistConn ActiveConn InActConn \n  -> RemoteAddress:Port\n"
        }
    }
}

/// `ipvsadm -L`
pub fn all(services: &[Service<'_>], style: Style, size: u64) -> String {
    let mut out = format!("IP Virtual Server version 1.2.1 (size={size})\n");
    out += head(style.view);
    for service in services {
        entry(&mut out, service, style);
    }
    out
}

/// `ipvsadm -L -t ADDRESS:PORT`; the name is `tcp ADDRESS:PORT`.
pub fn one(services: &[Service<'_>], style: Style, name: &str) -> Option<String> {
    let service = services.iter().find(|s| match s.mark {
        Some(mark) => format!("fwm {mark}") == name,
        None => format!("{} {}", s.protocol.to_ascii_lowercase(), s.address) == name,
    })?;
    let mut out = head(style.view).to_string();
    entry(&mut out, service, style);
    Some(out)
}

fn entry(out: &mut String, service: &Service<'_>, style: Style) {
    let Service {
        vs,
        protocol,
        shown,
        address,
        ..
    } = service;
    let _ = match style.view {
        View::Stats | View::Rate => {
            writeln!(
                out,
                "{protocol:<4} {shown:<28}{}",
                flow(service.flow, style)
            )
        }
        _ => writeln!(out, "{protocol:<4} {shown} {}", scheduling(vs, address)),
    };
    for server in &service.servers {
        let (s, shown) = (server.s, &server.shown);
        let tunnel = match text(s, "forwarding").as_str() {
            "Tunnel" => "ipip",
            _ => "-",
        };
        let columns = match style.view {
            View::Stats | View::Rate => flow(server.flow, style),
            View::Plain => format!(" {:<7} {:<6}", text(s, "forwarding"), text(s, "weight")),
            View::TunnelInfo => {
                let (forwarding, weight) = (text(s, "forwarding"), text(s, "weight"));
                format!(" {forwarding:<7} {tunnel:<13} {weight:<6}")
            }
            View::Thresholds => {
                let (most, least) = (text(s, "conns_max"), text(s, "conns_min"));
                format!(" {most:<10} {least:<10}")
            }
            View::PersistentConnections => {
                format!(" {:<9} {:<11}", text(s, "weight"), server.persistent)
            }
        };
        let _ = match style.view {
            View::Stats | View::Rate => writeln!(out, "  -> {shown:<28}{columns}"),
            _ => {
                let (active, inactive) = (text(s, "active"), text(s, "inactive"));
                writeln!(out, "  -> {shown:<28}{columns} {active:<10} {inactive:<10}")
            }
        };
    }
}

/// `rr`, `sh (sh-port) persistent 60 mask 255.255.255.0`, `wlc ops`.
fn scheduling(vs: &Value, address: &SocketAddr) -> String {
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
fn mask(vs: &Value, address: &SocketAddr) -> Option<String> {
    let prefix = u32::try_from(vs.get("persistence_prefix")?.as_u64()?).ok()?;
    if address.is_ipv6() {
        return (prefix < 128).then(|| prefix.to_string());
    }
    let bits = u32::MAX
        .checked_shl(32u32.checked_sub(prefix)?)
        .unwrap_or(0);
    (prefix < 32).then(|| std::net::Ipv4Addr::from(bits).to_string())
}

/// Five columns; what goes out is not seen with DR and TUN, and is 0.
fn flow(flow: Flow, style: Style) -> String {
    [flow.connections, flow.packets, 0, flow.bytes, 0]
        .map(|n| large(n, style.exact))
        .concat()
}

/// Eight columns after a space. From a hundred million on in thousands, and so on.
fn large(n: u64, exact: bool) -> String {
    const STEP: u64 = 1000;
    let mut limit = 100_000_000;
    if exact || n < limit {
        return format!(" {n:>8}");
    }
    let mut unit = 1;
    for letter in ['K', 'M', 'G'] {
        (limit, unit) = (limit * STEP, unit * STEP);
        if n < limit {
            return format!("{:>8}{letter}", n / unit);
        }
    }
    format!("{:>8}T", n / unit / STEP)
}

/// `ipvsadm -L -c`, of the answer to [`super::Request::Flows`].
pub fn connections(flows: &Value, style: Style) -> String {
    let names = Names::of_this_machine(style.numeric);
    let mut out = String::from(
        "IPVS connection entries\npro expire state       source             virtual            destination",
    );
    out += match style.view {
        View::PersistentConnections => "        pe name          pe_data\n",
        _ => "\n",
    };
    for flow in flows.as_array().into_iter().flatten() {
        let protocol = match number(flow, "protocol") {
            6 => "TCP",
            17 => "UDP",
            132 => "SCTP",
            _ => "IP",
        };
        let left = number(flow, "expires_s");
        let address = |key: &str| {
            let text = text(flow, key);
            match text.parse::<SocketAddr>() {
                Ok(a) => names.address(a.ip(), a.port(), protocol),
                Err(_) => text,
            }
        };
        let _ = writeln!(
            out,
            "{protocol:<3} {:02}:{:02}  {:<11} {:<18} {:<18} {}",
            left / 60,
            left % 60,
            text(flow, "state"),
            address("client"),
            address("virtual"),
            address("server")
        );
    }
    out
}

/// `ipvsadm -L --timeout`
pub fn timeouts(show: &Value) -> String {
    let all: Vec<String> = items(show, "timeouts_s").map(Value::to_string).collect();
    format!("Timeout (tcp tcpfin udp): {}\n", all.join(" "))
}

/// `ipvsadm -S`
pub fn save(services: &[Service<'_>]) -> String {
    let mut out = String::new();
    for service in services {
        let vs = service.vs;
        let kind = match service.protocol.as_str() {
            "UDP" => "-u",
            "SCTP" => "--sctp-service",
            "FWM" => "-f",
            _ => "-t",
        };
        let address = &service.shown.replace(" IPv6", " -6");
        let _ = write!(out, "-A {kind} {address} -s {}", text(vs, "scheduler"));
        if let Some(s) = vs.get("persistence_s").and_then(Value::as_u64) {
            let _ = write!(out, " -p {s}");
            if let Some(mask) = mask(vs, &service.address) {
                let _ = write!(out, " -M {mask}");
            }
        }
        let flags = flags(vs);
        if !flags.is_empty() {
            let _ = write!(out, " -b {flags}");
        }
        let ops = vs.get("one_packet") == Some(&Value::Bool(true));
        out += if ops { " -o\n" } else { "\n" };
        for server in &service.servers {
            let (method, more) = match text(server.s, "forwarding").as_str() {
                "Route" => ("-g", ""),
                "Tunnel" => ("-i", " --tun-type ipip"),
                _ => ("-m", ""),
            };
            let _ = writeln!(
                out,
                "-a {kind} {address} -r {} {method} -w {}{more}",
                server.shown,
                text(server.s, "weight")
            );
        }
    }
    out
}

#[cfg(test)]
mod tests;
