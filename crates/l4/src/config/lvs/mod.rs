//! `virtual_server`; its servers are in [`real`], its groups in [`group`].

use super::diagnostic::Severity;
use super::keyword::{Args, Context, Keyword, block, no_effect, not_yet, works};
use super::model::*;
use super::tree::{Node, Word};
use std::net::{IpAddr, Ipv4Addr};

mod group;
mod real;

pub use group::{address_range, group};
pub use real::REAL_SERVER;
use real::real_server;

const WEIGHT_MAX: u32 = 2_147_483_647;
/// keepalived's TIMER_MAX in seconds, where a checker's delay is meant.
pub const DELAY_MAX_S: f64 = 4_294_967.0;
const TIMEOUT_MAX_S: f64 = 4294.0;
pub const MICROSECOND: f64 = 0.000_001;

pub static VIRTUAL_SERVER: &[Keyword<VirtualServer>] = &[
    works("lb_algo", "SCHEDULER", "scheduler", scheduler),
    works("lvs_sched", "SCHEDULER", "scheduler", scheduler),
    works("lb_kind", "NAT|DR|TUN", "forwarding method", |v, a| {
        v.forwarding = forwarding(a)
    }),
    works("lvs_method", "NAT|DR|TUN", "forwarding method", |v, a| {
        v.forwarding = forwarding(a)
    }),
    works("protocol", "TCP|UDP|SCTP", "transport protocol", |v, a| {
        let Some(word) = a.word("a protocol") else {
            return;
        };
        v.protocol = match word.text.to_ascii_uppercase().as_str() {
            "TCP" => Some(Protocol::Tcp),
            "UDP" => Some(Protocol::Udp),
            "SCTP" => Some(Protocol::Sctp),
            _ => {
                a.error_at(
                    word,
                    format!("protocol '{}' is none of TCP, UDP, SCTP", word.text),
                );
                None
            }
        };
    }),
    works("delay_loop", "SECONDS", "time between checks", |v, a| {
        v.timing.delay_loop_us = a.seconds(MICROSECOND..=DELAY_MAX_S);
    }),
    works(
        "connect_timeout",
        "SECONDS",
        "time a check may take to connect",
        |v, a| {
            v.timing.connect_timeout_us = a.seconds(MICROSECOND..=TIMEOUT_MAX_S);
        },
    ),
    works(
        "retry",
        "COUNT",
        "checks made again before a server is down",
        |v, a| {
            v.timing.retry = a.number_u32(0..=u32::MAX);
        },
    ),
    works(
        "delay_before_retry",
        "SECONDS",
        "time before a failed check is made again",
        |v, a| {
            v.timing.delay_before_retry_us = a.seconds(0.0..=DELAY_MAX_S);
        },
    ),
    works(
        "warmup",
        "SECONDS",
        "most random delay before the first check",
        |v, a| {
            v.timing.warmup_us = a.seconds(0.0..=DELAY_MAX_S);
        },
    ),
    works(
        "persistence_timeout",
        "[SECONDS]",
        "how long a client stays with its server",
        |v, a| {
            v.persistence_timeout_s = match a.peek() {
                Some(_) => a.number_u32(1..=2_147_483),
                None => Some(360),
            };
        },
    ),
    works(
        "persistence_granularity",
        "NETMASK|PREFIX",
        "which clients stay together",
        granularity,
    ),
    not_yet(
        "persistence_engine",
        "NAME",
        "the SIP persistence engine is not written",
    ),
    works(
        "weight",
        "WEIGHT",
        "default weight of the real servers",
        |v, a| {
            v.weight = a.number_u32(1..=WEIGHT_MAX).unwrap_or(1);
        },
    ),
    works("alpha", "[BOOL]", "servers start down", |v, a| {
        v.alpha = a.boolean().unwrap_or(true)
    }),
    works("omega", "", "down notifications at exit", |v, _| {
        v.omega = true
    }),
    works("quorum", "WEIGHT", "weight needed to serve", |v, a| {
        v.quorum = a.number_u32(1..=WEIGHT_MAX).unwrap_or(1);
    }),
    works(
        "hysteresis",
        "WEIGHT",
        "tolerance around the quorum",
        |v, a| {
            v.hysteresis = a.number_u32(0..=WEIGHT_MAX).unwrap_or(0);
        },
    ),
    works(
        "quorum_up",
        "PROGRAM [USER [GROUP]]",
        "run when the quorum is gained",
        |v, a| v.quorum_up = a.script(),
    ),
    works(
        "quorum_down",
        "PROGRAM [USER [GROUP]]",
        "run when the quorum is lost",
        |v, a| v.quorum_down = a.script(),
    ),
    works(
        "sorry_server",
        "ADDRESS [PORT]",
        "server used when the quorum is lost",
        |v, a| {
            let Some(ip) = a.address() else { return };
            let port = match a.peek() {
                Some(_) => a.port().unwrap_or(0),
                None => 0,
            };
            v.sorry_server = Some((ip, port));
        },
    ),
    works(
        "sorry_server_inhibit",
        "",
        "keep the sorry server in the table with weight 0",
        |v, a| {
            if v.sorry_server.is_none() {
                let word = a.keyword();
                a.error_at(word, "sorry_server_inhibit needs a sorry_server before it");
            }
            v.sorry_inhibit = true;
        },
    ),
    works(
        "sorry_server_lvs_method",
        "NAT|DR|TUN",
        "the sorry server's forwarding method",
        |v, a| v.sorry_forwarding = forwarding(a),
    ),
    works(
        "inhibit_on_failure",
        "[BOOL]",
        "weight 0 instead of removal",
        |v, a| v.inhibit_on_failure = a.boolean().unwrap_or(true),
    ),
    works(
        "ha_suspend",
        "",
        "checks rest while the address is not on this machine",
        |v, _| v.ha_suspend = true,
    ),
    works(
        "virtualhost",
        "NAME",
        "host name for HTTP checks",
        |v, a| v.virtualhost = a.text("a host name"),
    ),
    works(
        "sh-port",
        "",
        "the port takes part in the source hash",
        |v, _| v.hash_port = true,
    ),
    works(
        "mh-port",
        "",
        "the port takes part in the Maglev hash",
        |v, _| v.hash_port = true,
    ),
    works(
        "sh-fallback",
        "",
        "a server that is down is passed over",
        |v, _| v.hash_fallback = true,
    ),
    works(
        "mh-fallback",
        "",
        "a server that is down is passed over",
        |v, _| v.hash_fallback = true,
    ),
    works("flag-1", "", "sh-fallback or mh-fallback", |v, _| {
        v.hash_fallback = true
    }),
    works("flag-2", "", "sh-port or mh-port", |v, _| {
        v.hash_port = true
    }),
    no_effect("flag-3", "", "no scheduler has a third flag"),
    works(
        "ops",
        "",
        "every UDP packet is scheduled by itself",
        |v, _| v.one_packet = true,
    ),
    no_effect(
        "ip_family",
        "inet|inet6",
        "a fwmark has what its rules name",
    ),
    no_effect("snmp_name", "NAME", "there is no SNMP agent"),
    works(
        "smtp_alert",
        "[BOOL]",
        "changes of servers and quorum are mailed",
        |v, a| v.smtp_alert = a.boolean(),
    ),
    works(
        "real_server",
        "ADDRESS [PORT] { ... }",
        "a server",
        real_server,
    ),
];

