//! What is counted and noted of a stream, at each point of its life, and the log line at its end. Counters, logs and
//! statistics are all fed from here.

use sluice_config::model::{LogProfile, LogStep, LogSteps, Mode, Options};
use sluice_engine::passive::Seen;
use sluice_expr::env::{Addr, Dir, StreamInfo, UNREACHED};
use sluice_expr::logformat::Stage;
use sluice_http::{BodyDecoder, Framing};
use std::sync::atomic::Ordering::Relaxed;

use super::Stream;
use crate::clock;
use crate::session::{Listener, SessionData};

impl Stream {
    /// A stream (or the rules before it) begins on a session.
    pub fn begin(&mut self, l: &Listener, sess: Box<SessionData>) {
        self.spare_sess = Some(std::mem::replace(&mut self.sess, sess));
        self.now = clock::now();
        self.start_us = self.now.mono_us;
        reset(&mut self.info, l.proxy.id);
        self.info.accept_us = self.sess.client.since_us;
        self.info.request_us = self.now.wall_us;
        self.info.th_ms = self.sess.handshake_ms;
        self.info.listener_id = self.sess.listener_id;
        self.info.listener_name = self.sess.listener_name.clone();
        let t = &l.proxy.timeouts;
        self.info.client_timeout_ms = t.client_ms.unwrap_or(0);
        self.counted = (0, 0);
        self.w.live.begin(self.sess.live);
    }

    /// A frontend without a log format logs who connects, and nothing at the end.
    pub fn log_connect(&mut self, fe: &sluice_config::model::Proxy) {
        self.log_step(LogStep::Accept);
        if !fe.log.at_start || fe.log.targets.is_empty() {
            return;
        }
        let mode = match fe.mode {
            Mode::Http => "HTTP",
            _ => "TCP",
        };
        let client = &self.sess.client;
        let ends = match (&client.src, &client.dst) {
            (Addr::Ip(src), Addr::Ip(dst)) => {
                format!(
                    "from {}:{} to {}:{}",
                    src.ip(),
                    src.port(),
                    dst.ip(),
                    dst.port()
                )
            }
            _ => format!("to unix:{}", self.info.listener_id),
        };
        let text = format!("Connect {ends} ({}/{mode})", fe.name);
        let tag = fe.log.tag.as_deref();
        self.w.logs.notice(&fe.log.targets, tag, LEVEL_INFO, &text);
    }

    /// `option contstats`: bytes are counted while they flow, up to these sums.
    pub fn count_flow(&mut self, bytes_in: u64, bytes_out: u64) {
        let more = (
            bytes_in.saturating_sub(self.counted.0),
            bytes_out.saturating_sub(self.counted.1),
        );
        if more == (0, 0) {
            return;
        }
        self.counted = (self.counted.0 + more.0, self.counted.1 + more.1);
        let w = self.w.clone();
        let rt = w.runtime();
        let fe = &rt.proxy(self.info.frontend).fe;
        fe.bytes_in.add(more.0);
        fe.bytes_out.add(more.1);
        rt.counters.bytes_out.add(more.1);
        let add = |c: &sluice_engine::counters::ServingCounters| {
            c.bytes_in.add(more.0);
            c.bytes_out.add(more.1);
        };
        if let Some(id) = self.held.backend {
            add(&rt.proxy(id).be);
        }
        if let Some(id) = self.held.server {
            add(&rt.server(id).counters);
        }
    }

    /// An HTTP request's first bytes are there.
    pub fn start_request(&mut self, first: bool) {
        let idle_since = if first {
            self.sess.accept_mono_us + self.sess.handshake_ms.max(0) as u64 * 1000
        } else {
            self.sess.last_end_us
        };
        if !first {
            self.info.th_ms = 0;
        }
        self.info.ti_ms = (self.start_us.saturating_sub(idle_since) / 1000) as i32;
        self.info.request_counter = self.w.runtime().next_request.fetch_add(1, Relaxed);
        self.info.stream_id = self.info.request_counter as u32;
    }

