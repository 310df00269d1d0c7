//! Fetches of the start lines: method, target and its parts, versions, status (manual chapter 7.3.6).

use std::borrow::Cow;
use std::net::IpAddr;

use sluice_http::{Method, Request, Version, uri};

use super::{int, never, request, response, text};
use crate::env::{Env, Side};
use crate::value::{Absent, Fetched, Sample, Value};

fetches! {
    "method" () -> Meth, REQUEST_KEPT, |_, env, _| method(env) => "The request's method.";
    "url" () -> Str, REQUEST, |_, env, _| Ok(Sample::str(request(env)?.target()))
        => "The request's target as it stands in the request line.";
    "path" () -> Str, REQUEST, |_, env, _| text(request(env)?.path())
        => "The target's path: from its first slash to before the question mark.";
    "pathq" () -> Str, REQUEST, |_, env, _| text(request(env)?.path_and_query()) => "The path with the query string.";
    "query" (; Str) -> Str, REQUEST, query, prepare prepare_query
        => "What follows the first question mark; `with_qm` keeps the mark itself.";
    "base" () -> Str, REQUEST, |_, env, _| base(request(env)?, Request::path)
        => "The first Host header and the path, side by side.";
    "baseq" () -> Str, REQUEST, |_, env, _| base(request(env)?, Request::path_and_query)
        => "The first Host header, the path and the query string.";
    "base32" () -> Sint, REQUEST, |_, env, _| Ok(Sample::int(i64::from(hash(request(env)?, Request::path))))
        => "A hash of 32 bits of `base`, the same as `base,sdbm(1)`.";
    "base32+src" () -> Bin, REQUEST, |_, env, _| with_src(env, Request::path)
        => "The hash `base32` and the client's address as bytes.";
    "url32" () -> Sint, REQUEST, |_, env, _| Ok(Sample::int(i64::from(hash(request(env)?, Request::path_and_query))))
        => "A hash of 32 bits of the first Host header, the path and the query string.";
    "url32+src" () -> Bin, REQUEST, |_, env, _| with_src(env, Request::path_and_query)
        => "The hash `url32` and the client's address as bytes.";
    "url_ip" () -> Ipv4, REQUEST, |_, env, _| url_ip(request(env)?) => "The IPv4 address an absolute target names.";
    "url_port" () -> Sint, REQUEST, |_, env, _| url_port(request(env)?)
        => "The port of an absolute target that names an address.";
    "req.ver" () -> Str, REQUEST_KEPT, |_, env, _| req_ver(env) => "The request's version, like `1.1`.";
    "req_ver" () -> Str, REQUEST_KEPT, |_, env, _| req_ver(env) => "The same as `req.ver`.";
    "res.ver" () -> Str, RESPONSE_KEPT, |_, env, _| Ok(version(response(env)?.version))
        => "The response's version, like `1.1`.";
    "resp_ver" () -> Str, RESPONSE_KEPT, |_, env, _| Ok(version(response(env)?.version)) => "The same as `res.ver`.";
    "status" () -> Sint, RESPONSE_KEPT, |_, env, _| status(env) => "The response's status, as rules left it.";
    "server_status" () -> Sint, RESPONSE_KEPT,
        |_, env, _| int(env.stream().map(|s| s.server_status).filter(|&n| n > 0).map(i64::from))
        => "The status the server sent.";
    "txn.status" () -> Sint, RESPONSE_KEPT, |_, env, _| int(env.stream().map(|s| s.status).filter(|&n| n > 0).map(i64::from))
        => "The status sent to the client.";
    "capture.req.method" () -> Str, REQUEST_KEPT, |_, env, _| text(first_line(env, 0))
        => "The method as first received, also in the response and the logs.";
    "capture.req.uri" () -> Str, REQUEST_KEPT, |_, env, _| text(first_line(env, 1).and_then(uri::path_and_query))
        => "The target's path and query as first received, also in the response and the logs.";
    "capture.req.ver" () -> Str, REQUEST_KEPT, |_, env, _| capture_req_ver(env)
        => "`HTTP/1.0` or `HTTP/1.1`, also in the response and the logs.";
    "capture.res.ver" () -> Str, REQUEST_KEPT, |_, env, _| Ok(kept_version(response(env)?.version))
        => "`HTTP/1.0` or `HTTP/1.1` of the response, also in the logs.";
}

