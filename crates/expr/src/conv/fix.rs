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
mod tests {
    use proptest::prelude::*;

    use crate::conv::testing::{World, check_all, check_refused};

    #[test]
    fn messages() {
        check_all(&[
            (
                "bin(383d4649582e342e3401393d34320133353d410134393d434c49454e540135363d5345525645520133343d310139383d30013130383d33300131303d31393001),fix_is_valid",
                Some("1"),
            ),
            (
                "bin(383d4649582e342e3401393d31360133353d410134393d434c49454e540131303d30383001),fix_is_valid",
                Some("0"),
            ),
            (
                "bin(383d4649582e342e3401393d350133353d410131303d31383101),fix_is_valid",
                Some("0"),
            ),
            (
                "bin(383d4649582e342e3401393d31300134393d430133353d410131303d32303601),fix_is_valid",
                Some("0"),
            ),
            (
                "bin(383d4649582e342e3401393d340133353d0131303d31313401),fix_is_valid",
                None,
            ),
            (
                "bin(383d4649582e342e3401393d390133353d4101783d310131303d31353901),fix_is_valid",
                Some("0"),
            ),
            (
                "bin(383d4649582e342e3401393d380133353d41013d310131303d30333801),fix_is_valid",
                Some("0"),
            ),
            (
                "bin(383d4649582e392e3901393d350133353d410131303d31393001),fix_is_valid",
                Some("0"),
            ),
            (
                "bin(383d4649582e342e3001393d350133353d410131303d31373601),fix_is_valid",
                Some("1"),
            ),
            (
                "bin(383d4649582e342e3101393d350133353d410131303d31373701),fix_is_valid",
                Some("1"),
            ),
            (
                "bin(383d4649582e342e3201393d350133353d410131303d31373801),fix_is_valid",
                Some("1"),
            ),
            (
                "bin(383d4649582e342e3301393d350133353d410131303d31373901),fix_is_valid",
                Some("1"),
            ),
            (
                "bin(383d4649582e352e3001393d350133353d410131303d31373701),fix_is_valid",
                Some("0"),
            ),
            (
                "bin(383d464958542e312e3101393d350133353d410131303d30303201),fix_is_valid",
                Some("1"),
            ),
            (
                "bin(383d4649582e3401393d350133353d410131303d30383201),fix_is_valid",
                None,
            ),
            (
                "bin(383d4649582e342e3401393d300131303d32303001),fix_is_valid",
                None,
            ),
            ("bin(393d3501383d4649582e342e3401),fix_is_valid", None),
            ("str(),fix_is_valid", None),
            (
                "bin(383d4649582e342e3401393d34320133353d410134393d434c49454e540135363d5345525645520133343d310139383d30013130383d33300131303d313930),fix_is_valid",
                None,
            ),
            (
                "bin(383d4649582e342e3401393d34320133353d410134393d434c49454e540135363d5345525645520133343d310139383d30013130383d33300131303d3139300178),fix_is_valid",
                Some("1"),
            ),
            (
                "bin(383d4649582e342e3401393d34320133353d410134393d434c49454e540135363d5345525645520133343d310139383d30013130383d33300131303d31393001383d4649582e342e3401393d34320133353d410134393d434c49454e540135363d5345525645520133343d310139383d30013130383d33300131303d31393001),fix_is_valid",
                Some("1"),
            ),
            (
                "bin(383d4649582e342e3401393d34320133353d4101),fix_is_valid",
                None,
            ),
            (
                "bin(383d4649582e342e3401393d34320133353d410134393d434c49454e540135363d5345525645520133343d310139383d30013130383d333001),fix_is_valid",
                None,
            ),
            (
                "bin(383d4649582e342e3401393d31320133353d410131303d3030300131303d30313701),fix_is_valid",
                Some("0"),
            ),
            (
                "bin(383d4649582e342e3401393d31320133353d410134393d613d620131303d31343101),fix_is_valid",
                Some("1"),
            ),
            (
                "bin(383d4649582e342e3401393d390133353d410135383d0131303d30393901),fix_is_valid",
                Some("1"),
            ),
            (
                "bin(383d4649582e342e3401393d34320133353d410134393d434c49454e540135363d5345525645520133343d310139383d30013130383d3330013031303d31393001),fix_is_valid",
                Some("1"),
            ),
            (
                "bin(383d4649582e342e3401393d30350133353d410131303d31383001),fix_is_valid",
                Some("0"),
            ),
            (
                "bin(383d4649582e342e3401393d780133353d410131303d30303001),fix_is_valid",
                Some("0"),
            ),
            ("bin(383d4649582e342e3401),fix_is_valid", None),
            ("bin(383d4649582e342e34),fix_is_valid", None),
            ("bin(383d),fix_is_valid", None),
            ("bin(68656c6c6f),fix_is_valid", None),
            (
                "bin(383d4649582e342e3401393d360133353d41410131303d32343601),fix_is_valid",
                Some("1"),
            ),
            (
                "bin(383d4649582e342e3401393d36013033353d410131303d32323901),fix_is_valid",
                Some("1"),
            ),
            (
                "bin(383d4649582e342e3401393d380133353d410134390131303d30333701),fix_is_valid",
                Some("0"),
            ),
            (
                "bin(383d4649582e342e3401393d390133353d410134393d7831303d32313801),fix_is_valid",
                None,
            ),
            (
                "bin(383d4649582e342e3401393d31300133353d0134393d43430131303d32303801),fix_is_valid",
                Some("1"),
            ),
            (
                "bin(383d4649582e342e3401393d31300133353d410134393d430131303d3032303601),fix_is_valid",
                Some("0"),
            ),
            (
                "bin(383d4649582e342e3401393d31300133353d410134393d430131303d303601),fix_is_valid",
                Some("0"),
            ),
            (
                "bin(383d4649582e342e3401393d31300133353d410134393d430131303d30636501),fix_is_valid",
                Some("0"),
            ),
            (
                "bin(383d4649582e342e3401393d31310133353d410134393de9ff0131303d31313601),fix_is_valid",
                Some("1"),
            ),
            (
                "bin(383d4649582e342e3401393d31300133353d410134393d430131303d32303601383d4649582e342e3401393d31300133353d410134393d430131303d32303601),fix_is_valid",
                Some("1"),
            ),
            (
                "bin(383d4649582e342e3401393d31370131303d3030300133353d410134393d430131303d30303401),fix_is_valid",
                Some("0"),
            ),
            (
                "bin(383d4649582e352e3053503201393d31300133353d410134393d430131303d31363001),fix_is_valid",
                Some("0"),
            ),
            (
                "bin(383d464958542e312e3201393d31300133353d410134393d430131303d30323901),fix_is_valid",
                Some("0"),
            ),
            (
                "bin(383d4649582e342e3401393d300133353d410131303d30303001616161616161616161616161616101),fix_is_valid",
                Some("0"),
            ),
        ]);
    }

