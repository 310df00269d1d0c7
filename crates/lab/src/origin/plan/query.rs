//! The query string that shapes an answer.

use crate::units::{number_of_bytes, parse_time, size_of_bytes};
use std::time::Duration;

/// The query language, for `--help`.
pub const QUERY_HELP: &str = "\
Paths:
  /ANYTHING?QUERY   an object as the query asks (a file, when --root has one of that name; 404 when it has none and nothing is asked)
  /0                204 without a body
  /upload           takes a body and answers 'ok COUNT'; with seed=N it is compared: 'mismatch COUNT at OFFSET' with 422 when it differs
  /echo, /head      return the request's body, the request's head
  /                 with --name: who answers, and what came through the proxy

Query (SIZE takes k, m, g = 1024, 1024², 1024³; TIME is in ms unless it says us, ms, s, m, h):
  s=SIZE            object size (0)             status=CODE     200 to 999 (200)
  t=TIME            wait before the answer      busy=TIME       compute that long before the answer, as an application would
  slow=TIME         send in pieces, waiting that long after each; piece=SIZE (1k)
  c=random|text     incompressible (the default) or compressible, with 'Content-Type: text/html'
  seed=N            content that inject --check and integrity verify byte by byte
  chunked[=SIZE]    chunked, SIZE bytes a chunk (4k)
  nolen             no length: the body ends with the connection
  close             end the connection after the answer
  cache[=SECONDS]   'Cache-Control: max-age=SECONDS' (3600); otherwise no-store
  sendfile          zero-copy from the page cache (files always are)
  h=Name:Value      one more response header, percent-encoded; may be repeated
A switch (chunked, nolen, close, sendfile) is off with =0. httpterm's letters work too: r=CODE, k=1 (chunked), C=1 (close), c=0|1 (cacheable),
R=1 (random), S=1 (sendfile). Unknown names are left alone; a value that cannot be read is answered with 400 and the reason.";

/// Default chunk size of `chunked`.
const CHUNK_BYTES: u32 = 4096;
/// Default piece of a slow body.
const PIECE_BYTES: u64 = 1024;
/// Default age of `cache`.
const CACHE_S: u64 = 3600;
/// The longest wait one request may ask for: an origin is no place to park connections for ever.
const WAIT_MAX: Duration = Duration::from_secs(3600);
/// The longest computation: it holds up the whole thread.
const BUSY_MAX: Duration = Duration::from_secs(1);

/// The query string, read.
#[derive(Debug, Default, Clone)]
pub struct Query {
    pub(super) size: Option<u64>,
    pub(super) seed: Option<u64>,
    pub(super) text: bool,
    pub(super) status: Option<u16>,
    pub(super) chunk: Option<u32>,
    pub(super) no_length: bool,
    pub(super) close: bool,
    pub(super) sendfile: bool,
    pub(super) cache_s: Option<u64>,
    pub(super) headers: Vec<(Vec<u8>, Vec<u8>)>,
    /// Wait before the answer.
    pub wait: Duration,
    /// Computation before the answer.
    pub busy: Duration,
    /// Bytes per piece and pause after each.
    pub slow: Option<(u64, Duration)>,
}

impl Query {
    /// Reads `a=b&c`; names that it does not know it leaves alone, as servers do.
    ///
    /// # Errors
    /// A sentence about a value of a known name that cannot be read: an experiment with another object than was meant
    /// would be worse.
    pub fn read(query: &[u8]) -> Result<Self, String> {
        let mut out = Self::default();
        let mut piece = PIECE_BYTES;
        let mut pause = None;
        for pair in query.split(|&c| c == b'&').filter(|p| !p.is_empty()) {
            let mut halves = pair.splitn(2, |&c| c == b'=');
            let (name, value) = (
                halves.next().unwrap_or_default(),
                halves.next().unwrap_or_default(),
            );
            let bad = |wanted: &str| {
                let shown = String::from_utf8_lossy(pair);
                format!("'{shown}' cannot be read: {wanted}")
            };
            let size =
                || size_of_bytes(value).ok_or_else(|| bad("give a size such as 64, 16k, 1m"));
            let number = || number_of_bytes(value).ok_or_else(|| bad("give a number"));
            let time = |max| {
                time_of_bytes(value)
                    .map(|t: Duration| t.min(max))
                    .ok_or_else(|| bad("give a time such as 20, 20ms, 1s"))
            };
            match name {
                b"s" => out.size = Some(size()?),
                b"seed" => out.seed = Some(number()?),
                b"c" => match value {
                    b"text" => out.text = true,
                    b"random" => out.text = false,
                    b"1" => out.cache_s = Some(CACHE_S),
                    b"0" => out.cache_s = None,
                    _ => return Err(bad("give random or text")),
                },
                b"R" => {}
                b"status" | b"r" => {
                    let code = number()?;
                    let known = u16::try_from(code)
                        .ok()
                        .filter(|code| (200..=999).contains(code));
                    out.status = Some(known.ok_or_else(|| bad("give a status from 200 to 999"))?);
                }
                b"chunked" => {
                    let size = if value.is_empty() {
                        u64::from(CHUNK_BYTES)
                    } else {
                        size()?
                    };
                    let size = u32::try_from(size).map_err(|_| bad("give less than 4g"))?;
                    out.chunk = (size > 0).then_some(size);
                }
                b"k" => out.chunk = (value != b"0").then_some(CHUNK_BYTES),
                b"nolen" => out.no_length = value != b"0",
                b"close" | b"C" => out.close = value != b"0",
                b"sendfile" | b"S" => out.sendfile = value != b"0",
                b"cache" => out.cache_s = Some(if value.is_empty() { CACHE_S } else { number()? }),
                b"t" => out.wait = time(WAIT_MAX)?,
                b"busy" => out.busy = time(BUSY_MAX)?,
                b"slow" => pause = Some(time(WAIT_MAX)?),
                b"piece" => {
                    piece = Some(size()?)
                        .filter(|&size| size > 0)
                        .ok_or_else(|| bad("give at least 1"))?
                }
                b"h" => {
                    out.headers.push(read_header(value).ok_or_else(|| {
                        bad("give Name:Value, percent-encoded, without line ends")
                    })?)
                }
                _ => {}
            }
        }
        out.slow = pause.map(|pause| (piece, pause));
        Ok(out)
    }
}

