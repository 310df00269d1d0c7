//! The configuration as written: what the keyword handlers fill in. Names are still names; [`crate::resolve`] binds them
//! and makes the [`crate::model`].

use std::collections::HashMap;
use std::sync::Arc;

use sluice_expr::{Cond, LogFormat};

use crate::line::{Line, Written};
use crate::model::*;
use crate::resolve::Resolver;

/// All sections as written.
#[derive(Default)]
pub struct Raw {
    pub global: Global,
    /// The lines of `global.logs`, in step with it.
    pub global_log_lines: Vec<Arc<Line>>,
    /// Lines of `global` that name users or groups of the machine.
    pub account_lines: Vec<Arc<Line>>,
    /// `stats socket` and other lines of `global` that name a proxy or a user list are resolved from here.
    pub proxies: Vec<RawProxy>,
    /// Where in `proxies` each name is, in order: large files have tens of thousands.
    pub(crate) by_name: HashMap<Arc<str>, Vec<usize>>,
    pub userlists: Vec<(Userlist, Arc<Line>)>,
    /// `group NAME [users a,b]` lines: user list index, group, users.
    pub userlist_groups: Vec<(usize, String, Option<Written>)>,
    /// Groups named on `user` lines: user list index, group, where.
    pub userlist_group_uses: Vec<(usize, String, Written)>,
    /// `cpu-map` lines, expanded once the number of workers is known.
    pub cpu_maps: Vec<RawCpuMap>,
    pub rings: Vec<(Ring, Arc<Line>)>,
    pub http_errors: Vec<HttpErrors>,
    pub mailers: Vec<(Mailers, Arc<Line>)>,
    pub log_profiles: Vec<(LogProfile, Arc<Line>)>,
    pub log_forwards: Vec<RawLogForward>,
}

impl Raw {
    /// Adds a proxy; gives its index.
    pub(crate) fn add_proxy(&mut self, proxy: RawProxy) -> usize {
        let index = self.proxies.len();
        self.by_name
            .entry(proxy.name.clone())
            .or_default()
            .push(index);
        self.proxies.push(proxy);
        index
    }

    /// The first proxy of this name with at least one of these capabilities.
    pub(crate) fn proxy_with_any(&self, name: &str, caps: Caps) -> Option<usize> {
        let mut found = self.by_name.get(name)?.iter();
        found
            .find(|i| self.proxies[**i].caps.intersects(caps))
            .copied()
    }
}

/// One `cpu-map` line; numbers of processes and threads are from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawCpuMap {
    pub auto: bool,
    pub processes: Vec<u32>,
    /// `None`: none were written.
    pub threads: Option<Vec<u32>>,
    pub cpus: Vec<u32>,
    pub line: Arc<Line>,
}

/// `http-errors NAME`: a set of replies that proxies refer to.
pub struct HttpErrors {
    pub name: String,
    pub line: Arc<Line>,
    pub errors: ErrorReplies,
}

/// A rule whose action may still need a name.
#[derive(Clone)]
pub struct RawRule {
    pub cond: Option<Cond>,
    pub action: RawAction,
    pub line: Arc<Line>,
}

#[derive(Clone)]
pub enum RawAction {
    Ready(Action),
    /// Made when every section is known (a filter's name, `errorfiles NAME`). `None` after it reported an error.
    Late(Arc<LateAction>),
}

