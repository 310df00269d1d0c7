//! What can be said only when a block, or the whole file, is known: defaults, contradictions, references.
//!
//! Where keepalived logs and mends, the finding is `Dubious`: `check` rejects as `keepalived -t` does, `run` mends too.

use super::diagnostic::Severity;
use super::keyword::Context;
use super::model::*;
use super::tree::Node;
use std::collections::{HashMap, HashSet};

pub fn virtual_server(vs: &mut VirtualServer, node: &Node, cx: &mut Context<'_>) {
    let place = node.place();
    let mut say = |severity, message: String| cx.report(severity, place.clone(), message);
    let fwmark = matches!(vs.key, VirtualKey::Fwmark(_));
    if vs.real_servers.is_empty() {
        return say(
            Severity::Error,
            "this virtual server has no real servers".into(),
        );
    }
    match vs.protocol {
        None if !fwmark => {
            say(
                Severity::Dubious,
                "no protocol is set: UDP is assumed, as keepalived does".into(),
            );
            vs.protocol = Some(Protocol::Udp);
        }
        Some(_) if fwmark => say(Severity::Dubious, "a fwmark takes no protocol".into()),
        _ => {}
    }
    if vs.scheduler.is_none() {
        say(
            Severity::Dubious,
            "no lb_algo is set: wlc is assumed".into(),
        );
        vs.scheduler = Some(Scheduler::WeightedLeastConnection);
    }
    if vs.forwarding.is_none() && vs.real_servers.iter().any(|r| r.forwarding.is_none()) {
        say(
            Severity::Dubious,
            "no lb_kind is set: NAT is assumed".into(),
        );
    }
    vs.forwarding = vs.forwarding.or(Some(Forwarding::Nat));
    if let VirtualKey::Address(_, 0) = vs.key
        && vs.persistence_timeout_s.is_none()
    {
        say(Severity::Dubious, "a virtual server without a port is only valid with persistence: persistence_timeout 360 is assumed".into());
        vs.persistence_timeout_s = Some(360);
    }
    if let VirtualKey::Address(_, port) = vs.key {
        let forwarding = vs.forwarding;
        for rs in &mut vs.real_servers {
            let method = rs.forwarding.or(forwarding);
            if method != Some(Forwarding::Nat) && rs.port != port {
                if rs.port != 0 {
                    say(
                        Severity::Dubious,
                        format!(
                            "{} forwards without rewriting, so port {} of {} becomes {port}",
                            method.map_or("", Forwarding::name),
                            rs.port,
                            rs.address
                        ),
                    );
                }
                rs.port = port;
            } else if rs.port == 0 {
                rs.port = port;
            }
        }
    }
    let total: u64 = vs
        .real_servers
        .iter()
        .map(|r| u64::from(r.weight.unwrap_or(vs.weight)))
        .sum();
    if u64::from(vs.quorum) > total && !vs.real_servers.is_empty() {
        say(
            Severity::Dubious,
            format!(
                "quorum {} exceeds the total weight {total} of the real servers",
                vs.quorum
            ),
        );
        vs.quorum = u32::try_from(total.max(1)).unwrap_or(u32::MAX);
    }
    if vs.hysteresis >= vs.quorum && vs.hysteresis > 0 {
        say(
            Severity::Dubious,
            format!(
                "hysteresis {} must be less than the quorum {}: 0 is assumed",
                vs.hysteresis, vs.quorum
            ),
        );
        vs.hysteresis = 0;
    }
    let scheduler = vs.scheduler;
    if (vs.hash_port || vs.hash_fallback)
        && !matches!(scheduler, Some(Scheduler::SourceHash | Scheduler::Maglev))
    {
        say(
            Severity::Warning,
            "scheduler flags only apply to sh and mh".into(),
        );
    }
}

