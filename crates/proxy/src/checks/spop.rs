//! What an SPOE agent answers to the hello of a check (SPOE.txt, sections 3.2 and 3.3 of HAProxy's documentation): an
//! AGENT-HELLO that names a version and a frame size to agree on, or an AGENT-DISCONNECT with its reason.

use sluice_engine::health::CheckStatus;

use super::protocol::Judged;

const AGENT_HELLO: u8 = 101;
const AGENT_DISCONNECT: u8 = 102;

/// The largest frame that was offered; what HAProxy offers with buffers of 16 KiB.
const FRAME_MAX: u64 = 16380;
/// The smallest that makes sense.
const FRAME_MIN: u64 = 256;

const INVALID: &str = "invalid frame received";

/// Reasons of AGENT-DISCONNECT by number.
const REASONS: [&str; 14] = [
    "normal",
    "I/O error",
    "a timeout occurred",
    "frame is too big",
    INVALID,
    "version value not found",
    "max-frame-size value not found",
    "capabilities value not found",
    "unsupported version",
    "max-frame-size too big or too small",
    "fragmentation not supported",
    "invalid interlaced frames",
    "frame-id not found",
    "resource allocation error",
];

/// Judges what came so far; `ended`: no more will come.
pub fn agent_hello(bytes: &[u8], ended: bool) -> Judged {
    let Some((len, frame)) = bytes.split_first_chunk::<4>() else {
        return Judged::NeedMore;
    };
    let len = u32::from_be_bytes(*len) as usize;
    if frame.len() < len && !ended {
        return Judged::NeedMore;
    }
    let frame = frame.get(..len).unwrap_or(frame);
    match judge(frame) {
        Ok(()) => Judged::Passed("SPOA server is ok".into()),
        Err(why) => Judged::Failed(CheckStatus::L7Resp, 0, why.into()),
    }
}

fn judge(frame: &[u8]) -> Result<(), &'static str> {
    let mut at = Reader(frame);
    let (kind, flags) = at.head().ok_or(INVALID)?;
    if !matches!(kind, AGENT_HELLO | AGENT_DISCONNECT) {
        return Err(INVALID);
    }
    // a fragment: the last one says so
    if flags & 1 == 0 {
        return Err(REASONS[10]);
    }
    // neither is of a stream
    if at.number() != Some(0) || at.number() != Some(0) {
        return Err(INVALID);
    }
    match kind {
        AGENT_HELLO => hello(at),
        _ => Err(reason(at)),
    }
}

