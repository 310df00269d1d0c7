//! One session's state machine: packets and time in, packets and changes out. RFC 5880 section 6.8.
//!
//! ```text
//!                     Down                         Init, Up
//!          Down ----------------> Init ------------------------> Up
//!          ^ |                     |                              |
//!          | |      Init           |                              |
//!          | \---------------------|----------------------------->|
//!          \-----------------------/------------------------------/
//!             detection time; from Up: Down, AdminDown heard
//! ```
//!
//! The words on the arrows are the states that the neighbour's packets tell. Times are microseconds of any clock that only
//! goes forward.

use super::packet::{Diagnostic, Packet, State};

pub type Micros = u64;

/// Sections 6.8.3 and 6.8.1: a session that is not up sends no faster.
const SLOW_TX_US: u32 = 1_000_000;

/// What a session is told once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Ours; not 0.
    pub discriminator: u32,
    pub min_tx_us: u32,
    pub min_rx_us: u32,
    /// The interval of a session that is not up; a second at least.
    pub idle_tx_us: u32,
    pub multiplier: u8,
    /// Says nothing before the neighbour does.
    pub passive: bool,
}

/// What a step leads to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Outcome {
    pub send: Option<Packet>,
    /// The new state, if it changed.
    pub changed: Option<State>,
}

#[derive(Debug, Clone)]
pub struct Session {
    pub settings: Settings,
    state: State,
    diagnostic: Diagnostic,
    remote_state: State,
    /// 0 until it is heard.
    remote_discriminator: u32,
    /// Its detection multiplier, and what it sends no faster than.
    remote_multiplier: u8,
    remote_tx_us: u32,
    /// The fastest that it can take; 0: nothing at all.
    remote_rx_us: u32,
    remote_demand: bool,
    /// Our intervals have changed and the neighbour has not said that it knows.
    polling: bool,
    send_at: Option<Micros>,
    expires_at: Option<Micros>,
    /// Scatters the sending times; never 0.
    random: u32,
}

impl Session {
    pub fn new(settings: Settings, now: Micros) -> Session {
        let passive = settings.passive;
        Session {
            random: settings.discriminator | 1,
            settings,
            state: State::Down,
            diagnostic: Diagnostic::None,
            remote_state: State::Down,
            remote_discriminator: 0,
            remote_multiplier: 0,
            remote_tx_us: 0,
            remote_rx_us: 1,
            remote_demand: false,
            polling: false,
            send_at: (!passive).then_some(now),
            expires_at: None,
        }
    }

    pub fn state(&self) -> State {
        self.state
    }
    pub fn diagnostic(&self) -> Diagnostic {
        self.diagnostic
    }
    pub fn remote_state(&self) -> State {
        self.remote_state
    }

    /// When [`Session::timer`] wants to be called.
    pub fn next_timer(&self) -> Option<Micros> {
        [self.send_at, self.expires_at].into_iter().flatten().min()
    }

    fn desired_tx_us(&self) -> u32 {
        match self.state {
            State::Up => self.settings.min_tx_us,
            _ => self.settings.idle_tx_us.max(SLOW_TX_US),
        }
    }

    /// Time without a packet after which the neighbour is gone (section 6.8.4).
    pub fn detection_us(&self) -> Micros {
        let interval = self.settings.min_rx_us.max(self.remote_tx_us);
        Micros::from(self.remote_multiplier) * Micros::from(interval)
    }

    /// The next sending time (section 6.8.7): up to a quarter earlier than the interval, with a multiplier of 1 a tenth at least.
    fn plan(&mut self, now: Micros) {
        let silent = self.settings.passive && self.remote_discriminator == 0;
        let unwanted = self.remote_rx_us == 0
            || (self.remote_demand && self.state == State::Up && self.remote_state == State::Up);
        if silent || (unwanted && !self.polling) {
            self.send_at = None;
            return;
        }
        // xorshift
        self.random ^= self.random << 13;
        self.random ^= self.random >> 17;
        self.random ^= self.random << 5;
        let least = if self.settings.multiplier == 1 { 10 } else { 0 };
        let percent = 100 - u64::from(least + self.random % (26 - least));
        let interval = Micros::from(self.desired_tx_us().max(self.remote_rx_us));
        self.send_at = Some(now + interval * percent / 100);
    }

    fn packet(&self, last: bool) -> Packet {
        Packet {
            diagnostic: self.diagnostic as u8,
            state: self.state,
            // A packet never has both.
            poll: self.polling && !last,
            last,
            demand: false,
            multiplier: self.settings.multiplier,
            mine: self.settings.discriminator,
            yours: self.remote_discriminator,
            desired_tx_us: self.desired_tx_us(),
            required_rx_us: self.settings.min_rx_us,
        }
    }

