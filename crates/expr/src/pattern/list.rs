//! One list of patterns, with or without values: what the runtime command line calls an ACL or a map, with its
//! versions (management manual, `prepare map`, `commit map`).
//!
//! Readers load the current version and search it without a lock. Writers take turns. A version being prepared is not
//! seen by readers; committing it replaces the current one as a whole.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use arc_swap::ArcSwap;

use super::elements::{Elements, TEXT_MAX};
use super::map::MapResult;
use super::method::Match;
use super::network;
use super::regex::{Captures, Regex};
use super::view::{self, Checked, Hosts, Kind, View, with_bytes};
use crate::compile::Loader;
use crate::value::Value;

/// Why a change was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    #[error("key not found")]
    NoKey,
    #[error("entry not found")]
    NoEntry,
    #[error("version number out of range")]
    VersionRange,
    #[error("version number in the future, please use 'prepare' before")]
    VersionFuture,
    /// A pattern or value that the list's users could not read.
    #[error("{0}")]
    Invalid(String),
    #[error("the list is full")]
    Full,
}

/// An entry as `show map` names it. It changes when the list is replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct EntryId(pub u64);

/// Takes entries one by one (pattern and value) and says whether to go on.
pub type Visitor<'v> = &'v mut dyn FnMut(EntryId, &[u8], &[u8]) -> bool;

/// One answer of `get map` or `get acl`: a way the list is searched and what it found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    pub kind: Kind,
    /// The pattern and, in a map, its value.
    pub entry: Option<(Vec<u8>, Vec<u8>)>,
}

pub struct List {
    current: ArcSwap<Generation>,
    writer: Mutex<Writer>,
}

struct Writer {
    /// Every way the list is searched: new patterns must fit all of them.
    kinds: Vec<Kind>,
    /// Every way its values are read.
    results: Vec<MapResult>,
    version: u32,
    next_version: u32,
    prepared: BTreeMap<u32, Arc<Generation>>,
    hosts: Hosts,
    /// Entries deleted since the indexes were built.
    deleted: usize,
}

/// One version of the list.
struct Generation {
    /// Tells entries of one state of the list from those of another.
    epoch: u32,
    all: Elements,
    views: Views,
}

/// The indexes of a version: a list that only grows, as most have one.
#[derive(Default)]
struct Views {
    first: OnceLock<Box<Node>>,
}

struct Node {
    kind: Kind,
    view: View,
    next: OnceLock<Box<Node>>,
}

impl Views {
    fn iter(&self) -> impl Iterator<Item = &Node> {
        std::iter::successors(self.first.get(), |n| n.next.get()).map(Box::as_ref)
    }

    #[inline]
    fn find(&self, kind: Kind) -> Option<&View> {
        self.iter().find(|n| n.kind == kind).map(|n| &n.view)
    }

    /// Adds one. Callers hold the writer lock.
    fn push(&self, kind: Kind, view: View) {
        let last = self.iter().last().map_or(&self.first, |n| &n.next);
        let node = Node {
            kind,
            view,
            next: OnceLock::new(),
        };
        let _ = last.set(Box::new(node));
    }
}

/// Deleted entries that indexes may keep besides half of the living ones, so that short lists are not built again for
/// every change.
const DELETED_SLACK: usize = if cfg!(test) { 2 } else { 1024 };

impl Generation {
    fn new(all: Elements) -> Self {
        static EPOCH: AtomicU32 = AtomicU32::new(1);
        Generation {
            epoch: EPOCH.fetch_add(1, Ordering::Relaxed),
            all,
            views: Views::default(),
        }
    }

    /// The exact text index, by which entries are found to be changed.
    fn texts(&self) -> Option<&View> {
        let kind = Kind::of(Match::Str);
        if self.views.find(kind).is_none() {
            let view = View::build(kind, &self.all, &Hosts::new()).ok()?;
            self.views.push(kind, view);
        }
        self.views.find(kind)
    }

    fn ids_of(&self, key: &[u8]) -> Vec<u32> {
        match self.texts() {
            Some(View::Text(index)) => index.all_equal(key, &self.all),
            _ => Vec::new(),
        }
    }

    fn id(&self, id: u32) -> EntryId {
        EntryId(u64::from(self.epoch) << 32 | u64::from(id))
    }

