//! What loading a configuration needs from its surroundings.

use std::net::IpAddr;
use std::sync::Arc;

use sluice_expr::Loader;
use sluice_expr::pattern::Store;

/// What the caller gives to [`crate::load`].
pub struct LoadOptions<'a> {
    /// The process's environment: what `"$X"` refers to.
    pub env: Vec<(String, String)>,
    /// How error files, pattern files and maps are read.
    pub loader: &'a dyn Loader,
    /// How a host name in an address becomes an address at start (`init-addr libc`).
    pub lookup: &'a dyn Fn(&str) -> Option<IpAddr>,
    /// The pattern and map lists of the process, kept across reloads.
    pub store: Arc<Store>,
    /// `-L`, or the host's name.
    pub localpeer: String,
    /// Running under a master process (`HAPROXY_MWORKER`).
    pub master_worker: bool,
    /// What `feature()` finds: names listed with a `+` by `-vv`.
    pub features: Vec<String>,
    /// What `enabled()` finds: `EPOLL`, `SPLICE`, ...
    pub enabled: Vec<String>,
    /// Name and version of the TLS library.
    pub tls_library: String,
    /// `-dr`: servers whose names have no address are disabled instead of stopping the start.
    pub ignores_unresolved: bool,
    /// `-dD`: diagnostics of the lowest severity are wanted.
    pub diag: bool,
}

impl<'a> LoadOptions<'a> {
    /// An empty environment, a fresh pattern store, no features. Set the fields that are known better.
    pub fn new(loader: &'a dyn Loader, lookup: &'a dyn Fn(&str) -> Option<IpAddr>) -> Self {
        LoadOptions {
            env: Vec::new(),
            loader,
            lookup,
            store: Arc::default(),
            localpeer: "localhost".into(),
            master_worker: false,
            features: Vec::new(),
            enabled: Vec::new(),
            tls_library: String::new(),
            ignores_unresolved: false,
            diag: false,
        }
    }
}