    /// The request's head is complete.
    pub fn note_request(&mut self, fe: &sluice_config::model::Proxy) {
        self.tick();
        let w = self.w.clone();
        if self.req.noticed.doubtful_framing && w.model().global.h1_keeps_insecure_encoding {
            self.req.noticed.doubtful_framing = false;
        }
        let state = w.runtime().proxy(self.info.frontend);
        let now_ms = self.now.mono_us / 1000;
        state.fe.req_total.inc();
        state.fe.h1_req.inc();
        state.fe.req_rate.hit(now_ms);
        self.w.runtime().counters.req_total.inc();
        // what follows a CONNECT is the tunnel's, once the server agrees to it
        self.req_decoder = BodyDecoder::new(match self.req.framing {
            Framing::Tunnel => Framing::None,
            framing => framing,
        });

        let most = self.w.model().global.tune.http_logurilen;
        let line = &mut self.info.first_line;
        line.clear();
        line.extend_from_slice(self.req.method_str());
        line.push(b' ');
        line.extend_from_slice(self.req.target());
        let v = self.req.version;
        line.extend_from_slice(b" HTTP/");
        line.extend_from_slice(&[b'0' + v.major % 10, b'.', b'0' + v.minor % 10]);
        line.truncate(most.saturating_sub(1));

        // A slot for each declared header, of the response too: the log shows the empty ones.
        self.info.req_captures.resize(fe.captures_req.len(), None);
        self.info.res_captures.resize(fe.captures_res.len(), None);
        for (slot, capture) in fe.captures_req.iter().enumerate() {
            let value = capture
                .header
                .as_ref()
                .and_then(|h| self.req.headers.last(h))
                .map(|v| v[..v.len().min(capture.len)].to_vec());
            if let Some(v) = value {
                self.store_capture(Dir::Request, slot, v);
            }
        }
        self.capture_request_cookie(fe);
        self.log_step(LogStep::Request);
    }

    /// The rules are through with the request: from here on the time is the proxy's and the server's.
    pub fn request_processed(&mut self) {
        self.tick();
        self.info.tr_ms = self.elapsed_ms();
    }

    /// The response's head is there.
    pub fn note_response(&mut self) {
        self.tick();
        self.has_res = true;
        self.vars.get_mut().responding = true;
        self.info.server_status = self.res.status.into();
        self.observe(Seen::status(self.res.status));
        let before = self.info.tr_ms.max(0) + self.info.tw_ms.max(0) + self.info.tc_ms.max(0);
        self.info.tsrv_ms = (self.elapsed_ms() - before).max(0);
        let w = self.w.clone();
        if self.res.noticed.doubtful_framing && w.model().global.h1_keeps_insecure_encoding {
            self.res.noticed.doubtful_framing = false;
        }
        let fe = w.model().proxy(self.info.frontend);
        for (slot, capture) in fe.captures_res.iter().enumerate() {
            let value = capture
                .header
                .as_ref()
                .and_then(|h| self.res.headers.last(h))
                .map(|v| v[..v.len().min(capture.len)].to_vec());
            if let Some(v) = value {
                self.store_capture(Dir::Response, slot, v);
            }
        }
        self.capture_response_cookie(fe);
    }

    /// A TCP session is on its server's connection: a line that tells nothing of what comes later is written now, and with
    /// `option logasap` any other.
    pub fn log_connected(&mut self) {
        let fe = self.frontend();
        if fe.log.steps.is_some() {
            return;
        }
        let asap = fe.options.contains(Options::LOGASAP);
        let later = fe.log.at_start || fe.log.format.stage() > Stage::Connect;
        if later && !asap || fe.options.contains(Options::DONTLOG_NORMAL) {
            return;
        }
        self.info.td_ms = 0;
        self.info.ta_ms = self.elapsed_ms();
        self.info.tt_ms = self.elapsed_ms();
        self.log(LogStep::Connect, None);
        self.logged = true;
    }

