//! The structures of bpf/director.h as bytes. The header asserts every offset used here, and a test compares the sizes
//! with those of the loaded maps.

use std::net::IpAddr;

pub const VIP_KEY: usize = 20;
pub const SERVICE: usize = 20;
pub const SERVER: usize = 72;
pub const LOAD: usize = 12;
pub const PERSIST_KEY: usize = 24;
pub const PERSIST: usize = 16;
pub const FLOW_KEY: usize = 40;
pub const FLOW: usize = 24;
pub const SETTINGS: usize = 32;
pub const TALLY: usize = 24;

pub const PICK_COUNTER: u8 = 0;
pub const PICK_MAGLEV: u8 = 1;
pub const PICK_DESTINATION_SLOT: u8 = 2;
pub const PICK_LOAD: u8 = 3;
pub const PICK_SOURCE_SLOT: u8 = 4;
pub const PICK_TWO: u8 = 5;

pub const SERVICE_HASH_PORT: u8 = 1;
pub const SERVICE_FALLBACK: u8 = 2;
pub const SERVICE_ONE_PACKET: u8 = 4;
pub const SERVICE_PERSISTENT: u8 = 8;
pub const SERVICE_LOCAL: u8 = 16;

pub const SERVER_PRESENT: u8 = 1;
/// It is this machine itself.
pub const SERVER_LOCAL: u8 = 2;

pub const KIND_NAT: u8 = 1;
pub const KIND_DIRECT: u8 = 2;
pub const KIND_TUNNEL: u8 = 3;

/// Names of `enum counter`, in its order.
pub const COUNTERS: [&str; 18] = [
    "seen",
    "not_vip",
    "forwarded",
    "new_flow",
    "no_server",
    "no_next_hop",
    "malformed",
    "fragment_lost",
    "flood",
    "icmp",
    "stale",
    "expired",
    "reply",
    "no_room",
    "decapsulated",
    "ttl",
    "too_long",
    "local",
];

/// Names of `enum flow_state`, from 1.
pub const FLOW_STATES: [&str; 6] = [
    "NONE",
    "SYN_RECV",
    "ESTABLISHED",
    "FIN_WAIT",
    "CLOSE",
    "UDP",
];

/// An address in four words: IPv4 in the first.
pub fn address_bytes(ip: IpAddr) -> [u8; 16] {
    match ip {
        IpAddr::V4(v4) => {
            let mut out = [0; 16];
            out[..4].copy_from_slice(&v4.octets());
            out
        }
        IpAddr::V6(v6) => v6.octets(),
    }
}

pub fn family(ip: IpAddr) -> u8 {
    if ip.is_ipv4() { 4 } else { 6 }
}

fn address_of(bytes: [u8; 16], family: u8) -> IpAddr {
    match family {
        4 => IpAddr::from([bytes[0], bytes[1], bytes[2], bytes[3]]),
        _ => IpAddr::from(bytes),
    }
}

/// Bytes from `at`; the callers' arrays are long enough by type.
fn part<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut out = [0; N];
    if let Some(from) = bytes.get(at..at + N) {
        out.copy_from_slice(from);
    }
    out
}

pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(part(bytes, at))
}

pub fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(part(bytes, at))
}

/// `struct vip_key`.
pub fn vip_key(ip: IpAddr, port: u16, protocol: u8) -> [u8; VIP_KEY] {
    let mut out = [0; VIP_KEY];
    out[..16].copy_from_slice(&address_bytes(ip));
    out[16..18].copy_from_slice(&port.to_be_bytes());
    out[18] = protocol;
    out[19] = family(ip);
    out
}

/// `struct service`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServiceEntry {
    pub id: u32,
    pub pick: u8,
    pub load: u8,
    pub flags: u8,
    pub persist_prefix: u8,
    pub ring_start: u32,
    pub ring_length: u32,
    pub persist_timeout_s: u32,
}

