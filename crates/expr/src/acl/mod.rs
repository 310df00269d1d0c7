//! ACLs and conditions (manual chapter 7): `acl NAME criterion flags operator values` and `if/unless ...`.
//!
//! A [`AclTable`] holds what one section declares; a [`Cond`] is what stands after `if`. Criteria that are only for
//! ACLs (`path_beg`) are in [`keyword`].

mod cond;
mod keyword;
mod table;
mod test;

pub use cond::Cond;
pub use keyword::{AclKeyword, KEYWORDS, dump_acl};
pub use table::{AclTable, PREDEFINED};

/// The outcome of a test on data that may be incomplete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tri {
    Fail,
    /// Not enough data yet.
    Miss,
    Pass,
}

impl Tri {
    /// A term's `!`: what is not known yet stays so.
    fn negated(self) -> Tri {
        match self {
            Tri::Fail => Tri::Pass,
            Tri::Miss => Tri::Miss,
            Tri::Pass => Tri::Fail,
        }
    }
}

#[cfg(test)]
mod tests;
