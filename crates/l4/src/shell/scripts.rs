//! Programs that are told (notify scripts, fifos) and programs that are asked (vrrp_script), beside files and processes
//! that are tracked.

use super::bfd::Bfds;
use super::routers::{Command, Routers};
use crate::config::model::{
    Config, HostScript, ParamMatch, Script, ScriptUser, TrackProcess, TrackedScript,
};
use crate::host;
use crate::vrrp::track::RiseFall;
use std::os::unix::fs::OpenOptionsExt;
use std::process::Stdio;
use std::rc::Rc;
use std::time::Duration;
use tokio::task::JoinHandle;

/// Looks at tracked files this often.
const FILE_PERIOD: Duration = Duration::from_millis(250);
/// Looks at tracked processes this often.
const PROCESS_PERIOD: Duration = Duration::from_millis(500);

/// `secure`: enable_script_security, looked at each time, since files change.
fn command(
    argv: &[String],
    user: Option<&ScriptUser>,
    secure: bool,
) -> Result<tokio::process::Command, String> {
    let (program, args) = argv.split_first().ok_or("no program")?;
    if secure {
        let user = user.map(|u| (u.user.clone(), u.group.clone()));
        host::safe_for_root(program, user.as_ref())?;
    }
    let mut command = tokio::process::Command::new(program);
    command
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true);
    if let Some(u) = user {
        let (uid, gid) =
            host::user(&u.user, u.group.as_deref()).ok_or_else(|| format!("no user {}", u.user))?;
        command.uid(uid).gid(gid);
    }
    Ok(command)
}

/// Who a script runs as that has no user of its own: script_user, or keepalived_script where that user exists.
pub fn default_user(config: &Config) -> Option<ScriptUser> {
    let usual = || {
        host::user("keepalived_script", None).map(|_| ScriptUser {
            user: "keepalived_script".into(),
            group: None,
        })
    };
    config.globals.script_user.clone().or_else(usual)
}

fn user_of(script: &Script, config: &Config) -> Option<ScriptUser> {
    script.user.clone().or_else(|| default_user(config))
}

/// Starts a notify script with more arguments; it is not waited for.
pub fn notify(script: &Script, more: &[&str], config: &Config) {
    let mut argv = script.argv.clone();
    argv.extend(more.iter().map(ToString::to_string));
    let started = command(
        &argv,
        user_of(script, config).as_ref(),
        config.globals.script_security,
    )
    .and_then(|mut c| c.kill_on_drop(false).spawn().map_err(|e| e.to_string()));
    match started {
        Ok(mut child) => drop(tokio::spawn(async move { child.wait().await })),
        Err(e) => eprintln!("cannot run {}: {e}", argv.first().map_or("", |a| a)),
    }
}

