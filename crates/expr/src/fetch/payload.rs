//! Fetches of raw content: what waits in a channel's buffer, before any protocol (manual chapter 7.3.5).

use sluice_http::Framing;

use super::{Cursor, arg_int, arg_str, content, request, response};
use crate::args::Arg;
use crate::compile::ParseCtx;
use crate::conv::BadArg;
use crate::env::{Dir, Env};
use crate::value::{Absent, Fetched, Sample, leading_int};

fetches! {
    "req.len" () -> Sint, REQUEST, |_, env, _| length(env, Dir::Request) => "How many bytes of the request are there.";
    "req_len" () -> Sint, REQUEST, |_, env, _| length(env, Dir::Request) => "The same as `req.len`.";
    "res.len" () -> Sint, RESPONSE, |_, env, _| length(env, Dir::Response) => "How many bytes of the response are there.";
    "req.payload" (Sint, Sint) -> Bin, REQUEST, |a, env, _| payload(a, env, Dir::Request), prepare prepare_payload
        => "Bytes of the request by offset and length; length 0 is all that is there.";
    "res.payload" (Sint, Sint) -> Bin, RESPONSE, |a, env, _| payload(a, env, Dir::Response), prepare prepare_payload
        => "Bytes of the response by offset and length; length 0 is all that is there.";
    "payload" (Sint, Sint) -> Bin, MESSAGE, |a, env, _| payload(a, env, env.direction()), prepare prepare_payload
        => "`req.payload` on requests, `res.payload` on responses.";
    "req.payload_lv" (Sint, Sint; Str) -> Bin, REQUEST, |a, env, _| payload_lv(a, env, Dir::Request), prepare prepare_lv
        => "Bytes of the request whose length stands at an offset in as many bytes as given.";
    "res.payload_lv" (Sint, Sint; Str) -> Bin, RESPONSE, |a, env, _| payload_lv(a, env, Dir::Response), prepare prepare_lv
        => "Bytes of the response whose length stands at an offset in as many bytes as given.";
    "payload_lv" (Sint, Sint; Str) -> Bin, MESSAGE, |a, env, _| payload_lv(a, env, env.direction()), prepare prepare_lv
        => "`req.payload_lv` on requests, `res.payload_lv` on responses.";
    "req.proto_http" () -> Bool, REQUEST_KEPT, |_, env, _| proto_http(env)
        => "True once a complete HTTP request is there; nothing until then.";
    "req_proto_http" () -> Bool, REQUEST_KEPT, |_, env, _| proto_http(env) => "The same as `req.proto_http`.";
    "wait_end" () -> Bool, PROCESS, wait_end => "True once the inspection delay is over; nothing until then.";
}

fn length(env: &dyn Env, dir: Dir) -> Fetched<'_> {
    if let Some(content) = env.content(dir) {
        return Ok(Sample {
            may_change: !content.is_final,
            ..Sample::int(content.bytes.len() as i64)
        });
    }
    let (line, headers, is_chunked) = match dir {
        Dir::Request => {
            let r = request(env)?;
            let line = r.method_str().len() + r.target().len();
            (line, &r.headers, r.framing == Framing::Chunked)
        }
        Dir::Response => {
            let r = response(env)?;
            (
                STATUS_LEN + r.reason().len(),
                &r.headers,
                r.framing == Framing::Chunked,
            )
        }
    };
    let body = env.body(dir).unwrap_or_default();
    let end = usize::from(is_chunked && body.is_final);
    let headers: usize = headers.iter().map(|(n, v)| n.len() + v.len()).sum();
    let held = START_LINE_LEN + VERSION_LEN + line + headers + END_LEN + body.bytes.len() + end;
    Ok(Sample::int(held as i64))
}

/// A parsed message has no length of its own: this is what HAProxy's blocks hold of it, its start line with a record
/// of fixed size, names and values without what parts them, a byte for the end of the headers and one for that of chunks.
const START_LINE_LEN: usize = 20;
const VERSION_LEN: usize = "HTTP/1.1".len();
const STATUS_LEN: usize = 3;
const END_LEN: usize = 1;

