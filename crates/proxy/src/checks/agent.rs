//! Agents (manual 5.2 `agent-check`): a program beside a server says, in a line of words, whether it is up, how much weight
//! it wants, how many connections, and whether it drains. One task a server, on the main thread.
//!
//! That an agent cannot be reached says nothing of its server: its health checks tell that.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::PoisonError;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use sluice_config::model::{Options, PeerAddr};
use sluice_engine::admin::AdminState;
use sluice_engine::health::{CheckResult, CheckStatus, Health};
use sluice_engine::state::OpState;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::Instant;

use super::{Checked, change, words};
use crate::clock;

/// Most bytes of an answer that are looked at.
const ANSWER_MAX: u64 = 4096;

/// Time between two questions.
pub fn inter_ms(conf: &sluice_config::model::Server) -> u64 {
    conf.agent.inter_ms.unwrap_or(conf.check.inter_ms)
}

/// Asks one server's agent for as long as it is there.
pub async fn schedule(c: Rc<Checked>, first: Duration) {
    tokio::time::sleep(first).await;
    let conf = &c.server.conf;
    let every = Duration::from_millis(inter_ms(conf).max(1));
    while !c.server.is_deleted() {
        let started = Instant::now();
        if !c.server.agent_probe.paused.load(Relaxed) && !c.shared.runtime.is_stopping() {
            c.server.agent_probe.running.store(true, Relaxed);
            let mut connected = false;
            let answer = match tokio::time::timeout(every, ask(&c, &mut connected)).await {
                Ok(answer) => answer,
                Err(_) => Err(io::ErrorKind::TimedOut.into()),
            };
            c.server.agent_probe.running.store(false, Relaxed);
            let took_ms = started.elapsed().as_millis() as u64;
            match answer {
                // a command stopped the asking meanwhile
                _ if c.server.agent_probe.paused.load(Relaxed) => {}
                Ok(line) => obey(&c, &read(&line), took_ms),
                Err(e) => note_failure(&c, &e, connected, took_ms),
            }
        }
        // after one that took all its time the next waits for its turn
        let mut next = started + every;
        while next <= Instant::now() {
            next += every;
        }
        tokio::time::sleep_until(next).await;
    }
}

/// One question: the answer, at least its first line if it has one.
async fn ask(c: &Checked, connected: &mut bool) -> io::Result<String> {
    let (conf, told) = (&c.server.conf.agent, &c.server.agent_probe);
    let ip_of = |addr: &PeerAddr| match addr {
        PeerAddr::Ip { ip, .. } => Some(*ip),
        _ => None,
    };
    // `addr` is for both kinds of checks
    let shared = c.server.conf.check.addr.as_ref();
    let ip: Option<IpAddr> = told
        .addr
        .load_full()
        .map(|ip| *ip)
        .or(conf.addr)
        .or_else(|| shared.and_then(ip_of))
        .or_else(|| ip_of(&c.server.addr.load()));
    let port = match told.port.load(Relaxed) {
        0 => conf.port,
        port => Some(port),
    };
    let (Some(ip), Some(port)) = (ip, port) else {
        return Err(io::ErrorKind::AddrNotAvailable.into());
    };
    let socket = super::probe::socket(c, ip)?;
    let mut io = socket.connect(SocketAddr::new(ip, port)).await?;
    *connected = true;
    let send = c.server.agent_send.load_full();
    if let Some(text) = send.as_deref().or(conf.send.as_ref()) {
        io.write_all(text.as_bytes()).await?;
    }
    let mut line = Vec::new();
    let mut rest = io.take(ANSWER_MAX);
    let mut chunk = [0; 512];
    loop {
        let n = rest.read(&mut chunk).await?;
        line.extend_from_slice(&chunk[..n]);
        if n == 0 || line.iter().any(|b| matches!(b, b'\n' | b'\r')) {
            break;
        }
    }
    Ok(String::from_utf8_lossy(&line).into_owned())
}

/// What an answer says, each thing as it was said last.
#[derive(Debug, Default, PartialEq, Eq)]
struct Said {
    /// Up or not, and the word for it.
    health: Option<(bool, String)>,
    admin: Option<AdminState>,
    weight: Option<String>,
    maxconn: Option<String>,
    /// A word that means nothing.
    error: Option<String>,
    /// What stands behind `#`.
    description: Option<String>,
    /// Its line had an end.
    whole: bool,
}

/// Reads an answer: words between spaces, tabs and commas up to the line's end; a description behind `#`. Of a line that was
/// cut nothing is believed.
fn read(line: &str) -> Said {
    let mut said = Said::default();
    let Some(end) = line.find(['\n', '\r']) else {
        return said;
    };
    said.whole = true;
    let mut rest = line[..end].trim();
    while !rest.is_empty() {
        if let Some(text) = rest.strip_prefix('#') {
            said.description = Some(text.trim().to_owned());
            break;
        }
        let end = rest.find([' ', '\t', ',']).unwrap_or(rest.len());
        let (word, behind) = rest.split_at(end);
        rest = behind.trim_start_matches([' ', '\t', ',']);
        match word.to_ascii_lowercase().as_str() {
            "up" => said.health = Some((true, word.to_owned())),
            "down" | "stopped" | "fail" => said.health = Some((false, word.to_owned())),
            "ready" => said.admin = Some(AdminState::Ready),
            "drain" => said.admin = Some(AdminState::Drain),
            "maint" => said.admin = Some(AdminState::Maint),
            w if w.starts_with(|c: char| c.is_ascii_digit()) && w.contains('%') => {
                said.weight = Some(w.to_owned());
            }
            w => match w.strip_prefix("maxconn:") {
                Some(limit) => said.maxconn = Some(limit.to_owned()),
                None => _ = said.error.get_or_insert_with(|| word.to_owned()),
            },
        }
    }
    said
}

