//! TCP mode: content rules on what the client sent, a server, then bytes both ways.

use std::rc::Rc;
use std::task::Poll;

use sluice_config::model::{Mode, Options, Proxy, Rule};

use super::Stream;
use super::body::Pump;
use super::http::{self};
use super::rules::{Later, Verdict};
use crate::backend::assign::{self, Attempts, NoServer};
use crate::backend::connect::{self, ConnectFail};
use crate::backend::{ServerConn, Slot};
use crate::net::{Deadline, after_ms};
use crate::session::{Client, Listener, SessionData};
use crate::worker::Worker;

/// Runs one TCP session.
pub async fn run(w: &Rc<Worker>, l: &Rc<Listener>, mut client: Client, sess: Box<SessionData>) {
    let mut s = w.lend_stream();
    s.begin(l, sess);
    s.info.request_counter = w
        .runtime()
        .next_request
        .fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    s.info.stream_id = s.info.request_counter as u32;
    s.info.tr_ms = 0;
    let to_http = s.tcp(&mut client, &l.proxy).await;
    if to_http {
        let sess = w.return_stream(s);
        return http::serve(w, l, client, sess).await;
    }
    let null = s.info.bytes_in == 0
        && s.info.bytes_out == 0
        && l.proxy.options.contains(Options::DONTLOGNULL);
    s.finish(!null);
    w.return_stream(s);
}

impl Stream {
    /// True: a rule switched the connection to HTTP.
    async fn tcp(&mut self, client: &mut Client, fe: &Proxy) -> bool {
        let w = self.w.clone();
        match self
            .inspect(client, &fe.tcp_request_content, fe.tcp_req_inspect_delay_ms)
            .await
        {
            Inspected::Go => {}
            Inspected::Http => return true,
            Inspected::End => return false,
        }
        self.switch_backend(fe);
        self.enter_backend();
        let be = w.model().proxy(self.info.backend).clone();
        if be.id != fe.id {
            if be.mode == Mode::Http {
                // `use_backend` to an HTTP backend after `switch-mode` or by upgrade
                return true;
            }
            match self
                .inspect(client, &be.tcp_request_content, be.tcp_req_inspect_delay_ms)
                .await
            {
                Inspected::Go => {}
                Inspected::Http => return true,
                Inspected::End => return false,
            }
        }
        let mut attempts = Attempts {
            wanted: assign::use_server(self),
            ..Attempts::default()
        };
        let mut left = self.set.retries.unwrap_or(be.retries);
        let Some((slot, mut conn)) = self.tcp_server(client, &be, &mut attempts, &mut left).await
        else {
            return false;
        };
        let input = self.req_content.take().or(client.input.take());
        if !be.tcp_response_content.is_empty() || !fe.tcp_response_content.is_empty() {
            if !self.inspect_response(client, &mut conn, fe, &be).await {
                return false;
            }
        }
        let up = Pump::tunnel(input, self.splice_choice(Options::SPLICE_REQUEST))
            .limited(self.bandwidth(true));
        let down_input = self.res_content.take();
        let down = Pump::tunnel(down_input, self.splice_choice(Options::SPLICE_RESPONSE))
            .limited(self.bandwidth(false));
        self.info.tsrv_ms = sluice_expr::env::UNREACHED;
        let tunnel = self.tunnel_timeout_ms();
        super::relay::relay(self, client, &mut conn, up, down, tunnel).await;
        self.sess.server_fd = None;
        drop(slot);
        false
    }

    /// `tcp-request content` rules, waiting for data as long as they want some and `inspect-delay` allows.
    async fn inspect(
        &mut self,
        client: &mut Client,
        rules: &[Rule],
        delay_ms: Option<u64>,
    ) -> Inspected {
        if rules.is_empty() {
            return Inspected::Go;
        }
        let deadline = after_ms(delay_ms.or(Some(0)));
        let w = self.w.clone();
        let bufsize = w.model().global.tune.bufsize;
        self.req_content = Some(
            client
                .input
                .take()
                .or(self.req_content.take())
                .unwrap_or_else(|| w.bufs.lend()),
        );
        self.content_final = delay_ms.is_none();
        let mut from = 0;
        let outcome = loop {
            match self.run_rules(rules, from) {
                Verdict::Next | Verdict::Accept => break Inspected::Go,
                Verdict::SwitchModeHttp => break Inspected::Http,
                Verdict::Wait { from: at } => {
                    from = at;
                    let full = self
                        .req_content
                        .as_ref()
                        .is_some_and(|b| b.len() >= bufsize);
                    self.content_final |= full || !self.more_content(client, deadline).await;
                    self.tick();
                }
                Verdict::Later { what, next } => {
                    if let Later::PauseMs(ms) = what {
                        client.timer.until(after_ms(Some(ms))).await;
                    }
                    self.tick();
                    from = next;
                }
                verdict => {
                    self.fe_state().fe.denied_req.inc();
                    if self.held.backend.is_some() {
                        self.be_state().be.denied_req.inc();
                    }
                    self.terminate(b'P', b'R');
                    self.abort(client, verdict);
                    break Inspected::End;
                }
            }
        };
        client.input = self.req_content.take().filter(|b| !b.is_empty());
        outcome
    }

