//! Arithmetic and bit operations on signed 64-bit integers. They saturate and never trap; the operand is a number or a
//! variable.

use crate::args::{Arg, ArgKind, NO_ARGS};
use crate::compile::ParseCtx;
use crate::conv::operand::{IntOperand, args, as_var, on_int, parse_int, prepared, set_prepared, str_arg};
use crate::conv::{BadArg, ConvDef, Run};
use crate::env::Env;
use crate::value::{Fetched, Sample, Type, Value};

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
    binary!("mul", "multiplies by a number or variable", i64::saturating_mul),
    binary!(
        "div",
        "divides by a number or variable; by zero gives the largest integer",
        |a, b| if b == 0 { i64::MAX } else { a.saturating_div(b) }
    ),
    binary!(
        "mod",
        "remainder of the division by a number or variable; by zero gives zero",
        |a, b| if b == 0 { 0 } else { a.wrapping_rem(b) }
    ),
    binary!("and", "bitwise and with a number or variable", |a, b| a & b),
    binary!("or", "bitwise or with a number or variable", |a, b| a | b),
    binary!("xor", "bitwise exclusive or with a number or variable", |a, b| a ^ b),
    unary!("cpl", Type::Sint, "flips all bits", |a| Value::Sint(!a)),
    unary!("neg", Type::Sint, "opposite value", |a| Value::Sint(a.saturating_neg())),
    unary!("bool", Type::Bool, "true unless zero", |a| Value::Bool(a != 0)),
    unary!("not", Type::Bool, "true if zero", |a| Value::Bool(a == 0)),
    unary!("odd", Type::Bool, "true if odd", |a| Value::Bool(a & 1 == 1)),
    unary!("even", Type::Bool, "true if even", |a| Value::Bool(a & 1 == 0)),
];

/// A variable if it reads like one, else a number.
fn prepare_operand(args: &mut Vec<Arg>, _: &ParseCtx<'_>) -> Result<(), BadArg> {
    let text = str_arg(args, 0);
    let operand = match as_var(text) {
        Some(var) => IntOperand::Var(var),
        None => IntOperand::Literal(parse_int(text).ok_or_else(|| {
            BadArg::new(
                0,
                format!(
                    "'{}' is neither an integer nor a variable name",
                    String::from_utf8_lossy(text)
                ),
            )
        })?),
    };
    set_prepared(args, 0, operand);
    Ok(())
}

fn operand(args: &[Arg], env: &dyn Env) -> Option<i64> {
    prepared::<IntOperand>(args, 0)?.now(env)
}

#[cfg(test)]
mod tests {
    use crate::conv::testing::check;

    const MAX: &str = "9223372036854775807";
    const MIN: &str = "-9223372036854775808";

    /// Each answer was given by HAProxy 2.6.
    #[test]
    fn as_haproxy_computes() {
        for (input, chain, expect) in [
            ("5", "add(3)", Some("8")),
            ("5", "sub(8)", Some("-3")),
            (MAX, "add(1)", Some(MAX)),
            (MIN, "sub(1)", Some(MIN)),
            (MIN, "neg", Some(MAX)),
            ("7", "div(0)", Some(MAX)),
            ("-7", "div(2)", Some("-3")),
            ("-7", "mod(3)", Some("-1")),
            ("7", "mod(0)", Some("0")),
            (MIN, "div(-1)", Some(MAX)),
            (MIN, "mod(-1)", Some("0")),
            (MAX, "mul(-2)", Some(MIN)),
            ("5", "cpl", Some("-6")),
            ("6", "and(3)", Some("2")),
            ("6", "or(3)", Some("7")),
            ("6", "xor(3)", Some("5")),
            ("6", "odd", Some("0")),
            ("6", "even", Some("1")),
            ("6", "bool", Some("1")),
            ("6", "not", Some("0")),
        ] {
            check(input, chain, expect);
        }
    }
}
