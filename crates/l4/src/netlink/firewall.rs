//! The firewall of addresses that accept nothing (`no_accept`, strict mode): one nftables table that is replaced whole, in one
//! transaction, whenever the addresses change. nf_tables is spoken to by netlink; no program is run.
//!
//! As keepalived 2.2.7's: packets to such an address are dropped before the host's input, packets from it before its output;
//! neighbour discovery goes on. A link-local address counts on its own interface only. What XDP forwards never comes here.
//!
//! The table outlives a killed process, as the addresses do, and goes at the next start.

use super::*;
use crate::config::model::Firewall;
use std::collections::BTreeSet;

const SUBSYSTEM: u16 = 10 << 8;
const BATCH_BEGIN: u16 = 0x10;
const BATCH_END: u16 = 0x11;
const NEW_TABLE: u16 = SUBSYSTEM;
const DELETE_TABLE: u16 = SUBSYSTEM | 2;
const NEW_CHAIN: u16 = SUBSYSTEM | 3;
const NEW_RULE: u16 = SUBSYSTEM | 6;
const NEW_SET: u16 = SUBSYSTEM | 9;
const NEW_ELEMENTS: u16 = SUBSYSTEM | 12;
const APPEND: u16 = 0x800;
const NESTED: u16 = 0x8000;
const HOOK_INPUT: u32 = 1;
const HOOK_OUTPUT: u32 = 3;
/// `nft -a list` shows it as a register of 16 bytes; 0 is the verdict's.
const REGISTER: u32 = 1;
const ACCEPT: u32 = 1;
const DROP: u32 = 0;
const NEIGHBOUR_SOLICITATION: u8 = 135;
const NEIGHBOUR_ADVERTISEMENT: u8 = 136;
/// Elements of one message: an attribute's length has 16 bits.
const ELEMENTS_MAX: usize = 1000;

/// An address that accepts nothing, and the interface it is on.
pub type Closed = (IpAddr, String);

/// Lets the table be for exactly these addresses; without any there is no table.
pub fn replace(options: &Firewall, closed: &BTreeSet<Closed>) -> io::Result<()> {
    for v6 in [false, true] {
        let of_family: Vec<&Closed> = closed.iter().filter(|c| c.0.is_ipv6() == v6).collect();
        let sent = send_batch(&batch(options, v6, &of_family));
        // A kernel without nf_tables has no table to remove.
        if !of_family.is_empty() {
            sent?;
        }
    }
    Ok(())
}

fn send_batch(bytes: &[u8]) -> io::Result<()> {
    // A socket of its own each time: nothing of an earlier batch can be in it.
    let socket = socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        Some(rustix::net::netlink::NETFILTER),
    )?;
    bind(&socket, &SocketAddrNetlink::new(0, 0))?;
    rustix::net::sockopt::set_socket_timeout(
        &socket,
        rustix::net::sockopt::Timeout::Recv,
        Some(std::time::Duration::from_secs(5)),
    )?;
    rustix::net::sockopt::set_socket_send_buffer_size(&socket, 1 << 20)?;
    send(&socket, bytes, SendFlags::empty())?;
    let mut buffer = [0; 8192];
    let (length, _) = recv(&socket, &mut buffer[..], RecvFlags::empty())?;
    // The first that is told is either the first mistake or the last message's success.
    let datagram = buffer.get(..length).unwrap_or_default();
    match messages(datagram).next() {
        Some((NLMSG_ERROR, body)) if number32(body, 0) == 0 => Ok(()),
        Some((NLMSG_ERROR, body)) => Err(io::Error::from_raw_os_error(-(number32(body, 0) as i32))),
        _ => Err(io::Error::other("no answer")),
    }
}

/// A number as nf_tables takes it.
fn be(value: u32) -> [u8; 4] {
    value.to_be_bytes()
}

fn name(text: &str) -> Vec<u8> {
    [text.as_bytes(), &[0]].concat()
}

fn nested(kind: u16, inner: Message) -> Message {
    Message::default().attribute(kind | NESTED, &inner.0)
}

/// Messages of one transaction.
struct Batch {
    bytes: Vec<u8>,
    family: u8,
}