pub fn instance(i: &mut VrrpInstance, node: &Node, cx: &mut Context<'_>) {
    let place = node.place();
    let globals_version = cx.config.globals.vrrp_version;
    let globals = cx.config.globals.clone();
    let mut say = |severity, message: String| cx.report(severity, place.clone(), message);
    if i.vrid.is_none() {
        return say(Severity::Error, "virtual_router_id must be set".into());
    }
    if let Some(vmac) = i.vmac.as_mut().filter(|v| v.mac_ends_in_vrid)
        && let (Some(mac), Some(vrid)) = (&mut vmac.mac, i.vrid)
    {
        mac[5] = vrid;
    }
    // keepalived.conf(5) does not say so, but whoever says MASTER and no priority is taken for the owner.
    if i.state_master {
        i.priority.get_or_insert(255);
    }
    let strict = i.strict.unwrap_or(globals.strict);
    if strict && !super::vrrp::strict::enforce(i, &globals, &mut say) {
        return;
    }
    i.accept = Some(i.priority == Some(255) || i.accept.unwrap_or(!strict));
    if i.addresses.is_empty() {
        say(
            Severity::Dubious,
            "no virtual_ipaddress: at least one is sensible".into(),
        );
    }
    let first = i.addresses.first().or(i.excluded.first()).map(|a| a.ip);
    let Some(first) = first else { return };
    let v6 = i.addresses.first().map_or(first, |a| a.ip).is_ipv6();
    if let Some(other) = i.addresses.iter().find(|a| a.ip.is_ipv6() != v6) {
        say(
            Severity::Error,
            format!(
                "{} is of another address family than the instance: put it into virtual_ipaddress_excluded",
                other.ip
            ),
        );
    }
    if let Some(peer) = i.unicast_peers.iter().find(|p| p.address.is_ipv6() != v6) {
        say(
            Severity::Error,
            format!(
                "unicast peer {} is of another address family than the instance",
                peer.address
            ),
        );
    }
    if let Some(ip) = i.source_ip.filter(|ip| ip.is_ipv6() != v6) {
        say(
            Severity::Error,
            format!("source address {ip} is of another address family than the instance"),
        );
    }
    if i.unicast_keyword && i.unicast_peers.is_empty() {
        say(
            Severity::Dubious,
            "a unicast keyword without unicast_peer: multicast is used".into(),
        );
    }
    if i.interface.is_none() && i.unicast_peers.is_empty() {
        say(
            Severity::Error,
            "an instance that uses multicast needs an interface".into(),
        );
    }
    if i.vmac_xmit_base && i.vmac.is_none() {
        say(
            Severity::Dubious,
            "vmac_xmit_base is of no use without use_vmac".into(),
        );
    }
    if i.vmac.is_some() && !i.unicast_peers.is_empty() && !i.vmac_xmit_base {
        say(
            Severity::Dubious,
            "use_vmac with unicast peers: adverts leave through the interface itself (vmac_xmit_base)"
                .into(),
        );
        i.vmac_xmit_base = true;
    }
    if i.unicast_peers.len() > 255 {
        say(Severity::Error, "more than 255 unicast peers".into());
    }
    if i.addresses.len() > 255 {
        say(
            Severity::Error,
            "an advert holds at most 255 addresses: put the others into virtual_ipaddress_excluded"
                .into(),
        );
    }
    if v6 && i.version == Some(2) {
        say(Severity::Dubious, "IPv6 needs version 3".into());
    }
    let version = if v6 {
        3
    } else {
        i.version.unwrap_or(globals_version)
    };
    i.version = Some(version);
    advert_interval(i, version, &mut say);
    authentication(i, version, &mut say);
    let owner = i.priority == Some(255);
    if i.state_master && !i.preempt && !owner {
        say(
            Severity::Dubious,
            "nopreempt does not work with initial state MASTER: the instance starts as BACKUP"
                .into(),
        );
        i.state_master = false;
    } else if owner && !i.preempt {
        say(
            Severity::Dubious,
            "an owner (priority 255) always preempts".into(),
        );
        i.preempt = true;
    }
    if i.state_master && i.preempt_delay_us > 0 {
        say(
            Severity::Dubious,
            "preempt_delay does not work with initial state MASTER".into(),
        );
        i.preempt_delay_us = 0;
    }
    let own = i.interface.clone();
    let before = i.tracks.interfaces.len();
    i.tracks
        .interfaces
        .retain(|t| Some(&t.name) != own.as_ref());
    if i.tracks.interfaces.len() != before {
        say(
            Severity::Dubious,
            "track_interface names the instance's own interface, which is tracked anyway".into(),
        );
    }
}

fn advert_interval(i: &mut VrrpInstance, version: u8, say: &mut impl FnMut(Severity, String)) {
    let us = i.advert_interval_us;
    if version == 2 && !us.is_multiple_of(SECOND_US) {
        i.advert_interval_us = us.div_ceil(SECOND_US).max(1) * SECOND_US;
        say(
            Severity::Dubious,
            format!(
                "VRRPv2 counts whole seconds: advert_int becomes {}",
                i.advert_interval_us / SECOND_US
            ),
        );
    } else if version == 3 && us > 40_950_000 {
        i.advert_interval_us = 40_950_000;
        say(
            Severity::Dubious,
            "VRRPv3 counts up to 40.95 seconds: advert_int becomes 40.95".into(),
        );
    } else if version == 3 && !us.is_multiple_of(10_000) {
        i.advert_interval_us = (us + 5_000) / 10_000 * 10_000;
        say(
            Severity::Dubious,
            "VRRPv3 counts hundredths of a second: advert_int is rounded".into(),
        );
    }
}

