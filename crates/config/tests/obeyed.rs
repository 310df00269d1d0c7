//! No keyword is accepted and ignored: what the model holds is read by the crates that run it. A field nobody reads
//! either has a keyword that says so (it stops the start, or warns that it has no effect), or is on the list below with
//! the reason. Reading is judged by name, which finds the forgotten field and cannot prove the obeyed one.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Fields that no other crate reads, and why that is no keyword ignored.
const UNREAD: &[(&str, &str)] = &[
    // obeyed while the configuration is read
    (
        "CheckParams::init_state",
        "asked through `first_counter` and `begins_down`",
    ),
    (
        "Global::h1_case_from_file",
        "what the next file takes the place of",
    ),
    (
        "Global::unix_bind",
        "applied to the sockets' own permissions",
    ),
    ("Server::log_bufsize", "the size of the server's ring"),
    ("Global::unix_bind_prefix", "put before the sockets' paths"),
    ("Tune::http_cookielen", "applied to the captured cookies"),
    ("Proxy::clf", "part of the compiled format"),
    ("Proxy::hash_balance_factor", "part of hash_type"),
    ("LogTarget::from_global", "for the ones who show logs"),
    (
        "Model::req_captures_max",
        "for the ones who size slots once",
    ),
    (
        "Model::res_captures_max",
        "for the ones who size slots once",
    ),
    ("LogSteps::ACCEPT", "asked through `LogSteps::of`"),
    ("LogSteps::REQUEST", "asked through `LogSteps::of`"),
    // the keyword stops the start
    ("CheckExpect::tout_status", "tout-status"),
    ("Bind::alpn", "bind ... alpn"),
    // the keyword warns that it has no effect
    ("Global::http_err_codes", "http-err-codes"),
    ("Global::http_fail_codes", "http-fail-codes"),
    ("Bind::nice", "bind ... nice"),
    ("Stats::show_modules", "stats show-modules"),
    ("BandwidthLimit::min_size", "filter bwlim-in ... min-size"),
    // what they ask for is the case anyway
    ("Options::HTTP_NO_DELAY", "every write leaves at once"),
    ("Server::ws", "h1 and auto are what is done, h2 is refused"),
    (
        "Options::SPLICE_AUTO",
        "splicing where it pays is what is done",
    ),
    (
        "Options::DISABLE_H2_UPGRADE",
        "there is no HTTP/2 to upgrade to",
    ),
    (
        "Options::HTTP_RESTRICT_REQ_HDR_NAMES_PRESERVE",
        "names are kept unless another of the three is chosen",
    ),
    (
        "RetryOn::ZERO_RTT_REJECTED",
        "without TLS nothing is rejected so",
    ),
];

fn rust_files(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        match path.is_dir() {
            true => rust_files(&path, found),
            false if path.extension().is_some_and(|e| e == "rs") => found.push(path),
            false => {}
        }
    }
}

fn text_of(dirs: &[PathBuf]) -> String {
    let mut files = Vec::new();
    dirs.iter().for_each(|dir| rust_files(dir, &mut files));
    assert!(!files.is_empty(), "no sources in {dirs:?}");
    files
        .iter()
        .map(|f| fs::read_to_string(f).expect("a source file"))
        .collect()
}

/// `Struct::field` and `Flags::NAME` for all that the model declares.
fn declared(model: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut owner = String::new();
    for line in model.lines() {
        let text = line.trim_start();
        if let Some(rest) = text.strip_prefix("pub struct ") {
            owner = rest
                .split(|c: char| !c.is_alphanumeric())
                .next()
                .unwrap_or("")
                .to_owned();
            continue;
        }
        if line == "}" {
            owner.clear();
        }
        if owner.is_empty() {
            continue;
        }
        if let Some((name, _)) = text.strip_prefix("pub ").and_then(|t| t.split_once(':')) {
            found.push(format!("{owner}::{name}"));
        } else if let Some((name, _)) = text
            .strip_prefix("const ")
            .and_then(|t| t.split_once(" = 1 <<"))
        {
            found.push(format!("{owner}::{name}"));
        }
    }
    found
}

#[test]
fn the_model_is_obeyed() {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let model = text_of(&[here.join("src/model")]);
    let others =
        ["engine", "proxy", "control", "sluice"].map(|c| here.join("..").join(c).join("src"));
    let readers = text_of(&others);
    let words: HashSet<&str> = readers
        .split(|c: char| !c.is_alphanumeric() && c != '_')
        .collect();
    let declared = declared(&model);
    assert!(declared.len() > 200, "{}", declared.len());
    let name = |field: &str| field.rsplit("::").next().unwrap_or_default().to_owned();

    let forgotten: Vec<&String> = declared
        .iter()
        .filter(|f| !words.contains(name(f).as_str()))
        .filter(|f| !UNREAD.iter().any(|(known, _)| known == f))
        .collect();
    assert!(
        forgotten.is_empty(),
        "nobody reads {forgotten:?}: obey them, or let their keywords say so (`.awaits`, `.no_effect`) and list them here"
    );
    // The list names only what exists; what is read by now can leave it, together with its keyword's `.awaits`.
    for (field, why) in UNREAD {
        assert!(
            declared.iter().any(|d| d == field),
            "{field} is no field of the model"
        );
        if words.contains(name(field).as_str()) {
            println!("{field} is read now ({why})");
        }
    }
}
