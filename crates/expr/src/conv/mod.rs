//! The registry of converters (manual chapter 7.3.1): one item each, in a file a topic. Parsing and casting are in
//! [`crate::compile`]; this part owns what each converter does.

use std::collections::HashMap;
use std::sync::OnceLock;

use crate::args::{Arg, ArgSpec};
use crate::compile::ParseCtx;
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

/// What is wrong with an argument.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct BadArg {
    /// Which argument, counted from 0.
    pub index: usize,
    pub message: String,
}

impl BadArg {
    pub fn new(index: usize, message: impl Into<String>) -> Self {
        BadArg {
            index,
            message: message.into(),
        }
    }
}

/// See [`ConvDef::prepare`]. The arguments given are always as many as the grammar has kinds, `Arg::None` for those
/// left out.
pub type Prepare = fn(&mut Vec<Arg>, &ParseCtx<'_>) -> Result<(), BadArg>;

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
    pub prepare: Option<Prepare>,
}

/// Writes a table of converters, one an entry:
///
/// `"name" (required kinds; optional kinds) Input -> Output, function, prepare function => "help";`
macro_rules! converters {
    ($($name:literal ($($req:ident),* $(; $($opt:ident),+)?) $input:ident -> $out:ident, $run:expr
        $(, prepare $prepare:expr)? => $help:literal;)*) => {
        pub(super) const DEFS: &[$crate::conv::ConvDef] = &[$($crate::conv::ConvDef {
            name: $name,
            args: $crate::args::ArgSpec {
                kinds: &[$($crate::args::ArgKind::$req,)* $($($crate::args::ArgKind::$opt,)+)?],
                required: <[&str]>::len(&[$(stringify!($req)),*]),
            },
            input: $crate::value::Type::$input,
            out: $crate::value::Type::$out,
            help: $help,
            run: $crate::conv::Run::Fn($run),
            prepare: optional!($($prepare)?),
        }),*];
    };
}

macro_rules! optional {
    () => {
        None
    };
    ($it:expr) => {
        Some($it)
    };
}

mod address;
mod aes;
mod arith;
mod base64;
mod compare;
mod date;
mod digest;
mod fix;
mod gcm;
mod hash;
mod json;
mod json_query;
mod language;
mod md5;
mod numeral;
mod operand;
mod protobuf;
mod regsub;
mod strftime;
#[cfg(test)]
mod testing;
mod text;
mod url;
mod variable;
mod words;

/// The tables, one a topic.
const GROUPS: &[&[ConvDef]] = &[
    address::DEFS,
    aes::DEFS,
    arith::DEFS,
    base64::DEFS,
    compare::DEFS,
    date::DEFS,
    digest::DEFS,
    fix::DEFS,
    hash::DEFS,
    json::DEFS,
    json_query::DEFS,
    language::DEFS,
    numeral::DEFS,
    protobuf::DEFS,
    regsub::DEFS,
    text::DEFS,
    url::DEFS,
    variable::DEFS,
    words::DEFS,
];

struct Registry {
    sorted: Vec<&'static ConvDef>,
    by_name: HashMap<&'static str, &'static ConvDef>,
}

fn registry() -> &'static Registry {
    static REGISTRY: OnceLock<Registry> = OnceLock::new();
    REGISTRY.get_or_init(|| {
        let mut sorted: Vec<&ConvDef> = GROUPS.iter().flat_map(|g| g.iter()).collect();
        sorted.sort_by_key(|d| d.name);
        let by_name = sorted.iter().map(|d| (d.name, *d)).collect();
        Registry { sorted, by_name }
    })
}

/// The converter of that name.
pub fn find(name: &str) -> Option<&'static ConvDef> {
    registry().by_name.get(name).copied()
}

/// All converters, sorted by name.
pub fn all() -> &'static [&'static ConvDef] {
    &registry().sorted
}
