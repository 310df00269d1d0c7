//! The generator against servers of known behaviour.

use sluice_lab::inject::counts::Report;
use sluice_lab::inject::mix::{Mix, Spec};
use sluice_lab::inject::{Load, Options};
use sluice_lab::origin::{self, Origin};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::time::{Duration, Instant};

fn origin() -> Origin {
    Origin::start(&origin::Options::default()).unwrap()
}

fn options(target: SocketAddr, path: &str, close: bool) -> Options {
    let mut options = Options::new(
        target,
        Mix::single(&Spec::get(path), "test", close).unwrap(),
    );
    options.requests_per_conn = close.then_some(1);
    options
}

fn run(options: &Options) -> Report {
    Load::start(options).unwrap().wait(|_| {}).unwrap()
}

/// A server that answers at once, but stands still once for `stall`, from `after` its start on.
fn stalling(after: Duration, stall: Duration) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    let started = Instant::now();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut buffer = [0; 4096];
                while let Ok(1..) = stream.read(&mut buffer) {
                    let now = started.elapsed();
                    if now > after && now < after + stall {
                        std::thread::sleep(after + stall - now);
                    }
                    if stream
                        .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
                        .is_err()
                    {
                        return;
                    }
                }
            });
        }
    });
    addr
}

#[test]
fn a_stall_shows_in_the_open_loop_where_the_closed_loop_hides_it() {
    let (after, stall) = (Duration::from_millis(300), Duration::from_millis(500));
    let measure = |rate| {
        let target = stalling(after, stall);
        run(&Options {
            conns: 4,
            rate,
            duration: Some(Duration::from_millis(1500)),
            ..options(target, "/", false)
        })
    };
    let closed = measure(None);
    let open = measure(Some(1000.0));
    let p90 = |report: &Report| report.counts.latency.value_at_percentile(90.0);
    // The closed loop has 4 slow answers among thousands; of the open loop's 1500 requests, 500 were due in the stall.
    assert!(p90(&closed) < 50_000_000, "{}", p90(&closed));
    assert!(p90(&open) > 200_000_000, "{}", p90(&open));
    assert!(
        closed.counts.latency.max() > 300_000_000,
        "the closed loop sees it only as its maximum"
    );
}

#[test]
fn a_server_that_never_answers_shows_in_the_open_loop() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = listener.local_addr().unwrap();
    let report = run(&Options {
        conns: 2,
        rate: Some(200.0),
        duration: Some(Duration::from_millis(500)),
        ..options(target, "/", false)
    });
    assert_eq!(report.counts.requests, 0);
    assert!(
        report.counts.unfinished >= 90,
        "{}",
        report.counts.unfinished
    );
    assert!(report.counts.latency.value_at_percentile(50.0) > 100_000_000);
}

#[test]
fn the_rate_is_kept() {
    let origin = origin();
    let report = run(&Options {
        conns: 8,
        rate: Some(2000.0),
        duration: Some(Duration::from_secs(1)),
        ..options(origin.addr(), "/?s=64", false)
    });
    let done = report.counts.requests + report.counts.unfinished;
    assert!((1900..=2010).contains(&done), "{done}");
    assert_eq!(report.counts.errors.total(), 0);
}

#[test]
fn exactly_as_many_requests_as_asked_for() {
    let origin = origin();
    for (conns, threads, pipeline, close) in [
        (1, 1, 1, false),
        (7, 2, 1, false),
        (5, 1, 8, false),
        (3, 2, 1, true),
    ] {
        let report = run(&Options {
            conns,
            threads,
            pipeline,
            requests_max: Some(1000),
            check: true,
            ..options(origin.addr(), "/?s=100&seed=3", close)
        });
        assert_eq!(
            report.counts.requests, 1000,
            "{conns} {threads} {pipeline} {close}"
        );
        assert_eq!(report.counts.errors.total(), 0);
        assert_eq!(report.counts.statuses[2], 1000);
        let expect = if close { 1000 } else { conns as u64 };
        assert!(
            report.counts.conns.abs_diff(expect) <= conns as u64,
            "{} connections",
            report.counts.conns
        );
    }
}

#[test]
fn requests_per_connection_are_kept() {
    let origin = origin();
    let report = run(&Options {
        conns: 2,
        requests_max: Some(100),
        requests_per_conn: Some(10),
        ..options(origin.addr(), "/?s=1", false)
    });
    assert_eq!(report.counts.requests, 100);
    // The slot that comes last may have connected before it saw that nothing is left to send.
    assert!(
        (10..=11).contains(&report.counts.conns),
        "{}",
        report.counts.conns
    );
}

#[test]
fn bodies_of_all_framings_are_checked() {
    let origin = origin();
    for path in [
        "/?s=300k&seed=9",
        "/?s=300k&seed=9&chunked",
        "/?s=70k&seed=9&nolen",
        "/?s=5m",
        "/?s=0&seed=1",
        "/?s=1m&sendfile",
    ] {
        let requests_max = Some(20);
        let report = run(&Options {
            conns: 3,
            requests_max,
            check: true,
            ..options(origin.addr(), path, false)
        });
        assert_eq!(
            (report.counts.requests, report.counts.errors.total()),
            (20, 0),
            "{path}"
        );
    }
}

#[test]
fn a_wrong_body_is_an_error() {
    let origin = origin();
    let mut spec = Spec::get("/upload?seed=1");
    (spec.method, spec.body_size, spec.seed, spec.chunked) =
        ("POST".to_owned(), Some("200k".to_owned()), 2, true);
    let mut options = Options::new(origin.addr(), Mix::single(&spec, "test", false).unwrap());
    (options.requests_max, options.check) = (Some(5), true);
    let report = run(&options);
    assert_eq!((report.counts.requests, report.counts.errors.wrong), (5, 5));
    assert_eq!(report.counts.statuses[4], 5, "the origin answers 422");
}

#[test]
fn a_refusing_server_counts_as_answering_only_when_that_is_expected() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = listener.local_addr().unwrap();
    std::thread::spawn(move || listener.incoming().flatten().for_each(drop));
    let refused = Options {
        refusal_expected: true,
        requests_max: Some(200),
        ..options(target, "/", true)
    };
    let report = run(&refused);
    assert_eq!(
        (report.counts.requests, report.counts.errors.total()),
        (200, 0)
    );
    let duration = Some(Duration::from_millis(200));
    let report = run(&Options {
        refusal_expected: false,
        duration,
        ..refused
    });
    assert_eq!(report.counts.requests, 0);
    assert!(report.counts.errors.total() > 0);
}

#[test]
fn a_dead_target_neither_spins_nor_hangs() {
    let target = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let duration = Some(Duration::from_millis(300));
    let report = run(&Options {
        conns: 4,
        duration,
        ..options(target, "/", false)
    });
    assert_eq!(report.counts.requests, 0);
    assert!(
        (4..=40).contains(&report.counts.errors.connect),
        "{}",
        report.counts.errors.connect
    );
}
