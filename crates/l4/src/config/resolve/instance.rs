//! An instance when its block is read: defaults, contradictions, what its version can do.

use crate::config::diagnostic::Severity;
use crate::config::keyword::Context;
use crate::config::model::*;
use crate::config::tree::Node;
use crate::config::vrrp::strict;

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
    if strict && !strict::enforce(i, &globals, &mut say) {
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
    let kind = i.authentication.as_ref().and_then(|auth| auth.kind);
    let ah = matches!(kind, Some(AuthKind::Ah));
    if i.state_master && !i.preempt && !owner {
        say(
            Severity::Dubious,
            "nopreempt does not work with initial state MASTER: the instance starts as BACKUP"
                .into(),
        );
        i.state_master = false;
    } else if i.state_master && ah && !owner {
        say(
            Severity::Dubious,
            "AH authentication does not work with initial state MASTER".into(),
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
