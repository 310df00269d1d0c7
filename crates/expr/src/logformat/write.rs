//! Writing a compiled format for one stream.

use super::structured::{self, Data, MAP_CLOSE, MAP_OPEN};
use super::tag::Tag;
use super::text;
use super::value::{self, DateForm, Field};
use super::{Cast, Inner, Item, What, date};
use crate::env::Env;
use crate::value::{Sample, Type, Value};

impl Inner {
    pub(super) fn write(&self, env: &dyn Env, out: &mut Vec<u8>) {
        if self.global.json || self.global.cbor {
            self.write_map(env, out);
        } else {
            self.write_text(env, out);
        }
    }

    fn write_text(&self, env: &dyn Env, out: &mut Vec<u8>) {
        // A line does not begin with a merged space.
        let mut after_space = true;
        for item in &self.items {
            match &item.what {
                What::Space => {
                    if !after_space {
                        out.push(b' ');
                    }
                    after_space = true;
                    continue;
                }
                What::Text { start, end } => {
                    let text = self.texts.get(*start as usize..*end as usize);
                    out.extend_from_slice(text.unwrap_or_default());
                }
                _ if item.flags.json || item.flags.cbor => write_data(item, env, out),
                What::Tag(tag) => match value::field(*tag, env) {
                    Field::Nothing => continue,
                    // the most usual ones, which no flag changes
                    Field::Number(n) => text::number(out, n),
                    Field::Name(s) if !(s.is_empty() || item.flags.quote || item.flags.escape) => {
                        out.extend_from_slice(s);
                    }
                    field => write_field(item, field, env, out),
                },
                What::Expr(expr) => match expr.eval(env) {
                    Ok(sample) => self.write_sample(item, sample, out),
                    Err(_) => self.write_no_sample(item, out),
                },
            }
            after_space = false;
        }
    }

    fn write_sample(&self, item: &Item, sample: Sample<'_>, out: &mut Vec<u8>) {
        if item.flags.bin
            && let Value::Bin(raw) = &sample.value
        {
            out.extend_from_slice(raw);
            return;
        }
        let is_http = self.purpose.encodes_http();
        let s = match &sample.value {
            Value::Bin(s) => text::until_nul(s),
            value => match value.bytes() {
                Some(s) => s,
                // Numbers and addresses have nothing to escape.
                None if is_http => return value.write_text(out),
                None => return quoted(item, out, |out| value.write_text(out)),
            },
        };
        if is_http {
            // Samples are never quoted there, whatever `+Q` says.
            text::http(out, s, item.flags.escape);
        } else if s.is_empty() {
            write_absent(item, out);
        } else {
            let s = text::until_nul(s);
            quoted(item, out, |out| text::plain(out, s, item.flags.escape));
        }
    }

    fn write_no_sample(&self, item: &Item, out: &mut Vec<u8>) {
        if !self.purpose.encodes_http() {
            write_absent(item, out);
        }
    }

    /// All named items as one JSON object or CBOR map.
    fn write_map(&self, env: &dyn Env, out: &mut Vec<u8>) {
        if self.global.json {
            out.push(b'{');
        } else {
            self.cbor_byte(out, MAP_OPEN);
        }
        let mut first = true;
        for item in &self.items {
            let Some(name) = &item.name else {
                continue;
            };
            if self.global.json {
                if !first {
                    out.extend_from_slice(b", ");
                }
                out.extend_from_slice(&name.json);
                with_data(item, env, |data| structured::json(out, data));
            } else {
                let mut pair = Vec::new();
                structured::cbor(&mut pair, Data::Text(name.text.as_bytes()));
                with_data(item, env, |data| structured::cbor(&mut pair, data));
                for byte in pair {
                    self.cbor_byte(out, byte);
                }
            }
            first = false;
        }
        if self.global.json {
            out.push(b'}');
        } else {
            self.cbor_byte(out, MAP_CLOSE);
        }
    }

    fn cbor_byte(&self, out: &mut Vec<u8>, byte: u8) {
        if self.global.bin {
            out.push(byte);
        } else {
            text::hex_byte(out, byte);
        }
    }
}

