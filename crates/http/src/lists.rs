//! Lists inside header values: comma-separated items and cookies.
//!
//! Pure iterators over one value; no copy is made. The manual's `req.hdr`, `req.cook` and
//! `res.scook` stand on these.

use crate::chars::{find_either, is_blank, trim};

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
        // quotes are rare: the first comma ends the item unless one comes before it
        let end = match find_either(b',', b'"', rest) {
            None => rest.len(),
            Some(at) if rest.get(at) == Some(&b',') => at,
            Some(_) => unquoted(rest, |b| b == b','),
        };
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
    too_short: usize,
}

/// The `name=value` pairs of a `Cookie` header, in order.
///
/// As HAProxy reads them: commas part the value first, then `;` and `,` part the cookies, neither
/// inside quotes. Blanks around names and values are dropped, quotes stay; both may be empty. What has
/// no `=` and what begins with `$` (the attributes of RFC 2109) is skipped.
pub fn cookies(value: &[u8]) -> Cookies<'_> {
    Cookies {
        rest: value,
        too_short: 0,
    }
}

/// The same for one who looks for a name of this length (0 for any): HAProxy looks at no pair that is the last one of
/// its part and, with the blanks before it, leaves no room for more than the name and `=`.
pub fn cookies_of(value: &[u8], name_len: usize) -> Cookies<'_> {
    Cookies {
        rest: value,
        too_short: name_len + 1,
    }
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
            let item_end = unquoted(self.rest, |b| b == b',');
            let item = trim_end(self.rest.get(..item_end).unwrap_or_default());
            let (pair, taken) = match item.len() <= self.too_short {
                true => (None, item.len()),
                false => first_pair(item),
            };
            let taken = if taken < item.len() {
                taken
            } else {
                item_end + 1
            };
            self.rest = self.rest.get(taken..).unwrap_or_default();
            if pair.is_some_and(|(name, _)| name.first() != Some(&b'$')) {
                return pair;
            }
        }
        None
    }
}

/// The cookie that one `Set-Cookie` header value sets; its attributes are left out.
pub fn set_cookie(value: &[u8]) -> Option<(&[u8], &[u8])> {
    first_pair(trim_end(value)).0
}

type Pair<'a> = (&'a [u8], &'a [u8]);

/// The first `name=value` of `text`, if that is what stands there, and the length of what was read,
/// separator included.
fn first_pair(text: &[u8]) -> (Option<Pair<'_>>, usize) {
    let separates = |b: u8| matches!(b, b';' | b',');
    let name_end = text.iter().position(|&b| b == b'=' || separates(b));
    let name_end = name_end.unwrap_or(text.len());
    let value_start = name_end + 1;
    if text.get(name_end) != Some(&b'=') {
        return (None, value_start);
    }
    let after = text.get(value_start..).unwrap_or_default();
    let value_len = unquoted(after, separates);
    let name = trim(text.get(..name_end).unwrap_or_default());
    let value = trim(after.get(..value_len).unwrap_or_default());
    (Some((name, value)), value_start + value_len + 1)
}

fn trim_end(text: &[u8]) -> &[u8] {
    let end = text
        .iter()
        .rposition(|&b| !is_blank(b))
        .map_or(0, |n| n + 1);
    text.get(..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_end_at_commas_outside_quotes() {
        let items = |text: &'static str| {
            list_items(text.as_bytes())
                .map(|i| std::str::from_utf8(i).unwrap())
                .collect::<Vec<_>>()
        };
        assert_eq!(items("a, b ,,\"c,d\" "), ["a", "b", "", "\"c,d\""]);
        assert_eq!(items("\"a\\\",b\",c"), ["\"a\\\",b\"", "c"]);
        assert_eq!(items(""), [""]);
        assert_eq!(items(","), ["", ""]);
    }

    #[test]
    fn cookies_are_pairs_parted_by_semicolons() {
        let all = |text: &'static str| {
            let text_of = |part| std::str::from_utf8(part).unwrap();
            cookies(text.as_bytes())
                .map(|(n, v)| (text_of(n), text_of(v)))
                .collect::<Vec<_>>()
        };
        assert_eq!(all("a=1; b = 2 ;c"), [("a", "1"), ("b", "2")]);
        assert_eq!(
            all("a=\"x;y\"; b=x\"1;2\""),
            [("a", "\"x;y\""), ("b", "x\"1;2\"")]
        );
        assert_eq!(all("a=; b="), [("a", ""), ("b", "")]);
        assert_eq!(all("a=1,b=2"), [("a", "1"), ("b", "2")]);
        assert_eq!(all("=1;;,;"), [("", "1")]);
        assert_eq!(all("$Version=1; a=2; $Path=/"), [("a", "2")]);
        let named = |text: &'static str, len| cookies_of(text.as_bytes(), len).count();
        assert_eq!(named("a=1; b=", 1), 2);
        assert_eq!(named("a=1;b=", 1), 1);
        assert_eq!(named("a=1;b=", 0), 2);
        assert_eq!(
            set_cookie(b"id=7; Path=/; HttpOnly"),
            Some((&b"id"[..], &b"7"[..]))
        );
        assert_eq!(set_cookie(b"Secure; id=7"), None);
    }
}
