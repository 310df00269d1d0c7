//! Converters that take a part of a string: by offset, field, word or parameter name.

use std::borrow::Cow;
use std::ops::Range;

use crate::args::{Arg, ArgKind};
use crate::conv::operand::{args, int_arg, on_bytes, slice_cow, str_arg};
use crate::conv::{BadArg, ConvDef, Run};
use crate::value::{Fetched, Sample, Type, Value};

pub const DEFS: &[ConvDef] = &[
    ConvDef {
        name: "field",
        args: args(&[ArgKind::Sint, ArgKind::Str, ArgKind::Sint], 2),
        input: Type::Str,
        out: Type::Str,
        help: "fields by number between delimiters, empty ones counted",
        run: Run::Fn(|args, sample, _| {
            on_bytes(sample, |s| {
                let range = field(&s, &Pick::of(args))?;
                Some(Value::Str(slice_cow(s, range)))
            })
        }),
        prepare: None,
    },
    ConvDef {
        name: "word",
        args: args(&[ArgKind::Sint, ArgKind::Str, ArgKind::Sint], 2),
        input: Type::Str,
        out: Type::Str,
        help: "words by number between delimiters, empty ones skipped",
        run: Run::Fn(|args, sample, _| {
            on_bytes(sample, |s| {
                let range = word(&s, &Pick::of(args))?;
                Some(Value::Str(slice_cow(s, range)))
            })
        }),
        prepare: None,
    },
];

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
