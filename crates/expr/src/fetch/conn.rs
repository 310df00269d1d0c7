//! Fetches of the two connections of a stream: addresses, ports, what the PROXY protocol said (manual chapter 7.3.3).

use std::net::IpAddr;

use super::{int, never};
use crate::env::{Addr, ConnInfo, Env, Side};
use crate::value::{Fetched, Sample, Value};

fetches! {
    "src" () -> Addr, CLIENT, |_, env, _| addr(env, Side::Client, |c| &c.src)
        => "The client's address, as rules and the PROXY protocol left it.";
    "src_port" () -> Sint, CLIENT, |_, env, _| port(env, Side::Client, |c| &c.src) => "The client's port.";
    "dst" () -> Addr, CLIENT, |_, env, _| addr(env, Side::Client, |c| &c.dst)
        => "The address the client connected to, as rules and the PROXY protocol left it.";
    "dst_port" () -> Sint, CLIENT, |_, env, _| port(env, Side::Client, |c| &c.dst)
        => "The port the client connected to.";
    "fc_src" () -> Addr, CLIENT, |_, env, _| addr(env, Side::Client, |c| &c.real_src)
        => "The client's address as the connection has it.";
}

fn addr<'a>(env: &'a dyn Env, side: Side, which: fn(&ConnInfo) -> &Addr) -> Fetched<'a> {
    match env.conn(side).and_then(|c| which(c).ip()) {
        Some(ip) => Ok(Sample::new(ip_value(ip))),
        None => never(),
    }
}

fn ip_value(ip: IpAddr) -> Value<'static> {
    match ip {
        IpAddr::V4(a) => Value::Ipv4(a),
        IpAddr::V6(a) => Value::Ipv6(a),
    }
}

/// A port, 0 on a Unix socket.
fn port<'a>(env: &'a dyn Env, side: Side, which: fn(&ConnInfo) -> &Addr) -> Fetched<'a> {
    int(env.conn(side).map(|c| i64::from(which(c).port())))
}
