//! A proxy: what a `frontend`, `backend` or `listen` section says, after its `defaults` were applied.

use std::sync::Arc;

use bitflags::bitflags;
use sluice_expr::{Cond, LogFormat, ProxyId};

use super::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    #[default]
    Tcp,
    Http,
    /// `mode health` of old files was refused by 2.x; `log`, `spop` and `haterm` belong to other issues.
    Log,
    Spop,
}

impl Mode {
    /// As written after `mode`.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Tcp => "tcp",
            Mode::Http => "http",
            Mode::Log => "log",
            Mode::Spop => "spop",
        }
    }
}

bitflags! {
    /// What a section can do.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct Caps: u8 {
        const FRONTEND = 1;
        const BACKEND = 2;
        const LISTEN = 3;
        const DEFAULTS = 4;
    }
}

bitflags! {
    /// The `option` lines that are a plain switch.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct Options: u64 {
        const ABORTONCLOSE = 1 << 0;
        const ACCEPT_INVALID_HTTP_REQUEST = 1 << 1;
        const ACCEPT_INVALID_HTTP_RESPONSE = 1 << 2;
        const ALLBACKUPS = 1 << 3;
        const CHECKCACHE = 1 << 4;
        const CLITCPKA = 1 << 5;
        const SRVTCPKA = 1 << 6;
        const CONTSTATS = 1 << 7;
        const DONTLOG_NORMAL = 1 << 8;
        const DONTLOGNULL = 1 << 9;
        const HTTP_BUFFER_REQUEST = 1 << 10;
        const HTTP_IGNORE_PROBES = 1 << 11;
        const HTTP_NO_DELAY = 1 << 12;
        const HTTP_PRETEND_KEEPALIVE = 1 << 13;
        const HTTP_USE_PROXY_HEADER = 1 << 14;
        const IDLE_CLOSE_ON_RESPONSE = 1 << 15;
        const INDEPENDENT_STREAMS = 1 << 16;
        const LOG_HEALTH_CHECKS = 1 << 17;
        const LOG_SEPARATE_ERRORS = 1 << 18;
        const LOGASAP = 1 << 19;
        const NOLINGER = 1 << 20;
        const PERSIST = 1 << 21;
        const PREFER_LAST_SERVER = 1 << 22;
        const SOCKET_STATS = 1 << 23;
        const SPLICE_AUTO = 1 << 24;
        const SPLICE_REQUEST = 1 << 25;
        const SPLICE_RESPONSE = 1 << 26;
        const TCP_SMART_ACCEPT = 1 << 27;
        const TCP_SMART_CONNECT = 1 << 28;
        const TRANSPARENT = 1 << 29;
        const DISABLE_H2_UPGRADE = 1 << 30;
        const H1_CASE_ADJUST_BOGUS_CLIENT = 1 << 31;
        const H1_CASE_ADJUST_BOGUS_SERVER = 1 << 32;
        const HTTP_DROP_REQUEST_TRAILERS = 1 << 33;
        const HTTP_DROP_RESPONSE_TRAILERS = 1 << 34;
        const HTTP_RESTRICT_REQ_HDR_NAMES_PRESERVE = 1 << 35;
        const HTTP_RESTRICT_REQ_HDR_NAMES_DELETE = 1 << 36;
        const HTTP_RESTRICT_REQ_HDR_NAMES_REJECT = 1 << 37;
        /// `no option splice-*` was written: the splicing Sluice does on its own is off too.
        const NO_SPLICE = 1 << 38;
        /// `no option tcp-smart-accept`: HTTP frontends have it otherwise.
        const NO_TCP_SMART_ACCEPT = 1 << 39;
    }
}

/// What happens to the connections between requests (`option http-keep-alive|http-server-close|httpclose`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ConnMode {
    #[default]
    KeepAlive,
    ServerClose,
    Close,
}

/// `http-reuse`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HttpReuse {
    Never,
    #[default]
    Safe,
    Aggressive,
    Always,
}

