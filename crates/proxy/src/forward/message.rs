//! A log message that came in: its parts as RFC 5424 or RFC 3164 (or HAProxy's local form of it) have them, and how they
//! are written in the format of a target (manual chapter 3.10: the format that came in is kept where none is asked for).

use std::io::Write;

use sluice_config::model::{LogFormatKind, LogHost};

use crate::logs::{MONTHS, bsd_date, iso};

/// `yyyy-mm-ddThh:mm:ss`, before the fraction and the zone.
const ISO_LEN: usize = 19;

/// `Mmm dd hh:mm:ss`.
const BSD_LEN: usize = 15;

/// Priorities have three digits (RFC 5424 says at most 191; HAProxy lets all of them pass).
const PRIORITY_MAX: u32 = 999;

/// A message in parts; what it does not have is empty.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Message<'a> {
    /// Facility and level as one number.
    pub priority: Option<u32>,
    pub time: &'a [u8],
    pub host: &'a [u8],
    pub tag: &'a [u8],
    pub pid: &'a [u8],
    pub id: &'a [u8],
    pub structured: &'a [u8],
    pub text: &'a [u8],
}

impl<'a> Message<'a> {
    /// One that is not looked into.
    pub fn unparsed(text: &'a [u8]) -> Self {
        Message {
            text,
            ..Message::default()
        }
    }

    /// Reads a message. What has no known form is all text.
    pub fn parse(bytes: &'a [u8]) -> Self {
        let Some((priority, rest)) = priority(bytes) else {
            return Message::unparsed(bytes);
        };
        let known = match rest.strip_prefix(b"1 ") {
            Some(rest) => rfc5424(rest),
            None => rfc3164(rest),
        };
        Message {
            priority: Some(priority),
            ..known.unwrap_or(Message::unparsed(rest))
        }
    }

    /// 0 emerg ... 7 debug. As in HAProxy, nothing said is most urgent.
    pub fn level(&self) -> u8 {
        (self.priority.unwrap_or(0) % 8) as u8
    }

    /// The format it came in.
    fn format(&self) -> LogFormatKind {
        let modern = self.time == b"-" || self.time.len() > ISO_LEN;
        match self {
            m if !m.host.is_empty() && modern => LogFormatKind::Rfc5424,
            m if !m.host.is_empty() => LogFormatKind::Rfc3164,
            m if !m.tag.is_empty() => LogFormatKind::Local,
            m if m.priority.is_some() => LogFormatKind::Priority,
            _ => LogFormatKind::Raw,
        }
    }

    /// Appends it in a format.
    pub fn write(&self, format: LogFormatKind, around: &Around<'_>, out: &mut Vec<u8>) {
        let format = match format {
            LogFormatKind::Unspecified => self.format(),
            format => format,
        };
        let facility = self.priority.map_or(around.facility.into(), |p| p / 8);
        let (level, priority) = (around.level, facility * 8 + u32::from(around.level));
        let or_dash = |part: &'a [u8]| if part.is_empty() { &b"-"[..] } else { part };
        // writing to memory cannot fail
        match format {
            LogFormatKind::Raw => {}
            LogFormatKind::Short => _ = write!(out, "<{level}>"),
            LogFormatKind::Priority => _ = write!(out, "<{priority}>"),
            LogFormatKind::Timed | LogFormatKind::Iso => {
                if format == LogFormatKind::Timed {
                    let _ = write!(out, "<{level}>");
                }
                self.iso_time(around.wall_us, out);
                out.push(b' ');
            }
            LogFormatKind::Rfc5424 => {
                let _ = write!(out, "<{priority}>1 ");
                match self.time {
                    b"-" => out.push(b'-'),
                    _ => self.iso_time(around.wall_us, out),
                }
                out.push(b' ');
                self.host(around, b"-", out);
                for part in [self.tag, self.pid, self.id, self.structured] {
                    out.push(b' ');
                    out.extend_from_slice(or_dash(part));
                }
                out.push(b' ');
            }
            LogFormatKind::Rfc3164 | LogFormatKind::Local | LogFormatKind::Unspecified => {
                let _ = write!(out, "<{priority}>");
                self.bsd_time(around.wall_us, out);
                out.push(b' ');
                if format == LogFormatKind::Rfc3164 {
                    self.host(around, around.hostname.as_bytes(), out);
                    out.push(b' ');
                }
                if !self.tag.is_empty() {
                    out.extend_from_slice(self.tag);
                    if !self.pid.is_empty() {
                        out.push(b'[');
                        out.extend_from_slice(self.pid);
                        out.push(b']');
                    }
                    out.extend_from_slice(b": ");
                }
            }
        }
        out.extend_from_slice(self.text);
    }

