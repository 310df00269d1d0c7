//! The PROXY protocol, versions 1 and 2, received (`accept-proxy`) and sent (`send-proxy*`).
//!
//! Source: HAProxy's proxy-protocol.txt. Headers are read with MSG_PEEK-free logic: they come first on the connection,
//! so what follows them stays in the client's input.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::rc::Rc;

use sluice_config::model::SendProxy;
use sluice_expr::env::Addr;

use super::timer::after_ms;
use super::transport::Fail;
use crate::session::{Client, Listener, SessionData};
use crate::stream::Stream;
use crate::worker::Worker;

/// Longest version 1 line, with its end (proxy-protocol.txt section 2.1).
const V1_MAX: usize = 107;
const V2_SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
const V2_HEAD: usize = 16;

/// What a header said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// `None`: LOCAL or UNKNOWN, the connection's own addresses hold.
    pub addrs: Option<(Addr, Addr)>,
    pub tlvs: Vec<(u8, Vec<u8>)>,
    /// Bytes it took.
    pub len: usize,
}

/// Why a header was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    #[error("not a PROXY protocol header")]
    NotOne,
    #[error("malformed PROXY protocol header")]
    Malformed,
    #[error("unknown protocol in a PROXY protocol header")]
    Protocol,
}

/// Reads a header from the start of `input`; `None`: more bytes are needed.
pub fn parse(input: &[u8]) -> Result<Option<Header>, Invalid> {
    let common = input.len().min(V2_SIGNATURE.len());
    if input[..common] == V2_SIGNATURE[..common] {
        return if common < V2_SIGNATURE.len() {
            Ok(None)
        } else {
            parse_v2(input)
        };
    }
    parse_v1(input)
}

fn parse_v1(input: &[u8]) -> Result<Option<Header>, Invalid> {
    const PREFIX: &[u8] = b"PROXY ";
    let common = input.len().min(PREFIX.len());
    if input[..common] != PREFIX[..common] {
        return Err(Invalid::NotOne);
    }
    let Some(end) = memchr::memchr(b'\n', &input[..input.len().min(V1_MAX)]) else {
        return if input.len() >= V1_MAX {
            Err(Invalid::Malformed)
        } else {
            Ok(None)
        };
    };
    let line = input[..end].strip_suffix(b"\r").ok_or(Invalid::Malformed)?;
    let line = std::str::from_utf8(line).map_err(|_| Invalid::Malformed)?;
    let mut words = line.split(' ').skip(1);
    let addrs = match words.next() {
        Some("UNKNOWN") => None,
        Some(family @ ("TCP4" | "TCP6")) => {
            let mut next = || words.next().ok_or(Invalid::Malformed);
            let (src, dst, sport, dport) = (next()?, next()?, next()?, next()?);
            let ip = |text: &str| {
                text.parse::<IpAddr>()
                    .ok()
                    .filter(|ip| ip.is_ipv4() == (family == "TCP4"))
            };
            let addr = |ip_text, port: &str| {
                let port: u16 = port.parse().ok()?;
                Some(Addr::Ip(SocketAddr::new(ip(ip_text)?, port)))
            };
            Some((
                addr(src, sport).ok_or(Invalid::Malformed)?,
                addr(dst, dport).ok_or(Invalid::Malformed)?,
            ))
        }
        _ => return Err(Invalid::Protocol),
    };
    Ok(Some(Header {
        addrs,
        tlvs: Vec::new(),
        len: end + 1,
    }))
}

fn parse_v2(input: &[u8]) -> Result<Option<Header>, Invalid> {
    if input.len() < V2_HEAD {
        return Ok(None);
    }
    let (version, command) = (input[12] >> 4, input[12] & 0x0f);
    if version != 2 || command > 1 {
        return Err(Invalid::Malformed);
    }
    let len = V2_HEAD + usize::from(u16::from_be_bytes([input[14], input[15]]));
    let Some(body) = input.get(V2_HEAD..len) else {
        return Ok(None);
    };
    let port = |at: usize| u16::from_be_bytes([body[at], body[at + 1]]);
    let (addrs, used) = match (command, input[13]) {
        (1, 0x11) if body.len() >= 12 => {
            let ip = |at: usize| Ipv4Addr::new(body[at], body[at + 1], body[at + 2], body[at + 3]);
            (Some((v4(ip(0), port(8)), v4(ip(4), port(10)))), 12)
        }
        (1, 0x21) if body.len() >= 36 => {
            let ip = |at: usize| {
                <[u8; 16]>::try_from(&body[at..at + 16])
                    .map(Ipv6Addr::from)
                    .unwrap_or(Ipv6Addr::UNSPECIFIED)
            };
            (Some((v6(ip(0), port(32)), v6(ip(16), port(34)))), 36)
        }
        (1, 0x11 | 0x21) => return Err(Invalid::Malformed),
        (1, 0x31) if body.len() >= 216 => (None, 216),
        // LOCAL, or a family we need not know: the addresses are skipped
        _ => (None, body.len()),
    };
    Ok(Some(Header {
        addrs,
        tlvs: tlvs(&body[used..])?,
        len,
    }))
}

