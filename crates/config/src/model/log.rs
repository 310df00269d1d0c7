//! Where logs go and in which envelope.

use super::PeerAddr;

/// One `log` line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogTarget {
    pub addr: PeerAddr,
    /// Bytes a message may have; 1024 when not given.
    pub max_len: usize,
    pub format: LogFormatKind,
    /// `sample RANGES:SIZE`: which messages of a cycle are sent.
    pub sample: Option<LogSample>,
    /// 0 kern ... 23 local7.
    pub facility: u8,
    /// Least urgent level that is sent, 0 emerg ... 7 debug.
    pub level: u8,
    /// Levels more urgent than this are sent as this.
    pub min_level: u8,
    /// Came from `log global`.
    pub from_global: bool,
}

/// `sample 1,3-4:5`: ranges from 1 within a cycle of `size` messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogSample {
    pub ranges: Vec<(u32, u32)>,
    pub size: u32,
}

impl LogFormatKind {
    /// Reads the name of a format.
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "local" => LogFormatKind::Local,
            "rfc3164" => LogFormatKind::Rfc3164,
            "rfc5424" => LogFormatKind::Rfc5424,
            "priority" => LogFormatKind::Priority,
            "short" => LogFormatKind::Short,
            "timed" => LogFormatKind::Timed,
            "iso" => LogFormatKind::Iso,
            "raw" => LogFormatKind::Raw,
            _ => return None,
        })
    }
}

/// `format NAME` of a log target: the envelope around the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogFormatKind {
    /// Not given: rfc3164 to addresses, raw to file descriptors.
    #[default]
    Unspecified,
    Local,
    Rfc3164,
    Rfc5424,
    Priority,
    Short,
    Timed,
    Iso,
    Raw,
}
