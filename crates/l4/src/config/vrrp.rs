//! `vrrp_instance`, `vrrp_sync_group`, `vrrp_script`, `track_file`, `vrrp_track_process`.

use super::address;
use super::diagnostic::Severity;
use super::keyword::{Args, Context, Keyword, block, no_effect, not_yet, split_command, works};
use super::model::*;
use super::tree::Node;

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
        |i, a| address::routes(&mut i.routes, a),
    ),
    not_yet(
        "virtual_rules",
        "{ RULE ... }",
        "policy routing rules are not written",
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
    not_yet(
        "garp_extra_if",
        "[all] SECONDS",
        "adverts keep only the instance's own interface fresh",
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
    not_yet("track_bfd", "{ NAME ... }", "BFD is not written"),
    works(
        "dont_track_primary",
        "",
        "ignore faults of the instance's interface",
        |i, _| i.track_primary = false,
    ),
    not_yet("track_src_ip", "", "the source address is not watched"),
    works(
        "use_vmac",
        "[NAME] [MAC]",
        "addresses on a macvlan with the virtual router's MAC",
        vmac,
    ),
    not_yet(
        "use_vmac_addr",
        "",
        "macvlans are made for the instance's interface only",
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
        "ipvlan is not written",
    ),
    not_yet("vrf", "INTERFACE", "VRF is not written"),
    no_effect("native_ipv6", "", "the addresses tell the family"),
    no_effect(
        "accept",
        "",
        "packets to the addresses are accepted unless no_accept",
    ),
    not_yet("no_accept", "", "no firewall rules are made"),
    not_yet("strict_mode", "[BOOL]", "no firewall rules are made"),
    no_effect(
        "promote_secondaries",
        "",
        "addresses are added one by one with their own prefix",
    ),
    no_effect("debug", "LEVEL", "keepalived does nothing with it either"),
    not_yet("smtp_alert", "[BOOL]", "no mail is sent; use notify"),
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
    no_effect(
        "garp_extra_if_vmac",
        "SECONDS",
        "kept fresh by the adverts themselves",
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

static AUTHENTICATION: &[Keyword<Authentication>] = &[
    works(
        "auth_type",
        "PASS|AH",
        "kind of authentication",
        |auth, a| {
            let Some(word) = a.word("PASS or AH") else {
                return;
            };
            match word.text.as_str() {
                "PASS" => auth.kind = Some(AuthKind::Pass),
                "AH" => {
                    auth.kind = Some(AuthKind::Ah);
                    a.cx.report(
                        Severity::Unsupported,
                        Some(word.place()),
                        "AH authentication is not supported; RFC 3768 removed it",
                    );
                }
                _ => a.error_at(
                    word,
                    format!("authentication type '{}' is neither PASS nor AH", word.text),
                ),
            }
        },
    ),
    works("auth_pass", "PASSWORD", "up to 8 characters", |auth, a| {
        let Some(word) = a.word("a password") else {
            return;
        };
        let mut pass = [0; 8];
        for (to, from) in pass.iter_mut().zip(word.text.bytes()) {
            *to = from;
        }
        if word.text.len() > 8 {
            a.dubious_at(word, "only the first 8 characters of a password are sent");
        }
        auth.pass = Some(pass);
    }),
];

fn unicast_peers(i: &mut Instance, a: &mut Args<'_, '_>) {
    i.unicast_keyword = true;
    for node in a.block() {
        let mut e = Args {
            node,
            at: 0,
            cx: a.cx,
        };
        let Some(address) = e.address() else { continue };
        let mut peer = UnicastPeer {
            address,
            ttl_min: None,
            ttl_max: None,
        };
        while let Some(word) = e.optional() {
            match word.text.as_str() {
                "min_ttl" => peer.ttl_min = e.number_u8(0..=255),
                "max_ttl" => peer.ttl_max = e.number_u8(0..=255),
                _ => e.error_at(
                    word,
                    format!("'{}' is neither min_ttl nor max_ttl", word.text),
                ),
            }
        }
        i.unicast_peers.push(peer);
    }
}

fn vmac(i: &mut Instance, a: &mut Args<'_, '_>) {
    let mut vmac = Vmac::default();
    while let Some(word) = a.optional() {
        if word.text.contains(':') {
            vmac.mac = mac(&word.text);
            if vmac.mac.is_none_or(|m| m[0] & 1 == 1) {
                a.error_at(
                    word,
                    format!("'{}' is not a unicast MAC address", word.text),
                );
            }
        } else if word.text.len() > 15 {
            a.error_at(word, "an interface name has at most 15 characters");
        } else {
            vmac.name = Some(word.text.clone());
        }
    }
    i.vmac = Some(vmac);
}

fn mac(text: &str) -> Option<[u8; 6]> {
    let mut out = [0; 6];
    let mut parts = text.split(':');
    for byte in &mut out {
        *byte = u8::from_str_radix(parts.next()?, 16).ok()?;
    }
    parts.next().is_none().then_some(out)
}

enum Tracked {
    Interface,
    Script,
    File,
    Process,
}

/// Lines of a `track_*` block: NAME [weight N [reverse|noreverse]].
fn tracks(list: &mut Vec<Track>, a: &mut Args<'_, '_>, what: Tracked) {
    for node in a.block() {
        let mut e = Args {
            node,
            at: 0,
            cx: a.cx,
        };
        let Some(word) = e.optional() else { continue };
        let known = match what {
            Tracked::Interface => {
                e.cx.interface(word);
                true
            }
            // Scripts, files and processes may be defined later in the file: resolved at the end.
            Tracked::Script | Tracked::File | Tracked::Process => true,
        };
        let mut track = Track {
            name: word.text.clone(),
            weight: None,
            reverse: false,
        };
        let limit = if matches!(what, Tracked::Interface | Tracked::Script) {
            253
        } else {
            254
        };
        while let Some(option) = e.optional() {
            match option.text.as_str() {
                "weight" => track.weight = e.number(-limit..=limit).map(|n| n as i32),
                "reverse" => track.reverse = true,
                "noreverse" | "no_reverse" => track.reverse = false,
                _ => e.error_at(
                    option,
                    format!("'{}' is neither weight nor reverse", option.text),
                ),
            }
        }
        if known {
            list.push(track);
        }
    }
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
        preempt: true,
        preempt_delay_us: 0,
        garp: None,
        lower_prio_no_advert: None,
        higher_prio_send_advert: None,
        down_timer_adverts: None,
        skip_check_adv_addr: None,
        source_ip: None,
        mcast_destination: None,
        unicast_peers: Vec::new(),
        unicast_keyword: false,
        unicast_ttl: None,
        check_unicast_src: None,
        tracks: Tracks::default(),
        track_primary: true,
        vmac: None,
        vmac_xmit_base: false,
        notify: Notify::default(),
        notify_priority_changes: None,
    };
    block(a.block(), INSTANCE, &mut i, a.cx, "vrrp_instance");
    super::resolve::instance(&mut i, node, a.cx);
    a.cx.config.instances.push(i);
}

pub static SYNC_GROUP: &[Keyword<SyncGroup>] = &[
    works(
        "group",
        "{ INSTANCE ... }",
        "instances that change together",
        |g, a| {
            for node in a.block() {
                g.members.extend(node.words.iter().map(|w| w.text.clone()));
            }
        },
    ),
    works(
        "track_interface",
        "{ INTERFACE [weight N] ... }",
        "interfaces that must be up",
        |g, a| tracks(&mut g.tracks.interfaces, a, Tracked::Interface),
    ),
    works(
        "track_script",
        "{ SCRIPT [weight N] ... }",
        "scripts that must succeed",
        |g, a| tracks(&mut g.tracks.scripts, a, Tracked::Script),
    ),
    works(
        "track_file",
        "{ FILE [weight N] ... }",
        "files whose number counts",
        |g, a| tracks(&mut g.tracks.files, a, Tracked::File),
    ),
    works(
        "track_process",
        "{ PROCESS [weight N] ... }",
        "programs that must run",
        |g, a| tracks(&mut g.tracks.processes, a, Tracked::Process),
    ),
    not_yet("track_bfd", "{ NAME ... }", "BFD is not written"),
    works(
        "notify_master",
        "PROGRAM [USER [GROUP]]",
        "run on becoming master",
        |g, a| g.notify.master = a.script(),
    ),
    works(
        "notify_backup",
        "PROGRAM [USER [GROUP]]",
        "run on becoming backup",
        |g, a| g.notify.backup = a.script(),
    ),
    works(
        "notify_fault",
        "PROGRAM [USER [GROUP]]",
        "run on a fault",
        |g, a| g.notify.fault = a.script(),
    ),
    works(
        "notify_stop",
        "PROGRAM [USER [GROUP]]",
        "run at the end",
        |g, a| g.notify.stop = a.script(),
    ),
    works(
        "notify",
        "PROGRAM [USER [GROUP]]",
        "run on every change",
        |g, a| g.notify.any = a.script(),
    ),
    not_yet(
        "notify_priority_changes",
        "[BOOL]",
        "groups report no priorities",
    ),
    not_yet("smtp_alert", "[BOOL]", "no mail is sent; use notify"),
    no_effect(
        "global_tracking",
        "",
        "group tracking always applies to all members",
    ),
    no_effect(
        "sync_group_tracking_weight",
        "",
        "members keep the weights they are given",
    ),
];

pub fn sync_group(cx: &mut Context<'_>, node: &Node) {
    let mut a = Args { node, at: 1, cx };
    let Some(word) = a.word("a name") else { return };
    if a.cx.config.sync_groups.iter().any(|g| g.name == word.text) {
        return a.error_at(word, format!("vrrp_sync_group {} is here twice", word.text));
    }
    let mut group = SyncGroup {
        name: word.text.clone(),
        ..SyncGroup::default()
    };
    block(a.block(), SYNC_GROUP, &mut group, a.cx, "vrrp_sync_group");
    a.cx.config.sync_groups.push(group);
}

pub static SCRIPT: &[Keyword<TrackedScript>] = &[
    works(
        "script",
        "PROGRAM",
        "the program and its arguments",
        |s, a| {
            let Some(word) = a.word("a program") else {
                return;
            };
            let mut argv = split_command(&word.text);
            if !word.quoted {
                argv.extend(std::iter::from_fn(|| a.optional().map(|w| w.text.clone())));
            }
            let user = s.script.take().and_then(|s| s.user);
            if let Some(program) = argv.first()
                && a.cx.host.executable_exists(program) == Some(false)
            {
                a.cx.report(
                    Severity::Warning,
                    Some(word.place()),
                    format!("{program} does not exist or may not be executed"),
                );
            }
            s.script = Some(Script { argv, user });
        },
    ),
    works("interval", "SECONDS", "time between runs", |s, a| {
        let word = a.keyword();
        let Some(n) = a.number_u32(0..=4294) else {
            return;
        };
        if n == 0 {
            a.dubious_at(word, "interval must be greater than 0");
        }
        s.interval_us = u64::from(n.max(1)) * SECOND_US;
    }),
    works("timeout", "SECONDS", "time a run may take", |s, a| {
        let word = a.keyword();
        let Some(n) = a.number_u32(0..=4294) else {
            return;
        };
        if n == 0 {
            a.dubious_at(word, "timeout must be greater than 0");
        }
        s.timeout_us = Some(u64::from(n.max(1)) * SECOND_US);
    }),
    works(
        "weight",
        "-253..253 [reverse]",
        "added to the priority",
        |s, a| {
            s.weight = a.number(-253..=253).unwrap_or(0) as i32;
            s.reverse = reverse(a);
        },
    ),
    works(
        "rise",
        "COUNT",
        "successes until it counts as up",
        |s, a| s.rise = a.number_u32(1..=2_147_483_647).unwrap_or(1),
    ),
    works(
        "fall",
        "COUNT",
        "failures until it counts as down",
        |s, a| s.fall = a.number_u32(1..=2_147_483_647).unwrap_or(1),
    ),
    works("user", "USER [GROUP]", "who runs the program", |s, a| {
        let Some(user) = a.text("a user") else { return };
        let user = Some(ScriptUser {
            user,
            group: a.optional().map(|g| g.text.clone()),
        });
        match &mut s.script {
            Some(script) => script.user = user,
            None => {
                s.script = Some(Script {
                    argv: Vec::new(),
                    user,
                })
            }
        }
    }),
    works("init_fail", "", "starts as failed", |s, _| {
        s.init_fail = true
    }),
];

fn reverse(a: &mut Args<'_, '_>) -> bool {
    let found = a.peek().is_some_and(|w| w.text == "reverse");
    if found {
        a.optional();
    }
    found
}

pub fn script(cx: &mut Context<'_>, node: &Node) {
    let mut a = Args { node, at: 1, cx };
    let Some(word) = a.word("a name") else { return };
    let mut s = TrackedScript {
        name: word.text.clone(),
        script: None,
        interval_us: SECOND_US,
        timeout_us: None,
        weight: 0,
        reverse: false,
        rise: 1,
        fall: 1,
        init_fail: false,
    };
    block(a.block(), SCRIPT, &mut s, a.cx, "vrrp_script");
    if s.script.as_ref().is_none_or(|s| s.argv.is_empty()) {
        return a.error_at(word, format!("vrrp_script {} has no script", word.text));
    }
    a.cx.config.scripts.push(s);
}

pub static TRACK_FILE: &[Keyword<TrackFile>] = &[
    works("file", "PATH", "the file to watch", |f, a| {
        f.path = a.text("a path").unwrap_or_default()
    }),
    works(
        "weight",
        "WEIGHT [reverse]",
        "factor for the number read",
        |f, a| {
            f.weight = a.number(-2_147_483_647..=2_147_483_647).unwrap_or(1) as i32;
            f.reverse = reverse(a);
        },
    ),
    works(
        "init_file",
        "[VALUE] [overwrite]",
        "write the file at the start",
        |f, a| {
            let mut init = (0, false);
            while let Some(word) = a.peek() {
                if word.text == "overwrite" {
                    init.1 = true;
                    a.optional();
                } else {
                    init.0 = a.number(-2_147_483_648..=2_147_483_648).unwrap_or(0);
                }
            }
            f.init = Some(init);
        },
    ),
];

pub fn track_file(cx: &mut Context<'_>, node: &Node) {
    let mut a = Args { node, at: 1, cx };
    let Some(word) = a.word("a name") else { return };
    let mut f = TrackFile {
        name: word.text.clone(),
        path: String::new(),
        weight: 1,
        reverse: false,
        init: None,
    };
    block(a.block(), TRACK_FILE, &mut f, a.cx, "track_file");
    if f.path.is_empty() {
        return a.error_at(word, format!("track_file {} has no file", word.text));
    }
    a.cx.config.track_files.push(f);
}

pub static TRACK_PROCESS: &[Keyword<TrackProcess>] = &[
    works("process", "NAME [PARAMETER ...]", "the program", |p, a| {
        p.command = std::iter::from_fn(|| a.optional().map(|w| w.text.clone())).collect();
        if p.command.is_empty() {
            a.word("a program name");
        }
    }),
    works(
        "param_match",
        "initial|partial",
        "how parameters are compared",
        |p, a| {
            let Some(word) = a.word("initial or partial") else {
                return;
            };
            p.param_match = match word.text.as_str() {
                "initial" => ParamMatch::Initial,
                "partial" => ParamMatch::Partial,
                _ => {
                    return a.error_at(
                        word,
                        format!("'{}' is neither initial nor partial", word.text),
                    );
                }
            };
        },
    ),
    works(
        "weight",
        "-254..254 [reverse]",
        "added to the priority",
        |p, a| {
            p.weight = a.number(-254..=254).unwrap_or(1) as i32;
            p.reverse = reverse(a);
        },
    ),
    works("quorum", "COUNT", "fewest processes", |p, a| {
        p.quorum = a.number_u32(1..=65535).unwrap_or(1)
    }),
    works("quorum_max", "COUNT", "most processes", |p, a| {
        p.quorum_max = a.number_u32(0..=65535).unwrap_or(65535)
    }),
    works(
        "fork_delay",
        "SECONDS",
        "wait before it counts as up",
        |p, a| p.fork_delay_us = a.seconds(0.000_001..=3600.0).unwrap_or(0),
    ),
    works(
        "terminate_delay",
        "SECONDS",
        "wait before it counts as down",
        |p, a| p.terminate_delay_us = a.seconds(0.000_001..=3600.0).unwrap_or(0),
    ),
    works("delay", "SECONDS", "both delays", |p, a| {
        p.fork_delay_us = a.seconds(0.000_001..=3600.0).unwrap_or(0);
        p.terminate_delay_us = p.fork_delay_us;
    }),
    works(
        "full_command",
        "",
        "compare the whole command line",
        |p, _| p.full_command = true,
    ),
];

pub fn track_process(cx: &mut Context<'_>, node: &Node) {
    let mut a = Args { node, at: 1, cx };
    let Some(word) = a.word("a name") else { return };
    let mut p = TrackProcess {
        name: word.text.clone(),
        command: Vec::new(),
        param_match: ParamMatch::Any,
        weight: 1,
        reverse: false,
        quorum: 1,
        quorum_max: 65535,
        fork_delay_us: 0,
        terminate_delay_us: 0,
        full_command: false,
    };
    block(a.block(), TRACK_PROCESS, &mut p, a.cx, "vrrp_track_process");
    if p.command.is_empty() {
        return a.error_at(
            word,
            format!("vrrp_track_process {} has no process", word.text),
        );
    }
    if p.param_match == ParamMatch::Any && p.command.len() > 1 {
        p.param_match = ParamMatch::Exact;
    }
    a.cx.config.track_processes.push(p);
}
