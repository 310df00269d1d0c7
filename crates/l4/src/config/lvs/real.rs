//! `real_server`.

use super::{DELAY_MAX_S, MICROSECOND, TIMEOUT_MAX_S, WEIGHT_MAX, forwarding};
use crate::config::checker;
use crate::config::keyword::{Args, Keyword, block, no_effect, works};
use crate::config::model::*;

pub(super) fn real_server(v: &mut VirtualServer, a: &mut Args<'_, '_>) {
    let word = a.peek();
    let Some(address) = a.address() else {
        return a.skip();
    };
    let port = match a.peek() {
        // 0 is the virtual server's.
        Some(_) => match a.number(0..=65535).and_then(|n| u16::try_from(n).ok()) {
            Some(p) => p,
            None => return,
        },
        None => 0,
    };
    let mut rs = RealServer {
        address,
        port,
        weight: None,
        forwarding: None,
        notify_up: None,
        notify_down: None,
        conns_max: 0,
        conns_min: 0,
        inhibit_on_failure: None,
        alpha: None,
        timing: Timing::default(),
        smtp_alert: None,
        virtualhost: None,
        checkers: Vec::new(),
    };
    block(a.block(), REAL_SERVER, &mut rs, a.cx, "real_server");
    if let (VirtualKey::Address(vip, _), Some(word)) = (&v.key, word)
        && vip.is_ipv4() != address.is_ipv4()
        && rs.forwarding.or(v.forwarding) != Some(Forwarding::Tunnel)
    {
        a.error_at(
            word,
            format!("{address} and its virtual server {vip} are of different address families"),
        );
        return;
    }
    if v.real_servers
        .iter()
        .any(|r| r.address == address && r.port == port)
    {
        if let Some(word) = word {
            a.error_at(word, format!("real server {address} {port} is here twice"));
        }
        return;
    }
    v.real_servers.push(rs);
}

pub static REAL_SERVER: &[Keyword<RealServer>] = &[
    works(
        "weight",
        "WEIGHT",
        "relative share of connections; 0 drains",
        |r, a| r.weight = a.number_u32(0..=WEIGHT_MAX),
    ),
    works("lvs_method", "NAT|DR|TUN", "forwarding method", |r, a| {
        r.forwarding = forwarding(a)
    }),
    works(
        "notify_up",
        "PROGRAM [USER [GROUP]]",
        "run when the server comes up",
        |r, a| r.notify_up = a.script(),
    ),
    works(
        "notify_down",
        "PROGRAM [USER [GROUP]]",
        "run when the server goes down",
        |r, a| r.notify_down = a.script(),
    ),
    works(
        "uthreshold",
        "COUNT",
        "connections above which it gets no more",
        |r, a| r.conns_max = a.number_u32(0..=u32::MAX).unwrap_or(0),
    ),
    works(
        "lthreshold",
        "COUNT",
        "a full server gets no connections until it has fewer than these; by default, than three quarters of uthreshold",
        |r, a| r.conns_min = a.number_u32(0..=u32::MAX).unwrap_or(0),
    ),
    works(
        "inhibit_on_failure",
        "[BOOL]",
        "weight 0 instead of removal",
        |r, a| r.inhibit_on_failure = a.boolean(),
    ),
    works("alpha", "[BOOL]", "starts down", |r, a| {
        r.alpha = a.boolean()
    }),
    works(
        "connect_timeout",
        "SECONDS",
        "time a check may take to connect",
        |r, a| r.timing.connect_timeout_us = a.seconds(MICROSECOND..=TIMEOUT_MAX_S),
    ),
    works(
        "retry",
        "COUNT",
        "checks made again before the server is down",
        |r, a| r.timing.retry = a.number_u32(0..=u32::MAX),
    ),
    works(
        "delay_before_retry",
        "SECONDS",
        "time before a failed check is made again",
        |r, a| r.timing.delay_before_retry_us = a.seconds(0.0..=DELAY_MAX_S),
    ),
    works(
        "warmup",
        "SECONDS",
        "most random delay before the first check",
        |r, a| r.timing.warmup_us = a.seconds(0.0..=DELAY_MAX_S),
    ),
    works("delay_loop", "SECONDS", "time between checks", |r, a| {
        r.timing.delay_loop_us = a.seconds(MICROSECOND..=DELAY_MAX_S)
    }),
    works(
        "virtualhost",
        "NAME",
        "host name for HTTP checks",
        |r, a| r.virtualhost = a.text("a host name"),
    ),
    no_effect("snmp_name", "NAME", "there is no SNMP agent"),
    works("smtp_alert", "[BOOL]", "changes are mailed", |r, a| {
        r.smtp_alert = a.boolean()
    }),
    works("TCP_CHECK", "{ ... }", "connects", checker::tcp),
    works(
        "HTTP_GET",
        "{ url { ... } ... }",
        "asks for pages",
        checker::http,
    ),
    works(
        "SSL_GET",
        "{ ... }",
        "asks for pages over TLS",
        checker::ssl,
    ),
    works(
        "SMTP_CHECK",
        "{ ... }",
        "greets a mail server",
        checker::smtp,
    ),
    works("DNS_CHECK", "{ ... }", "asks a name server", checker::dns),
    works("UDP_CHECK", "{ ... }", "sends a datagram", checker::udp),
    works(
        "PING_CHECK",
        "{ ... }",
        "sends an echo request",
        checker::ping,
    ),
    works("MISC_CHECK", "{ ... }", "runs a program", checker::misc),
    works(
        "FILE_CHECK",
        "{ ... }",
        "a number in a file adds to the weight, or fails",
        checker::file,
    ),
    works(
        "BFD_CHECK",
        "{ name NAME }",
        "follows a BFD session",
        checker::bfd,
    ),
];
