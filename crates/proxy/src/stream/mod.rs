//! A stream: one request with its response (or one TCP connection pair), whichever protocol carries it.
//!
//! ```text
//! session -> http::run  -> request rules -> backend -> connect -> response rules -> body -> log
//!         -> tcp::run   -> content rules -> backend -> connect -> relay          -> log
//! ```
//!
//! This file holds the record; `env` lets expressions see it, `rules` runs rule sets on it.

pub mod body;
mod changes;
mod consistent;
pub mod cookies;
pub mod deliver;
pub mod env;
pub mod forward;
mod header_list;
pub mod hold;
pub mod http;
pub mod late_request;
mod limit;
pub mod observe;
pub mod relay;
pub mod reply;
pub mod request;
pub mod response;
pub mod response_body;
mod response_content;
pub mod rules;
pub mod runner;
pub mod serve;
pub mod tcp;

use std::cell::{OnceCell, RefCell};
use std::rc::Rc;

use sluice_config::model::Proxy;
use sluice_engine::state::ProxyState;
use sluice_engine::{Runtime, ServerState};
use sluice_expr::env::{ConnInfo, Dir, Now, StreamInfo};
use sluice_expr::vars::{Usage, Vars};
use sluice_expr::{ProxyId, ServerId};
use sluice_http::{BodyDecoder, Framing, Request, Response};

use self::body::Pump;
use crate::backend::ServerConn;
use crate::clock;
use crate::net::Buf;
use crate::session::SessionData;
use crate::worker::Worker;

/// A body held in memory because rules want to see it (`option http-buffer-request`, `wait-for-body`).
#[derive(Default)]
pub struct HeldBody {
    /// The payload, framing removed.
    pub payload: Vec<u8>,
    /// All of it is there (or as much as fits).
    pub complete: bool,
    /// The end of the message was seen.
    pub ended: bool,
    pub active: bool,
    /// `payload` is a copy of what came with the head, for rules that look without waiting.
    pub peeked: bool,
}

impl HeldBody {
    /// Lets rules see what is already there of a body that is not held. `data` stays where it is.
    pub fn peek(&mut self, mut decoder: BodyDecoder, data: &[u8]) {
        if self.active {
            return;
        }
        let payload = &mut self.payload;
        payload.clear();
        // what cannot be decoded is found out when the body is relayed
        let step = decoder.decode(data, &mut |d: &[u8]| payload.extend_from_slice(d));
        self.complete = step.is_ok_and(|s| s.done);
        self.peeked = true;
    }

    /// Begins to hold the body.
    pub fn hold(&mut self) {
        if std::mem::take(&mut self.peeked) {
            self.payload.clear();
            self.complete = false;
        }
        self.active = true;
    }

    pub fn forget(&mut self) {
        self.payload.clear();
        *self = HeldBody {
            payload: std::mem::take(&mut self.payload),
            ..HeldBody::default()
        };
    }
}

/// Variables of one stream.
#[derive(Default)]
pub struct StreamVars {
    pub txn: Vars,
    pub req: Vars,
    pub res: Vars,
    pub txn_used: Usage,
    pub reqres_used: Usage,
    /// The request's variables are gone and the response's are there: one of the two scopes exists at a time.
    pub responding: bool,
    /// Something was put here. Most streams have no variables, and what is not touched need not be looked at.
    pub touched: bool,
    /// What `capture-req` and `capture-res` took in an expression, on its way to the slots.
    pub captured: Vec<(Dir, usize, Vec<u8>)>,
}

impl StreamVars {
    fn clear(&mut self, sess_used: &Usage) {
        self.txn.clear(&[&self.txn_used, sess_used]);
        let chain = [&self.reqres_used, &self.txn_used, sess_used];
        self.req.clear(&chain);
        self.res.clear(&chain);
        self.captured.clear();
    }
}

