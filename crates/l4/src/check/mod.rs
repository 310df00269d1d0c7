//! Health checks: what decides (pure) and what asks (probes).

pub mod http;
pub mod md5;
pub mod probe;
pub mod state;
