//! What an expression can see: the one trait the data path implements for its streams, and the plain records behind it.
//!
//! Each default method answers "not here", so that a place that knows little (a health check, the configuration
//! parser, a unit test) implements only what it has.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use sluice_http::{Request, Response};

use crate::value::Value;
use crate::vars::{Scope, VarRef};

/// A proxy's (frontend's or backend's) place in the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProxyId(pub u32);

/// A server's place: its backend and its place there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServerId {
    pub backend: ProxyId,
    pub index: u32,
}

/// The clock as it stood when the current event was taken up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Now {
    /// Wall clock, microseconds since the epoch.
    pub wall_us: i64,
    /// Monotonic, microseconds since an arbitrary start.
    pub mono_us: u64,
}

/// Which of the two connections of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Side {
    /// The connection to the client (`fc_*`).
    Client,
    /// The connection to the server (`bc_*`).
    Server,
}

/// An endpoint's address.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Addr {
    #[default]
    None,
    Ip(SocketAddr),
    /// A Unix socket's path (`@name` for an abstract one).
    Unix(Arc<str>),
}

impl Addr {
    pub fn ip(&self) -> Option<IpAddr> {
        match self {
            Addr::Ip(a) => Some(a.ip()),
            _ => None,
        }
    }
    /// The port, 0 for an address that has none.
    pub fn port(&self) -> u16 {
        match self {
            Addr::Ip(a) => a.port(),
            _ => 0,
        }
    }
}

/// Types and values of a PROXY protocol header, in its order.
pub type Tlvs = Vec<(u8, Vec<u8>)>;

/// What is known of one connection. On the server's side `src` is our own address and `dst` the server's.
#[derive(Debug, Clone, Default)]
pub struct ConnInfo {
    /// The client's address, as changed by the PROXY protocol or `set-src`.
    pub src: Addr,
    /// Our own address, or the original destination, as changed by the PROXY protocol or `set-dst`.
    pub dst: Addr,
    /// As the kernel gave them.
    pub real_src: Addr,
    pub real_dst: Addr,
    /// `fc_rcvd_proxy`: a PROXY protocol header was received.
    pub rcvd_proxy: bool,
    /// HTTP major version spoken on it: 0 when it is not HTTP.
    pub http_major: u8,
    /// `fc_err`: the manual's number, 0 when all is well.
    pub err: u16,
    /// PROXY protocol v2 TLVs as received, `(type, value)` ; boxed because they are rare.
    pub pp2_tlvs: Option<Box<Tlvs>>,
    /// Requests already received on it before the current one.
    pub requests: u64,
    /// When it was accepted or established.
    pub since_us: i64,
    /// `bc_reused`: it had carried an earlier stream.
    pub reused: bool,
    /// `fc_glitches`: oddities of a peer that are not errors yet.
    pub glitches: u32,
    /// Streams open on it, and the most the peer may open (1 for HTTP/1).
    pub streams: u32,
    pub streams_max: u32,
    /// It speaks TLS (`~` after `%ft`), with this version and cipher once agreed upon (`%sslv`, `%sslc`).
    pub tls: bool,
    pub tls_version: Option<Arc<str>>,
    pub tls_cipher: Option<Arc<str>>,
    /// `fc_saved_syn`: the SYN packet the kernel kept, from its IP header on.
    pub saved_syn: Option<Box<[u8]>>,
}

/// The kernel's view of a TCP connection, `TCP_INFO`: units as in the `fc_*` fetches (times in µs).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TcpInfo {
    pub rtt_us: i64,
    pub rttvar_us: i64,
    pub unacked: i64,
    pub sacked: i64,
    pub lost: i64,
    pub retrans: i64,
    pub fackets: i64,
    pub reordering: i64,
}

/// A timer that has not been reached yet reads -1, as in the logs.
pub const UNREACHED: i32 = -1;

