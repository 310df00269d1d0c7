//! An idle server connection that another worker keeps, when this one has none: the other one is asked for it, gives the
//! socket out of its event loop, and this one takes it into its own.

use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use sluice_expr::ServerId;
use sluice_expr::env::ConnInfo;
use tokio::sync::oneshot;

use super::ServerConn;
use crate::net::{Detached, Transport};
use crate::worker::Worker;

/// How long the other worker may take: it is busy then, and connecting anew is sooner done.
const ANSWER_WITHIN: Duration = Duration::from_millis(20);

/// A connection between two workers.
struct Moving {
    socket: Detached,
    info: ConnInfo,
    requests: u64,
}

/// An idle connection to the server from a worker that has one (`key`, `proven`: see [`super::pool::Pools::take`]).
pub async fn take_over(
    w: &Rc<Worker>,
    id: ServerId,
    key: u64,
    proven: bool,
) -> Option<Box<ServerConn>> {
    let server = w.runtime().server(id);
    // `pool-low-conn`: so few are left where they are, unless descriptors are short
    let few = server.idle.total() < server.conf.pool_low_conn;
    if few && w.runtime().counters.fd_shortage.load(Relaxed) == 0 {
        return None;
    }
    let holder = server.idle.holder_after(w.id)?;
    let (answer, answered) = oneshot::channel();
    let asked = w.peers.ask_one(
        holder,
        Box::new(move |other| {
            let given = other.pools.take(other, id, key, proven);
            // nobody waits any more: what is returned is closed
            let _ = answer.send(given.and_then(|conn| detach(*conn)));
        }),
    );
    if !asked {
        return None;
    }
    let moving = tokio::time::timeout(ANSWER_WITHIN, answered).await;
    let moving = moving.ok()?.ok()??;
    let io = Transport::attach(moving.socket).ok()?;
    w.taken_over.set(w.taken_over.get() + 1);
    Some(Box::new(ServerConn {
        io,
        info: Rc::new(moving.info),
        server: Some(id),
        reused: true,
        input: None,
        requests: moving.requests,
        acks_now: false,
        key,
        private: false,
    }))
}

fn detach(conn: ServerConn) -> Option<Moving> {
    Some(Moving {
        socket: conn.io.detach().ok()?,
        info: Rc::unwrap_or_clone(conn.info),
        requests: conn.requests,
    })
}
