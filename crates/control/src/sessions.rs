//! `show sess` (management guide 9.3): the sessions that have a stream, a line each, or all that is known of one.

use std::fmt::Write;
use std::sync::Arc;

use sluice_config::model::{Mode, Proxy};
use sluice_engine::ServerState;

/// One session, as its worker saw it when it was asked.
pub struct SessionRow {
    /// The number `show sess` prints and `shutdown session` takes.
    pub id: u64,
    pub worker: u32,
    pub proto: &'static str,
    pub src: String,
    pub dst: String,
    /// Accepted at: wall clock µs.
    pub since_us: i64,
    pub age_ms: u64,
    pub streams: u64,
    pub frontend: Arc<Proxy>,
    pub listener: u32,
    pub backend: Option<Arc<Proxy>>,
    pub server: Option<Arc<ServerState>>,
    pub client_fd: i32,
    pub server_fd: Option<i32>,
}

impl SessionRow {
    /// A line of the table.
    pub fn line(&self) -> String {
        format!(
            "{:#x}: proto={} src={} fe={} be={} srv={} ts={:02x} age={} calls={} scf=[fd={}] scb=[fd={}]\n",
            self.id,
            self.proto,
            self.src,
            self.frontend.name,
            self.backend.as_ref().map_or("<NONE>", |b| &b.name),
            self.server.as_ref().map_or("<none>", |s| &s.name),
            self.worker,
            age(self.age_ms),
            self.streams,
            self.client_fd,
            self.server_fd.unwrap_or(-1),
        )
    }

    /// Everything; `date` writes a moment as logs do.
    pub fn all(&self, date: &str) -> String {
        let mut out = format!(
            "{:#x}: [{date}] id={} proto={} source={}\n",
            self.id, self.streams, self.proto, self.src
        );
        let _ = writeln!(
            out,
            "  frontend={} (id={} mode={}), listener=? (id={}) addr={}",
            self.frontend.name,
            self.frontend.puid,
            mode(&self.frontend),
            self.listener,
            self.dst
        );
        let _ = match &self.backend {
            Some(b) => writeln!(out, "  backend={} (id={} mode={})", b.name, b.puid, mode(b)),
            None => writeln!(out, "  backend=<NONE> (id=-1 mode=-)"),
        };
        let _ = match &self.server {
            Some(s) => writeln!(
                out,
                "  server={} (id={}) addr={}",
                s.name,
                s.conf.id,
                crate::fields::peer_text(&s.addr.load())
            ),
            None => writeln!(out, "  server=<NONE> (id=-1)"),
        };
        let _ = writeln!(
            out,
            "  age={} calls={} thread={} scf=[fd={}] scb=[fd={}]",
            age(self.age_ms),
            self.streams,
            self.worker + 1,
            self.client_fd,
            self.server_fd.unwrap_or(-1)
        );
        out
    }
}

fn mode(p: &Proxy) -> &'static str {
    match p.mode {
        Mode::Http => "http",
        _ => "tcp",
    }
}

/// A duration in its two greatest units, as HAProxy writes ages.
fn age(ms: u64) -> String {
    let s = ms / 1000;
    match s {
        0..60 => format!("{s}s"),
        60..3600 => format!("{}m{}s", s / 60, s % 60),
        3600..86400 => format!("{}h{}m", s / 3600, s / 60 % 60),
        _ => format!("{}d{}h", s / 86400, s / 3600 % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::age;

    #[test]
    fn ages_have_two_units() {
        for (ms, text) in [
            (999, "0s"),
            (61_000, "1m1s"),
            (3_660_000, "1h1m"),
            (90_000_000, "1d1h"),
        ] {
            assert_eq!(age(ms), text);
        }
    }
}
