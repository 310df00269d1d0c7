//! What came out of a comparison, and what it says: ratios with their intervals, targets reached or not.

use super::Options;
use super::peer::{Peer, Programs, Running};
use super::scenario::{Scenario, Target};
use crate::measure::Sample;
use crate::stand::PerCable;
use crate::stats::{Interval, bootstrap_median, median, paired_ratios};
use serde::Serialize;

/// A whole comparison.
#[derive(Debug, Clone, Serialize)]
pub struct Outcome {
    /// The peer that the ratios are against.
    pub baseline: Peer,
    /// Rounds that were asked for.
    pub rounds: usize,
    /// Seconds measured in each.
    pub seconds: f64,
    /// MTU on the client's and the origin's side, where they were hosts of their own.
    pub mtu: Option<(u32, u32)>,
    /// CPUs of the proxy and of load and origin.
    pub cpus: [String; 2],
    /// What was measured.
    pub scenarios: Vec<Measured>,
    /// Ended by a signal.
    pub interrupted: bool,
}

/// One scenario's measurements.
#[derive(Debug, Clone, Serialize)]
pub struct Measured {
    /// Scenario's name.
    pub name: &'static str,
    /// What it is.
    pub title: &'static str,
    /// Unit of the cost.
    pub unit: &'static str,
    /// By proxy.
    pub peers: Vec<PeerRounds>,
    /// Who could not be measured, and why.
    pub failures: Vec<(Peer, String)>,
    #[serde(skip)]
    scenario: Scenario,
}

/// One proxy's rounds in a scenario.
#[derive(Debug, Clone, Serialize)]
pub struct PeerRounds {
    /// Who.
    pub peer: Peer,
    /// What it says it is.
    pub version: String,
    /// How it was started.
    pub command: String,
    /// What it was told.
    pub config: String,
    /// Round by round.
    pub samples: Vec<Sample>,
    /// System calls per request, when they were counted.
    pub syscalls_per_request: Option<f64>,
    /// Packets per request on either cable, when they were counted.
    pub packets: Option<PerCable>,
}

impl PeerRounds {
    /// One figure of every round.
    #[must_use]
    pub fn series(&self, of: impl Fn(&Sample) -> f64) -> Vec<f64> {
        self.samples.iter().map(of).collect()
    }

    /// Median of the cost.
    #[must_use]
    pub fn cost(&self) -> Option<f64> {
        median(&self.series(|s| s.cost))
    }
}

impl Outcome {
    /// An empty one.
    #[must_use]
    pub fn new(options: &Options) -> Self {
        Self {
            baseline: options.baseline,
            rounds: options.rounds,
            seconds: options.span.duration.as_secs_f64(),
            mtu: options.mtu,
            cpus: [
                options.proxy_cpus.to_string(),
                options.load_cpus.to_string(),
            ],
            scenarios: Vec::new(),
            interrupted: false,
        }
    }

    /// How many targets were reached, and how many could be judged.
    #[must_use]
    pub fn score(&self) -> (usize, usize) {
        let verdicts: Vec<_> = self.scenarios.iter().flat_map(Measured::verdicts).collect();
        (
            verdicts.iter().filter(|v| v.reached).count(),
            verdicts.len(),
        )
    }
}

/// A target, judged.
#[derive(Debug, Clone, Serialize)]
pub struct Verdict {
    /// What was to be reached, as a sentence.
    pub target: String,
    /// The measured ratio or figure.
    pub measured: Interval,
    /// Whether its median reaches the target.
    pub reached: bool,
    /// Whether the interval lies wholly on that side.
    pub sure: bool,
}

impl Measured {
    /// An empty one.
    #[must_use]
    pub fn new(scenario: &Scenario, peers: &[Peer], programs: &Programs) -> Self {
        let rounds = |&peer: &Peer| PeerRounds {
            peer,
            version: programs.version(peer),
            command: String::new(),
            config: String::new(),
            samples: Vec::new(),
            syscalls_per_request: None,
            packets: None,
        };
        Self {
            name: scenario.name,
            title: scenario.title,
            unit: scenario.unit(),
            peers: peers.iter().map(rounds).collect(),
            failures: Vec::new(),
            scenario: *scenario,
        }
    }

    /// Keeps how a proxy was started.
    pub fn note(&mut self, running: &Running) {
        if let Some(rounds) = self.peers.iter_mut().find(|p| p.peer == running.peer) {
            rounds.command.clone_from(&running.process.command);
            rounds.config.clone_from(&running.config);
        }
    }

    /// Adds a round.
    pub fn add(&mut self, peer: Peer, sample: Sample) {
        if let Some(rounds) = self.peers.iter_mut().find(|p| p.peer == peer) {
            rounds.samples.push(sample);
        }
    }

    /// Keeps why a proxy could not be measured.
    pub fn fail(&mut self, peer: Peer, error: &anyhow::Error) {
        self.failures.push((peer, format!("{error:#}")));
    }

