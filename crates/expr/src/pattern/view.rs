//! One index over a list: a match method with its flags. A list has one for each way it is used.

use std::collections::HashMap;
use std::net::IpAddr;

use super::address_index::AddressIndex;
use super::elements::Elements;
use super::method::Match;
use super::network::{self, Network, NotANetwork};
use super::number::{self, Notation};
use super::number_index::NumberIndex;
use super::regex::Regex;
use super::regex_index::{self, RegexIndex};
use super::substring_index::SubstringIndex;
use super::text_index::{Form, Part, TextIndex, check_hex};
use super::word_index::{Delims, WordIndex};
use crate::value::{Type, Value};

/// How a list is searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Kind {
    pub method: Match,
    /// `-i`
    pub ignore_case: bool,
    pub notation: Notation,
}

impl Kind {
    /// Case matters, integers are plain.
    pub fn of(method: Match) -> Self {
        Kind {
            method,
            ignore_case: false,
            notation: Notation::Plain,
        }
    }

    /// The same without differences that do not matter to the method, so that one index serves both.
    pub(super) fn canonical(self) -> Self {
        let numbers = matches!(self.method, Match::Int | Match::Len);
        Kind {
            method: self.method,
            ignore_case: self.ignore_case && self.method.has_case(),
            notation: if numbers {
                self.notation
            } else {
                Notation::Plain
            },
        }
    }

    /// Whether `get acl` calls the index a tree (anything that does not try the patterns one after the other).
    pub fn is_indexed(self) -> bool {
        self.method != Match::Reg
    }
}

/// Addresses that host names in a list stood for when it was loaded.
pub(super) type Hosts = HashMap<Vec<u8>, Network>;

pub(super) enum View {
    Text(TextIndex),
    Word(WordIndex),
    Substring(SubstringIndex),
    Number(NumberIndex),
    Address(AddressIndex),
    Regex(RegexIndex),
}

/// A pattern that has been found good for a kind, with what finding out produced.
pub(super) enum Checked {
    Text,
    Network(Network),
    Regex(Regex),
}

/// Whether a pattern means something to a match method; the error is a sentence with the pattern in it.
pub(super) fn check(kind: Kind, key: &[u8], hosts: &Hosts) -> Result<Checked, String> {
    let text = || String::from_utf8_lossy(key);
    Ok(match kind.method {
        Match::Int | Match::Len => {
            number::parse(&text(), kind.notation)?;
            Checked::Text
        }
        Match::Ip => Checked::Network(network_of(key, hosts).map_err(|e| match e {
            NotANetwork::Address => format!("'{}' is not a valid IPv4 or IPv6 address", text()),
            NotANetwork::Mask => format!("'{}' has an invalid network mask", text()),
        })?),
        Match::Bin => {
            check_hex(&text())?;
            Checked::Text
        }
        Match::Reg => Checked::Regex(regex_index::compile(key, kind.ignore_case)?),
        _ => Checked::Text,
    })
}

pub(super) fn network_of(key: &[u8], hosts: &Hosts) -> Result<Network, NotANetwork> {
    let text = std::str::from_utf8(key).map_err(|_| NotANetwork::Address)?;
    match network::parse(text) {
        Err(NotANetwork::Address) => hosts.get(key).copied().ok_or(NotANetwork::Address),
        other => other,
    }
}

impl View {
    /// Indexes all entries, which have been checked, but for expressions: the error is the first one that does not
    /// compile, and why.
    pub(super) fn build(
        kind: Kind,
        all: &Elements,
        hosts: &Hosts,
    ) -> Result<View, (Vec<u8>, String)> {
        let form = match kind.ignore_case {
            true => Form::IgnoreCase,
            false => Form::AsIs,
        };
        Ok(match kind.method {
            Match::Str | Match::Found | Match::Bool => {
                View::Text(TextIndex::build(Part::Whole, form, all))
            }
            Match::Beg => View::Text(TextIndex::build(Part::Prefix, form, all)),
            Match::End => View::Text(TextIndex::build(Part::Suffix, form, all)),
            Match::Bin => View::Text(TextIndex::build(Part::Whole, Form::Hex, all)),
            Match::Dir => View::Word(WordIndex::build(Delims::Dir, kind.ignore_case, all)),
            Match::Dom => View::Word(WordIndex::build(Delims::Dom, kind.ignore_case, all)),
            Match::Sub => View::Substring(SubstringIndex::build(kind.ignore_case, all)),
            Match::Int | Match::Len => View::Number(NumberIndex::build(kind.notation, all)),
            Match::Ip => View::Address(AddressIndex::build(all, &|k| network_of(k, hosts).ok())),
            Match::Reg => View::Regex(RegexIndex::build(kind.ignore_case, all)?),
        })
    }

