//! The registry of fetches against what HAProxy 3.5 knows, and the docs page made from it.

use sluice_expr::fetch::{self, Run};

/// What `haproxy -dKsmp` of 3.5 prints: names, arguments, types and places of every fetch.
const REFERENCE: &str = include_str!("data/fetches-3.5.txt");

#[test]
fn the_dump_is_haproxys() {
    let ours = fetch::dump_smp();
    let wrong: Vec<String> = ours
        .lines()
        .zip(REFERENCE.lines())
        .filter(|(a, b)| a != b)
        .map(|(a, b)| format!("- {b}\n+ {a}"))
        .take(10)
        .collect();
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    assert_eq!(ours.len(), REFERENCE.len());
}

#[test]
fn only_other_parts_of_sluice_are_waited_for() {
    let mut waiting: Vec<&str> = fetch::all()
        .iter()
        .filter_map(|def| match def.run {
            Run::Later(part) => Some(part),
            Run::Fn(_) => None,
        })
        .collect();
    waiting.sort_unstable();
    waiting.dedup();
    assert_eq!(
        waiting,
        [
            "FastCGI",
            "QUIC",
            "SPOE",
            "TLS",
            "compression",
            "multiplexed protocols",
            "stick tables",
            "the cache",
        ]
    );
}

#[test]
fn every_fetch_is_described() {
    for def in fetch::all() {
        assert!(
            def.help.ends_with('.') && def.help.len() < 120,
            "{}: {:?}",
            def.name,
            def.help
        );
    }
}

/// `UPDATE_DOCS=1` writes the page.
#[test]
fn the_docs_page_is_up_to_date() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/samples.md");
    let page = fetch::docs_page();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::create_dir_all(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs"))
            .expect("the docs directory");
        std::fs::write(path, &page).expect("the page is written");
    }
    let written = std::fs::read_to_string(path).expect("docs/samples.md");
    assert!(
        written == page,
        "docs/samples.md is out of date: run with UPDATE_DOCS=1"
    );
}
