//! Arithmetic and bit operations on signed 64-bit integers. They saturate and never trap; the operand is a number or a
//! variable.

use crate::args::{Arg, ArgKind, NO_ARGS};
use crate::compile::ParseCtx;
use crate::conv::operand::{IntOperand, args, on_int, prepared, set_prepared};
use crate::conv::{BadArg, ConvDef, Run};
use crate::env::Env;
use crate::value::{Type, Value};

macro_rules! binary {
    ($name:literal, $help:literal, $op:expr) => {
        ConvDef {
            name: $name,
            args: args(&[ArgKind::Str], 1),
            input: Type::Sint,
            out: Type::Sint,
            help: $help,
            run: Run::Fn(|args, sample, env| {
                let operand = operand(args, env);
                on_int(sample, |a| {
                    let op: fn(i64, i64) -> i64 = $op;
                    Some(Value::Sint(op(a, operand?)))
                })
            }),
            prepare: Some(prepare_operand),
        }
    };
}

macro_rules! unary {
    ($name:literal, $out:expr, $help:literal, $op:expr) => {
        ConvDef {
            name: $name,
            args: NO_ARGS,
            input: Type::Sint,
            out: $out,
            help: $help,
            run: Run::Fn(|_, sample, _| {
                let op: fn(i64) -> Value<'static> = $op;
                on_int(sample, |a| Some(op(a)))
            }),
            prepare: None,
        }
    };
}

pub const DEFS: &[ConvDef] = &[
    binary!("add", "adds a number or variable", i64::saturating_add),
    binary!("sub", "subtracts a number or variable", i64::saturating_sub),
    binary!(
        "mul",
        "multiplies by a number or variable",
        i64::saturating_mul
    ),
    binary!(
        "div",
        "divides by a number or variable; by zero gives the largest integer",
        |a, b| if b == 0 {
            i64::MAX
        } else {
            a.saturating_div(b)
        }
    ),
    binary!(
        "mod",
        "remainder of the division by a number or variable; by zero gives zero",
        |a, b| if b == 0 { 0 } else { a.wrapping_rem(b) }
    ),
    binary!("and", "bitwise and with a number or variable", |a, b| a & b),
    binary!("or", "bitwise or with a number or variable", |a, b| a | b),
    binary!(
        "xor",
        "bitwise exclusive or with a number or variable",
        |a, b| a ^ b
    ),
    unary!("cpl", Type::Sint, "flips all bits", |a| Value::Sint(!a)),
    unary!("neg", Type::Sint, "opposite value", |a| Value::Sint(
        a.saturating_neg()
    )),
    unary!("bool", Type::Bool, "true unless zero", |a| Value::Bool(
        a != 0
    )),
    unary!("not", Type::Bool, "true if zero", |a| Value::Bool(a == 0)),
    unary!("odd", Type::Bool, "true if odd", |a| Value::Bool(
        a & 1 == 1
    )),
    unary!("even", Type::Bool, "true if even", |a| Value::Bool(
        a & 1 == 0
    )),
];

fn prepare_operand(args: &mut Vec<Arg>, _: &ParseCtx<'_>) -> Result<(), BadArg> {
    let operand = IntOperand::parse(args, 0)?;
    set_prepared(args, 0, operand);
    Ok(())
}

fn operand(args: &[Arg], env: &dyn Env) -> Option<i64> {
    prepared::<IntOperand>(args, 0)?.now(env)
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
