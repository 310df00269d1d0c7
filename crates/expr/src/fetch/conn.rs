//! Fetches of the two connections of a stream: addresses, ports, what the PROXY protocol said, errors (manual chapter
//! 7.3.3).

use std::net::IpAddr;

use super::conn_error::{message, name};
use super::{Cursor, arg_int, arg_str, int, more, never, text, truth};
use crate::args::Arg;
use crate::conv::BadArg;
use crate::env::{Addr, ConnInfo, Env, Gauge, Side};
use crate::value::{Absent, Fetched, Sample, Value};

fetches! {
    "src" () -> Addr, CLIENT, |_, env, _| addr(env.conn(Side::Client).map(|c| &c.src))
        => "The client's address, as rules and the PROXY protocol left it.";
    "src_port" () -> Sint, CLIENT, |_, env, _| port(env.conn(Side::Client).map(|c| &c.src)) => "The client's port.";
    "src_is_local" () -> Bool, CLIENT, |_, env, _| is_local(env, |c| &c.src)
        => "Whether the client's address is one of this machine's.";
    "dst" () -> Addr, CLIENT, |_, env, _| addr(env.conn(Side::Client).map(|c| &c.dst))
        => "The address the client connected to, as rules and the PROXY protocol left it.";
    "dst_port" () -> Sint, CLIENT, |_, env, _| port(env.conn(Side::Client).map(|c| &c.dst))
        => "The port the client connected to.";
    "dst_is_local" () -> Bool, CLIENT, |_, env, _| is_local(env, |c| &c.dst)
        => "Whether the address the client connected to is one of this machine's.";
    "dst_conn" () -> Sint, FRONTEND, |_, env, _| int(env.gauge(Gauge::ListenerConn))
        => "Connections on the socket the client connected to.";
    "fc_src" () -> Addr, CLIENT, |_, env, _| addr(env.conn(Side::Client).map(|c| &c.real_src))
        => "The client's address as the connection has it.";
    "fc_src_port" () -> Sint, CLIENT, |_, env, _| port(env.conn(Side::Client).map(|c| &c.real_src))
        => "The client's port as the connection has it.";
    "fc_src_is_local" () -> Bool, CLIENT, |_, env, _| is_local(env, |c| &c.real_src)
        => "Whether the connection comes from this machine.";
    "fc_dst" () -> Addr, CLIENT, |_, env, _| addr(env.conn(Side::Client).map(|c| &c.real_dst))
        => "The address the client connected to as the connection has it.";
    "fc_dst_port" () -> Sint, CLIENT, |_, env, _| port(env.conn(Side::Client).map(|c| &c.real_dst))
        => "The port the client connected to as the connection has it.";
    "fc_dst_is_local" () -> Bool, CLIENT, |_, env, _| is_local(env, |c| &c.real_dst)
        => "Whether the connection goes to this machine.";
    "bc_src" () -> Addr, RESPONSE_KEPT, |_, env, _| addr(env.server_conn_from().map(|c| &c.src))
        => "The address the server was connected to from.";
    "bc_src_port" () -> Sint, RESPONSE_KEPT, |_, env, _| port(env.server_conn_from().map(|c| &c.src))
        => "The port the server was connected to from.";
    "bc_dst" () -> Addr, RESPONSE_KEPT, |_, env, _| addr(env.conn(Side::Server).map(|c| &c.dst))
        => "The server's address.";
    "bc_dst_port" () -> Sint, RESPONSE_KEPT, |_, env, _| port(env.conn(Side::Server).map(|c| &c.dst)) => "The server's port.";
    "fc_rcvd_proxy" () -> Bool, CLIENT, |_, env, _| truth(env.conn(Side::Client).map(|c| c.rcvd_proxy))
        => "Whether the client sent a PROXY protocol header.";
    "ssl_fc" () -> Bool, SESSION, |_, env, _| truth(env.conn(Side::Client).map(|c| c.tls))
        => "Whether the client's connection speaks TLS.";
    "ssl_bc" () -> Bool, RESPONSE_KEPT, |_, env, _| truth(env.conn(Side::Server).map(|c| c.tls))
        => "Whether the server's connection speaks TLS.";
    "fc_pp_authority" () -> Str, CLIENT, |_, env, _| text(tlvs(env, AUTHORITY).next())
        => "The authority in the client's PROXY protocol header.";
    "fc_pp_unique_id" () -> Str, CLIENT, |_, env, _| text(tlvs(env, UNIQUE_ID).next())
        => "The unique id in the client's PROXY protocol header.";
    "fc_pp_tlv" (Str) -> Str, SESSION, tlv, prepare |args, _| prepare_tlv(args)
        => "A value of the client's PROXY protocol header by its type, a number or a name like AUTHORITY.";
    "fc_http_major" () -> Sint, CLIENT, |_, env, _| http_major(env, Side::Client)
        => "The major version of HTTP spoken with the client.";
    "bc_http_major" () -> Sint, RESPONSE_KEPT, |_, env, _| http_major(env, Side::Server)
        => "The major version of HTTP spoken with the server.";
    "fc_err" () -> Sint, CLIENT, |_, env, _| int(error(env, Side::Client)) => "The number of the client connection's error.";
    "bc_err" () -> Sint, RESPONSE_KEPT, |_, env, _| int(error(env, Side::Server))
        => "The number of the server connection's error.";
    "fc_err_str" () -> Str, CLIENT, |_, env, _| text(error(env, Side::Client).and_then(message))
        => "The client connection's error in words.";
    "bc_err_str" () -> Str, RESPONSE_KEPT, |_, env, _| text(error(env, Side::Server).and_then(message))
        => "The server connection's error in words.";
    "fc_err_name" () -> Str, CLIENT, |_, env, _| text(error(env, Side::Client).and_then(name))
        => "The symbolic name of the client connection's error.";
    "bc_err_name" () -> Str, RESPONSE_KEPT, |_, env, _| text(error(env, Side::Server).and_then(name))
        => "The symbolic name of the server connection's error.";
    "fc_glitches" () -> Sint, CLIENT, |_, env, _| count(env, Side::Client, |c| c.glitches)
        => "How often the client's protocol was odd without being wrong.";
    "bc_glitches" () -> Sint, RESPONSE_KEPT, |_, env, _| count(env, Side::Server, |c| c.glitches)
        => "How often the server's protocol was odd without being wrong.";
    "fc_nb_streams" () -> Sint, CLIENT, |_, env, _| count(env, Side::Client, |c| c.streams)
        => "Streams open on the client's connection.";
    "bc_nb_streams" () -> Sint, RESPONSE_KEPT, |_, env, _| count(env, Side::Server, |c| c.streams)
        => "Streams open on the server's connection.";
    "fc_settings_streams_limit" () -> Sint, SESSION, |_, env, _| count(env, Side::Client, |c| c.streams_max)
        => "The most streams the client's connection may carry at once.";
    "bc_settings_streams_limit" () -> Sint, RESPONSE_KEPT, |_, env, _| count(env, Side::Server, |c| c.streams_max)
        => "The most streams the server's connection may carry at once.";
    "bc_reused" () -> Bool, RESPONSE_KEPT, |_, env, _| truth(env.conn(Side::Server).map(|c| c.reused))
        => "Whether the server's connection had carried a stream before.";
    "fc_saved_syn" () -> Bin, CLIENT, |_, env, _| saved_syn(env)
        => "The client's SYN packet from its IP header on, when the kernel was asked to keep it.";
    "http_first_req" () -> Bool, REQUEST_KEPT, |_, env, _| truth(env.conn(Side::Client).map(|c| c.requests == 0))
        => "Whether this is the first request on its connection.";
}

