//! `vrrp_instance`, what it owns and what it watches.

use super::{Garp, Script};
use std::net::{IpAddr, Ipv4Addr};

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
    /// The other end of a point-to-point link, with its prefix.
    pub peer: Option<(IpAddr, u8)>,
    /// `home`, `mngtmpaddr`, `autojoin`, as the kernel's IFA_F bits.
    pub flags: u32,
    /// `preferred_lft`; u32::MAX is for ever.
    pub preferred_s: Option<u32>,
    /// On a macvlan of its interface with the virtual router's MAC.
    pub use_vmac: bool,
}

impl VirtualAddress {
    pub fn new(ip: IpAddr, prefix: u8) -> Self {
        VirtualAddress {
            ip,
            prefix,
            device: None,
            label: None,
            broadcast: None,
            scope: 0,
            no_track: false,
            no_dad: false,
            no_prefix_route: false,
            peer: None,
            flags: 0,
            preferred_s: None,
            use_vmac: false,
        }
    }
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
    /// /etc/iproute2/rt_protos; none is keepalived's own.
    pub protocol: Option<u8>,
    pub tos: u8,
    /// RTAX numbers with their values, and the bits of those that are locked.
    pub metrics: Vec<(u16, u32)>,
    pub locked: u32,
    pub congestion: Option<String>,
    /// Router preference of IPv6 as the kernel has it.
    pub preference: Option<u8>,
    pub expires_s: Option<u32>,
    /// More than one way.
    pub hops: Vec<NextHop>,
    pub no_track: bool,
}

/// `nexthop via ADDRESS dev INTERFACE weight N onlink`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct NextHop {
    pub gateway: Option<IpAddr>,
    pub device: Option<String>,
    /// 1 to 256.
    pub weight: u32,
    pub on_link: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RouteKind {
    Unicast,
    Blackhole,
    Unreachable,
    Prohibit,
}

/// A line of `virtual_rules`: ip-rule(8).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Rule {
    pub ipv6: bool,
    pub not: bool,
    pub from: Option<(IpAddr, u8)>,
    pub to: Option<(IpAddr, u8)>,
    pub priority: u32,
    pub input: Option<String>,
    pub output: Option<String>,
    /// Mark and mask.
    pub mark: Option<(u32, u32)>,
    pub tos: u8,
    pub protocol: Option<u8>,
    pub source_ports: Option<(u16, u16)>,
    pub destination_ports: Option<(u16, u16)>,
    pub suppress_prefix: Option<u32>,
    pub action: RuleAction,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RuleAction {
    Lookup(u32),
    Goto(u32),
    Nop,
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
    pub bfds: Vec<Track>,
}

/// `vrrp_instance`.
#[derive(Debug, Clone, PartialEq)]
pub struct VrrpInstance {
    pub name: String,
    pub state_master: bool,
    pub interface: Option<String>,
    pub version: Option<u8>,
    pub vrid: Option<u8>,
    /// The default is 100; with `state MASTER` it is 255.
    pub priority: Option<u8>,
    pub advert_interval_us: u64,
    pub authentication: Option<Authentication>,
    pub addresses: Vec<VirtualAddress>,
    pub excluded: Vec<VirtualAddress>,
    pub routes: Vec<Route>,
    pub rules: Vec<Rule>,
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
    /// `use_vmac_addr`: addresses on other interfaces have macvlans there.
    pub vmac_addr: bool,
    pub vmac_xmit_base: bool,
    /// `garp_extra_if`: such addresses are announced again after so many seconds, with `all` those without macvlan too.
    pub garp_extra: Option<GarpExtra>,
    /// The source address must be on the interface.
    pub track_src_ip: bool,
    /// `strict_mode`; else `vrrp_strict` says.
    pub strict: Option<bool>,
    /// `accept`, `no_accept`: whether packets to the addresses are taken. Known once the instance is resolved: an owner
    /// takes them, strict mode does not unless told to.
    pub accept: Option<bool>,
    pub notify: Notify,
    pub notify_priority_changes: Option<bool>,
    pub smtp_alert: Option<bool>,
}

/// `use_vmac [NAME] [MAC]`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Vmac {
    pub name: Option<String>,
    pub mac: Option<[u8; 6]>,
    /// It was given with five bytes.
    pub mac_ends_in_vrid: bool,
}

/// `garp_extra_if [all] SECONDS`; 0 is never.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GarpExtra {
    pub interval_us: u64,
    pub all: bool,
}

/// `vrrp_sync_group`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SyncGroup {
    pub name: String,
    pub members: Vec<String>,
    pub tracks: Tracks,
    pub notify: Notify,
    pub smtp_alert: Option<bool>,
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
    /// Its program is not there: nobody tracks it.
    pub missing: bool,
}

/// `track_file`.
#[derive(Debug, Clone, PartialEq)]
pub struct TrackFile {
    pub name: String,
    pub path: String,
    pub weight: i32,
    pub reverse: bool,
    /// A weight was given.
    pub own_weight: bool,
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
