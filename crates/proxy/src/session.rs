//! A session: one accepted client connection, from the first rule to the close.
//!
//! Owns what lasts as long as the connection (addresses, `sess` variables, counts); hands streams to `stream::http` or
//! `stream::tcp`.

use std::cell::RefCell;
use std::os::fd::RawFd;
use std::rc::Rc;
use std::sync::Arc;

use sluice_config::model::{Mode, Proxy};
use sluice_engine::ProxyState;
use sluice_engine::state::ListenerState;
use sluice_expr::env::{Addr, ConnInfo};
use sluice_expr::vars::{Usage, Vars};

use crate::backend::ServerConn;
use crate::live::Key;
use crate::net::{Buf, Timer, Transport};
use crate::stream::rules::Verdict;
use crate::stream::{Stream, http, tcp};
use crate::worker::{Idle, Worker};
use crate::{clock, net};

/// What lasts for the whole client connection.
#[derive(Default)]
pub struct SessionData {
    pub client: ConnInfo,
    pub vars: RefCell<SessionVars>,
    /// For TCP_INFO.
    pub client_fd: Option<RawFd>,
    pub server_fd: Option<RawFd>,
    /// Accepted at: monotonic µs.
    pub accept_mono_us: u64,
    /// When the previous request ended: monotonic µs.
    pub last_end_us: u64,
    /// Time a handshake (PROXY protocol, later TLS) took, ms.
    pub handshake_ms: i32,
    /// Its place among the worker's sessions.
    pub live: Option<Key>,
    pub listener_id: u32,
    pub listener_name: Option<Arc<str>>,
    /// The server that answered the previous request of this session, for `prefer-last-server` and private reuse.
    pub last_server: Option<sluice_expr::ServerId>,
    /// Requests go there while it can be used: it authenticated the connection.
    pub prefers_last: bool,
}

/// Variables of the `sess` scope.
#[derive(Default)]
pub struct SessionVars {
    pub vars: Vars,
    pub used: Usage,
}

/// A listener as a worker sees it.
pub struct Listener {
    pub proxy: Arc<Proxy>,
    pub state: Arc<ProxyState>,
    pub listener: Arc<ListenerState>,
    /// Index in `proxy.binds`.
    pub bind: usize,
}

/// The client's side of a session, lent to its streams.
pub struct Client {
    pub io: Transport,
    /// Bytes read that nobody has used yet.
    pub input: Option<Buf>,
    pub timer: Timer,
    /// The client closed its direction.
    pub read_closed: bool,
    /// A body is being thrown away or an answer was early: this connection carries no further request.
    pub must_close: bool,
    /// The server connection of its last request, kept for this client alone (`http-reuse never`).
    pub own: Option<Box<ServerConn>>,
    /// Told when a soft stop begins.
    pub idle: Option<Idle>,
}

/// Runs one client connection to its end, reading the clock whenever it is woken.
pub async fn run(w: Rc<Worker>, l: Rc<Listener>, io: Transport, peer: Addr) {
    let mut session = std::pin::pin!(serve(w, l, io, peer));
    std::future::poll_fn(|cx| {
        clock::read();
        session.as_mut().poll(cx)
    })
    .await;
}

async fn serve(w: Rc<Worker>, l: Rc<Listener>, io: Transport, peer: Addr) {
    let transparent = l.proxy.binds[l.bind].transparent;
    let local = net::listen::local_addr(&io, &l.listener.addr, transparent);
    let fd = std::os::fd::AsRawFd::as_raw_fd(&io);
    let ends = (peer.clone(), local.clone());
    let key = w.live.enter(w.id, ends, &l.proxy, l.listener.id, fd);
    let _counted = Counted {
        w: w.clone(),
        l: l.clone(),
        key,
    };
    let mut client = Box::new(Client {
        io,
        input: None,
        timer: Timer::default(),
        read_closed: false,
        must_close: false,
        own: None,
        idle: None,
    });
    let Some(sess) = Box::pin(begin(&w, &l, &mut client, (peer, local), key)).await else {
        return;
    };
    match l.proxy.mode {
        Mode::Http => http::serve(&w, &l, client, sess).await,
        _ => Box::pin(tcp::run(&w, &l, client, sess)).await,
    }
}

