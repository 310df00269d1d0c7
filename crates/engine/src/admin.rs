//! Changing servers while they run, the same for everybody who does: commands, the statistics page's form, agents. What a
//! change brings with it (followers, balancing, queues, sessions, times) is decided here.

use std::sync::PoisonError;
use std::sync::atomic::Ordering::Relaxed;

use sluice_config::model::Options;
use sluice_expr::ServerId;

use crate::news::{Change, Event};
use crate::state::{OpState, ProxyState, Runtime, ServerState, admin};

/// `set server ... state`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdminState {
    Ready,
    Drain,
    Maint,
}

/// `set server ... health`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    Up,
    Stopping,
    Down,
}

/// Why a weight is not taken (the words of HAProxy's answers).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WeightError {
    #[error("Require <weight> or <weight%>.\n")]
    Missing,
    #[error("Empty weight string empty or preceded by garbage")]
    NoNumber,
    #[error("Trailing garbage in weight string")]
    Trailing,
    #[error("Relative weight must be positive.\n")]
    Negative,
    #[error("Absolute weight can only be between 0 and 256 inclusive.\n")]
    Range,
    #[error("Backend is using a static LB algorithm and only accepts weights '0%' and '100%'.\n")]
    Static,
}

/// Why a limit of connections is not taken (the words of HAProxy's answers).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MaxconnError {
    #[error("Require <maxconn>.\n")]
    Missing,
    #[error("maxconn string empty or preceded by garbage")]
    NoNumber,
    #[error("Trailing garbage in maxconn string")]
    Trailing,
}

/// Largest configured weight.
const WEIGHT_MAX: i64 = 256;

impl Runtime {
    /// Puts a server into an administrative state.
    pub fn set_admin(&self, id: ServerId, to: AdminState, now_ms: u64) {
        let s = self.server(id);
        let was = s.admin();
        match to {
            AdminState::Ready => s.change_admin(0, admin::FORCED_MAINT | admin::FORCED_DRAIN),
            AdminState::Drain => s.change_admin(admin::FORCED_DRAIN, admin::FORCED_MAINT),
            AdminState::Maint => s.change_admin(admin::FORCED_MAINT, admin::FORCED_DRAIN),
        }
        self.admin_changed(id, was, None, now_ms);
    }

    /// `enable server`: ends the maintenance a command or the configuration began; a drain stays.
    pub fn end_maintenance(&self, id: ServerId, now_ms: u64) {
        let s = self.server(id);
        let was = s.admin();
        s.change_admin(0, admin::FORCED_MAINT);
        self.admin_changed(id, was, None, now_ms);
    }

    /// A server whose name had no address has one now.
    pub fn resolved(&self, id: ServerId, now_ms: u64) {
        let s = self.server(id);
        let was = s.admin();
        s.change_admin(0, admin::RESOLUTION_MAINT);
        self.admin_changed(id, was, None, now_ms);
    }

    /// What an agent says of its server, or a command in its place. Up it is only when its checks say so too.
    pub fn set_agent(&self, id: ServerId, up: bool, now_ms: u64) {
        let s = self.server(id);
        let counter = |h: &std::sync::Mutex<crate::health::Health>, set: Option<u32>| {
            let mut h = h.lock().unwrap_or_else(PoisonError::into_inner);
            h.counter = set.map_or(h.counter, |on| on * (h.rise + h.fall - 1));
            h.is_up()
        };
        counter(&s.agent_health, Some(up.into()));
        let healthy = !s.conf.check.enabled || counter(&s.health, None);
        let op = match (up && healthy, s.op()) {
            (true, OpState::Stopped) => s.coming(),
            (true, other) => other,
            (false, _) => OpState::Stopped,
        };
        if op != s.op() {
            self.change_op(id, op, now_ms);
        }
    }