/// The record of one stream.
pub struct Stream {
    pub w: Rc<Worker>,
    /// Its session's part, moved in while the stream runs.
    pub sess: Box<SessionData>,
    /// Stands in for it between streams.
    pub spare_sess: Option<Box<SessionData>>,
    pub info: StreamInfo,
    /// Connection to the server, as expressions see it.
    pub server_conn: Option<Rc<ConnInfo>>,
    /// The same with our own address, once somebody asked.
    pub server_conn_from: OnceCell<Box<ConnInfo>>,
    /// The server connection that ends with the stream; until then its addresses may be asked for.
    pub closing: Option<Box<ServerConn>>,
    pub req: Request,
    /// It carries HTTP: `req` is a message of it and not only what a rule read in TCP mode.
    pub is_http: bool,
    /// `req` holds a parsed head.
    pub has_req: bool,
    pub res: Response,
    pub has_res: bool,
    /// Walks over the request's body as it comes from the client.
    pub req_decoder: BodyDecoder,
    pub req_body: HeldBody,
    pub res_body: HeldBody,
    /// Walks over the response's body when it is held.
    pub res_decoder: BodyDecoder,
    /// Raw bytes of the channels while content rules look at them.
    pub req_content: Option<Buf>,
    pub res_content: Option<Buf>,
    pub content_final: bool,
    /// What the client sent is no HTTP request, whatever follows.
    pub not_http: bool,
    pub vars: RefCell<StreamVars>,
    /// The clock of the event being handled.
    pub now: Now,
    /// Monotonic µs at the stream's start.
    pub start_us: u64,
    /// Bytes in and out that counters know of already (`option contstats`).
    pub counted: (u64, u64),
    /// The request on its way to the server, and the response on its way back.
    pub up: Pump,
    pub down: Pump,
    /// Scratch for serialising and formatting.
    pub out: Vec<u8>,
    pub text: Vec<u8>,
    /// Settings rules may override for this stream.
    pub set: Overrides,
    /// Slots and levels held, given back at the end.
    pub held: Held,
    /// The line was written before the end (`option logasap`).
    pub logged: bool,
    /// When the persistence cookie was last and first given, as it says itself (`maxidle`, `maxlife`).
    pub cookie_dates: (Option<u64>, Option<u64>),
    /// `ignore-persist` holds: the response's cookies stay as they are.
    pub persistence_ignored: bool,
    /// No request could be read: what is answered is not a response that rules change.
    pub unborn: bool,
    /// The unique id is being made, or is never to be.
    pub making_id: std::cell::Cell<bool>,
}

/// What rules changed for this stream only.
#[derive(Debug, Clone, Default)]
pub struct Overrides {
    pub client_timeout_ms: Option<u64>,
    pub server_timeout_ms: Option<u64>,
    pub tunnel_timeout_ms: Option<u64>,
    pub connect_timeout_ms: Option<u64>,
    pub queue_timeout_ms: Option<u64>,
    pub tarpit_timeout_ms: Option<u64>,
    pub retries: Option<u32>,
    pub no_l7_retry: bool,
    pub strict_rewriting_off: bool,
    /// A rule changed a header that tells where a body ends.
    pub framing_touched: bool,
    pub server_mark: Option<u32>,
    pub server_tos: Option<u32>,
    /// bandwidth limits set by rules: filter name and bytes per period
    pub bwlims: Vec<BwlimSetting>,
}

/// `set-bandwidth-limit` in effect.
#[derive(Debug, Clone)]
pub struct BwlimSetting {
    pub filter: std::sync::Arc<sluice_config::model::BandwidthLimit>,
    pub limit_bytes: u64,
    pub period_ms: u64,
}

/// Counts this stream is part of.
#[derive(Debug, Default)]
pub struct Held {
    pub backend: Option<ProxyId>,
    pub server: Option<ServerId>,
}

