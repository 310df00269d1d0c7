//! Binding the names in arguments (proxies, servers, tables, userlists) to the things of the configuration, once it is
//! read.

use std::ops::Range;

use crate::args::{Arg, NameRef};
use crate::compile::Expr;
use crate::env::{ProxyId, ServerId};
use crate::error::ExprError;

/// Binds names to things once the whole configuration is read. `None`: no such thing.
pub trait Names {
    fn frontend(&self, name: &str) -> Option<ProxyId>;
    fn backend(&self, name: &str) -> Option<ProxyId>;
    /// The proxy the expression stands in, for arguments left out.
    fn current(&self) -> Option<ProxyId>;
    /// The same when it can be a frontend (`fe_conn` without argument).
    fn current_frontend(&self) -> Option<ProxyId> {
        self.current()
    }
    /// The same when it can be a backend (`be_conn` without argument).
    fn current_backend(&self) -> Option<ProxyId> {
        self.current()
    }
    fn server(&self, backend: &str, server: &str) -> Option<ServerId>;
    fn table(&self, name: &str) -> Option<ProxyId>;
    fn userlist(&self, name: &str) -> Option<u32>;
    /// Whether a userlist has a group.
    fn has_group(&self, _userlist: u32, _group: &str) -> bool {
        true
    }
}

impl Expr {
    /// Binds the names in the arguments to the things of the configuration. Gives one error for each that does not
    /// exist; an expression may be resolved again for another proxy only after it was parsed again.
    pub fn resolve(&self, names: &dyn Names) -> Vec<ExprError> {
        let of_steps = self
            .steps
            .iter()
            .flat_map(|s| s.args.iter().map(move |a| (s.def.name, a)));
        let of_fetch = self.args.iter().map(|a| (self.fetch.name, a));
        of_fetch
            .chain(of_steps)
            .filter_map(|(user, arg)| resolve_arg(arg, names).err().map(|e| (user, e)))
            .map(|(user, (message, name))| {
                let error = ExprError::new(format!("`{user}`: {message}"));
                match argument_at(&self.text, &name) {
                    Some(span) => error.at(span),
                    None => error,
                }
            })
            .collect()
    }
}

/// Where `name` stands as an argument of its own.
fn argument_at(text: &str, name: &str) -> Option<Range<usize>> {
    let delimits = |b: Option<&u8>| b.is_some_and(|b| b"(),\"'".contains(b));
    let bytes = text.as_bytes();
    let mut found = text.match_indices(name).filter(|_| !name.is_empty());
    found
        .find(|(at, _)| delimits(bytes[..*at].last()) && delimits(bytes.get(at + name.len())))
        .map(|(at, _)| at..at + name.len())
}

/// Binds one argument; the error is a message and the name as written.
fn resolve_arg(arg: &Arg, names: &dyn Names) -> Result<(), (String, String)> {
    fn bind<T: Copy>(
        what: &str,
        name: &NameRef<T>,
        current: impl FnOnce() -> Option<T>,
        named: impl FnOnce(&str) -> Option<T>,
    ) -> Result<(), (String, String)> {
        if name.id().is_some() {
            return Ok(());
        }
        let found = if name.name.is_empty() {
            current().ok_or_else(|| format!("name the {what}: the current section is none"))
        } else {
            named(&name.name).ok_or_else(|| format!("no {what} is called '{}'", name.name))
        };
        let id = found.map_err(|message| (message, name.name.clone()))?;
        // Lost only to another thread that bound the same name.
        let _ = name.id.set(id);
        Ok(())
    }
    match arg {
        Arg::Frontend(n) => bind(
            "frontend",
            n,
            || names.current_frontend(),
            |s| names.frontend(s),
        ),
        Arg::Backend(n) => bind(
            "backend",
            n,
            || names.current_backend(),
            |s| names.backend(s),
        ),
        Arg::Table(n) => bind("stick table", n, || names.current(), |s| names.table(s)),
        Arg::Userlist(n) => bind("userlist", n, || None, |s| names.userlist(s)),
        Arg::Server(n) => bind(
            "server",
            n,
            || None,
            |s| match s.split_once('/') {
                Some((backend, server)) => names.server(backend, server),
                None => names.server("", s),
            },
        ),
        _ => Ok(()),
    }
}
