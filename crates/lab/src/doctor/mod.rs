//! `sluice-lab doctor`: looks at the host as the set-up chapter of the 2019 cookbook does, and says for each point what
//! is there, what is wanted, the command that sets it, and why.
//!
//! Every point is one item of [`CHECKS`]; those that look are in `kernel` and `cards`. It reads files below a root folder, so that tests can make a host of their own.
//! Changes nothing; [`apply`] does what `--apply` asks for, and only for points that are one value in one file.

mod cards;
mod checks;
mod kernel;

pub use checks::CHECKS;
use std::fs;
use std::path::{Path, PathBuf};

/// A host to look at: its file system's root.
#[derive(Debug, Clone)]
pub struct Host {
    root: PathBuf,
}

impl Default for Host {
    fn default() -> Self {
        Self {
            root: PathBuf::from("/"),
        }
    }
}

/// What was found at one point.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What is there.
    pub found: String,
    /// What is wanted.
    pub wanted: String,
    /// Whether it will do; `None` when it does not apply here.
    pub ok: Option<bool>,
    /// The command that sets it; empty when there is none.
    pub command: String,
    /// File and value, when that is all there is to set.
    pub set: Option<(PathBuf, String)>,
}

/// One point.
#[derive(Debug, Clone, Copy)]
pub struct Check {
    /// Its name.
    pub name: &'static str,
    /// Why it matters.
    pub why: &'static str,
    look: fn(&Host) -> Finding,
}

impl Host {
    /// A host whose root is elsewhere.
    #[must_use]
    pub fn at(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
        }
    }

    fn read(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.root.join(path))
            .ok()
            .map(|text| text.trim().to_owned())
    }

    fn names(&self, dir: &str) -> Vec<String> {
        let entries = fs::read_dir(self.root.join(dir))
            .into_iter()
            .flatten()
            .flatten();
        let mut names: Vec<_> = entries
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    /// Network cards: interfaces with a device behind them.
    fn cards(&self) -> Vec<String> {
        let real = |name: &String| {
            self.root
                .join("sys/class/net")
                .join(name)
                .join("device")
                .exists()
        };
        self.names("sys/class/net")
            .into_iter()
            .filter(real)
            .collect()
    }

    fn cpus(&self) -> usize {
        let text = self.read("proc/cpuinfo").unwrap_or_default();
        text.lines()
            .filter(|line| line.starts_with("processor"))
            .count()
            .max(1)
    }
}

impl Finding {
    fn new(
        ok: Option<bool>,
        found: impl Into<String>,
        wanted: impl Into<String>,
        command: impl Into<String>,
    ) -> Self {
        Self {
            found: found.into(),
            wanted: wanted.into(),
            ok,
            command: command.into(),
            set: None,
        }
    }

    fn absent(what: &str) -> Self {
        Self::new(None, what, "-", "")
    }
}

/// All findings.
#[must_use]
pub fn examine(host: &Host) -> Vec<(Check, Finding)> {
    CHECKS
        .iter()
        .map(|check| (*check, (check.look)(host)))
        .collect()
}

/// The findings as text: for each what is there, what is wanted, why, and the command that sets it.
#[must_use]
pub fn text(findings: &[(Check, Finding)]) -> String {
    const INDENT: usize = 8;
    let mut text = String::new();
    for (check, finding) in findings {
        let verdict = match finding.ok {
            Some(true) => "ok",
            Some(false) => "CHANGE",
            None => "-",
        };
        text.push_str(&format!(
            "{verdict:<INDENT$}{}: {}; wanted: {}\n{:INDENT$}why: {}\n",
            check.name, finding.found, finding.wanted, "", check.why
        ));
        if !finding.command.is_empty() {
            text.push_str(&format!("{:INDENT$}set: {}\n", "", finding.command));
        }
    }
    let count = |ok| {
        findings
            .iter()
            .filter(|(_, finding)| finding.ok == Some(ok))
            .count()
    };
    text.push_str(&format!(
        "{} points will do, {} should change\n",
        count(true),
        count(false)
    ));
    text
}

