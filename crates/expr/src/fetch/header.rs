//! Fetches of headers: items between commas (`hdr`) and whole lines (`fhdr`), by occurrence (manual chapter 7.3.6).

use std::net::IpAddr;

use sluice_http::{Headers, Named, list_items};

use super::{
    Cursor, arg_int, arg_str, headers_at_hand, loose_int, more, never, request, response, text,
};
use crate::args::Arg;
use crate::compile::ParseCtx;
use crate::conv::BadArg;
use crate::header_list::encode;
use crate::value::{Absent, Fetched, Sample, Value, leading_ipv4, parse_ipv6};

fetches! {
    "hdr" (; Str, Sint) -> Str, MESSAGE, |a, env, c| item(a, headers_at_hand(env)?, c), prepare prepare
        => "`req.hdr` on requests, `res.hdr` on responses.";
    "req.hdr" (; Str, Sint) -> Str, REQUEST, |a, env, c| item(a, &request(env)?.headers, c), prepare prepare
        => "An item between commas of the request's headers of a name: the last, or the one asked for.";
    "req.fhdr" (; Str, Sint) -> Str, REQUEST, |a, env, c| line(a, &request(env)?.headers, c), prepare prepare
        => "A whole line of the request's headers of a name: the last, or the one asked for.";
    "req.hdr_cnt" (; Str) -> Sint, REQUEST, |a, env, _| count(a, &request(env)?.headers)
        => "How many items between commas the request's headers of a name have.";
    "hdr_cnt" (; Str) -> Sint, REQUEST, |a, env, _| count(a, &request(env)?.headers) => "The same as `req.hdr_cnt`.";
    "req.fhdr_cnt" (; Str) -> Sint, REQUEST, |a, env, _| count_lines(a, &request(env)?.headers)
        => "How many lines the request's headers of a name have.";
    "req.hdr_ip" (; Str, Sint) -> Addr, REQUEST, |a, env, c| item_ip(a, &request(env)?.headers, c), prepare prepare
        => "An item of the request's headers as an address; an IPv4 address may have a port, which is left out.";
    "hdr_ip" (; Str, Sint) -> Addr, REQUEST, |a, env, c| item_ip(a, &request(env)?.headers, c), prepare prepare
        => "The same as `req.hdr_ip`.";
    "req.hdr_val" (; Str, Sint) -> Sint, REQUEST, |a, env, c| item_int(a, &request(env)?.headers, c), prepare prepare
        => "An item of the request's headers as an integer.";
    "hdr_val" (; Str, Sint) -> Sint, REQUEST, |a, env, c| item_int(a, &request(env)?.headers, c), prepare prepare
        => "The same as `req.hdr_val`.";
    "req.hdr_names" (; Str) -> Str, REQUEST, |a, env, _| names(a, &request(env)?.headers)
        => "The names of the request's headers, between commas or another character.";
    "req.hdrs" () -> Bin, REQUEST, |_, env, _| all_lines(&request(env)?.headers)
        => "The request's headers as they are sent, the empty line included.";
    "req.hdrs_bin" () -> Bin, REQUEST, |_, env, _| Ok(Sample::bytes(encode(&request(env)?.headers)))
        => "The request's headers in SPOE's binary form.";
    "res.hdr" (; Str, Sint) -> Str, RESPONSE, |a, env, c| item(a, &response(env)?.headers, c), prepare prepare
        => "An item between commas of the response's headers of a name: the last, or the one asked for.";
    "shdr" (; Str, Sint) -> Str, RESPONSE, |a, env, c| item(a, &response(env)?.headers, c), prepare prepare
        => "The same as `res.hdr`.";
    "res.fhdr" (; Str, Sint) -> Str, RESPONSE, |a, env, c| line(a, &response(env)?.headers, c), prepare prepare
        => "A whole line of the response's headers of a name: the last, or the one asked for.";
    "res.hdr_cnt" (; Str) -> Sint, RESPONSE, |a, env, _| count(a, &response(env)?.headers)
        => "How many items between commas the response's headers of a name have.";
    "shdr_cnt" (; Str) -> Sint, RESPONSE, |a, env, _| count(a, &response(env)?.headers)
        => "The same as `res.hdr_cnt`.";
    "res.fhdr_cnt" (; Str) -> Sint, RESPONSE, |a, env, _| count_lines(a, &response(env)?.headers)
        => "How many lines the response's headers of a name have.";
    "res.hdr_ip" (; Str, Sint) -> Addr, RESPONSE, |a, env, c| item_ip(a, &response(env)?.headers, c), prepare prepare
        => "An item of the response's headers as an address.";
    "shdr_ip" (; Str, Sint) -> Addr, RESPONSE, |a, env, c| item_ip(a, &response(env)?.headers, c), prepare prepare
        => "The same as `res.hdr_ip`.";
    "res.hdr_val" (; Str, Sint) -> Sint, RESPONSE, |a, env, c| item_int(a, &response(env)?.headers, c), prepare prepare
        => "An item of the response's headers as an integer.";
    "shdr_val" (; Str, Sint) -> Sint, RESPONSE, |a, env, c| item_int(a, &response(env)?.headers, c), prepare prepare
        => "The same as `res.hdr_val`.";
    "res.hdr_names" (; Str) -> Str, RESPONSE, |a, env, _| names(a, &response(env)?.headers)
        => "The names of the response's headers, between commas or another character.";
    "res.hdrs" () -> Bin, RESPONSE, |_, env, _| all_lines(&response(env)?.headers)
        => "The response's headers as they are sent, the empty line included.";
    "res.hdrs_bin" () -> Bin, RESPONSE, |_, env, _| Ok(Sample::bytes(encode(&response(env)?.headers)))
        => "The response's headers in SPOE's binary form.";
}

