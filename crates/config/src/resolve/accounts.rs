//! Names of users and groups become numbers: the process's own, and those of Unix sockets. The machine's files are read
//! like every other file, through the loader.

use std::sync::Arc;

use super::Resolver;
use crate::line::Line;
use crate::model::{Bind, Global, ListenAddr, UnixPerms};

/// `/etc/passwd` and `/etc/group`; `None` where they cannot be read, as in tests.
pub(super) struct Accounts {
    users: Option<String>,
    groups: Option<String>,
}

impl Accounts {
    pub fn read(resolver: &Resolver<'_>) -> Accounts {
        let text = |path: &str| {
            let bytes = resolver.opts.loader.load(path).ok()?;
            // A machine without any account has no such file either.
            Some(String::from_utf8_lossy(&bytes).into_owned()).filter(|t| !t.is_empty())
        };
        Accounts {
            users: text("/etc/passwd"),
            groups: text("/etc/group"),
        }
    }

    /// The third field of the line that begins with the name. The outer `None`: nobody can tell.
    fn id(text: Option<&String>, name: &str) -> Option<Option<u32>> {
        let mut lines = text?.lines().map(|l| l.split(':'));
        let mut line = lines.find_map(|mut fields| (fields.next()? == name).then_some(fields));
        Some(line.as_mut().and_then(|fields| fields.nth(1)?.parse().ok()))
    }
}

/// The process's user and group, and the owners of its command sockets.
pub(super) fn process(resolver: &mut Resolver<'_>, accounts: &Accounts, global: &mut Global) {
    let lines = &resolver.raw.account_lines;
    if let Some(name) = global.user.clone() {
        let found = global
            .uid
            .or_else(|| user(resolver, accounts, lines, &name));
        global.uid = found;
    }
    if let Some(name) = global.group.clone() {
        let found = global
            .gid
            .or_else(|| group(resolver, accounts, lines, &name));
        global.gid = found;
    }
    for socket in &mut global.stats_sockets {
        if socket.addrs.iter().any(is_unix) {
            perms(resolver, accounts, lines, &mut socket.perms);
        }
    }
}

/// Owner and mode of a listening Unix socket: its own words, then those of `unix-bind`.
pub(super) fn bind(
    resolver: &mut Resolver<'_>,
    accounts: &Accounts,
    line: &Arc<Line>,
    bind: &mut Bind,
) {
    if bind.addrs.iter().any(is_unix) {
        let lines: Vec<Arc<Line>> = [line]
            .into_iter()
            .chain(&resolver.raw.account_lines)
            .cloned()
            .collect();
        perms(resolver, accounts, &lines, &mut bind.perms);
    }
}

fn is_unix(addr: &ListenAddr) -> bool {
    matches!(addr, ListenAddr::Unix(_))
}

fn perms(
    resolver: &mut Resolver<'_>,
    accounts: &Accounts,
    lines: &[Arc<Line>],
    perms: &mut UnixPerms,
) {
    let common = &resolver.raw.global.unix_bind;
    perms.mode = perms.mode.or(common.mode);
    if perms.uid.is_none() && perms.user.is_none() {
        perms.uid = common.uid;
        perms.user.clone_from(&common.user);
    }
    if perms.gid.is_none() && perms.group.is_none() {
        perms.gid = common.gid;
        perms.group.clone_from(&common.group);
    }
    if let (Some(name), None) = (&perms.user, perms.uid) {
        perms.uid = user(resolver, accounts, lines, name);
    }
    if let (Some(name), None) = (&perms.group, perms.gid) {
        perms.gid = group(resolver, accounts, lines, name);
    }
}

fn user(
    resolver: &mut Resolver<'_>,
    accounts: &Accounts,
    lines: &[Arc<Line>],
    name: &str,
) -> Option<u32> {
    let found = Accounts::id(accounts.users.as_ref(), name)?;
    if found.is_none() {
        unknown(resolver, lines, name, "user");
    }
    found
}

fn group(
    resolver: &mut Resolver<'_>,
    accounts: &Accounts,
    lines: &[Arc<Line>],
    name: &str,
) -> Option<u32> {
    let found = Accounts::id(accounts.groups.as_ref(), name)?;
    if found.is_none() {
        unknown(resolver, lines, name, "group");
    }
    found
}

/// Complains at the first of these lines that has the name.
fn unknown(resolver: &mut Resolver<'_>, lines: &[Arc<Line>], name: &str, kind: &str) {
    let written = |l: &Arc<Line>| Some((l.clone(), l.words.iter().position(|w| w.text == name)?));
    if let Some((line, word)) = lines.iter().find_map(written) {
        let message = format!("cannot find {kind} id for '{name}'");
        resolver.error(&line, word, message, None);
    }
}

#[cfg(test)]
mod tests {
    use super::Accounts;

    #[test]
    fn ids_are_the_third_field() {
        let text = "root:x:0:0:root:/root:/bin/sh\nhaproxy:x:104:110::/var/lib/haproxy:/usr/sbin/nologin\nodd:x\n".to_owned();
        let id = |name: &str| Accounts::id(Some(&text), name);
        assert_eq!(id("root"), Some(Some(0)));
        assert_eq!(id("haproxy"), Some(Some(104)));
        assert_eq!(id("hapr"), Some(None));
        assert_eq!(id("odd"), Some(None));
        assert_eq!(Accounts::id(None, "root"), None);
    }
}
