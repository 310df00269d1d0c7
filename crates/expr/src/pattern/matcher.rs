//! What an ACL compares its samples with: a match method and the lists of patterns for it.

use std::sync::Arc;

use smallvec::SmallVec;

use super::few::Few;
use super::list::List;
use super::method::Match;
use super::view::{Kind, int_of};
use crate::value::Value;

/// A test on one sample.
#[derive(Debug, Clone)]
pub struct Matcher {
    method: Match,
    /// Most have one.
    lists: SmallVec<[Compared; 1]>,
}

/// One list of a matcher.
#[derive(Debug, Clone)]
struct Compared {
    /// A copy of its patterns when they are few, good while the list has changed this often.
    few: Option<(Few, u32)>,
    list: Arc<List>,
    kind: Kind,
}

impl Matcher {
    /// Files first, in their order, then the patterns written in the configuration.
    pub fn new(method: Match, lists: Vec<(Arc<List>, Kind)>) -> Self {
        let compared = |(list, kind): (Arc<List>, Kind)| Compared {
            few: list.few(kind),
            list,
            kind,
        };
        Matcher {
            method,
            lists: lists.into_iter().map(compared).collect(),
        }
    }

    /// The lists it looks in.
    pub fn lists(&self) -> impl Iterator<Item = &Arc<List>> {
        self.lists.iter().map(|c| &c.list)
    }

    #[inline]
    pub fn matches(&self, value: &Value<'_>) -> bool {
        match self.method {
            Match::Found => true,
            Match::Bool => int_of(value).is_some_and(|n| n != 0),
            _ => self.lists.iter().any(|c| c.matches(value)),
        }
    }
}

impl Compared {
    #[inline]
    fn matches(&self, value: &Value<'_>) -> bool {
        match &self.few {
            Some((few, at)) if self.list.changes() == *at => few.matches(value),
            _ => self.list.matches(self.kind, value),
        }
    }
}
