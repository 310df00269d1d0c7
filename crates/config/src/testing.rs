//! Helpers for the crate's tests: a configuration from a text, without disk and without resolver.

use std::sync::Arc;

use sluice_expr::Loader;

use crate::diag::{Diagnostic, Severity};
use crate::raw::Raw;
use crate::{Cx, LoadOptions, SourceFile};

/// Files by name; every other name does not exist.
pub struct Files<'a>(pub &'a [(&'a str, &'a str)]);

impl Loader for Files<'_> {
    fn load(&self, path: &str) -> Result<Vec<u8>, String> {
        match self.0.iter().find(|(name, _)| *name == path) {
            Some((_, text)) => Ok(text.as_bytes().to_vec()),
            None => Err(format!("cannot open '{path}': no such file")),
        }
    }
}

/// Options without files, names or variables, for a closure to use.
pub fn with_options<T>(run: impl FnOnce(&LoadOptions<'_>) -> T) -> T {
    let opts = LoadOptions {
        env: Vec::new(),
        loader: &Files(&[("/etc/hosts.txt", "10.0.0.1\n10.0.0.2\n")]),
        lookup: &|name| (name == "localhost").then(|| [127, 0, 0, 1].into()),
        store: Arc::default(),
        localpeer: "peer".into(),
        master_worker: false,
        features: vec!["THREAD".into()],
        enabled: vec!["EPOLL".into()],
        tls_library: "rustls".into(),
        diag: false,
        ignores_unresolved: false,
    };
    run(&opts)
}

/// Reads a text (file name "t.cfg") up to the raw configuration.
pub fn read(text: &str) -> (Raw, Vec<Diagnostic>) {
    with_options(|opts| {
        let mut cx = Cx::new(opts);
        let file = SourceFile {
            name: "t.cfg".into(),
            text: text.as_bytes().to_vec(),
        };
        crate::read::read_file(&mut cx, &file);
        (cx.raw, cx.diagnostics)
    })
}

/// The messages of warnings and alerts a text gives, as `W3: text` (severity, line).
pub fn messages(text: &str) -> Vec<String> {
    let (_, diagnostics) = read(text);
    diagnostics
        .iter()
        .map(|d| {
            let letter = match d.severity {
                Severity::Alert => 'A',
                Severity::Warning => 'W',
                Severity::Notice => 'N',
                Severity::Diag => 'D',
            };
            let line = d.origin.as_ref().map_or(0, |o| o.line);
            format!("{letter}{line}: {}", d.message)
        })
        .collect()
}
