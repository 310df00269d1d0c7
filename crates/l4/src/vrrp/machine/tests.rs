//! Two machines on a wire that tests can cut, and a clock that they turn.

use super::*;
use std::net::Ipv4Addr;

const A: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const B: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));

fn settings(priority: u8) -> Settings {
    Settings {
        vrid: 51,
        version: 2,
        priority,
        interval_us: SECOND,
        start_as_master: false,
        preempt: true,
        preempt_delay_us: 0,
        down_timer_adverts: 3,
        garp: Garp::default(),
        lower_prio_no_advert: false,
        higher_prio_send_advert: false,
        check_addresses: true,
        addresses: vec![IpAddr::V4(Ipv4Addr::new(10, 128, 0, 1))],
        pass: None,
    }
}

/// Two routers and the network between them, in virtual time.
struct Pair {
    machines: [Machine; 2],
    alive: [bool; 2],
    linked: bool,
    now: Micros,
    log: Vec<String>,
}

impl Pair {
    fn new(a: Settings, b: Settings) -> Pair {
        let mut pair = Pair {
            machines: [Machine::new(a), Machine::new(b)],
            alive: [true; 2],
            linked: true,
            now: 0,
            log: Vec::new(),
        };
        for i in 0..2 {
            let actions = pair.machines[i].set_up(true, 0);
            pair.act(i, actions);
        }
        pair
    }

    fn act(&mut self, who: usize, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Send { priority } => {
                    let advert = self.machines[who].advert_to_send(priority);
                    let other = 1 - who;
                    if self.linked && self.alive[other] {
                        let (source, own) = if who == 0 { (A, B) } else { (B, A) };
                        if let Ok(more) =
                            self.machines[other].advert(&advert, source, own, self.now)
                        {
                            self.act(other, more);
                        }
                    }
                }
                Action::Entered(state) => self.log.push(format!(
                    "{} {} {}",
                    self.now / 1000,
                    ["a", "b"][who],
                    state.name()
                )),
                _ => {}
            }
        }
    }

    /// Runs until a time in milliseconds.
    fn until(&mut self, ms: u64) {
        loop {
            let next = (0..2)
                .filter(|i| self.alive[*i])
                .filter_map(|i| Some((self.machines[i].next_timer()?, i)))
                .min();
            match next {
                Some((at, i)) if at <= ms * 1000 => {
                    self.now = self.now.max(at);
                    let actions = self.machines[i].timer(self.now);
                    self.act(i, actions);
                }
                _ => break,
            }
        }
        self.now = ms * 1000;
    }

    fn states(&self) -> (State, State) {
        (self.machines[0].state(), self.machines[1].state())
    }
}

#[test]
fn the_higher_priority_is_elected() {
    let mut p = Pair::new(settings(150), settings(100));
    p.until(10_000);
    // 3 + 106/256 seconds.
    assert_eq!(p.log, ["0 a BACKUP", "0 b BACKUP", "3414 a MASTER"]);
}

#[test]
fn a_dead_master_is_replaced_after_three_adverts_and_the_skew() {
    let mut p = Pair::new(settings(150), settings(100));
    p.until(5_000);
    p.alive[0] = false;
    p.until(20_000);
    // Last advert at 4.414; 3 + 156/256 seconds later.
    assert_eq!(p.log.last().map(String::as_str), Some("8023 b MASTER"));
}

#[test]
fn version_3_scales_the_skew() {
    let fast = |p| Settings {
        version: 3,
        interval_us: 100_000,
        ..settings(p)
    };
    let mut p = Pair::new(fast(150), fast(100));
    p.until(1000);
    p.alive[0] = false;
    p.until(2000);
    // Last advert at 941.4 ms, 3.61 intervals of 100 ms later.
    assert_eq!(p.log.last().map(String::as_str), Some("1302 b MASTER"));
}

#[test]
fn a_stopping_master_is_replaced_after_the_skew() {
    let mut p = Pair::new(settings(150), settings(100));
    p.until(5_000);
    let actions = p.machines[0].stop(p.now);
    assert_eq!(
        actions,
        [Action::Send { priority: 0 }, Action::RemoveAddresses]
    );
    p.act(0, actions);
    p.alive[0] = false;
    p.until(9_000);
    assert_eq!(p.log.last().map(String::as_str), Some("5609 b MASTER"));
}

