//! Sockets, buffers, timers and pipes: what the data path needs of the operating system.

pub mod buf;
pub mod datagrams;
pub mod listen;
pub mod namespace;
pub mod netscaler;
pub mod outbox;
pub mod peer;
pub mod pipe;
pub mod proxy_protocol;
pub mod socks4;
pub mod timer;
pub mod transport;

pub use buf::{Buf, BufPool};
pub use pipe::{Pipe, PipePool};
pub use timer::{Deadline, Timer, after_ms, earlier, since};
pub use transport::{Detached, Fail, Transport};
