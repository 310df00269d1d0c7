//! The process's lists by name: pattern files, map files, and the patterns written in ACLs themselves.
//!
//! Each configuration has a store. A list made from a file is one for all who name the file. The next configuration's
//! store takes over the lists whose files are as they were ([`Store::successor`]), with everything changed in them
//! since; a file that was edited gives a new list, so that a start that fails changes nothing.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use std::collections::HashMap;

use super::file::{self, Columns};
use super::list::List;
use super::map::MapResult;
use super::view::Kind;
use crate::compile::{Loader, ParseCtx};

/// All lists of one configuration.
#[derive(Default)]
pub struct Store {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    /// In the order of their first use, which is the order of their numbers.
    entries: Vec<Entry>,
    by_file: HashMap<String, usize>,
    /// Lists of the configuration before, by file.
    inherited: HashMap<String, Source>,
}

#[derive(Clone)]
struct Source {
    list: Arc<List>,
    columns: Columns,
    digest: u128,
}

struct Entry {
    /// The file, empty for patterns written in the configuration.
    file: String,
    source: Source,
    /// What uses it: the sentence of `show acl`.
    description: String,
    id: Option<u32>,
    in_acl: bool,
    in_map: bool,
}

/// A list as `show acl` and `show map` name it.
#[derive(Debug, Clone)]
pub struct Listed {
    pub id: u32,
    /// Empty for patterns written in the configuration.
    pub file: String,
    pub description: String,
    pub list: Arc<List>,
    pub in_acl: bool,
    pub in_map: bool,
}

/// Who uses a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum User {
    Acl,
    Map,
}

/// A list of this configuration that is a file of that name: a name with `virt@` before it has no file and starts
/// empty, with `opt@` the file may be missing, with `file@` it is as without.
fn read(name: &str, loader: &dyn Loader) -> Result<Vec<u8>, String> {
    if name.starts_with("virt@") {
        return Ok(Vec::new());
    }
    if let Some(path) = name.strip_prefix("opt@") {
        return Ok(loader.load(path).unwrap_or_default());
    }
    loader.load(name.strip_prefix("file@").unwrap_or(name))
}

impl Store {
    pub fn new() -> Self {
        Store::default()
    }

