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
mod tests;
