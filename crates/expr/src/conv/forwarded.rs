//! The Forwarded header (RFC 7239): whether it is valid, its parameters, and the two parts of a node, read and written.

use std::borrow::Cow;
use std::net::{Ipv4Addr, Ipv6Addr};

use sluice_http::is_token;
use smallvec::SmallVec;

use crate::args::Arg;
use crate::conv::BadArg;
use crate::conv::operand::{on_bytes, prepared, set_prepared, str_arg};
use crate::env::Env;
use crate::value::{Absent, Fetched, Sample, Value, parse_ipv4, parse_ipv6};

converters! {
    "rfc7239_is_valid" () Str -> Bool, |_, s, _| on_bytes(s, |s| Some(Value::Bool(read(&s, b"").is_some())))
        => "Whether a Forwarded header is valid: for, by, host and proto as the RFC wants them, none twice in an element.";
    "rfc7239_field" (Str) Str -> Str, field, prepare |args, _| prepare_field(args)
        => "A parameter (`for`, `by`, `host` or `proto`) of a Forwarded header without its quotes, out of the first element \
            that has it.";
    "rfc7239_n2nn" () Str -> Any, |_, s, _| on_bytes(s, |s| node(&s).map(|(name, _)| name.value()))
        => "The name of a node: an address, or the text `unknown` or `_name`.";
    "rfc7239_n2np" () Str -> Any, |_, s, _| on_bytes(s, |s| node(&s)?.1.map(Port::value))
        => "The port of a node: a number, or the text `_name`; nothing when it has none.";
    "rfc7239_nn" () Any -> Str, node_name
        => "A node name for a Forwarded header: IPv6 in brackets, `unknown` and `_name` as they are; nothing for other text.";
    "rfc7239_np" () Any -> Str, node_port
        => "A node port for a Forwarded header: a number up to 65535, or `_name` as it is; nothing for anything else.";
}

const PARAMETERS: [&[u8]; 4] = [b"for", b"by", b"host", b"proto"];

/// A parameter's name and its value without quotes.
type Pair<'h> = (&'h [u8], Cow<'h, [u8]>);

/// Reads a header to its end and gives the first value of the parameter wanted; `None` when anything in it is wrong.
fn read<'h>(header: &'h [u8], wanted: &[u8]) -> Option<Option<Cow<'h, [u8]>>> {
    let mut rest = header.trim_ascii();
    let mut names: SmallVec<[&[u8]; 8]> = SmallVec::new();
    let (mut found, mut says_something) = (None, false);
    while let Some(first) = rest.first() {
        if !matches!(first, b';' | b',') {
            let pair;
            (pair, rest) = read_pair(rest)?;
            if names.iter().any(|name| name.eq_ignore_ascii_case(pair.0))
                || !is_valid_parameter(&pair)
            {
                return None;
            }
            names.push(pair.0);
            says_something = true;
            if found.is_none() && pair.0.eq_ignore_ascii_case(wanted) {
                found = Some(pair.1);
            }
        }
        rest = rest.trim_ascii_start();
        match rest.split_first() {
            None => break,
            Some((b';', tail)) => rest = tail.trim_ascii_start(),
            Some((b',', tail)) => {
                names.clear();
                rest = tail.trim_ascii_start();
            }
            Some(_) => return None,
        }
    }
    // Empty elements are a list's right (RFC 9110 section 5.6.1); a header of nothing else says nothing.
    says_something.then_some(found)
}

/// `token=token` or `token="quoted"`, and what follows.
fn read_pair(text: &[u8]) -> Option<(Pair<'_>, &[u8])> {
    let equals = text.iter().position(|c| *c == b'=')?;
    let (name, value) = (&text[..equals], &text[equals + 1..]);
    if !is_token(name) {
        return None;
    }
    if let Some(quoted) = value.strip_prefix(b"\"") {
        let mut plain: Cow<'_, [u8]> = Cow::Borrowed(&[]);
        let mut at = 0;
        loop {
            match *quoted.get(at)? {
                b'"' => break,
                b'\\' => {
                    plain.to_mut().push(*quoted.get(at + 1)?);
                    at += 2;
                }
                c if c < b' ' && c != b'\t' || c == 0x7f => return None,
                c => {
                    match &mut plain {
                        Cow::Borrowed(_) => plain = Cow::Borrowed(&quoted[..at + 1]),
                        Cow::Owned(plain) => plain.push(c),
                    }
                    at += 1;
                }
            }
        }
        return Some(((name, plain), &quoted[at + 1..]));
    }
    let end = value
        .iter()
        .position(|c| !is_token(&[*c]))
        .unwrap_or(value.len());
    (end > 0).then_some(((name, Cow::Borrowed(&value[..end])), &value[end..]))
}

fn is_valid_parameter((name, value): &Pair<'_>) -> bool {
    match name.to_ascii_lowercase().as_slice() {
        b"proto" => matches!(value.to_ascii_lowercase().as_slice(), b"http" | b"https"),
        b"host" => {
            !value.is_empty()
                && value
                    .iter()
                    .all(|c| c.is_ascii_alphanumeric() || b"-._~%!$&'()*+,;=:[]".contains(c))
        }
        b"for" | b"by" => node(value).is_some(),
        // An extension (section 5.5).
        _ => true,
    }
}