/// Timeouts in milliseconds; `None`: not set, waits forever.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Timeouts {
    pub client_ms: Option<u64>,
    pub client_fin_ms: Option<u64>,
    pub client_hs_ms: Option<u64>,
    pub server_ms: Option<u64>,
    pub server_fin_ms: Option<u64>,
    pub connect_ms: Option<u64>,
    pub queue_ms: Option<u64>,
    pub tarpit_ms: Option<u64>,
    pub tunnel_ms: Option<u64>,
    pub check_ms: Option<u64>,
    pub http_request_ms: Option<u64>,
    pub http_keep_alive_ms: Option<u64>,
}

bitflags! {
    /// `retry-on` conditions.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct RetryOn: u32 {
        const CONN_FAILURE = 1 << 0;
        const EMPTY_RESPONSE = 1 << 1;
        const JUNK_RESPONSE = 1 << 2;
        const RESPONSE_TIMEOUT = 1 << 3;
        const ZERO_RTT_REJECTED = 1 << 4;
        const S401 = 1 << 5;
        const S403 = 1 << 6;
        const S404 = 1 << 7;
        const S408 = 1 << 8;
        const S421 = 1 << 9;
        const S425 = 1 << 10;
        const S429 = 1 << 11;
        const S500 = 1 << 12;
        const S501 = 1 << 13;
        const S502 = 1 << 14;
        const S503 = 1 << 15;
        const S504 = 1 << 16;
    }
}

/// `option forwardfor` / `option originalto`.
#[derive(Debug, Clone)]
pub struct ForwardFor {
    /// Header to add to; `X-Forwarded-For` or `X-Original-To` by default.
    pub header: String,
    pub except: Option<(std::net::IpAddr, u8)>,
    /// Only where the header is not there yet.
    pub if_none: bool,
}

/// `option forwarded` (RFC 7239).
#[derive(Clone, Default)]
pub struct Forwarded {
    pub proto: bool,
    pub host: Option<ForwardedValue>,
    pub by: Option<ForwardedValue>,
    pub by_port: Option<ForwardedValue>,
    pub for_: Option<ForwardedValue>,
    pub for_port: Option<ForwardedValue>,
}

#[derive(Clone)]
pub enum ForwardedValue {
    /// Sluice's own idea: the connection's address, the request's host.
    Auto,
    Expr(sluice_expr::Expr),
}

/// `capture request|response header NAME len N` and `declare capture`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capture {
    /// `None` for a slot made by `declare capture` or a `capture` rule.
    pub header: Option<String>,
    pub len: usize,
}

/// `capture cookie NAME len N`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CookieCapture {
    pub name: String,
    /// `name*` as written `prefix`: the name only has to begin so.
    pub prefix: bool,
    pub len: usize,
}

