//! Headers of Ethernet, IP and TCP in a packet kept as bytes (`fc_saved_syn` gives a connection's SYN), and a fingerprint
//! of what they say about the sender.

use std::borrow::Cow;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::Range;

use crate::args::Arg;
use crate::conv::BadArg;
use crate::conv::operand::{int_arg, on_bytes, slice_cow};
use crate::env::Env;
use crate::value::{Fetched, Sample, Value};

converters! {
    "eth.data" () Bin -> Bin, |_, s, _| part(s, |b| Some(ethernet(b)?.header.end..b.len()))
        => "What follows the header and VLAN tags of an Ethernet frame.";
    "eth.hdr" () Bin -> Bin, |_, s, _| part(s, |b| Some(ethernet(b)?.header)) => "The header of an Ethernet frame with its VLAN tags.";
    "eth.dst" () Bin -> Bin, |_, s, _| part(s, |b| ethernet(b).map(|_| 0..6)) => "The destination address of an Ethernet frame.";
    "eth.src" () Bin -> Bin, |_, s, _| part(s, |b| ethernet(b).map(|_| 6..12)) => "The source address of an Ethernet frame.";
    "eth.proto" () Bin -> Sint, |_, s, _| number(s, |b| Some(ethernet(b)?.proto.into()))
        => "The protocol in an Ethernet frame after its VLAN tags: 0x800 is IPv4, 0x86DD is IPv6.";
    "eth.vlan" () Bin -> Sint, |_, s, _| number(s, |b| ethernet(b)?.vlan.map(i64::from))
        => "The last VLAN number of an Ethernet frame; nothing when it has none.";
    "ip.data" () Bin -> Bin, |_, s, _| part(s, |b| Some(ip(b)?.header..b.len()))
        => "What follows the header of an IP packet with its options or extensions.";
    "ip.hdr" () Bin -> Bin, |_, s, _| part(s, |b| Some(0..ip(b)?.header)) => "The header of an IP packet with its options or extensions.";
    "ip.src" () Bin -> Addr, |_, s, _| on_bytes(s, |b| ip(&b)?.address(&b, 0)) => "The source address of an IP packet.";
    "ip.dst" () Bin -> Addr, |_, s, _| on_bytes(s, |b| ip(&b)?.address(&b, 1)) => "The destination address of an IP packet.";
    "ip.df" () Bin -> Sint, |_, s, _| number(s, |b| Some(ip(b)?.df.into())) => "Whether an IP packet must not be fragmented: always 1 for IPv6.";
    "ip.proto" () Bin -> Sint, |_, s, _| number(s, |b| Some(ip(b)?.proto.into())) => "The protocol in an IP packet: 6 is TCP.";
    "ip.tos" () Bin -> Sint, |_, s, _| number(s, |b| Some(ip(b)?.tos.into())) => "The type of service or traffic class of an IP packet.";
    "ip.ttl" () Bin -> Sint, |_, s, _| number(s, |b| Some(ip(b)?.ttl.into())) => "The time to live or hop limit of an IP packet.";
    "ip.ver" () Bin -> Sint, |_, s, _| number(s, |b| Some(ip(b)?.version.into())) => "The version of an IP packet, 4 or 6.";
    "ip.fp" (; Sint) Bin -> Bin, fingerprint, prepare |args, _| check_mode(args)
        => "A fingerprint of 7 bytes of an IP packet with TCP; the argument adds the TTL (1), the list of TCP options (2) and the \
            source address (4).";
    "tcp.src" () Bin -> Sint, |_, s, _| number(s, |b| Some(tcp(b)?.u16(0))) => "The source port of a TCP segment.";
    "tcp.dst" () Bin -> Sint, |_, s, _| number(s, |b| Some(tcp(b)?.u16(2))) => "The destination port of a TCP segment.";
    "tcp.seq" () Bin -> Sint, |_, s, _| number(s, |b| Some(tcp(b)?.u16(4) << 16 | tcp(b)?.u16(6))) => "The sequence number of a TCP segment.";
    "tcp.flags" () Bin -> Sint, |_, s, _| number(s, |b| Some(tcp(b)?.flags().into())) => "The flags of a TCP segment: 2 is SYN, 16 is ACK.";
    "tcp.win" () Bin -> Sint, |_, s, _| number(s, |b| Some(tcp(b)?.u16(14))) => "The window of a TCP segment, unscaled.";
    "tcp.options.mss" () Bin -> Sint, |_, s, _| number(s, |b| Some(tcp(b)?.option_number(MSS, 2)))
        => "The maximum segment size a TCP segment announces, 0 when it does not.";
    "tcp.options.sack" () Bin -> Sint, |_, s, _| number(s, |b| Some(tcp(b)?.option(SACK_PERMITTED).is_some().into()))
        => "Whether a TCP segment permits selective acknowledgments.";
    "tcp.options.tsopt" () Bin -> Sint, |_, s, _| number(s, |b| Some(tcp(b)?.option(TIMESTAMPS).is_some().into()))
        => "Whether a TCP segment has the timestamps option.";
    "tcp.options.tsval" () Bin -> Sint, |_, s, _| number(s, |b| Some(tcp(b)?.option_number(TIMESTAMPS, 4)))
        => "The sender's timestamp in a TCP segment, 0 when there is none.";
    "tcp.options.wsopt" () Bin -> Sint, |_, s, _| number(s, |b| Some(tcp(b)?.option(WINDOW_SCALE).is_some().into()))
        => "Whether a TCP segment has the window scale option.";
    "tcp.options.wscale" () Bin -> Sint, |_, s, _| number(s, |b| Some(tcp(b)?.option_number(WINDOW_SCALE, 1)))
        => "The window scale of a TCP segment, 0 when there is none.";
    "tcp.options_list" () Bin -> Bin, |_, s, _| on_bytes(s, |b| {
            Some(Value::Bin(Cow::Owned(tcp(&b)?.options().map(|(kind, _)| kind).collect())))
        }) => "The kinds of the options of a TCP segment in their order, a byte each.";
}

