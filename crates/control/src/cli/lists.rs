//! Commands on map and ACL lists.

use std::fmt::Write;
use std::sync::Arc;

use sluice_config::model::CliLevel;
use sluice_expr::Value;
use sluice_expr::pattern::{EditError, EntryId, Kind, List, Match, User};

use super::{Call, Command};

pub const COMMANDS: &[Command] = &[
    Command {
        words: &["show", "map"],
        args: "[@ver] [map]",
        help: "report available maps or dump a map's contents",
        level: CliLevel::User,
        run: |c| show(c, User::Map),
    },
    Command {
        words: &["show", "acl"],
        args: "[@<ver>] <acl>]",
        help: "report available acls or dump an acl's contents",
        level: CliLevel::User,
        run: |c| show(c, User::Acl),
    },
    Command {
        words: &["get", "map"],
        args: "<acl> <value>",
        help: "report the keys and values matching a sample for a map",
        level: CliLevel::User,
        run: |c| get(c, User::Map),
    },
    Command {
        words: &["get", "acl"],
        args: "<acl> <value>",
        help: "report the patterns matching a sample for an ACL",
        level: CliLevel::User,
        run: |c| get(c, User::Acl),
    },
    Command {
        words: &["add", "map"],
        args: "[@<ver>] <map> <key> <val>",
        help: "add a map entry (payload supported instead of key/val)",
        level: CliLevel::Admin,
        run: |c| add(c, User::Map),
    },
    Command {
        words: &["add", "acl"],
        args: "[@<ver>] <acl> <pattern>",
        help: "add an acl entry",
        level: CliLevel::Admin,
        run: |c| add(c, User::Acl),
    },
    Command {
        words: &["set", "map"],
        args: "<map> [<key>|#<ref>] <value>",
        help: "modify a map entry",
        level: CliLevel::Admin,
        run: set,
    },
    Command {
        words: &["del", "map"],
        args: "<map> [<key>|#<ref>]",
        help: "delete map entries matching <key>",
        level: CliLevel::Admin,
        run: |c| del(c, User::Map),
    },
    Command {
        words: &["del", "acl"],
        args: "<acl> [<key>|#<ref>]",
        help: "delete acl entries matching <key>",
        level: CliLevel::Admin,
        run: |c| del(c, User::Acl),
    },
    Command {
        words: &["clear", "map"],
        args: "[@<ver>] <map>",
        help: "clear the contents of this map",
        level: CliLevel::Admin,
        run: |c| clear(c, User::Map),
    },
    Command {
        words: &["clear", "acl"],
        args: "[@<ver>] <acl>",
        help: "clear the contents of this acl",
        level: CliLevel::Admin,
        run: |c| clear(c, User::Acl),
    },
    Command {
        words: &["prepare", "map"],
        args: "<acl>",
        help: "prepare a new version for atomic map replacement",
        level: CliLevel::Admin,
        run: |c| prepare(c, User::Map),
    },
    Command {
        words: &["prepare", "acl"],
        args: "<acl>",
        help: "prepare a new version for atomic ACL replacement",
        level: CliLevel::Admin,
        run: |c| prepare(c, User::Acl),
    },
    Command {
        words: &["commit", "map"],
        args: "@<ver> <map>",
        help: "commit the map at this version",
        level: CliLevel::Admin,
        run: |c| commit(c, User::Map),
    },
    Command {
        words: &["commit", "acl"],
        args: "@<ver> <acl>",
        help: "commit the ACL at this version",
        level: CliLevel::Admin,
        run: |c| commit(c, User::Acl),
    },
];

fn kind(user: User) -> &'static str {
    match user {
        User::Map => "map",
        User::Acl => "ACL",
    }
}

/// The version and the list a command means, and the words behind.
type Opened<'a> = (Option<u32>, Arc<List>, &'a [&'a str]);

/// `[@ver] <reference>`.
fn open<'a>(c: &'a Call<'_>, user: User) -> Result<Opened<'a>, String> {
    let (version, rest) = match c.args.first().and_then(|a| a.strip_prefix('@')) {
        Some(v) => (
            Some(v.parse().map_err(|_| "Invalid version.\n".to_string())?),
            &c.args[1..],
        ),
        None => (None, c.args),
    };
    let Some((name, rest)) = rest.split_first() else {
        return Err(format!("Missing {} identifier.\n", kind(user)));
    };
    let list = c.host.runtime().model.patterns.find(name, user);
    match list {
        Some(list) => Ok((version, list, rest)),
        None => Err(format!(
            "Unknown {} identifier. Please use #<id> or <file>.\n",
            kind(user)
        )),
    }
}

fn done(r: Result<(), EditError>, user: User) -> String {
    let prepare = match user {
        User::Map => "prepare map",
        User::Acl => "prepare acl",
    };
    match r {
        Ok(()) => String::new(),
        Err(EditError::NoKey) => "Key not found.\n".into(),
        Err(EditError::VersionRange) => "Version number out of range.\n".into(),
        Err(EditError::VersionFuture) => {
            format!("Version number in the future, please use '{prepare}' before.\n")
        }
        Err(e) => format!("{e}.\n"),
    }
}

/// How HAProxy would look the pattern up.
fn index(kind: Kind) -> &'static str {
    match kind.method {
        Match::Ip => "tree",
        Match::Str | Match::Beg if !kind.ignore_case => "tree",
        _ => "list",
    }
}

