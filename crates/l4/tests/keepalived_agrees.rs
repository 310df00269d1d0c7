//! `check` accepts and rejects what `keepalived -t` does. The corpus carries the real program's verdicts; where
//! keepalived is installed (and eth0 exists, since it looks), each verdict is asked for again.

use sluice_l4::config::{Host, accepted, parse};
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

/// A machine with eth0 and lo, whose programs are /bin's, but for those whose names say that they are not.
struct Usual;

impl Host for Usual {
    fn read(&self, path: &str) -> Result<String, String> {
        Err(format!("{path}: not found"))
    }
    fn glob(&self, _: &str) -> Vec<String> {
        Vec::new()
    }
    fn interface_exists(&self, name: &str) -> Option<bool> {
        Some(matches!(name, "eth0" | "lo"))
    }
    fn executable_exists(&self, path: &str) -> Option<bool> {
        Some(path.starts_with("/bin/") && !path.contains("not"))
    }
    fn user_exists(&self, name: &str) -> Option<bool> {
        Some(matches!(name, "root" | "nobody" | "daemon"))
    }
}

/// Verdict, name and text of each case.
fn corpus() -> Vec<(bool, &'static str, &'static str)> {
    include_str!("keepalived.corpus")
        .split("=== ")
        .filter(|c| !c.is_empty())
        .map(|case| {
            let (head, text) = case.split_once('\n').expect("a case has a head line");
            let (verdict, name) = head.split_once(' ').expect("a head has a verdict");
            (verdict == "accept", name, text)
        })
        .collect()
}

#[test]
fn verdicts_are_keepalived_s() {
    let mut wrong = Vec::new();
    for (expect, name, text) in corpus() {
        let (_, diagnostics) = parse(&Usual, "case.conf", text, "host");
        if accepted(&diagnostics) != expect {
            let said: Vec<String> = diagnostics.iter().map(ToString::to_string).collect();
            wrong.push(format!(
                "{name}: keepalived {}s, we said:\n{}",
                if expect { "accept" } else { "reject" },
                said.join("\n")
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {}:\n{}",
        wrong.len(),
        corpus().len(),
        wrong.join("\n\n")
    );
}

#[test]
fn every_rejection_names_a_reason() {
    for (expect, name, text) in corpus() {
        let (_, diagnostics) = parse(&Usual, "case.conf", text, "host");
        if !expect {
            assert!(diagnostics.iter().any(|d| !d.message.is_empty()), "{name}");
        }
    }
}

#[test]
fn the_corpus_is_still_what_keepalived_says() {
    let installed = Command::new("keepalived")
        .arg("--version")
        .stderr(Stdio::null())
        .output()
        .is_ok_and(|o| o.status.success());
    if !installed || !std::path::Path::new("/sys/class/net/eth0").exists() {
        eprintln!("skipped: keepalived or eth0 is not here");
        return;
    }
    for (expect, name, text) in corpus() {
        let mut file = tempfile(name);
        file.1.write_all(text.as_bytes()).expect("temporary file");
        let status = Command::new("keepalived")
            .args(["-t", "-f", &file.0])
            .stdin(Stdio::null())
            .output();
        let _ = std::fs::remove_file(&file.0);
        let output = status.expect("keepalived runs");
        // 2.2.7 ends itself with SIGTERM, silently, where a good file names scripts.
        let terminated = output.status.signal() == Some(15) && output.stderr.is_empty();
        assert_eq!(output.status.success() || terminated, expect, "{name}");
    }
}

fn tempfile(name: &str) -> (String, std::fs::File) {
    let clean: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
    let path = std::env::temp_dir().join(format!("l4-{}-{clean}.conf", std::process::id()));
    let file = std::fs::File::create(&path).expect("temporary file");
    (path.display().to_string(), file)
}
