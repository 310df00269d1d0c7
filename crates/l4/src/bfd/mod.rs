//! Bidirectional Forwarding Detection (RFC 5880, RFC 5881): asynchronous mode over one hop or several, without authentication,
//! echo and demand. Packets and the session's state machine, pure; sockets and the clock are the shell's.

pub mod packet;
pub mod session;
