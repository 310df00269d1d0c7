//! Protocol Buffers fields by number, in a bare message (`protobuf`) or in gRPC framing (`ungrpc`).

use std::ops::Range;

use smallvec::{SmallVec, smallvec};

use crate::args::Arg;
use crate::compile::ParseCtx;
use crate::conv::BadArg;
use crate::conv::operand::{bytes_of, prepared, set_prepared, slice_cow, str_arg};
use crate::value::{Absent, Fetched, Sample, Value};

converters! {
    "protobuf" (FieldNumber; Str) Bin -> Bin, |args, s, _| extract(args, s, |path, m| path.find(m, 0..m.len())),
        prepare prepare_path
        => "A field of a Protocol Buffers message by its number (`48.59.1` inside others), raw or, with a type, as an integer.";
    "ungrpc" (FieldNumber; Str) Bin -> Bin, |args, s, _| extract(args, s, find_in_grpc), prepare prepare_path
        => "The same out of the messages of a gRPC body.";
}

/// How a field is encoded on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wire {
    Varint,
    Fixed64,
    Delimited,
    Fixed32,
}

/// How its value becomes an integer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Number {
    Plain,
    ZigZag,
    Fixed64,
    Unsigned32,
    Signed32,
    Float,
    Double,
}

const TYPES: &[(&str, Wire, Number)] = &[
    ("int32", Wire::Varint, Number::Plain),
    ("int64", Wire::Varint, Number::Plain),
    ("uint32", Wire::Varint, Number::Plain),
    ("uint64", Wire::Varint, Number::Plain),
    ("sint32", Wire::Varint, Number::ZigZag),
    ("sint64", Wire::Varint, Number::ZigZag),
    ("bool", Wire::Varint, Number::Plain),
    ("enum", Wire::Varint, Number::Plain),
    ("fixed64", Wire::Fixed64, Number::Fixed64),
    ("sfixed64", Wire::Fixed64, Number::Fixed64),
    ("double", Wire::Fixed64, Number::Double),
    ("fixed32", Wire::Fixed32, Number::Unsigned32),
    ("sfixed32", Wire::Fixed32, Number::Signed32),
    ("float", Wire::Fixed32, Number::Float),
];

/// What is looked for.
struct Path {
    numbers: Vec<u64>,
    as_type: Option<(Wire, Number)>,
}

fn prepare_path(args: &mut Vec<Arg>, _: &ParseCtx<'_>) -> Result<(), BadArg> {
    let text = String::from_utf8_lossy(str_arg(args, 0)).into_owned();
    let numbers: Result<Vec<u64>, _> = text.split('.').map(str::parse).collect();
    let numbers = numbers
        .map_err(|_| BadArg::new(0, format!("'{text}' is no field number, like 3 or 48.59.1")))?;
    let name = String::from_utf8_lossy(str_arg(args, 1)).into_owned();
    let as_type = match name.as_str() {
        "" => None,
        name => match TYPES.iter().find(|(n, ..)| *n == name) {
            Some((_, wire, number)) => Some((*wire, *number)),
            None => {
                let names: Vec<&str> = TYPES.iter().map(|(n, ..)| *n).collect();
                let known = names.join(", ");
                return Err(BadArg::new(
                    1,
                    format!("'{name}' is no field type; there are {known}"),
                ));
            }
        },
    };
    set_prepared(args, 0, Path { numbers, as_type });
    Ok(())
}

/// Bytes of the message that a field's value takes, and how they are encoded.
type Found = (Wire, Range<usize>);

fn extract<'a>(
    args: &'a [Arg],
    sample: Sample<'a>,
    find: impl Fn(&Path, &[u8]) -> Option<Found>,
) -> Fetched<'a> {
    let path = prepared::<Path>(args, 0).ok_or(Absent::Never)?;
    let (may_change, not_last) = (sample.may_change, sample.not_last);
    let message = bytes_of(sample.value).ok_or(Absent::Never)?;
    let (wire, range) = find(path, &message).ok_or(Absent::Never)?;
    let value = match path.as_type {
        None => Value::Bin(slice_cow(message, range)),
        Some((wanted, number)) if wanted == wire => Value::Sint(number.read(&message[range])),
        Some(_) => return Err(Absent::Never),
    };
    Ok(Sample {
        value,
        may_change,
        not_last,
    })
}

/// The most bytes of a varint of 64 bits.
const VARINT_MAX: usize = 10;

/// A varint and its length. None at all (the end of the message) counts as zero, as in HAProxy.
fn varint(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0;
    for (at, byte) in bytes.iter().take(VARINT_MAX).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return Some((value, at + 1));
        }
    }
    bytes.is_empty().then_some((0, 0))
}

