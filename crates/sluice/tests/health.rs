//! Health checks of every kind against servers of every kind, on Sluice and on Debian's haproxy: the log lines and the
//! columns of the statistics must be the same, times apart.
//!
//! Without `haproxy` on the machine the test says so and passes nothing.

mod support;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::time::{Duration, Instant};

use support::daemon::{Daemon, SLUICE};
use support::find;

/// What a server does with a connection.
#[derive(Debug, Clone, Copy)]
enum Server {
    /// Answers each line or head with the same bytes.
    Answers(&'static [u8]),
    /// Speaks first, then answers each line of its client with the next of these.
    Greets(&'static [&'static [u8]]),
    /// Closes at once.
    Closes,
    /// Accepts and says nothing.
    Silent,
    /// Nobody listens.
    Refuses,
}

use Server::{Answers, Closes, Greets, Refuses, Silent};

const OK: Server = Answers(b"HTTP/1.1 200 Fine\r\nContent-Length: 5\r\nX-A: one\r\n\r\nhello");
const NOT_FOUND: Server = Answers(b"HTTP/1.1 404 Gone Away\r\nContent-Length: 0\r\n\r\n");
const FAILS: Server = Answers(b"HTTP/1.0 500 Oops\r\n\r\n");
const JUNK: Server = Answers(b"hello there\r\n");
const MYSQL: &[u8] = b"\x4a\0\0\0\x0a5.7.30\0\x08\0\0\0abcdefgh\0\xff\xf7\x08\x02\0\xff\x81\x15\0\0\0\0\0\0\0\0\0\0abcdefghijkl\0mysql_native_password\0";
const MYSQL_OK: &[u8] = b"\x07\0\0\x02\0\0\0\x02\0\0\0";
const MYSQL_ERROR: &[u8] = b"\x16\0\0\x02\xff\x15\x04#28000Access denied";
const PGSQL_OK: &[u8] = b"R\0\0\0\x08\0\0\0\0";
const PGSQL_ERROR: &[u8] = b"E\0\0\0\x20SFATAL\0C28000\0Mno such user\0\0";
const SPOP_OK: &[u8] = b"\x00\x00\x00@e\x00\x00\x00\x01\x00\x00\x07version\x08\x032.0\x0emax-frame-size\x03\xfc\xf0\x06\x0ccapabilities\x08\x0apipelining";
const SPOP_OLD: &[u8] = b"\x00\x00\x00@e\x00\x00\x00\x01\x00\x00\x07version\x08\x031.0\x0emax-frame-size\x03\xfc\xf0\x06\x0ccapabilities\x08\x0apipelining";
const SPOP_LEAVES: &[u8] =
    b"\x00\x00\x00\"f\x00\x00\x00\x01\x00\x00\x0bstatus-code\x03\x03\x07message\x08\x03bye";
const CHUNKED: Server = Answers(
    b"HTTP/1.1 200 Fine\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n",
);
const BAD_CHUNK: Server =
    Answers(b"HTTP/1.1 200 Fine\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhello\r\n");
const EMPTY: Server = Answers(b"HTTP/1.1 200 Fine\r\nContent-Length: 0\r\n\r\n");
const MYSQL_NUL: &[u8] = b"\x09\0\0\x02\xff\x15\x04den\0ie";
const LONG_WORD: &[u8] = &{
    let mut word = [b'x'; 200];
    word[199] = b'\n';
    word
};
const LDAP_OK: &[u8] = b"\x30\x0c\x02\x01\x01\x61\x07\x0a\x01\0\x04\0\x04\0";

