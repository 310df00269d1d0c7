//! What a `map_*` converter holds.

use crate::compile::ParseCtx;
use crate::value::{Type, Value};

/// What a map gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MapResult {
    Str,
    Int,
    Ip,
    /// The matching key itself (`map_*_key`).
    Key,
    /// `map_regm`: the value with `\1` replaced by what the key captured.
    Template,
}

/// A map as one converter uses it.
#[derive(Debug)]
pub struct MapRef {
    input: Type,
}

impl MapRef {
    /// The map behind `converter` (`map`, `map_beg_int`, `map_regm`...), with the text given for "not found". The error
    /// is a sentence for the user.
    pub fn for_converter(
        converter: &str,
        _reference: &str,
        _default: Option<&str>,
        _ctx: &ParseCtx<'_>,
    ) -> Result<MapRef, String> {
        Err(format!("{converter} is being built"))
    }

    /// What the value must be cast to before it is looked up.
    pub fn input(&self) -> Type {
        self.input
    }

    /// The value for a key, the default when there is one and no key matches.
    pub fn lookup(&self, _key: &Value<'_>) -> Option<Value<'static>> {
        None
    }
}