fn scheduler(v: &mut VirtualServer, a: &mut Args<'_, '_>) {
    let Some(word) = a.word("a scheduler") else {
        return;
    };
    v.scheduler = Scheduler::from_name(&word.text);
    if v.scheduler.is_none() {
        let known: Vec<&str> = Scheduler::ALL.iter().map(|(n, _)| *n).collect();
        a.error_at(
            word,
            format!("scheduler '{}' is none of {}", word.text, known.join(", ")),
        );
    }
}

fn forwarding(a: &mut Args<'_, '_>) -> Option<Forwarding> {
    let word = a.word("NAT, DR or TUN")?;
    let method = forwarding_method(word, a);
    if let Some(extra) = a.optional() {
        a.error_at(extra, format!("'{}' is no option of a tunnel", extra.text));
        a.skip();
    }
    method
}

fn forwarding_method(word: &Word, a: &mut Args<'_, '_>) -> Option<Forwarding> {
    match word.text.as_str() {
        "NAT" => Some(Forwarding::Nat),
        "DR" => Some(Forwarding::DirectRouting),
        "TUN" => {
            tunnel_options(a);
            Some(Forwarding::Tunnel)
        }
        _ => {
            a.error_at(
                word,
                format!("forwarding method '{}' is none of NAT, DR, TUN", word.text),
            );
            None
        }
    }
}

