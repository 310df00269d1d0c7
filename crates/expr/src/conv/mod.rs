//! The registry of converters: one item each, in a file a topic.

use crate::args::{Arg, ArgSpec};
use crate::env::Env;
use crate::value::{Fetched, Sample, Type};

/// The function behind a converter. The sample it gets is already cast to its input type.
pub type ConvFn = for<'a> fn(&'a [Arg], Sample<'a>, &'a dyn Env) -> Fetched<'a>;

/// What runs a converter.
#[derive(Clone, Copy)]
pub enum Run {
    Fn(ConvFn),
    /// Known to the language; the named part of Sluice brings it.
    Later(&'static str),
}

/// One converter.
#[derive(Clone, Copy)]
pub struct ConvDef {
    pub name: &'static str,
    pub args: ArgSpec,
    pub input: Type,
    pub out: Type,
    pub help: &'static str,
    pub run: Run,
    /// Checks what the argument grammar cannot say, and may rewrite the arguments into a prepared form (a key decoded,
    /// a table built) so that nothing is parsed while traffic flows.
    pub prepare: Option<fn(&mut Vec<Arg>) -> Result<(), String>>,
}
