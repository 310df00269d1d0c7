//! Regular expressions: `-m reg`. The first one of the list that matches wins.

use arc_swap::ArcSwap;

use super::elements::Elements;
use super::regex::Regex;

pub(super) struct RegexIndex {
    list: ArcSwap<Compiled>,
}

impl RegexIndex {
    /// The error is the first pattern that does not compile, and why.
    pub(super) fn build(ignore_case: bool, all: &Elements) -> Result<Self, (Vec<u8>, String)> {
        Ok(RegexIndex {
            list: ArcSwap::from_pointee(compile_all(ignore_case, all)?),
        })
    }

    pub(super) fn add(&self, id: u32, regex: Regex) {
        let mut list = Vec::clone(&self.list.load());
        list.push((id, regex));
        self.list.store(list.into());
    }

    /// Drops deleted entries and compiles those it does not know.
    pub(super) fn rebuild(&self, ignore_case: bool, all: &Elements) {
        let old = self.list.load();
        let mut list = Vec::with_capacity(all.len());
        all.visit(0, |id, key, _| {
            let known = old.binary_search_by_key(&id, |(id, _)| *id);
            let regex = match known.ok().and_then(|at| old.get(at)) {
                Some((_, regex)) => Some(regex.clone()),
                None => compile(key, ignore_case).ok(),
            };
            list.extend(regex.map(|r| (id, r)));
            true
        });
        self.list.store(list.into());
    }

    /// The entry that matches and its expression.
    pub(super) fn find<R>(
        &self,
        sample: &[u8],
        all: &Elements,
        f: impl FnOnce(u32, &Regex) -> R,
    ) -> Option<R> {
        let list = self.list.load();
        let hit = list
            .iter()
            .find(|(id, regex)| regex.is_match(sample) && all.is_live(*id));
        hit.map(|(id, regex)| f(*id, regex))
    }
}

type Compiled = Vec<(u32, Regex)>;

fn compile_all(ignore_case: bool, all: &Elements) -> Result<Compiled, (Vec<u8>, String)> {
    let mut list = Vec::with_capacity(all.len());
    let mut failed = None;
    all.visit(0, |id, key, _| {
        match compile(key, ignore_case) {
            Ok(regex) => list.push((id, regex)),
            Err(e) => failed = Some((key.to_vec(), e)),
        }
        failed.is_none()
    });
    match failed {
        Some(e) => Err(e),
        None => Ok(list),
    }
}

pub(super) fn compile(key: &[u8], ignore_case: bool) -> Result<Regex, String> {
    let text = std::str::from_utf8(key)
        .map_err(|_| format!("regex '{}' is not UTF-8", String::from_utf8_lossy(key)))?;
    Regex::new(text, ignore_case)
}
