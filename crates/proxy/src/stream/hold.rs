//! Holding a request's body in memory, for rules that want to see it and for another attempt.

use super::Stream;
use crate::net::Deadline;
use crate::session::Client;

/// Keeps the request's body for another attempt when all of it came together with the head; otherwise it cannot be
/// repeated, as in HAProxy.
pub fn hold_what_is_there(s: &mut Stream, client: &mut Client) {
    if s.req_body.active || !s.req.framing.has_body() {
        return;
    }
    let Some(buf) = &mut client.input else { return };
    let most = s.w.model().global.tune.bufsize;
    if !matches!(s.req_decoder.clone().advance(buf.data()), Ok(step) if step.done && step.consumed <= most)
    {
        return;
    }
    s.req_body.hold();
    let payload = &mut s.req_body.payload;
    let step = s
        .req_decoder
        .decode(buf.data(), &mut |d: &[u8]| payload.extend_from_slice(d));
    let Ok(step) = step else { return };
    buf.consume(step.consumed);
    if buf.is_empty() {
        client.input = None;
    }
    (s.req_body.active, s.req_body.complete, s.req_body.ended) = (true, true, true);
}

/// How holding a body ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Held {
    /// As much as was asked for, all of it, or a full buffer.
    Enough,
    Timeout,
    Closed,
    Bad,
}

/// Reads the request's body into `Stream::req_body` until it is complete, `at_least` bytes are there, or a buffer's
/// worth (`tune.bufsize`).
pub async fn hold(s: &mut Stream, client: &mut Client, deadline: Deadline, at_least: u64) -> Held {
    let w = s.w.clone();
    let most = w.model().global.tune.bufsize;
    loop {
        if let Some(mut buf) = client.input.take() {
            let payload = &mut s.req_body.payload;
            let step = match s
                .req_decoder
                .decode(buf.data(), &mut |d: &[u8]| payload.extend_from_slice(d))
            {
                Ok(step) => step,
                Err(_) => return Held::Bad,
            };
            s.info.bytes_in += step.consumed as u64;
            buf.consume(step.consumed);
            if !buf.is_empty() {
                client.input = Some(buf);
            }
        }
        let held = s.req_body.payload.len();
        s.req_body.ended = s.req_decoder.is_done();
        s.req_body.complete = s.req_body.ended || held >= most;
        if s.req_body.complete || held as u64 >= at_least {
            return Held::Enough;
        }
        match client.io.read(&w.bufs, &mut client.timer, deadline).await {
            Ok(Some(buf)) => client.input = Some(buf),
            Ok(None) => {
                client.read_closed = true;
                return Held::Closed;
            }
            Err(crate::net::Fail::Timeout) => return Held::Timeout,
            Err(crate::net::Fail::Io(_)) => {
                client.read_closed = true;
                return Held::Closed;
            }
        }
    }
}
