//! Runs rule sets on a stream: evaluates conditions in order and does what the actions say.
//!
//! What can be done at once is done here and in `changes`; what ends the set or must wait is told to the caller as a
//! [`Verdict`], with the place to resume at.

use std::borrow::Cow;
use std::sync::Arc;

use sluice_config::model::*;
use sluice_expr::acl::Tri;
use sluice_expr::env::{Dir, Env};
use sluice_expr::{Expr, LogFormat, Type, Value};
use sluice_http::Headers;

use super::changes::{Marking, del_header, expanded, replace_header, replace_value};
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
            let verdict = self.act(rules, i);
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

    fn act(&mut self, rules: &[Rule], index: usize) -> Verdict {
        let action = &rules[index].action;
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
            Action::EarlyHint { .. } => return self.early_hints(rules, index),

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
}
