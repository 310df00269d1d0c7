//! The server's part of an HTTP stream: connect, send the request, read the response's head, rules on it; `deliver` takes it
//! to the client.
//!
//! ```text
//! assign -> connect/reuse -> send head (+body) -> response head -> rules -> relay -> keep
//!    ^           |                  |                  |
//!    +--retry----+------------------+------------------+   (nothing sent to the client yet, attempts left)
//! ```

use std::task::Poll;

use sluice_config::model::{Options, Proxy, RetryOn};
use sluice_engine::passive::Seen;
use sluice_expr::env::UNREACHED;
use sluice_http::{BodyDecoder, Framing, HeadScan, Parsed, Version, encode_chunk, parse_response};

use super::Stream;
use super::body::{Awaits, End, Recode, SpliceChoice};
use super::http::{Fate, head_limits};
use super::response_body::Incoming;
use super::rules::Verdict;
use super::serve::Unserved;
use crate::backend::ServerConn;
use crate::backend::assign::{self, Attempts};
use crate::clock;
use crate::net::{Buf, Deadline, since};
use crate::session::Client;

/// Why a response did not come about, before anything was sent to the client.
#[derive(Debug)]
enum NoResponse {
    /// Closed or reset before the first byte.
    Empty,
    /// The first bytes are no HTTP response.
    Junk,
    /// Closed in the middle of the head.
    Cut,
    Timeout,
    /// A status the configuration wants retried.
    Status(u16),
    ClientGone,
    ClientTimeout,
    /// The request's body has broken framing.
    BadBody,
}

/// How one attempt at a server ended.
enum Outcome {
    Finished(Fate),
    Failed(NoResponse),
}

impl Stream {
    /// Finds a server, gets its response to the client, and says what becomes of the client's connection.
    pub async fn run_server(&mut self, client: &mut Client) -> Fate {
        let w = self.w.clone();
        let be = w.model().proxy(self.info.backend);
        let mut attempts = Attempts::default();
        self.find_persistence(be, &mut attempts);
        let mut left = self.set.retries.unwrap_or(be.retries);
        if be.retry_on.difference(RetryOn::CONN_FAILURE) != RetryOn::empty()
            && !self.set.no_l7_retry
        {
            super::hold::hold_what_is_there(self, client);
        }
        loop {
            let (slot, conn) = match self
                .server_connection(client, be, &mut attempts, &mut left)
                .await
            {
                Ok(got) => got,
                Err(Unserved::Redirect(local)) => return self.answer(client, local).await,
                Err(why) if why.client_left() => {
                    self.count_abort(true);
                    self.note_unserved(&why);
                    return Fate::Close;
                }
                Err(why) => {
                    self.note_unserved(&why);
                    let local = self.error_response(503);
                    return self.answer(client, local).await;
                }
            };
            let (was_reused, was_first_try) =
                (conn.reused, left == self.set.retries.unwrap_or(be.retries));
            let outcome = self.exchange(client, conn, be, left > 0).await;
            self.w.live.off_server(self.sess.live);
            drop(slot);
            match outcome {
                Outcome::Finished(fate) => return fate,
                Outcome::Failed(why) => {
                    // an idle connection that the server closed in the same moment: nobody is at fault
                    let stale = was_reused
                        && was_first_try
                        && matches!(why, NoResponse::Empty)
                        && self.may_resend()
                        && self.req.method.is_idempotent();
                    if stale {
                        w.pools.clear(&w, self.info.server);
                    }
                    if left > 0 && self.retry_wanted(be, &why) && self.may_resend() {
                        left -= 1;
                        attempts.again = true;
                        self.count_retry();
                        if be.redispatch != 0 {
                            attempts.avoid = self.info.server.map(|s| s.index);
                            attempts.wanted = None;
                        }
                        continue;
                    }
                    if stale {
                        continue;
                    }
                    return self.give_up(client, why).await;
                }
            }
        }
    }

