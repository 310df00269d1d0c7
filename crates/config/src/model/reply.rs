//! Responses the proxy makes itself: `errorfile`, `http-errors`, `return`, `deny`, `redirect`.

use std::sync::Arc;

use sluice_expr::LogFormat;

/// The answer of `return`, `deny`, `tarpit`, `http-error`.
#[derive(Clone)]
pub struct Reply {
    pub status: u16,
    pub content: ReplyContent,
    pub content_type: Option<String>,
    pub headers: Vec<(String, LogFormat)>,
}

#[derive(Clone)]
pub enum ReplyContent {
    /// What the proxy (or the built-in table) answers for that status.
    Default,
    /// A whole raw HTTP response from a file (`errorfile`, `errorfiles NAME` entries).
    Raw(Arc<[u8]>),
    /// Headers only.
    Empty,
    /// `file`/`string`: fixed bytes.
    Bytes(Arc<[u8]>),
    /// `lf-file`/`lf-string`
    Format(LogFormat),
}

/// Custom answers by status: `errorfile`, `errorloc*`, `errorfiles`, `http-error`.
#[derive(Clone, Default)]
pub struct ErrorReplies {
    pub by_status: Vec<(u16, ErrorReply)>,
}

#[derive(Clone)]
pub enum ErrorReply {
    /// A whole raw response, sent as it is; an empty one (`/dev/null`) closes silently.
    Raw(Arc<[u8]>),
    /// `errorloc302` / `errorloc303`
    Location {
        code: u16,
        url: String,
    },
    Reply(Arc<Reply>),
}

/// `redirect location|prefix|scheme`.
#[derive(Clone)]
pub struct Redirect {
    pub kind: RedirectKind,
    pub code: u16,
    pub drop_query: bool,
    pub append_slash: bool,
    pub ignore_empty: bool,
    pub keep_query: bool,
    /// `set-cookie NAME[=value]`, `set-cookie-fmt <fmt>` or `clear-cookie NAME[=]` made into the whole `Set-Cookie` value.
    pub set_cookie: Option<LogFormat>,
}

#[derive(Clone)]
pub enum RedirectKind {
    Location(LogFormat),
    Prefix(LogFormat),
    Scheme(LogFormat),
}
