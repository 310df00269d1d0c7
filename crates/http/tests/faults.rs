//! Which fault is found, and at which byte: what logs, counters and `show errors` tell of a bad head.

use sluice_http::*;

#[track_caller]
fn check(input: &str, kind: ErrorKind, at: usize) {
    let fault = parse_request(
        input.as_bytes(),
        &mut HeadScan::new(),
        &Limits::default(),
        &mut Request::new(),
    );
    assert_eq!(
        fault,
        Err(ParseError { kind, at }),
        "{}",
        input.escape_debug()
    );
    assert_eq!(fault.unwrap_err().status(), kind.status());
}

#[track_caller]
fn check_response(input: &str, kind: ErrorKind, at: usize) {
    let limits = Limits::default();
    let fault = parse_response(
        input.as_bytes(),
        &mut HeadScan::new(),
        &limits,
        Method::Get,
        &mut Response::new(),
    );
    assert_eq!(
        fault,
        Err(ParseError { kind, at }),
        "{}",
        input.escape_debug()
    );
}

#[test]
fn faults_of_the_request_line() {
    check("\x16\x03\x01", ErrorKind::Start, 0);
    check("\r\n\rGET", ErrorKind::BareCr, 3);
    check("GE(T", ErrorKind::Method, 2);
    check("GET /a\x01", ErrorKind::Target, 6);
    check("GET /a#b", ErrorKind::Target, 6);
    check("GET / http/1.1\r\n", ErrorKind::Version, 6);
    check("GET / HTTP/1.10\r\n", ErrorKind::Version, 6);
    check("PRI * HTTP/2.0\r\n", ErrorKind::Version, 6);
}

#[test]
fn faults_of_header_lines() {
    check("GET / HTTP/1.1\r\nHost : a", ErrorKind::HeaderName, 20);
    check("GET / HTTP/1.1\r\n: a", ErrorKind::EmptyHeaderName, 16);
    check("GET / HTTP/1.1\r\nA: b\0", ErrorKind::HeaderValue, 20);
    check("GET / HTTP/1.1\r\nA: b\rc", ErrorKind::BareCr, 21);
    check("GET / HTTP/1.1\r\n A: b", ErrorKind::HeaderName, 16);
    check("GET / HTTP/1.1\r\nA: b\r\n\rX", ErrorKind::BareCr, 23);
    let many = "GET / HTTP/1.1\r\n".to_owned() + &"A: b\r\n".repeat(101) + "\r\n";
    check(&many, ErrorKind::TooManyHeaders, 16 + 6 * 100);
    let long = "GET /".to_owned() + &"a".repeat(20_000);
    check(&long, ErrorKind::TooLarge, 15_360);
}

#[test]
fn faults_of_meaning() {
    check(
        "GET / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        ErrorKind::ContentLength,
        51,
    );
    check(
        "GET / HTTP/1.1\r\nTransfer-Encoding: chunked, x\r\n\r\n",
        ErrorKind::TransferEncoding,
        35,
    );
    check(
        "GET / HTTP/1.1\r\nTransfer-Encoding: x\r\n\r\n",
        ErrorKind::TransferEncoding,
        4,
    );
    check(
        "GET / HTTP/1.1\r\nTransfer-Encoding: x, chunked\r\n\r\n",
        ErrorKind::TransferEncodingUnknown,
        4,
    );
    check(
        "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        ErrorKind::Host,
        4,
    );
    check(
        "GET http://a/ HTTP/1.1\r\nHost: b\r\n\r\n",
        ErrorKind::HostMismatch,
        4,
    );
    check(
        "GET http://u@b@a/ HTTP/1.1\r\nHost: a\r\n\r\n",
        ErrorKind::TargetForm,
        4,
    );
    check("CONNECT a HTTP/1.1\r\n\r\n", ErrorKind::TargetForm, 8);
    check(
        "GET / HTTP/1.0\r\nContent-Length: 1\r\n\r\n",
        ErrorKind::Payload,
        4,
    );
    check(
        "GET / HTTP/1.1\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
        ErrorKind::WebsocketKey,
        4,
    );
}

#[test]
fn faults_of_the_status_line() {
    check_response("SSH-2.0", ErrorKind::Version, 3);
    check_response("HTTP/1 200 OK", ErrorKind::Version, 0);
    check_response("HTTP/1.1 2x0 OK", ErrorKind::Status, 10);
    check_response("HTTP/1.1 2000 OK", ErrorKind::Status, 12);
    check_response("HTTP/1.1 200 O\0", ErrorKind::Reason, 14);
}

#[test]
fn a_request_with_every_odd_but_harmless_thing_goes_on_plain() {
    let input = "\r\nGET   http://A:80/x   HTTP/1.9\nHOST: a:80\nhost:a\nX:\t1\r\n  2\r\nTE: gzip, trailers\r\n\
                 Content-Length: 003, 3\r\nconnection: close\r\n\r\nabc";
    let mut out = Request::new();
    let parsed = parse_request(
        input.as_bytes(),
        &mut HeadScan::new(),
        &Limits::default(),
        &mut out,
    );
    // The two Host headers differ in their port: told apart, as HAProxy does.
    assert_eq!(parsed.map_err(|e| e.kind), Err(ErrorKind::Host));
    let input = input.replace("host:a\n", "host:a:80\n");
    let parsed = parse_request(
        input.as_bytes(),
        &mut HeadScan::new(),
        &Limits::default(),
        &mut out,
    );
    assert_eq!(
        parsed,
        Ok(Parsed::Complete {
            consumed: input.len() - 3
        })
    );
    let mut text = Vec::new();
    out.write_to(&mut text);
    // Headers made plain go to the end, those changed in place stay.
    let plain = "GET http://A/x HTTP/1.1\r\nHOST: a\r\nX: 1    2\r\nconnection: close\r\n\
                 Content-Length: 3\r\nTE: trailers\r\n\r\n";
    assert_eq!(String::from_utf8(text).unwrap(), plain);
    assert!(out.noticed.close && out.noticed.folded && !out.persistent());
}