/// Makes an action from what the whole configuration knows. The proxy is the one the rule stands in.
pub type LateAction = dyn Fn(&mut Resolver<'_>, &RawProxy) -> Option<Action> + Send + Sync;

#[derive(Clone)]
pub struct RawUseBackend {
    /// A name, or a log-format when it holds a `%`.
    pub target: Written,
    pub cond: Option<Cond>,
}

#[derive(Clone)]
pub struct RawUseServer {
    pub target: Written,
    pub cond: Option<Cond>,
}

/// A `log-forward` section; its targets still name rings and the global ones.
pub struct RawLogForward {
    pub forward: LogForward,
    pub logs: Vec<RawLog>,
    pub line: Arc<Line>,
}

/// One `log` line.
#[derive(Clone)]
pub enum RawLog {
    /// `log global`: the targets of the global section.
    Global(Arc<Line>),
    Target(LogTarget, Arc<Line>),
}

/// The `email-alert` lines of a proxy; the last of each kind counts.
#[derive(Debug, Clone, Default)]
pub struct RawEmailAlert {
    pub mailers: Option<Written>,
    pub from: Option<String>,
    pub to: Option<String>,
    pub level: Option<u8>,
    pub myhostname: Option<String>,
    /// The last of them.
    pub line: Option<Arc<Line>>,
}

/// How the traffic line is made; the last `log-format`, `option httplog`, ... wins.
#[derive(Clone)]
pub enum RawLogFormat {
    /// Compiled in the proxy that uses it, because a `defaults` section cannot know what is valid there.
    Custom(Written),
    /// `option httplog`, `clf` for `option httplog clf`.
    Http { clf: bool, line: Arc<Line> },
    /// `option httpslog`
    Https { line: Arc<Line> },
    /// `option tcplog`
    Tcp { clf: bool, line: Arc<Line> },
}

/// A server line or `default-server`: the model's server, plus what is still a name.
#[derive(Clone)]
pub struct RawServer {
    pub server: Server,
    pub track: Option<Written>,
    pub line: Arc<Line>,
}

/// What a proxy inherits from its `defaults` section.
#[derive(Clone)]
pub struct Settings {
    /// `None`: never said; tcp.
    pub mode: Option<Mode>,
    pub disabled: bool,
    /// `option X` and `no option X`, each with its line. `default option X` removes both.
    pub options: Options,
    pub no_options: Options,
    pub option_lines: HashMap<u64, Arc<Line>>,
    pub conn_mode: Option<ConnMode>,
    pub timeouts: Timeouts,

    pub maxconn: u32,
    pub backlog: Option<u32>,
    pub rate_limit_sessions: u32,
    pub default_backend: Option<Written>,
    pub monitor_uri: Option<String>,
    pub unique_id_format: Option<Written>,
    pub unique_id_header: Option<String>,

    pub logs: Vec<RawLog>,
    /// `no log` or `log` lines of the section itself replace the inherited ones.
    pub log_format: Option<RawLogFormat>,
    pub error_log_format: Option<Written>,
    pub log_format_sd: Option<Written>,
    pub log_tag: Option<String>,
    pub log_steps: Option<LogSteps>,

    pub forwardfor: Option<ForwardFor>,
    pub originalto: Option<ForwardFor>,
    pub forwarded: Option<Forwarded>,
    pub errors: Vec<RawError>,
    pub stats: Option<Stats>,

    pub default_server: Option<RawServer>,
    pub balance: Option<Balance>,
    pub balance_line: Option<Arc<Line>>,
    pub hash_type: HashType,
    pub hash_balance_factor: u32,
    pub retries: Option<u32>,
    pub retry_on: Option<RetryOn>,
    pub redispatch: i32,
    pub http_reuse: Option<HttpReuse>,
    pub fullconn: u32,
    pub max_keep_alive_queue: Option<i64>,
    pub cookie: Option<Cookie>,
    pub dynamic_cookie_key: Option<String>,
    pub source: Option<Source>,
    pub check: RawCheck,
    pub http_send_name_header: Option<String>,
    pub server_state: ServerStateSource,
    /// `server-state-file-name FILE`; `None`: the backend's name.
    pub server_state_file: Option<String>,
    pub persist_rdp_cookie: Option<String>,
    pub clitcpka: KeepAlive,
    pub srvtcpka: KeepAlive,
    pub email: Option<RawEmailAlert>,
}

impl Settings {
    /// `option X`.
    pub fn set_option(&mut self, option: Options, line: &Arc<Line>) {
        self.no_options.remove(option);
        self.options.insert(option);
        self.option_lines.insert(option.bits(), line.clone());
    }

    /// `no option X`.
    pub fn unset_option(&mut self, option: Options, line: &Arc<Line>) {
        self.options.remove(option);
        self.no_options.insert(option);
        self.option_lines.insert(option.bits(), line.clone());
    }

    /// `default option X`: as if it had never been said.
    pub fn forget_option(&mut self, option: Options) {
        self.options.remove(option);
        self.no_options.remove(option);
        self.option_lines.remove(&option.bits());
    }
}

/// What is known of a backend's checks. The rules of `http-check` and of `tcp-check` are kept apart: the option decides
/// which of them is used.
#[derive(Clone, Default)]
pub struct RawCheck {
    /// The last `option ...chk`, with its line.
    pub option: Option<(CheckOption, Arc<Line>)>,
    pub http: Vec<RawCheckStep>,
    pub tcp: Vec<RawCheckStep>,
    pub disable_on_404: bool,
    pub send_state: bool,
    /// `external-check command` and `external-check path`
    pub command: Option<String>,
    pub path: Option<String>,
}

/// Which kind of check an option asked for.
#[derive(Clone)]
pub enum CheckOption {
    /// `option httpchk`: what its arguments say of the first request, and the URI `/` for those that say none.
    Http { first: HttpSend, slash: LogFormat },
    /// `option tcp-check`
    Tcp,
    /// One of the protocol checks, complete.
    Fixed(Arc<CheckRules>),
    /// `option external-check`
    External,
}

/// One `http-check` or `tcp-check` line.
#[derive(Clone)]
pub struct RawCheckStep {
    pub comment: Option<String>,
    pub action: RawCheckAction,
    pub line: Arc<Line>,
}

#[derive(Clone)]
pub enum RawCheckAction {
    Ready(CheckAction),
    /// `http-check send`: what it leaves out comes from `option httpchk`.
    Send(HttpSend),
    /// `comment` alone.
    Comment,
}

/// The parts of a check's HTTP request that were written.
#[derive(Clone, Default)]
pub struct HttpSend {
    pub method: Option<Vec<u8>>,
    pub uri: Option<LogFormat>,
    pub version: Option<Vec<u8>>,
    pub headers: Vec<(String, LogFormat)>,
    pub body: Option<LogFormat>,
}

/// `errorfile`, `errorloc`, `errorfiles`, `http-error` lines in order.
#[derive(Clone)]
pub enum RawError {
    One {
        status: u16,
        reply: ErrorReply,
    },
    /// `errorfiles NAME [code ...]`; no codes: all of the section.
    Section {
        name: Written,
        codes: Vec<u16>,
    },
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            mode: None,
            disabled: false,
            options: Options::empty(),
            no_options: Options::empty(),
            option_lines: HashMap::new(),
            conn_mode: None,
            timeouts: Timeouts::default(),
            maxconn: 0,
            backlog: None,
            rate_limit_sessions: 0,
            default_backend: None,
            monitor_uri: None,
            unique_id_format: None,
            unique_id_header: None,
            logs: Vec::new(),
            log_format: None,
            error_log_format: None,
            log_format_sd: None,
            log_tag: None,
            log_steps: None,
            forwardfor: None,
            originalto: None,
            forwarded: None,
            errors: Vec::new(),
            stats: None,
            default_server: None,
            balance: None,
            balance_line: None,
            hash_type: HashType::default(),
            hash_balance_factor: 0,
            retries: None,
            retry_on: None,
            redispatch: 0,
            http_reuse: None,
            fullconn: 0,
            max_keep_alive_queue: None,
            cookie: None,
            dynamic_cookie_key: None,
            source: None,
            check: RawCheck::default(),
            http_send_name_header: None,
            server_state: ServerStateSource::None,
            server_state_file: None,
            persist_rdp_cookie: None,
            clitcpka: KeepAlive::default(),
            srvtcpka: KeepAlive::default(),
            email: None,
        }
    }
}

