//! Runs rule sets on a stream: evaluates conditions in order and does what the actions say.
//!
//! Everything that can be done at once is done here; what ends the set or must wait is told to the caller as a
//! [`Verdict`], with the place to resume at.

use std::borrow::Cow;
use std::sync::Arc;

use sluice_config::model::*;
use sluice_expr::acl::Tri;
use sluice_expr::env::{Addr, Dir, Env, Side};
use sluice_expr::pattern::{Captures, Regex, expand};
use sluice_expr::vars::{SetIf, VarRef};
use sluice_expr::{Expr, LogFormat, Type, Value};
use sluice_http::Headers;

use super::{BwlimSetting, Stream};

/// How a rule set ended.
#[derive(Clone)]
pub enum Verdict {
    /// No rule was final.
    Next,
    /// `accept` / `allow`: the rest of this set is skipped.
    Accept,
    Reject,
    Close,
    SilentDrop {
        rst_ttl: Option<u8>,
    },
    Deny(Arc<Reply>),
    Tarpit(Arc<Reply>),
    Return(Arc<Reply>),
    Redirect(Arc<Redirect>),
    Auth {
        realm: String,
    },
    Service(Service),
    SwitchModeHttp,
    ExpectProxy,
    /// `expect-netscaler-cip layer4`.
    ExpectNetscaler,
    /// A rule needs more data before it can decide; run the set again from `from`.
    Wait {
        from: usize,
    },
    /// Something takes time; afterwards go on at `next`.
    Later {
        what: Later,
        next: usize,
    },
    /// A rewrite failed in strict mode, or an action could not be carried out: an internal error.
    Failed,
    /// The request itself is at fault: 400.
    Bad,
}

/// What a rule waits for.
#[derive(Clone)]
pub enum Later {
    PauseMs(u64),
    Body {
        time_ms: u64,
        at_least: u64,
    },
    /// Header lines.
    EarlyHint(Vec<u8>),
}

/// Which packet marking an action sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Marking {
    Mark,
    Tos,
}

impl Stream {
    /// Runs `rules` from index `from`.
    pub fn run_rules(&mut self, rules: &[Rule], from: usize) -> Verdict {
        if self.info.waiting_rule.is_some() {
            self.info.waiting_rule = None;
        }
        for (i, rule) in rules.iter().enumerate().skip(from) {
            if let Some(cond) = &rule.cond {
                let waits = !self.content_final
                    && (self.req_content.is_some() || self.res_content.is_some());
                match cond.eval(self) {
                    Tri::Pass => {}
                    Tri::Miss if waits => return Verdict::Wait { from: i },
                    Tri::Miss if cond.eval_final(self) => {}
                    _ => continue,
                }
            }
            let verdict = match rule.action {
                Action::EarlyHint { .. } => self.early_hints(rules, i),
                _ => self.act(&rule.action, i),
            };
            self.keep_captured();
            match verdict {
                Verdict::Next => {}
                Verdict::Later { .. } => {
                    self.info.waiting_rule = Some((rule.origin.file.clone(), rule.origin.line));
                    return verdict;
                }
                verdict => {
                    self.info.last_rule = Some((rule.origin.file.clone(), rule.origin.line));
                    return verdict;
                }
            }
        }
        Verdict::Next
    }

    /// `early-hint` rules that stand together make one interim response; one with a condition begins another.
    fn early_hints(&mut self, rules: &[Rule], first: usize) -> Verdict {
        let mut lines = Vec::new();
        let mut next = first;
        for rule in rules.iter().skip(first) {
            let Action::EarlyHint { name, value } = &rule.action else {
                break;
            };
            if next > first && rule.cond.is_some() {
                break;
            }
            lines.extend_from_slice(name.as_bytes());
            lines.extend_from_slice(b": ");
            lines.extend(self.render(value));
            lines.extend_from_slice(b"\r\n");
            next += 1;
        }
        let what = Later::EarlyHint(lines);
        Verdict::Later { what, next }
    }

    /// Whether raw bytes of a channel are looked at, of which more may come.
    pub fn has_raw_content(&self) -> bool {
        self.req_content.is_some() || self.res_content.is_some()
    }

    /// The headers rules of the current phase change: the response's once there is one.
    pub(super) fn headers(&mut self) -> &mut Headers {
        if self.has_res {
            &mut self.res.headers
        } else {
            &mut self.req.headers
        }
    }