/// `cookie NAME rewrite|insert|prefix ...`
#[derive(Clone)]
pub struct Cookie {
    pub name: String,
    pub mode: CookieMode,
    pub indirect: bool,
    pub nocache: bool,
    pub postonly: bool,
    pub preserve: bool,
    pub httponly: bool,
    pub secure: bool,
    pub dynamic: bool,
    pub domains: Vec<String>,
    pub maxidle_s: Option<u32>,
    pub maxlife_s: Option<u32>,
    pub attrs: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CookieMode {
    Rewrite,
    Insert,
    Prefix,
    /// None of the three was given: an application cookie that is only read.
    Passive,
}

/// One `bind` line.
#[derive(Clone)]
pub struct Bind {
    pub addrs: Vec<ListenAddr>,
    pub name: Option<Arc<str>>,
    pub id: Option<u32>,
    pub maxconn: u32,
    pub backlog: Option<u32>,
    pub accept_proxy: bool,
    pub accept_netscaler_cip: Option<u32>,
    pub defer_accept: bool,
    pub interface: Option<String>,
    pub mss: Option<i32>,
    pub nice: i32,
    pub namespace: Option<String>,
    /// `tcp-md5sig`
    pub tcp_md5sig: Option<String>,
    pub perms: UnixPerms,
    pub process: Vec<u32>,
    /// Workers (from 0) that serve it; empty: all.
    pub threads: Vec<u32>,
    /// `None`: as `tune.listener.default-shards` says.
    pub shards: Option<Shards>,
    /// `cc`: TCP congestion control.
    pub cc: Option<String>,
    pub tcp_ut_ms: Option<u64>,
    pub tfo: bool,
    pub transparent: bool,
    pub v4v6: bool,
    pub v6only: bool,
    pub proto: Option<String>,
    pub alpn: Option<String>,
    pub level: Option<CliLevel>,
    pub origin: Origin,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Shards {
    #[default]
    ByThread,
    ByGroup,
    Count(u32),
}

/// `stats enable` and its friends.
#[derive(Debug, Clone)]
pub struct Stats {
    pub uri: String,
    pub realm: String,
    /// `user:password` pairs; empty: open to all.
    pub auth: Vec<(String, String)>,
    pub refresh_s: Option<u32>,
    pub hide_version: bool,
    pub show_legends: bool,
    pub show_modules: bool,
    pub show_node: Option<String>,
    pub show_desc: Option<String>,
    /// `stats scope`: names, `.` is the proxy itself; empty: all.
    pub scope: Vec<String>,
    /// `stats show-...` was given as `stats hide-...`.
    pub enabled: bool,
}

impl Default for Stats {
    fn default() -> Self {
        Stats {
            uri: "/haproxy?stats".into(),
            realm: "HAProxy Statistics".into(),
            auth: Vec::new(),
            refresh_s: None,
            hide_version: false,
            show_legends: false,
            show_modules: false,
            show_node: None,
            show_desc: None,
            scope: Vec::new(),
            enabled: true,
        }
    }
}

/// TCP keep-alive: what was set of the kernel's three parameters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KeepAlive {
    pub count: Option<u32>,
    pub idle_s: Option<u32>,
    pub interval_s: Option<u32>,
}

/// `load-server-state-from-file`: where server states are read from at start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ServerStateSource {
    #[default]
    None,
    /// The file of the global section.
    Global,
    /// The backend's own file.
    Local,
}

/// `use_backend NAME if ...`
#[derive(Clone)]
pub struct UseBackend {
    pub target: BackendTarget,
    pub cond: Option<Cond>,
    pub origin: Origin,
}

#[derive(Clone)]
pub enum BackendTarget {
    Static(ProxyId),
    /// A log-format made at run time, looked up by name.
    Dynamic(LogFormat),
}

/// `use-server NAME if ...`
#[derive(Clone)]
pub struct UseServer {
    pub target: ServerTarget,
    pub cond: Option<Cond>,
    pub origin: Origin,
}

#[derive(Clone)]
pub enum ServerTarget {
    /// Index in the same backend.
    Static(u32),
    Dynamic(LogFormat),
}

/// `force-persist`/`ignore-persist` conditions.
#[derive(Clone)]
pub struct PersistRule {
    pub force: bool,
    pub cond: Cond,
}

/// Log lines of a frontend.
#[derive(Clone)]
pub struct Logging {
    pub targets: Vec<LogTarget>,
    /// Compiled `log-format`; what `option httplog`/`tcplog` stand for, or the default line when neither was given.
    pub format: LogFormat,
    /// `None`: errors that end before a request is there use the built-in connection error line.
    pub error_format: Option<LogFormat>,
    pub sd_format: Option<LogFormat>,
    pub tag: Option<String>,
    /// `log-steps`; `None`: at the end, or as early as the format and `option logasap` let it.
    pub steps: Option<LogSteps>,
    /// A target has a profile.
    pub profiled: bool,
    /// The format needs nothing that is only known at the end (`option logasap` apart): connection logs of the
    /// default format are written when the stream starts.
    pub at_start: bool,
}

/// A frontend, backend or both.
pub struct Proxy {
    pub id: ProxyId,
    pub name: Arc<str>,
    /// `id N`, or automatic.
    pub puid: u32,
    pub caps: Caps,
    pub mode: Mode,
    /// Name of the `defaults` section it came from.
    pub defaults_name: Option<String>,
    pub description: Option<String>,
    pub disabled: bool,
    pub origin: Origin,

