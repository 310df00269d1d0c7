//! Messages for who started the process: HAProxy's `[SEVERITY] (PID) : text` on the standard error, each in one piece, so
//! that the lines of a master and its workers do not mix.

use std::io::Write;

/// Writes one message; `severity` is `ALERT`, `WARNING` or `NOTICE`.
pub fn say(severity: &str, text: &str) {
    let tag = format!("[{severity}]");
    let line = format!("{tag:<10} ({}) : {text}\n", std::process::id());
    // nowhere to complain when stderr is gone
    let _ = std::io::stderr().lock().write_all(line.as_bytes());
}
