//! The checker blocks of a real server.

use super::keyword::{Args, Keyword, block, works};
use super::lvs::{DELAY_MAX_S, MICROSECOND};
use super::model::*;
use super::tree::Word;

/// The options of every checker: when it checks and what it says. `Checker` is the target of all checker tables.
macro_rules! with_pace {
    ($($own:expr),* $(,)?) => {
        &[
            works("alpha", "[BOOL]", "starts down", |c, a| c.alpha = a.boolean()),
            works("retry", "COUNT", "checks made again before the server is down", |c, a| c.retry = a.number_u32(0..=u32::MAX)),
            works("delay_before_retry", "SECONDS", "time before a failed check is made again", |c, a| c.delay_before_retry_us = a.seconds(0.0..=DELAY_MAX_S)),
            works("warmup", "SECONDS", "most random delay before the first check", |c, a| c.warmup_us = a.seconds(0.0..=DELAY_MAX_S)),
            works("delay_loop", "SECONDS", "time between checks", |c, a| c.delay_loop_us = a.seconds(MICROSECOND..=DELAY_MAX_S)),
            works("log_all_failures", "[BOOL]", "log every failure, not only the last", |c, a| c.log_all_failures = a.boolean().unwrap_or(true)),
            $($own),*
        ]
    };
}

/// Those of a checker that connects, too.
macro_rules! with_common {
    ($($own:expr),* $(,)?) => {
        with_pace!(
            works("connect_ip", "ADDRESS", "address to connect to", |c, a| c.connect_ip = a.address()),
            works("connect_port", "PORT", "port to connect to", |c, a| c.connect_port = a.port()),
            works("bindto", "ADDRESS", "address to connect from", |c, a| c.bind_ip = a.address()),
            works("bind_port", "PORT", "port to connect from", |c, a| c.bind_port = a.port()),
            works("bind_if", "INTERFACE", "interface to connect through", |c, a| c.bind_interface = a.interface()),
            works("fwmark", "MARK", "mark on the check's packets", |c, a| c.fwmark = a.number_u32(0..=u32::MAX)),
            works("connect_timeout", "SECONDS", "time to connect", |c, a| c.connect_timeout_us = a.seconds(MICROSECOND..=4294.0)),
            $($own),*
        )
    };
}

mod http;
mod program;

pub use http::HTTP;
pub use program::{FILE, MISC};

pub static TCP: &[Keyword<Checker>] = with_common!();
pub static PING: &[Keyword<Checker>] = with_common!();

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
                last_byte(a, keyword, &bytes);
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
                    last_byte(a, keyword, &bytes);
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

/// keepalived 2.2.7 reads FF at the end as -1, its sign of a mistake.
fn last_byte(a: &mut Args<'_, '_>, keyword: &Word, bytes: &[(u8, u8)]) {
    if bytes.last() == Some(&(0xff, 0xff)) {
        a.dubious_at(
            keyword,
            "keepalived takes bytes that end in FF for a mistake and goes without; here they are what they are",
        );
    }
}

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
