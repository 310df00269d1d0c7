//! The registry of converters (manual chapter 7.3.1): one item each, in a file a topic. Parsing and casting are in
//! [`crate::compile`]; this part owns what each converter does.

use std::collections::HashMap;
use std::sync::OnceLock;

use crate::args::{Arg, ArgKind, ArgSpec};
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
    /// What would do instead.
    pub hint: Option<&'static str>,
}

impl BadArg {
    pub fn new(index: usize, message: impl Into<String>) -> Self {
        BadArg {
            index,
            message: message.into(),
            hint: None,
        }
    }

    pub fn hint(mut self, hint: Option<&'static str>) -> Self {
        self.hint = hint;
        self
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
///
/// with `later PART` in the place of the functions for those that another part of Sluice brings.
macro_rules! converters {
    ($($name:literal ($($req:ident),* $(; $($opt:ident),+)?) $input:ident -> $out:ident, later $part:ident
        => $help:literal;)*) => {
        pub(super) const DEFS: &[$crate::conv::ConvDef] = &[$($crate::conv::ConvDef {
            name: $name,
            args: $crate::args::ArgSpec {
                kinds: &[$($crate::args::ArgKind::$req,)* $($($crate::args::ArgKind::$opt,)+)?],
                required: <[&str]>::len(&[$(stringify!($req)),*]),
            },
            input: $crate::value::Type::$input,
            out: $crate::value::Type::$out,
            help: $help,
            run: $crate::conv::Run::Later($part),
            prepare: None,
        }),*];
    };
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
pub use digest::websocket_accept;
mod fix;
mod forwarded;
mod gcm;
pub mod hash;
mod jose;
mod json;
mod json_query;
mod language;
mod map;
mod md5;
mod mqtt;
mod numeral;
mod operand;
mod packet;
mod protobuf;
mod regsub;
mod runtime;
mod strftime;
mod table;
#[cfg(test)]
mod testing;
mod text;
mod url;
mod variable;
mod words;
mod x509;

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
    forwarded::DEFS,
    hash::DEFS,
    jose::DEFS,
    json::DEFS,
    json_query::DEFS,
    language::DEFS,
    map::DEFS,
    mqtt::DEFS,
    numeral::DEFS,
    packet::DEFS,
    protobuf::DEFS,
    regsub::DEFS,
    runtime::DEFS,
    table::DEFS,
    text::DEFS,
    url::DEFS,
    variable::DEFS,
    words::DEFS,
    x509::DEFS,
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

/// What scripts register, `lua.NAME`: any input, and as many arguments as the language allows.
static LUA: ConvDef = ConvDef {
    name: "lua.*",
    args: ArgSpec {
        kinds: &[ArgKind::Str; 12],
        required: 0,
    },
    input: Type::Any,
    out: Type::Any,
    help: "A converter that a Lua script registers.",
    run: Run::Later("Lua"),
    prepare: None,
};

/// The converter of that name.
pub fn find(name: &str) -> Option<&'static ConvDef> {
    let known = registry().by_name.get(name).copied();
    known.or_else(|| name.starts_with("lua.").then_some(&LUA))
}

/// All converters, sorted by name.
pub fn all() -> &'static [&'static ConvDef] {
    &registry().sorted
}

/// The list `-dKcnv` prints, heading included: `name(arguments): output => input`.
pub fn dump_cnv() -> String {
    let mut out = String::from("# List of registered sample converter functions:\n");
    for def in all() {
        let signature = crate::arglist::signature(def.name, def.args);
        out.push_str(&format!(
            "{signature}: {} => {}\n",
            def.out.name(),
            def.input.name()
        ));
    }
    out
}

/// The page of the manual about converters, in Markdown: made from the registry, so that it is never behind.
pub fn docs_page() -> String {
    let working = all().iter().filter(|d| matches!(d.run, Run::Fn(_))).count();
    let mut out = format!(
        "# Converters\n\n\
         A converter follows a sample fetch, or another converter, after a comma: `req.hdr(host),lower,field(1,.)`. There are {} of \
         them, and {working} work; the others name what they wait for. Arguments in brackets may be left out. Where an argument \
         is a number or a variable, a variable is written with its scope: `add(txn.x)`. The input is cast to the type in the \
         second column, and a value that cannot be cast, or that the converter makes nothing of, is no value at all.\n\n\
         This page is made from the registry by `UPDATE_DOCS=1 cargo test -p sluice-expr docs`.\n\n\
         | Converter | Takes | Gives | What it does |\n|---|---|---|---|\n",
        all().len()
    );
    for def in all() {
        let signature = crate::arglist::signature(def.name, def.args);
        let waits = match def.run {
            Run::Fn(_) => String::new(),
            Run::Later(part) => format!(" Waits for {part}."),
        };
        let help = def.help.replace('|', "\\|");
        let (input, output) = (def.input.name(), def.out.name());
        out.push_str(&format!(
            "| `{signature}` | {input} | {output} | {help}{waits} |\n"
        ));
    }
    out.push_str(DIFFERENCES);
    out
}

/// What the tests beside the converters show to differ on purpose.
const DIFFERENCES: &str = "
## Where the answers differ from HAProxy 2.6

Each answer in the tables of the tests is HAProxy 2.6's. These differ, because 3.x does so or because 2.6 is wrong:

- `json_query` gives arrays as they stand, as 3.x does, and `jwt_header_query` and `jwt_payload_query` without a path the whole
  member, as the manual says. A path that finds nothing inside an array element gives nothing: 2.6 goes on into the
  elements that follow. A malformed path stops the start.
- `language` drops a language whose quality is 0. 2.6 drops the one after it, too.
- `regsub`: what precedes a match is seen by `\\b` and look-behind. 2.6 takes the rest of the text for all of it.
- `aes_gcm_dec` takes tags from 12 bytes on, 2.6 from 1, and a key that is too short stops the start instead of being read
  past its end.
- `jwt_verify` knows the PS algorithms and takes certificates, as 3.x does. A key file that is missing stops the start.
- `protobuf` and `ungrpc`: a field number like `1..2` stops the start. In 2.6 it never finds anything.
- `digest` and `hmac` know MD5, SHA-1, SHA-2 and SHA-3, not the rest of OpenSSL's algorithms.
";

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines of a converter list, by name.
    fn lines(dump: &str) -> HashMap<&str, &str> {
        let named = |line| {
            Some((
                *str::split(line, &['(', ':']).collect::<Vec<_>>().first()?,
                line,
            ))
        };
        dump.lines()
            .filter(|l| l.contains(" => "))
            .filter_map(named)
            .collect()
    }