    /// Reads more of the client's bytes. False: the time is up or the client is done.
    async fn more_content(&mut self, client: &mut Client, deadline: Deadline) -> bool {
        let Some(buf) = &mut self.req_content else {
            return false;
        };
        buf.compact();
        let n = std::future::poll_fn(|cx| match client.io.poll_read(cx, buf.room()) {
            Poll::Pending => client.timer.poll(cx, deadline).map(|()| None),
            ready => ready.map(|r| r.ok()),
        })
        .await;
        match n {
            Some(n) if n > 0 => {
                buf.filled(n);
                true
            }
            Some(_) => {
                client.read_closed = true;
                false
            }
            None => false,
        }
    }

    /// `tcp-response content` rules. False: the stream ends.
    async fn inspect_response(
        &mut self,
        client: &mut Client,
        conn: &mut ServerConn,
        fe: &Proxy,
        be: &Proxy,
    ) -> bool {
        let w = self.w.clone();
        let delay = be.tcp_res_inspect_delay_ms;
        let deadline = after_ms(delay.or(Some(0)));
        self.res_content = Some(w.bufs.lend());
        self.req_content = None;
        self.content_final = delay.is_none();
        let sets: &[&[Rule]] = if fe.id == be.id {
            &[&be.tcp_response_content]
        } else {
            &[&be.tcp_response_content, &fe.tcp_response_content]
        };
        for rules in sets {
            let mut from = 0;
            loop {
                match self.run_rules(rules, from) {
                    Verdict::Next | Verdict::Accept => break,
                    Verdict::Wait { from: at } => {
                        from = at;
                        let Some(buf) = &mut self.res_content else {
                            break;
                        };
                        let n =
                            std::future::poll_fn(|cx| match conn.io.poll_read(cx, buf.room()) {
                                Poll::Pending => client.timer.poll(cx, deadline).map(|()| 0),
                                ready => ready.map(|r| r.unwrap_or(0)),
                            })
                            .await;
                        buf.filled(n);
                        self.content_final |= n == 0;
                        self.tick();
                    }
                    Verdict::Later { next, .. } => from = next,
                    verdict => {
                        self.be_state().be.denied_resp.inc();
                        self.fe_state().fe.denied_resp.inc();
                        self.terminate(b'P', b'D');
                        crate::session::end_at_once(client, verdict);
                        return false;
                    }
                }
            }
        }
        true
    }

    /// A connection to a server for a TCP stream. `None`: the stream ends without one.
    async fn tcp_server(
        &mut self,
        client: &mut Client,
        be: &Proxy,
        attempts: &mut Attempts,
        left: &mut u32,
    ) -> Option<(Option<Slot>, ServerConn)> {
        let w = self.w.clone();
        loop {
            let slot = if be.servers.is_empty() {
                None
            } else {
                match assign::assign(self, client, attempts).await {
                    Ok(slot) => Some(slot),
                    Err(why) => {
                        self.tcp_unserved(client, why);
                        return None;
                    }
                }
            };
            self.tick();
            self.info.tw_ms = self.elapsed_ms();
            let made = match &slot {
                Some(slot) => {
                    let server = w.runtime().server(slot.server).clone();
                    let addr = server.addr.load_full();
                    match connect::target(&addr, self) {
                        Some(t) => {
                            connect::connect(self, &mut client.timer, t, Some(&server.conf)).await
                        }
                        None => Err(ConnectFail::Refused(
                            std::io::ErrorKind::AddrNotAvailable.into(),
                        )),
                    }
                }
                None => match super::forward::direct_target(self, be) {
                    Some(t) => connect::connect(self, &mut client.timer, t, None).await,
                    None => {
                        self.tcp_unserved(client, NoServer::NoneUsable);
                        return None;
                    }
                },
            };
            self.tick();
            match made {
                Ok(mut conn) => {
                    conn.server = slot.as_ref().map(|s| s.server);
                    self.info.tc_ms = (self.elapsed_ms() - self.info.tw_ms).max(0);
                    self.server_conn = conn.info.clone();
                    self.sess.server_fd = Some(std::os::fd::AsRawFd::as_raw_fd(&conn.io));
                    self.count_connect();
                    self.enter_server(false);
                    return Some((slot, conn));
                }
                Err(fail) => {
                    drop(slot);
                    if *left == 0 {
                        self.be_state().be.failed_conns.inc();
                        if let Some(server) = self.server_state() {
                            server.counters.failed_conns.inc();
                        }
                        self.terminate(
                            if matches!(fail, ConnectFail::Timeout) {
                                b's'
                            } else {
                                b'S'
                            },
                            b'C',
                        );
                        client.io.reset_on_close();
                        return None;
                    }
                    *left -= 1;
                    self.retry_connect(client, attempts, *left).await;
                }
            }
        }
    }

    fn tcp_unserved(&mut self, client: &Client, why: NoServer) {
        self.tick();
        self.info.tw_ms = self.elapsed_ms();
        let (cause, phase) = match why {
            NoServer::NoneUsable => (b'S', b'C'),
            NoServer::QueueTimeout => (b's', b'Q'),
            NoServer::QueueFull => (b'S', b'Q'),
            NoServer::ClientGone => (b'C', b'Q'),
        };
        self.terminate(cause, phase);
        client.io.reset_on_close();
    }
}

/// What content inspection decided.
enum Inspected {
    Go,
    Http,
    End,
}
