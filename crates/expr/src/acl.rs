//! ACLs and conditions (manual chapter 7): `acl NAME criterion flags operator values` and `if/unless ...`.

use crate::compile::{Names, ParseCtx};
use crate::env::Env;
use crate::error::ExprError;
use crate::place::Place;

/// The outcome of a test on data that may be incomplete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tri {
    Fail,
    /// Not enough data yet.
    Miss,
    Pass,
}

/// The ACLs declared in one proxy, and those predefined.
#[derive(Debug, Default)]
pub struct AclTable {
    warnings: Vec<ExprError>,
}

impl AclTable {
    pub fn new() -> Self {
        AclTable::default()
    }

    /// Takes `NAME criterion [flags] [operator] [values...]`, the words after `acl`. A name declared again gains
    /// alternatives, also in the conditions that already use it.
    pub fn declare(&mut self, _words: &[&str], _ctx: &ParseCtx<'_>) -> Result<(), ExprError> {
        Err(ExprError::new("ACLs are being built"))
    }

    /// What deserves a warning in the declarations since the last call.
    pub fn take_warnings(&mut self) -> Vec<ExprError> {
        std::mem::take(&mut self.warnings)
    }

    /// Binds the names used by all ACLs, used or not.
    pub fn resolve(&self, _names: &dyn Names) -> Vec<ExprError> {
        Vec::new()
    }
}

/// A condition: `if` or `unless` and what follows. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Cond {}

impl Cond {
    /// Takes the words from `if` or `unless` on.
    pub fn parse(
        _words: &[&str],
        _acls: &AclTable,
        _ctx: &ParseCtx<'_>,
    ) -> Result<Cond, ExprError> {
        Err(ExprError::new("conditions are being built"))
    }

    /// What deserves a warning in this condition's text (an anonymous ACL without patterns...).
    pub fn warnings(&self) -> &[ExprError] {
        &[]
    }

    /// A sentence when an ACL of this condition can never match at `place` because the data it looks at is not there.
    pub fn conflict(&self, _place: Place) -> Option<String> {
        None
    }

    /// All checkpoints at which something in this condition makes sense.
    pub fn places(&self) -> Place {
        Place::all()
    }

    /// Whether the rule applies; `unless` is already accounted for.
    pub fn eval(&self, _env: &dyn Env) -> Tri {
        Tri::Fail
    }

    /// The same once no more data will come: what is missing counts as no match.
    pub fn eval_final(&self, _env: &dyn Env) -> bool {
        false
    }

    /// Binds the names used by its ACLs.
    pub fn resolve(&self, _names: &dyn Names) -> Vec<ExprError> {
        Vec::new()
    }
}