const MSS: u8 = 2;
const WINDOW_SCALE: u8 = 3;
const SACK_PERMITTED: u8 = 4;
const TIMESTAMPS: u8 = 8;

fn part<'a>(sample: Sample<'a>, range: fn(&[u8]) -> Option<Range<usize>>) -> Fetched<'a> {
    on_bytes(sample, |b| {
        let range = range(&b)?;
        Some(Value::Bin(slice_cow(b, range)))
    })
}

fn number<'a>(sample: Sample<'a>, read: fn(&[u8]) -> Option<i64>) -> Fetched<'a> {
    on_bytes(sample, |b| read(&b).map(Value::Sint))
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]))
}

struct Ethernet {
    header: Range<usize>,
    proto: u16,
    vlan: Option<u16>,
}

/// IEEE 802.3 with any number of 802.1Q and 802.1ad tags.
fn ethernet(frame: &[u8]) -> Option<Ethernet> {
    let mut at = 12;
    let mut vlan = None;
    loop {
        let proto = u16_at(frame, at)?;
        at += 2;
        if !matches!(proto, 0x8100 | 0x88a8) {
            return Some(Ethernet {
                header: 0..at,
                proto,
                vlan,
            });
        }
        vlan = Some(u16_at(frame, at)? & 0x0fff);
        at += 2;
    }
}

struct Ip {
    version: u8,
    /// Length of the header with options or extensions.
    header: usize,
    proto: u8,
    tos: u8,
    ttl: u8,
    df: bool,
    has_options: bool,
}

fn ip(packet: &[u8]) -> Option<Ip> {
    match packet.first()? >> 4 {
        4 => {
            let header = usize::from(packet[0] & 15) * 4;
            (header >= 20 && packet.len() >= header).then(|| Ip {
                version: 4,
                header,
                proto: packet[9],
                tos: packet[1],
                ttl: packet[8],
                df: packet[6] & 0x40 != 0,
                has_options: header > 20,
            })
        }
        6 => {
            const HEADER: usize = 40;
            let mut header = HEADER;
            let mut proto = *packet.get(6)?;
            // Hop-by-hop, routing, fragment, authentication, destination (RFC 8200 section 4, RFC 4302).
            while let 0 | 43 | 44 | 51 | 60 = proto {
                let words = usize::from(*packet.get(header + 1)?);
                let len = match proto {
                    44 => 8,
                    51 => (words + 2) * 4,
                    _ => (words + 1) * 8,
                };
                proto = *packet.get(header)?;
                header += len;
            }
            (packet.len() >= header).then(|| Ip {
                version: 6,
                header,
                proto,
                tos: packet[0] << 4 | packet[1] >> 4,
                ttl: packet[7],
                df: true,
                has_options: header > HEADER,
            })
        }
        _ => None,
    }
}

impl Ip {
    /// The bytes of the source (0) or destination (1).
    fn address_bytes<'p>(&self, packet: &'p [u8], which: usize) -> Option<&'p [u8]> {
        match self.version {
            4 => packet.get(12 + 4 * which..16 + 4 * which),
            _ => packet.get(8 + 16 * which..24 + 16 * which),
        }
    }

    fn address(&self, packet: &[u8], which: usize) -> Option<Value<'static>> {
        let bytes = self.address_bytes(packet, which)?;
        if let Ok(v4) = <[u8; 4]>::try_from(bytes) {
            return Some(Value::Ipv4(Ipv4Addr::from(v4)));
        }
        let v6 = <[u8; 16]>::try_from(bytes).ok()?;
        Some(Value::Ipv6(Ipv6Addr::from(v6)))
    }
}

