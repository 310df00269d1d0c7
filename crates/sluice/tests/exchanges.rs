//! Exchanges of raw bytes, a client's and a server's with the proxy between them, played against Sluice and Debian's
//! haproxy: what both sides get, how their connections end, and the log line must be the same.
//!
//! `exchanges/*.txt` hold the cases with haproxy 2.6's outcomes (`UPDATE=1 cargo test -p sluice --test exchanges` records
//! them again, `CASE=name` plays one); their lines are explained in `exchanges/README.md`.

mod exchange;
mod support;

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use exchange::case::{Case, File};
use exchange::play::Proxy;
use support::daemon::SLUICE;
use support::find;

#[test]
fn messages_are_haproxys() {
    check("messages.txt");
}

#[test]
fn chunks_are_haproxys() {
    check("chunks.txt");
}

#[test]
fn ends_are_haproxys() {
    check("ends.txt");
}

#[test]
fn aborts_are_haproxys() {
    check("abortonclose.txt");
}

#[test]
fn tunnels_are_haproxys() {
    check("tunnels.txt");
}

#[test]
fn connections_are_kept_as_haproxys() {
    check("connections.txt");
}

#[test]
fn reuse_is_haproxys() {
    check("reuse.txt");
}

#[test]
fn retries_are_haproxys() {
    check("retries.txt");
}

#[test]
fn bodies_are_seen_as_by_haproxy() {
    check("bodies.txt");
}

#[test]
fn targets_and_logs_are_haproxys() {
    check("targets.txt");
}

#[test]
fn rules_leave_messages_as_haproxys() {
    check("rules.txt");
}

#[test]
fn keywords_do_as_haproxys() {
    check("keywords.txt");
}

#[test]
fn large_heads_pass_as_with_haproxy() {
    check("limits-large.txt");
}

#[test]
fn small_buffers_do_as_haproxys() {
    check("limits-small.txt");
}

#[test]
fn keywords_of_tcp_do_as_haproxys() {
    check("keywords-tcp.txt");
}

/// Cases that are played at once: most of the time they wait.
const AT_ONCE: usize = 8;

/// Times a case is played before it counts as wrong: a machine that stops for a moment is no fault of the proxy's.
const TRIES: usize = 3;

/// One file at a time: more at once would be a busy machine.
static TURN: Mutex<()> = Mutex::new(());

fn check(name: &str) {
    let _turn = TURN
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/exchanges")
        .join(name);
    let mut file = File::read(&path);
    if let Ok(only) = std::env::var("CASE") {
        file.cases.retain(|c| c.name == only);
    }
    if file.cases.is_empty() {
        return;
    }
    let haproxy = find("haproxy");
    if haproxy.is_none() {
        eprintln!("haproxy is not installed: only what is recorded of it is compared");
    }
    let theirs = haproxy.map(|program| Proxy::start(&program, &file));
    let ours = Proxy::start(Path::new(SLUICE), &file);
    if std::env::var("UPDATE").is_ok() {
        let theirs = theirs.expect("haproxy is needed to record its outcomes");
        assert!(std::env::var("CASE").is_err(), "UPDATE records whole files");
        let outcomes = each(&file.cases, |i, case| match case.differs {
            Some(_) => Some(ours.play(i, case, None)),
            None => Some(theirs.play(i, case, None)),
        });
        return file.write(&path, outcomes.into_iter().map(Option::unwrap_or_default));
    }
    let wrong = each(&file.cases, |i, case| {
        let mut problem = None;
        for _ in 0..TRIES {
            problem = compare(&ours, theirs.as_ref(), i, case);
            if problem.is_none() {
                break;
            }
        }
        problem
    });
    let wrong: Vec<String> = wrong.into_iter().flatten().collect();
    let (n, all) = (wrong.len(), file.cases.len());
    assert!(
        wrong.is_empty(),
        "{n} of {all} cases differ\n{}",
        wrong.join("\n")
    );
}

/// What is wrong with a case, if anything.
fn compare(ours: &Proxy, theirs: Option<&Proxy>, i: usize, case: &Case) -> Option<String> {
    let got = ours.play(i, case, Some(&case.expect));
    if got != case.expect {
        let (want, got) = (case.expect.join("\n    "), got.join("\n    "));
        return Some(format!(
            "[{}]\n  expected\n    {want}\n  sluice\n    {got}",
            case.name
        ));
    }
    let theirs = theirs?.play(i, case, case.differs.is_none().then_some(&case.expect));
    let got = theirs.join("\n    ");
    match (theirs == case.expect, &case.differs) {
        (true, None) | (false, Some(_)) => None,
        (false, None) => Some(format!("[{}]\n  haproxy itself\n    {got}", case.name)),
        (true, Some(why)) => Some(format!(
            "[{}]\n  no longer differs because {why}",
            case.name
        )),
    }
}

/// Does something with every case, several at once; the results are in their order.
fn each<T: Send>(
    cases: &[Case],
    work: impl Fn(usize, &Case) -> Option<T> + Sync,
) -> Vec<Option<T>> {
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<Option<T>>> = Mutex::new(cases.iter().map(|_| None).collect());
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    let Some(case) = cases.get(i) else { return };
                    let result = work(i, case);
                    done.lock().unwrap()[i] = result;
                }
            });
        }
    });
    done.into_inner().unwrap()
}
