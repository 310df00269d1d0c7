//! HTTP/1 on the client's side: a connection's requests one after the other, each a stream.
//!
//! ```text
//! idle --first bytes--> head --complete--> rules, server, response --keep-alive--> idle
//!   |                    |                        |
//!   +--close, timeout----+--bad, timeout: 4xx-----+--close, error--> end
//! ```

use std::rc::Rc;

use sluice_config::model::{ConnMode, Options, Proxy};
use sluice_http::{
    BodyDecoder, ErrorKind, Framing, HeadScan, Limits, Method, ParseError, Parsed, Version,
    parse_request,
};

use super::Stream;
use super::reply::Local;
use super::runner::{self, Job};
use crate::admission::Admission;
use crate::clock;
use crate::net::{Buf, Fail, after_ms, earlier};
use crate::session::{Client, Listener, SessionData};
use crate::worker::Worker;

/// What becomes of the client's connection after a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    KeepAlive,
    Close,
    /// Close, but let the client read the answer first although it may still be sending.
    Linger,
    /// Close with a reset (`reject`, `silent-drop`, aborted body).
    Abort,
}

/// Serves one client connection.
pub async fn serve(
    w: &Rc<Worker>,
    l: &Rc<Listener>,
    mut client: Box<Client>,
    mut sess: Box<SessionData>,
) {
    sess.client.http_major = 1;
    let mut first = true;
    loop {
        if !wait_for_bytes(w, &l.proxy, &mut client, &mut sess, first).await {
            if first {
                Box::pin(ended_before_request(w, l, &mut client, sess)).await;
            }
            return;
        }
        let job = Job {
            l: l.clone(),
            client,
            sess,
            first,
        };
        let done = runner::carry(w, job).await;
        (client, sess) = (done.client, done.sess);
        match done.fate {
            Fate::KeepAlive if !w.is_stopping() || client.input.is_some() || w.lingers() => {}
            Fate::Abort => return client.io.reset_on_close(),
            Fate::Linger => return Box::pin(linger(w, &mut client, &l.proxy)).await,
            _ if l.proxy.options.contains(Options::NOLINGER) => return client.io.reset_on_close(),
            _ => return,
        }
        sess.client.requests += 1;
        first = false;
    }
}

/// Waits until the client sends something. False: it closed, took too long, or we are stopping.
async fn wait_for_bytes(
    w: &Rc<Worker>,
    p: &Proxy,
    client: &mut Client,
    sess: &mut SessionData,
    first: bool,
) -> bool {
    if client.input.as_ref().is_some_and(|b| !b.is_empty()) {
        return true;
    }
    client.input = None;
    if client.read_closed {
        return false;
    }
    let t = &p.timeouts;
    let timeout_ms = if first {
        t.http_request_ms.or(t.client_ms)
    } else {
        t.http_keep_alive_ms.or(t.http_request_ms).or(t.client_ms)
    };
    let deadline = after_ms(timeout_ms);
    let stays = p.options.contains(Options::IDLE_CLOSE_ON_RESPONSE);
    let mut leave = None;
    let mut ticket = None;
    let read = std::future::poll_fn(|cx| {
        use std::task::Poll;
        if Admission::concerns(w.sessions.get())
            && client.io.poll_read_ready(cx).is_ready()
            && w.admission.poll(cx, &mut ticket).is_pending()
        {
            return Poll::Pending;
        }
        let mut buf = w.bufs.lend();
        match client.io.poll_read(cx, buf.room()) {
            Poll::Ready(Ok(0)) => {
                Poll::Ready(Err(Fail::Io(std::io::ErrorKind::UnexpectedEof.into())))
            }
            Poll::Ready(Ok(n)) => {
                buf.filled(n);
                Poll::Ready(Ok(buf))
            }
            Poll::Ready(Err(e)) => Poll::Ready(Err(Fail::Io(e))),
            Poll::Pending => {
                if w.is_stopping() && !first && !stays {
                    let at = *leave.get_or_insert_with(|| w.leave_at());
                    if at.is_none_or(|at| at <= clock::now_us()) {
                        // closing would reset a request that is there but not heard of yet: its event is on the way
                        return match crate::sys::peek(&client.io, &mut [0]) {
                            Ok(1..) => Poll::Pending,
                            _ => Poll::Ready(Err(Fail::Io(std::io::ErrorKind::Interrupted.into()))),
                        };
                    }
                    return client
                        .timer
                        .poll(cx, earlier(deadline, at))
                        .map(|()| Err(Fail::Io(std::io::ErrorKind::Interrupted.into())));
                }
                if client.idle.is_none() && !first {
                    client.idle = Some(w.enter_idle(cx.waker()));
                }
                client.timer.poll(cx, deadline).map(|()| Err(Fail::Timeout))
            }
        }
    })
    .await;
    match read {
        Ok(buf) => {
            client.input = Some(buf);
            true
        }
        Err(fail) => {
            client.read_closed = matches!(fail, Fail::Io(_));
            sess.client.err = if matches!(fail, Fail::Timeout) {
                ERR_TIMEOUT
            } else {
                0
            };
            false
        }
    }
}

