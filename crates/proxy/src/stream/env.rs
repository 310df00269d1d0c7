//! A stream as expressions see it.

use sluice_engine::counters::ServingCounters;
use sluice_expr::env::{
    Addr, ConnInfo, Content, Dir, Env, Gauge, NameOf, Now, ProxyId, ServerId, Side, StreamInfo,
    TcpInfo,
};
use sluice_expr::value::Value;
use sluice_expr::vars::{self, Scope, VarRef};
use sluice_http::{Request, Response};
use std::sync::atomic::Ordering::Relaxed;

use super::{HeldBody, Stream};
use crate::view;

impl Env for Stream {
    fn now(&self) -> Now {
        self.now
    }
    fn random(&self) -> u64 {
        self.w.random()
    }
    fn gauge(&self, what: Gauge) -> Option<i64> {
        match what {
            Gauge::ThreadId => Some(i64::from(self.w.id)),
            Gauge::ListenerConn => {
                let listeners = &self.runtime().proxy(self.info.frontend).listeners;
                let own = listeners.iter().find(|l| l.id == self.info.listener_id)?;
                Some(own.counters.conns.now().into())
            }
            Gauge::CpuUsageProc | Gauge::CpuUsageGroup => Some(crate::cpu::of_process()),
            Gauge::CpuUsageThread => Some(crate::cpu::of_thread()),
            other => view::gauge(self.runtime(), other, self.now.mono_us / 1000),
        }
    }
    fn name(&self, of: NameOf) -> Option<&str> {
        view::name(self.runtime(), of)
    }
    fn backend_named(&self, name: &[u8]) -> Option<ProxyId> {
        view::backend_named(self.runtime(), name)
    }
    fn frontend_named(&self, name: &[u8]) -> Option<ProxyId> {
        view::frontend_named(self.runtime(), name)
    }
    fn server_named(&self, backend: Option<&[u8]>, server: &[u8]) -> Option<ServerId> {
        let backend = match backend {
            Some(name) => self.backend_named(name)?,
            None => self.info.backend,
        };
        view::server_named(self.runtime(), backend, server)
    }
    fn local_zone(&self, at_sec: i64) -> (i32, &str) {
        crate::zone::at(at_sec)
    }
    fn check_password(&self, userlist: u32, user: &[u8], password: &[u8]) -> bool {
        view::check_password(self.runtime(), userlist, user, password)
    }
    fn groups_of(&self, userlist: u32, user: &[u8]) -> Option<&[String]> {
        view::groups_of(self.runtime(), userlist, user)
    }
    fn is_local(&self, addr: std::net::IpAddr) -> bool {
        // only an address of this machine can be bound to
        addr.is_loopback() || std::net::UdpSocket::bind((addr, 0)).is_ok()
    }
    fn inspect_ended(&self) -> bool {
        self.content_final || !self.has_raw_content()
    }
    fn stream(&self) -> Option<&StreamInfo> {
        Some(&self.info)
    }
    fn unique_id(&self) -> Option<&[u8]> {
        if let Some(id) = self.info.unique_id.get() {
            return Some(id);
        }
        let format = self.frontend().unique_id_format.as_ref()?;
        // a format that names the id itself finds none
        if self.making_id.replace(true) {
            return None;
        }
        let id = self.render(format);
        self.making_id.set(false);
        Some(self.info.unique_id.get_or_init(|| id))
    }
    fn conn(&self, side: Side) -> Option<&ConnInfo> {
        match side {
            Side::Client => Some(&self.sess.client),
            Side::Server => self.server_conn.as_deref().filter(|c| c.dst != Addr::None),
        }
    }
    fn server_conn_from(&self) -> Option<&ConnInfo> {
        let info = self.conn(Side::Server)?;
        let Some(fd) = self.sess.server_fd.filter(|_| info.src == Addr::None) else {
            return Some(info);
        };
        Some(self.server_conn_from.get_or_init(|| {
            let src = crate::sys::local_addr(fd);
            Box::new(ConnInfo {
                src: src.clone(),
                real_src: src,
                ..info.clone()
            })
        }))
    }
    fn tcp_info(&self, side: Side) -> Option<TcpInfo> {
        match side {
            Side::Client => crate::sys::tcp_info(self.sess.client_fd?),
            Side::Server => crate::sys::tcp_info(self.sess.server_fd?),
        }
    }
    fn request(&self) -> Option<&Request> {
        self.has_req.then_some(&self.req)
    }
    fn response(&self) -> Option<&Response> {
        self.has_res.then_some(&self.res)
    }
    fn direction(&self) -> Dir {
        match self.has_res || self.res_content.is_some() {
            true => Dir::Response,
            false => Dir::Request,
        }
    }
    fn request_is_final(&self) -> bool {
        self.has_req || self.not_http || self.content_final || self.req_content.is_none()
    }
    fn response_is_final(&self) -> bool {
        self.has_res || self.content_final || self.res_content.is_none()
    }
    fn content(&self, dir: Dir) -> Option<Content<'_>> {
        let buf = match dir {
            Dir::Request => self.req_content.as_ref(),
            Dir::Response => self.res_content.as_ref(),
        };
        buf.map(|b| Content {
            bytes: b.data(),
            is_final: self.content_final,
        })
    }
    fn body(&self, dir: Dir) -> Option<Content<'_>> {
        let held = |b: &HeldBody| b.active || b.peeked;
        let b = match dir {
            Dir::Request => &self.req_body,
            Dir::Response => &self.res_body,
        };
        held(b).then(|| Content {
            bytes: &b.payload,
            is_final: b.complete,
        })
    }
    fn var(&self, var: &VarRef) -> Option<Value<'_>> {
        let vars = self.vars.borrow();
        match var.scope {
            Scope::Proc => self.w.shared.proc_vars.value(var.index),
            Scope::Sess => self.sess.vars.borrow().vars.value(var.index).cloned(),
            Scope::Txn => vars.txn.value(var.index).cloned(),
            Scope::Req if !vars.responding => vars.req.value(var.index).cloned(),
            Scope::Res if vars.responding => vars.res.value(var.index).cloned(),
            _ => None,
        }
    }
    fn each_var(&self, scope: Scope, visit: &mut dyn FnMut(&str, Value<'_>)) {
        let mut show = |index: u32, value: &Value<'static>| {
            if let Some(name) = vars::name_of(index) {
                visit(&name, value.clone());
            }
        };
        let own = self.vars.borrow();
        let sess = self.sess.vars.borrow();
        let store = match scope {
            Scope::Proc => return self.w.shared.proc_vars.each(show),
            Scope::Sess => &sess.vars,
            Scope::Txn => &own.txn,
            Scope::Req if !own.responding => &own.req,
            Scope::Res if own.responding => &own.res,
            _ => return,
        };
        store.iter().for_each(|(index, value)| show(index, value));
    }
    fn set_var(&self, var: &VarRef, value: Option<Value<'static>>) -> bool {
        let vars = &mut *self.vars.borrow_mut();
        vars.touched = true;
        let mut sess = self.sess.vars.borrow_mut();
        let sess = &mut *sess;
        let (store, chain): (_, &[_]) = match var.scope {
            Scope::Proc => return self.w.shared.proc_vars.set(var.index, value),
            Scope::Sess => (&mut sess.vars, &[&sess.used]),
            Scope::Txn => (&mut vars.txn, &[&vars.txn_used, &sess.used]),
            Scope::Req if !vars.responding => (
                &mut vars.req,
                &[&vars.reqres_used, &vars.txn_used, &sess.used],
            ),
            Scope::Res if vars.responding => (
                &mut vars.res,
                &[&vars.reqres_used, &vars.txn_used, &sess.used],
            ),
            _ => return false,
        };
        match value {
            Some(v) => store.set(var.index, v, chain),
            None => store.unset(var.index, chain),
        }
    }
    /// No slot takes more than its declared length.
    fn capture(&self, dir: Dir, slot: usize, value: &[u8]) -> bool {
        let fe = self.w.model().proxy(self.info.frontend);
        let declared = match dir {
            Dir::Request => &fe.captures_req,
            Dir::Response => &fe.captures_res,
        };
        let Some(capture) = declared.get(slot) else {
            return false;
        };
        let value = &value[..value.len().min(capture.len)];
        let mut vars = self.vars.borrow_mut();
        vars.touched = true;
        vars.captured.push((dir, slot, value.to_vec()));
        true
    }
    fn debug_event(&self, sink: &[u8], line: &[u8]) {
        self.w.logs.event(sink, line);
    }
}

/// Sessions on something that serves, as `be_conn` and `srv_conn` count them.
pub fn sessions(c: &ServingCounters) -> i64 {
    i64::from(c.sessions.now())
}

/// Connections a server still takes before its `maxconn`; -1 without a limit.
pub fn free_conns(max: u32, served: &std::sync::atomic::AtomicU32) -> i64 {
    if max == 0 {
        -1
    } else {
        i64::from(max.saturating_sub(served.load(Relaxed)))
    }
}