    /// Whether a proxy failed.
    #[must_use]
    pub fn failed(&self, peer: Peer) -> bool {
        self.failures.iter().any(|(failed, _)| *failed == peer)
    }

    /// Keeps a count of system calls.
    pub fn count_syscalls(&mut self, peer: Peer, per_request: f64) {
        if let Some(rounds) = self.peers.iter_mut().find(|p| p.peer == peer) {
            rounds.syscalls_per_request = Some(per_request);
        }
    }

    /// Keeps a count of packets.
    pub fn count_packets(&mut self, peer: Peer, packets: Option<PerCable>) {
        if let Some(rounds) = self.peers.iter_mut().find(|p| p.peer == peer) {
            rounds.packets = packets;
        }
    }

    /// The rounds of a peer.
    #[must_use]
    pub fn of(&self, peer: Peer) -> Option<&PeerRounds> {
        self.peers
            .iter()
            .find(|p| p.peer == peer && !p.samples.is_empty())
    }

    /// Cost of `one` over cost of `other`, round by round.
    #[must_use]
    pub fn ratio(&self, one: Peer, other: Peer) -> Option<Interval> {
        let (one, other) = (
            self.of(one)?.series(|s| s.cost),
            self.of(other)?.series(|s| s.cost),
        );
        bootstrap_median(&paired_ratios(&one, &other))
    }

    /// The targets that can be judged with what was measured.
    #[must_use]
    pub fn verdicts(&self) -> Vec<Verdict> {
        self.scenario
            .targets
            .iter()
            .filter_map(|target| self.judge(*target))
            .collect()
    }

    fn judge(&self, target: Target) -> Option<Verdict> {
        let (text, measured, bound) = match target {
            Target::Ratio(peer, bound) => (
                format!("<= {bound:.2} of {}", peer.name()),
                self.ratio(Peer::Sluice, peer)?,
                bound,
            ),
            Target::Better(bound) => {
                let cost = |peer| self.of(peer).and_then(PeerRounds::cost);
                let peers = [Peer::Haproxy, Peer::Nginx]
                    .into_iter()
                    .filter(|&p| cost(p).is_some());
                let better = peers.min_by(|&a, &b| {
                    cost(a)
                        .partial_cmp(&cost(b))
                        .unwrap_or(std::cmp::Ordering::Equal)
                })?;
                let text = format!("<= {bound:.2} of {} (the better peer)", better.name());
                (text, self.ratio(Peer::Sluice, better)?, bound)
            }
            Target::Bytes(bound) => {
                let bytes = self.of(Peer::Sluice)?.series(|s| s.cost);
                (
                    format!("<= {bound:.0} B a connection"),
                    bootstrap_median(&bytes)?,
                    bound,
                )
            }
        };
        let reached = measured.median <= bound;
        let sure = if reached {
            measured.high <= bound
        } else {
            measured.low > bound
        };
        Some(Verdict {
            target: text,
            measured,
            reached,
            sure,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::scenario;

    fn measured(name: &str, costs: &[(Peer, &[f64])]) -> Measured {
        let scenario = scenario::select(&[name.to_owned()]).unwrap()[0];
        let peers: Vec<Peer> = costs.iter().map(|(peer, _)| *peer).collect();
        let mut measured = Measured::new(&scenario, &peers, &Programs::default());
        for (peer, costs) in costs {
            for &cost in *costs {
                measured.add(*peer, Sample::of_cost(cost));
            }
        }
        measured
    }

    #[test]
    fn targets_are_judged_by_the_median_of_paired_ratios() {
        let rounds = measured(
            "keepalive-64",
            &[
                (Peer::Sluice, &[12.0, 24.0, 12.0]),
                (Peer::Haproxy, &[16.0, 32.0, 16.0]),
                (Peer::Relay, &[8.0, 16.0, 8.0]),
            ],
        );
        let verdicts = rounds.verdicts();
        assert_eq!(
            verdicts.len(),
            2,
            "nginx was not measured: its target is not judged"
        );
        assert!(
            (verdicts[0].measured.median - 0.75).abs() < 1e-9
                && verdicts[0].reached
                && verdicts[0].sure
        );
        assert!((verdicts[1].measured.median - 1.5).abs() < 1e-9 && !verdicts[1].reached);
    }

    #[test]
    fn the_better_peer_is_the_cheaper_one() {
        let rounds = measured(
            "close",
            &[
                (Peer::Sluice, &[30.0]),
                (Peer::Haproxy, &[34.0]),
                (Peer::Nginx, &[32.0]),
            ],
        );
        let verdict = &rounds.verdicts()[0];
        assert!(verdict.target.contains("nginx"));
        assert!((verdict.measured.median - 30.0 / 32.0).abs() < 1e-9 && !verdict.reached);
    }
}