fn hello(mut at: Reader<'_>) -> Result<(), &'static str> {
    let (mut version, mut size) = (false, false);
    while !at.0.is_empty() {
        let name = at.text().ok_or(INVALID)?;
        let value = at.value().ok_or(INVALID)?;
        match (name, value) {
            (b"version", Typed::Text(text)) if supported(text) => version = true,
            (b"version", Typed::Text(_)) => return Err(REASONS[8]),
            (b"max-frame-size", Typed::Number(n)) if (FRAME_MIN..=FRAME_MAX).contains(&n) => {
                size = true;
            }
            (b"max-frame-size", Typed::Number(_)) => return Err(REASONS[9]),
            (b"version" | b"max-frame-size", _) => return Err(INVALID),
            _ => {}
        }
    }
    match (version, size) {
        (false, _) => Err(REASONS[5]),
        (_, false) => Err(REASONS[6]),
        _ => Ok(()),
    }
}

/// `2.0`, or another 2.x.
fn supported(version: &[u8]) -> bool {
    version
        .trim_ascii()
        .strip_prefix(b"2.")
        .is_some_and(|minor| !minor.is_empty() && minor.iter().all(u8::is_ascii_digit))
}

fn reason(mut at: Reader<'_>) -> &'static str {
    while let (Some(name), Some(value)) = (at.text(), at.value()) {
        if let (b"status-code", Typed::Number(n)) = (name, value) {
            let known = usize::try_from(n).ok().and_then(|n| REASONS.get(n));
            return known.copied().unwrap_or("unknown error");
        }
    }
    INVALID
}

/// A value by its type's number: 2 to 5 are the integers, 8 is text.
enum Typed<'a> {
    Number(u64),
    Text(&'a [u8]),
    Other,
}

/// Walks over a frame.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(taken)
    }
    fn byte(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }
    /// Type and flags.
    fn head(&mut self) -> Option<(u8, u32)> {
        let kind = self.byte()?;
        let flags = self.take(4)?.try_into().ok()?;
        Some((kind, u32::from_be_bytes(flags)))
    }
    /// A number of variable length: below 240 one byte, else 4 bits there and 7 in each that follows.
    fn number(&mut self) -> Option<u64> {
        let first = u64::from(self.byte()?);
        if first < 240 {
            return Some(first);
        }
        let (mut n, mut shift) = (first, 4);
        loop {
            let byte = u64::from(self.byte()?);
            n = n.checked_add(byte.checked_mul(1u64.checked_shl(shift)?)?)?;
            shift += 7;
            if byte < 128 {
                return Some(n);
            }
        }
    }
    fn text(&mut self) -> Option<&'a [u8]> {
        let len = self.number()?;
        self.take(usize::try_from(len).ok()?)
    }
    fn value(&mut self) -> Option<Typed<'a>> {
        Some(match self.byte()? & 0x0f {
            0 | 1 => Typed::Other,
            2..=5 => Typed::Number(self.number()?),
            6 => self.take(4).map(|_| Typed::Other)?,
            7 => self.take(16).map(|_| Typed::Other)?,
            8 => Typed::Text(self.text()?),
            9 => self.text().map(|_| Typed::Other)?,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(s: &str) -> Vec<u8> {
        [&[s.len() as u8], s.as_bytes()].concat()
    }
    fn item(name: &str, value: &[u8]) -> Vec<u8> {
        [text(name), value.to_vec()].concat()
    }
    fn version(s: &str) -> Vec<u8> {
        item("version", &[vec![8], text(s)].concat())
    }
    fn size(bytes: &[u8]) -> Vec<u8> {
        item("max-frame-size", &[&[3], bytes].concat())
    }
    /// A frame of a type with flags and ids.
    fn frame(kind: u8, flags: u8, stream: u8, items: &[Vec<u8>]) -> Vec<u8> {
        let body = [&[kind, 0, 0, 0, flags, stream, 0], &items.concat()[..]].concat();
        [&(body.len() as u32).to_be_bytes(), &body[..]].concat()
    }
    fn check(bytes: &[u8], expect: Result<(), &str>) {
        let want = match expect {
            Ok(()) => Judged::Passed("SPOA server is ok".into()),
            Err(why) => Judged::Failed(CheckStatus::L7Resp, 0, why.into()),
        };
        assert_eq!(agent_hello(bytes, true), want);
    }

    const K16: &[u8] = &[0xfc, 0xf0, 0x06];

    #[test]
    fn answers_and_what_is_said_of_them() {
        let good = frame(101, 1, 0, &[version("2.0"), size(K16)]);
        check(&good, Ok(()));
        check(&frame(101, 1, 0, &[size(K16)]), Err(REASONS[5]));
        check(&frame(101, 1, 0, &[version("2.0")]), Err(REASONS[6]));
        check(
            &frame(101, 1, 0, &[version("1.0"), size(K16)]),
            Err(REASONS[8]),
        );
        check(
            &frame(101, 1, 0, &[version("2.0"), size(&[100])]),
            Err(REASONS[9]),
        );
        check(
            &frame(101, 1, 0, &[item("version", &[3, 2]), size(K16)]),
            Err(INVALID),
        );
        check(
            &frame(101, 0, 0, &[version("2.0"), size(K16)]),
            Err(REASONS[10]),
        );
        check(
            &frame(101, 1, 1, &[version("2.0"), size(K16)]),
            Err(INVALID),
        );
        check(&frame(103, 1, 0, &[]), Err(INVALID));
        check(
            &frame(102, 1, 0, &[item("status-code", &[3, 8])]),
            Err(REASONS[8]),
        );
        check(
            &frame(102, 1, 0, &[item("status-code", &[3, 77])]),
            Err("unknown error"),
        );
        check(&[0, 0, 0, 0], Err(INVALID));
    }

    #[test]
    fn any_bytes_are_judged() {
        let good = frame(101, 1, 0, &[version("2.0"), size(K16)]);
        for n in 0..good.len() {
            assert_eq!(agent_hello(&good[..n], false), Judged::NeedMore, "{n}");
            assert!(
                !matches!(agent_hello(&good[..n], true), Judged::Passed(_)),
                "{n}"
            );
        }
        let huge = [&good[..11], &[0xff; 40]].concat();
        check(&huge, Err(INVALID));
    }
}
