//! The running state of the process and the policies over it: counters, server states, balancing, queues, health.
//!
//! Plain data and functions with the clock as an argument; no I/O. The configuration ([`sluice_config::model`]) is
//! immutable, this is what changes while traffic flows, joined to it by the same indices.

pub mod admin;
pub mod balance;
pub mod cookies;
pub mod counters;
pub mod dynamic;
pub mod health;
pub mod idle;
pub mod news;
pub mod passive;
pub mod queue;
pub mod saved;
pub mod servers;
pub mod shutdown;
pub mod state;
#[cfg(test)]
mod testing;

pub use counters::{Counter, Level, Rate};
pub use state::{ProxyState, Runtime, ServerState};
