//! A server goes up, down, or is on its way out: state, waiting requests, sessions, log lines.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use sluice_config::model::Options;
use sluice_engine::health::{CheckStatus, Health};
use sluice_engine::news::{Change, Event};
use sluice_engine::state::OpState;
use sluice_engine::{ProxyState, ServerState};

use super::Checked;
use crate::clock;
use crate::logs::LogSender;
use crate::worker::Shared;

const LEVEL_EMERG: u8 = 0;
const LEVEL_ALERT: u8 = 1;
const LEVEL_NOTICE: u8 = 5;
const LEVEL_INFO: u8 = 6;

/// Steps of `slowstart`.
const WARM_UP_STEP: Duration = Duration::from_millis(250);

pub fn went_up(c: &Checked, h: &Health) {
    let s = &c.server;
    c.shared
        .runtime
        .change_op(s.id, s.coming(), clock::mono_ms());
    if s.conf.on_marked_up_shutdown_backup_sessions {
        for b in c.backend.servers.iter().filter(|b| b.conf.backup) {
            c.shared.runtime.shutdown_sessions(b.id, b'U');
        }
    }
    let text = format!(
        "{} is UP{}. {}",
        title(c),
        why(c, h),
        standing(c, c.backend.usable_by_kind(), 0)
    );
    tell(c, LEVEL_NOTICE, &text);
    mail(c, LEVEL_NOTICE, &text);
}

pub fn went_down(c: &Checked, h: &Health) {
    let s = &c.server;
    let requeued = c
        .shared
        .runtime
        .change_op(s.id, OpState::Stopped, clock::mono_ms());
    let text = format!(
        "{} is DOWN{}. {}",
        title(c),
        why(c, h),
        standing(c, c.backend.usable_by_kind(), requeued)
    );
    tell(c, LEVEL_ALERT, &text);
    mail(c, LEVEL_ALERT, &text);
    tell_if_empty(c);
}

/// The reason of a change, unless `option log-health-checks` told it just before.
fn why(c: &Checked, h: &Health) -> String {
    if c.proxy.options.contains(Options::LOG_HEALTH_CHECKS) {
        String::new()
    } else {
        format!(", reason: {}", reason(h))
    }
}

/// `http-check disable-on-404`: no new sessions, the persistent ones go on.
pub fn went_stopping(c: &Checked, h: &Health) {
    if c.server.op() == OpState::Stopping {
        return;
    }
    let rt = &c.shared.runtime;
    let requeued = rt.change_op(c.server.id, OpState::Stopping, clock::mono_ms());
    tell(
        c,
        LEVEL_NOTICE,
        &format!(
            "{} is stopping{}. {}",
            title(c),
            why(c, h),
            online(c, c.backend.usable_by_kind(), requeued)
        ),
    );
    tell_if_empty(c);
}

/// A server that answered 404 before and answers well again takes sessions again (`http-check disable-on-404`).
pub fn leave_drain(c: &Checked, h: &Health) {
    if c.server.op() == OpState::Stopping && h.is_up() && h.last.status != CheckStatus::L7OkCond {
        let rt = &c.shared.runtime;
        rt.change_op(c.server.id, OpState::Running, clock::mono_ms());
        let text = format!(
            "{} is UP{}. {}",
            title(c),
            why(c, h),
            online(c, c.backend.usable_by_kind(), 0)
        );
        tell(c, LEVEL_NOTICE, &text);
        mail(c, LEVEL_NOTICE, &text);
    }
}

/// `option log-health-checks`, of a `Health` or an `Agent` check.
pub fn log_check(c: &Checked, what: &str, h: &Health) {
    let outcome = match h.last.status {
        CheckStatus::L7OkCond => "conditionally succeeded",
        status if status.passed() => "succeeded",
        _ => "failed",
    };
    let (at, of, state) = if h.is_up() {
        (h.counter + 1 - h.rise, h.fall, "UP")
    } else {
        (h.counter, h.rise, "DOWN")
    };
    let kind = if c.server.conf.backup {
        "backup server"
    } else {
        "server"
    };
    let text = format!(
        "{what} check for {kind} {}/{} {outcome}, reason: {}, status: {at}/{of} {state}.",
        c.backend.name,
        c.server.name,
        reason(h)
    );
    tell(c, LEVEL_NOTICE, &text);
    mail(c, LEVEL_INFO, &text);
}

/// Raises the weight of a server that is starting, step by step (`slowstart`).
pub async fn warm_up(backend: Arc<ProxyState>, s: Arc<ServerState>) {
    while !s.is_deleted() {
        tokio::time::sleep(WARM_UP_STEP).await;
        if s.op() == OpState::Starting && backend.weigh(&s, clock::mono_ms()) {
            backend.state_changed();
        }
    }
}

/// Writes down what commands, agents and tracked servers made of servers, for as long as the process lives.
pub async fn tell_news(shared: Arc<Shared>, logs: Rc<LogSender>) {
    loop {
        let changes = std::future::poll_fn(|cx| shared.runtime.news.poll(cx)).await;
        for change in changes {
            tell_change(&shared, &logs, change);
        }
    }
}