/// Marks a session whose first request never came in time.
const ERR_TIMEOUT: u16 = 0xffff;

/// The client said nothing at all: a timeout gets its 408, an end its 400, and it is logged unless `dontlognull`.
async fn ended_before_request(
    w: &Rc<Worker>,
    l: &Listener,
    client: &mut Client,
    mut sess: Box<SessionData>,
) {
    let timed_out = std::mem::take(&mut sess.client.err) == ERR_TIMEOUT;
    let mut s = w.lend_stream();
    s.begin(l, sess);
    s.start_us = s.sess.accept_mono_us;
    s.info.request_us = s.info.accept_us;
    let quiet = l
        .proxy
        .options
        .intersects(Options::DONTLOGNULL | Options::HTTP_IGNORE_PROBES);
    if timed_out {
        if !l.proxy.options.contains(Options::HTTP_IGNORE_PROBES) {
            s.count_bad_request();
            refuse(&mut s, client, 408).await;
        }
        s.info.status = 408;
        s.terminate(b'c', b'R');
    } else {
        if !quiet {
            s.count_bad_request();
        }
        if !l.proxy.options.contains(Options::HTTP_IGNORE_PROBES) {
            // it may only have closed its direction
            refuse(&mut s, client, 400).await;
        }
        s.info.status = 400;
        s.terminate(b'C', b'R');
    }
    s.finish(!quiet);
    w.return_stream(s);
}

/// Reads one request and runs its stream.
pub async fn one_stream(
    w: &Rc<Worker>,
    l: &Listener,
    client: &mut Client,
    sess: Box<SessionData>,
    first: bool,
) -> (Box<SessionData>, Fate) {
    let mut s = w.lend_stream();
    s.begin(l, sess);
    s.start_request(first);
    let fate = match read_head(&mut s, l, client).await {
        Ok(()) => {
            s.log_connect(&l.proxy);
            s.run_http(client).await
        }
        Err(fate) => fate,
    };
    s.finish(true);
    (w.return_stream(s), fate)
}

