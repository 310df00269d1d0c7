//! What can be said only when a block, or the whole file, is known: defaults, contradictions, references.
//!
//! Where keepalived logs and mends, the finding is `Dubious`: `check` rejects as `keepalived -t` does, `run` mends too.

use super::diagnostic::Severity;
use super::keyword::Context;
use super::model::*;
use std::collections::{HashMap, HashSet};

mod instance;
mod server;

pub use instance::instance;
pub use server::virtual_server;

/// What keepalived calls a security violation; `keepalived -t` then exits with 6 instead of 5.
pub const SCRIPTS_AS_ROOT: &str =
    "scripts run as root: say enable_script_security in global_defs, or another script_user";

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
        cx.report(Severity::Dubious, None, SCRIPTS_AS_ROOT);
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
