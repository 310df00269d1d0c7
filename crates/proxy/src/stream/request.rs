//! The request's way through the proxy: frontend rules, backend choice, backend rules, then the server.

use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;

use sluice_config::model::{BackendTarget, Mode, Options, Proxy, Rule, Service};
use sluice_expr::ProxyId;
use sluice_expr::acl::Tri;
use sluice_expr::env::Env;
use sluice_http::{Method, Version};

use super::Stream;
use super::http::Fate;
use super::reply::Local;
use super::rules::{Later, Verdict};
use crate::net::{Buf, after_ms};
use crate::session::Client;
use crate::worker::Worker;
use sluice_control::page::StatsRequest;

/// The stream was answered: what becomes of the client's connection.
type Answered = Fate;

impl Stream {
    /// From a parsed request to the end of its response.
    pub async fn run_http(&mut self, client: &mut Client) -> Fate {
        let w = self.w.clone();
        match self.before_server(&w, client).await {
            Ok(()) => self.run_server(client).await,
            Err(fate) => fate,
        }
    }

    /// Everything that happens before a server is chosen.
    async fn before_server(&mut self, w: &Rc<Worker>, client: &mut Client) -> Result<(), Answered> {
        let fe = &**w.model().proxy(self.info.frontend);
        self.note_request(fe);
        if w.model().global.looks_at_bodies {
            let there = client.input.as_ref().map_or(&[][..], Buf::data);
            self.req_body.peek(self.req_decoder.clone(), there);
        }
        if !fe.tcp_request_content.is_empty() {
            self.content_rules(&fe.tcp_request_content, client).await?;
        }
        if let Some(local) = self.monitor(fe) {
            return Err(self.answer(client, local).await);
        }
        if fe.options.contains(Options::HTTP_BUFFER_REQUEST) {
            self.hold_request_body(client, None, u64::MAX).await?;
        }
        self.proxy_rules(fe, client).await?;
        self.switch_backend(fe);
        self.enter_backend();
        let be = &**w.model().proxy(self.info.backend);
        if be.id != fe.id {
            if be.mode != Mode::Http {
                // a request has no way into a TCP backend
                self.info.status = 500;
                self.terminate(b'I', b'R');
                return Err(Fate::Close);
            }
            if !be.tcp_request_content.is_empty() {
                self.content_rules(&be.tcp_request_content, client).await?;
            }
            if be.options.contains(Options::HTTP_BUFFER_REQUEST) && !self.req_body.active {
                self.hold_request_body(client, None, u64::MAX).await?;
            }
            self.proxy_rules(be, client).await?;
        }
        self.request_processed();
        if !be.is_backend() {
            self.terminate(b'S', b'C');
            let local = self.error_response(503);
            return Err(self.answer(client, local).await);
        }
        if let Some(post_max) = super::forward::wants_body(be, &self.req) {
            self.hold_request_body(client, None, post_max).await?;
        }
        if client.read_closed && self.req_body.active && !self.req_body.ended {
            // gone in the middle of the body that was waited for: it is not going to read an answer
            self.count_abort(true);
            self.terminate(b'C', b'R');
            return Err(Fate::Close);
        }
        self.unique_id_header(fe);
        self.forwarding_headers(fe, be);
        Ok(())
    }

    /// `monitor-uri` and `monitor fail`.
    fn monitor(&mut self, fe: &Proxy) -> Option<Local> {
        let uri = fe.monitor_uri.as_ref()?;
        if self.req.path_and_query() != Some(uri.as_bytes()) {
            return None;
        }
        let failed = fe.monitor_fail.iter().any(|c| c.eval(self) == Tri::Pass);
        self.fe_state().fe.intercepted.inc();
        self.info.log_level = Some(None);
        self.terminate(b'L', b'R');
        Some(self.error_response(if failed { 503 } else { 200 }))
    }

    /// `tcp-request content` rules of an HTTP proxy: the head is parsed, so all is there.
    async fn content_rules(&mut self, rules: &[Rule], client: &mut Client) -> Result<(), Answered> {
        self.content_final = true;
        let mut from = 0;
        loop {
            let verdict = self.run_rules(rules, from);
            match verdict {
                Verdict::Next
                | Verdict::Accept
                | Verdict::SwitchModeHttp
                | Verdict::ExpectProxy
                | Verdict::ExpectNetscaler
                | Verdict::Wait { .. } => return Ok(()),
                Verdict::Later { what, next } => {
                    Box::pin(self.later(what, client)).await?;
                    from = next;
                }
                verdict => {
                    self.count_denied_request();
                    self.terminate(b'P', b'R');
                    // to these rules the request was never read
                    self.info.first_line.clear();
                    return Err(self.abort(client, verdict));
                }
            }
        }
    }