/// How far back an occurrence may be counted from the last.
const OCCURRENCES_BACK_MAX: usize = 10;

fn prepare(args: &mut [Arg], _: &ParseCtx<'_>) -> Result<(), BadArg> {
    match arg_int(args, 1) {
        Some(n) if n < -(OCCURRENCES_BACK_MAX as i64) => Err(BadArg::new(
            1,
            format!(
                "an occurrence counts back {OCCURRENCES_BACK_MAX} at most, write -{OCCURRENCES_BACK_MAX} to -1"
            ),
        )),
        _ => Ok(()),
    }
}

/// The lines of the name in the first argument, or all when there is none.
fn lines<'a>(args: &'a [Arg], headers: &'a Headers) -> impl DoubleEndedIterator<Item = &'a [u8]> {
    match arg_str(args, 0).filter(|name| !name.is_empty()) {
        Some(name) => Lines::Named(headers.all(name)),
        None => Lines::All(headers.iter().map(|(_, value)| value)),
    }
}

enum Lines<N, A> {
    Named(N),
    All(A),
}

impl<'a, N, A> Iterator for Lines<N, A>
where
    N: Iterator<Item = &'a [u8]>,
    A: Iterator<Item = &'a [u8]>,
{
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        match self {
            Lines::Named(lines) => lines.next(),
            Lines::All(lines) => lines.next(),
        }
    }
}

impl<'a, N, A> DoubleEndedIterator for Lines<N, A>
where
    N: DoubleEndedIterator<Item = &'a [u8]>,
    A: DoubleEndedIterator<Item = &'a [u8]>,
{
    #[inline]
    fn next_back(&mut self) -> Option<&'a [u8]> {
        match self {
            Lines::Named(lines) => lines.next_back(),
            Lines::All(lines) => lines.next_back(),
        }
    }
}

fn item<'a>(args: &'a [Arg], headers: &'a Headers, cursor: &mut Cursor) -> Fetched<'a> {
    let (item, not_last) = next_item(args, headers, cursor)?;
    Ok(more(Value::Str(item.into()), not_last))
}

fn item_int<'a>(args: &'a [Arg], headers: &'a Headers, cursor: &mut Cursor) -> Fetched<'a> {
    let (item, not_last) = next_item(args, headers, cursor)?;
    Ok(more(Value::Sint(loose_int(item)), not_last))
}

/// Items that are no address are skipped by an ACL, and are no value elsewhere.
fn item_ip<'a>(args: &'a [Arg], headers: &'a Headers, cursor: &mut Cursor) -> Fetched<'a> {
    loop {
        let (item, not_last) = next_item(args, headers, cursor)?;
        match item_address(item) {
            Some(IpAddr::V4(a)) => return Ok(more(Value::Ipv4(a), not_last)),
            Some(IpAddr::V6(a)) => return Ok(more(Value::Ipv6(a), not_last)),
            None if not_last => {}
            None => return never(),
        }
    }
}

