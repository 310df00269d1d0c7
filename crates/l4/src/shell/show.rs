//! A director's state in plain words: what `show` prints.

use serde_json::Value;
use std::fmt::Write as _;

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value
        .get(key)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

fn text(value: &Value, key: &str) -> String {
    match value.get(key) {
        Some(Value::String(s)) => s.clone(),
        Some(Value::Null) | None => "-".into(),
        Some(other) => other.to_string(),
    }
}

/// Columns as wide as their widest cell.
fn table(rows: &[Vec<String>]) -> String {
    let mut widths: Vec<usize> = Vec::new();
    for row in rows {
        for (i, cell) in row.iter().enumerate() {
            if widths.len() <= i {
                widths.push(0);
            }
            widths[i] = widths[i].max(cell.chars().count());
        }
    }
    let mut out = String::new();
    for row in rows {
        let line: Vec<String> = row
            .iter()
            .zip(&widths)
            .map(|(c, w)| format!("{c:<w$}"))
            .collect();
        let _ = writeln!(out, "{}", line.join("  ").trim_end());
    }
    out
}

pub fn servers(show: &Value) -> String {
    let mut out = String::new();
    for vs in list(show, "virtual_servers") {
        let quorum = if vs.get("quorum") == Some(&Value::Bool(true)) {
            "with quorum"
        } else {
            "WITHOUT QUORUM"
        };
        let _ = writeln!(
            out,
            "{}, {}, {quorum}: {} connections, {} packets, {} bytes",
            text(vs, "name"),
            text(vs, "scheduler"),
            text(vs, "connections"),
            text(vs, "packets"),
            text(vs, "bytes")
        );
        let addresses: Vec<&str> = list(vs, "addresses")
            .iter()
            .filter_map(Value::as_str)
            .collect();
        if let [first, .., last] = addresses.as_slice() {
            let _ = writeln!(out, "  {} addresses, {first} to {last}", addresses.len());
        }
        let mut rows = vec![
            [
                "  server",
                "state",
                "method",
                "weight",
                "active",
                "inactive",
                "connections",
                "bytes",
                "next hop",
            ]
            .map(String::from)
            .to_vec(),
        ];
        for s in list(vs, "servers") {
            let state = if s.get("up") == Some(&Value::Bool(true)) {
                "up"
            } else {
                "DOWN"
            };
            rows.push(vec![
                format!("  {}:{}", text(s, "address"), text(s, "port")),
                state.into(),
                text(s, "forwarding"),
                text(s, "weight"),
                text(s, "active"),
                text(s, "inactive"),
                text(s, "connections"),
                text(s, "bytes"),
                text(s, "next_hop"),
            ]);
        }
        out.push_str(&table(&rows));
    }
    out
}

pub fn routers(show: &Value) -> String {
    let routers = list(show, "routers");
    if routers.is_empty() {
        return String::new();
    }
    let mut rows = vec![
        [
            "instance",
            "state",
            "interface",
            "vrid",
            "priority",
            "master",
            "addresses",
            "sent",
            "received",
        ]
        .map(String::from)
        .to_vec(),
    ];
    for r in routers {
        let counts = r.get("counts").unwrap_or(&Value::Null);
        rows.push(vec![
            text(r, "name"),
            text(r, "state"),
            text(r, "interface"),
            text(r, "virtual_router_id"),
            text(r, "priority"),
            match r.get("state").and_then(Value::as_str) {
                Some("MASTER") => "this host".into(),
                _ => format!(
                    "{} ({})",
                    text(r, "last_master"),
                    text(r, "master_priority")
                ),
            },
            text(r, "addresses"),
            text(counts, "adverts_sent"),
            text(counts, "adverts_received"),
        ]);
    }
    table(&rows)
}

pub fn bfds(show: &Value) -> String {
    let sessions = list(show, "bfd");
    if sessions.is_empty() {
        return String::new();
    }
    let head = [
        "BFD session",
        "neighbour",
        "state",
        "neighbour's",
        "detection ms",
        "sent",
        "received",
    ];
    let mut rows = vec![head.map(String::from).to_vec()];
    for s in sessions {
        let counts = s.get("counts").unwrap_or(&Value::Null);
        rows.push(vec![
            text(s, "name"),
            text(s, "neighbour"),
            text(s, "state"),
            text(s, "remote_state"),
            text(s, "detection_ms"),
            text(counts, "sent"),
            text(counts, "received"),
        ]);
    }
    table(&rows)
}

pub fn counters(show: &Value) -> String {
    let mut rows = vec![
        vec!["flows".to_string(), text(show, "flows")],
        vec!["checks".to_string(), text(show, "checks")],
    ];
    for (name, value) in show
        .get("counters")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        rows.push(vec![format!("packets {name}"), value.to_string()]);
    }
    table(&rows)
}

pub fn flows(flows: &Value) -> String {
    let mut rows = vec![
        [
            "protocol", "client", "virtual", "server", "state", "idle ms",
        ]
        .map(String::from)
        .to_vec(),
    ];
    for f in flows.as_array().into_iter().flatten() {
        let protocol = match f.get("protocol").and_then(Value::as_u64) {
            Some(6) => "TCP",
            Some(17) => "UDP",
            _ => "SCTP",
        };
        rows.push(vec![
            protocol.into(),
            text(f, "client"),
            text(f, "virtual"),
            text(f, "server"),
            text(f, "state"),
            text(f, "idle_ms"),
        ]);
    }
    table(&rows)
}
