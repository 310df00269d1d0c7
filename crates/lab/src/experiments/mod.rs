//! The published experiments, each one command: the same procedure for every proxy, on this machine, now.
//!
//! What they share is here: the plan (who, how long, on which CPUs), starting a proxy and noting why it could not be,
//! and the tables' cells. Each experiment is a file of its own with one function that gives a [`Report`].

pub mod generators;
pub mod limits;
pub mod published;
pub mod sessions;
pub mod splice;
pub mod sweep;
pub mod workers;

use crate::compare::config::Job;
use crate::compare::peer::{Peer, Programs, Running};
use crate::host::CpuList;
use crate::inject::mix::{Mix, Spec};
use crate::inject::{self};
use crate::measure::{Sample, Span};
use crate::report::canvas::Colour;
use crate::report::{Report, Table};
use crate::stand::{self, Stand};
use crate::units::show_count;
use anyhow::Result;
use std::time::Duration;

/// What all experiments need to know.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Whom to measure, in this order.
    pub peers: Vec<Peer>,
    /// Where the programs are.
    pub programs: Programs,
    /// CPUs of the proxy.
    pub proxy_cpus: CpuList,
    /// CPUs of load and origin.
    pub load_cpus: CpuList,
    /// Length of each measure; `None`: the experiment's own.
    pub duration: Option<Duration>,
    /// Few points and short measures: shows the form, says little.
    pub short: bool,
    /// Where client, proxy and origin live.
    pub place: Place,
}

/// Where client, proxy and origin live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// On the loopback, or on hosts of their own where the experiment wants them and this user may make them.
    AsWanted,
    /// Always on the loopback.
    Loopback,
    /// Always on hosts of their own; with this MTU on the client's and the origin's side, or the experiment's.
    Hosts(Option<(u32, u32)>),
}

impl Plan {
    /// The measure, given the experiment's own long and short lengths.
    #[must_use]
    pub fn span(&self, long: Duration, short: Duration) -> Span {
        let duration = self
            .duration
            .unwrap_or(if self.short { short } else { long });
        Span::new((duration / 4).min(Duration::from_secs(2)), duration)
    }

    /// A stand where the plan wants it; `mtu` is what the experiment wants when it is left to it.
    ///
    /// # Errors
    /// As [`Stand::new`].
    pub fn stand(&self, mtu: Option<(u32, u32)>) -> Result<Stand> {
        let mut options = stand::Options {
            proxy_cpus: self.proxy_cpus.clone(),
            load_cpus: self.load_cpus.clone(),
            mtu: match self.place {
                Place::Loopback => None,
                Place::AsWanted => mtu,
                Place::Hosts(given) => given.or(mtu).or(Some((1500, 1500))),
            },
            ..stand::Options::new(self.programs.clone())
        };
        match Stand::new(&options) {
            Err(error) if options.mtu.is_some() && self.place == Place::AsWanted => {
                telling(&format!(
                    "on the loopback instead of three hosts: {error:#}"
                ));
                options.mtu = None;
                Stand::new(&options)
            }
            result => result,
        }
    }
}

/// Measures one proxy at one job, which `what` names; what fails is noted in the report and gives nothing.
pub fn try_measure(
    report: &mut Report,
    stand: &Stand,
    peer: Peer,
    what: &str,
    shape: impl FnOnce(&mut Job),
    measure: impl FnOnce(&mut Running) -> Result<Sample>,
) -> Option<Sample> {
    if crate::sys::interrupted() {
        report.interrupted = true;
        return None;
    }
    let result = stand.job().and_then(|mut job| {
        shape(&mut job);
        let mut running = stand.start(peer, &job)?;
        let sample = measure(&mut running)?;
        note_config(report, &running, what);
        Ok(sample)
    });
    match result {
        Ok(sample) => Some(sample),
        Err(_) if crate::sys::interrupted() => {
            report.interrupted = true;
            None
        }
        Err(error) => {
            let text = format!("{} failed at {what}: {error:#}", peer.name());
            eprintln!("  {text}");
            report.fail(text);
            None
        }
    }
}

/// Keeps a proxy's configuration at the end of the report, once for each text.
fn note_config(report: &mut Report, running: &Running, what: &str) {
    let (addr, port) = (running.addr.to_string(), running.addr.port());
    // The folder of its files is named after the port too.
    let folder = format!("{}-{port}", running.peer.name());
    let clean = |text: &str| {
        let text = text.replace(&addr, "ADDR:PORT");
        text.replace(&folder, running.peer.name())
    };
    let text = format!(
        "# {}\n{}",
        clean(&running.process.command),
        clean(&running.config)
    );
    let body = |text: &str| text.lines().skip(1).map(str::to_owned).collect::<Vec<_>>();
    let known = report.appendix.iter().any(|(caption, old)| {
        caption.starts_with(running.peer.name())
            && (running.config.is_empty() || body(old) == body(&text))
    });
    if !known {
        report.code(&format!("{}: {what}", running.peer.name()), &text);
    }
}

/// A load of plain GETs.
///
/// # Errors
/// When the path is no request target.
pub fn gets(proxy: &Running, path: &str, conns: usize, close: bool) -> Result<inject::Options> {
    let mix = Mix::single(&Spec::get(path), &proxy.addr.to_string(), close)?;
    let mut load = inject::Options::new(proxy.addr, mix);
    load.conns = conns;
    load.requests_per_conn = close.then_some(1);
    Ok(load)
}

/// The colour of a proxy in every chart.
#[must_use]
pub fn colour(peer: Peer) -> Colour {
    match peer {
        Peer::Sluice => Colour::Blue,
        Peer::Haproxy => Colour::Orange,
        Peer::Nginx => Colour::Teal,
        Peer::Relay => Colour::Grey,
    }
}

/// A cell of a figure that may be missing.
#[must_use]
pub fn cell(value: Option<f64>, show: impl Fn(f64) -> String) -> String {
    value
        .filter(|v| v.is_finite())
        .map_or_else(|| "-".to_owned(), show)
}

/// Units of work that a second of the proxy's CPU pays for, given what one costs in microseconds.
#[must_use]
pub fn per_cpu_second(cost_us: f64) -> String {
    cell(Some(1e6 / cost_us), show_count)
}

/// Tells on standard error what is measured now; after a signal nothing is.
pub fn telling(text: &str) {
    if !crate::sys::interrupted() {
        eprintln!("{text}");
    }
}

/// The `us sy id` cells of a sample: the proxy's CPUs in per cent.
#[must_use]
pub fn cpu_cells(sample: &Sample) -> [String; 3] {
    sample
        .cpu_shares
        .map(|share| cell(Some(share * 100.0), |v| format!("{v:.0}")))
}

/// A table whose first column is named, followed by one per proxy.
#[must_use]
pub fn table_of_peers(first: &str, peers: &[Peer]) -> Table {
    let mut heads = vec![first];
    heads.extend(peers.iter().map(|peer| peer.name()));
    Table::new(&heads)
}
