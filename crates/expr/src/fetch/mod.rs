//! The registry of sample fetches (manual chapters 7.3.2 to 7.3.7): one item each, in a file a topic, with its test
//! beside it. Parsing, places and casts are in [`crate::compile`]; here is what each fetch is and does.

pub use rdp::rdp_cookie;

use std::collections::HashMap;
use std::sync::LazyLock;

use sluice_http::{Headers, Request, Response};

use crate::args::{Arg, ArgKind, ArgSpec};
use crate::compile::ParseCtx;
use crate::conv::BadArg;
use crate::env::{Dir, Env};
use crate::place::Place;
use crate::value::{Absent, Fetched, Sample, Type, Value};

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

/// See [`FetchDef::prepare`]. The arguments given are always as many as the grammar has kinds, `Arg::None` for those
/// left out.
pub type Prepare = fn(&mut [Arg], &ParseCtx<'_>) -> Result<(), BadArg>;

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
    /// nothing is parsed while traffic flows.
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

mod auth;
mod body;
mod conn;
mod conn_error;
mod constant;
mod cookie;
mod distcc;
mod header;
mod hello;
mod later;
mod line;
mod param;
mod payload;
mod process;
mod proxies;
mod rdp;
mod ssl_hello;
mod stream;
mod tcp;
mod var;

/// The tables, one a topic.
const TOPICS: &[(&str, &[FetchDef])] = &[
    ("Constants, clock, chance", constant::DEFS),
    ("Process", process::DEFS),
    ("Frontends, backends, servers", proxies::DEFS),
    ("Variables and ACLs", var::DEFS),
    ("Connections", conn::DEFS),
    ("TCP_INFO", tcp::DEFS),
    ("Raw content", payload::DEFS),
    ("TLS hellos passing through", ssl_hello::DEFS),
    ("RDP", rdp::DEFS),
    ("distcc", distcc::DEFS),
    ("Start lines", line::DEFS),
    ("Headers", header::DEFS),
    ("Cookies", cookie::DEFS),
    ("Parameters", param::DEFS),
    ("Bodies", body::DEFS),
    ("Authentication", auth::DEFS),
    ("Stream", stream::DEFS),
];

static SORTED: LazyLock<Vec<&'static FetchDef>> = LazyLock::new(|| {
    let working = TOPICS.iter().map(|(_, table)| *table);
    let tables = working.chain(later::TABLES.iter().copied());
    let mut sorted: Vec<&FetchDef> = tables.flatten().collect();
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
        out.push_str(&" ".repeat(right + 2));
        out.push_str(&"/ ".repeat(i));
        out.push_str("_.");
        out.push_str(&"-".repeat(right + 1));
        out.push(' ');
        out.push_str(place.column());
        out.push('\n');
    }
    out.push_str(&format!("# {} \n", "/ ".repeat(COLUMNS)));
    out.push_str(&format!("# {}\n", "| ".repeat(COLUMNS)));
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

/// The documentation page of all fetches, in Markdown.
pub fn docs_page() -> String {
    let working = all().iter().filter(|d| matches!(d.run, Run::Fn(_))).count();
    let mut out = format!(
        "# Sample fetches\n\n\
         This page is made from the registry in `crates/expr/src/fetch` (`UPDATE_DOCS=1 cargo test -p sluice-expr` writes \
         it). Of {} fetches {working} work; the others are known and come with a later part of Sluice.\n\n\
         An expression is a fetch and any number of converters: `fetch(arguments),converter(arguments),...`. Arguments in \
         brackets may be left out. A type `addr` is IPv4 or IPv6, `any` is whatever was stored.\n",
        all().len()
    );
    for (topic, table) in TOPICS {
        out.push_str(&format!(
            "\n## {topic}\n\n| fetch | type | valid in | what it gives |\n|---|---|---|---|\n"
        ));
        let mut sorted: Vec<&FetchDef> = table.iter().collect();
        sorted.sort_by_key(|d| d.name);
        for def in sorted {
            // A proxy that is not named is the current one.
            let current = matches!(def.args.kinds, [ArgKind::Frontend | ArgKind::Backend]);
            let args = ArgSpec {
                required: if current { 0 } else { def.args.required },
                ..def.args
            };
            let signature = crate::arglist::signature(def.name, args);
            let (out_type, extent) = (def.out.name(), def.places.extent());
            out.push_str(&format!(
                "| `{signature}` | {out_type} | {extent} | {} |\n",
                def.help
            ));
        }
    }
    out.push_str("\n## Known, and not here yet\n");
    for table in later::TABLES {
        let Some(Run::Later(part)) = table.first().map(|d| d.run) else {
            continue;
        };
        let names: Vec<String> = table.iter().map(|d| format!("`{}`", d.name)).collect();
        out.push_str(&format!("\nWith {part}: {}.\n", names.join(", ")));
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

/// A sample that may have further occurrences behind it.
fn more(value: Value<'_>, not_last: bool) -> Sample<'_> {
    Sample {
        value,
        may_change: false,
        not_last,
    }
}

/// The request's head, or why it is not there.
fn request(env: &dyn Env) -> Result<&Request, Absent> {
    match env.request() {
        Some(request) => Ok(request),
        None if env.request_is_final() => Err(Absent::Never),
        None => Err(Absent::NotYet),
    }
}

/// The response's head, or why it is not there.
fn response(env: &dyn Env) -> Result<&Response, Absent> {
    match env.response() {
        Some(response) => Ok(response),
        None if env.response_is_final() => Err(Absent::Never),
        None => Err(Absent::NotYet),
    }
}

/// The headers of the message that passes by.
fn headers_at_hand(env: &dyn Env) -> Result<&Headers, Absent> {
    match env.direction() {
        Dir::Request => request(env).map(|r| &r.headers),
        Dir::Response => response(env).map(|r| &r.headers),
    }
}

/// What `read` makes of the bytes in a channel; what it lacks will never come when they are all.
fn content<'a>(
    env: &'a dyn Env,
    dir: Dir,
    read: impl FnOnce(&'a [u8]) -> Fetched<'a>,
) -> Fetched<'a> {
    let content = env.content(dir).ok_or(Absent::Never)?;
    match read(content.bytes) {
        Err(Absent::NotYet) if content.is_final => Err(Absent::Never),
        fetched => fetched,
    }
}

/// The bytes a text of hexadecimal digits stands for.
fn from_hex(text: &[u8]) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) {
        return None;
    }
    let digit = |b: &u8| char::from(*b).to_digit(16);
    text.chunks_exact(2)
        .map(|pair| Some((digit(&pair[0])? * 16 + digit(&pair[1])?) as u8))
        .collect()
}

