//! Whole configurations in the manner of those found in packages, guides and generators: each loads, or fails only for
//! what Sluice has not yet. A file's first line says which: `# loads`, or `# later: PART, PART`.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use sluice_config::{LoadOptions, Loaded, RenderOptions, Severity, SourceFile, load};
use sluice_expr::Loader;

/// Files that the configurations name: any error page, empty lists and maps.
struct AnyFile;

impl Loader for AnyFile {
    fn load(&self, path: &str) -> Result<Vec<u8>, String> {
        match path.ends_with(".http") {
            true => Ok(b"HTTP/1.0 503 Sorry\r\nContent-Type: text/plain\r\n\r\nsorry\n".to_vec()),
            false => Ok(Vec::new()),
        }
    }
}

fn read(name: &str, text: &str) -> Loaded {
    let lookup = |name: &str| (name == "localhost").then(|| IpAddr::from([127, 0, 0, 1]));
    let opts = LoadOptions {
        env: Vec::new(),
        loader: &AnyFile,
        lookup: &lookup,
        store: Arc::default(),
        localpeer: "peer".into(),
        master_worker: false,
        features: Vec::new(),
        enabled: Vec::new(),
        tls_library: String::new(),
        diag: false,
        ignores_unresolved: false,
    };
    let file = SourceFile {
        name: name.into(),
        text: text.as_bytes().to_vec(),
    };
    load(&[file], &opts)
}

/// The parts that a configuration waits for; every other alert is a failure.
fn parts(loaded: &Loaded) -> Result<BTreeSet<String>, String> {
    let mut parts = BTreeSet::new();
    let alerts = loaded
        .diagnostics
        .iter()
        .filter(|d| d.severity == Severity::Alert);
    for alert in alerts.filter(|d| d.origin.is_some()) {
        let part = alert
            .hint
            .as_deref()
            .and_then(|h| h.strip_prefix("it comes with: "));
        match part {
            Some(part) if alert.message.contains("not implemented by Sluice yet") => {
                parts.insert(part.to_owned());
            }
            _ => return Err(alert.render(RenderOptions::default())),
        }
    }
    Ok(parts)
}

fn each(mut check: impl FnMut(&str, &str)) {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/configs");
    let mut files: Vec<_> = std::fs::read_dir(dir)
        .expect("tests/configs")
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|e| e == "cfg"))
        .collect();
    files.sort();
    assert!(files.len() > 25, "the configurations are there");
    for path in files {
        let text = std::fs::read_to_string(&path).expect("a configuration");
        check(&path.display().to_string(), &text);
    }
}

#[test]
fn known_configurations_load() {
    let mut report = String::new();
    each(|name, text| {
        let first = text.lines().next().unwrap_or("");
        let loaded = read(name, text);
        let expect: BTreeSet<String> = match first.strip_prefix("# later: ") {
            Some(parts) => parts.split(", ").map(str::to_owned).collect(),
            None => {
                assert_eq!(
                    first, "# loads",
                    "{name}: the first line says what to expect"
                );
                BTreeSet::new()
            }
        };
        match parts(&loaded) {
            Ok(got) if got == expect => {
                assert_eq!(loaded.model.is_some(), expect.is_empty(), "{name}");
            }
            Ok(got) => report.push_str(&format!("{name}: waits for {got:?}, not {expect:?}\n")),
            Err(alert) => report.push_str(&format!("{name}:\n{alert}\n")),
        }
    });
    assert!(report.is_empty(), "{report}");
}

/// A configuration that Sluice loads without a warning and that names no file is one that HAProxy 2.6 accepts too.
#[test]
fn haproxy_agrees_about_those_that_need_nothing() {
    let version = Command::new("haproxy").arg("-v").output();
    let is_2_6 = version.is_ok_and(|o| String::from_utf8_lossy(&o.stdout).contains("version 2.6"));
    if !is_2_6 {
        eprintln!("SKIPPED: haproxy 2.6 is not installed (apt-get install haproxy)");
        return;
    }
    let mut asked = 0;
    let mut report = String::new();
    // What is newer than 2.6, or needs a file or a user of its own machine.
    let not_here = [
        ".http", ".map", ".lst", ".txt", "user ", "group ", "chroot ", "bwlim", "uid", "nbproc",
        "eth0",
    ];
    each(|name, text| {
        let loaded = read(name, text);
        let calm = loaded
            .diagnostics
            .iter()
            .all(|d| d.severity < Severity::Warning);
        if loaded.model.is_none() || !calm || not_here.iter().any(|w| text.contains(w)) {
            return;
        }
        asked += 1;
        let out = Command::new("haproxy")
            .args(["-c", "-f", name])
            .output()
            .expect("haproxy runs");
        if !out.status.success() {
            report.push_str(&format!(
                "{name}:\n{}\n",
                String::from_utf8_lossy(&out.stderr)
            ));
        }
    });
    assert!(asked > 5, "only {asked} configurations could be compared");
    assert!(report.is_empty(), "{report}");
}
