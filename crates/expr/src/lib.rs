//! Samples, converters, ACLs, patterns and maps, variables and log-format: the expression language of the
//! configuration (HAProxy manual chapters 4.2, 7 and 8).
//!
//! Everything is parsed and type-checked when the configuration loads ([`compile`], [`acl`], [`logformat`]) and
//! evaluated against an [`env::Env`] while traffic flows, without looking anything up by name. The crate does no I/O
//! and reads no clock: files come through [`compile::Loader`], time through [`env::Env::now`].

pub mod acl;
mod arglist;
pub mod args;
mod cast;
pub mod compile;
pub mod conv;
pub mod env;
pub mod error;
pub mod fetch;
pub mod header_list;
pub mod logformat;
pub mod pattern;
pub mod place;
mod resolve;
mod suggest;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod text;
pub mod value;
pub mod vars;

pub use acl::{AclTable, Cond, Tri};
pub use arglist::signature;
pub use compile::{Expr, Loader, ParseCtx};
pub use env::{Env, ProxyId, ServerId};
pub use error::ExprError;
pub use logformat::{LogFormat, Purpose};
pub use value::{Absent, Fetched, Sample, Type, Value};
