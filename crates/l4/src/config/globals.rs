//! `global_defs`.

use super::diagnostic::Severity;
use super::keyword::{Args, Keyword, no_effect, not_yet, works};
use super::model::*;
use std::net::IpAddr;

const NO_SNMP: &str = "there is no SNMP agent";
const ONE_PROCESS: &str = "there is one process";

pub static GLOBALS: &[Keyword<Globals>] = &[
    works(
        "router_id",
        "NAME",
        "this machine's name in messages",
        |g, a| g.router_id = a.text("a name"),
    ),
    works("vrrp_version", "2|3", "default VRRP version", |g, a| {
        g.vrrp_version = a.number_u8(2..=3).unwrap_or(2)
    }),
    works(
        "vrrp_mcast_group4",
        "ADDRESS",
        "group of IPv4 adverts",
        |g, a| {
            if let Some(IpAddr::V4(ip)) = multicast(a) {
                g.mcast_group4 = ip;
            }
        },
    ),
    works(
        "vrrp_mcast_group6",
        "ADDRESS",
        "group of IPv6 adverts",
        |g, a| {
            if let Some(IpAddr::V6(ip)) = multicast(a) {
                g.mcast_group6 = ip;
            }
        },
    ),
    works(
        "vrrp_garp_master_delay",
        "SECONDS",
        "second round of gratuitous ARPs",
        |g, a| number(a, &mut g.garp.master_delay_s),
    ),
    works(
        "vrrp_garp_master_repeat",
        "COUNT",
        "gratuitous ARPs in a round",
        |g, a| number(a, &mut g.garp.master_repeat),
    ),
    works(
        "vrrp_garp_master_refresh",
        "SECONDS",
        "time between rounds while master",
        |g, a| number(a, &mut g.garp.refresh_s),
    ),
    works(
        "vrrp_garp_master_refresh_repeat",
        "COUNT",
        "gratuitous ARPs in such a round",
        |g, a| number(a, &mut g.garp.refresh_repeat),
    ),
    works(
        "vrrp_garp_lower_prio_delay",
        "SECONDS",
        "delay of the round after a lower advert",
        |g, a| number(a, &mut g.garp.lower_prio_delay_s),
    ),
    works(
        "vrrp_garp_lower_prio_repeat",
        "COUNT",
        "gratuitous ARPs after a lower advert",
        |g, a| number(a, &mut g.garp.lower_prio_repeat),
    ),
    works(
        "vrrp_garp_interval",
        "SECONDS",
        "time between two gratuitous ARPs",
        |g, a| pace(a, &mut g.garp_interval_us),
    ),
    works(
        "vrrp_gna_interval",
        "SECONDS",
        "time between two unsolicited advertisements",
        |g, a| pace(a, &mut g.gna_interval_us),
    ),
    works(
        "vrrp_min_garp",
        "[BOOL]",
        "one gratuitous ARP only",
        |g, a| {
            if a.boolean() == Some(true) {
                g.garp = Garp {
                    master_delay_s: 0,
                    master_repeat: 1,
                    refresh_s: 0,
                    refresh_repeat: 1,
                    lower_prio_delay_s: 0,
                    lower_prio_repeat: 1,
                };
            }
        },
    ),
    works(
        "vrrp_garp_extra_if",
        "[all] SECONDS",
        "time between announcements on macvlans (with all: interfaces) that no advert keeps fresh",
        |g, a| {
            if let Some(extra) = super::vrrp::garp_extra(a) {
                g.garp_extra = Some(extra);
            }
        },
    ),
    works(
        "vrrp_lower_prio_no_advert",
        "[BOOL]",
        "do not answer a lower advert",
        |g, a| g.lower_prio_no_advert = a.boolean().unwrap_or(true),
    ),
    works(
        "vrrp_higher_prio_send_advert",
        "[BOOL]",
        "send one more advert before giving way",
        |g, a| g.higher_prio_send_advert = a.boolean().unwrap_or(true),
    ),
    works(
        "vrrp_down_timer_adverts",
        "1-100",
        "adverts missed before the master is down",
        |g, a| g.down_timer_adverts = a.number_u32(1..=100).unwrap_or(3),
    ),
    works(
        "vrrp_check_unicast_src",
        "",
        "hear adverts of known peers only",
        |g, _| g.check_unicast_src = true,
    ),
    works(
        "vrrp_skip_check_adv_addr",
        "",
        "do not compare the addresses of every advert",
        |g, _| g.skip_check_adv_addr = true,
    ),
    works(
        "vrrp_startup_delay",
        "SECONDS",
        "wait before VRRP starts",
        |g, a| g.startup_delay_us = a.seconds(0.001..=1000.0).unwrap_or(0),
    ),
    works(
        "vrrp_notify_priority_changes",
        "BOOL",
        "priority changes go to the fifo",
        |g, a| g.notify_priority_changes = a.boolean().unwrap_or(true),
    ),
    works(
        "vrrp_strict",
        "",
        "what the RFCs do not have is refused or put right",
        |g, _| g.strict = true,
    ),
    works("script_user", "USER [GROUP]", "who runs scripts", |g, a| {
        let Some(word) = a.word("a user") else { return };
        if a.cx.host.user_exists(&word.text) == Some(false) {
            a.dubious_at(word, format!("there is no user {}", word.text));
        }
        let user = word.text.clone();
        g.script_user = Some(ScriptUser {
            user,
            group: a.optional().map(|w| w.text.clone()),
        });
    }),
    works(
        "enable_script_security",
        "",
        "scripts are not run as root where others may write to them or to their path",
        |g, _| g.script_security = true,
    ),
    works(
        "notify_fifo",
        "PATH [USER [GROUP]]",
        "pipe that all changes are written to",
        |g, a| fifo(a, &mut g.notify_fifo),
    ),
    works(
        "vrrp_notify_fifo",
        "PATH [USER [GROUP]]",
        "pipe that VRRP changes are written to",
        |g, a| fifo(a, &mut g.vrrp_notify_fifo),
    ),
    works(
        "lvs_notify_fifo",
        "PATH [USER [GROUP]]",
        "pipe that server changes are written to",
        |g, a| fifo(a, &mut g.lvs_notify_fifo),
    ),
    works(
        "notify_fifo_script",
        "PROGRAM [USER [GROUP]]",
        "reads the fifo; its path is the last argument",
        |g, a| g.fifo_script = a.reader(),
    ),
    works(
        "vrrp_notify_fifo_script",
        "PROGRAM [USER [GROUP]]",
        "reads the fifo; its path is the last argument",
        |g, a| g.vrrp_fifo_script = a.reader(),
    ),
    works(
        "lvs_notify_fifo_script",
        "PROGRAM [USER [GROUP]]",
        "reads the fifo; its path is the last argument",
        |g, a| g.lvs_fifo_script = a.reader(),
    ),
    no_effect(
        "fifo_write_vrrp_states_on_reload",
        "",
        "states are written when they change",
    ),
    works(
        "dynamic_interfaces",
        "[allow_if_changes]",
        "interfaces may come later",
        |g, a| {
            g.dynamic_interfaces = true;
            a.skip();
        },
    ),
    works(
        "default_interface",
        "INTERFACE",
        "where static addresses go",
        |g, a| {
            if let Some(name) = a.interface() {
                g.default_interface = name;
            }
        },
    ),
    not_yet("rs_init_notifies", "[BOOL]", "only changes are notified"),
    works(
        "checker_log_all_failures",
        "[BOOL]",
        "log every failed check",
        |g, a| g.log_all_failures = a.boolean().unwrap_or(true),
    ),
    works(
        "lvs_timeouts",
        "[tcp S] [tcpfin S] [udp S]",
        "how long flows live",
        |g, a| {
            while let Some(word) = a.optional() {
                let value = match word.text.as_str() {
                    "tcp" => &mut g.timeout_tcp_s,
                    "tcpfin" => &mut g.timeout_tcp_fin_s,
                    "udp" => &mut g.timeout_udp_s,
                    _ => {
                        a.error_at(word, format!("'{}' is none of tcp, tcpfin, udp", word.text));
                        continue;
                    }
                };
                if let Some(n) = a.number_u32(0..=2_147_483) {
                    *value = n;
                }
            }
        },
    ),
    no_effect("lvs_flush", "", "tables always start empty"),
    no_effect(
        "lvs_flush_on_stop",
        "[VS]",
        "tables always end with the process",
    ),
    works(
        "lvs_sync_daemon",
        "INTERFACE ...",
        "connections are given to a twin, which run's --sync and --sync-peer name",
        |g, a| {
            let place = a.node.place();
            a.skip();
            g.lvs_sync = true;
            a.cx.report(
                Severity::Warning,
                place,
                "the twin is named by run's --sync ADDRESS:PORT and --sync-peer ADDRESS:PORT, without which run refuses; IPVS's own protocol \
                 (interface, id, port, ttl, group, maxlen) is not spoken",
            );
        },
    ),
    works(
        "vrrp_rt_priority",
        "1-99",
        "real-time priority of the VRRP thread",
        |g, a| g.vrrp_rt_priority = a.number_u8(1..=99),
    ),
    no_effect(
        "vrrp_priority",
        "-20..19",
        "the VRRP thread asks for real-time priority",
    ),
    no_effect("checker_priority", "-20..19", ONE_PROCESS),
    no_effect("bfd_priority", "-20..19", ONE_PROCESS),
    no_effect("checker_rt_priority", "1-99", ONE_PROCESS),
    no_effect("bfd_rt_priority", "1-99", ONE_PROCESS),
    no_effect(
        "vrrp_rlimit_rttime",
        "N",
        "the VRRP thread has no such limit",
    ),
    no_effect("checker_rlimit_rttime", "N", ONE_PROCESS),
    no_effect("bfd_rlimit_rttime", "N", ONE_PROCESS),
    no_effect(
        "vrrp_rlimit_rtime",
        "N",
        "the VRRP thread has no such limit",
    ),
    no_effect(
        "max_auto_priority",
        "N",
        "the VRRP thread asks for real-time priority from the start",
    ),
    no_effect(
        "min_auto_priority_delay",
        "N",
        "the VRRP thread asks for real-time priority from the start",
    ),
    no_effect("vrrp_no_swap", "", "nothing is locked into memory"),
    no_effect("checker_no_swap", "", "nothing is locked into memory"),
    no_effect("bfd_no_swap", "", "nothing is locked into memory"),
    no_effect(
        "vrrp_cpu_affinity",
        "N ...",
        "threads run where the kernel puts them",
    ),
    no_effect(
        "checker_cpu_affinity",
        "N ...",
        "threads run where the kernel puts them",
    ),
    no_effect(
        "bfd_cpu_affinity",
        "N ...",
        "threads run where the kernel puts them",
    ),
    no_effect("process_names", "", ONE_PROCESS),
    no_effect("process_name", "NAME", ONE_PROCESS),
    no_effect("vrrp_process_name", "NAME", ONE_PROCESS),
    no_effect("checker_process_name", "NAME", ONE_PROCESS),
    no_effect("bfd_process_name", "NAME", ONE_PROCESS),
    works(
        "notification_email",
        "{ ADDRESS ... }",
        "who gets alerts by mail",
        |g, a| {
            let words = a.block().iter().flat_map(|n| &n.words);
            g.mail.to.extend(words.map(|w| w.text.clone()));
        },
    ),
    works(
        "notification_email_from",
        "ADDRESS",
        "who alerts come from",
        |g, a| g.mail.from = a.text("an address"),
    ),
    works(
        "smtp_server",
        "ADDRESS [PORT]",
        "who takes alerts; port 25 if not given",
        |g, a| {
            let server = a.text("a mail server");
            let port = a.peek().map_or(Some(25), |_| a.port());
            g.mail.server = server.zip(port);
        },
    ),
    works("smtp_helo_name", "NAME", "name said to it", |g, a| {
        g.mail.helo = a.text("a name")
    }),
    works(
        "smtp_connect_timeout",
        "SECONDS",
        "time to connect to it",
        |g, a| {
            if let Some(us) = a.seconds(0.001..=4294.0) {
                g.mail.connect_timeout_us = us;
            }
        },
    ),
    works("no_email_faults", "", "faults are not mailed", |g, _| {
        g.mail.no_faults = true
    }),
    works(
        "no_checker_emails",
        "[BOOL]",
        "changes of servers are not mailed",
        |g, a| g.mail.alert_checker = a.boolean().map(|no| !no),
    ),
    works(
        "smtp_alert",
        "[BOOL]",
        "changes are mailed unless a block says otherwise",
        |g, a| g.mail.alert = a.boolean(),
    ),
    works(
        "smtp_alert_vrrp",
        "[BOOL]",
        "changes of instances and groups are",
        |g, a| g.mail.alert_vrrp = a.boolean(),
    ),
    works(
        "smtp_alert_checker",
        "[BOOL]",
        "changes of servers are",
        |g, a| g.mail.alert_checker = a.boolean(),
    ),
    works(
        "startup_script",
        "PROGRAM [USER [GROUP]]",
        "run, and waited for, before anything else",
        |g, a| g.startup.script = a.script(),
    ),
    works(
        "shutdown_script",
        "PROGRAM [USER [GROUP]]",
        "run, and waited for, after everything else",
        |g, a| g.shutdown.script = a.script(),
    ),
    works(
        "startup_script_timeout",
        "1-1000",
        "seconds it may take",
        |g, a| g.startup.timeout_s = a.number_u32(1..=1000).unwrap_or(10),
    ),
    works(
        "shutdown_script_timeout",
        "1-1000",
        "seconds it may take",
        |g, a| g.shutdown.timeout_s = a.number_u32(1..=1000).unwrap_or(10),
    ),
    no_effect("enable_snmp_vrrp", "", NO_SNMP),
    no_effect("enable_snmp_checker", "", NO_SNMP),
    no_effect("enable_snmp_rfc", "", NO_SNMP),
    no_effect("enable_snmp_rfcv2", "", NO_SNMP),
    no_effect("enable_snmp_rfcv3", "", NO_SNMP),
    no_effect("enable_traps", "", NO_SNMP),
    no_effect("snmp_socket", "NAME", NO_SNMP),
    no_effect(
        "enable_dbus",
        "",
        "there is no D-Bus service; use sluice-l4 show",
    ),
    no_effect("dbus_service_name", "NAME", "there is no D-Bus service"),
    works(
        "nftables",
        "[TABLE]",
        "name of the table for addresses that accept nothing",
        |g, a| {
            if let Some(word) = a.optional() {
                g.firewall.table.clone_from(&word.text);
            }
        },
    ),
    works(
        "nftables_priority",
        "N",
        "priority of that table's chains; the filter's is 0",
        |g, a| {
            let n = a.number(i64::from(i32::MIN)..=i64::from(i32::MAX));
            g.firewall.priority = n.and_then(|n| i32::try_from(n).ok()).unwrap_or(-1);
        },
    ),
    works(
        "nftables_counters",
        "",
        "that table's rules count packets",
        |g, _| g.firewall.counters = true,
    ),
    no_effect(
        "nftables_ifindex",
        "",
        "link-local addresses are told apart by the interface's name",
    ),
    no_effect(
        "nftables_ipvs",
        "[TABLE]",
        "groups need no firewall marks here",
    ),
    no_effect(
        "nftables_ipvs_priority",
        "N",
        "groups need no firewall marks here",
    ),
    no_effect(
        "nftables_ipvs_start_fwmark",
        "N",
        "groups need no firewall marks here",
    ),
    no_effect(
        "vrrp_iptables",
        "[IN [OUT]]",
        "addresses that accept nothing have a table of nftables of their own",
    ),
    no_effect(
        "vrrp_ipsets",
        "[NAME ...]",
        "addresses that accept nothing have a set of nftables",
    ),
    no_effect("disable_local_igmp", "", "IGMP is the kernel's"),
    no_effect(
        "vrrp_netlink_cmd_rcv_bufs",
        "BYTES",
        "netlink buffers have the system's size",
    ),
    no_effect(
        "vrrp_netlink_cmd_rcv_bufs_force",
        "BOOL",
        "netlink buffers have the system's size",
    ),
    no_effect(
        "vrrp_netlink_monitor_rcv_bufs",
        "BYTES",
        "netlink buffers have the system's size",
    ),
    no_effect(
        "vrrp_netlink_monitor_rcv_bufs_force",
        "BOOL",
        "netlink buffers have the system's size",
    ),
    no_effect(
        "lvs_netlink_cmd_rcv_bufs",
        "BYTES",
        "there is no IPVS netlink",
    ),
    no_effect(
        "lvs_netlink_cmd_rcv_bufs_force",
        "BOOL",
        "there is no IPVS netlink",
    ),
    no_effect(
        "lvs_netlink_monitor_rcv_bufs",
        "BYTES",
        "netlink buffers have the system's size",
    ),
    no_effect(
        "lvs_netlink_monitor_rcv_bufs_force",
        "BOOL",
        "netlink buffers have the system's size",
    ),
    no_effect(
        "process_monitor_rcv_bufs",
        "BYTES",
        "processes are looked for in /proc",
    ),
    no_effect(
        "process_monitor_rcv_bufs_force",
        "BOOL",
        "processes are looked for in /proc",
    ),
    no_effect(
        "vrrp_rx_bufs_policy",
        "POLICY",
        "receive buffers have the system's size",
    ),
    no_effect(
        "vrrp_rx_bufs_multiplier",
        "N",
        "receive buffers have the system's size",
    ),
    no_effect(
        "umask",
        "BITS",
        "the only files made are the control socket and fifos",
    ),
    no_effect(
        "log_unknown_vrids",
        "",
        "unknown virtual router ids are counted",
    ),
    works(
        "vmac_prefix",
        "TEXT",
        "how macvlans' names begin, instead of vrrp",
        |g, a| g.vmac_prefix = prefix(a),
    ),
    works(
        "vmac_addr_prefix",
        "TEXT",
        "how names of macvlans for addresses on other interfaces begin",
        |g, a| g.vmac_addr_prefix = prefix(a),
    ),
    no_effect("random_seed", "N", "only the first check's delay is random"),
    no_effect(
        "reload_check_config",
        "[FILE]",
        "a reload always checks first",
    ),
    no_effect(
        "include_check",
        "OPTIONS",
        "includes are checked by their own keyword",
    ),
    not_yet("reload_time_file", "PATH", "reload from a timer unit"),
    no_effect("reload_repeat", "", "reload from a timer unit"),
    not_yet("reload_file", "[PATH]", "reload by signal or command"),
    no_effect(
        "data_use_instance",
        "[BOOL]",
        "state is shown by sluice-l4 show",
    ),
    no_effect(
        "tmp_config_directory",
        "PATH",
        "the file is read once, by one process",
    ),
    no_effect(
        "config_save_dir",
        "PATH",
        "the file is read once, by one process",
    ),
];

