//! What converters share: reading their arguments, operands that are a literal or a variable, and the bytes or number
//! a variable holds.

use std::any::Any;
use std::borrow::Cow;
use std::sync::Arc;

use crate::args::Arg;
use crate::conv::{BadArg, base64};
use crate::env::Env;
use crate::value::{Absent, Fetched, Sample, Type, Value};
use crate::vars::VarRef;

/// The bytes of a string argument; nothing when it was left out.
pub fn str_arg(args: &[Arg], index: usize) -> &[u8] {
    match args.get(index) {
        Some(Arg::Str(s)) => s,
        _ => b"",
    }
}

/// An integer argument; `None` when it was left out.
pub fn int_arg(args: &[Arg], index: usize) -> Option<i64> {
    match args.get(index) {
        Some(Arg::Sint(i)) => Some(*i),
        _ => None,
    }
}

/// What `prepare` left at that place.
pub fn prepared<T: Any>(args: &[Arg], index: usize) -> Option<&T> {
    match args.get(index) {
        Some(Arg::Prepared(p)) => p.downcast_ref(),
        _ => None,
    }
}

/// Stores a prepared form at that place.
pub fn set_prepared<T: Any + Send + Sync>(args: &mut Vec<Arg>, index: usize, value: T) {
    while args.len() <= index {
        args.push(Arg::None);
    }
    if let Some(slot) = args.get_mut(index) {
        *slot = Arg::Prepared(Arc::new(value));
    }
}

/// A text argument as UTF-8, for names and paths.
pub fn text_arg(args: &[Arg], index: usize) -> Result<&str, BadArg> {
    std::str::from_utf8(str_arg(args, index))
        .map_err(|_| BadArg::new(index, "this argument is not UTF-8 text"))
}

/// An integer that is written or comes from a variable.
#[derive(Debug, Clone)]
pub enum IntOperand {
    Literal(i64),
    Var(VarRef),
}

impl IntOperand {
    /// Reads an argument that is a variable's name or else a number.
    pub fn parse(args: &[Arg], index: usize) -> Result<IntOperand, BadArg> {
        let text = str_arg(args, index);
        if let Some(var) = as_var(text) {
            return Ok(IntOperand::Var(var));
        }
        parse_int(text).map(IntOperand::Literal).ok_or_else(|| {
            let text = String::from_utf8_lossy(text);
            BadArg::new(
                index,
                format!("'{text}' is neither an integer nor a variable name"),
            )
        })
    }

    /// Its value now; `None` when the variable is not set or holds no number.
    pub fn now(&self, env: &dyn Env) -> Option<i64> {
        match self {
            IntOperand::Literal(i) => Some(*i),
            IntOperand::Var(v) => match env.var(v)?.cast(Type::Sint)? {
                Value::Sint(i) => Some(i),
                _ => None,
            },
        }
    }
}

/// Bytes written in base64, or in base64 in a variable: keys, nonces, tags.
#[derive(Debug, Clone)]
pub enum Base64Operand {
    Literal(Vec<u8>),
    Var(VarRef),
}

impl Base64Operand {
    /// Reads an argument that is a variable's name or else base64.
    pub fn parse(args: &[Arg], index: usize) -> Result<Base64Operand, BadArg> {
        let text = str_arg(args, index);
        if let Some(var) = as_var(text) {
            return Ok(Base64Operand::Var(var));
        }
        base64::decode(text)
            .map(Base64Operand::Literal)
            .ok_or_else(|| {
                BadArg::new(index, "this must be base64 or a variable that holds base64")
            })
    }

    /// The bytes now; `None` when the variable is not set or holds no base64.
    pub fn now(&self, env: &dyn Env) -> Option<Cow<'_, [u8]>> {
        match self {
            Base64Operand::Literal(bytes) => Some(Cow::Borrowed(bytes)),
            Base64Operand::Var(var) => {
                base64::decode(&var_bytes(var, env, Type::Str)?).map(Cow::Owned)
            }
        }
    }
}

/// A variable's content, cast to a string or to binary.
pub fn var_bytes<'a>(var: &VarRef, env: &'a dyn Env, as_type: Type) -> Option<Cow<'a, [u8]>> {
    match env.var(var)?.cast(as_type)? {
        Value::Str(s) | Value::Bin(s) => Some(s),
        _ => None,
    }
}

/// The variable an argument names, if it is a name with a scope.
pub fn as_var(text: &[u8]) -> Option<VarRef> {
    VarRef::parse(std::str::from_utf8(text).ok()?).ok()
}

/// The variable an argument must name.
pub fn need_var(args: &[Arg], index: usize) -> Result<VarRef, BadArg> {
    VarRef::parse(text_arg(args, index)?).map_err(|e| BadArg::new(index, e.to_string()))
}

/// The whole text as a decimal integer with an optional sign, saturating as HAProxy's `read_int64` does; an empty text
/// is zero.
pub fn parse_int(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    let mut value: i64 = 0;
    for c in digits {
        if !c.is_ascii_digit() {
            return None;
        }
        let digit = i64::from(c - b'0');
        value = value.saturating_mul(10);
        value = if negative {
            value.saturating_sub(digit)
        } else {
            value.saturating_add(digit)
        };
    }
    Some(value)
}

/// The bytes of a string or binary sample; `None` for any other type (the casts before a converter exclude it).
pub fn bytes_of<'a>(value: Value<'a>) -> Option<Cow<'a, [u8]>> {
    match value {
        Value::Str(s) | Value::Bin(s) => Some(s),
        _ => None,
    }
}

/// Runs `f` on the bytes of the sample.
pub fn on_bytes<'a>(
    sample: Sample<'a>,
    f: impl FnOnce(Cow<'a, [u8]>) -> Option<Value<'a>>,
) -> Fetched<'a> {
    let (may_change, not_last) = (sample.may_change, sample.not_last);
    let value = bytes_of(sample.value).and_then(f).ok_or(Absent::Never)?;
    Ok(Sample {
        value,
        may_change,
        not_last,
    })
}

/// Runs `f` on the number of the sample.
pub fn on_int<'a>(sample: Sample<'a>, f: impl FnOnce(i64) -> Option<Value<'a>>) -> Fetched<'a> {
    let (may_change, not_last) = (sample.may_change, sample.not_last);
    let value = match sample.value {
        Value::Sint(i) => f(i),
        _ => None,
    };
    Ok(Sample {
        value: value.ok_or(Absent::Never)?,
        may_change,
        not_last,
    })
}

/// A part of a string without copying it when it is borrowed, and in place when it is owned.
pub fn slice_cow(text: Cow<'_, [u8]>, range: std::ops::Range<usize>) -> Cow<'_, [u8]> {
    match text {
        Cow::Borrowed(s) => Cow::Borrowed(s.get(range).unwrap_or_default()),
        Cow::Owned(mut s) => {
            s.truncate(range.end);
            s.drain(..range.start.min(s.len()));
            Cow::Owned(s)
        }
    }
}