/// The facts of one stream, filled in by the data path as they happen; logs, fetches and statistics are views of it.
#[derive(Debug, Clone)]
pub struct StreamInfo {
    /// Process-wide stream number (`%rt` is the process-wide request counter).
    pub request_counter: u64,
    pub stream_id: u32,
    pub frontend: ProxyId,
    /// The backend chosen, the frontend itself until then.
    pub backend: ProxyId,
    pub server: Option<ServerId>,
    /// `so_id` and `%bind` names: the listener.
    pub listener_id: u32,
    pub listener_name: Option<Arc<str>>,
    /// Wall clock at accept (µs) and when this request's first byte arrived.
    pub accept_us: i64,
    pub request_us: i64,
    /// `%Ts`-family come from the above; these are the log timers in ms, [`UNREACHED`] until known.
    pub th_ms: i32,
    pub ti_ms: i32,
    pub tr_ms: i32,
    pub tw_ms: i32,
    pub tc_ms: i32,
    pub tsrv_ms: i32,
    pub td_ms: i32,
    pub ta_ms: i32,
    pub tt_ms: i32,
    pub tu_ms: i32,
    /// The status sent to the client, -1 when none was.
    pub status: i32,
    /// The status received from the server, -1 when none was.
    pub server_status: i32,
    /// Bytes received from the client (`%U`) and sent to it (`%B`).
    pub bytes_in: u64,
    pub bytes_out: u64,
    /// First and second character of the termination state (chapter 8.5).
    pub term_cause: u8,
    pub term_phase: u8,
    /// Third and fourth: persistence cookie of the request, and what was done to it in the response.
    pub cookie_req: u8,
    pub cookie_res: u8,
    pub retries: u32,
    pub redispatched: bool,
    /// Places passed in the server's and the backend's queue.
    pub srv_queue: u32,
    pub backend_queue: u32,
    /// Connection counts at the end of the stream: process, frontend, backend, server (`%ac %fc %bc %sc`).
    pub act_conn: u32,
    pub fe_conn: u32,
    pub be_conn: u32,
    pub srv_conn: u32,
    /// `last_rule_file`, `last_rule_line`, `last_entity`: which rule ended it.
    pub last_rule: Option<(Arc<str>, u32)>,
    /// Captured headers and cookies, by slot (`capture.req.hdr(i)`, `%hr`, `%CC`).
    pub req_captures: Vec<Option<Vec<u8>>>,
    pub res_captures: Vec<Option<Vec<u8>>>,
    pub cookie_capture_req: Option<Vec<u8>>,
    pub cookie_capture_res: Option<Vec<u8>>,
    /// What `unique-id-format` made, on its first use: read it with [`Env::unique_id`].
    pub unique_id: std::cell::OnceCell<Vec<u8>>,
    /// The request line as first received, for `%r`, `capture.req.*`: rules may have changed the request since.
    pub first_line: Vec<u8>,
    /// Priority set by `set-priority-class` and `-offset`.
    pub prio_class: i32,
    pub prio_offset: i32,
    /// `set-log-level`: overrides the level, `Some(None)` is `silent`.
    pub log_level: Option<Option<u8>>,
    /// Effective timeouts of this stream, for `cur_*_timeout`.
    pub client_timeout_ms: u64,
    pub server_timeout_ms: u64,
    pub tunnel_timeout_ms: u64,
    pub connect_timeout_ms: u64,
    pub queue_timeout_ms: u64,
    pub tarpit_timeout_ms: u64,
    /// `cur_max_retries`: as `set-retries` left it.
    pub max_retries: u32,
    /// Bytes sent to the server and received from it.
    pub req_bytes_out: u64,
    pub res_bytes_in: u64,
    /// `waiting_entity`: the rule the stream waits for now.
    pub waiting_rule: Option<(Arc<str>, u32)>,
    /// What the stream's task has cost: how often it was called, the time spent in it, and between its waking and its
    /// running (`cpu_calls`, `cpu_ns_tot`, `lat_ns_tot`).
    pub task_calls: u64,
    pub task_cpu_ns: u64,
    pub task_lat_ns: u64,
    /// `%lc`: how many lines the frontend had logged before this one.
    pub log_counter: u64,
    /// What answered instead of a server, as `%s` names it without its angle brackets (`STATS`, `PROMEX`).
    pub applet: Option<Arc<str>>,
    /// The line is written before the stream ends (`option logasap`): times and sizes are still growing.
    pub logged_early: bool,
    /// `%OG`: why a line is written now (`txn_accept`, `txn_request`, `txn_connect`, `txn_response`, `txn_close`,
    /// `sess_error`, `sess_killed`, `http-req`... of `do-log`); empty is `unspec`.
    pub log_origin: &'static str,
}