fn v4(ip: Ipv4Addr, port: u16) -> Addr {
    Addr::Ip(SocketAddr::new(ip.into(), port))
}

fn v6(ip: Ipv6Addr, port: u16) -> Addr {
    Addr::Ip(SocketAddr::new(ip.into(), port))
}

fn tlvs(mut rest: &[u8]) -> Result<Vec<(u8, Vec<u8>)>, Invalid> {
    let mut out = Vec::new();
    while let [kind, high, low, tail @ ..] = rest {
        let len = usize::from(u16::from_be_bytes([*high, *low]));
        let value = tail.get(..len).ok_or(Invalid::Malformed)?;
        out.push((*kind, value.to_vec()));
        rest = &tail[len..];
    }
    if rest.is_empty() {
        Ok(out)
    } else {
        Err(Invalid::Malformed)
    }
}

/// The numbers of `fc_err` for a header that did not come.
pub mod fault {
    pub const EMPTY: u16 = 11;
    pub const ABORT: u16 = 12;
    pub const TIMEOUT: u16 = 13;
    pub const TRUNCATED: u16 = 14;
    pub const NOT_ONE: u16 = 15;
    pub const MALFORMED: u16 = 16;
    pub const PROTOCOL: u16 = 17;
    /// The same of a NetScaler header are so much higher.
    pub const NETSCALER: u16 = 7;
}

/// Waits for the header of a client and takes its addresses over. `magic`: it is a NetScaler header with that number.
/// False: the connection ends.
pub async fn receive(
    w: &Rc<Worker>,
    l: &Listener,
    client: &mut Client,
    sess: &mut SessionData,
    magic: Option<u32>,
) -> bool {
    let t = &l.proxy.timeouts;
    let deadline = after_ms(t.client_hs_ms.or(t.client_ms));
    let mut buf = client.input.take().unwrap_or_else(|| w.bufs.lend());
    let error = loop {
        let parsed = match magic {
            None => parse(buf.data()),
            Some(magic) => super::netscaler::parse(buf.data(), magic).map(|found| {
                found.map(|(src, dst, len)| Header {
                    addrs: Some((Addr::Ip(src), Addr::Ip(dst))),
                    tlvs: Vec::new(),
                    len,
                })
            }),
        };
        match parsed {
            Ok(Some(header)) => {
                buf.consume(header.len);
                if let Some((src, dst)) = header.addrs {
                    sess.client.src = src;
                    sess.client.dst = dst;
                }
                if !header.tlvs.is_empty() {
                    sess.client.pp2_tlvs = Some(Box::new(header.tlvs));
                }
                sess.client.rcvd_proxy = true;
                client.input = Some(buf).filter(|b| !b.is_empty());
                return true;
            }
            Ok(None) => {}
            // too little to be a header of either version
            Err(Invalid::NotOne) if buf.len() < V2_HEAD && magic.is_none() => {
                break fault::TRUNCATED;
            }
            Err(Invalid::NotOne) => break fault::NOT_ONE,
            Err(Invalid::Malformed) => break fault::MALFORMED,
            Err(Invalid::Protocol) => break fault::PROTOCOL,
        }
        match client.io.read(&w.bufs, &mut client.timer, deadline).await {
            Ok(Some(more)) if buf.extend(more.data()) == more.len() => {}
            Ok(Some(_)) => break fault::MALFORMED,
            Ok(None) if buf.is_empty() => break fault::EMPTY,
            Ok(None) => break fault::TRUNCATED,
            Err(Fail::Timeout) => break fault::TIMEOUT,
            Err(Fail::Io(_)) => break fault::ABORT,
        }
    };
    sess.client.err = match (magic, error) {
        (None, error) => error,
        // NetScaler headers have one number less
        (Some(_), fault::PROTOCOL) => fault::MALFORMED + fault::NETSCALER,
        (Some(_), error) => error + fault::NETSCALER,
    };
    l.state.fe.failed_req.inc();
    l.listener.counters.failed_req.inc();
    client.io.reset_on_close();
    false
}

/// The header to send ahead of a stream's connection.
pub fn header(s: &Stream, how: &SendProxy) -> Vec<u8> {
    let (src, dst) = (&s.sess.client.src, &s.sess.client.dst);
    if how.v2 {
        header_v2(s, how, src, dst)
    } else {
        header_v1(src, dst)
    }
}

fn header_v1(src: &Addr, dst: &Addr) -> Vec<u8> {
    match (src, dst) {
        (Addr::Ip(s), Addr::Ip(d)) => {
            let (s, d) = same_family(*s, *d);
            let family = if s.is_ipv4() { "TCP4" } else { "TCP6" };
            format!(
                "PROXY {family} {} {} {} {}\r\n",
                s.ip(),
                d.ip(),
                s.port(),
                d.port()
            )
            .into_bytes()
        }
        _ => b"PROXY UNKNOWN\r\n".to_vec(),
    }
}