fn show(c: &mut Call<'_>, user: User) -> String {
    if c.args.is_empty() {
        let mut out = "# id (file) description\n".to_string();
        let fits = |l: &sluice_expr::pattern::Listed| match user {
            User::Acl => l.in_acl,
            User::Map => l.in_map,
        };
        for l in c
            .host
            .runtime()
            .model
            .patterns
            .lists()
            .into_iter()
            .filter(fits)
        {
            let (curr, next) = l.list.versions();
            let _ = writeln!(
                out,
                "{} ({}) {}. curr_ver={curr} next_ver={next} entry_cnt={}",
                l.id,
                l.file,
                l.description,
                l.list.len()
            );
        }
        return out;
    }
    let (version, list, _) = match open(c, user) {
        Ok(o) => o,
        Err(e) => return e,
    };
    let mut out = String::new();
    list.visit(version, 0, &mut |id: EntryId, key, value| {
        let key = String::from_utf8_lossy(key);
        let _ = match user {
            User::Map => writeln!(out, "{:#x} {key} {}", id.0, String::from_utf8_lossy(value)),
            User::Acl => writeln!(out, "{:#x} {key}", id.0),
        };
        true
    });
    out
}

fn get(c: &mut Call<'_>, user: User) -> String {
    if c.arg(1).is_empty() {
        let what = match user {
            User::Acl => "ACL",
            User::Map => "map",
        };
        return c.error(&format!("Missing {what} identifier and/or key.\n"));
    }
    let (_, list, rest) = match open(c, user) {
        Ok(o) => o,
        Err(e) => return e,
    };
    let Some(key) = rest.first() else {
        return "Missing value.\n".into();
    };
    let mut out = String::new();
    for found in list.search(&Value::Str(key.as_bytes().into())) {
        let how = found.kind;
        let case = if how.ignore_case {
            "insensitive"
        } else {
            "sensitive"
        };
        let _ = write!(out, "type={}, case={case}, ", how.method.name());
        let yes = match user {
            User::Map => "found",
            User::Acl => "match",
        };
        let Some((pattern, value)) = &found.entry else {
            let _ = writeln!(out, "{yes}=no");
            continue;
        };
        let pattern = String::from_utf8_lossy(pattern);
        let _ = write!(out, "{yes}=yes, idx={}, ", index(how));
        let _ = match user {
            User::Map => writeln!(
                out,
                "key=\"{pattern}\", value=\"{}\", type=\"{}\"",
                String::from_utf8_lossy(value),
                list.value_type(value)
            ),
            User::Acl => writeln!(out, "pattern=\"{pattern}\""),
        };
    }
    out
}

const ADD_MAP: &str = "'add map' expects three parameters (map identifier, key and value) or one parameter (map identifier) and a payload\n";

const ADD_ACL: &str = "'add acl' expects two parameters: ACL identifier and pattern.\n";

fn add(c: &mut Call<'_>, user: User) -> String {
    if user == User::Map && c.args.is_empty() {
        return ADD_MAP.into();
    }
    let payload = c.payload.to_string();
    let (version, list, rest) = match open(c, user) {
        Ok(o) => o,
        Err(e) => return e,
    };
    if !payload.is_empty() {
        for line in payload.lines().filter(|l| !l.trim().is_empty()) {
            let line = line.trim();
            let (key, value) = match user {
                User::Acl => (line, ""),
                User::Map => match line.split_once([' ', '\t']) {
                    Some((key, value)) => (key, value.trim()),
                    None => return format!("Missing value for key '{line}'.\n"),
                },
            };
            if let Err(e) = list.add(version, key.as_bytes(), value.as_bytes()) {
                return done(Err(e), user);
            }
        }
        return String::new();
    }
    match (user, rest) {
        (User::Map, [key, value, ..]) => {
            done(list.add(version, key.as_bytes(), value.as_bytes()), user)
        }
        (User::Map, _) => ADD_MAP.into(),
        (User::Acl, [key, ..]) => done(list.add(version, key.as_bytes(), b""), user),
        (User::Acl, _) => ADD_ACL.into(),
    }
}

fn reference(key: &str) -> Option<EntryId> {
    let hex = key.strip_prefix("#0x").or_else(|| key.strip_prefix('#'))?;
    u64::from_str_radix(hex, 16).ok().map(EntryId)
}

const SET_MAP: &str = "'set map' expects three parameters: map identifier, key and value.\n";

fn set(c: &mut Call<'_>) -> String {
    if c.args.is_empty() {
        return SET_MAP.into();
    }
    let (_, list, rest) = match open(c, User::Map) {
        Ok(o) => o,
        Err(e) => return e,
    };
    let [key, value, ..] = rest else {
        return SET_MAP.into();
    };
    let set = match reference(key) {
        Some(id) => list.set_entry(id, value.as_bytes()),
        None => list.set(None, key.as_bytes(), value.as_bytes()),
    };
    done(set, User::Map)
}

fn del(c: &mut Call<'_>, user: User) -> String {
    let (version, list, rest) = match open(c, user) {
        Ok(o) => o,
        Err(e) => return e,
    };
    let Some(key) = rest.first() else {
        return format!(
            "This command expects two parameters: {} identifier and key.\n",
            kind(user)
        );
    };
    let deleted = match reference(key) {
        Some(id) => list.delete_entry(id),
        None => list.delete(version, key.as_bytes()),
    };
    done(deleted, user)
}

fn clear(c: &mut Call<'_>, user: User) -> String {
    match open(c, user) {
        Ok((version, list, _)) => done(list.clear(version), user),
        Err(e) => e,
    }
}

fn prepare(c: &mut Call<'_>, user: User) -> String {
    match open(c, user) {
        Ok((_, list, _)) => format!("New version created: {}\n", list.prepare()),
        Err(e) => e,
    }
}

fn commit(c: &mut Call<'_>, user: User) -> String {
    match open(c, user) {
        Ok((Some(version), list, _)) => done(list.commit(version), user),
        Ok((None, ..)) => "Missing version number.\n".into(),
        Err(e) => e,
    }
}