impl StreamInfo {
    /// A stream that has just begun on `frontend`.
    pub fn new(frontend: ProxyId) -> Self {
        StreamInfo {
            request_counter: 0,
            stream_id: 0,
            frontend,
            backend: frontend,
            server: None,
            listener_id: 0,
            listener_name: None,
            accept_us: 0,
            request_us: 0,
            th_ms: 0,
            ti_ms: 0,
            tr_ms: UNREACHED,
            tw_ms: UNREACHED,
            tc_ms: UNREACHED,
            tsrv_ms: UNREACHED,
            td_ms: UNREACHED,
            ta_ms: UNREACHED,
            tt_ms: UNREACHED,
            tu_ms: UNREACHED,
            status: -1,
            server_status: -1,
            bytes_in: 0,
            bytes_out: 0,
            term_cause: b'-',
            term_phase: b'-',
            cookie_req: b'-',
            cookie_res: b'-',
            retries: 0,
            redispatched: false,
            srv_queue: 0,
            backend_queue: 0,
            act_conn: 0,
            fe_conn: 0,
            be_conn: 0,
            srv_conn: 0,
            last_rule: None,
            req_captures: Vec::new(),
            res_captures: Vec::new(),
            cookie_capture_req: None,
            cookie_capture_res: None,
            unique_id: std::cell::OnceCell::new(),
            first_line: Vec::new(),
            prio_class: 0,
            prio_offset: 0,
            log_level: None,
            client_timeout_ms: 0,
            server_timeout_ms: 0,
            tunnel_timeout_ms: 0,
            connect_timeout_ms: 0,
            queue_timeout_ms: 0,
            tarpit_timeout_ms: 0,
            max_retries: 0,
            req_bytes_out: 0,
            res_bytes_in: 0,
            waiting_rule: None,
            task_calls: 0,
            task_cpu_ns: 0,
            task_lat_ns: 0,
            log_counter: 0,
            applet: None,
            logged_early: false,
            log_origin: "",
        }
    }
}

/// Bytes of a channel or body that are in memory now.
#[derive(Debug, Clone, Copy, Default)]
pub struct Content<'a> {
    pub bytes: &'a [u8],
    /// No more will come (closed, complete, or the buffer is full).
    pub is_final: bool,
}

/// A direction of data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dir {
    Request,
    Response,
}

/// A number the running process can be asked for. Times in ms, rates per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gauge {
    ActConn,
    Stopping,
    UptimeSec,
    ThreadId,
    NbThread,
    Pid,
    /// Usable servers of a backend.
    NbSrv(ProxyId),
    /// Servers of a backend, usable or not.
    ServerCount(ProxyId),
    BeConn(ProxyId),
    BeConnFree(ProxyId),
    BeSessRate(ProxyId),
    BeServerTimeoutMs(ProxyId),
    BeConnectTimeoutMs(ProxyId),
    BeQueueTimeoutMs(ProxyId),
    BeTarpitTimeoutMs(ProxyId),
    BeMaxRetries(ProxyId),
    BeTunnelTimeoutMs(ProxyId),
    /// Requests queued in the backend and all its servers.
    Queue(ProxyId),
    AvgQueue(ProxyId),
    ConnSlots(ProxyId),
    FeConn(ProxyId),
    FeReqRate(ProxyId),
    FeSessRate(ProxyId),
    FeClientTimeoutMs(ProxyId),
    FeTarpitTimeoutMs(ProxyId),
    /// Connections on the listener the stream came in by (`dst_conn`).
    ListenerConn,
    /// Percent of a CPU the process, the thread and its group used of late.
    CpuUsageProc,
    CpuUsageThread,
    CpuUsageGroup,
    /// `tune.bufsize`.
    BufferSize,
    ThreadGroup,
    /// The `id` of the proxy.
    PuId(ProxyId),
    SrvConn(ServerId),
    SrvConnFree(ServerId),
    SrvIsUp(ServerId),
    SrvQueue(ServerId),
    SrvSessRate(ServerId),
    SrvWeight(ServerId),
    SrvInitialWeight(ServerId),
    SrvUserWeight(ServerId),
    SrvId(ServerId),
}

/// A name the running process can be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameOf {
    Proxy(ProxyId),
    /// The name of the `defaults` section a proxy came from.
    Defaults(ProxyId),
    Server(ServerId),
    /// The `default_backend` of a frontend.
    DefaultBackend(ProxyId),
    Hostname,
    Node,
    Proc,
}

/// The world as one expression sees it.
pub trait Env {
    fn now(&self) -> Now;
    fn random(&self) -> u64;

