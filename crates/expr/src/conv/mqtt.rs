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
mod tests {
    use proptest::prelude::*;

    use crate::conv::testing::{World, check_all, check_refused};

    #[test]
    fn packets_and_fields() {
        check_all(&[
            (
                "bin(102f00044d51545404ce003c0006636c69656e74000a77696c6c2f746f7069630003627965000475736572000470617373),mqtt_is_valid",
                Some("1"),
            ),
            (
                "bin(102f00044d51545404ce003c0006636c69656e74000a77696c6c2f746f7069630003627965000475736572000470617373),mqtt_field_value(connect,flags)",
                Some("206"),
            ),
            (
                "bin(102f00044d51545404ce003c0006636c69656e74000a77696c6c2f746f7069630003627965000475736572000470617373),mqtt_field_value(connect,protocol_name)",
                Some("MQTT"),
            ),
            (
                "bin(102f00044d51545404ce003c0006636c69656e74000a77696c6c2f746f7069630003627965000475736572000470617373),mqtt_field_value(connect,protocol_version)",
                Some("4"),
            ),
            (
                "bin(102f00044d51545404ce003c0006636c69656e74000a77696c6c2f746f7069630003627965000475736572000470617373),mqtt_field_value(connect,client_identifier)",
                Some("client"),
            ),
            (
                "bin(102f00044d51545404ce003c0006636c69656e74000a77696c6c2f746f7069630003627965000475736572000470617373),mqtt_field_value(connect,will_topic)",
                Some("will/topic"),
            ),
            (
                "bin(102f00044d51545404ce003c0006636c69656e74000a77696c6c2f746f7069630003627965000475736572000470617373),mqtt_field_value(connect,will_payload)",
                Some("bye"),
            ),
            (
                "bin(102f00044d51545404ce003c0006636c69656e74000a77696c6c2f746f7069630003627965000475736572000470617373),mqtt_field_value(connect,username)",
                Some("user"),
            ),
            (
                "bin(102f00044d51545404ce003c0006636c69656e74000a77696c6c2f746f7069630003627965000475736572000470617373),mqtt_field_value(connect,password)",
                Some("pass"),
            ),
            (
                "bin(102f00044d51545404ce003c0006636c69656e74000a77696c6c2f746f7069630003627965000475736572000470617373),mqtt_field_value(connect,keepalive)",
                Some("60"),
            ),
            (
                "bin(103100064d514973647003ce003c0006636c69656e74000a77696c6c2f746f7069630003627965000475736572000470617373),mqtt_is_valid",
                Some("1"),
            ),
            (
                "bin(103100064d514973647003ce003c0006636c69656e74000a77696c6c2f746f7069630003627965000475736572000470617373),mqtt_field_value(connect,flags)",
                Some("206"),
            ),
            (
                "bin(103100064d514973647003ce003c0006636c69656e74000a77696c6c2f746f7069630003627965000475736572000470617373),mqtt_field_value(connect,protocol_name)",
                Some("MQIsdp"),
            ),
            (
                "bin(103100064d514973647003ce003c0006636c69656e74000a77696c6c2f746f7069630003627965000475736572000470617373),mqtt_field_value(connect,protocol_version)",
                Some("3"),
            ),
            (
                "bin(103100064d514973647003ce003c0006636c69656e74000a77696c6c2f746f7069630003627965000475736572000470617373),mqtt_field_value(connect,client_identifier)",
                Some("client"),
            ),
            (
                "bin(103100064d514973647003ce003c0006636c69656e74000a77696c6c2f746f7069630003627965000475736572000470617373),mqtt_field_value(connect,will_topic)",
                Some("will/topic"),
            ),
            (
                "bin(103100064d514973647003ce003c0006636c69656e74000a77696c6c2f746f7069630003627965000475736572000470617373),mqtt_field_value(connect,will_payload)",
                Some("bye"),
            ),
            (
                "bin(103100064d514973647003ce003c0006636c69656e74000a77696c6c2f746f7069630003627965000475736572000470617373),mqtt_field_value(connect,username)",
                Some("user"),
            ),
            (
                "bin(103100064d514973647003ce003c0006636c69656e74000a77696c6c2f746f7069630003627965000475736572000470617373),mqtt_field_value(connect,password)",
                Some("pass"),
            ),
            (
                "bin(103100064d514973647003ce003c0006636c69656e74000a77696c6c2f746f7069630003627965000475736572000470617373),mqtt_field_value(connect,keepalive)",
                Some("60"),
            ),
            (
                "bin(107e00044d51545405ce003c24110000007821000a270000100022000519011700150005534352414d16000501646174610006636c69656e742918000000050101020000006303000a746578742f706c61696e080006726573702f74090004636f7272000a77696c6c2f746f7069630003627965000475736572000470617373),mqtt_is_valid",
                Some("1"),
            ),
            (
                "bin(107e00044d51545405ce003c24110000007821000a270000100022000519011700150005534352414d16000501646174610006636c69656e742918000000050101020000006303000a746578742f706c61696e080006726573702f74090004636f7272000a77696c6c2f746f7069630003627965000475736572000470617373),mqtt_field_value(connect,flags)",
                Some("206"),
            ),
            (
                "bin(107e00044d51545405ce003c24110000007821000a270000100022000519011700150005534352414d16000501646174610006636c69656e742918000000050101020000006303000a746578742f706c61696e080006726573702f74090004636f7272000a77696c6c2f746f7069630003627965000475736572000470617373),mqtt_field_value(connect,protocol_name)",
                Some("MQTT"),
            ),
            (
                "bin(107e00044d51545405ce003c24110000007821000a270000100022000519011700150005534352414d16000501646174610006636c69656e742918000000050101020000006303000a746578742f706c61696e080006726573702f74090004636f7272000a77696c6c2f746f7069630003627965000475736572000470617373),mqtt_field_value(connect,protocol_version)",
                Some("5"),
            ),
            (
                "bin(107e00044d51545405ce003c24110000007821000a270000100022000519011700150005534352414d16000501646174610006636c69656e742918000000050101020000006303000a746578742f706c61696e080006726573702f74090004636f7272000a77696c6c2f746f7069630003627965000475736572000470617373),mqtt_field_value(connect,client_identifier)",
                Some("client"),
            ),
            (
                "bin(107e00044d51545405ce003c24110000007821000a270000100022000519011700150005534352414d16000501646174610006636c69656e742918000000050101020000006303000a746578742f706c61696e080006726573702f74090004636f7272000a77696c6c2f746f7069630003627965000475736572000470617373),mqtt_field_value(connect,will_topic)",
                Some("will/topic"),
            ),
            (
                "bin(107e00044d51545405ce003c24110000007821000a270000100022000519011700150005534352414d16000501646174610006636c69656e742918000000050101020000006303000a746578742f706c61696e080006726573702f74090004636f7272000a77696c6c2f746f7069630003627965000475736572000470617373),mqtt_field_value(connect,will_payload)",
                Some("bye"),
            ),
            (
                "bin(107e00044d51545405ce003c24110000007821000a270000100022000519011700150005534352414d16000501646174610006636c69656e742918000000050101020000006303000a746578742f706c61696e080006726573702f74090004636f7272000a77696c6c2f746f7069630003627965000475736572000470617373),mqtt_field_value(connect,username)",
                Some("user"),
            ),
            (
                "bin(107e00044d51545405ce003c24110000007821000a270000100022000519011700150005534352414d16000501646174610006636c69656e742918000000050101020000006303000a746578742f706c61696e080006726573702f74090004636f7272000a77696c6c2f746f7069630003627965000475736572000470617373),mqtt_field_value(connect,password)",
                Some("pass"),
            ),
            (
                "bin(107e00044d51545405ce003c24110000007821000a270000100022000519011700150005534352414d16000501646174610006636c69656e742918000000050101020000006303000a746578742f706c61696e080006726573702f74090004636f7272000a77696c6c2f746f7069630003627965000475736572000470617373),mqtt_field_value(connect,keepalive)",
                Some("60"),
            ),
            (
                "bin(107e00044d51545405ce003c24110000007821000a270000100022000519011700150005534352414d16000501646174610006636c69656e742918000000050101020000006303000a746578742f706c61696e080006726573702f74090004636f7272000a77696c6c2f746f7069630003627965000475736572000470617373),mqtt_field_value(1,17)",
                Some("120"),
            ),
            (
                "bin(107e00044d51545405ce003c24110000007821000a270000100022000519011700150005534352414d16000501646174610006636c69656e742918000000050101020000006303000a746578742f706c61696e080006726573702f74090004636f7272000a77696c6c2f746f7069630003627965000475736572000470617373),mqtt_field_value(1,33)",
                Some("10"),
            ),
            (
                "bin(107e00044d51545405ce003c24110000007821000a270000100022000519011700150005534352414d16000501646174610006636c69656e742918000000050101020000006303000a746578742f706c61696e080006726573702f74090004636f7272000a77696c6c2f746f7069630003627965000475736572000470617373),mqtt_field_value(1,39)",
                Some("4096"),
            ),
            (
                "bin(107e00044d51545405ce003c24110000007821000a270000100022000519011700150005534352414d16000501646174610006636c69656e742918000000050101020000006303000a746578742f706c61696e080006726573702f74090004636f7272000a77696c6c2f746f7069630003627965000475736572000470617373),mqtt_field_value(1,34)",
                Some("5"),
            ),
            (
                "bin(107e00044d51545405ce003c24110000007821000a270000100022000519011700150005534352414d16000501646174610006636c69656e742918000000050101020000006303000a746578742f706c61696e080006726573702f74090004636f7272000a77696c6c2f746f7069630003627965000475736572000470617373),mqtt_field_value(1,25)",
                Some("1"),
            ),
            (
                "bin(107e00044d51545405ce003c24110000007821000a270000100022000519011700150005534352414d16000501646174610006636c69656e742918000000050101020000006303000a746578742f706c61696e080006726573702f74090004636f7272000a77696c6c2f746f7069630003627965000475736572000470617373),mqtt_field_value(1,23)",
                Some("0"),
            ),
            (
                "bin(107e00044d51545405ce003c24110000007821000a270000100022000519011700150005534352414d16000501646174610006636c69656e742918000000050101020000006303000a746578742f706c61696e080006726573702f74090004636f7272000a77696c6c2f746f7069630003627965000475736572000470617373),mqtt_field_value(1,21)",
                Some("SCRAM"),
            ),
            (
                "bin(107e00044d51545405ce003c24110000007821000a270000100022000519011700150005534352414d16000501646174610006636c69656e742918000000050101020000006303000a746578742f706c61696e080006726573702f74090004636f7272000a77696c6c2f746f7069630003627965000475736572000470617373),mqtt_field_value(1,22)",
                Some("\x01data"),
            ),
            (
                "bin(107e00044d51545405ce003c24110000007821000a270000100022000519011700150005534352414d16000501646174610006636c69656e742918000000050101020000006303000a746578742f706c61696e080006726573702f74090004636f7272000a77696c6c2f746f7069630003627965000475736572000470617373),mqtt_field_value(1,24)",
                Some("5"),
            ),
            (
                "bin(107e00044d51545405ce003c24110000007821000a270000100022000519011700150005534352414d16000501646174610006636c69656e742918000000050101020000006303000a746578742f706c61696e080006726573702f74090004636f7272000a77696c6c2f746f7069630003627965000475736572000470617373),mqtt_field_value(1,1)",
                Some("1"),
            ),
            (
                "bin(107e00044d51545405ce003c24110000007821000a270000100022000519011700150005534352414d16000501646174610006636c69656e742918000000050101020000006303000a746578742f706c61696e080006726573702f74090004636f7272000a77696c6c2f746f7069630003627965000475736572000470617373),mqtt_field_value(1,2)",
                Some("99"),
            ),
            (
                "bin(107e00044d51545405ce003c24110000007821000a270000100022000519011700150005534352414d16000501646174610006636c69656e742918000000050101020000006303000a746578742f706c61696e080006726573702f74090004636f7272000a77696c6c2f746f7069630003627965000475736572000470617373),mqtt_field_value(1,3)",
                Some("text/plain"),
            ),
            (
                "bin(107e00044d51545405ce003c24110000007821000a270000100022000519011700150005534352414d16000501646174610006636c69656e742918000000050101020000006303000a746578742f706c61696e080006726573702f74090004636f7272000a77696c6c2f746f7069630003627965000475736572000470617373),mqtt_field_value(1,8)",
                Some("resp/t"),
            ),
            (
                "bin(107e00044d51545405ce003c24110000007821000a270000100022000519011700150005534352414d16000501646174610006636c69656e742918000000050101020000006303000a746578742f706c61696e080006726573702f74090004636f7272000a77696c6c2f746f7069630003627965000475736572000470617373),mqtt_field_value(1,9)",
                Some("corr"),
            ),
            (
                "bin(107e00044d51545405ce003c24110000007821000a270000100022000519011700150005534352414d16000501646174610006636c69656e742918000000050101020000006303000a746578742f706c61696e080006726573702f74090004636f7272000a77696c6c2f746f7069630003627965000475736572000470617373),mqtt_field_value(1,38)",
                None,
            ),
            (
                "bin(104300044d51545405ce003c122600016b0001762600016b000276322100070006636c69656e7400000a77696c6c2f746f7069630003627965000475736572000470617373),mqtt_field_value(1,33)",
                Some("7"),
            ),
            (
                "bin(104300044d51545405ce003c122600016b0001762600016b000276322100070006636c69656e7400000a77696c6c2f746f7069630003627965000475736572000470617373),mqtt_field_value(1,38)",
                None,
            ),
            (
                "bin(102f00044d51545404ce003c0006636c69656e74000a77696c6c2f746f7069630003627965000475736572000470617373),mqtt_field_value(1,17)",
                None,
            ),
            (
                "bin(102f00044d51545404ce003c0006636c69656e74000a77696c6c2f746f7069630003627965000475736572000470617373),mqtt_field_value(CONNECT,Flags)",
                Some("206"),
            ),
            ("bin(20020100),mqtt_field_value(connack,flags)", Some("1")),
            (
                "bin(205201004f110000006421000324012501270000270f12000861737369676e65642200041f0006726561736f6e280129002a0113001e1a000872657370696e666f1c0006736572766572150002616d1600026164),mqtt_field_value(2,flags)",
                Some("1"),
            ),
            (
                "bin(20020100),mqtt_field_value(connack,protocol_version)",
                Some("4"),
            ),
            (
                "bin(205201004f110000006421000324012501270000270f12000861737369676e65642200041f0006726561736f6e280129002a0113001e1a000872657370696e666f1c0006736572766572150002616d1600026164),mqtt_field_value(2,protocol_version)",
                Some("5"),
            ),
            (
                "bin(20020100),mqtt_field_value(connack,reason_code)",
                Some("0"),
            ),
            (
                "bin(205201004f110000006421000324012501270000270f12000861737369676e65642200041f0006726561736f6e280129002a0113001e1a000872657370696e666f1c0006736572766572150002616d1600026164),mqtt_field_value(2,reason_code)",
                Some("0"),
            ),
            (
                "bin(205201004f110000006421000324012501270000270f12000861737369676e65642200041f0006726561736f6e280129002a0113001e1a000872657370696e666f1c0006736572766572150002616d1600026164),mqtt_field_value(2,17)",
                Some("100"),
            ),
            (
                "bin(205201004f110000006421000324012501270000270f12000861737369676e65642200041f0006726561736f6e280129002a0113001e1a000872657370696e666f1c0006736572766572150002616d1600026164),mqtt_field_value(2,33)",
                Some("3"),
            ),
            (
                "bin(205201004f110000006421000324012501270000270f12000861737369676e65642200041f0006726561736f6e280129002a0113001e1a000872657370696e666f1c0006736572766572150002616d1600026164),mqtt_field_value(2,36)",
                Some("1"),
            ),
            (
                "bin(205201004f110000006421000324012501270000270f12000861737369676e65642200041f0006726561736f6e280129002a0113001e1a000872657370696e666f1c0006736572766572150002616d1600026164),mqtt_field_value(2,37)",
                Some("1"),
            ),
            (
                "bin(205201004f110000006421000324012501270000270f12000861737369676e65642200041f0006726561736f6e280129002a0113001e1a000872657370696e666f1c0006736572766572150002616d1600026164),mqtt_field_value(2,39)",
                Some("9999"),
            ),
            (
                "bin(205201004f110000006421000324012501270000270f12000861737369676e65642200041f0006726561736f6e280129002a0113001e1a000872657370696e666f1c0006736572766572150002616d1600026164),mqtt_field_value(2,18)",
                Some("assigned"),
            ),
            (
                "bin(205201004f110000006421000324012501270000270f12000861737369676e65642200041f0006726561736f6e280129002a0113001e1a000872657370696e666f1c0006736572766572150002616d1600026164),mqtt_field_value(2,34)",
                Some("4"),
            ),
            (
                "bin(205201004f110000006421000324012501270000270f12000861737369676e65642200041f0006726561736f6e280129002a0113001e1a000872657370696e666f1c0006736572766572150002616d1600026164),mqtt_field_value(2,31)",
                Some("reason"),
            ),
            (
                "bin(205201004f110000006421000324012501270000270f12000861737369676e65642200041f0006726561736f6e280129002a0113001e1a000872657370696e666f1c0006736572766572150002616d1600026164),mqtt_field_value(2,40)",
                Some("1"),
            ),
            (
                "bin(205201004f110000006421000324012501270000270f12000861737369676e65642200041f0006726561736f6e280129002a0113001e1a000872657370696e666f1c0006736572766572150002616d1600026164),mqtt_field_value(2,41)",
                Some("0"),
            ),
            (
                "bin(205201004f110000006421000324012501270000270f12000861737369676e65642200041f0006726561736f6e280129002a0113001e1a000872657370696e666f1c0006736572766572150002616d1600026164),mqtt_field_value(2,42)",
                Some("1"),
            ),
            (
                "bin(205201004f110000006421000324012501270000270f12000861737369676e65642200041f0006726561736f6e280129002a0113001e1a000872657370696e666f1c0006736572766572150002616d1600026164),mqtt_field_value(2,19)",
                Some("30"),
            ),
            (
                "bin(205201004f110000006421000324012501270000270f12000861737369676e65642200041f0006726561736f6e280129002a0113001e1a000872657370696e666f1c0006736572766572150002616d1600026164),mqtt_field_value(2,26)",
                Some("respinfo"),
            ),
            (
                "bin(205201004f110000006421000324012501270000270f12000861737369676e65642200041f0006726561736f6e280129002a0113001e1a000872657370696e666f1c0006736572766572150002616d1600026164),mqtt_field_value(2,28)",
                Some("server"),
            ),
            (
                "bin(205201004f110000006421000324012501270000270f12000861737369676e65642200041f0006726561736f6e280129002a0113001e1a000872657370696e666f1c0006736572766572150002616d1600026164),mqtt_field_value(2,21)",
                Some("am"),
            ),
            (
                "bin(205201004f110000006421000324012501270000270f12000861737369676e65642200041f0006726561736f6e280129002a0113001e1a000872657370696e666f1c0006736572766572150002616d1600026164),mqtt_field_value(2,22)",
                Some("ad"),
            ),
            (
                "bin(205201004f110000006421000324012501270000270f12000861737369676e65642200041f0006726561736f6e280129002a0113001e1a000872657370696e666f1c0006736572766572150002616d1600026164),mqtt_field_value(2,38)",
                None,
            ),
            ("bin(20020100),mqtt_is_valid", Some("1")),
            (
                "bin(205201004f110000006421000324012501270000270f12000861737369676e65642200041f0006726561736f6e280129002a0113001e1a000872657370696e666f1c0006736572766572150002616d1600026164),mqtt_is_valid",
                Some("1"),
            ),
            ("bin(20020100),mqtt_field_value(connect,flags)", None),
            (
                "bin(102f00044d51545404ce003c0006636c69656e74000a77696c6c2f746f7069630003627965000475736572000470617373),mqtt_field_value(connack,flags)",
                None,
            ),
            (
                "bin(102f00044d51545404ce003c0006636c69656e74000a77696c6c2f746f7069630003627965000475736572000470617373),mqtt_field_value(connect,38)",
                None,
            ),
            (
                "bin(101200044d5154540402003c0006636c69656e74),mqtt_field_value(connect,flags)",
                Some("2"),
            ),
            (
                "bin(101200044d5154540402003c0006636c69656e74),mqtt_field_value(connect,protocol_name)",
                Some("MQTT"),
            ),
            (
                "bin(101200044d5154540402003c0006636c69656e74),mqtt_field_value(connect,protocol_version)",
                Some("4"),
            ),
            (
                "bin(101200044d5154540402003c0006636c69656e74),mqtt_field_value(connect,client_identifier)",
                Some("client"),
            ),
            (
                "bin(101200044d5154540402003c0006636c69656e74),mqtt_field_value(connect,will_topic)",
                None,
            ),
            (
                "bin(101200044d5154540402003c0006636c69656e74),mqtt_field_value(connect,will_payload)",
                None,
            ),
            (
                "bin(101200044d5154540402003c0006636c69656e74),mqtt_field_value(connect,username)",
                None,
            ),
            (
                "bin(101200044d5154540402003c0006636c69656e74),mqtt_field_value(connect,password)",
                None,
            ),
            (
                "bin(101200044d5154540402003c0006636c69656e74),mqtt_field_value(connect,keepalive)",
                Some("60"),
            ),
            (
                "bin(101200044d5154540402003c0006636c69656e74),mqtt_is_valid",
                Some("1"),
            ),
            ("str(),mqtt_is_valid", None),
            ("bin(10),mqtt_is_valid", None),
            ("bin(102f),mqtt_is_valid", None),
            ("bin(102f00044d),mqtt_is_valid", None),
            ("bin(102f00044d51545404ce003c),mqtt_is_valid", None),
            (
                "bin(102f00044d51545404ce003c0006636c69656e74000a77696c6c2f746f70696300036279650004757365720004706173),mqtt_is_valid",
                None,
            ),
            (
                "bin(102f00044d51545404ce003c0006636c69656e74000a77696c6c2f746f706963000362796500047573657200047061737378),mqtt_is_valid",
                Some("1"),
            ),
            (
                "bin(101e00044d51545404c3003c0006636c69656e74000475736572000470617373),mqtt_is_valid",
                Some("0"),
            ),
            (
                "bin(102f00044d51545406ce003c0006636c69656e74000a77696c6c2f746f7069630003627965000475736572000470617373),mqtt_is_valid",
                Some("0"),
            ),
            (
                "bin(102f00044d51545402ce003c0006636c69656e74000a77696c6c2f746f7069630003627965000475736572000470617373),mqtt_is_valid",
                Some("0"),
            ),
            (
                "bin(102f00044d51545804ce003c0006636c69656e74000a77696c6c2f746f7069630003627965000475736572000470617373),mqtt_is_valid",
                Some("0"),
            ),
            (
                "bin(103100064d514973647004ce003c0006636c69656e74000a77696c6c2f746f7069630003627965000475736572000470617373),mqtt_is_valid",
                Some("1"),
            ),
            (
                "bin(102f00044d51545403ce003c0006636c69656e74000a77696c6c2f746f7069630003627965000475736572000470617373),mqtt_is_valid",
                Some("1"),
            ),
            (
                "bin(101800044d5154540442003c0006636c69656e74000470617373),mqtt_is_valid",
                Some("1"),
            ),
            (
                "bin(101200044d515454040a003c0006636c69656e74),mqtt_is_valid",
                Some("1"),
            ),
            (
                "bin(101200044d5154540422003c0006636c69656e74),mqtt_is_valid",
                Some("1"),
            ),
            (
                "bin(102300044d515454041e003c0006636c69656e74000a77696c6c2f746f7069630003627965),mqtt_is_valid",
                Some("1"),
            ),
            (
                "bin(102900044d51545404ce003c0000000a77696c6c2f746f7069630003627965000475736572000470617373),mqtt_is_valid",
                Some("1"),
            ),
            (
                "bin(101800044d51545404c0003c0000000475736572000470617373),mqtt_is_valid",
                Some("1"),
            ),
            (
                "bin(112f00044d51545404ce003c0006636c69656e74000a77696c6c2f746f7069630003627965000475736572000470617373),mqtt_is_valid",
                Some("0"),
            ),
            (
                "bin(10ffffffff0100044d51545404ce003c0006636c69656e74000a77696c6c2f746f7069630003627965000475736572000470617373),mqtt_is_valid",
                Some("0"),
            ),
            (
                "bin(103100044d51545404ce003c0006636c69656e74000a77696c6c2f746f70696300036279650004757365720004706173737a7a),mqtt_is_valid",
                Some("0"),
            ),
            ("bin(20020200),mqtt_is_valid", Some("0")),
            ("bin(20020105),mqtt_is_valid", Some("1")),
            ("bin(20020163),mqtt_is_valid", Some("1")),
            ("bin(200100),mqtt_is_valid", Some("0")),
            ("bin(200400000000),mqtt_is_valid", Some("0")),
            ("bin(21020100),mqtt_is_valid", Some("0")),
            ("bin(20050100021100),mqtt_is_valid", Some("0")),
            ("bin(2005010002ff00),mqtt_is_valid", None),
            ("bin(3003000161),mqtt_is_valid", Some("0")),
            ("bin(c000),mqtt_is_valid", Some("0")),
            (
                "bin(103300044d51545405ce003c0224010006636c69656e7400000a77696c6c2f746f7069630003627965000475736572000470617373),mqtt_is_valid",
                Some("0"),
            ),
            (
                "bin(103700044d51545405ce003c062100072100080006636c69656e7400000a77696c6c2f746f7069630003627965000475736572000470617373),mqtt_is_valid",
                Some("0"),
            ),
            (
                "bin(103400044d51545405ce003c032100000006636c69656e7400000a77696c6c2f746f7069630003627965000475736572000470617373),mqtt_is_valid",
                Some("0"),
            ),
            (
                "bin(103300044d51545405ce003c0219020006636c69656e7400000a77696c6c2f746f7069630003627965000475736572000470617373),mqtt_is_valid",
                Some("0"),
            ),
            (
                "bin(103400044d51545405ce003c000006636c69656e7403210001000a77696c6c2f746f7069630003627965000475736572000470617373),mqtt_is_valid",
                Some("0"),
            ),
            (
                "bin(101800044d5154540502003c0518000000010006636c69656e74),mqtt_is_valid",
                Some("0"),
            ),
            (
                "bin(102700044d51545404ce003c0006636c69656e74000a77696c6c2f746f706963000362796500000000),mqtt_is_valid",
                Some("1"),
            ),
            (
                "bin(102b00044d51545404ce003c0002fffe000a77696c6c2f746f7069630003627965000475736572000470617373),mqtt_is_valid",
                Some("1"),
            ),
            (
                "bin(102b00044d51545405ce003c00000000000a77696c6c2f746f7069630003627965000475736572000470617373),mqtt_is_valid",
                Some("1"),
            ),
            ("bin(20020180),mqtt_is_valid", Some("1")),
            ("bin(2003018700),mqtt_is_valid", Some("1")),
            ("bin(2003010300),mqtt_is_valid", Some("1")),
            (
                "bin(103600044d51545405ce003c0527000000000006636c69656e7400000a77696c6c2f746f7069630003627965000475736572000470617373),mqtt_is_valid",
                Some("0"),
            ),
            (
                "bin(103400044d51545405ce003c032200000006636c69656e7400000a77696c6c2f746f7069630003627965000475736572000470617373),mqtt_is_valid",
                Some("1"),
            ),
            (
                "bin(102900044d51545404ce003c0006636c69656e74000a77696c6c2f746f7069630003627965000475736572),mqtt_is_valid",
                Some("0"),
            ),
            (
                "bin(102f00044d51545404ce00000006636c69656e74000a77696c6c2f746f7069630003627965000475736572000470617373),mqtt_is_valid",
                Some("1"),
            ),
            (
                "bin(102500044d51545404ce003c0006636c69656e7400000003627965000475736572000470617373),mqtt_is_valid",
                Some("1"),
            ),
            ("bin(2006010003210000),mqtt_is_valid", Some("0")),
            ("bin(20050100022402),mqtt_is_valid", Some("0")),
            ("bin(2009010006210001210002),mqtt_is_valid", Some("0")),
            ("bin(20080100051800000001),mqtt_is_valid", None),
            (
                "bin(102f00044d51545404ce003c0006636c69656e74000a77696c6c2f746f70696300036279650004757365720004706173),mqtt_field_value(connect,username)",
                None,
            ),
            (
                "bin(102f00044d51545404ce003c0006),mqtt_field_value(connect,protocol_name)",
                None,
            ),
            (
                "bin(102900044d51545404ce003c0000000a77696c6c2f746f7069630003627965000475736572000470617373),mqtt_field_value(connect,client_identifier)",
                None,
            ),
            (
                "bin(102b00044d51545404ce003c0006636c69656e74000a77696c6c2f746f70696300036279650000000470617373),mqtt_field_value(connect,username)",
                None,
            ),
            (
                "bin(103700044d51545405ce003c062100072100080006636c69656e7400000a77696c6c2f746f7069630003627965000475736572000470617373),mqtt_field_value(connect,33)",
                None,
            ),
            (
                "bin(103400044d51545405ce003c031500000006636c69656e7400000a77696c6c2f746f7069630003627965000475736572000470617373),mqtt_field_value(connect,21)",
                None,
            ),
        ]);
    }

