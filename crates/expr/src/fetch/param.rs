//! Fetches of parameters, of the query string and of a form's body.

use super::{Cursor, arg_int, arg_str, loose_int, more, request};
use crate::args::Arg;
use crate::conv::BadArg;
use crate::env::{Dir, Env};
use crate::value::{Absent, Fetched, Sample, Value};

fetches! {
    "url_param" (; Str, Str, Str) -> Str, REQUEST, of_url, prepare |args, _| prepare(args, 2)
        => "The first value of a parameter of the target, behind `?` or another character; `i` ignores case.";
    "urlp" (; Str, Str, Str) -> Str, REQUEST, of_url, prepare |args, _| prepare(args, 2)
        => "The same as `url_param`.";
    "urlp_val" (; Str, Str, Str) -> Sint, REQUEST, of_url_int, prepare |args, _| prepare(args, 2)
        => "The first value of a parameter of the target, as an integer.";
    "req.body_param" (; Str, Str) -> Bin, REQUEST, of_body, prepare |args, _| prepare(args, 1)
        => "The first value of a parameter of a form in the request's body; `i` ignores case.";
}

/// Replaces the flags in argument `at` by a number: 1 ignores case.
fn prepare(args: &mut [Arg], at: usize) -> Result<(), BadArg> {
    args[at] = match arg_str(args, at) {
        None | Some(b"") => Arg::None,
        Some(b"i") => Arg::Sint(1),
        Some(_) => return Err(BadArg::new(at, "the only flag is i")),
    };
    Ok(())
}

/// Which parameter is looked for, and where parameters end.
struct Wanted<'a> {
    name: &'a [u8],
    delimiter: u8,
    any_case: bool,
}

impl Wanted<'_> {
    fn separates(&self, b: u8) -> bool {
        b == b'&' || b == b';' || b == self.delimiter
    }

    /// The next value in `text` and what follows it.
    fn next<'t>(&self, mut text: &'t [u8]) -> Option<(&'t [u8], &'t [u8])> {
        let from = if self.name.is_empty() {
            // Any parameter: the next that has a value.
            memchr::memchr(b'=', text)? + 1
        } else {
            loop {
                let same = text
                    .get(..self.name.len())
                    .is_some_and(|name| match self.any_case {
                        true => name.eq_ignore_ascii_case(self.name),
                        false => name == self.name,
                    });
                if same && text.get(self.name.len()) == Some(&b'=') {
                    break self.name.len() + 1;
                }
                let next = text.iter().position(|&b| self.separates(b))?;
                text = &text[next + 1..];
            }
        };
        let value = &text[from..];
        let end = value.iter().position(|&b| self.separates(b));
        Some(match end {
            Some(end) => (&value[..end], &value[end + 1..]),
            None => (value, &value[value.len()..]),
        })
    }
}

/// The value `wanted` in `all`, or the next one for an ACL, which comes again.
fn value<'a>(
    all: &'a [u8],
    wanted: &Wanted<'_>,
    cursor: &mut Cursor,
) -> Result<(&'a [u8], bool), Absent> {
    let iterates = cursor.iterates();
    let from = if iterates { cursor.0[0] as usize } else { 0 };
    let text = all.get(from..).unwrap_or_default();
    let (value, rest) = wanted.next(text).ok_or(Absent::Never)?;
    if iterates {
        cursor.0[0] = (all.len() - rest.len()) as u32;
    }
    Ok((value, iterates))
}

/// The target's text behind the delimiter (`?`, or what the second argument says).
fn of_target<'a>(
    args: &'a [Arg],
    env: &'a dyn Env,
    cursor: &mut Cursor,
) -> Result<(&'a [u8], bool), Absent> {
    let delimiter = arg_str(args, 1)
        .and_then(|d| d.first())
        .copied()
        .unwrap_or(b'?');
    let path = request(env)?.path_and_query().ok_or(Absent::Never)?;
    let start = memchr::memchr(delimiter, path).ok_or(Absent::Never)?;
    let wanted = Wanted {
        name: arg_str(args, 0).unwrap_or_default(),
        delimiter,
        any_case: arg_int(args, 2).is_some(),
    };
    value(&path[start + 1..], &wanted, cursor)
}

