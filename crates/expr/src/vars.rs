//! Variables: scopes, names resolved to numbers at load, and the store each scope keeps (manual, `set-var`).

use std::sync::Arc;

/// How long a variable lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scope {
    Proc,
    Sess,
    Txn,
    Req,
    Res,
    Check,
}

/// A variable as an expression refers to it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct VarRef {
    pub scope: Scope,
    /// Process-wide number of the name (see the name table), so that nothing is compared as text while traffic flows.
    pub index: u32,
    /// The name without its scope, for messages.
    pub name: Arc<str>,
}