    fn host(&self, around: &Around<'_>, none: &[u8], out: &mut Vec<u8>) {
        let own = match around.host {
            LogHost::Replace => b"",
            _ => self.host,
        };
        let sender = match around.host {
            LogHost::Keep => "",
            _ => around.sender,
        };
        let add = own.is_empty() || around.host == LogHost::Append;
        out.extend_from_slice(own);
        if add && !sender.is_empty() {
            if !own.is_empty() {
                out.push(b',');
            }
            out.extend_from_slice(sender.as_bytes());
        } else if own.is_empty() {
            out.extend_from_slice(none);
        }
    }

    /// Its time as RFC 5424 writes it. RFC 3164 knows no year: the last one in which it is not in the months to come.
    fn iso_time(&self, wall_us: i64, out: &mut Vec<u8>) {
        let secs = wall_us.div_euclid(1_000_000);
        if self.time.len() > ISO_LEN {
            return out.extend_from_slice(self.time);
        }
        let now = iso(secs, wall_us.rem_euclid(1_000_000));
        let named = self.time.get(..3).and_then(month);
        let (Some(named), Some(rest)) = (named, self.time.get(3..BSD_LEN)) else {
            return out.extend_from_slice(now.as_bytes());
        };
        let year = now.get(..4).and_then(|y| y.parse::<i32>().ok());
        let this = now.get(5..7).and_then(|m| m.parse::<usize>().ok());
        let year = year.unwrap_or(0) - i32::from(this.is_some_and(|this| named > this));
        let _ = write!(out, "{year:04}-{named:02}-");
        out.push(if rest[1] == b' ' { b'0' } else { rest[1] });
        out.push(rest[2]);
        out.push(b'T');
        out.extend_from_slice(&rest[4..]);
        // its zone is not known (RFC 3339, 4.3)
        out.extend_from_slice(b"-00:00");
    }

    /// Its time as RFC 3164 writes it: that of the sender's clock, whatever its zone.
    fn bsd_time(&self, wall_us: i64, out: &mut Vec<u8>) {
        let t = self.time;
        if t.len() == BSD_LEN {
            return out.extend_from_slice(t);
        }
        let name = t
            .get(5..7)
            .and_then(|m| std::str::from_utf8(m).ok()?.parse::<usize>().ok())
            .and_then(|m| MONTHS.get(m.checked_sub(1)?));
        let (Some(name), Some(day), Some(time)) = (name, t.get(8..10), t.get(11..19)) else {
            let now = bsd_date(wall_us.div_euclid(1_000_000));
            return out.extend_from_slice(now.as_bytes());
        };
        out.extend_from_slice(name.as_bytes());
        out.push(b' ');
        out.push(if day[0] == b'0' { b' ' } else { day[0] });
        out.push(day[1]);
        out.push(b' ');
        out.extend_from_slice(time);
    }
}

/// What a message is written with that is not its own.
pub struct Around<'a> {
    /// Where it names none.
    pub facility: u8,
    pub level: u8,
    pub hostname: &'a str,
    pub host: LogHost,
    pub sender: &'a str,
    pub wall_us: i64,
}