impl Batch {
    fn push(&mut self, kind: u16, flags: u16, family: u8, resource: u16, attributes: &Message) {
        let length = (HEADER + 4 + attributes.0.len()) as u32;
        self.bytes.extend(length.to_ne_bytes());
        self.bytes.extend(kind.to_ne_bytes());
        self.bytes.extend((flags | REQUEST).to_ne_bytes());
        self.bytes.extend([0; 8]);
        self.bytes.extend([family, 0]);
        self.bytes.extend(resource.to_be_bytes());
        self.bytes.extend(&attributes.0);
    }
    fn add(&mut self, kind: u16, flags: u16, attributes: &Message) {
        self.push(kind, flags, self.family, 0, attributes);
    }
}

fn batch(options: &Firewall, v6: bool, closed: &[&Closed]) -> Vec<u8> {
    let family = if v6 { libc::AF_INET6 } else { libc::AF_INET } as u8;
    let mut b = Batch {
        bytes: Vec::new(),
        family,
    };
    let table = || Message::default().attribute(1, &name(&options.table));
    b.push(BATCH_BEGIN, 0, 0, SUBSYSTEM >> 8, &Message::default());
    // Made first, so that there is one to remove.
    b.add(NEW_TABLE, CREATE, &table());
    let last = if closed.is_empty() { ACK } else { 0 };
    b.add(DELETE_TABLE, last, &table());
    if !closed.is_empty() {
        b.add(NEW_TABLE, CREATE, &table());
        fill(&mut b, options, v6, closed);
    }
    b.push(BATCH_END, 0, 0, SUBSYSTEM >> 8, &Message::default());
    b.bytes
}

fn fill(b: &mut Batch, options: &Firewall, v6: bool, closed: &[&Closed]) {
    const SET: &str = "vips";
    let table = || Message::default().attribute(1, &name(&options.table));
    let local = |ip: &IpAddr| matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local());
    // nft's own numbers of the types ipv4_addr and ipv6_addr, for who lists the table.
    let (kind, width) = if v6 { (8, 16) } else { (7, 4) };
    let set = table()
        .attribute(2, &name(SET))
        .attribute(3, &be(0))
        .attribute(4, &be(kind))
        .attribute(5, &be(width))
        .attribute(10, &be(1));
    b.add(NEW_SET, CREATE, &set);
    let addresses: BTreeSet<IpAddr> = closed.iter().map(|c| c.0).filter(|ip| !local(ip)).collect();
    let addresses: Vec<IpAddr> = addresses.into_iter().collect();
    for some in addresses.chunks(ELEMENTS_MAX) {
        let list = some.iter().fold(Message::default(), |list, ip| {
            let key = nested(1, Message::default().ip(1, *ip));
            list.attribute(1 | NESTED, &key.0)
        });
        let elements = table()
            .attribute(2, &name(SET))
            .attribute(3 | NESTED, &list.0)
            .attribute(4, &be(1));
        b.add(NEW_ELEMENTS, CREATE, &elements);
    }
    let mut rules: Vec<(&str, Message)> = Vec::new();
    // Offsets of source and destination in their headers.
    let (source, destination) = if v6 { (8, 24) } else { (12, 16) };
    for (chain, offset) in [("out", source), ("in", destination)] {
        if v6 {
            for kind in [NEIGHBOUR_SOLICITATION, NEIGHBOUR_ADVERTISEMENT] {
                rules.push((chain, discovery(kind, options.counters)));
            }
        }
        for (ip, interface) in closed.iter().filter(|c| local(&c.0)) {
            let mut octets = Message::default().ip(1, *ip);
            octets.0.drain(..4);
            let rule = interface_is(chain == "in", interface)
                .and(payload(NETWORK, offset, width))
                .and(equals(&octets.0))
                .verdict(DROP, options.counters);
            rules.push((chain, rule));
        }
        let looked_up = Message::default()
            .attribute(1, &name(SET))
            .attribute(2, &be(REGISTER))
            .attribute(4, &be(1));
        let rule = payload(NETWORK, offset, width)
            .and(expression("lookup", looked_up))
            .verdict(DROP, options.counters);
        rules.push((chain, rule));
    }
    for (chain, hook) in [("out", HOOK_OUTPUT), ("in", HOOK_INPUT)] {
        let hook = Message::default()
            .attribute(1, &be(hook))
            .attribute(2, &options.priority.to_be_bytes());
        let chain = table()
            .attribute(3, &name(chain))
            .attribute(4 | NESTED, &hook.0)
            .attribute(5, &be(ACCEPT))
            .attribute(7, &name("filter"));
        b.add(NEW_CHAIN, CREATE, &chain);
    }
    let count = rules.len();
    for (i, (chain, expressions)) in rules.into_iter().enumerate() {
        let rule = table()
            .attribute(2, &name(chain))
            .attribute(4 | NESTED, &expressions.0);
        let last = if i + 1 == count { ACK } else { 0 };
        b.add(NEW_RULE, CREATE | APPEND | last, &rule);
    }
}

