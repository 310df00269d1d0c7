//! The sections of a file: what opens each, and every keyword table.

mod global;
pub(crate) mod header;
mod http_errors;
mod later;
mod log_forward;
mod log_profile;
mod mailers;
mod ring;
mod userlist;

use std::sync::Arc;

use crate::cx::Cx;
use crate::line::Line;
use crate::registry::{Keyword, Sections};

/// The tables of all sections but the proxies', in the order the documentation shows.
pub(crate) fn tables() -> impl Iterator<Item = &'static [Keyword]> {
    let small: [&'static [Keyword]; 7] = [
        userlist::KEYWORDS,
        http_errors::KEYWORDS,
        ring::KEYWORDS,
        mailers::KEYWORDS,
        log_forward::KEYWORDS,
        log_profile::KEYWORDS,
        later::KEYWORDS,
    ];
    global::TABLES.iter().copied().chain(small)
}

pub(crate) use global::expand_cpu_map;
pub(crate) use ring::unnamed as unnamed_ring;

/// One kind of section.
pub struct Section {
    pub name: &'static str,
    pub kind: Sections,
    /// "" none, "<name>" required, "[<name>]" optional.
    pub args: &'static str,
    pub help: &'static str,
    /// The part that brings it, when that is not this one.
    pub later: Option<&'static str>,
    pub(crate) open: fn(&mut Cx<'_>, &Arc<Line>),
}

/// Every section Sluice knows the name of.
pub static SECTIONS: &[Section] = header::SECTIONS;
