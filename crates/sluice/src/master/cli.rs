//! The master's command line (`-S`; management guide 9.4): its own few commands, and `@` before those that a worker shall
//! run. Levels and prompts are those of the runtime command line.

use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

use sluice_config::model::CliLevel;
use sluice_control::cli::{level_name, split_line};
use sluice_control::info::VERSION;
use sluice_proxy::net::listen::Bound;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::oneshot;

use super::workers::{Stage, Worker};
use super::{CommandLine, Event, Hurry, Master};
use crate::command_socket::{COMMAND_MAX, next_line};

/// How long a connection may be silent: HAProxy's master waits as long.
const PATIENCE: Duration = Duration::from_secs(3600);

/// Longest answer of a worker that is passed on.
const ANSWER_MAX: u64 = 256 << 20;

/// Accepts connections for as long as the master lives.
pub async fn serve(master: Rc<Master>, line: CommandLine) -> io::Result<()> {
    let level = line.socket.level;
    match line.bound {
        Bound::Unix(l) => {
            let l = tokio::net::UnixListener::from_std(l)?;
            loop {
                if let Ok((io, _)) = l.accept().await {
                    tokio::task::spawn_local(connection(master.clone(), io, level));
                }
            }
        }
        Bound::Tcp(l) => {
            let l = tokio::net::TcpListener::from_std(l)?;
            loop {
                if let Ok((io, _)) = l.accept().await {
                    tokio::task::spawn_local(connection(master.clone(), io, level));
                }
            }
        }
    }
}

/// Who runs the next command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    Master,
    Worker(i32),
}

struct Session {
    level: CliLevel,
    prompt: bool,
    target: Target,
}

impl Session {
    fn prompt_text(&self) -> String {
        match self.target {
            Target::Master => "master> ".into(),
            Target::Worker(pid) => format!("{pid}> "),
        }
    }
}

/// What a command leads to.
enum Outcome {
    Text(String),
    /// The rest of the line is not run.
    Refused(String),
    Close,
}

async fn connection(
    master: Rc<Master>,
    mut io: impl AsyncRead + AsyncWrite + Unpin,
    level: CliLevel,
) {
    let mut session = Session {
        level,
        prompt: false,
        target: Target::Master,
    };
    let mut input = Vec::new();
    while let Some(line) = next_line(&mut io, &mut input, PATIENCE, COMMAND_MAX).await {
        let mut out = String::new();
        let mut close = false;
        for command in split_line(&line) {
            match run(&master, &mut session, &command).await {
                Outcome::Text(text) => out.push_str(&text),
                Outcome::Refused(text) => {
                    out.push_str(&text);
                    break;
                }
                Outcome::Close => {
                    close = true;
                    break;
                }
            }
        }
        if session.prompt {
            out.push_str(&session.prompt_text());
        }
        let written = io.write_all(out.as_bytes()).await;
        if close || !session.prompt || written.is_err() {
            break;
        }
    }
    // let the client read everything before the close
    let _ = io.shutdown().await;
}

async fn run(master: &Rc<Master>, session: &mut Session, command: &str) -> Outcome {
    let mut target = session.target;
    let mut rest = command.trim_start();
    if rest.starts_with('@') {
        let (prefix, behind) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        let Some(found) = find(master, prefix) else {
            let text = format!("Can't find the target PID matching the prefix '{prefix}'\n");
            return Outcome::Refused(text);
        };
        (target, rest) = (found, behind.trim_start());
        if rest.is_empty() {
            session.target = target;
            return Outcome::Text(String::new());
        }
    }
    let words: Vec<&str> = rest.split_whitespace().collect();
    match (words.as_slice(), target) {
        ([], _) => Outcome::Text("\n".into()),
        (["quit"], _) => Outcome::Close,
        (["prompt", ..], _) => {
            session.prompt = !session.prompt;
            Outcome::Text("\n".into())
        }
        (_, Target::Worker(pid)) => match forward(master, pid, session.level, rest).await {
            Ok(text) => Outcome::Text(text),
            Err(e) => Outcome::Refused(format!(
                "cannot reach the worker {pid}: {}\n",
                crate::files::reason(&e)
            )),
        },
        (["reload"], Target::Master) if session.level >= CliLevel::Admin => {
            reload(master, Hurry::Soft).await
        }
        (["hard-reload"], Target::Master) if session.level >= CliLevel::Admin => {
            reload(master, Hurry::Hard).await
        }
        (words, Target::Master) => Outcome::Text(own(master, session, words) + "\n"),
    }
}

/// `@master`, `@1` (the current worker), `@!<pid>`.
fn find(master: &Master, prefix: &str) -> Option<Target> {
    let workers = master.workers.borrow();
    let name = prefix.strip_prefix('@')?;
    if name == "master" || name == "0" {
        return Some(Target::Master);
    }
    let pid = match name.strip_prefix('!') {
        Some(pid) => pid.parse().ok()?,
        None if name == "1" => workers.first()?.pid,
        None => return None,
    };
    if pid == std::process::id() as i32 {
        return Some(Target::Master);
    }
    workers.iter().find(|w| w.pid == pid)?;
    Some(Target::Worker(pid))
}

