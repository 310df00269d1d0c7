//! From text to a checked, compiled expression: `fetch(args),conv(args),...`.

use std::sync::Arc;

use crate::args::Arg;
use crate::conv::ConvDef;
use crate::env::{Env, ProxyId, ServerId};
use crate::error::ExprError;
use crate::fetch::{Cursor, FetchDef};
use crate::pattern::Store;
use crate::place::Place;
use crate::value::{Fetched, Type};

/// How files reach the language: pattern files, map files, error files. The proxy reads the disk, tests and fuzzers
/// give texts.
pub trait Loader {
    /// The file's bytes; the error is a sentence for the user.
    fn load(&self, path: &str) -> Result<Vec<u8>, String>;
}

/// What the parser needs to know about where it is.
#[derive(Clone, Copy)]
pub struct ParseCtx<'a> {
    /// The checkpoint(s) the expression will run at. Several bits: it must be valid at one of them at least.
    pub place: Place,
    pub loader: &'a dyn Loader,
    /// The process's pattern and map stores, shared by name between expressions and across reloads.
    pub store: &'a Store,
    /// File and line, kept for messages and for anonymous pattern lists.
    pub file: &'a str,
    pub line: u32,
    /// Mode http: fetches that need HTTP are welcome.
    pub http: bool,
}

/// Binds names to things once the whole configuration is read. `None`: no such thing.
pub trait Names {
    fn frontend(&self, name: &str) -> Option<ProxyId>;
    fn backend(&self, name: &str) -> Option<ProxyId>;
    /// The proxy the expression stands in, for arguments left out.
    fn current(&self) -> Option<ProxyId>;
    fn server(&self, backend: &str, server: &str) -> Option<ServerId>;
    fn table(&self, name: &str) -> Option<ProxyId>;
    fn userlist(&self, name: &str) -> Option<u32>;
}

/// One converter of a compiled chain, with the cast its input needs.
#[derive(Clone)]
pub struct Step {
    pub def: &'static ConvDef,
    pub args: Arc<Vec<Arg>>,
    pub cast: Option<Type>,
}

/// A compiled expression. Cheap to clone.
#[derive(Clone)]
pub struct Expr {
    pub fetch: &'static FetchDef,
    pub args: Arc<Vec<Arg>>,
    pub steps: Arc<[Step]>,
    /// The type of the result.
    pub out: Type,
    /// The text as written.
    pub text: Arc<str>,
}
