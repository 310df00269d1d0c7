//! The registry of sample fetches: one item each, in a file a layer.

use crate::args::{Arg, ArgSpec};
use crate::env::Env;
use crate::place::Place;
use crate::value::{Fetched, Type};

/// How far an iterating fetch has come (which header line, where in it): opaque to callers, zeroed at the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cursor(pub [u32; 4]);

/// The function behind a fetch.
pub type FetchFn = for<'a> fn(&'a [Arg], &'a dyn Env, &mut Cursor) -> Fetched<'a>;

/// What runs a fetch.
#[derive(Clone, Copy)]
pub enum Run {
    Fn(FetchFn),
    /// Known to the language; the named part of Sluice brings it ("TLS", "stick tables", "QUIC", "Lua"...).
    Later(&'static str),
}

/// One sample fetch.
#[derive(Clone, Copy)]
pub struct FetchDef {
    pub name: &'static str,
    pub args: ArgSpec,
    pub out: Type,
    pub places: Place,
    /// One line for the docs page.
    pub help: &'static str,
    pub run: Run,
    /// Checks what the argument grammar cannot say; the error names what is wrong with the arguments.
    pub check: Option<fn(&[Arg]) -> Result<(), String>>,
}
