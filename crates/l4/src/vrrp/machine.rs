//! The VRRP state machine of one virtual router: events in, actions out, time as an argument.
//!
//! Source: RFC 3768 and RFC 9568 section 6.4, with keepalived 2.2.7's additions (fault state, preempt_delay,
//! gratuitous ARP rounds, the tie broken by address).
//!
//! ```text
//!              up, not owner                    timer
//!   Fault ------------------------> Backup ----------------> Master
//!     ^  \------------------------------------------------->   |
//!     |            up, owner          ^     higher advert      |
//!     |                               \-----------------------/|
//!     \----------------------------- down ---------------------/
//! ```
//!
//! Times are microseconds of any clock that only goes forward.

use super::packet::Advert;
use crate::config::model::Garp;
use std::net::IpAddr;

pub type Micros = u64;
const SECOND: Micros = 1_000_000;
const CENTISECOND: Micros = 10_000;
/// The priority of the address owner.
pub const OWNER: u8 = 255;

/// What a machine is told once.
#[derive(Debug, Clone)]
pub struct Settings {
    pub vrid: u8,
    pub version: u8,
    /// As configured; trackers change the effective one.
    pub priority: u8,
    pub interval_us: Micros,
    pub start_as_master: bool,
    pub preempt: bool,
    pub preempt_delay_us: Micros,
    pub down_timer_adverts: u32,
    pub garp: Garp,
    pub lower_prio_no_advert: bool,
    pub higher_prio_send_advert: bool,
    /// Compare the addresses of every advert, not only of a new master's first.
    pub check_addresses: bool,
    pub addresses: Vec<IpAddr>,
    pub pass: Option<[u8; 8]>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    Init,
    Backup,
    Master,
    Fault,
}

impl State {
    pub fn name(self) -> &'static str {
        match self {
            State::Init => "INIT",
            State::Backup => "BACKUP",
            State::Master => "MASTER",
            State::Fault => "FAULT",
        }
    }
}

/// What the shell must do, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Send an advert with this priority.
    Send {
        priority: u8,
    },
    /// Put the addresses and routes in place.
    AddAddresses,
    RemoveAddresses,
    /// Announce every address this many times.
    Announce {
        repeat: u32,
    },
    /// The state changed: notify.
    Entered(State),
    /// A master heard a lower advert (notify_master_rx_lower_pri).
    LowerAdvertHeard,
}

/// Why an advert was not acted upon; each is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ignored {
    Version,
    Authentication,
    Interval,
    Addresses,
    NotRunning,
}

/// One virtual router.
#[derive(Debug, Clone)]
pub struct Machine {
    pub settings: Settings,
    state: State,
    /// With the trackers' weights.
    effective_priority: u8,
    /// The master's interval, from its adverts in version 3.
    master_interval_us: Micros,
    master_priority: u8,
    /// The backup's patience ends.
    down_at: Option<Micros>,
    advert_at: Option<Micros>,
    announce_at: Option<(Micros, u32)>,
    refresh_at: Option<Micros>,
    preempt_from: Option<Micros>,
    up: bool,
    pub last_transition: Option<Micros>,
}

impl Machine {
    pub fn new(settings: Settings) -> Self {
        let effective_priority = settings.priority;
        let master_interval_us = settings.interval_us;
        Machine {
            settings,
            state: State::Init,
            effective_priority,
            master_interval_us,
            master_priority: 0,
            down_at: None,
            advert_at: None,
            announce_at: None,
            refresh_at: None,
            preempt_from: None,
            up: false,
            last_transition: None,
        }
    }

    pub fn state(&self) -> State {
        self.state
    }
    pub fn priority(&self) -> u8 {
        self.effective_priority
    }
    pub fn master_priority(&self) -> u8 {
        match self.state {
            State::Master => self.effective_priority,
            _ => self.master_priority,
        }
    }

    fn lower_master(&self) -> bool {
        self.state == State::Backup && (1..self.effective_priority).contains(&self.master_priority)
    }