fn method(env: &dyn Env) -> Fetched<'_> {
    let kept = first_line(env, 0).map(|name| (Method::from_bytes(name), name));
    let (method, name) = match (env.request(), kept) {
        // a method that is known stays what it was when `set-method` sends another
        (_, Some((known, name))) if known != Method::Other => (known, name),
        (Some(r), _) => (r.method, r.method_str()),
        (None, Some(kept)) => kept,
        (None, None) => (request(env)?.method, &b""[..]),
    };
    Ok(Sample::new(Value::Meth(method, Cow::Borrowed(name))))
}

/// The `nth` word of the request line as first received, kept until the log is written.
fn first_line(env: &dyn Env, nth: usize) -> Option<&[u8]> {
    let line = &env.stream()?.first_line;
    line.split(|&b| b == b' ')
        .nth(nth)
        .filter(|word| !word.is_empty())
}

fn prepare_query(
    args: &mut [crate::args::Arg],
    _: &crate::compile::ParseCtx<'_>,
) -> Result<(), crate::conv::BadArg> {
    match super::arg_str(args, 0) {
        None | Some(b"" | b"with_qm") => Ok(()),
        Some(_) => Err(crate::conv::BadArg::new(0, "the only option is with_qm")),
    }
}

fn query<'a>(args: &'a [crate::args::Arg], env: &'a dyn Env, _: &mut super::Cursor) -> Fetched<'a> {
    let pathq = request(env)?.target();
    let Some(mark) = memchr::memchr(b'?', pathq) else {
        return never();
    };
    match super::arg_str(args, 0) {
        Some(b"with_qm") => Ok(Sample::str(&pathq[mark..])),
        _ => Ok(Sample::str(&pathq[mark + 1..])),
    }
}

/// The path or path and query of a request, the second half of `base` and `url32`.
type Part = fn(&Request) -> Option<&[u8]>;

/// The host as HAProxy takes it here: the first Host header, as it is.
fn halves(request: &Request, part: Part) -> (&[u8], &[u8]) {
    (
        request.host().unwrap_or_default(),
        part(request).unwrap_or_default(),
    )
}

fn base(request: &Request, part: Part) -> Fetched<'_> {
    match halves(request, part) {
        ([], []) => never(),
        (host, []) => Ok(Sample::str(host)),
        ([], path) => Ok(Sample::str(path)),
        (host, path) => Ok(Sample::string([host, path].concat())),
    }
}

fn hash(request: &Request, part: Part) -> u32 {
    let (host, path) = halves(request, part);
    avalanche(host.iter().chain(path).fold(0, sdbm))
}

fn sdbm(hash: u32, byte: &u8) -> u32 {
    u32::from(*byte)
        .wrapping_add(hash << 6)
        .wrapping_add(hash << 16)
        .wrapping_sub(hash)
}

/// HAProxy's end to its hashes: an integer hash of Bob Jenkins, spread by a prime near 3/4 of the range.
fn avalanche(a: u32) -> u32 {
    let a = a.wrapping_add(0x7ed5_5d16).wrapping_add(a << 12);
    let a = (a ^ 0xc761_c23c) ^ (a >> 19);
    let a = a.wrapping_add(0x1656_67b1).wrapping_add(a << 5);
    let a = a.wrapping_add(0xd3a2_646c) ^ (a << 9);
    let a = a.wrapping_add(0xfd70_46c5).wrapping_add(a << 3);
    let a = (a ^ 0xb55a_4f09) ^ (a >> 16);
    a.wrapping_mul(3_221_225_473)
}

fn with_src(env: &dyn Env, part: Part) -> Fetched<'_> {
    let mut out = hash(request(env)?, part).to_be_bytes().to_vec();
    match env.conn(Side::Client).and_then(|c| c.src.ip()) {
        Some(IpAddr::V4(a)) => out.extend(a.octets()),
        Some(IpAddr::V6(a)) => out.extend(a.octets()),
        None => return never(),
    }
    Ok(Sample::bytes(out))
}

