//! Comparing with a variable, and choosing between two strings.

use std::borrow::Cow;

use aws_lc_rs::constant_time::verify_slices_are_equal;

use crate::args::Arg;
use crate::compile::ParseCtx;
use crate::conv::BadArg;
use crate::conv::operand::{need_var, on_bytes, prepared, set_prepared, str_arg, var_bytes};
use crate::env::Env;
use crate::value::{Absent, Fetched, Sample, Type, Value};
use crate::vars::VarRef;

converters! {
    "strcmp" (Str) Str -> Sint, strcmp, prepare prepare_var
        => "Compares with a variable's content as strcmp(3): 0 when equal, negative when the input comes first.";
    "secure_memcmp" (Str) Bin -> Bool, secure_memcmp, prepare prepare_var
        => "Whether a variable holds the same bytes, in a time that does not tell where they differ.";
    "iif" (Str, Str) Bool -> Str, iif => "The first string if true, the second if false.";
}

fn prepare_var(args: &mut Vec<Arg>, _: &ParseCtx<'_>) -> Result<(), BadArg> {
    let var = need_var(args, 0)?;
    set_prepared(args, 0, var);
    Ok(())
}

fn strcmp<'a>(args: &'a [Arg], sample: Sample<'a>, env: &'a dyn Env) -> Fetched<'a> {
    on_bytes(sample, |s| {
        let other = var_bytes(prepared::<VarRef>(args, 0)?, env, Type::Str)?;
        Some(Value::Sint(order(&s, &other)))
    })
}

/// The difference of the first bytes that differ before a NUL, else the sign of the difference in length.
fn order(a: &[u8], b: &[u8]) -> i64 {
    for (x, y) in a.iter().zip(b) {
        if x != y {
            return i64::from(*x) - i64::from(*y);
        }
        if *x == 0 {
            break;
        }
    }
    a.len().cmp(&b.len()) as i64
}

fn secure_memcmp<'a>(args: &'a [Arg], sample: Sample<'a>, env: &'a dyn Env) -> Fetched<'a> {
    on_bytes(sample, |s| {
        let other = var_bytes(prepared::<VarRef>(args, 0)?, env, Type::Bin)?;
        Some(Value::Bool(verify_slices_are_equal(&s, &other).is_ok()))
    })
}

fn iif<'a>(args: &'a [Arg], sample: Sample<'a>, _: &'a dyn Env) -> Fetched<'a> {
    let Value::Bool(choice) = sample.value else {
        return Err(Absent::Never);
    };
    let text = str_arg(args, usize::from(!choice));
    Ok(Sample {
        value: Value::Str(Cow::Borrowed(text)),
        ..sample
    })
}

#[cfg(test)]
mod tests {
    use crate::conv::testing::{check_all, check_refused};

    #[test]
    fn strings() {
        check_all(&[
            ("str(text),strcmp(txn.str)", Some("0")),
            ("str(abc),strcmp(txn.str)", Some("-19")),
            ("str(tex),strcmp(txn.str)", Some("-1")),
            ("str(texts),strcmp(txn.str)", Some("1")),
            ("str(texu),strcmp(txn.str)", Some("1")),
            ("str(12),strcmp(txn.int)", Some("0")),
            ("str(),strcmp(txn.str)", Some("-1")),
            ("str(zzz),strcmp(txn.empty)", Some("1")),
            ("str(a%ff),url_dec,strcmp(txn.bin)", Some("96")),
            ("str(%01%fe),url_dec,strcmp(txn.bin)", Some("0")),
            ("str(x),strcmp(txn.missing)", None),
        ]);
        check_refused(&[("str(x),strcmp(foo)", "foo")]);
    }

    #[test]
    fn bytes() {
        check_all(&[
            ("str(text),secure_memcmp(txn.str)", Some("1")),
            ("str(tex),secure_memcmp(txn.str)", Some("0")),
            ("str(text),secure_memcmp(txn.num)", Some("0")),
            ("bin(01fe),secure_memcmp(txn.bin)", Some("1")),
            ("int(12),secure_memcmp(txn.int)", Some("1")),
            ("str(12),secure_memcmp(txn.int)", Some("0")),
            ("str(),secure_memcmp(txn.empty)", Some("1")),
            ("str(x),secure_memcmp(txn.missing)", None),
        ]);
        check_refused(&[("str(x),secure_memcmp(foo)", "foo")]);
    }

    #[test]
    fn choices() {
        check_all(&[
            ("bool(true),iif(yes,no)", Some("yes")),
            ("bool(false),iif(yes,no)", Some("no")),
            ("int(2),iif(yes,no)", Some("yes")),
            ("str(x),iif(yes,no)", Some("no")),
            ("str(),iif(yes,no)", None),
            ("bool(true),iif(,no)", Some("")),
        ]);
        check_refused(&[("bool(true),iif(a,b,c)", "2 arguments")]);
    }
}