fn authentication(i: &mut VrrpInstance, version: u8, say: &mut impl FnMut(Severity, String)) {
    let Some(auth) = &i.authentication else {
        return;
    };
    if version == 3 {
        say(
            Severity::Dubious,
            "VRRPv3 has no authentication: it is left out".into(),
        );
        i.authentication = None;
    } else if auth.pass.is_none() {
        say(
            Severity::Dubious,
            "authentication without auth_pass: it is left out".into(),
        );
        i.authentication = None;
    } else if auth.kind.is_none() {
        i.authentication = None;
    }
}

/// Everything that refers to something else.
pub fn whole(cx: &mut Context<'_>) {
    let mut config = std::mem::take(&mut cx.config);
    let mut findings: Vec<(Severity, String)> = Vec::new();
    groups(&config, &mut findings);
    routers(&config, &mut findings);
    sync_groups(&config, &mut findings);
    trackers(&config, &mut findings);
    missing_scripts(&mut config, &mut findings);
    for (severity, message) in findings {
        cx.report(severity, None, message);
    }
    mail(&config, cx);
    readers(&config, cx);
    let usual = match &config.globals.script_user {
        Some(user) => user.user.as_str(),
        None if cx.host.user_exists("keepalived_script") == Some(true) => "keepalived_script",
        None => "root",
    };
    let nobody_named = config.globals.script_user.is_none() && usual == "root";
    if config.globals.script_security && nobody_named && cx.script_users.contains(&None) {
        cx.report(
            Severity::Dubious,
            None,
            "enable_script_security, and no user for scripts: say script_user in global_defs",
        );
    }
    let mut users = cx.script_users.iter();
    let as_root = users.any(|user| matches!(user.as_deref().unwrap_or(usual), "root" | "0"));
    if as_root && !config.globals.script_security {
        cx.report(
            Severity::Dubious,
            None,
            "scripts run as root: say enable_script_security in global_defs, or another script_user",
        );
    }
    cx.config = config;
}

fn groups(config: &Config, findings: &mut Vec<(Severity, String)>) {
    for vs in &config.virtual_servers {
        let VirtualKey::Group(name) = &vs.key else {
            continue;
        };
        let Some(group) = config.groups.iter().find(|g| g.name == *name) else {
            // keepalived -t does not look; a running keepalived drops the virtual server.
            findings.push((
                Severity::Unsupported,
                format!("virtual_server group {name}: no virtual_server_group of that name"),
            ));
            continue;
        };
        for entry in &group.entries {
            let GroupEntry::Range(first, _, port) = entry else {
                continue;
            };
            if *port == 0 && vs.persistence_timeout_s.is_none() {
                findings.push((
                    Severity::Dubious,
                    format!(
                        "group {name}: {first} has no port, which is only valid with persistence"
                    ),
                ));
            }
            for rs in &vs.real_servers {
                let method = rs.forwarding.or(vs.forwarding);
                if method != Some(Forwarding::Nat) && rs.port != *port && rs.port != 0 {
                    findings.push((
                        Severity::Dubious,
                        format!(
                            "group {name}: port {} of real server {} differs from {first} {port}",
                            rs.port, rs.address
                        ),
                    ));
                }
                if rs.address.is_ipv4() != first.is_ipv4() && method != Some(Forwarding::Tunnel) {
                    findings.push((Severity::Unsupported, format!("group {name}: {first} and real server {} are of different address families", rs.address)));
                }
            }
        }
    }
}

fn routers(config: &Config, findings: &mut Vec<(Severity, String)>) {
    let mut seen: HashMap<(Option<&str>, bool, u8), &str> = HashMap::new();
    for i in &config.instances {
        let Some(vrid) = i
            .vrid
            .filter(|_| i.unicast_peers.is_empty() && i.mcast_destination.is_none())
        else {
            continue;
        };
        let v6 = i
            .addresses
            .first()
            .or(i.excluded.first())
            .is_some_and(|a| a.ip.is_ipv6());
        if let Some(other) = seen.insert((i.interface.as_deref(), v6, vrid), &i.name) {
            findings.push((
                Severity::Error,
                format!(
                    "{other} and {} both use virtual_router_id {vrid} on {}",
                    i.name,
                    i.interface.as_deref().unwrap_or("no interface")
                ),
            ));
        }
    }
}

