//! Test support: a world for expressions, built from the bytes of a request and a response and from plain records.
//!
//! What HAProxy answers to the expressions of this crate's tables was recorded from Debian's haproxy 2.6 (and, for
//! what only 3.x knows, taken from its documentation).

pub mod conv_oracle;
pub mod oracle;
pub mod rule_oracle;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use sluice_http::{HeadScan, Limits, Method, Parsed, Request, Response};

use crate::compile::{Expr, Loader, ParseCtx};
use crate::env::{
    Addr, ConnInfo, Content, Dir, Env, Gauge, NameOf, Now, ProxyId, Side, StreamInfo, TcpInfo,
};
use crate::error::ExprError;
use crate::pattern::Store;
use crate::place::Place;
use crate::value::{Fetched, Value};
use crate::vars::{Scope, VarRef};

/// An environment whose every part can be set by hand. Start from [`TestEnv::new`], [`TestEnv::request`] or
/// [`TestEnv::response`].
#[derive(Default)]
pub struct TestEnv {
    pub now: Now,
    /// What `random` gives, over and over, each time one more.
    pub random: Cell<u64>,
    pub gauges: Vec<(Gauge, i64)>,
    pub names: Vec<(NameOf, String)>,
    /// User, password and groups of the one userlist, number 0.
    pub users: Vec<(String, String, Vec<String>)>,
    pub stream: Option<StreamInfo>,
    pub client: Option<ConnInfo>,
    pub server: Option<ConnInfo>,
    pub client_tcp: Option<TcpInfo>,
    pub server_tcp: Option<TcpInfo>,
    pub request: Option<Request>,
    pub response: Option<Response>,
    /// More of the request may come.
    pub request_pending: bool,
    /// Raw bytes of the channels, and whether they are all.
    pub req_content: Option<(Vec<u8>, bool)>,
    pub res_content: Option<(Vec<u8>, bool)>,
    pub req_body: Option<(Vec<u8>, bool)>,
    pub res_body: Option<(Vec<u8>, bool)>,
    /// The inspection delay is still running.
    pub inspecting: bool,
    pub vars: RefCell<HashMap<VarRef, Value<'static>>>,
    pub captured: RefCell<Vec<(Dir, usize, Vec<u8>)>>,
}

/// Files by path, for pattern files and maps.
pub struct NoFiles;

impl Loader for NoFiles {
    fn load(&self, path: &str) -> Result<Vec<u8>, String> {
        Err(format!("there is no file '{path}' in this test"))
    }
    fn env(&self, name: &str) -> Option<String> {
        (name == "GREETING").then(|| "hello".into())
    }
}

impl TestEnv {
    /// A stream of frontend 0 and backend 1, from 192.0.2.1:1111 to 198.51.100.2:80, and nothing read yet.
    pub fn new() -> TestEnv {
        let addr = |text: &str| Addr::Ip(text.parse().expect("an address"));
        let client = ConnInfo {
            src: addr("192.0.2.1:1111"),
            dst: addr("198.51.100.2:80"),
            real_src: addr("192.0.2.1:1111"),
            real_dst: addr("198.51.100.2:80"),
            http_major: 1,
            ..ConnInfo::default()
        };
        let mut stream = StreamInfo::new(ProxyId(0));
        stream.backend = ProxyId(1);
        TestEnv {
            now: Now {
                wall_us: 1_700_000_000_123_456,
                mono_us: 5_000_000,
            },
            client: Some(client),
            stream: Some(stream),
            ..TestEnv::default()
        }
    }

    /// The same with a request, head and body as bytes. Panics when it does not parse.
    pub fn request(raw: impl AsRef<[u8]>) -> TestEnv {
        TestEnv::try_request(raw).unwrap_or_else(|why| panic!("a request that parses: {why}"))
    }