    fn own(&self, id: EntryId) -> Option<u32> {
        let number = id.0 as u32;
        ((id.0 >> 32) as u32 == self.epoch && self.all.is_live(number)).then_some(number)
    }
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
        }
    }

    fn writer(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
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
        // There already if entries have been changed: see `texts`.
        if current.views.find(kind).is_none() {
            let view = View::build(kind, &current.all, &writer.hosts)?;
            current.views.push(kind, view);
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

    // Versions and changes: the runtime command line, and actions like `set-map`.

    /// The current version and the last one prepared.
    pub fn versions(&self) -> (u32, u32) {
        let writer = self.writer();
        (writer.version, writer.next_version)
    }

    /// Goes through the entries of a version (`None`: the current one) from `from` on until `f` says no; gives where
    /// to go on. Holds no lock while `f` runs.
    pub fn visit(&self, version: Option<u32>, from: u32, f: Visitor<'_>) -> Option<u32> {
        let generation = {
            let writer = self.writer();
            self.generation(&writer, version).ok()?
        };
        let visit = |id, key: &[u8], value: &[u8]| f(generation.id(id), key, value);
        generation.all.visit(from, visit)
    }

    fn generation(
        &self,
        writer: &Writer,
        version: Option<u32>,
    ) -> Result<Arc<Generation>, EditError> {
        match version {
            None => Ok(self.current.load_full()),
            Some(v) if v == writer.version => Ok(self.current.load_full()),
            Some(v) if v > writer.next_version => Err(EditError::VersionFuture),
            Some(v) => writer
                .prepared
                .get(&v)
                .cloned()
                .ok_or(EditError::VersionRange),
        }
    }

    /// Begins a new, empty version; gives its number.
    pub fn prepare(&self) -> u32 {
        let mut writer = self.writer();
        writer.next_version = writer.next_version.wrapping_add(1);
        let version = writer.next_version;
        let empty = Generation::new(Elements::new());
        writer.prepared.insert(version, Arc::new(empty));
        version
    }

    /// Adds an entry; one with the same pattern may be there already, and goes before it.
    pub fn add(&self, version: Option<u32>, key: &[u8], value: &[u8]) -> Result<(), EditError> {
        let mut writer = self.writer();
        self.add_locked(&mut writer, version, key, value)
    }

    fn add_locked(
        &self,
        writer: &mut Writer,
        version: Option<u32>,
        key: &[u8],
        value: &[u8],
    ) -> Result<(), EditError> {
        if key.len() + value.len() > TEXT_MAX {
            return Err(EditError::Invalid(format!(
                "an entry takes at most {TEXT_MAX} bytes"
            )));
        }
        let mut checked = Vec::with_capacity(writer.kinds.len());
        for kind in &writer.kinds {
            let fits = view::check(*kind, key, &writer.hosts).map_err(EditError::Invalid)?;
            checked.push((*kind, fits));
        }
        check_value(&writer.results, value)?;
        let mut generation = self.generation(writer, version)?;
        if generation.all.is_worn() {
            generation = self.renumber(writer, &generation);
        }
        let id = generation.all.push(key, value).ok_or(EditError::Full)?;
        for (kind, fits) in checked {
            if let Some(view) = generation.views.find(kind) {
                view.add(id, key, fits, &generation.all);
            }
        }
        let texts = Kind::of(Match::Str);
        if !writer.kinds.contains(&texts)
            && let Some(view) = generation.views.find(texts)
        {
            view.add(id, key, Checked::Text, &generation.all);
        }
        Ok(())
    }

    /// Copies a version whose numbers have grown far beyond its entries.
    fn renumber(&self, writer: &mut Writer, old: &Arc<Generation>) -> Arc<Generation> {
        let mut texts: Vec<(Vec<u8>, Vec<u8>)> = Vec::with_capacity(old.all.len());
        old.all.visit(0, |_, k, v| {
            texts.push((k.to_vec(), v.to_vec()));
            true
        });
        let pairs = texts.iter().map(|(k, v)| (k.as_slice(), v.as_slice()));
        let new = Arc::new(Generation::new(Elements::collect(pairs)));
        if Arc::ptr_eq(old, &self.current.load()) {
            index(&new, &writer.kinds, &writer.hosts);
            self.current.store(new.clone());
            writer.deleted = 0;
        } else {
            for prepared in writer.prepared.values_mut() {
                if Arc::ptr_eq(prepared, old) {
                    *prepared = new.clone();
                }
            }
        }
        new
    }

    /// Deletes all entries with this pattern.
    pub fn delete(&self, version: Option<u32>, key: &[u8]) -> Result<(), EditError> {
        let mut writer = self.writer();
        let generation = self.generation(&writer, version)?;
        let ids = generation.ids_of(key);
        if ids.is_empty() {
            return Err(EditError::NoKey);
        }
        self.remove(&mut writer, &generation, &ids);
        Ok(())
    }

    /// Deletes one entry of the current version.
    pub fn delete_entry(&self, id: EntryId) -> Result<(), EditError> {
        let mut writer = self.writer();
        let generation = self.current.load_full();
        let id = generation.own(id).ok_or(EditError::NoKey)?;
        self.remove(&mut writer, &generation, &[id]);
        Ok(())
    }

    fn remove(&self, writer: &mut Writer, generation: &Generation, ids: &[u32]) {
        for id in ids {
            generation.all.remove(*id);
        }
        writer.deleted += ids.len();
        if writer.deleted > generation.all.len() / 2 + DELETED_SLACK {
            writer.deleted = 0;
            for node in generation.views.iter() {
                node.view.rebuild(&generation.all, &writer.hosts);
            }
        }
    }

    /// Changes the value of all entries with this pattern.
    pub fn set(&self, version: Option<u32>, key: &[u8], value: &[u8]) -> Result<(), EditError> {
        let writer = self.writer();
        check_value(&writer.results, value)?;
        let generation = self.generation(&writer, version)?;
        let ids = generation.ids_of(key);
        if ids.is_empty() {
            return Err(EditError::NoEntry);
        }
        for id in ids {
            generation.all.set(id, value);
        }
        Ok(())
    }

    /// Changes the value of one entry of the current version.
    pub fn set_entry(&self, id: EntryId, value: &[u8]) -> Result<(), EditError> {
        let writer = self.writer();
        check_value(&writer.results, value)?;
        let generation = self.current.load_full();
        let id = generation.own(id).ok_or(EditError::NoEntry)?;
        generation.all.set(id, value);
        Ok(())
    }

    /// What `http-request set-map` does: changes the value, or adds the entry when there is none.
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<(), EditError> {
        let mut writer = self.writer();
        let generation = self.current.load_full();
        let ids = generation.ids_of(key);
        if ids.is_empty() {
            return self.add_locked(&mut writer, None, key, value);
        }
        check_value(&writer.results, value)?;
        for id in ids {
            generation.all.set(id, value);
        }
        Ok(())
    }

    /// What `http-request add-acl` does: adds the pattern unless it is there.
    pub fn put_pattern(&self, key: &[u8]) -> Result<(), EditError> {
        let mut writer = self.writer();
        if self.current.load().ids_of(key).is_empty() {
            self.add_locked(&mut writer, None, key, b"")?;
        }
        Ok(())
    }

    /// Empties a version.
    pub fn clear(&self, version: Option<u32>) -> Result<(), EditError> {
        let mut writer = self.writer();
        let empty = Arc::new(Generation::new(Elements::new()));
        match version {
            Some(v) if v != writer.version => {
                if v > writer.next_version {
                    return Err(EditError::VersionFuture);
                }
                if let Some(prepared) = writer.prepared.get_mut(&v) {
                    *prepared = empty;
                }
            }
            _ => {
                index(&empty, &writer.kinds, &writer.hosts);
                writer.deleted = 0;
                self.current.store(empty);
            }
        }
        Ok(())
    }

    /// Makes a prepared version the current one, all of it at once, and forgets the older ones.
    pub fn commit(&self, version: u32) -> Result<(), EditError> {
        let mut writer = self.writer();
        if version <= writer.version || version > writer.next_version {
            return Err(EditError::VersionRange);
        }
        let new = match writer.prepared.remove(&version) {
            Some(prepared) => prepared,
            None => Arc::new(Generation::new(Elements::new())),
        };
        index(&new, &writer.kinds, &writer.hosts);
        writer.prepared.retain(|v, _| *v > version);
        writer.version = version;
        writer.deleted = 0;
        self.current.store(new);
        Ok(())
    }
}

impl std::fmt::Debug for List {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("List").field("len", &self.len()).finish()
    }
}