/// An IPv4 address with or without a port, or an IPv6 address without brackets.
fn item_address(item: &[u8]) -> Option<IpAddr> {
    let (address, rest) = match leading_ipv4(item) {
        Some(found) => found,
        None => return parse_ipv6(item).map(IpAddr::V6),
    };
    let Some(port) = rest.strip_prefix(b":") else {
        return rest.is_empty().then_some(address.into());
    };
    let digits = !port.is_empty() && port.iter().all(u8::is_ascii_digit);
    let port: Option<u16> = std::str::from_utf8(port).ok()?.parse().ok();
    (digits && port.is_some()).then_some(address.into())
}

fn line<'a>(args: &'a [Arg], headers: &'a Headers, cursor: &mut Cursor) -> Fetched<'a> {
    match arg_int(args, 1).unwrap_or(0) {
        _ if !has_name(args) => never(),
        0 if cursor.iterates() => {
            let (line, not_last) = next_line(args, headers, cursor).ok_or(Absent::Never)?;
            Ok(more(Value::Str(line.into()), not_last))
        }
        occurrence => text(nth(lines(args, headers), occurrence)),
    }
}

/// Whether there are arguments. An empty name is any header, but without parentheses only counting works, as in HAProxy.
fn has_name(args: &[Arg]) -> bool {
    arg_str(args, 0).is_some()
}

/// The item asked for, and whether an ACL should come again.
fn next_item<'a>(
    args: &'a [Arg],
    headers: &'a Headers,
    cursor: &mut Cursor,
) -> Result<(&'a [u8], bool), Absent> {
    let found = match arg_int(args, 1).unwrap_or(0) {
        _ if !has_name(args) => None,
        0 if cursor.iterates() => next_of_list(args, headers, cursor),
        // the last item of the last line
        0 | -1 => lines(args, headers)
            .next_back()
            .and_then(|line| list_items(line).last())
            .map(|item| (item, false)),
        occurrence => {
            nth(lines(args, headers).flat_map(list_items), occurrence).map(|item| (item, false))
        }
    };
    found.ok_or(Absent::Never)
}

/// Where an ACL stands among the lines of a name: the cursor holds the number of the line and the byte in it.
fn place_of(cursor: &Cursor) -> (usize, usize) {
    (cursor.0[0] as usize, cursor.0[1] as usize)
}

/// The next line, and whether there is another.
fn next_line<'a>(
    args: &'a [Arg],
    headers: &'a Headers,
    cursor: &mut Cursor,
) -> Option<(&'a [u8], bool)> {
    let lines = headers.named(arg_str(args, 0)?);
    let (at, line) = lines.find_from(place_of(cursor).0)?;
    Some((line, go_to_line_after(at, &lines, cursor)))
}

/// The next item of the comma-separated lists in the lines, and whether there is another.
fn next_of_list<'a>(
    args: &'a [Arg],
    headers: &'a Headers,
    cursor: &mut Cursor,
) -> Option<(&'a [u8], bool)> {
    let lines = headers.named(arg_str(args, 0)?);
    let (number, offset) = place_of(cursor);
    let (at, line) = lines.find_from(number)?;
    let from = if at == number { offset } else { 0 };
    let mut items = list_items(line.get(from..).unwrap_or_default());
    let item = items.next()?;
    let not_last = match items.rest() {
        Some(rest) => {
            (cursor.0[0], cursor.0[1]) = (at as u32, (line.len() - rest.len()) as u32);
            true
        }
        None => go_to_line_after(at, &lines, cursor),
    };
    Some((item, not_last))
}

/// Steps to the line behind number `at`; false when there is none.
fn go_to_line_after(at: usize, lines: &Named<'_>, cursor: &mut Cursor) -> bool {
    let next = lines.find_from(at + 1);
    let number = next.map_or(u32::MAX, |(number, _)| number as u32);
    (cursor.0[0], cursor.0[1]) = (number, 0);
    next.is_some()
}

/// The `occurrence`th of `all`: from 1 on, or from -1 back; 0 is the last.
fn nth<'a>(mut all: impl Iterator<Item = &'a [u8]>, occurrence: i64) -> Option<&'a [u8]> {
    match occurrence {
        1.. => all.nth(usize::try_from(occurrence - 1).ok()?),
        0 | -1 => all.last(),
        back => {
            let back = usize::try_from(-back).ok()?;
            let mut latest: [Option<&[u8]>; OCCURRENCES_BACK_MAX] = [None; OCCURRENCES_BACK_MAX];
            let mut count = 0;
            for it in all {
                latest[count % OCCURRENCES_BACK_MAX] = Some(it);
                count += 1;
            }
            let index = count.checked_sub(back)?;
            latest[index % OCCURRENCES_BACK_MAX]
        }
    }
}

