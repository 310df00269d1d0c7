//! What the exchange test needs: its cases, the texts of outcomes, and the proxies with their peers.

pub mod case;
pub mod peers;
pub mod play;
pub mod text;
