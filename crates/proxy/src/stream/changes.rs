//! What single actions change: variables and captures, marks, addresses, timeouts, the request's target, headers by pattern.

use sluice_config::model::*;
use sluice_expr::env::{Addr, Dir, Env, Side};
use sluice_expr::pattern::{Captures, Regex, expand};
use sluice_expr::vars::{SetIf, VarRef};
use sluice_expr::{Expr, Type, Value};
use sluice_http::Headers;
use sluice_http::normalize::InvalidEscape;

use super::Stream;
use super::rules::Verdict;

/// Which packet marking an action sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Marking {
    Mark,
    Tos,
}

impl Stream {
    pub(super) fn int(&self, e: &Expr) -> Option<i64> {
        e.eval_as(self, Type::Sint).ok().and_then(|s| s.value.int())
    }

    pub(super) fn set_var_if(&self, var: &VarRef, value: Value<'static>, conds: &[SetIf]) {
        let holds = {
            let current = self.var(var);
            conds
                .iter()
                .all(|c| c.holds(var.scope, current.as_ref(), &value))
        };
        if holds {
            self.set_var(var, Some(value));
        }
    }

    /// Moves what converters captured into the slots, where the next expression and the log see it.
    #[inline]
    pub fn keep_captured(&mut self) {
        if !self.vars.get_mut().captured.is_empty() {
            self.store_captured();
        }
    }

    #[cold]
    pub(super) fn store_captured(&mut self) {
        for (dir, slot, value) in std::mem::take(&mut self.vars.get_mut().captured) {
            self.store_capture(dir, slot, value);
        }
    }

    /// Stores into a capture slot.
    pub fn store_capture(&mut self, dir: Dir, slot: usize, value: Vec<u8>) {
        let slots = match dir {
            Dir::Request => &mut self.info.req_captures,
            Dir::Response => &mut self.info.res_captures,
        };
        if slots.len() <= slot {
            slots.resize(slot + 1, None);
        }
        slots[slot] = Some(value);
    }

    /// `set-mark`, `set-tos`: at once on the client's side, when the connection is made on the server's.
    pub(super) fn mark(&mut self, side: Side, value: &NumberSource, what: Marking) {
        let n = match value {
            NumberSource::Const(n) => Some(*n),
            NumberSource::Expr(e) => self.int(e).map(|n| n as u32),
        };
        let Some(n) = n else { return };
        match (side, what) {
            (Side::Client, Marking::Mark) => self
                .sess
                .client_fd
                .into_iter()
                .for_each(|fd| crate::sys::set_mark(fd, n)),
            (Side::Client, Marking::Tos) => self
                .sess
                .client_fd
                .into_iter()
                .for_each(|fd| crate::sys::set_tos(fd, n)),
            (Side::Server, Marking::Mark) => self.set.server_mark = Some(n),
            (Side::Server, Marking::Tos) => self.set.server_tos = Some(n),
        }
    }

    pub(super) fn set_address(&mut self, e: &Expr, src: bool) {
        let ip = match e.eval_as(self, Type::Addr).map(|s| s.value) {
            Ok(Value::Ipv4(a)) => a.into(),
            Ok(Value::Ipv6(a)) => a.into(),
            _ => return,
        };
        let slot = if src {
            &mut self.sess.client.src
        } else {
            &mut self.sess.client.dst
        };
        let port = slot.port();
        *slot = Addr::Ip(std::net::SocketAddr::new(ip, port));
    }

    pub(super) fn set_port(&mut self, e: &Expr, src: bool) {
        let Some(port) = self.int(e) else { return };
        let slot = if src {
            &mut self.sess.client.src
        } else {
            &mut self.sess.client.dst
        };
        let ip = slot.ip().unwrap_or(std::net::Ipv4Addr::UNSPECIFIED.into());
        *slot = Addr::Ip(std::net::SocketAddr::new(ip, port as u16));
    }

    pub(super) fn override_timeout(&mut self, which: TimeoutKind, ms: u64) {
        let (set, shown) = (&mut self.set, &mut self.info);
        let (slot, shown) = match which {
            TimeoutKind::Client => (&mut set.client_timeout_ms, &mut shown.client_timeout_ms),
            TimeoutKind::Server => (&mut set.server_timeout_ms, &mut shown.server_timeout_ms),
            TimeoutKind::Tunnel => (&mut set.tunnel_timeout_ms, &mut shown.tunnel_timeout_ms),
            TimeoutKind::Connect => (&mut set.connect_timeout_ms, &mut shown.connect_timeout_ms),
            TimeoutKind::Queue => (&mut set.queue_timeout_ms, &mut shown.queue_timeout_ms),
            TimeoutKind::Tarpit => (&mut set.tarpit_timeout_ms, &mut shown.tarpit_timeout_ms),
        };
        *slot = Some(ms);
        *shown = ms;
    }

