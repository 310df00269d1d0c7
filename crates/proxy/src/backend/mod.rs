//! The server's side: choosing a server, waiting in queues, connecting, keeping idle connections.

pub mod assign;
pub mod connect;
pub mod hash;
pub mod pool;
pub mod takeover;

use std::rc::Rc;

use sluice_expr::ServerId;
use sluice_expr::env::ConnInfo;

use crate::net::{Buf, Transport};
use crate::worker::Worker;

/// A connection to a server, in use by a stream.
pub struct ServerConn {
    pub io: Transport,
    pub info: Rc<ConnInfo>,
    /// `None` for `dispatch` and `option transparent`.
    pub server: Option<ServerId>,
    /// It carried a request before: a close before the first byte may only mean that the server had enough of it.
    pub reused: bool,
    /// Bytes read beyond the last message.
    pub input: Option<Buf>,
    pub requests: u64,
    /// Its ACKs were told to hurry ([`Transport::ack_now`]).
    pub acks_now: bool,
    /// What the server was told of the client on it (PROXY header, source address): only a stream that would say the
    /// same may reuse it. 0: nothing.
    pub key: u64,
    /// It belongs to one client: the server authenticated the connection and not each request (NTLM, Negotiate).
    pub private: bool,
}

impl ServerConn {
    /// More of a response is awaited: has its ACKs sent at once from here on.
    pub fn hurry_acks(&mut self) {
        if !self.acks_now {
            self.acks_now = true;
            self.io.ack_now();
        }
    }

    /// It carries another request.
    pub fn mark_reused(&mut self) {
        if !self.reused {
            self.reused = true;
            Rc::make_mut(&mut self.info).reused = true;
        }
    }
}

/// One of a server's connection slots (`maxconn`), given back when dropped.
pub struct Slot {
    w: Rc<Worker>,
    pub server: ServerId,
}

impl Slot {
    /// Owns a slot that was counted already.
    pub fn own(w: &Rc<Worker>, server: ServerId) -> Slot {
        Slot {
            w: w.clone(),
            server,
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        assign::release(&self.w, self.server);
    }
}
