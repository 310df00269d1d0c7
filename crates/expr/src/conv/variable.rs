//! Converters with an effect beside their result: variables, captures, the debug sink.

use crate::args::Arg;
use crate::compile::ParseCtx;
use crate::conv::BadArg;
use crate::conv::operand::{int_arg, need_var, on_bytes, prepared, set_prepared, str_arg};
use crate::env::{Dir, Env};
use crate::value::{Absent, Fetched, Sample, Type, Value};
use crate::vars::{SetIf, VarRef};

converters! {
    "set-var" (Str; Str, Str, Str, Str) Any -> Any, set_var, prepare prepare_set_var
        => "Stores the input in a variable if all of up to four conditions (`ifset`, `ifgt`...) hold, and passes it on; nothing \
            when one does not, or when the variable finds no room.";
    "unset-var" (Str) Any -> Any, unset_var, prepare prepare_unset_var => "Unsets a variable, and passes the input on.";
    "capture-req" (Sint) Str -> Str, |args, s, env| capture(args, s, env, Dir::Request), prepare |args, _| check_capture(args)
        => "Stores the input in a request capture slot, and passes it on; nothing when there is no such slot.";
    "capture-res" (Sint) Str -> Str, |args, s, env| capture(args, s, env, Dir::Response), prepare |args, _| check_capture(args)
        => "Stores the input in a response capture slot, and passes it on; nothing when there is no such slot.";
    "debug" (; Str, Str) Any -> Same, debug
        => "Sends a line with a prefix and the input to an event sink (`buf0` if none is named), and passes the input on.";
}

/// Conditions that `set-var` may have.
const CONDITIONS_MAX: usize = 4;

/// The arguments of `set-var`.
struct SetVar {
    var: VarRef,
    conditions: Vec<SetIf>,
}

fn prepare_set_var(args: &mut Vec<Arg>, _: &ParseCtx<'_>) -> Result<(), BadArg> {
    let var = need_var(args, 0)?;
    let mut conditions = Vec::new();
    for index in 1..=CONDITIONS_MAX {
        let word = String::from_utf8_lossy(str_arg(args, index)).into_owned();
        if !matches!(args.get(index), Some(Arg::Str(_))) {
            break;
        }
        conditions.push(SetIf::parse(&word).ok_or_else(|| {
            BadArg::new(
                index,
                format!(
                    "'{word}' is no condition; there are ifexists, ifnotexists, ifempty, ifnotempty, ifset, ifnotset, \
                     ifgt and iflt"
                ),
            )
        })?);
    }
    set_prepared(args, 0, SetVar { var, conditions });
    Ok(())
}

fn set_var<'a>(args: &'a [Arg], sample: Sample<'a>, env: &'a dyn Env) -> Fetched<'a> {
    let SetVar { var, conditions } = prepared(args, 0).ok_or(Absent::Never)?;
    let allowed = conditions.is_empty() || {
        let current = env.var(var);
        conditions
            .iter()
            .all(|c| c.holds(var.scope, current.as_ref(), &sample.value))
    };
    if allowed && env.set_var(var, Some(sample.value.clone().into_owned())) {
        Ok(sample)
    } else {
        Err(Absent::Never)
    }
}

fn prepare_unset_var(args: &mut Vec<Arg>, _: &ParseCtx<'_>) -> Result<(), BadArg> {
    let var = need_var(args, 0)?;
    set_prepared(args, 0, var);
    Ok(())
}

fn unset_var<'a>(args: &'a [Arg], sample: Sample<'a>, env: &'a dyn Env) -> Fetched<'a> {
    env.set_var(prepared::<VarRef>(args, 0).ok_or(Absent::Never)?, None);
    Ok(sample)
}

fn check_capture(args: &[Arg]) -> Result<(), BadArg> {
    match int_arg(args, 0) {
        Some(slot) if slot >= 0 => Ok(()),
        _ => Err(BadArg::new(0, "the capture slot is a number from 0")),
    }
}

fn capture<'a>(args: &'a [Arg], sample: Sample<'a>, env: &'a dyn Env, dir: Dir) -> Fetched<'a> {
    let slot = int_arg(args, 0)
        .and_then(|i| usize::try_from(i).ok())
        .ok_or(Absent::Never)?;
    on_bytes(sample, |s| {
        env.capture(dir, slot, &s).then_some(Value::Str(s))
    })
}