    /// The response's head goes out: with `option logasap` this is when it is logged.
    pub fn sent_head(&mut self) {
        let fe = self.frontend();
        let asap = match fe.log.steps {
            None => fe.options.contains(Options::LOGASAP),
            Some(steps) => steps.contains(LogSteps::RESPONSE),
        };
        if asap {
            let logged = fe.log.steps.is_none();
            self.info.bytes_out = self.res.headers.wire_len() as u64;
            self.info.td_ms = self.elapsed_ms();
            self.info.ta_ms = self.elapsed_ms();
            self.info.tt_ms = self.elapsed_ms();
            self.log(LogStep::Response, None);
            self.logged = logged;
            self.info.bytes_out = 0;
        }
    }

    /// The stream is on a server's connection now.
    pub fn enter_server(&mut self, reused: bool) {
        let Some(id) = self.info.server else { return };
        self.leave_server();
        let now_ms = self.now.mono_us / 1000;
        let w = self.w.clone();
        let server = w.runtime().server(id);
        server.counters.sessions.enter();
        server.counters.sess_total.inc();
        server.counters.sess_rate.hit(now_ms);
        server.counters.lb_total.inc();
        server.counters.last_session_ms.set(now_ms);
        server.counters.req_total.inc();
        w.runtime().proxy(id.backend).be.lb_total.inc();
        if reused {
            server.counters.reuses.inc();
            w.runtime().proxy(id.backend).be.reuses.inc();
        }
        self.held.server = Some(id);
        let epoch = server.shutdown().0;
        w.live
            .on_server(self.sess.live, id, epoch, self.sess.server_fd);
    }

    fn leave_server(&mut self) {
        if let Some(id) = self.held.server.take() {
            self.w.runtime().server(id).counters.sessions.leave();
        }
    }

    /// A connection to a server was made.
    pub fn count_connect(&mut self) {
        self.be_state().be.connects.inc();
        if let Some(s) = self.server_state() {
            s.counters.connects.inc();
        }
    }

    /// The backend is known: the timeouts and retries in effect, for the `cur_*` fetches.
    pub fn note_limits(&mut self) {
        let t = &self.backend().timeouts;
        let retries = self.set.retries.unwrap_or(self.backend().retries);
        let tarpit = self.set.tarpit_timeout_ms.or(t.tarpit_ms).or(t.connect_ms);
        self.info.server_timeout_ms = self.server_timeout_ms().unwrap_or(0);
        self.info.tunnel_timeout_ms = self.tunnel_timeout_ms().unwrap_or(0);
        self.info.connect_timeout_ms = self.connect_timeout_ms().unwrap_or(0);
        self.info.queue_timeout_ms = self.queue_timeout_ms().unwrap_or(0);
        self.info.tarpit_timeout_ms = tarpit.unwrap_or(0);
        self.info.max_retries = retries;
    }

    /// Tells the server's passive checks (`observe`) what this stream saw of it.
    pub fn observe(&self, seen: Seen) {
        if let Some(s) = self.server_state() {
            s.passive.note(seen, &s.conf.check);
        }
    }

    pub fn count_response_error(&mut self) {
        self.be_state().be.failed_resp.inc();
        if let Some(s) = self.server_state() {
            s.counters.failed_resp.inc();
        }
    }

    /// A transfer was aborted by the client or the server.
    pub fn count_abort(&mut self, by_client: bool) {
        let pick = |c: &sluice_engine::counters::ServingCounters| {
            if by_client {
                c.client_aborts.inc()
            } else {
                c.server_aborts.inc()
            }
        };
        if self.held.backend.is_some() {
            pick(&self.be_state().be);
        }
        if let Some(s) = self.server_state() {
            pick(&s.counters);
        }
    }