    #[test]
    fn tags() {
        check_all(&[
            (
                "bin(383d4649582e342e3401393d34320133353d410134393d434c49454e540135363d5345525645520133343d310139383d30013130383d33300131303d31393001),fix_tag_value(MsgType)",
                Some("A"),
            ),
            (
                "bin(383d4649582e342e3401393d31360133353d410134393d434c49454e540131303d30383001),fix_tag_value(MsgType)",
                Some("A"),
            ),
            (
                "bin(383d4649582e342e3401393d350133353d410131303d31383101),fix_tag_value(MsgType)",
                Some("A"),
            ),
            (
                "bin(383d4649582e342e3401393d31300134393d430133353d410131303d32303601),fix_tag_value(MsgType)",
                Some("A"),
            ),
            (
                "bin(383d4649582e342e3401393d340133353d0131303d31313401),fix_tag_value(MsgType)",
                None,
            ),
            (
                "bin(383d4649582e342e3401393d390133353d4101783d310131303d31353901),fix_tag_value(MsgType)",
                Some("A"),
            ),
            (
                "bin(383d4649582e342e3401393d380133353d41013d310131303d30333801),fix_tag_value(MsgType)",
                Some("A"),
            ),
            (
                "bin(383d4649582e392e3901393d350133353d410131303d31393001),fix_tag_value(MsgType)",
                Some("A"),
            ),
            (
                "bin(383d4649582e342e3001393d350133353d410131303d31373601),fix_tag_value(MsgType)",
                Some("A"),
            ),
            (
                "bin(383d4649582e342e3101393d350133353d410131303d31373701),fix_tag_value(MsgType)",
                Some("A"),
            ),
            (
                "bin(383d4649582e342e3201393d350133353d410131303d31373801),fix_tag_value(MsgType)",
                Some("A"),
            ),
            (
                "bin(383d4649582e342e3301393d350133353d410131303d31373901),fix_tag_value(MsgType)",
                Some("A"),
            ),
            (
                "bin(383d4649582e352e3001393d350133353d410131303d31373701),fix_tag_value(MsgType)",
                Some("A"),
            ),
            (
                "bin(383d464958542e312e3101393d350133353d410131303d30303201),fix_tag_value(MsgType)",
                Some("A"),
            ),
            (
                "bin(383d4649582e3401393d350133353d410131303d30383201),fix_tag_value(MsgType)",
                Some("A"),
            ),
            (
                "bin(383d4649582e342e3401393d300131303d32303001),fix_tag_value(MsgType)",
                None,
            ),
            (
                "bin(393d3501383d4649582e342e3401),fix_tag_value(MsgType)",
                None,
            ),
            ("str(),fix_tag_value(MsgType)", None),
            (
                "bin(383d4649582e342e3401393d34320133353d410134393d434c49454e540135363d5345525645520133343d310139383d30013130383d33300131303d313930),fix_tag_value(MsgType)",
                Some("A"),
            ),
            (
                "bin(383d4649582e342e3401393d34320133353d410134393d434c49454e540135363d5345525645520133343d310139383d30013130383d33300131303d3139300178),fix_tag_value(MsgType)",
                Some("A"),
            ),
            (
                "bin(383d4649582e342e3401393d34320133353d410134393d434c49454e540135363d5345525645520133343d310139383d30013130383d33300131303d31393001383d4649582e342e3401393d34320133353d410134393d434c49454e540135363d5345525645520133343d310139383d30013130383d33300131303d31393001),fix_tag_value(MsgType)",
                Some("A"),
            ),
            (
                "bin(383d4649582e342e3401393d34320133353d4101),fix_tag_value(MsgType)",
                Some("A"),
            ),
            (
                "bin(383d4649582e342e3401393d34320133353d410134393d434c49454e540135363d5345525645520133343d310139383d30013130383d333001),fix_tag_value(MsgType)",
                Some("A"),
            ),
            (
                "bin(383d4649582e342e3401393d31320133353d410131303d3030300131303d30313701),fix_tag_value(MsgType)",
                Some("A"),
            ),
            (
                "bin(383d4649582e342e3401393d31320133353d410134393d613d620131303d31343101),fix_tag_value(MsgType)",
                Some("A"),
            ),
            (
                "bin(383d4649582e342e3401393d390133353d410135383d0131303d30393901),fix_tag_value(MsgType)",
                Some("A"),
            ),
            (
                "bin(383d4649582e342e3401393d34320133353d410134393d434c49454e540135363d5345525645520133343d310139383d30013130383d3330013031303d31393001),fix_tag_value(MsgType)",
                Some("A"),
            ),
            (
                "bin(383d4649582e342e3401393d30350133353d410131303d31383001),fix_tag_value(MsgType)",
                Some("A"),
            ),
            (
                "bin(383d4649582e342e3401393d780133353d410131303d30303001),fix_tag_value(MsgType)",
                Some("A"),
            ),
            ("bin(383d4649582e342e3401),fix_tag_value(MsgType)", None),
            ("bin(383d4649582e342e34),fix_tag_value(MsgType)", None),
            ("bin(383d),fix_tag_value(MsgType)", None),
            ("bin(68656c6c6f),fix_tag_value(MsgType)", None),
            (
                "bin(383d4649582e342e3401393d360133353d41410131303d32343601),fix_tag_value(MsgType)",
                Some("AA"),
            ),
            (
                "bin(383d4649582e342e3401393d36013033353d410131303d32323901),fix_tag_value(MsgType)",
                Some("A"),
            ),
            (
                "bin(383d4649582e342e3401393d380133353d410134390131303d30333701),fix_tag_value(MsgType)",
                Some("A"),
            ),
            (
                "bin(383d4649582e342e3401393d390133353d410134393d7831303d32313801),fix_tag_value(MsgType)",
                Some("A"),
            ),
            (
                "bin(383d4649582e342e3401393d34320133353d410134393d434c49454e540135363d5345525645520133343d310139383d30013130383d33300131303d31393001),fix_tag_value(BeginString)",
                Some("FIX.4.4"),
            ),
            (
                "bin(383d4649582e342e3401393d34320133353d410134393d434c49454e540135363d5345525645520133343d310139383d30013130383d33300131303d31393001),fix_tag_value(BodyLength)",
                Some("42"),
            ),
            (
                "bin(383d4649582e342e3401393d34320133353d410134393d434c49454e540135363d5345525645520133343d310139383d30013130383d33300131303d31393001),fix_tag_value(MsgType)",
                Some("A"),
            ),
            (
                "bin(383d4649582e342e3401393d34320133353d410134393d434c49454e540135363d5345525645520133343d310139383d30013130383d33300131303d31393001),fix_tag_value(SenderCompID)",
                Some("CLIENT"),
            ),
            (
                "bin(383d4649582e342e3401393d34320133353d410134393d434c49454e540135363d5345525645520133343d310139383d30013130383d33300131303d31393001),fix_tag_value(TargetCompID)",
                Some("SERVER"),
            ),
            (
                "bin(383d4649582e342e3401393d34320133353d410134393d434c49454e540135363d5345525645520133343d310139383d30013130383d33300131303d31393001),fix_tag_value(CheckSum)",
                Some("190"),
            ),
            (
                "bin(383d4649582e342e3401393d34320133353d410134393d434c49454e540135363d5345525645520133343d310139383d30013130383d33300131303d31393001),fix_tag_value(35)",
                Some("A"),
            ),
            (
                "bin(383d4649582e342e3401393d34320133353d410134393d434c49454e540135363d5345525645520133343d310139383d30013130383d33300131303d31393001),fix_tag_value(49)",
                Some("CLIENT"),
            ),
            (
                "bin(383d4649582e342e3401393d34320133353d410134393d434c49454e540135363d5345525645520133343d310139383d30013130383d33300131303d31393001),fix_tag_value(108)",
                Some("30"),
            ),
            (
                "bin(383d4649582e342e3401393d34320133353d410134393d434c49454e540135363d5345525645520133343d310139383d30013130383d33300131303d31393001),fix_tag_value(999)",
                None,
            ),
            (
                "bin(383d4649582e342e3401393d34320133353d410134393d434c49454e540135363d5345525645520133343d310139383d30013130383d33300131303d31393001),fix_tag_value(034)",
                Some("1"),
            ),
            (
                "bin(383d4649582e342e3401393d34320133353d410134393d434c49454e540135363d5345525645520133343d310139383d30013130383d33300131303d31393001),fix_tag_value(msgtype)",
                Some("A"),
            ),
            (
                "bin(383d4649582e342e3401393d31350133353d410134393d310134393d320131303d31353801),fix_tag_value(49)",
                Some("1"),
            ),
            (
                "bin(383d4649582e342e3401393d31320133353d410134393d613d620131303d31343101),fix_tag_value(49)",
                Some("a=b"),
            ),
            (
                "bin(383d4649582e342e3401393d31340133353d410135383d0134393d780131303d31373801),fix_tag_value(58)",
                None,
            ),
            ("bin(34393d780133353d4101),fix_tag_value(49)", Some("x")),
            ("bin(383d4649582e342e340134393d78),fix_tag_value(49)", None),
            (
                "bin(383d4649582e342e340134393d7472756e63),fix_tag_value(49)",
                None,
            ),
            ("bin(34393d7801),fix_tag_value(49)", Some("x")),
            ("bin(33353d4101783d310134393d5a01),fix_tag_value(49)", None),
            ("bin(33353d41013d310134393d5a01),fix_tag_value(49)", None),
            (
                "bin(33353d410134390135303d7a0134393d5a01),fix_tag_value(49)",
                None,
            ),
            (
                "bin(33353d410131303d3030300134393d5a01),fix_tag_value(49)",
                None,
            ),
            ("bin(34393d0134393d5a01),fix_tag_value(49)", None),
            ("bin(303d310134393d5a01),fix_tag_value(49)", None),
            ("bin(3033353d410134393d5a01),fix_tag_value(49)", Some("Z")),
            (
                "bin(33353d410135383d0134393d5a01),fix_tag_value(49)",
                Some("Z"),
            ),
            ("bin(34393d5a),fix_tag_value(49)", None),
            (
                "bin(39393939393939393939393d310134393d5a01),fix_tag_value(49)",
                Some("Z"),
            ),
            ("bin(780134393d5a01),fix_tag_value(49)", None),
            ("bin(3d0134393d5a01),fix_tag_value(49)", None),
            ("bin(33350134393d5a01),fix_tag_value(49)", None),
            ("bin(34393d5a01),fix_tag_value(0049)", Some("Z")),
            ("bin(34393d5a01),fix_tag_value(4294967345)", Some("Z")),
            (
                "bin(343239343936373334353d5a01),fix_tag_value(49)",
                Some("Z"),
            ),
        ]);
        check_refused(&[
            ("str(a),fix_tag_value(x)", "FIX tag"),
            ("str(a),fix_tag_value()", "FIX tag"),
            ("str(a),fix_tag_value(35x)", "FIX tag"),
            ("str(a),fix_tag_value(0)", "FIX tag"),
            ("str(a),fix_tag_value(-1)", "FIX tag"),
        ]);
    }

    proptest! {
        #[test]
        fn any_bytes_may_be_read(bytes in "[=0-9A\\x01]{0,60}") {
            let world = World::new(bytes.as_bytes());
            let _ = (world.run("hdr,fix_is_valid").unwrap(), world.run("hdr,fix_tag_value(1)").unwrap());
        }
    }
}
