//! MQTT 3.1, 3.1.1 and 5.0: the first packet of either side, CONNECT and CONNACK (OASIS MQTT 5.0 sections 3.1 and 3.2).

use std::borrow::Cow;

use crate::args::Arg;
use crate::compile::ParseCtx;
use crate::conv::BadArg;
use crate::conv::operand::{on_bytes, prepared, set_prepared, str_arg};
use crate::env::Env;
use crate::value::{Fetched, Sample, Value};

converters! {
    "mqtt_is_valid" () Bin -> Bool, |_, s, _| on_bytes(s, |s| is_valid(&s).map(Value::Bool))
        => "Whether the bytes begin with a valid CONNECT or CONNACK packet; nothing when more are needed to tell.";
    "mqtt_field_value" (Str, Str) Bin -> Str, mqtt_field_value, prepare prepare_field
        => "A field of a `connect` or `connack` packet: a name like `username`, or the number of an MQTT 5.0 property.";
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Connect,
    Connack,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    Flags,
    ProtocolName,
    ProtocolVersion,
    ReasonCode,
    Keepalive,
    ClientIdentifier,
    WillTopic,
    WillPayload,
    Username,
    Password,
    Property(u8),
}

/// Fields with names, and where they are.
const NAMES: &[(&str, Kind, Field)] = &[
    ("flags", Kind::Connect, Field::Flags),
    ("protocol_name", Kind::Connect, Field::ProtocolName),
    ("protocol_version", Kind::Connect, Field::ProtocolVersion),
    ("client_identifier", Kind::Connect, Field::ClientIdentifier),
    ("will_topic", Kind::Connect, Field::WillTopic),
    ("will_payload", Kind::Connect, Field::WillPayload),
    ("username", Kind::Connect, Field::Username),
    ("password", Kind::Connect, Field::Password),
    ("keepalive", Kind::Connect, Field::Keepalive),
    ("flags", Kind::Connack, Field::Flags),
    ("protocol_version", Kind::Connack, Field::ProtocolVersion),
    ("reason_code", Kind::Connack, Field::ReasonCode),
];

/// The type of a property's value, with the values it may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Content {
    Flag,
    U16,
    U16NotZero,
    U32,
    U32NotZero,
    Text,
    TextNotEmpty,
    Pair,
}

/// Where a property may stand.
const IN_CONNECT: u8 = 1;
const IN_WILL: u8 = 2;
const IN_CONNACK: u8 = 4;

const USER_PROPERTY: u8 = 38;
const AUTHENTICATION_METHOD: u8 = 21;
const AUTHENTICATION_DATA: u8 = 22;

/// Properties by number.
const PROPERTIES: &[(u8, u8, Content)] = &[
    (1, IN_WILL, Content::Flag),
    (2, IN_WILL, Content::U32),
    (3, IN_WILL, Content::Text),
    (8, IN_WILL, Content::Text),
    (9, IN_WILL, Content::Text),
    (17, IN_CONNECT | IN_CONNACK, Content::U32),
    (18, IN_CONNACK, Content::TextNotEmpty),
    (19, IN_CONNACK, Content::U16),
    (21, IN_CONNECT | IN_CONNACK, Content::Text),
    (22, IN_CONNECT | IN_CONNACK, Content::Text),
    (23, IN_CONNECT, Content::Flag),
    (24, IN_WILL, Content::U32),
    (25, IN_CONNECT, Content::Flag),
    (26, IN_CONNACK, Content::Text),
    (28, IN_CONNACK, Content::Text),
    (31, IN_CONNACK, Content::Text),
    (33, IN_CONNECT | IN_CONNACK, Content::U16NotZero),
    (34, IN_CONNECT | IN_CONNACK, Content::U16),
    (36, IN_CONNACK, Content::Flag),
    (37, IN_CONNACK, Content::Flag),
    (
        USER_PROPERTY,
        IN_CONNECT | IN_WILL | IN_CONNACK,
        Content::Pair,
    ),
    (39, IN_CONNECT | IN_CONNACK, Content::U32NotZero),
    (40, IN_CONNACK, Content::Flag),
    (41, IN_CONNACK, Content::Flag),
    (42, IN_CONNACK, Content::Flag),
];

/// What is wanted out of which packet.
struct Wanted {
    kind: Kind,
    field: Field,
}