/// Lines of a backend, settings of its server, what listens there.
#[rustfmt::skip]
const CASES: &[(&str, &str, Server)] = &[
    ("", "check", OK),
    ("", "check", Refuses),
    ("", "check", Closes),
    ("", "check fall 1 rise 1", Refuses),
    ("", "check backup", Refuses),
    ("option httpchk", "check", OK),
    ("option httpchk", "check", NOT_FOUND),
    ("option httpchk", "check", FAILS),
    ("option httpchk", "check", JUNK),
    ("option httpchk", "check", Silent),
    ("option httpchk", "check", Refuses),
    ("option httpchk GET /x HTTP/1.1\\r\\nHost:\\ h", "check", OK),
    ("option httpchk;http-check disable-on-404", "check", NOT_FOUND),
    ("option httpchk;http-check expect status 404", "check", NOT_FOUND),
    ("option httpchk;http-check expect status 200-299", "check", NOT_FOUND),
    ("option httpchk;http-check expect ! status 200", "check", OK),
    ("option httpchk;http-check expect string hello", "check", OK),
    ("option httpchk;http-check expect string nope", "check", OK),
    ("option httpchk;http-check expect ! string hello", "check", OK),
    ("option httpchk;http-check expect rstring h.*o", "check", OK),
    ("option httpchk;http-check expect rstring ^x", "check", OK),
    ("option httpchk;http-check expect rstatus ^4", "check", OK),
    ("option httpchk;http-check expect hdr name X-A value one", "check", OK),
    ("option httpchk;http-check expect hdr name X-A value two", "check", OK),
    ("option httpchk;http-check expect fhdr name X-B", "check", OK),
    ("option httpchk;http-check expect string x on-error \"it went %[be_name] %[int(7)]\"", "check", Refuses),
    ("option httpchk;http-check connect;http-check send meth HEAD uri / ver HTTP/1.0;http-check expect status 200;http-check connect;http-check send meth GET uri /b;http-check expect string nope comment second", "check", OK),
    ("option httpchk;http-check comment asking;http-check send meth POST uri /p body abc hdr X-B 1;http-check expect status 201 comment answer", "check", OK),
    ("option httpchk;http-check expect status 200 ok-status L6OK on-success fine", "check", OK),
    ("option httpchk;http-check expect status 404 error-status L7RSP on-error bad", "check", OK),
    ("option httpchk;http-check expect min-recv 1000 string hello", "check", OK),
    ("option httpchk;http-check expect string hello", "check", CHUNKED),
    ("option httpchk;http-check expect ! string he", "check", CHUNKED),
    ("option httpchk;http-check expect string hello", "check", BAD_CHUNK),
    ("option httpchk;http-check send meth HEAD uri / ver HTTP/1.0;http-check expect string hello", "check", OK),
    ("option httpchk;http-check expect ! string hello comment none", "check", EMPTY),
    ("option httpchk;http-check expect string x comment first", "check", JUNK),
    ("option httpchk;http-check expect string x on-error \"it said %[status]\" comment first", "check", JUNK),
    ("option httpchk;http-check expect string x on-error \"it said %[status]\"", "check", EMPTY),
    ("option httpchk;http-check expect status 404 on-error \"it said %[status]\" comment first", "check", OK),
    ("option tcp-check;tcp-check connect", "check", OK),
    ("option tcp-check;tcp-check connect;tcp-check send PING\\r\\n;tcp-check expect string +PONG", "check", Answers(b"+PONG\r\n")),
    ("option tcp-check;tcp-check connect;tcp-check send PING\\r\\n;tcp-check expect string +PONG", "check", JUNK),
    ("option tcp-check;tcp-check connect comment way-in;tcp-check send PING\\r\\n comment ask;tcp-check expect string +PONG comment pong", "check", JUNK),
    ("option tcp-check;tcp-check comment all;tcp-check connect;tcp-check send PING\\r\\n;tcp-check expect rstring ^P comment pong", "check", JUNK),
    ("option tcp-check;tcp-check expect string 220", "check", Greets(&[b"220 hi\r\n"])),
    ("option tcp-check;tcp-check expect string 220", "check", Closes),
    ("option tcp-check;tcp-check expect string 220", "check", Silent),
    ("option tcp-check;tcp-check expect ! string 220", "check", Greets(&[b"220 hi\r\n"])),
    ("option tcp-check;tcp-check expect binary 323230", "check", Greets(&[b"220 hi\r\n"])),
    ("option tcp-check;tcp-check expect rbinary ^3232", "check", Greets(&[b"220 hi\r\n"])),
    ("option tcp-check;tcp-check expect binary 616263 comment abc", "check", Greets(&[b"220 hi\r\n"])),
    ("option tcp-check;tcp-check connect linger;tcp-check send-binary 50494e47;tcp-check send \\r\\n;tcp-check expect string PONG", "check", Answers(b"PONG")),
    ("option tcp-check;tcp-check connect port 1", "check", OK),
    ("option tcp-check;tcp-check connect;tcp-check connect port 1 comment second", "check", OK),
    ("option tcp-check;tcp-check connect;tcp-check send a\\n;tcp-check expect string a;tcp-check send b\\n;tcp-check expect string c", "check", Greets(&[b"", b"a", b"b"])),
    ("option tcp-check;tcp-check send a\\n;tcp-check expect string never error-status L7STS on-error said:\\ %[res.payload(0,3)]", "check", JUNK),
    ("option redis-check", "check", Answers(b"+PONG\r\n")),
    ("option redis-check", "check", Answers(b"-ERR what\r\n")),
    ("option smtpchk", "check", Greets(&[b"220 mail ESMTP\r\n", b"250 ok\r\n", b"221 bye\r\n"])),
    ("option smtpchk EHLO me", "check", Greets(&[b"220 mail ESMTP\r\n", b"550 no\r\n", b"221 bye\r\n"])),
    ("option smtpchk", "check", Greets(&[b"421 busy\r\n"])),
    ("option smtpchk", "check", Greets(&[b"hello\r\n"])),
    ("option mysql-check", "check", Greets(&[MYSQL])),
    ("option mysql-check user haproxy", "check", Greets(&[MYSQL, MYSQL_OK])),
    ("option mysql-check user haproxy", "check", Greets(&[MYSQL, MYSQL_ERROR])),
    ("option mysql-check user haproxy post-41", "check", Greets(&[MYSQL_ERROR])),
    ("option mysql-check", "check", JUNK),
    ("option pgsql-check user me", "check", Answers(PGSQL_OK)),
    ("option pgsql-check user me", "check", Answers(PGSQL_ERROR)),
    ("option pgsql-check user me", "check", JUNK),
    ("option ldap-check", "check", Answers(LDAP_OK)),
    ("option ldap-check", "check", JUNK),
    ("option ssl-hello-chk", "check", Answers(b"\x16\x03\x01\0\x02\x02\0")),
    ("option ssl-hello-chk", "check", Answers(b"\x15\x03\x01\0\x02\x02\x28")),
    ("option ssl-hello-chk", "check", JUNK),
    ("option mysql-check user haproxy", "check", Greets(&[MYSQL, MYSQL_NUL])),
    ("option spop-check", "check", Answers(SPOP_OK)),
    ("option spop-check", "check", Answers(SPOP_OLD)),
    ("option spop-check", "check", Answers(SPOP_LEAVES)),
    ("option spop-check", "check", JUNK),
    ("", "track b0/s0", OK),
    ("", "track b1/s0", OK),
    ("", "check port 1", OK),
    ("", "check addr 127.0.0.1 port 1", OK),
    ("", "agent-check agent-inter 100ms agent-port PORT", Greets(&[b"up\n"])),
    ("", "check agent-check agent-inter 100ms agent-port PORT", Greets(&[b"ready\n"])),
    ("", "check agent-check agent-inter 100ms agent-port PORT", Greets(&[b"50%\n"])),
    ("", "check agent-check agent-inter 100ms agent-port PORT", Greets(&[b"down #out for lunch\n"])),
    ("", "check agent-check agent-inter 100ms agent-port PORT", Greets(&[b"what is this\n"])),
    ("", "check agent-check agent-inter 100ms agent-addr 127.0.0.1 agent-port PORT agent-send hello\\n", Greets(&[b"fail\n"])),
    ("", "check agent-check agent-inter 100ms agent-port PORT", Greets(&[b"down for good\n"])),
    ("", "check agent-check agent-inter 100ms agent-port PORT", Greets(&[b"what fail 200% maxconn:4 # tired\n"])),
    ("", "check agent-check agent-inter 100ms agent-port PORT", Greets(&[b"50%x\n"])),
    ("", "check agent-check agent-inter 100ms agent-port PORT", Greets(&[b"maxconn:x\n"])),
    ("", "check agent-check agent-inter 100ms agent-port PORT", Greets(&[b"drain up\n"])),
    ("", "check minconn 3 agent-check agent-inter 100ms agent-port PORT", Greets(&[b"fail"])),
    ("", "agent-check agent-inter 100ms agent-port PORT", Greets(&[LONG_WORD])),
    ("", "check agent-check agent-port 1 agent-inter 100ms", OK),
];