fn of_url<'a>(args: &'a [Arg], env: &'a dyn Env, cursor: &mut Cursor) -> Fetched<'a> {
    let (value, not_last) = of_target(args, env, cursor)?;
    Ok(more(Value::Str(value.into()), not_last))
}

fn of_url_int<'a>(args: &'a [Arg], env: &'a dyn Env, cursor: &mut Cursor) -> Fetched<'a> {
    let (value, not_last) = of_target(args, env, cursor)?;
    Ok(more(Value::Sint(loose_int(value)), not_last))
}

fn of_body<'a>(args: &'a [Arg], env: &'a dyn Env, cursor: &mut Cursor) -> Fetched<'a> {
    request(env)?;
    let body = env.body(Dir::Request).ok_or(Absent::Never)?;
    let wanted = Wanted {
        name: arg_str(args, 0).unwrap_or_default(),
        delimiter: b'&',
        any_case: arg_int(args, 1).is_some(),
    };
    let (value, not_last) = value(body.bytes, &wanted, cursor)?;
    Ok(Sample {
        may_change: !body.is_final,
        ..more(Value::Str(value.into()), not_last)
    })
}

#[cfg(test)]
mod tests {
    use crate::testing::TestEnv;

    fn get(target: &str) -> TestEnv {
        TestEnv::request(format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n"))
    }

    #[test]
    fn the_first_parameter_of_a_name_counts() {
        get("/a/b;p=1?x=1&y=2;z=3&x=&w").check(&[
            ("url_param(x)", Some("1")),
            ("urlp(y)", Some("2")),
            ("url_param(z)", Some("3")),
            ("url_param(w)", None),
            ("url_param", Some("1")),
            ("url_param(p)", None),
            ("url_param(p,;)", Some("1?x=1")),
            ("url_param(x,;)", Some("")),
            ("urlp_val(y)", Some("2")),
            ("urlp_val(w)", None),
            ("url_param(X)", None),
            ("url_param(X,?,i)", Some("1")),
        ]);
        get("/p/q?x=&y&=v&a==b&c=1&c=2;d=3&e").check(&[
            ("url_param(x)", Some("")),
            ("url_param()", Some("")),
            ("url_param(y)", None),
            ("url_param(a)", Some("=b")),
            ("url_param(c)", Some("1")),
            ("url_param(c,&)", Some("1")),
            ("url_param(c,;)", None),
            ("url_param(,;)", Some("3")),
            ("url_param(e)", None),
        ]);
    }

    #[test]
    fn a_parameter_without_a_value_is_passed_over() {
        get("/a?foo&x=1").check(&[("url_param", Some("1")), ("url_param(foo)", None)]);
        get("/a?foo").check(&[("url_param", None)]);
        get("*").check(&[("url_param", None)]);
    }

    #[test]
    fn an_acl_sees_every_parameter() {
        let env = get("/?a=1&b=2&a=3");
        assert_eq!(env.all("url_param"), ["1", "2", "3"]);
        assert_eq!(env.all("url_param(a)"), ["1", "3"]);
        assert_eq!(env.all("urlp_val(a)"), ["1", "3"]);
    }

    #[test]
    fn a_form_has_parameters_too() {
        let env = TestEnv::request(
            "POST /x?c=9 HTTP/1.1\r\nHost: h\r\nContent-Length: 22\r\n\r\na=1&b=2;c=3&a=4&d&e=&f",
        );
        env.check(&[
            ("req.body_param(a)", Some("1")),
            ("req.body_param(b)", Some("2")),
            ("req.body_param(c)", Some("3")),
            ("req.body_param(d)", None),
            ("req.body_param(e)", Some("")),
            ("req.body_param(f)", None),
            ("req.body_param", Some("1")),
            ("req.body_param(A)", None),
            ("req.body_param(A,i)", Some("1")),
            ("req.body_param(zz)", None),
        ]);
        assert_eq!(env.all("req.body_param(a)"), ["1", "4"]);
    }
}