/// Does what the agent says.
fn obey(c: &Checked, said: &Said, took_ms: u64) {
    let (rt, s) = (&c.shared.runtime, &c.server);
    let now_ms = clock::mono_ms();
    if let Some(admin) = said.admin {
        rt.set_admin(s.id, admin, now_ms);
    }
    let mut warning = None;
    if let Some(weight) = &said.weight {
        let set = rt.set_weight(s.id, weight, now_ms);
        warning = set.err().map(|e| e.to_string());
    }
    if let Some(maxconn) = &said.maxconn {
        let set = rt.set_maxconn_text(s.id, maxconn);
        warning = set.err().map(|e| e.to_string()).or(warning);
    }
    let (status, info) = match (&said.health, &said.error, warning) {
        // its health is what it was asked for, whatever else it says
        (Some((up, word)), error, _) => {
            let status = match up {
                true => CheckStatus::L7Ok,
                false => CheckStatus::L7Status,
            };
            let info = match said.description.as_ref().or(error.as_ref()) {
                Some(text) => format!("via agent : {word} ({text})"),
                None => format!("via agent : {word}"),
            };
            (status, info)
        }
        (None, Some(word), _) => {
            let info = format!("agent reports an error : {word}");
            (CheckStatus::Unchanged, info)
        }
        (None, None, Some(why)) => {
            let info = format!("agent warns : {}", why.trim_end());
            (CheckStatus::Unchanged, info)
        }
        (None, None, None) if !said.whole => {
            let info = "Ignoring incomplete line from agent".to_owned();
            (CheckStatus::Unchanged, info)
        }
        (None, None, None) => (CheckStatus::Unchanged, String::new()),
    };
    let info = words::limited(info);
    let (health, news) = {
        let mut h = s
            .agent_health
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let before = (h.last.status, h.counter);
        if let Some((up, _)) = &said.health {
            h.counter = u32::from(*up);
        }
        h.last = CheckResult {
            status,
            code: 0,
            info,
            duration_ms: took_ms,
        };
        (h.clone(), before != (status, h.counter))
    };
    if status == CheckStatus::Unchanged {
        return;
    }
    if news {
        log(c, &health);
    }
    let healthy = !s.conf.check.enabled
        || s.health
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .is_up();
    match (health.is_up(), s.op()) {
        (true, OpState::Stopped) if healthy => change::went_up(c, &health),
        (false, op) if op != OpState::Stopped => change::went_down(c, &health),
        _ => {}
    }
}

/// The agent could not be asked: the log and the page show it, the server goes on.
fn note_failure(c: &Checked, e: &io::Error, connected: bool, took_ms: u64) {
    let (status, text) = match (e.kind(), connected) {
        (io::ErrorKind::TimedOut, true) => (CheckStatus::L7Timeout, String::new()),
        (io::ErrorKind::TimedOut, false) => (CheckStatus::L4Timeout, String::new()),
        (_, true) => (CheckStatus::SockErr, e.to_string()),
        (_, false) => (CheckStatus::L4Con, e.to_string()),
    };
    let mut h = c
        .server
        .agent_health
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    let before = h.last.status;
    h.last = CheckResult {
        status,
        code: 0,
        info: text
            .split(" (os error")
            .next()
            .unwrap_or_default()
            .to_owned(),
        duration_ms: took_ms,
    };
    let health = h.clone();
    drop(h);
    if before != status {
        log(c, &health);
    }
}

fn log(c: &Checked, health: &Health) {
    if c.proxy.options.contains(Options::LOG_HEALTH_CHECKS) {
        change::log_check(c, "Agent", health);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_word_by_word() {
        let check = |line: &str, expect: Said| {
            let expect = Said {
                whole: true,
                ..expect
            };
            assert_eq!(read(&format!("{line}\r\n")), expect, "{line}");
        };
        let up = |up, word: &str| Some((up, word.to_owned()));
        check(
            "75%,up",
            Said {
                health: up(true, "up"),
                weight: Some("75%".into()),
                ..Said::default()
            },
        );
        check(
            "drain maxconn:30\t10%",
            Said {
                admin: Some(AdminState::Drain),
                maxconn: Some("30".into()),
                weight: Some("10%".into()),
                ..Said::default()
            },
        );
        check(
            "down #out for lunch",
            Said {
                health: up(false, "down"),
                description: Some("out for lunch".into()),
                ..Said::default()
            },
        );
        check(
            "down for lunch",
            Said {
                health: up(false, "down"),
                error: Some("for".into()),
                ..Said::default()
            },
        );
        check(
            "stopped#x",
            Said {
                error: Some("stopped#x".into()),
                ..Said::default()
            },
        );
        check("", Said::default());
        assert_eq!(read("up"), Said::default());
    }
}