    fn enter(&mut self, state: State, why: Diagnostic) -> State {
        if state == State::Up || self.state == State::Up {
            // Our intervals are others from now on.
            self.polling = state == State::Up;
        }
        self.state = state;
        self.diagnostic = why;
        state
    }

    /// Time passed: say what is due, notice a neighbour that is gone.
    pub fn timer(&mut self, now: Micros) -> Outcome {
        let mut outcome = Outcome::default();
        if self.expires_at.is_some_and(|at| at <= now) {
            self.expires_at = None;
            self.remote_discriminator = 0;
            self.remote_state = State::Down;
            self.remote_rx_us = 1;
            self.remote_demand = false;
            if matches!(self.state, State::Init | State::Up) {
                outcome.changed = Some(self.enter(State::Down, Diagnostic::TimeExpired));
                // The neighbour, if it still hears, shall know at once.
                self.send_at = Some(now);
            }
        }
        if self.send_at.is_some_and(|at| at <= now) {
            outcome.send = Some(self.packet(false));
            self.plan(now);
        }
        outcome
    }

    /// A packet for this session came (section 6.8.6, from where the session is known).
    pub fn packet_came(&mut self, p: &Packet, now: Micros) -> Outcome {
        let mut outcome = Outcome::default();
        if self.state == State::AdminDown {
            return outcome;
        }
        let before = (
            self.remote_rx_us,
            self.remote_discriminator,
            self.remote_demand,
        );
        self.remote_discriminator = p.mine;
        self.remote_state = p.state;
        self.remote_multiplier = p.multiplier;
        self.remote_tx_us = p.desired_tx_us;
        self.remote_rx_us = p.required_rx_us;
        self.remote_demand = p.demand;
        if p.last {
            self.polling = false;
        }
        let next = match (self.state, p.state) {
            (State::Down, State::AdminDown) => None,
            (_, State::AdminDown) => Some((State::Down, Diagnostic::NeighbourDown)),
            (State::Down, State::Down) => Some((State::Init, Diagnostic::None)),
            (State::Down, State::Init) | (State::Init, State::Init | State::Up) => {
                Some((State::Up, Diagnostic::None))
            }
            (State::Up, State::Down) => Some((State::Down, Diagnostic::NeighbourDown)),
            _ => None,
        };
        if let Some((state, why)) = next {
            outcome.changed = Some(self.enter(state, why));
        }
        self.expires_at = Some(now + self.detection_us());
        let after = (
            self.remote_rx_us,
            self.remote_discriminator,
            self.remote_demand,
        );
        if outcome.changed.is_some() {
            // What changed is said at once, the poll bit with it.
            outcome.send = Some(self.packet(p.poll));
            self.plan(now);
        } else {
            if before != after || self.send_at.is_none() {
                self.plan(now);
            }
            if p.poll {
                outcome.send = Some(self.packet(true));
            }
        }
        outcome
    }

