//! Configurations in the manner of published ones (`crates/config/tests/configs`), judged and played by both: Sluice and
//! Debian's haproxy 2.6 agree on whether each is valid and on what they warn about, and answer the same requests alike.
//!
//! Of each configuration that loads, addresses become ones of this machine and checks are taken out; everything else stays.
//! Without `haproxy` on the machine the test says so and passes nothing.

mod support;

use std::collections::BTreeSet;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use support::daemon::{Daemon, READY, SLUICE, free_port};
use support::find;
use support::http::{Origin, exchange};

/// Configurations that 2.6 refuses, or that are judged by what they cannot have here.
const NOT_FOR_2_6: &[(&str, &str)] = &[
    ("bandwidth.cfg", "`filter bwlim-out` is newer"),
    (
        "issue-nbproc.cfg",
        "`nbproc` is older: it works here with a warning",
    ),
    (
        "issue-splice.cfg",
        "`nbsrv -lt 2` is a form that the first issue asks for",
    ),
    ("old-1.4.cfg", "forms of 1.4 work here with warnings"),
];

/// What only Sluice says: settings that it needs not, and old forms that haproxy 2.6 takes in silence.
const ONLY_OURS: &[&str] = &["has no effect in Sluice", "is obsolete"];

/// Exchanges that end in another way: the configuration, a part of section or request, why.
const DIFFERS: &[(&str, &str, &str)] = &[
    (
        "wordpress.cfg",
        "User-Agent: sqlmap",
        "`tarpit` lasts for `timeout connect` as the manual says; haproxy 2.6 forgets one that a frontend inherits",
    ),
    (
        "rabbitmq.cfg",
        "listen mqtt",
        "what may still grow is waited for, also when `mqtt_is_valid` has seen enough",
    ),
];

/// Configurations judged and played at once.
const AT_ONCE: usize = 12;

/// How often an exchange is played before a difference is believed.
const TRIES: usize = 3;

#[test]
fn published_configurations_do_as_with_haproxy() {
    let Some(haproxy) = find("haproxy") else {
        eprintln!("haproxy is not installed: the test of published configurations is skipped");
        return;
    };
    let files = files();
    assert!(files.len() > 60, "the configurations are there");
    let origin = Origin::start();
    let next = AtomicUsize::new(0);
    let (report, played) = (Mutex::new(String::new()), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(path) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let text = std::fs::read_to_string(path).expect("a configuration");
                    let mut wrong = judge(&haproxy, &text);
                    let name = path
                        .file_name()
                        .and_then(|n| n.to_str())
                        .unwrap_or_default();
                    let (n, differences) = play(&haproxy, name, &text, &origin);
                    wrong += &differences;
                    played.fetch_add(n, Ordering::Relaxed);
                    if !wrong.is_empty() {
                        let mut report = report.lock().expect("not poisoned");
                        *report += &format!("{}:\n{wrong}\n", path.display());
                    }
                }
            });
        }
    });
    let report = report.into_inner().expect("not poisoned");
    assert!(report.is_empty(), "{report}");
    let played = played.into_inner();
    assert!(played > 500, "only {played} exchanges were played");
}

/// The configurations that load, but for those that 2.6 cannot have.
fn files() -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../config/tests/configs");
    let only = std::env::var("CASE").ok();
    let mut files: Vec<PathBuf> = std::fs::read_dir(dir)
        .expect("the configurations")
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            let name = path
                .file_name()
                .and_then(|n| n.to_str())
                .unwrap_or_default();
            let text = std::fs::read_to_string(path).unwrap_or_default();
            text.starts_with("# loads")
                && !NOT_FOR_2_6.iter().any(|(not, _)| *not == name)
                && only.as_ref().is_none_or(|only| only == name)
        })
        .collect();
    files.sort();
    files
}

