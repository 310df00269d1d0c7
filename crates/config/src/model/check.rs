//! Health checks as configured: `option httpchk`, `option tcp-check`, the `check` words of a server line.

use std::sync::Arc;

use sluice_expr::{Expr, LogFormat};

/// What a backend's servers are asked.
#[derive(Clone, Default)]
pub enum CheckKind {
    /// A TCP connection that is accepted is enough.
    #[default]
    Tcp,
    /// `option httpchk` or `option tcp-check` with its rules, or one of the protocol checks expressed as such rules.
    Rules(Arc<CheckRules>),
    /// `option external-check`: a program.
    External(Arc<ExternalCheck>),
}

/// `external-check command` and `external-check path`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExternalCheck {
    pub command: String,
    /// The program's `PATH`.
    pub path: Option<String>,
}

/// A sequence of check steps.
#[derive(Clone, Default)]
pub struct CheckRules {
    /// Name shown in logs and stats: the steps speak HTTP (`L7OK`) or raw TCP.
    pub http: bool,
    /// "HTTP", "SSL hello", "MySQL", ... for messages.
    pub proto: &'static str,
    pub steps: Vec<CheckStep>,
    /// `http-check disable-on-404`: a 404 means that the server wants no new sessions (state NOLB).
    pub disable_on_404: bool,
    /// `http-check send-state`: tell the server what is thought of it in `X-Haproxy-Server-State`.
    pub send_state: bool,
}

/// One `http-check`/`tcp-check` line.
#[derive(Clone)]
pub struct CheckStep {
    pub comment: Option<String>,
    /// From 1, as named in check failures ("step 2 of tcp-check").
    pub number: u32,
    pub action: CheckAction,
}

#[derive(Clone)]
pub enum CheckAction {
    /// `connect [port P] [addr A] [send-proxy] [linger] ...`
    Connect {
        port: Option<Expr>,
        addr: Option<super::PeerAddr>,
        send_proxy: bool,
        /// Through the server's `socks4` proxy.
        via_socks4: bool,
        linger: bool,
    },
    /// `tcp-check send`/`send-binary`, constant bytes.
    Send(Vec<u8>),
    /// `send-lf`; `binary` for `send-binary-lf`.
    SendFormat {
        format: LogFormat,
        binary: bool,
    },
    /// `http-check send meth M uri U ver V hdr N F body B`. Who sends it adds `content-length` when there is a body, and
    /// `connection: close` to HTTP/1.1.
    SendHttp {
        method: Vec<u8>,
        uri: LogFormat,
        version: Vec<u8>,
        headers: Vec<(String, LogFormat)>,
        body: Option<LogFormat>,
    },
    Expect(CheckExpect),
    SetVar {
        var: sluice_expr::vars::VarRef,
        expr: Expr,
    },
    SetVarFormat {
        var: sluice_expr::vars::VarRef,
        format: LogFormat,
    },
    UnsetVar(sluice_expr::vars::VarRef),
}

/// `expect [min-recv N] [!] MATCH PATTERN` and what to report.
#[derive(Clone)]
pub struct CheckExpect {
    pub negate: bool,
    pub matcher: CheckMatch,
    pub min_recv: Option<i32>,
    /// `ok-status`, `error-status`, `tout-status` as written ("L7OK", "L7RSP"...).
    pub ok_status: Option<String>,
    pub error_status: Option<String>,
    pub tout_status: Option<String>,
    pub on_success: Option<LogFormat>,
    pub on_error: Option<LogFormat>,
    pub status_code: Option<Expr>,
}

#[derive(Clone)]
pub enum CheckMatch {
    /// Substring of the received bytes or body.
    String(Vec<u8>),
    Regex(Arc<sluice_expr::pattern::Regex>),
    Binary(Vec<u8>),
    BinaryRegex(Arc<sluice_expr::pattern::Regex>),
    StringFormat(LogFormat),
    BinaryFormat(LogFormat),
    /// `status 200-399,404`
    Status(Vec<(u16, u16)>),
    StatusRegex(Arc<sluice_expr::pattern::Regex>),
    Header {
        name: NameMatch,
        value: Option<NameMatch>,
        full: bool,
    },
    /// The first bytes.
    Prefix(Vec<u8>),
    /// A binary answer that only its protocol explains.
    Protocol(ProtocolAnswer),
}

impl CheckMatch {
    /// Looks at what was received, or at a body; the others look at a response's head.
    pub fn is_of_content(&self) -> bool {
        !matches!(
            self,
            CheckMatch::Status(_) | CheckMatch::StatusRegex(_) | CheckMatch::Header { .. }
        )
    }
}

/// The answers of the protocol checks that are binary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProtocolAnswer {
    MysqlGreeting,
    MysqlResult,
    LdapBind,
    SpopHello,
}

/// `hdr name [ -m meth ] <name>`
#[derive(Clone)]
pub enum NameMatch {
    Exact(LogFormat),
    Prefix(LogFormat),
    Suffix(LogFormat),
    Sub(LogFormat),
    Regex(Arc<sluice_expr::pattern::Regex>),
}

/// The `check` words of one server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckParams {
    pub enabled: bool,
    pub inter_ms: u64,
    pub fastinter_ms: Option<u64>,
    pub downinter_ms: Option<u64>,
    pub rise: u32,
    pub fall: u32,
    pub addr: Option<super::PeerAddr>,
    pub port: Option<u16>,
    pub send_proxy: bool,
    pub via_socks4: bool,
    /// `observe layer4|layer7`, `error-limit`, `on-error`.
    pub observe: Option<Observe>,
    pub error_limit: u32,
    pub on_error: OnError,
    pub init_state: InitState,
}

impl Default for CheckParams {
    fn default() -> Self {
        CheckParams {
            enabled: false,
            inter_ms: 2000,
            fastinter_ms: None,
            downinter_ms: None,
            rise: 2,
            fall: 3,
            addr: None,
            port: None,
            send_proxy: false,
            via_socks4: false,
            observe: None,
            error_limit: 10,
            on_error: OnError::FailCheck,
            init_state: InitState::Up,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Observe {
    Layer4,
    Layer7,
}

/// `init-state`: what is thought of a server before its first check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InitState {
    FullyUp,
    /// One failure takes it down.
    Up,
    /// One success takes it up.
    Down,
    FullyDown,
}

impl CheckParams {
    /// The health a server begins with, at the start and after maintenance.
    pub fn first_counter(&self) -> u32 {
        match self.init_state {
            InitState::FullyUp => self.rise + self.fall - 1,
            InitState::Up => self.rise,
            InitState::Down => self.rise.saturating_sub(1),
            InitState::FullyDown => 0,
        }
    }
    /// A server that is checked is not used before its first good check.
    pub fn begins_down(&self) -> bool {
        self.enabled && matches!(self.init_state, InitState::Down | InitState::FullyDown)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnError {
    FastInter,
    FailCheck,
    SuddenDeath,
    MarkDown,
}
