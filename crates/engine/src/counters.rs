//! Counters, levels and rates: relaxed atomics that any worker may touch at any time, and the records of them that the
//! statistics page, the CSV, the runtime commands and Prometheus are views of.

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};

/// A number that only grows (until it is cleared by command).
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    pub fn inc(&self) {
        self.0.fetch_add(1, Relaxed);
    }
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Relaxed);
    }
    pub fn value(&self) -> u64 {
        self.0.load(Relaxed)
    }
    pub fn set(&self, n: u64) {
        self.0.store(n, Relaxed);
    }
    /// Keeps the larger of both.
    pub fn raise(&self, n: u64) {
        if self.0.load(Relaxed) < n {
            self.0.fetch_max(n, Relaxed);
        }
    }
}

/// How many there are now, and the most there ever were.
#[derive(Debug, Default)]
pub struct Level {
    now: AtomicU32,
    max: AtomicU32,
}

impl Level {
    /// One more; returns how many there are with it.
    pub fn enter(&self) -> u32 {
        let n = self.now.fetch_add(1, Relaxed).wrapping_add(1);
        if self.max.load(Relaxed) < n {
            self.max.fetch_max(n, Relaxed);
        }
        n
    }
    /// One more unless `limit` is reached (0: no limit).
    pub fn try_enter(&self, limit: u32) -> bool {
        if limit == 0 {
            self.enter();
            return true;
        }
        let entered = self
            .now
            .fetch_update(Relaxed, Relaxed, |n| (n < limit).then_some(n + 1));
        if let Ok(n) = entered {
            self.max.fetch_max(n + 1, Relaxed);
        }
        entered.is_ok()
    }
    pub fn leave(&self) {
        let before = self.now.fetch_sub(1, Relaxed);
        debug_assert!(before > 0, "left a level that nobody had entered");
    }
    pub fn now(&self) -> u32 {
        self.now.load(Relaxed)
    }
    pub fn max(&self) -> u32 {
        self.max.load(Relaxed)
    }
    pub fn reset_max(&self) {
        self.max.store(self.now(), Relaxed);
    }
}

/// Events per second over a sliding second, as HAProxy's frequency counters: the current second's count plus the share
/// of the previous one that is still inside the window. Second and count share one word so that no lock is needed.
#[derive(Debug, Default)]
pub struct Rate {
    /// High half: second; low half: events in it.
    current: AtomicU64,
    /// Events of the second before.
    previous: AtomicU32,
    max: AtomicU32,
}

impl Rate {
    /// Counts one event at `now_ms` (monotonic) and returns how many the current second has.
    pub fn hit(&self, now_ms: u64) -> u32 {
        let second = now_ms / 1000;
        let mut cur = self.current.load(Relaxed);
        let n = loop {
            let (next, rotated) = if cur >> 32 == second & 0xffff_ffff {
                (cur + 1, false)
            } else {
                ((second << 32) | 1, true)
            };
            match self
                .current
                .compare_exchange_weak(cur, next, Relaxed, Relaxed)
            {
                Ok(_) => {
                    if rotated {
                        let adjacent = (cur >> 32) + 1 == second & 0xffff_ffff;
                        self.previous
                            .store(if adjacent { cur as u32 } else { 0 }, Relaxed);
                    }
                    break next as u32;
                }
                Err(seen) => cur = seen,
            }
        };
        if self.max.load(Relaxed) < n {
            self.max.fetch_max(n, Relaxed);
        }
        n
    }

    /// Events per second as seen at `now_ms`.
    pub fn per_second(&self, now_ms: u64) -> u32 {
        let (second, into_ms) = (now_ms / 1000, now_ms % 1000);
        let cur = self.current.load(Relaxed);
        let age = (second & 0xffff_ffff).wrapping_sub(cur >> 32);
        let (current, previous) = match age {
            0 => (cur as u32, self.previous.load(Relaxed)),
            1 => (0, cur as u32),
            _ => (0, 0),
        };
        current + (u64::from(previous) * (1000 - into_ms) / 1000) as u32
    }

    /// How many more events fit under `limit` a second, judged as [`Rate::per_second`].
    pub fn remaining(&self, now_ms: u64, limit: u32) -> u32 {
        limit.saturating_sub(self.per_second(now_ms))
    }

    pub fn max(&self) -> u32 {
        self.max.load(Relaxed)
    }
    pub fn reset_max(&self) {
        self.max.store(0, Relaxed);
    }
}

