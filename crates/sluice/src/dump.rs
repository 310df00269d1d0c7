//! `-dK`: the language as the registries know it, in the format of HAProxy's `-dK`.

use sluice_config::dump::Status;
use sluice_expr::{acl, conv, fetch};

/// The classes, in the order of `-dKall`.
const CLASSES: [&str; 7] = ["acl", "cfg", "cli", "cnv", "flt", "smp", "svc"];

/// What `-dKhelp` prints.
const HELP: &str = "\
# List of supported keyword classes:
all: list all keywords
acl: ACL keywords
cfg: configuration keywords
cli: CLI keywords
cnv: sample converter keywords
flt: filter names
smp: sample fetch functions
svc: service names
later: what does not simply work: class, name, state and part, with tabs between them
";

/// Services of `http-request use-service`.
const SERVICES: &str = "# List of registered service names:\nprometheus-exporter\n";

/// Prints the classes asked for, separated by commas; false when one of them does not exist.
pub fn keywords(classes: &str) -> bool {
    let wanted: Vec<&str> = classes.split(',').filter(|c| !c.is_empty()).collect();
    if wanted.contains(&"help") || wanted.is_empty() {
        print!("{HELP}");
        return true;
    }
    for class in CLASSES {
        if wanted.contains(&"all") || wanted.contains(&class) {
            print!("{}", list(class));
        }
    }
    if wanted.contains(&"later") {
        print!("{}", not_working());
    }
    let known = |w: &&str| matches!(*w, "all" | "later") || CLASSES.contains(w);
    wanted.iter().all(known)
}

fn list(class: &str) -> String {
    match class {
        "acl" => acl::dump_acl(),
        "cfg" => sluice_config::dump::dump_cfg(),
        "cli" => sluice_control::cli::dump_cli(),
        "cnv" => conv::dump_cnv(),
        "flt" => sluice_config::dump::dump_flt(),
        "smp" => fetch::dump_smp(),
        _ => SERVICES.to_owned(),
    }
}

/// What a fetch waits for.
fn fetch_part(name: &str) -> Option<&'static str> {
    match fetch::find(name)?.run {
        fetch::Run::Later(part) => Some(part),
        fetch::Run::Fn(_) => None,
    }
}

/// Every name that is known and does not simply work: class, name as its list has it (configuration keywords with
/// their block before them), `later`, `obsolete`, `harmless` or `refused`, and the part that brings it.
fn not_working() -> String {
    let mut out = String::new();
    let mut line = |class: &str, name: &str, state: &str, part: &str| {
        out.push_str(&format!("{class}\t{name}\t{state}\t{part}\n"));
    };
    for k in acl::KEYWORDS {
        if let Some(part) = fetch_part(k.fetch) {
            line("acl", k.name, "later", part);
        }
    }
    let mut block = String::new();
    for (name, status) in sluice_config::dump::coverage() {
        let Some(status) = status else {
            block = name;
            continue;
        };
        if let Some((state, part)) = state(status) {
            let name = format!("{block} {}", name.trim());
            line("cfg", &name, state, part);
        }
    }
    for (name, part) in sluice_control::cli::LATER {
        line("cli", name, "later", part);
    }
    for def in conv::all() {
        if let conv::Run::Later(part) = def.run {
            line("cnv", def.name, "later", part);
        }
    }
    for (name, status) in sluice_config::dump::filters() {
        if let Some((state, part)) = state(status) {
            line("flt", name, state, part);
        }
    }
    for def in fetch::all() {
        if let fetch::Run::Later(part) = def.run {
            line("smp", def.name, "later", part);
        }
    }
    out
}

fn state(status: Status) -> Option<(&'static str, &'static str)> {
    match status {
        Status::Working => None,
        Status::Later(part) => Some(("later", part)),
        Status::Obsolete => Some(("obsolete", "")),
        Status::Harmless => Some(("harmless", "")),
        Status::Refused => Some(("refused", "")),
    }
}