impl Message {
    fn and(mut self, other: Message) -> Message {
        self.0.extend(other.0);
        self
    }
    fn verdict(self, verdict: u32, counted: bool) -> Message {
        let counter = match counted {
            true => expression("counter", Message::default()),
            false => Message::default(),
        };
        let verdict = nested(2, nested(2, Message::default().attribute(1, &be(verdict))));
        let immediate = Message::default().attribute(1, &be(0)).and(verdict);
        self.and(counter).and(expression("immediate", immediate))
    }
}

fn expression(kind: &str, data: Message) -> Message {
    let inner = Message::default()
        .attribute(1, &name(kind))
        .attribute(2 | NESTED, &data.0);
    nested(1, inner)
}

const NETWORK: u32 = 1;
const TRANSPORT: u32 = 2;

fn payload(base: u32, offset: u32, length: u32) -> Message {
    let data = Message::default()
        .attribute(1, &be(REGISTER))
        .attribute(2, &be(base))
        .attribute(3, &be(offset))
        .attribute(4, &be(length));
    expression("payload", data)
}

fn equals(value: &[u8]) -> Message {
    let data = Message::default()
        .attribute(1, &be(REGISTER))
        .attribute(2, &be(0))
        .and(nested(3, Message::default().attribute(1, value)));
    expression("cmp", data)
}

fn meta(key: u32) -> Message {
    let data = Message::default()
        .attribute(1, &be(REGISTER))
        .attribute(2, &be(key));
    expression("meta", data)
}

/// A name is compared with all its 16 bytes.
fn interface_is(input: bool, interface: &str) -> Message {
    const IIFNAME: u32 = 6;
    const OIFNAME: u32 = 7;
    let mut bytes = interface.as_bytes().to_vec();
    bytes.resize(16, 0);
    meta(if input { IIFNAME } else { OIFNAME }).and(equals(&bytes))
}

fn discovery(kind: u8, counted: bool) -> Message {
    const L4PROTO: u32 = 16;
    const ICMPV6: u8 = 58;
    meta(L4PROTO)
        .and(equals(&[ICMPV6]))
        .and(payload(TRANSPORT, 0, 1))
        .and(equals(&[kind]))
        .verdict(ACCEPT, counted)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kinds of the messages, in order.
    fn kinds(closed: &[Closed]) -> Vec<u16> {
        let refs: Vec<&Closed> = closed.iter().collect();
        let v6 = closed.first().is_some_and(|c| c.0.is_ipv6());
        let bytes = batch(&Firewall::default(), v6, &refs);
        messages(&bytes).map(|(kind, _)| kind).collect()
    }

    #[test]
    fn the_table_is_removed_and_made_in_one_batch() {
        let head = [BATCH_BEGIN, NEW_TABLE, DELETE_TABLE];
        assert_eq!(kinds(&[]), [&head[..], &[BATCH_END]].concat());
        let one = [("10.0.0.1".parse().unwrap(), "eth1".to_string())];
        let body = [NEW_TABLE, NEW_SET, NEW_ELEMENTS, NEW_CHAIN, NEW_CHAIN];
        let expect = [&head[..], &body, &[NEW_RULE, NEW_RULE, BATCH_END]].concat();
        assert_eq!(kinds(&one), expect);
    }

    #[test]
    fn link_local_addresses_have_rules_of_their_own() {
        let two = ["fe80::1", "fd00::1"].map(|ip| (ip.parse().unwrap(), "eth1".to_string()));
        let rules = kinds(&two).iter().filter(|k| **k == NEW_RULE).count();
        // Each way: solicitation, advertisement, the link-local address, the set.
        assert_eq!(rules, 8);
    }
}