/// One item as JSON or CBOR within a line of text.
fn write_data(item: &Item, env: &dyn Env, out: &mut Vec<u8>) {
    with_data(item, env, |data| {
        if item.flags.json {
            return structured::json(out, data);
        }
        let mut bytes = Vec::new();
        structured::cbor(&mut bytes, data);
        for byte in bytes {
            text::hex_byte(out, byte);
        }
    });
}

fn quoted(item: &Item, out: &mut Vec<u8>, f: impl FnOnce(&mut Vec<u8>)) {
    if item.flags.quote {
        out.push(b'"');
    }
    f(out);
    if item.flags.quote {
        out.push(b'"');
    }
}

fn write_absent(item: &Item, out: &mut Vec<u8>) {
    if item.flags.quote {
        out.extend_from_slice(b"\"\"");
    } else if item.flags.mandatory {
        out.push(b'-');
    }
}

fn write_field(item: &Item, field: Field<'_>, env: &dyn Env, out: &mut Vec<u8>) {
    let flags = item.flags;
    match field {
        Field::Nothing => {}
        Field::Absent => write_absent(item, out),
        Field::Number(n) => text::number(out, n),
        Field::Plus(n) => {
            out.push(b'+');
            text::number(out, n);
        }
        Field::Counter(n, width) if flags.hex => text::hex_number(out, n as u64, width),
        Field::Counter(n, _) => text::number(out, n),
        Field::Ms(n) if flags.hex => text::hex_number(out, n as u64, 2),
        Field::Ms(n) => {
            let digit = |n: i64| b'0' + (n % 10) as u8;
            out.extend_from_slice(&[digit(n / 100), digit(n / 10), digit(n)]);
        }
        Field::Text(b"") | Field::Name(b"") => write_absent(item, out),
        Field::Name(s) => quoted(item, out, |out| text::plain(out, s, flags.escape)),
        Field::Text(s) => {
            let s = text::until_nul(s);
            quoted(item, out, |out| text::plain(out, s, flags.escape));
        }
        Field::Encoded(s, map) => quoted(item, out, |out| text::mapped(out, s, map, flags.escape)),
        Field::Applet(name) => quoted(item, out, |out| applet(out, name)),
        Field::Ip(ip) if flags.hex => match ip {
            std::net::IpAddr::V4(a) => a.octets().iter().for_each(|b| text::hex_byte(out, *b)),
            std::net::IpAddr::V6(a) => a.octets().iter().for_each(|b| text::hex_byte(out, *b)),
        },
        Field::Ip(ip) => quoted(item, out, |out| write_ip(out, ip)),
        Field::Port(port) if flags.hex => text::hex_number(out, port.into(), 4),
        Field::Port(port) => text::number(out, port.into()),
        Field::Date(form, us) => write_date(out, form, us, env),
        Field::Flags(flags, n) => out.extend_from_slice(&flags[..n.min(4)]),
        Field::Transport(name, tls) => quoted(item, out, |out| transport(out, name, tls)),
        Field::Braces(list) => quoted(item, out, |out| {
            braces(out, list, |out, s| {
                text::mapped(out, s, text::Map::Header, flags.escape);
            });
        }),
        Field::List(list) => {
            for (i, value) in list.iter().enumerate() {
                if i > 0 {
                    out.push(b' ');
                }
                match value {
                    Some(s) => quoted(item, out, |out| {
                        text::mapped(out, s, text::Map::Header, flags.escape);
                    }),
                    // Also with `-M`, so that the fields can be counted.
                    None if !flags.quote => out.push(b'-'),
                    None => write_absent(item, out),
                }
            }
        }
    }
}

fn applet(out: &mut Vec<u8>, name: &[u8]) {
    out.push(b'<');
    out.extend_from_slice(name);
    out.push(b'>');
}

fn transport(out: &mut Vec<u8>, name: &[u8], tls: bool) {
    out.extend_from_slice(name);
    if tls {
        out.push(b'~');
    }
}

fn braces(out: &mut Vec<u8>, list: &[Option<Vec<u8>>], write: impl Fn(&mut Vec<u8>, &[u8])) {
    out.push(b'{');
    for (i, value) in list.iter().enumerate() {
        if i > 0 {
            out.push(b'|');
        }
        write(out, value.as_deref().unwrap_or_default());
    }
    out.push(b'}');
}