fn tell_change(shared: &Arc<Shared>, logs: &Rc<LogSender>, change: Change) {
    let rt = &shared.runtime;
    let c = Checked {
        shared: shared.clone(),
        logs: logs.clone(),
        proxy: rt.model.proxy(change.server.backend).clone(),
        backend: rt.proxy(change.server.backend).clone(),
        server: rt.server(change.server).clone(),
    };
    let via = change.via.map_or(String::new(), |id| {
        format!(" via {}/{}", rt.proxy(id.backend).name, rt.server(id).name)
    });
    let by = match via.is_empty() {
        true => ", changed from CLI",
        false => via.as_str(),
    };
    let title = title(&c);
    let text = match change.event {
        Event::LeftLast => return tell_if_empty(&c),
        Event::EntersMaint => {
            format!(
                "{title} is going DOWN for maintenance{via}. {}",
                standing(&c, change.usable, change.requeued)
            )
        }
        Event::EntersMaintDown => {
            return tell(
                &c,
                LEVEL_NOTICE,
                &format!("{title} was DOWN and now enters maintenance{via}."),
            );
        }
        Event::WentDown => format!(
            "{title} is DOWN{by}. {}",
            standing(&c, change.usable, change.requeued)
        ),
        Event::WentUp => format!(
            "{title} is UP{by}. {}",
            online(&c, change.usable, change.requeued)
        ),
        Event::Stops => format!(
            "{title} is stopping{by}. {}",
            online(&c, change.usable, change.requeued)
        ),
        Event::LeavesMaint if via.is_empty() => {
            format!("{title} is UP/READY (leaving forced maintenance).")
        }
        Event::LeavesMaint => format!("{title} is UP/READY (leaving maintenance)."),
        Event::EntersDrain => format!(
            "{title} enters drain state{via}. {}",
            online(&c, change.usable, change.requeued)
        ),
        Event::LeavesDrain => format!("{title} is UP (leaving forced drain)."),
    };
    let level = match change.event {
        Event::WentDown | Event::EntersMaint => LEVEL_ALERT,
        _ => LEVEL_NOTICE,
    };
    tell(&c, level, &text);
    if matches!(
        change.event,
        Event::WentDown | Event::WentUp | Event::EntersDrain
    ) {
        mail(&c, level, &text);
    }
    let leaves = matches!(
        change.event,
        Event::EntersMaint | Event::EntersDrain | Event::WentDown | Event::Stops
    );
    if leaves && change.usable == (0, 0) {
        tell_if_empty(&c);
    }
}

/// The last server of a backend left.
fn tell_if_empty(c: &Checked) {
    if c.backend.usable_servers() == 0 {
        let kind = match c.proxy.is_frontend() {
            true => "proxy",
            false => "backend",
        };
        let name = &c.backend.name;
        show(
            c,
            LEVEL_EMERG,
            &format!("{kind} '{name}' has no server available!"),
        );
        log(
            c,
            LEVEL_EMERG,
            &format!("{kind} {name} has no server available!"),
        );
    }
}

fn title(c: &Checked) -> String {
    let kind = if c.server.conf.backup {
        "Backup Server"
    } else {
        "Server"
    };
    format!("{kind} {}/{}", c.backend.name, c.server.name)
}

/// The check's result in the words of HAProxy's logs.
fn reason(h: &Health) -> String {
    let mut out = h.last.status.description().to_string();
    if h.last.status.has_code() {
        out.push_str(&format!(", code: {}", h.last.code));
    }
    if !h.last.info.is_empty() {
        out.push_str(&format!(", info: \"{}\"", h.last.info));
    }
    // what traffic showed took no check
    if h.last.status != CheckStatus::Observed {
        out.push_str(&format!(", check duration: {}ms", h.last.duration_ms));
    }
    out
}

/// How the backend stands now.
fn standing(c: &Checked, usable: (usize, usize), requeued: u32) -> String {
    if c.server.is_usable() {
        return online(c, usable, requeued);
    }
    format!(
        "{} {} sessions active, {requeued} requeued, {} remaining in queue.",
        servers(usable, "left"),
        c.server.counters.sessions.now(),
        c.server.queue.len()
    )
}

/// As [`standing`], of a server that goes on with what it has.
fn online(c: &Checked, usable: (usize, usize), requeued: u32) -> String {
    format!(
        "{} {requeued} sessions requeued, {} total in queue.",
        servers(usable, "online"),
        crate::view::queued(&c.backend)
    )
}

fn servers((active, backup): (usize, usize), state: &str) -> String {
    let on_backup = match active == 0 && backup > 0 {
        true => " Running on backup.",
        false => "",
    };
    format!("{active} active and {backup} backup servers {state}.{on_backup}")
}

/// `email-alert`
fn mail(c: &Checked, level: u8, text: &str) {
    if let Some(alert) = &c.proxy.email_alert {
        super::mail::send(alert, &c.shared.runtime.hostname, level, text);
    }
}

/// To the terminal and the logs.
fn tell(c: &Checked, level: u8, text: &str) {
    show(c, level, text);
    log(c, level, text);
}

fn show(c: &Checked, level: u8, text: &str) {
    if level <= LEVEL_NOTICE && !c.shared.runtime.model.global.quiet {
        let tag = if level == LEVEL_EMERG {
            "ALERT"
        } else {
            "WARNING"
        };
        crate::terminal::say(tag, text);
    }
}

fn log(c: &Checked, level: u8, text: &str) {
    c.logs.notice(
        &c.proxy.log.targets,
        c.proxy.log.tag.as_deref(),
        level,
        text,
    );
}
