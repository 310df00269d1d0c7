//! `sluice-lab doctor`: looks at the host as the set-up chapter of the 2019 cookbook does, and says for each point what
//! is there, what is wanted, the command that sets it, and why.
//!
//! Every point is one item of [`CHECKS`]; those that look are in `kernel` and `cards`. It reads files below a root folder, so that tests can make a host of their own.
//! Changes nothing; [`apply`] does what `--apply` asks for, and only for points that are one value in one file.

mod cards;
mod checks;
mod kernel;

use crate::sys::{self, CardFlag};
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

    /// A flag of a card; unknown on a host that is not this one.
    fn flag(&self, card: &str, flag: CardFlag) -> Option<bool> {
        let here = self.root == Path::new("/");
        here.then(|| sys::card_flag(card, flag).ok()).flatten()
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

/// The findings as JSON lines.
#[must_use]
pub fn json(findings: &[(Check, Finding)]) -> String {
    let line = |(check, finding): &(Check, Finding)| {
        let object = serde_json::json!({
            "name": check.name, "found": finding.found, "wanted": finding.wanted, "ok": finding.ok,
            "set": finding.command, "why": check.why,
        });
        format!("{object}\n")
    };
    findings.iter().map(line).collect()
}

/// Sets what is one value in one file and not as wanted. Tells of each what it did or left to do; an error is a
/// setting that could not be written.
pub fn apply(findings: &[(Check, Finding)]) -> Vec<Result<String, String>> {
    let wrong = findings
        .iter()
        .filter(|(_, finding)| finding.ok == Some(false));
    wrong
        .map(|(check, finding)| match &finding.set {
            None if finding.command.is_empty() => {
                Ok(format!("{}: there is no command for it", check.name))
            }
            None => Ok(format!("{}: left to you: {}", check.name, finding.command)),
            Some((file, value)) => match fs::write(file, value) {
                Ok(()) => Ok(format!(
                    "{}: {} = {value} (until the next boot)",
                    check.name,
                    file.display()
                )),
                Err(error) => Err(format!(
                    "{}: cannot write {}: {}",
                    check.name,
                    file.display(),
                    crate::net::plain_words(&error)
                )),
            },
        })
        .collect()
}

#[cfg(test)]
mod tests;
