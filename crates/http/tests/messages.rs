//! First sight of the codec: whole heads in, whole heads out.

use sluice_http::*;

fn request(input: &[u8]) -> (Request, usize) {
    let mut out = Request::new();
    match parse_request(input, &mut HeadScan::new(), &Limits::default(), &mut out) {
        Ok(Parsed::Complete { consumed }) => (out, consumed),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_request_is_read_and_written_back() {
    let text = b"GET http://a.example:80/x/y?q=1 HTTP/1.1\r\nHost: a.example\r\nAccept: */*\r\nX-Empty:\r\nX-Sp:  v  \r\n\r\nrest";
    let (req, consumed) = request(text);
    assert_eq!(consumed, text.len() - 4);
    assert_eq!(req.method, Method::Get);
    assert_eq!(req.path(), Some(&b"/x/y"[..]));
    assert_eq!(req.query(), b"q=1");
    assert_eq!(req.authority(), Some(&b"a.example"[..]));
    assert_eq!(req.headers.get("x-sp"), Some(&b"v"[..]));
    let mut out = Vec::new();
    req.write_to(&mut out);
    assert_eq!(
        out,
        b"GET http://a.example/x/y?q=1 HTTP/1.1\r\nHost: a.example\r\nAccept: */*\r\nX-Empty: \r\nX-Sp: v\r\n\r\n"
    );
}

#[test]
fn a_target_changes_by_parts() {
    let (mut req, _) = request(b"GET http://a/x?q HTTP/1.1\r\nHost: a\r\n\r\n");
    req.set_path("/new/path");
    assert_eq!(req.target(), b"http://a/new/path?q");
    req.set_query("z=1");
    assert_eq!(req.target(), b"http://a/new/path?z=1");
    req.set_query("");
    assert_eq!(req.target(), b"http://a/new/path");
    req.set_path_and_query("/p?y");
    assert_eq!(req.target(), b"http://a/p?y");
    req.set_method("DELETE");
    assert_eq!(
        (req.method, req.method_str(), req.target()),
        (Method::Delete, &b"DELETE"[..], &b"http://a/p?y"[..])
    );
}

#[test]
fn headers_change_and_keep_their_order() {
    let (mut req, _) =
        request(b"GET / HTTP/1.1\r\nHost: a\r\nX-A: 1\r\nX-B: 2\r\nx-a: 3, \"4,5\"\r\n\r\n");
    assert_eq!(
        req.headers.values(b"X-A").collect::<Vec<_>>(),
        [&b"1"[..], b"3", b"\"4,5\""]
    );
    assert_eq!(req.headers.nth_value(b"x-a", -2), Some(&b"3"[..]));
    let slot = req.headers.slots(b"x-b").next().unwrap();
    assert!(req.headers.replace_value(slot, "two\r\nEvil: yes"));
    req.headers.set("X-A", "9");
    req.headers.push_front("First", "0");
    let mut out = Vec::new();
    req.headers.write_to(&mut out);
    assert_eq!(
        out,
        b"First: 0\r\nHost: a\r\nX-B: two  Evil: yes\r\nX-A: 9\r\n"
    );
}

#[test]
fn a_response_knows_its_framing() {
    let check = |text: &[u8], method, framing| {
        let mut out = Response::new();
        let parsed = parse_response(
            text,
            &mut HeadScan::new(),
            &Limits::default(),
            method,
            &mut out,
        );
        assert_eq!(
            parsed,
            Ok(Parsed::Complete {
                consumed: text.len()
            })
        );
        assert_eq!(out.framing, framing);
    };
    check(
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
        Method::Get,
        Framing::Length(5),
    );
    check(
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
        Method::Head,
        Framing::None,
    );
    check(b"HTTP/1.1 200\r\n\r\n", Method::Get, Framing::UntilClose);
    check(
        b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n",
        Method::Get,
        Framing::None,
    );
    check(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        Method::Get,
        Framing::Chunked,
    );
    check(b"HTTP/1.1 200 OK\r\n\r\n", Method::Connect, Framing::Tunnel);
}

#[test]
fn a_chunked_body_ends_where_it_ends() {
    let text = b"5;x=y\r\nhello\r\n3\r\nabc\r\n0\r\nT: v\r\n\r\nnext";
    let mut body = BodyDecoder::new(Framing::Chunked);
    let mut seen = Vec::new();
    let step = body
        .decode(text, &mut |d| seen.extend_from_slice(d))
        .unwrap();
    assert_eq!(
        (step, &seen[..]),
        (
            BodyStep {
                consumed: text.len() - 4,
                done: true
            },
            &b"helloabc"[..]
        )
    );
}

#[test]
fn a_head_of_the_largest_size_is_refused() {
    let mut text = b"GET / HTTP/1.1\r\nX: ".to_vec();
    text.resize(20000, b'a');
    let fault = parse_request(
        &text,
        &mut HeadScan::new(),
        &Limits::default(),
        &mut Request::new(),
    )
    .unwrap_err();
    assert_eq!(fault.kind, ErrorKind::TooLarge);
}

#[test]
fn names_are_written_in_another_case() {
    let mut h = sluice_http::Headers::new();
    h.add("x-FOO", "1");
    h.add("Bar", "2");
    h.adjust_names(|name| match name {
        b"x-foo" => Some(b"X-Foo"),
        // not the same name: it stays
        b"bar" => Some(b"foo"),
        _ => None,
    });
    let mut out = Vec::new();
    h.write_to(&mut out);
    assert_eq!(out, b"X-Foo: 1\r\nBar: 2\r\n");
}

#[test]
fn an_absolute_target_names_another_host() {
    for (target, expect) in [
        ("http://a.example:80/b?c", "http://new/b?c"),
        ("http://a.example", "http://new"),
        ("/b?u=http://x/", "/b?u=http://x/"),
        ("*", "*"),
    ] {
        let (mut req, _) =
            request(format!("GET {target} HTTP/1.1\r\nHost: a.example\r\n\r\n").as_bytes());
        req.set_authority(b"new");
        assert_eq!(String::from_utf8_lossy(req.target()), expect);
    }
}
