//! Fetches of cookies: of the `Cookie` headers of requests and the `Set-Cookie` headers of responses.

use std::borrow::Cow;

use sluice_http::{Headers, cookies, cookies_of};

use super::{Cursor, arg_str, loose_int, more, request, response, resume};
use crate::args::Arg;
use crate::env::{Dir, Env};
use crate::value::{Absent, Fetched, Sample, Value};

fetches! {
    "cookie" (; Str) -> Str, MESSAGE, cookie => "`req.cook` on requests, `res.cook` on responses.";
    "req.cook" (; Str) -> Str, REQUEST, |a, env, c| value(a, &request(env)?.headers, SENT, c)
        => "The last value of a cookie of the request, or of the first cookie without a name.";
    "cook" (; Str) -> Str, REQUEST, |a, env, c| value(a, &request(env)?.headers, SENT, c)
        => "The same as `req.cook`.";
    "req.cook_cnt" (; Str) -> Sint, REQUEST, |a, env, _| count(a, &request(env)?.headers, SENT)
        => "How often the request has a cookie, or how many it has without a name.";
    "cook_cnt" (; Str) -> Sint, REQUEST, |a, env, _| count(a, &request(env)?.headers, SENT)
        => "The same as `req.cook_cnt`.";
    "req.cook_val" (; Str) -> Sint, REQUEST, |a, env, c| number(a, &request(env)?.headers, SENT, c)
        => "The last value of a cookie of the request as an integer.";
    "cook_val" (; Str) -> Sint, REQUEST, |a, env, c| number(a, &request(env)?.headers, SENT, c)
        => "The same as `req.cook_val`.";
    "req.cook_names" (; Str) -> Str, REQUEST, |a, env, _| names(a, &request(env)?.headers, SENT)
        => "The names of the request's cookies, between commas or another character.";
    "res.cook" (; Str) -> Str, RESPONSE, |a, env, c| value(a, &response(env)?.headers, SET, c)
        => "The last value the response sets a cookie to, or the first cookie without a name.";
    "scook" (; Str) -> Str, RESPONSE, |a, env, c| value(a, &response(env)?.headers, SET, c)
        => "The same as `res.cook`.";
    "res.cook_cnt" (; Str) -> Sint, RESPONSE, |a, env, _| count(a, &response(env)?.headers, SET)
        => "How often the response sets a cookie; without a name its attributes with a value count too.";
    "scook_cnt" (; Str) -> Sint, RESPONSE, |a, env, _| count(a, &response(env)?.headers, SET)
        => "The same as `res.cook_cnt`.";
    "res.cook_val" (; Str) -> Sint, RESPONSE, |a, env, c| number(a, &response(env)?.headers, SET, c)
        => "The last value the response sets a cookie to, as an integer.";
    "scook_val" (; Str) -> Sint, RESPONSE, |a, env, c| number(a, &response(env)?.headers, SET, c)
        => "The same as `res.cook_val`.";
    "res.cook_names" (; Str) -> Str, RESPONSE, |a, env, _| names(a, &response(env)?.headers, SET)
        => "The names of the cookies the response sets, between commas or another character.";
}

/// A header that carries cookies.
#[derive(Clone, Copy)]
struct Carrier {
    header: &'static [u8],
    /// Only the first pair of each comma-separated part is a cookie, the others are its attributes.
    attributes: bool,
}

const SENT: Carrier = Carrier {
    header: b"cookie",
    attributes: false,
};
const SET: Carrier = Carrier {
    header: b"set-cookie",
    attributes: true,
};

fn cookie<'a>(args: &'a [Arg], env: &'a dyn Env, cursor: &mut Cursor) -> Fetched<'a> {
    match env.direction() {
        Dir::Request => value(args, &request(env)?.headers, SENT, cursor),
        Dir::Response => value(args, &response(env)?.headers, SET, cursor),
    }
}

fn value<'a>(
    args: &'a [Arg],
    headers: &'a Headers,
    from: Carrier,
    cursor: &mut Cursor,
) -> Fetched<'a> {
    let (value, not_last) = find(args, headers, from, cursor)?;
    Ok(more(Value::Str(Cow::Borrowed(value)), not_last))
}

fn number<'a>(
    args: &'a [Arg],
    headers: &'a Headers,
    from: Carrier,
    cursor: &mut Cursor,
) -> Fetched<'a> {
    let (value, not_last) = find(args, headers, from, cursor)?;
    Ok(more(Value::Sint(loose_int(value)), not_last))
}

/// The value asked for, and whether an ACL should come again: every one for an ACL, else the last of a name, or the
/// first of all.
fn find<'a>(
    args: &'a [Arg],
    headers: &'a Headers,
    from: Carrier,
    cursor: &mut Cursor,
) -> Result<(&'a [u8], bool), Absent> {
    let name = wanted(args);
    if cursor.iterates() {
        let value = next(name, headers, from, cursor).ok_or(Absent::Never)?;
        return Ok((value, true));
    }
    let mut walk = Cursor::default();
    let mut value = next(name, headers, from, &mut walk).ok_or(Absent::Never)?;
    while let Some(later) = name.and_then(|_| next(name, headers, from, &mut walk)) {
        value = later;
    }
    Ok((value, false))
}

/// The name in the first argument, if there is one.
fn wanted(args: &[Arg]) -> Option<&[u8]> {
    arg_str(args, 0).filter(|name| !name.is_empty())
}

