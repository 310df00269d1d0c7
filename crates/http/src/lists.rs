//! Lists inside header values: comma-separated items and cookies.
//!
//! Pure iterators over one value; no copy is made. The manual's `req.hdr`, `req.cook` and
//! `res.scook` stand on these.

use crate::chars::{is_blank, trim};

/// Items of one comma-separated header value, see `list_items`.
#[derive(Debug, Clone)]
pub struct ListItems<'a> {
    rest: Option<&'a [u8]>,
}

/// Splits a value at the commas that are outside double quotes (RFC 9110 section 5.6.1).
///
/// Blanks around an item are dropped; an empty item is given as an empty slice, since HAProxy
/// counts it as an occurrence too. An empty value has one empty item.
pub fn list_items(value: &[u8]) -> ListItems<'_> {
    ListItems { rest: Some(value) }
}

impl<'a> ListItems<'a> {
    /// What is not split yet, so that a caller can go on later; `None` after the last item.
    pub fn rest(&self) -> Option<&'a [u8]> {
        self.rest
    }
}

impl<'a> Iterator for ListItems<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = self.rest?;
        let end = unquoted(rest, |b| b == b',');
        self.rest = rest.get(end + 1..);
        Some(trim(rest.get(..end).unwrap_or_default()))
    }
}

/// Index of the first byte outside double quotes for which `stop` holds, or the length.
/// Inside quotes a backslash takes the next byte with it.
fn unquoted(text: &[u8], stop: impl Fn(u8) -> bool) -> usize {
    let mut quoted = false;
    let mut escaped = false;
    for (i, &byte) in text.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            _ if !quoted && stop(byte) => return i,
            _ => {}
        }
    }
    text.len()
}

/// Cookies of one `Cookie` header value, see `cookies`.
#[derive(Debug, Clone)]
pub struct Cookies<'a> {
    rest: &'a [u8],
}

/// The `name=value` pairs of a `Cookie` header, in order.
///
/// Both `;` and `,` separate, blanks around names and values are dropped, a quoted value keeps its
/// quotes and may hold separators, and a name without `=` is skipped.
pub fn cookies(value: &[u8]) -> Cookies<'_> {
    Cookies { rest: value }
}

impl<'a> Cookies<'a> {
    /// What is not split yet, so that a caller can go on later; empty after the last cookie.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

impl<'a> Iterator for Cookies<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        while !self.rest.is_empty() {
            let (pair, rest) = first_pair(self.rest);
            self.rest = rest;
            if pair.is_some() {
                return pair;
            }
        }
        None
    }
}

/// The cookie that one `Set-Cookie` header value sets; its attributes are left out.
pub fn set_cookie(value: &[u8]) -> Option<(&[u8], &[u8])> {
    first_pair(value).0
}

type Pair<'a> = (&'a [u8], &'a [u8]);

/// The first `name=value` of `text`, if that is what stands there, and what follows its separator.
fn first_pair(text: &[u8]) -> (Option<Pair<'_>>, &[u8]) {
    let separates = |b: u8| matches!(b, b';' | b',');
    let end = text
        .iter()
        .position(|&b| b == b'=' || separates(b))
        .unwrap_or(text.len());
    let name = trim(text.get(..end).unwrap_or_default());
    if text.get(end) != Some(&b'=') {
        return (None, text.get(end + 1..).unwrap_or_default());
    }
    let after = text.get(end + 1..).unwrap_or_default();
    let lead = after.iter().take_while(|&&b| is_blank(b)).count();
    let after = after.get(lead..).unwrap_or_default();
    // Quotes protect separators only when the value starts with one: `a=b"c;d` is two cookies.
    let value_end = if after.first() == Some(&b'"') {
        unquoted(after, separates)
    } else {
        after
            .iter()
            .position(|&b| separates(b))
            .unwrap_or(after.len())
    };
    let rest = after.get(value_end + 1..).unwrap_or_default();
    let value = trim(after.get(..value_end).unwrap_or_default());
    ((!name.is_empty()).then_some((name, value)), rest)
}
