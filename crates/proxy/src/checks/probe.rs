//! One check of one server: connect, send, expect, step by step (manual 4.2 `tcp-check`, `http-check`).

use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::sync::PoisonError;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use sluice_config::model::{
    CheckAction, CheckExpect, CheckMatch, CheckRules, CheckStep, PeerAddr, PortSpec,
};
use sluice_engine::health::{CheckResult, CheckStatus};
use sluice_engine::state::OpState;
use sluice_expr::env::{Env, Gauge, NameOf, Now, StreamInfo};
use sluice_expr::value::Value;
use sluice_expr::vars::{Scope, Usage, VarRef, Vars};
use sluice_http::{BodyDecoder, HeadScan, Limits, Method, Parsed, Response, parse_response};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpSocket, UnixStream};
use tokio::time::Instant;

use super::Checked;
use super::protocol::{self, Judged};
use super::verdict::{self, Answer, Verdict};
use super::words;
use crate::net::socks4::{self, DENIED};
use crate::view;

/// Most bytes of an answer that are looked at: the size of a buffer.
const ANSWER_MAX: usize = 16384;

trait Stream: AsyncRead + AsyncWrite + Unpin {}
impl<T: AsyncRead + AsyncWrite + Unpin> Stream for T {}

/// Only a connection.
pub async fn tcp(c: &Checked) -> CheckResult {
    match connect(c, None, as_said(c)).await {
        Ok(_) => result(CheckStatus::L4Ok, 0, ""),
        Err(r) => r,
    }
}

/// A sequence of steps.
pub async fn rules(c: &Checked, rules: &CheckRules) -> CheckResult {
    let mut probe = Probe {
        c,
        rules,
        io: None,
        answer: Vec::new(),
        ended: false,
        response: Response::new(),
        has_head: false,
        decoder: None,
        read_to: 0,
        body: Vec::new(),
        garbled: false,
        vars: RefCell::default(),
        used: Usage::within(
            c.shared.runtime.model.global.tune.vars_check_max,
            c.shared.proc_vars.usage(),
        ),
        method: Method::Get,
        step: None,
        broken: None,
        greeting: String::new(),
        info: stream_info(c),
    };
    // nobody looks at `timeout check` before the time for connecting is over; without it the interval is for all
    let limit = match c.proxy.timeouts.check_ms {
        Some(ms) => connect_limit(c).max(Duration::from_millis(ms)),
        None => Duration::from_millis(c.server.conf.check.inter_ms),
    };
    let deadline = Instant::now() + limit;
    match tokio::time::timeout_at(deadline, probe.run()).await {
        Ok(r) => r,
        Err(_) => {
            let told = probe.step.and_then(|i| match &rules.steps[i].action {
                CheckAction::Expect(e) => CheckStatus::from_code(e.tout_status.as_deref()?),
                _ => None,
            });
            let status = match (told, &probe.io) {
                (Some(told), _) => told,
                (None, None) => CheckStatus::L4Timeout,
                (None, Some(_)) => CheckStatus::L7Timeout,
            };
            probe.connection_error(result(status, 0, ""), None)
        }
    }
}

/// The stream that a check's expressions see: it has a backend and a server, and nothing else.
fn stream_info(c: &Checked) -> StreamInfo {
    let mut info = StreamInfo::new(c.backend.id);
    info.server = Some(c.server.id);
    info
}

fn result(status: CheckStatus, code: u32, info: &str) -> CheckResult {
    CheckResult {
        status,
        code,
        info: info.to_string(),
        duration_ms: 0,
    }
}

/// The time for connecting, of which `timeout check` is no part.
fn connect_limit(c: &Checked) -> Duration {
    let inter = c.server.conf.check.inter_ms;
    let ms = match (c.proxy.timeouts.check_ms, c.proxy.timeouts.connect_ms) {
        (Some(_), Some(connect)) => connect.min(inter),
        _ => inter,
    };
    Duration::from_millis(ms)
}