/// `<N>`, and what follows.
fn priority(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let rest = bytes.strip_prefix(b"<")?;
    let end = rest.iter().position(|b| !b.is_ascii_digit())?;
    if rest[end] != b'>' {
        return None;
    }
    let mut n = 0u32;
    for digit in &rest[..end] {
        n = n.wrapping_mul(10).wrapping_add(u32::from(digit - b'0'));
    }
    // a larger one keeps its level
    let n = if n > PRIORITY_MAX {
        PRIORITY_MAX / 8 * 8 + n % 8
    } else {
        n
    };
    Some((n, &rest[end + 1..]))
}

/// From the timestamp on: `TIME HOST APP PROCID MSGID STRUCTURED TEXT`, a dash for what is not told.
fn rfc5424(rest: &[u8]) -> Option<Message<'_>> {
    let (time, rest) = word(rest)?;
    if time != b"-" && !is_iso(time) {
        return None;
    }
    let (host, rest) = word(rest)?;
    let (tag, rest) = word(rest)?;
    let (pid, rest) = word(rest)?;
    let (id, rest) = word(rest)?;
    let end = structured_end(rest)?;
    let text = rest[end..].strip_prefix(b" ")?;
    let told = |part| if part == b"-" { &b""[..] } else { part };
    Some(Message {
        priority: None,
        time,
        host: told(host),
        tag: told(tag),
        pid: told(pid),
        id: told(id),
        structured: told(&rest[..end]),
        text,
    })
}

/// Whether a fraction and a zone stand behind where date and time are; as in HAProxy these are taken on trust.
fn is_iso(time: &[u8]) -> bool {
    let Some(mut rest) = time.get(ISO_LEN..) else {
        return false;
    };
    if let Some(fraction) = rest.strip_prefix(b".") {
        let digits = fraction.iter().take_while(|b| b.is_ascii_digit()).count();
        rest = &fraction[digits..];
    }
    matches!(rest, b"Z" | [b'+' | b'-', _, _, b':', _, _])
}

/// A part and what stands behind the space after it.
fn word(rest: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = rest.iter().position(|b| *b == b' ').filter(|n| *n > 0)?;
    Some((&rest[..end], &rest[end + 1..]))
}

/// Where the structured data ends: a dash, or elements in brackets.
fn structured_end(rest: &[u8]) -> Option<usize> {
    if rest.starts_with(b"-") {
        return Some(1);
    }
    let mut at = 0;
    while rest.get(at) == Some(&b'[') {
        at += 1;
        loop {
            match rest.get(at)? {
                b'\\' => at += 2,
                b']' => break,
                _ => at += 1,
            }
        }
        at += 1;
    }
    Some(at).filter(|at| *at > 0)
}

/// From the timestamp on: `TIME HOST [TAG[PID]: ]TEXT`.
fn rfc3164(rest: &[u8]) -> Option<Message<'_>> {
    let (time, behind) = rest.split_at_checked(BSD_LEN)?;
    month(time.get(..3)?)?;
    let (host, text) = word(behind.strip_prefix(b" ")?)?;
    let (tag, pid, text) = tag(text).unwrap_or((b"", b"", text));
    Some(Message {
        time,
        host,
        tag,
        pid,
        text,
        ..Message::default()
    })
}

/// `TAG: ` or `TAG[PID]: `.
fn tag(text: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let end = text.iter().position(|b| matches!(b, b' ' | b':'))?;
    let behind = text[end..].strip_prefix(b": ")?;
    let label = &text[..end];
    let Some(open) = label.iter().position(|b| *b == b'[') else {
        return Some((label, b"", behind));
    };
    let (name, inside) = (&label[..open], &label[open + 1..]);
    match inside.iter().position(|b| *b == b']') {
        None => Some((name, b"", behind)),
        Some(close) if close + 1 == inside.len() => Some((name, &inside[..close], behind)),
        // something between the number and the colon: no tag
        Some(_) => None,
    }
}

