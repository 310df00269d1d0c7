//! Test support: tables of `(expression, what HAProxy answers)`.
//!
//! The answers in the tables were given by HAProxy 2.6 where it knows the converter. `HAPROXY=/usr/sbin/haproxy cargo
//! test -p sluice-expr conv::` asks it again: each table becomes one configuration with a rule a line, and the binary's
//! answers must be those of the table too. With the path of `sluice` it asks the whole proxy the same.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::acl::AclTable;
use crate::compile::{Expr, Loader, ParseCtx};
use crate::conv::Run;
use crate::env::{Dir, Env, Now};
use crate::pattern::Store;
use crate::place::Place;
use crate::value::{Absent, Fetched, Sample, Type, Value};
use crate::vars::VarRef;

/// A line of a table: the expression, and its value as text (`None`: no value). `hdr` at the beginning of an expression
/// stands for the request header `x`, whose content is the table's input.
pub type Case<'a> = (&'a str, Option<&'a str>);

/// A case in its general form: the header, the expression, the answer.
type HeaderCase<'a> = (&'a [u8], &'a str, Option<&'a [u8]>);
type OwnedCase<'a> = (Vec<u8>, &'a str, Option<Vec<u8>>);

fn owned<'a>(cases: &[HeaderCase<'a>]) -> Vec<OwnedCase<'a>> {
    let case = |(input, chain, expect): &HeaderCase<'a>| {
        (input.to_vec(), *chain, expect.map(<[u8]>::to_vec))
    };
    cases.iter().map(case).collect()
}

fn without_header<'a>(cases: &[Case<'a>]) -> Vec<OwnedCase<'a>> {
    let case =
        |(expr, expect): &Case<'a>| (Vec::new(), *expr, expect.map(|e| e.as_bytes().to_vec()));
    cases.iter().map(case).collect()
}

