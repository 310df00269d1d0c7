//! One list of patterns, with or without values: what the runtime command line calls an ACL or a map, with its
//! versions (management manual, `prepare map`, `commit map`).
//!
//! Readers load the current version and search it without a lock. Writers take turns. A version being prepared is not
//! seen by readers; committing it replaces the current one as a whole.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;

use super::elements::{Elements, TEXT_MAX};
use super::few::{FEW, Few};
use super::generation::Generation;
use super::hosts::check_resolving;
use super::map::MapResult;
use super::method::Match;
use super::regex::{Captures, Regex};
use super::view::{Hosts, Kind, View, with_bytes};
use crate::compile::Loader;
use crate::value::Value;

/// One answer of `get map` or `get acl`: a way the list is searched and what it found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    pub kind: Kind,
    /// The pattern and, in a map, its value.
    pub entry: Option<(Vec<u8>, Vec<u8>)>,
}

pub struct List {
    pub(super) current: ArcSwap<Generation>,
    writer: Mutex<Writer>,
    /// How often its patterns have changed.
    changes: AtomicU32,
}

pub(super) struct Writer {
    /// Every way the list is searched: new patterns must fit all of them.
    pub(super) kinds: Vec<Kind>,
    /// Every way its values are read.
    pub(super) results: Vec<MapResult>,
    pub(super) version: u32,
    pub(super) next_version: u32,
    pub(super) prepared: BTreeMap<u32, Arc<Generation>>,
    pub(super) hosts: Hosts,
    /// Entries deleted since the indexes were built.
    pub(super) deleted: usize,
}

