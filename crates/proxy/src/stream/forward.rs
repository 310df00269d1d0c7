//! The request as it goes to the server: forwarding headers, connection headers, and small readings of it.

use std::borrow::Cow;
use std::collections::HashMap;
use std::net::IpAddr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sluice_config::model::{
    Balance, ConnMode, ForwardFor, Forwarded, ForwardedValue, NormalizeUri, Options, Proxy,
};
use sluice_expr::Type;
use sluice_http::normalize::{self, InvalidEscape};
use sluice_http::{Framing, Headers, Request, Version};

use super::Stream;
use crate::backend::connect::{self, Target};

impl Stream {
    /// `option forwardfor`, `forwarded`, `originalto` and their like.
    pub fn forwarding_headers(&mut self, fe: &Proxy, be: &Proxy) {
        let client = self.sess.client.src.ip();
        if let (Some(ip), Some(ff)) = (client, be.forwardfor.as_ref().or(fe.forwardfor.as_ref())) {
            let sides = [fe.forwardfor.as_ref(), be.forwardfor.as_ref()];
            add_address(&mut self.req.headers, ff, ip, &sides);
        }
        let asked = self.sess.client.dst.ip();
        if let (Some(ip), Some(ot)) = (asked, be.originalto.as_ref().or(fe.originalto.as_ref())) {
            let sides = [fe.originalto.as_ref(), be.originalto.as_ref()];
            add_address(&mut self.req.headers, ot, ip, &sides);
        }
        if let Some(f) = &be.forwarded {
            let value = self.forwarded_value(f);
            if !value.is_empty() {
                self.req.headers.add("forwarded", value);
            }
        }
    }

    /// `option forwarded`: RFC 7239 section 4.
    fn forwarded_value(&self, f: &Forwarded) -> Vec<u8> {
        let mut parts: Vec<Vec<u8>> = Vec::new();
        if f.proto {
            parts.push(b"proto=http".to_vec());
        }
        let text = |v: &ForwardedValue, auto: Option<Vec<u8>>| match v {
            ForwardedValue::Auto => auto,
            ForwardedValue::Expr(e) => e
                .eval_as(self, Type::Str)
                .ok()
                .and_then(|s| s.value.bytes().map(<[u8]>::to_vec)),
        };
        if let Some(host) = f
            .host
            .as_ref()
            .and_then(|v| text(v, self.req.host().map(<[u8]>::to_vec)))
        {
            parts.push([b"host=", &*quoted(&host)].concat());
        }
        let node = |ip: Option<IpAddr>| {
            ip.map(|ip| match ip {
                IpAddr::V4(a) => a.to_string().into_bytes(),
                IpAddr::V6(a) => format!("[{a}]").into_bytes(),
            })
        };
        let port = |p: u16| (p != 0).then(|| p.to_string().into_bytes());
        for (name, addr, value, port_value) in [
            ("by=", &self.sess.client.dst, &f.by, &f.by_port),
            ("for=", &self.sess.client.src, &f.for_, &f.for_port),
        ] {
            if value.is_none() && port_value.is_none() {
                continue;
            }
            let mut out = value
                .as_ref()
                .and_then(|v| text(v, node(addr.ip())))
                .unwrap_or_else(|| b"unknown".to_vec());
            if let Some(p) = port_value.as_ref().and_then(|v| text(v, port(addr.port()))) {
                out.push(b':');
                out.extend_from_slice(&p);
            }
            parts.push([name.as_bytes(), &*quoted(&out)].concat());
        }
        parts.join(&b';')
    }

    /// Serialises the request for the server.
    pub fn write_request(&mut self, be: &Proxy, out: &mut Vec<u8>) {
        let n = self.req.noticed;
        strip_connection(&mut self.req.headers, n.close || n.keep_alive);
        if self.server_mode() != ConnMode::KeepAlive
            && !n.wants_upgrade()
            && !be.options.contains(Options::HTTP_PRETEND_KEEPALIVE)
        {
            // closing is what HTTP/1.0 means anyway
            if self.req.version >= Version::HTTP_11 {
                self.req.headers.add("Connection", "close");
            }
        } else if self.req.version < Version::HTTP_11 && !n.wants_upgrade() {
            self.req.headers.add("Connection", "keep-alive");
        }
        if let Some(name) = &be.http_send_name_header {
            let server = self.server_state().map(|s| s.name.clone());
            if let Some(server) = server {
                self.req.headers.set(name, server.as_bytes());
            }
        }
        self.restore_request_framing();
        if be.options.contains(Options::H1_CASE_ADJUST_BOGUS_SERVER) {
            let names = &self.w.model().global.h1_case_adjust;
            self.req.headers.adjust_names(|name| case_of(names, name));
        }
        self.req.write_to(out);
    }

    /// Writes the response's head for the client.
    pub fn write_response_head(&mut self, out: &mut Vec<u8>) {
        if self
            .frontend()
            .options
            .contains(Options::H1_CASE_ADJUST_BOGUS_CLIENT)
        {
            let names = &self.w.model().global.h1_case_adjust;
            self.res.headers.adjust_names(|name| case_of(names, name));
        }
        self.res.write_to(out);
    }

    /// `option http-restrict-req-hdr-names`: takes the odd ones out, or tells that the request is to be refused.
    pub fn has_refused_names(&mut self, fe: &Proxy) -> bool {
        let odd = |name: &[u8]| !name.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'-');
        let o = fe.options;
        if o.contains(Options::HTTP_RESTRICT_REQ_HDR_NAMES_DELETE) {
            self.req.headers.remove_matching(odd);
        }
        o.contains(Options::HTTP_RESTRICT_REQ_HDR_NAMES_REJECT)
            && self.req.headers.iter().any(|(n, _)| odd(n))
    }
}

