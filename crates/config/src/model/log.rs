//! Where logs go, in which envelope, at which steps of a stream, and what `log-profile` sections make of the lines.

use std::sync::Arc;

use sluice_expr::LogFormat;

use super::{Bind, PeerAddr};

/// One `log` line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogTarget {
    pub addr: PeerAddr,
    /// Bytes a message may have; 1024 when not given.
    pub max_len: usize,
    pub format: LogFormatKind,
    /// `sample RANGES:SIZE`: which messages of a cycle are sent.
    pub sample: Option<LogSample>,
    /// 0 kern ... 23 local7.
    pub facility: u8,
    /// Least urgent level that is sent, 0 emerg ... 7 debug.
    pub level: u8,
    /// Levels more urgent than this are sent as this.
    pub min_level: u8,
    /// `profile NAME`: what its lines are at which step.
    pub profile: Option<Arc<LogProfile>>,
    /// Came from `log global`.
    pub from_global: bool,
}

/// `log-forward NAME`: log messages that come in and are sent on (manual chapter 3.10).
#[derive(Clone)]
pub struct LogForward {
    pub name: String,
    /// `dgram-bind`
    pub datagrams: Vec<Bind>,
    /// `bind`
    pub binds: Vec<Bind>,
    pub targets: Vec<LogTarget>,
    /// Most connections at once; 0: no limit of its own.
    pub maxconn: u32,
    pub backlog: Option<u32>,
    /// How long a connection may say nothing.
    pub timeout_client_ms: Option<u64>,
    /// `option assume-rfc6587-ntf`: a message on a connection ends with its line, whatever it begins with.
    pub lines_only: bool,
    /// `option dont-parse-log`
    pub unparsed: bool,
    pub host: LogHost,
}

/// `option host`: what becomes of a message's host name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogHost {
    #[default]
    Keep,
    /// The sender's address where there is none.
    Fill,
    /// The sender's address behind it.
    Append,
    /// The sender's address instead.
    Replace,
}

/// A step of a stream at which a line can be written: those of a transaction, the early end of a connection, and the rule
/// sets whose `do-log` asks for one (HAProxy 3.1: `log-profile`, `log-steps`, `%OG`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogStep {
    Accept,
    Request,
    Connect,
    Response,
    Close,
    Error,
    TcpReqConn,
    TcpReqSess,
    TcpReqCont,
    TcpResCont,
    HttpReq,
    HttpRes,
    HttpAfterRes,
}

impl LogStep {
    /// Each by the name `on` has for it, and by what `%OG` shows.
    pub const ALL: [(LogStep, &'static str, &'static str); 13] = [
        (LogStep::Accept, "accept", "txn_accept"),
        (LogStep::Request, "request", "txn_request"),
        (LogStep::Connect, "connect", "txn_connect"),
        (LogStep::Response, "response", "txn_response"),
        (LogStep::Close, "close", "txn_close"),
        (LogStep::Error, "error", "sess_error"),
        (LogStep::TcpReqConn, "tcp-req-conn", "tcp-req-conn"),
        (LogStep::TcpReqSess, "tcp-req-sess", "tcp-req-sess"),
        (LogStep::TcpReqCont, "tcp-req-cont", "tcp-req-cont"),
        (LogStep::TcpResCont, "tcp-res-cont", "tcp-res-cont"),
        (LogStep::HttpReq, "http-req", "http-req"),
        (LogStep::HttpRes, "http-res", "http-res"),
        (LogStep::HttpAfterRes, "http-after-res", "http-after-res"),
    ];

    /// What `%OG` shows.
    pub fn origin(self) -> &'static str {
        Self::ALL[self as usize].2
    }
}

bitflags::bitflags! {
    /// `log-steps`: the steps of a transaction at which lines are written.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct LogSteps: u8 {
        const ACCEPT = 1 << LogStep::Accept as u8;
        const REQUEST = 1 << LogStep::Request as u8;
        const CONNECT = 1 << LogStep::Connect as u8;
        const RESPONSE = 1 << LogStep::Response as u8;
        const CLOSE = 1 << LogStep::Close as u8;
    }
}

impl LogSteps {
    /// The set of one step of a transaction.
    pub fn of(step: LogStep) -> Option<LogSteps> {
        1u8.checked_shl(step as u32).and_then(LogSteps::from_bits)
    }
}

/// `log-profile NAME`: lines of the targets that name it.
#[derive(Debug, Clone, Default)]
pub struct LogProfile {
    pub name: String,
    pub tag: Option<String>,
    /// `on any`
    pub any: Option<LogOverride>,
    /// `on STEP`, at most one for each.
    pub steps: Vec<(LogStep, LogOverride)>,
}

/// `on STEP [drop] [format FMT] [sd FMT]`.
#[derive(Debug, Clone, Default)]
pub struct LogOverride {
    pub drop: bool,
    /// Instead of `log-format` and `error-log-format`.
    pub format: Option<LogFormat>,
    /// Instead of `log-format-sd`.
    pub sd: Option<LogFormat>,
}

impl LogProfile {
    /// What it says of a step.
    pub fn at(&self, step: LogStep) -> Option<&LogOverride> {
        let own = self.steps.iter().find(|(known, _)| *known == step);
        own.map(|(_, say)| say).or(self.any.as_ref())
    }
}

/// Names of profiles are unique.
impl PartialEq for LogProfile {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for LogProfile {}

/// `sample 1,3-4:5`: ranges from 1 within a cycle of `size` messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogSample {
    pub ranges: Vec<(u32, u32)>,
    pub size: u32,
}

impl LogFormatKind {
    /// Reads the name of a format.
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "local" => LogFormatKind::Local,
            "rfc3164" => LogFormatKind::Rfc3164,
            "rfc5424" => LogFormatKind::Rfc5424,
            "priority" => LogFormatKind::Priority,
            "short" => LogFormatKind::Short,
            "timed" => LogFormatKind::Timed,
            "iso" => LogFormatKind::Iso,
            "raw" => LogFormatKind::Raw,
            _ => return None,
        })
    }
}

/// `format NAME` of a log target: the envelope around the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogFormatKind {
    /// Not given: rfc3164 to addresses, raw to file descriptors.
    #[default]
    Unspecified,
    Local,
    Rfc3164,
    Rfc5424,
    Priority,
    Short,
    Timed,
    Iso,
    Raw,
}