    /// One request over one connection.
    async fn exchange(
        &mut self,
        client: &mut Client,
        mut conn: Box<ServerConn>,
        be: &Proxy,
        may_retry: bool,
    ) -> Outcome {
        conn.requests += 1;
        self.upload(client, be);
        let (mut buf, mut up_done) =
            match self.response_head(client, &mut conn, be, may_retry).await {
                Ok(got) => got,
                Err(why) => {
                    // what was not sent yet may still be wanted by another attempt
                    if client.input.is_none() {
                        client.input = self.up.take_rest();
                    }
                    self.closing = Some(conn);
                    return Outcome::Failed(why);
                }
            };
        if self.res.framing == Framing::Tunnel {
            let fate = Box::pin(self.tunnel(client, &mut conn, buf)).await;
            self.closing = Some(conn);
            return Outcome::Finished(fate);
        }
        if matches!(self.res.status, 401 | 407) {
            self.note_authentication(&mut conn);
        }
        let (framing, keeps) = (self.res.framing, self.res.persistent());
        if self.looks_at_response() {
            self.req_body.ended |= self.up.is_complete();
            if self.w.model().global.looks_at_bodies {
                let there = buf.as_ref().map_or(&[][..], Buf::data);
                self.res_body.peek(BodyDecoder::new(framing), there);
            }
            let incoming = Incoming {
                conn: &mut conn,
                buf: &mut buf,
                up_done: &mut up_done,
            };
            if let Err(fate) = Box::pin(self.response_rules(client, incoming)).await {
                let data = buf.as_ref().map_or(&[][..], Buf::data);
                let whole = matches!(
                    BodyDecoder::new(framing).advance(data),
                    Ok(step) if step.done && step.consumed == data.len()
                );
                // nobody wants the response; its connection lives on when all of it is there
                let clean =
                    whole && keeps && up_done && self.up.is_complete() && !self.res_body.active;
                if client.input.is_none() {
                    client.input = self.up.take_rest();
                }
                self.part_with(client, conn, clean);
                return Outcome::Finished(fate);
            }
        }
        Outcome::Finished(self.relay_response(client, conn, up_done, buf).await)
    }

    /// Has the request ready to be sent.
    fn upload(&mut self, client: &mut Client, be: &Proxy) {
        let mut out = self.up.take_head();
        self.write_request(be, &mut out);
        let splice = if self.req.framing.has_body() {
            self.splice_choice(Options::SPLICE_REQUEST)
        } else {
            SpliceChoice::Never
        };
        // chunks that are made anew have no trailers
        let anew = self.req_body.active || be.options.contains(Options::HTTP_DROP_REQUEST_TRAILERS);
        let recode = (anew && self.req.framing == Framing::Chunked).then_some(Recode::Chunked);
        if self.req_body.active {
            match recode {
                Some(_) => {
                    encode_chunk(&self.req_body.payload, &mut out);
                    if self.req_body.ended {
                        out.extend_from_slice(sluice_http::LAST_CHUNK);
                    }
                }
                None => out.extend_from_slice(&self.req_body.payload),
            }
        }
        let input = if self.req_decoder.is_done() {
            None
        } else {
            client.input.take()
        };
        self.up.start(out, input, self.req_decoder.clone(), splice);
        if let Some(how) = recode {
            self.up.recode(how);
        }
        self.up.limit(self.bandwidth(true));
    }

    /// Whether the request can be sent once more as it was.
    fn may_resend(&self) -> bool {
        !self.set.no_l7_retry && (!self.req.framing.has_body() || self.req_body.ended)
    }

