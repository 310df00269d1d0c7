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
fn a_request_is_given_up_after_its_timeout() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = listener.local_addr().unwrap();
    let report = run(&Options {
        timeout: Duration::from_millis(50),
        duration: Some(Duration::from_millis(900)),
        ..options(target, "/", false)
    });
    assert_eq!(report.counts.requests, 0);
    assert!(
        report.counts.errors.timeout >= 2,
        "{:?}",
        report.counts.errors
    );
    assert!(report.counts.latency.min() >= 50_000_000);
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
    // As many as were due until the end, which a busy machine may delay.
    let due = 2000.0 * report.elapsed.as_secs_f64();
    assert!(
        (1900.0..=due + 2.0).contains(&(done as f64)),
        "{done} of {due}"
    );
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

/// A server that tells of each request, when it answered, the client's address and the first line.
fn telling_server() -> (SocketAddr, std::sync::mpsc::Receiver<(SocketAddr, String)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let sender = sender.clone();
            std::thread::spawn(move || {
                let peer = stream.peer_addr().unwrap();
                let mut input = Vec::new();
                let mut buffer = [0; 4096];
                while let Ok(len @ 1..) = stream.read(&mut buffer) {
                    input.extend_from_slice(&buffer[..len]);
                    while let Some(end) = input.windows(4).position(|four| four == b"\r\n\r\n") {
                        let head: Vec<u8> = input.drain(..end + 4).collect();
                        let head = String::from_utf8_lossy(&head).into_owned();
                        let _ = sender.send((peer, head));
                        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
                    }
                }
            });
        }
    });
    (addr, receiver)
}

#[test]
fn connections_come_from_all_sources_in_turn() {
    let (target, told) = telling_server();
    let sources = sluice_lab::inject::parse_sources("127.0.1.1-127.0.1.3").unwrap();
    run(&Options {
        conns: 6,
        requests_max: Some(600),
        sources: sources.clone(),
        ..options(target, "/", false)
    });
    let mut conns: Vec<SocketAddr> = told.try_iter().map(|(peer, _)| peer).collect();
    conns.sort();
    conns.dedup();
    for source in sources {
        let of_source = conns.iter().filter(|peer| peer.ip() == source).count();
        assert_eq!(of_source, 2, "{source}: {conns:?}");
    }
}

#[test]
fn thinking_spaces_the_requests_of_a_connection() {
    let origin = origin();
    let started = Instant::now();
    let report = run(&Options {
        requests_max: Some(5),
        think: Duration::from_millis(30),
        ..options(origin.addr(), "/?s=1", false)
    });
    assert_eq!(report.counts.requests, 5);
    assert!(started.elapsed() >= Duration::from_millis(4 * 30));
}

#[test]
fn a_soft_start_spreads_the_connections() {
    let origin = origin();
    let started = Instant::now();
    let load = Load::start(&Options {
        conns: 10,
        ramp: Duration::from_millis(500),
        ..options(origin.addr(), "/?s=1", false)
    })
    .unwrap();
    while load.totals().conns < 10 {
        assert!(started.elapsed() < Duration::from_secs(30));
        std::thread::sleep(Duration::from_millis(5));
    }
    // The last of ten begins after nine tenths of the ramp.
    assert!(started.elapsed() >= Duration::from_millis(450));
    load.stop().unwrap();
}

#[test]
fn a_mix_comes_as_its_weights_say() {
    let (target, told) = telling_server();
    let text = "{\"path\":\"/a\",\"weight\":3,\"headers\":{\"X-A\":\"b\"}}\n{\"method\":\"DELETE\",\"path\":\"/b\"}\n";
    let mix = Mix::from_lines(text, "test", false).unwrap();
    let mut options = Options::new(target, mix);
    options.requests_max = Some(40);
    run(&options);
    let heads: Vec<String> = told.try_iter().map(|(_, head)| head).collect();
    let count = |start: &str| heads.iter().filter(|head| head.starts_with(start)).count();
    assert_eq!((count("GET /a "), count("DELETE /b ")), (30, 10));
    assert!(heads.iter().filter(|head| head.contains("X-A: b")).count() == 30);
}

#[test]
fn a_pipeline_leaves_before_the_first_answer() {
    // A server that answers only when it has four requests.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut input = Vec::new();
        let mut buffer = [0; 4096];
        while let Ok(len @ 1..) = stream.read(&mut buffer) {
            input.extend_from_slice(&buffer[..len]);
            if input.windows(4).filter(|four| four == b"\r\n\r\n").count() == 4 {
                input.clear();
                let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".repeat(4);
                let _ = stream.write_all(&answer);
            }
        }
    });
    let report = run(&Options {
        pipeline: 4,
        requests_max: Some(12),
        ..options(target, "/", false)
    });
    assert_eq!(
        (report.counts.requests, report.counts.errors.total()),
        (12, 0)
    );
}
