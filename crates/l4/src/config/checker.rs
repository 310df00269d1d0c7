//! The checker blocks of a real server.

use super::diagnostic::Severity;
use super::keyword::{Args, Keyword, block, no_effect, split_command, works};
use super::lvs::{DELAY_MAX_S, MICROSECOND};
use super::model::*;

/// Generates the options every checker has; `Checker` is the target of all checker tables.
macro_rules! with_common {
    ($($own:expr),* $(,)?) => {
        &[
            works("connect_ip", "ADDRESS", "address to connect to", |c, a| c.connect_ip = a.address()),
            works("connect_port", "PORT", "port to connect to", |c, a| c.connect_port = a.port()),
            works("bindto", "ADDRESS", "address to connect from", |c, a| c.bind_ip = a.address()),
            works("bind_port", "PORT", "port to connect from", |c, a| c.bind_port = a.port()),
            works("bind_if", "INTERFACE", "interface to connect through", |c, a| c.bind_interface = a.interface()),
            works("fwmark", "MARK", "mark on the check's packets", |c, a| c.fwmark = a.number_u32(0..=u32::MAX)),
            works("alpha", "[BOOL]", "starts down", |c, a| c.alpha = a.boolean()),
            works("connect_timeout", "SECONDS", "time to connect", |c, a| c.connect_timeout_us = a.seconds(MICROSECOND..=4294.0)),
            works("retry", "COUNT", "checks made again before the server is down", |c, a| c.retry = a.number_u32(0..=u32::MAX)),
            works("delay_before_retry", "SECONDS", "time before a failed check is made again", |c, a| c.delay_before_retry_us = a.seconds(0.0..=DELAY_MAX_S)),
            works("warmup", "SECONDS", "most random delay before the first check", |c, a| c.warmup_us = a.seconds(0.0..=DELAY_MAX_S)),
            works("delay_loop", "SECONDS", "time between checks", |c, a| c.delay_loop_us = a.seconds(MICROSECOND..=DELAY_MAX_S)),
            works("log_all_failures", "[BOOL]", "log every failure, not only the last", |c, a| c.log_all_failures = a.boolean().unwrap_or(true)),
            $($own),*
        ]
    };
}

pub static TCP: &[Keyword<Checker>] = with_common!();
pub static PING: &[Keyword<Checker>] = with_common!();

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

pub static SMTP: &[Keyword<Checker>] = with_common!(
    works("helo_name", "NAME", "name said to the server", |c, a| {
        c.kind = CheckerKind::Smtp {
            helo: a.text("a name"),
        };
    }),
    works("host", "{ ... }", "where to connect", |c, a| block(
        a.block(),
        TCP,
        c,
        a.cx,
        "host"
    )),
);

static DNS_TYPES: &[(&str, u16)] = &[
    ("A", 1),
    ("NS", 2),
    ("CNAME", 5),
    ("SOA", 6),
    ("MX", 15),
    ("TXT", 16),
    ("AAAA", 28),
];

pub static DNS: &[Keyword<Checker>] = with_common!(
    works(
        "type",
        "A|NS|CNAME|SOA|MX|TXT|AAAA",
        "record asked for",
        |c, a| {
            let Some(word) = a.word("a record type") else {
                return;
            };
            match DNS_TYPES.iter().find(|(n, _)| *n == word.text) {
                Some((_, number)) => {
                    if let CheckerKind::Dns { record, .. } = &mut c.kind {
                        *record = *number;
                    }
                }
                None => a.error_at(
                    word,
                    format!(
                        "record type '{}' is none of A, NS, CNAME, SOA, MX, TXT, AAAA",
                        word.text
                    ),
                ),
            }
        }
    ),
    works("name", "DOMAIN", "name asked for", |c, a| {
        let Some(word) = a.word("a domain name") else {
            return;
        };
        let bare = word.text.trim_end_matches('.');
        if word.text.len() > 253
            || (word.text != "." && bare.split('.').any(|l| l.is_empty() || l.len() > 63))
        {
            return a.error_at(word, format!("'{}' is not a domain name", word.text));
        }
        if let CheckerKind::Dns { name, .. } = &mut c.kind {
            *name = word.text.clone();
        }
    }),
);

