//! `option external-check`: a program that is run for each check and judges by its exit status.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use sluice_config::model::{ExternalCheck, ListenAddr, PeerAddr, PortSpec};
use sluice_engine::health::{CheckResult, CheckStatus};
use tokio::time::Instant;

use super::Checked;

/// How often a running program is looked at.
const LOOK: Duration = Duration::from_millis(10);

/// Runs the program: exit status 0 passes. It gets the backend's and the server's addresses as arguments and more in
/// `HAPROXY_*` variables (manual 4.2 `external-check command`), and is killed when its time is over.
pub async fn run(c: &Checked, check: &ExternalCheck) -> CheckResult {
    if !c.shared.runtime.model.global.external_check {
        return result(CheckStatus::SockErr, 0, "external checks are not allowed");
    }
    let params = &c.server.conf.check;
    let limit = c.proxy.timeouts.check_ms.unwrap_or(params.inter_ms);
    let deadline = Instant::now() + Duration::from_millis(limit);
    let made = command(c, check).spawn();
    let mut child = match made {
        Ok(child) => child,
        Err(e) => return result(CheckStatus::SockErr, 0, &e.to_string()),
    };
    loop {
        match child.try_wait() {
            Ok(Some(status)) => {
                return match status.code() {
                    Some(0) => result(CheckStatus::ProcOk, 0, ""),
                    Some(code) => result(CheckStatus::ProcErr, code as u32, ""),
                    None => result(CheckStatus::ProcErr, 0, "killed by a signal"),
                };
            }
            Ok(None) if Instant::now() < deadline => tokio::time::sleep(LOOK).await,
            Ok(None) => {
                // it is gone either way; reaping it must not block the checks of others
                let _ = child.kill();
                let _ = child.wait();
                return result(CheckStatus::ProcTimeout, 0, "");
            }
            Err(e) => return result(CheckStatus::ProcErr, 0, &e.to_string()),
        }
    }
}

fn command(c: &Checked, check: &ExternalCheck) -> Command {
    let addr = c.server.addr.load_full();
    let (ip, port) = match &*addr {
        PeerAddr::Ip { ip, port } => {
            let port = match port {
                PortSpec::Fixed(p) => p.to_string(),
                _ => "0".into(),
            };
            (ip.to_string(), port)
        }
        PeerAddr::Unix(path) => (path.clone(), "NOT_USED".into()),
        _ => ("NOT_USED".to_string(), "NOT_USED".to_string()),
    };
    // a backend that listens itself (`listen`) says where
    let (proxy_ip, proxy_port) = match c.backend.listeners.first().map(|l| &l.addr) {
        Some(ListenAddr::Tcp(a)) => (a.ip().to_string(), a.port().to_string()),
        _ => ("NOT_USED".to_string(), "NOT_USED".to_string()),
    };
    let s = &c.server;
    let mut command = Command::new(Path::new(&check.command));
    command
        .args([&proxy_ip, &proxy_port, &ip, &port])
        .env_clear()
        .env("PATH", check.path.as_deref().unwrap_or(""))
        .env("HAPROXY_PROXY_ADDR", &proxy_ip)
        .env("HAPROXY_PROXY_PORT", &proxy_port)
        .env("HAPROXY_PROXY_ID", c.proxy.puid.to_string())
        .env("HAPROXY_PROXY_NAME", &*c.backend.name)
        .env("HAPROXY_SERVER_ADDR", &ip)
        .env("HAPROXY_SERVER_PORT", &port)
        .env("HAPROXY_SERVER_ID", s.conf.id.to_string())
        .env("HAPROXY_SERVER_NAME", &*s.name)
        .env(
            "HAPROXY_SERVER_CURCONN",
            s.counters.sessions.now().to_string(),
        )
        .env(
            "HAPROXY_SERVER_MAXCONN",
            s.maxconn.load(Relaxed).to_string(),
        )
        .env("HAPROXY_SERVER_SSL", "0")
        .stdin(Stdio::null())
        .stdout(Stdio::inherit())
        .stderr(Stdio::inherit());
    command
}

fn result(status: CheckStatus, code: u32, info: &str) -> CheckResult {
    CheckResult {
        status,
        code,
        info: info.into(),
        duration_ms: 0,
    }
}
