//! Figures that others published, put beside what is measured here.
//!
//! Only what could be read at its source stands here, and the source with it. HAProxy's own sizing chapter ships with
//! Debian (`haproxy-doc`); the reports of 2008, 2009, 2012 and 2019 that the experiments repeat do not, so none of their
//! figures is quoted. Two figures of the IPVS study and those of a quiet machine are this project's own task's.

use crate::compare::peer::Peer;
use crate::report::{Report, Table};

/// Where [`SIZING`]'s figures come from.
const SIZING_SOURCE: &str = "Published: HAProxy 1.6 on one core of a Core i7 at 3.7 GHz (two more cores for interrupts), two \
10 Gbit/s ports, Linux 3.10, no TLS; HAProxy 2.6's intro.txt, chapter 3.6 'Sizing', as in Debian's package haproxy-doc, which \
calls them orders of magnitude. Here: this machine, its load and its origin beside the proxy.";

/// One published figure and what was measured of the same here.
pub struct Beside {
    /// What it is.
    pub what: &'static str,
    /// The figure as published.
    pub published: &'static str,
    /// The same here, for those proxies that it was measured of.
    pub here: Vec<(Peer, String)>,
}

impl Beside {
    /// What `of` gives for each proxy.
    pub fn new(
        what: &'static str,
        published: &'static str,
        peers: &[Peer],
        of: impl Fn(Peer) -> Option<String>,
    ) -> Self {
        let here = peers.iter().filter_map(|&peer| Some((peer, of(peer)?)));
        Self {
            what,
            published,
            here: here.collect(),
        }
    }
}

/// Adds the table of figures out of HAProxy's sizing chapter, and what is not at hand, to a report.
pub fn sizing(report: &mut Report, peers: &[Peer], rows: &[Beside], missing: &str) {
    report.heading("Beside published figures");
    let rows: Vec<_> = rows.iter().filter(|row| !row.here.is_empty()).collect();
    if !rows.is_empty() {
        let mut heads = vec!["", "published"];
        heads.extend(peers.iter().map(|peer| peer.name()));
        let mut table = Table::new(&heads);
        for row in rows {
            let here = peers.iter().map(|peer| {
                let found = row.here.iter().find(|(other, _)| other == peer);
                found.map_or_else(|| "-".to_owned(), |(_, text)| text.clone())
            });
            table.row(
                [row.what.to_owned(), row.published.to_owned()]
                    .into_iter()
                    .chain(here),
            );
        }
        report.table(table);
        report.text(SIZING_SOURCE);
    }
    if !missing.is_empty() {
        report.text(missing);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_not_measured_has_a_dash_and_an_empty_row_is_left_out() {
        let peers = [Peer::Sluice, Peer::Haproxy];
        let only = |peer| (peer == Peer::Haproxy).then(|| "7".to_owned());
        let rows = [
            Beside::new("one", "9", &peers, only),
            Beside::new("nobody", "9", &peers, |_| None),
            Beside::new("three", "9", &peers, |_| Some("5".to_owned())),
        ];
        let mut report = Report::new("r", "R", "");
        sizing(&mut report, &peers, &rows, "the rest");
        let text = report.markdown();
        assert!(
            text.contains("| one | 9 | - | 7 |") && !text.contains("nobody"),
            "{text}"
        );
        assert!(text.contains("intro.txt") && text.contains("the rest"));
    }
}
