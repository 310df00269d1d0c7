//! The process's lists by name: pattern files, map files, and the patterns written in ACLs themselves.
//!
//! Each configuration has a store of its own. A list made from a file is one for all who name the file. The next configuration's
//! store takes over the lists whose files are as they were ([`Store::successor`]), with everything changed in them
//! since; a file that was edited gives a new list, so that a start that fails changes nothing.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::file::{self, Columns};
use super::list::List;
use super::map::MapResult;
use super::view::Kind;
use crate::compile::{Loader, ParseCtx};

/// All lists of one configuration.
#[derive(Default)]
pub struct Store {
    inner: RwLock<Inner>,
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
    /// How this configuration searches it and reads its values.
    kinds: Vec<Kind>,
    results: Vec<MapResult>,
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
            inner: RwLock::new(Inner {
                inherited,
                ..Inner::default()
            }),
        }
    }

    fn inner(&self) -> RwLockReadGuard<'_, Inner> {
        self.inner.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self) -> RwLockWriteGuard<'_, Inner> {
        self.inner.write().unwrap_or_else(PoisonError::into_inner)
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
        let mut inner = self.change();
        // an ACL with `-M` uses a map
        let what = match columns {
            Columns::Pattern => "acl",
            Columns::PatternAndValue => "map",
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
            kinds: Vec::new(),
            results: Vec::new(),
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
        let mut inner = self.change();
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
            kinds: Vec::new(),
            results: Vec::new(),
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
        let fits = |in_acl: bool, in_map: bool| match user {
            User::Acl => in_acl,
            User::Map => in_map,
        };
        if let Some(id) = reference.strip_prefix('#') {
            let id: u32 = id.parse().ok()?;
            let all = self.lists().into_iter();
            return all
                .filter(|l| fits(l.in_acl, l.in_map))
                .find(|l| l.id == id)
                .map(|l| l.list);
        }
        let inner = self.inner();
        let entry = inner.entries.get(*inner.by_file.get(reference)?)?;
        fits(entry.in_acl, entry.in_map).then(|| entry.source.list.clone())
    }

    fn note(&self, name: &str, kind: Option<Kind>, result: Option<MapResult>) {
        let mut inner = self.change();
        let Some(&at) = inner.by_file.get(name) else {
            return;
        };
        if let Some(entry) = inner.entries.get_mut(at) {
            entry.kinds.extend(kind.map(Kind::canonical));
            entry.results.extend(result);
        }
    }

    /// Call it once this configuration has taken over: shared lists need not suit the one before any longer.
    pub fn take_over(&self) {
        let inner = self.inner();
        for entry in inner.entries.iter().filter(|e| !e.file.is_empty()) {
            entry.source.list.keep_only(&entry.kinds, &entry.results);
        }
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
        .map_err(|(key, why)| locate(&key, why, name, columns, ctx))?;
    ctx.store.note(name, Some(kind), None);
    Ok(())
}

/// Makes a list's values readable as `result`, with the line of its file in the error.
pub(crate) fn read_values(
    list: &List,
    result: MapResult,
    name: &str,
    ctx: &ParseCtx<'_>,
) -> Result<(), String> {
    list.read_as(result)
        .map_err(|(key, why)| locate(&key, why, name, Columns::PatternAndValue, ctx))?;
    ctx.store.note(name, None, Some(result));
    Ok(())
}

