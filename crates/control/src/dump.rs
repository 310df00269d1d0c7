//! The statistics as CSV, as typed lines and as JSON (management guide 9.1 and 9.3 `show stat`).

use std::fmt::Write;

use crate::fields::{At, FIELDS, Field, Row, V, rows};

/// Which rows and how.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Wanted {
    /// `iid`, -1 (`None`) for all.
    pub proxy: Option<u32>,
    /// Bits: 1 frontends, 2 backends, 4 servers, 8 listeners (`None`: all).
    pub kinds: Option<u32>,
    pub sid: Option<u32>,
    /// Only servers that are up / not in maintenance.
    pub up: bool,
    pub no_maint: bool,
}

impl Wanted {
    fn takes(&self, r: &Row<'_>) -> bool {
        let kind = match r {
            Row::Frontend(..) => 1,
            Row::Backend(..) => 2,
            Row::Server(..) => 4,
            Row::Listener(..) => 8,
        };
        let hidden = match r {
            Row::Server(_, _, s) => {
                (self.up && !s.accepts_persistent())
                    || (self.no_maint && s.admin() & sluice_engine::state::admin::MAINT != 0)
            }
            _ => false,
        };
        self.proxy.is_none_or(|p| p == r.proxy().puid)
            && self.kinds.is_none_or(|k| k & kind != 0)
            && self.sid.is_none_or(|s| s == r.sid())
            && !hidden
    }
}

/// A field of a row. Where servers are hidden, a backend's status tells how many of how many there are up.
fn value(f: &Field, r: &Row<'_>, at: &At<'_>, w: Wanted) -> Option<V> {
    let value = (f.get)(r, at)?;
    match (r, value) {
        (Row::Backend(_, p), V::Str(status)) if f.name == "status" && (w.up || w.no_maint) => {
            let up = p.servers.iter().filter(|s| s.accepts_persistent()).count();
            Some(V::Str(format!("{status} ({up}/{})", p.servers.len())))
        }
        (_, value) => Some(value),
    }
}

fn wanted<'a>(at: &At<'a>, w: Wanted) -> impl Iterator<Item = Row<'a>> {
    rows(at.rt).into_iter().filter(move |r| w.takes(r))
}

/// `show stat`, `/stats;csv`.
pub fn csv(at: &At<'_>, w: Wanted) -> String {
    let mut out = String::from("# ");
    for f in FIELDS {
        out.push_str(f.name);
        out.push(',');
    }
    out.push('\n');
    for r in wanted(at, w) {
        for f in FIELDS {
            if let Some(v) = value(f, &r, at, w) {
                quote(&mut out, &v);
            }
            out.push(',');
        }
        out.push('\n');
    }
    out
}

/// A CSV cell: quoted only where it must be.
fn quote(out: &mut String, v: &V) {
    match v {
        V::Str(s) if s.contains([',', '"', '\n', '\r']) => {
            let _ = write!(out, "\"{}\"", s.replace('"', "\"\""));
        }
        v => {
            let _ = write!(out, "{v}");
        }
    }
}

fn type_letter(r: &Row<'_>) -> char {
    match r {
        Row::Frontend(..) => 'F',
        Row::Backend(..) => 'B',
        Row::Server(..) => 'S',
        Row::Listener(..) => 'L',
    }
}

/// The fields that have a value, with their positions. The separator is not one.
fn present<'a>(
    r: &'a Row<'a>,
    at: &'a At<'a>,
) -> impl Iterator<Item = (usize, &'static Field, V)> + 'a {
    FIELDS
        .iter()
        .enumerate()
        .filter(|(_, f)| f.name != "-")
        .filter_map(move |(i, f)| Some((i, f, (f.get)(r, at)?)))
}

/// `show stat typed`.
pub fn typed(at: &At<'_>, w: Wanted) -> String {
    let mut out = String::new();
    for r in wanted(at, w) {
        let (letter, iid, sid) = (type_letter(&r), r.proxy().puid, r.sid());
        for (pos, f, v) in present(&r, at) {
            let _ = writeln!(
                out,
                "{letter}.{iid}.{sid}.{pos}.{}.1:{}:{}:{v}",
                f.name,
                f.tags.0,
                v.type_name()
            );
        }
    }
    out
}

/// `show stat json`.
pub fn json(at: &At<'_>, w: Wanted) -> String {
    let mut out = String::from("[");
    for (n, r) in wanted(at, w).enumerate() {
        out.push_str(if n > 0 { ",[" } else { "[" });
        let kind = match r {
            Row::Frontend(..) => "Frontend",
            Row::Backend(..) => "Backend",
            Row::Server(..) => "Server",
            Row::Listener(..) => "Listener",
        };
        for (k, (pos, f, v)) in present(&r, at).enumerate() {
            if k > 0 {
                out.push(',');
            }
            let _ = write!(
                out,
                "{{\"objType\":\"{kind}\",\"proxyId\":{},\"id\":{},\"field\":{{\"pos\":{pos},\"name\":\"{}\"}},\"processNum\":1,{},{}}}",
                r.proxy().puid,
                r.sid(),
                f.name,
                tags_json(f.tags.0),
                value_json(&v)
            );
        }
        out.push(']');
    }
    out.push_str("]\n");
    out
}

/// The tags of a field, spelt out.
pub fn tags_json(tags: &str) -> String {
    let mut letters = tags.chars();
    let origin = match letters.next() {
        Some('M') => "Metric",
        Some('S') => "Status",
        Some('K') => "Key",
        Some('C') => "Config",
        _ => "Product",
    };
    let nature = match letters.next() {
        Some('A') => "Age",
        Some('a') => "Avg",
        Some('C') => "Counter",
        Some('D') => "Duration",
        Some('G') => "Gauge",
        Some('L') => "Limit",
        Some('M') => "Max",
        Some('m') => "Min",
        Some('N') => "Name",
        Some('R') => "Rate",
        Some('T') => "Time",
        _ => "Output",
    };
    let scope = match letters.next() {
        Some('S') => "Service",
        Some('C') => "Cluster",
        _ => "Process",
    };
    format!("\"tags\":{{\"origin\":\"{origin}\",\"nature\":\"{nature}\",\"scope\":\"{scope}\"}}")
}

/// A value with its type.
pub fn value_json(v: &V) -> String {
    match v {
        V::Str(s) => format!("\"value\":{{\"type\":\"str\",\"value\":\"{}\"}}", escape(s)),
        v => format!("\"value\":{{\"type\":\"{}\",\"value\":{v}}}", v.type_name()),
    }
}

/// A string's inside in JSON.
pub fn escape(s: &str) -> String {
    let mut out = String::with_capacity(s.len());
    for c in s.chars() {
        match c {
            '"' | '\\' => {
                out.push('\\');
                out.push(c);
            }
            c if (c as u32) < 0x20 => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out
}
