//! The command sockets: `stats socket` lines, and the connections the master process passes on. A connection's lines go
//! to `sluice_control::cli`, its answers back; only `_getsocks`, which is no text, is handled here.

use std::cell::RefCell;
use std::io;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use sluice_config::model::{CliLevel, Model, SeverityOutput};
use sluice_control::cli::{self, Host, Session};
use sluice_control::inside::{DescriptorRow, WorkerRow};
use sluice_control::sessions::SessionRow;
use sluice_engine::Runtime;
use sluice_expr::env::Now;
use sluice_expr::vars::{Scope, VarRef};
use sluice_expr::{ProxyId, ServerId};
use sluice_proxy::handover::{self, Inherited, Offered};
use sluice_proxy::logs::Rings;
use sluice_proxy::net::listen::{self, Bound};
use sluice_proxy::start::Asker;
use sluice_proxy::worker::{Shared, Worker};
use sluice_proxy::{capture, checks, clock, inside, logs, terminal};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::Semaphore;

/// Longest command line: HAProxy's buffer.
pub const COMMAND_MAX: usize = 16384;

/// Longest command with its payload.
fn longest(shell: &Shell) -> usize {
    let payload = shell.runtime().model.global.tune.cli_payload_max;
    COMMAND_MAX + payload.unwrap_or(0)
}

/// A command socket, bound.
pub struct CommandSocket {
    bound: Bound,
    /// Index in `global.stats_sockets`.
    config: usize,
}

/// Takes over or binds the `stats socket` lines.
pub fn bind_sockets(
    model: &Model,
    inherited: &mut Inherited,
) -> Result<Vec<CommandSocket>, String> {
    let mut out = Vec::new();
    for (i, socket) in model.global.stats_sockets.iter().enumerate() {
        for addr in &socket.addrs {
            let bound = match inherited.claim_command(addr) {
                Some(bound) => Ok(bound),
                None => listen::bind_command(addr, &socket.perms),
            };
            let bound = bound.map_err(|e| {
                let o = &socket.origin;
                format!(
                    "Binding [{}:{}] for proxy GLOBAL: cannot bind UNIX socket ({}) [{}]",
                    o.file,
                    o.line,
                    crate::files::reason(&e),
                    sluice_proxy::bind::describe(addr)
                )
            })?;
            out.push(CommandSocket { bound, config: i });
        }
    }
    Ok(out)
}

/// The command sockets as another process can be given them.
pub fn offered(sockets: &[CommandSocket]) -> io::Result<Vec<Offered>> {
    let offer = |s: &CommandSocket| {
        Ok(Offered {
            fd: s.bound.descriptor()?,
            frontend: None,
            interface: None,
            namespace: None,
        })
    };
    sockets.iter().map(offer).collect()
}

/// What commands may use.
pub struct Shell {
    pub shared: Arc<Shared>,
    pub rings: Arc<Rings>,
    workers: Asker,
    startup_logs: String,
    /// A descriptor of every listening socket, until the soft stop begins.
    pub offered: RefCell<Rc<Vec<Offered>>>,
    /// `stats maxconn`
    slots: Arc<Semaphore>,
}

impl Shell {
    pub fn new(
        shared: Arc<Shared>,
        rings: Arc<Rings>,
        workers: Asker,
        offered: Vec<Offered>,
        startup_logs: String,
    ) -> Self {
        let slots = shared.runtime.model.global.stats_maxconn.max(1) as usize;
        Shell {
            shared,
            rings,
            workers,
            startup_logs,
            offered: RefCell::new(Rc::new(offered)),
            slots: Arc::new(Semaphore::new(slots)),
        }
    }
}

