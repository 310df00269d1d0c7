//! The ACLs a section declares, and the predefined ones (manual chapter 7.4).

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::Tri;
use super::test::Test;
use crate::compile::{Names, ParseCtx};
use crate::env::Env;
use crate::error::ExprError;
use crate::place::Place;
use crate::suggest;

/// An ACL: tests of which one must pass. Conditions share it, so that tests added later count for them too.
pub(super) struct Acl {
    /// Empty for an anonymous one.
    pub(super) name: String,
    first: Node,
}

struct Node {
    test: Test,
    next: OnceLock<Box<Node>>,
}

impl Acl {
    pub(super) fn new(name: &str, test: Test) -> Self {
        Acl {
            name: name.to_owned(),
            first: Node {
                test,
                next: OnceLock::new(),
            },
        }
    }

    fn append(&self, test: Test) {
        let mut node = Box::new(Node {
            test,
            next: OnceLock::new(),
        });
        let mut last = &self.first;
        loop {
            match last.next.set(node) {
                Ok(()) => return,
                Err(back) => node = back,
            }
            if let Some(next) = last.next.get() {
                last = next;
            }
        }
    }

    pub(super) fn tests(&self) -> impl Iterator<Item = &Test> {
        std::iter::successors(Some(&self.first), |n| n.next.get().map(Box::as_ref)).map(|n| &n.test)
    }

    #[inline]
    pub(super) fn eval(&self, env: &dyn Env, is_final: bool) -> Tri {
        let mut result = Tri::Fail;
        for test in self.tests() {
            match test.eval(env, is_final) {
                Tri::Pass => return Tri::Pass,
                Tri::Miss => result = Tri::Miss,
                Tri::Fail => {}
            }
        }
        result
    }

    /// The checkpoints at which at least one test can match.
    pub(super) fn places(&self) -> Place {
        self.tests()
            .fold(Place::empty(), |all, t| all.union(t.places()))
    }

    pub(super) fn resolve(&self, names: &dyn Names) -> Vec<ExprError> {
        self.tests().flat_map(|t| t.resolve(names)).collect()
    }
}

impl fmt::Debug for Acl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acl")
            .field("name", &self.name)
            .field("tests", &self.tests().collect::<Vec<_>>())
            .finish()
    }
}

/// The predefined ACLs: name, then the words of a declaration.
pub const PREDEFINED: &[(&str, &[&str])] = &[
    ("FALSE", &["always_false"]),
    ("HTTP", &["req.proto_http"]),
    ("HTTP_1.0", &["req.ver", "1.0"]),
    ("HTTP_1.1", &["req.ver", "1.1"]),
    ("HTTP_2.0", &["req.ver", "2.0"]),
    ("HTTP_3.0", &["req.ver", "3.0"]),
    ("HTTP_CONTENT", &["req.hdr_val(content-length)", "gt", "0"]),
    ("HTTP_URL_ABS", &["url_reg", "^[^/:]*://"]),
    ("HTTP_URL_SLASH", &["url_beg", "/"]),
    ("HTTP_URL_STAR", &["url", "*"]),
    ("LOCALHOST", &["src", "127.0.0.1/8", "::1"]),
    ("METH_CONNECT", &["method", "CONNECT"]),
    ("METH_DELETE", &["method", "DELETE"]),
    ("METH_GET", &["method", "GET", "HEAD"]),
    ("METH_HEAD", &["method", "HEAD"]),
    ("METH_OPTIONS", &["method", "OPTIONS"]),
    ("METH_POST", &["method", "POST"]),
    ("METH_PUT", &["method", "PUT"]),
    ("METH_TRACE", &["method", "TRACE"]),
    ("RDP_COOKIE", &["req.rdp_cookie_cnt", "gt", "0"]),
    ("REQ_CONTENT", &["req.len", "gt", "0"]),
    ("TRUE", &["always_true"]),
    ("WAIT_END", &["wait_end"]),
];

/// The ACLs declared in one section.
#[derive(Debug, Default)]
pub struct AclTable {
    acls: HashMap<String, Arc<Acl>>,
    /// Predefined ones, made when a condition first uses them.
    predefined: Mutex<HashMap<&'static str, Arc<Acl>>>,
    warnings: Vec<ExprError>,
}