/// A time as in [`parse_time`], but a bare number is milliseconds.
fn time_of_bytes(value: &[u8]) -> Option<Duration> {
    match number_of_bytes(value) {
        Some(ms) => Some(Duration::from_millis(ms)),
        None => parse_time(std::str::from_utf8(value).ok()?).ok(),
    }
}

/// `Name:Value`, percent-decoded; refused when it would break the head.
fn read_header(value: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let mut text = Vec::new();
    let mut rest = value;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte == b'%'
            && let Some(hex) = rest.get(..2).and_then(|h| std::str::from_utf8(h).ok())
            && let Ok(decoded) = u8::from_str_radix(hex, 16)
        {
            text.push(decoded);
            rest = &rest[2..];
        } else {
            text.push(byte);
        }
    }
    let colon = text.iter().position(|&c| c == b':')?;
    let clean = !text.iter().any(|c| matches!(c, b'\r' | b'\n' | 0));
    clean.then(|| (text[..colon].to_vec(), text[colon + 1..].to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_needs_a_pause() {
        let slow = |query: &str| Query::read(query.as_bytes()).unwrap().slow;
        let ms = Duration::from_millis;
        assert_eq!(slow("piece=2k"), None);
        assert_eq!(slow("slow=10"), Some((1024, ms(10))));
        assert_eq!(slow("slow=10&piece=2k"), Some((2048, ms(10))));
        assert_eq!(slow("slow=1s&piece=1"), Some((1, ms(1000))));
    }

    #[test]
    fn times_are_milliseconds_unless_they_say_otherwise() {
        let wait = |query: &str| Query::read(query.as_bytes()).unwrap().wait;
        assert_eq!(wait("t=20"), Duration::from_millis(20));
        assert_eq!(wait("t=250us"), Duration::from_micros(250));
        assert_eq!(wait("t=2h"), WAIT_MAX);
        let busy = Query::read(b"busy=1m").unwrap().busy;
        assert_eq!(busy, BUSY_MAX);
    }

    #[test]
    fn switches_and_httpterm_letters() {
        let read = |query: &str| Query::read(query.as_bytes()).unwrap();
        assert!(read("close").close && read("C=1").close && !read("close=0").close);
        assert_eq!(
            (
                read("chunked").chunk,
                read("chunked=2").chunk,
                read("chunked=0").chunk
            ),
            (Some(4096), Some(2), None)
        );
        assert_eq!(
            (read("k=1").chunk, read("r=404").status),
            (Some(4096), Some(404))
        );
        assert_eq!(
            (
                read("c=1").cache_s,
                read("cache").cache_s,
                read("cache=5").cache_s
            ),
            (Some(3600), Some(3600), Some(5))
        );
        assert_eq!(read("h=A:b&h=C:d").headers.len(), 2);
        assert_eq!(read("nobody=knows").size, None);
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        for query in [
            "s=12x",
            "s=",
            "status=99",
            "t=soon",
            "c=green",
            "seed=x",
            "h=nocolon",
            "h=A:b%0d%0aX:y",
            "piece=0",
            "cache=x",
        ] {
            let error = Query::read(query.as_bytes()).unwrap_err();
            assert!(
                error.starts_with(&format!("'{query}' cannot be read: ")),
                "{error}"
            );
        }
    }
}
