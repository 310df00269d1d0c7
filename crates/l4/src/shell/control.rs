//! The control socket: one JSON request a line, one JSON answer a line. `show` and `set` speak it, and so may anybody
//! whom the file's permissions let in (root).

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixListener;
use tokio::sync::{mpsc, oneshot};

/// Longest request; no real one comes near it.
const REQUEST_MAX: u64 = 65536;
/// A client has this long between requests.
const IDLE: Duration = Duration::from_secs(60);

pub const DEFAULT_SOCKET: &str = "/run/sluice-l4.sock";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "command")]
pub enum Request {
    /// Virtual servers with their servers, routers, counters.
    Show,
    /// Up to `limit` flows.
    Flows {
        limit: usize,
    },
    /// 0 drains.
    Weight {
        virtual_server: String,
        ip: IpAddr,
        port: u16,
        weight: u32,
    },
    Add {
        virtual_server: String,
        ip: IpAddr,
        port: u16,
        weight: u32,
        forwarding: Option<String>,
        /// Connections above which it gets no more; 0 is no limit.
        #[serde(default)]
        conns_max: u32,
        /// Once full, it gets none until it has fewer than these; 0: than three quarters of `conns_max`.
        #[serde(default)]
        conns_min: u32,
    },
    /// `ipvsadm -e`.
    EditServer {
        virtual_server: String,
        ip: IpAddr,
        port: u16,
        weight: u32,
        forwarding: Option<String>,
        conns_max: u32,
        #[serde(default)]
        conns_min: u32,
    },
    /// `ipvsadm -A`; named by protocol and address, `tcp 10.0.0.1:80`.
    AddService {
        virtual_server: String,
        terms: ServiceTerms,
    },
    /// `ipvsadm -E`.
    EditService {
        virtual_server: String,
        terms: ServiceTerms,
    },
    /// `ipvsadm -D`: of a group, this address alone.
    DeleteService {
        virtual_server: String,
    },
    /// `ipvsadm -C`.
    Clear,
    /// Counts of this virtual server and its servers, or of all, begin anew.
    Zero {
        virtual_server: Option<String>,
    },
    Delete {
        virtual_server: String,
        ip: IpAddr,
        port: u16,
    },
    /// `ipvsadm --set`: after so long without a packet a flow is forgotten; 0 leaves one as it is.
    Timeouts {
        tcp_s: u32,
        tcp_fin_s: u32,
        udp_s: u32,
    },
    /// How many clients persistence holds at each server, by virtual server and server.
    PersistentConnections,
    Reload,
}

/// How a virtual server shall treat its connections, in ipvsadm's words.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceTerms {
    pub scheduler: String,
    pub persistence_s: Option<u32>,
    /// Prefix length that clients are grouped by.
    pub persistence_prefix: Option<u8>,
    pub hash_port: bool,
    pub hash_fallback: bool,
    pub one_packet: bool,
}

impl std::fmt::Display for Request {
    /// What it is about: virtual server and server.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Request::Weight {
                virtual_server,
                ip,
                port,
                ..
            }
            | Request::Add {
                virtual_server,
                ip,
                port,
                ..
            }
            | Request::EditServer {
                virtual_server,
                ip,
                port,
                ..
            }
            | Request::Delete {
                virtual_server,
                ip,
                port,
            } => {
                write!(
                    f,
                    "{virtual_server} {}",
                    std::net::SocketAddr::new(*ip, *port)
                )
            }
            Request::AddService { virtual_server, .. }
            | Request::EditService { virtual_server, .. }
            | Request::DeleteService { virtual_server } => f.write_str(virtual_server),
            _ => f.write_str("director"),
        }
    }
}

pub type Answer = Result<Value, String>;
pub type Asked = (Request, oneshot::Sender<Answer>);

/// Serves the socket until the process ends. A stale file is replaced; a living process's is not.
pub fn listen(path: &Path, requests: mpsc::UnboundedSender<Asked>) -> std::io::Result<SocketFile> {
    if path.exists() {
        match std::os::unix::net::UnixStream::connect(path) {
            Ok(_) => {
                return Err(std::io::Error::new(
                    std::io::ErrorKind::AddrInUse,
                    format!("{} belongs to a running sluice-l4", path.display()),
                ));
            }
            Err(_) => std::fs::remove_file(path)?,
        }
    }
    let listener = UnixListener::bind(path)?;
    std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, requests.clone()));
        }
    });
    Ok(SocketFile(path.to_path_buf()))
}

/// Removes the socket's file at the end.
pub struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

async fn serve(stream: tokio::net::UnixStream, requests: mpsc::UnboundedSender<Asked>) {
    let (reader, mut writer) = stream.into_split();
    let mut reader = BufReader::new(reader);
    loop {
        let mut line = String::new();
        let read =
            tokio::time::timeout(IDLE, (&mut reader).take(REQUEST_MAX).read_line(&mut line)).await;
        if !matches!(read, Ok(Ok(n)) if n > 0) {
            return;
        }
        let answer = match serde_json::from_str::<Request>(&line) {
            Ok(request) => {
                let (sender, receiver) = oneshot::channel();
                if requests.send((request, sender)).is_err() {
                    return;
                }
                receiver
                    .await
                    .unwrap_or_else(|_| Err("the director is stopping".into()))
            }
            Err(e) => Err(format!("not a request: {e}")),
        };
        let value = match answer {
            Ok(v) => serde_json::json!({ "ok": v }),
            Err(e) => serde_json::json!({ "error": e }),
        };
        if writer
            .write_all(format!("{value}\n").as_bytes())
            .await
            .is_err()
        {
            return;
        }
    }
}

/// Asks a running director.
pub fn ask(path: &Path, request: &Request) -> anyhow::Result<Value> {
    use anyhow::{Context, anyhow, bail};
    use std::io::{BufRead, Write};
    let mut stream = std::os::unix::net::UnixStream::connect(path).with_context(|| {
        format!(
            "no sluice-l4 answers on {} (is one running? is it another --socket?)",
            path.display()
        )
    })?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    stream.write_all(format!("{}\n", serde_json::to_string(request)?).as_bytes())?;
    let mut line = String::new();
    std::io::BufReader::new(stream).read_line(&mut line)?;
    let mut value: Value = serde_json::from_str(&line).context("the answer is cut off")?;
    if let Some(e) = value.get("error").and_then(Value::as_str) {
        bail!("{e}");
    }
    value
        .get_mut("ok")
        .map(Value::take)
        .ok_or_else(|| anyhow!("the answer says nothing"))
}
