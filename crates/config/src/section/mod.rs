//! The sections of a file: what opens each, and every keyword table.

mod header;

use std::sync::Arc;

use crate::cx::Cx;
use crate::line::Line;
use crate::registry::{Keyword, Sections};

/// Every table of the registry, in the order the documentation shows.
pub(crate) static KEYWORD_TABLES: &[&[Keyword]] = &[crate::proxy::KEYWORDS];

/// One kind of section.
pub struct Section {
    pub name: &'static str,
    pub kind: Sections,
    /// "" none, "<name>" required, "[<name>]" optional.
    pub args: &'static str,
    pub help: &'static str,
    pub(crate) open: fn(&mut Cx<'_>, &Arc<Line>),
}

/// Every section Sluice knows the name of.
pub static SECTIONS: &[Section] = header::SECTIONS;
