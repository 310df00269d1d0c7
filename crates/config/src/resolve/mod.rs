//! The resolve pass: once every line is read, names become ids, settings become the [`Model`], and what can only be
//! judged as a whole is judged (with HAProxy's words).

mod accounts;
mod consistency;
mod defaults;
mod logging;
mod names;
mod oddities;
mod proxy;
mod servers;
mod userlists;

use std::sync::Arc;

use sluice_expr::LogFormat;
use sluice_expr::place::Place;
use sluice_expr::{AclTable, ExprError, Loader, ParseCtx, Purpose};

use crate::cx::{Cx, DefaultsUse, Pending, PendingAt, about};
use crate::diag::{Diagnostic, Severity};
use crate::files::Files;
use crate::line::{Line, Written};
use crate::model::*;
use crate::raw::{Raw, RawProxy};
use crate::{LoadOptions, Loaded};
use accounts::Accounts;
pub(crate) use logging::profile;

/// Every section as read, and where to report.
pub struct Resolver<'a> {
    pub raw: &'a Raw,
    pub(crate) mailers: Vec<Arc<crate::model::Mailers>>,
    pub(crate) log_profiles: Vec<Arc<LogProfile>>,
    pub(crate) defaults: &'a [RawProxy],
    pub(crate) defaults_used: &'a [DefaultsUse],
    pub(crate) opts: &'a LoadOptions<'a>,
    pub(crate) loader: &'a dyn Loader,
    pub diagnostics: Vec<Diagnostic>,
}

/// Ends the reading of a configuration.
pub(crate) fn resolve(mut cx: Cx<'_>) -> Loaded {
    let raw = std::mem::take(&mut cx.raw);
    let pending = std::mem::take(&mut cx.pending);
    let loader = Files::owned(&cx);
    let mut resolver = Resolver {
        raw: &raw,
        mailers: raw
            .mailers
            .iter()
            .map(|(m, _)| Arc::new(m.clone()))
            .collect(),
        log_profiles: raw
            .log_profiles
            .iter()
            .map(|(p, _)| Arc::new(p.clone()))
            .collect(),
        defaults: &cx.defaults,
        defaults_used: &cx.defaults_used,
        opts: cx.opts,
        loader: &loader,
        diagnostics: Vec::new(),
    };
    defaults::check(&mut resolver);
    bind_names(&mut resolver, &pending);
    let userlists = userlists::build(&mut resolver);
    let accounts = Accounts::read(&resolver);
    let mut proxies = Vec::new();
    // HAProxy's command line is a proxy of its own and has the first id
    let first = if raw.global.stats_sockets.is_empty() {
        1
    } else {
        2
    };
    let ids = free_ids(first, raw.proxies.iter().map(|p| p.id));
    for (index, puid) in ids.into_iter().enumerate() {
        let proxy = proxy::build(&mut resolver, &accounts, index, puid);
        if let Some(proxy) = &proxy {
            logging::check_backend(&mut resolver, &raw.proxies[index], proxy);
        }
        proxies.extend(proxy);
    }
    let mut global = global(&mut resolver);
    accounts::process(&mut resolver, &accounts, &mut global);
    let log_forwards = logging::forwards(&mut resolver, &accounts);
    let mut found = std::mem::take(&mut resolver.diagnostics);
    // In the order of the text, as far as one file goes.
    found.sort_by_key(|d| d.origin.as_ref().map_or(0, |at| at.line));
    cx.diagnostics.extend(found);

    let captures = |of: fn(&Proxy) -> usize| proxies.iter().map(of).max().unwrap_or(0);
    let model = Model {
        global: Global {
            env: cx
                .environ
                .vars()
                .map(|(k, v)| (k.to_owned(), v.to_owned()))
                .collect(),
            ..global
        },
        userlists,
        rings: raw
            .rings
            .iter()
            .map(|(ring, _)| ring.clone())
            .chain(logging::server_rings(&proxies))
            .collect(),
        log_forwards,
        patterns: cx.opts.store.clone(),
        req_captures_max: captures(|p| p.captures_req.len()),
        res_captures_max: captures(|p| p.captures_res.len()),
        proxies: proxies.into_iter().map(Arc::new).collect(),
    };
    let mut diagnostics = std::mem::take(&mut cx.diagnostics);
    without_repeats(&mut diagnostics);
    let bad = diagnostics.iter().any(|d| d.severity == Severity::Alert);
    Loaded {
        model: (!bad).then_some(model),
        diagnostics,
    }
}

