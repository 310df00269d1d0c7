//! What a load saw: counters, errors by kind, latencies.

use crate::net::plain_words;
use hdrhistogram::Histogram;
use serde::Serialize;
use std::io;
use std::time::Duration;

/// Longest latency that is told apart, in nanoseconds; longer ones count as this.
const LATENCY_NS_MAX: u64 = 3_600_000_000_000;
/// Significant digits of a latency.
const LATENCY_DIGITS: u8 = 3;

/// Why an exchange failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The connection could not be made.
    Connect,
    /// The peer reset the connection.
    Reset,
    /// The peer ended the connection before the answer was complete.
    Ended,
    /// The answer is not HTTP.
    Malformed,
    /// No answer in time.
    Timeout,
    /// The answer is not the one that was asked for (only with `check`).
    Wrong,
}

/// Failures by [`ErrorKind`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Errors {
    /// See [`ErrorKind::Connect`].
    pub connect: u64,
    /// See [`ErrorKind::Reset`].
    pub reset: u64,
    /// See [`ErrorKind::Ended`].
    pub ended: u64,
    /// See [`ErrorKind::Malformed`].
    pub malformed: u64,
    /// See [`ErrorKind::Timeout`].
    pub timeout: u64,
    /// See [`ErrorKind::Wrong`].
    pub wrong: u64,
}

impl Errors {
    fn each(&mut self) -> [&mut u64; 6] {
        [
            &mut self.connect,
            &mut self.reset,
            &mut self.ended,
            &mut self.malformed,
            &mut self.timeout,
            &mut self.wrong,
        ]
    }

    /// Counts one.
    pub fn count(&mut self, kind: ErrorKind) {
        *self.each()[kind as usize] += 1;
    }

    /// The most frequent kind in words; nothing when there was none.
    #[must_use]
    pub fn chief(mut self) -> Option<&'static str> {
        const WORDS: [&str; 6] = [
            "no connection",
            "connections were reset",
            "connections ended before the answer",
            "answers were no HTTP",
            "no answer in time",
            "wrong answers",
        ];
        let counts = self.each();
        let most = counts.iter().zip(WORDS).max_by_key(|(n, _)| ***n)?;
        (**most.0 > 0).then_some(most.1)
    }

    /// All kinds together.
    #[must_use]
    pub fn total(mut self) -> u64 {
        self.each().iter().map(|n| **n).sum()
    }
}

/// Counters and latencies of a thread, of a second, or of the whole run.
#[derive(Debug, Clone)]
pub struct Counts {
    /// Connections established.
    pub conns: u64,
    /// Answers received, of any status.
    pub requests: u64,
    /// Bytes received, heads included.
    pub bytes_in: u64,
    /// Bytes sent, heads included.
    pub bytes_out: u64,
    /// Answers by the first digit of their status; index 0 counts the strange ones.
    pub statuses: [u64; 6],
    /// Failures.
    pub errors: Errors,
    /// Connections open when the counts were taken.
    pub open: u64,
    /// Requests that were due or under way when the run ended; their age at that time is among the latencies.
    pub unfinished: u64,
    /// Why the last connection that could not be made could not (an `errno`).
    pub connect_error: Option<i32>,
    /// At the end no connection stood and none could be made: the server is gone.
    pub gone: bool,
    /// Time from the request (open loop: from when it was due) to the end of the answer, in nanoseconds.
    pub latency: Histogram<u64>,
}

impl Default for Counts {
    fn default() -> Self {
        let latency = Histogram::new_with_bounds(1, LATENCY_NS_MAX, LATENCY_DIGITS);
        Self {
            conns: 0,
            requests: 0,
            bytes_in: 0,
            bytes_out: 0,
            statuses: [0; 6],
            errors: Errors::default(),
            open: 0,
            unfinished: 0,
            connect_error: None,
            gone: false,
            latency: latency.expect("the bounds are constants that the histogram accepts"),
        }
    }
}

impl Counts {
    /// Adds another's counts to these.
    pub fn add(&mut self, other: &Self) {
        self.conns += other.conns;
        self.requests += other.requests;
        self.bytes_in += other.bytes_in;
        self.bytes_out += other.bytes_out;
        self.open += other.open;
        self.unfinished += other.unfinished;
        self.gone |= other.gone;
        self.connect_error = other.connect_error.or(self.connect_error);
        for (mine, theirs) in self.statuses.iter_mut().zip(other.statuses) {
            *mine += theirs;
        }
        let mut theirs = other.errors;
        for (mine, theirs) in self.errors.each().into_iter().zip(theirs.each()) {
            *mine += *theirs;
        }
        // Both have the same bounds, so this cannot fail.
        let _ = self.latency.add(&other.latency);
    }

    /// Back to zero, keeping the memory.
    pub fn clear(&mut self) {
        let mut latency = std::mem::replace(
            &mut self.latency,
            Histogram::new_with_bounds(1, 2, 0).expect("constant"),
        );
        latency.reset();
        *self = Self {
            latency,
            ..Self::empty()
        };
    }

