//! The arguments of a `log` line (manual chapter 4.2): where lines go, in which envelope, and which of them.

use std::sync::Arc;

use crate::addr::AddrRules;
use crate::cx::Cx;
use crate::diag::suggest;
use crate::line::Line;
use crate::model::{
    LogFormatKind, LogProfile, LogSample, LogTarget, PeerAddr, PortSpec, Ring, RingServer,
};

/// Syslog facilities by their number.
pub(crate) const FACILITIES: [&str; 24] = [
    "kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron", "auth2",
    "ftp", "ntp", "audit", "alert", "cron2", "local0", "local1", "local2", "local3", "local4",
    "local5", "local6", "local7",
];

/// Syslog levels, most urgent first.
pub(crate) const LEVELS: [&str; 8] = [
    "emerg", "alert", "crit", "err", "warning", "notice", "info", "debug",
];

/// Envelopes by name.
pub(crate) const FORMATS: [(&str, LogFormatKind); 8] = [
    ("local", LogFormatKind::Local),
    ("rfc3164", LogFormatKind::Rfc3164),
    ("rfc5424", LogFormatKind::Rfc5424),
    ("priority", LogFormatKind::Priority),
    ("short", LogFormatKind::Short),
    ("timed", LogFormatKind::Timed),
    ("iso", LogFormatKind::Iso),
    ("raw", LogFormatKind::Raw),
];

/// Shortest and longest line: what HAProxy accepts for `len`.
const LEN: std::ops::RangeInclusive<u32> = 80..=65_535;

/// The port of syslog over UDP (RFC 5426).
const SYSLOG_PORT: u16 = 514;

