//! Checks configuration files as `sluice -c` does, with nothing but this crate: `cargo run --example check -- FILE...`.

use std::net::ToSocketAddrs;
use std::process::ExitCode;

use sluice_config::{LoadOptions, RenderOptions, Severity, SourceFile, load};
use sluice_expr::Loader;

struct Disk;

impl Loader for Disk {
    fn load(&self, path: &str) -> Result<Vec<u8>, String> {
        std::fs::read(path).map_err(|e| e.to_string())
    }
}

fn main() -> ExitCode {
    let mut files = Vec::new();
    for name in std::env::args().skip(1) {
        match std::fs::read(&name) {
            Ok(text) => files.push(SourceFile { name, text }),
            Err(e) => {
                eprintln!("{name}: {e}");
                return ExitCode::FAILURE;
            }
        }
    }
    let lookup = |host: &str| {
        let mut found = (host, 0).to_socket_addrs().ok()?;
        found.next().map(|a| a.ip())
    };
    let mut opts = LoadOptions::new(&Disk, &lookup);
    opts.env = std::env::vars().collect();
    let loaded = load(&files, &opts);
    for finding in &loaded.diagnostics {
        if finding.severity > Severity::Diag {
            let how = RenderOptions {
                pid: std::process::id(),
                ..Default::default()
            };
            eprint!("{}", finding.render(how));
        }
    }
    match loaded.model {
        Some(_) => ExitCode::SUCCESS,
        None => ExitCode::FAILURE,
    }
}