impl List {
    /// A list with these entries (`(pattern, value)`, values empty where the list has none).
    pub fn new<'a>(entries: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Self {
        let fitting = entries.filter(|(k, v)| k.len() + v.len() <= TEXT_MAX);
        List {
            current: ArcSwap::from_pointee(Generation::new(Elements::collect(fitting))),
            writer: Mutex::new(Writer {
                kinds: Vec::new(),
                results: Vec::new(),
                version: 0,
                next_version: 0,
                prepared: BTreeMap::new(),
                hosts: Hosts::new(),
                deleted: 0,
            }),
            changes: AtomicU32::new(0),
        }
    }

    pub(super) fn writer(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How often patterns were added or removed. What was read at another count is out of date.
    #[inline]
    pub(super) fn changes(&self) -> u32 {
        self.changes.load(Ordering::Acquire)
    }

    /// Notes a change of the patterns, once it is made. Callers hold the writer lock.
    pub(super) fn note_change(&self) {
        self.changes.fetch_add(1, Ordering::Release);
    }

    /// The patterns as `kind` reads them and the count of changes they are of, when they are few.
    pub(super) fn few(&self, kind: Kind) -> Option<(Few, u32)> {
        let writer = self.writer();
        let current = self.current.load();
        if current.all.len() > FEW {
            return None;
        }
        let mut keys = Vec::new();
        current.all.visit(0, |_, key, _| {
            keys.push(key.to_vec());
            true
        });
        let few = Few::new(kind.canonical(), &keys, &writer.hosts)?;
        Some((few, self.changes()))
    }

    /// Makes the list searchable in one more way, and from then on refuses patterns that do not fit it. With a
    /// `resolver`, patterns of `-m ip` that are host names are resolved now, once.
    ///
    /// The error is the first pattern that does not fit, and why.
    pub fn searched_by(
        &self,
        kind: Kind,
        resolver: Option<&dyn Loader>,
    ) -> Result<(), (Vec<u8>, String)> {
        let kind = kind.canonical();
        if !kind.method.takes_patterns() {
            return Ok(());
        }
        let mut writer = self.writer();
        if writer.kinds.contains(&kind) {
            return Ok(());
        }
        let current = self.current.load_full();
        let mut failed = None;
        // Expressions are checked by being compiled into the index, texts are all good.
        if matches!(
            kind.method,
            Match::Int | Match::Len | Match::Ip | Match::Bin
        ) {
            current.all.visit(0, |_, key, _| {
                let checked = check_resolving(kind, key, &mut writer.hosts, resolver);
                failed = checked.err().map(|e| (key.to_vec(), e));
                failed.is_none()
            });
        }
        if let Some(failed) = failed {
            return Err(failed);
        }
        match current.views.find(kind) {
            // Of an earlier configuration, or made to find entries by their text.
            Some(view) => view.rebuild(kind, &current.all, &writer.hosts),
            None => {
                let view = View::build(kind, &current.all, &writer.hosts)?;
                current.views.push(kind, view);
            }
        }
        writer.kinds.push(kind);
        Ok(())
    }

    /// Makes the list refuse values that cannot be read so.
    ///
    /// The error is the first pattern whose value cannot, and why.
    pub fn read_as(&self, result: MapResult) -> Result<(), (Vec<u8>, String)> {
        let mut writer = self.writer();
        if writer.results.contains(&result) {
            return Ok(());
        }
        let mut failed = None;
        self.current.load().all.visit(0, |_, key, value| {
            failed = result.check(value).err().map(|e| (key.to_vec(), e));
            failed.is_none()
        });
        if let Some(failed) = failed {
            return Err(failed);
        }
        writer.results.push(result);
        Ok(())
    }

    /// Forgets ways it was searched and read that only an earlier configuration had: new entries need not fit them
    /// any more. Lookups that still run for that configuration go on, but see no entries added from now on.
    pub(super) fn keep_only(&self, kinds: &[Kind], results: &[MapResult]) {
        let mut writer = self.writer();
        writer.kinds.retain(|k| kinds.contains(k));
        writer.results.retain(|r| results.contains(r));
    }

    /// Entries of the current version.
    pub fn len(&self) -> usize {
        self.current.load().all.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether a pattern matches.
    #[inline]
    pub fn matches(&self, kind: Kind, value: &Value<'_>) -> bool {
        let now = self.current.load();
        let view = now.views.find(kind.canonical());
        view.is_some_and(|v| v.find(kind.method, value, &now.all).is_some())
    }

    /// Gives the entry that matches (the pattern and its value) to `f`.
    #[inline]
    pub fn find<R>(
        &self,
        kind: Kind,
        value: &Value<'_>,
        f: impl FnOnce(&[u8], &[u8]) -> R,
    ) -> Option<R> {
        let now = self.current.load();
        let id = now
            .views
            .find(kind.canonical())?
            .find(kind.method, value, &now.all)?;
        now.all.with(id, f)
    }

    /// The same for `-m reg`, with what the expression captured from the value.
    pub fn find_captures<R>(
        &self,
        kind: Kind,
        value: &Value<'_>,
        f: impl FnOnce(&[u8], &Captures, &[u8]) -> R,
    ) -> Option<R> {
        let now = self.current.load();
        let Some(View::Regex(index)) = now.views.find(kind.canonical()) else {
            return None;
        };
        with_bytes(value, |sample| {
            let mut captures = Captures::new();
            let id = index.find(sample, &now.all, |id, regex: &Regex| {
                regex.captures(sample, &mut captures).then_some(id)
            })??;
            now.all.with(id, |_, value| f(sample, &captures, value))
        })?
    }

    /// All ways the list is searched and what each finds for `value` (`get map`, `get acl`).
    pub fn search(&self, value: &Value<'_>) -> Vec<Found> {
        let kinds = self.writer().kinds.clone();
        let own = |k: &[u8], v: &[u8]| (k.to_vec(), v.to_vec());
        kinds
            .into_iter()
            .map(|kind| Found {
                kind,
                entry: self.find(kind, value, own),
            })
            .collect()
    }

    /// Bytes the indexes of the current version keep beyond the texts.
    pub fn index_memory(&self) -> usize {
        let now = self.current.load();
        let views = now.views.iter().map(|n| n.view.memory());
        now.all.memory() + views.sum::<usize>()
    }
}

impl std::fmt::Debug for List {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("List").field("len", &self.len()).finish()
    }
}