/// Reads until the head is complete. `Err`: the request ended here and was answered.
async fn read_head(s: &mut Stream, l: &Listener, client: &mut Client) -> Result<(), Fate> {
    let w = s.w.clone();
    let limits = head_limits(
        &w,
        l.proxy
            .options
            .contains(Options::ACCEPT_INVALID_HTTP_REQUEST),
    );
    let mut scan = HeadScan::new();
    let Some(mut buf) = client.input.take() else {
        return Err(Fate::Close);
    };
    let mut deadline = None;
    loop {
        match parse_request(buf.data(), &mut scan, &limits, &mut s.req) {
            Ok(Parsed::Complete { consumed }) => {
                buf.consume(consumed);
                // broken framing right behind the head condemns the whole request
                if s.req.framing == Framing::Chunked
                    && BodyDecoder::new(Framing::Chunked)
                        .advance(buf.data())
                        .is_err()
                {
                    let fault = ParseError {
                        kind: ErrorKind::Chunk,
                        at: consumed,
                    };
                    return Err(bad_request(s, client, buf, fault).await);
                }
                s.info.bytes_in += consumed as u64;
                if !buf.is_empty() {
                    client.input = Some(buf);
                }
                s.has_req = true;
                s.is_http = true;
                return Ok(());
            }
            Ok(Parsed::Partial) => {}
            Err(e) => return Err(bad_request(s, client, buf, e).await),
        }
        let deadline = *deadline.get_or_insert_with(|| {
            let t = &l.proxy.timeouts;
            after_ms(t.http_request_ms.or(t.client_ms))
        });
        let most = w.model().global.tune.bufsize;
        match more(&mut buf, most, client, deadline).await {
            Ok(true) => {}
            // closed or broken in the middle of a head
            Ok(false) => {
                s.count_bad_request();
                s.tick();
                s.terminate(b'C', b'R');
                return Err(refuse(s, client, 400).await);
            }
            Err(()) => {
                s.count_bad_request();
                s.tick();
                s.terminate(b'c', b'R');
                return Err(refuse(s, client, 408).await);
            }
        }
    }
}

/// Reads more bytes behind those in `buf`, which may grow to `most`. `Ok(false)`: closed; `Err`: the time is up.
async fn more(
    buf: &mut Buf,
    most: usize,
    client: &mut Client,
    deadline: crate::net::Deadline,
) -> Result<bool, ()> {
    let n = std::future::poll_fn(|cx| {
        buf.make_room(most);
        match client.io.poll_read(cx, buf.room()) {
            std::task::Poll::Pending => {
                buf.shrink();
                client.timer.poll(cx, deadline).map(|()| Err(()))
            }
            ready => ready.map(|r| Ok(r.unwrap_or(0))),
        }
    })
    .await?;
    buf.filled(n);
    client.read_closed |= n == 0;
    Ok(n > 0)
}

async fn bad_request(s: &mut Stream, client: &mut Client, buf: Buf, e: ParseError) -> Fate {
    s.tick();
    s.count_bad_request();
    s.terminate(b'P', b'R');
    crate::capture::remember_request(s.info.frontend, &s.sess.client, buf.data(), e);
    refuse(s, client, e.status()).await
}

/// Answers a request that never became one. The log counts no bytes, as no stream carried them.
async fn refuse(s: &mut Stream, client: &mut Client, status: u16) -> Fate {
    let local = s.error_response(status);
    // nor have rules a say, nor has it an id
    s.unborn = true;
    s.making_id.set(true);
    let fate = s.answer_and(client, local, Fate::Close).await;
    s.info.bytes_out = 0;
    fate
}

/// The limits a head must keep, a request's or a response's.
pub fn head_limits(w: &Worker, accept_invalid: bool) -> Limits {
    let g = &w.model().global;
    Limits {
        head_max: g.tune.bufsize - g.tune.maxrewrite.min(g.tune.bufsize / 2),
        headers_max: g.tune.http_maxhdr,
        accept_invalid,
        payload_any_method: g.h1_accept_payload_with_any_method,
    }
}

/// Lets the client read the last answer: closes our direction and drops what still comes for a moment, because closing
/// with unread bytes would reset the connection under the answer.
async fn linger(w: &Rc<Worker>, client: &mut Client, p: &Proxy) {
    if p.options.contains(Options::NOLINGER) {
        return client.io.reset_on_close();
    }
    client.io.shutdown_write();
    if client.read_closed {
        return;
    }
    const LINGER_MS: u64 = 2000;
    const LINGER_READS: usize = 64;
    let deadline = after_ms(Some(LINGER_MS));
    for _ in 0..LINGER_READS {
        match client.io.read(&w.bufs, &mut client.timer, deadline).await {
            Ok(Some(_)) => {}
            _ => return,
        }
    }
}

impl Stream {
    /// Runs after-response rules, writes a response of our own, and says what becomes of the connection.
    pub async fn answer(&mut self, client: &mut Client, local: Local) -> Fate {
        self.answer_and(client, local, Fate::KeepAlive).await
    }