    /// A packet of MQTT 5.0 with one property in one of its places.
    fn packet(place: usize, property: &[u8]) -> String {
        let empty: &[u8] = &[];
        let with_len = |p: &[u8]| [&[p.len() as u8][..], p].concat();
        let connect = |props: &[u8], will: &[u8]| {
            let body = [
                &b"\0\x04MQTT\x05\x06\0\x3c"[..],
                &with_len(props),
                b"\0\x01c",
                &with_len(will),
                b"\0\x01t\0\x01p",
            ];
            [&[0x10][..], &with_len(&body.concat())].concat()
        };
        let bytes = match place {
            0 => connect(property, empty),
            1 => connect(empty, property),
            _ => [
                &[0x20][..],
                &with_len(&[&[1, 0][..], &with_len(property)].concat()),
            ]
            .concat(),
        };
        bytes.iter().map(|b| format!("{b:02x}")).collect()
    }

    /// Each property in the CONNECT, its will and the CONNACK, with values of each type: HAProxy's verdicts.
    #[test]
    fn properties() {
        const VALUES: [&[u8]; 11] = [
            b"\0",
            b"\x01",
            b"\x02",
            b"\0\0",
            b"\0\x01",
            b"\0\0\0\0",
            b"\0\0\0\x01",
            b"\0\0",
            b"\0\x02ab",
            b"\0\x01k\0\x01v",
            b"",
        ];
        let rows: &[(u8, &str, &str, &str)] = &[
            (1, "00000000000", "11000000000", "-----------"),
            (2, "00000000000", "00000110100", "-----------"),
            (3, "00000000000", "00010001100", "-----------"),
            (8, "00000000000", "00010001100", "-----------"),
            (9, "00000000000", "00010001100", "-----------"),
            (11, "00000000000", "00000000000", "-----------"),
            (17, "00000110100", "00000000000", "000001101-0"),
            (18, "00000000000", "00000000000", "000000001-0"),
            (19, "00000000000", "00000000000", "00011--1--0"),
            (21, "00010001100", "00000000000", "00010--11-0"),
            (22, "00010001000", "00000000000", "00010--11-0"),
            (23, "11000000000", "00000000000", "-----------"),
            (24, "00000000000", "00000110100", "-----------"),
            (25, "11000000000", "00000000000", "-----------"),
            (26, "00000000000", "00000000000", "00010--11-0"),
            (28, "00000000000", "00000000000", "00010--11-0"),
            (31, "00000000000", "00000000000", "00010--11-0"),
            (33, "00001000000", "00000000000", "00001000--0"),
            (34, "00011001000", "00000000000", "00011--1--0"),
            (35, "00000000000", "00000000000", "-----------"),
            (36, "00000000000", "00000000000", "110-------0"),
            (37, "00000000000", "00000000000", "110-------0"),
            (38, "00000100010", "00000100010", "00000100010"),
            (39, "00000010100", "00000000000", "000000101-0"),
            (40, "00000000000", "00000000000", "110-------0"),
            (41, "00000000000", "00000000000", "110-------0"),
            (42, "00000000000", "00000000000", "110-------0"),
        ];
        let mut cases = Vec::new();
        for (number, connect, will, connack) in rows {
            for (place, verdicts) in [connect, will, connack].into_iter().enumerate() {
                for (value, verdict) in VALUES.iter().zip(verdicts.chars()) {
                    let property = [&[*number][..], value].concat();
                    let expr = format!("bin({}),mqtt_is_valid", packet(place, &property));
                    cases.push((expr, (verdict != '-').then(|| verdict.to_string())));
                }
            }
        }
        let cases: Vec<_> = cases
            .iter()
            .map(|(e, v)| (e.as_str(), v.as_deref()))
            .collect();
        check_all(&cases);
    }