/// A TCP segment whose header is complete.
struct Tcp<'p> {
    segment: &'p [u8],
    header: usize,
}

fn tcp(segment: &[u8]) -> Option<Tcp<'_>> {
    let header = usize::from(segment.get(12)? >> 4) * 4;
    (header >= 20 && segment.len() >= header).then_some(Tcp { segment, header })
}

impl<'p> Tcp<'p> {
    fn u16(&self, at: usize) -> i64 {
        u16_at(self.segment, at).unwrap_or(0).into()
    }

    fn flags(&self) -> u8 {
        self.segment[13]
    }

    /// Kind and content of each option up to the end of the list.
    fn options(&self) -> impl Iterator<Item = (u8, &'p [u8])> {
        let mut rest = &self.segment[20..self.header];
        std::iter::from_fn(move || match rest {
            [] | [0, ..] => None,
            [1, tail @ ..] => {
                rest = tail;
                Some((1, &[][..]))
            }
            [kind, len, ..] => {
                let content = rest.get(2..usize::from(*len))?;
                rest = &rest[usize::from(*len)..];
                Some((*kind, content))
            }
            [_] => None,
        })
    }

    fn option(&self, kind: u8) -> Option<&'p [u8]> {
        self.options()
            .find(|(k, _)| *k == kind)
            .map(|(_, content)| content)
    }

    /// The first bytes of an option as a number, 0 without it.
    fn option_number(&self, kind: u8, len: usize) -> i64 {
        let content = self
            .option(kind)
            .and_then(|c| c.get(..len))
            .unwrap_or_default();
        content.iter().fold(0, |n, b| n << 8 | i64::from(*b))
    }
}

const WITH_TTL: i64 = 1;
const WITH_OPTIONS: i64 = 2;
const WITH_SOURCE: i64 = 4;

fn check_mode(args: &[Arg]) -> Result<(), BadArg> {
    match int_arg(args, 0) {
        None | Some(0..=7) => Ok(()),
        Some(mode) => Err(BadArg::new(
            0,
            format!("the mode is a sum of 1, 2 and 4, not {mode}"),
        )),
    }
}

