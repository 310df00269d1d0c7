//! One-line configurations, each judged as HAProxy judges it: accepted, accepted with a warning, refused.
//!
//! `snippets.tsv` is the table: HAProxy 2.6's verdict (and Sluice's, with the reason, where it differs on purpose), the
//! section the lines go into, the lines themselves. One test compares Sluice with the table, the other the table with
//! the installed haproxy, if there is one.

use std::fmt::Write as _;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use sluice_config::{LoadOptions, Loaded, RenderOptions, Severity, SourceFile, load};
use sluice_expr::Loader;

const TABLE: &str = include_str!("snippets.tsv");

struct Disk(PathBuf);

impl Loader for Disk {
    fn load(&self, path: &str) -> Result<Vec<u8>, String> {
        std::fs::read(self.0.join(path)).map_err(|e| e.to_string())
    }
}

fn here() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")
}

/// One row of the table.
struct Row {
    number: usize,
    haproxy: String,
    sluice: String,
    reason: String,
    section: String,
    lines: String,
}

fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for (number, text) in (1..).zip(TABLE.lines()) {
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        let mut columns = text.split('\t');
        let verdict = columns.next().unwrap_or("");
        let (haproxy, sluice) = verdict.split_once('/').unwrap_or((verdict, verdict));
        let row = Row {
            number,
            haproxy: haproxy.to_owned(),
            sluice: sluice.to_owned(),
            section: columns.next().unwrap_or("").to_owned(),
            lines: columns.next().unwrap_or("").to_owned(),
            reason: columns.next().unwrap_or("").to_owned(),
        };
        let differs = haproxy != sluice && sluice != "later";
        assert_eq!(
            differs,
            !row.reason.is_empty(),
            "snippets.tsv:{number}: a difference has a reason, and only that"
        );
        rows.push(row);
    }
    rows
}

/// The whole configuration around a row's lines. The section's name: `fe`, `be`, `ls`, `d` (defaults), `dn` (named
/// defaults of a frontend), `db` (of a backend), `raw`; then `h` for `mode http`; then `-` to leave out the bind or server
/// line that would make it complete.
fn whole(section: &str, lines: &str) -> String {
    let bare = section.ends_with('-');
    let section = section.trim_end_matches('-');
    let http = section.len() > 2 && section.ends_with('h');
    let kind = if http {
        &section[..section.len() - 1]
    } else {
        section
    };
    let mode = if http {
        "  mode http\n"
    } else {
        "  mode tcp\n"
    };
    let timeouts = "  timeout client 1s\n  timeout connect 1s\n  timeout server 1s\n";
    let lines: String = lines
        .split(" ;; ")
        .map(|l| format!("  {}\n", l.trim()))
        .collect();
    let bind = if bare { "" } else { "  bind 127.0.0.1:8\n" };
    let server = if bare { "" } else { "  server s 127.0.0.1:1\n" };
    let backend = format!("backend b\n{mode}  server s 127.0.0.1:1\n");
    match kind {
        "raw" => lines.lines().map(|l| format!("{}\n", l.trim())).collect(),
        "fe" => format!("defaults\n{timeouts}{backend}frontend f\n{mode}{bind}{lines}"),
        "be" => format!(
            "defaults\n{timeouts}{backend}backend x\n{mode}{server}{lines}frontend f\n{mode}  bind 127.0.0.1:8\n  default_backend x\n"
        ),
        "ls" => format!("defaults\n{timeouts}{backend}listen l\n{mode}{bind}{server}{lines}"),
        "d" => format!(
            "defaults\n{mode}{timeouts}{lines}frontend f\n  bind 127.0.0.1:8\n  default_backend b\n{backend}"
        ),
        "dn" => format!(
            "defaults one\n{mode}{timeouts}{lines}frontend f from one\n  bind 127.0.0.1:8\n  default_backend b\ndefaults two\n{timeouts}{backend}"
        ),
        "db" => format!(
            "defaults one\n{mode}{timeouts}frontend f from one\n  bind 127.0.0.1:8\n  default_backend b\ndefaults two\n{mode}{timeouts}{lines}backend b from two\n  server s 127.0.0.1:1\n"
        ),
        other => panic!("unknown section '{other}' in snippets.tsv"),
    }
}

fn lookup(name: &str) -> Option<IpAddr> {
    (name == "localhost").then(|| [127, 0, 0, 1].into())
}

fn read(text: &str) -> Loaded {
    let opts = LoadOptions {
        env: Vec::new(),
        loader: &Disk(here()),
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
        name: "t.cfg".into(),
        text: text.as_bytes().to_vec(),
    };
    load(&[file], &opts)
}