/// Goes on where `cursor` stands among `lines`: `split` cuts the next thing off what it gets and says what is left
/// of it, if anything; it gives nothing when there is no other.
fn resume<'a, T>(
    lines: impl Iterator<Item = &'a [u8]>,
    cursor: &mut Cursor,
    split: impl Fn(&'a [u8]) -> Option<(T, Option<&'a [u8]>)>,
) -> Option<T> {
    let [line, offset, ..] = cursor.0.map(|n| n as usize);
    for (nth, text) in lines.enumerate().skip(line) {
        let from = if nth == line { offset } else { 0 };
        let Some((found, rest)) = split(text.get(from..).unwrap_or_default()) else {
            continue;
        };
        (cursor.0[0], cursor.0[1]) = match rest {
            Some(rest) => (nth as u32, (text.len() - rest.len()) as u32),
            None => (nth as u32 + 1, 0),
        };
        return Some(found);
    }
    None
}

/// The number in a header, cookie or parameter as HAProxy reads it for the `_val` fetches: 32 bits that wrap, up to
/// the first character above `9`; one below `0` counts as the negative digit its code is.
fn loose_int(text: &[u8]) -> i64 {
    let (sign, digits) = match text.strip_prefix(b"-") {
        Some(rest) => (-1, rest),
        None => (1, text),
    };
    let mut n: i32 = 0;
    for &b in digits {
        let digit = i32::from(b) - i32::from(b'0');
        if digit > 9 {
            break;
        }
        n = n.wrapping_mul(10).wrapping_add(digit.wrapping_mul(sign));
    }
    i64::from(n)
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

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;
    use crate::testing::{TestEnv, compile};

    /// What is looked at on every request comes from the message or the configuration without being copied.
    #[test]
    fn common_fetches_borrow() {
        let mut env = TestEnv::response(
            "HTTP/1.1 200 OK\r\nSet-Cookie: s=1\r\nVia: a\r\nContent-Length: 0\r\n\r\n",
        );
        let request = TestEnv::request(
            "GET /p?q=1 HTTP/1.1\r\nHost: h\r\nCookie: c=1\r\nAuthorization: Bearer t\r\nContent-Length: 3\r\n\r\nabc",
        );
        (env.request, env.req_body) = (request.request, request.req_body);
        env.req_content = Some((b"raw".to_vec(), true));
        env.stream.as_mut().expect("a stream").req_captures = vec![Some(b"x".to_vec())];
        for text in [
            "str(a)",
            "path",
            "pathq",
            "url",
            "query",
            "method",
            "req.ver",
            "req.hdr(host)",
            "req.hdr(host,1)",
            "req.fhdr(host)",
            "req.cook(c)",
            "url_param(q)",
            "req.body",
            "req.payload(0,2)",
            "http_auth_bearer",
            "res.hdr(via)",
            "res.cook(s)",
            "capture.req.hdr(0)",
            "capture.req.method",
            "res.ver",
        ] {
            let expr = compile(text, Place::empty()).expect(text);
            let value = expr.eval(&env).expect(text).value;
            let borrowed = matches!(
                value,
                Value::Str(Cow::Borrowed(_))
                    | Value::Bin(Cow::Borrowed(_))
                    | Value::Meth(_, Cow::Borrowed(_))
            );
            assert!(borrowed, "{text}: {value:?}");
        }
    }

    #[test]
    fn names_are_found_and_unique() {
        assert_eq!(find("src").map(|d| d.name), Some("src"));
        assert!(find("nope").is_none());
        assert!(all().windows(2).all(|pair| pair[0].name < pair[1].name));
    }

    #[test]
    fn a_value_has_the_type_its_fetch_promises() {
        let env = TestEnv::request("GET /p?q=1 HTTP/1.1\r\nHost: h\r\nCookie: c=1\r\n\r\n");
        for def in all()
            .iter()
            .filter(|d| d.args.required == 0 && matches!(d.run, Run::Fn(_)))
        {
            let expr = compile(def.name, Place::empty()).expect(def.name);
            let Ok(sample) = expr.eval(&env) else {
                continue;
            };
            let got = sample.value.type_of();
            let fits = match def.out {
                Type::Any => true,
                Type::Addr => matches!(got, Type::Ipv4 | Type::Ipv6),
                // A string taken as bytes stays a string.
                Type::Bin => matches!(got, Type::Bin | Type::Str),
                out => got == out,
            };
            assert!(fits, "{}: {got:?}, not {:?}", def.name, def.out);
        }
    }
}