fn prepare_payload(args: &mut [Arg], _: &ParseCtx<'_>) -> Result<(), BadArg> {
    not_negative(args)
}

fn not_negative(args: &[Arg]) -> Result<(), BadArg> {
    for (i, what) in ["offset", "length"].iter().enumerate() {
        if arg_int(args, i).is_some_and(|n| n < 0) {
            return Err(BadArg::new(i, format!("the {what} cannot be negative")));
        }
    }
    Ok(())
}

/// Argument `i` as an offset or length; what memory cannot hold is as far as can be.
fn position(args: &[Arg], i: usize) -> usize {
    arg_int(args, i).map_or(0, |n| usize::try_from(n).unwrap_or(usize::MAX))
}

fn payload<'a>(args: &'a [Arg], env: &'a dyn Env, dir: Dir) -> Fetched<'a> {
    let (offset, length) = (position(args, 0), position(args, 1));
    let sample = content(env, dir, |bytes| {
        let from = bytes.get(offset..).ok_or(Absent::NotYet)?;
        match length {
            0 if bytes.is_empty() => Err(Absent::NotYet),
            0 => Ok(Sample::bin(from)),
            n => from.get(..n).map(Sample::bin).ok_or(Absent::NotYet),
        }
    })?;
    let is_final = env.content(dir).is_none_or(|c| c.is_final);
    Ok(Sample {
        may_change: length == 0 && !is_final,
        ..sample
    })
}

/// Turns the third argument into where the block starts: as it is, or by a sign relative to the end of the length.
fn prepare_lv(args: &mut [Arg], _: &ParseCtx<'_>) -> Result<(), BadArg> {
    not_negative(args)?;
    let length = arg_int(args, 1).unwrap_or(0);
    if length == 0 {
        return Err(BadArg::new(
            1,
            "the length of the length must be 1 at least",
        ));
    }
    let end = arg_int(args, 0).unwrap_or(0).saturating_add(length);
    let start = match arg_str(args, 2) {
        None | Some(b"") => end,
        Some(text) => {
            let relative = matches!(text.first(), Some(b'+' | b'-'));
            let digits = &text[usize::from(relative)..];
            if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
                return Err(BadArg::new(
                    2,
                    "the offset must be a number, like 4, +4 or -4",
                ));
            }
            let n = leading_int(text).unwrap_or(0);
            if relative { end.saturating_add(n) } else { n }
        }
    };
    if start < 0 {
        return Err(BadArg::new(2, "the block would start before the data"));
    }
    args[2] = Arg::Sint(start);
    Ok(())
}

fn payload_lv<'a>(args: &'a [Arg], env: &'a dyn Env, dir: Dir) -> Fetched<'a> {
    let (offset, width, start) = (position(args, 0), position(args, 1), position(args, 2));
    content(env, dir, |bytes| {
        let end = offset.checked_add(width).ok_or(Absent::Never)?;
        let length = bytes.get(offset..end).ok_or(Absent::NotYet)?;
        // Of a longer number the last 32 bits count.
        let length = length.iter().fold(0u32, |sum, &b| sum << 8 | u32::from(b));
        let end = start.checked_add(length as usize).ok_or(Absent::Never)?;
        match length {
            0 => Err(Absent::Never),
            _ => bytes.get(start..end).map(Sample::bin).ok_or(Absent::NotYet),
        }
    })
}

fn proto_http(env: &dyn Env) -> Fetched<'_> {
    request(env).map(|_| Sample::bool(true))
}

fn wait_end<'a>(_: &'a [Arg], env: &'a dyn Env, _: &mut Cursor) -> Fetched<'a> {
    match env.inspect_ended() {
        true => Ok(Sample::bool(true)),
        false => Err(Absent::NotYet),
    }
}

#[cfg(test)]
mod tests {
    use crate::place::Place;
    use crate::testing::{TestEnv, compile};
    use crate::value::Absent;

    const BYTES: &[u8] = b"\x00\x04\xaa\xbb\xcc\xdd\x01\x02xxxxxxxxxx";

