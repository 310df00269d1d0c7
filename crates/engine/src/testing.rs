//! A running state for tests, from a configuration text.

use std::sync::Arc;

use sluice_config::{LoadOptions, SourceFile};
use sluice_expr::Loader;
use sluice_expr::env::Now;

use crate::state::{Runtime, StartInfo, build};

struct NoFiles;

impl Loader for NoFiles {
    fn load(&self, path: &str) -> Result<Vec<u8>, String> {
        Err(format!("no file {path} in a test"))
    }
}

/// The state of a configuration that has one backend of these lines.
pub fn backend(lines: &str) -> Runtime {
    let text = format!(
        "defaults\n mode http\n timeout client 1s\n timeout server 1s\n timeout connect 1s\nbackend b\n{lines}\n"
    );
    let opts = LoadOptions {
        env: Vec::new(),
        loader: &NoFiles,
        lookup: &|_| None,
        store: Arc::default(),
        localpeer: "test".into(),
        master_worker: false,
        features: Vec::new(),
        enabled: Vec::new(),
        tls_library: String::new(),
        diag: false,
        ignores_unresolved: false,
    };
    let file = SourceFile {
        name: "test.cfg".into(),
        text: text.clone().into_bytes(),
    };
    let model = sluice_config::load(&[file], &opts).model;
    let start = StartInfo {
        now: Now {
            wall_us: 0,
            mono_us: 0,
        },
        workers: 1,
        pid: 1,
        hostname: "test".into(),
        maxconn: 100,
        max_fds: 1000,
        maxpipes: 0,
    };
    build(
        Arc::new(model.unwrap_or_else(|| panic!("bad: {text}"))),
        start,
    )
}
