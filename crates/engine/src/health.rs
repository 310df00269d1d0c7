//! A server's health: rise and fall counting over check results (manual 5.2 `check`, `rise`, `fall`), as a state machine
//! that is told results and times and answers what changed.

use sluice_config::model::{AgentParams, CheckParams, OnError};

/// The outcome of one check, with the names of the CSV's `check_status`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CheckStatus {
    /// No check is configured.
    #[default]
    Unknown,
    /// Configured, not run yet.
    Init,
    /// Socket error before any layer was reached.
    SockErr,
    L4Ok,
    L4Timeout,
    L4Con,
    L6Ok,
    L6Timeout,
    L6Resp,
    L7Timeout,
    L7Resp,
    L7Ok,
    /// `disable-on-404`
    L7OkCond,
    L7Status,
    ProcErr,
    ProcTimeout,
    ProcOk,
    /// Traffic showed it (`observe`).
    Observed,
    /// The agent said nothing of its server's health.
    Unchanged,
}

impl CheckStatus {
    /// As the CSV prints it.
    pub fn code(self) -> &'static str {
        match self {
            CheckStatus::Unknown => "UNK",
            CheckStatus::Init => "INI",
            CheckStatus::SockErr => "SOCKERR",
            CheckStatus::L4Ok => "L4OK",
            CheckStatus::L4Timeout => "L4TOUT",
            CheckStatus::L4Con => "L4CON",
            CheckStatus::L6Ok => "L6OK",
            CheckStatus::L6Timeout => "L6TOUT",
            CheckStatus::L6Resp => "L6RSP",
            CheckStatus::L7Timeout => "L7TOUT",
            CheckStatus::L7Resp => "L7RSP",
            CheckStatus::L7Ok => "L7OK",
            CheckStatus::L7OkCond => "L7OKC",
            CheckStatus::L7Status => "L7STS",
            CheckStatus::ProcErr => "PROCERR",
            CheckStatus::ProcTimeout => "PROCTOUT",
            CheckStatus::ProcOk => "PROCOK",
            CheckStatus::Observed => "HANA",
            CheckStatus::Unchanged => "CHECKED",
        }
    }
    /// HAProxy's number of it, as state files have it. Without a check it is that of `Init`.
    pub fn number(self) -> u8 {
        match self {
            CheckStatus::Unknown | CheckStatus::Init => 1,
            CheckStatus::Unchanged => 3,
            CheckStatus::Observed => 4,
            CheckStatus::SockErr => 5,
            CheckStatus::L4Ok => 6,
            CheckStatus::L4Timeout => 7,
            CheckStatus::L4Con => 8,
            CheckStatus::L6Ok => 9,
            CheckStatus::L6Timeout => 10,
            CheckStatus::L6Resp => 11,
            CheckStatus::L7Timeout => 12,
            CheckStatus::L7Resp => 13,
            CheckStatus::L7Ok => 15,
            CheckStatus::L7OkCond => 16,
            CheckStatus::L7Status => 17,
            CheckStatus::ProcErr => 18,
            CheckStatus::ProcTimeout => 19,
            CheckStatus::ProcOk => 20,
        }
    }
    /// The status with that code (`ok-status L7OKC`).
    pub fn from_code(code: &str) -> Option<Self> {
        use CheckStatus::*;
        let all = [
            SockErr,
            L4Ok,
            L4Timeout,
            L4Con,
            L6Ok,
            L6Timeout,
            L6Resp,
            L7Timeout,
            L7Resp,
            L7Ok,
            L7OkCond,
            L7Status,
            ProcErr,
            ProcTimeout,
            ProcOk,
        ];
        all.into_iter().find(|s| s.code() == code)
    }
    /// In words, as the logs say it.
    pub fn description(self) -> &'static str {
        match self {
            CheckStatus::Unknown => "Unknown",
            CheckStatus::Init => "Initializing",
            CheckStatus::SockErr => "Socket error",
            CheckStatus::L4Ok => "Layer4 check passed",
            CheckStatus::L4Timeout => "Layer4 timeout",
            CheckStatus::L4Con => "Layer4 connection problem",
            CheckStatus::L6Ok => "Layer6 check passed",
            CheckStatus::L6Timeout => "Layer6 timeout",
            CheckStatus::L6Resp => "Layer6 invalid response",
            CheckStatus::L7Timeout => "Layer7 timeout",
            CheckStatus::L7Resp => "Layer7 invalid response",
            CheckStatus::L7Ok => "Layer7 check passed",
            CheckStatus::L7OkCond => "Layer7 check conditionally passed",
            CheckStatus::L7Status => "Layer7 wrong status",
            CheckStatus::ProcErr => "External check error",
            CheckStatus::ProcTimeout => "External check timeout",
            CheckStatus::ProcOk => "External check passed",
            CheckStatus::Observed => "Health analyze",
            CheckStatus::Unchanged => "No status change",
        }
    }
    /// Whether a number comes with it: a status of the protocol, a program's exit status.
    pub fn has_code(self) -> bool {
        matches!(
            self,
            CheckStatus::L7Ok
                | CheckStatus::L7OkCond
                | CheckStatus::L7Status
                | CheckStatus::ProcErr
                | CheckStatus::ProcTimeout
                | CheckStatus::ProcOk
        )
    }
    pub fn passed(self) -> bool {
        matches!(
            self,
            CheckStatus::L4Ok
                | CheckStatus::L6Ok
                | CheckStatus::L7Ok
                | CheckStatus::L7OkCond
                | CheckStatus::ProcOk
        )
    }
}

/// What one check found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CheckResult {
    pub status: CheckStatus,
    /// HTTP or protocol status code, 0 for none.
    pub code: u32,
    /// `last_chk`: the reason in words.
    pub info: String,
    pub duration_ms: u64,
}