impl Host for Shell {
    fn runtime(&self) -> &Runtime {
        &self.shared.runtime
    }
    fn now(&self) -> Now {
        clock::read()
    }
    fn ring(&self, name: &str) -> Option<Vec<Vec<u8>>> {
        self.rings.lines(name)
    }
    fn sessions(&self) -> Vec<SessionRow> {
        let rows = |w: &Rc<Worker>| w.live.rows(w.runtime(), w.id);
        self.workers.ask(rows).into_iter().flatten().collect()
    }
    fn workers(&self) -> Vec<WorkerRow> {
        inside::workers(&self.workers)
    }
    fn descriptors(&self) -> Vec<DescriptorRow> {
        inside::descriptors(&self.shared.runtime, &self.workers)
    }
    fn libraries(&self) -> String {
        crate::libs::list()
    }
    fn shutdown_session(&self, id: u64) -> bool {
        self.workers
            .ask(move |w| w.live.shutdown(id))
            .contains(&true)
    }
    fn shutdown_frontend(&self, id: ProxyId) {
        let kept: Vec<Offered> = {
            let offered = self.offered.borrow();
            let others = offered.iter().filter(|o| o.frontend != Some(id));
            others.filter_map(|o| o.try_clone().ok()).collect()
        };
        self.offered.replace(Rc::new(kept));
        self.workers.ask(move |w| w.stop_frontend(id));
    }
    fn server_added(&self, id: ServerId) {
        checks::spawn_added(&self.shared, &self.rings, id);
    }
    fn close_idle(&self, id: ServerId) {
        self.workers.ask(move |w| w.pools.clear(w, Some(id)));
    }
    fn startup_logs(&self) -> &str {
        &self.startup_logs
    }
    fn date(&self, wall_us: i64) -> String {
        logs::log_date(wall_us)
    }
    fn errors(&self) -> String {
        capture::show(&self.shared.runtime)
    }
    fn proc_var(&self, name: &str) -> Option<String> {
        let var = VarRef::parse(name)
            .ok()
            .filter(|v| v.scope == Scope::Proc)?;
        let value = self.shared.proc_vars.value(var.index)?;
        let mut text = Vec::new();
        value.write_text(&mut text);
        Some(format!(
            "{} value=<{}>",
            value.type_of().name(),
            String::from_utf8_lossy(&text)
        ))
    }
    fn set_proc_var(&self, name: &str, value: Option<&str>) -> bool {
        let Ok(var) = VarRef::parse(name) else {
            return false;
        };
        let value = value.map(|v| sluice_expr::Value::Str(v.as_bytes().to_vec().into()));
        var.scope == Scope::Proc && self.shared.proc_vars.set(var.index, value)
    }
}

/// Serves one socket for as long as the process lives.
pub async fn serve(shell: Rc<Shell>, socket: CommandSocket) {
    // a socket that cannot be polled was refused when it was bound
    let _ = match socket.bound {
        Bound::Unix(l) => unix_socket(shell, l, socket.config).await,
        Bound::Tcp(l) => tcp_socket(shell, l, socket.config).await,
    };
}

async fn unix_socket(
    shell: Rc<Shell>,
    l: std::os::unix::net::UnixListener,
    config: usize,
) -> io::Result<()> {
    let l = tokio::net::UnixListener::from_std(l)?;
    loop {
        let Ok((io, _)) = l.accept().await else {
            continue;
        };
        let slot = shell.slots.clone().acquire_owned().await.ok();
        let socket = &shell.runtime().model.global.stats_sockets[config];
        let door = Door {
            level: socket.level,
            severity: socket.severity_output,
            gives_listeners: socket.expose_fd_listeners,
        };
        let shell = shell.clone();
        tokio::task::spawn_local(async move {
            let _slot = slot;
            unix_connection(&shell, io, door).await;
        });
    }
}

async fn tcp_socket(shell: Rc<Shell>, l: std::net::TcpListener, config: usize) -> io::Result<()> {
    let l = tokio::net::TcpListener::from_std(l)?;
    loop {
        let Ok((io, _)) = l.accept().await else {
            continue;
        };
        let slot = shell.slots.clone().acquire_owned().await.ok();
        let socket = &shell.runtime().model.global.stats_sockets[config];
        let session = Session::new(socket.level, socket.severity_output);
        let shell = shell.clone();
        tokio::task::spawn_local(async move {
            let _slot = slot;
            commands(&shell, io, session, Vec::new()).await;
        });
    }
}

/// What the door lets a connection do.
#[derive(Debug, Clone, Copy)]
pub struct Door {
    pub level: CliLevel,
    pub severity: SeverityOutput,
    /// `expose-fd listeners`
    pub gives_listeners: bool,
}

/// One connection over a Unix socket: commands, or the request for the listeners.
pub async fn unix_connection(shell: &Shell, mut io: UnixStream, door: Door) {
    let timeout = Duration::from_millis(shell.runtime().model.global.stats_timeout_ms);
    let mut input = Vec::new();
    let most = longest(shell);
    let Some(len) = first_line(&mut io, &mut input, timeout, most).await else {
        return;
    };
    if input[..len].trim_ascii() == sluice_control::cli::LISTENERS.as_bytes() {
        if door.gives_listeners {
            give_listeners(shell, &io).await;
        }
        return;
    }
    let session = Session::new(door.level, door.severity);
    commands(shell, io, session, input).await;
}

/// `_getsocks`: on a thread of its own, for the exchange blocks.
async fn give_listeners(shell: &Shell, io: &UnixStream) {
    let offered: Vec<Offered> = shell
        .offered
        .borrow()
        .iter()
        .filter_map(|o| o.try_clone().ok())
        .collect();
    let Ok(io) = io.as_fd().try_clone_to_owned() else {
        return;
    };
    let given = tokio::task::spawn_blocking(move || handover::give(&io.into(), &offered)).await;
    if let Ok(Err(e)) = given {
        let reason = crate::files::reason(&e);
        terminal::say("WARNING", &format!("Failed to transfer sockets: {reason}."));
    }
}

