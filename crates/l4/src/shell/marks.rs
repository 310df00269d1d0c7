//! The host's rules that set firewall marks, asked of iptables-save(8), ip6tables-save(8) and nft(8), where these are.

use crate::marks::Marks;
use std::process::{Command, Stdio};

/// What this host's rules mark now. Programs that are missing, or are not allowed to look, know of no rules.
pub fn of_this_host() -> Marks {
    let mut marks = Marks::default();
    for program in ["iptables-save", "ip6tables-save"] {
        marks.read_iptables(&said(program, &["-t", "mangle"]));
    }
    marks.read_nftables(&said("nft", &["-n", "list", "ruleset"]));
    marks
}

fn said(program: &str, args: &[&str]) -> String {
    let output = Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output();
    output.map_or_else(
        |_| String::new(),
        |o| String::from_utf8_lossy(&o.stdout).into_owned(),
    )
}
