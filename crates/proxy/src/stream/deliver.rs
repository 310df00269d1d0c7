//! The response on its way to the client: head and body relayed with the rest of the request, tunnels, and what becomes of
//! the server connection and of the client's.

use std::task::Poll;

use sluice_config::model::{ConnMode, HttpReuse, Options};
use sluice_http::{BodyDecoder, Framing, Version};

use super::Stream;
use super::body::{Awaits, End, Recode, SpliceChoice};
use super::http::Fate;
use crate::backend::ServerConn;
use crate::net::{Buf, since};
use crate::session::Client;

impl Stream {
    /// Sends the response's head and body, and the rest of the request meanwhile.
    pub async fn relay_response(
        &mut self,
        client: &mut Client,
        mut conn: Box<ServerConn>,
        mut up_done: bool,
        buf: Option<Buf>,
    ) -> Fate {
        let w = self.w.clone();
        let framing = self.res.framing;
        let client_is_11 = self.req.version >= Version::HTTP_11;
        let recode = match framing {
            Framing::Chunked if !client_is_11 => Some(Recode::Strip),
            Framing::Chunked if self.drops_trailers() => Some(Recode::Chunked),
            _ => None,
        };
        let delimited = framing.is_delimited() && recode != Some(Recode::Strip);
        // a request that rules made something else of a HEAD: its client takes no body
        let head_only = framing.has_body() && self.info.first_line.starts_with(b"HEAD ");
        let server_keeps = framing.is_delimited()
            && !head_only
            && self.res.persistent()
            && self.server_mode() == ConnMode::KeepAlive;
        // a refused CONNECT has no body after all
        let refused = self.req.framing == Framing::Tunnel;
        up_done |= refused;
        let close = !delimited
            || !self.req.persistent()
            || self.req.noticed.doubtful_framing
            || self.res.noticed.doubtful_framing && self.res.version < Version::HTTP_11
            || self.frontend().conn_mode == ConnMode::Close
            || client.must_close
            || w.closes_now();
        self.finish_response_head(recode, close);
        self.after_response_rules();
        self.restore_response_framing(match recode {
            Some(Recode::Strip) => Framing::UntilClose,
            _ => framing,
        });
        let mut head = self.down.take_head();
        self.write_response_head(&mut head);
        self.info.status = self.res.status.into();
        self.sent_head();
        let splice = if framing.has_body() {
            self.splice_choice(Options::SPLICE_RESPONSE)
        } else {
            SpliceChoice::Never
        };
        let (decoder, recode) = match head_only {
            true => (BodyDecoder::new(Framing::None), None),
            false => self.send_held_response(recode, &mut head),
        };
        self.down.start(head, buf, decoder, splice);
        if let Some(how) = recode {
            self.down.recode(how);
        }
        self.down.limit(self.bandwidth(false));
        let (server_ms, client_ms) = (self.server_timeout_ms(), self.client_timeout_ms());
        let contstats = self.frontend().options.contains(Options::CONTSTATS);
        let before = (self.info.bytes_in, self.info.bytes_out);
        let end = std::future::poll_fn(|cx| {
            if !up_done {
                // how it ended, if badly, is found out again when the response is through
                up_done = self
                    .up
                    .poll(cx, &w, &mut client.io, &mut conn.io)
                    .is_ready();
            }
            if let Poll::Ready(end) = self.down.poll(cx, &w, &mut conn.io, &mut client.io) {
                return Poll::Ready(Ok(end));
            }
            if contstats {
                self.count_flow(
                    before.0 + self.up.body_written(),
                    before.1 + self.down.written,
                );
            }
            let ms = if self.down.awaits == Awaits::Source {
                server_ms
            } else {
                client_ms
            };
            let moved_us = if up_done {
                self.down.progress_us
            } else {
                self.down.progress_us.max(self.up.progress_us)
            };
            client
                .timer
                .poll(cx, since(moved_us, ms))
                .map(|()| Err(self.down.awaits))
        })
        .await;
        self.tick();
        let mut fate = self.body_ended(&end, close);
        let good = matches!(end, Ok(End::Done));
        let mut used_up = refused || self.up.is_complete();
        if good && !used_up && self.req.framing.has_body() {
            (fate, used_up) = Box::pin(self.rest_of_request(client, &mut conn, fate)).await;
            self.tick();
        }
        self.info.bytes_out += self.down.written;
        self.info.bytes_in += self.up.body_written();
        self.info.req_bytes_out += self.up.written;
        self.info.res_bytes_in += self.down.body_written();
        if client.input.is_none() {
            client.input = self.up.take_rest();
        }
        let clean = good
            && server_keeps
            && used_up
            && conn.input.is_none()
            && self.down.take_rest().is_none();
        self.part_with(client, conn, clean);
        fate
    }

