//! Patterns and maps: match methods, the indexed stores, and the shared, versioned lists behind files.

mod dialect;
mod map;
mod regex;
mod store;

pub use map::{MapRef, MapResult};
pub use regex::{Captures, GROUPS, Regex, check_template, expand};
pub use store::Store;
