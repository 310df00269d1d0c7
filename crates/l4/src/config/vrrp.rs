//! `vrrp_instance`. What it refers to is beside it: [`group`], [`tracker`], and how it speaks in [`link`].

use super::keyword::{Args, Context, Keyword, block, no_effect, not_yet, works};
use super::model::*;
use super::tree::Node;
use super::{address, route, rule};

mod group;
mod link;
pub mod strict;
mod tracker;

pub use group::{SYNC_GROUP, sync_group};
use link::{AUTHENTICATION, unicast_peers, vmac};
pub use tracker::{SCRIPT, TRACK_FILE, TRACK_PROCESS, script, track_file, track_process};
use tracker::{Tracked, tracks};

type Instance = VrrpInstance;

pub static INSTANCE: &[Keyword<Instance>] = &[
    works("state", "MASTER|BACKUP", "state to begin with", |i, a| {
        let Some(word) = a.word("MASTER or BACKUP") else {
            return;
        };
        match word.text.as_str() {
            "MASTER" => i.state_master = true,
            "BACKUP" => i.state_master = false,
            _ => a.error_at(
                word,
                format!("state '{}' is neither MASTER nor BACKUP", word.text),
            ),
        }
    }),
    works(
        "interface",
        "INTERFACE",
        "where adverts are sent and heard",
        |i, a| i.interface = a.interface(),
    ),
    works(
        "virtual_router_id",
        "1-255",
        "the router's number on its network",
        |i, a| i.vrid = a.number_u8(1..=255),
    ),
    works(
        "priority",
        "1-255",
        "the highest becomes master; 255 owns the addresses",
        |i, a| i.priority = a.number_u8(1..=255),
    ),
    works("advert_int", "SECONDS", "time between adverts", |i, a| {
        if let Some(us) = a.seconds(0.01..=255.0) {
            i.advert_interval_us = us;
        }
    }),
    works("version", "2|3", "VRRP version", |i, a| {
        let word = a.keyword();
        match (i.version, a.number_u8(2..=3)) {
            (Some(old), Some(new)) if old != new => {
                a.dubious_at(
                    word,
                    format!("version {new} after version {old}: the first holds"),
                );
            }
            (None, new) => i.version = new,
            _ => {}
        }
    }),
    works(
        "authentication",
        "{ auth_type PASS auth_pass X }",
        "VRRPv2 password",
        |i, a| {
            let mut auth = Authentication::default();
            block(a.block(), AUTHENTICATION, &mut auth, a.cx, "authentication");
            i.authentication = Some(auth);
        },
    ),
    works(
        "virtual_ipaddress",
        "{ ADDRESS[/PREFIX] ... }",
        "addresses of the virtual router",
        |i, a| address::addresses(&mut i.addresses, a),
    ),
    works(
        "virtual_ipaddress_excluded",
        "{ ADDRESS[/PREFIX] ... }",
        "addresses that are not in the adverts",
        |i, a| address::addresses(&mut i.excluded, a),
    ),
    works(
        "virtual_routes",
        "{ ROUTE ... }",
        "routes of the master",
        |i, a| route::routes(&mut i.routes, a),
    ),
    works(
        "virtual_rules",
        "{ RULE ... }",
        "policy routing rules of the master",
        |i, a| rule::rules(&mut i.rules, a),
    ),
    works("preempt", "", "take over from a lower priority", |i, _| {
        i.preempt = true
    }),
    works(
        "nopreempt",
        "",
        "leave a lower priority in office",
        |i, _| i.preempt = false,
    ),
    works(
        "preempt_delay",
        "SECONDS",
        "wait before taking over",
        |i, a| {
            if let Some(us) = a.seconds(0.0..=1000.0) {
                i.preempt_delay_us = us;
            }
        },
    ),
    works(
        "garp_master_delay",
        "SECONDS",
        "second round of gratuitous ARPs",
        |i, a| garp(i, a, |g, n| g.master_delay_s = n),
    ),
    works(
        "garp_master_repeat",
        "COUNT",
        "gratuitous ARPs in a round",
        |i, a| garp(i, a, |g, n| g.master_repeat = n),
    ),
    works(
        "garp_master_refresh",
        "SECONDS",
        "time between rounds while master",
        |i, a| garp(i, a, |g, n| g.refresh_s = n),
    ),
    works(
        "garp_master_refresh_repeat",
        "COUNT",
        "gratuitous ARPs in such a round",
        |i, a| garp(i, a, |g, n| g.refresh_repeat = n),
    ),
    works(
        "garp_lower_prio_delay",
        "SECONDS",
        "delay of the round after a lower advert",
        |i, a| garp(i, a, |g, n| g.lower_prio_delay_s = n),
    ),
    works(
        "garp_lower_prio_repeat",
        "COUNT",
        "gratuitous ARPs after a lower advert",
        |i, a| garp(i, a, |g, n| g.lower_prio_repeat = n),
    ),
    works(
        "garp_extra_if",
        "[all] SECONDS",
        "time between announcements on macvlans (with all: interfaces) that no advert keeps fresh",
        |i, a| {
            if let Some(extra) = garp_extra(a) {
                i.garp_extra = Some(extra);
            }
        },
    ),
    works(
        "lower_prio_no_advert",
        "[BOOL]",
        "do not answer a lower advert",
        |i, a| i.lower_prio_no_advert = a.boolean(),
    ),
    works(
        "higher_prio_send_advert",
        "[BOOL]",
        "send one more advert before giving way",
        |i, a| i.higher_prio_send_advert = a.boolean(),
    ),
    works(
        "down_timer_adverts",
        "1-100",
        "adverts missed before the master is down",
        |i, a| i.down_timer_adverts = a.number_u32(1..=100),
    ),
    works(
        "skip_check_adv_addr",
        "[BOOL]",
        "do not compare the addresses of every advert",
        |i, a| i.skip_check_adv_addr = a.boolean(),
    ),
    works("mcast_src_ip", "ADDRESS", "source of adverts", |i, a| {
        i.source_ip = a.address()
    }),
    works("unicast_src_ip", "ADDRESS", "source of adverts", |i, a| {
        i.source_ip = a.address();
        i.unicast_keyword = true;
    }),
    works(
        "mcast_dst_ip",
        "ADDRESS",
        "group adverts are sent to",
        |i, a| {
            let word = a.peek();
            let ip = a.address();
            match (ip, word) {
                (Some(ip), Some(w)) if !ip.is_multicast() => {
                    a.error_at(w, format!("{ip} is not a multicast address"))
                }
                _ => i.mcast_destination = ip,
            }
        },
    ),
    works(
        "unicast_peer",
        "{ ADDRESS [min_ttl N] [max_ttl N] ... }",
        "peers adverts are sent to",
        unicast_peers,
    ),
    works(
        "unicast_ttl",
        "0-255",
        "time to live of unicast adverts",
        |i, a| i.unicast_ttl = a.number_u8(0..=255),
    ),
    works(
        "check_unicast_src",
        "",
        "hear adverts of known peers only",
        |i, _| i.check_unicast_src = Some(true),
    ),
    no_effect(
        "old_unicast_checksum",
        "[never]",
        "the checksum of keepalived before 1.3.6 is not spoken",
    ),
    not_yet(
        "unicast_fault_no_peer",
        "",
        "an instance without peers always uses multicast",
    ),
    works(
        "track_interface",
        "{ INTERFACE [weight N] ... }",
        "interfaces that must be up",
        |i, a| tracks(&mut i.tracks.interfaces, a, Tracked::Interface),
    ),
    works(
        "track_script",
        "{ SCRIPT [weight N] ... }",
        "scripts that must succeed",
        |i, a| tracks(&mut i.tracks.scripts, a, Tracked::Script),
    ),
    works(
        "track_file",
        "{ FILE [weight N] ... }",
        "files whose number counts",
        |i, a| tracks(&mut i.tracks.files, a, Tracked::File),
    ),
    works(
        "track_process",
        "{ PROCESS [weight N] ... }",
        "programs that must run",
        |i, a| tracks(&mut i.tracks.processes, a, Tracked::Process),
    ),
    works(
        "track_bfd",
        "{ NAME [weight N] ... }",
        "BFD sessions that must be up",
        |i, a| tracks(&mut i.tracks.bfds, a, Tracked::Bfd),
    ),
    works(
        "dont_track_primary",
        "",
        "ignore faults of the instance's interface",
        |i, _| i.track_primary = false,
    ),
    works(
        "track_src_ip",
        "",
        "a fault while the source address is not on this machine",
        |i, _| i.track_src_ip = true,
    ),
    works(
        "use_vmac",
        "[NAME] [MAC]",
        "addresses on a macvlan with the virtual router's MAC",
        vmac,
    ),
    works(
        "use_vmac_addr",
        "",
        "addresses on other interfaces are on macvlans there",
        |i, _| i.vmac_addr = true,
    ),
    works(
        "vmac_xmit_base",
        "",
        "adverts through the base interface",
        |i, _| i.vmac_xmit_base = true,
    ),
    not_yet(
        "use_ipvlan",
        "[NAME] [ADDRESS] [MODE]",
        "only macvlans (use_vmac) carry virtual addresses",
    ),
    not_yet(
        "vrf",
        "INTERFACE",
        "adverts are not sent inside a VRF; start the program with `ip vrf exec`",
    ),
    no_effect("native_ipv6", "", "the addresses tell the family"),
    works(
        "accept",
        "",
        "packets to the addresses are accepted",
        |i, _| i.accept = Some(true),
    ),
    works(
        "no_accept",
        "",
        "packets to the addresses are dropped but for virtual servers' (nftables)",
        |i, _| i.accept = Some(false),
    ),
    works(
        "strict_mode",
        "[BOOL]",
        "vrrp_strict for this instance",
        |i, a| i.strict = a.boolean(),
    ),
    no_effect(
        "promote_secondaries",
        "",
        "addresses are added one by one with their own prefix",
    ),
    no_effect("debug", "LEVEL", "keepalived does nothing with it either"),
    works("smtp_alert", "[BOOL]", "changes are mailed", |i, a| {
        i.smtp_alert = a.boolean()
    }),
    not_yet(
        "kernel_rx_buf_size",
        "BYTES",
        "receive buffers have the system's size",
    ),
    no_effect("linkbeat_use_polling", "", "link state comes from netlink"),
    no_effect(
        "lvs_sync_daemon_interface",
        "INTERFACE",
        "flows are synchronized by flow_sync",
    ),
    works(
        "notify_master",
        "PROGRAM [USER [GROUP]]",
        "run on becoming master",
        |i, a| i.notify.master = a.script(),
    ),
    works(
        "notify_backup",
        "PROGRAM [USER [GROUP]]",
        "run on becoming backup",
        |i, a| i.notify.backup = a.script(),
    ),
    works(
        "notify_fault",
        "PROGRAM [USER [GROUP]]",
        "run on a fault",
        |i, a| i.notify.fault = a.script(),
    ),
    works(
        "notify_stop",
        "PROGRAM [USER [GROUP]]",
        "run at the end",
        |i, a| i.notify.stop = a.script(),
    ),
    works(
        "notify",
        "PROGRAM [USER [GROUP]]",
        "run on every change",
        |i, a| i.notify.any = a.script(),
    ),
    works(
        "notify_master_rx_lower_pri",
        "PROGRAM [USER [GROUP]]",
        "run when a master hears a lower advert",
        |i, a| i.notify.master_rx_lower_pri = a.script(),
    ),
    works(
        "notify_priority_changes",
        "[BOOL]",
        "priority changes go to the fifo",
        |i, a| i.notify_priority_changes = a.boolean(),
    ),
];