    fn empty() -> Self {
        Self {
            conns: 0,
            requests: 0,
            bytes_in: 0,
            bytes_out: 0,
            statuses: [0; 6],
            errors: Errors::default(),
            open: 0,
            unfinished: 0,
            connect_error: None,
            gone: false,
            latency: Histogram::new_with_bounds(1, 2, 0).expect("constant"),
        }
    }
}

/// The percentiles every report shows.
pub const PERCENTILES: [f64; 8] = [50.0, 75.0, 90.0, 99.0, 99.9, 99.99, 99.999, 99.9999];

/// A finished run.
#[derive(Debug, Clone)]
pub struct Report {
    /// From the start to the last thread's end.
    pub elapsed: Duration,
    /// Everything that was seen.
    pub counts: Counts,
}

/// A finished run or one second of it, as a JSON line.
#[derive(Debug, Clone, Serialize)]
pub struct Line {
    /// `second` or `total`.
    pub kind: &'static str,
    /// Seconds since the start.
    pub at_s: f64,
    /// Connections open.
    pub open: u64,
    /// Connections established.
    pub conns: u64,
    /// Answers received.
    pub requests: u64,
    /// Connections per second.
    pub conns_per_s: f64,
    /// Answers per second.
    pub requests_per_s: f64,
    /// Received bits per second.
    pub bits_per_s: f64,
    /// Bytes received.
    pub bytes_in: u64,
    /// Bytes sent.
    pub bytes_out: u64,
    /// Answers by first digit of the status, `1xx` to `5xx`.
    pub statuses: [u64; 5],
    /// Failures by kind.
    pub errors: Errors,
    /// Requests that were due or under way when the run ended.
    pub unfinished: u64,
    /// Mean latency in microseconds.
    pub latency_mean_us: f64,
    /// Pairs of percentile and latency in microseconds.
    pub latency_us: Vec<(f64, f64)>,
    /// Longest latency in microseconds.
    pub latency_max_us: f64,
}

impl Line {
    /// The line of `counts` gathered during `span`, ending `at` after the start.
    #[must_use]
    pub fn new(kind: &'static str, counts: &Counts, at: Duration, span: Duration) -> Self {
        let per_s = |n: u64| n as f64 / span.as_secs_f64().max(1e-9);
        let us = |ns: u64| ns as f64 / 1e3;
        let [_, statuses @ ..] = counts.statuses;
        Self {
            kind,
            at_s: at.as_secs_f64(),
            open: counts.open,
            conns: counts.conns,
            requests: counts.requests,
            conns_per_s: per_s(counts.conns),
            requests_per_s: per_s(counts.requests),
            bits_per_s: per_s(counts.bytes_in * 8),
            bytes_in: counts.bytes_in,
            bytes_out: counts.bytes_out,
            statuses,
            errors: counts.errors,
            unfinished: counts.unfinished,
            latency_mean_us: counts.latency.mean() / 1e3,
            latency_us: PERCENTILES
                .iter()
                .map(|&p| (p, us(counts.latency.value_at_percentile(p))))
                .collect(),
            latency_max_us: us(counts.latency.max()),
        }
    }
}

impl Report {
    /// Why requests failed, in words: the reason of the last connection that could not be made, else the chief kind.
    #[must_use]
    pub fn reason(&self) -> Option<String> {
        let connect = self.counts.connect_error.map(io::Error::from_raw_os_error);
        match connect {
            Some(error) if error.kind() == io::ErrorKind::AddrNotAvailable => Some(format!(
                "{}: it is none of this host's, or its ports are used up",
                plain_words(&error)
            )),
            Some(error) => Some(plain_words(&error)),
            None => self.counts.errors.chief().map(str::to_owned),
        }
    }

    /// The whole run as a line.
    #[must_use]
    pub fn line(&self) -> Line {
        Line::new("total", &self.counts, self.elapsed, self.elapsed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adding_and_clearing() {
        let mut one = Counts {
            requests: 3,
            ..Counts::default()
        };
        one.errors.count(ErrorKind::Wrong);
        one.latency.saturating_record(1_000_000);
        let mut sum = Counts::default();
        sum.add(&one);
        sum.add(&one);
        assert_eq!(
            (sum.requests, sum.errors.wrong, sum.errors.total()),
            (6, 2, 2)
        );
        assert_eq!(sum.latency.len(), 2);
        sum.clear();
        assert_eq!(
            (sum.requests, sum.errors.total(), sum.latency.len()),
            (0, 0, 0)
        );
        sum.add(&one);
        assert_eq!(sum.latency.len(), 1, "cleared counts keep their bounds");
    }

    #[test]
    fn a_line_has_rates_of_its_span() {
        let counts = Counts {
            requests: 500,
            bytes_in: 1000,
            ..Counts::default()
        };
        let line = Line::new(
            "second",
            &counts,
            Duration::from_secs(9),
            Duration::from_millis(500),
        );
        assert_eq!((line.requests_per_s, line.bits_per_s), (1000.0, 16_000.0));
    }
}
