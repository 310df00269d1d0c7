//! What the rounds and the stall say of the generator, claim by claim.

use super::rounds::{Measured, cost, rate};
use super::stall::{self, Told};
use super::tool::Tool;
use crate::stats::{Interval, bootstrap_median};
use crate::units::show_ns;
use std::time::Duration;

/// A difference of rates below this is nothing that a comparison of proxies would be read for.
const NEAR: f64 = 0.02;

/// An answer to one of the page's questions.
pub struct Verdict {
    /// What is claimed of the generator.
    pub claim: &'static str,
    /// `None`: could not be judged.
    pub holds: Option<bool>,
    /// The figures behind it.
    pub why: String,
}

impl Verdict {
    /// In a word or two.
    pub fn word(&self) -> &'static str {
        match self.holds {
            Some(true) => "shown",
            Some(false) => "not shown",
            None => "not judged",
        }
    }

    /// CPU per request against wrk's: over all works together, and in each.
    pub fn cheaper(measured: &[Measured]) -> Self {
        let rounds: Vec<_> = measured
            .iter()
            .filter_map(|m| m.ratios(Tool::Inject, Tool::Wrk, cost))
            .collect();
        let ratios: Vec<_> = rounds.iter().filter_map(|r| bootstrap_median(r)).collect();
        let count = |is: fn(&Interval) -> bool| ratios.iter().filter(|ratio| is(ratio)).count();
        let (less, more) = (count(|r| r.high < 1.0), count(|r| r.low > 1.0));
        let list: Vec<_> = ratios
            .iter()
            .map(|ratio| format!("{:.2}", ratio.median))
            .collect();
        let all = bootstrap_median(&geometric_means(&rounds));
        let shown = shown(all, 2, "of wrk's over all works");
        Self {
            claim: "inject costs less CPU per request than wrk",
            holds: all.map(|all| all.high < 1.0 && more == 0),
            why: format!(
                "{shown}; less in {less} of {}, more in {more}; by work {}",
                ratios.len(),
                list.join(", ")
            ),
        }
    }

    /// Rates against both others', where the target sets the pace: over all comparisons together, and in each. Of
    /// many comparisons at 95 % some show a difference where there is none; so many are allowed.
    pub fn same_rates(measured: &[Measured]) -> Self {
        let pairs = measured.iter().filter(|m| m.work.paced).flat_map(|m| {
            [Tool::Wrk, Tool::H2load]
                .into_iter()
                .filter_map(|tool| m.ratios(Tool::Inject, tool, rate))
        });
        let rounds: Vec<_> = pairs.collect();
        let ratios: Vec<_> = rounds.iter().filter_map(|r| bootstrap_median(r)).collect();
        let differing = ratios.iter().filter(|ratio| differs(ratio)).count();
        let chance = by_chance(ratios.len());
        let all = bootstrap_median(&geometric_means(&rounds));
        let shown = shown(all, 3, "over all");
        Self {
            claim: "where the target sets the pace, inject, wrk and h2load reach the same rate",
            holds: all.map(|all| !differs(&all) && differing <= chance),
            why: format!(
                "ratio of inject to others {shown}; {} of {} comparisons show no difference above {:.0} % ({chance} may show one by chance)",
                ratios.len() - differing,
                ratios.len(),
                NEAR * 100.0,
            ),
        }
    }

    /// What the open loop tells of the stall, and the closed.
    pub fn stall(told: &[Told]) -> Self {
        let open = told.iter().find(|told| told.rate.is_some());
        let closed = told
            .iter()
            .find(|told| told.rate.is_none() && told.tool == Tool::Inject);
        let p90 = |told: &Told| told.latencies.at[1];
        let judged = open.zip(closed).and_then(|(open, closed)| {
            let due = stall::arithmetic(Duration::from_nanos(open.stall_ns), stall::RUN).at[1]?;
            Some((due, p90(open)?, p90(closed)?))
        });
        let claim = "the open loop shows a stall that the closed loop hides";
        match judged {
            None => Self {
                claim,
                holds: None,
                why: "not measured".to_owned(),
            },
            Some((due, open, closed)) => Self {
                claim,
                // Shown when the open loop tells at least three quarters of what was, the closed a quarter at most.
                holds: Some(open * 4 >= due * 3 && closed * 4 <= due),
                why: format!(
                    "p90 by arithmetic {}, open loop {}, closed loop {}",
                    show_ns(due),
                    show_ns(open),
                    show_ns(closed)
                ),
            },
        }
    }
}

/// An interval with so many decimals, and what it is of.
fn shown(all: Option<Interval>, decimals: usize, of: &str) -> String {
    let number = |n: f64| format!("{n:.decimals$}");
    all.map_or_else(
        || "nothing was measured".to_owned(),
        |all| {
            let (low, high) = (number(all.low), number(all.high));
            format!("{} [{low}, {high}] {of}", number(all.median))
        },
    )
}

/// Of each round the geometric mean over the works: all count the same, however much a request of theirs costs.
fn geometric_means(works: &[Vec<f64>]) -> Vec<f64> {
    let rounds = works.iter().map(Vec::len).min().unwrap_or(0);
    let of_round = |round: usize| {
        let logs: f64 = works.iter().map(|ratios| ratios[round].ln()).sum();
        (logs / works.len() as f64).exp()
    };
    (0..rounds).map(of_round).collect()
}