/// Expressions whose answers HAProxy 2.6 gives too.
pub fn check_all(cases: &[Case<'_>]) {
    check_cases(&without_header(cases), true);
}

/// Chains on one header's content: `(input, chain, answer)`; HAProxy 2.6 agrees.
pub fn check_header(cases: &[HeaderCase<'_>]) {
    check_cases(&owned(cases), true);
}

/// Chains on one header's content that 2.6 does not answer so.
pub fn check_header_new(cases: &[HeaderCase<'_>]) {
    check_cases(&owned(cases), false);
}

/// Expressions with converters or details that 2.6 does not have.
pub fn check_new(cases: &[Case<'_>]) {
    check_cases(&without_header(cases), false);
}

/// Expressions whose arguments are refused; the word must be in the message.
pub fn check_refused(cases: &[(&str, &str)]) {
    for (expr, word) in cases {
        let world = World::new(b"");
        match world.run(expr) {
            Err(message) => assert!(message.contains(word), "{expr}: {message:?} lacks {word:?}"),
            Ok(value) => panic!("{expr} was taken and gave {value:?}"),
        }
    }
    if let Some(haproxy) = haproxy() {
        let exprs: Vec<&str> = cases.iter().map(|(expr, _)| *expr).collect();
        let taken = haproxy.takes(&exprs);
        assert!(taken.is_empty(), "haproxy takes {taken:?}");
    }
}

fn check_cases(cases: &[OwnedCase<'_>], known_to_haproxy: bool) {
    let mut wrong = String::new();
    for (input, expr, expect) in cases {
        let world = World::new(input);
        let got = world.run(expr).unwrap_or_else(|e| panic!("{expr}: {e}"));
        if &got != expect {
            wrong += &format!(
                "{expr}: sluice gives {}, not {}\n",
                show(&got),
                show(expect)
            );
        }
    }
    if let Some(haproxy) = haproxy().filter(|_| known_to_haproxy) {
        for ((_, expr, expect), got) in cases.iter().zip(haproxy.ask(cases)) {
            if &got != expect {
                wrong += &format!(
                    "{expr}: haproxy gives {}, not {}\n",
                    show(&got),
                    show(expect)
                );
            }
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

fn show(value: &Option<Vec<u8>>) -> String {
    match value {
        None => "nothing".into(),
        Some(v) => format!("\"{}\"", v.escape_ascii()),
    }
}

/// Where the tests' expressions stand: an `http-request` rule.
pub fn ctx<'a>(store: &'a Store, acls: Option<&'a AclTable>) -> ParseCtx<'a> {
    ParseCtx {
        place: Place::FE_HTTP_REQ,
        loader: &Files,
        store,
        file: "test",
        line: 1,
        http: true,
        acls,
    }
}

/// Compiles an expression.
pub fn compile(text: &str, acls: Option<&AclTable>) -> Result<Expr, String> {
    let store = Store::new();
    Expr::parse(text, &ctx(&store, acls)).map_err(|e| e.to_string())
}

/// The little world of a test: one header, variables, captures, files.
pub struct World {
    header: Vec<u8>,
    vars: RefCell<HashMap<VarRef, Value<'static>>>,
    pub captured: RefCell<Vec<(Dir, usize, Vec<u8>)>>,
    pub sink: RefCell<Vec<u8>>,
    pub now: Now,
}

/// Certificates and keys of the tests, by path.
struct Files;

impl Loader for Files {
    fn load(&self, path: &str) -> Result<Vec<u8>, String> {
        std::fs::read(path).map_err(|e| format!("{path}: {e}"))
    }
}

impl Env for World {
    fn now(&self) -> Now {
        self.now
    }
    fn random(&self) -> u64 {
        4
    }
    fn var(&self, var: &VarRef) -> Option<Value<'_>> {
        self.vars.borrow().get(var).cloned()
    }
    fn set_var(&self, var: &VarRef, value: Option<Value<'static>>) -> bool {
        match value {
            Some(value) => self.vars.borrow_mut().insert(var.clone(), value),
            None => self.vars.borrow_mut().remove(var),
        };
        true
    }
    fn capture(&self, dir: Dir, slot: usize, value: &[u8]) -> bool {
        self.captured.borrow_mut().push((dir, slot, value.to_vec()));
        true
    }
    fn debug_event(&self, sink: &[u8], line: &[u8]) {
        let mut all = self.sink.borrow_mut();
        all.extend_from_slice(sink);
        all.push(b'|');
        all.extend_from_slice(line);
    }
}

impl World {
    pub fn new(header: &[u8]) -> World {
        let world = World {
            header: header.to_vec(),
            vars: RefCell::default(),
            captured: RefCell::default(),
            sink: RefCell::default(),
            now: Now {
                wall_us: 1_700_000_000_123_456,
                mono_us: 1,
            },
        };
        for (name, value) in [
            ("txn.int", Value::Sint(12)),
            ("txn.str", Value::Str(b"text"[..].into())),
            ("txn.num", Value::Str(b"34"[..].into())),
            ("txn.bin", Value::Bin(b"\x01\xfe"[..].into())),
            ("txn.ip", Value::Ipv4([192, 0, 2, 1].into())),
            ("txn.empty", Value::Str(b""[..].into())),
            ("txn.yes", Value::Bool(true)),
        ] {
            let var = VarRef::parse(name).expect("a good name");
            world.set_var(&var, Some(value));
        }
        world
    }

    /// The bytes of an expression's string or binary value, or the text of any other, or why it cannot be compiled.
    pub fn run(&self, expr: &str) -> Result<Option<Vec<u8>>, String> {
        let text = match expr.strip_prefix("hdr") {
            Some(chain) => format!("str(){chain}"),
            None => expr.to_string(),
        };
        let compiled = compile(&text, None)?;
        let sample = match expr.strip_prefix("hdr") {
            Some(_) => self.run_steps(&compiled),
            None => compiled.eval(self),
        };
        let Ok(sample) = sample else {
            return Ok(None);
        };
        let out_fits = match compiled.out {
            Type::Any | Type::Same => true,
            Type::Addr => matches!(sample.value.type_of(), Type::Ipv4 | Type::Ipv6),
            // A string taken as bytes may stay the string it was, and `protobuf` gives integers.
            Type::Bin => matches!(sample.value.type_of(), Type::Bin | Type::Str | Type::Sint),
            out => out == sample.value.type_of(),
        };
        assert!(
            out_fits,
            "{expr}: {:?} is not {:?}",
            sample.value, compiled.out
        );
        Ok(match sample.value {
            Value::Str(s) | Value::Bin(s) => Some(s.into_owned()),
            other => other
                .cast(Type::Str)
                .and_then(|v| v.bytes().map(<[u8]>::to_vec)),
        })
    }

    /// The chain of an expression on the header instead of its fetch.
    fn run_steps<'a>(&'a self, compiled: &'a Expr) -> Fetched<'a> {
        let mut sample = Sample::str(&self.header);
        for step in compiled.steps.iter() {
            let Run::Fn(run) = step.def.run else {
                return Err(Absent::Never);
            };
            if let Some(to) = step.cast {
                sample.value = sample.value.cast(to).ok_or(Absent::Never)?;
            }
            sample = run(&step.args, sample, self)?;
        }
        Ok(sample)
    }
}

/// Text that a number or an address prints as.
fn looks_scalar(text: &[u8]) -> bool {
    !text.is_empty()
        && text
            .iter()
            .all(|c| c.is_ascii_hexdigit() || b"-.:".contains(c))
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len() / 2)
        .map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).expect("hex"))
        .collect()
}

/// A HAProxy binary to compare with.
struct Haproxy(String);

fn haproxy() -> Option<Haproxy> {
    std::env::var("HAPROXY")
        .ok()
        .filter(|path| !path.is_empty())
        .map(Haproxy)
}

fn in_quotes(expr: &str) -> String {
    let expr = match expr.strip_prefix("hdr") {
        Some(rest) => format!("req.fhdr(x){rest}"),
        None => expr.to_string(),
    };
    format!("'{}'", expr.replace('\'', r"'\''"))
}

impl Haproxy {
    fn config(&self, socket: &str, rules: &str) -> String {
        format!(
            "global\n  stats timeout 5s\n\
             defaults\n  mode http\n  timeout client 5s\n  timeout connect 5s\n  timeout server 5s\n\
             frontend f\n  bind unix@{socket}\n\
             \x20 http-request set-var(txn.int) int(12)\n  http-request set-var(txn.str) str(text)\n\
             \x20 http-request set-var(txn.num) str(34)\n  http-request set-var(txn.bin) bin(01fe)\n\
             \x20 http-request set-var(txn.ip) ipv4(192.0.2.1)\n  http-request set-var(txn.empty) str()\n\
             \x20 http-request set-var(txn.yes) bool(true)\n{rules}"
        )
    }

    fn start(&self, what: &str, rules: &str) -> Running {
        static SERIAL: AtomicU32 = AtomicU32::new(0);
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let base =
            std::env::temp_dir().join(format!("sluice-conv-{}-{serial}", std::process::id()));
        let base = base.display().to_string();
        let (socket, file) = (format!("{base}.sock"), format!("{base}.cfg"));
        std::fs::write(&file, self.config(&socket, rules)).expect("write configuration");
        let child = Command::new(&self.0)
            .args([what, "-f", &file])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("start haproxy");
        Running {
            child,
            socket,
            file,
        }
    }

    /// The expressions it has nothing against: it reports the line of each that is wrong (in ACLs; a wrong rule would end
    /// the parsing).
    fn takes<'e>(&self, exprs: &[&'e str]) -> Vec<&'e str> {
        let rule = |expr: &&str| format!("  acl a {} -m found\n", in_quotes(expr));
        let rules: String = exprs.iter().map(rule).collect();
        let first_line = self.config("", "").lines().count() + 1;
        let mut running = self.start("-c", &rules);
        let mut said = Vec::new();
        if let Some(err) = running.child.stderr.as_mut() {
            err.read_to_end(&mut said).expect("what haproxy says");
        }
        let said = String::from_utf8_lossy(&said);
        let accused = |at: usize| said.contains(&format!(".cfg:{}]", first_line + at));
        exprs
            .iter()
            .enumerate()
            .filter(|(at, _)| !accused(*at))
            .map(|(_, e)| *e)
            .collect()
    }

    fn ask(&self, cases: &[OwnedCase<'_>]) -> Vec<Option<Vec<u8>>> {
        let mut rules = String::new();
        for (i, (_, expr, _)) in cases.iter().enumerate() {
            rules += &format!(
                "  http-request set-var(txn.r) {} if {{ path /{i} }}\n",
                in_quotes(expr)
            );
        }
        // The output side escapes control characters and cuts binary at a NUL, so the bytes travel as hexadecimal; for
        // numbers and addresses that is not their text, which comes second.
        rules += "  http-request return status 200 content-type text/plain lf-string \"%[var(txn.r),hex]|%[var(txn.r)]\" if { var(txn.r) -m found }\n";
        rules += "  http-request return status 404 content-type text/plain string none\n";
        let mut running = self.start("-db", &rules);
        let mut conn = running.connect();
        let ask = |(i, (input, expr, expect)): (usize, &OwnedCase<'_>)| {
            let mut request = format!("GET /{i} HTTP/1.1\r\nhost: x\r\n").into_bytes();
            if expr.starts_with("hdr") {
                request.extend_from_slice(b"x: ");
                request.extend_from_slice(input);
                request.extend_from_slice(b"\r\n");
            }
            request.extend_from_slice(b"\r\n");
            conn.write_all(&request).expect("send");
            let (body, closes) = read_answer(&mut conn);
            if closes {
                conn = running.connect();
            }
            let body = body?;
            let bar = memchr::memchr(b'|', &body).expect("two forms");
            let bytes = unhex(std::str::from_utf8(&body[..bar]).expect("hex"));
            let text = body[bar + 1..].to_vec();
            // Our own value says which of the two is the answer.
            let same = expect.as_deref() == Some(bytes.as_slice());
            Some(if same || !looks_scalar(&text) {
                bytes
            } else {
                text
            })
        };
        cases.iter().enumerate().map(ask).collect()
    }
}

/// A HAProxy that ends, and whose files go, with the test, however that ends.
struct Running {
    child: Child,
    socket: String,
    file: String,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.socket);
        let _ = std::fs::remove_file(&self.file);
    }
}

