//! Counters for Prometheus: text format 0.0.4 over the smallest HTTP that serves it.

use super::control::{Asked, Request};
use serde_json::Value;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};

/// A scraper has this long to ask and to read.
const LIMIT: Duration = Duration::from_secs(10);

pub async fn listen(
    address: SocketAddr,
    requests: mpsc::UnboundedSender<Asked>,
) -> anyhow::Result<()> {
    use anyhow::Context;
    let listener = TcpListener::bind(address)
        .await
        .with_context(|| format!("cannot serve metrics on {address}"))?;
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let requests = requests.clone();
            tokio::spawn(tokio::time::timeout(LIMIT, async move {
                let mut head = [0; 4096];
                // Whatever is asked for, the answer is the same.
                let _ = stream.read(&mut head).await;
                let (sender, receiver) = oneshot::channel();
                let _ = requests.send((Request::Show, sender));
                let Ok(Ok(value)) = receiver.await else {
                    return;
                };
                let body = text(&value);
                let head = format!(
                    "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                    body.len()
                );
                let _ = stream.write_all(head.as_bytes()).await;
                let _ = stream.write_all(body.as_bytes()).await;
            }));
        }
    });
    Ok(())
}

/// What `show` knows, as metrics.
pub fn text(show: &Value) -> String {
    let mut out = String::new();
    let list = |key: &str| {
        show.get(key)
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default()
    };
    let _ = writeln!(out, "# TYPE sluice_l4_packets_total counter");
    for (name, value) in show
        .get("counters")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        let _ = writeln!(out, "sluice_l4_packets_total{{fate=\"{name}\"}} {value}");
    }
    let _ = writeln!(
        out,
        "# TYPE sluice_l4_flows gauge\nsluice_l4_flows {}",
        show.get("flows").unwrap_or(&Value::Null)
    );
    for (metric, key, kind) in [
        ("server_up", "up", "gauge"),
        ("server_weight", "weight", "gauge"),
        ("server_active_connections", "active", "gauge"),
        ("server_connections_total", "connections", "counter"),
        ("server_bytes_total", "bytes", "counter"),
    ] {
        let _ = writeln!(out, "# TYPE sluice_l4_{metric} {kind}");
        for vs in list("virtual_servers") {
            let name = vs.get("name").and_then(Value::as_str).unwrap_or_default();
            for s in vs
                .get("servers")
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
            {
                let address = s.get("address").and_then(Value::as_str).unwrap_or_default();
                let port = s.get("port").and_then(Value::as_u64).unwrap_or(0);
                let value = match s.get(key) {
                    Some(Value::Bool(b)) => u64::from(*b),
                    Some(v) => v.as_u64().unwrap_or(0),
                    None => 0,
                };
                let _ = writeln!(
                    out,
                    "sluice_l4_{metric}{{virtual_server=\"{}\",server=\"{address}\",port=\"{port}\"}} {value}",
                    escape(name)
                );
            }
        }
    }
    let _ = writeln!(out, "# TYPE sluice_l4_vrrp_master gauge");
    for r in list("routers") {
        let name = r.get("name").and_then(Value::as_str).unwrap_or_default();
        let master = r.get("state").and_then(Value::as_str) == Some("MASTER");
        let _ = writeln!(
            out,
            "sluice_l4_vrrp_master{{instance=\"{}\"}} {}",
            escape(name),
            u8::from(master)
        );
    }
    let _ = writeln!(out, "# TYPE sluice_l4_bfd_up gauge");
    for b in list("bfd") {
        let name = b.get("name").and_then(Value::as_str).unwrap_or_default();
        let up = b.get("state").and_then(Value::as_str) == Some("Up");
        let _ = writeln!(
            out,
            "sluice_l4_bfd_up{{session=\"{}\"}} {}",
            escape(name),
            u8::from(up)
        );
    }
    out
}

fn escape(label: &str) -> String {
    label
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_becomes_lines() {
        let show = serde_json::json!({
            "counters": {"forwarded": 3}, "flows": 2,
            "virtual_servers": [{"name": "TCP 1.2.3.4:80", "servers": [{"address": "10.0.0.1", "port": 80, "up": true, "weight": 5}]}],
            "routers": [{"name": "A", "state": "MASTER"}], "bfd": [{"name": "B", "state": "Up"}],
        });
        let text = text(&show);
        for line in [
            "sluice_l4_packets_total{fate=\"forwarded\"} 3",
            "sluice_l4_server_up{virtual_server=\"TCP 1.2.3.4:80\",server=\"10.0.0.1\",port=\"80\"} 1",
            "sluice_l4_vrrp_master{instance=\"A\"} 1",
            "sluice_l4_bfd_up{session=\"B\"} 1",
        ] {
            assert!(text.lines().any(|l| l == line), "{line} in\n{text}");
        }
    }
}