fn url_ip(request: &Request) -> Fetched<'_> {
    match absolute_ip(request) {
        Some((IpAddr::V4(a), _)) => Ok(Sample::new(Value::Ipv4(a))),
        _ => never(),
    }
}

fn url_port(request: &Request) -> Fetched<'_> {
    int(absolute_ip(request).map(|(_, port)| i64::from(port)))
}

/// The address and port of an absolute target whose host is an address; HAProxy resolves no name here.
fn absolute_ip(request: &Request) -> Option<(IpAddr, u16)> {
    let target = request.target();
    let scheme = uri::scheme(target)?;
    let authority = uri::authority(target)?;
    if authority.contains(&b'@') {
        return None;
    }
    let (host, port) = uri::split_host_port(authority);
    let port = match port {
        Some(digits) if !digits.is_empty() => std::str::from_utf8(digits).ok()?.parse().ok()?,
        _ if scheme.eq_ignore_ascii_case(b"https") => 443,
        _ => 80,
    };
    Some((uri::parse_ip(host)?, port))
}

fn req_ver(env: &dyn Env) -> Fetched<'_> {
    if let Some(request) = env.request() {
        return Ok(version(request.version));
    }
    match first_line(env, 2).and_then(|word| word.strip_prefix(b"HTTP/")) {
        Some(version) => Ok(Sample::str(version)),
        None => Err(request(env).err().unwrap_or(Absent::Never)),
    }
}

fn version(version: Version) -> Sample<'static> {
    match (version.major, version.minor) {
        (0, 9) => Sample::str(b"0.9"),
        (1, 0) => Sample::str(b"1.0"),
        (1, 1) => Sample::str(b"1.1"),
        (2, 0) => Sample::str(b"2.0"),
        (3, 0) => Sample::str(b"3.0"),
        _ => Sample::string(version.to_string()),
    }
}

fn capture_req_ver(env: &dyn Env) -> Fetched<'_> {
    match (env.request(), first_line(env, 2)) {
        (Some(request), _) => Ok(kept_version(request.version)),
        (None, Some(word)) => Ok(kept_version(
            Version::from_bytes(word).unwrap_or(Version::HTTP_10),
        )),
        (None, None) => never(),
    }
}

/// What remains of a version in HAProxy's persistent flag.
fn kept_version(version: Version) -> Sample<'static> {
    match version >= Version::HTTP_11 {
        true => Sample::str(b"HTTP/1.1"),
        false => Sample::str(b"HTTP/1.0"),
    }
}

