//! Sample types and values (manual chapter 7.1). Their casts are in `cast`, their string form in `text`.

use std::borrow::Cow;
use std::net::{Ipv4Addr, Ipv6Addr};

use sluice_http::Method;

pub use crate::cast::{castable, leading_int, leading_ipv4, parse_ipv4, parse_ipv6};
use crate::text::method_text;
pub use crate::text::write_hex;

/// The type of a sample. `Any` is an input that takes everything, `Addr` is IPv4 or IPv6 known only when it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Type {
    Any,
    Same,
    Bool,
    Sint,
    Addr,
    Ipv4,
    Ipv6,
    Str,
    Bin,
    Meth,
}

impl Type {
    /// The name `-dKsmp` prints.
    pub fn name(self) -> &'static str {
        match self {
            Type::Any => "any",
            Type::Same => "same",
            Type::Bool => "bool",
            Type::Sint => "sint",
            Type::Addr => "addr",
            Type::Ipv4 => "ipv4",
            Type::Ipv6 => "ipv6",
            Type::Str => "str",
            Type::Bin => "bin",
            Type::Meth => "meth",
        }
    }

    /// The type in a sentence.
    pub fn describe(self) -> &'static str {
        match self {
            Type::Any | Type::Same => "anything",
            Type::Bool => "a boolean",
            Type::Sint => "an integer",
            Type::Addr => "an address",
            Type::Ipv4 => "an IPv4 address",
            Type::Ipv6 => "an IPv6 address",
            Type::Str => "a string",
            Type::Bin => "binary data",
            Type::Meth => "a method",
        }
    }
}

/// A typed value, borrowing from the message where it can.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value<'a> {
    Bool(bool),
    Sint(i64),
    Ipv4(Ipv4Addr),
    Ipv6(Ipv6Addr),
    Str(Cow<'a, [u8]>),
    Bin(Cow<'a, [u8]>),
    /// A method; the text is only meaningful for `Method::Other`.
    Meth(Method, Cow<'a, [u8]>),
}

/// One value out of a fetch or converter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample<'a> {
    pub value: Value<'a>,
    /// More data may still change this result (a buffer that is not complete yet).
    pub may_change: bool,
    /// The same fetch has further occurrences (several headers): ACLs go on with the same cursor.
    pub not_last: bool,
}

/// Why there is no sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Absent {
    /// There is none and there will be none.
    Never,
    /// Not enough data yet: ask again when more has arrived.
    NotYet,
}

/// What evaluating gives.
pub type Fetched<'a> = Result<Sample<'a>, Absent>;

impl<'a> Sample<'a> {
    pub fn new(value: Value<'a>) -> Self {
        Sample {
            value,
            may_change: false,
            not_last: false,
        }
    }
    pub fn bool(b: bool) -> Self {
        Sample::new(Value::Bool(b))
    }
    pub fn int(i: i64) -> Self {
        Sample::new(Value::Sint(i))
    }
    pub fn str(s: &'a [u8]) -> Self {
        Sample::new(Value::Str(Cow::Borrowed(s)))
    }
    pub fn bin(s: &'a [u8]) -> Self {
        Sample::new(Value::Bin(Cow::Borrowed(s)))
    }
    pub fn string(s: impl Into<Vec<u8>>) -> Self {
        Sample::new(Value::Str(Cow::Owned(s.into())))
    }
    pub fn bytes(s: impl Into<Vec<u8>>) -> Self {
        Sample::new(Value::Bin(Cow::Owned(s.into())))
    }
    /// Detaches the sample from the message.
    pub fn into_owned(self) -> Sample<'static> {
        Sample {
            value: self.value.into_owned(),
            may_change: self.may_change,
            not_last: self.not_last,
        }
    }
}

impl Value<'_> {
    /// The type this value has now.
    pub fn type_of(&self) -> Type {
        match self {
            Value::Bool(_) => Type::Bool,
            Value::Sint(_) => Type::Sint,
            Value::Ipv4(_) => Type::Ipv4,
            Value::Ipv6(_) => Type::Ipv6,
            Value::Str(_) => Type::Str,
            Value::Bin(_) => Type::Bin,
            Value::Meth(..) => Type::Meth,
        }
    }

    /// The same value, without a copy of its bytes.
    pub fn borrowed(&self) -> Value<'_> {
        let bytes = |s| Cow::Borrowed(<Cow<'_, [u8]> as AsRef<[u8]>>::as_ref(s));
        match self {
            Value::Str(s) => Value::Str(bytes(s)),
            Value::Bin(s) => Value::Bin(bytes(s)),
            Value::Meth(m, s) => Value::Meth(*m, bytes(s)),
            other => other.clone(),
        }
    }

    /// Detaches the value from the message.
    pub fn into_owned(self) -> Value<'static> {
        match self {
            Value::Bool(b) => Value::Bool(b),
            Value::Sint(i) => Value::Sint(i),
            Value::Ipv4(a) => Value::Ipv4(a),
            Value::Ipv6(a) => Value::Ipv6(a),
            Value::Str(s) => Value::Str(Cow::Owned(s.into_owned())),
            Value::Bin(s) => Value::Bin(Cow::Owned(s.into_owned())),
            Value::Meth(m, s) => Value::Meth(m, Cow::Owned(s.into_owned())),
        }
    }

    /// The bytes of a string, binary or method value; `None` for numbers and addresses.
    pub fn bytes(&self) -> Option<&[u8]> {
        match self {
            Value::Str(s) | Value::Bin(s) => Some(s),
            Value::Meth(m, other) => Some(method_text(*m, other)),
            _ => None,
        }
    }

    /// The number of a boolean or integer value.
    pub fn int(&self) -> Option<i64> {
        match self {
            Value::Bool(b) => Some(i64::from(*b)),
            Value::Sint(i) => Some(*i),
            _ => None,
        }
    }
}