impl Running {
    /// Waits for HAProxy to listen; its own words are the panic when it ends instead.
    fn connect(&mut self) -> UnixStream {
        loop {
            if let Ok(conn) = UnixStream::connect(&self.socket) {
                return conn;
            }
            if let Ok(Some(status)) = self.child.try_wait() {
                let mut said = String::new();
                if let Some(err) = self.child.stderr.as_mut() {
                    let _ = err.read_to_string(&mut said);
                }
                panic!("haproxy ended with {status}: {said}");
            }
            std::thread::yield_now();
        }
    }
}

/// The body of the answer with status 200, `None` for another status; and whether the connection ends with it.
fn read_answer(conn: &mut UnixStream) -> (Option<Vec<u8>>, bool) {
    let mut answer = Vec::new();
    let mut more = |answer: &mut Vec<u8>| {
        let mut buffer = [0; 4096];
        let len = conn.read(&mut buffer).expect("an answer");
        assert!(
            len > 0,
            "haproxy closed after {:?}",
            answer.escape_ascii().to_string()
        );
        answer.extend_from_slice(&buffer[..len]);
    };
    let head = loop {
        if let Some(end) = memchr::memmem::find(&answer, b"\r\n\r\n") {
            break end + 4;
        }
        more(&mut answer);
    };
    let text = String::from_utf8_lossy(&answer[..head]).to_lowercase();
    let len = text
        .split("content-length:")
        .nth(1)
        .and_then(|l| l.lines().next());
    let len: usize = len.and_then(|l| l.trim().parse().ok()).expect("a length");
    while answer.len() < head + len {
        more(&mut answer);
    }
    let body = text
        .starts_with("http/1.1 200")
        .then(|| answer[head..head + len].to_vec());
    (body, text.contains("connection: close"))
}