fn status(env: &dyn Env) -> Fetched<'_> {
    match (env.response(), env.stream()) {
        (Some(response), _) => Ok(Sample::int(i64::from(response.status))),
        (None, Some(stream)) if stream.status > 0 => Ok(Sample::int(i64::from(stream.status))),
        _ => never(),
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::TestEnv;

    #[test]
    fn a_target_has_parts() {
        TestEnv::request("GET /a/b;p=1?x=1&y=2 HTTP/1.1\r\nHost: Www.Example.com:81\r\n\r\n")
            .check(&[
                ("method", Some("GET")),
                ("url", Some("/a/b;p=1?x=1&y=2")),
                ("path", Some("/a/b;p=1")),
                ("pathq", Some("/a/b;p=1?x=1&y=2")),
                ("query", Some("x=1&y=2")),
                ("query(with_qm)", Some("?x=1&y=2")),
                ("base", Some("Www.Example.com:81/a/b;p=1")),
                ("baseq", Some("Www.Example.com:81/a/b;p=1?x=1&y=2")),
                ("base32", Some("1773892201")),
                ("url_ip", None),
                ("url_port", None),
                ("req.ver", Some("1.1")),
                ("req_ver", Some("1.1")),
                ("capture.req.method", Some("GET")),
                ("capture.req.uri", Some("/a/b;p=1?x=1&y=2")),
                ("capture.req.ver", Some("HTTP/1.1")),
                ("capture.res.ver", None),
            ]);
    }

    #[test]
    fn an_absolute_target_has_an_address() {
        let get = |target: &str, host: &str| {
            TestEnv::request(format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n"))
        };
        get("http://1.2.3.4:81/a?foo", "1.2.3.4:81").check(&[
            ("url", Some("http://1.2.3.4:81/a?foo")),
            ("pathq", Some("/a?foo")),
            ("url_ip", Some("1.2.3.4")),
            ("url_port", Some("81")),
            ("base", Some("1.2.3.4:81/a")),
            ("url32", Some("1775273808")),
            ("capture.req.uri", Some("/a?foo")),
        ]);
        get("https://1.2.3.4/a?b", "1.2.3.4").check(&[("url_port", Some("443"))]);
        get("http://1.2.3.4/a?b", "1.2.3.4").check(&[("url_port", Some("80"))]);
        get("http://[::1]:90/", "[::1]:90").check(&[("url_ip", None), ("url_port", Some("90"))]);
        get("http://example.com", "example.com").check(&[
            ("path", None),
            ("pathq", None),
            ("query", None),
            ("base", Some("example.com")),
            ("url_ip", None),
            ("url_port", None),
        ]);
        get("http://u@1.2.3.4/", "1.2.3.4").check(&[("url_ip", None), ("url_port", None)]);
    }

    #[test]
    fn an_asterisk_has_no_path() {
        TestEnv::request("OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n").check(&[
            ("url", Some("*")),
            ("path", None),
            ("query", None),
            ("base", Some("h")),
            ("base32", Some("1228821030")),
            ("url32", Some("1228821030")),
            ("method", Some("OPTIONS")),
            ("capture.req.uri", None),
        ]);
    }

    #[test]
    fn a_request_without_host_has_a_base() {
        TestEnv::request("FOO /p? HTTP/1.0\r\n\r\n").check(&[
            ("method", Some("FOO")),
            ("method,upper", Some("FOO")),
            ("path", Some("/p")),
            ("query", Some("")),
            ("query(with_qm)", Some("?")),
            ("base", Some("/p")),
            ("baseq", Some("/p?")),
            ("base32", Some("543366309")),
            ("url32", Some("3690032698")),
            ("req.ver", Some("1.0")),
            ("capture.req.ver", Some("HTTP/1.0")),
        ]);
    }

    #[test]
    fn hashes_are_joined_with_the_client() {
        let env = TestEnv::request("FOO /p HTTP/1.0\r\n\r\n");
        assert_eq!(
            env.text("base32+src")
                .map(|t| t.chars().map(|c| c as u8).collect::<Vec<u8>>()),
            Some([&543_366_309_u32.to_be_bytes()[..], &[192, 0, 2, 1]].concat())
        );
        assert_eq!(env.text("url32+src").map(|t| t.chars().count()), Some(8));
    }

    #[test]
    fn the_request_line_outlives_the_request() {
        let mut env = TestEnv::request("PATCH /x?y HTTP/1.0\r\n\r\n");
        env.request = None;
        env.check(&[
            ("method", Some("PATCH")),
            ("req.ver", Some("1.0")),
            ("capture.req.method", Some("PATCH")),
            ("capture.req.uri", Some("/x?y")),
            ("capture.req.ver", Some("HTTP/1.0")),
            ("path", None),
        ]);
    }

    #[test]
    fn a_response_has_a_status() {
        let mut env = TestEnv::response("HTTP/1.1 203 Foo\r\nContent-Length: 0\r\n\r\n");
        env.check(&[
            ("status", Some("203")),
            ("res.ver", Some("1.1")),
            ("resp_ver", Some("1.1")),
            ("capture.res.ver", Some("HTTP/1.1")),
            ("txn.status", None),
            ("server_status", None),
        ]);
        env.response = None;
        let stream = env.stream.as_mut().expect("a stream");
        (stream.status, stream.server_status) = (503, 203);
        env.check(&[
            ("status", Some("503")),
            ("txn.status", Some("503")),
            ("server_status", Some("203")),
            ("res.ver", None),
        ]);
    }
}
