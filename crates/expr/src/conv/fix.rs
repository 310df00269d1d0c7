//! FIX (Financial Information eXchange): `tag=value` pairs that end in SOH.

use crate::args::Arg;
use crate::compile::ParseCtx;
use crate::conv::BadArg;
use crate::conv::operand::{on_bytes, parse_int, prepared, set_prepared, slice_cow, str_arg};
use crate::env::Env;
use crate::value::{Fetched, Sample, Value};

converters! {
    "fix_is_valid" () Bin -> Bool, |_, s, _| on_bytes(s, |s| validate(&s).map(Value::Bool))
        => "Whether the bytes begin with a valid FIX message; nothing when more are needed to tell.";
    "fix_tag_value" (Str) Bin -> Bin, fix_tag_value, prepare prepare_tag
        => "The value of a tag, given by its number or a name like `MsgType`, in a FIX message.";
}

const SOH: u8 = 1;
const BEGIN_STRING: u32 = 8;
const BODY_LENGTH: u32 = 9;
const CHECK_SUM: u32 = 10;
const MSG_TYPE: u32 = 35;

/// Tags that have a name here.
const NAMES: &[(&str, u32)] = &[
    ("BeginString", BEGIN_STRING),
    ("BodyLength", BODY_LENGTH),
    ("CheckSum", CHECK_SUM),
    ("MsgType", MSG_TYPE),
    ("SenderCompID", 49),
    ("TargetCompID", 56),
];

const VERSIONS: &[&[u8]] = &[
    b"FIX.4.0",
    b"FIX.4.1",
    b"FIX.4.2",
    b"FIX.4.3",
    b"FIX.4.4",
    b"FIXT.1.1",
];

/// No message is shorter than this.
const MESSAGE_MIN: usize = 26;

/// One `tag=value` and its delimiter.
struct Field<'m> {
    tag: Option<u32>,
    value: &'m [u8],
    /// How long it is with everything.
    len: usize,
}

/// The field at the beginning; `None` when it has no end yet.
fn next_field(rest: &[u8]) -> Option<Field<'_>> {
    let equals = memchr::memchr(b'=', rest)?;
    let value = &rest[equals..];
    let end = memchr::memchr(SOH, value)?;
    Some(Field {
        tag: tag_number(&rest[..equals]),
        value: &value[1..end],
        len: equals + end + 1,
    })
}

/// Digits only, in 32 bits; 0 is no tag.
fn tag_number(digits: &[u8]) -> Option<u32> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(decimal(digits)).filter(|n| *n != 0)
}

/// As HAProxy's `strl2ui`: 32 bits, no look at the digits.
fn decimal(text: &[u8]) -> u32 {
    text.iter().fold(0u32, |n, c| {
        n.wrapping_mul(10)
            .wrapping_add(u32::from(*c).wrapping_sub(48))
    })
}

/// The first three tags, the length, the tag numbers and the sum; `None` when the message may still become valid.
fn validate(message: &[u8]) -> Option<bool> {
    if message.len() < MESSAGE_MIN {
        return None;
    }
    let (mut at, mut body, mut body_len, mut sum) = (0, 0, 0, 0u8);
    for count in 1.. {
        let field = next_field(&message[at..])?;
        let Some(tag) = field.tag else {
            return Some(false);
        };
        match count {
            1 if tag == BEGIN_STRING && VERSIONS.contains(&field.value) => {}
            2 if tag == BODY_LENGTH => {
                body_len = match tag_number(field.value) {
                    Some(len) => len as usize,
                    None => return Some(false),
                };
                body = at + field.len;
            }
            3 if tag == MSG_TYPE => {}
            1..=3 => return Some(false),
            _ if tag == CHECK_SUM => {
                let sum_matches = field.value.len() == 3 && decimal(field.value) == u32::from(sum);
                return Some(at - body == body_len && sum_matches);
            }
            _ => {}
        }
        sum = message[at..at + field.len]
            .iter()
            .fold(sum, |sum, c| sum.wrapping_add(*c));
        at += field.len;
    }
    None
}

fn prepare_tag(args: &mut Vec<Arg>, _: &ParseCtx<'_>) -> Result<(), BadArg> {
    let text = String::from_utf8_lossy(str_arg(args, 0)).into_owned();
    let named = NAMES
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(&text))
        .map(|(_, tag)| *tag);
    let numbered = || tag_number(text.as_bytes()).filter(|_| parse_int(text.as_bytes()).is_some());
    let tag = named.or_else(numbered).ok_or_else(|| {
        let names: Vec<&str> = NAMES.iter().map(|(name, _)| *name).collect();
        BadArg::new(
            0,
            format!(
                "'{text}' is no FIX tag; give its number, or one of {}",
                names.join(", ")
            ),
        )
    })?;
    set_prepared(args, 0, tag);
    Ok(())
}

fn fix_tag_value<'a>(args: &'a [Arg], sample: Sample<'a>, _: &'a dyn Env) -> Fetched<'a> {
    on_bytes(sample, |s| {
        let range = find_tag(&s, *prepared::<u32>(args, 0)?)?;
        Some(Value::Bin(slice_cow(s, range)))
    })
}

/// Where the tag's value is. The search ends at the sum and at anything that is no tag.
fn find_tag(message: &[u8], wanted: u32) -> Option<std::ops::Range<usize>> {
    let mut at = 0;
    loop {
        let field = next_field(&message[at..])?;
        let tag = field.tag?;
        at += field.len;
        if tag == wanted {
            return (!field.value.is_empty()).then_some(at - 1 - field.value.len()..at - 1);
        }
        if tag == CHECK_SUM {
            return None;
        }
    }
}

#[cfg(test)]
mod tests;