    fn act(&mut self, action: &Action, index: usize) -> Verdict {
        match action {
            Action::Allow | Action::Accept => return Verdict::Accept,
            Action::Reject => return Verdict::Reject,
            Action::Close => return Verdict::Close,
            Action::SilentDrop { rst_ttl } => return Verdict::SilentDrop { rst_ttl: *rst_ttl },
            Action::Deny(r) => return Verdict::Deny(r.clone()),
            Action::Tarpit(r) => return Verdict::Tarpit(r.clone()),
            Action::Return(r) => return Verdict::Return(r.clone()),
            // with nothing to say it is no redirect, and the next rule has its turn
            Action::Redirect(r) if r.ignore_empty && self.redirect_target(r).is_none() => {}
            Action::Redirect(r) => return Verdict::Redirect(r.clone()),
            Action::Auth { realm } => {
                return Verdict::Auth {
                    realm: realm.clone(),
                };
            }
            Action::UseService(s) => return Verdict::Service(*s),
            Action::SwitchModeHttp => return Verdict::SwitchModeHttp,
            Action::ExpectProxy => return Verdict::ExpectProxy,
            Action::ExpectNetscalerCip => return Verdict::ExpectNetscaler,
            Action::WaitForHandshake => {}
            Action::WaitForBody { time_ms, at_least } => {
                let what = Later::Body {
                    time_ms: *time_ms,
                    at_least: *at_least,
                };
                return Verdict::Later {
                    what,
                    next: index + 1,
                };
            }
            Action::Pause(source) => {
                let ms = match source {
                    PauseSource::ConstMs(ms) => Some(*ms),
                    PauseSource::Expr(e) => self.int(e).and_then(|n| u64::try_from(n).ok()),
                };
                if let Some(ms) = ms {
                    return Verdict::Later {
                        what: Later::PauseMs(ms),
                        next: index + 1,
                    };
                }
            }
            Action::EarlyHint { .. } => {}

            Action::AddHeader { name, value, line } | Action::SetHeader { name, value, line } => {
                let replaces = matches!(action, Action::SetHeader { .. });
                if let Some(line) = line {
                    if replaces {
                        self.headers().remove(name);
                    }
                    if !self.room_for(line.text_len()) {
                        return self.rewrite_failed();
                    }
                    self.headers().add_line(line);
                    self.header_changed(name.as_bytes());
                    return Verdict::Next;
                }
                let fits = self.with_text(value, |s, v| {
                    if replaces {
                        s.headers().remove(name);
                    }
                    let fits = s.room_for(name.len() + v.len());
                    if fits {
                        s.headers().add(name, v);
                    }
                    fits
                });
                if !fits {
                    return self.rewrite_failed();
                }
                self.header_changed(name.as_bytes());
            }
            Action::DelHeader(matcher) => {
                del_header(self.headers(), matcher);
                match matcher {
                    HeaderMatch::Exact(name) => self.header_changed(name.as_bytes()),
                    _ => self.set.framing_touched = true,
                }
            }
            Action::HeaderList { edit, list, prefix } => {
                return self.edit_header_list(*edit, list, prefix.as_ref());
            }
            Action::ReplaceHeader {
                name,
                regex,
                replace,
            } => {
                let template = self.render(replace);
                replace_header(self.headers(), name.as_bytes(), regex, &template);
                self.header_changed(name.as_bytes());
            }
            Action::ReplaceValue {
                name,
                regex,
                replace,
            } => {
                let template = self.render(replace);
                replace_value(self.headers(), name.as_bytes(), regex, &template);
                self.header_changed(name.as_bytes());
            }
            Action::SetMethod(f) => self.with_text(f, |s, v| s.req.set_method(v)),
            Action::SetPath(f) => self.with_text(f, |s, v| s.req.set_path(v)),
            Action::SetPathq(f) => self.with_text(f, |s, v| s.req.set_path_and_query(v)),
            Action::SetQuery(f) => self.with_text(f, |s, v| s.req.set_query(v)),
            Action::SetUri(f) => self.with_text(f, |s, v| s.set_uri(v)),
            Action::ReplacePath { regex, replace } => {
                let template = self.render(replace);
                if let Some(new) = self.req.path().and_then(|p| expanded(regex, p, &template)) {
                    self.req.set_path(new);
                }
            }
            Action::ReplacePathq { regex, replace } => {
                let template = self.render(replace);
                if let Some(new) = self
                    .req
                    .path_and_query()
                    .and_then(|p| expanded(regex, p, &template))
                {
                    self.req.set_path_and_query(new);
                }
            }
            Action::ReplaceUri { regex, replace } => {
                let template = self.render(replace);
                if let Some(new) = expanded(regex, self.req.target(), &template) {
                    self.set_uri(&new);
                }
            }
            Action::NormalizeUri(how) => return self.normalize_uri(*how),
            Action::SetStatus { code, reason } => self
                .res
                .set_status(*code, reason.as_ref().map(|r| r.as_bytes())),
            Action::StrictMode(on) => self.set.strict_rewriting_off = !on,
            Action::DisableL7Retry => self.set.no_l7_retry = true,

            Action::SetVar { var, expr, conds } => {
                // an expression without a value leaves the variable as it is
                if let Ok(sample) = expr.eval(self) {
                    let value = sample.value.into_owned();
                    self.set_var_if(var, value, conds);
                }
            }
            Action::SetVarFormat { var, format, conds } => {
                let text = self.render(format);
                self.set_var_if(var, Value::Str(Cow::Owned(text)), conds);
            }
            Action::UnsetVar(var) => {
                self.set_var(var, None);
            }
            Action::Capture { expr, slot, .. } => {
                let waits = !self.content_final && self.req_content.is_some();
                let dir = if self.has_res {
                    Dir::Response
                } else {
                    Dir::Request
                };
                match expr.eval_as(self, Type::Str) {
                    Ok(s) if waits && s.may_change => return Verdict::Wait { from: index },
                    Err(sluice_expr::value::Absent::NotYet) if waits => {
                        return Verdict::Wait { from: index };
                    }
                    Ok(s) => {
                        if let Some(value) = s.value.bytes() {
                            // cut to the length the frontend declared for the slot
                            self.capture(dir, *slot, value);
                        }
                    }
                    Err(_) => {}
                }
            }
            Action::SetLogLevel(level) => self.info.log_level = Some(*level),
            Action::DoLog { step, profile } => self.do_log(*step, profile.as_deref()),
            // no worker has priorities among its tasks: kept for the views
            Action::SetNice(_) => {}
            Action::SetMark { side, value } => self.mark(*side, value, Marking::Mark),
            Action::SetTos { side, value } => self.mark(*side, value, Marking::Tos),
            Action::SetSrc(e) => self.set_address(e, true),
            Action::SetDst(e) => self.set_address(e, false),
            Action::SetSrcPort(e) => self.set_port(e, true),
            Action::SetDstPort(e) => self.set_port(e, false),
            Action::SetTimeout { which, value } => {
                let ms = match value {
                    TimeoutSource::ConstMs(ms) => Some(*ms),
                    TimeoutSource::Expr(e) => self.int(e).and_then(|n| u64::try_from(n).ok()),
                };
                if let Some(ms) = ms {
                    self.override_timeout(*which, ms);
                }
            }
            Action::SetPriorityClass(e) => {
                if let Some(n) = self.int(e) {
                    self.info.prio_class = n.clamp(-2047, 2047) as i32;
                }
            }
            Action::SetPriorityOffset(e) => {
                if let Some(n) = self.int(e) {
                    self.info.prio_offset = n.clamp(-524_287, 524_287) as i32;
                }
            }
            Action::SetRetries(e) => {
                if let Some(n) = self.int(e) {
                    let n = n.clamp(0, 100) as u32;
                    self.set.retries = Some(n);
                    self.info.max_retries = n;
                }
            }
            Action::SetBandwidthLimit {
                filter,
                limit,
                period,
            } => {
                let positive = |s: &Stream, e: &Option<Expr>| {
                    e.as_ref()
                        .and_then(|e| s.int(e))
                        .and_then(|n| u64::try_from(n).ok())
                };
                let setting = BwlimSetting {
                    limit_bytes: positive(self, limit).unwrap_or(filter.limit_bytes),
                    period_ms: positive(self, period).unwrap_or(filter.period_ms),
                    filter: filter.clone(),
                };
                self.set
                    .bwlims
                    .retain(|b| b.filter.name != setting.filter.name);
                self.set.bwlims.push(setting);
            }
            Action::SetMap { list, key, value } => {
                let (list, key, value) = (self.render(list), self.render(key), self.render(value));
                crate::lists::set_map(self.w.model(), &list, &key, &value);
            }
            Action::DelMap { list, key } => {
                let (list, key) = (self.render(list), self.render(key));
                crate::lists::delete_from_map(self.w.model(), &list, &key);
            }
            Action::DelAcl { list, key } => {
                let (list, key) = (self.render(list), self.render(key));
                crate::lists::delete_from_acl(self.w.model(), &list, &key);
            }
            Action::AddAcl { list, key } => {
                let (list, key) = (self.render(list), self.render(key));
                crate::lists::add_to_acl(self.w.model(), &list, &key);
            }
            #[allow(unreachable_patterns)]
            _ => return Verdict::Failed,
        }
        Verdict::Next
    }

