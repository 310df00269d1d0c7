//! `add server`, `del server`: what they do is decided in `sluice_engine::dynamic`; here are the words.

use sluice_config::model::CliLevel;
use sluice_engine::state::admin;

use super::{Call, Command, ERROR, INFO, NOTICE, server};

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
];

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