fn prepare_field(args: &mut Vec<Arg>, _: &ParseCtx<'_>) -> Result<(), BadArg> {
    let text = |i| String::from_utf8_lossy(str_arg(args, i)).to_ascii_lowercase();
    let (kind, name) = (text(0), text(1));
    let kind = match kind.as_str() {
        "connect" | "1" => Kind::Connect,
        "connack" | "2" => Kind::Connack,
        _ => {
            return Err(BadArg::new(
                0,
                format!("no field of '{kind}' can be read; there are `connect` and `connack`"),
            ));
        }
    };
    let named = NAMES
        .iter()
        .find(|(n, k, _)| *n == name && *k == kind)
        .map(|(.., field)| *field);
    let places = match kind {
        Kind::Connect => IN_CONNECT | IN_WILL,
        Kind::Connack => IN_CONNACK,
    };
    let numbered = || {
        let number: u8 = name.parse().ok()?;
        PROPERTIES
            .iter()
            .find(|(n, at, _)| *n == number && at & places != 0)
            .map(|_| Field::Property(number))
    };
    let field = named
        .or_else(numbered)
        .ok_or_else(|| BadArg::new(1, format!("'{name}' is no field of this packet")))?;
    set_prepared(args, 0, Wanted { kind, field });
    Ok(())
}

fn mqtt_field_value<'a>(args: &'a [Arg], sample: Sample<'a>, _: &'a dyn Env) -> Fetched<'a> {
    on_bytes(sample, |s| {
        let wanted = prepared::<Wanted>(args, 0)?;
        let mut found = None;
        let verdict = read_packet(&s, |kind, field, value| {
            if kind == wanted.kind && field == wanted.field {
                found = Some(match value {
                    Found::Number(n) => n.to_string().into_bytes(),
                    Found::Text(text) => text.to_vec(),
                });
            }
        });
        let text = found.filter(|text| verdict == Verdict::Valid && !text.is_empty())?;
        Some(Value::Str(Cow::Owned(text)))
    })
}

fn is_valid(bytes: &[u8]) -> Option<bool> {
    match read_packet(bytes, |_, _, _| {}) {
        Verdict::Valid => Some(true),
        Verdict::Invalid => Some(false),
        Verdict::Unknown => None,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Valid,
    Invalid,
    /// More bytes are needed; or a property in a CONNACK that does not belong there, which HAProxy leaves open.
    Unknown,
}

/// A field's value as it stands in the packet.
enum Found<'p> {
    Number(u32),
    Text(&'p [u8]),
}

/// Reads a packet and reports each field.
fn read_packet<'p>(bytes: &'p [u8], mut report: impl FnMut(Kind, Field, Found<'p>)) -> Verdict {
    let Some((first, rest)) = bytes.split_first() else {
        return Verdict::Unknown;
    };
    let mut head = Reader(rest);
    let len = match head.varint() {
        Some(len) => len as usize,
        // Four bytes with more to come are no length.
        None if rest.len() >= 4 => return Verdict::Invalid,
        None => return Verdict::Unknown,
    };
    let kind = match first {
        0x10 => Kind::Connect,
        0x20 => Kind::Connack,
        _ => return Verdict::Invalid,
    };
    let Some(body) = head.0.get(..len) else {
        return Verdict::Unknown;
    };
    let mut body = Reader(body);
    let mut report = |field, value| report(kind, field, value);
    let read = match kind {
        Kind::Connect => connect(&mut body, &mut report),
        Kind::Connack => connack(&mut body, &mut report),
    };
    match read {
        Ok(()) if body.0.is_empty() => Verdict::Valid,
        Ok(()) => Verdict::Invalid,
        Err(verdict) => verdict,
    }
}

type Report<'r, 'p> = &'r mut dyn FnMut(Field, Found<'p>);

fn connect<'p>(body: &mut Reader<'p>, report: Report<'_, 'p>) -> Result<(), Verdict> {
    let invalid = || Verdict::Invalid;
    let name = body.text().ok_or_else(invalid)?;
    let version = body.u8().ok_or_else(invalid)?;
    let flags = body.u8().ok_or_else(invalid)?;
    let keepalive = body.u16().ok_or_else(invalid)?;
    if !matches!(name, b"MQTT" | b"MQIsdp") || !(3..=5).contains(&version) || flags & 1 != 0 {
        return Err(Verdict::Invalid);
    }
    report(Field::ProtocolName, Found::Text(name));
    report(Field::ProtocolVersion, Found::Number(version));
    report(Field::Flags, Found::Number(flags));
    report(Field::Keepalive, Found::Number(keepalive));
    let has_properties = version == 5;
    if has_properties {
        properties(body, IN_CONNECT, report)?;
    }
    report(
        Field::ClientIdentifier,
        Found::Text(body.text().ok_or_else(invalid)?),
    );
    if flags & 0x04 != 0 {
        if has_properties {
            properties(body, IN_WILL, report)?;
        }
        report(
            Field::WillTopic,
            Found::Text(body.text().ok_or_else(invalid)?),
        );
        report(
            Field::WillPayload,
            Found::Text(body.text().ok_or_else(invalid)?),
        );
    }
    if flags & 0x80 != 0 {
        report(
            Field::Username,
            Found::Text(body.text().ok_or_else(invalid)?),
        );
    }
    if flags & 0x40 != 0 {
        report(
            Field::Password,
            Found::Text(body.text().ok_or_else(invalid)?),
        );
    }
    Ok(())
}

