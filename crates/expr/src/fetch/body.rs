//! Fetches of message bodies, as far as they are buffered (`option http-buffer-request`, `wait-for-body`).

use sluice_http::Framing;

use super::{request, response};
use crate::env::{Content, Dir, Env};
use crate::value::{Absent, Fetched, Sample, Value};

fetches! {
    "req.body" () -> Bin, REQUEST, |_, env, _| bytes(of_request(env)?) => "The request's body, as far as it is buffered.";
    "req.body_len" () -> Sint, REQUEST, |_, env, _| length(of_request(env)?)
        => "The length of the request's body, as far as it is buffered.";
    "req.body_size" () -> Sint, REQUEST, |_, env, _| size(request(env)?.framing, of_request(env)?)
        => "The announced length of the request's body, or what is buffered when none is.";
    "res.body" () -> Bin, RESPONSE, |_, env, _| bytes(of_response(env)?)
        => "The response's body, as far as it is buffered.";
    "res.body_len" () -> Sint, RESPONSE, |_, env, _| length(of_response(env)?)
        => "The length of the response's body, as far as it is buffered.";
    "res.body_size" () -> Sint, RESPONSE, |_, env, _| size(response(env)?.framing, of_response(env)?)
        => "The announced length of the response's body, or what is buffered when none is.";
}

fn of_request(env: &dyn Env) -> Result<Content<'_>, Absent> {
    request(env)?;
    Ok(env.body(Dir::Request).unwrap_or_default())
}

fn of_response(env: &dyn Env) -> Result<Content<'_>, Absent> {
    response(env)?;
    Ok(env.body(Dir::Response).unwrap_or_default())
}

fn bytes(body: Content<'_>) -> Fetched<'_> {
    Ok(Sample {
        may_change: !body.is_final,
        ..Sample::bin(body.bytes)
    })
}

fn length(body: Content<'_>) -> Fetched<'_> {
    Ok(Sample {
        may_change: !body.is_final,
        ..Sample::int(body.bytes.len() as i64)
    })
}

fn size(framing: Framing, body: Content<'_>) -> Fetched<'_> {
    match framing {
        Framing::Length(n) => Ok(Sample::new(Value::Sint(
            i64::try_from(n).unwrap_or(i64::MAX),
        ))),
        _ => length(body),
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::TestEnv;

    #[test]
    fn the_announced_size_can_be_more_than_what_is_there() {
        let mut env =
            TestEnv::request("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 22\r\n\r\na=1&b");
        env.req_body = Some((b"a=1&b".to_vec(), false));
        env.check(&[
            ("req.body", Some("a=1&b")),
            ("req.body_len", Some("5")),
            ("req.body_size", Some("22")),
        ]);
        assert!(env.outcome("req.body").is_ok_and(|s| s.may_change));
    }

    #[test]
    fn chunks_announce_nothing() {
        let head = "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
        let mut env = TestEnv::request(head);
        env.req_body = Some((b"abcdefg".to_vec(), true));
        env.check(&[
            ("req.body", Some("abcdefg")),
            ("req.body_len", Some("7")),
            ("req.body_size", Some("7")),
        ]);
    }

    #[test]
    fn no_body_is_an_empty_one() {
        TestEnv::request("GET / HTTP/1.1\r\nHost: h\r\n\r\n").check(&[
            ("req.body", Some("")),
            ("req.body_len", Some("0")),
            ("req.body_size", Some("0")),
            ("res.body", None),
        ]);
    }

    #[test]
    fn responses_have_bodies() {
        TestEnv::response("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc").check(&[
            ("res.body", Some("abc")),
            ("res.body_len", Some("3")),
            ("res.body_size", Some("3")),
        ]);
    }
}