/// The next value of a name (or of any) from where `cursor` stands.
fn next<'a>(
    name: Option<&[u8]>,
    headers: &'a Headers,
    from: Carrier,
    cursor: &mut Cursor,
) -> Option<&'a [u8]> {
    resume(headers.all(from.header), cursor, |text| {
        let mut rest = text;
        while !rest.is_empty() {
            let mut pairs = cookies_of(rest, name.map_or(0, <[u8]>::len));
            let (found, value) = pairs.next()?;
            rest = pairs.rest();
            match name {
                None => return Some((value, left(rest))),
                Some(name) => {
                    if from.attributes {
                        rest = after_comma(text, value);
                    }
                    if found == name {
                        return Some((value, left(rest)));
                    }
                }
            }
        }
        None
    })
}

fn left(rest: &[u8]) -> Option<&[u8]> {
    (!rest.is_empty()).then_some(rest)
}

/// What follows the first comma behind `part` of `text`, outside of quotes: the next cookie that is set.
fn after_comma<'a>(text: &'a [u8], part: &[u8]) -> &'a [u8] {
    let offset = (part.as_ptr() as usize).wrapping_sub(text.as_ptr() as usize);
    let behind = text
        .get(offset.saturating_add(part.len())..)
        .unwrap_or_default();
    let mut items = sluice_http::list_items(behind);
    items.next();
    items.rest().unwrap_or_default()
}

fn count<'a>(args: &'a [Arg], headers: &'a Headers, from: Carrier) -> Fetched<'a> {
    let name = wanted(args);
    let mut cursor = Cursor::default();
    let mut n = 0;
    while next(name, headers, from, &mut cursor).is_some() {
        n += 1;
    }
    Ok(Sample::int(n))
}

fn names<'a>(args: &'a [Arg], headers: &'a Headers, from: Carrier) -> Fetched<'a> {
    let delimiter = match arg_str(args, 0) {
        None => b',',
        Some(chosen) => chosen.first().copied().unwrap_or(0),
    };
    let mut out = Vec::new();
    for line in headers.all(from.header) {
        let pairs = cookies(line).take(if from.attributes { 1 } else { usize::MAX });
        for (name, _) in pairs {
            if !out.is_empty() {
                out.push(delimiter);
            }
            out.extend_from_slice(name);
        }
    }
    Ok(Sample::string(out))
}

#[cfg(test)]
mod tests {
    use crate::testing::TestEnv;

    const REQUEST: &str = "GET / HTTP/1.1\r\nHost: h\r\nCookie: a=1; b=2;c = 3 ; a=4\r\n\
        Cookie: d=\"x;y\"; e=; f; g=a=b, h=5\r\n\r\n";

    #[test]
    fn the_last_cookie_of_a_name_counts() {
        TestEnv::request(REQUEST).check(&[
            ("req.cook(a)", Some("4")),
            ("cook(b)", Some("2")),
            ("req.cook(c)", Some("3")),
            ("cookie(d)", Some("\"x;y\"")),
            ("req.cook(e)", Some("")),
            ("req.cook(f)", None),
            ("req.cook(g)", Some("a=b")),
            ("req.cook(h)", Some("5")),
            ("req.cook(A)", None),
            ("req.cook(none)", None),
            ("req.cook", Some("1")),
            ("req.cook_val(a)", Some("4")),
            ("cook_val(e)", Some("0")),
            ("req.cook_val(d)", Some("-14")),
            ("req.cook_names", Some("a,b,c,a,d,e,g,h")),
        ]);
    }

    #[test]
    fn cookies_are_counted() {
        TestEnv::request(REQUEST).check(&[
            ("req.cook_cnt", Some("8")),
            ("req.cook_cnt(a)", Some("2")),
            ("cook_cnt(none)", Some("0")),
        ]);
    }

    #[test]
    fn an_acl_sees_every_cookie() {
        let env = TestEnv::request(REQUEST);
        assert_eq!(env.all("req.cook(a)"), ["1", "4"]);
        assert_eq!(env.all("cook").len(), 8);
        assert_eq!(env.all("cook_val(a)"), ["1", "4"]);
    }

    #[test]
    fn attributes_are_no_cookies() {
        let env = TestEnv::response(
            "HTTP/1.1 200 OK\r\nSet-Cookie: a=1; Path=/; b=9\r\nSet-Cookie: a=2;Secure\r\n\
             Set-Cookie: c = \"q;r\" ; x\r\nSet-Cookie: d=4, e=5\r\nSet-Cookie: f\r\n\
             Set-Cookie: g=6;h=7\r\nContent-Length: 0\r\n\r\n",
        );
        env.check(&[
            ("res.cook(a)", Some("2")),
            ("res.cook(b)", None),
            ("res.cook", Some("1")),
            ("res.cook_cnt", Some("9")),
            ("res.cook_cnt(a)", Some("2")),
            ("scook_cnt(b)", Some("0")),
            ("scook(c)", Some("\"q;r\"")),
            ("res.cook(path)", None),
            ("res.cook(e)", Some("5")),
            ("res.cook(f)", None),
            ("cookie(g)", Some("6")),
            ("res.cook_val(a)", Some("2")),
            ("scook_val(d)", Some("4")),
            ("res.cook_names", Some("a,a,c,d,g")),
        ]);
        assert_eq!(env.all("res.cook(a)"), ["1", "2"]);
    }
}