#[test]
fn who_returns_preempts_unless_told_not_to() {
    for (preempt, expect) in [
        (true, (State::Master, State::Backup)),
        (false, (State::Backup, State::Master)),
    ] {
        let mut p = Pair::new(
            Settings {
                preempt,
                ..settings(150)
            },
            settings(100),
        );
        p.linked = true;
        let actions = p.machines[0].set_up(false, 0);
        p.act(0, actions);
        p.until(6_000);
        assert_eq!(p.states(), (State::Fault, State::Master));
        let actions = p.machines[0].set_up(true, p.now);
        p.act(0, actions);
        p.until(15_000);
        assert_eq!(p.states(), expect, "preempt {preempt}");
    }
}

#[test]
fn preemption_waits_its_delay() {
    let mut p = Pair::new(
        Settings {
            preempt_delay_us: 5 * SECOND,
            ..settings(150)
        },
        settings(100),
    );
    let actions = p.machines[0].set_up(false, 0);
    p.act(0, actions);
    p.until(6_000);
    let actions = p.machines[0].set_up(true, p.now);
    p.act(0, actions);
    p.until(13_900);
    assert_eq!(p.states(), (State::Backup, State::Master));
    p.until(15_000);
    assert_eq!(p.states(), (State::Master, State::Backup));
}

#[test]
fn a_lower_master_that_dies_during_the_delay_is_missed_as_usual() {
    let mut p = Pair::new(
        Settings {
            preempt_delay_us: 60 * SECOND,
            ..settings(150)
        },
        settings(100),
    );
    let actions = p.machines[0].set_up(false, 0);
    p.act(0, actions);
    p.until(6_000);
    let actions = p.machines[0].set_up(true, p.now);
    p.act(0, actions);
    p.until(8_000);
    p.alive[1] = false;
    p.until(12_000);
    assert_eq!(p.machines[0].state(), State::Master);
}

#[test]
fn after_a_partition_one_master_is_left() {
    let mut p = Pair::new(settings(150), settings(100));
    p.until(5_000);
    p.linked = false;
    p.until(12_000);
    assert_eq!(p.states(), (State::Master, State::Master));
    p.linked = true;
    p.until(14_000);
    assert_eq!(p.states(), (State::Master, State::Backup));
}

#[test]
fn of_equals_the_higher_address_wins() {
    let mut p = Pair::new(settings(100), settings(100));
    p.linked = false;
    p.until(5_000);
    p.linked = true;
    p.until(7_000);
    assert_eq!(p.states(), (State::Backup, State::Master));
}

#[test]
fn an_owner_is_master_at_once() {
    let mut p = Pair::new(
        Settings {
            start_as_master: true,
            ..settings(255)
        },
        settings(254),
    );
    p.until(10);
    assert_eq!(p.states(), (State::Master, State::Backup));
}

#[test]
fn a_backup_takes_over_the_interval_of_a_version_3_master() {
    let v3 = |p, ms: u64| Settings {
        version: 3,
        interval_us: ms * 1000,
        ..settings(p)
    };
    let mut p = Pair::new(v3(150, 1000), v3(100, 100));
    p.until(20_000);
    assert_eq!(p.states(), (State::Master, State::Backup), "{:?}", p.log);
}

fn check_ignored(change: impl Fn(&mut Advert), expect: Ignored) {
    let mut m = Machine::new(settings(100));
    m.set_up(true, 0);
    let mut advert = Machine::new(settings(150)).advert_to_send(150);
    change(&mut advert);
    assert_eq!(m.advert(&advert, A, B, 0), Err(expect));
}

#[test]
fn adverts_that_do_not_fit_are_ignored() {
    check_ignored(|a| a.version = 3, Ignored::Version);
    check_ignored(|a| a.interval_cs = 200, Ignored::Interval);
    check_ignored(|a| a.pass = Some(*b"secret\0\0"), Ignored::Authentication);
    check_ignored(|a| a.addresses.clear(), Ignored::Addresses);
}

#[test]
fn becoming_master_sends_before_it_configures() {
    let mut m = Machine::new(settings(100));
    m.set_up(true, 0);
    let actions = m.timer(4 * SECOND);
    assert_eq!(
        actions,
        [
            Action::Send { priority: 100 },
            Action::AddAddresses,
            Action::Announce { repeat: 5 },
            Action::Entered(State::Master)
        ]
    );
    // The second round of announcements, garp_master_delay later.
    let mut rounds = 0;
    for s in 4..12 {
        rounds += m
            .timer(s * SECOND)
            .iter()
            .filter(|a| matches!(a, Action::Announce { .. }))
            .count();
    }
    assert_eq!(rounds, 1);
}

#[test]
fn a_late_timer_does_not_shift_the_next_advert() {
    let mut m = Machine::new(settings(100));
    m.set_up(true, 0);
    m.timer(4 * SECOND);
    m.timer(5 * SECOND + 300_000);
    assert_eq!(m.next_timer(), Some(6 * SECOND));
}
