//! Who serves which request: the same configuration and the same requests, put to Sluice and to Debian's haproxy, with
//! weights, states and loads that change in between.
//!
//! `balancing/*.txt` hold the answers, recorded from haproxy 2.6 (`UPDATE=1 cargo test -p sluice --test balancing`
//! records them again, `CASE=name` plays one case alone); `balancing/README.md` tells what its lines mean.

mod balance;
mod support;

use std::path::{Path, PathBuf};

use balance::cases::{Case, Step, read, record};
use balance::origin::Origins;
use balance::proxy::Proxy;
use support::find;

#[test]
fn requests_go_where_haproxy_sends_them() {
    check("cases.txt");
}

#[test]
fn requests_wait_as_in_haproxy() {
    check("queues.txt");
}

fn check(table: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/balancing")
        .join(table);
    let mut cases = read(&path);
    if let Ok(only) = std::env::var("CASE") {
        cases.retain(|case| case.name.starts_with(&only));
    }
    if cases.is_empty() {
        return;
    }
    let origins = Origins::start();
    let sluice = PathBuf::from(env!("CARGO_BIN_EXE_sluice"));
    let theirs = find("haproxy");
    let (ours, theirs) = std::thread::scope(|scope| {
        let theirs = theirs.map(|program| {
            let (cases, origins) = (&cases, &origins);
            scope.spawn(move || Proxy::start(&program, cases, origins).play_all(cases))
        });
        let ours = Proxy::start(&sluice, &cases, &origins).play_all(&cases);
        (ours, theirs.map(|t| t.join().expect("haproxy plays")))
    });
    if std::env::var_os("UPDATE").is_some() {
        return record(&path, &theirs.expect("haproxy records the answers"));
    }
    if theirs.is_none() {
        eprintln!("haproxy is not installed: sluice is checked against the recorded answers alone");
    }
    let mut wrong = String::new();
    let mut all = 0;
    let mut judge = |who: &str, case: &Case, step: &Step, got: &str| {
        all += 1;
        if let Err(why) = step.holds(got, who == "sluice") {
            let (line, name, text) = (step.line, &case.name, &step.text);
            wrong += &format!("{line}: [{name}] {text}\n    {who} {why}\n");
        }
    };
    for case in &cases {
        for step in &case.steps {
            judge("sluice", case, step, &ours[&step.line]);
            if let Some(theirs) = &theirs {
                judge("haproxy", case, step, &theirs[&step.line]);
            }
        }
    }
    assert!(all > 0, "nothing to judge");
    assert!(wrong.is_empty(), "{wrong}");
}