/// A `defaults`, `frontend`, `backend` or `listen` section as written.
pub struct RawProxy {
    pub name: Arc<str>,
    pub caps: Caps,
    /// The header line.
    pub line: Arc<Line>,
    /// The `defaults` section it came from, an index among them (its rules run before this section's own).
    pub defaults: Option<usize>,
    pub settings: Settings,

    /// Keywords this section has said itself, where saying one twice is worth a warning.
    pub seen: std::collections::HashSet<String>,

    // Never inherited as values.
    pub id: Option<u32>,
    pub description: Option<String>,
    pub binds: Vec<Bind>,
    /// The lines of `binds`, in step with it.
    pub bind_lines: Vec<Arc<Line>>,
    pub servers: Vec<RawServer>,
    pub acls: sluice_expr::AclTable,
    /// The lines that declared them.
    pub acl_lines: Vec<Arc<Line>>,
    pub use_backends: Vec<RawUseBackend>,
    pub use_servers: Vec<RawUseServer>,
    pub persist_rules: Vec<PersistRule>,
    pub unpublished: bool,
    pub force_be_switch: Vec<Cond>,
    pub monitor_fail: Vec<Cond>,
    pub captures_req: Vec<Capture>,
    pub captures_res: Vec<Capture>,
    pub capture_cookie: Option<CookieCapture>,
    pub stats_admin: Vec<Cond>,
    pub stats_http_request: Vec<RawRule>,
    pub tcp_request_connection: Vec<RawRule>,
    pub tcp_request_session: Vec<RawRule>,
    pub tcp_request_content: Vec<RawRule>,
    pub tcp_response_content: Vec<RawRule>,
    /// `block` lines of old files, which come before every `http-request`.
    pub block: Vec<RawRule>,
    pub http_request: Vec<RawRule>,
    pub http_response: Vec<RawRule>,
    pub http_after_response: Vec<RawRule>,
    /// `redirect` lines, which run after every `http-request`.
    pub redirects: Vec<RawRule>,
    pub tcp_req_inspect_delay_ms: Option<u64>,
    pub tcp_res_inspect_delay_ms: Option<u64>,
    pub bwlims: Vec<Arc<BandwidthLimit>>,
    pub dispatch: Option<PeerAddr>,
}

