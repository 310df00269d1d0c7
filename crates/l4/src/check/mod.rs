//! Health checks: what decides (pure) and what asks (probes).

mod datagram;
pub mod http;
pub mod md5;
pub mod probe;
pub mod reach;
pub mod smtp;
pub mod state;