impl AclTable {
    pub fn new() -> Self {
        AclTable::default()
    }

    /// Takes `NAME criterion [flags] [operator] [values...]`, the words after `acl`. A name declared again gains
    /// alternatives, also in the conditions that already use it. Errors count words from the name (0).
    pub fn declare(&mut self, words: &[&str], ctx: &ParseCtx<'_>) -> Result<(), ExprError> {
        let Some((&name, rest)) = words.split_first().filter(|(n, _)| !n.is_empty()) else {
            return Err(ExprError::new("'acl' needs a name and a criterion")
                .hint("acl <name> <criterion> [flags] [operator] [<value>...]"));
        };
        check_name(name)?;
        let mut warnings = Vec::new();
        // An ACL may be made of others by the fetch `acl`.
        let ctx = &ParseCtx {
            acls: Some(self),
            ..*ctx
        };
        let test = Test::parse(rest, ctx, &mut warnings).map_err(|e| shifted(e, 1));
        self.warnings
            .extend(warnings.into_iter().map(|w| shifted(w, 1)));
        let test = test?;
        match self.acls.get(name) {
            Some(acl) => acl.append(test),
            None => {
                self.acls
                    .insert(name.to_owned(), Arc::new(Acl::new(name, test)));
            }
        }
        Ok(())
    }

    /// What deserves a warning in the declarations since the last call.
    pub fn take_warnings(&mut self) -> Vec<ExprError> {
        std::mem::take(&mut self.warnings)
    }

    /// Whether a name is declared here.
    pub fn declares(&self, name: &str) -> bool {
        self.acls.contains_key(name)
    }

    /// Binds the names used by all ACLs, used or not.
    pub fn resolve(&self, names: &dyn Names) -> Vec<ExprError> {
        self.acls.values().flat_map(|a| a.resolve(names)).collect()
    }

    /// The ACL of that name, the section's own before a predefined one.
    pub(super) fn find(&self, name: &str, ctx: &ParseCtx<'_>) -> Result<Arc<Acl>, ExprError> {
        if let Some(acl) = self.acls.get(name) {
            return Ok(acl.clone());
        }
        let Some((title, words)) = PREDEFINED.iter().find(|(n, _)| *n == name) else {
            let known = self.acls.keys().map(String::as_str);
            let known = known.chain(PREDEFINED.iter().map(|(n, _)| *n));
            let error = ExprError::new(format!("no ACL is called '{name}'"));
            if name.starts_with('{') || name.ends_with('}') {
                return Err(error.hint("put spaces around the braces of an anonymous ACL"));
            }
            return Err(match suggest::nearest(name, known) {
                Some(near) => error.hint(format!("did you mean '{near}'?")),
                None => error.hint(format!("declare it before with 'acl {name} ...'")),
            });
        };
        let mut made = self
            .predefined
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(acl) = made.get(title) {
            return Ok(acl.clone());
        }
        let test = Test::parse(words, ctx, &mut Vec::new())
            .map_err(|e| ExprError::new(format!("predefined ACL '{name}': {}", e.message)))?;
        let acl = Arc::new(Acl::new(title, test));
        made.insert(title, acl.clone());
        Ok(acl)
    }
}

fn check_name(name: &str) -> Result<(), ExprError> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':');
    if let Some((at, c)) = name.char_indices().find(|(_, c)| !allowed(*c)) {
        return Err(ExprError::new(format!(
            "character '{c}' is not permitted in ACL name '{name}'"
        ))
        .at(at..at + c.len_utf8())
        .hint("use letters, digits, '-', '_', '.' and ':'"));
    }
    if name.eq_ignore_ascii_case("or") {
        return Err(ExprError::new(format!(
            "an ACL called '{name}' could never be used: 'or' joins the terms of a condition"
        )));
    }
    Ok(())
}

/// The error in a longer list of words.
pub(super) fn shifted(error: ExprError, by: usize) -> ExprError {
    let word = error.word + by;
    error.in_word(word)
}
