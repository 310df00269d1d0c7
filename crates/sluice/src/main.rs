//! `sluice`: reads a haproxy.cfg, starts the workers, obeys signals.
//!
//! ```text
//! flags -> files -> sluice_config::load -> (master) -> limits -> bind -> (fork, pidfile, chroot, user) -> workers -> signals -> end
//! ```

mod command_socket;
mod control_loop;
mod dump;
mod files;
mod flags;
mod libs;
mod limits;
mod link;
mod master;
mod notify;
mod state_file;
mod version;

use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use sluice_config::environ::Environ;
use sluice_config::model::{LogForward, Model, Proxy};
use sluice_config::{Diagnostic, Facts, LoadOptions, Loaded, RenderOptions, Severity};
use sluice_engine::state::{self, StartInfo};
use sluice_proxy::handover::Inherited;
use sluice_proxy::logs::Rings;
use sluice_proxy::net::listen;
use sluice_proxy::worker::Shared;
use sluice_proxy::{bind, start, sys, terminal};

use flags::{FlagError, Flags};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let flags = match flags::parse(&args) {
        Ok(f) => f,
        Err(FlagError::Usage) => {
            print!("{}", flags::USAGE);
            return ExitCode::SUCCESS;
        }
        Err(e) => {
            eprintln!("sluice: {e}");
            return ExitCode::FAILURE;
        }
    };
    match run(&flags) {
        Ok(code) => code,
        Err(e) => {
            alert(&format!("{e:#}"));
            ExitCode::FAILURE
        }
    }
}

/// Prints an alert that concerns no line of the configuration.
fn alert(text: &str) {
    terminal::say("ALERT", text);
}

fn warning(flags: &Flags, text: &str) {
    if !flags.quiet {
        terminal::say("WARNING", text);
    }
}

