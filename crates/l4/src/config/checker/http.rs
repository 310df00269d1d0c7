//! HTTP_GET and SSL_GET: pages and what is expected of them.

use crate::config::diagnostic::Severity;
use crate::config::keyword::{Args, Keyword, block, no_effect, works};
use crate::config::lvs::{DELAY_MAX_S, MICROSECOND};
use crate::config::model::*;

pub static HTTP: &[Keyword<Checker>] = with_common!(
    works("url", "{ path ... }", "a page to ask for", |c, a| {
        let mut url = Url::default();
        block(a.block(), URL, &mut url, a.cx, "url");
        let word = a.keyword();
        if url.path.is_empty() {
            a.error_at(word, "url needs a path");
        } else if let CheckerKind::Http(h) = &mut c.kind {
            h.urls.push(url);
        }
    }),
    works(
        "http_protocol",
        "1.0|1.0C|1.1",
        "HTTP version of the request",
        |c, a| {
            let Some(word) = a.word("1.0, 1.0C or 1.1") else {
                return;
            };
            let version = match word.text.as_str() {
                "1.0" => HttpVersion::V10,
                "1.0C" | "1.0c" => HttpVersion::V10Close,
                "1.1" => HttpVersion::V11,
                _ => {
                    return a.error_at(
                        word,
                        format!("HTTP version '{}' is none of 1.0, 1.0C, 1.1", word.text),
                    );
                }
            };
            if let CheckerKind::Http(h) = &mut c.kind {
                h.version = version;
            }
        }
    ),
    works(
        "fast_recovery",
        "[BOOL]",
        "pages are asked for without a pause while the server is down",
        |c, a| {
            let on = a.boolean().unwrap_or(true);
            if let CheckerKind::Http(h) = &mut c.kind {
                h.fast_recovery = on;
            }
        }
    ),
    works("virtualhost", "NAME", "host name", |c, a| {
        let name = a.text("a host name");
        if let CheckerKind::Http(h) = &mut c.kind {
            h.virtualhost = name;
        }
    }),
    works(
        "enable_sni",
        "[BOOL]",
        "name the host in the TLS handshake",
        |c, a| {
            let on = a.boolean().unwrap_or(true);
            if let CheckerKind::Http(h) = &mut c.kind {
                h.sni = on;
            }
        }
    ),
    works("nb_get_retry", "COUNT", "old name of retry", |c, a| {
        let word = a.keyword();
        a.dubious_at(word, "nb_get_retry is the old name of retry");
        c.retry = a.number_u32(0..=u32::MAX);
    }),
);

static URL: &[Keyword<Url>] = &[
    works("path", "PATH", "path of the page", |u, a| {
        u.path = a.text("a path").unwrap_or_default()
    }),
    works(
        "digest",
        "MD5",
        "MD5 of the body, 32 hexadecimal digits",
        |u, a| {
            let Some(word) = a.word("a digest") else {
                return;
            };
            u.digest = hex16(&word.text);
            if u.digest.is_none() {
                a.error_at(word, "a digest is 32 hexadecimal digits");
            }
        },
    ),
    works(
        "status_code",
        "CODE|RANGE ...",
        "accepted status codes",
        status_code,
    ),
    works("virtualhost", "NAME", "host name", |u, a| {
        u.virtualhost = a.text("a host name")
    }),
    works("regex", "PATTERN", "what the body must match", regex),
    works("regex_no_match", "", "the body must not match", |u, _| {
        u.regex_no_match = true
    }),
    works(
        "regex_options",
        "OPTION ...",
        "options of the pattern",
        |u, a| {
            while let Some(word) = a.optional() {
                match word.text.as_str() {
                    "caseless" => u.regex_caseless = true,
                    "multiline" => u.regex_multiline = true,
                    "dotall" => u.regex_dotall = true,
                    "utf" | "ucp" | "no_auto_capture" | "no_auto_possess" | "no_start_optimize"
                    | "no_dotstar_anchor" => {}
                    other => a.cx.report(
                        Severity::Unsupported,
                        Some(word.place()),
                        format!("regular expression option {other} is not supported yet"),
                    ),
                }
            }
        },
    ),
    no_effect("regex_stack", "START MAX", "patterns run without a stack"),
    works(
        "regex_min_offset",
        "BYTES",
        "where in the body to begin",
        |u, a| {
            u.regex_min_offset = a.number_u32(0..=u32::MAX).unwrap_or(0) as usize;
        },
    ),
    works(
        "regex_max_offset",
        "BYTES",
        "where in the body a match may begin at the latest",
        |u, a| {
            u.regex_max_offset = a.number_u32(0..=u32::MAX).map(|n| n as usize);
        },
    ),
];

fn regex(u: &mut Url, a: &mut Args<'_, '_>) {
    let Some(word) = a.word("a pattern") else {
        return;
    };
    // keepalived -t takes whatever there is; at run time it would leave the pattern out.
    if let Err(e) = regex::bytes::Regex::new(&word.text) {
        let why = e.to_string();
        let why = why.lines().last().unwrap_or_default();
        a.cx.report(
            Severity::Unsupported,
            Some(word.place()),
            format!("the pattern cannot be used: {why} (no look-around, no back references)"),
        );
    }
    u.regex = Some(word.text.clone());
}

fn status_code(u: &mut Url, a: &mut Args<'_, '_>) {
    if a.peek().is_none() {
        a.word("a status code");
    }
    while let Some(word) = a.peek() {
        let parse = |s: &str| s.parse::<u16>().ok().filter(|c| (100..=999).contains(c));
        let range = match word.text.split_once('-') {
            Some((low, high)) => parse(low).zip(parse(high)).filter(|(l, h)| l <= h),
            None => parse(&word.text).map(|c| (c, c)),
        };
        match range {
            Some(r) => u.status.push(r),
            // Another keyword may follow on the line: that is for the caller to judge.
            None if !u.status.is_empty()
                && !word.text.starts_with(|c: char| c.is_ascii_digit()) =>
            {
                return;
            }
            None => a.error_at(
                word,
                format!("'{}' is not a status code between 100 and 999", word.text),
            ),
        }
        a.optional();
    }
}

fn hex16(text: &str) -> Option<[u8; 16]> {
    let mut out = [0; 16];
    if text.len() != 32 || !text.is_ascii() {
        return None;
    }
    for (i, byte) in out.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * i..2 * i + 2)?, 16).ok()?;
    }
    Some(out)
}