fn verdict(loaded: &Loaded) -> &'static str {
    // Those without a line only say that there were others.
    let alerts = || {
        loaded
            .diagnostics
            .iter()
            .filter(|d| d.severity == Severity::Alert && d.origin.is_some())
    };
    let warned = loaded
        .diagnostics
        .iter()
        .any(|d| d.severity == Severity::Warning);
    assert_eq!(
        loaded.model.is_none(),
        alerts().next().is_some(),
        "a model is there unless an alert says why not"
    );
    if alerts().any(|d| !d.message.contains("not implemented by Sluice yet")) {
        "err"
    } else if alerts().next().is_some() {
        "later"
    } else if warned {
        "warn"
    } else {
        "ok"
    }
}

#[test]
fn sluice_judges_as_the_table_says() {
    let mut report = String::new();
    for row in rows() {
        let loaded = read(&whole(&row.section, &row.lines));
        let got = verdict(&loaded);
        if got == row.sluice {
            continue;
        }
        let _ = writeln!(
            report,
            "snippets.tsv:{}: [{}] {}\n  expected {}, got {got}",
            row.number, row.section, row.lines, row.sluice
        );
        for d in &loaded.diagnostics {
            let _ = write!(report, "{}", d.render(RenderOptions::default()));
        }
    }
    assert!(report.is_empty(), "{report}");
}

/// Lines cut short, or with a word missing or written twice, may be wrong but never bring the parser down.
#[test]
fn damaged_lines_are_survived() {
    let step = match std::env::var_os("SLUICE_TEST_FULL") {
        Some(_) => 1,
        None => 23,
    };
    for row in rows().into_iter().step_by(step) {
        let words: Vec<&str> = row.lines.split(' ').collect();
        for at in 0..words.len() {
            let mut missing = words.clone();
            missing.remove(at);
            let mut twice = words.clone();
            twice.insert(at, words[at]);
            for damaged in [&words[..at], &missing, &twice] {
                let loaded = read(&whole(&row.section, &damaged.join(" ")));
                verdict(&loaded);
            }
        }
    }
}

#[test]
fn haproxy_judges_as_the_table_says() {
    let version = Command::new("haproxy").arg("-v").output();
    let is_2_6 = version.is_ok_and(|o| String::from_utf8_lossy(&o.stdout).contains("version 2.6"));
    if !is_2_6 {
        eprintln!("SKIPPED: haproxy 2.6 is not installed (apt-get install haproxy)");
        return;
    }
    let dir = std::env::temp_dir().join(format!("sluice-snippets-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a directory for the test's files");
    // Each run costs haproxy 70 ms of CPU: all 1300 rows are for the full run.
    let step = match std::env::var_os("SLUICE_TEST_FULL") {
        Some(_) => 1,
        None => {
            eprintln!("SKIPPED: 19 of 20 rows (SLUICE_TEST_FULL=1 runs all of them)");
            20
        }
    };
    let rows: Vec<Row> = rows().into_iter().step_by(step).collect();
    let next = AtomicUsize::new(0);
    let report: String = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..2)
            .map(|worker| {
                let path = dir.join(format!("{worker}.cfg"));
                let (rows, next) = (&rows, &next);
                scope.spawn(move || {
                    let mut report = String::new();
                    while let Some(row) = rows.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let _ = write!(report, "{}", judged_by_haproxy(row, &path));
                    }
                    report
                })
            })
            .collect();
        workers.into_iter().filter_map(|w| w.join().ok()).collect()
    });
    let _ = std::fs::remove_dir_all(&dir);
    assert!(report.is_empty(), "{report}");
}

/// What the report says of a row: nothing when haproxy's verdict is the table's.
fn judged_by_haproxy(row: &Row, path: &Path) -> String {
    std::fs::write(path, whole(&row.section, &row.lines)).expect("the test's file");
    let out = Command::new("haproxy")
        .args(["-c", "-f"])
        .arg(path)
        .current_dir(here())
        .output()
        .expect("haproxy runs");
    let text = String::from_utf8_lossy(&out.stderr);
    let got = match (out.status.success(), text.contains("[WARNING]")) {
        (false, _) => "err",
        (true, true) => "warn",
        (true, false) => "ok",
    };
    match got == row.haproxy {
        true => String::new(),
        false => format!(
            "snippets.tsv:{}: [{}] {}\n  expected {}, got {got}\n{text}",
            row.number, row.section, row.lines, row.haproxy
        ),
    }
}
