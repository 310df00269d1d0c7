//! Mails about servers (manual 3.6 and 4.2 `email-alert`).

use std::sync::Arc;

use super::PeerAddr;

/// `mailers NAME`: mail servers, each of which gets every mail.
#[derive(Debug, Clone, Default)]
pub struct Mailers {
    pub name: String,
    /// Name and address.
    pub servers: Vec<(String, PeerAddr)>,
    /// `timeout mail`: time for one mail.
    pub timeout_ms: u64,
}

/// The `email-alert` lines of a proxy.
#[derive(Debug, Clone)]
pub struct EmailAlert {
    pub mailers: Arc<Mailers>,
    pub from: String,
    pub to: String,
    /// The least urgent syslog level that is mailed.
    pub level: u8,
    /// What we call ourselves; `None`: the machine's name.
    pub myhostname: Option<String>,
}
