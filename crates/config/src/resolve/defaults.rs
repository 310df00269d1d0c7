//! What `defaults` sections may be used for.

use std::sync::Arc;

use super::Resolver;
use crate::line::Line;
use crate::model::Caps;
use crate::raw::RawProxy;

/// Whether a section has rules that run before those of the sections that use it.
fn has_rules(p: &RawProxy) -> bool {
    let lists = [
        &p.tcp_request_connection,
        &p.tcp_request_session,
        &p.tcp_request_content,
        &p.tcp_response_content,
        &p.http_request,
        &p.http_response,
        &p.http_after_response,
    ];
    lists.iter().any(|l| !l.is_empty())
}

pub(super) fn check(resolver: &mut Resolver<'_>) {
    mixed_use(resolver);
    let users = resolver.defaults.iter().chain(&resolver.raw.proxies);
    // The first user of each section with rules, by its side: both sides cannot run the same rules.
    let mut sides: Vec<Option<Caps>> = vec![None; resolver.defaults.len()];
    let mut found: Vec<(Arc<Line>, String)> = Vec::new();
    for user in users {
        let Some(index) = user.defaults else { continue };
        let section = &resolver.defaults[index];
        if !has_rules(section) {
            continue;
        }
        let at = section.line.origin();
        let place = format!("(defaults section at {}:{})", at.file, at.line);
        let message = match user.caps {
            Caps::DEFAULTS => format!(
                "a defaults section cannot inherit from a defaults section defining TCP/HTTP rules {place}."
            ),
            Caps::LISTEN => {
                "a listen section cannot inherit from a defaults section defining TCP/HTTP rules."
                    .to_owned()
            }
            Caps::FRONTEND if !section.tcp_response_content.is_empty() => format!(
                "a frontend section cannot inherit from a defaults section defining 'tcp-response content' rules {place}."
            ),
            Caps::BACKEND
                if !section.tcp_request_connection.is_empty()
                    || !section.tcp_request_session.is_empty() =>
            {
                format!(
                    "a backend section cannot inherit from a defaults section defining 'tcp-request connection' or \
                     'tcp-request session' rules {place}."
                )
            }
            caps => {
                let first = *sides[index].get_or_insert(caps);
                if first == caps {
                    continue;
                }
                format!(
                    "frontends and backends cannot inherit from the same defaults section if it defines TCP/HTTP rules \
                     {place}."
                )
            }
        };
        found.push((user.line.clone(), message));
    }
    for (line, message) in found {
        resolver.error(&line, 0, message, None);
    }
}

/// A section that one proxy names and another takes because it is the last. HAProxy shouts and goes on.
fn mixed_use(resolver: &mut Resolver<'_>) {
    let mut found = Vec::new();
    for (section, used) in resolver.defaults.iter().zip(resolver.defaults_used) {
        if let (Some(_), Some(implicit)) = (&used.explicit, &used.implicit) {
            let at = section.line.origin();
            let message = format!(
                "defaults section '{}' (declared at {}:{}) is explicitly referenced by another proxy and implicitly used \
                 here.",
                section.name, at.file, at.line
            );
            found.push((implicit.clone(), message));
        }
    }
    for (line, message) in found {
        let hint = "to avoid any ambiguity, write 'from' everywhere, or end with a 'defaults' section for all implicit uses";
        resolver.warn(&line, 0, message, Some(hint.to_owned()));
    }
}