    /// Sends the request and reads until a final response head is complete. Gives what was read behind the head.
    async fn response_head(
        &mut self,
        client: &mut Client,
        conn: &mut ServerConn,
        be: &Proxy,
        may_retry: bool,
    ) -> Result<(Option<Buf>, bool), NoResponse> {
        let w = self.w.clone();
        let limits = head_limits(
            &w,
            be.options.contains(Options::ACCEPT_INVALID_HTTP_RESPONSE),
        );
        let mut scan = HeadScan::new();
        let mut buf: Option<Buf> = conn.input.take();
        let mut up_done = false;
        let (server_ms, client_ms) = (self.server_timeout_ms(), self.client_timeout_ms());
        let mut waiting_since = clock::now_us();
        let abort_on_close = be.options.contains(Options::ABORTONCLOSE);
        loop {
            let got = std::future::poll_fn(|cx| {
                if !up_done {
                    match self.up.poll(cx, &w, &mut client.io, &mut conn.io) {
                        Poll::Ready(End::Done) => {
                            up_done = true;
                            waiting_since = clock::now_us();
                        }
                        // the server may have answered before it stopped reading
                        Poll::Ready(End::SinkError(_)) => up_done = true,
                        Poll::Ready(End::SourceClosed | End::SourceError(_)) => {
                            client.read_closed = true;
                            return Poll::Ready(Err(NoResponse::ClientGone));
                        }
                        Poll::Ready(End::Bad(_)) => return Poll::Ready(Err(NoResponse::BadBody)),
                        Poll::Pending => {}
                    }
                }
                let mut b = match buf.take() {
                    Some(b) => b,
                    None => w.bufs.lend(),
                };
                b.make_room(w.model().global.tune.bufsize);
                match conn.io.poll_read(cx, b.room()) {
                    Poll::Ready(Ok(n)) => {
                        b.filled(n);
                        buf = Some(b);
                        return Poll::Ready(Ok(n));
                    }
                    Poll::Ready(Err(_)) => {
                        buf = Some(b);
                        return Poll::Ready(Ok(0));
                    }
                    Poll::Pending if !b.is_empty() => buf = Some(b),
                    Poll::Pending => {}
                }
                if up_done
                    && abort_on_close
                    && assign::client_gone(&client.io, &mut client.read_closed, cx)
                {
                    return Poll::Ready(Err(NoResponse::ClientGone));
                }
                let (deadline, fail): (Deadline, _) = if up_done {
                    (since(waiting_since, server_ms), NoResponse::Timeout)
                } else if self.up.awaits == Awaits::Source {
                    (
                        since(self.up.progress_us, client_ms),
                        NoResponse::ClientTimeout,
                    )
                } else {
                    (since(self.up.progress_us, server_ms), NoResponse::Timeout)
                };
                client.timer.poll(cx, deadline).map(|()| Err(fail))
            })
            .await?;
            if got == 0 {
                return Err(match &buf {
                    Some(b) if !b.is_empty() => NoResponse::Cut,
                    _ => NoResponse::Empty,
                });
            }
            while let Some(b) = &mut buf {
                match parse_response(b.data(), &mut scan, &limits, self.req.method, &mut self.res) {
                    Ok(Parsed::Partial) => {
                        conn.hurry_acks();
                        break;
                    }
                    Ok(Parsed::Complete { consumed }) => {
                        b.consume(consumed);
                        if self.res.is_interim() && self.res.status != 101 {
                            self.forward_interim(client)
                                .await
                                .map_err(|()| NoResponse::ClientGone)?;
                            conn.hurry_acks();
                            if b.is_empty() {
                                break;
                            }
                            continue;
                        }
                        let agreed = self.req.noticed.connection_upgrade
                            && self.res.noticed.connection_upgrade;
                        if self.res.status == 101 && !agreed {
                            // nobody asked for another protocol, or the server does not say that it changes
                            return Err(NoResponse::Junk);
                        }
                        let body = BodyDecoder::new(self.res.framing).advance(b.data());
                        let Ok(body) = body else {
                            return Err(NoResponse::Junk);
                        };
                        if self.breaks_websocket() {
                            return Err(NoResponse::Junk);
                        }
                        if !body.done {
                            conn.hurry_acks();
                        }
                        self.info.res_bytes_in = consumed as u64;
                        self.note_response();
                        let status = self.res.status;
                        if may_retry && retries_status(be.retry_on, status) && self.may_resend() {
                            return Err(NoResponse::Status(status));
                        }
                        return Ok((buf.filter(|b| !b.is_empty()), up_done));
                    }
                    Err(e) => {
                        crate::capture::remember_response(self, b.data(), e);
                        return Err(NoResponse::Junk);
                    }
                }
            }
        }
    }

    /// 100, 102, 103: passed on as they come (RFC 9110 section 15.2), but not to HTTP/1.0 clients.
    async fn forward_interim(&mut self, client: &mut Client) -> Result<(), ()> {
        if self.req.version < Version::HTTP_11 {
            return Ok(());
        }
        let mut out = Vec::new();
        self.write_response_head(&mut out);
        client
            .io
            .write_all(&out, &mut client.timer, self.client_timeout_ms())
            .await
            .map_err(|_| ())
    }

