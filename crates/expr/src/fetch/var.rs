//! Fetches of what rules keep and name: variables and ACLs.

use std::cell::Cell;
use std::sync::Arc;

use super::{Cursor, arg_str};
use crate::acl::{Cond, Tri};
use crate::args::Arg;
use crate::compile::ParseCtx;
use crate::conv::BadArg;
use crate::env::Env;
use crate::value::{Absent, Fetched, Sample, Value, write_hex};
use crate::vars::{Scope, VarRef};

fetches! {
    "var" (Str; Str) -> Any, ANYWHERE, var, prepare prepare_var
        => "A variable with the type it has, or the default as a string.";
    "acl" (Str; Str, Str, Str, Str, Str, Str, Str, Str, Str, Str, Str) -> Bool, ANYWHERE, acl, prepare prepare_acl
        => "Whether all the ACLs named hold; `!` before a name negates it.";
    "dump_all_vars" (; Str, Str, Str) -> Str, ANYWHERE, dump_all_vars, prepare prepare_dump
        => "All variables as `name=value`: of a scope, whose names begin with a text, between a delimiter.";
}

fn prepare_var(args: &mut [Arg], _: &ParseCtx<'_>) -> Result<(), BadArg> {
    let name = String::from_utf8_lossy(arg_str(args, 0).unwrap_or_default()).into_owned();
    let var = VarRef::parse(&name).map_err(|e| {
        let hint = e.hint.map(|hint| format!("; {hint}")).unwrap_or_default();
        BadArg::new(0, format!("{}{hint}", e.message))
    })?;
    args[0] = Arg::Var(var);
    Ok(())
}

fn var<'a>(args: &'a [Arg], env: &'a dyn Env, _: &mut Cursor) -> Fetched<'a> {
    let Some(Arg::Var(var)) = args.first() else {
        return Err(Absent::Never);
    };
    match (env.var(var), arg_str(args, 1)) {
        (Some(value), _) => Ok(Sample::new(value)),
        (None, Some(default)) => Ok(Sample::str(default)),
        (None, None) => Err(Absent::Never),
    }
}

/// How deep ACLs may refer to ACLs by this fetch, so that one that refers to itself ends.
const ACL_DEPTH_MAX: u32 = 16;

thread_local! {
    static ACL_DEPTH: Cell<u32> = const { Cell::new(0) };
}

fn prepare_acl(args: &mut [Arg], ctx: &ParseCtx<'_>) -> Result<(), BadArg> {
    let Some(acls) = ctx.acls else {
        return Err(BadArg::new(0, "no ACLs are known here"));
    };
    let mut words = vec!["if".to_owned()];
    for i in 0..args.len() {
        let Some(name) = arg_str(args, i) else { break };
        let name = String::from_utf8_lossy(name).into_owned();
        // What would be more than a name in a condition is no name here.
        if name.trim_start_matches('!').is_empty()
            || name.contains(['{', '}', '|', ' '])
            || name.eq_ignore_ascii_case("or")
        {
            return Err(BadArg::new(i, format!("'{name}' is no ACL name")));
        }
        words.push(name);
    }
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let cond = Cond::parse(&words, acls, ctx)
        .map_err(|e| BadArg::new(e.word.saturating_sub(1), e.message))?;
    args[0] = Arg::Prepared(Arc::new(cond));
    Ok(())
}

fn acl<'a>(args: &'a [Arg], env: &'a dyn Env, _: &mut Cursor) -> Fetched<'a> {
    let Some(Arg::Prepared(cond)) = args.first() else {
        return Err(Absent::Never);
    };
    let cond: &Cond = cond.downcast_ref().ok_or(Absent::Never)?;
    let depth = ACL_DEPTH.get();
    if depth >= ACL_DEPTH_MAX {
        return Err(Absent::Never);
    }
    ACL_DEPTH.set(depth + 1);
    let result = cond.eval(env);
    ACL_DEPTH.set(depth);
    match result {
        Tri::Pass => Ok(Sample::bool(true)),
        Tri::Fail => Ok(Sample::bool(false)),
        Tri::Miss => Err(Absent::NotYet),
    }
}

const SCOPES: [Scope; 6] = [
    Scope::Proc,
    Scope::Sess,
    Scope::Txn,
    Scope::Req,
    Scope::Res,
    Scope::Check,
];

fn prepare_dump(args: &mut [Arg], _: &ParseCtx<'_>) -> Result<(), BadArg> {
    match scope(args) {
        Some(_) => Ok(()),
        None => Err(BadArg::new(
            0,
            "the scope must be proc, sess, txn, req, res or check, or left out for all",
        )),
    }
}

/// The scopes the first argument means.
fn scope(args: &[Arg]) -> Option<&'static [Scope]> {
    let Some(name) = arg_str(args, 0).filter(|name| !name.is_empty()) else {
        return Some(&SCOPES);
    };
    let at = SCOPES.iter().position(|s| s.name().as_bytes() == name)?;
    Some(&SCOPES[at..=at])
}

fn dump_all_vars<'a>(args: &'a [Arg], env: &'a dyn Env, _: &mut Cursor) -> Fetched<'a> {
    let prefix = arg_str(args, 1).unwrap_or_default();
    let delimiter = arg_str(args, 2).unwrap_or(b", ");
    let mut out = Vec::new();
    for scope in scope(args).ok_or(Absent::Never)? {
        env.each_var(*scope, &mut |name, value| {
            if !name.as_bytes().starts_with(prefix) {
                return;
            }
            if !out.is_empty() {
                out.extend_from_slice(delimiter);
            }
            out.extend_from_slice(scope.name().as_bytes());
            out.push(b'.');
            out.extend_from_slice(name.as_bytes());
            out.push(b'=');
            dump(&mut out, &value);
        });
    }
    Ok(Sample::string(out))
}