impl Cx<'_> {
    /// Reads `<address> [len N] [format F] [sample R:S] [profile P] <facility> [<level> [<minlevel>]]`.
    pub(crate) fn log_target(&mut self, line: &Arc<Line>, from: usize) -> Option<LogTarget> {
        self.need(line, from, "<address> and <facility>, or 'global',")?;
        let streamed = ['@', '+'].iter().any(|sign| {
            let prefix = line.word(from).split(*sign).next();
            matches!(prefix, Some("tcp" | "tcp4" | "tcp6" | "uxst" | "stream"))
        });
        let addr = match streamed {
            true => self.peer_addr(line, from, AddrRules::FIXED)?,
            false => self.log_addr(line, from)?,
        };
        let mut target = LogTarget {
            addr,
            max_len: 1024,
            format: LogFormatKind::Unspecified,
            sample: None,
            facility: 0,
            level: 7,
            min_level: 0,
            profile: None,
            from_global: false,
        };
        let mut at = from + 1;
        loop {
            match line.word(at) {
                "len" => target.max_len = self.uint(line, at + 1, LEN)? as usize,
                "format" => target.format = self.log_format_kind(line, at + 1)?,
                "sample" => target.sample = Some(self.log_sample(line, at + 1)?),
                // found when all sections are known
                "profile" => {
                    let name = self.need(line, at + 1, "a log-profile's name")?.to_owned();
                    target.profile = Some(Arc::new(LogProfile {
                        name,
                        ..LogProfile::default()
                    }));
                }
                _ => break,
            }
            at += 2;
        }
        self.need(line, at, "<address> and <facility>")?;
        target.facility = self.log_name(line, at, "log facility", &FACILITIES)?;
        if line.has(at + 1) {
            target.level = self.log_name(line, at + 1, "optional log level", &LEVELS)?;
        }
        if line.has(at + 2) {
            target.min_level =
                self.log_name(line, at + 2, "optional minimum log level", &LEVELS)?;
        }
        if !self.no_more(line, at + 3) {
            return None;
        }
        if streamed {
            target.addr = self.ring_for(line, from, &target);
        }
        Some(target)
    }

    /// An address that is connected to (`tcp@`, `uxst@`) is the server of a ring made for this line.
    fn ring_for(&mut self, line: &Arc<Line>, word: usize, target: &LogTarget) -> PeerAddr {
        // neither sign is one of a ring's name
        let text = line.word(word);
        let name = format!("{text}#{}", self.raw.rings.len() + 1);
        let server = RingServer {
            name: text.to_owned(),
            addr: target.addr.clone(),
            octet_count: false,
        };
        let max_len = u32::try_from(target.max_len).unwrap_or(u32::MAX);
        let ring = Ring {
            name: name.clone(),
            max_len,
            format: target.format,
            servers: vec![server],
            ..crate::section::unnamed_ring()
        };
        self.raw.rings.push((ring, line.clone()));
        PeerAddr::Ring(name)
    }

    fn log_addr(&mut self, line: &Line, word: usize) -> Option<PeerAddr> {
        let text = line.word(word);
        match text {
            "stdout" => return Some(PeerAddr::Fd(1)),
            "stderr" => return Some(PeerAddr::Fd(2)),
            _ => {}
        }
        if let Some(name) = text.strip_prefix("ring@") {
            return Some(PeerAddr::Ring(name.to_owned()));
        }
        if let Some(name) = text.strip_prefix("backend@") {
            // its place is known when all sections are
            return Some(PeerAddr::Backend {
                name: name.to_owned(),
                id: sluice_expr::ProxyId(u32::MAX),
            });
        }
        let addr = self.peer_addr(line, word, AddrRules::LOG)?;
        match addr {
            PeerAddr::Unresolved { host, .. } => {
                let message = format!("'{}' : invalid address: '{host}'", line.keyword());
                self.error_at(line, word, message);
                None
            }
            PeerAddr::Ip {
                ip,
                port: PortSpec::FromClient,
            } => Some(PeerAddr::Ip {
                ip,
                port: PortSpec::Fixed(SYSLOG_PORT),
            }),
            other => Some(other),
        }
    }

    /// The name of an envelope.
    pub(crate) fn log_format_kind(&mut self, line: &Line, word: usize) -> Option<LogFormatKind> {
        let text = line.word(word);
        if let Some((_, kind)) = FORMATS.iter().find(|(name, _)| *name == text) {
            return Some(*kind);
        }
        let names = FORMATS.map(|(name, _)| name);
        let hint = match suggest(text, names) {
            Some(near) => format!("did you mean '{near}'?"),
            None => format!("it is one of {}", names.join(", ")),
        };
        let message = format!("'{}' : unknown log format '{text}'", line.keyword());
        self.error(line, word, 0..0, message, Some(hint));
        None
    }

    /// The number of a facility or level.
    pub(crate) fn log_name(
        &mut self,
        line: &Line,
        word: usize,
        what: &str,
        among: &[&str],
    ) -> Option<u8> {
        let text = line.word(word);
        if let Some(n) = among.iter().position(|name| *name == text) {
            return u8::try_from(n).ok();
        }
        let hint = match suggest(text, among.iter().copied()) {
            Some(near) => format!("did you mean '{near}'?"),
            None => format!("it is one of {}", among.join(", ")),
        };
        let message = format!("'{}' : unknown {what} '{text}'", line.keyword());
        self.error(line, word, 0..0, message, Some(hint));
        None
    }

    /// `1,3-4:5`: which messages out of each cycle are sent.
    fn log_sample(&mut self, line: &Line, word: usize) -> Option<LogSample> {
        let text = line.word(word);
        match parse_sample(text) {
            Ok(sample) => Some(sample),
            Err(why) => {
                let message = format!("'{}' : invalid sample '{text}'", line.keyword());
                self.error(line, word, 0..0, message, Some(why));
                None
            }
        }
    }
}

fn parse_sample(text: &str) -> Result<LogSample, String> {
    let form = || "write RANGES:SIZE, as in 1,3-4:5".to_owned();
    let (ranges, size) = text.rsplit_once(':').ok_or_else(form)?;
    let number = |t: &str| t.parse::<u32>().ok().filter(|n| *n > 0).ok_or_else(form);
    let size = number(size)?;
    let mut found = Vec::new();
    for part in ranges.split(',') {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        let (low, high) = (number(low)?, number(high)?);
        if low > high {
            return Err(format!("range '{part}' is empty"));
        }
        found.push((low, high));
    }
    found.sort_unstable();
    if found.windows(2).any(|pair| pair[0].1 >= pair[1].0) {
        return Err("its ranges overlap".to_owned());
    }
    match found.last() {
        Some((_, high)) if *high > size => {
            Err(format!("a cycle of {size} messages has no message {high}"))
        }
        _ => Ok(LogSample {
            ranges: found,
            size,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples() {
        let check = |text: &str, expect: Option<&[(u32, u32)]>| {
            let found = parse_sample(text).ok();
            assert_eq!(
                found.as_ref().map(|s| s.ranges.as_slice()),
                expect,
                "{text}"
            );
        };
        check("1:2", Some(&[(1, 1)]));
        check("3,1-2:5", Some(&[(1, 2), (3, 3)]));
        check("1-3,2:4", None);
        check("5:4", None);
        check("0:4", None);
        check("1", None);
        check("x:1", None);
    }
}