const HEAD: &str = "\
global
    stats socket unix@DIR/sock level admin
    log 127.0.0.1:LOG local0
defaults
    mode http
    log global
    option log-health-checks
    timeout client 2s
    timeout server 2s
    timeout connect 1s
    timeout check 400ms
    default-server inter 300ms rise 2 fall 3
";

/// How long the checks run: enough for each server to come to rest.
const RUN: Duration = Duration::from_millis(2200);

#[test]
fn checks_say_what_haproxys_say() {
    let Some(haproxy) = find("haproxy") else {
        eprintln!("haproxy is not installed: the health test is skipped");
        return;
    };
    let sluice = Path::new(SLUICE);
    let ports: Vec<u16> = CASES.iter().map(|c| start(c.2)).collect();
    // on a busy machine a check may take too long: each case has to agree in one of some plays
    let mut wrong = BTreeMap::new();
    for play in 0..PLAYS {
        let (theirs, ours) = std::thread::scope(|scope| {
            let theirs = scope.spawn(|| watch(&haproxy, &ports));
            (theirs.join(), watch(sluice, &ports))
        });
        let differ = differences(&theirs.expect("haproxy runs"), &ours);
        wrong = match play {
            0 => differ,
            _ => differ
                .into_iter()
                .filter(|(k, _)| wrong.contains_key(k))
                .collect(),
        };
        if wrong.is_empty() {
            return;
        }
    }
    let told: Vec<String> = wrong.into_values().collect();
    panic!(
        "{} of {} cases differ\n\n{}",
        told.len(),
        CASES.len(),
        told.join("\n")
    );
}

