//! The main thread's loop: signals, command sockets, and the end.

use std::io;
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use sluice_config::model::Model;
use sluice_control::cli::{self, Host, Session};
use sluice_engine::Runtime;
use sluice_expr::ProxyId;
use sluice_expr::env::Now;
use sluice_expr::vars::{Scope, VarRef};
use sluice_proxy::logs::Rings;
use sluice_proxy::net::listen::{self, Bound};
use sluice_proxy::start::{Phase, Workers};
use sluice_proxy::worker::Shared;
use sluice_proxy::{backend, capture, clock};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::signal::unix::{SignalKind, signal};

use crate::flags::Flags;
use crate::notify;

/// Longest command line: HAProxy's buffer.
const COMMAND_MAX: usize = 16384;

/// A command socket, bound.
pub struct CommandSocket {
    bound: Bound,
    /// Index in `global.stats_sockets`.
    config: usize,
}

/// Binds the `stats socket` lines.
pub fn bind_sockets(model: &Model) -> Result<Vec<CommandSocket>, String> {
    let mut out = Vec::new();
    for (i, socket) in model.global.stats_sockets.iter().enumerate() {
        for addr in &socket.addrs {
            let bound = listen::bind_command(addr, &socket.perms).map_err(|e| {
                let o = &socket.origin;
                format!(
                    "Binding [{}:{}] for proxy GLOBAL: cannot bind UNIX socket ({}) [{}]",
                    o.file,
                    o.line,
                    crate::files::reason(&e),
                    sluice_proxy::start::describe(addr)
                )
            })?;
            out.push(CommandSocket { bound, config: i });
        }
    }
    Ok(out)
}

/// What commands may use.
struct Shell {
    shared: Arc<Shared>,
    rings: Arc<Rings>,
}

impl Host for Shell {
    fn runtime(&self) -> &Runtime {
        &self.shared.runtime
    }
    fn now(&self) -> Now {
        clock::now()
    }
    fn ring(&self, name: &str) -> Option<Vec<Vec<u8>>> {
        self.rings.lines(name)
    }
    fn errors(&self) -> String {
        capture::show(&self.shared.runtime)
    }
    fn proc_var(&self, name: &str) -> Option<String> {
        let index = VarRef::parse(name).ok()?.index;
        let value = self.shared.proc_vars.value(index)?;
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
    fn kick(&self, backend: ProxyId) {
        let state = self.shared.runtime.proxy(backend);
        backend::assign::kick(state, self.shared.runtime.model.proxy(backend).fullconn);
    }
}

/// Runs until the process is to end.
pub fn run(
    flags: &Flags,
    shared: Arc<Shared>,
    rings: Arc<Rings>,
    workers: Workers,
    sockets: Vec<CommandSocket>,
) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let local = tokio::task::LocalSet::new();
    let shell = Rc::new(Shell {
        shared: shared.clone(),
        rings: rings.clone(),
    });
    let code = local.block_on(&runtime, async {
        for socket in sockets {
            tokio::task::spawn_local(command_socket(shell.clone(), socket));
        }
        sluice_proxy::checks::spawn_all(&shared, &rings);
        until_stopped(flags, &shared, &workers).await
    });
    drop(runtime);
    let panicked = workers.join();
    Ok(if panicked { ExitCode::FAILURE } else { code })
}

