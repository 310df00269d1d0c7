//! What a keepalived.conf says, as types. Times are in microseconds unless the name says otherwise.
//!
//! Options left out are `None` where another block supplies the default (virtual server, real server, checker);
//! [`super::resolve`] fills in the rest.

use std::net::{IpAddr, Ipv4Addr};

pub const SECOND_US: u64 = 1_000_000;

/// The whole file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Config {
    pub globals: Globals,
    pub groups: Vec<VirtualServerGroup>,
    pub virtual_servers: Vec<VirtualServer>,
    pub instances: Vec<VrrpInstance>,
    pub sync_groups: Vec<SyncGroup>,
    pub scripts: Vec<TrackedScript>,
    pub track_files: Vec<TrackFile>,
    pub track_processes: Vec<TrackProcess>,
    /// `interface_up_down_delays` and the like need it; names of `bfd_instance` blocks, for references.
    pub bfd_names: Vec<String>,
    pub static_addresses: Vec<VirtualAddress>,
    pub static_routes: Vec<Route>,
}

/// `global_defs`.
#[derive(Debug, Clone, PartialEq)]
pub struct Globals {
    pub router_id: Option<String>,
    pub vrrp_version: u8,
    pub mcast_group4: Ipv4Addr,
    pub mcast_group6: std::net::Ipv6Addr,
    pub garp: Garp,
    pub garp_interval_us: u64,
    pub gna_interval_us: u64,
    pub lower_prio_no_advert: bool,
    pub higher_prio_send_advert: bool,
    pub down_timer_adverts: u32,
    pub check_unicast_src: bool,
    pub skip_check_adv_addr: bool,
    /// `vrrp_strict`.
    pub strict: bool,
    pub startup_delay_us: u64,
    pub script_user: Option<ScriptUser>,
    pub script_security: bool,
    pub notify_fifo: Option<String>,
    pub vrrp_notify_fifo: Option<String>,
    pub lvs_notify_fifo: Option<String>,
    pub notify_priority_changes: bool,
    pub dynamic_interfaces: bool,
    pub default_interface: String,
    pub rs_init_notifies: bool,
    pub log_all_failures: bool,
    /// `lvs_timeouts`, seconds: tcp, tcpfin, udp.
    pub timeout_tcp_s: u32,
    pub timeout_tcp_fin_s: u32,
    pub timeout_udp_s: u32,
    pub vrrp_rt_priority: Option<u8>,
}

impl Default for Globals {
    fn default() -> Self {
        Globals {
            router_id: None,
            vrrp_version: 2,
            mcast_group4: Ipv4Addr::new(224, 0, 0, 18),
            mcast_group6: "ff02::12"
                .parse()
                .unwrap_or(std::net::Ipv6Addr::UNSPECIFIED),
            garp: Garp::default(),
            garp_interval_us: 0,
            gna_interval_us: 0,
            lower_prio_no_advert: false,
            higher_prio_send_advert: false,
            down_timer_adverts: 3,
            check_unicast_src: false,
            skip_check_adv_addr: false,
            strict: false,
            startup_delay_us: 0,
            script_user: None,
            script_security: false,
            notify_fifo: None,
            vrrp_notify_fifo: None,
            lvs_notify_fifo: None,
            notify_priority_changes: false,
            dynamic_interfaces: false,
            default_interface: "eth0".into(),
            rs_init_notifies: false,
            log_all_failures: false,
            // The kernel's own defaults for IPVS.
            timeout_tcp_s: 900,
            timeout_tcp_fin_s: 120,
            timeout_udp_s: 300,
            vrrp_rt_priority: None,
        }
    }
}

/// When gratuitous ARPs (and unsolicited neighbour advertisements) are sent; seconds where whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Garp {
    pub master_delay_s: u32,
    pub master_repeat: u32,
    pub refresh_s: u32,
    pub refresh_repeat: u32,
    pub lower_prio_delay_s: u32,
    pub lower_prio_repeat: u32,
}

impl Default for Garp {
    fn default() -> Self {
        Garp {
            master_delay_s: 5,
            master_repeat: 5,
            refresh_s: 0,
            refresh_repeat: 1,
            lower_prio_delay_s: 5,
            lower_prio_repeat: 5,
        }
    }
}

/// `script_user USER [GROUP]`, `user USER [GROUP]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptUser {
    pub user: String,
    pub group: Option<String>,
}

