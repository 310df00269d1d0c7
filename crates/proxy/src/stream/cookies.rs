//! Persistence by cookie (manual 4.2 `cookie`), and captured cookies.

use sluice_config::model::{Cookie, CookieCapture, CookieMode, Options, Proxy};
use sluice_http::{cookies, set_cookie};

use super::Stream;
use crate::backend::assign::{self, Attempts};

impl Stream {
    /// The server this request asks for: `use-server` rules, then the cookie.
    pub fn find_persistence(&mut self, be: &Proxy, attempts: &mut Attempts) {
        if let Some(cookie) = &be.cookie {
            self.cookie_in_request(be, cookie, attempts);
        }
        if attempts.wanted.is_none() {
            attempts.wanted = assign::use_server(self);
        }
    }

    fn cookie_in_request(&mut self, be: &Proxy, cookie: &Cookie, attempts: &mut Attempts) {
        let ignore = be
            .persist_rules
            .iter()
            .any(|r| !r.force && r.cond.eval_final(self));
        let force = be
            .persist_rules
            .iter()
            .any(|r| r.force && r.cond.eval_final(self));
        self.persistence_ignored = ignore;
        // the log shows what was done to a cookie of ours, not to the application's
        if cookie.mode == CookieMode::Passive {
            self.choose_by_cookie(be, cookie, attempts, ignore, force);
            (self.info.cookie_req, self.info.cookie_res) = (b'-', b'-');
            return;
        }
        (self.info.cookie_req, self.info.cookie_res) = (b'N', b'N');
        self.choose_by_cookie(be, cookie, attempts, ignore, force);
    }

    /// Reads the cookie, and takes the server it names if that may be.
    fn choose_by_cookie(
        &mut self,
        be: &Proxy,
        cookie: &Cookie,
        attempts: &mut Attempts,
        ignore: bool,
        force: bool,
    ) {
        let Some(value) = self.request_cookie(cookie.name.as_bytes()) else {
            return;
        };
        // `prefix` mode: server~application value; dates behind '|' in insert mode
        let (key, app_value) = match cookie.mode {
            CookieMode::Prefix => match value.iter().position(|b| *b == b'~') {
                Some(at) => (value[..at].to_vec(), Some(value[at + 1..].to_vec())),
                None => (value.clone(), None),
            },
            _ => (
                value.split(|b| *b == b'|').next().unwrap_or(b"").to_vec(),
                None,
            ),
        };
        if let Some(v) = app_value {
            self.rewrite_request_cookie(cookie.name.as_bytes(), Some(&v));
        } else if cookie.mode == CookieMode::Insert && cookie.indirect {
            self.rewrite_request_cookie(cookie.name.as_bytes(), None);
        }
        if ignore {
            self.info.cookie_req = b'U';
            return;
        }
        if let Some(out_of_date) = self.read_cookie_dates(cookie, &value) {
            self.info.cookie_req = out_of_date;
            return;
        }
        let server = self.be_state().servers.iter().find(|s| {
            s.cookie
                .load()
                .as_deref()
                .is_some_and(|c| c.as_bytes() == key)
        });
        self.info.cookie_req = match server {
            None => b'I',
            Some(s) if s.accepts_persistent() => {
                attempts.wanted = Some(s.id.index);
                attempts.forced = force || be.options.contains(Options::PERSIST);
                b'V'
            }
            Some(s) if force || be.options.contains(Options::PERSIST) => {
                attempts.wanted = Some(s.id.index);
                attempts.forced = true;
                b'D'
            }
            Some(_) => b'D',
        };
    }