fn garp(i: &mut Instance, a: &mut Args<'_, '_>, set: fn(&mut Garp, u32)) {
    let word = a.keyword();
    let Some(mut n) = a.number_u32(0..=4_294_967) else {
        return;
    };
    if n == 0
        && matches!(
            word.text.as_str(),
            "garp_master_repeat" | "garp_master_refresh_repeat"
        )
    {
        a.dubious_at(word, format!("{} must be greater than 0", word.text));
        n = 1;
    }
    let globals = a.cx.config.globals.garp;
    set(i.garp.get_or_insert(globals), n);
}

/// `[all] SECONDS`; 0 is never.
pub(super) fn garp_extra(a: &mut Args<'_, '_>) -> Option<GarpExtra> {
    let all = a.peek().is_some_and(|w| w.text == "all");
    if all {
        a.optional();
    }
    let interval_us = u64::from(a.number_u32(0..=86_400)?) * SECOND_US;
    Some(GarpExtra { interval_us, all })
}

/// `vrrp_instance NAME { ... }`.
pub fn instance(cx: &mut Context<'_>, node: &Node) {
    let mut a = Args { node, at: 1, cx };
    let Some(word) = a.word("a name") else { return };
    if a.cx.config.instances.iter().any(|i| i.name == word.text) {
        return a.error_at(word, format!("vrrp_instance {} is here twice", word.text));
    }
    let mut i = Instance {
        name: word.text.clone(),
        state_master: false,
        interface: None,
        version: None,
        vrid: None,
        priority: None,
        advert_interval_us: SECOND_US,
        authentication: None,
        addresses: Vec::new(),
        excluded: Vec::new(),
        routes: Vec::new(),
        rules: Vec::new(),
        preempt: true,
        preempt_delay_us: 0,
        garp: None,
        lower_prio_no_advert: None,
        higher_prio_send_advert: None,
        down_timer_adverts: None,
        skip_check_adv_addr: None,
        strict: None,
        accept: None,
        source_ip: None,
        mcast_destination: None,
        unicast_peers: Vec::new(),
        unicast_keyword: false,
        unicast_ttl: None,
        check_unicast_src: None,
        tracks: Tracks::default(),
        track_primary: true,
        vmac: None,
        vmac_addr: false,
        garp_extra: None,
        track_src_ip: false,
        vmac_xmit_base: false,
        notify: Notify::default(),
        notify_priority_changes: None,
        smtp_alert: None,
    };
    block(a.block(), INSTANCE, &mut i, a.cx, "vrrp_instance");
    super::resolve::instance(&mut i, node, a.cx);
    a.cx.config.instances.push(i);
}
