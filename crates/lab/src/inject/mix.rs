//! What is sent: one request, or a weighted mix of several from a file of JSON lines.

use crate::body::{Body, Content};
use anyhow::{Context, Result, bail};
use serde::Deserialize;
use std::collections::BTreeMap;

/// Bodies up to this size are part of the request's bytes.
const INLINE_BYTES_MAX: u64 = 16 * 1024;

/// One line of a mix file:
/// `{"weight":3,"method":"POST","path":"/upload?seed=1","headers":{"X-A":"b"},"body_size":"64k","seed":1}`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// How often, against the others' weights.
    #[serde(default = "one")]
    pub weight: u32,
    /// Method.
    #[serde(default = "get")]
    pub method: String,
    /// Request target.
    pub path: String,
    /// More header fields; `Host` replaces the default one.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// Body as text.
    #[serde(default)]
    pub body: Option<String>,
    /// Size of a generated body.
    #[serde(default)]
    pub body_size: Option<String>,
    /// Seed of the generated body.
    #[serde(default)]
    pub seed: u64,
    /// Whether the body goes out chunked.
    #[serde(default)]
    pub chunked: bool,
}

fn one() -> u32 {
    1
}

fn get() -> String {
    "GET".to_owned()
}

impl Spec {
    /// A plain GET.
    #[must_use]
    pub fn get(path: &str) -> Self {
        Self {
            weight: 1,
            method: get(),
            path: path.to_owned(),
            headers: BTreeMap::new(),
            body: None,
            body_size: None,
            seed: 0,
            chunked: false,
        }
    }
}

/// A request ready to send.
#[derive(Debug, Clone)]
pub struct Request {
    /// Head, and the body too when it is small.
    pub start: Vec<u8>,
    /// A large body, made on the way.
    pub rest: Option<Body>,
    /// The method is HEAD: the answer has no body.
    pub head_only: bool,
    /// What a checked answer must hold: size and, for verifiable content, seed, as the path asks for them.
    pub expect: Option<(u64, Option<u64>)>,
}

impl Request {
    /// Bytes on the wire.
    #[must_use]
    pub fn wire_len(&self) -> u64 {
        self.start.len() as u64 + self.rest.map_or(0, |body| body.wire_len())
    }
}

/// Requests and the order in which they come.
#[derive(Debug, Clone)]
pub struct Mix {
    /// The different requests.
    pub requests: Vec<Request>,
    /// Indices into `requests`; repeated for ever.
    order: Vec<u32>,
}

impl Mix {
    /// One request, always the same. `close` asks the server to end the connection after the answer.
    ///
    /// # Errors
    /// When the method, path or a header would break the request's head.
    pub fn single(spec: &Spec, host: &str, close: bool) -> Result<Self> {
        Ok(Self {
            requests: vec![build(spec, host, close)?],
            order: vec![0],
        })
    }

    /// A mix from JSON lines; empty lines and lines that start with `#` are left out.
    ///
    /// # Errors
    /// Names the line.
    pub fn from_lines(text: &str, host: &str, close: bool) -> Result<Self> {
        let (mut requests, mut weights) = (Vec::new(), Vec::new());
        for (number, line) in text.lines().enumerate() {
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let spec: Spec = serde_json::from_str(line)
                .with_context(|| format!("line {} of the mix", number + 1))?;
            if spec.weight > 0 {
                requests.push(
                    build(&spec, host, close)
                        .with_context(|| format!("line {} of the mix", number + 1))?,
                );
                weights.push(spec.weight);
            }
        }
        if requests.is_empty() {
            bail!("the mix holds no request");
        }
        Ok(Self {
            requests,
            order: smooth(&weights),
        })
    }

    /// The request number `n` of a run.
    #[must_use]
    pub fn nth(&self, n: u64) -> u32 {
        self.order[(n % self.order.len() as u64) as usize]
    }
}

/// Smooth weighted round robin: each index as often as its weight says, spread evenly.
fn smooth(weights: &[u32]) -> Vec<u32> {
    const ORDER_MAX: u64 = 100_000;
    let total: u64 = weights.iter().map(|&w| u64::from(w)).sum();
    let mut credit = vec![0i64; weights.len()];
    (0..total.min(ORDER_MAX))
        .map(|_| {
            for (credit, &weight) in credit.iter_mut().zip(weights) {
                *credit += i64::from(weight);
            }
            // The first of the richest, as in nginx's and HAProxy's round robin.
            let best = (0..credit.len())
                .rev()
                .max_by_key(|&i| credit[i])
                .unwrap_or(0);
            credit[best] -= total as i64;
            best as u32
        })
        .collect()
}