/// `-c` on both: exit status, and the lines warned about.
fn judge(haproxy: &Path, text: &str) -> String {
    let dir = Daemon::fresh_dir();
    let file = dir.join("cfg");
    std::fs::write(&file, with_files(text, &dir)).expect("a configuration");
    // nobody has left states of servers here: haproxy tells so, Sluice when it starts
    let state = "Can't open global server state file";
    let said = |program: &Path| {
        let out = Command::new(program)
            .arg("-c")
            .arg("-f")
            .arg(&file)
            .current_dir(&dir)
            .output()
            .expect("it runs");
        let text = String::from_utf8_lossy(&out.stderr).into_owned();
        let lines: BTreeSet<String> = text
            .lines()
            .filter(|l| l.starts_with("[ALERT]") || l.starts_with("[WARNING]"))
            .filter(|l| !l.contains(state))
            .filter(|l| !ONLY_OURS.iter().any(|ours| l.contains(ours)))
            .map(place)
            .collect();
        (out.status.code(), lines, text)
    };
    let (theirs, ours) = (said(haproxy), said(Path::new(SLUICE)));
    let _ = std::fs::remove_dir_all(&dir);
    match (theirs.0 == ours.0, theirs.1 == ours.1) {
        (true, true) => String::new(),
        _ => format!(
            "--- haproxy -c: {:?}\n{}\n--- sluice -c: {:?}\n{}\n",
            theirs.0, theirs.2, ours.0, ours.2
        ),
    }
}

/// The line a message is about; what is said of a proxy as a whole is its text (Sluice names its line too).
fn place(message: &str) -> String {
    let text = message.split_once("config : ").map_or(message, |(_, t)| t);
    let of_a_whole = [
        "missing timeouts",
        "ignored for",
        "will be ignored",
        "has no 'bind'",
    ];
    let whole = of_a_whole.iter().any(|w| text.contains(w));
    let at = text
        .split_once("/cfg:")
        .and_then(|(_, rest)| rest.split_once(']'));
    match at {
        Some((line, _)) if !whole => format!("line {line}"),
        Some((_, what)) => what.trim_start_matches([' ', ':']).to_owned(),
        None => text.to_owned(),
    }
}

/// Runs both and asks every frontend; the number of exchanges, and what differs.
fn play(haproxy: &Path, name: &str, text: &str, origin: &Origin) -> (usize, String) {
    let start = |program: &Path| {
        let mut said = String::new();
        for _ in 0..TRIES {
            let dir = Daemon::fresh_dir();
            let text = with_files(text, &dir);
            let (local, fronts) = on_this_machine(&text, origin.port);
            match Daemon::started(program, dir, &(local + READY), "ready") {
                Ok(daemon) => return Ok((daemon, fronts)),
                Err(why) => said = why,
            }
        }
        Err(format!("{program:?} does not start:\n{said}"))
    };
    let both = (start(haproxy), start(Path::new(SLUICE)));
    let ((_one, theirs), (_other, ours)) = match both {
        (Ok(theirs), Ok(ours)) => (theirs, ours),
        (Err(a), Err(b)) => return (0, format!("{a}\n{b}")),
        (Err(why), _) | (_, Err(why)) => return (0, why),
    };
    let mut wrong = String::new();
    let requests = requests(text);
    for (theirs, ours) in theirs.iter().zip(&ours) {
        // a section that `.if` leaves out
        let listens = |front: &Front| TcpStream::connect(("127.0.0.1", front.port)).is_ok();
        if !listens(theirs) && !listens(ours) {
            continue;
        }
        for request in &requests {
            let intended = |(file, part, _): &(&str, &str, &str)| {
                *file == name && (theirs.section.contains(part) || request.contains(part))
            };
            if DIFFERS.iter().any(intended) {
                continue;
            }
            let bytes = [theirs.before, request].concat();
            let (mut want, mut got) = (String::new(), String::new());
            for _ in 0..TRIES {
                want = masked(&exchange(theirs.port, bytes.as_bytes()), theirs.port);
                got = masked(&exchange(ours.port, bytes.as_bytes()), ours.port);
                if want == got {
                    break;
                }
            }
            if want != got {
                let section = &theirs.section;
                wrong +=
                    &format!("{section}: {request:?}\n--- haproxy\n{want}\n--- sluice\n{got}\n");
            }
        }
    }
    (theirs.len() * requests.len(), wrong)
}

