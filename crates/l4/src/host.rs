//! The machine a configuration is read on: its files, interfaces and programs.

use crate::config::Host;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// This machine.
pub struct Machine;

impl Host for Machine {
    fn read(&self, path: &str) -> Result<String, String> {
        std::fs::read_to_string(path).map_err(|e| format!("{path}: {e}"))
    }

    fn glob(&self, pattern: &str) -> Vec<String> {
        let mut found = vec![String::new()];
        for (index, part) in pattern.split('/').enumerate() {
            let mut next = Vec::new();
            for base in &found {
                if !part.contains(['*', '?', '[']) {
                    next.push(if index == 0 {
                        part.to_string()
                    } else {
                        format!("{base}/{part}")
                    });
                    continue;
                }
                let directory = if base.is_empty() { "." } else { base };
                let Ok(entries) = std::fs::read_dir(directory) else {
                    continue;
                };
                let names = entries.filter_map(|e| e.ok()?.file_name().into_string().ok());
                next.extend(
                    names
                        .filter(|n| !n.starts_with('.') || part.starts_with('.'))
                        .filter(|n| matches(part.as_bytes(), n.as_bytes()))
                        .map(|n| format!("{base}/{n}")),
                );
            }
            found = next;
        }
        found.retain(|p| Path::new(p).is_file());
        found.sort();
        found
    }

    fn interface_exists(&self, name: &str) -> Option<bool> {
        Some(!name.contains('/') && Path::new("/sys/class/net").join(name).exists())
    }

    fn executable_exists(&self, path: &str) -> Option<bool> {
        Some(executable(path).is_some())
    }

    fn user_exists(&self, name: &str) -> Option<bool> {
        Some(user(name, None).is_some())
    }
}

/// The file that a program's name means.
fn executable(name: &str) -> Option<PathBuf> {
    let runs = |p: &PathBuf| {
        p.metadata()
            .is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
    };
    if name.starts_with('/') {
        return Some(PathBuf::from(name)).filter(runs);
    }
    // As execvp would look: only the usual places, since PATH is the caller's.
    [
        "/usr/local/sbin",
        "/usr/local/bin",
        "/usr/sbin",
        "/usr/bin",
        "/sbin",
        "/bin",
    ]
    .iter()
    .map(|d| Path::new(d).join(name))
    .find(runs)
}

/// enable_script_security: what runs as root must be root's in every part of its path, links included, and be writable by
/// nobody else. Says which part is not. `user` is who the script runs as; none is whoever we are.
pub fn safe_for_root(
    program: &str,
    as_user: Option<&(String, Option<String>)>,
) -> Result<(), String> {
    let uid = match as_user {
        Some((name, group)) => user(name, group.as_deref()).map(|(uid, _)| uid),
        None => Some(rustix::process::geteuid().as_raw()),
    };
    if uid != Some(0) {
        return Ok(());
    }
    let file = executable(program).ok_or_else(|| format!("no program {program}"))?;
    let real = file
        .canonicalize()
        .map_err(|e| format!("{}: {e}", file.display()))?;
    for part in file.ancestors().chain(real.ancestors()) {
        let about = part
            .symlink_metadata()
            .map_err(|e| format!("{}: {e}", part.display()))?;
        // Anybody may "write" a link; who may replace it is its directory's matter.
        let mode = if about.is_symlink() { 0 } else { about.mode() };
        if about.uid() != 0 || mode & 0o002 != 0 || (about.gid() != 0 && mode & 0o020 != 0) {
            return Err(format!(
                "{program} is not run as root: others than root may write {}",
                part.display()
            ));
        }
    }
    Ok(())
}

/// User and group number, by name, from /etc/passwd and /etc/group. The group defaults to the user's.
pub fn user(name: &str, group: Option<&str>) -> Option<(u32, u32)> {
    let passwd = std::fs::read_to_string("/etc/passwd").ok()?;
    let entry = |file: &str, name: &str, at: usize| -> Option<u32> {
        let line = file.lines().find(|l| l.split(':').next() == Some(name))?;
        line.split(':').nth(at)?.parse().ok()
    };
    let uid = entry(&passwd, name, 2)?;
    let gid = match group {
        Some(g) => entry(&std::fs::read_to_string("/etc/group").ok()?, g, 2)?,
        None => entry(&passwd, name, 3)?,
    };
    Some((uid, gid))
}

/// Whether `name` matches a pattern of `*`, `?` and `[...]`.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    match (pattern, name) {
        ([], []) => true,
        ([b'*', rest @ ..], _) => {
            matches(rest, name) || name.split_first().is_some_and(|(_, n)| matches(pattern, n))
        }
        ([b'?', rest @ ..], [_, n @ ..]) => matches(rest, n),
        ([b'[', rest @ ..], [c, n @ ..]) => {
            let Some(end) = rest.iter().position(|b| *b == b']') else {
                return false;
            };
            let (set, after) = rest.split_at(end);
            let inside = set.contains(c)
                || set
                    .windows(3)
                    .any(|w| matches!(w, [a, b'-', b] if (a..=b).contains(&c)));
            inside && matches(after.get(1..).unwrap_or_default(), n)
        }
        ([p, rest @ ..], [c, n @ ..]) => p == c && matches(rest, n),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_names() {
        for (pattern, name, expect) in [
            ("*.conf", "a.conf", true),
            ("*.conf", "a.conf~", false),
            ("a?c", "abc", true),
            ("[a-c]1", "b1", true),
            ("[a-c]1", "d1", false),
            ("*", "", true),
        ] {
            assert_eq!(
                matches(pattern.as_bytes(), name.as_bytes()),
                expect,
                "{pattern} {name}"
            );
        }
    }

    #[test]
    fn files_are_found_by_pattern() {
        let directory = std::env::temp_dir().join(format!("l4-glob-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        for name in ["b.conf", "a.conf", "c.txt"] {
            std::fs::write(directory.join(name), "").unwrap();
        }
        let found = Machine.glob(&format!("{}/*.conf", directory.display()));
        let names: Vec<&str> = found.iter().filter_map(|p| p.rsplit('/').next()).collect();
        assert_eq!(names, ["a.conf", "b.conf"]);
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
