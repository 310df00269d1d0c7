//! The key of hashing balancers and its hash (manual 4.2 `balance source|uri|url_param|hdr|hash|rdp-cookie`).

use sluice_config::model::Balance;
use sluice_engine::balance::hash as engine_hash;
use sluice_expr::Type;

use crate::stream::Stream;

/// The hash for this stream, `None` when the request has no such key: it goes round robin.
pub fn of(s: &Stream) -> Option<u32> {
    let be = s.backend();
    let kind = be.hash_type;
    let text = |key: &[u8]| engine_hash::of_bytes(key, kind);
    match &be.balance {
        Balance::Source => s
            .sess
            .client
            .src
            .ip()
            .map(|ip| engine_hash::of_ip(ip, kind)),
        Balance::Uri {
            len,
            depth,
            whole,
            path_only,
        } => uri_key(s, *len, *depth, *whole, *path_only).map(text),
        Balance::UrlParam { name, check_post } => {
            let from_url = param(s.req.query(), name.as_bytes());
            from_url
                .or_else(|| check_post.and_then(|_| param(&s.req_body.payload, name.as_bytes())))
                .map(text)
        }
        Balance::Header {
            name,
            use_domain_only,
        } => {
            let value = s
                .req
                .headers
                .nth_value(name.as_bytes(), 1)
                .filter(|v| !v.is_empty())?;
            Some(text(if *use_domain_only {
                domain_only(value)
            } else {
                value
            }))
        }
        Balance::Hash(e) => {
            let sample = e.eval_as(s, Type::Bin).ok()?;
            sample.value.bytes().map(text)
        }
        Balance::RdpCookie { name } => {
            let content = s.req_content.as_ref()?;
            sluice_expr::fetch::rdp_cookie(content.data(), name.as_bytes()).map(text)
        }
        _ => None,
    }
}

/// The part of the URI that is hashed.
fn uri_key(
    s: &Stream,
    len: Option<u32>,
    depth: Option<u32>,
    whole: bool,
    path_only: bool,
) -> Option<&[u8]> {
    let uri = if path_only {
        // a target without a path (`*`) has an empty one
        s.req.path_and_query().unwrap_or_default()
    } else {
        s.req.target()
    };
    let mut key = &uri[..uri.len().min(len.map_or(usize::MAX, |l| l as usize))];
    if !whole {
        key = key.split(|&b| b == b'?').next()?;
    }
    // depth counts directories: the slash that begins each, the first included
    if let Some(depth) = depth {
        let slashes = key
            .iter()
            .enumerate()
            .filter(|(_, b)| **b == b'/')
            .map(|(i, _)| i);
        if let Some(end) = slashes.skip(1).nth((depth as usize).saturating_sub(1)) {
            key = &key[..end];
        }
    }
    Some(key)
}

/// The value of `name=` in `a=b&c=d`; an empty one is a key, too.
fn param<'a>(query: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    query
        .split(|&b| b == b'&')
        .find_map(|pair| pair.strip_prefix(name)?.strip_prefix(b"="))
}

/// `use_domain_only`: of `www.example.com` the label before the last dot (`example`), of `localhost:80` all.
fn domain_only(host: &[u8]) -> &[u8] {
    let mut labels = host.rsplit(|&b| b == b'.');
    labels.next();
    labels.next().unwrap_or(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    // what HAProxy 2.6 hashes, seen by the server it chose
    #[test]
    fn domain_is_the_label_before_the_last_dot() {
        let check = |host: &str, expect: &str| {
            assert_eq!(domain_only(host.as_bytes()), expect.as_bytes(), "{host}");
        };
        check("www.example.com", "example");
        check("www.example.com:81", "example");
        check("localhost", "localhost");
        check("localhost:80", "localhost:80");
        check(".com", "");
    }

    #[test]
    fn parameters_end_at_ampersands() {
        let check = |query: &str, expect: Option<&str>| {
            let expect = expect.map(str::as_bytes);
            assert_eq!(param(query.as_bytes(), b"k"), expect, "{query}");
        };
        check("k=1&a=2", Some("1"));
        check("a=1&k=2", Some("2"));
        check("kk=1&k=2", Some("2"));
        check("k=1;2", Some("1;2"));
        check("k=", Some(""));
        check("a=1;k=2", None);
        check("k", None);
    }
}