/// A listener: in which section, where, and what a client says first.
struct Front {
    section: String,
    port: u16,
    before: &'static str,
}

/// The configuration with ports of this machine, every server at the origin, and nothing that needs another user.
fn on_this_machine(text: &str, origin: u16) -> (String, Vec<Front>) {
    let (mut out, mut fronts, mut section) = (String::new(), Vec::new(), String::new());
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if !line.starts_with([' ', '\t', '#']) && !words.is_empty() {
            section = words.join(" ");
        }
        match words[..] {
            [
                "chroot" | "user" | "group" | "uid" | "gid" | "daemon" | "pidfile" | "nbthread"
                | "ulimit-n",
                ..,
            ] if section == "global" => {}
            ["log", ..] | ["stats", "socket", ..] | ["source", ..] | ["server-state-base", ..] => {}
            ["bind", addr, ..] if addr.contains('/') => {}
            ["bind", addr, ref rest @ ..] => {
                let port = free_port();
                let before = match rest.contains(&"accept-proxy") {
                    true => "PROXY TCP4 192.0.2.7 192.0.2.8 4000 80\r\n",
                    false => "",
                };
                let rest: Vec<&str> = rest.to_vec();
                let rest = match rest.iter().position(|w| *w == "interface") {
                    Some(at) => [&rest[..at], &rest[at + 2..]].concat(),
                    None => rest,
                };
                let _ = addr;
                out += &format!("    bind 127.0.0.1:{port} {}\n", rest.join(" "));
                let section = section.clone();
                fronts.push(Front {
                    section,
                    port,
                    before,
                });
            }
            ["server" | "server-template", name, _, ref rest @ ..] if words[0] == "server" => {
                out += &format!("    server {name} 127.0.0.1:{origin} {}\n", unchecked(rest));
            }
            ["default-server", ref rest @ ..] => {
                let rest = unchecked(rest);
                if !rest.is_empty() {
                    out += &format!("    default-server {rest}\n");
                }
            }
            ["dispatch", _] => out += &format!("    dispatch 127.0.0.1:{origin}\n"),
            _ => {
                out += line;
                out.push('\n');
            }
        }
    }
    (out, fronts)
}

/// Settings of a server without its checks: every server is up, on both sides and from the start.
fn unchecked(words: &[&str]) -> String {
    let mut out = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match *word {
            "check" | "agent-check" | "check-send-proxy" => {}
            // what reaches the origin is to be HTTP
            "send-proxy" | "send-proxy-v2" => {}
            "port" | "addr" | "agent-port" | "agent-addr" | "agent-inter" | "agent-send"
            | "track" | "source" | "interface" | "observe" | "on-marked-down" | "on-marked-up"
            | "on-error" => {
                words.next();
            }
            word => out.push(word),
        }
    }
    out.join(" ")
}

/// The files that a configuration names, made in the directory, and their new names in it.
fn with_files(text: &str, dir: &Path) -> String {
    let is_name = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(is_name) {
        out += &rest[..at];
        rest = &rest[at..];
        let end = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        rest = after;
        let kind = Path::new(word).extension().and_then(|e| e.to_str());
        let content = match kind {
            Some("http") => {
                "HTTP/1.1 503 Sorry\r\nContent-Type: text/plain\r\nContent-Length: 6\r\n\r\nsorry\n"
            }
            Some("lst" | "acl") => "192.0.2.66\n",
            Some("map") if word.contains("net") => "127.0.0.0/8 inside\n",
            Some("map") => "a.example web\nb.example none\n/moved http://elsewhere.example/\n",
            Some("txt") if word.contains("list") => "192.0.2.66\n",
            Some("html" | "txt" | "json") if word.contains('/') => "text\n",
            _ => {
                out += word;
                continue;
            }
        };
        let name = word.trim_start_matches('/').replace('/', "_");
        let path = dir.join(&name);
        std::fs::write(&path, content).expect("a file");
        out += path.to_str().expect("a path");
    }
    out + rest
}