    /// As [`Stream::answer`], with the connection ending at least as `fate` says.
    pub async fn answer_and(&mut self, client: &mut Client, local: Local, fate: Fate) -> Fate {
        if local.silent {
            self.info.status = local.status.map_or(-1, i32::from);
            return Fate::Close;
        }
        self.tick();
        self.use_up_request(client);
        let close = fate != Fate::KeepAlive || local.close || !self.client_keeps_alive(client);
        let head_only = self.has_req && self.req.method == Method::Head;
        if !self.unborn {
            self.after_response_rules();
            if self.res.status != 204 {
                self.restore_response_framing(self.res.framing);
            }
        }
        self.res.headers.remove("Connection");
        // what follows the answer to a CONNECT is no HTTP that could say more
        let tunnel = self.has_req && self.req.method == Method::Connect;
        if !tunnel || !(200..300).contains(&self.res.status) {
            self.mark_connection(close);
        }
        self.info.status = local.status.unwrap_or(self.res.status).into();
        let mut out = std::mem::take(&mut self.out);
        out.clear();
        self.write_response_head(&mut out);
        let body: &[u8] = if head_only { b"" } else { &local.body };
        let sent = client
            .io
            .write_two(&out, body, &mut client.timer, self.client_timeout_ms())
            .await;
        self.info.bytes_out += (out.len() + body.len()) as u64;
        self.out = out;
        match sent {
            Ok(()) if !close => Fate::KeepAlive,
            Ok(()) if self.has_req && self.request_is_used_up() && client.input.is_none() => {
                Fate::Close
            }
            Ok(()) => Fate::Linger,
            Err(_) => Fate::Abort,
        }
    }

    /// Takes what is already there of the request's body off the connection: nobody is going to read it.
    fn use_up_request(&mut self, client: &mut Client) {
        if self.request_is_used_up() {
            return;
        }
        if let Some(mut buf) = client.input.take() {
            if let Ok(step) = self.req_decoder.advance(buf.data()) {
                buf.consume(step.consumed);
                self.req_body.ended = step.done;
            }
            client.input = Some(buf).filter(|b| !b.is_empty());
        }
    }

    /// Whether the request's body has been read whole (or there is none), so that another request may follow.
    fn request_is_used_up(&self) -> bool {
        !self.req.framing.has_body() || self.req_body.ended
    }

    /// Whether the client's connection may carry another request, from what is known now.
    pub fn client_keeps_alive(&self, client: &Client) -> bool {
        self.has_req
            && self.req.persistent()
            && !self.req.noticed.doubtful_framing
            && !client.must_close
            && self.request_is_used_up()
            && self.frontend().conn_mode != ConnMode::Close
            && !self.w.is_stopping()
    }

    /// How connections to servers end: the stricter of frontend and backend. Those of clients heed the frontend alone.
    pub fn server_mode(&self) -> ConnMode {
        match (self.frontend().conn_mode, self.backend().conn_mode) {
            (ConnMode::Close, _) | (_, ConnMode::Close) => ConnMode::Close,
            (ConnMode::ServerClose, _) | (_, ConnMode::ServerClose) => ConnMode::ServerClose,
            _ => ConnMode::KeepAlive,
        }
    }

    /// Says in the response what becomes of the connection, where the version's default does not.
    pub fn mark_connection(&mut self, close: bool) {
        let old_client = self.has_req && self.req.version < Version::HTTP_11;
        let old_response = self.res.version < Version::HTTP_11;
        if close {
            // closing is what HTTP/1.0 means anyway
            if !old_response || self.res.framing == Framing::Chunked {
                self.res.headers.add("Connection", "close");
            }
        } else if old_client || old_response {
            self.res.headers.add("Connection", "keep-alive");
        }
    }

    /// Counts a request that could not be read.
    pub fn count_bad_request(&mut self) {
        let fe = &self.fe_state().fe;
        fe.failed_req.inc();
        fe.req_total.inc();
        fe.h1_req.inc();
        self.tick();
        fe_rate(self);
    }
}

fn fe_rate(s: &Stream) {
    s.fe_state().fe.req_rate.hit(clock::now_us() / 1000);
}
