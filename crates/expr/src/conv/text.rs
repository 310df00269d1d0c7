//! Converters on strings as a whole: case, trimming, reversing, joining.

use std::borrow::Cow;

use crate::args::Arg;
use crate::compile::ParseCtx;
use crate::conv::BadArg;
use crate::conv::operand::{
    need_var, on_bytes, prepared, set_prepared, slice_cow, str_arg, var_bytes,
};
use crate::env::Env;
use crate::value::{Fetched, Sample, Type, Value};
use crate::vars::VarRef;

converters! {
    "lower" () Str -> Str, |_, s, _| on_bytes(s, |s| Some(Value::Str(map_bytes(s, |c| c.to_ascii_lowercase()))))
        => "Lower case, ASCII letters only.";
    "upper" () Str -> Str, |_, s, _| on_bytes(s, |s| Some(Value::Str(map_bytes(s, |c| c.to_ascii_uppercase()))))
        => "Upper case, ASCII letters only.";
    "length" () Str -> Sint, |_, s, _| on_bytes(s, |s| Some(Value::Sint(s.len() as i64))) => "The length in bytes.";
    "ltrim" (Str) Str -> Str, ltrim => "Drops the given characters from the beginning.";
    "rtrim" (Str) Str -> Str, rtrim => "Drops the given characters from the end.";
    "cut_crlf" () Str -> Str, cut_crlf => "Cuts at the first carriage return or line feed.";
    "reverse" () Str -> Str, reverse => "The bytes in reverse order.";
    "reverse_dom" () Str -> Str, |_, s, _| on_bytes(s, |s| Some(Value::Str(Cow::Owned(reverse_labels(&s)))))
        => "A domain name with its labels in reverse order: `www.example.com` gives `com.example.www`.";
    "has_ctl" (; Str) Bin -> Bool, has_ctl
        => "Whether there is a control character (0x00 to 0x1F), other than those given.";
    "concat" (Str; Str, Str) Str -> Str, concat, prepare prepare_middle
        => "Appends a string, a variable's content and another string.";
    "add_item" (Str, Str; Str) Str -> Str, add_item, prepare prepare_add_item
        => "Appends a variable's content and a string, after a delimiter where neither side of it is empty.";
}

fn ltrim<'a>(args: &'a [Arg], sample: Sample<'a>, _: &'a dyn Env) -> Fetched<'a> {
    on_bytes(sample, |s| {
        let start = s
            .iter()
            .position(|c| !str_arg(args, 0).contains(c))
            .unwrap_or(s.len());
        let end = s.len();
        Some(Value::Str(slice_cow(s, start..end)))
    })
}

fn rtrim<'a>(args: &'a [Arg], sample: Sample<'a>, _: &'a dyn Env) -> Fetched<'a> {
    on_bytes(sample, |s| {
        let end = s
            .iter()
            .rposition(|c| !str_arg(args, 0).contains(c))
            .map_or(0, |i| i + 1);
        Some(Value::Str(slice_cow(s, 0..end)))
    })
}

fn cut_crlf<'a>(_: &'a [Arg], sample: Sample<'a>, _: &'a dyn Env) -> Fetched<'a> {
    on_bytes(sample, |s| {
        let end = memchr::memchr2(b'\r', b'\n', &s).unwrap_or(s.len());
        Some(Value::Str(slice_cow(s, 0..end)))
    })
}

fn has_ctl<'a>(args: &'a [Arg], sample: Sample<'a>, _: &'a dyn Env) -> Fetched<'a> {
    let allowed = str_arg(args, 0);
    on_bytes(sample, |s| {
        Some(Value::Bool(
            s.iter().any(|c| *c < b' ' && !allowed.contains(c)),
        ))
    })
}

fn reverse<'a>(_: &'a [Arg], sample: Sample<'a>, _: &'a dyn Env) -> Fetched<'a> {
    on_bytes(sample, |s| {
        let mut s = s.into_owned();
        s.reverse();
        Some(Value::Str(Cow::Owned(s)))
    })
}

/// Changes bytes one by one, copying only if one does change.
fn map_bytes(s: Cow<'_, [u8]>, f: impl Fn(u8) -> u8) -> Cow<'_, [u8]> {
    if s.iter().all(|c| f(*c) == *c) {
        return s;
    }
    let mut s = s.into_owned();
    for c in &mut s {
        *c = f(*c);
    }
    Cow::Owned(s)
}

/// `www.example.com` becomes `com.example.www`.
fn reverse_labels(name: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(name.len());
    for label in name.rsplit(|c| *c == b'.') {
        if !out.is_empty() || label.as_ptr_range().end != name.as_ptr_range().end {
            out.push(b'.');
        }
        out.extend_from_slice(label);
    }
    out
}

/// The second argument, when given, is a variable's name.
fn prepare_middle(args: &mut Vec<Arg>, _: &ParseCtx<'_>) -> Result<(), BadArg> {
    if str_arg(args, 1).is_empty() {
        return Ok(());
    }
    let var = need_var(args, 1)?;
    set_prepared(args, 1, var);
    Ok(())
}

fn prepare_add_item(args: &mut Vec<Arg>, ctx: &ParseCtx<'_>) -> Result<(), BadArg> {
    if str_arg(args, 1).is_empty() && str_arg(args, 2).is_empty() {
        return Err(BadArg::new(1, "a variable or a suffix is needed"));
    }
    prepare_middle(args, ctx)
}

/// The content of the variable in the middle; empty when it is not named, not set, or has no text.
fn middle<'a>(args: &[Arg], env: &'a dyn Env) -> Cow<'a, [u8]> {
    prepared::<VarRef>(args, 1)
        .and_then(|var| var_bytes(var, env, Type::Str))
        .unwrap_or_default()
}

