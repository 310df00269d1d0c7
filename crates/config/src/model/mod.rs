//! The typed configuration: what the text means once every keyword is read and every name is bound.
//!
//! Built by [`crate::load`], immutable afterwards. Running state (counters, health, weights, queues) is elsewhere and
//! joined to this by name.

mod addr;
mod balance;
mod check;
mod global;
mod log;
mod mail;
mod proxy;
mod reply;
mod rules;
mod server;

pub use addr::*;
pub use balance::*;
pub use check::*;
pub use global::*;
pub use log::*;
pub use mail::*;
pub use proxy::*;
pub use reply::*;
pub use rules::*;
pub use server::*;

use std::sync::Arc;

/// Where something was written.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Origin {
    pub file: Arc<str>,
    /// From 1.
    pub line: u32,
}

/// A whole configuration.
#[derive(Default)]
pub struct Model {
    pub global: Global,
    /// Frontends, backends and listens in the order of the file; a [`sluice_expr::ProxyId`] is an index here.
    pub proxies: Vec<Arc<Proxy>>,
    /// An index here is what `http_auth(userlist)` resolves to.
    pub userlists: Vec<Userlist>,
    /// `ring` sections.
    pub rings: Vec<Ring>,
    /// `log-forward` sections.
    pub log_forwards: Vec<LogForward>,
    /// Pattern and map lists read while parsing; shared with expressions.
    pub patterns: Arc<sluice_expr::pattern::Store>,
    /// Number of capture slots declared anywhere, per direction: the most any frontend needs.
    pub req_captures_max: usize,
    pub res_captures_max: usize,
}

impl Model {
    /// The proxy behind an id.
    pub fn proxy(&self, id: sluice_expr::ProxyId) -> &Arc<Proxy> {
        &self.proxies[id.0 as usize]
    }
}

/// `userlist NAME`.
#[derive(Debug, Clone, Default)]
pub struct Userlist {
    pub name: String,
    pub users: Vec<User>,
}

/// `user NAME [password|insecure-password P] [groups G,...]`, with the groups given on `group` lines merged in.
#[derive(Debug, Clone)]
pub struct User {
    pub name: String,
    pub password: Option<Password>,
    pub groups: Vec<String>,
}

/// How a password is kept.
#[derive(Debug, Clone)]
pub enum Password {
    Plain(String),
    /// As crypt(3) writes it: `$5$...`, `$6$...`, `$1$...` or DES.
    Crypt(String),
}

/// `ring NAME`: a memory buffer logs can be sent to and the runtime CLI can show.
#[derive(Debug, Clone, Default)]
pub struct Ring {
    pub name: String,
    pub description: Option<String>,
    pub size_bytes: u64,
    pub max_len: u32,
    pub format: LogFormatKind,
    /// Log servers that get a copy.
    pub servers: Vec<RingServer>,
    pub timeout_connect_ms: Option<u64>,
    pub timeout_server_ms: Option<u64>,
}

/// `server NAME ADDR [log-proto PROTO]` of a ring.
#[derive(Debug, Clone)]
pub struct RingServer {
    pub name: String,
    pub addr: PeerAddr,
    /// `log-proto octet-count`: each message behind its length (RFC 6587).
    pub octet_count: bool,
}