    /// When [`Machine::timer`] wants to be called.
    pub fn next_timer(&self) -> Option<Micros> {
        let announce = self.announce_at.map(|(at, _)| at);
        // A preemption comes due only while a lower master is heard; before that, only the silence counts.
        let preempt = self.preempt_from.filter(|_| self.lower_master());
        [
            self.down_at,
            self.advert_at,
            announce,
            self.refresh_at,
            preempt,
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// The interface (and everything tracked without weight) works, or no longer does.
    pub fn set_up(&mut self, up: bool, now: Micros) -> Vec<Action> {
        let mut actions = Vec::new();
        let first = self.state == State::Init;
        if self.up == up && !first {
            return actions;
        }
        self.up = up;
        match (up, self.state) {
            (true, State::Init | State::Fault) => self.start(first, now, &mut actions),
            (false, State::Master) => {
                // Peers need not wait: an advert of priority 0 goes out if it still can.
                actions.push(Action::Send { priority: 0 });
                actions.push(Action::RemoveAddresses);
                self.enter(State::Fault, now, &mut actions);
            }
            (false, _) => self.enter(State::Fault, now, &mut actions),
            _ => {}
        }
        actions
    }

    fn start(&mut self, first: bool, now: Micros, actions: &mut Vec<Action>) {
        if self.effective_priority == OWNER && (self.settings.start_as_master || !first) {
            return self.become_master(now, actions);
        }
        self.master_interval_us = self.settings.interval_us;
        self.master_priority = 0;
        self.enter(State::Backup, now, actions);
        let delay = self.settings.preempt_delay_us;
        self.preempt_from = (delay > 0).then_some(now + self.master_down_us() + delay);
        self.down_at = Some(now + self.master_down_us());
    }

    /// The trackers' sum changed the priority.
    pub fn set_priority(&mut self, priority: u8, now: Micros) -> Vec<Action> {
        let mut actions = Vec::new();
        if priority == self.effective_priority {
            return actions;
        }
        self.effective_priority = priority;
        match self.state {
            // The peers hear of it at once.
            State::Master => self.send(priority, now, &mut actions),
            State::Backup => {
                self.down_at = self.down_at.map(|at| at.min(now + self.master_down_us()))
            }
            _ => {}
        }
        actions
    }

    /// Skew_Time: a quarter second at priority 192 in version 2; proportional to the interval in version 3.
    fn skew_us(&self) -> Micros {
        let distance = u64::from(OWNER - self.effective_priority) + 1;
        let base = if self.settings.version == 2 {
            SECOND
        } else {
            self.master_interval_us
        };
        distance.min(256) * base / 256
    }

    /// Master_Down_Interval.
    pub fn master_down_us(&self) -> Micros {
        u64::from(self.settings.down_timer_adverts) * self.master_interval_us + self.skew_us()
    }

    /// Time passed: do what is due.
    pub fn timer(&mut self, now: Micros) -> Vec<Action> {
        let mut actions = Vec::new();
        let silent = self.down_at.is_some_and(|at| at <= now);
        let preempts = self.lower_master() && self.preempt_from.is_some_and(|at| at <= now);
        if silent || preempts {
            self.become_master(now, &mut actions);
            return actions;
        }
        if self.advert_at.is_some_and(|at| at <= now) {
            // From the planned time, not from now: late timers must not make adverts drift apart.
            let planned = self.advert_at.unwrap_or(now) + self.settings.interval_us;
            self.send(self.effective_priority, now, &mut actions);
            if planned > now {
                self.advert_at = Some(planned);
            }
        }
        if let Some((at, repeat)) = self.announce_at
            && at <= now
        {
            self.announce_at = None;
            actions.push(Action::Announce { repeat });
        }
        if self.refresh_at.is_some_and(|at| at <= now) {
            self.refresh_at = self.next_refresh(now);
            actions.push(Action::Announce {
                repeat: self.settings.garp.refresh_repeat,
            });
        }
        actions
    }

    fn next_refresh(&self, now: Micros) -> Option<Micros> {
        let every = u64::from(self.settings.garp.refresh_s) * SECOND;
        (every > 0).then_some(now + every)
    }

    fn become_master(&mut self, now: Micros, actions: &mut Vec<Action>) {
        self.enter(State::Master, now, actions);
        // The advert first: it silences the others while addresses are put in place.
        let entered = actions.pop();
        self.send(self.effective_priority, now, actions);
        actions.push(Action::AddAddresses);
        actions.push(Action::Announce {
            repeat: self.settings.garp.master_repeat,
        });
        actions.extend(entered);
        let garp = self.settings.garp;
        if garp.master_delay_s > 0 {
            self.announce_at = Some((
                now + u64::from(garp.master_delay_s) * SECOND,
                garp.master_repeat,
            ));
        }
        self.refresh_at = self.next_refresh(now);
    }

    fn send(&mut self, priority: u8, now: Micros, actions: &mut Vec<Action>) {
        actions.push(Action::Send { priority });
        self.advert_at = Some(now + self.settings.interval_us);
    }

    fn enter(&mut self, state: State, now: Micros, actions: &mut Vec<Action>) {
        self.state = state;
        self.preempt_from = None;
        self.down_at = None;
        self.advert_at = None;
        self.announce_at = None;
        self.refresh_at = None;
        self.last_transition = Some(now);
        actions.push(Action::Entered(state));
    }

    /// An advert for this router came. `own` is our source address: of equals the higher address is master.
    pub fn advert(
        &mut self,
        advert: &Advert,
        source: IpAddr,
        own: IpAddr,
        now: Micros,
    ) -> Result<Vec<Action>, Ignored> {
        if !matches!(self.state, State::Backup | State::Master) {
            return Err(Ignored::NotRunning);
        }
        self.acceptable(advert)?;
        let mut actions = Vec::new();
        match self.state {
            State::Backup => self.advert_as_backup(advert, now),
            _ => self.advert_as_master(advert, source, own, now, &mut actions),
        }
        Ok(actions)
    }

    fn acceptable(&self, advert: &Advert) -> Result<(), Ignored> {
        if advert.version != self.settings.version {
            return Err(Ignored::Version);
        }
        if advert.version == 2 && advert.pass != self.settings.pass {
            return Err(Ignored::Authentication);
        }
        // RFC 3768 7.1: version 2 intervals must agree. In version 3 a backup takes over the master's.
        if advert.version == 2
            && u64::from(advert.interval_cs) * CENTISECOND != self.settings.interval_us
        {
            return Err(Ignored::Interval);
        }
        if advert.interval_cs == 0 {
            return Err(Ignored::Interval);
        }
        let same = || {
            advert.addresses.len() == self.settings.addresses.len()
                && advert
                    .addresses
                    .iter()
                    .all(|a| self.settings.addresses.contains(a))
        };
        let new_master = self.state == State::Master || self.master_priority != advert.priority;
        if advert.priority != 0 && (self.settings.check_addresses || new_master) && !same() {
            return Err(Ignored::Addresses);
        }
        Ok(())
    }

    fn advert_as_backup(&mut self, advert: &Advert, now: Micros) {
        if advert.priority == 0 {
            // The master stops: wait the skew only, so that the best of the backups is first.
            self.master_priority = 0;
            self.down_at = Some(now + self.skew_us());
            return;
        }
        if self.settings.version == 3 {
            self.master_interval_us = u64::from(advert.interval_cs) * CENTISECOND;
        }
        let lower = advert.priority < self.effective_priority;
        let preempts = self.settings.preempt || self.effective_priority == OWNER;
        if lower && preempts {
            let delay = self.settings.preempt_delay_us;
            if delay > 0 {
                // It stays in office for the delay, and is missed as usual if it goes before.
                self.preempt_from.get_or_insert(now + delay);
                self.down_at = Some(now + self.master_down_us());
            }
            // Without a delay its adverts do not push our timer back: we take over when the timer ends.
            self.master_priority = advert.priority;
            return;
        }
        self.master_priority = advert.priority;
        self.preempt_from = None;
        self.down_at = Some(now + self.master_down_us());
    }

    fn advert_as_master(
        &mut self,
        advert: &Advert,
        source: IpAddr,
        own: IpAddr,
        now: Micros,
        actions: &mut Vec<Action>,
    ) {
        if advert.priority == 0 {
            return self.send(self.effective_priority, now, actions);
        }
        let higher = (advert.priority, source) > (self.effective_priority, own);
        let equal_owner =
            self.effective_priority == OWNER && advert.priority == OWNER && source <= own;
        if higher && !equal_owner {
            if self.settings.higher_prio_send_advert {
                actions.push(Action::Send {
                    priority: self.effective_priority,
                });
            }
            actions.push(Action::RemoveAddresses);
            self.master_priority = advert.priority;
            self.enter(State::Backup, now, actions);
            if self.settings.version == 3 {
                self.master_interval_us = u64::from(advert.interval_cs) * CENTISECOND;
            }
            self.preempt_from = None;
            self.down_at = Some(now + self.master_down_us());
            return;
        }
        actions.push(Action::LowerAdvertHeard);
        if !self.settings.lower_prio_no_advert {
            self.send(self.effective_priority, now, actions);
        }
        // The other's announcements may have moved the addresses: take them back.
        let garp = self.settings.garp;
        if garp.lower_prio_repeat > 0 {
            actions.push(Action::Announce {
                repeat: garp.lower_prio_repeat,
            });
            if garp.lower_prio_delay_s > 0 {
                self.announce_at = Some((
                    now + u64::from(garp.lower_prio_delay_s) * SECOND,
                    garp.lower_prio_repeat,
                ));
            }
        }
    }

    /// A sync group's member became master or left it: follow without waiting.
    pub fn follow(&mut self, state: State, now: Micros) -> Vec<Action> {
        let mut actions = Vec::new();
        match (state, self.state) {
            (State::Master, State::Backup) => self.become_master(now, &mut actions),
            (State::Backup, State::Master) => {
                actions.push(Action::Send { priority: 0 });
                actions.push(Action::RemoveAddresses);
                self.enter(State::Backup, now, &mut actions);
                self.down_at = Some(now + self.master_down_us());
            }
            _ => {}
        }
        actions
    }

    /// The process ends: the peers are told at once.
    pub fn stop(&mut self, now: Micros) -> Vec<Action> {
        let mut actions = Vec::new();
        if self.state == State::Master {
            actions.push(Action::Send { priority: 0 });
            actions.push(Action::RemoveAddresses);
        }
        self.state = State::Init;
        self.down_at = None;
        self.advert_at = None;
        self.announce_at = None;
        self.refresh_at = None;
        self.last_transition = Some(now);
        actions
    }

    /// The advert to send.
    pub fn advert_to_send(&self, priority: u8) -> Advert {
        Advert {
            version: self.settings.version,
            vrid: self.settings.vrid,
            priority,
            interval_cs: (self.settings.interval_us / CENTISECOND) as u32,
            addresses: self.settings.addresses.clone(),
            pass: self.settings.pass,
        }
    }
}

#[cfg(test)]
mod tests;
