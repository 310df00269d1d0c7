//! `cookie NAME ...`: persistence by cookie.

use std::sync::Arc;

use crate::cx::Cx;
use crate::diag::suggest;
use crate::line::Line;
use crate::model::{Cookie, CookieMode};
use crate::registry::{Keyword, Sections, kw};

use super::list;

#[rustfmt::skip]
pub(crate) static KEYWORDS: &[Keyword] = &[kw(
    "cookie",
    Sections::DLB,
    "<name> [ rewrite | insert | prefix ] [ indirect ] [ nocache ] [ postonly ] [ preserve ] [ httponly ] [ secure ] [ domain <domain> ]* [ maxidle <idle> ] [ maxlife <life> ] [ dynamic ] [ attr <value> ]*",
    "stay with a server by a cookie",
    cookie,
)
.ignored()];

const WORDS: [&str; 14] = [
    "rewrite", "insert", "prefix", "indirect", "nocache", "postonly", "preserve", "httponly",
    "secure", "domain", "maxidle", "maxlife", "dynamic", "attr",
];

fn cookie(cx: &mut Cx<'_>, line: &Arc<Line>) {
    if let Some(cookie) = read(cx, line) {
        cx.proxy().settings.cookie = Some(cookie);
    }
}

fn read(cx: &mut Cx<'_>, line: &Line) -> Option<Cookie> {
    let name = cx
        .need(line, line.keyword_len, "a cookie's name")?
        .to_owned();
    let mut cookie = Cookie {
        name,
        mode: CookieMode::Passive,
        indirect: false,
        nocache: false,
        postonly: false,
        preserve: false,
        httponly: false,
        secure: false,
        dynamic: false,
        domains: Vec::new(),
        maxidle_s: None,
        maxlife_s: None,
        attrs: Vec::new(),
    };
    let mut at = line.keyword_len + 1;
    while line.has(at) {
        let word = line.word(at);
        match word {
            "rewrite" => set_mode(cx, line, at, &mut cookie, CookieMode::Rewrite)?,
            "insert" => set_mode(cx, line, at, &mut cookie, CookieMode::Insert)?,
            "prefix" => set_mode(cx, line, at, &mut cookie, CookieMode::Prefix)?,
            "indirect" => cookie.indirect = true,
            "nocache" => cookie.nocache = true,
            "postonly" => cookie.postonly = true,
            "preserve" => cookie.preserve = true,
            "httponly" => cookie.httponly = true,
            "secure" => cookie.secure = true,
            "dynamic" => cookie.dynamic = true,
            "domain" => {
                at += 1;
                cookie.domains.push(domain(cx, line, at)?);
            }
            "maxidle" => {
                at += 1;
                cookie.maxidle_s = Some(seconds(cx, line, at, word)?);
            }
            "maxlife" => {
                at += 1;
                cookie.maxlife_s = Some(seconds(cx, line, at, word)?);
            }
            "attr" => {
                at += 1;
                cookie.attrs.push(attribute(cx, line, at)?);
            }
            other => {
                let hint = match suggest(other, WORDS) {
                    Some(near) => format!("did you mean '{near}'?"),
                    None => format!("it takes {}", list(&WORDS)),
                };
                cx.error(
                    line,
                    at,
                    0..0,
                    format!("'cookie' : unknown word '{other}'"),
                    Some(hint),
                );
                return None;
            }
        }
        at += 1;
    }
    Some(cookie)
}

fn set_mode(
    cx: &mut Cx<'_>,
    line: &Line,
    at: usize,
    cookie: &mut Cookie,
    mode: CookieMode,
) -> Option<()> {
    if cookie.mode != CookieMode::Passive && cookie.mode != mode {
        cx.error_at(
            line,
            at,
            "cookie modes 'rewrite', 'insert' and 'prefix' exclude each other",
        );
        return None;
    }
    cookie.mode = mode;
    Some(())
}

fn seconds(cx: &mut Cx<'_>, line: &Line, at: usize, name: &str) -> Option<u32> {
    cx.need(line, at, &format!("a time after '{name}'"))?;
    cx.time_s(line, at)
}

fn domain(cx: &mut Cx<'_>, line: &Line, at: usize) -> Option<String> {
    let domain = cx.need(line, at, "a domain after 'domain'")?.to_owned();
    if !domain.get(1..).is_some_and(|rest| rest.contains('.')) {
        cx.warn(
            line,
            at,
            format!("cookie domain '{domain}' has no embedded dot: browsers may not accept it"),
            Some("see RFC 6265, section 5.2.3".into()),
        );
    }
    match domain
        .char_indices()
        .find(|(_, c)| c.is_control() || *c == ';')
    {
        None => Some(domain),
        Some((i, c)) => {
            let message = format!(
                "character '{}' is not permitted in a cookie's domain",
                c.escape_debug()
            );
            cx.error(line, at, i..i + c.len_utf8(), message, None);
            None
        }
    }
}

fn attribute(cx: &mut Cx<'_>, line: &Line, at: usize) -> Option<String> {
    let value = cx.need(line, at, "a value after 'attr'")?;
    match value
        .char_indices()
        .find(|(_, c)| c.is_control() || *c == ';')
    {
        None => Some(value.to_owned()),
        Some((i, c)) => {
            let message = format!(
                "character '{}' is not permitted in a cookie's attribute",
                c.escape_debug()
            );
            let hint = "write one 'attr' for each attribute".into();
            cx.error(line, at, i..i + c.len_utf8(), message, Some(hint));
            None
        }
    }
}