    /// The authentication data of a CONNECT needs a method; nothing but a user property comes twice.
    #[test]
    fn properties_together() {
        for (property, verdict) in [
            (&b"\x15\0\x01m\x16\0\x01d"[..], "1"),
            (b"\x16\0\x01d\x15\0\x01m", "1"),
            (b"\x16\0\x01d", "0"),
            (b"\x21\0\x01\x21\0\x01", "0"),
            (b"\x26\0\x01k\0\x01v\x26\0\x01k\0\x01v", "1"),
        ] {
            let expr = format!("bin({}),mqtt_is_valid", packet(0, property));
            check_all(&[(&expr, Some(verdict))]);
        }
    }

    #[test]
    fn bad_arguments_are_refused() {
        check_refused(&[
            ("str(a),mqtt_field_value(foo,flags)", "connack"),
            ("str(a),mqtt_field_value(3,flags)", "connack"),
            ("str(a),mqtt_field_value(publish,flags)", "connack"),
            ("str(a),mqtt_field_value(connect,foo)", "foo"),
            ("str(a),mqtt_field_value(connect,99)", "99"),
            ("str(a),mqtt_field_value(connack,24)", "24"),
            ("str(a),mqtt_field_value(connect,36)", "36"),
            ("str(a),mqtt_field_value(connack,username)", "username"),
            (
                "str(a),mqtt_field_value(connect,reason_code)",
                "reason_code",
            ),
        ]);
    }

    proptest! {
        #[test]
        fn any_bytes_may_be_read(first in prop::sample::select(vec![0x10u8, 0x20]), rest: Vec<u8>) {
            let bytes: Vec<u8> = [first, rest.len().min(127) as u8].into_iter().chain(rest).collect();
            let world = World::new(&bytes);
            let _ = (world.run("hdr,mqtt_is_valid").unwrap(), world.run("hdr,mqtt_field_value(1,17)").unwrap());
        }
    }
}
