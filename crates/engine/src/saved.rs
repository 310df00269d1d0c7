//! Server states of an earlier process, as `show servers state` wrote them (management guide 9.3; manual 4.2
//! `load-server-state-from-file`). What the configuration says anew goes before what the file remembers.

use std::sync::PoisonError;
use std::sync::atomic::Ordering::Relaxed;

use sluice_config::model::{InitAddr, PeerAddr, PortSpec};

use crate::state::{OpState, Runtime, ServerState, WEIGHT_SCALE, admin};

/// One server's line.
struct Saved<'a> {
    backend: &'a str,
    server: &'a str,
    addr: &'a str,
    op: u8,
    admin: u8,
    weight: u32,
    weight_at_start: u32,
    since_s: u64,
    check_state: u8,
    agent_state: u8,
    fqdn: &'a str,
    port: u16,
}

/// Fields of a line, at least: newer versions of the format add some.
const FIELDS_MIN: usize = 19;

/// The check or agent is paused by command.
const ENABLED: u8 = 0x04;
const CONFIGURED: u8 = 0x02;

/// Gives servers of one backend, or of all that `wanted` names, their states back. The lines that fit no server, and the
/// number of those that did.
pub fn apply(
    rt: &Runtime,
    text: &str,
    wanted: impl Fn(&str) -> bool,
    now_ms: u64,
) -> Result<u32, &'static str> {
    let mut lines = text.lines().map(str::trim).filter(|l| !l.is_empty());
    if lines.next() != Some("1") {
        return Err("the first line is not the version '1'");
    }
    let mut known = 0;
    for line in lines.filter(|l| !l.starts_with('#')) {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let Some(saved) = parse(&words).filter(|s| wanted(s.backend)) else {
            continue;
        };
        let backends = rt.model.proxies.iter().filter(|p| p.is_backend());
        let Some(p) = backends.into_iter().find(|p| *p.name == *saved.backend) else {
            continue;
        };
        let state = rt.proxy(p.id);
        if let Some(s) = state.servers.iter().find(|s| *s.name == *saved.server) {
            restore(s, &saved, now_ms);
            rt.pass_on(s.id);
            state.refresh_cookies();
            state.state_changed();
            state.note_change(now_ms);
            known += 1;
        }
    }
    Ok(known)
}

fn parse<'a>(w: &[&'a str]) -> Option<Saved<'a>> {
    let number = |at: usize| w.get(at)?.parse::<u64>().ok();
    (w.len() >= FIELDS_MIN).then_some(())?;
    Some(Saved {
        backend: w[1],
        server: w[3],
        addr: w[4],
        op: number(5)? as u8,
        admin: number(6)? as u8,
        weight: number(7)?.min(256) as u32,
        weight_at_start: number(8)?.min(256) as u32,
        since_s: number(9)?,
        check_state: number(13)? as u8,
        agent_state: number(14)? as u8,
        fqdn: w[17],
        port: number(18)?.try_into().ok()?,
    })
}

fn restore(s: &ServerState, saved: &Saved<'_>, now_ms: u64) {
    // what commands did; inherited states follow from the others, and maintenance by the configuration is the new one's
    let mut keep = saved.admin & (admin::FORCED_MAINT | admin::FORCED_DRAIN);
    if saved.admin & admin::CONFIG_MAINT != 0 && !s.conf.disabled {
        keep &= !admin::FORCED_MAINT;
    }
    s.change_admin(keep, 0);
    if saved.admin & (admin::CONFIG_MAINT | admin::FORCED_MAINT) == admin::CONFIG_MAINT {
        // a command had ended what the configuration begins with
        s.change_admin(0, admin::FORCED_MAINT);
    }
    // in maintenance the operational state says nothing
    if saved.admin & admin::MAINT == 0 {
        let up = saved.op != OpState::Stopped as u8;
        let mut h = s.health.lock().unwrap_or_else(PoisonError::into_inner);
        h.counter = if up { h.rise + h.fall - 1 } else { 0 };
        s.set_op(match saved.op {
            0 => OpState::Stopped,
            3 => OpState::Stopping,
            _ => OpState::Running,
        });
    }
    if saved.weight_at_start == s.conf.weight {
        s.user_weight.store(saved.weight, Relaxed);
        s.effective_weight
            .store(saved.weight * WEIGHT_SCALE, Relaxed);
    }
    let age_ms = saved.since_s.saturating_mul(1000);
    s.last_change_ms
        .store(now_ms.saturating_sub(age_ms), Relaxed);
    let paused = |state: u8| state & (CONFIGURED | ENABLED) == CONFIGURED;
    s.check_probe
        .paused
        .store(paused(saved.check_state), Relaxed);
    s.agent_probe
        .paused
        .store(paused(saved.agent_state), Relaxed);
    restore_addr(s, saved);
}

