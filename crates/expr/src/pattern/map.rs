//! What a `map_*` converter holds (manual chapter 7.3.1, `map`).

use std::borrow::Cow;
use std::sync::Arc;

use super::file::Columns;
use super::list::List;
use super::method::Match;
use super::regex::expand;
use super::store::{read_values, search};
use super::view::Kind;
use crate::compile::ParseCtx;
use crate::value::{Type, Value, parse_ipv4, parse_ipv6};

/// What a map gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MapResult {
    Str,
    Int,
    Ip,
    /// The matching pattern itself (`map_*_key`).
    Key,
    /// `map_regm`: the value with `\1` replaced by what the pattern captured.
    Template,
}

impl MapResult {
    /// Whether a value can be read so; the error is a sentence with the value in it.
    pub(super) fn check(self, value: &[u8]) -> Result<(), String> {
        let text = || String::from_utf8_lossy(value);
        match self {
            MapResult::Int if int(value).is_none() => Err(format!("'{}' is not a number", text())),
            MapResult::Ip if address(value).is_none() => {
                Err(format!("'{}' is not a valid IPv4 or IPv6 address", text()))
            }
            MapResult::Template => super::regex::check_template(value),
            _ => Ok(()),
        }
    }

    pub(super) fn read(self, value: &[u8]) -> Option<Value<'static>> {
        match self {
            MapResult::Int => int(value).map(Value::Sint),
            MapResult::Ip => address(value),
            MapResult::Str | MapResult::Key | MapResult::Template => {
                Some(Value::Str(Cow::Owned(value.to_vec())))
            }
        }
    }
}

fn int(value: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(value).ok()?;
    text.parse().ok()
}

fn address(value: &[u8]) -> Option<Value<'static>> {
    parse_ipv4(value)
        .map(Value::Ipv4)
        .or_else(|| parse_ipv6(value).map(Value::Ipv6))
}

/// A map as one converter uses it.
#[derive(Debug)]
pub struct MapRef {
    list: Arc<List>,
    kind: Kind,
    result: MapResult,
    default: Option<Value<'static>>,
}

impl MapRef {
    /// The map in the file `name` as `converter` (`map`, `map_beg_int`, `map_regm`...) searches it, with the text
    /// given for "not found". The error is a sentence for the user.
    pub fn for_converter(
        converter: &str,
        name: &str,
        default: Option<&str>,
        ctx: &ParseCtx<'_>,
    ) -> Result<MapRef, String> {
        let (method, result) =
            parse_name(converter).ok_or_else(|| format!("'{converter}' is no map converter"))?;
        let default = match default {
            None => None,
            Some(text) => Some(result.read(text.as_bytes()).ok_or_else(|| {
                let what = match result {
                    MapResult::Int => "a number",
                    _ => "an address",
                };
                format!("the default '{text}' of '{converter}' is not {what}")
            })?),
        };
        let list = ctx.store.load_map(name, ctx)?;
        let kind = Kind::of(method);
        search(&list, kind, name, Columns::PatternAndValue, false, ctx)?;
        read_values(&list, result, name, ctx)?;
        Ok(MapRef {
            list,
            kind,
            result,
            default,
        })
    }

    /// What the value must be cast to before it is looked up.
    pub fn input(&self) -> Type {
        self.kind.method.expects()
    }

    /// The value for a key, the default when there is one and no pattern matches.
    pub fn lookup(&self, key: &Value<'_>) -> Option<Value<'_>> {
        let found = match self.result {
            MapResult::Key => self.list.find(self.kind, key, |pattern, _| {
                Some(Value::Str(Cow::Owned(pattern.to_vec())))
            }),
            MapResult::Template => {
                self.list
                    .find_captures(self.kind, key, |text, captures, value| {
                        let mut out = Vec::with_capacity(value.len() + 16);
                        expand(value, text, captures, &mut out);
                        Some(Value::Str(Cow::Owned(out)))
                    })
            }
            _ => self
                .list
                .find(self.kind, key, |_, value| self.result.read(value)),
        };
        found
            .flatten()
            .or_else(|| Some(self.default.as_ref()?.borrowed()))
    }
}

/// `map`, then the match method unless it is the default, then the result unless it is a string.
fn parse_name(converter: &str) -> Option<(Match, MapResult)> {
    let mut words = converter.strip_prefix("map")?.split('_');
    if !words.next()?.is_empty() {
        return None;
    }
    let result = |word: &str| match word {
        "str" => Some(MapResult::Str),
        "int" => Some(MapResult::Int),
        "ip" => Some(MapResult::Ip),
        "key" => Some(MapResult::Key),
        _ => None,
    };
    let found = match (words.next(), words.next()) {
        (None, _) => (Match::Str, MapResult::Str),
        (Some("regm"), None) => (Match::Reg, MapResult::Template),
        (Some(method), None) => (Match::parse(method)?, MapResult::Str),
        (Some(method), Some(r)) => (Match::parse(method)?, result(r)?),
    };
    (words.next().is_none() && found.0.takes_patterns()).then_some(found)
}
