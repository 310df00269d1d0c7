//! The checkers of a real server.

use super::Timing;
use std::net::IpAddr;

/// One health check of a real server.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Checker {
    pub kind: CheckerKind,
    pub connect_ip: Option<IpAddr>,
    pub connect_port: Option<u16>,
    pub bind_ip: Option<IpAddr>,
    pub bind_port: Option<u16>,
    pub bind_interface: Option<String>,
    pub fwmark: Option<u32>,
    pub alpha: Option<bool>,
    pub delay_loop_us: Option<u64>,
    pub connect_timeout_us: Option<u64>,
    pub retry: Option<u32>,
    pub delay_before_retry_us: Option<u64>,
    pub warmup_us: Option<u64>,
    pub log_all_failures: bool,
}

impl Checker {
    pub fn new(kind: CheckerKind) -> Self {
        Checker {
            kind,
            connect_ip: None,
            connect_port: None,
            bind_ip: None,
            bind_port: None,
            bind_interface: None,
            fwmark: None,
            alpha: None,
            delay_loop_us: None,
            connect_timeout_us: None,
            retry: None,
            delay_before_retry_us: None,
            warmup_us: None,
            log_all_failures: false,
        }
    }
    pub fn timing(&self) -> Timing {
        Timing {
            delay_loop_us: self.delay_loop_us,
            connect_timeout_us: self.connect_timeout_us,
            retry: self.retry,
            delay_before_retry_us: self.delay_before_retry_us,
            warmup_us: self.warmup_us,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum CheckerKind {
    Tcp,
    Http(HttpCheck),
    Smtp { helo: Option<String> },
    Dns { record: u16, name: String },
    Udp(UdpCheck),
    Ping,
    Misc(MiscCheck),
    File(FileCheck),
    Bfd { name: String },
}

/// `FILE_CHECK`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct FileCheck {
    /// The name of the track_file block, and what that block says.
    pub track_file: String,
    pub path: String,
    pub weight: i32,
    pub reverse: bool,
    /// Weight and reverse are the checker's own, not the block's.
    pub own_weight: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct HttpCheck {
    pub tls: bool,
    pub sni: bool,
    pub version: HttpVersion,
    pub fast_recovery: bool,
    /// What is shown to a server that asks who checks it.
    pub identity: Option<Identity>,
    pub virtualhost: Option<String>,
    pub urls: Vec<Url>,
}

/// Files in PEM form.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Identity {
    pub certificate: String,
    pub key: String,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum HttpVersion {
    #[default]
    V10,
    /// 1.0 with `Connection: close`.
    V10Close,
    V11,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Url {
    pub path: String,
    pub virtualhost: Option<String>,
    /// Ranges of accepted status codes; none means 200-299.
    pub status: Vec<(u16, u16)>,
    pub digest: Option<[u8; 16]>,
    pub regex: Option<String>,
    pub regex_no_match: bool,
    pub regex_caseless: bool,
    pub regex_multiline: bool,
    pub regex_dotall: bool,
    pub regex_min_offset: usize,
    pub regex_max_offset: Option<usize>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct UdpCheck {
    pub payload: Option<Vec<u8>>,
    pub require_reply: bool,
    /// Value and mask of each expected byte.
    pub reply: Vec<(u8, u8)>,
    pub reply_min: u16,
    pub reply_max: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct MiscCheck {
    pub argv: Vec<String>,
    pub timeout_us: Option<u64>,
    pub dynamic: bool,
    pub user: Option<(String, Option<String>)>,
    /// enable_script_security: as root only what nobody else may write.
    pub secure: bool,
}
