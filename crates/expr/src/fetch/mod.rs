//! The registry of sample fetches (manual chapters 7.3.2 to 7.3.7): one item each, in a file a topic, with its test
//! beside it. Parsing, places and casts are in [`crate::compile`]; here is what each fetch is and does.

pub use conn_error::message as connection_error;
pub use page::{docs_page, dump_smp};
pub use rdp::rdp_cookie;
use support::*;

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::args::{Arg, ArgSpec};
use crate::compile::ParseCtx;
use crate::conv::BadArg;
use crate::env::Env;
use crate::place::Place;
use crate::value::{Fetched, Type};

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
mod htx;
mod later;
mod line;
mod page;
mod param;
mod payload;
mod process;
mod proxies;
pub mod rdp;
mod ssl_hello;
mod stream;
mod support;
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
    ("For developers", htx::DEFS),
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

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;
    use crate::testing::{TestEnv, compile};
    use crate::value::Value;

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