    /// A store for the next configuration, which shares the lists whose files will turn out not to have changed.
    pub fn successor(&self) -> Store {
        let inner = self.inner();
        let files = inner.entries.iter().filter(|e| !e.file.is_empty());
        let inherited = files.map(|e| (e.file.clone(), e.source.clone())).collect();
        Store {
            inner: Mutex::new(Inner {
                inherited,
                ..Inner::default()
            }),
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The list of a pattern file, `-f` of an ACL; with `-M` its lines have values.
    pub fn load_acl_file(
        &self,
        name: &str,
        columns: Columns,
        ctx: &ParseCtx<'_>,
    ) -> Result<Arc<List>, String> {
        self.load(name, columns, User::Acl, ctx)
    }

    /// The list of a map file.
    pub fn load_map(&self, name: &str, ctx: &ParseCtx<'_>) -> Result<Arc<List>, String> {
        self.load(name, Columns::PatternAndValue, User::Map, ctx)
    }

    fn load(
        &self,
        name: &str,
        columns: Columns,
        user: User,
        ctx: &ParseCtx<'_>,
    ) -> Result<Arc<List>, String> {
        let mut inner = self.inner();
        let what = match user {
            User::Acl => "acl",
            User::Map => "map",
        };
        let use_here = format!("by {what} at file '{}' line {}", ctx.file, ctx.line);
        if let Some(&at) = inner.by_file.get(name) {
            let entry = &mut inner.entries[at];
            if entry.source.columns != columns {
                return Err(match columns {
                    Columns::PatternAndValue => {
                        format!("'{name}' is used as a list without values already")
                    }
                    Columns::Pattern => format!(
                        "'{name}' is used as a map already: an ACL needs '-M' to read its patterns"
                    ),
                });
            }
            entry.description.push_str(", ");
            entry.description.push_str(&use_here);
            entry.in_acl |= user == User::Acl;
            entry.in_map |= user == User::Map || columns == Columns::PatternAndValue;
            return Ok(entry.source.list.clone());
        }
        let text = read(name, ctx.loader)?;
        let digest = xxhash_rust::xxh3::xxh3_128(&text);
        let inherited = inner.inherited.get(name);
        let kept = inherited.filter(|s| s.digest == digest && s.columns == columns);
        let list = match kept {
            Some(source) => source.list.clone(),
            None => Arc::new(List::new(file::entries(&text, columns))),
        };
        let at = inner.entries.len();
        inner.by_file.insert(name.to_owned(), at);
        inner.entries.push(Entry {
            file: name.to_owned(),
            source: Source {
                list: list.clone(),
                columns,
                digest,
            },
            description: format!("pattern loaded from file '{name}' used {use_here}"),
            id: None,
            in_acl: user == User::Acl,
            in_map: user == User::Map || columns == Columns::PatternAndValue,
        });
        Ok(list)
    }

    /// Patterns written in an ACL whose criterion is `keyword`. `id` is `-u`: the error says that it is taken.
    pub fn inline(
        &self,
        keyword: &str,
        id: Option<u32>,
        patterns: &[String],
        ctx: &ParseCtx<'_>,
    ) -> Result<Arc<List>, String> {
        let mut inner = self.inner();
        if let Some(id) = id
            && inner.entries.iter().any(|e| e.id == Some(id))
        {
            return Err(format!("the unique id {id} is used by another ACL already"));
        }
        let texts = patterns.iter().map(|p| (p.as_bytes(), &b""[..]));
        let list = Arc::new(List::new(texts));
        inner.entries.push(Entry {
            file: String::new(),
            source: Source {
                list: list.clone(),
                columns: Columns::Pattern,
                digest: 0,
            },
            description: format!("acl '{keyword}' file '{}' line {}", ctx.file, ctx.line),
            id,
            in_acl: true,
            in_map: false,
        });
        Ok(list)
    }

    /// All lists with their numbers: the forced ones (`-u`) have theirs, the others get what is left in order.
    pub fn lists(&self) -> Vec<Listed> {
        let inner = self.inner();
        let forced: Vec<u32> = inner.entries.iter().filter_map(|e| e.id).collect();
        let mut next = 0;
        let mut all: Vec<Listed> = inner
            .entries
            .iter()
            .map(|e| {
                let id = e.id.unwrap_or_else(|| {
                    while forced.contains(&next) {
                        next += 1;
                    }
                    next += 1;
                    next - 1
                });
                Listed {
                    id,
                    file: e.file.clone(),
                    description: e.description.clone(),
                    list: e.source.list.clone(),
                    in_acl: e.in_acl,
                    in_map: e.in_map,
                }
            })
            .collect();
        all.sort_by_key(|l| l.id);
        all
    }

    /// The list a command means: `#<id>` or the name of its file.
    pub fn find(&self, reference: &str, user: User) -> Option<Arc<List>> {
        let fits = |l: &Listed| match user {
            User::Acl => l.in_acl,
            User::Map => l.in_map,
        };
        let mut all = self.lists().into_iter().filter(fits);
        let found = match reference.strip_prefix('#') {
            Some(id) => {
                let id: u32 = id.parse().ok()?;
                all.find(|l| l.id == id)
            }
            None => all.find(|l| !l.file.is_empty() && l.file == reference),
        };
        found.map(|l| l.list)
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.lists()).finish()
    }
}

/// Makes a list searchable as `kind`, with the line of its file in the error.
pub(crate) fn search(
    list: &List,
    kind: Kind,
    name: &str,
    columns: Columns,
    resolve: bool,
    ctx: &ParseCtx<'_>,
) -> Result<(), String> {
    list.searched_by(kind, resolve.then_some(ctx.loader))
        .map_err(|(key, why)| locate(&key, why, name, columns, ctx))
}

/// Makes a list's values readable as `result`, with the line of its file in the error.
pub(crate) fn read_values(
    list: &List,
    result: MapResult,
    name: &str,
    ctx: &ParseCtx<'_>,
) -> Result<(), String> {
    list.read_as(result)
        .map_err(|(key, why)| locate(&key, why, name, Columns::PatternAndValue, ctx))
}

fn locate(key: &[u8], why: String, name: &str, columns: Columns, ctx: &ParseCtx<'_>) -> String {
    let text = read(name, ctx.loader).unwrap_or_default();
    match file::line_of(&text, columns, key) {
        Some(line) => format!("{why} at line {line} of file '{name}'"),
        None => format!("{why} in '{name}'"),
    }
}