/// The global section, with what only the whole of it says.
fn global(resolver: &mut Resolver<'_>) -> Global {
    let mut global = resolver.raw.global.clone();
    // Without a number the process takes one worker a CPU; the map is then made for more than any machine has today.
    let workers = global.nbthread.or(global.nbproc).unwrap_or(256);
    global.cpu_map = crate::section::expand_cpu_map(&resolver.raw.cpu_maps, global.nbproc, workers);
    // HAProxy: a reserve larger than half of the buffer is brought down to it.
    global.tune.maxrewrite = global.tune.maxrewrite.min(global.tune.bufsize / 2);
    for (target, line) in resolver
        .raw
        .global
        .logs
        .iter()
        .zip(&resolver.raw.global_log_lines)
    {
        logging::check_target(resolver, target, line);
    }
    for target in &mut global.logs {
        *target = logging::bound(resolver, target.clone());
    }
    global
}

/// Keeps the first of equal findings: a `defaults` line is compiled once for each proxy that uses it.
fn without_repeats(diagnostics: &mut Vec<Diagnostic>) {
    let mut seen = std::collections::HashSet::new();
    diagnostics.retain(|d| {
        let Some(at) = &d.origin else { return true };
        seen.insert((at.file.clone(), at.line, d.message.clone(), d.severity))
    });
}

/// Explicit numbers stay; the others get the next number that nobody wrote. The counter moves on with every member.
fn free_ids(first: u32, written: impl Iterator<Item = Option<u32>> + Clone) -> Vec<u32> {
    let taken: std::collections::HashSet<u32> = written.clone().flatten().collect();
    let mut next = first - 1;
    written
        .map(|id| {
            next += 1;
            id.unwrap_or_else(|| {
                while taken.contains(&next) {
                    next += 1;
                }
                next
            })
        })
        .collect()
}

/// Binds the names in every expression that was parsed.
fn bind_names(resolver: &mut Resolver<'_>, pending: &[PendingAt]) {
    for at in pending {
        let names = names::ProxyNames {
            raw: resolver.raw,
            current: at.proxy,
        };
        let faults = match &at.what {
            Pending::Expr(expr) => expr.resolve(&names),
            Pending::Cond(cond) => cond.resolve(&names),
            Pending::Format(format) => format.resolve(&names),
        };
        let user = at.proxy.map(|i| resolver.raw.proxies[i].whereabouts());
        for fault in faults {
            // What an ACL with a name refers to is reported where that is declared.
            if let Some((word, fault)) = locate(&at.line, at.word, fault) {
                resolver.expr_error(&at.line, word, fault, user.as_deref());
            }
        }
    }
    for (index, proxy) in resolver.raw.proxies.iter().enumerate() {
        let names = names::ProxyNames {
            raw: resolver.raw,
            current: Some(index),
        };
        let user = proxy.whereabouts();
        for fault in proxy.acls.resolve(&names) {
            let found = proxy
                .acl_lines
                .iter()
                .find_map(|l| Some((l, locate(l, 1, fault.clone())?)));
            match found {
                Some((line, (word, fault))) => {
                    resolver.expr_error(line, word, fault, Some(&user));
                }
                None => resolver.expr_error(&proxy.line, 0, fault, Some(&user)),
            }
        }
    }
}

/// The word of a line that holds the name a fault is about, and the fault narrowed to that name. A condition knows its
/// expressions, not where in its words each of them stands.
fn locate(line: &Line, from: usize, mut fault: ExprError) -> Option<(usize, ExprError)> {
    let name = fault
        .message
        .split('\'')
        .nth(1)
        .unwrap_or_default()
        .to_owned();
    if name.is_empty() {
        return Some((from, fault));
    }
    let found = (from..line.words.len()).find_map(|w| Some((w, line.word(w).find(&name)?)));
    let (word, at) = found?;
    fault.word = 0;
    fault.span = at..at + name.len();
    Some((word, fault))
}

