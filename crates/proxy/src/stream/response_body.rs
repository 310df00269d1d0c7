//! A response's body held in memory, because rules want to see it (`http-response wait-for-body`).
//!
//! The request's body goes on to the server meanwhile. What is held leaves with the head, the rest is relayed as ever.

use sluice_http::{BodyDecoder, LAST_CHUNK, encode_chunk};

use super::body::Recode;
use super::hold::Held;
use super::http::Fate;
use super::rules::Later;
use super::{HeldBody, Stream};
use crate::backend::ServerConn;
use crate::net::{Buf, after_ms};
use crate::session::Client;

/// A response that comes: the connection it comes from, what was read of it, and whether the request is all sent.
pub struct Incoming<'a> {
    pub conn: &'a mut ServerConn,
    pub buf: &'a mut Option<Buf>,
    pub up_done: &'a mut bool,
}

impl Stream {
    /// Waits as a response rule wants it. `Err`: the response was answered with an error instead.
    pub async fn wait_with_response(
        &mut self,
        what: Later,
        client: &mut Client,
        incoming: &mut Incoming<'_>,
    ) -> Result<(), Fate> {
        match what {
            Later::PauseMs(ms) => client.timer.until(after_ms(Some(ms))).await,
            Later::Body { time_ms, at_least } => {
                let held = self.hold_response_body(client, incoming, time_ms, at_least);
                match held.await {
                    Held::Enough | Held::Closed => {}
                    Held::Timeout => {
                        self.count_response_error();
                        self.info.tsrv_ms = sluice_expr::env::UNREACHED;
                        return Err(self.deny_with(client, 504, b's').await);
                    }
                    Held::Bad => {
                        self.count_response_error();
                        self.terminate(b'P', b'H');
                        let local = self.error_response(502);
                        return Err(self.answer(client, local).await);
                    }
                }
            }
            Later::EarlyHint(_) => {}
        }
        self.tick();
        Ok(())
    }

    /// Reads the body until it is complete, `at_least` bytes are there or a buffer's worth is. A server that closes early
    /// leaves what it has sent, and the relay finds out.
    async fn hold_response_body(
        &mut self,
        client: &mut Client,
        incoming: &mut Incoming<'_>,
        time_ms: u64,
        at_least: u64,
    ) -> Held {
        if !self.res_body.active {
            self.res_body.hold();
            self.res_decoder = BodyDecoder::new(self.res.framing);
        }
        let w = self.w.clone();
        let most = w.model().global.tune.bufsize;
        let deadline = after_ms(Some(time_ms));
        loop {
            if let Some(mut buf) = incoming.buf.take() {
                let payload = &mut self.res_body.payload;
                let mut keep = |d: &[u8]| payload.extend_from_slice(d);
                let Ok(step) = self.res_decoder.decode(buf.data(), &mut keep) else {
                    return Held::Bad;
                };
                buf.consume(step.consumed);
                *incoming.buf = Some(buf).filter(|b| !b.is_empty());
            }
            let HeldBody {
                payload,
                ended,
                complete,
                ..
            } = &mut self.res_body;
            *ended = self.res_decoder.is_done();
            *complete = *ended || payload.len() >= most;
            if *complete || payload.len() as u64 >= at_least {
                return Held::Enough;
            }
            let mut buf = w.bufs.lend();
            let (conn, up_done) = (&mut *incoming.conn, &mut *incoming.up_done);
            let up = &mut self.up;
            let read = std::future::poll_fn(|cx| {
                if !*up_done {
                    // how it ended, if badly, is found out again when the response is relayed
                    *up_done = up.poll(cx, &w, &mut client.io, &mut conn.io).is_ready();
                }
                match conn.io.poll_read(cx, buf.room()) {
                    std::task::Poll::Pending => client.timer.poll(cx, deadline).map(|()| None),
                    ready => ready.map(|read| Some(read.unwrap_or(0))),
                }
            });
            match read.await {
                None => return Held::Timeout,
                Some(0) => {
                    self.res_body.complete = true;
                    return Held::Closed;
                }
                Some(n) => {
                    buf.filled(n);
                    *incoming.buf = Some(buf);
                }
            }
        }
    }

    /// Puts what is held behind the head in `out`, and says where the relay takes over and in which framing.
    pub fn send_held_response(
        &self,
        recode: Option<Recode>,
        out: &mut Vec<u8>,
    ) -> (BodyDecoder, Option<Recode>) {
        let framing = self.res.framing;
        if !self.res_body.active {
            return (BodyDecoder::new(framing), recode);
        }
        let payload = &self.res_body.payload;
        let recode = match framing {
            sluice_http::Framing::Chunked => recode.or(Some(Recode::Chunked)),
            _ => recode,
        };
        match recode {
            Some(Recode::Chunked) => {
                encode_chunk(payload, out);
                if self.res_body.ended {
                    out.extend_from_slice(LAST_CHUNK);
                }
            }
            _ => out.extend_from_slice(payload),
        }
        (self.res_decoder.clone(), recode)
    }
}