    /// `maxidle`, `maxlife`: notes the cookie's dates for its renewal, and says `E` or `O` when it is out of date.
    fn read_cookie_dates(&mut self, cookie: &Cookie, value: &[u8]) -> Option<u8> {
        let mut dates = value
            .split(|b| *b == b'|')
            .skip(1)
            .map(|d| seconds_of(d).filter(|s| *s > 0));
        let (last, first) = (dates.next().flatten(), dates.next().flatten());
        self.cookie_dates = (last, first);
        let now = (self.now.wall_us / 1_000_000) as u64;
        // dates count in steps of four seconds and may lie ahead by one
        let old = |date: Option<u64>, most: Option<u32>| {
            date.zip(most).is_some_and(|(date, most)| {
                now.saturating_sub(date) > u64::from(most) || date > now + 86_400
            })
        };
        if old(first, cookie.maxlife_s) {
            Some(b'O')
        } else if old(last, cookie.maxidle_s) {
            Some(b'E')
        } else {
            None
        }
    }

    /// The first cookie of that name in the request.
    fn request_cookie(&self, name: &[u8]) -> Option<Vec<u8>> {
        self.req
            .headers
            .all(b"Cookie")
            .flat_map(Parts::new)
            .find(|p| p.name == name)
            .map(|p| p.value.to_vec())
    }

    /// Changes a cookie's value, or takes it out. All of that name go, but only the first is changed.
    fn rewrite_request_cookie(&mut self, name: &[u8], value: Option<&[u8]>) {
        let slots: Vec<_> = self.req.headers.slots(b"Cookie").collect();
        for slot in slots {
            let Some((_, line)) = self.req.headers.at(slot) else {
                continue;
            };
            if !Parts::new(line).any(|p| p.name == name) {
                continue;
            }
            let mut out: Vec<u8> = Vec::with_capacity(line.len() + value.map_or(0, <[u8]>::len));
            let mut done = false;
            for part in Parts::new(line) {
                let ours = part.name == name && !done;
                if ours && value.is_none() {
                    continue;
                }
                if !out.is_empty() {
                    out.extend_from_slice(b"; ");
                }
                match value {
                    Some(new) if ours => {
                        out.extend_from_slice(part.name);
                        out.push(b'=');
                        out.extend_from_slice(new);
                        done = true;
                    }
                    _ => out.extend_from_slice(part.text),
                }
            }
            if out.is_empty() {
                self.req.headers.remove_slot(slot);
            } else {
                self.req.headers.replace_value(slot, out);
            }
            if done {
                return;
            }
        }
    }

    /// What the response says and gets of the persistence cookie.
    pub fn cookies_in_response(&mut self) {
        let w = self.w.clone();
        let be = w.model().proxy(self.info.backend);
        let Some(cookie) = &be.cookie else { return };
        let Some(server) = self.info.server else {
            return;
        };
        let key = w.runtime().server(server).cookie.load_full();
        let name = cookie.name.as_bytes();
        let seen = self.res.headers.slots(b"Set-Cookie").find(|slot| {
            self.res
                .headers
                .at(*slot)
                .and_then(|(_, v)| set_cookie(v))
                .is_some_and(|(n, _)| n == name)
        });
        let post_only = cookie.postonly && self.req.method != sluice_http::Method::Post;
        if cookie.mode != CookieMode::Passive {
            self.info.cookie_res = if seen.is_some() { b'P' } else { b'N' };
        }
        if self.persistence_ignored {
            if cookie.mode != CookieMode::Passive {
                self.info.cookie_res = b'N';
            }
            return;
        }
        if let Some(slot) = seen {
            if cookie.preserve {
                return;
            }
            let key = match (&key, cookie.mode) {
                (Some(key), _) => key.as_str(),
                (None, CookieMode::Insert) => "",
                (None, _) => return,
            };
            let (_, line) = self.res.headers.at(slot).unwrap_or_default();
            let Some((_, value)) = set_cookie(line) else {
                return;
            };
            let at = value.as_ptr() as usize - line.as_ptr() as usize;
            let rest = &line[at + value.len()..];
            let new = match cookie.mode {
                CookieMode::Rewrite => [&line[..at], key.as_bytes(), rest].concat(),
                CookieMode::Prefix => [&line[..at], key.as_bytes(), b"~", &line[at..]].concat(),
                CookieMode::Insert => {
                    self.res.headers.remove_slot(slot);
                    self.info.cookie_res = b'D';
                    Vec::new()
                }
                CookieMode::Passive => return,
            };
            if cookie.mode != CookieMode::Insert {
                self.res.headers.replace_value(slot, new);
                self.info.cookie_res = b'R';
                return;
            }
        }
        if cookie.mode != CookieMode::Insert {
            return;
        }
        let valid = self.info.cookie_req == b'V' && !self.info.redispatched;
        // the client has the right one already, and its dates are what they should be
        let (last, first) = self.cookie_dates;
        let keep = valid
            && cookie.maxidle_s.is_none()
            && last.is_none()
            && cookie.maxlife_s.is_some() == first.is_some();
        if keep || post_only {
            return;
        }
        match key {
            Some(key) => self.insert_cookie(cookie, &key),
            // a server without a key makes the client forget
            None => self.delete_cookie(cookie),
        }
        self.info.cookie_res = if valid { b'U' } else { b'I' };
    }