pub static UDP: &[Keyword<Checker>] = with_common!(
    works("payload", "HEX", "bytes to send", |c, a| {
        let text = a.node.rest(a.at);
        let keyword = a.keyword();
        a.skip();
        match hex_bytes(&text, false) {
            Some(bytes) if !bytes.is_empty() => {
                if let CheckerKind::Udp(u) = &mut c.kind {
                    u.payload = Some(bytes.iter().map(|(v, _)| *v).collect());
                }
            }
            _ => a.error_at(keyword, "payload needs hexadecimal bytes"),
        }
    }),
    works(
        "require_reply",
        "[HEX]",
        "an answer must come, and begin with these bytes",
        |c, a| {
            let text = a.node.rest(a.at);
            let keyword = a.keyword();
            a.skip();
            match hex_bytes(&text, true) {
                Some(bytes) => {
                    if let CheckerKind::Udp(u) = &mut c.kind {
                        u.require_reply = true;
                        u.reply = bytes;
                    }
                }
                None => a.error_at(
                    keyword,
                    "require_reply takes hexadecimal digits, or X for any",
                ),
            }
        }
    ),
    works("min_reply_length", "BYTES", "shortest answer", |c, a| {
        let n = a.number_u32(0..=65507).unwrap_or(0) as u16;
        if let CheckerKind::Udp(u) = &mut c.kind {
            u.reply_min = n;
        }
    }),
    works("max_reply_length", "BYTES", "longest answer", |c, a| {
        let n = a.number_u32(0..=65507).unwrap_or(255) as u16;
        if let CheckerKind::Udp(u) = &mut c.kind {
            u.reply_max = n;
        }
    }),
);

/// keepalived's free form: `Ab12f 3 456` is AB 12 0F 03 45 06. Gives value and mask of each byte.
fn hex_bytes(text: &str, wildcards: bool) -> Option<Vec<(u8, u8)>> {
    let mut out = Vec::new();
    for word in text.split_whitespace() {
        let nibbles: Vec<(u8, u8)> = word
            .chars()
            .map(|c| match c.to_digit(16) {
                Some(d) => Some((d as u8, 0xf)),
                None if wildcards && c.eq_ignore_ascii_case(&'x') => Some((0, 0)),
                None => None,
            })
            .collect::<Option<_>>()?;
        for pair in nibbles.chunks(2) {
            out.push(match pair {
                [(h, hm), (l, lm)] => (h << 4 | l, hm << 4 | lm),
                [(l, lm)] => (*l, 0xf0 | lm),
                _ => continue,
            });
        }
    }
    Some(out)
}

pub static MISC: &[Keyword<Checker>] = &[
    works(
        "misc_path",
        "PROGRAM",
        "the program and its arguments",
        |c, a| {
            let Some(word) = a.word("a program") else {
                return;
            };
            let mut argv = split_command(&word.text);
            if !word.quoted {
                argv.extend(std::iter::from_fn(|| a.optional().map(|w| w.text.clone())));
            }
            if let CheckerKind::Misc(m) = &mut c.kind {
                m.argv = argv;
            }
        },
    ),
    works(
        "misc_timeout",
        "SECONDS",
        "time the program may take",
        |c, a| {
            let t = a.seconds(MICROSECOND..=4294.0);
            if let CheckerKind::Misc(m) = &mut c.kind {
                m.timeout_us = t;
            }
        },
    ),
    works(
        "misc_dynamic",
        "",
        "the exit status sets the weight",
        |c, _| {
            if let CheckerKind::Misc(m) = &mut c.kind {
                m.dynamic = true;
            }
        },
    ),
    works("user", "USER [GROUP]", "who runs the program", |c, a| {
        let Some(user) = a.text("a user") else { return };
        let group = a.optional().map(|g| g.text.clone());
        if let CheckerKind::Misc(m) = &mut c.kind {
            m.user = Some((user, group));
        }
    }),
    works("alpha", "[BOOL]", "starts down", |c, a| {
        c.alpha = a.boolean()
    }),
    works(
        "retry",
        "COUNT",
        "checks made again before the server is down",
        |c, a| c.retry = a.number_u32(0..=u32::MAX),
    ),
    works(
        "delay_before_retry",
        "SECONDS",
        "time before a failed check is made again",
        |c, a| c.delay_before_retry_us = a.seconds(0.0..=DELAY_MAX_S),
    ),
    works(
        "warmup",
        "SECONDS",
        "most random delay before the first check",
        |c, a| c.warmup_us = a.seconds(0.0..=DELAY_MAX_S),
    ),
    works("delay_loop", "SECONDS", "time between checks", |c, a| {
        c.delay_loop_us = a.seconds(MICROSECOND..=DELAY_MAX_S)
    }),
    works("log_all_failures", "[BOOL]", "log every failure", |c, a| {
        c.log_all_failures = a.boolean().unwrap_or(true)
    }),
];

