//! Conditions: `if` or `unless`, then terms that are all true, or others after `or` (manual chapter 7.2).

use std::sync::Arc;

use super::Tri;
use super::table::{Acl, AclTable, shifted};
use super::test::Test;
use crate::compile::{Names, ParseCtx};
use crate::env::Env;
use crate::error::ExprError;
use crate::place::Place;

/// A condition: `if` or `unless` and what follows. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Cond {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    unless: bool,
    /// Groups of which one must pass, side by side.
    terms: Box<[Term]>,
    warnings: Vec<ExprError>,
}

#[derive(Debug)]
struct Term {
    negated: bool,
    /// The first of a group, all terms of which must hold.
    begins: bool,
    acl: Arc<Acl>,
}

impl Cond {
    /// Takes the words from `if` or `unless` on. Errors count words from there (0).
    pub fn parse(words: &[&str], acls: &AclTable, ctx: &ParseCtx<'_>) -> Result<Cond, ExprError> {
        let unless = match words.first() {
            Some(&"if") => false,
            Some(&"unless") => true,
            Some(other) => {
                return Err(ExprError::new(format!(
                    "a condition begins with 'if' or 'unless', not with '{other}'"
                )));
            }
            None => return Err(ExprError::new("a condition begins with 'if' or 'unless'")),
        };
        let ctx = &ParseCtx {
            acls: Some(acls),
            ..*ctx
        };
        let mut terms: Vec<Term> = Vec::new();
        let mut warnings = Vec::new();
        let (mut negated, mut new_group) = (false, true);
        let mut at = 1;
        while let Some(&word) = words.get(at) {
            let start = at;
            at += 1;
            let name = word.trim_start_matches('!');
            negated ^= (word.len() - name.len()) % 2 == 1;
            let acl = match name {
                // Exclamation marks may stand alone.
                "" => continue,
                "||" => {
                    (negated, new_group) = (false, true);
                    continue;
                }
                _ if name.eq_ignore_ascii_case("or") => {
                    (negated, new_group) = (false, true);
                    continue;
                }
                "{" => {
                    let Some(len) = words[at..].iter().position(|w| *w == "}") else {
                        return Err(
                            ExprError::new("the '{' of this anonymous ACL is not closed")
                                .in_word(start)
                                .hint("end it with '}', as a word of its own"),
                        );
                    };
                    let body = &words[at..at + len];
                    at += len + 1;
                    let mut noted = Vec::new();
                    let test =
                        Test::parse(body, ctx, &mut noted).map_err(|e| shifted(e, start + 1))?;
                    warnings.extend(noted.into_iter().map(|w| shifted(w, start + 1)));
                    Arc::new(Acl::new("", test))
                }
                _ => acls.find(name, ctx).map_err(|e| {
                    let len = word.len();
                    e.in_word(start).at(len - name.len()..len)
                })?,
            };
            terms.push(Term {
                negated,
                begins: new_group,
                acl,
            });
            (negated, new_group) = (false, false);
        }
        if terms.is_empty() {
            let always = if unless { "always" } else { "never" };
            warnings.push(ExprError::new(format!(
                "this condition has no term: it {always} applies"
            )));
        }
        Ok(Cond {
            inner: Arc::new(Inner {
                unless,
                terms: terms.into(),
                warnings,
            }),
        })
    }

    /// What deserves a warning in this condition's text (an anonymous ACL without patterns...).
    pub fn warnings(&self) -> &[ExprError] {
        &self.inner.warnings
    }

    fn acls(&self) -> impl Iterator<Item = &Acl> {
        self.inner.terms.iter().map(|t| &*t.acl)
    }

    /// A sentence when something in this condition can never match at `place` because the data it looks at is not
    /// there. `rule` names the place (`frontend 'http-request' header rule`).
    pub fn conflict(&self, place: Place, rule: &str) -> Option<String> {
        let dead = self.acls().find(|a| !a.places().intersects(place));
        if let Some(acl) = dead {
            let keyword = acl.tests().next().map_or("", |t| &t.keyword);
            return Some(match acl.name.as_str() {
                "" => format!(
                    "anonymous ACL will never match because it uses keyword '{keyword}' which is incompatible with \
                     '{rule}'"
                ),
                name => format!(
                    "ACL '{name}' will never match because it only involves keywords that are incompatible with \
                     '{rule}'"
                ),
            });
        }
        self.acls().find_map(|acl| {
            let test = acl.tests().find(|t| !t.places().intersects(place))?;
            Some(format!(
                "ACL '{}' involves keyword '{}' which is incompatible with '{rule}'",
                acl.name, test.keyword
            ))
        })
    }

    /// All checkpoints at which something in this condition makes sense.
    pub fn places(&self) -> Place {
        self.acls()
            .fold(Place::empty(), |all, a| all.union(a.places()))
    }

    /// Whether the rule applies; `unless` is already accounted for.
    #[inline]
    pub fn eval(&self, env: &dyn Env) -> Tri {
        let result = self.test(env, false);
        if self.inner.unless {
            result.negated()
        } else {
            result
        }
    }

    /// The same once no more data will come: what is missing counts as no match.
    #[inline]
    pub fn eval_final(&self, env: &dyn Env) -> bool {
        (self.test(env, true) == Tri::Pass) != self.inner.unless
    }

    fn test(&self, env: &dyn Env, is_final: bool) -> Tri {
        // what the groups before came to, and what the current one has come to so far
        let (mut result, mut group) = (Tri::Fail, Tri::Fail);
        for term in &self.inner.terms {
            if term.begins {
                match group {
                    Tri::Pass => return Tri::Pass,
                    Tri::Miss => result = Tri::Miss,
                    Tri::Fail => {}
                }
            } else if group != Tri::Pass {
                continue;
            }
            group = term.acl.eval(env, is_final);
            if term.negated {
                group = group.negated();
            }
        }
        match group {
            Tri::Fail => result,
            decided => decided,
        }
    }

    /// Binds the names used by its ACLs.
    pub fn resolve(&self, names: &dyn Names) -> Vec<ExprError> {
        self.acls().flat_map(|a| a.resolve(names)).collect()
    }
}
