//! The table of scenarios: what each sends through the proxies, who takes part, what is to be reached.

use super::config::{Act, Job, Splice};
use super::peer::Peer;
use crate::units::parse_size;

/// One comparison.
#[derive(Debug, Clone, Copy)]
pub struct Scenario {
    /// Name on the command line.
    pub name: &'static str,
    /// What it is, for the report.
    pub title: &'static str,
    /// What is measured.
    pub measure: Measure,
    /// Connections.
    pub conns: usize,
    /// Request target.
    pub path: &'static str,
    /// `Host` when it matters.
    pub host: Option<&'static str>,
    /// What the proxy does.
    pub kind: Kind,
    /// Who takes part.
    pub peers: &'static [Peer],
    /// What Sluice is to reach.
    pub targets: &'static [Target],
}

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// CPU time of the proxy per request (per connection where each carries one request).
    Cpu,
    /// Resident memory of the proxy per idle connection.
    IdleMemory,
}

/// What the proxy does, in short.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// HTTP, connections kept on both sides.
    KeepAlive,
    /// The same, bodies spliced when the proxy finds that it pays.
    Splice,
    /// The same, bodies always spliced.
    SpliceAlways,
    /// HTTP, a connection per request on both sides.
    Close,
    /// The proxy answers by itself with a redirect; connections kept.
    Redirect,
    /// Bytes, not requests.
    Tcp,
    /// ACLs, header rules, a large map, a JSON log.
    Rules,
}

/// A bound on a ratio of medians, or on an absolute figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Target {
    /// At most so many times what this peer costs.
    Ratio(Peer, f64),
    /// At most so many times what the cheaper of HAProxy and nginx costs.
    Better(f64),
    /// At most so many bytes per connection.
    Bytes(f64),
}

const HTTP: &[Peer] = &[Peer::Sluice, Peer::Haproxy, Peer::Nginx, Peer::Relay];
/// What the relay cannot do.
const NO_RELAY: &[Peer] = &[Peer::Sluice, Peer::Haproxy, Peer::Nginx];
/// What only haproxy.cfg can say.
const CFG_ONLY: &[Peer] = &[Peer::Sluice, Peer::Haproxy];
/// Every job that the relay can do is to cost at most this much more.
const FLOOR: Target = Target::Ratio(Peer::Relay, 1.35);

const BASE: Scenario = Scenario {
    name: "",
    title: "",
    measure: Measure::Cpu,
    conns: 64,
    path: "/?s=64",
    host: None,
    kind: Kind::KeepAlive,
    peers: HTTP,
    targets: &[],
};

/// Entries of the map in the rules scenario.
pub const MAP_ENTRIES: usize = 100_000;