/// `prepare`: which parameter.
fn prepare_field(args: &mut Vec<Arg>) -> Result<(), BadArg> {
    let wanted = str_arg(args, 0).to_ascii_lowercase();
    let known = PARAMETERS.into_iter().find(|p| *p == wanted.as_slice());
    let known =
        known.ok_or_else(|| BadArg::new(0, "the parameter is `for`, `by`, `host` or `proto`"))?;
    set_prepared(args, 0, known);
    Ok(())
}

fn field<'a>(args: &'a [Arg], sample: Sample<'a>, _: &'a dyn Env) -> Fetched<'a> {
    on_bytes(sample, |header| {
        let found = read(&header, prepared::<&'static [u8]>(args, 0)?)??;
        Some(Value::Str(Cow::Owned(found.into_owned())))
    })
}

/// A node's name (section 6).
enum Name<'n> {
    V4(Ipv4Addr),
    V6(Ipv6Addr),
    /// `unknown` or an obfuscated identifier.
    Text(&'n [u8]),
}

enum Port<'n> {
    Number(u16),
    Text(&'n [u8]),
}

impl Name<'_> {
    fn value(&self) -> Value<'static> {
        match self {
            Name::V4(a) => Value::Ipv4(*a),
            Name::V6(a) => Value::Ipv6(*a),
            Name::Text(text) => Value::Str(Cow::Owned(text.to_vec())),
        }
    }
}

impl Port<'_> {
    fn value(self) -> Value<'static> {
        match self {
            Port::Number(port) => Value::Sint(port.into()),
            Port::Text(text) => Value::Str(Cow::Owned(text.to_vec())),
        }
    }
}

/// `nodename [ ":" node-port ]`.
fn node(text: &[u8]) -> Option<(Name<'_>, Option<Port<'_>>)> {
    let (name, port) = match text.strip_prefix(b"[") {
        Some(v6) => {
            let close = v6.iter().position(|c| *c == b']')?;
            (Name::V6(parse_ipv6(&v6[..close])?), &v6[close + 1..])
        }
        None => {
            let end = text.iter().position(|c| *c == b':').unwrap_or(text.len());
            let name = match &text[..end] {
                name if name.eq_ignore_ascii_case(b"unknown") || is_obfuscated(name) => {
                    Name::Text(name)
                }
                name => Name::V4(parse_ipv4(name)?),
            };
            (name, &text[end..])
        }
    };
    let port = match port.strip_prefix(b":") {
        Some(port) => Some(parse_port(port)?),
        None if port.is_empty() => None,
        None => return None,
    };
    Some((name, port))
}

/// `_` and at least one letter, digit, `.`, `_` or `-`.
fn is_obfuscated(text: &[u8]) -> bool {
    matches!(text, [b'_', rest @ ..] if !rest.is_empty()
        && rest.iter().all(|c| c.is_ascii_alphanumeric() || b"._-".contains(c)))
}

fn parse_port(text: &[u8]) -> Option<Port<'_>> {
    if is_obfuscated(text) {
        return Some(Port::Text(text));
    }
    let digits = (1..=5).contains(&text.len()) && text.iter().all(u8::is_ascii_digit);
    let number = std::str::from_utf8(text)
        .ok()
        .filter(|_| digits)?
        .parse()
        .ok()?;
    Some(Port::Number(number))
}

fn node_name<'a>(_: &'a [Arg], sample: Sample<'a>, _: &'a dyn Env) -> Fetched<'a> {
    let text = match &sample.value {
        Value::Ipv4(a) => a.to_string(),
        Value::Ipv6(a) => format!("[{a}]"),
        Value::Str(s) | Value::Bin(s) => match (parse_ipv4(s), parse_ipv6(s)) {
            (Some(a), _) => a.to_string(),
            (_, Some(a)) => format!("[{a}]"),
            _ if s.as_ref() == b"unknown" || is_obfuscated(s) => return Ok(sample),
            _ => return Err(Absent::Never),
        },
        _ => return Err(Absent::Never),
    };
    let value = Value::Str(Cow::Owned(text.into_bytes()));
    Ok(Sample { value, ..sample })
}