    /// The stream is over: times, counters, log. The session's part must still be in.
    pub fn finish(&mut self, log: bool) {
        self.tick();
        let total = self.elapsed_ms();
        if !self.logged {
            if self.info.tsrv_ms != UNREACHED {
                let before = self.info.tr_ms.max(0)
                    + self.info.tw_ms.max(0)
                    + self.info.tc_ms.max(0)
                    + self.info.tsrv_ms;
                self.info.td_ms = (total - before).max(0);
            }
            self.info.ta_ms = total;
            self.info.tt_ms = total + self.info.ti_ms.max(0) + self.info.th_ms.max(0);
            self.info.tu_ms = self.info.tt_ms;
        }
        self.sess.last_end_us = self.now.mono_us;
        if let Some(cause) = self.w.live.end(self.sess.live) {
            self.info.term_cause = cause;
        }
        self.count_ended();
        // The line of an ended stream no longer counts the stream itself on its server and backend.
        self.leave_server();
        if let Some(id) = self.held.backend.take() {
            self.w.runtime().proxy(id).be.sessions.leave();
        }
        if log && !self.logged {
            let fe = self.frontend();
            // a connection that failed before it carried a request
            let failed = fe.mode == Mode::Http && !self.has_req;
            match fe.log.steps {
                _ if failed => self.log(LogStep::Error, None),
                Some(steps) if !steps.contains(LogSteps::CLOSE) => {}
                _ => self.log(LogStep::Close, None),
            }
        }
    }

    fn count_ended(&mut self) {
        self.count_flow(self.info.bytes_in, self.info.bytes_out);
        let w = self.w.clone();
        let rt = w.runtime();
        let fe = rt.proxy(self.info.frontend);
        if let Ok(status) = u16::try_from(self.info.status) {
            fe.fe.responses.count(status);
            if let Some(id) = self.held.backend {
                rt.proxy(id).be.responses.count(status);
            }
        }
        let times = |c: &sluice_engine::counters::ServingCounters| {
            c.queue_time.record(self.info.tw_ms.max(0) as u64);
            c.connect_time.record(self.info.tc_ms.max(0) as u64);
            c.response_time.record(self.info.tsrv_ms.max(0) as u64);
            c.total_time.record(self.info.tt_ms.max(0) as u64);
        };
        if let Some(id) = self.held.backend {
            times(&rt.proxy(id).be);
        }
        if let Some(id) = self.held.server {
            let server = rt.server(id);
            times(&server.counters);
            if let Ok(status) = u16::try_from(self.info.server_status) {
                server.counters.responses.count(status);
            }
        }
    }

    /// Writes the log line, unless the configuration wants none of this kind.
    fn log(&mut self, step: LogStep, wanted: Option<&LogProfile>) {
        let w = self.w.clone();
        let fe = w.model().proxy(self.info.frontend);
        let profiled = fe.log.profiled || wanted.is_some();
        let nothing = fe.log.at_start && !profiled;
        if fe.log.targets.is_empty() || self.info.log_level == Some(None) || nothing {
            return;
        }
        let error = !matches!(self.info.term_cause, b'-' | b'L')
            || self.info.retries > 0
            || self.info.status >= 500;
        if fe.options.contains(Options::DONTLOG_NORMAL) && !error {
            return;
        }
        let separate = fe.options.contains(Options::LOG_SEPARATE_ERRORS) && error;
        let level =
            self.info
                .log_level
                .flatten()
                .unwrap_or(if separate { LEVEL_ERR } else { LEVEL_INFO });
        self.keep_captured();
        self.info.log_origin = step.origin();
        self.info.logged_early = fe.options.contains(Options::LOGASAP);
        let rt = w.runtime();
        self.info.act_conn = rt.counters.conns.now();
        self.info.fe_conn = rt.proxy(self.info.frontend).fe.conns.now();
        self.info.be_conn = rt.proxy(self.info.backend).be.sessions.now();
        self.info.srv_conn = self.server_state().map_or(0, |s| s.counters.sessions.now());
        let lines = &rt.proxy(self.info.frontend).fe.log_lines;
        self.info.log_counter = lines.value();
        lines.inc();
        if !profiled {
            return w.logs.stream(self, fe, level, step);
        }
        let own = match &fe.log.error_format {
            Some(f) if step == LogStep::Error => f,
            _ => &fe.log.format,
        };
        let text = (!fe.log.at_start).then(|| self.render(own));
        let asked = (step, wanted);
        w.logs.profiled(self, fe, level, asked, text.as_deref());
    }

