//! Every name HAProxy knows is known here: it works, comes later, or is refused with a reason.

use std::collections::HashSet;

use sluice_config::dump::{coverage, dump_cfg};

/// A line of a listing as section and name, without argument counts and sides (they changed between versions).
fn names(listing: &str) -> Vec<(String, String)> {
    let mut section = String::new();
    let mut found = Vec::new();
    for line in listing.lines().filter(|l| !l.starts_with('#')) {
        match line.strip_prefix('\t') {
            None => section = line.to_owned(),
            Some(name) => {
                let name = name.split(" [").next().unwrap_or(name);
                let name = name.split(" +").next().unwrap_or(name);
                // Where a word of a bind line is listed depends on what the binary was built with.
                let name = name.replace("bind <addr> ssl ", "bind <addr> ");
                found.push((section.clone(), name));
            }
        }
    }
    found
}

fn missing(reference: &str) -> Vec<String> {
    let ours: HashSet<(String, String)> = names(&dump_cfg()).into_iter().collect();
    names(reference)
        .into_iter()
        // The words of crt-list files are those of bind lines.
        .filter(|(section, _)| section != "crt-list")
        .filter(|name| !ours.contains(name))
        .map(|(section, name)| format!("{section}: {name}"))
        .collect()
}

#[test]
fn every_keyword_of_2_6_is_known() {
    let none: Vec<String> = Vec::new();
    assert_eq!(missing(include_str!("data/keywords-2.6.txt")), none);
}

#[test]
fn every_keyword_of_3_5_is_known() {
    let none: Vec<String> = Vec::new();
    assert_eq!(missing(include_str!("data/keywords-3.5.txt")), none);
}

#[test]
fn every_keyword_has_one_item() {
    let mut seen = HashSet::new();
    let twice: Vec<String> = coverage()
        .into_iter()
        .filter(|(_, status)| status.is_some())
        .map(|(name, _)| name)
        .filter(|name| name.contains(' ') && !seen.insert(name.clone()))
        .collect();
    assert_eq!(twice, Vec::<String>::new());
}
