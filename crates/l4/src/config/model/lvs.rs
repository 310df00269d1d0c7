//! `virtual_server`, its groups and its servers.

use super::{Checker, Script};
use std::net::IpAddr;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Protocol {
    Tcp,
    Udp,
    Sctp,
}

impl Protocol {
    /// The number in an IP header.
    pub fn number(self) -> u8 {
        match self {
            Protocol::Tcp => 6,
            Protocol::Udp => 17,
            Protocol::Sctp => 132,
        }
    }
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Tcp => "TCP",
            Protocol::Udp => "UDP",
            Protocol::Sctp => "SCTP",
        }
    }
}

/// `lb_kind`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Forwarding {
    Nat,
    DirectRouting,
    Tunnel,
}

impl Forwarding {
    /// As `ipvsadm -L` writes it.
    pub fn name(self) -> &'static str {
        match self {
            Forwarding::Nat => "Masq",
            Forwarding::DirectRouting => "Route",
            Forwarding::Tunnel => "Tunnel",
        }
    }
}

/// `lb_algo`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scheduler {
    RoundRobin,
    WeightedRoundRobin,
    LeastConnection,
    WeightedLeastConnection,
    SourceHash,
    DestinationHash,
    ShortestExpectedDelay,
    NeverQueue,
    LocalityLeastConnection,
    LocalityLeastConnectionReplicated,
    FailOver,
    Overflow,
    Maglev,
    TwoChoices,
}

impl Scheduler {
    pub const ALL: [(&'static str, Scheduler); 14] = [
        ("rr", Scheduler::RoundRobin),
        ("wrr", Scheduler::WeightedRoundRobin),
        ("lc", Scheduler::LeastConnection),
        ("wlc", Scheduler::WeightedLeastConnection),
        ("sh", Scheduler::SourceHash),
        ("dh", Scheduler::DestinationHash),
        ("sed", Scheduler::ShortestExpectedDelay),
        ("nq", Scheduler::NeverQueue),
        ("lblc", Scheduler::LocalityLeastConnection),
        ("lblcr", Scheduler::LocalityLeastConnectionReplicated),
        ("fo", Scheduler::FailOver),
        ("ovf", Scheduler::Overflow),
        ("mh", Scheduler::Maglev),
        ("twos", Scheduler::TwoChoices),
    ];
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(n, _)| *n == name).map(|(_, s)| *s)
    }
    pub fn name(self) -> &'static str {
        Self::ALL
            .iter()
            .find(|(_, s)| *s == self)
            .map_or("?", |(n, _)| n)
    }
}

/// What a `virtual_server` block is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VirtualKey {
    Address(IpAddr, u16),
    Fwmark(u32),
    Group(String),
}

/// `virtual_server_group`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct VirtualServerGroup {
    pub name: String,
    pub entries: Vec<GroupEntry>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum GroupEntry {
    /// First and last address, both included.
    Range(IpAddr, IpAddr, u16),
    Fwmark(u32),
}

/// `virtual_server`.
#[derive(Debug, Clone, PartialEq)]
pub struct VirtualServer {
    pub key: VirtualKey,
    pub protocol: Option<Protocol>,
    pub scheduler: Option<Scheduler>,
    pub forwarding: Option<Forwarding>,
    /// `sh-port`, `mh-port`: the client's port takes part in the hash.
    pub hash_port: bool,
    /// `sh-fallback`, `mh-fallback`: a server that is down is passed over.
    pub hash_fallback: bool,
    pub one_packet: bool,
    pub persistence_timeout_s: Option<u32>,
    /// Prefix length that clients are grouped by.
    pub persistence_prefix: Option<u8>,
    pub timing: Timing,
    pub alpha: bool,
    pub omega: bool,
    pub quorum: u32,
    pub hysteresis: u32,
    pub quorum_up: Option<Script>,
    pub quorum_down: Option<Script>,
    pub sorry_server: Option<(IpAddr, u16)>,
    pub sorry_forwarding: Option<Forwarding>,
    pub sorry_inhibit: bool,
    /// Checks rest while none of the addresses is on this machine.
    pub ha_suspend: bool,
    pub smtp_alert: Option<bool>,
    pub virtualhost: Option<String>,
    pub inhibit_on_failure: bool,
    pub weight: u32,
    pub real_servers: Vec<RealServer>,
}

impl VirtualServer {
    pub fn new(key: VirtualKey) -> Self {
        VirtualServer {
            key,
            protocol: None,
            scheduler: None,
            forwarding: None,
            hash_port: false,
            hash_fallback: false,
            one_packet: false,
            persistence_timeout_s: None,
            persistence_prefix: None,
            timing: Timing::default(),
            alpha: false,
            omega: false,
            quorum: 1,
            hysteresis: 0,
            quorum_up: None,
            quorum_down: None,
            sorry_server: None,
            sorry_forwarding: None,
            sorry_inhibit: false,
            ha_suspend: false,
            smtp_alert: None,
            virtualhost: None,
            inhibit_on_failure: false,
            weight: 1,
            real_servers: Vec::new(),
        }
    }
}

/// The options that go down from virtual server to real server to checker.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Timing {
    pub delay_loop_us: Option<u64>,
    pub connect_timeout_us: Option<u64>,
    pub retry: Option<u32>,
    pub delay_before_retry_us: Option<u64>,
    pub warmup_us: Option<u64>,
}

impl Timing {
    /// These options, and the outer block's where they say nothing.
    pub fn or(self, outer: Timing) -> Timing {
        Timing {
            delay_loop_us: self.delay_loop_us.or(outer.delay_loop_us),
            connect_timeout_us: self.connect_timeout_us.or(outer.connect_timeout_us),
            retry: self.retry.or(outer.retry),
            delay_before_retry_us: self.delay_before_retry_us.or(outer.delay_before_retry_us),
            warmup_us: self.warmup_us.or(outer.warmup_us),
        }
    }
}

/// `real_server`.
#[derive(Debug, Clone, PartialEq)]
pub struct RealServer {
    pub address: IpAddr,
    pub port: u16,
    pub weight: Option<u32>,
    pub forwarding: Option<Forwarding>,
    pub notify_up: Option<Script>,
    pub notify_down: Option<Script>,
    pub conns_max: u32,
    pub conns_min: u32,
    pub inhibit_on_failure: Option<bool>,
    pub alpha: Option<bool>,
    pub timing: Timing,
    pub smtp_alert: Option<bool>,
    pub virtualhost: Option<String>,
    pub checkers: Vec<Checker>,
}