/// A program and its arguments: no shell is involved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    pub argv: Vec<String>,
    pub user: Option<ScriptUser>,
}

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
}

impl Scheduler {
    pub const ALL: [(&'static str, Scheduler); 13] = [
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
    pub ha_suspend: bool,
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
    pub virtualhost: Option<String>,
    pub checkers: Vec<Checker>,
}

/// One health check of a real server.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Checker {
    pub kind: CheckerKind,
    pub connect_ip: Option<IpAddr>,
    pub connect_port: Option<u16>,
    pub bind_ip: Option<IpAddr>,
    pub bind_port: Option<u16>,
    pub bind_interface: Option<String>,
    pub fwmark: Option<u32>,
    pub alpha: Option<bool>,
    pub delay_loop_us: Option<u64>,
    pub connect_timeout_us: Option<u64>,
    pub retry: Option<u32>,
    pub delay_before_retry_us: Option<u64>,
    pub warmup_us: Option<u64>,
    pub log_all_failures: bool,
}

impl Checker {
    pub fn new(kind: CheckerKind) -> Self {
        Checker {
            kind,
            connect_ip: None,
            connect_port: None,
            bind_ip: None,
            bind_port: None,
            bind_interface: None,
            fwmark: None,
            alpha: None,
            delay_loop_us: None,
            connect_timeout_us: None,
            retry: None,
            delay_before_retry_us: None,
            warmup_us: None,
            log_all_failures: false,
        }
    }
    pub fn timing(&self) -> Timing {
        Timing {
            delay_loop_us: self.delay_loop_us,
            connect_timeout_us: self.connect_timeout_us,
            retry: self.retry,
            delay_before_retry_us: self.delay_before_retry_us,
            warmup_us: self.warmup_us,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum CheckerKind {
    Tcp,
    Http(HttpCheck),
    Smtp { helo: Option<String> },
    Dns { record: u16, name: String },
    Udp(UdpCheck),
    Ping,
    Misc(MiscCheck),
    File(FileCheck),
    Bfd { name: String },
}

/// `FILE_CHECK`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct FileCheck {
    /// The name of the track_file block, and what that block says.
    pub track_file: String,
    pub path: String,
    pub weight: i32,
    pub reverse: bool,
    /// Weight and reverse are the checker's own, not the block's.
    pub own_weight: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct HttpCheck {
    pub tls: bool,
    pub sni: bool,
    pub version: HttpVersion,
    pub fast_recovery: bool,
    pub virtualhost: Option<String>,
    pub urls: Vec<Url>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum HttpVersion {
    #[default]
    V10,
    /// 1.0 with `Connection: close`.
    V10Close,
    V11,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Url {
    pub path: String,
    pub virtualhost: Option<String>,
    /// Ranges of accepted status codes; none means 200-299.
    pub status: Vec<(u16, u16)>,
    pub digest: Option<[u8; 16]>,
    pub regex: Option<String>,
    pub regex_no_match: bool,
    pub regex_caseless: bool,
    pub regex_multiline: bool,
    pub regex_dotall: bool,
    pub regex_min_offset: usize,
    pub regex_max_offset: Option<usize>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct UdpCheck {
    pub payload: Option<Vec<u8>>,
    pub require_reply: bool,
    /// Value and mask of each expected byte.
    pub reply: Vec<(u8, u8)>,
    pub reply_min: u16,
    pub reply_max: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct MiscCheck {
    pub argv: Vec<String>,
    pub timeout_us: Option<u64>,
    pub dynamic: bool,
    pub user: Option<(String, Option<String>)>,
    /// enable_script_security: as root only what nobody else may write.
    pub secure: bool,
}

/// `authentication { auth_type PASS auth_pass X }`: eight bytes, padded with zeros.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Authentication {
    pub kind: Option<AuthKind>,
    pub pass: Option<[u8; 8]>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuthKind {
    Pass,
    Ah,
}

/// A line of `virtual_ipaddress`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct VirtualAddress {
    pub ip: IpAddr,
    pub prefix: u8,
    pub device: Option<String>,
    pub label: Option<String>,
    pub broadcast: Option<Ipv4Addr>,
    pub scope: u8,
    pub no_track: bool,
    pub no_dad: bool,
    pub no_prefix_route: bool,
}

/// A line of `virtual_routes`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Route {
    /// `None` is the default route.
    pub destination: Option<(IpAddr, u8)>,
    pub ipv6: bool,
    pub kind: RouteKind,
    pub gateway: Option<IpAddr>,
    pub source: Option<IpAddr>,
    pub device: Option<String>,
    pub table: Option<u32>,
    pub metric: Option<u32>,
    pub scope: Option<u8>,
    pub on_link: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RouteKind {
    Unicast,
    Blackhole,
    Unreachable,
    Prohibit,
}

/// A reference to something tracked: its name and the weight given here, if any.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Track {
    pub name: String,
    pub weight: Option<i32>,
    pub reverse: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnicastPeer {
    pub address: IpAddr,
    pub ttl_min: Option<u8>,
    pub ttl_max: Option<u8>,
}

/// Notify scripts of an instance or a group.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Notify {
    pub master: Option<Script>,
    pub backup: Option<Script>,
    pub fault: Option<Script>,
    pub stop: Option<Script>,
    pub any: Option<Script>,
    pub master_rx_lower_pri: Option<Script>,
}

/// What instances and sync groups watch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tracks {
    pub interfaces: Vec<Track>,
    pub scripts: Vec<Track>,
    pub files: Vec<Track>,
    pub processes: Vec<Track>,
}

/// `vrrp_instance`.
#[derive(Debug, Clone, PartialEq)]
pub struct VrrpInstance {
    pub name: String,
    pub state_master: bool,
    pub interface: Option<String>,
    pub version: Option<u8>,
    pub vrid: Option<u8>,
    /// 0 until it is set; the default is 100.
    pub priority: Option<u8>,
    pub advert_interval_us: u64,
    pub authentication: Option<Authentication>,
    pub addresses: Vec<VirtualAddress>,
    pub excluded: Vec<VirtualAddress>,
    pub routes: Vec<Route>,
    pub preempt: bool,
    pub preempt_delay_us: u64,
    pub garp: Option<Garp>,
    pub lower_prio_no_advert: Option<bool>,
    pub higher_prio_send_advert: Option<bool>,
    pub down_timer_adverts: Option<u32>,
    pub skip_check_adv_addr: Option<bool>,
    pub source_ip: Option<IpAddr>,
    pub mcast_destination: Option<IpAddr>,
    pub unicast_peers: Vec<UnicastPeer>,
    pub unicast_keyword: bool,
    pub unicast_ttl: Option<u8>,
    pub check_unicast_src: Option<bool>,
    pub tracks: Tracks,
    pub track_primary: bool,
    pub vmac: Option<Vmac>,
    pub vmac_xmit_base: bool,
    /// `strict_mode`; else `vrrp_strict` says.
    pub strict: Option<bool>,
    pub accept: bool,
    pub notify: Notify,
    pub notify_priority_changes: Option<bool>,
}

/// `use_vmac [NAME] [MAC]`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Vmac {
    pub name: Option<String>,
    pub mac: Option<[u8; 6]>,
}

/// `vrrp_sync_group`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SyncGroup {
    pub name: String,
    pub members: Vec<String>,
    pub tracks: Tracks,
    pub notify: Notify,
}

/// `vrrp_script`.
#[derive(Debug, Clone, PartialEq)]
pub struct TrackedScript {
    pub name: String,
    pub script: Option<Script>,
    pub interval_us: u64,
    pub timeout_us: Option<u64>,
    pub weight: i32,
    pub reverse: bool,
    pub rise: u32,
    pub fall: u32,
    pub init_fail: bool,
}

/// `track_file`.
#[derive(Debug, Clone, PartialEq)]
pub struct TrackFile {
    pub name: String,
    pub path: String,
    pub weight: i32,
    pub reverse: bool,
    /// Value to start the file with, and whether to overwrite one that is there.
    pub init: Option<(i64, bool)>,
}

/// `track_process`.
#[derive(Debug, Clone, PartialEq)]
pub struct TrackProcess {
    pub name: String,
    /// Program name and, when given, its parameters.
    pub command: Vec<String>,
    pub param_match: ParamMatch,
    pub weight: i32,
    pub reverse: bool,
    pub quorum: u32,
    pub quorum_max: u32,
    pub fork_delay_us: u64,
    pub terminate_delay_us: u64,
    pub full_command: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParamMatch {
    /// No parameters were asked for.
    Any,
    Exact,
    Partial,
    Initial,
}