fn addr<'a>(addr: Option<&Addr>) -> Fetched<'a> {
    match addr.and_then(Addr::ip) {
        Some(IpAddr::V4(a)) => Ok(Sample::new(Value::Ipv4(a))),
        Some(IpAddr::V6(a)) => Ok(Sample::new(Value::Ipv6(a))),
        None => never(),
    }
}

/// A Unix socket has none.
fn port<'a>(addr: Option<&Addr>) -> Fetched<'a> {
    let port = addr.map(Addr::port);
    int(port.filter(|&p| p != 0).map(i64::from))
}

fn is_local<'a>(env: &'a dyn Env, which: fn(&ConnInfo) -> &Addr) -> Fetched<'a> {
    match env.conn(Side::Client).map(which) {
        Some(Addr::Ip(a)) => Ok(Sample::bool(env.is_local(a.ip()))),
        Some(Addr::Unix(_)) => Ok(Sample::bool(true)),
        Some(Addr::None) | None => never(),
    }
}

fn http_major<'a>(env: &'a dyn Env, side: Side) -> Fetched<'a> {
    let major = env.conn(side).map(|c| c.http_major);
    int(major.filter(|&m| m != 0).map(i64::from))
}

fn error(env: &dyn Env, side: Side) -> Option<i64> {
    env.conn(side).map(|c| i64::from(c.err))
}

