//! TCP mode: content rules on what the client sent, a server, then bytes both ways.

use std::rc::Rc;
use std::task::Poll;

use std::net::IpAddr;

use sluice_config::model::{Mode, Options, PeerAddr, PortSpec, Proxy, Rule};
use sluice_http::{HeadScan, Parsed, parse_request};

use super::Stream;
use super::http::{self};
use super::rules::{Later, Verdict};
use crate::backend::ServerConn;
use crate::backend::assign::{self, Attempts};
use crate::net::{Buf, Deadline, after_ms};
use crate::session::{Client, Listener, SessionData};
use crate::worker::Worker;

/// Runs one TCP session.
pub async fn run(
    w: &Rc<Worker>,
    l: &Rc<Listener>,
    mut client: Box<Client>,
    sess: Box<SessionData>,
) {
    let mut s = w.lend_stream();
    s.begin(l, sess);
    s.info.request_counter = w
        .runtime()
        .next_request
        .fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    s.info.stream_id = s.info.request_counter as u32;
    s.info.tr_ms = 0;
    s.info.req_captures.resize(l.proxy.captures_req.len(), None);
    s.info.res_captures.resize(l.proxy.captures_res.len(), None);
    s.log_connect(&l.proxy);
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
            Inspected::Http => return self.hand_to_http(client),
            Inspected::End => return false,
        }
        self.switch_backend(fe);
        self.enter_backend();
        let be = w.model().proxy(self.info.backend).clone();
        if be.id != fe.id {
            if be.mode == Mode::Http {
                // `use_backend` to an HTTP backend after `switch-mode` or by upgrade
                return self.hand_to_http(client);
            }
            match self
                .inspect(client, &be.tcp_request_content, be.tcp_req_inspect_delay_ms)
                .await
            {
                Inspected::Go => {}
                Inspected::Http => return self.hand_to_http(client),
                Inspected::End => return false,
            }
        }
        let mut attempts = Attempts {
            wanted: assign::use_server(self).or_else(|| self.rdp_server(client, &be)),
            ..Attempts::default()
        };
        let mut left = self.set.retries.unwrap_or(be.retries);
        let (slot, mut conn) = match self
            .server_connection(client, &be, &mut attempts, &mut left)
            .await
        {
            Ok(got) => got,
            Err(why) => {
                self.note_unserved(&why);
                // a close with unread bytes would look like a broken connection
                if client.input.is_none() && self.req_content.is_none() {
                    self.req_content = Some(w.bufs.lend());
                    self.read_what_is_there(client);
                }
                return false;
            }
        };
        self.log_connected();
        let input = self.req_content.take().or(client.input.take());
        let splice = self.splice_choice(Options::SPLICE_REQUEST);
        self.up.start_tunnel(Vec::new(), input, splice);
        self.up.limit(self.bandwidth(true));
        if (!be.tcp_response_content.is_empty() || !fe.tcp_response_content.is_empty())
            && !self.inspect_response(client, &mut conn, fe, &be).await
        {
            return false;
        }
        let splice = self.splice_choice(Options::SPLICE_RESPONSE);
        self.down
            .start_tunnel(Vec::new(), self.res_content.take(), splice);
        self.down.limit(self.bandwidth(false));
        self.info.tsrv_ms = sluice_expr::env::UNREACHED;
        let tunnel = self.tunnel_timeout_ms();
        super::relay::relay(self, client, &mut conn, tunnel).await;
        self.closing = Some(conn);
        self.w.live.off_server(self.sess.live);
        drop(slot);
        false
    }

    /// The connection goes on as HTTP: what was read belongs to the first request.
    fn hand_to_http(&mut self, client: &mut Client) -> bool {
        let read = self.req_content.take().or(client.input.take());
        client.input = read.filter(|b| !b.is_empty());
        true
    }

    /// `persist rdp-cookie`: the server whose address the cookie of the client's first message names, as
    /// `<IPv4 address>.<port>.0000`, both as the little-endian numbers of what is sent.
    fn rdp_server(&self, client: &Client, be: &Proxy) -> Option<u32> {
        let name = be.persist_rdp_cookie.as_deref()?;
        let seen = self.req_content.as_ref().or(client.input.as_ref())?;
        let value = sluice_expr::fetch::rdp::rdp_cookie(seen.data(), name.as_bytes())?;
        let mut parts = std::str::from_utf8(value).ok()?.split('.');
        let ip: u32 = parts.next()?.parse().ok()?;
        let port: u16 = parts.next()?.parse().ok()?;
        let (ip, port) = (IpAddr::from(ip.to_le_bytes()), port.swap_bytes());
        let named = |s: &&std::sync::Arc<sluice_engine::ServerState>| matches!(&**s.addr.load(), PeerAddr::Ip { ip: i, port: PortSpec::Fixed(p) } if *i == ip && *p == port);
        let server = self.be_state().servers.iter().find(named)?;
        let usable = server.accepts_persistent() || be.options.contains(Options::PERSIST);
        usable.then_some(server.id.index)
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
        // what rules may read stays in `req_content` until a server is found: `use_backend` may read it too
        self.req_content = Some(
            client
                .input
                .take()
                .or(self.req_content.take())
                .unwrap_or_else(|| w.bufs.lend()),
        );
        self.content_final = delay_ms.is_none();
        let mut from = 0;
        if self.req_content.as_ref().is_some_and(Buf::is_empty) {
            self.read_what_is_there(client);
        }
        loop {
            self.parse_content();
            match self.run_rules(rules, from) {
                Verdict::Next | Verdict::Accept => return Inspected::Go,
                Verdict::SwitchModeHttp => return Inspected::Http,
                Verdict::Wait { from: at } => {
                    from = at;
                    let full = self
                        .req_content
                        .as_ref()
                        .is_some_and(|b| b.len() >= bufsize);
                    match self.more_content(client, deadline).await {
                        More::Some => self.content_final |= full,
                        More::Done => self.content_final = true,
                        More::Broken => {
                            self.tick();
                            self.count_abort(true);
                            self.terminate(b'C', b'R');
                            return Inspected::End;
                        }
                    }
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
                    return Inspected::End;
                }
            }
        }
    }

    /// Takes bytes that have arrived already, without waiting.
    fn read_what_is_there(&mut self, client: &mut Client) {
        let Some(buf) = &mut self.req_content else {
            return;
        };
        if let Ok(n) = client.io.try_read(buf.room()) {
            buf.filled(n);
            client.read_closed |= n == 0;
        }
    }

    /// Reads the request's head if the content is HTTP, for rules of TCP mode that look at it (`req.hdr`, `path`).
    fn parse_content(&mut self) {
        let Some(buf) = self.req_content.as_ref().filter(|_| !self.has_req) else {
            return;
        };
        let limits = http::head_limits(&self.w, false);
        let mut scan = HeadScan::new();
        match parse_request(buf.data(), &mut scan, &limits, &mut self.req) {
            Ok(Parsed::Complete { .. }) => self.has_req = true,
            Ok(Parsed::Partial) => {}
            Err(_) => self.not_http = true,
        }
    }

    /// Reads more of the client's bytes.
    async fn more_content(&mut self, client: &mut Client, deadline: Deadline) -> More {
        let Some(buf) = &mut self.req_content else {
            return More::Done;
        };
        if client.read_closed {
            return More::Done;
        }
        buf.make_room(self.w.model().global.tune.bufsize);
        let read = std::future::poll_fn(|cx| match client.io.poll_read(cx, buf.room()) {
            Poll::Pending => client.timer.poll(cx, deadline).map(|()| None),
            ready => ready.map(Some),
        })
        .await;
        match read {
            Some(Ok(n)) if n > 0 => {
                buf.filled(n);
                More::Some
            }
            Some(Ok(_)) => {
                client.read_closed = true;
                More::Done
            }
            Some(Err(_)) => More::Broken,
            None => More::Done,
        }
    }

    /// `tcp-response content` rules, while the client's bytes go to the server already. False: the stream ends.
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
        self.vars.get_mut().responding = true;
        self.content_final = delay.is_none();
        let sets: &[&[Rule]] = if fe.id == be.id {
            &[&be.tcp_response_content]
        } else {
            &[&be.tcp_response_content, &fe.tcp_response_content]
        };
        let mut sending = true;
        for rules in sets {
            let mut from = 0;
            loop {
                match self.run_rules(rules, from) {
                    Verdict::Next | Verdict::Accept => break,
                    Verdict::Wait { from: at } => {
                        from = at;
                        let Stream {
                            up, res_content, ..
                        } = self;
                        let Some(buf) = res_content else {
                            break;
                        };
                        buf.make_room(w.model().global.tune.bufsize);
                        let n = std::future::poll_fn(|cx| {
                            if sending {
                                // how it ended is seen once more, and told, by the relay
                                sending =
                                    up.poll(cx, &w, &mut client.io, &mut conn.io).is_pending();
                            }
                            match conn.io.poll_read(cx, buf.room()) {
                                Poll::Pending => client.timer.poll(cx, deadline).map(|()| 0),
                                ready => ready.map(|r| r.unwrap_or(0)),
                            }
                        })
                        .await;
                        buf.filled(n);
                        self.content_final |= n == 0 || buf.room().is_empty();
                        self.tick();
                    }
                    Verdict::Later { next, .. } => from = next,
                    // what came before the rule spoke still belongs to the client
                    Verdict::Close => {
                        if let Some(buf) = self.res_content.take() {
                            let timeout = self.client_timeout_ms();
                            self.info.bytes_out += buf.len() as u64;
                            // a client that is gone misses nothing
                            let _ = client
                                .io
                                .write_all(buf.data(), &mut client.timer, timeout)
                                .await;
                        }
                        self.info.bytes_in += self.up.written;
                        return false;
                    }
                    verdict => {
                        self.be_state().be.denied_resp.inc();
                        self.fe_state().fe.denied_resp.inc();
                        self.terminate(b'P', b'D');
                        self.info.bytes_in += self.up.written;
                        self.abort(client, verdict);
                        return false;
                    }
                }
            }
        }
        true
    }
}

/// What a read for content rules brought.
enum More {
    Some,
    /// The time is up or the client is done.
    Done,
    /// The connection broke.
    Broken,
}

/// What content inspection decided.
enum Inspected {
    Go,
    Http,
    End,
}