impl RawProxy {
    /// A section that begins with the settings of its `defaults`.
    pub fn new(name: &str, caps: Caps, line: &Arc<Line>, settings: Settings) -> Self {
        RawProxy {
            name: name.into(),
            caps,
            line: line.clone(),
            defaults: None,
            settings,
            seen: std::collections::HashSet::new(),
            id: None,
            description: None,
            binds: Vec::new(),
            bind_lines: Vec::new(),
            servers: Vec::new(),
            acls: sluice_expr::AclTable::default(),
            acl_lines: Vec::new(),
            use_backends: Vec::new(),
            use_servers: Vec::new(),
            persist_rules: Vec::new(),
            unpublished: false,
            force_be_switch: Vec::new(),
            monitor_fail: Vec::new(),
            captures_req: Vec::new(),
            captures_res: Vec::new(),
            capture_cookie: None,
            stats_admin: Vec::new(),
            stats_http_request: Vec::new(),
            tcp_request_connection: Vec::new(),
            tcp_request_session: Vec::new(),
            tcp_request_content: Vec::new(),
            tcp_response_content: Vec::new(),
            block: Vec::new(),
            http_request: Vec::new(),
            http_response: Vec::new(),
            http_after_response: Vec::new(),
            redirects: Vec::new(),
            tcp_req_inspect_delay_ms: None,
            tcp_res_inspect_delay_ms: None,
            bwlims: Vec::new(),
            dispatch: None,
        }
    }

    /// What HAProxy calls it: "frontend", "backend", "proxy" (for `listen`), "defaults".
    pub fn kind(&self) -> &'static str {
        crate::section::header::caps_name(self.caps)
    }

    /// "frontend 'web'".
    pub fn whereabouts(&self) -> String {
        format!("{} '{}'", self.kind(), self.name)
    }

    pub fn is_defaults(&self) -> bool {
        self.caps.contains(Caps::DEFAULTS)
    }
    pub fn is_frontend(&self) -> bool {
        self.caps.contains(Caps::FRONTEND)
    }
    pub fn is_backend(&self) -> bool {
        self.caps.contains(Caps::BACKEND)
    }
    /// The mode as far as it is known now: HAProxy's default is tcp.
    pub fn mode(&self) -> Mode {
        self.settings.mode.unwrap_or_default()
    }
}
