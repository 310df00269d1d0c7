//! Network namespaces (`namespace` of `bind` and `server` lines): sockets that are made inside another one than the
//! process's own. A thread goes there to make a socket and comes back; the socket stays.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::sync::OnceLock;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Where ip-netns(8) keeps the names.
const NAMES: &str = "/var/run/netns";

struct Namespaces {
    own: File,
    by_name: HashMap<String, File>,
}

/// Opened once, before the process locks itself into a directory.
static OPEN: OnceLock<Namespaces> = OnceLock::new();

/// Opens the namespaces of these names; the first that cannot be is named in the error. Nothing is done without names.
pub fn open<'a>(names: impl Iterator<Item = &'a str>) -> Result<(), (String, io::Error)> {
    let mut by_name = HashMap::new();
    for name in names {
        let file = File::open(format!("{NAMES}/{name}")).map_err(|e| (name.to_owned(), e))?;
        by_name.insert(name.to_owned(), file);
    }
    if by_name.is_empty() {
        return Ok(());
    }
    let own = File::open("/proc/self/ns/net").map_err(|e| ("the process's own".to_owned(), e))?;
    // a second call finds what the first one opened
    let _ = OPEN.set(Namespaces { own, by_name });
    Ok(())
}

/// Runs `act`, which makes a socket, inside a namespace; where it is without a name.
pub fn within<T>(name: Option<&str>, act: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let Some(name) = name else { return act() };
    let all = OPEN.get().ok_or(io::ErrorKind::NotFound)?;
    let there = all.by_name.get(name).ok_or(io::ErrorKind::NotFound)?;
    enter(there)?;
    let done = act();
    if enter(&all.own).is_err() {
        // this thread's next sockets would be made in the wrong place, and nobody would notice
        std::process::abort();
    }
    done
}

fn enter(namespace: &File) -> io::Result<()> {
    let kind = Some(LinkNameSpaceType::Network);
    Ok(move_into_link_name_space(namespace.as_fd(), kind)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_namespace_makes_no_socket() {
        assert!(within(Some("sluice-nowhere"), || Ok(())).is_err());
        assert!(within(None, || Ok(())).is_ok());
        let (name, _) = open(["sluice-nowhere"].into_iter()).expect_err("no such file");
        assert_eq!(name, "sluice-nowhere");
    }
}