    /// After administrative flags changed: times, followers, balancing, queues.
    fn admin_changed(&self, id: ServerId, was: u8, via: Option<ServerId>, now_ms: u64) {
        let s = self.server(id);
        let is = s.admin();
        let (maint, maint_before) = (is & admin::MAINT != 0, was & admin::MAINT != 0);
        let (drain, drain_before) = (is & admin::DRAIN != 0, was & admin::DRAIN != 0);
        if maint && !maint_before {
            let mut h = s.health.lock().unwrap_or_else(PoisonError::into_inner);
            h.counter = 0;
        }
        if maint && !maint_before && s.op() != OpState::Stopped {
            s.note_change(false, now_ms);
            if s.conf.on_marked_down_shutdown_sessions {
                self.shutdown_sessions(id, b'D');
            }
        }
        if maint_before && !maint {
            s.set_op(self.after_maintenance(s));
            if s.op() != OpState::Stopped {
                s.note_change(true, now_ms);
            }
        }
        let event = match (maint_before, maint, drain_before, drain) {
            (false, true, _, _) if s.op() == OpState::Stopped => Some(Event::EntersMaintDown),
            (false, true, _, _) => Some(Event::EntersMaint),
            (true, false, _, _) => Some(Event::LeavesMaint),
            (_, false, false, true) => Some(Event::EntersDrain),
            (_, false, true, false) => Some(Event::LeavesDrain),
            _ => None,
        };
        let requeued = self.requeued(id, was & (admin::MAINT | admin::DRAIN) == 0);
        if let Some(event) = event {
            self.tell(id, event, via, requeued);
        }
        let (set, clear) = inherited(s);
        for follower in self.followers(id) {
            let f = self.server(follower);
            let was = f.admin();
            f.change_admin(set, clear);
            self.admin_changed(follower, was, Some(id), now_ms);
        }
        self.settle(id, now_ms);
    }

    /// The state of a server that leaves maintenance. It is believed to be well until its checks say otherwise, unless
    /// its agent or the server it tracks is down.
    fn after_maintenance(&self, s: &ServerState) -> OpState {
        let tracked = self.tracked(s).map(|id| self.server(id).op());
        match tracked {
            Some(OpState::Stopped) => return OpState::Stopped,
            Some(OpState::Stopping) => return OpState::Stopping,
            Some(_) => return s.coming(),
            None => {}
        }
        if s.conf.check.enabled {
            let mut h = s.health.lock().unwrap_or_else(PoisonError::into_inner);
            h.counter = s.conf.check.first_counter();
            if s.conf.check.begins_down() {
                return OpState::Stopped;
            }
        }
        let agent = s.agent_health.lock();
        let agent_up = agent.unwrap_or_else(PoisonError::into_inner).is_up();
        match agent_up || !s.conf.agent.enabled {
            true => s.coming(),
            false => OpState::Stopped,
        }
    }

    fn tell(&self, server: ServerId, event: Event, via: Option<ServerId>, requeued: u32) {
        let usable = self.proxy(server.backend).usable_by_kind();
        self.news.add(Change {
            server,
            event,
            via,
            usable,
            requeued,
        });
    }

    /// Says that a server is healthy or not, whatever its checks found; they go on from there.
    pub fn set_health(&self, id: ServerId, to: Told, now_ms: u64) {
        let s = self.server(id);
        for health in [&s.health, &s.agent_health] {
            let mut h = health.lock().unwrap_or_else(PoisonError::into_inner);
            h.counter = match to {
                Told::Up | Told::Stopping => h.rise + h.fall - 1,
                Told::Down => 0,
            };
        }
        let (op, event) = match to {
            Told::Up if s.op() == OpState::Starting => (OpState::Starting, Event::WentUp),
            Told::Up if s.op() == OpState::Running => (OpState::Running, Event::WentUp),
            Told::Up => (s.coming(), Event::WentUp),
            Told::Stopping => (OpState::Stopping, Event::Stops),
            Told::Down => (OpState::Stopped, Event::WentDown),
        };
        let event = (op != s.op()).then_some(event);
        self.change_op_telling(id, op, event, now_ms);
    }

    /// Sets the operational state of a server and of those that track it. How many requests that waited for it look
    /// for another one now.
    pub fn change_op(&self, id: ServerId, op: OpState, now_ms: u64) -> u32 {
        self.change_op_telling(id, op, None, now_ms)
    }