    /// Schemes that authenticate a connection rather than a request make it the client's own: nobody else may speak on
    /// it, and its next requests go there (`Negotiate` and `NTLM`, RFC 4559 section 6).
    fn note_authentication(&mut self, conn: &mut ServerConn) {
        let header: &[u8] = match self.res.status {
            401 => b"WWW-Authenticate",
            _ => b"Proxy-Authenticate",
        };
        let of_connection = self.res.headers.values(header).any(|value| {
            let scheme = value.split(|b| *b == b' ').next().unwrap_or_default();
            [&b"Nego"[..], b"Negotiate", b"Nego2", b"NTLM"]
                .iter()
                .any(|s| scheme.eq_ignore_ascii_case(s))
        });
        if of_connection {
            conn.private = true;
            self.sess.prefers_last = true;
        }
    }

    /// Whether [`Stream::response_rules`] has anything to do.
    fn looks_at_response(&self) -> bool {
        let be = self.backend();
        !be.http_response.is_empty()
            || !be.tcp_response_content.is_empty()
            || !self.frontend().http_response.is_empty()
            || be.cookie.is_some()
            || be.options.contains(Options::CHECKCACHE)
    }

    /// `http-response` rules: the backend's, then the frontend's. `Err`: the client was answered otherwise.
    async fn response_rules(
        &mut self,
        client: &mut Client,
        mut incoming: Incoming<'_>,
    ) -> Result<(), Fate> {
        let (fe, be) = (self.info.frontend, self.info.backend);
        let w = self.w.clone();
        if !w.model().proxy(be).tcp_response_content.is_empty() {
            self.response_content_rules(client, &mut incoming).await?;
        }
        let check = w.model().proxy(be).options.contains(Options::CHECKCACHE);
        if check && self.response_may_leak() {
            self.count_response_error();
            return Err(self.refuse_response(client).await);
        }
        self.cookies_in_response();
        for id in [Some(be), (fe != be).then_some(fe)].into_iter().flatten() {
            let rules = &w.model().proxy(id).http_response;
            let mut from = 0;
            while !rules.is_empty() {
                match self.run_rules(rules, from) {
                    Verdict::Later { what, next } => {
                        self.wait_with_response(what, client, &mut incoming).await?;
                        from = next;
                    }
                    Verdict::Next | Verdict::Accept => break,
                    verdict => return Err(self.obey_response(client, verdict).await),
                }
            }
        }
        Ok(())
    }

    /// `http-after-response` rules, on every response that goes to the client: the backend's, then the frontend's.
    pub fn after_response_rules(&mut self) {
        self.vars.get_mut().responding = true;
        let (fe, be) = (self.info.frontend, self.info.backend);
        let w = self.w.clone();
        for id in [Some(be), (fe != be).then_some(fe)].into_iter().flatten() {
            let rules = &w.model().proxy(id).http_after_response;
            if !rules.is_empty() {
                self.run_rules(rules, 0);
            }
        }
    }

    /// `option checkcache`: a response that caches would keep, with the cookie of one client.
    async fn refuse_response(&mut self, client: &mut Client) -> Fate {
        self.terminate(b'P', b'H');
        self.fe_state().fe.denied_resp.inc();
        self.be_state().be.denied_resp.inc();
        if let Some(server) = self.server_state() {
            server.counters.denied_resp.inc();
        }
        let local = self.error_response(502);
        self.answer(client, local).await
    }

    async fn obey_response(&mut self, client: &mut Client, verdict: Verdict) -> Fate {
        self.info.tsrv_ms = UNREACHED;
        let local = match verdict {
            Verdict::Deny(r) => {
                self.terminate(b'P', b'H');
                self.fe_state().fe.denied_resp.inc();
                self.be_state().be.denied_resp.inc();
                if let Some(server) = self.server_state() {
                    server.counters.denied_resp.inc();
                }
                self.reply_response(&r)
            }
            Verdict::Return(r) => {
                self.terminate(b'L', b'H');
                self.reply_response(&r)
            }
            Verdict::Redirect(r) => {
                self.terminate(b'L', b'H');
                match self.redirect_response(&r) {
                    Some(local) => local,
                    None => return Fate::Close,
                }
            }
            Verdict::Failed => {
                self.terminate(b'P', b'H');
                self.fe_state().fe.internal_errors.inc();
                self.error_response(500)
            }
            verdict => {
                self.terminate(b'P', b'H');
                return self.abort(client, verdict);
            }
        };
        self.answer(client, local).await
    }