/// Exponentially weighted mean over about `WINDOW` events, for `qtime ctime rtime ttime` (ms).
#[derive(Debug, Default)]
pub struct Mean {
    sum: AtomicU64,
    max: AtomicU32,
}

/// Events a mean remembers: HAProxy's TIME_STATS_SAMPLES.
const WINDOW: u64 = 512;

impl Mean {
    pub fn record(&self, ms: u64) {
        let _ = self
            .sum
            .fetch_update(Relaxed, Relaxed, |s| Some(s - s.div_ceil(WINDOW) + ms));
        let ms = u32::try_from(ms).unwrap_or(u32::MAX);
        if self.max.load(Relaxed) < ms {
            self.max.fetch_max(ms, Relaxed);
        }
    }
    /// The mean over the last events, of which `count` happened so far.
    pub fn mean(&self, count: u64) -> u64 {
        self.sum.load(Relaxed).div_ceil(WINDOW.min(count.max(1)))
    }
    pub fn max(&self) -> u32 {
        self.max.load(Relaxed)
    }
    pub fn reset_max(&self) {
        self.max.store(0, Relaxed);
    }
}

/// Answers by class: `hrsp_1xx` ... `hrsp_5xx`, `hrsp_other`.
#[derive(Debug, Default)]
pub struct Responses {
    /// Index 0 is "other".
    by_class: [Counter; 6],
}

impl Responses {
    pub fn count(&self, status: u16) {
        let class = usize::from(status / 100);
        self.by_class[if (1..=5).contains(&class) { class } else { 0 }].inc();
    }
    /// `class` 1..=5, anything else is "other".
    pub fn class(&self, class: usize) -> u64 {
        self.by_class.get(class).map_or(0, Counter::value)
    }
    pub fn total(&self) -> u64 {
        self.by_class.iter().map(Counter::value).sum()
    }
    pub fn clear(&self) {
        self.by_class.iter().for_each(|c| c.set(0));
    }
}

/// What a frontend counts.
#[derive(Debug, Default)]
pub struct FrontendCounters {
    pub conns: Level,
    pub conn_total: Counter,
    pub sess_total: Counter,
    pub conn_rate: Rate,
    pub sess_rate: Rate,
    pub req_rate: Rate,
    pub req_total: Counter,
    pub bytes_in: Counter,
    pub bytes_out: Counter,
    /// Requests and responses denied by rules (`dreq`, `dresp`).
    pub denied_req: Counter,
    pub denied_resp: Counter,
    /// Connections and sessions denied (`dcon`, `dses`).
    pub denied_conn: Counter,
    pub denied_sess: Counter,
    /// Bad requests (`ereq`).
    pub failed_req: Counter,
    /// Answered by the proxy itself: stats, redirects (`intercepted`).
    pub intercepted: Counter,
    pub failed_rewrites: Counter,
    pub internal_errors: Counter,
    pub responses: Responses,
    pub h1_sess: Counter,
    pub h2_sess: Counter,
    pub h3_sess: Counter,
    pub other_sess: Counter,
    pub h1_req: Counter,
    pub h2_req: Counter,
    pub h3_req: Counter,
    pub other_req: Counter,
    /// Lines logged (`%lc`).
    pub log_lines: Counter,
    pub last_change_ms: Counter,
}

/// What a listener (a `bind` address) counts, with `option socket-stats`.
#[derive(Debug, Default)]
pub struct ListenerCounters {
    pub conns: Level,
    pub conn_total: Counter,
    pub sess_total: Counter,
    pub bytes_in: Counter,
    pub bytes_out: Counter,
    pub denied_req: Counter,
    pub denied_resp: Counter,
    pub denied_conn: Counter,
    pub denied_sess: Counter,
    pub failed_req: Counter,
    pub failed_rewrites: Counter,
    pub internal_errors: Counter,
}

/// What a server and a backend both count.
#[derive(Debug, Default)]
pub struct ServingCounters {
    /// Streams that reached it (`scur`, `smax`, `stot`).
    pub sessions: Level,
    pub sess_total: Counter,
    pub sess_rate: Rate,
    pub bytes_in: Counter,
    pub bytes_out: Counter,
    pub denied_req: Counter,
    pub denied_resp: Counter,
    /// Connection errors (`econ`), response errors (`eresp`).
    pub failed_conns: Counter,
    pub failed_resp: Counter,
    pub retries: Counter,
    pub redispatches: Counter,
    pub failed_rewrites: Counter,
    pub internal_errors: Counter,
    /// Times it was chosen by balancing (`lbtot`).
    pub lb_total: Counter,
    /// Transfers aborted by client and server (`cli_abrt`, `srv_abrt`).
    pub client_aborts: Counter,
    pub server_aborts: Counter,
    pub connects: Counter,
    pub reuses: Counter,
    pub responses: Responses,
    pub req_total: Counter,
    pub req_rate: Rate,
    pub queue_time: Mean,
    pub connect_time: Mean,
    pub response_time: Mean,
    pub total_time: Mean,
    /// Monotonic ms of the last session, 0 for never.
    pub last_session_ms: Counter,
    /// Most requests ever queued (`qmax`).
    pub queued: Level,
}