fn header_v2(s: &Stream, how: &SendProxy, src: &Addr, dst: &Addr) -> Vec<u8> {
    let mut body = Vec::new();
    let family = match (src, dst) {
        (Addr::Ip(s), Addr::Ip(d)) => {
            let (s, d) = same_family(*s, *d);
            for ip in [s.ip(), d.ip()] {
                match ip {
                    IpAddr::V4(a) => body.extend_from_slice(&a.octets()),
                    IpAddr::V6(a) => body.extend_from_slice(&a.octets()),
                }
            }
            body.extend_from_slice(&s.port().to_be_bytes());
            body.extend_from_slice(&d.port().to_be_bytes());
            if s.is_ipv4() { 0x11 } else { 0x21 }
        }
        _ => 0x00,
    };
    let mut tlv = |kind: u8, value: &[u8]| {
        body.push(kind);
        body.extend_from_slice(&(value.len().min(u16::MAX.into()) as u16).to_be_bytes());
        body.extend_from_slice(value);
    };
    const TYPE_AUTHORITY: u8 = 0x02;
    const TYPE_CRC32C: u8 = 0x03;
    const TYPE_UNIQUE_ID: u8 = 0x05;
    if how.authority
        && let Some(host) = s.req.host().filter(|_| s.has_req)
    {
        tlv(TYPE_AUTHORITY, host);
    }
    if let Some(id) = how
        .unique_id
        .then(|| sluice_expr::env::Env::unique_id(s))
        .flatten()
    {
        tlv(TYPE_UNIQUE_ID, id);
    }
    for (kind, format) in &how.tlvs {
        tlv(*kind, &s.render(format));
    }
    if how.crc32c {
        tlv(TYPE_CRC32C, &[0; 4]);
    }
    let mut out = V2_SIGNATURE.to_vec();
    out.push(0x21);
    out.push(family);
    out.extend_from_slice(&(body.len() as u16).to_be_bytes());
    out.extend_from_slice(&body);
    if how.crc32c {
        // the checksum covers the whole header with its own field zero; it is the last field
        let crc = crc32c(&out);
        let at = out.len() - 4;
        out[at..].copy_from_slice(&crc.to_be_bytes());
    }
    out
}

/// Both as IPv6 when the families differ.
fn same_family(a: SocketAddr, b: SocketAddr) -> (SocketAddr, SocketAddr) {
    if a.is_ipv4() == b.is_ipv4() {
        return (a, b);
    }
    let up = |x: SocketAddr| match x.ip() {
        IpAddr::V4(v) => SocketAddr::new(v.to_ipv6_mapped().into(), x.port()),
        IpAddr::V6(_) => x,
    };
    (up(a), up(b))
}

/// CRC-32C (Castagnoli), bit by bit: a few dozen bytes a connection, and only when asked for.
fn crc32c(data: &[u8]) -> u32 {
    !data.iter().fold(!0u32, |crc, &b| {
        (0..8).fold(crc ^ u32::from(b), |c, _| {
            if c & 1 == 1 {
                (c >> 1) ^ 0x82f6_3b78
            } else {
                c >> 1
            }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addr(s: &str) -> Addr {
        Addr::Ip(s.parse().unwrap())
    }

    #[test]
    fn version_1_lines() {
        let h = parse(b"PROXY TCP4 192.0.2.1 198.51.100.2 1234 80\r\nGET")
            .unwrap()
            .unwrap();
        assert_eq!(
            h.addrs,
            Some((addr("192.0.2.1:1234"), addr("198.51.100.2:80")))
        );
        assert_eq!(h.len, 43);
        assert_eq!(
            parse(b"PROXY UNKNOWN whatever\r\n").unwrap().unwrap().addrs,
            None
        );
        assert_eq!(parse(b"PROXY TCP4 192.0.2.1"), Ok(None));
        assert_eq!(parse(b"GET / HTTP/1.1\r\n"), Err(Invalid::NotOne));
        assert_eq!(
            parse(b"PROXY TCP4 ::1 ::2 1 2\r\n"),
            Err(Invalid::Malformed)
        );
        assert_eq!(
            parse(&[b"PROXY TCP4 ".as_slice(), &[b'1'; 200]].concat()),
            Err(Invalid::Malformed)
        );
    }

    #[test]
    fn version_2_headers_round_trip_at_any_cut() {
        let mut h = V2_SIGNATURE.to_vec();
        h.extend_from_slice(&[
            0x21,
            0x11,
            0,
            12 + 5,
            192,
            0,
            2,
            1,
            198,
            51,
            100,
            2,
            4,
            210,
            0,
            80,
            0x02,
            0,
            2,
            b'h',
            b'i',
        ]);
        for cut in 0..h.len() {
            assert_eq!(parse(&h[..cut]), Ok(None), "cut at {cut}");
        }
        let got = parse(&h).unwrap().unwrap();
        assert_eq!(
            got.addrs,
            Some((addr("192.0.2.1:1234"), addr("198.51.100.2:80")))
        );
        assert_eq!(got.tlvs, vec![(2, b"hi".to_vec())]);
    }

    #[test]
    fn castagnoli_check_value() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }
}
