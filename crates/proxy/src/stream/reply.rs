//! Responses the proxy makes itself: errors, `return`, `deny`, redirects, authentication, pages.
//!
//! Each fills `Stream::res` and gives the body; sending is the same for all (`http::answer`).

use std::sync::Arc;

use sluice_config::model::{ErrorReply, Proxy, Redirect, RedirectKind, Reply, ReplyContent};
use sluice_http::{
    Framing, HeadScan, Limits, Method, Parsed, Response, Version, default_errors::default_error,
    parse_response, reason,
};

use super::Stream;
use sluice_control::page::Page;

/// A response made by the proxy, whose head is in `Stream::res`.
pub struct Local {
    pub body: Vec<u8>,
    /// The connection ends after it, whatever the client asked for.
    pub close: bool,
    /// Nothing at all is to be sent (an empty errorfile): just close.
    pub silent: bool,
    /// The status the log shows when a file says another one than was decided on.
    pub status: Option<u16>,
}

impl Local {
    fn new(body: Vec<u8>) -> Self {
        Local {
            body,
            close: false,
            silent: false,
            status: None,
        }
    }
}

impl Stream {
    /// The error page for `status`: the backend's, the frontend's, the built-in one.
    pub fn error_response(&mut self, status: u16) -> Local {
        let w = self.w.clone();
        let (fe, be) = (
            w.model().proxy(self.info.frontend),
            w.model().proxy(self.info.backend),
        );
        let custom = |p: &Proxy| {
            p.errors
                .by_status
                .iter()
                .rev()
                .find(|(s, _)| *s == status)
                .map(|(_, r)| r.clone())
        };
        match custom(be).or_else(|| custom(fe)) {
            Some(ErrorReply::Raw(raw)) => self.raw_response(&raw, status),
            Some(ErrorReply::Location { code, url }) => {
                self.start_response(code);
                self.res.headers.add("Content-Length", "0");
                self.res.headers.add("Location", url.as_bytes());
                self.res.headers.add("Cache-Control", "no-cache");
                Local {
                    status: Some(status),
                    ..Local::new(Vec::new())
                }
            }
            Some(ErrorReply::Reply(r)) => self.reply_response(&r),
            None => self.builtin_error(status),
        }
    }

    fn builtin_error(&mut self, status: u16) -> Local {
        match default_error(status) {
            Some(page) => {
                page.head(&mut self.res);
                self.has_res = true;
                Local {
                    body: page.body.as_bytes().to_vec(),
                    close: page.close,
                    silent: false,
                    status: None,
                }
            }
            None => {
                self.start_response(status);
                self.res.headers.add("Content-Length", "0");
                Local::new(Vec::new())
            }
        }
    }

    /// A whole response from a file, checked when the configuration was loaded.
    fn raw_response(&mut self, raw: &Arc<[u8]>, status: u16) -> Local {
        if raw.is_empty() {
            return Local {
                body: Vec::new(),
                close: true,
                silent: true,
                status: Some(status),
            };
        }
        let limits = Limits {
            head_max: raw.len() + 1,
            ..Limits::default()
        };
        self.has_res = true;
        match parse_response(
            raw,
            &mut HeadScan::new(),
            &limits,
            Method::Get,
            &mut self.res,
        ) {
            Ok(Parsed::Complete { consumed }) => {
                let body = raw[consumed..].to_vec();
                let close = self.res.noticed.close;
                self.finish_length(&body);
                Local {
                    body,
                    close,
                    silent: false,
                    status: Some(status),
                }
            }
            _ => {
                self.start_response(500);
                self.finish_length(b"");
                Local::new(Vec::new())
            }
        }
    }

    /// `return`, `deny`, `tarpit` and `http-error` replies.
    pub fn reply_response(&mut self, r: &Reply) -> Local {
        let body = match &r.content {
            ReplyContent::Default => return self.error_response(r.status),
            ReplyContent::Raw(raw) => return self.raw_response(raw, r.status),
            ReplyContent::Empty => Vec::new(),
            ReplyContent::Bytes(b) => b.to_vec(),
            ReplyContent::Format(f) => self.render(f),
        };
        // the headers' formats may look at a response that is being replaced: evaluate before it goes
        let headers: Vec<_> = r
            .headers
            .iter()
            .map(|(n, f)| (n.as_str(), self.render(f)))
            .collect();
        self.start_response(r.status);
        self.finish_length(&body);
        if let Some(t) = r.content_type.as_ref().filter(|_| !body.is_empty()) {
            self.res.headers.add("Content-Type", t.as_bytes());
        }
        for (name, value) in headers {
            // an empty one is left out, as HAProxy does
            if !value.is_empty() {
                self.res.headers.add(name, value);
            }
        }
        Local::new(body)
    }

