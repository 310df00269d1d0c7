//! Configurations of the kinds people publish, one file each in `public/`: `check` says of each what `keepalived -t` says,
//! and `run` takes it or stops with a reason that names what to do. Where keepalived and root are here, its verdict is
//! asked for again, in a namespace with the interfaces the files name.

use proptest::prelude::Rng as _;
use sluice_l4::config::{Host, Severity, accepted, parse, runnable};
use sluice_l4::host::Machine;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// What `run` makes of a file.
enum Run {
    Starts,
    /// With a reason that holds this.
    Stops(&'static str),
}
use Run::{Starts, Stops};

/// File, whether keepalived -t takes it, what `run` does.
const FILES: &[(&str, bool, Run)] = &[
    ("bfd-pair", true, Starts),
    // keepalived cannot watch routes without an interface.
    ("bridge-with-static", false, Starts),
    // The sample in keepalived's own package has intervals of 0, which -t takes for a mistake.
    ("debian-sample-strict", false, Starts),
    ("dns-udp", true, Starts),
    ("dual-stack", true, Starts),
    ("firewall-mark", true, Starts),
    ("generated-instances", true, Starts),
    ("haproxy-pair", false, Starts),
    ("includes", true, Starts),
    ("ipv6-web", true, Starts),
    ("kubernetes-api", false, Starts),
    ("kubernetes-api-unicast", true, Starts),
    // `run` wants --sync.
    ("lvs-dr-web-farm", false, Starts),
    ("lvs-nat-mysql", true, Starts),
    ("mail-servers", true, Starts),
    ("missing-brace", false, Stops("never closed")),
    ("mistyped", false, Stops("did you mean priority?")),
    ("nat-gateway", true, Starts),
    ("neutron-router", false, Starts),
    ("octavia-amphora", true, Starts),
    ("octavia-udp", true, Starts),
    ("old-version-1", false, Stops("lvs_id")),
    ("one-file-for-both", true, Starts),
    ("section-1", true, Starts),
    ("short-adverts", true, Starts),
    ("tracked-files-and-processes", true, Starts),
    ("virtual-mac", true, Starts),
];

/// This machine, but for its interfaces.
struct TwoPorts;

impl Host for TwoPorts {
    fn read(&self, path: &str) -> Result<String, String> {
        Machine.read(path)
    }
    fn glob(&self, pattern: &str) -> Vec<String> {
        Machine.glob(pattern)
    }
    fn interface_exists(&self, name: &str) -> Option<bool> {
        Some(matches!(name, "eth0" | "eth1" | "lo"))
    }
    fn executable_exists(&self, path: &str) -> Option<bool> {
        Machine.executable_exists(path)
    }
    fn user_exists(&self, name: &str) -> Option<bool> {
        Machine.user_exists(name)
    }
}

fn directory() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/public")
}

#[test]
fn every_file_is_listed() {
    let mut there: Vec<String> = std::fs::read_dir(directory())
        .unwrap()
        .filter_map(|e| e.unwrap().file_name().into_string().ok())
        .filter_map(|n| Some(n.strip_suffix(".conf")?.to_string()))
        .collect();
    there.sort();
    let listed: Vec<&str> = FILES.iter().map(|(name, _, _)| *name).collect();
    assert_eq!(there, listed);
}

#[test]
fn each_starts_or_stops_with_a_good_reason() {
    for (name, accept, run) in FILES {
        let path = directory().join(format!("{name}.conf"));
        let text = std::fs::read_to_string(&path).unwrap();
        let (_, found) = parse(&TwoPorts, &path.display().to_string(), &text, "host");
        let said: Vec<String> = found.iter().map(ToString::to_string).collect();
        let said = said.join("\n");
        assert_eq!(accepted(&found), *accept, "{name}: check\n{said}");
        match run {
            Starts => assert!(runnable(&found), "{name}: run\n{said}"),
            Stops(reason) => {
                assert!(!runnable(&found), "{name} runs");
                let stops = |s| matches!(s, Severity::Error | Severity::Unsupported);
                let mut reasons = found.iter().filter(|d| stops(d.severity));
                assert!(
                    reasons.any(|d| d.message.contains(reason)),
                    "{name}: {reason}\n{said}"
                );
            }
        }
    }
}

