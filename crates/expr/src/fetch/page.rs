//! The registry written out: for `-dKsmp`, and for the documentation.

use super::{FetchDef, Run, TOPICS, all, later};
use crate::args::{ArgKind, ArgSpec};
use crate::place::Place;

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
         brackets may be left out. A type `addr` is IPv4 or IPv6, `any` is whatever was stored.\n\n\
         Variables have a scope before their name: `proc` (the process), `sess` (the connection), `txn` (request and \
         response), `req` and `res` (one of them: the other's are gone or not there yet), `check` (a health check). \
         `psess`, `ptxn`, `preq` and `pres` are those of the stream that made this one as a sub-request; HAProxy finds \
         nothing in them when there is none, and as Sluice makes no sub-requests they are always empty here, which a \
         warning says at the start.\n",
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
