//! HAProxy's configuration language: text in, a typed [`model::Model`] and diagnostics out.
//!
//! Nothing is opened here: files come through [`sluice_expr::Loader`]. Parsing never stops at the first error.

pub mod model;