    // frontend side
    pub binds: Vec<Bind>,
    /// 0: not given.
    pub maxconn: u32,
    pub backlog: Option<u32>,
    pub rate_limit_sessions: u32,
    pub default_backend: Option<ProxyId>,
    pub use_backends: Vec<UseBackend>,
    pub monitor_uri: Option<String>,
    pub monitor_fail: Vec<Cond>,
    pub captures_req: Vec<Capture>,
    pub captures_res: Vec<Capture>,
    pub capture_cookie: Option<CookieCapture>,
    pub unique_id_format: Option<LogFormat>,
    pub unique_id_header: Option<String>,
    pub log: Logging,
    pub clf: bool,

    // both
    pub options: Options,
    pub conn_mode: ConnMode,
    pub timeouts: Timeouts,
    pub forwardfor: Option<ForwardFor>,
    pub originalto: Option<ForwardFor>,
    pub forwarded: Option<Forwarded>,
    pub errors: ErrorReplies,
    pub stats: Option<Arc<Stats>>,
    pub stats_admin: Vec<Cond>,
    pub stats_http_request: Vec<Rule>,
    pub tcp_request_connection: Vec<Rule>,
    pub tcp_request_session: Vec<Rule>,
    pub tcp_request_content: Vec<Rule>,
    pub tcp_response_content: Vec<Rule>,
    /// `block` lines of old files come first, then `http-request`, then `redirect` lines, as HAProxy orders them.
    pub http_request: Vec<Rule>,
    pub http_response: Vec<Rule>,
    pub http_after_response: Vec<Rule>,
    pub tcp_req_inspect_delay_ms: Option<u64>,
    pub tcp_res_inspect_delay_ms: Option<u64>,
    /// `filter bwlim-in/out NAME ...`, in order.
    pub bwlims: Vec<Arc<BandwidthLimit>>,

    // backend side
    pub servers: Vec<Arc<Server>>,
    pub balance: Balance,
    pub hash_type: HashType,
    pub retries: u32,
    pub retry_on: RetryOn,
    /// `option redispatch [N]`: 0 off, else the interval (-1: last try only).
    pub redispatch: i32,
    pub http_reuse: HttpReuse,
    pub fullconn: u32,
    pub max_keep_alive_queue: Option<i64>,
    pub cookie: Option<Cookie>,
    pub dynamic_cookie_key: Option<String>,
    pub persist_rules: Vec<PersistRule>,
    /// `be-unpublished`: content switching passes it by.
    pub unpublished: bool,
    /// `force-be-switch`: of a frontend, when it does not.
    pub force_be_switch: Vec<Cond>,
    pub use_servers: Vec<UseServer>,
    pub source: Option<Source>,
    pub check: CheckKind,
    /// `dispatch ADDR`
    pub dispatch: Option<PeerAddr>,
    /// `dispatch` or `option transparent`, and no `balance`: servers get only what persistence or `use-server` gives them.
    pub unbalanced: bool,
    pub http_send_name_header: Option<String>,
    pub email_alert: Option<Arc<EmailAlert>>,
    /// `load-server-state-from-file`
    pub server_state: ServerStateSource,
    /// `server-state-file-name FILE`; `None`: the backend's name.
    pub server_state_file: Option<String>,
    /// `persist rdp-cookie`: the cookie's name.
    pub persist_rdp_cookie: Option<String>,
    /// `clitcpka-*` and `srvtcpka-*`; `option clitcpka`/`srvtcpka` turn keep-alive on.
    pub clitcpka: KeepAlive,
    pub srvtcpka: KeepAlive,
    pub hash_balance_factor: u32,
}

impl Proxy {
    pub fn is_frontend(&self) -> bool {
        self.caps.contains(Caps::FRONTEND)
    }
    pub fn is_backend(&self) -> bool {
        self.caps.contains(Caps::BACKEND)
    }
}