    /// A new target; an absolute one names the host too (RFC 9112 section 3.2.2).
    pub(super) fn set_uri(&mut self, uri: &[u8]) {
        self.req.set_target(uri);
        // what is no path, no `*` and has no scheme is an authority
        let host = match uri {
            [b'/' | b'*', ..] | [] => None,
            _ => self.req.authority().or(Some(uri)).map(<[u8]>::to_vec),
        };
        if let Some(host) = host {
            self.req.headers.set("Host", host);
        }
    }

    pub(super) fn normalize_uri(&mut self, how: NormalizeUri) -> Verdict {
        match super::forward::normalized(&self.req, how) {
            Ok(Some(target)) => {
                self.req.set_target(target);
                Verdict::Next
            }
            Ok(None) => Verdict::Next,
            // an invalid escape in strict mode: the request is at fault
            Err(InvalidEscape) => Verdict::Bad,
        }
    }
}

pub(super) fn del_header(h: &mut Headers, matcher: &HeaderMatch) {
    let fold = |a: &[u8], b: &[u8]| a.eq_ignore_ascii_case(b);
    match matcher {
        HeaderMatch::Exact(n) => {
            h.remove(n);
        }
        HeaderMatch::Prefix(p) => {
            h.remove_matching(|n| n.len() >= p.len() && fold(&n[..p.len()], p.as_bytes()));
        }
        HeaderMatch::Suffix(p) => {
            h.remove_matching(|n| {
                n.len() >= p.len() && fold(&n[n.len() - p.len()..], p.as_bytes())
            });
        }
        HeaderMatch::Sub(p) => {
            h.remove_matching(|n| {
                p.is_empty() || n.windows(p.len()).any(|w| fold(w, p.as_bytes()))
            });
        }
        HeaderMatch::Regex(r) => {
            h.remove_matching(|n| r.is_match(n));
        }
    }
}

/// `replace-header`: each whole line.
pub(super) fn replace_header(h: &mut Headers, name: &[u8], regex: &Regex, template: &[u8]) {
    let slots: Vec<_> = h.slots(name).collect();
    for slot in slots {
        let new = h.at(slot).and_then(|(_, v)| expanded(regex, v, template));
        if let Some(new) = new {
            h.replace_value(slot, new);
        }
    }
}

/// `replace-value`: each item of each line's comma-separated list.
pub(super) fn replace_value(h: &mut Headers, name: &[u8], regex: &Regex, template: &[u8]) {
    let slots: Vec<_> = h.slots(name).collect();
    for slot in slots {
        let Some((_, line)) = h.at(slot) else {
            continue;
        };
        let mut out = Vec::with_capacity(line.len());
        let mut changed = false;
        let (mut end, mut replaced) = (0, false);
        for item in sluice_http::list_items(line) {
            let start = item.as_ptr() as usize - line.as_ptr() as usize;
            // the blanks around a replaced item go with it, as HAProxy does it
            let between = match replaced {
                true => line[end..start].trim_ascii_start(),
                false => &line[end..start],
            };
            end = start + item.len();
            replaced = false;
            match expanded(regex, item, template) {
                Some(new) => {
                    out.extend_from_slice(between.trim_ascii_end());
                    out.extend_from_slice(&new);
                    (changed, replaced) = (true, true);
                }
                None => {
                    out.extend_from_slice(between);
                    out.extend_from_slice(item);
                }
            }
        }
        out.extend_from_slice(&line[end..]);
        if changed {
            h.replace_value(slot, out);
        }
    }
}

/// The expanded template when the regex matches: the whole text is replaced by it.
pub(super) fn expanded(regex: &Regex, text: &[u8], template: &[u8]) -> Option<Vec<u8>> {
    let mut caps = Captures::new();
    regex.captures(text, &mut caps).then(|| {
        let mut out = Vec::with_capacity(template.len() + 16);
        expand(template, text, &caps, &mut out);
        out
    })
}
