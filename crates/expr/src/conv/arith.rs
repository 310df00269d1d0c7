//! Arithmetic and bit operations on signed 64-bit integers. They saturate and never trap; the operand is a number or a
//! variable.

use crate::args::Arg;
use crate::compile::ParseCtx;
use crate::conv::BadArg;
use crate::conv::operand::{IntOperand, on_int, prepared, set_prepared};
use crate::env::Env;
use crate::value::{Fetched, Sample, Value};

converters! {
    "add" (Str) Sint -> Sint, |args, s, env| binary(args, s, env, i64::saturating_add), prepare prepare_operand
        => "Adds a number or a variable; stops at the largest integer.";
    "sub" (Str) Sint -> Sint, |args, s, env| binary(args, s, env, i64::saturating_sub), prepare prepare_operand
        => "Subtracts a number or a variable; stops at the smallest integer.";
    "mul" (Str) Sint -> Sint, |args, s, env| binary(args, s, env, i64::saturating_mul), prepare prepare_operand
        => "Multiplies by a number or a variable; stops at the largest and smallest integer.";
    "div" (Str) Sint -> Sint, |args, s, env| binary(args, s, env, div), prepare prepare_operand
        => "Divides by a number or a variable; by zero gives the largest integer.";
    "mod" (Str) Sint -> Sint, |args, s, env| binary(args, s, env, rem), prepare prepare_operand
        => "The remainder of a division by a number or a variable; by zero gives zero.";
    "and" (Str) Sint -> Sint, |args, s, env| binary(args, s, env, |a, b| a & b), prepare prepare_operand
        => "Bitwise and with a number or a variable.";
    "or" (Str) Sint -> Sint, |args, s, env| binary(args, s, env, |a, b| a | b), prepare prepare_operand
        => "Bitwise or with a number or a variable.";
    "xor" (Str) Sint -> Sint, |args, s, env| binary(args, s, env, |a, b| a ^ b), prepare prepare_operand
        => "Bitwise exclusive or with a number or a variable.";
    "cpl" () Sint -> Sint, |_, s, _| on_int(s, |a| Some(Value::Sint(!a))) => "Flips all bits.";
    "neg" () Sint -> Sint, |_, s, _| on_int(s, |a| Some(Value::Sint(a.saturating_neg()))) => "The opposite value.";
    "bool" () Sint -> Bool, |_, s, _| on_int(s, |a| Some(Value::Bool(a != 0))) => "True unless zero.";
    "not" () Sint -> Bool, |_, s, _| on_int(s, |a| Some(Value::Bool(a == 0))) => "True if zero.";
    "odd" () Sint -> Bool, |_, s, _| on_int(s, |a| Some(Value::Bool(a & 1 == 1))) => "True if odd.";
    "even" () Sint -> Bool, |_, s, _| on_int(s, |a| Some(Value::Bool(a & 1 == 0))) => "True if even.";
}

fn div(a: i64, b: i64) -> i64 {
    if b == 0 {
        i64::MAX
    } else {
        a.saturating_div(b)
    }
}

fn rem(a: i64, b: i64) -> i64 {
    if b == 0 { 0 } else { a.wrapping_rem(b) }
}

fn binary<'a>(
    args: &'a [Arg],
    sample: Sample<'a>,
    env: &'a dyn Env,
    op: fn(i64, i64) -> i64,
) -> Fetched<'a> {
    on_int(sample, |a| {
        let b = prepared::<IntOperand>(args, 0)?.now(env)?;
        Some(Value::Sint(op(a, b)))
    })
}