/// The port, and the address a name had last unless `init-addr` does not want it.
fn restore_addr(s: &ServerState, saved: &Saved<'_>) {
    let named = s
        .conf
        .hostname
        .as_deref()
        .is_some_and(|name| name == saved.fqdn);
    let last = match s.conf.init_addr.first() {
        None => true,
        Some(first) => *first == InitAddr::Last,
    };
    let known = saved.addr.parse().ok().filter(|_| named && last);
    let before = s.addr.load_full();
    let (ip, port) = match &*before {
        PeerAddr::Ip { ip, port } => (known.unwrap_or(*ip), *port),
        PeerAddr::Unresolved { port, .. } => match known {
            Some(ip) => (ip, *port),
            None => return,
        },
        _ => return,
    };
    let port = match port {
        PortSpec::Fixed(_) if saved.port != 0 => PortSpec::Fixed(saved.port),
        other => other,
    };
    s.addr.store(std::sync::Arc::new(PeerAddr::Ip { ip, port }));
    s.change_admin(0, admin::RESOLUTION_MAINT);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::backend;

    const SERVERS: &str = " server a 127.0.0.1:1 check weight 10\n server b 127.0.0.1:2 disabled\n server c 127.0.0.1:3";

    /// Op state, admin state, weight of the first server after its line was read.
    fn restored(line: &str) -> (OpState, u8, u32) {
        let rt = backend(SERVERS);
        let text = format!("1\n# be_id ...\n{line}\n");
        apply(&rt, &text, |_| true, 100_000).expect("a version");
        let s = &rt.proxies[0].servers[0];
        (s.op(), s.admin(), s.user_weight.load(Relaxed))
    }

    #[test]
    fn states_come_back() {
        let rest = "0 0 0 - 1 - 0 0 - - 0";
        for (line, expect) in [
            (
                "3 b 1 a 127.0.0.1 2 0 10 10 5 6 3 4 6",
                (OpState::Running, 0, 10),
            ),
            (
                "3 b 1 a 127.0.0.1 0 0 3 10 5 8 2 0 6",
                (OpState::Stopped, 0, 3),
            ),
            // another configured weight is believed
            (
                "3 b 1 a 127.0.0.1 2 0 3 7 5 6 3 4 6",
                (OpState::Running, 0, 10),
            ),
            (
                "3 b 1 a 127.0.0.1 0 1 10 10 5 6 3 4 14",
                (OpState::Running, 1, 10),
            ),
            (
                "3 b 1 a 127.0.0.1 2 8 10 10 5 6 3 4 6",
                (OpState::Running, 8, 10),
            ),
            // it was disabled by the configuration, which no longer says so
            (
                "3 b 1 a 127.0.0.1 0 5 10 10 5 6 3 4 14",
                (OpState::Running, 0, 10),
            ),
            // not this backend, and no line at all
            (
                "3 x 1 a 127.0.0.1 0 1 10 10 5 6 3 4 14",
                (OpState::Running, 0, 10),
            ),
            ("3 b 1 a", (OpState::Running, 0, 10)),
        ] {
            assert_eq!(restored(&format!("{line} {rest}")), expect, "{line}");
        }
    }

    #[test]
    fn another_version_is_refused() {
        let rt = backend(SERVERS);
        assert!(apply(&rt, "2\n", |_| true, 0).is_err());
        assert!(apply(&rt, "", |_| true, 0).is_err());
        assert_eq!(apply(&rt, "1\n", |_| true, 0), Ok(0));
    }
}