    fn insert_cookie(&mut self, cookie: &Cookie, key: &str) {
        let mut value = format!("{}={key}", cookie.name).into_bytes();
        if cookie.maxidle_s.is_some() || cookie.maxlife_s.is_some() {
            let now = (self.now.wall_us / 1_000_000) as u64;
            // its age is that of the one it renews
            let first = self.cookie_dates.1.filter(|_| self.info.cookie_req == b'V');
            value.push(b'|');
            value.extend_from_slice(&date_of(now));
            if cookie.maxlife_s.is_some() {
                value.push(b'|');
                value.extend_from_slice(&date_of(first.unwrap_or(now)));
            }
        }
        value.extend_from_slice(b"; path=/");
        self.push_cookie(cookie, value);
    }

    fn delete_cookie(&mut self, cookie: &Cookie) {
        let value = format!(
            "{}=; Expires=Thu, 01-Jan-1970 00:00:01 GMT; path=/",
            cookie.name
        );
        self.push_cookie(cookie, value.into_bytes());
    }

    fn push_cookie(&mut self, cookie: &Cookie, mut value: Vec<u8>) {
        for domain in &cookie.domains {
            value.extend_from_slice(format!("; domain={domain}").as_bytes());
        }
        if cookie.httponly {
            value.extend_from_slice(b"; HttpOnly");
        }
        if cookie.secure {
            value.extend_from_slice(b"; Secure");
        }
        for attr in &cookie.attrs {
            value.extend_from_slice(format!("; {attr}").as_bytes());
        }
        self.res.headers.add("Set-Cookie", value);
        if cookie.nocache && self.response_is_cacheable() {
            self.res.headers.add("Cache-Control", "private");
        }
    }

    /// Whether a cache would keep the response (RFC 9111 section 3): by its method and status, something to tell its
    /// freshness by, and no word against it.
    fn response_is_cacheable(&self) -> bool {
        let h = &self.res.headers;
        let by_default = matches!(
            self.res.status,
            200 | 203 | 204 | 206 | 300 | 301 | 404 | 405 | 410 | 414 | 501
        );
        let readable = matches!(
            self.req.method,
            sluice_http::Method::Get | sluice_http::Method::Head
        );
        let forbidden = h.values(b"Cache-Control").any(|v| {
            [&b"no-store"[..], b"no-cache", b"private", b"max-age=0"]
                .iter()
                .any(|w| v.eq_ignore_ascii_case(w))
        });
        let fresh = ["ETag", "Last-Modified", "Expires"]
            .iter()
            .any(|n| h.contains(n))
            || h.values(b"Cache-Control").any(|v| {
                v.to_ascii_lowercase().starts_with(b"max-age") || v.starts_with(b"s-maxage")
            });
        by_default && readable && !forbidden && fresh
    }