/// All scenarios; those with targets make up `bench`.
pub const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "keepalive-64",
        title: "keep-alive, 64 B, 64 connections",
        targets: &[
            Target::Ratio(Peer::Haproxy, 0.80),
            Target::Ratio(Peer::Nginx, 0.85),
            FLOOR,
        ],
        ..BASE
    },
    Scenario {
        name: "keepalive-500",
        title: "keep-alive, 64 B, 500 connections",
        conns: 500,
        targets: &[Target::Ratio(Peer::Haproxy, 0.70), FLOOR],
        ..BASE
    },
    Scenario {
        name: "16k",
        title: "keep-alive, 16 KiB, 64 connections",
        path: "/?s=16k",
        targets: &[Target::Ratio(Peer::Haproxy, 0.65), FLOOR],
        ..BASE
    },
    Scenario {
        name: "1m-splice",
        title: "keep-alive, 1 MiB spliced, 16 connections",
        path: "/?s=1m",
        conns: 16,
        kind: Kind::Splice,
        targets: &[Target::Ratio(Peer::Haproxy, 0.75), FLOOR],
        ..BASE
    },
    Scenario {
        name: "1m-splice-always",
        title: "keep-alive, 1 MiB always spliced, 16 connections",
        path: "/?s=1m",
        conns: 16,
        kind: Kind::SpliceAlways,
        targets: &[FLOOR],
        ..BASE
    },
    Scenario {
        name: "close",
        title: "one connection per request, 64 B",
        kind: Kind::Close,
        targets: &[Target::Better(0.90), FLOOR],
        ..BASE
    },
    Scenario {
        name: "redirect",
        title: "redirect answered by the proxy, keep-alive",
        kind: Kind::Redirect,
        peers: NO_RELAY,
        targets: &[Target::Ratio(Peer::Haproxy, 0.90)],
        ..BASE
    },
    Scenario {
        name: "tcp",
        title: "TCP mode, 64 B, 64 connections",
        kind: Kind::Tcp,
        targets: &[Target::Ratio(Peer::Haproxy, 1.00), FLOOR],
        ..BASE
    },
    Scenario {
        name: "rules",
        title: "20 ACLs, 10 header rules, 100 000-entry map, JSON log",
        path: "/api/v2/item?s=64",
        host: Some("host054321.example.com"),
        kind: Kind::Rules,
        peers: CFG_ONLY,
        targets: &[Target::Ratio(Peer::Haproxy, 0.75)],
        ..BASE
    },
    Scenario {
        name: "idle-memory",
        title: "idle keep-alive connections, 5 000",
        measure: Measure::IdleMemory,
        conns: 5000,
        targets: &[Target::Bytes(4096.0)],
        ..BASE
    },
];

/// Finds scenarios by name; all with targets when none is named.
///
/// # Errors
/// Names the one that is unknown, and those that are known.
pub fn select(names: &[String]) -> Result<Vec<Scenario>, String> {
    if names.is_empty() {
        return Ok(SCENARIOS
            .iter()
            .copied()
            .filter(|s| !s.targets.is_empty())
            .collect());
    }
    let find = |name: &String| {
        SCENARIOS
            .iter()
            .copied()
            .find(|s| s.name == name)
            .ok_or_else(|| {
                let known: Vec<_> = SCENARIOS.iter().map(|s| s.name).collect();
                format!(
                    "there is no scenario '{name}'; there are {}",
                    known.join(", ")
                )
            })
    };
    names.iter().map(find).collect()
}

impl Scenario {
    /// Makes the plain job this scenario's; the rules' map and log are the caller's to add.
    pub fn shape(&self, job: &mut Job) {
        job.conns_max = job.conns_max.max(self.conns + 1000);
        match self.kind {
            Kind::KeepAlive | Kind::Rules => {}
            Kind::Splice => job.splice = Splice::Auto,
            Kind::SpliceAlways => job.splice = Splice::Always,
            Kind::Close => job.close = true,
            Kind::Redirect => job.act = Act::Redirect,
            Kind::Tcp => job.tcp = true,
        }
    }

    /// Size of the object that is asked for, in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        let asked = self.path.split_once("s=").map(|(_, size)| parse_size(size));
        asked.and_then(Result::ok).unwrap_or(0)
    }

    /// What one unit of work is called.
    #[must_use]
    pub fn unit(&self) -> &'static str {
        match (self.measure, self.kind) {
            (Measure::IdleMemory, _) => "bytes/conn",
            (_, Kind::Close) => "us/conn",
            _ => "us/req",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_selectable() {
        for scenario in SCENARIOS {
            let found = select(&[scenario.name.to_owned()]).unwrap();
            assert_eq!(found[0].title, scenario.title);
        }
        assert!(
            select(&["nope".to_owned()])
                .unwrap_err()
                .contains("keepalive-64")
        );
        assert!(select(&[]).unwrap().len() >= 9);
    }

    #[test]
    fn a_target_is_against_somebody_who_takes_part() {
        for scenario in SCENARIOS {
            for target in scenario.targets {
                if let Target::Ratio(peer, _) = target {
                    assert!(scenario.peers.contains(peer), "{}: {peer:?}", scenario.name);
                }
            }
        }
    }
}
