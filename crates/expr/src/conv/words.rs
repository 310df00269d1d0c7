//! Converters that take a part of a string: by offset, field, word or parameter name.

use std::borrow::Cow;
use std::ops::Range;

use crate::args::Arg;
use crate::compile::ParseCtx;
use crate::conv::BadArg;
use crate::conv::operand::{
    IntOperand, int_arg, on_bytes, prepared, set_prepared, slice_cow, str_arg,
};
use crate::env::Env;
use crate::value::{Fetched, Sample, Value};

converters! {
    "bytes" (Str; Str) Bin -> Bin, bytes, prepare prepare_bytes
        => "The bytes from an offset on, all or as many as the length says; both are numbers or variables.";
    "field" (Sint, Str; Sint) Str -> Str, |args, s, _| on_bytes(s, |s| pick(args, s, field)), prepare |args, _| check_pick(args)
        => "Fields by number between delimiters, empty ones counted; from the end when negative.";
    "word" (Sint, Str; Sint) Str -> Str, |args, s, _| on_bytes(s, |s| Some(pick(args, s, word).unwrap_or(NO_WORD))), prepare |args, _| check_pick(args)
        => "Words by number between delimiters, empty ones skipped; from the end when negative.";
    "param" (Str; Str) Str -> Str, param
        => "The value of the first parameter of that name in a query string or the like, delimited by `&` or the character given.";
}

/// HAProxy answers an empty string where there is no such word, but nothing where there is no such field.
const NO_WORD: Value<'static> = Value::Str(Cow::Borrowed(b""));

fn bytes<'a>(args: &'a [Arg], sample: Sample<'a>, env: &'a dyn Env) -> Fetched<'a> {
    let binary = matches!(sample.value, Value::Bin(_));
    on_bytes(sample, |s| {
        let offset = prepared::<IntOperand>(args, 0)?.now(env)?;
        let length = match prepared::<IntOperand>(args, 1) {
            Some(length) => Some(length.now(env)?),
            None => None,
        };
        let range = part(s.len(), usize::try_from(offset).ok(), length);
        let s = slice_cow(s, range);
        Some(if binary { Value::Bin(s) } else { Value::Str(s) })
    })
}

/// A parameter without `=` has an empty value.
fn param<'a>(args: &'a [Arg], sample: Sample<'a>, _: &'a dyn Env) -> Fetched<'a> {
    let name = str_arg(args, 0);
    let delimiter = str_arg(args, 1).first().copied().unwrap_or(b'&');
    on_bytes(sample, |s| {
        let mut start = 0;
        for item in s.split(|c| *c == delimiter) {
            let end = start + item.len();
            match item.strip_prefix(name) {
                Some([]) => return Some(Value::Str(slice_cow(s, end..end))),
                Some([b'=', value @ ..]) => {
                    let at = end - value.len();
                    return Some(Value::Str(slice_cow(s, at..end)));
                }
                _ => start = end + 1,
            }
        }
        None
    })
}

fn pick<'a>(
    args: &'a [Arg],
    s: Cow<'a, [u8]>,
    find: fn(&[u8], &Pick<'_>) -> Option<Range<usize>>,
) -> Option<Value<'a>> {
    let range = find(&s, &Pick::of(args))?;
    Some(Value::Str(slice_cow(s, range)))
}

/// Numbers are checked now; a variable's are when it runs.
fn prepare_bytes(args: &mut Vec<Arg>, _: &ParseCtx<'_>) -> Result<(), BadArg> {
    if str_arg(args, 0).is_empty() {
        return Err(BadArg::new(0, "the offset is missing"));
    }
    for index in 0..2 {
        if index == 1 && str_arg(args, index).is_empty() {
            continue;
        }
        let operand = IntOperand::parse(args, index)?;
        set_prepared(args, index, operand);
    }
    Ok(())
}