fn number(a: &mut Args<'_, '_>, into: &mut u32) {
    if let Some(n) = a.number_u32(0..=4_294_967) {
        *into = n;
    }
}

/// A time between frames. keepalived takes 0 for a mistake, though its own sample has it; there is none then.
fn pace(a: &mut Args<'_, '_>, into: &mut u64) {
    let zero = a
        .peek()
        .filter(|w| w.text.parse::<f64>().is_ok_and(|n| n == 0.0));
    if let Some(word) = zero {
        a.optional();
        *into = 0;
        return a.dubious_at(word, "leave the line out for no time between them");
    }
    if let Some(us) = a.seconds(0.000_001..=4294.0) {
        *into = us;
    }
}

/// How a name begins that a number and `.VRID` are put behind.
fn prefix(a: &mut Args<'_, '_>) -> Option<String> {
    /// An interface's name has 15 characters at most, of which a number and `.255` need five.
    const PREFIX_MAX: usize = 10;
    let word = a.word("a name's beginning")?;
    if word.text.len() > PREFIX_MAX {
        a.error_at(word, format!("at most {PREFIX_MAX} characters"));
        return None;
    }
    Some(word.text.clone())
}

fn fifo(a: &mut Args<'_, '_>, into: &mut Option<String>) {
    *into = a.text("a path");
    if a.peek().is_some() {
        let word = a.peek();
        a.cx.report(
            super::diagnostic::Severity::Unsupported,
            word.map(|w| w.place()),
            "a fifo's owner is not set yet",
        );
        a.skip();
    }
}

fn multicast(a: &mut Args<'_, '_>) -> Option<IpAddr> {
    let word = a.peek();
    let ip = a.address()?;
    if !ip.is_multicast() {
        if let Some(word) = word {
            a.error_at(word, format!("{ip} is not a multicast address"));
        }
        return None;
    }
    Some(ip)
}