/// A socket as the server's connections have it: in its namespace, and signing.
pub fn socket(c: &Checked, ip: std::net::IpAddr) -> io::Result<TcpSocket> {
    let conf = &c.server.conf;
    let socket = crate::net::namespace::within(conf.namespace.as_deref(), || match ip.is_ipv4() {
        true => TcpSocket::new_v4(),
        false => TcpSocket::new_v6(),
    })?;
    if let Some(key) = &conf.tcp_md5sig {
        crate::sys::sign(&socket, SocketAddr::new(ip, 0), None, key)?;
    }
    Ok(socket)
}

/// Whether checks without a `connect` step have a PROXY header of their own, and go through the server's SOCKS4 proxy.
fn as_said(c: &Checked) -> (bool, bool) {
    (false, c.server.conf.check.via_socks4)
}

async fn connect(
    c: &Checked,
    to: Option<(Option<PeerAddr>, Option<u16>)>,
    (send_proxy, via_socks4): (bool, bool),
) -> Result<Box<dyn Stream>, CheckResult> {
    let p = &c.server.conf.check;
    let base = c.server.addr.load_full();
    let (step_addr, step_port) = to.unwrap_or_default();
    let told = &c.server.check_probe;
    let told_addr = told.addr.load_full().map(|ip| PeerAddr::Ip {
        ip: *ip,
        port: PortSpec::Fixed(0),
    });
    let told_port = Some(told.port.load(Relaxed)).filter(|port| *port > 0);
    let addr = step_addr
        .or(told_addr)
        .or_else(|| p.addr.clone())
        .unwrap_or_else(|| (*base).clone());
    let port = step_port
        .or(told_port)
        .or(p.port)
        .or_else(|| fixed_port(&addr))
        .or_else(|| fixed_port(&base));
    let open = async {
        match &addr {
            PeerAddr::Ip { ip, .. } => {
                let port = port.ok_or(io::ErrorKind::AddrNotAvailable)?;
                let server = SocketAddr::new(*ip, port);
                let socks4 = c.server.conf.socks4.filter(|_| via_socks4);
                let to = socks4.unwrap_or(server);
                let mut s = socket(c, to.ip())?.connect(to).await?;
                if socks4.is_some() {
                    socks4::ask(&mut s, server).await?;
                }
                s.set_nodelay(true)?;
                let ends = s.local_addr().ok().zip(s.peer_addr().ok());
                Ok((Box::new(s) as Box<dyn Stream>, ends))
            }
            PeerAddr::Unix(path) => {
                let s = UnixStream::connect(path).await?;
                Ok((Box::new(s) as Box<dyn Stream>, None))
            }
            PeerAddr::Abstract { name, zero_padded } => {
                let addr = crate::net::listen::abstract_addr(name, *zero_padded)?;
                let socket =
                    socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::STREAM, None)?;
                socket.connect(&addr)?;
                socket.set_nonblocking(true)?;
                let std: std::os::unix::net::UnixStream = std::os::fd::OwnedFd::from(socket).into();
                let s = UnixStream::from_std(std)?;
                Ok((Box::new(s) as Box<dyn Stream>, None))
            }
            _ => Err(io::Error::from(io::ErrorKind::AddrNotAvailable)),
        }
    };
    match tokio::time::timeout(connect_limit(c), open).await {
        Err(_) => Err(result(CheckStatus::L4Timeout, 0, "")),
        Ok(Err(e)) if e.to_string() == DENIED => Err(result(CheckStatus::SockErr, 0, DENIED)),
        Ok(Err(e)) => Err(result(CheckStatus::L4Con, 0, &plain(&e))),
        Ok(Ok((mut io, ends))) => {
            let proxy = c.server.conf.send_proxy.as_ref().filter(|s| s.wanted);
            // a check that goes where the traffic goes begins as the traffic does
            let as_traffic = proxy.is_some() && p.addr.is_none() && p.port.is_none();
            if send_proxy || p.send_proxy || as_traffic {
                let header = match (proxy.is_some_and(|s| s.v2), ends) {
                    // LOCAL: the connection is our own
                    (true, _) => b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0".to_vec(),
                    (false, Some((src, dst))) if src.is_ipv4() == dst.is_ipv4() => format!(
                        "PROXY {} {} {} {} {}\r\n",
                        if src.is_ipv4() { "TCP4" } else { "TCP6" },
                        src.ip(),
                        dst.ip(),
                        src.port(),
                        dst.port()
                    )
                    .into_bytes(),
                    _ => b"PROXY UNKNOWN\r\n".to_vec(),
                };
                if io.write_all(&header).await.is_err() {
                    return Err(result(
                        CheckStatus::L4Con,
                        0,
                        "cannot send the PROXY header",
                    ));
                }
            }
            Ok(io)
        }
    }
}