/// The range of `length` bytes (all when it is left out) from `offset` on; nothing when the offset is outside.
fn part(len: usize, offset: Option<usize>, length: Option<i64>) -> Range<usize> {
    let start = offset.filter(|at| *at < len).unwrap_or(len);
    let end = match length {
        Some(n) if n >= 0 => start
            .saturating_add(usize::try_from(n).unwrap_or(usize::MAX))
            .min(len),
        _ => len,
    };
    start..end
}

fn check_pick(args: &[Arg]) -> Result<(), BadArg> {
    match int_arg(args, 0) {
        Some(0) => Err(BadArg::new(
            0,
            "the index counts from 1, or from -1 at the end; 0 is not a valid index",
        )),
        _ if str_arg(args, 1).is_empty() => Err(BadArg::new(1, "the list of delimiters is empty")),
        _ => Ok(()),
    }
}

/// Which pieces are wanted: the index counts from 1, or from -1 at the end; a count of 0 means all that follow.
struct Pick<'a> {
    index: i64,
    delimiters: &'a [u8],
    count: i64,
}

impl<'a> Pick<'a> {
    fn of(args: &'a [Arg]) -> Pick<'a> {
        Pick {
            index: int_arg(args, 0).unwrap_or(0),
            delimiters: str_arg(args, 1),
            count: int_arg(args, 2).unwrap_or(1),
        }
    }
}

fn field(s: &[u8], pick: &Pick<'_>) -> Option<Range<usize>> {
    let is_delimiter = |c: &u8| pick.delimiters.contains(c);
    let mut wanted = pick.index.unsigned_abs();
    if wanted == 0 {
        return None;
    }
    let mut count = pick.count;
    if pick.index > 0 {
        let mut start = 0;
        for at in (0..s.len()).filter(|at| is_delimiter(&s[*at])) {
            if wanted > 1 {
                wanted -= 1;
                start = at + 1;
            } else if count == 1 {
                return Some(start..at);
            } else {
                count -= i64::from(count > 1);
            }
        }
        (wanted == 1).then_some(start..s.len())
    } else {
        let mut end = s.len();
        for at in (0..s.len()).rev().filter(|at| is_delimiter(&s[*at])) {
            if wanted > 1 {
                wanted -= 1;
                end = at;
            } else if count == 1 {
                return Some(at + 1..end);
            } else {
                count -= i64::from(count > 1);
            }
        }
        (wanted == 1).then_some(0..end)
    }
}

fn word(s: &[u8], pick: &Pick<'_>) -> Option<Range<usize>> {
    let wanted = pick.index.unsigned_abs();
    let len = s.len();
    let found = scan_words(pick.index > 0, s, pick, wanted)?;
    Some(if pick.index > 0 {
        found
    } else {
        len - found.end..len - found.start
    })
}

/// Counts words from one end; the range is in distances from that end.
fn scan_words(forward: bool, s: &[u8], pick: &Pick<'_>, wanted: u64) -> Option<Range<usize>> {
    if wanted == 0 {
        return None;
    }
    let (mut seen, mut start, mut in_word, mut count) = (0, 0, false, pick.count);
    for at in 0..s.len() {
        let c = if forward { s[at] } else { s[s.len() - 1 - at] };
        let is_delimiter = pick.delimiters.contains(&c);
        if !in_word && !is_delimiter {
            if seen != wanted {
                seen += 1;
                start = at;
            }
            in_word = true;
        } else if in_word && is_delimiter {
            if seen == wanted {
                if count == 1 {
                    return Some(start..at);
                }
                count -= i64::from(count > 1);
            }
            in_word = false;
        }
    }
    (seen == wanted).then_some(start..s.len())
}

#[cfg(test)]
mod tests {
    use crate::conv::testing::{check_all, check_new, check_refused};