/// Writes a line into each fifo; nobody is waited for, and what a full one cannot take is lost.
pub fn write_fifos<'a>(paths: impl Iterator<Item = &'a String>, line: &str) {
    for path in paths {
        let opened = std::fs::OpenOptions::new()
            .write(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(path);
        if let Ok(mut fifo) = opened {
            let _ = std::io::Write::write_all(&mut fifo, line.as_bytes());
        }
    }
}

/// Makes the fifos of the configuration that are not there.
pub fn make_fifos(config: &Config) {
    let g = &config.globals;
    for path in [&g.notify_fifo, &g.vrrp_notify_fifo, &g.lvs_notify_fifo]
        .into_iter()
        .flatten()
    {
        let made = rustix::fs::mknodat(
            rustix::fs::CWD,
            path,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::from_raw_mode(0o600),
            0,
        );
        if let Err(e) = made
            && e != rustix::io::Errno::EXIST
        {
            eprintln!("cannot make the fifo {path}: {e}");
        }
    }
}

/// startup_script and shutdown_script: waited for, as long as they may take.
pub async fn run_once(script: &HostScript, config: &Config) {
    let Some(s) = &script.script else { return };
    let name = s.argv.first().map_or("", |a| a);
    let secure = config.globals.script_security;
    let limit = Duration::from_secs(script.timeout_s.into());
    let mut command = match command(&s.argv, user_of(s, config).as_ref(), secure) {
        Ok(command) => command,
        Err(e) => return eprintln!("cannot run {name}: {e}"),
    };
    // Dropped with the future, it is killed.
    match tokio::time::timeout(limit, command.status()).await {
        Ok(Ok(status)) if status.success() => {}
        Ok(Ok(status)) => println!("{name}: {status}"),
        Ok(Err(e)) => println!("cannot run {name}: {e}"),
        Err(_) => println!("{name} was killed: it took more than {limit:?}"),
    }
}

/// The programs that read the fifos; they are told to end when this goes.
pub struct FifoReaders {
    children: Vec<tokio::process::Child>,
    /// Both ends of each fifo: a reader does not come to an end between two lines.
    _open: Vec<std::fs::File>,
}

impl FifoReaders {
    pub fn start(config: &Config) -> Self {
        let g = &config.globals;
        let pairs = [
            (&g.fifo_script, &g.notify_fifo),
            (&g.vrrp_fifo_script, &g.vrrp_notify_fifo),
            (&g.lvs_fifo_script, &g.lvs_notify_fifo),
        ];
        let mut children = Vec::new();
        for (script, path) in pairs {
            let (Some(script), Some(path)) = (script, path) else {
                continue;
            };
            let argv: Vec<String> = script.argv.iter().chain([path]).cloned().collect();
            let user = user_of(script, config);
            let started = command(&argv, user.as_ref(), g.script_security)
                .and_then(|mut c| c.kill_on_drop(false).spawn().map_err(|e| e.to_string()));
            match started {
                Ok(child) => children.push(child),
                Err(e) => eprintln!("cannot run {}: {e}", argv.first().map_or("", |a| a)),
            }
        }
        let open = |path| {
            let mut options = std::fs::OpenOptions::new();
            options
                .read(true)
                .write(true)
                .custom_flags(libc::O_NONBLOCK);
            options.open(path).ok()
        };
        let paths = [&g.notify_fifo, &g.vrrp_notify_fifo, &g.lvs_notify_fifo];
        FifoReaders {
            children,
            _open: paths.into_iter().flatten().filter_map(open).collect(),
        }
    }
}

impl Drop for FifoReaders {
    fn drop(&mut self) {
        let pids = self.children.iter().filter_map(|c| c.id());
        for pid in pids.filter_map(|p| rustix::process::Pid::from_raw(p as i32)) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
    }
}

/// The trackers at work; dropping it ends them.
pub struct Trackers {
    tasks: Vec<JoinHandle<()>>,
}

impl Drop for Trackers {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

impl Trackers {
    /// No trackers.
    pub fn none() -> Self {
        Trackers { tasks: Vec::new() }
    }

    /// Starts what the instances and groups of the configuration refer to. Must run inside a `LocalSet`.
    pub fn start(config: &Config, routers: &Rc<Routers>, bfds: &Bfds) -> Self {
        let tracks = || {
            config
                .instances
                .iter()
                .map(|i| &i.tracks)
                .chain(config.sync_groups.iter().map(|g| &g.tracks))
        };
        let mut tasks = Vec::new();
        for script in config
            .scripts
            .iter()
            .filter(|s| tracks().any(|t| t.scripts.iter().any(|x| x.name == s.name)))
        {
            let user = script.script.as_ref().and_then(|s| user_of(s, config));
            tasks.push(tokio::task::spawn_local(run_script(
                script.clone(),
                user,
                config.globals.script_security,
                routers.clone(),
            )));
        }
        for file in config
            .track_files
            .iter()
            .filter(|f| tracks().any(|t| t.files.iter().any(|x| x.name == f.name)))
        {
            if let Some((value, overwrite)) = file.init
                && (overwrite || !std::path::Path::new(&file.path).exists())
                && let Err(e) = std::fs::write(&file.path, format!("{value}\n"))
            {
                eprintln!("cannot write {}: {e}", file.path);
            }
            let (name, path, routers) = (file.name.clone(), file.path.clone(), routers.clone());
            tasks.push(tokio::task::spawn_local(async move {
                let mut last = None;
                loop {
                    // A file that is not there, or holds no number, counts as 0.
                    let value = std::fs::read_to_string(&path)
                        .ok()
                        .and_then(|t| t.trim().parse().ok())
                        .unwrap_or(0);
                    if last != Some(value) {
                        last = Some(value);
                        routers.send(Command::File(name.clone(), value));
                    }
                    tokio::time::sleep(FILE_PERIOD).await;
                }
            }));
        }
        for process in config
            .track_processes
            .iter()
            .filter(|p| tracks().any(|t| t.processes.iter().any(|x| x.name == p.name)))
        {
            tasks.push(tokio::task::spawn_local(watch_process(
                process.clone(),
                routers.clone(),
            )));
        }
        for bfd in config
            .bfds
            .iter()
            .filter(|b| tracks().any(|t| t.bfds.iter().any(|x| x.name == b.name)))
        {
            let Some(mut session) = bfds.follow(&bfd.name) else {
                continue;
            };
            let (name, routers) = (bfd.name.clone(), routers.clone());
            tasks.push(tokio::task::spawn_local(async move {
                loop {
                    let up = *session.borrow_and_update();
                    routers.send(Command::Bfd(name.clone(), up));
                    if session.changed().await.is_err() {
                        return;
                    }
                }
            }));
        }
        Trackers { tasks }
    }
}

async fn run_script(
    script: TrackedScript,
    user: Option<ScriptUser>,
    secure: bool,
    routers: Rc<Routers>,
) {
    let Some(what) = &script.script else { return };
    let limit = Duration::from_micros(script.timeout_us.unwrap_or(script.interval_us));
    let mut state = RiseFall::new(script.rise, script.fall, !script.init_fail);
    let mut first = true;
    let mut said = None;
    loop {
        let began = tokio::time::Instant::now();
        let good = match command(&what.argv, user.as_ref(), secure) {
            Ok(mut c) => {
                matches!(tokio::time::timeout(limit, c.status()).await, Ok(Ok(status)) if status.success())
            }
            Err(why) => {
                if said.as_ref() != Some(&why) {
                    println!("vrrp_script {}: {why}", script.name);
                    said = Some(why);
                }
                false
            }
        };
        if state.result(good) || first {
            first = false;
            routers.send(Command::Script(script.name.clone(), state.up()));
        }
        tokio::time::sleep_until(began + Duration::from_micros(script.interval_us)).await;
    }
}

async fn watch_process(process: TrackProcess, routers: Rc<Routers>) {
    let mut reported = None;
    let mut since = tokio::time::Instant::now();
    let mut seen = None;
    loop {
        let count = count_processes(&process);
        let good = (process.quorum..=process.quorum_max).contains(&count);
        if seen != Some(good) {
            seen = Some(good);
            since = tokio::time::Instant::now();
        }
        let delay = if good {
            process.fork_delay_us
        } else {
            process.terminate_delay_us
        };
        if reported != Some(good)
            && (reported.is_none() || since.elapsed() >= Duration::from_micros(delay))
        {
            reported = Some(good);
            routers.send(Command::Process(process.name.clone(), good));
        }
        tokio::time::sleep(PROCESS_PERIOD).await;
    }
}

fn count_processes(wanted: &TrackProcess) -> u32 {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return 0;
    };
    let pids = entries
        .filter_map(|e| e.ok()?.file_name().into_string().ok())
        .filter(|n| n.bytes().all(|b| b.is_ascii_digit()));
    pids.filter(|pid| is_process(pid, wanted)).count() as u32
}

fn is_process(pid: &str, wanted: &TrackProcess) -> bool {
    let read = |file: &str| std::fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
    let Some(name) = wanted.command.first() else {
        return false;
    };
    if !wanted.full_command && wanted.param_match == ParamMatch::Any {
        // The kernel keeps 15 characters of a name.
        let comm = read("comm");
        return comm.trim_ascii_end() == name.as_bytes().get(..15).unwrap_or(name.as_bytes());
    }
    let line = read("cmdline");
    let words: Vec<&[u8]> = line.split(|b| *b == 0).filter(|w| !w.is_empty()).collect();
    let base = |w: &[u8]| w.rsplit(|b| *b == b'/').next().unwrap_or_default().to_vec();
    let Some(program) = words.first() else {
        return false;
    };
    if *program != name.as_bytes() && base(program) != name.as_bytes() {
        return false;
    }
    let (params, got) = (&wanted.command[1..], &words[1..]);
    match wanted.param_match {
        ParamMatch::Any => true,
        ParamMatch::Exact => {
            params.len() == got.len() && params.iter().zip(got).all(|(p, g)| p.as_bytes() == *g)
        }
        ParamMatch::Partial => {
            params.len() <= got.len() && params.iter().zip(got).all(|(p, g)| p.as_bytes() == *g)
        }
        ParamMatch::Initial => {
            params.len() <= got.len()
                && params.iter().zip(got).enumerate().all(|(i, (p, g))| {
                    if i + 1 == params.len() {
                        g.starts_with(p.as_bytes())
                    } else {
                        p.as_bytes() == *g
                    }
                })
        }
    }
}
