//! One version of a list: its entries and the indexes over them.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use super::edit::EntryId;
use super::elements::Elements;
use super::method::Match;
use super::view::{Hosts, Kind, View};

/// One version of the list.
pub(super) struct Generation {
    /// Tells entries of one state of the list from those of another.
    epoch: u32,
    pub(super) all: Elements,
    pub(super) views: Views,
}

/// The indexes of a version: a list that only grows, as most have one.
#[derive(Default)]
pub(super) struct Views {
    first: OnceLock<Box<Node>>,
}

pub(super) struct Node {
    pub(super) kind: Kind,
    pub(super) view: View,
    next: OnceLock<Box<Node>>,
}

impl Views {
    pub(super) fn iter(&self) -> impl Iterator<Item = &Node> {
        std::iter::successors(self.first.get(), |n| n.next.get()).map(Box::as_ref)
    }

    #[inline]
    pub(super) fn find(&self, kind: Kind) -> Option<&View> {
        self.iter().find(|n| n.kind == kind).map(|n| &n.view)
    }

    /// Adds one. Callers hold the writer lock.
    pub(super) fn push(&self, kind: Kind, view: View) {
        let last = self.iter().last().map_or(&self.first, |n| &n.next);
        let node = Node {
            kind,
            view,
            next: OnceLock::new(),
        };
        let _ = last.set(Box::new(node));
    }
}

impl Generation {
    pub(super) fn new(all: Elements) -> Self {
        static EPOCH: AtomicU32 = AtomicU32::new(1);
        Generation {
            epoch: EPOCH.fetch_add(1, Ordering::Relaxed),
            all,
            views: Views::default(),
        }
    }

    /// The exact text index, by which entries are found to be changed.
    pub(super) fn texts(&self) -> Option<&View> {
        let kind = Kind::of(Match::Str);
        if self.views.find(kind).is_none() {
            let view = View::build(kind, &self.all, &Hosts::new()).ok()?;
            self.views.push(kind, view);
        }
        self.views.find(kind)
    }

    pub(super) fn ids_of(&self, key: &[u8]) -> Vec<u32> {
        match self.texts() {
            Some(View::Text(index)) => index.all_equal(key, &self.all),
            _ => Vec::new(),
        }
    }

    pub(super) fn id(&self, id: u32) -> EntryId {
        EntryId(u64::from(self.epoch) << 32 | u64::from(id))
    }

    pub(super) fn own(&self, id: EntryId) -> Option<u32> {
        let number = id.0 as u32;
        ((id.0 >> 32) as u32 == self.epoch && self.all.is_live(number)).then_some(number)
    }

    /// Builds the indexes it lacks. Its entries were checked when they were added.
    pub(super) fn index(&self, kinds: &[Kind], hosts: &Hosts) {
        for kind in kinds {
            if self.views.find(*kind).is_some() {
                continue;
            }
            match View::build(*kind, &self.all, hosts) {
                Ok(view) => self.views.push(*kind, view),
                Err(_) => debug_assert!(false, "an entry was not checked"),
            }
        }
    }
}