fn build(spec: &Spec, host: &str, close: bool) -> Result<Request> {
    let clean = |text: &str| !text.is_empty() && !text.bytes().any(|c| c <= b' ' || c == 0x7f);
    if !clean(&spec.method) || !clean(&spec.path) {
        bail!("'{} {}' is no request line", spec.method, spec.path);
    }
    let body = body_of(spec)?;
    let mut head = format!("{} {} HTTP/1.1\r\n", spec.method, spec.path);
    if !spec
        .headers
        .keys()
        .any(|name| name.eq_ignore_ascii_case("host"))
    {
        head.push_str(&format!("Host: {host}\r\n"));
    }
    for (name, value) in &spec.headers {
        if !clean(name) || value.bytes().any(|c| matches!(c, b'\r' | b'\n' | 0)) {
            bail!("'{name}: {value}' is no header field");
        }
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    if let Some((body, _)) = &body {
        match body.chunk {
            Some(_) => head.push_str("Transfer-Encoding: chunked\r\n"),
            None => head.push_str(&format!("Content-Length: {}\r\n", body.len)),
        }
    }
    if close {
        head.push_str("Connection: close\r\n");
    }
    head.push_str("\r\n");
    let mut request = Request {
        start: head.into_bytes(),
        rest: None,
        head_only: spec.method == "HEAD",
        expect: expectation(&spec.path),
    };
    match body {
        Some((_, Some(text))) => request.start.extend_from_slice(text.as_bytes()),
        Some((body, None)) if body.wire_len() <= INLINE_BYTES_MAX => {
            let head_len = request.start.len();
            request.start.resize(head_len + body.wire_len() as usize, 0);
            body.fill(0, &mut request.start[head_len..]);
        }
        Some((body, None)) => request.rest = Some(body),
        None => {}
    }
    Ok(request)
}

/// The body, and its text when it was given as text.
fn body_of(spec: &Spec) -> Result<Option<(Body, Option<&str>)>> {
    const CHUNK_BYTES: u32 = 8192;
    let chunk = spec.chunked.then_some(CHUNK_BYTES);
    match (&spec.body, &spec.body_size) {
        (Some(_), Some(_)) => bail!("give body or body_size, not both"),
        (Some(_), None) if spec.chunked => bail!("chunked is for generated bodies (body_size)"),
        (Some(text), None) => Ok(Some((
            Body {
                content: Content::Text,
                len: text.len() as u64,
                chunk: None,
            },
            Some(text),
        ))),
        (None, Some(size)) => {
            let len = crate::units::parse_size(size).map_err(anyhow::Error::msg)?;
            Ok(Some((
                Body {
                    content: Content::Seeded(spec.seed),
                    len,
                    chunk,
                },
                None,
            )))
        }
        (None, None) => Ok(None),
    }
}

/// Size and seed that the origin's query language asks for.
fn expectation(path: &str) -> Option<(u64, Option<u64>)> {
    let (path, query) = path.split_once('?')?;
    if path == "/upload" || path == "/echo" {
        return None;
    }
    let of = |name: &str| {
        query
            .split('&')
            .find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
    };
    let size = crate::units::parse_size(of("s")?).ok()?;
    Some((size, of("seed").and_then(|seed| seed.parse().ok())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_kept_and_spread() {
        assert_eq!(smooth(&[5, 1, 1]), [0, 0, 1, 0, 2, 0, 0]);
        assert_eq!(smooth(&[1]), [0]);
    }

    #[test]
    fn a_request_is_what_was_asked_for() {
        let text = "# comment\n{\"path\":\"/a?s=9&seed=4\",\"headers\":{\"X\":\"y\"}}\n\n{\"method\":\"POST\",\"path\":\"/upload\",\"body\":\"hi\",\"weight\":2}\n";
        let mix = Mix::from_lines(text, "h", false).unwrap();
        assert_eq!(
            mix.requests[0].start,
            b"GET /a?s=9&seed=4 HTTP/1.1\r\nHost: h\r\nX: y\r\n\r\n"
        );
        assert_eq!(mix.requests[0].expect, Some((9, Some(4))));
        assert_eq!(
            mix.requests[1].start,
            b"POST /upload HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nhi"
        );
        assert_eq!((0..3).map(|n| mix.nth(n)).collect::<Vec<_>>(), [1, 0, 1]);
    }

    #[test]
    fn wrong_lines_are_named() {
        let check = |text: &str, expect: &str| {
            let error = format!("{:#}", Mix::from_lines(text, "h", false).unwrap_err());
            assert!(error.contains(expect), "{error}");
        };
        check("{\"path\":\"/\"}\n{\"pth\":1}", "line 2 of the mix");
        check("{\"path\":\"/ x\"}", "is no request line");
        check(
            "{\"path\":\"/\",\"headers\":{\"a\":\"b\\r\\nc: d\"}}",
            "is no header field",
        );
        check("", "holds no request");
    }
}
