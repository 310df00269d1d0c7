//! `internal.*` (manual 7.3.7): a message as the blocks HAProxy keeps it in, for those who debug with these fetches. Sluice
//! keeps no such blocks; what is told is what HAProxy's would be for the same message and buffer.

use std::borrow::Cow;

use sluice_http::{Framing, Headers, Version};

use super::{arg_str, request, response};
use crate::args::Arg;
use crate::compile::ParseCtx;
use crate::conv::BadArg;
use crate::env::{Dir, Env, Gauge};
use crate::value::{Absent, Fetched, Sample, Value};

fetches! {
    "internal.strm.is_htx" () -> Bool, PROCESS, |_, env, _| Ok(Sample::bool(env.request().is_some() || env.response().is_some()))
        => "Whether an HTTP message passes by.";
    "internal.htx.data" () -> Sint, MESSAGE, |_, env, _| of_all(env, |m| m.data()) => "Bytes of the blocks of the message.";
    "internal.htx.used" () -> Sint, MESSAGE, |_, env, _| of_all(env, |m| m.used())
        => "Bytes of the blocks of the message, with what describes them.";
    "internal.htx.size" () -> Sint, MESSAGE, |_, env, _| of_all(env, |m| m.size) => "Bytes a message may take.";
    "internal.htx.free" () -> Sint, MESSAGE, |_, env, _| of_all(env, |m| m.size - m.used())
        => "Bytes left of those a message may take.";
    "internal.htx.free_data" () -> Sint, MESSAGE, |_, env, _| of_all(env, |m| m.size - m.used() - DESCRIPTION)
        => "Bytes another block may have.";
    "internal.htx.nbblks" () -> Sint, MESSAGE, |_, env, _| of_all(env, |m| m.blocks.len() as i64)
        => "How many blocks the message has.";
    "internal.htx.has_eom" () -> Bool, MESSAGE, |_, env, _| Ok(Sample::bool(Message::of(env)?.ends))
        => "Whether all of the message is there.";
    "internal.htx_blk.size" (Str) -> Sint, MESSAGE, |a, env, _| of_block(a, env, |b| Value::Sint(b.map_or(0, Block::size))), prepare prepare
        => "The bytes of a block: a number, `head`, `first` or `tail`.";
    "internal.htx_blk.type" (Str) -> Str, MESSAGE, |a, env, _| of_block(a, env, |b| text(b.map_or("HTX_BLK_UNUSED", Block::kind).as_bytes())), prepare prepare
        => "What a block is, by HAProxy's name for it.";
    "internal.htx_blk.data" (Str) -> Bin, MESSAGE, |a, env, _| of_block(a, env, |b| match b {
            Some(Block::Data(data)) => Value::Bin(Cow::Owned(data.to_vec())),
            _ => Value::Bin(Cow::Borrowed(b"")),
        }), prepare prepare
        => "The bytes of a block of the body.";
    "internal.htx_blk.hdrname" (Str) -> Str, MESSAGE, |a, env, _| of_block(a, env, |b| match b {
            Some(Block::Header(name, _)) => text(&name.to_ascii_lowercase()),
            _ => text(b""),
        }), prepare prepare
        => "The name of a block that is a header.";
    "internal.htx_blk.hdrval" (Str) -> Str, MESSAGE, |a, env, _| of_block(a, env, |b| match b {
            Some(Block::Header(_, value)) => text(value),
            _ => text(b""),
        }), prepare prepare
        => "The value of a block that is a header.";
    "internal.htx_blk.start_line" (Str) -> Str, MESSAGE, |a, env, _| of_block(a, env, |b| match b {
            Some(Block::StartLine(_, parts)) => text(&parts.join(&b' ')),
            _ => text(b""),
        }), prepare prepare
        => "The start line, if the block is one.";
}

/// What HAProxy keeps about a block beside its bytes.
const DESCRIPTION: i64 = 8;

/// What HAProxy keeps about a start line in its block.
const START_LINE: i64 = 20;

/// What HAProxy keeps about a message in its buffer.
const MESSAGE_HEAD: i64 = 48;

enum Block<'m> {
    StartLine(Dir, [Cow<'m, [u8]>; 3]),
    Header(&'m [u8], &'m [u8]),
    EndOfHeaders,
    Data(&'m [u8]),
    EndOfTrailers,
}

impl Block<'_> {
    fn size(&self) -> i64 {
        match self {
            Block::StartLine(_, parts) => {
                START_LINE + parts.iter().map(|part| part.len() as i64).sum::<i64>()
            }
            Block::Header(name, value) => (name.len() + value.len()) as i64,
            Block::EndOfHeaders | Block::EndOfTrailers => 1,
            Block::Data(data) => data.len() as i64,
        }
    }

    fn kind(&self) -> &'static str {
        match self {
            Block::StartLine(Dir::Request, _) => "HTX_BLK_REQ_SL",
            Block::StartLine(Dir::Response, _) => "HTX_BLK_RES_SL",
            Block::Header(..) => "HTX_BLK_HDR",
            Block::EndOfHeaders => "HTX_BLK_EOH",
            Block::Data(_) => "HTX_BLK_DATA",
            Block::EndOfTrailers => "HTX_BLK_EOT",
        }
    }
}