fn run(flags: &Flags) -> anyhow::Result<ExitCode> {
    if flags.version > 0 {
        version::print(flags.version > 1);
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(classes) = &flags.dump_keywords {
        let known = dump::keywords(classes);
        // HAProxy goes on: `-dKall -q -c -f /dev/null` is how the lists are had
        if flags.files.is_empty() {
            return Ok(if known {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            });
        }
    }
    if let Some(dir) = &flags.directory {
        std::env::set_current_dir(dir).map_err(|e| {
            anyhow::anyhow!("cannot change directory to {dir} : {}", files::reason(&e))
        })?;
    }
    if let Some(condition) = &flags.condition {
        return Ok(eval_condition(flags, condition));
    }
    if flags.files.is_empty() {
        print!("{}", flags::USAGE);
        return Ok(ExitCode::FAILURE);
    }
    let sources = match files::read_all(&flags.files) {
        Ok(s) => s,
        Err(e) => {
            alert(&format!("config : {e}"));
            return Ok(ExitCode::FAILURE);
        }
    };
    let Loaded {
        model, diagnostics, ..
    } = load(flags, &sources);
    let Some(model) = model else {
        report(flags, &diagnostics);
        return Ok(ExitCode::FAILURE);
    };
    // a worker in the foreground says what there is to say, and not its master too
    let said_later = flags.worker.is_none()
        && !flags.check
        && (flags.master_worker || model.global.master_worker)
        && !daemon(flags, &model);
    let warned = match said_later {
        true => diagnostics.iter().any(|d| d.severity == Severity::Warning),
        false => report(flags, &diagnostics),
    };
    if warned && (flags.zero_warning || model.global.zero_warning) {
        alert("config : Some warnings were found and 'zero-warning' is set. Aborting.");
        return Ok(ExitCode::FAILURE);
    }
    if flags.dump_config {
        print!(
            "{}",
            sluice_config::dump::dump_config_tokens(&sources, &environment())
        );
        return Ok(ExitCode::SUCCESS);
    }
    if flags.check {
        if warned && !flags.quiet {
            println!("Warnings were found.");
        }
        let listens = |p: &Arc<sluice_config::model::Proxy>| !p.disabled && !p.binds.is_empty();
        let sockets = !model.global.stats_sockets.is_empty();
        let (text, status) = match sockets || model.proxies.iter().any(listens) {
            true => ("Configuration file is valid", ExitCode::SUCCESS),
            false => (
                "Configuration file has no error but will not start (no listener) => exit(2).",
                ExitCode::from(2),
            ),
        };
        if !flags.quiet {
            println!("{text}");
        }
        return Ok(status);
    }
    let wants_master = flags.master_worker || model.global.master_worker;
    if wants_master && flags.worker.is_none() {
        return supervise(flags, &model);
    }
    serve(flags, Arc::new(model), &startup_logs(&diagnostics))
}

/// Becomes the master process. The model was read to see that it can be, and for what concerns the master itself; the
/// worker reads it again.
fn supervise(flags: &Flags, model: &Model) -> anyhow::Result<ExitCode> {
    let command_line = match &flags.master_socket {
        Some(text) => Some(master_socket(flags, text)?),
        None => None,
    };
    let launch = master::Launch {
        program: std::env::current_exe()?,
        args: std::env::args().collect(),
    };
    let parent = match background(flags, model)? {
        Background::Left(code) => return Ok(code),
        Background::Here(parent) => parent,
    };
    let pidfile = flags.pidfile.clone().or(model.global.pidfile.clone());
    master::run(flags, launch, command_line, move || {
        write_pidfile(pidfile.as_deref())?;
        parent.into_iter().for_each(sys::Parent::tell_ready);
        Ok(())
    })
}

/// After `-D` or `daemon` was obeyed.
enum Background {
    /// This is the process that was started; another one goes on.
    Left(ExitCode),
    /// This one goes on, and tells the one that waits for it.
    Here(Option<sys::Parent>),
}

fn background(flags: &Flags, model: &Model) -> anyhow::Result<Background> {
    if !daemon(flags, model) {
        return Ok(Background::Here(None));
    }
    Ok(match sys::daemonize()? {
        sys::Forked::Parent { serves: true } => Background::Left(ExitCode::SUCCESS),
        sys::Forked::Parent { serves: false } => Background::Left(ExitCode::FAILURE),
        sys::Forked::Child(parent) => Background::Here(Some(parent)),
    })
}

/// Binds `-S ADDR[,BIND OPTION]...`: read as the `stats socket` line that it is.
fn master_socket(flags: &Flags, text: &str) -> anyhow::Result<master::CommandLine> {
    let (addr, options) = text.split_once(',').unwrap_or((text, ""));
    let options = options.replace(',', " ");
    let source = sluice_config::SourceFile {
        name: "-S".into(),
        text: format!("global\n stats socket {addr} level admin {options}\n").into(),
    };
    let loaded = load(flags, &[source]);
    let socket = loaded
        .model
        .and_then(|m| m.global.stats_sockets.into_iter().next());
    let Some(socket) = socket else {
        report(flags, &loaded.diagnostics);
        anyhow::bail!(
            "cannot use '-S {text}' : give an address and options of a 'bind' line with commas between them"
        );
    };
    let addr = socket.addrs.first().context("'-S' without an address")?;
    let bound = listen::bind_command(addr, &socket.perms).map_err(|e| {
        anyhow::anyhow!(
            "cannot bind the master's socket [{text}] : {}",
            files::reason(&e)
        )
    })?;
    Ok(master::CommandLine { bound, socket })
}

fn daemon(flags: &Flags, model: &Model) -> bool {
    (flags.daemon || model.global.daemon) && !flags.foreground
}

fn write_pidfile(path: Option<&str>) -> anyhow::Result<()> {
    if let Some(path) = path {
        std::fs::write(path, format!("{}\n", std::process::id()))
            .map_err(|e| anyhow::anyhow!("cannot create pidfile {path} : {}", files::reason(&e)))?;
    }
    Ok(())
}

/// `tune.renice.*`
fn renice(flags: &Flags, nice: Option<i32>) {
    let Some(nice) = nice else { return };
    if let Err(e) = rustix::process::setpriority_process(None, nice) {
        let reason = files::reason(&e.into());
        warning(
            flags,
            &format!("cannot set the nice value {nice} : {reason}"),
        );
    }
}

/// Reads the configuration's text.
fn load(flags: &Flags, sources: &[sluice_config::SourceFile]) -> Loaded {
    let options = LoadOptions {
        env: environment(),
        loader: &files::Disk,
        lookup: &sys::lookup_host,
        store: Arc::default(),
        localpeer: flags.local_peer.clone().unwrap_or_else(hostname),
        master_worker: flags.worker.is_some(),
        features: features(),
        enabled: enabled(),
        tls_library: String::new(),
        ignores_unresolved: flags.ignore_unresolved,
        diag: flags.diag,
    };
    sluice_config::load(sources, &options)
}

/// What the start had to say, for `show startup-logs`.
fn startup_logs(diagnostics: &[Diagnostic]) -> String {
    let options = RenderOptions {
        pid: std::process::id(),
        colour: false,
        terse: false,
    };
    diagnostics.iter().map(|d| d.render(options)).collect()
}

/// Shows what was found; true when there were warnings.
fn report(flags: &Flags, diagnostics: &[Diagnostic]) -> bool {
    let options = RenderOptions {
        pid: std::process::id(),
        colour: std::io::stderr().is_terminal(),
        terse: false,
    };
    let mut err = std::io::stderr().lock();
    let mut warned = false;
    for d in diagnostics {
        warned |= d.severity == Severity::Warning;
        if flags.quiet && d.severity != Severity::Alert {
            continue;
        }
        // nowhere to complain when stderr is gone
        let _ = err.write_all(d.render(options).as_bytes());
    }
    warned
}

/// `-cc`: 0 when the condition holds, 1 when not, 2 when it cannot be evaluated (as HAProxy).
fn eval_condition(flags: &Flags, condition: &str) -> ExitCode {
    let (features, enabled) = (features(), enabled());
    let facts = Facts {
        environ: &Environ::new(&environment()),
        features: &features,
        enabled: &enabled,
        tls_library: "",
    };
    match sluice_config::eval_condition(condition, &facts) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(fault) => {
            alert(&format!(
                "config : Failed to evaluate condition: {}",
                fault.message
            ));
            if let Some(hint) = fault.hint.filter(|_| !flags.quiet) {
                eprintln!("  {hint}");
            }
            ExitCode::from(2)
        }
    }
}

