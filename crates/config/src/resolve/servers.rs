//! Servers: numbers, names, `track`.

use std::sync::Arc;

use super::names::find;
use super::{Resolver, free_ids};
use crate::line::Written;
use crate::model::{Caps, Server};
use crate::raw::{RawProxy, RawServer};

pub(super) fn position(proxy: &RawProxy, name: &str) -> Option<usize> {
    proxy.servers.iter().position(|s| *s.server.name == *name)
}

/// "did you mean" among a proxy's servers.
pub(super) fn near(proxy: &RawProxy, name: &str) -> Option<String> {
    let names = proxy.servers.iter().map(|s| &*s.server.name);
    crate::diag::suggest(name, names).map(|n| format!("did you mean '{n}'?"))
}

pub(super) fn build(resolver: &mut Resolver<'_>, index: usize) -> Vec<Arc<Server>> {
    let raw = &resolver.raw.proxies[index];
    // 0 stands for a number that was not written.
    let ids = free_ids(
        1,
        raw.servers
            .iter()
            .map(|s| Some(s.server.id).filter(|id| *id > 0)),
    );
    raw.servers
        .iter()
        .zip(ids)
        .map(|(server, id)| {
            let track = server
                .track
                .as_ref()
                .filter(|_| !raw.settings.disabled)
                .and_then(|written| track(resolver, index, server, written));
            Arc::new(Server {
                id,
                track,
                ..server.server.clone()
            })
        })
        .collect()
}

/// A server whose checks another one follows: `backend/server`, as the model has it.
fn track(
    resolver: &mut Resolver<'_>,
    index: usize,
    server: &RawServer,
    written: &Written,
) -> Option<String> {
    let raw = resolver.raw;
    let this = (index, position(&raw.proxies[index], &server.server.name)?);
    let name = |(p, s): (usize, usize)| {
        let proxy = &raw.proxies[p];
        format!("{}/{}", proxy.name, proxy.servers[s].server.name)
    };
    let mut fail = |message: String, hint: Option<String>| {
        let message = format!("'server {}' : {message}", name(this));
        resolver.error(&written.line, written.word, message, hint);
        None
    };
    let first = match target(raw, index, written.text()) {
        Ok(first) => first,
        Err((message, hint)) => return fail(message, hint),
    };
    let drains = |p: usize| raw.proxies[p].settings.check.disable_on_404;
    if drains(index) != drains(first.0) {
        let message = format!(
            "unable to use {} for tracking: disable-on-404 option inconsistency.",
            name(first)
        );
        return fail(
            message,
            Some("write `http-check disable-on-404` in both backends, or in none".to_owned()),
        );
    }
    if server.server.check.enabled {
        return fail(
            "unable to enable checks and tracking at the same time!".to_owned(),
            None,
        );
    }
    // Down the chain to the one that is checked.
    let mut at = first;
    let mut seen = vec![this];
    loop {
        if seen.contains(&at) {
            let message = format!(
                "unable to track {} as it belongs to a tracking chain looping back to {}.",
                name(first),
                name(at)
            );
            return fail(message, None);
        }
        seen.push(at);
        let next = &raw.proxies[at.0].servers[at.1];
        let Some(written) = &next.track else {
            return match next.server.check.enabled || next.server.agent.enabled {
                true => Some(name(first)),
                false => fail(
                    format!(
                        "unable to use {} for tracking as it does not have any check nor agent enabled.",
                        name(first)
                    ),
                    Some(format!("add 'check' to server {}", name(at))),
                ),
            };
        };
        match target(raw, at.0, written.text()) {
            Ok(further) => at = further,
            // That server's own line says what is wrong.
            Err(_) => return None,
        }
    }
}

/// The proxy and server that `[backend/]server` names.
fn target(
    raw: &crate::raw::Raw,
    here: usize,
    text: &str,
) -> Result<(usize, usize), (String, Option<String>)> {
    let (proxy, server) = match text.split_once('/') {
        Some((proxy, server)) => (
            find(raw, proxy, Caps::BACKEND).ok_or_else(|| {
                let names = raw
                    .proxies
                    .iter()
                    .filter(|p| p.is_backend())
                    .map(|p| &*p.name);
                let near =
                    crate::diag::suggest(proxy, names).map(|n| format!("did you mean '{n}'?"));
                (
                    format!("unable to find required proxy '{proxy}' for tracking."),
                    near,
                )
            })?,
            server,
        ),
        None => (here, text),
    };
    let found = position(&raw.proxies[proxy], server).ok_or_else(|| {
        (
            format!("unable to find required server '{server}' for tracking."),
            near(&raw.proxies[proxy], server),
        )
    })?;
    Ok((proxy, found))
}