fn count<'a>(env: &'a dyn Env, side: Side, which: fn(&ConnInfo) -> u32) -> Fetched<'a> {
    int(env.conn(side).map(|c| i64::from(which(c))))
}

fn saved_syn(env: &dyn Env) -> Fetched<'_> {
    let syn = env.conn(Side::Client).and_then(|c| c.saved_syn.as_deref());
    syn.map(Sample::bin).ok_or(Absent::Never)
}

/// Types of the PROXY protocol's TLVs (its specification, section 2.2) by the names `fc_pp_tlv` takes.
const TLV_NAMES: [(&str, u8); 11] = [
    ("ALPN", 0x01),
    ("AUTHORITY", AUTHORITY),
    ("CRC32C", 0x03),
    ("UNIQUE_ID", UNIQUE_ID),
    ("SSL", 0x20),
    ("SSL_VERSION", 0x21),
    ("SSL_CN", 0x22),
    ("SSL_CIPHER", 0x23),
    ("SSL_SIG_ALG", 0x24),
    ("SSL_KEY_ALG", 0x25),
    ("NETNS", 0x30),
];
const AUTHORITY: u8 = 0x02;
const UNIQUE_ID: u8 = 0x05;

/// The values of a type in the client's header.
fn tlvs(env: &dyn Env, wanted: u8) -> impl Iterator<Item = &[u8]> {
    let all = env.conn(Side::Client).and_then(|c| c.pp2_tlvs.as_deref());
    let all = all.into_iter().flatten();
    all.filter(move |(kind, _)| *kind == wanted)
        .map(|(_, value)| value.as_slice())
}

fn prepare_tlv(args: &mut [Arg]) -> Result<(), BadArg> {
    let written = String::from_utf8_lossy(arg_str(args, 0).unwrap_or_default()).into_owned();
    let named = TLV_NAMES
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(&written))
        .map(|(_, kind)| *kind);
    let number = match written.strip_prefix("0x") {
        Some(hex) => u8::from_str_radix(hex, 16).ok(),
        None => written.parse().ok(),
    };
    let kind = named.or(number).ok_or_else(|| {
        let names: Vec<&str> = TLV_NAMES.iter().map(|(name, _)| *name).collect();
        BadArg::new(
            0,
            format!(
                "the type must be a number from 0 to 255 or one of {}",
                names.join(", ")
            ),
        )
    })?;
    args[0] = Arg::Sint(i64::from(kind));
    Ok(())
}

fn tlv<'a>(args: &'a [Arg], env: &'a dyn Env, cursor: &mut Cursor) -> Fetched<'a> {
    let kind = arg_int(args, 0)
        .and_then(|k| u8::try_from(k).ok())
        .ok_or(Absent::Never)?;
    if !cursor.iterates() {
        return text(tlvs(env, kind).next());
    }
    let value = tlvs(env, kind)
        .nth(cursor.0[0] as usize)
        .ok_or(Absent::Never)?;
    cursor.0[0] += 1;
    Ok(more(Value::Str(value.into()), true))
}

#[cfg(test)]
mod tests {
    use crate::env::{Addr, ConnInfo, Gauge};
    use crate::place::Place;
    use crate::testing::{TestEnv, compile};

    #[test]
    fn the_clients_connection_has_addresses() {
        let mut env = TestEnv::new();
        env.gauges = vec![(Gauge::ListenerConn, 3)];
        env.check(&[
            ("src", Some("192.0.2.1")),
            ("src_port", Some("1111")),
            ("src_is_local", Some("0")),
            ("dst", Some("198.51.100.2")),
            ("dst_port", Some("80")),
            ("dst_is_local", Some("0")),
            ("dst_conn", Some("3")),
            ("fc_src", Some("192.0.2.1")),
            ("fc_http_major", Some("1")),
            ("fc_rcvd_proxy", Some("0")),
            ("ssl_fc", Some("0")),
            ("ssl_bc", None),
            ("fc_err", Some("0")),
            ("fc_err_str", Some("Success")),
            ("fc_err_name", Some("NONE")),
            ("http_first_req", Some("1")),
            ("bc_dst", None),
            ("bc_err", None),
        ]);
    }