/// What the process counts.
#[derive(Debug, Default)]
pub struct ProcessCounters {
    /// How short of descriptors the process is, for idle connections: 0 not, 1 keep no more of them
    /// (`tune.pool-low-fd-ratio`), 2 close some (`tune.pool-high-fd-ratio`).
    pub fd_shortage: AtomicU8,
    pub conns: Level,
    pub conn_total: Counter,
    pub req_total: Counter,
    pub conn_rate: Rate,
    pub sess_rate: Rate,
    pub bytes_out: Counter,
    pub bytes_out_rate: Rate,
    pub pipes_used: Level,
    pub pipes_free: Counter,
    pub spliced_bytes: Counter,
    pub dropped_logs: Counter,
    pub accept_failures: Counter,
    pub failed_resolutions: Counter,
    /// Accepting was paused because a limit (`maxconn`, file descriptors) was reached.
    pub accept_pauses: Counter,
    /// Tasks of all threads, counted once a second by each.
    pub tasks: Counter,
    /// Processor time the workers did not use in the last second, percent; set by the main thread.
    pub idle_pct: Counter,
}

impl FrontendCounters {
    /// `clear counters`: the maxima, or everything.
    pub fn clear(&self, all: bool) {
        self.conns.reset_max();
        for r in [&self.conn_rate, &self.sess_rate, &self.req_rate] {
            r.reset_max();
        }
        if !all {
            return;
        }
        self.responses.clear();
        for c in [
            &self.conn_total,
            &self.sess_total,
            &self.req_total,
            &self.bytes_in,
            &self.bytes_out,
            &self.denied_req,
            &self.denied_resp,
            &self.denied_conn,
            &self.denied_sess,
            &self.failed_req,
            &self.intercepted,
            &self.failed_rewrites,
            &self.internal_errors,
            &self.h1_sess,
            &self.h2_sess,
            &self.h3_sess,
            &self.other_sess,
            &self.h1_req,
            &self.h2_req,
            &self.h3_req,
            &self.other_req,
        ] {
            c.set(0);
        }
    }
}

impl ServingCounters {
    /// `clear counters`: the maxima, or everything.
    pub fn clear(&self, all: bool) {
        self.sessions.reset_max();
        self.queued.reset_max();
        self.sess_rate.reset_max();
        for m in [
            &self.queue_time,
            &self.connect_time,
            &self.response_time,
            &self.total_time,
        ] {
            m.reset_max();
        }
        if !all {
            return;
        }
        self.responses.clear();
        for c in [
            &self.sess_total,
            &self.bytes_in,
            &self.bytes_out,
            &self.denied_req,
            &self.denied_resp,
            &self.failed_conns,
            &self.failed_resp,
            &self.retries,
            &self.redispatches,
            &self.failed_rewrites,
            &self.internal_errors,
            &self.lb_total,
            &self.client_aborts,
            &self.server_aborts,
            &self.connects,
            &self.reuses,
            &self.req_total,
        ] {
            c.set(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_slides_over_the_second() {
        let r = Rate::default();
        for i in 0..100 {
            r.hit(5_000 + i * 10);
        }
        assert_eq!(r.per_second(5_999), 100);
        assert_eq!(r.per_second(6_500), 50);
        assert_eq!(r.per_second(8_000), 0);
        assert_eq!(r.max(), 100);
    }

    #[test]
    fn a_level_refuses_above_its_limit() {
        let l = Level::default();
        assert!(l.try_enter(2) && l.try_enter(2));
        assert!(!l.try_enter(2));
        l.leave();
        assert!(l.try_enter(2));
        assert_eq!((l.now(), l.max()), (2, 2));
    }

    #[test]
    fn a_mean_forgets_slowly() {
        let m = Mean::default();
        for _ in 0..5000 {
            m.record(20);
        }
        assert!((19..=21).contains(&m.mean(5000)), "{}", m.mean(5000));
        assert_eq!(m.max(), 20);
    }
}
