//! What an `expect` step says of what a server answered.

use sluice_config::model::{CheckExpect, CheckMatch, NameMatch};
use sluice_expr::LogFormat;
use sluice_expr::env::Env;
use sluice_http::Response;

/// What a check knows of the answer so far.
pub struct Answer<'a> {
    /// Raw bytes, or the body of an HTTP response.
    pub bytes: &'a [u8],
    pub response: Option<&'a Response>,
    /// No more will come.
    pub ended: bool,
}

/// The outcome of one `expect`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Matched,
    Failed,
    /// More bytes could still decide it.
    NeedMore,
}

/// Judges an answer.
pub fn judge(e: &CheckExpect, a: &Answer<'_>, env: &dyn Env) -> Verdict {
    // a status never changes
    let fixed = !e.matcher.is_of_content();
    let least = match &e.matcher {
        CheckMatch::String(s) | CheckMatch::Binary(s) => s.len(),
        _ => 0,
    };
    let min_recv = e.min_recv.and_then(|n| usize::try_from(n).ok());
    if !fixed && !a.ended && a.bytes.len() < least.max(min_recv.unwrap_or(0)) {
        return Verdict::NeedMore;
    }
    let found = matches(&e.matcher, a, env);
    // a pattern that is not there may still come, unless `min-recv` says that this much is enough to tell
    if !found && !fixed && !a.ended && min_recv.is_none() {
        return Verdict::NeedMore;
    }
    if found != e.negate {
        Verdict::Matched
    } else {
        Verdict::Failed
    }
}

fn matches(m: &CheckMatch, a: &Answer<'_>, env: &dyn Env) -> bool {
    let contains = |needle: &[u8]| memchr::memmem::find(a.bytes, needle).is_some();
    let text = |f: &LogFormat| {
        let mut out = Vec::new();
        f.write(env, &mut out);
        out
    };
    match m {
        CheckMatch::String(s) | CheckMatch::Binary(s) => contains(s),
        CheckMatch::Prefix(p) => a.bytes.starts_with(p),
        CheckMatch::Regex(r) => r.is_match(a.bytes),
        CheckMatch::BinaryRegex(r) => r.is_match(hex(a.bytes).as_bytes()),
        CheckMatch::StringFormat(f) => contains(&text(f)),
        CheckMatch::BinaryFormat(f) => unhex(&text(f)).is_some_and(|b| contains(&b)),
        CheckMatch::Status(ranges) => a.response.is_some_and(|r| {
            ranges
                .iter()
                .any(|(low, high)| (*low..=*high).contains(&r.status))
        }),
        CheckMatch::StatusRegex(re) => a
            .response
            .is_some_and(|r| re.is_match(r.status.to_string().as_bytes())),
        // judged by `protocol`
        CheckMatch::Protocol(_) => false,
        CheckMatch::Header { name, value, full } => a
            .response
            .is_some_and(|r| header(r, name, value.as_ref(), *full, &text)),
    }
}

fn header(
    r: &Response,
    name: &NameMatch,
    value: Option<&NameMatch>,
    full: bool,
    text: &dyn Fn(&LogFormat) -> Vec<u8>,
) -> bool {
    r.headers.iter().any(|(n, v)| {
        let lower = n.to_ascii_lowercase();
        if !name_matches(name, &lower, true, text) {
            return false;
        }
        match value {
            None => true,
            Some(m) if full => name_matches(m, v, false, text),
            Some(m) => sluice_http::list_items(v).any(|item| name_matches(m, item, false, text)),
        }
    })
}

fn name_matches(
    m: &NameMatch,
    subject: &[u8],
    lower: bool,
    text: &dyn Fn(&LogFormat) -> Vec<u8>,
) -> bool {
    let pattern = |f: &LogFormat| {
        let t = text(f);
        if lower { t.to_ascii_lowercase() } else { t }
    };
    match m {
        NameMatch::Exact(f) => subject == pattern(f),
        NameMatch::Prefix(f) => subject.starts_with(&pattern(f)),
        NameMatch::Suffix(f) => subject.ends_with(&pattern(f)),
        NameMatch::Sub(f) => memchr::memmem::find(subject, &pattern(f)).is_some(),
        NameMatch::Regex(r) => r.is_match(subject),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02X}")).collect()
}

/// Bytes of a hexadecimal text.
pub fn unhex(text: &[u8]) -> Option<Vec<u8>> {
    let digit = |b: &u8| (*b as char).to_digit(16);
    text.chunks(2)
        .map(|p| Some((digit(p.first()?)? * 16 + digit(p.get(1)?)?) as u8))
        .collect()
}
