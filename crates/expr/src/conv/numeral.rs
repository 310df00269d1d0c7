//! Bytes written as numbers and numbers written as bytes: hexadecimal, binary digits, decimal chunks, network order.

use std::borrow::Cow;
use std::io::Write;

use crate::args::Arg;
use crate::conv::BadArg;
use crate::conv::operand::{int_arg, on_bytes, on_int, str_arg};
use crate::env::Env;
use crate::value::{Fetched, Sample, Value, write_hex};

converters! {
    "hex" () Bin -> Str, hex => "Two upper case hexadecimal digits a byte.";
    "base2" () Bin -> Str, base2 => "Eight binary digits a byte, the most significant first.";
    "hex2i" () Str -> Sint, |_, s, _| on_bytes(s, |s| Some(Value::Sint(parse_hex(&s)?)))
        => "The number written in hexadecimal digits; of more than 16, the last ones count.";
    "htonl" () Sint -> Bin, |_, s, _| on_int(s, |i| Some(bytes((i as u32).to_be_bytes().to_vec())))
        => "The number as unsigned 32 bits in network byte order.";
    "be2dec" (Str; Sint, Sint) Bin -> Str, |args, s, _| on_bytes(s, |s| Some(chunks(args, &s, write_big_endian))),
        prepare |args, _| check_dec(args)
        => "Chunks of up to 8 bytes, big endian, in decimal, separated; an incomplete last one is kept unless the third \
            argument is 1.";
    "le2dec" (Str; Sint, Sint) Bin -> Str, |args, s, _| on_bytes(s, |s| Some(chunks(args, &s, write_little_endian))),
        prepare |args, _| check_dec(args)
        => "Chunks of up to 8 bytes, little endian, in decimal, separated; an incomplete last one is kept unless the \
            third argument is 1.";
    "be2hex" (Str; Sint, Sint) Bin -> Str, |args, s, _| on_bytes(s, |s| Some(chunks(args, &s, write_hex))),
        prepare |args, _| check_hex(args)
        => "Chunks of bytes in hexadecimal, separated; an incomplete last one is kept unless the third argument is 1.";
}

fn bytes(b: Vec<u8>) -> Value<'static> {
    Value::Bin(Cow::Owned(b))
}

fn hex<'a>(_: &'a [Arg], sample: Sample<'a>, _: &'a dyn Env) -> Fetched<'a> {
    on_bytes(sample, |s| {
        let mut out = Vec::with_capacity(s.len() * 2);
        write_hex(&mut out, &s);
        Some(Value::Str(Cow::Owned(out)))
    })
}

fn base2<'a>(_: &'a [Arg], sample: Sample<'a>, _: &'a dyn Env) -> Fetched<'a> {
    on_bytes(sample, |s| {
        let digits = s
            .iter()
            .flat_map(|byte| (0..8).rev().map(move |bit| b'0' + (byte >> bit & 1)));
        Some(Value::Str(Cow::Owned(digits.collect())))
    })
}

/// All of it must be hexadecimal digits; digits beyond 64 bits fall off at the top.
pub fn parse_hex(text: &[u8]) -> Option<i64> {
    let mut value: u64 = 0;
    for c in text {
        value = value << 4 | u64::from(char::from(*c).to_digit(16)?);
    }
    Some(value as i64)
}

/// The most bytes that fit into the number of a chunk.
const DECIMAL_CHUNK_MAX: i64 = 8;

fn check_dec(args: &[Arg]) -> Result<(), BadArg> {
    match int_arg(args, 1).unwrap_or(0) {
        1..=DECIMAL_CHUNK_MAX => check_truncate(args),
        size => Err(BadArg::new(
            1,
            format!("the chunk size must be from 1 to {DECIMAL_CHUNK_MAX}, not {size}"),
        )),
    }
}

/// Without separator the chunks only matter for what is cut off.
fn check_hex(args: &[Arg]) -> Result<(), BadArg> {
    match int_arg(args, 1) {
        None if str_arg(args, 0).is_empty() => Ok(()),
        Some(1..) => check_truncate(args),
        size => Err(BadArg::new(
            1,
            format!("the chunk size must be positive, not {}", size.unwrap_or(0)),
        )),
    }
}

fn check_truncate(args: &[Arg]) -> Result<(), BadArg> {
    match int_arg(args, 2) {
        None | Some(0 | 1) => Ok(()),
        Some(other) => Err(BadArg::new(
            2,
            format!("the flag to truncate is 0 or 1, not {other}"),
        )),
    }
}

