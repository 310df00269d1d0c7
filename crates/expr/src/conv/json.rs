//! `json`: escapes a string for use inside a JSON string, in ASCII, with HAProxy's choice of decoders for the input.

use std::borrow::Cow;

use crate::args::Arg;
use crate::compile::ParseCtx;
use crate::conv::BadArg;
use crate::conv::operand::{on_bytes, prepared, set_prepared, str_arg};
use crate::value::Value;

converters! {
    "json" (Str) Str -> Str,
        |args, s, _| on_bytes(s, |s| {
            let out = escape(&s, *prepared::<Decoder>(args, 0)?)?;
            Some(Value::Str(Cow::Owned(out)))
        }),
        prepare prepare_decoder
        => "Escapes for a JSON string. The argument says how the input is read: `ascii` (the default, byte by byte), `utf8` \
            (nothing on any error), `utf8s` (drops what is wrong), `utf8p` (takes overlong forms), `utf8ps` (both).";
}

/// How the input is decoded.
#[derive(Debug, Clone, Copy)]
struct Decoder {
    utf8: bool,
    /// Overlong forms are taken for what they mean.
    permissive: bool,
    /// Errors are dropped instead of ending in no value.
    silent: bool,
}

fn prepare_decoder(args: &mut Vec<Arg>, _: &ParseCtx<'_>) -> Result<(), BadArg> {
    let (utf8, permissive, silent) = match str_arg(args, 0) {
        b"" | b"ascii" => (false, false, false),
        b"utf8" => (true, false, false),
        b"utf8s" => (true, false, true),
        b"utf8p" => (true, true, false),
        b"utf8ps" => (true, true, true),
        _ => {
            return Err(BadArg::new(
                0,
                "the input is one of `ascii`, `utf8`, `utf8s`, `utf8p` and `utf8ps`",
            ));
        }
    };
    set_prepared(
        args,
        0,
        Decoder {
            utf8,
            permissive,
            silent,
        },
    );
    Ok(())
}

/// One step of decoding.
enum Step {
    Char(u32, usize),
    Overlong(u32, usize),
    Bad(usize),
}

/// Reads one character in the original UTF-8 (RFC 2279: up to six bytes), checking continuation bytes and ranges.
fn next_utf8(s: &[u8]) -> Step {
    let first = s.first().copied().unwrap_or_default();
    let (len, least, bits) = match first {
        0x00..=0x7f => return Step::Char(u32::from(first), 1),
        0xc0..=0xdf => (2, 0x80, first & 0x1f),
        0xe0..=0xef => (3, 0x800, first & 0x0f),
        0xf0..=0xf7 => (4, 0x1_0000, first & 0x07),
        0xf8..=0xfb => (5, 0x20_0000, first & 0x03),
        0xfc..=0xfd => (6, 0x400_0000, first & 0x01),
        _ => return Step::Bad(1),
    };
    let mut code = u32::from(bits);
    for at in 1..len {
        match s.get(at) {
            Some(c) if c & 0xc0 == 0x80 => code = code << 6 | u32::from(c & 0x3f),
            _ => return Step::Bad(at),
        }
    }
    match code {
        // Surrogates, the two that are no characters, and what four hexadecimal digits cannot say.
        0xd800..=0xdfff | 0xfffe.. => Step::Bad(len),
        code if code < least => Step::Overlong(code, len),
        code => Step::Char(code, len),
    }
}

fn escape(s: &[u8], decoder: Decoder) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(s.len() + s.len() / 8);
    let mut rest = s;
    while let Some(first) = rest.first() {
        let step = if decoder.utf8 {
            next_utf8(rest)
        } else {
            Step::Char(u32::from(*first), 1)
        };
        let used = match step {
            Step::Char(code, used) => {
                push_escaped(&mut out, code);
                used
            }
            Step::Overlong(code, used) if decoder.permissive => {
                push_escaped(&mut out, code);
                used
            }
            Step::Overlong(_, used) | Step::Bad(used) if decoder.silent => used,
            Step::Overlong(..) | Step::Bad(_) => return None,
        };
        rest = &rest[used..];
    }
    Some(out)
}

fn push_escaped(out: &mut Vec<u8>, code: u32) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let short = match code {
        0x22 => b'"',
        0x5c => b'\\',
        0x2f => b'/',
        0x08 => b'b',
        0x0c => b'f',
        0x0a => b'n',
        0x0d => b'r',
        0x09 => b't',
        0x20..=0x7e => return out.push(code as u8),
        _ => {
            out.extend_from_slice(b"\\u");
            out.extend([12, 8, 4, 0].map(|shift| DIGITS[(code >> shift & 15) as usize]));
            return;
        }
    };
    out.extend([b'\\', short]);
}