/// Byte 0: TOS. Byte 1: from the top IPv6, do not fragment, two bits of TTL range (32, 64, 128, 255), IP options, TCP data,
/// CWR, ECE. Byte 2: TCP header length in words, then window scale plus one. Then window and MSS, two bytes each.
fn fingerprint<'a>(args: &'a [Arg], sample: Sample<'a>, _: &'a dyn Env) -> Fetched<'a> {
    let mode = int_arg(args, 0).unwrap_or(0);
    on_bytes(sample, |packet| {
        let ip = ip(&packet)?;
        let tcp = tcp(packet.get(ip.header..).filter(|_| ip.proto == 6)?)?;
        let range = match ip.ttl {
            0..=32 => 0,
            33..=64 => 1,
            65..=128 => 2,
            _ => 3,
        };
        let scale = tcp
            .option(WINDOW_SCALE)
            .and_then(|o| o.first())
            .map_or(0, |s| (*s).min(14) + 1);
        let flags = u8::from(ip.version == 6) << 7
            | u8::from(ip.df) << 6
            | range << 4
            | u8::from(ip.has_options) << 3
            | u8::from(tcp.segment.len() > tcp.header) << 2
            | tcp.flags() >> 6;
        let mut out = Vec::with_capacity(64);
        out.extend([ip.tos, flags, (tcp.header / 4) as u8 & 15]);
        if let Some(last) = out.last_mut() {
            *last = *last << 4 | scale;
        }
        out.extend_from_slice(&(tcp.u16(14) as u16).to_be_bytes());
        out.extend_from_slice(&(tcp.option_number(MSS, 2) as u16).to_be_bytes());
        if mode & WITH_TTL != 0 {
            out.push(ip.ttl);
        }
        if mode & WITH_OPTIONS != 0 {
            out.extend(tcp.options().map(|(kind, _)| kind));
        }
        if mode & WITH_SOURCE != 0 {
            out.extend_from_slice(ip.address_bytes(&packet, 0)?);
        }
        Some(Value::Bin(Cow::Owned(out)))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::conv::testing::{World, check_new, check_refused};

    /// A SYN as Linux sends it: MSS 1460, SACK permitted, timestamps, NOP, window scale 7.
    const TCP: &str =
        "9c40005012345678000000 00a002faf0abcd0000020405b40402080a0001e2400000000001030307";
    const IPV4: &str = "4510003c1234400040060000c0000201c6336402";
    const IPV6: &str =
        "6120000000280640 20010db8000000000000000000000001 20010db8000000000000000000000002";
    const ETH: &str = "0200000000010200000000028100 0064 0800";

    fn run(hex: &[&str], chain: &str) -> Option<String> {
        let hex = hex.concat().replace(' ', "");
        let out = World::new(b"")
            .run(&format!("bin({hex}),{chain}"))
            .unwrap()?;
        Some(match String::from_utf8(out) {
            Ok(text) => text,
            Err(e) => panic!("{chain}: {:?}", e.into_bytes()),
        })
    }

    fn check(hex: &[&str], cases: &[(&str, &str)]) {
        for (chain, expect) in cases {
            assert_eq!(run(hex, chain).as_deref(), Some(*expect), "{chain}");
        }
    }

    #[test]
    fn ethernet() {
        check(
            &[ETH, IPV4, TCP],
            &[
                ("eth.dst,hex", "020000000001"),
                ("eth.src,hex", "020000000002"),
                ("eth.proto", "2048"),
                ("eth.vlan", "100"),
                ("eth.hdr,hex", "020000000001020000000002810000640800"),
                ("eth.data,ip.ver", "4"),
                ("eth.data,ip.data,tcp.dst", "80"),
            ],
        );
        assert_eq!(run(&["0200000000010200000000020800"], "eth.vlan"), None);
        assert_eq!(run(&["02000000000102000000000208"], "eth.src"), None);
    }

    #[test]
    fn ip() {
        check(
            &[IPV4, TCP],
            &[
                ("ip.src", "192.0.2.1"),
                ("ip.dst", "198.51.100.2"),
                ("ip.df", "1"),
                ("ip.proto", "6"),
                ("ip.tos", "16"),
                ("ip.ttl", "64"),
                ("ip.ver", "4"),
                ("ip.hdr,hex,length", "40"),
            ],
        );
        check(
            &[IPV6, TCP],
            &[
                ("ip.src", "2001:db8::1"),
                ("ip.dst", "2001:db8::2"),
                ("ip.df", "1"),
                ("ip.proto", "6"),
                ("ip.tos", "18"),
                ("ip.ttl", "64"),
                ("ip.ver", "6"),
                ("ip.data,tcp.src", "40000"),
            ],
        );
        // A hop-by-hop header of 8 bytes before the TCP.
        let with_extension = IPV6.replacen("00280640", "00300040", 1);
        check(
            &[&with_extension, "0600000000000000", TCP],
            &[("ip.proto", "6"), ("ip.data,tcp.dst", "80")],
        );
        for short in ["45", "4510003c12344000400600", "65", "75000000"] {
            assert_eq!(run(&[short], "ip.ttl"), None);
        }
    }

    #[test]
    fn tcp() {
        check(
            &[TCP],
            &[
                ("tcp.src", "40000"),
                ("tcp.dst", "80"),
                ("tcp.seq", "305419896"),
                ("tcp.flags", "2"),
                ("tcp.win", "64240"),
                ("tcp.options.mss", "1460"),
                ("tcp.options.sack", "1"),
                ("tcp.options.tsopt", "1"),
                ("tcp.options.tsval", "123456"),
                ("tcp.options.wsopt", "1"),
                ("tcp.options.wscale", "7"),
                ("tcp.options_list,hex", "0204080103"),
            ],
        );
        let plain = "9c400050123456780000000050020100abcd0000";
        check(
            &[plain],
            &[
                ("tcp.options.mss", "0"),
                ("tcp.options.sack", "0"),
                ("tcp.options.wsopt", "0"),
                ("tcp.options_list,hex", ""),
            ],
        );
        assert_eq!(run(&[&plain[..38]], "tcp.win"), None);
    }

    #[test]
    fn fingerprints() {
        check(
            &[IPV4, TCP],
            &[
                ("ip.fp,hex", "1050A8FAF005B4"),
                ("ip.fp(1),hex", "1050A8FAF005B440"),
                ("ip.fp(2),hex", "1050A8FAF005B40204080103"),
                ("ip.fp(7),hex", "1050A8FAF005B4400204080103C0000201"),
            ],
        );
        check(&[IPV6, TCP], &[("ip.fp,hex", "12D0A8FAF005B4")]);
        check_refused(&[("str(a),ip.fp(8)", "mode")]);
        check_new(&[("str(a),ip.fp", None)]);
    }

    proptest! {
        #[test]
        fn any_bytes_may_be_read(version in prop::sample::select(vec![0x45u8, 0x4f, 0x60]), rest in prop::collection::vec(any::<u8>(), 0..120)) {
            let bytes: Vec<u8> = [version].into_iter().chain(rest).collect();
            let world = World::new(&bytes);
            for chain in ["ip.data,tcp.options_list", "ip.fp(7)", "ip.src", "eth.data,ip.hdr", "tcp.options.mss", "eth.vlan"] {
                let _ = world.run(&format!("hdr,{chain}")).unwrap();
            }
        }
    }
}
