//! `add server`, `del server`: what they do is decided in `sluice_engine::dynamic`; here are the words.

use sluice_config::model::{CliLevel, Mode};
use sluice_engine::state::admin;

use std::time::Duration;

use sluice_engine::dynamic::DeleteError;
use sluice_expr::ServerId;

use super::{Call, Command, ERROR, Host, INFO, NOTICE, server};

pub const COMMANDS: &[Command] = &[
    Command {
        words: &["add", "server"],
        args: "<bk>/<srv>",
        help: "create a new server",
        level: CliLevel::Admin,
        run: add,
    },
    Command {
        words: &["del", "server"],
        args: "<bk>/<srv>",
        help: "remove a dynamically added server",
        level: CliLevel::Admin,
        run: delete,
    },
    Command {
        words: &["wait"],
        args: "{-h|<delay_ms>} [cond [args...]]",
        help: "wait the specified delay or condition (-h to see list)",
        level: CliLevel::User,
        // with a delay it is the shell's ([`waited`])
        run: |c| match c.arg(0) {
            "-h" => WAIT_HELP.into(),
            _ => c.error("Invalid duration.\n"),
        },
    },
];

const WAIT_HELP: &str = "\
Usage: wait {-h|<duration>} [condition [args...]]
  - '-h' displays this help
  - <duration> is the maximum wait time, in milliseconds unless it has a unit
  - <condition> is what ends the wait sooner:
    srv-removable <backend>/<server>    the server can be deleted
";

/// What a `wait` command waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wait {
    pub at_most: Duration,
    /// The server that is to become removable.
    pub removable: Option<ServerId>,
}

/// The wait that a command asks for, or why it cannot be; `None` for any other command.
pub fn waited(command: &str, host: &dyn Host) -> Option<Result<Wait, String>> {
    let mut words = command.split_whitespace();
    let delay = words.next().filter(|w| *w == "wait").and(words.next())?;
    let ms =
        sluice_config::values::parse_time_ms(delay, sluice_config::values::TimeUnit::Ms).ok()?;
    let mut wait = Wait {
        at_most: Duration::from_millis(ms),
        removable: None,
    };
    match words.next() {
        None => Some(Ok(wait)),
        Some("srv-removable") => {
            let Some((backend, name)) = words.next().and_then(|s| s.split_once('/')) else {
                return Some(Err("Missing server.\n".into()));
            };
            let mut backends = host.runtime().proxies.iter();
            let Some(p) = backends.find(|p| *p.name == *backend) else {
                return Some(Err("No such backend.\n".into()));
            };
            wait.removable = p.servers.iter().find(|s| *s.name == *name).map(|s| s.id);
            match wait.removable {
                Some(_) => Some(Ok(wait)),
                None => Some(Err("No such server.\n".into())),
            }
        }
        Some(other) => Some(Err(format!(
            "Unknown condition '{other}' (see 'wait -h').\n"
        ))),
    }
}

impl Wait {
    /// Looks whether what is waited for is there, or can never be: then what is to be answered.
    pub fn look(&self, host: &dyn Host) -> Option<String> {
        let id = self.removable?;
        if host.runtime().server(id).admin() & admin::MAINT != 0 {
            host.close_idle(id);
        }
        match host.runtime().may_delete(id) {
            Ok(()) => Some("Done.\n".into()),
            Err(DeleteError::HasConnections) => None,
            Err(never) => Some(format!("{never}\n")),
        }
    }

    /// What is answered when the time is over.
    pub fn expired(&self) -> &'static str {
        match self.removable {
            Some(_) => "Wait delay expired.\n",
            None => "Done.\n",
        }
    }
}

fn add(c: &mut Call<'_>) -> String {
    let Some((backend, name)) = c
        .arg(0)
        .split_once('/')
        .filter(|(b, s)| !b.is_empty() && !s.is_empty())
    else {
        return c.error("Require 'backend/server'.");
    };
    let rt = c.rt();
    let mut backends = rt.model.proxies.iter().filter(|p| p.is_backend());
    let Some(proxy) = backends.find(|p| *p.name == *backend) else {
        return c.error("No such backend.");
    };
    if proxy.mode == Mode::Log {
        return c.error("Backends in mode log take no servers by command.");
    }
    if let Err(e) = rt.takes_servers(proxy.id) {
        return c.error(&e.to_string());
    }
    let named = rt.proxy(proxy.id).servers.iter().any(|s| *s.name == *name);
    if named {
        let taken = sluice_engine::dynamic::AddError::NameTaken;
        return c.say(ERROR, &format!("{taken}\n"));
    }
    let one = match sluice_config::parse_server(name, proxy.mode, &c.args[1..]) {
        Ok(one) => one,
        Err(e) => return c.error(&format!("{e}\n")),
    };
    match rt.add_server(proxy.id, one.server, one.enabled, c.now_ms()) {
        Ok(id) => {
            c.host.server_added(id);
            c.say(NOTICE, "New server registered.\n")
        }
        Err(e) => c.error(&e.to_string()),
    }
}

fn delete(c: &mut Call<'_>) -> String {
    let id = match server::find(c) {
        Ok(id) => id,
        Err(e) => return c.error(e.trim_end()),
    };
    if c.rt().server(id).admin() & admin::MAINT != 0 {
        // nobody will use them any more
        c.host.close_idle(id);
    }
    match c.rt().delete_server(id) {
        Ok(()) => c.say(INFO, "Server deleted."),
        Err(e) => c.error(&e.to_string()),
    }
}