    /// Ends a connection without an answer.
    pub fn abort(&mut self, client: &Client, verdict: Verdict) -> Fate {
        if let Verdict::SilentDrop { rst_ttl } = verdict {
            crate::sys::silent_drop(&client.io, rst_ttl);
        }
        Fate::Close
    }

    /// One proxy's `http-request` rules, its view of header names, and its statistics page.
    async fn proxy_rules(&mut self, p: &Proxy, client: &mut Client) -> Result<(), Answered> {
        if !p.http_request.is_empty() {
            self.request_rules(p, client).await?;
        }
        if self.has_refused_names(p) {
            self.request_processed();
            self.count_denied_request();
            return Err(self.deny_with(client, 403, b'P').await);
        }
        if self.is_for_stats(p) {
            Box::pin(self.stats_of(p, client)).await?;
        }
        Ok(())
    }

    async fn request_rules(&mut self, p: &Proxy, client: &mut Client) -> Result<(), Answered> {
        let mut from = 0;
        loop {
            let verdict = self.run_rules(&p.http_request, from);
            if let Verdict::Later { what, next } = verdict {
                Box::pin(self.later(what, client)).await?;
                from = next;
                continue;
            }
            return match verdict {
                Verdict::Next | Verdict::Accept => Ok(()),
                verdict => Box::pin(self.obey(p, verdict, client)).await,
            };
        }
    }

    /// Does what a final rule says.
    async fn obey(
        &mut self,
        p: &Proxy,
        verdict: Verdict,
        client: &mut Client,
    ) -> Result<(), Answered> {
        // HAProxy looks for the cookie to capture after the rules, unless one of them ends the request by itself
        if !matches!(
            verdict,
            Verdict::Next | Verdict::Accept | Verdict::Deny(_) | Verdict::Tarpit(_)
        ) {
            self.info.cookie_capture_req = None;
        }
        match verdict {
            Verdict::Next | Verdict::Accept => Ok(()),
            Verdict::Deny(r) => {
                self.request_processed();
                self.count_denied_request();
                self.terminate(b'P', b'R');
                let local = self.reply_response(&r);
                Err(self.answer(client, local).await)
            }
            Verdict::Return(r) => {
                self.request_processed();
                self.fe_state().fe.intercepted.inc();
                self.terminate(b'L', b'R');
                let local = self.reply_response(&r);
                Err(self.answer(client, local).await)
            }
            Verdict::Redirect(r) => match self.redirect_response(&r) {
                Some(mut local) => {
                    self.request_processed();
                    self.fe_state().fe.intercepted.inc();
                    self.terminate(b'L', b'R');
                    local.close |= self.req.framing.has_body();
                    Err(self.answer(client, local).await)
                }
                None => Ok(()),
            },
            Verdict::Auth { realm } => {
                self.request_processed();
                self.terminate(b'L', b'R');
                let realm = if realm.is_empty() { &p.name } else { &*realm };
                let to_proxy = self.uses_proxy_headers();
                let local = self.auth_response(realm, to_proxy);
                Err(self.answer(client, local).await)
            }
            Verdict::Tarpit(r) => {
                self.count_denied_request();
                self.tarpit(client).await;
                // the log shows the time as one spent waiting
                self.info.tw_ms = self.elapsed_ms();
                self.terminate(b'P', b'T');
                let local = self.reply_response(&r);
                Err(self.answer(client, local).await)
            }
            Verdict::Service(Service::PrometheusExporter) => {
                self.fe_state().fe.intercepted.inc();
                self.served_here("PROMEX");
                let w = self.w.clone();
                let page = sluice_control::prometheus::page(
                    w.runtime(),
                    self.req.query(),
                    self.now.mono_us / 1000,
                );
                let local = self.page_response(page);
                Err(self.answer(client, local).await)
            }
            Verdict::Failed => {
                self.fe_state().fe.internal_errors.inc();
                Err(self.deny_with(client, 500, b'P').await)
            }
            Verdict::Bad => {
                self.fe_state().fe.failed_req.inc();
                Err(self.deny_with(client, 400, b'P').await)
            }
            verdict => {
                self.count_denied_request();
                self.terminate(b'P', b'R');
                Err(self.abort(client, verdict))
            }
        }
    }

    /// Answers with an error page and marks the stream.
    pub async fn deny_with(&mut self, client: &mut Client, status: u16, cause: u8) -> Fate {
        self.terminate(cause, b'R');
        let local = self.error_response(status);
        self.answer(client, local).await
    }