    pub(super) fn add(&self, id: u32, key: &[u8], checked: Checked, all: &Elements) {
        match (self, checked) {
            (View::Text(v), _) => v.add(id, key, all),
            (View::Word(v), _) => v.add(id, key, all),
            (View::Substring(v), _) => v.add(id, key, all),
            (View::Number(v), _) => v.add(id, key, all),
            (View::Address(v), Checked::Network(n)) => v.add(id, n),
            (View::Regex(v), Checked::Regex(r)) => v.add(id, r),
            (View::Address(_) | View::Regex(_), _) => {
                debug_assert!(false, "checked for another kind");
            }
        }
    }

    /// Indexes all entries again: forgets deleted ones, and learns those added while nobody kept it up to date.
    pub(super) fn rebuild(&self, kind: Kind, all: &Elements, hosts: &Hosts) {
        match self {
            View::Text(v) => v.rebuild(all),
            View::Word(v) => v.rebuild(all),
            View::Substring(v) => v.rebuild(all),
            View::Number(v) => v.rebuild(all),
            View::Address(v) => v.rebuild(all, &|k| network_of(k, hosts).ok()),
            View::Regex(v) => v.rebuild(kind.ignore_case, all),
        }
    }

    /// The number of the entry that matches; `None` also for a value that has no form the method can look at.
    pub(super) fn find(&self, method: Match, value: &Value<'_>, all: &Elements) -> Option<u32> {
        match self {
            View::Number(v) if method == Match::Len => {
                let len = with_bytes(value, <[u8]>::len)?;
                v.find(i64::try_from(len).unwrap_or(i64::MAX), all)
            }
            View::Number(v) => v.find(int_of(value)?, all),
            View::Address(v) => v.find(ip_of(value)?, all),
            View::Text(v) if method == Match::Bin => match value.bytes() {
                Some(b) => v.find(b, all),
                None => v.find(value.clone().cast(Type::Bin)?.bytes()?, all),
            },
            View::Text(v) => with_bytes(value, |b| v.find(b, all))?,
            View::Word(v) => with_bytes(value, |b| v.find(b, all))?,
            View::Substring(v) => with_bytes(value, |b| v.find(b, all))?,
            View::Regex(v) => with_bytes(value, |b| v.find(b, all, |id, _| id))?,
        }
    }

    pub(super) fn memory(&self) -> usize {
        match self {
            View::Text(v) => v.memory(),
            View::Word(v) => v.memory(),
            View::Substring(v) => v.memory(),
            View::Number(v) => v.memory(),
            View::Address(v) => v.memory(),
            // What a compiled expression takes is not known.
            View::Regex(_) => 0,
        }
    }
}

/// The bytes a text method looks at: numbers and addresses as text, binary up to its first NUL (manual 7.1.3).
pub(super) fn with_bytes<R>(value: &Value<'_>, f: impl FnOnce(&[u8]) -> R) -> Option<R> {
    match value {
        Value::Bin(b) => Some(f(match memchr::memchr(0, b) {
            Some(at) => &b[..at],
            None => b,
        })),
        Value::Str(_) | Value::Meth(..) => Some(f(value.bytes()?)),
        _ => {
            let text = value.clone().cast(Type::Str)?;
            Some(f(text.bytes()?))
        }
    }
}

pub(super) fn int_of(value: &Value<'_>) -> Option<i64> {
    match value.int() {
        Some(n) => Some(n),
        None => value.clone().cast(Type::Sint)?.int(),
    }
}

pub(super) fn ip_of(value: &Value<'_>) -> Option<IpAddr> {
    let of = |v: &Value<'_>| match v {
        Value::Ipv4(a) => Some(IpAddr::V4(*a)),
        Value::Ipv6(a) => Some(IpAddr::V6(*a)),
        _ => None,
    };
    of(value).or_else(|| of(&value.clone().cast(Type::Addr)?))
}