fn count<'a>(args: &'a [Arg], headers: &'a Headers) -> Fetched<'a> {
    Ok(Sample::int(
        lines(args, headers).flat_map(list_items).count() as i64,
    ))
}

fn count_lines<'a>(args: &'a [Arg], headers: &'a Headers) -> Fetched<'a> {
    Ok(Sample::int(lines(args, headers).count() as i64))
}

/// Names are given in lower case, as HAProxy keeps them.
fn names<'a>(args: &'a [Arg], headers: &'a Headers) -> Fetched<'a> {
    let delimiter = match arg_str(args, 0) {
        None => b',',
        Some(chosen) => chosen.first().copied().unwrap_or(0),
    };
    let mut out = Vec::new();
    for (name, _) in headers.iter() {
        if !out.is_empty() {
            out.push(delimiter);
        }
        out.extend(name.iter().map(u8::to_ascii_lowercase));
    }
    Ok(Sample::string(out))
}

fn all_lines(headers: &Headers) -> Fetched<'_> {
    let mut out = Vec::with_capacity(headers.wire_len() + 2);
    for (name, value) in headers.iter() {
        out.extend(name.iter().map(u8::to_ascii_lowercase));
        out.extend_from_slice(b": ");
        out.extend_from_slice(value);
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"\r\n");
    Ok(Sample::string(out))
}

#[cfg(test)]
mod tests {
    use crate::testing::TestEnv;

    const REQUEST: &str = "GET / HTTP/1.1\r\nHost: Www.Example.com:81\r\nX-L: a, b ,\"c,d\",, e\r\nX-L:\r\nX-L: f\r\n\
        X-E:\r\nX-N: 12abc, -3\r\nX-Q: \"un, closed\r\nX-C: ,\r\nX-D: ,a,\r\n\
        X-I: 1.2.3.4, 1.2.3.4:80, ::1, [::1], [::1]:80, foo, 300.1.1.1, 1.2.3.4:99999, 1.2.3.4:\r\n\r\n";

    #[test]
    fn items_are_found_by_occurrence() {
        TestEnv::request(REQUEST).check(&[
            ("req.hdr(x-l)", Some("f")),
            ("req.hdr(X-L,1)", Some("a")),
            ("hdr(x-l,2)", Some("b")),
            ("req.hdr(x-l,3)", Some("\"c,d\"")),
            ("req.hdr(x-l,4)", Some("")),
            ("req.hdr(x-l,5)", Some("e")),
            ("req.hdr(x-l,6)", Some("")),
            ("req.hdr(x-l,7)", Some("f")),
            ("req.hdr(x-l,8)", None),
            ("req.hdr(x-l,0)", Some("f")),
            ("req.hdr(x-l,-1)", Some("f")),
            ("req.hdr(x-l,-2)", Some("")),
            ("req.hdr(x-l,-3)", Some("e")),
            ("req.hdr(x-l,-7)", Some("a")),
            ("req.hdr(x-l,-8)", None),
            ("req.hdr(x-e)", Some("")),
            ("req.hdr(none)", None),
            ("req.hdr", None),
            ("req.hdr()", Some("1.2.3.4:")),
            ("req.hdr(,1)", Some("Www.Example.com:81")),
            ("req.hdr(,3)", Some("b")),
            ("req.hdr(x-q)", Some("\"un, closed")),
            ("req.hdr(x-d,2)", Some("a")),
            ("req.hdr(x-d,3)", Some("")),
        ]);
    }

    #[test]
    fn lines_are_not_cut_at_commas() {
        TestEnv::request(REQUEST).check(&[
            ("req.fhdr(x-l)", Some("f")),
            ("req.fhdr(x-l,1)", Some("a, b ,\"c,d\",, e")),
            ("req.fhdr(x-l,2)", Some("")),
            ("req.fhdr(x-l,-1)", Some("f")),
            ("req.fhdr(x-l,4)", None),
            ("req.fhdr(,2)", Some("a, b ,\"c,d\",, e")),
        ]);
    }

    #[test]
    fn empty_items_count() {
        TestEnv::request(REQUEST).check(&[
            ("req.hdr_cnt(x-l)", Some("7")),
            ("req.fhdr_cnt(x-l)", Some("3")),
            ("req.hdr_cnt(x-e)", Some("1")),
            ("req.hdr_cnt(x-c)", Some("2")),
            ("req.hdr_cnt(x-d)", Some("3")),
            ("req.hdr_cnt(x-q)", Some("1")),
            ("hdr_cnt(none)", Some("0")),
            ("req.fhdr_cnt", Some("10")),
        ]);
    }