    #[test]
    fn rules_change_src_and_not_fc_src() {
        let mut env = TestEnv::new();
        let client = env.client.as_mut().expect("a client");
        client.src = Addr::Ip("[2001:db8::1]:7".parse().expect("an address"));
        client.real_dst = Addr::Ip("127.0.0.1:90".parse().expect("an address"));
        client.requests = 2;
        env.check(&[
            ("src", Some("2001:db8::1")),
            ("src_port", Some("7")),
            ("fc_src", Some("192.0.2.1")),
            ("fc_src_port", Some("1111")),
            ("fc_src_is_local", Some("0")),
            ("fc_dst", Some("127.0.0.1")),
            ("fc_dst_port", Some("90")),
            ("fc_dst_is_local", Some("1")),
            ("http_first_req", Some("0")),
        ]);
    }

    #[test]
    fn a_unix_socket_is_local_and_has_no_address() {
        let mut env = TestEnv::new();
        env.client.as_mut().expect("a client").src = Addr::Unix("/run/x".into());
        env.check(&[
            ("src", None),
            ("src_port", None),
            ("src_is_local", Some("1")),
        ]);
    }

    #[test]
    fn the_servers_connection_has_its_own() {
        let mut env = TestEnv::new();
        env.server = Some(ConnInfo {
            src: Addr::Ip("10.0.0.1:4000".parse().expect("an address")),
            dst: Addr::Ip("10.0.0.2:8080".parse().expect("an address")),
            http_major: 1,
            err: 8,
            reused: true,
            tls: true,
            glitches: 1,
            streams: 2,
            streams_max: 100,
            ..ConnInfo::default()
        });
        env.check(&[
            ("bc_src", Some("10.0.0.1")),
            ("bc_src_port", Some("4000")),
            ("bc_dst", Some("10.0.0.2")),
            ("bc_dst_port", Some("8080")),
            ("bc_http_major", Some("1")),
            ("bc_err", Some("8")),
            ("bc_err_str", Some("Can't bind to source address")),
            ("bc_err_name", Some("CANT_BIND")),
            ("bc_reused", Some("1")),
            ("ssl_bc", Some("1")),
            ("bc_glitches", Some("1")),
            ("bc_nb_streams", Some("2")),
            ("bc_settings_streams_limit", Some("100")),
        ]);
    }

    #[test]
    fn the_proxy_header_is_shown() {
        let mut env = TestEnv::new();
        let client = env.client.as_mut().expect("a client");
        client.rcvd_proxy = true;
        client.saved_syn = Some(b"\x45\x00".as_slice().into());
        (client.glitches, client.streams, client.streams_max) = (4, 5, 6);
        let tlvs = [
            (2, "example.com"),
            (5, "id-1"),
            (0xea, "one"),
            (0xea, "two"),
        ];
        client.pp2_tlvs = Some(Box::new(
            tlvs.map(|(t, v)| (t, v.as_bytes().to_vec())).to_vec(),
        ));
        env.check(&[
            ("fc_rcvd_proxy", Some("1")),
            ("fc_pp_authority", Some("example.com")),
            ("fc_pp_unique_id", Some("id-1")),
            ("fc_pp_tlv(AUTHORITY)", Some("example.com")),
            ("fc_pp_tlv(5)", Some("id-1")),
            ("fc_pp_tlv(0xEA)", Some("one")),
            ("fc_pp_tlv(0x30)", None),
            ("fc_saved_syn", Some("\x45\0")),
            ("fc_glitches", Some("4")),
            ("fc_nb_streams", Some("5")),
            ("fc_settings_streams_limit", Some("6")),
        ]);
        assert_eq!(env.all("fc_pp_tlv(0xea)"), ["one", "two"]);
        assert!(compile("fc_pp_tlv(256)", Place::empty()).is_err());
        assert!(compile("fc_pp_tlv(HOST)", Place::empty()).is_err());
    }
}