    #[test]
    fn names_are_unique_and_sorted() {
        assert!(all().windows(2).all(|pair| pair[0].name < pair[1].name));
        assert_eq!(find("upper").map(|d| d.name), Some("upper"));
        assert!(find("uper").is_none());
        assert!(matches!(
            find("lua.mine").map(|d| d.run),
            Some(Run::Later("Lua"))
        ));
    }

    #[test]
    fn every_item_says_what_it_does() {
        for def in all() {
            assert!(
                def.help.len() > 10 && def.help.ends_with('.'),
                "{}: {}",
                def.name,
                def.help
            );
            assert!(def.args.required <= def.args.kinds.len(), "{}", def.name);
        }
    }

    /// The list that HAProxy 3.5 prints, as recorded for the tests.
    #[test]
    fn the_list_is_haproxys() {
        let (ours, theirs) = (
            dump_cnv(),
            include_str!("../../testdata/haproxy-3.5-cnv.txt"),
        );
        let (mine, wanted) = (lines(&ours), lines(theirs));
        let mut wrong: Vec<String> = Vec::new();
        for (name, line) in &wanted {
            match mine.get(name) {
                None => wrong.push(format!("missing: {line}")),
                Some(mine) if mine != line => wrong.push(format!("{mine} should be {line}")),
                Some(_) => {}
            }
        }
        for (name, line) in &mine {
            if !wanted.contains_key(name) {
                wrong.push(format!("unknown to HAProxy: {line}"));
            }
        }
        wrong.sort();
        assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    }

    #[test]
    fn the_docs_page_is_the_registrys() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/converters.md");
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(path, docs_page()).expect("write the page");
        }
        let page = std::fs::read_to_string(path).expect("docs/converters.md");
        assert!(
            page == docs_page(),
            "docs/converters.md is behind: run UPDATE_DOCS=1 cargo test -p sluice-expr docs"
        );
    }
}