#[cfg(test)]
mod tests {
    use crate::conv::testing::{check_all, check_header, check_refused};

    #[test]
    fn constants() {
        check_all(&[
            ("str(abc),json", Some("abc")),
            ("str(abc),json()", Some("abc")),
            ("str(),json", Some("")),
            ("str(a%0a%0db%00c),url_dec,json", Some("a\\n\\rb\\u0000c")),
            (
                "str(a%0a%0db%00c),url_dec,json(utf8)",
                Some("a\\n\\rb\\u0000c"),
            ),
        ]);
        check_refused(&[("str(abc),json(latin1)", "utf8ps")]);
    }

    #[test]
    fn decoders() {
        check_header(&[
            (b"a\"b\\c/d", "hdr,json(ascii)", Some(b"a\\\"b\\\\c\\/d")),
            (b"a\"b\\c/d", "hdr,json(utf8)", Some(b"a\\\"b\\\\c\\/d")),
            (b"a\"b\\c/d", "hdr,json(utf8s)", Some(b"a\\\"b\\\\c\\/d")),
            (b"a\"b\\c/d", "hdr,json(utf8p)", Some(b"a\\\"b\\\\c\\/d")),
            (b"a\"b\\c/d", "hdr,json(utf8ps)", Some(b"a\\\"b\\\\c\\/d")),
            (b"\x01\x7f", "hdr,json(ascii)", Some(b"\\u0001\\u007f")),
            (b"\x01\x7f", "hdr,json(utf8)", Some(b"\\u0001\\u007f")),
            (b"\x01\x7f", "hdr,json(utf8s)", Some(b"\\u0001\\u007f")),
            (b"\x01\x7f", "hdr,json(utf8p)", Some(b"\\u0001\\u007f")),
            (b"\x01\x7f", "hdr,json(utf8ps)", Some(b"\\u0001\\u007f")),
            (b"\xc3\xa9", "hdr,json(ascii)", Some(b"\\u00c3\\u00a9")),
            (b"\xc3\xa9", "hdr,json(utf8)", Some(b"\\u00e9")),
            (b"\xc3\xa9", "hdr,json(utf8s)", Some(b"\\u00e9")),
            (b"\xc3\xa9", "hdr,json(utf8p)", Some(b"\\u00e9")),
            (b"\xc3\xa9", "hdr,json(utf8ps)", Some(b"\\u00e9")),
            (
                b"\xe2\x82\xac",
                "hdr,json(ascii)",
                Some(b"\\u00e2\\u0082\\u00ac"),
            ),
            (b"\xe2\x82\xac", "hdr,json(utf8)", Some(b"\\u20ac")),
            (b"\xe2\x82\xac", "hdr,json(utf8s)", Some(b"\\u20ac")),
            (b"\xe2\x82\xac", "hdr,json(utf8p)", Some(b"\\u20ac")),
            (b"\xe2\x82\xac", "hdr,json(utf8ps)", Some(b"\\u20ac")),
            (
                b"\xf0\x9f\x98\x80",
                "hdr,json(ascii)",
                Some(b"\\u00f0\\u009f\\u0098\\u0080"),
            ),
            (b"\xf0\x9f\x98\x80", "hdr,json(utf8)", None),
            (b"\xf0\x9f\x98\x80", "hdr,json(utf8s)", Some(b"")),
            (b"\xf0\x9f\x98\x80", "hdr,json(utf8p)", None),
            (b"\xf0\x9f\x98\x80", "hdr,json(utf8ps)", Some(b"")),
            (b"\xff", "hdr,json(ascii)", Some(b"\\u00ff")),
            (b"\xff", "hdr,json(utf8)", None),
            (b"\xff", "hdr,json(utf8s)", Some(b"")),
            (b"\xff", "hdr,json(utf8p)", None),
            (b"\xff", "hdr,json(utf8ps)", Some(b"")),
            (b"a\xc3", "hdr,json(ascii)", Some(b"a\\u00c3")),
            (b"a\xc3", "hdr,json(utf8)", None),
            (b"a\xc3", "hdr,json(utf8s)", Some(b"a")),
            (b"a\xc3", "hdr,json(utf8p)", None),
            (b"a\xc3", "hdr,json(utf8ps)", Some(b"a")),
            (b"\xc3(", "hdr,json(ascii)", Some(b"\\u00c3(")),
            (b"\xc3(", "hdr,json(utf8)", None),
            (b"\xc3(", "hdr,json(utf8s)", Some(b"(")),
            (b"\xc3(", "hdr,json(utf8p)", None),
            (b"\xc3(", "hdr,json(utf8ps)", Some(b"(")),
            (b"\xc0\xaf", "hdr,json(ascii)", Some(b"\\u00c0\\u00af")),
            (b"\xc0\xaf", "hdr,json(utf8)", None),
            (b"\xc0\xaf", "hdr,json(utf8s)", Some(b"")),
            (b"\xc0\xaf", "hdr,json(utf8p)", Some(b"\\/")),
            (b"\xc0\xaf", "hdr,json(utf8ps)", Some(b"\\/")),
            (
                b"\xe0\x80\xaf",
                "hdr,json(ascii)",
                Some(b"\\u00e0\\u0080\\u00af"),
            ),
            (b"\xe0\x80\xaf", "hdr,json(utf8)", None),
            (b"\xe0\x80\xaf", "hdr,json(utf8s)", Some(b"")),
            (b"\xe0\x80\xaf", "hdr,json(utf8p)", Some(b"\\/")),
            (b"\xe0\x80\xaf", "hdr,json(utf8ps)", Some(b"\\/")),
            (
                b"\xed\xa0\x80",
                "hdr,json(ascii)",
                Some(b"\\u00ed\\u00a0\\u0080"),
            ),
            (b"\xed\xa0\x80", "hdr,json(utf8)", None),
            (b"\xed\xa0\x80", "hdr,json(utf8s)", Some(b"")),
            (b"\xed\xa0\x80", "hdr,json(utf8p)", None),
            (b"\xed\xa0\x80", "hdr,json(utf8ps)", Some(b"")),
            (
                b"\xef\xbf\xbe",
                "hdr,json(ascii)",
                Some(b"\\u00ef\\u00bf\\u00be"),
            ),
            (b"\xef\xbf\xbe", "hdr,json(utf8)", None),
            (b"\xef\xbf\xbe", "hdr,json(utf8s)", Some(b"")),
            (b"\xef\xbf\xbe", "hdr,json(utf8p)", None),
            (b"\xef\xbf\xbe", "hdr,json(utf8ps)", Some(b"")),
            (b"\x80", "hdr,json(ascii)", Some(b"\\u0080")),
            (b"\x80", "hdr,json(utf8)", None),
            (b"\x80", "hdr,json(utf8s)", Some(b"")),
            (b"\x80", "hdr,json(utf8p)", None),
            (b"\x80", "hdr,json(utf8ps)", Some(b"")),
            (b"a\x80b", "hdr,json(ascii)", Some(b"a\\u0080b")),
            (b"a\x80b", "hdr,json(utf8)", None),
            (b"a\x80b", "hdr,json(utf8s)", Some(b"ab")),
            (b"a\x80b", "hdr,json(utf8p)", None),
            (b"a\x80b", "hdr,json(utf8ps)", Some(b"ab")),
            (b"\xe2\x82x", "hdr,json(ascii)", Some(b"\\u00e2\\u0082x")),
            (b"\xe2\x82x", "hdr,json(utf8)", None),
            (b"\xe2\x82x", "hdr,json(utf8s)", Some(b"x")),
            (b"\xe2\x82x", "hdr,json(utf8p)", None),
            (b"\xe2\x82x", "hdr,json(utf8ps)", Some(b"x")),
            (
                b"\xf8\x88\x80\x80\x80",
                "hdr,json(ascii)",
                Some(b"\\u00f8\\u0088\\u0080\\u0080\\u0080"),
            ),
            (b"\xf8\x88\x80\x80\x80", "hdr,json(utf8)", None),
            (b"\xf8\x88\x80\x80\x80", "hdr,json(utf8s)", Some(b"")),
            (b"\xf8\x88\x80\x80\x80", "hdr,json(utf8p)", None),
            (b"\xf8\x88\x80\x80\x80", "hdr,json(utf8ps)", Some(b"")),
            (
                b"\xf4\x90\x80\x80",
                "hdr,json(ascii)",
                Some(b"\\u00f4\\u0090\\u0080\\u0080"),
            ),
            (b"\xf4\x90\x80\x80", "hdr,json(utf8)", None),
            (b"\xf4\x90\x80\x80", "hdr,json(utf8s)", Some(b"")),
            (b"\xf4\x90\x80\x80", "hdr,json(utf8p)", None),
            (b"\xf4\x90\x80\x80", "hdr,json(utf8ps)", Some(b"")),
            (b"\xc1\x81", "hdr,json(ascii)", Some(b"\\u00c1\\u0081")),
            (b"\xc1\x81", "hdr,json(utf8)", None),
            (b"\xc1\x81", "hdr,json(utf8s)", Some(b"")),
            (b"\xc1\x81", "hdr,json(utf8p)", Some(b"A")),
            (b"\xc1\x81", "hdr,json(utf8ps)", Some(b"A")),
            (
                b"\xef\xbf\xbf",
                "hdr,json(ascii)",
                Some(b"\\u00ef\\u00bf\\u00bf"),
            ),
            (b"\xef\xbf\xbf", "hdr,json(utf8)", None),
            (b"\xef\xbf\xbf", "hdr,json(utf8s)", Some(b"")),
            (b"\xef\xbf\xbf", "hdr,json(utf8p)", None),
            (b"\xef\xbf\xbf", "hdr,json(utf8ps)", Some(b"")),
            (b"\xc2\x80", "hdr,json(ascii)", Some(b"\\u00c2\\u0080")),
            (b"\xc2\x80", "hdr,json(utf8)", Some(b"\\u0080")),
            (b"\xc2\x80", "hdr,json(utf8s)", Some(b"\\u0080")),
            (b"\xc2\x80", "hdr,json(utf8p)", Some(b"\\u0080")),
            (b"\xc2\x80", "hdr,json(utf8ps)", Some(b"\\u0080")),
            (
                b"\xef\xb7\x90",
                "hdr,json(ascii)",
                Some(b"\\u00ef\\u00b7\\u0090"),
            ),
            (b"\xef\xb7\x90", "hdr,json(utf8)", Some(b"\\ufdd0")),
            (b"\xef\xb7\x90", "hdr,json(utf8s)", Some(b"\\ufdd0")),
            (b"\xef\xb7\x90", "hdr,json(utf8p)", Some(b"\\ufdd0")),
            (b"\xef\xb7\x90", "hdr,json(utf8ps)", Some(b"\\ufdd0")),
            (
                b"\xef\xbb\xbf",
                "hdr,json(ascii)",
                Some(b"\\u00ef\\u00bb\\u00bf"),
            ),
            (b"\xef\xbb\xbf", "hdr,json(utf8)", Some(b"\\ufeff")),
            (b"\xef\xbb\xbf", "hdr,json(utf8s)", Some(b"\\ufeff")),
            (b"\xef\xbb\xbf", "hdr,json(utf8p)", Some(b"\\ufeff")),
            (b"\xef\xbb\xbf", "hdr,json(utf8ps)", Some(b"\\ufeff")),
            (b"<>&'", "hdr,json(ascii)", Some(b"<>&'")),
            (b"<>&'", "hdr,json(utf8)", Some(b"<>&'")),
            (b"<>&'", "hdr,json(utf8s)", Some(b"<>&'")),
            (b"<>&'", "hdr,json(utf8p)", Some(b"<>&'")),
            (b"<>&'", "hdr,json(utf8ps)", Some(b"<>&'")),
            (
                b"a\x1fb\x0bc",
                "hdr,json(ascii)",
                Some(b"a\\u001fb\\u000bc"),
            ),
            (b"a\x1fb\x0bc", "hdr,json(utf8)", Some(b"a\\u001fb\\u000bc")),
            (
                b"a\x1fb\x0bc",
                "hdr,json(utf8s)",
                Some(b"a\\u001fb\\u000bc"),
            ),
            (
                b"a\x1fb\x0bc",
                "hdr,json(utf8p)",
                Some(b"a\\u001fb\\u000bc"),
            ),
            (
                b"a\x1fb\x0bc",
                "hdr,json(utf8ps)",
                Some(b"a\\u001fb\\u000bc"),
            ),
            (
                b"a\tb\x08c\x0cd\x0be",
                "hdr,json",
                Some(b"a\\tb\\bc\\fd\\u000be"),
            ),
            (
                b"a\xfc\x80\x80\x80\x80\xafb",
                "hdr,json(utf8p)",
                Some(b"a\\/b"),
            ),
            (b"a\xfe\x80\x80\xafb", "hdr,json(utf8p)", None),
            (b"a\xf0\x8d\xa0\x80", "hdr,json(utf8p)", None),
            (b"a\xc0\x80b", "hdr,json(utf8ps)", Some(b"a\\u0000b")),
        ]);
    }
}