const PLAYS: usize = 4;

/// The cases that are not the same, each in words.
fn differences(
    theirs: &BTreeMap<String, String>,
    ours: &BTreeMap<String, String>,
) -> BTreeMap<usize, String> {
    let mut wrong = BTreeMap::new();
    for (k, (lines, settings, server)) in CASES.iter().enumerate() {
        let name = format!("b{k}");
        let (want, got) = (&theirs[&name], &ours[&name]);
        // two kinds of checks begin in any order
        let lines_of = |text: &str| {
            let mut all: Vec<String> = text.lines().map(String::from).collect();
            if settings.contains("agent") {
                all.sort();
            }
            all
        };
        if lines_of(want) == lines_of(got) {
            continue;
        }
        let lines = lines.replace(';', "\n    ");
        let server = match server {
            Answers(bytes) => format!("answers {}", bytes.escape_ascii()),
            Greets(answers) => format!("greets {}", answers.concat().escape_ascii()),
            other => format!("{other:?}"),
        };
        let only = |all: &str, other: &str| -> String {
            let count = |text: &str, line: &str| text.lines().filter(|l| *l == line).count();
            let lines = all.lines().filter(|l| count(all, l) > count(other, l));
            lines.map(|l| format!("        {l}\n")).collect()
        };
        let text = format!(
            "{name}: {lines}\n    server s0 {settings} ({server})\n--- haproxy\n{}--- sluice\n{}",
            only(want, got),
            only(got, want)
        );
        wrong.insert(k, text);
    }
    wrong
}