    /// Whether the response sets a cookie that a cache could give to another client (`option checkcache`).
    pub fn response_may_leak(&self) -> bool {
        let h = &self.res.headers;
        let spared = h
            .values(b"Cache-Control")
            .any(|v| v.eq_ignore_ascii_case(b"no-cache=\"set-cookie\""));
        h.contains("Set-Cookie") && !spared && self.response_is_cacheable()
    }

    /// `capture cookie`, from the request.
    pub fn capture_request_cookie(&mut self, fe: &Proxy) {
        let Some(c) = &fe.capture_cookie else { return };
        let found = self
            .req
            .headers
            .all(b"Cookie")
            .flat_map(cookies)
            .find(|(n, _)| matches(c, n))
            .map(|(n, v)| pair(c, n, v));
        self.info.cookie_capture_req = found;
    }

    /// `capture cookie`, from the response.
    pub fn capture_response_cookie(&mut self, fe: &Proxy) {
        let Some(c) = &fe.capture_cookie else { return };
        let found = self
            .res
            .headers
            .all(b"Set-Cookie")
            .filter_map(set_cookie)
            .find(|(n, _)| matches(c, n))
            .map(|(n, v)| pair(c, n, v));
        self.info.cookie_capture_res = found;
    }
}

fn matches(c: &CookieCapture, name: &[u8]) -> bool {
    if c.prefix {
        name.starts_with(c.name.as_bytes())
    } else {
        name == c.name.as_bytes()
    }
}

/// `name=value`, as the log shows it.
fn pair(c: &CookieCapture, name: &[u8], value: &[u8]) -> Vec<u8> {
    let mut out = [name, b"=", value].concat();
    out.truncate(c.len);
    out
}

/// One part of a `Cookie` line, between semicolons or commas.
struct Part<'a> {
    name: &'a [u8],
    value: &'a [u8],
    /// As written, without the white space around it.
    text: &'a [u8],
}

/// The parts of a `Cookie` line, read leniently: what a browser sent must reach the server whatever it is.
struct Parts<'a> {
    rest: &'a [u8],
}

impl<'a> Parts<'a> {
    fn new(line: &'a [u8]) -> Self {
        Self { rest: line }
    }
}

impl<'a> Iterator for Parts<'a> {
    type Item = Part<'a>;

    fn next(&mut self) -> Option<Part<'a>> {
        while !self.rest.is_empty() {
            let mut quoted = false;
            let end = self
                .rest
                .iter()
                .position(|b| {
                    quoted ^= *b == b'"';
                    !quoted && matches!(b, b';' | b',')
                })
                .unwrap_or(self.rest.len());
            let text = self.rest[..end].trim_ascii();
            self.rest = self.rest.get(end + 1..).unwrap_or_default();
            if text.is_empty() {
                continue;
            }
            let at = text.iter().position(|b| *b == b'=');
            let (name, value) = match at {
                Some(at) => (
                    text[..at].trim_ascii_end(),
                    text[at + 1..].trim_ascii_start(),
                ),
                None => (text, &[][..]),
            };
            // a word without a value is nobody's cookie
            let name = if at.is_some() { name } else { &[] };
            return Some(Part { name, value, text });
        }
        None
    }
}

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// HAProxy's cookie dates: units of four seconds, rounded up, in 5 base-64 digits, most significant first.
fn date_of(seconds: u64) -> [u8; 5] {
    let n = (seconds + 3) >> 2;
    std::array::from_fn(|i| DIGITS[(n >> (24 - 6 * i)) as usize & 63])
}

/// The seconds of such a date.
fn seconds_of(date: &[u8]) -> Option<u64> {
    let n = date.iter().try_fold(0u64, |n, digit| {
        let value = DIGITS.iter().position(|d| d == digit)?;
        Some(n << 6 | value as u64)
    })?;
    (date.len() == 5).then_some(n << 2)
}