/// 1 to 12.
fn month(name: &[u8]) -> Option<usize> {
    let at = MONTHS.iter().position(|m| m.as_bytes() == name)?;
    Some(at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-22 00:00:00 UTC.
    const NOW_US: i64 = 1_795_305_600_000_000;

    fn written(bytes: &[u8], format: LogFormatKind, host: LogHost) -> String {
        let message = Message::parse(bytes);
        let around = Around {
            facility: 19,
            level: message.level(),
            hostname: "localhost",
            host,
            sender: "192.0.2.1",
            wall_us: NOW_US,
        };
        let mut out = Vec::new();
        message.write(format, &around, &mut out);
        String::from_utf8_lossy(&out).into_owned()
    }

    /// Played on haproxy 2.6 by `crates/sluice/tests/log_forward.rs`; these are the forms one by one.
    #[test]
    fn formats_become_each_other() {
        let bsd = b"<13>Nov  1 10:11:12 host app[123]: text";
        let syslog = b"<165>1 2022-11-01T10:11:12+02:00 host app - - [a@1 e=\"\\]x\"][z] text";
        let check = |bytes: &[u8], format, expect: &str| {
            assert_eq!(written(bytes, format, LogHost::Keep), expect);
        };
        use LogFormatKind::*;
        check(bsd, Unspecified, "<13>Nov  1 10:11:12 host app[123]: text");
        check(
            bsd,
            Rfc5424,
            "<13>1 2026-11-01T10:11:12-00:00 host app 123 - - text",
        );
        check(bsd, Timed, "<5>2026-11-01T10:11:12-00:00 text");
        check(
            syslog,
            Unspecified,
            "<165>1 2022-11-01T10:11:12+02:00 host app - - [a@1 e=\"\\]x\"][z] text",
        );
        check(syslog, Rfc3164, "<165>Nov  1 10:11:12 host app: text");
        check(syslog, Iso, "2022-11-01T10:11:12+02:00 text");
        check(
            b"<13>Dec 31 23:59:60 h text",
            Rfc5424,
            "<13>1 2025-12-31T23:59:60-00:00 h - - - - text",
        );
        check(b"text", Priority, "<152>text");
        check(b"text", Unspecified, "text");
        check(b"<13>1 - - a p m - text", Rfc5424, "<13>1 - - a p m - text");
    }

    #[test]
    fn hosts_follow_their_option() {
        let check = |bytes: &[u8], host, expect: &str| {
            let text = written(bytes, LogFormatKind::Rfc5424, host);
            assert_eq!(text.split(' ').nth(2), Some(expect), "{text}");
        };
        let (told, untold) = (b"<1>1 - h a p m - x", b"<1>1 - - a p m - x");
        check(told, LogHost::Keep, "h");
        check(untold, LogHost::Keep, "-");
        check(told, LogHost::Fill, "h");
        check(untold, LogHost::Fill, "192.0.2.1");
        check(told, LogHost::Append, "h,192.0.2.1");
        check(untold, LogHost::Append, "192.0.2.1");
        check(told, LogHost::Replace, "192.0.2.1");
    }

    /// Whatever is missing or spoilt, nothing panics, and what has no known form comes out as it went in.
    #[test]
    fn spoilt_messages_are_kept() {
        let whole: [&[u8]; 3] = [
            b"<13>Nov  1 10:11:12 host app[123]: text",
            b"<13>1 2022-11-01T10:11:12Z h a p m [x y=\"\\]\"] text",
            b"<13>1 - h a p m - text",
        ];
        let mut untouched = 0;
        let mut check = |bytes: &[u8]| {
            for format in [
                LogFormatKind::Rfc5424,
                LogFormatKind::Rfc3164,
                LogFormatKind::Timed,
            ] {
                assert!(!written(bytes, format, LogHost::Append).is_empty());
            }
            let m = Message::parse(bytes);
            if m.priority == Some(13) && m.time.is_empty() {
                untouched += 1;
                let text = written(bytes, LogFormatKind::Unspecified, LogHost::Keep);
                assert_eq!(text, String::from_utf8_lossy(bytes));
            }
        };
        for text in whole {
            for at in 0..text.len() {
                check(&text[..at]);
                for other in [b' ', b'-', b'9', b'[', b']', b'\\', 0xff] {
                    let mut spoilt = text.to_vec();
                    spoilt[at] = other;
                    check(&spoilt);
                }
            }
        }
        assert!(untouched > 100, "{untouched}");
    }
}