/// Lets a worker run one command.
async fn forward(master: &Master, pid: i32, level: CliLevel, command: &str) -> io::Result<String> {
    let io = {
        let workers = master.workers.borrow();
        let found = workers.iter().find(|w| w.pid == pid);
        found.ok_or(io::ErrorKind::NotFound)?.link.connect(level)?
    };
    io.set_nonblocking(true)?;
    let mut io = tokio::net::UnixStream::from_std(io)?;
    // a payload ends with an empty line
    let end = if command.contains("<<") { "\n\n" } else { "\n" };
    io.write_all(format!("{}{end}", command.trim_end()).as_bytes())
        .await?;
    let mut answer = Vec::new();
    io.take(ANSWER_MAX).read_to_end(&mut answer).await?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// Waits until the new worker serves, or does not.
async fn reload(master: &Master, hurry: Hurry) -> Outcome {
    let (answer, asked) = oneshot::channel();
    let sent = master.events.send(Event::Reload(answer, hurry));
    let done = sent.is_ok() && asked.await.unwrap_or(false);
    Outcome::Text(format!("Success={}\n\n", u8::from(done)))
}

type Run = fn(&Master, &mut Session) -> String;

/// The master's commands: words, arguments, help, level, action. Those without an action are done before.
#[rustfmt::skip]
const COMMANDS: &[(&str, &str, CliLevel, Option<Run>)] = &[
    (
        "@!<pid>",
        "send a command to the <pid> process",
        CliLevel::User,
        None,
    ),
    (
        "@<relative pid>",
        "send a command to the <relative pid> process",
        CliLevel::User,
        None,
    ),
    (
        "@master",
        "send a command to the master process",
        CliLevel::User,
        None,
    ),
    (
        "operator",
        "lower the level of the current CLI session to operator",
        CliLevel::User,
        Some(|_, s| lower(s, CliLevel::Operator)),
    ),
    ("reload", "reload haproxy", CliLevel::Admin, None),
    (
        "show cli level",
        "display the level of the current CLI session",
        CliLevel::User,
        Some(|_, s| format!("{}\n", level_name(s.level))),
    ),
    (
        "show cli sockets",
        "dump list of cli sockets",
        CliLevel::User,
        Some(|m, s| sockets(m, s)),
    ),
    (
        "show proc",
        "show processes status",
        CliLevel::User,
        Some(|m, _| processes(m)),
    ),
    (
        "show version",
        "show version of the current process",
        CliLevel::User,
        Some(|_, _| format!("{VERSION}\n")),
    ),
    (
        "user",
        "lower the level of the current CLI session to user",
        CliLevel::User,
        Some(|_, s| lower(s, CliLevel::User)),
    ),
    (
        "help [<command>]",
        "list matching or all commands",
        CliLevel::User,
        None,
    ),
    (
        "prompt",
        "toggle interactive mode with prompt",
        CliLevel::User,
        None,
    ),
    ("quit", "disconnect", CliLevel::User, None),
];

/// A command of the master itself.
fn own(master: &Master, session: &mut Session, words: &[&str]) -> String {
    if words[0] == "help" {
        return help(
            session.level,
            "The following commands are valid at this level:",
        );
    }
    let line = words.join(" ");
    let found = COMMANDS
        .iter()
        .find(|(name, _, level, _)| line == *name && *level <= session.level);
    match found {
        Some((_, _, _, Some(run))) => run(master, session),
        _ if matches!(&*line, "reload" | "hard-reload") => "Permission denied\n".into(),
        _ => help(
            session.level,
            "Unknown command, but maybe one of the following ones is a better match:",
        ),
    }
}

fn help(level: CliLevel, heading: &str) -> String {
    let mut out = format!("{heading}\n");
    for (name, text, wanted, _) in COMMANDS {
        if *wanted <= level {
            out.push_str(&format!("  {name:<40}: {text}\n"));
        }
    }
    out
}

fn lower(session: &mut Session, to: CliLevel) -> String {
    session.level = session.level.min(to);
    String::new()
}

fn sockets(master: &Master, session: &Session) -> String {
    format!(
        "# socket lvl processes\n{} {} all\n",
        master.socket_name.borrow(),
        level_name(session.level)
    )
}

/// `show proc`
fn processes(master: &Master) -> String {
    let workers = master.workers.borrow();
    let row = |pid: &str, kind: &str, reloads: &str, uptime: &str, version: &str| {
        format!("{pid:<15} {kind:<15} {reloads:<15} {uptime:<15} {version:<15}\n")
    };
    let mut out = row("#<PID>", "<type>", "<reloads>", "<uptime>", "<version>");
    out.push_str(&row(
        &std::process::id().to_string(),
        "master",
        &format!("{} [failed: {}]", workers.reloads, workers.failed),
        &uptime(workers.started),
        VERSION,
    ));
    let mut list = |heading: &str, leaving: bool| {
        let of = |w: &&Worker| (w.stage == Stage::Leaving) == leaving;
        if leaving && workers.iter().filter(of).count() == 0 {
            return;
        }
        out.push_str(&format!("{heading}\n"));
        for w in workers.iter().filter(of) {
            out.push_str(&row(
                &w.pid.to_string(),
                "worker",
                &w.reloads.to_string(),
                &uptime(w.started),
                VERSION,
            ));
        }
    };
    list("# workers", false);
    list("# old workers", true);
    out.push_str("# programs\n");
    out
}

fn uptime(since: Instant) -> String {
    let s = since.elapsed().as_secs();
    format!(
        "{}d{:02}h{:02}m{:02}s",
        s / 86400,
        s / 3600 % 24,
        s / 60 % 60,
        s % 60
    )
}