    /// Waits as a rule wants it.
    async fn later(&mut self, what: Later, client: &mut Client) -> Result<(), Answered> {
        match what {
            Later::PauseMs(ms) => client.timer.until(after_ms(Some(ms))).await,
            Later::Body { time_ms, at_least } => {
                self.hold_request_body(client, Some(time_ms), at_least)
                    .await?
            }
            Later::EarlyHint(lines) => self.early_hint(&lines, client).await,
        }
        self.tick();
        Ok(())
    }

    async fn early_hint(&mut self, lines: &[u8], client: &mut Client) {
        if self.req.version < Version::HTTP_11 {
            return;
        }
        let mut out = b"HTTP/1.1 103 Early Hints\r\n".to_vec();
        out.extend_from_slice(lines);
        out.extend_from_slice(b"\r\n");
        // a client that is gone is noticed when the response is written
        let _ = client
            .io
            .write_all(&out, &mut client.timer, self.client_timeout_ms())
            .await;
    }

    /// Keeps the client waiting for `timeout tarpit`.
    async fn tarpit(&mut self, client: &mut Client) {
        let t = &self.backend().timeouts;
        let ms = self.set.tarpit_timeout_ms.or(t.tarpit_ms).or(t.connect_ms);
        let deadline = after_ms(ms.or(Some(0)));
        client.timer.until(deadline).await;
        self.tick();
    }

    /// Whether the request is for the proxy's statistics page (`stats enable`, `stats uri`).
    fn is_for_stats(&self, p: &Proxy) -> bool {
        let Some(stats) = p.stats.as_ref().filter(|s| s.enabled) else {
            return false;
        };
        if !matches!(self.req.method, Method::Get | Method::Head | Method::Post) {
            return false;
        }
        let rest = self
            .req
            .path_and_query()
            .and_then(|uri| uri.strip_prefix(stats.uri.as_bytes()));
        // "/stats" must not catch "/statsfoo"
        rest.is_some_and(|rest| {
            matches!(rest.first(), None | Some(b';' | b'?' | b'/'))
                || stats.uri.ends_with('/')
                || stats.uri.contains('?')
        })
    }

    /// Answers with the statistics page.
    async fn stats_of(&mut self, p: &Proxy, client: &mut Client) -> Result<(), Answered> {
        let Some(stats) = p.stats.as_ref() else {
            return Ok(());
        };
        self.info.backend = p.id;
        for rule in &p.stats_http_request {
            if rule
                .cond
                .as_ref()
                .is_some_and(|c| c.eval(self) != Tri::Pass)
            {
                continue;
            }
            let mut verdict = self.run_rules(std::slice::from_ref(rule), 0);
            if matches!(verdict, Verdict::Accept) {
                break;
            }
            if let Verdict::Auth { realm } = &mut verdict
                && realm.is_empty()
            {
                realm.clone_from(&stats.realm);
            }
            self.obey(p, verdict, client).await?;
        }
        if !stats.auth.is_empty() && !self.stats_password_ok(&stats.auth) {
            self.request_processed();
            self.terminate(b'L', b'R');
            let to_proxy = self.uses_proxy_headers();
            let local = self.auth_response(&stats.realm, to_proxy);
            return Err(self.answer(client, local).await);
        }
        if self.req.method == Method::Post && self.req.framing.has_body() && !self.req_body.active {
            self.hold_request_body(client, None, u64::MAX).await?;
        }
        let admin = p.stats_admin.iter().any(|c| c.eval(self) == Tri::Pass);
        self.fe_state().fe.intercepted.inc();
        self.served_here("STATS");
        let w = self.w.clone();
        let page = {
            let uri = self.req.path_and_query().unwrap_or(b"/");
            sluice_control::stats::page(&StatsRequest {
                runtime: w.runtime(),
                proxy: p.id,
                stats,
                rest: &uri[stats.uri.len().min(uri.len())..],
                uri,
                admin,
                form: (self.req.method == Method::Post).then_some(&self.req_body.payload),
                now_ms: self.now.mono_us / 1000,
            })
        };
        let local = self.page_response(page);
        Err(self.answer(client, local).await)
    }

    /// A page of our own answers, named in the log where a server stands otherwise.
    fn served_here(&mut self, applet: &str) {
        self.request_processed();
        // as if a server had been there at once
        (self.info.tw_ms, self.info.tc_ms, self.info.tsrv_ms) = (0, 0, 0);
        self.info.applet = Some(applet.into());
        self.terminate(b'L', b'R');
    }

    /// `unique-id-header`.
    fn unique_id_header(&mut self, fe: &Proxy) {
        let Some(header) = &fe.unique_id_header else {
            return;
        };
        if let Some(id) = Env::unique_id(self).map(<[u8]>::to_vec) {
            self.req.headers.add(header, &id);
        }
    }