/// `TUN [type {ipip|gue port N|gre} [nocsum|csum|remcsum]]`: only ipip runs.
fn tunnel_options(a: &mut Args<'_, '_>) {
    if a.peek().is_none_or(|w| w.text != "type") {
        return;
    }
    a.optional();
    let Some(kind) = a.word("a tunnel type") else {
        return;
    };
    match kind.text.as_str() {
        "ipip" => {}
        "gue" | "gre" => {
            a.cx.report(
                Severity::Unsupported,
                Some(kind.place()),
                format!("tunnel type {} is not supported yet, only ipip", kind.text),
            );
            a.skip();
        }
        _ => a.error_at(
            kind,
            format!("tunnel type '{}' is none of ipip, gue, gre", kind.text),
        ),
    }
}

fn granularity(v: &mut VirtualServer, a: &mut Args<'_, '_>) {
    let Some(word) = a.word("a netmask") else {
        return;
    };
    let v6 = matches!(v.key, VirtualKey::Address(IpAddr::V6(_), _));
    let prefix = match word.text.parse::<Ipv4Addr>() {
        Ok(mask) if !v6 => {
            let bits = u32::from(mask);
            if bits.leading_ones() + bits.trailing_zeros() < 32 {
                a.cx.report(
                    Severity::Unsupported,
                    Some(word.place()),
                    "a netmask with holes is not supported",
                );
            }
            Some(bits.leading_ones() as u8)
        }
        _ => word
            .text
            .parse::<u8>()
            .ok()
            .filter(|p| (1..=if v6 { 128 } else { 32 }).contains(p)),
    };
    match prefix {
        Some(p) => v.persistence_prefix = Some(p),
        None => a.error_at(
            word,
            format!("'{}' is not a netmask that begins with ones", word.text),
        ),
    }
}

/// `virtual_server KEY { ... }`.
pub fn virtual_server(cx: &mut Context<'_>, a_node: &Node) {
    let mut a = Args {
        node: a_node,
        at: 1,
        cx,
    };
    let Some(first) = a.word("an address, 'fwmark N' or 'group NAME'") else {
        return;
    };
    let key = match first.text.as_str() {
        "group" => match a.text("a group's name") {
            Some(name) => VirtualKey::Group(name),
            None => return,
        },
        "fwmark" => match a.number_u32(0..=u32::MAX) {
            Some(mark) => VirtualKey::Fwmark(mark),
            None => return,
        },
        address => {
            let Ok(ip) = address.parse() else {
                a.error_at(first, format!("'{address}' is not an IP address"));
                return;
            };
            let port = match a.peek() {
                Some(_) => match a.port() {
                    Some(p) => p,
                    None => return,
                },
                None => 0,
            };
            VirtualKey::Address(ip, port)
        }
    };
    if matches!(key, VirtualKey::Fwmark(_)) {
        a.cx.report(Severity::Warning, Some(first.place()), group::MARKS);
    }
    let mut vs = VirtualServer::new(key);
    block(a.block(), VIRTUAL_SERVER, &mut vs, a.cx, "virtual_server");
    super::resolve::virtual_server(&mut vs, a_node, a.cx);
    a.cx.config.virtual_servers.push(vs);
}