    fn change_op_telling(
        &self,
        id: ServerId,
        op: OpState,
        event: Option<Event>,
        now_ms: u64,
    ) -> u32 {
        let s = self.server(id);
        let was_willing = s.is_willing();
        let was = s.accepts_persistent();
        s.set_op(op);
        let is = s.accepts_persistent();
        if was != is {
            s.note_change(is, now_ms);
        }
        if was && !is && s.conf.on_marked_down_shutdown_sessions {
            self.shutdown_sessions(id, b'D');
        }
        let requeued = self.requeued(id, was_willing);
        if let Some(event) = event {
            self.tell(id, event, None, requeued);
        }
        for follower in self.followers(id) {
            let was = self.server(follower).op();
            let requeued = self.change_op(follower, op, now_ms);
            let event = match (was, op) {
                (OpState::Stopped, OpState::Stopped) | (OpState::Stopping, OpState::Stopping) => {
                    continue;
                }
                (_, OpState::Stopping) => Event::Stops,
                (_, OpState::Stopped) => Event::WentDown,
                (OpState::Stopped | OpState::Stopping, _) => Event::WentUp,
                _ => continue,
            };
            self.tell(follower, event, Some(id), requeued);
        }
        self.settle(id, now_ms);
        requeued
    }

    /// A weight as commands and agents write it: a number, or a percentage of the configured one.
    pub fn set_weight(&self, id: ServerId, text: &str, now_ms: u64) -> Result<(), WeightError> {
        let s = self.server(id);
        if text.is_empty() {
            return Err(WeightError::Missing);
        }
        let digits = text.trim_start_matches(['+', '-']);
        let end = digits
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(digits.len());
        let sign = if text.starts_with('-') { -1 } else { 1 };
        let number: i64 = digits[..end].parse().map_err(|_| WeightError::NoNumber)?;
        let number = number.saturating_mul(sign);
        let new = match &digits[end..] {
            "%" if number < 0 => return Err(WeightError::Negative),
            "%" => (i64::from(s.conf.weight).saturating_mul(number) / 100).min(WEIGHT_MAX),
            "" if (0..=WEIGHT_MAX).contains(&number) => number,
            "" => return Err(WeightError::Range),
            _ => return Err(WeightError::Trailing),
        } as u32;
        let proxy = self.proxy(id.backend);
        if proxy.balancer.is_static() && new != 0 && new != s.conf.weight {
            return Err(WeightError::Static);
        }
        s.user_weight.store(new, Relaxed);
        let before = proxy.usable_servers();
        self.settle(id, now_ms);
        if before > 0 && proxy.usable_servers() == 0 {
            self.tell(id, Event::LeftLast, None, 0);
        }
        Ok(())
    }

    /// As [`Runtime::set_maxconn`], from a command's or an agent's word; a negative limit is none.
    pub fn set_maxconn_text(&self, id: ServerId, text: &str) -> Result<(), MaxconnError> {
        if text.is_empty() {
            return Err(MaxconnError::Missing);
        }
        let end = text
            .find(|c: char| !c.is_ascii_digit() && c != '-')
            .unwrap_or(text.len());
        let (number, rest) = text.split_at(end);
        let number: i64 = number.parse().map_err(|_| MaxconnError::NoNumber)?;
        if !rest.is_empty() {
            return Err(MaxconnError::Trailing);
        }
        self.set_maxconn(id, u32::try_from(number).unwrap_or(0));
        Ok(())
    }

    /// The most connections a server may have, from now on; 0 for no limit.
    pub fn set_maxconn(&self, id: ServerId, maxconn: u32) {
        let s = self.server(id);
        if s.minconn.load(Relaxed) == s.maxconn.load(Relaxed) {
            s.minconn.store(maxconn, Relaxed);
        }
        s.maxconn.store(maxconn, Relaxed);
        self.proxy(id.backend).kick();
    }

    /// Ends the sessions on a server; logs show why by that character: `K` for a command, `D` for a server that went
    /// down, `U` for a backup that is not needed any more.
    pub fn shutdown_sessions(&self, id: ServerId, cause: u8) {
        let s = self.server(id);
        s.shutdown_cause.store(cause, Relaxed);
        s.shutdown_epoch.fetch_add(1, Relaxed);
        self.shutdowns.raise();
    }

    /// Lets the followers of a server inherit its maintenance and drain, at the start.
    pub fn pass_on(&self, id: ServerId) {
        let (set, clear) = inherited(self.server(id));
        for follower in self.followers(id) {
            self.server(follower).change_admin(set, clear);
            self.proxy(follower.backend).state_changed();
            self.pass_on(follower);
        }
    }

    /// Servers that `track` this one.
    pub(crate) fn followers(&self, id: ServerId) -> Vec<ServerId> {
        self.proxies
            .iter()
            .flat_map(|q| q.servers.iter())
            .filter(|t| self.tracked(t) == Some(id))
            .map(|t| t.id)
            .collect()
    }