fn sync_groups(config: &Config, findings: &mut Vec<(Severity, String)>) {
    let mut member_of: HashMap<&str, &str> = HashMap::new();
    for group in &config.sync_groups {
        let known = group
            .members
            .iter()
            .filter(|m| config.instances.iter().any(|i| i.name == **m))
            .count();
        for member in group
            .members
            .iter()
            .filter(|m| !config.instances.iter().any(|i| i.name == **m))
        {
            findings.push((
                Severity::Error,
                format!("sync group {}: no vrrp_instance {member}", group.name),
            ));
        }
        for member in &group.members {
            if let Some(other) = member_of.insert(member, &group.name) {
                findings.push((
                    Severity::Error,
                    format!("{member} is in the sync groups {other} and {}", group.name),
                ));
            }
        }
        if known == 1 {
            findings.push((
                Severity::Dubious,
                format!("sync group {} has only one instance", group.name),
            ));
        } else if group.members.is_empty() {
            findings.push((
                Severity::Error,
                format!("sync group {} has no instances", group.name),
            ));
        }
    }
}

/// The fifos' readers that will run are scripts like others.
fn readers(config: &Config, cx: &mut Context<'_>) {
    let g = &config.globals;
    let (routers, servers) = (
        !config.instances.is_empty(),
        !config.virtual_servers.is_empty(),
    );
    for (script, told) in [
        (&g.fifo_script, routers || servers),
        (&g.vrrp_fifo_script, routers),
        (&g.lvs_fifo_script, servers),
    ] {
        let Some(script) = script.as_ref().filter(|_| told) else {
            continue;
        };
        let program = script.argv.first().map_or("", |a| a);
        if cx.host.executable_exists(program) == Some(true) {
            let user = script.user.as_ref().map(|u| u.user.clone());
            cx.script_users.push(user);
        }
    }
}

/// Alerts that are asked for and cannot leave.
fn mail(config: &Config, cx: &mut Context<'_>) {
    let mail = &config.globals.mail;
    let servers = config.virtual_servers.iter();
    let asked = config.instances.iter().any(|i| mail.vrrp(i.smtp_alert))
        || config.sync_groups.iter().any(|g| mail.vrrp(g.smtp_alert))
        || servers.clone().any(|v| mail.checker(v.smtp_alert))
        || servers
            .flat_map(|v| &v.real_servers)
            .any(|r| mail.checker(r.smtp_alert));
    if asked && (mail.server.is_none() || mail.to.is_empty()) {
        cx.report(
            Severity::Warning,
            None,
            "smtp_alert: no mail is sent without smtp_server and notification_email in global_defs",
        );
    }
}

/// As keepalived, an instance does not wait for a script that is not there.
fn missing_scripts(config: &mut Config, findings: &mut Vec<(Severity, String)>) {
    let missing: Vec<String> = config
        .scripts
        .iter()
        .filter(|s| s.missing)
        .map(|s| s.name.clone())
        .collect();
    let instances = config.instances.iter_mut().map(|i| &mut i.tracks);
    let groups = config.sync_groups.iter_mut().map(|g| &mut g.tracks);
    let mut tracked = HashSet::new();
    for tracks in instances.chain(groups) {
        tracks.scripts.retain(|t| {
            let there = !missing.contains(&t.name);
            if !there && tracked.insert(t.name.clone()) {
                findings.push((
                    Severity::Dubious,
                    format!(
                        "vrrp_script {} is not tracked: its program is not there",
                        t.name
                    ),
                ));
            }
            there
        });
    }
}

fn trackers(config: &Config, findings: &mut Vec<(Severity, String)>) {
    let scripts: HashSet<&str> = config.scripts.iter().map(|s| s.name.as_str()).collect();
    let files: HashSet<&str> = config.track_files.iter().map(|s| s.name.as_str()).collect();
    let processes: HashSet<&str> = config
        .track_processes
        .iter()
        .map(|s| s.name.as_str())
        .collect();
    let all = config
        .instances
        .iter()
        .map(|i| (&i.name, &i.tracks))
        .chain(config.sync_groups.iter().map(|g| (&g.name, &g.tracks)));
    for (owner, tracks) in all {
        for (list, known, what) in [
            (&tracks.scripts, &scripts, "vrrp_script"),
            (&tracks.files, &files, "track_file"),
            (&tracks.processes, &processes, "vrrp_track_process"),
        ] {
            for track in list.iter().filter(|t| !known.contains(t.name.as_str())) {
                findings.push((
                    Severity::Error,
                    format!("{owner}: no {what} {}", track.name),
                ));
            }
        }
    }
}