    fn stats_password_ok(&self, auth: &[(String, String)]) -> bool {
        let name: &[u8] = if self.uses_proxy_headers() {
            b"Proxy-Authorization"
        } else {
            b"Authorization"
        };
        let given = self
            .req
            .headers
            .get(name)
            .and_then(super::forward::basic_credentials);
        given.is_some_and(|(user, password)| {
            auth.iter()
                .any(|(u, p)| u.as_bytes() == user && p.as_bytes() == password)
        })
    }

    /// A browser that believes it talks to a proxy writes absolute URIs and authenticates with `Proxy-` headers
    /// (`option http-use-proxy-header`).
    fn uses_proxy_headers(&self) -> bool {
        let asked = self.frontend().options;
        asked.contains(Options::HTTP_USE_PROXY_HEADER)
            && !matches!(self.req.target().first(), Some(b'/' | b'*'))
    }

    /// `use_backend`, then `default_backend`.
    pub fn switch_backend(&mut self, fe: &Proxy) {
        for rule in &fe.use_backends {
            if rule.cond.as_ref().is_some_and(|c| !c.eval_final(self)) {
                continue;
            }
            match &rule.target {
                BackendTarget::Static(id) if !self.leads_to(fe, *id) => {}
                BackendTarget::Static(id) => {
                    self.info.backend = *id;
                    return;
                }
                BackendTarget::Dynamic(f) => {
                    let name = self.render(f);
                    let found = crate::view::backend_named(self.w.runtime(), &name);
                    // a log backend takes no streams
                    let takes = |id: &ProxyId| self.w.model().proxy(*id).mode != Mode::Log;
                    if let Some(id) = found.filter(takes) {
                        if !self.leads_to(fe, id) {
                            continue;
                        }
                        self.info.backend = id;
                        return;
                    }
                    // a name that does not exist falls through to the default backend
                    break;
                }
            }
        }
        if let Some(id) = fe.default_backend.filter(|id| self.leads_to(fe, *id)) {
            self.info.backend = id;
        }
    }

    /// Whether content switching may choose a backend: it is published, or `force-be-switch` says so.
    fn leads_to(&self, fe: &Proxy, id: ProxyId) -> bool {
        !self.w.runtime().proxy(id).unpublished.load(Relaxed)
            || fe.force_be_switch.iter().any(|c| c.eval_final(self))
    }

    /// Counts the stream in its backend.
    pub fn enter_backend(&mut self) {
        let id: ProxyId = self.info.backend;
        if !self.w.model().proxy(id).is_backend() {
            return;
        }
        let w = self.w.clone();
        let be = w.runtime().proxy(id);
        be.be.sessions.enter();
        be.be.sess_total.inc();
        let now_ms = self.now.mono_us / 1000;
        be.be.sess_rate.hit(now_ms);
        be.be.req_total.inc();
        be.be.last_session_ms.set(now_ms);
        self.held.backend = Some(id);
        self.w.live.on_backend(self.sess.live, id);
        self.note_limits();
    }

    /// Reads the request's body into memory (`option http-buffer-request`, `wait-for-body`, `balance url_param
    /// check_post`, the statistics form): all of it, `at_least` bytes, or what a buffer holds.
    pub async fn hold_request_body(
        &mut self,
        client: &mut Client,
        time_ms: Option<u64>,
        at_least: u64,
    ) -> Result<(), Answered> {
        self.req_body.hold();
        if !self.req.framing.has_body() {
            self.req_body.complete = true;
            self.req_body.ended = true;
            return Ok(());
        }
        if self.req_body.complete {
            return Ok(());
        }
        if self.req.noticed.expect_continue {
            let _ = client
                .io
                .write_all(
                    b"HTTP/1.1 100 Continue\r\n\r\n",
                    &mut client.timer,
                    self.client_timeout_ms(),
                )
                .await;
            self.req.headers.remove("Expect");
            self.req.noticed.expect_continue = false;
        }
        let t = &self.frontend().timeouts;
        let deadline = after_ms(time_ms.or(t.http_request_ms).or(t.client_ms));
        match super::hold::hold(self, client, deadline, at_least).await {
            super::hold::Held::Enough => Ok(()),
            super::hold::Held::Timeout => {
                self.count_bad_request();
                self.terminate(b'c', b'R');
                let local = self.error_response(408);
                Err(self.answer_and(client, local, Fate::Close).await)
            }
            // the rules see what there is; no server will (`before_server`)
            super::hold::Held::Closed => Ok(()),
            super::hold::Held::Bad => {
                self.count_bad_request();
                self.terminate(b'P', b'R');
                let local = self.error_response(400);
                Err(self.answer_and(client, local, Fate::Close).await)
            }
        }
    }

    pub fn count_denied_request(&self) {
        self.fe_state().fe.denied_req.inc();
        if self.held.backend.is_some() {
            self.be_state().be.denied_req.inc();
        }
    }
}