/// What a result changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    None,
    WentUp,
    WentDown,
    /// `disable-on-404` said so.
    Stopping,
}

/// Rise and fall of one server. `0..rise` is down, `rise..rise+fall-1` is up.
#[derive(Debug, Clone)]
pub struct Health {
    pub rise: u32,
    pub fall: u32,
    /// HAProxy's counter: starts at `rise` (up, one failure of `fall` tolerated fewer).
    pub counter: u32,
    pub last: CheckResult,
}

impl Health {
    pub fn new(p: &CheckParams) -> Self {
        let status = if p.enabled {
            CheckStatus::Init
        } else {
            CheckStatus::Unknown
        };
        Health {
            rise: p.rise,
            fall: p.fall,
            counter: p.first_counter(),
            last: CheckResult {
                status,
                ..CheckResult::default()
            },
        }
    }
    /// An agent's: what it says last counts.
    pub fn of_agent(p: &AgentParams) -> Self {
        Health::new(&CheckParams {
            enabled: p.enabled,
            rise: 1,
            fall: 1,
            ..CheckParams::default()
        })
    }
    pub fn is_up(&self) -> bool {
        self.counter >= self.rise
    }
    /// Too many errors in traffic (`on-error`): what they count for, as a failed check. `fastinter` leaves the state.
    pub fn on_alarm(&mut self, action: OnError, info: String) -> Change {
        match action {
            OnError::FastInter => return Change::None,
            OnError::FailCheck => {}
            // the next failure is the last
            OnError::SuddenDeath => self.counter = self.counter.min(self.rise + 1),
            OnError::MarkDown => self.counter = self.counter.min(self.rise),
        }
        self.on_result(CheckResult {
            status: CheckStatus::Observed,
            info,
            ..CheckResult::default()
        })
    }
    /// Takes in one result.
    pub fn on_result(&mut self, result: CheckResult) -> Change {
        let was_up = self.is_up();
        let (passed, stopping) = (
            result.status.passed(),
            result.status == CheckStatus::L7OkCond,
        );
        self.last = result;
        if passed {
            let top = self.rise + self.fall - 1;
            self.counter = if was_up { top } else { self.counter + 1 };
            if !was_up && self.is_up() {
                self.counter = top;
                return Change::WentUp;
            }
            return if stopping && was_up {
                Change::Stopping
            } else {
                Change::None
            };
        }
        if !was_up {
            self.counter = 0;
            return Change::None;
        }
        self.counter -= 1;
        if self.is_up() {
            return Change::None;
        }
        self.counter = 0;
        Change::WentDown
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn health(rise: u32, fall: u32) -> Health {
        Health::new(&CheckParams {
            enabled: true,
            rise,
            fall,
            ..CheckParams::default()
        })
    }
    fn result(status: CheckStatus) -> CheckResult {
        CheckResult {
            status,
            ..CheckResult::default()
        }
    }

    #[test]
    fn starts_up_with_one_failure_left() {
        let mut h = health(2, 3);
        assert!(h.is_up());
        assert_eq!(h.on_result(result(CheckStatus::L4Con)), Change::WentDown);
    }

    #[test]
    fn a_404_stops_a_server_that_is_up_only() {
        let mut h = health(1, 1);
        assert_eq!(h.on_result(result(CheckStatus::L7OkCond)), Change::Stopping);
        h.on_result(result(CheckStatus::L7Status));
        assert_eq!(h.on_result(result(CheckStatus::L7OkCond)), Change::WentUp);
    }

    #[test]
    fn an_alarm_counts_as_on_error_says() {
        let after = |action, many| {
            let mut h = health(2, 3);
            h.on_result(result(CheckStatus::L4Ok));
            let changes: Vec<_> = (0..many)
                .map(|_| h.on_alarm(action, String::new()))
                .collect();
            (h.is_up(), changes.last() == Some(&Change::WentDown))
        };
        assert_eq!(after(OnError::FastInter, 9), (true, false));
        assert_eq!(after(OnError::FailCheck, 2), (true, false));
        assert_eq!(after(OnError::FailCheck, 3), (false, true));
        assert_eq!(after(OnError::SuddenDeath, 1), (true, false));
        assert_eq!(after(OnError::SuddenDeath, 2), (false, true));
        assert_eq!(after(OnError::MarkDown, 1), (false, true));
        assert_eq!(after(OnError::MarkDown, 2), (false, false));
    }

    #[test]
    fn status_codes_are_read_back() {
        for status in [
            CheckStatus::L4Ok,
            CheckStatus::L7OkCond,
            CheckStatus::ProcErr,
        ] {
            assert_eq!(CheckStatus::from_code(status.code()), Some(status));
        }
        assert_eq!(CheckStatus::from_code("UP"), None);
    }

    proptest! {
        /// The model: up after `rise` successes in a row, down after `fall` failures in a row.
        #[test]
        fn follows_runs_of_results(rise in 1..5u32, fall in 1..5u32, results: Vec<bool>) {
            let mut h = health(rise, fall);
            // at start one failure is enough: as if the others had been seen
            let (mut up, mut good, mut bad) = (true, 0, fall - 1);
            for passed in results {
                let (was, status) = (up, if passed { CheckStatus::L7Ok } else { CheckStatus::L7Status });
                (good, bad) = if passed { (good + 1, 0) } else { (0, bad + 1) };
                up = if was { bad < fall } else { good >= rise };
                if up != was {
                    (good, bad) = (0, 0);
                }
                let expect = match (was, up) {
                    (false, true) => Change::WentUp,
                    (true, false) => Change::WentDown,
                    _ => Change::None,
                };
                prop_assert_eq!(h.on_result(result(status)), expect);
                prop_assert_eq!(h.is_up(), up);
            }
        }
    }
}
