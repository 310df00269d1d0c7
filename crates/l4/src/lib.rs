//! The packet director: what IPVS and keepalived do, on XDP.
//!
//! Pure modules know the configuration language, VRRP, the schedulers and the checkers' states; they do no I/O and take
//! time as an argument. The shell around them owns sockets, netlink and the XDP programs.

pub mod announce;
pub mod bfd;
pub mod check;
pub mod config;
pub mod datapath;
pub mod host;
pub mod maglev;
pub mod marks;
pub mod netlink;
pub mod pool;
pub mod sched;
pub mod shell;
pub mod sys;
pub mod vrrp;