    /// The same for bytes that may be no request.
    pub fn try_request(raw: impl AsRef<[u8]>) -> Result<TestEnv, String> {
        let raw = raw.as_ref();
        let mut env = TestEnv::new();
        let mut request = Request::new();
        let mut scan = HeadScan::new();
        let parsed = sluice_http::parse_request(raw, &mut scan, &Limits::default(), &mut request);
        let Ok(Parsed::Complete { consumed }) = parsed else {
            return Err(format!("{parsed:?}"));
        };
        let line = raw.split(|&b| b == b'\r').next().unwrap_or_default();
        if let Some(stream) = &mut env.stream {
            stream.first_line = line.to_vec();
        }
        env.req_body = Some((raw[consumed..].to_vec(), true));
        env.request = Some(request);
        Ok(env)
    }

    /// The same with a response to a `GET /`.
    pub fn response(raw: impl AsRef<[u8]>) -> TestEnv {
        let raw = raw.as_ref();
        let mut env = TestEnv::request("GET / HTTP/1.1\r\nHost: test\r\n\r\n");
        let mut response = Response::new();
        let mut scan = HeadScan::new();
        let limits = Limits::default();
        let parsed =
            sluice_http::parse_response(raw, &mut scan, &limits, Method::Get, &mut response);
        let Ok(Parsed::Complete { consumed }) = parsed else {
            panic!("a response that parses: {parsed:?}");
        };
        env.res_body = Some((raw[consumed..].to_vec(), true));
        env.response = Some(response);
        env
    }

    /// A TCP stream with these bytes waiting from the client; `is_final` says that they are all.
    pub fn bytes(raw: impl AsRef<[u8]>, is_final: bool) -> TestEnv {
        let mut env = TestEnv::new();
        env.req_content = Some((raw.as_ref().to_vec(), is_final));
        env.request_pending = !is_final;
        env
    }

    /// The value of an expression as text; `None` when it has none. Panics when it does not compile.
    pub fn text(&self, expr: &str) -> Option<String> {
        let expr = compile(expr, Place::empty()).unwrap_or_else(|e| panic!("{expr}: {e}"));
        self.eval_text(&expr)
    }

    /// The same for a compiled expression.
    pub fn eval_text(&self, expr: &Expr) -> Option<String> {
        let sample = expr.eval(self).ok()?;
        let mut out = Vec::new();
        match &sample.value {
            // Binary values are shown whole here, NULs included.
            Value::Bin(b) => out.extend_from_slice(b),
            other => other.write_text(&mut out),
        }
        Some(out.iter().map(|&b| char::from(b)).collect())
    }

    /// All occurrences, as an ACL tries them.
    pub fn all(&self, expr: &str) -> Vec<String> {
        let expr = compile(expr, Place::empty()).unwrap_or_else(|e| panic!("{expr}: {e}"));
        let mut cursor = crate::fetch::Cursor::default();
        let mut out = Vec::new();
        while let Ok(sample) = expr.eval_next(self, &mut cursor) {
            let mut text = Vec::new();
            sample.value.write_text(&mut text);
            out.push(String::from_utf8_lossy(&text).into_owned());
            if !sample.not_last || out.len() > 1000 {
                break;
            }
        }
        out
    }

    /// What evaluating gives, without its text.
    pub fn outcome(&self, expr: &str) -> Fetched<'static> {
        let expr = compile(expr, Place::empty()).unwrap_or_else(|e| panic!("{expr}: {e}"));
        expr.eval(self).map(|s| s.into_owned())
    }

    /// Compares expressions with their texts, and names all that differ.
    pub fn check(&self, table: &[(&str, Option<&str>)]) {
        let wrong: Vec<String> = table
            .iter()
            .filter_map(|(expr, want)| {
                let got = self.text(expr);
                (got.as_deref() != *want).then(|| format!("{expr}: {got:?}, not {want:?}"))
            })
            .collect();
        assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    }
}