fn debug<'a>(args: &'a [Arg], sample: Sample<'a>, env: &'a dyn Env) -> Fetched<'a> {
    let mut line = str_arg(args, 0).to_vec();
    if line.is_empty() {
        line.extend_from_slice(b"[debug]");
    }
    line.extend_from_slice(b": type=");
    line.extend_from_slice(sample.value.type_of().name().as_bytes());
    line.push(b' ');
    match sample.value.clone().cast(Type::Str) {
        Some(text) => {
            line.push(b'<');
            text.write_text(&mut line);
            line.push(b'>');
        }
        None => line.extend_from_slice(b"(undisplayable)"),
    }
    let sink = match str_arg(args, 1) {
        b"" => b"buf0",
        sink => sink,
    };
    env.debug_event(sink, &line);
    Ok(sample)
}

#[cfg(test)]
mod tests {
    use crate::conv::testing::{World, check_all, check_new, check_refused};

    #[test]
    fn variables_are_set() {
        check_all(&[
            ("str(a),set-var(txn.x)", Some("a")),
            ("int(5),set-var(txn.x),mul(2),add(txn.x)", Some("15")),
            ("str(a),set-var(txn.x),upper,concat(,txn.x)", Some("Aa")),
            (
                "bin(01ff),set-var(txn.x),hex,length,add(txn.int)",
                Some("16"),
            ),
        ]);
        check_refused(&[
            ("str(a),set-var(x)", "x"),
            ("str(a),set-var(txn.x,ifx)", "ifx"),
        ]);
    }

    #[test]
    fn conditions() {
        check_all(&[
            (
                "str(a),set-var(txn.str,ifexists),concat(,txn.str)",
                Some("aa"),
            ),
            ("str(a),set-var(txn.str,ifnotexists),concat(,txn.str)", None),
            ("str(a),set-var(txn.y,ifexists),concat(,txn.y)", None),
            ("str(a),set-var(txn.str,ifset),concat(,txn.str)", Some("aa")),
            ("str(a),set-var(txn.str,ifnotset),concat(,txn.str)", None),
            (
                "str(),set-var(txn.str,ifempty),concat(-,txn.str)",
                Some("-"),
            ),
            ("str(),set-var(txn.str,ifnotempty),concat(-,txn.str)", None),
            (
                "int(20),set-var(txn.int,iflt),concat(-,txn.int)",
                Some("20-20"),
            ),
            ("int(20),set-var(txn.int,ifgt),concat(-,txn.int)", None),
            (
                "int(5),set-var(txn.int,ifgt),concat(-,txn.int)",
                Some("5-5"),
            ),
            (
                "str(z),set-var(txn.int,ifgt),concat(-,txn.int)",
                Some("z-z"),
            ),
            (
                "int(20),set-var(txn.int,iflt,ifnotset),concat(-,txn.int)",
                None,
            ),
        ]);
    }

    #[test]
    fn variables_are_unset() {
        check_all(&[
            ("str(a),unset-var(txn.str)", Some("a")),
            ("str(a),unset-var(txn.missing)", Some("a")),
            ("str(a),unset-var(txn.str),unset-var(txn.str)", Some("a")),
            ("str(a),unset-var(txn.str),concat(-,txn.str)", Some("a-")),
        ]);
    }

    #[test]
    fn captures_are_stored() {
        let world = World::new(b"");
        assert_eq!(
            world
                .run("str(abc),capture-req(2),upper,capture-res(0)")
                .unwrap(),
            Some(b"ABC".to_vec())
        );
        let captured = format!("{:?}", world.captured.borrow());
        assert_eq!(
            captured,
            "[(Request, 2, [97, 98, 99]), (Response, 0, [65, 66, 67])]"
        );
        assert!(World::new(b"").run("str(a),capture-req(-1)").is_err());
    }

    #[test]
    fn debug_passes_the_input_on() {
        check_all(&[
            ("int(5),debug,add(1)", Some("6")),
            ("str(a),debug(x)", Some("a")),
        ]);
        check_new(&[("bin(0001),debug,hex", Some("0001"))]);
        let world = World::new(b"");
        world.run("ipv4(192.0.2.1),debug(here,stderr)").unwrap();
        assert_eq!(
            world.sink.borrow().escape_ascii().to_string(),
            "stderr|here: type=ipv4 <192.0.2.1>"
        );
    }
}