    #[test]
    fn fields() {
        check_all(&[
            ("str(f1_f2_f3__f5),field(5,_)", Some("f5")),
            ("str(f1_f2_f3__f5),field(4,_)", Some("")),
            ("str(f1_f2_f3__f5),field(6,_)", None),
            ("str(f1_f2_f3__f5),field(2,_,0)", Some("f2_f3__f5")),
            ("str(f1_f2_f3__f5),field(2,_,2)", Some("f2_f3")),
            ("str(f1_f2_f3__f5),field(2,_,9)", Some("f2_f3__f5")),
            ("str(f1_f2_f3__f5),field(2,_,-1)", Some("f2_f3__f5")),
            ("str(f1_f2_f3__f5),field(-2,_,3)", Some("f2_f3_")),
            ("str(f1_f2_f3__f5),field(-3,_,0)", Some("f1_f2_f3")),
            ("str(f1_f2_f3__f5),field(-9,_)", None),
            ("str(),field(1,_)", Some("")),
            ("str(a:b;c),field(2,:;)", Some("b")),
            ("str(_a_),field(1,_)", Some("")),
            ("str(_a_),field(-1,_)", Some("")),
            ("str(_a_),field(-1,_,2)", Some("a_")),
        ]);
    }

    #[test]
    fn bytes() {
        check_all(&[
            ("str(abcd),bytes(1,2)", Some("bc")),
            ("str(abcd),bytes(1)", Some("bcd")),
            ("str(abcd),bytes(2,9)", Some("cd")),
            ("str(abcd),bytes(4)", Some("")),
            ("str(abcd),bytes(9)", Some("")),
            ("str(abcd),bytes(0,0)", Some("")),
            ("str(),bytes(0)", Some("")),
            ("bin(00610062),bytes(1,2)", Some("a\0")),
            ("int(258),bytes(6)", Some("\u{1}\u{2}")),
        ]);
        check_new(&[
            ("str(abcdefghijklmnop),bytes(txn.int)", Some("mnop")),
            (
                "str(abcdefghijklmnop),bytes(0,txn.int)",
                Some("abcdefghijkl"),
            ),
            ("str(abcd),bytes(txn.missing)", None),
        ]);
        check_refused(&[("str(a),bytes(x)", "neither")]);
    }

    #[test]
    fn nothing_is_at_index_zero() {
        check_refused(&[
            ("str(a),field(0,_)", "index"),
            ("str(a),word(0,_)", "index"),
            ("str(a),field(1,)", "delimiter"),
            ("str(a),word(1,)", "delimiter"),
        ]);
    }

    #[test]
    fn words() {
        check_all(&[
            ("str(f1_f2_f3__f5),word(4,_)", Some("f5")),
            ("str(f1_f2_f3__f5),word(2,_,0)", Some("f2_f3__f5")),
            ("str(f1_f2_f3__f5),word(3,_,2)", Some("f3__f5")),
            ("str(f1_f2_f3__f5),word(-2,_,3)", Some("f1_f2_f3")),
            ("str(f1_f2_f3__f5),word(-3,_,0)", Some("f1_f2")),
            ("str(/f1/f2/f3/f4),word(1,/)", Some("f1")),
            ("str(f1__),word(1,_,0)", Some("f1__")),
            ("str(f1__),word(1,_,2)", Some("f1__")),
            ("str(__f1),word(-1,_,0)", Some("__f1")),
            ("str(f1),word(2,_)", Some("")),
            ("str(),word(1,_)", Some("")),
            ("str(___),word(1,_)", Some("")),
            ("str(f1_f2),word(-2,_,9)", Some("f1")),
        ]);
    }

    #[test]
    fn params() {
        check_new(&[
            ("str(a=b&c=d&a=r),param(a)", Some("b")),
            ("str(a&b=c),param(a)", Some("")),
            ("str(a=&b&c=a),param(b)", Some("")),
            ("str(a=&b&c=a),param(a)", Some("")),
            ("str(ab=1&b=2),param(b)", Some("2")),
            ("str(a=1;b=2;c=4),param(b,;)", Some("2")),
            ("str(a=1=2),param(a)", Some("1=2")),
            ("str(a=1),param(c)", None),
            ("str(),param(c)", None),
        ]);
    }
}
