//! Versions of a list and changes to it: what the runtime command line and actions like `set-map` do (management manual,
//! `add map`, `prepare map`, `commit map`).

use std::sync::Arc;

use super::elements::{Elements, TEXT_MAX};
use super::generation::Generation;
use super::list::{List, Writer};
use super::map::MapResult;
use super::method::Match;
use super::view::{self, Checked, Kind};

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

/// Deleted entries that indexes may keep besides half of the living ones, so that short lists are not built again for
/// every change.
const DELETED_SLACK: usize = if cfg!(test) { 2 } else { 1024 };

impl List {
    /// What a value is read as, by the name of its type.
    pub fn value_type(&self, value: &[u8]) -> &'static str {
        let writer = self.writer();
        let read = writer.results.first().and_then(|r| r.read(value));
        read.map_or("str", |v| v.type_of().name())
    }

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
        self.note_change();
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
            new.index(&writer.kinds, &writer.hosts);
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
                node.view.rebuild(node.kind, &generation.all, &writer.hosts);
            }
        }
        self.note_change();
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
                empty.index(&writer.kinds, &writer.hosts);
                writer.deleted = 0;
                self.current.store(empty);
                self.note_change();
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
        new.index(&writer.kinds, &writer.hosts);
        writer.prepared.retain(|v, _| *v > version);
        writer.version = version;
        writer.deleted = 0;
        self.current.store(new);
        self.note_change();
        Ok(())
    }
}

fn check_value(results: &[MapResult], value: &[u8]) -> Result<(), EditError> {
    let unread = |r: &MapResult, e| match r {
        MapResult::Int | MapResult::Ip => {
            format!("unable to parse '{}'", String::from_utf8_lossy(value))
        }
        _ => e,
    };
    results
        .iter()
        .try_for_each(|r| r.check(value).map_err(|e| unread(r, e)))
        .map_err(EditError::Invalid)
}