    #[test]
    fn only_an_ipv4_address_may_have_a_port() {
        let env = TestEnv::request(REQUEST);
        env.check(&[
            ("req.hdr_ip(x-i,1)", Some("1.2.3.4")),
            ("hdr_ip(x-i,2)", Some("1.2.3.4")),
            ("req.hdr_ip(x-i,3)", Some("::1")),
            ("req.hdr_ip(x-i,4)", None),
            ("req.hdr_ip(x-i,5)", None),
            ("req.hdr_ip(x-i,6)", None),
            ("req.hdr_ip(x-i,7)", None),
            ("req.hdr_ip(x-i,8)", None),
            ("req.hdr_ip(x-i,9)", None),
            ("req.hdr_ip(x-i)", None),
        ]);
        assert_eq!(env.all("req.hdr_ip(x-i)"), ["1.2.3.4", "1.2.3.4", "::1"]);
    }

    #[test]
    fn integers_are_read_as_haproxy_reads_them() {
        let env = |value: &str| TestEnv::request(format!("GET / HTTP/1.1\r\nV: {value}\r\n\r\n"));
        let check = |value: &str, want: &str| {
            assert_eq!(
                env(value).text("req.hdr_val(v)").as_deref(),
                Some(want),
                "{value}"
            );
        };
        check("12abc, -3", "-3");
        check("", "0");
        check("0x10", "0");
        check("-5x", "-5");
        // A character below the digits counts as a negative one.
        check("1.5", "85");
        check("1/5", "95");
        check("+5", "-45");
        check("7 8", "548");
        check("- 5", "155");
        check("!", "-15");
        check("99999999999999999999", "1661992959");
        check("-99999999999999999999", "-1661992959");
        assert_eq!(env("1").text("req.hdr_val(none)"), None);
    }

    #[test]
    fn an_acl_sees_every_item() {
        let env = TestEnv::request(REQUEST);
        assert_eq!(env.all("hdr(x-l)"), ["a", "b", "\"c,d\"", "", "e", "", "f"]);
        assert_eq!(env.all("req.fhdr(x-l)"), ["a, b ,\"c,d\",, e", "", "f"]);
        assert_eq!(env.all("hdr(x-l,2)"), ["b"]);
        assert_eq!(env.all("hdr(x-d)"), ["", "a", ""]);
        assert_eq!(env.all("hdr(none)"), [""; 0]);
        assert_eq!(env.all("req.hdr()").len(), 26);
        assert_eq!(env.all("req.hdr_val(x-n)"), ["12", "-3"]);
    }

    #[test]
    fn all_headers_at_once() {
        let env = TestEnv::request("GET / HTTP/1.1\r\nHost: h\r\nX-Y: a, b\r\n\r\n");
        env.check(&[
            ("req.hdrs", Some("host: h\r\nx-y: a, b\r\n\r\n")),
            ("req.hdr_names", Some("host,x-y")),
            ("req.hdr_names(:-)", Some("host:x-y")),
            ("req.hdr_names(\"\")", Some("host\0x-y")),
            ("req.hdrs_bin", Some("\x04host\x01h\x03x-y\x04a, b\0\0")),
        ]);
    }

    #[test]
    fn responses_have_the_same_fetches() {
        let env = TestEnv::response(
            "HTTP/1.1 203 Foo\r\nX: 1, 2\r\nI: 9.9.9.9\r\nContent-Length: 0\r\n\r\n",
        );
        env.check(&[
            ("res.hdr(x)", Some("2")),
            ("hdr(x)", Some("2")),
            ("shdr(x,1)", Some("1")),
            ("res.fhdr(x)", Some("1, 2")),
            ("res.hdr_cnt(x)", Some("2")),
            ("shdr_cnt(x)", Some("2")),
            ("res.fhdr_cnt(x)", Some("1")),
            ("res.hdr_val(x,1)", Some("1")),
            ("shdr_val(x)", Some("2")),
            ("res.hdr_ip(i)", Some("9.9.9.9")),
            ("shdr_ip(x)", None),
            ("res.hdr_names", Some("x,i,content-length")),
            (
                "res.hdrs",
                Some("x: 1, 2\r\ni: 9.9.9.9\r\ncontent-length: 0\r\n\r\n"),
            ),
            (
                "res.hdrs_bin",
                Some("\x01x\x041, 2\x01i\x079.9.9.9\x0econtent-length\x010\0\0"),
            ),
        ]);
    }
}