    /// What a format gives for this stream.
    pub fn render(&self, f: &LogFormat) -> Vec<u8> {
        let mut text = Vec::new();
        f.write(self, &mut text);
        text
    }

    /// Gives what a format makes to `act`, without allocating.
    fn with_text<R>(&mut self, f: &LogFormat, act: impl FnOnce(&mut Stream, &[u8]) -> R) -> R {
        if let Some(constant) = f.as_constant() {
            return act(self, constant);
        }
        let mut text = std::mem::take(&mut self.text);
        text.clear();
        f.write(self, &mut text);
        let out = act(self, &text);
        self.text = text;
        out
    }

    /// Whether a header of this size still fits into the message: a head never outgrows a buffer.
    pub(super) fn room_for(&self, header: usize) -> bool {
        let (headers, line) = if self.has_res {
            (&self.res.headers, self.res.reason().len())
        } else {
            (&self.req.headers, self.req.target().len())
        };
        headers.fits(line + header, self.w.model().global.tune.bufsize)
    }

    /// A rewrite found no room: counted, and with `strict-mode` the end of the message.
    pub(super) fn rewrite_failed(&mut self) -> Verdict {
        self.fe_state().fe.failed_rewrites.inc();
        if self.held.backend.is_some() {
            self.be_state().be.failed_rewrites.inc();
        }
        if let Some(server) = self.server_state() {
            server.counters.failed_rewrites.inc();
        }
        if self.set.strict_rewriting_off {
            Verdict::Next
        } else {
            Verdict::Failed
        }
    }