/// An error in the system's words, without its number.
fn plain(e: &io::Error) -> String {
    let text = e.to_string();
    text.split(" (os error").next().unwrap_or("").to_string()
}

fn fixed_port(a: &PeerAddr) -> Option<u16> {
    match a {
        PeerAddr::Ip {
            port: PortSpec::Fixed(p),
            ..
        } if *p != 0 => Some(*p),
        _ => None,
    }
}

struct Probe<'a> {
    c: &'a Checked,
    rules: &'a CheckRules,
    io: Option<Box<dyn Stream>>,
    answer: Vec<u8>,
    ended: bool,
    response: Response,
    has_head: bool,
    /// Follows the body of an HTTP response.
    decoder: Option<BodyDecoder>,
    /// How much of the answer the head and the decoder have taken.
    read_to: usize,
    /// The body so far, without its framing.
    body: Vec<u8>,
    /// The framing is wrong.
    garbled: bool,
    vars: RefCell<Vars>,
    used: Usage,
    method: Method,
    /// Index of the step being run; none while connecting for the first.
    step: Option<usize>,
    /// What broke the connection while it was read.
    broken: Option<String>,
    /// What the server said of itself first (MySQL).
    greeting: String,
    info: StreamInfo,
}

impl Probe<'_> {
    async fn run(&mut self) -> CheckResult {
        // the last step decides what a check that passed is called
        let mut last = result(CheckStatus::L4Ok, 0, "");
        let note = if self.rules.proto == "TCP" {
            "(tcp-check)"
        } else {
            ""
        };
        for (i, step) in self.rules.steps.iter().enumerate() {
            let connects = matches!(step.action, CheckAction::Connect { .. });
            if self.io.is_none() && !connects {
                match connect(self.c, None, as_said(self.c)).await {
                    Ok(io) => self.io = Some(io),
                    Err(r) => return self.connection_error(r, None),
                }
            }
            self.step = Some(i);
            last = match self.step(step).await {
                Ok(Some(r)) => r,
                Ok(None) if connects => result(CheckStatus::L4Ok, 0, note),
                Ok(None) => result(CheckStatus::L7Ok, 0, note),
                Err(r) => return r,
            };
        }
        if self.io.is_none() {
            self.step = None;
            if let Err(r) = connect(self.c, None, as_said(self.c)).await {
                return self.connection_error(r, None);
            }
        }
        last
    }

    /// Says where a connection failed; only the steps of `tcp-check` are the administrator's and named.
    fn connection_error(&self, mut r: CheckResult, port: Option<u16>) -> CheckResult {
        if self.rules.proto == "TCP" {
            let step = self.step.map(|i| &self.rules.steps[i]);
            r.info.push_str(&words::place(step, port));
        }
        r
    }

    async fn step(&mut self, step: &CheckStep) -> Result<Option<CheckResult>, CheckResult> {
        match &step.action {
            CheckAction::Connect {
                port,
                addr,
                send_proxy,
                via_socks4,
                ..
            } => {
                let port = port
                    .as_ref()
                    .and_then(|e| e.eval_as(self, sluice_expr::Type::Sint).ok())
                    .and_then(|s| s.value.int())
                    .and_then(|n| u16::try_from(n).ok());
                self.forget_answer();
                self.ended = false;
                let how = (*send_proxy, *via_socks4);
                match connect(self.c, Some((addr.clone(), port)), how).await {
                    Ok(io) => self.io = Some(io),
                    Err(r) => return Err(self.connection_error(r, port)),
                }
                Ok(None)
            }
            CheckAction::Send(data) => self.send(data.clone()).await,
            CheckAction::SendFormat { format, binary } => {
                let mut text = Vec::new();
                format.write(self, &mut text);
                let data = if *binary {
                    verdict::unhex(&text).unwrap_or_default()
                } else {
                    text
                };
                self.send(data).await
            }
            CheckAction::SendHttp {
                method,
                uri,
                version,
                headers,
                body,
            } => {
                let text = |f: &sluice_expr::LogFormat| {
                    let mut out = Vec::new();
                    f.write(self, &mut out);
                    out
                };
                let mut out = [method, &b" "[..], &text(uri), b" ", version, b"\r\n"].concat();
                for (name, value) in headers {
                    out.extend_from_slice(name.as_bytes());
                    out.extend_from_slice(b": ");
                    out.extend_from_slice(&text(value));
                    out.extend_from_slice(b"\r\n");
                }
                if self.rules.send_state {
                    out.extend_from_slice(
                        format!("X-Haproxy-Server-State: {}\r\n", self.state_text()).as_bytes(),
                    );
                }
                if version.ends_with(b"1.1") {
                    out.extend_from_slice(b"connection: close\r\n");
                }
                if let Some(b) = body {
                    let b = text(b);
                    out.extend_from_slice(
                        format!("content-length: {}\r\n\r\n", b.len()).as_bytes(),
                    );
                    out.extend_from_slice(&b);
                } else {
                    out.extend_from_slice(b"\r\n");
                }
                self.method = Method::from_bytes(method);
                self.send(out).await
            }
            CheckAction::Expect(e) => self.expect(step, e).await.map(Some),
            CheckAction::SetVar { var, expr } => {
                let value = expr.eval(self).ok().map(|s| s.value.into_owned());
                self.set_var(var, value);
                Ok(None)
            }
            CheckAction::SetVarFormat { var, format } => {
                let mut text = Vec::new();
                format.write(self, &mut text);
                self.set_var(var, Some(Value::Str(text.into())));
                Ok(None)
            }
            CheckAction::UnsetVar(var) => {
                self.set_var(var, None);
                Ok(None)
            }
        }
    }

    fn forget_answer(&mut self) {
        self.answer.clear();
        self.body.clear();
        self.read_to = 0;
        self.decoder = None;
        self.garbled = false;
        self.has_head = false;
    }

    /// What was received, of an HTTP response the body.
    fn content_bytes(&self) -> &[u8] {
        match self.rules.http {
            true => &self.body,
            false => &self.answer,
        }
    }

    async fn send(&mut self, data: Vec<u8>) -> Result<Option<CheckResult>, CheckResult> {
        // what comes now is the answer to this
        self.forget_answer();
        let Some(io) = &mut self.io else {
            return Ok(None);
        };
        match io.write_all(&data).await {
            Ok(()) => Ok(None),
            Err(e) => Err(self.connection_error(result(CheckStatus::SockErr, 0, &plain(&e)), None)),
        }
    }

    async fn expect(
        &mut self,
        step: &CheckStep,
        e: &CheckExpect,
    ) -> Result<CheckResult, CheckResult> {
        loop {
            if !self.read_head() {
                return Err(self.unreadable(step, e));
            }
            if self.ended && self.answer.is_empty() && (!self.rules.http || self.broken.is_some()) {
                return Err(self.silence(step, e));
            }
            let bytes = self.content_bytes();
            if let CheckMatch::Protocol(kind) = &e.matcher {
                match protocol::judge(*kind, bytes, self.ended) {
                    Judged::Passed(info) => {
                        if !info.is_empty() {
                            self.greeting = info;
                        }
                        return Ok(result(CheckStatus::L7Ok, 0, &self.greeting));
                    }
                    Judged::Failed(status, code, info) => return Err(result(status, code, &info)),
                    Judged::NeedMore => {}
                }
            } else if !self.rules.http || self.has_head {
                let answer = Answer {
                    bytes,
                    response: self.has_head.then_some(&self.response),
                    ended: self.ended,
                };
                let verdict = match answer.ended && bytes.is_empty() && e.matcher.is_of_content() {
                    // a body that is not there has not what is looked for, and not what must not be there
                    true if self.rules.http => Verdict::Failed,
                    _ => verdict::judge(e, &answer, self),
                };
                match verdict {
                    Verdict::Matched => return Ok(self.passed(e)),
                    Verdict::Failed => return Err(self.failed(step, e)),
                    Verdict::NeedMore => {}
                }
            } else if self.ended {
                return Err(self.unreadable(step, e));
            }
            self.read().await;
        }
    }

    /// The answer is no HTTP response.
    fn unreadable(&self, step: &CheckStep, e: &CheckExpect) -> CheckResult {
        let text = e.on_error.as_ref().map(|f| self.text(f));
        let text = words::with_comment(text.unwrap_or_default(), step);
        result(CheckStatus::L7Resp, 0, &text)
    }

    /// The connection ended before the first byte of an answer.
    fn silence(&self, step: &CheckStep, e: &CheckExpect) -> CheckResult {
        if let Some(broken) = &self.broken {
            return self.connection_error(result(CheckStatus::SockErr, 0, broken), None);
        }
        let status = e
            .error_status
            .as_deref()
            .and_then(CheckStatus::from_code)
            .unwrap_or(CheckStatus::L7Resp);
        let text = format!("TCPCHK got an empty response at step {}", step.number);
        result(status, 0, &words::with_comment(text, step))
    }

    /// Reads more of the answer.
    async fn read(&mut self) {
        let Some(io) = &mut self.io else {
            return self.ended = true;
        };
        let mut chunk = [0; 4096];
        match io.read(&mut chunk).await {
            Ok(n) if n > 0 && self.answer.len() < ANSWER_MAX => {
                self.answer.extend_from_slice(&chunk[..n])
            }
            Err(e) => {
                self.broken = Some(plain(&e));
                self.ended = true;
            }
            _ => self.ended = true,
        }
        self.follow_body();
    }

    /// Takes what came of the body; a complete one ends the answer although the connection may stay.
    fn follow_body(&mut self) {
        let Some(decoder) = &mut self.decoder else {
            return;
        };
        let fresh = self.answer.get(self.read_to..).unwrap_or_default();
        let body = &mut self.body;
        match decoder.decode(fresh, &mut |data| body.extend_from_slice(data)) {
            Ok(step) => {
                self.read_to += step.consumed;
                self.ended |= step.done || decoder.is_done();
            }
            Err(_) => self.garbled = true,
        }
    }

    /// Reads the head of an HTTP response when it is there; no: this is none, or its body is not what it says.
    fn read_head(&mut self) -> bool {
        if !self.rules.http || self.has_head {
            return !self.garbled;
        }
        let limits = Limits::default();
        match parse_response(
            &self.answer,
            &mut HeadScan::new(),
            &limits,
            self.method,
            &mut self.response,
        ) {
            Ok(Parsed::Complete { consumed }) => {
                self.has_head = true;
                self.read_to = consumed;
                self.decoder = Some(BodyDecoder::new(self.response.framing));
                self.follow_body();
                !self.garbled
            }
            Ok(Parsed::Partial) => true,
            Err(_) => false,
        }
    }

    fn passed(&self, e: &CheckExpect) -> CheckResult {
        let status = e
            .ok_status
            .as_deref()
            .and_then(CheckStatus::from_code)
            .unwrap_or(CheckStatus::L7Ok);
        let mut r = result(status, self.code(e), "");
        if let Some(f) = &e.on_success {
            r.info = self.text(f);
        } else if self.rules.proto == "TCP" {
            r.info = "(tcp-check)".into();
        }
        r
    }

    fn failed(&self, step: &CheckStep, e: &CheckExpect) -> CheckResult {
        if self.rules.disable_on_404 && self.has_head && self.response.status == 404 {
            return result(CheckStatus::L7OkCond, 404, "");
        }
        let of_head = !e.matcher.is_of_content();
        let default = if self.rules.http && of_head {
            CheckStatus::L7Status
        } else {
            CheckStatus::L7Resp
        };
        let status = e
            .error_status
            .as_deref()
            .and_then(CheckStatus::from_code)
            .unwrap_or(default);
        let text = match &e.on_error {
            Some(f) => self.text(f),
            None if self.rules.proto == "TCP" => words::unexpected(step, e),
            None if !self.rules.http => String::new(),
            None if of_head => String::from_utf8_lossy(self.response.reason()).into_owned(),
            None if self.body.is_empty() => {
                "HTTP content check could not find a response body".into()
            }
            None if e.negate => "HTTP check matched unwanted content".into(),
            None => "HTTP content check did not match".into(),
        };
        result(status, self.code(e), &words::with_comment(text, step))
    }

    fn code(&self, e: &CheckExpect) -> u32 {
        let own = e
            .status_code
            .as_ref()
            .and_then(|x| x.eval_as(self, sluice_expr::Type::Str).ok())
            .and_then(|s| {
                let digits = s.value.bytes()?;
                std::str::from_utf8(digits).ok()?.trim().parse::<i64>().ok()
            });
        match own {
            Some(n) => u32::try_from(n).unwrap_or(0),
            None if self.has_head => self.response.status.into(),
            None => 0,
        }
    }

    fn text(&self, f: &sluice_expr::LogFormat) -> String {
        let mut out = Vec::new();
        f.write(self, &mut out);
        String::from_utf8_lossy(&out).into_owned()
    }

    /// `http-check send-state`.
    fn state_text(&self) -> String {
        let s = &self.c.server;
        let state = {
            let h = s.health.lock().unwrap_or_else(PoisonError::into_inner);
            let name = match (h.is_up(), s.op()) {
                (true, OpState::Stopping) => "NOLB",
                (true, _) => "UP",
                (false, _) => "DOWN",
            };
            match (h.counter, h.rise, h.fall) {
                (0, _, _) => name.to_string(),
                (at, rise, fall) if at + 1 >= rise + fall => name.to_string(),
                (at, rise, fall) if at >= rise => format!("{name} {}/{fall}", at + 1 - rise),
                (at, rise, _) => format!("{name} {at}/{rise}"),
            }
        };
        let place = match &**s.addr.load() {
            PeerAddr::Ip { ip, port } => match port {
                PortSpec::Fixed(p) => format!("address={ip}; port={p}; "),
                _ => format!("address={ip}; port=0; "),
            },
            _ => String::new(),
        };
        let rt = &self.c.shared.runtime;
        let weight: u32 = self
            .c
            .backend
            .servers
            .iter()
            .map(|s| s.user_weight.load(std::sync::atomic::Ordering::Relaxed))
            .sum();
        format!(
            "{state}; {place}name={}/{}; node={}; weight={}/{weight}; scur={}/{}; qcur={}",
            self.c.backend.name,
            s.name,
            rt.model.global.node.as_deref().unwrap_or(&rt.hostname),
            s.user_weight.load(std::sync::atomic::Ordering::Relaxed),
            s.counters.sessions.now(),
            self.c.backend.be.sessions.now(),
            s.queue.len()
        )
    }
}