/// What is asked of each frontend: the hosts and paths that the configuration speaks of, and some of everybody's.
fn requests(text: &str) -> Vec<String> {
    let mut hosts = BTreeSet::from(["other.example"]);
    let mut paths = BTreeSet::from(["/", "/other/path?x=1&v=1"]);
    for line in text.lines().filter(|l| !l.trim_start().starts_with('#')) {
        for word in line.split([' ', '"', '\'', '(', ')', ',']) {
            let plain = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
            let tld = word.rsplit('.').next().unwrap_or_default();
            if word.starts_with('/') && word.chars().all(|c| plain(c) || "/?".contains(c)) {
                paths.insert(word);
            } else if word.contains('.')
                && word.chars().all(plain)
                && matches!(tld, "com" | "org" | "net" | "example")
            {
                hosts.insert(word.trim_start_matches('.'));
            }
        }
    }
    // the statistics and other pages of our own look different on purpose
    let pages = ["stats", "metrics", "haproxy", "admin?"];
    paths.retain(|p| p.len() < 60 && !pages.iter().any(|page| p.contains(page)));
    let pairs = hosts
        .iter()
        .take(4)
        .flat_map(|h| paths.iter().take(10).map(move |p| (h, p)));
    let mut all: Vec<String> = pairs
        .map(|(host, path)| {
            format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")
        })
        .collect();
    // a page at the root answers everything
    let everywhere = text.contains("stats uri /\n");
    let host = hosts.first().expect("one");
    let close = "Connection: close\r\n";
    all.push(format!("GET /x HTTP/1.0\r\nHost: {host}\r\n\r\n"));
    if !everywhere {
        all.push(format!("HEAD / HTTP/1.1\r\nHost: {host}\r\n{close}\r\n"));
    }
    all.push(format!("POST /api/x HTTP/1.1\r\nHost: {host}\r\nContent-Length: 7\r\nContent-Type: application/x-www-form-urlencoded\r\n{close}\r\nuser=me"));
    all.push(format!(
        "OPTIONS /api HTTP/1.1\r\nHost: {host}\r\nOrigin: http://www.example.com\r\n{close}\r\n"
    ));
    all.push(format!("DELETE /a HTTP/1.1\r\nHost: {host}\r\nAuthorization: Basic am9lOnNlY3JldA==\r\nX-Version: green\r\nUser-Agent: sqlmap\r\n{close}\r\n"));
    all.push(format!("GET /img/a.png HTTP/1.1\r\nHost: www.{host}\r\nCookie: version=green; SERVERID=w1; JSESSIONID=A~x\r\nX-Forwarded-For: 192.0.2.1\r\nAccept: application/vnd.example.v1\r\n{close}\r\n"));
    all.push("GET /nohost HTTP/1.1\r\nConnection: close\r\n\r\n".into());
    // haproxy 2.6 has no page for 400 but its own
    if !text.contains("errorfile 400") {
        all.push("BAD REQUEST\r\n\r\n".into());
    }
    all
}

/// The answer without what differs from run to run: ports, dates, identifiers.
fn masked(answer: &str, port: u16) -> String {
    // statistics look different on purpose
    let titles = ["<title>Statistics Report", "<title>Sluice statistics"];
    if titles.iter().any(|title| answer.contains(title)) {
        return "statistics".into();
    }
    let answer = answer.replace(&port.to_string(), "PORT");
    let mut out = String::new();
    for line in answer.split_inclusive('\n') {
        if line.starts_with("date:") || line.starts_with("last-modified:") {
            continue;
        }
        // an identifier is a long run of digits and what parts them
        let mut rest = line;
        let part = |c: char| c.is_ascii_hexdigit() || "_:-".contains(c);
        while let Some(at) = rest.find(part) {
            let end = rest[at..].find(|c| !part(c)).map_or(rest.len(), |n| at + n);
            out += &rest[..at];
            out += if end - at >= 16 { "ID" } else { &rest[at..end] };
            rest = &rest[end..];
        }
        out += rest;
    }
    out
}