/// Adds an address to its header, unless an exception of either side or `if-none` of all that ask for it says otherwise.
fn add_address(headers: &mut Headers, ff: &ForwardFor, ip: IpAddr, sides: &[Option<&ForwardFor>]) {
    let excepted = |f: &ForwardFor| f.except.is_some_and(|(net, len)| in_net(ip, net, len));
    if sides.iter().flatten().any(|f| excepted(f)) {
        return;
    }
    if sides.iter().flatten().all(|f| f.if_none) && headers.contains(&ff.header) {
        return;
    }
    headers.add(&ff.header, ip.to_string());
}

fn in_net(ip: IpAddr, net: IpAddr, len: u8) -> bool {
    match (ip, net) {
        (IpAddr::V4(a), IpAddr::V4(n)) => {
            let mask = u32::MAX
                .checked_shl(32 - u32::from(len.min(32)))
                .unwrap_or(0);
            u32::from(a) & mask == u32::from(n) & mask
        }
        (IpAddr::V6(a), IpAddr::V6(n)) => {
            let mask = u128::MAX
                .checked_shl(128 - u32::from(len.min(128)))
                .unwrap_or(0);
            u128::from(a) & mask == u128::from(n) & mask
        }
        _ => false,
    }
}

/// A value as RFC 7239 writes it: quoted unless it is a token.
fn quoted(v: &[u8]) -> Cow<'_, [u8]> {
    if sluice_http::is_token(v) {
        return Cow::Borrowed(v);
    }
    let mut out = vec![b'"'];
    for &b in v {
        if matches!(b, b'"' | b'\\') {
            out.push(b'\\');
        }
        out.push(b);
    }
    out.push(b'"');
    Cow::Owned(out)
}

/// How `h1-case-adjust` writes a name.
fn case_of<'a>(names: &'a HashMap<String, String>, lower: &[u8]) -> Option<&'a [u8]> {
    let name = names.get(std::str::from_utf8(lower).ok()?)?;
    Some(name.as_bytes())
}

/// Takes `close` and `keep-alive` out of the Connection header: they concern one hop (RFC 9110 section 7.6.1).
pub fn strip_connection(headers: &mut Headers, present: bool) {
    if !present {
        return;
    }
    let mut rest: Vec<u8> = Vec::new();
    for token in headers.values(b"Connection") {
        if token.eq_ignore_ascii_case(b"close")
            || token.eq_ignore_ascii_case(b"keep-alive")
            || token.is_empty()
        {
            continue;
        }
        if !rest.is_empty() {
            rest.extend_from_slice(b", ");
        }
        rest.extend_from_slice(token);
    }
    headers.remove("Connection");
    if !rest.is_empty() {
        headers.add("Connection", rest);
    }
}

/// User and password of `Basic` credentials (RFC 7617).
pub fn basic_credentials(header: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let (scheme, rest) = header.split_at_checked(6)?;
    if !scheme.eq_ignore_ascii_case(b"Basic ") {
        return None;
    }
    let decoded = STANDARD.decode(rest.trim_ascii()).ok()?;
    let colon = decoded.iter().position(|b| *b == b':')?;
    Some((decoded[..colon].to_vec(), decoded[colon + 1..].to_vec()))
}

/// How much of the body the balancing algorithm wants to see (`url_param ... check_post`).
pub fn wants_body(be: &Proxy, req: &Request) -> Option<u64> {
    match &be.balance {
        Balance::UrlParam {
            check_post: Some(max),
            ..
        } if req.method == sluice_http::Method::Post && req.framing != Framing::None => {
            Some(u64::from(*max))
        }
        _ => None,
    }
}

/// Where a backend without servers sends: `dispatch`, or with `option transparent` the address the client asked for.
pub fn direct_target(s: &Stream, be: &Proxy) -> Option<Target> {
    if let Some(addr) = &be.dispatch {
        return connect::target(addr, s);
    }
    match &s.sess.client.dst {
        sluice_expr::env::Addr::Ip(a) if be.options.contains(Options::TRANSPARENT) => {
            Some(Target::Ip(*a))
        }
        _ => None,
    }
}

/// `http-request normalize-uri`: the new target, `None` when it stays. `Err`: an escape is broken in strict mode.
pub fn normalized(req: &Request, how: NormalizeUri) -> Result<Option<Vec<u8>>, InvalidEscape> {
    let target = req.target();
    let new = match how {
        NormalizeUri::FragmentEncode => normalize::fragment_encode(target),
        NormalizeUri::FragmentStrip => normalize::fragment_strip(target),
        NormalizeUri::PathMergeSlashes => normalize::path_merge_slashes(target),
        NormalizeUri::PathStripDot => normalize::path_strip_dot(target),
        NormalizeUri::PathStripDotdot { full } => normalize::path_strip_dotdot(target, full),
        NormalizeUri::PercentDecodeUnreserved { strict } => {
            normalize::percent_decode_unreserved(target, strict)?
        }
        NormalizeUri::PercentToUppercase { strict } => {
            normalize::percent_to_uppercase(target, strict)?
        }
        NormalizeUri::QuerySortByName => normalize::query_sort_by_name(target),
    };
    Ok((new != target).then_some(new))
}