/// One command connection: a line of commands, or several with a prompt.
async fn commands(
    shell: &Shell,
    mut io: impl AsyncRead + AsyncWrite + Unpin,
    mut session: Session,
    mut input: Vec<u8>,
) {
    let usual = Duration::from_millis(shell.runtime().model.global.stats_timeout_ms);
    loop {
        let timeout = session.timeout_s.map_or(usual, Duration::from_secs);
        let Some(line) = next_line(&mut io, &mut input, timeout, longest(shell)).await else {
            return;
        };
        let mut close = false;
        let mut out = String::new();
        let mut following = None;
        for command in cli::split_line(&line) {
            if let Some((name, flags)) = cli::followed(&command, session.level)
                && let Some((_, count)) = shell.rings.since(name, u64::MAX)
            {
                let seen = if flags.only_new { count } else { 0 };
                following = Some((name.to_owned(), seen));
                break;
            }
            if let Some(wait) = cli::waited(&command, shell) {
                out.push_str(&match wait {
                    Ok(wait) => waiting(shell, wait).await,
                    Err(why) => why,
                });
                out.push('\n');
                continue;
            }
            let answer = cli::execute(&command, &mut session, shell);
            out.push_str(&answer.text);
            if !(session.prompt && answer.prompted) {
                out.push('\n');
            }
            close |= answer.close;
            if close {
                break;
            }
        }
        if close {
            return;
        }
        if let Some(followed) = following {
            if tokio::time::timeout(usual, io.write_all(out.as_bytes()))
                .await
                .is_err()
            {
                return;
            }
            out.clear();
            let (name, seen) = followed;
            follow(shell, &mut io, &name, seen, timeout).await;
            out.push('\n');
        }
        if session.prompt {
            out.push_str(session.prompt_text());
        }
        let written = tokio::time::timeout(timeout, io.write_all(out.as_bytes())).await;
        if !session.prompt || !matches!(written, Ok(Ok(()))) {
            // let the client read everything before the close
            let _ = io.shutdown().await;
            return;
        }
    }
}

/// `wait`: until what is waited for is there, or the time is over.
async fn waiting(shell: &Shell, wait: cli::Wait) -> String {
    const LOOK_EVERY: Duration = Duration::from_millis(20);
    let until = tokio::time::Instant::now() + wait.at_most;
    loop {
        if let Some(answer) = wait.look(shell) {
            return answer;
        }
        let next = tokio::time::Instant::now() + LOOK_EVERY;
        tokio::time::sleep_until(next.min(until)).await;
        if until <= tokio::time::Instant::now() {
            return wait.expired().into();
        }
    }
}

/// Writes what comes into a ring until the client says something or leaves.
async fn follow(
    shell: &Shell,
    io: &mut (impl AsyncRead + AsyncWrite + Unpin),
    name: &str,
    mut seen: u64,
    timeout: Duration,
) {
    const LOOK_EVERY: Duration = Duration::from_millis(100);
    let mut typed = [0; 256];
    loop {
        let Some((lines, count)) = shell.rings.since(name, seen) else {
            return;
        };
        seen = count;
        let text = lines.concat();
        if !text.is_empty() {
            match tokio::time::timeout(timeout, io.write_all(&text)).await {
                Ok(Ok(())) => {}
                _ => return,
            }
        }
        if tokio::time::timeout(LOOK_EVERY, io.read(&mut typed))
            .await
            .is_ok()
        {
            return;
        }
    }
}

/// Reads until there is a complete line, which stays in `input`.
async fn first_line(
    io: &mut (impl AsyncRead + Unpin),
    input: &mut Vec<u8>,
    timeout: Duration,
    most: usize,
) -> Option<usize> {
    loop {
        if let Some(len) = cli::complete_line(input) {
            return Some(len);
        }
        if input.len() >= most {
            return None;
        }
        let mut chunk = [0; 4096];
        match tokio::time::timeout(timeout, io.read(&mut chunk)).await {
            Ok(Ok(0)) if input.is_empty() => return None,
            Ok(Ok(0)) => input.push(b'\n'),
            Ok(Ok(n)) => input.extend_from_slice(&chunk[..n]),
            _ => return None,
        }
    }
}

/// The next line (with a payload when it ends in `<<`); `None` when the client left, was silent or said too much.
pub async fn next_line(
    io: &mut (impl AsyncRead + Unpin),
    input: &mut Vec<u8>,
    timeout: Duration,
    most: usize,
) -> Option<String> {
    let len = first_line(io, input, timeout, most).await?;
    let line: Vec<u8> = input.drain(..len).collect();
    Some(
        String::from_utf8_lossy(&line)
            .trim_end_matches(['\r', '\n'])
            .to_string(),
    )
}