/// The samples show none.
pub const NO_DIFFERENCE: &str = "no difference shown";
/// They show one, but not that it is above [`NEAR`].
const SMALL_DIFFERENCE: &str = "none above 2 % shown";

/// Whether an interval of ratios of rates shows a difference above [`NEAR`].
fn differs(ratio: &Interval) -> bool {
    ratio.low >= 1.0 + NEAR || ratio.high <= 1.0 - NEAR
}

/// How many of `n` intervals of 95 % may miss the truth before it is no chance any more: more do so in less than one
/// case of twenty.
fn by_chance(n: usize) -> usize {
    const MISS: f64 = 0.05;
    let mut exactly = (1.0 - MISS).powi(n as i32);
    let mut more = 1.0 - exactly;
    let mut k = 0;
    while more >= MISS {
        exactly *= (n - k) as f64 / (k + 1) as f64 * MISS / (1.0 - MISS);
        more -= exactly;
        k += 1;
    }
    k
}

/// What an interval of ratios of rates says.
pub fn likeness(ratio: &Interval) -> &'static str {
    if ratio.covers(1.0) {
        NO_DIFFERENCE
    } else if !differs(ratio) {
        SMALL_DIFFERENCE
    } else if ratio.median > 1.0 {
        "more"
    } else {
        "less"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::generators::rounds::{Series, WORKS};
    use crate::experiments::generators::tool::Latencies;

    fn measured(inject: [f64; 2], wrk: [f64; 2]) -> Measured {
        let series = |tool, [us, rate]: [f64; 2]| Series {
            tool,
            us_per_request: vec![us; 5],
            requests_per_s: vec![rate; 5],
        };
        Measured {
            work: WORKS[0],
            series: vec![series(Tool::Inject, inject), series(Tool::Wrk, wrk)],
        }
    }

    #[test]
    fn claims_are_judged() {
        let check = |inject, wrk, cheaper, same| {
            let all = [measured(inject, wrk)];
            assert_eq!(Verdict::cheaper(&all).holds, cheaper);
            assert_eq!(Verdict::same_rates(&all).holds, same);
        };
        check([8.0, 100.0], [10.0, 100.0], Some(true), Some(true));
        check([10.0, 99.0], [10.0, 100.0], Some(false), Some(true));
        check([12.0, 90.0], [10.0, 100.0], Some(false), Some(false));
        assert_eq!(Verdict::cheaper(&[]).holds, None);
        assert_eq!(Verdict::same_rates(&[]).word(), "not judged");
    }

    #[test]
    fn chance_has_its_share() {
        // P(more than k of n miss), n = 6: 0.265, 0.033; n = 1: 0.05, 0; n = 20: 0.642, 0.264, 0.075, 0.016.
        assert_eq!([0, 6, 20].map(by_chance), [0, 1, 3]);
        let many = |rates: &[f64]| -> Vec<Measured> {
            rates
                .iter()
                .map(|&rate| measured([1.0, rate], [1.0, 100.0]))
                .collect()
        };
        assert_eq!(
            Verdict::same_rates(&many(&[100.0, 100.0, 100.0, 100.0, 100.0, 97.0])).holds,
            Some(true)
        );
        assert_eq!(
            Verdict::same_rates(&many(&[100.0, 100.0, 100.0, 100.0, 97.0, 97.0])).holds,
            Some(false)
        );
    }

    #[test]
    fn works_count_the_same() {
        assert_eq!(geometric_means(&[]), [0.0; 0]);
        let means = geometric_means(&[vec![0.5, 1.0], vec![2.0, 4.0, 9.0]]);
        assert!(
            (means[0] - 1.0).abs() < 1e-9 && (means[1] - 2.0).abs() < 1e-9,
            "{means:?}"
        );
        assert_eq!(means.len(), 2);
    }

    #[test]
    fn one_dearer_work_spoils_the_claim() {
        let all = [
            measured([5.0, 1.0], [10.0, 1.0]),
            measured([11.0, 1.0], [10.0, 1.0]),
        ];
        let verdict = Verdict::cheaper(&all);
        assert_eq!(verdict.holds, Some(false));
        assert!(
            verdict
                .why
                .contains("less in 1 of 2, more in 1; by work 0.50, 1.10"),
            "{}",
            verdict.why
        );
    }

    #[test]
    fn a_stall_is_shown_or_hidden() {
        let told = |rate, p90_ms: u64| Told {
            tool: Tool::Inject,
            rate,
            stall_ns: 500_000_000,
            latencies: Latencies {
                at: [None, Some(p90_ms * 1_000_000), None],
                ..Latencies::default()
            },
        };
        let check = |open, closed, expect| {
            let told = [told(None, closed), told(Some(2000.0), open)];
            assert_eq!(Verdict::stall(&told).holds, expect);
        };
        check(210, 1, Some(true));
        check(210, 100, Some(false));
        check(20, 1, Some(false));
        assert_eq!(Verdict::stall(&[]).holds, None);
    }

    #[test]
    fn rates_are_alike_near_or_not() {
        let check = |low, median, high, expect: &str| {
            assert_eq!(likeness(&Interval { low, median, high }), expect);
        };
        check(0.9, 1.0, 1.1, NO_DIFFERENCE);
        check(0.9, 0.95, 0.99, SMALL_DIFFERENCE);
        check(0.9, 0.95, 0.97, "less");
        check(1.03, 1.05, 1.07, "more");
    }
}