fn chunks(args: &[Arg], s: &[u8], write: fn(&mut Vec<u8>, &[u8])) -> Value<'static> {
    let size = int_arg(args, 1)
        .and_then(|n| usize::try_from(n).ok())
        .filter(|n| *n > 0)
        .unwrap_or(1);
    let truncate = int_arg(args, 2) == Some(1);
    let s = if truncate {
        &s[..s.len() - s.len() % size]
    } else {
        s
    };
    let mut out = Vec::with_capacity(s.len() * 2 + s.len() / size * str_arg(args, 0).len());
    for (i, chunk) in s.chunks(size).enumerate() {
        if i > 0 {
            out.extend_from_slice(str_arg(args, 0));
        }
        write(&mut out, chunk);
    }
    Value::Str(Cow::Owned(out))
}

fn write_big_endian(out: &mut Vec<u8>, chunk: &[u8]) {
    let number = chunk.iter().fold(0u64, |n, b| n << 8 | u64::from(*b));
    // Writing to a Vec cannot fail.
    let _ = write!(out, "{number}");
}

fn write_little_endian(out: &mut Vec<u8>, chunk: &[u8]) {
    let number = chunk.iter().rev().fold(0u64, |n, b| n << 8 | u64::from(*b));
    let _ = write!(out, "{number}");
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::conv::testing::{World, check_all, check_new, check_refused};

    #[test]
    fn hexadecimal() {
        check_all(&[
            ("bin(00ff7f),hex", Some("00FF7F")),
            ("str(),hex", Some("")),
            ("ipv4(1.2.3.4),hex", Some("01020304")),
            ("ipv6(::1),hex", Some("00000000000000000000000000000001")),
            ("int(258),hex", Some("0000000000000102")),
            ("str(fF),hex2i", Some("255")),
            ("str(ffffffffffffffff),hex2i", Some("-1")),
            ("str(fffffffffffffffff),hex2i", Some("-1")),
            ("str(12345678123456781),hex2i", Some("2541551369060706177")),
            ("str(8000000000000000),hex2i", Some("-9223372036854775808")),
            ("str(),hex2i", Some("0")),
            ("str(0x10),hex2i", None),
            ("str(-10),hex2i", None),
            ("str(1z),hex2i", None),
        ]);
    }

    #[test]
    fn network_order() {
        check_all(&[
            ("int(258),htonl,hex", Some("00000102")),
            ("int(-1),htonl,hex", Some("FFFFFFFF")),
            ("int(4294967297),htonl,hex", Some("00000001")),
        ]);
    }

    #[test]
    fn chunks() {
        check_all(&[
            ("bin(01020304050607),be2dec(:,2)", Some("258:772:1286:7")),
            ("bin(01020304050607),be2dec(-,2,1)", Some("258-772-1286")),
            ("bin(01020304050607),be2dec(,2,1)", Some("2587721286")),
            ("bin(7f000001),be2dec(.,1)", Some("127.0.0.1")),
            (
                "bin(ffffffffffffffff),be2dec(.,8)",
                Some("18446744073709551615"),
            ),
            ("str(),be2dec(.,1)", Some("")),
            ("bin(01020304050607),be2hex", Some("01020304050607")),
            ("bin(01020304050607),be2hex(:,2)", Some("0102:0304:0506:07")),
            (
                "bin(01020304050607),be2hex(--,2,1)",
                Some("0102--0304--0506"),
            ),
            ("bin(0102030405060708),be2hex(,3,1)", Some("010203040506")),
            ("bin(0102),be2hex(:,3,1)", Some("")),
            ("bin(0102),be2hex(:,3)", Some("0102")),
        ]);
        check_refused(&[
            ("bin(0102),be2dec(.)", "chunk size"),
            ("bin(0102),be2dec(.,0)", "chunk size"),
            ("bin(0102),be2dec(.,9)", "chunk size"),
            ("bin(0102),be2dec(.,1,2)", "truncate"),
            ("bin(0102),be2hex(:)", "chunk size"),
            ("bin(0102),be2hex(:,-3)", "chunk size"),
        ]);
        check_new(&[
            ("bin(01020304050607),le2dec(:,2)", Some("513:1027:1541:7")),
            ("bin(01020304050607),le2dec(-,2,1)", Some("513-1027-1541")),
            ("bin(a5),base2", Some("10100101")),
            ("bin(0180),base2", Some("0000000110000000")),
            ("str(),base2", Some("")),
        ]);
    }

    proptest! {
        #[test]
        fn hexadecimal_digits_read_back(number: i64) {
            let read = World::new(b"").run(&format!("int({number}),hex,hex2i")).unwrap().unwrap();
            prop_assert_eq!(String::from_utf8(read).unwrap(), number.to_string());
        }
    }
}