impl Path {
    /// The first field of that path within a part of the bytes.
    fn find(&self, bytes: &[u8], within: Range<usize>) -> Option<Found> {
        // The levels that are open: how far each has come, and where it ends.
        let mut levels: SmallVec<[Range<usize>; 8]> = smallvec![within];
        while let Some(level) = levels.last_mut() {
            if level.start >= level.end {
                levels.pop();
                continue;
            }
            let (key, len) = varint(&bytes[level.clone()])?;
            let start = level.start + len;
            let rest = &bytes[start..level.end];
            let (wire, skip, len) = match key & 7 {
                0 => (Wire::Varint, 0, varint(rest)?.1),
                1 => (Wire::Fixed64, 0, 8),
                2 => {
                    let (len, skip) = varint(rest)?;
                    (Wire::Delimited, skip, usize::try_from(len).ok()?)
                }
                5 => (Wire::Fixed32, 0, 4),
                _ => return None,
            };
            let value = start + skip..(start + skip).checked_add(len)?;
            if value.end > level.end {
                return None;
            }
            level.start = value.end;
            if self.numbers.get(levels.len() - 1) == Some(&(key >> 3)) {
                if levels.len() == self.numbers.len() {
                    return Some((wire, value));
                }
                if wire == Wire::Delimited {
                    levels.push(value);
                }
            }
        }
        None
    }
}

/// Each message is preceded by a flag of one byte and a length of four.
fn find_in_grpc(path: &Path, body: &[u8]) -> Option<Found> {
    const PREFIX: usize = 5;
    let mut at = 0;
    while let Some([_, a, b, c, d]) = body.get(at..at + PREFIX) {
        let len = u32::from_be_bytes([*a, *b, *c, *d]) as usize;
        let message = at + PREFIX..(at + PREFIX).checked_add(len)?;
        if message.end > body.len() {
            return None;
        }
        at = message.end;
        if let Some(found) = path.find(body, message) {
            return Some(found);
        }
    }
    None
}

impl Number {
    fn read(self, bytes: &[u8]) -> i64 {
        let fixed = |len: usize| {
            let mut all = [0; 8];
            all[..len].copy_from_slice(bytes.get(..len).unwrap_or(&[0; 8][..len]));
            u64::from_le_bytes(all)
        };
        let varint = || varint(bytes).unwrap_or_default().0;
        match self {
            Number::Plain => varint() as i64,
            Number::Fixed64 => fixed(8) as i64,
            Number::ZigZag => {
                let n = varint();
                (n >> 1 ^ (n & 1).wrapping_neg()) as i64
            }
            Number::Unsigned32 => fixed(4) as i64,
            Number::Signed32 => i64::from(fixed(4) as i32),
            Number::Float => i64::from(truncate(f64::from(f32::from_bits(fixed(4) as u32))) as u32),
            Number::Double => unsigned(f64::from_bits(fixed(8))),
        }
    }
}

/// As the machine truncates to 64 bits: what does not fit is the smallest integer.
fn truncate(number: f64) -> i64 {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if (-LIMIT..LIMIT).contains(&number) {
        number as i64
    } else {
        i64::MIN
    }
}

