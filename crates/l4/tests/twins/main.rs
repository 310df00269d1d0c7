//! Real keepalived as VRRP twin, in namespaces: every scenario with Sluice in either role. Needs root, ip(8) and
//! keepalived; most adverts go every 100 ms, so that each test takes a few seconds.

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/lab.rs"]
mod lab;
#[path = "../common/pulse.rs"]
mod pulse;

mod disagreement;
mod election;
mod office;
mod trackers;

use lab::{Kind, Lab, in_time, once};
use rustix::process::Signal;
use std::time::Duration;

const VIP: &str = "10.0.0.100";

/// An instance of version 3, 100 ms between adverts, unless `more` says otherwise.
fn instance(name: &str, vrid: u8, priority: u8, addresses: &str, more: &str) -> String {
    // keepalived takes the first word on the version.
    let version = if more.contains("version") {
        ""
    } else {
        "version 3"
    };
    let interval = if more.contains("advert_int") {
        ""
    } else {
        "advert_int 0.1"
    };
    format!(
        "vrrp_instance {name} {{\n state BACKUP\n interface eth1\n virtual_router_id {vrid}\n priority {priority}\n {version}\n {interval}\n \
         garp_master_delay 1\n {more}\n virtual_ipaddress {{\n {addresses}\n }}\n}}\n"
    )
}

fn simple(priority: u8, more: &str) -> String {
    instance("VI", 51, priority, &format!("{VIP}/24"), more)
}

/// Both assignments of programs to hosts.
const ROLES: [(Kind, Kind); 2] = [
    (Kind::Sluice, Kind::Keepalived),
    (Kind::Keepalived, Kind::Sluice),
];

/// Hosts a (priority 150) and b (100) with these programs, a elected.
fn pair(roles: (Kind, Kind), more: &str) -> Lab {
    let mut lab = Lab::new(2);
    lab.start("a", roles.0, &simple(150, more));
    lab.start("b", roles.1, &simple(100, more));
    lab.master("a", VIP, 15);
    lab
}

/// docs/l4-interop.md names a test for each thing that was asked for.
#[test]
fn every_test_that_the_documentation_names_exists() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let table = std::fs::read_to_string(root.join("../../docs/l4-interop.md")).unwrap();
    let mut sources = String::new();
    for directory in ["tests", "tests/twins"] {
        for entry in std::fs::read_dir(root.join(directory)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|e| e == "rs") {
                sources.push_str(&std::fs::read_to_string(path).unwrap());
            }
        }
    }
    let rows = table
        .lines()
        .filter(|l| l.starts_with("| ") && l.contains('`'));
    let last = rows.filter_map(|l| l.trim_end_matches(" |").rsplit(" | ").next());
    let names: Vec<&str> = last
        .flat_map(|cell| cell.split('`').skip(1).step_by(2))
        .filter(|name| !name.contains('/'))
        .collect();
    assert!(names.len() > 30, "{names:?}");
    for name in names {
        assert!(sources.contains(&format!("fn {name}(")), "{name}");
    }
}
