//! The state of a head being read: limits, position, and what its headers said so far.

use crate::framing::Coding;

/// Bounds and leniency of the parser. One per frontend or backend, made from its configuration.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Longest head in bytes, leading empty lines included: `tune.bufsize` minus `tune.maxrewrite`.
    pub head_max: usize,
    /// Most lines in a head, the first included: `tune.http.maxhdr`.
    pub headers_max: usize,
    /// `option accept-invalid-http-request` or `accept-invalid-http-response`: odd characters in
    /// names and target, odd versions and a host that differs from the target are let through.
    /// What can hide a header or split a message (blanks and controls in names, NUL, bare CR)
    /// is not.
    pub accept_invalid: bool,
    /// `option h1-accept-payload-with-any-method`.
    pub payload_any_method: bool,
}

impl Default for Limits {
    /// HAProxy's defaults: bufsize 16384, maxrewrite 1024, maxhdr 101, strict.
    fn default() -> Self {
        Limits {
            head_max: 16384 - 1024,
            headers_max: 101,
            accept_invalid: false,
            payload_any_method: false,
        }
    }
}

/// What a parse call found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parsed {
    /// The head is complete and took this many bytes, its empty line included.
    Complete { consumed: usize },
    /// More bytes are needed.
    Partial,
}

/// Where the scan stands. Named for what it awaits.
///
/// ```text
/// Before -> Method -> TargetStart -> Target -> VersionStart -> Version -> StartLineLf -> LineStart
/// Before -> Version -> CodeStart -> Code -> ReasonStart -> Reason-------> StartLineLf
/// LineStart -> Name -> ValueStart -> Value -> ValueLf -> LineStart (…) -> LastLf -> done
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Step {
    #[default]
    Before,
    BeforeLf,
    Method,
    TargetStart,
    Target,
    VersionStart,
    Version,
    CodeStart,
    Code,
    ReasonStart,
    Reason,
    StartLineLf,
    LineStart,
    Name,
    ValueStart,
    Value,
    ValueLf,
    LastLf,
}

/// A resumable scan of one head.
///
/// Give the same `HeadScan` with the same bytes plus the new ones at each call; each byte is looked
/// at once, however the input is cut. Call `reset` (or take a new one) for the next head; a scan
/// that ended, well or not, resets itself.
#[derive(Debug, Clone, Default)]
pub struct HeadScan {
    pub(crate) step: Step,
    /// Next byte to look at.
    pub(crate) pos: usize,
    /// First byte of the start line.
    pub(crate) start: usize,
    /// First and past-the-end byte of the start line's three parts.
    pub(crate) part: [(usize, usize); 3],
    /// First byte after the start line.
    pub(crate) fields: usize,
    pub(crate) name: (usize, usize),
    pub(crate) value: (usize, usize),
    /// A header line waits for the next byte to tell that it is not continued.
    pub(crate) pending: bool,
    /// The value in work was continued on another line (obs-fold).
    pub(crate) folded: bool,
    pub(crate) coding: Coding,
}

impl HeadScan {
    pub fn new() -> HeadScan {
        HeadScan::default()
    }

    /// Forgets what was scanned.
    pub fn reset(&mut self) {
        *self = HeadScan::default();
    }
}