/// The same for unsigned 64 bits, which is what HAProxy asks for before it takes the bits as signed.
fn unsigned(number: f64) -> i64 {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if number >= LIMIT {
        truncate(number - LIMIT) ^ i64::MIN
    } else {
        truncate(number)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::conv::testing::{World, check_all, check_refused};

    #[test]
    fn fields() {
        check_all(&[
            (
                "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(1),hex",
                Some("9601"),
            ),
            (
                "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(1,int32)",
                Some("150"),
            ),
            (
                "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(1,int64)",
                Some("150"),
            ),
            (
                "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(1,uint32)",
                Some("150"),
            ),
            (
                "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(1,uint64)",
                Some("150"),
            ),
            (
                "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(1,sint32)",
                Some("75"),
            ),
            (
                "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(1,sint64)",
                Some("75"),
            ),
            (
                "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(1,bool)",
                Some("150"),
            ),
            (
                "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(1,enum)",
                Some("150"),
            ),
            (
                "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(1,fixed32)",
                None,
            ),
            (
                "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(1,double)",
                None,
            ),
            (
                "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(5),hex",
                Some("FDFFFFFFFFFFFFFFFF01"),
            ),
            (
                "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(5,int32)",
                Some("-3"),
            ),
            (
                "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(5,int64)",
                Some("-3"),
            ),
            (
                "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(5,uint32)",
                Some("-3"),
            ),
            (
                "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(5,uint64)",
                Some("-3"),
            ),
            (
                "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(5,sint32)",
                Some("-9223372036854775807"),
            ),
            (
                "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(5,sint64)",
                Some("-9223372036854775807"),
            ),
            (
                "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(5,bool)",
                Some("-3"),
            ),
            (
                "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(5,enum)",
                Some("-3"),
            ),
            (
                "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(5,fixed32)",
                None,
            ),
            (
                "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(5,double)",
                None,
            ),
            (
                "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(6),hex",
                Some("05"),
            ),
            (
                "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(6,int32)",
                Some("5"),
            ),
            (
                "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(6,int64)",
                Some("5"),
            ),
            (
                "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(6,uint32)",
                Some("5"),
            ),
            (
                "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(6,uint64)",
                Some("5"),
            ),
            (
                "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(6,sint32)",
                Some("-3"),
            ),
            (
                "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(6,sint64)",
                Some("-3"),
            ),
            (
                "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(6,bool)",
                Some("5"),
            ),
            (
                "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(6,enum)",
                Some("5"),
            ),
            (
                "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(6,fixed32)",
                None,
            ),
            (
                "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(6,double)",
                None,
            ),
            (
                "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(7),hex",
                Some("01"),
            ),
            (
                "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(7,int32)",
                Some("1"),
            ),
            (
                "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(7,int64)",
                Some("1"),
            ),
            (
                "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(7,uint32)",
                Some("1"),
            ),
            (
                "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(7,uint64)",
                Some("1"),
            ),
            (
                "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(7,sint32)",
                Some("-1"),
            ),
            (
                "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(7,sint64)",
                Some("-1"),
            ),
            (
                "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(7,bool)",
                Some("1"),
            ),
            (
                "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(7,enum)",
                Some("1"),
            ),
            (
                "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(7,fixed32)",
                None,
            ),
            (
                "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(7,double)",
                None,
            ),
            (
                "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(10),hex",
                Some("808080808020"),
            ),
            (
                "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(10,int32)",
                Some("1099511627776"),
            ),
            (
                "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(10,int64)",
                Some("1099511627776"),
            ),
            (
                "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(10,uint32)",
                Some("1099511627776"),
            ),
            (
                "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(10,uint64)",
                Some("1099511627776"),
            ),
            (
                "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(10,sint32)",
                Some("549755813888"),
            ),
            (
                "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(10,sint64)",
                Some("549755813888"),
            ),
            (
                "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(10,bool)",
                Some("1099511627776"),
            ),
            (
                "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(10,enum)",
                Some("1099511627776"),
            ),
            (
                "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(10,fixed32)",
                None,
            ),
            (
                "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(10,double)",
                None,
            ),
            (
                "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(11),hex",
                Some("FFFFFFFFFFFFFFFFFF01"),
            ),
            (
                "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(11,int32)",
                Some("-1"),
            ),
            (
                "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(11,int64)",
                Some("-1"),
            ),
            (
                "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(11,uint32)",
                Some("-1"),
            ),
            (
                "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(11,uint64)",
                Some("-1"),
            ),
            (
                "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(11,sint32)",
                Some("-9223372036854775808"),
            ),
            (
                "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(11,sint64)",
                Some("-9223372036854775808"),
            ),
            (
                "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(11,bool)",
                Some("-1"),
            ),
            (
                "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(11,enum)",
                Some("-1"),
            ),
            (
                "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(11,fixed32)",
                None,
            ),
            (
                "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(11,double)",
                None,
            ),
            (
                "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(3),hex",
                Some("0000C03F"),
            ),
            (
                "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(3,fixed32)",
                Some("1069547520"),
            ),
            (
                "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(3,sfixed32)",
                Some("1069547520"),
            ),
            (
                "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(3,float)",
                Some("1"),
            ),
            (
                "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(3,int32)",
                None,
            ),
            (
                "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(3,double)",
                None,
            ),
            (
                "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(8),hex",
                Some("FEFFFFFF"),
            ),
            (
                "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(8,fixed32)",
                Some("4294967294"),
            ),
            (
                "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(8,sfixed32)",
                Some("-2"),
            ),
            (
                "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(8,float)",
                Some("0"),
            ),
            (
                "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(8,int32)",
                None,
            ),
            (
                "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(8,double)",
                None,
            ),
            (
                "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(4),hex",
                Some("0000000000000440"),
            ),
            (
                "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(4,fixed64)",
                Some("4612811918334230528"),
            ),
            (
                "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(4,sfixed64)",
                Some("4612811918334230528"),
            ),
            (
                "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(4,double)",
                Some("2"),
            ),
            (
                "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(4,int64)",
                None,
            ),
            (
                "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(4,float)",
                None,
            ),
            (
                "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(9),hex",
                Some("FBFFFFFFFFFFFFFF"),
            ),
            (
                "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(9,fixed64)",
                Some("-5"),
            ),
            (
                "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(9,sfixed64)",
                Some("-5"),
            ),
            (
                "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(9,double)",
                Some("-9223372036854775808"),
            ),
            (
                "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(9,int64)",
                None,
            ),
            (
                "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(9,float)",
                None,
            ),
            (
                "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(2)",
                Some("hello"),
            ),
            (
                "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(2,int32)",
                None,
            ),
            (
                "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(12)",
                None,
            ),
            (
                "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(0)",
                None,
            ),
            (
                "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(1.2)",
                None,
            ),
            (
                "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(99999999999)",
                None,
            ),
            (
                "bin(000000002e820314da0311088fbdbcc20110edff9a9cfdffffffff018a0314da031108b8ebcdc20110b5f29d9dfdffffffff01),ungrpc(48.59.1,int32)",
                Some("407838351"),
            ),
            (
                "bin(000000002e820314da0311088fbdbcc20110edff9a9cfdffffffff018a0314da031108b8ebcdc20110b5f29d9dfdffffffff01),ungrpc(48.59.2,int32)",
                Some("-746143763"),
            ),
            (
                "bin(000000002e820314da0311088fbdbcc20110edff9a9cfdffffffff018a0314da031108b8ebcdc20110b5f29d9dfdffffffff01),ungrpc(49.59.1,int32)",
                Some("408122808"),
            ),
            (
                "bin(000000002e820314da0311088fbdbcc20110edff9a9cfdffffffff018a0314da031108b8ebcdc20110b5f29d9dfdffffffff01),ungrpc(49.59.2,int32)",
                Some("-743999179"),
            ),
            (
                "bin(000000002e820314da0311088fbdbcc20110edff9a9cfdffffffff018a0314da031108b8ebcdc20110b5f29d9dfdffffffff01),ungrpc(48.59),hex",
                Some("088FBDBCC20110EDFF9A9CFDFFFFFFFF01"),
            ),
            (
                "bin(000000002e820314da0311088fbdbcc20110edff9a9cfdffffffff018a0314da031108b8ebcdc20110b5f29d9dfdffffffff01),ungrpc(48.59),protobuf(1,int32)",
                Some("407838351"),
            ),
            (
                "bin(000000002e820314da0311088fbdbcc20110edff9a9cfdffffffff018a0314da031108b8ebcdc20110b5f29d9dfdffffffff01),ungrpc(48),protobuf(59.1,int32)",
                Some("407838351"),
            ),
            (
                "bin(000000002e820314da0311088fbdbcc20110edff9a9cfdffffffff018a0314da031108b8ebcdc20110b5f29d9dfdffffffff01),ungrpc(48),protobuf(59),protobuf(1,int32)",
                Some("407838351"),
            ),
            (
                "bin(000000002e820314da0311088fbdbcc20110edff9a9cfdffffffff018a0314da031108b8ebcdc20110b5f29d9dfdffffffff01),ungrpc(50)",
                None,
            ),
            (
                "bin(000000002e820314da0311088fbdbcc20110edff9a9cfdffffffff018a0314da031108b8ebcdc20110b5f29d9dfdffffffff01),ungrpc(48.60)",
                None,
            ),
            (
                "bin(000000002e820314da0311088fbdbcc20110edff9a9cfdffffffff018a0314da031108b8ebcdc20110b5f29d9dfdffffffff01),ungrpc(48.59.3)",
                None,
            ),
            (
                "bin(010000002e820314da0311088fbdbcc20110edff9a9cfdffffffff018a0314da031108b8ebcdc20110b5f29d9dfdffffffff01),ungrpc(1)",
                None,
            ),
            (
                "bin(010000002e820314da0311088fbdbcc20110edff9a9cfdffffffff018a0314da031108b8ebcdc20110b5f29d9dfdffffffff01),ungrpc(48.59.1,int32)",
                Some("407838351"),
            ),
            ("bin(000000002e820314da031108),ungrpc(48.59.1,int32)", None),
            (
                "bin(0000000005820314da0311088fbdbcc20110edff9a9cfdffffffff018a0314da031108b8ebcdc20110b5f29d9dfdffffffff01),ungrpc(48.59.1,int32)",
                None,
            ),
            (
                "bin(00000000ff820314da0311088fbdbcc20110edff9a9cfdffffffff018a0314da031108b8ebcdc20110b5f29d9dfdffffffff01),ungrpc(48.59.1,int32)",
                None,
            ),
            (
                "bin(0000000002080500000000020806),ungrpc(1,int32)",
                Some("5"),
            ),
            (
                "bin(0000000002080500000000021006),ungrpc(2,int32)",
                Some("6"),
            ),
            ("bin(00000000),ungrpc(1)", None),
            ("str(),ungrpc(1)", None),
            ("str(),protobuf(1)", None),
            ("bin(08),protobuf(1,int32)", Some("0")),
            ("bin(0880),protobuf(1,int32)", None),
            ("bin(088080808080808080808001),protobuf(1,int64)", None),
            ("bin(08ffffffffffffffffff01),protobuf(1,int64)", Some("-1")),
            ("bin(0aff01),protobuf(1)", None),
            ("bin(0a0568656c6c),protobuf(1)", None),
            ("bin(0a03616263),protobuf(1)", Some("abc")),
            ("bin(0a00),protobuf(1)", Some("")),
            ("bin(0b080108010c),protobuf(1)", None),
            ("bin(0f),protobuf(1)", None),
            ("bin(0d0102),protobuf(1,fixed32)", None),
            ("bin(0b0c1001),protobuf(2,int32)", None),
            ("bin(0f1001),protobuf(2,int32)", None),
            ("bin(08011002),protobuf(2,int32)", Some("2")),
            ("bin(08010802),protobuf(1,int32)", Some("1")),
            ("bin(1201610a0162),protobuf(1)", Some("b")),
            ("bin(0a0210050a020807),protobuf(1.1,int32)", Some("7")),
            ("bin(0a0210050807),protobuf(1.1,int32)", None),
            ("bin(0a040a020803),protobuf(1.1,int32)", None),
            ("bin(1d0000e0bf),protobuf(3,float)", Some("4294967295")),
            (
                "bin(199c7500883ce437fe),protobuf(3,double)",
                Some("-9223372036854775808"),
            ),
            ("bin(188580808010),protobuf(3,int32)", Some("4294967301")),
            ("bin(188580808010),protobuf(3,uint32)", Some("4294967301")),
            ("bin(188580808020),protobuf(3,sint32)", Some("-4294967299")),
            ("bin(1802),protobuf(3,bool)", Some("2")),
            ("bin(18feffffffffffffffff01),protobuf(3,enum)", Some("-2")),
            ("bin(188080808008),protobuf(3,int32)", Some("2147483648")),
            ("bin(089601),protobuf(1,int32),concat(x)", Some("150x")),
            ("bin(08),protobuf(1),hex,length", Some("0")),
            ("bin(0801),protobuf(1,int32),hex", Some("0000000000000001")),
            ("bin(1d0000c04f),protobuf(3,float)", Some("2147483648")),
            ("bin(1d000080ff),protobuf(3,float)", Some("0")),
            ("bin(19000000000000f07f),protobuf(3,double)", Some("0")),
            ("bin(190000000000000440),protobuf(3,double)", Some("2")),
            ("bin(08011a0161),protobuf(3,int32)", None),
            (
                "bin(08011d010000001a0161),protobuf(3)",
                Some("\x01\x00\x00\x00"),
            ),
            ("bin(1d010000001801),protobuf(3,int32)", None),
        ]);
    }

    #[test]
    fn bad_arguments_are_refused() {
        check_refused(&[
            ("bin(0801),protobuf(-1)", "field number"),
            ("bin(0801),protobuf(1.)", "field number"),
            ("bin(0801),protobuf(x)", "field number"),
            ("bin(0801),protobuf()", "argument"),
            ("bin(0801),protobuf(1,string)", "field type"),
            ("bin(0801),ungrpc(1,foo)", "field type"),
        ]);
        // HAProxy takes these, and they never match.
        for path in [".1", "1..2"] {
            assert!(
                World::new(b"")
                    .run(&format!("bin(0801),protobuf({path})"))
                    .is_err()
            );
        }
    }

    proptest! {
        #[test]
        fn any_bytes_may_be_searched(bytes: Vec<u8>, path in "[0-9]{1,2}(\\.[0-9]){0,3}") {
            let world = World::new(&bytes);
            let _ = world.run(&format!("hdr,protobuf({path})")).unwrap();
            let _ = world.run(&format!("hdr,ungrpc({path},int64)")).unwrap();
        }
    }
}
