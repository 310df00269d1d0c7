//! Reading the files of `load-server-state-from-file`: the global one once, local ones for their backends.

use std::path::Path;

use sluice_config::model::{Proxy, ServerStateSource};
use sluice_engine::{Runtime, saved};

use crate::files;

/// Gives the servers the states an earlier process left. What cannot be read is told in words; it keeps nobody from
/// starting.
pub fn restore(rt: &Runtime, now_ms: u64) -> Vec<String> {
    let mut faults = Vec::new();
    let wants = |p: &Proxy, source| p.is_backend() && !p.disabled && p.server_state == source;
    let backends = || rt.model.proxies.iter();
    if backends().any(|p| wants(p, ServerStateSource::Global))
        && let Some(file) = &rt.model.global.server_state_file
    {
        let of = |name: &str| {
            backends().any(|p| *p.name == *name && wants(p, ServerStateSource::Global))
        };
        if let Err(fault) = read(rt, file, of, now_ms) {
            faults.push(fault);
        }
    }
    for p in backends().filter(|p| wants(p, ServerStateSource::Local)) {
        let file = p.server_state_file.as_deref().unwrap_or(&p.name);
        if let Err(fault) = read(rt, file, |name| *name == *p.name, now_ms) {
            faults.push(format!("Proxy '{}': {fault}", p.name));
        }
    }
    faults
}

fn read(
    rt: &Runtime,
    file: &str,
    wanted: impl Fn(&str) -> bool,
    now_ms: u64,
) -> Result<(), String> {
    let base = rt.model.global.server_state_base.as_deref().unwrap_or("");
    // a path that begins at the root stands for itself
    let path = Path::new(base).join(file);
    let shown = path.display();
    let text = std::fs::read_to_string(&path).map_err(|e| {
        format!(
            "can't open server state file '{shown}': {}",
            files::reason(&e)
        )
    })?;
    match saved::apply(rt, &text, wanted, now_ms) {
        Ok(_) => Ok(()),
        Err(why) => Err(format!("can't use server state file '{shown}': {why}")),
    }
}
