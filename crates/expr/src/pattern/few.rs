//! The patterns written in ACLs are few and seldom change: a copy of them, tried one by one.
//!
//! A list is read through its current version and an index, each behind a guard that lets writers replace it. For a
//! handful of patterns that costs far more than the comparison. A matcher therefore keeps what they mean in a form
//! that is only read, with the number of changes the list had seen; after a change the list itself is asked again.

use std::net::IpAddr;

use memchr::memmem::Finder;

use super::method::Match;
use super::network::Network;
use super::number;
use super::regex::Regex;
use super::regex_index;
use super::text_index::{Form, Scratch};
use super::view::{Hosts, Kind, int_of, ip_of, network_of, with_bytes};
use super::word_index::Delims;
use crate::value::{Type, Value};

/// Lists of at most so many patterns are copied.
pub(super) const FEW: usize = 8;

/// A handful of patterns as one matcher compares them; whichever matches, the answer is the same.
#[derive(Debug, Clone)]
pub(super) enum Few {
    Whole(Texts),
    Prefix(Texts),
    Suffix(Texts),
    /// Of `-m bin`: the bytes the digits stand for.
    Bytes(Texts),
    /// Found between delimiters, without those around them.
    Words(Texts, Delims),
    Inside(Box<[Finder<'static>]>),
    /// Anywhere, and case does not matter.
    InsideAnyCase(Texts),
    Numbers(Box<[(i64, i64)]>),
    Lengths(Box<[(i64, i64)]>),
    Networks(Box<[Network]>),
    Regexes(Box<[Regex]>),
}

/// Texts side by side: one line of the cache holds all that most ACLs compare with.
#[derive(Debug, Clone, Default)]
pub(super) struct Texts {
    bytes: Box<[u8]>,
    /// Where each ends.
    ends: Box<[u32]>,
    ignore_case: bool,
}

impl Texts {
    fn new<'t>(texts: impl Iterator<Item = &'t [u8]>, form: Form) -> Self {
        let (mut bytes, mut ends) = (Vec::new(), Vec::new());
        for text in texts {
            let mut scratch = Scratch::new();
            bytes.extend_from_slice(form.of_key(text, &mut scratch));
            ends.push(bytes.len() as u32);
        }
        Texts {
            bytes: bytes.into(),
            ends: ends.into(),
            ignore_case: form == Form::IgnoreCase,
        }
    }

    #[inline]
    fn any(&self, mut holds: impl FnMut(&[u8]) -> bool) -> bool {
        let mut start = 0;
        self.ends.iter().any(|&end| {
            let text = self.bytes.get(start..end as usize).unwrap_or_default();
            start = end as usize;
            holds(text)
        })
    }

    /// Whether both are the same; of equal length, and not often compared in vain.
    #[inline]
    fn same(&self, part: &[u8], text: &[u8]) -> bool {
        match self.ignore_case {
            true => part.eq_ignore_ascii_case(text),
            false => part == text,
        }
    }

    #[inline]
    fn whole(&self, sample: &[u8]) -> bool {
        self.any(|text| text.len() == sample.len() && self.same(sample, text))
    }

    #[inline]
    fn prefix(&self, sample: &[u8]) -> bool {
        self.any(|text| {
            let part = sample.get(..text.len());
            part.is_some_and(|part| self.same(part, text))
        })
    }

    #[inline]
    fn suffix(&self, sample: &[u8]) -> bool {
        self.any(|text| {
            let from = sample.len().checked_sub(text.len());
            let part = from.and_then(|from| sample.get(from..));
            part.is_some_and(|part| self.same(part, text))
        })
    }

    /// Whether one stands in the sample, at a place that `fits` (its start and end).
    fn inside(&self, sample: &[u8], fits: impl Fn(usize, usize) -> bool) -> bool {
        self.any(|text| {
            let Some(&first) = text.first() else {
                return fits(0, 0);
            };
            let Some(last) = sample.len().checked_sub(text.len()) else {
                return false;
            };
            let starts = sample.get(..=last).unwrap_or_default();
            let begins = |at: usize| {
                let part = sample.get(at..at + text.len()).unwrap_or_default();
                self.same(part, text) && fits(at, at + text.len())
            };
            match self.ignore_case {
                true => memchr::memchr2_iter(first, first.to_ascii_uppercase(), starts).any(begins),
                false => memchr::memchr_iter(first, starts).any(begins),
            }
        })
    }
}

impl Few {
    /// The patterns as `kind` reads them; `None` when there are too many, or one does not mean anything to it.
    pub(super) fn new(kind: Kind, keys: &[Vec<u8>], hosts: &Hosts) -> Option<Few> {
        if keys.len() > FEW {
            return None;
        }
        let form = match kind.ignore_case {
            true => Form::IgnoreCase,
            false => Form::AsIs,
        };
        let each = || keys.iter().map(Vec::as_slice);
        let texts = |form| Texts::new(each(), form);
        let words = |delims: Delims| {
            let stripped = each().map(|key| delims.strip(key));
            // Delimiters alone are between no delimiters.
            Few::Words(Texts::new(stripped.filter(|w| !w.is_empty()), form), delims)
        };
        let ranges = || {
            let range = |key| {
                let range = number::parse(std::str::from_utf8(key).ok()?, kind.notation).ok()?;
                Some((*range.start(), *range.end()))
            };
            each().map(range).collect::<Option<Box<[_]>>>()
        };
        Some(match kind.method {
            Match::Found | Match::Bool => return None,
            Match::Str => Few::Whole(texts(form)),
            Match::Beg => Few::Prefix(texts(form)),
            Match::End => Few::Suffix(texts(form)),
            Match::Bin => Few::Bytes(texts(Form::Hex)),
            Match::Dir => words(Delims::Dir),
            Match::Dom => words(Delims::Dom),
            Match::Sub if kind.ignore_case => Few::InsideAnyCase(texts(form)),
            Match::Sub => Few::Inside(each().map(|key| Finder::new(key).into_owned()).collect()),
            Match::Int => Few::Numbers(ranges()?),
            Match::Len => Few::Lengths(ranges()?),
            Match::Ip => {
                let networks = each().map(|key| network_of(key, hosts).ok());
                Few::Networks(networks.collect::<Option<_>>()?)
            }
            Match::Reg => {
                let regexes = each().map(|key| regex_index::compile(key, kind.ignore_case).ok());
                Few::Regexes(regexes.collect::<Option<_>>()?)
            }
        })
    }