fn prepare_operand(args: &mut Vec<Arg>, _: &ParseCtx<'_>) -> Result<(), BadArg> {
    let operand = IntOperand::parse(args, 0)?;
    set_prepared(args, 0, operand);
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::conv::testing::{World, check_all, check_refused};

    #[test]
    fn operations() {
        check_all(&[
            ("int(5),add(3)", Some("8")),
            ("int(5),sub(8)", Some("-3")),
            (
                "int(9223372036854775807),add(1)",
                Some("9223372036854775807"),
            ),
            (
                "int(-9223372036854775808),add(-1)",
                Some("-9223372036854775808"),
            ),
            (
                "int(-9223372036854775808),sub(1)",
                Some("-9223372036854775808"),
            ),
            (
                "int(1),sub(-9223372036854775808)",
                Some("9223372036854775807"),
            ),
            (
                "int(-1),sub(-9223372036854775808)",
                Some("9223372036854775807"),
            ),
            ("int(-9223372036854775808),neg", Some("9223372036854775807")),
            ("int(0),neg", Some("0")),
            ("int(7),div(0)", Some("9223372036854775807")),
            ("int(-7),div(0)", Some("9223372036854775807")),
            ("int(-7),div(2)", Some("-3")),
            ("int(-7),mod(3)", Some("-1")),
            ("int(7),mod(0)", Some("0")),
            (
                "int(-9223372036854775808),div(-1)",
                Some("9223372036854775807"),
            ),
            ("int(-9223372036854775808),mod(-1)", Some("0")),
            (
                "int(9223372036854775807),mul(-2)",
                Some("-9223372036854775808"),
            ),
            (
                "int(-9223372036854775808),mul(-1)",
                Some("9223372036854775807"),
            ),
            (
                "int(3000000000),mul(4000000000)",
                Some("9223372036854775807"),
            ),
            ("int(5),cpl", Some("-6")),
            ("int(6),and(3)", Some("2")),
            ("int(6),or(3)", Some("7")),
            ("int(6),xor(3)", Some("5")),
            ("int(6),and(-2)", Some("6")),
            ("int(6),odd", Some("0")),
            ("int(-5),odd", Some("1")),
            ("int(6),even", Some("1")),
            ("int(6),bool", Some("1")),
            ("int(0),bool", Some("0")),
            ("int(6),not", Some("0")),
            ("int(0),not", Some("1")),
        ]);
    }

    #[test]
    fn operands_are_numbers_or_variables() {
        check_all(&[
            ("int(5),add(txn.int)", Some("17")),
            ("int(5),add(txn.num)", Some("39")),
            ("int(5),add(txn.yes)", Some("6")),
            ("int(5),add(txn.str)", Some("5")),
            ("int(5),add(txn.empty)", None),
            ("int(5),add(txn.missing)", None),
            ("int(5),add(txn.bin)", None),
            ("int(5),add(txn.ip)", Some("3221225990")),
            (
                "int(5),add(99999999999999999999)",
                Some("9223372036854775807"),
            ),
            (
                "int(5),add(-99999999999999999999)",
                Some("-9223372036854775803"),
            ),
            ("int(5),add(+1)", Some("6")),
        ]);
    }

    #[test]
    fn inputs_are_cast_to_integers() {
        check_all(&[
            ("str(12abc),add(1)", Some("13")),
            ("str(abc),add(1)", Some("1")),
            ("str(),add(1)", None),
            ("str(-4),add(1)", Some("-3")),
            (
                "str(99999999999999999999),add(0)",
                Some("9223372036854775807"),
            ),
            ("bool(true),add(1)", Some("2")),
            ("ipv4(0.0.1.1),add(1)", Some("258")),
        ]);
    }

    #[test]
    fn bad_operands_are_refused() {
        check_refused(&[
            ("int(1),add(x)", "neither"),
            ("int(1),add(1x)", "neither"),
            ("int(1),add(nope.x)", "neither"),
        ]);
    }

    proptest! {
        /// The model computes in 128 bits and clamps.
        #[test]
        fn saturates_as_a_wider_type_clamped(a: i64, b: i64) {
            let run = |op: &str| {
                let text = World::new(b"").run(&format!("int({a}),{op}({b})")).unwrap().unwrap();
                String::from_utf8(text).unwrap().parse::<i64>().unwrap()
            };
            let (wide_a, wide_b) = (i128::from(a), i128::from(b));
            let clamp = |v: i128| v.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64;
            prop_assert_eq!(run("add"), clamp(wide_a + wide_b));
            prop_assert_eq!(run("sub"), clamp(wide_a - wide_b));
            prop_assert_eq!(run("mul"), clamp(wide_a * wide_b));
            prop_assert_eq!(run("div"), if b == 0 { i64::MAX } else { clamp(wide_a / wide_b) });
            prop_assert_eq!(run("mod"), if b == 0 { 0 } else { clamp(wide_a % wide_b) });
        }
    }
}
