//! The process's pattern and map lists, by name.

/// All lists of one configuration. Lists outlive it: the next one takes over those whose files have not changed.
#[derive(Debug, Default)]
pub struct Store {}

impl Store {
    pub fn new() -> Self {
        Store::default()
    }
}
