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
        self.info.cookie_req = b'N';
        let Some(value) = self.request_cookie(cookie.name.as_bytes()) else {
            return;
        };
        // `prefix` mode: server~application value; dates behind '|' in insert mode
        let (key, app_value) = match cookie.mode {
            CookieMode::Prefix => match value.iter().position(|b| *b == b'~') {
                Some(at) => (value[..at].to_vec(), Some(value[at + 1..].to_vec())),
                None => return,
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
            Some(s) if s.accepts_persistent() || force || be.options.contains(Options::PERSIST) => {
                attempts.wanted = Some(s.id.index);
                attempts.forced = force || be.options.contains(Options::PERSIST);
                b'V'
            }
            Some(_) => b'D',
        };
    }

    /// The first cookie of that name in the request.
    fn request_cookie(&self, name: &[u8]) -> Option<Vec<u8>> {
        self.req
            .headers
            .all(b"Cookie")
            .flat_map(cookies)
            .find(|(n, _)| *n == name)
            .map(|(_, v)| v.to_vec())
    }

    /// Changes a cookie's value, or takes it out.
    fn rewrite_request_cookie(&mut self, name: &[u8], value: Option<&[u8]>) {
        let slots: Vec<_> = self.req.headers.slots(b"Cookie").collect();
        for slot in slots {
            let Some((_, line)) = self.req.headers.at(slot) else {
                continue;
            };
            let mut found = false;
            let mut out: Vec<u8> = Vec::with_capacity(line.len());
            for (n, v) in cookies(line) {
                let v = if n == name && !found {
                    found = true;
                    match value {
                        Some(new) => new,
                        None => continue,
                    }
                } else {
                    v
                };
                if !out.is_empty() {
                    out.extend_from_slice(b"; ");
                }
                out.extend_from_slice(n);
                out.push(b'=');
                out.extend_from_slice(v);
            }
            if !found {
                continue;
            }
            if out.is_empty() {
                self.req.headers.remove_slot(slot);
            } else {
                self.req.headers.replace_value(slot, out);
            }
            return;
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
        self.info.cookie_res = if seen.is_some() { b'P' } else { b'N' };
        if let Some(slot) = seen {
            if cookie.preserve {
                return;
            }
            let Some(key) = &key else { return };
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
                    return self.insert_cookie(cookie, key, post_only);
                }
                CookieMode::Passive => return,
            };
            self.res.headers.replace_value(slot, new);
            self.info.cookie_res = b'R';
            return;
        }
        if cookie.mode != CookieMode::Insert {
            return;
        }
        let valid = self.info.cookie_req == b'V' && !self.info.redispatched;
        match key {
            // the client has the right one already
            Some(_) if cookie.indirect && valid => {}
            Some(_) if valid && cookie.maxidle_s.is_none() && cookie.maxlife_s.is_none() => {}
            Some(key) => self.insert_cookie(cookie, &key, post_only),
            // a server without a key makes the client forget the one it may have
            None if !valid && !post_only => self.delete_cookie(cookie),
            None => {}
        }
    }

    fn insert_cookie(&mut self, cookie: &Cookie, key: &str, post_only: bool) {
        if post_only {
            return;
        }
        let mut value = format!("{}={key}", cookie.name).into_bytes();
        if cookie.maxidle_s.is_some() || cookie.maxlife_s.is_some() {
            let now = (self.now.wall_us / 1_000_000) as u64;
            value.push(b'|');
            value.extend_from_slice(&date_of(now));
            if cookie.maxlife_s.is_some() {
                value.push(b'|');
                value.extend_from_slice(&date_of(now));
            }
        }
        value.extend_from_slice(b"; path=/");
        self.push_cookie(cookie, value);
        self.info.cookie_res = b'I';
    }

    fn delete_cookie(&mut self, cookie: &Cookie) {
        let value = format!(
            "{}=; Expires=Thu, 01-Jan-1970 00:00:01 GMT; path=/",
            cookie.name
        );
        self.push_cookie(cookie, value.into_bytes());
        self.info.cookie_res = b'I';
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

/// HAProxy's cookie dates: seconds in 5 base-64 digits, most significant first.
fn date_of(seconds: u64) -> [u8; 5] {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::array::from_fn(|i| DIGITS[(seconds >> (24 - 6 * i)) as usize & 63])
}