    /// The server that this one tracks: `track [<backend>/]<server>`.
    fn tracked(&self, s: &ServerState) -> Option<ServerId> {
        let name = s.conf.track.as_deref()?;
        let own = self.proxy(s.id.backend);
        let (p, server) = match name.split_once('/') {
            Some((backend, server)) => (self.proxies.iter().find(|p| *p.name == *backend)?, server),
            None => (own, name),
        };
        let found = p.servers.iter().find(|t| *t.name == *server)?;
        Some(found.id)
    }

    /// Balancing and queues after a change of one server.
    fn settle(&self, id: ServerId, now_ms: u64) {
        let p = self.proxy(id.backend);
        let s = self.server(id);
        p.weigh(s, now_ms);
        p.state_changed();
        p.note_change(now_ms);
        if !s.accepts_persistent() {
            s.queue.wake_all();
        }
        p.kick();
        if p.usable_servers() == 0 {
            p.queue.wake_all();
        }
    }

    /// When a server has just left the balancing: with `option redispatch` those who wait for it go to others. How many.
    fn requeued(&self, id: ServerId, was_willing: bool) -> u32 {
        let p = self.model.proxy(id.backend);
        let s = self.server(id);
        let leaves = was_willing && !s.is_willing();
        if !leaves || p.redispatch == 0 || p.options.contains(Options::PERSIST) {
            return 0;
        }
        s.queue.send_away()
    }
}

/// The flags its followers inherit from a server: to set, to clear.
fn inherited(s: &ServerState) -> (u8, u8) {
    let pairs = [
        (admin::MAINT, admin::INHERITED_MAINT),
        (admin::DRAIN, admin::INHERITED_DRAIN),
    ];
    pairs.into_iter().fold((0, 0), |(set, clear), (of, flag)| {
        match s.admin() & of != 0 {
            true => (set | flag, clear),
            false => (set, clear | flag),
        }
    })
}

impl ServerState {
    /// How often its sessions were ended, and why last.
    pub fn shutdown(&self) -> (u64, u8) {
        (
            self.shutdown_epoch.load(Relaxed),
            self.shutdown_cause.load(Relaxed),
        )
    }

    /// Takes one of the server's slots unless all are taken.
    pub fn take_slot(&self, backend_sessions: u32, fullconn: u32) -> bool {
        let limit = self.dynamic_maxconn(backend_sessions, fullconn);
        let taken = self.served.fetch_update(Relaxed, Relaxed, |n| {
            (limit == 0 || n < limit).then_some(n + 1)
        });
        taken.is_ok()
    }

    /// Times and counts of a change to up or down.
    pub fn note_change(&self, up: bool, now_ms: u64) {
        let before = self.last_change_ms.swap(now_ms, Relaxed);
        if up {
            self.down_ms
                .fetch_add(now_ms.saturating_sub(before), Relaxed);
        } else {
            self.down_count.fetch_add(1, Relaxed);
        }
    }
}

impl ProxyState {
    /// How many active and how many backup servers balancing could use.
    pub fn usable_by_kind(&self) -> (usize, usize) {
        let usable = || self.servers.iter().filter(|s| s.is_usable());
        let backup = usable().filter(|s| s.conf.backup).count();
        (usable().count() - backup, backup)
    }

    /// Grants free slots to waiters: after one joined, after a server came up or its `maxconn` grew.
    pub fn kick(&self) {
        for server in &self.servers {
            let usable = self.balancer.uses(server.id.index);
            while (!server.queue.is_empty() || (usable && !self.queue.is_empty()))
                && server.take_slot(self.be.sessions.now(), self.fullconn)
            {
                let index = server.id.index;
                let granted = server.queue.grant(index) || (usable && self.queue.grant(index));
                if !granted {
                    server.served.fetch_sub(1, Relaxed);
                    break;
                }
            }
        }
    }

    /// Times and counts of the backend, when its last server left or its first one came.
    pub fn note_change(&self, now_ms: u64) {
        let usable = self.usable_servers() > 0;
        let was_down = self.down.swap(!usable, Relaxed);
        if was_down != usable {
            return;
        }
        let before = self.last_change_ms.swap(now_ms, Relaxed);
        if usable {
            self.down_ms
                .fetch_add(now_ms.saturating_sub(before), Relaxed);
        } else {
            self.down_count.fetch_add(1, Relaxed);
        }
    }
}