    /// `redirect location|prefix|scheme` (manual 4.2). `None` when `ignore-empty` has nothing to say.
    pub fn redirect_response(&mut self, r: &Redirect) -> Option<Local> {
        let target = self.redirect_target(r)?;
        let cookie = r.set_cookie.as_ref().map(|format| self.render(format));
        self.start_response(r.code);
        self.res.headers.add("Content-Length", "0");
        self.res.headers.add("Location", target);
        if matches!(r.code, 302 | 303 | 307) {
            self.res.headers.add("Cache-Control", "no-cache");
        }
        if let Some(cookie) = cookie {
            self.res.headers.add("Set-Cookie", cookie);
        }
        Some(Local::new(Vec::new()))
    }

    pub fn redirect_target(&self, r: &Redirect) -> Option<Vec<u8>> {
        let path = if r.drop_query {
            self.req.path()
        } else {
            self.req.path_and_query()
        }
        .unwrap_or(b"/");
        let (mut out, path) = match &r.kind {
            RedirectKind::Location(f) => {
                let mut location = self.render(f);
                if r.ignore_empty && location.is_empty() {
                    return None;
                }
                let query = self.req.query();
                if r.keep_query && !query.is_empty() {
                    location.push(if location.contains(&b'?') { b'&' } else { b'?' });
                    location.extend_from_slice(query);
                }
                return Some(location);
            }
            RedirectKind::Prefix(f) => {
                let prefix = self.render(f);
                if r.ignore_empty && prefix.is_empty() {
                    return None;
                }
                // "/" alone means: same place, used to set a cookie
                (if prefix == b"/" { Vec::new() } else { prefix }, path)
            }
            RedirectKind::Scheme(f) => {
                let mut out = self.render(f);
                if r.ignore_empty && out.is_empty() {
                    return None;
                }
                out.extend_from_slice(b"://");
                out.extend_from_slice(self.req.host().unwrap_or(b""));
                (out, path)
            }
        };
        out.extend_from_slice(path);
        if r.append_slash && !path.ends_with(b"/") {
            out.push(b'/');
        }
        Some(out)
    }

    /// A server with `redir`: GET and HEAD requests for it are sent to its prefix instead.
    pub fn server_redirect(&mut self) -> Option<Local> {
        let prefix = self.server_state()?.conf.redir.clone()?;
        if !matches!(self.req.method, Method::Get | Method::Head) {
            return None;
        }
        let location = [prefix.as_bytes(), self.req.path_and_query().unwrap_or(b"/")].concat();
        self.terminate(b'L', b'C');
        self.start_response(302);
        self.res.headers.add("Cache-Control", "no-cache");
        self.res.headers.add("Content-Length", "0");
        self.res.headers.add("Location", location);
        Some(Local {
            close: true,
            ..Local::new(Vec::new())
        })
    }

    /// 401 or 407 with the realm (`http-request auth`, `stats auth`).
    pub fn auth_response(&mut self, realm: &str, to_proxy: bool) -> Local {
        let (status, name) = if to_proxy {
            (407, "Proxy-Authenticate")
        } else {
            (401, "WWW-Authenticate")
        };
        let local = self.error_response(status);
        let escaped = realm.replace('\\', "\\\\").replace('"', "\\\"");
        self.res
            .headers
            .add(name, format!("Basic realm=\"{escaped}\""));
        local
    }

    /// A page made by the control side.
    pub fn page_response(&mut self, page: Page) -> Local {
        self.start_response(page.status);
        self.res.headers.add("Cache-Control", "no-cache");
        if !page.content_type.is_empty() {
            self.res.headers.add("Content-Type", page.content_type);
        }
        for (name, value) in &page.headers {
            self.res.headers.add(name, value.as_bytes());
        }
        self.finish_length(&page.body);
        Local::new(page.body)
    }

    /// An empty response head with `status`.
    pub fn start_response(&mut self, status: u16) {
        self.res.clear();
        self.res.version = Version::HTTP_11;
        self.res.set_status(status, Some(reason(status).as_bytes()));
        self.has_res = true;
    }

    fn finish_length(&mut self, body: &[u8]) {
        let r: &mut Response = &mut self.res;
        r.headers.remove("Transfer-Encoding");
        // a 204 has no content, not even one of length 0 (RFC 9110 section 8.6)
        if r.status != 204 {
            r.headers.set("Content-Length", body.len().to_string());
        }
        r.framing = Framing::Length(body.len() as u64);
    }
}
