//! Rules and their actions: `tcp-request`, `tcp-response`, `http-request`, `http-response`, `http-after-response`.

use std::sync::Arc;

use sluice_expr::pattern::Regex;
use sluice_expr::vars::VarRef;
use sluice_expr::{Cond, Expr, LogFormat};
use sluice_http::HeaderLine;

use super::*;

/// One rule of a rule set.
#[derive(Clone)]
pub struct Rule {
    pub cond: Option<Cond>,
    pub action: Action,
    pub origin: Origin,
}

/// What a rule does. Which actions a rule set accepts is decided by the keyword table; the executor handles them all.
#[derive(Clone)]
pub enum Action {
    // verdicts
    Allow,
    /// `tcp-request content accept`
    Accept,
    /// `tcp-request ... reject`, `http-request reject`
    Reject,
    SilentDrop {
        rst_ttl: Option<u8>,
    },
    Deny(Arc<Reply>),
    Tarpit(Arc<Reply>),
    Return(Arc<Reply>),
    Redirect(Arc<Redirect>),
    Auth {
        realm: String,
    },
    UseService(Service),
    /// `tcp-response content close`
    Close,
    /// `tcp-request content switch-mode http`
    SwitchModeHttp,

    // message
    AddHeader {
        name: String,
        value: LogFormat,
        /// All of it, when the value is a constant.
        line: Option<HeaderLine>,
    },
    SetHeader {
        name: String,
        value: LogFormat,
        /// All of it, when the value is a constant.
        line: Option<HeaderLine>,
    },
    DelHeader(HeaderMatch),
    /// Headers by a binary list ([`sluice_expr::header_list`]); `prefix` goes before each name.
    HeaderList {
        edit: HeaderListEdit,
        list: Expr,
        prefix: Option<LogFormat>,
    },
    ReplaceHeader {
        name: String,
        regex: Arc<Regex>,
        replace: LogFormat,
    },
    ReplaceValue {
        name: String,
        regex: Arc<Regex>,
        replace: LogFormat,
    },
    SetMethod(LogFormat),
    SetPath(LogFormat),
    SetPathq(LogFormat),
    SetQuery(LogFormat),
    SetUri(LogFormat),
    ReplacePath {
        regex: Arc<Regex>,
        replace: LogFormat,
    },
    ReplacePathq {
        regex: Arc<Regex>,
        replace: LogFormat,
    },
    ReplaceUri {
        regex: Arc<Regex>,
        replace: LogFormat,
    },
    NormalizeUri(NormalizeUri),
    SetStatus {
        code: u16,
        reason: Option<String>,
    },
    EarlyHint {
        name: String,
        value: LogFormat,
    },
    /// `wait-for-body time T [at-least SIZE]`
    WaitForBody {
        time_ms: u64,
        at_least: u64,
    },
    WaitForHandshake,
    StrictMode(bool),
    DisableL7Retry,

    // stream
    SetVar {
        var: VarRef,
        expr: Expr,
        conds: VarConds,
    },
    SetVarFormat {
        var: VarRef,
        format: LogFormat,
        conds: VarConds,
    },
    UnsetVar(VarRef),
    Capture {
        expr: Expr,
        slot: usize,
        len: usize,
    },
    SetLogLevel(Option<u8>),
    /// `do-log [profile NAME]`
    DoLog {
        step: LogStep,
        profile: Option<Arc<LogProfile>>,
    },
    SetNice(i32),
    SetMark {
        side: sluice_expr::env::Side,
        value: NumberSource,
    },
    SetTos {
        side: sluice_expr::env::Side,
        value: NumberSource,
    },
    SetSrc(Expr),
    SetSrcPort(Expr),
    SetDst(Expr),
    SetDstPort(Expr),
    SetTimeout {
        which: TimeoutKind,
        value: TimeoutSource,
    },
    SetPriorityClass(Expr),
    SetPriorityOffset(Expr),
    SetRetries(Expr),
    SetBandwidthLimit {
        filter: Arc<BandwidthLimit>,
        limit: Option<Expr>,
        period: Option<Expr>,
    },
    Pause(PauseSource),
    ExpectProxy,
    ExpectNetscalerCip,

    // stores
    SetMap {
        list: LogFormat,
        key: LogFormat,
        value: LogFormat,
    },
    DelMap {
        list: LogFormat,
        key: LogFormat,
    },
    AddAcl {
        list: LogFormat,
        key: LogFormat,
    },
    DelAcl {
        list: LogFormat,
        key: LogFormat,
    },
}

/// Conditions in `set-var(name,cond...)`.
pub type VarConds = Vec<sluice_expr::vars::SetIf>;

/// `use-service NAME`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Service {
    PrometheusExporter,
}

/// What is done with the headers of a binary list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeaderListEdit {
    /// Each is added.
    Add,
    /// Each is added, after the lines that had one of these names are gone.
    Set,
    /// The lines with these names are removed.
    Del,
}

/// `del-header NAME [-m METHOD]`
#[derive(Clone)]
pub enum HeaderMatch {
    Exact(String),
    Prefix(String),
    Suffix(String),
    Sub(String),
    Regex(Arc<Regex>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NormalizeUri {
    FragmentEncode,
    FragmentStrip,
    PathMergeSlashes,
    PathStripDot,
    PathStripDotdot { full: bool },
    PercentDecodeUnreserved { strict: bool },
    PercentToUppercase { strict: bool },
    QuerySortByName,
}

/// A number given literally or by an expression.
#[derive(Clone)]
pub enum NumberSource {
    Const(u32),
    Expr(Expr),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeoutKind {
    Client,
    Server,
    Tunnel,
    Connect,
    Queue,
    Tarpit,
}

#[derive(Clone)]
pub enum TimeoutSource {
    ConstMs(u64),
    Expr(Expr),
}

#[derive(Clone)]
pub enum PauseSource {
    ConstMs(u64),
    Expr(Expr),
}

/// `filter bwlim-in|bwlim-out NAME default-limit S default-period T` (per stream; shared ones need stick tables).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BandwidthLimit {
    pub name: String,
    /// Limits what comes in from the sender of each direction (`bwlim-in`: towards the server).
    pub inbound: bool,
    pub limit_bytes: u64,
    pub period_ms: u64,
    pub min_size: u64,
}
