//! A server line.

use std::sync::Arc;

use super::*;

/// `server NAME ADDR ...` after `default-server` was applied.
#[derive(Clone)]
pub struct Server {
    pub name: Arc<str>,
    /// `id N`, or given automatically (from 1).
    pub id: u32,
    pub addr: PeerAddr,
    /// `udp@`: a log server that is sent datagrams.
    pub datagrams: bool,
    /// Host name or address as written, for logs and `show servers state`.
    pub hostname: Option<String>,
    pub weight: u32,
    pub backup: bool,
    pub disabled: bool,
    /// Concurrent connections, 0 unlimited.
    pub maxconn: u32,
    pub minconn: u32,
    /// Requests that may wait for this very server, 0 unlimited.
    pub maxqueue: u32,
    pub pool_max_conn: Option<i64>,
    pub pool_low_conn: u32,
    pub pool_purge_delay_ms: u64,
    pub max_reuse: Option<i64>,
    /// Idle connections are used again by streams for which this is the same.
    pub pool_conn_name: Option<sluice_expr::Expr>,
    pub slowstart_ms: u64,
    pub cookie: Option<String>,
    pub redir: Option<String>,
    pub track: Option<String>,
    pub check: CheckParams,
    pub agent: AgentParams,
    pub on_marked_down_shutdown_sessions: bool,
    pub on_marked_up_shutdown_backup_sessions: bool,
    pub send_proxy: Option<SendProxy>,
    pub source: Option<Source>,
    /// `socks4`: the proxy that connections to it go through.
    pub socks4: Option<std::net::SocketAddr>,
    pub tfo: bool,
    pub tcp_ut_ms: Option<u64>,
    /// `cc`: TCP congestion control.
    pub cc: Option<String>,
    pub tcp_md5sig: Option<String>,
    pub namespace: Option<String>,
    pub proto: Option<String>,
    pub ws: Option<String>,
    pub hash_key: HashKey,
    pub log_bufsize: Option<u32>,
    /// `log-proto octet-count`
    pub octet_count: bool,
    pub error_limit: u32,
    pub init_addr: Vec<InitAddr>,
    pub origin: Origin,
}

impl Server {
    /// The ring that a log server over TCP gets its messages from. No `ring` section can be called so.
    pub fn log_ring(&self, backend: &str) -> String {
        format!("{backend}/{}", self.name)
    }
}

/// `agent-check` and its companions (manual 5.2): a program beside the server that says how it is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AgentParams {
    pub enabled: bool,
    /// `agent-addr`, else the server's address.
    pub addr: Option<std::net::IpAddr>,
    pub port: Option<u16>,
    /// `agent-inter`, else `inter`.
    pub inter_ms: Option<u64>,
    /// `agent-send`: what it is sent before it answers.
    pub send: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HashKey {
    #[default]
    Id,
    Addr,
    AddrPort,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InitAddr {
    Last,
    Libc,
    None,
    Ip(std::net::IpAddr),
}

/// `send-proxy` (v1), `send-proxy-v2[-ssl[-cn]]` with `proxy-v2-options` and `set-proxy-v2-tlv-fmt`.
#[derive(Clone, Default)]
pub struct SendProxy {
    pub v2: bool,
    pub unique_id: bool,
    pub authority: bool,
    pub crc32c: bool,
    /// `false` while only `proxy-v2-options` or TLVs were written: those alone send nothing.
    pub wanted: bool,
    /// `set-proxy-v2-tlv-fmt(ID) FORMAT`
    pub tlvs: Vec<(u8, sluice_expr::LogFormat)>,
}

/// `source ADDR[:PORT[-PORT]] [usesrc ...] [interface IF]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// `None` for `0.0.0.0`/`*`.
    pub ip: Option<std::net::IpAddr>,
    pub ports: Option<(u16, u16)>,
    pub usesrc: Option<UseSrc>,
    pub interface: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UseSrc {
    Client,
    ClientIp,
    Addr(std::net::SocketAddr),
    /// `hdr_ip(NAME[,OCC])`
    Header {
        name: String,
        occurrence: i32,
    },
}
