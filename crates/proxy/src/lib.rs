//! The data path: the only crate that touches sockets while traffic flows.
//!
//! ```text
//! accept -> session -> stream::http | stream::tcp -> stream::request -> backend::assign -> backend::connect
//!                                                 -> stream::response -> stream::body -> stream::observe (log)
//! ```

mod accept;
mod admission;
pub mod backend;
pub mod bind;
pub mod capture;
pub mod checks;
pub mod clock;
mod cpu;
pub mod cpu_set;
mod forward;
pub mod handover;
pub mod inside;
mod lists;
pub mod live;
pub mod logs;
pub mod net;
pub mod ring_servers;
pub mod session;
pub mod start;
pub mod stream;
pub mod sys;
pub mod terminal;
pub mod view;
pub mod worker;
mod zone;