impl ServiceEntry {
    pub fn bytes(&self) -> [u8; SERVICE] {
        let mut out = [0; SERVICE];
        out[0..4].copy_from_slice(&self.id.to_ne_bytes());
        out[4..8].copy_from_slice(&[self.pick, self.load, self.flags, self.persist_prefix]);
        out[8..12].copy_from_slice(&self.ring_start.to_ne_bytes());
        out[12..16].copy_from_slice(&self.ring_length.to_ne_bytes());
        out[16..20].copy_from_slice(&self.persist_timeout_s.to_ne_bytes());
        out
    }
}

/// `struct server`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerEntry {
    pub address: IpAddr,
    pub tunnel_source: Option<IpAddr>,
    pub ifindex: u32,
    pub weight: u32,
    pub conns_max: u32,
    /// Once full, it gets none until it has fewer; 0: than three quarters of `conns_max`.
    pub conns_min: u32,
    pub port: u16,
    pub generation: u16,
    pub kind: u8,
    pub present: bool,
    /// This machine itself.
    pub local: bool,
    pub next_hop: [u8; 6],
    pub own_mac: [u8; 6],
    /// Of the interface towards it; 0 is not known.
    pub mtu: u32,
}

impl ServerEntry {
    pub fn bytes(&self) -> [u8; SERVER] {
        let mut out = [0; SERVER];
        out[0..16].copy_from_slice(&address_bytes(self.address));
        if let Some(source) = self.tunnel_source {
            out[16..32].copy_from_slice(&address_bytes(source));
        }
        out[32..36].copy_from_slice(&self.ifindex.to_ne_bytes());
        out[36..40].copy_from_slice(&self.weight.to_ne_bytes());
        out[40..44].copy_from_slice(&self.conns_max.to_ne_bytes());
        out[44..46].copy_from_slice(&self.port.to_be_bytes());
        out[46..48].copy_from_slice(&self.generation.to_ne_bytes());
        out[48] = family(self.address);
        out[49] = self.kind;
        out[50] = u8::from(self.present) * SERVER_PRESENT + u8::from(self.local) * SERVER_LOCAL;
        out[52..58].copy_from_slice(&self.next_hop);
        out[58..64].copy_from_slice(&self.own_mac);
        out[64..68].copy_from_slice(&self.mtu.to_ne_bytes());
        out[68..72].copy_from_slice(&self.conns_min.to_ne_bytes());
        out
    }
}

/// `struct persist`: the server that persistence has for a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Template {
    /// CLOCK_MONOTONIC.
    pub seen_ns: u64,
    pub server: u32,
    pub generation: u16,
}

impl Template {
    pub fn read(bytes: &[u8; PERSIST]) -> Self {
        let [seen @ .., a, b, c, d, g, h, _, _] = *bytes;
        Template {
            seen_ns: u64::from_ne_bytes(seen),
            server: u32::from_ne_bytes([a, b, c, d]),
            generation: u16::from_ne_bytes([g, h]),
        }
    }
}

/// `struct flow_key`: a connection from the client's side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FlowKey {
    pub client: IpAddr,
    pub client_port: u16,
    pub vip: IpAddr,
    pub vip_port: u16,
    pub protocol: u8,
}

impl FlowKey {
    pub fn bytes(&self) -> [u8; FLOW_KEY] {
        let mut out = [0; FLOW_KEY];
        out[0..16].copy_from_slice(&address_bytes(self.client));
        out[16..32].copy_from_slice(&address_bytes(self.vip));
        out[32..34].copy_from_slice(&self.client_port.to_be_bytes());
        out[34..36].copy_from_slice(&self.vip_port.to_be_bytes());
        out[36] = self.protocol;
        out[37] = family(self.client);
        out
    }
    pub fn read(bytes: &[u8; FLOW_KEY]) -> Self {
        FlowKey {
            client: address_of(part(bytes, 0), bytes[37]),
            vip: address_of(part(bytes, 16), bytes[37]),
            client_port: u16::from_be_bytes(part(bytes, 32)),
            vip_port: u16::from_be_bytes(part(bytes, 34)),
            protocol: bytes[36],
        }
    }
}

