//! What an ACL compares its samples with: a match method and the lists of patterns for it.

use std::sync::Arc;

use super::list::List;
use super::method::Match;
use super::view::{Kind, int_of};
use crate::value::Value;

/// A test on one sample.
#[derive(Debug, Clone)]
pub struct Matcher {
    pub method: Match,
    /// Files first, in their order, then the patterns written in the configuration.
    pub lists: Vec<(Arc<List>, Kind)>,
}

impl Matcher {
    #[inline]
    pub fn matches(&self, value: &Value<'_>) -> bool {
        match self.method {
            Match::Found => true,
            Match::Bool => int_of(value).is_some_and(|n| n != 0),
            _ => self
                .lists
                .iter()
                .any(|(list, kind)| list.matches(*kind, value)),
        }
    }
}