    /// A 101 to a WebSocket handshake without the header that confirms it (RFC 6455 section 4.2.2); whether the value is
    /// right is for the client to see.
    fn breaks_websocket(&self) -> bool {
        self.res.status == 101
            && self.req.noticed.websocket
            && self.req.noticed.websocket_key
            && self.res.noticed.websocket
            && !self.res.headers.contains(b"Sec-WebSocket-Accept")
    }

    /// Whether the configuration wants another attempt after this.
    fn retry_wanted(&self, be: &Proxy, why: &NoResponse) -> bool {
        let on = be.retry_on;
        match why {
            NoResponse::Empty | NoResponse::Cut => on.contains(RetryOn::EMPTY_RESPONSE),
            NoResponse::Junk => on.contains(RetryOn::JUNK_RESPONSE),
            NoResponse::Timeout => on.contains(RetryOn::RESPONSE_TIMEOUT),
            NoResponse::Status(_) => true,
            NoResponse::ClientGone | NoResponse::ClientTimeout | NoResponse::BadBody => false,
        }
    }

    /// No attempt is left: answers the client for what went wrong.
    async fn give_up(&mut self, client: &mut Client, why: NoResponse) -> Fate {
        self.tick();
        self.has_res = false;
        let (status, cause, phase) = match why {
            NoResponse::Empty | NoResponse::Cut => {
                self.observe(Seen::Closed);
                self.count_response_error();
                // the client of a kept connection may repeat the request itself: a silent close tells it so
                if self.sess.client.requests > 0 {
                    self.terminate(b'S', b'H');
                    self.info.log_level = Some(None);
                    return Fate::Close;
                }
                (502, b'S', b'H')
            }
            NoResponse::Junk => {
                self.observe(Seen::BadResponse);
                self.count_response_error();
                (502, b'P', b'H')
            }
            NoResponse::Timeout => {
                self.observe(Seen::Timeout);
                self.count_response_error();
                (504, b's', b'H')
            }
            NoResponse::Status(status) => (status, b'S', b'H'),
            NoResponse::ClientGone => {
                self.count_abort(true);
                // in the middle of its own body: it is not going to read an answer
                let sent = self.req_body.ended || self.up.is_complete();
                // nor is one whose connection is reset
                if (self.req.framing.has_body() && !sent) || client.io.is_reset() {
                    self.terminate(b'C', b'D');
                    return Fate::Close;
                }
                (400, b'C', b'H')
            }
            NoResponse::ClientTimeout => (408, b'c', b'D'),
            NoResponse::BadBody => {
                self.count_bad_request();
                (400, b'P', b'H')
            }
        };
        self.terminate(cause, phase);
        let local = self.error_response(status);
        let fate = if matches!(
            why,
            NoResponse::Timeout
                | NoResponse::Junk
                | NoResponse::Empty
                | NoResponse::Cut
                | NoResponse::Status(_)
        ) && !self.req.framing.has_body()
        {
            Fate::KeepAlive
        } else {
            Fate::Close
        };
        self.answer_and(client, local, fate).await
    }
}

fn retries_status(on: RetryOn, status: u16) -> bool {
    let flag = match status {
        401 => RetryOn::S401,
        403 => RetryOn::S403,
        404 => RetryOn::S404,
        408 => RetryOn::S408,
        421 => RetryOn::S421,
        425 => RetryOn::S425,
        429 => RetryOn::S429,
        500 => RetryOn::S500,
        501 => RetryOn::S501,
        502 => RetryOn::S502,
        503 => RetryOn::S503,
        504 => RetryOn::S504,
        _ => return false,
    };
    on.contains(flag)
}
