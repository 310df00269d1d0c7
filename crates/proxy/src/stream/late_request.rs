//! The rest of a request whose response came first: it still goes to the server, or nowhere when the server left, so
//! that the client's connection can carry another request.

use std::task::{Context, Poll, ready};

use sluice_http::Framing;

use super::Stream;
use super::body::{Awaits, End};
use super::http::Fate;
use crate::backend::ServerConn;
use crate::clock;
use crate::net::since;
use crate::session::Client;

/// How the wait for the request's end went on.
enum Rest {
    /// The server has all of it.
    Sent,
    /// The server left or takes no more: closed, or with an error.
    Refused {
        failed: bool,
    },
    ClientGone,
    Bad,
    TimedOut(Awaits),
}

impl Stream {
    /// Waits until the request has ended, after its response was sent. Gives what becomes of the client's connection
    /// (`fate` at best) and whether the server has seen the whole request.
    pub async fn rest_of_request(
        &mut self,
        client: &mut Client,
        conn: &mut ServerConn,
        fate: Fate,
    ) -> (Fate, bool) {
        if self.res.framing == Framing::UntilClose {
            // only the end of the connection ends such a response
            client.io.shutdown_write();
        }
        let mut rest = self.send_rest(client, conn).await;
        if let Rest::Refused { failed } = rest {
            if failed {
                self.terminate(b'S', b'D');
            }
            rest = self.drop_rest(client).await;
        } else if matches!(rest, Rest::Sent) {
            return (fate, true);
        }
        let (cause, fate) = match rest {
            Rest::Sent | Rest::Refused { .. } => return (fate, false),
            Rest::ClientGone => {
                self.count_abort(true);
                (b'C', Fate::Close)
            }
            Rest::Bad => {
                self.count_bad_request();
                (b'P', Fate::Linger)
            }
            Rest::TimedOut(Awaits::Source) => (b'c', Fate::Close),
            Rest::TimedOut(Awaits::Sink) => (b's', Fate::Linger),
        };
        self.terminate(cause, b'D');
        (fate, false)
    }

    /// Sends on while the server neither closes nor says anything else.
    async fn send_rest(&mut self, client: &mut Client, conn: &mut ServerConn) -> Rest {
        let w = self.w.clone();
        let (server_ms, client_ms) = (self.server_timeout_ms(), self.client_timeout_ms());
        self.up.progress_us = clock::now_us();
        let mut spoke = false;
        std::future::poll_fn(|cx| {
            if let Poll::Ready(end) = self.up.poll(cx, &w, &mut client.io, &mut conn.io) {
                return Poll::Ready(match end {
                    End::Done => Rest::Sent,
                    End::SinkError(_) => Rest::Refused { failed: true },
                    End::SourceClosed | End::SourceError(_) => Rest::ClientGone,
                    End::Bad(_) => Rest::Bad,
                });
            }
            if !spoke {
                let mut buf = w.bufs.lend();
                match conn.io.poll_read(cx, buf.room()) {
                    Poll::Ready(Ok(0)) => return Poll::Ready(Rest::Refused { failed: false }),
                    Poll::Ready(Err(_)) => return Poll::Ready(Rest::Refused { failed: true }),
                    Poll::Ready(Ok(n)) => {
                        // nobody asked: the connection is not going to be kept
                        buf.filled(n);
                        conn.input = Some(buf);
                        spoke = true;
                    }
                    Poll::Pending => {}
                }
            }
            let awaits = self.up.awaits;
            let ms = match awaits {
                Awaits::Source => client_ms,
                Awaits::Sink => server_ms,
            };
            let deadline = since(self.up.progress_us, ms);
            let timer = client.timer.poll(cx, deadline);
            timer.map(|()| Rest::TimedOut(awaits))
        })
        .await
    }

    /// Reads to the end of the request and forgets it.
    async fn drop_rest(&mut self, client: &mut Client) -> Rest {
        let w = self.w.clone();
        let client_ms = self.client_timeout_ms();
        let mut decoder = self.up.give_up_sending();
        client.input = self.up.take_rest();
        let mut read_us = clock::now_us();
        std::future::poll_fn(|cx: &mut Context<'_>| {
            loop {
                if let Some(mut buf) = client.input.take() {
                    let Ok(step) = decoder.advance(buf.data()) else {
                        return Poll::Ready(Rest::Bad);
                    };
                    self.info.bytes_in += step.consumed as u64;
                    buf.consume(step.consumed);
                    client.input = Some(buf).filter(|b| !b.is_empty());
                }
                if decoder.is_done() {
                    return Poll::Ready(Rest::Sent);
                }
                let mut buf = w.bufs.lend();
                match client.io.poll_read(cx, buf.room()) {
                    Poll::Ready(Ok(n)) if n > 0 => {
                        buf.filled(n);
                        client.input = Some(buf);
                        read_us = clock::now_us();
                    }
                    Poll::Ready(_) => return Poll::Ready(Rest::ClientGone),
                    Poll::Pending => {
                        ready!(client.timer.poll(cx, since(read_us, client_ms)));
                        return Poll::Ready(Rest::TimedOut(Awaits::Source));
                    }
                }
            }
        })
        .await
    }
}