/// The process's environment, as far as it is text.
fn environment() -> Vec<(String, String)> {
    std::env::vars_os()
        .filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?)))
        .collect()
}

/// What `feature()` finds.
fn features() -> Vec<String> {
    let built_in = version::FEATURES.iter().filter(|(_, on)| *on);
    built_in.map(|(name, _)| name.to_string()).collect()
}

/// What `enabled()` finds.
fn enabled() -> Vec<String> {
    version::ENABLED.iter().map(|n| n.to_string()).collect()
}

fn hostname() -> String {
    rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned()
}

/// Starts everything and stays until it is told to stop.
fn serve(flags: &Flags, model: Arc<Model>, startup_logs: &str) -> anyhow::Result<ExitCode> {
    renice(flags, model.global.renice_startup);
    let master = flags.worker.map(sys::take_over).transpose()?;
    let accepts = |p: &Proxy| p.is_frontend() && !p.disabled && !p.binds.is_empty();
    let forwards = |f: &LogForward| !f.binds.is_empty() || !f.datagrams.is_empty();
    if !model.proxies.iter().any(|p| accepts(p))
        && !model.log_forwards.iter().any(forwards)
        && model.global.stats_sockets.is_empty()
    {
        alert(
            "[haproxy.main()] No enabled listener found (check for 'bind' directives) ! Exiting.",
        );
        return Ok(ExitCode::FAILURE);
    }
    if let Err(e) = sluice_proxy::cpu_set::keep_to(&model.global) {
        alert(&format!("[haproxy.main()] cpu-set : {}", files::reason(&e)));
        return Ok(ExitCode::FAILURE);
    }
    let cpus = sys::available_cpus();
    let workers = model
        .global
        .nbthread
        .or(model.global.nbproc)
        .unwrap_or(cpus)
        .clamp(
            1,
            model
                .global
                .thread_hard_limit
                .unwrap_or(sys::WORKERS_MAX)
                .min(sys::WORKERS_MAX),
        );
    let limits = limits::settle(&model, flags.maxconn, workers);
    for text in &limits.shortages {
        let text = format!("[haproxy.main()] {text}");
        if model.global.strict_limits {
            alert(&text);
            return Ok(ExitCode::FAILURE);
        }
        warning(flags, &text);
    }
    if let Some(mb) = flags.memory_mb {
        sys::limit_memory(mb << 20).map_err(|e| {
            anyhow::anyhow!("cannot limit the memory to {mb} MB : {}", files::reason(&e))
        })?;
    }
    let mut inherited = match &flags.old_socket {
        Some(path) if path != "/dev/null" => match old_listeners(path) {
            Ok(taken) => taken,
            Err(e) => {
                alert(&format!(
                    "Failed to get the sockets from the old process ({path}): {}",
                    files::reason(&e)
                ));
                return Ok(ExitCode::FAILURE);
            }
        },
        _ => Inherited::default(),
    };
    let old: Vec<i32> = [&flags.finish[..], &flags.terminate].concat();
    let binds = model.proxies.iter().flat_map(|p| &p.binds);
    let servers = model.proxies.iter().flat_map(|p| &p.servers);
    let binds = binds.filter_map(|b| b.namespace.as_deref());
    let namespaces = binds.chain(servers.filter_map(|s| s.namespace.as_deref()));
    if let Err((name, e)) = sluice_proxy::net::namespace::open(namespaces) {
        alert(&format!(
            "Cannot open namespace '{name}' : {}",
            files::reason(&e)
        ));
        return Ok(ExitCode::FAILURE);
    }
    let tell_old = |signal| old.iter().for_each(|pid| sys::signal(*pid, signal));
    let bound = bind::bind_all(&model, workers, &mut inherited, || {
        tell_old(libc_signal::TTOU)
    });
    let listeners = match bound {
        Ok(l) => l,
        Err(errors) => {
            for e in errors {
                alert(&format!(
                    "Binding [{}:{}] for proxy {}: {}",
                    e.file,
                    e.line,
                    e.proxy,
                    e.sentence()
                ));
            }
            tell_old(libc_signal::TTIN);
            alert("[haproxy.main()] Some protocols failed to start their listeners! Exiting.");
            return Ok(ExitCode::FAILURE);
        }
    };
    let sockets = match command_socket::bind_sockets(&model, &mut inherited) {
        Ok(s) => s,
        Err(e) => {
            alert(&e);
            return Ok(ExitCode::FAILURE);
        }
    };
    // what no line wanted is closed: nobody would accept there
    drop(inherited);
    let mut offered = command_socket::offered(&sockets)?;
    offered.extend(listeners.offered(&model)?);
    let mut parent = None;
    if flags.worker.is_none() {
        parent = match background(flags, &model)? {
            Background::Left(code) => return Ok(code),
            Background::Here(parent) => parent,
        };
        write_pidfile(flags.pidfile.as_deref().or(model.global.pidfile.as_deref()))?;
    }
    for (pids, signal) in [
        (&flags.finish, libc_signal::USR1),
        (&flags.terminate, libc_signal::TERM),
    ] {
        for pid in pids {
            sys::signal(*pid, signal);
        }
    }
    let g = &model.global;
    // the configuration looked the names up; one without a number must not leave the process with all its rights
    if (g.user.is_some() && g.uid.is_none()) || (g.group.is_some() && g.gid.is_none()) {
        anyhow::bail!(
            "cannot find the ids of 'user' and 'group' : /etc/passwd or /etc/group cannot be read"
        );
    }
    renice(flags, g.renice_runtime);
    sys::drop_privileges(g.chroot.as_deref(), g.gid, g.uid, &g.capabilities).map_err(|e| {
        anyhow::anyhow!(
            "cannot chroot or change user and group : {}",
            files::reason(&e)
        )
    })?;
    let runtime = Arc::new(state::build(
        model.clone(),
        StartInfo {
            now: sluice_proxy::clock::read(),
            workers,
            pid: std::process::id(),
            hostname: hostname().into(),
            maxconn: limits.maxconn,
            max_fds: limits.max_fds,
            maxpipes: limits.maxpipes,
        },
    ));
    for fault in state_file::restore(&runtime, sluice_proxy::clock::mono_ms()) {
        warning(flags, &fault);
    }
    let rings = Rings::new(&model);
    let shared = Arc::new(Shared {
        proc_vars: sluice_expr::vars::ProcVars::new(
            model.global.tune.vars_proc_max,
            model.global.tune.vars_global_max,
        ),
        runtime,
    });
    shared.set_process_vars();
    let workers = start::start(&shared, &rings, listeners)?;
    parent.into_iter().for_each(sys::Parent::tell_ready);
    let doors = control_loop::Doors {
        sockets,
        offered,
        master,
        startup_logs: startup_logs.to_owned(),
    };
    control_loop::run(flags, shared, rings, workers, doors)
}

/// The listeners of the process behind a command socket (`-x`).
fn old_listeners(path: &str) -> std::io::Result<Inherited> {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixStream};
    if let Some(fd) = path.strip_prefix("fd@").and_then(|n| n.parse().ok()) {
        return Inherited::ask(&sys::take_over(fd)?.into());
    }
    let old = match path.strip_prefix("abns@") {
        Some(name) => UnixStream::connect_addr(&SocketAddr::from_abstract_name(name)?)?,
        None => UnixStream::connect(path.strip_prefix("unix@").unwrap_or(path))?,
    };
    Inherited::ask(&old)
}

/// Signals sent to the processes of `-sf` and `-st`.
mod libc_signal {
    pub const USR1: i32 = 10;
    pub const TERM: i32 = 15;
    pub const TTIN: i32 = 21;
    pub const TTOU: i32 = 22;
}