/// SIGUSR1 begins the soft stop. SIGINT and SIGTERM end the process by their default action, as HAProxy's do.
async fn until_stopped(flags: &Flags, shared: &Arc<Shared>, workers: &Workers) -> ExitCode {
    let (Ok(mut usr1), Ok(mut hup)) = (
        signal(SignalKind::user_defined1()),
        signal(SignalKind::hangup()),
    ) else {
        return ExitCode::FAILURE;
    };
    let mut poll = tokio::time::interval(Duration::from_millis(200));
    let mut load = Load::default();
    loop {
        tokio::select! {
            _ = usr1.recv() => break,
            _ = hup.recv() => dump_status(&shared.runtime),
            _ = poll.tick() => {
                load.look(&shared.runtime);
                if workers.alive() == 0 {
                    return ExitCode::FAILURE;
                }
            }
        }
    }
    if flags.notify_systemd {
        notify::stopping();
    }
    shared.runtime.stopping.store(true, Relaxed);
    workers.tell(Phase::Drain);
    for p in &shared.runtime.proxies {
        let counted = format!(
            "(cumulated conns: FE: {}, BE: {})",
            p.fe.conn_total.value(),
            p.be.sess_total.value()
        );
        if !flags.quiet {
            eprintln!(
                "[WARNING]  ({}) : Proxy {} stopped {counted}.",
                std::process::id(),
                p.name
            );
        }
    }
    let hard_stop = shared
        .runtime
        .model
        .global
        .hard_stop_after_ms
        .map(Duration::from_millis);
    let started = tokio::time::Instant::now();
    while workers.alive() > 0 {
        if hard_stop.is_some_and(|limit| started.elapsed() >= limit) {
            eprintln!(
                "[WARNING]  ({}) : soft-stop running for too long, performing a hard-stop.",
                std::process::id()
            );
            workers.tell(Phase::Quit);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    ExitCode::SUCCESS
}

/// How busy the process was, for `Idle_pct`.
#[derive(Default)]
struct Load {
    wall_us: u64,
    cpu_us: u64,
}

impl Load {
    /// Once a second, compares processor time with what the workers could have used.
    fn look(&mut self, rt: &Runtime) {
        let wall_us = clock::mono_us();
        let passed = wall_us.saturating_sub(self.wall_us);
        if passed < 1_000_000 {
            return;
        }
        let cpu_us = clock::cpu_us();
        let could = passed * u64::from(rt.workers);
        let busy = (cpu_us.saturating_sub(self.cpu_us) * 100 / could.max(1)).min(100);
        rt.counters.idle_pct.set(100 - busy);
        (self.wall_us, self.cpu_us) = (wall_us, cpu_us);
    }
}

/// SIGHUP: the state of every server, to the terminal.
fn dump_status(rt: &Runtime) {
    for p in &rt.proxies {
        for s in &p.servers {
            let state = if s.accepts_persistent() { "UP" } else { "DOWN" };
            eprintln!(
                "[WARNING]  ({}) : SIGHUP: Server {}/{} is {state}.",
                rt.pid, p.name, s.name
            );
        }
    }
}

async fn command_socket(shell: Rc<Shell>, socket: CommandSocket) {
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
        if let Ok((io, _)) = l.accept().await {
            tokio::task::spawn_local(commands(shell.clone(), io, config));
        }
    }
}

async fn tcp_socket(shell: Rc<Shell>, l: std::net::TcpListener, config: usize) -> io::Result<()> {
    let l = tokio::net::TcpListener::from_std(l)?;
    loop {
        if let Ok((io, _)) = l.accept().await {
            tokio::task::spawn_local(commands(shell.clone(), io, config));
        }
    }
}

/// One command connection: a line of commands, or several with a prompt.
async fn commands(shell: Rc<Shell>, mut io: impl AsyncRead + AsyncWrite + Unpin, config: usize) {
    let g = &shell.runtime().model.global;
    let timeout = Duration::from_millis(g.stats_timeout_ms);
    let mut session = Session::new(g.stats_sockets[config].level);
    let mut input = Vec::new();
    loop {
        let Some(line) = next_line(&mut io, &mut input, timeout).await else {
            return;
        };
        let mut close = false;
        let mut out = String::new();
        for command in cli::split_line(&line) {
            let answer = cli::execute(&command, &mut session, &*shell);
            out.push_str(&answer.text);
            out.push('\n');
            close |= answer.close;
            if close {
                break;
            }
        }
        if close {
            return;
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

/// The next line (with a payload when it ends in `<<`); `None` when the client left, was silent or said too much.
async fn next_line(
    io: &mut (impl AsyncRead + Unpin),
    input: &mut Vec<u8>,
    timeout: Duration,
) -> Option<String> {
    loop {
        if let Some(len) = cli::complete_line(input) {
            let line: Vec<u8> = input.drain(..len).collect();
            return Some(
                String::from_utf8_lossy(&line)
                    .trim_end_matches(['\r', '\n'])
                    .to_string(),
            );
        }
        if input.len() >= COMMAND_MAX {
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
