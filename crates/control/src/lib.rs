//! Views of the running process: the statistics page, the CSV, Prometheus and the runtime commands.
//!
//! Pure functions from [`sluice_engine::Runtime`] to bytes; changes happen by commands only. No sockets: the data path
//! serves the pages, the binary owns the command sockets.

pub mod cli;
pub mod dump;
pub mod fields;
pub mod info;
pub mod inside;
pub mod page;
pub mod prometheus;
pub mod sessions;
pub mod stats;