/// Builds all indexes of a version. Its entries were checked when they were added.
fn index(generation: &Generation, kinds: &[Kind], hosts: &Hosts) {
    for kind in kinds {
        if generation.views.find(*kind).is_some() {
            continue;
        }
        match View::build(*kind, &generation.all, hosts) {
            Ok(view) => generation.views.push(*kind, view),
            Err(_) => debug_assert!(false, "an entry was not checked"),
        }
    }
}

fn check_value(results: &[MapResult], value: &[u8]) -> Result<(), EditError> {
    results
        .iter()
        .try_for_each(|r| r.check(value))
        .map_err(EditError::Invalid)
}

fn check_resolving(
    kind: Kind,
    key: &[u8],
    hosts: &mut Hosts,
    resolver: Option<&dyn Loader>,
) -> Result<(), String> {
    let refused = match view::check(kind, key, hosts) {
        Ok(_) => return Ok(()),
        Err(e) => e,
    };
    let (Match::Ip, Some(resolver), Ok(text)) = (kind.method, resolver, std::str::from_utf8(key))
    else {
        return Err(refused);
    };
    let (host, mask) = match text.split_once('/') {
        Some((host, mask)) => (host, Some(mask)),
        None => (text, None),
    };
    if let Some(addr) = network::inet_aton(host) {
        let network = network::of_host(addr.into(), mask).map_err(|_| refused)?;
        hosts.insert(key.to_vec(), network);
        return Ok(());
    }
    let is_name = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_');
    let named = host.bytes().any(|b| b.is_ascii_alphabetic()) && host.bytes().all(is_name);
    if !named {
        return Err(refused);
    }
    let addr = resolver
        .resolve(host)
        .map_err(|why| format!("{refused}, and as a host name it is not known: {why}"))?;
    let network = network::of_host(addr, mask).map_err(|_| refused)?;
    hosts.insert(key.to_vec(), network);
    Ok(())
}