pub static FILE: &[Keyword<Checker>] = &[
    works(
        "track_file",
        "NAME",
        "the track_file block to watch",
        |c, a| {
            let Some(word) = a.word("a track_file's name") else {
                return;
            };
            if !a.cx.config.track_files.iter().any(|f| f.name == word.text) {
                return a.error_at(
                    word,
                    format!("no track_file {} is defined before this line", word.text),
                );
            }
            if let CheckerKind::File(f) = &mut c.kind {
                f.track_file = word.text.clone();
            }
        },
    ),
    works(
        "weight",
        "WEIGHT [reverse]",
        "factor for the value read",
        |c, a| {
            let n = a.number(-2_147_483_647..=2_147_483_647);
            let reversed = a.peek().is_some_and(|w| w.text == "reverse");
            if reversed {
                a.optional();
            }
            if let (CheckerKind::File(f), Some(n)) = (&mut c.kind, n) {
                f.weight = n as i32;
                f.reverse = reversed;
                f.own_weight = true;
            }
        },
    ),
    no_effect(
        "dynamic",
        "",
        "with a weight other than 0 the value is always added to the server's weight",
    ),
];

pub static BFD: &[Keyword<Checker>] = &[works(
    "name",
    "NAME",
    "the bfd_instance to follow",
    |c, a| {
        let Some(word) = a.word("a bfd_instance's name") else {
            return;
        };
        let mut bfds = a.cx.config.bfds.iter();
        if !bfds.any(|b| b.name == word.text && b.for_checkers()) {
            return a.error_at(
                word,
                format!(
                    "no bfd_instance {} for checkers is defined before this line",
                    word.text
                ),
            );
        }
        c.kind = CheckerKind::Bfd {
            name: word.text.clone(),
        };
    },
)];

fn add(
    r: &mut RealServer,
    a: &mut Args<'_, '_>,
    kind: CheckerKind,
    table: &'static [Keyword<Checker>],
) {
    let keyword = a.keyword();
    let mut checker = Checker::new(kind);
    block(a.block(), table, &mut checker, a.cx, &keyword.text);
    let missing = match &checker.kind {
        CheckerKind::Http(h) if h.urls.is_empty() => Some("has no url"),
        CheckerKind::Misc(m) if m.argv.is_empty() => Some("has no misc_path"),
        CheckerKind::Bfd { name } if name.is_empty() => Some("has no name"),
        CheckerKind::File(f) if f.track_file.is_empty() => Some("has no track_file"),
        _ => None,
    };
    if let CheckerKind::Misc(m) = &checker.kind {
        let user = m.user.as_ref().map(|(user, _)| user.as_str());
        a.check_executable(keyword, &m.argv, user);
    }
    match missing {
        Some(what) => a.error_at(keyword, format!("{} {what}", keyword.text)),
        None => r.checkers.push(checker),
    }
}

pub fn tcp(r: &mut RealServer, a: &mut Args<'_, '_>) {
    add(r, a, CheckerKind::Tcp, TCP);
}
pub fn http(r: &mut RealServer, a: &mut Args<'_, '_>) {
    add(r, a, CheckerKind::Http(HttpCheck::default()), HTTP);
}
pub fn ssl(r: &mut RealServer, a: &mut Args<'_, '_>) {
    let http = HttpCheck {
        tls: true,
        ..HttpCheck::default()
    };
    add(r, a, CheckerKind::Http(http), HTTP);
}
pub fn smtp(r: &mut RealServer, a: &mut Args<'_, '_>) {
    add(r, a, CheckerKind::Smtp { helo: None }, SMTP);
}
pub fn dns(r: &mut RealServer, a: &mut Args<'_, '_>) {
    add(
        r,
        a,
        CheckerKind::Dns {
            record: 6,
            name: ".".into(),
        },
        DNS,
    );
}
pub fn udp(r: &mut RealServer, a: &mut Args<'_, '_>) {
    let udp = UdpCheck {
        reply_max: 255,
        ..UdpCheck::default()
    };
    add(r, a, CheckerKind::Udp(udp), UDP);
}
pub fn ping(r: &mut RealServer, a: &mut Args<'_, '_>) {
    add(r, a, CheckerKind::Ping, PING);
}
pub fn misc(r: &mut RealServer, a: &mut Args<'_, '_>) {
    add(r, a, CheckerKind::Misc(MiscCheck::default()), MISC);
}
pub fn file(r: &mut RealServer, a: &mut Args<'_, '_>) {
    add(r, a, CheckerKind::File(FileCheck::default()), FILE);
}
pub fn bfd(r: &mut RealServer, a: &mut Args<'_, '_>) {
    add(
        r,
        a,
        CheckerKind::Bfd {
            name: String::new(),
        },
        BFD,
    );
}