    /// A number of the running process; `None` when the thing does not exist.
    fn gauge(&self, _what: Gauge) -> Option<i64> {
        None
    }
    fn name(&self, _of: NameOf) -> Option<&str> {
        None
    }
    /// A backend by a name that is only known now (`nbsrv` of a string).
    fn backend_named(&self, _name: &[u8]) -> Option<ProxyId> {
        None
    }
    /// A frontend by a name that is only known now (`fe_exists`).
    fn frontend_named(&self, _name: &[u8]) -> Option<ProxyId> {
        None
    }
    /// A server by names that are only known now (`srv_queue`, `srv_is_up`); no backend means the current one.
    fn server_named(&self, _backend: Option<&[u8]>, _server: &[u8]) -> Option<ServerId> {
        None
    }
    /// The local time zone at a moment (seconds since the epoch): its distance east of UTC in seconds and its
    /// abbreviation.
    fn local_zone(&self, _at_sec: i64) -> (i32, &str) {
        (0, "UTC")
    }
    /// The `debug` converter and `do-log`: a line for an event sink (`buf0`, `stdout`, `stderr`, a ring's name).
    fn debug_event(&self, _sink: &[u8], _line: &[u8]) {}
    /// Answers `http_auth`: checks the password against a userlist by its index in the model.
    fn check_password(&self, _userlist: u32, _user: &[u8], _password: &[u8]) -> bool {
        false
    }
    /// The groups a user belongs to (`http_auth_group`).
    fn groups_of(&self, _userlist: u32, _user: &[u8]) -> Option<&[String]> {
        None
    }

    /// Whether an address is one of this machine's (`src_is_local`).
    fn is_local(&self, addr: IpAddr) -> bool {
        addr.is_loopback()
    }
    /// The inspection delay is over: `wait_end` is true from here on.
    fn inspect_ended(&self) -> bool {
        true
    }

    fn stream(&self) -> Option<&StreamInfo> {
        None
    }
    /// The stream's unique id (`%ID`, `unique-id`), made now if it was not yet.
    fn unique_id(&self) -> Option<&[u8]> {
        self.stream()?.unique_id.get().map(Vec::as_slice)
    }
    fn conn(&self, _side: Side) -> Option<&ConnInfo> {
        None
    }
    /// The server's side with our own address ([`ConnInfo::src`]), which [`Env::conn`] may leave out: finding it costs
    /// a system call, and few ask for it.
    fn server_conn_from(&self) -> Option<&ConnInfo> {
        self.conn(Side::Server)
    }
    fn tcp_info(&self, _side: Side) -> Option<TcpInfo> {
        None
    }

    /// The parsed head. `Err(NotYet)` semantics live in the fetches: `None` here means it is not parsed (yet).
    fn request(&self) -> Option<&Request> {
        None
    }
    fn response(&self) -> Option<&Response> {
        None
    }
    /// The direction of the data at hand, for fetches that take either (`hdr`, `payload`, `cookie`).
    fn direction(&self) -> Dir {
        match self.response() {
            Some(_) => Dir::Response,
            None => Dir::Request,
        }
    }
    /// No request will be parsed any more or none is expected: a fetch of it is `Never`, not `NotYet`.
    fn request_is_final(&self) -> bool {
        true
    }
    /// The same for the response.
    fn response_is_final(&self) -> bool {
        true
    }
    /// Raw bytes waiting in the channel (layer 6 content inspection); `None` where there is no channel.
    fn content(&self, _dir: Dir) -> Option<Content<'_>> {
        None
    }
    /// The decoded body as far as it has been buffered (`option http-buffer-request`, `wait-for-body`).
    fn body(&self, _dir: Dir) -> Option<Content<'_>> {
        None
    }
    /// Names every variable of a scope with its value (`dump_all_vars`).
    fn each_var(&self, _scope: Scope, _visit: &mut dyn FnMut(&str, Value<'_>)) {}
    /// A variable's value; the data path keeps one store a scope.
    fn var(&self, _var: &VarRef) -> Option<Value<'_>> {
        None
    }
    /// Sets (`Some`) or unsets (`None`) a variable; false when the memory limit is reached or the scope is not there.
    /// Implementations keep their variables behind a `RefCell`.
    fn set_var(&self, _var: &VarRef, _value: Option<Value<'static>>) -> bool {
        false
    }
    /// `capture-req`/`capture-res` converters: stores into a declared slot.
    /// False when there is no such slot.
    fn capture(&self, _dir: Dir, _slot: usize, _value: &[u8]) -> bool {
        false
    }
}

/// An environment that knows nothing but a fixed time: for constant expressions and tests.
#[derive(Debug, Clone, Copy, Default)]
pub struct Nowhere {
    pub now: Now,
}

impl Env for Nowhere {
    fn now(&self) -> Now {
        self.now
    }
    fn random(&self) -> u64 {
        0
    }
}