fn locate(key: &[u8], why: String, name: &str, columns: Columns, ctx: &ParseCtx<'_>) -> String {
    let text = read(name, ctx.loader).unwrap_or_default();
    match file::line_of(&text, columns, key) {
        Some(line) => format!("{why} at line {line} of file '{name}'"),
        None => format!("{why} in '{name}'"),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;
    use crate::pattern::{EditError, MapRef, Match};
    use crate::place::Place;
    use crate::value::Value;

    /// One file, `m`, with these bytes.
    struct File(RefCell<&'static str>);

    impl Loader for File {
        fn load(&self, path: &str) -> Result<Vec<u8>, String> {
            match path {
                "m" => Ok(self.0.borrow().as_bytes().to_vec()),
                _ => Err(format!("there is no '{path}'")),
            }
        }
    }

    fn map(store: &Store, loader: &File, converter: &str, name: &str) -> Result<MapRef, String> {
        MapRef::for_converter(converter, name, None, &ctx(store, loader))
    }

    fn ctx<'c>(store: &'c Store, loader: &'c File) -> ParseCtx<'c> {
        ParseCtx {
            place: Place::empty(),
            loader,
            store,
            file: "h.cfg",
            line: 14,
            http: true,
            acls: None,
        }
    }

    fn get(map: &MapRef, key: &str) -> Option<String> {
        let found = map.lookup(&Value::Str(key.as_bytes().into()))?;
        Some(String::from_utf8_lossy(found.bytes()?).into_owned())
    }

    #[test]
    fn lists_survive_until_their_file_changes() {
        let file = File(RefCell::new("a 1\nb 2\n"));
        let first = Store::new();
        let old = map(&first, &file, "map", "m").unwrap();
        first
            .find("m", User::Map)
            .unwrap()
            .put(b"a", b"changed")
            .unwrap();

        // The same file: with what was changed since.
        let second = first.successor();
        let new = map(&second, &file, "map_beg", "m").unwrap();
        assert_eq!(get(&new, "ax").as_deref(), Some("changed"));
        second
            .find("m", User::Map)
            .unwrap()
            .put(b"c", b"3")
            .unwrap();
        assert_eq!(get(&old, "c").as_deref(), Some("3"));

        // Another content: a list of its own, and the one in use stays as it is.
        *file.0.borrow_mut() = "a 9\n";
        let third = second.successor();
        let fresh = map(&third, &file, "map", "m").unwrap();
        assert_eq!(get(&fresh, "a").as_deref(), Some("9"));
        assert_eq!(get(&fresh, "c"), None);
        assert_eq!(get(&old, "a").as_deref(), Some("changed"));
    }

    #[test]
    fn what_only_the_configuration_before_needed_is_forgotten() {
        let file = File(RefCell::new("1 1\n"));
        let first = Store::new();
        map(&first, &file, "map_int_int", "m").unwrap();
        let second = first.successor();
        let new = map(&second, &file, "map", "m").unwrap();
        let list = second.find("m", User::Map).unwrap();
        // Until then, the list must suit both.
        let refused = |r: Result<(), EditError>| matches!(r, Err(EditError::Invalid(_)));
        assert!(refused(list.put(b"x", b"1")));
        assert!(refused(list.put(b"2", b"x")));
        second.take_over();
        list.put(b"x", b"y").unwrap();
        assert_eq!(get(&new, "x").as_deref(), Some("y"));
        // A way to search it that comes back finds all there is.
        list.delete(None, b"x").unwrap();
        list.put(b"5:7", b"3").unwrap();
        list.searched_by(Kind::of(Match::Int), None).unwrap();
        assert!(list.matches(Kind::of(Match::Int), &Value::Sint(6)));
    }

    #[test]
    fn names_and_numbers() {
        let file = File(RefCell::new("a b\n"));
        let store = Store::new();
        let ctx = ctx(&store, &file);
        store
            .inline("path_beg", None, &["/x".into(), "/y".into()], &ctx)
            .unwrap();
        store.load_acl_file("m", Columns::Pattern, &ctx).unwrap();
        store.inline("path", Some(0), &[], &ctx).unwrap();
        store.load_acl_file("m", Columns::Pattern, &ctx).unwrap();
        map(&store, &file, "map", "virt@v").unwrap();
        map(&store, &file, "map", "opt@gone").unwrap();
        let listed: Vec<String> = store
            .lists()
            .iter()
            .map(|l| format!("{} ({}) {} {}", l.id, l.file, l.description, l.list.len()))
            .collect();
        assert_eq!(
            listed,
            [
                "0 () acl 'path' file 'h.cfg' line 14 0",
                "1 () acl 'path_beg' file 'h.cfg' line 14 2",
                "2 (m) pattern loaded from file 'm' used by acl at file 'h.cfg' line 14, by acl at file 'h.cfg' line 14 1",
                "3 (virt@v) pattern loaded from file 'virt@v' used by map at file 'h.cfg' line 14 0",
                "4 (opt@gone) pattern loaded from file 'opt@gone' used by map at file 'h.cfg' line 14 0",
            ]
        );
        assert!(store.find("#1", User::Acl).is_some());
        assert!(store.find("#1", User::Map).is_none());
        assert!(store.find("m", User::Acl).is_some());
        assert!(store.find("", User::Acl).is_none());
        assert!(store.find("#9", User::Acl).is_none());
        let e = store.inline("src", Some(0), &[], &ctx).unwrap_err();
        assert_eq!(e, "the unique id 0 is used by another ACL already");
        let e = map(&store, &file, "map", "m").unwrap_err();
        assert_eq!(e, "'m' is used as a list without values already");
        assert_eq!(
            map(&store, &file, "map", "gone").unwrap_err(),
            "there is no 'gone'"
        );
    }

    #[test]
    fn maps_of_every_kind() {
        let file = File(RefCell::new("10.0.0.0/8 192.0.2.1\n"));
        let check =
            |converter: &str, text: &'static str, key: Value<'_>, want: Option<Value<'_>>| {
                *file.0.borrow_mut() = text;
                let map = map(&Store::new(), &file, converter, "m").unwrap();
                assert_eq!(map.lookup(&key), want, "{converter}");
            };
        let text = |s: &'static str| Value::Str(s.as_bytes().into());
        let ip = |s: &str| Value::Ipv4(s.parse().unwrap());
        check("map", "k v", text("k"), Some(text("v")));
        check("map_str_int", "k 5", text("k"), Some(Value::Sint(5)));
        check("map_beg_key", "k 5", text("kk"), Some(text("k")));
        check("map_end_ip", "k 10.0.0.1", text("xk"), Some(ip("10.0.0.1")));
        check(
            "map_ip_ip",
            "10.0.0.0/8 192.0.2.1",
            ip("10.1.1.1"),
            Some(ip("192.0.2.1")),
        );
        check("map_int", "1:5 low", Value::Sint(3), Some(text("low")));
        check("map_int_int", "1:5 7", Value::Sint(6), None);
        check(
            "map_reg",
            "^/(.) got-\\1",
            text("/x"),
            Some(text("got-\\1")),
        );
        check("map_regm", "^/(.) got-\\1", text("/x"), Some(text("got-x")));
        check("map_dom", "b v", text("a.b.c"), Some(text("v")));
        for (converter, content, message) in [
            (
                "map_int",
                "a v",
                "'a' is not a number at line 1 of file 'm'",
            ),
            (
                "map_int",
                "#\n1 a\n5:3 v",
                "'5:3' is not a valid number range at line 3 of file 'm'",
            ),
            (
                "map_ip",
                "10.0.0.0/8 a\nlocalhost b",
                "'localhost' is not a valid IPv4 or IPv6 address at line 2 of file 'm'",
            ),
            (
                "map_str_int",
                "a 5\nb x",
                "'x' is not a number at line 2 of file 'm'",
            ),
            (
                "map_str_ip",
                "b x",
                "'x' is not a valid IPv4 or IPv6 address at line 1 of file 'm'",
            ),
            (
                "map_reg",
                "a b\n( c",
                "regex '(' is invalid: missing closing parenthesis at offset 1 at line 2 of file 'm'",
            ),
            (
                "map_regm",
                "a b\\",
                "replacement ends with a lone '\\'; write '\\\\' for one at line 1 of file 'm'",
            ),
            ("map_bool", "", "'map_bool' is no map converter"),
            ("mapx", "", "'mapx' is no map converter"),
        ] {
            *file.0.borrow_mut() = content;
            assert_eq!(
                map(&Store::new(), &file, converter, "m").unwrap_err(),
                message
            );
        }
    }
}
