//! What the balancing test needs: its cases, the servers behind the proxies, the proxies and their clients.

pub mod cases;
pub mod origin;
pub mod proxy;