/// Parses an expression for a place (an empty one is everywhere), without files or ACLs.
pub fn compile(text: &str, place: Place) -> Result<Expr, ExprError> {
    let store = Store::new();
    let ctx = ParseCtx {
        place,
        loader: &NoFiles,
        store: &store,
        file: "test.cfg",
        line: 1,
        http: true,
        acls: None,
    };
    Expr::parse(text, &ctx)
}

impl Env for TestEnv {
    fn now(&self) -> Now {
        self.now
    }
    fn random(&self) -> u64 {
        let n = self.random.get();
        self.random.set(n.wrapping_add(1));
        n
    }
    fn gauge(&self, what: Gauge) -> Option<i64> {
        self.gauges
            .iter()
            .find(|(g, _)| *g == what)
            .map(|(_, n)| *n)
    }
    fn name(&self, of: NameOf) -> Option<&str> {
        self.names
            .iter()
            .find(|(n, _)| *n == of)
            .map(|(_, s)| s.as_str())
    }
    fn check_password(&self, userlist: u32, user: &[u8], password: &[u8]) -> bool {
        userlist == 0
            && self
                .users
                .iter()
                .any(|(u, p, _)| u.as_bytes() == user && p.as_bytes() == password)
    }
    fn groups_of(&self, userlist: u32, user: &[u8]) -> Option<&[String]> {
        let known = self.users.iter().find(|(u, ..)| u.as_bytes() == user);
        known
            .filter(|_| userlist == 0)
            .map(|(.., groups)| groups.as_slice())
    }
    fn inspect_ended(&self) -> bool {
        !self.inspecting
    }
    fn stream(&self) -> Option<&StreamInfo> {
        self.stream.as_ref()
    }
    fn conn(&self, side: Side) -> Option<&ConnInfo> {
        match side {
            Side::Client => self.client.as_ref(),
            Side::Server => self.server.as_ref(),
        }
    }
    fn tcp_info(&self, side: Side) -> Option<TcpInfo> {
        match side {
            Side::Client => self.client_tcp,
            Side::Server => self.server_tcp,
        }
    }
    fn request(&self) -> Option<&Request> {
        self.request.as_ref()
    }
    fn response(&self) -> Option<&Response> {
        self.response.as_ref()
    }
    fn request_is_final(&self) -> bool {
        !self.request_pending
    }
    fn content(&self, dir: Dir) -> Option<Content<'_>> {
        content(match dir {
            Dir::Request => &self.req_content,
            Dir::Response => &self.res_content,
        })
    }
    fn body(&self, dir: Dir) -> Option<Content<'_>> {
        content(match dir {
            Dir::Request => &self.req_body,
            Dir::Response => &self.res_body,
        })
    }
    fn direction(&self) -> Dir {
        match self.response.is_some() || self.res_content.is_some() {
            true => Dir::Response,
            false => Dir::Request,
        }
    }
    fn var(&self, var: &VarRef) -> Option<Value<'_>> {
        self.vars.borrow().get(var).cloned()
    }
    fn each_var(&self, scope: Scope, visit: &mut dyn FnMut(&str, Value<'_>)) {
        let vars = self.vars.borrow();
        let mut sorted: Vec<_> = vars.iter().filter(|(v, _)| v.scope == scope).collect();
        sorted.sort_by_key(|(v, _)| v.name.clone());
        for (var, value) in sorted {
            visit(&var.name, value.clone());
        }
    }
    fn set_var(&self, var: &VarRef, value: Option<Value<'static>>) -> bool {
        let mut vars = self.vars.borrow_mut();
        match value {
            Some(value) => vars.insert(var.clone(), value),
            None => vars.remove(var),
        };
        true
    }
    fn capture(&self, dir: Dir, slot: usize, value: &[u8]) -> bool {
        self.captured.borrow_mut().push((dir, slot, value.to_vec()));
        true
    }
}

fn content(of: &Option<(Vec<u8>, bool)>) -> Option<Content<'_>> {
    of.as_ref().map(|(bytes, is_final)| Content {
        bytes,
        is_final: *is_final,
    })
}