struct Message<'m> {
    blocks: Vec<Block<'m>>,
    /// The end is there.
    ends: bool,
    /// What it may take.
    size: i64,
}

impl<'m> Message<'m> {
    /// The message that passes by.
    fn of(env: &'m dyn Env) -> Result<Self, Absent> {
        let dir = env.direction();
        let (parts, headers, framing): ([Cow<'m, [u8]>; 3], &Headers, Framing) = match dir {
            Dir::Request => {
                let r = request(env)?;
                let parts = [r.method_str().into(), r.target().into(), version(r.version)];
                (parts, &r.headers, r.framing)
            }
            Dir::Response => {
                let r = response(env)?;
                let status = r.status.to_string().into_bytes().into();
                (
                    [version(r.version), status, r.reason().into()],
                    &r.headers,
                    r.framing,
                )
            }
        };
        let body = env.body(dir).unwrap_or_default();
        let ends = match framing {
            Framing::None | Framing::Length(0) => true,
            _ => body.is_final,
        };
        let mut blocks = vec![Block::StartLine(dir, parts)];
        blocks.extend(
            headers
                .iter()
                .map(|(name, value)| Block::Header(name, value)),
        );
        blocks.push(Block::EndOfHeaders);
        if !body.bytes.is_empty() {
            blocks.push(Block::Data(body.bytes));
        }
        if ends && framing == Framing::Chunked {
            blocks.push(Block::EndOfTrailers);
        }
        let size = env.gauge(Gauge::BufferSize).unwrap_or(0) - MESSAGE_HEAD;
        Ok(Message { blocks, ends, size })
    }

    fn data(&self) -> i64 {
        self.blocks.iter().map(Block::size).sum()
    }

    fn used(&self) -> i64 {
        self.data() + DESCRIPTION * self.blocks.len() as i64
    }
}

fn version(v: Version) -> Cow<'static, [u8]> {
    format!("HTTP/{}.{}", v.major, v.minor).into_bytes().into()
}

fn text(bytes: &[u8]) -> Value<'static> {
    Value::Str(Cow::Owned(bytes.to_vec()))
}

fn of_all(env: &dyn Env, what: fn(&Message<'_>) -> i64) -> Fetched<'static> {
    Ok(Sample::int(what(&Message::of(env)?)))
}

fn of_block(
    args: &[Arg],
    env: &dyn Env,
    what: fn(Option<&Block<'_>>) -> Value<'static>,
) -> Fetched<'static> {
    let message = Message::of(env)?;
    let wanted = std::str::from_utf8(arg_str(args, 0).unwrap_or_default()).unwrap_or_default();
    let block = match wanted {
        "head" | "first" => message.blocks.first(),
        "tail" => message.blocks.last(),
        number => number
            .parse()
            .ok()
            .and_then(|at: usize| message.blocks.get(at)),
    };
    Ok(Sample::new(what(block)))
}

fn prepare(args: &mut [Arg], _: &ParseCtx<'_>) -> Result<(), BadArg> {
    let wanted = arg_str(args, 0).unwrap_or_default();
    let number = !wanted.is_empty() && wanted.iter().all(u8::is_ascii_digit);
    match wanted {
        b"head" | b"tail" | b"first" => Ok(()),
        _ if number => Ok(()),
        _ => Err(BadArg::new(
            0,
            "a block is 'head', 'tail', 'first' or a number",
        )),
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::TestEnv;

    #[test]
    fn a_request_has_its_blocks() {
        let mut env =
            TestEnv::request("POST /p HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
        env.req_body = Some((b"abcdexyz".to_vec(), true));
        env.check(&[
            ("internal.strm.is_htx", Some("1")),
            ("internal.htx.data", Some("73")),
            ("internal.htx.used", Some("121")),
            ("internal.htx.nbblks", Some("6")),
            ("internal.htx.has_eom", Some("1")),
            ("internal.htx_blk.type(head)", Some("HTX_BLK_REQ_SL")),
            ("internal.htx_blk.type(3)", Some("HTX_BLK_EOH")),
            ("internal.htx_blk.type(tail)", Some("HTX_BLK_EOT")),
            ("internal.htx_blk.type(9)", Some("HTX_BLK_UNUSED")),
            ("internal.htx_blk.size(0)", Some("34")),
            ("internal.htx_blk.size(9)", Some("0")),
            (
                "internal.htx_blk.start_line(first)",
                Some("POST /p HTTP/1.1"),
            ),
            ("internal.htx_blk.hdrname(1)", Some("host")),
            ("internal.htx_blk.hdrval(1)", Some("a")),
            ("internal.htx_blk.hdrval(0)", Some("")),
            ("internal.htx_blk.data(4)", Some("abcdexyz")),
        ]);
    }

    #[test]
    fn a_response_has_its_blocks() {
        TestEnv::response("HTTP/1.1 203 Foo\r\nX: 1\r\nContent-Length: 0\r\n\r\n").check(&[
            ("internal.htx_blk.start_line(0)", Some("HTTP/1.1 203 Foo")),
            ("internal.htx_blk.type(0)", Some("HTX_BLK_RES_SL")),
            ("internal.htx.nbblks", Some("4")),
            ("internal.htx.has_eom", Some("1")),
        ]);
    }
}
