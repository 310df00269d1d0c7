//! A virtual server when its block is read: defaults and contradictions.

use crate::config::diagnostic::Severity;
use crate::config::keyword::Context;
use crate::config::model::*;
use crate::config::tree::Node;

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