#[test]
fn keepalived_says_the_same() {
    if !has_keepalived() {
        return;
    }
    let space = Space::new("public");
    for (name, accept, _) in FILES {
        let file = directory().join(format!("{name}.conf"));
        let (good, silent, said) = space.keepalived(&file);
        assert_eq!(good || silent, *accept, "{name}\n{said}");
    }
}

fn has_keepalived() -> bool {
    let runs = |program: &str, arg: &str| Command::new(program).arg(arg).output().is_ok();
    let there =
        rustix::process::geteuid().is_root() && runs("keepalived", "--version") && runs("ip", "-V");
    if !there {
        eprintln!("skipped: not root, or keepalived or ip is not here");
    }
    there
}

/// A network namespace with the usual interfaces; it goes with the test.
struct Space(String);

impl Space {
    fn new(name: &str) -> Space {
        let space = Space(format!("sl5-{name}-{}", std::process::id()));
        space.ip("netns add", "");
        for n in 0..2 {
            let link = format!("link add eth{n} type veth peer name p{n}");
            space.ip("-n", &link);
        }
        space
    }

    /// Whether keepalived -t takes a file, whether it ended itself (2.2.7 sends itself SIGTERM where a file names scripts)
    /// without a word, and its words.
    fn keepalived(&self, file: &std::path::Path) -> (bool, bool, String) {
        let output = Command::new("ip")
            .args([
                "netns",
                "exec",
                &self.0,
                "keepalived",
                "-t",
                "-i",
                "host",
                "-f",
            ])
            .arg(file)
            .stdin(Stdio::null())
            .output()
            .expect("keepalived runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let terminated = output.status.code() == Some(143)
            || std::os::unix::process::ExitStatusExt::signal(&output.status) == Some(15);
        let silent = terminated && said.is_empty();
        (output.status.success(), silent, said)
    }

    fn ip(&self, verb: &str, rest: &str) {
        let words = verb.split(' ').chain([self.0.as_str()]);
        let status = Command::new("ip")
            .args(words.chain(rest.split(' ').filter(|w| !w.is_empty())))
            .status();
        assert!(status.is_ok_and(|s| s.success()), "ip {verb} {rest}");
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.0]).status();
    }
}

/// Files with lines removed, doubled, swapped, cut and lengthened: what nobody thought of. Where keepalived only ends itself (see
/// above) it has said nothing; a few differ on purpose.
#[test]
fn keepalived_says_the_same_of_spoiled_files() {
    if !has_keepalived() {
        return;
    }
    let cases: Vec<&str> = include_str!("keepalived.corpus")
        .split("=== ")
        .filter_map(|c| Some(c.split_once('\n')?.1))
        .filter(|c| !c.trim().is_empty())
        .collect();
    let space = Space::new("spoiled");
    let path = std::env::temp_dir().join(format!("sl5-spoiled-{}.conf", std::process::id()));
    let mut rng = proptest::test_runner::TestRunner::deterministic().new_rng();
    let mut below = |n: usize| (rng.next_u64() % n as u64) as usize;
    const FILES: usize = 250;
    let mut differ = Vec::new();
    for _ in 0..FILES {
        let mut lines: Vec<String> = cases[below(cases.len())]
            .lines()
            .map(String::from)
            .collect();
        let (at, other) = (below(lines.len()), below(lines.len()));
        match below(5) {
            0 => drop(lines.remove(at)),
            1 => lines.swap(at, other),
            2 => lines.insert(at, lines[other].clone()),
            3 => {
                let words: Vec<&str> = lines[at].split_whitespace().collect();
                lines[at] = words[..words.len().saturating_sub(1)].join(" ");
            }
            _ => {
                let more = ["0", "1", "-1", "70000", "abc", "10.0.0.1", "3.5", "on"];
                lines[at] = format!("{} {}", lines[at], more[below(more.len())]);
            }
        }
        let text = lines.join("\n");
        std::fs::write(&path, &text).unwrap();
        let (good, silent, said) = space.keepalived(&path);
        let (_, found) = parse(&TwoPorts, "spoiled", &text, "host");
        if !silent && good != accepted(&found) {
            let ours: Vec<String> = found.iter().map(ToString::to_string).collect();
            differ.push(format!(
                "{text}\nkeepalived: {good}\n{said}\nours:\n{}",
                ours.join("\n")
            ));
        }
    }
    let _ = std::fs::remove_file(&path);
    assert!(
        differ.len() * 100 <= FILES,
        "{} of {FILES}\n{}",
        differ.len(),
        differ.join("\n=====\n")
    );
}
