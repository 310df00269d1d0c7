//! `vrrp_strict`, `strict_mode`: what the RFCs do not have is put right or refused, as keepalived 2.2.7 does it. Packets to an
//! address that is not owned are not accepted (see [`crate::netlink::firewall`]).

use crate::config::Severity;
use crate::config::model::{Globals, VrrpInstance};
use std::net::IpAddr;

/// Judges an instance in strict mode. Gives false where it cannot be.
pub fn enforce(
    i: &mut VrrpInstance,
    globals: &Globals,
    say: &mut impl FnMut(Severity, String),
) -> bool {
    let Some(first) = i.addresses.first().map(|a| a.ip) else {
        say(
            Severity::Error,
            "strict mode needs at least one virtual_ipaddress".into(),
        );
        return false;
    };
    if let IpAddr::V6(ip) = first
        && !ip.is_unicast_link_local()
    {
        say(
            Severity::Error,
            format!("strict mode: the first IPv6 address must be link local, {ip} is not"),
        );
        return false;
    }
    if !i.unicast_peers.is_empty() {
        say(
            Severity::Unsupported,
            "strict mode has no unicast peers: say strict_mode off in the instance".into(),
        );
    }
    let mut reset = |wrong: bool, what: &str| {
        if wrong {
            say(Severity::Dubious, format!("strict mode: {what}"));
        }
    };
    let owner = i.priority == Some(255);
    let v2 = first.is_ipv4() && i.version.unwrap_or(globals.vrrp_version) == 2;
    reset(
        i.authentication.take().is_some(),
        "authentication is left out",
    );
    reset(
        i.state_master && !owner,
        "state MASTER is the owner's (priority 255): the instance starts as BACKUP",
    );
    i.state_master &= owner;
    reset(i.preempt_delay_us > 0, "preempt_delay is left out");
    i.preempt_delay_us = 0;
    reset(
        i.accept == Some(true) && v2,
        "accept is left out: VRRPv2 has none",
    );
    if v2 {
        i.accept = Some(false);
    }
    let mut garp = i.garp.unwrap_or(globals.garp);
    let repeats = |g: &crate::config::model::Garp| (g.lower_prio_repeat, g.lower_prio_delay_s);
    reset(
        i.garp.is_some() && repeats(&garp) != repeats(&globals.garp),
        "gratuitous ARPs are not repeated after a lower advert",
    );
    (garp.lower_prio_repeat, garp.lower_prio_delay_s) = (0, 0);
    i.garp = Some(garp);
    reset(
        i.lower_prio_no_advert == Some(false),
        "a lower advert is not answered",
    );
    i.lower_prio_no_advert = Some(true);
    reset(
        i.higher_prio_send_advert == Some(true),
        "no advert is sent before giving way",
    );
    i.higher_prio_send_advert = Some(false);
    reset(
        i.vmac_xmit_base,
        "adverts leave through the macvlan, not its base",
    );
    i.vmac_xmit_base = false;
    reset(
        i.down_timer_adverts.is_some_and(|n| n != 3),
        "the master is down after three adverts",
    );
    i.down_timer_adverts = Some(3);
    if let Some(vmac) = &mut i.vmac {
        reset(
            vmac.mac.take().is_some(),
            "the macvlan has the virtual router's own MAC",
        );
    }
    true
}

#[cfg(test)]
mod tests {
    use crate::config::model::VrrpInstance;
    use crate::config::{NoHost, Severity, parse};

    /// Reads an instance with these lines in strict mode, and its findings.
    fn read(lines: &str) -> (VrrpInstance, Vec<(Severity, String)>) {
        let vip = if lines.contains("virtual_ipaddress") {
            ""
        } else {
            "virtual_ipaddress {\n 10.0.0.1\n}\n"
        };
        let text = format!(
            "global_defs {{\n vrrp_strict\n}}\nvrrp_instance V {{\n interface eth0\n virtual_router_id 9\n{vip}{lines}\n}}\n"
        );
        let (config, d) = parse(&NoHost, "t", &text, "");
        let found = d.into_iter().map(|d| (d.severity, d.message));
        (config.instances[0].clone(), found.collect())
    }

    fn check(lines: &str, expect: Option<(Severity, &str)>) -> VrrpInstance {
        let (i, found) = read(lines);
        match expect {
            None => assert!(found.is_empty(), "{lines}: {found:?}"),
            Some((severity, part)) => assert!(
                found
                    .iter()
                    .any(|(s, m)| *s == severity && m.contains(part)),
                "{lines}: {found:?}"
            ),
        }
        i
    }

    #[test]
    fn what_the_rfcs_have_is_accepted() {
        let i = check("", None);
        assert_eq!(i.lower_prio_no_advert, Some(true));
        assert_eq!(i.garp.unwrap().lower_prio_repeat, 0);
        assert_eq!(i.accept, Some(false));
        let i = check("version 3\nadvert_int 0.1\naccept", None);
        assert_eq!(i.accept, Some(true));
        let i = check("priority 255\nstate MASTER", None);
        assert!(i.state_master);
        assert_eq!(i.accept, Some(true));
        assert_eq!(check("state MASTER", None).priority, Some(255));
        assert_eq!(check("strict_mode off", None).accept, Some(true));
        check("version 3\nvirtual_ipaddress {\n fe80::1\n}", None);
        check("nopreempt", None);
    }

    #[test]
    fn what_they_do_not_have_is_put_right() {
        let dubious = |part| Some((Severity::Dubious, part));
        let i = check("state MASTER\npriority 254", dubious("MASTER"));
        assert!(!i.state_master);
        let auth = "authentication {\n auth_type PASS\n auth_pass x\n}";
        assert_eq!(check(auth, dubious("authentication")).authentication, None);
        let i = check("preempt_delay 5", dubious("preempt_delay"));
        assert_eq!(i.preempt_delay_us, 0);
        let i = check("higher_prio_send_advert", dubious("giving way"));
        assert_eq!(i.higher_prio_send_advert, Some(false));
        check("garp_lower_prio_repeat 3", dubious("repeated"));
        assert_eq!(check("accept", dubious("accept")).accept, Some(false));
        let i = check("use_vmac\nvmac_xmit_base", dubious("base"));
        assert!(!i.vmac_xmit_base);
    }

    #[test]
    fn what_cannot_be_put_right_is_refused() {
        let excluded = "virtual_ipaddress_excluded {\n 10.0.0.1\n}\nvirtual_ipaddress {\n}";
        check(excluded, Some((Severity::Error, "at least one")));
        let global = "version 3\nvirtual_ipaddress {\n fd00::1\n}";
        check(global, Some((Severity::Error, "link local")));
        let unicast = "unicast_peer {\n 10.0.0.2\n}";
        check(unicast, Some((Severity::Unsupported, "unicast")));
        check(&format!("{unicast}\nstrict_mode off"), None);
    }
}
