//! What the end-to-end tables need: the tables themselves, the proxies that answer, the peers they talk to.

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