    fn int(&self, e: &Expr) -> Option<i64> {
        e.eval_as(self, Type::Sint).ok().and_then(|s| s.value.int())
    }

    fn set_var_if(&self, var: &VarRef, value: Value<'static>, conds: &[SetIf]) {
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
    fn store_captured(&mut self) {
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
    fn mark(&mut self, side: Side, value: &NumberSource, what: Marking) {
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

    fn set_address(&mut self, e: &Expr, src: bool) {
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

    fn set_port(&mut self, e: &Expr, src: bool) {
        let Some(port) = self.int(e) else { return };
        let slot = if src {
            &mut self.sess.client.src
        } else {
            &mut self.sess.client.dst
        };
        let ip = slot.ip().unwrap_or(std::net::Ipv4Addr::UNSPECIFIED.into());
        *slot = Addr::Ip(std::net::SocketAddr::new(ip, port as u16));
    }

    fn override_timeout(&mut self, which: TimeoutKind, ms: u64) {
        let (slot, shown) = match which {
            TimeoutKind::Client => (
                &mut self.set.client_timeout_ms,
                Some(&mut self.info.client_timeout_ms),
            ),
            TimeoutKind::Server => (
                &mut self.set.server_timeout_ms,
                Some(&mut self.info.server_timeout_ms),
            ),
            TimeoutKind::Tunnel => (
                &mut self.set.tunnel_timeout_ms,
                Some(&mut self.info.tunnel_timeout_ms),
            ),
            TimeoutKind::Connect => (
                &mut self.set.connect_timeout_ms,
                Some(&mut self.info.connect_timeout_ms),
            ),
            TimeoutKind::Queue => (
                &mut self.set.queue_timeout_ms,
                Some(&mut self.info.queue_timeout_ms),
            ),
            TimeoutKind::Tarpit => (
                &mut self.set.tarpit_timeout_ms,
                Some(&mut self.info.tarpit_timeout_ms),
            ),
        };
        *slot = Some(ms);
        if let Some(shown) = shown {
            *shown = ms;
        }
    }

    /// A new target; an absolute one names the host too (RFC 9112 section 3.2.2).
    fn set_uri(&mut self, uri: &[u8]) {
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

    fn normalize_uri(&mut self, how: NormalizeUri) -> Verdict {
        match super::forward::normalized(&self.req, how) {
            Ok(Some(target)) => {
                self.req.set_target(target);
                Verdict::Next
            }
            Ok(None) => Verdict::Next,
            // an invalid escape in strict mode: the request is at fault
            Err(()) => Verdict::Bad,
        }
    }
}

fn del_header(h: &mut Headers, matcher: &HeaderMatch) {
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
fn replace_header(h: &mut Headers, name: &[u8], regex: &Regex, template: &[u8]) {
    let slots: Vec<_> = h.slots(name).collect();
    for slot in slots {
        let new = h.at(slot).and_then(|(_, v)| expanded(regex, v, template));
        if let Some(new) = new {
            h.replace_value(slot, new);
        }
    }
}

/// `replace-value`: each item of each line's comma-separated list.
fn replace_value(h: &mut Headers, name: &[u8], regex: &Regex, template: &[u8]) {
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
fn expanded(regex: &Regex, text: &[u8], template: &[u8]) -> Option<Vec<u8>> {
    let mut caps = Captures::new();
    regex.captures(text, &mut caps).then(|| {
        let mut out = Vec::with_capacity(template.len() + 16);
        expand(template, text, &caps, &mut out);
        out
    })
}
