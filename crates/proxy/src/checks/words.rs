//! What a failed check says of itself, in the words that HAProxy's logs have and that alarms look for.

use sluice_config::model::{CheckAction, CheckExpect, CheckMatch, CheckStep};

/// Where a connection failed: behind the error's text.
pub fn place(step: Option<&CheckStep>, port: Option<u16>) -> String {
    let Some(step) = step else {
        return " at initial connection step of tcp-check".into();
    };
    let what = match &step.action {
        CheckAction::Connect { .. } => match port {
            Some(port) => format!(" (connect port {port})"),
            None => " (connect)".into(),
        },
        CheckAction::Expect(e) => format!(" (expect {})", expected(e)),
        CheckAction::Send(_) | CheckAction::SendFormat { .. } | CheckAction::SendHttp { .. } => {
            " (send)".into()
        }
        CheckAction::SetVar { .. }
        | CheckAction::SetVarFormat { .. }
        | CheckAction::UnsetVar(_) => String::new(),
    };
    let comment = match &step.comment {
        Some(comment) => format!(" comment: '{comment}'"),
        None => String::new(),
    };
    format!(" at step {} of tcp-check{what}{comment}", step.number)
}

/// As much of a report as is kept: what HAProxy's buffer for it holds.
pub fn limited(mut info: String) -> String {
    const INFO_MAX: usize = 127;
    info.truncate(info.floor_char_boundary(INFO_MAX));
    info
}

fn expected(e: &CheckExpect) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match &e.matcher {
        CheckMatch::String(s) | CheckMatch::Prefix(s) => format!("string '{}'", text(s)),
        CheckMatch::Binary(s) => format!("binary '{}'", readable(s)),
        CheckMatch::Regex(_) => "regex".into(),
        CheckMatch::BinaryRegex(_) => "binary regex".into(),
        CheckMatch::StringFormat(_) => "log-format string".into(),
        CheckMatch::BinaryFormat(_) => "log-format binary".into(),
        CheckMatch::Status(_) => "HTTP status codes".into(),
        CheckMatch::StatusRegex(_) => "HTTP status regex".into(),
        CheckMatch::Header { .. } => "HTTP header pattern".into(),
        CheckMatch::Protocol(_) => "custom function".into(),
    }
}

/// Bytes for a log: those that do not print, and the `<` that marks them, are told as `<3C>`.
fn readable(bytes: &[u8]) -> String {
    let mut out = String::new();
    for b in bytes {
        match b {
            b' '..=b'~' if *b != b'<' => out.push(*b as char),
            _ => out.push_str(&format!("<{b:02X}>")),
        }
    }
    out
}

/// An answer that is not what was expected (or, with `!`, just what was not).
pub fn unexpected(step: &CheckStep, e: &CheckExpect) -> String {
    let what = match &e.matcher {
        CheckMatch::String(s) | CheckMatch::Prefix(s) => {
            format!("'{}'", String::from_utf8_lossy(s))
        }
        CheckMatch::Binary(_) => "(binary)".into(),
        CheckMatch::Regex(_) | CheckMatch::StatusRegex(_) => "(regex)".into(),
        CheckMatch::BinaryRegex(_) => "(binary regex)".into(),
        CheckMatch::StringFormat(_) => "(log-format string)".into(),
        CheckMatch::BinaryFormat(_) => "(log-format binary)".into(),
        CheckMatch::Status(_) => "(status codes)".into(),
        CheckMatch::Header { .. } => "(header pattern)".into(),
        CheckMatch::Protocol(_) => "(custom function)".into(),
    };
    let verb = if e.negate {
        "matched unwanted content"
    } else {
        "did not match content"
    };
    format!("TCPCHK {verb} {what} at step {}", step.number)
}

/// The comment of a step, behind its message.
pub fn with_comment(message: String, step: &CheckStep) -> String {
    match &step.comment {
        Some(comment) => format!("{message} comment: {comment}"),
        None => message,
    }
}