impl Stream {
    pub fn new(w: Rc<Worker>) -> Self {
        let tune = &w.model().global.tune;
        let vars = StreamVars {
            txn_used: Usage::new(tune.vars_txn_max),
            reqres_used: Usage::new(tune.vars_reqres_max),
            ..StreamVars::default()
        };
        Stream {
            sess: Box::default(),
            spare_sess: None,
            info: StreamInfo::new(ProxyId(0)),
            server_conn: None,
            server_conn_from: OnceCell::new(),
            closing: None,
            req: Request::new(),
            is_http: false,
            has_req: false,
            res: Response::new(),
            has_res: false,
            req_decoder: BodyDecoder::new(Framing::None),
            req_body: HeldBody::default(),
            res_body: HeldBody::default(),
            res_decoder: BodyDecoder::new(Framing::None),
            req_content: None,
            res_content: None,
            content_final: false,
            not_http: false,
            vars: RefCell::new(vars),
            now: Now::default(),
            start_us: 0,
            counted: (0, 0),
            up: Pump::default(),
            down: Pump::default(),
            out: Vec::new(),
            text: Vec::new(),
            set: Overrides::default(),
            held: Held::default(),
            logged: false,
            cookie_dates: (None, None),
            persistence_ignored: false,
            unborn: false,
            making_id: Default::default(),
            w,
        }
    }

    /// Makes the record ready for another stream, keeping what it has allocated. The session's part must still be in.
    pub fn forget(&mut self) {
        self.making_id.set(false);
        self.unborn = false;
        self.cookie_dates = (None, None);
        self.persistence_ignored = false;
        self.is_http = false;
        self.has_req = false;
        self.has_res = false;
        self.logged = false;
        self.req_decoder = BodyDecoder::new(Framing::None);
        self.req_body.forget();
        self.res_body.forget();
        self.req_content = None;
        self.res_content = None;
        self.up.forget();
        self.down.forget();
        self.content_final = false;
        self.not_http = false;
        self.server_conn = None;
        self.server_conn_from.take();
        self.sess.server_fd = None;
        self.closing = None;
        let vars = self.vars.get_mut();
        vars.responding = false;
        if std::mem::take(&mut vars.touched) {
            vars.clear(&self.sess.vars.borrow().used);
        }
        self.set = Overrides::default();
        self.out.clear();
        self.text.clear();
        if self.out.capacity() > crate::net::buf::READ_SIZE {
            self.out = Vec::new();
        }
    }

    pub fn runtime(&self) -> &Runtime {
        self.w.runtime()
    }
    pub fn frontend(&self) -> &Proxy {
        self.w.model().proxy(self.info.frontend)
    }
    pub fn backend(&self) -> &Proxy {
        self.w.model().proxy(self.info.backend)
    }
    pub fn fe_state(&self) -> &ProxyState {
        self.w.runtime().proxy(self.info.frontend)
    }
    pub fn be_state(&self) -> &ProxyState {
        self.w.runtime().proxy(self.info.backend)
    }
    pub fn server_state(&self) -> Option<&ServerState> {
        self.info.server.map(|s| &**self.w.runtime().server(s))
    }

    /// Takes the clock anew.
    pub fn tick(&mut self) {
        self.now = clock::now();
        // the clock is taken when the task was woken
        self.info.task_calls += 1;
    }

    /// Milliseconds since the stream began.
    pub fn elapsed_ms(&self) -> i32 {
        ((self.now.mono_us.saturating_sub(self.start_us)) / 1000).min(i32::MAX as u64) as i32
    }

    /// Marks how the stream ended, unless something earlier did already.
    pub fn terminate(&mut self, cause: u8, phase: u8) {
        if self.info.term_cause == b'-' {
            self.info.term_cause = cause;
            self.info.term_phase = phase;
        }
    }

    // timeouts of this stream, in ms
    pub fn client_timeout_ms(&self) -> Option<u64> {
        self.set
            .client_timeout_ms
            .or(self.frontend().timeouts.client_ms)
    }
    pub fn server_timeout_ms(&self) -> Option<u64> {
        self.set
            .server_timeout_ms
            .or(self.backend().timeouts.server_ms)
    }
    pub fn connect_timeout_ms(&self) -> Option<u64> {
        self.set
            .connect_timeout_ms
            .or(self.backend().timeouts.connect_ms)
    }
    pub fn tunnel_timeout_ms(&self) -> Option<u64> {
        self.set
            .tunnel_timeout_ms
            .or(self.backend().timeouts.tunnel_ms)
    }
    pub fn queue_timeout_ms(&self) -> Option<u64> {
        let t = &self.backend().timeouts;
        self.set.queue_timeout_ms.or(t.queue_ms).or(t.connect_ms)
    }
}