/// A value such that its type can be told: strings in quotes, binary as `x` and hexadecimal, booleans as words.
fn dump(out: &mut Vec<u8>, value: &Value<'_>) {
    match value {
        Value::Str(s) => {
            out.push(b'"');
            for &b in s.iter() {
                match b {
                    b'"' | b'\\' => out.extend([b'\\', b]),
                    b'\r' => out.extend_from_slice(b"\\r"),
                    b'\n' => out.extend_from_slice(b"\\n"),
                    b'\t' => out.extend_from_slice(b"\\t"),
                    b'\0' => out.extend_from_slice(b"\\0"),
                    b => out.push(b),
                }
            }
            out.push(b'"');
        }
        Value::Bin(b) => {
            out.push(b'x');
            write_hex(out, b);
        }
        Value::Bool(b) => out.extend_from_slice(if *b { b"true" } else { b"false" }),
        other => other.write_text(out),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acl::AclTable;
    use crate::compile::Expr;
    use crate::pattern::Store;
    use crate::place::Place;
    use crate::testing::{NoFiles, TestEnv, compile};

    fn with_vars(vars: &[(&str, Value<'static>)]) -> TestEnv {
        let env = TestEnv::new();
        for (name, value) in vars {
            env.set_var(&VarRef::parse(name).expect(name), Some(value.clone()));
        }
        env
    }

    #[test]
    fn a_variable_has_its_own_type() {
        let env = with_vars(&[
            ("txn.n", Value::Sint(4)),
            ("sess.s", Value::Str(b"x"[..].into())),
        ]);
        env.check(&[
            ("var(txn.n)", Some("4")),
            ("var(txn.n),add(1)", Some("5")),
            ("var(sess.s)", Some("x")),
            ("var(txn.none)", None),
            ("var(txn.none,dflt)", Some("dflt")),
            ("var(txn.none,)", Some("")),
        ]);
        let error = compile("var(foo)", Place::empty()).expect_err("no scope");
        assert!(error.message.contains("scope"), "{error}");
        assert_eq!(error.span, 4..7);
    }

    #[test]
    fn variables_are_dumped_by_type() {
        let env = with_vars(&[
            ("txn.a", Value::Sint(4)),
            ("txn.ab", Value::Str(b"q\"\n"[..].into())),
            ("txn.b", Value::Bin(b"\x01\xfe"[..].into())),
            ("req.c", Value::Bool(true)),
            ("sess.d", Value::Ipv4([192, 0, 2, 1].into())),
        ]);
        env.check(&[
            (
                "dump_all_vars(txn)",
                Some("txn.a=4, txn.ab=\"q\\\"\\n\", txn.b=x01FE"),
            ),
            ("dump_all_vars(txn,a)", Some("txn.a=4, txn.ab=\"q\\\"\\n\"")),
            (
                "dump_all_vars(,,;)",
                Some("sess.d=192.0.2.1;txn.a=4;txn.ab=\"q\\\"\\n\";txn.b=x01FE;req.c=true"),
            ),
            ("dump_all_vars(res)", Some("")),
        ]);
        assert!(compile("dump_all_vars(foo)", Place::empty()).is_err());
    }

    fn with_acls(declared: &[&[&str]], expr: &str) -> Result<Expr, crate::ExprError> {
        let store = Store::new();
        let mut acls = AclTable::new();
        let mut ctx = ParseCtx {
            place: Place::FE_HTTP_REQ,
            loader: &NoFiles,
            store: &store,
            file: "test.cfg",
            line: 1,
            http: true,
            acls: None,
        };
        for words in declared {
            acls.declare(words, &ctx).expect("a good ACL");
        }
        ctx.acls = Some(&acls);
        Expr::parse(expr, &ctx)
    }

    #[test]
    fn acls_are_joined() {
        let env = TestEnv::request("GET /a HTTP/1.1\r\nHost: h\r\n\r\n");
        let acls: &[&[&str]] = &[
            &["slash_a", "path", "/a"],
            &["post", "method", "POST"],
            &["both", "acl(slash_a,!post)"],
        ];
        let check = |expr: &str, want: Option<&str>| {
            let compiled = with_acls(acls, expr).expect(expr);
            assert_eq!(env.eval_text(&compiled).as_deref(), want, "{expr}");
        };
        check("acl(slash_a)", Some("1"));
        check("acl(!slash_a)", Some("0"));
        check("acl(slash_a,post)", Some("0"));
        check("acl(slash_a,!post)", Some("1"));
        check("acl(both)", Some("1"));
        check("acl(METH_GET)", Some("1"));
        assert!(with_acls(acls, "acl(nope)").is_err());
        assert!(with_acls(acls, "acl(or)").is_err());
        assert!(with_acls(acls, "acl({)").is_err());
        assert!(compile("acl(slash_a)", Place::empty()).is_err());
    }

    #[test]
    fn an_acl_that_refers_to_itself_ends() {
        let acls: &[&[&str]] = &[&["a", "always_false"], &["a", "acl(a)"]];
        let compiled = with_acls(acls, "acl(a)").expect("compiles");
        assert_eq!(TestEnv::new().eval_text(&compiled).as_deref(), Some("0"));
    }
}
