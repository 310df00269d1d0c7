//! The runtime command line beside Debian's haproxy: the same configuration, the same commands in the same order, and
//! answers that tools which parse them cannot tell apart. Numbers that time or the machine decide are masked.
//!
//! Without `haproxy` on the machine the test says so and passes nothing.

mod support;

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use support::daemon::{Daemon, SLUICE};
use support::find;

const CONFIG: &str = "\
global
    nbthread 1
    stats socket unix@DIR/sock level admin
    setenv SLUICE_SET here
ring r
    description events
    format rfc3164
    maxlen 1200
    size 32764
defaults
    mode http
    log ring@r local0
    timeout client 2s
    timeout server 2s
    timeout connect 1s
frontend f
    bind unix@DIR/f
    acl u77 path -u 77 /u
    acl u78 src -u 78 10.0.0.0/8
    acl u79 hdr_cnt(x) -u 79 1 3:5
    acl u80 path_beg -i -u 80 /up
    http-request set-var(txn.m) path,map(tests/lists/words.map)
    http-request set-var(txn.n) path,length,map_int_int(tests/lists/numbers.map)
    default_backend b
backend b
    cookie S
    use-server s2 if { path /two }
    server s1 127.0.0.1:1 weight 7 cookie one
    server s2 127.0.0.1:2 maxconn 5 maxqueue 3
    server s3 127.0.0.1:3 backup disabled
backend fixed
    balance static-rr
    server s1 127.0.0.1:1
backend checked
    server s1 127.0.0.1:1 check inter 1h agent-check agent-port 1 agent-inter 1h
    server s2 127.0.0.1:2 track checked/s1
";

/// Commands whose answers are the same, byte for byte.
const SAME: &[&str] = &[
    "add server",
    "add server b",
    "add server nope/x 127.0.0.1:1",
    "add server fixed/x 127.0.0.1:1",
    "add server f/x 127.0.0.1:1",
    "add server b/s1 127.0.0.1:1",
    "add server b/x",
    "add server b/x 127.0.0.1:1 cookie x",
    "add server b/x 127.0.0.1:1 resolvers x",
    "add server b/x 127.0.0.1:9 weight 3 maxconn 9",
    "get weight b/x",
    "set server b/x weight 50%",
    "get weight b/x",
    "enable server b/x",
    "del server b/x",
    "set server b/x state maint",
    "del server b/x",
    "del server b/x",
    "del server b/s2",
    "set server b/s2 state maint",
    "del server b/s2",
    "set server b/s2 state ready",
    "del server",
    "set server b/s1 state drain",
    "set server b/s1 state ready",
    "set server b/s1 state wrong",
    "set server b/s1 weight 300",
    "set server b/s1 weight x",
    "set server b/s1 weight",
    "set server fixed/s1 weight 5",
    "set server b/s1 fqdn x.example",
    "set server b/s1 fqdn",
    "set server b/s1 addr 127.0.0.9",
    "set server b/s1 addr 127.0.0.9 port 99",
    "set server b/s1 addr nonsense",
    "set server b/s1 wrong",
    "set server b/s1",
    "set server b/nope state ready",
    "set server nope/s1 state ready",
    "set server nope",
    "set server",
    "set server b/s1 agent up",
    "set server b/s1 health wrong",
    "set server checked/s2 health up",
    "set server b/s1 check-port 5",
    "set server b/s1 agent-addr 127.0.0.1",
    "enable server nope",
    "enable server b/s3",
    "disable server b/s3",
    "enable health b/s1",
    "disable health b/s1",
    "enable agent b/s1",
    "disable agent b/s1",
    "disable agent checked/s1",
    "enable agent checked/s1",
    "get weight nope/x",
    "set weight b/s1 9",
    "set maxconn server b/s2 7",
    "set maxconn server b/s2",
    "set maxconn frontend f 100",
    "set maxconn frontend nope 100",
    "set maxconn global",
    "disable frontend f",
    "enable frontend f",
    "enable frontend nope",
    "shutdown sessions server b/s1",
    "shutdown session 0x1",
    "show backend",
    "show servers state nope",
    "show servers conn nope",
    "show stat nope 1 1",
    "show cli level",
    "show env SLUICE_SET",
    "show env HAPROXY_LOCALPEER",
    "show env SLUICE_NOT_SET",
    "show events",
    "show events nope",
    "show events nope -w",
    "show events buf0 -x",
    "show events buf0 -n",
    "show events stdout",
    "get acl nope",
    "get map nope",
    "get acl nope x",
    "get map nope x",
    "show acl #99",
    "show map nope",
    "get acl #77 /u",
    "get acl #77 /v",
    "get acl #78 10.1.2.3",
    "get acl #78 nope",
    "get acl #79 4",
    "get acl #80 /UPPER",
    "add acl #77 /v",
    "get acl #77 /v",
    "add acl #77",
    "add acl #78 bad",
    "del acl #77 /v",
    "del acl #77 /v",
    "del acl #77",
    "clear acl #77",
    "clear acl nope",
    "get map tests/lists/words.map /a",
    "get map tests/lists/words.map /z",
    "get map tests/lists/numbers.map 12",
    "get map tests/lists/numbers.map 99",
    "get map tests/lists/words.map",
    "add map",
    "add map tests/lists/words.map",
    "add map tests/lists/words.map /k",
    "add map tests/lists/words.map /k one two",
    "get map tests/lists/words.map /k",
    "add map tests/lists/words.map /e a\\ b",
    "get map tests/lists/words.map /e",
    "add map tests/lists/numbers.map x 1",
    "add map tests/lists/numbers.map 1 x",
    "add map nope /k v",
    "set map tests/lists/words.map /k",
    "set map tests/lists/words.map /none v",
    "set map tests/lists/words.map /k three",
    "get map tests/lists/words.map /k",
    "set map",
    "del map tests/lists/words.map /k",
    "del map tests/lists/words.map /k",
    "del map tests/lists/words.map",
    "prepare map nope",
    "prepare map tests/lists/words.map",
    "add map @9 tests/lists/words.map /k v",
    "add map @1 tests/lists/words.map /new v",
    "commit map tests/lists/words.map",
    "commit map @9 tests/lists/words.map",
    "get map tests/lists/words.map /new",
    "commit map @1 tests/lists/words.map",
    "get map tests/lists/words.map /new",
    "get map tests/lists/words.map /a",
];