    /// The session is given up: the packet that tells the neighbour.
    pub fn end(&mut self) -> Packet {
        self.enter(State::AdminDown, Diagnostic::AdminDown);
        self.polling = false;
        self.send_at = None;
        self.expires_at = None;
        self.packet(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn settings(discriminator: u32) -> Settings {
        Settings {
            discriminator,
            min_tx_us: 100_000,
            min_rx_us: 50_000,
            idle_tx_us: 1_000_000,
            multiplier: 3,
            passive: false,
        }
    }

    /// Two sessions and the wire between them; the wire may be cut.
    struct Pair {
        sessions: [Session; 2],
        now: Micros,
        cut: bool,
        sent: [u32; 2],
    }

    impl Pair {
        fn new(settings: [Settings; 2]) -> Pair {
            Pair {
                sessions: settings.map(|s| Session::new(s, 0)),
                now: 0,
                cut: false,
                sent: [0; 2],
            }
        }

        fn deliver(&mut self, from: usize, packet: Packet) {
            self.sent[from] += 1;
            let mut way = Some((from, packet));
            while let Some((from, packet)) = way.take().filter(|_| !self.cut) {
                let read = Packet::decode(&packet.encode()).unwrap();
                let outcome = self.sessions[1 - from].packet_came(&read, self.now);
                way = outcome.send.map(|p| (1 - from, p));
            }
        }

        fn run(&mut self, time: Micros) {
            let end = self.now + time;
            while let Some((at, i)) = (0..2)
                .filter_map(|i| Some((self.sessions[i].next_timer()?, i)))
                .min()
                .filter(|(at, _)| *at <= end)
            {
                self.now = self.now.max(at);
                let outcome = self.sessions[i].timer(self.now);
                if let Some(packet) = outcome.send {
                    self.deliver(i, packet);
                }
            }
            self.now = end;
        }

        fn states(&self) -> [State; 2] {
            [self.sessions[0].state(), self.sessions[1].state()]
        }
    }

    #[test]
    fn two_come_up_lose_each_other_and_come_up_again() {
        let mut pair = Pair::new([settings(1), settings(2)]);
        pair.run(3_000_000);
        assert_eq!(pair.states(), [State::Up, State::Up]);
        assert!(!pair.sessions[0].polling && !pair.sessions[1].polling);
        // Three times the neighbour's 100 ms.
        assert_eq!(pair.sessions[0].detection_us(), 300_000);
        pair.sent = [0, 0];
        pair.run(10_000_000);
        // Between 75 and 100 ms apart.
        assert!((100..=134).contains(&pair.sent[0]), "{:?}", pair.sent);
        pair.cut = true;
        pair.run(200_000);
        assert_eq!(pair.states(), [State::Up, State::Up]);
        pair.run(101_000);
        assert_eq!(pair.states(), [State::Down, State::Down]);
        assert_eq!(pair.sessions[0].diagnostic(), Diagnostic::TimeExpired);
        // Down, it sends once a second.
        pair.sent = [0, 0];
        pair.run(9_000_000);
        assert!((9..=13).contains(&pair.sent[1]), "{:?}", pair.sent);
        pair.cut = false;
        pair.run(3_000_000);
        assert_eq!(pair.states(), [State::Up, State::Up]);
    }

    #[test]
    fn one_that_is_given_up_takes_the_other_down_at_once() {
        let mut pair = Pair::new([settings(1), settings(2)]);
        pair.run(3_000_000);
        let farewell = pair.sessions[0].end();
        let outcome = pair.sessions[1].packet_came(&farewell, pair.now);
        assert_eq!(outcome.changed, Some(State::Down));
        assert_eq!(pair.sessions[1].diagnostic(), Diagnostic::NeighbourDown);
        // And it does not come up while the other says so.
        let again = pair.sessions[1].packet_came(&farewell, pair.now + 1000);
        assert_eq!(again.changed, None);
    }

    #[test]
    fn the_passive_one_waits() {
        let passive = Settings {
            passive: true,
            ..settings(1)
        };
        let mut session = Session::new(passive.clone(), 0);
        assert_eq!(session.next_timer(), None);
        assert_eq!(session.timer(10_000_000), Outcome::default());
        let mut pair = Pair::new([passive, settings(2)]);
        pair.run(3_000_000);
        assert_eq!(pair.states(), [State::Up, State::Up]);
    }

    #[test]
    fn the_slower_of_both_wishes_counts() {
        let slow = Settings {
            min_rx_us: 400_000,
            ..settings(1)
        };
        let mut pair = Pair::new([slow, settings(2)]);
        pair.run(3_000_000);
        pair.sent = [0, 0];
        pair.run(10_000_000);
        assert!((25..=34).contains(&pair.sent[1]), "{:?}", pair.sent);
        assert_eq!(pair.sessions[0].detection_us(), 1_200_000);
        // Who takes nothing gets nothing, until it is not heard any more.
        let mut session = Session::new(settings(1), 0);
        let mut packet = Session::new(settings(2), 0).packet(false);
        packet.required_rx_us = 0;
        session.packet_came(&packet, 0);
        assert_eq!(session.send_at, None);
    }

    proptest! {
        /// Whatever is heard, a timer stays ahead and nothing is sent faster than the neighbour takes it.
        #[test]
        fn no_packet_upsets_it(packets in prop::collection::vec((prop::collection::vec(any::<u8>(), 24), 0u64..2_000_000), 0..50)) {
            let mut session = Session::new(settings(7), 0);
            let mut now = 0;
            for (mut bytes, wait) in packets {
                bytes[0] = 0x20 | bytes[0] & 0x1f;
                bytes[1] &= !5;
                bytes[3] = 24;
                now += wait;
                if let Ok(packet) = Packet::decode(&bytes) {
                    session.packet_came(&packet, now);
                }
                session.timer(now);
                prop_assert!(session.next_timer().is_none_or(|at| at > now) || session.detection_us() == 0);
            }
        }
    }
}
