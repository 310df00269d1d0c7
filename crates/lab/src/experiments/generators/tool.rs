//! The generators: how each is started for the same work, and how its report is read.

use crate::process::find_program;
use crate::units::parse_time;
use anyhow::{Context, Result};
use serde::Serialize;
use std::net::SocketAddr;
use std::process::Command;

/// A generator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Tool {
    /// Ours.
    Inject,
    /// The usual one.
    Wrk,
    /// nghttp2's, which speaks HTTP/1 too (`--h1`); it tells no percentiles.
    H2load,
}

/// What a generator is to do.
#[derive(Debug, Clone, Copy)]
pub struct Order<'a> {
    /// Whom to load.
    pub target: SocketAddr,
    /// With what.
    pub path: &'a str,
    /// Over how many connections.
    pub conns: usize,
    /// For how long.
    pub seconds: u64,
    /// Requests per second of the open loop.
    pub rate: Option<f64>,
}

impl Tool {
    /// Its program's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Inject => "inject",
            Self::Wrk => "wrk",
            Self::H2load => "h2load",
        }
    }

    /// The command, with one thread. Only inject has an open loop.
    ///
    /// # Errors
    /// When it is not installed.
    pub fn command(self, order: Order<'_>) -> Result<Command> {
        let url = format!("http://{}{}", order.target, order.path);
        let (conns, seconds) = (order.conns.to_string(), order.seconds.to_string());
        let find = |name: &str| {
            let found = find_program(name).with_context(|| format!("{name} is not installed"));
            found.map(Command::new)
        };
        let mut command = match self {
            Self::Inject => Command::new(std::env::current_exe()?),
            Self::Wrk | Self::H2load => find(self.name())?,
        };
        match self {
            Self::Inject => {
                command.args(["inject", "--json", "-t", "1", "-c", &conns, "-d", &seconds]);
                if let Some(rate) = order.rate {
                    command.args(["-R", &rate.to_string()]);
                }
            }
            Self::Wrk => {
                let duration = format!("{seconds}s");
                command.args(["--latency", "-t", "1", "-c", &conns, "-d", &duration]);
            }
            Self::H2load => {
                command.args(["--h1", "-t", "1", "-c", &conns, "-D", &seconds]);
            }
        }
        command.arg(url);
        Ok(command)
    }
}

/// Latencies that a generator told, in nanoseconds; what it did not tell is missing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Latencies {
    /// Mean.
    pub mean: Option<u64>,
    /// Percentiles 50, 90 and 99.
    pub at: [Option<u64>; 3],
    /// The longest.
    pub max: Option<u64>,
}

/// The percentiles of [`Latencies::at`].
pub const PERCENTILES: [f64; 3] = [50.0, 90.0, 99.0];

impl Latencies {
    /// Out of what `tool` printed.
    pub fn read(tool: Tool, output: &str) -> Self {
        match tool {
            Tool::Inject => Self::of_inject(output).unwrap_or_default(),
            Tool::Wrk => Self::of_wrk(output),
            Tool::H2load => Self::of_h2load(output),
        }
    }

    /// The last JSON line.
    fn of_inject(output: &str) -> Option<Self> {
        let total: serde_json::Value = serde_json::from_str(output.lines().last()?).ok()?;
        let ns = |us: &serde_json::Value| us.as_f64().map(|us| (us * 1e3) as u64);
        let percentiles = total["latency_us"].as_array()?;
        let at = PERCENTILES.map(|p| {
            let pair = percentiles
                .iter()
                .find(|pair| pair[0].as_f64() == Some(p))?;
            ns(&pair[1])
        });
        Some(Self {
            mean: ns(&total["latency_mean_us"]),
            at,
            max: ns(&total["latency_max_us"]),
        })
    }

    /// `Latency Avg Stdev Max ...`, and a line for each percentile.
    fn of_wrk(output: &str) -> Self {
        let lines = || {
            output
                .lines()
                .map(|line| line.split_whitespace().collect::<Vec<_>>())
        };
        let line = |name: &str| lines().find(|words| words.len() > 1 && words[0] == name);
        let word = |name: &str, n: usize| nanoseconds(line(name)?.get(n)?);
        Self {
            mean: word("Latency", 1),
            at: PERCENTILES.map(|p| word(&format!("{p}%"), 1)),
            max: word("Latency", 3),
        }
    }

    /// `time for request: min max mean sd`.
    fn of_h2load(output: &str) -> Self {
        let line = output
            .lines()
            .find_map(|line| line.strip_prefix("time for request:"));
        let words: Vec<&str> = line.unwrap_or_default().split_whitespace().collect();
        let word = |n: usize| nanoseconds(words.get(n)?);
        Self {
            mean: word(2),
            at: [None; 3],
            max: word(1),
        }
    }
}

/// `1.23ms`, as both write it.
fn nanoseconds(text: &str) -> Option<u64> {
    parse_time(text).ok().map(|time| time.as_nanos() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_reports_are_read() {
        let wrk = "  Thread Stats   Avg      Stdev     Max   +/- Stdev\n    Latency     4.15ms   13.38ms  94.70ms   94.84%\n\
                   \x20 Latency Distribution\n     50%  140.00us\n     75%    2.04ms\n     90%    6.99ms\n     99%    1.50s \n";
        let expect = Latencies {
            mean: Some(4_150_000),
            at: [Some(140_000), Some(6_990_000), Some(1_500_000_000)],
            max: Some(94_700_000),
        };
        assert_eq!(Latencies::read(Tool::Wrk, wrk), expect);
        let h2load = "                     min         max         mean         sd        +/- sd\n\
                      time for request:       65us     32.29ms       335us       912us    95.95%\n";
        let expect = Latencies {
            mean: Some(335_000),
            max: Some(32_290_000),
            ..Latencies::default()
        };
        assert_eq!(Latencies::read(Tool::H2load, h2load), expect);
        let inject = "{\"kind\":\"second\"}\n{\"kind\":\"total\",\"latency_mean_us\":1.5,\"latency_max_us\":9,\"latency_us\":[[50.0,2.0],[75.0,2.5],[90.0,3.0],[99.0,4.0]]}\n";
        let expect = Latencies {
            mean: Some(1_500),
            at: [Some(2_000), Some(3_000), Some(4_000)],
            max: Some(9_000),
        };
        assert_eq!(Latencies::read(Tool::Inject, inject), expect);
        for tool in [Tool::Inject, Tool::Wrk, Tool::H2load] {
            assert_eq!(Latencies::read(tool, "nothing"), Latencies::default());
        }
    }
}