/// Connection rules, PROXY protocol, session rules. `None`: the connection ends here.
async fn begin(
    w: &Rc<Worker>,
    l: &Listener,
    client: &mut Client,
    (peer, local): (Addr, Addr),
    key: Key,
) -> Option<Box<SessionData>> {
    let bind = &l.proxy.binds[l.bind];
    let now = clock::now();
    let mut sess = Box::new(SessionData {
        client: ConnInfo {
            src: peer.clone(),
            dst: local.clone(),
            real_src: peer,
            real_dst: local,
            since_us: now.wall_us,
            ..ConnInfo::default()
        },
        client_fd: Some(std::os::fd::AsRawFd::as_raw_fd(&client.io)),
        accept_mono_us: now.mono_us,
        live: Some(key),
        listener_id: l.listener.id,
        listener_name: l.listener.name.clone(),
        vars: RefCell::new(SessionVars {
            used: Usage::within(
                w.model().global.tune.vars_sess_max,
                w.shared.proc_vars.usage(),
            ),
            ..SessionVars::default()
        }),
        ..SessionData::default()
    });

    let mut expect_proxy = bind.accept_proxy;
    let mut magic = bind.accept_netscaler_cip;
    if !l.proxy.tcp_request_connection.is_empty() {
        let (back, verdict) = with_stream(w, l, sess, |s| {
            let w = s.w.clone();
            s.run_rules(&w.model().proxy(s.info.frontend).tcp_request_connection, 0)
        });
        sess = back;
        match verdict {
            Verdict::Next | Verdict::Accept => {}
            Verdict::ExpectProxy => expect_proxy = true,
            // a bind line without a magic number expects 0, as in HAProxy
            Verdict::ExpectNetscaler => magic = magic.or(Some(0)),
            verdict => {
                l.state.fe.denied_conn.inc();
                l.listener.counters.denied_conn.inc();
                end_at_once(client, verdict);
                return None;
            }
        }
    }
    if expect_proxy || magic.is_some() {
        let mut ok = true;
        if expect_proxy {
            ok = net::proxy_protocol::receive(w, l, client, &mut sess, None).await;
        }
        if magic.is_some() && ok {
            ok = net::proxy_protocol::receive(w, l, client, &mut sess, magic).await;
        }
        if !ok {
            with_stream(w, l, sess, Stream::log_refused);
            return None;
        }
    }
    sess.handshake_ms = ((clock::now_us() - sess.accept_mono_us) / 1000) as i32;
    if !l.proxy.tcp_request_session.is_empty() {
        let (back, verdict) = with_stream(w, l, sess, |s| {
            let w = s.w.clone();
            s.run_rules(&w.model().proxy(s.info.frontend).tcp_request_session, 0)
        });
        sess = back;
        if !matches!(verdict, Verdict::Next | Verdict::Accept) {
            l.state.fe.denied_sess.inc();
            l.listener.counters.denied_sess.inc();
            if matches!(verdict, Verdict::SilentDrop { .. }) {
                end_at_once(client, verdict);
            }
            return None;
        }
    }
    let now_ms = clock::now_us() / 1000;
    l.state.fe.sess_total.inc();
    l.state.fe.sess_rate.hit(now_ms);
    l.listener.counters.sess_total.inc();
    w.runtime().counters.sess_rate.hit(now_ms);
    match l.proxy.mode {
        Mode::Http => l.state.fe.h1_sess.inc(),
        _ => l.state.fe.other_sess.inc(),
    }
    Some(sess)
}

/// Lends a stream record for rules that run before there is a stream.
fn with_stream<R>(
    w: &Rc<Worker>,
    l: &Listener,
    sess: Box<SessionData>,
    act: impl FnOnce(&mut Stream) -> R,
) -> (Box<SessionData>, R) {
    let mut s = w.lend_stream();
    s.begin(l, sess);
    let out = act(&mut s);
    (w.return_stream(s), out)
}

/// Closes as a rejecting rule wants it: `reject` resets, `silent-drop` says nothing.
pub fn end_at_once(client: &Client, verdict: Verdict) {
    match verdict {
        Verdict::SilentDrop { rst_ttl } => crate::sys::silent_drop(&client.io, rst_ttl),
        _ => client.io.reset_on_close(),
    }
}

/// The levels one session is counted in while it lives; `accept` counted it in.
struct Counted {
    w: Rc<Worker>,
    l: Rc<Listener>,
    key: Key,
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.w.live.leave(self.key);
        self.l.state.fe.conns.leave();
        self.l.listener.counters.conns.leave();
        self.w.runtime().counters.conns.leave();
        self.w.sessions.set(self.w.sessions.get() - 1);
        crate::accept::slot_freed(&self.w, &self.l);
    }
}