fn concat<'a>(args: &'a [Arg], sample: Sample<'a>, env: &'a dyn Env) -> Fetched<'a> {
    on_bytes(sample, |s| {
        let mut s = s.into_owned();
        s.extend_from_slice(str_arg(args, 0));
        s.extend_from_slice(&middle(args, env));
        s.extend_from_slice(str_arg(args, 2));
        Some(Value::Str(Cow::Owned(s)))
    })
}

fn add_item<'a>(args: &'a [Arg], sample: Sample<'a>, env: &'a dyn Env) -> Fetched<'a> {
    on_bytes(sample, |s| {
        let mut s = s.into_owned();
        let item = middle(args, env);
        let suffix = str_arg(args, 2);
        let adds = !item.is_empty() || !suffix.is_empty();
        if !s.is_empty() && adds {
            s.extend_from_slice(str_arg(args, 0));
        }
        s.extend_from_slice(&item);
        s.extend_from_slice(suffix);
        Some(Value::Str(Cow::Owned(s)))
    })
}

#[cfg(test)]
mod tests {
    use crate::conv::testing::{check_all, check_header, check_new, check_refused};

    #[test]
    fn case_and_length() {
        check_all(&[
            ("str(AbC-9),lower", Some("abc-9")),
            ("str(AbC-9),upper", Some("ABC-9")),
            ("str(),lower", Some("")),
            ("str(abc),length", Some("3")),
            ("str(),length", Some("0")),
            ("int(-12),length", Some("3")),
            ("bin(0102),length", Some("2")),
            ("bool(true),length", Some("1")),
            ("ipv4(192.0.2.1),length", Some("9")),
        ]);
        check_header(&[
            (b"\xc3\x89A", "hdr,lower", Some(b"\xc3\x89a")),
            (b"\xe9z", "hdr,upper", Some(b"\xe9Z")),
        ]);
    }

    #[test]
    fn trimming() {
        check_all(&[
            ("str(xxaxx),ltrim(x)", Some("axx")),
            ("str(xxaxx),rtrim(x)", Some("xxa")),
            ("str(xyaxy),ltrim(yx),rtrim(yx)", Some("a")),
            ("str(xx),ltrim(x)", Some("")),
            ("str(xx),rtrim(x)", Some("")),
            ("str(),rtrim(x)", Some("")),
            ("str(a),ltrim()", Some("a")),
            ("str(a),cut_crlf", Some("a")),
            ("bin(610d0a62),cut_crlf", Some("a")),
            ("bin(610a),cut_crlf", Some("a")),
        ]);
    }

    #[test]
    fn joining() {
        check_all(&[
            ("str(a),concat(-)", Some("a-")),
            ("str(a),concat(-,txn.str,+)", Some("a-text+")),
            ("str(a),concat(,txn.int)", Some("a12")),
            ("str(a),concat(<,txn.missing,>)", Some("a<>")),
            ("str(a),concat(<,txn.ip,>)", Some("a<192.0.2.1>")),
            ("str(a),concat(<,txn.yes,>)", Some("a<1>")),
            ("str(),concat(,,z)", Some("z")),
            ("str(a),add_item(\",\",txn.str)", Some("a,text")),
            ("str(),add_item(\",\",txn.str)", Some("text")),
            ("str(a),add_item(\",\",txn.empty)", Some("a")),
            ("str(a),add_item(\",\",txn.missing)", Some("a")),
            ("str(a),add_item(\",\",txn.missing,\"(s)\")", Some("a,(s)")),
            ("str(a),add_item(\",\",,\"(s)\")", Some("a,(s)")),
            ("str(a),add_item(\",\",txn.int,x)", Some("a,12x")),
        ]);
        check_refused(&[
            ("str(a),concat(a,nope)", "nope"),
            ("str(a),add_item(a,nope)", "nope"),
            ("str(a),add_item(a)", "needs 2 arguments"),
        ]);
    }

    #[test]
    fn reversing() {
        check_new(&[
            ("str(abc),reverse", Some("cba")),
            ("str(),reverse", Some("")),
            ("str(www.example.com),reverse_dom", Some("com.example.www")),
            ("str(localhost),reverse_dom", Some("localhost")),
            ("str(),reverse_dom", Some("")),
        ]);
    }

    #[test]
    fn control_characters() {
        check_new(&[
            ("str(abc),has_ctl", Some("0")),
            ("bin(610a),has_ctl", Some("1")),
            ("bin(6100),has_ctl", Some("1")),
            ("bin(617f80),has_ctl", Some("0")),
            ("bin(610962),has_ctl(\"\\t\")", Some("0")),
            ("bin(610a62),has_ctl(\"\\t\")", Some("1")),
            ("str(),has_ctl", Some("0")),
        ]);
    }
}