fn write_ip(out: &mut Vec<u8>, ip: std::net::IpAddr) {
    match ip {
        std::net::IpAddr::V4(a) => crate::text::write_ipv4(out, a),
        std::net::IpAddr::V6(a) => crate::text::write_ipv6(out, a),
    }
}

fn write_date(out: &mut Vec<u8>, form: DateForm, us: i64, env: &dyn Env) {
    let local = || env.local_zone(us.div_euclid(1_000_000)).0;
    match form {
        DateForm::Log => date::with_ms(out, us, local()),
        DateForm::Gmt => date::with_zone(out, us, 0),
        DateForm::Local => date::with_zone(out, us, local()),
    }
}

/// Gives an item's value, of the type that was asked for, to `f`.
fn with_data(item: &Item, env: &dyn Env, f: impl FnOnce(Data<'_>)) {
    match &item.what {
        What::Tag(tag) => with_tag_data(*tag, item.cast, env, f),
        What::Expr(expr) => match expr.eval(env) {
            Ok(sample) => with_sample_data(item, sample.value, f),
            Err(_) => f(Data::Null),
        },
        What::Text { .. } | What::Space => f(Data::Null),
    }
}

fn with_sample_data(item: &Item, value: Value<'_>, f: impl FnOnce(Data<'_>)) {
    let cast = match item.cast {
        Some(Cast::Str) => value.cast(Type::Str),
        Some(Cast::Sint) => value.cast(Type::Sint),
        Some(Cast::Bool) => value.cast(Type::Bool),
        None => Some(value),
    };
    let Some(value) = cast else {
        return f(Data::Null);
    };
    match &value {
        Value::Bool(b) => f(Data::Bool(*b)),
        Value::Sint(n) => f(Data::Number(*n)),
        Value::Str(s) => f(Data::Text(s)),
        Value::Bin(s) if item.flags.bin => f(Data::Bytes(s)),
        other => {
            let mut text = Vec::new();
            other.write_text(&mut text);
            f(Data::Text(&text));
        }
    }
}

fn with_tag_data(tag: Tag, cast: Option<Cast>, env: &dyn Env, f: impl FnOnce(Data<'_>)) {
    let field = value::field(tag, env);
    let number = match field {
        Field::Number(n) | Field::Plus(n) | Field::Counter(n, _) | Field::Ms(n) => Some(n),
        Field::Port(p) => Some(p.into()),
        _ => None,
    };
    if let Some(n) = number {
        return match cast {
            None | Some(Cast::Sint) => f(Data::Number(n)),
            Some(Cast::Bool) => f(Data::Bool(n != 0)),
            Some(Cast::Str) => {
                let mut text = Vec::new();
                text::number(&mut text, n);
                f(Data::Text(&text));
            }
        };
    }
    let mut scratch = Vec::new();
    let text: &[u8] = match field {
        Field::Nothing | Field::Absent => return f(Data::Null),
        Field::List(list) if cast.is_none() => return f(Data::List(list)),
        Field::Text(s) | Field::Name(s) | Field::Encoded(s, _) => s,
        Field::Applet(name) => {
            applet(&mut scratch, name);
            &scratch
        }
        Field::Ip(ip) => {
            write_ip(&mut scratch, ip);
            &scratch
        }
        Field::Date(form, us) => {
            write_date(&mut scratch, form, us, env);
            &scratch
        }
        Field::Flags(flags, n) => {
            scratch.extend_from_slice(&flags[..n.min(4)]);
            &scratch
        }
        Field::Transport(name, tls) => {
            transport(&mut scratch, name, tls);
            &scratch
        }
        Field::Braces(list) | Field::List(list) => {
            braces(&mut scratch, list, |out, s| out.extend_from_slice(s));
            &scratch
        }
        Field::Number(_) | Field::Plus(_) | Field::Counter(..) | Field::Ms(_) | Field::Port(_) => {
            return f(Data::Null);
        }
    };
    match cast {
        None | Some(Cast::Str) => f(Data::Text(text)),
        Some(Cast::Sint) => match crate::value::leading_int(text) {
            Some(n) => f(Data::Number(n)),
            None => f(Data::Null),
        },
        Some(Cast::Bool) => f(Data::Bool(
            crate::value::leading_int(text).is_some_and(|n| n != 0),
        )),
    }
}
