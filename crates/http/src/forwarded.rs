//! The `Forwarded` header (RFC 7239): what the converters `rfc7239_*` and `option forwarded` need.
//!
//! Reads one header value into elements and nodes, and writes nodes. Strict as section 4 has it, no
//! blanks around `;` and `=`; of parameters only the four registered ones are known (section 5), as
//! in HAProxy, whose `proto` is `http` or `https`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::chars::{is_token, is_token_byte, trim};
use crate::uri::split_host_port;

/// One element of a `Forwarded` value: what one proxy says of one hop. Values are without quotes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Element {
    pub proto: Option<String>,
    pub host: Option<String>,
    pub by: Option<String>,
    pub for_: Option<String>,
}

impl Element {
    /// The parameter called `name` in lower case: `proto`, `host`, `by` or `for`.
    pub fn field(&self, name: &str) -> Option<&str> {
        match name {
            "proto" => self.proto.as_deref(),
            "host" => self.host.as_deref(),
            "by" => self.by.as_deref(),
            "for" => self.for_.as_deref(),
            _ => None,
        }
    }

    /// Takes one parameter; `None` when it is unknown, there already, or its value is not allowed.
    fn set(&mut self, name: &str, value: String) -> Option<()> {
        let valid = match name {
            "proto" => matches!(&*value, "http" | "https"),
            "host" => is_host(&value),
            _ => Node::parse(&value).is_some(),
        };
        let place = match name {
            "proto" => &mut self.proto,
            "host" => &mut self.host,
            "by" => &mut self.by,
            "for" => &mut self.for_,
            _ => return None,
        };
        if !valid || place.is_some() {
            return None;
        }
        *place = Some(value);
        Some(())
    }
}

/// Whether `value` is a well-formed `Forwarded` header value (`rfc7239_is_valid`).
pub fn is_valid(value: &[u8]) -> bool {
    parse(value).is_some()
}

/// The elements of a `Forwarded` header value, the first hop first; `None` unless all are well formed.
pub fn parse(value: &[u8]) -> Option<Vec<Element>> {
    crate::lists::list_items(value).map(element).collect()
}

/// The parameter `name` of the first element that has it, without quotes (`rfc7239_field`); `None` too
/// when the value is not well formed.
pub fn field(value: &[u8], name: &str) -> Option<String> {
    let elements = parse(value)?;
    elements
        .iter()
        .find_map(|e| e.field(name))
        .map(str::to_owned)
}

fn element(text: &[u8]) -> Option<Element> {
    let mut element = Element::default();
    let mut rest = trim(text);
    loop {
        let name_len = rest
            .iter()
            .position(|&b| !is_token_byte(b))
            .filter(|&n| n > 0)?;
        let (name, after) = rest.split_at(name_len);
        let (value, after) = parameter_value(after.strip_prefix(b"=")?)?;
        let name = std::str::from_utf8(name).ok()?.to_ascii_lowercase();
        element.set(&name, value)?;
        match after {
            [] => return Some(element),
            [b';', next @ ..] => rest = next,
            _ => return None,
        }
    }
}

/// A token or a quoted string (RFC 9110 section 5.6.4), and what follows it.
fn parameter_value(text: &[u8]) -> Option<(String, &[u8])> {
    let Some(quoted) = text.strip_prefix(b"\"") else {
        let end = text
            .iter()
            .position(|&b| !is_token_byte(b))
            .unwrap_or(text.len());
        let (value, rest) = text.split_at(end);
        let value = std::str::from_utf8(value).ok().filter(|v| !v.is_empty())?;
        return Some((value.to_owned(), rest));
    };
    let mut value = Vec::new();
    let mut bytes = quoted.iter().enumerate();
    while let Some((at, &byte)) = bytes.next() {
        match byte {
            b'"' => return Some((String::from_utf8(value).ok()?, quoted.get(at + 1..)?)),
            b'\\' => value.push(*bytes.next()?.1),
            0..0x20 | 0x7f => return None,
            _ => value.push(byte),
        }
    }
    None
}

/// Whether `text` can be a Host header: a name or address, and a port if any.
fn is_host(text: &str) -> bool {
    let (name, port) = split_host_port(text.as_bytes());
    let port_fine = port.is_none_or(|p| !p.is_empty() && p.iter().all(u8::is_ascii_digit));
    let bracketed = name
        .strip_prefix(b"[")
        .and_then(|rest| rest.strip_suffix(b"]"));
    let name_fine = match bracketed.map(std::str::from_utf8) {
        Some(inner) => inner.is_ok_and(|t| t.parse::<Ipv6Addr>().is_ok()),
        // reg-name of RFC 3986 section 3.2.2.
        None => name
            .iter()
            .all(|&b| b.is_ascii_alphanumeric() || b"-._~%!$&'()*+,;=".contains(&b)),
    };
    !name.is_empty() && name_fine && port_fine && !text.contains('@')
}