/// Lists that are empty in both.
const EMPTY: &[&str] = &[
    "show cache",
    "show peers",
    "show table",
    "show ssl cert",
    "show ssl crt-list",
    "show ssl crl-file",
    "show tls-keys",
];

/// Commands whose answers have the same lines once numbers are masked.
const ALIKE: &[&str] = &[
    "show servers state",
    "show servers conn b",
    "show cli sockets",
];

/// Commands of which the names (before the colon, or the columns) come in haproxy's order; Sluice may know more.
const NAMES: &[&str] = &["show info", "show stat", "show info typed"];

#[test]
fn answers_are_haproxys() {
    let Some(haproxy) = find("haproxy") else {
        eprintln!("haproxy is not installed: the command test is skipped");
        return;
    };
    let theirs = start(&haproxy);
    let ours = start(SLUICE);
    let mut wrong = String::new();
    let mut compare = |command: &str, form: fn(&str) -> String| {
        let (want, got) = (form(&theirs.ask(command)), form(&ours.ask(command)));
        if want != got {
            wrong += &format!("{command}\n    haproxy {want:?}\n    sluice  {got:?}\n");
        }
    };
    EMPTY.iter().for_each(|c| compare(c, str::to_owned));
    SAME.iter().for_each(|c| compare(c, str::to_owned));
    ALIKE.iter().for_each(|c| compare(c, masked));
    for command in NAMES {
        let (want, got) = (names(&theirs.ask(command)), names(&ours.ask(command)));
        let mut rest = got.iter();
        if let Some(missing) = want.iter().find(|n| !rest.any(|g| g == *n)) {
            wrong += &format!("{command}: {missing} is not there, or not in its place\n");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// What the process says of itself is what the kernel and the traffic say of it.
#[test]
fn the_inside_is_shown_as_it_is() {
    let ours = start(SLUICE);
    let pid = ours.pid();
    let mut fds = String::new();
    // connections of earlier questions may be about to close
    ours.until("descriptors are missing, or there are too many", |ours| {
        fds = ours.ask("show fd");
        let shown = fds.lines().filter(|l| l.contains(" : ")).count();
        let open = std::fs::read_dir(format!("/proc/{pid}/fd"))
            .unwrap()
            .count();
        // the connection that asked and the directory that was read are gone by now
        (open..=open + 2).contains(&shown)
    });
    assert!(fds.contains("l.st=RDY fam=unix fe=GLOBAL"), "{fds}");
    assert!(
        ours.ask("show fd 0")
            .starts_with("      0 : tmask=0 target=/")
    );
    let threads = ours.ask("show threads");
    let id = threads
        .split("id=")
        .nth(1)
        .and_then(|t| t.split(' ').next());
    let task = format!("/proc/{pid}/task/{}", id.unwrap_or("none"));
    assert!(Path::new(&task).exists(), "{threads}");
    assert!(ours.ask("show libs").contains("/libc.so.6\n"));
    // every task is a listener, a session, or the worker's own
    ours.until("the listener has no task", |ours| {
        ours.ask("show tasks")
            .contains("\n  listener                          1 ")
    });
    let activity = ours.ask("show activity");
    assert!(
        activity.contains("\naccepted: ") && activity.contains("\nfd_takeover: 0 [ 0 ]\n"),
        "{activity}"
    );
    assert_eq!(ours.ask("echo a  b"), "a b\n\n");
    ours.until("no tasks are counted", |ours| {
        !ours.ask("show info").contains("\nTasks: 0\n")
    });
}

/// `wait` ends when the time is over, or sooner when its server can be deleted.
#[test]
fn waiting_ends() {
    let ours = start(SLUICE);
    let begin = Instant::now();
    assert_eq!(ours.ask("wait 300; echo then"), "Done.\n\nthen\n\n");
    assert!(begin.elapsed() >= Duration::from_millis(300));
    ours.ask("add server b/x 127.0.0.1:9");
    assert_eq!(ours.ask("wait 10s srv-removable b/x"), "Done.\n\n");
    assert!(begin.elapsed() < Duration::from_secs(9));
    ours.ask("enable server b/x");
    let answer = ours.ask("wait 10s srv-removable b/x");
    assert!(answer.contains("maintenance"), "{answer}");
    assert_eq!(
        ours.ask("wait 1s srv-removable b/none"),
        "No such server.\n\n"
    );
    assert!(ours.ask("wait -h").contains("srv-removable"));
    assert_eq!(ours.ask("wait x"), "Invalid duration.\n\n");
}

/// `show events ... -w` goes on until something is typed.
#[test]
fn events_are_followed() {
    let ours = start(SLUICE);
    let mut io = UnixStream::connect(ours.dir.join("sock")).unwrap();
    io.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    io.write_all(b"show events r -nw\n").unwrap();
    // what happens from now on is shown, what happened before is not
    let mut got = String::new();
    io.set_read_timeout(Some(Duration::from_millis(20)))
        .unwrap();
    ours.until("nothing is shown", |ours| {
        ours.ask("enable server b/s1; disable server b/s1");
        let mut chunk = [0; 1000];
        if let Ok(n) = io.read(&mut chunk) {
            assert!(n > 0, "it ended: {got}");
            got += &String::from_utf8_lossy(&chunk[..n]);
        }
        got.contains("is going DOWN for maintenance")
    });
    io.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    assert!(
        got.contains("Server b/s1 is going DOWN for maintenance"),
        "{got}"
    );
    assert!(!got.contains("checked/s1"), "{got}");
    io.write_all(b"\n").unwrap();
    let mut rest = String::new();
    io.read_to_string(&mut rest).expect("the end");
    assert!(ours.ask("show events r").contains("checked/s1"));
}

/// A command that waits for a part of Sluice says so, and what it waits for.
#[test]
fn what_is_missing_is_told() {
    let ours = start(SLUICE);
    for (command, part) in [
        ("show ssl cert x", "TLS"),
        ("set ssl cert x", "TLS"),
        ("show resolvers x", "resolvers"),
        ("show table x", "stick tables"),
        ("clear table x", "stick tables"),
        ("show peers x", "peers"),
        ("set profiling tasks on", "profiling"),
        ("dump stats-file", "statistics files"),
    ] {
        let answer = ours.ask(command);
        let told = format!("is not implemented by Sluice yet: it comes with {part}.");
        assert!(answer.contains(&told), "{command}: {answer}");
    }
}

/// Numbers, and the addresses of directories.
fn masked(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let words: Vec<String> = line
            .split(' ')
            .map(|w| match w.contains("/sock") {
                true => "SOCKET".to_owned(),
                false => w.to_owned(),
            })
            .collect();
        // the time since the last change
        let line = match words.len() {
            25 => [&words[..9], &["*".to_owned()], &words[10..]].concat(),
            _ => words,
        };
        out += &line.join(" ");
        out += "\n";
    }
    out
}

/// The columns of a CSV, or what stands before the colons.
fn names(text: &str) -> Vec<String> {
    let first = text.lines().next().unwrap_or_default();
    if let Some(columns) = first.strip_prefix("# ") {
        // behind the `-` are those of HAProxy's modules
        let all = columns.split(',').take_while(|c| *c != "-");
        return all.map(String::from).collect();
    }
    let lines = text.lines().filter_map(|l| l.split_once(':'));
    lines
        .map(|(name, _)| name.rsplit('.').nth(1).unwrap_or(name).to_owned())
        .collect()
}

/// A proxy whose first checks have failed.
fn start(program: impl AsRef<Path>) -> Daemon {
    let daemon = Daemon::started(program, Daemon::fresh_dir(), CONFIG, "f");
    let daemon = daemon.unwrap_or_else(|said| panic!("it does not start: {said}"));
    daemon.until("it does not check", |d| {
        d.ask("show stat checked 4 1").contains("L4CON")
    });
    daemon
}