    /// Whether one of them matches; never for a value that has no form the method can look at.
    #[inline]
    pub(super) fn matches(&self, value: &Value<'_>) -> bool {
        match self {
            Few::Bytes(_) | Few::Networks(_) | Few::Numbers(_) => {}
            text => {
                if let Value::Str(sample) = value {
                    return text.matches_text(sample);
                }
            }
        }
        match self {
            Few::Numbers(ranges) => int_of(value).is_some_and(|n| hold(ranges, n)),
            Few::Networks(networks) => {
                ip_of(value).is_some_and(|ip| networks.iter().any(|n| n.contains(ip)))
            }
            Few::Bytes(texts) => match value.bytes() {
                Some(bytes) => texts.whole(bytes),
                None => {
                    let value = value.clone().cast(Type::Bin);
                    value.is_some_and(|v| v.bytes().is_some_and(|b| texts.whole(b)))
                }
            },
            text => with_bytes(value, |bytes| text.matches_text(bytes)).unwrap_or(false),
        }
    }

    #[inline]
    fn matches_text(&self, sample: &[u8]) -> bool {
        match self {
            Few::Whole(texts) | Few::Bytes(texts) => texts.whole(sample),
            Few::Prefix(texts) => texts.prefix(sample),
            Few::Suffix(texts) => texts.suffix(sample),
            Few::Words(texts, delims) => {
                let ends = |at: usize| sample.get(at).is_none_or(|c| delims.has(*c));
                let begins = |at: usize| at == 0 || ends(at - 1);
                texts.inside(sample, |start, end| begins(start) && ends(end))
            }
            Few::Inside(finders) => finders.iter().any(|f| f.find(sample).is_some()),
            Few::InsideAnyCase(texts) => texts.inside(sample, |_, _| true),
            Few::Lengths(ranges) => i64::try_from(sample.len()).is_ok_and(|n| hold(ranges, n)),
            Few::Regexes(regexes) => regexes.iter().any(|r| r.is_match(sample)),
            Few::Numbers(_) | Few::Networks(_) => false,
        }
    }
}

fn hold(ranges: &[(i64, i64)], n: i64) -> bool {
    ranges.iter().any(|(low, high)| (*low..=*high).contains(&n))
}

impl Network {
    /// Whether an address lies in it; one of the other family as manual chapter 7.1.6 tells.
    fn contains(&self, ip: IpAddr) -> bool {
        let v4 = || match ip {
            IpAddr::V4(a) => Some(a.to_bits()),
            IpAddr::V6(a) => super::network::v4_inside(a),
        };
        match *self {
            Network::V4 { addr, len } => {
                v4().is_some_and(|a| a & super::network::mask4(len) == addr)
            }
            Network::Masked { addr, mask } => v4().is_some_and(|a| a & mask == addr),
            Network::V6 { addr, len } => {
                let a = match ip {
                    IpAddr::V4(a) => a.to_ipv6_mapped(),
                    IpAddr::V6(a) => a,
                };
                a.to_bits() & super::network::mask6(len) == addr
            }
        }
    }
}