/// Who a hop was: the value of `by` and `for` (RFC 7239 section 6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Node<'a> {
    pub name: NodeName<'a>,
    pub port: Option<NodePort<'a>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeName<'a> {
    Ip(IpAddr),
    Unknown,
    /// Starts with an underscore.
    Obfuscated(&'a str),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodePort<'a> {
    Number(u16),
    /// Starts with an underscore.
    Obfuscated(&'a str),
}

impl<'a> Node<'a> {
    /// Reads a node without quotes: `192.0.2.1`, `[2001:db8::1]:80`, `unknown`, `_hidden:_port`. Its
    /// parts are what `rfc7239_n2nn` and `rfc7239_n2np` give.
    pub fn parse(text: &'a str) -> Option<Node<'a>> {
        let name_len = match text.starts_with('[') {
            true => text.find(']')? + 1,
            false => text.find(':').unwrap_or(text.len()),
        };
        let (name, port) = text.split_at_checked(name_len)?;
        let name = match name {
            "unknown" => NodeName::Unknown,
            _ if is_obfuscated(name) => NodeName::Obfuscated(name),
            _ => NodeName::Ip(node_address(name)?),
        };
        let port = match port.strip_prefix(':') {
            None if port.is_empty() => None,
            None => return None,
            Some(hidden) if is_obfuscated(hidden) => Some(NodePort::Obfuscated(hidden)),
            Some(number) => Some(NodePort::Number(node_port(number)?)),
        };
        Some(Node { name, port })
    }
}

fn node_address(text: &str) -> Option<IpAddr> {
    match text.strip_prefix('[').and_then(|t| t.strip_suffix(']')) {
        Some(inner) => inner.parse::<Ipv6Addr>().ok().map(IpAddr::V6),
        None => text.parse::<Ipv4Addr>().ok().map(IpAddr::V4),
    }
}

/// One to five digits (section 6.3), no more than a port can be.
fn node_port(text: &str) -> Option<u16> {
    let digits = (1..=5).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| text.parse().ok())?
}

/// `_` and one or more letters, digits, `.`, `_` or `-` (section 6.3).
fn is_obfuscated(text: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    text.strip_prefix('_')
        .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(allowed))
}

/// An address as a node name: an IPv6 address in brackets.
pub fn node_name(ip: IpAddr) -> String {
    match ip {
        IpAddr::V4(v4) => v4.to_string(),
        IpAddr::V6(v6) => format!("[{v6}]"),
    }
}

/// A parameter value as it is written: in quotes unless it is a token, so an IPv6 address or a port
/// always is (section 4).
pub fn quote_if_needed(value: &str) -> String {
    if is_token(value.as_bytes()) {
        return value.to_owned();
    }
    let mut out = String::with_capacity(value.len() + 2);
    out.push('"');
    for c in value.chars() {
        if matches!(c, '"' | '\\') {
            out.push('\\');
        }
        out.push(c);
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_the_rfc_and_the_manual_are_valid() {
        for value in [
            "for=127.0.0.1;proto=http",
            "for=\"_gazonk\"",
            "For=\"[2001:db8:cafe::17]:4711\"",
            "for=192.0.2.60;proto=http;by=203.0.113.43",
            "for=192.0.2.43, for=198.51.100.17",
            "for=192.0.2.43,for=\"[2001:db8:cafe::17]\",for=unknown",
            "for=_hidden, for=_SEVKISEK",
            "proto=https;host=\"haproxy.org:80\"",
            "host=example.com;by=\"_a:_b\"",
        ] {
            assert!(is_valid(value.as_bytes()), "{value}");
        }
    }

    #[test]
    fn what_the_grammar_has_not_is_invalid() {
        for value in [
            "",
            "proto=custom",
            "for",
            "for=",
            "for=127.0.0.1;",
            ";for=127.0.0.1",
            "for=127.0.0.1; proto=http",
            "for =127.0.0.1",
            "for= 127.0.0.1",
            "for=127.0.0.1;for=127.0.0.1",
            "for=127.0.0.1:80",
            "for=[::1]",
            "for=\"::1\"",
            "for=\"127.0.0.1:\"",
            "for=\"127.0.0.1:99999\"",
            "for=\"127.0.0.1:123456\"",
            "for=\"127.0.0.1",
            "for=_",
            "for=\"_a b\"",
            "for=name",
            "for=127.0.0.1,",
            "secret=1",
            "host=\"a b\"",
            "host=\"a:\"",
            "host=\"u@a\"",
        ] {
            assert!(!is_valid(value.as_bytes()), "{value}");
        }
    }

    #[test]
    fn fields_come_without_quotes_from_the_first_element_that_has_them() {
        let value = b"for=\"127.0.0.1:9999\", proto=https;host=\"haproxy.org:80\";for=_x";
        assert_eq!(field(value, "host").as_deref(), Some("haproxy.org:80"));
        assert_eq!(field(value, "for").as_deref(), Some("127.0.0.1:9999"));
        assert_eq!(field(value, "proto").as_deref(), Some("https"));
        assert_eq!(field(value, "by"), None);
        assert_eq!(field(b"for=127.0.0.1;proto=x", "for"), None);
    }

    #[test]
    fn nodes_have_a_name_and_a_port() {
        let check = |text, name, port| assert_eq!(Node::parse(text), Some(Node { name, port }));
        let ip = |text: &str| NodeName::Ip(text.parse().unwrap());
        check(
            "127.0.0.1:9999",
            ip("127.0.0.1"),
            Some(NodePort::Number(9999)),
        );
        check("[::1]", ip("::1"), None);
        check("[::1]:_p", ip("::1"), Some(NodePort::Obfuscated("_p")));
        check("unknown:1", NodeName::Unknown, Some(NodePort::Number(1)));
        check(
            "_name:_port",
            NodeName::Obfuscated("_name"),
            Some(NodePort::Obfuscated("_port")),
        );
        for bad in [
            "",
            ":",
            "[::1",
            "[::1]x",
            "[127.0.0.1]",
            "::1",
            "a",
            "1.2.3.4:+1",
            "1.2.3.4:_",
        ] {
            assert_eq!(Node::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn written_values_are_read_back() {
        for node in ["[::1]:80", "127.0.0.1", "_a:_b", "unknown"] {
            let value = format!("for={}", quote_if_needed(node));
            assert_eq!(field(value.as_bytes(), "for").as_deref(), Some(node));
        }
        assert_eq!(node_name("::1".parse().unwrap()), "[::1]");
        assert_eq!(quote_if_needed("a\"b\\"), r#""a\"b\\""#);
    }
}
