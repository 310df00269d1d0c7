//! Patterns and maps: match methods, the indexed stores, and the shared, versioned lists behind files (manual chapter
//! 7.1; management manual, `show map` and its neighbours).
//!
//! A [`List`] owns entries as text ([`elements`]) and one index for each way it is searched ([`view`]). A [`Store`]
//! names the lists of a configuration; ACLs hold a [`Matcher`], converters a [`MapRef`].

mod address_index;
mod dialect;
mod edit;
mod elements;
mod few;
mod file;
mod generation;
mod gram_filter;
mod hosts;
mod list;
mod map;
mod matcher;
mod method;
mod network;
mod number;
mod number_index;
mod regex;
mod regex_index;
mod steps;
mod store;
mod substring_index;
mod table;
mod text_index;
mod view;
mod word_index;

pub use edit::{EditError, EntryId, Visitor};
pub use file::{Columns, file_hint};
pub use list::{Found, List};
pub use map::{MapRef, MapResult};
pub use matcher::Matcher;
pub use method::Match;
pub use network::{Network, NotANetwork, parse as parse_network};
pub use number::{Notation, Operator, parse as parse_number};
pub use regex::{Captures, GROUPS, Regex, check_template, expand};
pub(crate) use store::search;
pub use store::{Listed, Store, User};
pub use view::Kind;

#[cfg(test)]
mod tests;
