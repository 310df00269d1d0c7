//! Tables of expressions, conditions and formats with what they give, put to Sluice end to end and to Debian's haproxy.
//!
//! `tables/*.txt` hold the answers, recorded from haproxy 2.6 (`UPDATE=1 cargo test -p sluice --test tables` records them
//! again); this file plays them, [`support`] has the proxies and their peers. A table is read at run time: see
//! `tables/README.md` for its lines.

mod support;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use sluice_expr::acl;
use sluice_expr::pattern::Match;
use support::find;
use support::play::Proxy;
use support::table::{Expect, Table};

#[test]
fn samples_are_haproxys() {
    check("samples.txt");
}

#[test]
fn content_samples_are_haproxys() {
    check("content.txt");
}

#[test]
fn conditions_are_haproxys() {
    check("conditions.txt");
}

#[test]
fn rules_are_haproxys() {
    check("rules.txt");
}

#[test]
fn variables_are_limited_as_haproxys() {
    check("limits.txt");
}

#[test]
fn formats_are_haproxys() {
    check("formats.txt");
}

/// A fetch that works has a row.
#[test]
fn every_working_fetch_has_a_row() {
    let tables = ["samples.txt", "content.txt"].map(|t| Table::read(&path(t)));
    let rows = tables.iter().flat_map(|t| t.rows());
    let tested: BTreeSet<&str> = rows.map(|(_, row)| row.fetch()).collect();
    let working = sluice_expr::fetch::all()
        .iter()
        .filter(|def| matches!(def.run, sluice_expr::fetch::Run::Fn(_)));
    let missing: Vec<&str> = working
        .map(|def| def.name)
        .filter(|name| !tested.contains(name))
        .collect();
    assert!(missing.is_empty(), "no row for {missing:?}");
}

/// A criterion that only ACLs know, a match method, a flag and a predefined ACL each have a row.
#[test]
fn every_criterion_method_and_flag_has_a_row() {
    let tables = ["conditions.txt", "content.txt"].map(|t| Table::read(&path(t)));
    let rows = tables.iter().flat_map(|t| t.rows());
    let conditions: Vec<&str> = rows.map(|(_, row)| row.text.as_str()).collect();
    let words = || conditions.iter().flat_map(|c| c.split([' ', '(', ',']));
    let tested: BTreeSet<&str> = words().collect();
    let works = |fetch: &str| {
        let def = sluice_expr::fetch::find(fetch).expect("the fetch of a criterion");
        matches!(def.run, sluice_expr::fetch::Run::Fn(_))
    };
    let criteria = acl::KEYWORDS.iter().filter(|k| works(k.fetch));
    let methods = Match::ALL.map(Match::name);
    let flags = [
        "-i", "-f", "-M", "-n", "-u", "--", "!", "||", "or", "unless",
    ];
    let missing: Vec<&str> = criteria
        .map(|k| k.name)
        .chain(methods)
        .chain(flags)
        .chain(acl::PREDEFINED.iter().map(|(name, ..)| *name))
        .filter(|name| !tested.contains(name))
        .collect();
    assert!(missing.is_empty(), "no row for {missing:?}");
}

/// A tag of the log-format language has rows with each flag.
#[test]
fn every_tag_has_a_row() {
    let table = Table::read(&path("formats.txt"));
    let tested: BTreeSet<&str> = table.rows().map(|(_, row)| row.text.as_str()).collect();
    let flags = ["", "{+Q}", "{+X}", "{+E}", "{+Q,+E}", "{+Q,+X}"];
    for tag in sluice_expr::logformat::TAGS {
        for flag in flags {
            let row = format!("fmt %{flag}{}", tag.name);
            assert!(tested.contains(row.as_str()), "no row `{row}`");
        }
    }
}

fn path(table: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/tables")
        .join(table)
}

/// Plays a table to both proxies and compares each answer with its row.
fn check(name: &str) {
    let path = path(name);
    let mut table = Table::read(&path);
    if let Ok(only) = std::env::var("CASE") {
        table.cases.retain(|case| case.name == only);
    }
    // one table at a time: the machine may be small
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let sluice = PathBuf::from(env!("CARGO_BIN_EXE_sluice"));
    let ours = Proxy::start(&sluice, &table, true);
    let theirs = find("haproxy").map(|haproxy| Proxy::start(&haproxy, &table, false));
    let (ours, theirs) = std::thread::scope(|scope| {
        let theirs = theirs.map(|it| {
            scope.spawn({
                let table = &table;
                move || it.play_all(table)
            })
        });
        let ours = ours.play_all(&table);
        (ours, theirs.map(|it| it.join().expect("haproxy plays")))
    });
    if theirs.is_none() {
        eprintln!("haproxy is not installed: {name} is checked on sluice alone");
    }
    if std::env::var_os("UPDATE").is_some() {
        table.record(
            &path,
            &ours,
            theirs.as_ref().expect("haproxy records the answers"),
        );
        return;
    }
    let mut wrong = String::new();
    let mut rows = 0;
    for (case, row) in table.rows() {
        rows += 1;
        let at = format!("{name}:{}: [{}] {}", row.line, case.name, row.text);
        if let Err(why) = row.expect.holds(&ours[&row.line]) {
            wrong += &format!("{at}\n    sluice gives {why}\n");
        }
        let Some(theirs) = &theirs else { continue };
        let expect = match &row.expect {
            Expect::SluiceAlone(_) => continue,
            Expect::Differs { haproxy, .. } => &Expect::Is(haproxy.clone()),
            both => both,
        };
        if let Err(why) = expect.holds(&theirs[&row.line]) {
            wrong += &format!("{at}\n    haproxy gives {why}\n");
        }
    }
    let count = wrong.matches(" gives ").count();
    assert!(
        wrong.is_empty(),
        "{count} answers of {rows} rows differ\n{wrong}"
    );
}
