//! One check of one server: connect, send, expect, step by step (manual 4.2 `tcp-check`, `http-check`).

use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use sluice_config::model::{CheckAction, CheckExpect, CheckRules, CheckStep, PeerAddr, PortSpec};
use sluice_engine::health::{CheckResult, CheckStatus};
use sluice_expr::env::{Env, Gauge, NameOf, Now};
use sluice_expr::value::Value;
use sluice_expr::vars::{Scope, Usage, VarRef, Vars};
use sluice_http::{BodyDecoder, HeadScan, Limits, Method, Parsed, Response, parse_response};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::Instant;

use super::Checked;
use super::verdict::{self, Answer, Verdict};
use crate::view;

/// Most bytes of an answer that are looked at: the size of a buffer.
const ANSWER_MAX: usize = 16384;

trait Stream: AsyncRead + AsyncWrite + Unpin {}
impl<T: AsyncRead + AsyncWrite + Unpin> Stream for T {}

/// Only a connection.
pub async fn tcp(c: &Checked) -> CheckResult {
    match connect(c, None, false).await {
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
        body_at: 0,
        vars: RefCell::default(),
        used: Usage::new(0),
        method: Method::Get,
    };
    let limit = c
        .proxy
        .timeouts
        .check_ms
        .unwrap_or(c.server.conf.check.inter_ms);
    let deadline = Instant::now() + Duration::from_millis(limit) + connect_limit(c);
    match tokio::time::timeout_at(deadline, probe.run()).await {
        Ok(r) => r,
        Err(_) => {
            let status = if probe.io.is_none() {
                CheckStatus::L4Timeout
            } else {
                CheckStatus::L7Timeout
            };
            result(status, 0, "")
        }
    }
}

fn result(status: CheckStatus, code: u32, info: &str) -> CheckResult {
    CheckResult {
        status,
        code,
        info: info.to_string(),
        duration_ms: 0,
    }
}

/// Connecting may take `timeout connect` when `timeout check` is set, else the interval.
fn connect_limit(c: &Checked) -> Duration {
    let inter = c.server.conf.check.inter_ms;
    let ms = match (c.proxy.timeouts.check_ms, c.proxy.timeouts.connect_ms) {
        (Some(_), Some(connect)) => connect,
        (None, Some(connect)) => connect.min(inter),
        _ => inter,
    };
    Duration::from_millis(ms)
}

