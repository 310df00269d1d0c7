//! The thin shell: sockets, threads, timers, and what keeps them together.

pub mod bfd;
pub mod checks;
pub mod control;
pub mod doctor;
pub mod ipvsadm;
pub mod mail;
pub mod marks;
pub mod metrics;
pub mod neighbours;
pub mod router;
pub mod router_socket;
pub mod routers;
pub mod run;
pub mod scripts;
pub mod show;
pub mod sync;
