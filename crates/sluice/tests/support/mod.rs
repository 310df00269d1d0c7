//! What the end-to-end tests share: proxies that run, what they answer to bytes, and the tables with the peers they talk to.
#![allow(dead_code, reason = "each test uses its part")]

pub mod daemon;
pub mod http;
pub mod play;
pub mod table;

use std::path::{Path, PathBuf};

/// A program in the path or where system administration's programs are.
pub fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
    path.split(':')
        .map(|dir| Path::new(dir).join(program))
        .find(|path| path.is_file())
}

/// Sluice and, where it is installed, haproxy, for tests that say what both do.
pub fn programs() -> Vec<String> {
    let theirs = find("haproxy").map(|path| path.display().to_string());
    [daemon::SLUICE.to_owned()]
        .into_iter()
        .chain(theirs)
        .collect()
}