impl Resolver<'_> {
    /// Reports an error about a word of a line.
    pub fn error(
        &mut self,
        line: &Line,
        word: usize,
        message: impl Into<String>,
        hint: Option<String>,
    ) {
        self.diagnostics
            .push(about(Severity::Alert, line, word, 0..0, message, hint));
    }

    /// Reports a warning about a word of a line.
    pub fn warn(
        &mut self,
        line: &Line,
        word: usize,
        message: impl Into<String>,
        hint: Option<String>,
    ) {
        self.diagnostics
            .push(about(Severity::Warning, line, word, 0..0, message, hint));
    }

    /// Reports what is worth a look in diagnostic mode.
    pub(crate) fn diag(&mut self, line: &Line, message: String) {
        self.diagnostics
            .push(about(Severity::Diag, line, 1, 0..0, message, None));
    }

    /// Reports a warning about a proxy as a whole: HAProxy's words, and the section's header under them.
    pub(crate) fn warn_plain(&mut self, raw: &RawProxy, message: String) {
        let mut finding = about(Severity::Warning, &raw.line, 1, 0..0, message, None);
        if raw.name.is_empty() {
            finding.excerpt = None;
        }
        self.diagnostics.push(finding);
    }

    /// An error about a proxy as a whole, shown at its name.
    pub(crate) fn error_plain(&mut self, raw: &RawProxy, message: String) {
        let finding = about(Severity::Alert, &raw.line, 1, 0..0, message, None);
        self.diagnostics.push(finding);
    }

    /// Reports a fault of the expression engine.
    pub(crate) fn expr_error(
        &mut self,
        line: &Line,
        first: usize,
        fault: ExprError,
        user: Option<&str>,
    ) {
        let message = match user {
            Some(user) => format!("error detected in {user} : {}", fault.message),
            None => fault.message,
        };
        self.diagnostics.push(about(
            Severity::Alert,
            line,
            first + fault.word,
            fault.span,
            message,
            fault.hint,
        ));
    }

    /// Compiles a log-format that waited until its proxy was known.
    pub(crate) fn format(
        &mut self,
        written: &Written,
        proxy: usize,
        place: Place,
        purpose: Purpose,
    ) -> Option<LogFormat> {
        let raw = &self.raw.proxies[proxy];
        let text = written.text();
        match self.parse_format(text, &written.line, raw.mode(), &raw.acls, place, purpose) {
            Ok(format) => {
                for warning in format.warnings() {
                    self.diagnostics.push(about(
                        Severity::Warning,
                        &written.line,
                        written.word + warning.word,
                        warning.span.clone(),
                        warning.message.clone(),
                        warning.hint.clone(),
                    ));
                }
                let names = names::ProxyNames {
                    raw: self.raw,
                    current: Some(proxy),
                };
                let user = raw.whereabouts();
                for fault in format.resolve(&names) {
                    self.expr_error(&written.line, written.word, fault, Some(&user));
                }
                Some(format)
            }
            Err(fault) => {
                let user = raw.whereabouts();
                self.expr_error(&written.line, written.word, fault, Some(&user));
                None
            }
        }
    }

    fn parse_format(
        &self,
        text: &str,
        line: &Line,
        mode: Mode,
        acls: &AclTable,
        place: Place,
        purpose: Purpose,
    ) -> Result<LogFormat, ExprError> {
        let ctx = ParseCtx {
            place,
            loader: self.loader,
            store: &self.opts.store,
            file: &line.file,
            line: line.number,
            http: mode == Mode::Http,
            acls: Some(acls),
        };
        LogFormat::parse(text, &ctx, purpose)
    }

    /// One of Sluice's own formats, which are always right.
    pub(crate) fn built_in(&mut self, text: &str, line: &Line) -> Option<LogFormat> {
        match self.parse_format(
            text,
            line,
            Mode::Http,
            &AclTable::default(),
            Place::LOG,
            Purpose::Log,
        ) {
            Ok(format) => Some(format),
            Err(fault) => {
                let message = format!("the built-in format '{text}' : {}", fault.message);
                self.error(line, 0, message, None);
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::free_ids;

    /// As haproxy 2.6 numbered them in `show stat`.
    #[test]
    fn ids_are_given_out_as_haproxy_does() {
        let check = |written: &[Option<u32>], expect: &[u32]| {
            assert_eq!(free_ids(1, written.iter().copied()), expect);
        };
        check(&[None, None, Some(1)], &[2, 3, 1]);
        check(&[None, Some(1), None], &[2, 1, 4]);
        check(&[None, None], &[1, 2]);
    }
}
