//! Two pumps at once: TCP mode, and HTTP connections that became tunnels.

use std::task::Poll;

use sluice_config::model::Options;

use super::Stream;
use super::body::{Awaits, End};
use crate::backend::ServerConn;
use crate::session::Client;

/// Relays with the stream's two pumps until both directions are closed, one fails, or nothing moves for a timeout. Marks the stream.
pub async fn relay(
    s: &mut Stream,
    client: &mut Client,
    conn: &mut ServerConn,
    tunnel_ms: Option<u64>,
) {
    let w = s.w.clone();
    let (client_ms, server_ms) = (
        tunnel_ms.or(s.client_timeout_ms()),
        tunnel_ms.or(s.server_timeout_ms()),
    );
    let (client_fin, server_fin) = (
        s.frontend().timeouts.client_fin_ms,
        s.backend().timeouts.server_fin_ms,
    );
    let independent =
        (s.frontend().options | s.backend().options).contains(Options::INDEPENDENT_STREAMS);
    let no_linger = s.backend().options.contains(Options::NOLINGER);
    // the sender closed, and the receiver was told
    let (mut up_closed, mut down_closed) = (false, false);
    // who ended it, as the first character of the termination state
    let contstats = s.frontend().options.contains(Options::CONTSTATS);
    let before = (s.info.bytes_in, s.info.bytes_out);
    // a client that was silent for too long is taken for one that has nothing more to say: the server is told, and may answer
    let mut silent = false;
    let cause = std::future::poll_fn(|cx| {
        loop {
            if !up_closed && let Poll::Ready(end) = s.up.poll(cx, &w, &mut client.io, &mut conn.io)
            {
                match end {
                    End::Done => {
                        up_closed = true;
                        conn.io.shutdown_write();
                    }
                    End::SinkError(_) => return Poll::Ready(b'S'),
                    _ => return Poll::Ready(b'C'),
                }
            }
            if !down_closed
                && let Poll::Ready(end) = s.down.poll(cx, &w, &mut conn.io, &mut client.io)
            {
                match end {
                    // an HTTP tunnel ends with its server's direction, though the client may have more to say
                    End::Done if s.is_http => return Poll::Ready(b'-'),
                    End::Done => {
                        down_closed = true;
                        client.io.shutdown_write();
                    }
                    End::SinkError(_) => return Poll::Ready(b'C'),
                    _ => return Poll::Ready(b'S'),
                }
            }
            if contstats {
                s.count_flow(before.0 + s.up.written, before.1 + s.down.written);
            }
            if up_closed && down_closed {
                return Poll::Ready(b'-');
            }
            // both directions keep each other alive, except with a half-closed side's own timeout
            let since = s.up.progress_us.max(s.down.progress_us);
            let client_ms = if down_closed {
                client_fin.or(client_ms)
            } else {
                client_ms
            };
            let server_ms = if up_closed {
                server_fin.or(server_ms)
            } else {
                server_ms
            };
            let waits_for_client = (!up_closed && s.up.awaits == Awaits::Source)
                || (!down_closed && s.down.awaits == Awaits::Sink);
            let waits_for_server = (!down_closed && s.down.awaits == Awaits::Source)
                || (!up_closed && s.up.awaits == Awaits::Sink);
            let due = |wanted: bool, ms: Option<u64>, since_us: u64| {
                crate::net::since(since_us, ms.filter(|_| wanted))
            };
            let (c, v) = (
                due(
                    waits_for_client,
                    client_ms,
                    if independent { s.up.progress_us } else { since },
                ),
                due(
                    waits_for_server,
                    server_ms,
                    if independent {
                        s.down.progress_us
                    } else {
                        since
                    },
                ),
            );
            let first_is_client = c.is_some() && (v.is_none() || c <= v);
            let timeout = client.timer.poll(cx, crate::net::earlier(c, v));
            match timeout {
                Poll::Ready(())
                    if first_is_client && !up_closed && s.up.awaits == Awaits::Source =>
                {
                    (silent, up_closed) = (true, true);
                    conn.io.shutdown_write();
                }
                Poll::Ready(()) => return Poll::Ready(if first_is_client { b'c' } else { b's' }),
                Poll::Pending => return Poll::Pending,
            }
        }
    })
    .await;
    let cause = if silent { b'c' } else { cause };
    s.info.bytes_in += s.up.body_written();
    s.info.req_bytes_out += s.up.written;
    s.info.res_bytes_in += s.down.body_written();
    s.info.bytes_out += s.down.written;
    s.tick();
    if cause != b'-' {
        s.terminate(cause, b'D');
        s.count_abort(matches!(cause, b'C' | b'c'));
        if cause == b'S' {
            s.count_response_error();
        }
    }
    if no_linger || cause != b'-' {
        conn.io.reset_on_close();
    }
}