    #[test]
    fn bytes_are_cut_out() {
        TestEnv::bytes(BYTES, true).check(&[
            ("req.len", Some("18")),
            ("req_len", Some("18")),
            ("req.payload(2,2)", Some("\u{aa}\u{bb}")),
            ("payload(7,3)", Some("\x02xx")),
            ("req.payload(8,0)", Some("xxxxxxxxxx")),
            ("req.payload(17,1)", Some("x")),
            ("req.payload(17,2)", None),
            ("req.payload(18,0)", Some("")),
            ("req.payload(19,0)", None),
            ("res.len", None),
        ]);
    }

    #[test]
    fn lengths_are_read_from_the_bytes() {
        TestEnv::bytes(BYTES, true).check(&[
            ("req.payload_lv(0,2)", Some("\u{aa}\u{bb}\u{cc}\u{dd}")),
            ("payload_lv(0,2)", Some("\u{aa}\u{bb}\u{cc}\u{dd}")),
            ("req.payload_lv(0,2,+1)", Some("\u{bb}\u{cc}\u{dd}\x01")),
            ("req.payload_lv(0,2,-1)", Some("\x04\u{aa}\u{bb}\u{cc}")),
            ("req.payload_lv(0,2,3)", Some("\u{bb}\u{cc}\u{dd}\x01")),
            ("req.payload_lv(0,2,0)", Some("\0\x04\u{aa}\u{bb}")),
            ("req.payload_lv(1,1,-2)", Some("\0\x04\u{aa}\u{bb}")),
            ("req.payload_lv(6,2)", None),
            ("req.payload_lv(100,2)", None),
            ("req.payload_lv(0,2,+200)", None),
            ("req.payload_lv(0,4)", None),
        ]);
        let wide = b"\0\0\0\0\0\0\0\0\x02abc";
        TestEnv::bytes(wide, true).check(&[
            ("req.payload_lv(0,9)", Some("ab")),
            // A length of nothing is no block.
            ("req.payload_lv(0,4)", None),
        ]);
    }

    #[test]
    fn missing_bytes_are_waited_for() {
        let env = TestEnv::bytes(BYTES, false);
        for fetch in [
            "req.payload(17,2)",
            "req.payload(100,1)",
            "req.payload_lv(6,2)",
            "req.payload_lv(100,2)",
        ] {
            assert_eq!(env.outcome(fetch), Err(Absent::NotYet), "{fetch}");
        }
        assert!(env.outcome("req.len").is_ok_and(|s| s.may_change));
        assert!(env.outcome("req.payload(1,0)").is_ok_and(|s| s.may_change));
        assert!(env.outcome("req.payload(1,1)").is_ok_and(|s| !s.may_change));
    }

    #[test]
    fn impossible_positions_are_refused() {
        for (expr, word) in [
            ("req.payload(-1,2)", "offset"),
            ("req.payload(1,-2)", "length"),
            ("req.payload_lv(0,0)", "1 at least"),
            ("req.payload_lv(0,2,-3)", "before the data"),
            ("req.payload_lv(0,2,x)", "number"),
            ("req.payload_lv(0,2,+1x)", "number"),
            ("req.payload(0)", "needs 2 arguments"),
        ] {
            let error = compile(expr, Place::FE_REQ_CONTENT).expect_err(expr);
            assert!(error.message.contains(word), "{expr}: {error}");
        }
    }

    #[test]
    fn http_is_recognised_once_it_is_complete() {
        TestEnv::request("GET / HTTP/1.1\r\n\r\n").check(&[("req.proto_http", Some("1"))]);
        let waiting = TestEnv::bytes("GET / HT", false);
        assert_eq!(waiting.outcome("req_proto_http"), Err(Absent::NotYet));
        let other = TestEnv::bytes("hello", true);
        assert_eq!(other.outcome("req.proto_http"), Err(Absent::Never));
    }

    #[test]
    fn the_end_of_the_inspection_is_waited_for() {
        let mut env = TestEnv::new();
        env.inspecting = true;
        assert_eq!(env.outcome("wait_end"), Err(Absent::NotYet));
        env.inspecting = false;
        env.check(&[("wait_end", Some("1"))]);
    }
}
