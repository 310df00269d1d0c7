//! The registry of sample fetches (manual chapters 7.3.2 to 7.3.7): one item each, in a file a topic, with its test
//! beside it. Parsing, places and casts are in [`crate::compile`]; here is what each fetch is and does.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::args::{Arg, ArgSpec};
use crate::conv::Prepare;
use crate::env::Env;
use crate::place::Place;
use crate::value::{Absent, Fetched, Sample, Type};

/// How far an iterating fetch has come (which header line, where in it): opaque to callers, zeroed at the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cursor(pub [u32; 4]);

impl Cursor {
    /// The cursor of a caller that asks once and wants the one value the manual says, mostly the last.
    pub const ONCE: Cursor = Cursor([0, 0, 0, u32::MAX]);

    /// Whether the caller goes through all occurrences.
    pub fn iterates(&self) -> bool {
        self.0[3] != u32::MAX
    }
}

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
    /// Checks what the argument grammar cannot say, and may rewrite the arguments into a prepared form, so that
    /// nothing is parsed while traffic flows. Gets as many arguments as the grammar has kinds.
    pub prepare: Option<Prepare>,
}

/// Writes a table of fetches, one a line:
///
/// `"name" (required kinds; optional kinds) -> Type, PLACE, function, prepare function => "help";`
macro_rules! fetches {
    ($($name:literal ($($req:ident),* $(; $($opt:ident),+)?) -> $out:ident, $place:ident, $run:expr
        $(, prepare $prepare:expr)? => $help:literal;)*) => {
        pub(super) const DEFS: &[$crate::fetch::FetchDef] = &[$($crate::fetch::FetchDef {
            name: $name,
            args: $crate::args::ArgSpec {
                kinds: &[$($crate::args::ArgKind::$req,)* $($($crate::args::ArgKind::$opt,)+)?],
                required: <[&str]>::len(&[$(stringify!($req)),*]),
            },
            out: $crate::value::Type::$out,
            places: $crate::place::Place::$place,
            help: $help,
            run: $crate::fetch::Run::Fn($run),
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

mod conn;
mod constant;
mod process;

/// The tables, one a topic.
const GROUPS: &[&[FetchDef]] = &[constant::DEFS, process::DEFS, conn::DEFS];

static SORTED: LazyLock<Vec<&'static FetchDef>> = LazyLock::new(|| {
    let mut sorted: Vec<&FetchDef> = GROUPS.iter().flat_map(|g| g.iter()).collect();
    sorted.sort_by_key(|d| d.name);
    sorted
});

static BY_NAME: LazyLock<HashMap<&'static str, &'static FetchDef>> =
    LazyLock::new(|| SORTED.iter().map(|d| (d.name, *d)).collect());

/// The fetch of that name.
pub fn find(name: &str) -> Option<&'static FetchDef> {
    BY_NAME.get(name).copied()
}

/// All fetches, sorted by name.
pub fn all() -> &'static [&'static FetchDef] {
    &SORTED
}

/// The list `-dKsmp` prints, heading and validity matrix included.
pub fn dump_smp() -> String {
    const COLUMNS: usize = 22;
    let mut out = String::from("# List of registered sample fetch functions:\n");
    for (i, place) in Place::all().iter().enumerate() {
        let right = COLUMNS - 1 - i;
        out.push('#');
        out.push_str(&" ".repeat(right + 1));
        out.push_str(&"/ ".repeat(i));
        out.push_str("_.");
        out.push_str(&"-".repeat(right + 1));
        out.push(' ');
        out.push_str(place.column());
        out.push('\n');
    }
    out.push_str(&format!("# {} \n", "/ ".repeat(COLUMNS)));
    out.push_str(&format!("# {} \n", "| ".repeat(COLUMNS)));
    for def in all() {
        out.push('[');
        for place in Place::all().iter() {
            out.push_str(if def.places.contains(place) {
                " Y"
            } else {
                " ."
            });
        }
        let signature = crate::arglist::signature(def.name, def.args);
        out.push_str(&format!(" ] {signature}: {}\n", def.out.name()));
    }
    out
}

fn never<'a>() -> Fetched<'a> {
    Err(Absent::Never)
}

fn int<'a>(value: Option<i64>) -> Fetched<'a> {
    value.map(Sample::int).ok_or(Absent::Never)
}

fn truth<'a>(value: Option<bool>) -> Fetched<'a> {
    value.map(Sample::bool).ok_or(Absent::Never)
}

fn text<'a>(value: Option<&'a [u8]>) -> Fetched<'a> {
    value.map(Sample::str).ok_or(Absent::Never)
}

/// The argument as text, `None` when it was left out.
fn arg_str(args: &[Arg], i: usize) -> Option<&[u8]> {
    match args.get(i) {
        Some(Arg::Str(s)) => Some(s),
        _ => None,
    }
}

/// The argument as a number, `None` when it was left out.
fn arg_int(args: &[Arg], i: usize) -> Option<i64> {
    match args.get(i) {
        Some(Arg::Sint(n)) => Some(*n),
        _ => None,
    }
}