fn node_port<'a>(_: &'a [Arg], sample: Sample<'a>, _: &'a dyn Env) -> Fetched<'a> {
    let text = match &sample.value {
        Value::Sint(port @ 0..=65_535) => port.to_string().into_bytes(),
        Value::Str(s) | Value::Bin(s) => match parse_port(s).ok_or(Absent::Never)? {
            Port::Number(port) => port.to_string().into_bytes(),
            Port::Text(text) => text.to_vec(),
        },
        _ => return Err(Absent::Never),
    };
    let value = Value::Str(Cow::Owned(text));
    Ok(Sample { value, ..sample })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::conv::testing::{World, check_header_new, check_new, check_refused};

    #[test]
    fn validity() {
        let cases: &[(&[u8], bool)] = &[
            (b"for=127.0.0.1;proto=http", true),
            (b"for=192.0.2.60;proto=http;by=203.0.113.43", true),
            (b"For=\"[2001:db8:cafe::17]:4711\"", true),
            (b"for=\"_gazonk\"", true),
            (b"for=unknown;host=example.com", true),
            (b"for=192.0.2.43, for=\"[2001:db8::1]\"", true),
            (b"for=_mdn;by=\"203.0.113.60:_port\"", true),
            (b"proto=https;host=\"haproxy.org:80\"", true),
            (b"for=192.0.2.1;secret=token", true),
            (b"for=192.0.2.1;", true),
            (b"proto=custom", false),
            (b"for=[2001:db8::1]", false),
            (b"for=\"2001:db8::1\"", false),
            (b"for=192.0.2.1:80", false),
            (b"for=\"192.0.2.1:99999\"", false),
            (b"for=192.0.2.256", false),
            (b"for=192.0.2.1;for=192.0.2.2", false),
            (b"for=\"_\"", false),
            (b"for=name", false),
            (b"for", false),
            (b"for=", false),
            (b"for=\"192.0.2.1", false),
            (b"for = 192.0.2.1", false),
            (b"host=\"\"", false),
            (b"host=\"a b\"", false),
            (b"", false),
            (b";", false),
        ];
        for (header, valid) in cases {
            let expect: &[u8] = if *valid { b"1" } else { b"0" };
            check_header_new(&[(header, "hdr,rfc7239_is_valid", Some(expect))]);
        }
    }

    #[test]
    fn fields() {
        check_header_new(&[
            (
                b"proto=https;host=\"haproxy.org:80\"",
                "hdr,rfc7239_field(host)",
                Some(b"haproxy.org:80"),
            ),
            (
                b"proto=https;for=\"127.0.0.1:9999\"",
                "hdr,rfc7239_field(for)",
                Some(b"127.0.0.1:9999"),
            ),
            (
                b"proto=https;for=\"127.0.0.1:9999\"",
                "hdr,rfc7239_field(by)",
                None,
            ),
            (b"PROTO=https", "hdr,rfc7239_field(Proto)", Some(b"https")),
            (
                b"host=a;for=\"_\\n\\ame\"",
                "hdr,rfc7239_field(for)",
                Some(b"_name"),
            ),
            (
                b"for=192.0.2.1, for=192.0.2.2;by=192.0.2.3",
                "hdr,rfc7239_field(by)",
                Some(b"192.0.2.3"),
            ),
            (
                b"for=192.0.2.1, for=192.0.2.2",
                "hdr,rfc7239_field(for)",
                Some(b"192.0.2.1"),
            ),
            (b"for=192.0.2.1;proto=x", "hdr,rfc7239_field(for)", None),
        ]);
        check_refused(&[("str(a),rfc7239_field(secret)", "parameter")]);
    }

    #[test]
    fn nodes_are_read() {
        check_new(&[
            ("str(127.0.0.1:9999),rfc7239_n2nn", Some("127.0.0.1")),
            (
                "str(127.0.0.1:9999),rfc7239_n2nn,ipmask(8)",
                Some("127.0.0.0"),
            ),
            ("str([2001:db8::1]:80),rfc7239_n2nn", Some("2001:db8::1")),
            ("str(_name:_port),rfc7239_n2nn", Some("_name")),
            ("str(unknown),rfc7239_n2nn", Some("unknown")),
            ("str(name),rfc7239_n2nn", None),
            ("str(127.0.0.1:9999),rfc7239_n2np,add(1)", Some("10000")),
            ("str(_name:_port),rfc7239_n2np", Some("_port")),
            ("str(127.0.0.1),rfc7239_n2np", None),
            ("str(127.0.0.1:),rfc7239_n2np", None),
            ("str(127.0.0.1:65536),rfc7239_n2np", None),
        ]);
    }

    #[test]
    fn nodes_are_written() {
        check_new(&[
            ("ipv4(192.0.2.1),rfc7239_nn", Some("192.0.2.1")),
            ("ipv6(2001:db8::1),rfc7239_nn", Some("[2001:db8::1]")),
            ("str(2001:db8::1),rfc7239_nn", Some("[2001:db8::1]")),
            ("str(unknown),rfc7239_nn", Some("unknown")),
            ("str(_x),rfc7239_nn", Some("_x")),
            ("str(x),rfc7239_nn", None),
            ("int(8080),rfc7239_np", Some("8080")),
            ("int(65536),rfc7239_np", None),
            ("str(_p),rfc7239_np", Some("_p")),
            ("str(80x),rfc7239_np", None),
        ]);
    }

    proptest! {
        #[test]
        fn any_text_may_be_read(text in "[a-z0-9_:;,=\"\\\\\\[\\] .]{0,40}") {
            let world = World::new(text.as_bytes());
            for chain in ["rfc7239_is_valid", "rfc7239_field(for)", "rfc7239_n2nn", "rfc7239_n2np"] {
                let _ = world.run(&format!("hdr,{chain}")).unwrap();
            }
        }
    }
}
