//! What a keepalived.conf says, as types. Times are in microseconds unless the name says otherwise.
//!
//! Options left out are `None` where another block supplies the default (virtual server, real server, checker);
//! [`super::resolve`] fills in the rest.

use crate::marks::Marks;
use std::net::Ipv4Addr;

mod bfd;
mod check;
mod lvs;
mod vrrp;

pub use bfd::*;
pub use check::*;
pub use lvs::*;
pub use vrrp::*;

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
    pub bfds: Vec<Bfd>,
    /// The `SSL` block's.
    pub identity: Option<Identity>,
    pub static_addresses: Vec<VirtualAddress>,
    pub static_routes: Vec<Route>,
    pub static_rules: Vec<Rule>,
    /// What the firewall marks of virtual servers stand for: not the file's, the shell fills it in.
    pub marks: Marks,
}

impl Config {
    /// The marks that virtual servers and groups name.
    pub fn marks_used(&self) -> Vec<u32> {
        let servers = self.virtual_servers.iter().filter_map(|v| match v.key {
            VirtualKey::Fwmark(mark) => Some(mark),
            _ => None,
        });
        let entries = self.groups.iter().flat_map(|g| &g.entries);
        let entries = entries.filter_map(|e| match e {
            GroupEntry::Fwmark(mark) => Some(*mark),
            GroupEntry::Range(..) => None,
        });
        servers.chain(entries).collect()
    }
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
    /// `vrrp_garp_extra_if`.
    pub garp_extra: Option<GarpExtra>,
    pub vmac_prefix: Option<String>,
    pub vmac_addr_prefix: Option<String>,
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
    /// `lvs_sync_daemon`: a twin shall know the connections.
    pub lvs_sync: bool,
    pub mail: Mail,
    /// `startup_script`, `shutdown_script`.
    pub startup: HostScript,
    pub shutdown: HostScript,
    /// `notify_fifo_script` and its kin: the fifo's path is their last argument.
    pub fifo_script: Option<Script>,
    pub vrrp_fifo_script: Option<Script>,
    pub lvs_fifo_script: Option<Script>,
    /// `nftables`, `nftables_priority`, `nftables_counters`.
    pub firewall: Firewall,
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
            garp_extra: None,
            vmac_prefix: None,
            vmac_addr_prefix: None,
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
            lvs_sync: false,
            mail: Mail::default(),
            startup: HostScript::default(),
            shutdown: HostScript::default(),
            fifo_script: None,
            vrrp_fifo_script: None,
            lvs_fifo_script: None,
            firewall: Firewall::default(),
        }
    }
}

/// A script that runs once, and how long it may.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostScript {
    pub script: Option<Script>,
    pub timeout_s: u32,
}

impl Default for HostScript {
    fn default() -> Self {
        HostScript {
            script: None,
            timeout_s: 10,
        }
    }
}

/// Where alerts go, and whose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mail {
    /// `smtp_server`: name or address, and port.
    pub server: Option<(String, u16)>,
    /// `notification_email`.
    pub to: Vec<String>,
    /// `notification_email_from`.
    pub from: Option<String>,
    /// `smtp_helo_name`.
    pub helo: Option<String>,
    pub connect_timeout_us: u64,
    /// `no_email_faults`.
    pub no_faults: bool,
    /// `smtp_alert`, and what `smtp_alert_vrrp` and `smtp_alert_checker` say instead.
    pub alert: Option<bool>,
    pub alert_vrrp: Option<bool>,
    pub alert_checker: Option<bool>,
}

impl Mail {
    /// Whether an instance or group without a word of its own tells by mail.
    pub fn vrrp(&self, own: Option<bool>) -> bool {
        own.or(self.alert_vrrp).or(self.alert).unwrap_or(false)
    }
    /// The same for servers.
    pub fn checker(&self, own: Option<bool>) -> bool {
        own.or(self.alert_checker).or(self.alert).unwrap_or(false)
    }
}

impl Default for Mail {
    fn default() -> Self {
        Mail {
            server: None,
            to: Vec::new(),
            from: None,
            helo: None,
            connect_timeout_us: 30 * SECOND_US,
            no_faults: false,
            alert: None,
            alert_vrrp: None,
            alert_checker: None,
        }
    }
}

/// `nftables`, `nftables_priority`, `nftables_counters`: the table for addresses that accept nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Firewall {
    pub table: String,
    /// Of the chains; the filter's is 0.
    pub priority: i32,
    pub counters: bool,
}

impl Default for Firewall {
    fn default() -> Self {
        Firewall {
            table: "sluice_l4".into(),
            priority: -1,
            counters: false,
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