async fn connect(
    c: &Checked,
    to: Option<(Option<PeerAddr>, Option<u16>)>,
    send_proxy: bool,
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
                let s = TcpStream::connect(SocketAddr::new(*ip, port)).await?;
                s.set_nodelay(true)?;
                Ok(Box::new(s) as Box<dyn Stream>)
            }
            PeerAddr::Unix(path) => {
                Ok(Box::new(UnixStream::connect(path).await?) as Box<dyn Stream>)
            }
            PeerAddr::Abstract { name, zero_padded } => {
                let addr = crate::net::listen::abstract_addr(name, *zero_padded)?;
                let socket =
                    socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::STREAM, None)?;
                socket.connect(&addr)?;
                socket.set_nonblocking(true)?;
                let std: std::os::unix::net::UnixStream = std::os::fd::OwnedFd::from(socket).into();
                Ok(Box::new(UnixStream::from_std(std)?) as Box<dyn Stream>)
            }
            _ => Err(io::Error::from(io::ErrorKind::AddrNotAvailable)),
        }
    };
    match tokio::time::timeout(connect_limit(c), open).await {
        Err(_) => Err(result(CheckStatus::L4Timeout, 0, "")),
        Ok(Err(e)) => {
            let text = e.to_string();
            Err(result(
                CheckStatus::L4Con,
                0,
                text.split(" (os error").next().unwrap_or(""),
            ))
        }
        Ok(Ok(mut io)) => {
            if send_proxy || p.send_proxy {
                let header: &[u8] = match c.server.conf.send_proxy.as_ref().is_some_and(|s| s.v2) {
                    // LOCAL: the connection is our own
                    true => b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0",
                    false => b"PROXY UNKNOWN\r\n",
                };
                if io.write_all(header).await.is_err() {
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
    body_at: usize,
    vars: RefCell<Vars>,
    used: Usage,
    method: Method,
}

impl Probe<'_> {
    async fn run(&mut self) -> CheckResult {
        let mut last = if self.rules.http {
            CheckStatus::L7Ok
        } else {
            CheckStatus::L4Ok
        };
        let mut code = 0;
        let mut info = String::new();
        for step in &self.rules.steps {
            if self.io.is_none() && !matches!(step.action, CheckAction::Connect { .. }) {
                match connect(self.c, None, false).await {
                    Ok(io) => self.io = Some(io),
                    Err(r) => return r,
                }
            }
            match self.step(step).await {
                Ok(Some(r)) => {
                    last = r.status;
                    code = r.code;
                    info = r.info;
                }
                Ok(None) => {}
                Err(r) => return r,
            }
        }
        if self.io.is_none() {
            if let Err(r) = connect(self.c, None, false).await {
                return r;
            }
        }
        result(last, code, &info)
    }

    async fn step(&mut self, step: &CheckStep) -> Result<Option<CheckResult>, CheckResult> {
        match &step.action {
            CheckAction::Connect {
                port,
                addr,
                send_proxy,
                ..
            } => {
                let port = port
                    .as_ref()
                    .and_then(|e| e.eval_as(self, sluice_expr::Type::Sint).ok())
                    .and_then(|s| s.value.int())
                    .and_then(|n| u16::try_from(n).ok());
                self.answer.clear();
                self.ended = false;
                self.has_head = false;
                match connect(self.c, Some((addr.clone(), port)), *send_proxy).await {
                    Ok(io) => self.io = Some(io),
                    Err(r) => return Err(self.at_step(step, r)),
                }
                Ok(None)
            }
            CheckAction::Send(data) => self.send(step, data.clone()).await,
            CheckAction::SendFormat { format, binary } => {
                let mut text = Vec::new();
                format.write(self, &mut text);
                let data = if *binary {
                    verdict::unhex(&text).unwrap_or_default()
                } else {
                    text
                };
                self.send(step, data).await
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
                self.send(step, out).await
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

    async fn send(
        &mut self,
        step: &CheckStep,
        data: Vec<u8>,
    ) -> Result<Option<CheckResult>, CheckResult> {
        let Some(io) = &mut self.io else {
            return Ok(None);
        };
        match io.write_all(&data).await {
            Ok(()) => Ok(None),
            Err(e) => Err(self.at_step(step, result(CheckStatus::L7Resp, 0, &e.to_string()))),
        }
    }

    async fn expect(
        &mut self,
        step: &CheckStep,
        e: &CheckExpect,
    ) -> Result<CheckResult, CheckResult> {
        loop {
            self.read_head(step)?;
            if !self.rules.http || self.has_head {
                let answer = Answer {
                    bytes: &self.answer[self.body_at..],
                    response: self.has_head.then_some(&self.response),
                    ended: self.ended,
                };
                match verdict::judge(e, &answer, self) {
                    Verdict::Matched => return Ok(self.passed(e)),
                    Verdict::Failed => return Err(self.failed(step, e)),
                    Verdict::NeedMore => {}
                }
            } else if self.ended {
                let empty = self.answer.is_empty();
                return Err(self.at_step(
                    step,
                    result(
                        CheckStatus::L7Resp,
                        0,
                        if empty {
                            ""
                        } else {
                            "incomplete HTTP response"
                        },
                    ),
                ));
            }
            self.read().await;
        }
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
            _ => self.ended = true,
        }
        if self.has_head && !self.ended {
            // a complete body ends the answer although the connection may stay
            let mut d = BodyDecoder::new(self.response.framing);
            self.ended = !matches!(d.advance(&self.answer[self.body_at..]), Ok(step) if !step.done);
        }
    }

    fn read_head(&mut self, step: &CheckStep) -> Result<(), CheckResult> {
        if !self.rules.http || self.has_head {
            return Ok(());
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
                self.body_at = consumed;
                let mut d = BodyDecoder::new(self.response.framing);
                self.ended |=
                    d.is_done() || matches!(d.advance(&self.answer[consumed..]), Ok(s) if s.done);
                Ok(())
            }
            Ok(Parsed::Partial) => Ok(()),
            Err(_) => Err(self.at_step(
                step,
                result(CheckStatus::L7Resp, 0, "invalid HTTP response"),
            )),
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
        } else if self.rules.http {
            r.info = String::from_utf8_lossy(self.response.reason()).into_owned();
        }
        r
    }

    fn failed(&self, step: &CheckStep, e: &CheckExpect) -> CheckResult {
        if self.rules.disable_on_404 && self.has_head && self.response.status == 404 {
            return result(CheckStatus::L7OkCond, 404, "Not Found");
        }
        let default = if self.rules.http {
            CheckStatus::L7Status
        } else {
            CheckStatus::L7Resp
        };
        let status = e
            .error_status
            .as_deref()
            .and_then(CheckStatus::from_code)
            .unwrap_or(default);
        let mut r = result(status, self.code(e), "");
        r.info = match &e.on_error {
            Some(f) => self.text(f),
            None if self.rules.http => String::from_utf8_lossy(self.response.reason()).into_owned(),
            None => format!("tcp-check: expect did not match at step {}", step.number),
        };
        r
    }

    fn code(&self, e: &CheckExpect) -> u32 {
        let own = e
            .status_code
            .as_ref()
            .and_then(|x| x.eval_as(self, sluice_expr::Type::Sint).ok())
            .and_then(|s| s.value.int());
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

    /// Names the step in the reason.
    fn at_step(&self, step: &CheckStep, mut r: CheckResult) -> CheckResult {
        if self.rules.http {
            return r;
        }
        let at = match &step.comment {
            Some(comment) => format!("at step {} of tcp-check ({comment})", step.number),
            None => format!("at step {} of tcp-check", step.number),
        };
        r.info = if r.info.is_empty() {
            at
        } else {
            format!("{} {at}", r.info)
        };
        r
    }

    /// `http-check send-state`.
    fn state_text(&self) -> String {
        let s = &self.c.server;
        let state = if s.is_usable() { "UP" } else { "DOWN" };
        let rt = &self.c.shared.runtime;
        let weight: u32 = self
            .c
            .backend
            .servers
            .iter()
            .map(|s| s.user_weight.load(std::sync::atomic::Ordering::Relaxed))
            .sum();
        format!(
            "{state}; name={}/{}; node={}; weight={}/{weight}; scur={}/{}; qcur={}",
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
    fn response(&self) -> Option<&Response> {
        self.has_head.then_some(&self.response)
    }
    fn content(&self, _: sluice_expr::env::Dir) -> Option<sluice_expr::env::Content<'_>> {
        Some(sluice_expr::env::Content {
            bytes: &self.answer[self.body_at..],
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