fn connack<'p>(body: &mut Reader<'p>, report: Report<'_, 'p>) -> Result<(), Verdict> {
    let flags = body.u8().ok_or(Verdict::Invalid)?;
    let reason = body.u8().ok_or(Verdict::Invalid)?;
    if flags & 0xfe != 0 {
        return Err(Verdict::Invalid);
    }
    // The packet does not say its version; before 5.0 nothing follows.
    let version = if body.0.is_empty() { 4 } else { 5 };
    report(Field::Flags, Found::Number(flags));
    report(Field::ReasonCode, Found::Number(reason));
    report(Field::ProtocolVersion, Found::Number(version));
    if version == 5 {
        properties(body, IN_CONNACK, report)?;
    }
    Ok(())
}

fn properties<'p>(body: &mut Reader<'p>, place: u8, report: Report<'_, 'p>) -> Result<(), Verdict> {
    let len = body.varint().ok_or(Verdict::Invalid)? as usize;
    let mut list = Reader(body.take(len).ok_or(Verdict::Invalid)?);
    let (mut seen, mut has_data) = (0u64, false);
    while let Some(number) = list.u8() {
        let number = number as u8;
        let known = PROPERTIES
            .iter()
            .find(|(n, at, _)| *n == number && at & place != 0);
        let Some((.., content)) = known else {
            return Err(if place == IN_CONNACK {
                Verdict::Unknown
            } else {
                Verdict::Invalid
            });
        };
        if number != USER_PROPERTY && seen & 1 << number != 0 {
            return Err(Verdict::Invalid);
        }
        seen |= 1 << number;
        let value = match content {
            Content::Flag => list.u8().filter(|n| *n <= 1).map(Found::Number),
            Content::U16 => list.u16().map(Found::Number),
            Content::U16NotZero => list.u16().filter(|n| *n != 0).map(Found::Number),
            Content::U32 => list.u32().map(Found::Number),
            Content::U32NotZero => list.u32().filter(|n| *n != 0).map(Found::Number),
            Content::Text => list.text().map(Found::Text),
            Content::TextNotEmpty => list.text().filter(|t| !t.is_empty()).map(Found::Text),
            Content::Pair => {
                let pair = list.text().and_then(|_| list.text());
                pair.ok_or(Verdict::Invalid)?;
                continue;
            }
        };
        let value = value.ok_or(Verdict::Invalid)?;
        has_data |= number == AUTHENTICATION_DATA && matches!(value, Found::Text([_, ..]));
        report(Field::Property(number), value);
    }
    // Section 3.1.2.11.10: authentication data needs a method.
    if place == IN_CONNECT && has_data && seen & 1 << AUTHENTICATION_METHOD == 0 {
        return Err(Verdict::Invalid);
    }
    Ok(())
}

/// What has not been read yet.
struct Reader<'p>(&'p [u8]);

impl<'p> Reader<'p> {
    fn take(&mut self, len: usize) -> Option<&'p [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn u8(&mut self) -> Option<u32> {
        self.take(1).map(|b| u32::from(b[0]))
    }

    fn u16(&mut self) -> Option<u32> {
        self.take(2)
            .map(|b| u32::from(u16::from_be_bytes([b[0], b[1]])))
    }

    fn u32(&mut self) -> Option<u32> {
        self.take(4)
            .map(|b| u32::from_be_bytes([b[0], b[1], b[2], b[3]]))
    }

    fn text(&mut self) -> Option<&'p [u8]> {
        let len = self.u16()? as usize;
        self.take(len)
    }

    /// A number of up to four bytes of seven bits, the lowest first.
    fn varint(&mut self) -> Option<u32> {
        let mut value = 0;
        for at in 0..4 {
            let byte = self.u8()?;
            value |= (byte & 0x7f) << (7 * at);
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests;