/// Sets what is one value in one file and not as wanted. Tells what it did, and what it could not do.
pub fn apply(findings: &[(Check, Finding)]) -> Vec<String> {
    let wrong = findings
        .iter()
        .filter(|(_, finding)| finding.ok == Some(false));
    wrong
        .map(|(check, finding)| match &finding.set {
            None if finding.command.is_empty() => {
                format!("{}: there is no command for it", check.name)
            }
            None => format!("{}: left to you: {}", check.name, finding.command),
            Some((file, value)) => match fs::write(file, value) {
                Ok(()) => format!(
                    "{}: {} = {value} (until the next boot)",
                    check.name,
                    file.display()
                ),
                Err(error) => format!("{}: cannot write {}: {error}", check.name, file.display()),
            },
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::WorkDir;

    fn host(files: &[(&str, &str)]) -> (WorkDir, Host) {
        let dir = WorkDir::new().unwrap();
        for (path, text) in files {
            let file = dir.path().join(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        let host = Host::at(dir.path());
        (dir, host)
    }

    fn finding(host: &Host, name: &str) -> Finding {
        examine(host)
            .into_iter()
            .find(|(check, _)| check.name == name)
            .unwrap()
            .1
    }

    #[test]
    fn a_small_setting_is_named_with_its_command() {
        let (_dir, host) = host(&[("proc/sys/net/core/somaxconn", "4096\n")]);
        let found = finding(&host, "accept queue");
        assert_eq!((found.ok, found.found.as_str()), (Some(false), "4096"));
        assert_eq!(found.command, "sysctl -w net.core.somaxconn='65535'");
    }

    #[test]
    fn findings_of_made_hosts() {
        let check = |files: &[(&str, &str)], name: &str, ok: Option<bool>| {
            let (_dir, host) = host(files);
            let found = finding(&host, name);
            assert_eq!(found.ok, ok, "{name}: {found:?}");
        };
        let ports = "proc/sys/net/ipv4/ip_local_port_range";
        check(&[(ports, "32768\t60999\n")], "port range", Some(false));
        check(&[(ports, "1024\t65535\n")], "port range", Some(true));
        check(
            &[("proc/sys/net/ipv4/tcp_rmem", "4096 131072 33554432")],
            "receive buffers",
            Some(true),
        );
        check(&[], "receive buffers", None);
        check(&[], "connection tracking", Some(true));
        check(
            &[("proc/sys/net/netfilter/nf_conntrack_max", "65536")],
            "connection tracking",
            Some(false),
        );
        check(
            &[("proc/12/comm", "irqbalance\n")],
            "irqbalance",
            Some(false),
        );
        check(&[("proc/12/comm", "bash\n")], "irqbalance", Some(true));
        let cpu = |n| format!("sys/devices/system/cpu/cpu{n}/cpufreq/scaling_governor");
        check(
            &[(&cpu(0), "performance"), (&cpu(1), "powersave")],
            "CPU governor",
            Some(false),
        );
        check(
            &[(
                "sys/kernel/mm/transparent_hugepage/enabled",
                "always madvise [never]",
            )],
            "huge pages",
            Some(false),
        );
        let limits = |n| {
            format!(
                "Limit  Soft  Hard  Units\nMax open files            1024                 {n}              files\n"
            )
        };
        check(
            &[("proc/self/limits", &limits("20000"))],
            "ulimit -n",
            Some(false),
        );
        check(
            &[("proc/self/limits", &limits("1048576"))],
            "ulimit -n",
            Some(true),
        );
        let card = [
            ("sys/class/net/eth0/device/x", ""),
            ("sys/class/net/eth0/mtu", "1500"),
            ("sys/class/net/lo/mtu", "65536"),
        ];
        check(&card, "MTU", Some(false));
    }

    #[test]
    fn every_point_says_found_wanted_and_why() {
        let (_dir, host) = host(&[("proc/sys/net/core/somaxconn", "65535")]);
        let text = text(&examine(&host));
        for check in CHECKS {
            assert!(text.contains(&format!("{}: ", check.name)), "{text}");
            assert!(text.contains(&format!("why: {}", check.why)), "{text}");
        }
        assert_eq!(text.matches("; wanted: ").count(), CHECKS.len());
        let ok = "ok      accept queue: 65535; wanted: >= 65535\n";
        assert!(text.contains(ok), "{text}");
        assert!(text.contains("set: sysctl -w net.core.somaxconn='65535'"));
    }

    #[test]
    fn applying_writes_only_what_is_wrong() {
        let (_dir, host) = host(&[
            ("proc/sys/net/core/somaxconn", "128"),
            ("proc/sys/net/core/netdev_max_backlog", "20000"),
            ("proc/12/comm", "irqbalance\n"),
        ]);
        let said = apply(&examine(&host));
        assert_eq!(host.read("proc/sys/net/core/somaxconn").unwrap(), "65535");
        assert_eq!(
            host.read("proc/sys/net/core/netdev_max_backlog").unwrap(),
            "20000"
        );
        assert!(
            said.iter()
                .any(|line| line.contains("left to you: systemctl stop irqbalance")),
            "{said:?}"
        );
    }
}