    /// `option http-drop-response-trailers`: chunks are made anew, without.
    fn drops_trailers(&self) -> bool {
        let fe = self.frontend().options;
        fe.contains(Options::HTTP_DROP_RESPONSE_TRAILERS)
    }

    /// Marks how the body's transfer ended and what becomes of the client's connection.
    fn body_ended(&mut self, end: &Result<End, Awaits>, close: bool) -> Fate {
        match end {
            Ok(End::Done) if close => Fate::Close,
            Ok(End::Done) => Fate::KeepAlive,
            Ok(End::SourceClosed | End::SourceError(_)) => {
                self.count_abort(false);
                self.count_response_error();
                self.terminate(b'S', b'D');
                self.cut_short()
            }
            Ok(End::SinkError(_)) => {
                self.count_abort(true);
                self.terminate(b'C', b'D');
                Fate::Abort
            }
            Ok(End::Bad(_)) => {
                self.count_response_error();
                self.terminate(b'S', b'D');
                self.cut_short()
            }
            Err(Awaits::Source) => {
                self.count_abort(false);
                self.terminate(b's', b'D');
                self.cut_short()
            }
            Err(Awaits::Sink) => {
                self.count_abort(true);
                self.terminate(b'c', b'D');
                Fate::Abort
            }
        }
    }

    /// How a response that stays incomplete ends: where its framing shows what is missing the client may read the
    /// rest in peace, otherwise only a reset tells.
    fn cut_short(&self) -> Fate {
        if self.res.framing.is_delimited() {
            Fate::Close
        } else {
            Fate::Abort
        }
    }

    /// Framing and connection headers of the response as it goes to the client.
    fn finish_response_head(&mut self, recode: Option<Recode>, close: bool) {
        if recode == Some(Recode::Strip) {
            self.res.headers.remove("Transfer-Encoding");
        }
        super::forward::strip_connection(
            &mut self.res.headers,
            self.res.noticed.close || self.res.noticed.keep_alive,
        );
        self.mark_connection(close);
    }

    /// Keeps the server connection for the next request if it may carry one (`clean`). One that is not kept stays open
    /// until the stream is logged.
    pub fn part_with(&mut self, client: &mut Client, conn: Box<ServerConn>, clean: bool) {
        if !clean || self.server_mode() != ConnMode::KeepAlive {
            self.closing = Some(conn);
            return;
        }
        self.sess.last_server = conn.server;
        if conn.private || self.backend().http_reuse == HttpReuse::Never {
            client.own = Some(conn);
        } else {
            self.closing = self.w.pools.keep(&self.w, conn);
        }
    }

    /// 101 or CONNECT: bytes both ways until either side is done.
    pub async fn tunnel(
        &mut self,
        client: &mut Client,
        conn: &mut ServerConn,
        buf: Option<Buf>,
    ) -> Fate {
        let mut head = self.down.take_head();
        self.after_response_rules();
        self.write_response_head(&mut head);
        self.info.status = self.res.status.into();
        self.sent_head();
        self.info.bytes_in += self.up.body_written();
        self.info.req_bytes_out += self.up.written;
        let input = client.input.take().or(self.up.take_rest());
        let timeout = self.tunnel_timeout_ms();
        let splice = self.splice_choice(Options::SPLICE_REQUEST);
        self.up.start_tunnel(Vec::new(), input, splice);
        let splice = self.splice_choice(Options::SPLICE_RESPONSE);
        self.down.start_tunnel(head, buf, splice);
        super::relay::relay(self, client, conn, timeout).await;
        Fate::Close
    }

    /// How much the body may be spliced in this direction.
    pub fn splice_choice(&self, which: Options) -> SpliceChoice {
        let (fe, be) = (self.frontend().options, self.backend().options);
        let both = fe | be;
        if self.w.model().global.nosplice || both.contains(Options::NO_SPLICE) {
            SpliceChoice::Never
        } else if both.intersects(which) {
            SpliceChoice::Wanted
        } else {
            SpliceChoice::WhenLarge
        }
    }
}