/// Runs a proxy for a while: by backend its log lines and the columns of its server.
fn watch(program: &Path, ports: &[u16]) -> BTreeMap<String, String> {
    let name = program.file_name().unwrap().to_str().unwrap();
    let log = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut text = HEAD.replace("LOG", &log.local_addr().unwrap().port().to_string());
    for (k, (lines, settings, _)) in CASES.iter().enumerate() {
        text += &format!("backend b{k}\n");
        for line in lines.split(';').filter(|l| !l.is_empty()) {
            text += &format!("    {line}\n");
        }
        text += &format!("    server s0 127.0.0.1:{} {settings}\n", ports[k])
            .replace("PORT", &ports[k].to_string());
    }
    let mut daemon = Daemon::run(program, Daemon::fresh_dir(), &text);
    let mut found: BTreeMap<String, String> = BTreeMap::new();
    let until = Instant::now() + RUN;
    let mut datagram = [0; 8192];
    while let Some(left) = until.checked_duration_since(Instant::now()) {
        let _ = log.set_read_timeout(Some(left.max(Duration::from_millis(1))));
        let Ok(n) = log.recv(&mut datagram) else {
            continue;
        };
        let line = String::from_utf8_lossy(&datagram[..n]).into_owned();
        // <priority>date tag[pid]: text
        let Some((_, text)) = line.split_once("]: ") else {
            continue;
        };
        let Some(backend) = backend_of(text) else {
            continue;
        };
        let priority = line.split('>').next().unwrap_or("");
        *found.entry(backend).or_default() +=
            &format!("{priority}> {}\n", without_times(text.trim_end()));
    }
    assert!(!daemon.has_ended(), "{name} ended: {}", daemon.said());
    let state = daemon.ask("show servers state");
    // while a check runs, the columns say less: each server's row is taken from a moment when none does
    let (mut head, mut at_rest) = (String::new(), BTreeMap::new());
    let until = Instant::now() + RUN;
    while at_rest.len() < CASES.len() && Instant::now() < until {
        let stat = daemon.ask("show stat -1 4 -1");
        let mut rows = stat.lines().filter(|r| !r.is_empty());
        head = rows.next().unwrap_or_default().to_owned();
        for row in rows.filter(|r| !r.contains(",* ")) {
            at_rest
                .entry(fields(row).swap_remove(0))
                .or_insert(row.to_owned());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let columns: Vec<&str> = head.trim_start_matches("# ").split(',').collect();
    for row in at_rest.values() {
        let values = fields(row);
        let told = found.entry(values[0].clone()).or_default();
        for (column, value) in columns.iter().zip(&values) {
            // haproxy forgets with the second check what such a server said of itself
            let forgotten = *column == "last_chk" && row.contains(",L7OK,0,");
            if COLUMNS.contains(column) && !forgotten {
                *told += &format!("{column}={value}\n");
            }
        }
    }
    for row in state.lines().filter(|r| r.contains(" s0 ")) {
        let mut values: Vec<&str> = row.split(' ').collect();
        // the time since the last change, what changes while a check runs, the port
        values[9] = "*";
        values[11] = "*";
        values[13] = "*";
        values[14] = "*";
        values[18] = "*";
        *found.entry(values[1].to_owned()).or_default() += &format!("{}\n", values.join(" "));
    }
    found
}

const COLUMNS: [&str; 24] = [
    "status",
    "weight",
    "act",
    "bck",
    "chkfail",
    "chkdown",
    "tracked",
    "check_status",
    "check_code",
    "last_chk",
    "check_desc",
    "check_rise",
    "check_fall",
    "check_health",
    "agent_status",
    "agent_code",
    "last_agt",
    "agent_desc",
    "agent_rise",
    "agent_fall",
    "agent_health",
    "hanafail",
    "throttle",
    "uweight",
];

/// The backend that a line is about: the word before `/s0`, or the one before ` has no server`.
fn backend_of(text: &str) -> Option<String> {
    let before = text
        .split_once("/s0")
        .or(text.split_once(" has no server"))?
        .0;
    Some(before.rsplit(' ').next()?.to_owned())
}

/// Durations are what they are.
fn without_times(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("duration: ") {
        out += before;
        out += "duration: *";
        rest = after.trim_start_matches(|c: char| c.is_ascii_digit());
    }
    out + rest
}

/// A row of the CSV.
fn fields(row: &str) -> Vec<String> {
    let mut out = vec![String::new()];
    let mut quoted = false;
    for c in row.chars() {
        match c {
            '"' => quoted = !quoted,
            ',' if !quoted => out.push(String::new()),
            c => out.last_mut().unwrap().push(c),
        }
    }
    out
}

fn start(server: Server) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    if let Refuses = server {
        // nobody has that one
        return 1;
    }
    std::thread::spawn(move || {
        for io in listener.incoming().flatten() {
            std::thread::spawn(move || serve(io, server));
        }
    });
    port
}

fn serve(mut io: TcpStream, server: Server) -> Option<()> {
    let _ = io.set_nodelay(true);
    let mut bytes = [0; 4096];
    match server {
        Closes | Refuses => None,
        Silent => loop {
            if io.read(&mut bytes).ok()? == 0 {
                return None;
            }
        },
        Answers(answer) => {
            io.read(&mut bytes).ok().filter(|n| *n > 0)?;
            io.write_all(answer).ok()?;
            if answer.starts_with(b"HTTP") {
                return None;
            }
            while io.read(&mut bytes).ok()? > 0 {}
            None
        }
        Greets(answers) => {
            for answer in answers {
                io.write_all(answer).ok()?;
                io.read(&mut bytes).ok().filter(|n| *n > 0)?;
            }
            None
        }
    }
}