/// `struct flow`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowEntry {
    /// CLOCK_MONOTONIC.
    pub seen_ns: u64,
    pub server: u32,
    pub service: u32,
    pub generation: u16,
    /// Index into [`FLOW_STATES`].
    pub state: u8,
}

impl FlowEntry {
    pub fn bytes(&self) -> [u8; FLOW] {
        let mut out = [0; FLOW];
        out[0..8].copy_from_slice(&self.seen_ns.to_ne_bytes());
        out[8..12].copy_from_slice(&self.server.to_ne_bytes());
        out[12..16].copy_from_slice(&self.service.to_ne_bytes());
        out[16..18].copy_from_slice(&self.generation.to_ne_bytes());
        out[18] = self.state;
        out
    }
    pub fn read(bytes: &[u8; FLOW]) -> Self {
        FlowEntry {
            seen_ns: u64_at(bytes, 0),
            server: u32_at(bytes, 8),
            service: u32_at(bytes, 12),
            generation: u16::from_ne_bytes(part(bytes, 16)),
            state: bytes[18],
        }
    }
    /// Whether lc and its kin count it as active.
    pub fn active(&self) -> bool {
        matches!(self.state, 1 | 2 | 5)
    }
}

/// `struct settings`: how long flows live by state, and limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// By index of [`FLOW_STATES`], seconds.
    pub timeout_s: [u32; 6],
    /// Per core and second; 0: no limit.
    pub new_flows_max: u32,
    pub nat: bool,
}

impl Default for Settings {
    fn default() -> Self {
        // IPVS: SYN_RECV 60, ESTABLISHED 900, FIN_WAIT 120, CLOSE 10, UDP 300 seconds.
        Settings {
            timeout_s: [0, 60, 900, 120, 10, 300],
            new_flows_max: 0,
            nat: false,
        }
    }
}

impl Settings {
    pub fn bytes(&self) -> [u8; SETTINGS] {
        let mut out = [0; SETTINGS];
        for (slot, seconds) in out.chunks_exact_mut(4).zip(self.timeout_s) {
            slot.copy_from_slice(&seconds.to_ne_bytes());
        }
        out[24..28].copy_from_slice(&self.new_flows_max.to_ne_bytes());
        out[28..32].copy_from_slice(&u32::from(self.nat).to_ne_bytes());
        out
    }
}

/// `struct tally`, summed over cores.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct Tally {
    pub connections: u64,
    pub packets: u64,
    pub bytes: u64,
}

impl Tally {
    pub fn add(&mut self, bytes: &[u8; TALLY]) {
        self.connections += u64_at(bytes, 0);
        self.packets += u64_at(bytes, 8);
        self.bytes += u64_at(bytes, 16);
    }

    /// What was counted after this earlier reading.
    pub fn since(self, earlier: Tally) -> Tally {
        Tally {
            connections: self.connections.saturating_sub(earlier.connections),
            packets: self.packets.saturating_sub(earlier.packets),
            bytes: self.bytes.saturating_sub(earlier.bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_key_reads_back() {
        for (client, vip) in [("10.0.0.1", "10.0.0.2"), ("fd00::1", "fd00::2")] {
            let key = FlowKey {
                client: client.parse().unwrap(),
                vip: vip.parse().unwrap(),
                client_port: 40000,
                vip_port: 80,
                protocol: 6,
            };
            assert_eq!(FlowKey::read(&key.bytes()), key);
        }
        let flow = FlowEntry {
            seen_ns: 7,
            server: 1,
            service: 2,
            generation: 3,
            state: 2,
        };
        assert_eq!(FlowEntry::read(&flow.bytes()), flow);
    }
}