impl Env for Probe<'_> {
    fn now(&self) -> Now {
        crate::clock::read()
    }
    fn random(&self) -> u64 {
        crate::clock::read()
            .mono_us
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
    fn gauge(&self, what: Gauge) -> Option<i64> {
        view::gauge(&self.c.shared.runtime, what, crate::clock::mono_ms())
    }
    fn name(&self, of: NameOf) -> Option<&str> {
        view::name(&self.c.shared.runtime, of)
    }
    fn stream(&self) -> Option<&StreamInfo> {
        Some(&self.info)
    }
    fn response(&self) -> Option<&Response> {
        self.has_head.then_some(&self.response)
    }
    fn content(&self, _: sluice_expr::env::Dir) -> Option<sluice_expr::env::Content<'_>> {
        Some(sluice_expr::env::Content {
            bytes: self.content_bytes(),
            is_final: self.ended,
        })
    }
    fn body(&self, dir: sluice_expr::env::Dir) -> Option<sluice_expr::env::Content<'_>> {
        self.content(dir)
    }
    fn var(&self, var: &VarRef) -> Option<Value<'_>> {
        match var.scope {
            Scope::Proc => self.c.shared.proc_vars.value(var.index),
            Scope::Check => self.vars.borrow().value(var.index).cloned(),
            _ => None,
        }
    }
    fn set_var(&self, var: &VarRef, value: Option<Value<'static>>) -> bool {
        match (var.scope, value) {
            (Scope::Proc, v) => self.c.shared.proc_vars.set(var.index, v),
            (Scope::Check, Some(v)) => self.vars.borrow_mut().set(var.index, v, &[&self.used]),
            (Scope::Check, None) => self.vars.borrow_mut().unset(var.index, &[&self.used]),
            _ => false,
        }
    }
}