    /// Logs a connection that ended before it carried anything: by `error-log-format`, or where from it came, where to
    /// and its error in words.
    pub fn log_refused(&mut self) {
        use crate::net::proxy_protocol::fault::{ABORT, EMPTY, NETSCALER};
        let w = self.w.clone();
        let fe = w.model().proxy(self.info.frontend);
        let error = self.sess.client.err;
        let silent = [EMPTY, ABORT, EMPTY + NETSCALER, ABORT + NETSCALER].contains(&error);
        let null = silent && fe.options.contains(Options::DONTLOGNULL);
        if fe.log.targets.is_empty() || null {
            return;
        }
        self.terminate(b'P', b'R');
        let separate = fe.options.contains(Options::LOG_SEPARATE_ERRORS);
        let level = if separate { LEVEL_ERR } else { LEVEL_INFO };
        let text = match &fe.log.error_format {
            Some(format) => self.render(format),
            None => self.refusal(&fe.name, error),
        };
        self.info.log_origin = LogStep::Error.origin();
        if fe.log.profiled {
            let asked = (LogStep::Error, None);
            return w.logs.profiled(self, fe, level, asked, Some(&text));
        }
        w.logs.line(fe, level, &text);
    }

    /// `192.0.2.1:1234 [date] frontend/listener: error`.
    fn refusal(&self, frontend: &str, error: u16) -> Vec<u8> {
        let src = match &self.sess.client.src {
            Addr::Ip(addr) => format!("{}:{}", addr.ip(), addr.port()),
            _ => format!("unix:{}", self.info.listener_id),
        };
        let listener = match &self.info.listener_name {
            Some(name) => name.to_string(),
            None => self.info.listener_id.to_string(),
        };
        let date = crate::logs::log_date(self.info.accept_us);
        let mut text = format!("{src} [{date}] {frontend}/{listener}: ").into_bytes();
        let words = sluice_expr::fetch::connection_error(error.into());
        text.extend_from_slice(words.unwrap_or(b"unknown connection error"));
        text
    }

    /// `do-log`: a line now, besides the one at the end.
    pub fn do_log(&mut self, step: LogStep, profile: Option<&LogProfile>) {
        self.log(step, profile);
    }

    /// A line at a step of the transaction, where `log-steps` asks for it.
    pub fn log_step(&mut self, step: LogStep) {
        let Some(steps) = self.frontend().log.steps else {
            return;
        };
        if !LogSteps::of(step).is_some_and(|step| steps.contains(step)) {
            return;
        }
        self.info.ta_ms = self.elapsed_ms();
        self.info.tt_ms = self.elapsed_ms();
        self.log(step, None);
    }

    /// Bandwidth limits of one direction, as `(bytes, period in ms)`.
    pub fn bandwidth(&self, towards_server: bool) -> Vec<(u64, u64)> {
        self.set
            .bwlims
            .iter()
            .filter(|b| b.filter.inbound == towards_server)
            .map(|b| (b.limit_bytes, b.period_ms))
            .collect()
    }
}

/// syslog levels of traffic logs.
const LEVEL_ERR: u8 = 3;
const LEVEL_INFO: u8 = 6;

/// A fresh record that keeps what the old one has allocated.
fn reset(info: &mut StreamInfo, frontend: sluice_expr::ProxyId) {
    let mut fresh = StreamInfo::new(frontend);
    info.first_line.clear();
    fresh.first_line = std::mem::take(&mut info.first_line);
    info.req_captures.clear();
    fresh.req_captures = std::mem::take(&mut info.req_captures);
    info.res_captures.clear();
    fresh.res_captures = std::mem::take(&mut info.res_captures);
    *info = fresh;
}
