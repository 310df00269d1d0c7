//! ACLs and conditions (manual chapter 7): `acl NAME criterion flags operator values` and `if/unless ...`.

/// The outcome of a test on data that may be incomplete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tri {
    Fail,
    /// Not enough data yet.
    Miss,
    Pass,
}
